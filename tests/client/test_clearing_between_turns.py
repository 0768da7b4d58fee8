"""Old results are cleared between the turns of a run: by the provider where it can, else by the client."""

from itertools import pairwise
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, lead, legal
from toolwire import Clearing, ToolCall, ToolResult
from toolwire.client import sync
from toolwire.errors import InvalidField
from toolwire.testing import simulate

LONG = "x = 1\n" * 500
TURNS = 8


def read_file(path: str) -> str:
    """Read a file."""
    return f"# {path}\n{LONG}"


SCRIPT: list[Any] = [[ToolCall(None, "read_file", {"path": f"{number}.py"})] for number in range(TURNS)]


def sizes(model: Any) -> list[int]:
    """Count the characters of the results in each request."""
    found = []
    for received in model.requests:
        parts = [part for message in received.request.messages for part in message.parts]
        found.append(sum(len(str(part.content)) for part in parts if type(part) is ToolResult))
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R001-20")
def test_what_is_sent_stays_small_and_the_history_whole(name: str, face: str, shown: bool) -> None:
    policy = Clearing(at=4_000, keep=2, native=False)
    with simulate([*SCRIPT, ["Done."]]) as model:
        done = lead(face, name, model.url, "Go", shown=shown, tools=[read_file], clearing=policy).done
    assert (done.ending, done.content) == ("answer", "Done.")
    assert legal(done.messages)
    results = [part for message in done.messages for part in message.parts if type(part) is ToolResult]
    assert all(str(part.content).endswith(LONG) for part in results)
    found = sizes(model)
    assert max(found) < 6 * len(LONG) < TURNS * len(LONG)
    assert [received.refused for received in model.requests] == [None] * (TURNS + 1)
    assert any("cleared" in str(loss) for loss in done.losses)


@pytest.mark.parametrize("face", FACES)
def test_a_provider_that_can_is_told_to(face: str) -> None:
    with simulate([*SCRIPT[:2], ["Done."]]) as model:
        lead(face, "anthropic", model.url, "Go", tools=[read_file], clearing=Clearing(at=4_000))
    for received in model.requests:
        [edit] = received.body["context_management"]["edits"]
        assert (edit["type"], edit["trigger"]["value"]) == ("clear_tool_uses_20250919", 4_000)
        assert "context-management" in received.headers["anthropic-beta"]


def test_nothing_is_cleared_where_the_window_is_not_known() -> None:
    with simulate([*SCRIPT, ["Done."]]) as model:
        done = lead("sync", "openai", model.url, "Go", tools=[read_file], clearing=True).done
    assert sizes(model)[-1] > TURNS * len(LONG)
    assert not any("cleared" in str(loss) for loss in done.losses)


def test_a_request_begins_as_the_one_before_but_for_steps() -> None:
    policy = Clearing(at=4_000, keep=2, native=False)
    with simulate([*SCRIPT, ["Done."]]) as model:
        lead("sync", "openai", model.url, "Go", tools=[read_file], clearing=policy)
    bodies = [str(received.body["messages"])[:-1] for received in model.requests]
    kept = [later.startswith(earlier) for earlier, later in pairwise(bodies)]
    assert 1 <= kept.count(False) <= 3
    assert kept.count(True) >= 4


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(InvalidField, match="clearing"):
        sync.Client("openai", "m", api_key="k").run("Go", clearing=0.5)  # type: ignore[call-overload]
