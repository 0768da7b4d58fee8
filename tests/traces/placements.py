"""Places where a secret may stand in a conversation: what the model says, what tools get, give and raise.

A place is a case made from a secret, why the secret is hidden there, and what is changed so that it is not.
"""

import base64
import json
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from toolwire import Document, Text, ToolCall, ToolError
from toolwire.testing import Raw
from toolwire.types import Thinking

MARK = "SENTINEL-5f2c9e1b7a"
WORD = f"Zq-{MARK}"  # looks like nothing
KEY = f"sk-{MARK}a1b2"  # looks like a key


class Case(NamedTuple):
    """A conversation: the turns of the model, what `use` and `other` give, and how it is led."""

    turns: list[Any]
    gives: Callable[[dict[str, Any]], Any] = lambda _arguments: "used"
    other: Any = "done"
    fields: tuple[str, ...] = ("pin",)
    schema: Mapping[str, Any] = MappingProxyType({"type": "object"})
    ends_at: str = "use"
    prompt: Any = "Go on."
    settings: Mapping[str, Any] = MappingProxyType({})
    api_key: str = "any"
    session: str | None = None
    provider: str = "openai"
    listens: bool = True
    folder: Mapping[str, str] = MappingProxyType({})

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of the model."""
        parts = [part for turn in self.turns if isinstance(turn, list) for part in turn]
        return [part for part in parts if isinstance(part, ToolCall)]


class Place(NamedTuple):
    """A place of a secret; `control` is the same where nothing says that it is one."""

    case: Callable[[str], Case]
    secret: str = WORD
    control: Callable[[], Case] | None = None

    @property
    def shown(self) -> Case:
        """The same conversation, where the secret looks like nothing and is not declared."""
        return self.case(WORD)._replace(fields=()) if self.control is None else self.control()


def use(*path: Any, **arguments: Any) -> list[Any]:
    """A turn with a call of `use`."""
    return ["I use it.", ToolCall(None, "use", dict(*path, **arguments))]


def call(name: str, **arguments: Any) -> list[Any]:
    """A turn with a call."""
    return [ToolCall(None, name, arguments)]


def gave(form: Callable[[str], Any]) -> Callable[[str], Case]:
    """A tool that was given a secret, and gives it back in some form."""
    return lambda secret: Case([use(pin=secret)], lambda arguments: form(arguments["pin"]))


def argument(value: Callable[[str], dict[str, Any]], *fields: str) -> Callable[[str], Case]:
    """Arguments that have a secret."""
    return lambda secret: Case([use(value(secret))], fields=fields or ("pin",))


def broken(raw: Callable[[str], str]) -> Callable[[str], Case]:
    """Argument text that cannot be read."""
    return lambda secret: Case([[ToolCall(None, "use", {}, raw=raw(secret), error="it is no JSON")]], ends_at="end")


def chained(secret: str) -> Exception:
    problem = RuntimeError("it failed")
    problem.__cause__ = ValueError(f"because of {secret}")
    problem.add_note(f"a note on {secret}")
    return problem


class Unsayable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError(*self.args)


def asking(answer: Any) -> dict[str, Any]:
    """Settings by which a person is asked."""

    def ask(_call: ToolCall, _shown: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return {"approve": ask}


def twice(raw: str) -> str:
    return f'{{"{raw}": 1, "{raw}": 2}}'


NAMED = {
    "a named argument": argument(lambda s: {"pin": s}),
    "nested in maps": argument(lambda s: {"a": {"b": {"c": {"pin": s}}}}),
    "in the maps of a list": argument(lambda s: {"rows": [{"n": 1}, {"pin": s}]}),
    "in a list below the name": argument(lambda s: {"pin": ["x", [s]]}),
    "in a map below the name": argument(lambda s: {"pin": {"x": {"y": s}}}),
    "the name of a key below the name": argument(lambda s: {"pin": {s: 1}}),
    "the name of a key elsewhere": argument(lambda s: {"pin": s, "rows": {s: 1}}),
    "with a hyphen": argument(lambda s: {"card-no": s}, "card_no"),
    "in camel case": argument(lambda s: {"cardNo": s}, "card_no"),
    "in capitals": argument(lambda s: {"CARD_NO": s}, "card_no"),
    "under letters that look alike": argument(lambda s: {"\u0441\uff41rd_n\u043e": s}, "card_no"),
    "by a path": argument(lambda s: {"a": {"x": {"pin": s}}}, "a.*.pin"),
    "by a path with an index": argument(lambda s: {"rows": [s, "y"]}, "rows.0"),
    "by the end of a name": argument(lambda s: {"the_pin": s}, "*_pin"),
    "JSON in a string": argument(lambda s: {"body": json.dumps({"pin": s})}),
    "JSON in JSON in a string": argument(lambda s: {"body": json.dumps({"a": json.dumps({"pin": s})})}),
    "JSON within words": argument(lambda s: {"body": f'said {{"pin": "{s}"}} and went on'}),
    "escaped JSON within words": argument(lambda s: {"body": f'said {{\\"pin\\": \\"{s}\\"}} and went'}),
    "an assignment in a text": argument(lambda s: {"line": f"export PIN='{s}' && go"}),
    "again in another field": argument(lambda s: {"pin": s, "note": f"it is {s}, again"}),
    "again, encoded": argument(lambda s: {"pin": s, "note": base64.b64encode(f"u:{s}".encode()).decode()}),
    "a text in the result": gave(lambda s: f"used {s}"),
    "parts in the result": gave(lambda s: [Text(f"used {s}"), Text("well")]),
    "media in the result": gave(
        lambda s: [Document(data=base64.b64encode(s.encode()).decode(), media_type="text/plain")]
    ),
    "maps and tuples in the result": gave(lambda s: {"user": ({"code": s}, [s])}),
    "JSON as the result's text": gave(lambda s: json.dumps({"user": {"code": s}})),
    "Base64 in the result": gave(lambda s: base64.b64encode(f"xy{s}z".encode()).decode()),
    "hexadecimal in the result": gave(lambda s: s.encode().hex()),
    "reversed in the result": gave(lambda s: s[::-1]),
    "in an address in the result": gave(lambda s: f"https://host/?q={quote(s + ' ä')}"),
    "an exception's text": gave(lambda s: ValueError(f"{s} was refused")),
    "the repr of arguments in an exception": gave(lambda s: TypeError(repr({"pin": s}))),
    "a missing key": gave(KeyError),
    "chained exceptions and notes": gave(chained),
    "a group of exceptions": gave(lambda s: ExceptionGroup(f"of {s}", [ValueError(s)])),
    "an exception that cannot be shown": gave(Unsayable),
    "the error that a tool tells": gave(lambda s: ToolError(f"{s} was refused")),
    "an exception that stops the program": gave(lambda s: SystemExit(f"{s} was refused")),
    "a later result of another tool": lambda s: Case([use(pin=s), call("other")], other=f"read {s}"),
    "an earlier result of the same turn": lambda s: Case(
        [[ToolCall(None, "other"), ToolCall(None, "use", {"pin": s})]], other=f"read {s}"
    ),
    "an earlier result, beside another": lambda s: Case(
        [[ToolCall(None, "together"), ToolCall(None, "use", {"pin": s})]], other=f"read {s}"
    ),
    "the exception of another tool": lambda s: Case(
        [use(pin=s), call("other")], other=ValueError(f"{s} was refused"), ends_at="end"
    ),
    "a later result, after JSON within words": lambda s: Case(
        [use(body=f'said {{"pin": "{s}"}} and'), call("other")], other=f"read {s}"
    ),
    "a later result, after broken argument text": lambda s: Case(
        [[ToolCall(None, "use", {}, raw=f'{{"pin": "{s}', error="it is no JSON")], call("other")],
        other=f"read {s}",
        ends_at="end",
    ),
    "the exception of a listener": lambda s: Case([use(pin=s)], listens=False),
    "the arguments of another call": lambda s: Case([use(pin=s), call("other", q=s, more={s: [s]})]),
    "the words of the model beside the call": lambda s: Case([[f"I use {s}.", ToolCall(None, "use", {"pin": s})]]),
    "the words of the model": lambda s: Case([use(pin=s), [f"I used {s}.", *call("other")]]),
    "an argument that does not fit": lambda s: Case(
        [use(pin=s)], schema={"properties": {"pin": {"type": "integer"}}}, ends_at="end"
    ),
    "an argument that does not fit, by a path": lambda s: Case(
        [use(a={"pin": s})],
        fields=("a.pin",),
        schema={"properties": {"a": {"properties": {"pin": {"enum": ["x"]}}}}},
        ends_at="end",
    ),
    "an argument that nobody knows": lambda s: Case(
        [use(pin=s, **{s: 1})],
        schema={"properties": {"pin": {}}, "additionalProperties": False},
        ends_at="end",
    ),
    "broken argument text": broken(lambda s: f'{{"n": 1, "pin": "{s}", '),
    "argument text that was cut off": broken(lambda s: f'{{"n": 1, "pin": "{s}'),
    "argument text with a name twice": broken(lambda s: f'{{"pin": "{s}", "pin": "{s}"}}'),
    "a denied call": lambda s: Case([use(pin=s)], settings=asking(False), ends_at="none"),
    "the reason of a denial": lambda s: Case([use(pin=s)], settings=asking(f"not {s}"), ends_at="none"),
    "the exception of who is asked": lambda s: Case(
        [use(pin=s)], settings=asking(ValueError(f"what is {s}?")), ends_at="none"
    ),
}
LIKE_A_KEY: dict[str, Callable[[str], Case]] = {
    "an argument that looks like a key": argument(lambda s: {"q": s}),
    "an unknown tool's name": lambda s: Case([[ToolCall(None, s)]], ends_at="end"),
    "an unknown tool's arguments": lambda s: Case([call("missing", q=s)], ends_at="end"),
    "the id of a call": lambda s: Case([[ToolCall(s, "use", {})]]),
    "a name that is given twice": broken(twice),
    "a text of the tool's own": lambda s: Case([call("other")], other=f"found {s}", ends_at="end"),
    "the user's words": lambda s: Case([use()], prompt=f"Go on with {s}."),
    "the words of the system": lambda s: Case([use()], settings={"system": f"Keep {s} to yourself."}),
    "a thought": lambda s: Case([[Thinking(f"So it is {s}."), *use()]]),
    "the model's name": lambda s: Case([use()], settings={"model": s}),
    "a session": lambda s: Case([use()], session=s),
    "what could not be said": lambda s: Case(
        [use()], schema={"type": "object", "properties": {s: {"not": {"type": "null"}}}}, provider="gemini"
    ),
    "the content of a file": lambda s: Case(
        [call("read_file", path="notes.txt")], folder={"notes.txt": f"It is\n{s}\n"}, ends_at="end"
    ),
    "what a command wrote": lambda s: Case(
        [call("bash", command="cat notes.txt >&2; exit 3")],
        folder={"notes.txt": f"It is {s}\n"},
        ends_at="end",
    ),
}
PLACES: dict[str, Place] = {
    **{name: Place(case) for name, case in NAMED.items()},
    **{name: Place(case, KEY) for name, case in LIKE_A_KEY.items()},
    "a usual name that nobody declared": Place(
        argument(lambda s: {"client_secret": s}), control=lambda: Case([use(client_note=WORD)])
    ),
    "a password in an address": Place(
        argument(lambda s: {"url": f"https://me:{s}@host/a"}),
        control=lambda: Case([use(url=f"https://host/{WORD}")]),
    ),
    "a query in an address": Place(
        argument(lambda s: {"url": f"https://host/?a=1&access_token={s}&b=2"}),
        control=lambda: Case([use(url=f"https://host/?a=1&b={WORD}")]),
    ),
    "a header in a text": Place(
        argument(lambda s: {"said": f"GET /\r\nAuthorization: Basic {s}\r\nHost: h"}),
        control=lambda: Case([use(said=f"GET /\r\nAccept: {WORD}\r\n")]),
    ),
    "the provider's key, in an argument": Place(
        lambda s: Case([use(q=s)], api_key=s), control=lambda: Case([use(q=WORD)])
    ),
    "the provider's key, in a result": Place(
        lambda s: Case([use()], lambda _arguments: f"env: {s}", api_key=s),
        control=lambda: Case([use()], lambda _arguments: f"env: {WORD}"),
    ),
    "the provider's key, in an error": Place(
        lambda s: Case([use(), Raw(refused(s), 401)], api_key=s),
        control=lambda: Case([use(), Raw(refused(WORD), 401)]),
    ),
    "the provider's key, in an error of a stream": Place(
        lambda s: Case([use(), streamed(s)], api_key=s), control=lambda: Case([use(), streamed(WORD)])
    ),
    "the provider's key, in the words of the model": Place(
        lambda s: Case([[f"It is {s}.", *use()]], api_key=s),
        control=lambda: Case([[f"It is {WORD}.", *use()]]),
    ),
    "a variable of the environment": Place(
        lambda _secret: Case([call("bash", command="env; cat /proc/self/environ")], ends_at="end"),
        control=lambda: Case([call("bash", command=f"echo {WORD}")], ends_at="end"),
    ),
    "the context of the tools": Place(
        lambda s: Case([use()], settings={"context": {"credential": s}}),
        control=lambda: Case([use()], lambda _arguments: WORD),
    ),
    "an earlier call of the conversation": Place(
        lambda s: Case([call("other")], other=f"read {s}", ends_at="end", prompt="history"),
        control=lambda: Case([call("other")], other=f"read {WORD}", ends_at="end"),
    ),
}


def refused(secret: str) -> bytes:
    return json.dumps({"error": {"message": f"Wrong key: {secret}", "code": secret}}).encode()


def streamed(secret: str) -> Raw:
    return Raw(b"data: " + refused(secret) + b"\n\n", 200, "text/event-stream")


def logging_tool(_arguments: Any) -> str:
    logging.getLogger("a tool").warning("it is %s", WORD)
    return "used"


EVERYWHERE = {"database", "spans"}
VISIBLE: dict[str, tuple[Case, set[str]]] = {
    "the content of a file that looks like nothing": (
        Case([call("read_file", path="notes.txt")], folder={"notes.txt": f"It is {WORD}\n"}, ends_at="end"),
        EVERYWHERE,
    ),
    "what a tool itself writes into the log": (Case([use(pin=WORD)], logging_tool), {"logs"}),
    "a result, before a call says that it is a secret": (
        Case([call("other"), use(pin=WORD)], other=f"read {WORD}"),
        EVERYWHERE,
    ),
    "the user's words, before a call says that it is a secret": (
        Case([use(pin=WORD)], prompt=f"Go on with {WORD}."),
        {"spans"},
    ),
    "a result in a form that nobody knows": (
        Case([use(pin=WORD)], lambda arguments: arguments["pin"].replace("Zq", "Z.q")),
        EVERYWHERE,
    ),
}
