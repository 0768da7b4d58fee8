"""Streams of generateContent, read: chunks that are responses, each with the next parts of its candidates.

Rules of this file:
- Words of one kind in a row are one part. A part that is signed, or that says anything beside its words, is a
  part of its own. An empty text that says nothing beside is none: servers end answers with one.
- A call comes whole, or in pieces by path; then the piece that does not say `willContinue` closes it.
- Nothing but the end of the stream ends an answer: calls and counts may follow the finish reason. A `STOP`
  never takes the place of another reason.
- Each chunk repeats what stands beside the parts; only news are told. The first id and model count, and the
  latest of everything else; counts without a total are added to those before.
- A text cites what the answer is grounded on if that is known when the text ends; later it can only be kept.
- The index of a candidate tells it from the others, whichever comes first. One that has none is the first.
"""

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from toolwire.dialects.gemini.calls import MadeIds
from toolwire.dialects.gemini.error import decode_error
from toolwire.dialects.gemini.messages import read_part
from toolwire.dialects.gemini.parts import CAMEL, DIALECT, WIRE
from toolwire.dialects.gemini.response import (
    SOURCES,
    citations_of,
    decode_choice,
    decode_response,
    decode_usage,
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

TEXT = Text("", opaque=WIRE.plain)
_THOUGHT = Thinking("", opaque=WIRE.plain)
_NAMED_ONCE = frozenset({"responseId", "response_id", "modelVersion", "model_version"})
_TOTALS = frozenset({"totalTokenCount", "total_token_count"})
_REASONS = ("finishReason", "finish_reason")
_UNSAID = (None, "", 0, "FINISH_REASON_UNSPECIFIED")
_WEAK = ("STOP", 1, *_UNSAID)
_UNENDED = "a text in its arguments was to be continued"
_NO_CALL = "its pieces are no call together"
_CALL = frozenset({"functionCall", "function_call"})
VALUES: dict[str, tuple[type, ...]] = {
    "": (str,),
    "stringValue": (str,),
    "numberValue": (int, float),
    "boolValue": (bool,),
    "nullValue": (type(None),),
}
_OF_PIECE = frozenset({"partialArgs", "willContinue"})


class _CandidateReader(PartBuilder):
    """One candidate as it arrives: its words, its calls, and what else was said of it.

    `said` holds the words of its texts as bytes, in which its sources have their places; the open text has those from
    `begun` on. `sourced` says that there is news of what they are grounded on, and `sources` how many bytes the frames
    have that said it.
    """

    beside: dict[str, Any] = field(default_factory=dict)
    around: Any = None
    entry: dict[str, Any] = field(default_factory=dict)
    content: dict[str, Any] | None = None
    partial: "_CallInPieces | None" = None
    index: int = 0
    spoken: int = 0
    called: bool = False
    empty: bool = False
    ended: bool = False
    said: bytearray = field(default_factory=bytearray)
    begun: int = 0
    sourced: bool = False
    sources: dict[str, int] = field(default_factory=dict)

    def add_text(self, shell: Any, words: str, opaque: Opaque | None = None) -> None:
        """Tell words of a part like this one, or of a new one."""
        if not words:
            self.empty = True
            return
        if self.part is not shell and self.part != shell:
            self.open(shell)
        if type(shell) is Text:
            self.said += words.encode(errors="replace")
        self._decoder.events.append(TEXT_DELTAS[type(shell)](self.key, words, opaque=opaque))

    def open(self, shell: Any) -> None:
        """Begin a part; an answer of one text that says nothing beside is one string."""
        self.spoken += 1 if shell is TEXT else 2
        super().open(shell)
        if type(shell) is Text:
            self.begun = len(self.said)

    def close(self) -> None:
        """End the part that is open; a text cites its sources."""
        if type(self.part) is Text and self.sourced:
            self._cite()
        super().close()

    def _cite(self) -> None:
        self._decoder.count_rescan(sum(self.sources.values()))
        words = self.said[self.begun :].decode()
        [citations] = citations_of(self.entry, [words], self.begun)
        self._decoder.events += [CitationDelta(self.key, citation) for citation in citations]
        if citations:
            self.part, self.spoken = replace(self.part, citations=citations), self.spoken + 1
        self.sourced = False

    def note(self, entry: dict[str, Any], content: dict[str, Any] | None) -> dict[str, Any]:
        """Note what a chunk says beside the parts; give what is new of it, but for the finish reason."""
        self.beside, self.around = entry, content
        news = _news(self.entry, entry)
        for key in _REASONS:
            if key in news:
                if news[key] in _WEAK and self.ended:
                    del news[key]
                self.ended |= entry[key] not in _UNSAID
        self.entry.update(news)
        if not SOURCES.isdisjoint(news):
            self.sourced = True
            self.sources.update(dict.fromkeys(SOURCES.intersection(news), len(self._decoder.frame)))
        told = {key: value for key, value in news.items() if key not in _REASONS}
        if content is not None:
            new = _news(self.content, content) if self.content else content
            if new or self.content is None:
                told["content"] = new
                self._decoder.count_rescan(CHARACTERS_PER_MEMBER * len(self.content or ()))
                self.content = {**(self.content or {}), **new}
        return told


class _CallInPieces(Struct):
    """A call that comes in pieces; after a damaged one, no piece is to be used."""

    key: int
    start: ToolCall
    pieces: PartialObject
    call: PartialCall
    body: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    damage: str | None = None

    def add(self, part: dict[str, Any], call: dict[str, Any]) -> None:
        """Add a piece of the call."""
        self.body.update(part)
        for key, value in call.items():
            match CAMEL.get(key, key), value:
                case "args", dict():
                    self.pieces.root.update(value)
                case "partialArgs", list():
                    for piece in value:
                        self._add_piece(piece)
                case str(name), _ if name not in _OF_PIECE and value is not None:
                    self.inner.setdefault(key, value)

    def _add_piece(self, piece: Any) -> None:
        fields: dict[Any, Any] = dict(piece) if type(piece) is dict else {}
        fields = {CAMEL.get(key, key): value for key, value in fields.items()}
        path, more = fields.pop("jsonPath", None), fields.pop("willContinue", None) is True
        kind, value = next(iter(fields.items())) if len(fields) == 1 else ("", None if fields else "")
        kinds = VALUES.get(kind, ())
        value = None if type(None) in kinds else value
        if type(value) not in kinds or type(path) is not str or not self.pieces.add(path, value, more=more):
            self.call.problem = self.call.problem or f"a piece of its arguments is not understood: {str(piece)[:200]}"

    def build(self) -> ToolCall:
        """Return the call as far as it came, and note what is wrong with it."""
        arguments = self.pieces.value()
        inner = {**self.inner, "args": arguments} if arguments else self.inner
        made = read_part({key: inner if key in _CALL else self.body[key] for key in self.body}, MadeIds(()))
        call = made if type(made) is ToolCall else replace(self.start, arguments=arguments)
        doubt = _UNENDED if self.pieces.open else _NO_CALL if call is not made else None
        self.call.value, self.call.problem = arguments, self.damage or self.call.problem or doubt
        return replace(call, id=self.start.id, index=self.start.index)


class Decoder(WireDecoder):
    """Reads chunks."""

    _shell: dict[str, Any] | None = None
    _beside: dict[str, Any] | None = None
    _usage: Any = None

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, Any] = {}
        self._answers: dict[int, _CandidateReader] = {}
        self._ids = MadeIds(())

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one chunk."""
        del name
        entries, usage, error, first = body.get("candidates"), body.get("usageMetadata"), None, None
        if self._shell is None:
            named = body.get("responseId") or body.get("response_id") or fingerprint(body)
            self._ids = MadeIds((), {"responseId": named})
        if entries is None or (type(entries) is list and all([type(entry) is dict for entry in entries])):  # noqa: C419 - a list is faster
            body.pop("candidates", None)
        else:
            entries = None
        if usage is None or type(usage) is dict:
            body.pop("usageMetadata", None)
        if body != self._beside:
            if type(body.get("usage_metadata")) is dict:
                usage, body["usage_metadata"] = body["usage_metadata"], {}
            error = body.pop("error") if body.get("error") else None
            if error is not None and not entries:
                self.fail(decode_error(None, {**body, "error": error}))
                return
            first = self._read_beside(body, usage)
        if type(usage) is dict and usage != self._usage:
            self._usage = usage
            self.count_rescan(CHARACTERS_PER_MEMBER * len(self._counts))
            self._counts = {**self._counts, **usage} if _TOTALS.isdisjoint(usage) else usage
            self.events.append(UsageDelta(first or decode_usage(self._counts)))
        for entry in number_choices(entries or []):
            self._read_candidate(entry)
        if error is not None:
            self.fail(decode_error(None, {**body, "error": error}))

    def _read_beside(self, body: dict[str, Any], usage: Any) -> Usage | None:
        """Read what stands beside the candidates: the shell of the answer with its first counts, or news of it."""
        shell, self._beside = self._shell, body
        if shell is None:
            self._shell = body
            first = decode_usage(usage) if type(usage) is dict else None
            self.events.append(MessageStart(self._read_shell(first)))
            return first
        if news := {
            key: value for key, value in _news(shell, body).items() if not (key in _NAMED_ONCE and shell.get(key))
        }:
            self.count_rescan(CHARACTERS_PER_MEMBER * len(shell))
            self._shell = {**shell, **news}
            self.events.append(MessageDelta(self._read_shell()))
        return None

    def _read_shell(self, usage: Usage | None = None) -> Response:
        return replace(decode_response(self._shell or {}), choices=[], usage=usage)

    def _read_candidate(self, entry: dict[str, Any]) -> None:
        index = entry.get("index")
        if type(index) is not int:
            index = index_of(index) or 0
        answer = self._answers.get(index)
        if answer is None:
            answer = self._answers[index] = _CandidateReader(self, index)
        content, parts = entry.get("content"), None
        if type(content) is dict:
            del entry["content"]
            parts = content.get("parts")
            if type(parts) is list or type(parts) is dict:
                del content["parts"]
        else:
            content = None
        if entry != answer.beside or content != answer.around:
            told = answer.note(entry, content)
            if told:
                step = Opaque(DIALECT, told)
                self.events.append(OpaqueDelta(None, answer.choice, repeated=True, opaque=step))
        for part in parts if type(parts) is list else [parts] if type(parts) is dict else ():
            self._read_part(part, answer)

    def _read_part(self, part: Any, answer: _CandidateReader) -> None:
        """Read a part: words go a short way."""
        if type(part) is dict:
            text, call = part.get("text"), part.get("functionCall", part.get("function_call"))
            if type(text) is str and len(part) == 1:
                answer.add_text(TEXT, text)
                return
            if type(text) is str and len(part) == 2 and part.get("thought") is True:
                answer.add_text(_THOUGHT, text)
                return
            if type(call) is dict and self._read_piece_of_call(part, call, answer):
                return
        made = self._build(part, answer)
        if type(made) is ToolCall:
            self._tell_call(made, answer)
        elif type(made) not in TEXT_DELTAS:
            answer.add(made)
        elif not made.opaque.value and not (type(made) is Thinking and made.signature):
            answer.add_text(replace(made, text=""), made.text)
        else:
            shell = replace(made, text="")
            answer.open(shell)
            if made.text:
                answer.add_text(shell, made.text)
            if type(shell) is not Text or not made.text:
                answer.close()

    def _build(self, part: Any, answer: _CandidateReader) -> Any:
        self._ids.index = answer.index
        made = read_part(part, self._ids)
        answer.index = self._ids.index
        return made

    def _tell_call(self, made: ToolCall, answer: _CandidateReader) -> None:
        """Emit a call that came whole."""
        call = self._open_call(made, answer)
        call.comes_whole, call.value = True, made.plain_arguments
        call.problem = self.frame_problem() if made.plain_arguments else None
        self._close_call(call, made, answer)

    def _open_call(self, made: ToolCall, answer: _CandidateReader) -> PartialCall:
        self._drop_partial(answer)
        answer.close()
        answer.key, answer.spoken = self.new_key(), answer.spoken + 2
        self.start_call(answer.key, made, answer.choice)
        call = PartialCall(made.id, made.name, made.index, answer.key)
        self.judge.opened(call)
        return call

    def _close_call(self, call: PartialCall, made: ToolCall, answer: _CandidateReader, *, whole: bool = True) -> None:
        judged = self.judge.close(call, made, complete=whole)
        answer.called |= judged is None or judged.complete
        if judged is not None:
            self.end_whole_call(call.key, judged)  # type: ignore[arg-type]

    def _read_piece_of_call(self, part: dict[str, Any], call: dict[str, Any], answer: _CandidateReader) -> bool:
        """Read a piece of a call; whether it is one. A name begins one, unless the id is the open one's."""
        more = call.get("willContinue", call.get("will_continue")) is True
        partial = answer.partial
        if partial is None or (call.get("name") and call.get("id", ABSENT) != partial.inner.get("id")):
            pieces = call.get("partialArgs", call.get("partial_args"))
            if not (call.get("name") and (more or "partialArgs" in call or "partial_args" in call)):
                if pieces:
                    self.judge.stray(None)
                return False
            known = {key: value for key, value in call.items() if CAMEL.get(key, key) not in _OF_PIECE}
            known["args"] = {}
            start = self._build({key: known if key in _CALL else part[key] for key in part}, answer)
            if type(start) is not ToolCall:
                return False
            opened = self._open_call(start, answer)
            answer.partial = partial = _CallInPieces(answer.key, start, PartialObject(), opened)
        partial.damage = partial.damage or self.frame_problem()
        partial.add(part, call)
        if partial.damage is None:
            step = Opaque(DIALECT, part)
            self.events.append(OpaqueDelta(partial.key, answer.choice, repeated=True, opaque=step))
        if not more and partial.damage is None:
            answer.partial = None
            self._close_call(partial.call, partial.build(), answer)
        return True

    def _drop_partial(self, answer: _CandidateReader) -> None:
        """End a call that nothing closed."""
        partial, answer.partial = answer.partial, None
        if partial is not None:
            self._close_call(partial.call, partial.build(), answer, whole=False)

    def end_choices(self, reason: str | None) -> None:
        """End what is open, and every answer; one that the wire did not end is incomplete."""
        if self._shell is None:
            return
        for answer in self._answers.values():
            answer.close()
            self._drop_partial(answer)
        for call, made in self.judge.end(None):
            self.end_whole_call(call.key, made)  # type: ignore[arg-type]
        answers = [self._answers[index] for index in sorted(self._answers, key=rank)]
        self.events += [ChoiceEnd(answer.choice, _end(answer, reason)) for answer in answers]
        if not answers:
            silent = replace(decode_choice({}, MadeIds(())), finish_reason=reason)
            blocked = decode_response(self._shell).choices
            self.events += [ChoiceEnd(0, choice) for choice in blocked or [silent]]

    def end(self, *, complete: bool) -> None:
        """End the stream; whether it is whole, the finish reasons say, or that the prompt was blocked."""
        del complete
        if self._answers:
            super().end(complete=all(answer.ended for answer in self._answers.values()))
        else:
            super().end(complete=bool(decode_response(self._shell or {}).choices))

    def _refuse(self, frame: bytes) -> None:
        """Read a list of chunks, or of an error; anything else that is no object is an error."""
        bodies = repair(frame)
        if type(bodies) is not list or not all(type(body) is dict for body in bodies):
            super()._refuse(frame)
            return
        for body in bodies:
            if not self.over:
                self._begun = True
                self.read(body, b"")


def _end(answer: _CandidateReader, reason: str | None) -> Choice:
    """Give the shell of an answer, from what was said beside its parts."""
    entry = answer.entry if answer.content is None else {**answer.entry, "content": answer.content}
    choice = decode_choice(entry, MadeIds(()))
    finish = read_finish(choice.finish_reason, choice.raw_finish_reason, called=answer.called)
    if reason is not None and (reason == "error" or not answer.ended):
        finish = reason
    text = answer.spoken == 1 or (answer.empty and not answer.spoken)
    message = replace(choice.message, content="" if text else [])
    return replace(choice, message=message, finish_reason=finish)


def _news(before: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Give what is said otherwise than before; null says nothing new."""
    return {key: new for key, new in changed_fields(before, body).items() if new is not None or key not in before}


def decode_stream() -> StreamDecoder:
    """Read a stream."""
    return Decoder()
