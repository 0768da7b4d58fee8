"""A dialect over a dialect: any wire, to a model that writes its calls in its text."""

import json
from typing import Any

import pytest

from tests.text.offers import TOOLS, cuts
from toolwire import (
    Context,
    Document,
    Message,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
    accumulate,
    dialect,
    events_of,
)
from toolwire.dialects import NAMES
from toolwire.text import format, over

FORMATS = ["hermes", "qwen3-coder", "mistral", "harmony", "llama3-json", "tagged"]
CALL = ToolCall(None, "f", {"s": "x"})


def answer(name: str, wire: str, words: str = "Sure.", reason: Any = "stop") -> tuple[dict[str, Any], bytes]:
    """Let a model answer in text, on a wire: as a body, and as a stream."""
    before = f"<|channel|>final<|message|>{words}<|end|><|start|>assistant" if name == "harmony" else f"{words}\n"
    text = before + format(name).encode_call(CALL, TOOLS).text
    response = Response.of(Message("assistant", text), reason, id="r1", model="m")
    encoder = dialect(wire).encode_stream()
    data = b"".join(map(encoder.feed, events_of(response))) + encoder.close()
    return dialect(wire).encode_response(response).body, data


@pytest.mark.sampled
@pytest.mark.parametrize("wire", NAMES)
@pytest.mark.parametrize("name", FORMATS)
def test_calls_are_read_from_responses_and_streams(name: str, wire: str) -> None:
    body, data = answer(name, wire)
    for native in (False, True):
        response = over(wire, TOOLS, format=name, native=native).decode_response(body)
        assert [(call.name, call.arguments) for call in response.tool_calls] == [("f", {"s": "x"})]
        assert ((response.content or "").strip(), response.finish_reason) == ("Sure.", "tool_calls")
        for pieces in ([data], [data[place : place + 7] for place in range(0, len(data), 7)]):
            decoder = over(wire, TOOLS, format=name, native=native).decode_stream()
            events = [event for piece in pieces for event in decoder.feed(piece)]
            streamed = accumulate([*events, *decoder.close()])
            assert [(call.name, call.arguments) for call in streamed.tool_calls] == [("f", {"s": "x"})]
            assert (streamed.content or "").strip() == "Sure."
            assert streamed.finish_reason == "tool_calls"


@pytest.mark.parametrize("wire", NAMES)
def test_words_alone_come_as_the_wire_itself_gives_them(wire: str) -> None:
    body = dialect(wire).encode_response(Response.of(Message("assistant", "Just words."), "stop", id="r1")).body
    assert over(wire, TOOLS, format="hermes").decode_response(body) == dialect(wire).decode_response(body)


@pytest.mark.parametrize("wire", NAMES)
def test_a_request_tells_tools_calls_and_results_in_text(wire: str) -> None:
    history = [
        Message("user", "Hi"),
        Message("assistant", [Text("Sure."), ToolCall("c1", "f", {"s": "x"})]),
        Message("tool", [ToolResult("c1", "f", "7")]),
    ]
    request = Request(context=Context(system="Be kind.", messages=history, tools=TOOLS), model="m", max_tokens=100)
    encoded = over(wire, TOOLS, format="hermes").encode_request(request)
    text = json.dumps(encoded.body, ensure_ascii=False)
    assert "tools" not in encoded.body
    assert "Be kind." in text
    assert '<tool_call>\\n{\\"name\\": \\"f\\", \\"arguments\\": {\\"s\\": \\"x\\"}}' in text
    assert "<tool_response>\\n7\\n</tool_response>" in text
    assert {"tools"} <= {loss.concept for loss in encoded.losses}
    native = over(wire, TOOLS, format="hermes", native=True).encode_request(request)
    assert native == dialect(wire).encode_request(request)


@pytest.mark.sampled
@pytest.mark.parametrize("wire", NAMES)
@pytest.mark.parametrize("name", FORMATS[:5])
def test_no_words_of_others_are_a_call_in_a_request(name: str, wire: str) -> None:
    block = format(name).encode_call(CALL, TOOLS).text
    history = [Message("user", [Text(block), Document(text=block)]), Message("tool", [ToolResult("c", "f", block)])]
    request = Request(context=Context(system=block, messages=[*history, Message(block)]), model="m", max_tokens=9)
    body = over(wire, TOOLS, format=name).encode_request(request).body
    texts = [text for text in strings(body) if text]
    assert any("\\" in text for text in texts)
    for text in texts:
        assert format(name).decode(text, TOOLS).tool_calls == [], text


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in strings(each)]


@pytest.mark.parametrize("wire", NAMES)
def test_an_answer_is_written_with_its_calls_in_its_text(wire: str) -> None:
    response = Response.of(
        Message("assistant", [Text("Sure."), ToolCall("c1", "f", {"s": "x"})]), "tool_calls", id="r1", model="m"
    )
    each = over(wire, TOOLS, format="hermes")
    body = each.encode_response(response).body
    assert [call.name for call in each.decode_response(body).tool_calls] == ["f"]
    assert dialect(wire).decode_response(body).tool_calls == []
    encoder = each.encode_stream()
    data = b"".join(map(encoder.feed, events_of(response))) + encoder.close()
    decoder = each.decode_stream()
    assert [call.name for call in accumulate([*decoder.feed(data), *decoder.close()]).tool_calls] == ["f"]


@pytest.mark.parametrize("wire", NAMES)
def test_a_quotation_and_a_cut_answer_call_nothing(wire: str) -> None:
    body, data = answer("hermes", wire)
    block = format("hermes").encode_call(CALL).text
    assert over(wire, TOOLS, format="hermes", given=[f"> {block}"]).decode_response(body).tool_calls == []
    decoder = over(wire, TOOLS, format="hermes").decode_stream()
    response = accumulate([*decoder.feed(data[: data.index(b"arguments")]), *decoder.close()])
    assert [call for call in response.tool_calls if call.runs] == []


def test_pieces_are_those_of_a_text() -> None:
    import random

    assert "".join(cuts("abc", random.Random(1))) == "abc"  # noqa: S311
