"""How an answer ended: why, what that means for its calls, and how many tokens it took.

Rules of this file:
- A wire's word for an ordinary end says nothing of calls: an answer with calls wants them run.
- In an answer that was cut off, a call whose text is no JSON is half a call. So is a last call without any
  text: nothing tells it from one whose arguments were still to come.
- A wire's own counts stay beside ours, and are written for as long as they mean the same.
"""

from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger, Wire, made_by
from toolwire.types import Choice, Error, FinishReason, Opaque, Response, Severity, ToolCall, Usage
from toolwire.types.answer import MOST_TOKENS
from toolwire.wire.arguments import format_arguments, may_be_complete, parse_arguments

GAVE_UP = Error("server", "the provider ended the answer with an error", 502)
"""What an answer is on another wire, whose own wire says by a word that it failed."""
COMMON_WORDS = {
    **dict.fromkeys(("stop", "end_turn", "eos", "STOP"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "MAX_TOKENS"), "length"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "tool_calls"),
    "content_filter": "content_filter",
}
"""What words mean on any wire: servers that imitate one say those of another."""
CUT = frozenset({"length", "context_window", "content_filter", "refusal", "error", "incomplete"})


def wants_calls(reason: Any, *, called: bool) -> Any:
    """Give the reason for an end: the calls of the answer, where the wire knew nothing better."""
    return "tool_calls" if called and reason in {"stop", None} else reason


def asks(content: Any) -> bool:
    """Whether an answer asks for tools, well or badly; a call that was cut off asks for nothing."""
    if type(content) is not str:
        for part in content:
            if type(part) is ToolCall and part.complete:
                return True
    return False


def ending(reason: FinishReason | None, *, complete: bool, failed: bool) -> Error | None:
    """Say what is wrong with an answer that ended: it broke off before it was whole."""
    if failed or complete or reason not in (None, "incomplete"):
        return None
    return Error("server", "the answer broke off before it was whole", code="incomplete")


def is_half(call: ToolCall, *, last: bool) -> bool:
    """Whether a call of an answer that was cut off may be half a call."""
    return call.error is not None or (last and not call.plain_arguments and not (call.raw or "").strip())


def settle_calls(parts: Any, reason: Any) -> Any:
    """Give the parts of an answer, with the calls marked that were cut off together with it."""
    if reason not in CUT or type(parts) is str:
        return parts
    return [
        cut_off(part) if type(part) is ToolCall and not part.custom and is_half(part, last=part is parts[-1]) else part
        for part in parts
    ]


def refuse(call: ToolCall, problem: str | None) -> ToolCall:
    """Mark a call whose arguments came as an object as not to be used; its text is left open."""
    return cut_off(replace(call, raw=format_arguments(call.plain_arguments)[:-1], error=problem))


def cut_off(call: ToolCall) -> ToolCall:
    """Mark a call as half a call; its text stays, and its arguments are not to be used."""
    return replace(call, arguments={}, complete=False, error=call.error or "cut off before it was whole")


def says_all(text: str, call: ToolCall) -> bool:
    """Whether the text that a stream told of a call says what the call does; some wires correct it last."""
    if call.raw is None or text == call.raw:
        return True
    return not call.custom and parse_arguments(text) == (call.plain_arguments, None)


def reads_as_whole(text: str, reason: Any = None, *, last: bool = False) -> bool:
    """Whether a reader of a stream may take the text of a call, or the beginning of it, for all of it."""
    if not text.strip():
        return not (last and reason in CUT)
    return may_be_complete(text)


def as_cut(choice: Choice, wire: Wire) -> Choice:
    """Return the end of an answer whose calls were all cut off: no other wire says that it ended well."""
    if made_by(choice.opaque, wire.dialect) or choice.finish_reason in wire.cut_reasons:
        return choice
    return replace(choice, finish_reason="incomplete")


def without_claim(choice: Choice, wire: Wire) -> Choice:
    """Return an answer as its wire may end it: one whose calls were all cut off asks for nothing."""
    calls = [part.complete for part in choice.message.parts if type(part) is ToolCall]
    return as_cut(choice, wire) if calls and not any(calls) else choice


class Counts:
    """Token counts as OpenAI's two wires name them: tokens `given` to the model and `made` by it.

    A `complete` wire says every detail, also that there is none.
    """

    def __init__(self, given: str, made: str, *, complete: bool = False) -> None:
        self.given: str = given
        self.made: str = made
        self.complete: bool = complete
        self._beside_given, self._beside_made = f"{given}_details", f"{made}_details"

    def are_all_in(self, body: dict[str, Any]) -> bool:
        """Whether a body says both counts."""
        return self.given in body and self.made in body

    def decode(self, body: dict[str, Any], dialect: str) -> Usage:
        """Read the counts."""
        prompt, given, made = count_in(body, self.given), body.get(self._beside_given), body.get(self._beside_made)
        read = written = thought = None
        if given and type(given) is dict:
            read = count_in(given, "cached_tokens")
            written = count_in(given, "cache_write_tokens") if "cache_write_tokens" in given else None
        if made and type(made) is dict:
            thought = count_in(made, "reasoning_tokens")
        said = made_in_all(prompt, count_in(body, self.made), count_in(body, "total_tokens"))
        return Usage(prompt, said, read, written, thought, Opaque(dialect, body))

    def encode(self, usage: Usage, ledger: Ledger) -> dict[str, Any]:
        """Write the counts."""
        opaque, body, before = usage.opaque, dict[str, Any](), None
        if opaque is not None and opaque.dialect == ledger.dialect:
            body = dict(opaque.value)
            before = self.decode(body, ledger.dialect)
            if usage == before:
                return body
        if before is None or (usage.input_tokens, usage.output_tokens) != (before.input_tokens, before.output_tokens):
            body[self.given], body[self.made] = usage.input_tokens or 0, usage.output_tokens or 0
            body["total_tokens"] = usage.total_tokens
        every = self.complete and before is None
        read, written, thought = usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens
        if every or read is not None or written is not None:
            body[self._beside_given] = given = dict(body.get(self._beside_given) or ())
            if every or read is not None:
                given["cached_tokens"] = read or 0
            if every or written is not None:
                given["cache_write_tokens"] = written or 0
        if every or thought is not None:
            body[self._beside_made] = {**(body.get(self._beside_made) or {}), "reasoning_tokens": thought or 0}
        lose_counts(usage, ledger)
        return body


def count_in(body: dict[str, Any], key: str) -> int | None:
    """Read a count; what counts no tokens is none."""
    value = body.get(key)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def made_in_all(given: int | None, made: int | None, total: int | None) -> int | None:
    """Count what the model made: some servers leave hidden thoughts, or all of it, to the total alone."""
    return made if given is None or total is None or total <= given else max(made or 0, total - given)


def lose_counts(usage: Usage, ledger: Ledger) -> None:
    """Lose the counts of another wire that have no canonical name."""
    opaque = usage.opaque
    if opaque is not None and opaque.dialect != ledger.dialect:
        ledger.lose("usage.opaque", "usage_details", "the wire's own counts stay there")


def lose_other_choices(response: Response, ledger: Ledger) -> None:
    """Lose every choice of a response but the first, on a wire that gives one answer."""
    ledger.at = ()
    for place in range(1, len(response.choices)):
        ledger.lose(f"choices[{place}]", "choices", f"{ledger.dialect} gives one answer")


def write_tier(response: Response, body: dict[str, Any], tiers: Collection[str], ledger: Ledger) -> None:
    """Write the tier that served an answer, if it is one of this wire."""
    tier = response.service_tier
    if tier is not None and (tier in tiers or made_by(response.opaque, ledger.dialect)):
        body["service_tier"] = tier
    elif tier is not None:
        ledger.lose("service_tier", "service_tier", f"{ledger.dialect} knows no tier of this name")


def lose_stop_sequence(choice: Choice, ledger: Ledger) -> None:
    """Lose which stop sequence ended an answer."""
    if choice.stop_sequence is not None:
        ledger.lose("stop_sequence", "stop_sequence", f"{ledger.dialect} does not say which one it was")


def lose_reason(reason: Any, ledger: Ledger) -> None:
    """Lose why an answer ended, where the wire has only a word like it; a stop sequence is an ordinary stop."""
    detail = f"{ledger.dialect} has no word for {reason}"
    severity: Severity | None = "minor" if reason == "stop_sequence" else None
    ledger.lose("finish_reason", "finish_reason", detail, "approximated", severity)
