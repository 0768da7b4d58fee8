"""The protocol of a server: the newer one, which needs no handshake, or an older one.

Rules of this file:
- The newer handshake is sent first. Some servers of the older protocols never answer an unknown method, so the older
  handshake is sent as well after a second. The first answer counts.
- A server that starts slowly reads both requests at once, and answers the first one first.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

_SILENCE_SECONDS = 1.0  # after which the older handshake is sent as well


async def shake_hands(session: ClientSession, has_died: Callable[[], bool], patience: float) -> None:
    """Agree on a protocol, the newer one if the server supports it. Raise the server's error if there is none."""
    newer, older = asyncio.ensure_future(session.discover()), None
    try:
        await asyncio.wait([newer], timeout=min(_SILENCE_SECONDS, patience / 2))
        if not _has_succeeded(newer) and not has_died():
            older = asyncio.ensure_future(initialize(session))
            waiting = {newer, older}
            while not (older.done() or _has_succeeded(newer)):
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if _has_succeeded(newer):
            session.adopt(newer.result())  # a server that supports both may have answered the older one as well
        else:
            (older or newer).result()
    finally:
        await _cancel_all(*filter(None, (newer, older)))


async def initialize(session: ClientSession) -> None:
    """Perform the older handshake.

    A server that started slowly may have accepted the first request, and rejects this one.
    """
    try:
        await session.initialize()
    except MCPError as problem:
        if problem.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


def _has_succeeded(task: "asyncio.Future[Any]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def _cancel_all(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel the tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
