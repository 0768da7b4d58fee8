"""Responses of the Messages API."""

from typing import Any

from toolwire.dialects.anthropic.messages import decode_blocks, encode_blocks
from toolwire.dialects.anthropic.parts import DIALECT, WIRE
from toolwire.encoding.finish import asks, lose_counts, lose_other_choices, lose_reason, settle_calls, wants_calls
from toolwire.encoding.ledger import PLAIN, Ledger, Quirks, made_by, open_body, take
from toolwire.types import Choice, Encoded, Message, Opaque, Response, Usage
from toolwire.wire.names import fingerprint, number_of

# anthropic 2.11.0, StopReason (2026-11-20).
FINISH_REASONS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_window",
}
_FINISH_WORDS = {reason: word for word, reason in FINISH_REASONS.items()}
_NEAREST = {"content_filter": "refusal", "incomplete": "max_tokens"}
_MORE_CACHED = "more was cached than was read, by the numbers; the sum is kept"
_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")


def decode_response(body: dict[str, Any]) -> Response:
    """Read a response's body."""
    rest, _ = open_body(body, "response")
    said = {key: rest.pop(key) for key, word in _CONSTANTS.items() if rest.get(key) == word}
    content, raw = rest.get("content"), take(rest, "stop_reason", str)
    choices: list[Choice] = []
    if type(content) is list:
        parts = decode_blocks(rest.pop("content"), number_of(body.get("id")))
        reason = FINISH_REASONS.get(raw, "unknown") if raw else None
        message = Message("assistant", settle_calls(parts, reason), opaque=WIRE.own({}))
        reason = wants_calls(reason, called=asks(message.parts))
        choices = [Choice(message, reason, raw, take(rest, "stop_sequence", str), WIRE.own({}))]
    elif raw is not None:
        rest["stop_reason"] = raw
    return Response(
        choices=choices,
        id=take(rest, "id", str),
        model=take(rest, "model", str),
        usage=decode_usage(rest.pop("usage")) if type(rest.get("usage")) is dict else None,
        opaque=WIRE.own(rest, {"said": said} if said else None),
    )


_CONSTANTS = {"type": "message", "role": "assistant"}


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a response's body, and report what it cannot hold."""
    ledger = Ledger(WIRE, quirks, settings, "response")
    mine = made_by(response.opaque, DIALECT)
    body: dict[str, Any] = {} if mine else {**_CONSTANTS, "stop_sequence": None}
    if response.id is not None or not mine:
        body["id"] = f"msg_{fingerprint(response)}" if response.id is None else response.id
    if response.model is not None or not mine:
        body["model"] = response.model or ""
    for choice in response.choices[:1]:
        _encode_choice(choice, body, ledger)
    lose_other_choices(response, ledger)
    if not mine:
        body.setdefault("content", [])
        body.setdefault("stop_reason", None)
    if response.usage is not None or not mine:
        body["usage"] = encode_usage(response.usage or Usage(), ledger)
    _lose_beside(response, ledger)
    ledger.replay(body, response.opaque)
    return Encoded("", body, tuple(ledger.losses))


def _lose_beside(response: Response, ledger: Ledger) -> None:
    if response.created is not None:
        ledger.lose("created", "created", f"{DIALECT} does not say when")
    if response.service_tier is not None:
        ledger.lose("service_tier", "service_tier", f"{DIALECT} says it in the usage")
    ledger.lose_state(response.provider_state, f"{DIALECT} keeps no such state")


def _encode_choice(choice: Choice, body: dict[str, Any], ledger: Ledger) -> None:
    ledger.at = ("choices", 0, "message")
    message = choice.message
    ledger.own = made_by(message.opaque, DIALECT)
    blocks = encode_blocks(message.parts, ledger, "answer")
    body["content"] = blocks
    if message.opaque is not None:
        ledger.lose_opaque(message.opaque)
    ledger.lose_participant(message)
    ledger.at = ("choices", 0)
    if (word := finish_word(choice, ledger)) is not None:
        body["stop_reason"] = word
    if choice.stop_sequence is not None:
        body["stop_sequence"] = choice.stop_sequence
    ledger.lose_opaque(choice.opaque)


def finish_word(choice: Choice, ledger: Ledger) -> str | None:
    """Say why an answer ended: in the wire's own word for as long as it means the same."""
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    meant = FINISH_REASONS.get(raw, "unknown") if raw else None
    if reason is None or (made_by(choice.opaque, DIALECT) and (raw is None or reason in {meant, "tool_calls"})):
        return raw if made_by(choice.opaque, DIALECT) else None
    if reason not in _FINISH_WORDS:
        lose_reason(reason, ledger)
    return _FINISH_WORDS.get(reason) or _NEAREST.get(reason, "end_turn")


def decode_usage(body: dict[str, Any]) -> Usage:
    """Read the counts. This wire's input excludes what was cached; ours includes it."""
    counts = {key: value for key, value in body.items() if type(value) is int and value >= 0}
    fresh = counts.get("input_tokens")
    details = body.get("output_tokens_details")
    thought = details.get("thinking_tokens") if type(details) is dict else None
    return Usage(
        None if fresh is None else fresh + sum(counts.get(key, 0) for key in _CACHED),
        counts.get("output_tokens"),
        counts.get("cache_read_input_tokens"),
        counts.get("cache_creation_input_tokens"),
        thought if type(thought) is int and thought >= 0 else None,
        Opaque(DIALECT, body),
    )


def encode_usage(usage: Usage, ledger: Ledger) -> dict[str, Any]:
    """Write the counts: the wire's own, for as long as they mean the same."""
    mine = made_by(usage.opaque, DIALECT)
    body: dict[str, Any] = dict(usage.opaque.value) if mine else {}  # type: ignore[union-attr]
    if mine and usage == decode_usage(body):
        return body
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    fresh = (usage.input_tokens or 0) - (read or 0) - (written or 0)
    body["input_tokens"] = max(fresh, 0)
    if fresh < 0 and read is not None:
        read = max(read + fresh, 0)
        ledger.lose("usage.cache_read_tokens", "usage", _MORE_CACHED, "approximated")
    body["output_tokens"] = usage.output_tokens or 0
    if read is not None or not mine:
        body["cache_read_input_tokens"] = read or 0
    if written is not None or not mine:
        body["cache_creation_input_tokens"] = written or 0
    if usage.reasoning_tokens is not None:
        body["output_tokens_details"] = {
            **(body.get("output_tokens_details") or {}),
            "thinking_tokens": usage.reasoning_tokens,
        }
    lose_counts(usage, ledger)
    return body
