"""Raw completions: a conversation goes up as the text of a format, and its calls come back as native ones."""

import json
import random
from typing import Any

import pytest

from tests.client.faces import FACES, lead
from tests.text.offers import cuts
from toolwire import (
    Context,
    ErrorEnd,
    Message,
    Provider,
    Request,
    Response,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    accumulate,
    dialect,
    events_of,
    text,
    tool,
    translate,
)
from toolwire.errors import InvalidField
from toolwire.gateway.text_format import dialect_wrapper
from toolwire.wire.transport import HttpRequest

WEATHER = Tool("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})
TOKYO = ToolCall(None, "get_weather", {"city": "Tokyo"})
PATHS = ("/v1/completions", "/completion")
FORMATS = ("hermes", "qwen3-coder", "llama3-json", "mistral", "harmony", "kimi-k2", "tagged")
HISTORY = [
    Message("How is Tokyo?"),
    Message("assistant", [Text("I look."), ToolCall("c1", "get_weather", {"city": "Tokyo"})]),
    Message("tool", [ToolResult("c1", "get_weather", "25 degrees")]),
]


def request(**fields: Any) -> Request:
    return Request(context=Context("Be brief.", HISTORY, [WEATHER]), model="m", **fields)


def said(name: str) -> str:
    return text.format(name).encode_call(TOKYO, [WEATHER]).text


def body_of(path: str, words: str, *, cut: bool = False) -> dict[str, Any]:
    if path == "/completion":
        ending = {"stop_type": "limit" if cut else "eos", "tokens_evaluated": 9, "tokens_predicted": 4}
        return {"content": words, "stop": True, "model": "m", **ending}
    choice = {"text": words, "index": 0, "logprobs": None, "finish_reason": "length" if cut else "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def stream_of(path: str, words: str) -> bytes:
    pieces = [words[place : place + 3] for place in range(0, len(words), 3)]
    whole = body_of(path, "")
    if path == "/completion":
        chunks = [*({"content": piece, "stop": False} for piece in pieces), whole]
        return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    shell = {key: whole[key] for key in ("id", "object", "created", "model")}
    ends: list[Any] = [{"text": piece, "index": 0, "finish_reason": None} for piece in pieces]
    ends.append({"text": "", "index": 0, "finish_reason": "stop"})
    chunks = [*({**shell, "choices": [end]} for end in ends), {**shell, "choices": [], "usage": whole["usage"]}]
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", FORMATS)
def test_the_prompt_is_the_conversation_as_the_format_writes_it(name: str, path: str) -> None:
    encoded = text.completions([WEATHER], format=name, path=path).encode_request(request(max_tokens=5, temperature=0.5))
    written = text.format(name).encode_context(Context("Be brief.", HISTORY, [WEATHER]), ask=True).text
    assert (encoded.path, encoded.body["prompt"]) == (path, written)
    assert encoded.body["n_predict" if path == "/completion" else "max_tokens"] == 5
    assert (encoded.body["temperature"], encoded.body["model"]) == (0.5, "m")
    assert not {"messages", "tools", "max_completion_tokens"} & encoded.body.keys()
    assert "tools" in {loss.path for loss in encoded.losses}


def test_a_model_is_told_to_stop_where_its_turn_ends() -> None:
    def stops(name: str, **fields: Any) -> Any:
        return text.completions(format=name).encode_request(request(**fields)).body.get("stop")

    assert stops("hermes") == ["<|im_end|>"]
    assert stops("hermes", stop=["X"]) == ["X", "<|im_end|>"]
    assert stops("glm45") == ["<|user|>"]
    assert (stops("harmony"), stops("mistral"), stops("tagged")) == (None, None, None)


@pytest.mark.parametrize("path", PATHS)
def test_what_a_completion_has_no_place_for_is_lost_by_name(path: str) -> None:
    asked = request(effort="high", metadata={"a": "b"}, tool_choice=ToolChoice("required"), parallel_tool_calls=False)
    encoded = text.completions([WEATHER], format="hermes", path=path).encode_request(asked)
    lost = {loss.path for loss in encoded.losses}
    assert {"effort", "metadata", "tool_choice", "parallel_tool_calls"} <= lost
    none = text.completions([WEATHER], format="hermes").encode_request(request(tool_choice=ToolChoice("none")))
    assert "# Tools" not in none.body["prompt"]
    assert '"parameters"' not in none.body["prompt"]


@pytest.mark.sampled
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", FORMATS)
def test_calls_are_read_from_answers_and_streams_however_they_are_cut(name: str, path: str) -> None:
    wire = text.completions([WEATHER], format=name, path=path)
    whole = wire.decode_response(body_of(path, said(name)))
    assert [(call.name, call.arguments) for call in whole.tool_calls] == [("get_weather", {"city": "Tokyo"})]
    assert (whole.finish_reason, whole.model) == ("tool_calls", "m")
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (9, 4)  # type: ignore[union-attr]
    data = stream_of(path, said(name))
    chance = random.Random(1)  # noqa: S311 - the same every time
    for pieces in ([data], [data[place : place + 1] for place in range(len(data))], list(cuts(data.decode(), chance))):
        decoder = wire.decode_stream()
        given = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
        events = [event for piece in given for event in decoder.feed(piece)]
        read = accumulate([*events, *decoder.close()])
        assert [(call.name, call.arguments) for call in read.tool_calls] == [("get_weather", {"city": "Tokyo"})]
        assert (read.finish_reason, read.usage, decoder.done) == ("tool_calls", whole.usage, True)


@pytest.mark.parametrize("path", PATHS)
def test_a_cut_or_broken_answer_calls_nothing(path: str) -> None:
    wire = text.completions([WEATHER], format="hermes", path=path)
    half = said("hermes")[:-20]
    response = wire.decode_response(body_of(path, half, cut=True))
    assert (response.tool_calls, response.finish_reason) == ([], "length")
    data = stream_of(path, said("hermes"))
    decoder = wire.decode_stream()
    read = accumulate([*decoder.feed(data[: len(data) // 3]), *decoder.close()])
    assert (read.tool_calls, read.finish_reason) == ([], "incomplete")
    failing = wire.decode_stream()
    told = [*failing.feed(b'data: {"error": {"message": "no", "code": 500}}\n\n'), *failing.close()]
    assert [event.error.message for event in told if isinstance(event, ErrorEnd)] == ["no"]


@pytest.mark.parametrize("path", PATHS)
def test_what_was_read_is_written_as_it_was(path: str) -> None:
    wire = text.completions(format="hermes", path=path)
    size = "n_predict" if path == "/completion" else "max_tokens"
    body = {"prompt": "<|im_start|>user\nHi", "model": "m", size: 5, "stream": True, "stop": ["x"]}
    assert wire.encode_request(wire.decode_request(body)).body == body
    response = Response.of(Message("assistant", [Text("So:"), TOKYO]), "tool_calls", id="r1", model="m")
    again = wire.decode_response(wire.encode_response(response).body)
    assert [call.arguments for call in again.tool_calls] == [{"city": "Tokyo"}]
    encoder = wire.encode_stream()
    data = b"".join(map(encoder.feed, events_of(response))) + encoder.close()
    decoder = wire.decode_stream()
    read = accumulate([*decoder.feed(data), *decoder.close()])
    assert ([call.arguments for call in read.tool_calls], (read.content or "").strip()) == ([{"city": "Tokyo"}], "So:")


class Served:
    """A server of completions without a network: it gives its answers one after the other."""

    status, headers = 200, {"content-type": "application/json"}

    def __init__(self, path: str, answers: list[str]) -> None:
        self.path, self.answers = path, answers
        self.requests: list[HttpRequest] = []
        self._left: list[bytes] = []

    def send(self, request: HttpRequest, timeouts: Any, stop: Any = None) -> "Served":
        del timeouts, stop
        self.requests.append(request)
        words = self.answers[len(self.requests) - 1]
        streamed = json.loads(request.body).get("stream")
        data = stream_of(self.path, words) if streamed else json.dumps(body_of(self.path, words)).encode()
        self._left = [data]
        return self

    async def asend(self, request: HttpRequest, timeouts: Any, stop: Any = None) -> "Served":
        return self.send(request, timeouts, stop)

    def read(self) -> bytes:
        return self._left.pop() if self._left else b""

    async def aread(self) -> bytes:
        return self.read()


RUN: list[str] = []


@tool
def get_weather(city: str) -> str:
    """Tell the weather."""
    RUN.append(city)
    return f"25 degrees in {city}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("face", FACES)
def test_a_client_leads_a_conversation_over_completions(face: Any, path: str) -> None:
    RUN.clear()
    served = Served(path, [said("hermes"), "It is 25 degrees."])
    options = {"format": "hermes", "completions": path, "transport": served}
    done = lead(face, "llama.cpp", "http://127.0.0.1:9", "Weather?", tools=[get_weather], options=options).done
    assert (RUN, done.content) == (["Tokyo"], "It is 25 degrees.")
    assert [each.url for each in served.requests] == [f"http://127.0.0.1:9{path}"] * 2
    first, last = (json.loads(each.body)["prompt"] for each in served.requests)
    assert last.startswith(first.removesuffix("<|im_start|>assistant\n"))
    assert "25 degrees in Tokyo" in last


@pytest.mark.parametrize("source", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
def test_any_wire_is_taken_to_completions_and_back(source: str) -> None:
    provider = Provider(
        name="raw", dialect="openai-chat", base_url="http://127.0.0.1:9", format="hermes", completions="/v1/completions"
    )
    here = dialect(source)
    encoded = here.encode_request(request(max_tokens=9, stream=False))
    own = {"grammar": "root ::= x"} if source == "openai-chat" else {}
    exchange = translate.exchange(
        {**encoded.body, **own}, source=source, target=provider, path=encoded.path, over=dialect_wrapper(provider, "")
    )
    assert exchange.encoded.body["prompt"].endswith("<|im_start|>assistant\n")
    assert exchange.encoded.body.get("grammar") == ("root ::= x" if source == "openai-chat" else None)
    back = here.decode_response(exchange.response(body_of("/v1/completions", said("hermes"))).body)
    assert [call.arguments for call in back.tool_calls] == [{"city": "Tokyo"}]


@pytest.mark.parametrize(
    ("options", "wrong"), [({}, "format must name"), ({"format": "hermes"}, "completions must be")]
)
def test_completions_need_a_format_and_a_known_path(options: dict[str, str], wrong: str) -> None:
    path = "/v1/nothing" if options else "/completion"
    with pytest.raises(InvalidField, match=wrong):
        lead("sync", "openai", "http://127.0.0.1:9", "?", options={**options, "completions": path})
