"""Decode and encode the tool declarations, the tool choice and the answer's schema of generateContent.

Rules of this file:
- A declaration has its parameters as JSON Schema or in OpenAPI keywords. The decoder converts them to JSON Schema, and
  stores the OpenAPI keywords in the spelling. The encoder writes these again if they still mean the parameters.
- Tools of other wires are encoded in one object of declarations. Tools of this wire are encoded in the objects that
  they were decoded from.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolwire.dialects.gemini.parts import DIALECT, GRAMMAR, WIRE, read_keys, spelled_key, to_snake_case, write_keys
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take, unparsed_of
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import Understood, lose_beside_schema
from toolwire.encoding.tools import as_function, begin_tool, lose_metadata, lose_server_tool, lose_strict
from toolwire.errors import InvalidSchema
from toolwire.types import Output, Request, ServerTool, Tool, ToolChoice
from toolwire.types.spelling.gemini import GeminiRequestSpelling, GeminiToolSpelling
from toolwire.wire.names import escape

_DECLARATIONS = "functionDeclarations"
_SNAKE_DECLARATIONS = "function_declarations"
# google-genai 3.4.0, types.Tool.function_declarations (2026-11-20).
DECLARATION_LIMIT = 512
_CALLING = "functionCallingConfig"
_ALLOWED = "allowedFunctionNames"
# google-genai 3.4.0, types.FunctionCallingConfigMode; numbers: content.proto (2026-11-20).
_MODES = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
_MODE_NAMES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_MODE_NUMBERS = {1: "AUTO", 2: "ANY", 3: "NONE", 4: "VALIDATED"}


def decode_tools(bodies: list[Any]) -> list[Tool | ServerTool]:
    """Decode the tool declarations of a request. An object without functions declares a server tool."""
    tools: list[Tool | ServerTool] = []
    is_first = True
    for body in bodies:
        key = _find_declarations_key(body)
        if key is None:
            tools.append(ServerTool(next(iter(body), "") if type(body) is dict else "", DIALECT, body))
            continue
        if is_joined := len(body) > 1:
            server_tools = {name: value for name, value in body.items() if name != key}
            tools.append(ServerTool(next(iter(server_tools)), DIALECT, server_tools))
        spelling = GeminiToolSpelling(
            is_first_of_object=not is_first and not is_joined,
            is_joined_to_server_tool=is_joined,
            is_first_of_snake_list=key == _SNAKE_DECLARATIONS,
        )
        is_first = False
        for declaration in body[key]:
            tools.append(_decode_tool(declaration, spelling))
            spelling = GeminiToolSpelling()
    return tools


def _find_declarations_key(body: Any) -> str | None:
    """Return the key of `body` that has a list of functions, or None if there is no such list."""
    for key in (_DECLARATIONS, _SNAKE_DECLARATIONS) if type(body) is dict else ():
        declared = body.get(key)
        if type(declared) is list and declared:
            named = [type(entry) is dict and type(entry.get("name")) is str for entry in declared]
            if False not in named:
                return key
    return None


def _decode_tool(body: dict[str, Any], spelling: GeminiToolSpelling) -> Tool:
    """Decode one declaration. `spelling` has its position in `tools`."""
    unparsed, snake_keys = read_keys(body)
    name, is_escaped = WIRE.restore_name(unparsed.pop("name"))
    parameters = take(unparsed, "parametersJsonSchema", dict)
    raw_parameters = None if parameters is not None else take(unparsed, "parameters", dict)
    spelling = replace(spelling, is_escaped=is_escaped, snake_keys=tuple(snake_keys))
    if raw_parameters is not None:
        parameters = _read_schema(raw_parameters, f"tool {name!r}")
        spelling = replace(spelling, parameters=raw_parameters)
    description = take(unparsed, "description", str)
    return Tool(name, description, parameters, opaque=WIRE.mark(unparsed, spelling))


def encode_tools(tools: Iterable[Tool | ServerTool], ledger: Ledger) -> list[Any]:
    """Encode the tool declarations of a request."""
    bodies: list[Any] = []
    functions: list[Any] | None = None
    follows_server_tool = False
    for index, tool in enumerate(tools):
        ledger.path = ("tools", index)
        if isinstance(tool, ServerTool):
            follows_server_tool = tool.dialect == DIALECT
            if follows_server_tool:
                bodies.append(tool.value)
            else:
                lose_server_tool(tool, ledger)
            continue
        spelling = spelling_of(tool.opaque, GeminiToolSpelling)
        key = _SNAKE_DECLARATIONS if spelling.is_first_of_snake_list else _DECLARATIONS
        if follows_server_tool and spelling.is_joined_to_server_tool:
            functions = []
            bodies[-1] = {**bodies[-1], key: functions}
        elif functions is None or spelling.is_first_of_object:
            functions = []
            bodies.append({key: functions})
        functions.append(_encode_tool(tool, spelling, ledger))
        follows_server_tool = False
    ledger.path = ()
    return bodies


def _encode_tool(tool: Tool, spelling: GeminiToolSpelling, ledger: Ledger) -> dict[str, Any]:
    """Encode one declaration."""
    is_native = made_by(tool.opaque, DIALECT)
    tool = as_function(tool, ledger) if tool.custom else tool
    body = begin_tool(tool, ledger)
    if tool.plain_parameters is not None:
        if spelling.parameters is not UNSET:
            body["parameters"] = _to_openapi(tool.plain_parameters, spelling.parameters, ledger, "parameters")
        elif is_native:
            body["parametersJsonSchema"] = tool.plain_parameters
        elif tool.plain_parameters:
            body["parametersJsonSchema"] = ledger.fit(tool.plain_parameters, "gemini")
    _lose_other_fields(tool, ledger)
    return write_keys(ledger.finish(body, tool), spelling.snake_keys)


def _lose_other_fields(tool: Tool, ledger: Ledger) -> None:
    if tool.strict:
        ledger.lose("strict", "strict", "the mode VALIDATED applies to every tool", "approximated")
    else:
        lose_strict(tool, ledger)
    lose_metadata(tool, ledger)
    if tool.plain_format is not None:
        ledger.lose("format", "custom_tool", f"{DIALECT} has no grammars")


def encode_strictness(tools: Iterable[Tool | ServerTool], body: dict[str, Any]) -> None:
    """Set the mode VALIDATED if a tool is strict and the model may choose whether to call one."""
    if not any([type(tool) is Tool and tool.strict for tool in tools]):  # noqa: C419 - a list is faster
        return
    config = body.get("toolConfig") or {}
    calling = config.get("functionCallingConfig") or {"mode": "AUTO"}
    if calling.get("mode") == "AUTO":
        body["toolConfig"] = {**config, "functionCallingConfig": {**calling, "mode": "VALIDATED"}}


def decode_choice(value: Any) -> Understood | None:
    """Decode a `toolConfig`. ruby_llm writes the mode in lower case. Servers also accept the number of a mode."""
    outer = spelled_key(value, _CALLING) if type(value) is dict else ""
    config = value.get(outer) if outer else None
    if type(config) is not dict:
        return None
    unparsed_config = config.copy()
    raw_mode = unparsed_config.pop("mode", None)
    mode = _read_mode(raw_mode)
    if mode is None:
        return None
    if mode == "VALIDATED":
        unparsed_config["mode"] = raw_mode
    inner = spelled_key(unparsed_config, _ALLOWED)
    names, raw_names = None, unparsed_config.get(inner)
    if type(raw_names) is list and raw_names and all(type(name) is str for name in raw_names):
        names = [WIRE.restore_name(name)[0] for name in unparsed_config.pop(inner)]
    unparsed = {key: other for key, other in value.items() if key != outer} | (
        {outer: unparsed_config} if unparsed_config else {}
    )
    is_usual = (_CALLING, _ALLOWED, mode) == (outer, inner, raw_mode) and (
        names is None or _are_legal(names, raw_names)
    )
    choice = ToolChoice(_MODES[mode], names)  # type: ignore[arg-type]
    return Understood({"tool_choice": choice}, unparsed or ABSENT, keep=not is_usual)


def _read_mode(mode: Any) -> str | None:
    """Return the name of a mode that was sent as a name in any case or as a number, or None if it is not known."""
    name = mode.upper() if type(mode) is str else _MODE_NUMBERS.get(mode) if type(mode) is int else None
    return name if name in _MODES else None


def _are_legal(names: list[str], raw_names: Any) -> bool:
    """Return True if `raw_names` had no escapes, and names that are legal on this wire."""
    return names == raw_names and [escape(name, GRAMMAR) for name in names] == names


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Encode a `toolConfig`, with the names of the allowed tools."""
    choice, opaque = request.tool_choice, request.opaque
    is_native = made_by(opaque, DIALECT)
    if choice is None:
        return ABSENT
    settings = spelling_of(opaque, GeminiRequestSpelling).settings
    raw_config = settings.get("toolConfig") or unparsed_of(opaque, DIALECT, "toolConfig")
    outer = spelled_key(raw_config, _CALLING)
    config = dict(raw_config.get(outer) or {})
    mode = _read_mode(config.get("mode"))
    if mode is None or _MODES[mode] != choice.mode:
        config["mode"] = _MODE_NAMES[choice.mode]
    inner = spelled_key(config, _ALLOWED)
    config.pop(inner, None)
    if choice.names is not None and choice.mode == "none" and not is_native:
        ledger.lose("tool_choice.names", "tool_choice", "no tool may be called at all")
    elif choice.names is not None:
        if choice.mode == "auto" and not is_native:
            config["mode"] = "VALIDATED"
            ledger.lose(
                "tool_choice", "tool_choice", "only the mode VALIDATED limits the tools", "approximated", "minor"
            )
        config[inner] = [ledger.names.write(name) for name in choice.names]
    return {outer: config}


_DIGITS = re.compile(r"[0-9]{1,18}")
# google-genai 3.4.0, types.Type and types.Schema; numbers: content.proto (2026-11-20).
_TYPE_NAMES = ("TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
_JSON_TYPES: Mapping[str, Any] = {_TYPE_NAMES[0]: ABSENT, **{name: name.lower() for name in _TYPE_NAMES[1:]}}
_COUNT_KEYWORDS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")


def _read_schema(raw: dict[str, Any], path: str) -> Any:
    """Convert an OpenAPI schema to JSON Schema. `path` is its path in the error if it is nested too deeply."""
    try:
        return _from_openapi(raw)
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply; flatten it", path=path) from None


def _from_openapi(schema: Any) -> Any:
    """Convert a schema or subschema in this wire's OpenAPI keywords to JSON Schema."""
    if type(schema) is not dict:
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        keyword = _JSON_KEYWORDS[key] if key in _JSON_KEYWORDS else key  # noqa: SIM401 - no call
        converted = _KEYWORD_READERS[keyword](value) if keyword in _KEYWORD_READERS else value
        if converted is not ABSENT:
            result[keyword] = converted
    if type(result.get("nullable")) is bool and result.pop("nullable"):
        _admit_null(result)
    return result


def _admit_null(schema: dict[str, Any]) -> None:
    """Make a schema accept null, as `nullable` does."""
    if type(schema.get("enum")) is list and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if type(schema.get("anyOf")) is list:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    elif type(schema.get("type")) is str:
        schema["type"] = [schema["type"], "null"]


def _read_type(raw: Any) -> Any:
    """Return the JSON Schema type of an OpenAPI type. langchaingo sends numbers (recorded)."""
    if type(raw) is int and 0 <= raw < len(_TYPE_NAMES):
        raw = _TYPE_NAMES[raw]
    return _JSON_TYPES.get(raw, raw) if type(raw) is str else raw


def _read_each(schemas: Any) -> Any:
    return [_from_openapi(schema) for schema in schemas] if type(schemas) is list else schemas


def _read_map(schemas: Any) -> Any:
    if type(schemas) is not dict:
        return schemas
    return {name: _from_openapi(schema) for name, schema in schemas.items()}


def _read_count(count: Any) -> Any:
    """Return a count. It is an int64, which JSON has as a string (https://protobuf.dev/programming-guides/json/)."""
    return int(count) if type(count) is str and _DIGITS.fullmatch(count) else count


def _read_reference(ref: Any) -> Any:
    """Return a reference to `$defs`, which google-genai writes as `defs`."""
    return f"#/$defs/{ref[7:]}" if type(ref) is str and ref.startswith("#/defs/") else ref


_KEYWORD_READERS: Mapping[str, Callable[[Any], Any]] = {
    "type": _read_type,
    "items": _from_openapi,
    "additionalProperties": _from_openapi,
    "properties": _read_map,
    "$defs": _read_map,
    "anyOf": _read_each,
    "prefixItems": _read_each,
    "$ref": _read_reference,
    **dict.fromkeys(_COUNT_KEYWORDS, _read_count),
}
# google-genai writes its own schemas in snake_case, and these two keywords without `$` (2026-11-20).
_JSON_KEYWORDS = {to_snake_case(keyword): keyword for keyword in (*_KEYWORD_READERS, "propertyOrdering")} | {
    "defs": "$defs",
    "ref": "$ref",
}


# https://ai.google.dev/api/generate-content, GenerationConfig.responseMimeType (2026-11-20).
_ENUM_TYPE = "text/x.enum"


def _is_text_enum(schema: dict[str, Any]) -> bool:
    """Return True if `schema` accepts only members of an enum of texts."""
    members = schema.get("enum")
    return type(members) is list and bool(members) and all(type(member) is str for member in members)


def take_output(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Remove the two keys for the answer's format from `generationConfig`.

    Return the fields of the request, the setting to store as received, and True if the answer is a bare member of an
    enum.
    """
    media_type = config.get("responseMimeType")
    keys = [key for key in ("responseSchema", "responseJsonSchema") if config.get(key) is not None]
    if media_type not in ("application/json", _ENUM_TYPE if keys else "text/plain"):
        return {}, {}, False
    if not keys:
        del config["responseMimeType"]
        return {"output": Output("json" if media_type == "application/json" else "text")}, {}, False
    key, schema = keys[0], config[keys[0]]
    if len(keys) > 1 or type(schema) is not dict or (media_type == _ENUM_TYPE and not _is_text_enum(schema)):
        return {}, {}, False
    del config["responseMimeType"], config[key]
    if key == "responseJsonSchema":
        return {"output": Output("schema", schema)}, {}, media_type == _ENUM_TYPE
    return {"output": Output("schema", _read_schema(schema, key))}, {key: schema}, media_type == _ENUM_TYPE


def encode_media_type(request: Request, _ledger: Ledger) -> Any:
    """Encode the media type of the answer: JSON, text or a member of an enum."""
    output, spelling = request.output or Output("json"), spelling_of(request.opaque, GeminiRequestSpelling)
    if output.schema is not None and spelling.has_enum_output and _is_text_enum(output.schema):
        return _ENUM_TYPE
    return "text/plain" if output.kind == "text" else "application/json"


def encode_schema(request: Request, ledger: Ledger) -> Any:
    """Encode the schema of the answer."""
    output = request.output
    if output is None or output.schema is None:
        return ABSENT
    lose_beside_schema(output, ledger)
    raw = spelling_of(request.opaque, GeminiRequestSpelling).settings.get("responseSchema")
    if raw is not None:
        return _to_openapi(output.schema, raw, ledger, "output.schema")
    is_native = made_by(request.opaque, DIALECT)
    return output.schema if is_native else ledger.fit_value(output.schema, "gemini", "output.schema")


def _to_openapi(schema: dict[str, Any], raw: dict[str, Any], ledger: Ledger, field: str) -> dict[str, Any]:
    """Return `schema` in OpenAPI keywords: as it was received in `raw`, if that still means the same."""
    try:
        meaning = _from_openapi(raw)
    except RecursionError:  # the encoder may run with less stack left than the decoder had
        meaning = None
    if schema == meaning:
        return raw
    if meaning == raw:
        return schema
    return ledger.fit(schema, "gemini-openapi", field)
