"""Finds the calls of an answer, in whichever protocol the model wrote them.

What is read depends on what the provider says of itself and on what the answer holds:

| `native_tool_calls` | the answer has | read as |
|---|---|---|
| true | calls of its own | native |
| true | none, and blocks in its text | text-tagged |
| true | neither | no calls |
| false | anything | text-tagged, but calls of its own are read as native |

The last row deviates from the table that it comes from, in one place: there, calls of the wire's own are
passed over if the provider says that it has none. To drop a real call is worse than to have doubted it.

Rules of this file:
- Only an answer is read: there are no calls in what anybody else said.
- A capability that nobody stated is not there.
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
    """Give the calls of an answer; `protocol` says how they were read, and so whether the model fell back.

    `capabilities` is a map, or a value with the attribute `native_tool_calls`. `readers` name the forms that
    are read in the text besides the protocol. `given` are the texts that the model was given: a block that stands
    there is a quotation, and no call.
    """
    message, key, cut = _message_of(response)
    if message.role != "assistant":
        return Parsed(text=message.text, protocol="native")
    seed, offered = key if seed is None else seed, None if tools is None else list(tools)
    own = native.parse(response, offered, seed=seed, limit=limit)
    if own.calls or own.errors:
        return replace(own, protocol="text_tagged") if calls_in_text(message) else own
    found = _read_texts(message, offered, list(readers), cut=cut, seed=seed, limit=limit, given=GivenTexts(given))
    return own if _has(capabilities, _CAPABILITY) and not (found.calls or found.errors) else found


def extract_or_raise(response: Any, capabilities: Any = None, **settings: Any) -> list[ToolCall]:
    """Give the calls of an answer, or raise `UnreadableCalls`, which holds the good ones too."""
    return extract(response, capabilities, **settings).or_raise()


def _message_of(response: Any) -> tuple[Message, str, bool]:
    """Give the message of an answer, what tells it from others, and whether it was cut off."""
    match response:
        case Response():
            key = f"{response.id or response.created or ''}/0"
            return response.message, key, response.finish_reason in CUT
        case Message():
            return response, "", False
        case Mapping():
            read = native.parse(response)
            said = response.get("role", "assistant") == "assistant"
            return Message("assistant" if said else "user", read.text), "", False
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
    """Read each text of a message on its own; the last one may have been cut off."""
    offer = make_offer(tools)
    builder = CallBuilder(offer, seed, limit)
    parts = message.parts
    read = [
        read_text(part.text, builder, offer, readers, whole=not (cut and place == len(parts) - 1), given=given)
        for place, part in enumerate(parts)
        if type(part) is Text
    ]
    calls = [call for parsed in read for call in parsed.calls]
    errors = [error for parsed in read for error in parsed.errors]
    return Parsed(calls, errors, "".join(parsed.text for parsed in read))


def _has(capabilities: Any, name: str) -> bool:
    """Whether a provider says that it can do something."""
    if isinstance(capabilities, Mapping):
        return capabilities.get(name) is True
    return getattr(capabilities, name, None) is True
