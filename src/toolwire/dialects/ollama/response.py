"""Responses of Ollama's native chat: the message, the finish reason, the time and the usage."""

from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from toolwire.dialects.ollama.messages import decode_answer, encode_answer
from toolwire.dialects.ollama.parts import DIALECT, WIRE
from toolwire.encoding.finish import (
    COMMON_WORDS,
    has_complete_calls,
    infer_finish_reason,
    lose_counts,
    lose_other_choices,
    lose_reason,
    lose_stop_sequence,
    without_good_end,
)
from toolwire.encoding.ledger import Ledger, copy_body, made_by, spelling_of, take
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.types import Choice, Encoded, Response, Usage
from toolwire.types.answer import is_count
from toolwire.types.spelling.ollama import OllamaResponseSpelling
from toolwire.wire.names import number_of

# ollama/ollama, api/types.go, ChatResponse.DoneReason (2026-08-21).
_DONE_REASONS = {"length": "length", "context_window": "length", "incomplete": "length"}
_UNKNOWN_TIME = "1970-01-01T00:00:00Z"
COUNT_FIELDS = {"prompt_eval_count": "input_tokens", "eval_count": "output_tokens"}


def decode_response(body: dict[str, Any]) -> Response:
    """Decode the `body` of a response. Raise `InvalidBody` if it is no JSON object."""
    unparsed, constants = copy_body(body, "response"), {}
    choices: list[Choice] = []
    if type(unparsed.get("message")) is dict:
        message = decode_answer(unparsed.pop("message"), number_of(body.get("created_at")))
        raw = take(unparsed, "done_reason", str)
        reason = read_finish(raw, called=has_complete_calls(message.content))
        choices = [Choice(message, reason, raw, opaque=WIRE.plain)]
        if unparsed.get("done") is True:
            constants["done"] = unparsed.pop("done")
    created = _read_time(unparsed.get("created_at"))
    created_at = UNSET if created is None else unparsed.pop("created_at")
    input_tokens, output_tokens = (unparsed.pop(key) if is_count(unparsed.get(key)) else None for key in COUNT_FIELDS)
    usage = None if input_tokens is output_tokens is None else Usage(input_tokens, output_tokens, opaque=WIRE.plain)
    model = take(unparsed, "model", str)
    opaque = WIRE.mark(unparsed, OllamaResponseSpelling(constants=constants, created_at=created_at))
    return Response(choices=choices, model=model, created=created, usage=usage, opaque=opaque)


def read_finish(raw: str | None, *, called: bool) -> Any:
    """Return the finish reason of an answer.

    This wire has none for calls, so that an ordinary end means them if the answer has some (`called`).
    """
    return infer_finish_reason(COMMON_WORDS.get(raw, "unknown") if raw else None, has_calls=called)


def _read_time(text: object) -> float | None:
    """Parse an ISO 8601 time as seconds since the epoch. Return None if it is none, or has no offset from UTC."""
    try:
        time = datetime.fromisoformat(text) if type(text) is str else None
    except ValueError:
        return None
    return None if time is None or time.tzinfo is None else time.timestamp()


def _write_time(seconds: float) -> str | None:
    """Return seconds since the epoch as an ISO 8601 time in UTC, or None if they are out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Encode a response, and report what this wire cannot express.

    `settings` change single fields of `quirks`. `names` among them are tool names that are written unchanged.
    """
    ledger = Ledger(WIRE, quirks, settings, "response")
    return Encoded("", encode_body(response, ledger), tuple(ledger.losses))


def encode_body(response: Response, ledger: Ledger, *, called: bool = False) -> dict[str, Any]:
    """Encode the body of a response. `called` is true if its calls are written separately, as lines of a stream."""
    is_native = made_by(response.opaque, DIALECT)
    body: dict[str, Any] = {} if is_native and response.model is None else {"model": response.model or ""}
    _encode_time(response, body, ledger)
    for choice in response.choices[:1]:
        _encode_choice(choice, body, ledger, called=called)
    lose_other_choices(response, ledger)
    if not is_native:
        body.setdefault("message", {"role": "assistant", "content": ""})
        body["done"] = True
    if response.usage is not None:
        _encode_usage(response.usage, body, ledger)
    for field in ("id", "service_tier"):
        if (value := getattr(response, field)) is not None:
            ledger.lose(field, field, f"{DIALECT} has no field for {value}")
    if response.provider_state:
        ledger.lose_state(response.provider_state, f"{DIALECT} keeps no state")
    return ledger.replay(body, response.opaque)


def _encode_time(response: Response, body: dict[str, Any], ledger: Ledger) -> None:
    created = response.created
    created_at = spelling_of(response.opaque, OllamaResponseSpelling).created_at
    if created is None:
        if not made_by(response.opaque, DIALECT):
            body["created_at"] = _UNKNOWN_TIME
        return
    if _read_time(created_at) == created:
        body["created_at"] = created_at
        return
    time = _write_time(created)
    if time is None:
        ledger.lose("created", "created", f"no date has the time {created}")
    body["created_at"] = time or _UNKNOWN_TIME


def _encode_choice(choice: Choice, body: dict[str, Any], ledger: Ledger, *, called: bool) -> None:
    choice = without_good_end(choice, WIRE)
    message = choice.message
    ledger.path = ("choices", 0, "message")
    ledger.is_native = made_by(message.opaque, DIALECT)
    body["message"] = encode_answer(message, ledger)
    ledger.path = ("choices", 0)
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    called = called or "tool_calls" in body["message"]
    is_native = made_by(choice.opaque, DIALECT)
    if is_native and reason in {COMMON_WORDS.get(raw, "unknown") if raw else None, "tool_calls" if called else ""}:
        if raw is not None:
            body["done_reason"] = raw
    else:
        body["done_reason"] = _DONE_REASONS.get(reason or "", "stop")
        if reason not in {None, "stop", "length", "tool_calls" if called else ""}:
            lose_reason(reason, ledger)
    lose_stop_sequence(choice, ledger)
    ledger.lose_opaque(choice.opaque)


def _encode_usage(usage: Usage, body: dict[str, Any], ledger: Ledger) -> None:
    is_native = made_by(usage.opaque, DIALECT)
    for key, field in COUNT_FIELDS.items():
        count = getattr(usage, field)
        if count is not None or not is_native:
            body[key] = count or 0
    for field in ("cache_read_tokens", "cache_write_tokens", "cache_write_long_tokens", "reasoning_tokens"):
        if getattr(usage, field) is not None:
            ledger.lose(f"usage.{field}", "usage_details", f"{DIALECT} does not report them")
    lose_counts(usage, ledger)
