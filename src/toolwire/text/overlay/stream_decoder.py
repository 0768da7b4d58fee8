"""Decode streams of a model that writes calls in its text: text at once, and each call when its block is complete.

Rules of this file:
- No character of a block is passed on as text. Text is held back only while it may still become a block.
- A text without a block produces the same events as its wire, except that the text may be split differently.
- Whether a last line ends a block may depend on whether the answer was cut off. It is held back until that is known.
- A text of the wire that is split has several parts with a key each, so every part gets a new key.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.finish import CUT
from toolwire.streams import StreamDecoder
from toolwire.streams.accumulation import part_events
from toolwire.text.calls import CallBuilder
from toolwire.text.overlay.responses import ResponseReader, finish_choice
from toolwire.text.overlay.text_parts import has_metadata, last_piece
from toolwire.text.reader import TextItem
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    ChoiceEnd,
    ErrorEnd,
    Event,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    Part,
    PartEnd,
    PartStart,
    Response,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
)
from toolwire.wire.arguments import format_arguments


class _TextState:
    """One text of the wire: its reader, and the part that is currently open.

    - `key` and `part_type`: the key of the open part, and whether it is text or a thought.
    - `part_count`: the number of parts so far.
    - `is_split`: the text has calls or thoughts, and so more than one part.
    - `waiting`: events that wait for the next text part.
    """

    __slots__ = ("choice", "end", "is_split", "key", "part_count", "part_type", "reader", "start", "waiting")

    def __init__(self, start: PartStart, reader: Any) -> None:
        self.start = start
        self.choice = start.choice
        self.reader = reader
        self.end: PartEnd | None = None
        self.key: int | None = None
        self.part_type: Any = Text
        self.part_count = 0
        self.is_split = False
        self.waiting: list[Any] = []


class _AnswerState:
    """One answer: the builder of its calls, and the calls that are reported when it ends."""

    __slots__ = ("builder", "has_native_calls", "held_calls", "is_split", "parts")

    def __init__(self, builder: CallBuilder) -> None:
        self.builder = builder
        self.held_calls: list[ToolCall] = []
        self.parts: list[Part] = []
        self.has_native_calls = False
        self.is_split = False


class DecoderWrapper:
    """A decoder over the decoder of a wire, which ends when that one ends."""

    def __init__(self, inner: StreamDecoder) -> None:
        self._inner = inner

    @property
    def done(self) -> bool:
        """Return True if the wire has ended the answer."""
        return self._inner.done

    @property
    def over(self) -> bool:
        """Return True if the decoder reads no more bytes."""
        return self._inner.over

    @property
    def ignored(self) -> int:
        """The number of bytes that arrived after the end."""
        return self._inner.ignored


class Decoder(DecoderWrapper):
    """Decodes a stream through the decoder of its wire."""

    def __init__(self, inner: StreamDecoder, reader: ResponseReader) -> None:
        super().__init__(inner)
        self._reader = reader
        self._keys: dict[int, int] = {}
        self._next = 0
        self._texts: dict[int, _TextState] = {}
        self._answers: dict[int, _AnswerState] = {}
        self._response = Response()
        self._events: list[Event] = []

    def feed(self, data: bytes) -> list[Event]:
        """Return the events of these bytes."""
        return self._read(self._inner.feed(data))

    def close(self) -> list[Event]:
        """Return the events of the end of the bytes."""
        return self._read(self._inner.close())

    def _read(self, events: list[Event]) -> list[Event]:
        self._events = []
        for event in events:
            name = READERS.get(type(event))
            if name is None:
                self._forward(event)
            else:
                getattr(self, name)(event)
        return self._events

    def _forward(self, event: Any) -> None:
        """Emit an event that is not text, with the new key of its part."""
        key = getattr(event, "key", None)
        state = None if key is None else self._texts.get(key)
        if state is not None:
            self._emit_metadata(state, event)
            return
        new_key = key if key is None else self._keys.get(key, key)
        self._events.append(event if new_key == key else replace(event, key=new_key))

    def _emit_metadata(self, state: _TextState, event: Any) -> None:
        """Emit metadata of a text, or hold it back until the text has a part."""
        if state.key is None:
            state.waiting.append(event)
        else:
            self._events.append(replace(event, key=state.key))

    def read_message_start(self, event: MessageStart) -> None:
        """Store the response, whose id is the seed of call ids."""
        self._response = event.response
        self._events.append(event)

    def _answer_state(self, choice: int) -> _AnswerState:
        state = self._answers.get(choice)
        if state is None:
            state = self._answers[choice] = _AnswerState(self._reader.call_builder(self._response, choice))
        return state

    def read_part_start(self, event: PartStart) -> None:
        """Begin a part. The part of a text begins with its first characters."""
        self._end_texts(event.choice, whole=True)
        if type(event.part) is not Text:
            self._events.append(replace(event, key=self._new_key(event.key)))
            return
        state = self._texts[event.key] = _TextState(
            event, self._reader.make_reader(self._answer_state(event.choice).builder)
        )
        if event.part.text:
            self._emit_items(state, state.reader.feed(event.part.text))

    def _new_key(self, key: int | None = None) -> int:
        new = self._next
        self._next += 1
        if key is not None:
            self._keys[key] = new
        return new

    def read_text(self, event: TextDelta) -> None:
        """Emit the text that does not have to wait, and the calls that it completes."""
        state = self._texts.get(event.key)
        if state is None:
            self._forward(event)
            return
        items = state.reader.feed(event.text)
        if len(items) == 1 and state.key == event.key and items[0] == event.text:
            self._events.append(event)
            return
        self._emit_items(state, items, event.opaque)
        if not event.text:
            self._emit_text(state, "")

    def _emit_items(self, state: _TextState, items: Iterable[TextItem], opaque: Opaque | None = None) -> None:
        for item in items:
            match item:
                case ToolCall():
                    self._emit_text_call(state, item)
                case Thinking(text=text):
                    self._mark_split(state)
                    self._events.append(ThinkingDelta(self._open_part(state, Thinking), text))
                case str():
                    self._emit_text(state, item, opaque)
                    opaque = None
                case None:
                    self._end_part(state)
        if opaque is not None:
            state.waiting.append(TextDelta(-1, "", opaque=opaque))

    def _emit_text(self, state: _TextState, text: str, opaque: Opaque | None = None) -> None:
        key = self._open_part(state, Text)
        if text or opaque is not None:
            self._events.append(TextDelta(key, text, opaque=opaque))

    def _open_part(self, state: _TextState, part_type: Any) -> int:
        """Return the key of the open part. Begin a part of this type if none is open, and emit what waited for it."""
        if state.part_type is not part_type:
            self._end_part(state)
        if state.key is None:
            is_first = state.part_count == 0 and part_type is Text
            empty_part = replace(state.start.part, text="") if is_first else part_type(text="")
            state.key, state.part_type = self._new_key(), part_type
            state.part_count += 1
            opaque = state.start.opaque if is_first else None
            self._events.append(PartStart(state.key, empty_part, state.choice, opaque=opaque))
        if part_type is Text:
            waiting, state.waiting = state.waiting, []
            self._events += [replace(event, key=state.key) for event in waiting]
        return state.key

    def _mark_split(self, state: _TextState) -> None:
        """Note that a text has calls or thoughts."""
        state.is_split = self._answer_state(state.choice).is_split = True

    def _end_part(self, state: _TextState) -> None:
        """End the open part of a text."""
        if state.key is None:
            return
        self._mark_split(state)
        source_part: Any = state.start.part
        opaque = Opaque(self._reader.dialect, {}) if state.part_count == 1 and source_part.opaque is not None else None
        empty_part: Any = Text("", opaque=opaque) if state.part_type is Text else Thinking("")
        self._events.append(PartEnd(state.key, empty_part))
        state.key = None

    def _emit_text_call(self, state: _TextState, call: ToolCall) -> None:
        self._mark_split(state)
        if self._reader.appends_calls:
            self._answer_state(state.choice).held_calls.append(call)
            return
        self._end_part(state)
        state.part_count += 1
        self._emit_call(call, state.choice)

    def _emit_call(self, call: ToolCall, choice: int) -> None:
        key = self._new_key()
        raw = call.raw if call.raw is not None else format_arguments(call.plain_arguments)
        self._events += [
            CallStart(key, call.id, call.name, call.index, call.custom, choice, opaque=call.opaque),
            CallDelta(key, raw),
            CallEnd(key, call),
        ]
        self._answer_state(choice).parts.append(call)

    def read_part_end(self, event: PartEnd) -> None:
        """End a part. The end of a text is held back until it is known whether the answer was cut off."""
        state = self._texts.get(event.key)
        if state is None:
            self._forward(event)
        else:
            state.end = event

    def _end_texts(self, choice: int, *, whole: bool) -> None:
        """End the texts of an answer that its wire has ended."""
        for state in [state for state in self._texts.values() if state.choice == choice and state.end is not None]:
            self._end_text(state.end, whole=whole)

    def _end_text(self, event: Any, *, whole: bool) -> None:
        """End a text. The metadata that its wire sent at the end goes to its last part."""
        state = self._texts.pop(event.key)
        self._emit_items(state, state.reader.close(whole=whole))
        part: Any = event.part
        if state.is_split:
            part = self._last_part(part, state)
        if part is not None:
            self._open_part(state, Text)
        if state.key is not None:
            self._events.append(PartEnd(state.key, part or state.part_type(text=""), opaque=event.opaque))
        for waiting in state.waiting:
            step = OpaqueDelta(None, state.choice, repeated=True, opaque=waiting.opaque)
            self._events += [step] if waiting.opaque is not None else []

    def _last_part(self, part: Text, state: _TextState) -> Text | None:
        """Return the last part of a text that was split, or None if it would be empty."""
        has_more = has_metadata(part)
        if self._reader.appends_calls:
            return part if has_more or state.key is not None else None
        return last_piece(part, self._reader.dialect) if has_more else None

    def read_call_start(self, event: CallStart) -> None:
        """Begin a call of the wire's own."""
        self._end_texts(event.choice, whole=True)
        answer = self._answer_state(event.choice)
        answer.has_native_calls = True
        answer.builder.register(event.id)
        self._events.append(replace(event, key=self._new_key(event.key)))

    def _emit_held_calls(self, choice: int) -> None:
        """Emit the calls in the texts of an answer that may have had calls of its own."""
        answer = self._answer_state(choice)
        calls, answer.held_calls = answer.held_calls, []
        for part in self._reader.appended_calls(calls, has_native=answer.has_native_calls):
            if isinstance(part, ToolCall):
                self._emit_call(part, choice)
            else:
                self._events += part_events(self._new_key(), part, choice)

    def read_choice_end(self, event: ChoiceEnd) -> None:
        """End an answer. If its texts had calls, its finish reason becomes `tool_calls`."""
        self._end_texts(event.index, whole=event.choice.finish_reason not in CUT)
        self._emit_held_calls(event.index)
        answer = self._answers.get(event.index)
        if answer is None or not answer.is_split:
            self._events.append(event)
            return
        was_text = type(event.choice.message.content) is str
        choice = finish_choice(event.choice, answer.parts, was_text=was_text)
        message = replace(choice.message, content=[])
        self._events.append(replace(event, choice=replace(choice, message=message)))

    def read_end(self, event: ErrorEnd | MessageEnd) -> None:
        """End the texts and answers that the wire did not end."""
        whole = isinstance(event, MessageEnd) and event.complete
        for key, state in list(self._texts.items()):
            unended = PartEnd(key, replace(state.start.part, text=""))
            self._end_text(state.end or unended, whole=whole and state.end is not None)
        for choice in list(self._answers):
            self._emit_held_calls(choice)
        self._events.append(event)


READERS: dict[type, str] = {
    MessageStart: "read_message_start",
    PartStart: "read_part_start",
    TextDelta: "read_text",
    PartEnd: "read_part_end",
    CallStart: "read_call_start",
    ChoiceEnd: "read_choice_end",
    ErrorEnd: "read_end",
    MessageEnd: "read_end",
}
