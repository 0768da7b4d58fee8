"""Our own tables beside those of the engine: who owns a run until when, what of it has begun, who approved what.

Rules of this file:
- Time is the database's: machines do not agree on it.
- Whoever owns a run has its number (`token`); each owner after it has a higher one. What begins is written only
  under the number that is in force, so that a process that slept begins nothing of what was taken over.
- `expires` is when somebody has to look at a run: who leads it has not renewed its lease, or its deadline has passed.
- A call is one row, from the time when it is asked about, or begins. An approval is used once, by the call and the
  arguments that it was given for.
- What is of use only to what is written after it does not wait for the disk: a log has the one before the other, so
  whatever is there after a power cut has what it stands on. So it is with texts, and with a call that may be run again.
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
_LOOKED_AT = RUNS.c.expires.is_not(None)
sa.Index("toolwire_runs_expires", RUNS.c.expires, sqlite_where=_LOOKED_AT, postgresql_where=_LOOKED_AT)
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
_ENDS = {"cancelled": _CANCELLED, "failed": _FAILED, "done": sa.not_(sa.or_(_CANCELLED, _FAILED))}
_LIVE = ("queued", "running")
_SHORT = (RUNS.c.id, RUNS.c.queue, RUNS.c.owner, RUNS.c.token, RUNS.c.cancel, RUNS.c.state, RUNS.c.steps)
TOGETHER = 200
AWAY = (sa.exc.OperationalError, sa.exc.InterfaceError)
"""What says that the database is away, or too busy."""
Row = Any


class Lost(BaseException):
    """The run is another owner's by now, or was ended."""


class Unapproved(Exception):
    """What was approved is not what would be run, or was run by now."""


def _are(rows: Sequence[Row]) -> Any:
    """Ask for these runs, under the numbers that they have here."""
    return sa.tuple_(RUNS.c.id, RUNS.c.token).in_([(row.id, row.token) for row in rows])


_P = ParamSpec("_P")
_T = TypeVar("_T")
_PATIENCE, _PAUSE = 60.0, 0.2


def patient(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have a method done again while the database is away; each of them may be done twice."""

    @functools.wraps(method)
    def patiently(*arguments: _P.args, **keywords: _P.kwargs) -> _T:
        late = time.monotonic() + _PATIENCE
        while True:
            try:
                return method(*arguments, **keywords)
            except AWAY as problem:
                if "locked" in str(problem.orig) or time.monotonic() > late:
                    raise
                time.sleep(_PAUSE)

    return patiently


class Register:
    """The tables, through an engine of SQLAlchemy."""

    def __init__(self, db: sa.Engine) -> None:
        self.db: sa.Engine = db
        sqlite = db.dialect.name == "sqlite"
        self._sqlite = sqlite
        clock = "(julianday('now') - 2440587.5) * 86400.0" if sqlite else "extract(epoch from clock_timestamp())"
        self.now: Any = sa.literal_column(clock, Double)

    def create(self) -> None:
        """Make the tables, if they are not there; who comes second waits."""
        if sa.inspect(self.db).has_table(ASKED.name):
            return
        with self.db.begin() as connection:
            if self._sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7466523341)")
            _META.create_all(connection)

    @contextmanager
    def _unhurried(self) -> Iterator[sa.Connection]:
        """Begin a transaction that comes to the disk with the next one that waits for it."""
        with self.db.connect() as connection:
            how = "PRAGMA synchronous=NORMAL" if self._sqlite else "SET LOCAL synchronous_commit=off"
            connection.exec_driver_sql(how)
            try:
                yield connection
                connection.commit()
            finally:
                if self._sqlite:  # where it is the connection's, and not the transaction's
                    connection.rollback()
                    connection.exec_driver_sql("PRAGMA synchronous=FULL")

    def _into(self, table: Table, rows: Any) -> Any:
        from sqlalchemy.dialects import postgresql, sqlite  # noqa: PLC0415 - one of both

        return (sqlite if self._sqlite else postgresql).insert(table).values(rows)

    def insert(self, table: Table, rows: Any) -> Any:
        """Insert rows that may be there already."""
        return self._into(table, rows).on_conflict_do_nothing()

    @patient
    def row(self, run: str) -> Row | None:
        """Give the row of a run."""
        with self.db.connect() as connection:
            return connection.execute(sa.select(RUNS, self.now.label("now")).where(RUNS.c.id == run)).first()

    @patient
    def rows(self, state: str | None = None, limit: int = 100) -> Sequence[Row]:
        """List runs, the newest first: all, or those of a state, or those that ended in a way."""
        query = sa.select(RUNS, self.now.label("now")).order_by(RUNS.c.created.desc()).limit(limit)
        if state is not None:
            query = query.where(RUNS.c.state == ("ended" if state in _ENDS else state), _ENDS.get(state, sa.true()))
        with self.db.connect() as connection:
            return connection.execute(query).all()

    @patient
    def change(self, run: str, *conditions: Any, **values: Any) -> bool:
        """Change the row of a run, if it is as the conditions say."""
        with self.db.begin() as connection:
            query = sa.update(RUNS).where(RUNS.c.id == run, *conditions).values(**values)
            return connection.execute(query).rowcount > 0

    @patient
    def claim(self, run: str, owner: str, lease: float, steps: int) -> Row | None:
        """Own a run from now on; what was counted against it before its last step is forgotten."""
        tries = sa.case((RUNS.c.steps < steps, 0), else_=RUNS.c.tries)
        values = {"state": "running", "owner": owner, "steps": steps, "tries": tries, "reason": ""}
        with self.db.begin() as connection:
            query = (
                sa.update(RUNS)
                .where(RUNS.c.id == run, RUNS.c.state.in_(_LIVE))
                .values(token=RUNS.c.token + 1, expires=self.now + lease, **values)
            )
            return connection.execute(query.returning(RUNS)).first()

    @patient
    def renew(self, owner: str, runs: Collection[str], lease: float) -> None:
        """Hold the lease of runs a while longer."""
        with self.db.begin() as connection:
            query = sa.update(RUNS).where(RUNS.c.owner == owner, RUNS.c.id.in_(runs), RUNS.c.state.in_(_LIVE))
            connection.execute(query.values(expires=self.now + lease))

    @patient
    def held(self, runs: dict[str, int]) -> dict[str, Row]:
        """Give the rows of runs that are still led under these numbers."""
        late = (RUNS.c.deadline < self.now).label("late")
        query = sa.select(RUNS.c.id, RUNS.c.token, RUNS.c.cancel, late)
        with self.db.connect() as connection:
            rows = connection.execute(query.where(RUNS.c.id.in_(runs), RUNS.c.state == "running")).all()
        return {row.id: row for row in rows if row.token == runs[row.id]}

    def guard(self, connection: sa.Connection, run: str, token: int) -> Row:
        """Give the row of a run, held until the end of the transaction; raise where it has another owner."""
        late = (RUNS.c.deadline < self.now).label("late")
        query: Any = sa.select(RUNS, late).where(RUNS.c.id == run).with_for_update(read=True)
        if self._sqlite:  # a write, so that nobody else writes until this transaction has ended
            query = sa.update(RUNS).where(RUNS.c.id == run).values(token=RUNS.c.token).returning(RUNS, late)
        row = connection.execute(query).first()
        if row is None or row.token != token or row.state != "running":
            raise Lost(run)
        return row

    @patient
    def holds(self, run: str, token: int) -> Row:
        """Give the row of a run; raise where it has another owner."""
        with self.db.connect() as connection:
            query = sa.select(RUNS, (RUNS.c.deadline < self.now).label("late")).where(RUNS.c.id == run)
            row = connection.execute(query).first()
        if row is None or row.token != token or row.state != "running":
            raise Lost(run)
        return row

    @patient
    def expired(
        self, queues: Collection[str], runs: Collection[str], within: float, only: str | None = None
    ) -> tuple[list[Row], float]:
        """List the runs that nobody leads any more: of these queues, these ones, those that are too late or cancelled.

        Say besides in how many seconds the next one may be over, if that is within so many. Who has let one lease go,
        and has renewed no other one for as long, is gone from all that it led.
        """
        late = sa.func.coalesce(RUNS.c.deadline < self.now, sa.false()).label("late")
        query = sa.select(*_SHORT, late, (RUNS.c.expires - self.now).label("left")).where(_LOOKED_AT)
        query = query.where(RUNS.c.state != "ended")
        soon = sa.or_(RUNS.c.expires <= self.now + within, RUNS.c.owner.is_not(None))
        with self.db.connect() as connection:
            rows = connection.execute(query.where(soon if only is None else RUNS.c.id == only)).all()
        gone = {owner for owner in {row.owner for row in rows if row.owner} if is_dead(owner)}
        led = [row for row in rows if row.owner and row.state == "running"]
        gone |= {row.owner for row in led if row.left <= 0} - {row.owner for row in led if row.left > within}
        over = [row for row in rows if row.left <= 0 or row.owner in gone]
        soonest = min((row.left for row in rows if 0 < row.left < within), default=within)
        return [row for row in over if row.late or row.cancel or row.queue in queues or row.id in runs], soonest

    @patient
    def unclaimed(self, runs: Collection[str], owner: str) -> list[Row]:
        """List those of these runs that nobody owns, or this owner, and that nobody leads."""
        query = sa.select(*_SHORT).where(RUNS.c.id.in_(runs), RUNS.c.state == "queued")
        with self.db.connect() as connection:
            return list(connection.execute(query.where(sa.or_(RUNS.c.owner.is_(None), RUNS.c.owner == owner))))

    @patient
    def led(self, owners: Collection[str]) -> dict[str, int]:
        """Say how many runs each of these owners leads, or led when it ended."""
        query = sa.select(RUNS.c.owner, sa.func.count().label("led")).group_by(RUNS.c.owner)
        with self.db.connect() as connection:
            rows = connection.execute(query.where(RUNS.c.owner.in_(owners), RUNS.c.state == "running"))
            return {row.owner: row.led for row in rows}

    @patient
    def take(self, rows: Sequence[Row], owner: str, lease: float, blame: int) -> list[Row]:
        """Take runs over, those that nobody else has; give them as they are by now."""
        taken: list[Row] = []
        for some in (rows[place : place + TOGETHER] for place in range(0, len(rows), TOGETHER)):
            free = sa.select(RUNS.c.id).where(_are(some), RUNS.c.state.in_(_LIVE)).with_for_update(skip_locked=True)
            values = {"token": RUNS.c.token + 1, "owner": owner, "expires": self.now + lease, "state": "queued"}
            query = sa.update(RUNS).where(RUNS.c.id.in_(free)).values(tries=RUNS.c.tries + blame, **values)
            with self.db.begin() as connection:
                taken += connection.execute(query.returning(RUNS.c.tries, *_SHORT)).all()
        return taken

    @patient
    def give_out(self, rows: Sequence[Row]) -> None:
        """Let go of runs, for whoever works at their queue."""
        with self.db.begin() as connection:
            connection.execute(sa.update(RUNS).where(_are(rows)).values(owner=None, expires=RUNS.c.deadline))

    # Calls

    @patient
    def ask(self, run: str, token: int, calls: Iterable[dict[str, Any]]) -> dict[str, Row]:
        """Ask about calls, those that nobody has asked about yet; give the rows of all that were asked about."""
        with self.db.begin() as connection:
            self.guard(connection, run, token)
            if rows := [{"run": run, **call} for call in calls]:
                connection.execute(self.insert(CALLS, rows))
            return {row.key: row for row in connection.execute(sa.select(CALLS).where(CALLS.c.run == run))}

    @patient
    def begin(self, run: str, token: int, call: dict[str, Any], *, approved: bool, again: bool) -> tuple[int, Row]:
        """Write that a call begins; say how often it had begun before. An approval is used by that.

        `again` says that the call may be run again without anybody knowing that it had begun.
        """
        with self._unhurried() if again and not approved else self.db.begin() as connection:
            owned = self.guard(connection, run, token)
            if approved:
                self._check_approval(connection, run, call)
            query = self._into(CALLS, {"run": run, **call, "begun": 1, "used": int(approved)})
            values = {"begun": CALLS.c.begun + 1, "used": int(approved)}
            query = query.on_conflict_do_update(index_elements=["run", "key"], set_=values)
            begun = connection.execute(query.returning(CALLS.c.begun)).scalar_one()
        return begun - 1, owned

    def _check_approval(self, connection: sa.Connection, run: str, call: dict[str, Any]) -> None:
        """Raise where a call is not what was approved, or its approval was used by another run."""
        row = connection.execute(sa.select(CALLS).where(CALLS.c.run == run, CALLS.c.key == call["key"])).first()
        if row is None or row.digest != call["digest"] or row.verdict != "yes" or (row.used and not row.begun):
            raise Unapproved(call["call"])

    @patient
    def calls(self, run: str) -> list[Row]:
        """List the calls of a run that began or were asked about."""
        with self.db.connect() as connection:
            return list(connection.execute(sa.select(CALLS).where(CALLS.c.run == run)))

    @patient
    def answer(self, run: str, call: str, verdict: str) -> bool:
        """Answer a call that was asked about, once; the run goes on when all are answered."""
        goes_on = sa.exists().where(RUNS.c.id == run, RUNS.c.state != "ended")
        waits = (CALLS.c.run == run, CALLS.c.verdict == "", goes_on)
        with self.db.begin() as connection:
            query = sa.update(CALLS).where(
                *waits, sa.or_(CALLS.c.call == call, CALLS.c.key == call), CALLS.c.begun == 0
            )
            done = connection.execute(query.values(verdict=verdict)).rowcount > 0
            if done and connection.execute(sa.select(CALLS.c.key).where(*waits)).first() is None:
                waiting = sa.update(RUNS).where(RUNS.c.id == run, RUNS.c.state == "waiting")
                connection.execute(waiting.values(state="queued", expires=0.0))
        return done

    # Texts

    @patient
    def keep(self, run: str, texts: dict[str, str], within: sa.Connection | None = None) -> None:
        """Keep texts that are not there yet."""
        rows = [{"run": run, "hash": name, "text": text} for name, text in texts.items()]
        if rows and within is not None:
            within.execute(self.insert(TEXTS, rows))
        elif rows:
            with self._unhurried() as connection:
                connection.execute(self.insert(TEXTS, rows))

    @patient
    def texts(self, run: str) -> dict[str, str]:
        """Give the texts of a run."""
        with self.db.connect() as connection:
            query = sa.select(TEXTS.c.hash, TEXTS.c.text).where(TEXTS.c.run == run)
            return {row.hash: row.text for row in connection.execute(query)}

    def copy(self, run: str, new: str, **values: Any) -> bool:
        """Make the row and the texts of a run that begins as another one did; False where it is there."""
        with self.db.begin() as connection:
            old = connection.execute(sa.select(RUNS).where(RUNS.c.id == run)).one()
            row = {"id": new, "spec": old.spec, "queue": old.queue, "created": self.now, **values}
            if connection.execute(self.insert(RUNS, row).returning(RUNS.c.id)).first() is None:
                return False
            texts = sa.select(sa.literal(new), TEXTS.c.hash, TEXTS.c.text).where(TEXTS.c.run == run)
            connection.execute(sa.insert(TEXTS).from_select(["run", "hash", "text"], texts))
        return True

    @patient
    def forget(self, runs: Sequence[str]) -> None:
        """Remove all that is ours of runs."""
        with self.db.begin() as connection:
            for table, column in ((CALLS, CALLS.c.run), (TEXTS, TEXTS.c.run), (ASKED, ASKED.c.run), (RUNS, RUNS.c.id)):
                connection.execute(sa.delete(table).where(column.in_(runs)))
