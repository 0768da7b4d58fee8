"""Watches the files of an open SQLite database, because SQLite does not notice if somebody replaces or removes them.

Rules of this file:
- The database is the file that existed when the store was opened, with the same device and inode. While the store has
  an open connection, the same applies to its `-wal` and its `-shm`, and there is no `-journal`.
- A check costs a few `stat` calls. Only SQLite opens the files here: closing one would release SQLite's own locks
  (POSIX locks belong to the process).
- If a file changed since the last commit, a fresh SQLite connection without a cache reads the last row. If no SQLite
  program made the change, it checks all pages too. A VACUUM, a checkpoint or a backup passes.
- Changes within rows are found by `verify`, not here.
"""

import contextlib
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from toolwire.errors import StoreFailed

_CUT = "was cut while the store was open"
_SUFFIXES = ("", "-wal", "-shm", "-journal")
_WAL_MAGIC = (bytes.fromhex("377f0682"), bytes.fromhex("377f0683"))
_PRIMARY = 0xFF  # the part of an error code that names its kind: https://www.sqlite.org/rescode.html (2026-11-27)
_DAMAGES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SMALLEST = 512  # SQLite has no smaller page: https://www.sqlite.org/fileformat2.html, 1.3.2 (2026-11-22)
_FIRST_PAGE = 4096
_TRANSACTION_SECONDS = 1.0
PATIENCE = 10.0

_Identity = tuple[int, int]
_State = dict[str, tuple[_Identity, int, int] | None]


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the paths of the files in which SQLite stores a database."""
    return tuple([Path(f"{path}{suffix}") for suffix in _SUFFIXES])


def damage_of(problem: BaseException, path: str | Path) -> str:
    """Return which database is damaged and how to continue, or "" if `problem` is a different error."""
    error = getattr(problem, "orig", None) or problem
    if getattr(error, "sqlite_errorcode", 0) & _PRIMARY not in _DAMAGES:
        return ""
    return (
        f"{path} is damaged, or is no SQLite database ({error}). Restore it from a backup. Without one, move it and "
        "its -wal and -shm away, to begin with an empty database"
    )


def refuse_journal(path: Path, owner: str = "traces") -> None:
    """Raise `StoreFailed` for a rollback journal beside a WAL database. SQLite would overwrite the database with it.

    A WAL database has no such journal once it has rows. Another program without WAL may have one during a transaction.
    """
    until = time.monotonic() + _TRANSACTION_SECONDS
    while _has_journal(path):
        if time.monotonic() > until:
            words = (
                "is not the store's, and SQLite would overwrite the store with it: find out its origin, and remove it"
            )
            raise StoreFailed(f"{path}-journal {words}", path=owner)
        time.sleep(0.02)


def _has_journal(path: Path) -> bool:
    """Return True if `path` has a journal that SQLite would roll back.

    See https://www.sqlite.org/lockingv3.html, 4.1 (2026-11-23).
    """
    _, log, _, journal = files_of(path)
    try:
        with journal.open("rb") as file:
            is_hot = file.read(1) not in (b"", b"\0")
        return is_hot and (path.stat().st_size > _FIRST_PAGE or (log.exists() and log.stat().st_size > 0))
    except OSError:
        return False


class FileWatch:
    """The files of one database, and their state after its last commit. `owner` is the path that errors name."""

    def __init__(self, path: Path, owner: str = "traces") -> None:
        self.path: Path = path
        self._owner = owner
        self._files = dict(zip(_SUFFIXES, map(str, files_of(path)), strict=True))
        self._database: _Identity | None = None
        self._companions: dict[str, _Identity] = {}
        self._remembered: _State | None = None
        self._connections: set[int] = set()
        self._journal: Any = None
        self._index_length = 0
        self._was_cut = False

    def start(self) -> None:
        """Remember the current file as the database."""
        state = self._read_state()
        self._database, self._journal = _identity(state[""]), state["-journal"]

    def follow(self, engine: Engine) -> None:
        """Register for the connections of `engine`. Listeners that prepare a connection must be registered before."""
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "close", self._disconnected)

    def _connected(self, connection: Any, _record: Any) -> None:
        """Check that the connection is to the remembered database."""
        self._check_database(self._read_state())
        self._connections.add(id(connection))

    def _disconnected(self, connection: Any, _record: Any) -> None:
        """Forget the `-wal` and `-shm` after the last connection, because SQLite may delete them."""
        self._connections.discard(id(connection))
        if not self._connections:
            self.forget()

    def forget(self) -> None:
        """Forget all connections and the state of the files."""
        self._connections, self._companions, self._remembered, self._index_length = set(), {}, None, 0

    def remember(self) -> None:
        """Remember the state of the files after a commit. A host's database has other writers too."""
        state = self._read_state()
        self._check_state(state)
        if self._connections:
            companions = {suffix: state[suffix] for suffix in ("-wal", "-shm")}
            self._companions = {
                suffix: _identity(file_state) for suffix, file_state in companions.items() if file_state is not None
            }
            self._remembered, self._index_length = state, self._index_size() if "-shm" in self._companions else 0

    def check(self) -> None:
        """Raise `StoreFailed` if a file was removed, moved, replaced or emptied."""
        self._check_state(self._read_state())

    def check_index(self) -> None:
        """Raise `StoreFailed` if the index was cut since `accept_index`.

        `check` restores the index and raises only once, perhaps in another thread.
        """
        if self._was_cut:
            self._fail(_CUT, "-shm")

    def accept_index(self) -> None:
        """Accept a restored index."""
        self._was_cut = False

    def is_touched(self) -> bool:
        """Return True if a file changed since `remember`. The memory-mapped `-shm` is not included."""
        return self._remembered is not None and self._remembered != self._read_state()

    def examine(self, table: str, position: int, ledger: str, *, pages: bool) -> None:
        """Read the database with a fresh connection. Raise `StoreFailed` if a row is missing or a page is damaged."""
        self._check_wal()
        try:
            with contextlib.closing(sqlite3.connect(f"{self.path.as_uri()}?immutable=1", uri=True)) as connection:
                connection.execute("PRAGMA schema_version").fetchone()  # read from the file itself, without its WAL
            with contextlib.closing(sqlite3.connect(self.path, timeout=PATIENCE)) as connection:
                problem = _read(connection, table, position, ledger, pages=pages)
        except (sqlite3.Error, UnicodeError) as error:
            problem = "" if "locked" in str(error) else str(error)
        if problem:
            self._fail(f"was cut or overwritten while it was open: {problem}")

    def _check_state(self, state: _State) -> None:
        cut = self._restore_index(state)
        self._check_database(state)
        for suffix, identity in list(self._companions.items()):
            if state[suffix] is None or _identity(state[suffix]) != identity:
                self._fail("was removed, moved or replaced while the store was open", suffix)
        if self._companions and state["-journal"] not in (None, self._journal):
            self._fail("was put beside the store while it was open", "-journal")
        if cut:
            self._fail(_CUT, "-shm")

    def _restore_index(self, state: _State) -> bool:
        """Return True if the `-shm` was cut, and restore its length.

        SQLite has this index memory-mapped. Reading behind the end of the file would kill the process.
        """
        is_ours = self._index_length > 0 and _identity(state["-shm"]) == self._companions.get("-shm")
        if not is_ours or self._index_size() >= self._index_length:
            return False
        self._was_cut = True
        os.truncate(self._files["-shm"], self._index_length)
        return True

    def _index_size(self) -> int:
        with contextlib.suppress(OSError):
            return Path(self._files["-shm"]).stat().st_size
        return 0

    def _check_database(self, state: _State) -> None:
        if self._database is None:
            return
        database = state[""]
        if database is None or database[0] != self._database:
            self._fail("was removed, moved or replaced while it was open")
        elif self._companions and database[1] < _SMALLEST:
            self._fail("was emptied while it was open")

    def _check_wal(self) -> None:
        """Check that the WAL has a valid header. Otherwise other programs could not recover it."""
        with contextlib.suppress(FileNotFoundError), Path(self._files["-wal"]).open("rb") as file:
            beginning = file.read(4)
            if beginning and beginning not in _WAL_MAGIC:
                self._fail("was overwritten while the store was open", "-wal")

    def _read_state(self) -> _State:
        """Return the identity, size and change time of each file. None means that there is no regular file."""
        state: _State = {}
        for suffix, path in self._files.items():
            try:
                status = os.lstat(path)
            except OSError:
                state[suffix] = None
                continue
            changes = (0, 0) if suffix == "-shm" else (status.st_size, status.st_ctime_ns)
            identity = status.st_dev, status.st_ino
            state[suffix] = (identity, *changes) if stat.S_ISREG(status.st_mode) else None
        return state

    def _fail(self, words: str, suffix: str = "") -> None:
        raise StoreFailed(f"{self._files[suffix]} {words}", path=self._owner)


def _identity(state: Any) -> _Identity:
    return state[0] if state is not None else (0, 0)


def _read(connection: sqlite3.Connection, table: str, position: int, ledger: str, *, pages: bool) -> str:
    row = f'SELECT ledger FROM "{table}" WHERE position = ?'  # noqa: S608 - the name was checked
    stored = connection.execute(row, (position,)).fetchone()
    if position and (stored is None or stored[0] != ledger):
        return "rows that were acknowledged are not there"
    answer: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0] if pages else "ok"
    return "" if answer == "ok" else answer
