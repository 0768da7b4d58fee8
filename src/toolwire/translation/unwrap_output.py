"""Unwrap an output that the target's wire could only express as the one field of an object.

Some wires accept only a schema of an object as output. A schema of any other value is wrapped in an object with one
field, and the answer is unwrapped here: the client gets the value alone.

Rules of this file:
- A value of an enum (Gemini's `text/x.enum`) is returned without its quotes, once all of it has arrived.
- The text of any other value is emitted as the model wrote it, while it arrives.
- An answer that is not an object with this field alone is returned unchanged.
"""

import re
from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from toolwire.dialects import Dialect
from toolwire.encoding.ledger import spelling_of
from toolwire.schema.wrapping import VALUE, is_of_object
from toolwire.types import Choice, Event, Output, PartEnd, PartStart, Request, Response, Text, TextDelta
from toolwire.types.spelling.gemini import GeminiRequestSpelling

_OPENING = re.compile(rf'\s*\{{\s*"{VALUE}"\s*:\s*(?=\S)')
_USUAL_OPENING = f'{{"{VALUE}":'
_read = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _ValueText:
    """Parses the text of a value from its object while it arrives, without the white space around it."""

    __slots__ = ("_blanks", "_depth", "_escaped", "_in_text", "_reader", "_undecided")

    def __init__(self) -> None:
        self._undecided = ""
        self._blanks: list[str] = []  # white space that follows the undecided text
        self._depth = 0
        self._in_text = self._escaped = False
        self._reader: Callable[[str], str] = self._read_opening

    @property
    def undecided(self) -> str:
        """The text that may or may not belong to the value."""
        return self._undecided + "".join(self._blanks)

    def feed(self, text: str) -> str:
        """Add text. Return the text that belongs to the value, or to an answer that is not such an object."""
        if (self._undecided or self._blanks) and text.isspace():
            self._blanks.append(text)
            return ""
        text, self._undecided = self.undecided + text, ""
        self._blanks.clear()
        return self._reader(text)

    def _read_opening(self, text: str) -> str:
        opening = _OPENING.match(text)
        if opening is not None:
            self._reader = self._read_value
            return self._read_value(text[opening.end() :])
        if _USUAL_OPENING.startswith("".join(text.split())):
            self._undecided = text
            return ""
        self._reader = _pass_through
        return text

    def _read_value(self, text: str) -> str:
        for position, character in enumerate(text):
            if self._in_text:
                self._in_text = self._escaped or character != '"'
                self._escaped = character == "\\" and not self._escaped
            elif character == '"':
                self._in_text = True
            elif character in "[{":
                self._depth += 1
            elif character in "]}" and self._depth:
                self._depth -= 1
            elif character in ",}" and not self._depth:
                self._reader = _pass_through if character == "," else self._read_rest
                return text[:position].rstrip() + self._reader(text[position + (character == "}") :])
        certain = text if self._depth or self._in_text else text.rstrip()
        self._undecided = text[len(certain) :]
        return certain

    def _read_rest(self, text: str) -> str:
        rest = text.lstrip()
        self._reader = _pass_through if rest else self._read_rest
        return rest


class _EnumText:
    """Collects the text of an enum value, which is emitted at its end."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: list[str] = []

    def feed(self, text: str) -> str:
        """Add text. Return an empty string, because nothing is emitted before the end."""
        self._texts.append(text)
        return ""

    @property
    def undecided(self) -> str:
        """The enum value without its quotes."""
        return _enum_of("".join(self._texts))


def _pass_through(text: str) -> str:
    return text


class OutputUnwrapper:
    """Unwraps the output of one answer."""

    def __init__(self, *, is_enum: bool = False) -> None:
        self._open: dict[int, _ValueText | _EnumText] = {}
        self._parser: type[_ValueText | _EnumText] = _EnumText if is_enum else _ValueText
        self._read = _enum_of if is_enum else _value_of

    def unwrap_response(self, response: Response) -> Response:
        """Return a whole answer with the value alone."""
        return replace(response, choices=[_choice(choice, self._read) for choice in response.choices])

    def unwrap_events(self, event: Event) -> Iterator[Event]:
        """Yield an event of a stream with the text that belongs to the value."""
        match event:
            case PartStart(key=key, part=Text(text=text) as part):
                value = self._open[key] = self._parser()
                yield replace(event, part=replace(part, text=value.feed(text))) if text else event
            case TextDelta(key=key, text=text) if key in self._open:
                if decided := self._open[key].feed(text):
                    yield replace(event, text=decided)
            case PartEnd(key=key) if key in self._open:
                if undecided := self._open.pop(key).undecided:
                    yield TextDelta(key=key, text=undecided)
                yield event
            case _:
                yield event


def is_value_output(output: Output | None) -> bool:
    """Return True if `output` is a schema of values that need not be objects."""
    return (
        output is not None and output.kind == "schema" and output.schema is not None and not is_of_object(output.schema)
    )


def output_unwrapper(request: Request, source: Dialect, target: Dialect) -> OutputUnwrapper | None:
    """Return an unwrapper for the answer to `request`, or None if the answer needs none.

    `source` is the client's dialect, and `target` the dialect of the answer.
    """
    is_enum = asks_for_enum(request)
    if source.DIALECT == target.DIALECT or not (is_enum or target.TRAITS.wraps_output):
        return None
    return OutputUnwrapper(is_enum=is_enum) if is_value_output(request.output) else None


def asks_for_enum(request: Request) -> bool:
    """Return True if `request` asks for an enum value without quotes (`text/x.enum` of generateContent)."""
    return spelling_of(request.opaque, GeminiRequestSpelling).has_enum_output


def _choice(choice: Choice, read: Callable[[str], str]) -> Choice:
    content = choice.message.content
    if isinstance(content, str):
        content = read(content)
    elif isinstance(content, list):
        content = [replace(part, text=read(part.text)) if type(part) is Text else part for part in content]
    return replace(choice, message=replace(choice.message, content=content))


def _value_of(text: str) -> str:
    try:
        fields = _read(text)
    except msgspec.MsgspecError:
        return text
    return bytes(fields[VALUE]).decode() if fields.keys() == {VALUE} else text


def _enum_of(text: str) -> str:
    value = _value_of(text)
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.MsgspecError:
        return text
