"""Tool declarations and the choice among them, in Messages.

Rules of this file:
- The provider runs a tool with a type of its own, except for those in `BUILTIN_CLIENT_TOOLS`, which the client runs.
  Claude knows the parameters of these. Other models receive a description and a schema.
- The description repeats the settings of their declaration, such as the size of a screen.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolwire.dialects.anthropic.parts import DIALECT, WIRE
from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import Understood
from toolwire.encoding.tools import as_function, begin_tool, lose_format, lose_metadata
from toolwire.encoding.traits import ToolSearchForm
from toolwire.types import (
    Opaque,
    Part,
    Request,
    ServerTool,
    ServerToolCall,
    ServerToolResult,
    Text,
    Tool,
    ToolChoice,
    ToolResult,
)
from toolwire.types.frozen import copy_json
from toolwire.types.spelling.anthropic import MessagesTextSpelling, MessagesToolSpelling

# api.anthropic.com: "Property keys should match pattern" (2026-09-19).
_PARAMETER_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class _BuiltinTool(Struct, frozen=True):
    """A tool that Anthropic defines and the client runs, as it is declared to other models."""

    description: str
    required: tuple[str, ...]
    properties: dict[str, Any]

    def describe(self, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the description, with sentences about the `settings` of a declaration, and the schema."""
        sentences = [text.format(settings[key]) for key, text in _SETTING_SENTENCES.items() if key in settings]
        schema = {"type": "object", "properties": copy_json(self.properties), "required": list(self.required)}
        return " ".join([self.description, *sentences]), schema


_SETTING_SENTENCES = {
    "display_width_px": "The screen is {} pixels wide.",
    "display_height_px": "The screen is {} pixels high.",
    "max_characters": "A view shows at most {} characters.",
}
_TEXT, _COUNT, _NUMBER, _FLAG = ({"type": json_type} for json_type in ("string", "integer", "number", "boolean"))
_POINT, _REGION = ({"type": "array", "items": _COUNT, "minItems": size, "maxItems": size} for size in (2, 4))


def _editor_tool(*more: str, inserted: str = "new_str") -> _BuiltinTool:
    properties = {"path": _TEXT, "view_range": _POINT, "file_text": _TEXT, "old_str": _TEXT, "new_str": _TEXT}
    commands = {"command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", *more]}}
    return _BuiltinTool(
        "View, create and edit text files. `view` takes a `view_range` of lines if not all are wanted, `create` takes "
        "`file_text`, `str_replace` replaces `old_str`, which stands there once, by `new_str`, and `insert` puts "
        f"`{inserted}` after the line `insert_line` (0 is the beginning).",
        ("command", "path"),
        {**commands, **properties, "insert_line": _COUNT, inserted: _TEXT},
    )


_MEMORY = _BuiltinTool(
    "Keep what is to be remembered in files under /memories. `view` shows a file or a folder, `create` writes "
    "`file_text`, `str_replace` replaces `old_str` by `new_str`, `insert` puts `insert_text` after the line "
    "`insert_line`, `delete` takes a `path` away, and `rename` moves `old_path` to `new_path`.",
    ("command",),
    {
        "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
        **dict.fromkeys(("path", "file_text", "old_str", "new_str", "insert_text", "old_path", "new_path"), _TEXT),
        "insert_line": _COUNT,
        "view_range": _POINT,
    },
)


def _computer_tool(actions: Sequence[str], **more: Any) -> _BuiltinTool:
    return _BuiltinTool(
        "Use the screen, the mouse and the keyboard of a computer. A `coordinate` is [x, y] in pixels from the upper "
        "left; `text` is what is typed, or the keys that are pressed. A `screenshot` shows what there is now.",
        ("action",),
        {"action": {"type": "string", "enum": [*actions]}, "coordinate": _POINT, "text": _TEXT, **more},
    )


_CLICKS = ("left_click", "left_click_drag", "right_click", "middle_click", "double_click")
_ACTIONS = ("key", "type", "mouse_move", *_CLICKS, "screenshot", "cursor_position")
_MORE_ACTIONS = (*_ACTIONS, "left_mouse_down", "left_mouse_up", "triple_click", "scroll", "hold_key", "wait")
_MOVES = {
    "start_coordinate": _POINT,
    "duration": {**_NUMBER, "description": "Seconds, for `wait` and `hold_key`."},
    "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
    "scroll_amount": _COUNT,
}
_ZOOMED = {"region": {**_REGION, "description": "What `zoom` shows: [x1, y1, x2, y2]."}}
_BASH = _BuiltinTool(
    "Run a `command` in a bash session, which goes on from call to call; `restart` begins a new one.",
    (),
    {"command": _TEXT, "restart": _FLAG},
)
# anthropic 2.14.0, BetaToolUnionParam, BetaMemoryTool20250818Command; platform.claude.com/docs/en/agents-and-tools
# (bash-tool, text-editor-tool, computer-use-tool) for what the others take (2026-11-26).
BUILTIN_CLIENT_TOOLS: Mapping[str, _BuiltinTool] = {
    "bash_20241022": _BASH,
    "bash_20250124": _BASH,
    "text_editor_20241022": _editor_tool("undo_edit"),
    "text_editor_20250124": _editor_tool("undo_edit"),
    "text_editor_20250429": _editor_tool(),
    "text_editor_20250728": _editor_tool(inserted="insert_text"),
    "memory_20250818": _MEMORY,
    "computer_20241022": _computer_tool(_ACTIONS),
    "computer_20250124": _computer_tool(_MORE_ACTIONS, **_MOVES),
    "computer_20251124": _computer_tool((*_MORE_ACTIONS, "zoom"), **_MOVES, **_ZOOMED),
}


def _decode_builtin_tool(body: dict[str, Any]) -> Tool:
    """Decode a tool that Anthropic defines and the client runs."""
    unparsed, builtin = body.copy(), body["type"]
    constants = {"type": unparsed.pop("type")}
    constants |= {key: unparsed.pop(key) for key in _SETTING_SENTENCES if type(unparsed.get(key)) is int}
    name, is_escaped = WIRE.restore_name(unparsed.pop("name"))
    description, schema = BUILTIN_CLIENT_TOOLS[builtin].describe(constants)
    strict, cache = take(unparsed, "strict", bool), WIRE.take_cache(unparsed)
    spelling = MessagesToolSpelling(constants=constants, is_escaped=is_escaped, builtin=builtin)
    return Tool(name, description, schema, strict=strict, cache=cache, opaque=WIRE.mark(unparsed, spelling))


def _encode_builtin_tool(tool: Tool, builtin: str, spelling: MessagesToolSpelling, ledger: Ledger) -> dict[str, Any]:
    """Encode a tool that Anthropic defines as it was declared. A changed description or schema is a loss."""
    body = begin_tool(tool, ledger)
    description, schema = BUILTIN_CLIENT_TOOLS[builtin].describe(spelling.constants)
    for field, builtin_value in (("description", description), ("parameters", schema)):
        if getattr(tool, field) != builtin_value:
            ledger.lose(field, "own_tool", f"{DIALECT} has its own {field} for {builtin}")
    ledger.lose_fields(tool, "own_tool", "custom", "format")
    lose_metadata(tool, ledger)
    strict = {} if tool.strict is None else {"strict": tool.strict}
    return ledger.finish({"name": body["name"], **strict}, tool)


def decode_tool(body: Any) -> Tool | ServerTool:
    """Decode one declaration. A tool that the provider runs becomes a `ServerTool`."""
    tool_type = body.get("type", "custom") if type(body) is dict else None
    if type(tool_type) is str and tool_type in BUILTIN_CLIENT_TOOLS and type(body.get("name")) is str:
        return _decode_builtin_tool(body)
    if tool_type not in (None, "custom") or type(body) is not dict or type(body.get("name")) is not str:
        return ServerTool(tool_type if type(tool_type) is str else "", DIALECT, body)
    unparsed = body.copy()
    constants = {"type": unparsed.pop("type")} if unparsed.get("type") == "custom" else {}
    name, is_escaped = WIRE.restore_name(unparsed.pop("name"))
    return Tool(
        name,
        take(unparsed, "description", str),
        take(unparsed, "input_schema", dict),
        strict=take(unparsed, "strict", bool),
        cache=WIRE.take_cache(unparsed),
        opaque=WIRE.mark(unparsed, MessagesToolSpelling(constants=constants, is_escaped=is_escaped)),
    )


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Encode one declaration, with a schema that this wire accepts."""
    spelling = spelling_of(tool.opaque, MessagesToolSpelling)
    if spelling.builtin is not None and spelling.builtin in BUILTIN_CLIENT_TOOLS:
        return _encode_builtin_tool(tool, spelling.builtin, spelling, ledger)
    tool = as_function(tool, ledger) if tool.custom else tool
    body = begin_tool(tool, ledger)
    if not made_by(tool.opaque, DIALECT):
        body["input_schema"] = _without_invalid_names(_fit_schema(tool, ledger), ledger)
    elif tool.plain_parameters is not None:
        body["input_schema"] = tool.plain_parameters
    if tool.strict is not None:
        body["strict"] = tool.strict
    lose_format(tool, ledger)
    lose_metadata(tool, ledger)
    return ledger.finish(body, tool)


def _fit_schema(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Return the parameters of a tool from another wire as this wire supports them."""
    schema = tool.plain_parameters
    if schema is None:
        return {"type": "object", "properties": {}}
    if tool.strict:
        return ledger.fit(schema, "anthropic-strict")
    return ledger.fit_root(schema, "anthropic")


def _without_invalid_names(schema: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Return `schema` without parameters whose names Anthropic's server rejects."""
    properties = schema.get("properties")
    if type(properties) is not dict or all(map(_PARAMETER_NAME.fullmatch, properties)):
        return schema
    invalid = dict.fromkeys(key for key in properties if not _PARAMETER_NAME.fullmatch(key))
    for key in invalid:
        ledger.lose(f"parameters.properties.{key}", "schema_key", f"{DIALECT} rejects the name of this parameter")
    valid = {key: inner for key, inner in properties.items() if key not in invalid}
    required = schema.get("required")
    changed = {"required": [name for name in required if name not in invalid]} if type(required) is list else {}
    return {**schema, "properties": valid, **changed}


def decode_choice(value: Any) -> Understood | None:
    """Decode a `tool_choice` with its parallel-call flag. Return None if it is not understood."""
    is_escaped = False
    match value:
        case {"type": "auto" | "none" as mode}:
            choice = ToolChoice(mode)
        case {"type": "any"}:
            choice = ToolChoice("required")
        case {"type": "tool", "name": str(name)}:
            name, is_escaped = WIRE.restore_name(name)
            choice = ToolChoice("required", [name])
        case _:
            return None
    fields: dict[str, Any] = {"tool_choice": choice}
    parsed = {"type", "name"} if choice.names else {"type"}
    unparsed = {key: inner for key, inner in value.items() if key not in parsed}
    if type(unparsed.get("disable_parallel_tool_use")) is bool and choice.mode != "none":
        fields["parallel_tool_calls"] = not unparsed.pop("disable_parallel_tool_use")
    return Understood(fields, unparsed or ABSENT, keep=is_escaped)


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Encode the `tool_choice` with its parallel-call flag."""
    is_native = made_by(request.opaque, DIALECT)
    choice = request.tool_choice or ToolChoice("auto")
    body: dict[str, Any] = {"type": "any" if choice.mode == "required" else choice.mode}
    if choice.names is not None and choice.mode == "required" and len(choice.names) == 1:
        body = {"type": "tool", "name": ledger.names.choose(choice.names[0], is_native=is_native)}
    elif choice.names is not None:
        ledger.lose(
            "tool_choice.names",
            "tool_choice",
            f"{DIALECT} cannot limit the choice to several tools: all may be called",
            "approximated",
        )
    if choice.mode == "required" and not is_native and (reason := _explain_unforced_choice(request)):
        ledger.lose("tool_choice", "tool_choice", reason, "approximated")
        body = {"type": "auto"}
    if request.parallel_tool_calls is not None:
        if choice.mode != "none":
            body["disable_parallel_tool_use"] = not request.parallel_tool_calls
        else:
            ledger.lose(
                "parallel_tool_calls",
                "parallel_tool_calls",
                "the choice is that no tool may be called",
                severity="minor",
            )
    return body


def _explain_unforced_choice(request: Request) -> str | None:
    """Return the reason why the model of `request` cannot be forced to call a tool, or None if it can."""
    family = family_of(request.model)
    if family.forced_choice is False:
        return f"{request.model} rejects a forced choice: auto is sent"
    thinks = mode_of_thinking(request) in {"enabled", "adaptive"} or family.always_thinks
    return f"{DIALECT} rejects a forced choice while the model thinks: auto is sent" if thinks else None


def mode_of_thinking(request: Request) -> str | None:
    """Return the thinking mode that `request` asks for by any of its fields, or None."""
    budget = request.thinking_budget
    if request.thinking is not None:
        return request.thinking
    if budget is not None:
        return "disabled" if budget == 0 else "adaptive" if budget < 0 else "enabled"
    if request.effort == "none" and not family_of(request.model).always_thinks and not made_by(request.opaque, DIALECT):
        return "disabled"
    return None if request.thinking_display is None else "adaptive"


# anthropic 2.14.0, ToolSearchToolBm25_20251119Param and ToolSearchToolRegex20251119Param (2026-11-27).
_SEARCH = "tool_search_tool_"
_SEARCH_RESULT = "tool_search_tool_result"


def _is_search(tool: ServerTool) -> bool:
    return tool.type.startswith(_SEARCH)


def _is_search_call(call: ServerToolCall) -> bool:
    return call.name.startswith(_SEARCH)


def _names_in(part: Part) -> Sequence[str] | None:
    """Return the names in the result of the provider's search, or of a search that the client runs."""
    match part:
        case ServerToolResult(name=str(name), content=content) if name == _SEARCH_RESULT:
            found = content.get("tool_references") if isinstance(content, Mapping) else None
            blocks = found if isinstance(found, list) else []
            return [str(block["tool_name"]) for block in blocks if isinstance(block, Mapping) and "tool_name" in block]
        case ToolResult(content=list(inner)):
            return [one.text for one in inner if type(one) is Text and _is_reference(one)] or None
    return None


def _is_reference(text: Text) -> bool:
    return spelling_of(text.opaque, MessagesTextSpelling).is_tool_reference


def _search_parts(tool: ServerTool, call_id: str, arguments: Mapping[str, Any], found: Sequence[Tool]) -> list[Part]:
    own = Opaque(DIALECT, {})
    references = [{"type": "tool_reference", "tool_name": one.name} for one in found]
    content = {"type": "tool_search_tool_search_result", "tool_references": references}
    return [
        ServerToolCall(call_id, str(tool.value.get("name") or tool.type), dict(arguments), opaque=own),
        ServerToolResult(call_id, _SEARCH_RESULT, content, opaque=own),
    ]


TOOL_SEARCH = ToolSearchForm(_is_search, _is_search_call, _names_in, _search_parts, "srvtoolu_")
