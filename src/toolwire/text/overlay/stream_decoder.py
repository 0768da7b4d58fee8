"""Streams of a model that calls in its text, read: words as they come, and each call when its block is whole.

Rules of this file:
- No character of a block is ever told as words. What may still become one waits, and nothing else does.
- A text without a block is told by the very events that its wire told, but for where the words are cut.
- Whether a last line ends a block may depend on whether the answer was cut off; until then it waits.
- A part of a wire's text that was split has a key of its own, so every key is given anew.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.finish import CUT
from toolwire.streams import StreamDecoder
from toolwire.streams.accumulation import tell
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
    """One text of the wire: what hears it, and the part that tells its words or its thoughts now."""

    __slots__ = ("choice", "end", "key", "kind", "left", "listener", "split", "start", "told")

    def __init__(self, start: PartStart, listener: Any) -> None:
        self.start = start
        self.choice = start.choice
        self.listener = listener
        self.end: PartEnd | None = None
        self.key: int | None = None
        self.kind: Any = Text
        self.told = 0
        self.split = False
        self.left: list[Any] = []


class _AnswerState:
    """One answer: its calls, and those that are told when it ends."""

    __slots__ = ("builder", "late", "native", "parts", "split")

    def __init__(self, builder: CallBuilder) -> None:
        self.builder = builder
        self.late: list[ToolCall] = []
        self.parts: list[Part] = []
        self.native = False
        self.split = False


class DecoderWrapper:
    """What is read through the decoder of a wire ends where that one ends."""

    def __init__(self, inner: StreamDecoder) -> None:
        self._inner = inner

    @property
    def done(self) -> bool:
        """Whether the wire has ended the answer."""
        return self._inner.done

    @property
    def over(self) -> bool:
        """Whether nothing more is read."""
        return self._inner.over

    @property
    def ignored(self) -> int:
        """How many bytes came after that."""
        return self._inner.ignored


class Decoder(DecoderWrapper):
    """Reads a stream through the decoder of its wire."""

    def __init__(self, inner: StreamDecoder, reading: ResponseReader) -> None:
        super().__init__(inner)
        self._reader = reading
        self._keys: dict[int, int] = {}
        self._next = 0
        self._texts: dict[int, _TextState] = {}
        self._answers: dict[int, _AnswerState] = {}
        self._response = Response()
        self._events: list[Event] = []

    def feed(self, data: bytes) -> list[Event]:
        """Give the events that these bytes tell."""
        return self._read(self._inner.feed(data))

    def close(self) -> list[Event]:
        """Give the events that the end of the bytes tells."""
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
        """Tell what is no text: under the key that its part has now."""
        key = getattr(event, "key", None)
        said = None if key is None else self._texts.get(key)
        if said is not None:
            self._emit_beside(said, event)
            return
        told = key if key is None else self._keys.get(key, key)
        self._events.append(event if told == key else replace(event, key=told))

    def _emit_beside(self, said: _TextState, event: Any) -> None:
        """Tell what stands beside the words of a text, once there are some."""
        if said.key is None:
            said.left.append(event)
        else:
            self._events.append(replace(event, key=said.key))

    def read_message_start(self, event: MessageStart) -> None:
        """Keep what tells this answer from others."""
        self._response = event.response
        self._events.append(event)

    def _answer_state(self, choice: int) -> _AnswerState:
        found = self._answers.get(choice)
        if found is None:
            found = self._answers[choice] = _AnswerState(self._reader.call_builder(self._response, choice))
        return found

    def read_part_start(self, event: PartStart) -> None:
        """Begin a part; a text begins with its first words."""
        self._end_texts(event.choice, whole=True)
        if type(event.part) is not Text:
            self._events.append(replace(event, key=self._new_key(event.key)))
            return
        said = self._texts[event.key] = _TextState(
            event, self._reader.make_reader(self._answer_state(event.choice).builder)
        )
        if event.part.text:
            self._emit_found(said, said.listener.feed(event.part.text))

    def _new_key(self, key: int | None = None) -> int:
        new = self._next
        self._next += 1
        if key is not None:
            self._keys[key] = new
        return new

    def read_text(self, event: TextDelta) -> None:
        """Tell what the user may see of some words, and the calls that they end."""
        said = self._texts.get(event.key)
        if said is None:
            self._forward(event)
            return
        found = said.listener.feed(event.text)
        if len(found) == 1 and said.key == event.key and found[0] == event.text:
            self._events.append(event)
            return
        self._emit_found(said, found, event.opaque)
        if not event.text:
            self._emit_words(said, "")

    def _emit_found(self, said: _TextState, found: Iterable[TextItem], opaque: Opaque | None = None) -> None:
        for item in found:
            match item:
                case ToolCall():
                    self._emit_heard_call(said, item)
                case Thinking(text=text):
                    self._split(said)
                    self._events.append(ThinkingDelta(self._open(said, Thinking), text))
                case str():
                    self._emit_words(said, item, opaque)
                    opaque = None
                case None:
                    self._end_part(said)
        if opaque is not None:
            said.left.append(TextDelta(-1, "", opaque=opaque))

    def _emit_words(self, said: _TextState, words: str, opaque: Opaque | None = None) -> None:
        key = self._open(said, Text)
        if words or opaque is not None:
            self._events.append(TextDelta(key, words, opaque=opaque))

    def _open(self, said: _TextState, kind: Any) -> int:
        """Begin the part that tells the next words, if none is open, and tell what waited for it."""
        if said.kind is not kind:
            self._end_part(said)
        if said.key is None:
            first = said.told == 0 and kind is Text
            shell = replace(said.start.part, text="") if first else kind(text="")
            said.key, said.kind = self._new_key(), kind
            said.told += 1
            opaque = said.start.opaque if first else None
            self._events.append(PartStart(said.key, shell, said.choice, opaque=opaque))
        if kind is Text:
            left, said.left = said.left, []
            self._events += [replace(event, key=said.key) for event in left]
        return said.key

    def _split(self, said: _TextState) -> None:
        """Note that a text is more than its words."""
        said.split = self._answer_state(said.choice).split = True

    def _end_part(self, said: _TextState) -> None:
        """End the words or the thought that are being told."""
        if said.key is None:
            return
        self._split(said)
        known: Any = said.start.part
        opaque = Opaque(self._reader.dialect, {}) if said.told == 1 and known.opaque is not None else None
        shell: Any = Text("", opaque=opaque) if said.kind is Text else Thinking("")
        self._events.append(PartEnd(said.key, shell))
        said.key = None

    def _emit_heard_call(self, said: _TextState, call: ToolCall) -> None:
        self._split(said)
        if self._reader.appends_calls:
            self._answer_state(said.choice).late.append(call)
            return
        self._end_part(said)
        said.told += 1
        self._emit_call(call, said.choice)

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
        """End a part; a text waits until it is known whether it was cut off."""
        said = self._texts.get(event.key)
        if said is None:
            self._forward(event)
        else:
            said.end = event

    def _end_texts(self, choice: int, *, whole: bool) -> None:
        """End the texts of an answer that its wire has ended."""
        for said in [said for said in self._texts.values() if said.choice == choice and said.end is not None]:
            self._end_text(said.end, whole=whole)

    def _end_text(self, event: Any, *, whole: bool) -> None:
        """End a text: what its wire says of it at the end stands in its last part."""
        said = self._texts.pop(event.key)
        self._emit_found(said, said.listener.close(whole=whole))
        part: Any = event.part
        if said.split:
            part = self._last_part(part, said)
        if part is not None:
            self._open(said, Text)
        if said.key is not None:
            self._events.append(PartEnd(said.key, part or said.kind(text=""), opaque=event.opaque))
        for left in said.left:
            step = OpaqueDelta(None, said.choice, repeated=True, opaque=left.opaque)
            self._events += [step] if left.opaque is not None else []

    def _last_part(self, part: Text, said: _TextState) -> Text | None:
        """Give the end of a text in which there were calls; None where it has nothing to say."""
        more = has_metadata(part)
        if self._reader.appends_calls:
            return part if more or said.key is not None else None
        return last_piece(part, self._reader.dialect) if more else None

    def read_call_start(self, event: CallStart) -> None:
        """Begin a call of the wire's own."""
        self._end_texts(event.choice, whole=True)
        answering = self._answer_state(event.choice)
        answering.native = True
        answering.builder.register(event.id)
        self._events.append(replace(event, key=self._new_key(event.key)))

    def _emit_late(self, choice: int) -> None:
        """Tell the calls in the texts of an answer that may have had calls of its own."""
        answering = self._answer_state(choice)
        calls, answering.late = answering.late, []
        for part in self._reader.appended_calls(calls, has_native=answering.native):
            if isinstance(part, ToolCall):
                self._emit_call(part, choice)
            else:
                self._events += tell(self._new_key(), part, choice)

    def read_choice_end(self, event: ChoiceEnd) -> None:
        """End an answer: if there were calls in its text, it says so."""
        self._end_texts(event.index, whole=event.choice.finish_reason not in CUT)
        self._emit_late(event.index)
        answering = self._answers.get(event.index)
        if answering is None or not answering.split:
            self._events.append(event)
            return
        worded = type(event.choice.message.content) is str
        choice = finish_choice(event.choice, answering.parts, worded=worded)
        message = replace(choice.message, content=[])
        self._events.append(replace(event, choice=replace(choice, message=message)))

    def read_end(self, event: ErrorEnd | MessageEnd) -> None:
        """End what nothing ended."""
        whole = isinstance(event, MessageEnd) and event.complete
        for key, said in list(self._texts.items()):
            unended = PartEnd(key, replace(said.start.part, text=""))
            self._end_text(said.end or unended, whole=whole and said.end is not None)
        for choice in list(self._answers):
            self._emit_late(choice)
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
