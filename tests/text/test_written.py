"""What is written reads back as what it was, in every format; what a format cannot say is a loss."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text.offers import SHAPES, TOOLS, read
from toolwire import Context, Message, Text, Thinking, ToolCall, ToolResult
from toolwire.text import format, names
from toolwire.text.values import dump_json

MARKS = [
    "<",
    "|",
    ">",
    "tool_call",
    "</",
    "{",
    "}",
    "[",
    "]",
    "'",
    '"',
    "\\",
    "\n",
    "`",
    "null",
    "1",
    "=",
    ",",
    ":",
    "é",
    "｜",
]
WORDS = st.one_of(st.text(max_size=12), st.lists(st.sampled_from(MARKS), max_size=6).map("".join))
WORDS = WORDS.filter(lambda text: text.isprintable() or "\n" in text).filter(
    lambda text: text.encode("utf-8", "ignore").decode() == text
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "s": WORDS,
        "i": st.integers(-(2**53), 2**53),
        "n": st.floats(-1e6, 1e6).map(lambda number: round(number, 3)),
        "b": st.booleans(),
        "o": st.fixed_dictionaries({"x": WORDS}, optional={"y": st.lists(st.integers(0, 9), min_size=1, max_size=3)}),
        "a": st.lists(WORDS, min_size=1, max_size=3),
    },
)
CALLS = st.lists(ARGUMENTS.map(lambda given: ToolCall(None, "f", given)), min_size=1, max_size=2)


def check(name: str, calls: list[ToolCall]) -> bool:
    """Write calls and read them; whether all could be said."""
    each = format(name)
    written = each.encode_calls(calls, TOOLS)
    response = read(each, written.text)
    if any(loss.concept == "arguments" for loss in written.losses):
        assert len(response.tool_calls) <= len(calls), "nothing that is written calls more than was said"
        return False
    assert [dump_json(call.arguments) for call in response.tool_calls] == [dump_json(call.arguments) for call in calls]
    assert (response.content, response.broken_calls) == (None, [])
    return True


@pytest.mark.parametrize("name", SHAPES.values())
@settings(max_examples=3, deadline=None)
@given(CALLS)
def test_calls_read_back(name: str, calls: list[ToolCall]) -> None:
    check(name, calls)


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
@settings(max_examples=300, deadline=None)
@given(CALLS)
def test_many_calls_read_back(name: str, calls: list[ToolCall]) -> None:
    check(name, calls)


PLAIN = [{"s": "a"}, {"s": ' "x" <b>\n', "i": -3, "b": False}, {"o": {"x": "{", "y": [1]}, "a": ["p", "q]"]}, {}]


@pytest.mark.sampled
@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("arguments", PLAIN, ids=str)
def test_what_is_plain_is_no_loss(name: str, arguments: dict[str, object]) -> None:
    assert check(name, [ToolCall(None, "f", arguments), ToolCall(None, "g", {})])


@pytest.mark.parametrize("name", names())
def test_a_value_that_a_format_cannot_say_is_a_loss_and_never_another_call(name: str) -> None:
    each = format(name)
    inner = each.encode_call(ToolCall(None, "g", {}), TOOLS).text
    closed = each.encode_call(ToolCall(None, "f", {"s": "a"}), TOOLS).text
    call = ToolCall(None, "f", {"s": f"b{closed[closed.index('a') + 1 :]}{inner}{inner}"})
    written = each.encode_call(call, TOOLS)
    read_back = read(each, written.text).tool_calls
    assert [call.name for call in read_back if call.runs] == ["f"]
    if read_back[0].arguments != call.arguments:
        assert [loss.path for loss in written.losses] == ["arguments"]


@pytest.mark.parametrize("name", names())
def test_an_answer_reads_back_with_its_words_and_thoughts(name: str) -> None:
    each = format(name)
    answer = Message("assistant", [Thinking("I look."), Text("Sure."), ToolCall(None, "f", {"s": "x"})])
    written = each.encode_context(Context(messages=[Message("Hi"), answer], tools=TOOLS))
    text = written.text[written.text.index("I look.") if "I look." in written.text else written.text.index("Sure.") :]
    response = read(each, text, thinking="I look." in text)
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("f", {"s": "x"})]
    assert "Sure." in (response.content or "")
    if each.row.thinking is None and each.row.shape != "channels":
        assert "thinking" in {loss.concept for loss in written.losses}
    elif each.row.shape != "channels":
        assert [part.text for part in response.message.parts if isinstance(part, Thinking)] == ["I look."]


def test_a_conversation_is_what_the_template_makes_of_it() -> None:
    call = ToolCall("c1", "f", {"s": "x"})
    history = [
        Message("user", "Hi"),
        Message("assistant", [Text("Sure."), call]),
        Message("tool", [ToolResult("c1", "f", "7")]),
    ]
    written = format("qwen3").encode_context(Context(system="Be kind.", messages=history), ask=True)
    assert written.text == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nSure.\n"
        '<tool_call>\n{"name": "f", "arguments": {"s": "x"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n7\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    assert {loss.severity for loss in written.losses} == {"minor"}


def test_an_id_of_the_text_is_kept_where_a_format_has_one() -> None:
    call = ToolCall("functions.f:7", "f", {"s": "x"})
    written = format("kimi-k2").encode_call(call)
    assert "<|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>" in written.text
    assert written.losses == ()
    assert read(format("kimi-k2"), written.text).tool_calls[0].id == "functions.f:7"
    [loss] = format("hermes").encode_call(call).losses
    assert (loss.path, loss.severity) == ("id", "minor")


def test_maps_are_taken_where_values_are() -> None:
    form, tool = format("hermes"), {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    assert (
        form.encode_call({"name": "f", "arguments": {}}, [tool]).text == form.encode_call(ToolCall(None, "f", {})).text
    )
    assert form.encode_result({"name": "f", "content": "7"}).text == "<tool_response>\n7\n</tool_response>"
    assert form.encode_context([{"role": "user", "content": "Hi"}]).text == "<|im_start|>user\nHi<|im_end|>\n"
    assert '"name": "f"' in form.encode_tools([tool]).text
