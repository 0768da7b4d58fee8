"""The encoder of Responses streams: items that are added, grow and are done.

Rules of this file:
- An item is written by the same functions as in a response: once for its start, and once more, complete, for its end.
  The bodies that were written last are the output of the response that ends the stream.
- A message item stays open until a part comes that does not join it. A text that came over another wire starts with
  its first delta, because an empty text has no item.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from toolwire.dialects.openai_responses.calls import BLANK_LINE, BUILTIN_CALLS, TEXT_TYPES, Items, write_call
from toolwire.dialects.openai_responses.error import encode_error
from toolwire.dialects.openai_responses.messages import ASSISTANT_MESSAGE, PART_WRITERS
from toolwire.dialects.openai_responses.parts import WIRE, encode_citation
from toolwire.dialects.openai_responses.request import echo_of
from toolwire.dialects.openai_responses.response import (
    TEXT_FIELDS,
    TextField,
    encode_finish,
    encode_response,
    encode_with_echo,
)
from toolwire.encoding.errors import TYPE_OF_KIND
from toolwire.encoding.ledger import Ledger, spelling_of
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.streams import AnyTextDelta, SequentialEncoder, StreamEncoder, encode_json
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    CitationDelta,
    Encoded,
    Error,
    ErrorEnd,
    ErrorReply,
    Message,
    MessageDelta,
    MessageStart,
    OpaqueDelta,
    PartEnd,
    PartStart,
    Refusal,
    Response,
    Text,
    Thinking,
    ThinkingDelta,
    ToolCall,
)
from toolwire.types.spelling.openai_responses import (
    ResponsesCallSpelling,
    ResponsesDeltaSpelling,
    ResponsesOutputSpelling,
    ResponsesThinkingSpelling,
)
from toolwire.wire.arguments import cut_off_text, format_arguments
from toolwire.wire.framing import write_event
from toolwire.wire.names import Ids

_TEXT_STEPS = ("delta", "done")
_NO_RESPONSE = Response()
# Events of items. A client that received one without its item would start a new item.
_ITEM_EVENTS = frozenset(
    {"response.output_item.added", "response.output_item.done"}
    | {
        f"response.{text_event}.{step}"
        for text_event in ("function_call_arguments", "custom_tool_call_input")
        for step in _TEXT_STEPS
    }
)
_TEXT_PARTS = frozenset({Text, Refusal, Thinking})
_FINAL_STATUSES = frozenset({"completed", "incomplete", "failed", "cancelled"})
_ERROR_CODES = {"rate_limit": "rate_limit_exceeded", "invalid_request": "invalid_prompt"}


class Encoder(SequentialEncoder):
    """The encoder of one stream.

    Of the current part:
    - `_part`: the part as it started, or None for a call.
    - `_snapshot`: the state of the items before it started, or None if nothing of it was written yet. For a call, its
      index and its first body.
    - `_text_field`: its text and the events that carry it, or None if it has no text.
    - `_block_position`: the keys of its events that identify its text.
    - `_pieces`: its current text in pieces.
    - `_earlier_texts`: the texts of reasoning before the current one.
    - `_citation_count`, `_annotation_count`: how many of its citations arrived, and how many were written.

    Of the response:
    - `_items`, `_ended_parts`: the items, and the parts that have ended.
    - `_message_index`: the index of the open message item.
    - `_item_position`: the keys of events that identify the current item.
    - `_echo`: the settings of the request as JSON, which every event with the response repeats.
    """

    wire = WIRE
    encode_response: Callable[[Response, Quirks], Encoded] = staticmethod(encode_response)
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)

    _response: Response | None = None
    _echo: dict[str, Any] | None = None
    _message_index: int | None = None
    _text_field: TextField | None = None
    _sequence_number = -1
    _response_id: Any = None
    _part: Any = None
    _snapshot: Any = None
    _annotation_count = _citation_count = 0

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._ended_parts: list[Any] = []
        self._items = Items(self.ledger, _NO_RESPONSE)
        self._item_position: dict[str, Any] = {}
        self._block_position: dict[str, Any] = {}
        self._pieces: list[str] = []
        self._earlier_texts: list[str] = []

    def _write_event(self, event_type: str, body: dict[str, Any]) -> bytes:
        """Write an event with the next sequence number."""
        self._sequence_number += 1
        return write_event(
            encode_json({"type": event_type, **body, "sequence_number": self._sequence_number}), event_type.encode()
        )

    def write_message_start(self, event: MessageStart) -> bytes:
        """Write the start of the response, without its output and its end."""
        self._response = self._items.response = event.response
        self._is_native = self.is_native(event.response)
        status = self.native_fields(event.opaque).get("status", "in_progress")
        started = self._response_body(status)
        created = self._write_event("response.created", started)
        is_native = self.is_native(event)
        return created if is_native else created + self._write_event("response.in_progress", started)

    def _response_body(self, status: Any) -> dict[str, Any]:
        """Return the body of an event about the response before its end."""
        body = {**self._encode_response_shell(), **({"status": status} if status else {}), "output": []}
        self._response_id = body.get("id")
        return {"response": body}

    def _encode_response_shell(self) -> dict[str, Any]:
        """Write the response as far as it is known, without its output."""
        response = self._response or _NO_RESPONSE
        usage = response.usage if self._usage is None else self._usage
        body = self.encode_shell(replace(response, usage=usage))
        return body if self.is_native(response) or self._response_id is None else {**body, "id": self._response_id}

    def encode_head(self, response: Response) -> Encoded:
        """Write a response without its output. If it is of another wire, it repeats the settings of the request."""
        if self._echo is None and not self.is_native(response):
            self._echo = {key: Raw(encode_json(value)) for key, value in echo_of(self.ledger.request).items()}
        return encode_with_echo(response, Ledger(WIRE, self.ledger.quirks, of="response"), self._echo or {})

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Store the changed response for its end. If this wire sent the change, write it with its status."""
        self._response = event.response
        if not self.is_native(event):
            return b""
        status = self.native_fields(event.opaque).get("status")
        event_type = f"response.{'queued' if status == 'queued' else 'in_progress'}"
        return self._write_event(event_type, self._response_body(status))

    def _reset_part(self, key: int, part: Any) -> None:
        """Make `part` the current one, of which nothing was written yet."""
        self.set_path("choices", 0, "message", part=key)
        self._part, self._snapshot, self._text_field = part, None, None
        self._pieces, self._earlier_texts, self._annotation_count, self._citation_count = [], [], 0, 0

    def write_part_start(self, event: PartStart) -> bytes:
        """Start a part that this wire sent. A part of another wire starts with its first delta."""
        part: Any = event.part
        self._reset_part(event.key, part)
        return self._add_content_part(part) if self.is_native(part) else b""

    def _add_part(self, part: Any) -> None:
        """Append the items of a part, or report it as a loss."""
        if type(part) in PART_WRITERS:
            PART_WRITERS[type(part)](part, self._items)
        else:
            self.ledger.lose_part(part, ASSISTANT_MESSAGE)

    def _take_snapshot(self) -> tuple[int, list[Any] | None, int]:
        """Return the state of the items, for `_restore`."""
        return len(self._items.bodies), self._items.open_content, len(self._items.open_content or ())

    def _restore(self, snapshot: tuple[int, list[Any] | None, int]) -> None:
        """Remove what was added to the items since `snapshot` was taken."""
        count, open_blocks, size = snapshot
        del self._items.bodies[count:]
        del (open_blocks or [])[size:]
        self._items.open_content = open_blocks

    def _add_content_part(self, part: Any) -> bytes:
        """Add a part as far as it is known, and write the start of the item and of the block that it adds.

        Losses are not reported yet, because the complete part is added again at its end.
        """
        items, loss_count = self._items, len(self.ledger.losses)
        self._snapshot = count, content, size = self._take_snapshot()
        self._add_part(part)
        del self.ledger.losses[loss_count:]
        data = self._start_item(count) if len(items.bodies) > count else b""
        if items.open_content and (items.open_content is not content or len(items.open_content) > size):
            self._text_field = TEXT_FIELDS.get(items.open_content[-1]["type"]) if type(part) in _TEXT_PARTS else None
            data += self._start_block(items.open_content[-1], len(items.open_content) - 1)
        return data

    def _start_item(self, index: int) -> bytes:
        """Write the start of an item, after the end of the open message item."""
        body, closed = self._items.bodies[index], self._close_message()
        self._message_index = index if self._items.open_content is not None else None
        self._item_position = {"item_id": body.get("id", "") if type(body) is dict else "", "output_index": index}
        return closed + self._write_event(
            "response.output_item.added", {"output_index": index, "item": _initial_item(body)}
        )

    def _close_message(self) -> bytes:
        """Write the end of the open message item, if there is one."""
        index, self._message_index = self._message_index, None
        return b"" if index is None else self._end_item(index)

    def _end_item(self, index: int) -> bytes:
        """Write the end of an item, with its final body."""
        fields = {"output_index": index, "item": self._items.bodies[index]}
        return self._write_event("response.output_item.done", fields)

    def _start_block(self, block: Any, index: int) -> bytes:
        """Write the start of a block, whose text is still empty."""
        text_field = self._text_field or TEXT_FIELDS["output_text"]
        self._block_position, self._pieces = {**self._item_position, text_field.index_key: index}, []
        if self._text_field is not None:
            empty_lists: dict[str, Any] = {key: [] for key in ("annotations", "logprobs") if key in block}
            block = {**block, text_field.field: "", **empty_lists}
        return self._write_event(f"response.{text_field.block_event}.added", {**self._block_position, "part": block})

    def _end_block(self, block: Any) -> bytes:
        """Write the end of a block, after the end of its text."""
        text_field, data = self._text_field, b""
        if text_field is not None:
            fields = {text_field.field: "".join(self._pieces), **_logprobs_of(text_field, block.get("logprobs"))}
            data = self._write_event(f"response.{text_field.text_event}.done", {**self._block_position, **fields})
        event = "content_part" if text_field is None else text_field.block_event
        return data + self._write_event(f"response.{event}.done", {**self._block_position, "part": block})

    def _write_delta(self, text: str, unparsed: dict[str, Any]) -> bytes:
        """Append `text` to the current text, and write its event with the `unparsed` keys of the delta."""
        text_field = self._text_field
        self._pieces.append(text)
        if text_field is None or not (text or unparsed):
            return b""
        body = {**self._block_position, **_logprobs_of(text_field, None), **unparsed, "delta": text}
        return self._write_event(f"response.{text_field.text_event}.delta", body)

    def write_text_delta(self, event: AnyTextDelta) -> bytes:
        """Write a delta of a text, a refusal or reasoning."""
        data, text = b"", event.text
        if self._snapshot is None and text and type(self._part) in _TEXT_PARTS:
            data = self._add_content_part(replace(self._part, text=text))
        if type(event) is not ThinkingDelta:
            return data + self._write_delta(text, self.native_fields(event.opaque))
        return data + self._write_thinking(event)

    def _write_thinking(self, event: ThinkingDelta) -> bytes:
        """Write a delta of reasoning, after the start of the text that it belongs to."""
        data, text = b"", event.text
        if self._snapshot is None or self._has_whole_thinking():
            self._pieces.append(text)
            return b""
        spelling = spelling_of(event.opaque, ResponsesDeltaSpelling)
        for _ in range(len(self._earlier_texts) + (self._text_field is not None), spelling.text_index + 1):
            data += self._start_text(spelling.reasoning_key)
        text = text.removeprefix(BLANK_LINE) if spelling.text_index else text
        return data + self._write_delta(text, self.native_fields(event.opaque))

    def _has_whole_thinking(self) -> bool:
        """Return True if the current part is reasoning that was read from a response, with all of its texts."""
        return bool(spelling_of(getattr(self._part, "opaque", None), ResponsesThinkingSpelling).texts)

    def _start_text(self, key: str) -> bytes:
        """Write the start of a text of reasoning, after the end of the one before."""
        ended, index = b"", 0
        if self._text_field is not None:
            self._earlier_texts.append("".join(self._pieces))
            ended = self._end_block({"type": TEXT_TYPES[key], "text": self._earlier_texts[-1]})
            index = len(self._earlier_texts)
        self._text_field = TEXT_FIELDS[key]
        return ended + self._start_block({"type": TEXT_TYPES[key], "text": ""}, index)

    def write_citation(self, event: CitationDelta) -> bytes:
        """Write an annotation."""
        data = self._add_content_part(self._part) if self._snapshot is None and type(self._part) is Text else b""
        self._citation_count += 1
        annotation = encode_citation(event.citation, self.ledger)
        if annotation is None or self._text_field is None:
            return data
        self._annotation_count += 1
        body = {**self._block_position, "annotation_index": self._annotation_count - 1, "annotation": annotation}
        return data + self._write_event("response.output_text.annotation.added", body)

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Write an event again that this wire sent. Report one of another wire as a loss, unless it is repeated."""
        self.lose_opaque_event(event)
        body = self.native_fields(event.opaque)
        event_type = body.get("type")
        if type(event_type) is not str or event_type in _ITEM_EVENTS:
            if body and not spelling_of(event.opaque, ResponsesDeltaSpelling).is_in_delta:
                self.set_path()
                self.ledger.lose("opaque", "opaque", "it is no event, or it is about an item that is not in the stream")
            return b""
        if event.key is not None and "output_index" in body:
            body = {**body, "output_index": self._item_position.get("output_index", 0)}
        return self._write_event(body["type"], body)

    def write_part_end(self, event: PartEnd) -> bytes:
        """Write the end of a part. The complete part replaces the one with which it started."""
        part: Any = event.part
        if type(part) in _TEXT_PARTS:
            part = replace(part, text=part.text + BLANK_LINE.join([*self._earlier_texts, "".join(self._pieces)]))
        if self._snapshot is None:
            snapshot = self._take_snapshot()
            self._add_part(part)
            if type(part) in (Text, Refusal):
                self._restore(snapshot)
            return b""
        index = self._snapshot[0]
        self._restore(self._snapshot)
        self._add_part(part)
        opaques = [getattr(each, "opaque", None) for each in (self._part, part)]
        has_items = all(spelling_of(opaque, ResponsesOutputSpelling).item is not None for opaque in opaques)
        if type(part) is Text and len(self._items.bodies) > index and not has_items:
            position = self._item_position if self._item_position.get("output_index") == index else {}
            if position.get("item_id"):  # an item ends with the id with which it started
                self._items.bodies[index]["id"] = position["item_id"]
        data = self._end_part(part, index)
        self._ended_parts.append(part)
        return data

    def _end_part(self, part: Any, index: int) -> bytes:
        """Write the rest of the text and the citations of a part, and the ends of its block and its item."""
        if type(part) is Thinking:
            return self._end_texts(part, self._items.bodies[index]) + self._end_item(index)
        if not self._items.open_content:
            return self._end_item(index) if len(self._items.bodies) > index else b""
        unwritten = (getattr(part, "citations", None) or ())[self._citation_count :]
        annotations = [self.write_citation(CitationDelta(0, citation)) for citation in unwritten]
        return b"".join(annotations) + self._end_block(self._items.open_content[-1])

    def _end_texts(self, part: Thinking, body: dict[str, Any]) -> bytes:
        """Write the ends of the texts of reasoning, and the texts that no delta had."""
        data, usual_key = b"", spelling_of(part.opaque, ResponsesThinkingSpelling).reasoning_key
        key = next((key for key in TEXT_TYPES if self._text_field is TEXT_FIELDS[key]), usual_key)
        blocks = body[key] if type(body.get(key)) is list else []
        for index, block in enumerate(blocks):
            text_count = len(self._earlier_texts) + (self._text_field is not None)
            text = block.get("text") if type(block) is dict and index >= text_count - 1 else None
            if type(text) is str:
                data += self._start_text(key) if index >= text_count else b""
                written = "".join(self._pieces)
                data += self._write_delta(text[len(written) :], {}) if text.startswith(written) else b""
        if self._text_field is not None:
            data += self._end_block({"type": TEXT_TYPES[key], "text": "".join(self._pieces)})
        return data

    def write_call_start(self, event: CallStart) -> bytes:
        """Write the start of a call. A call of a tool that OpenAI defines is written at its end, with an object."""
        self._reset_part(event.key, None)
        if spelling_of(event.opaque, ResponsesCallSpelling).builtin is not None:
            return b""
        fields: Any = {"raw": "", "custom": event.custom, "opaque": event.opaque}
        return self._start_call(ToolCall(event.id, event.name, {}, event.index, **fields))

    def _start_call(self, call: ToolCall) -> bytes:
        """Add a call without its text, and write the start of its item."""
        index = len(self._items.bodies)
        write_call(call, self._items)
        self._snapshot = index, self._items.bodies[index]
        data = self._start_item(index)
        self._text_field, self._block_position = TEXT_FIELDS.get(self._items.bodies[index]["type"]), self._item_position
        return data

    def write_call_delta(self, event: CallDelta) -> bytes:
        """Write a fragment of the text of a call."""
        return self._write_delta(event.fragment, self.native_fields(event.opaque))

    def write_call_end(self, event: CallEnd) -> bytes:
        """Write the end of a call. The complete call has the id with which it started."""
        start = b"" if self._snapshot else self._start_call(event.call)
        (index, first_body), ids, text_field = self._snapshot, self.ledger.ids, self._text_field
        self._ended_parts.append(event.call)
        if text_field is None:
            return start + self._end_item(index)
        del self._items.bodies[index:]
        self.ledger.ids = Ids(None)
        write_call(event.call, self._items)
        self.ledger.ids = ids
        body = self._items.bodies[index]
        body |= {key: first_body[key] for key in ("call_id",) if key in body and key in first_body}
        if text_field is TEXT_FIELDS["function_call"] and type(body.get(text_field.field)) is str:
            is_marked = not event.call.complete and not self.is_native(event.call)
            body[text_field.field] = cut_off_text(body[text_field.field], marked=is_marked)
        value, written = body.get(text_field.field, {} if event.call.runs else ""), "".join(self._pieces)
        text = value if type(value) is str else format_arguments(value or {})
        data = start + (self._write_delta(text[len(written) :], {}) if text.startswith(written) else b"")
        data += self._write_event(
            f"response.{text_field.text_event}.done", {**self._block_position, text_field.field: text}
        )
        return data + self._end_item(index)

    def _final_response(self) -> dict[str, Any]:
        """Return the response with its output and its status."""
        self.set_path()
        body = {**self._encode_response_shell(), "output": self._items.bodies}
        choice = self._choice or Choice(Message("assistant", []))
        choice = replace(choice, message=replace(choice.message, content=self._ended_parts))
        encode_finish(choice, body, self.ledger)
        return body

    def write_error(self, event: ErrorEnd) -> bytes:
        """Write an error, which ends the stream: as the failure of the response, or alone if that has not started."""
        self.ended = self.failed = True
        error, reply = event.error, self.encode_reply(event.error)
        if self.is_native(error) and reply.body.get("type") == "error":
            return self._write_event("error", reply.body)
        details: Any = reply.body.get("error")
        details = details if type(details) is dict else {"code": error.code, "message": error.message}
        if self._response is None:
            return self._write_event("error", {key: details.get(key) for key in ("code", "message", "param")})
        code = details.get("code") or _ERROR_CODES.get(error.kind) or TYPE_OF_KIND.get(error.kind, "server_error")
        closed = self._close_message()
        failed = {**self._final_response(), "status": "failed", "error": {**details, "code": code}}
        if not self._is_native:
            failed["completed_at"] = None
        return closed + self._write_event("response.failed", {"response": failed})

    def write_ending(self, *, complete: bool) -> bytes:
        """Write the end of the open message item and, if the stream is complete, of the response."""
        closed = self._close_message()
        if not complete:
            return closed
        body = self._final_response()
        status = body.get("status")
        ending = f"response.{status if type(status) is str and status in _FINAL_STATUSES else 'completed'}"
        return closed + self._write_event(ending, {"response": body})


def _initial_item(body: Any) -> Any:
    """Return an item as it is at its start, without content."""
    item_type = body.get("type", "message") if type(body) is dict else None
    if type(item_type) is not str or item_type not in _INITIAL_FIELDS:
        return body
    initial_fields = {key: empty for key, empty in _INITIAL_FIELDS[item_type].items() if key in body}
    status = {"status": "in_progress"} if "status" in body else {}
    return {**body, **initial_fields, **status}


_INITIAL_FIELDS: dict[str, dict[str, Any]] = {
    "message": {"content": []},
    "reasoning": {"summary": [], "content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    **{item_type: {} for item_type in BUILTIN_CALLS},
}


def _logprobs_of(text_field: TextField, logprobs: Any) -> dict[str, Any]:
    """Return the key `logprobs`, which OpenAI sends with every text of the answer."""
    return {"logprobs": logprobs or []} if text_field.text_event == "output_text" else {}


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder for one stream, which writes as a server with these `quirks`.

    The tool names in `names` are written unchanged. `settings` replace single quirks.
    """
    return Encoder.open(quirks, names, **settings)
