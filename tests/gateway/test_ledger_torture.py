"""Three gateways on one database, killed and paused at random under load: what they count is what the model received.

The run is short in every run of the slow tests, and has 50,000 requests where TOOLWIRE_TORTURE=full is set.
"""

import asyncio
import contextlib
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import FULL
from tests.gateway.processes import Gateway, Team, team
from toolwire.gateway.keys import limit_of, mint

COUNT = 50_000 if FULL else 1_500
AT_ONCE = 48
TIGHT = COUNT // 30
# How often each model is asked. Those that do not answer are left by their clients.
MODELS = {
    "local/answer": 60,
    "claude/answer": 20,
    "local/m": 10,
    "local/error": 4,
    "local/breaks": 2,
    "local/partial": 2,
    "claude/silent": 2,
}
LEFT = frozenset({"local/partial", "claude/silent"})
REFUSED = frozenset({429, 503})

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(3600)]


class Load:
    """Clients that ask three gateways, of which now and then one is killed, replaced or paused.

    The model `local/m` is asked with a key of its own, whose limit is reached.
    """

    def __init__(self, stood: Team) -> None:
        self.stood = stood
        self.tight, self.tight_key = mint("tight", (), [limit_of("requests", f"{TIGHT}/day")], time.time(), None)
        stood.ledger.add(self.tight_key)
        self.chance = random.Random(7)  # noqa: S311
        self.slots: list[Gateway] = []
        self.paused: Gateway | None = None
        self.statuses: Counter[int] = Counter()
        self.kills = self.pauses = self.asked = 0
        self.uncounted: list[str] = []
        self.done = False

    async def run(self) -> None:
        """Ask all requests, while the gateways are disturbed and the database is watched."""
        for _ in range(3):
            await self._start()
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        disturbing = asyncio.create_task(self._disturb())
        await asyncio.gather(*[self._ask_many() for _ in range(AT_ONCE)])
        self.done = True
        await disturbing
        await asyncio.to_thread(watcher.join)
        for gateway in self.slots:
            await asyncio.to_thread(gateway.stop)

    async def _start(self) -> None:
        self.slots.append(await asyncio.to_thread(self.stood.start))

    async def _disturb(self) -> None:
        starting: list[asyncio.Task[None]] = []
        while not self.done:
            await asyncio.sleep(self.chance.uniform(0.1, 0.8))
            gateway = self.chance.choice(self.slots)
            if len(self.slots) > 1 and self.chance.random() < 0.5:
                self.slots.remove(gateway)
                gateway.kill()
                self.kills += 1
                starting.append(asyncio.create_task(self._start()))
                continue
            gateway.pause()
            self.paused, self.pauses = gateway, self.pauses + 1
            await asyncio.sleep(self.chance.uniform(0.1, 2.0))
            gateway.go_on()
            self.paused = None
        await asyncio.gather(*starting)

    def _watch(self) -> None:
        """Look again and again whether the database counts less than the model has received, or more than a limit."""
        while not self.done:
            received = sum(self.stood.model.received.values()) - self.stood.model.received["m"]
            tight = self.stood.model.received["m"]
            taken, limited = self.stood.taken(), self._tight()
            if not (taken[0] >= received and min(taken) >= 0 and tight <= limited <= TIGHT):
                self.uncounted.append(f"{received} received, {taken} taken; {tight} received, {limited} taken")
            time.sleep(0.1)

    def _tight(self) -> int:
        [taken] = self.stood.ledger.taken(self.tight_key, time.time()).values()
        return taken

    async def _ask_many(self) -> None:
        while self.asked < COUNT:
            self.asked += 1
            model = self.chance.choices([*MODELS], [*MODELS.values()])[0]
            gateway = self.chance.choice([one for one in self.slots if one is not self.paused] or self.slots)
            try:
                async with asyncio.timeout(30):
                    self.statuses[await self._ask(gateway, model)] += 1
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                self.statuses[0] += 1
                await asyncio.sleep(0.05)

    async def _ask(self, gateway: Gateway, model: str) -> int:
        key = self.tight if model == "local/m" else self.stood.text
        streams = model in ("claude/answer", "local/breaks", "local/partial")
        body = json.dumps(
            {"model": model, "max_tokens": 20, "stream": streams, "messages": [{"role": "user", "content": "Hello"}]}
        ).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {key}\r\nconnection: close\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        try:
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            if model in LEFT:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.chance.uniform(0, 0.3)):
                        await reader.read()
                return 499
            answer = await reader.read()
            return int(answer.split(b" ", 2)[1]) if answer else 0
        finally:
            writer.transport.abort()


def left_over(stood: Team) -> tuple[int, list[int]]:
    """Count the requests that were started and never settled, and add up their estimates, of the key without `m`."""
    query = "SELECT kind, count(*), sum(amount) FROM toolwire_started WHERE key = '{}' GROUP BY kind"
    with stood.ledger._engine.begin() as connection:
        rows = connection.exec_driver_sql(query.format(stood.key.id)).all()
    found = {kind: (count, int(amount)) for kind, count, amount in rows}
    kinds = [limit.kind for limit in stood.key.limits]
    return max([0, *(count for count, _ in found.values())]), [found.get(kind, (0, 0))[1] for kind in kinds]


def ended(stood: Team) -> Iterator[dict[str, Any]]:
    """Read from the logs the requests that were sent to the model and ended, of the key without `m`."""
    for gateway in stood.gateways:
        for record in gateway.records():
            sent = record["status"] not in REFUSED and (record["status"] or record["input_tokens"] is not None)
            if sent and record["key"] == stood.key.id:
                yield record


@pytest.mark.row("O17")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_counted_is_what_the_model_received(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = "sqlite:///keys.db" if kind == "sqlite" else request.getfixturevalue("database").url
    limits = (limit_of("requests", "900000/day"), limit_of("tokens", "900000000/day"), limit_of("budget", "9000/day"))
    with team(tmp_path, url, *limits) as stood:
        load = Load(stood)
        began = time.monotonic()
        asyncio.run(load.run())
        seconds = time.monotonic() - began
        assert load.uncounted == []
        received = sum(stood.model.received.values()) - stood.model.received["m"]
        taken, (left, estimates), records = stood.taken(), left_over(stood), [*ended(stood)]
        used = [
            len(records),
            sum((one["input_tokens"] or 0) + (one["output_tokens"] or 0) for one in records),
            sum(round(one["cost"] * 1e9) for one in records),
        ]
        most = [1, max((one["input_tokens"] or 0) + (one["output_tokens"] or 0) for one in records), 10**6]
        twice = used[0] + left - taken[0]  # they ended, and their process was killed before that was written
        told = {
            "requests": COUNT,
            "seconds": round(seconds),
            "statuses": dict(load.statuses),
            "kills": load.kills,
            "pauses": load.pauses,
            "received": received,
            "taken": taken,
            "not settled": left,
            "ended and not written": twice,
            "started and not received": taken[0] - received,
            "limited, received, taken": (TIGHT, stood.model.received["m"], load._tight()),
        }
        sys.stdout.write(f"{json.dumps(told)}\n")
        assert 0 <= taken[0] - received <= left <= AT_ONCE * load.kills
        assert 0 <= twice <= left
        for at in range(3):
            whole = used[at] + estimates[at]
            assert whole - twice * most[at] <= taken[at] <= whole
        assert stood.model.received["m"] <= load._tight() <= TIGHT
        assert load.statuses[429] > 0
