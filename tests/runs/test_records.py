"""What is recorded of a run: every text comes back, on every database."""

import json
from typing import Any

import pytest

from tests.runs.scripted import given
from toolwire import Runs, ToolResult, tool
from toolwire.runs.records import pack, unpack

LONG = "a\x00b" * 100


@pytest.mark.parametrize(
    ("value", "kept"), [("a" * 200, 0), ("a" * 201, 1), (LONG, 0), ({"$": "a"}, 0), ([{"$$": "ä" * 201}, LONG], 1)]
)
def test_what_is_packed_is_unpacked(value: Any, kept: int) -> None:
    texts: dict[str, str] = {}
    assert unpack(json.loads(json.dumps(pack(value, texts))), texts) == value
    assert len(texts) == kept
    assert all("\x00" not in text for text in texts.values())


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text + LONG


def odd(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Call with NUL wherever there is room for it, then say it."""
    if any(message["role"] == "tool" for message in messages):
        return {"content": LONG}
    wanted = [("echo", "one"), ("echo", "c\x00d"), ("ec\x00ho", "other")]
    return {
        "tool_calls": [
            {"id": call, "type": "function", "function": {"name": name, "arguments": json.dumps({"text": LONG})}}
            for name, call in wanted
        ]
    }


@pytest.mark.slow
def test_nul_is_recorded_and_given_again(runs_url: str) -> None:
    with Runs(runs_url) as runs:
        run = runs.start(LONG, id="odd", tools=[echo], **given(odd))
        done = run.result(30)
        runs.core.results.clear()
        parts: list[Any] = [part for message in done.messages for part in message.content or ()]
        results = [part.content for part in parts if isinstance(part, ToolResult)]
        assert results == [LONG * 2, LONG * 2, r"unknown tool 'ec\x00ho'. Available: echo; did you mean echo?"]
        assert done.content == LONG
        assert run.result(30) == done
