"""One recorded exchange: four bodies, the times of what was streamed, the losses, the usage, and who asked.

Rules of this file:
- A body is what was on the wire, after sensitive values were replaced by masks. A body that was cut says so.
- Times are seconds since the exchange began, but `time`, which is a Unix time.
"""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from time import time as unix_time
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from toolwire.types import Loss, Usage
from toolwire.types.readable import readable

SIDES = ("client_request", "provider_request", "provider_answer", "client_answer")
"""The names of the four bodies, in the order in which they are on the wire."""

CANONICAL = "canonical"
"""The `wire` of a record that a client of this library made: its side of the exchange is a canonical value as JSON."""


class Frame(Struct, frozen=True, array_like=True):
    """One event of a stream, or one message of a WebSocket: when its last byte was on the wire, and its length."""

    seconds: float
    size: int


class Body(Struct, frozen=True, kw_only=True):
    """One of the four bodies of an exchange, with its headers. Credentials are never among the headers.

    `size` counts the bytes on the wire. `cut` is True if `data` has only the first of them.
    """

    data: bytes = b""
    size: int = 0
    cut: bool = False
    headers: dict[str, str] = {}
    frames: tuple[Frame, ...] = ()

    @property
    def content_type(self) -> str:
        """The content type of the body. It is JSON if no header says otherwise."""
        return self.headers.get("content-type", "application/json")

    @property
    def text(self) -> str:
        """The body as text. Bytes that are not UTF-8 are replaced."""
        return self.data.decode(errors="replace")

    @property
    def json(self) -> Any:
        """The parsed body, or None if it is not JSON."""
        try:
            return msgspec.json.decode(self.data)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None

    def events(self) -> Iterator[tuple[float, bytes]]:
        """Yield the events of a stream, each with its time."""
        ends = accumulate((frame.size for frame in self.frames), initial=0)
        for frame, (start, end) in zip(self.frames, pairwise(ends), strict=True):
            yield frame.seconds, self.data[start:end]


class EarlierExchange(Struct, frozen=True, kw_only=True):
    """An exchange with a provider before the last one of the same request: one that failed, or one that searched."""

    provider: str = ""
    provider_model: str = ""
    provider_wire: str = ""
    url: str = ""
    status: int = 0
    error: str = ""
    seconds: float = 0.0
    request: Body = Body()
    answer: Body = Body()


@readable
class Record(Struct, frozen=True, kw_only=True):
    """One exchange: a client's request, what the provider received and answered, and what the client received.

    For a client of this library, `wire` is `canonical`: `client_request` is the canonical request as JSON, and
    `client_answer` the canonical response.
    """

    id: str
    """The id of the request. The gateway sends it to the client in the header `x-toolwire-request`."""
    time: float = field(default_factory=unix_time)
    """When the exchange began, as a Unix time."""
    seconds: float = 0.0
    """How long the exchange took."""
    first_byte: float | None = None
    """The seconds until the first byte of the answer was sent to the client. None if nothing was sent."""
    key: str = ""
    """The id of the client's key. Empty without keys."""
    key_name: str = ""
    """The name of the client's key."""
    session: str = ""
    """The session that the client program names in its headers."""
    conversation: str = ""
    """An id that all turns of one conversation share."""
    path: str = ""
    """The path of the client's request, with its query."""
    wire: str = ""
    """The wire that the client speaks."""
    provider_wire: str = ""
    """The wire that the provider speaks."""
    url: str = ""
    """The address of the provider, without secrets."""
    model: str = ""
    """The model that the client named."""
    provider: str = ""
    """The name of the provider that was asked last."""
    provider_model: str = ""
    """The model that the provider was asked for."""
    streamed: bool = False
    """True if the answer was streamed to the client."""
    status: int = 0
    """The HTTP status that the client received, or 0 if it left before."""
    provider_status: int = 0
    """The HTTP status of the provider's answer, or 0 if there was none."""
    error: str = ""
    """Why the provider could not be reached, such as `connect` or `timeout`. Empty if it answered."""
    ending: str = ""
    """How the answer ended, as in the gateway's log."""
    usage: Usage | None = None
    """The tokens, as far as the provider reported them or the gateway estimated them."""
    estimated: bool = False
    """True if the gateway estimated the tokens."""
    cost: float = 0.0
    """The cost in US dollars."""
    request_losses: tuple[Loss, ...] = ()
    """What the provider's wire could not express of the request."""
    answer_losses: tuple[Loss, ...] = ()
    """What the client's wire could not express of the answer."""
    websocket: bool = False
    """True if the request was a message of a WebSocket."""
    earlier: tuple[EarlierExchange, ...] = ()
    """The exchanges with providers before the last one, whose bodies are below."""
    client_request: Body = Body()
    provider_request: Body = Body()
    provider_answer: Body = Body()
    client_answer: Body = Body()

    @property
    def bodies(self) -> dict[str, Body]:
        """The four bodies by name."""
        return {side: getattr(self, side) for side in SIDES}

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses of the request and of the answer."""
        return (*self.request_losses, *self.answer_losses)

    @property
    def program(self) -> str:
        """The client program and its version, by its user agent: `claude-cli 2.1.332`. Empty if it names none."""
        names = {name.lower(): value for name, value in self.client_request.headers.items()}
        name, _, version = names.get("user-agent", "").partition(" (")[0].strip()[:100].partition("/")
        return f"{name.strip()} {version.strip()}".strip()

    def summary(self, position: int = 0, size: int = 0) -> "Summary":
        """Return the line of this record in a list."""
        usage = self.usage or Usage()
        severities = [loss.severity for loss in self.losses]
        return Summary(
            position=position,
            bytes=size,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            semantic=severities.count("semantic"),
            minor=severities.count("minor"),
            formal=severities.count("formal"),
            program=self.program,
            **{name: getattr(self, name) for name in SHARED},
        )

    def to_json(self) -> dict[str, Any]:
        """Return the record as values of JSON. A body that is no text is in base64, and its member says so."""
        values: dict[str, Any] = msgspec.to_builtins({name: getattr(self, name) for name in _PLAIN})
        earlier = [
            msgspec.to_builtins(replace(one, request=Body(), answer=Body()))
            | {"request": _body_json(one.request), "answer": _body_json(one.answer)}
            for one in self.earlier
        ]
        return values | {"earlier": earlier} | {side: _body_json(body) for side, body in self.bodies.items()}


class Summary(Struct, frozen=True, kw_only=True):
    """One line of a list of records: a record without its bodies, with the number of losses by severity."""

    position: int
    """The place of the record in its store. It grows with each record, and is the start of a page."""
    id: str
    time: float
    seconds: float
    first_byte: float | None
    key: str
    key_name: str
    session: str
    conversation: str
    program: str
    path: str
    wire: str
    provider_wire: str
    model: str
    provider: str
    provider_model: str
    streamed: bool
    status: int
    ending: str
    estimated: bool
    cost: float
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    semantic: int
    minor: int
    formal: int
    bytes: int
    """How many bytes the record takes in its store."""


SHARED = tuple(name for name in Summary.__struct_fields__ if name in Record.__struct_fields__)
"""The fields that a record and its summary share."""
_PLAIN = tuple(name for name in Record.__struct_fields__ if name not in (*SIDES, "earlier"))


def _body_json(body: Body) -> dict[str, Any]:
    try:
        data = {"data": body.data.decode()}
    except UnicodeDecodeError:
        data = {"data": msgspec.to_builtins(body.data), "encoding": "base64"}
    frames = [[frame.seconds, frame.size] for frame in body.frames]
    return {**data, "size": body.size, "cut": body.cut, "headers": body.headers, "frames": frames}


def record_of(values: dict[str, Any]) -> Record:
    """Return the record that `to_json` returned as `values`. Raise `msgspec.ValidationError` for other values."""
    bodies = {side: _without_text(values[side]) for side in SIDES if side in values}
    earlier = [
        {**one, **{side: _without_text(one[side]) for side in ("request", "answer") if side in one}}
        for one in values.get("earlier", ())
    ]
    return msgspec.convert({**values, **bodies, "earlier": earlier}, Record)


def _without_text(body: Any) -> Any:
    if type(body) is not dict or body.get("encoding") == "base64" or type(body.get("data")) is not str:
        return body
    return {**body, "data": msgspec.to_builtins(body["data"].encode(errors="surrogatepass"))}
