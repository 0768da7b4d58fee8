"""Streams of Ollama's chat, read: lines that each say the next piece of one message.

Rules of this file:
- Words of one kind in a row are one part. Parts stand in the order in which they came; a response has them in
  the order of the wire's keys.
- A call comes whole. One that came before under the same id is not told again; calls without an id are never
  taken for the same.
- The answer is dated by its first line, and so are the ids that are made for its calls. Of the times that the
  other lines say, only that of the last is kept, for the last line.
- The line that says `done` ends the answer. What stands beside the message there is the shell of the answer.
"""

from typing import Any

from msgspec.structs import replace

from toolwire.dialects.ollama.calls import decode_calls
from toolwire.dialects.ollama.error import decode_error
from toolwire.dialects.ollama.parts import WIRE, take_images
from toolwire.dialects.ollama.response import COUNTS, decode_response, read_finish
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

TEXT = Text("", opaque=WIRE.plain)
_THOUGHT = Thinking("", opaque=WIRE.plain)
LINE = {"role": "assistant", "content": ""}
_OF_END = frozenset({"message", "done", "done_reason", *COUNTS})
JOINED = "logprobs"
_PLACEHOLDERS: dict[str, Any] = {
    "content": "x",
    "thinking": "x",
    "tool_calls": [{"function": {"name": "x", "arguments": {}}}],
    "images": ["x"],
}


class Decoder(WireDecoder):
    """Reads lines. `_said` holds the keys of the message under which there was something, or only nothing."""

    framing = JsonLines

    def __init__(self) -> None:
        super().__init__()
        self._top: dict[str, Any] | None = None
        self._beside: dict[str, Any] | None = None
        self._around: dict[str, Any] | None = None
        self._message: dict[str, Any] = {}
        self._said: dict[str, bool] = {}
        self._speech = PartBuilder(self)
        self._told: Response | None = None
        self._began: Any = None
        self._time: Any = None
        self._calls = 0
        self._ids: dict[str, Any] = {}

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one line."""
        del name
        message, self._time = body.get("message"), body.pop("created_at", None)
        if type(message) is dict:
            del body["message"]
        elif body.get("error") is not None:
            self.fail(decode_error(None, body))
            return
        pieces = body.pop(JOINED, None)
        if body != self._beside:
            self._read_beside(body)
        if pieces is not None:
            self._join(pieces)
        if type(message) is dict:
            self._read_message(message)
        if body.get("error") is not None:
            self.fail(decode_error(None, body))
        elif body.get("done") is True:
            self.end(complete=True)

    def _read_beside(self, body: dict[str, Any]) -> None:
        """Read what stands beside the message: the shell of the answer, or news of it."""
        self._beside, before = body, self._top
        beside = {key: body[key] for key in body if key != "error" and not (key == "done" and not body[key])}
        self.count_rescan(CHARACTERS_PER_MEMBER * len(before or ()))
        self._top = {**(before or {}), **beside}
        if before is None:
            self._began = self._time
            known = {key: value for key, value in self._dated().items() if key not in _OF_END}
            self._told = decode_response(known)
            self.events.append(MessageStart(self._told))
        elif body.get("done") is not True:
            news = changed_fields(before, beside)
            self._tell_step({key: news[key] for key in news if key not in _OF_END})

    def _dated(self) -> dict[str, Any]:
        """Give what is known beside the message, with the time of the first line."""
        top = self._top or {}
        return top if self._began is None else {**top, "created_at": self._began}

    def _join(self, pieces: Any) -> None:
        """Join what each line has for its own words: a response has all of it."""
        merge_fields(self._top, {JOINED: pieces})  # type: ignore[arg-type]  # what stands beside was read before
        self._tell_step({JOINED: pieces})

    def _tell_step(self, news: dict[str, Any], spelling: OllamaLineSpelling | None = None) -> None:
        if news or spelling is not None:
            self.events.append(OpaqueDelta(repeated=True, opaque=WIRE.mark(news, spelling)))

    def _read_message(self, message: dict[str, Any]) -> None:
        thinking, content = message.pop("thinking", ABSENT), message.pop("content", ABSENT)
        shell, words = (TEXT, content) if thinking is ABSENT else (_THOUGHT, thinking)
        alone = thinking is ABSENT or content is ABSENT or (content == "" and "content" in self._said)
        if alone and self._speech.part is shell and message == self._around and type(words) is str and words:
            self.events.append(TEXT_DELTAS[type(shell)](self._speech.key, words))
            return
        for key, value in (("thinking", thinking), ("content", content)):
            if type(value) is not str and value is not ABSENT:
                message[key] = value  # noqa: PERF403 - it goes back to where it was
        self._read_odd_message(message, thinking, content)

    def _read_odd_message(self, message: dict[str, Any], thinking: Any, content: Any) -> None:
        entries = message.get("tool_calls")
        calls = message.pop("tool_calls") if type(entries) is list and entries else []
        images = take_images(message)
        if message != self._around:
            self._read_around(message, content)
        for key, words, shell in (("thinking", thinking, _THOUGHT), ("content", content, TEXT)):
            if type(words) is str:
                self._said[key] = self._said.get(key, False) or words != ""
                if words:
                    self._speech.add_text(shell, words)
        for image in images:
            self._said["images"] = True
            self._speech.add(image)
        for entry in calls:
            self._read_call(entry)

    def _read_around(self, message: dict[str, Any], content: Any) -> None:
        """Read what a message says beside its words and calls: who speaks, first of all."""
        first, self._around = self._around is None, message
        news = changed_fields(self._message, message)
        self._message.update(news)
        spelling = None
        if first:
            role = {"role": news.pop("role")} if "role" in news else {}
            line = role | ({} if content is ABSENT else {"content": ""})
            spelling = None if line == LINE else OllamaLineSpelling(message=line)
        self._tell_step({"message": news} if news else {}, spelling)

    def _read_call(self, entry: Any) -> None:
        """Read a call, unless it is one that came before."""
        call_id = entry.get("id") if type(entry) is dict else None
        if type(call_id) is str and call_id:
            inner = entry.get("function")
            asked = (inner.get("name"), inner.get("arguments")) if type(inner) is dict else inner
            if self._ids.get(call_id, ABSENT) == asked:
                return
            self._ids[call_id] = asked
        [call] = decode_calls([entry], number_of(self._began), self._calls)
        self._calls += 1
        self._said["tool_calls"] = True
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
        """End what is open, and tell what the last line, or what came of one, says of the answer."""
        if self._top is None:
            return
        self._speech.close()
        body = {key: value for key, value in self._dated().items() if key != "done" or reason is None}
        if self._around is not None:
            placeholders = {key: _PLACEHOLDERS[key] if words else "" for key, words in self._said.items()}
            body = {**body, "message": {**self._message, **placeholders}}
        response = decode_response(body)
        if response.usage is not None:
            self.events.append(UsageDelta(response.usage))
        shell = replace(response, choices=[], usage=None)
        if shell != self._told:
            late = body.get("done") is True and self._time not in (None, self._began)
            step = WIRE.mark({}, OllamaLineSpelling(created_at=self._time)) if late else None
            self.events.append(MessageDelta(shell, opaque=step))
        for choice in response.choices or ([_SILENT] if reason is not None else []):
            finish = reason or read_finish(choice.raw_finish_reason, called=self.judge.called)
            content: Any = "" if type(choice.message.content) is str else []
            message = replace(choice.message, content=content)
            self.events.append(ChoiceEnd(0, replace(choice, message=message, finish_reason=finish)))

    def end(self, *, complete: bool) -> None:
        """End the stream; only the line that says `done` makes it whole."""
        del complete
        super().end(complete=(self._top or {}).get("done") is True)


_SILENT = Choice(Message("assistant", [], opaque=WIRE.plain), opaque=WIRE.plain)


def decode_stream() -> StreamDecoder:
    """Read a stream."""
    return Decoder()
