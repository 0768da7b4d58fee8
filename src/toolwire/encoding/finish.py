"""The end of an answer: the finish reason, what it means for the calls, and the token counts.

Rules of this file:
- If an answer ended in the ordinary way and has calls, its finish reason is `tool_calls`, whatever the wire's word.
- In an answer that was cut off, a call whose text is not JSON is incomplete. So is a last call without any text: its
  arguments may have been still to come.
- A usage has the wire's own counts beside the canonical ones. They are written as long as they mean the same.
"""

from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger, Wire, made_by
from toolwire.types import Choice, Error, FinishReason, Opaque, Response, Severity, ToolCall, Usage
from toolwire.types.answer import MOST_TOKENS
from toolwire.wire.arguments import format_arguments, may_be_complete, parse_arguments

PROVIDER_FAILED = Error("server", "the provider ended the answer with an error", 502)
"""The error for an answer whose finish reason is that the provider failed, on a wire that has no such reason."""
COMMON_WORDS = {
    **dict.fromkeys(("stop", "end_turn", "eos", "STOP"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "MAX_TOKENS"), "length"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "tool_calls"),
    "content_filter": "content_filter",
}
"""Words for the end of an answer on any wire. Servers that imitate one wire send the words of another."""
CUT = frozenset({"length", "context_window", "content_filter", "refusal", "error", "incomplete"})


def infer_finish_reason(reason: Any, *, has_calls: bool) -> Any:
    """Return `reason`, or `tool_calls` if the answer has calls and the wire reported an ordinary stop or nothing."""
    return "tool_calls" if has_calls and reason in {"stop", None} else reason


def has_complete_calls(content: Any) -> bool:
    """Return True if an answer has a call that was not cut off. The arguments of the call may be invalid."""
    if type(content) is not str:
        for part in content:
            if type(part) is ToolCall and part.complete:
                return True
    return False


def ending_error(reason: FinishReason | None, *, complete: bool, failed: bool) -> Error | None:
    """Return an error for an answer that ended before it was complete, unless the wire reported why, or an error."""
    if failed or complete or reason not in (None, "incomplete"):
        return None
    return Error("server", "the answer broke off before it was whole", code="incomplete")


def is_half(call: ToolCall, *, last: bool) -> bool:
    """Return True if a call of an answer that was cut off may be incomplete. `last` is true for its last part."""
    return call.error is not None or (last and not call.plain_arguments and not (call.raw or "").strip())


def mark_cut_calls(parts: Any, reason: Any) -> Any:
    """Return the parts of an answer that ended for `reason`, with the calls that were cut off with it marked."""
    if reason not in CUT or type(parts) is str:
        return parts
    return [
        cut_off(part) if type(part) is ToolCall and not part.custom and is_half(part, last=part is parts[-1]) else part
        for part in parts
    ]


def reject_call(call: ToolCall, problem: str | None) -> ToolCall:
    """Return a call that cannot run because of `problem`. Its arguments came as an object, and become broken text."""
    return cut_off(replace(call, raw=format_arguments(call.plain_arguments)[:-1], error=problem))


def cut_off(call: ToolCall) -> ToolCall:
    """Return a call that is marked as cut off. It has its text, and no arguments."""
    return replace(call, arguments={}, complete=False, error=call.error or "cut off before it was whole")


def is_text_of_call(text: str, call: ToolCall) -> bool:
    """Return True if the `text` that a stream has sent is that of `call`, which some wires correct at its end."""
    if call.raw is None or text == call.raw:
        return True
    return not call.custom and parse_arguments(text) == (call.plain_arguments, None)


def looks_complete(text: str, reason: Any = None, *, last: bool = False) -> bool:
    """Return True if a client of a stream may read `text`, or its beginning, as the complete arguments of a call."""
    if not text.strip():
        return not (last and reason in CUT)
    return may_be_complete(text)


def as_incomplete(choice: Choice, wire: Wire) -> Choice:
    """Return `choice`, whose calls were all cut off, with the finish reason `incomplete`.

    A choice of the same wire is returned unchanged, and so is one whose reason means a cut on `wire`.
    """
    if made_by(choice.opaque, wire.dialect) or choice.finish_reason in wire.cut_reasons:
        return choice
    return replace(choice, finish_reason="incomplete")


def without_good_end(choice: Choice, wire: Wire) -> Choice:
    """Return `choice` as `as_incomplete` does if all of its calls were cut off: it must not ask for calls."""
    calls = [part.complete for part in choice.message.parts if type(part) is ToolCall]
    return as_incomplete(choice, wire) if calls and not any(calls) else choice


# DeepSeek's count of cached tokens (https://api-docs.deepseek.com/guides/kv_cache, 2026-11-27).
_CACHE_HITS = "prompt_cache_hit_tokens"
# openai SDK 3.57.0, ResponseUsage.InputTokensDetailsCacheWriteTokensDetails (2026-11-27).
_LIFETIMES, _LONG_WRITE, _SHORT_WRITE = "cache_write_tokens_details", "ttl_12h_tokens", "ttl_30m_tokens"


class Counts:
    """Token counts as OpenAI's two wires name them: the keys of the input tokens and of the output tokens.

    - If `complete` is true, a usage from another wire is written with every detail, 0 for those that are not known.
    - If `has_lifetimes` is true, the tokens that were written to a cache are counted by their lifetimes as well.
    """

    def __init__(self, input_key: str, output_key: str, *, complete: bool = False, has_lifetimes: bool = False) -> None:
        self.input_key: str = input_key
        self.output_key: str = output_key
        self.complete: bool = complete
        self.has_lifetimes: bool = has_lifetimes
        self._input_details, self._output_details = f"{input_key}_details", f"{output_key}_details"

    def are_all_in(self, body: dict[str, Any]) -> bool:
        """Return True if `body` has both counts."""
        return self.input_key in body and self.output_key in body

    def decode(self, body: dict[str, Any], dialect: str) -> Usage:
        """Parse the counts of a response of `dialect`."""
        input_tokens = count_in(body, self.input_key)
        input_details, output_details = body.get(self._input_details), body.get(self._output_details)
        cache_read = cache_write = cache_write_long = reasoning = None
        if input_details and type(input_details) is dict:
            cache_read = count_in(input_details, "cached_tokens")
            if "cache_write_tokens" in input_details:
                cache_write = count_in(input_details, "cache_write_tokens")
            if type(lifetimes := input_details.get(_LIFETIMES)) is dict:
                cache_write_long = count_in(lifetimes, _LONG_WRITE)
        if cache_read is None and _CACHE_HITS in body:
            cache_read = count_in(body, _CACHE_HITS)
        if output_details and type(output_details) is dict:
            reasoning = count_in(output_details, "reasoning_tokens")
        output_tokens = total_output(input_tokens, count_in(body, self.output_key), count_in(body, "total_tokens"))
        opaque = Opaque(dialect, body)
        return Usage(input_tokens, output_tokens, cache_read, cache_write, reasoning, opaque, cache_write_long)

    def encode(self, usage: Usage, ledger: Ledger) -> dict[str, Any]:
        """Write the counts. A count that is the same as in the response it was read from is written as it was."""
        opaque, body, before = usage.opaque, dict[str, Any](), None
        if opaque is not None and opaque.dialect == ledger.dialect:
            body = dict(opaque.value)
            before = self.decode(body, ledger.dialect)
            if usage == before:
                return body
        if before is None or (usage.input_tokens, usage.output_tokens) != (before.input_tokens, before.output_tokens):
            body[self.input_key], body[self.output_key] = usage.input_tokens or 0, usage.output_tokens or 0
            body["total_tokens"] = usage.total_tokens
        writes_all = self.complete and before is None
        read, written, reasoning = usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens
        if writes_all or read is not None or written is not None:
            body[self._input_details] = details = dict(body.get(self._input_details) or ())
            if writes_all or read is not None:
                details["cached_tokens"] = read or 0
            if writes_all or written is not None:
                details["cache_write_tokens"] = written or 0
        if usage.cache_write_long_tokens is not None:
            self._encode_long_write(usage.cache_write_long_tokens, body, ledger)
        if writes_all or reasoning is not None:
            body[self._output_details] = {
                **(body.get(self._output_details) or {}),
                "reasoning_tokens": reasoning or 0,
            }
        lose_counts(usage, ledger)
        return body

    def _encode_long_write(self, long: int, body: dict[str, Any], ledger: Ledger) -> None:
        """Write how many of the tokens that were written to a cache have the longer lifetime."""
        if not self.has_lifetimes:
            detail = f"{ledger.dialect} does not count cache writes by their lifetimes"
            ledger.lose("usage.cache_write_long_tokens", "usage_details", detail)
            return
        details: dict[str, Any] = body.setdefault(self._input_details, {})
        short = max((details.get("cache_write_tokens") or 0) - long, 0)
        details[_LIFETIMES] = {**(details.get(_LIFETIMES) or {}), _SHORT_WRITE: short, _LONG_WRITE: long}


def count_in(body: dict[str, Any], key: str) -> int | None:
    """Return the count under `key`, or None if the value is not a count of tokens."""
    value = body.get(key)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def total_output(input_tokens: int | None, output_tokens: int | None, total: int | None) -> int | None:
    """Return the number of all output tokens. Some servers count hidden thinking, or all output, only in the total."""
    if input_tokens is None or total is None or total <= input_tokens:
        return output_tokens
    return max(output_tokens or 0, total - input_tokens)


def lose_counts(usage: Usage, ledger: Ledger) -> None:
    """Report the loss of another wire's own counts, which have no canonical name."""
    opaque = usage.opaque
    if opaque is not None and opaque.dialect != ledger.dialect:
        ledger.lose("usage.opaque", "usage_details", f"only {opaque.dialect} understands its own counts")


def lose_other_choices(response: Response, ledger: Ledger) -> None:
    """Report the loss of every choice of a response but the first, on a wire that has one answer."""
    ledger.path = ()
    for index in range(1, len(response.choices)):
        ledger.lose(f"choices[{index}]", "choices", f"a response of {ledger.dialect} has only one choice")


def write_tier(response: Response, body: dict[str, Any], tiers: Collection[str], ledger: Ledger) -> None:
    """Write the service tier of an answer to `body`, if it is one of the `tiers` of this wire."""
    tier = response.service_tier
    if tier is not None and (tier in tiers or made_by(response.opaque, ledger.dialect)):
        body["service_tier"] = tier
    elif tier is not None:
        ledger.lose("service_tier", "service_tier", f"{ledger.dialect} has no service tier {tier}")


def lose_stop_sequence(choice: Choice, ledger: Ledger) -> None:
    """Report the loss of the stop sequence that ended an answer."""
    if choice.stop_sequence is not None:
        ledger.lose("stop_sequence", "stop_sequence", f"{ledger.dialect} does not report the stop sequence")


def lose_reason(reason: Any, ledger: Ledger) -> None:
    """Report that the wire has only a similar finish reason. For a stop sequence, the loss is minor."""
    detail = f"{ledger.dialect} has no finish reason {reason}"
    severity: Severity | None = "minor" if reason == "stop_sequence" else None
    ledger.lose("finish_reason", "finish_reason", detail, "approximated", severity)
