"""Deferred tools: held back until they are named, and searched by toolwire for models of other wires."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

from toolwire import (
    LossyTranslation,
    Message,
    Part,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    accumulate,
    dialect,
    events_of,
    translate,
)
from toolwire.dialects import NAMES
from toolwire.gateway.prefix_cache import PrefixCache
from toolwire.translation.exchange import Exchange
from toolwire.translation.exchange_answer import ExchangedStream

Body = dict[str, Any]
SOURCES = ("anthropic", "openai-responses")
PAIRS = [(source, target) for source in SOURCES for target in NAMES if source != target]
STREAMED = pytest.mark.parametrize("streamed", [False, True])
WORD = "zanzibar"  # a word of the schemas of deferred tools, and of nothing else
CITY = {"type": "object", "properties": {"city": {"type": "string", "description": WORD}}, "required": ["city"]}
HISTORY = {"anthropic": "messages", "openai-responses": "input"}


def deferred(source: str, name: str, words: str, **more: Any) -> Body:
    if source == "anthropic":
        return {"name": name, "description": words, "input_schema": CITY, "defer_loading": True, **more}
    return {"type": "function", "name": name, "description": words, "parameters": CITY, "strict": False,
            "defer_loading": True, **more}  # fmt: skip


def plain(source: str, name: str) -> Body:
    tool = deferred(source, name, "Ping a server.")
    del tool["defer_loading"]
    tool["input_schema" if source == "anthropic" else "parameters"] = {"type": "object", "properties": {}}
    return tool


SEARCHES: dict[str, Body] = {
    "anthropic": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "openai-responses": {"type": "tool_search"},
}


def request(source: str, count: int = 100, *, streamed: bool = False, search: bool = True) -> Body:
    tools = [
        *([SEARCHES[source]] if search else []),
        plain(source, "ping"),
        *(deferred(source, f"tool_{number}", f"Does the job number {number}.") for number in range(count - 1)),
        deferred(source, "get_weather", "The weather in a city."),
    ]
    user = {"role": "user", "content": "How is the weather in Oslo?"}
    settings: Body = {"max_tokens": 99} if source == "anthropic" else {}
    return {"model": "m", **settings, HISTORY[source]: [user], "tools": tools, "stream": streamed}


def sent(body: Body, source: str, target: str, **more: Any) -> Exchange:
    return translate.exchange(body, source=source, target=target, **{"tool_search": True, "cache": False, **more})


def names_in(body: Body) -> list[str]:
    """The names of the functions of a request, in order."""
    tools: list[Any] = body.get("tools", [])
    if tools and "functionDeclarations" in tools[0]:
        tools = tools[0]["functionDeclarations"]
    return [tool.get("function", tool)["name"] for tool in tools]


def answer(exchange: Exchange, parts: Sequence[Part], finish: str = "tool_calls") -> tuple[bytes, Response]:
    """Give an answer of the target: its bytes, plain or streamed, and what they were made of."""
    response = Response.of(Message("assistant", list(parts)), finish)  # type: ignore[arg-type]
    response = Response(choices=response.choices, model="m", id="r_1", usage=Usage(input_tokens=10, output_tokens=5))
    if not exchange.streams:
        return exchange.target.encode_response(response).json, response
    encoder = exchange.target.encode_stream()
    return b"".join(map(encoder.feed, events_of(response))) + encoder.close(), response


class Client:
    """A client's side of one answer."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.stream: ExchangedStream | None = exchange.stream() if exchange.streams else None
        self.data = b""

    def take(self, *parts: Part, finish: str = "tool_calls", size: int = 0) -> None:
        """Take an answer of the model."""
        data, _ = answer(self.exchange, parts, finish)
        if self.stream is None:
            self.data = self.exchange.response(data).json
            return
        for start in range(0, len(data), size or len(data)):
            self.data += self.stream.feed(data[start : start + (size or len(data))])
        self.data += self.stream.close()

    @property
    def response(self) -> Response:
        wire = self.exchange.source
        if self.stream is None:
            return wire.decode_response(json.loads(self.data))
        decoder = wire.decode_stream()
        return accumulate([*decoder.feed(self.data), *decoder.close()])

    def next_body(self, body: Body, **results: str) -> Body:
        """Give the client's next request, with the results of its calls."""
        source, parts = self.exchange.source, self.response.parts
        encoded = source.encode_response(self.response).body
        said = encoded.get("output") or [{"role": "assistant", "content": encoded["content"]}]
        calls = [part for part in parts if isinstance(part, ToolCall)]
        given: list[Any] = []
        for call in calls:
            text = results[call.name]
            if source.DIALECT == "anthropic":
                block = {"type": "tool_result", "tool_use_id": call.id, "content": text}
                given.append({"role": "user", "content": [block]})
            else:
                given.append({"type": "function_call_output", "call_id": call.id, "output": text})
        key = HISTORY[source.DIALECT]
        return {**body, key: [*body[key], *said, *given]}


def search(query: str = "weather of cities", identity: str = "call_s1") -> ToolCall:
    return ToolCall(identity, "tool_search", {"query": query})


def weather(identity: str = "call_w1") -> ToolCall:
    return ToolCall(identity, "get_weather", {"city": "Oslo"})


@STREAMED
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_model_of_another_wire_finds_calls_and_gets_the_result(source: str, target: str, *, streamed: bool) -> None:
    body = request(source, streamed=streamed)
    exchange = sent(body, source, target)
    first = exchange.encoded
    assert WORD not in first.json.decode()
    assert names_in(first.body) == ["tool_search", "ping"]
    held = [loss for loss in first.losses if loss.action == "deferred"]
    assert len(held) == len(exchange.deferred) == 100
    assert {loss.severity for loss in held} == {"formal"}
    assert [tool.name for tool in exchange.search_tools("the weather of a city")] == ["get_weather"]
    client = Client(exchange)
    client.take(Text("I look."), search())
    asked = exchange.follow_up
    assert asked is not None
    assert names_in(asked.body) == ["tool_search", "ping", "get_weather"]
    assert WORD in asked.json.decode()
    client.take(weather())
    assert exchange.follow_up is None
    response = client.response
    kinds = [type(part).__name__ for part in response.parts if not isinstance(part, Text)]
    assert kinds == ["ServerToolCall", "ServerToolResult", "ToolCall"]
    assert response.tool_calls == response.message.tool_calls
    assert [(call.name, call.plain_arguments) for call in response.tool_calls] == [("get_weather", {"city": "Oslo"})]
    assert response.finish_reason == "tool_calls"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (20, 10)
    later = sent(client.next_body(body, get_weather="sunny"), source, target)
    assert names_in(later.encoded.body) == names_in(asked.body)
    assert "sunny" in later.encoded.json.decode()
    assert [loss for loss in later.encoded.losses if loss.severity == "semantic"] == []
    assert_continues(asked.body, later.encoded.body)


def assert_continues(before: Body, after: Body) -> None:
    """Check that a later request begins with the earlier one, as far as a model reads it."""
    for key in ("messages", "contents", "input"):
        if key in before:
            assert after[key][: len(before[key])] == before[key]
            assert len(after[key]) > len(before[key])


@STREAMED
@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("size", [1, 7])
def test_a_stream_may_be_cut_anywhere(source: str, target: str, size: int, *, streamed: bool) -> None:
    if not streamed:
        size = 0
    whole, cut = (Client(sent(request(source, 5, streamed=streamed), source, target)) for _ in range(2))
    for client, each in ((whole, 0), (cut, size)):
        client.take(Text("I look."), search(), size=each)
        client.take(search("job", "call_s2"), size=each)
        client.take(Text("Now."), weather(), size=each)
    assert whole.response == cut.response
    assert sum(type(part).__name__ == "ServerToolCall" for part in cut.response.parts) == 2


@STREAMED
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_search_beside_a_call_of_the_client_ends_the_answer(source: str, target: str, *, streamed: bool) -> None:
    body = request(source, 5, streamed=streamed)
    client = Client(sent(body, source, target))
    client.take(ToolCall("call_p", "ping", {}), search())
    assert client.exchange.follow_up is None
    assert [call.name for call in client.response.tool_calls] == ["ping"]
    later = sent(client.next_body(body, ping="pong"), source, target)
    assert names_in(later.encoded.body) == ["tool_search", "ping", "get_weather"]
    assert "pong" in later.encoded.json.decode()
    assert [loss for loss in later.encoded.losses if loss.severity == "semantic"] == []


@STREAMED
@pytest.mark.parametrize("source", SOURCES)
def test_what_a_search_cannot_answer(source: str, *, streamed: bool) -> None:
    client = Client(sent(request(source, 5, streamed=streamed), source, "openai-chat"))
    client.take(ToolCall("call_1", "tool_search", {"words": "x"}))
    assert client.exchange.follow_up is not None
    assert "query is missing" in client.exchange.follow_up.json.decode()
    client.take(search("nothing has this word xyzzy", "call_2"))
    assert "No other tool fits" in client.exchange.follow_up.json.decode()
    client.take(Text("I cannot."), finish="stop")
    assert client.exchange.follow_up is None
    assert client.response.content == "I cannot."
    assert client.response.finish_reason == "stop"


@STREAMED
@pytest.mark.parametrize("source", SOURCES)
def test_searches_end(source: str, *, streamed: bool) -> None:
    client = Client(sent(request(source, 5, streamed=streamed), source, "openai-chat"))
    asked = 0
    while asked == 0 or client.exchange.follow_up is not None:
        client.take(search(identity=f"call_{asked}"))
        asked += 1
        assert asked < 20
    assert client.response.finish_reason == "stop"
    assert client.response.tool_calls == []


@STREAMED
@pytest.mark.parametrize("source", SOURCES)
def test_an_answer_that_is_cut_is_not_continued(source: str, *, streamed: bool) -> None:
    client = Client(sent(request(source, 5, streamed=streamed), source, "openai-chat"))
    client.take(search(), finish="length")
    assert client.exchange.follow_up is None
    assert client.response.finish_reason == "length"


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_without_an_answerer_the_search_is_lost_and_tools_are_still_held_back(source: str, target: str) -> None:
    exchange = sent(request(source, 5), source, target, tool_search=False)
    assert names_in(exchange.encoded.body) == ["ping"]
    [loss] = [loss for loss in exchange.encoded.losses if loss.severity == "semantic"]
    assert loss.path == "tools[0]"
    with pytest.raises(LossyTranslation):
        sent(request(source, 5), source, target, tool_search=False, strict=True)
    assert len(exchange.deferred) == 5


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_strict_refuses_no_deferral(source: str, target: str) -> None:
    assert names_in(sent(request(source, 5), source, target, strict=True).encoded.body) == ["tool_search", "ping"]


@pytest.mark.parametrize("source", SOURCES)
def test_only_an_exchange_holds_tools_back(source: str) -> None:
    names = ["ping", *(f"tool_{number}" for number in range(4)), "get_weather"]
    assert names_in(translate.request(request(source, 5), source, "openai-chat").body) == names
    wire = dialect(source)
    assert names_in(dialect("openai-chat").encode_request(wire.decode_request(request(source, 5))).body) == names


@pytest.mark.parametrize("source", SOURCES)
def test_one_wire_gets_the_same_bytes(source: str) -> None:
    body = request(source, 5)
    exchange = sent(body, source, source)
    assert exchange.encoded.body == body
    assert exchange.deferred == []
    assert exchange.follow_up is None


@pytest.mark.parametrize("target", [name for name in NAMES if name != "anthropic"])
def test_a_reference_of_the_clients_own_search_names_a_tool(target: str) -> None:
    body = request("anthropic", 5, search=False)
    body["tools"].append({"name": "ToolSearch", "input_schema": {"type": "object", "properties": {}}})
    found = {"type": "tool_reference", "tool_name": "tool_2"}
    body["messages"] += [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t_1", "name": "ToolSearch", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t_1", "content": [found]}]},
    ]
    exchange = sent(body, "anthropic", target)
    assert names_in(exchange.encoded.body) == ["ping", "ToolSearch", "tool_2"]
    assert len(exchange.deferred) == 4


@pytest.mark.parametrize("target", [name for name in NAMES if name != "openai-responses"])
def test_tools_that_a_client_of_responses_has_found_are_sent(target: str) -> None:
    body = request("openai-responses", 5, search=False)
    body["tools"].append({"type": "tool_search", "execution": "client"})
    late = deferred("openai-responses", "late", "Comes late.")
    inner = {"type": "namespace", "name": "crm", "description": "CRM", "tools": [{**late, "name": "list"}]}
    body["input"] += [
        {"type": "tool_search_call", "call_id": "c_1", "execution": "client", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": "c_1", "execution": "client", "tools": [late, inner]},
        {"role": "user", "content": "Go on."},
    ]
    exchange = sent(body, "openai-responses", target)
    assert names_in(exchange.encoded.body) == ["ping", "tool_search", "late", "crm__list"]
    assert [loss for loss in exchange.encoded.losses if loss.severity == "semantic"] == []


def test_a_namespace_is_shown_as_the_client_declared_it() -> None:
    body = request("openai-responses", 5)
    inner = {**deferred("openai-responses", "orders", "Lists the orders of a customer."), "defer_loading": True}
    body["tools"].append({"type": "namespace", "name": "crm", "description": "CRM", "tools": [inner]})
    client = Client(sent(body, "openai-responses", "openai-chat"))
    client.take(search("orders"))
    client.take(ToolCall("call_2", "crm__orders", {"city": "Oslo"}))
    output = json.loads(client.data)["output"]
    assert [item["type"] for item in output] == ["tool_search_call", "tool_search_output", "function_call"]
    assert output[1]["tools"] == [{"type": "namespace", "name": "crm", "description": "CRM", "tools": [inner]}]
    assert (output[2]["name"], output[2]["namespace"]) == ("orders", "crm")
    later = sent(client.next_body(body, crm__orders="none"), "openai-responses", "openai-chat")
    assert names_in(later.encoded.body) == ["tool_search", "ping", "crm__orders"]


@pytest.mark.parametrize("source", SOURCES)
def test_a_called_or_a_forced_tool_is_sent(source: str) -> None:
    body = request(source, 5)
    forced: Any = (
        {"type": "tool", "name": "tool_1"} if source == "anthropic" else {"type": "function", "name": "tool_1"}
    )
    assert names_in(sent({**body, "tool_choice": forced}, source, "openai-chat").encoded.body)[-1] == "tool_1"
    call: Any = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "tool_3", "input": {}}]}
    result: Any = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
    if source == "openai-responses":
        call = {"type": "function_call", "call_id": "t", "name": "tool_3", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": "t", "output": "x"}
    body[HISTORY[source]] += [call, result]
    assert names_in(sent({**body, "tool_choice": forced}, source, "openai-chat").encoded.body)[-2:] == [
        "tool_3",
        "tool_1",
    ]


def test_a_forced_search_is_forced_once() -> None:
    body = {**request("anthropic", 5), "tool_choice": {"type": "tool", "name": "tool_search_tool_bm25"}}
    client = Client(sent(body, "anthropic", "openai-chat"))
    assert client.exchange.encoded.body["tool_choice"] == {"type": "function", "function": {"name": "tool_search"}}
    client.take(search())
    assert client.exchange.follow_up is not None
    assert "tool_choice" not in client.exchange.follow_up.body


def test_the_name_of_the_function_is_free() -> None:
    body = request("anthropic", 5)
    body["tools"].append(plain("anthropic", "tool_search"))
    exchange = sent(body, "anthropic", "openai-chat")
    assert names_in(exchange.encoded.body) == ["tool_search_2", "ping", "tool_search"]


def test_losses_keep_the_places_of_the_client() -> None:
    body = request("anthropic", 5)
    body["tools"].append({**plain("anthropic", "last"), "odd": 1})
    client = Client(sent(body, "anthropic", "openai-chat"))
    client.take(search())
    client.take(weather())
    later = client.next_body(body, get_weather="sunny")
    later["messages"][-1]["content"].append({"type": "text", "text": "Go.", "odd": 2})
    losses = sent(later, "anthropic", "openai-chat").encoded.losses
    paths = [loss.path for loss in losses if loss.action != "deferred"]
    assert f"tools[{len(body['tools']) - 1}].opaque.odd" in paths
    assert any(path.startswith(f"messages[{len(later['messages']) - 1}]") for path in paths)


@STREAMED
@pytest.mark.parametrize("target", ["openai-responses", "gemini"])
def test_thinking_of_a_search_goes_back_to_its_provider(target: str, *, streamed: bool) -> None:
    body = request("anthropic", 5, streamed=streamed)
    client = Client(sent(body, "anthropic", target))
    thought = Thinking("Hm.", "c2lnbmF0dXJl", opaque=dialect(target).WIRE.mark({}))  # type: ignore[attr-defined]
    client.take(thought, search())
    client.take(Thinking("So.", "c2Vjb25k", opaque=thought.opaque), weather())
    later = sent(client.next_body(body, get_weather="sunny"), "anthropic", target)
    updates = dict(client.exchange.memory_updates)
    assert set(updates) <= set(later.memory_keys)
    later.use_memory(updates)
    text = later.encoded.json.decode()
    assert ("c2lnbmF0dXJl" in text, "c2Vjb25k" in text) == (True, True)


@pytest.mark.parametrize("source", SOURCES)
def test_the_bytes_before_grow_at_their_end(source: str) -> None:
    body, bodies = request(source, 20), list[Body]()
    for number in range(4):
        client = Client(sent(body, source, "openai-chat"))
        bodies.append(client.exchange.encoded.body)
        client.take(search(f"job number {number}", f"call_s{number}"))
        assert client.exchange.follow_up is not None
        bodies.append(client.exchange.follow_up.body)
        name = names_in(bodies[-1])[-1]
        client.take(ToolCall(f"call_{number}", name, {"city": "Oslo"}))
        body = client.next_body(body, **{name: "done"})
    for before, after in itertools.pairwise(bodies):
        assert names_in(after)[: len(names_in(before))] == names_in(before)
        assert after["messages"][: len(before["messages"])] == before["messages"]


def test_results_are_linked_to_the_ids_of_their_calls() -> None:
    for identity in ("functions.tool_search:0", "call_1", "x" * 300, "ü"):
        body = request("anthropic", 5)
        client = Client(sent(body, "anthropic", "openai-chat"))
        client.take(search(identity=identity))
        client.take(weather())
        messages = sent(client.next_body(body, get_weather="x"), "anthropic", "openai-chat").encoded.body["messages"]
        [call] = messages[1]["tool_calls"]
        assert messages[2]["tool_call_id"] == call["id"]
        blocks = json.loads(client.data)["content"]
        assert blocks[0]["id"] == blocks[1]["tool_use_id"]
        assert blocks[0]["id"].startswith("srvtoolu_")
        assert blocks[0]["id"].removeprefix("srvtoolu_").isidentifier()


def test_a_result_of_a_tool_is_no_search() -> None:
    body = request("anthropic", 5, search=False)
    body["messages"] += [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ping", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": '{"tools":["tool_1"]}'}]},
    ]
    assert names_in(sent(body, "anthropic", "openai-chat").encoded.body) == ["ping"]
    assert isinstance(dialect("anthropic").decode_request(body).messages[-1].parts[0], ToolResult)


@pytest.mark.parametrize("target", [name for name in NAMES if name != "openai-responses"])
def test_a_cached_translation_sends_the_same_tools(target: str) -> None:
    body = request("openai-responses", 3, search=False)
    late = deferred("openai-responses", "late", "Comes late.")
    found = [
        {"type": "tool_search_call", "call_id": "c_1", "execution": "client", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": "c_1", "execution": "client", "tools": [late]},
    ]
    usual = {**body, "tools": body["tools"][:1]}
    turns: list[Body] = [
        usual,
        {**usual, "input": [*usual["input"], *found]},
        {**usual, "input": [*usual["input"], *found, {"role": "user", "content": "Go on."}]},
        body,
        {**body, "input": [*body["input"], *found]},
    ]
    held = PrefixCache(1 << 22).of("")
    for turn in turns:
        given: Any = {"source": "openai-responses", "target": target, "tool_search": True}
        data = json.dumps(turn).encode()
        cached = translate.exchange(data, translation_cache=held, **given)
        plain_exchange = translate.exchange(data, **given)
        assert cached.encoded.json == plain_exchange.encoded.json
        assert set(cached.encoded.losses) == set(plain_exchange.encoded.losses)
