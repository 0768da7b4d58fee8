"""Recognize the wire of a body by its marks, and check that a body can be of the wire that a user has named.

Rules of this file:
- A mark is a path in a body, with the dialects that have it. A body may be of the dialects that have all of its marks.
  If it has no mark, or if no dialect has all of them, its wire is unknown.
- Paths of a conversation are marks. A setting is one only if no other wire and no known extension of one has it.
"""

from collections.abc import Iterator
from typing import Any, Literal

from toolwire.dialects import NAMES, dialect
from toolwire.errors import InvalidBody
from toolwire.wire.arguments import type_name

Kind = Literal["request", "response", "stream"]
_CHAT, _RESPONSES, _ANTHROPIC, _GEMINI, _OLLAMA = NAMES
_CHAT_LIKE = (_CHAT, _OLLAMA)
_ANTHROPIC_EVENTS = (
    "type=message_start",
    "type=ping",
    "type=content_block_start",
    "type=content_block_delta",
    "type=message_delta",
)
_RESPONSES_EVENTS = (
    "type=response.created",
    "type=response.queued",
    "type=response.in_progress",
    "type=response.output_item.added",
    "type=response.output_text.delta",
    "type=response.completed",
)
# In a path, `*` is any item of a list, a number is that item, and `=` is followed by the value of the field.
_MARKS: dict[Kind, dict[str, tuple[str, ...]]] = {
    "request": {
        "messages": (_CHAT, _ANTHROPIC, _OLLAMA),
        "contents": (_GEMINI,),
        "input": (_RESPONSES,),
        "tools/*/function": _CHAT_LIKE,
        "tools/*/input_schema": (_ANTHROPIC,),
        "tools/*/functionDeclarations": (_GEMINI,),
        "tools/*/function_declarations": (_GEMINI,),
        "messages/*/tool_calls": _CHAT_LIKE,
        "messages/*/role=tool": _CHAT_LIKE,
        "messages/*/role=developer": (_CHAT,),
        "messages/*/images": (_OLLAMA,),
        "messages/*/content/*/type=image_url": (_CHAT,),
        "messages/*/content/*/type=tool_use": (_ANTHROPIC,),
        "messages/*/content/*/type=tool_result": (_ANTHROPIC,),
        "messages/*/content/*/type=image": (_ANTHROPIC,),
        "messages/*/content/*/type=document": (_ANTHROPIC,),
        "messages/*/content/*/type=thinking": (_CHAT, _ANTHROPIC),  # Mistral's models answer so
        "messages/*/content/*/type=input_audio": (_CHAT,),
        "messages/*/content/*/type=file": (_CHAT,),
        "messages/0/role=system": _CHAT_LIKE,  # Messages has system turns, but not as the first one
        "system": (_ANTHROPIC,),
        "stop_sequences": (_ANTHROPIC,),
        "max_tokens": (_CHAT, _ANTHROPIC),
        "max_completion_tokens": (_CHAT,),
        "response_format": (_CHAT,),
        "stream_options": (_CHAT, _RESPONSES),
        "instructions": (_RESPONSES,),
        "max_output_tokens": (_RESPONSES,),
        "systemInstruction": (_GEMINI,),
        "system_instruction": (_GEMINI,),
        "generationConfig": (_GEMINI,),
        "generation_config": (_GEMINI,),
        "options": (_OLLAMA,),
        "keep_alive": (_OLLAMA,),
    },
    "response": {
        "choices": (_CHAT,),
        "output": (_RESPONSES,),
        "stop_reason": (_ANTHROPIC,),
        "content/*/type": (_ANTHROPIC,),
        "object=response": (_RESPONSES,),
        "type=message": (_ANTHROPIC,),
        "candidates": (_GEMINI,),
        "promptFeedback": (_GEMINI,),
        "message": (_OLLAMA,),
        "done": (_OLLAMA,),
    },
    "stream": {
        "choices": (_CHAT,),
        "candidates": (_GEMINI,),
        "promptFeedback": (_GEMINI,),
        **dict.fromkeys(_ANTHROPIC_EVENTS, (_ANTHROPIC,)),
        **dict.fromkeys(_RESPONSES_EVENTS, (_RESPONSES,)),
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
_TYPE_NAMES: dict[type, str] = {list: "an array", dict: "an object", str: "a string"}


def matching_dialects(body: Any, kind: Kind = "request") -> tuple[str, ...]:
    """Return the names of the dialects that a body may be of, or () if they are unknown."""
    owners_of_marks = [set(names) for path, names in _MARKS[kind].items() if any(_matches(body, path.split("/")))]
    return tuple(name for name in NAMES if owners_of_marks and all(name in names for names in owners_of_marks))


def check_wire(body: Any, kind: Kind, dialect_name: str) -> None:
    """Raise InvalidBody if `body` looks like that of another dialect than `dialect_name`, or of another kind."""
    name = dialect(dialect_name).DIALECT
    for key, expected in _SHAPES.items():
        value = body.get(key) if type(body) is dict else None
        if value is not None and type(value) not in expected and name in _owners(key, kind):
            type_names = " or ".join(_TYPE_NAMES[expected_type] for expected_type in expected)
            raise InvalidBody(f"must be {type_names}, not {type_name(value)}", path=key)
    matching = matching_dialects(body, kind)
    if matching and name not in matching:
        raise InvalidBody(f"this looks like {' or '.join(matching)}, not {name}", path="body")
    for other in _MARKS:
        if not matching and other != kind and (other_matching := matching_dialects(body, other)):
            raise InvalidBody(f"this looks like a {other} of {' or '.join(other_matching)}, not a {kind}", path="body")


def _owners(key: str, kind: Kind) -> tuple[str, ...]:
    return NAMES if key == "tools" else _MARKS[kind].get(key, ())


def _matches(value: Any, path: list[str]) -> Iterator[bool]:
    """Yield a bool for each value in a body at a path: False if the value is null."""
    if not path:
        yield value is not None
    elif path[0] == "*":
        for item in value if type(value) is list else ():
            yield from _matches(item, path[1:])
    elif path[0].isdecimal():
        for item in value[int(path[0]) :][:1] if type(value) is list else ():
            yield from _matches(item, path[1:])
    elif type(value) is dict:
        key, _, expected = path[0].partition("=")
        if key in value and expected in ("", value[key]):
            yield from _matches(value[key], path[1:])
