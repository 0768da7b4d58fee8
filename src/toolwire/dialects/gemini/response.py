"""Decode and encode the responses of generateContent: one choice for each candidate.

The grounding metadata of a candidate names the sources of its text, with byte offsets. The decoder adds citations to
the text parts. The metadata itself stays opaque, and is encoded again from there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolwire.dialects.gemini.calls import IdGenerator
from toolwire.dialects.gemini.messages import encode_content, take_parts
from toolwire.dialects.gemini.parts import DIALECT, SNAKE_KEYS, WIRE, Conversation, read_keys, write_keys
from toolwire.encoding.finish import (
    COMMON_WORDS,
    count_in,
    has_complete_calls,
    infer_finish_reason,
    lose_counts,
    lose_reason,
    lose_stop_sequence,
    total_output,
    without_good_end,
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
_FINISH_REASON_WORDS = {
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
_EXACT_REASONS = frozenset(
    {"stop", "tool_calls", "length", "content_filter", "malformed_tool_call", "pause", "unknown"}
)
_OTHER_REASON = "OTHER"
# Vertex sends this reason with a complete call that it did not expect (recorded). The client may know the tool.
_REASONS_WITH_CALLS = frozenset({"UNEXPECTED_TOOL_CALL"})
# googleapis, generative_service.proto, Candidate.FinishReason (2026-11-20).
_REASON_NUMBERS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: _OTHER_REASON}


def decode_response(body: dict[str, Any]) -> Response:
    """Decode the body of a response."""
    unparsed, snake_keys = read_keys(copy_body(body, "response"))
    entries = unparsed.get("candidates")
    choices: list[Choice] = []
    order: tuple[int, ...] = ()
    if type(entries) is list and entries and all(type(entry) is dict for entry in entries):
        del unparsed["candidates"]
        ids = IdGenerator((entry.get("content") for entry in entries), body)
        order = choice_order(entries)
        choices = apply_order([decode_choice(entry, ids) for entry in entries], order)
    elif type(feedback := unparsed.get("promptFeedback")) is dict:
        choices = _blocked_choices(feedback)
    usage = take(unparsed, "usageMetadata", dict)
    return Response(
        choices=choices,
        model=take(unparsed, "modelVersion", str),
        id=take(unparsed, "responseId", str),
        usage=None if usage is None else decode_usage(usage),
        opaque=WIRE.mark(unparsed, GeminiResponseSpelling(snake_keys=tuple(snake_keys), order=order)),
    )


def _blocked_choices(feedback: dict[str, Any]) -> list[Choice]:
    """Return the empty answer to a blocked prompt, which has no candidate."""
    reason = feedback.get("blockReason", feedback.get("block_reason"))
    if not reason:
        return []
    raw = reason if type(reason) is str else None
    opaque = WIRE.mark({}, GeminiChoiceSpelling(has_no_candidate=True))
    return [Choice(Message("assistant", []), "content_filter", raw, opaque=opaque)]


def decode_choice(entry: dict[str, Any], ids: IdGenerator) -> Choice:
    """Decode a candidate."""
    unparsed, snake_keys = read_keys(entry)
    content = take(unparsed, "content", dict)
    message = (
        Message("assistant", [], opaque=WIRE.plain) if content is None else _decode_candidate_content(content, ids)
    )
    if not SOURCE_KEYS.isdisjoint(unparsed):
        message = replace(message, content=_add_citations(unparsed, message.content))
    index = take(unparsed, "index", int)
    raw, number = take(unparsed, "finishReason", str), unparsed.get("finishReason")
    is_number = type(number) is int and number in _REASON_NUMBERS
    if is_number:
        raw = _REASON_NUMBERS[unparsed.pop("finishReason")]
    reason: Any = FINISH_REASONS.get(raw or "", "unknown") if raw or number is not None else None
    reason = read_finish(reason, raw, has_calls=has_complete_calls(message.content))
    spelling = GeminiChoiceSpelling(
        constants={} if index is None else {"index": index},
        snake_keys=tuple(snake_keys),
        has_no_content=content is None,
        finish_reason=number if is_number else UNSET,
    )
    return Choice(message, reason, raw, opaque=WIRE.mark(unparsed, spelling))


# google-genai 3.4.0, types.Candidate. The Gemini API spells `citations` as `citationSources` (2026-11-20).
SOURCE_KEYS = frozenset({"groundingMetadata", "citationMetadata"})


def _iter_sources(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each span of a candidate's text that has a source, and the source."""
    match entry.get("groundingMetadata"):
        case {"groundingChunks": list(chunks), "groundingSupports": list(supports)}:
            for support in supports:
                match support:
                    case {"segment": dict(segment), "groundingChunkIndices": list(indices)}:
                        cited_chunks = [
                            chunks[index] for index in indices if type(index) is int and 0 <= index < len(chunks)
                        ]
                        sources = [next(iter(chunk.values()), None) for chunk in cited_chunks if type(chunk) is dict]
                        yield from ((segment, source) for source in sources if type(source) is dict)
    match entry.get("citationMetadata"):
        case {"citations": list(citations)} | {"citationSources": list(citations)}:
            yield from ((citation, citation) for citation in citations if type(citation) is dict)


def locate_citations(entry: dict[str, Any], texts: list[str], preceding_bytes: int = 0) -> list[list[Citation]]:
    """Return the citations of each of `texts`, which follow `preceding_bytes` bytes of the candidate's text.

    The offsets in `entry` count bytes from the start of the candidate's text. A span that quotes other text than the
    text at its offsets is ignored.
    """
    text = "".join(texts)
    widths = (len(character.encode(errors="replace")) for character in text)
    byte_offsets = range(len(text) + 1) if text.isascii() else list(accumulate(widths, initial=0))
    text_starts = list(accumulate(map(len, texts), initial=0))
    citations: list[list[Citation]] = [[] for _ in texts]
    for span, source in _iter_sources(entry):
        url, title, quoted = source.get("uri"), source.get("title"), span.get("text")
        start, end = (
            _to_character_offset(byte_offsets, span.get(key, 0), preceding_bytes) for key in ("startIndex", "endIndex")
        )
        if type(url) is not str or not -1 < start < end:
            continue
        index = bisect_right(text_starts, start, hi=len(texts)) - 1
        matches_quote = type(quoted) is not str or (len(quoted) == end - start and text.startswith(quoted, start))
        if matches_quote and end <= text_starts[index + 1]:
            start, end = start - text_starts[index], end - text_starts[index]
            citations[index].append(Citation(url, title if type(title) is str else None, None, start, end, WIRE.plain))
    return citations


def _to_character_offset(byte_offsets: Sequence[int], offset: Any, preceding_bytes: int) -> int:
    """Return the character offset for the byte offset `offset`, or -1 if no character starts or ends there."""
    index = bisect_left(byte_offsets, offset - preceding_bytes) if type(offset) is int else -1
    return index if -1 < index < len(byte_offsets) and byte_offsets[index] == offset - preceding_bytes else -1


def _add_citations(entry: dict[str, Any], content: Any) -> Any:
    """Return `content` with the citations of its texts."""
    parts = [Text(content, opaque=WIRE.plain)] if type(content) is str else content
    citations = locate_citations(entry, [part.text if type(part) is Text else "" for part in parts])
    if not any(citations):
        return content
    return [replace(part, citations=citations[index]) if citations[index] else part for index, part in enumerate(parts)]


def read_finish(reason: Any, raw: str | None, *, has_calls: bool) -> Any:
    """Return the finish reason of an answer. With calls it is `tool_calls`, unless `reason` rules their use out."""
    return infer_finish_reason(None if has_calls and raw in _REASONS_WITH_CALLS else reason, has_calls=has_calls)


def _decode_candidate_content(body: dict[str, Any], ids: IdGenerator) -> Message:
    """Decode the content of a candidate."""
    ids.call_index = 0
    unparsed = body.copy()
    constants = {"role": unparsed.pop("role")} if unparsed.get("role") == "model" else {}
    content, has_one_part = take_parts(unparsed, ids)
    spelling = GeminiMessageSpelling(constants=constants, has_one_part=has_one_part)
    return Message("assistant", content, opaque=WIRE.mark(unparsed, spelling))


def encode_response(response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Encode `response`. The result has the body and the losses."""
    ledger = Conversation(quirks, settings=settings, of="response")
    spelling = spelling_of(response.opaque, GeminiResponseSpelling)
    body: dict[str, Any] = {}
    candidates = []
    for index, choice in enumerate(response.choices):
        ledger.path = ("choices", index)
        if not is_blocked(choice):
            candidates.append(encode_choice(choice, index, ledger))
    ledger.path = ()
    if candidates or (not response.choices and not made_by(response.opaque, DIALECT)):
        body["candidates"] = restore_order(candidates, spelling.order)
    if response.usage is not None:
        body["usageMetadata"] = encode_usage(response.usage, ledger)
    if response.model is not None:
        body["modelVersion"] = response.model
    if response.id is not None:
        body["responseId"] = response.id
    _lose_response_fields(response, ledger)
    ledger.replay(body, response.opaque)
    return Encoded("", write_keys(body, spelling.snake_keys), tuple(ledger.losses))


def _lose_response_fields(response: Response, ledger: Ledger) -> None:
    if response.created is not None:
        ledger.lose("created", "created", f"{DIALECT} has no Unix timestamp for it")
    if response.service_tier is not None:
        ledger.lose("service_tier", "service_tier", f"{DIALECT} has it in the usage instead")
    if response.provider_state:
        ledger.lose_state(response.provider_state, f"{DIALECT} stores no such state")


def is_blocked(choice: Choice) -> bool:
    """Return True if `choice` has no candidate, because its prompt was blocked."""
    if choice.finish_reason != "content_filter" or choice.message.content:
        return False
    return spelling_of(choice.opaque, GeminiChoiceSpelling).has_no_candidate


def _encode_candidate_content(message: Message, ledger: Conversation) -> dict[str, Any]:
    """Encode the content of a candidate."""
    ledger.is_native = made_by(message.opaque, DIALECT)
    parts = encode_content(message, ledger, "assistant")
    if message.name is not None or message.tool_call_id is not None:
        ledger.lose_fields(message, "name", "name", "tool_call_id")
    if not ledger.is_native:
        ledger.lose_opaque(message.opaque)
        return {"role": "model", "parts": parts}
    is_one = spelling_of(message.opaque, GeminiMessageSpelling).has_one_part and len(parts) == 1
    return ledger.replay({"parts": parts[0] if is_one else parts} if parts else {}, message.opaque)


def encode_choice(choice: Choice, index: int, ledger: Conversation) -> dict[str, Any]:
    """Encode `choice` as the candidate with this `index`."""
    ledger.path = ("choices", index, "message")
    choice = without_good_end(choice, WIRE)
    spelling = spelling_of(choice.opaque, GeminiChoiceSpelling)
    content = _encode_candidate_content(choice.message, ledger)
    body: dict[str, Any] = {} if spelling.has_no_content and not content else {"content": content}
    ledger.path = ("choices", index)
    is_native = made_by(choice.opaque, DIALECT)
    if (finish_reason := _encode_finish_reason(choice, ledger, is_native=is_native)) is not None:
        body["finishReason"] = finish_reason
    if not is_native:
        body["index"] = index
    lose_stop_sequence(choice, ledger)
    return write_keys(ledger.replay(body, choice.opaque), spelling.snake_keys)


def _encode_finish_reason(choice: Choice, ledger: Ledger, *, is_native: bool) -> Any:
    raw, reason = choice.raw_finish_reason, choice.finish_reason
    if is_native:
        decoded_reason = FINISH_REASONS.get(raw, "unknown") if raw else None
        if reason == decoded_reason or (
            reason == "tool_calls" and (decoded_reason in {"stop", None} or raw in _REASONS_WITH_CALLS)
        ):
            number = spelling_of(choice.opaque, GeminiChoiceSpelling).finish_reason
            return number if number in _REASON_NUMBERS and _REASON_NUMBERS[number] == raw else raw
        if raw is None and reason == "unknown":
            return None
    if reason is None:
        return None
    if reason not in _EXACT_REASONS:
        lose_reason(reason, ledger)
    return _FINISH_REASON_WORDS.get(reason, _OTHER_REASON)


def decode_usage(body: dict[str, Any]) -> Usage:
    """Decode the token counts. The wire counts thoughts separately, `Usage` counts them in the output."""
    counts = body if SNAKE_KEYS.isdisjoint(body) else read_keys(body)[0]
    prompt, answer, thought = count_in(counts, "promptTokenCount"), count_in(counts, "candidatesTokenCount"), None
    if "toolUsePromptTokenCount" in counts:
        prompt = _sum(prompt, count_in(counts, "toolUsePromptTokenCount"))
    if "thoughtsTokenCount" in counts:
        thought = count_in(counts, "thoughtsTokenCount")
        answer = _sum(answer, thought)
    answer = total_output(prompt, answer, count_in(counts, "totalTokenCount"))
    cached = count_in(counts, "cachedContentTokenCount") if "cachedContentTokenCount" in counts else None
    return Usage(prompt, answer, cached, None, thought, Opaque(DIALECT, body))


def _sum(count: int | None, other: int | None) -> int | None:
    total = sum(filter(None, (count, other)))
    return None if (count is other is None) or not is_count(total) else total


def encode_usage(usage: Usage, ledger: Ledger) -> dict[str, Any]:
    """Encode the token counts. Counts that were received from this wire are sent unchanged if they mean the same."""
    opaque = usage.opaque
    is_native = opaque is not None and opaque.dialect == DIALECT
    raw_counts: dict[str, Any] = opaque.value if is_native and opaque is not None else {}
    received_usage = decode_usage(raw_counts) if is_native else Usage()
    if is_native and usage == received_usage:
        return raw_counts.copy()
    body, snake_keys = read_keys(raw_counts)
    tool_tokens = count_in(body, "toolUsePromptTokenCount") or 0
    if usage.input_tokens != received_usage.input_tokens:
        body["promptTokenCount"] = max((usage.input_tokens or 0) - tool_tokens, 0)
    if usage.reasoning_tokens != received_usage.reasoning_tokens:
        body["thoughtsTokenCount"] = usage.reasoning_tokens or 0
    if (usage.output_tokens, usage.reasoning_tokens) != (received_usage.output_tokens, received_usage.reasoning_tokens):
        body["candidatesTokenCount"] = max((usage.output_tokens or 0) - (usage.reasoning_tokens or 0), 0)
    if usage.cache_read_tokens != received_usage.cache_read_tokens:
        body["cachedContentTokenCount"] = usage.cache_read_tokens or 0
    if (usage.input_tokens, usage.output_tokens) != (received_usage.input_tokens, received_usage.output_tokens):
        body["totalTokenCount"] = usage.total_tokens
    if (usage.reasoning_tokens or 0) > (usage.output_tokens or 0):
        ledger.lose("usage.output_tokens", "usage", f"{DIALECT} counts thoughts separately", "approximated")
    for field in ("cache_write_tokens", "cache_write_long_tokens"):
        if getattr(usage, field) is not None:
            ledger.lose(f"usage.{field}", "usage", f"{DIALECT} does not count it")
    lose_counts(usage, ledger)
    return write_keys(body, snake_keys)
