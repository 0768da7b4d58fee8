"""Bodies that differ in their words alone: what one of them was translated to is filled with the words of the next.

Rules of this file:
- It is a short cut and nothing else: without it, `translate` gives the same bytes and losses, only later.
- Words are what members of a few names say, as they stand in JSON. A body without its words is its outline.
- Words are free where they are a text of a system, user or assistant message, or describe something. Words elsewhere
  (a result, an argument) are bound: another body of the outline has to say the same.
- An outline is kept after a trial: bodies with odd words in each free place are translated as always, and each has to
  be what filling gives. So nothing that a wire minds in words is ever filled in.
- What no trial can stand for is no word: nothing, white space around it, our own stand-in, an escape that JSON does not
  need. Such a text belongs to the outline.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.encoding.repair import BEGINNING
from toolwire.errors import ToolwireError
from toolwire.types import Encoded, Loss, Request, Text, Tool
from toolwire.types.encoded import Written

_MOST = 20_000
_MOST_WORDS = 256
_SPACED = 64
# The ends of the members' names, so many letters each: text, content, description, input, instructions, system.
_MEMBERS = b'"text|ntent|ption|input|tions|ystem'
_WORD = rb'(?!%b"| |\\[bfnrt]|")([^"]*+(?:(?<=\\)"[^"]*+)*+)(?<! )(?<!\\[bfnrt])(?=")' % re.escape(BEGINNING.encode())
_WORDS = {sep: re.compile(rb"%b(?<=(?:%b)%b)%b" % (sep, _MEMBERS, sep, _WORD)) for sep in (b'":"', b'": "')}
_LONG_WAY = re.compile(rb"\\[^\"bfnrt]")
_SPEAKERS = frozenset({"system", "developer", "user", "assistant"})
_NO_SCHEMAS = frozenset({"default", "const", "enum", "example", "examples"})
_NUMBER = re.compile(rb'tw\\"(\d+)~')
_ODD = (
    "Error: no",
    "[error]",
    "data:image/png;base64,AAAA",
    "https://x.test/a.png",
    '{"json": [1]}',
    "null",
    "1.50",
    "<system-reminder>\nNo.\n</system-reminder>",
    "Go on.",
    "\\n \u00e9 \u2028 \U0001f600 -",
    "~~~tool_call",
    "word " * 300 + "end",
)
# What is tried: a number tells each word from the others, then each is odd in some way, then all are the same.
_TRIALS: tuple[Callable[[int], str], ...] = (
    lambda place: f'tw"{place}~',
    lambda place: _ODD[place % len(_ODD)],
    lambda place: _ODD[-1 - place % len(_ODD)],
    lambda _: '{"JSON":"x"}',
    lambda _: "x",
)
_read = msgspec.json.Decoder(list[str]).decode
_write = msgspec.json.Encoder().encode


class Parted(Struct, frozen=True):
    """A body, parted into its outline and its words."""

    mark: bytes
    pieces: tuple[bytes, ...]
    words: list[bytes]

    def said(self, words: Sequence[bytes]) -> bytes:
        """Give the body with other words."""
        return _joined(self.pieces, [self.mark + word for word in words])


def take_apart(data: bytes) -> Parted | None:
    """Take a body apart; None where it has no words, or is too long for it."""
    if len(data) > _MOST:
        return None
    mark = b'":"' if data.find(b'": ', 0, _SPACED) < 0 else b'": "'
    pieces = _WORDS[mark].split(data)
    return Parted(mark, tuple(pieces[::2]), pieces[1::2]) if 1 < len(pieces) <= 2 * _MOST_WORDS else None


class Outline(Struct, frozen=True):
    """What all bodies of an outline are translated to: pieces, and which word stands between them."""

    bound: tuple[tuple[int, bytes], ...]
    pieces: tuple[bytes, ...]
    order: tuple[int, ...]
    path: str
    losses: tuple[Loss, ...]

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        bound = sum(len(word) for _, word in self.bound)
        return sum(map(len, self.pieces)) + bound + 40 * len(self.pieces) + 200 * len(self.losses)

    def filled(self, words: list[bytes]) -> Encoded | None:
        """Give what a body with these words is translated to; None where it has to be translated."""
        for place, word in self.bound:
            if words[place] != word:
                return None
        if not _are_plain(words):
            return None
        return Written.of(self.path, _joined(self.pieces, [words[place] for place in self.order]), self.losses)


def outline(
    one: Parted, encoded: Encoded, read: Callable[[bytes], Request], translate: Callable[[bytes], Encoded]
) -> Outline | None:
    """Make the outline of a body that was translated; None where what it becomes hangs on its words."""
    try:
        free = _free(one, read)
        tried = [_trial(one, free, words) for words in _TRIALS] if free else []
        results = [translate(one.said(words)) for words in tried]
    except ToolwireError:
        return None
    if not tried:
        return None
    pieces = _NUMBER.split(results[0].json)
    bound = tuple((place, word) for place, word in enumerate(one.words) if place not in free)
    made = Outline(bound, tuple(pieces[::2]), tuple(map(int, pieces[1::2])), encoded.path, encoded.losses)
    holds = all(_is_same(made, *pair) for pair in ((one.words, encoded), *zip(tried, results, strict=True)))
    return made if holds else None


def _is_same(made: Outline, words: list[bytes], wanted: Encoded) -> bool:
    filled = made.filled(words)
    return (
        filled is not None
        and (filled.path, filled.json) == (wanted.path, wanted.json)
        and filled.losses == wanted.losses
    )


def _joined(pieces: Sequence[bytes], words: list[bytes]) -> bytes:
    parts = [b""] * (len(pieces) + len(words))
    parts[::2], parts[1::2] = pieces, words
    return b"".join(parts)


def _are_plain(words: list[bytes]) -> bool:
    """Whether each word is one text of JSON, written as it would be written again."""
    listed = b'["%b"]' % b'","'.join(words)
    if b"\\" in listed and _LONG_WAY.search(listed.replace(b"\\\\", b"")):
        return False
    try:
        texts = _read(listed)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return len(texts) == len(words) and (listed.isascii() or all(text == text.strip() for text in texts))


def _trial(one: Parted, free: frozenset[int], words: Callable[[int], str]) -> list[bytes]:
    return [_write(words(place))[1:-1] if place in free else word for place, word in enumerate(one.words)]


def _free(one: Parted, read: Callable[[bytes], Request]) -> frozenset[int]:
    """Find the places of words that are texts of messages, or describe something."""
    numbered = {f'tw"{place}~': place for place in range(len(one.words))}
    marked = read(one.said([_write(text)[1:-1] for text in numbered]))
    return frozenset(numbered[text] for text in _texts(marked) if text in numbered)


def _texts(request: Request) -> Iterator[Any]:
    contents = [request.system, *(message.content for message in request.messages if message.role in _SPEAKERS)]
    for content in contents:
        if type(content) is str:
            yield content
        elif content:
            yield from (part.text for part in content if type(part) is Text)
    for tool in request.tools:
        if type(tool) is Tool:
            yield tool.description
            yield from _descriptions(tool.parameters)


def _descriptions(schema: Any) -> Iterator[Any]:
    if type(schema) is list:
        for inner in schema:
            yield from _descriptions(inner)
    elif isinstance(schema, dict):
        for key, inner in schema.items():
            if key == "description" and type(inner) is str:
                yield inner
            elif key not in _NO_SCHEMAS:
                yield from _descriptions(inner)
