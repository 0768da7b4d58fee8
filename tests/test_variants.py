"""Variants of what once came out wrong: on another wire, streamed, at another place, of another type, or left out.

A row says what a reader gets, and what a user expects of it. Each is read whole and cut at each byte, and translated
to each other wire and read again there.
"""

import json
import re
from typing import Any, Literal

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests import nasty_anthropic as messages
from tests import nasty_chat as chat
from tests import nasty_gemini as gemini
from tests import nasty_responses as items
from tests.client.canned import Canned
from tests.client.faces import DIALECTS, FACES, lead
from tests.client.faces import chat as client_chat
from tests.nasty_row import Body, Call, decode, event, line, tell
from tests.test_servers import LINK, NO_ARGUMENTS, SHELLS, decoded, translated
from toolwire import (
    Context,
    Message,
    MessageEnd,
    Request,
    Response,
    Tool,
    ToolCall,
    ToolResult,
    accumulate,
    dialect,
    tool,
    translate,
)
from toolwire.dialects import NAMES
from toolwire.testing import simulate
from toolwire.types import ErrorEnd

Counts = tuple[int | None, int | None]


class Row(Struct, frozen=True):
    """A stream of a wire, and what it tells; `counts` are the tokens of the prompt and of the answer."""

    wire: str
    name: str
    data: bytes
    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    counts: Counts | None = None


def row(wire: str, name: str, *frames: bytes, **told: Any) -> Any:
    """Make a row, which stands under its name."""
    return pytest.param(Row(wire, name, b"".join(frames), **told), id=f"{wire}: {name}")


def counts_of(wire: str, data: bytes) -> Counts | None:
    """Give the tokens that a stream tells of."""
    usage = accumulate(decode(wire, [data])).usage
    return None if usage is None else (usage.input_tokens, usage.output_tokens)


# Counts in pieces, at other places, and said again as nothing.


def chat_counts(**beside: Any) -> Body:
    """Write counts of Chat Completions."""
    return {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, **beside}


def spoken(*last: bytes, first: bytes = b"", **end: Any) -> tuple[bytes, ...]:
    """Write an answer of Chat Completions, with more in the chunk that ends it, and more chunks around."""
    return (first, chat.say("Hi"), chat.chunk({}, "stop", **end), *last, chat.DONE)


def ended(**choice: Any) -> Body:
    """Write the choices of a chunk that ends an answer."""
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", **choice}]}


def counting(**usage: Any) -> bytes:
    """Write a chunk of nothing but counts."""
    return chat.chunk(choices=[], usage=usage)


def message(first: Any, *last: Any) -> tuple[bytes, ...]:
    """Write an answer of Messages with its first counts and its last ones."""
    usages = [{} if usage is ... else {"usage": usage} for usage in (first, *last)]
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    return (
        messages.named("message_start", message={**messages.MESSAGE, "stop_reason": None, **usages[0]}),
        *(messages.TEXT, messages.say(0, "Hi"), messages.stop(0)),
        *(messages.named("message_delta", delta=delta, **usage) for usage in usages[1:]),
        messages.STOP,
    )


BOTH = {"input_tokens": 7, "output_tokens": 5}
SAID: Body = {"usage": {**BOTH, "total_tokens": 12}}
GEMINI_COUNTS = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
WORDS = (items.added(0, items.message(0)), items.say(0, "Hi"), items.done(0, items.message(0, "Hi")))


def chunks(*counts: Any) -> tuple[bytes, ...]:
    """Write an answer of Gemini with these counts in its chunks."""
    beside = [{} if usage is ... else {"usageMetadata": usage} for usage in counts]
    last = gemini.chunk({"text": "i"}, finish="STOP", **beside[-1])
    return (*(event(gemini.chunk({"text": "H"}, **usage)) for usage in beside[:1]), event(last))


def eaten(**counts: int) -> Body:
    """Write a line of Ollama with counts."""
    return {"model": "m", "created_at": "2026-01-01T00:00:00Z", **counts}


SPOKEN: Body = {"message": {"role": "assistant", "content": "Hi"}, "done": False}
OVER = {"done": True, "done_reason": "stop"}
COUNTED = [
    row("openai-chat", "in the last choice", *spoken(**ended(usage=chat_counts()))),
    row("openai-chat", "in the last choice and beside it", *spoken(counting(**chat_counts()), **ended(usage={}))),
    row("openai-chat", "in what Groq says beside", *spoken(x_groq={"id": "r", "usage": chat_counts()})),
    row("openai-chat", "with the last choice", *spoken(usage=chat_counts())),
    row("openai-chat", "in a chunk without choices", *spoken(event({"id": "c1", "usage": chat_counts()}))),
    row("openai-chat", "in a chunk whose choices are null", *spoken(chat.chunk(choices=None, usage=chat_counts()))),
    row("openai-chat", "and then none", *spoken(counting(), usage=chat_counts())),
    row("openai-chat", "and then null", *spoken(chat.chunk(choices=[], usage=None), usage=chat_counts())),
    row("openai-chat", "and then nulls", *spoken(counting(prompt_tokens=None), usage=chat_counts())),
    row("openai-chat", "one first and one last",
        *spoken(counting(completion_tokens=5), first=chat.chunk({"role": "assistant"}, usage={"prompt_tokens": 7}))),
    row("openai-chat", "growing", *spoken(counting(**chat_counts()), usage=chat_counts(completion_tokens=2))),
    row("openai-chat", "a total that is null", *spoken(counting(**chat_counts(total_tokens=None)))),
    row("openai-responses", "at the end", items.START, *WORDS, items.state("completed", **SAID)),
    row("openai-responses", "at the end as some call it", items.START, *WORDS,
        items.named("done", response={"id": "r1", "status": "completed", "output": [], **SAID})),
    row("openai-responses", "before the end, which has none", items.START,
        items.state("in_progress", **SAID), *WORDS, items.state("completed")),
    row("anthropic", "first and last", *message({**BOTH, "output_tokens": 1}, {"output_tokens": 5})),
    row("anthropic", "only first", *message(BOTH, ...)),
    row("anthropic", "only last", *message(..., BOTH)),
    row("anthropic", "first null", *message(None, BOTH)),
    row("anthropic", "first, and then null", *message(BOTH, None)),
    row("anthropic", "first, and then none", *message(BOTH, {})),
    row("anthropic", "first, and then nulls", *message(BOTH, {"input_tokens": None, "output_tokens": None})),
    row("anthropic", "first zeros", *message({"input_tokens": 0, "output_tokens": 0}, BOTH)),
    row("anthropic", "in two last steps", *message({**BOTH, "output_tokens": 1}, {"output_tokens": 3}, BOTH)),
    row("gemini", "in each chunk", *chunks({**GEMINI_COUNTS, "candidatesTokenCount": 1}, GEMINI_COUNTS)),
    row("gemini", "only first", *chunks(GEMINI_COUNTS, ...)),
    row("gemini", "first, and then null", *chunks(GEMINI_COUNTS, None)),
    row("gemini", "first, and then none", *chunks(GEMINI_COUNTS, {})),
    row("gemini", "one first and one last", *chunks({"promptTokenCount": 7}, {"candidatesTokenCount": 5})),
    row("gemini", "after the end", *chunks(..., ...), event({"usageMetadata": GEMINI_COUNTS})),
    row("ollama", "at the end", line(eaten() | SPOKEN), line(eaten(prompt_eval_count=7, eval_count=5) | OVER)),
    row("ollama", "before the end", line(eaten(prompt_eval_count=7, eval_count=5) | SPOKEN), line(eaten() | OVER)),
    row("ollama", "growing", line(eaten(prompt_eval_count=7, eval_count=1) | SPOKEN),
        line(eaten(prompt_eval_count=7, eval_count=5) | OVER)),
]  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_counts_are_told_wherever_they_stand(case: Row) -> None:
    for wire in NAMES:
        told = case.data if wire == case.wire else translated(case.data, case.wire, wire)
        assert (wire, counts_of(wire, told)) == (wire, (7, 5))
        assert accumulate(decode(wire, [told])).content == "Hi"


# Calls and results that name no call.

NONE = (..., None, "")


def named(key: str, call_id: Any) -> Body:
    """Write an id, or none."""
    return {} if call_id is ... else {key: call_id}


def asking(wire: str, called: Any, answered: Any) -> Body:
    """Write a conversation of two calls and their results, with these ids."""
    asked: Body = {"role": "user", "content": "Go."}
    names, key = ("f", "g"), {"openai-chat": "id", "openai-responses": "call_id"}
    one, other = named(key.get(wire, "id"), called), answered
    match wire:
        case "openai-chat":
            calls = [{**one, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
            results = [{"role": "tool", **named("tool_call_id", other), "content": f"by {name}"} for name in names]
            said = {"role": "assistant", "content": None, "tool_calls": calls}
            return {"model": "m", "messages": [asked, said, *results]}
        case "openai-responses":
            begun = [{"type": "function_call", **one, "name": name, "arguments": "{}"} for name in names]
            ended = [
                {"type": "function_call_output", **named("call_id", other), "output": f"by {name}"} for name in names
            ]
            return {"model": "m", "input": [asked, *begun, *ended]}
        case "anthropic":
            used = [{"type": "tool_use", **one, "name": name, "input": {}} for name in names]
            given = [{"type": "tool_result", **named("tool_use_id", other), "content": f"by {name}"} for name in names]
            told = [asked, {"role": "assistant", "content": used}, {"role": "user", "content": given}]
            return {"model": "m", "max_tokens": 9, "messages": told}
        case "gemini":
            parts = [{"functionCall": {**one, "name": name, "args": {}}} for name in names]
            back = [
                {"functionResponse": {**named("id", other), "name": name, "response": {"output": f"by {name}"}}}
                for name in names
            ]
            go = {"role": "user", "parts": [{"text": "Go."}]}
            return {"contents": [go, {"role": "model", "parts": parts}, {"role": "user", "parts": back}]}
    entries = [{**one, "function": {"name": name, "arguments": {}}} for name in names]
    lines = [{"role": "tool", **named("tool_call_id", other), "content": f"by {name}"} for name in names]
    return {"model": "m", "messages": [asked, {"role": "assistant", "content": "", "tool_calls": entries}, *lines]}


def answers(request: Request) -> list[tuple[str, Any]]:
    """Give the name of each call with the content of the one result that answers it."""
    parts = [part for message in request.messages for part in message.parts]
    results = {part.tool_call_id: part.content for part in parts if type(part) is ToolResult}
    return [(part.name, results[part.id]) for part in parts if type(part) is ToolCall]


@pytest.mark.sampled
@pytest.mark.parametrize("answered", NONE, ids=["absent", "null", "empty"])
@pytest.mark.parametrize("called", NONE, ids=["absent", "null", "empty"])
@pytest.mark.parametrize("source", NAMES)
def test_results_that_name_no_call_answer_in_order(source: str, called: Any, answered: Any) -> None:
    body = asking(source, called, answered)
    assert dialect(source).encode_request(dialect(source).decode_request(body)).body == body
    for target in {*NAMES} - {source}:
        encoded = translate.request(body, source, target)
        assert {loss.concept for loss in encoded.losses}.isdisjoint({"missing_result", "orphan_result", "message"})
        assert answers(dialect(target).decode_request(encoded.body)) == [("f", "by f"), ("g", "by g")]


@pytest.mark.sampled
@pytest.mark.parametrize("value", [{"a": 1}, {}, [1, "b"], [{"a": [None]}], ["b"], 5, 1.5, True], ids=json.dumps)
@pytest.mark.parametrize("source", NAMES)
def test_a_result_that_is_a_value_reaches_each_model_as_its_text(source: str, value: Any) -> None:
    words, told = json.dumps(value, separators=(",", ":")), '{"output": "by f"}' if source == "gemini" else '"by f"'
    spoken = json.dumps(asking(source, ..., ...))
    body = json.loads(spoken.replace(told, json.dumps(value)))
    request = dialect(source).decode_request(body)
    assert dialect(source).encode_request(request).body == body
    for target in {*NAMES} - {source}:
        encoded = translate.request(body, source, target)
        assert [str(loss) for loss in encoded.losses if loss.concept in {"opaque", "tool_result"}] == []
        assert answers(dialect(target).decode_request(encoded.body))[0] == ("f", words)
    again = dialect(source).encode_request(replace(request, context=changed(request.context))).body
    assert again == json.loads(spoken.replace("by f", "other"))


def changed(context: Context) -> Context:
    """Have the first result say something else."""
    place = next(place for place, message in enumerate(context.messages) if type(message.parts[0]) is ToolResult)
    messages = list(context.messages)
    first, *rest = messages[place].parts
    messages[place] = replace(messages[place], content=[replace(first, content="other"), *rest])
    return replace(context, messages=messages)


# A word for the end that is another wire's.

WORDS_OF_ENDS = {
    "stop": ("stop", "end_turn", "eos", "STOP"),
    "length": ("length", "max_tokens", "MAX_TOKENS"),
    "tool_calls": ("tool_calls", "tool_use", "function_call"),
    "content_filter": ("content_filter",),
}
OWN_WORDS: dict[str, tuple[str, str]] = {
    "openai-chat": ("finish_reason", "tool_calls"),
    "anthropic": ("stop_reason", "tool_use"),
    "gemini": ("finishReason", "STOP"),
    "ollama": ("done_reason", "stop"),
}


@pytest.mark.parametrize("reason", WORDS_OF_ENDS)
@pytest.mark.parametrize("source", OWN_WORDS)
def test_a_word_of_another_wire_says_why_an_answer_ended(source: str, reason: str) -> None:
    key, own = OWN_WORDS[source]
    body, stream = NO_ARGUMENTS[source][-1]
    wanted = "tool_calls" if reason == "stop" else reason
    for word in WORDS_OF_ENDS[reason]:
        said = json.loads(json.dumps(body).replace(f'"{key}": "{own}"', f'"{key}": "{word}"'))
        read = dialect(source).decode_response(said)
        streamed = decoded(source, stream.replace(f'"{key}":"{own}"'.encode(), f'"{key}":"{word}"'.encode()))
        assert (read.finish_reason, streamed.finish_reason) == (wanted, wanted)
        assert read.raw_finish_reason == streamed.raw_finish_reason == word
        assert dialect(source).encode_response(read).body == said
        if wanted == "tool_calls":
            for target in {*NAMES} - {source}:
                encoded = translate.response(said, source, target)
                assert dialect(target).decode_response(encoded.body).finish_reason == wanted
                assert "finish_reason" not in {loss.concept for loss in encoded.losses}


# Messages as other wires spell them, given to a client or a context.

PDF, PIXELS = "JVBERi0xLjcK", "iVBORw0KGgo="
PDF_URL, PIXELS_URL = f"data:application/pdf;base64,{PDF}", f"data:image/png;base64,{PIXELS}"
SAID_ELSEWHERE: dict[str, tuple[Body, str, str]] = {
    "a file": ({"type": "file", "file": {"file_data": PDF_URL, "filename": "a.pdf"}}, PDF, "openai-chat"),
    "a file of Responses": ({"type": "input_file", "file_data": PDF_URL, "filename": "a"}, PDF, "openai-responses"),
    "a linked file": ({"type": "input_file", "file_url": LINK}, LINK, "openai-responses"),
    "a picture": ({"type": "image_url", "image_url": {"url": PIXELS_URL}}, PIXELS, "openai-chat"),
    "a picture of Responses": ({"type": "input_image", "image_url": PIXELS_URL}, PIXELS, "openai-responses"),
    "a picture of Messages": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXELS}},
        PIXELS,
        "anthropic",
    ),
}
# No file goes to Ollama, and none by its address to Chat Completions.
CANNOT = {(case, "ollama") for case in SAID_ELSEWHERE if "file" in case} | {("a linked file", "openai-chat")}


@pytest.mark.sampled
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("case", SAID_ELSEWHERE)
def test_a_part_in_the_words_of_any_wire_reaches_each_wire(case: str, target: str) -> None:
    part, sign, home = SAID_ELSEWHERE[case]
    said = {"role": "user", "content": [{"type": "text", "text": "See:"}, part]}
    encoded = dialect(target).encode_request(Request(context=Context(None, [said]), model="m", max_tokens=9))
    lost = [loss for loss in encoded.losses if loss.severity == "semantic"]
    assert (sign in json.dumps(encoded.body), bool(lost)) == ((case, target) not in CANNOT, (case, target) in CANNOT)
    if target == home:
        assert part in (encoded.body.get("messages") or encoded.body["input"])[0]["content"]


SPOKEN_ELSEWHERE: dict[str, Body] = {
    "an item of Responses": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    "one that came back": {
        "type": "message",
        "id": "msg_1",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "Hi"}],
    },
    "a message of Ollama with a picture": {"role": "user", "content": "Hi", "images": [PIXELS]},
}


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("case", SPOKEN_ELSEWHERE)
def test_a_client_takes_a_message_of_any_wire(case: str, name: str, face: str) -> None:
    with simulate(["Yes."]) as model:
        answer = client_chat(face, name, model.url, [SPOKEN_ELSEWHERE[case]], model="m")
        sent = json.dumps(model.requests[0].body)
    assert answer.content == "Yes."
    assert [loss for loss in answer.losses if loss.severity == "semantic"] == []
    assert '"Hi"' in sent
    assert (PIXELS in sent) is ("images" in SPOKEN_ELSEWHERE[case])


# What says nothing is no loss, also where it stands inside of something.

NULL_IN: dict[str, tuple[str, Body]] = {
    "a declaration of Chat Completions": (
        "openai-chat",
        {
            "model": "m",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [
                {"type": "function", "function": {"name": "f", "description": None, "parameters": None, "strict": None}}
            ],
        },
    ),
    "a declaration of Responses": (
        "openai-responses",
        {"model": "m", "input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": None, "strict": None}]},
    ),
    "a declaration of Gemini": (
        "gemini",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "tools": [{"functionDeclarations": [{"name": "f", "description": None, "parameters": None}]}],
        },
    ),
    "a declaration of Ollama": (
        "ollama",
        {
            "model": "m",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "f", "description": None, "parameters": None}}],
        },
    ),
    "a call of Chat Completions": ("openai-chat", asking("openai-chat", "a", "a")),
    "a call of Gemini": ("gemini", asking("gemini", "", "")),
    "a call of Ollama": ("ollama", asking("ollama", "a", "a")),
}


@pytest.mark.parametrize("case", NULL_IN)
def test_what_says_nothing_is_refused_by_no_target(case: str) -> None:
    source, body = NULL_IN[case]
    nulled = json.loads(json.dumps(body).replace('"arguments": "{}"', '"arguments": null'))
    nulled = json.loads(json.dumps(nulled).replace('"args": {}', '"args": null'))
    for told in (body, nulled):
        assert dialect(source).encode_request(dialect(source).decode_request(told)).body == told
        for target in {*NAMES} - {source}:
            translate.request(told, source, target, strict=True)


# An answer of Messages whose content is a text, as a request may have it.


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(("word", "reason"), [("end_turn", "stop"), ("max_tokens", "length"), ("", None)])
def test_a_content_that_is_a_text_is_the_answer(word: str, reason: str | None, target: str) -> None:
    usage = {"input_tokens": 7, "output_tokens": 5}
    body = {**SHELLS["anthropic"], "content": "Hi", "stop_reason": word, "stop_sequence": None, "usage": usage}
    encoded = translate.response(body, "anthropic", target)
    read = dialect(target).decode_response(encoded.body)
    assert (encoded.body == body) is (target == "anthropic")
    assert (read.content, read.usage and read.usage.total_tokens) == ("Hi", 12)
    assert read.finish_reason in {reason, reason or "stop"}
    assert decoded("anthropic", json.dumps(body).encode()).content == "Hi"


# A call whose arguments came, and found no call: it never runs with none.


def call_piece(**call: Any) -> bytes:
    """Write a chunk of Gemini that says something of a call."""
    return event(gemini.chunk({"functionCall": call}))


PIECES = [{"jsonPath": "$.x", "numberValue": 1}]
NAMED, ENDED = call_piece(name="f"), gemini.say("", "STOP")
WHOLE = call_piece(id="b", name="g", args={"y": 2})
STRAYED = [
    row("gemini", "a name after the pieces", call_piece(id="a", willContinue=True),
        call_piece(partialArgs=PIECES, willContinue=True), NAMED, ENDED, finish="stop"),
    row("gemini", "a name after the first piece", call_piece(id="a", partialArgs=PIECES, willContinue=True),
        NAMED, ENDED, finish="stop"),
    row("gemini", "a name after the pieces, and another call", call_piece(partialArgs=PIECES, willContinue=True),
        NAMED, WHOLE, ENDED, calls=(("b", "g", {"y": 2}),), finish="tool_calls"),
    row("gemini", "pieces after a call that was whole", NAMED, call_piece(partialArgs=PIECES), ENDED, finish="error"),
    row("gemini", "pieces after it, with its id", call_piece(id="a", name="f"),
        call_piece(id="a", partialArgs=PIECES), ENDED, finish="error"),
]  # fmt: skip


@pytest.mark.parametrize("case", STRAYED)
def test_arguments_that_found_no_call_leave_none_that_runs_without(case: Row) -> None:
    for told in (decoded(case.wire, case.data), accumulate(decode(case.wire, [bytes([one]) for one in case.data]))):
        assert told.finish_reason == case.finish
        if case.finish != "error":  # nothing of it runs
            assert [(call.id, call.name, call.arguments) for call in told.tool_calls] == [*case.calls]
            assert len(told.broken_calls) == 1


@pytest.mark.parametrize("key", ["partialArgs", "partial_args"])
def test_pieces_of_arguments_in_an_answer_that_is_no_stream_are_a_broken_call(key: str) -> None:
    part = {"functionCall": {"name": "f", key: PIECES}}
    body = gemini.chunk(part, finish="STOP")
    read = dialect("gemini").decode_response(body)
    assert (read.tool_calls, [call.name for call in read.broken_calls]) == ([], ["f"])
    assert dialect("gemini").encode_response(read).body == body
    for target in {*NAMES} - {"gemini"}:
        encoded = translate.response(body, "gemini", target)
        assert dialect(target).decode_response(encoded.body).tool_calls == []
        assert [loss for loss in encoded.losses if loss.severity == "semantic"]


# The end of Responses as some call it.

ENDS: dict[str, tuple[Body, str]] = {
    "all of it": ({"id": "r1", "status": "completed", "output": [items.call(0, items.X)]}, "tool_calls"),
    "no output": ({"id": "r1", "status": "completed"}, "tool_calls"),
    "an output that is null": ({"status": "completed", "output": None}, "tool_calls"),
    "a limit": ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
    "a failure": ({"status": "failed", "error": {"code": "server_error", "message": "no"}}, "error"),
    "no status": ({"id": "r1"}, "incomplete"),
    "one that goes on": ({"status": "in_progress"}, "incomplete"),
}


@pytest.mark.parametrize("case", ENDS)
def test_an_end_of_responses_by_another_name(case: str) -> None:
    last, reason = ENDS[case]
    told = decoded("openai-responses", b"".join((items.START, *items.FIRST, items.named("done", response=last))))
    assert told.finish_reason == reason
    assert [(call.id, call.name, call.arguments) for call in told.tool_calls] == [("a", "f", {"x": 1})]


# Streams whose calls are spelled otherwise: what runs has the name and the arguments of the wire, on each wire.

A, AB = (messages.CALL_A,), (messages.CALL_A, messages.CALL_B)
TOLD = "tool_calls"
_PLACE = re.compile(rb'"(index|output_index)":\d+')
_ITEM = re.compile(rb'"(item_id)":"\w+"')
PLACES: dict[str, bytes] = {
    "no place": b"",
    "a null for a place": b'"\\1":null',
    "a text for a place": b'"\\1":"0"',
    "a fraction for a place": b'"\\1":0.0',
    "a huge place": b'"\\1":2147483648',
    "a place below zero": b'"\\1":-1',
}
NAMELESS: dict[str, bytes] = {"no item": b"", "a null for an item": b'"\\1":null', "another item": b'"\\1":"zz"'}


def spelled(frames: tuple[bytes, ...], pattern: re.Pattern[bytes], written: bytes) -> tuple[bytes, ...]:
    """Write the first match of each frame in another way, or leave it out."""
    changed = [pattern.sub(written, frame, count=1) for frame in frames]
    return tuple(frame.replace(b",,", b",").replace(b"{,", b"{").replace(b",}", b"}") for frame in changed)


def placed(name: str, written: bytes) -> list[Any]:
    """Write streams of Messages and of Responses whose steps, or some of them, say their place in another way."""
    first, second = spelled(messages.FIRST, _PLACE, written), spelled(messages.SECOND, _PLACE, written)
    text = spelled((messages.TEXT, messages.say(0, "Hi"), messages.stop(0)), _PLACE, written)
    deltas = spelled(items.FIRST[1:4], _PLACE, written)
    ending = (messages.end(), messages.STOP)
    rows = [
        row("anthropic", f"{name}, everywhere", messages.START, *first, *second, *ending, calls=AB, finish=TOLD),
        row("anthropic", f"{name}, after text", messages.START, *text, *second, *ending,
            text="Hi", calls=AB[1:], finish=TOLD),
        row("anthropic", f"{name}, at the end", messages.START, *messages.FIRST[:4], first[4], *messages.SECOND,
            *ending, calls=AB, finish=TOLD),
        row("openai-responses", f"{name}, of deltas", items.START, items.BEGUN, *deltas, items.FIRST[4],
            *items.SECOND, items.END, calls=AB, finish=TOLD),
        row("openai-responses", f"{name}, of words", items.START, items.WORDS[0],
            *spelled(items.WORDS[1:3], _PLACE, written), items.END, text="Hello"),
    ]  # fmt: skip
    if "huge" in name or "below" in name:  # such a place is another one
        return rows
    deltas = spelled(messages.FIRST[2:4], _PLACE, written)
    return [
        *rows,
        row("anthropic", f"{name}, of deltas", messages.START, messages.FIRST[0], *deltas, messages.stop(0),
            *ending, calls=A, finish=TOLD),
        row("anthropic", f"{name}, at the start", messages.START, first[0], *messages.FIRST[1:], *messages.SECOND,
            *ending, calls=AB, finish=TOLD),
    ]  # fmt: skip


def unnamed(name: str | None = "", **beside: Any) -> bytes:
    """Write the beginning of a call of Responses that has no name yet."""
    return items.added(0, {**items.call(0, "", "in_progress", name=name), **beside})


GIVEN, DONE = items.fill(0, items.X), items.done(0, items.call(0, items.X))
VARIANTS = [
    *(case for name, written in PLACES.items() for case in placed(name, written)),
    *(
        row("openai-responses", f"{name}, of deltas", items.START, items.BEGUN,
            *spelled(items.FIRST[1:4], _ITEM, written), items.FIRST[4], *items.SECOND, items.END,
            calls=AB, finish=TOLD)
        for name, written in NAMELESS.items()
    ),
    row("openai-responses", "a name at the end", items.START, unnamed(), GIVEN, DONE, items.END, calls=A, finish=TOLD),
    row("openai-responses", "a name that is null, and one at the end", items.START, unnamed(name=None), GIVEN,
        items.filled(0, items.X), DONE, items.END, calls=A, finish=TOLD),
    row("openai-responses", "a name in the answer alone", items.START, unnamed(), GIVEN,
        items.state("completed", output=[items.call(0, items.X)]), calls=A, finish=TOLD),
    row("openai-responses", "an id of the call at the end", items.START,
        items.added(0, items.without(items.call(0, "", "in_progress"))), GIVEN, DONE, items.END, calls=A, finish=TOLD),
    row("openai-responses", "numbers of steps as text", items.START,
        *(items.numbered(frame, 0).replace(b'r":0', b'r":"%d"' % place) for place, frame in enumerate(items.WORDS)),
        items.END, text="Hello"),
    row("openai-responses", "numbers of steps that are lists", items.START,
        *(items.numbered(frame, 0).replace(b'r":0', b'r":[1]') for frame in items.WORDS), items.END, text="Hello"),
    row("anthropic", "a call that begins again with its name", messages.START,
        messages.begin(0, type="tool_use", id="a", input={}), *messages.FIRST, messages.end(), messages.STOP,
        calls=A, finish=TOLD),
    row("anthropic", "a null for a fragment", messages.START, messages.FIRST[0],
        messages.delta(0, "input_json_delta", "partial_json", None), *messages.FIRST[2:],  # type: ignore[arg-type]
        messages.end(), messages.STOP, calls=A, finish=TOLD),
    row("anthropic", "an end without a reason", messages.START, *messages.FIRST,
        messages.named("message_delta", delta={}), messages.STOP, calls=A, finish=TOLD),
    row("anthropic", "an end that is null", messages.START, *messages.FIRST,
        messages.named("message_delta", delta=None), messages.STOP, calls=A, finish=TOLD),
    row("anthropic", "the last word of Chat Completions", messages.START, *messages.FIRST, chat.DONE,
        calls=A, finish=TOLD),
    row("openai-chat", "the last word, and no reason", *chat.FIRST, chat.DONE, calls=A, finish=TOLD),
    row("openai-chat", "the last word, and a reason that is empty", *chat.FIRST, chat.end(""), chat.DONE,
        calls=A, finish=TOLD),
    row("openai-chat", "a name at the end", chat.ask(0, "a", text=chat.X), chat.ask(0, "a", "f", ""), chat.end(),
        chat.DONE, calls=A, finish=TOLD),
    row("openai-chat", "a name at the end, without an index", chat.ask(..., "a", text=chat.X),
        chat.ask(..., "a", "f", ""), chat.end(), chat.DONE, calls=A, finish=TOLD),
    row("openai-chat", "a name that is null at first", chat.ask(0, "a", None, chat.X), chat.ask(0, "a", "f"),
        chat.end(), chat.DONE, calls=A, finish=TOLD),
    row("openai-chat", "names of two calls at the end", chat.ask(0, "a", text=chat.X), chat.ask(1, "b", text=chat.Y),
        chat.ask(0, "a", "f", ""), chat.ask(1, "b", "g", ""), chat.end(), chat.DONE, calls=AB, finish=TOLD),
    row("openai-chat", "an object in two pieces with its name between", chat.ask(0, "a", text='{"x"'),
        chat.ask(0, "a", "f", ":1"), chat.ask(0, text="}"), chat.end(), chat.DONE, calls=A, finish=TOLD),
    row("gemini", "no index", event({"candidates": [{"content": {"parts": [gemini.F]}, "finishReason": "STOP"}]}),
        calls=A, finish=TOLD),
    row("gemini", "an index as text", event(gemini.chunk({"text": "H"}, index="0")),  # type: ignore[arg-type]
        event(gemini.chunk({"text": "i"}, finish="STOP")), text="Hi"),
    row("gemini", "one part that is no list", event(gemini.chunk(finish="STOP") | {"candidates": [
        {"index": 0, "content": {"role": "model", "parts": gemini.F}, "finishReason": "STOP"}]}),
        calls=A, finish=TOLD),
    row("gemini", "the last word of Chat Completions", gemini.FIRST, gemini.STOP, chat.DONE, calls=A, finish=TOLD),
    row("ollama", "an end without a reason", line(eaten() | {"message": {"role": "assistant", "content": "",
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]}, "done": False}),
        line(eaten(done=True)), calls=A, finish=TOLD),
    row("ollama", "arguments as text, at the end", line(eaten() | OVER | {"message": {"role": "assistant",
        "content": "", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}]}}),
        calls=A, finish=TOLD),
]  # fmt: skip


@pytest.mark.parametrize("case", VARIANTS)
def test_a_stream_that_is_spelled_otherwise_tells_the_same(case: Row) -> None:
    events = decode(case.wire, [case.data])
    assert decode(case.wire, [bytes([one]) for one in case.data]) == events
    told = tell(events)
    assert (told.text, told.calls, told.finish) == (case.text, case.calls, case.finish)
    for target in {*NAMES} - {case.wire}:
        again = tell(decode(target, [translated(case.data, case.wire, target)]))
        assert (target, again.text, again.finish) == (target, case.text, case.finish)
        assert [call[1:] for call in again.calls] == [call[1:] for call in case.calls]


# What a client makes of calls without ids, and of nulls that a strict tool asked for.


@tool
def now() -> str:
    """Tell the time."""
    return "12:00"


UNIT: list[Any] = []


@tool(strict=True)
def weather(city: str, unit: Literal["c", "f"] = "c", days: int | None = None) -> str:
    """Tell the weather of a city."""
    UNIT.append((city, unit, days))
    return "fine"


NO_ID = {"absent": "", "null": r'"\1": null, ', "empty": r'"\1": "", '}


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("written", NO_ID)
@pytest.mark.parametrize("name", NAMES)
def test_calls_without_ids_keep_apart_in_a_conversation(name: str, written: str, face: str) -> None:
    body = json.loads(re.sub(r'"(id|call_id)": "a", ', NO_ID[written], json.dumps(NO_ARGUMENTS[name][-1][0])))
    last = dialect(name).encode_response(Response.of(Message("assistant", "Noon."), "stop")).body
    led = lead(
        face, name, "http://x", "When?", tools=[now], options={"transport": Canned(body, body, last)}, fallback=False
    )
    calls = [call.id for said in led.done.messages for call in said.tool_calls]
    results = [part for said in led.done.messages for part in said.parts if type(part) is ToolResult]
    assert [(part.tool_call_id, part.content) for part in results] == [(call_id, "12:00") for call_id in calls]
    assert len({*calls}) == len(calls) == 2
    assert led.done.response.content == "Noon."


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_null_that_strictness_asked_for_is_not_given_to_its_tool(name: str, face: str, shown: bool) -> None:
    UNIT.clear()
    asked: list[Body] = [
        {"city": "SF", "unit": None, "days": None},
        {"city": "LA", "unit": "f"},
        {"city": "NY", "days": 2},
    ]
    with simulate([[ToolCall(None, "weather", each) for each in asked], "Done."]) as model:
        led = lead(face, name, model.url, "How is it?", shown=shown, tools=[weather])
    assert UNIT == [("SF", "c", None), ("LA", "f", None), ("NY", "c", 2)]
    assert led.done.response.content == "Done."


# An error in a stream is no good end, however it is spelled, and whatever follows.

BOOM = {"message": "boom", "code": 503}
FAILED: dict[str, tuple[str, tuple[bytes, ...]]] = {
    "an object of its own": ("openai-chat", (chat.say("Hi"), event({"object": "error", **BOOM}), chat.DONE)),
    "the same at first": ("openai-chat", (event({"object": "error", **BOOM}), chat.DONE)),
    "an event of its own": ("openai-chat", (chat.say("Hi"), event(BOOM, "error"), chat.DONE)),
    "under its key": ("openai-chat", (chat.say("Hi"), event({"error": BOOM}), chat.DONE)),
    "a text": ("openai-chat", (chat.say("Hi"), event({"error": "boom"}), chat.DONE)),
    "beside the last choice": ("openai-chat", (chat.say("Hi"), chat.chunk({}, "error", error=BOOM), chat.DONE)),
    "after the last choice": ("openai-chat", (chat.say("Hi"), chat.end("stop"), event({"error": BOOM}), chat.DONE)),
    "a step of Responses": ("openai-responses", (items.START, items.ERROR, items.END)),
    "a failed answer": ("openai-responses", (items.START, *items.WORDS[:2], items.FAILED, chat.DONE)),
    "a step of Messages": ("anthropic", (messages.START, messages.ERROR, messages.STOP)),
    "a chunk of Gemini": ("gemini", (gemini.say("Hi"), event({"error": BOOM}), gemini.STOP)),
    "a line of Ollama": ("ollama", (line(eaten() | SPOKEN), line({"error": "boom"}), line(eaten() | OVER))),
}


@pytest.mark.parametrize("case", FAILED)
def test_an_error_in_a_stream_is_its_end(case: str) -> None:
    source, told = FAILED[case]
    data = b"".join(told)
    for wire in NAMES:
        read = decode(wire, [data if wire == source else translated(data, source, wire)])
        [error] = [step.error for step in read if type(step) is ErrorEnd]
        assert error.message in {"boom", "busy"}
        assert read[-1] == MessageEnd(complete=False)
        assert accumulate(read).finish_reason in {"error", None}


# Contents of Gemini whose role another wire has.


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(("called", "answered"), [("assistant", "tool"), ("model", "tool"), ("assistant", "user")])
def test_a_role_of_another_wire_is_understood_in_contents(called: str, answered: str, target: str) -> None:
    body = asking("gemini", ..., ...)
    body["contents"][1]["role"], body["contents"][2]["role"] = called, answered
    encoded = translate.request(body, "gemini", target, strict=True)
    assert (encoded.body == body) is (target == "gemini")
    assert answers(dialect(target).decode_request(encoded.body)) == [("f", "by f"), ("g", "by g")]


# A declaration that does not say what it is.


@pytest.mark.parametrize("source", ["openai-chat", "ollama"])
@pytest.mark.parametrize("target", NAMES)
def test_a_declaration_without_a_type_is_a_function(source: str, target: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    declared = {"function": {"name": "f", "description": "d", "parameters": schema}}
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [declared]}
    encoded = translate.request(body, source, target, strict=True)
    assert (encoded.body == body) is (target == source)
    [read] = dialect(target).decode_request(encoded.body).tools
    assert isinstance(read, Tool)
    assert (read.name, read.description, read.plain_parameters) == ("f", "d", schema)


GOING_ON: dict[str, dict[str, Any]] = {
    "no arguments yet": {"name": "f", "args": {}, "willContinue": True},
    "pieces of arguments": {
        "name": "f",
        "willContinue": True,
        "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}],
    },
}


@pytest.mark.parametrize("call", GOING_ON.values(), ids=GOING_ON)
@pytest.mark.parametrize("target", NAMES)
def test_a_call_that_was_to_go_on_is_run_by_no_client(target: str, call: dict[str, Any]) -> None:
    body = {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": call}]}, "finishReason": "STOP"}]}
    written = translate.response(body, "gemini", target).body
    assert dialect(target).decode_response(written).tool_calls == []
    for told in written.get("choices", []):
        for one in told["message"].get("tool_calls", []):
            with pytest.raises(json.JSONDecodeError):
                json.loads(one["function"]["arguments"] or "{}")  # as clients do that take no text for no arguments
