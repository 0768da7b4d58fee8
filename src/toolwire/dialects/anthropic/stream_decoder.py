"""Streams of the Messages API, read: blocks that start, grow and stop.

Rules of this file:
- A block is read as it would be in a response, when it starts and again when it stops with all that it got.
- A call is closed by its stop. One that has no text, or bad text, waits for the reason of the answer's end:
  it may have been cut off.
- What a delta says to a block of another kind is told apart, never added.
"""

from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.anthropic.calls import decode_call
from toolwire.dialects.anthropic.error import decode_error
from toolwire.dialects.anthropic.parts import DIALECT, decode_citation, decode_part
from toolwire.dialects.anthropic.response import FINISH_REASONS, decode_response, decode_usage
from toolwire.encoding.finish import CUT, cut_off, is_half, wants_calls
from toolwire.streams import NOT_UTF8, StreamDecoder, WireDecoder, offer
from toolwire.streams.calls import CallSoFar
from toolwire.types import (
    CallDelta,
    CallEnd,
    ChoiceEnd,
    CitationDelta,
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
from toolwire.wire.arguments import parse_arguments
from toolwire.wire.names import number_of

WORDS = {"text": "text", "thinking": "thinking"}
GROWS = {"text_delta": "text", "thinking_delta": "thinking"}
EVENTS: dict[str, Any] = {"text": TextDelta, "thinking": ThinkingDelta}
BEFORE = frozenset({"message_start", "message", "ping", "error"})
OF_START = frozenset({"type", "role", "content", "usage", "stop_reason", "stop_sequence"})
OF_ENDING = frozenset({"stop_reason", "stop_sequence"})


class _BlockReader(Struct, eq=False):
    """One block as it arrives; a call has the text of its input, so has a server's tool.

    `grows` is the field of its words, `grown` holds the pieces of other texts, `notes` its citations.
    """

    key: int
    body: dict[str, Any]
    call: CallSoFar
    grown: dict[str, list[str]] = {}
    notes: list[Any] | None = None
    grows: str | None = None
    is_call: bool = False

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
        self._held: tuple[_BlockReader, ToolCall] | None = None
        self._calls = 0
        self._called = False

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one event."""
        kind = body.get("type")
        kind = kind if type(kind) is str else name.decode(errors="replace")
        if not self._started and kind not in BEFORE and "error" not in body:
            self._start_message({})
        if kind == "content_block_delta" and type(delta := body.get("delta")) is dict:
            self._read_delta(body, delta, delta.get("type"))
            return
        read = self.READERS.get(kind)
        if read is not None:
            read(self, body)
        elif type(body.get("error")) is dict:
            self.fail(decode_error(None, body))
        elif kind != "ping":
            self.events.append(OpaqueDelta(opaque=Opaque(DIALECT, body)))

    def _read_delta(self, body: dict[str, Any], delta: dict[str, Any], kind: Any) -> None:
        index, kind = body.get("index"), kind if type(kind) is str else ""
        block = self._blocks.get(index) if type(index) is int else None
        if block is None:
            block = self._open_unannounced(index, kind)
        grows = None if block is None else GROWS.get(kind)
        if block is not None and grows is not None and grows == block.grows:
            words = delta.get(grows)
            if type(words) is str:
                left = Opaque(DIALECT, _without(delta, grows)) if len(delta) > 2 else None
                self.events.append(EVENTS[grows](block.key, words, opaque=left))
                return
        if block is None or not self._read_odd_delta(delta, kind, block):
            self.events.append(OpaqueDelta(opaque=Opaque(DIALECT, body)))

    def _open_unannounced(self, index: Any, kind: str) -> _BlockReader | None:
        """Open a block of words that a proxy did not announce."""
        grows = GROWS.get(kind)
        if grows is None or type(index) is not int:
            return None
        self._start_block({"index": index, "content_block": {"type": grows, grows: ""}})
        return self._blocks[index]

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
            case str(), _ if kind not in KINDS and block.grows is None and not block.is_call:
                block.add(_without(delta, "type"))
                self.events.append(OpaqueDelta(block.key, opaque=Opaque(DIALECT, delta)))
            case _:
                return False
        return True

    def _read_fragment(self, delta: dict[str, Any], block: _BlockReader) -> bool:
        fragment = delta.get("partial_json")
        if type(fragment) is not str or "input" not in block.body:
            return False
        block.call.add(fragment)
        if self.damaged:
            block.call.problem = NOT_UTF8
        if block.is_call:
            self.events.append(CallDelta(block.key, fragment))
        else:
            self.events.append(OpaqueDelta(block.key, opaque=Opaque(DIALECT, delta)))
        return True

    def _start_message(self, body: dict[str, Any]) -> None:
        message = body.get("message")
        message = message if type(message) is dict else {}
        if self._started:
            known = self._message
            news = {key: message[key] for key in message if key not in OF_START and known.get(key) != message[key]}
            self._read_message_delta({"delta": news, "usage": message.get("usage")})
            return
        self._started = True
        self._message = _without(message, "content")
        self._usage = message["usage"] if type(message.get("usage")) is dict else {}
        self.events.append(MessageStart(self._read_shell()))

    def _read_shell(self) -> Any:
        known = _without(_without(self._message, "stop_reason"), "stop_sequence")
        usage = {"usage": self._usage} if self._usage else {}
        return replace(decode_response({**known, **usage}), choices=[])

    def _read_whole(self, body: dict[str, Any]) -> None:
        self.replay(decode_response(body))

    def _start_block(self, body: dict[str, Any]) -> None:
        index, block = body.get("index"), body.get("content_block")
        if type(block) is not dict or type(index) is not int:
            self.events.append(OpaqueDelta(opaque=Opaque(DIALECT, body)))
            return
        self._release(None)
        if (before := self._blocks.get(index)) is not None:
            self._stop_block(body, whole=before.call.is_whole())
        made = _BlockReader(self.new_key(), dict(block), CallSoFar(index=self._calls))
        self._blocks[index] = made
        if made.is_call:
            self._calls += 1
            self.texts[made.key] = made.call
            if made.body.get("input") and self.repeats_a_key():
                made.call.problem = "its input gives a key twice"
            self.start_call(made.key, self._build(made, {}))
            return
        words = ""
        if made.grows is not None:
            text = block.get(made.grows)
            words, made.body[made.grows] = text if type(text) is str else "", ""
        self.events.append(PartStart(made.key, decode_part(dict(made.body))))
        if words:
            self.events.append(EVENTS[str(made.grows)](made.key, words))

    def _build(self, block: _BlockReader, arguments: dict[str, Any]) -> Any:
        body = {**block.body, "input": arguments}
        return decode_call(body, number_of(self._message.get("id")), block.call.index)

    def _stop_block(self, body: dict[str, Any], *, whole: bool = True) -> None:
        index = body.get("index")
        block = self._blocks.pop(index, None) if type(index) is int else None
        if block is None:
            return
        if block.is_call:
            self._stop_call(block, whole=whole)
            return
        if (text := block.call.text).strip():
            arguments, error = parse_arguments(text)
            if error is None:
                block.body["input"] = arguments
        self.events.append(PartEnd(block.key, decode_part(block.whole())))

    def _stop_call(self, block: _BlockReader, *, whole: bool) -> None:
        self._release(None)
        del self.texts[block.key]
        text, first = block.call.text, block.body.get("input")
        if text.strip():
            arguments, error = parse_arguments(text)
        else:
            arguments, error = first if type(first) is dict else {}, None
        call = self._build(block, arguments)
        if error is not None:
            call = replace(call, raw=text, error=error)
        if block.call.problem is not None:
            call = cut_off(replace(call, raw=text, error=block.call.problem))
        elif not whole:
            call = cut_off(replace(call, raw=text))
        self._held = block, call
        if not whole or not is_half(call, last=True):
            self._release(None)

    def _release(self, reason: Any) -> None:
        """Tell the call that waited for the reason of the answer's end."""
        if self._held is None:
            return
        (block, call), self._held = self._held, None
        if reason in CUT and call.complete and is_half(call, last=True):
            call = cut_off(call)
        self._called = self._called or call.complete
        self.events.append(CallEnd(block.key, call))

    def _read_message_delta(self, body: dict[str, Any]) -> None:
        delta, usage = body.get("delta"), body.get("usage")
        beside = {key: body[key] for key in body if key not in {"type", "delta", "usage"}}
        news = {**(delta if type(delta) is dict else {}), **beside}
        news.pop("type", None)
        changed = {key: news[key] for key in news if news[key] is not None or key not in self._message}
        self._message.update(changed)
        raw = self._message.get("stop_reason")
        if type(raw) is str:
            self._stop_all(whole=None)
            self._release(FINISH_REASONS.get(raw, "unknown"))
        if type(usage) is dict:
            known = {key: usage[key] for key in usage if usage[key] is not None or key not in self._usage}
            self._usage = {**self._usage, **known}
            self.events.append(UsageDelta(decode_usage(self._usage)))
        if any(key not in OF_ENDING for key in changed):
            told = {key: changed[key] for key in changed if key not in OF_ENDING}
            self.events.append(MessageDelta(self._read_shell(), opaque=Opaque(DIALECT, told)))

    def _stop_message(self, body: dict[str, Any]) -> None:
        del body
        self.end(complete=True)

    def _stop_all(self, *, whole: bool | None) -> None:
        """End the blocks that nothing stopped; a call only counts if its text is an object."""
        for index, block in list(self._blocks.items()):
            self._stop_block({"index": index}, whole=block.call.is_whole() if whole is None else whole)

    def settle(self, reason: str | None) -> None:
        """End what is open, and the answer."""
        self._stop_all(whole=None if reason is None else False)
        if self._held is not None and (reason is not None or self._held[1].error is not None):
            block, call = self._held
            self._held = block, cut_off(replace(call, raw=block.call.text))
        self._release(None)
        if not self._started:
            return
        choice = decode_response({**self._message, "content": []}).choices[0]
        finish: Any = wants_calls(choice.finish_reason, called=self._called)
        if reason is not None or choice.raw_finish_reason is None:
            finish = reason or "incomplete"
        self.events.append(ChoiceEnd(0, replace(choice, finish_reason=finish)))

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


KINDS = frozenset({*GROWS, "input_json_delta", "signature_delta", "citations_delta"})


def decode_stream() -> StreamDecoder:
    """Read a stream."""
    return offer(Decoder())
