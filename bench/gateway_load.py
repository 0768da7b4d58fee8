"""Answer the questions of whoever runs a gateway, for toolwire and for LiteLLM's proxy in the same run.

- How many streams of 20 frames a second does one process carry, until one of them pauses for over half a second?
- How many requests a second does it answer, what CPU time does each cost, and what time does it add? Their bodies are
  new each time, so that no cache can answer them.
- How long does it take to start, and how much memory does it use?

Each gateway is one process on one processor; the clients and the provider share the other one. What the clients and
the provider can do without a gateway is measured too. If something cannot be measured, the reason is printed.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gateway_nginx import PROGRAMS, ROUTES, gateway_settings, nginx
from gateway_peers import LITELLM, MODELS, missing, started, version
from gateway_requests import Measured, Wrk, agent_request
from gateway_streams import MODEL, STALL, Received
from processes import MEASURED, OTHERS, NotReady, Program, busy_seconds, conditions, free_port, pinned, running

LEVELS = (16, 64, 250, 500, 1000)  # streams at once
TRIES = 2  # for each of them: other work on the machine can disturb one
WARM_STREAMS = 4  # for a second, before the first that count
CLIENTS = (1, 32)  # that send requests
STREAMS = Path(__file__).with_name("gateway_streams.py")


class Gateway(NamedTuple):
    """A gateway: how it is run, the path that shows that it is ready, and its names of models."""

    name: str
    run: Callable[[Path, int, int], AbstractContextManager[Program]]  # in a folder, for a provider's port, on a port
    ready: str
    stream_model: str
    models: dict[str, str]  # by route


class Length(NamedTuple):
    """How long each figure is measured, with how many streams, and how often if they are too many."""

    seconds: int
    levels: tuple[int, ...]
    tries: int


class Carried(NamedTuple):
    """A run of streams: what the clients measured, and what the gateway used."""

    streams: int
    received: Received
    cpu: float = 0.0  # microseconds a frame
    others: float = 0.0  # the share of the gateway's processor that other programs used

    @property
    def succeeded(self) -> bool:
        """Return True if every stream came to its end, none paused for long, and the gateway did not fall behind."""
        received = self.received
        return received.complete == self.streams and not received.stalled and not received.late

    def describe(self) -> str:
        """Return the figures on one line."""
        received = self.received
        parts = [
            f"gap p99 {received.gap[1]:5.0f}, largest {received.gap[2]:5.0f} ms",
            f"frame's delay p50 {received.delay[0]:5.1f}, p99 {received.delay[1]:5.0f} ms",
            f"first frame p99 {received.first[1]:5.0f} ms",
        ]
        if self.cpu:
            parts.append(f"CPU a frame {self.cpu:4.0f} us, other programs on its processor {self.others:.0%}")
        if received.stalled:
            parts.append(f"{received.stalled} STALLED for over {STALL} s")
        if received.late:
            parts.append(f"{received.late} over {STALL} s LATE at their end")
        if received.complete < self.streams:
            parts.append(f"{self.streams - received.complete} NOT COMPLETE: {received.problem}")
        return "; ".join(parts)


Answers = dict[str, str]  # by question


@contextlib.contextmanager
def _toolwire(folder: Path, provider: int, port: int) -> Iterator[Program]:
    folder.mkdir()
    settings = gateway_settings(folder, provider, "toolwire")
    serve = [sys.executable, "-m", "toolwire", "serve", "--quiet", "--listen", f"127.0.0.1:{port}"]
    with running([*pinned(MEASURED), *serve, "--config", str(settings)], folder, BENCH_KEY="x") as program:
        yield program


TOOLWIRE = Gateway("toolwire", _toolwire, "/ready", f"openai/{MODEL}", ROUTES)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10, help="of each stream, and of each run of requests")
    parser.add_argument("--quick", action="store_true", help="only show that everything works")
    parser.add_argument("--alone", action="store_true", help="measure toolwire only")
    options = parser.parse_args()
    length = Length(1, LEVELS[:2], 1) if options.quick else Length(options.seconds, LEVELS, TRIES)
    print(f"Gateway, an operator's questions. {conditions()}")
    gateways, absent = [TOOLWIRE], "--alone was set" if options.alone else missing(LITELLM)
    if not absent:
        run = partial(started, LITELLM)
        gateways.append(Gateway(f"LiteLLM {version(LITELLM)}", run, LITELLM.ready, MODEL, MODELS))
    answers: dict[str, Answers] = {gateway.name: {} for gateway in gateways}
    with tempfile.TemporaryDirectory() as folder:
        _ask_about_streams(Path(folder), gateways, length, answers)
        _ask_about_requests(Path(folder), gateways, length, answers)
    if absent:
        print(f"  LiteLLM: not measured: {absent}")
    _show(answers)
    print(f"  after it: {conditions()}")


@contextlib.contextmanager
def _ready(gateway: Gateway, folder: Path, provider: int, answers: Answers) -> Iterator[tuple[Program | None, int]]:
    """Run a gateway and wait until it is ready; the program is None if it did not start."""
    port = free_port()
    with gateway.run(folder, provider, port) as program:
        try:
            answers["ready after"] = f"{program.wait_ready(port, gateway.ready, 180):.2f} s"
        except NotReady as problem:
            print(f"  {gateway.name}: not measured: {problem}")
            yield None, port
            return
        answers["memory, idle"] = f"{program.megabytes():.0f} MB"
        yield program, port


def _ask_about_streams(folder: Path, gateways: list[Gateway], length: Length, answers: dict[str, Answers]) -> None:
    """Answer the questions about streams."""
    port = free_port()
    with running([*pinned(OTHERS), sys.executable, str(STREAMS), "provider", str(port)], folder) as provider:
        provider.wait_ready(port)
        direct = partial(_receive, port, "chat", MODEL, length.seconds)
        most = _carry_more_and_more("no gateway", "chat", length, lambda streams: Carried(streams, direct(streams)))
        print(f"  no gateway: clients and provider carry {most.streams if most else 0}; more show nothing of a gateway")
        for gateway in gateways:
            own = answers[gateway.name]
            with _ready(gateway, folder / f"{gateway.name}, streams", port, own) as (program, gateway_port):
                if program is not None:
                    own |= _stream_answers(gateway, program, gateway_port, length)


def _stream_answers(gateway: Gateway, program: Program, port: int, length: Length) -> Answers:
    """Answer the questions about one gateway's streams, of clients of two wires."""
    answers: Answers = {}
    for wire in ("messages", "chat"):
        _receive(port, wire, gateway.stream_model, 1, WARM_STREAMS)
        receive = partial(_receive, port, wire, gateway.stream_model, length.seconds)
        most = _carry_more_and_more(gateway.name, wire, length, partial(_carry, program, receive))
        route = f"{wire} > chat"
        answers[f"streams of {route}"] = str(most.streams) if most else f"under {length.levels[0]}"
        if most:
            answers[f"  p99 and largest gap, {route}"] = f"{most.received.gap[1]:.0f}, {most.received.gap[2]:.0f} ms"
            answers[f"  p99 of a frame's delay, {route}"] = f"{most.received.delay[1]:.0f} ms"
            answers[f"  p99 of a stream's first frame, {route}"] = f"{most.received.first[1]:.0f} ms"
            answers[f"  CPU a frame, {route}"] = f"{most.cpu:.0f} us"
    return {**answers, "memory, after streams": f"{program.megabytes():.0f} MB"}


def _carry_more_and_more(name: str, wire: str, length: Length, carry: Callable[[int], Carried]) -> Carried | None:
    """Run more and more streams until they are too many, and print each try. Return the last that succeeded."""
    most = None
    for streams in length.levels:
        for _ in range(length.tries):
            carried = carry(streams)
            print(f"  {name}, {wire} > chat, {streams:>5} streams: {carried.describe()}", flush=True)
            if carried.succeeded:
                most = carried
                break
        else:
            rest = [str(more) for more in length.levels if more > streams]
            if rest:
                print(f"  {name}, {wire} > chat, {', '.join(rest)} streams: not tried, for {streams} were too many")
            break
    return most


def _receive(port: int, wire: str, model: str, seconds: int, streams: int) -> Received:
    """Run the clients of `streams` streams, and return what they measured."""
    command = [*pinned(OTHERS), sys.executable, str(STREAMS), wire, str(port), "--model", model]
    options = ["--streams", str(streams), "--seconds", str(seconds)]
    ran = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
    return Received(**json.loads(ran.stdout))


def _carry(program: Program, receive: Callable[[int], Received], streams: int) -> Carried:
    """Run the clients of `streams` streams, and measure what the gateway uses."""
    begin, cpu, busy = time.perf_counter(), program.cpu_seconds(), busy_seconds(MEASURED)
    received = receive(streams)
    used = program.cpu_seconds() - cpu
    others = (busy_seconds(MEASURED) - busy - used) / (time.perf_counter() - begin)
    return Carried(streams, received, 1e6 * used / max(1, received.frames), max(0.0, others))


def _ask_about_requests(folder: Path, gateways: list[Gateway], length: Length, answers: dict[str, Answers]) -> None:
    """Answer the questions about requests, with nginx as the provider."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        print(f"  requests: not measured: {' and '.join(absent)} not installed (apt-get install nginx-light wrk)")
        return
    port, proxy = free_port(), free_port()
    with running([*pinned(OTHERS), *nginx(folder, port, proxy)], folder) as provider:
        provider.wait_ready(port)
        direct = _requests(Wrk(port, provider, folder), MODEL, length)
        print(f"  no gateway: {'; '.join(_described(clients, run) for clients, run in direct.items())}")
        for gateway in gateways:
            own, gateway_folder = answers[gateway.name], folder / f"{gateway.name}, requests"
            with _ready(gateway, gateway_folder, port, own) as (program, gateway_port):
                if program is not None:
                    wrk = Wrk(gateway_port, program, gateway_folder)
                    own |= _request_answers(gateway, wrk, length, direct)
                    own["memory, after requests"] = f"{program.megabytes():.0f} MB"


def _request_answers(gateway: Gateway, wrk: Wrk, length: Length, direct: dict[int, Measured]) -> Answers:
    """Answer the questions about one gateway's requests, on each route."""
    answers: Answers = {}
    for route, model in gateway.models.items():
        runs = _requests(wrk, model, length)
        described = "; ".join(_described(clients, run) for clients, run in runs.items())
        many = runs[max(CLIENTS)]
        print(f"  {gateway.name}, {route}: {described}; CPU {many.cpu:,.0f} us a request", flush=True)
        answers[f"requests a second, {route}"] = f"{many.rate:,.0f}{many.doubts}"
        answers[f"  CPU a request, {route}"] = f"{many.cpu:,.0f} us"
        for clients, run in runs.items():
            added = f"{run.p50 - direct[clients].p50:.2f}, {run.p99 - direct[clients].p99:.2f} ms{run.doubts}"
            answers[f"  added p50 and p99, {route}, clients: {clients}"] = added
    return answers


def _requests(wrk: Wrk, model: str, length: Length) -> dict[int, Measured]:
    """Measure requests with new bodies; return the runs by their number of clients."""
    return {clients: wrk.measure(agent_request(model, 0), length.seconds, clients, new=True) for clients in CLIENTS}


def _described(clients: int, run: Measured) -> str:
    noun = "client" if clients == 1 else "clients"
    return f"{clients} {noun} {run.rate:,.0f}/s, p50 {run.p50:.2f} ms, p99 {run.p99:.2f} ms{run.doubts}"


def _show(answers: dict[str, Answers]) -> None:
    """Print the answers side by side."""
    print(f"\n  {'':<50}" + "".join(f"{name:>24}" for name in answers))
    for question in dict.fromkeys(question for own in answers.values() for question in own):
        row = [own.get(question, "not measured") for own in answers.values()]
        print(f"  {question:<50}" + "".join(f"{answer:>24}" for answer in row))
    print(
        f"  streams: the most at once, of 20 frames a second, of which none pauses for over {STALL} s or falls behind"
    )


if __name__ == "__main__":
    main()
