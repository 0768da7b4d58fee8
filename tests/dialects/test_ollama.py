"""Ollama's native chat: what each body means, and what each meaning becomes."""

from typing import Any

import pytest
from msgspec.structs import replace

from toolwire import (
    Audio,
    Cache,
    Choice,
    Citation,
    Context,
    Document,
    Error,
    Image,
    Message,
    Opaque,
    Output,
    Refusal,
    Request,
    Response,
    ServerTool,
    ServerToolCall,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)
from toolwire.dialects import ollama
from toolwire.errors import InvalidBody
from toolwire.ledger import PLAIN

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
LOOK, FIND = Tool("look", "Look.", SCHEMA), Tool("find", "Find.", SCHEMA)
PNG, JPEG = "iVBORw0KGgoAAAA", "/9j/4AAQ"


def losses(encoded: Any) -> list[tuple[str, str, str]]:
    return [(loss.path, loss.action, loss.severity) for loss in encoded.losses]


def asking(messages: list[Any], **fields: Any) -> Request:
    system, tools = fields.pop("system", None), fields.pop("tools", [])
    return Request(context=Context(system, messages, tools), model="m", **fields)


def messages_of(*messages: Any, **fields: Any) -> tuple[list[Any], list[tuple[str, str, str]]]:
    encoded = ollama.encode_request(asking(list(messages), **fields))
    return encoded.body["messages"], losses(encoded)


OWN_REQUESTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no messages": {"model": "m", "prompt": "Why?", "stream": False},
    "no stream key": {"model": "m", "messages": [{"role": "user", "content": "Why?"}]},
    "roles in any case": {
        "messages": [
            {"role": "System", "content": "a"},
            {"role": "USER", "content": "b"},
            {"role": "Tool", "content": "c"},
        ]
    },
    "a role of nobody": {"messages": [{"role": "narrator", "content": "a"}, "x", None, {"content": "b"}]},
    "a developer": {"messages": [{"role": "developer", "content": "a"}]},
    "content of another kind": {
        "messages": [{"role": "user", "content": None}, {"role": "user", "content": [{"type": "text"}]}]
    },
    "no content": {
        "messages": [{"role": "assistant"}, {"role": "assistant", "tool_calls": []}, {"role": "tool"}]
    },
    "empty words": {"messages": [{"role": "assistant", "content": "", "thinking": "", "images": []}]},
    "everything": {
        "messages": [
            {
                "role": "assistant",
                "thinking": "Hm.",
                "content": "Yes.",
                "images": [PNG, f"data:image/png;base64,{PNG}"],
                "tool_calls": [
                    {"function": {"name": "look", "arguments": {"b": 1, "a": 2}}},
                    {"id": "call_1", "function": {"index": 1, "name": "look", "arguments": {}}},
                    {
                        "id": "",
                        "type": "function",
                        "function": {"index": 7, "name": "look", "arguments": "{ }", "note": 1},
                    },
                    {"id": "toolwire_0_3", "function": {"name": "look"}, "note": 1},
                    {"function": {"name": "look", "arguments": [1]}},
                    {"function": {}},
                    "look",
                ],
                "note": 1,
            }
        ]
    },
    "images of another kind": {
        "messages": [{"role": "user", "content": "a", "images": [1]}, {"role": "user", "images": "x"}]
    },
    "results": {
        "messages": [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": {}}}],
            },
            {"role": "tool", "content": "one", "tool_name": "look", "tool_call_id": "c"},
            {"role": "tool", "content": "Error: two", "name": "look", "tool_call_id": None},
            {"role": "tool", "content": " Error: three", "tool_name": "look", "name": "x", "images": [PNG]},
            {"role": "tool", "content": "Error: ", "tool_call_id": "toolwire_1_1", "images": [PNG]},
            {"role": "tool", "images": [PNG], "note": 1},
        ]
    },
    "options": {
        "options": {
            "num_predict": 5,
            "temperature": 0,
            "top_k": 4,
            "stop": ["a"],
            "num_ctx": 9,
            "seed": 1.5,
            "think": True,
        }
    },
    "options of their own": {"options": {"num_predict": -1, "stop": [], "top_p": None, "num_ctx": 9}},
    "no options": {"options": {}, "keep_alive": None, "truncate": False},
    "options of another kind": {
        "options": [1],
        "think": "very",
        "format": 1,
        "stream": "yes",
        "tool_choice": "auto",
    },
    "settings": {
        "think": "high",
        "format": "json",
        "keep_alive": "5m",
        "logprobs": True,
        "top_logprobs": 2,
        "shift": True,
    },
    "thinking": {"think": True, "format": ""},
    "no thinking": {"think": False, "format": SCHEMA},
    "tools": {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Look.",
                    "parameters": {"$ref": "#", "minLength": 1},
                },
            },
            {"function": {"name": "look", "strict": True}},
            {
                "type": "function",
                "name": "look",
                "function": {"name": "look", "description": None, "parameters": None},
            },
            {"type": "search"},
            {"type": "function", "function": {}},
            1,
        ]
    },
    "no tools": {"tools": []},
}


@pytest.mark.parametrize("body", OWN_REQUESTS.values(), ids=OWN_REQUESTS)
def test_a_request_comes_back(body: dict[str, Any]) -> None:
    encoded = ollama.encode_request(ollama.decode_request(body))
    assert (encoded.body, encoded.losses, encoded.path) == (body, (), "/api/chat")


def test_the_path_of_another_endpoint_comes_back() -> None:
    encoded = ollama.encode_request(ollama.decode_request({"model": "m", "prompt": "Why?"}, "/api/generate"))
    assert (encoded.path, encoded.body) == ("/api/generate", {"model": "m", "prompt": "Why?"})


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_what_is_no_object_is_refused(body: Any) -> None:
    for decode in (ollama.decode_request, ollama.decode_response):
        with pytest.raises(InvalidBody, match="must be a JSON object"):
            decode(body)


def test_what_a_request_means() -> None:
    body = {
        "model": "m",
        "stream": True,
        "options": {
            "num_predict": 5,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 4,
            "stop": ["a"],
            "seed": 1,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.2,
            "num_ctx": 9,
        },
        "think": "low",
        "format": SCHEMA,
        "logprobs": True,
        "top_logprobs": 2,
        "keep_alive": "5m",
    }
    request = ollama.decode_request(body)
    assert request == Request(
        context=Context(),
        model="m",
        stream=True,
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        stop=["a"],
        seed=1,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        effort="low",
        output=Output("schema", SCHEMA),
        logprobs=True,
        top_logprobs=2,
        opaque=Opaque("ollama", {"options": {"num_ctx": 9}, "keep_alive": "5m"}, {"no_messages": True}),
    )


def test_what_the_messages_mean() -> None:
    body = {
        "messages": [
            {"role": "System", "content": "Be brief."},
            {"role": "user", "content": "Who?", "images": [JPEG, "AAAA"]},
            {
                "role": "assistant",
                "content": "",
                "thinking": "Hm.",
                "tool_calls": [
                    {"function": {"name": "look", "arguments": {"a": 1}}},
                    {"id": "c", "function": {"index": 1, "name": "find", "arguments": '{"a":2}'}},
                    {"function": {"name": "look", "arguments": "{"}},
                    {"function": {"name": "look", "arguments": 7}},
                ],
            },
        ]
    }
    system, user, answer = ollama.decode_request(body).messages
    assert (system.role, system.content) == ("system", "Be brief.")
    assert [type(part) for part in user.parts] == [Text, Image, Image]
    assert [(part.data, part.media_type) for part in user.parts[1:]] == [(JPEG, "image/jpeg"), ("AAAA", None)]  # type: ignore[union-attr]
    assert answer.parts[0] == Thinking(text="Hm.", opaque=Opaque("ollama", {}))
    calls = answer.tool_calls
    assert [(call.id, call.name, call.arguments, call.index) for call in calls] == [
        ("toolwire_2_0", "look", {"a": 1}, 0),
        ("c", "find", {"a": 2}, 1),
        ("toolwire_2_2", "look", {}, 2),
        ("toolwire_2_3", "look", {}, 3),
    ]
    assert [call.error is None for call in calls] == [True, True, False, False]
    assert calls[3].error == "an object was expected, not a number"


CALLS = {
    "role": "assistant",
    "tool_calls": [{"function": {"name": name, "arguments": {}}} for name in ("look", "find", "look")],
}
LINKS: dict[str, tuple[list[dict[str, Any]], list[str | None]]] = {
    "by order": ([{}, {}, {}, {}], ["toolwire_0_0", "toolwire_0_1", "toolwire_0_2", None]),
    "by name": (
        [{"tool_name": "look"}, {"name": "look"}, {"tool_name": "find"}],
        ["toolwire_0_0", "toolwire_0_2", "toolwire_0_1"],
    ),
    "by name, then by order": (
        [{"tool_name": "find"}, {}, {"tool_name": "what"}],
        ["toolwire_0_1", "toolwire_0_0", "toolwire_0_2"],
    ),
    "by id": (
        [{"tool_call_id": "toolwire_0_1"}, {"tool_call_id": "x"}, {}],
        ["toolwire_0_1", "x", "toolwire_0_0"],
    ),
}


@pytest.mark.parametrize(("results", "ids"), LINKS.values(), ids=LINKS)
def test_a_result_is_linked(results: list[dict[str, Any]], ids: list[str | None]) -> None:
    body = {"messages": [CALLS, *({"role": "tool", "content": "x", **result} for result in results)]}
    request = ollama.decode_request(body)
    assert [message.tool_call_id for message in request.messages[1:]] == ids
    assert ollama.encode_request(request).body == body


def test_a_result_answers_the_last_turn_only() -> None:
    turn, result = {"role": "assistant", "content": "Done."}, {"role": "tool", "content": "x"}
    request = ollama.decode_request({"messages": [CALLS, result, turn, result]})
    assert [message.tool_call_id for message in request.messages[1::2]] == ["toolwire_0_0", None]


# Each role of the table of roles in a request from elsewhere.
ROLES: dict[str, tuple[Message, dict[str, str]]] = {
    "user": (Message("user", "a"), {"role": "user", "content": "a"}),
    "assistant": (Message("assistant", "a"), {"role": "assistant", "content": "a"}),
    "system": (Message("system", "a"), {"role": "system", "content": "a"}),
    "developer": (Message("developer", "a"), {"role": "system", "content": "a"}),
}


@pytest.mark.parametrize("role", ROLES)
def test_roles(role: str) -> None:
    message, body = ROLES[role]
    lost = [("messages[0].role", "approximated", "minor")] if role == "developer" else []
    assert messages_of(message) == ([body], lost)


CALL = ToolCall("call_1", "look", {"city": "Paris"})
CALL_BODY = {"id": "call_1", "function": {"name": "look", "arguments": {"city": "Paris"}}}


def test_the_role_of_a_tool() -> None:
    bodies, lost = messages_of(
        Message("assistant", [CALL]), Message("tool", [ToolResult("call_1", None, "sunny")])
    )
    assert bodies == [
        {"role": "assistant", "content": "", "tool_calls": [CALL_BODY]},
        {"role": "tool", "tool_name": "look", "tool_call_id": "call_1", "content": "sunny"},
    ]
    assert lost == []


ENCODED: dict[str, tuple[Message, dict[str, Any], list[tuple[str, str, str]]]] = {
    "words in parts": (
        Message("user", [Text("a"), Text(""), Text("b")]),
        {"role": "user", "content": "a\nb"},
        [("messages[0].content", "merged", "minor")],
    ),
    "an answer in parts": (
        Message("assistant", [Text("a"), Text("b")]),
        {"role": "assistant", "content": "ab"},
        [("messages[0].content", "merged", "minor")],
    ),
    "nothing": (Message("user", []), {"role": "user", "content": ""}, []),
    "an empty answer": (Message("assistant", []), {"role": "assistant", "content": ""}, []),
    "a picture": (
        Message("user", [Text("a"), Image(data=PNG, media_type="image/png")]),
        {"role": "user", "content": "a", "images": [PNG]},
        [],
    ),
    "a picture first": (
        Message("user", [Image(data=PNG, media_type="image/gif", detail="high"), Text("a")]),
        {"role": "user", "content": "a", "images": [PNG]},
        [
            ("messages[0].content[0].detail", "dropped", "semantic"),
            ("messages[0].content[0].media_type", "dropped", "minor"),
            ("messages[0].content[1]", "moved", "minor"),
        ],
    ),
    "a picture elsewhere": (
        Message("user", [Text("a"), Image(url="https://x.example/i.png"), Image(file_id="f")]),
        {"role": "user", "content": "a"},
        [
            ("messages[0].content[1].url", "dropped", "semantic"),
            ("messages[0].content[1]", "dropped", "semantic"),
            ("messages[0].content[2].file_id", "dropped", "semantic"),
            ("messages[0].content[2]", "dropped", "semantic"),
        ],
    ),
    "other media": (
        Message(
            "user", [Text("a"), Document(data="x", media_type="application/pdf"), Audio("x", "audio/wav")]
        ),
        {"role": "user", "content": "a"},
        [
            ("messages[0].content[1]", "dropped", "semantic"),
            ("messages[0].content[2]", "dropped", "semantic"),
        ],
    ),
    "a text file": (
        Message("user", [Document(text="long", name="a.txt")]),
        {"role": "user", "content": "long"},
        [
            ("messages[0].content[0]", "approximated", "semantic"),
            ("messages[0].content[0].name", "dropped", "semantic"),
        ],
    ),
    "marks and notes": (
        Message("user", [Text("a", [Citation("u")], cache=Cache())], name="Ann"),
        {"role": "user", "content": "a"},
        [
            ("messages[0].content[0].citations", "dropped", "semantic"),
            ("messages[0].content[0].cache", "dropped", "minor"),
            ("messages[0].name", "dropped", "semantic"),
        ],
    ),
    "thinking": (
        Message("assistant", [Thinking("Hm."), Thinking("So."), Text("Yes.")]),
        {"role": "assistant", "thinking": "Hm.\nSo.", "content": "Yes."},
        [("messages[0].content", "merged", "minor")],
    ),
    "signed thinking": (
        Message("assistant", [Thinking("Hm.", "sig"), Thinking("", "blob", redacted=True), Text("Yes.")]),
        {"role": "assistant", "thinking": "Hm.", "content": "Yes."},
        [
            ("messages[0].content[0].signature", "dropped", "semantic"),
            ("messages[0].content[1].signature", "dropped", "semantic"),
            ("messages[0].content[1].redacted", "dropped", "semantic"),
        ],
    ),
    "parts of others": (
        Message("assistant", [Refusal("No."), ServerToolCall("s", "search"), Opaque("gemini", {"x": 1})]),
        {"role": "assistant", "content": "No."},
        [
            ("messages[0].content[0]", "approximated", "semantic"),
            ("messages[0].content[1]", "dropped", "semantic"),
            ("messages[0].content[2].opaque.x", "dropped", "semantic"),
            ("messages[0].content[2]", "dropped", "semantic"),
        ],
    ),
}


@pytest.mark.parametrize("case", ENCODED)
def test_a_message_from_elsewhere(case: str) -> None:
    message, body, lost = ENCODED[case]
    assert messages_of(message) == ([body], lost)


def test_a_message_that_cannot_be_said_is_not_there() -> None:
    bodies, lost = messages_of(Message("user", [Audio("x")]), Message("Hello"))
    assert bodies == [{"role": "user", "content": "Hello"}]
    assert lost == [("messages[0].content[0]", "dropped", "semantic")]


def test_the_system_prompt_is_the_first_message() -> None:
    assert messages_of(Message("Hi"), system="Be brief.") == (
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        [],
    )
    bodies, lost = messages_of(Message("Hi"), system=[Text("a", cache=Cache()), Text("b")])
    assert bodies[0] == {"role": "system", "content": "a\nb"}
    assert lost == [("system.content[0].cache", "dropped", "minor"), ("system.content", "merged", "minor")]


def test_calls_from_elsewhere() -> None:
    calls = [
        ToolCall("functions.look:0", "srv/look", {"a": 1}, raw='{"a": 1}'),
        ToolCall("toolwire_3_1", "look"),
        ToolCall("gemini_2", "look", index=2),
        ToolCall("c", "look", raw="{", error="not JSON"),
        ToolCall("d", "run", raw="ls", custom=True),
        ToolCall("e", "look", complete=False),
    ]
    results = [Message("tool", [ToolResult(call.id, None, f"{place}")]) for place, call in enumerate(calls)]
    bodies, lost = messages_of(Message("assistant", calls), *results)
    assert bodies[0]["tool_calls"] == [
        {"id": "functions.look:0", "function": {"name": "srv/look", "arguments": {"a": 1}}},
        {"function": {"name": "look", "arguments": {}}},
        {"function": {"name": "look", "arguments": {}}},
        {"id": "c", "function": {"name": "look", "arguments": {}}},
        {"id": "d", "function": {"name": "run", "arguments": {"input": "ls"}}},
        {"id": "e", "function": {"name": "look", "arguments": {}}},
    ]
    assert [body.get("tool_call_id") for body in bodies[1:]] == [
        "functions.look:0",
        None,
        None,
        "c",
        "d",
        "e",
    ]
    assert [body["tool_name"] for body in bodies[1:]] == ["srv/look", "look", "look", "look", "run", "look"]
    assert lost == [
        ("messages[0].content[3].raw", "dropped", "semantic"),
        ("messages[0].content[4].custom", "approximated", "minor"),
        ("messages[0].content[5].complete", "dropped", "semantic"),
    ]


RESULTS: dict[str, tuple[ToolResult, dict[str, Any], list[tuple[str, str, str]]]] = {
    "an error": (ToolResult("call_1", "look", "boom", is_error=True), {"content": "Error: boom"}, []),
    "like an error": (ToolResult("call_1", "look", "Error: boom"), {"content": " Error: boom"}, []),
    "another name": (ToolResult("call_1", "other", "x"), {"content": "x", "tool_name": "other"}, []),
    "nothing": (ToolResult("call_1", "look", []), {"content": ""}, []),
    "parts": (
        ToolResult("call_1", "look", [Text("a"), Image(data=PNG), Text("b")], is_error=True),
        {"content": "Error: a\nb", "images": [PNG]},
        [
            ("messages[1].content[0].content[2]", "moved", "minor"),
            ("messages[1].content[0].content", "merged", "minor"),
        ],
    ),
    "media": (
        ToolResult("call_1", "look", [Image(url="https://x.example"), Document(data="x")], cache=Cache()),
        {"content": ""},
        [
            ("messages[1].content[0].content[0].url", "dropped", "semantic"),
            ("messages[1].content[0].content[0]", "dropped", "semantic"),
            ("messages[1].content[0].content[1]", "dropped", "semantic"),
            ("messages[1].content[0].cache", "dropped", "minor"),
        ],
    ),
}


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_from_elsewhere(case: str) -> None:
    result, said, lost = RESULTS[case]
    bodies, found = messages_of(Message("assistant", [CALL]), Message("tool", [result]))
    assert bodies[1] == {"role": "tool", "tool_name": "look", "tool_call_id": "call_1", **said}
    assert found == lost


def test_results_within_the_words_of_a_user_come_first() -> None:
    turn = Message("user", [ToolResult("call_1", None, "sunny"), Text("And?")])
    bodies, lost = messages_of(Message("assistant", [CALL]), turn)
    assert bodies[1:] == [
        {"role": "tool", "tool_name": "look", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "user", "content": "And?"},
    ]
    assert lost == []


def test_a_history_is_made_legal() -> None:
    orphan = Message("tool", [ToolResult("call_9", "look", "late")])
    bodies, lost = messages_of(Message("assistant", [CALL]), Message("Hm?"), orphan)
    assert [body["role"] for body in bodies] == ["assistant", "tool", "user", "user"]
    assert bodies[1]["content"] == "Error: no result was provided for this call"
    assert [action for _, action, _ in lost] == ["repaired", "repaired"]


TOOLS: dict[str, tuple[Tool | ServerTool, list[Any], list[tuple[str, str, str]]]] = {
    "plain": (
        LOOK,
        [{"type": "function", "function": {"name": "look", "description": "Look.", "parameters": SCHEMA}}],
        [],
    ),
    "bare": (Tool("look"), [{"type": "function", "function": {"name": "look"}}], []),
    "with more": (
        Tool(
            "look",
            metadata={"a": 1},
            strict=True,
            cache=Cache(),
            opaque=Opaque("anthropic", {"defer_loading": True}),
        ),
        [{"type": "function", "function": {"name": "look"}}],
        [
            ("tools[0].strict", "dropped", "semantic"),
            ("tools[0].metadata", "dropped", "minor"),
            ("tools[0].cache", "dropped", "minor"),
            ("tools[0].opaque.defer_loading", "dropped", "semantic"),
        ],
    ),
    "free text": (
        Tool("run", "Run.", custom=True, format={"type": "text"}),
        [
            {
                "type": "function",
                "function": {
                    "name": "run",
                    "description": "Run.",
                    "parameters": {
                        "type": "object",
                        "properties": {"input": {"type": "string"}},
                        "required": ["input"],
                    },
                },
            }
        ],
        [("tools[0].custom", "approximated", "minor"), ("tools[0].format", "dropped", "semantic")],
    ),
    "a server's": (ServerTool("web_search", "anthropic", {}), [], [("tools[0]", "dropped", "semantic")]),
    "its own server's": (ServerTool("search", "ollama", {"type": "search"}), [{"type": "search"}], []),
}


@pytest.mark.parametrize("case", TOOLS)
def test_a_tool(case: str) -> None:
    tool, bodies, lost = TOOLS[case]
    encoded = ollama.encode_request(asking([], tools=[tool]))
    assert (encoded.body.get("tools", []), losses(encoded)) == (bodies, lost)


def test_a_schema_in_the_words_that_a_server_keeps() -> None:
    schema = {
        "type": "object",
        "properties": {"unit": {"const": "C"}, "city": {"$ref": "#/$defs/city"}},
        "$defs": {"city": {"type": "string", "maxLength": 9}},
    }
    encoded = ollama.encode_request(asking([], tools=[Tool("look", "Look.", schema)]))
    assert encoded.body["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {"unit": {"enum": ["C"]}, "city": {"type": "string", "description": "(maxLength: 9)"}},
    }
    assert losses(encoded) == [("tools[0].parameters.properties.city", "moved", "minor")]


ASK, ASK_NAMED = "Answer this by calling a tool.", "Answer this by calling one of these tools: find."
CHOICES: dict[str, tuple[ToolChoice | None, list[str], str, list[tuple[str, str, str]]]] = {
    "absent": (None, ["look", "find"], "Hi", []),
    "auto": (ToolChoice("auto"), ["look", "find"], "Hi", []),
    "none": (
        ToolChoice("none"),
        [],
        "Hi",
        [
            ("tool_choice", "approximated", "minor"),
            ("tools[0]", "dropped", "minor"),
            ("tools[1]", "dropped", "minor"),
        ],
    ),
    "required": (
        ToolChoice("required"),
        ["look", "find"],
        f"Hi\n\n{ASK}",
        [("tool_choice", "approximated", "semantic")],
    ),
    "named": (
        ToolChoice("required", ["find"]),
        ["find"],
        f"Hi\n\n{ASK_NAMED}",
        [("tool_choice", "approximated", "semantic"), ("tools[0]", "dropped", "minor")],
    ),
    "narrowed": (
        ToolChoice("auto", ["find"]),
        ["find"],
        "Hi",
        [("tool_choice.names", "approximated", "minor"), ("tools[0]", "dropped", "minor")],
    ),
    "unknown": (
        ToolChoice("required", ["what"]),
        ["look", "find"],
        f"Hi\n\n{ASK}",
        [("tool_choice.names", "dropped", "semantic"), ("tool_choice", "approximated", "semantic")],
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_choice_among_tools(case: str) -> None:
    choice, offered, said, lost = CHOICES[case]
    encoded = ollama.encode_request(
        asking([Message("Hi"), Message("assistant", "Hm.")], tools=[LOOK, FIND], tool_choice=choice)
    )
    assert [tool["function"]["name"] for tool in encoded.body.get("tools", [])] == offered
    assert encoded.body["messages"][0] == {"role": "user", "content": said}
    assert losses(encoded) == lost
    assert "tool_choice" not in encoded.body


def test_a_choice_without_tools_or_words() -> None:
    assert messages_of(Message("Hi"), tool_choice=ToolChoice("required")) == (
        [{"role": "user", "content": "Hi"}],
        [("tool_choice", "dropped", "minor")],
    )
    bodies, _ = messages_of(Message("assistant", "Hm."), tools=[LOOK], tool_choice=ToolChoice("required"))
    assert bodies[-1] == {"role": "user", "content": ASK}
    bodies, _ = messages_of(
        Message("user", [Image(data=PNG)]), tools=[LOOK], tool_choice=ToolChoice("required")
    )
    assert bodies == [{"role": "user", "content": ASK, "images": [PNG]}]


def test_a_choice_leaves_what_it_was_given_alone() -> None:
    odd = {"role": "user", "content": ["x"]}
    request = ollama.decode_request({"messages": [odd], "tools": [{"function": {"name": "look"}}]})
    forced = ollama.encode_request(replace(request, tool_choice=ToolChoice("required")))
    assert forced.body["messages"] == [{"role": "user", "content": ASK}]
    assert odd == {"role": "user", "content": ["x"]}


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str, str]]]] = {
    "nothing": ({}, {}, []),
    "streaming": ({"stream": True}, {"stream": True}, []),
    "options": (
        {"max_tokens": 5, "temperature": 1, "top_p": 0.5, "top_k": 4.0, "stop": ["a"], "seed": 3}
        | {"presence_penalty": 0.5, "frequency_penalty": 0.25},
        {
            "options": {
                "num_predict": 5,
                "temperature": 1,
                "top_p": 0.5,
                "top_k": 4.0,
                "stop": ["a"],
                "seed": 3,
            }
            | {"presence_penalty": 0.5, "frequency_penalty": 0.25}
        },
        [],
    ),
    "half a count": ({"top_k": 4.5}, {}, [("top_k", "dropped", "semantic")]),
    "logprobs": ({"logprobs": True, "top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}, []),
    "others": (
        {"n": 2, "parallel_tool_calls": False, "metadata": {"a": "b"}, "user": "u", "store": True},
        {},
        [
            (field, "dropped", "semantic")
            for field in ("parallel_tool_calls", "n", "metadata", "user", "store")
        ],
    ),
    "thinks": ({"thinking": "enabled"}, {"think": True}, []),
    "does not": ({"thinking": "disabled"}, {"think": False}, []),
    "adapts": ({"thinking": "adaptive"}, {"think": True}, [("thinking", "approximated", "minor")]),
    "thinks hard": ({"thinking": "enabled", "effort": "high"}, {"think": "high"}, []),
    "tries without": (
        {"thinking": "disabled", "effort": "low"},
        {"think": False},
        [("effort", "dropped", "semantic")],
    ),
    "thinks about nothing": (
        {"thinking": "enabled", "effort": "none"},
        {"think": False},
        [("thinking", "approximated", "minor")],
    ),
    "tries unheard of": ({"effort": "utmost"}, {}, [("effort", "dropped", "semantic")]),
    "has a budget": ({"thinking_budget": 9}, {}, [("thinking_budget", "dropped", "semantic")]),
    "none": ({"effort": "none"}, {"think": False}, []),
    "minimal": ({"effort": "minimal"}, {"think": "low"}, [("effort", "approximated", "minor")]),
    "low": ({"effort": "low"}, {"think": "low"}, []),
    "medium": ({"effort": "medium"}, {"think": "medium"}, []),
    "high": ({"effort": "high"}, {"think": "high"}, []),
    "xhigh": ({"effort": "xhigh"}, {"think": "max"}, [("effort", "approximated", "minor")]),
    "max": ({"effort": "max"}, {"think": "max"}, []),
    "text": ({"output": Output("text")}, {"format": ""}, []),
    "json": ({"output": Output("json")}, {"format": "json"}, []),
    "schema": (
        {"output": Output("schema", SCHEMA, "answer", "An answer.", strict=True)},
        {"format": SCHEMA},
        [(f"output.{field}", "dropped", "minor") for field in ("name", "description", "strict")],
    ),
    "no schema": ({"output": Output("schema")}, {"format": "json"}, [("output", "approximated", "semantic")]),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting(case: str) -> None:
    fields, said, lost = SETTINGS[case]
    encoded = ollama.encode_request(asking([], **fields))
    assert encoded.body == {"model": "m", "messages": [], "stream": False, **said}
    assert losses(encoded) == lost


def test_a_format_keeps_a_model_from_calling() -> None:
    encoded = ollama.encode_request(asking([], tools=[LOOK], output=Output("json")))
    assert losses(encoded) == [("output", "approximated", "semantic")]


def test_state_and_other_wires_stay_behind() -> None:
    context = Context(provider_state={"previous_response_id": "r"})
    encoded = ollama.encode_request(
        Request(context=context, opaque=Opaque("openai-chat", {"modalities": ["text"]}))
    )
    assert losses(encoded) == [
        ("provider_state.previous_response_id", "dropped", "semantic"),
        ("opaque.modalities", "dropped", "semantic"),
    ]


def test_one_value_changes_one_place() -> None:
    body = {
        "messages": [
            {"role": "User", "content": "a", "images": [PNG]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"index": 0, "name": "look", "arguments": '{"a": 1}'}}],
            },
            {"role": "tool", "content": "x", "tool_name": "look"},
        ],
        "options": {"temperature": 0, "num_ctx": 9},
        "format": "json",
    }
    request = ollama.decode_request(body)
    user, answer, result = request.messages
    call = replace(answer.tool_calls[0], arguments={"a": 2})
    changed = [
        replace(user, content=[Text("b"), *user.parts[1:]]),
        replace(answer, content=[call]),
        replace(result, content=[replace(result.parts[0], is_error=True)]),
    ]
    other = replace(request, temperature=1, context=Context(None, changed))
    assert ollama.encode_request(other).body == {
        "messages": [
            {"role": "User", "content": "b", "images": [PNG]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"index": 0, "name": "look", "arguments": '{"a":2}'}}],
            },
            {"role": "tool", "content": "Error: x", "tool_name": "look"},
        ],
        "options": {"temperature": 1, "num_ctx": 9},
        "format": "json",
    }


WHEN, SECONDS = "2025-05-16T00:19:53.711799677Z", 1747354793.711799
OWN_RESPONSES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "generated": {"model": "m", "created_at": WHEN, "response": "Because.", "done": True, "context": [1]},
    "an error": {"error": "no"},
    "a call": {
        "model": "m",
        "created_at": WHEN,
        "message": {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "function": {"index": 0, "name": "f", "arguments": {}}}],
        },
        "done": True,
        "done_reason": "stop",
        "total_duration": 5,
        "prompt_eval_count": 1,
        "eval_count": 2,
        "logprobs": [{"token": "a"}],
    },
    "loaded": {"message": {"role": "assistant", "content": ""}, "done_reason": "load", "done": True},
    "no end": {"message": {"role": "Assistant", "content": "a"}, "done": False, "done_reason": ""},
    "odd": {
        "message": {"role": "tool", "content": None},
        "done": "yes",
        "done_reason": 1,
        "created_at": "today",
        "eval_count": "2",
    },
    "no role": {"message": {"content": "a"}, "created_at": "2025-05-16T00:19:53", "model": None},
    "another offset": {"created_at": "2025-05-16T02:19:53.7+02:00"},
    "no message": {"message": "x", "done": True},
}


@pytest.mark.parametrize("body", OWN_RESPONSES.values(), ids=OWN_RESPONSES)
def test_a_response_comes_back(body: dict[str, Any]) -> None:
    encoded = ollama.encode_response(ollama.decode_response(body))
    assert (encoded.body, encoded.losses) == (body, ())


def test_what_a_response_means() -> None:
    response = ollama.decode_response(OWN_RESPONSES["a call"])
    assert (response.model, response.created, response.content) == ("m", SECONDS, None)
    assert response.tool_calls == [ToolCall("c", "f", {})]
    assert (response.finish_reason, response.raw_finish_reason) == ("tool_calls", "stop")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (
        1,
        2,
        3,
    )
    assert response.opaque is not None
    assert response.opaque.value == {"total_duration": 5, "logprobs": [{"token": "a"}]}
    assert ollama.decode_response(OWN_RESPONSES["another offset"]).created == 1747354793.7
    assert ollama.decode_response(OWN_RESPONSES["odd"]).created is None
    assert ollama.decode_response(OWN_RESPONSES["nothing"]).usage is None


REASONS: dict[str, tuple[str | None, str | None, bool]] = {
    "stop": ("stop", "stop", False),
    "length": ("length", "length", False),
    "load": ("load", "unknown", False),
    "unload": ("unload", "unknown", False),
    "empty": ("", None, False),
    "absent": (None, None, False),
    "stop with calls": ("stop", "tool_calls", True),
    "absent with calls": (None, "tool_calls", True),
    "length with calls": ("length", "length", True),
}


@pytest.mark.parametrize(("raw", "reason", "called"), REASONS.values(), ids=REASONS)
def test_why_an_answer_ended(raw: str | None, reason: str | None, called: bool) -> None:
    calls = {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]} if called else {}
    body = {
        "message": {"role": "assistant", "content": "a", **calls},
        **({} if raw is None else {"done_reason": raw}),
    }
    response = ollama.decode_response(body)
    assert (response.finish_reason, response.raw_finish_reason) == (reason, raw)
    assert ollama.encode_response(response).body == body


FINISHES: dict[str, tuple[Any, list[Any], str, list[tuple[str, str, str]]]] = {
    "stop": ("stop", [Text("a")], "stop", []),
    "length": ("length", [Text("a")], "length", []),
    "calls": ("tool_calls", [CALL], "stop", []),
    "no reason": (None, [Text("a")], "stop", []),
    "refusal": ("refusal", [Text("a")], "stop", [("choices[0].finish_reason", "approximated", "semantic")]),
    "full": (
        "context_window",
        [Text("a")],
        "length",
        [("choices[0].finish_reason", "approximated", "semantic")],
    ),
    "filtered": (
        "content_filter",
        [Text("a")],
        "stop",
        [("choices[0].finish_reason", "approximated", "semantic")],
    ),
    "calls without any": (
        "tool_calls",
        [Text("a")],
        "stop",
        [("choices[0].finish_reason", "approximated", "semantic")],
    ),
}


@pytest.mark.parametrize(("reason", "parts", "word", "lost"), FINISHES.values(), ids=FINISHES)
def test_why_an_answer_from_elsewhere_ended(
    reason: Any, parts: list[Any], word: str, lost: list[Any]
) -> None:
    encoded = ollama.encode_response(Response.of(Message("assistant", parts), reason))
    assert (encoded.body["done_reason"], losses(encoded)) == (word, lost)


def test_a_response_from_elsewhere() -> None:
    answer = Message("assistant", [Thinking("Hm."), Text("I "), Text("look."), CALL])
    choice = Choice(answer, "tool_calls", "tool_use", opaque=Opaque("anthropic", {}))
    response = Response(choices=[choice], id="msg_1", model="m", created=1_700_000_000, usage=Usage(3, 4, 1))
    encoded = ollama.encode_response(response)
    assert encoded.body == {
        "model": "m",
        "created_at": "2023-11-14T22:13:20Z",
        "message": {"role": "assistant", "thinking": "Hm.", "content": "I look.", "tool_calls": [CALL_BODY]},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 3,
        "eval_count": 4,
    }
    assert losses(encoded) == [
        ("choices[0].message.content", "merged", "minor"),
        ("usage.cache_read_tokens", "dropped", "minor"),
        ("id", "dropped", "minor"),
    ]


def test_a_bare_response_from_elsewhere() -> None:
    encoded = ollama.encode_response(Response())
    assert encoded.body == {
        "model": "",
        "created_at": "1970-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": ""},
        "done": True,
    }


def test_what_a_response_cannot_hold() -> None:
    choices = [
        Choice(Message("assistant", "a"), "stop_sequence", stop_sequence="END"),
        Choice(Message("assistant", "b")),
    ]
    response = Response(choices=choices, created=1e300, service_tier="priority", provider_state={"id": "r"})
    encoded = ollama.encode_response(response)
    assert encoded.body["created_at"] == "1970-01-01T00:00:00Z"
    assert losses(encoded) == [
        ("created", "dropped", "minor"),
        ("choices[0].finish_reason", "approximated", "semantic"),
        ("choices[0].stop_sequence", "dropped", "semantic"),
        ("choices[1]", "dropped", "semantic"),
        ("service_tier", "dropped", "minor"),
        ("provider_state.id", "dropped", "minor"),
    ]


def test_one_value_of_a_response_changes_one_place() -> None:
    body = OWN_RESPONSES["a call"]
    response = ollama.decode_response(body)
    later = replace(response, created=SECONDS + 1, usage=replace(response.usage, output_tokens=9))
    changed = ollama.encode_response(later).body
    assert changed == {**body, "created_at": "2025-05-16T00:19:54.711799Z", "eval_count": 9}
    cut = replace(response, choices=[replace(response.choices[0], finish_reason="length")])
    assert ollama.encode_response(cut).body == {**body, "done_reason": "length"}


ERRORS: dict[str, tuple[int, Any, tuple[str, str]]] = {
    "words": (400, {"error": "m does not support tools"}, ("invalid_request", "m does not support tools")),
    "not found": (404, {"error": "model 'm' not found", "note": 1}, ("not_found", "model 'm' not found")),
    "too long": (
        400,
        {"error": "the input length exceeds the context length"},
        ("context_length", "the input length exceeds the context length"),
    ),
    "server": (500, {"error": "llama runner crashed"}, ("server", "llama runner crashed")),
    "like another's": (
        429,
        {
            "error": {
                "message": "slow down",
                "type": "rate_limit_error",
                "param": None,
                "code": 7,
                "more": 1,
            },
            "id": "x",
        },
        ("rate_limit", "slow down"),
    ),
    "an empty code": (400, {"error": {"message": "a", "code": ""}}, ("invalid_request", "a")),
    "text": (502, "Bad gateway", ("server", "Bad gateway")),
    "nothing": (503, None, ("overloaded", "")),
    "something": (401, {"detail": "who?"}, ("authentication", "{'detail': 'who?'}")),
}


@pytest.mark.parametrize(("status", "body", "meaning"), ERRORS.values(), ids=ERRORS)
def test_an_error(status: int, body: Any, meaning: tuple[str, str]) -> None:
    error = ollama.decode_error(status, body)
    assert (error.kind, error.message) == meaning
    reply = ollama.encode_error(error)
    assert (reply.status, reply.body, reply.losses) == (status, body, ())


def test_the_details_of_an_error_like_anothers() -> None:
    error = ollama.decode_error(429, ERRORS["like another's"][1])
    assert (error.type, error.code, error.retryable) == ("rate_limit_error", 7, True)
    assert ollama.encode_error(replace(error, message="wait")).body["error"]["message"] == "wait"


FOREIGN_ERRORS: dict[str, tuple[Error, int, list[tuple[str, str, str]]]] = {
    "with a status": (Error("rate_limit", "wait", 429), 429, []),
    "without": (Error("not_found", "wait"), 404, []),
    "with details": (
        Error("overloaded", "wait", 529, "overloaded_error", "c", "p", "req_1"),
        529,
        [(field, "dropped", "minor") for field in ("type", "param", "code", "request_id")],
    ),
    "of a kind without a status": (Error("context_length", "wait"), 400, [("kind", "approximated", "minor")]),
}


@pytest.mark.parametrize(("error", "status", "lost"), FOREIGN_ERRORS.values(), ids=FOREIGN_ERRORS)
def test_an_error_from_elsewhere(error: Error, status: int, lost: list[Any]) -> None:
    reply = ollama.encode_error(error)
    assert (reply.status, reply.body, losses(reply)) == (status, {"error": "wait"}, lost)


def test_quirks_are_taken() -> None:
    assert ollama.encode_request(asking([]), PLAIN) == ollama.encode_request(asking([]))
    assert ollama.encode_response(Response(), PLAIN) == ollama.encode_response(Response())
