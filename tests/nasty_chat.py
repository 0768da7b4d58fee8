"""Nasty streams of Chat Completions: the wire that most servers imitate, each in its own way."""

from typing import Any

from tests.nasty_row import MADE, Body, Call, Row, Told, cut, event, spoil

DONE = b"data: [DONE]\n\n"
X, Y = '{"x":1}', '{"y":2}'
CALL_A: Call = ("a", "f", {"x": 1})
CALL_B: Call = ("b", "g", {"y": 2})
A, B, AB = (CALL_A,), (CALL_B,), (CALL_A, CALL_B)


def chunk(delta: Any = None, finish: Any = None, **beside: Any) -> bytes:
    """Write one chunk."""
    entry = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    shell: Body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return event({**shell, "choices": [entry], **beside})


def call(index: Any = ..., call_id: Any = ..., name: Any = ..., text: Any = ...) -> Body:
    """Make an entry of `tool_calls` with what is said."""
    inner = {key: value for key, value in (("name", name), ("arguments", text)) if value is not ...}
    entry = {key: value for key, value in (("index", index), ("id", call_id)) if value is not ...}
    return {**entry, **({"type": "function"} if call_id is not ... else {}), "function": inner}


def ask(index: Any = ..., call_id: Any = ..., name: Any = ..., text: Any = ...) -> bytes:
    """Write a chunk of one entry."""
    return chunk({"tool_calls": [call(index, call_id, name, text)]})


def say(text: Any, **beside: Any) -> bytes:
    """Write a chunk of text."""
    return chunk({"content": text, **beside})


def end(finish: Any = "tool_calls", delta: Any = None) -> bytes:
    """Write the chunk that ends the answer."""
    return chunk(delta, finish)


ROLE = chunk({"role": "assistant", "content": None})
USAGE = chunk(choices=[], usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})
ERROR = event({"error": {"message": "boom", "type": "server_error", "code": 500}})
FIRST = (ROLE, ask(0, "a", "f", ""), ask(0, text='{"x"'), ask(0, text=":1}"))
SECOND = (ask(1, "b", "g", ""), ask(1, text='{"y":2}'))


def row(name: str, *frames: bytes, nasty: bool = True, ended: bool = True, **told: Any) -> Row:
    """Make a row; unless it says otherwise, the answer asks for tools."""
    return Row(dialect="openai-chat", name=name, frames=frames, told=Told(**told), ended=ended, nasty=nasty)


BENIGN = (
    row("words", ROLE, say("Hel"), say("lo"), end("stop"), DONE, text="Hello", finish="stop", nasty=False),
    row("two calls", *FIRST, *SECOND, end(), DONE, calls=AB, nasty=False),
    row(
        "interleaved calls",
        *(ROLE, ask(0, "a", "f", ""), ask(1, "b", "g", ""), ask(0, text='{"x"'), ask(1, text='{"y"')),
        *(ask(0, text=":1}"), ask(1, text=":2}"), end(), DONE),
        calls=AB,
        nasty=False,
    ),
    row(
        "several calls in one chunk",
        *(ROLE, chunk({"tool_calls": [call(0, "a", "f", X), call(1, "b", "g", Y)]}), end(), DONE),
        calls=AB,
        nasty=False,
    ),
    row(
        "text and a call in one chunk",
        *(say("Hm.", tool_calls=[call(0, "a", "f", X)]), end(), DONE),
        text="Hm.",
        calls=A,
        nasty=False,
    ),
    row("no arguments", ROLE, ask(0, "a", "f", ""), end(), DONE, calls=(("a", "f", {}),), nasty=False),
    row("no last word", *FIRST, end(), calls=A, nasty=False),
    row("pings", b": ping\n\n", *FIRST, b": ping\n\n", end(), b":\n\n", DONE, calls=A, nasty=False),
    row(
        "a huge index and one below zero",
        *(ask(2**31, "a", "f", X), ask(-1, "b", "g", Y), end(), DONE),
        calls=AB,
        nasty=False,
    ),
    row(
        "thoughts between",
        *(chunk({"reasoning_content": "h"}), ask(0, "a", "f", ""), chunk({"reasoning_content": "m"})),
        *(ask(0, text=X), say("So."), end(), DONE),
        text="So.",
        thinking="hm",
        calls=A,
        nasty=False,
    ),
)

IDENTITY = (
    row("one index, two ids", ask(0, "a", "f", X), ask(0, "b", "g", Y), end(), DONE, calls=AB),
    row(
        "one index, two ids, in fragments",
        *FIRST,
        *(ask(0, "b", "g", ""), ask(0, text='{"y"'), ask(0, text=":2}"), end(), DONE),
        calls=AB,
    ),
    row("no index", ask(..., "a", "f", X), ask(..., "b", "g", Y), end(), DONE, calls=AB),
    row("a null for an index", ask(None, "a", "f", X), ask(None, "b", "g", Y), end(), DONE, calls=AB),
    row(
        "no index, in fragments",
        *(ask(..., "a", "f", ""), ask(text='{"x"'), ask(text=":1}"), ask(..., "b", "g", "")),
        *(ask(text='{"y":'), ask(text="2}"), end(), DONE),
        calls=AB,
    ),
    row(
        "no index and no ids",
        *(ask(name="f", text=X), ask(name="f", text=Y), end(), DONE),
        calls=((MADE, "f", {"x": 1}), (MADE, "f", {"y": 2})),
    ),
    row(
        "an index as text",
        *(ask("0", "a", "f", ""), ask(0, text=X), ask(1.0, "b", "g", ""), ask("1", text=Y), end(), DONE),
        calls=AB,
    ),
    row(
        "the id in each chunk",
        *(ask(0, "a", "f", ""), ask(0, "a", text='{"x"'), ask(0, "a", text=":1}"), end(), DONE),
        calls=A,
    ),
    row(
        "the name in each chunk",
        *(ask(0, "a", "f", ""), ask(0, name="f", text='{"x"'), ask(0, name="f", text=":1}"), end(), DONE),
        calls=A,
    ),
    row(
        "everything in each chunk",
        *(ask(0, "a", "f", ""), ask(0, "a", "f", '{"x"'), ask(0, "a", "f", ":1}"), end(), DONE),
        calls=A,
    ),
    row(
        "no ids",
        *(ask(0, name="f", text=""), ask(0, text=X), ask(1, name="g", text=Y), end(), DONE),
        calls=((MADE, "f", {"x": 1}), (MADE, "g", {"y": 2})),
    ),
    row(
        "ids that are none",
        *(ask(0, "", "f", X), ask(1, None, "g", Y), ask(2, "null", "f", "{}"), end(), DONE),
        calls=((MADE, "f", {"x": 1}), (MADE, "g", {"y": 2}), (MADE, "f", {})),
    ),
    row(
        "one index, one name, two calls in fragments",
        *(ask(0, name="f", text=text) for text in ("{", " ", "}", "{", " ", "}")),
        end(),
        DONE,
        calls=((MADE, "f", {}), (MADE, "f", {})),
    ),
    row(
        "one id, one index, two calls",
        *(ask(0, "a", "f", X), ask(0, "a", "g", Y), end(), DONE),
        calls=(CALL_A, ("a", "g", {"y": 2})),
    ),
    row("the text again, whole", *FIRST, ask(0, text=X), end(), DONE, calls=A),
    row("the text again, with the end", *FIRST, end(delta={"tool_calls": [call(0, text=X)]}), DONE, calls=A),
    row("a chunk twice", ROLE, *[ask(0, "a", "f", X)] * 2, end(), DONE, calls=A),
    row(
        "two names for one call",
        *(ask(0, "a", "f", ""), ask(0, name="g", text=X), *SECOND, end(), DONE),
        calls=B,
        broken=(X,),
    ),
    row("no name", ROLE, ask(0, "a", text=X), *SECOND, end(), DONE, calls=B, broken=(X,)),
    row(
        "the old form of a call",
        *(
            chunk({"function_call": {"name": "f", "arguments": ""}}),
            chunk({"function_call": {"arguments": X}}),
        ),
        *(end("function_call"), DONE),
        calls=((MADE, "f", {"x": 1}),),
    ),
)

VALUES = (
    row(
        "nulls for text",
        *(
            chunk({"content": None, "tool_calls": [call(0, "a", "f", None)]}),
            ask(0, text=""),
            ask(0, text=None),
        ),
        *(ask(0, text=X), ask(0, text=None), end(), DONE),
        calls=A,
    ),
    row(
        "values that change their kind",
        *(
            event({"choices": [{"delta": {"content": "x", "odd": odd}, "finish_reason": None, "odd": odd}]})
            for odd in ("x", {"y": [1]}, {"y": {"z": 1}}, [1], None, {"y": None})
        ),
        end("stop"),
        DONE,
        text="xxxxxx",
        finish="stop",
        nasty=False,
    ),
    row("arguments as an object", ask(0, "a", "f", {"x": 1}), *SECOND, end(), DONE, calls=AB),
    row("text as blocks", say([{"type": "text", "text": "Hi"}]), end("stop"), DONE, text="Hi", finish="stop"),
    row(
        "a key twice",
        ask(0, "a", "f", '{"x":1,"x":2}'),
        *SECOND,
        end(),
        DONE,
        calls=B,
        broken=('{"x":1,"x":2}',),
    ),
    row("no JSON", ask(0, "a", "f", '{"x":'), *SECOND, end(), DONE, calls=B, broken=('{"x":',)),
    row("no object", ask(0, "a", "f", "[1]"), ask(1, "b", "g", '"{}"'), end(), DONE, broken=("[1]", '"{}"')),
    row(
        "no UTF-8 in text",
        *(spoil(say("a\0b"), b"\xff"), end("stop"), DONE),
        text="a\ufffdb",
        finish="stop",
    ),
    row(
        "no UTF-8 in arguments",
        *(spoil(ask(0, "a", "f", '{"x":"\0"}'), b"\xed\xa0\x80"), *SECOND, end(), DONE),
        calls=B,
        broken=('{"x":"\ufffd\ufffd\ufffd"}',),
    ),
    row(
        "two answers",
        *(
            chunk(choices=[{"index": place, "delta": {"content": word}, "finish_reason": finish}])
            for place, word, finish in (
                (0, "a", None),
                (1, "x", None),
                (0, "b", None),
                (1, "y", "length"),
                (0, "", "stop"),
            )
        ),
        DONE,
        text="ab",
        finish="stop",
    ),
)

ENDINGS = (
    row("stop, with calls", *FIRST, end("stop"), DONE, calls=A),
    row("two finish reasons", *FIRST, end(), end("stop"), DONE, calls=A),
    row("a finish reason that is corrected", *FIRST, end("stop"), end(), DONE, calls=A, nasty=False),
    row("finish reasons that are none", *FIRST, end(), end(""), end(None), DONE, calls=A),
    row("a limit in a call", *FIRST[:-1], end("length"), DONE, broken=('{"x"',), finish="length"),
    row(
        "a limit in the second call",
        *(*FIRST, ask(1, "b", "g", ""), ask(1, text='{"y"'), end("length"), DONE),
        calls=A,
        broken=('{"y"',),
        finish="length",
    ),
    row(
        "a limit before the arguments",
        *(*FIRST, ask(1, "b", "g", ""), end("length"), DONE),
        calls=A,
        broken=("",),
        finish="length",
    ),
    row(
        "a filter in a call",
        *(say("Hm."), *FIRST[1:3], end("content_filter"), DONE),
        text="Hm.",
        broken=('{"x"',),
        finish="content_filter",
    ),
    row("lost in the text", ROLE, say("Hel"), text="Hel", finish="incomplete", ended=False),
    row("lost in a call", *FIRST[:-1], broken=('{"x"',), finish="incomplete", ended=False),
    row("lost after a call that nothing closed", *FIRST, broken=(X,), finish="incomplete", ended=False),
    row("lost in the second call", *FIRST, SECOND[0], calls=A, broken=("",), finish="incomplete", ended=False),
    row("lost in a frame", *FIRST[:-1], FIRST[-1][:-9], broken=('{"x"',), finish="incomplete", ended=False),
    row("an error in the text", ROLE, say("Hel"), ERROR, say("lo"), text="Hel", finish="error", ended=False),
    row("an error in a call", *FIRST, ERROR, broken=(X,), finish="error", ended=False),
    row("an error after a call", *FIRST, SECOND[0], ERROR, calls=A, broken=("",), finish="error", ended=False),
    row(
        "an error as bare JSON",
        *(ROLE, say("Hel"), b'{\n  "error": {\n    "message": "boom"\n  }\n}\n'),
        text="Hel",
        finish="error",
        ended=False,
    ),
    row(
        "a frame that is no JSON",
        ROLE,
        say("Hel"),
        b"data: oops\n\n",
        text="Hel",
        finish="error",
        ended=False,
    ),
)

FRAMES = (
    row("counts at the end", *FIRST, end(), USAGE, DONE, calls=A),
    row("counts at first, and before the end", USAGE, *FIRST, USAGE, end(), DONE, calls=A),
    row(
        "nothing but a filter's notes",
        *(event({"choices": [], "prompt_filter_results": [{}]}), *FIRST, end(), DONE),
        calls=A,
    ),
    row(
        "no choices and no delta",
        *(
            event({"id": "c1", "choices": None}),
            event({"id": "c1", "choices": [{"index": 0, "delta": None}]}),
        ),
        *(*FIRST, end(), DONE),
        calls=A,
    ),
    row(
        "a field that nobody knows",
        *(FIRST[0], b'meta: {"error":{"message":"x"}}\n\n', *FIRST[1:], b'x {"choices":[]}\n\n'),
        *(end(), DONE),
        calls=A,
        nasty=False,
    ),
    row("a comment in the end", *FIRST, end(), b': {"error":{"message":"x"}}', calls=A, nasty=False),
    row("the last word twice", *FIRST, end(), b"data:  [DONE] \n\n", DONE, say("x"), calls=A),
    row(
        "no space after the colon",
        *(frame.replace(b"data: ", b"data:") for frame in (*FIRST, end(), DONE)),
        calls=A,
    ),
    row("a letter over two reads", *cut(say("aéb"), b"\xc3"), end("stop"), DONE, text="aéb", finish="stop"),
    row("a frame over two reads", *cut(say("Hello"), b"Hel"), end("stop"), DONE, text="Hello", finish="stop"),
    row(
        "a line as only Python sees it",
        say("a\u2028b\u0085c"),
        end("stop"),
        DONE,
        text="a\u2028b\u0085c",
        finish="stop",
    ),
    row(
        "JSON over several lines",
        *(
            b'data: {"id":"c1","choices":[{"index":0,\ndata: "delta":{"content":"Hi"}}]}\n\n',
            end("stop"),
            DONE,
        ),
        text="Hi",
        finish="stop",
    ),
    row("a mark", b"\xef\xbb\xbf" + say("Hi"), end("stop"), DONE, text="Hi", finish="stop"),
    row(
        "no stream, but an answer",
        b'{"id":"c1","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":'
        b'{"role":"assistant","content":"Hi"}}]}',
        text="Hi",
        finish="stop",
    ),
)

CHAT = (*BENIGN, *IDENTITY, *VALUES, *ENDINGS, *FRAMES)
