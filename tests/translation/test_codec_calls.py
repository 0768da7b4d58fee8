"""The calls in a response's body, as the codec reads them under each provider's name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire import codec
from toolwire.dialects import ALIASES, NAMES, dialect
from toolwire.types import ToolCall

PROVIDERS = (*NAMES, *ALIASES)


def answer(provider: str, *entries: Any) -> dict[str, Any]:
    """Put entries where a provider's response has its calls."""
    match dialect(provider).DIALECT:
        case "openai-chat":
            return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": list(entries)}}]}
        case "anthropic":
            return {"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "a"}, *entries]}
        case "ollama":
            return {"message": {"role": "assistant", "content": "", "tool_calls": list(entries)}}
        case "gemini":
            return {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}, *entries]}}]}
    return {"output": [{"type": "reasoning", "summary": []}, *entries]}


def entry(provider: str, call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    """Make one call as a provider gives it; without an id where there is none."""
    named = {} if call_id is None else {"id": call_id}
    match dialect(provider).DIALECT:
        case "openai-chat" | "ollama":
            return {**named, "function": {"name": name, "arguments": arguments}}
        case "anthropic":
            return {"type": "tool_use", **named, "name": name, "input": arguments}
        case "gemini":
            return {"functionCall": {**named, "name": name, "args": arguments}}
    return {
        "type": "function_call",
        **({"call_id": call_id} if call_id else {}),
        "name": name,
        "arguments": arguments,
    }


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("arguments", ['{"city":"Tokyo"}', {"city": "Tokyo"}])
@pytest.mark.row("R000-09", "R000-10", "R000-11", "R000-12", "R000-13", "I-03")
def test_calls_are_read(provider: str, arguments: Any) -> None:
    body = answer(provider, entry(provider, "c1", "look", arguments), entry(provider, None, "find", arguments))
    calls = codec.decode_tool_calls(body, provider)
    assert calls == [ToolCall("c1", "look", {"city": "Tokyo"}), ToolCall(None, "find", {"city": "Tokyo"})]
    assert [(call.index, type(call)) for call in calls] == [(0, ToolCall), (1, ToolCall)]


ARGUMENTS: dict[str, tuple[Any, str | None, str | None]] = {
    "an empty text": ("", "", None),
    "blank text": ("  ", "  ", None),
    "null in text": ("null", "null", None),
    "null": (None, None, None),
    "a list": ([1], "[1]", "object|JSON text"),
    "a number": (5, "5", "object|JSON text"),
    "a truth value": (True, "true", "object|JSON text"),
    "a list in text": ("[1]", "[1]", "an object was expected, not an array"),
    "text that is none": ("{bad", "{bad", "not JSON"),
    "a key given twice": ('{"a":1,"a":2}', '{"a":1,"a":2}', "'a' is given twice"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("provider", NAMES)
@pytest.mark.parametrize("case", ARGUMENTS)
@pytest.mark.row("I-02")
def test_arguments_that_are_none_are_said(provider: str, case: str) -> None:
    given_, raw, wrong = ARGUMENTS[case]
    [call] = codec.decode_tool_calls(answer(provider, entry(provider, "c", "look", given_)), provider)
    assert (call.id, call.name, call.arguments) == ("c", "look", {})
    if wrong is None:
        assert (call.error, call.raw) in {(None, raw), (None, None)}
    else:
        assert call.error is not None
        assert any(part in call.error for part in wrong.split("|"))
        assert call.raw == raw


MALFORMED: dict[str, list[Any]] = {
    "openai": [
        "x",
        None,
        7,
        {},
        {"id": "c"},
        {"function": {}},
        {"function": {"arguments": "{}"}},
        {"function": {"name": ""}},
    ],
    "ollama": [
        "x",
        None,
        [],
        {},
        {"function": "look"},
        {"function": {"name": 5}},
        {"function": {"name": ""}},
    ],
    "anthropic": [{"type": "tool_use"}, {"type": "tool_use", "name": None, "input": {}}],
    "gemini": [{"functionCall": {}}, {"functionCall": "look"}, {"functionCall": {"args": {}}}],
    "responses": [{"type": "function_call"}, {"type": "function_call", "name": 5, "arguments": "{}"}],
}


@pytest.mark.parametrize("provider", MALFORMED)
@pytest.mark.row("I-01")
def test_an_entry_that_is_no_call_is_said(provider: str) -> None:
    for bad in MALFORMED[provider]:
        good = entry(provider, "c", "look", "{}")
        first, second = codec.decode_tool_calls(answer(provider, bad, good), provider)
        assert (first.name, first.arguments, first.complete) == ("unknown", {}, True), bad
        assert first.error, bad
        assert (second.id, second.name, second.error, second.index) == ("c", "look", None, 1)


def test_calls_that_are_no_list_are_said() -> None:
    for provider, body in (
        ("openai", {"choices": [{"message": {"tool_calls": {"id": "c"}}}]}),
        ("ollama", {"message": {"tool_calls": "look"}}),
    ):
        [call] = codec.decode_tool_calls(body, provider)
        assert (call.name, call.error is None) == ("unknown", False)


NO_CALLS: list[Any] = [
    *(
        {},
        {"error": {"message": "no"}},
        {"choices": []},
        {"choices": None},
        {"choices": [{"message": None}]},
        {"choices": [None]},
    ),
    *(
        {"choices": [{"message": {"content": "a"}}]},
        {"choices": [{"message": {"content": "a", "tool_calls": None}}]},
    ),
    *(
        {"choices": [{"message": {"content": "a", "tool_calls": []}}]},
        {"content": None},
        {"content": "a"},
        {"content": []},
    ),
    *(
        {"content": [{"type": "text", "text": "a"}]},
        {"message": None},
        {"message": {"content": "a", "tool_calls": []}},
    ),
    *({"candidates": None}, {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}, {"candidates": [{}]}),
    *(
        {"output": None},
        {"output": []},
        {"output": [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}]},
    ),
    *(None, [], "", "x", 0, True, b"{}", object()),
]


@pytest.mark.sampled
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("body", NO_CALLS, ids=[repr(body)[:60] for body in NO_CALLS[:-1]] + ["an object"])
@pytest.mark.row("R000-14")
def test_a_body_without_calls(provider: str, body: Any) -> None:
    assert codec.decode_tool_calls(body, provider) == []


def test_only_the_first_answer_and_no_tools_of_the_server() -> None:
    first, second = (answer("openai", entry("openai", name, name, "{}"))["choices"][0] for name in ("a", "b"))
    assert [call.id for call in codec.decode_tool_calls({"choices": [first, second]}, "openai")] == ["a"]
    assert [call.id for call in codec.decode_tool_calls({"choices": [first, 7]}, "openai")] == ["a"]
    server = {"type": "server_tool_use", "id": "s", "name": "search", "input": {}}
    assert codec.decode_tool_calls(answer("anthropic", server), "anthropic") == []


def test_an_id_that_looks_made_is_kept_where_the_wire_gave_it() -> None:
    calls = [entry("openai", call_id, "look", "{}") for call_id in ("toolwire_0_0", None, "")]
    assert [call.id for call in codec.decode_tool_calls(answer("openai", *calls), "openai")] == [
        "toolwire_0_0",
        None,
        None,
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "id", "name", "function", "arguments", "input", "functionCall", "args", "call_id"]
            ),
            inner | st.sampled_from(["tool_use", "function_call", "function"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("provider", NAMES)
@given(entries=st.lists(json_values, max_size=3), whole=json_values)
@pytest.mark.row("I-01")
def test_reading_never_raises(provider: str, entries: list[Any], whole: Any) -> None:
    for body in (answer(provider, *entries), whole):
        for call in codec.decode_tool_calls(body, provider):
            assert call.name
            assert isinstance(call.arguments, dict)
            assert call.name != "unknown" or call.error or "unknown" in str(body)
