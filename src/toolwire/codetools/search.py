"""grep: ripgrep where it is, the same search without it where it is not, and one answer of both.

Rules of this file:
- What is shown of a file is read by the workspace, under its rules: what ripgrep says is only where to look.
- Files that hold secrets are left out, under whatever name they were found.
- Only so many searches run at once; the others wait, and waiting is part of their time.
- Whoever stops waiting for the answer ends the search.
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
from toolwire.codetools.fallback import BLOCK, KEPT, MARKS, Binary, FileReading, fitting, lines_of, may_fit, opened
from toolwire.codetools.hits import TIME_IS_UP, FoundLine, Gathering, Query, Report, RipgrepHit, SearchStop
from toolwire.codetools.ignoring import Below, levels_above
from toolwire.codetools.paths import PathRefused, ProjectPath, Workspace, folder_of
from toolwire.codetools.patterns import name_test
from toolwire.codetools.regexes import LONGEST, LinePattern, checked
from toolwire.codetools.walking import FolderWalk, notices
from toolwire.errors import ToolError
from toolwire.waiting.threads import in_thread

MAX_SEARCHES = 8
_BINARY = "it is binary: only text is searched"
_BUSY = f"{MAX_SEARCHES} searches are running, and none ended within {SEARCH_SECONDS} s: try again"
_PLAIN_NAME = re.compile(r"(?=[^*]*\*)\*?[A-Za-z0-9_.]+\*?")
_places = threading.BoundedSemaphore(MAX_SEARCHES)


async def grep(desk: Any, pattern: str, path: str = ".", **wanted: Any) -> str:
    """Search the contents of files."""
    workspace, glob = desk.workspace, wanted.get("glob")
    literal = wanted.get("literal", False)
    query = Query(
        pattern=checked(pattern, literal=literal),
        literal=literal,
        ignore_case=wanted.get("ignoreCase", False),
        context=wanted.get("context", 0),
        limit=wanted.get("limit", GREP_MATCHES),
        ignored=wanted.get("ignored", False),
        accepts=_accepting(workspace, glob),
        names=_plain_names(glob or ""),
    )
    stop = SearchStop()
    search = Search(workspace, workspace.place(path), query, stop, desk.options.get("ripgrep"))
    work = asyncio.ensure_future(in_thread(search.run))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.ask()
        with contextlib.suppress(Exception):
            await work
        raise


def _accepting(workspace: Workspace, glob: str | None) -> Callable[[str], bool]:
    test = name_test(glob) if glob else None
    return lambda path: (test is None or test(path)) and not workspace.is_secret(path.split("/"))


def _plain_names(glob: str) -> tuple[str, ...]:
    """Give the names that ripgrep can look for itself: only the plainest; all are tested here as well."""
    name = glob.rpartition("/")[2]
    is_plain = _PLAIN_NAME.fullmatch(name) is not None and not set("{}!") & set(glob)
    return (name,) if is_plain else ()


class _Unfinished(ToolError):
    """What ripgrep did not search to the end, or has no room for."""


class Search:
    """One search of a folder or a file."""

    def __init__(self, workspace: Workspace, place: ProjectPath, query: Query, stop: SearchStop, option: Any) -> None:
        self._workspace = workspace
        self._place = place
        self._query = query
        self._stop = stop
        self._option = option
        self._deadline = time.monotonic() + SEARCH_SECONDS
        self._report = Report(query)
        self._notices: list[str] = []

    def run(self) -> str:
        """Search, and give the answer."""
        with self._turn():
            rg = ripgrep.located(self._option, self._workspace.roots)
            try:
                self._search(rg)
            except _Unfinished as refused:
                self._without(refused)
        return self._report.text(self._notices)

    def _without(self, refused: _Unfinished) -> None:
        """Search with the engine at hand, where that has room for the pattern."""
        try:
            self._lines()
        except ToolError:
            raise refused from None
        self._search(None)

    def _search(self, rg: str | None) -> None:
        try:
            with self._workspace.open_folder(self._place) as fd:
                self._search_folder(fd, rg)
        except PathRefused as problem:
            if problem.code != "not_a_folder":
                raise
            self._search_file(rg)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        while not _places.acquire(timeout=0.05):
            if self._stop.asked or not self._has_time():
                raise ToolError(_BUSY)
        try:
            yield
        finally:
            _places.release()

    def _has_time(self) -> bool:
        return time.monotonic() < self._deadline

    def _goes_on(self) -> bool:
        if self._stop.asked or self._has_time():
            return not self._stop.asked
        self._late()
        return False

    def _late(self) -> None:
        if TIME_IS_UP not in self._notices:
            self._notices.append(TIME_IS_UP)

    def _search_folder(self, fd: int, rg: str | None) -> None:
        query = self._query if rg is None else self._query_for(rg, fd)
        if rg is None or self._misses_edges(rg, query, fd):
            self._walk(fd)
            return
        gathering = Gathering(query)
        self._run(rg, fd, None, gathering)
        for path in sorted(gathering.records):
            if self._report.full:
                return
            self._show(self._place.inside(path), gathering.records[path])
        if gathering.more and not self._report.full:
            self._report.full = "limit"

    def _search_file(self, rg: str | None) -> None:
        with self._workspace.reading(self._place) as fd:
            head = os.pread(fd, 64 * 1024, 0)
            if b"\0" in head and head[:2] not in MARKS:
                raise PathRefused("not_text", self._place.given, _BINARY)
            gathering = Gathering(self._query)
            with folder_of(self._place.root, ()) as folder:
                if rg is None or self._misses_edges(rg, self._query, folder, fd):
                    self._read_file(fd)
                    return
                self._run(rg, folder, fd, gathering)
            self._give(fd, self._place, gathering.records.get("", []))

    # With ripgrep.

    def _run(self, rg: str, folder: int, file: int | None, gathering: Gathering) -> None:
        argv = ripgrep.command(rg, gathering.query, file=file is not None)
        run = ripgrep.Run(argv, folder, file, self._stop, self._deadline)
        reader = ripgrep.OutputReader(gathering, None if file is None else "")
        with closing(run.chunks()) as chunks:
            for chunk in chunks:
                reader.feed(chunk)
        if not run.in_time:
            self._late()
        elif run.code == 2 and not gathering.records:
            why = ripgrep.complaint(rg, self._query, folder, self._stop)
            if why is not None:
                raise (_Unfinished if ripgrep.TOO_LARGE in why else ToolError)(f"the pattern cannot be used: {why}")
        elif run.code not in (0, 1, 2) and not self._stop.asked:
            raise _Unfinished("ripgrep ended before its work was done: try again")
        self._report.unreadable += run.complaints if run.in_time else 0

    def _says_anything(self, argv: list[str], folder: int, file: int | None = None) -> bool:
        return ripgrep.Run(argv, folder, file, self._stop, self._deadline).says_anything()

    def _misses_edges(self, rg: str, query: Query, folder: int, file: int | None = None) -> bool:
        """Whether what is searched has edges of lines that this ripgrep does not find."""
        if not ripgrep.misses_edges(rg, query):
            return False
        return self._says_anything(ripgrep.lone_crs(rg, query, file=file is not None), folder, file)

    def _query_for(self, rg: str, fd: int) -> Query:
        """Give the query, with the rules that ripgrep does not know: of the folders above, and between repositories.

        Where it is to follow rules outside of repositories too, it takes them into those that are there (from 14 on).
        Of a `.gitignore` that is not UTF-8, it reads the lines before the first that is not (13.0 and 15.2).
        """
        if self._query.ignored:
            return self._query
        above, accepts = levels_above(self._place), self._query.accepts
        ignoring = Below(self._place, fd, above)
        apart = ignoring.is_in_repository or self._says_anything(ripgrep.repositories(rg), fd)
        return replace(self._query, apart=apart, accepts=lambda path: accepts(path) and not ignoring.is_ignored(path))

    def _show(self, place: ProjectPath, records: list[RipgrepHit]) -> None:
        try:
            with self._workspace.reading(place) as fd:
                self._give(fd, place, records)
        except PathRefused as problem:
            self._report.changed += problem.code == "not_found"

    def _give(self, fd: int, place: ProjectPath, records: list[RipgrepHit]) -> None:
        found = _read_again(fd, records)
        if found is None:
            self._report.changed += 1
        else:
            self._report.add(self._workspace.name_of(place), found)

    # Without.

    def _lines(self) -> tuple[LinePattern, FileReading]:
        query = self._query
        lines = LinePattern(query.pattern, literal=query.literal, ignore_case=query.ignore_case)
        return lines, FileReading(lines.piece, lines.longest)

    def _read_file(self, fd: int) -> None:
        lines, reading = self._lines()
        reading.stops_at_nul = False
        found = fitting(fd, lines, self._query, reading, self._goes_on)
        self._report.add(self._workspace.name_of(self._place), found)
        self._report.long_lines += reading.long_lines

    def _walk(self, fd: int) -> None:
        lines, reading = self._lines()
        walk = FolderWalk(
            fd,
            above=None if self._query.ignored else levels_above(self._place),
            prefix="/".join((*self._place.parts, "")) if self._place.parts else "",
            enters=lambda _path, name: not self._workspace.is_secret((name,)),
            stopped=lambda: self._stop.asked,
            seconds=self._deadline - time.monotonic(),
            deepest=float("inf"),
        )
        with closing(walk.entries()) as entries:
            for entry in entries:
                if entry.kind != "file" or not self._query.accepts(entry.path):
                    continue
                try:
                    self._look(opened(entry.folder, entry.name), entry.path, lines, reading)
                except FileNotFoundError:
                    continue
                except OSError:
                    walk.unreadable += 1
                if self._report.full or not self._goes_on():
                    break
        self._report.unreadable += walk.unreadable
        self._report.long_lines += reading.long_lines
        walk.unreadable = 0
        self._notices += [told for told in notices(walk) if not (walk.cut == "time" and "Stopped" in told)]
        if walk.cut == "time":
            self._late()

    def _look(self, fd: int, path: str, lines: LinePattern, reading: FileReading) -> None:
        try:
            fits = may_fit(fd, lines, reading, self._goes_on)
        except Binary:
            return
        finally:
            os.close(fd)
        if not fits:
            return
        place = self._place.inside(path)
        with contextlib.suppress(PathRefused, Binary), self._workspace.reading(place) as safe:
            if found := fitting(safe, lines, self._query, reading, self._goes_on):
                self._report.add(self._workspace.name_of(place), found)


def _read_again(fd: int, records: list[RipgrepHit]) -> list[FoundLine] | None:
    """Read the lines that ripgrep found; None if they are not what it found any more."""
    mark = os.pread(fd, 3, 0)
    if mark[:2] in MARKS:
        return _by_number(fd, records)
    shift = len(codecs.BOM_UTF8) if mark == codecs.BOM_UTF8 else 0
    found = []
    for record in records:
        data = os.pread(fd, 4 * LINE_CHARACTERS + 8, record.offset + shift)
        line = data.partition(b"\n")[0]
        if not line.startswith(record.start):
            return None
        found.append(FoundLine(record.number, line.decode(errors="replace"), record.hit))
    return found


def _by_number(fd: int, records: list[RipgrepHit]) -> list[FoundLine] | None:
    wanted = {record.number: record for record in records}
    found = []
    number = 0
    for block in FileReading(BLOCK, LONGEST, stops_at_nul=False).blocks(fd):
        for text in lines_of(block):
            number += 1
            record = wanted.get(number)
            if record is not None:
                if not text[:KEPT].encode(errors="replace").startswith(record.start[:32]):
                    return None
                found.append(FoundLine(number, text[:KEPT], record.hit))
        if len(found) == len(wanted):
            break
    return found
