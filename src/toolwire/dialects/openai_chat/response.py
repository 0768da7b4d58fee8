"""Responses of Chat Completions."""

from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_chat.messages import decode_answer, encode_answer
from toolwire.dialects.openai_chat.parts import DIALECT, WIRE
from toolwire.dialects.openai_chat.request import SERVICE_TIERS
from toolwire.encoding.finish import (
    COMMON_WORDS,
    CUT,
    Counts,
    asks,
    lose_reason,
    lose_stop_sequence,
    settle_calls,
    wants_calls,
    without_claim,
    write_tier,
)
from toolwire.encoding.ledger import Ledger, copy_body, made_by, spelling_of, take, take_constants
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.streams.choices import apply_order, choice_order, restore_order
from toolwire.types import Choice, Encoded, Response, ToolCall
from toolwire.types.spelling.openai_chat import ChatChoiceSpelling, ChatResponseSpelling
from toolwire.wire.names import fingerprint, number_of

COUNTS = Counts("prompt_tokens", "completion_tokens")
# openai 3.52.0, chat_completion.Choice (2026-11-20); mistralai 3.7.0, and words of servers in recorded bodies.
FINISH_REASONS = {
    **COMMON_WORDS,
    "model_length": "context_window",
    "error": "error",
    "abort": "error",  # vLLM that shuts down (vllm issue 57082)
    "insufficient_system_resource": "error",  # api-docs.deepseek.com, create-chat-completion
}
_FINISH_WORDS = {
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
_EXACT = frozenset({"stop", "length", "tool_calls", "content_filter"})


def decode_response(body: dict[str, Any]) -> Response:
    """Read a response's body."""
    unparsed = copy_body(body, "response")
    constants = take_constants(unparsed, {"object": "chat.completion"})
    entries = unparsed.get("choices")
    choices: list[Choice] = []
    order: tuple[int, ...] = ()
    if type(entries) is list and entries and all([_is_choice(entry) for entry in entries]):  # noqa: C419 - faster
        del unparsed["choices"]
        place = number_of(body.get("id"))
        order = choice_order(entries)
        choices = apply_order([_decode_choice(entry, place) for entry in entries], order)
    return decode_shell(unparsed, choices, ChatResponseSpelling(constants=constants, order=order))


def decode_shell(unparsed: dict[str, Any], choices: list[Choice], spelling: ChatResponseSpelling) -> Response:
    """Read the keys of a response beside its choices."""
    usage = take(unparsed, "usage", dict)
    return Response(
        choices=choices,
        model=take(unparsed, "model", str),
        id=take(unparsed, "id", str),
        created=take(unparsed, "created", int),
        usage=None if usage is None else COUNTS.decode(usage, DIALECT),
        service_tier=take(unparsed, "service_tier", str),
        opaque=WIRE.mark(unparsed, spelling),
    )


def _is_choice(entry: Any) -> bool:
    return type(entry) is dict and type(entry.get("message")) is dict


def _decode_choice(entry: dict[str, Any], place: int) -> Choice:
    unparsed = entry.copy()
    body = unparsed.pop("message")
    message = decode_answer(body, place)
    index = take(unparsed, "index", int)
    raw = take(unparsed, "finish_reason", str)
    reason = read_finish(raw, called=asks(message.content), refused=bool(body.get("refusal")))
    spelling = ChatChoiceSpelling(constants={} if index is None else {"index": index})
    if reason in CUT:
        message = replace(message, content=_cut_text(settle_calls(message.content, reason)))
    return Choice(message, reason, raw, opaque=WIRE.mark(unparsed, spelling))


def _cut_text(parts: Any) -> Any:
    """Mark a call of free text with which an answer was cut off: nobody can see whether it is whole."""
    if type(parts) is not list or not parts or type(parts[-1]) is not ToolCall or not parts[-1].custom:
        return parts
    return [*parts[:-1], replace(parts[-1], complete=False)]


def read_finish(raw: str | None, *, called: bool, refused: bool) -> Any:
    """Say in canonical words why an answer ended; no word at all is no trouble (Snowflake)."""
    reason = wants_calls(FINISH_REASONS.get(raw or "stop", "unknown") if raw is not None else None, called=called)
    return "refusal" if reason == "stop" and refused else reason


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a response's body, and report what it cannot hold."""
    ledger = Ledger(WIRE, quirks, settings, "response")
    opaque = response.opaque
    is_native = made_by(opaque, DIALECT)
    if is_native:
        body = {key: value for key in ("id", "created", "model") if (value := getattr(response, key)) is not None}
    else:
        ledger.quirks = showing(ledger.quirks)
        body = {
            "id": response.id or f"chatcmpl-{fingerprint(response)}",
            "object": "chat.completion",
            "created": int(response.created or 0),
            "model": response.model or "",
        }
        if body["created"] != (response.created or 0):
            ledger.lose("created", "created", f"{DIALECT} counts whole seconds", "approximated")
    if response.choices or not is_native:
        written = [_encode_choice(choice, place, ledger) for place, choice in enumerate(response.choices)]
        body["choices"] = restore_order(written, spelling_of(opaque, ChatResponseSpelling).order)
    ledger.at = ()
    if response.usage is not None:
        body["usage"] = COUNTS.encode(response.usage, ledger)
    if response.service_tier is not None:
        write_tier(response, body, SERVICE_TIERS, ledger)
    if response.provider_state:
        ledger.lose_state(response.provider_state, f"{DIALECT} keeps no state")
    ledger.replay(body, opaque)
    return Encoded("", body, tuple(ledger.losses))


_SHOWING = replace(PLAIN, reasoning_key="reasoning_content")


def showing(quirks: Quirks) -> Quirks:
    """Give quirks by which thinking is shown."""
    if quirks is PLAIN:
        return _SHOWING
    return replace(quirks, reasoning_key=quirks.reasoning_key or "reasoning_content")


def _encode_choice(choice: Choice, place: int, ledger: Ledger) -> dict[str, Any]:
    choice = without_claim(choice, WIRE)
    opaque = choice.opaque
    is_native = made_by(opaque, DIALECT)
    ledger.at = ("choices", place, "message")
    ledger.own = made_by(choice.message.opaque, DIALECT)
    message = encode_answer(choice.message, ledger, as_string=True)
    ledger.at = ("choices", place)
    if is_native:
        body: dict[str, Any] = {"message": message}
    else:
        message.setdefault("refusal", None)
        body = {"index": place, "message": message, "logprobs": None}
    _encode_finish(choice, body, ledger, is_native=is_native)
    return ledger.replay(body, opaque)


def _encode_finish(choice: Choice, body: dict[str, Any], ledger: Ledger, *, is_native: bool) -> None:
    called, refused = is_native and asks(choice.message.content), bool(body["message"].get("refusal"))
    word = finish_word(choice, ledger, is_native=is_native, called=called, refused=refused)
    if word is not None:
        body["finish_reason"] = legacy_word(word) if not is_native and "function_call" in body["message"] else word


def legacy_word(word: str | None) -> str | None:
    """Say that an answer ended with a call, to a client of the deprecated form."""
    return "function_call" if word == "tool_calls" else word


def finish_word(choice: Choice, ledger: Ledger, *, is_native: bool, called: bool, refused: bool) -> str | None:
    """Say why an answer ended: in the wire's own word for as long as it means the same."""
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    if is_native and (raw is not None or reason in {None, "tool_calls"}):
        if raw is None or reason == read_finish(raw, called=called, refused=refused):
            return raw
        return _FINISH_WORDS[reason or "unknown"]
    wordless = reason == "refusal" and not refused
    if wordless or (reason is not None and reason not in _EXACT and reason != "refusal"):
        lose_reason(reason, ledger)
    lose_stop_sequence(choice, ledger)
    return "content_filter" if wordless else _FINISH_WORDS[reason or "unknown"]
