"""The key of a call: the same for every try of one call, so that a tool can have one effect for it.

Rules of this file:
- Who leads a run that survives says the key while the call runs; elsewhere each call has a new one.
- The key says nothing of the call's arguments, and no model sees it.
"""

import contextlib
import uuid
from collections.abc import Iterator
from contextvars import ContextVar


class CallKey(str):
    """The key of a call: a parameter of this type gets it, and is no argument of the tool."""

    __slots__ = ()


_KEY: ContextVar[CallKey | None] = ContextVar("toolwire_call_key", default=None)


def current_key() -> CallKey:
    """Give the key of the call that runs here, or a new one."""
    return _KEY.get() or CallKey(uuid.uuid4().hex)


@contextlib.contextmanager
def keyed(key: str) -> Iterator[None]:
    """Say the key of the call that runs within."""
    token = _KEY.set(CallKey(key))
    try:
        yield
    finally:
        _KEY.reset(token)
