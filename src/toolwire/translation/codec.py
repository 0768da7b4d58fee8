"""Tools, calls and results in a provider's words, without a conversation around them.

Rules of this file:
- What is written is the provider's shape and nothing else; Ollama's declarations are OpenAI's, word for word.
- What a provider cannot say is left out; of a whole request, `encode_request` of its dialect names losses.
- Reading never raises. A call that is none is named "unknown", arguments that are none are empty: `error` and
  `raw` say what was wrong, and a call with an error is not to be run.
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
_ANSWERS = ("choices", "candidates")
_CALL_KINDS = frozenset({"tool_use", "function_call", "custom_tool_call"})
_CALL_KEYS = ("function", "functionCall", "function_call", "custom")
_ARGUMENT_KEYS = ("arguments", "input", "args")


def encode_definitions(tools: Iterable[Tool | ServerTool | Mapping[str, Any]], provider: str) -> list[dict[str, Any]]:
    """Write declarations in the form that `tools` of a provider's request has.

    >>> from toolwire import Tool, codec
    >>> codec.encode_definitions([Tool("ping", "Ping", {"type": "object"})], "anthropic")
    [{'name': 'ping', 'description': 'Ping', 'input_schema': {'type': 'object'}}]
    """
    target = _dialect(provider)
    declared = Context(tools=list(tools)).tools
    for place, tool in enumerate(declared):
        _check_depth(tool, f"tools[{place}]")
    if target.TRAITS.describes_keywords:
        declared = [_as_it_is(tool, target) for tool in declared]
    return _fragment(Context(tools=declared), target).get("tools", [])  # type: ignore[no-any-return]


def _check_depth(tool: Tool | ServerTool, path: str) -> None:
    """Refuse a declaration that is too deep for anybody to write as JSON."""
    try:
        msgspec.json.encode(tool)
    except RecursionError:
        raise InvalidSchema("is nested too deeply to be written as JSON", path=path) from None
    except (TypeError, ValueError, OverflowError):
        return  # what else is no JSON stays as it is, for the caller to write


def encode_result(result: ToolResult, provider: str) -> dict[str, Any]:
    """Write a result as the one message that brings it to a provider.

    >>> from toolwire import ToolResult, codec
    >>> codec.encode_result(ToolResult("call_1", "ping", "pong"), "openai")
    {'role': 'tool', 'tool_call_id': 'call_1', 'content': 'pong'}
    """
    bodies = encode_results([result], provider)
    if len(bodies) != 1:
        raise UserError(
            f"{provider} needs {len(bodies)} messages for it; encode_results gives them all", path="content"
        )
    return bodies[0]


def encode_results(results: Sequence[ToolResult], provider: str) -> list[dict[str, Any]]:
    """Write results as the messages that bring them to a provider: one message for all if the provider wants that.

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
    _say_exactly(results, bodies)
    return list(bodies)


def _say_exactly(results: Sequence[ToolResult], bodies: list[dict[str, Any]]) -> None:
    """Give each text as it is; a whole request keeps what looks like an error apart from what is one."""
    for result, body in zip(results, bodies, strict=False):
        for key in ("content", "output"):
            if not result.is_error and body.get(key) == f" {result.content}":
                body[key] = result.content


def _dialect(provider: object) -> Dialect:
    if not isinstance(provider, str):
        raise UnknownDialect(provider, [*NAMES, *ALIASES])
    try:
        return dialect(provider)
    except UnknownDialect:
        from toolwire.providers import named  # noqa: PLC0415 - read where a server is named and not a wire

        if (server := named(provider)) is None:
            raise
        return server.speaks()


def _fragment(context: Context, target: Dialect) -> dict[str, Any]:
    """Write a part of a conversation: marked as the target's own, it is neither repaired nor filled up."""
    return target.encode_request(Request(context=context, opaque=Opaque(target.DIALECT, {}))).body


def _as_it_is(tool: Tool | ServerTool, target: Dialect) -> Tool | ServerTool:
    if isinstance(tool, ServerTool) or (tool.opaque is not None and tool.opaque.dialect == target.DIALECT):
        return tool
    return replace(tool, opaque=Opaque(target.DIALECT, {}))


def decode_tool_calls(body: Any, provider: str) -> list[ToolCall]:
    """Read the calls of a response's body, in order; [] where there is none.

    >>> from toolwire import codec
    >>> body = {"message": {"tool_calls": [{"function": {"name": "ping", "arguments": {}}}]}}
    >>> codec.decode_tool_calls(body, "ollama")[0].name
    'ping'
    """
    source = _dialect(provider)
    if type(body) is not dict:
        return []
    response = source.decode_response(_first_answer(body))
    calls = [call for part in _parts(response) if (call := _read(part)) is not None]
    if any(call.id is not None and is_generated_id(call.id) for call in calls):
        texts = _texts(body)
        calls = [call if call.id in texts else replace(call, id=None) for call in calls]
    return [call if call.index == index else replace(call, index=index) for index, call in enumerate(calls)]


def _first_answer(body: dict[str, Any]) -> dict[str, Any]:
    for key in _ANSWERS:
        if type(body.get(key)) is list:
            return {**body, key: body[key][:1]}
    return body


def _parts(response: Response) -> list[Part]:
    """Give the parts of an answer, and what stands in the place of its calls and is no list of them."""
    message = response.message
    left = message.opaque.value if message.opaque is not None else None
    odd = left.get("tool_calls") if type(left) is dict else None
    return [*message.parts, Opaque("", odd, spelling=ChatCallSpelling())] if odd else message.parts


def _read(part: Part) -> ToolCall | None:
    match part:
        case ToolCall():
            return _settle(part)
        case Opaque() if _is_call(part):
            return _salvage(part.value)
    return None


def _settle(call: ToolCall) -> ToolCall:
    """Complete what a dialect says of a call: a name, and beside an error the text that it is about."""
    if not call.name:
        return replace(call, name=_UNKNOWN, error=call.error or "a call must have a name")
    if call.error is None or call.opaque is None:
        return call
    written = _arguments_of(_inner(call.opaque.value))
    if type(written) is not str:
        return call if call.raw is not None else replace(call, raw=_written(written))
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


def _salvage(entry: Any) -> ToolCall:
    """Read what can be read of an entry that its dialect did not take for a call."""
    if type(entry) is not dict:
        return ToolCall(None, _UNKNOWN, raw=_written(entry), error=f"a call must be an object, not {type_name(entry)}")
    inner = _inner(entry)
    ids = [holder.get(key) for holder in (entry, inner) for key in ("call_id", "id")]
    call_id = next((value for value in ids if type(value) is str and value), None)
    name = inner.get("name")
    if type(name) is not str or not name:
        return ToolCall(call_id, _UNKNOWN, raw=_written(entry), error="a call must have a name")
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
            return ToolCall(call_id, name, raw=_written(other), error=error)


def _inner(entry: dict[str, Any]) -> dict[str, Any]:
    return next((entry[key] for key in _CALL_KEYS if type(entry.get(key)) is dict), entry)


def _arguments_of(inner: dict[str, Any]) -> Any:
    return next((inner[key] for key in _ARGUMENT_KEYS if key in inner), None)


def _written(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return f"({type_name(value)} that is not JSON)"


def _texts(value: Any) -> set[str]:
    """Find every text that stands in a value."""
    texts: set[str] = set()
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict(inner):
                waiting += inner.values()
            case list(inner):
                waiting += inner
            case str(text):
                texts.add(text)
    return texts
