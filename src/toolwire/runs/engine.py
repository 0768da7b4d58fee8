"""The durable engine: DBOS, which this file alone imports. Its tables are written by itself.

Rules of this file:
- There is one engine in a process, for one database: DBOS is made so.
- What it records is JSON, whatever it is; an exception is recorded as its words.
- The files of SQLite are watched: no step begins once they are removed, moved, replaced or emptied.
- It takes nothing over by itself: a run is led again when the register says so.
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

from toolwire.errors import InvalidField, StoreFailed, UserError
from toolwire.runs.register import patient
from toolwire.traces.databases import driven, words_of
from toolwire.traces.watching import FileWatch, damage_of, files_of, refuse_journal

_NAME = "toolwire.run"
_APPLICATION = "toolwire"
_VERSION = "1"
_POLLING = 0.2
# What is said of a statement that failed has none of the values of its rows.
_POOL: Any = {"pool_size": 10, "max_overflow": 30, "hide_parameters": True}
_ENDED = ("SUCCESS", "ERROR")
# The engine asks SQLite for milliseconds where Python is 3.12 or newer (dbos 3.4.0), and an older SQLite says null.
_TELLS_MILLISECONDS = (3, 42)


class _Json(Serializer):
    """Writes what the engine records as JSON."""

    def serialize(self, data: Any) -> str:
        return msgspec.json.encode(data, enc_hook=lambda value: {"$error": repr(value)}).decode()

    def deserialize(self, serialized_data: str) -> Any:
        value = msgspec.json.decode(serialized_data)
        return RuntimeError(value["$error"]) if isinstance(value, dict) and value.keys() == {"$error"} else value

    def name(self) -> str:
        return "toolwire_json"


def _database(url: str) -> tuple[str, sa.Engine, FileWatch | None]:
    """Open a database, of SQLite or PostgreSQL; the files of one of SQLite are watched."""
    try:
        given = driven(url)
    except sa.exc.ArgumentError:
        raise InvalidField("url", f"must be sqlite:///FILE or postgresql://..., not {url!r}", path="Runs") from None
    if given.get_backend_name() == "postgresql":
        plain = given.set(drivername="postgresql").render_as_string(hide_password=False)
        db = sa.create_engine(given, **_POOL, pool_pre_ping=True)
        sa.event.listen(db, "handle_error", _tell_away)
        return plain, db, None
    if given.get_backend_name() != "sqlite" or given.database in (None, "", ":memory:") or "?" in url:
        raise InvalidField("url", "must be sqlite:///FILE or postgresql://...", path="Runs")
    files = FileWatch(Path(str(given.database)).absolute(), "Runs")
    try:
        files.path.touch(mode=0o600)  # a conversation is its owner's
    except OSError as problem:
        raise StoreFailed(f"the database cannot be opened: {problem}", path="Runs") from None
    files.begin()
    db = sa.create_engine(given, **_POOL)

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
        if sqlite3.sqlite_version_info < _TELLS_MILLISECONDS:
            connection.create_function("unixepoch", 1, lambda when: time.time() if when == "subsec" else None)

    files.follow(db)
    return url, db, files


def place_of(url: str) -> str:
    """Name a database alike, however its address is written: SQLite by its file, any other by its whole address."""
    try:
        given = driven(url)
    except sa.exc.ArgumentError:
        return url
    if given.get_backend_name() == "sqlite" and given.database and "?" not in url:
        return os.path.realpath(given.database)
    return given.render_as_string(hide_password=False)


def _cannot_be_opened(problem: sa.exc.DatabaseError, files: FileWatch | None) -> StoreFailed:
    damage = "" if files is None else damage_of(problem, files.path)
    return StoreFailed(f"the database cannot be opened: {damage or words_of(problem)}", path="Runs")


def _tell_away(failure: sa.ExceptionContext) -> None:
    """Say of each failure to connect that it is one: the engine waits for a database that is away, whatever is said."""
    failure.is_disconnect = failure.is_disconnect or failure.connection is None


logging.getLogger("dbos").setLevel(logging.CRITICAL)  # it says aloud what is ours to say
LOST = (DBOSWorkflowCancelledError, DBOSWorkflowConflictIDError)
"""What says that a run is led elsewhere by now, or is to be left; nothing catches it as a failure."""
_LOCK = threading.Lock()
_lead: Callable[[str], Any] | None = None


@DBOS.workflow(name=_NAME, max_recovery_attempts=None)
def _led() -> Any:
    run = str(DBOS.workflow_id)  # a fork has the arguments of the run that it comes from
    if _lead is None:
        raise DBOSWorkflowCancelledError(run)
    return _lead(run)


class Engine:
    """The engine of a database; it runs nothing before it is launched."""

    def __init__(self, url: str, owner: str) -> None:
        self.url: str
        self.db: sa.Engine
        self.url, self.db, self._files = _database(url)
        self._owner = owner
        self._concurrency: dict[str, int | None] = {}
        self.launched: bool = False
        schema = None if self.db.dialect.name == "sqlite" else "dbos"
        try:
            if not sa.inspect(self.db).has_table("workflow_status", schema=schema):
                DBOS.migrate(self.url)
        except sa.exc.DatabaseError as problem:
            raise _cannot_be_opened(problem, self._files) from None
        self.client: DBOSClient = DBOSClient(
            system_database_engine=self.db,
            serializer=_Json(),
            application_name=_APPLICATION,
            lazy=True,
            retry_connection_errors=False,  # its pauses grow; whoever watches leases must not sleep so long
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the database, which no tool may touch; PostgreSQL has none."""
        return () if self._files is None else files_of(self._files.path)

    def check(self) -> None:
        """Raise where the files of the database were taken away: what is recorded would be lost."""
        if self._files is not None:
            self._files.check()

    def _note(self) -> None:
        """Remember the files as they are now; raise where they were taken away."""
        if self._files is not None:
            self._files.note()

    def launch(self, lead: Callable[[str], Any]) -> None:
        """Begin to run what is started here, or comes to the queues that are listened to."""
        global _lead  # noqa: PLW0603 - the engine of the process
        with _LOCK:
            if self.launched:
                return
            if _lead is not None or _process._dbos_global_instance is not None:  # noqa: SLF001 - nothing public says it
                raise UserError("this process leads runs of another database, or uses DBOS itself", path="Runs")
            _lead = lead
            try:
                self._launch()
            except BaseException as problem:
                DBOS.destroy(workflow_completion_timeout_sec=0)
                _lead = None
                if isinstance(problem, sa.exc.DatabaseError):
                    raise _cannot_be_opened(problem, self._files) from None
                raise
            self.launched = True

    def _launch(self) -> None:
        logging.getLogger("dbos").handlers.clear()  # one of before may write to what is closed by now
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
        self._keep_concurrency()

    def _keep_concurrency(self) -> None:
        """Keep what this process leads at once of a queue: the engine has one figure for all, that of who came last."""
        database = _process._dbos_global_instance._sys_db  # type: ignore[union-attr]  # noqa: SLF001 - as above
        found = database.get_queue

        def own(name: str, *arguments: Any, **keywords: Any) -> Any:
            queue = found(name, *arguments, **keywords)
            if queue is not None and name in self._concurrency:
                queue._worker_concurrency = self._concurrency[name]  # noqa: SLF001 - its setter writes it down
            return queue

        database.get_queue = own  # type: ignore[method-assign]

    def listen(self, queue: str, concurrency: int | None = None) -> None:
        """Take runs from a queue, so many at once."""
        self._concurrency[queue] = concurrency
        _process._dbos_global_instance._listening_queues.append(queue)  # type: ignore[union-attr]  # noqa: SLF001 - as above
        DBOS.register_queue(
            queue, worker_concurrency=concurrency, polling_interval_sec=_POLLING, on_conflict="always_update"
        )

    def drop(self, queue: str) -> None:
        """Remove a queue of this process."""
        self.client.delete_queue(queue)

    def stop(self, seconds: int) -> None:
        """Take no run any more, and wait so long until those that are led here are left."""
        global _lead
        with _LOCK:
            if self.launched:
                DBOS.destroy(workflow_completion_timeout_sec=seconds)
                _lead, self.launched = None, False

    def close(self) -> None:
        """Close the connections."""
        self.client.destroy()
        self.db.dispose()

    # Runs

    def start(self, run: str) -> None:
        """Lead a run here and now."""
        with SetWorkflowID(run):
            DBOS.start_workflow(_led)

    def enqueue(self, connection: sa.Connection, run: str, queue: str) -> None:
        """Put a run into a queue, in a transaction of the caller's."""
        options: Any = {"workflow_name": _NAME, "queue_name": queue, "workflow_id": run, "app_version": _VERSION}
        self.client.enqueue_in_transaction(connection, options)

    @patient
    def resume(self, runs: Sequence[str], queue: str) -> list[str]:
        """Have runs led again by who takes from this queue; whoever led them before records nothing more.

        Give those that the engine does not know.
        """
        try:
            self.client.resume_workflows(list(runs), queue_name=queue)
        except DBOSNonExistentWorkflowError:
            if len(runs) == 1:
                return list(runs)
            return [run for one in runs for run in self.resume([one], queue)]
        return []

    @patient
    def cancel(self, run: str) -> None:
        """End what is done for a run; it can be resumed."""
        self.client.cancel_workflow(run)

    @patient
    def fork(self, run: str, new: str, steps: int, queue: str) -> None:
        """Begin a run with the first steps of another one."""
        with SetWorkflowID(new):
            self.client.fork_workflow(run, steps + 1, queue_name=queue, application_version=_VERSION)

    @patient
    def ended(self, runs: Sequence[str]) -> set[str]:
        """Say which of these runs have come to their end."""
        if not runs:
            return set()
        found = self.client.list_workflows(
            workflow_ids=list(runs), status=list(_ENDED), load_input=False, load_output=False
        )
        return {status.workflow_id for status in found}

    @patient
    def taken(self, queues: Sequence[str]) -> dict[str, str]:
        """Say who has taken which runs from queues, and not ended them."""
        found = self.client.list_workflows(
            status="PENDING", queue_name=list(queues), load_input=False, load_output=False
        )
        return {status.workflow_id: str(status.executor_id) for status in found}

    @patient
    def output(self, run: str) -> Any:
        """Give what the run gave at its end; None if it has not ended."""
        self._note()
        found = self.client.list_workflows(workflow_ids=[run], status=list(_ENDED), load_input=False)
        if not found:
            return None
        return found[0].output if found[0].status == "SUCCESS" else {"failed": str(found[0].error)}

    @patient
    def steps(self, run: str, after: int = 0, *, output: bool = True) -> list[tuple[int, Any]]:
        """Give the recorded steps after a number, without a gap."""
        found = self.client.list_workflow_steps(run, offset=after, load_output=output)
        numbers = ((number, step["function_id"], step["output"]) for number, step in enumerate(found, after + 1))
        return [(number, value) for number, function, value in numbers if number == function]

    @patient
    def forget(self, runs: Sequence[str]) -> None:
        """Remove all that the engine has of runs."""
        self.client.delete_workflows(list(runs))

    # Steps of a run that is led here

    def step(self, name: str) -> Callable[[Callable[[], Any]], Any]:
        """Give the next step of the run that is led here: a function that does it, or gives what was recorded."""
        self._note()
        reserved: StepReservation = DBOS.reserve_step()
        return lambda function: reserved.run({"name": name}, function)
