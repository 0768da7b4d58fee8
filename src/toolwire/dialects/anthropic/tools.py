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
from toolwire.types import Request, ServerTool, Tool, ToolChoice
from toolwire.types.frozen import copied
from toolwire.types.spelling.anthropic import MessagesToolSpelling

# api.anthropic.com: "Property keys should match pattern" (2026-09-19).
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class _BuiltinTool(Struct, frozen=True):
    """A tool that Anthropic defines and the client runs, as another model is told of it."""

    description: str
    required: tuple[str, ...]
    properties: dict[str, Any]

    def describe(self, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return its description, with the `settings` of a declaration, and its schema."""
        sentences = [text.format(settings[key]) for key, text in _SETTINGS.items() if key in settings]
        schema = {"type": "object", "properties": copied(self.properties), "required": list(self.required)}
        return " ".join([self.description, *sentences]), schema


_SETTINGS = {
    "display_width_px": "The screen is {} pixels wide.",
    "display_height_px": "The screen is {} pixels high.",
    "max_characters": "A view shows at most {} characters.",
}
_TEXT, _COUNT, _NUMBER, _FLAG = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
_POINT, _REGION = ({"type": "array", "items": _COUNT, "minItems": size, "maxItems": size} for size in (2, 4))


def _editor(*more: str, inserted: str = "new_str") -> _BuiltinTool:
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


def _computer(actions: Sequence[str], **more: Any) -> _BuiltinTool:
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
    "text_editor_20241022": _editor("undo_edit"),
    "text_editor_20250124": _editor("undo_edit"),
    "text_editor_20250429": _editor(),
    "text_editor_20250728": _editor(inserted="insert_text"),
    "memory_20250818": _MEMORY,
    "computer_20241022": _computer(_ACTIONS),
    "computer_20250124": _computer(_MORE_ACTIONS, **_MOVES),
    "computer_20251124": _computer((*_MORE_ACTIONS, "zoom"), **_MOVES, **_ZOOMED),
}


def _decode_builtin_tool(body: dict[str, Any]) -> Tool:
    """Read a tool that Anthropic defines and the client runs."""
    unparsed, builtin = body.copy(), body["type"]
    constants = {"type": unparsed.pop("type")}
    constants |= {key: unparsed.pop(key) for key in _SETTINGS if type(unparsed.get(key)) is int}
    name, is_escaped = WIRE.restore_name(unparsed.pop("name"))
    description, schema = BUILTIN_CLIENT_TOOLS[builtin].describe(constants)
    strict, cache = take(unparsed, "strict", bool), WIRE.take_cache(unparsed)
    spelling = MessagesToolSpelling(constants=constants, is_escaped=is_escaped, builtin=builtin)
    return Tool(name, description, schema, strict=strict, cache=cache, opaque=WIRE.mark(unparsed, spelling))


def _encode_builtin_tool(tool: Tool, builtin: str, spelling: MessagesToolSpelling, ledger: Ledger) -> dict[str, Any]:
    """Write a tool that Anthropic defines as it was declared. Report a changed description or schema as a loss."""
    body = begin_tool(tool, ledger)
    description, schema = BUILTIN_CLIENT_TOOLS[builtin].describe(spelling.constants)
    for field, known in (("description", description), ("parameters", schema)):
        if getattr(tool, field) != known:
            ledger.lose(field, "own_tool", f"{DIALECT} has its own for {builtin}")
    ledger.lose_fields(tool, "own_tool", "custom", "format")
    lose_metadata(tool, ledger)
    strict = {} if tool.strict is None else {"strict": tool.strict}
    return ledger.finish({"name": body["name"], **strict}, tool)


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration."""
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
    """Write one declaration."""
    spelling = spelling_of(tool.opaque, MessagesToolSpelling)
    if spelling.builtin is not None and spelling.builtin in BUILTIN_CLIENT_TOOLS:
        return _encode_builtin_tool(tool, spelling.builtin, spelling, ledger)
    tool = as_function(tool, ledger) if tool.custom else tool
    body = begin_tool(tool, ledger)
    if not made_by(tool.opaque, DIALECT):
        body["input_schema"] = _without_odd_keys(_fit(tool, ledger), ledger)
    elif tool.plain_parameters is not None:
        body["input_schema"] = tool.plain_parameters
    if tool.strict is not None:
        body["strict"] = tool.strict
    lose_format(tool, ledger)
    lose_metadata(tool, ledger)
    return ledger.finish(body, tool)


def _fit(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    schema = tool.plain_parameters
    if schema is None:
        return {"type": "object", "properties": {}}
    if tool.strict:
        return ledger.fit(schema, "anthropic-strict")
    return ledger.fit_root(schema, "anthropic")


def _without_odd_keys(schema: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Remove the parameters whose names make this wire reject a request."""
    properties = schema.get("properties")
    if type(properties) is not dict or all(map(_KEY.fullmatch, properties)):
        return schema
    odd = dict.fromkeys(key for key in properties if not _KEY.fullmatch(key))
    for key in odd:
        ledger.lose(f"parameters.properties.{key}", "schema_key", f"{DIALECT} takes no parameter of such a name")
    kept = {key: inner for key, inner in properties.items() if key not in odd}
    required = schema.get("required")
    wanted = {"required": [name for name in required if name not in odd]} if type(required) is list else {}
    return {**schema, "properties": kept, **wanted}


def decode_choice(value: Any) -> Understood | None:
    """Read a `tool_choice` with its parallel-call flag."""
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
    """Write the `tool_choice` with its parallel-call flag."""
    is_native = made_by(request.opaque, DIALECT)
    choice = request.tool_choice or ToolChoice("auto")
    body: dict[str, Any] = {"type": "any" if choice.mode == "required" else choice.mode}
    if choice.names is not None and choice.mode == "required" and len(choice.names) == 1:
        body = {"type": "tool", "name": ledger.names.choose(choice.names[0], is_native=is_native)}
    elif choice.names is not None:
        ledger.lose(
            "tool_choice.names", "tool_choice", f"{DIALECT} cannot narrow the choice to some tools", "approximated"
        )
    if choice.mode == "required" and not is_native and (reason := _why_not_forced(request)):
        ledger.lose("tool_choice", "tool_choice", reason, "approximated")
        body = {"type": "auto"}
    if request.parallel_tool_calls is not None:
        if choice.mode != "none":
            body["disable_parallel_tool_use"] = not request.parallel_tool_calls
        else:
            ledger.lose("parallel_tool_calls", "parallel_tool_calls", "no tool may be called at all", severity="minor")
    return body


def _why_not_forced(request: Request) -> str | None:
    """Return the reason why the model of `request` cannot be forced to call a tool, or None if it can."""
    family = family_of(request.model)
    if family.forced_choice is False:
        return f"{request.model} refuses a forced choice"
    thinks = mode_of_thinking(request) in {"enabled", "adaptive"} or family.always_thinks
    return f"{DIALECT} refuses a forced choice while thinking" if thinks else None


def mode_of_thinking(request: Request) -> str | None:
    """Return the thinking mode that `request` asks for, in whichever of its fields it does."""
    budget = request.thinking_budget
    if request.thinking is not None:
        return request.thinking
    if budget is not None:
        return "disabled" if budget == 0 else "adaptive" if budget < 0 else "enabled"
    if request.effort == "none" and not family_of(request.model).always_thinks and not made_by(request.opaque, DIALECT):
        return "disabled"
    return None if request.thinking_display is None else "adaptive"
