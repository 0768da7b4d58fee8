"""Streams of generateContent, written: chunks that are responses, each with the next part of one candidate.

Rules of this file:
- Words go out as they come, each in a part of the kind that they belong to. A part that is signed, or is
  anything but words, goes out whole; so does a call. Half a call is not written.
- Each chunk says which answer it belongs to. The counts go with the next chunk, and again with the last.
- Of a chunk of words all but the words and the counts is prepared.
- Why the answers ended is said when the stream is over, and not at all if something went wrong.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.gemini.calls import encode_call
from toolwire.dialects.gemini.error import encode_error
from toolwire.dialects.gemini.messages import encode_parts
from toolwire.dialects.gemini.parts import WIRE, Conversation
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

_BODIES: dict[type, dict[str, Any]] = {
    Text: {"text": ""},
    Refusal: {"text": ""},
    Thinking: {"text": "", "thought": True},
}
_COUNTS = ("usageMetadata", "usage_metadata")
_OF_CHUNK = frozenset({"candidates", *_COUNTS})
_OF_ENTRY = frozenset({"content", "index"})
_ENDED = "STOP"


class _WrittenPart(Struct, eq=False):
    """A part that is being written: of which answer, and its body for words, or the words that wait with it.

    `number` says how many parts began before it.
    """

    key: int
    choice: int
    part: Any
    mine: bool
    number: int = 0
    body: dict[str, Any] | None = None
    waiting: list[str] = []
    told: bool = False


class _CandidateWriter(Struct, eq=False):
    """What the chunks of an answer say beside its parts, again in each and once, and how it spoke last."""

    content: dict[str, Any]
    entry: dict[str, Any]
    news: dict[str, Any] = {}
    said: dict[str, Any] = {}
    body: dict[str, Any] | None = None
    written: bool = False

    def write(self, parts: list[Any]) -> dict[str, Any]:
        """Write the candidate of a chunk."""
        body = {"content": {"parts": parts, **self.content}, **self.news, **self.entry}
        self.said.update(self.news)
        self.news, self.written = {}, True
        return body


class Encoder(SequentialEncoder):
    """Writes chunks. `_unsaid` and `_counted`: the next one has news beside its parts, or new counts."""

    one_choice = False
    wire = WIRE
    encode_response: Callable[[Response, Quirks], Encoded] = staticmethod(encode_response)
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)
    ledger: Conversation
    _tail = b"}"
    _counts = b""
    _unsaid = _counted = _blocked = False
    _begun = 0

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._array = JsonArray() if quirks.stream_array else None
        self._candidates: dict[int, _CandidateWriter] = {}
        self._unwritten: list[int] = []  # the places of candidates that no chunk may have said yet, as a heap
        self._parts: dict[int, _WrittenPart] = {}
        self._worded: dict[int, _WrittenPart] = {}  # the parts whose words wait
        self._endings: list[tuple[int, Choice, dict[str, Any]]] = []

    def open_ledger(self, quirks: Quirks) -> Conversation:
        """Begin the ledger of the stream."""
        return Conversation(quirks, of="response")

    def write_message_start(self, event: MessageStart) -> bytes:
        """Keep what every chunk says."""
        self._is_native = self.is_native(event.response)
        return self._keep_shell(event.response)

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Keep what every chunk says from here on."""
        return self._finish_chunk() + self._keep_shell(event.response)

    def _keep_shell(self, response: Response) -> bytes:
        body = self.encode_shell(replace(response, usage=None))
        odd = _OF_CHUNK.intersection(body) if self._is_native else ()
        shell = {key: body[key] for key in body if key not in _OF_CHUNK}
        self._tail = (b"," if shell else b"") + encode_json(shell)[1:]
        spelled = _COUNTS[_COUNTS[1] in spelling_of(response.opaque, GeminiResponseSpelling).snake_keys]
        self._counts = encode_json(spelled) + b":"
        if response.usage is not None:
            self._usage, self._counted = response.usage, True
        return self._wait() + (self._frame(encode_json(body)) if odd else b"")

    def _wait(self) -> bytes:
        self._unsaid = True
        return b""

    def _candidate(self, choice: int) -> _CandidateWriter:
        known = self._candidates.get(choice)
        if known is None:
            usual = (
                _CandidateWriter({}, {}) if self._is_native else _CandidateWriter({"role": "model"}, {"index": choice})
            )
            known = self._candidates[choice] = usual
            heappush(self._unwritten, choice)
        return known

    def _take_unwritten(self, choice: int) -> Iterator[_CandidateWriter]:
        """Give the candidates before a choice that no chunk has said yet."""
        while self._unwritten and self._unwritten[0] < choice:
            candidate = self._candidates[heappop(self._unwritten)]
            if not candidate.written:
                yield candidate

    def _chunk(self, entries: list[dict[str, Any]] | None, *, counted: bool) -> bytes:
        fields = [] if entries is None else [b'"candidates":' + encode_json(entries)]
        if counted and self._usage is not None:
            fields.append(self._write_counts())
        self._unsaid = self._counted = False
        return self._frame(b"{" + b",".join(fields) + (self._tail if fields else self._tail.removeprefix(b",")))

    def _write_counts(self) -> bytes:
        self._counted = False
        self.set_path()
        counts = encode_json(encode_usage(self._usage, self.ledger))  # type: ignore[arg-type]
        return self._counts + counts

    def _frame(self, data: bytes) -> bytes:
        return b"data: " + data + b"\n\n" if self._array is None else self._array.write(data)

    def _say(self, choice: int, parts: list[Any], body: dict[str, Any] | None = None) -> bytes:
        if not parts:
            return b""
        candidate = self._candidate(choice)
        candidate.body = body
        entries = [other.write([]) for other in self._take_unwritten(choice)]
        return self._chunk([*entries, candidate.write(parts)], counted=self._counted)

    def write_part_start(self, event: PartStart) -> bytes:
        """Begin a part: words that bring nothing but themselves can go out as they come."""
        part: Any = event.part
        mine = self.is_native(part)
        self._begun += 1
        self._parts[event.key] = written = _WrittenPart(event.key, event.choice, part, mine, self._begun)
        self._worded.pop(event.key, None)
        body = _BODIES.get(type(part))
        if body is not None and mine and (part.opaque.value or getattr(part, "signature", None)):
            return b""
        if body is not None and mine and part.opaque.spelling is not None:
            self._stand(written)
            [body] = encode_parts([part], self.ledger, "assistant", event.key)
        written.body = body
        return b""

    def _stand(self, written: _WrittenPart) -> None:
        self.set_path("choices", written.choice, "message", part=written.key)
        self.ledger.own = written.mine

    def write_text_delta(self, event: AnyTextDelta) -> bytes:
        """Write words."""
        part = self._parts.get(event.key)
        if part is None or not event.text:
            return b""
        if part.body is None:
            part.waiting.append(event.text)
            self._worded[part.key] = part
            return b""
        if not part.told and self._candidate(part.choice).body == part.body:
            self._stand(part)
            self.ledger.lose("", "parts", "words that follow each other are one part", "merged")
        part.told = True
        return self._say(part.choice, [{**part.body, "text": event.text}], part.body)

    def write_part_end(self, event: PartEnd) -> bytes:
        """Write a part that waited to be whole; of words that went out, lose what could not be said."""
        part: Any = event.part
        written = self._parts.pop(event.key, None)
        if written is None:
            return b""
        self._stand(written)
        if written.body is not None and not written.mine:
            whole = replace(part, text=part.text or ("." if written.told else ""))
            encode_parts([whole], self.ledger, "assistant", event.key)
        if written.waiting or (written.body is None and not written.told):
            return self._write_waiting(written, part)
        return b""

    def _write_waiting(self, written: _WrittenPart, part: Any) -> bytes:
        """Write a part whose words waited."""
        self._stand(written)
        words = "".join(written.waiting)
        whole = replace(part, text=part.text + words) if words else part
        written.waiting, written.told = [], True
        self._worded.pop(written.key, None)
        return self._say(written.choice, encode_parts([whole], self.ledger, "assistant", written.key))

    def _finish_chunk(self) -> bytes:
        """Write what waits: what comes now was said beside later parts."""
        waiting = sorted(self._worded.values(), key=lambda part: part.number)
        return b"".join([self._write_waiting(part, part.part) for part in waiting])

    def write_call_start(self, event: CallStart) -> bytes:
        """Begin a call; it is said when it is whole."""
        self._parts[event.key] = _WrittenPart(event.key, event.choice, None, mine=self.is_native(event))
        return b""

    def write_call_end(self, event: CallEnd) -> bytes:
        """Write a call that is whole, if its pieces were not."""
        written, call = self._parts.pop(event.key, None), event.call
        if written is None or written.told:
            return b""
        self._stand(written)
        self.ledger.part = event.key
        parts = []
        if call.runs or (call.complete and written.mine):
            parts = [encode_call(call, self.ledger)]
        else:
            self.ledger.lose_call(call)
        return self._say(written.choice, parts)

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Say again what this wire said: a piece of a call at once, all else with the next chunk."""
        if not self.is_native(event):
            self.lose_opaque_event(event)
            return b""
        value: Any = event.opaque.value  # type: ignore[union-attr]
        if event.key is not None:
            written = self._parts.get(event.key)
            if written is None:
                return b""
            written.told = True
            return self._say(written.choice, [value])
        data = self._finish_chunk()
        candidate = self._candidate(event.choice)
        content = value.get("content")
        if type(content) is dict:
            candidate.content |= {key: content[key] for key in content if key != "parts"}
        if "index" in value:
            candidate.entry = {"index": value["index"]}
        candidate.news.update({key: value[key] for key in value if key not in _OF_ENTRY})
        if candidate.written and not _OF_ENTRY.isdisjoint(value):
            candidate.written = False
            heappush(self._unwritten, event.choice)
        return data + self._wait()

    def write_usage(self, event: UsageDelta) -> bytes:
        """Keep the counts for the next chunk."""
        data = self._finish_chunk()
        self._counted = True
        return data + super().write_usage(event)

    def write_choice_end(self, event: ChoiceEnd) -> bytes:
        """Keep the end of an answer until it is sure that nothing went wrong."""
        choice, place = event.choice, event.index
        if is_blocked(choice):
            self._blocked = True
            return b""
        mine = self.is_native(choice)
        raw, reason = choice.raw_finish_reason, choice.finish_reason
        if mine and (reason == "error" or (reason == "incomplete" and not raw)):
            known: Any = FINISH_REASONS.get(raw, "unknown") if raw else None
            choice = replace(choice, finish_reason=known)
        entry = encode_choice(choice, place, self.ledger)
        if not mine:
            entry["content"] = {"role": "model", "parts": [{"text": ""}]}
        self._endings.append((place, choice, entry))
        return b""

    def write_unstarted_choices(self) -> bytes:
        """Begin the answers that have ended and said nothing, if others have spoken."""
        silent = {place for place, _, _ in self._endings} - self._candidates.keys() if self._candidates else ()
        entries = [self._candidate(place).write([]) for place in sorted(silent, key=rank)]
        return self._chunk(entries, counted=False) if entries else b""

    def write_error_body(self, body: Any) -> bytes:
        """Write an error: of a list of one there is but one in an array."""
        if self._array is None:
            return self._frame(encode_json(body))
        return self._frame(encode_json(body[0] if type(body) is list else body)) + self._array.close()

    def write_ending(self, *, complete: bool) -> bytes:
        """Say how the answers ended, and what they cost."""
        data = self._write_last(complete=complete)
        return data + self._array.close() if self._array is not None and complete else data

    def _write_last(self, *, complete: bool) -> bytes:
        """Write the last chunk: of answers that did not end, only what nothing has said yet."""
        entries = []
        for place, choice, entry in self._endings:
            candidate = self._candidate(place)
            written = candidate.said
            left = {key: entry[key] for key in entry if key not in written or written[key] != entry[key]}
            if complete and not self._is_native and choice.finish_reason is None:
                left["finishReason"] = _ENDED  # a stream of this wire ends with a reason, or is not whole
            new = not candidate.written or not _OF_ENTRY.issuperset(left)
            if complete or new or choice.raw_finish_reason is not None:
                entries.append(left)
        if complete and not (self._is_native or self._endings or self._blocked):
            entries = [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": _ENDED, "index": 0}]
        if not (complete or entries or self._unsaid or self._counted):
            return b""
        return self._chunk(entries or None, counted=complete or self._counted)


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder for a server with these quirks; tools that are called `names` keep their names."""
    return Encoder.open(quirks, names, **settings)
