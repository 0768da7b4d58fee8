"""Responses of Chat Completions."""

from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_chat.messages import decode_answer, encode_answer
from toolwire.dialects.openai_chat.parts import DIALECT, WIRE
from toolwire.dialects.openai_chat.request import SERVICE_TIERS
from toolwire.errors import InvalidBody
from toolwire.ledger import PLAIN, Ledger, Quirks, made_by, take, tuned
from toolwire.names import fingerprint, number_of
from toolwire.types import Choice, Encoded, Opaque, Response, Usage

FINISH_REASONS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "model_length": "context_window",
    "error": "error",
    "end_turn": "stop",
    "eos": "stop",
    "STOP": "stop",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "tool_use": "tool_calls",
}
FINISH_WORDS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "stop_sequence": "stop",
    "refusal": "stop",
    "context_window": "length",
    "pause": "stop",
    "incomplete": "length",
    "malformed_tool_call": "stop",
    "error": "stop",
    "unknown": "stop",
}
EXACT = frozenset({"stop", "length", "tool_calls", "content_filter"})


def decode_response(body: dict[str, Any]) -> Response:
    """Read a response's body."""
    if type(body) is not dict:
        raise InvalidBody("a response's body must be a JSON object", path="$")
    rest = body.copy()
    form: dict[str, Any] = {}
    if rest.get("object") == "chat.completion":
        form["said"] = {"object": rest.pop("object")}
    entries = rest.get("choices")
    choices: list[Choice] = []
    if type(entries) is list and entries and all(_is_choice(entry) for entry in entries):
        del rest["choices"]
        place = number_of(body.get("id"))
        choices = [_decode_choice(entry, place) for entry in entries]
    return Response(
        choices=choices,
        id=take(rest, "id", str),
        model=take(rest, "model", str),
        created=take(rest, "created", int),
        usage=decode_usage(rest.pop("usage")) if type(rest.get("usage")) is dict else None,
        service_tier=take(rest, "service_tier", str),
        opaque=WIRE.own(rest, form),
    )


def _is_choice(entry: Any) -> bool:
    return type(entry) is dict and type(entry.get("message")) is dict


def _decode_choice(entry: dict[str, Any], place: int) -> Choice:
    rest = entry.copy()
    body = rest.pop("message")
    message = decode_answer(body, place)
    index = take(rest, "index", int)
    raw = take(rest, "finish_reason", str)
    reason: Any = None if raw is None else FINISH_REASONS.get(raw, "unknown")
    if message.tool_calls and reason in {"stop", None}:
        reason = "tool_calls"
    elif reason == "stop" and body.get("refusal"):
        reason = "refusal"
    return Choice(
        message, reason, raw, opaque=WIRE.own(rest, None if index is None else {"said": {"index": index}})
    )


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a response's body, and say what it cannot hold."""
    if settings:
        quirks = tuned(quirks, settings)
    ledger = Ledger(WIRE, quirks)
    mine = made_by(response.opaque, DIALECT)
    if mine:
        body = {
            key: value for key in ("id", "created", "model") if (value := getattr(response, key)) is not None
        }
    else:
        ledger.quirks = quirks if quirks.reasoning_key else replace(quirks, reasoning_key="reasoning_content")
        body = {
            "id": response.id or f"chatcmpl-{fingerprint(response)}",
            "object": "chat.completion",
            "created": int(response.created or 0),
            "model": response.model or "",
        }
        if body["created"] != (response.created or 0):
            ledger.lose("created", "created", f"{DIALECT} counts whole seconds", "approximated", "minor")
    if response.choices or not mine:
        body["choices"] = [
            _encode_choice(choice, place, ledger) for place, choice in enumerate(response.choices)
        ]
    ledger.at = ()
    if response.usage is not None:
        body["usage"] = encode_usage(response.usage, ledger)
    if response.service_tier is not None:
        if mine or response.service_tier in SERVICE_TIERS:
            body["service_tier"] = response.service_tier
        else:
            ledger.lose("service_tier", "service_tier", f"{DIALECT} knows no tier of this name")
    for key in response.provider_state or ():
        ledger.lose(f"provider_state.{key}", "provider_state", f"{DIALECT} keeps no state", severity="minor")
    ledger.replay(body, response.opaque)
    return Encoded("", body, tuple(ledger.losses))


def _encode_choice(choice: Choice, place: int, ledger: Ledger) -> dict[str, Any]:
    ledger.at = ("choices", place, "message")
    mine = made_by(choice.opaque, DIALECT)
    ledger.own = made_by(choice.message.opaque, DIALECT)
    message = encode_answer(choice.message, ledger, as_string=True)
    ledger.at = ("choices", place)
    if mine:
        body: dict[str, Any] = {"message": message}
    else:
        message.setdefault("refusal", None)
        body = {"index": place, "message": message, "logprobs": None}
    _encode_finish(choice, body, ledger, mine=mine)
    return ledger.replay(body, choice.opaque)


def _encode_finish(choice: Choice, body: dict[str, Any], ledger: Ledger, *, mine: bool) -> None:
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    if mine and (raw is not None or reason in {None, "tool_calls"}):
        if raw is not None:
            body["finish_reason"] = raw if _same_finish(raw, choice) else FINISH_WORDS[reason or "unknown"]
        return
    body["finish_reason"] = FINISH_WORDS[reason or "unknown"]
    if (
        reason is not None
        and reason not in EXACT
        and not (reason == "refusal" and body["message"].get("refusal"))
    ):
        ledger.lose("finish_reason", "finish_reason", f"{DIALECT} has no word for {reason}", "approximated")
    if choice.stop_sequence is not None:
        ledger.lose("stop_sequence", "stop_sequence", f"{DIALECT} does not say which one it was")


def _same_finish(raw: str, choice: Choice) -> bool:
    meant = FINISH_REASONS.get(raw, "unknown")
    return choice.finish_reason in {
        meant,
        "tool_calls" if choice.message.tool_calls else meant,
        "refusal" if meant == "stop" else meant,
    }


def decode_usage(body: dict[str, Any]) -> Usage:
    """Read the counts; the wire's own stay beside them."""
    prompt, answer = body.get("prompt_tokens_details"), body.get("completion_tokens_details")
    prompt, answer = prompt if type(prompt) is dict else {}, answer if type(answer) is dict else {}
    return Usage(
        _count(body, "prompt_tokens"),
        _count(body, "completion_tokens"),
        _count(prompt, "cached_tokens"),
        _count(prompt, "cache_write_tokens"),
        _count(answer, "reasoning_tokens"),
        Opaque(DIALECT, body),
    )


def _count(body: dict[str, Any], key: str) -> int | None:
    value = body.get(key)
    return value if type(value) is int else None


def encode_usage(usage: Usage, ledger: Ledger) -> dict[str, Any]:
    """Write the counts: the wire's own, for as long as they mean the same."""
    mine = made_by(usage.opaque, DIALECT)
    body: dict[str, Any] = dict(usage.opaque.value) if mine else {}  # type: ignore[union-attr]
    before = decode_usage(body)
    if mine and usage == before:
        return body
    if not mine or (usage.input_tokens, usage.output_tokens) != (before.input_tokens, before.output_tokens):
        body["prompt_tokens"], body["completion_tokens"] = usage.input_tokens or 0, usage.output_tokens or 0
        body["total_tokens"] = usage.total_tokens
    details = {
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
    for key, counts in details.items():
        known = {name: count for name, count in counts.items() if count is not None}
        if known:
            body[key] = {**(body.get(key) or {}), **known}
    if not mine and usage.opaque is not None:
        ledger.lose("usage.opaque", "usage_details", "the wire's own counts stay there", severity="minor")
    return body
