"""Tool declarations and the choice among them, in Messages.

Rules of this file:
- A tool with a type of its own is run by the provider, but for those that the client runs (`OWN_TOOLS`). Claude knows
  what these take; another model is told in a description and a schema.
- What their declaration says of a screen or of files stands in the description.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolwire.dialects.anthropic.parts import DIALECT, WIRE
from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger, form_of, made_by, take
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import Understood
from toolwire.encoding.tools import as_function, begin_tool, lose_format, lose_metadata
from toolwire.types import Request, ServerTool, Tool, ToolChoice
from toolwire.types.frozen import copied

# api.anthropic.com: "Property keys should match pattern" (2026-09-19).
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class _OwnTool(Struct, frozen=True):
    """A tool of this wire that the client runs: what a model is told of it that does not know it."""

    description: str
    required: tuple[str, ...]
    properties: dict[str, Any]

    def told(self, said: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Give its description, with what a declaration says of it, and its schema."""
        words = [self.description, *(text.format(said[key]) for key, text in _TOLD.items() if key in said)]
        schema = {"type": "object", "properties": copied(self.properties), "required": list(self.required)}
        return " ".join(words), schema


_TOLD = {
    "display_width_px": "The screen is {} pixels wide.",
    "display_height_px": "The screen is {} pixels high.",
    "max_characters": "A view shows at most {} characters.",
}
_TEXT, _COUNT, _NUMBER, _FLAG = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
_POINT, _REGION = ({"type": "array", "items": _COUNT, "minItems": size, "maxItems": size} for size in (2, 4))


def _editor(*more: str, inserted: str = "new_str") -> _OwnTool:
    properties = {"path": _TEXT, "view_range": _POINT, "file_text": _TEXT, "old_str": _TEXT, "new_str": _TEXT}
    commands = {"command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", *more]}}
    return _OwnTool(
        "View, create and edit text files. `view` takes a `view_range` of lines if not all are wanted, `create` takes "
        "`file_text`, `str_replace` replaces `old_str`, which stands there once, by `new_str`, and `insert` puts "
        f"`{inserted}` after the line `insert_line` (0 is the beginning).",
        ("command", "path"),
        {**commands, **properties, "insert_line": _COUNT, inserted: _TEXT},
    )


_MEMORY = _OwnTool(
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


def _computer(actions: Sequence[str], **more: Any) -> _OwnTool:
    return _OwnTool(
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
_BASH = _OwnTool(
    "Run a `command` in a bash session, which goes on from call to call; `restart` begins a new one.",
    (),
    {"command": _TEXT, "restart": _FLAG},
)
# anthropic 2.14.0, BetaToolUnionParam, BetaMemoryTool20250818Command; platform.claude.com/docs/en/agents-and-tools
# (bash-tool, text-editor-tool, computer-use-tool) for what the others take (2026-11-26).
OWN_TOOLS: Mapping[str, _OwnTool] = {
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


def _decode_own_tool(body: dict[str, Any]) -> Tool:
    """Read a tool that the client runs; what is told of it in words is no loss elsewhere."""
    rest, form = body.copy(), {"said": {"type": body["type"]}}
    form["said"] |= {key: rest.pop(key) for key in _TOLD if type(rest.get(key)) is int}
    del rest["type"]
    name = WIRE.read_name(rest.pop("name"), form)
    description, schema = OWN_TOOLS[body["type"]].told(form["said"])
    strict, cache = take(rest, "strict", bool), WIRE.take_cache(rest)
    return Tool(name, description, schema, strict=strict, cache=cache, opaque=WIRE.own(rest, form))


def _encode_own_tool(tool: Tool, said: Mapping[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Write a tool that the client runs as it was declared: what Claude knows of it cannot be said."""
    body = begin_tool(tool, ledger)
    description, schema = OWN_TOOLS[said["type"]].told(said)
    for field, known in (("description", description), ("parameters", schema)):
        if getattr(tool, field) != known:
            ledger.lose(field, "own_tool", f"{DIALECT} has its own for {said['type']}")
    ledger.lose_fields(tool, "own_tool", "custom", "format")
    lose_metadata(tool, ledger)
    strict = {} if tool.strict is None else {"strict": tool.strict}
    return ledger.finish({"name": body["name"], **strict}, tool)


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration; one with a type of its own is run by the provider, or by the client if it is known."""
    kind = body.get("type", "custom") if type(body) is dict else None
    if type(kind) is str and kind in OWN_TOOLS and type(body.get("name")) is str:
        return _decode_own_tool(body)
    if kind not in (None, "custom") or type(body) is not dict or type(body.get("name")) is not str:
        return ServerTool(kind if type(kind) is str else "", DIALECT, body)
    rest, form = body.copy(), {}
    if rest.get("type") == "custom":
        form["said"] = {"type": rest.pop("type")}
    return Tool(
        WIRE.read_name(rest.pop("name"), form),
        take(rest, "description", str),
        take(rest, "input_schema", dict),
        strict=take(rest, "strict", bool),
        cache=WIRE.take_cache(rest),
        opaque=WIRE.own(rest, form),
    )


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration."""
    opaque = tool.opaque
    mine = opaque is not None and opaque.dialect == DIALECT
    said = form_of(opaque, DIALECT).get("said", {})
    if said.get("type") in OWN_TOOLS:
        return _encode_own_tool(tool, said, ledger)
    tool = as_function(tool, ledger) if tool.custom else tool
    body = begin_tool(tool, ledger)
    if not mine:
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
    """Leave out each parameter whose name this wire refuses, with all tools of the request."""
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
    taken = {"type", "name"} if choice.names else {"type"}
    left = {key: given for key, given in value.items() if key not in taken}
    if type(left.get("disable_parallel_tool_use")) is bool and choice.mode != "none":
        fields["parallel_tool_calls"] = not left.pop("disable_parallel_tool_use")
    return Understood(fields, left or ABSENT, keep=is_escaped)


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Write the choice and the parallel-call flag, which this wire keeps in it."""
    mine = made_by(request.opaque, DIALECT)
    choice = request.tool_choice or ToolChoice("auto")
    body: dict[str, Any] = {"type": "any" if choice.mode == "required" else choice.mode}
    if choice.names is not None and choice.mode == "required" and len(choice.names) == 1:
        body = {"type": "tool", "name": ledger.names.choose(choice.names[0], own=mine)}
    elif choice.names is not None:
        ledger.lose(
            "tool_choice.names", "tool_choice", f"{DIALECT} cannot narrow the choice to some tools", "approximated"
        )
    if choice.mode == "required" and not mine and (reason := _why_not_forced(request)):
        ledger.lose("tool_choice", "tool_choice", reason, "approximated")
        body = {"type": "auto"}
    if request.parallel_tool_calls is not None:
        if choice.mode != "none":
            body["disable_parallel_tool_use"] = not request.parallel_tool_calls
        else:
            ledger.lose("parallel_tool_calls", "parallel_tool_calls", "no tool may be called at all", severity="minor")
    return body


def _why_not_forced(request: Request) -> str | None:
    """Say why a model cannot be forced to call."""
    family = family_of(request.model)
    if family.forced_choice is False:
        return f"{request.model} refuses a forced choice"
    thinks = mode_of_thinking(request) in {"enabled", "adaptive"} or family.always_thinks
    return f"{DIALECT} refuses a forced choice while thinking" if thinks else None


def mode_of_thinking(request: Request) -> str | None:
    """Say how the model is to think, wherever the request says it."""
    budget = request.thinking_budget
    if request.thinking is not None:
        return request.thinking
    if budget is not None:
        return "disabled" if budget == 0 else "adaptive" if budget < 0 else "enabled"
    if request.effort == "none" and not family_of(request.model).always_thinks and not made_by(request.opaque, DIALECT):
        return "disabled"
    return None if request.thinking_display is None else "adaptive"
