"""The decoder of Chat Completions streams: chunks of deltas, of one choice or of several.

Rules of this file:
- A call is closed by the start of the next one, if its text is whole, and by the finish reason. The end of an answer is
  emitted last, because servers repeat and correct it. The judge of calls decides whether a call may run.
- The keys beside the choices are the shell of the answer. Each chunk repeats them, and only changes are emitted.
- The unknown keys of a delta are emitted with the first event of that delta.
"""

from typing import Any

from msgspec import field
from msgspec.structs import replace

from toolwire.dialects.openai_chat.calls import NO_IDS, decode_call, decode_deprecated_call
from toolwire.dialects.openai_chat.error import decode_error
from toolwire.dialects.openai_chat.messages import REASONING_KEYS, take_audio
from toolwire.dialects.openai_chat.parts import (
    AUDIO_TEXT_KEYS,
    DIALECT,
    WIRE,
    Details,
    decode_citation,
    decode_part,
    details_text,
)
from toolwire.dialects.openai_chat.response import (
    COUNTS,
    FINISH_REASONS,
    decode_finish_reason,
    decode_response,
    decode_shell,
)
from toolwire.encoding.finish import CUT
from toolwire.encoding.ledger import spelling_of
from toolwire.encoding.request_fields import ABSENT
from toolwire.streams import PartBuilder, StreamDecoder, WireDecoder
from toolwire.streams.accumulation import add_citation
from toolwire.streams.call_judge import CallJudge, PartialCall, Reason
from toolwire.streams.calls import CallAssembler, index_of
from toolwire.streams.choices import number_choices, rank
from toolwire.streams.merging import changed_fields, collect_texts, join_texts, merge_fields
from toolwire.streams.pending_calls import PendingCalls
from toolwire.streams.reading import CHARACTERS_PER_MEMBER
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    ChoiceEnd,
    CitationDelta,
    Message,
    MessageDelta,
    MessageStart,
    Opaque,
    OpaqueDelta,
    Refusal,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    UsageDelta,
)
from toolwire.types.spelling.openai_chat import (
    ChatChoiceSpelling,
    ChatMessageSpelling,
    ChatResponseSpelling,
    ChatThinkingSpelling,
)
from toolwire.wire.arguments import type_name
from toolwire.wire.names import number_of

CHUNK = "chat.completion.chunk"
_COMMON_CHOICE_KEYS = frozenset({"index", "delta", "finish_reason", "logprobs"})
_COMMON_DELTA_KEYS = frozenset({"content", "role"})
_CHOICE_KEYS = frozenset({"index", "delta", "finish_reason"})
_DELTA_KEYS = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "annotations"})
_EMPTY_REFUSAL = Refusal("", opaque=WIRE.plain)
_FIXED_KEYS = frozenset({"id", "model", "created"})
_REASONING_KEYS = frozenset(REASONING_KEYS)
_CALL_KEYS = frozenset({"tool_calls", "function_call"})
# One more check of a call takes about as long as reading this number of characters.
_LETTERS_OF_A_CALL = 500
_CALL_BODY_KEYS = frozenset({"function", "custom", "function_call"})


class _ChoiceReader(PartBuilder):
    """One choice as it arrives.

    - `calls`: its calls.
    - `unstarted`: the calls whose start was not emitted yet.
    - `details`: the `reasoning_details` of the open thinking.
    - `audio`: the keys of its audio.
    - `content`: the first empty content that a delta had, which may be null, or "" after a text.
    - `weight`: 0 for an empty answer, 1 for one plain text, and more for any other.
    - `called`, `broken`: True if it has a complete call, and if it has an incomplete one.
    - `refused`: True if it has a refusal.
    - `raw_finish_reason`: the finish reason of the wire.
    - `unparsed_message`, `unparsed`: the unknown keys of its deltas, and of the choice.
    - `end_mark`: the unknown keys of the chunk that ended it.
    """

    calls: CallAssembler = field(default_factory=lambda: CallAssembler(CallJudge()))
    details: Details = field(default_factory=Details)
    audio: dict[str, Any] = field(default_factory=dict)
    content: Any = ABSENT
    weight: int = 0
    unstarted: PendingCalls = field(default_factory=PendingCalls)
    called: bool = False
    broken: bool = False
    has_own_citations: bool = False
    refused: bool = False
    raw_finish_reason: str | None = None
    unparsed_message: dict[str, Any] = field(default_factory=dict)
    unparsed: dict[str, Any] = field(default_factory=dict)
    end_mark: Opaque | None = None

    def open(self, shell: Any) -> None:
        """Start a part. An answer of one text without annotations is one string on this wire."""
        self.weight += 1 if type(shell) is Text and shell.opaque is None else 2
        super().open(shell)
        self.has_own_citations = False

    def close(self) -> None:
        """End the open part. Thinking gets its `reasoning_details`."""
        if type(self.part) is Thinking and (details := self.details.take()):
            spelling = spelling_of(self.part.opaque, ChatThinkingSpelling)
            self.part = replace(self.part, opaque=WIRE.mark({"reasoning_details": details}, spelling))
        super().close()


class Decoder(WireDecoder):
    """The decoder of one stream.

    - `_shell`: the keys beside the choices so far.
    - `_last_shell`: the keys beside the choices in the last chunk where they differed from the chunk before.
    - `_mark`: the unknown keys of the current delta, as long as no event has them.
    - `_open_count`: the number of choices that have no finish reason.
    - `_usage`: the token counts so far.
    - `_answers`: the choices, by index.
    """

    _shell: dict[str, Any] | None = None
    _last_shell: dict[str, Any] | None = None
    _mark: Opaque | None = None
    _open_count = 0

    def __init__(self) -> None:
        super().__init__()
        self._usage: dict[str, Any] = {}
        self._answers: dict[int, _ChoiceReader] = {}

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one chunk."""
        choices, usage = body.pop("choices", None), body.pop("usage", None)
        body.pop("obfuscation", None)
        error = None
        if body != self._last_shell:
            error = _take_error(body, is_alone=not choices and (name == b"error" or body.get("object") == "error"))
            if self._shell is None and _is_response(choices):
                self.emit_response(decode_response({**body, "choices": choices, "usage": usage}))
                return
            if error is None or choices:
                self._read_shell(body, usage)
        for entry in number_choices(choices) if type(choices) is list else [choices] if choices else ():
            if type(entry) is dict:
                self._read_choice(entry)
            elif entry is not None:
                self._emit_unknown({"choices": [entry]})
        if type(usage) is dict:
            self._read_usage(usage)
        elif usage:
            self._emit_unknown({"usage": usage})
        if error is not None:
            self.fail(decode_error(None, {"error": error}))

    def _emit_unknown(self, value: dict[str, Any], choice: int = 0) -> None:
        """Emit a value whose type this wire does not have at its position."""
        self.events.append(OpaqueDelta(None, choice, opaque=Opaque(DIALECT, value)))

    def _read_usage(self, usage: dict[str, Any]) -> None:
        """Read token counts, which servers send in different places. A count that is not repeated stays the same."""
        known_counts = {key: usage[key] for key in usage if usage[key] is not None}
        self.count_rescan(CHARACTERS_PER_MEMBER * len(self._usage))
        self._usage = usage if COUNTS.are_all_in(known_counts) else {**usage, **self._usage, **known_counts}
        self.events.append(UsageDelta(COUNTS.decode(self._usage, DIALECT)))

    def _read_shell(self, body: dict[str, Any], usage: Any) -> None:
        """Read the keys beside the choices. Emit the start of the answer with its first counts, or a change."""
        shell, self._last_shell = self._shell, body
        if shell is None:
            self._shell = body
            self.events.append(MessageStart(_decode_shell({**body, "usage": usage} if type(usage) is dict else body)))
            return
        changes = changed_fields(shell, body)
        changes = {key: changes[key] for key in changes if not (key in _FIXED_KEYS and shell.get(key))}
        match changes.get("x_groq"):  # Groq, if the client did not request usage (recorded streams, 2024-2026)
            case {"usage": dict(counts)}:
                self._read_usage(counts)
        if changes:
            self.count_rescan(CHARACTERS_PER_MEMBER * len(shell))
            self._shell = {**shell, **changes}
            self.events.append(MessageDelta(_decode_shell(self._shell), opaque=Opaque(DIALECT, changes)))

    def _read_choice(self, entry: dict[str, Any]) -> None:
        """Read one choice of a chunk. More text of an open text is emitted at once."""
        index, delta = entry.get("index"), entry.get("delta")
        if type(index) is not int:
            index = index_of(index) or 0
        answer = self._answers.get(index)
        if answer is None:
            answer = self._answers[index] = _ChoiceReader(self, index, calls=CallAssembler(self.judge))
            self._open_count += 1
            self.done = False
        elif type(delta) is dict and _COMMON_DELTA_KEYS.issuperset(delta) and _COMMON_CHOICE_KEYS.issuperset(entry):
            text = delta.get("content")
            is_only_text = entry.get("finish_reason") is None and entry.get("logprobs") is None
            if is_only_text and type(text) is str and text and type(answer.part) is Text:
                self.events.append(TextDelta(answer.key, text))
                return
        delta = entry.get("message") if delta is None else delta
        if delta and type(delta) is not dict:
            self._emit_unknown({"choices": [{"delta": delta}]}, answer.choice)
        self._read_any_choice(entry, delta if type(delta) is dict else {}, answer)

    def _read_any_choice(self, entry: dict[str, Any], delta: dict[str, Any], answer: _ChoiceReader) -> None:
        """Read one choice of a chunk with all of its keys."""
        raw_reason, unparsed = entry.get("finish_reason"), _without_nulls(entry, _CHOICE_KEYS)
        if type(unparsed.get("usage")) is dict:  # Moonshot (platform.kimi.ai/docs/api/chat, 2026-08-26)
            self._read_usage(unparsed.pop("usage"))
        if unparsed:
            merge_fields(answer.unparsed, unparsed)
        has_ended = type(raw_reason) is str and raw_reason != ""
        choice_keys = {} if has_ended else unparsed
        if delta or choice_keys:
            self._read_delta(delta, choice_keys, answer)
        if raw_reason and not has_ended:
            self._emit_unknown({"finish_reason": raw_reason}, answer.choice)
        if has_ended:
            answer.end_mark = Opaque(DIALECT, unparsed) if unparsed else answer.end_mark
            self._open_count -= answer.raw_finish_reason is None
            if answer.raw_finish_reason is None or (raw_reason == "tool_calls" and answer.calls.calls):
                answer.raw_finish_reason = raw_reason
            self.done = not self._open_count
            answer.close()
            self._close_calls(answer, FINISH_REASONS.get(raw_reason or "", "unknown"), last=False)

    def _read_delta(self, delta: dict[str, Any], choice_keys: dict[str, Any], answer: _ChoiceReader) -> None:
        """Read a delta. `choice_keys` are the unknown keys of its choice."""
        reasoning_key = None if _REASONING_KEYS.isdisjoint(delta) else _reasoning_key(delta)
        unknown = None
        if answer.content is ABSENT or not _DELTA_KEYS.issuperset(delta):
            unknown = self._take_unknown(delta, reasoning_key, answer)
        unknown_keys = {**choice_keys, "delta": unknown} if unknown else choice_keys
        self._mark = Opaque(DIALECT, unknown_keys) if unknown_keys else None
        has_text = delta.get("content") or delta.get("refusal") or delta.get("annotations")
        details = delta.get("reasoning_details")
        if answer.unstarted and (has_text or details or reasoning_key is not None):
            self._start_calls(answer)
        if details or reasoning_key is not None:
            self._read_thinking(delta, reasoning_key, answer)
        if has_text:
            self._read_text(delta, answer)
        if not _CALL_KEYS.isdisjoint(delta):
            self._read_calls(delta, answer)
        if self._mark is not None:
            self._emit_mark(answer)

    def _take_unknown(self, delta: dict[str, Any], reasoning_key: str | None, answer: _ChoiceReader) -> dict[str, Any]:
        """Store the unknown keys of a delta, and return them.

        The first empty content is returned with them, because only this wire has it.
        """
        unknown = _without_nulls(delta, _DELTA_KEYS)
        if reasoning_key is not None:
            unknown.pop(reasoning_key, None)
        for key, value in unknown.items():
            if key == "audio" and type(value) is dict:
                collect_texts(answer.audio, value, AUDIO_TEXT_KEYS)
            elif key != "reasoning_details" and not (key in REASONING_KEYS and value == ""):
                merge_fields(answer.unparsed_message, {key: value})
        if answer.content is ABSENT and "content" in delta and not delta["content"]:
            unknown["content"] = answer.content = delta["content"]
        return unknown

    def _take_mark(self) -> Opaque | None:
        """Return the unknown keys of the current delta, if no event has them yet."""
        mark, self._mark = self._mark, None
        return mark

    def _emit_mark(self, answer: _ChoiceReader) -> None:
        """Emit the unknown keys of the current delta in an event of their own, if no event has them yet."""
        if (mark := self._take_mark()) is not None:
            self.events.append(OpaqueDelta(None, answer.choice, repeated=True, opaque=mark))

    def _read_thinking(self, delta: dict[str, Any], reasoning_key: str | None, answer: _ChoiceReader) -> None:
        """Read the reasoning of a delta: its text under `reasoning_key`, and its `reasoning_details`."""
        details: Any = delta.get("reasoning_details")
        new_details = details if type(details) is list else []
        if reasoning_key is None and not new_details:
            return
        text = details_text(new_details) if reasoning_key is None else delta[reasoning_key]
        if type(answer.part) is not Thinking:
            spelling = ChatThinkingSpelling(key=reasoning_key or "reasoning_details")
            answer.open(Thinking("", opaque=WIRE.mark({}, spelling)))
        answer.details.add(new_details)
        answer.add_text(answer.part, text, self._take_mark())

    def _read_text(self, delta: dict[str, Any], answer: _ChoiceReader) -> None:
        """Read the content, the annotations and the refusal of a delta."""
        content, refusal, annotations = delta.get("content"), delta.get("refusal"), delta.get("annotations")
        if type(content) is str and content:
            answer.content = ""
            answer.add_text(Text(""), content, self._take_mark())
        elif content:
            for block in content if type(content) is list else [content]:
                self._read_block(block, answer)
        for annotation in annotations if type(annotations) is list else [annotations] if annotations else ():
            citation = decode_citation(
                _without_nulls(annotation, frozenset({"index"})) if type(annotation) is dict else annotation
            )
            if citation is not None and not answer.calls.calls:
                answer.add_text(Text(""), "")
            if citation is None or type(answer.part) is not Text:
                answer.unparsed_message.setdefault("annotations", []).append(annotation)
                mark = Opaque(DIALECT, {"delta": {"annotations": [annotation]}})
                self.events.append(OpaqueDelta(None, answer.choice, repeated=True, opaque=mark))
                continue
            answer.weight += 1
            add_citation(answer, citation)
            self.events.append(CitationDelta(answer.key, citation, opaque=self._take_mark()))
        if type(refusal) is str and refusal:
            answer.refused = True
            answer.add_text(_EMPTY_REFUSAL, refusal, self._take_mark())
        elif refusal:
            self._emit_unknown({"delta": {"refusal": refusal}}, answer.choice)

    def _read_block(self, block: Any, answer: _ChoiceReader) -> None:
        """Read a block of a content that is a list, which Mistral streams."""
        part: Any = decode_part(block)
        if type(part) is Thinking:
            opaque = WIRE.mark(part.opaque.value, ChatThinkingSpelling(key="content"))  # type: ignore[union-attr]
            shell = replace(part, text="", opaque=opaque)
            answer.add_text(shell, part.text, self._take_mark())
            answer.part = shell
        elif type(part) is Text:
            answer.add_text(replace(part, text=""), part.text, self._take_mark())
        else:
            answer.add(part)

    def _read_calls(self, delta: dict[str, Any], answer: _ChoiceReader) -> None:
        """Read the fragments of calls in a delta."""
        entries, deprecated_call = delta.get("tool_calls"), delta.get("function_call")
        for entry in entries if type(entries) is list else [entries] if entries else ():
            if type(entry) is dict:
                is_custom = "custom" in entry and "function" not in entry
                self._read_call(entry, "custom" if is_custom else "function", answer)
            elif entry is not None:
                self._emit_unknown({"delta": {"tool_calls": [entry]}}, answer.choice)
        if type(deprecated_call) is dict and any(deprecated_call.values()):
            self._read_call({"function_call": deprecated_call}, "function_call", answer)
        elif deprecated_call and type(deprecated_call) is not dict:
            self._emit_unknown({"delta": {"function_call": deprecated_call}}, answer.choice)

    def _read_call(self, entry: dict[str, Any], key: str, answer: _ChoiceReader) -> None:
        """Read a fragment of a call, whose body is under `key`."""
        value = entry.pop(key, None)
        inner: dict[str, Any] = value if type(value) is dict else {}
        field = "input" if key == "custom" else "arguments"
        call_id, name, text = entry.pop("id", None), inner.get("name"), inner.get(field)
        call_id = call_id if type(call_id) is str and call_id not in NO_IDS else None
        name = name if type(name) is str else None
        call_count = len(answer.calls.calls)
        call = answer.calls.find(call_id, index_of(entry.pop("index", None)), name, text)
        if len(answer.calls.calls) > call_count:
            self._open_call(call, answer)
        if type(text) is str:
            del inner[field]
        elif text is None and call.value is not None:
            inner.pop(field, None)
        elif text is not None:
            call.add_value(text, Reason.TWICE if type(text) is dict and self.repeats_a_key() else None)
        call.name, call.free_text = call.name or name or "", call.free_text or key == "custom"
        answer.unstarted.note(call)
        if entry or inner or key not in call.entry:
            name_key = {} if name is None and not call.name else {"name": call.name}
            call.merge({**entry, key: {**inner, **name_key}})
        if value and type(value) is not dict:
            call.problem = call.problem or f"an object was expected, not {type_name(value)}"
            self._emit_unknown({"delta": {"tool_calls": [{key: value}]}}, answer.choice)
        if self.damaged:
            call.problem = Reason.NOT_UTF8
        if text and type(text) is str and not call.repeats(text):
            self._add_text(call, text, answer)
            answer.unstarted.note(call)

    def _open_call(self, call: PartialCall, answer: _ChoiceReader) -> None:
        """Open a new call. The one before is closed, if its text is whole."""
        self.done = False
        answer.close()
        self._start_calls(answer)
        has_odd = answer.unstarted.has_incomplete
        answer.unstarted.add(call)
        previous = answer.calls.calls[-2:][0]
        is_doubtful = self.judge.waits(previous) or (has_odd and not self.judge.refuses(previous))
        if not previous.closed and previous is not call and previous.is_whole() and not is_doubtful:
            self._close_call(previous, answer)

    def _add_text(self, call: PartialCall, fragment: str, answer: _ChoiceReader) -> None:
        """Add a fragment to the text of a call. One for a closed call is reported to the judge."""
        if call.closed:
            self.judge.late(call, fragment)
            return
        if call.value:
            call.problem = call.problem or Reason.TWO_TEXTS
        if call.key is None and call.name:
            self._start_calls(answer, call)
        call.add(fragment)
        if call.key is not None:
            self.events.append(CallDelta(call.key, fragment, opaque=self._take_mark()))

    def _start_calls(self, answer: _ChoiceReader, last: PartialCall | None = None) -> None:
        """Emit the starts of the calls that have a name, in their order, up to `last`."""
        for call in answer.unstarted.take_named(last):
            self._start_call(call, answer)

    def _start_call(self, call: PartialCall, answer: _ChoiceReader) -> None:
        """Emit the start of a call. It is decoded like a call without text."""
        call.key = self.new_key()
        answer.unstarted.remove(call)
        answer.weight += 2
        start = CallStart(call.key, call.id, call.name, call.index, choice=answer.choice, opaque=WIRE.plain)
        if not _is_plain(call):
            decoded = self._build_call(call, "")
            fields = {field: getattr(decoded, field, None) for field in ("id", "name", "custom", "opaque")}
            start = replace(start, **(fields if type(decoded) is ToolCall else {"opaque": None}))
        if self._mark is not None:
            self._emit_mark(answer)
        self.events.append(start)
        if call.pieces:
            self.events.append(CallDelta(call.key, call.text))

    def _build_call(self, call: PartialCall, text: str) -> Any:
        """Return the call that has arrived, with `text` as its arguments."""
        if _is_plain(call):
            return ToolCall.parse(call.id, call.name, text, index=call.index, opaque=WIRE.plain)
        entry = dict(call.entry)
        keys = ("custom",) if entry.get("type") == "custom" else ("function_call", "function", "custom")
        key = next(key for key in keys if key in entry)
        # Only one of these keys has the body of the call. A malformed fragment may have added another one.
        entry = {name: value for name, value in entry.items() if name == key or name not in _CALL_BODY_KEYS}
        entry[key] = dict(entry[key])
        field = "input" if key == "custom" else "arguments"
        if text or field not in entry[key]:
            entry[key][field] = text
        id_seed = number_of((self._shell or {}).get("id"))
        if key == "function_call":
            return decode_deprecated_call(entry, id_seed)
        if call.id is not None:
            entry["id"] = call.id
        return decode_call(entry, id_seed, call.index)

    def _close_call(self, call: PartialCall, answer: _ChoiceReader, reason: str | None = None) -> None:
        """Close a call, and emit its end unless the judge holds it. `reason` is the finish reason of the answer."""
        answer.calls.close(call)
        if call.key is None:
            self._start_call(call, answer)
        tool_call = self._build_call(call, call.text)
        if type(tool_call) is not ToolCall:
            tool_call = ToolCall(call.id, call.name, {}, call.index, raw=call.text, error="it has no name")
            call.problem = tool_call.error
        if tool_call.custom and reason in CUT:
            tool_call = replace(tool_call, complete=False)
        if (judged_call := self.judge.close(call, tool_call)) is not None:
            self._end_call(call, judged_call, answer)

    def _end_call(self, call: PartialCall, tool_call: ToolCall, answer: _ChoiceReader) -> None:
        """Emit the end of a call."""
        answer.called, answer.broken = answer.called or tool_call.complete, answer.broken or not tool_call.complete
        self.events.append(CallEnd(call.key, tool_call))  # type: ignore[arg-type]

    def _close_calls(self, answer: _ChoiceReader, reason: Any, *, whole: bool = True, last: bool = True) -> None:
        """Close the open calls of an answer.

        A call without arguments is closed only at the end (`last`), because its arguments may come late. `whole` is
        false if the stream broke off.
        """
        unclosed = list(answer.calls.unclosed.values())
        if not unclosed:
            return
        self._start_calls(answer)
        self.count_rescan(_LETTERS_OF_A_CALL * (len(answer.calls.calls) + len(self.judge.by_position)))
        answer.calls.report()
        self.judge.check_matches(answer.calls.last if reason in CUT else ())
        for call in unclosed:
            if last or not (call.is_empty or call.by_position):
                call.problem = call.problem if whole else call.problem or Reason.NEVER_ENDED
                self._close_call(call, answer, reason)
        for call, tool_call in self.judge.end(reason, answer.calls.last, ended=whole):
            self._end_call(call, tool_call, answer)

    def end(self, *, complete: bool) -> None:
        """End the stream, after a report of the text that reached no call."""
        for answer in self._answers.values():
            answer.calls.report()
        super().end(complete=complete)

    def cut_calls(self, *, cut: bool) -> list[PartialCall]:
        """Return the calls that the ends of their answers may have cut off."""
        ended = [
            answer
            for answer in self._answers.values()
            if cut or FINISH_REASONS.get(answer.raw_finish_reason or "") in CUT
        ]
        return [call for answer in ended for call in answer.calls.last]

    def end_choices(self, reason: str | None) -> None:
        """Emit the end of every open part and of every answer. `reason` is the finish reason if the wire sent none.

        An answer without a finish reason, in a stream that was not cut off, ended normally if no call is incomplete.
        """
        for index in sorted(self._answers, key=rank):
            answer = self._answers[index]
            if answer.audio:
                answer.unparsed_message["audio"] = join_texts(answer.audio, AUDIO_TEXT_KEYS)
                for part in take_audio(answer.unparsed_message):
                    answer.add(part)
            answer.close()
            raw_reason = None if reason == "error" else answer.raw_finish_reason
            known_reason = reason or "incomplete" if raw_reason is None else FINISH_REASONS.get(raw_reason, "unknown")
            self._close_calls(answer, known_reason, whole=reason is None)
            finish = decode_finish_reason(answer.raw_finish_reason, called=answer.called, refused=answer.refused)
            if raw_reason is None:
                finish = known_reason if reason is not None or answer.broken else finish or "stop"
            constants = {} if answer.content is ABSENT else {"content": answer.content}
            message = Message(
                "assistant", [], opaque=WIRE.mark(answer.unparsed_message, ChatMessageSpelling(constants=constants))
            )
            if answer.content == "" and answer.weight <= 1:
                message = replace(message, content="", opaque=WIRE.mark(answer.unparsed_message))
            opaque = WIRE.mark(answer.unparsed, ChatChoiceSpelling(constants={"index": index}))
            choice = Choice(message, finish, answer.raw_finish_reason, opaque=opaque)
            self.events.append(ChoiceEnd(index, choice, opaque=answer.end_mark))


def _is_response(choices: Any) -> bool:
    """Return True if the choices are those of a whole response, which some servers send instead of a stream."""
    entry = choices[0] if type(choices) is list and choices else None
    return type(entry) is dict and "delta" not in entry and "message" in entry


def _decode_shell(body: dict[str, Any]) -> Any:
    """Read the keys beside the choices as a response without choices."""
    unparsed = body.copy()
    constants = {"object": "chat.completion"} if unparsed.pop("object", None) == CHUNK else {}
    return decode_shell(unparsed, [], ChatResponseSpelling(constants=constants))


def _is_plain(call: PartialCall) -> bool:
    """Return True if a call has an id, a name, and no other key beside its text."""
    is_usual = call.id is not None and call.entry == {"type": "function", "function": {"name": call.name}}
    return is_usual and "__tw" not in f"{call.id} {call.name}"


def _take_error(body: dict[str, Any], *, is_alone: bool) -> Any:
    """Remove an error from a chunk, and decode it. vLLM sends one as a whole chunk, `is_alone` (2024-2026)."""
    error = body.pop("error", None)
    if error is None and is_alone:
        error = {key: body.pop(key) for key in ("message", "type", "param", "code") if key in body}
    return error


def _without_nulls(body: dict[str, Any], excluded: frozenset[str]) -> dict[str, Any]:
    """Return the keys of `body` that are neither null nor excluded."""
    if excluded.issuperset(body):
        return {}
    return {key: value for key, value in body.items() if value is not None and key not in excluded}


def _reasoning_key(delta: dict[str, Any]) -> str | None:
    """Return the key of the reasoning in a delta, or None."""
    for key in REASONING_KEYS:
        if type(text := delta.get(key)) is str and (text or delta.get("reasoning_details")):
            return key
    return None


def decode_stream() -> StreamDecoder:
    """Return a decoder for one stream."""
    return Decoder()
