"""Limits on requests to a provider, shared by all workers of a database: concurrent requests, and requests per minute.

Rules of this file:
- Limits are stored in the database. All workers obey the same ones, and a change applies to the next request.
- Each open request is a row. It counts while its worker owns the run, so a dead worker's requests stop counting.
- Room is checked without a lock first, then again under a lock.
"""

from typing import Any

import sqlalchemy as sa

from toolwire.errors import InvalidField
from toolwire.runs.register import ASKED, LIMITS, RUNS, Register, retried

_MINUTE = 60.0


def check_count(name: str, value: Any, path: str) -> None:
    """Raise `InvalidField` if `value` is not a whole number above 0."""
    if type(value) is not int or value < 1:
        raise InvalidField(name, f"must be a whole number above 0, not {value!r}", path=path)


class ProviderLimits:
    """The limits of all providers in one database."""

    def __init__(self, register: Register) -> None:
        self._register = register
        held = (RUNS.c.id == ASKED.c.run, RUNS.c.token == ASKED.c.token, RUNS.c.expires > register.now)
        self._open = sa.and_(ASKED.c.ended.is_(None), sa.exists().where(*held))
        self._recent = ASKED.c.begun > register.now - _MINUTE

    @retried
    def all(self) -> dict[str, dict[str, int | None]]:
        """Return the limits by provider."""
        with self._register.db.connect() as connection:
            rows = connection.execute(sa.select(LIMITS).order_by(LIMITS.c.provider)).all()
        return {row.provider: {"at_once": row.at_once, "per_minute": row.per_minute} for row in rows}

    @retried
    def set(self, provider: str, at_once: int | None, per_minute: int | None) -> None:
        """Set the limits of a provider. Without numbers, remove them."""
        numbers = {"at_once": at_once, "per_minute": per_minute}
        for name, value in numbers.items():
            if value is not None:
                check_count(name, value, "Runs.limit")
        with self._register.db.begin() as connection:
            connection.execute(sa.delete(LIMITS).where(LIMITS.c.provider == provider))
            if at_once is not None or per_minute is not None:
                connection.execute(sa.insert(LIMITS).values(provider=provider, **numbers))

    @retried
    def acquire(self, run: str, token: int, provider: str) -> int | None:
        """Reserve a place for a request.

        Return its number, 0 if the provider has no limit, or None if the request has to wait.
        """
        with self._register.db.connect() as connection:
            limit = connection.execute(sa.select(LIMITS).where(LIMITS.c.provider == provider)).first()
            if limit is None:
                return 0
            if not self._has_room(connection, limit):
                return None
        with self._register.db.begin() as connection:
            lock = sa.update(LIMITS).where(LIMITS.c.provider == provider).values(provider=provider)
            limit = connection.execute(lock.returning(LIMITS)).first()
            connection.execute(sa.delete(ASKED).where(~self._recent, ~self._open))
            if limit is not None and not self._has_room(connection, limit):
                return None
            row = {"run": run, "token": token, "provider": provider, "begun": self._register.now}
            return int(connection.execute(sa.insert(ASKED).values(row).returning(ASKED.c.id)).scalar_one())

    def _has_room(self, connection: sa.Connection, limit: Any) -> bool:
        """Return True if one more request is allowed."""
        open_count, recent_count = sa.func.count().filter(self._open), sa.func.count().filter(self._recent)
        counts = connection.execute(sa.select(open_count, recent_count).where(ASKED.c.provider == limit.provider)).one()
        bounds = (limit.at_once, limit.per_minute)
        return all(bound is None or count < bound for count, bound in zip(counts, bounds, strict=True))

    @retried
    def release(self, number: int) -> None:
        """Release the place `number`: its request was answered, or failed."""
        with self._register.db.begin() as connection:
            connection.execute(sa.update(ASKED).where(ASKED.c.id == number).values(ended=self._register.now))
