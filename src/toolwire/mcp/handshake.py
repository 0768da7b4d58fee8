"""Which protocol a server speaks: the newer one, which needs no handshake, or an older one.

Rules of this file:
- The newer way is asked first. Some servers of the older protocols never answer a method that they do not know, so the
  older way is asked as well after a second. The answer that comes first counts.
- A server that begins late reads both questions at once, and answers the first one first.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

_SILENCE = 1.0  # seconds after which a server that does not answer the newer way is asked the older way as well


async def shake_hands(session: ClientSession, has_died: Callable[[], bool], patience: float) -> None:
    """Agree on a protocol, the newer one if the server speaks it; raise why there is none."""
    newer, older = asyncio.ensure_future(session.discover()), None
    try:
        await asyncio.wait([newer], timeout=min(_SILENCE, patience / 2))
        if not _has_succeeded(newer) and not has_died():
            older = asyncio.ensure_future(initialize(session))
            waiting = {newer, older}
            while not (older.done() or _has_succeeded(newer)):
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if _has_succeeded(newer):
            session.adopt(newer.result())  # a server that speaks both may have answered the older way as well
        else:
            (older or newer).result()
    finally:
        await _cancelled(*filter(None, (newer, older)))


async def initialize(session: ClientSession) -> None:
    """Shake hands the older way; a server that began late may have taken the first question, and refuses it."""
    try:
        await session.initialize()
    except MCPError as problem:
        if problem.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


def _has_succeeded(task: "asyncio.Future[Any]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def _cancelled(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
