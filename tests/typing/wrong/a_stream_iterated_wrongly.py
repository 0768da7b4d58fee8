"""An awaited stream is iterated in async code."""

from toolwire import aio


async def ask() -> None:
    for _ in aio.stream("Hello"):  # error: attr-defined, reportGeneralTypeIssues
        pass
