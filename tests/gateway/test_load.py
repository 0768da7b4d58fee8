"""Under load: a thousand streams, clients that read or send nothing, and clients that go away in each window.

The floods have a gateway in a process of its own and, where there is `unshare`, a network of their own. They are short
in every run, and full where TOOLWIRE_TORTURE=full is set.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import FULL
from tests.gateway.standing import Stood, standing
from tests.gateway.test_clients import connect, head, question, slow_model, until
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.keys import limit_of, mint
from toolwire.gateway.ledger import LimitLedger

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def flood(what: str, count: int, seconds: float) -> dict[str, Any]:
    """Run a flood, alone in a network where that is possible."""
    command = [sys.executable, "-m", "tests.gateway.floods", what, str(count), str(seconds)]
    unshare = shutil.which("unshare")
    alone = unshare is not None and subprocess.run([unshare, "-rn", "true"], check=False).returncode == 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    if alone and unshare is not None:
        command, environment = [unshare, "-rn", *command], {**environment, "FLOODS_ALONE": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    sys.stdout.write(f"{what}: {ran.stdout}\n")
    return told


@pytest.mark.row("O16")
def test_many_streams_for_long_take_no_more_memory() -> None:
    count, seconds = (1000, 600.0) if FULL else (150, 24.0)
    told = flood("streams", count, seconds)
    assert told["streams"] == count, "each of them still runs"
    assert told["least read"] > 0
    assert told["slope MB/min"] < (1.0 if FULL else 4.0)
    assert told["MB"][-1] < told["idle MB"] + 0.1 * count + 20
    assert told["files left"] <= 4, "connections are let go of with their clients"


def test_a_gateway_that_keeps_what_it_handed_on_is_found_out() -> None:
    assert flood("leak", 150, 24.0)["slope MB/min"] > 10.0


@pytest.mark.row("O15")
def test_clients_that_read_nothing_are_held_and_others_are_served() -> None:
    count = 1000 if FULL else 150
    told = flood("readers", count, 10.0 if FULL else 3.0)
    assert told["MB later"] - told["MB when full"] < 5
    assert told["MB later"] < told["idle MB"] + 0.6 * count + 10, "what waits for a client is bounded"
    assert told["meanwhile ms"] < 2 * told["usual ms"] + 200


@pytest.mark.row("O12")
def test_clients_that_never_finish_a_request_are_given_up_and_others_are_served() -> None:
    count = 1000 if FULL else 200  # a quarter of the connections may wait for one address
    told = flood("senders", count, 150.0)
    assert told["closed"] == count // 2, "a head has fifteen seconds"
    assert told["408"] == count // 2, "and a body sixty"
    assert told["all ended after s"] < 120
    assert told["asked for them"] == 0
    assert told["meanwhile ms"] < 2 * told["usual ms"] + 200


HALVES = [
    "half heads of another address",
    "half heads of the same address",
    "half heads of many addresses",
    "half bodies of another address",
    "half bodies of the same address",
    "idle connections of another address",
]


@pytest.mark.alone
@pytest.mark.row("O12")
@pytest.mark.parametrize("halves", HALVES)
def test_connections_without_a_whole_request_take_no_place_from_those_with_one(halves: str) -> None:
    told = flood(halves, 5000, 4.0)
    assert told["answered"] == 20
    assert told["slowest s"] < 1
    assert told["files of the gateway"] < 2048 + 50, "half of its connections may wait"


WINDOWS = ["before the first byte", "in the middle", "not streamed", "after a call", "after the last byte"]


@pytest.mark.row("O13")
@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("size", [5, 300_000])
def test_clients_that_go_away_in_any_window_are_settled_once_each(
    window: str, how: str, size: int, tmp_path: Path
) -> None:
    asyncio.run(_leave(window, how, 200 if FULL else 40, size, tmp_path))


class _Turns:
    """A model that answers as far as a window says, and then waits for its client to leave."""

    def __init__(self, window: str) -> None:
        self.window, self.open, self.asked = window, 0, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        self.open += 1
        kind = b"application/json" if self.window == "not streamed" else b"text/event-stream"
        if self.window != "before the first byte":
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: " + kind + b"\r\n\r\n" + self._words())
        try:
            while self.window != "after the last byte" and await reader.read(65_536):
                continue
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()

    def _words(self) -> bytes:
        call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        delta: dict[str, Any] = {"tool_calls": [call]} if self.window == "after a call" else {"content": "word"}
        said = b'{"choices":' if self.window == "not streamed" else _frame({"index": 0, "delta": delta})
        if self.window != "after the last byte":
            return said
        return said + _frame({"index": 0, "delta": {}, "finish_reason": "stop"}) + b"data: [DONE]\n\n"


def _frame(choice: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps({"id": "x", "choices": [choice]}).encode() + b"\n\n"


WAITED: dict[str, bytes] = {
    "in the middle": b"word",
    "after a call": b"tool_use",
    "after the last byte": b"message_stop",
}


async def _leave(window: str, how: str, count: int, size: int, folder: Path) -> None:
    url = f"sqlite:///{folder / 'keys.db'}"
    ledger = LimitLedger(url)
    limits = [limit_of("requests", "100000/day"), limit_of("tokens", "100000000/day")]
    text, key = mint("ci", [], limits, time.time(), None)
    ledger.add(key)
    model = _Turns(window)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    place = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with standing(place, accounts=Accounts(LimitLedger(url))) as stood:
        path, body = question("anthropic", "openai/m", stream=window != "not streamed", text="x" * size)
        asked = head(path, body).replace(b"\r\n\r\n", f"\r\nx-api-key: {text}\r\n\r\n".encode()) + body
        held = []
        for _ in range(count):
            reader, writer = await connect(stood.url)
            writer.write(asked)
            held.append((reader, writer))
        await until(lambda: model.asked == count, 60)
        for reader, _ in held if window in WAITED else ():
            await asyncio.wait_for(reader.readuntil(WAITED[window]), 60)
        for _, writer in held:
            writer.transport.abort() if how == "rst" else writer.close()
        assert await until(lambda: model.open == 0, 60) < 1 + count / 50, "each provider is let go of"
        await _settled(stood, lambda: [*ledger.taken(key, time.time()).values()], window, count)
    with ledger._engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM toolwire_started").scalar_one() == 0
    server.close()
    ledger.close()


async def _settled(stood: Stood, taken: Callable[[], list[int]], window: str, count: int) -> None:
    await until(lambda: len(stood.seen) == count, 30)
    await asyncio.sleep(1)
    endings = {record["ending"] for record in stood.seen}
    assert endings == ({"answer"} if window == "after the last byte" else {"client gone"})
    assert len({record["request"] for record in stood.seen}) == len(stood.seen) == count
    tokens = sum((record["input_tokens"] or 0) + (record["output_tokens"] or 0) for record in stood.seen)
    assert taken() == [count, tokens], "what was reserved is settled, once"


def test_a_model_that_is_left_is_seen_to_be_left() -> None:
    async def left() -> None:
        async with slow_model() as (model, url):
            reader, writer = await connect(url)
            path, body = question("openai-chat", "m")
            writer.write(head(path, body) + body)
            await reader.readuntil(b"word")
            assert model.open == 1
            writer.transport.abort()
            await until(lambda: model.open == 0, 5)

    asyncio.run(left())
