"""Searching without ripgrep: the same files, the same lines, in more time.

Rules of this file:
- Files are read in blocks of whole lines; a very long line is searched only as far as `LinePattern` says.
- UTF-8 and, by its mark, UTF-16 are read; a file with a NUL is binary and is left out.
- A file that may fit is opened anew by its path, where all rules of paths hold, and what is given comes from
  there.
"""

import codecs
import os
from collections import deque
from collections.abc import Callable, Iterator

from toolwire.codetools.definitions import LINE_CHARACTERS
from toolwire.codetools.hits import FoundLine, Query
from toolwire.codetools.paths import READ, special_file_type
from toolwire.codetools.regexes import LinePattern

BLOCK = 64 * 1024
_MAX_FILE = 100 * 1024 * 1024
KEPT = LINE_CHARACTERS + 2
MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Binary(Exception):
    """A file is no text."""


class FileReading:
    """How a file is read: in which pieces, and whether a NUL ends it."""

    def __init__(self, piece: int, longest: int, *, stops_at_nul: bool = True) -> None:
        self.piece = piece
        self.longest = longest
        self.stops_at_nul = stops_at_nul
        self.long_lines: int = 0

    def blocks(self, fd: int) -> Iterator[str]:
        """Give the text of an open file in pieces of whole lines, each of which ends in a line break."""
        begun: list[str] = []
        skipping = False
        for text in self._texts(fd):
            whole, line_break, rest = text.rpartition("\n")
            if skipping:
                whole, skipping = whole.partition("\n")[2], not line_break
                begun = ["" if skipping else rest]
                if whole:
                    yield from self._pieces(whole + "\n")
            elif line_break:
                yield from self._pieces("".join((*begun, whole, "\n")))
                begun = [rest]
            else:
                begun.append(rest)
            if sum(map(len, begun)) > self.longest:
                self.long_lines += 1
                yield "".join(begun)[: self.longest] + "\n"
                begun, skipping = [], True
        if rest := "".join(begun):
            yield rest + "\n"

    def _pieces(self, text: str) -> Iterator[str]:
        start = 0
        while start < len(text):
            end = text.rfind("\n", start, start + self.piece)
            is_one_line = end < 0
            if is_one_line:
                end = text.find("\n", start)
            if is_one_line and end - start > self.longest:
                self.long_lines += 1
                yield text[start : start + self.longest] + "\n"
            else:
                yield text[start : end + 1]
            start = end + 1

    def _texts(self, fd: int) -> Iterator[str]:
        os.lseek(fd, 0, os.SEEK_SET)
        data = os.read(fd, BLOCK)
        decoder = codecs.getincrementaldecoder(MARKS.get(data[:2], "utf-8"))("replace")
        data = data[2:] if data[:2] in MARKS else data.removeprefix(codecs.BOM_UTF8)
        while True:
            text = decoder.decode(data, final=not data)
            if "\0" in text and self.stops_at_nul:
                raise Binary
            yield text
            if not data:
                return
            data = os.read(fd, BLOCK)


def lines_of(block: str) -> list[str]:
    """Give the lines of a block without their line breaks."""
    return block.split("\n")[:-1]


def may_fit(fd: int, lines: LinePattern, reading: FileReading, go_on: Callable[[], bool]) -> bool:
    """Whether an open file may have a line that fits."""
    for block in reading.blocks(fd):
        if not go_on():
            return False
        if lines.may_fit(block):
            return True
    return False


def fitting(
    fd: int, lines: LinePattern, query: Query, reading: FileReading, go_on: Callable[[], bool]
) -> list[FoundLine]:
    """Give the lines of an open file that fit, one more than is wanted, with those around them."""
    found: list[FoundLine] = []
    before: deque[FoundLine] = deque(maxlen=query.context)
    number = hits = 0
    until = 0
    for block in reading.blocks(fd):
        if not go_on():
            break
        if not query.context and not lines.may_fit(block):
            number += block.count("\n")
            continue
        for text in lines_of(block):
            number += 1
            bare = text.removesuffix("\r")
            if hits <= query.limit and lines.fits(bare):
                hits += 1
                found += [*before, FoundLine(number, text[:KEPT], hit=True)]
                before.clear()
                until = number + query.context
            elif number <= until:
                found.append(FoundLine(number, text[:KEPT], hit=False))
            else:
                before.append(FoundLine(number, text[:KEPT], hit=False))
            if hits > query.limit and number >= until:
                return found
    return found


def opened(folder: int, name: str) -> int:
    """Open a regular file of a folder that is being walked; OSError if it is none, or too large."""
    fd = os.open(name, READ | os.O_NOFOLLOW, dir_fd=folder)
    status = os.fstat(fd)
    if special_file_type(status.st_mode) is not None or status.st_size > _MAX_FILE:
        os.close(fd)
        raise FileNotFoundError(name)
    return fd
