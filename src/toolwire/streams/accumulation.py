"""Accumulate the events of a stream into a response, and turn a response into events.

Rules of this file:
- Accumulating never raises. A stream that failed or broke off becomes a response with everything that had arrived,
  and with the finish reason "error" or "incomplete".
- A call that never ended is incomplete: it has its text, but no arguments.
- Pieces of text are joined in blocks while they arrive, so that a long answer takes little more memory than its text.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.streams.call_judge import Reason
from toolwire.streams.choices import rank
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    ChoiceEnd,
    Citation,
    CitationDelta,
    ErrorEnd,
    Event,
    Message,
    MessageDelta,
    MessageEnd,
    MessageStart,
    Part,
    PartEnd,
    PartStart,
    Refusal,
    RefusalDelta,
    Response,
    SignatureDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
    UsageDelta,
)

TEXT_DELTAS: dict[type, Any] = {Text: TextDelta, Refusal: RefusalDelta, Thinking: ThinkingDelta}
_BLOCK = 32  # so many pieces are joined into one block


class _PartialPart(Struct, eq=False):
    """One part as it arrives.

    `start` is the event that began it. `part` is the part without the text of the deltas, or None for a call that has
    not ended. `pieces` is the text of the deltas: the first `joined_blocks` of them were joined already, the others
    arrived singly. `has_own_citations` is true if the list of citations belongs to this part alone, and may grow.
    """

    start: PartStart | CallStart
    part: Any
    pieces: list[str] = []
    joined_blocks: int = 0
    has_own_citations: bool = False
    ended: bool = False

    def build(self) -> Part:
        """Return the part so far."""
        text = "".join(self.pieces)
        if type(self.start) is CallStart:
            if self.ended:
                return self.part  # type: ignore[no-any-return]
            call_id, name, index = self.start.id, self.start.name, self.start.index
            fields: Any = {"raw": text, "error": str(Reason.NEVER_ENDED), "custom": self.start.custom}
            return ToolCall(call_id, name, {}, index, complete=False, **fields)
        part: Any = self.part
        if text and type(part) in TEXT_DELTAS:
            part = replace(part, text=part.text + text)
        return replace(part, citations=list(part.citations)) if self.has_own_citations else part  # type: ignore[no-any-return]


def add_citation(partial: Any, citation: Citation) -> None:
    """Add a citation to the text of a partial part. The list is copied first, unless the part owns it already."""
    if not partial.has_own_citations:
        partial.part = replace(partial.part, citations=list(partial.part.citations or ()))
        partial.has_own_citations = True
    partial.part.citations.append(citation)


class Accumulator:
    """Accumulates the events of a stream as they arrive; `response` is the response so far.

    >>> from toolwire import Accumulator, Message, Response, events_of
    >>> accumulator = Accumulator()
    >>> for event in events_of(Response.of(Message("assistant", "Hi."), "stop")):
    ...     accumulator.feed(event)
    >>> accumulator.response.content
    'Hi.'
    """

    __slots__ = ("_choices", "_error", "_parts", "_shell", "_usage")

    def __init__(self) -> None:
        self._shell: Response | None = None  # the response without its choices
        self._usage: Usage | None = None
        self._parts: dict[int, _PartialPart] = {}
        self._choices: dict[int, Choice] = {}
        self._error = False

    def feed(self, event: Event) -> None:
        """Add one event. An event of a part that never began is ignored."""
        match event:
            case TextDelta() | RefusalDelta() | ThinkingDelta():
                self._add_text(event.key, event.text)
            case CallDelta():
                self._add_text(event.key, event.fragment)
            case PartStart() | CallStart():
                self._parts[event.key] = _PartialPart(event, getattr(event, "part", None))
            case PartEnd() | CallEnd():
                self._end(event)
            case SignatureDelta() | CitationDelta():
                self._add_detail(event)
            case UsageDelta():
                self._usage = event.usage
            case MessageStart() | MessageDelta():
                self._shell = event.response
            case ChoiceEnd():
                self._choices[event.index] = event.choice
            case ErrorEnd():
                self._error = True

    def _add_detail(self, event: SignatureDelta | CitationDelta) -> None:
        """Add a signature or a citation to its part, before the part ends."""
        partial = self._parts.get(event.key)
        if partial is None:
            return
        part = partial.part
        if type(event) is SignatureDelta and type(part) is Thinking:
            partial.part = replace(part, signature=event.signature)
        elif type(event) is CitationDelta and type(part) is Text:
            add_citation(partial, event.citation)

    def _add_text(self, key: int, text: str) -> None:
        partial = self._parts.get(key)
        if partial is None:
            return
        pieces = partial.pieces
        pieces.append(text)
        if len(pieces) - partial.joined_blocks > _BLOCK:  # a short string takes ten times the memory of its text
            pieces[partial.joined_blocks :] = ["".join(pieces[partial.joined_blocks :])]
            partial.joined_blocks += 1

    def _end(self, event: PartEnd | CallEnd) -> None:
        """End a part. An end is ignored unless the start, the end and the part are all of a call, or none is."""
        partial = self._parts.get(event.key)
        part = event.call if isinstance(event, CallEnd) else event.part
        are_calls = {type(event) is CallEnd, type(part) is ToolCall}
        if partial is not None and are_calls == {type(partial.start) is CallStart}:
            partial.part, partial.ended, partial.has_own_citations = part, True, False

    @property
    def usage(self) -> Usage | None:
        """The token counts that were reported so far."""
        return self._usage if self._usage is not None or self._shell is None else self._shell.usage

    @property
    def response(self) -> Response:
        """The response so far."""
        shell = self._shell or Response()
        parts_of: dict[int, list[Part]] = {index: [] for index in self._choices}
        for partial in self._parts.values():
            parts_of.setdefault(partial.start.choice, []).append(partial.build())
        if not parts_of and shell.choices:
            parts_of = {index: [] for index in range(len(shell.choices))}
        choices = [self._choice(index, parts_of[index]) for index in sorted(parts_of, key=rank)]
        return replace(shell, choices=choices, usage=self.usage)

    def _choice(self, index: int, parts: list[Part]) -> Choice:
        shell = self._choices.get(index)
        if shell is None:
            reason: Any = "error" if self._error else "incomplete"
            return Choice(Message("assistant", parts), reason)
        message = shell.message
        if type(message.content) is str and all([type(part) is Text for part in parts]):  # noqa: C419 - a list is faster
            content: Any = "".join([part.text for part in parts])  # type: ignore[misc,union-attr]
        else:
            content = parts
        return replace(shell, message=replace(message, content=content))


def accumulate(events: Iterable[Event]) -> Response:
    """Return the response that `events`, the events of a stream, add up to. It never raises.

    >>> from toolwire import Message, Response, accumulate, events_of
    >>> accumulate(events_of(Response.of(Message("assistant", "Hi"), "stop"))).content
    'Hi'
    """
    accumulator = Accumulator()
    for event in events:
        accumulator.feed(event)
    return accumulator.response


def events_of(response: Response) -> Iterator[Event]:
    """Yield the events of a stream that carries `response`, each part in one piece.

    >>> from toolwire import Message, Response, events_of
    >>> [type(event).__name__ for event in events_of(Response.of(Message("assistant", "Hi"), "stop"))]
    ['MessageStart', 'PartStart', 'TextDelta', 'PartEnd', 'ChoiceEnd', 'MessageEnd']
    """
    yield MessageStart(replace(response, choices=[]))
    key = 0
    for index, choice in enumerate(response.choices):
        for part in choice.message.parts:
            yield from part_events(key, part, index)
            key += 1
    if response.usage is not None:
        yield UsageDelta(response.usage)
    for index, choice in enumerate(response.choices):
        content: Any = "" if type(choice.message.content) is str else []
        yield ChoiceEnd(index, replace(choice, message=replace(choice.message, content=content)))
    yield MessageEnd()


def part_events(key: int, part: Part, choice: int) -> Iterator[Event]:
    """Yield the events of a whole part in one piece. `key` is its key, `choice` the index of its choice."""
    if type(part) is ToolCall:
        yield CallStart(key, part.id, part.name, part.index, part.custom, choice, opaque=part.opaque)
        if part.raw:
            yield CallDelta(key, part.raw)
        yield CallEnd(key, part)
        return
    delta = TEXT_DELTAS.get(type(part))
    shell: Any = part if delta is None else replace(part, text="")
    yield PartStart(key, shell, choice)
    if delta is not None and part.text:  # type: ignore[union-attr]
        yield delta(key, part.text)  # type: ignore[union-attr]
    yield PartEnd(key, shell)
