"""What the bodies of Messages mean, and that a change of the meaning changes that place alone."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.test_anthropic import EPHEMERAL, OWN, SCHEMA, USE, assistant, result, user
from toolwire import (
    Cache,
    Citation,
    Context,
    Document,
    Image,
    Message,
    Opaque,
    Output,
    Request,
    ServerTool,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolwire.dialects import anthropic, dialect
from toolwire.types.spelling.anthropic import MessagesRequestSpelling, MessagesToolSpelling

PLAIN = Opaque("anthropic", {})


def test_what_the_settings_mean() -> None:
    assert anthropic.decode_request(OWN["settings"]) == Request(
        context=Context(),
        model="m",
        max_tokens=5,
        stream=True,
        temperature=1.0,
        top_p=0.5,
        top_k=4,
        stop=["END"],
        thinking="enabled",
        thinking_budget=2048,
        thinking_display="omitted",
        effort="max",
        output=Output("schema", SCHEMA),
        user="u",
        service_tier="standard_only",
        tool_choice=ToolChoice("required", ["look"]),
        parallel_tool_calls=False,
        cache_mode="implicit",
        opaque=Opaque(
            "anthropic",
            {
                "thinking": {"x": 1},
                "output_config": {"x": 1},
                "metadata": {"x": 1},
                "tool_choice": {"x": 1},
                "speed": "fast",
                "container": "c",
            },
            spelling=MessagesRequestSpelling(has_no_messages=True),
        ),
    )


def parts_of(case: str, place: int = 0) -> list[Any]:
    return list(anthropic.decode_request(OWN[case]).messages[place].parts)


def test_what_blocks_mean() -> None:
    parts = parts_of("blocks")
    noted = Opaque("anthropic", {"type": "char_location"})
    assert parts[:8] == [
        Text("a", opaque=PLAIN),
        Text("b", cache=Cache(), opaque=Opaque("anthropic", {"citations": None})),
        Text("c", [Citation(quote="q", opaque=noted)], opaque=PLAIN),
        Text("d", opaque=Opaque("anthropic", {"citations": []})),
        Image(data="x", media_type="image/png", opaque=PLAIN),
        Image("u", cache=Cache(), opaque=PLAIN),
        Image("data:image/png;base64,x", opaque=PLAIN),
        Image(file_id="f", opaque=Opaque("anthropic", {"transformations": []})),
    ]
    assert parts[9:12] == [
        Document(text="x", opaque=PLAIN),
        Document(
            data="x",
            media_type="application/pdf",
            name="t",
            opaque=Opaque("anthropic", {"context": "c", "citations": {"enabled": True}}),
        ),
        Document("u", opaque=Opaque("anthropic", {"title": None})),
    ]
    assert [type(part) for part in (parts[8], *parts[12:])] == [Opaque] * 8


@pytest.mark.parametrize("case", ["a form beside", "a form beside an effort", "a form beside what is odd", "two forms"])
def test_the_form_of_an_answer_is_read_where_it_stood_at_first(case: str) -> None:
    request = anthropic.decode_request(OWN[case])
    assert request.output == Output("schema", SCHEMA)
    chat = dialect("openai-chat").encode_request(request).body
    assert chat["response_format"]["json_schema"]["schema"] == SCHEMA


def test_what_thinking_means() -> None:
    assert parts_of("thinking")[:4] == [
        Thinking("", "S", opaque=PLAIN),
        Thinking("Hm.", "", opaque=Opaque("anthropic", {"x": 1})),
        Thinking("Hm.", opaque=PLAIN),
        Thinking("", "blob", redacted=True, opaque=PLAIN),
    ]


def test_what_calls_mean() -> None:
    parts = parts_of("calls")
    assert [(part.id, part.index) for part in parts if isinstance(part, ToolCall)] == [
        ("toolu_1", 0),
        ("toolu_1", 1),
        ("toolwire_0_2", 2),
        ("toolwire_0_3", 3),
        ("toolu_1", 4),
    ]
    assert parts[0] == ToolCall("toolu_1", "look", {"b": 1, "a": 2})
    assert list(parts[0].arguments) == ["b", "a"]
    assert parts[6:8] == [
        ServerToolCall("s", "web_search", {"query": "q"}, opaque=PLAIN),
        ServerToolResult("s", "web_search_tool_result", [{"url": "u"}], opaque=PLAIN),
    ]


def test_what_results_mean() -> None:
    request = anthropic.decode_request(OWN["results"])
    assert [message.role for message in request.messages] == ["assistant", "tool", "user"]
    parts = parts_of("results", 1)
    assert [(part.content, part.is_error) for part in parts[:9]] == [
        ([], False),
        ("ok", False),
        ("ok", False),
        ("boom", True),
        ("ok", False),
        ("", False),
        ([], False),
        ([], False),
        ("Error: x", False),
    ]
    assert parts[8].cache == Cache()
    assert [type(part) for part in parts[9].content] == [Text, Image, Text, Text]


def test_a_turn_of_results_alone_is_a_tools() -> None:
    request = anthropic.decode_request({"messages": [assistant(USE), user(result(content="ok"))]})
    assert request.messages[1] == Message(
        "tool", [ToolResult("toolu_1", None, "ok", opaque=PLAIN)], opaque=PLAIN, tool_call_id=None
    )


def test_what_tools_mean() -> None:
    tools = anthropic.decode_request(OWN["tools"]).tools
    bodies = OWN["tools"]["tools"]
    assert tools == [
        Tool("look", "d", SCHEMA, opaque=PLAIN),
        Tool(
            "look",
            None,
            {"type": "object"},
            cache=Cache(),
            opaque=Opaque("anthropic", {}, spelling=MessagesToolSpelling(constants={"type": "custom"})),
        ),
        Tool(
            "look",
            strict=True,
            opaque=Opaque("anthropic", {"input_schema": None, "type": None, "input_examples": [{"a": 1}]}),
        ),
        Tool("srv/list", None, SCHEMA, opaque=Opaque("anthropic", {}, spelling=MessagesToolSpelling(is_escaped=True))),
        ServerTool("web_search_20250305", "anthropic", bodies[4]),
        Tool(
            "bash",
            "Run a `command` in a bash session, which goes on from call to call; `restart` begins a new one.",
            {
                "type": "object",
                "properties": {"command": {"type": "string"}, "restart": {"type": "boolean"}},
                "required": [],
            },
            opaque=Opaque(
                "anthropic",
                {},
                spelling=MessagesToolSpelling(constants={"type": "bash_20250124"}, builtin="bash_20250124"),
            ),
        ),
        ServerTool("custom", "anthropic", bodies[6]),
        ServerTool("", "anthropic", bodies[7]),
    ]


def test_one_value_changes_one_place() -> None:
    body = {
        "system": [{"type": "text", "text": "a", "cache_control": EPHEMERAL}],
        "messages": [
            user({"type": "text", "text": "b", "x": 1}),
            assistant({"type": "thinking", "thinking": "", "signature": "S"}, {**USE, "x": 1}),
            user(result(content="ok", is_error=False)),
        ],
        "thinking": {"type": "enabled", "budget_tokens": 2048, "x": 1},
        "x": 1,
    }
    request = anthropic.decode_request(body)
    asked, answer, results = request.messages
    changed = [
        replace(asked, content=[replace(asked.parts[0], text="c")]),
        replace(answer, content=[answer.parts[0], replace(answer.parts[1], arguments={"z": 1})]),
        replace(results, content=[replace(results.parts[0], content="no", is_error=True)]),
    ]
    other = replace(request, context=replace(request.context, messages=changed), thinking_budget=4096)
    encoded = anthropic.encode_request(other)
    assert encoded.losses == ()
    assert encoded.body == {
        "system": [{"type": "text", "text": "a", "cache_control": EPHEMERAL}],
        "messages": [
            user({"type": "text", "text": "c", "x": 1}),
            assistant({"type": "thinking", "thinking": "", "signature": "S"}, {**USE, "input": {"z": 1}, "x": 1}),
            user(result(content="no", is_error=True)),
        ],
        "thinking": {"type": "enabled", "budget_tokens": 4096, "x": 1},
        "x": 1,
    }


def text_of(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def read(kind: str, **fields: Any) -> dict[str, Any]:
    """Make a block of a document or of a search's result."""
    return {"type": kind, **fields}


# What was found and what a client has cut into blocks is text: other models read it, too.
FOUND: dict[str, tuple[dict[str, Any], str | None, str | None, dict[str, Any]]] = {
    "a search result": (
        read("search_result", source="s", title="t", content=[text_of("a"), text_of("b")], citations={"enabled": True}),
        "a\nb",
        "t",
        read("search_result", source="s", title="t", content=[text_of("new")], citations={"enabled": True}),
    ),
    "a document in blocks": (
        read("document", source={"type": "content", "content": [text_of("a"), text_of("b")]}, title="t"),
        "a\nb",
        "t",
        read("document", source={"type": "text", "media_type": "text/plain", "data": "new"}, title="t"),
    ),
    "a document as content": (
        read("document", source={"type": "content", "content": "a"}, cache_control=EPHEMERAL),
        "a",
        None,
        read("document", source={"type": "text", "media_type": "text/plain", "data": "new"}, cache_control=EPHEMERAL),
    ),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", FOUND)
def test_text_that_was_found_is_a_document(name: str, inside: bool) -> None:
    block, text, title, changed = FOUND[name]

    def body_with(one: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [user(result(content=[one])) if inside else user(one)]}

    request = anthropic.decode_request(body_with(block))
    [message] = request.messages
    outer: Any = message.parts[0]
    part = outer.content[0] if inside else outer
    assert (type(part), part.text, part.name) == (Document, text, title)
    assert anthropic.encode_request(request).body == body_with(block)
    other: Any = replace(part, text="new")
    messages = [replace(message, content=[replace(outer, content=[other]) if inside else other])]
    encoded = anthropic.encode_request(replace(request, context=replace(request.context, messages=messages)))
    assert (encoded.body, encoded.losses) == (body_with(changed), ())
    for target in ("openai-chat", "openai-responses", "gemini", "ollama"):
        assert str(text).splitlines()[0] in str(dialect(target).encode_request(request).body)


REFERENCES = [{"type": "tool_reference", "tool_name": name} for name in ("look", "find")]


def test_tools_that_a_search_found_are_told_to_every_model() -> None:
    said = result(content=[{**REFERENCES[0], "cache_control": EPHEMERAL}, REFERENCES[1]])
    body = {"messages": [assistant(USE), user(said)]}
    request = anthropic.decode_request(body)
    assert anthropic.encode_request(request).body == body
    called, answered = request.messages
    found: Any = answered.parts[0]
    names = [replace(part, text=f"new_{part.text}") for part in found.content]
    messages = [called, replace(answered, content=[replace(found, content=names)])]
    encoded = anthropic.encode_request(replace(request, context=replace(request.context, messages=messages)))
    [block] = encoded.body["messages"][1]["content"]
    assert [one["tool_name"] for one in block["content"]] == ["new_look", "new_find"]
    for target in ("openai-chat", "openai-responses", "gemini", "ollama"):
        written = dialect(target).encode_request(request)
        assert "find" in str(written.body)
        assert [loss for loss in written.losses if loss.severity == "semantic"] == []


PICTURE = {"type": "image", "source": {"type": "url", "url": "u"}}


@pytest.mark.parametrize(
    "block",
    [
        read("search_result", source="s", title="t", content=[]),
        read("search_result", source="s", title="t", content="a"),
        read("search_result", source="s", title="t", content=[{**text_of("a"), "x": 1}]),
        read("document", source={"type": "content", "content": [text_of("a"), PICTURE]}),
        read("document", source={"type": "content", "content": [None, "a"]}),
        read("document", source={"type": "content", "content": "a", "x": 1}),
        read("image", source={"type": "content", "content": "a"}),
    ],
)
def test_what_holds_more_than_text_is_kept_whole(block: dict[str, Any]) -> None:
    request = anthropic.decode_request({"messages": [user(block)]})
    assert request.messages[0].content == [Opaque("anthropic", block)]
    assert anthropic.encode_request(request).body == {"messages": [user(block)]}
