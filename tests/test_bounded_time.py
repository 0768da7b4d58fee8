"""Twice the size takes less than three times the time: every shape of a body, on every pair of wires.

Processor time is measured, so that others on the machine disturb little. A measurement that fails is taken again some
times before it counts: what else the machine does only adds to it.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.amounts import FULL
from tests.sized_bodies import BODIES, SPELLINGS, body_of
from tests.sized_streams import STREAMS, frames_of
from tests.timing import LARGEST, MOST, START, Prepare, Work, growth, seconds
from toolwire.dialects import NAMES, dialect
from toolwire.encoding import repair
from toolwire.gateway.passthrough import PassedStream
from toolwire.gateway.prefix_cache import OwnerCache, PrefixCache
from toolwire.streams.accumulation import accumulate
from toolwire.translation import translate
from toolwire.translation.exchange import Exchange, exchange
from toolwire.types import Choice, Encoded, Message, Response, Text, Thinking, ToolCall, ToolResult, Usage

# All of it takes ten minutes: `make torture`. Other runs of the slow tests take every so many.
EACH = 1 if FULL else 12
# What grows in depth has a limit, and so has what references are written out to.
STARTS = {
    **dict.fromkeys(
        ("schema of objects", "schema of lists", "schema of choices", "schema of all", "schema of one"), 40
    ),
    "deep arguments": 60,
    **dict.fromkeys(("all of many", "references", "references to one", "nested references"), 800),
    "chain of references": 1000,
}
LIMITS = {
    **dict.fromkeys(STARTS, 1),
    "all of many": 800,
    **dict.fromkeys(("references", "references to one"), 2500),
    "chain of references": 16_000,
    "nested references": 800,
}


def check(measured: Iterator[tuple[str, tuple[float, str]]]) -> None:
    """Fail with each measurement that grew too much."""
    assert not (slow := [f"{name}: {told}" for name, (times, told) in measured if times >= MOST]), "\n".join(slow)


def asked(source: str, target: str, shape: str) -> Prepare:
    """Translate a request, as a gateway does."""

    def prepare(size: int) -> Work:
        body = body_of(source, shape, size)
        return lambda: exchanged(body, source, target).encoded

    return prepare


def exchanged(
    body: bytes, source: str, target: str, cache: OwnerCache | None = None, *, stream: bool = False
) -> Exchange:
    path = SPELLINGS[source].path
    path = path.replace("generateContent", "streamGenerateContent") if stream else path
    return exchange(body, source=source, target=target, path=path, translation_cache=cache)


def asked_again(source: str, target: str, shape: str) -> Prepare:
    """Translate a request several times, with what was translated before at hand."""

    def prepare(size: int) -> Work:
        body = body_of(source, shape, size)

        def work() -> None:
            cache = PrefixCache(1 << 25).of("")
            for _ in range(3):
                exchanged(body, source, target, cache).encoded  # noqa: B018

        return work

    return prepare


NEXT = dict(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))
SOURCES = {shape: NAMES[place % len(NAMES)] for place, shape in enumerate(BODIES)}
# These are multiplied on their way to some wires, up to a limit of their own.
MULTIPLIED = frozenset({"references twice"})
SHAPES = [shape for shape in BODIES if shape not in MULTIPLIED]
# The fast suite takes the shapes of which a reader or a writer is most likely to look at what came before.
SOME_SHAPES = (
    *("messages", "assistant in a row", "turns of one id", "parallel", "parallel of one id", "parallel without ids"),
    *("calls without results", "results without calls", "results of names", "results in reverse", "tools that collide"),
    *("schema of objects", "all of many", "wide arguments"),
)
SOME_STREAMS = (
    *(("openai-chat", shape) for shape in ("calls without text", "calls of no name", "open calls of no index")),
    *(("openai-chat", shape) for shape in ("interleaved calls", "choices with calls")),
    *(("openai-responses", shape) for shape in ("calls of broken text", "messages of no id", "text of no call")),
    *(("anthropic", shape) for shape in ("calls without text", "text of no call", "stray text")),
    *(("gemini", "choices"), ("ollama", "calls")),
)


@pytest.mark.parametrize("shape", SOME_SHAPES)
def test_a_request_of_twice_the_size(shape: str) -> None:
    source, start, limit = SOURCES[shape], STARTS.get(shape, START), LIMITS.get(shape, LARGEST)
    check(iter([(source, growth(asked(source, NEXT[source], shape), start, limit))]))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("shape", "source"), [(shape, source) for shape in SHAPES for source in NAMES][::EACH])
def test_a_request_of_twice_the_size_on_each_pair(shape: str, source: str) -> None:
    start, limit = STARTS.get(shape, START), LIMITS.get(shape, LARGEST)
    check((target, growth(asked(source, target, shape), start, limit)) for target in NAMES)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shape", SHAPES[::EACH])
def test_a_request_of_twice_the_size_that_came_before(shape: str) -> None:
    source, start, limit = SOURCES[shape], STARTS.get(shape, START), LIMITS.get(shape, LARGEST)
    check(iter([(source, growth(asked_again(source, NEXT[source], shape), start, limit))]))


def read_and_written(source: str, target: str, shape: str) -> Prepare:
    """Read the stream of a model's wire, and write it for a client of another one."""

    def prepare(size: int) -> Work:
        frames = frames_of(source, shape, size)
        body = json.dumps({**json.loads(body_of(target, "one text", 1)), "stream": True}).encode()

        def work() -> None:
            stream = exchanged(body, target, source, stream=True).stream()
            for frame in frames:
                stream.feed(frame)
            stream.close()
            assert stream.parts is not None
            assert stream.losses is not None

        return work

    return prepare


def handed_on(source: str, shape: str) -> Prepare:
    """Read the stream of a model on the side, as a gateway does for a client of the same wire."""

    def prepare(size: int) -> Work:
        frames = frames_of(source, shape, size)

        def work() -> None:
            stream = PassedStream(dialect(source), array=False)
            for frame in frames:
                stream.feed(frame)
            stream.close()
            decoder = dialect(source).decode_stream()
            accumulate([*decoder.feed(b"".join(frames)), *decoder.close()])

        return work

    return prepare


ALL_STREAMS = [(source, shape) for source, shapes in STREAMS.items() for shape in shapes]


@pytest.mark.parametrize(("source", "shape"), SOME_STREAMS)
def test_a_stream_of_twice_the_size(source: str, shape: str) -> None:
    check(iter([(source, growth(read_and_written(source, NEXT[source], shape), 500))]))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("source", "shape"), ALL_STREAMS[::EACH])
def test_a_stream_of_twice_the_size_on_each_pair(source: str, shape: str) -> None:
    measured = {target: read_and_written(source, target, shape) for target in NAMES} | {"": handed_on(source, shape)}
    check((target, growth(prepare, START)) for target, prepare in measured.items())


def _calls(size: int) -> list[Any]:
    return [ToolCall(f"call_{number}", "f", {"n": number}, number) for number in range(size)]


ANSWERS: dict[str, Callable[[int], list[list[Any]]]] = {
    "texts": lambda size: [[Text(f"Line {number}.") for number in range(size)]],
    "thoughts": lambda size: [[part for n in range(size) for part in (Thinking(f"Hm {n}.", "c2ln"), Text("So."))]],
    "calls": lambda size: [_calls(size)],
    "calls of one id": lambda size: [[ToolCall("call_0", "f", {"n": number}, number) for number in range(size)]],
    "calls of odd ids": lambda size: [[ToolCall(f"a/{n}|b", "srv/f", {}, n) for n in range(size)]],
    "results": lambda size: [[ToolResult(f"call_{number}", "f", "done") for number in range(size)]],
    "one text": lambda size: [[Text("A line.\n" * size * 20)]],
    "choices": lambda size: [[Text(f"Line {number}.")] for number in range(size)],
    "choices with calls": lambda size: [_calls(1) for _ in range(size)],
}


def answered(source: str, target: str, shape: str) -> Prepare:
    """Translate a whole answer of one wire for a client of another one."""

    def prepare(size: int) -> Work:
        choices = [Choice(Message("assistant", parts), "stop") for parts in ANSWERS[shape](size)]
        body = dialect(source).encode_response(Response(choices=choices, model="m", id="r", usage=Usage(1, 2))).json
        request = body_of(target, "one text", 1)
        return lambda: exchanged(request, target, source).response(body)

    return prepare


@pytest.mark.parametrize("shape", ["calls of one id", "choices with calls"])
def test_an_answer_of_twice_the_size(shape: str) -> None:
    check(iter([("openai-chat", growth(answered("openai-chat", "anthropic", shape)))]))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("shape", "source"), [(shape, source) for shape in ANSWERS for source in NAMES][::EACH])
def test_an_answer_of_twice_the_size_on_each_pair(shape: str, source: str) -> None:
    check((target, growth(answered(source, target, shape), START)) for target in NAMES)


def test_what_references_are_written_out_to_is_bounded() -> None:
    body = json.loads(body_of("openai-chat", "references twice", 40))
    [tool] = body["tools"]
    body["tools"] = [{**tool, "function": {**tool["function"], "name": f"f{number}"}} for number in range(100)]
    encoded: list[Encoded] = []
    spent = seconds(lambda: encoded.append(translate.request(body, "openai-chat", "ollama")))
    assert spent < 2.0, "as long as one such tool may take, and not a hundred times that"
    assert [loss.concept for loss in encoded[0].losses] == ["schema_unfit"] * 100


def test_alternatives_that_refer_to_each_other_are_compared_for_a_while() -> None:
    names = [f"p{number}" for number in range(60)]
    defs = {
        kind: {"type": "object", "properties": {name: {"$ref": f"#/$defs/{kind}"} for name in names}, "required": names}
        for kind in "AB"
    }
    choice = {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}
    schema = {"type": "object", "properties": {"x": choice}, "$defs": defs}
    function = {"name": "f", "description": "d", "parameters": schema, "strict": True}
    body = {"model": "m", "messages": [], "tools": [{"type": "function", "function": function}]}
    for target in ("gemini", "anthropic"):
        assert seconds(partial(translate.request, body, "openai-chat", target)) < 2.0


def _planted(size: int) -> Work:
    """Look for each of many values in a list."""
    values = list(range(size))

    def work() -> None:
        left = values[:]
        while left:
            assert left[-1] not in left[:-1]
            left = left[:-1]

    return work


def test_what_grows_too_much_is_found() -> None:
    times, _ = growth(_planted, 1500, 1500)
    assert times >= MOST


def _is_legal_slowly(messages: Any) -> bool:
    waiting: list[Any] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall) and part.id not in waiting:
                waiting.append(part.id)
            elif isinstance(part, ToolResult):
                waiting.remove(part.tool_call_id)
    return not waiting


def test_a_slow_place_of_the_library_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "is_legal", _is_legal_slowly)
    times, _ = growth(asked("anthropic", "openai-chat", "parallel"), 12_000, 12_000)
    assert times >= MOST
