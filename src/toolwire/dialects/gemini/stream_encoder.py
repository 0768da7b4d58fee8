"""Encode streams of generateContent: chunks that are responses, each with the next part of one candidate.

Rules of this file:
- Text is written as it arrives, each piece in a part of its kind. All other parts are written whole: calls, media, and
  texts with a signature or with unparsed keys. An incomplete call is not written.
- Each chunk has the index of its candidate. Token counts are written in the next chunk and again in the last one.
- The fields that every chunk repeats are encoded once.
- The finish reasons are written when the stream ends, and not if it ends with an error.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.gemini.calls import encode_call
from toolwire.dialects.gemini.error import encode_error
from toolwire.dialects.gemini.messages import encode_parts
from toolwire.dialects.gemini.parts import DIALECT, WIRE, Conversation
from toolwire.dialects.gemini.response import FINISH_REASONS, encode_choice, encode_response, encode_usage, is_blocked
from toolwire.encoding.ledger import spelling_of
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.streams import AnyTextDelta, SequentialEncoder, StreamEncoder, encode_json
from toolwire.streams.choices import rank
from toolwire.types import (
    CallEnd,
    CallStart,
    Choice,
    ChoiceEnd,
    Encoded,
    Error,
    ErrorReply,
    MessageDelta,
    MessageStart,
    OpaqueDelta,
    PartEnd,
    PartStart,
    Refusal,
    Response,
    Text,
    Thinking,
    UsageDelta,
)
from toolwire.types.spelling.gemini import GeminiResponseSpelling
from toolwire.wire.framing import JsonArray

_TEXT_BODIES: dict[type, dict[str, Any]] = {
    Text: {"text": ""},
    Refusal: {"text": ""},
    Thinking: {"text": "", "thought": True},
}
_USAGE_KEYS = ("usageMetadata", "usage_metadata")
_CHUNK_KEYS = frozenset({"candidates", *_USAGE_KEYS})
_ENTRY_KEYS = frozenset({"content", "index"})
_STOP = "STOP"


class _OpenPart(Struct, eq=False):
    """A part that has started and not ended.

    - `key`, `choice`: its key, and the index of its answer.
    - `part`: the part as it started. None for a call.
    - `is_native`: it was received from this wire.
    - `number`: the number of the part in the stream.
    - `text_body`: the encoded part without text, if its text is written as it arrives.
    - `held_texts`: the pieces of text that are held until the part is complete.
    - `emitted`: something of the part was written.
    """

    key: int
    choice: int
    part: Any
    is_native: bool
    number: int = 0
    text_body: dict[str, Any] | None = None
    held_texts: list[str] = []
    emitted: bool = False


class _CandidateWriter(Struct, eq=False):
    """Writes the candidates of one answer.

    - `content_fields`, `index_fields`: the fields that each candidate repeats, inside and beside its content.
    - `pending`: the fields that the next candidate has once.
    - `written_fields`: the fields that were written once.
    - `last_text_body`: the body of the last text without its text. None after another part.
    - `written`: a chunk has had a candidate of the answer.
    """

    content_fields: dict[str, Any]
    index_fields: dict[str, Any]
    pending: dict[str, Any] = {}
    written_fields: dict[str, Any] = {}
    last_text_body: dict[str, Any] | None = None
    written: bool = False

    def write(self, parts: list[Any]) -> dict[str, Any]:
        """Return the candidate with `parts` for the next chunk."""
        body = {"content": {"parts": parts, **self.content_fields}, **self.pending, **self.index_fields}
        self.written_fields.update(self.pending)
        self.pending, self.written = {}, True
        return body


class Encoder(SequentialEncoder):
    """Encodes one stream as chunks.

    - `_tail`: the encoded fields that every chunk repeats.
    - `_usage_key`: the encoded key of the token counts.
    - `_has_pending`: the next chunk has new fields beside its parts.
    - `_has_new_counts`: the next chunk has new token counts.
    - `_is_blocked`: the prompt was blocked.
    """

    one_choice = False
    wire = WIRE
    encode_response: Callable[[Response, Quirks], Encoded] = staticmethod(encode_response)
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)
    ledger: Conversation
    _tail = b"}"
    _usage_key = b""
    _has_pending = _has_new_counts = _is_blocked = False
    _part_count = 0

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._array = JsonArray() if quirks.stream_array else None
        self._candidates: dict[int, _CandidateWriter] = {}
        self._unwritten: list[int] = []  # a heap of the indexes of candidates that may not be written yet
        self._parts: dict[int, _OpenPart] = {}
        self._held_parts: dict[int, _OpenPart] = {}  # the parts with held texts, by key
        self._endings: list[tuple[int, Choice, dict[str, Any]]] = []

    def open_ledger(self, quirks: Quirks) -> Conversation:
        """Return the ledger of the stream."""
        return Conversation(quirks, of="response")

    def write_message_start(self, event: MessageStart) -> bytes:
        """Store the fields that every chunk repeats."""
        self._is_native = self.is_native(event.response)
        return self._store_shell(event.response)

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Store the fields that every chunk repeats from here on."""
        return self._write_held_texts() + self._store_shell(event.response)

    def _store_shell(self, response: Response) -> bytes:
        body = self.encode_shell(replace(response, usage=None))
        unusual_keys = _CHUNK_KEYS.intersection(body) if self._is_native else ()
        shell = {key: body[key] for key in body if key not in _CHUNK_KEYS}
        self._tail = (b"," if shell else b"") + encode_json(shell)[1:]
        usage_key = _USAGE_KEYS[_USAGE_KEYS[1] in spelling_of(response.opaque, GeminiResponseSpelling).snake_keys]
        self._usage_key = encode_json(usage_key) + b":"
        if response.usage is not None:
            self._usage, self._has_new_counts = response.usage, True
        return self._defer() + (self._write_frame(encode_json(body)) if unusual_keys else b"")

    def _defer(self) -> bytes:
        self._has_pending = True
        return b""

    def _candidate(self, choice: int) -> _CandidateWriter:
        candidate = self._candidates.get(choice)
        if candidate is None:
            new = (
                _CandidateWriter({}, {}) if self._is_native else _CandidateWriter({"role": "model"}, {"index": choice})
            )
            candidate = self._candidates[choice] = new
            heappush(self._unwritten, choice)
        return candidate

    def _take_unwritten(self, choice: int) -> Iterator[_CandidateWriter]:
        """Yield the candidates with an index below `choice` that no chunk has had yet."""
        while self._unwritten and self._unwritten[0] < choice:
            candidate = self._candidates[heappop(self._unwritten)]
            if not candidate.written:
                yield candidate

    def _write_chunk(self, entries: list[dict[str, Any]] | None, *, with_counts: bool) -> bytes:
        fields = [] if entries is None else [b'"candidates":' + encode_json(entries)]
        if with_counts and self._usage is not None:
            fields.append(self._encode_usage_member())
        self._has_pending = self._has_new_counts = False
        return self._write_frame(b"{" + b",".join(fields) + (self._tail if fields else self._tail.removeprefix(b",")))

    def _encode_usage_member(self) -> bytes:
        """Return the member of a chunk that has the usage: its key, a colon and its value."""
        self._has_new_counts = False
        self.set_path()
        counts = encode_json(encode_usage(self._usage, self.ledger))  # type: ignore[arg-type]
        return self._usage_key + counts

    def _write_frame(self, data: bytes) -> bytes:
        return b"data: " + data + b"\n\n" if self._array is None else self._array.write(data)

    def _write_parts(self, choice: int, parts: list[Any], text_body: dict[str, Any] | None = None) -> bytes:
        if not parts:
            return b""
        candidate = self._candidate(choice)
        candidate.last_text_body = text_body
        entries = [other.write([]) for other in self._take_unwritten(choice)]
        return self._write_chunk([*entries, candidate.write(parts)], with_counts=self._has_new_counts)

    def write_part_start(self, event: PartStart) -> bytes:
        """Start a part. Its text is written as it arrives, unless the part has a signature or unparsed keys."""
        part: Any = event.part
        is_native = self.is_native(part)
        self._part_count += 1
        self._parts[event.key] = open_part = _OpenPart(event.key, event.choice, part, is_native, self._part_count)
        self._held_parts.pop(event.key, None)
        body = _TEXT_BODIES.get(type(part))
        if body is not None and is_native and (part.opaque.value or getattr(part, "signature", None)):
            return b""
        if body is not None and is_native and part.opaque.spelling is not None:
            self._point_ledger_at(open_part)
            [body] = encode_parts([part], self.ledger, "assistant", event.key)
        open_part.text_body = body
        return b""

    def _point_ledger_at(self, open_part: _OpenPart) -> None:
        self.set_path("choices", open_part.choice, "message", part=open_part.key)
        self.ledger.is_native = open_part.is_native

    def write_text_delta(self, event: AnyTextDelta) -> bytes:
        """Write a piece of text, or hold it until its part is complete."""
        open_part = self._parts.get(event.key)
        if open_part is None or not event.text:
            return b""
        if open_part.text_body is None:
            open_part.held_texts.append(event.text)
            self._held_parts[open_part.key] = open_part
            return b""
        if not open_part.emitted and self._candidate(open_part.choice).last_text_body == open_part.text_body:
            self._point_ledger_at(open_part)
            self.ledger.lose("", "parts", f"{DIALECT} joins consecutive texts into one part", "merged")
        open_part.emitted = True
        return self._write_parts(open_part.choice, [{**open_part.text_body, "text": event.text}], open_part.text_body)

    def write_part_end(self, event: PartEnd) -> bytes:
        """Write a part that was held until it was complete. For written text, record the losses of the part."""
        part: Any = event.part
        open_part = self._parts.pop(event.key, None)
        if open_part is None:
            return b""
        self._point_ledger_at(open_part)
        if open_part.text_body is not None and not open_part.is_native:
            whole = replace(part, text=part.text or ("." if open_part.emitted else ""))
            encode_parts([whole], self.ledger, "assistant", event.key)
        if open_part.held_texts or (open_part.text_body is None and not open_part.emitted):
            return self._write_held_text(open_part, part)
        return b""

    def _write_held_text(self, open_part: _OpenPart, part: Any) -> bytes:
        """Write a part whose text was held."""
        self._point_ledger_at(open_part)
        text = "".join(open_part.held_texts)
        whole = replace(part, text=part.text + text) if text else part
        open_part.held_texts, open_part.emitted = [], True
        self._held_parts.pop(open_part.key, None)
        return self._write_parts(open_part.choice, encode_parts([whole], self.ledger, "assistant", open_part.key))

    def _write_held_texts(self) -> bytes:
        """Write all parts with held texts, because the next event belongs to a later chunk."""
        held_parts = sorted(self._held_parts.values(), key=lambda part: part.number)
        return b"".join([self._write_held_text(part, part.part) for part in held_parts])

    def write_call_start(self, event: CallStart) -> bytes:
        """Start a call. It is written when it ends."""
        self._parts[event.key] = _OpenPart(event.key, event.choice, None, is_native=self.is_native(event))
        return b""

    def write_call_end(self, event: CallEnd) -> bytes:
        """Write a complete call, unless its pieces were written."""
        open_part, call = self._parts.pop(event.key, None), event.call
        if open_part is None or open_part.emitted:
            return b""
        self._point_ledger_at(open_part)
        self.ledger.part_index = event.key
        parts = []
        if call.runs or (call.complete and open_part.is_native):
            parts = [encode_call(call, self.ledger)]
        else:
            self.ledger.lose_call(call)
        return self._write_parts(open_part.choice, parts)

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Write opaque values of this wire again: a piece of a call at once, other fields in the next chunk."""
        if not self.is_native(event):
            self.lose_opaque_event(event)
            return b""
        value: Any = event.opaque.value  # type: ignore[union-attr]
        if event.key is not None:
            open_part = self._parts.get(event.key)
            if open_part is None:
                return b""
            open_part.emitted = True
            return self._write_parts(open_part.choice, [value])
        data = self._write_held_texts()
        candidate = self._candidate(event.choice)
        content = value.get("content")
        if type(content) is dict:
            candidate.content_fields |= {key: content[key] for key in content if key != "parts"}
        if "index" in value:
            candidate.index_fields = {"index": value["index"]}
        candidate.pending.update({key: value[key] for key in value if key not in _ENTRY_KEYS})
        if candidate.written and not _ENTRY_KEYS.isdisjoint(value):
            candidate.written = False
            heappush(self._unwritten, event.choice)
        return data + self._defer()

    def write_usage(self, event: UsageDelta) -> bytes:
        """Store the token counts for the next chunk."""
        data = self._write_held_texts()
        self._has_new_counts = True
        return data + super().write_usage(event)

    def write_choice_end(self, event: ChoiceEnd) -> bytes:
        """Store the end of an answer. It is written when the stream ends without an error."""
        choice, index = event.choice, event.index
        if is_blocked(choice):
            self._is_blocked = True
            return b""
        is_native = self.is_native(choice)
        raw, reason = choice.raw_finish_reason, choice.finish_reason
        if is_native and (reason == "error" or (reason == "incomplete" and not raw)):
            decoded_reason: Any = FINISH_REASONS.get(raw, "unknown") if raw else None
            choice = replace(choice, finish_reason=decoded_reason)
        entry = encode_choice(choice, index, self.ledger)
        if not is_native:
            entry["content"] = {"role": "model", "parts": [{"text": ""}]}
        self._endings.append((index, choice, entry))
        return b""

    def write_unstarted_choices(self) -> bytes:
        """Write an empty candidate for each answer that ended without parts, if other answers have parts."""
        silent = {index for index, _, _ in self._endings} - self._candidates.keys() if self._candidates else ()
        entries = [self._candidate(index).write([]) for index in sorted(silent, key=rank)]
        return self._write_chunk(entries, with_counts=False) if entries else b""

    def write_error_body(self, body: Any) -> bytes:
        """Write the body of an error. In an array, an error in a list of one is written without the list."""
        if self._array is None:
            return self._write_frame(encode_json(body))
        return self._write_frame(encode_json(body[0] if type(body) is list else body)) + self._array.close()

    def write_ending(self, *, complete: bool) -> bytes:
        """Write the finish reasons and the token counts."""
        data = self._write_last(complete=complete)
        return data + self._array.close() if self._array is not None and complete else data

    def _write_last(self, *, complete: bool) -> bytes:
        """Write the last chunk. If the stream is not complete, it has only fields that were not written yet."""
        entries = []
        for index, choice, entry in self._endings:
            candidate = self._candidate(index)
            fields = candidate.written_fields
            new_fields = {key: entry[key] for key in entry if key not in fields or fields[key] != entry[key]}
            if complete and not self._is_native and choice.finish_reason is None:
                new_fields["finishReason"] = _STOP  # without a reason, clients take the stream for incomplete
            is_new = not candidate.written or not _ENTRY_KEYS.issuperset(new_fields)
            if complete or is_new or choice.raw_finish_reason is not None:
                entries.append(new_fields)
        if complete and not (self._is_native or self._endings or self._is_blocked):
            entries = [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": _STOP, "index": 0}]
        if not (complete or entries or self._has_pending or self._has_new_counts):
            return b""
        return self._write_chunk(entries or None, with_counts=complete or self._has_new_counts)


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder for one stream, as a server with these `quirks` writes it. The tool names `names` are kept."""
    return Encoder.open(quirks, names, **settings)
