"""Five roles and five kinds of parts, in the words of each wire."""

from typing import Any

import pytest

from tests.dialects.asking import asking
from toolwire import Context, Message, Opaque, Text, Thinking, ToolCall, ToolResult, accumulate, dialect
from toolwire.errors import MissingFields

NAMES = ("openai-chat", "anthropic", "gemini", "openai-responses")
CALL = ToolCall("call_1", "search", {"q": "hello"})


def body(name: str, messages: list[Any], **fields: Any) -> dict[str, Any]:
    """Give the body of a request."""
    return dialect(name).encode_request(asking(messages, **fields)).body


def said(name: str, messages: list[Any]) -> list[dict[str, Any]]:
    """Give the messages of a request, whatever the wire calls them."""
    written = body(name, messages)
    return next(written[key] for key in ("messages", "contents", "input") if key in written)


RESULT = Message("tool", "found", "search", "call_1")
CALLED = ["Search.", Message("assistant", [CALL])]
ROLES: dict[str, tuple[list[Any], int, dict[str, Any]]] = {
    "user": (
        [Message("user", "Hi")],
        0,
        {
            "openai-chat": {"role": "user", "content": "Hi"},
            "anthropic": {"role": "user", "content": "Hi"},
            "gemini": {"role": "user", "parts": [{"text": "Hi"}]},
            "openai-responses": {"type": "message", "role": "user", "content": "Hi"},
        },
    ),
    "assistant": (
        ["Hi", Message("assistant", "Hello."), "Go on"],
        1,
        {
            "openai-chat": {"role": "assistant", "content": "Hello."},
            "anthropic": {"role": "assistant", "content": "Hello."},
            "gemini": {"role": "model", "parts": [{"text": "Hello."}]},
            "openai-responses": {"type": "message", "role": "assistant", "content": "Hello."},
        },
    ),
    "tool": (
        [*CALLED, RESULT],
        2,
        {
            "openai-chat": {"role": "tool", "tool_call_id": "call_1", "content": "found"},
            "anthropic": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "found"}],
            },
            "gemini": {
                "role": "user",
                "parts": [{"functionResponse": {"id": "call_1", "name": "search", "response": {"output": "found"}}}],
            },
            "openai-responses": {"type": "function_call_output", "call_id": "call_1", "output": "found"},
        },
    ),
    "a call": (
        [*CALLED, RESULT],
        1,
        {
            "openai-chat": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "search", "arguments": '{"q":"hello"}'},
                    }
                ],
            },
            "anthropic": {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "call_1", "name": "search", "input": {"q": "hello"}}],
            },
            "gemini": {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"id": "call_1", "name": "search", "args": {"q": "hello"}},
                        "thoughtSignature": "skip_thought_signature_validator",
                    }
                ],
            },
            "openai-responses": {
                "type": "function_call",
                "name": "search",
                "arguments": '{"q":"hello"}',
                "call_id": "call_1",
            },
        },
    ),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.row(
    "R003-11", "R003-12", "R003-13", "R003-30", "R003-31", "R003-48", "R003-50", "R003-52", "R003-54", "I-05"
)
def test_a_role_in_the_words_of_each_wire(role: str, name: str) -> None:
    messages, place, wires = ROLES[role]
    written = {"content": None} | said(name, messages)[place] if role == "a call" else said(name, messages)[place]
    assert written == ({"content": None} | wires[name] if role == "a call" else wires[name])


SYSTEMS: dict[str, Any] = {
    "openai-chat": lambda made: made["messages"][0] == {"role": "system", "content": "Be brief."},
    "anthropic": lambda made: made["system"] == "Be brief.",
    "gemini": lambda made: made["systemInstruction"] == {"parts": [{"text": "Be brief."}]},
    "openai-responses": lambda made: made["instructions"] == "Be brief.",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("R003-14", "R003-19", "R003-51")
def test_the_system_prompt_has_its_place_however_it_is_given(name: str) -> None:
    """Gemini's system is no turn of the model."""
    option = body(name, ["Hi"], system="Be brief.")
    assert SYSTEMS[name](option)
    assert body(name, [Message("system", "Be brief."), "Hi"]) == option
    assert "model" not in [message.get("role") for message in said(name, ["Hi"])]


DEVELOPER = [Message("developer", "Always respond in JSON format"), Message("user", "What is 2+2?")]


@pytest.mark.row("R003-15", "R003-17")
def test_developer_words_are_merged_into_claudes_system_prompt() -> None:
    made = body("anthropic", DEVELOPER)
    assert made["system"] == "Always respond in JSON format"
    assert made["messages"] == [{"role": "user", "content": "What is 2+2?"}]
    both = body("anthropic", DEVELOPER, system="Be brief.")
    assert [block["text"] for block in both["system"]] == ["Be brief.", "Always respond in JSON format"]


@pytest.mark.row("R003-15", "R003-18", "R003-51")
def test_developer_words_are_messages_elsewhere() -> None:
    words = "Always respond in JSON format"
    assert said("openai-chat", DEVELOPER)[0] == {"role": "developer", "content": words}
    assert said("openai-responses", DEVELOPER)[0] == {
        "type": "message",
        "role": "developer",
        "content": words,
    }


def test_developer_words_that_lead_are_geminis_system_instruction() -> None:
    made = body("gemini", DEVELOPER)
    assert made["systemInstruction"] == {"parts": [{"text": "Always respond in JSON format"}]}
    assert made["contents"] == [{"role": "user", "parts": [{"text": "What is 2+2?"}]}]


@pytest.mark.row("R003-16", "R003-37")
def test_a_tool_message_says_whose_result_it_is() -> None:
    message = Message("tool", "found", CALL.name, CALL.id)
    assert (message.tool_call_id, message.name, message.text) == ("call_1", "search", "found")
    assert message.parts == [ToolResult("call_1", "search", "found")]
    with pytest.raises(MissingFields, match="tool_call_id"):
        Message("tool", "found", "search")


@pytest.mark.row("R003-03", "R003-04", "R003-06", "R003-20")
def test_messages_are_made_as_they_are_said() -> None:
    assert Message.new("Hello") == Message("user", "Hello") == Message("Hello")
    assert Message.new("assistant", "Hi there!").role == "assistant"
    for role in ("system", "developer", "user", "assistant"):
        assert Message(role, "Words").content == "Words"
    given: Any = ["What is Elixir?", Message("assistant", "A language."), "Go on"]
    made = Context.new(system="Be brief.", messages=given, tools=[], provider_state={"previous_response_id": "r"})
    assert [message.role for message in made.messages] == ["user", "assistant", "user"]
    assert made == Context(system="Be brief.", messages=given, tools=[], provider_state=made.provider_state)


PARTS: list[Any] = [Thinking("I search."), Text("Let me check"), CALL]
SIGNED: list[Any] = [Thinking("I search.", "c2ln", opaque=Opaque("anthropic", {})), *PARTS[1:]]


@pytest.mark.row("R003-21", "R003-22", "R003-23", "R003-24", "R003-25")
def test_the_five_kinds_of_parts() -> None:
    signed = SIGNED[0]
    assert isinstance(signed, Thinking)
    assert [type(part).__name__ for part in PARTS] == ["Thinking", "Text", "ToolCall"]
    assert ToolResult("call_1", "search", "found").content == "found"
    assert (signed.text, signed.signature) == ("I search.", "c2ln")
    assert (CALL.id, CALL.name, CALL.arguments) == ("call_1", "search", {"q": "hello"})


@pytest.mark.parametrize("name", [*NAMES, "ollama"])
@pytest.mark.row("R003-26", "R003-27", "R003-30", "R003-49")
def test_parts_come_back_in_their_order(name: str) -> None:
    """A wire without thoughts in requests says so."""
    encoded = dialect(name).encode_request(asking(["Hi", Message("assistant", SIGNED), RESULT]))
    back = dialect(name).decode_request(encoded.body, encoded.path).messages[1].parts
    kept = [type(part).__name__ for part in back]
    lost = [loss.path for loss in encoded.losses if loss.path.startswith("messages[1].content[0]")]
    assert kept == ["Thinking", "Text", "ToolCall"] if "Thinking" in kept else lost and kept == ["Text", "ToolCall"]
    assert back[-1] == CALL
    if name == "anthropic":
        assert encoded.body["messages"][1]["content"] == [
            {"type": "thinking", "thinking": "I search.", "signature": "c2ln"},
            {"type": "text", "text": "Let me check"},
            {"type": "tool_use", "id": "call_1", "name": "search", "input": {"q": "hello"}},
        ]


@pytest.mark.row("R003-28", "R003-31", "R003-53", "R003-54")
def test_parts_are_taken_apart_for_openai() -> None:
    [_, message, _] = said("openai-chat", ["Hi", Message("assistant", PARTS), RESULT])
    assert message["content"] == "Let me check"
    assert [call["id"] for call in message["tool_calls"]] == ["call_1"]
    made = body("openai-responses", ["Hi", Message("assistant", PARTS), RESULT])
    assert "messages" not in made
    kinds = [item["type"] for item in made["input"]]
    assert kinds == ["message", "message", "function_call", "function_call_output"]


def frames(*datas: str) -> bytes:
    return "".join(f"data: {data}\n\n" for data in datas).encode()


FRAGMENTS = (
    '{"choices":[{"delta":{"tool_calls":[{"id":"call_1","function":{"name":"search","arguments":"{\\"q\\":"}}]}}]}',
    '{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"\\"hello\\"}"}}]}}]}',
)
END = ('{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}', "[DONE]")
TWO = tuple(
    '{"choices":[{"delta":{"tool_calls":[{"index":%d,%s"function":{%s"arguments":"%s"}}]}}]}' % row  # noqa: UP031 - braces
    for row in (
        (0, '"id":"call_1",', '"name":"get_weather",', '{\\"city\\":'),
        (1, '"id":"call_2",', '"name":"get_time",', '{\\"timezone\\":'),
        (0, "", "", '\\"NYC\\"}'),
        (1, "", "", '\\"EST\\"}'),
    )
)
THOUGHT = '{"choices":[{"delta":{"role":"assistant","reasoning_content":"I search."}}]}'


def read(data: bytes, size: int) -> list[Any]:
    """Give the events of a stream that comes in pieces of a size."""
    decoder = dialect("openai-chat").decode_stream()
    pieces = [data[place : place + size] for place in range(0, len(data), size)]
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


def calls_of(events: list[Any]) -> list[ToolCall]:
    return [event.call for event in events if type(event).__name__ == "CallEnd"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
@pytest.mark.row("R003-32", "R003-33", "R003-34", "R003-35", "R003-36", "R003-38", "R003-39")
def test_fragments_make_one_whole_call(size: int) -> None:
    """Whatever the pieces, there is no half of a call."""
    events = read(frames(*FRAGMENTS, *END), size)
    [call] = calls_of(events)
    assert (call.id, call.name, call.arguments, call.index, call.complete) == (
        "call_1",
        "search",
        {"q": "hello"},
        0,
        True,
    )
    assert accumulate(events).tool_calls == [call]
    for length in range(len(frames(*FRAGMENTS))):
        cut = dialect("openai-chat").decode_stream()
        told = [*cut.feed(frames(*FRAGMENTS, *END)[:length]), *cut.close()]
        assert not any(one.runs for one in calls_of(told))


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.row("R003-40")
def test_calls_that_interleave_come_apart(size: int) -> None:
    calls = calls_of(read(frames(*TWO, *END), size))
    assert [(call.id, call.name, call.arguments, call.index) for call in calls] == [
        ("call_1", "get_weather", {"city": "NYC"}, 0),
        ("call_2", "get_time", {"timezone": "EST"}, 1),
    ]


@pytest.mark.row("R003-29")
def test_reasoning_content_is_thinking() -> None:
    answer = accumulate(read(frames(THOUGHT, *FRAGMENTS, *END), 10_000))
    assert [type(part).__name__ for part in answer.parts] == ["Thinking", "ToolCall"]
    assert isinstance(answer.parts[0], Thinking)
    assert answer.parts[0].text == "I search."


def gemini_answer(place: int, *calls: dict[str, Any]) -> dict[str, Any]:
    parts = [{"functionCall": {"name": "search", "args": {}, **call}} for call in calls]
    choice = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return {"candidates": [choice], "responseId": f"r{place}"}


@pytest.mark.row("R003-41", "R003-42")
def test_gemini_calls_without_ids_get_some() -> None:
    """Unique in a conversation, and never sent back."""
    answers = [dialect("gemini").decode_response(gemini_answer(place, {}, {}, {"id": "own"})) for place in range(20)]
    ids = [call.id or "" for answer in answers for call in answer.tool_calls if call.id != "own"]
    assert len(set(ids)) == 40
    assert all(one.startswith("gemini_") and one.removeprefix("gemini_").isdigit() for one in ids)
    assert [answer.tool_calls[2].id for answer in answers] == ["own"] * 20
    [first, *_] = answers
    results = [Message("tool", "found", "search", call.id) for call in first.tool_calls]
    written = str(said("gemini", ["Search.", first.message, *results]))
    assert "gemini_" not in written
    assert written.count("'id': 'own'") == 2


IDS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "choices": [
            {"message": {"tool_calls": [{"id": "call_abc123xyz", "function": {"name": "f", "arguments": "{}"}}]}}
        ]
    },
    "anthropic": {"content": [{"type": "tool_use", "id": "toolu_01XYZ789", "name": "f", "input": {}}]},
    "openai-responses": {
        "output": [{"type": "function_call", "call_id": "call_def456", "name": "f", "arguments": "{}"}]
    },
}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.row("R003-32", "R003-41")
def test_ids_of_a_provider_are_kept_as_they_came(name: str) -> None:
    [call] = dialect(name).decode_response(IDS[name]).tool_calls
    assert call.id in ("call_abc123xyz", "toolu_01XYZ789", "call_def456")
    written = said(name, ["Go", Message("assistant", [call]), Message("tool", "done", "f", call.id)])
    assert str(written).count(repr(call.id)) == 2


@pytest.mark.row("R003-51")
def test_gemini_has_two_roles_wherever_a_message_stands() -> None:
    messages = ["Hi", Message("assistant", "Hello."), Message("developer", "Be brief."), "Search.", *CALLED[1:], RESULT]
    made = body("gemini", messages, system="Be kind.")
    assert [content["role"] for content in made["contents"]] == ["user", "model", "user", "model", "user"]
    assert "role" not in made["systemInstruction"]


# The parts of an assistant's message that come back: signed as Claude thinks, and without a signature.
KEPT = {
    "openai-chat": ("Text ToolCall", "Text ToolCall"),
    "openai-responses": ("Text ToolCall", "Text ToolCall"),
    "anthropic": ("Thinking Text ToolCall", "Text ToolCall"),
    "gemini": ("Thinking Text ToolCall", "Thinking Text ToolCall"),
    "ollama": ("Thinking Text ToolCall", "Thinking Text ToolCall"),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.row("R003-26")
def test_what_comes_back_of_a_mixed_message_and_what_is_told_to_be_lost(name: str) -> None:
    for given, kept in zip((SIGNED, PARTS), KEPT[name], strict=True):
        encoded = dialect(name).encode_request(asking(["Hi", Message("assistant", given), RESULT]))
        back = dialect(name).decode_request(encoded.body, encoded.path).messages[1].parts
        assert [type(part).__name__ for part in back] == kept.split()
        dropped = {loss.path.split(".")[1] for loss in encoded.losses if loss.action == "dropped"}
        assert ("content[0]" in dropped) is ("Thinking" not in kept or "signature" in str(encoded.losses))
