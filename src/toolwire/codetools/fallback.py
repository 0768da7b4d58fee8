"""The search without ripgrep: it finds the same lines in the same files, but is slower.

Rules of this file:
- Files are read in blocks of whole lines. A very long line is searched only up to the limit of its `LinePattern`.
- UTF-8 is read, and UTF-16 with a byte order mark. A file with a NUL is binary and is skipped.
- A file that may match is opened again by its path, under all rules of paths, and the returned lines come from there.
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
    """A file that is not text."""


class FileReading:
    """How a file is read: the size of its pieces, the longest line, and whether a NUL ends the reading."""

    def __init__(self, piece: int, longest: int, *, stops_at_nul: bool = True) -> None:
        self.piece = piece
        self.longest = longest
        self.stops_at_nul = stops_at_nul
        self.long_lines: int = 0

    def blocks(self, fd: int) -> Iterator[str]:
        """Yield the text of an open file in pieces of whole lines, each of which ends in a line break."""
        pending: list[str] = []
        skipping = False
        for text in self._texts(fd):
            complete, line_break, remainder = text.rpartition("\n")
            if skipping:
                complete, skipping = complete.partition("\n")[2], not line_break
                pending = ["" if skipping else remainder]
                if complete:
                    yield from self._pieces(complete + "\n")
            elif line_break:
                yield from self._pieces("".join((*pending, complete, "\n")))
                pending = [remainder]
            else:
                pending.append(remainder)
            if sum(map(len, pending)) > self.longest:
                self.long_lines += 1
                yield "".join(pending)[: self.longest] + "\n"
                pending, skipping = [], True
        if remainder := "".join(pending):
            yield remainder + "\n"

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


def split_lines(block: str) -> list[str]:
    """Return the lines of a block without their line breaks."""
    return block.split("\n")[:-1]


def may_match(fd: int, pattern: LinePattern, reading: FileReading, keep_going: Callable[[], bool]) -> bool:
    """Return True if an open file may have a matching line."""
    for block in reading.blocks(fd):
        if not keep_going():
            return False
        if pattern.may_match(block):
            return True
    return False


def find_lines(
    fd: int, pattern: LinePattern, query: Query, reading: FileReading, keep_going: Callable[[], bool]
) -> list[FoundLine]:
    """Return the matching lines of an open file, at most one more than the limit, with their context."""
    lines_found: list[FoundLine] = []
    previous: deque[FoundLine] = deque(maxlen=query.context)
    number = hit_count = 0
    context_end = 0
    for block in reading.blocks(fd):
        if not keep_going():
            break
        if not query.context and not pattern.may_match(block):
            number += block.count("\n")
            continue
        for text in split_lines(block):
            number += 1
            bare = text.removesuffix("\r")
            if hit_count <= query.limit and pattern.matches(bare):
                hit_count += 1
                lines_found += [*previous, FoundLine(number, text[:KEPT], hit=True)]
                previous.clear()
                context_end = number + query.context
            elif number <= context_end:
                lines_found.append(FoundLine(number, text[:KEPT], hit=False))
            else:
                previous.append(FoundLine(number, text[:KEPT], hit=False))
            if hit_count > query.limit and number >= context_end:
                return lines_found
    return lines_found


def open_entry(folder: int, name: str) -> int:
    """Open a regular file of a folder during a walk; raise `OSError` if it is not one, or is too large."""
    fd = os.open(name, READ | os.O_NOFOLLOW, dir_fd=folder)
    status = os.fstat(fd)
    if special_file_type(status.st_mode) is not None or status.st_size > _MAX_FILE:
        os.close(fd)
        raise FileNotFoundError(name)
    return fd
