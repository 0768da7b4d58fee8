"""Calls, results and words as text: what is a call reads as one, and what is none cannot be taken for one.

Rules of this file:
- A result is JSON on one line, so no line of a tool's output can begin or end a block: however the output
  looks, it stays inside. Its words come back exactly.
- In words that others wrote, a line that would begin a block gets a backslash before its fence. It reads as a
  quotation, and calls nothing where a model repeats it.
- What cannot be run is written so that nobody reads it as something that can: its text stands as a text.
"""

import re
from typing import Any

from toolwire.text.tagged.forms import END, FENCE, FUNCTION, PROTOCOL, TAG, Form
from toolwire.text.tagged.scanner import SHOWN, Scanner, join
from toolwire.types import ToolCall
from toolwire.types.encoded import write_json
from toolwire.wire.arguments import BROKEN, argument_text, parse_arguments

_RESULT = "~~~tool_result"
_ESCAPE = "\\"
_MARKED = rf"\1{_ESCAPE * 2}\2"
_TAGGED = re.compile(rf"^([ \t]*)({TAG}|{FUNCTION})", re.MULTILINE)
_QUOTED = re.compile(r"^([ \t]*)(~~~+[ \t]*tool_(?:call|result))", re.MULTILINE)


def escape_quotes(text: str, forms: tuple[Form, ...] = PROTOCOL) -> str:
    """Mark every line that looks like the beginning of a block, wherever it stands."""
    if "~~~" in text:
        text = _QUOTED.sub(_MARKED, text)
    return text if len(forms) <= len(PROTOCOL) else _TAGGED.sub(_MARKED, text)


def write_call(call: ToolCall) -> str:
    """Write a call as a block."""
    body: dict[str, Any] = {} if call.id is None else {"id": call.id}
    body["name"] = call.name
    body["arguments"] = _arguments_of(call)
    return f"{FENCE}\n{write_json(body).decode()}\n{END}\n"


def _arguments_of(call: ToolCall) -> Any:
    """Give what stands under a call's arguments: an object, or the text that is none."""
    if call.custom:
        return {"input": call.raw or ""}
    if call.runs:
        return call.plain_arguments
    text = argument_text(call) if call.raw is None else call.raw
    whole = parse_arguments(text)[1] is None
    return f"{text}{BROKEN}" if whole else text


def write_result(body: dict[str, Any]) -> str:
    """Write a result as a block."""
    return f"{_RESULT}\n{write_json(body).decode()}\n{END}\n"


class Escaper(Scanner):
    """Takes words in pieces and marks lines that would begin a block; `before_block` ends what is open."""

    def __init__(self, forms: tuple[Form, ...] = PROTOCOL) -> None:
        super().__init__([form for form in forms if not form.alone])
        self.marks: bool = False
        self._within = False

    def feed_text(self, text: str) -> str:
        """Give what can be said of these words."""
        if text:
            self._within = text[-1] != "\n"
        return _words(self.feed(text))

    def finish(self) -> str:
        """Give the words that are left."""
        return _words(self.close())

    def before_block(self) -> str:
        """Give what has to be said so that a block can follow: the end of the line, and of what is open."""
        said = self.feed_text("\n") if self._within else ""
        if self._zone is not None:
            self.marks = True
            said += self.feed_text(f"{self._zone.end}\n")
        return said + _words(self.close())

    def _open(self, form: Form) -> None:
        del form
        self.marks = True
        held = "".join(self._line)
        self._state = SHOWN
        self._add_text(_ESCAPE + held)


def _words(found: list[Any]) -> str:
    return "".join(item for item in join(found) if type(item) is str)


def escape(text: str, forms: tuple[Form, ...] = PROTOCOL) -> str:
    """Mark each line that would begin a block where the text stands alone."""
    escaper = Escaper(forms)
    return escaper.feed_text(text) + escaper.finish()
