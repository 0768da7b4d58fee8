"""What is awaited has to be."""

from toolwire import aio


async def ask() -> str | None:
    return aio.generate("Hello").content  # error: attr-defined, reportAttributeAccessIssue
