"""The requests that the server of Ollama rejects, which are few: bodies that do not fit its types, with Go's messages.

Rule: Ollama does not pair results with calls and accepts any order of roles, so neither is checked here.

Sources: ollama/ollama, api/types.go and server/routes.go (2026-08-21); the types of ollama 0.6.3.
"""

import base64

from msgspec.structs import replace

from toolwire.testing.rules import Check, ErrorWording, Field, Object, Path, Rejection, WireRequest

_ROLES = ("system", "user", "assistant", "tool")
_EFFORTS = ("low", "medium", "high", "max")


def _join(path: Path) -> str:
    return ".".join(step for step in path if type(step) is str)


_OLLAMA = ErrorWording(
    {"wrong": "json: cannot unmarshal {got} into Go struct field ChatRequest.{path} of type {expected}"},
    kinds={
        "string": "string",
        "boolean": "bool",
        "integer": "int",
        "number": "float64",
        "array": "[]api.Message",
        "object": "map[string]any",
        "null": "nil",
    },
    got={
        **{kind: kind for kind in ("string", "number", "object", "array", "null")},
        "integer": "number",
        "boolean": "bool",
    },
    join=_join,
)


def _struct(*rows: str, **fields: Field) -> Object:
    """Return the table of a Go struct: null leaves a field unset, and unknown fields are ignored."""
    nullable = {key: replace(field_, kinds=f"{field_.kinds}|null") for key, field_ in fields.items()}
    return Object(*(row.replace(": ", "|null: ") for row in rows), **nullable)


_CALL = _struct(
    "string: id", function=Field("object", inside=_struct("string: name", "object: arguments", "integer: index"))
)
_MESSAGE = _struct(
    "string: role content thinking tool_name tool_call_id", "array: images", tool_calls=Field("array", inside=_CALL)
)
_FUNCTION = _struct("string: name description", "object: parameters")
_BODY = _struct(
    "string: model",
    "boolean: stream truncate shift logprobs",
    "integer: top_logprobs",
    "object: options",
    "string|object: format",
    "boolean|string: think",
    "string|number: keep_alive",
    messages=Field("array", inside=_MESSAGE),
    tools=Field("array", inside=_struct("string: type", function=Field("object", inside=_FUNCTION))),
)


def _check_shape(request: WireRequest) -> None:
    """Check everything that the table describes, and the settings."""
    body = request.body
    _BODY.check(body, (), _OLLAMA)
    if not body.get("model"):
        raise Rejection("model is required")
    think, format_ = body.get("think"), body.get("format")
    if type(think) is str and think not in _EFFORTS:
        known = ", ".join(f'"{word}"' for word in _EFFORTS[::-1])
        raise Rejection(f'invalid think value: "{think}" (must be {known}, true, or false)')
    if type(format_) is str and format_ not in ("", "json"):
        raise Rejection(f'invalid format: "{format_}"; expected "json" or a valid JSON Schema object')


def _check_messages(request: WireRequest) -> None:
    for message in request.body.get("messages") or ():
        role = message.get("role") or ""
        if role.lower() not in _ROLES:
            raise Rejection(f"invalid role: {role}, role must be one of [{', '.join(_ROLES)}]")
        for image in message.get("images") or ():
            if type(image) is not str:
                raise _OLLAMA.wrong_type(("messages", "images"), "string", image)
            try:
                base64.b64decode(image.replace("\n", "").replace("\r", ""), validate=True)
            except ValueError as problem:
                raise Rejection("illegal base64 data at input byte 0") from problem


CHECKS: tuple[Check, ...] = (_check_shape, _check_messages)
