"""Histories from elsewhere in the words of generateContent."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses, unbegun
from toolwire import (
    Audio,
    Cache,
    Citation,
    Document,
    Image,
    Message,
    Opaque,
    Refusal,
    ServerToolCall,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolwire.dialects import gemini
from toolwire.encoding.quirks import Quirks
from toolwire.encoding.repair import NO_RESULT

PNG = "iVBORw0KGgo="
SKIP = "skip_thought_signature_validator"
ELSEWHERE = Opaque("elsewhere", {})


def contents_of(*messages: Any, **fields: Any) -> tuple[list[Any], list[Said]]:
    model = fields.pop("model", "gemini-2.5-flash")
    encoded = gemini.encode_request(replace(asking(list(messages), **fields), model=model))
    lost = unbegun(encoded.body, losses(encoded))
    return encoded.body["contents"], lost


def said(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def call(name: str = "look", call_id: str | None = None, **args: Any) -> dict[str, Any]:
    given = {} if call_id is None else {"id": call_id}
    return {"functionCall": {"name": name, **given, "args": args}}


def result(output: str, call_id: str | None = None, name: str = "look") -> dict[str, Any]:
    given = {} if call_id is None else {"id": call_id}
    return {"functionResponse": {**given, "name": name, "response": {"output": output}}}


ROLES: dict[str, tuple[list[Any], list[Said]]] = {
    "user": ([said("user", "a")], []),
    "assistant": ([said("model", "a")], []),
    "system": ([], []),
    "developer": ([], [("messages[0].role", "merged", "minor")]),
}


@pytest.mark.parametrize("role", ROLES)
def test_roles(role: Any) -> None:
    assert contents_of(Message(role, "a")) == ROLES[role]


def test_the_role_of_a_tool() -> None:
    messages = [
        Message("assistant", [ToolCall("c1", "look", {"a": 1})]),
        Message("tool", [ToolResult("c1", None, "x")]),
    ]
    assert contents_of(*messages) == (
        [said("model", call("look", "c1", a=1)), said("user", result("x", "c1"))],
        [],
    )


SYSTEMS: list[tuple[Any, list[Message], Any]] = [
    ("Be brief.", [], {"parts": [{"text": "Be brief."}]}),
    (None, [Message("system", "a")], {"parts": [{"text": "a"}]}),
    (
        "a",
        [Message("system", "b"), Message("developer", "d"), Message("system", [Text("c"), Text("")])],
        {"parts": [{"text": "a"}, {"text": "b"}, {"text": "d"}, {"text": "c"}]},
    ),
    ([Text("a"), Text("b")], [], {"parts": [{"text": "a"}, {"text": "b"}]}),
    ("", [], None),
    (None, [Message("user", "a"), Message("system", "b")], None),
]


@pytest.mark.parametrize(("system", "messages", "written"), SYSTEMS)
def test_system_messages_that_lead_are_the_system_instruction(system: Any, messages: Any, written: Any) -> None:
    body = gemini.encode_request(asking([*messages, Message("Go.")], system=system)).body
    assert body.get("systemInstruction") == written


REMINDER = "<system-reminder>\nb\n</system-reminder>"
LATE: list[tuple[list[Message], list[Any]]] = [
    ([Message("a"), Message("system", "b")], [said("user", "a", REMINDER)]),
    ([Message("a"), Message("system", "b"), Message("c")], [said("user", "a", REMINDER, "c")]),
    ([Message("a"), Message("developer", "b"), Message("c")], [said("user", "a", REMINDER, "c")]),
    ([Message("developer", "b"), Message("a")], [said("user", "a")]),
    (
        [Message("a"), Message("assistant", "x"), Message("system", "b"), Message("c")],
        [said("user", "a"), said("model", "x"), said("user", REMINDER, "c")],
    ),
]


@pytest.mark.parametrize(("messages", "written"), LATE)
def test_what_is_said_late_stands_where_it_was_said(messages: list[Message], written: list[Any]) -> None:
    assert contents_of(*messages)[0] == written


CALLS = Message("assistant", [ToolCall("c1", "look", {}), ToolCall("c2", "find", {}, 1)])
ONE, TWO = Message("tool", [ToolResult("c1", None, "1")]), Message("tool", [ToolResult("c2", None, "2")])
ASKED = said("model", call("look", "c1"), call("find", "c2"))
ANSWERS = [result("1", "c1"), result("2", "c2", "find")]

TURNS: list[tuple[list[Message], list[Any]]] = [
    ([CALLS, ONE, TWO], [ASKED, said("user", *ANSWERS)]),
    ([CALLS, TWO, ONE], [ASKED, said("user", *ANSWERS)]),
    ([CALLS, ONE, TWO, Message("and?")], [ASKED, said("user", *ANSWERS, "and?")]),
    (
        [CALLS, ONE, TWO, Message("and?"), Message("so?")],
        [ASKED, said("user", *ANSWERS, "and?"), said("user", "so?")],
    ),
    (
        [CALLS, Message("user", [Text("and?"), *ONE.parts, *TWO.parts])],
        [ASKED, said("user", *ANSWERS, "and?")],
    ),
    ([CALLS, ONE, TWO, Message("system", "b")], [ASKED, said("user", *ANSWERS, REMINDER)]),
    (
        [Message("assistant", "a"), CALLS, ONE, TWO],
        [said("model", "a", *ASKED["parts"]), said("user", *ANSWERS)],
    ),
    ([Message("assistant", ""), Message("a")], [said("user", "a")]),
    ([Message("user", "")], [said("user", "(empty)")]),
    ([Message("a"), Message("tool", [])], [said("user", "a")]),
    ([Message("user", [Text(""), Text("a")])], [said("user", "a")]),
]


@pytest.mark.parametrize(("messages", "written"), TURNS)
def test_a_turn_is_one_content(messages: list[Message], written: list[Any]) -> None:
    assert contents_of(*messages)[0] == written


def test_every_call_gets_a_result() -> None:
    written, lost = contents_of(CALLS, ONE, Message("and?"))
    missing = {"functionResponse": {"id": "c2", "name": "find", "response": {"error": NO_RESULT}}}
    assert written == [ASKED, said("user", ANSWERS[0], missing, "and?")]
    assert lost == [("messages[0]", "repaired", "semantic")]


RESULTS: list[tuple[Any, bool, dict[str, Any]]] = [
    ("sunny", False, {"output": "sunny"}),
    ("", False, {"output": ""}),
    ([], False, {"output": ""}),
    ([Text("a"), Text("b")], False, {"output": "a\nb"}),
    ("boom", True, {"error": "boom"}),
    ([Text("boom")], True, {"error": "boom"}),
    ('{"a":[1,2]}', False, {"a": [1, 2]}),
    ('{ "a": 1 }', False, {"output": '{ "a": 1 }'}),
    ('{"error":"x"}', False, {"output": '{"error":"x"}'}),
    ("[1]", False, {"output": "[1]"}),
    ("null", False, {"output": "null"}),
]


@pytest.mark.parametrize(("content", "is_error", "response"), RESULTS)
def test_results(content: Any, is_error: bool, response: dict[str, Any]) -> None:
    answer = Message("tool", [ToolResult("c1", "look", content, is_error)])
    written, _ = contents_of(Message("assistant", [ToolCall("c1", "look")]), answer)
    assert written[1]["parts"][0]["functionResponse"] == {"id": "c1", "name": "look", "response": response}


IMAGE = Image(data=PNG, media_type="image/png")
INLINE = {"inlineData": {"mimeType": "image/png", "data": PNG}}


@pytest.mark.parametrize(("model", "within"), [("gemini-3-pro", True), ("m", True), ("gemini-2.5-pro", False)])
def test_media_in_a_result(model: str, within: bool) -> None:
    calls = Message("assistant", [ToolCall("c1", "look"), ToolCall("c2", "find")])
    first = Message("tool", [ToolResult("c1", None, [Text("see "), IMAGE])])
    request = gemini.encode_request(replace(asking([Message("Hi"), calls, first, TWO, Message("and?")]), model=model))
    answer = result("see " if within else "see \n[image 1 attached below]", "c1")
    if within:
        answer["functionResponse"]["parts"] = [INLINE]
    below = [] if within else [INLINE]
    assert request.body["contents"][2] == said("user", answer, ANSWERS[1], *below, "and?")
    moved = [] if within else [("messages[2].content[0].content[1]", "moved", "minor")]
    assert losses(request) == moved


IDS: list[tuple[str | None, str | None]] = [
    ("call_1", "call_1"),
    ("functions.Bash:0", "functions.Bash:0"),
    ("gemini_1", None),
    ("toolwire_1_0", None),
    (None, None),
]


@pytest.mark.parametrize(("given", "sent"), IDS)
def test_an_id_is_sent_as_it_was_given_and_a_made_one_never(given: str | None, sent: str | None) -> None:
    written, _ = contents_of(
        Message("assistant", [ToolCall(given, "look")]), Message("tool", [ToolResult(given, None, "x")])
    )
    assert written == [said("model", call("look", sent)), said("user", result("x", sent))]


def test_an_id_of_the_wire_that_looks_made_is_echoed() -> None:
    response = gemini.decode_response({"candidates": [{"content": said("model", call("look", "gemini_7"))}]})
    answer = Message("tool", [ToolResult(response.tool_calls[0].id, None, "x")])
    written, _ = contents_of(response.message, answer)
    assert written == [said("model", call("look", "gemini_7")), said("user", result("x", "gemini_7"))]


NAMES = [("srv/list.items", "srv_list.items__tw3-2f"), ("1st", "_st__tw0-31"), ("a.b:c-d_e", "a.b:c-d_e")]


@pytest.mark.parametrize(("name", "written"), NAMES)
def test_names_are_escaped_everywhere_and_read_back(name: str, written: str) -> None:
    history = [Message("assistant", [ToolCall("c", name)]), Message("tool", [ToolResult("c", name, "x")])]
    body = gemini.encode_request(asking([Message("Hi"), *history])).body
    assert body["contents"][1:] == [
        said("model", call(written, "c") | {"thoughtSignature": SKIP}),
        said("user", result("x", "c", written)),
    ]
    request = gemini.decode_request(body)
    assert [part.name for message in request.messages[1:] for part in message.parts] == [name, name]  # type: ignore[union-attr]
    assert gemini.encode_request(request).body == body


NAMES_OF_RESULTS = [
    ("look", None, "look", False),
    ("look", "look", "look", False),
    ("look", "find", "look", True),
    ("srv/look", "srv/look", "srv_look__tw3-2f", False),
    ("srv/look", "look", "srv_look__tw3-2f", True),
]


@pytest.mark.parametrize("content", ["x", [Text("x")]])
@pytest.mark.parametrize(("called", "told", "written", "differs"), NAMES_OF_RESULTS)
def test_a_result_has_the_name_of_its_call(called: str, told: Any, written: str, differs: bool, content: Any) -> None:
    history = [Message("assistant", [ToolCall("c", called)]), Message("tool", [ToolResult("c", told, content)])]
    contents, lost = contents_of(*history)
    assert contents[-1] == said("user", result("x", "c", written))
    assert lost == [("messages[1].content[0].name", "renamed", "minor")] * differs


OTHERS: list[tuple[Any, str, Any, list[Said]]] = [
    (
        Text("a", [Citation("https://x.example")]),
        "assistant",
        {"text": "a"},
        [("citations", "dropped", "semantic")],
    ),
    (Text("a", cache=Cache()), "user", {"text": "a"}, [("cache", "dropped", "formal")]),
    (Refusal("No."), "assistant", {"text": "No."}, [("", "approximated", "minor")]),
    (Thinking("Hm."), "assistant", {"text": "Hm.", "thought": True}, [("text", "approximated", "minor")]),
    (
        Thinking("Hm.", "s", opaque=ELSEWHERE),
        "assistant",
        {"text": "Hm.", "thought": True},
        [("signature", "dropped", "minor"), ("text", "approximated", "minor")],
    ),
    (Thinking("", "s", redacted=True, opaque=ELSEWHERE), "assistant", None, [("", "dropped", "semantic")]),
    (
        Thinking("", "s", opaque=ELSEWHERE),
        "assistant",
        None,
        [("signature", "dropped", "semantic"), ("", "dropped", "minor")],
    ),
    (Thinking("Hm."), "user", None, [("", "dropped", "semantic")]),
    (ServerToolCall("s", "search"), "assistant", None, [("", "dropped", "semantic")]),
    (
        Opaque("elsewhere", {"a": 1}),
        "user",
        None,
        [("opaque.a", "dropped", "formal"), ("", "dropped", "semantic")],
    ),
    (Opaque("gemini", {"unheard": 1}), "user", {"unheard": 1}, []),
    (ToolCall("c", "f"), "user", None, [("", "dropped", "semantic")]),
    (Image(data="aG\nk="), "user", {"inlineData": {"data": "aGk=", "mimeType": "image/png"}}, []),
    (
        Image("https://x.example/a.JPG?b", detail="low"),
        "user",
        {"fileData": {"fileUri": "https://x.example/a.JPG?b", "mimeType": "image/jpeg"}},
        [("detail", "dropped", "minor"), ("url", "approximated", "minor")],
    ),
    (
        Image(data=PNG, media_type="image/jpg; name=a"),
        "user",
        {"inlineData": {"data": PNG, "mimeType": "image/jpeg"}},
        [],
    ),
    (Image("gs://b/a"), "user", {"fileData": {"fileUri": "gs://b/a", "mimeType": "image/png"}}, []),
    (Image(file_id="f"), "user", None, [("file_id", "dropped", "minor"), ("", "dropped", "semantic")]),
    (
        Document(data="YQ", media_type="text/html", name="a"),
        "user",
        {"inlineData": {"data": "YQ", "mimeType": "text/html", "displayName": "a"}},
        [],
    ),
    (Document(text="a"), "user", {"text": "a"}, [("text", "approximated", "minor")]),
    (
        Document(data="YQ", url="https://x.example/a"),
        "user",
        {"inlineData": {"data": "YQ", "mimeType": "application/pdf"}},
        [("url", "dropped", "minor")],
    ),
    (
        Audio("YQ", transcript="a"),
        "user",
        {"inlineData": {"data": "YQ", "mimeType": "audio/wav"}},
        [("transcript", "dropped", "minor")],
    ),
]


@pytest.mark.parametrize(("part", "role", "body", "lost"), OTHERS)
def test_parts(part: Any, role: Any, body: Any, lost: list[Said]) -> None:
    written, found = contents_of(Message(role, [Text("."), part]))
    assert written == [said("model" if role == "assistant" else "user", ".", *([] if body is None else [body]))]
    place = "messages[0].content[1]"
    assert found == [(f"{place}.{path}" if path else place, action, severity) for path, action, severity in lost]


ARGUMENTS: list[tuple[ToolCall, dict[str, Any], list[Said]]] = [
    (ToolCall.parse("c", "f", '{"b": 1, "a": 2}'), {"b": 1, "a": 2}, []),
    (ToolCall.parse("c", "f", ""), {}, []),
    (ToolCall.parse("c", "f", '{"a": '), {}, [("raw", "dropped", "semantic")]),
    (
        ToolCall("c", "f", raw="SELECT 1", custom=True),
        {"input": "SELECT 1"},
        [("custom", "approximated", "minor")],
    ),
    (ToolCall("c", "f", {"a": 1}, complete=False), {"a": 1}, [("complete", "dropped", "semantic")]),
]


@pytest.mark.parametrize(("made", "args", "lost"), ARGUMENTS)
def test_arguments(made: ToolCall, args: dict[str, Any], lost: list[Said]) -> None:
    written, found = contents_of(Message("assistant", [made]), Message("tool", [ToolResult("c", None, "x")]))
    assert written[0] == said("model", {"functionCall": {"name": "f", "id": "c", "args": args}})
    assert found == [(f"messages[0].content[0].{path}", *rest) for path, *rest in lost]


@pytest.mark.parametrize(
    ("model", "allowed", "skips"),
    [
        ("gemini-3-pro-preview", True, True),
        ("models/gemini-4-argon", True, True),
        ("gemini-3-pro-preview", False, False),
        ("gemini-2.5-pro", True, False),
        ("gemini-2.0-flash-001", True, False),
        ("gemini-flash-latest", True, True),
        ("gemini-next", True, True),
        ("m", True, True),
        ("m", False, False),
    ],
)
def test_the_first_call_of_a_step_from_elsewhere_excuses_itself(model: str, allowed: bool, skips: bool) -> None:
    step = [CALLS, ONE, TWO]
    request = replace(asking([Message("a"), *step, *step, Message("b"), *step]), model=model)
    written = gemini.encode_request(request, Quirks(skip_signature=allowed)).body["contents"]
    signatures = [
        [part.get("thoughtSignature") for part in content["parts"]] for content in written if content["role"] == "model"
    ]
    assert signatures == [[SKIP if skips else None, None]] * 3


def test_a_signature_of_its_own_is_not_excused() -> None:
    signed = said("model", {**call("look", "c1"), "thoughtSignature": "a+/="}, call("look", "c2"), call("look", "c3"))
    response = gemini.decode_response({"candidates": [{"content": signed}]})
    answers = [Message("tool", [ToolResult(made.id, None, "x")]) for made in response.tool_calls]
    written, _ = contents_of(Message("a"), response.message, *answers, model="gemini-3-pro")
    assert written[1] == signed


def test_a_message_from_elsewhere_with_calls_of_its_own() -> None:
    response = gemini.decode_response({"candidates": [{"content": said("model", call("look", "c1"))}]})
    rebuilt = Message("assistant", response.parts, name="me")
    written, lost = contents_of(rebuilt, ONE, model="gemini-3-pro")
    assert written[0] == said("model", {**call("look", "c1"), "thoughtSignature": SKIP})
    assert lost == [("messages[0].name", "dropped", "semantic")]
