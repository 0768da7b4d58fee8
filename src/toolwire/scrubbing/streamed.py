"""A text that comes in pieces, given on without what is sensitive.

Rules of this file:
- What may still become a part of a secret is held back: the last word, a value that may go on, the beginning
  of a known secret. All else is given on at once.
- What was given on is remembered for a while, for it says what the next words are.
- A value that never ends is not given on at all, nor is anything after it.
"""

import re
from collections.abc import Collection, Sequence

from toolwire.scrubbing.fields import Fields
from toolwire.scrubbing.forms import forms_of, mask
from toolwire.scrubbing.texts import Span, spans, without

_LONGEST_HELD = 16 * 1024
_LONGEST_KEY = 4096
_REMEMBERED = 512
_APART = re.compile(r"[^!-~]")
# The only beginning of a key that has more than one word.
_OPEN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}\Z")


class Scrubber:
    """Takes the pieces of a text, and gives what is safe by now; `close` gives the rest."""

    def __init__(self, fields: Collection[str] = (), secrets: Collection[str] = ()) -> None:
        self._fields = Fields(fields)
        self._forms = forms_of(secrets)
        self._text = ""
        self._given = 0
        self._looked = 0
        self._shut = False

    def feed(self, piece: str) -> str:
        """Take a piece; give what cannot become a part of a secret any more."""
        if self._shut:
            return ""
        self._text += piece
        if not _APART.search(piece) and len(self._text) - self._looked < _LONGEST_KEY:
            return ""
        self._looked = len(self._text)
        hidden = spans(self._text, self._fields, self._forms)
        cut = self._cut(hidden)
        if len(self._text) - cut > _LONGEST_HELD:
            last = hidden[-1] if hidden and hidden[-1][1] == len(self._text) else None
            if last is not None:
                safe = self._give(cut, hidden) + mask(last[2])
                self._text, self._shut = "", True
                return safe
            cut = _before(hidden, len(self._text) - _LONGEST_KEY)
        return self._give(max(cut, self._given), hidden)

    def close(self) -> str:
        """Give the rest."""
        if self._shut:
            return ""
        rest = self._give(len(self._text), spans(self._text, self._fields, self._forms))
        self._text, self._given, self._looked = "", 0, 0
        return rest

    def _cut(self, hidden: Sequence[Span]) -> int:
        """Find up to where nothing can change any more."""
        text, size = self._text, len(self._text)
        cut = size
        while cut > self._given and "!" <= text[cut - 1] <= "~":
            cut -= 1
        begun = _OPEN.search(text, max(self._given, size - 80))
        if begun is not None:
            cut = min(cut, begun.start())
        for form in self._forms:
            cut = min(cut, size - _overlap(text, form))
        if hidden and hidden[-1][1] == size:
            cut = min(cut, hidden[-1][0])
        return max(self._given, _before(hidden, cut))

    def _give(self, cut: int, hidden: Sequence[Span]) -> str:
        begin = self._given
        clipped = [
            (max(start, begin) - begin, min(end, cut) - begin, name)
            for start, end, name in hidden
            if min(end, cut) > max(start, begin)
        ]
        shown = without(self._text[begin:cut], clipped)
        dropped = max(0, cut - _REMEMBERED)
        self._text, self._given = self._text[dropped:], cut - dropped
        self._looked = max(0, self._looked - dropped)
        return shown


def _before(hidden: Sequence[Span], cut: int) -> int:
    """Move a cut to where it cuts no secret in two."""
    return next((start for start, end, _ in hidden if start < cut < end), cut)


def _overlap(text: str, form: str) -> int:
    """Count how much of the end of a text is the beginning of a form."""
    place = text.find(form[0], max(0, len(text) - len(form) + 1))
    while place >= 0:
        if form.startswith(text[place:]):
            return len(text) - place
        place = text.find(form[0], place + 1)
    return 0
