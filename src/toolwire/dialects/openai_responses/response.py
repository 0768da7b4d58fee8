"""The body of a response, and the parts of a stream that are still growing.

Rules of this file:
- A response ends with a `status`. If that is "incomplete", the `reason` of `incomplete_details` is the raw finish
  reason.
- In a stream, the last body of an item is the valid one. Text is emitted as it arrives. Text that only the last body
  has is emitted before the end of the part.
"""

from math import isfinite
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.openai_responses.calls import BLANK_LINE, TEXT_TYPES, Items, decode_reasoning
from toolwire.dialects.openai_responses.messages import decode_answer, encode_answer
from toolwire.dialects.openai_responses.parts import DIALECT, WIRE
from toolwire.dialects.openai_responses.request import SERVICE_TIERS, echo_of
from toolwire.encoding.finish import (
    CUT,
    Counts,
    has_complete_calls,
    infer_finish_reason,
    lose_other_choices,
    lose_reason,
    lose_stop_sequence,
    mark_cut_calls,
    without_good_end,
    write_tier,
)
from toolwire.encoding.ledger import Ledger, copy_body, made_by, spelling_of, take, take_constants
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.settings import NUMBER
from toolwire.streams.accumulation import TEXT_DELTAS
from toolwire.streams.call_judge import PartialCall
from toolwire.streams.partial_items import PartialItem
from toolwire.types import (
    CallDelta,
    Choice,
    Encoded,
    Event,
    Message,
    Opaque,
    PartEnd,
    Refusal,
    Response,
    SignatureDelta,
    ThinkingDelta,
)
from toolwire.types.spelling.openai_responses import (
    ResponsesChoiceSpelling,
    ResponsesDeltaSpelling,
    ResponsesResponseSpelling,
    ResponsesThinkingSpelling,
)
from toolwire.wire.names import fingerprint, number_of

_COUNTS = Counts("input_tokens", "output_tokens", complete=True, has_lifetimes=True)
# openai 3.52.0, ResponseStatus (2026-11-20).
_FINISH_OF_STATUS = {
    "completed": "stop",
    "failed": "error",
    "incomplete": "incomplete",
    "in_progress": "incomplete",
    "queued": "incomplete",
    "cancelled": "incomplete",
}
# openai 3.52.0, Response.incomplete_details (2026-11-20).
_FINISH_OF_REASON = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "max_messages": "incomplete",
    "steered": "pause",
}
_REASON_OF_FINISH = {
    "length": "max_output_tokens",
    "context_window": "max_output_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "pause": "steered",
}
_STATUS_OF_FINISH = {"error": "failed", "incomplete": "incomplete"}
_EXACT_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "pause", "error", "incomplete"})


def decode_response(body: dict[str, Any]) -> Response:
    """Read a response's body. Raise `InvalidBody` if it is no object."""
    unparsed = copy_body(body, "response")
    spelling = ResponsesResponseSpelling(constants=take_constants(unparsed, {"object": "response"}))
    choices: list[Choice] = []
    if type(unparsed.get("output")) is list:
        message = decode_answer(unparsed.pop("output"), number_of(body.get("id")))
        choices = [_decode_finish(message, unparsed)]
    response_id = take(unparsed, "id", str)
    return Response(
        choices=choices,
        id=response_id,
        model=take(unparsed, "model", str),
        created=_take_time(unparsed),
        usage=_COUNTS.decode(unparsed.pop("usage"), DIALECT) if type(unparsed.get("usage")) is dict else None,
        service_tier=take(unparsed, "service_tier", str),
        provider_state=None if response_id is None else {"previous_response_id": response_id},
        opaque=WIRE.mark(unparsed, spelling),
    )


def _take_time(unparsed: dict[str, Any]) -> float | None:
    """Remove the time of creation from `unparsed`, and return it, if it is a finite number."""
    created: Any = unparsed.get("created_at")
    return unparsed.pop("created_at") if type(created) in NUMBER and isfinite(created) else None


def _decode_finish(message: Message, unparsed: dict[str, Any]) -> Choice:
    """Remove the finish reason from `unparsed`, and return the answer. Calls that may be cut off are marked."""
    raw = take(unparsed, "status", str)
    details = unparsed.get("incomplete_details")
    reason = details.get("reason") if type(details) is dict and details.keys() == {"reason"} else None
    has_details = type(reason) is str and raw == "incomplete"
    if has_details:
        raw = reason
        del unparsed["incomplete_details"]
    finish_reason = _finish_reason_of(raw, message, incomplete=has_details)
    if finish_reason in CUT:
        message = replace(message, content=mark_cut_calls(message.content, finish_reason))
    return Choice(message, finish_reason, raw, None, WIRE.mark({}, ResponsesChoiceSpelling(has_details=has_details)))


def _finish_reason_of(raw: str | None, message: Message, *, incomplete: bool) -> Any:
    """Return the canonical finish reason of an answer with this message."""
    refused = any(type(part) is Refusal for part in message.parts)
    return decode_finish_reason(raw, incomplete, called=has_complete_calls(message.content), refused=refused)


def decode_finish_reason(raw: str | None, incomplete: bool, *, called: bool, refused: bool) -> Any:
    """Return the canonical finish reason of an answer.

    - `raw`: the status, or the reason of `incomplete_details` if `incomplete` is True.
    - `called`: True if the answer has a complete call.
    - `refused`: True if the answer has a refusal.
    """
    if incomplete:
        return _FINISH_OF_REASON.get(raw or "", "incomplete")
    reason = infer_finish_reason(_FINISH_OF_STATUS.get(raw, "unknown") if raw else None, has_calls=called)
    return "refusal" if refused and reason in {"stop", None} else reason


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a response's body as a server with these `quirks`, and report what the wire cannot express as losses.

    `settings` replace single quirks. Their `names` are tool names that are written unchanged, their `request` is the
    request that is answered, and their `clock` returns the time at which the answer is complete.
    """
    ledger = Ledger(WIRE, quirks, settings, "response")
    return encode_with_echo(response, ledger, {} if made_by(response.opaque, DIALECT) else echo_of(ledger.request))


def encode_with_echo(response: Response, ledger: Ledger, echo: dict[str, Any]) -> Encoded:
    """Write a response's body. If it is of another wire, it repeats the settings in `echo`."""
    is_native = made_by(response.opaque, DIALECT)
    body: dict[str, Any] = {} if is_native else _required_keys(response, echo)
    fields = {"id": response.id, "created_at": _encode_time(response, ledger), "model": response.model}
    body |= {key: value for key, value in fields.items() if value is not None}
    for choice in response.choices[:1]:
        _encode_choice(choice, body, Items(ledger, response))
    lose_other_choices(response, ledger)
    if response.usage is not None:
        body["usage"] = _COUNTS.encode(response.usage, ledger)
    if response.service_tier is not None:
        write_tier(response, body, SERVICE_TIERS, ledger)
    for key, value in (response.provider_state or {}).items():
        if key != "previous_response_id" or value != body.get("id"):
            ledger.lose(f"provider_state.{key}", "provider_state", f"a response of {DIALECT} has no field for it")
    ledger.replay(body, response.opaque)
    return Encoded("", body, tuple(ledger.losses))


def _encode_time(response: Response, ledger: Ledger) -> float | None:
    """Return the time of a response. One of another wire is written in whole seconds, as OpenAI's server does."""
    created = response.created
    if created is None or made_by(response.opaque, DIALECT):
        return created
    seconds = int(created) if isfinite(created) else 0
    if seconds != created:
        ledger.lose("created", "created", f"{DIALECT} counts whole seconds", "approximated")
    return seconds


def _required_keys(response: Response, echo: dict[str, Any]) -> dict[str, Any]:
    """Return all keys that a client of this wire requires: those in `echo`, and the others with default values."""
    return {
        "id": f"resp_{fingerprint(response)}" if response.id is None else response.id,
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": "",
        "output": [],
        "usage": None,
        **echo,
    }


def _encode_choice(choice: Choice, body: dict[str, Any], items: Items) -> None:
    """Write the output and the status of an answer."""
    choice = without_good_end(choice, WIRE)
    message, ledger = choice.message, items.ledger
    ledger.path = ("choices", 0, "message")
    ledger.is_native = made_by(message.opaque, DIALECT)
    encode_answer(message, items)
    body["output"] = items.bodies
    encode_finish(choice, body, ledger)


def encode_finish(choice: Choice, body: dict[str, Any], ledger: Ledger) -> None:
    """Write how an answer ended, and report the fields that this wire does not have."""
    message = choice.message
    ledger.path = ("choices", 0, "message")
    ledger.lose_opaque(message.opaque)
    for field in ("name", "tool_call_id"):
        if getattr(message, field) is not None:
            ledger.lose(field, field, f"a message of {DIALECT} has no field for it")
    ledger.path = ("choices", 0)
    _encode_status(choice, body, ledger)
    lose_stop_sequence(choice, ledger)
    ledger.replay(body, choice.opaque)
    if spelling_of(choice.opaque, ResponsesChoiceSpelling).has_details:
        body.setdefault("incomplete_details", None)
    if "completed_at" in body and body.get("status") == "completed" and not made_by(choice.opaque, DIALECT):
        body["completed_at"] = body["created_at"] if ledger.clock is None else int(ledger.clock())


def _encode_status(choice: Choice, body: dict[str, Any], ledger: Ledger) -> None:
    """Write the status of an answer: the raw one as long as it means the same, and the reason if it is incomplete."""
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    if made_by(choice.opaque, DIALECT):
        incomplete = spelling_of(choice.opaque, ResponsesChoiceSpelling).has_details
        if reason == _finish_reason_of(raw, choice.message, incomplete=incomplete):
            if incomplete:
                body["status"], body["incomplete_details"] = "incomplete", {"reason": raw}
            elif raw is not None:
                body["status"] = raw
            return
    refused = reason == "refusal" and any(type(part) is Refusal for part in choice.message.parts)
    if reason in _REASON_OF_FINISH and not refused:
        body["status"] = "incomplete"
        body["incomplete_details"] = {"reason": _REASON_OF_FINISH[reason]}
    else:
        body["status"] = _STATUS_OF_FINISH.get(reason or "stop", "completed")
    if reason == "error":
        body.setdefault("error", None)
        body["error"] = body["error"] or {"code": "server_error", "message": raw or "the answer failed"}
    if reason is not None and reason not in _EXACT_REASONS and not refused:
        lose_reason(reason, ledger)


class TextField(Struct, frozen=True):
    """A text that grows in a stream, and the events that carry it.

    - `item_type`: the type of its item.
    - `block_event`: the name of the event that starts its block, as in `response.content_part.added`.
    - `text_event`: the name of the events with its text, as in `response.output_text.delta`.
    - `index_key`: the key of the events that has the index of its block.
    - `field`: the key of the text, in its block and in the event that ends it.
    """

    item_type: str
    block_event: str
    text_event: str
    index_key: str
    field: str


TEXT_FIELDS = {
    "output_text": TextField("message", "content_part", "output_text", "content_index", "text"),
    "refusal": TextField("message", "content_part", "refusal", "content_index", "refusal"),
    "summary": TextField("reasoning", "reasoning_summary_part", "reasoning_summary_text", "summary_index", "text"),
    "content": TextField("reasoning", "content_part", "reasoning_text", "content_index", "text"),
    "function_call": TextField("function_call", "output_item", "function_call_arguments", "output_index", "arguments"),
    "custom_tool_call": TextField("custom_tool_call", "output_item", "custom_tool_call_input", "output_index", "input"),
}


class PartialPart:
    """A part of a stream as it arrives, or a call.

    - `key`: the key of its events, or None as long as a call has not started.
    - `part`: the part as it started, or None for a call.
    - `block`: the body with which it started.
    - `delta_type`: the type of the events with its text, or None if it has no text.
    - `texts`: its texts in pieces. Only reasoning may have more than one.
    - `size`: the length of all texts.
    - `reasoning_key`: the list of reasoning whose texts are emitted, `summary` or `content`. The other list is not.
    - `text_index`: the index of the current text in that list.
    - `annotations`: its annotations.
    - `call`: the record of a call for the judge.
    """

    __slots__ = (
        "_earlier_size",
        "annotations",
        "block",
        "call",
        "delta_type",
        "key",
        "part",
        "reasoning_key",
        "size",
        "text_index",
        "texts",
    )

    def __init__(self, key: int | None, part: Any, block: dict[str, Any]) -> None:
        self.key: Any = key
        self.part: Any = part
        self.block: dict[str, Any] = block
        self.delta_type: Any = CallDelta if part is None else TEXT_DELTAS.get(type(part))
        self.texts: list[list[str]] = [[]]
        self.size: int = 0
        self._earlier_size = 0
        self.reasoning_key: str | None = None
        self.text_index: int | None = None
        self.annotations: list[Any] = []
        self.call: PartialCall | None = None

    def append(self, text: str) -> None:
        """Append `text` to the current text. Raise `FrameTooLarge` if that of a call becomes too long."""
        self.size += len(text)
        if self.call is not None:
            self.call.add(text)
        self.pieces.append(text)

    @property
    def pieces(self) -> list[str]:
        """The current text in pieces."""
        return self.texts[-1]

    @property
    def length(self) -> int:
        """The length of the current text."""
        return self.size - self._earlier_size

    @property
    def text(self) -> str:
        """The current text."""
        return "".join(self.pieces)

    def add_delta(self, text: str, unparsed: dict[str, Any]) -> list[Event]:
        """Append `text` and return its event, with the `unparsed` keys of the delta.

        A call that has not started has no event yet.
        """
        mark = self._mark_delta(unparsed)
        self.append(text)
        return [] if self.key is None else [self.delta_type(self.key, text, opaque=mark)]

    def _mark_delta(self, unparsed: dict[str, Any]) -> Opaque | None:
        """Return the mark of the next delta. The first delta of a text of reasoning has the index of that text."""
        if self.reasoning_key is None or self.texts[-1]:
            return WIRE.mark(unparsed) if unparsed else None
        return WIRE.mark(
            unparsed, ResponsesDeltaSpelling(reasoning_key=self.reasoning_key, text_index=len(self.texts) - 1)
        )

    def add_missing(self, text: Any) -> list[Event]:
        """Append the end of the current text that no delta had, and return its event. `text` is the whole text."""
        if type(text) is not str or len(text) <= self.length:
            return []
        return self.add_delta(text[self.length :], {}) if text.startswith(self.text) else []

    def select_text(self, reasoning_key: str, text_index: int | None) -> list[Event]:
        """Make a text of reasoning the current one. Return the event of the blank line before it, if there is one."""
        if self.reasoning_key is None:
            self.reasoning_key, self.text_index = reasoning_key, text_index
        elif self.reasoning_key == reasoning_key and text_index not in (None, self.text_index):
            self.text_index = text_index
            self.texts.append([])
            self._earlier_size = self.size
            return [ThinkingDelta(self.key, BLANK_LINE, opaque=self._mark_delta({}))]
        return []

    def misses_text_of(self, part: Any) -> bool:
        """Return True if the final text of `part` is longer than the emitted one, and does not start with it."""
        if type(part) is not type(self.part) or self.delta_type is None:
            return False
        return len(part.text) > self.length and not part.text.startswith(self.text)

    def end(self, part: Any) -> list[Event]:
        """Return the events that end the part. Its final value is `part`, if that is of the same type."""
        part = part if type(part) is type(self.part) else self.part
        if self.delta_type is None:
            return [PartEnd(self.key, part)]
        return [*self.add_missing(part.text), PartEnd(self.key, replace(part, text=""))]

    def end_thinking(self, body: dict[str, Any]) -> list[Event]:
        """Return the events that end reasoning. `body` is its last body, of which the list is read that was emitted."""
        part, events = decode_reasoning(body, self.reasoning_key or "summary"), []
        spelling = spelling_of(part.opaque, ResponsesThinkingSpelling)
        reasoning_key = spelling.reasoning_key
        for index, text in enumerate(spelling.texts):
            if index >= len(self.texts) - 1 and self.reasoning_key in (None, reasoning_key):
                events += self.select_text(reasoning_key, self.text_index if index < len(self.texts) else -1 - index)
                events += self.add_missing(text)
        if part.signature is not None:
            events.append(SignatureDelta(self.key, part.signature))
        return [*events, PartEnd(self.key, replace(part, text=""))]


def draft_body(item: PartialItem) -> dict[str, Any]:
    """Return the body of an item that no event ended, as far as it arrived."""
    if item.item_type == "message":
        blocks = [
            {**partial.block, "annotations": partial.annotations} if partial.annotations else partial.block
            for partial in item.parts.values()
        ]
        return {"role": "assistant", **item.body, "content": blocks}
    partial = item.parts[0]
    if partial.reasoning_key is None:
        return item.body
    texts = [{"type": TEXT_TYPES[partial.reasoning_key], "text": "".join(text)} for text in partial.texts]
    return {**item.body, partial.reasoning_key: texts}
