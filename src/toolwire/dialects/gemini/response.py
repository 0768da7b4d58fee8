"""Responses of generateContent: one choice for each candidate.

What an answer is grounded on stands beside its words, with places in bytes. The words cite it; it stays where it is,
and is written again from there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolwire.dialects.gemini.calls import MadeIds
from toolwire.dialects.gemini.messages import encode_content, take_parts
from toolwire.dialects.gemini.parts import DIALECT, SNAKES, WIRE, Conversation, read_keys, write_keys
from toolwire.encoding.finish import (
    COMMON_WORDS,
    asks,
    count_in,
    lose_counts,
    lose_reason,
    lose_stop_sequence,
    made_in_all,
    wants_calls,
    without_claim,
)
from toolwire.encoding.ledger import Ledger, copy_body, made_by, spelling_of, take
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.streams.choices import apply_order, choice_order, restore_order
from toolwire.types import Choice, Citation, Encoded, Message, Opaque, Response, Text, Usage
from toolwire.types.answer import is_count
from toolwire.types.spelling.gemini import GeminiChoiceSpelling, GeminiMessageSpelling, GeminiResponseSpelling

# google-genai 3.4.0, types.FinishReason (2026-11-20).
FINISH_REASONS = {
    **COMMON_WORDS,
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "content_filter"),
    **dict.fromkeys(("MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"), "content_filter"),
    **dict.fromkeys(("IMAGE_RECITATION", "LANGUAGE"), "content_filter"),
    **dict.fromkeys(("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"), "malformed_tool_call"),
    **dict.fromkeys(("TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE"), "malformed_tool_call"),
    "MALFORMED_RESPONSE": "malformed_tool_call",
    "CONTINUATION": "pause",
}
_FINISH_WORDS = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "stop_sequence": "STOP",
    "length": "MAX_TOKENS",
    "context_window": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "refusal": "SAFETY",
    "malformed_tool_call": "MALFORMED_FUNCTION_CALL",
    "pause": "CONTINUATION",
}
_EXACT = frozenset({"stop", "tool_calls", "length", "content_filter", "malformed_tool_call", "pause", "unknown"})
_OTHER = "OTHER"
# What Vertex says beside a whole call that it had not expected (recorded bodies): whose call it is, the client knows.
_CALLED = frozenset({"UNEXPECTED_TOOL_CALL"})
# googleapis, generative_service.proto, Candidate.FinishReason (2026-11-20).
_NUMBERS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: _OTHER}


def decode_response(body: dict[str, Any]) -> Response:
    """Read a response's body."""
    unparsed, snake_keys = read_keys(copy_body(body, "response"))
    entries = unparsed.get("candidates")
    choices: list[Choice] = []
    order: tuple[int, ...] = ()
    if type(entries) is list and entries and all(type(entry) is dict for entry in entries):
        del unparsed["candidates"]
        ids = MadeIds((entry.get("content") for entry in entries), body)
        order = choice_order(entries)
        choices = apply_order([decode_choice(entry, ids) for entry in entries], order)
    elif type(feedback := unparsed.get("promptFeedback")) is dict:
        choices = _blocked(feedback)
    usage = take(unparsed, "usageMetadata", dict)
    return Response(
        choices=choices,
        model=take(unparsed, "modelVersion", str),
        id=take(unparsed, "responseId", str),
        usage=None if usage is None else decode_usage(usage),
        opaque=WIRE.mark(unparsed, GeminiResponseSpelling(snake_keys=tuple(snake_keys), order=order)),
    )


def _blocked(feedback: dict[str, Any]) -> list[Choice]:
    """Return the empty answer to a prompt that was blocked, for which there is no candidate."""
    reason = feedback.get("blockReason", feedback.get("block_reason"))
    if not reason:
        return []
    raw = reason if type(reason) is str else None
    opaque = WIRE.mark({}, GeminiChoiceSpelling(has_no_candidate=True))
    return [Choice(Message("assistant", []), "content_filter", raw, opaque=opaque)]


def decode_choice(entry: dict[str, Any], ids: MadeIds) -> Choice:
    """Read a candidate."""
    unparsed, snake_keys = read_keys(entry)
    content = take(unparsed, "content", dict)
    message = Message("assistant", [], opaque=WIRE.plain) if content is None else _decode_answer(content, ids)
    if not SOURCES.isdisjoint(unparsed):
        message = replace(message, content=_cite(unparsed, message.content))
    index = take(unparsed, "index", int)
    raw, number = take(unparsed, "finishReason", str), unparsed.get("finishReason")
    is_number = type(number) is int and number in _NUMBERS
    if is_number:
        raw = _NUMBERS[unparsed.pop("finishReason")]
    reason: Any = FINISH_REASONS.get(raw or "", "unknown") if raw or number is not None else None
    reason = read_finish(reason, raw, called=asks(message.content))
    spelling = GeminiChoiceSpelling(
        constants={} if index is None else {"index": index},
        snake_keys=tuple(snake_keys),
        has_no_content=content is None,
        finish_reason=number if is_number else UNSET,
    )
    return Choice(message, reason, raw, opaque=WIRE.mark(unparsed, spelling))


# google-genai 3.4.0, types.Candidate; `citationSources` is how the Gemini API says `citations` (2026-11-20).
SOURCES = frozenset({"groundingMetadata", "citationMetadata"})


def _sources(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Give each place in the words of a candidate for which it names a source, with that source."""
    match entry.get("groundingMetadata"):
        case {"groundingChunks": list(chunks), "groundingSupports": list(supports)}:
            for support in supports:
                match support:
                    case {"segment": dict(segment), "groundingChunkIndices": list(numbers)}:
                        found = [chunks[n] for n in numbers if type(n) is int and 0 <= n < len(chunks)]
                        kinds = [next(iter(chunk.values()), None) for chunk in found if type(chunk) is dict]
                        yield from ((segment, source) for source in kinds if type(source) is dict)
    match entry.get("citationMetadata"):
        case {"citations": list(notes)} | {"citationSources": list(notes)}:
            yield from ((note, note) for note in notes if type(note) is dict)


def citations_of(entry: dict[str, Any], texts: list[str], before: int = 0) -> list[list[Citation]]:
    """Give the citations of each of these texts; so many bytes of the answer's words stand `before` them.

    A place counts from the beginning of all words. One whose text does not stand there is left alone.
    """
    words = "".join(texts)
    widths = (len(letter.encode(errors="replace")) for letter in words)
    bounds = range(len(words) + 1) if words.isascii() else list(accumulate(widths, initial=0))
    begins = list(accumulate(map(len, texts), initial=0))
    cited: list[list[Citation]] = [[] for _ in texts]
    for said, source in _sources(entry):
        url, title, quoted = source.get("uri"), source.get("title"), said.get("text")
        start, end = (_letters(bounds, said.get(key, 0), before) for key in ("startIndex", "endIndex"))
        if type(url) is not str or not -1 < start < end:
            continue
        place = bisect_right(begins, start, hi=len(texts)) - 1
        fits = type(quoted) is not str or (len(quoted) == end - start and words.startswith(quoted, start))
        if fits and end <= begins[place + 1]:
            start, end = start - begins[place], end - begins[place]
            cited[place].append(Citation(url, title if type(title) is str else None, None, start, end, WIRE.plain))
    return cited


def _letters(bounds: Sequence[int], offset: Any, before: int) -> int:
    """Say how many letters stand before an offset in bytes; -1 where none of them ends there."""
    place = bisect_left(bounds, offset - before) if type(offset) is int else -1
    return place if -1 < place < len(bounds) and bounds[place] == offset - before else -1


def _cite(entry: dict[str, Any], content: Any) -> Any:
    """Have the texts of an answer cite what it is grounded on."""
    parts = [Text(content, opaque=WIRE.plain)] if type(content) is str else content
    cited = citations_of(entry, [part.text if type(part) is Text else "" for part in parts])
    if not any(cited):
        return content
    return [replace(part, citations=cited[n]) if cited[n] else part for n, part in enumerate(parts)]


def read_finish(reason: Any, raw: str | None, *, called: bool) -> Any:
    """Say why an answer ended: for its calls, if it has any, and nothing is said against them."""
    return wants_calls(None if called and raw in _CALLED else reason, called=called)


def _decode_answer(body: dict[str, Any], ids: MadeIds) -> Message:
    """Read the content of a candidate."""
    ids.index = 0
    unparsed = body.copy()
    constants = {"role": unparsed.pop("role")} if unparsed.get("role") == "model" else {}
    content, has_one_part = take_parts(unparsed, ids)
    spelling = GeminiMessageSpelling(constants=constants, has_one_part=has_one_part)
    return Message("assistant", content, opaque=WIRE.mark(unparsed, spelling))


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a response's body, and report what it cannot hold."""
    ledger = Conversation(quirks, settings=settings, of="response")
    spelling = spelling_of(response.opaque, GeminiResponseSpelling)
    body: dict[str, Any] = {}
    candidates = []
    for place, choice in enumerate(response.choices):
        ledger.at = ("choices", place)
        if not is_blocked(choice):
            candidates.append(encode_choice(choice, place, ledger))
    ledger.at = ()
    if candidates or (not response.choices and not made_by(response.opaque, DIALECT)):
        body["candidates"] = restore_order(candidates, spelling.order)
    if response.usage is not None:
        body["usageMetadata"] = encode_usage(response.usage, ledger)
    if response.model is not None:
        body["modelVersion"] = response.model
    if response.id is not None:
        body["responseId"] = response.id
    _lose_beside(response, ledger)
    ledger.replay(body, response.opaque)
    return Encoded("", write_keys(body, spelling.snake_keys), tuple(ledger.losses))


def _lose_beside(response: Response, ledger: Ledger) -> None:
    if response.created is not None:
        ledger.lose("created", "created", f"{DIALECT} says it in a form of its own")
    if response.service_tier is not None:
        ledger.lose("service_tier", "service_tier", f"{DIALECT} says it in the usage")
    if response.provider_state:
        ledger.lose_state(response.provider_state, f"{DIALECT} keeps no such state")


def is_blocked(choice: Choice) -> bool:
    """Return True if there is no candidate for `choice`, because its prompt was blocked."""
    if choice.finish_reason != "content_filter" or choice.message.content:
        return False
    return spelling_of(choice.opaque, GeminiChoiceSpelling).has_no_candidate


def _encode_answer(message: Message, ledger: Conversation) -> dict[str, Any]:
    """Write the content of a candidate."""
    ledger.own = made_by(message.opaque, DIALECT)
    parts = encode_content(message, ledger, "assistant")
    if message.name is not None or message.tool_call_id is not None:
        ledger.lose_fields(message, "name", "name", "tool_call_id")
    if not ledger.own:
        ledger.lose_opaque(message.opaque)
        return {"role": "model", "parts": parts}
    is_one = spelling_of(message.opaque, GeminiMessageSpelling).has_one_part and len(parts) == 1
    return ledger.replay({"parts": parts[0] if is_one else parts} if parts else {}, message.opaque)


def encode_choice(choice: Choice, place: int, ledger: Conversation) -> dict[str, Any]:
    """Write a candidate."""
    ledger.at = ("choices", place, "message")
    choice = without_claim(choice, WIRE)
    spelling = spelling_of(choice.opaque, GeminiChoiceSpelling)
    content = _encode_answer(choice.message, ledger)
    body: dict[str, Any] = {} if spelling.has_no_content and not content else {"content": content}
    ledger.at = ("choices", place)
    is_native = made_by(choice.opaque, DIALECT)
    if (word := _finish_word(choice, ledger, is_native=is_native)) is not None:
        body["finishReason"] = word
    if not is_native:
        body["index"] = place
    lose_stop_sequence(choice, ledger)
    return write_keys(ledger.replay(body, choice.opaque), spelling.snake_keys)


def _finish_word(choice: Choice, ledger: Ledger, *, is_native: bool) -> Any:
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    if is_native:
        meant = FINISH_REASONS.get(raw, "unknown") if raw else None
        if reason == meant or (reason == "tool_calls" and (meant in {"stop", None} or raw in _CALLED)):
            number = spelling_of(choice.opaque, GeminiChoiceSpelling).finish_reason
            return number if number in _NUMBERS and _NUMBERS[number] == raw else raw
        if raw is None and reason == "unknown":
            return None
    if reason is None:
        return None
    if reason not in _EXACT:
        lose_reason(reason, ledger)
    return _FINISH_WORDS.get(reason, _OTHER)


def decode_usage(body: dict[str, Any]) -> Usage:
    """Read the counts. This wire counts thoughts beside the answer; ours counts them in it."""
    given = body if SNAKES.isdisjoint(body) else read_keys(body)[0]
    prompt, answer, thought = count_in(given, "promptTokenCount"), count_in(given, "candidatesTokenCount"), None
    if "toolUsePromptTokenCount" in given:
        prompt = _sum(prompt, count_in(given, "toolUsePromptTokenCount"))
    if "thoughtsTokenCount" in given:
        thought = count_in(given, "thoughtsTokenCount")
        answer = _sum(answer, thought)
    answer = made_in_all(prompt, answer, count_in(given, "totalTokenCount"))
    cached = count_in(given, "cachedContentTokenCount") if "cachedContentTokenCount" in given else None
    return Usage(prompt, answer, cached, None, thought, Opaque(DIALECT, body))


def _sum(count: int | None, other: int | None) -> int | None:
    total = sum(filter(None, (count, other)))
    return None if (count is other is None) or not is_count(total) else total


def encode_usage(usage: Usage, ledger: Ledger) -> dict[str, Any]:
    """Write the counts: the wire's own, for as long as they mean the same."""
    opaque = usage.opaque
    is_native = opaque is not None and opaque.dialect == DIALECT
    given: dict[str, Any] = opaque.value if is_native and opaque is not None else {}
    before = decode_usage(given) if is_native else Usage()
    if is_native and usage == before:
        return given.copy()
    body, snakes = read_keys(given)
    tools = count_in(body, "toolUsePromptTokenCount") or 0
    if usage.input_tokens != before.input_tokens:
        body["promptTokenCount"] = max((usage.input_tokens or 0) - tools, 0)
    if usage.reasoning_tokens != before.reasoning_tokens:
        body["thoughtsTokenCount"] = usage.reasoning_tokens or 0
    if (usage.output_tokens, usage.reasoning_tokens) != (before.output_tokens, before.reasoning_tokens):
        body["candidatesTokenCount"] = max((usage.output_tokens or 0) - (usage.reasoning_tokens or 0), 0)
    if usage.cache_read_tokens != before.cache_read_tokens:
        body["cachedContentTokenCount"] = usage.cache_read_tokens or 0
    if (usage.input_tokens, usage.output_tokens) != (before.input_tokens, before.output_tokens):
        body["totalTokenCount"] = usage.total_tokens
    if (usage.reasoning_tokens or 0) > (usage.output_tokens or 0):
        ledger.lose("usage.output_tokens", "usage", "thoughts are counted in it here", "approximated")
    if usage.cache_write_tokens is not None:
        ledger.lose("usage.cache_write_tokens", "usage", f"{DIALECT} does not count it")
    lose_counts(usage, ledger)
    return write_keys(body, snakes)
