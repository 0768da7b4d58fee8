"""The files of a store of SQLite, watched while it is open: SQLite itself does not see who takes them away.

Rules of this file:
- The database is the file that was there when the store was opened: the same device and inode. While the store
  holds a connection open, that is so of its `-wal` and its `-shm` too, and there is no `-journal`.
- To look costs a few `stat`s. No file is opened here but by SQLite: to close one would free SQLite's own locks.
- A file that changed since the last commit is read anew by SQLite, by a connection that remembers nothing: the
  last row, and all pages if no program of SQLite changed it. A VACUUM, a checkpoint or a backup passes.
- What changed in the content of rows is no matter of this file: `verify` finds it.
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
    """List the files that SQLite keeps a database in."""
    return tuple([Path(f"{path}{suffix}") for suffix in _SUFFIXES])


def damage_of(problem: BaseException, path: str | Path) -> str:
    """Say which database is damaged and what can be done; return nothing if the problem is another one."""
    said = getattr(problem, "orig", None) or problem
    if getattr(said, "sqlite_errorcode", 0) & _PRIMARY not in _DAMAGES:
        return ""
    return (
        f"{path} is damaged, or is no SQLite database ({said}). Restore it from a backup. Without one, move it and "
        "its -wal and -shm away, to begin with an empty database"
    )


def refuse_journal(path: Path, owner: str = "traces") -> None:
    """Refuse a journal that SQLite would play back over a database in WAL, which has none once it has rows.

    A program that writes without WAL has one for as long as a transaction.
    """
    late = time.monotonic() + _TRANSACTION_SECONDS
    while _has_journal(path):
        if time.monotonic() > late:
            words = (
                "is not the store's, and SQLite would overwrite the store by it: see where it is from, and remove it"
            )
            raise StoreFailed(f"{path}-journal {words}", path=owner)
        time.sleep(0.02)


def _has_journal(path: Path) -> bool:
    """Whether there is a journal that would be played back: https://www.sqlite.org/lockingv3.html, 4.1 (2026-11-23)."""
    _, log, _, journal = files_of(path)
    try:
        with journal.open("rb") as file:
            is_hot = file.read(1) not in (b"", b"\0")
        return is_hot and (path.stat().st_size > _FIRST_PAGE or (log.exists() and log.stat().st_size > 0))
    except OSError:
        return False


class FileWatch:
    """Knows the files of one store as they were after its last commit; `owner` is whose they are."""

    def __init__(self, path: Path, owner: str = "traces") -> None:
        self.path: Path = path
        self._owner = owner
        self._files = dict(zip(_SUFFIXES, map(str, files_of(path)), strict=True))
        self._database: _Identity | None = None
        self._beside: dict[str, _Identity] = {}
        self._noted: _State | None = None
        self._connections: set[int] = set()
        self._journal: Any = None
        self._mapped = 0

    def begin(self) -> None:
        """Take the database that is there for the one that is meant."""
        state = self._look()
        self._database, self._journal = _identity(state[""]), state["-journal"]

    def follow(self, engine: Engine) -> None:
        """Know of the connections of the store's own engine; what makes them ready listens to it before."""
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "close", self._disconnected)

    def _connected(self, connection: Any, _record: Any) -> None:
        """Make sure that a connection is to the database that is meant."""
        self._check_database(self._look())
        self._connections.add(id(connection))

    def _disconnected(self, connection: Any, _record: Any) -> None:
        """Forget what SQLite may take away itself, once the last connection is closed."""
        self._connections.discard(id(connection))
        if not self._connections:
            self.forget()

    def forget(self) -> None:
        """Begin anew, without a connection."""
        self._connections, self._beside, self._noted, self._mapped = set(), {}, None, 0

    def note(self) -> None:
        """Remember the files as they are after a commit; a database of the host has other writers too."""
        state = self._look()
        self._check(state)
        if self._connections:
            beside = {suffix: state[suffix] for suffix in ("-wal", "-shm")}
            self._beside = {suffix: _identity(one) for suffix, one in beside.items() if one is not None}
            self._noted, self._mapped = state, self._index_size() if "-shm" in self._beside else 0

    def check(self) -> None:
        """Raise what became of the files: removed, moved, replaced or emptied."""
        self._check(self._look())

    def is_touched(self) -> bool:
        """Whether a file has changed since it was noted; of a file that memory is mapped to, nothing tells."""
        return self._noted is not None and self._noted != self._look()

    def examine(self, table: str, position: int, ledger: str, *, pages: bool) -> None:
        """Read the database anew; raise that a row is not there, or what is wrong with the pages."""
        self._check_wal()
        try:
            with contextlib.closing(sqlite3.connect(f"{self.path.as_uri()}?immutable=1", uri=True)) as connection:
                connection.execute("PRAGMA schema_version").fetchone()  # of the file itself, without its log
            with contextlib.closing(sqlite3.connect(self.path, timeout=PATIENCE)) as connection:
                found = _read(connection, table, position, ledger, pages=pages)
        except (sqlite3.Error, UnicodeError) as problem:
            found = "" if "locked" in str(problem) else str(problem)
        if found:
            self._fail(f"was cut or overwritten while it was open: {found}")

    def _check(self, state: _State) -> None:
        cut = self._mend_index(state)
        self._check_database(state)
        for suffix, identity in list(self._beside.items()):
            if state[suffix] is None or _identity(state[suffix]) != identity:
                self._fail("was removed, moved or replaced while the store was open", suffix)
        if self._beside and state["-journal"] not in (None, self._journal):
            self._fail("was put beside the store while it was open", "-journal")
        if cut:
            self._fail("was cut while the store was open", "-shm")

    def _mend_index(self, state: _State) -> bool:
        """Whether the index of the log was cut: it is in SQLite's memory, and to look there would end the process."""
        is_ours = self._mapped > 0 and _identity(state["-shm"]) == self._beside.get("-shm")
        if not is_ours or self._index_size() >= self._mapped:
            return False
        os.truncate(self._files["-shm"], self._mapped)
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
        elif self._beside and database[1] < _SMALLEST:
            self._fail("was emptied while it was open")

    def _check_wal(self) -> None:
        """Make sure that the log begins as one does: another program could not read it back otherwise."""
        with contextlib.suppress(FileNotFoundError), Path(self._files["-wal"]).open("rb") as file:
            beginning = file.read(4)
            if beginning and beginning not in _WAL_MAGIC:
                self._fail("was overwritten while the store was open", "-wal")

    def _look(self) -> _State:
        """Give what tells one state of the files from another; None where there is no regular file."""
        state: _State = {}
        for suffix, path in self._files.items():
            try:
                found = os.lstat(path)
            except OSError:
                state[suffix] = None
                continue
            changes = (0, 0) if suffix == "-shm" else (found.st_size, found.st_ctime_ns)
            identity = found.st_dev, found.st_ino
            state[suffix] = (identity, *changes) if stat.S_ISREG(found.st_mode) else None
        return state

    def _fail(self, words: str, suffix: str = "") -> None:
        raise StoreFailed(f"{self._files[suffix]} {words}", path=self._owner)


def _identity(state: Any) -> _Identity:
    return state[0] if state is not None else (0, 0)


def _read(connection: sqlite3.Connection, table: str, position: int, ledger: str, *, pages: bool) -> str:
    row = f'SELECT ledger FROM "{table}" WHERE position = ?'  # noqa: S608 - a checked name
    kept = connection.execute(row, (position,)).fetchone()
    if position and (kept is None or kept[0] != ledger):
        return "rows that were acknowledged are not there"
    words: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0] if pages else "ok"
    return "" if words == "ok" else words
