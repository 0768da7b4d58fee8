"""Streams of Chat Completions, written: chunks of deltas.

Rules of this file:
- A chunk stands between a beginning and an end that are prepared; only what is new in it is encoded.
- The first chunk of a choice says who speaks. Why it ended and what it cost is said when the stream is over,
  and not at all if something went wrong.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from toolwire.dialects.openai_chat.calls import lose_second
from toolwire.dialects.openai_chat.error import encode_error
from toolwire.dialects.openai_chat.messages import Beside, encode_audio_answer, encode_thinking_key
from toolwire.dialects.openai_chat.parts import DIALECT, WIRE, encode_citation, encode_part
from toolwire.dialects.openai_chat.response import (
    COUNTS,
    FINISH_REASONS,
    encode_response,
    finish_word,
    legacy_word,
    showing,
)
from toolwire.encoding.finish import CUT, reads_as_whole, says_all
from toolwire.encoding.ledger import spelling_of
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.streams import ARGUMENTS_CHANGED, CUT_FREE_TEXT, DONE, AnyTextDelta, StreamEncoder, encode_json
from toolwire.streams.call_sequencer import CallSequencer
from toolwire.types import (
    Audio,
    CallDelta,
    CallEnd,
    CallStart,
    ChoiceEnd,
    Citation,
    CitationDelta,
    Encoded,
    Error,
    ErrorEnd,
    ErrorReply,
    Event,
    MessageDelta,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    PartEnd,
    PartStart,
    Refusal,
    Response,
    Text,
    Thinking,
    ThinkingDelta,
)
from toolwire.types.spelling.openai_chat import ChatCallSpelling, ChatThinkingSpelling
from toolwire.wire.arguments import BROKEN, argument_text, begins_whole
from toolwire.wire.framing import write_event
from toolwire.wire.names import WORDS, Grammar, shorten

CHUNK = "chat.completion.chunk"
_IDS = Grammar(WORDS, 40)
_END = b"]}\n\n"
_OF_CALLS = frozenset({CallStart, CallDelta, CallEnd})


class _Written(Struct, eq=False):
    """A part that is being written: where, under which key, and how much of it was told."""

    place: int
    choice: int
    key: str
    index: int = 0
    in_blocks: bool = False
    told: int = 0
    pieces: list[str] = []


class Encoder(StreamEncoder):
    """Writes chunks."""

    wire = WIRE
    encode_response: Callable[[Response, Quirks], Encoded] = staticmethod(encode_response)
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._shell: dict[str, Any] = {}
        self._head = b""  # a chunk up to its choices
        self._open: dict[int, _Written] = {}
        self._spoken: set[int] = set()
        self._silent: list[int] = []
        self._called: set[int] = set()
        self._legacy: set[int] = set()
        self._refused: set[int] = set()
        self._noted: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._reasons: dict[int, Any] = {}
        self._doubtful: dict[int, list[_Written]] = {}
        self._looked_at: dict[int, tuple[Any, int]] = {}
        self._said: set[tuple[int, str]] = set()
        self._endings: dict[int, bytes] = {}
        self._turns = CallSequencer()
        self._unmarked: dict[int, str] = {}
        self._ids: Counter[str | None] = Counter()

    def feed(self, event: Event) -> bytes:
        """Return the bytes that can be said after this event; a foreign call waits until the one before has ended."""
        kind = type(event)
        if kind in _OF_CALLS and not self._is_native:
            return b"".join(map(super().feed, self._turns.feed(event)))
        if kind is MessageEnd or kind is ErrorEnd:
            return b"".join(map(super().feed, [*self._turns.flush(), event]))
        return super().feed(event)

    def _chunk(self, choice: int, delta: dict[str, Any], opaque: Opaque | None, word: str | None = None) -> bytes:
        """Write a chunk of a choice, with what this wire said beside it; the first one says who speaks."""
        if choice not in self._spoken:
            self._spoken.add(choice)
            delta = {"role": "assistant", **delta}
        entry = {"index": choice, "delta": delta, "finish_reason": word}
        for key, value in self.native_fields(opaque).items():
            if key == "delta":
                self._said.update((choice, inner) for inner in value)
                entry["delta"] = {**value, **delta}
            else:
                self._said.add((choice, key))
                entry.setdefault(key, value)
        return self._head + encode_json(entry) + _END

    def _unsaid(self, choice: int, opaque: Opaque | None) -> dict[str, Any]:
        """Give what this wire said of a value and no step has said: a response has no steps."""
        left = self.native_fields(opaque)
        return {key: left[key] for key in left if left[key] is not None and (choice, key) not in self._said}

    def write_message_start(self, event: MessageStart) -> bytes:
        """Prepare what every chunk says."""
        self._is_native, self._usage = self.is_native(event.response), event.response.usage
        if not self._is_native:
            self.ledger.quirks = showing(self.ledger.quirks)
        shell = self.encode_shell(event.response)
        shell.pop("choices", None)
        shell.pop("usage", None)
        if "object" in shell:
            shell["object"] = CHUNK
        return self._prepare(shell)

    def _prepare(self, shell: dict[str, Any]) -> bytes:
        self._shell = shell
        self._head = b"data: " + encode_json({**shell, "choices": []})[:-2]
        return b""

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Say news of the answer with the next chunk."""
        if self.is_native(event):
            return self._prepare({**self._shell, **self.native_fields(event.opaque)})
        self.lose_update(event.response)
        return b""

    def write_part_start(self, event: PartStart) -> bytes:
        """Begin a part: a first text says that there are words."""
        part: Any = event.part
        quirks = self.ledger.quirks
        key = "content"
        if type(part) is Refusal:
            key = "refusal"
            self._refused.add(event.choice)
        elif type(part) is Thinking:
            spelling = spelling_of(part.opaque, ChatThinkingSpelling)
            key = quirks.reasoning_key or spelling.key or "reasoning_content"
        self._open[event.key] = written = _Written(event.key, event.choice, key)
        written.in_blocks = key == "content" and type(part) in (Text, Thinking) and self.is_native(part)
        if event.choice in self._spoken or type(part) is not Text or written.in_blocks:
            return b""
        return self._chunk(event.choice, {"content": ""}, None)

    def write_text_delta(self, event: AnyTextDelta) -> bytes:
        """Write words."""
        part = self._open.get(event.key)
        if part is None:
            return b""
        delta: dict[str, Any] = {part.key: event.text}
        if part.in_blocks:
            block: dict[str, Any] = {"type": "text", "text": event.text}
            if type(event) is ThinkingDelta:
                block = {"type": "thinking", "thinking": [block]}
            delta = {"content": [block]}
        elif part.key == "reasoning_details":
            delta = {}
        return self._chunk(part.choice, delta, event.opaque)

    def write_citation(self, event: CitationDelta) -> bytes:
        """Write an annotation."""
        part = self._open.get(event.key)
        if part is None:
            return b""
        part.told += 1
        self._stand(part)
        notes = self._encode_notes([event.citation], part.choice)
        return self._chunk(part.choice, {"annotations": notes}, event.opaque) if notes else b""

    def _encode_notes(self, citations: Iterable[Citation], choice: int) -> list[Any]:
        """Write annotations, each with its number, without which clients cannot join those of two chunks."""
        notes = []
        for citation in citations:
            if (note := encode_citation(citation, self.ledger)) is not None:
                place = self._noted.get(choice, 0)
                self._noted[choice] = place + 1
                notes.append({"index": place, **note})
        return notes

    def _stand(self, part: _Written) -> None:
        self.set_path("choices", part.choice, "message", part=part.place)

    def write_part_end(self, event: PartEnd) -> bytes:
        """Lose what a part cannot say here, and write one that came whole."""
        part, written = event.part, self._open.pop(event.key, None)
        if written is None:
            return b""
        self._stand(written)
        delta: dict[str, Any] = {}
        match part:
            case Text():
                self.ledger.finish({}, part)
                notes = (part.citations or [])[written.told :]
                delta = {"annotations": self._encode_notes(notes, written.choice)}
            case Thinking():
                encode_thinking_key(part, {}, [], self.ledger, Beside())
                delta = self._end_thinking(written, part)
            case Refusal():
                self.ledger.finish({}, part)
            case Audio() if part.file_id is not None and self.is_native(part):
                if (written.choice, "audio") not in self._said:
                    encode_audio_answer(part, delta, self.ledger, as_string=True)
            case _ if (block := encode_part(part, self.ledger, "assistant")) is not None:
                delta = {"content": [block]}
        return self._chunk(written.choice, delta, event.opaque) if any(delta.values()) else b""

    def _end_thinking(self, written: _Written, part: Thinking) -> dict[str, Any]:
        """Give what is left to say of a thought, without words."""
        left = self._unsaid(written.choice, part.opaque)
        if not left or written.key == "reasoning_details":
            return left
        if written.in_blocks:
            return {"content": [{"type": "thinking", "thinking": [], **left}]}
        return {written.key: "", **left}

    def write_call_start(self, event: CallStart) -> bytes:
        """Write the name and the id of a call."""
        ledger, spelling = self.ledger, spelling_of(event.opaque, ChatCallSpelling)
        is_own = self.is_native(event)
        is_native = is_own and not spelling.is_escaped
        name = event.name if is_native else ledger.names.write(event.name)
        key = "custom" if event.custom else "function_call" if spelling.is_deprecated_function else "function"
        if begins_whole(self._unmarked.get(event.choice, BROKEN)):
            return self.fail(CUT_FREE_TEXT)
        before = self._break_all(event.choice)
        if key == "function_call" and event.choice in self._called:
            self.set_path("choices", event.choice, "message", part=event.key)
            lose_second(ledger)
            return before
        self._open[event.key] = _Written(event.key, event.choice, key, event.index)
        self._called.add(event.choice)
        self._last[event.choice] = event.key
        field = "input" if event.custom else "arguments"
        if key == "function_call":
            self._legacy.add(event.choice)
            return before + self._chunk(event.choice, {key: {"name": name, field: ""}}, None)
        entry: dict[str, Any] = {"index": event.index, "id": self._id_of(event, is_native=is_native)}
        if spelling.has_no_id:
            del entry["id"]
        if not spelling.has_no_type:
            entry["type"] = key
        entry[key] = {"name": name, field: ""}
        left = event.opaque.value if is_own and event.opaque is not None else {}
        for extra, value in left.items():
            entry[extra] = {**value, **entry[key]} if extra == key and isinstance(value, dict) else value
        delta: dict[str, Any] = {} if is_own or event.choice in self._spoken else {"content": None}
        return before + self._chunk(event.choice, {**delta, "tool_calls": [entry]}, None)

    def _id_of(self, event: CallStart, *, is_native: bool) -> str:
        """Give a call its id; readers take a second call of one id from elsewhere for more of the first one."""
        again = 0 if is_native or event.id is None else self._ids[event.id]
        self._ids[event.id] += 1
        written = self.ledger.ids.call(event.id, own=is_native)
        return shorten(written, _IDS, again) if again else written

    def write_call_delta(self, event: CallDelta) -> bytes:
        """Write a fragment of a call's text."""
        call = self._open.get(event.key)
        if call is None:
            return b""
        call.pieces.append(event.fragment)
        return self._write_text(call, event.fragment, event.opaque)

    def _write_text(self, call: _Written, text: str, opaque: Opaque | None) -> bytes:
        inner: dict[str, Any] = {call.key: {"input" if call.key == "custom" else "arguments": text}}
        delta = inner if call.key == "function_call" else {"tool_calls": [{"index": call.index, **inner}]}
        return self._chunk(call.choice, delta, opaque)

    def write_call_end(self, event: CallEnd) -> bytes:
        """End a call: what came without fragments is said whole."""
        written, call = self._open.pop(event.key, None), event.call
        if written is None:
            return b""
        self._stand(written)
        self.ledger.finish({}, call)
        if call.runs and written.pieces and not says_all("".join(written.pieces), call):
            return self.fail(ARGUMENTS_CHANGED)
        if not call.runs:
            self._doubtful.setdefault(written.choice, []).append(written)
        if written.key == "custom" and not call.complete:
            self._unmarked[written.choice] = "".join(written.pieces)
        told = "".join(written.pieces)
        if told.strip() or (told and call.custom) or not call.complete or (call.raw == "" and self.is_native(call)):
            return b""
        self._open[event.key] = written
        text = (call.raw or "") if call.custom else argument_text(call, DIALECT)
        data = self.write_call_delta(CallDelta(event.key, text))
        del self._open[event.key]
        return data

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Say again what this wire said; elsewhere it is lost, if no part repeats it."""
        if self.native_fields(event.opaque):
            return self._chunk(event.choice, {}, event.opaque)
        self.lose_opaque_event(event)
        return b""

    def write_choice_end(self, event: ChoiceEnd) -> bytes:
        """Keep the end of an answer until it is sure that nothing went wrong."""
        self.set_path("choices", event.index)
        choice, place = event.choice, event.index
        if place not in self._spoken:
            self._silent.append(place)
        mine = self.is_native(choice)
        word = None
        if choice.raw_finish_reason is not None or not mine:
            called, refused = place in self._called, place in self._refused
            word = finish_word(choice, self.ledger, is_native=mine, called=called, refused=refused)
        if mine and choice.finish_reason == "error":
            word = choice.raw_finish_reason
        if not mine:
            word = legacy_word(word) if place in self._legacy else word
            self.ledger.lose_opaque(choice.opaque)
            self.ledger.lose_opaque(choice.message.opaque)
        self._reasons[place] = FINISH_REASONS.get(word or "")
        if word is not None:
            delta, left = self._unsaid(place, choice.message.opaque), self._unsaid(place, choice.opaque)
            beside = Opaque(DIALECT, {**left, **self.native_fields(event.opaque)})
            self._endings[place] = self._chunk(place, delta, beside, word)
        return b""

    def write_unstarted_choices(self) -> bytes:
        """Begin the answers that have ended and said nothing, if others have spoken."""
        others = self._spoken.difference(self._silent)
        return b"".join([self._chunk(place, {"role": "assistant"}, None) for place in self._silent if others])

    def may_have_written_end(self) -> bool:
        """Whether an answer had ended."""
        return self._is_native and self._endings != {}

    def write_error_body(self, body: Any) -> bytes:
        """Write an error."""
        return write_event(encode_json(body))

    def write_ending(self, *, complete: bool) -> bytes:
        """Say how the answers ended and what they cost, and before that of each call that it is not to be run."""
        if complete and any(self._reasons.get(choice) not in CUT for choice in self._unmarked):
            return self.fail(CUT_FREE_TEXT)
        broken = [self._break_all(choice, ended=True, complete=complete) for choice in self._last]
        silent = [self._chunk(place, {}, None) for place in self._silent if place not in self._endings]
        said = [data for place, data in self._endings.items() if complete or place not in self._cut_choices]
        nothing = complete and self._head and not (self._spoken or self._usage)
        shell = self._head + _END if nothing else b""
        return b"".join([*broken, *silent, *said, shell, self._counts(), write_event(DONE) if complete else b""])

    def _break_all(self, choice: int, *, ended: bool = False, complete: bool = False) -> bytes:
        """Add to the text of each call that is not to be run, so that it is not read as one that is.

        The next call closes a call, and so does the reason of an end.
        """
        doubtful, reason = self._doubtful.get(choice, []), self._reasons.get(choice)
        if not doubtful or (ended and reason is None and (self._is_native or not complete)):
            return b""
        before, count = self._looked_at.get(choice, (None, 0))
        first = 0 if ended or reason != before else count  # the others were looked at, for the same reason
        self._looked_at[choice] = reason, len(doubtful)
        data: list[bytes] = []
        for call in doubtful[first:]:
            last = ended and self._last[choice] == call.place
            text = "".join(call.pieces)
            if call.key != "custom" and reads_as_whole(text, reason, last=last):
                call.pieces.append(BROKEN)
                data.append(self._write_text(call, BROKEN, None))
        return b"".join(data)

    def _counts(self) -> bytes:
        if self._usage is None or not self.ledger.quirks.stream_usage:
            return b""
        self.set_path()
        usage = {**self._shell, "choices": [], "usage": COUNTS.encode(self._usage, self.ledger)}
        return write_event(encode_json(usage))


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder for a server with these quirks; tools that are called `names` keep their names."""
    return Encoder.open(quirks, names, **settings)
