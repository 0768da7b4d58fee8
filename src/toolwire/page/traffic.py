"""The view Traffic: exchanges by filter, the newest first, and live."""

import time
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from toolwire.page.filters import PERIODS, parse_filter
from toolwire.page.rendering import duration, money, number, percent, render
from toolwire.page.shown import PageRequest, Shown
from toolwire.page.sources import Sources
from toolwire.providers import catalogue
from toolwire.records.queries import RecordFilters
from toolwire.types import Usage

KNOWN = frozenset(RecordFilters.__annotations__)
_PAGE = 100
_HOUR = 3600.0


def show_traffic(sources: Sources, request: PageRequest) -> Shown:
    """Return a page of exchanges."""
    store = sources.records
    asked = parse_filter(_text_of(request), KNOWN)
    if store is None:
        return Shown("traffic.html", "Traffic", {"exchanges": []}, {"store": None})
    before = request.query.get("before", "")
    start = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    found = store.list(before=start, limit=_PAGE, **asked.filters)
    newest = store.list(limit=1).rows
    links = {name: value for name, value in request.query.items() if name in ("q", "since")}
    data = {
        "exchanges": found.rows,
        "next": found.next,
        "problems": asked.problems,
        "figures": figures_of(sources, asked.filters),
    }
    extra = {
        "store": store,
        "text": request.query.get("q", ""),
        "since": request.query.get("since", ""),
        "periods": list(PERIODS),
        "older": f"?{urlencode({**links, 'before': str(found.next)})}" if found.next is not None else "",
        "live": f"/page/live?{urlencode({**links, 'after': str(newest[0].position if newest else 0)})}",
        "is_newest": start is None,
        "has_program": "program" in KNOWN,
        "row_html": row_html,
    }
    return Shown("traffic.html", "Traffic", data, extra)


def _text_of(request: PageRequest) -> str:
    since = request.query.get("since", "")
    return f"{request.query.get('q', '')} {f'since:{since}' if since in PERIODS else ''}"


def filters_of(request: PageRequest) -> dict[str, Any]:
    """Return the store's filters in the address of a request."""
    return parse_filter(_text_of(request), KNOWN).filters


def figures_of(sources: Sources, filters: dict[str, Any]) -> dict[str, str]:
    """Return what happened in the last hour, or in the period of the filter."""
    chosen = {"since": time.time() - _HOUR, **filters}
    groups = sources.records.sums("provider", "provider_model", **chosen)
    total = {name: sum(getattr(one, name) for one in groups) for name in ("exchanges", "cost", "semantic", "errors")}
    read, tokens = (sum(getattr(one, name) for one in groups) for name in ("cache_read_tokens", "input_tokens"))
    return {
        "last hour" if "since" not in filters else "exchanges": number(total["exchanges"]),
        "cached input": percent(read, tokens),
        "cost": money(total["cost"]),
        "saved by caches": money(sum(saving(one.values[0], one.values[1], one) for one in groups)),
        "semantic losses": number(total["semantic"]),
        "errors": number(total["errors"]),
    }


def saving(provider: str, model: str, tokens: Any) -> float:
    """Return the dollars that caches saved, by the catalogue's prices: without them each token is paid in full.

    It is below zero where more was written to a cache than was read from it, and 0 for a model without a price.
    """
    whole, answered = tokens.input_tokens or 0, tokens.output_tokens or 0
    used = Usage(whole, answered, tokens.cache_read_tokens or 0, tokens.cache_write_tokens or 0)
    for name in (f"{provider}/{model}", model):
        paid, plain = catalogue.cost(used, name), catalogue.cost(Usage(whole, answered), name)
        if paid is not None and plain is not None:
            return plain - paid
    return 0.0


def row_values(row: Any) -> dict[str, Any]:
    """Return what the template of a row needs, beside the row."""
    return {
        "url": f"/page/exchanges/{quote(row.id, safe='')}",
        "first": duration(row.first_byte),
        "losses": (("semantic", row.semantic), ("minor", row.minor), ("formal", row.formal)),
        "cached": (row.cache_read_tokens or 0) / row.input_tokens if row.input_tokens else None,
        "failed": row.status >= 400 or row.ending in _BAD_ENDINGS,
        "program": getattr(row, "program", ""),
    }


def row_html(line: Any) -> Markup:
    """Return a row of the traffic as HTML."""
    values = {"row": line, "more": row_values(line), "has_program": "program" in KNOWN}
    return Markup(render("traffic_row.html", values))  # noqa: S704 - our template has escaped it


_BAD_ENDINGS = frozenset({"error", "incomplete", "client gone", "broke off"})
