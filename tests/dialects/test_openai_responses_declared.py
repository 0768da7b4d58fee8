"""Tools in namespaces, in items of the input and without names: tools of the request on every wire."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.responses_tools import (
    DECLARED,
    HISTORY,
    PATCH,
    SEARCH,
    call,
    custom,
    function,
    result,
    space,
    words,
)
from tests.oracles import REQUESTS
from tests.test_accounting import silent_leaves
from tests.wires import DIALECTS, differences
from toolwire import (
    Context,
    Message,
    Opaque,
    Request,
    ServerTool,
    Tool,
    ToolCall,
    ToolResult,
    accumulate,
    codec,
    translate,
)
from toolwire.dialects import NAMES, dialect, openai_responses

FOREIGN = [name for name in NAMES if name != "openai-responses"]
MANY = [name for name in FOREIGN if name != "gemini"]


def read(body: dict[str, Any]) -> Request:
    return openai_responses.decode_request({"model": "m", **body})


def names(request: Request) -> list[str]:
    return [tool.name for tool in request.tools if isinstance(tool, Tool)]


@pytest.mark.parametrize("case", [*DECLARED, "history"])
def test_the_body_comes_back(case: str) -> None:
    body = {"model": "m", **(HISTORY if case == "history" else DECLARED[case][0])}
    encoded = openai_responses.encode_request(openai_responses.decode_request(body))
    assert differences(body, encoded.body) == []
    assert encoded.losses == ()


@pytest.mark.sampled
@pytest.mark.parametrize("target", FOREIGN)
@pytest.mark.parametrize("case", DECLARED)
def test_every_tool_reaches_every_wire(case: str, target: str) -> None:
    body, wanted = DECLARED[case]
    request = read(body)
    assert names(request) == wanted
    there = dialect(target)
    encoded = there.encode_request(request)
    assert names(there.decode_request(encoded.body, encoded.path)) == wanted
    assert all(loss.severity == "minor" for loss in encoded.losses if loss.concept == "opaque" and "space" in loss.path)


@pytest.mark.parametrize("target", FOREIGN)
def test_items_with_tools_leave_nothing_else_behind(target: str) -> None:
    """The item is no turn of the user, and what developers say after it still stands first."""
    encoded = dialect(target).encode_request(read(DECLARED["in the input"][0]))
    said = json.dumps(encoded.body)
    assert "(empty)" not in said
    assert not [loss for loss in encoded.losses if loss.concept in ("developer_late", "message")]
    plain = {"input": [item for item in DECLARED["in the input"][0]["input"] if item["type"] == "message"]}
    keys = ("messages", "contents", "system", "systemInstruction")
    without = dialect(target).encode_request(read(plain)).body
    assert {key: encoded.body.get(key) for key in keys} == {key: without.get(key) for key in keys}


@pytest.mark.sampled
@pytest.mark.parametrize("target", FOREIGN)
@pytest.mark.parametrize("case", DECLARED)
def test_every_leaf_is_accounted_for(case: str, target: str) -> None:
    bodies = [(SimpleNamespace(path="", name=case), {"model": "m", **DECLARED[case][0]})]
    assert silent_leaves("openai-responses", target, bodies, translate.request, {}) == []


def test_what_a_namespace_says_of_itself_is_told_once() -> None:
    encoded = dialect("anthropic").encode_request(read(DECLARED["in tools"][0]))
    told = [(loss.path, loss.severity) for loss in encoded.losses if "namespace" in loss.path]
    assert told == [("tools[2].opaque.namespace", "minor"), ("tools[4].opaque.namespace", "minor")]


@pytest.mark.parametrize("target", FOREIGN)
@pytest.mark.parametrize("case", ["found", "without names"])
def test_their_calls_are_calls_with_results(case: str, target: str) -> None:
    request, there = read(DECLARED[case][0]), dialect(target)
    encoded = there.encode_request(request)
    assert not [
        loss for loss in encoded.losses if loss.concept in ("orphan_result", "missing_result", "server_tool_call")
    ]
    back = there.decode_request(encoded.body, encoded.path)
    asked = [(part.name, part.arguments) for part in parts(back, ToolCall)]
    assert asked == [(part.name, part.arguments) for part in parts(request, ToolCall)]
    answered = [(part.content or "", part.is_error) for part in parts(back, ToolResult)]
    assert answered == [(part.content, part.is_error) for part in parts(request, ToolResult)]


def parts(request: Request, kind: type) -> list[Any]:
    return [part for message in request.messages for part in message.parts if isinstance(part, kind)]


MEANINGS: dict[str, tuple[str, int, tuple[Any, ...]]] = {
    "a search": ("found", 0, ("tool_search", {"query": "say"}, "s1")),
    "what was found": ("found", 0, ("s1", '{"tools":["crm__say","look","old"]}', False)),
    "a call in a namespace": ("found", 1, ("crm__say", {"path": "a"}, "c1")),
    "a patch": ("without names", 0, ("apply_patch", {"type": "create_file", "path": "a", "diff": "+x"}, "p1")),
    "a patch that failed": ("without names", 0, ("p1", "no", True)),
    "a patch without words": ("without names", 1, ("p2", "", False)),
    "commands": (
        "without names",
        2,
        ("shell", {"commands": ["ls", "pwd"], "timeout_ms": 9, "max_output_length": None}, "h1"),
    ),
    "what commands wrote": (
        "without names",
        2,
        (
            "h1",
            '{"output":[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":0}}]}',
            False,
        ),
    ),
    "a command": (
        "without names",
        3,
        ("local_shell", {"type": "exec", "command": ["ls"], "env": {"A": "b"}}, "l1"),
    ),
    "what a command wrote": ("without names", 3, ("l1", "none", True)),
    "another of the same name": ("of one name", 1, ("a__b__c_2", {}, "c2")),
    "a function of the same name": ("of one name", 2, ("a__b__c_3", {}, "c3")),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_what_an_item_means(case: str) -> None:
    body, place, wanted = MEANINGS[case]
    request = read(DECLARED[body][0])
    kind, fields = (
        (ToolCall, ("name", "arguments", "id"))
        if isinstance(wanted[1], dict)
        else (ToolResult, ("tool_call_id", "content", "is_error"))
    )
    part = parts(request, kind)[place]
    assert tuple(getattr(part, field) for field in fields) == wanted


CHANGES: dict[str, tuple[str, Any, list[str]]] = {
    "a tool in a namespace": (
        "in tools",
        ("mcp__tiny__look", {"description": "New."}),
        ["$.tools[3].tools[0].description"],
    ),
    "its name": ("in tools", ("mcp__tiny__look", {"name": "see"}), ["$.tools[3].tools"]),
    "a tool of an item": ("in the input", ("ask", {"description": "New."}), ["$.input[0].tools[1].description"]),
    "a tool that was found": (
        "found",
        ("crm__say", {"description": "New."}),
        ["$.input[2].tools[0].tools[0].description"],
    ),
    "a tool declared twice": ("found", ("look", {"description": "New."}), ["$.tools[0].description"]),
    "a search": ("found", ("tool_search", {"description": "New."}), ["$.tools[1].description"]),
}


@pytest.mark.parametrize("case", CHANGES)
def test_changing_a_tool_changes_one_place(case: str) -> None:
    name, (tool, fields), places = CHANGES[case]
    body = {"model": "m", **DECLARED[name][0]}
    request = openai_responses.decode_request(body)
    tools = [replace(one, **fields) if isinstance(one, Tool) and one.name == tool else one for one in request.tools]
    encoded = openai_responses.encode_request(replace(request, context=replace(request.context, tools=tools)))
    assert {
        difference.partition(":")[0].partition("[name")[0] for difference in differences(body, encoded.body)
    } >= set(places) or case == "its name"
    assert encoded.losses == ()
    if case != "its name":
        assert len(differences(body, encoded.body)) == 1


def changed(body: dict[str, Any], change: Any) -> Any:
    request = read(body)
    tools = [tool for tool in request.tools if change(tool)]
    return openai_responses.encode_request(replace(request, context=replace(request.context, tools=tools))).body


def test_a_tool_that_is_taken_out_is_nowhere() -> None:
    body = changed(DECLARED["in tools"][0], lambda tool: not isinstance(tool, Tool) or "tiny" not in tool.name)
    assert [tool.get("name", tool["type"]) for tool in body["tools"]] == [
        *("look", "patch", "agents", "last", "tool_search", "web_search")
    ]
    body = changed(DECLARED["in tools"][0], lambda tool: isinstance(tool, Tool))
    assert "web_search" not in [tool["type"] for tool in body["tools"]]
    body = changed(DECLARED["in the input"][0], lambda _tool: False)
    assert [item["tools"] for item in body["input"] if "tools" in item] == [[], [], []]
    body = changed(DECLARED["found"][0], lambda tool: tool.name != "crm__say")
    assert body["input"][2]["tools"] == [function("look"), function("old")]


def test_a_tool_that_is_added_stands_among_the_others() -> None:
    request = read(DECLARED["in the input"][0])
    added = [*request.tools, Tool("new", "New.", {"type": "object"})]
    body = openai_responses.encode_request(replace(request, context=replace(request.context, tools=added))).body
    assert [tool["name"] for tool in body["tools"]] == ["new"]
    assert body["input"] == DECLARED["in the input"][0]["input"]


def test_tools_whose_item_is_gone_are_declared_all_the_same() -> None:
    request = read(DECLARED["found"][0])
    shortened = replace(request, context=replace(request.context, messages=[Message("Hi.")]))
    body = openai_responses.encode_request(shortened).body
    assert body["tools"] == [
        function("look"),
        SEARCH,
        space("crm", function("say", defer_loading=True)),
        function("old"),
    ]


def test_tools_of_another_request_keep_their_namespace() -> None:
    tools = read({"tools": [space("a", function("x"), function("y"), description="A."), function("z")]}).tools
    body = openai_responses.encode_request(Request(context=Context(None, [Message("Hi.")], tools))).body
    assert body["tools"] == [space("a", function("x"), function("y"), description="A."), function("z")]


def test_a_tool_of_two_names_is_refused_under_neither() -> None:
    request = read(DECLARED["of one name"][0])
    for target in MANY:
        encoded = dialect(target).encode_request(request)
        back = dialect(target).decode_request(encoded.body, encoded.path)
        assert [part.name for part in parts(back, ToolCall)] == ["a__b__c", "a__b__c_2", "a__b__c_3"]


@pytest.mark.parametrize("target", FOREIGN)
def test_a_history_reaches_every_wire(target: str) -> None:
    request, there = read(HISTORY), dialect(target)
    encoded = there.encode_request(request)
    assert REQUESTS[target](encoded.body) is None
    back = there.decode_request(encoded.body, encoded.path)
    free = target == "openai-chat"
    assert [(part.name, part.raw if free and part.custom else part.arguments) for part in parts(back, ToolCall)] == [
        ("functions__exec", PATCH if free else {"input": PATCH}),
        ("mcp__tiny__look", {"path": "a"}),
        ("patch", PATCH if free else {"input": PATCH}),
    ]
    calls = [part.id for part in parts(back, ToolCall)]
    results = [part.tool_call_id for part in parts(back, ToolResult)]
    assert results == calls
    again = openai_responses.decode_request(openai_responses.encode_request(back).body)
    assert names(again) == ["functions__exec", "mcp__tiny__look", "patch"]
    assert [part.tool_call_id for part in parts(again, ToolResult)] == [part.id for part in parts(again, ToolCall)]


ANSWERS: dict[str, dict[str, Any]] = {
    "a call in a namespace": call("look", "c1", '{"path":"a"}', namespace="crm", id="fc_1", status="completed"),
    "a deferred function": call("look", "c1", '{"path":"a"}', namespace="look", id="fc_1", status="completed"),
    "free text in a namespace": {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "name": "exec",
        "namespace": "functions",
        "call_id": "c1",
        "input": PATCH,
    },
    "a search": {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "c1",
        "execution": "client",
        "arguments": {"query": "x"},
        "status": "completed",
    },
    "a patch": {
        "type": "apply_patch_call",
        "id": "apc_1",
        "call_id": "c1",
        "operation": {"type": "delete_file", "path": "a"},
        "status": "completed",
    },
    "a patch cut off": {
        "type": "apply_patch_call",
        "id": "apc_1",
        "call_id": "c1",
        "operation": {"type": "delete_file", "path": "a"},
        "status": "incomplete",
    },
    "commands": {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "c1",
        "action": {"commands": ["ls"]},
        "environment": {"type": "local"},
        "status": "completed",
    },
}


# A tool without a name is the client's where the client says so: in an answer, nobody has declared it.
NAMED = {
    "a call in a namespace": ["crm__look"],
    "free text in a namespace": ["functions__exec"],
    "a deferred function": ["look"],
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_calls_and_comes_back_plain_and_streamed(case: str) -> None:
    body = {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": [ANSWERS[case]]}
    response = openai_responses.decode_response(body)
    assert openai_responses.encode_response(response).body == body
    assert [one.name for one in response.tool_calls] == NAMED.get(case, [])
    stream = "".join(
        f"data: {json.dumps({'type': kind, **event})}\n\n"
        for kind, event in (
            ("response.created", {"response": {**body, "status": "in_progress", "output": []}}),
            ("response.output_item.added", {"output_index": 0, "item": {**ANSWERS[case], "status": "in_progress"}}),
            ("response.output_item.done", {"output_index": 0, "item": ANSWERS[case]}),
            ("response.completed", {"response": body}),
        )
    )
    for step in (1, 10_000):
        decoder, encoder = openai_responses.decode_stream(), openai_responses.encode_stream()
        data = stream.encode()
        events = [event for at in range(0, len(data), step) for event in decoder.feed(data[at : at + step])]
        events += decoder.close()
        assert accumulate(events) == replace(response, choices=accumulate(events).choices)
        assert accumulate(events).choices == response.choices
        written = b"".join(map(encoder.feed, events)) + encoder.close()
        last = json.loads(written.decode().strip().rpartition("data: ")[2])
        assert (last["type"], last["response"]["output"]) == ("response.completed", [ANSWERS[case]])


def test_a_hosted_shell_is_the_servers() -> None:
    request = read(DECLARED["odd"][0])
    assert [tool.type for tool in request.tools if isinstance(tool, ServerTool)].count("shell") == 1
    assert "h" not in [part.id for part in parts(request, ToolCall)]
    assert "h" not in [part.tool_call_id for part in parts(request, ToolResult)]


def test_results_of_a_client_are_of_the_kind_of_their_call() -> None:
    """What a client of ours ran goes back as this wire wants it, with what cannot be said in it told."""
    answer = [
        {**item, "call_id": kind} for kind, item in ANSWERS.items() if kind in ("a search", "a patch", "commands")
    ]
    [message] = read({"input": answer}).messages
    results = [Message("tool", [ToolResult(part["call_id"], None, "words")]) for part in answer]
    request = Request(model="m", context=Context(None, [Message("Hi."), message, *results]))
    encoded = openai_responses.encode_request(request)
    assert encoded.body["input"][-3:] == [
        {"type": "tool_search_output", "call_id": "a search", "tools": [], "execution": "client"},
        {"type": "apply_patch_call_output", "call_id": "a patch", "output": "words", "status": "completed"},
        {
            "type": "shell_call_output",
            "call_id": "commands",
            "output": [{"stdout": "words", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
    ]
    assert [(loss.path, loss.severity) for loss in encoded.losses if loss.concept == "own_tool"] == [
        ("messages[2].content[0].content", "semantic"),
        ("messages[4].content[0].content", "minor"),
    ]


def test_a_tool_without_a_name_cannot_be_given_another_form() -> None:
    [tool] = read({"tools": [{"type": "apply_patch"}]}).tools
    assert isinstance(tool, Tool)
    other = replace(tool, name="edit", description="New.", parameters={}, strict=True, custom=True)
    encoded = openai_responses.encode_request(Request(context=Context(None, [Message("Hi.")], [other])))
    assert encoded.body["tools"] == [{"type": "apply_patch"}]
    assert [loss.path for loss in encoded.losses] == [
        f"tools[0].{field}" for field in ("description", "parameters", "name", "strict", "custom")
    ]


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses"])
def test_only_servers_that_take_free_text_are_given_it(name: str) -> None:
    body = {
        "tools": [custom("patch")],
        "tool_choice": {"type": "custom", "name": "patch"},
        "input": [words("user", "Hi."), *HISTORY["input"][7:8], result("c3", "patched", "custom_tool_call_output")],
    }
    there = dialect(name, custom_tools=False)
    for request in (read(body), DIALECTS[name].decode_request(DIALECTS[name].encode_request(read(body)).body)):
        encoded = there.encode_request(request)
        assert "custom" not in json.dumps(encoded.body)
        assert REQUESTS[name](encoded.body | {"model": "m"}) is None
        back = there.decode_request(encoded.body, "")
        assert codec.encode_definitions([back.tools[0]], "openai")[0]["function"]["parameters"] == {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
        }
        assert [(part.name, part.arguments, part.id) for part in parts(back, ToolCall)] == [
            ("patch", {"input": PATCH}, "c3")
        ]
        assert [(part.tool_call_id, part.content) for part in parts(back, ToolResult)] == [("c3", "patched")]
        told = [loss for loss in encoded.losses if loss.concept == "custom_tool" and loss.path.endswith("custom")]
        assert [(loss.path.partition("[")[0], loss.severity) for loss in told] == [
            ("tools", "minor"),
            ("messages", "minor"),
        ]


def test_a_made_call_without_a_wire_is_a_function() -> None:
    """A control: only what was declared so is written so."""
    opaque = Opaque("openai-chat", {})
    message = Message("assistant", [ToolCall("c", "apply_patch", {"type": "delete_file", "path": "a"}, opaque=opaque)])
    [item] = openai_responses.encode_request(Request(context=Context(None, [message]))).body["input"][-2:-1]
    assert item["type"] == "function_call"


FIRST, OTHER = function("look", description="The first."), function("look", description="Another.")
FOUND, OTHER_FOUND = function("say", description="The first."), function("say", description="Another.")


def found(call_id: str, *tools: Any) -> list[Any]:
    """Return a search of tools and what it found."""
    about = {"call_id": call_id, "execution": "client", "status": "completed"}
    return [
        {"type": "tool_search_call", "arguments": {"query": "say"}, **about},
        {"type": "tool_search_output", "tools": list(tools), **about},
    ]


# The tools and the input of a request, and the paths of the declarations that contradict an earlier one.
CONTRADICTIONS: dict[str, tuple[list[Any], list[Any], list[str]]] = {
    "no declaration": ([space("a", FIRST)], found("s1", FOUND), []),
    "the same declaration again": ([space("a", FIRST, FIRST)], found("s1", FOUND, FOUND), []),
    "in the tools": ([space("a", FIRST, OTHER)], [], ["opaque.tools"]),
    "in the tools, before a search": ([space("a", FIRST, OTHER)], found("s1", FOUND), ["opaque.tools"]),
    "in the tools, before two searches": (
        [space("a", FIRST, OTHER)],
        [*found("s1", FOUND), *found("s2", FOUND)],
        ["opaque.tools"],
    ),
    "in a search": ([space("a", FIRST)], found("s1", FOUND, OTHER_FOUND), ["messages[2].content[0].opaque.tools"]),
    "in the tools and in a search": (
        [space("a", FIRST, OTHER)],
        found("s1", FOUND, OTHER_FOUND),
        ["messages[2].content[0].opaque.tools", "opaque.tools"],
    ),
    "in a search, before another": (
        [space("a", FIRST)],
        [*found("s1", FOUND, OTHER_FOUND), *found("s2", FOUND)],
        ["messages[2].content[0].opaque.tools"],
    ),
}


@pytest.mark.parametrize("target", FOREIGN)
@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_declaration_that_contradicts_an_earlier_one_is_a_loss(case: str, target: str) -> None:
    tools, searches, paths = CONTRADICTIONS[case]
    body = {"model": "m", "tools": tools, "input": [words("user", "Hi."), *searches]}
    encoded = dialect(target).encode_request(openai_responses.decode_request(body))
    lost = [loss for loss in encoded.losses if loss.concept == "opaque"]
    assert [loss.path for loss in lost if loss.path.endswith("opaque.tools")] == paths
    own = openai_responses.encode_request(openai_responses.decode_request(body))
    assert (differences(body, own.body), own.losses) == ([], ())
