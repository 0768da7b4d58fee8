"""The encoder of Ollama streams: each line has the next piece of one message.

Rules of this file:
- Text is written as it comes, and a call when it is complete. A cut call is not written.
- Each line has the model and the time of the answer. No clock is read.
- The line ends of Unicode are escaped, as Ollama's server escapes them, because some readers split lines at them.
- A reader joins all text, and all thinking. Thinking parts from other wires are separated by a line break, as in a
  response.
- The last line has the finish reason and the usage. No line has them if the stream failed.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolwire.dialects.ollama.calls import encode_call
from toolwire.dialects.ollama.error import encode_error
from toolwire.dialects.ollama.parts import DIALECT, WIRE, MessageBuilder, encode_part
from toolwire.dialects.ollama.response import COUNT_FIELDS, encode_body, read_finish
from toolwire.dialects.ollama.stream_decoder import LOGPROBS, PLAIN_MESSAGE
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

_TEXT_KEYS: dict[type, str] = {Text: "content", Refusal: "content", Thinking: "thinking"}
_LAST_LINE_FIELDS = frozenset(
    {"message", "done", "done_reason", LOGPROBS, *COUNT_FIELDS}
    | {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"}
)


class Encoder(SequentialEncoder):
    """An encoder of one Ollama stream.

    - `_shell`: the fields beside the message that each line has.
    - `_message_fields`: the fields of the message that each line has.
    - `_line_fields`: the fields of the next line alone.
    - `_last_line_fields`: the fields of the last line alone.
    - `_has_unwritten`: whether there are fields for the next line, or no line was written yet.
    - `_separator`: the line break before the next piece of thinking, or nothing.
    - `_part_keys`: the keys of the parts that have come.
    """

    wire = WIRE
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)

    _shell_has_changed = _has_lines = _has_logprobs = _is_native_part = False
    _has_unwritten = True
    _part: Any = None
    _separator = ""
    _call_count = 0

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._response = Response()
        self._shell: dict[str, Any] = {}
        self._message_fields: dict[str, Any] = PLAIN_MESSAGE
        self._last_line_fields: dict[str, Any] = {}
        self._line_fields: dict[str, Any] = {}
        self._part_keys: set[str] = set()

    def write_message_start(self, event: MessageStart) -> bytes:
        """Store the fields that each line has."""
        self._is_native = self.is_native(event.response)
        return self._store_shell(event.response)

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Store changed fields for the lines that follow."""
        created_at = spelling_of(event.opaque, OllamaLineSpelling).created_at
        self._last_line_fields = {} if created_at is UNSET else {"created_at": created_at}
        self._shell_has_changed = True
        return self._store_shell(event.response)

    def _store_shell(self, response: Response) -> bytes:
        self._response = response
        self._usage = response.usage or self._usage
        self.set_path()
        body = encode_body(replace(response, usage=None), self.ledger)
        self._shell = {key: value for key, value in body.items() if key not in _LAST_LINE_FIELDS}
        return b""

    def _write_message_line(self, message: dict[str, Any]) -> bytes:
        """Write a line with a piece of the message, and with the fields that were stored for it."""
        fields, self._line_fields, self._has_unwritten, self._has_lines = self._line_fields, {}, False, True
        body = {**self._shell, **fields, "message": {**self._message_fields, **message}, "done": False}
        return _write_line(body)

    def write_part_start(self, event: PartStart) -> bytes:
        """Start a part.

        If it is a second text or thinking part from another wire, the wire joins it to the first, which is a loss.
        """
        part: Any = event.part
        self._part, self._separator = part, ""
        self._is_native_part = self.ledger.is_native = self.is_native(part)
        key = _TEXT_KEYS.get(type(part), "")
        if key in self._part_keys and not self._is_native_part:
            self.set_path("choices", 0, "message")
            concept, self._separator = ("thinking", "\n") if key == "thinking" else ("parts", "")
            self.ledger.lose("content", concept, f"{DIALECT} has one string for them: they are joined", "merged")
        self._part_keys.add(key)
        return b""

    def write_text_delta(self, event: AnyTextDelta) -> bytes:
        """Write a line with a piece of text or thinking."""
        key = _TEXT_KEYS.get(type(self._part))
        if key is None or not event.text:
            return b""
        data = self._write_message_line({key: self._separator + event.text})
        self._separator = ""
        return data

    def write_part_end(self, event: PartEnd) -> bytes:
        """Write a part that was not streamed, such as an image. Report what this wire cannot express of a text."""
        part: Any = event.part
        self.set_path("choices", 0, "message", part=event.key)
        self.ledger.is_native = self._is_native_part
        if type(part) is Opaque and self._is_native_part:
            return self._write_call_line(part.value) if type(part.spelling) is OllamaCallSpelling else b""
        message = MessageBuilder()
        encode_part(part, message, self.ledger, "assistant")
        if type(part) in _TEXT_KEYS:
            return b""
        data = self._write_message_line({"images": message.images}) if message.images else b""
        return data + (self._write_message_line({"content": message.texts[0]}) if message.texts else b"")

    def write_call_start(self, event: CallStart) -> bytes:
        """Start a call, which is written at its end."""
        self._is_native_part = self.is_native(event)
        return b""

    def write_call_end(self, event: CallEnd) -> bytes:
        """Write a complete call. A call that must not run is a loss."""
        self.set_path("choices", 0, "message", part=event.key)
        self.ledger.is_native = self._is_native_part
        entry = None
        if event.call.runs or (event.call.complete and self._is_native_part):
            entry = encode_call(event.call, self._call_count, self.ledger)
        else:
            self.ledger.lose_call(event.call)
        return b"" if entry is None else self._write_call_line(entry)

    def _write_call_line(self, entry: Any) -> bytes:
        self._call_count += 1
        return self._write_message_line({"tool_calls": [entry]})

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Store what only this wire understands for the next line. From another wire it is a loss."""
        if not self.is_native(event):
            self.lose_opaque_event(event)
            return b""
        fields: dict[str, Any] = dict(event.opaque.value)  # type: ignore[union-attr]
        message = spelling_of(event.opaque, OllamaLineSpelling).message
        self._message_fields = {**(self._message_fields if message is UNSET else message), **fields.pop("message", {})}
        self._line_fields.update(fields)
        self._has_logprobs = self._has_logprobs or LOGPROBS in fields
        self._has_unwritten = True
        return b""

    def write_error_body(self, body: Any) -> bytes:
        """Write a line with the body of an error."""
        return _write_line(body)

    def write_ending(self, *, complete: bool) -> bytes:
        """Write the last line. If the answer is not `complete`, write one only for fields that no line has."""
        choice = self._choice
        raw = None if choice is None else choice.raw_finish_reason
        if choice is not None and self._is_native and choice.finish_reason in {"error", "incomplete"}:
            choice = replace(choice, finish_reason=read_finish(raw, called=False))
        self.set_path()
        choices = [] if choice is None else [choice]
        response = replace(self._response, choices=choices, usage=self._usage)
        body = encode_body(response, self.ledger, called=self._call_count > 0)
        if self._has_logprobs:
            body.pop(LOGPROBS, None)
        if choices:
            body["message"] = {**self._message_fields, **body["message"]}
        if not complete and raw is None and not (self._has_unwritten or self._shell_has_changed or self._usage):
            return b""
        if complete or body.get("done") in (None, True):
            body["done"] = complete
        return _write_line({**self._line_fields, **body, **(self._last_line_fields if self._has_lines else {})})


_ESCAPED_LINE_ENDS = {b"\xc2\x85": b"\\u0085", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}


def _escape(data: bytes) -> bytes:
    if data.isascii():
        return data
    for line_end, escaped in _ESCAPED_LINE_ENDS.items():
        data = data.replace(line_end, escaped)
    return data


def _write_line(body: Any) -> bytes:
    return _escape(encode_json(body)) + b"\n"


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder of one stream as a server with `quirks` sends it. Tools named in `names` keep their names."""
    return Encoder.open(quirks, names, **settings)
