"""The decoder of Ollama streams: each line has the next piece of one message.

Rules of this file:
- Consecutive pieces of text are one part, and so are those of thinking. Parts have the order in which they came. In a
  response, they have the order of the wire's keys.
- A line has whole calls. A call is emitted once, even if a later line repeats it under the same id. Calls without an
  id are never duplicates.
- The time of the answer is that of its first line, from which the ids of its calls are generated too. Of the later
  times only that of the last line is kept, so that the encoder can write it there.
- The line with `done` ends the answer.
- The fields beside `message` make the shell of the answer: a response without choices.
"""

from typing import Any

from msgspec.structs import replace

from toolwire.dialects.ollama.calls import decode_calls
from toolwire.dialects.ollama.error import decode_error
from toolwire.dialects.ollama.parts import WIRE, take_images
from toolwire.dialects.ollama.response import COUNT_FIELDS, decode_response, read_finish
from toolwire.encoding.request_fields import ABSENT
from toolwire.streams import PartBuilder, StreamDecoder, WireDecoder
from toolwire.streams.accumulation import TEXT_DELTAS
from toolwire.streams.call_judge import PartialCall
from toolwire.streams.merging import changed_fields, merge_fields
from toolwire.streams.reading import CHARACTERS_PER_MEMBER
from toolwire.types import (
    Choice,
    ChoiceEnd,
    Message,
    MessageDelta,
    MessageStart,
    OpaqueDelta,
    Response,
    Text,
    Thinking,
    ToolCall,
    UsageDelta,
)
from toolwire.types.spelling.ollama import OllamaLineSpelling
from toolwire.wire.framing import JsonLines
from toolwire.wire.names import number_of

_EMPTY_TEXT = Text("", opaque=WIRE.plain)
_EMPTY_THINKING = Thinking("", opaque=WIRE.plain)
# A `message` as the server usually writes it, without its text.
PLAIN_MESSAGE = {"role": "assistant", "content": ""}
_END_FIELDS = frozenset({"message", "done", "done_reason", *COUNT_FIELDS})
LOGPROBS = "logprobs"
_PLACEHOLDERS: dict[str, Any] = {
    "content": "x",
    "thinking": "x",
    "tool_calls": [{"function": {"name": "x", "arguments": {}}}],
    "images": ["x"],
}


class Decoder(WireDecoder):
    """A decoder of one Ollama stream.

    - `_fields`, `_message`: the fields beside the message, and the other fields of the message, of all lines.
    - `_line_fields`, `_line_message`: the same of the last line alone.
    - `_has_value`: the keys of the message that have come. The value is false as long as their texts were empty.
    - `_shell`: the shell that was emitted.
    - `_created_at`, `_line_time`: the time of the first line, and that of the present one.
    - `_calls_by_id`: the name and the arguments of each call with an id.
    """

    framing = JsonLines

    def __init__(self) -> None:
        super().__init__()
        self._fields: dict[str, Any] | None = None
        self._line_fields: dict[str, Any] | None = None
        self._line_message: dict[str, Any] | None = None
        self._message: dict[str, Any] = {}
        self._has_value: dict[str, bool] = {}
        self._speech = PartBuilder(self)
        self._shell: Response | None = None
        self._created_at: Any = None
        self._line_time: Any = None
        self._call_count = 0
        self._calls_by_id: dict[str, Any] = {}

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one line. `name` is always empty, because lines have no event names."""
        del name
        message, self._line_time = body.get("message"), body.pop("created_at", None)
        if type(message) is dict:
            del body["message"]
        elif body.get("error") is not None:
            self.fail(decode_error(None, body))
            return
        pieces = body.pop(LOGPROBS, None)
        if body != self._line_fields:
            self._read_fields(body)
        if pieces is not None:
            self._merge_logprobs(pieces)
        if type(message) is dict:
            self._read_message(message)
        if body.get("error") is not None:
            self.fail(decode_error(None, body))
        elif body.get("done") is True:
            self.end(complete=True)

    def _read_fields(self, body: dict[str, Any]) -> None:
        """Read the fields beside the message. Emit the shell of the answer, or the fields that have changed."""
        self._line_fields, previous = body, self._fields
        fields = {key: body[key] for key in body if key != "error" and not (key == "done" and not body[key])}
        self.count_rescan(CHARACTERS_PER_MEMBER * len(previous or ()))
        self._fields = {**(previous or {}), **fields}
        if previous is None:
            self._created_at = self._line_time
            start = {key: value for key, value in self._dated_fields().items() if key not in _END_FIELDS}
            self._shell = decode_response(start)
            self.events.append(MessageStart(self._shell))
        elif body.get("done") is not True:
            changed = changed_fields(previous, fields)
            self._emit_opaque({key: changed[key] for key in changed if key not in _END_FIELDS})

    def _dated_fields(self) -> dict[str, Any]:
        """Return the fields beside the message so far, with the time of the first line."""
        fields = self._fields or {}
        return fields if self._created_at is None else {**fields, "created_at": self._created_at}

    def _merge_logprobs(self, pieces: Any) -> None:
        """Merge the log probabilities of a line's text into those of all lines, as a response has them."""
        merge_fields(self._fields, {LOGPROBS: pieces})  # type: ignore[arg-type]  # `_read_fields` has set it
        self._emit_opaque({LOGPROBS: pieces})

    def _emit_opaque(self, fields: dict[str, Any], spelling: OllamaLineSpelling | None = None) -> None:
        """Emit fields that only this wire understands. The end of the answer repeats them."""
        if fields or spelling is not None:
            self.events.append(OpaqueDelta(repeated=True, opaque=WIRE.mark(fields, spelling)))

    def _read_message(self, message: dict[str, Any]) -> None:
        thinking, content = message.pop("thinking", ABSENT), message.pop("content", ABSENT)
        shell, text = (_EMPTY_TEXT, content) if thinking is ABSENT else (_EMPTY_THINKING, thinking)
        is_single = thinking is ABSENT or content is ABSENT or (content == "" and "content" in self._has_value)
        if is_single and self._speech.part is shell and message == self._line_message and type(text) is str and text:
            self.events.append(TEXT_DELTAS[type(shell)](self._speech.key, text))
            return
        for key, value in (("thinking", thinking), ("content", content)):
            if type(value) is not str and value is not ABSENT:
                message[key] = value  # noqa: PERF403 - it returns to the body that it was taken from
        self._read_other_message(message, thinking, content)

    def _read_other_message(self, message: dict[str, Any], thinking: Any, content: Any) -> None:
        """Read a message that does more than continue the open part."""
        entries = message.get("tool_calls")
        calls = message.pop("tool_calls") if type(entries) is list and entries else []
        images = take_images(message)
        if message != self._line_message:
            self._read_message_fields(message, content)
        for key, text, shell in (("thinking", thinking, _EMPTY_THINKING), ("content", content, _EMPTY_TEXT)):
            if type(text) is str:
                self._has_value[key] = self._has_value.get(key, False) or text != ""
                if text:
                    self._speech.add_text(shell, text)
        for image in images:
            self._has_value["images"] = True
            self._speech.add(image)
        for entry in calls:
            self._read_call(entry)

    def _read_message_fields(self, message: dict[str, Any], content: Any) -> None:
        """Read the fields of a message beside its text and calls, such as its role. Emit those that have changed."""
        is_first, self._line_message = self._line_message is None, message
        changed = changed_fields(self._message, message)
        self._message.update(changed)
        spelling = None
        if is_first:
            role = {"role": changed.pop("role")} if "role" in changed else {}
            fields = role | ({} if content is ABSENT else {"content": ""})
            spelling = None if fields == PLAIN_MESSAGE else OllamaLineSpelling(message=fields)
        self._emit_opaque({"message": changed} if changed else {}, spelling)

    def _read_call(self, entry: Any) -> None:
        """Read a call, unless it repeats an earlier one."""
        call_id = entry.get("id") if type(entry) is dict else None
        if type(call_id) is str and call_id:
            inner = entry.get("function")
            content = (inner.get("name"), inner.get("arguments")) if type(inner) is dict else inner
            if self._calls_by_id.get(call_id, ABSENT) == content:
                return
            self._calls_by_id[call_id] = content
        [call] = decode_calls([entry], number_of(self._created_at), self._call_count)
        self._call_count += 1
        self._has_value["tool_calls"] = True
        if type(call) is not ToolCall:
            self._speech.add(call)
            return
        partial = PartialCall(call.id, call.name, call.index, comes_whole=True, value=call.plain_arguments)
        partial.problem = self.frame_problem() if call.plain_arguments or self.damaged else None
        self.judge.opened(partial)
        self._speech.close()
        key = self.new_key()
        self.start_call(key, call)
        self.end_whole_call(key, self.judge.close(partial, call) or call)

    def end_choices(self, reason: str | None) -> None:
        """End the open part, and emit the usage, the changed shell and the end of the answer.

        The answer is decoded as a response in which placeholders stand for its text, calls and images.
        """
        if self._fields is None:
            return
        self._speech.close()
        body = {key: value for key, value in self._dated_fields().items() if key != "done" or reason is None}
        if self._line_message is not None:
            placeholders = {key: _PLACEHOLDERS[key] if has_value else "" for key, has_value in self._has_value.items()}
            body = {**body, "message": {**self._message, **placeholders}}
        response = decode_response(body)
        if response.usage is not None:
            self.events.append(UsageDelta(response.usage))
        shell = replace(response, choices=[], usage=None)
        if shell != self._shell:
            has_own_time = body.get("done") is True and self._line_time not in (None, self._created_at)
            opaque = WIRE.mark({}, OllamaLineSpelling(created_at=self._line_time)) if has_own_time else None
            self.events.append(MessageDelta(shell, opaque=opaque))
        for choice in response.choices or ([_EMPTY_CHOICE] if reason is not None else []):
            finish = reason or read_finish(choice.raw_finish_reason, called=self.judge.called)
            content: Any = "" if type(choice.message.content) is str else []
            message = replace(choice.message, content=content)
            self.events.append(ChoiceEnd(0, replace(choice, message=message, finish_reason=finish)))

    def end(self, *, complete: bool) -> None:
        """End the stream. It is complete only if a line with `done` came, whatever `complete` says."""
        del complete
        super().end(complete=(self._fields or {}).get("done") is True)


_EMPTY_CHOICE = Choice(Message("assistant", [], opaque=WIRE.plain), opaque=WIRE.plain)


def decode_stream() -> StreamDecoder:
    """Return a decoder of one Ollama stream."""
    return Decoder()
