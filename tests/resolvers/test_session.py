"""The tools of one turn: only what was declared, bound to one context that nobody else sees."""

import asyncio
import contextvars
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from toolwire import AgentResolver, Composition, Tool, ToolCall, UnknownTool, execute, session_tools, tool
from toolwire.errors import InvalidField


@tool
def read_file(path: str, context: Any) -> str:
    """Read."""
    return f"{path} of {context['user']}"


@tool
async def search(query: str, context: Any) -> str:
    """Search."""
    await asyncio.sleep(0)
    return f"{query} of {context['user']}"


@tool
def delete(path: str) -> str:
    """Delete."""
    DELETED.append(path)
    return "gone"


DELETED: list[str] = []
RESOLVER = AgentResolver([read_file, search, delete])


@pytest.mark.row("R002-83", "R002-84", "4.3.10")
def test_only_what_is_declared_and_there_is_given() -> None:
    tools, resolve = session_tools.prepare(RESOLVER, ["search", "nothing", "read_file"], {"user": "abc"})
    assert [one.name for one in tools] == ["read_file", "search"]
    assert resolve is not None
    assert resolve(ToolCall("1", "read_file", {"path": "a"})).content == "a of abc"
    assert resolve(ToolCall("1", "search", {"query": "b"})).content == "b of abc"


@pytest.mark.parametrize("names", [None, [], ["nothing"], ["Search", "search "], ()])
@pytest.mark.row("R002-85", "R002-86", "R002-87", "4.3.10")
def test_without_tools_there_is_no_resolver(names: Any) -> None:
    assert session_tools.prepare(RESOLVER, names, {}) == ([], None)


def test_a_name_alone_is_no_list() -> None:
    with pytest.raises(InvalidField, match="must be a list of names"):
        session_tools.prepare(RESOLVER, "search", {})


@pytest.mark.row("R002-88", "4.3.10")
def test_the_context_is_forwarded_as_it_is() -> None:
    seen = []

    def look(context: Any) -> None:
        seen.append(context)

    for context in ({"user": 1}, None, object(), "text", [1]):
        _, resolve = session_tools.prepare(AgentResolver([look]), ["look"], context)
        assert resolve is not None
        resolve(ToolCall("1", "look", {}))
        assert seen.pop() is context


@pytest.mark.row("R002-91", "K1")
def test_what_was_not_declared_is_refused() -> None:
    DELETED.clear()
    _, resolve = session_tools.prepare(RESOLVER, ["search"], {"user": "abc"})
    assert resolve is not None
    call = ToolCall("1", "delete", {"path": "/"})
    with pytest.raises(UnknownTool, match=r"^Unknown tool: delete; available: search$"):
        resolve(call)
    with pytest.raises(UnknownTool):
        asyncio.run(resolve.aresolve(call))
    [result] = execute([call], resolve)
    assert (result.content, result.is_error) == ("unknown tool 'delete'. Available: search", True)
    assert DELETED == []
    assert execute([call], RESOLVER)[0].content == "gone", "a control: the resolver has it"
    assert DELETED == ["/"]


def test_a_recipe_of_a_declared_tool_may_use_others() -> None:
    plan = {"serial": [{"tool": "read_file", "arguments": {"path": "x"}, "label": "Read"}]}

    @tool
    def report() -> str:
        """Report."""
        return "direct"

    resolver = AgentResolver([read_file, report], recipes={"report": lambda _: plan, "read_file": lambda _: plan})
    _, resolve = session_tools.prepare(resolver, ["report"], {"user": "abc"})
    assert resolve is not None
    assert "x of abc" in str(resolve(ToolCall("1", "report", {})).content)
    with pytest.raises(UnknownTool):
        resolve(ToolCall("1", "read_file", {"path": "x"}))


def test_each_name_is_given_once() -> None:
    tools, _ = session_tools.prepare(Composition([RESOLVER, RESOLVER]), ["search"], {})
    assert [one.name for one in tools] == ["search"]


@pytest.mark.row("R002-23", "R002-92")
def test_preparing_again_gives_the_same_tools() -> None:
    first, one = session_tools.prepare(RESOLVER, ["search"], {"user": 1})
    second, other = session_tools.prepare(RESOLVER, ["search"], {"user": 2})
    assert first == second
    assert one is not other
    assert one is not None
    first.clear()
    assert [declared.name for declared in one.available_tools()] == ["search"], (
        "the list that was given is the caller's"
    )


@pytest.mark.row("K2")
def test_a_tool_that_went_away_is_refused_at_its_call() -> None:
    class Shrinking:
        gone = False

        def available_tools(self) -> list[Tool]:
            return [] if self.gone else [read_file.definition()]

        def resolve(self, call: ToolCall, _context: Any) -> Any:
            return ("error", f"Unknown tool: {call.name}") if self.gone else ("ok", "here")

    resolver = Shrinking()
    _, resolve = session_tools.prepare(resolver, ["read_file"], {})
    assert resolve is not None
    call = ToolCall("1", "read_file", {"path": "x"})
    assert resolve(call).content == "here"
    resolver.gone = True
    with pytest.raises(UnknownTool, match="available: none"):
        resolve(call)


SESSIONS, ROUNDS = 200, 5
MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark")
SHARED: dict[str, str] = {}


@tool(sensitive=["secret"])
def echo(text: str, secret: str, context: Any) -> str:
    """Echo."""
    MARK.set(context["canary"])
    return f"{text} {secret} {context['canary']} {MARK.get()}"


@tool(sensitive=["secret"])
async def aecho(text: str, secret: str, context: Any) -> str:
    """Echo later."""
    MARK.set(context["canary"])
    for _ in range(random.randrange(4)):  # noqa: S311 - any order will do
        await asyncio.sleep(0)
    return f"{text} {secret} {context['canary']} {MARK.get()}"


@tool
async def careless(text: str, secret: str, context: Any) -> str:
    """Keep the context where every session sees it."""
    SHARED["canary"] = context["canary"]
    for _ in range(random.randrange(4)):  # noqa: S311 - any order will do
        await asyncio.sleep(0)
    return f"{text} {secret} {SHARED['canary']}"


def canaries(number: int) -> tuple[str, str, str]:
    return f"argument-{number}-", f"secret-{number}-", f"context-{number}-"


def crossings(number: int, content: str) -> int:
    """Count what another session's canaries would leave in a result."""
    text = content.replace("Tool execution failed: ", "")
    return sum(1 for word in text.split() if word.split("-")[1:2] != [str(number)])


async def run_sessions(names: list[str], tally: list[int]) -> None:
    resolver = AgentResolver([echo, aecho, careless])

    async def session(number: int) -> None:
        argument, secret, context = canaries(number)
        _, resolve = session_tools.prepare(resolver, names, {"canary": context})
        assert resolve is not None
        for turn in range(ROUNDS):
            name = names[turn % len(names)]
            result = await resolve.aresolve(ToolCall(f"c{turn}", name, {"text": argument, "secret": secret}))
            assert argument in str(result.content)
            tally.append(crossings(number, str(result.content)))

    await asyncio.gather(*map(session, range(SESSIONS)))


@pytest.mark.row("R002-89", "K3")
def test_sessions_never_see_each_other() -> None:
    tally: list[int] = []
    asyncio.run(run_sessions(["echo", "aecho"], tally))
    assert (len(tally), sum(tally)) == (SESSIONS * ROUNDS, 0)


def test_a_careless_tool_is_found_out() -> None:
    """A control: where a context is shared, canaries cross."""
    tally: list[int] = []
    asyncio.run(run_sessions(["careless"], tally))
    assert sum(tally) > 0


@pytest.mark.row("R002-89", "4.3.10")
def test_sessions_in_threads_never_see_each_other() -> None:
    resolver = AgentResolver([echo, aecho])
    start = threading.Barrier(8, timeout=10)

    def session(number: int) -> int:
        argument, secret, context = canaries(number)
        _, resolve = session_tools.prepare(resolver, ["echo", "aecho"], {"canary": context})
        assert resolve is not None
        if number < 8:
            start.wait()
        calls = [ToolCall(f"c{n}", "echo", {"text": argument, "secret": secret}) for n in range(20)]
        return sum(crossings(number, str(result.content)) for result in execute(calls, resolve))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(session, range(SESSIONS))) == 0


LOOKALIKES = {
    "a": "\u0430\u0251",
    "e": "\u0435\u04bd",
    "d": "\u0501",
    "l": "\u04cf1I",
    "t": "\u0442",
    "i": "\u0456",
}


def spoofs(name: str, count: int) -> list[str]:
    """Make names that look like one: other letters, case, prefixes, suffixes, spaces, marks, separators."""
    choose = random.Random(name)  # noqa: S311 - the same names in every run
    made: set[str] = set()
    while len(made) < count:
        letters = list(name)
        for _ in range(choose.randrange(1, 4)):
            place = choose.randrange(len(letters))
            letter = letters[place]
            letters[place] = choose.choice(
                [
                    letter.upper(),
                    *LOOKALIKES.get(letter, ""),
                    letter + "\u200b",
                    letter + "\u0301",
                    " " + letter,
                    "",
                ]
            )
        ends = (
            ["", "", "functions.", "fs_", "./", "default_api:", "\ufeff"],
            ["", "", "\n", "()", "\0", "__tw", "_2"],
        )
        spoof = choose.choice(ends[0]) + "".join(letters) + choose.choice(ends[1])
        made.add(spoof)
    return sorted(made - {name})


@pytest.mark.row("K1")
def test_ten_thousand_names_that_were_not_declared_run_nothing(tally: Any) -> None:
    DELETED.clear()
    _, resolve = session_tools.prepare(RESOLVER, ["read_file", "search"], {"user": "abc"})
    names = [*spoofs("delete", 9_999), "delete"]
    calls = [ToolCall(f"c{place}", name, {"path": "/"}) for place, name in enumerate(names)]
    results = execute(calls, resolve, calls=len(calls))
    assert len(results) >= 9_999
    assert all(result.is_error and "Available: read_file, search" in str(result.content) for result in results)
    assert DELETED == []
    assert execute([ToolCall("1", "delete", {"path": "/"})], RESOLVER)[0].content == "gone", "a control"
    tally["calls of names that were not declared"] += len(results)


@pytest.mark.row("R002-22")
def test_the_example_of_a_session() -> None:
    seen: list[Any] = []

    class Resolver:
        """A resolver that takes the context, whatever is in it."""

        def available_tools(self) -> list[Tool]:
            return [Tool(name, "", {"type": "object"}) for name in ("read_file", "write_file", "search")]

        def resolve(self, call: ToolCall, context: Any) -> tuple[str, str]:
            seen.append(context)
            return "ok", f"{call.name} {call.arguments}"

    context = {"user_id": "abc", "project": "/repo"}
    tools, resolver_fn = session_tools.prepare(Resolver(), ["read_file", "search"], context)
    assert [one.name for one in tools] == ["read_file", "search"]
    assert resolver_fn is not None
    result = resolver_fn(ToolCall("1", "read_file", {"path": "README.md"}))
    assert (result.content, result.is_error) == ("read_file {'path': 'README.md'}", False)
    assert seen == [context]
    assert seen[0] is context
