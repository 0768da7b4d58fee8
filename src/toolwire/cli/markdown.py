"""Markdown in a stream of text, as pieces with a style: headings, bold words, code.

Rules of this file:
- Text is passed on while it arrives. Only a mark waits: for its end, for the end of the line, or for 400 characters.
- A mark without an end is text, as in `2 ** 3` or `**kwargs`. A fence stays visible, so that code differs from text.
- The text is shown whole, except for the marks of headings, bold words and inline code.
"""

import re
from collections.abc import Iterator

Piece = tuple[str, str]
"""A text and its style: `heading`, `strong`, `code`, `note` for a fence, or an empty one."""
_MAY_BEGIN = re.compile(r"#{1,6}|[ ]{0,3}`{1,2}|[ ]{0,3}```[^\n]*|[ ]{1,3}")
_HEADING = re.compile(r"#{1,6} ")
_FENCE = re.compile(r"[ ]{0,3}```+[^`]*")
# A bold word begins after a blank or a mark, as in CommonMark; `2**3` is text.
_OPENER = re.compile(r"(?<![\w*`\\])\*\*(?=[^\s*])|`+")
_STRONG_END = re.compile(r"(?<=[^\s*])\*\*(?!\w)")
_UNDECIDED = re.compile(r"(?<![\w*\\])\*{1,2}$")
_LONGEST = 400


class Markdown:
    """Styles the text of one answer. `feed` takes a piece of it, `close` ends it."""

    def __init__(self) -> None:
        self._line = ""
        self._shown = 0  # of the line: the last character stays, because a mark depends on it
        self._is_start = True
        self._is_fenced = self._is_heading = False

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield what can be shown after `text`."""
        for part in text.splitlines(keepends=True):
            is_whole = part.endswith("\n")
            self._line += part.removesuffix("\n")
            yield from self._advance(is_whole=is_whole)
            if is_whole:
                yield "\n", ""
                self._begin_line()

    def close(self) -> Iterator[Piece]:
        """Yield the rest, and reset the state."""
        yield from self._advance(is_whole=True)
        self._begin_line()
        self._is_fenced = False

    def _begin_line(self) -> None:
        self._line, self._shown, self._is_start, self._is_heading = "", 0, True, False

    def _advance(self, *, is_whole: bool) -> Iterator[Piece]:
        """Yield what is decided of the current line."""
        if self._is_start:
            if not is_whole and (not self._line or _MAY_BEGIN.fullmatch(self._line)):
                return
            self._is_start = False
            if _FENCE.fullmatch(self._line):
                self._is_fenced = not self._is_fenced
                yield self._take(), "note"
            elif not self._is_fenced and (heading := _HEADING.match(self._line)) is not None:
                self._is_heading = True
                self._line = self._line[heading.end() :]
        if self._is_fenced:
            yield self._take(), "code"
        else:
            yield from self._advance_inline(is_whole=is_whole)

    def _take(self) -> str:
        line, self._line = self._line, ""
        return line

    def _show(self, end: int, look: str) -> Piece:
        """Return the text up to `end`, and keep its last character."""
        text = self._line[self._shown : end]
        kept = max(0, end - 1)
        self._line, self._shown = self._line[kept:], end - kept
        return text, look

    def _advance_inline(self, *, is_whole: bool) -> Iterator[Piece]:
        """Yield text, bold words and inline code. A mark whose end may follow stays in the line."""
        look = "heading" if self._is_heading else ""
        start = self._shown
        while (opener := _OPENER.search(self._line, start)) is not None:
            span = self._span(opener, is_whole=is_whole)
            if span is not None:
                yield self._line[self._shown : opener.start()], look
                yield self._line[opener.end() : span[0]], "strong" if opener[0] == "**" else "code"
                self._shown = start = span[1]
            elif is_whole or len(self._line) - opener.start() > _LONGEST:
                start = opener.end()
            else:
                yield self._show(opener.start(), look)
                return
        undecided = None if is_whole else _UNDECIDED.search(self._line, start)
        yield self._show(len(self._line) if undecided is None else undecided.start(), look)

    def _span(self, opener: re.Match[str], *, is_whole: bool) -> tuple[int, int] | None:
        """Return where the text of a mark ends and where its closing mark ends; None if there is no end yet."""
        if opener[0] == "**":
            match = _STRONG_END.search(self._line, opener.end())
        else:
            match = re.compile(rf"(?<!`){opener[0]}(?!`)").search(self._line, opener.end())
        if match is None or (not is_whole and match.end() == len(self._line)):
            return None  # the next character may belong to the mark
        return match.span()
