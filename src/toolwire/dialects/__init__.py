"""The dialects by name. Each is a module with the same functions; none is imported before it is asked for."""

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol, TypeGuard, Unpack

from toolwire.encoding.ledger import Ledger, Wire
from toolwire.encoding.quirk_options import QuirkOptions
from toolwire.encoding.quirks import PLAIN, Quirks, tuned
from toolwire.encoding.traits import WireTraits
from toolwire.errors import UnknownDialect
from toolwire.streams import StreamDecoder, StreamEncoder
from toolwire.types import Encoded, Error, ErrorReply, Message, Request, Response

NAMES = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")
ALIASES: Mapping[str, str] = {"openai": "openai-chat", "responses": "openai-responses"}
_NO_TRAITS = WireTraits(history_key="messages")


class Dialect(Protocol):
    """A wire format: it reads and writes requests, responses, streams and errors, and nothing else."""

    DIALECT: str
    TRAITS: WireTraits
    """What is particular to the wire. Code outside the dialects asks for a trait, never for the name of a wire."""
    SETTING_PATHS: dict[str, str]
    """Where a body says a field of a request; `|` parts the places that one may have."""

    def decode_request(self, body: dict[str, Any], path: str = "") -> Request:
        """Read a request's body; `path` is the path of its URL."""

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a request's body, and report what it cannot hold."""

    def decode_response(self, body: dict[str, Any]) -> Response:
        """Read a response's body."""

    def encode_response(self, response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a response's body, and report what it cannot hold."""

    def decode_stream(self) -> StreamDecoder:
        """Read a stream: bytes to events, as they arrive."""

    def encode_stream(self, quirks: Quirks = PLAIN, **settings: Any) -> StreamEncoder:
        """Write a stream: events to bytes, as early as the wire allows."""

    def decode_error(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Error:
        """Read an error's body; the headers say how long to wait if the body does not."""

    def encode_error(self, error: Error) -> ErrorReply:
        """Write an error's body."""


class ResumableDialect(Dialect, Protocol):
    """A dialect that also reads and writes the later messages of a conversation without the earlier ones."""

    WIRE: Wire

    def decode_later(self, bodies: list[Any], place: int, made: int) -> list[Message] | None:
        """Decode messages of which the first has the index `place`, after `made` calls whose ids were generated."""

    def encode_later(
        self, messages: Sequence[Message], place: int, model: str | None, quirks: Quirks
    ) -> tuple[list[Any], Ledger]:
        """Encode messages of which the first has the index `place`. Return the ledger of their losses and ids, too."""


def is_resumable(dialect: Dialect) -> TypeGuard[ResumableDialect]:
    """Return True if a dialect reads and writes later messages alone; one that is laid over another does not."""
    return hasattr(dialect, "decode_later") and hasattr(dialect, "encode_later")


class _Tuned:
    """A dialect whose encoder knows how a server deviates from it."""

    def __init__(self, dialect: Dialect, quirks: Quirks) -> None:
        self.DIALECT = dialect.DIALECT
        self.TRAITS = dialect.TRAITS
        self.SETTING_PATHS = dialect.SETTING_PATHS
        self.quirks = quirks
        self.decode_request = dialect.decode_request
        self.decode_response = dialect.decode_response
        self.decode_stream = dialect.decode_stream
        self.decode_error = dialect.decode_error
        self.encode_error = dialect.encode_error
        self.plain = dialect

    def encode_request(self, request: Request, quirks: Quirks | None = None, **settings: Any) -> Encoded:
        """Write a request for this server."""
        return self.plain.encode_request(request, quirks or self.quirks, **settings)

    def encode_response(self, response: Response, quirks: Quirks | None = None, **settings: Any) -> Encoded:
        """Write a response as this server does."""
        return self.plain.encode_response(response, quirks or self.quirks, **settings)

    def encode_stream(self, quirks: Quirks | None = None, **settings: Any) -> StreamEncoder:
        """Write a stream as this server does."""
        return self.plain.encode_stream(quirks or self.quirks, **settings)


def dialect(name: str | Dialect, **quirks: Unpack[QuirkOptions]) -> Dialect:
    """Give a dialect by its name or alias, or the dialect that was passed; quirks adapt it to a server.

    >>> from toolwire import Context, Message, Request, dialect
    >>> request = Request(model="m", context=Context(messages=[Message("Hello")]))
    >>> dialect("openai-chat").encode_request(request).body["messages"]
    [{'role': 'user', 'content': 'Hello'}]
    """
    found = _load(name) if isinstance(name, str) else name
    return _Tuned(found, tuned(PLAIN, quirks)) if quirks else found


def untuned(dialect: Dialect) -> tuple[Dialect, Quirks]:
    """Return a dialect without the quirks of its server, and the quirks."""
    return (dialect.plain, dialect.quirks) if isinstance(dialect, _Tuned) else (dialect, PLAIN)


def traits_of(name: str) -> WireTraits:
    """Return the traits of the wire of this name. Any other name, such as that of an overlay, has no particulars."""
    return _load(name).TRAITS if name in NAMES or name in ALIASES else _NO_TRAITS


@cache
def _load(name: str) -> Dialect:
    known = ALIASES.get(name, name)
    if known not in NAMES:
        raise UnknownDialect(name, [*NAMES, *ALIASES])
    return importlib.import_module(f"toolwire.dialects.{known.replace('-', '_')}")
