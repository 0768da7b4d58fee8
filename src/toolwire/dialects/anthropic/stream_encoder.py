"""Streams of the Messages API, written: one block after the other.

Rules of this file:
- A block is open from its start to its stop, and no other beside it. One from elsewhere starts with its first
  words: an empty text has no place here.
- A call streams its input; free text of a custom tool waits until it is whole, to stand in an object.
- Why the answer ended and what it cost is said together, when the stream is over.
"""

from collections.abc import Callable, Iterable
from typing import Any

from toolwire.dialects.anthropic.calls import encode_call
from toolwire.dialects.anthropic.error import encode_error
from toolwire.dialects.anthropic.messages import ENCODERS, TABLES
from toolwire.dialects.anthropic.parts import DIALECT, WIRE, encode_citation, encode_text
from toolwire.dialects.anthropic.response import FINISH_REASONS, encode_response, encode_usage, finish_word
from toolwire.encoding.finish import CUT, reads_as_whole, says_all
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.streams import TOLD_OTHERWISE, SequentialEncoder, StreamEncoder, WordsDelta, encode_json
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

_OF_BLOCKS = ("content_block_start", "content_block_delta", "content_block_stop")
_OF_DELTA = frozenset({"container", "stop_details"})
_LAZY: dict[type, dict[str, Any]] = {kind: {"type": "text", "text": ""} for kind in (Text, Refusal)}
WORDS = {TextDelta: "text", RefusalDelta: "text", ThinkingDelta: "thinking"}


class Encoder(SequentialEncoder):
    """Writes the events of a stream.

    `_block` is the block that is announced: it is written when something is said in it. `_late` is what is announced
    while a call before it has not stopped.
    """

    wire = WIRE
    encode_response: Callable[[Response, Quirks], Encoded] = staticmethod(encode_response)
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)

    _index = -1
    _block: dict[str, Any] | None = None
    _begun = _mine_part = _waits = _told_broken = _runs = False
    _told = 0
    _doubtful: str | None = None
    _late: tuple[int, dict[str, Any]] | None = None
    _reason: Any = None

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._pieces: list[str] = []
        self._delta: dict[str, Any] = {"stop_reason": None, "stop_sequence": None}
        self._beside: dict[str, Any] = {}

    def write_message_start(self, event: MessageStart) -> bytes:
        """Begin the message; what it will hold and why it will end is not known yet."""
        self._mine, self._usage = self.is_own(event.response), event.response.usage
        unknown: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
        return _event("message_start", {"message": {**self.encode_shell(event.response), **unknown}})

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Keep what is new about the message; it is said at its end."""
        for key, value in self.left_at(event.opaque).items():
            (self._delta if key in _OF_DELTA else self._beside)[key] = value
        if not self.is_own(event):
            self.lose_news(event.response)
        return b""

    def write_part_start(self, event: PartStart) -> bytes:
        """Begin a part: one that was read here at once, words from elsewhere with the first of them."""
        part: Any = event.part
        self._mine_part = self.is_own(part)
        if self._doubtful is not None and not self._mine_part and type(part) in _LAZY:
            self._late = event.key, _LAZY[type(part)]
            return b""
        before = self._stop_doubtful()
        self._announce(event.key, None if self._mine_part else _LAZY.get(type(part)))
        if self._block is not None:
            return before
        self._block = self._encode_part(part)
        return before + self._begin()

    def _go_on(self) -> bytes:
        """Stop the call before words that are said now; words that are never said do not end it."""
        late, self._late = self._late, None
        if late is None:
            return b""
        before = self._stop_doubtful()
        self._announce(*late)
        return before

    def _encode_part(self, part: Any) -> Any:
        self.ledger.own = self._mine_part
        return (ENCODERS if self._mine_part else TABLES["assistant"])[type(part)](part, self.ledger)

    def _announce(self, key: int, block: Any) -> None:
        self.stand("choices", 0, "message", part=key)
        self._block, self._begun, self._told = block, False, 0

    def _begin(self) -> bytes:
        if self._begun or self._block is None:
            return b""
        self._begun = True
        self._index += 1
        return _event("content_block_start", {"index": self._index, "content_block": self._block})

    def _say(self, delta: dict[str, Any]) -> bytes:
        if self._block is None:
            return b""
        self._told += 1
        begin = self._begin()
        return begin + _DELTA % (self._index, encode_json(delta))

    def write_words(self, event: WordsDelta) -> bytes:
        """Write words."""
        field, before = WORDS[type(event)], self._go_on()
        return before + self._say({**self.left_at(event.opaque), "type": f"{field}_delta", field: event.text})

    def write_signature(self, event: SignatureDelta) -> bytes:
        """Write a signature of this wire; that of another binds nothing here."""
        return self._say({"type": "signature_delta", "signature": event.signature}) if self._mine_part else b""

    def write_citation(self, event: CitationDelta) -> bytes:
        """Write a citation."""
        citation = encode_citation(event.citation, self.ledger)
        if citation is None:
            return b""
        return self._go_on() + self._say({"type": "citations_delta", "citation": citation})

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Say again what this wire said; elsewhere it is lost, if no part repeats it."""
        body = self.left_at(event.opaque)
        if event.key is None:
            self.lose_step(event)
            kind = body.get("type")
            if body and (type(kind) is not str or kind in _OF_BLOCKS):
                self.stand()
                self.ledger.lose("opaque", "opaque", "it speaks of a block that is not there, or is no event")
                return b""
            return _event(kind, body) if type(kind) is str else b""
        return self._say(body) if body else b""

    def write_part_end(self, event: PartEnd) -> bytes:
        """End a part; what words from elsewhere have beside them is lost."""
        part: Any = event.part
        if not self._mine_part and type(part) in _LOSERS:
            _LOSERS[type(part)](part, self.ledger)
        if self._late is not None:
            self._late = None
            return b""
        return self._stop()

    def _stop(self) -> bytes:
        block, self._block = self._block, None
        if block is None or not self._begun:
            return b""
        return _STOP % self._index

    def write_call_start(self, event: CallStart) -> bytes:
        """Begin a call."""
        before = self._stop_doubtful()
        self._mine_part = self.is_own(event)
        call = ToolCall(event.id, event.name, {}, event.index, opaque=event.opaque)
        self._announce(event.key, encode_call(call, self.ledger))
        self._waits = event.custom
        self._pieces = []
        return before + self._begin()

    def write_call_delta(self, event: CallDelta) -> bytes:
        """Write a fragment of a call's input."""
        if self._waits:
            return b""
        if self._block is not None:
            self._pieces.append(event.fragment)
        return self._say({"type": "input_json_delta", "partial_json": event.fragment})

    def write_call_end(self, event: CallEnd) -> bytes:
        """End a call; input that came whole, and free text, is said now."""
        call, data = event.call, b""
        if call.custom:
            self.ledger.lose("custom", "custom_tool", _FREE_TEXT, "approximated")
            data = self._say(_fragment({"input": call.raw or ""})) if call.runs else b""
        elif not self._told and call.plain_arguments:
            data = self._say(_fragment(call.plain_arguments))
        if call.error is not None and call.complete:
            self.ledger.lose("raw", "bad_arguments", f"{call.error}; {DIALECT} takes only an object")
        if not self._mine_part:
            self.ledger.lose_opaque(call.opaque)
        text = "".join(self._pieces)
        if call.runs and self._pieces and not call.custom and not says_all(text, call):
            return self.give_up(TOLD_OTHERWISE)
        if call.runs and (data or text.strip()):
            return data + self._stop()
        self._doubtful, self._runs = text, call.runs
        self._told_broken = self._told_broken or not call.runs
        return data

    def _stop_doubtful(self, reason: Any = None, *, last: bool = False) -> bytes:
        """Stop the block of a call that is not to be run, or has no input: it must be read as what it is.

        A last call without input is half a call in an answer that was cut off, and beside a broken one it is doubtful.
        """
        text, self._doubtful = self._doubtful, None
        if text is None:
            return b""
        if self._runs:
            half = self._told_broken or (last and reason in CUT)
            return (self._say(_fragment({})) if half else b"") + self._stop()
        broken = b""
        if reads_as_whole(text, reason, last=last):
            broken = self._say({"type": "input_json_delta", "partial_json": CUT_OFF_SUFFIX})
        return broken + self._stop()

    def write_choice_end(self, event: ChoiceEnd) -> bytes:
        """Keep why the answer ended until it is sure that nothing went wrong."""
        self.stand("choices", 0)
        choice = event.choice
        word = finish_word(choice, self.ledger, runs=not self._told_broken, told=self._told_broken)
        self._delta["stop_reason"] = word
        self._reason = FINISH_REASONS.get(word or "")
        self._delta["stop_sequence"] = choice.stop_sequence
        self.ledger.lose_opaque(choice.opaque)
        self.ledger.lose_opaque(choice.message.opaque)
        return b""

    def has_said_end(self) -> bool:
        """Say no: the reason of the end is said together with the end."""
        return False

    def write_reply(self, body: Any) -> bytes:
        """Write an error."""
        return write_event(encode_json(body), b"error")

    def write_ending(self, *, complete: bool) -> bytes:
        """Say why the answer ended and what it cost, if that is known."""
        self.stand()
        usage = encode_usage(self._usage or Usage(), self.ledger)
        ending = b""
        if complete or self._delta["stop_reason"] is not None:
            ending = self._stop_doubtful(self._reason, last=True)
            ending += _event("message_delta", {"delta": self._delta, "usage": usage, **self._beside})
        return ending + (_event("message_stop", {}) if complete else b"")


_FREE_TEXT = "free text stands in the argument `input`"
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_LOSERS: dict[Any, Any] = {Text: encode_text, Refusal: TABLES["assistant"][Refusal]}


def _fragment(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": format_arguments(arguments)}


def _event(kind: str, body: dict[str, Any]) -> bytes:
    return write_event(encode_json({"type": kind, **body}), kind.encode())


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder for a server with these quirks; tools that are called `names` keep their names."""
    return Encoder.open(quirks, names, **settings)
