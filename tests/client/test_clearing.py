"""Old tool results are cleared near the limit: which of them, when, and in steps."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.long_histories import ALWAYS, BIG, TOOLS, asks, contents, gives, turns
from toolwire import (
    Context,
    Image,
    Message,
    Request,
    Text,
    Usage,
)
from toolwire.client.clearing import NOTHING, Clearing, clear, clear_messages, context_window, estimate_tokens
from toolwire.dialects import dialect
from toolwire.errors import InvalidField


def gone(text: str = BIG, name: str = "read") -> str:
    return f"[{name} gave {len(text)} characters, which were cleared to make room]"


@pytest.mark.row("R001-20")
def test_all_but_the_last_results_are_cleared_and_calls_stay() -> None:
    history = turns(6)
    view, cut = clear_messages(history, Clearing(at=100, at_least=10), 100, None)
    assert contents(view) == [gone()] * 3 + [BIG] * 3
    assert [message.tool_calls for message in view] == [message.tool_calls for message in history]
    assert (cut.results, cut.messages) == (3, 13)
    assert [(loss.path, loss.concept) for loss in cut.losses] == [
        (f"messages[{place}].content[0]", "old_result") for place in (2, 4, 6)
    ]
    assert contents(history) == [BIG] * 6


LEFT: dict[str, tuple[list[Message], Clearing, int, int | None]] = {
    "there is room": (turns(6), Clearing(at=1000), 999, None),
    "nobody knows the window": (turns(6), Clearing(), 10**9, None),
    "a share of the window is free": (turns(6), Clearing(at=0.5), 499, 1000),
    "too little would be gained": (turns(6), Clearing(at=100, at_least=3000), 10**6, None),
    "the results are the last": (turns(3), ALWAYS, 10**6, None),
    "the model has not seen them": (
        [Message("Go."), asks("a", "b"), gives("a"), gives("b")],
        Clearing(at=2, keep=0, at_least=0),
        10**6,
        None,
    ),
    "they are errors": (
        [Message("Go."), asks("a"), gives("a", is_error=True), Message("assistant", "Hm.")],
        Clearing(at=2, keep=0, at_least=0),
        10**6,
        None,
    ),
    "their tool is excluded": (
        [Message("Go."), asks("a", name="look"), gives("a", name=None), Message("assistant", "Hm.")],
        Clearing(at=2, keep=0, at_least=0, exclude=("look",)),
        10**6,
        None,
    ),
    "they are shorter than what would stand for them": (turns(6, "ok"), ALWAYS, 10**6, None),
    "there is nothing": ([], ALWAYS, 10**6, None),
}


@pytest.mark.parametrize(("history", "policy", "tokens", "window"), LEFT.values(), ids=LEFT)
def test_a_history_stays_as_it_is_where(
    history: list[Message], policy: Clearing, tokens: int, window: int | None
) -> None:
    assert clear_messages(history, policy, tokens, window) == (history, NOTHING)


@pytest.mark.parametrize("policy", [Clearing(at=1000), Clearing(at=0.5)])
def test_the_limit_is_a_count_or_a_share(policy: Clearing) -> None:
    assert contents(clear_messages(turns(6), policy, 1000, 2000)[0])[0] == gone()


def test_a_result_of_parts_says_how_much_it_was() -> None:
    content = [Text("Seen: "), Image(data="aGk=", media_type="image/png")]
    history = [Message("Go."), asks("a"), gives("a", content, None), Message("assistant", "Hm.")]
    view, _ = clear_messages(history, Clearing(at=2, keep=0, at_least=0), 10**6, None)
    assert contents(view) == ["[read gave 6 characters and 1 media, which were cleared to make room]"]


def test_it_goes_in_steps() -> None:
    """Between two steps all that was sent before is the beginning of what is sent next."""
    history, cut, steps, sent = [Message("Go.")], NOTHING, 0, ""
    policy = Clearing(at=4000, at_least=0.4)
    for number in range(60):
        history += [asks(f"c{number}"), gives(f"c{number}")]
        request = Request(context=Context(messages=history), model="m")
        request, after = clear(request, policy, None, cut)
        now = written("openai-chat", request)
        steps += after != cut
        assert after != cut or now.startswith(sent[:-2])
        assert estimate_tokens(request) < 4000 + 500
        cut, sent = after, now
    assert 5 < steps < 15


def written(name: str, request: Request) -> str:
    """Write the messages of a request as its wire does."""
    body = dialect(name).encode_request(replace(request, model="m")).body
    return str(body["messages"])


WRONG: dict[str, dict[str, Any]] = {
    "at": {"at": 0},
    "keep": {"keep": -1},
    "at_least": {"at_least": -1},
    "exclude": {"exclude": "read"},
    "window": {"window": 0},
}


@pytest.mark.parametrize("field", WRONG)
def test_a_policy_that_makes_no_sense_is_refused(field: str) -> None:
    with pytest.raises(InvalidField, match=field):
        Clearing(**WRONG[field])


def test_what_the_provider_keeps_itself_is_not_cleared() -> None:
    context = Context(messages=turns(9), provider_state={"previous_response_id": "r"})
    request = Request(context=context, model="m")
    assert clear(request, ALWAYS) == (request, NOTHING)


@pytest.mark.parametrize(
    ("model", "policy", "falls"),
    [
        ("gpt-4o", Clearing(at=0.01, at_least=0), True),
        ("gpt-4o", Clearing(), False),
        ("nobody-knows", Clearing(at=0.01, at_least=0), False),
        ("nobody-knows", Clearing(at=0.01, at_least=0, window=100_000), True),
        ("nobody-knows", Clearing(at=1500, at_least=0), True),
        (None, Clearing(at=0.01, at_least=0), False),
    ],
)
def test_the_window_is_that_of_the_catalogue_or_is_said(model: str | None, policy: Clearing, falls: bool) -> None:
    assert context_window("gpt-4o") == 128_000
    request, cut = clear(Request(context=Context(messages=turns(6)), model=model), policy)
    assert (cut.results == 3) == falls == (contents(request.messages)[0] == gone())


def test_tokens_are_those_that_were_counted_else_estimated() -> None:
    history = [Message("Go."), asks("a"), gives("a", "x" * 400)]
    request = Request(context=Context("s" * 40, history, TOOLS[:1]), model="m")
    told, said = "read" + "Does it." + str(TOOLS[0].parameters), "Go." + "I look." + "{}"
    assert estimate_tokens(request, Usage(input_tokens=1000, output_tokens=50)) == 1150
    assert (
        estimate_tokens(request, Usage(output_tokens=50))
        == estimate_tokens(request)
        == (40 + len(told) + len(said) + 400) // 4
    )
    picture = replace(request, context=Context(None, [Message("user", [Image("u"), Text("x" * 40)])]))
    assert estimate_tokens(picture) == 1510
