"""Of several answers the one with the index 0 is the answer, wherever it stands and whenever it comes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.wires import DIALECTS, differences
from toolwire import Response, accumulate, translate
from toolwire.dialects import NAMES

ABSENT = object()
Body = dict[str, Any]
# The indexes of answers as they stand, and which of them is the answer.
ORDERS: dict[str, tuple[list[Any], int]] = {
    "in order": ([0, 1], 0),
    "out of order": ([1, 0], 1),
    "three": ([2, 1, 0], 2),
    "the first of three between": ([2, 0, 1], 1),
    "without an index, first": ([ABSENT, 1], 0),
    "without an index, last": ([1, ABSENT], 1),
    "without any index": ([ABSENT, ABSENT], 0),
    "null": ([1, None], 1),
    "as text": (["1", "0"], 1),
    "no number": ([1, "x"], 1),
    "beside one below zero": ([-1, 0], 1),
    "beside a huge one": ([10**20, 0], 1),
    "only another one": ([1], 0),
    "only others": ([3, 1], 1),
    "only one below zero": ([-1], 0),
}


def with_index(index: Any, **body: Any) -> Body:
    return body if index is ABSENT else {"index": index, **body}


def arguments(place: int) -> Body:
    return {"place": place}


def chat(index: Any, place: int) -> Body:
    call = {
        "id": f"c{place}",
        "type": "function",
        "function": {"name": "look", "arguments": json.dumps(arguments(place))},
    }
    message = {"role": "assistant", "content": f"Text {place}.", "tool_calls": [call]}
    return with_index(index, message=message, finish_reason="tool_calls")


def gemini(index: Any, place: int) -> Body:
    parts = [{"text": f"Text {place}."}, {"functionCall": {"name": "look", "args": arguments(place)}}]
    return with_index(index, content={"role": "model", "parts": parts}, finishReason="STOP")


def sse(bodies: list[Body]) -> bytes:
    return b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)


def chat_stream(indexes: list[Any], *, together: bool) -> bytes:
    """Tell answers as Chat Completions does; a chunk may speak of several answers, or of one."""
    steps: list[list[Body]] = [[], [], []]
    for place, index in enumerate(indexes):
        entry = {"index": 0, **chat(index, place)["message"]["tool_calls"][0]}
        deltas: list[Body] = [{"role": "assistant", "content": f"Text {place}."}, {"tool_calls": [entry]}, {}]
        for step, delta in zip(steps, deltas, strict=True):
            ended = "tool_calls" if delta == {} else None
            step.append(with_index(index, delta=delta, finish_reason=ended))
    chunks = steps if together else [[entry] for step in steps for entry in step]
    return sse([{"id": "r", "model": "m", "choices": entries} for entries in chunks]) + b"data: [DONE]\n\n"


def gemini_stream(indexes: list[Any], *, together: bool) -> bytes:
    """Tell answers as generateContent does."""
    whole = [gemini(index, place) for place, index in enumerate(indexes)]
    steps: list[list[Body]] = [[], []]
    for entry in whole:
        first, second = ({**entry["content"], "parts": [part]} for part in entry["content"]["parts"])
        steps[0].append({key: value for key, value in {**entry, "content": first}.items() if key != "finishReason"})
        steps[1].append({**entry, "content": second})
    chunks = steps if together else [[entry] for step in steps for entry in step]
    return sse([{"responseId": "r", "candidates": entries} for entries in chunks])


PLAIN: dict[str, Callable[[list[Any]], Body]] = {
    "openai-chat": lambda indexes: {"id": "r", "choices": [chat(index, place) for place, index in enumerate(indexes)]},
    "gemini": lambda indexes: {"candidates": [gemini(index, place) for place, index in enumerate(indexes)]},
}
STREAMS: dict[str, Callable[..., bytes]] = {"openai-chat": chat_stream, "gemini": gemini_stream}
SHOWN = pytest.mark.parametrize("order", ORDERS)
SOURCES = pytest.mark.parametrize("source", PLAIN)


def answers(response: Response) -> tuple[str, list[Body]]:
    return response.message.text, [call.arguments for call in response.tool_calls]


@SOURCES
@SHOWN
def test_a_whole_answer_is_the_one_with_the_index_0(source: str, order: str) -> None:
    indexes, place = ORDERS[order]
    body = PLAIN[source](indexes)
    response = DIALECTS[source].decode_response(body)
    assert answers(response) == (f"Text {place}.", [arguments(place)])
    assert differences(body, DIALECTS[source].encode_response(response).body) == []
    for target in NAMES:
        encoded = translate.response(body, source, target)
        assert answers(DIALECTS[target].decode_response(encoded.body)) == (f"Text {place}.", [arguments(place)]), target


@SOURCES
@SHOWN
@pytest.mark.parametrize("together", [False, True])
def test_a_streamed_answer_is_the_one_with_the_index_0(source: str, order: str, together: bool) -> None:
    indexes, place = ORDERS[order]
    together = together or order == "without any index"  # in chunks of their own nothing tells these apart
    data = STREAMS[source](indexes, together=together)
    decoder = DIALECTS[source].decode_stream()
    assert answers(accumulate([*decoder.feed(data), *decoder.close()])) == (f"Text {place}.", [arguments(place)])
    for target in NAMES:
        stream, reader = translate.stream(source, target), DIALECTS[target].decode_stream()
        told = stream.feed(data) + stream.close()
        response = accumulate([*reader.feed(told), *reader.close()])
        assert answers(response) == (f"Text {place}.", [arguments(place)]), target
        assert response.finish_reason == "tool_calls", target


@SOURCES
def test_other_answers_are_lost_by_name(source: str) -> None:
    for indexes, lost in (([1, 0], [1]), ([0, 1], [1]), ([3, 1], [3]), ([1], [])):
        stream = translate.stream(source, "anthropic")
        stream.feed(STREAMS[source](indexes, together=False))
        stream.close()
        assert [loss.path for loss in stream.losses if loss.concept == "choices"] == [f"choices[{one}]" for one in lost]
