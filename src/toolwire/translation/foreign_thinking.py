"""Thinking of another wire as a Messages client is shown it: under our signature, and taken out when it comes back."""

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


def unmark_foreign_thinking(message: Message, *, own: bool) -> Message:
    """Take out thinking that was only shown: to its own wire nothing of it goes, to others its words."""
    if not isinstance(message.content, list) or not any(map(_is_shown, message.content)):
        return message
    parts = [
        replace(part, signature=None, opaque=None) if _is_shown(part) else part
        for part in message.content
        if not (own and _is_shown(part))
    ]
    return replace(message, content=parts)


def _is_shown(part: Part) -> bool:
    return isinstance(part, Thinking) and part.signature == FOREIGN


def strip_provider_data(response: Response, mark: Opaque | None) -> Response:
    """Return a response without what only its provider understands.

    With `mark`, the mark of the client's wire on its own values, thinking is signed as foreign.
    """
    choices = [
        replace(choice, message=replace(choice.message, content=[_shown(part, mark) for part in parts if _says(part)]))
        if any(map(has_provider_data, parts := choice.message.parts))
        else choice
        for choice in response.choices
    ]
    return replace(response, choices=choices)


def _says(part: Part) -> bool:
    """Whether a part says anything to a client: encrypted thinking is kept, and does not."""
    return not (isinstance(part, Thinking) and part.redacted)


def _shown(part: Part, mark: Opaque | None) -> Part:
    """Return a part without what only its provider understands; with `mark`, thinking is signed as foreign."""
    match part:
        case Thinking(text=text) if mark is not None and text:
            return replace(part, signature=FOREIGN, opaque=mark)
        case Thinking(signature=str()):
            return replace(part, signature=None, opaque=None)
        case ToolCall() if has_provider_data(part):
            return replace(part, opaque=None)
    return part


class ProviderDataFilter:
    """Reads an answer's events without what only its provider understands; `mark` is that of `shown_response`."""

    def __init__(self, mark: Opaque | None) -> None:
        self._mark = mark
        self._keys: set[int] = set()
        self._hidden: set[int] = set()

    def of(self, event: Event) -> Iterator[Event]:
        """Give what an event says to the client."""
        match event:
            case PartStart(key=key, part=Thinking(redacted=True)):
                self._hidden.add(key)
            case PartStart(key=key, part=Thinking()):
                self._keys.add(key)
                shown = replace(event.part, signature=None)
                yield replace(
                    event, part=shown if self._mark is None else Thinking(signature="", opaque=self._mark), opaque=None
                )
            case SignatureDelta() if event.key in self._keys:
                return
            case OpaqueDelta() if self._mark is not None and event.key in self._keys:
                return
            case PartEnd(key=key) if key in self._keys:
                self._keys.discard(key)
                if self._mark is not None:
                    yield SignatureDelta(key=key, signature=FOREIGN)
                yield replace(event, part=_shown(event.part, self._mark), opaque=None)
            case CallStart(opaque=Opaque(value=value)) if value:
                yield replace(event, opaque=None)
            case CallEnd(call=call) if has_provider_data(call):
                yield replace(event, call=_shown(call, self._mark), opaque=None)
            case _ if getattr(event, "key", None) not in self._hidden or not self._hidden:
                yield event
