"""Requests that ask no model and store something: each counts against the `requests` limit of its key."""

import contextlib
from collections.abc import AsyncIterator

from toolwire.gateway.accounts import Accounts
from toolwire.gateway.keys import Key


@contextlib.asynccontextmanager
async def counted(accounts: Accounts | None, key: Key | None) -> AsyncIterator[None]:
    """Count a request while it is served, or refuse it. If it raises, it is not counted."""
    if accounts is None or key is None:
        yield
        return
    reservation = await accounts.reserve(key, {"requests": 1})
    used = None
    try:
        yield
        used = {"requests": 1}
    finally:
        reservation.settle(used)
