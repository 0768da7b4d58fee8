"""`Done.history` is the whole conversation: a run with `messages=done.history` continues it."""

from pathlib import Path
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, RUN, TOKYO, get_weather, lead
from toolwire import Client, Context, Message, Runs, ToolResult
from toolwire.client.settings import ClientOptions
from toolwire.testing import simulate

SCRIPT = [[TOKYO], ["It is 25 degrees, Ann."], ["You are Ann."]]


def texts(messages: Any) -> list[tuple[str, str]]:
    """Give the role and the text of each message; of a result, its content."""
    results = [[part for part in one.parts if isinstance(part, ToolResult)] for one in messages]
    return [
        (one.role, one.text or "".join(str(r.content) for r in found))
        for one, found in zip(messages, results, strict=True)
    ]


FIRST = [
    ("user", "I am Ann. How is Tokyo?"),
    ("assistant", ""),
    ("tool", "25 degrees in Tokyo"),
    ("assistant", "It is 25 degrees, Ann."),
]


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_run_continues_with_the_history_of_the_one_before(name: str, face: str, *, shown: bool) -> None:
    RUN.clear()
    with simulate(SCRIPT) as model:
        done = lead(face, name, model.url, FIRST[0][1], shown=shown, tools=[get_weather]).done
        assert texts(done.history) == FIRST
        more = lead(face, name, model.url, "Who am I?", shown=shown, messages=done.history, tools=[get_weather]).done
    assert texts(more.history) == [*FIRST, ("user", "Who am I?"), ("assistant", "You are Ann.")]
    assert more.messages == more.history[-1:]
    assert "I am Ann" in str(model.requests[-1].body)
    assert not any(loss.severity != "formal" for loss in more.losses if loss.concept.startswith("message"))


@pytest.mark.parametrize(
    "prompt",
    [
        "Hi",
        Message("Hi"),
        ["Hi"],
        Context(messages=["Hi"]),
        [{"role": "user", "content": "Hi"}],
    ],
)
def test_every_kind_of_prompt_is_in_the_history(prompt: Any) -> None:
    with simulate(["Hello."]) as model, Client("openai", "m", base_url=model.url, api_key="x") as client:
        done = client.run(prompt, messages=["Earlier."])
    assert [one.text for one in done.history] == ["Earlier.", "Hi", "Hello."]
    assert "earlier" not in repr(done)


def test_the_end_of_a_stream_that_was_closed_has_a_history() -> None:
    with simulate([["One. ", "Two."]]) as model, Client("openai", "m", base_url=model.url, api_key="x") as client:
        stream = client.stream("Count.")
        next(iter(stream))
        stream.close()
    assert stream.done is not None
    assert [one.text for one in stream.done.history][:1] == ["Count."]


def test_a_durable_run_has_the_same_history_in_every_process(tmp_path: Path) -> None:
    RUN.clear()
    url = f"sqlite:///{tmp_path}/runs.db"
    with simulate(SCRIPT) as model:
        options: ClientOptions = {"base_url": model.url, "api_key": "x"}
        with Runs(url) as runs:
            run = runs.start(FIRST[0][1], "openai", "m", id="one", tools=[get_weather], options=options)
            here = run.result(30)
            more = runs.start("Who am I?", "openai", "m", id="two", messages=here.history, options=options).result(30)
        with Runs(url) as runs:
            there = runs.run("one").result(30)
            assert texts(runs.run("two").result(30).history) == texts(more.history)
    assert texts(here.history) == texts(there.history) == FIRST
    assert texts(more.history) == [*FIRST, ("user", "Who am I?"), ("assistant", "You are Ann.")]
