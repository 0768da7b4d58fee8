"""What is written for a wire is taken there: the simulated model's strict checks judge what is encoded.

Over recorded bodies that their own vendor takes, and over histories by hand: whatever wire they came from,
what is written for another one is not refused there, or for a listed reason.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.amounts import FULL
from tests.testing.histories import LEGAL, NEWEST, judged
from tests.wires import DIALECTS, PAIRS, requests_of
from toolwire import (
    Context,
    Image,
    Message,
    Output,
    Request,
    ServerTool,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    dialect,
)
from toolwire.dialects import NAMES
from toolwire.testing.rules import ServerMemory, WireRequest
from toolwire.testing.wires import refusal

NEWEST_API = {"api_version": "2026-10-21"}
OLDER = {"anthropic-version": "2023-06-01", "anthropic-beta": "any"}
SEALS = ("signature", "data", "encrypted_content", "thoughtSignature", "thought_signature")
# Models of each vendor, and what their client knows of them; without one, the body's own stays.
MODELS: dict[str, list[tuple[str | None, dict[str, Any]]]] = {
    "openai-chat": [
        (None, {}),
        ("gpt-4.1", {"reasons": False}),
        ("gpt-5.2", {}),
        ("o3", {"reasons": True}),
        ("gpt-6-sol", {"reasons": True}),
    ],
    "openai-responses": [(None, {}), ("gpt-4.1", {"reasons": False}), ("gpt-6-sol", {"reasons": True})],
    "anthropic": [(None, {}), ("claude-opus-5-5", {}), ("claude-sonnet-4-5", NEWEST_API), ("claude-haiku-5-5", {})],
    "gemini": [(None, {}), ("gemini-4-argon", {}), ("gemini-3-pro", {}), ("gemini-2.5-pro", {})],
    "ollama": [(None, {}), ("qwen3", {})],
}
# What is refused and stays so, by words of the refusal: nothing that is written instead would mean the same.
REASONS = {
    "This model does not support assistant message prefill.": "a history that ends with the model's words has"
    " it go on from them; a turn put into the user's mouth would change what later turns are bound to",
    "final assistant content cannot end with trailing whitespace": "the same, on models that do go on: "
    "spaces that are cut off at the end would be others when the history grows",
}


def remembered(body: Any) -> ServerMemory:
    """Take every seal, id and earlier response of a body for one that its server gave."""
    memory, waiting = ServerMemory(), [body]
    while waiting:
        match waiting.pop():
            case dict(inner):
                memory.signatures |= {inner[key] for key in SEALS if type(inner.get(key)) is str}
                if type(name := inner.get("id")) is str:
                    memory.items[name] = None
                waiting += inner.values()
            case list(inner):
                waiting += inner
    if type(before := body.get("previous_response_id")) is str:
        memory.inputs[before] = []
    return memory


def verdict(name: str, body: dict[str, Any], model: str, headers: Any = NEWEST) -> str | None:
    asked = WireRequest(name, body, model, headers, judged=False, memory=remembered(body))
    refused = refusal(asked)
    return None if refused is None else refused.message


def is_taken(name: str, body: dict[str, Any], model: str) -> bool:
    """Whether a vendor takes a body as it is, in a version of its API that takes the most."""
    try:
        return None in [verdict(name, body, model, headers) for headers in (NEWEST, OLDER)]
    except (TypeError, AttributeError, KeyError):
        return False


def refusals(request: Request, target: str, tally: Counter[str]) -> Iterator[tuple[str | None, str]]:
    """Say for each model of a vendor why it does not take a request, if it does not."""
    for model, known in MODELS[target]:
        asked = request if model is None else replace(request, model=model)
        body = dialect(target, **known).encode_request(asked).body
        tally["bodies judged by the simulated model"] += 1
        said = verdict(target, body, asked.model or "")
        if said is None:
            continue
        if any(words in said for words in REASONS):
            tally["bodies refused for a listed reason"] += 1
        else:
            yield model, said


@pytest.mark.corpus
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_recorded_bodies_are_taken_elsewhere(source: str, target: str, corpus: Any, tally: Counter[str]) -> None:
    assert corpus
    recorded = list(requests_of(source))
    refused, before = [], tally.total()
    for recording, body in recorded if FULL else recorded[::10]:
        request = DIALECTS[source].decode_request(body, recording.path)
        if not is_taken(source, body, request.model or ""):
            tally["recorded bodies that their own vendor refuses"] += 1
            continue
        refused += [(recording.name, *said) for said in refusals(request, target, tally)]
    assert tally.total() > before
    assert refused == []


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_legal_history_is_taken_elsewhere(source: str, target: str, tally: Counter[str]) -> None:
    assert judged(source) is None
    asked = LEGAL[source]()
    request = replace(DIALECTS[source].decode_request(asked.body), model=asked.model)
    assert list(refusals(request, target, tally)) == []


LOOK = Tool("look", "Look.", {"type": "object", "properties": {"a": {"type": "string"}}})
ODD = Tool("srv/look.up", None, {"type": "object", "properties": {}})
SEARCH = ServerTool("web_search", "elsewhere", {"type": "web_search"})
CALLS: list[Any] = [ToolCall("call/1", "look", {"a": "b"}), ToolCall("call/1", "srv/look.up")]
RESULTS = [
    Message("tool", [ToolResult("call/1", "look", "")]),
    Message("tool", [ToolResult("call/1", None, "x")]),
]
PICTURE = Image(data="iVBORw0KGgo=", media_type="image/png")
HI, YES = Message("user", "Hi"), Message("assistant", "Yes.")
HISTORIES: dict[str, list[Message]] = {
    "one turn": [HI],
    "the system alone": [Message("system", "Be brief.")],
    "two system messages": [Message("system", "A"), Message("developer", "B"), HI],
    "the model begins": [YES, HI],
    "the model begins with a call": [Message("assistant", CALLS), *RESULTS],
    "the system and the model begin": [Message("system", "A"), YES, HI],
    "nothing from the model": [HI, Message("assistant", ""), HI],
    "no parts from the model": [HI, Message("assistant", []), HI],
    "a thought alone": [HI, Message("assistant", [Thinking("Hm.", "seal")]), HI],
    "an empty text before a call": [HI, Message("assistant", [Text(""), *CALLS]), *RESULTS],
    "spaces from the model": [HI, Message("assistant", " \n"), HI],
    "spaces before a call": [HI, Message("assistant", [Text("\n"), *CALLS]), *RESULTS],
    "nothing from the user": [Message("user", ""), YES, Message("user", [])],
    "spaces from the user": [Message("user", "  "), YES, Message("user", [Text("\t"), PICTURE])],
    "a result without a call": [HI, Message("tool", [ToolResult("c9", "look", "x")]), YES, HI],
    "a call without a result": [HI, Message("assistant", CALLS[:1]), Message("user", "Well?")],
    "a call that was cut off": [HI, Message("assistant", [ToolCall.parse("c", "look", '{"a":')]), HI],
    "a late system message": [
        HI,
        YES,
        Message("system", "Late."),
        HI,
        YES,
        Message("developer", "Later."),
        HI,
    ],
    "a picture as a result": [
        HI,
        Message("assistant", CALLS[:1]),
        Message("tool", [ToolResult("call/1", None, [PICTURE])]),
    ],
    "the model speaks twice": [HI, YES, Message("assistant", CALLS), *RESULTS, YES, YES, HI],
    "the model speaks last": [HI, Message("assistant", "Well, ")],
}
SETTINGS: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "any tool": {"tool_choice": ToolChoice("required")},
    "no tool": {"tool_choice": ToolChoice("none"), "parallel_tool_calls": True},
    "a tool by name": {"tool_choice": ToolChoice("required", ["look"]), "parallel_tool_calls": False},
    "a tool that is not there": {"tool_choice": ToolChoice("required", ["find"])},
    "some tools": {"tool_choice": ToolChoice("auto", ["look", "find"])},
    "calls one by one": {"parallel_tool_calls": False},
    "thinking": {"thinking": "enabled", "thinking_budget": 2000, "thinking_display": "summarized"},
    "thinking a lot": {"thinking_budget": 20_000, "max_tokens": 100},
    "no thinking": {"thinking": "disabled", "effort": "none"},
    "a budget of nothing": {"thinking_budget": 0},
    "effort": {"effort": "high"},
    "no effort": {"effort": "none", "temperature": 0.1},
    "hot": {"temperature": 3, "top_p": -1, "top_k": 5},
    "cold": {"temperature": 0.2, "top_p": 0.9},
    "no words at all": {"max_tokens": 0},
    "many ends": {"stop": list("abcdef")},
    "JSON": {"output": Output("json")},
    "a schema": {"output": Output("schema", LOOK.parameters, "my answer", strict=True)},
    "odds and ends": {
        "n": 2,
        "seed": 1,
        "logprobs": True,
        "top_logprobs": 2,
        "metadata": {"a": 1},
        "stream": True,
    },
}
TOOLS: dict[str, list[Any]] = {"no tools": [], "tools": [LOOK, ODD], "a tool of another": [SEARCH]}


@pytest.mark.parametrize("target", NAMES)
def test_a_history_by_hand_is_taken(target: str, tally: Counter[str]) -> None:
    """Each history with each set of tools, and each setting with each set of tools."""
    rows = [(history, "nothing more") for history in HISTORIES]
    rows += [(history, settings) for settings in SETTINGS for history in ("one turn", "the model begins with a call")]
    refused = []
    for (history, settings), tools in itertools.product(rows, TOOLS):
        context = Context(None, HISTORIES[history], TOOLS[tools])
        request = Request(context=context, model="m", **SETTINGS[settings])
        refused += [(history, settings, tools, *said) for said in refusals(request, target, tally)]
    assert refused == []


@pytest.mark.parametrize("words", REASONS)
def test_a_listed_reason_is_a_refusal(words: str) -> None:
    """A control: a reason that nothing is refused for any more is to be taken from the list."""
    request = Request(context=Context(None, HISTORIES["the model speaks last"]), model="m")
    said = [
        verdict("anthropic", DIALECTS["anthropic"].encode_request(asked).body, asked.model or "")
        for asked in (replace(request, model=model) for model in ("claude-opus-5-5", "claude-3-haiku"))
    ]
    assert any(words in (one or "") for one in said)


@pytest.mark.parametrize("source", NAMES)
def test_what_was_read_here_is_written_as_it_was_though_it_is_refused(source: str) -> None:
    turns: dict[str, Any] = {
        "openai-chat": {"messages": [{"role": "assistant", "content": None}]},
        "openai-responses": {"input": [], "instructions": "Be brief."},
        "anthropic": {"messages": [{"role": "assistant", "content": " "}]},
        "gemini": {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f"}}]}]},
        "ollama": {"messages": [], "think": "none"},
    }
    choice: dict[str, Any] = {
        "openai-chat": {"tool_choice": "required", "parallel_tool_calls": False, "top_p": -1},
        "openai-responses": {"tool_choice": "required", "parallel_tool_calls": False, "top_p": -1},
        "anthropic": {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["x"]}}},
        "ollama": {},
    }
    body = turns[source] | choice[source]
    assert not is_taken(source, body, "m")
    encoded = DIALECTS[source].encode_request(DIALECTS[source].decode_request(body))
    assert (encoded.body, encoded.losses) == (body, ())
