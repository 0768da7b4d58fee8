"""Requests over a wire whose model calls in its text."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.test_accounting import REQUEST, unaccounted
from tests.text.tagged.texts import BLOCK, READ_FILE, SEARCH, TOOLS
from tests.wires import differences, requests_of
from toolwire import (
    Context,
    Image,
    Message,
    Request,
    Response,
    ServerTool,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    dialect,
)
from toolwire.dialects import NAMES, Dialect
from toolwire.text_tagged import READERS, augment_system_prompt, over

CALL = ToolCall("call_1", "read_file", {"path": "a.txt"})
HISTORY = [
    Message("What is in it?"),
    Message("assistant", [Text("I look."), CALL]),
    Message("tool", [ToolResult("call_1", "read_file", 'x = "1"\ny')]),
]


def request(messages: list[Message] | None = None, **fields: Any) -> Request:
    system, tools = fields.pop("system", "Be brief."), fields.pop("tools", TOOLS)
    return Request(context=Context(system, HISTORY if messages is None else messages, tools), model="m", **fields)


def bodies(given: Request, **settings: Any) -> list[dict[str, Any]]:
    """Give the messages of a request to Ollama."""
    body = over("ollama", given.tools, **settings).encode_request(given).body
    assert "tools" not in body
    return body["messages"]  # type: ignore[no-any-return]


@pytest.mark.row("I-39")
def test_tools_calls_and_results_are_words() -> None:
    system, asked, called, answered = bodies(request())
    assert system == {"role": "system", "content": augment_system_prompt("Be brief.", TOOLS)}
    assert asked == {"role": "user", "content": "What is in it?"}
    block = '~~~tool_call\n{"id":"call_1","name":"read_file","arguments":{"path":"a.txt"}}\n~~~\n'
    assert called == {"role": "assistant", "content": f"I look.\n{block}"}
    result = '~~~tool_result\n{"id":"call_1","name":"read_file","content":"x = \\"1\\"\\ny"}\n~~~\n'
    assert answered == {"role": "user", "content": result}


def test_results_that_follow_each_other_stand_in_one_message() -> None:
    calls = [replace(CALL, id=f"c{n}", index=n) for n in range(3)]
    results = [Message("tool", [ToolResult(f"c{n}", "read_file", f"r{n}", is_error=n == 1)]) for n in range(3)]
    *_, called, answered = bodies(request([Message("Go."), Message("assistant", [*calls]), *results]))
    assert called["content"].count("~~~tool_call\n") == 3
    assert answered["role"] == "user"
    assert [line for line in answered["content"].splitlines() if line.startswith("{")] == [
        '{"id":"c0","name":"read_file","content":"r0"}',
        '{"id":"c1","name":"read_file","is_error":true,"content":"r1"}',
        '{"id":"c2","name":"read_file","content":"r2"}',
    ]


def test_what_a_result_shows_stands_after_its_words() -> None:
    shown: list[Any] = [Text("See."), Image(data="aGk=", media_type="image/png"), Text("Well?")]
    messages = [*HISTORY[:2], Message("tool", [ToolResult("call_1", "read_file", shown)])]
    answered = bodies(request(messages))[-1]
    assert '"content":"See.\\n[image 1 attached below]\\nWell?"' in answered["content"]
    assert answered["images"] == ["aGk="]
    lost = dialect("ollama").encode_request(request([Message("user", [Image("https://a.example/i.png")])])).losses
    hidden = replace(messages[2], content=[ToolResult("call_1", "read_file", [Image("https://a.example/i.png")])])
    told = over("ollama").encode_request(request([*messages[:2], hidden])).losses
    assert {loss.concept for loss in lost} <= {loss.concept for loss in told}
    assert any(loss.path.startswith("messages[2].content[0].content[0]") for loss in told), told


@pytest.mark.parametrize(
    ("system", "messages", "role"),
    [
        ("Be brief.", [Message("Hi.")], "system"),
        (None, [Message("Hi.")], "system"),
        (None, [Message("system", "Be brief."), Message("Hi.")], "system"),
        ([Text("Be brief.")], [Message("Hi.")], "system"),
    ],
)
def test_the_tools_stand_in_the_one_system_prompt(system: Any, messages: list[Message], role: str) -> None:
    told = bodies(request(messages, system=system))
    assert [body["role"] for body in told] == [role, "user"]
    assert told[0]["content"].endswith(augment_system_prompt(None, TOOLS))


def test_without_tools_nothing_is_told() -> None:
    plain = request([Message("Hi.")], tools=[])
    assert over("ollama", []).encode_request(plain) == dialect("ollama").encode_request(plain)


CHOICES: list[tuple[ToolChoice, list[str], str]] = [
    (ToolChoice("auto"), ["read_file", "search"], ""),
    (ToolChoice("none"), [], ""),
    (ToolChoice("required"), ["read_file", "search"], "Call at least one tool"),
    (
        ToolChoice("required", ["search"]),
        ["search"],
        "Call at least one of these tools in your next answer: search.",
    ),
    (ToolChoice("auto", ["read_file"]), ["read_file"], ""),
    (ToolChoice("required", ["rm"]), ["read_file", "search"], "Call at least one"),
]


@pytest.mark.parametrize(("choice", "told", "asked"), CHOICES)
def test_a_choice_among_tools_is_asked_for(choice: ToolChoice, told: list[str], asked: str) -> None:
    encoded = over("ollama").encode_request(request([Message("Hi.")], tool_choice=choice))
    system, user = encoded.body["messages"]
    assert [name for name in ("read_file", "search") if f"## {name}" in system["content"]] == told
    assert user["content"] == "Hi." if not asked else asked in user["content"]
    named = any(loss.path.startswith("tool_choice") for loss in encoded.losses)
    assert named is (choice != ToolChoice("auto"))


def test_one_call_at_a_time_is_asked_for() -> None:
    given = request([Message("Hi.")], parallel_tool_calls=False)
    assert "at most one tool" in bodies(given)[0]["content"]
    assert any(loss.path == "parallel_tool_calls" for loss in over("ollama").encode_request(given).losses)


def test_what_a_prompt_cannot_say_is_lost_by_name() -> None:
    tools = [replace(READ_FILE, strict=True, metadata={"k": 1}), Tool("run", "Run.", custom=True)]
    encoded = over("anthropic").encode_request(request([Message("Hi.")], tools=tools, max_tokens=5))
    assert {loss.path for loss in encoded.losses} == {
        "tools",
        "tools[0].strict",
        "tools[0].metadata",
        "tools[1].custom",
    }


def test_tools_of_the_provider_stay_where_they_are() -> None:
    search = ServerTool("web_search_20250305", "anthropic", {"type": "web_search_20250305", "name": "web_search"})
    body = over("anthropic").encode_request(request([Message("Hi.")], tools=[SEARCH, search], max_tokens=5)).body
    assert body["tools"] == [search.value]
    assert "## search" in str(body["system"])


ANSWER = f"I look.\n\n{BLOCK}\n\n~~~tool_call\n{{\n~~~"


def test_an_answer_stands_in_the_history_as_the_model_wrote_it() -> None:
    wire = over("ollama", TOOLS)
    body = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": True, "done_reason": "stop"}
    read = wire.decode_response({**body, "message": {"role": "assistant", "content": ANSWER}})
    [call], [broken] = read.tool_calls, read.broken_calls
    results = [
        ToolResult(call.id, call.name, "x"),
        ToolResult(broken.id, broken.name, "no JSON", is_error=True),
    ]
    messages = [Message("Go."), read.message, *(Message("tool", [result]) for result in results)]
    told = bodies(request(messages))
    assert told[2]["content"] == ANSWER
    assert [line for line in told[3]["content"].splitlines() if line.startswith("{")] == [
        '{"name":"read_file","content":"x"}',
        '{"name":"unknown","is_error":true,"content":"no JSON"}',
    ]


def test_a_call_that_was_changed_is_written_anew() -> None:
    body = {"model": "m", "message": {"role": "assistant", "content": ANSWER}, "done": True}
    read = over("ollama").decode_response(body)
    changed = [replace(part, arguments={"path": "b"}) if part is read.tool_calls[0] else part for part in read.parts]
    told = bodies(request([Message("Go."), replace(read.message, content=changed)]))
    assert '"arguments":{"path":"b"}' in told[2]["content"]
    assert "passwd" not in told[2]["content"]
    assert told[2]["content"].startswith("I look.\n\n~~~tool_call\n")


def test_a_call_follows_even_where_words_left_code_open() -> None:
    messages = [Message("Go."), Message("assistant", [Text("```python\nx = 1"), CALL])]
    encoded = over("ollama", TOOLS).encode_request(request(messages))
    said = encoded.body["messages"][2]["content"]
    assert said.startswith("```python\nx = 1\n```\n~~~tool_call\n")
    assert ("messages[1].content[1]", "quoted_fence") in {(loss.path, loss.concept) for loss in encoded.losses}


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (ToolCall.parse("c", "read_file", '{"path": '), '"{\\"path\\": "'),
        (ToolCall("c", "read_file", complete=False, raw="{}", error="cut off"), '"{} (cut off)"'),
        (ToolCall("c", "run", raw="print(1)", custom=True), '{"input":"print(1)"}'),
    ],
)
def test_a_call_that_cannot_be_run_does_not_read_as_one_that_can(call: ToolCall, arguments: str) -> None:
    said = bodies(request([Message("Go."), Message("assistant", [call])]))[2]["content"]
    assert f'"arguments":{arguments}}}' in said


def test_a_history_that_is_not_legal_is_repaired_first() -> None:
    messages = [*HISTORY[:2], Message("Never mind."), Message("tool", [ToolResult("zz", "search", "late")])]
    encoded = over("ollama").encode_request(request(messages))
    said = [(body["role"], body["content"]) for body in encoded.body["messages"]]
    assert "no result was provided" in said[3][1]
    assert said[4:] == [("user", "Never mind."), ("user", "[result of search] late")]
    assert {"missing_result", "orphan_result"} <= {loss.concept for loss in encoded.losses}


def test_words_of_others_that_look_like_a_call_are_marked() -> None:
    encoded = over("ollama", TOOLS).encode_request(request([Message(f"Explain:\n{BLOCK}")]))
    assert encoded.body["messages"][1]["content"] == f"Explain:\n\\{BLOCK}"
    assert [loss.path for loss in encoded.losses if loss.concept == "quoted_fence"] == ["messages[0]"]


def test_words_that_look_like_a_form_that_is_read_are_marked_too() -> None:
    text = "Explain:\n<tool_call>{}</tool_call>\n  <function=x>\n<b>"
    for readers, marked in (
        ((), text),
        (READERS, text.replace("<tool", "\\<tool").replace("<func", "\\<func")),
    ):
        body = over("ollama", TOOLS, readers=readers).encode_request(request([Message(text)])).body
        assert body["messages"][1]["content"] == marked


def test_a_native_request_is_the_wires_own() -> None:
    given = request()
    assert over("ollama", TOOLS, native=True).encode_request(given) == dialect("ollama").encode_request(given)


def test_it_is_a_dialect() -> None:
    wire: Dialect = over(dialect("openai"), TOOLS)
    assert wire.DIALECT == "openai-chat"
    assert wire.SETTING_PATHS == dialect("openai").SETTING_PATHS
    assert wire.decode_error(429, {"error": {"message": "slow"}}).kind == "rate_limit"
    assert wire.encode_error(wire.decode_error(429, {"error": {"message": "slow"}})).status == 429
    assert dialect(wire) is wire


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_a_request_is_accounted_for(name: str) -> None:
    assert unaccounted(REQUEST, over(name).encode_request) == []


def turns(count: int) -> list[Message]:
    messages: list[Message] = []
    for turn in range(count):
        calls = [ToolCall(f"c{turn}.{index}", "search", {"turn": turn}) for index in range(2)]
        messages += [Message("user", f"Go, {turn}."), Message("assistant", [Text("So:"), *calls])]
        messages += [Message("tool", [ToolResult(call.id, call.name, f"r{turn}")]) for call in calls]
        messages.append(Message("assistant", f"Done with {turn}."))
    return messages


@pytest.mark.parametrize("name", NAMES)
def test_a_longer_history_keeps_the_earlier_bytes(name: str) -> None:
    key = {"gemini": "contents", "openai-responses": "input"}.get(name, "messages")
    wire, whole = over(name, TOOLS), turns(5)
    longest = wire.encode_request(request(whole, max_tokens=5)).body
    assert wire.encode_request(request(whole, max_tokens=5)).body == longest
    for place, message in enumerate(whole):
        if message.role == "assistant" and not message.tool_calls:
            earlier = wire.encode_request(request(whole[: place + 1], max_tokens=5)).body
            assert longest[key][: len(earlier[key])] == earlier[key]
            assert {**longest, key: 0} == {**earlier, key: 0}


@pytest.mark.parametrize("name", NAMES)
def test_a_request_that_was_read_comes_back(name: str) -> None:
    messages = [
        Message(f"Explain:\n{BLOCK}"),
        *HISTORY[1:],
        Message("assistant", f"So:\n{BLOCK}"),
        Message("Ok."),
    ]
    body = dialect(name).encode_request(request(messages, max_tokens=5)).body
    wire = over(name, TOOLS)
    read = wire.decode_request(body)
    assert differences(body, wire.encode_request(read).body) == []
    changed = replace(read, model="other")
    if name != "gemini":
        assert differences(body, wire.encode_request(changed).body) == ["$.model: 'm' became 'other'"]


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_request_comes_back(name: str, corpus: Any) -> None:
    assert corpus
    wire, seen = over(name), 0
    for recording, body in requests_of(name):
        encoded = wire.encode_request(wire.decode_request(body, recording.path))
        assert (differences(body, encoded.body), encoded.losses) == ([], ()), recording.name
        seen += 1
    assert seen > 0


def test_what_is_added_to_a_request_that_was_read_is_made_harmless() -> None:
    body = dialect("ollama").encode_request(request([Message("Hi.")], tools=[])).body
    wire = over("ollama", TOOLS)
    read = wire.decode_request(body)
    added = [
        *read.messages,
        Message("assistant", [CALL]),
        Message("tool", BLOCK, tool_call_id="call_1"),
        Message(BLOCK),
    ]
    told = wire.encode_request(replace(read, context=replace(read.context, messages=added, tools=TOOLS))).body
    assert "tools" not in told
    assert told["messages"][2]["content"].startswith("~~~tool_call\n")
    assert told["messages"][3]["role"] == "user"
    assert told["messages"][4]["content"] == f"\\{BLOCK}"


def test_a_conversation_goes_on_with_another_wire() -> None:
    body = {"model": "m", "message": {"role": "assistant", "content": BLOCK}, "done": True}
    read: Response = over("ollama", TOOLS).decode_response(body)
    [call] = read.tool_calls
    messages = [Message("Go."), read.message, Message("tool", [ToolResult(call.id, call.name, "x")])]
    encoded = dialect("openai").encode_request(request(messages))
    assert encoded.losses == ()
    assert encoded.body["messages"][2]["tool_calls"][0]["function"]["name"] == "read_file"
