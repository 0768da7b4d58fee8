"""ripgrep: which one is run, how it is called, and what it says.

Rules of this file:
- It is run by its absolute path, from folders outside of the roots; `PATH` and its own settings mean nothing.
- It never gets a path: it looks at the folder that it is started in, by its descriptor, or at its input. It
  follows no links there.
- What it says is where lines are. What they hold is read again by the tools' own way, so that whoever swaps
  folders under it gains nothing.
- Its plain output is read, with a NUL after each path: in JSON it writes each fit in a line of ten megabytes.
- It is killed when its time is up, or when nobody waits any more, and always reaped. Its memory is bounded: it reads
  a `.gitignore` that is a link to a device as well.
"""

import contextlib
import functools
import os
import re
import resource
import selectors
import stat
import subprocess
import sys
import sysconfig
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.codetools.definitions import LINE_CHARACTERS
from toolwire.codetools.hits import Gathering, Query, RipgrepHit, SearchStop
from toolwire.codetools.paths import Root
from toolwire.codetools.regexes import has_edge
from toolwire.errors import ToolError

_LEAST = (13, 0)
# From here on the edges of lines are on both sides of a CR that stands alone as well (13.0, 14.1 and 15.2, 2026-11-26).
_EDGES_AT_CR = (14, 0)
CHUNK = 1024 * 1024
_KEPT_ERRORS = 64 * 1024
START = 64
_LIMITS = {resource.RLIMIT_CORE: 0, resource.RLIMIT_DATA: 1024**3}
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
OPTIONS = (
    *("--no-config", "--color=never", "--line-number", "--byte-offset", "--crlf"),
    "--no-mmap",
    *("--hidden", "--no-ignore-global", "--no-ignore-exclude", "--no-ignore-parent"),
    *("--no-ignore-dot", "--no-ignore-messages", "--no-context-separator", "--max-columns-preview"),
    *(f"--max-columns={4 * LINE_CHARACTERS}", "--regex-size-limit=10M", "--dfa-size-limit=10M"),
)
_REPOSITORIES = ("--files", "--no-require-git", "--glob=**/.git", "--glob=**/.git/*", "--glob=!**/.git/*/")
TOO_LARGE = "exceeds size limit"
_RECORD = re.compile(rb"(\d+)([:-])(\d+)[:-]")


def folders() -> list[str]:
    """List where ripgrep is looked for."""
    return [
        *("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", os.path.expanduser("~/.cargo/bin")),
        sysconfig.get_path("scripts"),
    ]


def located(option: Any, roots: Iterable[Root]) -> str | None:
    """Give the path of the ripgrep to run; None if the search does without it."""
    if option is False or (option is None and sys.platform != "linux"):
        return None
    if option is not None and option is not True:
        path = str(os.fspath(option))
        if sys.platform != "linux" or not os.path.isabs(path) or _version(path) < _LEAST:
            raise ToolError(
                "rg_missing: the ripgrep that the tools were set to use cannot be run here, or is older than "
                f"{_LEAST[0]}; its option takes an absolute path, or False to search without it"
            )
        return path
    within = [root.real.rstrip("/") + "/" for root in roots]
    for folder in folders():
        path = os.path.join(folder, "rg")
        real = os.path.realpath(path)
        if not real.startswith(tuple(within)) and _version(path) >= _LEAST:
            return path
    return None


def _version(path: str) -> tuple[int, ...]:
    """Say which ripgrep a file is; nothing of one that is not to be run."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    if not stat.S_ISREG(status.st_mode) or status.st_mode & stat.S_IWOTH or not os.access(path, os.X_OK):
        return ()
    return _told_version(path, status.st_ino, status.st_mtime_ns, status.st_size)


@functools.cache
def _told_version(path: str, *_of_this_file: int) -> tuple[int, ...]:
    """Ask a program which ripgrep it is; it is asked again when the file was changed."""
    argv = [path, "--no-config", "--version"]
    try:
        done = subprocess.run(  # noqa: S603 - an absolute path that no model can give
            argv, stdin=subprocess.DEVNULL, capture_output=True, env=_ENVIRONMENT, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    version = re.match(rb"ripgrep (\d+)\.(\d+)", done.stdout)
    return (int(version[1]), int(version[2])) if version else ()


def command(path: str, query: Query, *, file: bool, more: Sequence[str] = ()) -> list[str]:
    """Give the command: what a model says is only ever the value of `-e`, or a plain `*.name`."""
    options = [path, *OPTIONS, *more, f"--max-count={query.limit + 1}", f"--context={query.context}"]
    options.append("--ignore-case" if query.ignore_case else "--case-sensitive")
    if query.literal:
        options.append("--fixed-strings")
    if file:
        return [*options, "--text", "--no-heading", "--no-filename", "-e", query.pattern, "--", "-"]
    options += ["--heading", "--null", "--with-filename", "--max-filesize=100M", "--glob=!.git"]
    options.append("--no-ignore" if query.ignored else "--require-git" if query.apart else "--no-require-git")
    for name in query.names:
        options.append(f"--type-add=wanted:{name}")
    if query.names:
        options.append("--type=wanted")
    return [*options, "-e", query.pattern, "--", "./"]


class Run:
    """One run of ripgrep, in the folder of a descriptor or on an open file: how it ended, and what it complained of."""

    def __init__(self, argv: list[str], folder: int, file: int | None, stop: SearchStop, deadline: float) -> None:
        self._argv, self._folder, self._file = argv, folder, file
        self._stop, self._deadline = stop, deadline
        self.in_time: bool = True
        self.code: int = 0
        self.complaints: int = 0
        self.errors: bytes = b""

    def says_anything(self) -> bool:
        """Run it until it says something, or has ended."""
        with contextlib.closing(self.chunks()) as chunks:
            return any(chunks)

    def chunks(self) -> Generator[bytes, None, None]:
        """Give its output as it comes; a file is read from its beginning."""
        if self._file is not None:
            os.lseek(self._file, 0, os.SEEK_SET)
        try:
            process = subprocess.Popen(  # noqa: S603 - `command` made it
                self._argv,
                stdin=subprocess.DEVNULL if self._file is None else self._file,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=f"/proc/self/fd/{self._folder}",
                env=_ENVIRONMENT,
                bufsize=0,
            )
        except OSError:
            raise ToolError("rg_missing: ripgrep could not be started; try again") from None
        with process:
            self._stop.holds(process)
            for name, most in _LIMITS.items():
                with contextlib.suppress(OSError, ValueError):  # of a process that ended, or has less already
                    resource.prlimit(process.pid, name, (most, most))
            try:
                yield from self._read(process)
            finally:
                process.kill()
                self.code = process.wait()
                self._stop.holds(None)

    def _read(self, process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
        import fcntl  # noqa: PLC0415 - there is none on every system, and ripgrep runs on Linux only

        with contextlib.suppress(OSError, AttributeError):  # a pipe that holds more has two processes wait less
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, CHUNK)  # type: ignore[arg-type]
        with selectors.DefaultSelector() as selector:
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                left = self._deadline - time.monotonic()
                if left <= 0:
                    self.in_time = False
                    return
                for key, _ in selector.select(left):
                    data = os.read(key.fd, CHUNK)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        yield data
                    else:
                        self.complaints += data.count(b"\n")
                        self.errors += data[: max(_KEPT_ERRORS - len(self.errors), 0)]
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(self._deadline - time.monotonic(), 0.1))


def complaint(path: str, query: Query, folder: int, stop: SearchStop) -> str | None:
    """Ask ripgrep what it has against a pattern; None if nothing."""
    with open(os.devnull, "rb") as nothing:
        run = Run(command(path, query, file=True), folder, nothing.fileno(), stop, time.monotonic() + 5)
        for _ in run.chunks():
            pass
    if run.code != 2:
        return None
    text = run.errors.decode(errors="replace").removeprefix("rg: ").strip()
    return text[:1000].split("\nConsider enabling")[0]


def repositories(path: str) -> list[str]:
    """Give the command that lists repositories, where ripgrep would look."""
    return [path, *OPTIONS, *_REPOSITORIES, "--", "./"]


def misses_edges(path: str, query: Query) -> bool:
    """Whether a pattern asks for edges that this ripgrep does not find at a CR that stands alone."""
    return not query.literal and has_edge(query.pattern) and _version(path) < _EDGES_AT_CR


def lone_crs(path: str, query: Query, *, file: bool) -> list[str]:
    """Give the command that lists where, among what a query searches, a CR stands alone."""
    return command(path, replace(query, pattern=r"\r[^\n]"), file=file, more=("--no-crlf", "--files-with-matches"))


class OutputReader:
    """Reads what ripgrep says into a gathering: a path, a NUL, its lines, an empty line.

    `file` is the name of a single file, whose lines come without a path.
    """

    def __init__(self, gathering: Gathering, file: str | None = None) -> None:
        self._gathering = gathering
        self._rest = b""
        self._path = file or ""
        self._is_in_file = self._wanted = file is not None

    def feed(self, data: bytes) -> None:
        """Read what came."""
        data, at = self._rest + data, 0
        while True:
            ends_with = b"\0" if not self._is_in_file else b"\n" if self._wanted else b"\n\n"
            end = data.find(ends_with, at)
            if end < 0:
                break
            if not self._is_in_file:
                self._path = os.fsdecode(data[at:end].removeprefix(b"./"))
                self._is_in_file, self._wanted = True, self._gathering.wants(self._path)
            elif self._wanted and end > at:
                self._record(data, at)
            else:
                self._is_in_file = False
            at = end + len(ends_with)
        if self._is_in_file and not self._wanted:
            at = max(at, len(data) - 1)
        elif self._is_in_file and len(data) - at > CHUNK:  # a line without end: the rest of the file is left out
            self._record(data, at)
            at, self._wanted = len(data), False
        self._rest = data[at:]

    def _record(self, data: bytes, at: int) -> None:
        record = _RECORD.match(data, at)
        if record is None:  # a file that turned out to be binary
            self._gathering.drop(self._path)
            return
        begin = data[record.end() : record.end() + START].partition(b"\n")[0].removesuffix(b"\r")
        self._gathering.add(self._path, RipgrepHit(int(record[1]), int(record[3]), begin, hit=record[2] == b":"))
