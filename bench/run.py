"""Measure what a translation costs, as ratios in one run to the JSON floor and to peers on the same work.

The floor is msgspec reading and writing the same bytes. Every sample is a request that was never seen before:
bytes in, bytes out. A round measures the floor and a contestant one after the other; the ratio quoted is the
median over rounds.
"""

import argparse
import gc
import importlib.util
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import bodies
import calls
import clients
import files
import msgspec
import recorded
import search
import shell
import streams

from toolwire import translate
from toolwire.dialects import NAMES, dialect

ROUNDS = 25
PAIRS = [(source, target) for source in NAMES for target in NAMES]
TARGETS = {"60 KB": 3.0, "4 KB": 5.0}
Work = Callable[[bytes], Any]


def floor(data: bytes) -> bytes:
    """Read and write JSON, and nothing else."""
    return msgspec.json.encode(msgspec.json.decode(data))


def ours(source: str, target: str) -> Work:
    """Translate with toolwire: read as the floor does, translate, write."""
    return lambda data: translate.request(msgspec.json.decode(data), source, target).json


def checked(source: str, target: str) -> Work:
    """Translate with toolwire from bytes, which also proves that no key is given twice."""
    return lambda data: translate.request(data, source, target).json


def spent(work: Work, samples: list[bytes]) -> float:
    """Give the seconds that one sample costs."""
    begin = time.perf_counter()
    for sample in samples:
        work(sample)
    return (time.perf_counter() - begin) / len(samples)


def ratio(work: Work, fresh: Callable[[], list[bytes]], rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Give the median ratio to the floor and the medians of both in microseconds; no sample is used twice."""
    spent(work, fresh())
    pairs = []
    for _ in range(rounds):
        samples = fresh()
        gc.collect()
        pairs.append((spent(floor, samples) * 1e6, spent(work, samples) * 1e6))
    median = statistics.median
    return median(b / a for a, b in pairs), median(a for a, _ in pairs), median(b for _, b in pairs)


def samples_of(make: Callable[[], dict[str, Any]], source: str, count: int) -> list[bytes]:
    """Make requests of a dialect, each of them different."""
    return [translate.request(make(), "openai-chat", source).json for _ in range(count)]


def peers() -> dict[str, Work]:
    """Give the peers that are installed, each doing the same work: Chat Completions to Messages, as bytes."""
    found: dict[str, Work] = {}
    if importlib.util.find_spec("llm_rosetta") is not None:
        found["llm-rosetta"] = _rosetta()
    if importlib.util.find_spec("litellm") is not None:
        found["litellm"] = _litellm()
    return found


def _rosetta() -> Work:
    from llm_rosetta import convert  # noqa: PLC0415 - only where it is installed

    warnings.filterwarnings("ignore", module="llm_rosetta")

    def work(data: bytes) -> bytes:
        return msgspec.json.encode(convert(msgspec.json.decode(data), "anthropic", source_provider="openai_chat"))

    return work


def _litellm() -> Work:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm  # noqa: PLC0415 - only where it is installed
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig  # noqa: PLC0415 - only where it is installed

    litellm.suppress_debug_info = True

    def work(data: bytes) -> bytes:
        body = msgspec.json.decode(data)
        config = AnthropicConfig()
        options = {key: body[key] for key in ("tools", "temperature") if key in body}
        mapped = config.map_openai_params(
            non_default_params=options, optional_params={}, model="claude-3-opus-20240229", drop_params=True
        )
        return msgspec.json.encode(
            config.transform_request(
                model="claude-3-opus-20240229",
                messages=body["messages"],
                optional_params={**mapped, "max_tokens": 1000},
                litellm_params={},
                headers={},
            )
        )

    return work


def report_translation(*, short: bool) -> None:
    """Print the cost of every pair, and of the peers on one."""
    for size, make in (("60 KB", bodies.sixty_kilobytes), ("4 KB", bodies.four_kilobytes)):
        count = 20 if size == "60 KB" else 100
        length = len(samples_of(make, "openai-chat", 1)[0])
        print(f"\n{size} request: {length} bytes, target at most {TARGETS[size]} x")
        for source, target in PAIRS if not short else [("openai-chat", "anthropic")]:
            measured = ratio(ours(source, target), partial(samples_of, make, source, count))
            print(f"  {source:>16} > {target:<16} {_said(*measured)}")
        measured = ratio(checked("openai-chat", "anthropic"), partial(samples_of, make, "openai-chat", count))
        print(f"  openai-chat > anthropic, keys proved to be given once: {_said(*measured)}")
        for name, work in peers().items():
            measured = ratio(work, partial(samples_of, make, "openai-chat", 10), 5)
            print(f"  {name:>16}: chat > anthropic  {_said(*measured)}")


def _said(median: float, base: float, cost: float) -> str:
    return f"{median:5.2f} x the floor   ({cost:7.1f} us, floor {base:6.1f} us)"


def report_growth() -> None:
    """Print the cost of one message in histories of 10 to 10,000 messages; it must stay flat."""
    print("\ncost of a message, openai-chat > anthropic")
    for messages in (10, 100, 1000, 10_000):
        body = bodies.chat_request(turns=messages // 5, tools=5, size=200)
        request = dialect("openai-chat").decode_request(body)
        encode = dialect("anthropic").encode_request
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            encode(dialect("openai-chat").decode_request(body))
            times.append(time.perf_counter() - begin)
        count = len(request.messages)
        print(f"  {count:6d} messages: {min(times) / count * 1e6:6.2f} us a message")


def report_import() -> None:
    """Print what `import toolwire` adds to a bare interpreter."""
    probe = (
        "import time; b=time.perf_counter(); {}; e=time.perf_counter();"
        "print(e-b, next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))"
    )
    costs = {}
    for name, code in (("bare", "pass"), ("toolwire", "import toolwire")):
        runs = [
            subprocess.run(
                [sys.executable, "-c", probe.format(code)], capture_output=True, text=True, check=True
            ).stdout.split()
            for _ in range(7)
        ]
        costs[name] = (
            statistics.median(float(run[0]) for run in runs),
            statistics.median(float(run[1]) for run in runs),
        )
    added = (costs["toolwire"][0] - costs["bare"][0]) * 1000
    print(f"\nimport toolwire adds {added:.1f} ms and {(costs['toolwire'][1] - costs['bare'][1]) / 1024:.1f} MB")


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="one pair only")
    options = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, msgspec {msgspec.__version__}; lower is better")
    report_translation(short=options.short)
    streams.report(short=options.short)
    calls.report()
    for part in (files, search, shell):
        part.report()
    recorded.report(peers(), short=options.short)
    clients.report(short=options.short)
    report_growth()
    report_import()


if __name__ == "__main__":
    main()
