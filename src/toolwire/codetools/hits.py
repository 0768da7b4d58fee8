"""A query, and the lines found so far: those of the first files by path, and no more.

Rules of this file:
- The first files by path are kept, in whatever order they arrive. A search that finds a million lines stores few of
  them.
- A shown line is bounded, is on one line, and cannot be mistaken for another line of the answer.
"""

import re
import threading
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from toolwire.codetools.definitions import LINE_CHARACTERS, OUTPUT_BYTES, SEARCH_SECONDS
from toolwire.codetools.spelling import escape_name
from toolwire.waiting.results import escape_character

_CUT = " [cut]"
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_LIKE = re.compile(r"[:-](?=\d+[:-](?: |$))")


class Query(Struct, frozen=True):
    """A search query: the pattern, and the files to search.

    `ignored` also searches files that `.gitignore` names. `accepts` tests each path, and `names` are the name
    patterns that ripgrep can test. With `split_repositories`, ignore rules end at the border of a repository.
    """

    pattern: str
    literal: bool
    ignore_case: bool
    context: int
    limit: int
    ignored: bool
    accepts: Callable[[str], bool]
    names: tuple[str, ...]
    split_repositories: bool = False


class FoundLine(Struct, frozen=True):
    """A line of a file; `hit` is False if it is context."""

    number: int
    text: str
    hit: bool


class RipgrepHit(Struct, frozen=True):
    """The number and the offset of a line that ripgrep found, and how the line begins."""

    number: int
    offset: int
    start: bytes
    hit: bool


class SearchStop:
    """Ends a search from another thread, and kills the process that it runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Any = None
        self.is_ended: bool = False

    def set_process(self, process: Any) -> None:
        """Set the process to kill; None if it has ended."""
        with self._lock:
            self._process = process
            if self.is_ended and process is not None:
                process.kill()

    def end(self) -> None:
        """End the search."""
        with self._lock:
            self.is_ended = True
            if self._process is not None:
                self._process.kill()


class HitCollector:
    """The lines found so far, of the first files by path."""

    def __init__(self, query: Query) -> None:
        self.query: Query = query
        self._needed = query.limit + 1
        self._hits: dict[str, int] = {}
        self._total = 0
        self._last: str | None = None
        self.records: dict[str, list[RipgrepHit]] = {}
        self.more: bool = False

    def wants(self, path: str) -> bool:
        """Return True if a file can be among the first."""
        if self._total > 2 * self._needed:
            self._prune()
        if self._last is not None and path > self._last:
            self.more = True
            return False
        return self.query.accepts(path)

    def add(self, path: str, record: RipgrepHit) -> None:
        """Store a line."""
        self.records.setdefault(path, []).append(record)
        if record.hit:
            self._hits[path] = self._hits.get(path, 0) + 1
            self._total += 1

    def drop(self, path: str) -> None:
        """Discard the lines of a file."""
        self.records.pop(path, None)
        self._total -= self._hits.pop(path, 0)

    def _prune(self) -> None:
        """Discard the files whose paths sort after those that have all hits that are needed."""
        total = 0
        for path in sorted(self.records):
            if total >= self._needed:
                self.drop(path)
                self.more = True
            else:
                total += self._hits.get(path, 0)
                self._last = path


class Report:
    """The answer while it is written; `full` is the limit that was reached, or ""."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._lines: list[str] = []
        self._bytes = 0
        self.hits: int = 0
        self.full: str = ""
        self.changed = self.unreadable = self.long_lines = 0

    def add(self, path: str, lines: list[FoundLine]) -> None:
        """Add the lines of a file; `path` is the path to show."""
        name = _LINE_LIKE.sub(lambda match: rf"\x{ord(match[0]):02x}", escape_name(path))
        context = self._query.context
        last_number = -1
        context_end = 0
        for line in lines:
            if line.hit and self.hits == self._query.limit:
                self.full = "limit"
                return
            if self.hits == self._query.limit and line.number > context_end:
                return
            if context and self._lines and line.number != last_number + 1:
                self._write("--")
            last_number = line.number
            if line.hit:
                self.hits += 1
                context_end = line.number + context
            separator = ":" if line.hit else "-"
            self._write(f"{name}{separator}{line.number}{separator} {_shorten_line(line.text)}")
            if self.full:
                return

    def _write(self, text: str) -> None:
        self._bytes += len(text.encode(errors="replace")) + 1
        if self._bytes > OUTPUT_BYTES:
            self.full = "bytes"
        else:
            self._lines.append(text.rstrip(" ") if text.endswith((": ", "- ")) else text)

    def text(self, notices: list[str]) -> str:
        """Return the answer, with notices."""
        notes = [*self._own_notices(), *notices]
        lines = self._lines or ["No matches found"]
        return "\n".join([*lines, *([""] if self._lines and notes else []), *notes])

    def _own_notices(self) -> list[str]:
        is_cut = any(line.endswith(_CUT) for line in self._lines)
        notices = (
            (
                self.full == "limit",
                f"The first {self.hits} matches; there are more. Give a higher limit, or a narrower pattern or path.",
            ),
            (
                self.full == "bytes",
                f"Cut at {OUTPUT_BYTES // 1024} KB; there are more matches. Give a narrower pattern, path or glob.",
            ),
            (is_cut, f"Lines are cut after {LINE_CHARACTERS} characters; read_file shows more of them."),
            (self.changed, f"Files that changed during the search and were left out: {self.changed}."),
            (self.unreadable, f"Files or folders that could not be read: {self.unreadable}."),
            (self.long_lines, f"Very long lines that were searched only at their beginning: {self.long_lines}."),
        )
        return [f"[{words}]" for applies, words in notices if applies]


TIME_IS_UP = f"[Stopped after {SEARCH_SECONDS} s: this is not all. Give a narrower path or glob.]"


def _shorten_line(text: str) -> str:
    """Return `text` shortened, and on one line."""
    text = text.removesuffix("\r")
    short = text[:LINE_CHARACTERS]
    short = _UNPRINTABLE.sub(escape_character, short)
    return short + _CUT if len(text) > LINE_CHARACTERS else short
