"""The durable engine, DBOS. Only this file imports it, and only DBOS writes its tables.

Rules of this file:
- A process has one engine, for one database. DBOS does not allow more.
- Everything that DBOS records is JSON. An exception is recorded as its `repr`.
- The files of an SQLite database are watched: no step starts once they were removed, moved, replaced or emptied.
- The engine does not recover runs by itself. A run is resumed when the register asks for it.
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from dbos import DBOS, DBOSClient, Serializer, SetWorkflowID, StepReservation
from dbos import _dbos as _process
from dbos._error import DBOSNonExistentWorkflowError, DBOSWorkflowCancelledError, DBOSWorkflowConflictIDError

from toolwire.databases.file_watch import FileWatch, damage_of, files_of, refuse_journal
from toolwire.databases.opening import first_line, with_driver
from toolwire.errors import InvalidField, StoreFailed, UserError
from toolwire.runs.register import retried

_NAME = "toolwire.run"
_APPLICATION = "toolwire"
_VERSION = "1"
_POLLING = 0.2
# Errors of failed statements do not contain the values of rows.
_POOL: Any = {"pool_size": 10, "max_overflow": 30, "hide_parameters": True}
_ENDED = ("SUCCESS", "ERROR")
# On Python 3.12 or newer, dbos 3.4.0 calls `unixepoch('subsec')`, for which an SQLite before 3.42 returns NULL.
_SUBSECOND_VERSION = (3, 42)


class _Json(Serializer):
    """Encodes as JSON what the engine records."""

    def serialize(self, data: Any) -> str:
        return msgspec.json.encode(data, enc_hook=lambda value: {"$error": repr(value)}).decode()

    def deserialize(self, serialized_data: str) -> Any:
        value = msgspec.json.decode(serialized_data)
        return RuntimeError(value["$error"]) if isinstance(value, dict) and value.keys() == {"$error"} else value

    def name(self) -> str:
        return "toolwire_json"


def _open_database(url: str) -> tuple[str, sa.Engine, FileWatch | None]:
    """Open an SQLite or PostgreSQL database. Return its URL, its engine, and the watch of its files (SQLite only)."""
    try:
        parsed = with_driver(url)
    except sa.exc.ArgumentError:
        raise InvalidField("url", f"must be sqlite:///FILE or postgresql://..., not {url!r}", path="Runs") from None
    if parsed.get_backend_name() == "postgresql":
        plain = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
        db = sa.create_engine(parsed, **_POOL, pool_pre_ping=True)
        sa.event.listen(db, "handle_error", _mark_connection_failure)
        return plain, db, None
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:") or "?" in url:
        raise InvalidField("url", "must be sqlite:///FILE or postgresql://...", path="Runs")
    files = FileWatch(Path(str(parsed.database)).absolute(), "Runs")
    try:
        files.path.touch(mode=0o600)  # only its owner may read a conversation
    except OSError as problem:
        raise StoreFailed(f"the database cannot be opened: {problem}", path="Runs") from None
    files.start()
    db = sa.create_engine(parsed, **_POOL)

    @sa.event.listens_for(db, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        refuse_journal(files.path, "Runs")
        connection.isolation_level = "IMMEDIATE"
        for pragma in (
            "cache_size=-512",
            "busy_timeout=30000",
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")
        if sqlite3.sqlite_version_info < _SUBSECOND_VERSION:
            connection.create_function("unixepoch", 1, lambda when: time.time() if when == "subsec" else None)

    files.follow(db)
    return url, db, files


def normalize_url(url: str) -> str:
    """Return one key for a database, however its URL is written: the real path for SQLite, else the full URL."""
    try:
        parsed = with_driver(url)
    except sa.exc.ArgumentError:
        return url
    if parsed.get_backend_name() == "sqlite" and parsed.database and "?" not in url:
        return os.path.realpath(parsed.database)
    return parsed.render_as_string(hide_password=False)


def _opening_error(problem: sa.exc.DatabaseError, files: FileWatch | None) -> StoreFailed:
    damage = "" if files is None else damage_of(problem, files.path)
    return StoreFailed(f"the database cannot be opened: {damage or first_line(problem)}", path="Runs")


def _mark_connection_failure(failure: sa.ExceptionContext) -> None:
    """Mark each failure to connect as a disconnect, whatever its message, so that DBOS waits for the database."""
    failure.is_disconnect = failure.is_disconnect or failure.connection is None


logging.getLogger("dbos").setLevel(logging.CRITICAL)  # toolwire logs these events itself
LOST = (DBOSWorkflowCancelledError, DBOSWorkflowConflictIDError)
"""Errors that say that another process executes the run by now, or that it was cancelled. They are no failures."""
_LOCK = threading.Lock()
_execute_run: Callable[[str], Any] | None = None


@DBOS.workflow(name=_NAME, max_recovery_attempts=None)
def _workflow() -> Any:
    run = str(DBOS.workflow_id)  # not an argument: a fork has the arguments of its original run
    if _execute_run is None:
        raise DBOSWorkflowCancelledError(run)
    return _execute_run(run)


class Engine:
    """The engine of a database. It executes nothing before `launch`."""

    def __init__(self, url: str, owner: str) -> None:
        self.url: str
        self.db: sa.Engine
        self.url, self.db, self._files = _open_database(url)
        self._owner = owner
        self._concurrency: dict[str, int | None] = {}
        self.launched: bool = False
        schema = None if self.db.dialect.name == "sqlite" else "dbos"
        try:
            if not sa.inspect(self.db).has_table("workflow_status", schema=schema):
                DBOS.migrate(self.url)
        except sa.exc.DatabaseError as problem:
            raise _opening_error(problem, self._files) from None
        self.client: DBOSClient = DBOSClient(
            system_database_engine=self.db,
            serializer=_Json(),
            application_name=_APPLICATION,
            lazy=True,
            retry_connection_errors=False,  # its pauses grow, and the watcher must renew leases meanwhile
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the database, which no tool may access. PostgreSQL has none."""
        return () if self._files is None else files_of(self._files.path)

    def check(self) -> None:
        """Raise `StoreFailed` if the database files were removed or replaced, because records would be lost."""
        if self._files is not None:
            self._files.check()

    def _note_files(self) -> None:
        """Note the current state of the database files. Raise `StoreFailed` if they were removed or replaced."""
        if self._files is not None:
            self._files.remember()

    def launch(self, execute: Callable[[str], Any]) -> None:
        """Start to execute runs that are started here or come from the queues, with `execute`."""
        global _execute_run  # noqa: PLW0603 - there is one engine per process
        with _LOCK:
            if self.launched:
                return
            if _execute_run is not None or _process._dbos_global_instance is not None:  # noqa: SLF001 - not public
                raise UserError(
                    "this process executes runs of another database, or uses DBOS itself: use another process",
                    path="Runs",
                )
            _execute_run = execute
            try:
                self._launch()
            except BaseException as problem:
                DBOS.destroy(workflow_completion_timeout_sec=0)
                _execute_run = None
                if isinstance(problem, sa.exc.DatabaseError):
                    raise _opening_error(problem, self._files) from None
                raise
            self.launched = True

    def _launch(self) -> None:
        logging.getLogger("dbos").handlers.clear()  # a handler of an earlier launch may write to a closed stream
        DBOS(
            config={
                "name": _APPLICATION,
                "system_database_url": self.url,
                "system_database_engine": self.db,
                "serializer": _Json(),
                "executor_id": self._owner,
                "application_version": _VERSION,
                "log_level": "CRITICAL",
                "run_migrations": True,
            }
        )
        DBOS.listen_queues([])
        DBOS.launch()
        self._patch_concurrency()

    def _patch_concurrency(self) -> None:
        """Apply this process's own concurrency per queue.

        DBOS has one number per queue, the last that any worker set.
        """
        database = _process._dbos_global_instance._sys_db  # type: ignore[union-attr]  # noqa: SLF001 - as above
        get_queue = database.get_queue

        def get_own_queue(name: str, *arguments: Any, **keywords: Any) -> Any:
            queue = get_queue(name, *arguments, **keywords)
            if queue is not None and name in self._concurrency:
                queue._worker_concurrency = self._concurrency[name]  # noqa: SLF001 - its setter would store it for all workers
            return queue

        database.get_queue = get_own_queue  # type: ignore[method-assign]

    def listen(self, queue: str, concurrency: int | None = None) -> None:
        """Execute runs from a queue, at most `concurrency` at a time."""
        self._concurrency[queue] = concurrency
        _process._dbos_global_instance._listening_queues.append(queue)  # type: ignore[union-attr]  # noqa: SLF001 - as above
        DBOS.register_queue(
            queue, worker_concurrency=concurrency, polling_interval_sec=_POLLING, on_conflict="always_update"
        )

    def drop(self, queue: str) -> None:
        """Delete a queue of this process."""
        self.client.delete_queue(queue)

    def stop(self, seconds: int) -> None:
        """Stop taking runs, and wait up to `seconds` until the running ones are released."""
        global _execute_run
        with _LOCK:
            if self.launched:
                DBOS.destroy(workflow_completion_timeout_sec=seconds)
                _execute_run, self.launched = None, False

    def close(self) -> None:
        """Close the connections."""
        self.client.destroy()
        self.db.dispose()

    # Runs

    def start(self, run: str) -> None:
        """Execute a run in this process now."""
        with SetWorkflowID(run):
            DBOS.start_workflow(_workflow)

    def enqueue(self, connection: sa.Connection, run: str, queue: str) -> None:
        """Put a run into a queue, within the caller's transaction."""
        options: Any = {"workflow_name": _NAME, "queue_name": queue, "workflow_id": run, "app_version": _VERSION}
        self.client.enqueue_in_transaction(connection, options)

    @retried
    def resume(self, runs: Sequence[str], queue: str) -> list[str]:
        """Queue runs for the workers of `queue`. Their previous executors cannot record anything more.

        Return the runs that the engine does not know.
        """
        try:
            self.client.resume_workflows(list(runs), queue_name=queue)
        except DBOSNonExistentWorkflowError:
            if len(runs) == 1:
                return list(runs)
            return [run for single in runs for run in self.resume([single], queue)]
        return []

    @retried
    def cancel(self, run: str) -> None:
        """Stop the execution of a run. It can be resumed."""
        self.client.cancel_workflow(run)

    @retried
    def fork(self, run: str, new: str, steps: int, queue: str) -> None:
        """Start the run `new` with the first `steps` of `run`."""
        with SetWorkflowID(new):
            self.client.fork_workflow(run, steps + 1, queue_name=queue, application_version=_VERSION)

    @retried
    def ended(self, runs: Sequence[str]) -> set[str]:
        """Return those of `runs` that have ended."""
        if not runs:
            return set()
        statuses = self.client.list_workflows(
            workflow_ids=list(runs), status=list(_ENDED), load_input=False, load_output=False
        )
        return {status.workflow_id for status in statuses}

    @retried
    def dequeued(self, queues: Sequence[str]) -> dict[str, str]:
        """Return the unfinished runs that were taken from `queues`, each with the owner that took it."""
        statuses = self.client.list_workflows(
            status="PENDING", queue_name=list(queues), load_input=False, load_output=False
        )
        return {status.workflow_id: str(status.executor_id) for status in statuses}

    @retried
    def output(self, run: str) -> Any:
        """Return the recorded end of a run, or None if it has not ended."""
        self._note_files()
        statuses = self.client.list_workflows(workflow_ids=[run], status=list(_ENDED), load_input=False)
        if not statuses:
            return None
        return statuses[0].output if statuses[0].status == "SUCCESS" else {"failed": str(statuses[0].error)}

    @retried
    def steps(self, run: str, after: int = 0, *, output: bool = True) -> list[tuple[int, Any]]:
        """Return the recorded steps after the number `after`, up to the first gap, as pairs of number and value.

        With `output=False` the values are not read, and are None.
        """
        records = self.client.list_workflow_steps(run, offset=after, load_output=output)
        numbers = ((number, step["function_id"], step["output"]) for number, step in enumerate(records, after + 1))
        return [(number, value) for number, function, value in numbers if number == function]

    @retried
    def delete(self, runs: Sequence[str]) -> None:
        """Delete everything that the engine has recorded of `runs`."""
        self.client.delete_workflows(list(runs))

    # Steps of the run that is executed here

    def step(self, name: str) -> Callable[[Callable[[], Any]], Any]:
        """Reserve the next step of the current run.

        Return a function that executes it, or returns its recorded value.
        """
        self._note_files()
        reserved: StepReservation = DBOS.reserve_step()
        return lambda function: reserved.run({"name": name}, function)
