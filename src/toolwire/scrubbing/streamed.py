"""Streamed text without its sensitive parts.

Rules of this file:
- Text that may become a part of a secret is held back: the last word, an unfinished value, and the beginning of a
  known secret. All other text is emitted at once.
- The end of the emitted text is kept as context, because a name in it may make the next words sensitive.
- If a sensitive value never ends, neither the value nor the text after it is emitted.
"""

import re
from collections.abc import Collection, Sequence

from toolwire.scrubbing.fields import Fields
from toolwire.scrubbing.forms import forms_of, mask
from toolwire.scrubbing.texts import Span, find_secrets, replace_with_masks

_MAX_HELD = 16 * 1024
_MAX_KEY = 4096
_CONTEXT = 512
_SEPARATOR = re.compile(r"[^!-~]")
# PEM headers are the only keys whose beginning has several words.
_OPEN_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}\Z")


class Scrubber:
    """Receives the pieces of a text, and returns those that are safe to show. `close` returns the rest.

    >>> from toolwire.scrubbing import Scrubber
    >>> scrubber = Scrubber(secrets=["open sesame"])
    >>> [scrubber.feed("say open ses"), scrubber.feed("ame now"), scrubber.close()]
    ['say ', '[hidden] ', 'now']
    """

    def __init__(self, fields: Collection[str] = (), secrets: Collection[str] = ()) -> None:
        self._fields = Fields(fields)
        self._forms = forms_of(secrets)
        self._text = ""
        self._emitted = 0
        self._scanned = 0
        self._closed = False

    def feed(self, piece: str) -> str:
        """Add `piece`, and return the text that can no longer become a part of a secret."""
        if self._closed:
            return ""
        self._text += piece
        if not _SEPARATOR.search(piece) and len(self._text) - self._scanned < _MAX_KEY:
            return ""
        self._scanned = len(self._text)
        hidden = find_secrets(self._text, self._fields, self._forms)
        cut = self._safe_end(hidden)
        if len(self._text) - cut > _MAX_HELD:
            last = hidden[-1] if hidden and hidden[-1][1] == len(self._text) else None
            if last is not None:
                safe = self._emit(cut, hidden) + mask(last[2])
                self._text, self._closed = "", True
                return safe
            cut = _avoid_splitting(hidden, len(self._text) - _MAX_KEY)
        return self._emit(max(cut, self._emitted), hidden)

    def close(self) -> str:
        """Return the remaining text."""
        if self._closed:
            return ""
        remaining = self._emit(len(self._text), find_secrets(self._text, self._fields, self._forms))
        self._text, self._emitted, self._scanned = "", 0, 0
        return remaining

    def _safe_end(self, hidden: Sequence[Span]) -> int:
        """Return the offset up to which the text can no longer become a part of a secret."""
        text, size = self._text, len(self._text)
        cut = size
        while cut > self._emitted and "!" <= text[cut - 1] <= "~":
            cut -= 1
        pem_start = _OPEN_PEM.search(text, max(self._emitted, size - 80))
        if pem_start is not None:
            cut = min(cut, pem_start.start())
        for form in self._forms:
            cut = min(cut, size - _overlap_length(text, form))
        if hidden and hidden[-1][1] == size:
            cut = min(cut, hidden[-1][0])
        return max(self._emitted, _avoid_splitting(hidden, cut))

    def _emit(self, cut: int, hidden: Sequence[Span]) -> str:
        begin = self._emitted
        clipped = [
            (max(start, begin) - begin, min(end, cut) - begin, name)
            for start, end, name in hidden
            if min(end, cut) > max(start, begin)
        ]
        clean = replace_with_masks(self._text[begin:cut], clipped)
        dropped = max(0, cut - _CONTEXT)
        self._text, self._emitted = self._text[dropped:], cut - dropped
        self._scanned = max(0, self._scanned - dropped)
        return clean


def _avoid_splitting(hidden: Sequence[Span], cut: int) -> int:
    """Move `cut` so that it does not split a secret."""
    return next((start for start, end, _ in hidden if start < cut < end), cut)


def _overlap_length(text: str, form: str) -> int:
    """Return the length of the longest end of `text` that is a beginning of `form`."""
    start = text.find(form[0], max(0, len(text) - len(form) + 1))
    while start >= 0:
        if form.startswith(text[start:]):
            return len(text) - start
        start = text.find(form[0], start + 1)
    return 0
