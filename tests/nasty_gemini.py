"""Nasty streams of Gemini: chunks that are responses, of which anything may be missing."""

from typing import Any

import msgspec

from tests.nasty_row import MADE, SOME, Body, Call, Row, Told, cut, event, spoil

CALL_A: Call = ("a", "f", {"x": 1})
CALL_B: Call = ("b", "g", {"y": 2})
A, B, AB = (CALL_A,), (CALL_B,), (CALL_A, CALL_B)
MADE_A: Call = (MADE, "f", {"x": 1})


def chunk(*parts: Any, finish: str | None = None, index: int = 0, **beside: Any) -> Body:
    """Make a chunk of one candidate."""
    candidate: Body = {"content": {"role": "model", "parts": list(parts)}, "index": index}
    ending = {} if finish is None else {"finishReason": finish}
    return {"candidates": [{**candidate, **ending}], "modelVersion": "m", "responseId": "r1", **beside}


def say(text: str, finish: str | None = None) -> bytes:
    """Write a chunk of words."""
    return event(chunk({"text": text}, finish=finish))


def call(name: str, args: Any = ..., call_id: str | None = None, **beside: Any) -> Body:
    """Make a part that is a call."""
    said = {"id": call_id, "name": name, "args": args}
    return {"functionCall": {key: value for key, value in said.items() if value not in (None, ...)}, **beside}


def ask(*calls: Any, finish: str | None = None) -> bytes:
    """Write a chunk of calls."""
    return event(chunk(*calls, finish=finish))


def piece(path: str, more: bool = False, **value: Any) -> bytes:
    """Write a piece of a call's arguments."""
    return ask({"functionCall": {"partialArgs": [{"jsonPath": path, **value}], "willContinue": more}})


def null_for(part: Body) -> Body:
    """Say null for the arguments of a call."""
    return {"functionCall": {**part["functionCall"], "args": None}}


F, G = call("f", {"x": 1}, "a"), call("g", {"y": 2}, "b")
FIRST, SECOND, STOP = ask(F), ask(G), say("", "STOP")
BARE = event({"candidates": [{"index": 0, "finishReason": "STOP"}]})
USAGE = event({"usageMetadata": {"promptTokenCount": 1}, "responseId": "r1"})
ERROR = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
BEGUN = event(chunk({"functionCall": {"id": "a", "name": "f", "willContinue": True}}))
TWICE = '{"functionCall":{"id":"a","name":"f","args":{"x":1,"x":2}}}'


def row(name: str, *frames: bytes, nasty: bool = True, ended: bool = True, **told: Any) -> Row:
    """Make a row; unless it says otherwise, the answer asks for tools."""
    return Row(dialect="gemini", name=name, frames=frames, told=Told(**told), ended=ended, nasty=nasty)


BENIGN = (
    row("words", say("Hel"), say("lo", "STOP"), text="Hello", finish="stop", nasty=False),
    row("two calls in one chunk", ask(F, G, finish="STOP"), calls=AB, nasty=False),
    row("two calls, and an end after them", FIRST, SECOND, STOP, calls=AB, nasty=False),
    row("words and a call", say("Hm."), ask(G, finish="STOP"), text="Hm.", calls=B, nasty=False),
    row("no arguments", ask(call("f", {}, "a"), finish="STOP"), calls=(("a", "f", {}),), nasty=False),
    row(
        "a signed text without words",
        *(FIRST, event(chunk({"text": "", "thoughtSignature": "c2ln"}, finish="STOP"))),
        calls=A,
        nasty=False,
    ),
    row("a signed call", ask({**F, "thoughtSignature": "c2ln"}, finish="STOP"), calls=A, nasty=False),
    row("a call as an end, and its reason", FIRST, ask(G, finish="STOP"), STOP, calls=AB, nasty=False),
)

PARTS = (
    row("no ids", ask(call("f", {"x": 1})), STOP, calls=(MADE_A,)),
    row(
        "no ids, one name",
        ask(*[call("f", {"x": 1})] * 2),
        ask(call("f", {"x": 1})),
        STOP,
        calls=(MADE_A,) * 3,
    ),
    row("an id that is empty", ask(call("f", {"x": 1}, "")), STOP, calls=(MADE_A,)),
    row("no arguments at all", ask(call("f", call_id="a"), G), STOP, calls=(("a", "f", {}), CALL_B)),
    row(
        "null for arguments",
        ask(*(null_for(part) for part in (F, G))),
        STOP,
        calls=(("a", "f", {}), ("b", "g", {})),
    ),
    row("a list for arguments", ask(call("f", [1], "a"), G), STOP, calls=B, broken=(SOME,)),
    row("text for arguments", ask(call("f", "x", "a"), G), STOP, calls=B, broken=(SOME,)),
    row("the text of an object for arguments", ask(call("f", '{"x":1}', "a"), G), STOP, calls=AB),
    row(
        "a key twice",
        FIRST.replace(msgspec.json.encode(F), TWICE.encode()),
        SECOND,
        STOP,
        calls=B,
        broken=(SOME,),
    ),
    row(
        "no UTF-8 in arguments",
        spoil(ask(call("f", {"x": "\0"}, "a")), b"\xff"),
        SECOND,
        STOP,
        calls=B,
        broken=(SOME,),
    ),
    row(
        "a thought",
        event(chunk({"text": "hm", "thought": True})),
        say("So.", "STOP"),
        text="So.",
        thinking="hm",
        finish="stop",
    ),
    row(
        "a call in pieces",
        *(BEGUN, piece("$.x", more=True, numberValue=1), ask({"functionCall": {}}), SECOND, STOP),
        calls=AB,
    ),
    row(
        "a text in pieces",
        *(BEGUN, piece("$.q[0].a", more=True, stringValue="t"), piece("$.q[1]", stringValue="u"), STOP),
        calls=(("a", "f", {"q": [{"a": "t"}, "u"]}),),
    ),
    row(
        "a call that begins while another is open",
        *(BEGUN, piece("$.x", more=True, numberValue=1), SECOND, STOP),
        calls=B,
        broken=(SOME,),
    ),
    row(
        "two answers in turn",
        *(
            event(chunk({"text": text}, index=place, finish=finish))
            for place, text, finish in (
                (0, "a", None),
                (1, "x", None),
                (0, "b", "STOP"),
                (1, "y", "MAX_TOKENS"),
            )
        ),
        text="ab",
        finish="stop",
    ),
)

ENDINGS = (
    row("a limit after a call", FIRST, say("", "MAX_TOKENS"), calls=A, finish="length"),
    row(
        "a limit in a call in pieces",
        BEGUN,
        piece("$.x", more=True, numberValue=1),
        say("", "MAX_TOKENS"),
        broken=(SOME,),
        finish="length",
    ),
    row(
        "a call that went wrong",
        event({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}),
        finish="malformed_tool_call",
    ),
    row(
        "a call that went wrong, and an ordinary end",
        event({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}),
        STOP,
        finish="malformed_tool_call",
    ),
    row(
        "a question that was blocked",
        event({"promptFeedback": {"blockReason": "SAFETY"}, "responseId": "r1"}),
        finish="content_filter",
    ),
    row(
        "a filter in the words",
        say("Hel"),
        event({"candidates": [{"finishReason": "SAFETY"}]}),
        text="Hel",
        finish="content_filter",
    ),
    row("lost in the words", say("Hel"), text="Hel", finish="incomplete", ended=False),
    row("lost after a call", FIRST, calls=A, finish="incomplete", ended=False),
    row(
        "lost in a call in pieces",
        BEGUN,
        piece("$.x", more=True, numberValue=1),
        broken=(SOME,),
        finish="incomplete",
        ended=False,
    ),
    row("lost in a frame", FIRST, SECOND[:-5], calls=A, finish="incomplete", ended=False),
    row("an error in the words", say("Hel"), event(ERROR), say("lo"), text="Hel", finish="error", ended=False),
    row(
        "an error as bare JSON",
        say("Hel"),
        msgspec.json.format(msgspec.json.encode(ERROR)) + b"\n",
        text="Hel",
        finish="error",
        ended=False,
    ),
    row("nothing but an error", msgspec.json.format(msgspec.json.encode([ERROR])), finish="error", ended=False),
)

FRAMES = (
    row("no content", event({"candidates": [{"index": 0}]}), FIRST, BARE, calls=A),
    row("no parts", event({"candidates": [{"content": {"role": "model"}}]}), FIRST, BARE, calls=A),
    row("counts alone", USAGE, FIRST, STOP, USAGE, calls=A),
    row("no index", FIRST.replace(b'"index"', b'"x"'), STOP.replace(b'"index"', b'"x"'), calls=A, nasty=False),
    row(
        "a list of chunks",
        b"[" + msgspec.json.encode(chunk(F)) + b",\n",
        msgspec.json.encode(chunk(G, finish="STOP")) + b"]",
        calls=AB,
    ),
    row("no stream, but an answer", msgspec.json.encode(chunk(F, finish="STOP")), calls=A),
    row("no space after the colon", FIRST.replace(b"data: ", b"data:"), STOP, calls=A),
    row("a letter over two reads", *cut(say("aéb"), b"\xc3"), STOP, text="aéb", finish="stop"),
    row("a line as only Python sees it", say("a\u2028b"), STOP, text="a\u2028b", finish="stop"),
)

GEMINI = (*BENIGN, *PARTS, *ENDINGS, *FRAMES)
