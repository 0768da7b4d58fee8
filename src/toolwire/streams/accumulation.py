"""Events to the response that they tell, and a response to the events that tell it.

Rules of this file:
- Nothing is refused: a stream that failed or broke off gives what had arrived, and its finish reason says so.
- A call that never ended is incomplete: its text is there, its arguments are not.
- Words are joined in runs as they come, so that those of a long answer take no more memory than they have letters.
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

WORDS: dict[type, Any] = {Text: TextDelta, Refusal: RefusalDelta, Thinking: ThinkingDelta}
_RUN = 32


class _Building(Struct, eq=False):
    """One part that events tell of."""

    start: PartStart | CallStart
    part: Any
    pieces: list[str] = []
    runs: int = 0
    cited: bool = False
    whole: bool = False

    def build(self) -> Part:
        words = "".join(self.pieces)
        if type(self.start) is CallStart:
            if self.whole:
                return self.part  # type: ignore[no-any-return]
            call_id, name, index = self.start.id, self.start.name, self.start.index
            fields: Any = {"raw": words, "error": str(Reason.NEVER_ENDED), "custom": self.start.custom}
            return ToolCall(call_id, name, {}, index, complete=False, **fields)
        part: Any = self.part
        if words and type(part) in WORDS:
            part = replace(part, text=part.text + words)
        return replace(part, citations=list(part.citations)) if self.cited else part  # type: ignore[no-any-return]


def cite(building: Any, citation: Citation) -> None:
    """Add to the text that is said where it comes from; `cited` says that the list is its own."""
    if not building.cited:
        building.part = replace(building.part, citations=list(building.part.citations or ()))
        building.cited = True
    building.part.citations.append(citation)


class Accumulator:
    """Takes events as they arrive; `response` is what they add up to so far."""

    __slots__ = ("_choices", "_error", "_parts", "_shell", "_usage")

    def __init__(self) -> None:
        self._shell: Response | None = None
        self._usage: Usage | None = None
        self._parts: dict[int, _Building] = {}
        self._choices: dict[int, Choice] = {}
        self._error = False

    def feed(self, event: Event) -> None:
        """Take one event; an event of a part that never began is ignored."""
        match event:
            case TextDelta() | RefusalDelta() | ThinkingDelta():
                self._say(event.key, event.text)
            case CallDelta():
                self._say(event.key, event.fragment)
            case PartStart() | CallStart():
                self._parts[event.key] = _Building(event, getattr(event, "part", None))
            case PartEnd() | CallEnd():
                self._end(event)
            case SignatureDelta() | CitationDelta():
                self._note(event)
            case UsageDelta():
                self._usage = event.usage
            case MessageStart() | MessageDelta():
                self._shell = event.response
            case ChoiceEnd():
                self._choices[event.index] = event.choice
            case ErrorEnd():
                self._error = True

    def _note(self, event: SignatureDelta | CitationDelta) -> None:
        """Take what is known of a part before its end."""
        building = self._parts.get(event.key)
        if building is None:
            return
        part = building.part
        if type(event) is SignatureDelta and type(part) is Thinking:
            building.part = replace(part, signature=event.signature)
        elif type(event) is CitationDelta and type(part) is Text:
            cite(building, event.citation)

    def _say(self, key: int, words: str) -> None:
        building = self._parts.get(key)
        if building is None:
            return
        pieces = building.pieces
        pieces.append(words)
        if len(pieces) - building.runs > _RUN:  # a word by itself takes ten times its letters
            pieces[building.runs :] = ["".join(pieces[building.runs :])]
            building.runs += 1

    def _end(self, event: PartEnd | CallEnd) -> None:
        """End a part; a call ends as a call, and nothing else does."""
        building = self._parts.get(event.key)
        part = event.call if isinstance(event, CallEnd) else event.part
        kinds = {type(event) is CallEnd, type(part) is ToolCall}
        if building is not None and kinds == {type(building.start) is CallStart}:
            building.part, building.whole, building.cited = part, True, False

    @property
    def usage(self) -> Usage | None:
        """The counts that were reported so far."""
        return self._usage if self._usage is not None or self._shell is None else self._shell.usage

    @property
    def response(self) -> Response:
        """The response that the events so far add up to."""
        shell = self._shell or Response()
        told: dict[int, list[Part]] = {place: [] for place in self._choices}
        for building in self._parts.values():
            told.setdefault(building.start.choice, []).append(building.build())
        if not told and shell.choices:
            told = {place: [] for place in range(len(shell.choices))}
        choices = [self._choice(place, told[place]) for place in sorted(told, key=rank)]
        return replace(shell, choices=choices, usage=self.usage)

    def _choice(self, place: int, parts: list[Part]) -> Choice:
        shell = self._choices.get(place)
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
    """Give the response that the events of a stream add up to; it never raises.

    >>> from toolwire import Message, Response, accumulate, events_of
    >>> accumulate(events_of(Response.of(Message("assistant", "Hi"), "stop"))).content
    'Hi'
    """
    accumulator = Accumulator()
    for event in events:
        accumulator.feed(event)
    return accumulator.response


def events_of(response: Response) -> Iterator[Event]:
    """Give a whole response as the events of a stream, each part in one piece.

    >>> from toolwire import Message, Response, events_of
    >>> [type(event).__name__ for event in events_of(Response.of(Message("assistant", "Hi"), "stop"))]
    ['MessageStart', 'PartStart', 'TextDelta', 'PartEnd', 'ChoiceEnd', 'MessageEnd']
    """
    yield MessageStart(replace(response, choices=[]))
    key = 0
    for place, choice in enumerate(response.choices):
        for part in choice.message.parts:
            yield from tell(key, part, place)
            key += 1
    if response.usage is not None:
        yield UsageDelta(response.usage)
    for place, choice in enumerate(response.choices):
        content: Any = "" if type(choice.message.content) is str else []
        yield ChoiceEnd(place, replace(choice, message=replace(choice.message, content=content)))
    yield MessageEnd()


def tell(key: int, part: Part, place: int) -> Iterator[Event]:
    """Tell a whole part, in one piece."""
    if type(part) is ToolCall:
        yield CallStart(key, part.id, part.name, part.index, part.custom, place, opaque=part.opaque)
        if part.raw:
            yield CallDelta(key, part.raw)
        yield CallEnd(key, part)
        return
    delta = WORDS.get(type(part))
    shell: Any = part if delta is None else replace(part, text="")
    yield PartStart(key, shell, place)
    if delta is not None and part.text:  # type: ignore[union-attr]
        yield delta(key, part.text)  # type: ignore[union-attr]
    yield PartEnd(key, shell)
