"""Encode tools and results, and decode calls, in a provider's format and without a conversation around them.

Rules of this file:
- Encoded values have the shape of the provider's own API. Ollama's declarations are exactly those of OpenAI.
- A value for which a provider has no place is left out. To get the losses, encode a whole request with `encode_request`
  of its dialect.
- Decoding never raises. A call without a name is named "unknown", and arguments that cannot be read are empty. Then
  `error` and `raw` have the reason and the text. A call with an error must not run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from toolwire.dialects import ALIASES, NAMES, Dialect, dialect
from toolwire.errors import InvalidField, InvalidSchema, MissingFields, UnknownDialect, UserError
from toolwire.types import Context, Message, Opaque, Part, Request, Response, ServerTool, Tool, ToolCall, ToolResult
from toolwire.types.spelling.ollama import OllamaCallSpelling
from toolwire.types.spelling.openai_chat import ChatCallSpelling
from toolwire.wire.arguments import parse_arguments, type_name
from toolwire.wire.names import is_generated_id

__all__ = ["decode_tool_calls", "encode_definitions", "encode_result", "encode_results"]

_UNKNOWN = "unknown"
_HISTORIES = ("messages", "contents", "input")
_CHOICE_LISTS = ("choices", "candidates")
_CALL_KINDS = frozenset({"tool_use", "function_call", "custom_tool_call"})
_CALL_KEYS = ("function", "functionCall", "function_call", "custom")
_ARGUMENT_KEYS = ("arguments", "input", "args")


def encode_definitions(tools: Iterable[Tool | ServerTool | Mapping[str, Any]], provider: str) -> list[dict[str, Any]]:
    """Return `tools` as the `tools` of a request to `provider`.

    Raise UnknownDialect if there is no such provider or dialect, and InvalidSchema if a tool is nested too deeply.

    >>> from toolwire import Tool, codec
    >>> codec.encode_definitions([Tool("ping", "Ping", {"type": "object"})], "anthropic")
    [{'name': 'ping', 'description': 'Ping', 'input_schema': {'type': 'object'}}]
    """
    target = _dialect(provider)
    declared = Context(tools=list(tools)).tools
    for index, tool in enumerate(declared):
        _check_depth(tool, f"tools[{index}]")
    if target.TRAITS.describes_keywords:
        declared = [_as_native(tool, target) for tool in declared]
    return _fragment(Context(tools=declared), target).get("tools", [])  # type: ignore[no-any-return]


def _check_depth(tool: Tool | ServerTool, path: str) -> None:
    """Raise InvalidSchema if a declaration is nested too deeply to be written as JSON."""
    try:
        msgspec.json.encode(tool)
    except RecursionError:
        raise InvalidSchema("is nested too deeply to be written as JSON", path=path) from None
    except (TypeError, ValueError, OverflowError):
        return  # a value that is not JSON is left to the caller


def encode_result(result: ToolResult, provider: str) -> dict[str, Any]:
    """Return `result` as a message of a request to `provider`.

    Raise UserError if the provider needs several messages for it, and MissingFields if the result has no id or name
    and the provider needs it.

    >>> from toolwire import ToolResult, codec
    >>> codec.encode_result(ToolResult("call_1", "ping", "pong"), "openai")
    {'role': 'tool', 'tool_call_id': 'call_1', 'content': 'pong'}
    """
    bodies = encode_results([result], provider)
    if len(bodies) != 1:
        raise UserError(
            f"{provider} needs {len(bodies)} messages for it; encode_results returns them all", path="content"
        )
    return bodies[0]


def encode_results(results: Sequence[ToolResult], provider: str) -> list[dict[str, Any]]:
    """Return `results` as messages of a request to `provider`, which may be one message for all of them.

    Raise InvalidField if a value is not a ToolResult, and MissingFields if a result has no id or name and the provider
    needs it.

    >>> from toolwire import ToolResult, codec
    >>> results = [ToolResult("call_1", "ping", "pong"), ToolResult("call_2", "ping", "pong")]
    >>> len(codec.encode_results(results, "anthropic"))
    1
    """
    target = _dialect(provider)
    link = target.TRAITS.result_link
    for index, result in enumerate(results):
        if not isinstance(result, ToolResult):
            raise InvalidField(f"results[{index}]", f"must be a ToolResult, not {type(result).__name__}")
        if link and getattr(result, link) is None:
            raise MissingFields(f"a result for {provider}", [link])
    if not link:
        results = [replace(result, tool_call_id=None, name=None) for result in results]
    body = _fragment(Context(messages=[Message("tool", [result]) for result in results]), target)
    bodies = next(body[key] for key in _HISTORIES if key in body)
    _restore_texts(results, bodies)
    return list(bodies)


def _restore_texts(results: Sequence[ToolResult], bodies: list[dict[str, Any]]) -> None:
    """Undo the space that a dialect writes before a text that only looks like an error."""
    for result, body in zip(results, bodies, strict=False):
        for key in ("content", "output"):
            if not result.is_error and body.get(key) == f" {result.content}":
                body[key] = result.content


def _dialect(provider: object) -> Dialect:
    """Return the dialect of a provider, or the dialect with this name."""
    if not isinstance(provider, str):
        raise UnknownDialect(provider, [*NAMES, *ALIASES])
    try:
        return dialect(provider)
    except UnknownDialect:
        from toolwire.providers import named  # noqa: PLC0415 - loaded only if a server is named

        if (server := named(provider)) is None:
            raise
        return server.speaks()


def _fragment(context: Context, target: Dialect) -> dict[str, Any]:
    """Encode a part of a conversation. It is marked as native, so that the target neither repairs nor completes it."""
    return target.encode_request(Request(context=context, opaque=Opaque(target.DIALECT, {}))).body


def _as_native(tool: Tool | ServerTool, target: Dialect) -> Tool | ServerTool:
    if isinstance(tool, ServerTool) or (tool.opaque is not None and tool.opaque.dialect == target.DIALECT):
        return tool
    return replace(tool, opaque=Opaque(target.DIALECT, {}))


def decode_tool_calls(body: Any, provider: str) -> list[ToolCall]:
    """Return the calls in `body`, the body of a response from `provider`, in order.

    Raise UnknownDialect if there is no such provider or dialect.

    >>> from toolwire import codec
    >>> body = {"message": {"tool_calls": [{"function": {"name": "ping", "arguments": {}}}]}}
    >>> codec.decode_tool_calls(body, "ollama")[0].name
    'ping'
    """
    source = _dialect(provider)
    if type(body) is not dict:
        return []
    response = source.decode_response(_first_answer(body))
    calls = [call for part in _parts(response) if (call := _read_call(part)) is not None]
    if any(call.id is not None and is_generated_id(call.id) for call in calls):
        strings = _strings_in(body)
        calls = [call if call.id in strings else replace(call, id=None) for call in calls]
    return [call if call.index == index else replace(call, index=index) for index, call in enumerate(calls)]


def _first_answer(body: dict[str, Any]) -> dict[str, Any]:
    """Return a response's body with its first choice only."""
    for key in _CHOICE_LISTS:
        if type(body.get(key)) is list:
            return {**body, key: body[key][:1]}
    return body


def _parts(response: Response) -> list[Part]:
    """Return the parts of an answer, and a `tool_calls` value that is not a list of calls as an opaque part."""
    message = response.message
    unparsed = message.opaque.value if message.opaque is not None else None
    other_calls = unparsed.get("tool_calls") if type(unparsed) is dict else None
    return [*message.parts, Opaque("", other_calls, spelling=ChatCallSpelling())] if other_calls else message.parts


def _read_call(part: Part) -> ToolCall | None:
    """Return the call in a part, or None if the part is not a call."""
    match part:
        case ToolCall():
            return _complete_call(part)
        case Opaque() if _is_call(part):
            return _read_unparsed_call(part.value)
    return None


def _complete_call(call: ToolCall) -> ToolCall:
    """Return a call with a name, and with the text of its arguments if they could not be read."""
    if not call.name:
        return replace(call, name=_UNKNOWN, error=call.error or "a call must have a name")
    if call.error is None or call.opaque is None:
        return call
    written = _arguments_of(_call_fields(call.opaque.value))
    if type(written) is not str:
        return call if call.raw is not None else replace(call, raw=_write_json(written))
    arguments, error = parse_arguments(written)
    return replace(call, arguments=arguments, raw=written, error=error)


def _is_call(part: Opaque) -> bool:
    if type(part.spelling) in (ChatCallSpelling, OllamaCallSpelling):
        return True
    value = part.value
    if type(value) is not dict:
        return False
    kind = value.get("type")
    return (type(kind) is str and kind in _CALL_KINDS) or any(key in value for key in _CALL_KEYS[1:3])


def _read_unparsed_call(entry: Any) -> ToolCall:
    """Return the call of an entry that its dialect did not accept as a call, as far as it can be read."""
    if type(entry) is not dict:
        return ToolCall(
            None, _UNKNOWN, raw=_write_json(entry), error=f"a call must be an object, not {type_name(entry)}"
        )
    inner = _call_fields(entry)
    ids = [fields.get(key) for fields in (entry, inner) for key in ("call_id", "id")]
    call_id = next((value for value in ids if type(value) is str and value), None)
    name = inner.get("name")
    if type(name) is not str or not name:
        return ToolCall(call_id, _UNKNOWN, raw=_write_json(entry), error="a call must have a name")
    match _arguments_of(inner):
        case dict(arguments):
            return ToolCall(call_id, name, arguments)
        case str(raw):
            arguments, error = parse_arguments(raw)
            return ToolCall(call_id, name, arguments, raw=raw, error=error)
        case None:
            return ToolCall(call_id, name)
        case other:
            error = f"an object was expected, not {type_name(other)}"
            return ToolCall(call_id, name, raw=_write_json(other), error=error)


def _call_fields(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the object in `entry` that has the name and the arguments of a call, or `entry` itself."""
    return next((entry[key] for key in _CALL_KEYS if type(entry.get(key)) is dict), entry)


def _arguments_of(inner: dict[str, Any]) -> Any:
    return next((inner[key] for key in _ARGUMENT_KEYS if key in inner), None)


def _write_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return f"({type_name(value)} that is not JSON)"


def _strings_in(value: Any) -> set[str]:
    """Return all strings in a JSON value."""
    strings: set[str] = set()
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict(inner):
                waiting += inner.values()
            case list(inner):
                waiting += inner
            case str(text):
                strings.add(text)
    return strings
