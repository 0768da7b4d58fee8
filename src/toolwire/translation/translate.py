"""Bodies of one dialect to bodies of another, through the canonical model.

Rules of this file:
- Nothing is lost in silence: what the target cannot say is in the losses. `strict` raises before anything is
  sent.
- A strict translation minds losses of meaning. A minor loss (a cache mark, an order of words and calls, a
  default that had to be given) is told, and never raised.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.dialects import Dialect, dialect
from toolwire.errors import InvalidBody, LossyTranslation
from toolwire.streams import StreamDecoder, StreamEncoder
from toolwire.types import Encoded, ErrorReply, Loss
from toolwire.wire.bodies import read_body

Body = dict[str, Any] | bytes | str
_FIRST_ERROR = 400


def request(
    body: Body,
    source: str | Dialect,
    target: str | Dialect,
    path: str = "",
    *,
    model: str | None = None,
    strict: bool = False,
) -> Encoded:
    """Translate a request's body; `path` is that of its URL (Gemini's names the model and says whether to stream).

    `model` replaces the model that the request names.

    >>> from toolwire import translate
    >>> body = {"model": "m", "top_k": 5, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    >>> encoded = translate.request(body, source="anthropic", target="openai-chat")
    >>> encoded.path, [loss.path for loss in encoded.losses]
    ('/v1/chat/completions', ['top_k'])
    """
    here, there = dialect(source), dialect(target)
    source_body = read_body(body)
    decoded = here.decode_request(source_body, path)
    encoded = there.encode_request(decoded if model is None else replace(decoded, model=model))
    if not encoded.losses:
        return encoded
    losses = where_they_stand(encoded.losses, source_body, here.SETTING_PATHS)
    if strict:
        refuse(losses)
    return encoded if losses is encoded.losses else Encoded(encoded.path, encoded.body, losses)


def where_they_stand(losses: tuple[Loss, ...], body: dict[str, Any], paths: Mapping[str, str]) -> tuple[Loss, ...]:
    """Name lost settings by their place in the source's body."""
    if not losses:
        return losses
    named: list[Loss] | None = None
    steps = max((field.count(".") for field in paths), default=0) + 1
    for place, loss in enumerate(losses):
        field = ".".join(loss.path.split(".", steps)[:steps])
        while field and field not in paths:
            field = field.rpartition(".")[0]
        if field and (key := _key_of(paths[field], body)) != field and key.partition(".")[0] in body:
            named = named or list(losses)
            named[place] = replace(loss, path=key + loss.path[len(field) :])
    return losses if named is None else tuple(named)


def _key_of(paths: str, body: dict[str, Any]) -> str:
    """Choose among the places of a setting the one that a body has; the first, if it has none."""
    first, *others = paths.split("|")
    return next((path for path in others if _holds(body, path.split("."))), first)


def _holds(body: Any, steps: list[str]) -> bool:
    return not steps or (type(body) is dict and steps[0] in body and _holds(body[steps[0]], steps[1:]))


def response(body: Body, source: str | Dialect, target: str | Dialect, *, strict: bool = False) -> Encoded:
    """Translate a response's body.

    >>> from toolwire import translate
    >>> body = {"model": "m", "message": {"role": "assistant", "content": "Hi."}, "done": True, "done_reason": "stop"}
    >>> translate.response(body, source="ollama", target="openai-chat").body["choices"][0]["message"]["content"]
    'Hi.'
    """
    here, there = dialect(source), dialect(target)
    encoded = there.encode_response(here.decode_response(read_body(body)))
    if strict:
        refuse(encoded.losses)
    return encoded


class TranslatedStream:
    """A stream on its way from one dialect to another; `losses` grow while it runs."""

    __slots__ = ("_decoder", "_encoder")

    def __init__(self, decoder: StreamDecoder, encoder: StreamEncoder) -> None:
        self._decoder = decoder
        self._encoder = encoder

    def feed(self, data: bytes) -> bytes:
        """Give what can be said of these bytes, cut anywhere."""
        return b"".join(map(self._encoder.feed, self._decoder.feed(data)))

    def close(self) -> bytes:
        """Give what is left to say when the source has ended."""
        last = b"".join(map(self._encoder.feed, self._decoder.close()))
        return last + self._encoder.close()

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far."""
        return self._encoder.losses


def stream(source: str | Dialect, target: str | Dialect) -> TranslatedStream:
    """Translate a stream while it runs.

    >>> from toolwire import translate
    >>> stream = translate.stream(source="ollama", target="anthropic")
    >>> sent = stream.feed(b'{"message":{"role":"assistant","content":"Hi."},"done":false}' + bytes([10]))
    >>> b'"text_delta","text":"Hi."' in sent
    True
    """
    return TranslatedStream(dialect(source).decode_stream(), dialect(target).encode_stream())


def error(
    status: int | None,
    body: Any,
    source: str | Dialect,
    target: str | Dialect,
    headers: Mapping[str, str] | None = None,
) -> ErrorReply:
    """Translate an error's body; it may be anything that a server may answer, bytes of any text too.

    The `headers` of the answer say how long to wait; the reply says it in its own.

    >>> from toolwire import translate
    >>> body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    >>> reply = translate.error(529, body, source="anthropic", target="openai-chat")
    >>> reply.status, reply.body["error"]["message"]
    (529, 'Overloaded')
    """
    here, there = dialect(source), dialect(target)
    decoded = here.decode_error(status, read_error(body), headers)
    if here.DIALECT != there.DIALECT and (decoded.status or 0) < _FIRST_ERROR:
        decoded = replace(decoded, status=None)  # an error that came with a good status must not look like success
    return there.encode_error(decoded)


def read_error(body: Any) -> Any:
    """Read an error's body; what is no JSON is its text."""
    if not isinstance(body, bytes | bytearray | memoryview):
        return body
    try:
        return read_body(body)
    except InvalidBody:
        return bytes(body).decode(errors="replace")


def refuse(losses: tuple[Loss, ...]) -> None:
    """Raise LossyTranslation if any loss is one of meaning."""
    lost = [loss for loss in losses if loss.severity == "semantic"]
    if lost:
        raise LossyTranslation(lost)
