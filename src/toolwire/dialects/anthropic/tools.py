"""Tool declarations and the choice among them, in Messages."""

import re
from typing import Any

from toolwire.dialects.anthropic.parts import DIALECT, WIRE
from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger, made_by, take
from toolwire.encoding.settings import ABSENT, Understood
from toolwire.encoding.tools import as_function, begin_tool, lose_metadata
from toolwire.types import Request, ServerTool, Tool, ToolChoice

# api.anthropic.com: "Property keys should match pattern" (2026-09-19).
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration; one with a type of its own is run by the provider."""
    kind = body.get("type", "custom") if type(body) is dict else None
    if kind not in (None, "custom") or type(body) is not dict or type(body.get("name")) is not str:
        return ServerTool(kind if type(kind) is str else "", DIALECT, body)
    description, schema = body.get("description"), body.get("input_schema")
    if len(body) == 3 and type(description) is str and type(schema) is dict and "__tw" not in body["name"]:
        return Tool(body["name"], description, schema, opaque=WIRE.plain)
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
    tool = as_function(tool, ledger) if tool.custom else tool
    body = begin_tool(tool, ledger)
    if not mine:
        body["input_schema"] = _without_odd_keys(_fit(tool, ledger), ledger)
    elif tool.plain_parameters is not None:
        body["input_schema"] = tool.plain_parameters
    if tool.strict is not None:
        body["strict"] = tool.strict
    if tool.plain_format is not None or tool.plain_metadata:
        ledger.lose_fields(tool, "custom_tool", "format")
        lose_metadata(tool, ledger)
    bare = opaque is None or (not opaque.value and opaque.form is None)
    return body if bare and tool.cache is None else ledger.finish(body, tool)


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
    odd = [key for key in properties if not _KEY.fullmatch(key)]
    for key in odd:
        ledger.lose(f"parameters.properties.{key}", "schema_key", f"{DIALECT} takes no parameter of such a name")
    kept = {key: inner for key, inner in properties.items() if key not in odd}
    required = schema.get("required")
    wanted = {"required": [name for name in required if name not in odd]} if type(required) is list else {}
    return {**schema, "properties": kept, **wanted}


def decode_choice(value: Any) -> Understood | None:
    """Read a `tool_choice` with its parallel-call flag."""
    form: dict[str, Any] = {}
    match value:
        case {"type": "auto" | "none" as mode}:
            choice = ToolChoice(mode)
        case {"type": "any"}:
            choice = ToolChoice("required")
        case {"type": "tool", "name": str(name)}:
            choice = ToolChoice("required", [WIRE.read_name(name, form)])
        case _:
            return None
    fields: dict[str, Any] = {"tool_choice": choice}
    taken = {"type", "name"} if choice.names else {"type"}
    left = {key: given for key, given in value.items() if key not in taken}
    if type(left.get("disable_parallel_tool_use")) is bool and choice.mode != "none":
        fields["parallel_tool_calls"] = not left.pop("disable_parallel_tool_use")
    return Understood(fields, left or ABSENT, keep=bool(form))


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
