"""What it means to run a tool twice: said where it is declared, hinted by a server, or once."""

from typing import Any

import pytest

from toolwire import CallKey, CodeTools, NotYet, Tool, ToolCall, checkable, execute, tool
from toolwire.errors import InvalidField
from toolwire.resolvers import AgentResolver
from toolwire.resolvers.effects import effects_of
from toolwire.waiting.call_keys import use_key


def probe(_key: CallKey) -> NotYet:
    return NotYet()


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ({}, "once"),
        ({"effects": "none"}, "none"),
        ({"effects": "idempotent"}, "idempotent"),
        ({"effects": checkable(probe)}, checkable(probe)),
        ({"annotations": {"readOnlyHint": True}}, "none"),
        ({"annotations": {"idempotentHint": True}}, "idempotent"),
        ({"annotations": {"readOnlyHint": False, "idempotentHint": False}}, "once"),
        ({"annotations": {"readOnlyHint": "yes"}}, "once"),
        ({"annotations": {"readOnlyHint": True}, "effects": "once"}, "once"),
    ],
)
def test_what_a_tool_says_of_its_effects(metadata: dict[str, Any], wanted: Any) -> None:
    assert effects_of(Tool("t", "Does it.", {}, metadata)) == wanted
    assert effects_of(None) == "once"


def test_a_word_that_is_none_is_refused_where_the_tool_is_declared() -> None:
    with pytest.raises(InvalidField, match="must be one of none, idempotent, once, or checkable"):
        tool(probe, effects="twice")  # type: ignore[call-overload]
    with pytest.raises(InvalidField, match="must be a function of a call's key"):
        checkable("yes")  # type: ignore[arg-type]


def test_the_key_is_hidden_from_the_model_and_given_to_the_tool() -> None:
    @tool(effects="idempotent")
    def pay(order: str, key: CallKey) -> str:
        """Pay an order."""
        return f"{order} {key}"

    @tool
    def pay_later(key: "CallKey", /, order: str = "9") -> str:
        """Pay an order later."""
        return f"{order} {key}"

    for declared in (pay, pay_later):
        parameters = declared.tool.parameters or {}
        assert list(parameters["properties"]) == ["order"]
    with use_key("k-1"):
        [result] = execute([ToolCall("1", "pay", {"order": "17"})], AgentResolver([pay]))
        assert result.content == "17 k-1"
        [late] = execute([ToolCall("1", "pay_later", {})], AgentResolver([pay_later]))
        assert late.content == "9 k-1"
    [one, other] = execute([ToolCall(n, "pay", {"order": "17"}) for n in ("1", "2")], AgentResolver([pay]))
    assert one.content != other.content
    [forged] = execute([ToolCall("1", "pay", {"order": "17", "key": "mine"})], AgentResolver([pay]))
    assert forged.is_error


def test_the_code_tools_say_theirs(tmp_path: Any) -> None:
    said = {one.name: effects_of(one) for one in CodeTools(tmp_path).available_tools()}
    writing = ("edit_file", "multi_edit", "append_to_file", "bash")
    assert said["write_file"] == "idempotent"
    assert {name: said.pop(name) for name in writing} == dict.fromkeys(writing, "once")
    del said["write_file"]
    assert set(said.values()) == {"none"}
    assert len(said) == 7
