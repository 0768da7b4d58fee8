"""Measure what records cost a gateway: latency at a fixed rate, and CPU time, with `[record]` and without.

Two gateways stand before one provider (nginx), which answers at once: the shortest answer there is. Clients send new
bodies at a fixed rate, to the one and to the other in turn, so that both meet the same machine. CPU time is that of the
gateway and of the process that writes its records, until all of them are written.
"""

import argparse
import contextlib
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from gateway_nginx import ROUTES, gateway_settings, nginx
from gateway_requests import MARK, agent_request
from processes import Program, conditions, free_port, running

ROUNDS = {"1.4 KB": 0, "14 KB": 8, "255 KB": 195}
RECORD = '[record]\nbodies = true\ndatabase = "sqlite:///records.db"\n'
SLICE = 1.0  # seconds to one gateway before the other's turn


class Measured(NamedTuple):
    """The latencies in milliseconds, and the CPU time of a request in microseconds."""

    latencies: list[float]
    cpu: float

    def percentile(self, percent: int) -> float:
        """Return a percentile of the latencies."""
        return statistics.quantiles(self.latencies, n=100)[percent - 1]


class Client:
    """A client of one gateway, with one connection."""

    def __init__(self, port: int, program: Program) -> None:
        """Connect to the gateway at `port`."""
        self.program, self.latencies, self.cpu = program, list[float](), 0.0
        self._connection = HTTPConnection("127.0.0.1", port)

    def send(self, body: str, number: int) -> None:
        """Send a new body, and note how long its answer took."""
        data = body.replace(MARK, f"@nm{number:08}@").encode()
        start = time.perf_counter()
        self._connection.request("POST", "/v1/chat/completions", data, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 200
        self.latencies.append((time.perf_counter() - start) * 1000)


def measure(clients: list[Client], body: str, rate: float, seconds: float, settle: float) -> list[Measured]:
    """Send `rate` requests a second to each client's gateway in turn."""
    number = int(time.time() * 1000) % 10**7
    for client in clients:
        for _ in range(20):
            number += 1
            client.send(body, number)
        client.latencies.clear()
    time.sleep(settle)
    before = [client.program.cpu_seconds() for client in clients]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for client in clients:
            until, due = time.monotonic() + SLICE, time.monotonic()
            while (now := time.monotonic()) < until:
                if now < due:
                    time.sleep(due - now)
                due += 1 / rate
                number += 1
                client.send(body, number)
    time.sleep(settle)
    used = [client.program.cpu_seconds() - start for client, start in zip(clients, before, strict=True)]
    return [
        Measured(client.latencies[:], 1e6 * cpu / len(client.latencies))
        for client, cpu in zip(clients, used, strict=True)
    ]


@contextlib.contextmanager
def gateways(folder: Path, provider: int) -> Iterator[list[Client]]:
    """Run a gateway without records and one with them."""
    with contextlib.ExitStack() as stack:
        clients = []
        for name, more in (("off", ""), ("on", RECORD)):
            port, settings = free_port(), gateway_settings(folder, provider, name, more)
            command = [sys.executable, "-m", "toolwire", "serve", "--quiet", "--listen", f"127.0.0.1:{port}"]
            program = stack.enter_context(running([*command, "--config", str(settings)], folder, BENCH_KEY="x"))
            program.wait_ready(port)
            clients.append(Client(port, program))
        yield clients


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="for each line")
    parser.add_argument("--rate", type=float, default=100, help="requests a second to each gateway")
    options = parser.parse_args()
    if shutil.which("nginx") is None:
        print("records: not measured: nginx is not installed (apt-get install nginx-light)")
        return
    print(f"Records, {options.rate:g} requests a second. {conditions()}")
    with tempfile.TemporaryDirectory() as name:
        folder, provider = Path(name), free_port()
        with running(nginx(folder, provider, free_port()), folder) as front:
            front.wait_ready(provider)
            with gateways(folder, provider) as clients:
                _measure_all(clients, options)
            with sqlite3.connect(folder / "records.db") as connection:
                count, size = connection.execute("SELECT count(*), sum(bytes) FROM toolwire_records").fetchone()
            print(f"  {count} records, {size / count:,.0f} bytes each in the store")


def _measure_all(clients: list[Client], options: argparse.Namespace) -> None:
    for size, rounds in ROUNDS.items():
        for route, model in ROUTES.items():
            rate = min(options.rate, 20.0) if rounds > 100 else options.rate
            off, on = measure(clients, agent_request(model, rounds), rate, options.seconds, 1.0)
            parts = [
                f"{name} {before:.2f} > {after:.2f} ms (x{after / before:.2f})"
                for name, before, after in (
                    ("p50", off.percentile(50), on.percentile(50)),
                    ("p99", off.percentile(99), on.percentile(99)),
                )
            ]
            cpu = f"CPU {off.cpu:,.0f} > {on.cpu:,.0f} us (x{on.cpu / off.cpu:.2f})"
            print(f"  {route}, {size}: {', '.join(parts)}, {cpu}", flush=True)


if __name__ == "__main__":
    main()
