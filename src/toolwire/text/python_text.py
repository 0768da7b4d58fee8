"""Python's literals inside of a text: where they end, and what they say, without Python's own reader.

Rules of this file:
- What JSON can say is read: texts, numbers, `True`, `None` (and `true`, `null`), lists, dicts. A set is a
  list. Nothing is evaluated.
- A text may hold line breaks, which Python would refuse.
"""

import ast
import re
from typing import Any

from toolwire.text.cursor import PatternSearch, ReadSteps
from toolwire.text.json_text import parse_json

_DEEPEST = 200
_TOKENS = PatternSearch(r"[{}\[\]()\"']")
_ENDS = {quote: PatternSearch(rf"{quote}|\\.") for quote in "\"'"}
_CLOSES = {"{": "}", "[": "]", "(": ")"}
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_WORD = re.compile(r"[^\s,:=()\[\]{}'\"]+")
_BLANK = re.compile(r"\s*")
_CONSTANTS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_BREAKS = {"\n": "\\n", "\r": "\\r", "\0": "\\x00"}


def skip_python(opening: str) -> ReadSteps:
    """Go to the end of what a bracket opens, and say how it ended."""
    stack = [_CLOSES[opening]]
    while stack:
        found = yield _TOKENS
        if found.end:
            return "cut"
        if found.mark in _ENDS:
            if (yield from _skip_string(found.mark)):
                return "cut"
        elif found.mark in _CLOSES:
            stack.append(_CLOSES[found.mark])
        elif stack.pop() != found.mark or len(stack) > _DEEPEST:
            return "malformed"
    return "whole"


def _skip_string(quote: str) -> ReadSteps:
    while True:
        found = yield _ENDS[quote]
        if found.end or found.mark == quote:
            return found.end


class _Literals:
    """Reads literals one after the other; raises ValueError where there is none."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        self.at = 0

    def peek(self) -> str:
        """Give the next character that is not blank."""
        self.at = _BLANK.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def take(self, mark: str) -> bool:
        """Take a character, if it comes next."""
        if self.peek() != mark:
            return False
        self.at += 1
        return True

    def need(self, mark: str) -> None:
        """Take a character that has to come next."""
        if not self.take(mark):
            raise ValueError(f"{mark!r} was expected at {self.text[self.at : self.at + 20]!r}")

    def word(self) -> str:
        """Take a name or a number."""
        self.peek()
        found = _WORD.match(self.text, self.at)
        if found is None:
            raise ValueError(f"a word was expected at {self.text[self.at : self.at + 20]!r}")
        self.at = found.end()
        return found[0]

    def value(self, depth: int = 0) -> Any:
        """Take a value."""
        if depth > _DEEPEST:
            raise ValueError("too deep")
        match self.peek():
            case "'" | '"':
                return self._string()
            case "[" | "(" as opening:
                self.at += 1
                return self._items(_CLOSES[opening], depth)
            case "{":
                self.at += 1
                return self._entries(depth)
        word = self.word()
        return _CONSTANTS[word] if word in _CONSTANTS else _number(word)

    def _string(self) -> str:
        parts = []
        while self.peek() in {"'", '"'}:
            found = _STRING.match(self.text, self.at)
            if found is None:
                raise ValueError("a text was not ended")
            self.at = found.end()
            parts.append(_unquoted(found[0]))
        return "".join(parts)

    def _items(self, closing: str, depth: int) -> list[Any]:
        items = []
        while not self.take(closing):
            items.append(self.value(depth + 1))
            if not self.take(","):
                self.need(closing)
                break
        return items

    def _entries(self, depth: int) -> dict[str, Any] | list[Any]:
        entries: dict[str, Any] = {}
        while not self.take("}"):
            key = self.value(depth + 1)
            if not entries and self.peek() in {",", "}"}:  # a set
                self.take(",")
                return [key, *self._items("}", depth)]
            if type(key) is not str or key in entries:
                raise ValueError(f"the key {key!r} is no text, or is given twice")
            self.need(":")
            entries[key] = self.value(depth + 1)
            if not self.take(","):
                self.need("}")
                break
        return entries


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval("".join(_BREAKS.get(character, character) for character in text)))
    except (SyntaxError, ValueError, MemoryError):
        raise ValueError(f"no text: {text[:40]}") from None


def _number(word: str) -> Any:
    value = parse_json(word.lstrip("+").replace("_", "") if word[:1] != "0" or "." in word else word.lstrip("0") or "0")
    if type(value) not in {int, float}:
        raise ValueError(f"no value: {word[:40]}")
    return value


def parse_python(text: str) -> Any:
    """Read one literal; raises ValueError."""
    literals = _Literals(text)
    value = literals.value()
    if literals.peek():
        raise ValueError("something follows the value")
    return value


def split_calls(text: str) -> list[tuple[str, str]]:
    """Split `f(a=1), g()` into names and what stands between the brackets; a part that is no call has no name."""
    calls, at = [], 0
    for begin, end in _parts(text):
        part = text[begin:end].strip()
        name, bracket, inner = part.partition("(")
        if bracket and inner.endswith(")"):
            calls.append((name.strip(), part))
        elif part:
            calls.append(("", part))
        at = end
    return calls if at or not text.strip() else [("", text.strip())]


_SEPARATORS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[({\])},\n]", re.DOTALL)


def _parts(text: str) -> list[tuple[int, int]]:
    parts, depth, begin = [], 0, 0
    for found in _SEPARATORS.finditer(text):
        mark = found[0]
        depth += (mark in "[({") - (mark in "])}") if len(mark) == 1 else 0
        if mark in {",", "\n"} and depth <= 0:
            parts.append((begin, found.start()))
            begin = found.end()
    return [*parts, (begin, len(text))]


def parse_keywords(part: str) -> dict[str, Any]:
    """Read the arguments of one call, which are given by name; raises ValueError."""
    literals = _Literals(part[part.index("(") + 1 :])
    given: dict[str, Any] = {}
    while not literals.take(")"):
        key = literals.word()
        literals.need("=")
        if key in given:
            raise ValueError(f"the argument {key!r} is given twice")
        given[key] = literals.value()
        if not literals.take(","):
            literals.need(")")
            break
    if literals.peek():
        raise ValueError("something follows the call")
    return given
