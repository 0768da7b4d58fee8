"""The view Traces: calls by filter, their statistics, one call, and whether the chain is unchanged."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from toolwire.page.json_view import show_json
from toolwire.page.shown import Missing, PageRequest, Shown
from toolwire.page.sources import Sources
from toolwire.traces import ENDINGS

_FILTERS = ("tool", "ending", "conversation", "tenant")
_PAGE = 100
_MOST_FOR_STATS = 50_000  # traces in a store whose statistics are counted unasked
_SINCE = {"1h": 3600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}


def show_traces(sources: Sources, request: PageRequest) -> Shown:
    """Return a page of traces, the newest first, and the statistics of all that fit the filter."""
    store = sources.traces
    query = {name: request.query.get(name, "").strip() for name in (*_FILTERS, "since")}
    if store is None:
        return Shown("traces.html", "Traces", {"traces": []}, {"store": None, "fields": query})
    filters: dict[str, Any] = {name: query[name] for name in _FILTERS if query[name]}
    if query["since"] in _SINCE:
        filters["since"] = datetime.now(UTC) - timedelta(seconds=_SINCE[query["since"]])
    after = request.query.get("after", "")
    start = int(after) if after.isascii() and after.isdigit() and len(after) < 19 else None
    found = store.traces(newest=True, limit=_PAGE, after=start, **filters)
    newest = store.traces(newest=True, limit=1).rows
    has_stats = request.query.get("stats") == "1" or not newest or (newest[0].position or 0) <= _MOST_FOR_STATS
    stats = store.stats(**filters) if has_stats else ()
    verified = store.verify() if request.query.get("verify") == "1" else None
    data = {
        "traces": [_row(trace) for trace in found.rows],
        "next": found.next,
        "stats": stats,
        "verified": None if verified is None else _verification(verified),
    }
    links = {name: value for name, value in request.query.items() if name not in ("after", "verify", "stats", "format")}
    extra = {
        "store": store,
        "fields": query,
        "endings": ENDINGS,
        "periods": list(_SINCE),
        "older": f"?{urlencode({**links, 'after': str(found.next)})}" if found.next is not None else "",
        "verify": f"?{urlencode({**links, 'verify': '1'})}",
        "statistics": "" if has_stats else f"?{urlencode({**links, 'stats': '1'})}",
        "longest": max((one.longest_ms for one in stats), default=0.0),
        "tools": _by_tool(stats),
        "calls": sum(one.calls for one in stats),
    }
    return Shown("traces.html", "Traces", data, extra)


def _by_tool(stats: Any) -> list[dict[str, Any]]:
    """Return the statistics of each tool, with its endings beside each other."""
    tools: dict[str, list[Any]] = {}
    for one in stats:
        tools.setdefault(one.tool_name, []).append(one)
    rows = []
    for name, group in tools.items():
        calls = sum(one.calls for one in group)
        rows.append(
            {
                "tool": name,
                "calls": calls,
                "endings": [(one.ending, one.calls) for one in sorted(group, key=lambda one: -one.calls)],
                "mean_ms": sum(one.mean_ms * one.calls for one in group) / calls if calls else 0.0,
                "longest_ms": max(one.longest_ms for one in group),
            }
        )
    return sorted(rows, key=lambda row: -row["calls"])


def _row(trace: Any) -> dict[str, Any]:
    names = ("id", "position", "started_at", "tool_name", "ending", "duration_ms", "model", "provider", "arguments")
    return {name: getattr(trace, name) for name in (*names, "conversation_id", "tenant_id", "losses", "kind")}


def _verification(report: Any) -> dict[str, Any]:
    problems = [str(problem) for problem in report.problems[:100]]
    return {"ok": report.ok, "rows": report.rows, "problems": problems, "count": report.count, "anchor": report.anchor}


def show_trace(sources: Sources, request: PageRequest) -> Shown:
    """Return all fields of one trace."""
    trace = None if sources.traces is None else sources.traces.get(request.args[0])
    if trace is None:
        raise Missing(f"there is no trace with the id {request.args[0]!r}")
    fields = {name: getattr(trace, name) for name in trace.__struct_fields__}
    bodies = ("arguments", "result")
    extra = {
        "trace": trace,
        "arguments": show_json(trace.arguments),
        "result": show_json(trace.result, side="t"),
        "rows": [(name, value) for name, value in fields.items() if name not in bodies and value not in (None, "", ())],
    }
    return Shown("trace.html", trace.tool_name, {"trace": fields}, extra)
