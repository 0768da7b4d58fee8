"""Responses of Responses.

Rule: a response ends with a status, and why it is incomplete stands beside it; the wire's word is the reason
where there is one.
"""

from math import isfinite
from typing import Any

from msgspec.structs import replace

from toolwire.counts import Counts
from toolwire.dialects.openai_responses.calls import Items
from toolwire.dialects.openai_responses.messages import decode_answer, encode_answer
from toolwire.dialects.openai_responses.parts import DIALECT, WIRE
from toolwire.dialects.openai_responses.request import SERVICE_TIERS
from toolwire.endings import CUT, asks, settle_calls, wants_calls
from toolwire.errors import InvalidBody
from toolwire.ledger import PLAIN, Ledger, Quirks, form_of, made_by, take, tuned
from toolwire.names import fingerprint, number_of
from toolwire.settings import NUMBER
from toolwire.types import Choice, Encoded, Message, Refusal, Response

COUNTS = Counts("input_tokens", "output_tokens", complete=True)
STATUSES = {
    "completed": "stop",
    "failed": "error",
    "incomplete": "incomplete",
    "in_progress": "incomplete",
    "queued": "incomplete",
    "cancelled": "incomplete",
}
REASONS = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "max_messages": "incomplete",
    "steered": "pause",
}
REASON_OF_FINISH = {
    "length": "max_output_tokens",
    "context_window": "max_output_tokens",
    "content_filter": "content_filter",
    "pause": "steered",
}
STATUS_OF_FINISH = {"error": "failed", "incomplete": "incomplete"}
EXACT = frozenset({"stop", "length", "tool_calls", "content_filter", "pause", "error", "incomplete"})


def decode_response(body: dict[str, Any]) -> Response:
    """Read a response's body."""
    if type(body) is not dict:
        raise InvalidBody("a response's body must be a JSON object", path="$")
    rest = body.copy()
    form = {"said": {"object": rest.pop("object")}} if rest.get("object") == "response" else None
    choices: list[Choice] = []
    if type(rest.get("output")) is list:
        message = decode_answer(rest.pop("output"), number_of(body.get("id")))
        choices = [_decode_finish(message, rest)]
    response_id = take(rest, "id", str)
    return Response(
        choices=choices,
        id=response_id,
        model=take(rest, "model", str),
        created=_take_time(rest),
        usage=COUNTS.decode(rest.pop("usage"), DIALECT) if type(rest.get("usage")) is dict else None,
        service_tier=take(rest, "service_tier", str),
        provider_state=None if response_id is None else {"previous_response_id": response_id},
        opaque=WIRE.own(rest, form),
    )


def _take_time(rest: dict[str, Any]) -> float | None:
    created: Any = rest.get("created_at")
    return rest.pop("created_at") if type(created) in NUMBER and isfinite(created) else None


def _decode_finish(message: Message, rest: dict[str, Any]) -> Choice:
    status, form = take(rest, "status", str), None
    raw = status
    details = rest.get("incomplete_details")
    reason = details.get("reason") if type(details) is dict and details.keys() == {"reason"} else None
    if type(reason) is str and status == "incomplete":
        raw, form = reason, {"said": {"incomplete_details": None}}
        del rest["incomplete_details"]
    meaning = _meaning(raw, message, incomplete=form is not None)
    if meaning in CUT:
        message = replace(message, content=settle_calls(message.content, meaning))
    return Choice(message, meaning, raw, None, WIRE.own({}, form))


def _meaning(raw: str | None, message: Message, *, incomplete: bool) -> Any:
    refused = any(type(part) is Refusal for part in message.parts)
    return read_finish(raw, incomplete=incomplete, called=asks(message.parts), refused=refused)


def read_finish(raw: str | None, *, incomplete: bool, called: bool, refused: bool) -> Any:
    """Say in canonical words why an answer ended."""
    if incomplete:
        return REASONS.get(raw or "", "incomplete")
    reason = wants_calls(None if raw is None else STATUSES.get(raw, "unknown"), called=called)
    return "refusal" if refused and reason in {"stop", None} else reason


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a response's body, and say what it cannot hold."""
    if settings:
        quirks = tuned(quirks, settings)
    ledger = Ledger(WIRE, quirks)
    mine = made_by(response.opaque, DIALECT)
    body: dict[str, Any] = {} if mine else _frame(response)
    known = {"id": response.id, "created_at": response.created, "model": response.model}
    body |= {key: value for key, value in known.items() if value is not None}
    for place, choice in enumerate(response.choices):
        ledger.at = ("choices", place)
        if place:
            ledger.lose("", "choices", f"{DIALECT} gives one answer")
        else:
            _encode_choice(choice, body, Items(ledger, response))
    ledger.at = ()
    if response.usage is not None:
        body["usage"] = COUNTS.encode(response.usage, ledger)
    if response.service_tier is not None:
        if mine or response.service_tier in SERVICE_TIERS:
            body["service_tier"] = response.service_tier
        else:
            ledger.lose("service_tier", "service_tier", f"{DIALECT} knows no tier of this name")
    for key, value in (response.provider_state or {}).items():
        if key != "previous_response_id" or value != body.get("id"):
            ledger.lose(
                f"provider_state.{key}", "provider_state", f"{DIALECT} keeps it in its id", severity="minor"
            )
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
    for field in ("name", "tool_call_id"):
        if getattr(message, field) is not None:
            ledger.lose(field, field, f"{DIALECT} has no place for it in a message")
    ledger.at = ("choices", 0)
    _encode_finish(choice, body, ledger)
    if choice.stop_sequence is not None:
        ledger.lose("stop_sequence", "stop_sequence", f"{DIALECT} does not say which one it was")
    ledger.replay(body, choice.opaque)


def _encode_finish(choice: Choice, body: dict[str, Any], ledger: Ledger) -> None:
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    if made_by(choice.opaque, DIALECT):
        incomplete = "said" in form_of(choice.opaque, DIALECT)
        if reason == _meaning(raw, choice.message, incomplete=incomplete):
            if incomplete:
                body["status"], body["incomplete_details"] = "incomplete", {"reason": raw}
            elif raw is not None:
                body["status"] = raw
            return
    if reason in REASON_OF_FINISH:
        body["status"] = "incomplete"
        body["incomplete_details"] = {"reason": REASON_OF_FINISH[reason]}
    else:
        body["status"] = STATUS_OF_FINISH.get(reason or "stop", "completed")
    if reason == "error":
        body.setdefault("error", None)
        body["error"] = body["error"] or {"code": "server_error", "message": raw or "the answer failed"}
    refused = reason == "refusal" and any(type(part) is Refusal for part in choice.message.parts)
    if reason is not None and reason not in EXACT and not refused:
        ledger.lose("finish_reason", "finish_reason", f"{DIALECT} has no word for {reason}", "approximated")
