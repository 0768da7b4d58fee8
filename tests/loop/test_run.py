"""The tool loop, led by hand: what it wants at each step, how it ends, and that its history is valid."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.faces import legal
from toolwire import (
    Context,
    Error,
    Image,
    Message,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)
from toolwire.loop import AskModel, Cancelled, Done, LoopLimits, LoopStep, RunTools, tool_loop

REQUEST = Request(model="m", context=Context("Be brief.", [Message("Hi")]))


def says(*parts: Any, finish: Any = None, usage: Usage | None = None) -> Response:
    content = [Text(part) if isinstance(part, str) else part for part in parts]
    reason: Any = finish or ("tool_calls" if any(type(part) is ToolCall for part in content) else "stop")
    return Response.of(Message("assistant", content), reason, usage=usage)


def call(number: int, name: str = "search", **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, arguments)


def result(number: int, content: str = "found", *, is_error: bool = False) -> ToolResult:
    return ToolResult(f"c{number}", "search", content, is_error)


class Driver:
    """Sends outcomes back, one after the other, and keeps the steps."""

    def __init__(self, outcomes: list[Any], request: Request = REQUEST, **said: Any) -> None:
        self.steps: list[LoopStep] = []
        loop = tool_loop(request, **said)
        step = next(loop)
        for outcome in outcomes:
            self.steps.append(step)
            if isinstance(step, Done):
                break
            step = loop.send(outcome)
        self.steps.append(step)
        self.last = step

    @property
    def done(self) -> Done:
        assert isinstance(self.last, Done), self.last
        return self.last

    @property
    def requests(self) -> list[Request]:
        return [step.request for step in self.steps if isinstance(step, AskModel)]


def test_an_answer_ends_the_run() -> None:
    run = Driver([says("Hello")])
    assert (run.done.ending, run.done.turns, run.done.messages) == (
        "answer",
        1,
        [Message("assistant", [Text("Hello")])],
    )
    assert run.done.response is not None
    assert run.done.response.content == "Hello"


def test_calls_are_run_and_their_results_go_back() -> None:
    run = Driver([says("I look.", call(1), call(2)), [result(2, "b"), result(1, "a")], says("Done")])
    assert [type(step) for step in run.steps] == [AskModel, RunTools, AskModel, Done]
    assert isinstance(run.steps[1], RunTools)
    assert [one.id for one in run.steps[1].calls] == ["c1", "c2"]
    sent = run.requests[1].messages
    assert [part.content for message in sent[2:] for part in message.parts] == ["a", "b"]  # type: ignore[union-attr]
    assert sent[0] == REQUEST.messages[0]
    assert legal(run.done.messages)
    assert run.done.ending == "answer"


def test_a_loop_is_a_generator_that_returns_what_it_yields_last() -> None:
    loop = tool_loop(REQUEST)
    next(loop)
    done = loop.send(says("x"))
    with pytest.raises(StopIteration) as ended:
        next(loop)
    assert ended.value.value is done


@pytest.mark.parametrize("turns", [1, 3, 25])
@pytest.mark.row("J1")
def test_a_model_that_always_calls_is_stopped(turns: int) -> None:
    outcomes = [item for n in range(turns) for item in (says(call(n, q=n)), [result(n, str(n))])]
    done = Driver(outcomes, limits=LoopLimits(turns=turns)).done
    assert (done.ending, done.turns) == ("limit", turns)
    assert legal(done.messages)


def test_there_is_a_limit_if_nobody_says_one() -> None:
    outcomes = [item for n in range(30) for item in (says(call(n, q=n)), [result(n, str(n))])]
    assert (Driver(outcomes).done.ending, Driver(outcomes).done.turns) == ("limit", 25)
    assert isinstance(Driver(outcomes, limits=LoopLimits(turns=None)).last, AskModel)


@pytest.mark.parametrize(
    ("calls", "contents", "turns"),
    [
        ([{"q": 1}], ["same"], 3),
        ([{"q": 1}, {"q": 2}], ["a", "b"], 6),
    ],
)
@pytest.mark.row("J2")
def test_going_around_in_a_circle_ends_the_run(calls: Any, contents: Any, turns: int) -> None:
    outcomes = []
    for n in range(20):
        outcomes += [says(call(n, **calls[n % len(calls)])), [result(n, contents[n % len(contents)])]]
    done = Driver(outcomes).done
    assert (done.ending, done.turns) == ("no_progress", turns)
    assert legal(done.messages)


@pytest.mark.row("I-20")
def test_the_same_error_again_and_again_ends_the_run() -> None:
    outcomes = [item for n in range(9) for item in (says(call(n, q=n)), [result(n, "broken", is_error=True)])]
    done = Driver(outcomes).done
    assert (done.ending, done.turns, done.reason) == (
        "no_progress",
        3,
        "tool error repeated 3+ times: broken",
    )


def test_the_same_call_with_news_is_progress() -> None:
    outcomes = [item for n in range(8) for item in (says(call(n, q=1)), [result(n, f"still {n}")])]
    assert Driver([*outcomes, says("Done")]).done.ending == "answer"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (LoopLimits(tokens=30), "30 of 30 tokens are used"),
        (LoopLimits(cost=0.02), "0.0200 of 0.0200 USD are used"),
        (LoopLimits(seconds=2), "2.0 of 2 seconds have passed"),
    ],
)
@pytest.mark.row("J2")
def test_budgets_are_kept(limits: LoopLimits, reason: str) -> None:
    seconds = iter(range(100))
    outcomes = []
    for n in range(9):
        outcomes += [says(call(n, q=n), usage=Usage(7, 3)), [result(n, str(n))]]
    price = lambda usage, _model: usage.total_tokens / 1000  # noqa: E731 - a stand-in
    done = Driver(outcomes, limits=limits, price=price, elapsed=lambda: float(next(seconds)) + 1).done
    assert (done.ending, done.reason) == ("budget", reason)
    assert legal(done.messages)


# A limit, and the turns that it allows, where a turn uses 10 tokens, 0.25 dollars and 2 seconds.
EDGES = [
    (LoopLimits(turns=1), 1),
    (LoopLimits(turns=2), 2),
    (LoopLimits(tokens=29), 3),
    (LoopLimits(tokens=30), 3),
    (LoopLimits(tokens=31), 4),
    (LoopLimits(tokens=0), 0),
    (LoopLimits(tokens=1), 1),
    (LoopLimits(cost=0.74), 3),
    (LoopLimits(cost=0.75), 3),
    (LoopLimits(cost=0.76), 4),
    (LoopLimits(cost=0.0), 0),
    (LoopLimits(seconds=5.9), 3),
    (LoopLimits(seconds=6), 3),
    (LoopLimits(seconds=6.1), 4),
    (LoopLimits(seconds=0), 0),
]


@pytest.mark.parametrize(("limits", "turns"), EDGES)
def test_a_limit_that_is_met_exactly_ends_the_run(limits: LoopLimits, turns: int) -> None:
    clock = {"now": 0.0}
    loop = tool_loop(REQUEST, limits=limits, price=lambda _usage, _model: 0.25, elapsed=lambda: clock["now"])
    step = next(loop)
    asked = 0
    while not isinstance(step, Done):
        asked += isinstance(step, AskModel)
        clock["now"] += 2.0 * isinstance(step, AskModel)
        answer = (
            says(call(asked, q=asked), usage=Usage(7, 3)) if isinstance(step, AskModel) else [result(asked, f"{asked}")]
        )
        step = loop.send(answer)
    assert (asked, step.turns) == (turns, turns)
    assert step.ending == ("limit" if limits.turns == turns else "budget")
    assert legal(step.messages)


def test_a_step_says_what_may_still_be_used() -> None:
    limits = LoopLimits(tokens=25, cost=0.6)
    run = Driver(
        [says(call(1), usage=Usage(7, 3)), [result(1)], says(call(2, q=2), usage=Usage(7, 3)), [result(2)]],
        limits=limits,
        price=lambda _usage, _model: 0.25,
    )
    left = [(step.tokens, round(step.cost or 0.0, 2)) for step in run.steps if isinstance(step, AskModel | RunTools)]
    assert left == [(25, 0.6), (15, 0.35), (15, 0.35), (5, 0.1), (5, 0.1)]


def test_what_was_used_is_counted() -> None:
    run = Driver([says(call(1), usage=Usage(10, 5, 2)), [result(1)], says("x", usage=Usage(20, 1, None, None, 4))])
    assert run.done.usage == Usage(30, 6, 2, None, 4)
    assert run.done.usage.total_tokens == 36


@pytest.mark.parametrize(
    "results", [[], [result(2)], [result(1), result(1), result(9)], [result(1), result(2), result(3)]]
)
@pytest.mark.row("J14")
def test_each_call_has_exactly_one_result(results: list[ToolResult]) -> None:
    run = Driver([says(call(1), call(2)), results, says("Done")])
    assert legal(run.done.messages)
    found = [part for message in run.done.messages for part in message.parts if type(part) is ToolResult]
    assert [one.tool_call_id for one in found] == ["c1", "c2"]
    assert [one.is_error for one in found] == [
        one.id not in {r.tool_call_id for r in results} for one in (call(1), call(2))
    ]


def test_a_broken_call_is_answered_and_not_run() -> None:
    broken = ToolCall.parse("c1", "search", '{"q": ')
    cut = ToolCall("c2", "search", {}, complete=False)
    run = Driver([says(broken, cut, call(3)), [result(3)], says("Done")])
    assert isinstance(run.steps[1], RunTools)
    assert [one.id for one in run.steps[1].calls] == ["c3"]
    contents = [
        str(part.content) for message in run.done.messages for part in message.parts if type(part) is ToolResult
    ]
    assert contents[0].startswith("invalid arguments for 'search': not JSON")
    assert "call again, with less at once" in contents[1]
    assert contents[2] == "found"
    only = Driver([says(broken), says("Done")])
    assert [type(step) for step in only.steps] == [AskModel, AskModel, Done]
    assert legal(only.done.messages)


def test_a_forced_choice_is_released_after_its_first_use() -> None:
    forced = Request(model="m", context=REQUEST.context, tool_choice=ToolChoice("required", ["search"]))
    run = Driver([says("Hm", finish="pause"), says(call(1)), [result(1)], says("Done")], forced)
    assert [one.tool_choice for one in run.requests] == [
        ToolChoice("required", ["search"]),
        ToolChoice("required", ["search"]),
        ToolChoice("auto"),
    ]
    none = Request(model="m", context=REQUEST.context, tool_choice=ToolChoice("none"))
    assert Driver([says(call(1)), [result(1)], says("x")], none).requests[1].tool_choice == ToolChoice("none")


@pytest.mark.row("R003-44")
def test_without_auto_tools_the_calls_are_given() -> None:
    run = Driver([says("I look.", call(1), ToolCall("c2", "x", {}, complete=False))], auto_tools=False)
    assert (run.done.ending, run.done.calls) == ("calls", [call(1)])
    assert [type(step) for step in run.steps] == [AskModel, Done]


@pytest.mark.row("I-21")
def test_a_terminal_tool_ends_the_run() -> None:
    run = Driver([says(call(1, "finish", answer=42), call(2))], terminal_tool="finish")
    assert (run.done.ending, [one.name for one in run.done.calls]) == ("terminal", ["finish", "search"])
    assert run.done.calls[0].arguments == {"answer": 42}


@pytest.mark.row("J13")
def test_a_pause_is_gone_on_from() -> None:
    run = Driver([says("Let me", finish="pause"), says("see.")])
    assert (run.done.ending, run.done.turns) == ("answer", 2)
    assert [message.text for message in run.requests[1].messages] == ["Hi", "Let me"]


NAMELESS = Opaque("anthropic", {"type": "tool_use", "id": "toolu_1", "input": {}})


@pytest.mark.parametrize(
    "nothing", [says(), says(""), says(Thinking("Hm.")), says("  "), says(NAMELESS, finish="tool_calls")]
)
@pytest.mark.row("I-22", "J13")
def test_an_answer_that_says_nothing_is_asked_for_again_and_then_an_error(nothing: Response) -> None:
    assert Driver([nothing, says("Done")]).done.ending == "answer"
    done = Driver([nothing] * 9).done
    assert (done.ending, done.turns, done.reason) == ("error", 3, "the model's answer was empty 3 times")


def test_what_nobody_understands_is_an_answer_unless_the_model_wants_calls() -> None:
    assert Driver([says(NAMELESS)]).done.ending == "answer"
    assert Driver([says("Hi", NAMELESS, finish="tool_calls")]).done.content == "Hi"


def test_a_picture_is_an_answer() -> None:
    assert Driver([says(Image("https://x/y.png"))]).done.ending == "answer"


@pytest.mark.parametrize("finish", ["content_filter", "refusal"])
@pytest.mark.row("J13")
def test_a_refusal_ends_the_run(finish: Any) -> None:
    done = Driver([says("I cannot.", call(1), finish=finish)]).done
    assert (done.ending, finish in done.reason) == ("refused", True)
    assert legal(done.messages)


@pytest.mark.parametrize("finish", ["error", "incomplete"])
def test_an_answer_that_broke_off_is_an_error(finish: Any) -> None:
    done = Driver([says("I", call(1), finish=finish)]).done
    assert done.ending == "error"
    assert legal(done.messages), "a call that was never run is answered"


def test_an_error_of_the_provider_ends_the_run() -> None:
    error = Error("rate_limit", "slow down", status=429)
    done = Driver([says(call(1)), [result(1)], error]).done
    assert (done.ending, done.reason, done.error) == ("error", "slow down", error)
    assert legal(done.messages)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.row("J5")
def test_a_run_can_be_cancelled_at_any_step(place: int) -> None:
    outcomes: list[Any] = [says(call(1), call(2)), [result(1), result(2)], says(call(3)), [result(3)]]
    outcomes[place:] = [Cancelled()]
    done = Driver(outcomes).done
    assert (done.ending, done.reason) == ("cancelled", "the run was cancelled")
    assert legal(done.messages)


def test_what_is_no_outcome_is_refused() -> None:
    loop = tool_loop(REQUEST)
    next(loop)
    with pytest.raises(TypeError, match="a Response, an Error or Cancelled must be sent, not str"):
        loop.send("x")


OUTCOMES = st.lists(
    st.one_of(
        st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True).map(
            lambda n: says(*(call(x, q=x) for x in n))
        ),
        st.just(says("Hello")),
        st.just(says()),
        st.just(says("I", finish="pause")),
        st.just(says(call(1), finish="incomplete")),
        st.just(says(ToolCall.parse("c1", "search", "{"), call(2))),
        st.just(Error("server", "x")),
        st.just(Cancelled()),
    ),
    max_size=12,
)
RESULTS = st.lists(st.integers(1, 9).map(result), max_size=4)


@given(OUTCOMES, st.lists(st.one_of(RESULTS, st.just(Cancelled())), min_size=20, max_size=20), st.booleans())
@pytest.mark.row("J14")
def test_the_history_is_valid_whatever_happens(answers: list[Any], results: list[Any], auto: bool) -> None:
    loop = tool_loop(REQUEST, auto_tools=auto, limits=LoopLimits(turns=8))
    step, given_answers, given_results = next(loop), iter(answers), iter(results)
    for _ in range(60):
        if isinstance(step, Done):
            break
        if isinstance(step, AskModel):
            assert legal([*step.request.messages])
            step = loop.send(next(given_answers, Cancelled()))
        else:
            step = loop.send(next(given_results))
    assert isinstance(step, Done), "a run always ends"
    assert step.ending == "calls" or legal(step.messages)
