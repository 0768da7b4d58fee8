"""Whole conversations: written to a wire and read from it again, they are what they were."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from toolwire import (
    Audio,
    Cache,
    Context,
    Document,
    Image,
    Message,
    Output,
    Refusal,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    dialect,
    translate,
)

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}}
CLOSED = {**SCHEMA, "required": ["b"], "additionalProperties": False}
PNG = "iVBORw0KGgo="
CALLS: list[Any] = [ToolCall("call_1", "look", {"b": "x", "a": 1}), ToolCall("call_2", "find", {}, 1)]

ANTHROPIC = Request(
    model="claude-opus-4-5",
    context=Context(
        [Text("Be brief.", cache=Cache("1h")), Text("Be kind.")],
        [
            Message("user", "Hi"),
            Message("assistant", "Hello"),
            Message(
                "user",
                [
                    Text("Look.", cache=Cache()),
                    Image(data=PNG, media_type="image/png"),
                    Image("https://x/i.png"),
                    Image(file_id="file_1"),
                    Document(data="x", media_type="application/pdf", name="d.pdf"),
                    Document(text="long"),
                ],
            ),
            Message(
                "assistant",
                [
                    Thinking("", "S"),
                    Thinking("Hm.", "T"),
                    Thinking("", "blob", redacted=True),
                    Text("I look."),
                    *CALLS,
                ],
            ),
            Message(
                "tool",
                [
                    ToolResult("call_1", None, [Text("one"), Image(data=PNG, media_type="image/png")]),
                    ToolResult("call_2", None, "boom", is_error=True),
                ],
            ),
            Message("assistant", [ToolCall("functions.look:0", "srv/look", {"deep": [{"x": None}]})]),
            Message("tool", [ToolResult("functions.look:0", None, "two")], tool_call_id="functions.look:0"),
            Message("assistant", "Done."),
            Message("user", "Thanks."),
        ],
        [Tool("look", "Look.", SCHEMA, strict=False, cache=Cache()), Tool("srv/look", None, SCHEMA)],
    ),
    tool_choice=ToolChoice("auto"),
    parallel_tool_calls=False,
    max_tokens=4096,
    stop=["END"],
    thinking="enabled",
    thinking_budget=2048,
    thinking_display="omitted",
    effort="high",
    output=Output("schema", CLOSED),
    user="u",
    stream=True,
)
OPENAI = Request(
    model="m",
    context=Context(
        None,
        [
            Message("system", "Be brief."),
            Message("developer", [Text("a"), Text("b")]),
            Message("user", "Hi", "Ann"),
            Message("assistant", "Hello", "Bob"),
            Message(
                "user",
                [
                    Text("Look."),
                    Image(data=PNG, media_type="image/png", detail="high"),
                    Image("https://x/i.png"),
                    Audio("x", "audio/wav"),
                    Document(data="x", media_type="application/pdf", name="d.pdf"),
                    Document(file_id="file_1"),
                ],
            ),
            Message("assistant", [Text("I look."), *CALLS]),
            Message("tool", [ToolResult("call_1", None, [Text("one"), Text("more")])]),
            Message("tool", [ToolResult("call_2", None, "boom", is_error=True)]),
            Message("system", "Late."),
            Message("assistant", [ToolCall("functions.look:0", "srv/look", {"deep": [{"x": None}]})]),
            Message("tool", [ToolResult("functions.look:0", None, "Error: not one")]),
            Message("assistant", [ToolCall("call_3", "run", raw="print(1)", custom=True)]),
            Message("tool", [ToolResult("call_3", None, "")]),
            Message("assistant", [Refusal("No.")]),
            Message("user", "Thanks."),
        ],
        [
            Tool("look", "Look.", SCHEMA, strict=False),
            Tool("srv/look", None, SCHEMA),
            Tool("run", "Run.", custom=True, format={"type": "text"}),
        ],
    ),
    tool_choice=ToolChoice("required", ["look", "run"]),
    parallel_tool_calls=True,
    max_tokens=10,
    temperature=0.5,
    top_p=1,
    stop=["a", "b"],
    seed=7,
    n=2,
    frequency_penalty=0.5,
    presence_penalty=-0.5,
    logprobs=True,
    top_logprobs=3,
    logit_bias={"1": 1},
    output=Output("schema", CLOSED, "answer", "An answer.", strict=False),
    effort="xhigh",
    verbosity="low",
    metadata={"a": "b"},
    user="u",
    safety_identifier="s",
    service_tier="flex",
    store=True,
    cache_key="k",
    stream=False,
)
WHOLE = {"anthropic": ANTHROPIC, "openai-chat": OPENAI}


def bare(value: Any) -> Any:
    """Give a value without the marks of the wire from which it was read."""
    if isinstance(value, list):
        return [bare(inner) for inner in value]
    if not isinstance(value, msgspec.Struct):
        return value
    fields = {field: bare(getattr(value, field)) for field in value.__struct_fields__}
    for mark in {"opaque", "raw"} & set(fields):
        fields[mark] = None if not getattr(value, "custom", False) or mark == "opaque" else fields[mark]
    return replace(value, **fields)


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_written_is_read(name: str) -> None:
    here, request = dialect(name), WHOLE[name]
    encoded = here.encode_request(request)
    assert encoded.losses == ()
    read = here.decode_request(encoded.body, encoded.path)
    assert bare(read) == bare(request)
    again = here.encode_request(read)
    assert (again.body, again.losses) == (encoded.body, ())
    assert encoded.json == here.encode_request(request).json


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_read_again_is_written_the_same(name: str) -> None:
    here = dialect(name)
    body = here.encode_request(WHOLE[name]).body
    assert here.encode_request(bare(here.decode_request(body))).json == here.encode_request(WHOLE[name]).json


def exchanges(request: Request) -> list[Any]:
    """Give the calls and results in order; free text is an argument elsewhere, and media are below."""
    seen: list[Any] = []
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                text = part.raw if part.custom else part.arguments.get("input")
                seen.append((part.id, part.name, text or part.arguments))
            elif isinstance(part, ToolResult):
                words = part.content if isinstance(part.content, str) else Message("user", part.content[:1]).text
                seen.append((part.tool_call_id, words, part.is_error))
    return seen


@pytest.mark.parametrize(("source", "target"), [("anthropic", "openai-chat"), ("openai-chat", "anthropic")])
def test_tools_survive_the_way_there_and_back(source: str, target: str) -> None:
    here = dialect(source)
    body = here.encode_request(WHOLE[source]).body
    request = here.decode_request(body)
    there = translate.request(body, source, target)
    back = translate.request(there.body, target, source)
    assert [tool.name for tool in here.decode_request(back.body).tools if isinstance(tool, Tool)] == [
        tool.name for tool in request.tools if isinstance(tool, Tool)
    ]
    before, after = exchanges(request), exchanges(here.decode_request(back.body))
    assert len(before) == (6 if source == "anthropic" else 8)
    assert after == before
