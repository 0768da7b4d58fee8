"""Nasty streams of the Messages API: blocks that do not come one after the other, or do not end."""

from typing import Any

from tests.nasty_row import MADE, SOME, Body, Call, Row, Told, cut, event, spoil

X, Y = '{"x":1}', '{"y":2}'
CALL_A: Call = ("a", "f", {"x": 1})
CALL_B: Call = ("b", "g", {"y": 2})
A, B, AB = (CALL_A,), (CALL_B,), (CALL_A, CALL_B)


def named(kind: str, **body: Any) -> bytes:
    """Write an event under its name."""
    return event({"type": kind, **body}, kind)


def begin(index: int, **block: Any) -> bytes:
    """Write the start of a block."""
    return named("content_block_start", index=index, content_block=block)


def tool(index: int, call_id: str, name: str, **block: Any) -> bytes:
    """Write the start of a call."""
    return begin(index, **{"type": "tool_use", "id": call_id, "name": name, "input": {}, **block})


def delta(index: int, kind: str, field: str, value: str) -> bytes:
    """Write a delta."""
    return named("content_block_delta", index=index, delta={"type": kind, field: value})


def say(index: int, text: str) -> bytes:
    """Write words."""
    return delta(index, "text_delta", "text", text)


def fill(index: int, text: str) -> bytes:
    """Write a fragment of a call's input."""
    return delta(index, "input_json_delta", "partial_json", text)


def stop(index: int) -> bytes:
    """Write the end of a block."""
    return named("content_block_stop", index=index)


def end(reason: Any = "tool_use") -> bytes:
    """Write why the answer ended."""
    return named("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 2})


MESSAGE: Body = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
START = named(
    "message_start",
    message={**MESSAGE, "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}},
)
PING, STOP = named("ping"), named("message_stop")
ERROR = named("error", error={"type": "overloaded_error", "message": "busy"})
TEXT = begin(0, type="text", text="")
FIRST = (tool(0, "a", "f"), fill(0, ""), fill(0, '{"x"'), fill(0, ":1}"), stop(0))
SECOND = (tool(1, "b", "g"), fill(1, '{"y":'), fill(1, "2}"), stop(1))

OTHER = (begin(1, type="fallback", **{"from": {"model": "m"}, "to": {"model": "other"}}), stop(1))


def row(name: str, *frames: bytes, nasty: bool = True, ended: bool = True, **told: Any) -> Row:
    """Make a row; unless it says otherwise, the answer asks for tools."""
    return Row(dialect="anthropic", name=name, frames=frames, told=Told(**told), ended=ended, nasty=nasty)


def untyped(frame: bytes) -> bytes:
    """Leave out the type of a body, which is the name of the event too."""
    name = frame.partition(b"\n")[0].removeprefix(b"event: ")
    return frame.replace(b'"type":"' + name + b'"', b'"x":0', 1)


BENIGN = (
    row(
        "words",
        *(START, TEXT, PING, say(0, "Hel"), say(0, "lo"), stop(0), end("end_turn"), STOP),
        text="Hello",
        finish="stop",
        nasty=False,
    ),
    row("two calls", START, *FIRST, *SECOND, end(), STOP, calls=AB, nasty=False),
    row("no input", START, tool(0, "a", "f"), stop(0), end(), STOP, calls=(("a", "f", {}),), nasty=False),
    row(
        "a thought, words and a call",
        *(START, begin(0, type="thinking", thinking="", signature="")),
        *(
            delta(0, "thinking_delta", "thinking", "hm"),
            delta(0, "signature_delta", "signature", "s"),
            stop(0),
        ),
        *(begin(1, type="text", text=""), say(1, "So."), stop(1), tool(2, "a", "f"), fill(2, X), stop(2)),
        *(end(), STOP),
        text="So.",
        thinking="hm",
        calls=A,
        nasty=False,
    ),
    row(
        "many pings",
        *[PING] * 30,
        START,
        *[PING] * 30,
        *FIRST,
        *[PING] * 30,
        end(),
        STOP,
        calls=A,
        nasty=False,
    ),
    row("an end without a reason", START, *FIRST, STOP, calls=A),
    row("an end without a reason, after words", START, TEXT, say(0, "Hi"), stop(0), STOP, text="Hi", finish="stop"),
    row("an end whose reason is null", START, *SECOND, end(None), STOP, calls=B),
    row(
        "input for a text",
        *(START, TEXT, say(0, "Hi"), fill(0, X), stop(0), *SECOND, end(), STOP),
        text="Hi",
        calls=B,
        broken=(X,),
    ),
    row(
        "a beginning and deltas",
        *(START, tool(0, "a", "f", input={"z": 0}), fill(0, X), stop(0), end(), STOP),
        calls=A,
        nasty=False,
    ),
    row(
        "events without names",
        *(frame[frame.index(b"data: ") :] for frame in (START, *FIRST, end(), STOP)),
        calls=A,
        nasty=False,
    ),
    row(
        "what nobody knows",
        *(START, named("news", x=1), begin(0, type="odd"), delta(0, "odd_delta", "odd", "x"), stop(0)),
        *(*SECOND, end(), STOP),
        calls=B,
        nasty=False,
    ),
)

BLOCKS = (
    row(
        "interleaved calls",
        *(START, tool(0, "a", "f"), tool(1, "b", "g"), fill(0, '{"x"'), fill(1, '{"y"'), fill(0, ":1}")),
        *(fill(1, ":2}"), stop(1), stop(0), end(), STOP),
        calls=AB,
    ),
    row(
        "words while a call is open",
        *(START, tool(0, "a", "f"), fill(0, '{"x"'), begin(1, type="text", text=""), say(1, "Hm")),
        *(fill(0, ":1}"), say(1, "."), stop(0), stop(1), end(), STOP),
        text="Hm.",
        calls=A,
    ),
    row(
        "a key twice in a whole input at the start",
        START,
        tool(0, "a", "f", input={"x": 1}).replace(X.encode(), b'{"x":1,"x":2}'),
        stop(0),
        *SECOND,
        end(),
        STOP,
        calls=B,
        broken=(SOME,),
    ),
    row("no stops", START, *FIRST[:-1], *SECOND[:-1], end(), STOP, calls=AB),
    row("no stops, half a call", START, *FIRST[:-2], *SECOND[:-1], end(), STOP, calls=B, broken=('{"x"',)),
    row("a stop too many", START, *FIRST, stop(0), stop(7), end(), STOP, calls=A),
    row(
        "two starts on one index",
        START,
        *FIRST[:-1],
        tool(0, "b", "g"),
        fill(0, Y),
        stop(0),
        end(),
        STOP,
        calls=AB,
    ),
    row(
        "two starts on one index, half a call",
        *(START, *FIRST[:-2], tool(0, "b", "g"), fill(0, Y), stop(0), end(), STOP),
        calls=B,
        broken=('{"x"',),
    ),
    row("a whole input at the start", START, tool(0, "a", "f", input={"x": 1}), stop(0), end(), STOP, calls=A),
    row(
        "words at the start",
        *(START, begin(0, type="text", text="Hel"), say(0, "lo"), stop(0), end("end_turn"), STOP),
        text="Hello",
        finish="stop",
    ),
    row("words without a start", START, say(0, "Hi"), stop(0), end("end_turn"), STOP, text="Hi", finish="stop"),
    row(
        "input without a start",
        START,
        tool(0, "a", "f"),
        fill(5, X),
        fill(0, X),
        stop(0),
        end(),
        STOP,
        calls=A,
        broken=(X,),
    ),
    row(
        "words for a call",
        *(START, tool(0, "a", "f"), say(0, "x"), fill(0, X), stop(0), end(), STOP),
        text="x",
        calls=A,
        nasty=False,
    ),
    row(
        "no id",
        *(START, begin(0, type="tool_use", name="f", input={}), fill(0, X), stop(0), *SECOND, end(), STOP),
        calls=((MADE, "f", {"x": 1}), CALL_B),
    ),
    row(
        "a key twice",
        *(START, tool(0, "a", "f"), fill(0, '{"x":1,"x":2}'), stop(0), *SECOND, end(), STOP),
        calls=B,
        broken=('{"x":1,"x":2}',),
    ),
    row(
        "no UTF-8 in the input",
        *(START, tool(0, "a", "f"), spoil(fill(0, '{"x":"\0"}'), b"\xff"), stop(0), end(), STOP),
        broken=('{"x":"\ufffd"}',),
    ),
)

ENDINGS = (
    row("an ordinary end, with calls", START, *FIRST, end("end_turn"), STOP, calls=A),
    row(
        "a limit in a call",
        START,
        *FIRST[:-2],
        stop(0),
        end("max_tokens"),
        STOP,
        broken=('{"x"',),
        finish="length",
    ),
    row(
        "a limit in the second call",
        *(START, *FIRST, *SECOND[:-2], stop(1), end("max_tokens"), STOP),
        calls=A,
        broken=('{"y":',),
        finish="length",
    ),
    row(
        "a limit before the input",
        *(START, *FIRST, SECOND[0], stop(1), end("max_tokens"), STOP),
        calls=A,
        broken=("",),
        finish="length",
    ),
    row(
        "a refusal in a call",
        START,
        *FIRST[:-2],
        stop(0),
        end("refusal"),
        STOP,
        broken=('{"x"',),
        finish="refusal",
    ),
    row(
        "a refusal before the input, after which another model goes on",
        *(START, tool(0, "a", "f"), stop(0), *OTHER, tool(2, "b", "g"), fill(2, Y), stop(2), end(), STOP),
        calls=B,
        broken=("",),
    ),
    row(
        "a refusal in a call, after which another model goes on",
        *(START, *FIRST[:-2], stop(0), *OTHER, tool(2, "b", "g"), fill(2, Y), stop(2), end(), STOP),
        calls=B,
        broken=('{"x"',),
    ),
    row("lost in the words", START, TEXT, say(0, "Hel"), text="Hel", finish="incomplete", ended=False),
    row("lost in a call", START, *FIRST[:-2], broken=('{"x"',), finish="incomplete", ended=False),
    row("lost before a stop", START, *FIRST[:-1], broken=(X,), finish="incomplete", ended=False),
    row("lost after a call", START, *FIRST, calls=A, finish="incomplete", ended=False),
    row("lost before the last word", START, *FIRST, end(), calls=A, finish="incomplete", ended=False),
    row(
        "lost in a frame",
        START,
        *FIRST,
        *SECOND[:-1],
        SECOND[-1][:-3],
        calls=A,
        broken=(Y,),
        finish="incomplete",
        ended=False,
    ),
    row("an error in the words", START, TEXT, say(0, "Hel"), ERROR, text="Hel", finish="error", ended=False),
    row(
        "an error in a call",
        START,
        *FIRST,
        *SECOND[:-1],
        ERROR,
        STOP,
        calls=A,
        broken=(Y,),
        finish="error",
        ended=False,
    ),
    row("nothing but an error", ERROR, finish="error", ended=False),
)

FRAMES = (
    row(
        "names without types",
        *(untyped(frame) for frame in (START, TEXT, say(0, "Hi"), stop(0), *SECOND, end(), STOP)),
        text="Hi",
        calls=B,
    ),
    row("more after the end", START, *FIRST, end(), STOP, event({}), say(0, "x"), calls=A),
    row("no start", *FIRST, *SECOND, end(), STOP, calls=AB, nasty=False),
    row(
        "no space after the colon",
        *(frame.replace(b"data: ", b"data:") for frame in (START, *FIRST, end(), STOP)),
        calls=A,
    ),
    row(
        "a letter over two reads",
        START,
        TEXT,
        *cut(say(0, "aéb"), b"\xc3"),
        stop(0),
        end("end_turn"),
        STOP,
        text="aéb",
        finish="stop",
    ),
    row(
        "a line as only Python sees it",
        START,
        TEXT,
        say(0, "a\u2028b"),
        stop(0),
        end("end_turn"),
        STOP,
        text="a\u2028b",
        finish="stop",
    ),
    row(
        "no stream, but an answer",
        event({**MESSAGE, "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"})[6:],
        text="Hi",
        finish="stop",
    ),
)

ANTHROPIC = (*BENIGN, *BLOCKS, *ENDINGS, *FRAMES)
