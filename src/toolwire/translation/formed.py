"""An answer that stands in the one field of an object, as its client asked for it: the value alone.

Rules of this file:
- The text of the value is given as it was written, and as it arrives. What is no object with that field alone is no
  such answer, and stays as it is: nothing of it is left out.
"""

import re
from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from toolwire.schema.wrapping import VALUE, is_of_object
from toolwire.types import Choice, Event, Output, PartEnd, PartStart, Request, Response, Text, TextDelta

# The schema of an answer is an object's (OpenAI, "Structured model outputs", supported schemas, 2026-11-23).
_OF_OBJECTS = frozenset({"openai-chat", "openai-responses"})
_OPENING = re.compile(rf'\s*\{{\s*"{VALUE}"\s*:\s*(?=\S)')
_OPENED = f'{{"{VALUE}":'
_read = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Value:
    """The text of a value as it arrives within an object, without the white space around it."""

    __slots__ = ("_depth", "_escaped", "_in_text", "_reads", "left")

    def __init__(self) -> None:
        self.left = ""
        self._depth = 0
        self._in_text = self._escaped = False
        self._reads: Callable[[str], str] = self._before

    def feed(self, text: str) -> str:
        """Give what is sure to be of the value, or of an answer that is no such object."""
        text, self.left = self.left + text, ""
        return self._reads(text)

    def _before(self, text: str) -> str:
        opening = _OPENING.match(text)
        if opening is not None:
            self._reads = self._inside
            return self._inside(text[opening.end() :])
        if _OPENED.startswith("".join(text.split())):
            self.left = text
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
        self.left = text[len(sure) :]
        return sure

    def _behind(self, text: str) -> str:
        more = text.lstrip()
        self._reads = _as_it_is if more else self._behind
        return more


def _as_it_is(text: str) -> str:
    return text


class Unwrapping:
    """The way back of one answer."""

    def __init__(self) -> None:
        self._open: dict[int, _Value] = {}

    def response(self, response: Response) -> Response:
        """Give a whole answer with the value alone."""
        return replace(response, choices=[_choice(choice) for choice in response.choices])

    def events(self, event: Event) -> Iterator[Event]:
        """Give an event of a stream with what is sure of the value."""
        match event:
            case PartStart(key=key, part=Text(text=text) as part):
                value = self._open[key] = _Value()
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


def asks_for_value(output: Output | None) -> bool:
    """Whether the answer that is asked for is no object, or need not be one."""
    return (
        output is not None and output.kind == "schema" and output.schema is not None and not is_of_object(output.schema)
    )


def unwrapping(request: Request, source: str, target: str) -> Unwrapping | None:
    """Give the way back of an answer between these wires; None where it stands in no object."""
    wrapped = source != target and target in _OF_OBJECTS and asks_for_value(request.output)
    return Unwrapping() if wrapped else None


def _choice(choice: Choice) -> Choice:
    content = choice.message.content
    if isinstance(content, str):
        content = _value_of(content)
    elif isinstance(content, list):
        content = [replace(part, text=_value_of(part.text)) if type(part) is Text else part for part in content]
    return replace(choice, message=replace(choice.message, content=content))


def _value_of(text: str) -> str:
    try:
        fields = _read(text)
    except msgspec.MsgspecError:
        return text
    return bytes(fields[VALUE]).decode() if fields.keys() == {VALUE} else text
