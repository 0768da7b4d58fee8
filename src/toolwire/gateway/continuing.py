"""A text that broke off, and that another provider goes on with: the events of both as those of one answer.

Rules of this file:
- Only plain text is gone on with. An answer with a call, a signature, a refusal or a citation in it, one of several,
  one in a form that was asked for, and one that broke within a thought end where they broke.
- The next provider is sent the conversation and the text so far as the assistant's turn. Where its wire goes on with
  such a turn, it ends there; else the user asks to go on.
- The seam is told: as a comment in the stream where the wire has comments, and as a loss.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import Dialect, traits_of
from toolwire.encoding.families import family_of
from toolwire.encoding.finish import ending
from toolwire.gateway.routes import Goal
from toolwire.loop.run import add_usage
from toolwire.streams import StreamDecoder
from toolwire.streams.accumulation import Accumulator
from toolwire.types import (
    CallDelta,
    CallStart,
    ChoiceEnd,
    CitationDelta,
    ErrorEnd,
    Event,
    Loss,
    Message,
    MessageDelta,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    Part,
    PartEnd,
    PartStart,
    Refusal,
    RefusalDelta,
    Request,
    SignatureDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Usage,
    UsageDelta,
)

MOST = 2  # times that one answer is gone on with
GO_ON = (
    "The connection was lost in the middle of your answer. Go on exactly where it ends: write only what follows, "
    "repeat nothing of it, and say nothing about this."
)
_PASSING = frozenset({"server", "overloaded", "timeout", "rate_limit", "unknown"})
_WORDS = (RefusalDelta, ThinkingDelta)
_ENDS = (PartEnd, ChoiceEnd, MessageEnd)


class SeamedDecoder:
    """Reads the streams of several providers as one answer.

    `usage` and `heard` (characters) are those of the provider that speaks now.
    """

    done = over = False
    ignored = 0

    def __init__(self, decoder: StreamDecoder) -> None:
        self.usage: Usage | None = None
        self.heard: int = 0
        self._decoder = decoder
        self._words: list[str] = []
        self._left = ""  # blanks that end the text and were not sent: the next provider may say them again
        self._before: Usage | None = None
        self._keys: dict[int, int] = {}
        self._parts = 0
        self._open: dict[int, Part] = {}
        self._joins: int | None = None  # the text that is to be gone on with
        self._joined: set[int] = set()
        self._later = False
        self._bound = False
        self._error: ErrorEnd | None = None
        self._reason: Any = None
        self._last: tuple[list[Event], list[Event]] = [], []
        self._whole = Accumulator()

    @property
    def failed(self) -> bool:
        """Return True if the provider that speaks now has reported an error."""
        return self._error is not None

    @property
    def parts(self) -> list[Part]:
        """What the answer is made of so far."""
        return self._whole.response.message.parts

    @property
    def text(self) -> str | None:
        """The text so far; None where it is not to be gone on with."""
        last = next(reversed(self._open.values()), None)
        return None if self._bound or type(last) is Thinking else "".join(self._words)

    @property
    def begun(self) -> list[Event]:
        """The text so far as events, for who reads on."""
        key = self._parts if self._joins is None else self._joins
        return [PartStart(key, Text("")), TextDelta(key, "".join(self._words))] if self._words else []

    def feed(self, data: bytes) -> list[Event]:
        """Read on; an error is held back until it is known that nobody goes on."""
        return list(self._told(self._decoder.feed(data)))

    def breaks(self) -> bool:
        """Whether the provider's stream, which has ended, broke off where another may go on."""
        events = self._decoder.close()
        ends = len(events)
        while ends and isinstance(events[ends - 1], _ENDS):
            ends -= 1
        said = list(self._told(events[:ends]))
        self._last = said, events[ends:]
        reasons = [event.choice.finish_reason for event in events if type(event) is ChoiceEnd]
        complete = any(type(event) is MessageEnd and event.complete for event in events)
        if self._error is not None:
            return self._error.error.kind in _PASSING
        return ending(self._reason or next(iter(reasons), None), complete=complete, failed=False) is not None

    def join(self, decoder: StreamDecoder, left: str) -> list[Event]:
        """Go on with another provider's stream; give what is still to be told of the one before.

        `left` are the blanks at the end of the text that it was not sent.
        """
        said, _ = self._last
        others = [*self._open]
        self._joins = others.pop() if others else None
        self._decoder, self._left, self._later = decoder, left, True
        self._before, self.usage, self.heard = add_usage(self._before, self.usage), None, 0
        self._keys, self._error, self._reason, self._last = {}, None, None, ([], [])
        return [*said, *map(self._ended, others)]

    def close(self) -> list[Event]:
        """Give what the end of the last stream said."""
        (said, ends), error = self._last, self._error
        self._last, self._error = ([], []), None
        return [*said, *([] if error is None else [error]), *self._told(ends)]

    def _told(self, events: list[Event]) -> Iterator[Event]:
        for event in events:
            if self._error is not None:
                return
            for told in self._of_one(event):
                self._whole.feed(told)
                yield told

    def _of_one(self, event: Event) -> Iterator[Event]:
        match event:
            case MessageStart() | MessageDelta() | OpaqueDelta(key=None):
                if not isinstance(event, OpaqueDelta):
                    self.usage = event.response.usage or self.usage
                if not self._later:  # the head is that of the first answer
                    yield event
            case PartStart() | CallStart():
                yield from self._starts(event)
            case ErrorEnd():
                self._error = event
            case UsageDelta():
                self.usage = event.usage
                total = event.usage if self._before is None else add_usage(self._before, event.usage)
                yield event if total is None else replace(event, usage=total)
            case ChoiceEnd():
                self._reason = event.choice.finish_reason
                yield from self._ends_text()
                yield event
            case MessageEnd():
                yield event
            case _:
                yield from self._within(event)

    def _starts(self, event: PartStart | CallStart) -> Iterator[Event]:
        part = event.part if type(event) is PartStart else None
        if self._joins is not None and type(part) is Text and not event.choice:
            self._keys[event.key], key, self._joins = self._joins, self._joins, None
            self._joined.add(key)
            yield from self._says(TextDelta(key, part.text)) if part.text else ()
            return
        yield from self._ends_text()
        key = self._keys[event.key] = self._parts
        self._parts += 1
        self._bound = self._bound or event.choice > 0 or type(part) not in (Text, Thinking) or _signed(part)
        if part is not None:
            self._open[key] = part
        self._words += [part.text] if type(part) is Text else []
        yield replace(event, key=key)

    def _within(self, event: Any) -> Iterator[Event]:
        """Pass what is said within a part, under the key that the part has in the whole answer."""
        key = self._keys.get(event.key)
        if key is None:
            return
        moved = event if key == event.key else replace(event, key=key)
        match moved:
            case TextDelta():
                yield from self._says(moved)
                return
            case SignatureDelta() | CitationDelta():
                self._bound = True
            case PartEnd(part=part):
                self._bound = self._bound or _signed(part)
                moved = self._ended(key, part) if key in self._joined else moved
                self._open.pop(key, None)
        self.heard += len(moved.text) if isinstance(moved, _WORDS) else 0
        self.heard += len(moved.fragment) if type(moved) is CallDelta else 0
        yield moved

    def _says(self, event: TextDelta) -> Iterator[Event]:
        self.heard += len(event.text)
        text = event.text
        if self._left:
            again = _length_in_common(text, self._left)
            text, self._left = text[again:], self._left[again:]
        if text:
            self._left = ""
            self._words.append(text)
            yield event if text == event.text else replace(event, text=text)

    def _ends_text(self) -> Iterator[Event]:
        """End a text that another provider left open and the next one did not go on with."""
        if self._joins is not None:
            key, self._joins = self._joins, None
            yield self._ended(key)

    def _ended(self, key: int, end: Any = None) -> Event:
        """End a part: it is called what it was called at its start, and what else is known of it is known now."""
        start: Any = self._open.pop(key)
        if start.opaque is None:
            return PartEnd(key, replace(start, text=""))
        known = None if end is None else end.opaque
        value = known.value if known is not None and known.dialect == start.opaque.dialect else {}
        return PartEnd(key, replace(start, text="", opaque=replace(start.opaque, value=value)))


def _length_in_common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def _signed(part: Any) -> bool:
    """Whether only its maker can read a part again."""
    match part:
        case Thinking(signature=signature, redacted=redacted):
            return bool(signature or redacted)
        case Text(opaque=Opaque(value=dict(value))):
            return "thoughtSignature" in value
        case Refusal():
            return True
    return False


def _prefills(goal: Goal, request: Request) -> bool:
    """Whether a model goes on with a turn that a request has begun."""
    family = family_of(goal.model)
    thinks = (
        family.always_thinks
        or request.effort is not None
        or request.thinking not in (None, "disabled", "between_tools")
    )
    return traits_of(goal.provider.dialect).continues_turns and family.prefill is not False and not thinks


class GoingOn(Struct):
    """A request to go on with a text, in the client's wire, and the blanks at its end that were left out."""

    body: bytes
    left: str = ""

    @classmethod
    def of(cls, wire: Dialect, body: bytes, path: str, text: str, goal: Goal) -> "GoingOn":
        """Write the client's request again, with the text so far as the assistant's turn."""
        if not text.strip():
            return cls(body, text)
        request = wire.decode_request(msgspec.json.decode(body), path)
        begun = _prefills(goal, request)
        said = text.rstrip() if begun else text
        messages = _with_turn(list(request.context.messages), said)
        if not begun:
            messages.append(Message("user", GO_ON))
        context = replace(request.context, messages=messages)
        return cls(wire.encode_request(replace(request, context=context)).json, text[len(said) :])


def _with_turn(messages: list[Message], text: str) -> list[Message]:
    """Add the assistant's turn; one that the client itself had begun is gone on with."""
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant":
        return [*messages, Message("assistant", text)]
    match last.parts:
        case [*before, Text(text=begun) as part]:
            return [*messages[:-1], replace(last, content=[*before, replace(part, text=begun + text)])]
    return [*messages[:-1], replace(last, content=[*last.parts, Text(text)])]


def may_go_on(request: Request) -> bool:
    """Whether a request asks for one answer, in a form of the model's own choosing."""
    return request.output is None and (request.n or 1) == 1


def seam(broken: Goal, goal: Goal, text: str) -> Loss:
    """Say where an answer was joined."""
    detail = f"{broken.name} broke off after {len(text)} characters, and {goal.name} went on"
    return Loss("message", "seam", "merged", detail)


def comment(wire: Dialect, loss: Loss) -> bytes:
    """Write a seam as a comment between two events, where a wire has comments."""
    return f": toolwire: {loss.detail}\n\n".encode() if wire.TRAITS.has_comments else b""
