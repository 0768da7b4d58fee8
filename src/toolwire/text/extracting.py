"""Extract the calls of an answer, whichever protocol the model used.

The provider's capability `native_tool_calls` and the answer decide how the answer is read:

| `native_tool_calls` | the answer has | read as |
|---|---|---|
| true | native calls | native |
| true | no native calls, but blocks in its text | text-tagged |
| true | neither | no calls |
| false | anything | text-tagged, but native calls are read as native |

The last row deviates in one point from the table that it is taken from: there, native calls are ignored if the provider
does not have the capability. To lose a real call is worse than to accept one that was not expected.

Rules of this file:
- Only assistant messages are read. Messages of other roles contain no calls.
- A capability that is not stated is absent.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.finish import CUT
from toolwire.errors import InvalidField
from toolwire.text import native
from toolwire.text.calls import MAX_CALLS, CallBuilder, Parsed, make_offer
from toolwire.text.quoting import GivenTexts
from toolwire.text.tagged.blocks import read_text
from toolwire.text.tagged.call_blocks import calls_in_text
from toolwire.types import Message, Response, Text, ToolCall

_CAPABILITY = "native_tool_calls"


def extract(
    response: Response | Message | Mapping[str, Any],
    capabilities: Any = None,
    tools: Iterable[Any] | None = None,
    *,
    readers: Iterable[str] = (),
    seed: str | None = None,
    limit: int = MAX_CALLS,
    given: Iterable[str] = (),
) -> Parsed:
    """Return the calls of `response`. The result's `protocol` is how they were read, so it shows a fallback to text.

    - `capabilities`: a mapping, or an object with the attribute `native_tool_calls`.
    - `tools`: a call of any other tool is an error.
    - `readers`: further forms of calls in text that are read (`text_tagged.READERS`).
    - `seed`: makes derived call ids differ between answers. `limit`: the most calls that an answer may have.
    - `given`: the input texts of the model. A block that repeats one of them is a quotation and not a call.

    >>> from toolwire import Message, ToolCall, tool_calls
    >>> found = tool_calls.extract(Message("assistant", [ToolCall("call_1", "ping", {})]))
    >>> [call.name for call in found.calls]
    ['ping']
    """
    message, key, cut = _message_of(response)
    if message.role != "assistant":
        return Parsed(text=message.text, protocol="native")
    seed, offered = key if seed is None else seed, None if tools is None else list(tools)
    native_result = native.parse(response, offered, seed=seed, limit=limit)
    if native_result.calls or native_result.errors:
        return replace(native_result, protocol="text_tagged") if calls_in_text(message) else native_result
    text_result = _read_texts(message, offered, list(readers), cut=cut, seed=seed, limit=limit, given=GivenTexts(given))
    return (
        native_result
        if _has(capabilities, _CAPABILITY) and not (text_result.calls or text_result.errors)
        else text_result
    )


def extract_or_raise(response: Any, capabilities: Any = None, **settings: Any) -> list[ToolCall]:
    """Return the calls of `response`. `capabilities` and `settings` are those of `extract`.

    Raises `UnreadableCalls` if a call cannot run; the exception also holds the calls that can.

    >>> from toolwire import Message, ToolCall, tool_calls
    >>> [call.name for call in tool_calls.extract_or_raise(Message("assistant", [ToolCall("call_1", "ping", {})]))]
    ['ping']
    """
    return extract(response, capabilities, **settings).or_raise()


def _message_of(response: Any) -> tuple[Message, str, bool]:
    """Return the message of an answer, the seed of its call ids, and whether it was cut off."""
    match response:
        case Response():
            key = f"{response.id or response.created or ''}/0"
            return response.message, key, response.finish_reason in CUT
        case Message():
            return response, "", False
        case Mapping():
            parsed = native.parse(response)
            is_assistant = response.get("role", "assistant") == "assistant"
            return Message("assistant" if is_assistant else "user", parsed.text), "", False
    raise InvalidField("response", f"must be a response or a message, not {type(response).__name__}")


def _read_texts(
    message: Message,
    tools: list[Any] | None,
    readers: Sequence[str],
    *,
    cut: bool,
    seed: str,
    limit: int,
    given: GivenTexts,
) -> Parsed:
    """Read each text of a message on its own. Only the last text can be cut off."""
    offer = make_offer(tools)
    builder = CallBuilder(offer, seed, limit)
    parts = message.parts
    results = [
        read_text(part.text, builder, offer, readers, whole=not (cut and index == len(parts) - 1), given=given)
        for index, part in enumerate(parts)
        if type(part) is Text
    ]
    calls = [call for parsed in results for call in parsed.calls]
    errors = [error for parsed in results for error in parsed.errors]
    return Parsed(calls, errors, "".join(parsed.text for parsed in results))


def _has(capabilities: Any, name: str) -> bool:
    """Return True if `capabilities` state the capability `name`."""
    if isinstance(capabilities, Mapping):
        return capabilities.get(name) is True
    return getattr(capabilities, name, None) is True
