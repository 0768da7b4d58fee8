"""What a model does not take is left out, told, and no reason to stop: on both faces, plain and streamed."""

from typing import Any

import pytest

from tests.client.faces import FACES, KEY, lead
from toolwire import ToolCall, tool
from toolwire.testing import simulate


def look(where: str) -> str:
    """Look at a place."""
    return where


LOOKS = [tool(name=f"look_{number}")(look) for number in range(130)]
TOO_MUCH: dict[str, tuple[str, str, dict[str, Any], set[str]]] = {
    "an effort beside tools": ("openai", "gpt-6-sol", {"tools": LOOKS[:1], "effort": "high"}, {"effort"}),
    "a temperature": ("openai", "gpt-5", {"tools": LOOKS[:1], "temperature": 0.5}, {"temperature"}),
    "a temperature for Responses": (
        "openai-responses",
        "o3",
        {"tools": LOOKS[:1], "temperature": 0.5},
        {"temperature"},
    ),
    "a temperature for Messages": (
        "anthropic",
        "claude-sonnet-4-5",
        {"tools": LOOKS[:1], "temperature": 0.5},
        {"temperature"},
    ),
    "too many tools": ("openai", "gpt-4.1", {"tools": LOOKS}, {"tools[128]", "tools[129]"}),
    "too many tools for Responses": ("openai-responses", "gpt-4.1", {"tools": LOOKS}, {"tools[128]", "tools[129]"}),
}


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("case", TOO_MUCH)
def test_a_client_goes_on_without_what_is_not_taken_and_tells_it(case: str, face: str, shown: bool) -> None:
    provider, model, settings, lost = TOO_MUCH[case]
    with simulate([[ToolCall(None, "look_0", {"where": "here"})], ["Done."]]) as server:
        led = lead(face, provider, server.url, "Go.", shown=shown, model=model, **settings)
    assert led.done.response.content == "Done."
    assert {loss.path for loss in led.done.losses if loss.severity == "semantic"} == lost


@pytest.mark.parametrize("shown", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("face", FACES)
def test_a_server_of_messages_that_nobody_knows_is_told_the_version(face: str, shown: bool) -> None:
    with simulate(["Here.", "Here."]) as server:
        mine = {"name": "mine", "dialect": "anthropic", "base_url": f"{server.url}/v1", "api_key": KEY}
        led = lead(face, mine, server.url, "Go.", shown=shown, model="claude-sonnet-4-5")  # type: ignore[arg-type]
        older = {"options": {"quirks": {"api_version": "2023-06-01"}}, "temperature": 0.5}
        lead(face, mine, server.url, "Go.", shown=shown, model="claude-sonnet-4-5", **older)  # type: ignore[arg-type]
    assert led.done.response.content == "Here."
    first, second = server.requests
    assert [sent.headers["anthropic-version"] for sent in (first, second)] == ["2026-10-21", "2023-06-01"]
    assert ("temperature" in first.body, second.body["temperature"]) == (False, 0.5)
