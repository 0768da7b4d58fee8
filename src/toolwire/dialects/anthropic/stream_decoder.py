"""Streams of the Messages API, read: blocks that start, grow and stop.

Rules of this file:
- A block is read as it would be in a response, when it starts and again when it stops with all that it got.
- A call is closed by its stop. The judge of calls decides whether it may run, and whether it waits for the end.
- An index that is missing means the one block that is open. If several are, the text may be that of each of them.
- Another model writes what follows a `fallback` block; a call right before it may be half a call.
- A delta for a block of another kind is never added to it. Words become a part of their own, input becomes a call
  that is not usable.
- An event whose type does not fit what it holds is what it holds.
"""

from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.anthropic.calls import decode_call
from toolwire.dialects.anthropic.error import decode_error
from toolwire.dialects.anthropic.parts import DIALECT, FALLBACK, WIRE, decode_citation, decode_part
from toolwire.dialects.anthropic.response import FINISH_REASONS, decode_response, decode_usage
from toolwire.encoding.calls import misplaced
from toolwire.encoding.finish import CUT, cut_off, wants_calls
from toolwire.streams import StreamDecoder, WireDecoder
from toolwire.streams.call_judge import PartialCall, Reason
from toolwire.streams.calls import index_of
from toolwire.streams.reading import LETTERS_OF_A_MEMBER
from toolwire.types import (
    CallDelta,
    CallEnd,
    Choice,
    ChoiceEnd,
    CitationDelta,
    Message,
    MessageDelta,
    MessageStart,
    Opaque,
    OpaqueDelta,
    PartEnd,
    PartStart,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    UsageDelta,
)
from toolwire.wire.arguments import parse_arguments, type_name
from toolwire.wire.names import generate_call_id, number_of

WORDS = {"text": "text", "thinking": "thinking"}
_GROWS = {"text_delta": "text", "thinking_delta": "thinking"}
_HOLDS = {"input_json_delta": "partial_json", **_GROWS}
EVENTS: dict[str, Any] = {"text": TextDelta, "thinking": ThinkingDelta}
_TELLING = frozenset({"content_block", "delta"})
_BEFORE = frozenset({"message_start", "message", "ping", "error"})
# How many fields an event has that says nothing beside what it carries.
_FIELDS = {"message_stop": 1, "ping": 1, "content_block_start": 3, "content_block_delta": 3, "content_block_stop": 2}
_OF_EVENTS = frozenset({"type", "message", "index", "content_block", "delta"})
_OF_START = frozenset({"type", "role", "content", "usage", "stop_reason", "stop_sequence"})
_OF_MESSAGE_DELTA = frozenset({"type", "delta", "usage"})
_ENDINGS = ("stop_reason", "stop_sequence")
_OF_ENDING = frozenset(_ENDINGS)


class _BlockReader(Struct, eq=False):
    """One block as it arrives; a call has the text of its input, so has a server's tool.

    `grows` is the field of its words, `grown` holds the pieces of other texts, `notes` its citations. `index` is
    the one it has, or one below zero if its start had none.
    """

    key: int
    body: dict[str, Any]
    call: PartialCall
    grown: dict[str, list[str]] = {}
    notes: list[Any] | None = None
    grows: str | None = None
    is_call: bool = False
    index: int = 0

    def __post_init__(self) -> None:
        kind = self.body.get("type")
        self.grows = WORDS.get(kind) if type(kind) is str else None
        self.is_call = kind == "tool_use" and type(self.body.get("name")) is str

    def cite(self, citation: dict[str, Any]) -> None:
        """Add where the text says that it comes from."""
        if self.notes is None:
            known = self.body.get("citations")
            self.body["citations"] = self.notes = list(known) if type(known) is list else []
        self.notes.append(citation)

    def add(self, news: dict[str, Any]) -> None:
        """Add what a delta says that nobody understands: texts grow, all else is replaced."""
        for key, value in news.items():
            before = self.body.get(key)
            if type(before) is str and type(value) is str:
                self.grown.setdefault(key, [before]).append(value)
            else:
                self.body[key] = value
                self.grown.pop(key, None)

    def whole(self) -> dict[str, Any]:
        """Give the block with all that it got."""
        return self.body | {key: "".join(pieces) for key, pieces in self.grown.items()}


class Decoder(WireDecoder):
    """Reads the events of a stream."""

    def __init__(self) -> None:
        super().__init__()
        self._started = False
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[Any, _BlockReader] = {}
        self._ended: dict[Any, PartialCall] = {}
        self._by_id: dict[str, PartialCall] = {}
        self._strays: list[str] = []
        self._last: _BlockReader | None = None
        self._calls = self._count = 0

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one event."""
        kind = body.get("type")
        kind = kind if type(kind) is str else name.decode(errors="replace")
        if kind != "content_block_delta" or type(body.get("delta")) is not dict:
            kind = kind if _TELLING.isdisjoint(body) else _kind_of(body, kind)
        if not self._started and kind not in _BEFORE and "error" not in body:
            self._start_message({})
        if self._started and len(body) > _FIELDS.get(kind, len(body)):
            self._keep({key: body[key] for key in body if key not in _OF_EVENTS})
        if kind == "content_block_delta" and type(delta := body.get("delta")) is dict:
            self._read_delta(body, delta, delta.get("type"))
            return
        read = self.READERS.get(kind)
        if read is not None:
            read(self, body)
        elif type(body.get("error")) is dict:
            self.fail(decode_error(None, body))
        elif kind != "ping":
            if (block := self._blocks.get(index_of(body.get("index")))) is not None:
                block.call.unread = True
            self._keep(body)

    def _keep(self, body: dict[str, Any]) -> None:
        """Keep an event of which something is not read."""
        if body:
            self.events.append(OpaqueDelta(opaque=Opaque(DIALECT, body)))

    def _read_delta(self, body: dict[str, Any], delta: dict[str, Any], kind: Any) -> None:
        index, kind = body.get("index"), kind if type(kind) is str else ""
        block = self._blocks.get(index) if type(index) is int else self._find_open(index)
        block = self._adopt_index(index) if block is None else block
        if _HOLDS.get(kind) not in delta:
            kind = _kind_of_delta(delta, kind, block)
        grows = _GROWS.get(kind)
        if grows is not None and type(words := delta.get(grows)) is str:
            left = Opaque(DIALECT, _without(delta, grows)) if len(delta) > 2 else None
            if block is None:
                block = self._start_words(index, grows)
            if grows == block.grows:
                self.events.append(EVENTS[grows](block.key, words, opaque=left))
            elif words:
                loose = self._start_words(None, grows)
                self.events.append(EVENTS[grows](loose.key, words, opaque=left))
                self._stop_block({"index": loose.index})
            return
        if block is None or not self._read_odd_delta(delta, kind, block):
            if block is not None and any(delta[key] for key in delta if key != "type"):
                block.call.unread = True
            self._report_stray(index_of(index), delta.get("partial_json"))
            self._keep(body)

    def _find_open(self, index: Any) -> _BlockReader | None:
        """Return the block of an index; without one, the only open block."""
        number = index_of(index)
        if number is not None:
            return self._blocks.get(number)
        only = self._only_block()
        if only is None:
            self.judge.ambiguous()
        elif only.index >= 0 and only.is_call:
            self.judge.matched_by_position(only.call)
        return only

    def _adopt_index(self, index: Any) -> _BlockReader | None:
        """If the only open block started without an index, and is in the place `index`, give it that index.

        Some proxies omit the index on `content_block_start`.
        """
        number, block = index_of(index), self._only_block()
        if number is None or block is None or block.index != -1 - number or number in self._ended:
            return None
        block.index, self._blocks = number, {number: block}
        if block.is_call:
            self.judge.matched_by_position(block.call)
        return block

    def _only_block(self) -> _BlockReader | None:
        """Give the one block that is open; None where there are several, or none."""
        if len(self._blocks) != 1:
            return None
        self._blocks = dict(self._blocks.items())  # a dict that has lost many entries is slow to begin with
        return next(iter(self._blocks.values()))

    def _start_words(self, index: Any, grows: str) -> _BlockReader:
        """Begin a block of words that was not announced."""
        self._start_block({"index": index, "content_block": {"type": grows, grows: ""}})
        return next(reversed(self._blocks.values()))

    def _report_stray(self, index: int | None, text: Any) -> None:
        """Report input that reached no open call; in the place after the last block, the start of its call was lost."""
        ended = self._ended.get(index)
        if text in (None, ""):
            return
        self._strays.append(text if type(text) is str else "")
        if ended is not None:
            self.judge.late(ended, text)
        else:
            self.judge.stray(text, own=index == self._count)

    def _read_odd_delta(self, delta: dict[str, Any], kind: Any, block: _BlockReader) -> bool:
        """Read a delta that is not words; whether it belongs to this block."""
        if kind == "input_json_delta":
            return self._read_fragment(delta, block)
        match kind, delta:
            case "signature_delta", {"signature": str(signature)} if block.grows == "thinking":
                block.body["signature"] = signature
                self.events.append(SignatureDelta(block.key, signature))
            case "citations_delta", {"citation": dict(citation)} if block.grows == "text":
                block.cite(citation)
                self.events.append(CitationDelta(block.key, decode_citation(citation)))
            case str(), _ if kind not in _KINDS and block.grows is None and not block.is_call:
                block.add(_without(delta, "type"))
                self.events.append(OpaqueDelta(block.key, opaque=Opaque(DIALECT, delta)))
            case _:
                return False
        return True

    def _read_fragment(self, delta: dict[str, Any], block: _BlockReader) -> bool:
        fragment = delta.get("partial_json")
        if not block.is_call and "input" not in block.body:
            return False
        if type(fragment) is not str:
            if fragment is not None:
                block.call.problem = block.call.problem or f"a text was expected, not {type_name(fragment)}"
            return False
        block.call.add(fragment)
        if self.damaged:
            block.call.problem = Reason.NOT_UTF8
        if block.is_call:
            self.events.append(CallDelta(block.key, fragment))
        else:
            self.events.append(OpaqueDelta(block.key, opaque=Opaque(DIALECT, delta)))
        return True

    def _start_message(self, body: dict[str, Any]) -> None:
        message = body.get("message")
        odd = {"message": message} if message and type(message) is not dict else {}
        message = message if type(message) is dict else {}
        if content := message.pop("content", None):
            odd = {"message": {"content": content}}
        odd |= {key: body[key] for key in body if key not in _OF_EVENTS}
        if self._started:
            known = self._message
            news = {key: message[key] for key in message if key not in _OF_START and known.get(key) != message[key]}
            self._read_message_delta({"delta": news, "usage": message.get("usage")})
            self._keep(odd)
            return
        self._started = True
        self._message = message
        self._usage = message["usage"] if type(message.get("usage")) is dict else {}
        self.events.append(MessageStart(self._read_shell()))
        self._keep(odd)

    def _read_shell(self) -> Any:
        self.strain(LETTERS_OF_A_MEMBER * len(self._message))
        known = self._message.copy()
        for key in _ENDINGS:
            known.pop(key, None)
        if self._usage:
            known["usage"] = self._usage
        shell = decode_response(known)
        return replace(shell, choices=[]) if shell.choices else shell

    def _read_whole(self, body: dict[str, Any]) -> None:
        self.replay(decode_response(body))

    def _start_block(self, body: dict[str, Any]) -> None:
        index, block = body.get("index"), body.get("content_block")
        if type(block) is not dict:
            self._keep(body)
            return
        self._note_change(block)
        place = index_of(index)
        if place is None:
            place = -1 - self._count
        before = self._blocks.get(place)
        if before is not None:
            self._stop_block({"index": place}, whole=None)
        key = self.new_key()
        made = _BlockReader(key, dict(block), PartialCall(index=self._calls, key=key))
        made.index = place
        self._count += 1
        self._blocks[place] = self._last = made
        ended = self._ended.pop(place, None)
        if made.is_call:
            self._open_call(made, ended)
            return
        words = ""
        if made.grows is not None:
            text = block.get(made.grows)
            if text and type(text) is not str:
                self._keep(body)
            words, made.body[made.grows] = text if type(text) is str else "", ""
        self.events.append(PartStart(made.key, decode_part(dict(made.body))))
        if words:
            self.events.append(EVENTS[str(made.grows)](made.key, words))

    def _note_change(self, block: dict[str, Any]) -> None:
        """Note which model goes on after a refusal, which may have cut off the call before it."""
        if block.get("type") != FALLBACK:
            return
        if self._last is not None:
            self.judge.cut(self._last.call)
        match block.get("to"):
            case {"model": str(model)} if model != self._message.get("model"):
                self._message["model"] = model
                self.events.append(MessageDelta(self._read_shell(), opaque=WIRE.plain))

    def _open_call(self, block: _BlockReader, ended: PartialCall | None) -> None:
        self._calls += 1
        call, call_id = block.call, block.body.get("id")
        call.id, call.name = str(call_id) if call_id else None, block.body["name"]
        call.given = block.body.get("input") or None
        if call.given and self.repeats_a_key():
            call.problem = Reason.TWICE
        self.judge.opened(call, ended, self._by_id.get(call.id or ""))
        if call.id is not None:
            self._by_id[call.id] = call
        self.start_call(block.key, self._build(block, {}))

    def _build(self, block: _BlockReader, arguments: dict[str, Any]) -> Any:
        body = {**block.body, "input": arguments}
        return decode_call(body, number_of(self._message.get("id")), block.call.index)

    def _stop_block(self, body: dict[str, Any], *, whole: bool | None = True) -> None:
        index = body.get("index")
        if type(index) is not int and index_of(index) is None and (only := self._only_block()) is not None:
            index = only.index
        block = self._blocks.pop(index_of(index), None)
        if block is None:
            return
        if block.is_call:
            self._ended[block.index] = block.call
            self._stop_call(block, whole=whole)
            return
        if (text := block.call.text).strip():
            arguments, error = parse_arguments(text)
            if error is None:
                block.body["input"] = arguments
        self.events.append(PartEnd(block.key, decode_part(block.whole())))

    def _stop_call(self, block: _BlockReader, *, whole: bool | None) -> None:
        partial, given = block.call, block.call.given
        arguments, error = _read_input(text := partial.text, given)
        call = self._build(block, arguments)
        if error is not None:
            call = replace(call, raw=text or str(given), error=error)
        if partial.is_empty and not partial.unread:
            partial.problem = partial.problem or misplaced(block.body)
        if (judged := self.judge.close(partial, call, whole=whole)) is not None:
            self.events.append(CallEnd(block.key, judged))

    def cut_calls(self, *, cut: bool) -> tuple[PartialCall, ...]:
        """Return the call that the end of the answer may have cut off."""
        cut = cut or FINISH_REASONS.get(str(self._message.get("stop_reason"))) in CUT
        return (self._last.call,) if cut and self._last is not None else ()

    def _tell_stray(self) -> None:
        """Emit input that reached no call as a call that is not usable."""
        if self._strays:
            key, raw = self.new_key(), "".join(self._strays)
            call_id = generate_call_id(number_of(self._message.get("id")), self._calls)
            error = str(Reason.STRAY_TEXT)
            call = cut_off(ToolCall(call_id, "", {}, self._calls, raw=raw, error=error, opaque=WIRE.plain))
            self.start_call(key, call)
            self.end_whole_call(key, call)

    def _read_message_delta(self, body: dict[str, Any]) -> None:
        delta, usage = body.get("delta"), body.get("usage")
        for key, value in (("delta", delta), ("usage", usage)):
            if value and type(value) is not dict:
                self._keep({key: value})
        news = delta.copy() if type(delta) is dict else {}
        if not _OF_MESSAGE_DELTA.issuperset(body):
            news.update({key: body[key] for key in body if key not in _OF_MESSAGE_DELTA})
        news.pop("type", None)
        changed = {key: news[key] for key in news if news[key] is not None or key not in self._message}
        self._message.update(changed)
        raw = self._message.get("stop_reason")
        for key in _ENDINGS:
            if (value := changed.get(key)) and type(value) is not str:
                self._keep({"delta": {key: value}})
        if type(raw) is str:
            self._stop_all(whole=None)
        if type(usage) is dict:
            known = {key: usage[key] for key in usage if usage[key] is not None or key not in self._usage}
            self.strain(LETTERS_OF_A_MEMBER * len(self._usage))
            self._usage = {**self._usage, **known}
            self.events.append(UsageDelta(decode_usage(self._usage)))
        if not _OF_ENDING.issuperset(changed):
            told = {key: changed[key] for key in changed if key not in _OF_ENDING}
            self.events.append(MessageDelta(self._read_shell(), opaque=Opaque(DIALECT, told)))

    def _stop_message(self, body: dict[str, Any]) -> None:
        del body
        self.end(complete=True)

    def _stop_all(self, *, whole: bool | None) -> None:
        """End the blocks that nothing stopped; a call only counts if its text is an object."""
        for index in list(self._blocks):
            self._stop_block({"index": index}, whole=whole)

    def settle(self, reason: str | None) -> None:
        """End what is open, and the answer."""
        self._stop_all(whole=None if reason is None else False)
        word = self._message.get("stop_reason")
        cut = FINISH_REASONS.get(word, "unknown") if type(word) is str else reason or "incomplete"
        last = () if self._last is None else (self._last.call,)
        waited = self.judge.end(cut, last, ended=reason is None)
        self.events += [CallEnd(partial.key, call) for partial, call in waited]  # type: ignore[arg-type]
        half = None if all(call.complete for _, call in waited) else "incomplete"
        self._tell_stray()
        if not self._started:
            return
        raw, stop = (told if type(told := self._message.get(key)) is str else None for key in _ENDINGS)
        finish: Any = wants_calls(FINISH_REASONS.get(raw, "unknown") if raw else None, called=self.judge.called)
        if reason is not None or raw is None:
            finish = reason or half or ("tool_calls" if self.judge.called else "stop")
        message = Message("assistant", [], opaque=WIRE.plain)
        self.events.append(ChoiceEnd(0, Choice(message, finish, raw, stop, WIRE.plain)))

    READERS: ClassVar[dict[str, Any]] = {
        "message_start": _start_message,
        "content_block_start": _start_block,
        "content_block_stop": _stop_block,
        "message_delta": _read_message_delta,
        "message_stop": _stop_message,
        "message": _read_whole,
    }


def _without(body: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != key}


def _kind_of(body: dict[str, Any], kind: str) -> str:
    """Give the kind of an event by what it holds, where its type does not fit that."""
    if type(body.get("content_block")) is dict:
        return "content_block_start"
    delta = body.get("delta")
    if type(delta) is dict and not _HELD.isdisjoint(delta):
        ending = kind == "message_delta" and "index" not in body and delta.get("type") not in (*_KINDS,)
        return kind if ending else "content_block_delta"
    return "message_delta" if type(delta) is dict and not _OF_ENDING.isdisjoint(delta) else kind


def _kind_of_delta(delta: dict[str, Any], kind: str, block: _BlockReader | None) -> str:
    """Give the kind of a delta by what it holds, where its type is not known or does not fit that."""
    known = block is not None and type(block.body.get("type")) is str
    if kind and known and kind not in _KINDS and block is not None and block.grows is None and not block.is_call:
        return kind
    return next((kind for kind, field in _HOLDS.items() if type(delta.get(field)) is str), kind)


def _read_input(text: str, first: Any) -> tuple[dict[str, Any], str | None]:
    """Read the arguments of a call from the text of its deltas, or from its start."""
    if not text:
        if type(first) is dict or first is None:
            return first or {}, None
        return parse_arguments(first) if type(first) is str else ({}, f"an object was expected, not {type_name(first)}")
    return parse_arguments(text)


_HELD = frozenset(_HOLDS.values())
_KINDS = frozenset({*_GROWS, "input_json_delta", "signature_delta", "citations_delta"})


def decode_stream() -> StreamDecoder:
    """Read a stream."""
    return Decoder()
