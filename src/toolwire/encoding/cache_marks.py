"""The cache marks of a request from elsewhere, as a server accepts them that limits their number and their order.

Rules of this file:
- Anthropic's server rejects more than four marks, and a mark with a longer lifetime after one with a shorter
  (https://platform.claude.com/docs/en/build-with-claude/prompt-caching, 2026-11-27).
- Of more marks, the latest stay: the earlier ones have been written by earlier requests of the conversation.
- A mark without a lifetime has that of the request.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.ledger import CacheMarks, Ledger, join_path, nearest_time
from toolwire.types import Cache, Message, Request, Tool, ToolResult

_Change = Callable[[str, Cache], Cache | None]


def limit_marks(request: Request, ledger: Ledger, *, marks_request: bool) -> Request:
    """Return a request with the cache marks that its server accepts. Each change is a loss.

    With `marks_request`, a mark for the whole request is sent after all others.
    """
    marks = ledger.wire.cache
    found = dict(_marks_of(request))
    if marks is None or not found:
        return request
    limited = _latest(found, ledger, marks.most - marks_request)
    if request.opaque is not None:  # a caller that builds a request knows the wire that it is for
        limited = _in_order(limited, marks, ledger, request.cache_ttl)
    return request if limited == found else _change_marks(request, lambda path, _: limited.get(path))


def shortest_ttl(request: Request, ledger: Ledger) -> str | None:
    """Return the shortest lifetime of the marks in a request, or None if it has no mark."""
    marks = ledger.wire.cache
    found = dict(_marks_of(request))
    if marks is None or not found:
        return None
    times = [marks.times[0] if mark.ttl is None else nearest_time(mark.ttl, marks.times) for mark in found.values()]
    return min(times, key=marks.times.index)


def _latest(found: dict[str, Cache], ledger: Ledger, most: int) -> dict[str, Cache]:
    """Return the latest marks, by their paths. The others are losses."""
    paths = list(found)
    first = max(0, len(paths) - most)
    for path in paths[:first]:
        ledger.lose(f"{path}.cache", "cache_mark", f"{ledger.dialect} accepts {most} cache marks: the latest are sent")
    return {path: found[path] for path in paths[first:]}


def _in_order(found: dict[str, Cache], marks: CacheMarks, ledger: Ledger, request_ttl: str | None) -> dict[str, Cache]:
    """Return the marks with lifetimes that do not increase, by their paths."""
    limited, longest = {}, len(marks.times) - 1
    for path, mark in found.items():
        wanted = mark.ttl or request_ttl
        index = 0 if wanted is None else marks.times.index(nearest_time(wanted, marks.times))
        if index > longest:
            detail = f"{ledger.dialect} accepts no longer lifetime after a shorter one: {marks.times[longest]} is sent"
            ledger.lose(f"{path}.cache.ttl", "cache_mark", detail, "approximated")
            limited[path] = Cache(marks.times[longest])
        else:
            limited[path] = mark if mark.ttl == wanted else Cache(wanted)
        longest = min(longest, index)
    return limited


def _change_marks(request: Request, change: _Change) -> Request:
    """Return a request with each mark replaced by the result of `change`, which gets its path. None removes it."""
    context = request.context
    tools = [
        _changed(tool, f"tools[{index}]", change) if type(tool) is Tool else tool
        for index, tool in enumerate(context.tools)
    ]
    system: Any = context.system
    if type(system) is list:
        system = _change_parts(system, "system", change)
    messages = [_change_message(message, index, change) for index, message in enumerate(context.messages)]
    return replace(request, context=replace(context, system=system, messages=messages, tools=tools))


def _change_message(message: Message, index: int, change: _Change) -> Message:
    content: Any = message.content
    if type(content) is str:
        return message
    return replace(message, content=_change_parts(content, f"messages[{index}].content", change))


def _change_parts(parts: Any, path: str, change: _Change) -> list[Any]:
    return [_change_part(part, f"{path}[{index}]", change) for index, part in enumerate(parts)]


def _change_part(part: Any, path: str, change: _Change) -> Any:
    if type(part) is ToolResult and type(part.content) is not str:
        part = replace(part, content=_change_parts(part.content, f"{path}.content", change))
    return _changed(part, path, change)


def _changed(value: Any, path: str, change: _Change) -> Any:
    """Return a part or a tool with its mark changed."""
    mark = getattr(value, "cache", None)
    return value if mark is None else replace(value, cache=change(path, mark))


def _marks_of(request: Request) -> Iterator[tuple[str, Cache]]:
    """Yield the path and the mark of each tool and part that has one, in the order in which a server reads them."""
    for index, tool in enumerate(request.tools):
        if type(tool) is Tool and tool.cache is not None:
            yield f"tools[{index}]", tool.cache
    yield from marks_in(request.system, ("system",))
    for index, message in enumerate(request.messages):
        yield from marks_in(message.content, ("messages", index, "content"))


def marks_in(content: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, Cache]]:
    """Yield the path and the mark of each part of a content that has one. `path` is that of the content."""
    if content is None or type(content) is str:
        return
    for index, part in enumerate(content):
        if type(part) is ToolResult:
            yield from marks_in(part.content, (*path, index, "content"))
        if (mark := getattr(part, "cache", None)) is not None:
            yield join_path((*path, index)), mark
