"""What an answer may say of its calls and of its counts, as the rows of the reliability list type it: on every wire."""

from typing import Any

import msgspec
import pytest

from toolwire import Message, Response, ToolCall, accumulate, dialect, translate
from toolwire.dialects import NAMES
from toolwire.streams.accumulation import events_of
from toolwire.types import Usage

CALLS: list[Any] = ["Hm.", ToolCall("ID_A", "f", {"x": 1}), ToolCall("ID_B", "g", {"y": 2})]
ASKS = Response.of(Message("assistant", CALLS), "tool_calls", id="r", model="m")
SAYS = Response.of(Message("assistant", "Hi"), "stop", id="r", model="m", usage=Usage(5, 2))
LONG = 1 << 20
# Where a wire counts what it was given.
COUNTS = {
    "openai-chat": ("usage", "prompt_tokens"),
    "openai-responses": ("usage", "input_tokens"),
    "anthropic": ("usage", "input_tokens"),
    "gemini": ("usageMetadata", "promptTokenCount"),
    "ollama": ("", "prompt_eval_count"),
}


def streamed(name: str, response: Response) -> bytes:
    encoder = dialect(name).encode_stream()
    return b"".join(map(encoder.feed, events_of(response))) + encoder.close()


def told(name: str, data: bytes, *, shown: bool) -> Response:
    """Read an answer, as a stream or whole."""
    if not shown:
        return dialect(name).decode_response(msgspec.json.decode(data))
    decoder = dialect(name).decode_stream()
    return accumulate(decoder.feed(data) + decoder.close())


@pytest.mark.row("F10")
@pytest.mark.parametrize("shown", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("ids", [("", ""), ("a" * LONG, "b" * LONG), ("a", "a")], ids=["empty", "long", "one"])
@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_whole_whatever_its_id_says(name: str, ids: tuple[str, str], shown: bool) -> None:
    data = streamed(name, ASKS) if shown else dialect(name).encode_response(ASKS).json
    for placeholder, one in zip((b"ID_A", b"ID_B"), ids, strict=True):
        data = data.replace(placeholder, one.encode())
    message = told(name, data, shown=shown).message
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    if name == "openai-chat" and shown and ids == ("a", "a"):  # an id that goes on at another index is one call
        assert (calls, [call.error for call in message.broken_calls]) == ([], ["it was named both 'f' and 'g'"])
        return
    assert calls == [("f", {"x": 1}), ("g", {"y": 2})]
    assert all(call.id == one for call, one in zip(message.tool_calls, ids, strict=True) if one)


@pytest.mark.row("F18")
@pytest.mark.parametrize("shown", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("value", [..., -5, 1.5, 2**70, "7", None, True, [], {}], ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_what_counts_no_tokens_is_no_count(name: str, value: Any, shown: bool) -> None:
    place, key = COUNTS[name]
    wire, body = dialect(name), dialect(name).encode_response(SAYS).body
    inner = body[place] if place else body
    del inner[key]
    if value is not ...:
        inner[key] = value
    assert wire.encode_response(wire.decode_response(body)).body == body
    data = msgspec.json.encode(body)
    if shown:
        written, spelled = streamed(name, SAYS), b'"%b":5' % key.encode()
        assert written.count(spelled) >= 1
        said = b'"k":0' if value is ... else b'"%b":%b' % (key.encode(), msgspec.json.encode(value))
        data = written.replace(spelled, said)
    usage = told(name, data, shown=shown).usage
    assert usage is None or usage.input_tokens is None
    assert usage is None or usage.total_tokens in (0, 2)


SPOILED = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80")


@pytest.mark.row("F15")
@pytest.mark.parametrize("odd", SPOILED, ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_bytes_that_are_no_text_are_signs_in_words_and_run_no_call(name: str, odd: bytes) -> None:
    asks = [ToolCall("a", "f", {"x": "SPOT_B"}), ToolCall("b", "g", {"y": 2})]
    response = Response.of(Message("assistant", ["Hm SPOT_A.", *asks]), "tool_calls", id="r", model="m")
    data = streamed(name, response)
    words = told(name, data.replace(b"SPOT_A", odd), shown=True).message
    assert "\ufffd" in words.text
    assert [call.name for call in words.tool_calls] == ["f", "g"]
    called = told(name, data.replace(b"SPOT_B", odd), shown=True).message
    assert [call.name for call in called.tool_calls] == ["g"]
    assert [call.name for call in called.broken_calls] == ["f"]
    nul = told(name, data.replace(b"SPOT_A", b"\\u0000"), shown=True).message
    assert nul.text == "Hm \0."


ARGUMENTS = (
    *(
        '{"x":1}',
        '{"x":1,"x":2}',
        '{"a":{"x":1,"\\u0078":2}}',
        "",
        " ",
        "{}",
        "[]",
        '"{}"',
        "{} {}",
        '{"x":1}y',
        '{"x":1,}',
    ),
    *("{'x':1}", '{"x":NaN}', '{"x":1e999}', '{"x":-0}', '{"x":9007199254740993}', '{"x":%s}' % ("9" * 5000)),
    *('{"x":"\\ud800"}', '{"x":"\\u0000"}', '{"x":', '{"x":%s}' % ("[" * 2000 + "]" * 2000), '\ufeff{"x":1}'),
)


@pytest.mark.row("G12")
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("given", ARGUMENTS, ids=lambda text: repr(text)[:20])
def test_what_runs_for_a_client_of_any_wire_is_what_runs_here(given: str, target: str) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": given}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = {"id": "r", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    here = [(one.name, one.arguments) for one in dialect("openai-chat").decode_response(body).message.tool_calls]
    there = translate.response(body, "openai-chat", target).json
    assert [(one.name, one.arguments) for one in told(target, there, shown=False).message.tool_calls] == here
