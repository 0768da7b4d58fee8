"""Streams of Responses, written: items that are added, grow and are done.

Rules of this file:
- An item is written by the same functions as in a response: once to begin it, and again to end it, then in
  full. What was written last is the output of the response that ends the stream.
- A message stays open until a part comes that does not join it. Words from elsewhere begin with the first of
  them: an empty text has no item of its own.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_responses.calls import BLANK_LINE, OWN_CALLS, TEXTS, Items, write_call
from toolwire.dialects.openai_responses.error import encode_error
from toolwire.dialects.openai_responses.messages import ASSISTANT, WRITERS
from toolwire.dialects.openai_responses.parts import WIRE, encode_citation
from toolwire.dialects.openai_responses.response import GROWS, Grows, encode_ending, encode_response
from toolwire.encoding.errors import TYPE_OF_KIND
from toolwire.encoding.ledger import spelling_of
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
from toolwire.wire.arguments import format_arguments, half_text
from toolwire.wire.framing import write_event
from toolwire.wire.names import Ids

_STEPS = ("delta", "done")
_NO_RESPONSE = Response()
# The events of items. One that fitted no item where it was read would begin another one for the next reader.
_OF_ITEMS = frozenset(
    {"response.output_item.added", "response.output_item.done"}
    | {f"response.{words}.{step}" for words in ("function_call_arguments", "custom_tool_call_input") for step in _STEPS}
)
WORDS = frozenset({Text, Refusal, Thinking})
ENDINGS = frozenset({"completed", "incomplete", "failed", "cancelled"})
_CODES = {"rate_limit": "rate_limit_exceeded", "invalid_request": "invalid_prompt"}


class Encoder(SequentialEncoder):
    """Writes the events of a stream.

    The present part: `_before` is what the items were before it began. Its block that grows: `_grows` says
    how its events are called, `_step` where it is, `_words` what it said; `_texts` are those of reasoning
    before it. `_message` is the place of an open message.
    """

    wire = WIRE
    encode_response: Callable[[Response, Quirks], Encoded] = staticmethod(encode_response)
    encode_error: Callable[[Error], ErrorReply] = staticmethod(encode_error)

    _response: Response | None = None
    _message: int | None = None
    _grows: Grows | None = None
    _number = -1
    _id: Any = None
    _part: Any = None
    _before: Any = None
    _notes = _cited = 0

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._ended: list[Any] = []
        self._items = Items(self.ledger, _NO_RESPONSE)
        self._place: dict[str, Any] = {}
        self._step: dict[str, Any] = {}
        self._words: list[str] = []
        self._texts: list[str] = []

    def _event(self, kind: str, body: dict[str, Any]) -> bytes:
        self._number += 1
        return write_event(encode_json({"type": kind, **body, "sequence_number": self._number}), kind.encode())

    def write_message_start(self, event: MessageStart) -> bytes:
        """Begin the response; what it will hold and how it will end is not known yet."""
        self._response = self._items.response = event.response
        self._is_native = self.is_native(event.response)
        status = self.native_fields(event.opaque).get("status", "in_progress")
        begun = self._begun_with(status)
        created = self._event("response.created", begun)
        mine = self.is_native(event)
        return created if mine else created + self._event("response.in_progress", begun)

    def _begun_with(self, status: Any) -> dict[str, Any]:
        body = {**self._shell(), **({"status": status} if status else {}), "output": []}
        self._id = body.get("id")
        return {"response": body}

    def _shell(self) -> dict[str, Any]:
        response = self._response or _NO_RESPONSE
        usage = response.usage if self._usage is None else self._usage
        body = self.encode_shell(replace(response, usage=usage))
        return body if self.is_native(response) or self._id is None else {**body, "id": self._id}

    def write_message_delta(self, event: MessageDelta) -> bytes:
        """Keep what is new about the response; it is said at its end, or with its status if it has one."""
        self._response = event.response
        if not self.is_native(event):
            return b""
        status = self.native_fields(event.opaque).get("status")
        kind = f"response.{'queued' if status == 'queued' else 'in_progress'}"
        return self._event(kind, self._begun_with(status))

    def _announce(self, key: int, part: Any) -> None:
        self.set_path("choices", 0, "message", part=key)
        self._part, self._before, self._grows = part, None, None
        self._words, self._texts, self._notes, self._cited = [], [], 0, 0

    def write_part_start(self, event: PartStart) -> bytes:
        """Begin a part that was read here; words from elsewhere begin with the first of them."""
        part: Any = event.part
        self._announce(event.key, part)
        return self._begin(part) if self.is_native(part) else b""

    def _write(self, part: Any) -> None:
        if type(part) in WRITERS:
            WRITERS[type(part)](part, self._items)
        else:
            self.ledger.lose_part(part, ASSISTANT)

    def _state(self) -> tuple[int, list[Any] | None, int]:
        """Say what the items are, for `_restore`."""
        return len(self._items.bodies), self._items.open, len(self._items.open or ())

    def _restore(self, state: tuple[int, list[Any] | None, int]) -> None:
        count, open_blocks, size = state
        del self._items.bodies[count:]
        del (open_blocks or [])[size:]
        self._items.open = open_blocks

    def _begin(self, part: Any) -> bytes:
        """Write a part as far as it is known, to say what begins with it."""
        items, losses = self._items, len(self.ledger.losses)
        self._before = count, before, size = self._state()
        self._write(part)
        del self.ledger.losses[losses:]
        data = self._begin_item(count) if len(items.bodies) > count else b""
        if items.open and (items.open is not before or len(items.open) > size):
            self._grows = GROWS.get(items.open[-1]["type"]) if type(part) in WORDS else None
            data += self._begin_block(items.open[-1], len(items.open) - 1)
        return data

    def _begin_item(self, place: int) -> bytes:
        body, closed = self._items.bodies[place], self._close_message()
        self._message = place if self._items.open is not None else None
        self._place = {"item_id": body.get("id", "") if type(body) is dict else "", "output_index": place}
        return closed + self._event("response.output_item.added", {"output_index": place, "item": _begun(body)})

    def _close_message(self) -> bytes:
        place, self._message = self._message, None
        return b"" if place is None else self._end_item(place)

    def _end_item(self, place: int) -> bytes:
        done = {"output_index": place, "item": self._items.bodies[place]}
        return self._event("response.output_item.done", done)

    def _begin_block(self, block: Any, place: int) -> bytes:
        grows = self._grows or GROWS["output_text"]
        self._step, self._words = {**self._place, grows.places: place}, []
        if self._grows is not None:
            emptied: dict[str, Any] = {key: [] for key in ("annotations", "logprobs") if key in block}
            block = {**block, grows.field: "", **emptied}
        return self._event(f"response.{grows.part}.added", {**self._step, "part": block})

    def _end_block(self, block: Any) -> bytes:
        grows, data = self._grows, b""
        if grows is not None:
            text = {grows.field: "".join(self._words), **_logprobs(grows, block.get("logprobs"))}
            data = self._event(f"response.{grows.words}.done", {**self._step, **text})
        part = "content_part" if grows is None else grows.part
        return data + self._event(f"response.{part}.done", {**self._step, "part": block})

    def _say(self, words: str, left: dict[str, Any]) -> bytes:
        """Write the event of a block's next words, with `left`, the fields of this wire beside them."""
        grows = self._grows
        self._words.append(words)
        if grows is None or not (words or left):
            return b""
        body = {**self._step, **_logprobs(grows, None), **left, "delta": words}
        return self._event(f"response.{grows.words}.delta", body)

    def write_text_delta(self, event: AnyTextDelta) -> bytes:
        """Write words."""
        data, words = b"", event.text
        if self._before is None and words and type(self._part) in WORDS:
            data = self._begin(replace(self._part, text=words))
        if type(event) is not ThinkingDelta:
            return data + self._say(words, self.native_fields(event.opaque))
        return data + self._write_thinking(event)

    def _write_thinking(self, event: ThinkingDelta) -> bytes:
        """Write words of reasoning, in the text that they belong to."""
        data, words = b"", event.text
        if self._before is None or self._thinking_is_whole():
            self._words.append(words)
            return b""
        spelling = spelling_of(event.opaque, ResponsesDeltaSpelling)
        for _ in range(len(self._texts) + (self._grows is not None), spelling.text_index + 1):
            data += self._begin_text(spelling.reasoning_key)
        words = words.removeprefix(BLANK_LINE) if spelling.text_index else words
        return data + self._say(words, self.native_fields(event.opaque))

    def _thinking_is_whole(self) -> bool:
        """Return True if the open part is reasoning that was read from a response, with all of its texts."""
        return bool(spelling_of(getattr(self._part, "opaque", None), ResponsesThinkingSpelling).texts)

    def _begin_text(self, key: str) -> bytes:
        """Begin a text of reasoning, after the end of the one before."""
        ended, place = b"", 0
        if self._grows is not None:
            self._texts.append("".join(self._words))
            ended, place = self._end_block({"type": TEXTS[key], "text": self._texts[-1]}), len(self._texts)
        self._grows = GROWS[key]
        return ended + self._begin_block({"type": TEXTS[key], "text": ""}, place)

    def write_citation(self, event: CitationDelta) -> bytes:
        """Write an annotation."""
        data = self._begin(self._part) if self._before is None and type(self._part) is Text else b""
        self._cited += 1
        note = encode_citation(event.citation, self.ledger)
        if note is None or self._grows is None:
            return data
        self._notes += 1
        body = {**self._step, "annotation_index": self._notes - 1, "annotation": note}
        return data + self._event("response.output_text.annotation.added", body)

    def write_opaque(self, event: OpaqueDelta) -> bytes:
        """Say again what this wire said; elsewhere it is lost, if nothing repeats it."""
        self.lose_opaque_event(event)
        body = self.native_fields(event.opaque)
        kind = body.get("type")
        if type(kind) is not str or kind in _OF_ITEMS:
            if body and not spelling_of(event.opaque, ResponsesDeltaSpelling).is_in_delta:
                self.set_path()
                self.ledger.lose("opaque", "opaque", "it is no event, or speaks of an item that is not there")
            return b""
        if event.key is not None and "output_index" in body:
            body = {**body, "output_index": self._place.get("output_index", 0)}
        return self._event(body["type"], body)

    def write_part_end(self, event: PartEnd) -> bytes:
        """End a part: write it whole in the place of what it was so far."""
        part: Any = event.part
        if type(part) in WORDS:
            part = replace(part, text=part.text + BLANK_LINE.join([*self._texts, "".join(self._words)]))
        if self._before is None:
            state = self._state()
            self._write(part)
            if type(part) in (Text, Refusal):
                self._restore(state)
            return b""
        place = self._before[0]
        self._restore(self._before)
        self._write(part)
        opaques = [getattr(one, "opaque", None) for one in (self._part, part)]
        has_items = all(spelling_of(opaque, ResponsesOutputSpelling).item is not None for opaque in opaques)
        if type(part) is Text and len(self._items.bodies) > place and not has_items:
            begun = self._place if self._place.get("output_index") == place else {}
            if begun.get("item_id"):  # an item ends under the id that it began with
                self._items.bodies[place]["id"] = begun["item_id"]
        data = self._end_part(part, place)
        self._ended.append(part)
        return data

    def _end_part(self, part: Any, place: int) -> bytes:
        if type(part) is Thinking:
            return self._end_texts(part, self._items.bodies[place]) + self._end_item(place)
        if not self._items.open:
            return self._end_item(place) if len(self._items.bodies) > place else b""
        untold = (getattr(part, "citations", None) or ())[self._cited :]
        notes = [self.write_citation(CitationDelta(0, citation)) for citation in untold]
        return b"".join(notes) + self._end_block(self._items.open[-1])

    def _end_texts(self, part: Thinking, body: dict[str, Any]) -> bytes:
        """End the texts of reasoning, and say those that nobody said."""
        data, known = b"", spelling_of(part.opaque, ResponsesThinkingSpelling).reasoning_key
        key = next((key for key in TEXTS if self._grows is GROWS[key]), known)
        blocks = body[key] if type(body.get(key)) is list else []
        for place, block in enumerate(blocks):
            begun = len(self._texts) + (self._grows is not None)
            text = block.get("text") if type(block) is dict and place >= begun - 1 else None
            if type(text) is str:
                data += self._begin_text(key) if place >= begun else b""
                told = "".join(self._words)
                data += self._say(text[len(told) :], {}) if text.startswith(told) else b""
        if self._grows is not None:
            data += self._end_block({"type": TEXTS[key], "text": "".join(self._words)})
        return data

    def write_call_start(self, event: CallStart) -> bytes:
        """Begin a call; one of a tool of this wire's own is said at its end, as an object."""
        self._announce(event.key, None)
        if spelling_of(event.opaque, ResponsesCallSpelling).builtin is not None:
            return b""
        fields: Any = {"raw": "", "custom": event.custom, "opaque": event.opaque}
        return self._begin_call(ToolCall(event.id, event.name, {}, event.index, **fields))

    def _begin_call(self, call: ToolCall) -> bytes:
        place = len(self._items.bodies)
        write_call(call, self._items)
        self._before = place, self._items.bodies[place]
        data = self._begin_item(place)
        self._grows, self._step = GROWS.get(self._items.bodies[place]["type"]), self._place
        return data

    def write_call_delta(self, event: CallDelta) -> bytes:
        """Write a fragment of a call's text."""
        return self._say(event.fragment, self.native_fields(event.opaque))

    def write_call_end(self, event: CallEnd) -> bytes:
        """End a call: write it whole, under the id that it began with."""
        before = b"" if self._before else self._begin_call(event.call)
        (place, begun), ids, grows = self._before, self.ledger.ids, self._grows
        self._ended.append(event.call)
        if grows is None:
            return before + self._end_item(place)
        del self._items.bodies[place:]
        self.ledger.ids = Ids(None)
        write_call(event.call, self._items)
        self.ledger.ids = ids
        body = self._items.bodies[place]
        body |= {key: begun[key] for key in ("call_id",) if key in body and key in begun}
        if grows is GROWS["function_call"] and type(body.get(grows.field)) is str:
            marked = not event.call.complete and not self.is_native(event.call)
            body[grows.field] = half_text(body[grows.field], marked=marked)
        value, told = body.get(grows.field, {} if event.call.runs else ""), "".join(self._words)
        text = value if type(value) is str else format_arguments(value or {})
        data = before + (self._say(text[len(told) :], {}) if text.startswith(told) else b"")
        data += self._event(f"response.{grows.words}.done", {**self._step, grows.field: text})
        return data + self._end_item(place)

    def _whole(self) -> dict[str, Any]:
        """Give the response as it is at its end."""
        self.set_path()
        body = {**self._shell(), "output": self._items.bodies}
        choice = self._choice or Choice(Message("assistant", []))
        choice = replace(choice, message=replace(choice.message, content=self._ended))
        encode_ending(choice, body, self.ledger)
        return body

    def write_error(self, event: ErrorEnd) -> bytes:
        """Say an error: of the response if it has begun, else alone. Nothing follows it."""
        self.ended = self.failed = True
        error, reply = event.error, self.encode_reply(event.error)
        if self.is_native(error) and reply.body.get("type") == "error":
            return self._event("error", reply.body)
        details: Any = reply.body.get("error")
        details = details if type(details) is dict else {"code": error.code, "message": error.message}
        if self._response is None:
            return self._event("error", {key: details.get(key) for key in ("code", "message", "param")})
        code = details.get("code") or _CODES.get(error.kind) or TYPE_OF_KIND.get(error.kind, "server_error")
        closed = self._close_message()
        failed = {**self._whole(), "status": "failed", "error": {**details, "code": code}}
        return closed + self._event("response.failed", {"response": failed})

    def write_ending(self, *, complete: bool) -> bytes:
        """End the response, with all that it holds."""
        closed = self._close_message()
        if not complete:
            return closed
        body = self._whole()
        status = body.get("status")
        ending = f"response.{status if type(status) is str and status in ENDINGS else 'completed'}"
        return closed + self._event(ending, {"response": body})


def _begun(body: Any) -> Any:
    """Give an item as it is before anything is said in it."""
    kind = body.get("type", "message") if type(body) is dict else None
    if type(kind) is not str or kind not in _EMPTY:
        return body
    emptied = {key: empty for key, empty in _EMPTY[kind].items() if key in body}
    status = {"status": "in_progress"} if "status" in body else {}
    return {**body, **emptied, **status}


_EMPTY: dict[str, dict[str, Any]] = {
    "message": {"content": []},
    "reasoning": {"summary": [], "content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    **{kind: {} for kind in OWN_CALLS},
}


def _logprobs(grows: Grows, known: Any) -> dict[str, Any]:
    return {"logprobs": known or []} if grows.words == "output_text" else {}


def encode_stream(quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> StreamEncoder:
    """Return an encoder for a server with these quirks; tools that are called `names` keep their names."""
    return Encoder.open(quirks, names, **settings)
