"""Translate bodies from one dialect to another through the canonical model.

Rules of this file:
- Every value for which the target has no place is reported as a loss.
- `strict` raises LossyTranslation if meaning is lost. A minor loss (a cache mark, the order of text and calls, a
  default that had to be added) is only reported.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.dialects import Dialect, dialect
from toolwire.errors import LossyTranslation
from toolwire.streams import StreamDecoder, StreamEncoder
from toolwire.types import Encoded, ErrorReply, Loss
from toolwire.wire.bodies import read_body, read_error_body

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
    """Translate `body`, the body of a request, from the dialect `source` to the dialect `target`.

    - `path`: the path of the request's URL. Gemini's path has the model, and whether to stream.
    - `model`: the model to ask for, if not the one that the request names.
    - `strict`: raise LossyTranslation if the request loses meaning.

    Raise InvalidBody if the body cannot be read, and UnknownDialect if a dialect is unknown.

    >>> from toolwire import translate
    >>> body = {"model": "m", "top_k": 5, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    >>> encoded = translate.request(body, source="anthropic", target="openai-chat")
    >>> encoded.path, [loss.path for loss in encoded.losses]
    ('/v1/chat/completions', ['top_k'])
    """
    source_dialect, target_dialect = dialect(source), dialect(target)
    source_body = read_body(body)
    decoded = source_dialect.decode_request(source_body, path)
    encoded = target_dialect.encode_request(decoded if model is None else replace(decoded, model=model))
    if not encoded.losses:
        return encoded
    losses = name_source_paths(encoded.losses, source_body, source_dialect.SETTING_PATHS)
    if strict:
        raise_if_lossy(losses)
    return encoded if losses is encoded.losses else Encoded(encoded.path, encoded.body, losses)


def name_source_paths(losses: tuple[Loss, ...], body: dict[str, Any], paths: Mapping[str, str]) -> tuple[Loss, ...]:
    """Return losses with the paths of the source's body. `paths` maps canonical settings to the source's settings."""
    if not losses:
        return losses
    renamed: list[Loss] | None = None
    steps = max((field.count(".") for field in paths), default=0) + 1
    for index, loss in enumerate(losses):
        field = ".".join(loss.path.split(".", steps)[:steps])
        while field and field not in paths:
            field = field.rpartition(".")[0]
        if field and (key := _source_path(paths[field], body)) != field and key.partition(".")[0] in body:
            renamed = renamed or list(losses)
            renamed[index] = replace(loss, path=key + loss.path[len(field) :])
    return losses if renamed is None else tuple(renamed)


def _source_path(paths: str, body: dict[str, Any]) -> str:
    """Return the first of several possible paths of a setting that `body` has, or the first of all if it has none."""
    first, *others = paths.split("|")
    return next((path for path in others if _has_path(body, path.split("."))), first)


def _has_path(body: Any, steps: list[str]) -> bool:
    return not steps or (type(body) is dict and steps[0] in body and _has_path(body[steps[0]], steps[1:]))


def response(body: Body, source: str | Dialect, target: str | Dialect, *, strict: bool = False) -> Encoded:
    """Translate `body`, the body of a response, from the dialect `source` to the dialect `target`.

    Raise LossyTranslation if `strict` is true and the response loses meaning. Raise InvalidBody if the body cannot be
    read, and UnknownDialect if a dialect is unknown.

    >>> from toolwire import translate
    >>> body = {"model": "m", "message": {"role": "assistant", "content": "Hi."}, "done": True, "done_reason": "stop"}
    >>> translate.response(body, source="ollama", target="openai-chat").body["choices"][0]["message"]["content"]
    'Hi.'
    """
    source_dialect, target_dialect = dialect(source), dialect(target)
    encoded = target_dialect.encode_response(source_dialect.decode_response(read_body(body)))
    if strict:
        raise_if_lossy(encoded.losses)
    return encoded


class TranslatedStream:
    """A stream that is translated from one dialect to another; `losses` grow while it arrives."""

    __slots__ = ("_decoder", "_encoder")

    def __init__(self, decoder: StreamDecoder, encoder: StreamEncoder) -> None:
        self._decoder = decoder
        self._encoder = encoder

    def feed(self, data: bytes) -> bytes:
        """Return the translation of the next bytes. They may be cut anywhere."""
        return b"".join(map(self._encoder.feed, self._decoder.feed(data)))

    def close(self) -> bytes:
        """Return the last bytes: the source has ended."""
        last = b"".join(map(self._encoder.feed, self._decoder.close()))
        return last + self._encoder.close()

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses so far."""
        return self._encoder.losses


def stream(source: str | Dialect, target: str | Dialect) -> TranslatedStream:
    """Return a translator for a stream from `source` to `target`. Raise UnknownDialect if a dialect is unknown.

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
    """Translate `body`, the body of an error with the HTTP status `status`, from `source` to `target`.

    `body` may be any value, or bytes of any text, because servers answer with anything.
    `headers` are those of the answer. If they have a time to wait, the reply has it in its own headers.

    >>> from toolwire import translate
    >>> body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    >>> reply = translate.error(529, body, source="anthropic", target="openai-chat")
    >>> reply.status, reply.body["error"]["message"]
    (529, 'Overloaded')
    """
    source_dialect, target_dialect = dialect(source), dialect(target)
    decoded = source_dialect.decode_error(status, read_error_body(body), headers)
    if source_dialect.DIALECT != target_dialect.DIALECT and (decoded.status or 0) < _FIRST_ERROR:
        decoded = replace(decoded, status=None)  # an error that came with a good status must not look like success
    return target_dialect.encode_error(decoded)


def raise_if_lossy(losses: tuple[Loss, ...]) -> None:
    """Raise LossyTranslation if a loss is semantic."""
    lost = [loss for loss in losses if loss.severity == "semantic"]
    if lost:
        raise LossyTranslation(lost)
