"""The database of records: its opening, the insertion of records, and the deletion of old ones.

Rules of this file:
- One transaction inserts a batch, and deletes the oldest records until the others take no more than the limit.
- Several processes may write to one database. Each takes its positions from the row of `toolwire_record_state`.
- No error message contains a value of a record.
"""

import contextlib
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import sqlalchemy as sql
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from toolwire.databases.file_watch import FileWatch, damage_of
from toolwire.databases.opening import first_line, open_database, with_driver
from toolwire.errors import InvalidField, MissingExtra, StoreFailed
from toolwire.records.record import Summary
from toolwire.records.tables import LINES, STATE, TABLES, WHOLE

_ROW_BYTES = 600
"""How many bytes a record takes beside its content."""
_DELETED_AT_ONCE = 500
_LINE_FIELDS = tuple(name for name in Summary.__struct_fields__ if name not in ("position", "id", "bytes"))
_line_values = attrgetter(*_LINE_FIELDS)
_LOCK = 7566047373982435
_HERE = (":memory:", "file:")


class Database:
    """The open database of a store of records."""

    def __init__(self, engine: Engine, files: FileWatch | None) -> None:
        self.engine: Engine = engine
        self.files: FileWatch | None = files
        # The driver's own statements: SQLAlchemy's cost twice as much CPU (measured 2026-11-27).
        mark = "?" if engine.dialect.name == "sqlite" else "%s"
        self._insert_lines = _insertion(LINES.name, ("position", "id", *_LINE_FIELDS, "bytes"), mark)
        self._insert_contents = _insertion(WHOLE.name, ("position", "content"), mark)

    def insert(self, rows: Sequence[tuple[Summary, bytes]], limit: int | None) -> None:
        """Insert records, each with its content, and delete the oldest ones until `limit` bytes are left."""
        with self.writing("a record cannot be written") as connection:
            new = _without_stored(connection, rows)
            sizes = [len(content) + _ROW_BYTES for _, content in new]
            last, total = self._take(connection, len(new), sum(sizes))
            positions = range(last - len(new) + 1, last + 1)
            if new:
                rows_of_lines = [
                    (position, summary.id, *_line_values(summary), size)
                    for (summary, _), position, size in zip(new, positions, sizes, strict=True)
                ]
                contents = [(position, content) for (_, content), position in zip(new, positions, strict=True)]
                connection.exec_driver_sql(self._insert_lines, rows_of_lines)
                connection.exec_driver_sql(self._insert_contents, contents)
            if limit is not None and total > limit:
                self._delete_oldest(connection, total - limit)

    def _take(self, connection: Connection, count: int, size: int) -> tuple[int, int]:
        """Return the last of `count` new positions, and the bytes of all records with `size` more."""
        columns = STATE.c
        change = STATE.update().values(position=columns.position + count, bytes=columns.bytes + size)
        row = connection.execute(change.returning(columns.position, columns.bytes)).one()
        return row.position, row.bytes

    def _delete_oldest(self, connection: Connection, size: int) -> None:
        """Delete the oldest records that together take `size` bytes or more."""
        columns = sql.select(LINES.c.position, LINES.c.bytes).order_by(LINES.c.position)
        while size > 0 and (rows := connection.execute(columns.limit(_DELETED_AT_ONCE)).all()):
            positions = []
            for row in rows:
                if size <= 0:
                    break
                positions.append(row.position)
                size -= row.bytes
            self._delete(connection, positions)

    def delete_before(self, cutoff: float) -> int:
        """Delete records whose exchange began before the Unix time `cutoff`. Return how many."""
        query = sql.select(LINES.c.position).where(LINES.c.time < cutoff).limit(_DELETED_AT_ONCE)
        count = 0
        while True:
            with self.writing("records cannot be deleted") as connection:
                positions = list(connection.execute(query).scalars())
                if not positions:
                    return count
                self._delete(connection, positions)
            count += len(positions)

    def _delete(self, connection: Connection, positions: Sequence[int]) -> None:
        """Delete records, and count their bytes no longer. Another process may have deleted some of them."""
        removal = LINES.delete().where(LINES.c.position.in_(positions)).returning(LINES.c.bytes)
        size = sum(connection.execute(removal).scalars())
        connection.execute(WHOLE.delete().where(WHOLE.c.position.in_(positions)))
        connection.execute(STATE.update().values(bytes=STATE.c.bytes - size))

    @contextlib.contextmanager
    def writing(self, action: str) -> Iterator[Connection]:
        """Yield a transaction that excludes other writers. Raise `StoreFailed` if it fails."""
        with self._failures(action), self.engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that only reads. Raise `StoreFailed` if it fails."""
        if self.files is not None:
            self.files.check()
        with self._failures("records cannot be read"), self.engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def _failures(self, action: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError, OverflowError) as problem:
            damage = damage_of(problem, self.files.path) if self.files is not None else ""
            raise StoreFailed(f"{action}: {damage or first_line(problem)}", path="record") from problem

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()


def _insertion(table: str, columns: Sequence[str], mark: str) -> str:
    names, marks = ", ".join(f'"{name}"' for name in columns), ", ".join(mark for _ in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - these are constants


def _without_stored(connection: Connection, rows: Sequence[tuple[Summary, bytes]]) -> Sequence[tuple[Summary, bytes]]:
    """Return the rows whose id is not stored, each id once: a batch that is written again changes nothing."""
    by_id = {summary.id: (summary, content) for summary, content in rows}
    stored = set(connection.execute(sql.select(LINES.c.id).where(LINES.c.id.in_(by_id))).scalars())
    return [row for identity, row in by_id.items() if identity not in stored]


def open_records(url: str, *, create: bool) -> Database:
    """Open the database at `url`, and create its tables. Raise `StoreFailed` if it cannot be opened.

    Without `create`, raise `StoreFailed` if there are no records.
    """
    engine, files = _open_engine(url, create=create)
    database = Database(engine, files)
    try:
        with database.writing("records cannot be opened") as connection:
            _prepare(connection, create=create)
    except BaseException:
        database.close()
        raise
    return database


def _open_engine(url: str, *, create: bool) -> tuple[Engine, FileWatch | None]:
    words = "must be like sqlite:///records.db or postgresql://user@host/database"
    try:
        parsed = with_driver(url)
    except (ArgumentError, TypeError, ValueError):
        raise InvalidField("url", words, path="record") from None
    scheme = parsed.drivername.partition("+")[0]
    if scheme not in ("sqlite", "postgresql") or (scheme == "sqlite" and not parsed.database):
        raise InvalidField("url", words, path="record")
    if scheme == "sqlite":
        _check_file(str(parsed.database), create=create)
    try:
        engine, files = open_database(parsed.render_as_string(hide_password=False), one_writer=True, owner="record")
    except (ModuleNotFoundError, NoSuchModuleError):
        raise MissingExtra("psycopg", "traces", "to store records in PostgreSQL") from None
    except OSError as problem:
        raise StoreFailed(f"{parsed.database} cannot be created: {problem.strerror}", path="record") from None
    if scheme == "sqlite":
        sql.event.listen(engine, "connect", _delete_securely)
    return engine, files


def _check_file(name: str, *, create: bool) -> None:
    if name.startswith(_HERE):
        raise InvalidField("url", "must name a file by its plain path, as sqlite:///records.db does", path="record")
    path = Path(name)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise StoreFailed(f"{path} is a symbolic link or no regular file: name the file itself", path="record")
    if not create and not path.exists():
        raise StoreFailed(f"there are no records at {path}", path="record")


def _delete_securely(connection: object, _record: object) -> None:
    """Overwrite what is deleted: a record that has expired must not stay readable in the file."""
    connection.execute("PRAGMA secure_delete=FAST")  # type: ignore[attr-defined]


def _prepare(connection: Connection, *, create: bool) -> None:
    """Create the tables that are missing, and check the columns of those that exist."""
    inspector = sql.inspect(connection)
    if not inspector.has_table(LINES.name):
        if not create:
            raise StoreFailed("this database has no records", path="record")
        TABLES.create_all(connection)
        connection.execute(STATE.insert().values(id=1, position=0, bytes=0))
        return
    names = {column["name"] for column in inspector.get_columns(LINES.name)}
    if missing := [column.name for column in LINES.columns if column.name not in names]:
        words = f"the table {LINES.name} is of another version, without {', '.join(missing)}: move the database away"
        raise StoreFailed(words, path="record")
