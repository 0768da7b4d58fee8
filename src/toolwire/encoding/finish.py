"""Why an answer ended, and what that means for its calls.

Rules of this file:
- A wire's word for an ordinary end says nothing of calls: an answer with calls wants them run.
- In an answer that was cut off, a call whose text is no JSON is half a call. So is a last call without any
  text: nothing tells it from one whose arguments were still to come.
"""

from typing import Any

from msgspec.structs import replace

from toolwire.types import ToolCall
from toolwire.wire.arguments import format_arguments, parse_arguments

CUT = frozenset({"length", "context_window", "content_filter", "refusal", "error", "incomplete"})


def wants_calls(reason: Any, *, called: bool) -> Any:
    """Give the reason for an end: the calls of the answer, where the wire knew nothing better."""
    return "tool_calls" if called and reason in {"stop", None} else reason


def asks(parts: Any) -> bool:
    """Whether an answer asks for tools, well or badly; a call that was cut off asks for nothing."""
    return any(type(part) is ToolCall and part.complete for part in parts)


def is_half(call: ToolCall, *, last: bool) -> bool:
    """Whether a call of an answer that was cut off may be half a call."""
    return call.error is not None or (last and not call.arguments and not (call.raw or "").strip())


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
    return cut_off(replace(call, raw=format_arguments(call.arguments)[:-1], error=problem))


def cut_off(call: ToolCall) -> ToolCall:
    """Mark a call as half a call; its text stays, and its arguments are not to be used."""
    return replace(call, arguments={}, complete=False, error=call.error or "cut off before it was whole")


BROKEN = " (cut off)"
"""What is added to the text of a call that is not to be run, where it would be read as a whole one."""


def says_all(text: str, call: ToolCall) -> bool:
    """Whether the text that a stream told of a call says what the call does; some wires correct it last."""
    if call.raw is None or text == call.raw:
        return True
    return not call.custom and parse_arguments(text) == (call.arguments, None)


def reads_as_whole(text: str, reason: Any = None, *, last: bool = False) -> bool:
    """Whether a reader of a stream would take the text of a call for all of it."""
    if not text.strip():
        return not (last and reason in CUT)
    return parse_arguments(text)[1] is None
