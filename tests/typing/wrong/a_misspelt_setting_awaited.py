"""A setting of the awaited face that is none."""

from toolwire import aio


async def ask() -> None:
    await aio.generate("Hello", max_token=5)  # error: call-overload, reportCallIssue
