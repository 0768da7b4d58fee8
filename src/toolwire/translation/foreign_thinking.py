"""Thinking of another wire's model, shown to a Messages client under a signature of ours, and removed when it returns.

Anthropic's API rejects thinking with a signature that it did not make. So thinking with the signature `FOREIGN` is not
sent to it.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from toolwire.translation.turn_keys import has_provider_data
from toolwire.types import (
    CallEnd,
    CallStart,
    Event,
    Message,
    Opaque,
    OpaqueDelta,
    Part,
    PartEnd,
    PartStart,
    Response,
    SignatureDelta,
    Thinking,
    ToolCall,
)

FOREIGN = "toolwire:foreign"


def unmark_foreign_thinking(message: Message, *, is_native: bool) -> Message:
    """Return a message whose foreign thinking may be sent to a provider.

    If `is_native` is true, the provider speaks the client's wire, and foreign thinking is removed. Other providers get
    its text, without the signature.
    """
    if not isinstance(message.content, list) or not any(map(_is_foreign, message.content)):
        return message
    parts = [
        replace(part, signature=None, opaque=None) if _is_foreign(part) else part
        for part in message.content
        if not (is_native and _is_foreign(part))
    ]
    return replace(message, content=parts)


def _is_foreign(part: Part) -> bool:
    return isinstance(part, Thinking) and part.signature == FOREIGN


def strip_provider_data(response: Response, mark: Opaque | None) -> Response:
    """Return a response without the data that only its provider understands.

    `mark` is the mark of the client's wire on its own values. If it is not None, thinking is signed as foreign.
    """
    choices = [
        replace(
            choice,
            message=replace(choice.message, content=[_for_client(part, mark) for part in parts if _is_visible(part)]),
        )
        if any(map(has_provider_data, parts := choice.message.parts))
        else choice
        for choice in response.choices
    ]
    return replace(response, choices=choices)


def _is_visible(part: Part) -> bool:
    """Return False for encrypted thinking, which has no text to show."""
    return not (isinstance(part, Thinking) and part.redacted)


def _for_client(part: Part, mark: Opaque | None) -> Part:
    """Return a part without the data that only its provider understands, as `strip_provider_data` does."""
    match part:
        case Thinking(text=text) if mark is not None and text:
            return replace(part, signature=FOREIGN, opaque=mark)
        case Thinking(signature=str()):
            return replace(part, signature=None, opaque=None)
        case ToolCall() if has_provider_data(part):
            return replace(part, opaque=None)
    return part


class ProviderDataFilter:
    """Filters the events of an answer as `strip_provider_data` filters a response, with the same `mark`."""

    def __init__(self, mark: Opaque | None) -> None:
        self._mark = mark
        self._thinking: set[int] = set()
        self._hidden: set[int] = set()

    def filter_events(self, event: Event) -> Iterator[Event]:
        """Yield the events that the client gets instead of `event`."""
        match event:
            case PartStart(key=key, part=Thinking(redacted=True)):
                self._hidden.add(key)
            case PartStart(key=key, part=Thinking()):
                self._thinking.add(key)
                start = replace(event.part, signature=None)
                yield replace(
                    event, part=start if self._mark is None else Thinking(signature="", opaque=self._mark), opaque=None
                )
            case SignatureDelta() if event.key in self._thinking:
                return
            case OpaqueDelta() if self._mark is not None and event.key in self._thinking:
                return
            case PartEnd(key=key) if key in self._thinking:
                self._thinking.discard(key)
                if self._mark is not None:
                    yield SignatureDelta(key=key, signature=FOREIGN)
                yield replace(event, part=_for_client(event.part, self._mark), opaque=None)
            case CallStart(opaque=Opaque(value=value)) if value:
                yield replace(event, opaque=None)
            case CallEnd(call=call) if has_provider_data(call):
                yield replace(event, call=_for_client(call, self._mark), opaque=None)
            case _ if getattr(event, "key", None) not in self._hidden or not self._hidden:
                yield event
