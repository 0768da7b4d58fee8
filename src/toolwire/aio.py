"""The async versions of the names in `toolwire`."""

import typing as _typing

from toolwire.client.aio import Client, Conversation, Stream, conversation, execute, generate, stream

if _typing.TYPE_CHECKING:
    from toolwire.runs.aio import Run, Runs

__all__ = ["Client", "Conversation", "Run", "Runs", "Stream", "conversation", "execute", "generate", "stream"]

if not _typing.TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> _typing.Any:
        if name not in ("Run", "Runs"):
            raise AttributeError(f"module 'toolwire.aio' has no attribute {name!r}")
        from toolwire import runs  # noqa: PLC0415 - an extra

        return getattr(runs.awaited(), name)
