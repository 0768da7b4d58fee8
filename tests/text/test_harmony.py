"""Harmony: completions that begin inside of a header, tools of the model's own, headers that are cut."""

from typing import Any

import pytest

from tests.text.offers import TOOLS, read
from toolwire import Context, Message, Request, Thinking, Tool, ToolCall
from toolwire import text as texts
from toolwire.text import format

PYTHON = Tool("python", "Runs.", {"type": "object", "properties": {"code": {"type": "string"}}})
FREE = Tool("apply", "Applies.", custom=True)
CALL = [("f", {"s": "x"})]


def found(text: str, tools: list[Tool] | None = None) -> tuple[list[tuple[str, Any]], str, str, list[str]]:
    """Return calls, words, thoughts and broken calls, which do not depend on how the text is cut."""
    results = []
    for pieces in ([text], list(text), [text[:7], text[7:]]):
        response = read(format("harmony"), text, pieces, tools=tools or [*TOOLS, PYTHON, FREE])
        calls = [(call.name, call.raw if call.custom else call.arguments) for call in response.tool_calls if call.runs]
        thought = "".join(part.text for part in response.message.parts if isinstance(part, Thinking))
        results.append((calls, response.content or "", thought, [call.name for call in response.broken_calls]))
    assert results[0] == results[1] == results[2]
    return results[0]


@pytest.mark.parametrize("role", ["", " ", "\n", "assistant ", " assistant "])
@pytest.mark.parametrize("name", ["functions.f", "f"])
@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary <|constrain|>json",
        "<|channel|>commentary<|constrain|>json",
        "<|channel|>commentary json",
        "<|channel|>analysis <|constrain|>json",
        "<|channel|>analysis code",
        "<|channel|>commentary",
        " <|constrain|>json",
        " json",
        "",
    ],
)
def test_a_completion_may_begin_with_its_recipient(role: str, name: str, header: str) -> None:
    text = f'{role}to={name}{header}<|message|>{{"s": "x"}}'
    assert found(text) == (CALL, "", "", [])
    assert found(text + "<|call|>") == (CALL, "", "", [])
    assert found(text[:-1]) == ([], "", "", ["f"])
    assert format("harmony").decode(text[:-1], TOOLS, whole=False).finish_reason == "incomplete"


def test_a_completion_may_begin_with_its_role_or_go_on_after_its_call() -> None:
    text = (
        "assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    )
    assert found(text) == ([], "Yes.", "Hm.", [])
    second = "<|start|>assistant<|channel|>final<|message|>Yes."
    assert found(f' to=functions.f<|channel|>commentary json<|message|>{{"s": "x"}}<|call|>{second}') == (
        CALL,
        "Yes.",
        "",
        [],
    )
    assert found(" to=self<|channel|>analysis<|message|>Hm.") == ([], "", "Hm.", [])


@pytest.mark.parametrize(
    "text",
    ["to=functions.f is a call", "to= you", "assistants help", "assistant", " to=f", "to=f\n\nDear f,", "to=a <b>"],
)
def test_words_that_begin_like_a_header_are_words(text: str) -> None:
    assert found(text) == ([], text, "", [])


def test_a_recipient_that_was_not_offered_stays_text() -> None:
    text = ' to=functions.launch<|channel|>commentary json<|message|>{"s": "x"}'
    assert found(text) == ([], text, "", [])


@pytest.mark.parametrize("head", [" to=python<|channel|>commentary", "<|channel|>analysis to=python"])
@pytest.mark.parametrize("kind", [" <|constrain|>code", " code", ""])
@pytest.mark.parametrize("end", ["", "<|call|>"])
def test_the_message_to_python_is_its_code(head: str, kind: str, end: str) -> None:
    code = 'print("hi", {1: 2}, "<b>")\nx = [1]'
    assert found(f"{head}{kind}<|message|>{code}{end}") == ([("python", {"code": code})], "", "", [])
    assert found(f'{head}{kind}<|message|>{{"code": "1"}}{end}') == ([("python", {"code": "1"})], "", "", [])
    assert found(f'{head}{kind}<|message|>{{"code": 1}}x{end}')[0] == []
    assert found(f"{head}{kind}<|message|>{code}{end}", TOOLS) == ([], "", "", ["python"])
    assert format("harmony").decode(f"{head}{kind}<|message|>pri", [PYTHON], whole=False).tool_calls == []


def test_a_message_to_a_custom_tool_is_its_text() -> None:
    head = "<|channel|>commentary to=functions.apply<|message|>"
    assert found(f"{head}*** Begin\n+x<|call|>") == ([("apply", "*** Begin\n+x")], "", "", [])
    assert found(head + '{"a": 1}<|call|>') == ([("apply", '{"a": 1}')], "", "", [])
    assert found(head + '{"input": "y"}<|call|>') == ([("apply", "y")], "", "", [])


def test_a_header_that_is_cut_is_a_broken_call_once_its_tool_is_known() -> None:
    head = "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json"
    assert found(f"<|channel|>analysis<|message|>Hm.<|end|>{head}") == ([], "", "Hm.", ["f"])
    assert found("<|start|>assistant to=functions.f") == ([], "<|start|>assistant to=functions.f", "", [])


def test_a_raw_completion_of_gpt_oss_is_read() -> None:
    wire = texts.completions(TOOLS, format="harmony", path="/v1/completions")
    prompt = wire.encode_request(Request(context=Context(messages=[Message("Hi")], tools=TOOLS), model="m")).body[
        "prompt"
    ]
    assert prompt.endswith("<|start|>assistant")
    answer = ' to=functions.f<|channel|>commentary <|constrain|>json<|message|>{"s": "x"}'
    response = wire.decode_response({"choices": [{"text": answer, "index": 0, "finish_reason": "stop"}]})
    assert [(call.name, call.arguments) for call in response.tool_calls] == CALL


def test_a_completion_that_was_given_calls_nothing() -> None:
    text = ' to=functions.f<|channel|>commentary json<|message|>{"s": "x"}<|call|>'
    assert read(format("harmony"), text, given=[f"See:{text}"]).tool_calls == []
    assert [type(part) for part in read(format("harmony"), text).message.parts] == [ToolCall]
