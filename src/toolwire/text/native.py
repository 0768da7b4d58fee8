"""Read native calls: in OpenAI's shape, in Anthropic's shape, or already as `ToolCall`.

Rules of this file:
- A malformed call becomes an error with its index. The other calls of the answer are still returned.
- Arguments follow the same rules as in the text protocol, by the same function.
- A `ToolCall` is returned unchanged, except that a missing id is added.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from toolwire.errors import InvalidField
from toolwire.text.calls import MAX_CALLS, CallBuilder, CallError, Parsed, make_offer, read_object
from toolwire.types import Message, Response, ToolCall
from toolwire.wire.arguments import type_name

_NO_CALLS = frozenset({"text", "thinking", "redacted_thinking"})
_EXPECTED = "a call has a function with a name and arguments, or is a tool_use with a name and an input"


def parse(given: Any, tools: Iterable[Any] | None = None, *, seed: str = "", limit: int = MAX_CALLS) -> Parsed:
    """Read calls from a response, a message, a list of calls in any shape, or a single call.

    - `tools`: a call of any other tool is an error. None accepts any tool.
    - `seed`: makes the derived call ids of this answer differ from those of other answers.
    - `limit`: the most calls that an answer may have.

    Raises `InvalidField` if `given` is none of these.
    """
    builder = CallBuilder(make_offer(tools), seed, limit)
    entries, text = _entries_of(given)
    results = [_read(entry, builder) for entry in entries if not _is_no_call(entry)]
    calls = [call for call in results if isinstance(call, ToolCall)]
    return Parsed(calls, [error for error in results if isinstance(error, CallError)], text, "native")


def parse_or_raise(given: Any, tools: Iterable[Any] | None = None, **settings: Any) -> list[ToolCall]:
    """Return the calls. The settings are those of `parse`.

    Raises `UnreadableCalls` if a call cannot run; the exception also holds the calls that can.
    """
    return parse(given, tools, **settings).or_raise()


def _entries_of(value: Any) -> tuple[Sequence[Any], str]:
    """Return the entries that may be calls, and the text beside them."""
    match value:
        case None:
            return [], ""
        case Response():
            return _entries_of(value.message)
        case Message():
            return [part for part in value.parts if type(part) is ToolCall], value.text
        case {"role": _} | {"tool_calls": _} | {"content": _}:
            return _entries_of_message(value)
        case Mapping() | ToolCall():
            return [value], ""
        case list() | tuple():
            return value, ""
    raise InvalidField("calls", f"must be a message or a list of calls, not {type_name(value)}")


def _entries_of_message(message: Mapping[str, Any]) -> tuple[list[Any], str]:
    content, calls = message.get("content"), message.get("tool_calls")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping) and block.get("type") == "text"]
    text = content if isinstance(content, str) else "".join(part for part in texts if isinstance(part, str))
    entries = [block for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_use"]
    if calls is None:
        return entries, text
    return [*entries, *(calls if isinstance(calls, list) else [calls])], text


def _is_no_call(entry: Any) -> bool:
    """Return True if `entry` is a text or thinking block, as in Anthropic's content."""
    block_type = entry.get("type") if isinstance(entry, Mapping) else None
    return isinstance(block_type, str) and block_type in _NO_CALLS


def _read(entry: Any, builder: CallBuilder) -> ToolCall | CallError:
    """Read one call, in any of the shapes."""
    text = _as_json(entry)
    match entry:
        case ToolCall():
            return _read_already(entry, builder)
        case {"function": Mapping() as function}:
            return read_object({**function, "id": entry.get("id")}, text, builder, "arguments")
        case {"type": "tool_use"}:
            return read_object(_call_fields(entry, "input"), text, builder, "input")
        case {"name": _, "arguments": _} | {"name": _, "input": _}:
            return read_object(_call_fields(entry, "arguments", "input"), text, builder, "arguments", "input")
        case {"arguments": _} | {"input": _}:
            return builder.make_error("missing_tool_name", f"the call has no name; {_EXPECTED}", text)
    return builder.make_error("unrecognised_tool_call", _EXPECTED, text)


def _call_fields(entry: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return the fields of a call. Other fields of the provider are left out."""
    return {key: entry[key] for key in ("id", "name", *keys) if key in entry}


def _read_already(call: ToolCall, builder: CallBuilder) -> ToolCall | CallError:
    if not call.runs:
        text = call.raw or ""
        code: Any = "invalid_arguments" if call.complete else "incomplete"
        return builder.make_error(code, call.error or "the call was cut off", text, call.name, call.id)
    return builder.check(call)


def _as_json(entry: Any) -> str:
    try:
        return msgspec.json.encode(entry).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return f"({type_name(entry)} that is not JSON)"
