"""Where a client may be used: in threads, in running event loops, in one loop after another, after a fork.

A client belongs to no loop and no thread: each event loop and each process has its own connections.
"""

import asyncio
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.client.faces import DIALECTS, RUN, TOKYO, awaited, get_weather, options_at
from toolwire import ToolCall, aio, tool
from toolwire.client import sync
from toolwire.testing import simulate


def echo(request: Any, _turn: Any) -> list[Any]:
    """Say what was said."""
    return [request.messages[-1].text]


def doubling(request: Any, turn: Any) -> list[Any]:
    """Call a tool for each conversation, then say what it gave."""
    if turn.round:
        return [f"{request.messages[-1].parts[0].content}"]
    return [ToolCall(None, "double", {"number": int(request.messages[-1].text)})]


@tool
async def double(number: int) -> str:
    """Double a number."""
    await asyncio.sleep(0.001)
    return str(number * 2)


def in_threads(count: int, work: Any) -> list[Any]:
    """Do something in several threads at once, and give what each gave or raised."""
    found: list[Any] = [None] * count

    def one(place: int) -> None:
        try:
            found[place] = work(place)
        except BaseException as problem:  # noqa: BLE001 - it is what the test looks at
            found[place] = problem

    threads = [threading.Thread(target=one, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.row("J18")
def test_one_client_in_several_threads_without_an_event_loop(shown: bool) -> None:
    with simulate(doubling) as model, sync.Client("openai", "m", **options_at("openai", model.url)) as client:

        def work(place: int) -> str | None:
            if not shown:
                return client.run(str(place), tools=[double]).content
            return client.stream(str(place), tools=[double]).collect().content

        assert in_threads(8, work) == [str(place * 2) for place in range(8)]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("J18")
def test_sync_code_inside_a_running_event_loop(name: str) -> None:
    """It blocks, as sync code does, and its async tools run all the same."""
    RUN.clear()

    async def main(url: str) -> list[Any]:
        with sync.Client(name, "m", **options_at(name, url)) as client:
            first = client.run("?", tools=[get_weather, double])
            second = client.stream("?", tools=[get_weather]).collect()
            third = client.chat("?")
        return [first.content, second.content, third.content]

    script = [[TOKYO, ToolCall(None, "double", {"number": 2})], ["One."], [TOKYO], ["Two."], ["Three."]]
    with simulate(script) as model:
        assert awaited(main(model.url)) == ["One.", "Two.", "Three."]
    assert RUN == ["Tokyo", "Tokyo"]


@pytest.mark.row("J18")
def test_one_client_in_two_loops_one_after_the_other() -> None:
    """The first loop is closed, and its connections with it."""
    with simulate(echo) as model:
        client = aio.Client("openai", "m", **options_at("openai", model.url))

        async def main(place: int) -> str | None:
            said = (await client.chat(f"{place}")).content
            assert (await client.stream(f"{place}").collect()).content == said
            await client.close()
            return said

        assert [asyncio.run(main(place)) for place in range(5)] == [f"{place}" for place in range(5)]


@pytest.mark.row("J18")
def test_one_client_in_several_loops_at_once() -> None:
    with simulate(doubling) as model:
        client = aio.Client("anthropic", "m", **options_at("anthropic", model.url))

        async def main(place: int) -> list[str | None]:
            works = [client.run(str(place * 10 + number), tools=[double]) for number in range(3)]
            found = [done.content for done in await asyncio.gather(*works)]
            await client.close()
            return found

        found = in_threads(4, lambda place: asyncio.run(main(place)))
    assert found == [[str((place * 10 + number) * 2) for number in range(3)] for place in range(4)]


@pytest.mark.row("J18")
def test_the_event_loop_goes_on_while_a_sync_tool_runs() -> None:
    enough = threading.Event()

    @tool
    def slow() -> str:
        """Take as long as the loop needs to count."""
        enough.wait(5)
        return "done"

    async def main(url: str) -> int:
        ticks = 0
        options = options_at("openai", url)
        work = asyncio.ensure_future(aio.generate("?", "openai", "m", tools=[slow], options=options))
        while not work.done():
            await asyncio.sleep(0.005)
            ticks += 1
            if ticks >= 10:
                enough.set()
        assert (await work).content == "Done."
        return ticks

    with simulate([[ToolCall(None, "slow", {})], ["Done."]]) as model:
        assert asyncio.run(main(model.url)) >= 10


FORKING = """
import asyncio, os, sys
from toolwire import aio
from toolwire.client import sync

times, client = int(sys.argv[2]), sync.Client("openai", "m", base_url=sys.argv[1], api_key="k")
other = aio.Client("openai", "m", base_url=sys.argv[1], api_key="k")

async def ask(words):
    return (await other.chat(words)).content

assert client.chat("before").content == "before"
assert asyncio.run(ask("before")) == "before"
child = os.fork()
who = "parent" if child else "child"
for number in range(times):
    words = f"{who} {number}"
    assert client.chat(words).content == words
    assert client.stream(words).collect().content == words
    if not number % 10:
        assert asyncio.run(ask(words)) == words
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(who, "is well", flush=True)  # one after the other: Python may write a line in pieces
"""


UNCLOSED = """
import asyncio, sys
from toolwire import aio

client = aio.Client("openai", "m", base_url=sys.argv[1], api_key="k")

async def ask(words):
    return (await client.chat(words)).content

print([asyncio.run(ask(words)) for words in ("one", "two", "three")])
"""


def ran(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
@pytest.mark.row("J18")
def test_a_loop_that_ended_without_a_word_leaves_the_client_usable() -> None:
    """Nobody closed the client in the first loop; Python may warn of it, and the client goes on."""
    with simulate(echo) as model:
        assert ran(UNCLOSED, model.url).stdout == "['one', 'two', 'three']\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.slow
@pytest.mark.parametrize("times", [3, 100])
@pytest.mark.row("J18")
def test_a_forked_process_has_connections_of_its_own(times: int) -> None:
    """Parent and child talk at the same time, and neither reads what is the other's."""
    with simulate(echo) as model:
        done = ran(FORKING, model.url, str(times))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "child is well\nparent is well\n"


@pytest.mark.row("J18")
def test_under_uvloop() -> None:
    """Where uvloop is installed."""
    uvloop = pytest.importorskip("uvloop")

    async def main(url: str) -> list[Any]:
        assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
        async with aio.Client("anthropic", "m", **options_at("anthropic", url)) as client:
            done = await client.run("21", tools=[double])
            shown = await client.stream("4", tools=[double]).collect()
        return [done.content, shown.content]

    with simulate(doubling) as model:
        assert uvloop.run(main(model.url)) == ["42", "8"]
