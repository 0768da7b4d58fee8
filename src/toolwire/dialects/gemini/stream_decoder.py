"""Decode streams of generateContent: chunks that are responses, each with the next parts of its candidates.

Rules of this file:
- Consecutive texts are one part, and so are consecutive thoughts. A part with a signature, or with unparsed keys, is a
  separate part. An empty text without other keys is no part: Gemini 3 ends its streams with one (recorded).
- A call arrives whole, or from Vertex in pieces by path. The piece without `willContinue` ends it
  (https://googleapis.github.io/js-genai/release_docs/interfaces/types.FunctionCall.html).
- An answer ends with the stream, because calls and counts may follow the finish reason. A `STOP` never replaces another
  reason.
- Each chunk repeats the fields beside the parts. The decoder emits only changes. It uses the first id and model, and
  the last value of all other fields. Counts without a total are merged into the counts before.
- A text gets citations if the grounding metadata is known when the text ends. Later metadata stays opaque.
- Candidates are distinguished by their `index`, in whichever order they arrive. A candidate without one has index 0.
"""

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from toolwire.dialects.gemini.calls import IdGenerator
from toolwire.dialects.gemini.error import decode_error
from toolwire.dialects.gemini.messages import read_part
from toolwire.dialects.gemini.parts import CAMEL, DIALECT, WIRE
from toolwire.dialects.gemini.response import (
    SOURCE_KEYS,
    decode_choice,
    decode_response,
    decode_usage,
    locate_citations,
    read_finish,
)
from toolwire.encoding.request_fields import ABSENT
from toolwire.streams import PartBuilder, StreamDecoder, WireDecoder, repair
from toolwire.streams.accumulation import TEXT_DELTAS
from toolwire.streams.call_judge import PartialCall
from toolwire.streams.calls import index_of
from toolwire.streams.choices import number_choices, rank
from toolwire.streams.merging import changed_fields
from toolwire.streams.partial_object import PartialObject
from toolwire.streams.reading import CHARACTERS_PER_MEMBER
from toolwire.types import (
    Choice,
    ChoiceEnd,
    CitationDelta,
    MessageDelta,
    MessageStart,
    Opaque,
    OpaqueDelta,
    Response,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UsageDelta,
)
from toolwire.wire.names import fingerprint

_PLAIN_TEXT = Text("", opaque=WIRE.plain)
_PLAIN_THOUGHT = Thinking("", opaque=WIRE.plain)
_FIRST_VALUE_KEYS = frozenset({"responseId", "response_id", "modelVersion", "model_version"})
_TOTAL_KEYS = frozenset({"totalTokenCount", "total_token_count"})
_REASON_KEYS = ("finishReason", "finish_reason")
_NO_REASONS = (None, "", 0, "FINISH_REASON_UNSPECIFIED")
_WEAK_REASONS = ("STOP", 1, *_NO_REASONS)
_UNFINISHED_TEXT = "a text in its arguments is not finished"
_INVALID_CALL = "its pieces do not form a call"
_CALL_KEYS = frozenset({"functionCall", "function_call"})
_PIECE_TYPES: dict[str, tuple[type, ...]] = {
    "": (str,),
    "stringValue": (str,),
    "numberValue": (int, float),
    "boolValue": (bool,),
    "nullValue": (type(None),),
}
_PIECE_KEYS = frozenset({"partialArgs", "willContinue"})


class _CandidateReader(PartBuilder):
    """One candidate as it arrives: its parts, its calls, and its other fields.

    - `last_entry`, `last_content`: the fields of the last chunk, beside the parts.
    - `entry`, `content`: the fields of all chunks, merged.
    - `open_call`: the call in pieces that has not ended.
    - `call_index`: the index of the next call.
    - `part_weight`: 0 without a part, 1 if the only part is a text without other fields, else 2 or more.
    - `has_calls`: a call is complete, as far as that is known.
    - `has_empty_text`: an empty text arrived.
    - `has_reason`: a finish reason arrived.
    - `text_bytes`: the text so far, in which the sources have byte offsets. The open text starts at `text_start`.
    - `has_new_sources`: there are sources that the open text does not cite yet.
    - `source_sizes`: the sizes of the frames with the sources.
    """

    last_entry: dict[str, Any] = field(default_factory=dict)
    last_content: Any = None
    entry: dict[str, Any] = field(default_factory=dict)
    content: dict[str, Any] | None = None
    open_call: "_StreamedCall | None" = None
    call_index: int = 0
    part_weight: int = 0
    has_calls: bool = False
    has_empty_text: bool = False
    has_reason: bool = False
    text_bytes: bytearray = field(default_factory=bytearray)
    text_start: int = 0
    has_new_sources: bool = False
    source_sizes: dict[str, int] = field(default_factory=dict)

    def add_text(self, shell: Any, words: str, opaque: Opaque | None = None) -> None:
        """Emit text of the open part if that equals `shell`, else of a new part."""
        if not words:
            self.has_empty_text = True
            return
        if self.part is not shell and self.part != shell:
            self.open(shell)
        if type(shell) is Text:
            self.text_bytes += words.encode(errors="replace")
        self._decoder.events.append(TEXT_DELTAS[type(shell)](self.key, words, opaque=opaque))

    def open(self, shell: Any) -> None:
        """Start a part."""
        self.part_weight += 1 if shell is _PLAIN_TEXT else 2
        super().open(shell)
        if type(shell) is Text:
            self.text_start = len(self.text_bytes)

    def close(self) -> None:
        """End the open part. A text gets the citations of its sources."""
        if type(self.part) is Text and self.has_new_sources:
            self._cite()
        super().close()

    def _cite(self) -> None:
        self._decoder.count_rescan(sum(self.source_sizes.values()))
        text = self.text_bytes[self.text_start :].decode()
        [citations] = locate_citations(self.entry, [text], self.text_start)
        self._decoder.events += [CitationDelta(self.key, citation) for citation in citations]
        if citations:
            self.part, self.part_weight = replace(self.part, citations=citations), self.part_weight + 1
        self.has_new_sources = False

    def merge(self, entry: dict[str, Any], content: dict[str, Any] | None) -> dict[str, Any]:
        """Merge the fields of a chunk beside the parts. Return those that changed, without the finish reason."""
        self.last_entry, self.last_content = entry, content
        changes = _find_changes(self.entry, entry)
        for key in _REASON_KEYS:
            if key in changes:
                if changes[key] in _WEAK_REASONS and self.has_reason:
                    del changes[key]
                self.has_reason |= entry[key] not in _NO_REASONS
        self.entry.update(changes)
        if not SOURCE_KEYS.isdisjoint(changes):
            self.has_new_sources = True
            self.source_sizes.update(dict.fromkeys(SOURCE_KEYS.intersection(changes), len(self._decoder.frame)))
        reported = {key: value for key, value in changes.items() if key not in _REASON_KEYS}
        if content is not None:
            content_changes = _find_changes(self.content, content) if self.content else content
            if content_changes or self.content is None:
                reported["content"] = content_changes
                self._decoder.count_rescan(CHARACTERS_PER_MEMBER * len(self.content or ()))
                self.content = {**(self.content or {}), **content_changes}
        return reported


class _StreamedCall(Struct):
    """A call that arrives in pieces. If one piece is damaged, later pieces are not used either.

    - `start`: the call as it was emitted at its start.
    - `pieces`: the arguments so far.
    - `body`, `inner`: the keys of the part and of its `functionCall`, merged.
    - `damage`: the problem of a damaged piece.
    """

    key: int
    start: ToolCall
    pieces: PartialObject
    call: PartialCall
    body: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    damage: str | None = None

    def add_part(self, part: dict[str, Any], call: dict[str, Any]) -> None:
        """Add the next part with a piece of the call. `call` is its `functionCall`."""
        self.body.update(part)
        for key, value in call.items():
            match CAMEL.get(key, key), value:
                case "args", dict():
                    self.pieces.root.update(value)
                case "partialArgs", list():
                    for piece in value:
                        self._add_piece(piece)
                case str(name), _ if name not in _PIECE_KEYS and value is not None:
                    self.inner.setdefault(key, value)

    def _add_piece(self, piece: Any) -> None:
        fields: dict[Any, Any] = dict(piece) if type(piece) is dict else {}
        fields = {CAMEL.get(key, key): value for key, value in fields.items()}
        path, will_continue = fields.pop("jsonPath", None), fields.pop("willContinue", None) is True
        type_key, value = next(iter(fields.items())) if len(fields) == 1 else ("", None if fields else "")
        types = _PIECE_TYPES.get(type_key, ())
        value = None if type(None) in types else value
        if type(value) not in types or type(path) is not str or not self.pieces.add(path, value, more=will_continue):
            self.call.problem = self.call.problem or f"a piece of its arguments cannot be read: {str(piece)[:200]}"

    def build(self) -> ToolCall:
        """Return the call as far as it has arrived, and store its problem in `call.problem`."""
        arguments = self.pieces.value()
        inner = {**self.inner, "args": arguments} if arguments else self.inner
        decoded = read_part({key: inner if key in _CALL_KEYS else self.body[key] for key in self.body}, IdGenerator(()))
        call = decoded if type(decoded) is ToolCall else replace(self.start, arguments=arguments)
        problem = _UNFINISHED_TEXT if self.pieces.open else _INVALID_CALL if call is not decoded else None
        self.call.value, self.call.problem = arguments, self.damage or self.call.problem or problem
        return replace(call, id=self.start.id, index=self.start.index)


class Decoder(WireDecoder):
    """Decodes the chunks of one stream.

    - `_shell`: the merged fields of the chunks beside the candidates and counts. None before the first chunk.
    - `_last_fields`: these fields of the last chunk.
    - `_usage`: the counts of the last chunk that had any.
    """

    _shell: dict[str, Any] | None = None
    _last_fields: dict[str, Any] | None = None
    _usage: Any = None

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, Any] = {}
        self._candidates: dict[int, _CandidateReader] = {}
        self._ids = IdGenerator(())

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Decode one chunk."""
        del name
        entries, usage, error, first_usage = body.get("candidates"), body.get("usageMetadata"), None, None
        if self._shell is None:
            response_id = body.get("responseId") or body.get("response_id") or fingerprint(body)
            self._ids = IdGenerator((), {"responseId": response_id})
        if entries is None or (type(entries) is list and all([type(entry) is dict for entry in entries])):  # noqa: C419 - a list is faster
            body.pop("candidates", None)
        else:
            entries = None
        if usage is None or type(usage) is dict:
            body.pop("usageMetadata", None)
        if body != self._last_fields:
            if type(body.get("usage_metadata")) is dict:
                usage, body["usage_metadata"] = body["usage_metadata"], {}
            error = body.pop("error") if body.get("error") else None
            if error is not None and not entries:
                self.fail(decode_error(None, {**body, "error": error}))
                return
            first_usage = self._read_message_fields(body, usage)
        if type(usage) is dict and usage != self._usage:
            self._usage = usage
            self.count_rescan(CHARACTERS_PER_MEMBER * len(self._counts))
            self._counts = {**self._counts, **usage} if _TOTAL_KEYS.isdisjoint(usage) else usage
            self.events.append(UsageDelta(first_usage or decode_usage(self._counts)))
        for entry in number_choices(entries or []):
            self._read_candidate(entry)
        if error is not None:
            self.fail(decode_error(None, {**body, "error": error}))

    def _read_message_fields(self, body: dict[str, Any], usage: Any) -> Usage | None:
        """Decode the fields beside the candidates, and emit the start of the message or its changes.

        Return the counts that the start of the message was emitted with.
        """
        shell, self._last_fields = self._shell, body
        if shell is None:
            self._shell = body
            first_usage = decode_usage(usage) if type(usage) is dict else None
            self.events.append(MessageStart(self._read_shell(first_usage)))
            return first_usage
        if changes := {
            key: value
            for key, value in _find_changes(shell, body).items()
            if not (key in _FIRST_VALUE_KEYS and shell.get(key))
        }:
            self.count_rescan(CHARACTERS_PER_MEMBER * len(shell))
            self._shell = {**shell, **changes}
            self.events.append(MessageDelta(self._read_shell()))
        return None

    def _read_shell(self, usage: Usage | None = None) -> Response:
        return replace(decode_response(self._shell or {}), choices=[], usage=usage)

    def _read_candidate(self, entry: dict[str, Any]) -> None:
        index = entry.get("index")
        if type(index) is not int:
            index = index_of(index) or 0
        candidate = self._candidates.get(index)
        if candidate is None:
            candidate = self._candidates[index] = _CandidateReader(self, index)
        content, parts = entry.get("content"), None
        if type(content) is dict:
            del entry["content"]
            parts = content.get("parts")
            if type(parts) is list or type(parts) is dict:
                del content["parts"]
        else:
            content = None
        if entry != candidate.last_entry or content != candidate.last_content:
            changes = candidate.merge(entry, content)
            if changes:
                step = Opaque(DIALECT, changes)
                self.events.append(OpaqueDelta(None, candidate.choice, repeated=True, opaque=step))
        for part in parts if type(parts) is list else [parts] if type(parts) is dict else ():
            self._read_part(part, candidate)

    def _read_part(self, part: Any, candidate: _CandidateReader) -> None:
        """Decode a part. Plain texts and thoughts take a short path, because most parts are such."""
        if type(part) is dict:
            text, call = part.get("text"), part.get("functionCall", part.get("function_call"))
            if type(text) is str and len(part) == 1:
                candidate.add_text(_PLAIN_TEXT, text)
                return
            if type(text) is str and len(part) == 2 and part.get("thought") is True:
                candidate.add_text(_PLAIN_THOUGHT, text)
                return
            if type(call) is dict and self._read_streamed_call(part, call, candidate):
                return
        decoded = self._build(part, candidate)
        if type(decoded) is ToolCall:
            self._emit_call(decoded, candidate)
        elif type(decoded) not in TEXT_DELTAS:
            candidate.add(decoded)
        elif not decoded.opaque.value and not (type(decoded) is Thinking and decoded.signature):
            candidate.add_text(replace(decoded, text=""), decoded.text)
        else:
            shell = replace(decoded, text="")
            candidate.open(shell)
            if decoded.text:
                candidate.add_text(shell, decoded.text)
            if type(shell) is not Text or not decoded.text:
                candidate.close()

    def _build(self, part: Any, candidate: _CandidateReader) -> Any:
        self._ids.call_index = candidate.call_index
        decoded = read_part(part, self._ids)
        candidate.call_index = self._ids.call_index
        return decoded

    def _emit_call(self, call: ToolCall, candidate: _CandidateReader) -> None:
        """Emit a call that arrived whole."""
        partial = self._open_call(call, candidate)
        partial.comes_whole, partial.value = True, call.plain_arguments
        partial.problem = self.frame_problem() if call.plain_arguments else None
        self._close_call(partial, call, candidate)

    def _open_call(self, call: ToolCall, candidate: _CandidateReader) -> PartialCall:
        """Emit the start of `call`, after the end of the open part or call."""
        self._end_open_call(candidate)
        candidate.close()
        candidate.key, candidate.part_weight = self.new_key(), candidate.part_weight + 2
        self.start_call(candidate.key, call, candidate.choice)
        partial = PartialCall(call.id, call.name, call.index, candidate.key)
        self.judge.opened(partial)
        return partial

    def _close_call(
        self, partial: PartialCall, call: ToolCall, candidate: _CandidateReader, *, whole: bool = True
    ) -> None:
        """Emit the end of `call`, unless the judge holds it back."""
        judged = self.judge.close(partial, call, complete=whole)
        candidate.has_calls |= judged is None or judged.complete
        if judged is not None:
            self.end_whole_call(partial.key, judged)  # type: ignore[arg-type]

    def _read_streamed_call(self, part: dict[str, Any], call: dict[str, Any], candidate: _CandidateReader) -> bool:
        """Decode a piece of a call. Return False if the part is no such piece.

        A piece with a name starts a new call, unless its id is that of the open call.
        """
        will_continue = call.get("willContinue", call.get("will_continue")) is True
        open_call = candidate.open_call
        if open_call is None or (call.get("name") and call.get("id", ABSENT) != open_call.inner.get("id")):
            pieces = call.get("partialArgs", call.get("partial_args"))
            if not (call.get("name") and (will_continue or "partialArgs" in call or "partial_args" in call)):
                if pieces:
                    self.judge.stray(None)
                return False
            known_fields = {key: value for key, value in call.items() if CAMEL.get(key, key) not in _PIECE_KEYS}
            known_fields["args"] = {}
            start = self._build({key: known_fields if key in _CALL_KEYS else part[key] for key in part}, candidate)
            if type(start) is not ToolCall:
                return False
            opened = self._open_call(start, candidate)
            candidate.open_call = open_call = _StreamedCall(candidate.key, start, PartialObject(), opened)
        open_call.damage = open_call.damage or self.frame_problem()
        open_call.add_part(part, call)
        if open_call.damage is None:
            step = Opaque(DIALECT, part)
            self.events.append(OpaqueDelta(open_call.key, candidate.choice, repeated=True, opaque=step))
        if not will_continue and open_call.damage is None:
            candidate.open_call = None
            self._close_call(open_call.call, open_call.build(), candidate)
        return True

    def _end_open_call(self, candidate: _CandidateReader) -> None:
        """End the call in pieces that is still open."""
        open_call, candidate.open_call = candidate.open_call, None
        if open_call is not None:
            self._close_call(open_call.call, open_call.build(), candidate, whole=False)

    def end_choices(self, reason: str | None) -> None:
        """End all open parts, calls and answers. `reason` is the finish reason of answers without one."""
        if self._shell is None:
            return
        for candidate in self._candidates.values():
            candidate.close()
            self._end_open_call(candidate)
        for partial, call in self.judge.end(None):
            self.end_whole_call(partial.key, call)  # type: ignore[arg-type]
        candidates = [self._candidates[index] for index in sorted(self._candidates, key=rank)]
        self.events += [ChoiceEnd(candidate.choice, _end_choice(candidate, reason)) for candidate in candidates]
        if not candidates:
            empty_choice = replace(decode_choice({}, IdGenerator(())), finish_reason=reason)
            blocked = decode_response(self._shell).choices
            self.events += [ChoiceEnd(0, choice) for choice in blocked or [empty_choice]]

    def end(self, *, complete: bool) -> None:
        """End the stream. It is complete if each candidate has a finish reason, or if the prompt was blocked."""
        del complete
        if self._candidates:
            super().end(complete=all(candidate.has_reason for candidate in self._candidates.values()))
        else:
            super().end(complete=bool(decode_response(self._shell or {}).choices))

    def _refuse(self, frame: bytes) -> None:
        """Decode a frame that is no object: a list of chunks or of an error. Anything else is an error."""
        bodies = repair(frame)
        if type(bodies) is not list or not all(type(body) is dict for body in bodies):
            super()._refuse(frame)
            return
        for body in bodies:
            if not self.over:
                self._begun = True
                self.read(body, b"")


def _end_choice(candidate: _CandidateReader, reason: str | None) -> Choice:
    """Return the choice of a candidate without its parts, from the fields beside them."""
    entry = candidate.entry if candidate.content is None else {**candidate.entry, "content": candidate.content}
    choice = decode_choice(entry, IdGenerator(()))
    finish = read_finish(choice.finish_reason, choice.raw_finish_reason, has_calls=candidate.has_calls)
    if reason is not None and (reason == "error" or not candidate.has_reason):
        finish = reason
    is_plain_text = candidate.part_weight == 1 or (candidate.has_empty_text and not candidate.part_weight)
    message = replace(choice.message, content="" if is_plain_text else [])
    return replace(choice, message=message, finish_reason=finish)


def _find_changes(before: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `body` whose values differ from `before`. A null for a known field is no change."""
    return {key: value for key, value in changed_fields(before, body).items() if value is not None or key not in before}


def decode_stream() -> StreamDecoder:
    """Return a decoder for one stream."""
    return Decoder()
