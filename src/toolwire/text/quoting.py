"""Detect whether a block repeats something that the model was given. Such a quotation is never a call.

Rules of this file:
- The given texts are everything in the request that the model did not write: system and user texts, files, results,
  descriptions of tools. An answer that repeats the model's own earlier text does not quote.
- A block is a quotation if a given text contains it word for word. White space is ignored, and so is a prefix of each
  line in the given text (a line number, a quotation mark, an indent).
- If a given text is JSON, or has some in it, the decoded strings inside count as given texts too.
- A fence (three backticks) is how an answer quotes, also in a format that reads calls in fences. A fenced block is a
  quotation if the content of the fence was given. A block that the answer has escaped is compared without its escapes.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from toolwire.types import Document, Message, Request, Text, Tool, ToolResult

_DEEP = 64
# The prefix of a line that is quoted, numbered or listed by a search: `> `, `  12 | `, `notes.md:7:`, `# `.
_PREFIX = re.compile(r"^(?:[ \t]*(?:[>|#*+-]+|//+|\d+[ \t]*[|:.)\]]?|[^\s:]{1,256}:\d+[:-]))+[ \t]*", re.MULTILINE)
_FENCED = re.compile(r"(?:`{3,}|~{3,})(?:json)?\s*(.*?)\s*(?:`{3,}|~{3,})?", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


class GivenTexts:
    """The texts that a model was given. They are prepared when the first block is looked up."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self._squeezed: list[str] | None = None
        self._lines: list[list[str]] = []

    def contains(self, block: str) -> bool:
        """Return True if one of the texts contains `block`, as it is or without its fence or its escapes."""
        return any(map(self._contains_text, _spellings_of(block)))

    def _contains_text(self, block: str) -> bool:
        if self._squeezed is None:
            texts = [text for source in self._texts for text in _with_decoded(source) if text.strip()]
            self._squeezed = [_squeezed(form) for text in texts for form in (text, _PREFIX.sub("", text))]
            self._lines = [[_squeezed(line) for line in text.splitlines() if line.strip()] for text in texts]
        wanted = _squeezed(block)
        if not wanted:
            return False
        lines = [_squeezed(line) for line in block.splitlines() if line.strip()]
        return any(wanted in text for text in self._squeezed) or any(
            _has_lines(lines, source) for source in self._lines
        )


def _spellings_of(block: str) -> Iterator[str]:
    yield block
    if (fenced := _FENCED.fullmatch(block.strip())) is not None:
        yield fenced[1]
    if "\\" in block:
        yield _ESCAPE.sub(_unescaped, block)


def texts_given(request: Request) -> Iterator[str]:
    """Yield the texts of `request` that the model did not write.

    >>> from toolwire import Context, Message, Request, text_tagged
    >>> list(text_tagged.texts_given(Request(model="m", context=Context("Be brief.", [Message("Hi.")]))))
    ['Be brief.', 'Hi.']
    """
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


def _with_decoded(text: str) -> Iterator[str]:
    """Yield `text`, its unescaped form, and the strings inside of it if it is JSON."""
    yield text
    if "\\" in text:
        yield _ESCAPE.sub(_unescaped, text)
    if text.lstrip()[:1] in ("{", "[", '"'):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return
        yield from _strings(value)


def _unescaped(match: re.Match[str]) -> str:
    try:
        return str(msgspec.json.decode(f'"{match[0]}"'))
    except msgspec.DecodeError:
        return match[0][1:]


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


def _has_lines(lines: list[str], source: list[str]) -> bool:
    """Return True if `source` has these lines one after the other, each with any prefix."""
    starts = range(len(source) - len(lines) + 1)
    return any(all(source[start + step].endswith(line) for step, line in enumerate(lines)) for start in starts if lines)
