"""Where a loss stands: its place in the body that lost it, and its place in the body that came of it.

Rules of this file:
- The path of a loss is the source's own for a setting, and the canonical one for messages and tools. Both are looked
  up in the body. A path that ends before the body does is marked at its last step.
- What was dropped is struck on the source's side. What was added is marked on the target's side. The rest is marked
  on both sides.
- A loss without a place in the body is listed beside it. No loss is left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolwire.dialects import dialect, traits_of
from toolwire.errors import ToolwireError
from toolwire.page.json_view import Ghost, Mark, Path
from toolwire.types import Image, Loss, Message, Text, Thinking, ToolCall, ToolResult

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_TARGET_ONLY = frozenset({"added", "defaulted"})
_SYSTEMS = {"openai-responses": "instructions", "gemini": "systemInstruction", "anthropic": "system"}
# The names that a wire has for the fields of a part or a tool.
_FIELDS = {
    "cache": ("cache_control", "prompt_cache_breakpoint"),
    "arguments": ("arguments", "input", "args"),
    "parameters": ("parameters", "input_schema", "parametersJsonSchema"),
    "text": ("text", "thinking", "reasoning_content"),
    "signature": ("signature", "thoughtSignature", "encrypted_content", "data"),
    "url": ("url", "image_url", "fileUri"),
    "is_error": ("is_error",),
}
_SEARCH = 400


def history_of(wire: str) -> str:
    """Return the key under which a wire has its messages."""
    return traits_of(wire).history_key if wire else "messages"


def system_of(wire: str) -> str:
    """Return the key under which a wire has its system prompt, if it is not a message."""
    return _SYSTEMS.get(wire, "system")


class Marked(Struct, frozen=True):
    """The losses of a translation on both of its sides, and those without a place."""

    source: Mapping[Path, Sequence[Mark]]
    target: Mapping[Path, Sequence[Mark]]
    ghosts: tuple[Ghost, ...]
    elsewhere: tuple[tuple[int, Loss], ...]


class _Side(Struct, frozen=True):
    """A body, its wire, and the canonical parts with their paths in the body."""

    body: Any
    wire: str
    parts: Mapping[tuple[int, int], Path]
    found: Mapping[tuple[Any, ...], tuple[int, int]]
    keys: Mapping[tuple[int, int], tuple[Any, ...]]


def side_of(body: Any, wire: str, path: str = "", *, with_parts: bool = True) -> _Side:
    """Return a body with the places of its messages' parts, if a loss may be about one."""
    if not (wire and with_parts) or type(body) is not dict:
        return _Side(body, wire, {}, {}, {})
    try:
        messages = dialect(wire).decode_request(body, path).context.messages
    except ToolwireError:
        messages = []
    keys = {(i, j): _key_of(part) for i, message in enumerate(messages) for j, part in enumerate(message.parts)}
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for position, key in keys.items():
        found.setdefault(key, position)
    return _Side(body, wire, _paths_of_parts(body, wire, messages), found, keys)


def _key_of(part: Any) -> tuple[Any, ...]:
    match part:
        case ToolCall():
            return ("call", part.id or part.name)
        case ToolResult():
            return ("result", part.tool_call_id or part.name)
        case Text():
            return ("text", part.text)
        case Thinking():
            return ("thinking", part.text)
        case Image():
            return ("image", part.url or (part.data or "")[:80])
    return (type(part).__name__,)


def _paths_of_parts(body: dict[str, Any], wire: str, messages: Sequence[Message]) -> dict[tuple[int, int], Path]:
    """Return where each canonical part stands in the body."""
    history = history_of(wire)
    items = body.get(history)
    if type(items) is str:
        return {(0, 0): (history,)}
    if type(items) is not list:
        return {}
    per_item = [list(_parts_of_item(item, (history, index))) for index, item in enumerate(items)]
    wanted = [(i, j) for i, message in enumerate(messages) for j in range(len(message.parts))]
    flat = [path for paths in per_item for path in paths]
    if len(flat) == len(wanted):
        return dict(zip(wanted, flat, strict=True))
    if len(per_item) != len(messages):
        return {}
    return {(i, j): per_item[i][min(j, len(per_item[i]) - 1)] for i, j in wanted if per_item[i]}


def _parts_of_item(item: Any, path: Path) -> Iterator[Path]:
    """Yield the paths of the parts of a message, or of an item of Responses."""
    if type(item) is not dict or item.get("type", "message") != "message" or item.get("role") == "tool":
        yield path
        return
    for name in ("reasoning_content", "reasoning", "thinking"):
        if item.get(name) and type(item[name]) is str:
            yield (*path, name)
    for name in ("content", "parts"):
        content = item.get(name)
        if type(content) is list:
            yield from ((*path, name, index) for index in range(len(content)))
        elif content and type(content) is str:
            yield (*path, name)
    for name in ("images", "tool_calls"):
        if type(item.get(name)) is list:
            yield from ((*path, name, index) for index in range(len(item[name])))


def steps_of(path: str) -> Path:
    """Return the steps of a loss's path, without those that only the canonical model has."""
    steps = [int(number) if number else name for number, name in _STEP.findall(path[:2000])]
    return tuple(step for step in steps if step != "opaque")


def place_losses(losses: Sequence[Loss], source: _Side, target: _Side) -> Marked:
    """Return the marks of `losses` on both sides."""
    left: dict[Path, list[Mark]] = {}
    right: dict[Path, list[Mark]] = {}
    ghosts, elsewhere = [], []
    for index, loss in enumerate(losses, 1):
        dropped = loss.action == "dropped"
        source_path = None if loss.action == "added" else _place_in_source(loss, source)
        target_path = None if dropped else _place_in_target(loss, source, target)
        if loss.action in _TARGET_ONLY and target_path is not None:
            source_path = None
        both = source_path is not None and target_path is not None
        mark = Mark(index, loss.action, loss.severity, loss.detail, dropped, both)
        if source_path is not None:
            left.setdefault(source_path, []).append(mark)
        if target_path is not None:
            right.setdefault(target_path, []).append(mark)
        if source_path is None and target_path is None:
            elsewhere.append((index, loss))
        elif dropped and loss.severity != "formal" and source_path is not None and len(source_path) == 1:
            ghosts.append(Ghost(index, str(source_path[0]), loss.severity))
    return Marked(left, right, tuple(ghosts), tuple(elsewhere))


def _place_in_source(loss: Loss, side: _Side) -> Path | None:
    return _place(steps_of(loss.path), loss.concept, side)


def _place_in_target(loss: Loss, source: _Side, target: _Side) -> Path | None:
    """Return where the target has what came of a value."""
    steps = steps_of(loss.path)
    if steps[:1] == ("messages",) and len(steps) > 3 and type(steps[1]) is int and type(steps[3]) is int:
        position = target.found.get(source.keys.get((steps[1], steps[3]), ()))
        if position is None or position not in target.parts:
            return None
        return _deeper(target.body, target.parts[position], steps[4:])
    if not target.wire or not steps:
        return None
    if steps[0] in ("tools", "system"):
        return _place(steps, loss.concept, target)
    paths = dialect(target.wire).SETTING_PATHS
    fields = {path: field for field, path in dialect(source.wire).SETTING_PATHS.items()} if source.wire else {}
    name = ".".join(str(step) for step in steps)
    for field in (fields.get(name, ""), loss.concept, name):
        for path in paths.get(field, field).split("|"):
            if path and (place := _walk(target.body, steps_of(path))) is not None:
                return place
    return None


def _place(steps: Path, concept: str, side: _Side) -> Path | None:
    """Return the path in a body that the steps of a loss lead to, as far as the body goes."""
    if not steps or type(side.body) is not dict:
        return None
    if steps[0] == "messages" and len(steps) > 1 and type(steps[1]) is int:
        return _place_in_messages(steps, side)
    if steps[0] == "tools" and len(steps) > 1 and type(steps[1]) is int:
        tools = list(_tools_of(side.body))
        return _deeper(side.body, tools[steps[1]], steps[2:]) if steps[1] < len(tools) else _walk(side.body, ("tools",))
    if steps[0] == "system":
        name = _SYSTEMS.get(side.wire, "system")
        place = _walk(side.body, (name, *(step for step in steps[1:] if step != "content")))
        if place is None and name not in side.body:
            return next(_system_messages(side.body), None)
        return place or _deeper(side.body, (name,), steps[2:])
    return _walk(side.body, steps) or _walk(side.body, steps[:1]) or _walk(side.body, (concept,))


def _place_in_messages(steps: Path, side: _Side) -> Path | None:
    index = steps[1]
    assert isinstance(index, int)  # noqa: S101 - the caller has checked it
    if len(steps) > 3 and steps[2] == "content" and type(steps[3]) is int:
        place = side.parts.get((index, steps[3]))
        if place is not None:
            return _deeper(side.body, place, steps[4:])
    first = next((path for (i, _), path in side.parts.items() if i == index), None)
    message = first[:2] if first is not None else (history_of(side.wire), index)
    return _deeper(side.body, message, steps[2:]) if _walk(side.body, message) is not None else None


def _tools_of(body: dict[str, Any]) -> Iterator[Path]:
    tools = body.get("tools")
    for index, tool in enumerate(tools if type(tools) is list else ()):
        inner = tool.get("functionDeclarations") if type(tool) is dict else None
        if type(inner) is list:
            yield from (("tools", index, "functionDeclarations", position) for position in range(len(inner)))
        else:
            yield ("tools", index)


def _system_messages(body: dict[str, Any]) -> Iterator[Path]:
    messages = body.get("messages")
    for index, message in enumerate(messages if type(messages) is list else ()):
        if type(message) is dict and message.get("role") in ("system", "developer"):
            yield ("messages", index)


def _walk(body: Any, steps: Path) -> Path | None:
    """Return `steps` if a body has them."""
    for step in steps:
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            return None
    return steps


def _deeper(body: Any, place: Path, steps: Path) -> Path:
    """Return the place that `steps` lead to from `place`, by the names that the wire has; else `place` itself."""
    node = body
    for step in place:
        node = node[step]
    for step in steps:
        found = next((path for name in _names_of(step) for path in _search(node, name)), None)
        if found is None:
            break
        place = (*place, *found)
        for inner in found:
            node = node[inner]
    return place


def _names_of(step: str | int) -> tuple[str | int, ...]:
    return (step, *_FIELDS.get(step, ())) if type(step) is str else (step,)


def _search(node: Any, name: str | int) -> Iterator[Path]:
    """Yield the paths below `node` that end with `name`, the nearest first."""
    pending: list[tuple[Path, Any]] = [((), node)]
    for path, one in pending:
        if (type(one) is dict and name in one) or (type(one) is list and type(name) is int and name < len(one)):
            yield (*path, name)
        if len(pending) < _SEARCH and type(one) is dict:
            pending += [((*path, key), inner) for key, inner in one.items() if type(inner) in (dict, list)]
