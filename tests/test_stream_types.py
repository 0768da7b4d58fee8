"""Any field of any frame may be of any type: a reader tells something of it, a writer writes it, nothing raises."""

import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.stream_cases import all_cases, decode, encode
from tests.test_stream_fuzz import frames
from tests.wires import DIALECTS, SHARES
from toolwire import OpaqueDelta, accumulate
from toolwire.dialects import NAMES

VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**30, 1e300, 1.5, "x", "", [], {}, ["x"], {"a": 1}, [[{}]], {"type": []}),
    *("1", {"type": {}, "text": []}),
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the place of each value in a body."""
    if path:
        yield path
    pairs = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for key, inner in pairs:
        yield from paths(inner, (*path, key))


def put(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Give the body with another value in a place."""
    body = deepcopy(body)
    here = body
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return body


def split(frame: bytes) -> tuple[bytes, Any, bytes] | None:
    """Give what stands around the JSON of a frame, and its value."""
    begin, end = frame.find(b"{"), frame.rfind(b"}") + 1
    try:
        return frame[:begin], json.loads(frame[begin:end]), frame[end:]
    except ValueError:
        return None


def kinds(name: str) -> Iterator[tuple[list[bytes], int]]:
    """Give streams and a place in them: each kind of frame once, told apart by the fields that it has."""
    seen = set()
    for case in all_cases(name):
        parts = frames(case.data) if len(case.data) < 20_000 else []
        for place, frame in enumerate(parts):
            pieces = split(frame)
            if pieces is None or type(pieces[1]) is not dict:
                continue
            body = pieces[1]
            shape = (body.get("type"), *[path for path in paths(body) if len(path) < 5])
            if str(shape) not in seen:
                seen.add(str(shape))
                yield parts, place


def places(name: str) -> Iterator[tuple[tuple[Any, ...], Callable[..., bytes]]]:
    """Give each kind of field of a stream once: its path, and what writes the stream with another value in it.

    The frame with that value comes as often as is said.
    """
    seen = set()
    for parts, place in kinds(name):
        head, body, tail = split(parts[place])  # type: ignore[misc]
        for path in paths(body):
            shape = (body.get("type"), *("#" if type(key) is int else key for key in path))
            if shape not in seen:
                seen.add(shape)
                yield path, functools.partial(_with, parts, place, (head, body, tail), path)


def _with(parts: list[bytes], place: int, frame: Any, path: tuple[Any, ...], value: Any, times: int = 1) -> bytes:
    head, body, tail = frame
    made = head + json.dumps(put(body, path, value)).encode() + tail
    return b"".join([*parts[:place], *([made] * times), *parts[place + 1 :]])


def retyped(name: str, step: int) -> Iterator[bytes]:
    """Give streams in which a field of a frame that comes twice has another type: each kind of it, one in so many."""
    for count, (_, written) in enumerate(places(name), 1):
        for number, value in enumerate(VALUES, count):
            if number % step == 0:
                yield written(value, times=2)


@pytest.mark.parametrize("step", [pytest.param(701, id="few"), pytest.param(1, id="many", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("F19")
def test_a_field_of_another_type_raises_nothing(name: str, step: int, tally: Counter[str]) -> None:
    for data in retyped(name, step):
        events = decode(name, data)
        response = accumulate(events)
        decoder = DIALECTS[name].decode_stream()
        by_frame = [event for frame in frames(data) for event in decoder.feed(frame)] + decoder.close()
        assert by_frame == events, data
        for target in NAMES:
            DIALECTS[target].encode_response(response)
            decode(target, encode(target, events)[0])
        tally["streams with a field of another type"] += 1


MARK = "a value of another type"
# What is read, and not told where it is of another type: where things belong, what they are called, and what a
# later frame says anew. Responses says everything twice, and what says it again counts.
READ_ALONE = {
    "openai-chat": {"index", "object", "role", "id", "name", "obfuscation", "native_finish_reason", "sla_metrics"},
    "anthropic": {"index", "type", "input", "stop_reason", "stop_sequence"},
    "gemini": set(),
    "ollama": {"done"},
}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", READ_ALONE)
def test_a_value_of_another_type_is_told(name: str, share: int, tally: Counter[str]) -> None:
    for path, written in itertools.islice(places(name), None, None, share):
        for value in (MARK, {"odd": MARK}, [MARK], {"type": "text", "text": MARK}):
            if READ_ALONE[name].isdisjoint(path):
                events = decode(name, written(value))
                data, losses = encode(name, events)
                broken = accumulate(events).broken_calls
                assert MARK in repr(events) or MARK in data.decode() or losses or broken, (path, value)
                tally["values of another type told"] += 1


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", NAMES)
def test_what_an_event_says_beside_what_it_carries_is_told(name: str, share: int, tally: Counter[str]) -> None:
    """Bedrock says in the last event how long it took."""
    for parts, place in itertools.islice(kinds(name), None, None, share):
        head, body, tail = split(parts[place])  # type: ignore[misc]
        if "error" in body or body.get("type") in ("error", "response.failed"):
            continue  # an error is no answer, and has a test of its own
        beside = head + json.dumps({**body, "amazon-bedrock-invocationMetrics": {"latency": MARK}}).encode() + tail
        events = decode(name, b"".join([*parts[:place], beside, *parts[place + 1 :]]))
        before = decode(name, b"".join(parts))
        # What is said of a part that only this wire understands is lost with the part.
        of_a_part = any(type(one) is OpaqueDelta and one.key is not None and MARK in repr(one) for one in events)
        for target in NAMES:
            data, losses = encode(target, events)
            lost = of_a_part and target != name
            assert lost or MARK in data.decode() or losses != encode(target, before)[1], (target, body)
        assert accumulate(events).content == accumulate(before).content
        tally["events that say something beside"] += 1
