"""Blocks that somebody else wrote: in a prompt of ours they begin nothing, and repeated they are quotations."""

import json
import random
from collections import Counter

import pytest

from tests.text.offers import SHAPES, TOOLS, raw_block, read
from toolwire import Context, Document, Message, Text, ToolCall, ToolResult
from toolwire.text import format, names

EACH = [pytest.param(12, id="some"), pytest.param(2500, id="all", marks=pytest.mark.slow)]
SURROUNDINGS = ("{}", "Run this:\n{}\nnow", "> {}", "```\n{}\n```", '{{"a": "{}"}}', "\n\n{}\n\n", "a{}b")


def spoof(name: str, chance: random.Random) -> str:
    """Give a text that holds a block which calls a tool that is offered."""
    calls = [ToolCall(None, chance.choice("fg"), {}) for _ in range(chance.randrange(1, 3))]
    if calls[0].name == "f":
        calls[0] = ToolCall(None, "f", {"s": chance.choice(["a", "rm -rf", ""]), "i": chance.randrange(9)})
    text = format(name).encode_calls(calls, TOOLS).text
    if chance.random() < 0.2:
        text = text[chance.randrange(3) :]
    return chance.choice(SURROUNDINGS).replace("{}", text).replace("{{", "{").replace("}}", "}")


@pytest.mark.parametrize("each", EACH)
@pytest.mark.parametrize("name", SHAPES.values())
def test_no_spoof_that_we_write_is_a_call(name: str, each: int, tally: Counter[str]) -> None:
    chance = random.Random(name)  # noqa: S311 - the same every time
    form = format(name)
    for _ in range(each):
        texts = [spoof(name, chance) for _ in range(4)]
        history = [
            Message("user", texts[1]),
            Message("tool", [ToolResult("c", "f", texts[2])]),
            Message("user", [Document(text=texts[3]), Text("Look.")]),
        ]
        written = form.encode_context(Context(system=texts[0], messages=history))
        response = read(form, written.text)
        assert (response.tool_calls, response.broken_calls) == ([], []), written.text
        tally["spoofs in prompts, none of them a call"] += 4


@pytest.mark.parametrize("name", names())
def test_a_block_that_the_model_was_given_is_a_quotation(name: str) -> None:
    form = format(name)
    block = raw_block(form, ToolCall(None, "f", {"s": "x"}))
    assert [call.name for call in read(form, block).tool_calls] == ["f"], "the control: it is a call"
    for given in (f"See:\n{block}\n", block, f"> {block}"):
        response = read(form, f"It says {block} there.", given=[given])
        assert response.tool_calls == []
        assert "".join(block.split()) in "".join((response.content or "").split())


FENCES = (
    "```\n{}\n```",
    "```json\n{}\n```",
    "It says:\n```json\n{}\n```\n",
    "~~~\n{}\n~~~",
    "````\n{}\n````",
    "```text\n{}\n```",
)


@pytest.mark.parametrize("name", names())
def test_a_fence_around_a_quotation_makes_no_call_of_it(name: str) -> None:
    form = format(name)
    for arguments in ({"s": "x"}, {"s": "a\nb", "i": 3}):
        block = raw_block(form, ToolCall(None, "f", arguments))
        for fence in FENCES:
            for given in (block, fence.replace("{}", block)):
                response = read(form, fence.replace("{}", block), given=[given])
                assert response.tool_calls == [], (fence, given)


def test_a_call_in_a_fence_that_was_not_given_is_a_call() -> None:
    block = '[{"name": "f", "arguments": {"s": "x"}}]'
    for fence in FENCES[:3]:
        for given in ('Call f with {"s": "x"}.', block.replace("x", "y")):
            response = read(format("xlam"), fence.replace("{}", block), given=[given])
            assert [call.arguments for call in response.tool_calls] == [{"s": "x"}]


@pytest.mark.parametrize("name", names())
def test_an_answer_that_escapes_a_quotation_as_json_does_makes_no_call_of_it(name: str) -> None:
    form = format(name)
    block = raw_block(form, ToolCall(None, "f", {"s": "x"}))
    assert read(form, json.dumps({"said": block}), given=[block]).tool_calls == []


@pytest.mark.parametrize("name", names())
def test_no_written_result_is_a_call_whatever_it_holds(name: str) -> None:
    form = format(name)
    blocks = [raw_block(form, ToolCall(None, "f", arguments)) for arguments in ({"s": "x"}, {})]
    blocks += [f"{begin}{blocks[0]}" for begin, _ in form.row.pairs]
    for block in blocks:
        written = form.encode_result(ToolResult("c", "f", block)).text
        assert read(form, written).tool_calls == [], written
        context = Context(messages=[Message("user", block), Message("tool", [ToolResult("c", "f", block)])])
        written = form.encode_context(context).text
        assert read(form, written).tool_calls == [], written


@pytest.mark.parametrize("name", names())
def test_escaped_words_are_the_same_but_for_backslashes(name: str) -> None:
    form = format(name)
    block = raw_block(form, ToolCall(None, "f", {"s": "x"}))
    said = form.escape(block)
    assert said != block
    assert said.replace("\\", "") == block.replace("\\", "")
    assert form.escape("Plain words: 1 < 2 and (a, b).") == "Plain words: 1 < 2 and (a, b)."
