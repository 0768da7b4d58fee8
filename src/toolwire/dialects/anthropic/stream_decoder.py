"""The decoder of Messages streams: blocks that start, grow and stop.

Rules of this file:
- A block is decoded as in a response: once when it starts, and again with all of its deltas when it stops.
- The `content_block_stop` of a call closes it. The judge of calls decides whether the call may run, and whether it
  waits for the end of the answer.
- An event without an index belongs to the only open block. If several blocks are open, its text may be that of each
  of them.
- After a `fallback` block another model writes. A call right before it may be cut off.
- A delta is never added to a block of another type. Text becomes a part of its own, and input becomes a call that is
  not usable.
- If the type of an event contradicts its fields, the fields count.
"""

from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.anthropic.calls import decode_call
from toolwire.dialects.anthropic.error import decode_error
from toolwire.dialects.anthropic.parts import DIALECT, FALLBACK, WIRE, decode_citation, decode_part
from toolwire.dialects.anthropic.response import FINISH_REASONS, decode_response, decode_usage
from toolwire.encoding.calls import find_misplaced_arguments
from toolwire.encoding.finish import CUT, cut_off, infer_finish_reason
from toolwire.streams import StreamDecoder, WireDecoder
from toolwire.streams.call_judge import PartialCall, Reason
from toolwire.streams.calls import index_of
from toolwire.streams.reading import CHARACTERS_PER_MEMBER
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

_TEXT_FIELDS = {"text": "text", "thinking": "thinking"}
_TEXT_DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}
_DELTA_FIELDS = {"input_json_delta": "partial_json", **_TEXT_DELTAS}
_TEXT_EVENTS: dict[str, Any] = {"text": TextDelta, "thinking": ThinkingDelta}
_PAYLOAD_FIELDS = frozenset({"content_block", "delta"})
_BEFORE_MESSAGE = frozenset({"message_start", "message", "ping", "error"})
# The number of fields of an event that has no unknown fields.
_FIELD_COUNTS = {
    "message_stop": 1,
    "ping": 1,
    "content_block_start": 3,
    "content_block_delta": 3,
    "content_block_stop": 2,
}
_EVENT_FIELDS = frozenset({"type", "message", "index", "content_block", "delta"})
_MESSAGE_FIELDS = frozenset({"type", "role", "content", "usage", "stop_reason", "stop_sequence"})
_MESSAGE_DELTA_FIELDS = frozenset({"type", "delta", "usage"})
_STOP_FIELDS = ("stop_reason", "stop_sequence")
_STOP_FIELD_NAMES = frozenset(_STOP_FIELDS)


class _BlockReader(Struct, eq=False):
    """One block as it arrives.

    - `body`: the block of its start event, with what its deltas have changed.
    - `call`: the text of its `input`, for a call and for a call of a server tool.
    - `text_field`: the field that its text deltas extend, or None.
    - `other_texts`: the pieces of each other text that deltas of unknown types extend, by field.
    - `citations`: the citations in `body`, once a delta has added one.
    - `index`: its index, or a negative number if its start event had none.
    """

    key: int
    body: dict[str, Any]
    call: PartialCall
    other_texts: dict[str, list[str]] = {}
    citations: list[Any] | None = None
    text_field: str | None = None
    is_call: bool = False
    index: int = 0

    def __post_init__(self) -> None:
        block_type = self.body.get("type")
        self.text_field = _TEXT_FIELDS.get(block_type) if type(block_type) is str else None
        self.is_call = block_type == "tool_use" and type(self.body.get("name")) is str

    def cite(self, citation: dict[str, Any]) -> None:
        """Append a citation to those of the block."""
        if self.citations is None:
            citations = self.body.get("citations")
            self.body["citations"] = self.citations = list(citations) if type(citations) is list else []
        self.citations.append(citation)

    def merge(self, fields: dict[str, Any]) -> None:
        """Merge the fields of a delta of an unknown type. Texts are joined, other values are replaced."""
        for key, value in fields.items():
            previous = self.body.get(key)
            if type(previous) is str and type(value) is str:
                self.other_texts.setdefault(key, [previous]).append(value)
            else:
                self.body[key] = value
                self.other_texts.pop(key, None)

    def join(self) -> dict[str, Any]:
        """Return the body of the block with all of its deltas."""
        return self.body | {key: "".join(pieces) for key, pieces in self.other_texts.items()}


class Decoder(WireDecoder):
    """A decoder of one Messages stream.

    - `_message`: the fields of the message so far, without `content`.
    - `_usage`: the token counts so far.
    - `_blocks`: the open blocks by index. An index is negative if the start event had none.
    - `_ended_calls`: the last call that ended at each index.
    - `_stray_texts`: the pieces of input that belong to no open call.
    - `_last_block`: the block that started last.
    """

    def __init__(self) -> None:
        super().__init__()
        self._started = False
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[Any, _BlockReader] = {}
        self._ended_calls: dict[Any, PartialCall] = {}
        self._calls_by_id: dict[str, PartialCall] = {}
        self._stray_texts: list[str] = []
        self._last_block: _BlockReader | None = None
        self._call_count = self._block_count = 0

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one event. `name` is its SSE event name, which counts if the body has no `type`."""
        event_type = body.get("type")
        event_type = event_type if type(event_type) is str else name.decode(errors="replace")
        if event_type != "content_block_delta" or type(body.get("delta")) is not dict:
            event_type = event_type if _PAYLOAD_FIELDS.isdisjoint(body) else _infer_event_type(body, event_type)
        if not self._started and event_type not in _BEFORE_MESSAGE and "error" not in body:
            self._start_message({})
        if self._started and len(body) > _FIELD_COUNTS.get(event_type, len(body)):
            self._emit_opaque({key: body[key] for key in body if key not in _EVENT_FIELDS})
        if event_type == "content_block_delta" and type(delta := body.get("delta")) is dict:
            self._read_delta(body, delta, delta.get("type"))
            return
        read = self.READERS.get(event_type)
        if read is not None:
            read(self, body)
        elif type(body.get("error")) is dict:
            self.fail(decode_error(None, body))
        elif event_type != "ping":
            if (block := self._blocks.get(index_of(body.get("index")))) is not None:
                block.call.unread = True
            self._emit_opaque(body)

    def _emit_opaque(self, body: dict[str, Any]) -> None:
        """Emit the fields of an event that the decoder does not understand, so that the encoder can replay them."""
        if body:
            self.events.append(OpaqueDelta(opaque=Opaque(DIALECT, body)))

    def _read_delta(self, body: dict[str, Any], delta: dict[str, Any], delta_type: Any) -> None:
        """Read a `content_block_delta`: more text, or another delta of its block.

        Text for no open block, or for one of another type, becomes a part of its own.
        """
        index, delta_type = body.get("index"), delta_type if type(delta_type) is str else ""
        block = self._blocks.get(index) if type(index) is int else self._find_open_block(index)
        block = self._adopt_index(index) if block is None else block
        if _DELTA_FIELDS.get(delta_type) not in delta:
            delta_type = _infer_delta_type(delta, delta_type, block)
        text_field = _TEXT_DELTAS.get(delta_type)
        if text_field is not None and type(text := delta.get(text_field)) is str:
            opaque = Opaque(DIALECT, _without(delta, text_field)) if len(delta) > 2 else None
            if block is None:
                block = self._start_text_block(index, text_field)
            if text_field == block.text_field:
                self.events.append(_TEXT_EVENTS[text_field](block.key, text, opaque=opaque))
            elif text:
                separate = self._start_text_block(None, text_field)
                self.events.append(_TEXT_EVENTS[text_field](separate.key, text, opaque=opaque))
                self._stop_block({"index": separate.index})
            return
        if block is None or not self._read_other_delta(delta, delta_type, block):
            if block is not None and any(delta[key] for key in delta if key != "type"):
                block.call.unread = True
            self._report_stray(index_of(index), delta.get("partial_json"))
            self._emit_opaque(body)

    def _find_open_block(self, index: Any) -> _BlockReader | None:
        """Return the open block with `index`, or the only open block if `index` is no number."""
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
        """If the only open block started without an index and has the position `index`, set its index.

        Some proxies omit the index on `content_block_start`. Return the block, or None.
        """
        number, block = index_of(index), self._only_block()
        if number is None or block is None or block.index != -1 - number or number in self._ended_calls:
            return None
        block.index, self._blocks = number, {number: block}
        if block.is_call:
            self.judge.matched_by_position(block.call)
        return block

    def _only_block(self) -> _BlockReader | None:
        """Return the only open block, or None if no block or several blocks are open."""
        if len(self._blocks) != 1:
            return None
        self._blocks = dict(self._blocks.items())  # iterating over a dict is slow after it has lost many entries
        return next(iter(self._blocks.values()))

    def _start_text_block(self, index: Any, text_field: str) -> _BlockReader:
        """Start a block for text that came without a start event, and return it."""
        self._start_block({"index": index, "content_block": {"type": text_field, text_field: ""}})
        return next(reversed(self._blocks.values()))

    def _report_stray(self, index: int | None, text: Any) -> None:
        """Report `text` of an input that belongs to no open call.

        If `index` is that of the next block, the start event of its call was lost.
        """
        ended = self._ended_calls.get(index)
        if text in (None, ""):
            return
        self._stray_texts.append(text if type(text) is str else "")
        if ended is not None:
            self.judge.late(ended, text)
        else:
            self.judge.stray(text, of_lost_call=index == self._block_count)

    def _read_other_delta(self, delta: dict[str, Any], delta_type: Any, block: _BlockReader) -> bool:
        """Read a delta that is not text. Return False if it does not fit `block`."""
        if delta_type == "input_json_delta":
            return self._read_fragment(delta, block)
        match delta_type, delta:
            case "signature_delta", {"signature": str(signature)} if block.text_field == "thinking":
                block.body["signature"] = signature
                self.events.append(SignatureDelta(block.key, signature))
            case "citations_delta", {"citation": dict(citation)} if block.text_field == "text":
                block.cite(citation)
                self.events.append(CitationDelta(block.key, decode_citation(citation)))
            case str(), _ if delta_type not in _DELTA_TYPES and block.text_field is None and not block.is_call:
                block.merge(_without(delta, "type"))
                self.events.append(OpaqueDelta(block.key, opaque=Opaque(DIALECT, delta)))
            case _:
                return False
        return True

    def _read_fragment(self, delta: dict[str, Any], block: _BlockReader) -> bool:
        """Read a fragment of the input. Return False if it does not fit `block`, or is no text."""
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
        """Start the message, or merge a repeated start into it."""
        message = body.get("message")
        unparsed = {"message": message} if message and type(message) is not dict else {}
        message = message if type(message) is dict else {}
        if content := message.pop("content", None):
            unparsed = {"message": {"content": content}}
        unparsed |= {key: body[key] for key in body if key not in _EVENT_FIELDS}
        if self._started:
            fields = [key for key in message if key not in _MESSAGE_FIELDS]
            changed = {key: message[key] for key in fields if self._message.get(key) != message[key]}
            self._read_message_delta({"delta": changed, "usage": message.get("usage")})
            self._emit_opaque(unparsed)
            return
        self._started = True
        self._message = message
        self._usage = message["usage"] if type(message.get("usage")) is dict else {}
        self.events.append(MessageStart(self._decode_shell()))
        self._emit_opaque(unparsed)

    def _decode_shell(self) -> Any:
        """Decode the message so far as a response without choices."""
        self.count_rescan(CHARACTERS_PER_MEMBER * len(self._message))
        body = self._message.copy()
        for key in _STOP_FIELDS:
            body.pop(key, None)
        if self._usage:
            body["usage"] = self._usage
        shell = decode_response(body)
        return replace(shell, choices=[]) if shell.choices else shell

    def _replay_message(self, body: dict[str, Any]) -> None:
        """Emit the events of a whole response, which some servers send where a stream was requested."""
        self.emit_response(decode_response(body))

    def _start_block(self, body: dict[str, Any]) -> None:
        index, block = body.get("index"), body.get("content_block")
        if type(block) is not dict:
            self._emit_opaque(body)
            return
        self._note_fallback(block)
        number = index_of(index)
        if number is None:
            number = -1 - self._block_count
        if number in self._blocks:
            self._stop_block({"index": number}, complete=None)
        key = self.new_key()
        reader = _BlockReader(key, dict(block), PartialCall(index=self._call_count, key=key))
        reader.index = number
        self._block_count += 1
        self._blocks[number] = self._last_block = reader
        ended = self._ended_calls.pop(number, None)
        if reader.is_call:
            self._open_call(reader, ended)
            return
        text = ""
        if reader.text_field is not None:
            raw = block.get(reader.text_field)
            if raw and type(raw) is not str:
                self._emit_opaque(body)
            text, reader.body[reader.text_field] = raw if type(raw) is str else "", ""
        self.events.append(PartStart(reader.key, decode_part(dict(reader.body))))
        if text:
            self.events.append(_TEXT_EVENTS[str(reader.text_field)](reader.key, text))

    def _note_fallback(self, block: dict[str, Any]) -> None:
        """If `block` is a `fallback`, set the model that continues, and mark the call before it as cut off."""
        if block.get("type") != FALLBACK:
            return
        if self._last_block is not None:
            self.judge.cut(self._last_block.call)
        match block.get("to"):
            case {"model": str(model)} if model != self._message.get("model"):
                self._message["model"] = model
                self.events.append(MessageDelta(self._decode_shell(), opaque=WIRE.plain))

    def _open_call(self, block: _BlockReader, ended: PartialCall | None) -> None:
        """Start a call. `ended` is the call that ended at the same index, which may be the same call."""
        self._call_count += 1
        call, call_id = block.call, block.body.get("id")
        call.id, call.name = str(call_id) if call_id else None, block.body["name"]
        call.value = block.body.get("input") or None
        if call.value and self.repeats_a_key():
            call.problem = Reason.TWICE
        self.judge.opened(call, ended, self._calls_by_id.get(call.id or ""))
        if call.id is not None:
            self._calls_by_id[call.id] = call
        self.start_call(block.key, self._decode_open_call(block, {}))

    def _decode_open_call(self, block: _BlockReader, arguments: dict[str, Any]) -> Any:
        body = {**block.body, "input": arguments}
        return decode_call(body, number_of(self._message.get("id")), block.call.index)

    def _stop_block(self, body: dict[str, Any], *, complete: bool | None = True) -> None:
        """Stop the block of an event.

        `complete` is None if no event stopped the block, and False if the stream broke off in it.
        """
        index = body.get("index")
        if type(index) is not int and index_of(index) is None and (only := self._only_block()) is not None:
            index = only.index
        block = self._blocks.pop(index_of(index), None)
        if block is None:
            return
        if block.is_call:
            self._ended_calls[block.index] = block.call
            self._stop_call(block, complete=complete)
            return
        if (text := block.call.text).strip():
            arguments, error = parse_arguments(text)
            if error is None:
                block.body["input"] = arguments
        self.events.append(PartEnd(block.key, decode_part(block.join())))

    def _stop_call(self, block: _BlockReader, *, complete: bool | None) -> None:
        partial, start_input = block.call, block.call.value
        arguments, error = _read_input(text := partial.text, start_input)
        call = self._decode_open_call(block, arguments)
        if error is not None:
            call = replace(call, raw=text or str(start_input), error=error)
        if partial.is_empty and not partial.unread:
            partial.problem = partial.problem or find_misplaced_arguments(block.body)
        if (judged := self.judge.close(partial, call, complete=complete)) is not None:
            self.events.append(CallEnd(block.key, judged))

    def cut_calls(self, *, cut: bool) -> tuple[PartialCall, ...]:
        """Return the call that the end of the answer may have cut off."""
        cut = cut or FINISH_REASONS.get(str(self._message.get("stop_reason"))) in CUT
        return (self._last_block.call,) if cut and self._last_block is not None else ()

    def _emit_stray_call(self) -> None:
        """Emit the input that belongs to no call as a call that is not usable."""
        if self._stray_texts:
            key, raw = self.new_key(), "".join(self._stray_texts)
            call_id = generate_call_id(number_of(self._message.get("id")), self._call_count)
            error = str(Reason.STRAY_TEXT)
            call = cut_off(ToolCall(call_id, "", {}, self._call_count, raw=raw, error=error, opaque=WIRE.plain))
            self.start_call(key, call)
            self.end_whole_call(key, call)

    def _read_message_delta(self, body: dict[str, Any]) -> None:
        delta, usage = body.get("delta"), body.get("usage")
        for key, value in (("delta", delta), ("usage", usage)):
            if value and type(value) is not dict:
                self._emit_opaque({key: value})
        fields = delta.copy() if type(delta) is dict else {}
        if not _MESSAGE_DELTA_FIELDS.issuperset(body):
            fields.update({key: body[key] for key in body if key not in _MESSAGE_DELTA_FIELDS})
        fields.pop("type", None)
        changed = {key: fields[key] for key in fields if fields[key] is not None or key not in self._message}
        self._message.update(changed)
        raw = self._message.get("stop_reason")
        for key in _STOP_FIELDS:
            if (value := changed.get(key)) and type(value) is not str:
                self._emit_opaque({"delta": {key: value}})
        if type(raw) is str:
            self._stop_all(complete=None)
        if type(usage) is dict:
            counts = {key: usage[key] for key in usage if usage[key] is not None or key not in self._usage}
            self.count_rescan(CHARACTERS_PER_MEMBER * len(self._usage))
            self._usage = {**self._usage, **counts}
            self.events.append(UsageDelta(decode_usage(self._usage)))
        if not _STOP_FIELD_NAMES.issuperset(changed):
            other = {key: changed[key] for key in changed if key not in _STOP_FIELD_NAMES}
            self.events.append(MessageDelta(self._decode_shell(), opaque=Opaque(DIALECT, other)))

    def _stop_message(self, body: dict[str, Any]) -> None:
        del body
        self.end(complete=True)

    def _stop_all(self, *, complete: bool | None) -> None:
        """Stop the blocks that are still open. A call is then complete only if its text is a JSON object."""
        for index in list(self._blocks):
            self._stop_block({"index": index}, complete=complete)

    def end_choices(self, reason: str | None) -> None:
        """End the open blocks, emit the calls that waited, and end the answer."""
        self._stop_all(complete=None if reason is None else False)
        word = self._message.get("stop_reason")
        cut = FINISH_REASONS.get(word, "unknown") if type(word) is str else reason or "incomplete"
        last = () if self._last_block is None else (self._last_block.call,)
        waiting = self.judge.end(cut, last, ended=reason is None)
        self.events += [CallEnd(partial.key, call) for partial, call in waiting]  # type: ignore[arg-type]
        incomplete = None if all(call.complete for _, call in waiting) else "incomplete"
        self._emit_stray_call()
        if not self._started:
            return
        raw, stop = (value if type(value := self._message.get(key)) is str else None for key in _STOP_FIELDS)
        finish: Any = FINISH_REASONS.get(raw, "unknown") if raw else None
        finish = infer_finish_reason(finish, has_calls=self.judge.called)
        if reason is not None or raw is None:
            finish = reason or incomplete or ("tool_calls" if self.judge.called else "stop")
        message = Message("assistant", [], opaque=WIRE.plain)
        self.events.append(ChoiceEnd(0, Choice(message, finish, raw, stop, WIRE.plain)))

    READERS: ClassVar[dict[str, Any]] = {
        "message_start": _start_message,
        "content_block_start": _start_block,
        "content_block_stop": _stop_block,
        "message_delta": _read_message_delta,
        "message_stop": _stop_message,
        "message": _replay_message,
    }


def _without(body: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != key}


def _infer_event_type(body: dict[str, Any], event_type: str) -> str:
    """Return the event type that fits the fields of `body`, or `event_type` if the fields do not contradict it."""
    if type(body.get("content_block")) is dict:
        return "content_block_start"
    delta = body.get("delta")
    if type(delta) is dict and not _DELTA_FIELD_NAMES.isdisjoint(delta):
        is_message = event_type == "message_delta" and "index" not in body and delta.get("type") not in (*_DELTA_TYPES,)
        return event_type if is_message else "content_block_delta"
    return "message_delta" if type(delta) is dict and not _STOP_FIELD_NAMES.isdisjoint(delta) else event_type


def _infer_delta_type(delta: dict[str, Any], delta_type: str, block: _BlockReader | None) -> str:
    """Return the delta type that fits the fields of `delta`, or `delta_type` if the fields do not contradict it.

    A block of an unknown type may have deltas of unknown types, whose fields mean nothing here.
    """
    has_type = block is not None and type(block.body.get("type")) is str
    is_other = has_type and block is not None and block.text_field is None and not block.is_call
    if is_other and delta_type and delta_type not in _DELTA_TYPES:
        return delta_type
    fitting = (known for known, field in _DELTA_FIELDS.items() if type(delta.get(field)) is str)
    return next(fitting, delta_type)


def _read_input(text: str, start_input: Any) -> tuple[dict[str, Any], str | None]:
    """Read the arguments of a call from the `text` of its deltas, or from the input of its start event."""
    if not text:
        if type(start_input) is dict or start_input is None:
            return start_input or {}, None
        if type(start_input) is not str:
            return {}, f"an object was expected, not {type_name(start_input)}"
        return parse_arguments(start_input)
    return parse_arguments(text)


_DELTA_FIELD_NAMES = frozenset(_DELTA_FIELDS.values())
_DELTA_TYPES = frozenset({*_TEXT_DELTAS, "input_json_delta", "signature_delta", "citations_delta"})


def decode_stream() -> StreamDecoder:
    """Return a decoder of one Messages stream."""
    return Decoder()
