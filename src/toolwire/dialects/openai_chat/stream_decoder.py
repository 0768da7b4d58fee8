"""Streams of Chat Completions, read: chunks of deltas, of several choices in one stream.

Rules of this file:
- A call is closed by the next one, if its text is whole, and by the finish reason. The end of an answer is
  emitted last, because servers repeat it and correct it. The judge of calls decides which of them may run.
- What stands beside the choices is the shell of the answer: each chunk repeats it, and only news are told.
- What else a delta says goes along with the first event that the delta gives.
"""

from typing import Any

from msgspec import field
from msgspec.structs import replace

from toolwire.dialects.openai_chat.calls import NO_IDS, decode_call, decode_legacy_call
from toolwire.dialects.openai_chat.error import decode_error
from toolwire.dialects.openai_chat.messages import REASONING_KEYS, take_audio
from toolwire.dialects.openai_chat.parts import (
    AUDIO_TEXTS,
    DIALECT,
    WIRE,
    Details,
    decode_citation,
    decode_part,
    words_of,
)
from toolwire.dialects.openai_chat.response import COUNTS, FINISH_REASONS, decode_response, decode_shell, read_finish
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
from toolwire.wire.arguments import kind_of
from toolwire.wire.names import number_of

CHUNK = "chat.completion.chunk"
_USUAL_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs"})
_USUAL_DELTA = frozenset({"content", "role"})
_OF_CHOICE = frozenset({"index", "delta", "finish_reason"})
_OF_DELTA = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "annotations"})
_REFUSED = Refusal("", opaque=WIRE.plain)
_NAMED_ONCE = frozenset({"id", "model", "created"})
_REASONING = frozenset(REASONING_KEYS)
_CALLS = frozenset({"tool_calls", "function_call"})
# To look at a call once more takes about as long as to look at so many letters.
_LETTERS_OF_A_CALL = 500
_HOLDERS = frozenset({"function", "custom", "function_call"})


class _ChoiceReader(PartBuilder):
    """One choice as it arrives: its words, its calls, and what else was said of it."""

    calls: CallAssembler = field(default_factory=lambda: CallAssembler(CallJudge()))
    details: Details = field(default_factory=Details)
    audio: dict[str, Any] = field(default_factory=dict)
    content: Any = ABSENT
    spoken: int = 0
    waiting: PendingCalls = field(default_factory=PendingCalls)
    called: bool = False
    broken: bool = False
    has_own_citations: bool = False
    refused: bool = False
    finish_word: str | None = None
    rest: dict[str, Any] = field(default_factory=dict)
    left: dict[str, Any] = field(default_factory=dict)
    ending: Opaque | None = None

    def open(self, shell: Any) -> None:
        """Begin a part; an answer of one text without notes is one string on this wire."""
        self.spoken += 1 if type(shell) is Text and shell.opaque is None else 2
        super().open(shell)
        self.has_own_citations = False

    def close(self) -> None:
        """End the part that is open; details of reasoning are whole with it."""
        if type(self.part) is Thinking and (details := self.details.take()):
            spelling = spelling_of(self.part.opaque, ChatThinkingSpelling)
            self.part = replace(self.part, opaque=WIRE.mark({"reasoning_details": details}, spelling))
        super().close()


class Decoder(WireDecoder):
    """Reads chunks."""

    _shell: dict[str, Any] | None = None
    _beside: dict[str, Any] | None = None
    _step: Opaque | None = None
    _unended = 0

    def __init__(self) -> None:
        super().__init__()
        self._usage: dict[str, Any] = {}
        self._answers: dict[int, _ChoiceReader] = {}

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one chunk."""
        choices, usage = body.pop("choices", None), body.pop("usage", None)
        body.pop("obfuscation", None)
        error = None
        if body != self._beside:
            error = _take_error(body, alone=not choices and (name == b"error" or body.get("object") == "error"))
            if self._shell is None and _is_whole(choices):
                self.emit_response(decode_response({**body, "choices": choices, "usage": usage}))
                return
            if error is None or choices:
                self._read_beside(body, usage)
        for entry in number_choices(choices) if type(choices) is list else [choices] if choices else ():
            if type(entry) is dict:
                self._read_choice(entry)
            elif entry is not None:
                self._keep_odd({"choices": [entry]})
        if type(usage) is dict:
            self._read_usage(usage)
        elif usage:
            self._keep_odd({"usage": usage})
        if error is not None:
            self.fail(decode_error(None, {"error": error}))

    def _keep_odd(self, value: dict[str, Any], place: int = 0) -> None:
        """Keep what is of another type than anything that this wire has there."""
        self.events.append(OpaqueDelta(None, place, opaque=Opaque(DIALECT, value)))

    def _read_usage(self, usage: dict[str, Any]) -> None:
        """Read counts, wherever in a chunk they stand; a count that is not said again stays as it was."""
        said = {key: usage[key] for key in usage if usage[key] is not None}
        self.count_rescan(CHARACTERS_PER_MEMBER * len(self._usage))
        self._usage = usage if COUNTS.are_all_in(said) else {**usage, **self._usage, **said}
        self.events.append(UsageDelta(COUNTS.decode(self._usage, DIALECT)))

    def _read_beside(self, body: dict[str, Any], usage: Any) -> None:
        """Read what stands beside the choices: the shell of the answer with its first counts, or news of it."""
        shell, self._beside = self._shell, body
        if shell is None:
            self._shell = body
            self.events.append(MessageStart(_read_shell({**body, "usage": usage} if type(usage) is dict else body)))
            return
        news = changed_fields(shell, body)
        news = {key: news[key] for key in news if not (key in _NAMED_ONCE and shell.get(key))}
        match news.get("x_groq"):  # Groq, where nobody asked for counts (recorded streams, 2024-2026)
            case {"usage": dict(counts)}:
                self._read_usage(counts)
        if news:
            self.count_rescan(CHARACTERS_PER_MEMBER * len(shell))
            self._shell = {**shell, **news}
            self.events.append(MessageDelta(_read_shell(self._shell), opaque=Opaque(DIALECT, news)))

    def _read_choice(self, entry: dict[str, Any]) -> None:
        place, delta = entry.get("index"), entry.get("delta")
        if type(place) is not int:
            place = index_of(place) or 0
        answer = self._answers.get(place)
        if answer is None:
            answer = self._answers[place] = _ChoiceReader(self, place, calls=CallAssembler(self.judge))
            self._unended += 1
            self.done = False
        elif type(delta) is dict and _USUAL_DELTA.issuperset(delta) and _USUAL_CHOICE.issuperset(entry):
            text = delta.get("content")
            bare = entry.get("finish_reason") is None and entry.get("logprobs") is None
            if bare and type(text) is str and text and type(answer.part) is Text:
                self.events.append(TextDelta(answer.key, text))
                return
        delta = entry.get("message") if delta is None else delta
        if delta and type(delta) is not dict:
            self._keep_odd({"choices": [{"delta": delta}]}, answer.choice)
        self._read_odd_choice(entry, delta if type(delta) is dict else {}, answer)

    def _read_odd_choice(self, entry: dict[str, Any], delta: dict[str, Any], answer: _ChoiceReader) -> None:
        word, left = entry.get("finish_reason"), _without_nulls(entry, _OF_CHOICE)
        if type(left.get("usage")) is dict:  # Moonshot (platform.kimi.ai/docs/api/chat, 2026-08-26)
            self._read_usage(left.pop("usage"))
        if left:
            merge_fields(answer.left, left)
        ended = type(word) is str and word != ""
        step = {} if ended else left
        if delta or step:
            self._read_delta(delta, step, answer)
        if word and not ended:
            self._keep_odd({"finish_reason": word}, answer.choice)
        if ended:
            answer.ending = Opaque(DIALECT, left) if left else answer.ending
            self._unended -= answer.finish_word is None
            if answer.finish_word is None or (word == "tool_calls" and answer.calls.calls):
                answer.finish_word = word
            self.done = not self._unended
            answer.close()
            self._close_calls(answer, FINISH_REASONS.get(word or "", "unknown"), last=False)

    def _read_delta(self, delta: dict[str, Any], step: dict[str, Any], answer: _ChoiceReader) -> None:
        spoken = None if _REASONING.isdisjoint(delta) else _reasoning_key(delta)
        unknown = None
        if answer.content is ABSENT or not _OF_DELTA.issuperset(delta):
            unknown = self._read_unknown(delta, spoken, answer)
        self._step = Opaque(DIALECT, {**step, "delta": unknown} if unknown else step) if unknown or step else None
        words = delta.get("content") or delta.get("refusal") or delta.get("annotations")
        details = delta.get("reasoning_details")
        if answer.waiting and (words or details or spoken is not None):
            self._begin_calls(answer)
        if details or spoken is not None:
            self._read_thinking(delta, spoken, answer)
        if words:
            self._read_words(delta, answer)
        if not _CALLS.isdisjoint(delta):
            self._read_calls(delta, answer)
        if self._step is not None:
            self._say_step(answer)

    def _read_unknown(self, delta: dict[str, Any], spoken: str | None, answer: _ChoiceReader) -> dict[str, Any]:
        """Keep what nobody understands; give it, and what only this wire says: that there are no words."""
        unknown = _without_nulls(delta, _OF_DELTA)
        if spoken is not None:
            unknown.pop(spoken, None)
        for key, value in unknown.items():
            if key == "audio" and type(value) is dict:
                collect_texts(answer.audio, value, AUDIO_TEXTS)
            elif key != "reasoning_details" and not (key in REASONING_KEYS and value == ""):
                merge_fields(answer.rest, {key: value})
        if answer.content is ABSENT and "content" in delta and not delta["content"]:
            unknown["content"] = answer.content = delta["content"]
        return unknown

    def _take_step(self) -> Opaque | None:
        step, self._step = self._step, None
        return step

    def _say_step(self, answer: _ChoiceReader) -> None:
        if (step := self._take_step()) is not None:
            self.events.append(OpaqueDelta(None, answer.choice, repeated=True, opaque=step))

    def _read_thinking(self, delta: dict[str, Any], key: str | None, answer: _ChoiceReader) -> None:
        details: Any = delta.get("reasoning_details")
        news = details if type(details) is list else []
        if key is None and not news:
            return
        words = words_of(news) if key is None else delta[key]
        if type(answer.part) is not Thinking:
            spelling = ChatThinkingSpelling(key=key or "reasoning_details")
            answer.open(Thinking("", opaque=WIRE.mark({}, spelling)))
        answer.details.add(news)
        answer.add_text(answer.part, words, self._take_step())

    def _read_words(self, delta: dict[str, Any], answer: _ChoiceReader) -> None:
        content, refusal, notes = delta.get("content"), delta.get("refusal"), delta.get("annotations")
        if type(content) is str and content:
            answer.content = ""
            answer.add_text(Text(""), content, self._take_step())
        elif content:
            for block in content if type(content) is list else [content]:
                self._read_block(block, answer)
        for note in notes if type(notes) is list else [notes] if notes else ():
            citation = decode_citation(_without_nulls(note, frozenset({"index"})) if type(note) is dict else note)
            if citation is not None and not answer.calls.calls:
                answer.add_text(Text(""), "")
            if citation is None or type(answer.part) is not Text:
                answer.rest.setdefault("annotations", []).append(note)
                step = Opaque(DIALECT, {"delta": {"annotations": [note]}})
                self.events.append(OpaqueDelta(None, answer.choice, repeated=True, opaque=step))
                continue
            answer.spoken += 1
            add_citation(answer, citation)
            self.events.append(CitationDelta(answer.key, citation, opaque=self._take_step()))
        if type(refusal) is str and refusal:
            answer.refused = True
            answer.add_text(_REFUSED, refusal, self._take_step())
        elif refusal:
            self._keep_odd({"delta": {"refusal": refusal}}, answer.choice)

    def _read_block(self, block: Any, answer: _ChoiceReader) -> None:
        """Read a block of the servers that stream the list form of the content (Mistral)."""
        part: Any = decode_part(block)
        if type(part) is Thinking:
            opaque = WIRE.mark(part.opaque.value, ChatThinkingSpelling(key="content"))  # type: ignore[union-attr]
            shell = replace(part, text="", opaque=opaque)
            answer.add_text(shell, part.text, self._take_step())
            answer.part = shell
        elif type(part) is Text:
            answer.add_text(replace(part, text=""), part.text, self._take_step())
        else:
            answer.add(part)

    def _read_calls(self, delta: dict[str, Any], answer: _ChoiceReader) -> None:
        entries, legacy = delta.get("tool_calls"), delta.get("function_call")
        for entry in entries if type(entries) is list else [entries] if entries else ():
            if type(entry) is dict:
                custom = "custom" in entry and "function" not in entry
                self._read_call(entry, "custom" if custom else "function", answer)
            elif entry is not None:
                self._keep_odd({"delta": {"tool_calls": [entry]}}, answer.choice)
        if type(legacy) is dict and any(legacy.values()):
            self._read_call({"function_call": legacy}, "function_call", answer)
        elif legacy and type(legacy) is not dict:
            self._keep_odd({"delta": {"function_call": legacy}}, answer.choice)

    def _read_call(self, entry: dict[str, Any], key: str, answer: _ChoiceReader) -> None:
        value = entry.pop(key, None)
        inner: dict[str, Any] = value if type(value) is dict else {}
        field = "input" if key == "custom" else "arguments"
        call_id, name, text = entry.pop("id", None), inner.get("name"), inner.get(field)
        call_id = call_id if type(call_id) is str and call_id not in NO_IDS else None
        name = name if type(name) is str else None
        count = len(answer.calls.calls)
        call = answer.calls.find(call_id, index_of(entry.pop("index", None)), name, text)
        if len(answer.calls.calls) > count:
            self._go_to(call, answer)
        if type(text) is str:
            del inner[field]
        elif text is None and call.value is not None:
            inner.pop(field, None)
        elif text is not None:
            call.add_value(text, Reason.TWICE if type(text) is dict and self.repeats_a_key() else None)
        call.name, call.free_text = call.name or name or "", call.free_text or key == "custom"
        answer.waiting.note(call)
        if entry or inner or key not in call.entry:
            named = {} if name is None and not call.name else {"name": call.name}
            call.merge({**entry, key: {**inner, **named}})
        if value and type(value) is not dict:
            call.problem = call.problem or f"an object was expected, not {kind_of(value)}"
            self._keep_odd({"delta": {"tool_calls": [{key: value}]}}, answer.choice)
        if self.damaged:
            call.problem = Reason.NOT_UTF8
        if text and type(text) is str and not call.repeats(text):
            self._add_text(call, text, answer)
            answer.waiting.note(call)

    def _go_to(self, call: PartialCall, answer: _ChoiceReader) -> None:
        """Go to a new call: the one before has ended, if its text is whole."""
        self.done = False
        answer.close()
        self._begin_calls(answer)
        odd = answer.waiting.has_incomplete
        answer.waiting.add(call)
        before = answer.calls.calls[-2:][0]
        doubt = self.judge.waits(before) or (odd and not self.judge.refuses(before))
        if not before.closed and before is not call and before.is_whole() and not doubt:
            self._close_call(before, answer)

    def _add_text(self, call: PartialCall, fragment: str, answer: _ChoiceReader) -> None:
        """Add to the text of a call; a call that was told as whole was not, if more of its text comes."""
        if call.closed:
            self.judge.late(call, fragment)
            return
        if call.value:
            call.problem = call.problem or Reason.TWO_TEXTS
        if call.key is None and call.name:
            self._begin_calls(answer, call)
        call.add(fragment)
        if call.key is not None:
            self.events.append(CallDelta(call.key, fragment, opaque=self._take_step()))

    def _begin_calls(self, answer: _ChoiceReader, last: PartialCall | None = None) -> None:
        """Tell the calls that have a name, in their order, at most to the last."""
        for call in answer.waiting.take_named(last):
            self._start_call(call, answer)

    def _start_call(self, call: PartialCall, answer: _ChoiceReader) -> None:
        """Tell that a call begins; it is read as it would be if nothing of its text were to come."""
        call.key = self.new_key()
        answer.waiting.remove(call)
        answer.spoken += 2
        start = CallStart(call.key, call.id, call.name, call.index, choice=answer.choice, opaque=WIRE.plain)
        if not _is_plain(call):
            known = self._build(call, "")
            said = {field: getattr(known, field, None) for field in ("id", "name", "custom", "opaque")}
            start = replace(start, **(said if type(known) is ToolCall else {"opaque": None}))
        if self._step is not None:
            self._say_step(answer)
        self.events.append(start)
        if call.pieces:
            self.events.append(CallDelta(call.key, call.text))

    def _build(self, call: PartialCall, text: str) -> Any:
        if _is_plain(call):
            return ToolCall.parse(call.id, call.name, text, index=call.index, opaque=WIRE.plain)
        entry = dict(call.entry)
        keys = ("custom",) if entry.get("type") == "custom" else ("function_call", "function", "custom")
        key = next(key for key in keys if key in entry)
        # What holds the call is one of these: beside it another one is what an odd fragment brought.
        entry = {name: value for name, value in entry.items() if name == key or name not in _HOLDERS}
        entry[key] = dict(entry[key])
        field = "input" if key == "custom" else "arguments"
        if text or field not in entry[key]:
            entry[key][field] = text
        number = number_of((self._shell or {}).get("id"))
        if key == "function_call":
            return decode_legacy_call(entry, number)
        if call.id is not None:
            entry["id"] = call.id
        return decode_call(entry, number, call.index)

    def _close_call(self, call: PartialCall, answer: _ChoiceReader, reason: str | None = None) -> None:
        answer.calls.close(call)
        if call.key is None:
            self._start_call(call, answer)
        made = self._build(call, call.text)
        if type(made) is not ToolCall:
            made = ToolCall(call.id, call.name, {}, call.index, raw=call.text, error="it has no name")
            call.problem = made.error
        if made.custom and reason in CUT:
            made = replace(made, complete=False)
        if (judged := self.judge.close(call, made)) is not None:
            self._end_call(call, judged, answer)

    def _end_call(self, call: PartialCall, made: ToolCall, answer: _ChoiceReader) -> None:
        answer.called, answer.broken = answer.called or made.complete, answer.broken or not made.complete
        self.events.append(CallEnd(call.key, made))  # type: ignore[arg-type]

    def _close_calls(self, answer: _ChoiceReader, reason: Any, *, whole: bool = True, last: bool = True) -> None:
        """End the calls that are open; those without arguments only at the end, for arguments may come late."""
        unclosed = list(answer.calls.unclosed.values())
        if not unclosed:
            return
        self._begin_calls(answer)
        self.count_rescan(_LETTERS_OF_A_CALL * (len(answer.calls.calls) + len(self.judge.by_position)))
        answer.calls.report()
        self.judge.check_matches(answer.calls.last if reason in CUT else ())
        for call in unclosed:
            if last or not (call.is_empty or call.by_position):
                call.problem = call.problem if whole else call.problem or Reason.NEVER_ENDED
                self._close_call(call, answer, reason)
        for call, made in self.judge.end(reason, answer.calls.last, ended=whole):
            self._end_call(call, made, answer)

    def end(self, *, complete: bool) -> None:
        """End the stream, after a report of the text that reached no call."""
        for answer in self._answers.values():
            answer.calls.report()
        super().end(complete=complete)

    def cut_calls(self, *, cut: bool) -> list[PartialCall]:
        """Return the calls that the ends of their answers may have cut off."""
        ended = [
            answer for answer in self._answers.values() if cut or FINISH_REASONS.get(answer.finish_word or "") in CUT
        ]
        return [call for answer in ended for call in answer.calls.last]

    def end_choices(self, reason: str | None) -> None:
        """End what is open, and every answer; an answer that nothing ended is incomplete.

        Where the wire said that all is over, and not why, an answer of which nothing is half has ended well.
        """
        for index in sorted(self._answers, key=rank):
            answer = self._answers[index]
            if answer.audio:
                answer.rest["audio"] = join_texts(answer.audio, AUDIO_TEXTS)
                for part in take_audio(answer.rest):
                    answer.add(part)
            answer.close()
            word = None if reason == "error" else answer.finish_word
            cut = reason or "incomplete" if word is None else FINISH_REASONS.get(word, "unknown")
            self._close_calls(answer, cut, whole=reason is None)
            finish = read_finish(answer.finish_word, called=answer.called, refused=answer.refused)
            if word is None:
                finish = cut if reason is not None or answer.broken else finish or "stop"
            constants = {} if answer.content is ABSENT else {"content": answer.content}
            message = Message("assistant", [], opaque=WIRE.mark(answer.rest, ChatMessageSpelling(constants=constants)))
            if answer.content == "" and answer.spoken <= 1:
                message = replace(message, content="", opaque=WIRE.mark(answer.rest))
            opaque = WIRE.mark(answer.left, ChatChoiceSpelling(constants={"index": index}))
            shell = Choice(message, finish, answer.finish_word, opaque=opaque)
            self.events.append(ChoiceEnd(index, shell, opaque=answer.ending))


def _is_whole(choices: Any) -> bool:
    """Whether a chunk is no chunk, but a whole answer."""
    entry = choices[0] if type(choices) is list and choices else None
    return type(entry) is dict and "delta" not in entry and "message" in entry


def _read_shell(body: dict[str, Any]) -> Any:
    unparsed = body.copy()
    constants = {"object": "chat.completion"} if unparsed.pop("object", None) == CHUNK else {}
    return decode_shell(unparsed, [], ChatResponseSpelling(constants=constants))


def _is_plain(call: PartialCall) -> bool:
    """Whether a call says its id and its name, and nothing else beside its text."""
    plain = call.id is not None and call.entry == {"type": "function", "function": {"name": call.name}}
    return plain and "__tw" not in f"{call.id} {call.name}"


def _take_error(body: dict[str, Any], *, alone: bool) -> Any:
    """Take an error out of a chunk; servers of vLLM say one that is the chunk, and then [DONE] (2024-2026)."""
    error = body.pop("error", None)
    if error is None and alone:
        error = {key: body.pop(key) for key in ("message", "type", "param", "code") if key in body}
    return error


def _without_nulls(body: dict[str, Any], taken: frozenset[str]) -> dict[str, Any]:
    if taken.issuperset(body):
        return {}
    return {key: value for key, value in body.items() if value is not None and key not in taken}


def _reasoning_key(delta: dict[str, Any]) -> str | None:
    """Give the key under which a delta says its reasoning, if it says any."""
    for key in REASONING_KEYS:
        if type(text := delta.get(key)) is str and (text or delta.get("reasoning_details")):
            return key
    return None


def decode_stream() -> StreamDecoder:
    """Read a stream."""
    return Decoder()
