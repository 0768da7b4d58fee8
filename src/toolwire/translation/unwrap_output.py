"""An answer that stands in the one field of an object, as its client asked for it: the value alone.

Rules of this file:
- A word (Gemini's `text/x.enum`) comes back without its quotes, when all of it has come.
- The text of the value is given as it was written, and as it arrives. What is no object with that field alone is no
  such answer, and stays as it is: nothing of it is left out.
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
_OPENED = f'{{"{VALUE}":'
_read = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Value:
    """The text of a value as it arrives within an object, without the white space around it."""

    __slots__ = ("_blanks", "_depth", "_escaped", "_in_text", "_left", "_reads")

    def __init__(self) -> None:
        self._left = ""
        self._blanks: list[str] = []  # white space that follows what is left
        self._depth = 0
        self._in_text = self._escaped = False
        self._reads: Callable[[str], str] = self._before

    @property
    def left(self) -> str:
        """The text of which it is not sure yet whether it is of the value."""
        return self._left + "".join(self._blanks)

    def feed(self, text: str) -> str:
        """Give what is sure to be of the value, or of an answer that is no such object."""
        if (self._left or self._blanks) and text.isspace():
            self._blanks.append(text)
            return ""
        text, self._left = self.left + text, ""
        self._blanks.clear()
        return self._reads(text)

    def _before(self, text: str) -> str:
        opening = _OPENING.match(text)
        if opening is not None:
            self._reads = self._inside
            return self._inside(text[opening.end() :])
        if _OPENED.startswith("".join(text.split())):
            self._left = text
            return ""
        self._reads = _as_it_is
        return text

    def _inside(self, text: str) -> str:
        for place, mark in enumerate(text):
            if self._in_text:
                self._in_text = self._escaped or mark != '"'
                self._escaped = mark == "\\" and not self._escaped
            elif mark == '"':
                self._in_text = True
            elif mark in "[{":
                self._depth += 1
            elif mark in "]}" and self._depth:
                self._depth -= 1
            elif mark in ",}" and not self._depth:
                self._reads = _as_it_is if mark == "," else self._behind
                return text[:place].rstrip() + self._reads(text[place + (mark == "}") :])
        sure = text if self._depth or self._in_text else text.rstrip()
        self._left = text[len(sure) :]
        return sure

    def _behind(self, text: str) -> str:
        more = text.lstrip()
        self._reads = _as_it_is if more else self._behind
        return more


class _Word:
    """The text of one word, which is given at its end."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: list[str] = []

    def feed(self, text: str) -> str:
        """Give nothing yet."""
        self._texts.append(text)
        return ""

    @property
    def left(self) -> str:
        """The word."""
        return _word_of("".join(self._texts))


def _as_it_is(text: str) -> str:
    return text


class Unwrapping:
    """The way back of one answer."""

    def __init__(self, *, word: bool = False) -> None:
        self._open: dict[int, _Value | _Word] = {}
        self._begin: type[_Value | _Word] = _Word if word else _Value
        self._read = _word_of if word else _value_of

    def response(self, response: Response) -> Response:
        """Give a whole answer with the value alone."""
        return replace(response, choices=[_choice(choice, self._read) for choice in response.choices])

    def events(self, event: Event) -> Iterator[Event]:
        """Give an event of a stream with what is sure of the value."""
        match event:
            case PartStart(key=key, part=Text(text=text) as part):
                value = self._open[key] = self._begin()
                yield replace(event, part=replace(part, text=value.feed(text))) if text else event
            case TextDelta(key=key, text=text) if key in self._open:
                if said := self._open[key].feed(text):
                    yield replace(event, text=said)
            case PartEnd(key=key) if key in self._open:
                if left := self._open.pop(key).left:
                    yield TextDelta(key=key, text=left)
                yield event
            case _:
                yield event


def is_value_output(output: Output | None) -> bool:
    """Whether the answer that is asked for is no object, or need not be one."""
    return (
        output is not None and output.kind == "schema" and output.schema is not None and not is_of_object(output.schema)
    )


def unwrapping(request: Request, source: Dialect, target: Dialect) -> Unwrapping | None:
    """Return what takes an answer out of its object on the way to `source`; None if it is in none, and is no word."""
    word = asks_for_enum(request)
    if source.DIALECT == target.DIALECT or not (word or target.TRAITS.wraps_output):
        return None
    return Unwrapping(word=word) if is_value_output(request.output) else None


def asks_for_enum(request: Request) -> bool:
    """Return True if the answer that is asked for is a bare word and no JSON (`text/x.enum` of generateContent)."""
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


def _word_of(text: str) -> str:
    value = _value_of(text)
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.MsgspecError:
        return text
