"""Streams of Ollama's chat, written: lines that each say the next piece of one message.

Rules of this file:
- Words go out as they come; a call goes out when it is whole. Half a call is not written.
- Every line says the model and the time, which is that of the answer. No clock is read.
- What a reader may take for the end of a line is escaped, as the server does: some split at any of Unicode's.
- Parts of one kind are one for who reads the lines: thoughts from elsewhere are set apart by a line break, as
  in a response.
- Why the answer ended and what it cost is on the last line, and nowhere if something went wrong.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolwire.dialects.ollama.calls import encode_call
from toolwire.dialects.ollama.error import encode_error
from toolwire.dialects.ollama.parts import DIALECT, WIRE, MessageSoFar, encode_part
from toolwire.dialects.ollama.response import COUNTS, encode_body, read_finish
from toolwire.dialects.ollama.stream_decoder import JOINED, LINE
from toolwire.encoding.ledger import spelling_of
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.streams import AnyTextDelta, SequentialEncoder, StreamEncoder, encode_json
from toolwire.types import (
    CallEnd,
    CallStart,
    Error,
    ErrorReply,
    MessageDelta,
    MessageStart,
    Opaque,
    OpaqueDelta,
    PartEnd,
    PartStart,
    Refusal,
    Response,
    Text,
    Thinking,
)
from toolwire.types.spelling.ollama import OllamaCallSpelling, OllamaLineSpelling

_KEYS: dict[type, str] = {Text: "content", Refusal: "content", Thinking: "thinking"}
_OF_LAST = frozenset(
    {"message", "done", "done_reason", JOINED, *COUNTS}
    | {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"}
)


class Encoder(SequentialEncoder):
    """Writes lines. `_news` go with the next one; `_unsaid`: there are any, or there was no line yet."""

    wire = WIRE
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)

    _changed = _begun = _joins = _mine_part = False
    _unsaid = True
    _part: Any = None
    _glue = ""
    _calls = 0

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._response = Response()
        self._shell: dict[str, Any] = {}
        self._line: dict[str, Any] = LINE
        self._last: dict[str, Any] = {}
        self._news: dict[str, Any] = {}
        self._kinds: set[str] = set()

    def write_message_start(self, event: MessageStart) -> bytes:
        """Keep what every line says."""
        self._is_native = self.is_native(event.response)
        return self._keep_shell(event.response)

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Keep what the lines say from here on."""
        created_at = spelling_of(event.opaque, OllamaLineSpelling).created_at
        self._last, self._changed = {} if created_at is UNSET else {"created_at": created_at}, True
        return self._keep_shell(event.response)

    def _keep_shell(self, response: Response) -> bytes:
        self._response = response
        self._usage = response.usage or self._usage
        self.set_path()
        body = encode_body(replace(response, usage=None), self.ledger)
        self._shell = {key: value for key, value in body.items() if key not in _OF_LAST}
        return b""

    def _say(self, message: dict[str, Any]) -> bytes:
        """Write a line, with the news that waited for one."""
        news, self._news, self._unsaid, self._begun = self._news, {}, False, True
        body = {**self._shell, **news, "message": {**self._line, **message}, "done": False}
        return _write_line(body)

    def write_part_start(self, event: PartStart) -> bytes:
        """Begin a part."""
        part: Any = event.part
        self._part, self._glue = part, ""
        self._mine_part = self.ledger.own = self.is_native(part)
        key = _KEYS.get(type(part), "")
        if key in self._kinds and not self._mine_part:
            self.set_path("choices", 0, "message")
            concept, self._glue = ("thinking", "\n") if key == "thinking" else ("parts", "")
            self.ledger.lose("content", concept, f"{DIALECT} has one string for them", "merged")
        self._kinds.add(key)
        return b""

    def write_text_delta(self, event: AnyTextDelta) -> bytes:
        """Write words."""
        key = _KEYS.get(type(self._part))
        if key is None or not event.text:
            return b""
        data = self._say({key: self._glue + event.text})
        self._glue = ""
        return data

    def write_part_end(self, event: PartEnd) -> bytes:
        """Write a part that came whole; of words that went out, lose what could not be said."""
        part: Any = event.part
        self.set_path("choices", 0, "message", part=event.key)
        self.ledger.own = self._mine_part
        if type(part) is Opaque and self._mine_part:
            return self._say_call(part.value) if type(part.spelling) is OllamaCallSpelling else b""
        message = MessageSoFar()
        encode_part(part, message, self.ledger, "assistant")
        if type(part) in _KEYS:
            return b""
        data = self._say({"images": message.pictures}) if message.pictures else b""
        return data + (self._say({"content": message.words[0]}) if message.words else b"")

    def write_call_start(self, event: CallStart) -> bytes:
        """Begin a call; it is said when it is whole."""
        self._mine_part = self.is_native(event)
        return b""

    def write_call_end(self, event: CallEnd) -> bytes:
        """Write a call that is whole."""
        self.set_path("choices", 0, "message", part=event.key)
        self.ledger.own = self._mine_part
        entry = None
        if event.call.runs or (event.call.complete and self._mine_part):
            entry = encode_call(event.call, self._calls, self.ledger)
        else:
            self.ledger.lose_call(event.call)
        return b"" if entry is None else self._say_call(entry)

    def _say_call(self, entry: Any) -> bytes:
        self._calls += 1
        return self._say({"tool_calls": [entry]})

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Say again what this wire said, with the next line."""
        if not self.is_native(event):
            self.lose_opaque_event(event)
            return b""
        news: dict[str, Any] = dict(event.opaque.value)  # type: ignore[union-attr]
        message = spelling_of(event.opaque, OllamaLineSpelling).message
        self._line = {**(self._line if message is UNSET else message), **news.pop("message", {})}
        self._news.update(news)
        self._joins = self._joins or JOINED in news
        self._unsaid = True
        return b""

    def write_error_body(self, body: Any) -> bytes:
        """Write an error."""
        return _write_line(body)

    def write_ending(self, *, complete: bool) -> bytes:
        """Write the last line; of an answer that did not end, what no line has said."""
        choice = self._choice
        raw = None if choice is None else choice.raw_finish_reason
        if choice is not None and self._is_native and choice.finish_reason in {"error", "incomplete"}:
            choice = replace(choice, finish_reason=read_finish(raw, called=False))
        self.set_path()
        choices = [] if choice is None else [choice]
        whole = replace(self._response, choices=choices, usage=self._usage)
        body = encode_body(whole, self.ledger, called=self._calls > 0)
        if self._joins:
            body.pop(JOINED, None)
        if choices:
            body["message"] = {**self._line, **body["message"]}
        if not complete and raw is None and not (self._unsaid or self._changed or self._usage):
            return b""
        if complete or body.get("done") in (None, True):
            body["done"] = complete
        return _write_line({**self._news, **body, **(self._last if self._begun else {})})


_ENDS = {b"\xc2\x85": b"\\u0085", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}


def _escape(data: bytes) -> bytes:
    if data.isascii():
        return data
    for end, escaped in _ENDS.items():
        data = data.replace(end, escaped)
    return data


def _write_line(body: Any) -> bytes:
    return _escape(encode_json(body)) + b"\n"


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder for a server with these quirks; tools that are called `names` keep their names."""
    return Encoder.open(quirks, names, **settings)
