"""Measure what the gateway adds to a request: nginx is the model, wrk the clients, one processor is the gateway's.

CPU time is that of the gateway's process for each request that was answered; what a proxy of nginx costs in the same
run stands beside it. nginx and wrk are Debian's: `apt-get install nginx-light wrk`; where they are absent it is said,
and nothing is measured.
"""

import argparse
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from gateway_peers import ABSENT, PEERS, Peer, missing, started

ANSWERS = {
    "/v1/chat/completions": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4.1",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_abcdefghijklmnop",
                            "type": "function",
                            "function": {"name": "read_file", "arguments": '{"path":"a.txt","limit":null}'},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    },
    "/v1/messages": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [
            {
                "type": "tool_use",
                "id": "toolu_abcdefghijklmnop",
                "name": "read_file",
                "input": {"path": "a.txt", "limit": None},
            }
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    },
}
TARGETS = {"1.4 KB": 450.0, "255 KB": 4000.0}  # CPU time, in us a request
READY, IDLE, LOADED, ADDED = 0.6, 80.0, 110.0, 0.35  # seconds, megabytes, megabytes, milliseconds at one client
ROUTES = {"chat > chat": "openai/gpt-4.1", "chat > messages": "anthropic/claude-sonnet-4-5"}


class Measured(NamedTuple):
    """What a run of wrk has shown."""

    cpu: float
    rate: float
    median: float
    bad: int


def question(model: str, rounds: int) -> bytes:
    """Write the request of a coding agent: a picture, two strict tools, and so many rounds of calls."""
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where."}, "limit": {"type": ["integer", "null"]}},
        "required": ["path", "limit"],
        "additionalProperties": False,
    }
    tools = [
        {
            "type": "function",
            "function": {"name": name, "description": f"{name} of it", "strict": True, "parameters": schema},
        }
        for name in ("read_file", "list_files")
    ]
    picture = "data:image/png;base64," + base64.b64encode(b"\x89PNG" + bytes(60)).decode()
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coding agent."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": picture}}],
        },
    ]
    for number in range(max(1, rounds)):
        name = f"call_{number:012}"
        function = {"name": "read_file", "arguments": json.dumps({"path": f"src/file{number}.py", "limit": None})}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": name, "type": "function", "function": function}],
            }
        )
        text = "a line of code\n" * (80 if rounds else 1)
        messages.append({"role": "tool", "tool_call_id": name, "content": text})
    messages += [{"role": "assistant", "content": "It is code."}, {"role": "user", "content": "And the other?"}]
    return json.dumps({"model": model, "messages": messages, "tools": tools}, separators=(",", ":")).encode()


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


@contextlib.contextmanager
def running(*command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program while this lasts."""
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def wait_for(port: int, seconds: float = 20) -> float:
    """Wait until somebody listens; give the seconds that it took."""
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return time.perf_counter() - start
        time.sleep(0.005)
    raise SystemExit(f"nothing listens on port {port}")


def spent(pid: int) -> float:
    """Give the CPU seconds of a process and its children so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(spent(int(one)) for one in children)


NGINX = """
worker_processes 1; daemon off; pid $FOLDER/pid; error_log $FOLDER/log; $USER
events { worker_connections 4096; }
http {
  access_log off; client_max_body_size 64m; client_body_buffer_size 2m; keepalive_requests 1000000000;
  client_body_temp_path $FOLDER/a; proxy_temp_path $FOLDER/b; fastcgi_temp_path $FOLDER/c;
  uwsgi_temp_path $FOLDER/d; scgi_temp_path $FOLDER/e;
  upstream model { server 127.0.0.1:$MODEL; keepalive 64; keepalive_requests 1000000000; }
  server { listen 127.0.0.1:$MODEL; default_type application/json; root $FOLDER; $PLACES }
  server {
    listen 127.0.0.1:$PROXY;
    location / { proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
"""
PLACE = "location = $PATH { try_files /$FILE.json =404; error_page 405 =200 /$FILE.json; }"


def nginx(folder: Path, model: int, proxy: int) -> Path:
    """Write the settings of nginx as a model, and as a proxy before it."""
    places = []
    for number, (path, answer) in enumerate(ANSWERS.items()):
        (folder / f"{number}.json").write_text(json.dumps(answer, separators=(",", ":")))
        places.append(Template(PLACE).substitute(PATH=path, FILE=number))
    known = {"FOLDER": folder, "MODEL": model, "PROXY": proxy, "PLACES": " ".join(places)}
    settings = folder / "nginx.conf"
    settings.write_text(Template(NGINX).substitute(known, USER="user root;" if os.geteuid() == 0 else ""))
    return settings


def measure(port: int, pid: int, body: bytes, folder: Path, seconds: int, clients: int, key: str = "") -> Measured:
    """Ask with wrk for some seconds."""
    script = folder / "wrk.lua"
    shown = f'wrk.headers["x-api-key"]="{key}"\n' if key else ""
    script.write_text(
        f'wrk.method="POST"\nwrk.headers["content-type"]="application/json"\n{shown}wrk.body=[==[{body.decode()}]==]\n'
    )
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    first = [*_pinned(0), "wrk", "-t1", f"-c{clients}", "-s", str(script)]
    subprocess.run([*first, "-d1s", url], check=True, capture_output=True)
    before = spent(pid)
    ran = subprocess.run([*first, f"-d{seconds}s", "--latency", url], check=True, capture_output=True, text=True)
    used, told = spent(pid) - before, ran.stdout
    requests = int((re.search(r"(\d+) requests in", told) or [0, 1])[1])
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", told)
    median = re.search(r"50%\s+([\d.]+)(us|ms|s)", told)
    unit = {"us": 1e-3, "ms": 1.0, "s": 1000.0}
    wait = float(median[1]) * unit[median[2]] if median else 0.0
    return Measured(1e6 * used / max(1, requests), requests / seconds, wait, int(bad[1]) if bad else 0)


def _pinned(processor: int) -> list[str]:
    many = (os.cpu_count() or 1) > 1 and shutil.which("taskset")
    return ["taskset", "-c", str(processor)] if many else []


def show(name: str, measured: Measured, target: float | None = None) -> None:
    """Print a line."""
    said = "" if target is None else f"   (target {target:,.0f} us: {'met' if measured.cpu <= target else 'MISSED'})"
    bad = f"   {measured.bad} REFUSED" if measured.bad else ""
    print(
        f"  {name:<52} {measured.cpu:8,.0f} us CPU a request   {measured.rate:8,.0f}/s   "
        f"median {measured.median:7.2f} ms{said}{bad}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    missing = [name for name in ("nginx", "wrk") if shutil.which(name) is None]
    if missing:
        print(f"gateway: not measured, for {' and '.join(missing)} is not here: apt-get install nginx-light wrk")
        return
    print("Gateway: nginx as model, wrk as clients, the gateway on one processor")
    with tempfile.TemporaryDirectory() as made:
        _measure_all(Path(made), options.seconds, options.clients)


LIMITS = ("--requests", "900000000/min", "--tokens", "900000000000/min", "--budget", "900000/day")


def _settings(folder: Path, model: int, name: str, server: str = "") -> str:
    """Write the settings of a gateway before nginx."""
    prices = "".join(f'"{route}" = {{ input = 1.0, output = 4.0 }}\n' for route in ROUTES.values())
    providers = "".join(
        f'[providers.{name}]\nbase_url = "http://127.0.0.1:{model}"\nkey = "$BENCH_KEY"\n'
        for name in ("openai", "anthropic")
    )
    file = folder / f"{name}.toml"
    file.write_text(f"{server}{providers}[prices]\n{prices}")
    return str(file)


def _measure_all(folder: Path, seconds: int, clients: int) -> None:
    model, proxy, port, guarded = free_port(), free_port(), free_port(), free_port()
    program = [sys.executable, "-m", "toolwire"]
    plain = _settings(folder, model, "plain")
    keys = _settings(folder, model, "keys", '[server]\ndatabase = "sqlite:///keys.db"\n')
    made = subprocess.run(
        [*program, "keys", "create", "--config", keys, "--name", "bench", *LIMITS], check=True, capture_output=True
    )
    key = made.stdout.decode().strip()
    serve = [*_pinned(1), *program, "serve", "--quiet", "--listen"]
    with (
        running(*_pinned(0), "nginx", "-c", str(nginx(folder, model, proxy)), "-p", str(folder)) as front,
        running(*serve, f"127.0.0.1:{port}", "--config", plain, BENCH_KEY="x") as gateway,
    ):
        _tell_start("toolwire", wait_for(port), gateway.pid)
        with running(*serve, f"127.0.0.1:{guarded}", "--config", keys, BENCH_KEY="x") as team:
            _tell_start("  with keys", wait_for(guarded), team.pid)
            _tell_added(folder, model, guarded, team.pid, front.pid, key)
            for size, rounds in (("1.4 KB", 0), ("255 KB", 195)):
                for name, asked in ROUTES.items():
                    body = question(asked, rounds)
                    what = f"{name}, {len(body) / 1000:.1f} KB"
                    show(f"toolwire, {what}", measure(port, gateway.pid, body, folder, seconds, clients), TARGETS[size])
                    measured = measure(guarded, team.pid, body, folder, seconds, clients, key)
                    show(f"  with keys and limits, {what}", measured, TARGETS[size])
                body = question("gpt-4.1", rounds)
                show(
                    f"nginx proxy_pass, {len(body) / 1000:.1f} KB",
                    measure(proxy, front.pid, body, folder, seconds, clients),
                )
            print(f"  with keys, after all of it: {_against(_megabytes(team.pid), LOADED, 'MB')}")
        for peer in PEERS:
            _measure_peer(peer, folder, model, seconds, clients)
        print(f"  {ABSENT}")


def _against(value: float, target: float, unit: str) -> str:
    """Write a figure beside its target."""
    return f"{value:.2f} {unit} (target {target:g} {unit}: {'met' if value <= target else 'MISSED'})"


def _tell_start(name: str, seconds: float, pid: int) -> None:
    print(f"  {name}: ready after {_against(seconds, READY, 's')}, idle {_against(_megabytes(pid), IDLE, 'MB')}")


def _tell_added(folder: Path, model: int, port: int, pid: int, front: int, key: str) -> None:
    """Print what the gateway adds to a small request of one client, over the model itself."""
    for name, asked in ROUTES.items():
        plain = measure(model, front, question("gpt-4.1", 0), folder, 3, 1)
        through = measure(port, pid, question(asked, 0), folder, 3, 1, key)
        print(f"  added at one client, {name}, with keys: {_against(through.median - plain.median, ADDED, 'ms')}")


def _measure_peer(peer: Peer, folder: Path, model: int, seconds: int, clients: int) -> None:
    """Measure another gateway, or say why not."""
    reason, port = missing(peer), free_port()
    if reason:
        print(f"  {peer.name}: not measured: {reason}")
        return
    with started(peer, folder, model, port, _pinned(1)) as process:
        try:
            print(f"  {peer.name}: ready after {wait_for(port, 90):.2f} s, {_megabytes(process.pid):.0f} MB")
        except SystemExit as problem:
            print(f"  {peer.name}: not measured: {problem}")
            return
        for rounds in (0, 195):
            for name, asked in peer.models.items():
                body = question(asked, rounds)
                measured = measure(port, process.pid, body, folder, seconds, clients)
                show(f"{peer.name}, {name}, {len(body) / 1000:.1f} KB", measured)
        print(f"  {peer.name}, after all of it: {_megabytes(process.pid):.0f} MB")


def _megabytes(pid: int) -> float:
    """Give the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
