"""What a foreign model called comes back as its client declared it, plain and streamed, or as a broken call."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.dialects.responses_tools import DECLARED, HISTORY, PATCH, custom, function, space
from tests.oracles import RESPONSES
from tests.stream_oracles import read_responses
from toolwire import (
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    Event,
    Message,
    Opaque,
    Request,
    Response,
    Text,
    Tool,
    ToolCall,
    accumulate,
)
from toolwire.dialects import NAMES, dialect
from toolwire.streams.accumulation import events_of
from toolwire.streams.call_normalizer import CallNormalizer
from toolwire.translation.tool_restoration import ToolRestorer, tool_restorer

FOREIGN = [name for name in NAMES if name != "openai-responses"]
RESPONSES_WIRE = dialect("openai-responses")
ARGUMENTS: dict[str, dict[str, Any]] = {
    "tool_search": {"query": "x", "limit": 2},
    "apply_patch": {"type": "update_file", "path": "a", "diff": "+x"},
    "shell": {"commands": ["ls"], "timeout_ms": 9},
    "local_shell": {"command": ["ls"]},
}
OWN: dict[str, dict[str, Any]] = {
    "tool_search": {"type": "tool_search_call", "execution": "client", "arguments": ARGUMENTS["tool_search"]},
    "apply_patch": {"type": "apply_patch_call", "operation": ARGUMENTS["apply_patch"]},
    "shell": {"type": "shell_call", "action": ARGUMENTS["shell"]},
    "local_shell": {"type": "local_shell_call", "action": {"type": "exec", "env": {}, "command": ["ls"]}},
}
CASES = {**{name: body for name, (body, _) in DECLARED.items() if name != "odd"}, "history": HISTORY}


def read(body: dict[str, Any]) -> Request:
    return RESPONSES_WIRE.decode_request({"model": "m", **body})


def back_of(request: Request) -> ToolRestorer:
    back = tool_restorer(request)
    assert back is not None
    return back


def answer(*calls: ToolCall) -> Response:
    return Response(id="r", model="m", choices=[Choice(Message("assistant", [Text("Ok."), *calls]), "tool_calls")])


def declared_calls(body: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    """List the tools of a body: their kind, their namespace and their name, each once."""
    holders = [body, *(item for item in body["input"] if isinstance(item.get("tools"), list))]
    listed = []
    for holder in holders:
        for tool in holder.get("tools", []):
            inner = tool["tools"] if tool["type"] == "namespace" else [tool]
            listed += [(one["type"], tool["name"] if one is not tool else None, one.get("name", "")) for one in inner]
    return [one for one in dict.fromkeys(listed) if one[0] != "web_search"]


def foreign_stream(target: str, response: Response) -> bytes:
    encoder = dialect(target).encode_stream()
    return b"".join(map(encoder.feed, events_of(response))) + encoder.close()


def back_streamed(request: Request, target: str, data: bytes, step: int) -> list[Any]:
    """Give the events of a foreign stream on their way back."""
    back, decoder = back_of(request), dialect(target).decode_stream()
    events = [event for at in range(0, len(data), step) for event in decoder.feed(data[at : at + step])]
    return [one for event in (*events, *decoder.close()) for one in back.restore_events(event)]


def written(events: list[Any], client: str = "openai-responses") -> str:
    encoder = dialect(client).encode_stream()
    return (b"".join(map(encoder.feed, events)) + encoder.close()).decode()


def without_ids(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("id", "call_id", "status")}


def expected(kind: str, where: str | None, name: str) -> dict[str, Any]:
    if kind in OWN:
        return OWN[kind]
    spaced = {"name": name} if where is None else {"name": name, "namespace": where}
    if kind == "custom":
        return {"type": "custom_tool_call", **spaced, "input": PATCH}
    return {"type": "function_call", **spaced, "arguments": '{"path":"a"}'}


def foreign_answer(request: Request, target: str) -> Response:
    """Give the answer of a model that calls every tool, as its wire's names and objects have it."""
    there = dialect(target)
    sent = there.encode_request(request)
    offered = [tool for tool in there.decode_request(sent.body, sent.path).tools if isinstance(tool, Tool)]
    text = {"input": PATCH}
    arguments = [
        ARGUMENTS.get(tool.name) or (text if "input" in (tool.parameters or text)["properties"] else {"path": "a"})
        for tool in [replace(tool, parameters=tool.parameters or {"properties": text}) for tool in offered]
    ]
    names = [tool.name for tool in offered]
    return answer(
        *(ToolCall(f"c{at}", name, given, at) for at, (name, given) in enumerate(zip(names, arguments, strict=True)))
    )


@pytest.mark.sampled
@pytest.mark.parametrize("target", FOREIGN)
@pytest.mark.parametrize("case", CASES)
def test_every_call_comes_back_as_it_was_declared(case: str, target: str) -> None:
    request, response = read(CASES[case]), foreign_answer(read(CASES[case]), target)
    wanted = [expected(*one) for one in declared_calls(CASES[case])]
    back = back_of(request)
    there = dialect(target)
    plain = RESPONSES_WIRE.encode_response(
        back.restore_response(there.decode_response(there.encode_response(response).body))
    )
    assert [without_ids(item) for item in plain.body["output"][1:]] == wanted
    assert RESPONSES["openai-responses"](plain.body) is None
    ids = [(item["id"], item["call_id"]) for item in plain.body["output"][1:]]
    assert len({one for pair in ids for one in pair}) == 2 * len(wanted)
    for step in (1, 5, 10_000):
        events = back_streamed(request, target, foreign_stream(target, response), step)
        data = written(events)
        last = json.loads(data.strip().rpartition("data: ")[2])
        assert last["type"] == "response.completed"
        assert [without_ids(item) for item in last["response"]["output"][1:]] == wanted
        assert read_responses(data.encode()).error is None
        done = [json.loads(line[6:]) for line in data.splitlines() if '"response.output_item.done"' in line[:60]]
        assert [without_ids(event["item"]) for event in done[1:]] == wanted


@pytest.mark.parametrize("target", FOREIGN)
def test_a_client_of_chat_completions_gets_its_free_text(target: str) -> None:
    here = dialect("openai-chat")
    tool = {"type": "custom", "custom": {"name": "patch", "description": "Patches."}}
    request = here.decode_request({"model": "m", "messages": [{"role": "user", "content": "Hi."}], "tools": [tool]})
    there = dialect(target, custom_tools=False)
    [offered] = there.decode_request(there.encode_request(request).body, "/v1beta/models/m:generateContent").tools
    assert isinstance(offered, Tool)
    assert not offered.custom
    response = answer(ToolCall("c1", "patch", {"input": PATCH}))
    back = back_of(request)
    [call] = here.encode_response(
        back.restore_response(there.decode_response(there.encode_response(response).body))
    ).body["choices"][0]["message"]["tool_calls"]
    assert {key: call[key] for key in ("type", "custom")} == {
        "type": "custom",
        "custom": {"name": "patch", "input": PATCH},
    }
    events = back_streamed(request, target, foreign_stream(target, response), 3)
    chunks = [
        json.loads(line[6:]) for line in written(events, "openai-chat").splitlines() if line.startswith("data: {")
    ]
    entries = [entry for chunk in chunks for one in chunk["choices"] for entry in one["delta"].get("tool_calls", ())]
    assert entries[0]["custom"]["name"] == "patch"
    assert "".join(entry.get("custom", {}).get("input", "") for entry in entries) == PATCH


def test_a_request_without_anything_of_the_kind_has_no_way_back() -> None:
    assert tool_restorer(read({"input": "Hi.", "tools": [function("look"), {"type": "web_search"}]})) is None


def test_what_is_not_declared_comes_back_as_it_is() -> None:
    back = back_of(read({"tools": [custom("patch"), function("look")]}))
    response = answer(ToolCall("c1", "look", {"input": "x"}), ToolCall("c2", "other", {"input": "x"}, 1))
    assert back.restore_response(response) == response
    assert [one for event in events_of(response) for one in back.restore_events(event)] == list(events_of(response))


def test_a_call_keeps_what_its_own_wire_said_of_it() -> None:
    """It is a loss where it cannot be said, as in any other call."""
    signed = ToolCall("c1", "a__look", {"path": "a"}, opaque=Opaque("gemini", {"thoughtSignature": "s"}))
    request = read({"tools": [space("a", function("look"), custom("run"))]})
    back = back_of(request)
    encoded = RESPONSES_WIRE.encode_response(back.restore_response(answer(signed)))
    assert [loss.path for loss in encoded.losses] == ["choices[0].message.content[1].opaque.thoughtSignature"]
    free = replace(signed, name="a__run", arguments={"input": "x"})
    [part] = back.restore_response(answer(free)).tool_calls
    assert part.opaque is not None
    assert (part.opaque.dialect, part.opaque.value) == ("gemini", {"thoughtSignature": "s"})


def test_calls_of_the_same_wire_come_back_as_they_were() -> None:
    request = read(HISTORY)
    body = {
        "id": "resp_1",
        "output": [
            *(
                {**item, "status": "completed", "id": "x"}
                for item in HISTORY["input"]
                if item["type"].endswith("_call")
            ),
        ],
    }
    back = back_of(request)
    response = RESPONSES_WIRE.decode_response(body)
    assert RESPONSES_WIRE.encode_response(back.restore_response(response)).body == body


@pytest.mark.parametrize("length", [64, 65, 100, 128, 129, 300])
def test_a_name_that_is_too_long_comes_back_whole(length: int) -> None:
    name = ("look_" * (length // 5) + "x" * (length % 5))[:128]
    request = read({"input": "Hi.", "tools": [function(name), space("a" * length, custom("run"))]})
    for target in FOREIGN:
        response = foreign_answer(request, target)
        there = dialect(target)
        sent = there.encode_response(response).body
        settled = CallNormalizer(request).normalize_response(there.decode_response(sent))
        first, second = RESPONSES_WIRE.encode_response(back_of(request).restore_response(settled)).body["output"][1:]
        assert (first["name"], second["namespace"], second["name"]) == (name, "a" * length, "run")


BROKEN = " (cut off)"
# What the model wrote where an object with `input` was asked for, and the text that its client is shown.
UNFIT: dict[str, tuple[str, str]] = {
    "another key": ('{"patch": "x"}', '{"patch": "x"}'),
    "no key": ("{}", "{}"),
    "no text": ('{"input": 5}', '{"input": 5}'),
    "another key after it": ('{"input": "x", "path": "a"}', "x"),
    "another key before it": ('{"path": "a", "input": "x"}', '{"path": "a", "input": "x"}'),
    "the key twice": ('{"input": "x", "input": "y"}', "x"),
    "bare text": ("*** Begin", "*** Begin"),
    "a string": ('"x"', '"x"'),
    "a half": ('{"input": "ab\\', "ab"),
    "half a pair": ('{"input": "a\\ud83d"}', "a"),
    "a control character": ('{"input": "a\x01b"}', "a"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_is_no_free_text_is_a_broken_call(case: str) -> None:
    raw, shown = UNFIT[case]
    request = read({"input": "Hi.", "tools": [custom("run")]})
    call = ToolCall.parse("c1", "run", raw)
    back = back_of(request)
    plain = back.restore_response(answer(call))
    [broken] = plain.broken_calls
    assert (broken.raw, broken.arguments, broken.custom) == (shown + BROKEN, {}, True)
    assert broken.error
    assert plain.tool_calls == []
    start = CallStart(0, "c1", "run")
    for pieces in ([raw], list(raw), []):
        events: list[Event] = [start, *(CallDelta(0, piece) for piece in pieces), CallEnd(0, call)]
        told = [one for event in events for one in back.restore_events(event)]
        assert told[0] == CallStart(0, "c1", "run", custom=True)
        assert "".join(event.fragment for event in told[1:-1]) == broken.raw  # type: ignore[union-attr]
        assert told[-1] == CallEnd(0, broken)
    item = RESPONSES_WIRE.encode_response(plain).body["output"][1]
    assert (item["type"], item["input"], item["status"]) == ("custom_tool_call", shown + BROKEN, "incomplete")


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("apply_patch", {"type": "rename", "path": "a"}),
        ("apply_patch", {"type": "create_file", "path": "a"}),
        ("apply_patch", {"type": "delete_file", "path": 5}),
        ("apply_patch", {}),
        ("shell", {"commands": "ls"}),
        ("shell", {"commands": ["ls", 5]}),
        ("local_shell", {}),
    ],
)
def test_what_a_tool_without_a_name_does_not_take_is_a_broken_call(kind: str, arguments: dict[str, Any]) -> None:
    request = read({"input": "Hi.", "tools": [{"type": kind}]})
    back = back_of(request)
    response = back.restore_response(answer(ToolCall("c1", kind, arguments)))
    [broken] = response.broken_calls
    assert broken.error is not None
    assert broken.error.startswith(f"{kind} takes ")
    [item] = RESPONSES_WIRE.encode_response(response).body["output"][1:]
    assert (item["type"], item["name"], item["status"]) == ("function_call", kind, "incomplete")
    assert json.loads(item["arguments"]) == arguments
    for target in FOREIGN:
        foreign = foreign_stream(target, answer(ToolCall("c1", kind, arguments)))
        last = json.loads(written(back_streamed(request, target, foreign, 4)).strip().rpartition("data: ")[2])
        [item] = last["response"]["output"][1:]
        assert (item["type"], item["status"]) == ("function_call", "incomplete")


def test_a_cut_off_call_does_not_run() -> None:
    request = read({"input": "Hi.", "tools": [custom("run"), space("a", function("look")), {"type": "shell"}]})
    for name, raw in (("run", '{"input": "ab'), ("a__look", '{"path": "a'), ("shell", '{"commands": ["l')):
        back = back_of(request)
        events: list[Event] = [CallStart(0, "c1", name), CallDelta(0, raw)]
        told = [one for event in events for one in back.restore_events(event)]
        assert accumulate(told).tool_calls == []
        call = replace(ToolCall.parse("c1", name, raw), complete=False)
        told += back.restore_events(CallEnd(0, call))
        assert accumulate(told).tool_calls == []
        assert [one.name for one in accumulate(told).broken_calls] == [name]


TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text('"\\/\n\tu0123456789dD8aAé\U0001f600\x00\x1f}')


def as_json(text: str, spelled: str, ascii_only: bool) -> str:
    return spelled.replace("TEXT", json.dumps(text, ensure_ascii=ascii_only))


@given(
    TEXTS,
    st.sampled_from(['{"input":TEXT}', ' {"input" : TEXT }\n', '{\r\n\t"input":\n TEXT}']),
    st.booleans(),
    st.lists(st.integers(1, 7), min_size=1, max_size=5),
)
def test_any_text_cut_anywhere_is_told_as_it_is(text: str, spelled: str, ascii_only: bool, cuts: list[int]) -> None:
    raw = as_json(text, spelled, ascii_only)
    back = back_of(Request(context=read({"tools": [custom("run")]}).context))
    told, at, turn, early = [*back.restore_events(CallStart(0, "c1", "run"))], 0, 0, ""
    while at < len(raw):
        size = cuts[turn % len(cuts)]
        told += back.restore_events(CallDelta(0, raw[at : at + size]))
        early = "".join(event.fragment for event in told[1:])  # type: ignore[union-attr]
        assert text.startswith(early)
        at, turn = at + size, turn + 1
    assert early == text
    told += back.restore_events(CallEnd(0, ToolCall.parse("c1", "run", raw)))
    [call] = accumulate(told).tool_calls
    assert (call.raw, call.custom, call.arguments) == (text, True, {})
    assert "".join(event.fragment for event in told[1:-1]) == text  # type: ignore[union-attr]


@given(st.text('{}"input:, \\ud83de0x[]5\n', max_size=40), st.integers(1, 5))
def test_no_text_is_made_up(raw: str, step: int) -> None:
    """Whatever the model wrote: what runs is the text of the one field, and the client saw nothing else."""
    back = back_of(read({"tools": [custom("run")]}))
    call = ToolCall.parse("c1", "run", raw)
    events: list[Event] = [
        CallStart(0, "c1", "run"),
        *(CallDelta(0, raw[at : at + step]) for at in range(0, len(raw), step)),
    ]
    told = [one for event in (*events, CallEnd(0, call)) for one in back.restore_events(event)]
    shown = "".join(event.fragment for event in told[1:-1])  # type: ignore[union-attr]
    [one] = [*accumulate(told).tool_calls, *accumulate(told).broken_calls]
    assert one == back.restore_response(answer(call)).parts[1]
    assert shown == one.raw
    fits = call.runs and call.arguments.keys() == {"input"} and isinstance(call.arguments["input"], str)
    assert one.runs == fits
    assert not fits or one.raw == call.arguments["input"]
