"""ripgrep: which program is run, how it is called, and how its output is read.

Rules of this file:
- It is run by its absolute path, from folders outside of the roots. `PATH` and its own configuration are ignored.
- It never gets a path. It searches the folder that it is started in, through that folder's descriptor, or its
  standard input. It follows no links.
- Its output is only used for where lines are. The lines themselves are read again through the workspace, so a program
  that swaps folders meanwhile gains nothing.
- Its plain output is parsed, with a NUL after each path: in JSON it writes every match of a line of ten megabytes.
- It is killed when its time is up or the caller stops waiting, and always reaped. Its memory is limited, because it
  also reads a `.gitignore` that is a link to a device.
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
from toolwire.codetools.hits import HitCollector, Query, RipgrepHit, SearchStop
from toolwire.codetools.paths import Root
from toolwire.codetools.regexes import has_edge
from toolwire.errors import ToolError

_MIN_VERSION = (13, 0)
# From this version on, line edges also match on both sides of a CR without LF (tried with 13.0, 14.1 and 15.2).
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


def search_folders() -> list[str]:
    """Return the folders in which ripgrep is searched for."""
    return [
        *("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", os.path.expanduser("~/.cargo/bin")),
        sysconfig.get_path("scripts"),
    ]


def find_program(option: Any, roots: Iterable[Root]) -> str | None:
    """Return the path of the ripgrep to run; None if the search must do without it.

    Raise `ToolError` if `option` names a program that cannot be used.
    """
    if option is False or (option is None and sys.platform != "linux"):
        return None
    if option is not None and option is not True:
        path = str(os.fspath(option))
        if sys.platform != "linux" or not os.path.isabs(path) or _version(path) < _MIN_VERSION:
            raise ToolError(
                "rg_missing: the ripgrep of the option `ripgrep` cannot be run here, or is older than "
                f"{_MIN_VERSION[0]}: set the option to an absolute path, or to False to search without it"
            )
        return path
    root_prefixes = [root.real.rstrip("/") + "/" for root in roots]
    for folder in search_folders():
        path = os.path.join(folder, "rg")
        real_path = os.path.realpath(path)
        if not real_path.startswith(tuple(root_prefixes)) and _version(path) >= _MIN_VERSION:
            return path
    return None


def _version(path: str) -> tuple[int, ...]:
    """Return the version of a ripgrep program; () if it must not be run."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    if not stat.S_ISREG(status.st_mode) or status.st_mode & stat.S_IWOTH or not os.access(path, os.X_OK):
        return ()
    return _read_version(path, status.st_ino, status.st_mtime_ns, status.st_size)


@functools.cache
def _read_version(path: str, *_of_this_file: int) -> tuple[int, ...]:
    """Run a program for its version; the answer is cached until the file changes."""
    argv = [path, "--no-config", "--version"]
    try:
        completed = subprocess.run(  # noqa: S603 - an absolute path that no model can choose
            argv, stdin=subprocess.DEVNULL, capture_output=True, env=_ENVIRONMENT, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    version = re.match(rb"ripgrep (\d+)\.(\d+)", completed.stdout)
    return (int(version[1]), int(version[2])) if version else ()


def search_command(path: str, query: Query, *, file: bool, more: Sequence[str] = ()) -> list[str]:
    """Return the command line. The model's text is only ever the value of `-e`, or a plain `*.name`."""
    options = [path, *OPTIONS, *more, f"--max-count={query.limit + 1}", f"--context={query.context}"]
    options.append("--ignore-case" if query.ignore_case else "--case-sensitive")
    if query.literal:
        options.append("--fixed-strings")
    if file:
        return [*options, "--text", "--no-heading", "--no-filename", "-e", query.pattern, "--", "-"]
    options += ["--heading", "--null", "--with-filename", "--max-filesize=100M", "--glob=!.git"]
    options.append(
        "--no-ignore" if query.ignored else "--require-git" if query.split_repositories else "--no-require-git"
    )
    for name in query.names:
        options.append(f"--type-add=wanted:{name}")
    if query.names:
        options.append("--type=wanted")
    return [*options, "-e", query.pattern, "--", "./"]


class Run:
    """One run of ripgrep, in the folder of a descriptor or on an open file: its exit code and its error messages."""

    def __init__(self, argv: list[str], folder: int, file: int | None, stop: SearchStop, deadline: float) -> None:
        self._argv, self._folder, self._file = argv, folder, file
        self._stop, self._deadline = stop, deadline
        self.in_time: bool = True
        self.code: int = 0
        self.error_lines: int = 0
        self.errors: bytes = b""

    def has_output(self) -> bool:
        """Run it until it writes output or ends; return True if it wrote output."""
        with contextlib.closing(self.chunks()) as chunks:
            return any(chunks)

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield its output while it arrives; a file is read from its beginning."""
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
            self._stop.set_process(process)
            for name, limit in _LIMITS.items():
                with contextlib.suppress(OSError, ValueError):  # the process has ended, or has lower limits already
                    resource.prlimit(process.pid, name, (limit, limit))
            try:
                yield from self._read(process)
            finally:
                process.kill()
                self.code = process.wait()
                self._stop.set_process(None)

    def _read(self, process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
        import fcntl  # noqa: PLC0415 - not every system has fcntl, and ripgrep runs on Linux only

        with contextlib.suppress(OSError, AttributeError):  # in a larger pipe the two processes wait less often
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, CHUNK)  # type: ignore[arg-type]
        with selectors.DefaultSelector() as selector:
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                seconds_left = self._deadline - time.monotonic()
                if seconds_left <= 0:
                    self.in_time = False
                    return
                for key, _ in selector.select(seconds_left):
                    data = os.read(key.fd, CHUNK)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        yield data
                    else:
                        self.error_lines += data.count(b"\n")
                        self.errors += data[: max(_KEPT_ERRORS - len(self.errors), 0)]
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(self._deadline - time.monotonic(), 0.1))


def pattern_error(path: str, query: Query, folder: int, stop: SearchStop) -> str | None:
    """Return ripgrep's error message for a pattern; None if the pattern is valid."""
    with open(os.devnull, "rb") as nothing:
        run = Run(search_command(path, query, file=True), folder, nothing.fileno(), stop, time.monotonic() + 5)
        for _ in run.chunks():
            pass
    if run.code != 2:
        return None
    text = run.errors.decode(errors="replace").removeprefix("rg: ").strip()
    return text[:1000].split("\nConsider enabling")[0]


def repositories_command(path: str) -> list[str]:
    """Return the command line that lists the repositories in a folder, where ripgrep would search."""
    return [path, *OPTIONS, *_REPOSITORIES, "--", "./"]


def misses_edges(path: str, query: Query) -> bool:
    """Return True if the pattern asks for line edges that this ripgrep does not find at a CR without LF."""
    return not query.literal and has_edge(query.pattern) and _version(path) < _EDGES_AT_CR


def lone_cr_command(path: str, query: Query, *, file: bool) -> list[str]:
    """Return the command line that lists the files of a query in which a CR without LF occurs."""
    return search_command(
        path, replace(query, pattern=r"\r[^\n]"), file=file, more=("--no-crlf", "--files-with-matches")
    )


class OutputReader:
    """Parses ripgrep's output into a gathering: a path, a NUL, its lines, an empty line.

    `file` is the name of a single file, whose lines have no path before them.
    """

    def __init__(self, collector: HitCollector, file: str | None = None) -> None:
        self._collector = collector
        self._rest = b""
        self._path = file or ""
        self._is_in_file = self._wanted = file is not None

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the output."""
        data, position = self._rest + data, 0
        while True:
            terminator = b"\0" if not self._is_in_file else b"\n" if self._wanted else b"\n\n"
            end = data.find(terminator, position)
            if end < 0:
                break
            if not self._is_in_file:
                self._path = os.fsdecode(data[position:end].removeprefix(b"./"))
                self._is_in_file, self._wanted = True, self._collector.wants(self._path)
            elif self._wanted and end > position:
                self._record(data, position)
            else:
                self._is_in_file = False
            position = end + len(terminator)
        if self._is_in_file and not self._wanted:
            position = max(position, len(data) - 1)
        elif self._is_in_file and len(data) - position > CHUNK:  # an endless line: the rest of the file is skipped
            self._record(data, position)
            position, self._wanted = len(data), False
        self._rest = data[position:]

    def _record(self, data: bytes, position: int) -> None:
        record = _RECORD.match(data, position)
        if record is None:  # ripgrep found that the file is binary
            self._collector.drop(self._path)
            return
        line_start = data[record.end() : record.end() + START].partition(b"\n")[0].removesuffix(b"\r")
        self._collector.add(self._path, RipgrepHit(int(record[1]), int(record[3]), line_start, hit=record[2] == b":"))
