"""One wire on both sides: the same bytes up, but for the model's name, and the same bytes down."""

import json
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, There, at, post, standing
from toolwire.config import read_settings
from toolwire.dialects import dialect, traits_of
from toolwire.gateway.passthrough import (
    OtherAnswer,
    with_model,
    with_placeholder_signatures,
    without_displayed_thinking,
)
from toolwire.gateway.routes import providers_of
from toolwire.testing import Raw, Scenario, simulate
from toolwire.types import Thinking, ToolCall
from toolwire.wire.bodies import members_of

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
}
ODD = [
    b'{"model":"%s","messages":[]}',
    b' \n{ "messages" : [ ] ,\t"model" : "%s" , "big": 123456789012345678901234567890, "e": 1.50E+02 }\r\n',
    b'{"mod\\u0065l":"%s","x":{"model":"%s"},"s":"\\u00e4\\/ \xc3\xa4 \\ud83d\\ude00","model ":1,"z":-0.0}',
    b'{"a":"\\"model\\":\\"%s\\"","stream":false,"model":"%s","nested":[[{"model":"%s"}]],"empty":{}}',
    b'{"model":"%s","stream": true ,"unknown":null,"tools":[{"x":"}{][,:"}]}',
]
ANSWERS = {
    "openai-chat": b'{ "id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"h\\u00e4"},"finish_reason":"stop"}], "usage": {"prompt_tokens":3,"completion_tokens":2} ,"odd":1.0}',
    "openai-responses": b'{"id":"resp_1","object":"response","status":"completed", "output":[],"odd":[1.0]}',
    "anthropic": b'{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"\\u00e4"}],'
    b'"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2},"odd" : 1.0}',
    "gemini": b'{"candidates":[{"content":{"role":"model","parts":[{"text":"\\u00e4"}]},"finishReason":"STOP"}] ,'
    b'"o":1.0}',
    "ollama": b'{"model":"m","message":{"role":"assistant","content":"\\u00e4"},"done":true, "done_reason":"stop"}',
}
STREAMS = {
    "openai-chat": b': hello\n\ndata: {"choices":[{"index":0,"delta":{"content":"h\\u00e4"}}]}\r\n\r\n'
    b'data:{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    "openai-responses": b'event: response.created\ndata: {"type":"response.created", "response":{"id":"r"}}\n\n'
    b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"r","status":"completed",'
    b'"output":[]}}\n\n',
    "anthropic": b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","role":"assistant"}}\n\n'
    b'event: ping\ndata: {"type": "ping"}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    "gemini": b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"\\u00e4"}]},'
    b'"finishReason":"STOP"}]}\r\n\r\n',
    "ollama": b'{"message":{"role":"assistant","content":"h\\u00e4"},"done":false}\n'
    b'{"message":{"role":"assistant","content":""}, "done":true,"done_reason":"stop"}\n',
}


@pytest.mark.sampled
@pytest.mark.parametrize("body", ODD)
@pytest.mark.parametrize("wire", PATHS)
def test_a_body_goes_up_as_it_came_but_for_the_name_of_its_model(
    wire: str, body: bytes, lenient_model: Playing
) -> None:
    asked, known = f"{NAMES[wire]}/some.model:x".encode(), b"some.model:x"
    given = body.replace(b"%s", asked)
    with lenient_model(Raw(ANSWERS[wire])) as stood:
        answered = post(stood.url, PATHS[wire], given)
        assert answered.status == 200, answered.data
        places = [place for place in range(len(given)) if given.startswith(b'"' + asked, place)]
        expected = [given[:place] + b'"' + known + given[place + len(asked) + 1 :] for place in places]
        assert stood.requests[0].raw in expected
        assert json.loads(stood.requests[0].raw)["model"] == known.decode()
        assert {**json.loads(stood.requests[0].raw), "model": asked.decode()} == json.loads(given)


def test_a_body_of_gemini_goes_up_untouched_and_its_model_stands_in_the_path(lenient_model: Playing) -> None:
    given = b' { "contents":[{"parts":[{"text":"gemini/gemini-2.5-pro \\u00e4"}]}],"odd": 1.50 }'
    with lenient_model(Raw(ANSWERS["gemini"])) as stood:
        for version in ("v1beta", "v1"):
            answered = post(stood.url, f"/{version}/models/gemini/gemini-2.5-pro:generateContent", given)
            assert answered.data == ANSWERS["gemini"]
        assert [one.raw for one in stood.requests] == [given, given]
        assert {one.path for one in stood.requests} == {"/v1beta/models/gemini-2.5-pro:generateContent"}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_comes_down_as_it_is(wire: str, stream: bool, lenient_model: Playing) -> None:
    data = STREAMS[wire] if stream else ANSWERS[wire]
    kind = "text/event-stream" if stream and wire != "ollama" else "application/json"
    path, body = _asked(wire, stream=stream)
    with lenient_model(Raw(data, content_type=kind)) as stood:
        answered = post(stood.url, path, body)
        assert (answered.status, answered.data, answered.broken) == (200, data, False)
        assert answered.headers["content-type"] == kind
        assert stood.seen[-1]["ending"] == "answer"


@pytest.mark.parametrize("wire", PATHS)
def test_a_type_that_cannot_be_said_again_is_the_usual_one(wire: str, lenient_model: Playing) -> None:
    for data, stream, kind in ((ANSWERS[wire], b"false", "text/plain"), (STREAMS[wire], b"true", "text/html")):
        with lenient_model([]) as stood:
            tools, body = stood.gateway.context, b'{"model":"%s/m","stream":%s}' % (NAMES[wire].encode(), stream)
            before, tools.transport = tools.transport, There(200, {"content-type": f"{kind}; x=\udcff"}, [data])
            try:
                answered = post(stood.url, PATHS[wire], body)
            finally:
                tools.transport = before
            if kind == "text/html":
                assert (answered.status, b"200 (no type), which is no answer" in answered.data) == (502, True)
            else:
                assert (answered.status, answered.data) == (200, data)
                assert answered.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("alias", "wire"), [("openai", "openai-chat"), ("responses", "openai-responses")])
def test_a_dialect_may_be_named_by_its_alias(alias: str, wire: str) -> None:
    with simulate(Raw(ANSWERS[wire]), strict=False) as model:
        said = read_settings(f'[providers.mine]\ndialect = "{alias}"\nbase_url = "{model.url}"\nkey = "$K"')
        with standing(model.url, providers=providers_of(said, {"K": "k"}, {})) as stood:
            answered = post(stood.url, PATHS[wire], b'{ "model":"mine/m" }')
            assert answered.data == ANSWERS[wire]
            assert model.requests[0].raw == b'{ "model":"m" }'
            post(stood.url, "/v1/embeddings", b'{"model":"mine/e","input":"x"}')
            assert model.requests[1].path == "/v1/embeddings"


def test_a_known_name_is_not_written_anew() -> None:
    body = b'{ "model" : "m\\u006fdel", "messages": [] }'
    settings = '[routes."model"]\nto = ["openai/model"]'
    with simulate(Raw(ANSWERS["openai-chat"]), strict=False) as model, standing(model.url, settings) as stood:
        post(stood.url, PATHS["openai-chat"], body)
        assert model.requests[0].raw == body


@pytest.mark.row("O11")
@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"openai/b","x":1,"model":"openai/d"}',
        b'{"model":"openai/a","mod\\u0065l":"openai/b"}',
        b'{"x":1,"model":"openai/a","x":2}',
        b'{"model":"openai/a"} {}',
        b'["model"]',
        b'{"model":7}',
        b"",
        b'{"model":"openai/a"',
        b'\xff{"model":"openai/a"}',
    ],
)
def test_a_body_that_two_readers_understand_in_two_ways_is_refused(body: bytes, lenient_model: Playing) -> None:
    with lenient_model(Scenario([], complete=False)) as stood:
        answered = post(stood.url, PATHS["openai-chat"], body)
        assert answered.status == 400
        assert "error" in json.loads(answered.data)
        assert stood.requests == []


def test_only_the_value_of_the_model_differs() -> None:
    body = b'{"x":"model","model":"a","y":{"model":"a"}}'
    assert with_model(body, members_of(body), 'b"') == b'{"x":"model","model":"b\\"","y":{"model":"a"}}'


def test_a_signature_of_another_provider_is_taken_out_on_the_same_wire() -> None:
    def answer(_request: Any, turn: Any) -> Any:
        signed = {"type": "thinking", "thinking": "hm", "signature": f"c2ln{turn.number}"}
        said = {"id": "m", "type": "message", "role": "assistant", "content": [signed, {"type": "text", "text": "x"}]}
        return Raw(json.dumps({**said, "stop_reason": "end_turn"}).encode())

    with simulate(answer, strict=False) as model:
        other = {"other": at(model.url, "anthropic").with_options(name="other")}
        with standing(model.url, providers=other) as stood:
            asked: dict[str, Any] = {
                "model": "anthropic/m",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "hi"}],
            }
            first = json.loads(post(stood.url, "/v1/messages", json.dumps(asked).encode()).data)
            turn = {"role": "assistant", "content": first["content"]}
            asked["messages"] += [turn, {"role": "user", "content": "on"}]
            for name in ("anthropic", "other"):
                post(stood.url, "/v1/messages", json.dumps({**asked, "model": f"{name}/m"}).encode())
            kept, taken = (one.body["messages"][1]["content"] for one in model.requests[1:])
            assert kept == first["content"]
            assert taken == [{"type": "text", "text": "x"}]


SHOWN = [
    (
        "anthropic",
        (
            b'{ "model" : "m", "messages": [{"role":"user","content":"h\\u00e4"} , {"content":[ {"type":"thinking",'
            b'"thinking":"x","signature":"toolwire:foreign"} , {"type":"text","text":"toolwire:foreign \\u00e4"}],'
            b'"role":"assistant"},{"role":"assistant","content":[{"type":"thinking","thinking":"y","signature":'
            b'"toolwire:foreign"}]} ], "big": 123456789012345678901234567890, "e": 1.50E+02 }'
        ),
        (
            b'{ "model" : "m", "messages": [{"role":"user","content":"h\\u00e4"},{"content":[{"type":"text",'
            b'"text":"toolwire:foreign \\u00e4"}],"role":"assistant"}], '
            b'"big": 123456789012345678901234567890, "e": 1.50E+02 }'
        ),
    ),
    (
        "openai-responses",
        (
            b'{"input":[{"type":"reasoning","id":"rs_0123456789abcdef0123456700","summary":[]},{"type":"reasoning",'
            b'"id":"rs_0123456789abcdef0123456701","summary":[],"encrypted_content":"gAAA"}, {"type":"reasoning",'
            b'"id":"rs_0123456789abcdef0123456789abcdef0123456789abcdef"},{"role":"user","content":'
            b'"\\u00e4 \\"rs_0123456789abcdef0123456700\\""}],"e":1.50}'
        ),
        (
            b'{"input":[{"type":"reasoning","id":"rs_0123456789abcdef0123456701","summary":[],"encrypted_content":"gAAA"},'
            b'{"type":"reasoning","id":"rs_0123456789abcdef0123456789abcdef0123456789abcdef"},{"role":"user","content":'
            b'"\\u00e4 \\"rs_0123456789abcdef0123456700\\""}],"e":1.50}'
        ),
    ),
    ("anthropic", b'{"messages":"toolwire:foreign"}', None),
    (
        "anthropic",
        b'{"messages":[{"role":"user","content":"toolwire:foreign"}, 7, {"content":[7,"toolwire:foreign"]}]}',
        None,
    ),
    (
        "openai-responses",
        b'{"input":"\\"rs_0123456789abcdef0123456700\\"","x":["rs_0123456789abcdef0123456700"]}',
        None,
    ),
]


@pytest.mark.parametrize(("wire", "given", "expected"), SHOWN)
def test_what_was_only_shown_is_taken_out_and_nothing_else(wire: str, given: bytes, expected: bytes | None) -> None:
    assert without_displayed_thinking(traits_of(wire), given, members_of(given)) == (
        given if expected is None else expected
    )


STAND_IN = b',"thoughtSignature":"skip_thought_signature_validator"}'
UNSIGNED = [
    b'{"contents": [{"role":"model","parts":[{"functionCall":{"name":"a"}}#,{"functionCall":{"name":"b"}}]}]}',
    (
        b'{"contents":[{"role":"model","parts":[{"text":"x"},{"functionCall":{"name":"a"}}#]},'
        b'{"role":"model","parts":[{"functionCall":{"name":"b"}}]},{"role":"user","parts":[{"functionResponse":{}}]},'
        b'{"role":"model","parts":[{"functionCall":{"name":"c"},"thoughtSignature":"c2ln"},{"functionCall":{"name":"d"}}]}]}'
    ),
    b'{"contents":[{"role":"user","parts":[{"functionCall":{"name":"a"}}]},{"role":"model","parts":"functionCall"}]}',
    b'{"contents":[{"role":"model","parts":[{"functionCall":{"name":"a"},"thoughtSignature":"c2ln"}]}]}',
    b'{"contents":"\\"functionCall\\""}',
]


@pytest.mark.parametrize("body", UNSIGNED)
def test_a_step_begins_with_a_call_that_is_signed_or_excused(body: bytes) -> None:
    given, expected = body.replace(b"}#", b"}"), body.replace(b"}#", STAND_IN)
    assert with_placeholder_signatures(given, members_of(given)) == expected


@pytest.mark.parametrize("other", ["anthropic/claude-sonnet-4-5", "openai/gpt-5", "ollama/qwen3"])
def test_a_conversation_comes_back_to_a_model_that_signs_its_calls(other: str, strict_model: Playing) -> None:
    turns: list[Any] = [[Thinking("hm"), ToolCall(None, "look", {})] for _ in range(4)]
    tools = [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": TOOL}]}]
    contents: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]
    with strict_model(turns) as stood:
        for model in (other, "gemini/gemini-3-pro", other, "gemini/gemini-3-pro"):
            body = json.dumps({"contents": contents, "tools": tools}).encode()
            answered = post(stood.url, f"/v1beta/models/{model}:generateContent", body)
            assert answered.status == 200, answered
            said = json.loads(answered.data)["candidates"][0]["content"]
            call = next(part["functionCall"] for part in said["parts"] if "functionCall" in part)
            result = {"name": "look", "response": {"ok": 1}, **({"id": call["id"]} if "id" in call else {})}
            contents += [said, {"role": "user", "parts": [{"functionResponse": result}]}]
        sent = [one.raw for one in stood.requests if one.dialect == "gemini"]
        assert [data.count(STAND_IN) for data in sent] == [1, 2]
        assert sent[1].startswith(sent[0].partition(b'], "tools"')[0])


OTHERS: list[tuple[str, str, bytes, tuple[int, int | None, int | None]]] = [
    ("openai-chat", "application/json", b'{"data":[],"usage":{"prompt_tokens":17,"total_tokens":17}}', (0, 17, None)),
    ("openai-chat", "audio/mpeg", b'\n\n{"usage":{"prompt_tokens":17}}\n\n', (0, None, None)),
    (
        "openai-chat",
        "text/event-stream; charset=utf-8",
        (
            b'data: {"choices":[{"text":"a"}]}\n\ndata: {"usage":{"prompt_tokens":3,"completion_tokens":5}}'
            b"\n\ndata: [DONE]\n\n"
        ),
        (12, 3, 5),
    ),
    ("openai-chat", "text/event-stream", b'data: {"choices":[{"text":"usage: \\"data:"}]}\n\n' * 9, (36, None, None)),
    (
        "ollama",
        "application/x-ndjson",
        b'{"response":"a"}\n{"response":"","done":true,"prompt_eval_count":3,"eval_count":5}\n',
        (8, 3, 5),
    ),
    ("ollama", "application/json", b"", (0, None, None)),
]


@pytest.mark.parametrize(("wire", "kind", "data", "expected"), OTHERS)
def test_what_passes_of_older_wires_is_counted(wire: str, kind: str, data: bytes, expected: Any) -> None:
    for size in (1 << 20, 7):
        answer, heard = OtherAnswer(dialect(wire), kind), 0
        for start in range(0, len(data), size):
            heard = answer.feed(data[start : start + size])
        usage = answer.usage
        counts = (None, None) if usage is None else (usage.input_tokens, usage.output_tokens)
        assert counts == expected[1:]
        assert heard == expected[0] or size == 7


TOOL = {"type": "object", "properties": {}}
SENT: dict[str, dict[str, Any]] = {
    "anthropic": {
        "messages": [{"role": "user", "content": "go"}],
        "tools": [{"name": "look", "input_schema": TOOL}],
        "max_tokens": 4000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    },
    "openai-responses": {
        "input": [{"role": "user", "content": "go"}],
        "tools": [{"type": "function", "name": "look", "parameters": TOOL, "strict": False}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    },
}


def _next(wire: str, body: dict[str, Any], answer: dict[str, Any]) -> None:
    """Add an answer to what a client says next, and the result of its call."""
    if wire == "anthropic":
        call = next(block["id"] for block in answer["content"] if block["type"] == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
        body["messages"] += [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": [result]},
        ]
    else:
        call = next(item["call_id"] for item in answer["output"] if item["type"] == "function_call")
        body["input"] += [*answer["output"], {"type": "function_call_output", "call_id": call, "output": "ok"}]


@pytest.mark.parametrize("other", ["gemini/gemini-2.5-pro", "openai/gpt-5", "ollama/qwen3"])
@pytest.mark.parametrize(
    ("wire", "own"), [("anthropic", "anthropic/claude-sonnet-4-5"), ("openai-responses", "openai-responses/gpt-5")]
)
def test_a_conversation_comes_back_from_the_model_of_another_wire(
    wire: str, own: str, other: str, strict_model: Playing
) -> None:
    turns: list[Any] = [[Thinking(f"thought {number}"), ToolCall(None, "look", {})] for number in range(5)]
    body = json.loads(json.dumps(SENT[wire]))
    with strict_model(turns) as stood:
        for model in (other, own, own, other, own):
            answered = post(stood.url, PATHS[wire], json.dumps({"model": model, **body}).encode())
            assert answered.status == 200, answered
            _next(wire, body, json.loads(answered.data))
        sent = [one.raw for one in stood.requests if one.dialect == wire]
        assert [data.count(b"thought ") for data in sent] == [0, 1, 2], "its own thoughts come back, and no others"
        assert b"toolwire:foreign" not in b"".join(sent)


def _asked(wire: str, *, stream: bool) -> tuple[str, bytes]:
    if wire == "gemini":
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/v1beta/models/gemini/m:{verb}", b'{"contents":[]}'
    return PATHS[wire], json.dumps({"model": f"{NAMES[wire]}/m", "stream": stream}).encode()


def test_a_thought_without_an_id_that_quotes_one_of_ours_stays() -> None:
    item = b'{"type":"reasoning","summary":[{"type":"summary_text","text":"see \\"rs_' + b"0" * 24 + b'01\\""}]}'
    for quoted in (item, item[:-1] + b',"id":null}'):
        given = b'{"input":[' + quoted + b',{"type":"reasoning","x":"rs_' + b"0" * 24 + b'01"}]}'
        assert without_displayed_thinking(traits_of("openai-responses"), given, members_of(given)) == given
