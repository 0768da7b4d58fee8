"""Nasty streams of Ollama: lines that are cut, joined, spread or blank, and calls without ids."""

from typing import Any

from tests.nasty_row import MADE, SOME, Body, Call, Row, Told, cut, line, spoil

X = '{"x":1}'
CALL_A: Call = ("a", "f", {"x": 1})
CALL_B: Call = ("b", "g", {"y": 2})
A, B, AB = (CALL_A,), (CALL_B,), (CALL_A, CALL_B)


def piece(content: str = "", done: str | None = None, **more: Any) -> bytes:
    """Write a line."""
    message = {"role": "assistant", "content": content, **more}
    shell: Body = {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "message": message,
        "done": done is not None,
    }
    return line(shell if done is None else {**shell, "done_reason": done, "eval_count": 2})


def call(name: str, arguments: Any = ..., call_id: str | None = None) -> Body:
    """Make a call."""
    inner = {"name": name} if arguments is ... else {"name": name, "arguments": arguments}
    return {"function": inner} if call_id is None else {"id": call_id, "function": inner}


def ask(*calls: Body, done: str | None = None) -> bytes:
    """Write a line of calls."""
    return piece(tool_calls=list(calls), done=done)


F, G = call("f", {"x": 1}, "a"), call("g", {"y": 2}, "b")
FIRST, SECOND, DONE = ask(F), ask(G), piece(done="stop")
MADE_A: Call = (MADE, "f", {"x": 1})
ERROR = line({"error": "boom"})


def row(name: str, *frames: bytes, nasty: bool = True, ended: bool = True, **told: Any) -> Row:
    """Make a row; unless it says otherwise, the answer asks for tools."""
    return Row(dialect="ollama", name=name, frames=frames, told=Told(**told), ended=ended, nasty=nasty)


BENIGN = (
    row("words", piece("Hel"), piece("lo"), DONE, text="Hello", finish="stop", nasty=False),
    row("calls over lines", FIRST, SECOND, DONE, calls=AB, nasty=False),
    row("calls on one line", ask(F, G), DONE, calls=AB, nasty=False),
    row("calls with the end", ask(F, G, done="stop"), calls=AB, nasty=False),
    row("no arguments", ask(call("f", {}, "a")), DONE, calls=(("a", "f", {}),), nasty=False),
    row(
        "a thought, words and a call",
        *(piece(thinking="h"), piece(thinking="m"), piece("So."), FIRST, DONE),
        text="So.",
        thinking="hm",
        calls=A,
        nasty=False,
    ),
    row("words with the end", piece("Hel"), piece("lo", done="stop"), text="Hello", finish="stop", nasty=False),
    row("CRLF", *(frame.replace(b"\n", b"\r\n") for frame in (FIRST, DONE)), calls=A, nasty=False),
    row("no end of the last line", FIRST, DONE[:-1], calls=A, nasty=False),
)

CALLS = (
    row("no ids", ask(call("f", {"x": 1})), DONE, calls=(MADE_A,)),
    row(
        "no ids, calls that are alike",
        ask(*[call("f", {"x": 1})] * 2),
        ask(call("f", {"x": 1})),
        DONE,
        calls=(MADE_A,) * 3,
    ),
    row("an id that is empty", ask(call("f", {"x": 1}, "")), DONE, calls=(MADE_A,)),
    row("a call twice", FIRST, ask(F, G), DONE, calls=AB),
    row("arguments as text", ask(call("f", X, "a")), DONE, calls=A),
    row("half of the arguments as text", ask(call("f", '{"x":', "a"), G), DONE, calls=B, broken=('{"x":',)),
    row("null for arguments", ask(call("f", None, "a")), DONE, calls=(("a", "f", {}),)),
    row("no arguments at all", ask(call("f", call_id="a")), DONE, calls=(("a", "f", {}),)),
    row("a key twice", FIRST.replace(X.encode(), b'{"x":1,"x":2}'), SECOND, DONE, calls=B, broken=(SOME,)),
    row(
        "no UTF-8 in arguments",
        spoil(ask(call("f", {"x": "\0"}, "a")), b"\xff"),
        SECOND,
        DONE,
        calls=B,
        broken=(SOME,),
    ),
)

ENDINGS = (
    row("a limit after a call", FIRST, piece(done="length"), calls=A, finish="length"),
    row(
        "a limit in a call",
        ask(call("f", '{"x":', "a")),
        piece(done="length"),
        broken=('{"x":',),
        finish="length",
    ),
    row("lost in the words", piece("Hel"), text="Hel", finish="incomplete", ended=False),
    row("lost after a call", FIRST, calls=A, finish="incomplete", ended=False),
    row("lost in a line", FIRST, SECOND[:-9], calls=A, finish="incomplete", ended=False),
    row("lost in the last line", piece("Hel"), DONE[:-2], text="Hel", finish="incomplete", ended=False),
    row("an error in the words", piece("Hel"), ERROR, piece("lo"), text="Hel", finish="error", ended=False),
    row("an error after a call", FIRST, ERROR, calls=A, finish="error", ended=False),
    row("nothing but an error", ERROR, finish="error", ended=False),
)

LINES = (
    row("blank lines", b"\n", FIRST, b"\n", b" \n", DONE, b"\n", calls=A),
    row("two objects on a line", FIRST[:-1] + SECOND, DONE, calls=AB),
    row("an object over lines", FIRST.replace(b",", b",\n").replace(b"{", b"{\n"), DONE, calls=A),
    row(
        "an error over lines",
        piece("Hel"),
        b'{\n  "error":\n  "boom"\n}',
        text="Hel",
        finish="error",
        ended=False,
    ),
    row("no message at the end", FIRST, line({"model": "m", "done": True, "done_reason": "stop"}), calls=A),
    row(
        "no reason for the end",
        FIRST,
        line({"model": "m", "message": {"role": "assistant"}, "done": True}),
        calls=A,
    ),
    row("a mark", b"\xef\xbb\xbf" + FIRST, DONE, calls=A),
    row("a line over two reads", *cut(piece("Hello"), b"Hel"), DONE, text="Hello", finish="stop"),
    row("a letter over two reads", *cut(piece("aéb"), b"\xc3"), DONE, text="aéb", finish="stop"),
    row("a line as only Python sees it", piece("a\u2028b\u0085c"), DONE, text="a\u2028b\u0085c", finish="stop"),
    row("no UTF-8 in the words", spoil(piece("a\0b"), b"\xff"), DONE, text="a\ufffdb", finish="stop"),
    row("braces without JSON", piece("Hel"), b"{oops}\n", text="Hel", finish="error", ended=False),
    row("a line that is no JSON", piece("Hel"), b"oops\n", text="Hel", finish="error", ended=False),
    row("more after the end", piece("Hi"), DONE, piece("x"), text="Hi", finish="stop"),
)

OLLAMA = (*BENIGN, *CALLS, *ENDINGS, *LINES)
