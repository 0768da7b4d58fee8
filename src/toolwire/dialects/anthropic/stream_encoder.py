"""The encoder of Messages streams: one block after the other.

Rules of this file:
- Only one block is open at a time. A text block from another wire starts with its first text, so that no empty one is
  written: Anthropic's server rejects an empty text when the client sends it back.
- The input of a call is streamed. The free text of a custom tool is written at its end, as an object.
- The stop reason and the usage are written together, when the stream has ended.
- A call without input, or one that must not run, is stopped late: only what follows shows how a reader understands it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from toolwire.dialects.anthropic.calls import encode_answer_call
from toolwire.dialects.anthropic.error import encode_error
from toolwire.dialects.anthropic.messages import ENCODERS, ENCODERS_BY_ROLE
from toolwire.dialects.anthropic.parts import DIALECT, UNCITED, WIRE, encode_citation, encode_text
from toolwire.dialects.anthropic.response import (
    FINISH_REASONS,
    UNKNOWN_AT_END,
    UNKNOWN_COUNTS_AT_END,
    encode_response,
    encode_stop_reason,
    encode_usage,
)
from toolwire.encoding.finish import CUT, is_text_of_call, looks_complete
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.streams import ARGUMENTS_CHANGED, AnyTextDelta, SequentialEncoder, StreamEncoder, encode_json
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    ChoiceEnd,
    CitationDelta,
    Encoded,
    Error,
    ErrorReply,
    MessageDelta,
    MessageStart,
    OpaqueDelta,
    PartEnd,
    PartStart,
    Refusal,
    RefusalDelta,
    Response,
    SignatureDelta,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
)
from toolwire.wire.arguments import CUT_OFF_SUFFIX, format_arguments
from toolwire.wire.framing import write_event

_BLOCK_EVENTS = ("content_block_start", "content_block_delta", "content_block_stop")
_DELTA_FIELDS = frozenset({"container", "stop_details"})
_LAZY_BLOCKS: dict[type, dict[str, Any]] = dict.fromkeys((Text, Refusal), UNCITED)
_TEXT_FIELDS = {TextDelta: "text", RefusalDelta: "text", ThinkingDelta: "thinking"}


class Encoder(SequentialEncoder):
    """An encoder of one Messages stream.

    - `_block`: the current block. Its start event is written with its first delta.
    - `_pending_block`: the key and the block of a text that began while the call before it had not been stopped.
    - `_held_call_text`: the text that was written for a call that has ended but was not stopped yet, else None.
    - `_held_call_runs`: whether that call may run.
    - `_fragments`: the fragments of the current call's input that were written.
    - `_final_delta`, `_message_fields`: the `delta` of the final `message_delta`, and its other fields.
    """

    wire = WIRE
    encode_response: Callable[[Response, Quirks], Encoded] = staticmethod(encode_response)
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)

    _index = -1
    _block: dict[str, Any] | None = None
    _is_started = _is_native_part = _is_free_text = _has_broken_call = _held_call_runs = False
    _delta_count = 0
    _held_call_text: str | None = None
    _pending_block: tuple[int, dict[str, Any]] | None = None
    _finish_reason: Any = None

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._fragments: list[str] = []
        self._final_delta: dict[str, Any] = {"stop_reason": None, "stop_sequence": None}
        self._message_fields: dict[str, Any] = {}

    def write_message_start(self, event: MessageStart) -> bytes:
        """Write the start of the message, without content and stop reason."""
        self._is_native, self._usage = self.is_native(event.response), event.response.usage
        empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
        return _write_event("message_start", {"message": {**self.encode_shell(event.response), **empty}})

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Store changed fields of the message for the final `message_delta`."""
        for key, value in self.native_fields(event.opaque).items():
            (self._final_delta if key in _DELTA_FIELDS else self._message_fields)[key] = value
        if not self.is_native(event):
            self.lose_update(event.response)
        return b""

    def write_part_start(self, event: PartStart) -> bytes:
        """Start a part. A part of this wire is written at once, a text from another wire with its first delta."""
        part: Any = event.part
        self._is_native_part = self.is_native(part)
        if self._held_call_text is not None and not self._is_native_part and type(part) in _LAZY_BLOCKS:
            self._pending_block = event.key, _LAZY_BLOCKS[type(part)]
            return b""
        before = self._stop_held_call()
        self._set_block(event.key, None if self._is_native_part else _LAZY_BLOCKS.get(type(part)))
        if self._block is not None:
            return before
        self._block = self._encode_part(part)
        return before + self._start_block()

    def _start_pending_block(self) -> bytes:
        """Stop the held call and set the pending block, because its first delta follows."""
        pending, self._pending_block = self._pending_block, None
        if pending is None:
            return b""
        before = self._stop_held_call()
        self._set_block(*pending)
        return before

    def _encode_part(self, part: Any) -> Any:
        self.ledger.is_native = self._is_native_part
        return (ENCODERS if self._is_native_part else ENCODERS_BY_ROLE["assistant"])[type(part)](part, self.ledger)

    def _set_block(self, key: int, block: Any) -> None:
        """Set the current block. `key` is that of its part."""
        self.set_path("choices", 0, "message", part=key)
        self._block, self._is_started, self._delta_count = block, False, 0

    def _start_block(self) -> bytes:
        """Write the start event of the current block, if it was not written yet."""
        if self._is_started or self._block is None:
            return b""
        self._is_started = True
        self._index += 1
        return _write_event("content_block_start", {"index": self._index, "content_block": self._block})

    def _write_delta(self, delta: dict[str, Any]) -> bytes:
        """Write a delta of the current block."""
        if self._block is None:
            return b""
        self._delta_count += 1
        start = self._start_block()
        return start + _DELTA_EVENT % (self._index, encode_json(delta))

    def write_text_delta(self, event: AnyTextDelta) -> bytes:
        """Write a piece of text or thinking."""
        field, before = _TEXT_FIELDS[type(event)], self._start_pending_block()
        delta = {**self.native_fields(event.opaque), "type": f"{field}_delta", field: event.text}
        return before + self._write_delta(delta)

    def write_signature(self, event: SignatureDelta) -> bytes:
        """Encode a signature. A signature of another wire is not written, because only that wire can check it."""
        if not self._is_native_part:
            return b""
        return self._write_delta({"type": "signature_delta", "signature": event.signature})

    def write_citation(self, event: CitationDelta) -> bytes:
        """Write a citation, unless it is lost."""
        citation = encode_citation(event.citation, self.ledger)
        if citation is None:
            return b""
        return self._start_pending_block() + self._write_delta({"type": "citations_delta", "citation": citation})

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Write what only this wire understands. From another wire it is a loss, unless a part repeats it."""
        body = self.native_fields(event.opaque)
        if event.key is None:
            self.lose_opaque_event(event)
            event_type = body.get("type")
            if body and (type(event_type) is not str or event_type in _BLOCK_EVENTS):
                self.set_path()
                self.ledger.lose("opaque", "opaque", "it belongs to a block that was not written, or is no event")
                return b""
            return _write_event(event_type, body) if type(event_type) is str else b""
        return self._write_delta(body) if body else b""

    def write_part_end(self, event: PartEnd) -> bytes:
        """End a part. Report what this wire cannot express of a text from another wire."""
        part: Any = event.part
        if not self._is_native_part and type(part) in _END_ENCODERS:
            _END_ENCODERS[type(part)](part, self.ledger)
        if self._pending_block is not None:
            self._pending_block = None
            return b""
        return self._stop_block()

    def _stop_block(self) -> bytes:
        """Write the stop event of the current block, if its start event was written."""
        block, self._block = self._block, None
        if block is None or not self._is_started:
            return b""
        return _STOP_EVENT % self._index

    def write_call_start(self, event: CallStart) -> bytes:
        """Start the block of a call."""
        before = self._stop_held_call()
        self._is_native_part = self.is_native(event)
        call = ToolCall(event.id, event.name, {}, event.index, opaque=event.opaque)
        self._set_block(event.key, encode_answer_call(call, self.ledger))
        self._is_free_text = event.custom
        self._fragments = []
        return before + self._start_block()

    def write_call_delta(self, event: CallDelta) -> bytes:
        """Write a fragment of a call's input. Free text is not written before its end."""
        if self._is_free_text:
            return b""
        if self._block is not None:
            self._fragments.append(event.fragment)
        return self._write_delta({"type": "input_json_delta", "partial_json": event.fragment})

    def write_call_end(self, event: CallEnd) -> bytes:
        """End a call. Input that came in no fragment, and free text, is written now."""
        call, data = event.call, b""
        if call.custom:
            self.ledger.lose("custom", "custom_tool", _FREE_TEXT_LOSS, "approximated")
            data = self._write_delta(_input_delta({"input": call.raw or ""})) if call.runs else b""
        elif not self._delta_count and call.plain_arguments:
            data = self._write_delta(_input_delta(call.plain_arguments))
        if call.error is not None and call.complete:
            self.ledger.lose("raw", "bad_arguments", f"{call.error}; {DIALECT} accepts only an object")
        if not self._is_native_part:
            self.ledger.lose_opaque(call.opaque)
        text = "".join(self._fragments)
        if call.runs and self._fragments and not call.custom and not is_text_of_call(text, call):
            return self.fail(ARGUMENTS_CHANGED)
        if call.runs and (data or text.strip()):
            return data + self._stop_block()
        self._held_call_text, self._held_call_runs = text, call.runs
        self._has_broken_call = self._has_broken_call or not call.runs
        return data

    def _stop_held_call(self, reason: Any = None, *, last: bool = False) -> bytes:
        """Stop the block of the held call, so that a reader understands it as it is.

        - A call that may run and has no input gets an explicit `{}` if a reader would take it for a cut call: in an
          answer with a broken call, and as the `last` call of an answer that ended early for `reason`.
        - A call that must not run gets broken JSON if a reader would take its text for whole input.
        """
        text, self._held_call_text = self._held_call_text, None
        if text is None:
            return b""
        if self._held_call_runs:
            looks_cut = self._has_broken_call or (last and reason in CUT)
            return (self._write_delta(_input_delta({})) if looks_cut else b"") + self._stop_block()
        broken = b""
        if looks_complete(text, reason, last=last):
            broken = self._write_delta({"type": "input_json_delta", "partial_json": CUT_OFF_SUFFIX})
        return broken + self._stop_block()

    def write_choice_end(self, event: ChoiceEnd) -> bytes:
        """Store the stop reason until the stream has ended without an error."""
        self.set_path("choices", 0)
        choice = event.choice
        broken = self._has_broken_call
        stop_reason = encode_stop_reason(choice, self.ledger, may_run=not broken, has_broken_call=broken)
        self._final_delta["stop_reason"] = stop_reason
        self._finish_reason = FINISH_REASONS.get(stop_reason or "")
        self._final_delta["stop_sequence"] = choice.stop_sequence
        self.ledger.lose_opaque(choice.opaque)
        self.ledger.lose_opaque(choice.message.opaque)
        return b""

    def may_have_written_end(self) -> bool:
        """Return False: the stop reason is written together with the end of the stream."""
        return False

    def write_error_body(self, body: Any) -> bytes:
        """Write the body of an error as an `error` event."""
        return write_event(encode_json(body), b"error")

    def write_ending(self, *, complete: bool) -> bytes:
        """Write the stop reason and the usage if they are known, and the end if the answer is `complete`."""
        self.set_path()
        unknown, unknown_counts = ({}, {}) if self._is_native else (UNKNOWN_AT_END, UNKNOWN_COUNTS_AT_END)
        usage = encode_usage(self._usage or Usage(), self.ledger, unknown_counts)
        self._final_delta = {**unknown, **self._final_delta}
        data = b""
        if complete or self._final_delta["stop_reason"] is not None:
            data = self._stop_held_call(self._finish_reason, last=True)
            data += _write_event("message_delta", {"delta": self._final_delta, "usage": usage, **self._message_fields})
        return data + (_write_event("message_stop", {}) if complete else b"")


_FREE_TEXT_LOSS = f"{DIALECT} accepts only an object: the free text is sent as the argument `input`"
_DELTA_EVENT = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
_STOP_EVENT = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_END_ENCODERS: dict[Any, Any] = {Text: encode_text, Refusal: ENCODERS_BY_ROLE["assistant"][Refusal]}


def _input_delta(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": format_arguments(arguments)}


def _write_event(event_type: str, body: dict[str, Any]) -> bytes:
    return write_event(encode_json({"type": event_type, **body}), event_type.encode())


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder of one stream as a server with `quirks` sends it. Tools named in `names` keep their names."""
    return Encoder.open(quirks, names, **settings)
