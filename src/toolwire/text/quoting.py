"""Whether a block was written by the model, or repeats one that it was given: a quotation is never a call.

Rules of this file:
- Given is whatever stands in the request and is not the model's own: system and user texts, files, results, what
  tools say of themselves. What an answer says again of its own earlier words is no quotation.
- A block is a quotation if it stands in a given text word for word. White space does not count, nor does what stands
  before each line there (a number, a quotation mark, an indent).
- Where a given text is JSON, or has some, the texts inside it are given too, as they read.
- A fence (three backticks) is how an answer quotes, also in a format that reads calls in fences: a block in one is a
  quotation if what the fence holds was given. So is a block that an answer has escaped.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from toolwire.types import Document, Message, Request, Text, Tool, ToolResult

_DEEP = 64
# What stands before a line that is quoted, listed or found: `> `, `  12 | `, `notes.md:7:`, `# `.
_PREFIX = re.compile(r"^(?:[ \t]*(?:[>|#*+-]+|//+|\d+[ \t]*[|:.)\]]?|[^\s:]{1,256}:\d+[:-]))+[ \t]*", re.MULTILINE)
_FENCED = re.compile(r"(?:`{3,}|~{3,})(?:json)?\s*(.*?)\s*(?:`{3,}|~{3,})?", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


class GivenTexts:
    """The texts that a model was given; they are looked through when there is a block to look for."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self._squeezed: list[str] | None = None
        self._lines: list[list[str]] = []

    def has(self, block: str) -> bool:
        """Return True if a block stands in one of the texts, as it is, or without its fence or its escapes."""
        return any(map(self._has, _forms_of(block)))

    def _has(self, block: str) -> bool:
        if self._squeezed is None:
            texts = [text for given in self._texts for text in _all_of(given) if text.strip()]
            self._squeezed = [_squeezed(form) for text in texts for form in (text, _PREFIX.sub("", text))]
            self._lines = [[_squeezed(line) for line in text.splitlines() if line.strip()] for text in texts]
        wanted = _squeezed(block)
        if not wanted:
            return False
        lines = [_squeezed(line) for line in block.splitlines() if line.strip()]
        return any(wanted in text for text in self._squeezed) or any(_follow(lines, given) for given in self._lines)


def _forms_of(block: str) -> Iterator[str]:
    yield block
    if (fenced := _FENCED.fullmatch(block.strip())) is not None:
        yield fenced[1]
    if "\\" in block:
        yield _ESCAPE.sub(_unescaped, block)


def texts_given(request: Request) -> Iterator[str]:
    """Give the texts of a request that are not the model's own."""
    system = request.system
    yield from [system] if isinstance(system, str) else _texts_of(system or ())
    for message in request.messages:
        if message.role != "assistant":
            yield from _texts_of_message(message)
    for tool in request.tools:
        if isinstance(tool, Tool):
            yield tool.description or ""
            yield from _strings(tool.plain_parameters)


def _texts_of_message(message: Message) -> Iterator[str]:
    return iter([message.content]) if isinstance(message.content, str) else _texts_of(message.parts)


def _texts_of(parts: Iterable[Any]) -> Iterator[str]:
    for part in parts:
        match part:
            case str():
                yield part
            case Text() | Document(text=str()):
                yield part.text or ""
            case ToolResult():
                yield from [part.content] if isinstance(part.content, str) else _texts_of(part.content)


def _all_of(text: str) -> Iterator[str]:
    """Give a text, and those inside of it where it is JSON."""
    yield text
    if "\\" in text:
        yield _ESCAPE.sub(_unescaped, text)
    if text.lstrip()[:1] in ("{", "[", '"'):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return
        yield from _strings(value)


def _unescaped(found: re.Match[str]) -> str:
    try:
        return str(msgspec.json.decode(f'"{found[0]}"'))
    except msgspec.DecodeError:
        return found[0][1:]


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if depth > _DEEP:
        return
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield key
                yield from _strings(each, depth + 1)
        case list():
            for each in value:
                yield from _strings(each, depth + 1)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _follow(lines: list[str], given: list[str]) -> bool:
    """Whether these lines follow each other in a text, whatever stands before each of them there."""
    starts = range(len(given) - len(lines) + 1)
    return any(all(given[start + step].endswith(line) for step, line in enumerate(lines)) for start in starts if lines)
