"""What a conversation looks like: words as they come, calls, changes, results, tokens and money.

Rules of this file:
- What is too long for a screen is cut there alone, and it is said how much was left out.
- What is not known is not shown: no cost is another thing than no money.
- Where the answer goes to another place than the steps do, the words of a turn wait for its end: those before a call
  are a step, and those of the last turn are the answer.
- `--json` gives one object a line: `type` says which, as in the table of docs/command-line.md.
"""

import json
from collections.abc import Callable, Iterable
from math import ceil
from typing import Any

import msgspec

from toolwire.cli.screen import Screen, shortened
from toolwire.client.exchange import Retrying
from toolwire.loop import AskModel, RunTools
from toolwire.providers.catalogue import cost
from toolwire.streams.accumulation import Accumulator
from toolwire.types import (
    CallEnd,
    CallStart,
    Event,
    Loss,
    MessageEnd,
    MessageStart,
    RefusalDelta,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    Usage,
)
from toolwire.types.answer import is_count

_VALUE, _CALL, _AGAIN = 60, 200, 60
_LINES, _CHARACTERS = 12, 2000
_CHANGES = {"+": "added", "-": "removed"}


def head_of(call: ToolCall) -> str:
    """Write a call on one line, in short."""
    if not call.runs:
        return f"{call.name}(?)"
    arguments = ", ".join(
        f"{name}={shortened(json.dumps(value, ensure_ascii=False), _VALUE)}" for name, value in call.arguments.items()
    )
    return shortened(f"{call.name}({arguments})", _CALL)


def cut(text: str, lines: int = _LINES, characters: int = _CHARACTERS) -> list[str]:
    """Give the first lines of a text and its last ones, and say how much is left out."""
    whole = text.split("\n")
    over = len(whole) - lines
    last = lines // 3 if over > 0 else 0
    longest = max(1, characters // (len(whole[: lines - last]) + last))
    shown = [_cut_line(line, longest) for line in whole]
    if over <= 0:
        return shown
    return [*shown[: lines - last], f"[{over} more lines are not shown]", *shown[len(shown) - last :]]


def _cut_line(line: str, longest: int) -> str:
    over = len(line) - longest
    return line if over <= 0 else f"{line[:longest]} [{over} more characters are not shown]"


def counted(usage: Usage | None, money: float | None) -> str:
    """Write tokens and cost, as far as they are known."""
    counts = []
    if usage is not None and is_count(usage.input_tokens):
        read = usage.cache_read_tokens
        cached = f" ({read:,} cached)" if read and is_count(read) else ""
        counts.append(f"{usage.input_tokens:,} tokens in{cached}")
    if usage is not None and is_count(usage.output_tokens):
        counts.append(f"{usage.output_tokens:,} tokens out")
    if money is not None:
        counts.append(f"${money:.4f}" if money else "free")
    return ", ".join(counts)


def words_of(result: ToolResult) -> str:
    """Give a result as words; what is no text is named."""
    if isinstance(result.content, str):
        return result.content
    kinds = (part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in result.content)
    return "\n".join(kinds)


def show_change(screen: Screen, preview: str, lines: int) -> None:
    """Show what a call would do: what goes in one look, what comes in another."""
    for line in cut(preview, lines, 200 * lines):
        screen.line(f"  {line}", _CHANGES.get(line[:1], ""))


class Showing:
    """Shows the events of a conversation to a person; with `apart`, the answer is not among them."""

    def __init__(self, screen: Screen, *, apart: bool = False) -> None:
        self.screen: Screen = screen
        self.apart: bool = apart
        self._held = ""
        self._turn = Accumulator()
        self._heads: list[str] = []
        self._answered = 0
        self._look = ""
        self._begun = False

    def tell(self, event: Any) -> None:
        """Show an event, if it is one to be seen."""
        self._say_what_is_waited_for(event)
        match event:
            case MessageStart():
                self.give_up()
                if self._begun:
                    self.screen.line()
                self._begun = True
                self._turn = Accumulator()
                self._heads, self._answered = [], 0
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._words(text, "")
            case ThinkingDelta(text=text):
                self._words(text, "thinking")
            case CallEnd(call=call):
                self._call(call)
            case ToolResult():
                self._result(event)
        if isinstance(event, Event):
            self._turn.feed(event)
        if isinstance(event, MessageEnd):
            self._count()

    def _say_what_is_waited_for(self, event: Any) -> None:
        match event:
            case AskModel():
                self.screen.wait(_for_the_model)
            case CallStart(name=name):
                self.give_up()
                self.screen.fresh()
                self.screen.wait(lambda seconds: f"the model writes a call of {name}, {seconds:.0f} s")
            case MessageEnd():
                self.screen.wait(None)
            case RunTools(calls=calls):
                show_running(self.screen, calls[0].name if len(calls) == 1 else f"{len(calls)} calls")
            case Retrying():
                self._retry(event)

    def give_up(self) -> None:
        """Show the words that waited, and are not the answer."""
        held, self._held = self._held, ""
        if held:
            self._write(held, "")

    def _words(self, text: str, look: str) -> None:
        if self.apart and not look:
            self._held += text
        else:
            self._write(text, look)

    def _write(self, text: str, look: str) -> None:
        if look != self._look:
            self.screen.fresh()
            if look == "thinking" and not self.screen.coloured:
                self.screen.write("[thinking] ", look)
        self._look = look
        self.screen.write(text, look)

    def _retry(self, event: Retrying) -> None:
        why = " ".join(event.error.message.split())
        if self.screen.wipes:
            self.screen.wait(lambda seconds: _until_again(event.seconds - seconds, why))
        else:
            self.screen.line(f"[{_until_again(event.seconds, why)}]", "note")

    def _call(self, call: ToolCall) -> None:
        self.give_up()
        self.screen.line(f"> {head_of(call)}", "call")
        if call.runs:
            self._heads.append(head_of(call))
        else:
            self.screen.line(f"  it is not run: {call.error or 'it was cut off'}", "error")

    def _result(self, result: ToolResult) -> None:
        if 1 < len(self._heads) > self._answered:
            self.screen.line(f"< {shortened(self._heads[self._answered], _AGAIN)}", "note")
        self._answered += 1
        self.show_lines(words_of(result).rstrip("\n"), "error" if result.is_error else "")

    def show_lines(self, text: str, look: str) -> None:
        """Show some lines of a text, set in."""
        for line in cut(text):
            self.screen.line(f"  {line}", look)

    def _count(self) -> None:
        response = self._turn.response
        counts = counted(response.usage, cost(response.usage, response.model))
        self.screen.fresh()
        if counts:
            self.screen.line(f"[{counts}]", "note")


def show_running(screen: Screen, name: str, last: Callable[[], str] = str) -> None:
    """Say what runs, for as long as it is waited for, and what it wrote last."""
    screen.wait(lambda seconds: f"{name} running, {seconds:.0f} s {last()}")


class JsonShowing:
    """Writes the events of a conversation as JSON, one to a line; `put` writes any other thing."""

    def __init__(self, screen: Screen) -> None:
        self.screen: Screen = screen

    def put(self, kind: str, **what: Any) -> None:
        """Write one line."""
        self.screen.put_whole(msgspec.json.encode({"type": kind, **what}).decode() + "\n")

    def give_up(self) -> None:
        """Do nothing: nothing waits."""

    def tell(self, event: Any) -> None:
        """Write an event, if it is one of the table."""
        match event:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self.put("text", text=text)
            case ThinkingDelta(text=text):
                self.put("thinking", text=text)
            case CallEnd(call=call):
                broken = {} if call.runs else {"error": call.error or "it was cut off", "raw": call.raw}
                self.put("call", id=call.id, name=call.name, arguments=call.arguments, **broken)
            case ToolResult():
                names = {"id": event.tool_call_id, "name": event.name}
                self.put("result", **names, content=words_of(event), is_error=event.is_error)
            case Retrying():
                self.put("retry", seconds=event.seconds, error=event.error.message)


Shows = Showing | JsonShowing


def _for_the_model(seconds: float) -> str:
    return f"waiting for the model, {seconds:.0f} s"


def _until_again(seconds: float, why: str) -> str:
    return f"retry in {ceil(seconds)} s: {why}" if seconds > 0 else _for_the_model(-seconds)


def show_losses(screen: Screen, losses: Iterable[Loss], provider: str) -> None:
    """Say what a provider cannot be told, in one line."""
    lost = [loss for loss in losses if loss.severity == "semantic"]
    if lost:
        more = f", and {len(lost) - 1} more" if lost[1:] else ""
        screen.line(f"[not sent to {provider}: {lost[0]}{more}]", "note")
