"""Measure what recorded bodies cost, and what one more turn of a long conversation costs.

Rules of this file:
- Figures are CPU time, the best of five, as ratios to the floor of the same bytes: JSON read and written, in one run.
- No body was seen before: each sample has another word in its texts. A floor and a contestant get the same samples.
- Recordings are found through TOOLWIRE_CORPUS or ../shared/corpus; without them, bodies of this folder stand in.
"""

import contextlib
import gc
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import answering
import bodies
import msgspec
from gateway_requests import agent_request

from toolwire import translate
from toolwire.dialects import NAMES
from toolwire.gateway.prefix_cache import OwnerCache, PrefixCache
from toolwire.wire.framing import EventStream, JsonLines

ROUNDS = 5
WIRES = {
    "openai-chat": "openai-chat",
    "mistral-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "anthropic-messages": "anthropic",
    "gemini": "gemini",
    "ollama-chat": "ollama",
}
CLASSES = {"< 4 KB": 4_000, "4-20 KB": 20_000, "> 20 KB": math.inf}
TARGETS = {"< 4 KB": 7.0, "4-20 KB": 4.0, "> 20 KB": 2.5}
ANSWER_TARGET, STREAM_TARGET, TURN_TARGET = 6.0, 5.0, 0.35
_CACHE = 32 << 20  # as the gateway has it
_TEXTS = frozenset({"text", "content", "description", "arguments_text", "thinking"})
_numbers = itertools.count(1)
Work = Callable[[bytes], Any]


class Recorded(NamedTuple):
    """One body of one wire as it was recorded, and the path that it was sent to."""

    wire: str
    path: str
    body: Any


def floor(data: bytes) -> bytes:
    """Read and write JSON, and nothing else."""
    return msgspec.json.encode(msgspec.json.decode(data))


def corpus() -> Path | None:
    """Find the recordings; None where there are none."""
    root = Path(os.environ.get("TOOLWIRE_CORPUS", Path(__file__).resolve().parents[2] / "shared" / "corpus"))
    return root if root.is_dir() else None


def _recordings() -> Iterator[tuple[str, dict[str, Any]]]:
    root = corpus()
    for folder, wire in WIRES.items() if root is not None else ():
        for file in sorted((root / folder).glob("*.json")):
            yield wire, msgspec.json.decode(file.read_bytes())


def requests() -> list[Recorded]:
    """Give every recorded request."""
    found = [
        Recorded(wire, made["url_path"] if wire == "gemini" else "", made["request"])
        for wire, made in _recordings()
        if type(made["request"]) is dict
    ]
    return found or [
        Recorded(wire, "", msgspec.json.decode(translate.request(body, "openai-chat", wire).json))
        for body in (
            agent_request("m", 0),
            agent_request("m", 9),
            bodies.four_kilobytes(),
            bodies.sixty_kilobytes(),
        )
        for wire in NAMES
    ]


def responses() -> list[Recorded]:
    """Give every recorded response that is an answer."""
    found = [
        Recorded(wire, "", made["response"])
        for wire, made in _recordings()
        if type(made.get("response")) is dict and made["status"] == 200
    ]
    answer, _ = answering.ANSWERS["/v1/chat/completions"]
    return found or [Recorded(wire, "", translate.response(answer, "openai-chat", wire).body) for wire in NAMES]


def streams() -> list[tuple[str, bytes]]:
    """Give every recorded stream of lines or events."""
    found = [(wire, made["response_text"].encode()) for wire, made in _recordings() if made.get("response_text")]
    return [(wire, text) for wire, text in found if text[:1] != b"["]


def new(value: Any, word: str) -> Any:
    """Give a body with another word in each of its texts."""
    if type(value) is list:
        return [new(inner, word) for inner in value]
    if type(value) is not dict:
        return value
    return {
        key: f"{inner} {word}" if key in _TEXTS and type(inner) is str and inner else new(inner, word)
        for key, inner in value.items()
    }


def samples_of(body: Any, count: int = ROUNDS) -> list[bytes]:
    """Write a body so many times, each time with other texts."""
    return [msgspec.json.encode(new(body, f"w{next(_numbers):07d}")) for _ in range(count)]


def opened_alike(body: Any) -> list[bytes]:
    """Write a body so many times, each time with other words of the user and the model, and the same before them."""
    key = next((key for key in ("messages", "contents", "input") if type(body.get(key)) is list), None)
    if key is None:
        return samples_of(body)
    bodies = []
    for _ in range(2 * ROUNDS):
        word = f"w{next(_numbers):07d}"
        said = [
            one if type(one) is dict and one.get("role") in ("system", "developer") else new(one, word)
            for one in body[key]
        ]
        bodies.append(msgspec.json.encode({**body, key: said}))
    return bodies


def best(work: Work, samples: Sequence[bytes]) -> float:
    """Give the least CPU time that one of the samples took, in microseconds."""
    clock, least = time.process_time_ns, 1 << 62
    for sample in samples:
        begin = clock()
        work(sample)
        least = min(least, clock() - begin)
    return least / 1000


def ratios(
    found: list[Recorded], ours: Callable[[Recorded, str], Work], fresh: Callable[[Any], list[bytes]] = samples_of
) -> Iterator[tuple[str, str, int, float]]:
    """Give source, target, size and ratio for each body and each target."""
    for one in found:
        samples = samples_of(one.body)
        least = min(best(floor, samples) for _ in range(2))
        for target in NAMES:
            work = ours(one, target)
            try:
                work(samples[0])
            except Exception:  # noqa: BLE001, S112 - what is refused costs nothing that anybody waits for
                continue
            yield one.wire, target, len(samples[0]), best(work, fresh(one.body)) / least


def request(one: Recorded, target: str) -> Work:
    """Translate a request, bytes to bytes."""
    return lambda data: translate.request(data, one.wire, target, one.path).json


def cached_request(one: Recorded, target: str) -> Work:
    """Translate a request with the cache of a gateway, bytes to bytes."""
    cache = PrefixCache(_CACHE).of("")
    return lambda data: sent(data, one.wire, target, one.path, cache)


def sent(data: bytes, source: str, target: str, path: str = "", cache: OwnerCache | None = None) -> bytes:
    """Return a request as an exchange sends it."""
    return translate.exchange(data, source=source, target=target, path=path, translation_cache=cache).encoded.json


def response(one: Recorded, target: str) -> Work:
    """Translate a response, bytes to bytes."""
    return lambda data: translate.response(data, one.wire, target).json


def told(found: Sequence[float]) -> str:
    """Say what a list of ratios comes to."""
    listed = sorted(found)
    return (
        f"median {statistics.median(listed):5.2f}  p90 {listed[int(len(listed) * 0.9)]:6.2f}  worst {listed[-1]:6.1f}"
        f"  ({len(listed)})"
    )


def report_bodies(what: str, rows: list[tuple[str, str, int, float]], targets: dict[str, float]) -> None:
    """Print ratios by size, then the medians by pair."""
    least = 0
    for name, most in CLASSES.items():
        found = [ratio for _, _, size, ratio in rows if least <= size < most]
        if found:
            print(f"  {what} {name:>8}: {told(found)}  target {targets[name]}")
        least = int(most) if most < math.inf else 0
    for source in NAMES:
        medians = []
        for target in NAMES:
            found = [ratio for one, other, _, ratio in rows if (one, other) == (source, target)]
            medians.append(f"{target} {statistics.median(found):5.2f}" if found else f"{target}     -")
        print(f"    {source:>16} > {'  '.join(medians)}")


def report_peers(peers: Mapping[str, Work], step: int) -> None:
    """Print what peers take for the same bodies: Chat Completions to Messages; what one refuses is left out."""
    found = [samples_of(one.body) for one in requests()[::step] if one.wire == "openai-chat"]
    for name, work in {"toolwire": _to_messages, **peers}.items():
        rates = []
        for samples in found:
            with contextlib.suppress(Exception):
                work(samples[0])
                rates.append(best(work, samples[1:]) / best(floor, samples))
        print(f"  {name:>16}: chat > anthropic  {told(rates)}")


def _to_messages(data: bytes) -> bytes:
    return translate.request(data, "openai-chat", "anthropic").json


# --- a conversation that grows ----------------------------------------------------------------------------------


def conversation(turns: int) -> list[bytes]:
    """Give the bodies of so many turns, each with all that came before: 20 tools of 1 to 4 KB, two messages a turn."""
    run = next(_numbers)
    tools = [bodies.tool(run * 100 + place, 7 + place * 27 // 20) for place in range(20)]
    messages: list[dict[str, Any]] = [{"role": "system", "content": bodies.prose(run, 2000)}]
    given = []
    for turn in range(turns):
        call_id = f"call_{run:06d}{turn:06d}"
        if turn % 2:
            arguments = msgspec.json.encode({"field_0": bodies.prose(turn, 60), "field_1": turn}).decode()
            function = {"name": tools[turn % 20]["function"]["name"], "arguments": arguments}
            messages += [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": call_id, "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": call_id, "content": bodies.prose(turn, 1300)},
            ]
        else:
            messages += [
                *([{"role": "assistant", "content": bodies.prose(turn + 1, 300)}] if turn else []),
                {"role": "user", "content": f"{bodies.prose(turn, 300)} {run}"},
            ]
        body = {"model": "gpt-x", "messages": messages, "tools": tools, "temperature": 0.2}
        given.append(msgspec.json.encode(body))
    return given


def turns_of(source: str, target: str, turns: int, cache: OwnerCache | None) -> dict[int, tuple[int, float]]:
    """Give the size and the ratio of some turns of conversations that grow from this wire into another."""
    wanted = sorted({10, turns // 8, turns // 4, turns // 2, turns})
    found: dict[int, list[float]] = {turn: [] for turn in wanted}
    sizes = {}
    for _ in range(ROUNDS):
        said = conversation(turns)
        if source != "openai-chat":
            said = [translate.request(body, "openai-chat", source).json for body in said]
        gc.collect()
        for turn, body in enumerate(said, 1):
            begin = time.process_time_ns()
            sent(body, source, target, cache=cache)
            took = (time.process_time_ns() - begin) / 1000
            if turn in found:
                sizes[turn] = len(body)
                found[turn].append(took / best(floor, [body] * ROUNDS))
    return {turn: (sizes[turn], min(ratios)) for turn, ratios in found.items()}


def report_growth(*, short: bool) -> None:
    """Print what a turn of a long conversation costs."""
    print(f"\na turn of a conversation with 20 tools, sent whole: target at the last {TURN_TARGET} x the floor")
    pairs = [("openai-chat", target) for target in ("anthropic", "gemini", "openai-responses")]
    pairs += [(target, source) for source, target in pairs]
    for source, target in pairs[:1] if short else pairs:
        said = turns_of(source, target, 200, PrefixCache(_CACHE).of(""))
        print(f"  {source:>16} > {target:<16} " + "  ".join(f"{n}: {r:.2f}" for n, (_, r) in said.items()))
    off = turns_of("openai-chat", "anthropic", 200, None)
    print(
        "       openai-chat > anthropic, without the cache: " + "  ".join(f"{n}: {r:.2f}" for n, (_, r) in off.items())
    )
    print(f"  ({', '.join(f'turn {turn}: {size // 1000} KB' for turn, (size, _) in said.items())})")


def report_question() -> None:
    """Print what the request of a coding agent costs the first time, and in the third turn of its conversation."""
    cache = PrefixCache(_CACHE).of("")

    def work(data: bytes) -> bytes:
        return sent(data, "openai-chat", "anthropic", cache=cache)

    first, later = [], []
    for _ in range(10 * ROUNDS):
        body = new(msgspec.json.decode(agent_request(f"gpt-{next(_numbers)}", 0)), f"w{next(_numbers)}")
        turns = [msgspec.json.encode({**body, "messages": body["messages"][:end]}) for end in (2, 4, 6)]
        first.append(best(work, turns[:1]) and best(work, [turns[2].replace(b"gpt", b"gqt")]))
        later.append(best(work, turns[1:2]) and best(work, turns[2:]))
    least = best(floor, [turns[2]] * 50)
    for name, took in (("first time", min(first)), ("third turn", min(later))):
        print(f"  the request of a coding agent, {len(turns[2])} bytes, {name}: {took / least:.2f} x ({took:.0f} us)")


# --- streams -----------------------------------------------------------------------------------------------------


def stream_ratios() -> Iterator[tuple[str, str, float]]:
    """Give source, target and ratio for each recorded stream and each target."""
    for wire, text in streams():
        end = b"\n" if wire == "ollama" else b"\n\n"
        frames = [frame + end for frame in text.replace(b"\r\n", b"\n").split(end) if frame.strip()]
        reader = JsonLines() if wire == "ollama" else EventStream()
        try:
            lines = [data for frame in frames for _, data in reader.feed(frame) if data != b"[DONE]"]
            least = min(best(_floors(lines), [b""] * ROUNDS) for _ in range(2))
        except msgspec.DecodeError:
            continue
        for target in NAMES:
            yield wire, target, best(_streamed(wire, target, frames), [b""] * ROUNDS) / max(least, 0.001)


def _floors(lines: list[bytes]) -> Work:
    return lambda _: [floor(line) for line in lines]


def _streamed(wire: str, target: str, frames: list[bytes]) -> Work:
    def work(_: bytes) -> Any:
        stream = translate.stream(wire, target)
        return [*map(stream.feed, frames), stream.close()]

    return work


def report(peers: Mapping[str, Work] = {}, *, short: bool = False) -> None:
    """Print the cost of recorded bodies and of a conversation that grows."""
    print(f"\nrecorded bodies{'' if corpus() else ' (none here: bodies of this folder)'}, as ratios to the floor")
    step = 8 if short else 1
    report_bodies("requests", list(ratios(requests()[::step], request)), TARGETS)
    alike = list(ratios(requests()[::step], cached_request, opened_alike))
    report_bodies("requests opened alike, with the gateway's cache", alike, TARGETS)
    report_bodies("responses", list(ratios(responses()[::step], response)), dict.fromkeys(CLASSES, ANSWER_TARGET))
    report_peers(peers, step)
    report_question()
    rows = list(stream_ratios())[::step]
    if rows:
        print(f"  streams: {told([ratio for *_, ratio in rows])}  target {STREAM_TARGET}")
    report_growth(short=short)


if __name__ == "__main__":
    import sys

    report(short="--short" in sys.argv)
