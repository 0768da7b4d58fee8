"""Responses of the Messages API: content, stop reason and usage."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from toolwire.dialects.anthropic.messages import decode_blocks, encode_blocks
from toolwire.dialects.anthropic.parts import DIALECT, FALLBACK, WIRE
from toolwire.encoding.finish import (
    COMMON_WORDS,
    count_in,
    cut_off,
    has_complete_calls,
    infer_finish_reason,
    is_half,
    lose_counts,
    lose_other_choices,
    lose_reason,
    mark_cut_calls,
    without_good_end,
)
from toolwire.encoding.ledger import Ledger, copy_body, made_by, take, take_constants
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.types import Choice, Encoded, Message, Opaque, Part, Response, ToolCall, Usage
from toolwire.types.spelling.anthropic import MessagesResponseSpelling
from toolwire.wire.names import fingerprint, number_of

# anthropic 2.12.0, StopReason and BetaStopReason (2026-11-22). If two stop reasons mean the same, the later is written.
_CANONICAL_REASONS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "compaction": "pause",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_window",
}
FINISH_REASONS = COMMON_WORDS | _CANONICAL_REASONS
_STOP_REASONS = {reason: word for word, reason in _CANONICAL_REASONS.items()}
_NEAREST_STOP_REASONS = {"content_filter": "refusal", "incomplete": "max_tokens", "malformed_tool_call": "max_tokens"}
_TOO_MANY_CACHED = "the cached tokens exceed the input tokens: a smaller number is sent"


def decode_response(body: dict[str, Any]) -> Response:
    """Decode the `body` of a response. Raise `InvalidBody` if it is no JSON object."""
    unparsed = copy_body(body, "response")
    spelling = MessagesResponseSpelling(constants=take_constants(unparsed, _CONSTANTS))
    content: Any = unparsed.get("content")
    raw = take(unparsed, "stop_reason", str)
    choices: list[Choice] = []
    if type(content) in (list, str):
        del unparsed["content"]
        parts: Any = content if type(content) is str else decode_blocks(content, number_of(body.get("id")))
        reason = FINISH_REASONS.get(raw, "unknown") if raw else None
        settled = mark_cut_calls(parts if type(parts) is str else _mark_cut_by_fallback(parts), reason)
        message = Message("assistant", settled, None, None, WIRE.plain)
        reason = infer_finish_reason(reason, has_calls=has_complete_calls(settled))
        choices = [Choice(message, reason, raw, take(unparsed, "stop_sequence", str), WIRE.plain)]
    elif raw is not None:
        unparsed["stop_reason"] = raw
    usage = take(unparsed, "usage", dict)
    return Response(
        choices=choices,
        model=take(unparsed, "model", str),
        id=take(unparsed, "id", str),
        usage=None if usage is None else decode_usage(usage),
        opaque=WIRE.mark(unparsed, spelling),
    )


def _mark_cut_by_fallback(parts: list[Part]) -> list[Part]:
    """Mark a call as cut off if a `fallback` block follows it: its model refused to continue, perhaps in the call."""
    if len(parts) < 2:
        return parts
    return [
        cut_off(part) if type(part) is ToolCall and is_half(part, last=True) and _is_fallback(following) else part
        for part, following in zip_longest(parts, parts[1:])
    ]


def _is_fallback(part: Part | None) -> bool:
    return type(part) is Opaque and type(part.value) is dict and part.value.get("type") == FALLBACK


_CONSTANTS = {"type": "message", "role": "assistant"}
# Keys that the schema of an answer requires, and of which another wire knows nothing (@anthropic-ai/sdk 1.14.0,
# Message, Usage and MessageDeltaUsage; 2026-11-27).
UNKNOWN_AT_END: dict[str, Any] = {"stop_details": None, "container": None}
_UNKNOWN: dict[str, Any] = {"stop_sequence": None, **UNKNOWN_AT_END, "diagnostics": None}
UNKNOWN_COUNTS_AT_END: dict[str, Any] = {"output_tokens_details": None, "server_tool_use": None}
_NOTHING: Mapping[str, Any] = {}
_UNKNOWN_COUNTS: dict[str, Any] = {
    "cache_creation": None,
    **UNKNOWN_COUNTS_AT_END,
    "inference_geo": None,
    "service_tier": None,
    "speed": None,
}


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Encode a response, and report what this wire cannot express.

    `settings` change single fields of `quirks`. `names` among them are tool names that are written unchanged.
    """
    ledger = Ledger(WIRE, quirks, settings, "response")
    opaque = response.opaque
    is_native = opaque is not None and opaque.dialect == DIALECT
    body: dict[str, Any] = {} if is_native else {**_CONSTANTS, **_UNKNOWN}
    if response.id is not None or not is_native:
        body["id"] = f"msg_{fingerprint(response)}" if response.id is None else response.id
    if response.model is not None or not is_native:
        body["model"] = response.model or ""
    for choice in response.choices[:1]:
        _encode_choice(choice, body, ledger)
    lose_other_choices(response, ledger)
    if not is_native:
        body.setdefault("content", [])
        body.setdefault("stop_reason", None)
    if response.usage is not None or not is_native:
        body["usage"] = encode_usage(response.usage or Usage(), ledger, _NOTHING if is_native else _UNKNOWN_COUNTS)
    _lose_response_fields(response, ledger)
    ledger.replay(body, opaque)
    return Encoded("", body, tuple(ledger.losses))


def _lose_response_fields(response: Response, ledger: Ledger) -> None:
    """Report the fields of a response that this wire does not have."""
    if response.created is not None:
        ledger.lose("created", "created", f"{DIALECT} has no field for the time of a response")
    if response.service_tier is not None:
        ledger.lose("service_tier", "service_tier", f"{DIALECT} reports the tier in its usage alone")
    if response.provider_state:
        ledger.lose_state(response.provider_state, f"{DIALECT} keeps no such state")


def _encode_choice(choice: Choice, body: dict[str, Any], ledger: Ledger) -> None:
    ledger.path = ("choices", 0, "message")
    choice = without_good_end(choice, WIRE)
    message, opaque = choice.message, choice.message.opaque
    ledger.is_native = opaque is not None and opaque.dialect == DIALECT
    text = message.content if ledger.is_native and type(message.content) is str else None
    body["content"] = encode_blocks(message.parts, ledger, "answer") if text is None else text
    if opaque is not None and opaque.value:
        ledger.lose_opaque(opaque)
    if message.name is not None or message.tool_call_id is not None:
        ledger.lose_participant(message)
    ledger.path = ("choices", 0)
    may_run = bool(message.tool_calls) or not message.broken_calls
    if (stop_reason := encode_stop_reason(choice, ledger, may_run=may_run)) is not None:
        body["stop_reason"] = stop_reason
    if choice.stop_sequence is not None:
        body["stop_sequence"] = choice.stop_sequence
    ledger.lose_opaque(choice.opaque)


# Anthropic's SDK parses arguments from any prefix of their JSON. After this stop reason it runs no call
# (anthropic 2.11.0, tools/_beta_runner).
_STOPS_ALL_CALLS = "max_tokens"
_ORDINARY_STOP_REASONS = frozenset({"tool_use", "end_turn", "stop_sequence"})
_UNSAFE_REASON = "a client would run a broken call after another stop reason: max_tokens is sent"


def encode_stop_reason(choice: Choice, ledger: Ledger, *, may_run: bool, has_broken_call: bool = False) -> str | None:
    """Return the stop reason of an answer.

    It is the one that this wire wrote, if that still means the finish reason of `choice`. `may_run` is false if the
    answer has calls of which none may run. `has_broken_call` is true if a call that must not run was written.
    """
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    is_native = made_by(choice.opaque, DIALECT)
    raw_meaning = FINISH_REASONS.get(raw, "unknown") if raw else None
    if reason is None or (is_native and (raw is None or reason in {raw_meaning, "tool_calls"})):
        return raw if is_native else None
    if reason not in _STOP_REASONS:
        lose_reason(reason, ledger)
    stop_reason = _STOP_REASONS.get(reason) or _NEAREST_STOP_REASONS.get(reason, "end_turn")
    is_unsafe = reason == "tool_calls" or (has_broken_call and stop_reason in _ORDINARY_STOP_REASONS)
    if is_unsafe and not (may_run or is_native):
        ledger.lose("finish_reason", "finish_reason", _UNSAFE_REASON, "approximated")
        return _STOPS_ALL_CALLS
    return stop_reason


_LONG_WRITE, _SHORT_WRITE = "ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens"
_COUNT_FIELDS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
# Iterations whose tokens are not in the counts of the answer: compactions (anthropic 2.11.0, BetaUsage.iterations,
# 2026-11-20) and advisors (recorded answers).
_SEPARATE_ITERATIONS = ("compaction", "advisor_message")


def decode_usage(body: dict[str, Any]) -> Usage:
    """Decode token counts.

    The `input_tokens` of this wire exclude cached tokens, and all of its counts exclude separate iterations. A `Usage`
    includes both.
    """
    counts = [count_in(body, key) for key in _COUNT_FIELDS]
    if body.get("iterations"):
        pairs = zip(_COUNT_FIELDS, counts, strict=True)
        counts = [count if count is None else count + _count_separate(body, key) for key, count in pairs]
    fresh, output, read, written = counts
    details = body.get("output_tokens_details")
    thinking = count_in(details, "thinking_tokens") if type(details) is dict else None
    prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(prompt, output, read, written, thinking, Opaque(DIALECT, body), _count_long(body, written))


def _count_long(body: dict[str, Any], written: int | None) -> int | None:
    """Return how many of the `written` tokens are cached for an hour, or None if the answer does not report it."""
    count = _long_write(body)
    return None if count is None else min(count + _count_separate_long(body), written or 0)


def _count_separate_long(body: dict[str, Any]) -> int:
    return sum(_long_write(entry) or 0 for entry in _separate(body))


def _long_write(body: dict[str, Any]) -> int | None:
    writes = body.get("cache_creation")
    return count_in(writes, _LONG_WRITE) if type(writes) is dict else None


def _count_separate(body: dict[str, Any], key: str) -> int:
    """Return the tokens of the iterations that the counts of the answer exclude."""
    return sum(count_in(entry, key) or 0 for entry in _separate(body))


def _encode_writes(long: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the cache writes of an answer by their lifetimes: `long` of them are cached for an hour."""
    written = body.get("cache_creation_input_tokens") or 0
    long = max(min(long - _count_separate_long(body), written), 0)
    return {**(body.get("cache_creation") or {}), _SHORT_WRITE: written - long, _LONG_WRITE: long}


def _separate(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the iterations that the counts of the answer exclude."""
    iterations = body.get("iterations")
    if type(iterations) is not list:
        return []
    return [entry for entry in iterations if type(entry) is dict and entry.get("type") in _SEPARATE_ITERATIONS]


def encode_usage(usage: Usage, ledger: Ledger, unknown: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
    """Encode token counts. The counts that this wire wrote are kept if they still mean `usage`.

    Counts of another wire also get the keys in `unknown`.
    """
    is_native = made_by(usage.opaque, DIALECT)
    body: dict[str, Any] = dict(usage.opaque.value) if is_native else {}  # type: ignore[union-attr]
    if is_native and usage == decode_usage(body):
        return body
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    fresh = (usage.input_tokens or 0) - (read or 0) - (written or 0)
    counts = {"input_tokens": max(fresh, 0), "output_tokens": usage.output_tokens or 0}
    if fresh < 0 and read is not None:
        read = max(read + fresh, 0)
        ledger.lose("usage.cache_read_tokens", "usage", _TOO_MANY_CACHED, "approximated")
    if read is not None or not is_native:
        counts["cache_read_input_tokens"] = read or 0
    if written is not None or not is_native:
        counts["cache_creation_input_tokens"] = written or 0
    body |= {key: max(count - _count_separate(body, key), 0) for key, count in counts.items()}
    if usage.cache_write_long_tokens is not None:
        body["cache_creation"] = _encode_writes(usage.cache_write_long_tokens, body)
    if usage.reasoning_tokens is not None:
        body["output_tokens_details"] = {
            **(body.get("output_tokens_details") or {}),
            "thinking_tokens": usage.reasoning_tokens,
        }
    lose_counts(usage, ledger)
    return body if is_native else {**body, **{key: None for key in unknown if key not in body}}
