"""A fast test for texts that certainly have nothing to hide.

Rules of this file:
- The test may err in one direction only: it never passes a text in which scrubbing would hide something.
- It is made from the patterns of `texts`, without their conditions on what is before and behind: so it finds more than
  they do, and there is no second list.
- The patterns run in linear time, in the engine that validates schemas. It reads 300 KB in a tenth of a millisecond,
  for which the patterns themselves need twenty milliseconds.
"""

import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

from toolwire.scrubbing.fields import declared_fields, letters_of
from toolwire.scrubbing.forms import forms_of, loose_forms_of
from toolwire.scrubbing.texts import key_patterns

_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_BLANKS = bytes(range(9, 14)) + bytes(range(28, 33))
_LOWER = bytes(range(256)).lower()
_LOOSE_LENGTH = 8
_LONG_START = 3
_SIZE_LIMIT = 100_000_000
_Finder = Callable[[str], bool]
# An escaped character, which hides what a text contains, and the maps that name their own value.
_ESCAPES = r'\\u|\\/|\\x|"[Vv]alue"|%[0-9A-Fa-f]{2}|&#'


class SecretScreen:
    """A test for texts, with the known secrets of their conversation.

    >>> from toolwire.scrubbing import SecretScreen
    >>> screen = SecretScreen(["open sesame"])
    >>> [screen.may_hide(text) for text in ("four words and more", "Open  sesame", "password=x", "sk-4711")]
    [False, False, True, False]
    """

    def __init__(self, secrets: Collection[str] = ()) -> None:
        forms, loose = forms_of(secrets), loose_forms_of(secrets)
        self._usual = _usual_finders()
        self._forms = _finder(map(re.escape, forms)) if forms else None
        self._folded = _finder(map(re.escape, loose)) if loose else None
        self._loose = _finder(f"(?i:{_spaced(form[:_LOOSE_LENGTH])})" for form in loose) if loose else None

    def may_hide(self, text: str) -> bool:
        """Return False if scrubbing `text` would certainly hide nothing."""
        try:
            usual = self._usual
            if usual.escapes(text) or (usual.starts(text) and usual.keys(text)):
                return True
            if self._forms is not None and self._forms(text):
                return True
            if not text.isascii():
                return bool((self._loose is not None and self._loose(text)) or declared_fields().may_occur_in(text))
        except ValueError:  # half a character, which the engine does not read
            return True
        data = text.encode()
        if self._folded is not None and self._folded(data.translate(_LOWER, _BLANKS).decode()):
            return True
        has_markup = "--" in text or "<" in text
        return bool((usual.markup if has_markup else usual.names)(letters_of(data).decode()))


def _spaced(form: str) -> str:
    return r"[\s\x1c-\x1f]*".join(map(re.escape, form))


class _UsualFinders(NamedTuple):
    """What finds escapes, the starts of keys, keys, names with a sign behind them, and names in markup.

    Escapes and starts are looked for one after the other: as one pattern they take four times as long.
    """

    escapes: _Finder
    starts: _Finder
    keys: _Finder
    names: _Finder
    markup: _Finder


@lru_cache(1)
def _usual_finders() -> _UsualFinders:
    # Without the conditions on what is before and behind, a pattern finds what it did and more.
    keys = [(start, _without_lookarounds(pattern).replace(r"\Z", r"\z")) for start, pattern in key_patterns()]
    # A short start, such as `gh`, is in every text: the whole pattern is looked for at once.
    starts = [re.escape(start) if len(start) >= _LONG_START else pattern for start, pattern in keys]
    hints = [hint.decode() for hint in declared_fields().hints]
    return _UsualFinders(
        escapes=_finder([_ESCAPES]),
        starts=_finder(starts),
        keys=_finder(pattern for _, pattern in keys),
        names=_finder(hints),
        markup=_finder(hint.removesuffix("=") for hint in hints),
    )


def _without_lookarounds(pattern: str) -> str:
    """Return a pattern that matches whatever `pattern` matches, and more."""
    while (match := _LOOKAROUND.search(pattern)) is not None:
        end = _group_end(pattern, match.start())
        pattern = pattern[: match.start()] + pattern[end:]
    return pattern


def _group_end(pattern: str, start: int) -> int:
    """Return the offset behind the group that begins at `start`."""
    depth, position, in_class = 0, start, False
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
            position += pattern[position + 1] in "]^"  # a bracket right behind is a character of the class
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0:
                return position + 1
        position += 1
    return position


def _finder(sources: Iterable[str]) -> _Finder:
    """Return a function that finds any of `sources` in a text."""
    from jsonschema_rs import Draft202012Validator, RegexOptions  # noqa: PLC0415 - loaded with the first text

    pattern = "(?s:" + "|".join(sources) + ")"
    options = RegexOptions(size_limit=_SIZE_LIMIT)
    return Draft202012Validator({"type": "string", "pattern": pattern}, pattern_options=options).is_valid
