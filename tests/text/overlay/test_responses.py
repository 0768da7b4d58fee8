"""Responses over a wire whose model calls in its text: read, written, and written again as they were."""

import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from tests.test_accounting import RESPONSE, unaccounted
from tests.text.tagged.texts import BLOCK, SPOOFS, TOOLS, spoof, written
from tests.wires import differences, responses_of
from toolwire import Message, Response, Text, Thinking, ToolCall, dialect
from toolwire.dialects import NAMES
from toolwire.text_tagged import over

FOO = {"path": "/etc/passwd"}
BODIES: dict[str, Any] = {
    "openai-chat": lambda text: {
        "id": "r1",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
    },
    "openai-responses": lambda text: {
        "id": "r1",
        "model": "m",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
            }
        ],
    },
    "anthropic": lambda text: {
        "id": "r1",
        "model": "m",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "First."}, {"type": "text", "text": text}],
        "stop_reason": "end_turn",
    },
    "gemini": lambda text: {
        "responseId": "r1",
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"text": text, "thoughtSignature": "c2ln"}, {"text": "Last."}],
                },
                "finishReason": "STOP",
            }
        ],
    },
    "ollama": lambda text: {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": text, "thinking": "Hm."},
        "done": True,
        "done_reason": "stop",
    },
}
TEXTS = [
    BLOCK,
    f"Sure.\n\n{BLOCK}\n\nDone.\n",
    f"{BLOCK}\n{BLOCK}\n",
    f"\n\n{BLOCK}\n \n",
    "~~~tool_call\n{\n~~~\nOh.",
    f"```\n{BLOCK}\n```\n{BLOCK}",
    f"{BLOCK}\n~~~tool_call\n{{",
    f"{BLOCK.replace('read_file', 'rm')}\n{BLOCK}\nx",
    "Hello.",
    "",
]


@pytest.mark.sampled
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", NAMES)
def test_what_was_read_is_written_as_it_was(name: str, text: str) -> None:
    body, wire = BODIES[name](text), over(name, TOOLS)
    encoded = wire.encode_response(wire.decode_response(body))
    assert (differences(body, encoded.body), encoded.losses) == ([], ())


@pytest.mark.parametrize("name", NAMES)
def test_written_texts_come_back(name: str, tally: Counter[str]) -> None:
    chance, wire = random.Random(name), over(name, TOOLS)  # noqa: S311 - the same every time
    for _ in range(60):
        case = written(chance)
        body = BODIES[name](case.text)
        read = wire.decode_response(body)
        assert [(call.name, call.arguments) for call in read.tool_calls] == [each[1:] for each in case.calls]
        assert "~~~tool_call\n" not in (read.content or "")
        encoded = wire.encode_response(read)
        assert (differences(body, encoded.body), encoded.losses) == ([], ())
        tally["responses with calls in text, written as they were"] += 1


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_that_calls_says_so(name: str) -> None:
    wire = over(name, TOOLS)
    read = wire.decode_response(BODIES[name](f"Sure.\n{BLOCK}"))
    assert (read.finish_reason, [call.arguments for call in read.tool_calls]) == ("tool_calls", [FOO])
    assert "Sure." in (read.content or "")
    assert wire.decode_response(BODIES[name](f"Sure.\n> {BLOCK}")).finish_reason == "stop"
    assert wire.decode_response(BODIES[name]("~~~tool_call\n{\n~~~")).finish_reason == "tool_calls"
    assert wire.decode_response(BODIES[name]("~~~tool_call\n{")).finish_reason == "stop"


@pytest.mark.parametrize("name", NAMES)
def test_one_value_that_changes_changes_one_place(name: str) -> None:
    wire, text = over(name, TOOLS), f"Sure.\n{BLOCK}\n\nDone."
    read = wire.decode_response(BODIES[name](text))
    [choice] = read.choices
    parts = [replace(part, arguments={"path": "b"}) if part is read.tool_calls[0] else part for part in read.parts]
    changed = replace(read, choices=[replace(choice, message=replace(choice.message, content=parts))])
    found = differences(BODIES[name](text), wire.encode_response(changed).body)
    assert len(found) == 1
    read = wire.decode_response(wire.encode_response(changed).body)
    assert [call.arguments for call in read.tool_calls] == [{"path": "b"}]
    assert "Done." in (read.content or "")


@pytest.mark.parametrize("name", NAMES)
def test_calls_survive_the_way_there_and_back(name: str) -> None:
    wire = over(name, TOOLS)
    calls = [ToolCall("c1", "read_file", FOO), ToolCall("c2", "search", {"q": f"x\n{BLOCK}"}, 1)]
    for words in (
        "Sure.",
        "Sure.\n",
        "```python\nx",
        "<think>\nhm",
        "<!-- a",
        f"Like:\n{BLOCK}",
        "~~~tool_call",
        "",
    ):
        parts: list[Any] = [Text(words), *calls, Text("Done.")] if words else calls
        encoded = wire.encode_response(Response.of(Message("assistant", parts), "tool_calls", model="m"))
        read = wire.decode_response(encoded.body)
        assert (read.tool_calls, read.broken_calls, read.finish_reason) == (calls, [], "tool_calls")
        marked = "~~~tool_call" in words or words[:1] in {"`", "<"}
        assert any(loss.concept == "quoted_fence" for loss in encoded.losses) is marked


@pytest.mark.parametrize("name", NAMES)
def test_words_that_were_no_call_are_none_when_they_are_read_again(name: str) -> None:
    chance, wire = random.Random(name), over(name)  # noqa: S311 - the same every time
    for kind in SPOOFS:
        text = spoof(kind, chance)
        encoded = wire.encode_response(Response.of(Message("assistant", text), "stop", model="m"))
        read = wire.decode_response(encoded.body)
        assert (read.tool_calls, read.broken_calls) == ([], [])
    alone: list[Any] = [Text(BLOCK)]
    for content in (BLOCK, alone):
        encoded = wire.encode_response(Response.of(Message("assistant", content), "stop", model="m"))
        assert wire.decode_response(encoded.body).content == f"\\{BLOCK}"


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_cannot_be_run_never_becomes_one_that_can(name: str) -> None:
    wire = over(name, TOOLS)
    broken = [
        ToolCall.parse("c", "read_file", "{"),
        ToolCall("c", "read_file", complete=False, raw="{}", error="cut off"),
        ToolCall("c", "read_file", raw='{"path": "a"}', error="no"),
    ]
    for call in broken:
        encoded = wire.encode_response(Response.of(Message("assistant", [call]), "tool_calls", model="m"))
        assert wire.decode_response(encoded.body).tool_calls == []
    for text in (
        "~~~tool_call\n{\n~~~",
        BLOCK.replace("read_file", "rm"),
        "~~~tool_call\n{",
        BLOCK + "\n~~~tool_call",
    ):
        read = wire.decode_response(BODIES[name](text))
        runs = len(read.tool_calls)
        for other in NAMES:
            body = dialect(other).encode_response(read).body
            assert len(dialect(other).decode_response(body).tool_calls) == runs


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_those_of_the_answer(name: str) -> None:
    wire = over(name, TOOLS)
    body = BODIES[name](f"{BLOCK}\n{BLOCK}")
    ids = [call.id for call in wire.decode_response(body).tool_calls]
    assert ids == [call.id for call in wire.decode_response(body).tool_calls]
    assert len(set(ids)) == 2
    later = {**body, "id": "r2", "responseId": "r2", "created_at": "2026-01-01T00:00:01Z"}
    assert not set(ids) & {call.id for call in wire.decode_response(later).tool_calls}


NATIVE = {
    "model": "m",
    "message": {
        "role": "assistant",
        "content": f"So:\n{BLOCK}\n",
        "tool_calls": [{"function": {"name": "search", "arguments": {"q": "x"}}}],
    },
    "done": True,
    "done_reason": "stop",
}


@pytest.mark.row("R004-17", "I3")
def test_a_native_answer_falls_back_only_without_calls_of_its_own() -> None:
    wire = over("ollama", TOOLS, native=True)
    read = wire.decode_response(NATIVE)
    assert [call.name for call in read.tool_calls] == ["search"]
    assert read.content == f"So:\n{BLOCK}\n"
    fenced = {**NATIVE, "message": {"role": "assistant", "content": f"So:\n{BLOCK}\nDone."}}
    read = wire.decode_response(fenced)
    assert [call.name for call in read.tool_calls] == ["read_file"]
    assert (read.content, read.finish_reason) == ("So:\nDone.", "tool_calls")
    assert type(read.parts[-1]) is ToolCall


def test_calls_of_the_wires_own_are_calls_beside_those_in_the_text() -> None:
    wire = over("ollama", TOOLS)
    read = wire.decode_response(NATIVE)
    assert [(call.name, call.index) for call in read.tool_calls] == [("read_file", 0), ("search", 0)]
    assert len({call.id for call in read.tool_calls}) == 2
    assert wire.encode_response(read).body == NATIVE


def test_without_offered_tools_a_text_is_a_text() -> None:
    wire, body = over("ollama", []), BODIES["ollama"](BLOCK)
    assert wire.decode_response(body) == dialect("ollama").decode_response(body)
    assert wire.encode_response(wire.decode_response(body)).body == body


def test_what_was_thought_stays_what_it_was() -> None:
    read = over("ollama", TOOLS).decode_response(BODIES["ollama"](BLOCK))
    assert [type(part) for part in read.parts] == [Thinking, ToolCall]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_a_response_is_accounted_for(name: str) -> None:
    assert unaccounted(RESPONSE, over(name).encode_response) == []


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_response_comes_back(name: str, corpus: Any) -> None:
    assert corpus
    wire, seen = over(name), 0
    for recording, body in responses_of(name):
        encoded = wire.encode_response(wire.decode_response(body))
        assert (differences(body, encoded.body), encoded.losses) == ([], ()), recording.name
        seen += 1
    assert seen > 0
