"""A call that was never whole becomes a whole one on no wire; complete calls arrive as they are."""

import json
import zlib
from typing import Any

import pytest

from tests.stream_cases import decode
from tests.stream_oracles import READERS
from tests.translated_calls import (
    Answer,
    Chance,
    frame,
    one_body,
    one_stream,
    streamed,
    verdict,
    wrong_bodies,
    wrong_streams,
)
from tests.wires import DIALECTS
from toolwire import translate
from toolwire.dialects import NAMES

HALF = '{"path":"/sr'
ODD: tuple[Any, ...] = (-1, -7, 10**20, "x", "0", None, 1.5, True, [], {})


def _chat(index: Any = 0, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": None}]}


def _chat_call(index: int, text: str, name: str | None = None) -> dict[str, Any]:
    begun = {"id": f"c{index}", "type": "function"} if name else {}
    inner = {"name": name, "arguments": text} if name else {"arguments": text}
    return _chat(tool_calls=[{"index": index, **begun, "function": inner}])


def _block(index: Any, text: str, name: str = "wipe") -> list[dict[str, Any]]:
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": text}
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        {"type": "content_block_delta", "index": index, "delta": delta},
    ]


def _item(index: Any, text: str, name: str = "wipe", **said: Any) -> list[dict[str, Any]]:
    item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"c{index}", "name": name, "arguments": ""}
    delta = {"type": "response.function_call_arguments.delta", "item_id": f"fc_{index}", "output_index": index}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, **said}},
        {**delta, "delta": text},
    ]


def _odd_chunks(source: str, odd: Any) -> list[dict[str, Any]]:
    """What comes after half a call: it says something of an odd place."""
    match source:
        case "openai-chat":
            return [
                _chat(odd, content="Hi"),
                _chat(tool_calls=[{"index": odd, "function": {"arguments": ""}}]),
                {"choices": [{"index": odd, "delta": {}, "finish_reason": "tool_calls"}]},
            ]
        case "anthropic":
            return [
                {"type": "content_block_start", "index": odd, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": odd, "delta": {"type": "text_delta", "text": "Hi"}},
                {"type": "content_block_stop", "index": odd},
            ]
        case "openai-responses":
            message = {"type": "message", "id": "m", "role": "assistant", "content": []}
            return [
                {"type": "response.output_item.added", "output_index": odd, "item": message},
                {"type": "response.output_item.done", "output_index": odd, "item": message},
            ]
        case "gemini":
            return [
                {"candidates": [{"index": odd, "content": {"role": "model", "parts": [{"text": "Hi"}]}}]},
                {"candidates": [{"index": odd, "finishReason": "STOP"}]},
            ]
        case _:
            return [{"message": {"role": "assistant", "content": "Hi", "index": odd}, "done": False}]


def _begun(source: str) -> list[dict[str, Any]]:
    """Half a call, as the wire tells it; Gemini and Ollama tell a call at once, so its arguments are half a text."""
    match source:
        case "openai-chat":
            return [_chat(role="assistant", content=""), _chat_call(0, "", "wipe"), _chat_call(0, HALF)]
        case "anthropic":
            message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m"}
            return [{"type": "message_start", "message": message}, *_block(0, HALF)]
        case "openai-responses":
            response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
            return [{"type": "response.created", "response": response}, *_item(0, HALF)]
        case "gemini":
            part = {"functionCall": {"name": "wipe", "args": HALF}}
            return [{"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}]
        case _:
            call = {"function": {"name": "wipe", "arguments": HALF}}
            return [{"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False}]


def _end(source: str) -> list[dict[str, Any]]:
    """The end of a provider that says that all is well."""
    match source:
        case "openai-chat":
            return [{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}, {"done": True}]
        case "anthropic":
            return [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
        case "openai-responses":
            response = {"id": "resp_1", "object": "response", "status": "completed", "output": []}
            return [{"type": "response.completed", "response": response}]
        case "gemini":
            return [{"candidates": [{"index": 0, "finishReason": "STOP"}]}]
        case _:
            return [{"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}]


def _write(source: str, told: list[dict[str, Any]]) -> bytes:
    return b"".join(frame(source, body) for body in told)


def _never_whole(source: str, data: bytes) -> None:
    """Half a call runs nowhere, and no end asks for one that was cut off; also as the SDK of the vendor reads it."""
    cut = not any(call.complete for call in Answer.of(decode(source, data)).calls)
    for target in NAMES:
        told = streamed(source, target, data)
        here = Answer.of(decode(target, told))
        assert here.runs == [], told
        if source != target:
            assert not (cut and here.well and here.response.finish_reason == "tool_calls"), told
            read = READERS[target](told)
            claims = read.error is None and read.finish in ("tool_calls", "tool_use", "completed", "STOP", "stop")
            assert not (claims and any(isinstance(given, dict) for _, _, given in read.calls)), read
    assert not list(wrong_streams(source, data, Chance(1)))


@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
@pytest.mark.parametrize("source", NAMES)
def test_half_a_call_is_whole_nowhere_when_an_odd_index_follows(source: str, odd: Any) -> None:
    """The stream ends then, or goes on to an end that says that all is well."""
    begun, chunks = _begun(source), _odd_chunks(source, odd)
    _never_whole(source, _write(source, [*begun, *chunks]))
    for chunk in chunks:
        _never_whole(source, _write(source, [*begun, chunk]))
        _never_whole(source, _write(source, [*begun, chunk, *_end(source)]))


@pytest.mark.parametrize("source", NAMES)
def test_half_a_call_is_whole_nowhere_when_the_stream_ends(source: str) -> None:
    """It ends without a word, with a word that all is well, or in the middle of a frame."""
    data = _write(source, _begun(source))
    _never_whole(source, data + _write(source, _end(source)))
    for cut in range(len(data) - 40, len(data) + 1):
        _never_whole(source, data[:cut])


@pytest.mark.parametrize("text", ["", " ", '{"path":', '{"path":"/tm"', "{}x", '{"a":1}{"a"', "[1]", "null", '"{}"'])
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", ["openai-chat", "anthropic", "openai-responses"])
def test_any_half_text_stays_half(source: str, target: str, text: str) -> None:
    """Also a text that some readers take for an object, or for none: the stream breaks off behind it."""
    begun = json.loads(json.dumps(_begun(source)).replace(json.dumps(HALF), json.dumps(text)))
    for more in ([], _odd_chunks(source, -1)[:1]):
        told = streamed(source, target, _write(source, [*begun, *more]))
        here = Answer.of(decode(target, told))
        assert here.runs == []
        assert not here.well or here.response.finish_reason != "tool_calls"


def _plain(source: str, text: str, odd: Any) -> dict[str, Any]:
    match source:
        case "openai-chat":
            call = {"id": "c0", "type": "function", "function": {"name": "wipe", "arguments": text}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            return {"choices": [{"index": odd, "message": message, "finish_reason": "tool_calls"}]}
        case "anthropic":
            block = {"type": "tool_use", "id": "toolu_1", "name": "wipe", "input": text}
            return {"type": "message", "role": "assistant", "content": [block], "stop_reason": "tool_use"}
        case "openai-responses":
            item = {"type": "function_call", "call_id": "c0", "name": "wipe", "arguments": text}
            return {"object": "response", "status": "completed", "output": [item]}
        case "gemini":
            part = {"functionCall": {"name": "wipe", "args": text}}
            return {"candidates": [{"index": odd, "content": {"parts": [part]}, "finishReason": "STOP"}]}
        case _:
            message = {"content": "", "tool_calls": [{"function": {"name": "wipe", "arguments": text}}]}
            return {"message": {"role": "assistant", **message}, "done": True, "done_reason": "stop"}


@pytest.mark.parametrize("odd", [0, *ODD], ids=json.dumps)
@pytest.mark.parametrize("source", NAMES)
def test_half_a_call_of_a_whole_answer_is_whole_nowhere(source: str, odd: Any) -> None:
    """Nor does it run where the provider says that it asks for calls."""
    body = _plain(source, HALF, odd)
    for target in NAMES:
        told = translate.response(body, source, target).body
        assert Answer(DIALECTS[target].decode_response(told), well=True).runs == []
    assert not list(wrong_bodies(source, json.dumps(body).encode()))


def _two_calls(source: str, text: str) -> list[dict[str, Any]]:
    """A call that its source says is broken, and a whole one behind it, with an end that says that all is well."""
    if source == "anthropic":
        stop = [{"type": "content_block_stop", "index": index} for index in (0, 1)]
        start = _begun(source)[:1]
        return [*start, *_block(0, text), stop[0], *_block(1, '{"a":1}', "look"), stop[1], *_end(source)]
    first, second = _item(0, text), _item(1, '{"a":1}', "look")
    broken = {**first[0]["item"], "arguments": text, "status": "incomplete"}
    whole = {**second[0]["item"], "arguments": '{"a":1}', "status": "completed"}
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate((broken, whole))
    ]
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": [broken, whole]}
    end = {"type": "response.completed", "response": response}
    return [*_begun(source)[:1], *first, done[0], *second, done[1], end]


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(
    ("source", "text"),
    [
        *(("openai-responses", text) for text in ("", "{}", '{"path":"/"}', '{"path":"/', "null", '{"a":1,"a":2}')),
        *(("anthropic", text) for text in ('{"path":"/', "[1]", '{"a":1}x', '{"a":1,"a":2}')),
    ],
)
def test_a_call_that_its_source_calls_broken_is_whole_behind_no_other(source: str, text: str, target: str) -> None:
    """The next call closes a call of Chat Completions: it must read as broken before."""
    data = _write(source, _two_calls(source, text))
    there = Answer.of(decode(source, data))
    assert [(call.name, call.runs) for call in there.calls] == [("wipe", False), ("look", True)]
    here = Answer.of(decode(target, streamed(source, target, data)))
    assert [call.name for call in here.calls if call.runs] == ["look"]
    assert not list(wrong_streams(source, data, Chance(1), sdks=True))
    read = READERS[target](streamed(source, target, data))
    wrong = [name for _, name, given in read.calls if isinstance(given, dict) and name != "look"]
    assert not wrong or read.error or source == target or (target == "anthropic" and read.finish == "max_tokens")


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", ["openai-responses", "anthropic"])
def test_a_broken_call_is_whole_nowhere_also_where_the_stream_fails_behind_it(source: str, target: str) -> None:
    """The error comes behind a whole call."""
    told = _two_calls(source, '{"path":"/')[:-1]
    for end in ([], [{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}]):
        data = _write(source, [*told, *end])
        here = Answer.of(decode(target, streamed(source, target, data)))
        assert not here.well
        assert "wipe" not in [call.name for call in here.calls if call.runs]
        assert not list(wrong_streams(source, data, Chance(1)))


@pytest.mark.parametrize("target", NAMES)
def test_free_text_that_was_cut_off_is_whole_nowhere(target: str) -> None:
    """Nothing marks half of a free text: where it would read as whole, the stream ends in an error."""
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "c0", "name": "run", "input": ""}
    delta = {"type": "response.custom_tool_call_input.delta", "item_id": "ct", "output_index": 0, "delta": "rm -rf /"}
    cut = {**item, "input": "rm -rf /", "status": "incomplete"}
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": [cut]}
    begun = [
        _begun("openai-responses")[0],
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        delta,
    ]
    done: dict[str, Any] = {"type": "response.output_item.done", "output_index": 0, "item": cut}
    for end in ([], [done], [done, {"type": "response.completed", "response": response}]):
        data = _write("openai-responses", [*begun, *end])
        here = Answer.of(decode(target, streamed("openai-responses", target, data)))
        assert here.runs == []
        assert not list(wrong_streams("openai-responses", data, Chance(1)))


@pytest.mark.parametrize("target", NAMES)
def test_a_call_without_a_name_stays_one(target: str) -> None:
    """It is a call of no tool: a made name would look like that of a tool."""
    told = [_begun("openai-responses")[0], *_item(0, '{"a":1}', "")]
    item = {**told[1]["item"], "arguments": '{"a":1}', "status": "completed"}
    told.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": [item]}
    data = _write("openai-responses", [*told, {"type": "response.completed", "response": response}])
    here = Answer.of(decode(target, streamed("openai-responses", target, data)))
    assert [(call.name, call.arguments) for call in here.calls] == [("", {"a": 1})]


@pytest.mark.parametrize("texts", [['{"a":1}', '{"b":2}'], ['{"a":1}', '{"a":1}'], ["{}", '{"a":1}']], ids=str)
@pytest.mark.parametrize("target", NAMES)
def test_two_calls_of_one_id_stay_two(target: str, texts: list[str]) -> None:
    """Readers of Chat Completions take the second one for more of the first."""
    told = [_begun("openai-responses")[0]]
    for index, text in enumerate(texts):
        events = _item(index, text, call_id="same")
        item = {**events[0]["item"], "arguments": text, "status": "completed"}
        told += [*events, {"type": "response.output_item.done", "output_index": index, "item": item}]
    data = _write("openai-responses", [*told, *_end("openai-responses")])
    here = Answer.of(decode(target, streamed("openai-responses", target, data)))
    assert [call.arguments for call in here.calls if call.runs] == [json.loads(text) for text in texts]


def _judge(source: str, seed: int, count: int) -> None:
    chance = Chance(zlib.crc32(f"{source} {seed}".encode()))
    found: list[str] = []
    for _ in range(count):
        data = one_stream(source, chance)
        found += [f"{problem}\n{data!r}" for problem in wrong_streams(source, data, chance, sdks=chance.random() < 0.1)]
        if (body := one_body(source, chance)) is not None:
            found += [f"{problem}\n{body!r}" for problem in wrong_bodies(source, body)]
    assert not found, f"{len(found)} wrong ones, the first one: {found[0]}"


@pytest.mark.parametrize("source", NAMES)
def test_mutated_answers_have_the_same_calls_on_every_wire(source: str) -> None:
    """Answers are taken from records and made by hand, and mutated."""
    _judge(source, 1, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("source", NAMES)
def test_many_mutated_answers_have_the_same_calls_on_every_wire(source: str, seed: int) -> None:
    """A longer run of the same."""
    _judge(source, seed, 600)


def test_the_judge_sees_a_call_that_was_invented() -> None:
    """A call that runs here and not there is wrong, and so is one that is missing."""
    with_call = Answer.of(
        decode("openai-chat", _write("openai-chat", [_chat_call(0, "{}", "wipe"), *_end("openai-chat")]))
    )
    without = Answer.of(decode("openai-chat", _write("openai-chat", [_chat(content="Hi"), *_end("openai-chat")])))
    assert "runs" in verdict(without, with_call, own=False)
    assert "runs" in verdict(with_call, without, own=False)
    assert verdict(with_call, with_call, own=False) == ""
