"""Encode calls, results and text in the protocol, so that calls decode as calls and other text never does.

Rules of this file:
- A result is JSON on one line, so no line of a tool's output can begin or end a block. The output decodes unchanged.
- In text that others wrote, a line that would begin a block gets a backslash before its fence. It is then a quotation,
  and does not become a call if the model repeats it.
- A call that cannot run is encoded so that it cannot be mistaken for one that can: its arguments remain a text.
"""

import re
from typing import Any

from toolwire.text.tagged.forms import END, FENCE, FUNCTION, PROTOCOL, TAG, Form
from toolwire.text.tagged.scanner import SHOWN, Scanner, join
from toolwire.types import ToolCall
from toolwire.types.encoded import write_json
from toolwire.wire.arguments import CUT_OFF_SUFFIX, argument_text, parse_arguments

_RESULT = "~~~tool_result"
_ESCAPE = "\\"
_MARKED = rf"\1{_ESCAPE * 2}\2"
_TAGGED = re.compile(rf"^([ \t]*)({TAG}|{FUNCTION})", re.MULTILINE)
_QUOTED = re.compile(r"^([ \t]*)(~~~+[ \t]*tool_(?:call|result))", re.MULTILINE)


def escape_quotes(text: str, forms: tuple[Form, ...] = PROTOCOL) -> str:
    """Add a backslash to every line that looks like the beginning of a block, wherever it is."""
    if "~~~" in text:
        text = _QUOTED.sub(_MARKED, text)
    return text if len(forms) <= len(PROTOCOL) else _TAGGED.sub(_MARKED, text)


def write_call(call: ToolCall) -> str:
    """Return a call as a block."""
    body: dict[str, Any] = {} if call.id is None else {"id": call.id}
    body["name"] = call.name
    body["arguments"] = _arguments_of(call)
    return f"{FENCE}\n{write_json(body).decode()}\n{END}\n"


def _arguments_of(call: ToolCall) -> Any:
    """Return the value of `arguments`: an object, or a text that is not valid JSON if the call cannot run."""
    if call.custom:
        return {"input": call.raw or ""}
    if call.runs:
        return call.plain_arguments
    text = argument_text(call) if call.raw is None else call.raw
    is_valid = parse_arguments(text)[1] is None
    return f"{text}{CUT_OFF_SUFFIX}" if is_valid else text


def write_result(body: dict[str, Any]) -> str:
    """Return a result as a block."""
    return f"{_RESULT}\n{write_json(body).decode()}\n{END}\n"


class Escaper(Scanner):
    """Escapes a text in pieces: lines that would begin a block get a backslash.

    `has_escaped` is True if it added a backslash. `before_block` closes what is open before a block.
    """

    def __init__(self, forms: tuple[Form, ...] = PROTOCOL) -> None:
        super().__init__([form for form in forms if not form.needs_whole_text])
        self.has_escaped: bool = False
        self._is_inside_line = False

    def feed_text(self, text: str) -> str:
        """Return the escaped text that does not have to wait."""
        if text:
            self._is_inside_line = text[-1] != "\n"
        return _words(self.feed(text))

    def finish(self) -> str:
        """Return the remaining text."""
        return _words(self.close())

    def before_block(self) -> str:
        """Return the text that must precede a block: the end of the line, and of the open zone."""
        closing = self.feed_text("\n") if self._is_inside_line else ""
        if self._zone is not None:
            self.has_escaped = True
            closing += self.feed_text(f"{self._zone.end}\n")
        return closing + _words(self.close())

    def _open(self, form: Form) -> None:
        del form
        self.has_escaped = True
        line_start = "".join(self._line)
        self._state = SHOWN
        self._add_text(_ESCAPE + line_start)


def _words(items: list[Any]) -> str:
    return "".join(item for item in join(items) if type(item) is str)


def escape(text: str, forms: tuple[Form, ...] = PROTOCOL) -> str:
    """Return `text` with a backslash before each line that would begin a block. The text stands alone."""
    escaper = Escaper(forms)
    return escaper.feed_text(text) + escaper.finish()
