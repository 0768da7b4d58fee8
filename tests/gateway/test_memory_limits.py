"""The limits of what a gateway stores: checked by each write, for its key and for all, and what they delete."""

import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import openai
import pytest
import sqlalchemy as sql
from websockets.asyncio.client import connect

from tests.amounts import FULL
from tests.cli.test_serve import first_line
from tests.gateway.floods import memory_of
from tests.gateway.pairs import Client, message, pair, words_of
from tests.gateway.standing import Answered, send, standing
from tests.gateway.test_keys import Guarded, guarded
from tests.gateway.test_sockets import create, heard, opened, until
from tests.gateway.test_stored import client_of
from toolwire.gateway.entries import Item, StoredEntry
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.memory import ProcessMemory, StoredMemory
from toolwire.gateway.reports import Reports
from toolwire.gateway.starting import url_of_database
from toolwire.testing import Scenario, Wait, simulate
from toolwire.types import Loss, Text

__all__ = ["guarded"]

SIZE, SHARE = 40_000, 10_000
KILO = b"x" * 1000
Kept = ProcessMemory | StoredMemory


class Clock:
    """A time that goes on by itself, a little with each look."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture(params=["process", "sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Kept, Clock]]:
    clock, kept = Clock(), cast("Kept", None)
    match request.param:
        case "process":
            kept = ProcessMemory(SIZE, 6000, clock, share=SHARE)
        case "sqlite":
            kept = StoredMemory(f"sqlite:///{tmp_path / 'memory.db'}", SIZE, 6000, clock, share=SHARE)
        case _:
            url = url_of_database(request.getfixturevalue("database").url, None)
            kept = StoredMemory(url, SIZE, 6000, clock, share=SHARE)
    yield kept, clock
    kept.close()


def sums(kept: Kept) -> dict[str, int]:
    """Give the bytes of each owner: counted anew from what is there, and the same as what was counted on the way."""
    if isinstance(kept, ProcessMemory):
        counted = {name: owner.bytes for name, owner in kept._owners.items()}
        real = {name: sum(one.bytes for one in owner.entries.values()) for name, owner in kept._owners.items()}
        assert kept.bytes == sum(counted.values())
    else:
        with kept._tables._engine.connect() as connection:
            counted = _query(connection, "SELECT owner, bytes FROM toolwire_memory_usage WHERE bytes > 0")
            real = _query(connection, "SELECT owner, sum(bytes) FROM toolwire_memory_entries GROUP BY owner")
            values = _query(
                connection,
                "SELECT owner, sum(length(value)) FROM (SELECT owner, value FROM toolwire_memory_entries"
                " UNION ALL SELECT owner, value FROM toolwire_memory_items) AS every GROUP BY owner",
            )
            assert all(size <= counted[owner] for owner, size in values.items())
            [left] = connection.exec_driver_sql(
                "SELECT count(*) FROM toolwire_memory_items WHERE NOT EXISTS (SELECT 1 FROM toolwire_memory_entries e"
                " WHERE e.owner = toolwire_memory_items.owner AND e.key = toolwire_memory_items.key)"
            ).scalars()
            assert left == 0, "items of entries that are gone"
    assert counted == real
    return real


def _query(connection: sql.Connection, text: str) -> dict[str, int]:
    return {owner: int(size) for owner, size in connection.exec_driver_sql(text)}


async def keys_in(kept: Kept, owner: str, count: int, name: str = "k") -> list[int]:
    """Say which entries are there, and use none of them."""
    if isinstance(kept, ProcessMemory):
        there = set(kept._owners[owner].entries) if owner in kept._owners else set()
    else:
        with kept._tables._engine.connect() as connection:
            asked = sql.text("SELECT key FROM toolwire_memory_entries WHERE owner = :owner")
            there = set(connection.execute(asked, {"owner": owner}).scalars())
    return [at for at in range(count) if f"{name}{at}" in there]


async def _keep(kept: Kept, owner: str, key: str) -> None:
    await kept.keep(owner, [(key, KILO)])


async def _write(kept: Kept, owner: str, key: str) -> None:
    assert await kept.write(owner, key, StoredEntry(KILO, items=[Item(f"item:{key}")]))


async def _append(kept: Kept, owner: str, key: str) -> None:
    assert await kept.write(owner, key, StoredEntry(b"{}"))
    assert (await kept.append(owner, key, [Item(f"{key}-{at}", KILO[:250]) for at in range(4)], SIZE)).is_added


async def _replace(kept: Kept, owner: str, key: str) -> None:
    assert await kept.write(owner, key, StoredEntry(b"{}"))
    assert await kept.replace(owner, key, StoredEntry(KILO))


async def _rename(kept: Kept, owner: str, key: str) -> None:
    assert await kept.write(owner, key, StoredEntry(b"{}", items=[Item("a", KILO[:500])]))
    assert await kept.replace(owner, key, StoredEntry(KILO[:500]), items=False)


WRITES: list[Callable[[Kept, str, str], Awaitable[None]]] = [_keep, _write, _append, _replace, _rename]


@pytest.mark.parametrize("write", WRITES)
def test_at_its_limit_a_key_loses_what_it_used_longest_ago_and_others_lose_nothing(
    write: Callable[[Kept, str, str], Awaitable[None]], stored: tuple[Kept, Clock]
) -> None:
    async def lead() -> None:
        kept, _ = stored
        for at in range(4):
            await write(kept, "you", f"k{at}")
        for at in range(20):
            await write(kept, "me", f"k{at}")
            assert at % 4 or sums(kept)["me"] <= SHARE
        there = await keys_in(kept, "me", 20)
        assert there == list(range(20 - len(there), 20)), "the oldest are gone, and no others"
        assert sums(kept)["me"] > SHARE - 3 * 1500
        assert await keys_in(kept, "you", 4) == list(range(4))

    asyncio.run(lead())


@pytest.mark.parametrize("write", WRITES)
def test_at_the_limit_of_all_who_holds_most_loses_what_it_used_longest_ago(
    write: Callable[[Kept, str, str], Awaitable[None]], stored: tuple[Kept, Clock]
) -> None:
    async def lead() -> None:
        kept, _ = stored
        for at in range(3):
            await write(kept, "small", f"k{at}")
        for owner in ("a", "b", "c", "d", "e"):
            for at in range(10):
                await write(kept, owner, f"k{at}")
                assert at % 4 or sum(sums(kept).values()) <= SIZE
        held = sums(kept)
        assert await keys_in(kept, "small", 3) == [0, 1, 2]
        most = [held[owner] for owner in "abcde"]
        assert max(most) - min(most) < 2 * 1600, "who held most gave first"
        for owner in "abcde":
            there = await keys_in(kept, owner, 10)
            assert there == list(range(10 - len(there), 10))

    asyncio.run(lead())


def test_what_is_read_stays_longer(stored: tuple[Kept, Clock]) -> None:
    async def lead() -> None:
        kept, clock = stored
        for at in range(6):
            assert await kept.write(
                "me", f"k{at}", StoredEntry(KILO, "k0" if at == 1 else "", items=[Item(f"item:{at}")])
            )
        clock.now += 100
        assert await kept.read("me", "k3") is not None
        assert len(await kept.read_chain("me", "k1")) == 2
        assert len(await kept.read_named("me", ["item:5"])) == 1
        assert list(await kept.find("me", ["k0"])) == ["k0"]
        if isinstance(kept, StoredMemory):
            kept._writing.submit(lambda: None).result()  # what was read is noted
        clock.now += 1
        for at in range(6, 9):
            assert await kept.write("me", f"k{at}", StoredEntry(KILO))
        assert await keys_in(kept, "me", 9) == [0, 1, 3, 5, 6, 7, 8]

    asyncio.run(lead())


def test_a_database_is_told_of_a_use_once_a_minute(tmp_path: Path) -> None:
    async def lead() -> None:
        clock, touched = Clock(), list[Any]()
        kept = StoredMemory(f"sqlite:///{tmp_path / 'm.db'}", SIZE, 6000, clock)
        touch = kept._tables.touch
        kept._tables.touch = lambda owner, keys: touched.append(list(keys)) or touch(owner, keys)  # type: ignore[func-returns-value, method-assign]
        await kept.write("me", "a", StoredEntry(KILO))
        for seconds, expected in ((30, []), (31, [["a"]]), (30, [["a"]]), (40, [["a"], ["a"]])):
            clock.now += seconds
            for _ in range(5):
                assert await kept.read("me", "a") is not None
                kept._writing.submit(lambda: None).result()
            assert touched == expected
        kept.close()

    asyncio.run(lead())


def test_what_is_more_than_a_key_may_store_is_not_stored(stored: tuple[Kept, Clock]) -> None:
    async def lead() -> None:
        kept, _ = stored
        await kept.write("me", "a", StoredEntry(KILO))
        large = StoredEntry(b"x" * SHARE)
        assert not await kept.write("me", "b", large)
        assert not await kept.replace("me", "a", large)
        assert (await kept.append("me", "a", [Item("i", large.value)], SIZE)).too_long
        assert (await kept.append("me", "a", [Item("i", KILO)], 1500)).too_long
        await kept.keep("me", [("c", large.value)])
        assert list(sums(kept)) == ["me"]
        assert (await kept.read("me", "a", items=True)) == StoredEntry(KILO, "", [])
        assert await kept.read("me", "b") is None
        assert dict(await kept.find("me", ["c"])) == {}

    asyncio.run(lead())


def test_an_entry_has_its_items_in_order_and_each_name_once(stored: tuple[Kept, Clock]) -> None:
    async def lead() -> None:
        kept, _ = stored
        nul = "a\0\U0001f600" + "n" * 200  # a name that no column of PostgreSQL holds
        assert not (await kept.append("me", "c", [Item("a", b"1")], SIZE)).found
        assert await kept.write("me", "c", StoredEntry(b"{}", items=[Item("b", b"1"), Item("a", b"2")]))
        assert (await kept.append("me", "c", [Item(nul, b"3"), Item("0", b"4")], SIZE)).is_added
        assert (await kept.append("me", "c", [Item("d", b"5"), Item("a", b"6"), Item(nul, b"7")], SIZE)).taken == {
            "a",
            nul,
        }
        assert await kept.delete_item("me", "c", "0")
        assert not await kept.delete_item("me", "c", "0")
        assert (await kept.append("me", "c", [Item("e", b"8")], SIZE)).is_added
        assert await kept.replace("me", "c", StoredEntry(b'{"a":1}'), items=False)
        read = await kept.read("me", "c", items=True)
        assert read is not None
        assert (read.value, [item.value for item in read.items]) == (b'{"a":1}', [b"1", b"2", b"3", b"8"])
        assert not await kept.delete_item("you", "c", "a")
        assert not await kept.delete("you", "c")
        assert await kept.delete("me", "c")
        assert not await kept.delete("me", "c")
        assert not await kept.replace("me", "c", StoredEntry(b"{}"))
        assert not (await kept.append("me", "c", [Item("a", b"1")], SIZE)).found
        assert sums(kept) == {}

    asyncio.run(lead())


def test_a_chain_is_read_at_once_and_ends_where_it_is_cut(stored: tuple[Kept, Clock]) -> None:
    async def lead() -> None:
        kept, clock = stored
        for at in range(5):
            await kept.write("me", f"k{at}", StoredEntry(b"%d" % at, f"k{at - 1}" if at else "", [Item(f"item:{at}")]))
        await kept.write("me", "round", StoredEntry(b"r", "round"))
        await kept.write("you", "k2", StoredEntry(b"other", "k4"))
        assert await kept.read_chain("me", "k4") == [b"4", b"3", b"2", b"1", b"0"]
        assert await kept.read_chain("me", "round") == [b"r"]
        assert await kept.read_chain("me", "none") == []
        named = await kept.read_named("me", ["item:1", "item:3", "item:9"])
        assert sorted(named) == [(b"1", ["item:1"]), (b"3", ["item:3"])]
        await kept.delete("me", "k2")
        assert await kept.read_chain("me", "k4") == [b"4", b"3"]
        clock.now += 6001
        assert await kept.read_chain("me", "k4") == []
        assert await kept.read_named("me", ["item:3"]) == []
        assert not await kept.delete("me", "k4")

    asyncio.run(lead())


@pytest.mark.parametrize("seed", range(2))
def test_what_is_counted_is_what_is_there_whatever_is_done(seed: int, stored: tuple[Kept, Clock]) -> None:
    async def lead() -> None:
        kept, clock = stored
        chance = random.Random(seed)  # noqa: S311 - a game
        for _ in range(100):
            owner, key = chance.choice("abcdef"), f"k{chance.randrange(8)}"
            clock.now += chance.choice((0, 0, 0, 30, 400))
            items = [Item(f"i{chance.randrange(9)}", chance.choice((None, KILO * chance.randrange(4))))]
            match chance.randrange(8):
                case 0 | 1:
                    await kept.write(owner, key, StoredEntry(KILO * chance.randrange(9), items=items))
                case 2 | 3:
                    await kept.append(owner, key, items, SHARE)
                case 4:
                    await kept.replace(owner, key, StoredEntry(KILO * chance.randrange(9)), items=chance.random() < 0.5)
                case 5:
                    await kept.keep(owner, [(key, KILO), (f"{key}-", KILO * 3)])
                case 6:
                    await kept.delete_item(owner, key, items[0].name)
                case _:
                    await (kept.delete if chance.random() < 0.3 else kept.read)(owner, key)
            held = sums(kept)
            assert max(held.values(), default=0) <= SHARE
            assert sum(held.values()) <= SIZE

    asyncio.run(lead())


def test_two_that_write_at_once_stay_within_the_limits(tmp_path: Path) -> None:
    _write_at_once(f"sqlite:///{tmp_path / 'm.db'}")


@pytest.mark.slow
def test_two_that_write_at_once_stay_within_the_limits_of_postgresql(request: pytest.FixtureRequest) -> None:
    _write_at_once(url_of_database(request.getfixturevalue("database").url, None))


def _write_at_once(url: str) -> None:
    async def write(kept: StoredMemory, number: int) -> None:
        for at in range(30):
            await kept.write(f"o{at % 7}", f"{number}-{at}", StoredEntry(KILO, items=[Item("a", KILO)]))
            await kept.append(f"o{at % 7}", f"{number}-{at}", [Item("b", KILO)], SHARE)

    async def lead() -> None:
        both = [StoredMemory(url, SIZE, 600, share=SHARE) for _ in range(2)]
        await asyncio.gather(*(write(kept, number) for number, kept in enumerate(both)))
        held = sums(both[0])
        assert sum(held.values()) <= SIZE
        assert sum(held.values()) > SIZE - 2 * 4000
        assert max(held.values()) <= SHARE
        for kept in both:
            kept.close()

    asyncio.run(lead())


@pytest.mark.slow
def test_who_waits_too_long_for_another_process_is_told_and_reads_meanwhile(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolwire.gateway.memory_tables._PATIENCE", "1s")
    url = url_of_database(request.getfixturevalue("database").url, None)
    engine = sql.create_engine(url)

    async def lead() -> None:
        kept = StoredMemory(url, SIZE, 600)
        await kept.write("me", "a", StoredEntry(KILO))
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT * FROM toolwire_memory_usage FOR UPDATE")
            late = asyncio.ensure_future(kept.append("me", "a", [Item("i", KILO)], SIZE))
            for _ in range(5):
                assert (await kept.read("me", "a")) == StoredEntry(KILO)
            assert not late.done()
            with pytest.raises(GatewayError) as refused:
                await asyncio.wait_for(late, 8)
            assert refused.value.error.status == 503
        assert (await kept.append("me", "a", [Item("i", KILO)], SIZE)).is_added
        kept.close()

    asyncio.run(lead())
    engine.dispose()


@pytest.mark.slow
def test_what_a_process_was_stopped_in_is_undone(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolwire.gateway.memory_tables._PATIENCE", "1s")
    url = url_of_database(request.getfixturevalue("database").url, None)

    async def lead() -> None:
        kept, stopped = StoredMemory(url, SIZE, 600), StoredMemory(url, SIZE, 600)
        await kept.write("me", "a", StoredEntry(KILO))
        with stopped._tables._engine.connect() as connection:
            stopped._tables._count(connection, "me", 100)
            await asyncio.sleep(1.5)
            assert (await kept.append("me", "a", [Item("i", KILO)], SIZE)).is_added
            with pytest.raises(sql.exc.DBAPIError):
                stopped._tables._commit(connection, "me", 0, 0)
        assert sums(kept)["me"] > 0
        kept.close()
        stopped.close()

    asyncio.run(lead())


def test_what_an_earlier_version_has_stored_is_deleted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'm.db'}"
    with sql.create_engine(url).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE toolwire_memory (owner TEXT, key TEXT, value BLOB, at REAL)")
    kept = StoredMemory(url, SIZE, 600)
    assert not [name for name in sql.inspect(kept._tables._engine).get_table_names() if name == "toolwire_memory"]
    kept.close()


def test_reports_have_so_many_losses_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.gateway.reports._LOSSES", 10)
    reports, losses = Reports(), tuple(Loss(f"messages[{at}]", "x", "dropped", "", "minor") for at in range(4))
    for name in "abc":
        reports.file(name, "me", "m", "g", losses)
    assert [name for name in "abc" if reports.find(name, "me")] == ["b", "c"]
    reports.file("d", "me", "m", "g", losses * 5)
    assert [name for name in "abcd" if reports.find(name, "me")] == ["d"]


def asked(guarded: Guarded, key: str, method: str, path: str, body: Any = None) -> Answered:
    """Ask with a key."""
    data = None if body is None else json.dumps(body).encode()
    return send(guarded.stood.url, method, path, data, {"authorization": f"Bearer {key}"})


def test_what_stores_something_is_a_request_of_its_key(guarded: Guarded) -> None:
    key = guarded.make(requests="4/day")
    made = json.loads(asked(guarded, key, "POST", "/v1/conversations", {"items": [message("a")]}).data)
    path = f"/v1/conversations/{made['id']}"
    assert asked(guarded, key, "POST", f"{path}/items", {"items": [message("b")]}).status == 200
    assert asked(guarded, key, "POST", path, {"metadata": {"a": "b"}}).status == 200
    assert asked(guarded, key, "POST", path, {"metadata": 1}).status == 400  # nothing was stored: it is not counted
    assert asked(guarded, key, "POST", "/v1/conversations/conv_0/items", {"items": []}).status == 404
    with opened(guarded.stood.url, Authorization=f"Bearer {key}") as socket:
        create(socket, input="Hello", generate=False)
        assert heard(socket)[-1]["type"] == "response.completed"
        for more in ({"generate": False}, {"prompt_cache_options": {"prewarm": True}}, {"model": "openai/m"}):
            create(socket, input="Hello", stream_id="a", **more)
            told = heard(socket)[-1]
            assert (told["type"], told["status"], told["stream_id"]) == ("error", 429, "a")
            assert told["error"]["code"] == "limit_reached"
            assert int(told["headers"]["retry-after"]) > 0
    for refused in (
        asked(guarded, key, "POST", "/v1/conversations", {}),
        asked(guarded, key, "POST", f"{path}/items", {"items": [message("c")]}),
        asked(guarded, key, "POST", path, {"metadata": {}}),
        asked(guarded, key, "POST", "/v1/responses", {"model": "anthropic/m", "input": "x"}),
    ):
        assert (refused.status, json.loads(refused.data)["error"]["code"]) == (429, "limit_reached")
        assert int(refused.headers["retry-after"]) > 0
    for _ in range(3):  # who reads or deletes needs none
        assert asked(guarded, key, "GET", path).status == asked(guarded, key, "GET", f"{path}/items").status == 200
    assert asked(guarded, key, "DELETE", path).status == 200
    [kept] = guarded.ledger.listed()
    until(lambda: list(guarded.ledger.taken(kept, time.time()).values()) == [4])
    assert list(guarded.ledger.taken(kept, time.time()).values()) == [4]


def test_a_key_that_was_revoked_stores_nothing_on_an_open_connection(guarded: Guarded) -> None:
    key = guarded.make()
    with opened(guarded.stood.url, Authorization=f"Bearer {key}") as socket:
        create(socket, input="Hello", generate=False)
        assert heard(socket)[-1]["type"] == "response.completed"
        guarded.ledger.revoke(guarded.ledger.listed()[0].id, time.time())
        time.sleep(0.5)
        create(socket, input="Hello", generate=False)
        assert heard(socket)[-1]["status"] == 401


def test_connections_of_one_key_share_what_it_may_hold_and_leave_nothing() -> None:
    connected = ProcessMemory(SIZE, 60, share=SHARE)
    with simulate([], strict=False) as model, standing(model.url, connected=connected) as stood:
        with opened(stood.url) as one, opened(stood.url) as other:
            names = []
            for at in range(60):
                create(one if at % 2 else other, input="x" * 1000, generate=False)
                names.append(heard(one if at % 2 else other)[-1]["response"]["id"])
                assert connected.bytes <= SHARE
            create(one, input="x" * SHARE, generate=False)
            assert heard(one)[-1]["error"]["param"] == "input"
            create(other, input="x", previous_response_id=names[1])
            assert heard(other)[-1]["error"]["code"] == "previous_response_not_found"
            assert connected.bytes > 0
        until(lambda: connected.bytes == 0)
        assert connected.bytes == 0
        assert connected._owners == {}


def test_a_connection_knows_its_last_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.gateway.sockets._TURNS", 3)
    connected = ProcessMemory(1 << 20, 60)
    with (
        simulate(lambda request, _turn: str(len(request.messages)), strict=False) as model,
        standing(model.url, connected=connected) as stood,
        opened(stood.url) as socket,
    ):
        names = []
        for _ in range(6):
            create(socket, input="x", generate=False)
            names.append(heard(socket)[-1]["response"]["id"])
        create(socket, input="y", previous_response_id=names[0])
        assert heard(socket)[-1]["error"]["code"] == "previous_response_not_found"
        create(socket, input="y", previous_response_id=names[5])
        assert heard(socket)[-1]["type"] == "response.completed"


def test_what_waits_for_an_answer_is_bounded() -> None:
    turns = [[Text("One"), Wait(0.5), Text(".")]] * 2
    with (
        simulate(Scenario(turns, complete=False), strict=False) as model,
        standing(model.url) as stood,
        opened(stood.url) as socket,
    ):
        create(socket, input="Hello")
        name = heard(socket, "response.created")[-1]["response"]["id"]
        added = {"type": "response.steer", "previous_response_id": name, "input": "x" * 600_000}
        for kind in ("response.steer.accepted", "response.steer.failed"):
            socket.send(json.dumps(added))
            told = heard(socket, "response.steer.accepted", "response.steer.failed")[-1]
            assert told["type"] == kind
        assert told["error"]["code"] == "too_many_pending_steers"


SERVED = """
[server]
listen = "127.0.0.1:0"
database = "sqlite:///toolwire.db"
auth = "none"
[memory]
bytes = {size}
[providers.anthropic]
base_url = "{model}"
key = "$LIMITS_KEY"
"""


def served(folder: Path, model: str, size: int = 4_000_000) -> "subprocess.Popen[str]":
    """Start a gateway without keys, and with a database."""
    file = folder / "toolwire.toml"
    file.write_text(SERVED.format(model=model, size=size))
    command = [sys.executable, "-m", "toolwire", "serve", "--quiet", "--config", str(file)]
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    return subprocess.Popen(command, env={**os.environ, "LIMITS_KEY": "k"}, **streams)


def ended(process: "subprocess.Popen[str]") -> None:
    """End a gateway."""
    process.kill()
    process.wait(10)
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a file is that of Linux")
def test_a_full_disk_fails_what_is_stored_and_nothing_else(tmp_path: Path) -> None:
    with simulate(lambda _request, _turn: "One.", strict=False) as model:
        process = served(tmp_path, model.url)
        try:
            client = client_of(first_line(process))
            made = client.conversations.create(items=[{"role": "user", "content": "Before."}])
            first = client.responses.create(model="anthropic/m", input="Hello")
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
            for ask in (
                lambda: client.conversations.create(items=[{"role": "user", "content": "x" * 200_000}]),
                lambda: client.conversations.items.create(made.id, items=[{"role": "user", "content": "x"}]),
                lambda: client.responses.create(model="anthropic/m", input="Hello", conversation=made.id),
                lambda: client.conversations.delete(made.id),
            ):
                with pytest.raises(openai.APIStatusError) as failed:
                    ask()
                assert failed.value.status_code == 503
            for stream in (False, True):
                chat: Any = client.chat.completions.create(
                    model="anthropic/m", messages=[{"role": "user", "content": "Hello"}], stream=stream
                )
                words = (
                    "".join(chunk.choices[0].delta.content or "" for chunk in chat if chunk.choices)
                    if stream
                    else chat.choices[0].message.content
                )
                assert words == "One."
            for store in (True, False):
                assert client.responses.create(model="anthropic/m", input="Hello", store=store).output_text == "One."
            assert client.responses.retrieve(first.id).output_text == "One."
            second = client.responses.create(model="anthropic/m", input="More", previous_response_id=first.id)
            assert second.output_text == "One."
            assert [item.type for item in client.conversations.items.list(made.id)] == ["message"]
        finally:
            ended(process)


@pytest.mark.slow
def test_the_file_of_a_database_grows_with_its_limit_and_no_further(tmp_path: Path) -> None:
    with simulate(lambda _request, _turn: "One.", strict=False) as model:
        process = served(tmp_path, model.url)
        try:
            client = client_of(first_line(process))
            for at in range(40):
                items: Any = [{"role": "user", "content": f"{at}" + "x" * 500_000}]
                last = client.conversations.create(items=items).id
            assert [item.type for item in client.conversations.items.list(last)] == ["message"]
            assert sum(file.stat().st_size for file in tmp_path.glob("toolwire.db")) < 3 * 4_000_000
        finally:
            ended(process)


class Senders:
    """Clients that all send three large requests which want no answer, and then wait."""

    def __init__(self, url: str, count: int, body: str) -> None:
        self.url, self.count, self.body = f"ws{url.removeprefix('http')}/v1/responses", count, body
        self.answered = 0
        self._all = asyncio.Event()

    async def send(self) -> None:
        """Send, and stay connected until all have sent."""
        async with connect(self.url, max_size=None, ping_interval=None) as socket:
            for _ in range(3):
                await socket.send(self.body)
                while json.loads(await socket.recv())["type"] != "response.completed":
                    continue
                self.answered += 1
            if self.answered == 3 * self.count:
                self._all.set()
            await self._all.wait()

    async def most(self, pid: int) -> float:
        """Let all send, and give the most megabytes that a process had meanwhile."""
        most, sending = 0.0, asyncio.gather(*(self.send() for _ in range(self.count)))
        while not sending.done():
            most = max(most, memory_of(pid))
            await asyncio.sleep(0.02)
        await sending
        return most


@pytest.mark.slow
def test_a_key_that_stores_much_takes_nothing_from_another_on_either_gateway(tmp_path: Path) -> None:
    with pair(tmp_path, "sqlite:///toolwire.db", size=8_000_000) as gateways:
        mine, yours = (Client(gateways, gateways.key(name)) for name in ("mine", "yours"))
        items = {"items": [message("x" * 100_000)]}
        kept = [yours.ask(at, "POST", "/v1/conversations", items)["id"] for at in range(2)]
        answer = yours.respond(0, "one")["id"]
        names = [mine.ask(at, "POST", "/v1/conversations", items)["id"] for at in range(60)]
        there = [at for at in range(60) if mine.send(at, "GET", f"/v1/conversations/{names[at]}").status == 200]
        assert there == list(range(60 - len(there), 60))
        assert 15 < len(there) <= 20, "a quarter of the memory"
        assert [yours.send(at, "GET", f"/v1/conversations/{kept[at]}").status for at in range(2)] == [200, 200]
        assert words_of(yours.respond(1, "two", previous_response_id=answer)) == "one two"
        large = {"items": [message("x" * 2_000_001)]}
        assert mine.send(0, "POST", "/v1/conversations", large).status == 400


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux tells it")
def test_the_connections_of_a_process_take_no_more_than_is_said_and_give_it_back(tmp_path: Path) -> None:
    """48 connections, and 160 where TOOLWIRE_TORTURE=full is set: each sends 10 MiB three times, all at once."""
    text = "x" * (10 << 20)
    body = json.dumps({"type": "response.create", "model": "anthropic/m", "generate": False, "input": text})
    process = served(tmp_path, "http://127.0.0.1:9", size=67_108_864)
    try:
        senders = Senders(first_line(process), 160 if FULL else 48, body)
        base = memory_of(process.pid)
        most = asyncio.run(senders.most(process.pid))
        assert senders.answered == 3 * senders.count
        assert most - base < 512
        until(lambda: memory_of(process.pid) - base < 60)
        assert memory_of(process.pid) - base < 60
    finally:
        ended(process)
