"""Limits of a provider, shared by all that lead runs of a database: questions at once, and questions in a minute.

Rules of this file:
- A limit stands in the database, so that all workers keep the same one, and one that is changed is kept at once.
- A question that is asked is a row. It counts for as long as its owner holds the run: who dies frees its place.
- Whether there is room is looked at first, and once more where nobody else can take it.
"""

from typing import Any

import sqlalchemy as sa

from toolwire.errors import InvalidField
from toolwire.runs.register import ASKED, LIMITS, RUNS, Register, patient

_MINUTE = 60.0


def check_count(name: str, value: Any, path: str) -> None:
    """Refuse what is no number of things."""
    if type(value) is not int or value < 1:
        raise InvalidField(name, f"must be a whole number above 0, not {value!r}", path=path)


class ProviderLimits:
    """The limits of a database."""

    def __init__(self, register: Register) -> None:
        self._register = register
        held = (RUNS.c.id == ASKED.c.run, RUNS.c.token == ASKED.c.token, RUNS.c.expires > register.now)
        self._lasts = sa.and_(ASKED.c.ended.is_(None), sa.exists().where(*held))
        self._recent = ASKED.c.begun > register.now - _MINUTE

    @patient
    def all(self) -> dict[str, dict[str, int | None]]:
        """Give the limits, by provider."""
        with self._register.db.connect() as connection:
            rows = connection.execute(sa.select(LIMITS).order_by(LIMITS.c.provider)).all()
        return {row.provider: {"at_once": row.at_once, "per_minute": row.per_minute} for row in rows}

    @patient
    def change(self, provider: str, at_once: int | None, per_minute: int | None) -> None:
        """Say what is the limit of a provider from now on; without figures it has none."""
        figures = {"at_once": at_once, "per_minute": per_minute}
        for name, value in figures.items():
            if value is not None:
                check_count(name, value, "Runs.limit")
        with self._register.db.begin() as connection:
            connection.execute(sa.delete(LIMITS).where(LIMITS.c.provider == provider))
            if at_once is not None or per_minute is not None:
                connection.execute(sa.insert(LIMITS).values(provider=provider, **figures))

    @patient
    def take(self, run: str, token: int, provider: str) -> int | None:
        """Take a place for a question: its number, 0 where nothing limits it, None where it has to wait."""
        with self._register.db.connect() as connection:
            limit = connection.execute(sa.select(LIMITS).where(LIMITS.c.provider == provider)).first()
            if limit is None:
                return 0
            if not self._has_room(connection, limit):
                return None
        with self._register.db.begin() as connection:
            lock = sa.update(LIMITS).where(LIMITS.c.provider == provider).values(provider=provider)
            limit = connection.execute(lock.returning(LIMITS)).first()
            connection.execute(sa.delete(ASKED).where(~self._recent, ~self._lasts))
            if limit is not None and not self._has_room(connection, limit):
                return None
            row = {"run": run, "token": token, "provider": provider, "begun": self._register.now}
            return int(connection.execute(sa.insert(ASKED).values(row).returning(ASKED.c.id)).scalar_one())

    def _has_room(self, connection: sa.Connection, limit: Any) -> bool:
        """Whether one more may be asked."""
        lasting, recent = sa.func.count().filter(self._lasts), sa.func.count().filter(self._recent)
        found = connection.execute(sa.select(lasting, recent).where(ASKED.c.provider == limit.provider)).one()
        bounds = (limit.at_once, limit.per_minute)
        return all(bound is None or count < bound for count, bound in zip(found, bounds, strict=True))

    @patient
    def leave(self, number: int) -> None:
        """Give a place back: its question was answered, or broke off."""
        with self._register.db.begin() as connection:
            connection.execute(sa.update(ASKED).where(ASKED.c.id == number).values(ended=self._register.now))
