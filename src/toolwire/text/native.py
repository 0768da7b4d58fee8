"""Give native calls: in OpenAI's shape, in Anthropic's, or already read.

Rules of this file:
- A bad call is an error value that says which one it is; the good ones of the answer stay.
- The four rules of arguments are those of the text protocol: both read them with the same function.
- A call that was read already is given back as it is; only an id that is missing is added.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from toolwire.errors import InvalidField
from toolwire.text.calls import MAX_CALLS, CallBuilder, CallError, Parsed, make_offer, read_object
from toolwire.types import Message, Response, ToolCall
from toolwire.wire.arguments import kind_of

_NO_CALLS = frozenset({"text", "thinking", "redacted_thinking"})
_EXPECTED = "a call has a function with a name and arguments, or is a tool_use with a name and an input"


def parse(given: Any, tools: Iterable[Any] | None = None, *, seed: str = "", limit: int = MAX_CALLS) -> Parsed:
    """Read calls: of a response, a message, a list of calls in any shape, or one of them.

    With `tools`, a call of any other is an error. `seed` keeps the ids apart that are made for equal calls.
    """
    builder = CallBuilder(make_offer(tools), seed, limit)
    entries, text = _entries_of(given)
    read = [_read(entry, builder) for entry in entries if not _is_no_call(entry)]
    calls = [call for call in read if isinstance(call, ToolCall)]
    return Parsed(calls, [error for error in read if isinstance(error, CallError)], text, "native")


def parse_or_raise(given: Any, tools: Iterable[Any] | None = None, **settings: Any) -> list[ToolCall]:
    """Give the calls, or raise `UnreadableCalls`, which holds the good ones too."""
    return parse(given, tools, **settings).or_raise()


def _entries_of(given: Any) -> tuple[Sequence[Any], str]:
    """Give what may be calls, and the words beside them."""
    match given:
        case None:
            return [], ""
        case Response():
            return _entries_of(given.message)
        case Message():
            return [part for part in given.parts if type(part) is ToolCall], given.text
        case {"role": _} | {"tool_calls": _} | {"content": _}:
            return _entries_of_message(given)
        case Mapping() | ToolCall():
            return [given], ""
        case list() | tuple():
            return given, ""
    raise InvalidField("calls", f"must be a message or a list of calls, not {kind_of(given)}")


def _entries_of_message(given: Mapping[str, Any]) -> tuple[list[Any], str]:
    content, calls = given.get("content"), given.get("tool_calls")
    blocks = content if isinstance(content, list) else []
    words = [block.get("text") for block in blocks if isinstance(block, Mapping) and block.get("type") == "text"]
    text = content if isinstance(content, str) else "".join(word for word in words if isinstance(word, str))
    entries = [block for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_use"]
    if calls is None:
        return entries, text
    return [*entries, *(calls if isinstance(calls, list) else [calls])], text


def _is_no_call(entry: Any) -> bool:
    """Whether an entry is a block of words, which stand among Anthropic's calls."""
    kind = entry.get("type") if isinstance(entry, Mapping) else None
    return isinstance(kind, str) and kind in _NO_CALLS


def _read(entry: Any, builder: CallBuilder) -> ToolCall | CallError:
    """Read one call in whichever shape it is."""
    text = _written(entry)
    match entry:
        case ToolCall():
            return _read_already(entry, builder)
        case {"function": Mapping() as function}:
            return read_object({**function, "id": entry.get("id")}, text, builder, "arguments")
        case {"type": "tool_use"}:
            return read_object(_picked(entry, "input"), text, builder, "input")
        case {"name": _, "arguments": _} | {"name": _, "input": _}:
            return read_object(_picked(entry, "arguments", "input"), text, builder, "arguments", "input")
        case {"arguments": _} | {"input": _}:
            return builder.make_error("missing_tool_name", f"the call has no name; {_EXPECTED}", text)
    return builder.make_error("unrecognised_tool_call", _EXPECTED, text)


def _picked(entry: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Give what says a call; whatever else its provider says of it stays there."""
    return {key: entry[key] for key in ("id", "name", *keys) if key in entry}


def _read_already(call: ToolCall, builder: CallBuilder) -> ToolCall | CallError:
    if not call.runs:
        text = call.raw or ""
        code: Any = "invalid_arguments" if call.complete else "incomplete"
        return builder.make_error(code, call.error or "the call was cut off", text, call.name, call.id)
    return builder.check(call)


def _written(entry: Any) -> str:
    try:
        return msgspec.json.encode(entry).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return f"({kind_of(entry)} that is not JSON)"
