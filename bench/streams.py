"""Measure what translating a running stream costs, and what it keeps in memory.

The floor is msgspec reading and writing the JSON of every frame, one by one. A contestant gets the frames of
a stream that was never seen before, one by one, as a client reads them, and gives bytes to send. Peers that
read no bytes themselves get their frames cut by ours.
"""

import functools
import gc
import itertools
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from toolwire import translate
from toolwire.dialects import NAMES
from toolwire.wire.framing import EventStream, JsonLines, write_event

CHUNKS = 500
ROUNDS = 25
TARGET = 4.0
MEGABYTE = 1 << 20
ARGUMENTS = '{"city":"Tokyo","country":"Japan","days":[1,2,3,4,5,6,7],"unit":"celsius","detail":"every hour"}'
Work = Callable[[list[bytes]], Any]
_numbers = itertools.count(1)


def chunks_of_chat(words: int = 300) -> Iterator[dict[str, Any]]:
    """Give the chunks of one answer: words, 50 of reasoning, three calls in pieces, counts."""
    number = next(_numbers)
    base = {
        "id": f"chatcmpl-{number:024d}",
        "object": "chat.completion.chunk",
        "created": 1760000000 + number,
        "model": "gpt-6-mini-2026-08-07",
        "service_tier": "default",
        "system_fingerprint": "fp_9f3b",
    }

    def chunk(delta: dict[str, Any], word: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": word}
        return {**base, "choices": [choice]}

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for place in range(50):
        yield chunk({"reasoning_content": f" thought{number + place}"})
    for place in range(words):
        yield chunk({"content": f" word{number + place}"})
    for call in range(3):
        inner = {"name": "get_weather", "arguments": ""}
        entry = {"index": call, "id": f"call_{number}_{call}", "type": "function", "function": inner}
        yield chunk({"tool_calls": [entry]})
        for piece in _pieces(ARGUMENTS, 2):
            yield chunk({"tool_calls": [{"index": call, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls")
    counts = {"prompt_tokens": 82, "completion_tokens": 412, "total_tokens": 494}
    yield {**base, "choices": [], "usage": counts}


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[place : place + size] for place in range(0, len(text), size))


def frames_of(source: str) -> list[bytes]:
    """Give a new stream of 500 frames, as a server of this dialect sends it: words fill it up."""
    words = 300 + CHUNKS - _count(source) if source != "openai-chat" else 300
    return _frames(source, words)


@functools.cache
def _count(source: str) -> int:
    return len(_frames(source, 300))


def _frames(source: str, words: int) -> list[bytes]:
    chat = [write_event(msgspec.json.encode(chunk)) for chunk in chunks_of_chat(words)]
    chat.append(write_event(b"[DONE]"))
    if source == "openai-chat":
        return chat
    stream = translate.stream("openai-chat", source)
    data = b"".join(map(stream.feed, chat)) + stream.close()
    end = b"\n" if source == "ollama" else b"\n\n"
    return [frame + end for frame in data.split(end) if frame]


def data_of(frames: list[bytes]) -> list[bytes]:
    """Give the JSON of each frame."""
    reader = JsonLines() if frames[0].startswith(b"{") else EventStream()
    reader.feed(b"\n")
    return [data for frame in frames for _, data in reader.feed(frame) if data != b"[DONE]"]


def floor(lines: list[bytes]) -> None:
    """Read and write the JSON of each frame, and nothing else."""
    for line in lines:
        msgspec.json.encode(msgspec.json.decode(line))


def ours(source: str, target: str) -> Work:
    """Translate with toolwire, frame by frame."""

    def work(frames: list[bytes]) -> list[bytes]:
        stream = translate.stream(source, target)
        return [*map(stream.feed, frames), stream.close()]

    return work


def ratio(source: str, work: Work, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Give the median ratio to the floor, and the medians of both in microseconds a frame.

    The samples are made before the first of them is timed, so that nothing else runs in between.
    """
    work(frames_of(source))
    samples = [(frames, data_of(frames)) for frames in (frames_of(source) for _ in range(rounds))]
    gc.collect()
    pairs = []
    for frames, lines in samples:
        begin = time.perf_counter()
        floor(lines)
        middle = time.perf_counter()
        work(frames)
        end = time.perf_counter()
        scale = 1e6 / len(lines)
        pairs.append(((middle - begin) * scale, (end - middle) * scale))
    median = statistics.median
    return median(b / a for a, b in pairs), median(a for a, _ in pairs), median(b for _, b in pairs)


def peers() -> dict[str, dict[tuple[str, str], Work]]:
    """Give the peers that are installed, with the pairs that they can do: frames in, bytes to send out."""
    found: dict[str, dict[tuple[str, str], Work]] = {}
    for name, make in (("llm-rosetta", _rosetta), ("litellm", _litellm)):
        try:
            found[name] = make()
        except ImportError as problem:
            print(f"  {name} is not here: {problem}")
    return found


def _rosetta() -> dict[tuple[str, str], Work]:
    from llm_rosetta.converters.anthropic import AnthropicConverter  # noqa: PLC0415 - only where it is installed
    from llm_rosetta.converters.openai_chat import OpenAIChatConverter  # noqa: PLC0415 - only where it is installed

    kinds = {"openai-chat": OpenAIChatConverter, "anthropic": AnthropicConverter}

    def make(source: str, target: str) -> Work:
        def work(frames: list[bytes]) -> list[bytes]:
            reader, writer = kinds[source](), kinds[target]()
            read, write = reader.create_stream_context(), writer.create_stream_context()
            sent = []
            for line in data_of(frames):
                for event in reader.stream_response_from_provider(msgspec.json.decode(line), read):
                    made = writer.stream_response_to_provider(event, write)
                    bodies = made if isinstance(made, list) else [made]
                    sent += [write_event(msgspec.json.encode(body)) for body in bodies]
            return sent

        return work

    return {pair: make(*pair) for pair in (("openai-chat", "anthropic"), ("anthropic", "openai-chat"))}


def _litellm() -> dict[tuple[str, str], Work]:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    from litellm.llms.anthropic.chat.handler import ModelResponseIterator  # noqa: PLC0415 - only where it is installed

    def work(frames: list[bytes]) -> list[bytes]:
        iterator = ModelResponseIterator(iter(()), sync_stream=True)
        chunks = (iterator.chunk_parser(msgspec.json.decode(line)) for line in data_of(frames))
        return [write_event(chunk.model_dump_json(exclude_none=True).encode()) for chunk in chunks]

    return {("anthropic", "openai-chat"): work}


def report(*, short: bool) -> None:
    """Print what each pair costs, and the peers on the pairs that they can do."""
    print(f"\nstreams of {len(frames_of('openai-chat'))} frames, target at most {TARGET} x")
    compared = [("openai-chat", "anthropic"), ("anthropic", "openai-chat")]
    for pair in compared if short else itertools.product(NAMES, NAMES):
        print(f"  {pair[0]:>16} > {pair[1]:<16} {_said(*ratio(pair[0], ours(*pair)))}")
    for name, works in peers().items():
        for pair, work in works.items():
            print(f"  {name:>16}: {' > '.join(pair)}  {_said(*ratio(pair[0], work, 5))}")
    report_memory()


def _said(median: float, base: float, cost: float) -> str:
    return f"{median:5.2f} x the floor   ({cost:6.2f} us a frame, floor {base:5.2f} us)"


def report_memory() -> None:
    """Print by how much the memory of the process grows while 100 MB of a stream pass through."""
    chunk = next(itertools.islice(chunks_of_chat(), 60, None))
    frame = write_event(msgspec.json.encode(chunk))
    stream = translate.stream("openai-chat", "anthropic")
    for first in itertools.islice(chunks_of_chat(), 1):
        stream.feed(write_event(msgspec.json.encode(first)))
    piece = frame * (MEGABYTE // len(frame))
    stream.feed(piece)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    passed = 0
    while passed < 100 * MEGABYTE:
        stream.feed(piece)
        passed += len(piece)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"\n{passed / MEGABYTE:.0f} MB of a stream, openai-chat > anthropic: {grown:.1f} MB more in memory")
