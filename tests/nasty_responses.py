"""Nasty streams of Responses: items whose beginning, middle or end is left out."""

from typing import Any

from tests.nasty_row import MADE, Body, Call, Row, Told, cut, event, spoil

X, Y = '{"x":1}', '{"y":2}'
CALL_A: Call = ("a", "f", {"x": 1})
CALL_B: Call = ("b", "g", {"y": 2})
A, B, AB = (CALL_A,), (CALL_B,), (CALL_A, CALL_B)


def named(kind: str, **body: Any) -> bytes:
    """Write an event under its name."""
    return event({"type": f"response.{kind}", **body}, f"response.{kind}")


def state(kind: str, **more: Any) -> bytes:
    """Write an event of the whole response."""
    shell: Body = {"id": "r1", "object": "response", "created_at": 1, "model": "m", "output": []}
    return named(kind, response={**shell, "status": kind, **more})


def about(place: int, **more: Any) -> Body:
    """Say which item an event is about."""
    return {"item_id": f"i{place}", "output_index": place, **more}


def call(place: int, text: str, status: str = "completed", **more: Any) -> Body:
    """Make a call: the first is one of `f`, the second one of `g`."""
    names = {"call_id": "ab"[place], "name": "fg"[place]}
    return {"id": f"i{place}", "type": "function_call", "status": status, **names, "arguments": text, **more}


def added(place: int, item: Body) -> bytes:
    """Write the beginning of an item."""
    return named("output_item.added", output_index=place, item=item)


def done(place: int, item: Body) -> bytes:
    """Write the end of an item."""
    return named("output_item.done", output_index=place, item=item)


def fill(place: int, text: str) -> bytes:
    """Write a fragment of a call's arguments."""
    return named("function_call_arguments.delta", **about(place, delta=text))


def filled(place: int, text: str) -> bytes:
    """Write the whole arguments of a call."""
    return named("function_call_arguments.done", **about(place, arguments=text))


def message(place: int, *texts: str) -> Body:
    """Make a message."""
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {
        "id": f"i{place}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def say(place: int, text: str) -> bytes:
    """Write words."""
    return named("output_text.delta", **about(place, content_index=0, delta=text))


START, END = state("created", status="in_progress"), state("completed")
BEGUN = added(0, call(0, "", "in_progress"))
FIRST = (BEGUN, fill(0, '{"x"'), fill(0, ":1}"), filled(0, X), done(0, call(0, X)))
SECOND = (
    *(added(1, call(1, "", "in_progress")), fill(1, '{"y":'), fill(1, "2}"), filled(1, Y)),
    done(1, call(1, Y)),
)
WORDS = (added(0, message(0)), say(0, "Hel"), say(0, "lo"), done(0, message(0, "Hello")))
LIMIT = state("incomplete", incomplete_details={"reason": "max_output_tokens"})
FAILED = state("failed", error={"code": "server_error", "message": "boom"})
ERROR = event({"type": "error", "code": "server_error", "message": "boom", "param": None}, "error")
HALF = done(0, call(0, '{"x"', "incomplete"))


def row(name: str, *frames: bytes, nasty: bool = True, ended: bool = True, **told: Any) -> Row:
    """Make a row; unless it says otherwise, the answer asks for tools."""
    return Row(dialect="openai-responses", name=name, frames=frames, told=Told(**told), ended=ended, nasty=nasty)


def numbered(frame: bytes, number: int) -> bytes:
    """Number an event."""
    return frame.replace(b'"type"', b'"sequence_number":%d,"type"' % number, 1)


def untyped(frame: bytes) -> bytes:
    """Leave out the type of a body, which is the name of the event too."""
    name = frame.partition(b"\n")[0].removeprefix(b"event: ")
    return frame.replace(b'"type":"' + name + b'"', b'"x":0', 1)


def without(item: Body) -> Body:
    """Leave out the id that results name."""
    return {key: value for key, value in item.items() if key != "call_id"}


BENIGN = (
    row("words", START, *WORDS, END, text="Hello", finish="stop", nasty=False),
    row("two calls", START, *FIRST, *SECOND, END, calls=AB, nasty=False),
    row(
        "interleaved calls",
        *(START, BEGUN, SECOND[0], FIRST[1], SECOND[1], FIRST[2], SECOND[2], SECOND[3], SECOND[4]),
        *(FIRST[3], FIRST[4], END),
        calls=AB,
        nasty=False,
    ),
    row("words and a call", START, *WORDS, *SECOND, END, text="Hello", calls=B, nasty=False),
    row("words without a beginning", START, say(0, "Hi"), END, text="Hi", finish="stop", nasty=False),
    row(
        "a thought",
        *(START, added(0, {"id": "i0", "type": "reasoning", "summary": []})),
        named("reasoning_summary_text.delta", **about(0, summary_index=0, delta="hm")),
        done(0, {"id": "i0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
        *(*SECOND, END),
        thinking="hm",
        calls=B,
        nasty=False,
    ),
    row(
        "what nobody knows",
        *(
            START,
            named("news", x=1),
            added(0, {"id": "i0", "type": "odd"}),
            done(0, {"id": "i0", "type": "odd"}),
        ),
        *(*SECOND, END),
        calls=B,
        nasty=False,
    ),
    row(
        "events without names",
        *(frame[frame.index(b"data: ") :] for frame in (START, *FIRST, END)),
        calls=A,
        nasty=False,
    ),
    row(
        "no deltas for no arguments",
        START,
        BEGUN,
        done(0, call(0, "")),
        END,
        calls=(("a", "f", {}),),
        nasty=False,
    ),
    row(
        "nothing done but the answer",
        START,
        *FIRST[:3],
        state("completed", output=[call(0, X)]),
        calls=A,
        nasty=False,
    ),
)

ITEMS = (
    row("no deltas", START, BEGUN, *FIRST[3:], *SECOND, END, calls=AB),
    row("no deltas, nothing filled", START, BEGUN, FIRST[4], *SECOND, END, calls=AB),
    row("nothing added", START, *FIRST[1:], *SECOND[1:], END, calls=AB),
    row("nothing but what is done", START, FIRST[4], SECOND[4], END, calls=AB),
    row("nothing but the end", START, state("completed", output=[call(0, X), call(1, Y)]), calls=AB),
    row("half of the deltas", START, BEGUN, FIRST[1], *FIRST[3:], END, calls=A),
    row(
        "one place for all items",
        *(frame.replace(b'"output_index":1', b'"output_index":0') for frame in (START, *FIRST, *SECOND, END)),
        calls=AB,
    ),
    row(
        "no places",
        *(
            frame.replace(b'"output_index":', b'"x":')
            for frame in (START, BEGUN, *SECOND[:2], *FIRST[1:], *SECOND[2:], END)
        ),
        calls=AB,
    ),
    row(
        "a step twice",
        *(
            named("created", sequence_number=0, response={"id": "r1"}),
            numbered(BEGUN, 1),
            *[numbered(fill(0, '{"x"'), 2)] * 2,
        ),
        *(numbered(fill(0, ":1}"), 3), numbered(fill(0, '{"x"'), 2), numbered(FIRST[4], 4), END),
        calls=A,
    ),
    row(
        "two names for one call",
        START,
        *FIRST[:4],
        done(0, call(0, X, name="h")),
        *SECOND,
        END,
        calls=B,
        broken=(X,),
    ),
    row(
        "no id of the call",
        *(START, added(0, without(call(0, ""))), fill(0, X), done(0, without(call(0, X))), *SECOND, END),
        calls=((MADE, "f", {"x": 1}), CALL_B),
    ),
    row(
        "a key twice",
        START,
        BEGUN,
        fill(0, '{"x":1,"x":2}'),
        done(0, call(0, '{"x":1,"x":2}')),
        END,
        broken=('{"x":1,"x":2}',),
    ),
    row(
        "no JSON",
        START,
        BEGUN,
        fill(0, '{"x":'),
        done(0, call(0, '{"x":')),
        *SECOND,
        END,
        calls=B,
        broken=('{"x":',),
    ),
    row(
        "no UTF-8 in arguments",
        START,
        BEGUN,
        spoil(fill(0, '{"x":"\0"}'), b"\xff"),
        END,
        broken=('{"x":"\ufffd"}',),
        finish="stop",
    ),
)

ENDINGS = (
    row("a limit in a call", START, *FIRST[:2], HALF, LIMIT, broken=('{"x"',), finish="length"),
    row("a limit in a call that is not done", START, *FIRST[:2], LIMIT, broken=('{"x"',), finish="length"),
    row(
        "a limit in the second call",
        *(START, *FIRST, *SECOND[:2], done(1, call(1, '{"y":', "incomplete")), LIMIT),
        calls=A,
        broken=('{"y":',),
        finish="length",
    ),
    row(
        "a limit before the arguments",
        *(START, *FIRST, SECOND[0], done(1, call(1, "", "incomplete")), LIMIT),
        calls=A,
        broken=("",),
        finish="length",
    ),
    row("lost in the words", START, *WORDS[:2], text="Hel", finish="incomplete", ended=False),
    row("lost in a call", START, *FIRST[:2], broken=('{"x"',), finish="incomplete", ended=False),
    row(
        "lost after a call that nothing closed",
        START,
        *FIRST[:3],
        broken=(X,),
        finish="incomplete",
        ended=False,
    ),
    row("lost after a call", START, *FIRST, calls=A, finish="incomplete", ended=False),
    row(
        "lost in a frame",
        START,
        *FIRST,
        SECOND[0],
        SECOND[1][:-2],
        calls=A,
        broken=('{"y":',),
        finish="incomplete",
        ended=False,
    ),
    row("failed in the words", START, *WORDS[:2], FAILED, text="Hel", finish="error", ended=False),
    row(
        "failed in a call",
        START,
        *FIRST,
        *SECOND[:2],
        FAILED,
        calls=A,
        broken=('{"y":',),
        finish="error",
        ended=False,
    ),
    row("an error in the words", START, *WORDS[:2], ERROR, END, text="Hel", finish="error", ended=False),
    row("nothing but an error", ERROR, finish="error", ended=False),
)

FRAMES = (
    row("names without types", *(untyped(frame) for frame in (START, *FIRST, END)), calls=A),
    row(
        "no space after the colon",
        *(frame.replace(b"data: ", b"data:") for frame in (START, *FIRST, END)),
        calls=A,
    ),
    row(
        "a letter over two reads",
        START,
        WORDS[0],
        *cut(say(0, "aéb"), b"\xc3"),
        END,
        text="aéb",
        finish="stop",
    ),
    row(
        "a line as only Python sees it",
        START,
        WORDS[0],
        say(0, "a\u2028b"),
        END,
        text="a\u2028b",
        finish="stop",
    ),
    row(
        "no stream, but an answer",
        event({"id": "r1", "object": "response", "status": "completed", "output": [message(0, "Hi")]})[6:],
        text="Hi",
        finish="stop",
    ),
)

RESPONSES = (*BENIGN, *ITEMS, *ENDINGS, *FRAMES)
