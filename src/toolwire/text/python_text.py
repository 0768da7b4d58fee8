"""Python literals inside of a text: where they end, and their values, without evaluating Python.

Rules of this file:
- Values that JSON has are read: strings, numbers, `True`, `None` (and `true`, `null`), lists, dicts. A set is read as a
  list. Nothing is evaluated.
- A string may contain line breaks, which Python itself would reject.
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
    """Skip to the bracket that closes `opening`. Return how it ended."""
    stack = [_CLOSES[opening]]
    while stack:
        hit = yield _TOKENS
        if hit.end:
            return "cut"
        if hit.mark in _ENDS:
            if (yield from _skip_string(hit.mark)):
                return "cut"
        elif hit.mark in _CLOSES:
            stack.append(_CLOSES[hit.mark])
        elif stack.pop() != hit.mark or len(stack) > _DEEPEST:
            return "malformed"
    return "whole"


def _skip_string(quote: str) -> ReadSteps:
    while True:
        hit = yield _ENDS[quote]
        if hit.end or hit.mark == quote:
            return hit.end


class _Literals:
    """Reads literals one after the other. Raises ValueError if there is none."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        self.at = 0

    def peek(self) -> str:
        """Return the next character that is not white space."""
        self.at = _BLANK.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def take(self, mark: str) -> bool:
        """Consume `mark` if it comes next. Return True if it did."""
        if self.peek() != mark:
            return False
        self.at += 1
        return True

    def need(self, mark: str) -> None:
        """Consume `mark`. Raises ValueError if something else comes next."""
        if not self.take(mark):
            raise ValueError(f"{mark!r} was expected at {self.text[self.at : self.at + 20]!r}")

    def word(self) -> str:
        """Consume and return a name or a number."""
        self.peek()
        match = _WORD.match(self.text, self.at)
        if match is None:
            raise ValueError(f"a name or a number was expected at {self.text[self.at : self.at + 20]!r}")
        self.at = match.end()
        return match[0]

    def value(self, depth: int = 0) -> Any:
        """Consume and return a value."""
        if depth > _DEEPEST:
            raise ValueError("the value is nested too deeply")
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
            match = _STRING.match(self.text, self.at)
            if match is None:
                raise ValueError("a string was not closed")
            self.at = match.end()
            parts.append(_unquoted(match[0]))
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
                raise ValueError(f"the key {key!r} is not a string, or occurs twice")
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
        raise ValueError(f"not a string: {text[:40]}") from None


def _number(word: str) -> Any:
    value = parse_json(word.lstrip("+").replace("_", "") if word[:1] != "0" or "." in word else word.lstrip("0") or "0")
    if type(value) not in {int, float}:
        raise ValueError(f"not a value: {word[:40]}")
    return value


def parse_python(text: str) -> Any:
    """Parse one literal. Raises ValueError."""
    literals = _Literals(text)
    value = literals.value()
    if literals.peek():
        raise ValueError("there is text after the value")
    return value


def split_calls(text: str) -> list[tuple[str, str]]:
    """Split `f(a=1), g()` into pairs of a name and the text of the call. A part that is not a call has the name ""."""
    calls, at = [], 0
    for begin, end in _part_spans(text):
        part = text[begin:end].strip()
        name, bracket, inner = part.partition("(")
        if bracket and inner.endswith(")"):
            calls.append((name.strip(), part))
        elif part:
            calls.append(("", part))
        at = end
    return calls if at or not text.strip() else [("", text.strip())]


_SEPARATORS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[({\])},\n]", re.DOTALL)


def _part_spans(text: str) -> list[tuple[int, int]]:
    parts, depth, begin = [], 0, 0
    for match in _SEPARATORS.finditer(text):
        separator = match[0]
        depth += (separator in "[({") - (separator in "])}") if len(separator) == 1 else 0
        if separator in {",", "\n"} and depth <= 0:
            parts.append((begin, match.start()))
            begin = match.end()
    return [*parts, (begin, len(text))]


def parse_keywords(part: str) -> dict[str, Any]:
    """Parse the keyword arguments of the call `part`. Raises ValueError."""
    literals = _Literals(part[part.index("(") + 1 :])
    arguments: dict[str, Any] = {}
    while not literals.take(")"):
        key = literals.word()
        literals.need("=")
        if key in arguments:
            raise ValueError(f"the argument {key!r} occurs twice")
        arguments[key] = literals.value()
        if not literals.take(","):
            literals.need(")")
            break
    if literals.peek():
        raise ValueError("there is text after the call")
    return arguments
