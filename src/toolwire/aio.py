"""The same names as in `toolwire`, awaited."""

from toolwire.client.aio import Client, Stream, execute, generate, stream

__all__ = ["Client", "Stream", "execute", "generate", "stream"]
