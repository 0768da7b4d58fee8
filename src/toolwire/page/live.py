"""Live rows: what was recorded since, as server-sent events.

Rules of this file:
- A row is the HTML of our own template, so that the script makes none.
- All rows of a moment are one event. A browser that was away gets what it missed, by the position it had last.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from toolwire.page.shown import PageRequest
from toolwire.page.sources import Sources
from toolwire.page.traffic import figures_of, filters_of, row_html

_PAUSE = 0.25
_MOST = 500
_QUIET = 40  # pauses after which a comment keeps the connection open
_FIGURES = 8  # pauses after which the figures are read again, if something came


async def follow(sources: Sources, request: PageRequest) -> AsyncIterator[bytes]:
    """Yield events with new rows, or a comment that keeps the connection open, until the reader stops."""
    position = _position_of(request)
    yield b"retry: 2000\n\n"
    quiet, changed, ticks = 0, False, 0
    while sources.records is not None:
        await asyncio.sleep(_PAUSE)
        ticks += 1
        rows, position = await asyncio.to_thread(_read, sources, request, position)
        changed = changed or bool(rows)
        figures = None
        if changed and ticks % _FIGURES == 0:
            figures, changed = await asyncio.to_thread(figures_of, sources, filters_of(request)), False
        quiet = 0 if rows or figures else quiet + 1
        if rows or figures:
            data = msgspec.json.encode({"rows": rows, "figures": figures or {}})
            yield b"event: rows\nid: %d\ndata: %s\n\n" % (position, data)
        elif quiet % _QUIET == 0:
            yield b": nothing\n\n"
        else:
            yield b""


def _position_of(request: PageRequest) -> int:
    for text in (request.last_event, request.query.get("after", "")):
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
    return 0


def _read(sources: Sources, request: PageRequest, position: int) -> tuple[list[str], int]:
    """Return the rows after a position, the oldest first, and the position of the newest one."""
    page = sources.records.list(after=position, limit=_MOST, **filters_of(request))
    lines = sorted(page.rows, key=lambda line: line.position)
    return [str(row_html(line)) for line in lines], lines[-1].position if lines else position
