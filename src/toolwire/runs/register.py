"""Our own tables, beside those of the engine: the owners and leases of runs, and the starts and approvals of calls.

Rules of this file:
- Times are the database's, because the clocks of machines differ.
- Each new owner of a run gets a higher number (`token`). A call is started only under the current number. So a process
  that was suspended starts nothing in a run that was taken over.
- `expires` is the time at which a run needs attention: its owner has not renewed the lease, or its deadline has passed.
- A call is one row, from the time when its approval is requested or it is started. An approval is used once, for the
  call and the arguments that it was given for.
- A write that matters only to later writes does not wait for the disk. The database's log is in order, so after a
  power cut every row that exists also has the rows that it depends on. This applies to texts, and to calls that may
  be run again.
"""

import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy import Column, Double, Integer, MetaData, Table, Text

from toolwire.runs.owners import is_dead

_META = MetaData()
RUNS = Table(
    "toolwire_runs",
    _META,
    Column("id", Text, primary_key=True),
    Column("spec", Text, nullable=False),
    Column("queue", Text),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("owner", Text),
    Column("token", Integer, nullable=False, server_default="0"),
    Column("expires", Double),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("steps", Integer, nullable=False, server_default="0"),
    Column("cancel", Integer, nullable=False, server_default="0"),
    Column("deadline", Double),
    Column("created", Double, nullable=False),
)
_HAS_EXPIRY = RUNS.c.expires.is_not(None)
sa.Index("toolwire_runs_expires", RUNS.c.expires, sqlite_where=_HAS_EXPIRY, postgresql_where=_HAS_EXPIRY)
TEXTS = Table(
    "toolwire_texts",
    _META,
    Column("run", Text, primary_key=True),
    Column("hash", Text, primary_key=True),
    Column("text", Text, nullable=False),
)
CALLS = Table(
    "toolwire_calls",
    _META,
    Column("run", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("call", Text),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("begun", Integer, nullable=False, server_default="0"),
    Column("verdict", Text),
    Column("used", Integer, nullable=False, server_default="0"),
)
LIMITS = Table(
    "toolwire_limits",
    _META,
    Column("provider", Text, primary_key=True),
    Column("at_once", Integer),
    Column("per_minute", Integer),
)
ASKED = Table(
    "toolwire_asked",
    _META,
    Column("id", Integer, primary_key=True),
    Column("run", Text, nullable=False),
    Column("token", Integer, nullable=False),
    Column("provider", Text, nullable=False, index=True),
    Column("begun", Double, nullable=False),
    Column("ended", Double),
)
_CANCELLED, _FAILED = RUNS.c.reason.startswith("cancelled"), RUNS.c.reason == "failed"
_ENDINGS = {"cancelled": _CANCELLED, "failed": _FAILED, "done": sa.not_(sa.or_(_CANCELLED, _FAILED))}
_LIVE = ("queued", "running")
_COLUMNS = (RUNS.c.id, RUNS.c.queue, RUNS.c.owner, RUNS.c.token, RUNS.c.cancel, RUNS.c.state, RUNS.c.steps)
BATCH = 200
UNAVAILABLE = (sa.exc.OperationalError, sa.exc.InterfaceError)
"""Errors of a database that cannot be reached, or is too busy."""
Row = Any


class RunLost(BaseException):
    """The run has another owner by now, or has ended."""


class Unapproved(Exception):
    """The call is not the one that was approved, or its approval was used already."""


def _are_rows(rows: Sequence[Row]) -> Any:
    """Return the condition for these runs, under the tokens that they have in `rows`."""
    return sa.tuple_(RUNS.c.id, RUNS.c.token).in_([(row.id, row.token) for row in rows])


_P = ParamSpec("_P")
_T = TypeVar("_T")
_PATIENCE, _PAUSE = 60.0, 0.2


def retried(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Repeat `method` while the database cannot be reached. Each such method may be executed twice."""

    @functools.wraps(method)
    def patiently(*arguments: _P.args, **keywords: _P.kwargs) -> _T:
        late = time.monotonic() + _PATIENCE
        while True:
            try:
                return method(*arguments, **keywords)
            except UNAVAILABLE as problem:
                if "locked" in str(problem.orig) or time.monotonic() > late:
                    raise
                time.sleep(_PAUSE)

    return patiently


class Register:
    """The tables of runs, of their calls and of limits, accessed through an SQLAlchemy engine."""

    def __init__(self, db: sa.Engine) -> None:
        self.db: sa.Engine = db
        sqlite = db.dialect.name == "sqlite"
        self._sqlite = sqlite
        clock = "(julianday('now') - 2440587.5) * 86400.0" if sqlite else "extract(epoch from clock_timestamp())"
        self.now: Any = sa.literal_column(clock, Double)

    def create(self) -> None:
        """Create the tables if they do not exist. A second process waits for the first."""
        if sa.inspect(self.db).has_table(ASKED.name):
            return
        with self.db.begin() as connection:
            if self._sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7466523341)")
            _META.create_all(connection)

    @contextmanager
    def _relaxed_transaction(self) -> Iterator[sa.Connection]:
        """Return a transaction that does not wait for the disk. It is written with the next one that does."""
        with self.db.connect() as connection:
            how = "PRAGMA synchronous=NORMAL" if self._sqlite else "SET LOCAL synchronous_commit=off"
            connection.exec_driver_sql(how)
            try:
                yield connection
                connection.commit()
            finally:
                if self._sqlite:  # SQLite has this setting per connection, not per transaction
                    connection.rollback()
                    connection.exec_driver_sql("PRAGMA synchronous=FULL")

    def _into(self, table: Table, rows: Any) -> Any:
        from sqlalchemy.dialects import postgresql, sqlite  # noqa: PLC0415 - only the dialect in use

        return (sqlite if self._sqlite else postgresql).insert(table).values(rows)

    def insert(self, table: Table, rows: Any) -> Any:
        """Return a statement that inserts `rows`, and skips those that exist."""
        return self._into(table, rows).on_conflict_do_nothing()

    @retried
    def row(self, run: str) -> Row | None:
        """Return the row of a run, or None."""
        with self.db.connect() as connection:
            return connection.execute(sa.select(RUNS, self.now.label("now")).where(RUNS.c.id == run)).first()

    @retried
    def rows(self, state: str | None = None, limit: int = 100) -> Sequence[Row]:
        """Return runs, newest first: all of them, those in a state, or those with an ending."""
        query = sa.select(RUNS, self.now.label("now")).order_by(RUNS.c.created.desc()).limit(limit)
        if state is not None:
            query = query.where(
                RUNS.c.state == ("ended" if state in _ENDINGS else state), _ENDINGS.get(state, sa.true())
            )
        with self.db.connect() as connection:
            return connection.execute(query).all()

    @retried
    def change(self, run: str, *conditions: Any, **values: Any) -> bool:
        """Update the row of a run if `conditions` hold. Return True if it was updated."""
        with self.db.begin() as connection:
            query = sa.update(RUNS).where(RUNS.c.id == run, *conditions).values(**values)
            return connection.execute(query).rowcount > 0

    @retried
    def claim(self, run: str, owner: str, lease: float, steps: int) -> Row | None:
        """Make `owner` the owner of a run. If `steps` were added since the last claim, its failures are reset."""
        tries = sa.case((RUNS.c.steps < steps, 0), else_=RUNS.c.tries)
        values = {"state": "running", "owner": owner, "steps": steps, "tries": tries, "reason": ""}
        with self.db.begin() as connection:
            query = (
                sa.update(RUNS)
                .where(RUNS.c.id == run, RUNS.c.state.in_(_LIVE))
                .values(token=RUNS.c.token + 1, expires=self.now + lease, **values)
            )
            return connection.execute(query.returning(RUNS)).first()

    @retried
    def renew(self, owner: str, runs: Collection[str], lease: float) -> None:
        """Extend the leases of those `runs` that `owner` holds, to `lease` seconds from now."""
        with self.db.begin() as connection:
            query = sa.update(RUNS).where(RUNS.c.owner == owner, RUNS.c.id.in_(runs), RUNS.c.state.in_(_LIVE))
            connection.execute(query.values(expires=self.now + lease))

    @retried
    def owned_rows(self, runs: dict[str, int]) -> dict[str, Row]:
        """Return the rows of those `runs` that still have the tokens given here."""
        late = (RUNS.c.deadline < self.now).label("late")
        query = sa.select(RUNS.c.id, RUNS.c.token, RUNS.c.cancel, late)
        with self.db.connect() as connection:
            rows = connection.execute(query.where(RUNS.c.id.in_(runs), RUNS.c.state == "running")).all()
        return {row.id: row for row in rows if row.token == runs[row.id]}

    def lock_owned(self, connection: sa.Connection, run: str, token: int) -> Row:
        """Return the row of a run, locked until the end of the transaction. Raise `RunLost` if it has another owner."""
        late = (RUNS.c.deadline < self.now).label("late")
        query: Any = sa.select(RUNS, late).where(RUNS.c.id == run).with_for_update(read=True)
        if self._sqlite:  # a write keeps other writers out until this transaction ends
            query = sa.update(RUNS).where(RUNS.c.id == run).values(token=RUNS.c.token).returning(RUNS, late)
        row = connection.execute(query).first()
        if row is None or row.token != token or row.state != "running":
            raise RunLost(run)
        return row

    @retried
    def check_owner(self, run: str, token: int) -> Row:
        """Return the row of a run. Raise `RunLost` if it has another owner."""
        with self.db.connect() as connection:
            query = sa.select(RUNS, (RUNS.c.deadline < self.now).label("late")).where(RUNS.c.id == run)
            row = connection.execute(query).first()
        if row is None or row.token != token or row.state != "running":
            raise RunLost(run)
        return row

    @retried
    def expired(
        self, queues: Collection[str], runs: Collection[str], within: float, only: str | None = None
    ) -> tuple[list[Row], float]:
        """Return the runs without a live owner: those of `queues`, those in `runs`, and all that are late or cancelled.

        Also return the seconds until the next lease may expire, at most `within`. An owner that let one lease expire,
        and has renewed no other lease since, is considered dead for all of its runs.
        """
        late = sa.func.coalesce(RUNS.c.deadline < self.now, sa.false()).label("late")
        query = sa.select(*_COLUMNS, late, (RUNS.c.expires - self.now).label("left")).where(_HAS_EXPIRY)
        query = query.where(RUNS.c.state != "ended")
        looked_at = sa.or_(RUNS.c.expires <= self.now + within, RUNS.c.owner.is_not(None))
        with self.db.connect() as connection:
            rows = connection.execute(query.where(looked_at if only is None else RUNS.c.id == only)).all()
        dead_owners = {owner for owner in {row.owner for row in rows if row.owner} if is_dead(owner)}
        running = [row for row in rows if row.owner and row.state == "running"]
        dead_owners |= {row.owner for row in running if row.left <= 0} - {
            row.owner for row in running if row.left > within
        }
        expired = [row for row in rows if row.left <= 0 or row.owner in dead_owners]
        soonest = min((row.left for row in rows if 0 < row.left < within), default=within)
        return [row for row in expired if row.late or row.cancel or row.queue in queues or row.id in runs], soonest

    @retried
    def unclaimed(self, runs: Collection[str], owner: str) -> list[Row]:
        """Return those of `runs` that nobody executes, and that have no owner or are owned by `owner`."""
        query = sa.select(*_COLUMNS).where(RUNS.c.id.in_(runs), RUNS.c.state == "queued")
        with self.db.connect() as connection:
            return list(connection.execute(query.where(sa.or_(RUNS.c.owner.is_(None), RUNS.c.owner == owner))))

    @retried
    def count_running(self, owners: Collection[str]) -> dict[str, int]:
        """Return how many running runs each of these owners has."""
        query = sa.select(RUNS.c.owner, sa.func.count().label("led")).group_by(RUNS.c.owner)
        with self.db.connect() as connection:
            rows = connection.execute(query.where(RUNS.c.owner.in_(owners), RUNS.c.state == "running"))
            return {row.owner: row.led for row in rows}

    @retried
    def take_over(self, rows: Sequence[Row], owner: str, lease: float, blame: int) -> list[Row]:
        """Take over the runs that no other process has taken yet. Return their new rows."""
        taken: list[Row] = []
        for batch in (rows[start : start + BATCH] for start in range(0, len(rows), BATCH)):
            free = (
                sa.select(RUNS.c.id).where(_are_rows(batch), RUNS.c.state.in_(_LIVE)).with_for_update(skip_locked=True)
            )
            values = {"token": RUNS.c.token + 1, "owner": owner, "expires": self.now + lease, "state": "queued"}
            query = sa.update(RUNS).where(RUNS.c.id.in_(free)).values(tries=RUNS.c.tries + blame, **values)
            with self.db.begin() as connection:
                taken += connection.execute(query.returning(RUNS.c.tries, *_COLUMNS)).all()
        return taken

    @retried
    def release(self, rows: Sequence[Row]) -> None:
        """Drop the ownership of runs, so that any worker of their queue can claim them."""
        with self.db.begin() as connection:
            connection.execute(sa.update(RUNS).where(_are_rows(rows)).values(owner=None, expires=RUNS.c.deadline))

    # Calls

    @retried
    def request_approval(self, run: str, token: int, calls: Iterable[dict[str, Any]]) -> dict[str, Row]:
        """Store the calls whose approval is not requested yet. Return the rows of all calls of the run by key."""
        with self.db.begin() as connection:
            self.lock_owned(connection, run, token)
            if rows := [{"run": run, **call} for call in calls]:
                connection.execute(self.insert(CALLS, rows))
            return {row.key: row for row in connection.execute(sa.select(CALLS).where(CALLS.c.run == run))}

    @retried
    def start_call(self, run: str, token: int, call: dict[str, Any], *, approved: bool, again: bool) -> tuple[int, Row]:
        """Store that a call starts. Return how often it was started before. An approval is used up by this.

        With `again`, the call may be run again even if this record of its start is lost.
        """
        with self._relaxed_transaction() if again and not approved else self.db.begin() as connection:
            row = self.lock_owned(connection, run, token)
            if approved:
                self._check_approval(connection, run, call)
            query = self._into(CALLS, {"run": run, **call, "begun": 1, "used": int(approved)})
            values = {"begun": CALLS.c.begun + 1, "used": int(approved)}
            query = query.on_conflict_do_update(index_elements=["run", "key"], set_=values)
            starts = connection.execute(query.returning(CALLS.c.begun)).scalar_one()
        return starts - 1, row

    def _check_approval(self, connection: sa.Connection, run: str, call: dict[str, Any]) -> None:
        """Raise `Unapproved` if `call` differs from the approved one, or the approval was used by another run."""
        row = connection.execute(sa.select(CALLS).where(CALLS.c.run == run, CALLS.c.key == call["key"])).first()
        if row is None or row.digest != call["digest"] or row.verdict != "yes" or (row.used and not row.begun):
            raise Unapproved(call["call"])

    @retried
    def calls(self, run: str) -> list[Row]:
        """Return the calls of a run that were started, or whose approval was requested."""
        with self.db.connect() as connection:
            return list(connection.execute(sa.select(CALLS).where(CALLS.c.run == run)))

    @retried
    def answer(self, run: str, call: str, verdict: str) -> bool:
        """Answer the approval request of a call, once. Return True if it was open. `call` is the call's id or its key.

        When all requests of the run are answered, the run is queued again.
        """
        is_alive = sa.exists().where(RUNS.c.id == run, RUNS.c.state != "ended")
        is_open = (CALLS.c.run == run, CALLS.c.verdict == "", is_alive)
        with self.db.begin() as connection:
            connection.execute(sa.select(RUNS.c.id).where(RUNS.c.id == run).with_for_update())
            query = sa.update(CALLS).where(
                *is_open, sa.or_(CALLS.c.call == call, CALLS.c.key == call), CALLS.c.begun == 0
            )
            answered = connection.execute(query.values(verdict=verdict)).rowcount > 0
            if answered and connection.execute(sa.select(CALLS.c.key).where(*is_open)).first() is None:
                waiting_run = sa.update(RUNS).where(RUNS.c.id == run, RUNS.c.state == "waiting")
                connection.execute(waiting_run.values(state="queued", expires=0.0))
        return answered

    @retried
    def wait_for_approval(self, run: str, token: int, values: dict[str, Any]) -> None:
        """Release a run that waits for approvals. If all were given meanwhile, queue it again.

        The row of the run is locked first, so that an answer is either seen here or finds the run waiting.
        """
        with self.db.begin() as connection:
            self.lock_owned(connection, run, token)
            is_open = sa.select(CALLS.c.key).where(CALLS.c.run == run, CALLS.c.verdict == "")
            if connection.execute(is_open).first() is None:
                values = {**values, "state": "queued", "expires": 0.0}
            connection.execute(sa.update(RUNS).where(RUNS.c.id == run, RUNS.c.token == token).values(**values))

    # Texts

    @retried
    def store_texts(self, run: str, texts: dict[str, str], within: sa.Connection | None = None) -> None:
        """Store the texts that are not stored yet; `within` is a transaction of the caller."""
        rows = [{"run": run, "hash": name, "text": text} for name, text in texts.items()]
        if rows and within is not None:
            within.execute(self.insert(TEXTS, rows))
        elif rows:
            with self._relaxed_transaction() as connection:
                connection.execute(self.insert(TEXTS, rows))

    @retried
    def texts(self, run: str) -> dict[str, str]:
        """Return the texts of a run by hash."""
        with self.db.connect() as connection:
            query = sa.select(TEXTS.c.hash, TEXTS.c.text).where(TEXTS.c.run == run)
            return {row.hash: row.text for row in connection.execute(query)}

    def copy(self, run: str, new: str, **values: Any) -> bool:
        """Copy a run's row and texts to a new run. Return False if the new run exists."""
        with self.db.begin() as connection:
            old = connection.execute(sa.select(RUNS).where(RUNS.c.id == run)).one()
            row = {"id": new, "spec": old.spec, "queue": old.queue, "created": self.now, **values}
            if connection.execute(self.insert(RUNS, row).returning(RUNS.c.id)).first() is None:
                return False
            texts = sa.select(sa.literal(new), TEXTS.c.hash, TEXTS.c.text).where(TEXTS.c.run == run)
            connection.execute(sa.insert(TEXTS).from_select(["run", "hash", "text"], texts))
        return True

    @retried
    def delete(self, runs: Sequence[str]) -> None:
        """Delete all of our rows of `runs`."""
        with self.db.begin() as connection:
            for table, column in ((CALLS, CALLS.c.run), (TEXTS, TEXTS.c.run), (ASKED, ASKED.c.run), (RUNS, RUNS.c.id)):
                connection.execute(sa.delete(table).where(column.in_(runs)))
