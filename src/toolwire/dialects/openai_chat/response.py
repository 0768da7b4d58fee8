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
    has_complete_calls,
    infer_finish_reason,
    lose_reason,
    lose_stop_sequence,
    mark_cut_calls,
    without_good_end,
    write_tier,
)
from toolwire.encoding.ledger import Ledger, copy_body, made_by, spelling_of, take, take_constants
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.streams.choices import apply_order, choice_order, restore_order
from toolwire.types import Choice, Encoded, Response, ToolCall
from toolwire.types.spelling.openai_chat import ChatChoiceSpelling, ChatResponseSpelling
from toolwire.wire.names import fingerprint, number_of

COUNTS = Counts("prompt_tokens", "completion_tokens")
# openai 3.52.0, chat_completion.Choice (2026-11-20); mistralai 3.7.0; recorded bodies of other servers.
FINISH_REASONS = {
    **COMMON_WORDS,
    "model_length": "context_window",
    "error": "error",
    "abort": "error",  # vLLM, when it shuts down (https://github.com/vllm-project/vllm/issues/57082)
    "insufficient_system_resource": "error",  # DeepSeek (api-docs.deepseek.com, create-chat-completion)
}
_REASON_OF_FINISH = {
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
_EXACT_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})


def decode_response(body: dict[str, Any]) -> Response:
    """Read a response's body. Raise `InvalidBody` if it is no object."""
    unparsed = copy_body(body, "response")
    constants = take_constants(unparsed, {"object": "chat.completion"})
    entries = unparsed.get("choices")
    choices: list[Choice] = []
    order: tuple[int, ...] = ()
    if type(entries) is list and entries and all([_is_choice(entry) for entry in entries]):  # noqa: C419 - faster
        del unparsed["choices"]
        id_seed = number_of(body.get("id"))
        order = choice_order(entries)
        choices = apply_order([_decode_choice(entry, id_seed) for entry in entries], order)
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
    """Return True if `entry` has a message."""
    return type(entry) is dict and type(entry.get("message")) is dict


def _decode_choice(entry: dict[str, Any], id_seed: int) -> Choice:
    """Read one choice. If the answer was cut off, calls that may be incomplete are marked."""
    unparsed = entry.copy()
    body = unparsed.pop("message")
    message = decode_answer(body, id_seed)
    index = take(unparsed, "index", int)
    raw = take(unparsed, "finish_reason", str)
    reason = decode_finish_reason(raw, called=has_complete_calls(message.content), refused=bool(body.get("refusal")))
    spelling = ChatChoiceSpelling(constants={} if index is None else {"index": index})
    if reason in CUT:
        message = replace(message, content=_cut_free_text(mark_cut_calls(message.content, reason)))
    return Choice(message, reason, raw, opaque=WIRE.mark(unparsed, spelling))


def _cut_free_text(parts: Any) -> Any:
    """Mark a last call of free text as cut off, in an answer that was cut off: it may be incomplete."""
    if type(parts) is not list or not parts or type(parts[-1]) is not ToolCall or not parts[-1].custom:
        return parts
    return [*parts[:-1], replace(parts[-1], complete=False)]


def decode_finish_reason(raw: str | None, *, called: bool, refused: bool) -> Any:
    """Return the canonical finish reason of an answer.

    - `raw`: the finish reason of the wire. Snowflake sends none, which is no error.
    - `called`: True if the answer has a complete call.
    - `refused`: True if the answer has a refusal.
    """
    reason = infer_finish_reason(
        FINISH_REASONS.get(raw or "stop", "unknown") if raw is not None else None, has_calls=called
    )
    return "refusal" if reason == "stop" and refused else reason


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a response's body as a server with these `quirks`, and report what the wire cannot express as losses.

    `settings` replace single quirks. Their `names` are tool names that are written unchanged.
    """
    ledger = Ledger(WIRE, quirks, settings, "response")
    opaque = response.opaque
    is_native = made_by(opaque, DIALECT)
    if is_native:
        body = {key: value for key in ("id", "created", "model") if (value := getattr(response, key)) is not None}
    else:
        ledger.quirks = with_visible_thinking(ledger.quirks)
        body = {
            "id": response.id or f"chatcmpl-{fingerprint(response)}",
            "object": "chat.completion",
            "created": int(response.created or 0),
            "model": response.model or "",
        }
        if body["created"] != (response.created or 0):
            ledger.lose("created", "created", f"{DIALECT} counts whole seconds", "approximated")
    if response.choices or not is_native:
        encoded = [_encode_choice(choice, index, ledger) for index, choice in enumerate(response.choices)]
        body["choices"] = restore_order(encoded, spelling_of(opaque, ChatResponseSpelling).order)
    ledger.path = ()
    if response.usage is not None:
        body["usage"] = COUNTS.encode(response.usage, ledger)
    if response.service_tier is not None:
        write_tier(response, body, SERVICE_TIERS, ledger)
    if response.provider_state:
        ledger.lose_state(response.provider_state, f"{DIALECT} has no stored state")
    ledger.replay(body, opaque)
    return Encoded("", body, tuple(ledger.losses))


_VISIBLE_THINKING = replace(PLAIN, reasoning_key="reasoning_content")


def with_visible_thinking(quirks: Quirks) -> Quirks:
    """Return `quirks` with a key for thinking, so that a client sees it: `reasoning_content` if it has none."""
    if quirks is PLAIN:
        return _VISIBLE_THINKING
    return replace(quirks, reasoning_key=quirks.reasoning_key or "reasoning_content")


def _encode_choice(choice: Choice, index: int, ledger: Ledger) -> dict[str, Any]:
    """Write one choice. One of another wire gets all keys that clients require."""
    choice = without_good_end(choice, WIRE)
    opaque = choice.opaque
    is_native = made_by(opaque, DIALECT)
    ledger.path = ("choices", index, "message")
    ledger.is_native = made_by(choice.message.opaque, DIALECT)
    message = encode_answer(choice.message, ledger, as_string=True)
    ledger.path = ("choices", index)
    if is_native:
        body: dict[str, Any] = {"message": message}
    else:
        message.setdefault("refusal", None)
        body = {"index": index, "message": message, "logprobs": None}
    _encode_finish(choice, body, ledger, is_native=is_native)
    return ledger.replay(body, opaque)


def _encode_finish(choice: Choice, body: dict[str, Any], ledger: Ledger, *, is_native: bool) -> None:
    """Write the finish reason of a choice into its `body`, which already has the message."""
    called, refused = is_native and has_complete_calls(choice.message.content), bool(body["message"].get("refusal"))
    raw_reason = encode_finish_reason(choice, ledger, is_native=is_native, called=called, refused=refused)
    if raw_reason is not None:
        body["finish_reason"] = (
            deprecated_finish_reason(raw_reason) if not is_native and "function_call" in body["message"] else raw_reason
        )


def deprecated_finish_reason(raw_reason: str | None) -> str | None:
    """Return the finish reason for a client of the deprecated `functions`."""
    return "function_call" if raw_reason == "tool_calls" else raw_reason


def encode_finish_reason(choice: Choice, ledger: Ledger, *, is_native: bool, called: bool, refused: bool) -> str | None:
    """Return the finish reason to write: that of the wire as long as it means the same as the canonical one.

    `called` and `refused` are as in `decode_finish_reason`.
    """
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    if is_native and (raw is not None or reason in {None, "tool_calls"}):
        if raw is None or reason == decode_finish_reason(raw, called=called, refused=refused):
            return raw
        return _REASON_OF_FINISH[reason or "unknown"]
    is_unwritten_refusal = reason == "refusal" and not refused
    if is_unwritten_refusal or (reason is not None and reason not in _EXACT_REASONS and reason != "refusal"):
        lose_reason(reason, ledger)
    lose_stop_sequence(choice, ledger)
    return "content_filter" if is_unwritten_refusal else _REASON_OF_FINISH[reason or "unknown"]
