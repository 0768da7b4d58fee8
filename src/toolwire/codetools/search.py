"""grep: one search with the same answer from ripgrep or, if that is missing, from the slower search of `fallback`.

Rules of this file:
- The shown lines are read through the workspace, under its rules: ripgrep only reports where to look.
- Secret files are left out, whatever path leads to them.
- The number of simultaneous searches is limited. The others wait, and the waiting counts towards their time.
- If the caller stops waiting for the answer, the search ends.
"""

import asyncio
import codecs
import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from msgspec.structs import replace

from toolwire.codetools import ripgrep
from toolwire.codetools.definitions import GREP_MATCHES, LINE_CHARACTERS, SEARCH_SECONDS
from toolwire.codetools.fallback import (
    BLOCK,
    KEPT,
    MARKS,
    Binary,
    FileReading,
    find_lines,
    may_match,
    open_entry,
    split_lines,
)
from toolwire.codetools.hits import TIME_IS_UP, FoundLine, HitCollector, Query, Report, RipgrepHit, SearchStop
from toolwire.codetools.ignoring import IgnoreTree, levels_above
from toolwire.codetools.paths import PathRefused, ProjectPath, Workspace, open_root_folder
from toolwire.codetools.patterns import name_test
from toolwire.codetools.regexes import LONGEST, LinePattern, check_pattern
from toolwire.codetools.walking import FolderWalk, walk_notices
from toolwire.errors import ToolError
from toolwire.waiting.threads import in_thread

MAX_SEARCHES = 8
_BINARY_REASON = "it is binary: only text is searched"
_BUSY_MESSAGE = f"{MAX_SEARCHES} searches are running, and none ended within {SEARCH_SECONDS} s: try again"
_PLAIN_NAME = re.compile(r"(?=[^*]*\*)\*?[A-Za-z0-9_.]+\*?")
_slots = threading.BoundedSemaphore(MAX_SEARCHES)


async def grep(desk: Any, pattern: str, path: str = ".", **options: Any) -> str:
    """Search the contents of files."""
    workspace, glob = desk.workspace, options.get("glob")
    literal = options.get("literal", False)
    query = Query(
        pattern=check_pattern(pattern, literal=literal),
        literal=literal,
        ignore_case=options.get("ignoreCase", False),
        context=options.get("context", 0),
        limit=options.get("limit", GREP_MATCHES),
        ignored=options.get("ignored", False),
        accepts=_path_filter(workspace, glob),
        names=_plain_names(glob or ""),
    )
    stop = SearchStop()
    search = Search(workspace, workspace.resolve(path), query, stop, desk.options.get("ripgrep"))
    work = asyncio.ensure_future(in_thread(search.run))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.end()
        with contextlib.suppress(Exception):
            await work
        raise


def _path_filter(workspace: Workspace, glob: str | None) -> Callable[[str], bool]:
    test = name_test(glob) if glob else None
    return lambda path: (test is None or test(path)) and not workspace.is_secret(path.split("/"))


def _plain_names(glob: str) -> tuple[str, ...]:
    """Return the file name pattern that ripgrep can apply itself: only the plainest. Every path is also tested here."""
    name = glob.rpartition("/")[2]
    is_plain = _PLAIN_NAME.fullmatch(name) is not None and not set("{}!") & set(glob)
    return (name,) if is_plain else ()


class _Unfinished(ToolError):
    """ripgrep ended early, or the pattern is too large for it."""


class Search:
    """One search of a folder or a file."""

    def __init__(
        self, workspace: Workspace, location: ProjectPath, query: Query, stop: SearchStop, option: Any
    ) -> None:
        self._workspace = workspace
        self._location = location
        self._query = query
        self._stop = stop
        self._option = option
        self._deadline = time.monotonic() + SEARCH_SECONDS
        self._report = Report(query)
        self._notices: list[str] = []

    def run(self) -> str:
        """Search, and return the answer."""
        with self._wait_for_slot():
            program = ripgrep.find_program(self._option, self._workspace.roots)
            try:
                self._search(program)
            except _Unfinished as error:
                self._search_without(error)
        return self._report.text(self._notices)

    def _search_without(self, error: _Unfinished) -> None:
        """Search without ripgrep, unless the pattern is too large for that too."""
        try:
            self._line_pattern()
        except ToolError:
            raise error from None
        self._search(None)

    def _search(self, program: str | None) -> None:
        try:
            with self._workspace.open_folder(self._location) as fd:
                self._search_folder(fd, program)
        except PathRefused as problem:
            if problem.code != "not_a_folder":
                raise
            self._search_file(program)

    @contextlib.contextmanager
    def _wait_for_slot(self) -> Iterator[None]:
        while not _slots.acquire(timeout=0.05):
            if self._stop.is_ended or not self._has_time():
                raise ToolError(_BUSY_MESSAGE)
        try:
            yield
        finally:
            _slots.release()

    def _has_time(self) -> bool:
        return time.monotonic() < self._deadline

    def _keep_going(self) -> bool:
        if self._stop.is_ended or self._has_time():
            return not self._stop.is_ended
        self._note_timeout()
        return False

    def _note_timeout(self) -> None:
        if TIME_IS_UP not in self._notices:
            self._notices.append(TIME_IS_UP)

    def _search_folder(self, fd: int, program: str | None) -> None:
        query = self._query if program is None else self._query_for(program, fd)
        if program is None or self._misses_edges(program, query, fd):
            self._walk(fd)
            return
        collector = HitCollector(query)
        self._run(program, fd, None, collector)
        for path in sorted(collector.records):
            if self._report.full:
                return
            self._report_file(self._location.inside(path), collector.records[path])
        if collector.more and not self._report.full:
            self._report.full = "limit"

    def _search_file(self, program: str | None) -> None:
        with self._workspace.open_file(self._location) as fd:
            head = os.pread(fd, 64 * 1024, 0)
            if b"\0" in head and head[:2] not in MARKS:
                raise PathRefused("not_text", self._location.requested, _BINARY_REASON)
            collector = HitCollector(self._query)
            with open_root_folder(self._location.root, ()) as folder:
                if program is None or self._misses_edges(program, self._query, folder, fd):
                    self._read_file(fd)
                    return
                self._run(program, folder, fd, collector)
            self._report_lines(fd, self._location, collector.records.get("", []))

    # With ripgrep.

    def _run(self, program: str, folder: int, file: int | None, collector: HitCollector) -> None:
        argv = ripgrep.search_command(program, collector.query, file=file is not None)
        run = ripgrep.Run(argv, folder, file, self._stop, self._deadline)
        reader = ripgrep.OutputReader(collector, None if file is None else "")
        with closing(run.chunks()) as chunks:
            for chunk in chunks:
                reader.feed(chunk)
        if not run.in_time:
            self._note_timeout()
        elif run.code == 2 and not collector.records:
            message = ripgrep.pattern_error(program, self._query, folder, self._stop)
            if message is not None:
                raise (_Unfinished if ripgrep.TOO_LARGE in message else ToolError)(
                    f"the pattern cannot be used: {message}"
                )
        elif run.code not in (0, 1, 2) and not self._stop.is_ended:
            raise _Unfinished("ripgrep ended before the search was complete: try again")
        self._report.unreadable += run.error_lines if run.in_time else 0

    def _has_output(self, argv: list[str], folder: int, file: int | None = None) -> bool:
        return ripgrep.Run(argv, folder, file, self._stop, self._deadline).has_output()

    def _misses_edges(self, program: str, query: Query, folder: int, file: int | None = None) -> bool:
        """Return True if the files have line edges that this ripgrep does not find."""
        if not ripgrep.misses_edges(program, query):
            return False
        return self._has_output(ripgrep.lone_cr_command(program, query, file=file is not None), folder, file)

    def _query_for(self, program: str, fd: int) -> Query:
        """Return the query with the ignore rules that ripgrep does not apply itself.

        These are the rules of the folders above, and the borders of repositories inside. If ripgrep applies rules
        outside of repositories too, it also applies them inside of those that are there (from 14 on). In a
        `.gitignore` that is not UTF-8, it reads only the lines before the first invalid one (13.0 and 15.2).
        """
        if self._query.ignored:
            return self._query
        above, accepts = levels_above(self._location), self._query.accepts
        ignoring = IgnoreTree(self._location, fd, above)
        split_repositories = ignoring.is_in_repository or self._has_output(ripgrep.repositories_command(program), fd)
        return replace(
            self._query,
            split_repositories=split_repositories,
            accepts=lambda path: accepts(path) and not ignoring.is_ignored(path),
        )

    def _report_file(self, location: ProjectPath, records: list[RipgrepHit]) -> None:
        try:
            with self._workspace.open_file(location) as fd:
                self._report_lines(fd, location, records)
        except PathRefused as problem:
            self._report.changed += problem.code == "not_found"

    def _report_lines(self, fd: int, location: ProjectPath, records: list[RipgrepHit]) -> None:
        lines = _reread_lines(fd, records)
        if lines is None:
            self._report.changed += 1
        else:
            self._report.add(self._workspace.display_path(location), lines)

    # Without.

    def _line_pattern(self) -> tuple[LinePattern, FileReading]:
        query = self._query
        lines = LinePattern(query.pattern, literal=query.literal, ignore_case=query.ignore_case)
        return lines, FileReading(lines.piece, lines.longest)

    def _read_file(self, fd: int) -> None:
        pattern, reading = self._line_pattern()
        reading.stops_at_nul = False
        hits = find_lines(fd, pattern, self._query, reading, self._keep_going)
        self._report.add(self._workspace.display_path(self._location), hits)
        self._report.long_lines += reading.long_lines

    def _walk(self, fd: int) -> None:
        pattern, reading = self._line_pattern()
        walk = FolderWalk(
            fd,
            above=None if self._query.ignored else levels_above(self._location),
            prefix="/".join((*self._location.parts, "")) if self._location.parts else "",
            enters=lambda _path, name: not self._workspace.is_secret((name,)),
            stopped=lambda: self._stop.is_ended,
            seconds=self._deadline - time.monotonic(),
            deepest=float("inf"),
        )
        with closing(walk.entries()) as entries:
            for entry in entries:
                if entry.file_type != "file" or not self._query.accepts(entry.path):
                    continue
                try:
                    self._search_entry(open_entry(entry.folder, entry.name), entry.path, pattern, reading)
                except FileNotFoundError:
                    continue
                except OSError:
                    walk.unreadable += 1
                if self._report.full or not self._keep_going():
                    break
        self._report.unreadable += walk.unreadable
        self._report.long_lines += reading.long_lines
        walk.unreadable = 0
        self._notices += [notice for notice in walk_notices(walk) if not (walk.cut == "time" and "Stopped" in notice)]
        if walk.cut == "time":
            self._note_timeout()

    def _search_entry(self, fd: int, path: str, pattern: LinePattern, reading: FileReading) -> None:
        try:
            may_contain = may_match(fd, pattern, reading, self._keep_going)
        except Binary:
            return
        finally:
            os.close(fd)
        if not may_contain:
            return
        location = self._location.inside(path)
        with contextlib.suppress(PathRefused, Binary), self._workspace.open_file(location) as safe:
            if hits := find_lines(safe, pattern, self._query, reading, self._keep_going):
                self._report.add(self._workspace.display_path(location), hits)


def _reread_lines(fd: int, records: list[RipgrepHit]) -> list[FoundLine] | None:
    """Read the lines that ripgrep found; return None if they have changed."""
    head = os.pread(fd, 3, 0)
    if head[:2] in MARKS:
        return _reread_by_number(fd, records)
    mark_length = len(codecs.BOM_UTF8) if head == codecs.BOM_UTF8 else 0
    lines = []
    for record in records:
        data = os.pread(fd, 4 * LINE_CHARACTERS + 8, record.offset + mark_length)
        line = data.partition(b"\n")[0]
        if not line.startswith(record.start):
            return None
        lines.append(FoundLine(record.number, line.decode(errors="replace"), record.hit))
    return lines


def _reread_by_number(fd: int, records: list[RipgrepHit]) -> list[FoundLine] | None:
    by_number = {record.number: record for record in records}
    lines = []
    number = 0
    for block in FileReading(BLOCK, LONGEST, stops_at_nul=False).blocks(fd):
        for text in split_lines(block):
            number += 1
            record = by_number.get(number)
            if record is not None:
                if not text[:KEPT].encode(errors="replace").startswith(record.start[:32]):
                    return None
                lines.append(FoundLine(number, text[:KEPT], record.hit))
        if len(lines) == len(by_number):
            break
    return lines
