"""Usage of gateways as processes: what is counted is what the model received, a question about millions of rows is
answered within a second, and to count costs little.

The run with kills has 50,000 requests where TOOLWIRE_TORTURE=full is set.
"""

import asyncio
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import FULL
from tests.gateway.processes import PRICES, ROOT, SETTINGS, Gateway, Model, Team, team
from tests.gateway.test_ledger_torture import AT_ONCE, COUNT, Load
from toolwire.gateway.keys import mint
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.starting import url_of_database
from toolwire.gateway.usage_queries import DAY, UsageQuery
from toolwire.gateway.usage_rows import UsageRow, day_of
from toolwire.gateway.usage_tables import UsageTables

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(3600)]

LOST_SECONDS = 1.0  # in which a process ran whose rows are lost if it is killed


class UnlimitedLoad(Load):
    """The same clients, with a key without limits beside the one that is refused when its limit is reached."""

    def __init__(self, stood: Team) -> None:
        super().__init__(stood)
        stood.text, stood.key = mint("free", (), (), time.time(), None, team="core")
        stood.ledger.add(stood.key)

    def _watch(self) -> None:
        """Watch nothing: the windows of limits are the other test's."""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_usage_is_what_the_model_received(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = "sqlite:///keys.db" if kind == "sqlite" else request.getfixturevalue("database").url
    with team(tmp_path, url) as stood:
        load = UnlimitedLoad(stood)
        asyncio.run(load.run())
        tables = UsageTables(url_of_database(url, str(tmp_path / "toolwire.toml")))
        rows = read(tables)
        assert len({row.request for row in rows}) == len(rows)
        by_request = {row.request: row for row in rows}
        unwritten, refused, oldest = list[dict[str, Any]](), Counter[int](), 0.0
        for gateway in stood.gateways:
            for record in gateway.records():
                if not record["key"] or record["path"] != "/v1/chat/completions":
                    continue
                if not record["provider"]:
                    refused[record["status"]] += 1
                elif (row := by_request.pop(record["request"], None)) is not None:
                    assert told_by(row) == told_by_log(record)
                else:
                    assert gateway.killed_at is not None, f"a row is missing: {record}"
                    ran = gateway.ran(time_of(record), gateway.killed_at)
                    assert ran < LOST_SECONDS, f"a row is missing: {record}"
                    oldest = max(oldest, ran)
                    unwritten.append(record)
        merged = Counter[int]()
        for row in by_request.values():
            assert not row.provider, f"nobody has asked for this: {row}"
            merged[row.status] += row.requests
        sums = tables.sums(UsageQuery(("day", "key", "provider", "model", "wire")))
        groups = {(row.day, row.key_name, row.provider, row.model, row.wire) for row in rows}
        received = sum(stood.model.received.values())
        answered = sum(row.requests for row in rows if row.provider)
        told = {
            "requests": COUNT,
            "kills": load.kills,
            "pauses": load.pauses,
            "received": received,
            "rows": len(rows),
            "answered": answered,
            "lost with killed processes": len(unwritten),
            "the oldest of them, in seconds": round(oldest, 2),
            "statuses": dict(load.statuses),
        }
        sys.stdout.write(f"{json.dumps(told)}\n")
        assert sum(one["requests"] for one in sums) == sum(row.requests for row in rows)
        assert sum(one["input_tokens"] for one in sums) == sum(row.input_tokens for row in rows)
        assert round(sum(one["cost"] for one in sums) * 1e9) == sum(row.cost_nano for row in rows)
        assert len(sums) == len(groups)
        # A process that is killed loses what it answered in its last second, and what it was still answering. A client
        # that leaves may do so before the model has received its request.
        left = sum(row.ending == "client gone" for row in rows) + sum(
            one["ending"] == "client gone" for one in unwritten
        )
        assert -left <= received - answered - len(unwritten) <= AT_ONCE * load.kills
        assert sum(row.status == 200 for row in rows) <= load.statuses[200] + left + load.statuses[0]
        assert sum(refused.values()) - AT_ONCE * load.kills <= sum(merged.values()) <= sum(refused.values())
        assert merged[429] > 0
        tables.close()


def read(tables: UsageTables) -> list[UsageRow]:
    """Read all rows."""
    with tables._engine.connect() as connection:
        return [UsageRow(**row) for row in connection.exec_driver_sql("SELECT * FROM toolwire_usage").mappings()]


def told_by(row: UsageRow) -> list[Any]:
    """Give what a row says of its request."""
    about = [row.key, row.key_name, row.wire, row.status, row.asked, row.ending, row.seconds, bool(row.estimated)]
    return [*about, row.provider, row.input_tokens, row.output_tokens, row.cost_nano]


def told_by_log(record: dict[str, Any]) -> list[Any]:
    """Give what the log says of a request."""
    names = ("key", "key_name", "wire", "status", "model", "ending", "seconds", "estimated")
    tokens = [record["input_tokens"] or 0, record["output_tokens"] or 0]
    provider = record["provider"].partition("/")[0]
    return [*(record[name] for name in names), provider, *tokens, round(record["cost"] * 1e9)]


def time_of(record: dict[str, Any]) -> float:
    """Return when a request ended, as the log says."""
    return datetime.fromisoformat(record["time"]).timestamp()


ROWS, DAYS, KEYS, MODELS = 5_000_000, 100, 50, 10
# Rows as `UsageRow` has them: each key asks each model on each day.
SEED = """
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {last}),
 named AS (SELECT n, n / {days} % {keys} AS key, n / {days} / {keys} % {models} AS model,
  {begin} + (n % {days}) * 86400.0 + (n / {days}) % 86400 AS time FROM numbers)
INSERT INTO toolwire_usage SELECT printf('%012x%012x', CAST(time * 1000 AS INTEGER), n), printf('tw_%024x', n), time,
 date(time, 'unixepoch'), printf('key%05d', key), 'key ' || key, 'team ' || (key % 5), 'ann', '', 'openai-chat',
 'answer', 'local/m', 'local', 'local/m' || model, 200, 'answer', 1, 1000 + n % 100, 50, 0, 0, 1000000 + n % 1000, 0,
 1.5, 0.5, 0, 0, 0 FROM named
"""
SUM_UP = """
INSERT INTO toolwire_usage_days SELECT printf('%032x', row_number() OVER ()), '', day, key, key_name, team, user_name,
 provider, model, wire, sum(requests), sum(input_tokens), sum(output_tokens), sum(cached_tokens),
 sum(cache_write_tokens), sum(cost_nano) FROM toolwire_usage
 GROUP BY day, key, key_name, team, user_name, provider, model, wire
"""


@pytest.fixture(scope="module")
def millions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Give the settings of a gateway with 5,000,000 rows of usage, and when they begin."""
    folder = tmp_path_factory.mktemp("millions")
    (folder / "toolwire.toml").write_text('[server]\ndatabase = "sqlite:///usage.db"\n[usage]\nkeep = "400d"\n')
    UsageTables(f"sqlite:///{folder / 'usage.db'}").close()
    begin = int(time.time() // DAY - DAYS + 1) * int(DAY)
    with sqlite3.connect(folder / "usage.db") as database:
        amounts = {"last": ROWS - 1, "begin": begin, "days": DAYS, "keys": KEYS, "models": MODELS}
        database.execute(SEED.format(**amounts))
        database.execute(SUM_UP)
        assert database.execute("SELECT count(*) FROM toolwire_usage").fetchone() == (ROWS,)
    return folder / "toolwire.toml", begin


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        (("--by", "day,key"), ROWS),
        (("--by", "key,model"), ROWS),
        (("--by", "day,key", "--since", "29d"), ROWS * 30 // DAYS),
        (("--by", "day,key", "--since", "36h"), None),
    ],
)
def test_a_question_about_five_million_rows_is_answered_within_a_second(
    millions: tuple[Path, int], options: tuple[str, ...], requests: int | None
) -> None:
    command = [sys.executable, "-m", "toolwire", "usage", "--config", str(millions[0]), "--json", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    seconds, elapsed = [], []
    for _ in range(3):
        began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        elapsed.append(time.monotonic() - began)
        seconds.append(after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime)
        assert ran.returncode == 0, ran.stderr
        listed = json.loads(ran.stdout)
        assert requests in (None, sum(one["requests"] for one in listed))
    told = f"{len(listed)} rows, {min(elapsed):.2f} s, of which {min(seconds):.2f} s of CPU"
    sys.stdout.write(f"{' '.join(options)}: {told}\n")
    assert min(seconds) < 1.0, "others that use this machine do not count"


def test_sums_and_rows_of_millions_agree(millions: tuple[Path, int]) -> None:
    folder, begin = millions[0].parent, millions[1]
    day = day_of(begin + 5 * DAY)
    tables = UsageTables(f"sqlite:///{folder / 'usage.db'}")
    summed = [one for one in tables.sums(UsageQuery(("day", "key"))) if one["day"] == day]
    with sqlite3.connect(folder / "usage.db") as database:
        query = "SELECT key_name, count(*), sum(cost_nano) FROM toolwire_usage WHERE day = ? GROUP BY key_name"
        counted = {key: (requests, cost) for key, requests, cost in database.execute(query, (day,))}
    assert {one["key"]: (one["requests"], round(one["cost"] * 1e9)) for one in summed} == counted
    tables.close()


TOGGLED = """
import signal, sys
from toolwire.cli import main
from toolwire.gateway import starting
made = starting.gateway_of
def toggled(*args, **options):
    gateway = made(*args, **options)
    usages = [gateway.context.usage, None]
    def toggle(*_):
        usages.reverse()
        gateway.context.usage = usages[0]
    signal.signal(signal.SIGUSR1, toggle)
    return gateway
starting.gateway_of = toggled
sys.exit(main(sys.argv[1:]))
"""
CLIENTS = 16
REQUESTS, ROUNDS = (1600, 40) if FULL else (1600, 8)
MOST = 1.1 if FULL else 1.15  # the short run is less exact


def cpu(gateway: Gateway) -> float:
    """Return the seconds of CPU that the threads of a gateway have used."""
    threads = Path(f"/proc/{gateway.process.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


async def ask_in_turn(gateways: Sequence[Gateway], key: str, run: str) -> None:
    """Ask each gateway in turn, with bodies that are new each time."""

    async def ask(client: int) -> None:
        connections = [await asyncio.open_connection("127.0.0.1", gateway.port) for gateway in gateways]
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {key}\r\n"
        for number in range(REQUESTS // CLIENTS):
            new = f"{run} {client} {number}: "
            messages = [{"role": "system", "content": new * 10}, {"role": "user", "content": new * 30}]
            body = json.dumps({"model": "local/m", "messages": messages}).encode()
            for reader, writer in connections:
                writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
                answer = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert b" 200 " in answer[:20], answer
                await reader.readexactly(int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        for _, writer in connections:
            writer.close()

    await asyncio.gather(*[ask(client) for client in range(CLIENTS)])


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the CPU time of a process is read from /proc")
def test_to_count_a_request_costs_little(tmp_path: Path) -> None:
    with Model() as model:
        settings = SETTINGS.format(database="sqlite:///keys.db", url=model.url, prices=PRICES)
        (tmp_path / "toolwire.toml").write_text(settings)
        ledger = LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}")
        text, key = mint("ci", (), (), time.time(), None)
        ledger.add(key)
        # Others use this machine, so both are asked at the same time: what slows one of them slows the other as well.
        counting, silent = [Gateway(tmp_path, name, ("-c", TOGGLED)) for name in ("one", "other")]
        used = {"with": 0.0, "without": 0.0}
        try:
            asyncio.run(ask_in_turn((counting, silent), text, "warm"))
            time.sleep(0.6)  # until the rows are written
            silent.process.send_signal(signal.SIGUSR1)
            for number in range(ROUNDS):
                before = cpu(counting), cpu(silent)
                asyncio.run(ask_in_turn((counting, silent), text, f"run {number:03}"))
                time.sleep(0.6)
                used["with"] += cpu(counting) - before[0]
                used["without"] += cpu(silent) - before[1]
                counting, silent = silent, counting
                for gateway in (counting, silent):
                    gateway.process.send_signal(signal.SIGUSR1)
        finally:
            counting.stop()
            silent.stop()
            ledger.close()
        one, other = (1e6 * seconds / REQUESTS / ROUNDS for seconds in used.values())
        told = f"CPU of a request: {one:.0f} us with usage, {other:.0f} us without, {one / other:.3f} times"
        sys.stdout.write(f"{told}\n")
        tables = UsageTables(f"sqlite:///{tmp_path / 'keys.db'}")
        assert tables.sums(UsageQuery(("key",)))[0]["requests"] == REQUESTS * (ROUNDS + 2)
        assert one <= MOST * other
        tables.close()
