"""The dialects by name. Each is a module with the same functions, and is imported when it is first used."""

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
_DEFAULT_TRAITS = WireTraits(history_key="messages")


class Dialect(Protocol):
    """A wire format: it decodes and encodes requests, responses, streams and errors.

    >>> from toolwire import Dialect, dialect
    >>> ollama: Dialect = dialect("ollama")
    >>> ollama.decode_response({"message": {"role": "assistant", "content": "Hi."}, "done": True}).content
    'Hi.'
    """

    DIALECT: str
    TRAITS: WireTraits
    """The particulars of the wire. Code outside the dialects asks for a trait, never for the name of a wire."""
    SETTING_PATHS: dict[str, str]
    """The path in the body for each field of a request. If a field may have several, `|` separates them."""

    def decode_request(self, body: dict[str, Any], path: str = "") -> Request:
        """Decode the `body` of a request. `path` is the path of its URL. Raise `InvalidBody` if it is no object."""

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Encode a request for a server with `quirks`, and report what the wire cannot express.

        `settings` change single fields of `quirks`.
        """

    def decode_response(self, body: dict[str, Any]) -> Response:
        """Decode the `body` of a response. Raise `InvalidBody` if it is no object."""

    def encode_response(self, response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Encode a response as a server with `quirks` sends it, and report what the wire cannot express.

        Beside single fields of `quirks`, `settings` may have `names` (tool names that are written unchanged), `request`
        (the request that is answered: a response of Responses repeats its settings) and `clock` (a function that
        returns the present time).
        """

    def decode_stream(self) -> StreamDecoder:
        """Return a decoder of one stream. It turns bytes into events as they arrive."""

    def encode_stream(self, quirks: Quirks = PLAIN, **settings: Any) -> StreamEncoder:
        """Return an encoder of one stream. It turns events into bytes as early as the wire allows.

        `settings` are those of `encode_response`.
        """

    def decode_error(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Error:
        """Decode an error from its HTTP status, its body and its headers.

        `headers` are read for the time to wait before a retry, if the body does not have it.
        """

    def encode_error(self, error: Error) -> ErrorReply:
        """Encode an error as a server replies with it."""


class ResumableDialect(Dialect, Protocol):
    """A dialect that also decodes and encodes the later messages of a conversation without the earlier ones."""

    WIRE: Wire

    def decode_later(self, bodies: list[Any], index: int, generated_count: int) -> list[Message] | None:
        """Decode messages, or return None if the earlier ones are needed.

        The first message has the index `index`. Before it, `generated_count` calls have ids that toolwire generated.
        """

    def encode_later(
        self, messages: Sequence[Message], index: int, model: str | None, quirks: Quirks
    ) -> tuple[list[Any], Ledger]:
        """Encode messages. The first has the index `index`. Return the bodies, and the ledger of losses and ids."""


def is_resumable(dialect: Dialect) -> TypeGuard[ResumableDialect]:
    """Return True if a dialect decodes and encodes later messages alone. An overlay over another dialect does not."""
    return hasattr(dialect, "decode_later") and hasattr(dialect, "encode_later")


class _DialectWithQuirks:
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
        self.base = dialect

    def encode_request(self, request: Request, quirks: Quirks | None = None, **settings: Any) -> Encoded:
        """Encode a request for this server."""
        return self.base.encode_request(request, quirks or self.quirks, **settings)

    def encode_response(self, response: Response, quirks: Quirks | None = None, **settings: Any) -> Encoded:
        """Encode a response as this server sends it."""
        return self.base.encode_response(response, quirks or self.quirks, **settings)

    def encode_stream(self, quirks: Quirks | None = None, **settings: Any) -> StreamEncoder:
        """Return an encoder of a stream as this server sends it."""
        return self.base.encode_stream(quirks or self.quirks, **settings)


def dialect(name: str | Dialect, **quirks: Unpack[QuirkOptions]) -> Dialect:
    """Return a dialect by its name or alias. `quirks` adapt it to a server that deviates from it.

    `name` may be a dialect as well. Raise `UnknownDialect` if no dialect has the name.

    >>> from toolwire import Context, Message, Request, dialect
    >>> request = Request(model="m", context=Context(messages=[Message("Hello")]))
    >>> dialect("openai-chat").encode_request(request).body["messages"]
    [{'role': 'user', 'content': 'Hello'}]
    """
    loaded = _load(name) if isinstance(name, str) else name
    return _DialectWithQuirks(loaded, tuned(PLAIN, quirks)) if quirks else loaded


def split_quirks(dialect: Dialect) -> tuple[Dialect, Quirks]:
    """Return a dialect without the quirks of its server, and the quirks."""
    return (dialect.base, dialect.quirks) if isinstance(dialect, _DialectWithQuirks) else (dialect, PLAIN)


def traits_of(name: str) -> WireTraits:
    """Return the traits of the wire of this name, or the default traits for any other name, such as an overlay's."""
    return _load(name).TRAITS if name in NAMES or name in ALIASES else _DEFAULT_TRAITS


@cache
def _load(name: str) -> Dialect:
    full_name = ALIASES.get(name, name)
    if full_name not in NAMES:
        raise UnknownDialect(name, [*NAMES, *ALIASES])
    return importlib.import_module(f"toolwire.dialects.{full_name.replace('-', '_')}")
