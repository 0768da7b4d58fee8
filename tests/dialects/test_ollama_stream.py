"""Streams of Ollama's chat, both ways."""

from typing import Any

import msgspec
import pytest

from tests.dialects.stream_parts import asked, ended, shown
from tests.oracles import RESPONSES
from tests.stream_cases import STEPS, decode
from tests.stream_oracles import READERS
from tests.wires import differences, of_dialect
from toolwire import (
    CallEnd,
    Error,
    ErrorEnd,
    Event,
    MessageDelta,
    MessageEnd,
    MessageStart,
    Opaque,
    PartEnd,
    PartStart,
    Refusal,
    RefusalDelta,
    Response,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
    UsageDelta,
    accumulate,
)
from toolwire.dialects import ollama

Body = dict[str, Any]
TIMES = [f"2026-11-20T10:00:0{second}Z" for second in range(10)]
ENDING = {"done": True, "done_reason": "stop", "total_duration": 9, "prompt_eval_count": 3, "eval_count": 4}


def line(content: str | None = "", *calls: Any, done: bool = False, **said: Any) -> Body:
    """Make a line; what is said goes into the message, and a last line ends the answer."""
    words = {} if content is None else {"content": content}
    message = {"role": "assistant", **words, **said, **({"tool_calls": list(calls)} if calls else {})}
    return {"model": "m", "created_at": TIMES[0], "message": message, **(ENDING if done else {"done": False})}


def call(name: str = "f", call_id: str | None = "c", **arguments: Any) -> Body:
    return {
        "function": {"name": name, "arguments": arguments},
        **({} if call_id is None else {"id": call_id}),
    }


def write(*bodies: Any, end: bytes = b"\n") -> bytes:
    return b"".join(msgspec.json.encode(body) + end for body in bodies)


def timed(*bodies: Body) -> list[Body]:
    return [body | {"created_at": TIMES[place]} for place, body in enumerate(bodies)]


def bodies_of(data: bytes) -> list[Body]:
    return [msgspec.json.decode(body) for body in data.split(b"\n") if body.strip()]


def encode(*events: Event) -> tuple[bytes, list[tuple[str, str, str]]]:
    encoder = ollama.encode_stream()
    data = b"".join(map(encoder.feed, events)) + encoder.close()
    return data, [(loss.path, loss.concept, loss.severity) for loss in encoder.losses]


def read(*bodies: Any) -> list[Event]:
    return decode("ollama", write(*bodies))


Case = tuple[bytes, list[Any], str, bool]


def case(*bodies: Any, parts: Any = (), finish: str = "stop", whole: bool = True) -> Case:
    return write(*bodies), list(parts), finish, whole


def asks(*bodies: Any, parts: Any) -> Case:
    return case(*bodies, parts=parts, finish="tool_calls")


LAST = line(done=True)
C: Any = ("c", "f", {})
MADE = "toolwire_3523178851"
TEXT_ARGUMENTS = {"function": {"name": "f", "arguments": '{"a": 1}'}, "id": "c"}
BAD_TEXT = {"function": {"name": "f", "arguments": "{bad"}, "id": "c"}
READ: dict[str, Case] = {
    "words": case(line("a"), line("b"), LAST, parts=["ab"]),
    "thoughts": case(line("", thinking="t"), line("", thinking="u"), line("a"), LAST, parts=[("tu",), "a"]),
    "thoughts alone": case(line(None, thinking="t"), LAST, parts=[("t",)]),
    "both in a line": case(line("a", thinking="t"), line("b"), LAST, parts=[("t",), "ab"]),
    "words and the end": case(line("a"), line("b", done=True), parts=["ab"]),
    "one line": case(line("a", done=True), parts=["a"]),
    "nothing": case(LAST, parts=[""]),
    "calls of a line": asks(line("", call(a=1), call("g", "d")), LAST, parts=[("c", "f", {"a": 1}), ("d", "g", {})]),
    "calls over lines": asks(line("", call()), line("", call("g", "d")), LAST, parts=[C, ("d", "g", {})]),
    "a call and the end": asks(line("", call(), done=True), parts=[C]),
    "words, then a call": asks(line("a"), line("b", call()), LAST, parts=["ab", C]),
    "a call, then words": asks(line("", call()), line("a"), LAST, parts=[C, "a"]),
    "the list again": asks(
        line("", call(a=1)),
        line("", call(a=1), call("g", "d")),
        LAST,
        parts=[("c", "f", {"a": 1}), ("d", "g", {})],
    ),
    "an id again": asks(line("", call(a=1), call(a=2)), LAST, parts=[("c", "f", {"a": 1}), ("c", "f", {"a": 2})]),
    "no ids": asks(line("", call("f", None), call("f", None)), LAST, parts=[(f"{MADE}_{n}", "f", {}) for n in (0, 1)]),
    "text for arguments": asks(line("", TEXT_ARGUMENTS), LAST, parts=[("c", "f", {"a": 1})]),
    "bad text for arguments": asks(line("", BAD_TEXT), LAST, parts=[("c", "f", "{bad")]),
    "a list for arguments": asks(
        line("", {"function": {"name": "f", "arguments": [1]}, "id": "c"}), LAST, parts=[("c", "f", "[1]")]
    ),
    "a call that is none": case(line("", {"x": 1}), LAST, parts=[{"x": 1}]),
    "null for everything": case(line(None, tool_calls=None), LAST, parts=[""]),
    "a picture": case(line("a", images=["iVBORw0KGgo="]), LAST, parts=["a", "Image"]),
    "a limit": case(line("a"), LAST | {"done_reason": "length"}, parts=["a"], finish="length"),
    "another role": case(line("a", role="Assistant"), LAST, parts=["a"]),
    "more of a line": case(
        *(line(word) | {"logprobs": [{"token": word}], "x": word} for word in "aba"), LAST, parts=["aba"]
    ),
    "nobody ended it": case(line("a"), parts=["a"], finish="incomplete", whole=False),
    "an error": case(line("a"), {"error": "out of memory"}, parts=["a"], finish="error", whole=False),
}
DATA: dict[str, Case] = {
    "empty lines": (b"\n \n" + write(line("a"), LAST, end=b"\n\n"), ["a"], "stop", True),
    "CRLF": (write(line("a"), line("b"), LAST, end=b"\r\n"), ["ab"], "stop", True),
    "no last end": (write(line("a"), LAST)[:-1], ["a"], "stop", True),
    "half a line": (write(line("a"), line("b"))[:-9], ["a"], "incomplete", False),
    "two in a line": (write(line("a"), line("b"), LAST, end=b""), ["ab"], "stop", True),
    "an object of lines": (
        msgspec.json.format(write(line("a", done=True)), indent=1) + b"\n",
        ["a"],
        "stop",
        True,
    ),
    "no JSON": (write(line("a")) + b"oops\n" + write(LAST), ["a"], "error", False),
    "a mark of another wire": (write(line("a")) + b"[DONE]\n", ["a"], "incomplete", False),
    "more after the end": (write(line("a"), LAST, line("b")), ["a"], "stop", True),
}
BOTH = READ | DATA


@pytest.mark.parametrize("name", BOTH)
def test_what_a_stream_tells(name: str) -> None:
    data, parts, finish, whole = BOTH[name]
    events = decode("ollama", data)
    response = accumulate(events)
    assert [shown(part) for part in response.parts] == parts
    assert (response.finish_reason, events[-1]) == (finish, MessageEnd(complete=whole))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", BOTH)
def test_events_do_not_depend_on_the_bytes(name: str, step: int) -> None:
    data = BOTH[name][0]
    whole = decode("ollama", data)
    assert decode("ollama", data, range(len(data))) == whole
    for cut in range(0, len(data), step):
        told = accumulate(decode("ollama", data[:cut])).tool_calls
        assert told == accumulate(whole).tool_calls[: len(told)]


@pytest.mark.parametrize("name", BOTH)
def test_a_stream_is_written_again(name: str) -> None:
    events = decode("ollama", BOTH[name][0])
    data, lost = encode(*events)
    assert accumulate(decode("ollama", data)) == accumulate(events)
    assert [concept for _, concept, severity in lost if severity == "semantic"] == []


@pytest.mark.parametrize("name", BOTH)
def test_a_stream_tells_what_a_response_of_it_tells(name: str) -> None:
    data, _, _, whole = BOTH[name]
    in_order = name not in {"a call, then words", "the list again", "a call that is none"}
    if whole and in_order and name in READ:
        told = ollama.decode_response(merged(bodies_of(data)))
        assert differences(msgspec.to_builtins(told), msgspec.to_builtins(accumulate(decode("ollama", data)))) == []


def merged(bodies: list[Body]) -> Body:
    """Put lines together: the time of the first, the words, calls and pieces of all, else the last."""
    message: Body = {}
    whole: Body = {}
    for body in bodies:
        given = body.get("message", {})
        for key, value in given.items():
            grows = key in message and type(value) in (str, list) and key != "role"
            message[key] = message[key] + value if grows else value
        pieces = whole.get("logprobs", []) + body.get("logprobs", [])
        whole |= body | ({"logprobs": pieces} if pieces else {})
    return {**whole, "message": message, "created_at": bodies[0]["created_at"]}


@pytest.mark.corpus
def test_recorded_streams_tell_what_a_response_of_them_tells() -> None:
    for recording in of_dialect("ollama"):
        bodies = bodies_of((recording.response_text or "").encode())
        if bodies and "error" not in bodies[0]:
            told = msgspec.to_builtins(ollama.decode_response(merged(bodies)))
            again = msgspec.to_builtins(accumulate(read(*bodies)))
            assert differences(told, again) == [], recording.name


@pytest.mark.parametrize("beside", [{}, {"model": "m"}])
def test_what_each_line_has_for_its_words_is_joined(beside: Body) -> None:
    lines = [{"message": {"content": word}, "logprobs": [{"token": word}], **beside} for word in "ab"]
    opaque = accumulate(read(*lines, {"done": True, **beside})).opaque
    assert opaque is not None
    assert opaque.value["logprobs"] == [{"token": "a"}, {"token": "b"}]


def test_its_own_lines_come_back() -> None:
    lines = [
        *(line("", thinking="t"), line("a") | {"logprobs": [{"token": "a"}]}, line("b") | {"logprobs": []}),
        *(line("", call()), line("", call("g", None)), LAST),
    ]
    data, lost = encode(*read(*lines))
    assert (differences(lines, bodies_of(data)), lost) == ([], [])


def test_the_time_of_an_answer_is_that_of_its_first_line() -> None:
    lines = timed(line("a"), line("b"), line("c"), line("", call("f", None)), LAST)
    events = read(*lines)
    assert [type(event) for event in events if isinstance(event, MessageStart | MessageDelta)] == [
        MessageStart,
        MessageDelta,
    ]
    told = accumulate(events)
    assert (told.created, told.tool_calls[0].id) == (accumulate(read(lines[0])).created, f"{MADE}_0")
    again = [body["created_at"] for body in bodies_of(encode(*events)[0])]
    assert again == [*[TIMES[0]] * 4, TIMES[4]]


WORDS = ["a", "b", '"', "c\\", "\u00e9", "\u2028", "", " d", "assistant", "e"]


@pytest.mark.parametrize("beside", [{}, {"x": "a"}, {"logprobs": [1]}])
def test_lines_that_are_alike_are_read_as_they_are_alone(beside: Body) -> None:
    bodies = [body | beside for body in timed(*map(line, WORDS))]
    data = [msgspec.json.encode(body) + b"\n" for body in bodies]
    one, other = ollama.decode_stream(), ollama.decode_stream()
    told = [event for piece in data for event in one.feed(piece)]
    assert told == other.feed(b"".join(data))
    odd = (data[0][:-1] + b" \n", data[0].replace(TIMES[0].encode(), b"x"), data[0][:9], data[0][9:], b"{]\n")
    assert [one.feed(piece) for piece in odd] == [other.feed(piece[:1]) + other.feed(piece[1:]) for piece in odd]
    assert (one.feed(data[0]), one.over) == ([], True)


TWICE = write(line("", call(a=1)), LAST).replace(b'{"a":1}', b'{"a":1,"a":1}')
BROKEN = write(line("", call(a="?")), LAST).replace(b"?", b"\xff")


@pytest.mark.parametrize(("data", "error"), [(TWICE, "twice"), (BROKEN, "UTF-8")])
def test_a_call_whose_arguments_are_not_sure_is_refused(data: bytes, error: str) -> None:
    events = decode("ollama", data)
    [part] = accumulate(events).parts
    assert isinstance(part, ToolCall)
    assert (part.runs, part.arguments, error in str(part.error)) == (False, {}, True)
    assert accumulate(decode("ollama", encode(*events)[0])).tool_calls == []


SHELL = Response(id="r", model="m", created=0.0)


def thought(key: int, *words: str, **fields: Any) -> list[Event]:
    part = Thinking("", opaque=Opaque("anthropic", {}), **fields)
    return [PartStart(key, part), *(ThinkingDelta(key, text) for text in words), PartEnd(key, part)]


EVENTS: list[Event] = [
    MessageStart(SHELL),
    *thought(0, "h", "m", signature="S"),
    *thought(1, "so"),
    PartStart(2, Text("")),
    TextDelta(2, "a"),
    TextDelta(2, "\u00e9\u2028"),
    PartEnd(2, Text("")),
    *asked(3, ToolCall("c", "a b", {"x": 1})),
    *asked(4, ToolCall("d", "cut", {}, 1, complete=False, raw='{"x')),
    UsageDelta(Usage(3, 4)),
    ended("tool_calls"),
    MessageEnd(),
]
SAID = (
    {"thinking": "h"},
    {"thinking": "m"},
    {"thinking": "\nso"},
    {"content": "a"},
    {"content": "\u00e9\u2028"},
)


def test_events_make_lines() -> None:
    data, lost = encode(*EVENTS)
    asks = {"tool_calls": [{"function": {"name": "a b", "arguments": {"x": 1}}, "id": "c"}]}
    end = {"done_reason": "stop", "done": True, "prompt_eval_count": 3, "eval_count": 4}
    shell = {"model": "m", "created_at": "1970-01-01T00:00:00Z"}
    base = {"role": "assistant", "content": ""}
    lines = [{**shell, "message": {**base, **said}, "done": False} for said in (*SAID, asks)]
    assert bodies_of(data) == [*lines, {**shell, "message": base, **end}]
    assert b"\\u2028" in data
    assert lost == [
        ("id", "id", "formal"),
        ("choices[0].message.content[0].signature", "thinking_signature", "semantic"),
        ("choices[0].message.content", "thinking", "minor"),
        ("choices[0].message.content[4]", "incomplete_call", "semantic"),
    ]
    assert [RESPONSES["ollama"](body) for body in bodies_of(data)] == [None] * 7


def test_the_client_reads_what_is_written() -> None:
    told = READERS["ollama"](encode(*EVENTS)[0])
    assert (told.text, told.thinking, told.finish) == ("a\u00e9\u2028", "hm\nso", "stop")
    assert (told.calls, told.usage, told.error) == (((None, "a b", {"x": 1}),), (3, 4), None)


def test_words_and_calls_go_out_at_once() -> None:
    encoder = ollama.encode_stream()
    at_once = (ThinkingDelta, TextDelta, MessageEnd)
    for event in EVENTS:
        whole = isinstance(event, CallEnd) and event.call.complete
        assert encoder.feed(event).count(b"\n") == (whole or isinstance(event, at_once))


@pytest.mark.parametrize("shell", [SHELL, Response(model="m", opaque=Opaque("ollama", {}))])
def test_what_broke_off_elsewhere_is_an_error_here(shell: Response) -> None:
    data, _ = encode(MessageStart(shell), PartStart(0, Text("")), TextDelta(0, "a"))
    assert ["error" in body for body in bodies_of(data)] == ([False] if shell.opaque else [False, True])
    assert accumulate(decode("ollama", data)).content == "a"


def test_nothing_follows_an_error() -> None:
    data, lost = encode(MessageStart(SHELL), ErrorEnd(Error("rate_limit", "slow down")), *EVENTS[1:])
    assert bodies_of(data) == [{"error": "slow down"}]
    assert [concept for _, concept, _ in lost] == ["id", "error_kind"] or lost[0][1] == "id"


def test_refusals_are_words_and_other_answers_are_lost() -> None:
    data, lost = encode(
        *(MessageStart(Response(model="m")), PartStart(0, Refusal("")), RefusalDelta(0, "no")),
        *(PartEnd(0, Refusal("")), PartStart(1, Text(""), 1), TextDelta(1, "x"), PartEnd(1, Text(""))),
        *(ended("refusal"), MessageEnd()),
    )
    assert accumulate(decode("ollama", data)).content == "no"
    assert [concept for _, concept, _ in lost] == ["refusal", "choices", "finish_reason"]
