"""The view Context: what fills a request, what grew since the turn before, and how far its beginning is the same.

Rules of this file:
- Providers cache a request from its beginning: the tools, then the system prompt, then the messages. The sections are
  compared in this order.
- Bytes are exact. Tokens of a section are the provider's count, divided by the bytes.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from toolwire.dialects import traits_of
from toolwire.page.charts import Segment, segment_bar
from toolwire.page.marks import system_of
from toolwire.page.shown import Missing, PageRequest, Shown
from toolwire.page.sources import Sources
from toolwire.page.traffic import saving
from toolwire.types import Usage

_AROUND = 160
_write = msgspec.json.Encoder().encode


class _Section(Struct, frozen=True):
    """A part of a request, as it counts for a cache: its group, its name, and its bytes."""

    group: str
    name: str
    data: bytes
    is_answer: bool = False


class Break(Struct, frozen=True):
    """Where two requests begin to differ: the section, the byte in it, and the text around it in both."""

    section: str
    byte: int
    before: str
    old: str
    new: str


def sections_of(body: Any, wire: str) -> list[_Section]:
    """Return the sections of a request in the order of a cache."""
    if type(body) is not dict or not wire:
        return []
    traits, system = traits_of(wire), system_of(wire)
    history = traits.history_key
    listed_tools = body.get("tools")
    tools: list[Any] = listed_tools if type(listed_tools) is list else []
    sections = [
        _Section("tools", _name_of(tool, f"tool {index + 1}"), _write(tool)) for index, tool in enumerate(tools)
    ]
    if body.get(system):
        sections.append(_Section("system", "system", _write(body[system])))
    messages = body.get(history)
    listed = messages if type(messages) is list else [messages] if messages else []
    for index, message in enumerate(listed):
        role = message.get("role") or message.get("type") if type(message) is dict else "user"
        group = "system" if role in ("system", "developer") and index == 0 else "history"
        is_answer = role == traits.model_role or role in traits.model_items
        sections.append(_Section(group, f"{history}[{index}] {role}", _write(message), is_answer))
    return sections


def _name_of(tool: Any, default: str) -> str:
    for inner in (tool, tool.get("function") if type(tool) is dict else None):
        if type(inner) is dict and isinstance(inner.get("name"), str):
            return str(inner["name"])
    return default


def _newest_of(sections: Sequence[_Section]) -> int:
    """Return the index of the first section that is new in a turn: what came after the model's last answer."""
    last = max(
        (index for index, one in enumerate(sections) if one.is_answer),
        default=-1,
    )
    first = next((index for index, one in enumerate(sections) if one.group == "history"), len(sections))
    return max(last + 1, first)


def bar_of(sections: Sequence[_Section], usage: Usage | None) -> dict[str, Any]:
    """Return the bar of a request: its groups by bytes, and how much of it was read from a cache and written to it."""
    total = sum(len(one.data) for one in sections) or 1
    new = _newest_of(sections)
    groups = {"system": 0, "tools": 0, "history": 0, "new": 0}
    for index, one in enumerate(sections):
        groups["new" if one.group == "history" and index >= new else one.group] += len(one.data)
    tokens = (usage.input_tokens if usage is not None else None) or 0
    read = ((usage.cache_read_tokens or 0) / tokens) if usage is not None and tokens else 0.0
    written = ((usage.cache_write_tokens or 0) / tokens) if usage is not None and tokens else 0.0
    counts = {"tools": sum(one.group == "tools" for one in sections)}
    names = {"tools": f"{counts['tools']} tools"}
    segments: list[Segment] = []
    start = 0.0
    for group in ("tools", "system", "history", "new"):
        share = groups[group] / total
        segments += _coloured(names.get(group, group), start, share, read, written)
        start += share
    return {
        "svg": segment_bar(segments, "what fills the request, and what was cached"),
        "groups": [
            (names.get(group, group), groups[group] / total, groups[group]) for group in groups if groups[group]
        ],
        "read": read,
        "written": written,
    }


def _coloured(name: str, start: float, share: float, read: float, written: float) -> list[Segment]:
    """Return a group's part of the bar, cut where the cached beginning ends and where the written part ends."""
    cuts = sorted({start, start + share, *(cut for cut in (read, read + written) if start < cut < start + share)})
    pieces = []
    for begin, end in pairwise(cuts):
        middle = (begin + end) / 2
        style = "read" if middle < read else "written" if middle < read + written else ""
        pieces.append(Segment(name, end - begin, style))
    return pieces


def _find_break(old: Sequence[_Section], new: Sequence[_Section]) -> tuple[int, Break | None]:
    """Return how many bytes two requests share from their beginning, and where they differ.

    There is no break if the new request begins with all of the old one.
    """
    shared = 0
    for index, section in enumerate(new):
        if index >= len(old):
            return shared, None
        before = old[index]
        if before.data == section.data:
            shared += len(section.data)
            continue
        byte = next(
            (at for at, (a, b) in enumerate(zip(before.data, section.data, strict=False)) if a != b),
            min(len(before.data), len(section.data)),
        )
        start = max(0, byte - _AROUND)
        texts = [one[byte : byte + _AROUND].decode("utf-8", "replace") for one in (before.data, section.data)]
        common = section.data[start:byte].decode("utf-8", "replace")
        return shared + byte, Break(section.name, byte, common, *texts)
    if len(old) > len(new):
        gone = old[len(new)]
        return shared, Break(gone.name, 0, "", gone.data[:_AROUND].decode("utf-8", "replace"), "")
    return shared, None


def show_context(sources: Sources, request: PageRequest) -> Shown:
    """Return what fills an exchange's request, compared with the turn before."""
    record = None if sources.records is None else sources.records.read(request.args[0])
    if record is None:
        raise Missing(f"there is no record of {request.args[0]!r}: it may have expired")
    before = _turn_before(sources, record)
    sections = sections_of(record.provider_request.json, record.provider_wire)
    old = [] if before is None else sections_of(before.provider_request.json, before.provider_wire)
    shared, broken = _find_break(old, sections) if old else (0, None)
    total = sum(len(one.data) for one in sections)
    tokens = (record.usage.input_tokens if record.usage else None) or 0
    known = {(one.group, one.name): len(one.data) for one in old}
    rows: list[dict[str, Any]] = [
        {
            "group": one.group,
            "name": one.name,
            "bytes": len(one.data),
            "tokens": round(tokens * len(one.data) / total) if total else 0,
            "share": len(one.data) / total if total else 0.0,
            "grew": None if before is None else len(one.data) - known.get((one.group, one.name), 0),
        }
        for one in sections
    ]
    groups: list[dict[str, Any]] = [
        {
            "group": group,
            "sections": sum(one.group == group for one in sections),
            "bytes": sum(row["bytes"] for row in rows if row["group"] == group),
            "tokens": sum(row["tokens"] for row in rows if row["group"] == group),
            "share": sum(row["share"] for row in rows if row["group"] == group),
            "grew": None if before is None else sum(row["grew"] or 0 for row in rows if row["group"] == group),
        }
        for group in ("tools", "system", "history")
    ]
    line = record.summary()
    saved = saving(record.provider, record.provider_model, line)
    data = {
        "id": record.id,
        "before": None if before is None else before.id,
        "bytes": total,
        "groups": groups,
        "sections": rows,
        "same_bytes": shared if before is not None else None,
        "break": broken,
        "cached_tokens": line.cache_read_tokens,
        "saved": saved,
    }
    extra = {
        "record": record,
        "line": line,
        "bar": bar_of(sections, record.usage) if sections else None,
        "url": f"/page/exchanges/{quote(record.id, safe='')}",
        "before_url": "" if before is None else f"/page/exchanges/{quote(before.id, safe='')}",
        "widest": max((group["share"] for group in groups), default=0.0),
        "largest": max((row["share"] for row in rows), default=0.0),
        "grown": sum(row["grew"] or 0 for row in rows),
    }
    return Shown("context.html", "Context", data, extra)


def _turn_before(sources: Sources, record: Any) -> Any:
    """Return the record of the turn before, at the same provider, or None."""
    if not record.conversation:
        return None
    rows = sources.records.list(conversation=record.conversation, limit=200).rows
    ids = [row.id for row in rows]
    if record.id not in ids:
        return None
    for row in rows[ids.index(record.id) + 1 :]:
        if row.provider_wire == record.provider_wire:
            return sources.records.read(row.id)
    return None
