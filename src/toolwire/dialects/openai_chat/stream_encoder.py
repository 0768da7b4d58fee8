"""The encoder of Chat Completions streams: chunks of deltas.

Rules of this file:
- All chunks have the same first and last bytes. Those are encoded once, and each chunk adds its choice.
- The first chunk of a choice has the role. Finish reasons and token counts are written at the end of the stream, and
  not at all after a failure.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from toolwire.dialects.openai_chat.calls import lose_second_call
from toolwire.dialects.openai_chat.error import encode_error
from toolwire.dialects.openai_chat.messages import JoinedKeys, encode_answer_audio, encode_thinking_key
from toolwire.dialects.openai_chat.parts import DIALECT, WIRE, encode_citation, encode_part
from toolwire.dialects.openai_chat.response import (
    COUNTS,
    FINISH_REASONS,
    deprecated_finish_reason,
    encode_finish_reason,
    encode_response,
    with_visible_thinking,
)
from toolwire.encoding.finish import CUT, is_text_of_call, looks_complete
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
from toolwire.wire.arguments import CUT_OFF_SUFFIX, argument_text, may_be_complete
from toolwire.wire.framing import write_event
from toolwire.wire.names import WORD_CHARS, Grammar, shorten

CHUNK = "chat.completion.chunk"
_IDS = Grammar(WORD_CHARS, 40)
_CHUNK_END = b"]}\n\n"
_CALL_EVENTS = frozenset({CallStart, CallDelta, CallEnd})


class _OpenPart(Struct, eq=False):
    """A part that was started and has not ended.

    - `part_key`: the key of its events.
    - `choice`: the index of its choice.
    - `body_key`: the key of a delta, or of a call, under which it is written.
    - `index`: the index of a call.
    - `in_blocks`: True if it is written as blocks of the content.
    - `citation_count`: how many of its citations were written.
    - `pieces`: the text of a call in pieces.
    """

    part_key: int
    choice: int
    body_key: str
    index: int = 0
    in_blocks: bool = False
    citation_count: int = 0
    pieces: list[str] = []


class Encoder(StreamEncoder):
    """The encoder of one stream.

    - `_shell`: the keys beside the choices.
    - `_head`: the bytes of a chunk before its choice.
    - `_open_parts`: the parts that have not ended, by the key of their events.
    - `_started_choices`: the choices of which a chunk was written.
    - `_silent_choices`: the choices that ended without a chunk.
    - `_calling_choices`, `_deprecated_choices`, `_refused_choices`: the choices with a call, with a call of the
      deprecated `functions`, and with a refusal.
    - `_annotation_counts`, `_last_calls`, `_finish_reasons`: by choice, the number of annotations, the key of the last
      call, and the finish reason.
    - `_broken_calls`: by choice, the calls that must not run.
    - `_checked`: by choice, the finish reason with which those calls were checked last, and how many of them.
    - `_written_keys`: the unknown keys that were written, each with its choice.
    - `_end_chunks`: by choice, its last chunk.
    - `_turns`: the calls of another wire, which are written one after the other.
    - `_cut_texts`: by choice, the free text of a call that was cut off.
    - `_id_counts`: how many calls had an id.
    """

    wire = WIRE
    encode_response: Callable[[Response, Quirks], Encoded] = staticmethod(encode_response)
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._shell: dict[str, Any] = {}
        self._head = b""  # a chunk up to its choices
        self._open_parts: dict[int, _OpenPart] = {}
        self._started_choices: set[int] = set()
        self._silent_choices: list[int] = []
        self._calling_choices: set[int] = set()
        self._deprecated_choices: set[int] = set()
        self._refused_choices: set[int] = set()
        self._annotation_counts: dict[int, int] = {}
        self._last_calls: dict[int, int] = {}
        self._finish_reasons: dict[int, Any] = {}
        self._broken_calls: dict[int, list[_OpenPart]] = {}
        self._checked: dict[int, tuple[Any, int]] = {}
        self._written_keys: set[tuple[int, str]] = set()
        self._end_chunks: dict[int, bytes] = {}
        self._turns = CallSequencer()
        self._cut_texts: dict[int, str] = {}
        self._id_counts: Counter[str | None] = Counter()

    def feed(self, event: Event) -> bytes:
        """Return the bytes that can be written now. A call of another wire waits until the call before it has ended."""
        event_type = type(event)
        if event_type in _CALL_EVENTS and not self._is_native:
            return b"".join(map(super().feed, self._turns.feed(event)))
        if event_type is MessageEnd or event_type is ErrorEnd:
            return b"".join(map(super().feed, [*self._turns.flush(), event]))
        return super().feed(event)

    def _write_chunk(
        self, choice: int, delta: dict[str, Any], opaque: Opaque | None, raw_reason: str | None = None
    ) -> bytes:
        """Write a chunk of a choice, with the unknown keys that this wire sent. The first chunk has the role."""
        if choice not in self._started_choices:
            self._started_choices.add(choice)
            delta = {"role": "assistant", **delta}
        entry = {"index": choice, "delta": delta, "finish_reason": raw_reason}
        for key, value in self.native_fields(opaque).items():
            if key == "delta":
                self._written_keys.update((choice, inner) for inner in value)
                entry["delta"] = {**value, **delta}
            else:
                self._written_keys.add((choice, key))
                entry.setdefault(key, value)
        return self._head + encode_json(entry) + _CHUNK_END

    def _unwritten(self, choice: int, opaque: Opaque | None) -> dict[str, Any]:
        """Return the unknown keys of a value that no chunk had, as those of a response that was not streamed."""
        unparsed = self.native_fields(opaque)
        return {
            key: unparsed[key]
            for key in unparsed
            if unparsed[key] is not None and (choice, key) not in self._written_keys
        }

    def write_message_start(self, event: MessageStart) -> bytes:
        """Encode the keys that every chunk has."""
        self._is_native, self._usage = self.is_native(event.response), event.response.usage
        if not self._is_native:
            self.ledger.quirks = with_visible_thinking(self.ledger.quirks)
        shell = self.encode_shell(event.response)
        shell.pop("choices", None)
        shell.pop("usage", None)
        if "object" in shell:
            shell["object"] = CHUNK
        return self._set_shell(shell)

    def _set_shell(self, shell: dict[str, Any]) -> bytes:
        """Store the keys beside the choices for all chunks that follow. No bytes are written."""
        self._shell = shell
        self._head = b"data: " + encode_json({**shell, "choices": []})[:-2]
        return b""

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Store the changed keys beside the choices for the next chunk."""
        if self.is_native(event):
            return self._set_shell({**self._shell, **self.native_fields(event.opaque)})
        self.lose_update(event.response)
        return b""

    def write_part_start(self, event: PartStart) -> bytes:
        """Open a part. If the first part of a choice is a text, write a chunk with an empty content."""
        part: Any = event.part
        quirks = self.ledger.quirks
        key = "content"
        if type(part) is Refusal:
            key = "refusal"
            self._refused_choices.add(event.choice)
        elif type(part) is Thinking:
            spelling = spelling_of(part.opaque, ChatThinkingSpelling)
            key = quirks.reasoning_key or spelling.key or "reasoning_content"
        self._open_parts[event.key] = open_part = _OpenPart(event.key, event.choice, key)
        open_part.in_blocks = key == "content" and type(part) in (Text, Thinking) and self.is_native(part)
        if event.choice in self._started_choices or type(part) is not Text or open_part.in_blocks:
            return b""
        return self._write_chunk(event.choice, {"content": ""}, None)

    def write_text_delta(self, event: AnyTextDelta) -> bytes:
        """Write a delta of a text, a refusal or thinking."""
        part = self._open_parts.get(event.key)
        if part is None:
            return b""
        delta: dict[str, Any] = {part.body_key: event.text}
        if part.in_blocks:
            block: dict[str, Any] = {"type": "text", "text": event.text}
            if type(event) is ThinkingDelta:
                block = {"type": "thinking", "thinking": [block]}
            delta = {"content": [block]}
        elif part.body_key == "reasoning_details":
            delta = {}
        return self._write_chunk(part.choice, delta, event.opaque)

    def write_citation(self, event: CitationDelta) -> bytes:
        """Write an annotation."""
        part = self._open_parts.get(event.key)
        if part is None:
            return b""
        part.citation_count += 1
        self._set_position(part)
        annotations = self._encode_annotations([event.citation], part.choice)
        return self._write_chunk(part.choice, {"annotations": annotations}, event.opaque) if annotations else b""

    def _encode_annotations(self, citations: Iterable[Citation], choice: int) -> list[Any]:
        """Write annotations, each with its index, by which clients join those of several chunks."""
        annotations = []
        for citation in citations:
            if (annotation := encode_citation(citation, self.ledger)) is not None:
                index = self._annotation_counts.get(choice, 0)
                self._annotation_counts[choice] = index + 1
                annotations.append({"index": index, **annotation})
        return annotations

    def _set_position(self, part: _OpenPart) -> None:
        """Set the path of losses to that of a part."""
        self.set_path("choices", part.choice, "message", part=part.part_key)

    def write_part_end(self, event: PartEnd) -> bytes:
        """End a part. Report its losses, and write what no delta had."""
        part, open_part = event.part, self._open_parts.pop(event.key, None)
        if open_part is None:
            return b""
        self._set_position(open_part)
        delta: dict[str, Any] = {}
        match part:
            case Text():
                self.ledger.finish({}, part)
                citations = (part.citations or [])[open_part.citation_count :]
                delta = {"annotations": self._encode_annotations(citations, open_part.choice)}
            case Thinking():
                encode_thinking_key(part, {}, [], self.ledger, JoinedKeys())
                delta = self._end_thinking(open_part, part)
            case Refusal():
                self.ledger.finish({}, part)
            case Audio() if part.file_id is not None and self.is_native(part):
                if (open_part.choice, "audio") not in self._written_keys:
                    encode_answer_audio(part, delta, self.ledger, as_string=True)
            case _ if (block := encode_part(part, self.ledger, "assistant")) is not None:
                delta = {"content": [block]}
        return self._write_chunk(open_part.choice, delta, event.opaque) if any(delta.values()) else b""

    def _end_thinking(self, open_part: _OpenPart, part: Thinking) -> dict[str, Any]:
        """Return a delta with the keys of thinking that no chunk had, without text."""
        unwritten = self._unwritten(open_part.choice, part.opaque)
        if not unwritten or open_part.body_key == "reasoning_details":
            return unwritten
        if open_part.in_blocks:
            return {"content": [{"type": "thinking", "thinking": [], **unwritten}]}
        return {open_part.body_key: "", **unwritten}

    def write_call_start(self, event: CallStart) -> bytes:
        """Write the start of a call: its name and its id."""
        ledger, spelling = self.ledger, spelling_of(event.opaque, ChatCallSpelling)
        is_native = self.is_native(event)
        is_verbatim = is_native and not spelling.is_escaped
        name = event.name if is_verbatim else ledger.names.write(event.name)
        key = "custom" if event.custom else "function_call" if spelling.is_deprecated_function else "function"
        if may_be_complete(self._cut_texts.get(event.choice, CUT_OFF_SUFFIX)):
            return self.fail(CUT_FREE_TEXT)
        broken = self._break_calls(event.choice)
        if key == "function_call" and event.choice in self._calling_choices:
            self.set_path("choices", event.choice, "message", part=event.key)
            lose_second_call(ledger)
            return broken
        self._open_parts[event.key] = _OpenPart(event.key, event.choice, key, event.index)
        self._calling_choices.add(event.choice)
        self._last_calls[event.choice] = event.key
        field = "input" if event.custom else "arguments"
        if key == "function_call":
            self._deprecated_choices.add(event.choice)
            return broken + self._write_chunk(event.choice, {key: {"name": name, field: ""}}, None)
        entry: dict[str, Any] = {"index": event.index, "id": self._id_of(event, is_verbatim=is_verbatim)}
        if spelling.has_no_id:
            del entry["id"]
        if not spelling.has_no_type:
            entry["type"] = key
        entry[key] = {"name": name, field: ""}
        unparsed = event.opaque.value if is_native and event.opaque is not None else {}
        for extra_key, value in unparsed.items():
            entry[extra_key] = {**value, **entry[key]} if extra_key == key and isinstance(value, dict) else value
        delta: dict[str, Any] = {} if is_native or event.choice in self._started_choices else {"content": None}
        return broken + self._write_chunk(event.choice, {**delta, "tool_calls": [entry]}, None)

    def _id_of(self, event: CallStart, *, is_verbatim: bool) -> str:
        """Return the id of a call, which is unique if the call came over another wire.

        Clients take a second call of the same id for a continuation of the first one.
        """
        repetition = 0 if is_verbatim or event.id is None else self._id_counts[event.id]
        self._id_counts[event.id] += 1
        call_id = self.ledger.ids.call(event.id, is_native=is_verbatim)
        return shorten(call_id, _IDS, repetition) if repetition else call_id

    def write_call_delta(self, event: CallDelta) -> bytes:
        """Write a fragment of the text of a call."""
        call = self._open_parts.get(event.key)
        if call is None:
            return b""
        call.pieces.append(event.fragment)
        return self._write_text(call, event.fragment, event.opaque)

    def _write_text(self, call: _OpenPart, text: str, opaque: Opaque | None) -> bytes:
        """Write a chunk with a piece of the text of a call."""
        inner: dict[str, Any] = {call.body_key: {"input" if call.body_key == "custom" else "arguments": text}}
        delta = inner if call.body_key == "function_call" else {"tool_calls": [{"index": call.index, **inner}]}
        return self._write_chunk(call.choice, delta, opaque)

    def write_call_end(self, event: CallEnd) -> bytes:
        """End a call. If no fragment of its text arrived, write all of it."""
        open_call, call = self._open_parts.pop(event.key, None), event.call
        if open_call is None:
            return b""
        self._set_position(open_call)
        self.ledger.finish({}, call)
        if call.runs and open_call.pieces and not is_text_of_call("".join(open_call.pieces), call):
            return self.fail(ARGUMENTS_CHANGED)
        if not call.runs:
            self._broken_calls.setdefault(open_call.choice, []).append(open_call)
        if open_call.body_key == "custom" and not call.complete:
            self._cut_texts[open_call.choice] = "".join(open_call.pieces)
        written = "".join(open_call.pieces)
        if (
            written.strip()
            or (written and call.custom)
            or not call.complete
            or (call.raw == "" and self.is_native(call))
        ):
            return b""
        self._open_parts[event.key] = open_call
        text = (call.raw or "") if call.custom else argument_text(call, DIALECT)
        data = self.write_call_delta(CallDelta(event.key, text))
        del self._open_parts[event.key]
        return data

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Write unknown keys that this wire sent. Report those of another wire as a loss, unless they are repeated."""
        if self.native_fields(event.opaque):
            return self._write_chunk(event.choice, {}, event.opaque)
        self.lose_opaque_event(event)
        return b""

    def write_choice_end(self, event: ChoiceEnd) -> bytes:
        """Store the last chunk of an answer until the end of the stream, which may fail."""
        self.set_path("choices", event.index)
        choice, index = event.choice, event.index
        if index not in self._started_choices:
            self._silent_choices.append(index)
        is_native = self.is_native(choice)
        raw_reason = None
        if choice.raw_finish_reason is not None or not is_native:
            called, refused = index in self._calling_choices, index in self._refused_choices
            raw_reason = encode_finish_reason(choice, self.ledger, is_native=is_native, called=called, refused=refused)
        if is_native and choice.finish_reason == "error":
            raw_reason = choice.raw_finish_reason
        if not is_native:
            raw_reason = deprecated_finish_reason(raw_reason) if index in self._deprecated_choices else raw_reason
            self.ledger.lose_opaque(choice.opaque)
            self.ledger.lose_opaque(choice.message.opaque)
        self._finish_reasons[index] = FINISH_REASONS.get(raw_reason or "")
        if raw_reason is not None:
            delta, unwritten = self._unwritten(index, choice.message.opaque), self._unwritten(index, choice.opaque)
            end_keys = Opaque(DIALECT, {**unwritten, **self.native_fields(event.opaque)})
            self._end_chunks[index] = self._write_chunk(index, delta, end_keys, raw_reason)
        return b""

    def write_unstarted_choices(self) -> bytes:
        """Write a first chunk of each answer that ended without one, if there are chunks of other answers."""
        others = self._started_choices.difference(self._silent_choices)
        return b"".join(
            [self._write_chunk(index, {"role": "assistant"}, None) for index in self._silent_choices if others]
        )

    def may_have_written_end(self) -> bool:
        """Return True if this wire sent the stream, and an answer has ended."""
        return self._is_native and self._end_chunks != {}

    def write_error_body(self, body: Any) -> bytes:
        """Write an error."""
        return write_event(encode_json(body))

    def write_ending(self, *, complete: bool) -> bytes:
        """Break the calls that must not run, and write the last chunks of the answers, the token counts and [DONE]."""
        if complete and any(self._finish_reasons.get(choice) not in CUT for choice in self._cut_texts):
            return self.fail(CUT_FREE_TEXT)
        broken = [self._break_calls(choice, has_ended=True, complete=complete) for choice in self._last_calls]
        silent = [self._write_chunk(index, {}, None) for index in self._silent_choices if index not in self._end_chunks]
        ends = [data for index, data in self._end_chunks.items() if complete or index not in self._cut_choices]
        is_empty = complete and self._head and not (self._started_choices or self._usage)
        empty_chunk = self._head + _CHUNK_END if is_empty else b""
        return b"".join(
            [*broken, *silent, *ends, empty_chunk, self._write_counts(), write_event(DONE) if complete else b""]
        )

    def _break_calls(self, choice: int, *, has_ended: bool = False, complete: bool = False) -> bytes:
        """Append an invalid text to each call that must not run, if a client could read its text as complete.

        Clients close a call at the start of the next one (`has_ended` is false) and at the finish reason.
        """
        broken_calls, reason = self._broken_calls.get(choice, []), self._finish_reasons.get(choice)
        if not broken_calls:
            return b""
        checked_reason, checked_count = self._checked.get(choice, (None, 0))
        # The calls before the first one were checked with the same reason.
        first = 0 if has_ended or reason != checked_reason else checked_count
        self._checked[choice] = reason, len(broken_calls)
        data: list[bytes] = []
        for call in broken_calls[first:]:
            last = has_ended and self._last_calls[choice] == call.part_key
            if last and reason is None and not complete:
                continue  # clients do not run the call in which a stream breaks off
            text = "".join(call.pieces)
            if call.body_key != "custom" and looks_complete(text, reason, last=last):
                call.pieces.append(CUT_OFF_SUFFIX)
                data.append(self._write_text(call, CUT_OFF_SUFFIX, None))
        return b"".join(data)

    def _write_counts(self) -> bytes:
        """Write the chunk with the token counts, if there are any and the client wants it."""
        if self._usage is None or not self.ledger.quirks.stream_usage:
            return b""
        self.set_path()
        usage = {**self._shell, "choices": [], "usage": COUNTS.encode(self._usage, self.ledger)}
        return write_event(encode_json(usage))


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder for one stream, which writes as a server with these `quirks`.

    The tool names in `names` are written unchanged. `settings` replace single quirks.
    """
    return Encoder.open(quirks, names, **settings)
