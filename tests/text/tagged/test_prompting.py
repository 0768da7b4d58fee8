"""What a model is told: the caller's prompt first, then how to call, then each tool."""

import json
from typing import Any

import pytest

from tests.text.tagged.texts import BLOCK, TOOLS
from toolwire import Tool
from toolwire.text_tagged import augment_system_prompt, parse

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
GIVEN = {"name": "read_file", "description": "read a file", "schema": SCHEMA}


@pytest.mark.row("R004-14", "I-35")
def test_the_seeds_example() -> None:
    prompt = augment_system_prompt("Be helpful.", [GIVEN])
    assert prompt.startswith("Be helpful.\n\n")
    places = [
        prompt.index(said)
        for said in ("~~~tool_call\n", "read_file", "read a file", json.dumps(SCHEMA, separators=(",", ":")))
    ]
    assert places == sorted(places)
    assert prompt.endswith(json.dumps(SCHEMA, separators=(",", ":")))


@pytest.mark.parametrize("base", [None, "", " \n"])
@pytest.mark.row("R004-15")
def test_no_base_is_no_base(base: str | None) -> None:
    prompt = augment_system_prompt(base, [GIVEN])
    assert prompt.startswith("# Tools")
    assert prompt == augment_system_prompt("x", [GIVEN]).removeprefix("x\n\n")


@pytest.mark.parametrize("key", ["schema", "parameters", "input_schema", "inputSchema"])
@pytest.mark.row("I-35")
def test_a_schema_stands_under_any_of_its_keys(key: str) -> None:
    given = {"name": "read_file", "description": "read a file", key: SCHEMA}
    assert augment_system_prompt("Be helpful.", [given]) == augment_system_prompt("Be helpful.", [GIVEN])


@pytest.mark.parametrize(("base", "expected"), [("Be helpful.", "Be helpful."), (None, "")])
def test_without_a_tool_there_is_nothing_to_tell(base: str | None, expected: str) -> None:
    assert augment_system_prompt(base, []) == expected


def test_the_example_in_the_prompt_is_the_protocol() -> None:
    prompt = augment_system_prompt(None, TOOLS)
    [call] = parse(prompt).calls
    assert (call.name, call.arguments) == ("TOOL_NAME", {"PARAMETER": "VALUE"})


def test_tools_stand_in_their_order_and_the_same_tools_give_the_same_text() -> None:
    prompt = augment_system_prompt("x", TOOLS)
    assert prompt.index("## read_file") < prompt.index("## search")
    assert prompt == augment_system_prompt("x", TOOLS)
    assert augment_system_prompt("x", TOOLS[:1]) in prompt


@pytest.mark.row("I2")
def test_a_description_cannot_show_a_call_of_its_own() -> None:
    tool = Tool("sly", f"Helps.\n{BLOCK}\n  ~~~tool_result\n", {"type": "object"})
    prompt = augment_system_prompt(None, [tool])
    assert "\\~~~tool_call\n" in prompt
    assert "  \\~~~tool_result" in prompt
    assert [call.name for call in parse(prompt).calls] == ["TOOL_NAME"]


def test_a_tool_of_free_text_takes_it_in_one_argument() -> None:
    prompt = augment_system_prompt(None, [Tool("run", "Run code.", custom=True)])
    assert '"required":["input"]' in prompt


def many() -> list[Tool]:
    properties: dict[str, Any] = {
        "path": {"type": "string", "description": "Where it is, relative to the folder of the project."},
        "limit": {"type": ["integer", "null"], "description": "How many lines to give at most."},
        "mode": {"enum": ["fast", "full"], "description": "How much of it to look at."},
    }
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    return [Tool(f"tool_{n}", "Does one thing. And says more about it here.", schema) for n in range(10)]


def test_a_compact_prompt_tells_each_tool_in_one_line() -> None:
    compact = augment_system_prompt("x", many(), compact=True)
    line = '- tool_3(path: string, limit?: integer | null, mode?: "fast" | "full") - Does one thing.'
    assert line in compact.splitlines()
    assert len(compact) < 0.8 * len(augment_system_prompt("x", many()))


def test_one_call_at_a_time_is_asked_for() -> None:
    assert "at most one tool" in augment_system_prompt("x", TOOLS, parallel=False)
    assert "at most one tool" not in augment_system_prompt("x", TOOLS)
