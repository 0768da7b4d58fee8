"""Streams to hold laws over, and what one tells in plain values: as we read it, or as a vendor's SDK does."""

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.stream_examples import EXAMPLES
from tests.stream_oracles import FINAL, READERS, Told
from tests.wires import DIALECTS, of_dialect
from toolwire import (
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    ChoiceEnd,
    CitationDelta,
    ErrorEnd,
    Event,
    Loss,
    MessageEnd,
    MessageStart,
    OpaqueDelta,
    PartEnd,
    PartStart,
    Refusal,
    RefusalDelta,
    Response,
    SignatureDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    accumulate,
)
from toolwire.wire.framing import EventStream, JsonObjects
from toolwire.wire.names import is_generated_id, restore

SMALL = 1_500
EVERY = 1_000_000_000
# From one byte at which a stream is cut to the next.
STEPS = [pytest.param(17, id="some"), pytest.param(1, id="every", marks=pytest.mark.slow)]
FIELDS = ("text", "refusal", "thinking", "calls", "finish", "usage", "error", "others")
# The wires that have a place for a refusal; elsewhere it is text.
REFUSE = {"openai-chat", "openai-responses"}
# The wires whose calls carry an id that their SDK shows.
IDS = {name: import_module(f"toolwire.dialects.{name.replace('-', '_')}.parts").WIRE.ids for name in DIALECTS}
IDENTIFY = {"openai-chat", "openai-responses", "anthropic", "gemini"}
# What a server encrypts anew each time it says it.
ENCRYPTED = "gAAAA"
NO_IDS = (None, "", "null")
# What a loss is called that names what a field of Told has lost.
CONCEPTS = {
    "thinking": {"thinking"},
    "calls": {"custom_tool"},
    "finish": {"finish_reason"},
    "usage": {"usage"},
    "others": {"choices"},
}


class Case(Struct, frozen=True):
    """One stream."""

    name: str
    data: bytes


@cache
def all_cases(name: str) -> tuple[Case, ...]:
    """Give the streams of a dialect: those written by hand, and those recorded."""
    written = [Case(f"{name}: {what}", data) for what, data in EXAMPLES[name].items()]
    recorded = [
        Case(recording.name, recording.response_text.encode())
        for recording in of_dialect(name)
        if recording.response_text is not None
    ]
    return (*written, *recorded)


def cases(name: str, most: int = EVERY) -> list[Case]:
    """Give the streams of a dialect of at most so many bytes."""
    return [case for case in all_cases(name) if len(case.data) <= most]


def decode(name: str, data: bytes, cuts: Iterable[int] = ()) -> list[Event]:
    """Read a stream that arrives cut at these places."""
    decoder = DIALECTS[name].decode_stream()
    events: list[Event] = []
    place = 0
    for cut in cuts:
        events += decoder.feed(data[place:cut])
        place = cut
    events += decoder.feed(data[place:])
    return events + decoder.close()


@cache
def decoded(name: str, data: bytes) -> list[Event]:
    """Read a whole stream, once for all laws."""
    return decode(name, data)


@cache
def judged(name: str, data: bytes) -> Told:
    """Let the SDK read a stream, once for all laws."""
    return READERS[name](data)


def encode(name: str, events: Iterable[Event]) -> tuple[bytes, tuple[Loss, ...]]:
    """Write a stream, and give what it lost."""
    encoder = DIALECTS[name].encode_stream()
    data = b"".join([encoder.feed(event) for event in events]) + encoder.close()
    return data, encoder.losses


def tell(events: list[Event]) -> Told:
    """Say what events tell, as a judge does; the finish is canonical, and half a call has its text."""
    response = accumulate(events)
    error = next((event.error.message for event in events if isinstance(event, ErrorEnd)), None)
    told = [_tell(choice) for choice in response.choices]
    first, *others = told or [Told()]
    counts = response.usage
    usage = (0, 0) if counts is None else (counts.input_tokens or 0, counts.output_tokens or 0)
    return replace(first, usage=usage, error=error, others=tuple(others))


def _tell(choice: Choice) -> Told:
    parts = choice.message.parts
    words = {kind: "".join(part.text for part in parts if type(part) is kind) for kind in (Text, Refusal, Thinking)}
    calls = tuple(_call(part) for part in parts if type(part) is ToolCall)
    return Told(words[Text], words[Refusal], words[Thinking], calls, choice.finish_reason, body=parts)


def _call(call: ToolCall) -> tuple[str | None, str, Any]:
    sound = call.runs and not call.custom
    return call.id, call.name, call.arguments if sound else call.raw or ""


def plain(value: Any) -> Any:
    """Give a value as JSON, without how its wire spelled it and without what says nothing."""
    return _plain(msgspec.to_builtins(value))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, str) and value.startswith(ENCRYPTED):
        return ENCRYPTED
    if not isinstance(value, dict):
        return value
    if value.get("type") == "opaque" and isinstance(value["value"], dict):
        value = {key: inner for key, inner in value["value"].items() if key != "index"}
    given = {key: _plain(inner) for key, inner in value.items()}
    return {key: inner for key, inner in given.items() if inner not in (None, "", [], {})}


def is_whole(events: list[Event]) -> bool:
    """Whether the wire ended the answer, and not an error or a lost connection."""
    return any(isinstance(event, MessageEnd) and event.complete for event in events)


WORDS = TextDelta | RefusalDelta | ThinkingDelta | CallDelta
IN_PARTS = WORDS | SignatureDelta | CitationDelta | OpaqueDelta | PartEnd | CallEnd


def disorder(events: list[Event]) -> str:
    """Say what is wrong with the order of events; nothing if all is well."""
    kinds = [type(event) for event in events]
    ends = [event.index for event in events if isinstance(event, ChoiceEnd)]
    if kinds.count(MessageEnd) != 1 or kinds[-1] is not MessageEnd:
        return "a message ends once, and last"
    if kinds.count(MessageStart) > 1 or (MessageStart in kinds and kinds[0] is not MessageStart):
        return "a message starts once, and first"
    return "a choice ends twice" if len(ends) != len(set(ends)) else _disorder_of_parts(events)


def _disorder_of_parts(events: list[Event]) -> str:
    opened: set[int] = set()
    ended: set[int] = set()
    for event in events:
        if isinstance(event, PartStart | CallStart):
            if event.key in opened:
                return f"{event} starts again"
            opened.add(event.key)
        elif isinstance(event, IN_PARTS) and event.key is not None:
            if event.key not in opened - ended:
                return f"{event} is of no open part"
            if isinstance(event, PartEnd | CallEnd):
                ended.add(event.key)
    return "" if opened == ended else f"no end of {sorted(opened - ended)}"


def is_sound(response: Response) -> bool:
    """Whether every answer has ended and no call was cut off."""
    ends = [choice.finish_reason for choice in response.choices]
    return not response.broken_calls and "incomplete" not in ends and "error" not in ends


def shown(found: list[str]) -> str:
    """Write what a law found, a line each."""
    return "\n".join(["", *found[:30]])


def unlike(name: str, theirs: Told, ours: Told) -> set[str]:
    """Name what the SDK of a dialect says otherwise than we do."""
    same = {
        "text": theirs.text == ours.text,
        "refusal": theirs.refusal == ours.refusal,
        "thinking": theirs.thinking == ours.thinking,
        "calls": len(theirs.calls) == len(ours.calls)
        and all(_same_call(name, *pair) for pair in zip(theirs.calls, ours.calls, strict=True)),
        "finish": ours.error is not None or same_finish(name, theirs, ours),
        "usage": theirs.usage == ours.usage,
        "error": (theirs.error is None) == (ours.error is None),
        "others": len(theirs.others) == len(ours.others)
        and all(unlike(name, *pair) <= {"finish"} for pair in zip(theirs.others, ours.others, strict=True)),
    }
    return {field for field in FIELDS if not same[field]}


def lines(name: str, fields: set[str], theirs: Told, ours: Told) -> list[str]:
    """Say what differs, a line each."""
    return [
        f"{name}: {field}: {getattr(theirs, field)!r:.90} is not {getattr(ours, field)!r:.90}"
        for field in FIELDS
        if field in fields
    ]


def _same_call(name: str, theirs: Any, ours: Any) -> bool:
    same_id = theirs[0] == ours[0] or (theirs[0] in NO_IDS and (is_generated_id(ours[0]) or name not in IDENTIFY))
    half = isinstance(ours[2], str) and not isinstance(theirs[2], str)
    return same_id and theirs[1] == ours[1] and (half or theirs[2] == ours[2])


def same_finish(name: str, theirs: Told, ours: Told) -> bool:
    """Whether the wire's word for the end, read by the dialect's own table, is the canonical one."""
    if theirs.finish is None:
        return ours.finish == "incomplete"
    return DIALECTS[name].decode_response(ENDINGS[name](theirs)).finish_reason == ours.finish


def _called(told: Told) -> bool:
    return bool(told.calls)


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def _chat(told: Told) -> dict[str, Any]:
    message = {"role": "assistant", "content": told.text, "refusal": told.refusal or None}
    calls = {"tool_calls": [CALL]} if _called(told) else {}
    return {"choices": [{"message": {**message, **calls}, "finish_reason": told.finish}]}


def _responses(told: Told) -> dict[str, Any]:
    status, _, reason = (told.finish or "").partition(": ")
    block = {"type": "refusal", "refusal": told.refusal}
    items: list[Any] = [{"type": "message", "role": "assistant", "content": [block] if told.refusal else []}]
    if _called(told):
        items.append({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})
    return {"output": items, "status": status, "incomplete_details": {"reason": reason} if reason else None}


def _messages(told: Told) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    return {"content": [block] if _called(told) else [], "stop_reason": told.finish}


def _gemini(told: Told) -> dict[str, Any]:
    word, _, blocked = (told.finish or "").partition(": ")
    if blocked:
        return {"promptFeedback": {"blockReason": blocked}}
    parts = [{"functionCall": {"name": "f", "args": {}}}] if _called(told) else []
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": word}]}


def _ollama(told: Told) -> dict[str, Any]:
    calls = {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]} if _called(told) else {}
    message = {"role": "assistant", "content": "", **calls}
    return {"message": message, "done": True, "done_reason": told.finish}


ENDINGS: dict[str, Callable[[Told], dict[str, Any]]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _messages,
    "gemini": _gemini,
    "ollama": _ollama,
}


def unlike_there(target: str, theirs: Told, events: list[Event], losses: tuple[Loss, ...]) -> set[str]:
    """Name what the SDK of another dialect says otherwise than the source, and no loss explains."""
    ours = tell(events)
    parts = ours.body or []
    lost = {loss.concept for loss in losses}
    failed = not is_whole(events)
    spoken = ours.text if target in REFUSE else _words(parts)
    same = {
        "text": theirs.text == spoken,
        "refusal": theirs.refusal == (ours.refusal if target in REFUSE else ""),
        "thinking": theirs.thinking == ours.thinking or not theirs.thinking,
        "calls": same_calls(target, theirs, ours),
        "finish": failed or same_finish(target, theirs, ours),
        "usage": failed or theirs.usage == ours.usage,
        "error": (theirs.error is not None) == failed,
        "others": len(theirs.others) == len(ours.others),
    }
    silent = {"thinking"} if theirs.thinking != ours.thinking and not lost & CONCEPTS["thinking"] else set()
    return {field for field in FIELDS if not same[field] and not lost & CONCEPTS.get(field, set())} | silent


def _words(parts: Iterable[Any]) -> str:
    return "".join(part.text for part in parts if type(part) in (Text, Refusal))


def same_calls(target: str, theirs: Told, ours: Told) -> bool:
    """Whether the calls that may be run are the same there; half a call is half a call there, or left out."""
    calls = [part for part in ours.body or () if type(part) is ToolCall]
    if len(theirs.calls) != len(calls):
        calls = [call for call in calls if call.runs]
    return len(theirs.calls) == len(calls) and all(
        name == call.name
        and (not call.runs or arguments == _call(call)[2])
        and (target not in IDENTIFY or call_id in NO_IDS or _same_id(call_id, call.id or "", IDS[target]))
        for call, (call_id, name, arguments) in zip(calls, theirs.calls, strict=True)
    )


def _same_id(written: str, given: str, grammar: Any) -> bool:
    """Whether an id is the same in a target's grammar; one that is too long there has another."""
    return restore(written, grammar) == given or (len(given) > grammar.limit and len(written) <= grammar.limit)


def whole_turn(name: str, data: bytes) -> dict[str, Any] | None:
    """Give the body of a response that says the same as the stream, where the wire or its SDK has one."""
    return WHOLE[name](data) if name in WHOLE else None


def _final_message(data: bytes) -> dict[str, Any] | None:
    told = judged("anthropic", data)
    return None if told.error is not None or told.finish is None else told.body.to_dict(mode="json", warnings=False)


def _final_response(data: bytes) -> dict[str, Any] | None:
    bodies = [msgspec.json.decode(body) for _, body in EventStream().feed(data) if body[:1] == b"{"]
    final = [body["response"] for body in bodies if body.get("type") in FINAL]
    return final[0] if final else None


def _only_chunk(data: bytes) -> dict[str, Any] | None:
    bodies = [msgspec.json.decode(body) for _, body in JsonObjects().feed(data)]
    return bodies[0] if len(bodies) == 1 and "error" not in bodies[0] else None


WHOLE: dict[str, Callable[[bytes], Any]] = {
    "anthropic": _final_message,
    "openai-responses": _final_response,
    "gemini": _only_chunk,
    "ollama": _only_chunk,
}
