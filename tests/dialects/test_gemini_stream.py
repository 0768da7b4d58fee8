"""Streams of generateContent, both ways."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.dialects.stream_parts import shown
from tests.stream_cases import STEPS, decode
from tests.wires import differences, of_dialect
from toolwire import (
    ChoiceEnd,
    Citation,
    CitationDelta,
    Event,
    MessageDelta,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    PartEnd,
    PartStart,
    TextDelta,
    ToolCall,
    UsageDelta,
    accumulate,
    translate,
)
from toolwire.dialects import NAMES, gemini
from toolwire.wire.framing import EventStream, JsonObjects

Body = dict[str, Any]
BESIDE = {"modelVersion": "m", "responseId": "r"}
COUNTS = {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7}


def chunk(*parts: Any, **beside: Any) -> Body:
    content = {"parts": list(parts), "role": "model"}
    return {"candidates": [{"content": content, "index": 0, **beside}], **BESIDE}


def word(text: str, **siblings: Any) -> Body:
    return chunk({"text": text, **siblings})


def call(more: bool | None = None, args: Any = ..., **said: Any) -> Body:
    given = {} if args is ... else {"args": args}
    return {"functionCall": {**said, **given, **({"willContinue": True} if more else {})}}


def piece(*given: Body, more: bool = True, **said: Any) -> Body:
    """Make a chunk that is a piece of a call."""
    return chunk(call(more, **said, **({"partialArgs": list(given)} if given else {})))


def at(path: str, more: bool = False, **value: Any) -> Body:
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


CALL = call(name="look", args={"a": 1})
F: Any = {"name": "f", "id": "c"}
END, STOP = chunk(finishReason="STOP"), chunk({"text": ""}, finishReason="STOP") | {"usageMetadata": COUNTS}
BUSY = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
SNAKE = {"content": {"parts": [{"function_call": {"id": "c", "name": "f"}}]}, "finish_reason": "STOP"}
ONE, TWO = at("$.a", numberValue=1), at("$.a", numberValue=2)


def sse(*bodies: Any, end: str = "\n\n") -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(body) + end.encode() for body in bodies)


def bodies_of(data: bytes) -> list[Any]:
    frames = (JsonObjects if data[:1] == b"[" else EventStream)().feed(data)
    return [msgspec.json.decode(frame) for _, frame in frames]


def encode(*events: Event, **settings: Any) -> tuple[bytes, list[tuple[str, str, str]]]:
    encoder = gemini.encode_stream(**settings)
    data = b"".join(map(encoder.feed, events)) + encoder.close()
    return data, [(loss.path, loss.concept, loss.severity) for loss in encoder.losses]


def read(*bodies: Any) -> list[Event]:
    return decode("gemini", sse(*bodies))


Case = tuple[tuple[Any, ...], list[Any], str, bool]


def case(*frames: Any, parts: Any = (), finish: str = "stop", whole: bool = True) -> Case:
    return frames, list(parts), finish, whole


def asks(*frames: Any, parts: Any) -> Case:
    return case(*frames, parts=parts, finish="tool_calls")


LOOK = ("gemini_1812594589001", "look", {"a": 1})
PARTS = ({"executableCode": {"code": "1"}}, {"inlineData": {"mimeType": "image/png", "data": "AA"}}, {"x": 1})
READ: dict[str, Case] = {
    "words": case(word("a"), word("b"), STOP, parts=["ab"]),
    "thoughts": case(word("t", thought=True), word("u", thought=True), word("a"), STOP, parts=[("tu",), "a"]),
    "parts of a chunk": asks(
        chunk({"text": "t", "thought": True}, {"text": "a"}, CALL, {"text": "b"}),
        END,
        parts=[("t",), "a", LOOK, "b"],
    ),
    "a signed part": case(word("a"), word("b", thoughtSignature="S"), word("c"), STOP, parts=["a", "b", "c"]),
    "a signature alone": case(word("a"), word("", thoughtSignature="S"), END, parts=["a", ""]),
    "a signed thought": case(
        word("t", thought=True, thoughtSignature="S"), word("u", thought=True), END, parts=[("t",), ("u",)]
    ),
    "a sibling": case(word("a", partMetadata={"x": 1}), word("b"), END, parts=["a", "b"]),
    "no thought": case(word("a", thought=False), word("b", thought=False), END, parts=["ab"]),
    "empty texts": case(word(""), STOP, parts=[""]),
    "the end after the call": asks(chunk(CALL), STOP, parts=[LOOK]),
    "a call after the end": asks(STOP, chunk(call(**F)), parts=[("c", "f", {})]),
    "no arguments": asks(chunk(call(**F), call(args=None, **F)), END, parts=[("c", "f", {})] * 2),
    "odd arguments": asks(
        chunk(call(args=[1], **F), call(args="x", **F)), END, parts=[("c", "f", "[1]"), ("c", "f", "x")]
    ),
    "arguments as text": asks(chunk(call(args='{"a": 1}', **F)), END, parts=[("c", "f", {"a": 1})]),
    "a worse end": case(chunk(finishReason="MALFORMED_FUNCTION_CALL"), END, finish="malformed_tool_call"),
    "a worse end comes late": case(END, chunk(finishReason="MAX_TOKENS"), finish="length"),
    "null for an end": case(chunk(finishReason=None), finish="incomplete", whole=False),
    "an end in numbers": case(chunk(finishReason=2), finish="length"),
    "snake_case": asks({"candidates": [SNAKE], "usage_metadata": COUNTS}, parts=[("c", "f", {})]),
    "a blocked prompt": case({"promptFeedback": {"blockReason": "SAFETY"}}, finish="content_filter"),
    "no content": case({"candidates": [{"finishReason": "SAFETY"}]}, finish="content_filter"),
    "no candidates": case(BESIDE, finish="incomplete", whole=False),
    "null for everything": case({"candidates": None, "usageMetadata": None}, END, finish="stop"),
    "other parts": case(chunk(*PARTS), END, parts=["ServerToolCall", "Image", {"x": 1}]),
    "a list of chunks": case([word("a"), END], parts=["a"]),
    "nobody ended it": case(word("a"), parts=["a"], finish="incomplete", whole=False),
    "an error": case(word("a"), BUSY, parts=["a"], finish="error", whole=False),
    "an error in a list": case(word("a"), [BUSY], parts=["a"], finish="error", whole=False),
    "an error at the end": case(END | BUSY, finish="error", whole=False),
    "pieces, closed by none": asks(
        piece(**F), piece(ONE), piece(), piece(more=False), END, parts=[("c", "f", {"a": 1})]
    ),
    "pieces, closed by the last": asks(
        piece(**F),
        piece(at("$.a[0].b", boolValue=True), more=False),
        STOP,
        parts=[("c", "f", {"a": [{"b": True}]})],
    ),
    "pieces of a text": asks(
        piece(at("$.a", more=True, stringValue="x"), **F),
        piece(at("$.a", stringValue="y"), at("$.b", nullValue=None), more=False),
        END,
        parts=[("c", "f", {"a": "xy", "b": None})],
    ),
    "pieces of two calls": asks(
        *(piece(**F), piece(more=False), piece(name="g", id="d")),
        chunk(call(), finishReason="STOP"),
        parts=[("c", "f", {}), ("d", "g", {})],
    ),
    "pieces, and another name": asks(piece(**F), chunk(CALL), END, parts=[("c", "f", "{"), LOOK]),
    "pieces, each with the name": asks(piece(**F), piece(ONE, more=False, **F), END, parts=[("c", "f", {"a": 1})]),
    "pieces in snake_case": asks(
        chunk({"function_call": {**F, "will_continue": True}}),
        chunk({"function_call": {"partial_args": [{"json_path": "$.a", "string_value": "x"}]}}),
        END,
        parts=[("c", "f", {"a": "x"})],
    ),
    "pieces, not closed": case(piece(ONE, **F), END, parts=[("c", "f", '{"a":1')]),
    "pieces, a text goes on": case(
        piece(at("$.a", more=True, stringValue="x"), more=False, **F), END, parts=[("c", "f", '{"a":"x"')]
    ),
    "pieces of one place": case(piece(ONE, TWO, more=False, **F), END, parts=[("c", "f", '{"a":1')]),
    "pieces at an odd place": case(piece(at("$..a", numberValue=1), more=False, **F), END, parts=[("c", "f", "{")]),
    "pieces of an odd kind": case(piece(at("$.a", x={}), more=False, **F), END, parts=[("c", "f", "{")]),
    "pieces of no call": case(piece(ONE), END, parts=[call(True, partialArgs=[ONE])]),
}


@pytest.mark.parametrize("name", READ)
def test_what_a_stream_tells(name: str) -> None:
    frames, parts, finish, whole = READ[name]
    events = read(*frames)
    response = accumulate(events)
    assert [shown(part) for part in response.parts] == parts
    assert (response.finish_reason, events[-1]) == (finish, MessageEnd(complete=whole))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", READ)
def test_events_do_not_depend_on_the_bytes(name: str, step: int) -> None:
    frames = READ[name][0]
    data, whole = sse(*frames, end="\r\n\r\n"), read(*frames)
    assert decode("gemini", data, range(len(data))) == whole
    if all(type(frame) is dict for frame in frames):
        assert decode("gemini", msgspec.json.encode(frames)) == whole
    for cut in range(0, len(data), step):
        told = accumulate(decode("gemini", data[:cut])).tool_calls
        assert told == accumulate(whole).tool_calls[: len(told)]


@pytest.mark.parametrize("name", READ)
def test_a_stream_is_written_again(name: str) -> None:
    events = read(*READ[name][0])
    data, lost = encode(*events)
    assert (accumulate(decode("gemini", data)), lost) == (accumulate(events), [])


def test_its_own_chunks_come_back() -> None:
    frames: list[Body] = [
        word("t", thought=True) | {"usageMetadata": {"promptTokenCount": 3}},
        word("a") | {"usageMetadata": COUNTS},
        chunk({"text": "b"}, safetyRatings=[{"category": 8}]),
        piece(**F),
        piece(ONE, more=False),
        chunk({**CALL, "thoughtSignature": "S"}),
        word("", thoughtSignature="S"),
        chunk(finishReason="STOP", groundingMetadata={"q": 1}) | {"usageMetadata": COUNTS},
    ]
    frames = [frame | {"createTime": "now"} for frame in frames]
    data, lost = encode(*read(*frames))
    del frames[-1]["candidates"][0]["content"]["parts"]
    assert (differences(frames, bodies_of(data)), lost) == ([], [])


def test_events_come_in_order_and_tell_only_news() -> None:
    events = read(word("a") | {"usageMetadata": COUNTS}, word("b"), word("c") | {"x": 1}, STOP)
    kinds = [MessageStart, UsageDelta, OpaqueDelta, PartStart, TextDelta, TextDelta, MessageDelta]
    assert [type(event) for event in events] == [*kinds, TextDelta, PartEnd, ChoiceEnd, MessageEnd]
    assert events[2].opaque == Opaque("gemini", {"index": 0, "content": {"role": "model"}})


def test_counts_replace_each_other_and_parts_of_them_are_added() -> None:
    late = (
        {"usageMetadata": {"trafficType": "X"}},
        {"usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}},
    )
    told = [accumulate(read(STOP, *late[:place])).usage for place in range(3)]
    assert [usage and (usage.input_tokens, usage.output_tokens) for usage in told] == [
        (3, 4),
        (3, 4),
        (9, None),
    ]
    assert told[1] is not None
    assert told[1].opaque == Opaque("gemini", {**COUNTS, "trafficType": "X"})


def test_candidates_are_told_apart_by_their_index() -> None:
    def both(index: int, text: str, **beside: Any) -> Body:
        return {"content": {"parts": [{"text": text}]}, "index": index, **beside}

    first, second = [both(1, "a"), both(0, "x")], [both(0, "y", finishReason="STOP"), both(1, "b")]
    events = read({"candidates": first}, {"candidates": second})
    told = accumulate(events)
    assert [choice.message.text for choice in told.choices] == ["xy", "ab"]
    assert [choice.finish_reason for choice in told.choices] == ["stop", "incomplete"]
    assert accumulate(decode("gemini", encode(*events)[0])) == told


@pytest.mark.parametrize("beside", [{"responseId": "r"}, {"response_id": "r"}, {}])
def test_made_ids_are_those_of_the_response(beside: Body) -> None:
    body = {"candidates": [{"content": {"parts": [CALL, CALL]}, "finishReason": "STOP"}], **beside}
    assert accumulate(read(body)) == gemini.decode_response(body)


TWICE = sse(chunk(call(args={"a": 1}, **F)), END).replace(b'{"a":1}', b'{"a":1,"a":1}')
BROKEN = sse(chunk(call(args={"a": "?"}, **F)), END).replace(b"?", b"\xff")
PIECE = sse(piece(at("$.a", stringValue="?"), **F), piece(more=False), END).replace(b"?", b"\xff")


@pytest.mark.parametrize(("data", "error"), [(TWICE, "twice"), (BROKEN, "UTF-8"), (PIECE, "UTF-8")])
def test_a_call_whose_arguments_are_not_sure_is_refused(data: bytes, error: str) -> None:
    events = decode("gemini", data)
    [part] = accumulate(events).parts
    assert isinstance(part, ToolCall)
    assert (part.runs, part.arguments, error in str(part.error)) == (False, {}, True)
    assert accumulate(decode("gemini", encode(*events)[0])).tool_calls == []


def merged(chunks: list[Body]) -> Body:
    """Put chunks together as the rules of the decoder say; calls in pieces are left to other tests."""
    body: Body = {}
    candidates: dict[int, Body] = {}
    for given in chunks:
        for key, value in given.items():
            if key == "usageMetadata" and "totalTokenCount" not in value:
                body[key] = body.get(key, {}) | value
            elif key != "candidates":
                body[key] = value
        for entry in given.get("candidates", []):
            known = candidates.setdefault(entry.get("index", 0), {})
            content = entry.get("content", {})
            parts = known.get("content", {}).get("parts", [])
            known |= entry
            known["content"] = {**content, "parts": parts + content.get("parts", [])}
    for entry in candidates.values():
        entry["content"]["parts"] = joined(entry["content"]["parts"])
    return {"candidates": list(candidates.values()), **body}


def joined(parts: list[Body]) -> list[Body]:
    made: list[Body] = []
    for part in parts:
        alike = made and part.keys() == made[-1].keys() <= {"text", "thought"}
        if part.get("text") == "" and part.keys() <= {"text", "thought"}:
            continue
        if alike and part.get("thought") == made[-1].get("thought"):
            made[-1] = {**part, "text": made[-1]["text"] + part["text"]}
        else:
            made.append(part)
    return made or [{"text": ""}]


def cites(start: int, end: int, text: str) -> Body:
    support = {"segment": {"startIndex": start, "endIndex": end, "text": text}, "groundingChunkIndices": [0]}
    chunks = [{"web": {"uri": "https://a.example", "title": "A"}}]
    return {"groundingMetadata": {"groundingChunks": chunks, "groundingSupports": [support]}}


SO_IT_IS = Citation("https://a.example", "A", None, 4, 6)
GROUNDED: dict[str, tuple[list[Body], list[list[Citation] | None]]] = {
    "in the last chunk": ([word("sö, "), word("it"), chunk({"text": ""}, **cites(5, 7, "it"))], [[SO_IT_IS]]),
    "beside the words": (
        [word("sö, "), chunk({"text": "it"}, groundingMetadata={}), chunk({"text": " is"}, **cites(5, 7, "it"))],
        [[SO_IT_IS]],
    ),
    "beside a signature": (
        [word("sö, it"), chunk({"text": "", "thoughtSignature": "S"}, **cites(5, 7, "it"))],
        [[SO_IT_IS], None],
    ),
    "after signed words": (
        [word("sign", thoughtSignature="S"), word("sö, it", thoughtSignature="S"), chunk(**cites(9, 11, "it"))],
        [None, [SO_IT_IS]],
    ),
    "after other words": (
        [
            word("t", thought=True),
            word("sö"),
            word("sign", thoughtSignature="S"),
            word("sö, it"),
            chunk(**cites(12, 14, "it")),
        ],
        [None, None, None, [SO_IT_IS]],
    ),
    "of words that are over": ([word("it"), chunk(CALL), chunk(**cites(0, 2, "it"))], [None, None]),
}


@pytest.mark.parametrize("name", GROUNDED)
def test_what_a_stream_is_grounded_on_is_cited_before_the_end_of_its_words(name: str) -> None:
    frames, cited = GROUNDED[name]
    events = read(*frames, END)
    response = accumulate(events)
    read_back = [getattr(part, "citations", None) for part in response.parts]
    assert [notes and [replace(note, opaque=None) for note in notes] for notes in read_back] == cited
    told = [replace(event.citation, opaque=None) for event in events if type(event) is CitationDelta]
    assert told == [note for notes in cited for note in notes or ()]
    data, lost = encode(*events)
    assert (accumulate(decode("gemini", data)), lost) == (response, [])


def test_words_that_a_stream_reads_ahead_are_counted() -> None:
    frames = [sse(frame) for frame in (*[word(letter) for letter in "sö, it is"], chunk(**cites(5, 7, "it")), END)]
    written = translate.stream("gemini", "openai-chat")
    data = b"".join(map(written.feed, frames)) + written.close()
    notes = [
        body["choices"][0]["delta"].get("annotations") for body in bodies_of(data.removesuffix(b"data: [DONE]\n\n"))
    ]
    [[note]] = filter(None, notes)
    assert note["url_citation"] == {"url": "https://a.example", "title": "A", "start_index": 4, "end_index": 6}


@pytest.mark.parametrize("target", [name for name in NAMES if name != "gemini"])
def test_the_signature_of_an_empty_text_is_told_as_lost(target: str) -> None:
    written = translate.stream("gemini", target)
    written.feed(b"".join(map(sse, [word("it"), chunk({"text": "", "thoughtSignature": "S"}), END])))
    written.close()
    told = [loss.path for loss in written.losses if loss.concept == "opaque"]
    assert told == ["choices[0].message.content[1].opaque.thoughtSignature"]


@pytest.mark.corpus
def test_recorded_streams_tell_what_a_response_of_them_tells() -> None:
    for recording in of_dialect("gemini"):
        data = (recording.response_text or "").encode()
        if data and b"willContinue" not in data:
            told = gemini.decode_response(merged(bodies_of(data)))
            again = accumulate(decode("gemini", data))
            assert differences(msgspec.to_builtins(told), msgspec.to_builtins(again)) == [], recording.name
