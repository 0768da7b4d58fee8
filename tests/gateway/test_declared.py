"""Tools that only Responses declares: each reaches a foreign model, and its call comes back as it was declared."""

import json
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, post
from toolwire import accumulate
from toolwire.dialects import dialect
from toolwire.testing import Scenario
from toolwire.types import ToolCall

FOREIGN = ("openai-chat", "anthropic", "gemini", "ollama")
TEXT = 'line "one"\n\\two\t\u00e4\ud83d\ude00'.encode("utf-16", "surrogatepass").decode("utf-16")
ECHO = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "plain", "parameters": ECHO, "strict": False},
    {"type": "custom", "name": "write", "description": "Write.", "format": GRAMMAR},
    {
        "type": "namespace",
        "name": "mcp__tiny",
        "description": "x",
        "tools": [{"type": "function", "name": "echo", "parameters": ECHO, "strict": False}],
    },
    {"type": "tool_search", "execution": "client", "description": "Find.", "parameters": ECHO},
]
ADDED = {
    "type": "additional_tools",
    "role": "developer",
    "tools": [
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec", "description": "Run."}]}
    ],
}
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]}
# What the model is offered, what it calls with, and what the client gets: its type, its name, its namespace.
CALLED: list[tuple[str, dict[str, Any], tuple[str, str | None, str | None]]] = [
    ("plain", {"text": TEXT}, ("function_call", "plain", None)),
    ("write", {"input": TEXT}, ("custom_tool_call", "write", None)),
    ("mcp__tiny__echo", {"text": TEXT}, ("function_call", "echo", "mcp__tiny")),
    ("tool_search", {"text": TEXT}, ("tool_search_call", None, None)),
    ("functions__exec", {"input": TEXT}, ("custom_tool_call", "exec", "functions")),
]


def asked(model: str, items: list[Any], *, stream: bool) -> bytes:
    """Write a request as a coding agent does."""
    body = {"model": model, "instructions": "Work.", "input": items, "tools": TOOLS, "stream": stream, "store": False}
    return json.dumps({**body, "client_metadata": {"x": "y"}, "include": ["reasoning.encrypted_content"]}).encode()


def outputs(data: bytes, *, stream: bool) -> list[Any]:
    """Give the items of an answer."""
    if not stream:
        items: list[Any] = json.loads(data)["output"]
        return items
    events = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: {")]
    assert events[-1]["type"] == "response.completed", events[-1]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    return done


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", FOREIGN)
def test_each_tool_reaches_the_model_and_its_call_comes_back_as_declared(
    target: str, stream: bool, lenient_model: Playing
) -> None:
    calls = [ToolCall(None, name, arguments) for name, arguments, _ in CALLED]
    items: list[Any] = [ADDED, USER]
    with lenient_model(Scenario([calls, "Done."])) as stood:
        model = f"{NAMES[target]}/m"
        answered = post(stood.url, "/v1/responses", asked(model, items, stream=stream))
        assert answered.status == 200, answered.data
        request = stood.requests[0].request
        assert request is not None
        assert {tool.name for tool in request.tools if hasattr(tool, "name")} == {name for name, _, _ in CALLED}
        assert "(empty)" not in str(stood.requests[0].body)
        said = outputs(answered.data, stream=stream)
        assert [(item["type"], item.get("name"), item.get("namespace")) for item in said] == [
            one for _, _, one in CALLED
        ]
        for item in said:
            match item["type"]:
                case "custom_tool_call":
                    assert item["input"] == TEXT
                case "function_call":
                    assert json.loads(item["arguments"]) == {"text": TEXT}
                case "tool_search_call":
                    assert item["arguments"] == {"text": TEXT}
                    assert item["execution"] == "client"
        kinds = {"custom_tool_call": "custom_tool_call_output", "function_call": "function_call_output"}
        results = [
            {"type": kinds[item["type"]], "call_id": item["call_id"], "output": "ok"}
            if item["type"] in kinds
            else {"type": "tool_search_output", "call_id": item["call_id"], "execution": "client", "tools": []}
            for item in said
        ]
        answered = post(stood.url, "/v1/responses", asked(model, [*items, *said, *results], stream=stream))
        assert answered.status == 200, answered.data
        history = stood.requests[1].request
        assert history is not None
        repeated = [part for message in history.messages for part in message.parts if isinstance(part, ToolCall)]
        assert [(call.name, call.arguments) for call in repeated] == [(name, given) for name, given, _ in CALLED]
        assert outputs(answered.data, stream=stream)[0]["content"][0]["text"] == "Done."


def test_a_call_that_cannot_be_given_back_as_declared_is_a_broken_one(lenient_model: Playing) -> None:
    wrong: list[dict[str, Any]] = [{"input": 7}, {"text": "x"}, {"input": "x", "more": 1}, {}]
    for stream in (False, True):
        for arguments in wrong:
            with lenient_model(Scenario([[ToolCall(None, "write", arguments)]])) as stood:
                answered = post(stood.url, "/v1/responses", asked("anthropic/m", [USER], stream=stream))
                body = answered.data
                if stream:
                    decoder = dialect("openai-responses").decode_stream()
                    response = accumulate([*decoder.feed(body), *decoder.close()])
                else:
                    response = dialect("openai-responses").decode_response(json.loads(body))
                runs = [call for call in response.tool_calls if call.runs and call.raw != json.dumps(arguments)]
                assert [call.raw for call in runs if call.raw in ("", "x")] == [], (arguments, body)
