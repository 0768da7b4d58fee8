"""The output of a running conversation: streamed text, calls, changes, results, tokens and cost.

Rules of this file:
- Long output is shortened on the screen only, and the screen states how much is left out.
- Unknown values are not shown: an unknown cost is not a cost of zero.
- If the answer and the steps go to different outputs, the text of a turn is held until the turn ends. Text before a
  call is a step, and the text of the last turn is the answer.
- `--json` writes one object a line. Its `type` is one of the table in docs/command-line.md.
"""

import json
from collections.abc import Callable, Iterable
from math import ceil
from typing import Any

import msgspec

from toolwire.cli.markdown import ProseWriter
from toolwire.cli.screen import Screen, shorten
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
# The events after which no text of the same block follows.
_AFTER_TEXT = (AskModel, RunTools, MessageStart, MessageEnd, CallStart, CallEnd, ThinkingDelta, ToolResult, Retrying)
_CHANGES = {"+": "added", "-": "removed"}


def call_summary(call: ToolCall) -> str:
    """Return `call` on one short line."""
    if not call.runs:
        return f"{call.name}(?)"
    arguments = ", ".join(
        f"{name}={shorten(json.dumps(value, ensure_ascii=False), _VALUE)}" for name, value in call.arguments.items()
    )
    return shorten(f"{call.name}({arguments})", _CALL)


def cut(text: str, lines: int = _LINES, characters: int = _CHARACTERS) -> list[str]:
    """Return the first and last lines of `text`, at most `lines`, and one line that counts the omitted ones."""
    all_lines = text.split("\n")
    omitted = len(all_lines) - lines
    last = lines // 3 if omitted > 0 else 0
    line_limit = max(1, characters // (len(all_lines[: lines - last]) + last))
    shown = [_cut_line(line, line_limit) for line in all_lines]
    if omitted <= 0:
        return shown
    return [*shown[: lines - last], f"[{omitted} more lines are not shown]", *shown[len(shown) - last :]]


def _cut_line(line: str, line_limit: int) -> str:
    omitted = len(line) - line_limit
    return line if omitted <= 0 else f"{line[:line_limit]} [{omitted} more characters are not shown]"


def usage_summary(usage: Usage | None, money: float | None) -> str:
    """Return the tokens and the cost as text, as far as they are known."""
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


def result_text(result: ToolResult) -> str:
    """Return the text of a result. A part that is not text is shown as its type, in brackets."""
    if isinstance(result.content, str):
        return result.content
    texts = (part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in result.content)
    return "\n".join(texts)


def show_change(screen: Screen, preview: str, lines: int) -> None:
    """Show the preview of a call, with removed and added lines in different colours."""
    for line in cut(preview, lines, 200 * lines):
        screen.line(f"  {line}", _CHANGES.get(line[:1], ""))


class EventDisplay:
    """Shows the events of a conversation to a person. With `separate_answer`, the answer is left out."""

    def __init__(self, screen: Screen, *, separate_answer: bool = False) -> None:
        self.screen: Screen = screen
        self.separate_answer: bool = separate_answer
        self._held_text = ""
        self._prose = ProseWriter(screen)
        self._turn = Accumulator()
        self._heads: list[str] = []
        self._answered = 0
        self._look = ""
        self._begun = False

    def show(self, event: Any) -> None:
        """Show `event` if a person should see it."""
        if isinstance(event, _AFTER_TEXT):
            self._prose.close()
        self._show_wait(event)
        match event:
            case MessageStart():
                self.release_text()
                if self._begun:
                    self.screen.line()
                self._begun = True
                self._turn = Accumulator()
                self._heads, self._answered = [], 0
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._write_or_hold(text, "")
            case ThinkingDelta(text=text):
                self._write_or_hold(text, "thinking")
            case CallEnd(call=call):
                self._call(call)
            case ToolResult():
                self._result(event)
        if isinstance(event, Event):
            self._turn.feed(event)
        if isinstance(event, MessageEnd):
            self._count()

    def _show_wait(self, event: Any) -> None:
        match event:
            case CallStart(name=name):
                self.release_text()
                self.screen.start_line()
                self.screen.wait(lambda seconds: f"the model writes a call of {name}, {seconds:.0f} s")
            case RunTools(calls=calls):
                show_running(self.screen, calls[0].name if len(calls) == 1 else f"{len(calls)} calls")
            case _:
                show_progress(self.screen, event)

    def release_text(self) -> None:
        """Write the held text: it turned out not to be the answer."""
        held, self._held_text = self._held_text, ""
        if held:
            self._write(held, "")
        self._prose.close()

    def _write_or_hold(self, text: str, look: str) -> None:
        if self.separate_answer and not look:
            self._held_text += text
        else:
            self._write(text, look)

    def _write(self, text: str, look: str) -> None:
        if look != self._look:
            self.screen.start_line()
            if look == "thinking" and not self.screen.coloured:
                self.screen.write("[thinking] ", look)
        self._look = look
        if look:
            self.screen.write(text, look)
        else:
            self._prose.write(text)

    def _call(self, call: ToolCall) -> None:
        self.release_text()
        self.screen.line(f"> {call_summary(call)}", "call")
        if call.runs:
            self._heads.append(call_summary(call))
        else:
            self.screen.line(f"  not run: {call.error or 'the call was cut off'}", "error")

    def _result(self, result: ToolResult) -> None:
        if 1 < len(self._heads) > self._answered:
            self.screen.line(f"< {shorten(self._heads[self._answered], _AGAIN)}", "note")
        self._answered += 1
        self.show_lines(result_text(result).rstrip("\n"), "error" if result.is_error else "")

    def show_lines(self, text: str, look: str) -> None:
        """Show the first and last lines of a text, indented."""
        for line in cut(text):
            self.screen.line(f"  {line}", look)

    def _count(self) -> None:
        response = self._turn.response
        counts = usage_summary(response.usage, cost(response.usage, response.model))
        self.screen.start_line()
        if counts:
            self.screen.line(f"[{counts}]", "note")


def show_progress(screen: Screen, event: Any) -> None:
    """Show that the client waits for the model, or for a retry."""
    match event:
        case AskModel():
            screen.wait(_model_wait)
        case MessageEnd():
            screen.wait(None)
        case Retrying():
            why = " ".join(event.error.message.split())
            if screen.wipes:
                screen.wait(lambda seconds: _retry_wait(event.seconds - seconds, why))
            else:
                screen.line(f"[{_retry_wait(event.seconds, why)}]", "note")


def show_running(screen: Screen, name: str, last: Callable[[], str] = str) -> None:
    """Show that the tool `name` runs and for how long; `last` returns the last line of its output."""
    screen.wait(lambda seconds: f"{name} running, {seconds:.0f} s {last()}")


class JsonEventWriter:
    """Writes the events of a conversation as lines of JSON; `put` writes any other object."""

    def __init__(self, screen: Screen) -> None:
        self.screen: Screen = screen

    def put(self, kind: str, **fields: Any) -> None:
        """Write one line, with `kind` as its `type`."""
        self.screen.write_raw(msgspec.json.encode({"type": kind, **fields}).decode() + "\n")

    def release_text(self) -> None:
        """Do nothing: this writer holds no text."""

    def show(self, event: Any) -> None:
        """Write `event` if the table has a type for it."""
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
                self.put("result", **names, content=result_text(event), is_error=event.is_error)
            case Retrying():
                self.put("retry", seconds=event.seconds, error=event.error.message)


EventOutput = EventDisplay | JsonEventWriter


def _model_wait(seconds: float) -> str:
    return f"waiting for the model, {seconds:.0f} s"


def _retry_wait(seconds: float, why: str) -> str:
    return f"retry in {ceil(seconds)} s: {why}" if seconds > 0 else _model_wait(-seconds)


def show_losses(screen: Screen, losses: Iterable[Loss], provider: str) -> None:
    """Show the first semantic loss and the number of the others, on one line."""
    lost = [loss for loss in losses if loss.severity == "semantic"]
    if lost:
        more = f", and {len(lost) - 1} more" if lost[1:] else ""
        screen.line(f"[not sent to {provider}: {lost[0]}{more}]", "note")
