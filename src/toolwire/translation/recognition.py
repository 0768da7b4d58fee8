"""Which wire a body is of, by marks that other wires do not have, and whether it can be of the wire that is named.

Rules of this file:
- A mark is a place in the body, and the dialects that have it. A body is of those that have all of its marks; where
  none has, or where there is no mark, nothing is said.
- Only places that carry a conversation are marks: a setting of one wire is often an extension of another.
"""

from collections.abc import Iterator
from typing import Any, Literal

from toolwire.dialects import NAMES, dialect
from toolwire.errors import InvalidBody
from toolwire.wire.arguments import type_name

Kind = Literal["request", "response", "stream"]
_CHAT, _RESPONSES, _ANTHROPIC, _GEMINI, _OLLAMA = NAMES
_TOLD = (_CHAT, _OLLAMA)
# A place is written as a path; `*` is any item of a list, and `=` says which value stands there.
_MARKS: dict[Kind, dict[str, tuple[str, ...]]] = {
    "request": {
        "messages": (_CHAT, _ANTHROPIC, _OLLAMA),
        "contents": (_GEMINI,),
        "input": (_RESPONSES,),
        "tools/*/function": _TOLD,
        "tools/*/input_schema": (_ANTHROPIC,),
        "tools/*/functionDeclarations": (_GEMINI,),
        "tools/*/function_declarations": (_GEMINI,),
        "messages/*/tool_calls": _TOLD,
        "messages/*/role=tool": _TOLD,
        "messages/*/role=developer": (_CHAT,),
        "messages/*/images": (_OLLAMA,),
        "messages/*/content/*/type=image_url": (_CHAT,),
        "messages/*/content/*/type=tool_use": (_ANTHROPIC,),
        "messages/*/content/*/type=tool_result": (_ANTHROPIC,),
    },
    "response": {
        "choices": (_CHAT,),
        "output": (_RESPONSES,),
        "stop_reason": (_ANTHROPIC,),
        "content/*/type": (_ANTHROPIC,),
        "candidates": (_GEMINI,),
        "message": (_OLLAMA,),
        "done": (_OLLAMA,),
    },
    "stream": {
        "choices": (_CHAT,),
        "candidates": (_GEMINI,),
        "type=message_start": (_ANTHROPIC,),
        "type=response.created": (_RESPONSES,),
        "done": (_OLLAMA,),
    },
}
_SHAPES: dict[str, tuple[type, ...]] = {
    "messages": (list,),
    "contents": (list, dict),
    "input": (list, str),
    "tools": (list,),
    "choices": (list,),
    "output": (list,),
    "candidates": (list,),
}
_WORDS: dict[type, str] = {list: "an array", dict: "an object", str: "a string"}


def looks_like(body: Any, kind: Kind = "request") -> tuple[str, ...]:
    """Name the dialects that a body may be of, () where nothing tells."""
    found = [set(names) for path, names in _MARKS[kind].items() if any(_at(body, path.split("/")))]
    return tuple(name for name in NAMES if found and all(name in names for names in found))


def check_wire(body: Any, kind: Kind, named: str) -> None:
    """Refuse a body that is of another wire than the one that is named, or of another kind, and say of which."""
    name = dialect(named).DIALECT
    for key, wanted in _SHAPES.items():
        value = body.get(key) if type(body) is dict else None
        if value is not None and type(value) not in wanted and name in _owners(key, kind):
            words = " or ".join(_WORDS[one] for one in wanted)
            raise InvalidBody(f"must be {words}, not {type_name(value)}", path=key)
    seen = looks_like(body, kind)
    if seen and name not in seen:
        raise InvalidBody(f"this looks like {' or '.join(seen)}, not {name}", path="body")
    for other in _MARKS:
        if not seen and other != kind and (seen_so := looks_like(body, other)):
            raise InvalidBody(f"this looks like a {other} of {' or '.join(seen_so)}, not a {kind}", path="body")


def _owners(key: str, kind: Kind) -> tuple[str, ...]:
    return NAMES if key == "tools" else _MARKS[kind].get(key, ())


def _at(value: Any, path: list[str]) -> Iterator[bool]:
    """Say of each place that a path leads to that it is there."""
    if not path:
        yield value is not None
    elif path[0] == "*":
        for item in value if type(value) is list else ():
            yield from _at(item, path[1:])
    elif type(value) is dict:
        key, _, wanted = path[0].partition("=")
        if key in value and wanted in ("", value[key]):
            yield from _at(value[key], path[1:])
