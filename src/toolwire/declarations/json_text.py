"""JSON, read with the place of each value.

Rules of this file:
- Only what RFC 8259 calls JSON is read: no comments, no NaN, nothing after the value.
- What cannot be read ends the reading, at its place, with what would be right there.
"""

import json
import re
from bisect import bisect_right
from typing import Any

from toolwire.declarations.nodes import MAX_DIGITS, Builder
from toolwire.declarations.problems import TextPosition

_TOKEN = re.compile(
    r"""(?P<mark>[{}\[\],:])
    |   (?P<text>"(?:[^"\\\x00-\x1f]++|\\.)*+")
    |   (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.+-])
    |   (?P<other>"[^"\n]*|[\w.+-]+|[^ \t\r\n])""",
    re.ASCII | re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None}
_INFINITE = float("inf")
_CLOSERS = {"{": "}", "[": "]"}
_WANTED = {
    "value": "a value",
    "first": 'a value or "]"',
    "key": 'a key in "quotes"',
    "first key": 'a key in "quotes" or "}"',
    "colon": '":"',
    "next": '"," or the end',
    "nothing": "the end of the file",
}


def read_json(text: str, build: Builder) -> None:
    """Read the text into the builder."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    open_: list[str] = []
    turn = "value"

    def place_of(offset: int) -> TextPosition:
        line = bisect_right(starts, offset)
        return TextPosition(line, offset - starts[line - 1] + 1)

    for token in _TOKEN.finditer(text):
        word, place = token.group(), place_of(token.start())
        match turn, word:
            case "value" | "first", "{" | "[":
                build.begin({} if word == "{" else [], place)
                open_.append(_CLOSERS[word])
                turn = "first key" if word == "{" else "first"
                continue
            case "first" | "first key" | "next", "}" | "]" if open_[-1] == word:
                build.end()
                open_.pop()
            case "next", ",":
                turn = "key" if open_[-1] == "}" else "value"
                continue
            case "colon", ":":
                turn = "value"
                continue
            case "key" | "first key", _ if token["text"]:
                build.scalar(_text_of(word, place, build), place)
                turn = "colon"
                continue
            case "value" | "first", _ if not token["mark"]:
                build.scalar(_scalar_of(token, place, build), place)
            case _:
                build.stop(place, f"is not JSON: {_WANTED[turn]} must stand here, not {_named(word)}")
        turn = "next" if open_ else "nothing"
    if turn != "nothing":
        build.stop(place_of(len(text)), f"is not JSON: {_WANTED[turn]} must stand here, but the file ends")


def _scalar_of(token: re.Match[str], place: TextPosition, build: Builder) -> Any:
    word = token.group()
    if token["text"]:
        return _text_of(word, place, build)
    if token["number"]:
        return number_of(word, place, build)
    if word in _WORDS:
        return _WORDS[word]
    return build.stop(place, f"is not JSON: {_named(word)} is no value")


def _text_of(word: str, place: TextPosition, build: Builder) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return build.stop(place, f"is not JSON: {_named(word)} has an escape that JSON does not have")


def number_of(word: str, place: TextPosition, build: Builder) -> int | float:
    """Read a number in decimals; one that no double holds is a problem."""
    if len(word) <= MAX_DIGITS:
        value = float(word) if {".", "e", "E"} & set(word) else int(word)
        if value not in (_INFINITE, -_INFINITE):
            return value
    build.report(place, f"has a number that is too large or too long: {_named(word)}")
    return 0


def _named(word: str) -> str:
    if word.startswith('"') and not word.endswith('"', 1):
        return "a text that does not end in its line"
    word = word if word.isprintable() else ascii(word)
    return word if len(word) <= 20 else f"{word[:20]}..."
