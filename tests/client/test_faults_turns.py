"""Answers that are none, calls that cannot be run, and runs that go nowhere: each ends, and says how.

Rule: every case is led over real sockets, on every wire that can say it. The fast suite holds a part of them.
"""

import asyncio
import threading
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, KEY, RUN, TOKYO, get_weather, lead, legal, options_at
from toolwire import CodeTools, Refusal, Thinking, ToolCall, ToolResult, Usage, aio, tool
from toolwire.client import sync
from toolwire.loop import LoopLimits
from toolwire.resolvers.execution import Limits
from toolwire.testing import Cut, Finish, Raw, Wait, simulate

pytestmark = pytest.mark.slow  # each is shown on every wire

# The fast suite goes through sync code.
SOME = ["sync", pytest.param("async", marks=pytest.mark.slow)]
NOTHING = "the model's answer was empty 3 times"
REFUSED = "the model's answer ended with"
ALL = frozenset(DIALECTS)
# What the model answers each time, on which wires it can be said, and how the run ends after how many turns.
TURNS: dict[str, tuple[list[Any], frozenset[str], tuple[str, int, str]]] = {
    "nothing at all": ([Finish("stop")], ALL, ("error", 3, NOTHING)),
    "only thinking": ([Thinking("Hm.")], ALL, ("error", 3, NOTHING)),
    "only white space": ([" \n"], ALL, ("error", 3, NOTHING)),
    "cut off before a word": ([Finish("length")], ALL, ("error", 3, NOTHING)),
    "a refusal": (
        [Refusal("I will not.")],
        frozenset({"openai", "openai-responses"}),
        ("refused", 1, REFUSED),
    ),
    "a refusal as an end": (
        ["No.", Finish("refusal")],
        frozenset({"anthropic", "gemini"}),
        ("refused", 1, REFUSED),
    ),
    "a filter": (["Half", Finish("content_filter")], ALL - {"ollama"}, ("refused", 1, REFUSED)),
    "a filter before a word": ([Finish("content_filter")], ALL - {"ollama"}, ("refused", 1, REFUSED)),
    "a filter after a call": ([TOKYO, Finish("content_filter")], ALL - {"ollama"}, ("refused", 1, REFUSED)),
    "a pause, for ever": (
        ["I look.", Finish("pause")],
        ALL - {"openai", "ollama"},
        ("limit", 25, "25 turns"),
    ),
    "the same call, for ever": ([TOKYO], ALL, ("no_progress", 3, "same result 3 times")),
}
EVERY = [
    pytest.param(
        case,
        name,
        face,
        shown,
        marks=() if (place + DIALECTS.index(name)) % 8 == FACES.index(face) * 2 + shown else pytest.mark.slow,
    )
    for place, (case, (_, names, _)) in enumerate(TURNS.items())
    for name in DIALECTS
    if name in names
    for face in FACES
    for shown in (False, True)
]


@pytest.mark.parametrize(("case", "name", "face", "shown"), EVERY)
@pytest.mark.row("J2", "J13", "J14")
def test_a_run_ends_whatever_the_model_answers(case: str, name: str, face: str, shown: bool) -> None:
    RUN.clear()
    steps, _, (ending, turns, reason) = TURNS[case]
    with simulate(lambda *_: steps) as model:
        done = lead(face, name, model.url, "?", shown=shown, tools=[get_weather]).done
    assert (done.ending, done.turns, len(model.requests)) == (ending, turns, turns)
    assert reason in done.reason
    assert legal(done.messages)
    assert ["Tokyo"] * (3 if "for ever" in case and TOKYO in steps else 0) == RUN


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("J13", "J14")
def test_a_thought_that_breaks_off_is_shown_but_not_sent_back(name: str) -> None:
    """Nobody else is asked either, for something was shown; the history goes on elsewhere."""
    broken = [Thinking("Hm. "), Wait(0.05), Cut(reset=True)]
    with simulate([broken]) as model, simulate([]) as other:
        providers = [
            {"name": name, "base_url": model.url, "api_key": KEY, "default_model": "m"},
            {"name": "openai", "base_url": other.url, "api_key": KEY, "default_model": "m"},
        ]
        with sync.Client(providers) as client:
            items = list(client.stream("?"))
    assert {type(item).__name__ for item in items[:-1]} == {"ThinkingDelta"}
    done = items[-1]
    assert (done.ending, done.messages, done.message.parts[0].text) == ("error", [], "Hm. ")  # type: ignore[union-attr]
    assert other.requests == []


@pytest.mark.parametrize("face", SOME)
@pytest.mark.parametrize("name", ["anthropic", "openai-responses", "gemini"])
@pytest.mark.row("J13")
def test_a_pause_is_gone_on_from(name: str, face: str) -> None:
    """The pause stays in the history, and the answer after it is the end."""
    script = [["I look.", Finish("pause")], ["It is warm."]]
    with simulate(script) as model:
        done = lead(face, name, model.url, "?").done
    assert (done.ending, done.turns, done.content) == ("answer", 2, "It is warm.")
    assert [message.text for message in done.messages] == ["I look.", "It is warm."]


def pingpong(_request: Any, turn: Any) -> list[Any]:
    return [ToolCall(None, "get_weather", {"city": "Tokyo" if turn.round % 2 else "Oslo"})]


@pytest.mark.parametrize("face", SOME)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("J2")
def test_two_calls_in_turn_are_a_circle(name: str, face: str) -> None:
    with simulate(pingpong) as model:
        done = lead(face, name, model.url, "?", tools=[get_weather]).done
    assert done.ending == "no_progress"
    assert done.turns < 10
    assert legal(done.messages)


BUDGETS: dict[str, tuple[LoopLimits, str]] = {
    "tokens": (LoopLimits(tokens=250), "tokens are used"),
    "money": (LoopLimits(cost=0.002), "USD are used"),
    "time": (LoopLimits(seconds=0.15), "seconds have passed"),
    "turns": (LoopLimits(turns=3), "3 turns"),
}


@pytest.mark.parametrize("face", SOME)
@pytest.mark.parametrize(
    "case", ["tokens", *(pytest.param(case, marks=pytest.mark.slow) for case in BUDGETS if case != "tokens")]
)
@pytest.mark.row("J2")
def test_a_budget_ends_a_run(case: str, face: str) -> None:
    limits, reason = BUDGETS[case]

    def plays(_request: Any, turn: Any) -> list[Any]:
        return [Usage(100, 50), ToolCall(None, "look", {"number": turn.number})]

    @tool
    async def look(number: int) -> str:
        """Look."""
        await asyncio.sleep(0.08)
        return str(number)

    with simulate(plays) as model:
        done = lead(face, "openai", model.url, "?", model="gpt-4o", tools=[look], limits=limits).done
    assert done.ending == ("limit" if case == "turns" else "budget")
    assert reason in done.reason
    asked = len(model.requests)
    assert asked - done.turns in ((0, 1) if case == "time" else (0,))  # its answer may be on its way when time is over
    assert asked <= 3
    assert legal(done.messages)


@pytest.mark.parametrize("face", SOME)
@pytest.mark.row("J12")
def test_a_thousand_calls_of_one_answer_have_a_thousand_results(face: str) -> None:
    RUN.clear()
    calls = [ToolCall(f"call_{place}", "get_weather", {"city": str(place)}) for place in range(1000)]
    with simulate([calls, ["Done."]]) as model:
        done = lead(face, "anthropic", model.url, "?", tools=[get_weather]).done
    assert done.ending == "answer"
    assert len(RUN) == 128
    results = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert len(results) == 1000
    assert [result.is_error for result in results] == [False] * 128 + [True] * 872
    assert "128 calls" in str(results[-1].content)
    assert legal(done.messages)


@pytest.mark.parametrize("face", SOME)
@pytest.mark.parametrize("name", ["openai", "ollama-v1"])
@pytest.mark.row("J12")
def test_calls_that_share_an_id_have_a_result_each(name: str, face: str) -> None:
    RUN.clear()
    said = (
        '{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":['
        '{"id":"x","type":"function","function":{"name":"get_weather","arguments":"{\\"city\\":\\"Oslo\\"}"}},'
        '{"id":"x","type":"function","function":{"name":"get_weather","arguments":"{\\"city\\":\\"Rome\\"}"}},'
        '{"id":"y","type":"function","function":{"name":"","arguments":"{}"}}]}}]}'
    )
    with simulate([[Raw(said.encode(), 200, "application/json")], ["Done."]], strict=False) as model:
        done = lead(face, name, model.url, "?", tools=[get_weather]).done
    assert (done.ending, RUN) == ("answer", [])
    results = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert [result.is_error for result in results] == [True] * len(results)
    assert len(results) >= 2
    assert legal(done.messages)


@pytest.mark.parametrize("face", SOME)
@pytest.mark.row("J15")
def test_a_huge_result_is_cut_and_says_by_how_much(face: str) -> None:
    @tool
    def read_all() -> str:
        """Read."""
        return "x" * 5_000_000

    def plays(request: Any, turn: Any) -> list[Any]:
        if turn.round:
            return [f"It is {len(str(request.messages[-1].parts[0].content)) < 110_000}."]
        return [ToolCall(None, "read_all", {})]

    with simulate(plays) as model:
        done = lead(face, "anthropic", model.url, "?", tools=[read_all]).done
    assert done.content == "It is True."
    [result] = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert "5000000" in str(result.content)
    assert len(str(result.content)) < 101_000
    shorter = simulate(plays)
    with shorter as model:
        lead(face, "anthropic", model.url, "?", tools=[read_all], running=Limits(output=1000))
    assert len(str(model.requests[1].body)) < 5_000


@pytest.mark.parametrize("face", SOME)
@pytest.mark.row("J16")
def test_a_question_that_fails_is_a_no(face: str) -> None:
    """A hook that raises runs nothing, and the run goes on."""
    RUN.clear()

    def ask(_call: Any, _shown: str) -> bool:
        raise RuntimeError("the screen is gone")

    with simulate([[TOKYO], ["Done."]]) as model:
        done = lead(face, "openai", model.url, "?", tools=[get_weather], approve=ask).done
    assert (done.ending, RUN) == ("answer", [])
    [result] = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert result.is_error


@pytest.mark.row("J16")
def test_a_listener_that_blocks_holds_up_nobody_else() -> None:
    """In async code it waits in a thread of its own, if it is no coroutine."""
    enough = threading.Event()

    def block(_event: Any) -> None:
        enough.wait(5)

    async def main(url: str) -> int:
        ticks = 0
        work = asyncio.ensure_future(
            aio.generate("?", "openai", "m", on_event=block, options=options_at("openai", url))
        )
        while not work.done():
            await asyncio.sleep(0.01)
            ticks += 1
            if ticks >= 10:
                enough.set()
        assert (await work).content == "Hi."
        return ticks

    with simulate([["Hi."]]) as model:
        assert asyncio.run(main(model.url)) >= 10


@pytest.mark.parametrize("face", SOME)
@pytest.mark.row("J7")
def test_calls_of_one_resource_run_one_after_the_other(face: str) -> None:
    """A tool runs beside others only where it says so; the code tools lock what they write."""
    inside, most = [0], [0]

    def working(name: str, *, parallel: bool) -> Any:
        @tool(name=name, parallel=parallel)
        async def work() -> str:
            """Work on the one file."""
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            await asyncio.sleep(0.01)
            inside[0] -= 1
            return "done"

        return work

    calls = [ToolCall(None, "write", {}) for _ in range(4)]
    for parallel, expected in ((False, 1), (True, 4)):
        most[0] = 0
        with simulate([calls, ["Done."]]) as model:
            done = lead(face, "openai", model.url, "?", tools=[working("write", parallel=parallel)]).done
        assert (done.ending, most[0]) == ("answer", expected)


@pytest.mark.row("J7")
def test_parallel_edits_of_one_file_are_all_kept(tmp_path: Any) -> None:
    """Over the wire, ten calls in one answer."""
    (tmp_path / "log.txt").write_text("")
    calls = [ToolCall(None, "append_to_file", {"path": "log.txt", "content": f"line {place}\n"}) for place in range(10)]
    with simulate([calls, ["Done."]]) as model:
        done = lead("sync", "anthropic", model.url, "?", tools=CodeTools(tmp_path)).done
    assert done.ending == "answer"
    assert (tmp_path / "log.txt").read_text().splitlines() == [f"line {place}" for place in range(10)]
