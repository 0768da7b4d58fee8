"""A call's idempotency key: the same in every attempt of one call, so that its tool takes effect only once.

Rules of this file:
- A durable run sets the key while it executes a call. Outside of durable runs, each call gets a new key.
- The key reveals nothing about the call's arguments. No model sees it.
"""

import contextlib
import uuid
from collections.abc import Iterator
from contextvars import ContextVar


class CallKey(str):
    """The idempotency key of a call. A tool's parameter of this type receives the key; the model does not see it.

    >>> from toolwire import CallKey, tool
    >>> @tool(effects="idempotent")
    ... def pay(order: str, key: CallKey) -> str:
    ...     return f"{order} is paid"
    >>> list(pay.definition().parameters["properties"])
    ['order']
    """

    __slots__ = ()


_KEY: ContextVar[CallKey | None] = ContextVar("toolwire_call_key", default=None)


def current_key() -> CallKey:
    """Return the key of the call that is being executed, or a new key."""
    return _KEY.get() or CallKey(uuid.uuid4().hex)


@contextlib.contextmanager
def use_key(key: str) -> Iterator[None]:
    """Set `key` as the key of the call that is executed within the `with` block."""
    token = _KEY.set(CallKey(key))
    try:
        yield
    finally:
        _KEY.reset(token)
