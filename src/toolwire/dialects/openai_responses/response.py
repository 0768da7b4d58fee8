"""Responses of Responses.

Rules of this file:
- A response ends with a status, and why it is incomplete stands beside it; the wire's word is the reason
  where there is one.
- In a stream, the last body of an item says what it is. What it said on the way is told on the way; what it
  never said is told before its end.
"""

from math import isfinite
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.openai_responses.calls import BLANK_LINE, TEXTS, Items, decode_reasoning
from toolwire.dialects.openai_responses.messages import decode_answer, encode_answer
from toolwire.dialects.openai_responses.parts import DIALECT, WIRE
from toolwire.dialects.openai_responses.request import SERVICE_TIERS
from toolwire.encoding.finish import (
    CUT,
    Counts,
    asks,
    lose_other_choices,
    lose_reason,
    lose_stop_sequence,
    settle_calls,
    wants_calls,
    without_claim,
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

_COUNTS = Counts("input_tokens", "output_tokens", complete=True)
# openai 3.52.0, ResponseStatus (2026-11-20).
_STATUSES = {
    "completed": "stop",
    "failed": "error",
    "incomplete": "incomplete",
    "in_progress": "incomplete",
    "queued": "incomplete",
    "cancelled": "incomplete",
}
# openai 3.52.0, Response.incomplete_details (2026-11-20).
_REASONS = {
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
_EXACT = frozenset({"stop", "length", "tool_calls", "content_filter", "pause", "error", "incomplete"})


def decode_response(body: dict[str, Any]) -> Response:
    """Read a response's body."""
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
    created: Any = unparsed.get("created_at")
    return unparsed.pop("created_at") if type(created) in NUMBER and isfinite(created) else None


def _decode_finish(message: Message, unparsed: dict[str, Any]) -> Choice:
    raw = take(unparsed, "status", str)
    details = unparsed.get("incomplete_details")
    reason = details.get("reason") if type(details) is dict and details.keys() == {"reason"} else None
    has_details = type(reason) is str and raw == "incomplete"
    if has_details:
        raw = reason
        del unparsed["incomplete_details"]
    meaning = _meaning(raw, message, incomplete=has_details)
    if meaning in CUT:
        message = replace(message, content=settle_calls(message.content, meaning))
    return Choice(message, meaning, raw, None, WIRE.mark({}, ResponsesChoiceSpelling(has_details=has_details)))


def _meaning(raw: str | None, message: Message, *, incomplete: bool) -> Any:
    refused = any(type(part) is Refusal for part in message.parts)
    return read_finish(raw, incomplete, called=asks(message.content), refused=refused)


def read_finish(raw: str | None, incomplete: bool, *, called: bool, refused: bool) -> Any:
    """Say in canonical words why an answer ended."""
    if incomplete:
        return _REASONS.get(raw or "", "incomplete")
    reason = wants_calls(_STATUSES.get(raw, "unknown") if raw else None, called=called)
    return "refusal" if refused and reason in {"stop", None} else reason


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a response's body, and report what it cannot hold."""
    ledger = Ledger(WIRE, quirks, settings, "response")
    is_native = made_by(response.opaque, DIALECT)
    body: dict[str, Any] = {} if is_native else _frame(response)
    known = {"id": response.id, "created_at": response.created, "model": response.model}
    body |= {key: value for key, value in known.items() if value is not None}
    for choice in response.choices[:1]:
        _encode_choice(choice, body, Items(ledger, response))
    lose_other_choices(response, ledger)
    if response.usage is not None:
        body["usage"] = _COUNTS.encode(response.usage, ledger)
    if response.service_tier is not None:
        write_tier(response, body, SERVICE_TIERS, ledger)
    for key, value in (response.provider_state or {}).items():
        if key != "previous_response_id" or value != body.get("id"):
            ledger.lose(f"provider_state.{key}", "provider_state", f"{DIALECT} keeps it in its id")
    ledger.replay(body, response.opaque)
    return Encoded("", body, tuple(ledger.losses))


def _frame(response: Response) -> dict[str, Any]:
    """Give every key that a client of this wire counts on."""
    return {
        "id": f"resp_{fingerprint(response)}" if response.id is None else response.id,
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "",
        "output": [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
    }


def _encode_choice(choice: Choice, body: dict[str, Any], items: Items) -> None:
    choice = without_claim(choice, WIRE)
    message, ledger = choice.message, items.ledger
    ledger.at = ("choices", 0, "message")
    ledger.own = made_by(message.opaque, DIALECT)
    encode_answer(message, items)
    body["output"] = items.bodies
    encode_ending(choice, body, ledger)


def encode_ending(choice: Choice, body: dict[str, Any], ledger: Ledger) -> None:
    """Write what an answer says beside its items."""
    message = choice.message
    ledger.at = ("choices", 0, "message")
    ledger.lose_opaque(message.opaque)
    for left in ("name", "tool_call_id"):
        if getattr(message, left) is not None:
            ledger.lose(left, left, f"{DIALECT} has no place for it in a message")
    ledger.at = ("choices", 0)
    _encode_finish(choice, body, ledger)
    lose_stop_sequence(choice, ledger)
    ledger.replay(body, choice.opaque)
    if spelling_of(choice.opaque, ResponsesChoiceSpelling).has_details:
        body.setdefault("incomplete_details", None)


def _encode_finish(choice: Choice, body: dict[str, Any], ledger: Ledger) -> None:
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    if made_by(choice.opaque, DIALECT):
        incomplete = spelling_of(choice.opaque, ResponsesChoiceSpelling).has_details
        if reason == _meaning(raw, choice.message, incomplete=incomplete):
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
    if reason is not None and reason not in _EXACT and not refused:
        lose_reason(reason, ledger)


class Grows(Struct, frozen=True):
    """What grows in a stream: in which item, in events of which names, at which place, and as which field."""

    item: str
    part: str
    words: str
    places: str
    field: str


GROWS = {
    "output_text": Grows("message", "content_part", "output_text", "content_index", "text"),
    "refusal": Grows("message", "content_part", "refusal", "content_index", "refusal"),
    "summary": Grows("reasoning", "reasoning_summary_part", "reasoning_summary_text", "summary_index", "text"),
    "content": Grows("reasoning", "content_part", "reasoning_text", "content_index", "text"),
    "function_call": Grows("function_call", "output_item", "function_call_arguments", "output_index", "arguments"),
    "custom_tool_call": Grows("custom_tool_call", "output_item", "custom_tool_call_input", "output_index", "input"),
}


class PartSoFar:
    """A part as it arrives, or a call: its words, in the texts that reasoning may have several of.

    `shown` says which words of reasoning are told, `step` which of its texts; `notes` are citations, `call` is the
    record of a call.
    """

    __slots__ = (
        "_before",
        "block",
        "call",
        "key",
        "notes",
        "part",
        "shown",
        "size",
        "step",
        "tells",
        "texts",
    )

    def __init__(self, key: int | None, part: Any, block: dict[str, Any]) -> None:
        self.key: Any = key
        self.part: Any = part
        self.block: dict[str, Any] = block
        self.tells: Any = CallDelta if part is None else TEXT_DELTAS.get(type(part))
        self.texts: list[list[str]] = [[]]
        self.size: int = 0
        self._before = 0
        self.shown: str | None = None
        self.step: int | None = None
        self.notes: list[Any] = []
        self.call: PartialCall | None = None

    def add(self, words: str) -> None:
        """Add words; raise FrameTooLarge if the text of a call becomes too long."""
        self.size += len(words)
        if self.call is not None:
            self.call.add(words)
        self.pieces.append(words)

    @property
    def pieces(self) -> list[str]:
        """The words of the present text so far."""
        return self.texts[-1]

    @property
    def length(self) -> int:
        """How long the present text is so far."""
        return self.size - self._before

    @property
    def text(self) -> str:
        """The present text so far."""
        return "".join(self.pieces)

    def say(self, words: str, left: dict[str, Any]) -> list[Event]:
        """Add `words` and return their event, with the `left` keys of the delta. A call that has not begun waits."""
        step = self._mark(left)
        self.add(words)
        return [] if self.key is None else [self.tells(self.key, words, opaque=step)]

    def _mark(self, left: dict[str, Any]) -> Opaque | None:
        """Return the mark of the next words, with the text of reasoning that begins with them."""
        if self.shown is None or self.texts[-1]:
            return WIRE.mark(left) if left else None
        return WIRE.mark(left, ResponsesDeltaSpelling(reasoning_key=self.shown, text_index=len(self.texts) - 1))

    def catch_up(self, text: Any) -> list[Event]:
        """Tell the words of a text that were not told on the way."""
        if type(text) is not str or len(text) <= self.length:
            return []
        return self.say(text[self.length :], {}) if text.startswith(self.text) else []

    def go_to(self, shown: str, step: int | None) -> list[Event]:
        """Go to a text of reasoning: after a blank line, if it is not the first that is told."""
        if self.shown is None:
            self.shown, self.step = shown, step
        elif self.shown == shown and step not in (None, self.step):
            self.step = step
            self.texts.append([])
            self._before = self.size
            return [ThinkingDelta(self.key, BLANK_LINE, opaque=self._mark({}))]
        return []

    def lacks(self, part: Any) -> bool:
        """Whether the last body of a text says more than was told, and not only at its end."""
        if type(part) is not type(self.part) or self.tells is None:
            return False
        return len(part.text) > self.length and not part.text.startswith(self.text)

    def end(self, part: Any) -> list[Event]:
        """End the part as its last body says that it is, if it is of the same kind."""
        part = part if type(part) is type(self.part) else self.part
        if self.tells is None:
            return [PartEnd(self.key, part)]
        return [*self.catch_up(part.text), PartEnd(self.key, replace(part, text=""))]

    def end_thinking(self, body: dict[str, Any]) -> list[Event]:
        """End reasoning; of its two kinds of words, those count that were told."""
        part, events = decode_reasoning(body, self.shown or "summary"), []
        spelling = spelling_of(part.opaque, ResponsesThinkingSpelling)
        key = spelling.reasoning_key
        for place, text in enumerate(spelling.texts):
            if place >= len(self.texts) - 1 and self.shown in (None, key):
                events += self.go_to(key, self.step if place < len(self.texts) else -1 - place)
                events += self.catch_up(text)
        if part.signature is not None:
            events.append(SignatureDelta(self.key, part.signature))
        return [*events, PartEnd(self.key, replace(part, text=""))]


def draft(item: PartialItem) -> dict[str, Any]:
    """Give the body of an item that nothing ended."""
    if item.kind == "message":
        blocks = [
            {**said.block, "annotations": said.notes} if said.notes else said.block for said in item.parts.values()
        ]
        return {"role": "assistant", **item.body, "content": blocks}
    said = item.parts[0]
    if said.shown is None:
        return item.body
    texts = [{"type": TEXTS[said.shown], "text": "".join(text)} for text in said.texts]
    return {**item.body, said.shown: texts}
