"""Responses of the Messages API."""

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

# anthropic 2.12.0, StopReason and BetaStopReason (2026-11-22). Of two words for one reason the later is written.
_REASONS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "compaction": "pause",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_window",
}
FINISH_REASONS = COMMON_WORDS | _REASONS
_FINISH_WORDS = {reason: word for word, reason in _REASONS.items()}
_NEAREST = {"content_filter": "refusal", "incomplete": "max_tokens", "malformed_tool_call": "max_tokens"}
_MORE_CACHED = "more was cached than was read, by the numbers; the sum is kept"


def decode_response(body: dict[str, Any]) -> Response:
    """Read a response's body."""
    unparsed = copy_body(body, "response")
    spelling = MessagesResponseSpelling(constants=take_constants(unparsed, _CONSTANTS))
    content: Any = unparsed.get("content")
    raw = take(unparsed, "stop_reason", str)
    choices: list[Choice] = []
    if type(content) in (list, str):
        del unparsed["content"]
        parts: Any = content if type(content) is str else decode_blocks(content, number_of(body.get("id")))
        reason = FINISH_REASONS.get(raw, "unknown") if raw else None
        settled = mark_cut_calls(parts if type(parts) is str else _cut_by_refusal(parts), reason)
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


def _cut_by_refusal(parts: list[Part]) -> list[Part]:
    """Mark a call that may be half where its model refused to go on right after it."""
    if len(parts) < 2:
        return parts
    return [
        cut_off(part) if type(part) is ToolCall and is_half(part, last=True) and _is_fallback(after) else part
        for part, after in zip_longest(parts, parts[1:])
    ]


def _is_fallback(part: Part | None) -> bool:
    return type(part) is Opaque and type(part.value) is dict and part.value.get("type") == FALLBACK


_CONSTANTS = {"type": "message", "role": "assistant"}


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a response's body, and report what it cannot hold."""
    ledger = Ledger(WIRE, quirks, settings, "response")
    opaque = response.opaque
    is_native = opaque is not None and opaque.dialect == DIALECT
    body: dict[str, Any] = {} if is_native else {**_CONSTANTS, "stop_sequence": None}
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
        body["usage"] = encode_usage(response.usage or Usage(), ledger)
    _lose_beside(response, ledger)
    ledger.replay(body, opaque)
    return Encoded("", body, tuple(ledger.losses))


def _lose_beside(response: Response, ledger: Ledger) -> None:
    if response.created is not None:
        ledger.lose("created", "created", f"{DIALECT} does not say when")
    if response.service_tier is not None:
        ledger.lose("service_tier", "service_tier", f"{DIALECT} says it in the usage")
    if response.provider_state:
        ledger.lose_state(response.provider_state, f"{DIALECT} keeps no such state")


def _encode_choice(choice: Choice, body: dict[str, Any], ledger: Ledger) -> None:
    ledger.path = ("choices", 0, "message")
    choice = without_good_end(choice, WIRE)
    message, opaque = choice.message, choice.message.opaque
    ledger.is_native = opaque is not None and opaque.dialect == DIALECT
    words = message.content if ledger.is_native and type(message.content) is str else None
    body["content"] = encode_blocks(message.parts, ledger, "answer") if words is None else words
    if opaque is not None and opaque.value:
        ledger.lose_opaque(opaque)
    if message.name is not None or message.tool_call_id is not None:
        ledger.lose_participant(message)
    ledger.path = ("choices", 0)
    runs = bool(message.tool_calls) or not message.broken_calls
    if (word := finish_word(choice, ledger, runs=runs)) is not None:
        body["stop_reason"] = word
    if choice.stop_sequence is not None:
        body["stop_sequence"] = choice.stop_sequence
    ledger.lose_opaque(choice.opaque)


# The SDK makes arguments of any beginning of them; at this reason it runs none (anthropic 2.11.0, tools/_beta_runner).
_RUNS_NONE = "max_tokens"
_GOOD = frozenset({"tool_use", "end_turn", "stop_sequence"})
_RUNS_ALL = "a call is not to be run, and a client runs all that it was told"


def finish_word(choice: Choice, ledger: Ledger, *, runs: bool, told: bool = False) -> str | None:
    """Say why an answer ended: in the wire's own word for as long as it means the same, and its calls are to run.

    `told` says that a call stands in the answer which is not to run.
    """
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    is_native = made_by(choice.opaque, DIALECT)
    meant = FINISH_REASONS.get(raw, "unknown") if raw else None
    if reason is None or (is_native and (raw is None or reason in {meant, "tool_calls"})):
        return raw if is_native else None
    if reason not in _FINISH_WORDS:
        lose_reason(reason, ledger)
    word = _FINISH_WORDS.get(reason) or _NEAREST.get(reason, "end_turn")
    if not (runs or is_native) and (reason == "tool_calls" or (told and word in _GOOD)):
        ledger.lose("finish_reason", "finish_reason", _RUNS_ALL, "approximated")
        return _RUNS_NONE
    return word


_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
# What was asked of a model beside the answer, and is not in its counts (anthropic 2.11.0, BetaUsage.iterations, on a
# compaction, 2026-11-20; recorded answers, on an advisor).
_APART = ("compaction", "advisor_message")


def decode_usage(body: dict[str, Any]) -> Usage:
    """Read the counts. This wire's input excludes what was cached; ours includes it, and what was asked beside."""
    counts = [count_in(body, key) for key in _COUNTS]
    if body.get("iterations"):
        counts = [told if told is None else told + _apart(body, key) for key, told in zip(_COUNTS, counts, strict=True)]
    fresh, made, read, written = counts
    details = body.get("output_tokens_details")
    thought = count_in(details, "thinking_tokens") if type(details) is dict else None
    prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(prompt, made, read, written, thought, Opaque(DIALECT, body))


def _apart(body: dict[str, Any], key: str) -> int:
    asked = body.get("iterations")
    if type(asked) is not list:
        return 0
    return sum(count_in(one, key) or 0 for one in asked if type(one) is dict and one.get("type") in _APART)


def encode_usage(usage: Usage, ledger: Ledger) -> dict[str, Any]:
    """Write the counts: the wire's own, for as long as they mean the same."""
    is_native = made_by(usage.opaque, DIALECT)
    body: dict[str, Any] = dict(usage.opaque.value) if is_native else {}  # type: ignore[union-attr]
    if is_native and usage == decode_usage(body):
        return body
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    fresh = (usage.input_tokens or 0) - (read or 0) - (written or 0)
    counts = {"input_tokens": max(fresh, 0), "output_tokens": usage.output_tokens or 0}
    if fresh < 0 and read is not None:
        read = max(read + fresh, 0)
        ledger.lose("usage.cache_read_tokens", "usage", _MORE_CACHED, "approximated")
    if read is not None or not is_native:
        counts["cache_read_input_tokens"] = read or 0
    if written is not None or not is_native:
        counts["cache_creation_input_tokens"] = written or 0
    body |= {key: max(count - _apart(body, key), 0) for key, count in counts.items()}
    if usage.reasoning_tokens is not None:
        body["output_tokens_details"] = {
            **(body.get("output_tokens_details") or {}),
            "thinking_tokens": usage.reasoning_tokens,
        }
    lose_counts(usage, ledger)
    return body
