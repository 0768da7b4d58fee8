"""Measure what the gateway adds to a request: nginx is the provider, wrk the clients.

Each line has two halves: bodies that are new each time, which no cache of the gateway can answer, and the same body
again. The targets hold for new bodies. CPU time is that of the gateway's process for each request that was answered;
that of nginx as a proxy is measured in the same run. nginx and wrk are Debian's: `apt-get install nginx-light wrk`;
without them the benchmark says so, and measures nothing.
"""

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gateway_nginx import PROGRAMS, ROUTES, gateway_settings, nginx
from gateway_peers import ABSENT, MODELS, PEERS, Peer, missing, started, version
from gateway_requests import Measured, Wrk, agent_request
from processes import MEASURED, OTHERS, NotReady, Program, conditions, free_port, pinned, running

SIZES = {"1.4 KB": 0, "255 KB": 195}  # rounds of calls
TARGETS = {"1.4 KB": 450.0, "255 KB": 4000.0}  # CPU time of a request with a new body, in microseconds
READY, IDLE, LOADED, ADDED = 0.6, 80.0, 110.0, 0.35  # seconds, megabytes, megabytes, milliseconds at one client
LIMITS = ("--requests", "900000000/min", "--tokens", "900000000000/min", "--budget", "900000/day")
PROGRAM = [sys.executable, "-m", "toolwire"]


class Bench:
    """A run of the benchmark: how long each figure is measured, with how many clients, and in which folder."""

    def __init__(self, folder: Path, seconds: int, clients: int) -> None:
        """Reserve the ports of the provider and of the proxy."""
        self.folder, self.seconds, self.clients = folder, seconds, clients
        self.provider, self.proxy = free_port(), free_port()

    def show(self, name: str, wrk: Wrk, body: str, target: float | None = None) -> None:
        """Measure new bodies and the same body again, and print a line."""
        new, same = (wrk.measure(body, self.seconds, self.clients, new=new) for new in (True, False))
        check = "" if target is None else f"   target {target:,.0f} us: {_verdict(new.cpu, target)}"
        print(f"  {name:<50}{_half(new)}   |{_half(same)}{check}{new.doubts or same.doubts}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="for each figure")
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        print(f"gateway: not measured: {' and '.join(absent)} not installed (apt-get install nginx-light wrk)")
        return
    print(f"Gateway, requests: nginx as provider, {options.clients} clients of wrk. {conditions()}")
    with tempfile.TemporaryDirectory() as folder:
        _measure_all(Bench(Path(folder), options.seconds, options.clients))


def _measure_all(bench: Bench) -> None:
    with running([*pinned(OTHERS), *nginx(bench.folder, bench.provider, bench.proxy)], bench.folder) as front:
        front.wait_ready(bench.provider)
        _measure_toolwire(bench, front)
        for peer in PEERS:
            _measure_peer(bench, peer)
    print(f"  {ABSENT}")


def _measure_toolwire(bench: Bench, front: Program) -> None:
    plain = gateway_settings(bench.folder, bench.provider, "plain")
    keys = gateway_settings(bench.folder, bench.provider, "keys", '[server]\ndatabase = "sqlite:///keys.db"\n')
    create = [*PROGRAM, "keys", "create", "--config", str(keys), "--name", "bench", *LIMITS]
    key = subprocess.run(create, check=True, capture_output=True, text=True).stdout.strip()
    port, guarded = free_port(), free_port()
    with _serving(bench, plain, port, "toolwire") as gateway, _serving(bench, keys, guarded, "  with keys") as team:
        _show_added(bench, Wrk(guarded, team, bench.folder, key), Wrk(bench.provider, front, bench.folder))
        _show_heads()
        for size, rounds in SIZES.items():
            for route, model in ROUTES.items():
                body, target = agent_request(model, rounds), TARGETS[size]
                bench.show(f"toolwire, {route}, {size}", Wrk(port, gateway, bench.folder), body, target)
                wrk = Wrk(guarded, team, bench.folder, key)
                bench.show(f"  with keys and limits, {route}, {size}", wrk, body, target)
            body = agent_request("gpt-4.1", rounds)
            bench.show(f"nginx proxy_pass, {size}", Wrk(bench.proxy, front, bench.folder), body)
        print(f"  with keys, after all of it: {_against(team.megabytes(), LOADED, 'MB')}")


@contextlib.contextmanager
def _serving(bench: Bench, settings: Path, port: int, name: str) -> Iterator[Program]:
    """Run a toolwire gateway while the context lasts, and print how it started."""
    command = [*pinned(MEASURED), *PROGRAM, "serve", "--quiet", "--listen", f"127.0.0.1:{port}"]
    with running([*command, "--config", str(settings)], bench.folder, BENCH_KEY="x") as gateway:
        ready = gateway.wait_ready(port)
        print(f"  {name}: ready after {_against(ready, READY, 's')}, idle {_against(gateway.megabytes(), IDLE, 'MB')}")
        yield gateway


def _show_added(bench: Bench, gateway: Wrk, provider: Wrk) -> None:
    """Print what the gateway adds to a small request of one client, over the provider itself."""
    for route, model in ROUTES.items():
        direct = provider.measure(agent_request("gpt-4.1", 0), min(3, bench.seconds), 1, new=True)
        through = gateway.measure(agent_request(model, 0), min(3, bench.seconds), 1, new=True)
        added = _against(through.p50 - direct.p50, ADDED, "ms")
        print(f"  added at one client, {route}, with keys, new bodies: {added}")


def _measure_peer(bench: Bench, peer: Peer) -> None:
    """Measure another gateway, or print why not."""
    reason = missing(peer)
    if reason:
        print(f"  {peer.name}: not measured: {reason}")
        return
    port = free_port()
    with started(peer, bench.folder / peer.name, bench.provider, port) as gateway:
        try:
            ready = gateway.wait_ready(port, peer.ready, 180)
        except NotReady as problem:
            print(f"  {peer.name}: not measured: {problem}")
            return
        print(f"  {peer.name} {version(peer)}: ready after {ready:.2f} s, {gateway.megabytes():.0f} MB")
        for size, rounds in SIZES.items():
            for route, model in MODELS.items():
                wrk = Wrk(port, gateway, bench.folder)
                bench.show(f"{peer.name}, {route}, {size}", wrk, agent_request(model, rounds))
        print(f"  {peer.name}, after all of it: {gateway.megabytes():.0f} MB")


def _show_heads() -> None:
    print(
        f"  {'':<50}{'new bodies: CPU':>18}{'rate':>9}{'median':>13}   |{'same body: CPU':>18}{'rate':>9}{'median':>13}"
    )


def _half(measured: Measured) -> str:
    return f"{measured.cpu:15,.0f} us{measured.rate:7,.0f}/s{measured.p50:10,.2f} ms"


def _verdict(value: float, target: float) -> str:
    return "met" if value <= target else "MISSED"


def _against(value: float, target: float, unit: str) -> str:
    return f"{value:.2f} {unit} (target {target:g} {unit}: {_verdict(value, target)})"


if __name__ == "__main__":
    main()
