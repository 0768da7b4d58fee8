"""Joining of a text that broke off with its continuation by another provider, into the events of one answer.

Rules of this file:
- Only plain text is continued. These answers end where they broke off: one with a call, a signature, a refusal or a
  citation, one of several answers, one with a structured output, and one that broke off inside of thinking.
- The next provider receives the conversation, and the text so far as the assistant's turn. If its wire continues such a
  turn, that is all. Otherwise a message of the user asks it to continue.
- The joint is reported: as a comment in the stream if the wire has comments, and as a loss.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import Dialect, traits_of
from toolwire.encoding.families import family_of
from toolwire.encoding.finish import ending_error
from toolwire.gateway.routes import Candidate
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

MAX_CONTINUATIONS = 2  # continuations of one answer
CONTINUE_PROMPT = (
    "The connection was lost in the middle of your answer. Go on exactly where it ends: write only what follows, "
    "repeat nothing of it, and say nothing about this."
)
_CONTINUABLE_ERRORS = frozenset({"server", "overloaded", "timeout", "rate_limit", "unknown"})
_TEXT_DELTAS = (RefusalDelta, ThinkingDelta)
_ENDS = (PartEnd, ChoiceEnd, MessageEnd)


class JoiningDecoder:
    """Decodes the streams of several providers as one answer.

    `usage` and `characters` are those of the current provider.
    """

    done = over = False
    ignored = 0

    def __init__(self, decoder: StreamDecoder) -> None:
        self.usage: Usage | None = None
        self.characters: int = 0
        self._decoder = decoder
        self._texts: list[str] = []
        self._unsent_blanks = ""  # at the end of the text; the next provider did not receive them and may repeat them
        self._usage_before: Usage | None = None
        self._keys: dict[int, int] = {}
        self._parts = 0
        self._open: dict[int, Part] = {}
        self._key_to_continue: int | None = None  # the key of the text that the next provider continues
        self._continued_keys: set[int] = set()
        self._is_continuation = False
        self._is_bound = False
        self._error: ErrorEnd | None = None
        self._reason: Any = None
        self._last_events: tuple[list[Event], list[Event]] = [], []
        self._accumulator = Accumulator()

    @property
    def failed(self) -> bool:
        """Return True if the current provider has reported an error."""
        return self._error is not None

    @property
    def parts(self) -> list[Part]:
        """The parts of the answer so far."""
        return self._accumulator.response.message.parts

    @property
    def text(self) -> str | None:
        """The text so far. None if it must not be continued."""
        last = next(reversed(self._open.values()), None)
        return None if self._is_bound or type(last) is Thinking else "".join(self._texts)

    @property
    def events_so_far(self) -> list[Event]:
        """The text so far as events, for the encoder of the next exchange."""
        key = self._parts if self._key_to_continue is None else self._key_to_continue
        return [PartStart(key, Text("")), TextDelta(key, "".join(self._texts))] if self._texts else []

    def feed(self, data: bytes) -> list[Event]:
        """Decode `data`. An error of the provider is held back until it is known that no other provider continues."""
        return list(self._joined_events(self._decoder.feed(data)))

    def can_be_continued(self) -> bool:
        """Return True if the provider's stream has ended in a way that another provider may continue."""
        events = self._decoder.close()
        ends = len(events)
        while ends and isinstance(events[ends - 1], _ENDS):
            ends -= 1
        joined = list(self._joined_events(events[:ends]))
        self._last_events = joined, events[ends:]
        reasons = [event.choice.finish_reason for event in events if type(event) is ChoiceEnd]
        complete = any(type(event) is MessageEnd and event.complete for event in events)
        if self._error is not None:
            return self._error.error.kind in _CONTINUABLE_ERRORS
        return ending_error(self._reason or next(iter(reasons), None), complete=complete, failed=False) is not None

    def join(self, decoder: StreamDecoder, unsent_blanks: str) -> list[Event]:
        """Continue with the stream of another provider. Return the remaining events of the provider before it.

        `unsent_blanks` are the blanks at the end of the text that the next provider did not receive.
        """
        remaining, _ = self._last_events
        open_keys = [*self._open]
        self._key_to_continue = open_keys.pop() if open_keys else None
        self._decoder, self._unsent_blanks, self._is_continuation = decoder, unsent_blanks, True
        self._usage_before, self.usage, self.characters = add_usage(self._usage_before, self.usage), None, 0
        self._keys, self._error, self._reason, self._last_events = {}, None, None, ([], [])
        return [*remaining, *map(self._end_of_part, open_keys)]

    def close(self) -> list[Event]:
        """Return the events of the end of the last stream."""
        (remaining, ends), error = self._last_events, self._error
        self._last_events, self._error = ([], []), None
        return [*remaining, *([] if error is None else [error]), *self._joined_events(ends)]

    def _joined_events(self, events: list[Event]) -> Iterator[Event]:
        for event in events:
            if self._error is not None:
                return
            for joined in self._events_for(event):
                self._accumulator.feed(joined)
                yield joined

    def _events_for(self, event: Event) -> Iterator[Event]:
        match event:
            case MessageStart() | MessageDelta() | OpaqueDelta(key=None):
                if not isinstance(event, OpaqueDelta):
                    self.usage = event.response.usage or self.usage
                if not self._is_continuation:  # the head of the answer is that of the first provider
                    yield event
            case PartStart() | CallStart():
                yield from self._start_part(event)
            case ErrorEnd():
                self._error = event
            case UsageDelta():
                self.usage = event.usage
                total = event.usage if self._usage_before is None else add_usage(self._usage_before, event.usage)
                yield event if total is None else replace(event, usage=total)
            case ChoiceEnd():
                self._reason = event.choice.finish_reason
                yield from self._end_open_text()
                yield event
            case MessageEnd():
                yield event
            case _:
                yield from self._event_inside_part(event)

    def _start_part(self, event: PartStart | CallStart) -> Iterator[Event]:
        part = event.part if type(event) is PartStart else None
        if self._key_to_continue is not None and type(part) is Text and not event.choice:
            self._keys[event.key], key, self._key_to_continue = self._key_to_continue, self._key_to_continue, None
            self._continued_keys.add(key)
            yield from self._emit_text(TextDelta(key, part.text)) if part.text else ()
            return
        yield from self._end_open_text()
        key = self._keys[event.key] = self._parts
        self._parts += 1
        self._is_bound = self._is_bound or event.choice > 0 or type(part) not in (Text, Thinking) or _signed(part)
        if part is not None:
            self._open[key] = part
        self._texts += [part.text] if type(part) is Text else []
        yield replace(event, key=key)

    def _event_inside_part(self, event: Any) -> Iterator[Event]:
        """Yield an event inside of a part, under the key that the part has in the joined answer."""
        key = self._keys.get(event.key)
        if key is None:
            return
        moved = event if key == event.key else replace(event, key=key)
        match moved:
            case TextDelta():
                yield from self._emit_text(moved)
                return
            case SignatureDelta() | CitationDelta():
                self._is_bound = True
            case PartEnd(part=part):
                self._is_bound = self._is_bound or _signed(part)
                moved = self._end_of_part(key, part) if key in self._continued_keys else moved
                self._open.pop(key, None)
        self.characters += len(moved.text) if isinstance(moved, _TEXT_DELTAS) else 0
        self.characters += len(moved.fragment) if type(moved) is CallDelta else 0
        yield moved

    def _emit_text(self, event: TextDelta) -> Iterator[Event]:
        self.characters += len(event.text)
        text = event.text
        if self._unsent_blanks:
            repeated = _common_prefix_length(text, self._unsent_blanks)
            text, self._unsent_blanks = text[repeated:], self._unsent_blanks[repeated:]
        if text:
            self._unsent_blanks = ""
            self._texts.append(text)
            yield event if text == event.text else replace(event, text=text)

    def _end_open_text(self) -> Iterator[Event]:
        """End a text that another provider left open, if the next provider did not continue it."""
        if self._key_to_continue is not None:
            key, self._key_to_continue = self._key_to_continue, None
            yield self._end_of_part(key)

    def _end_of_part(self, key: int, end: Any = None) -> Event:
        """Return the end of a part: with the type and the id of its start, and what only its end shows."""
        start: Any = self._open.pop(key)
        if start.opaque is None:
            return PartEnd(key, replace(start, text=""))
        end_opaque = None if end is None else end.opaque
        value = end_opaque.value if end_opaque is not None and end_opaque.dialect == start.opaque.dialect else {}
        return PartEnd(key, replace(start, text="", opaque=replace(start.opaque, value=value)))


def _common_prefix_length(text: str, other: str) -> int:
    """Return the number of characters that two texts have in common at their beginning."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((index for index, (first, second) in pairs if first != second), min(len(text), len(other)))


def _signed(part: Any) -> bool:
    """Return True if only the provider that made `part` can read it again."""
    match part:
        case Thinking(signature=signature, redacted=redacted):
            return bool(signature or redacted)
        case Text(opaque=Opaque(value=dict(value))):
            return "thoughtSignature" in value
        case Refusal():
            return True
    return False


def _prefills(candidate: Candidate, request: Request) -> bool:
    """Return True if the model continues an assistant turn that the request has begun."""
    family = family_of(candidate.model)
    thinks_first = (
        family.always_thinks
        or request.effort is not None
        or request.thinking not in (None, "disabled", "between_tools")
    )
    return traits_of(candidate.provider.dialect).continues_turns and family.prefill is not False and not thinks_first


class ContinuationRequest(Struct):
    """A request to continue a text, in the client's wire, and the blanks at the end of the text that it leaves out."""

    body: bytes
    unsent_blanks: str = ""

    @classmethod
    def of(cls, wire: Dialect, body: bytes, path: str, text: str, candidate: Candidate) -> "ContinuationRequest":
        """Return the client's request with the text so far as the assistant's turn."""
        if not text.strip():
            return cls(body, text)
        request = wire.decode_request(msgspec.json.decode(body), path)
        events_so_far = _prefills(candidate, request)
        sent_text = text.rstrip() if events_so_far else text
        messages = _with_assistant_text(list(request.context.messages), sent_text)
        if not events_so_far:
            messages.append(Message("user", CONTINUE_PROMPT))
        context = replace(request.context, messages=messages)
        return cls(wire.encode_request(replace(request, context=context)).json, text[len(sent_text) :])


def _with_assistant_text(messages: list[Message], text: str) -> list[Message]:
    """Return `messages` with the assistant's text. A turn that the client itself has begun is extended."""
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant":
        return [*messages, Message("assistant", text)]
    match last.parts:
        case [*other_parts, Text(text=events_so_far) as part]:
            return [*messages[:-1], replace(last, content=[*other_parts, replace(part, text=events_so_far + text)])]
    return [*messages[:-1], replace(last, content=[*last.parts, Text(text)])]


def may_continue(request: Request) -> bool:
    """Return True if the request asks for one answer without a structured output."""
    return request.output is None and (request.n or 1) == 1


def seam_loss(broken: Candidate, candidate: Candidate, text: str) -> Loss:
    """Return the loss that reports where an answer was joined."""
    detail = f"{broken.name} broke off after {len(text)} characters, and {candidate.name} continued"
    return Loss("message", "seam", "merged", detail)


def seam_comment(wire: Dialect, loss: Loss) -> bytes:
    """Return `loss` as a comment between two events. Return nothing if the wire has no comments."""
    return f": toolwire: {loss.detail}\n\n".encode() if wire.TRAITS.has_comments else b""
