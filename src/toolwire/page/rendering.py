"""Templates: how values become HTML.

Rules of this file:
- Every value is hostile text. It is escaped, its control and bidirectional characters are shown as escapes, and it is
  cut after `LONGEST` characters.
- Only `Markup` passes unchanged. The code of this room makes it, from escaped pieces.
"""

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from toolwire.waiting.results import safe

LONGEST = 20_000
NOTHING = "\u2013"
"""What stands where nothing is known: a dash."""
_COLUMN = 300
_FOLDER = Path(__file__).parent
_THOUSAND, _KIBI = 1000, 1024
_MINUTE = 60
_CENT = 0.01


def clean(value: Any) -> Any:
    """Return `value` as text that cannot hide, turn around or flood what stands beside it."""
    if value is None:
        return ""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    text = safe(value[:LONGEST])
    return text if len(value) <= LONGEST else f"{text}… ({len(value):,} characters)"


def html(value: Any) -> Markup:
    """Return `value`, cleaned and escaped."""
    return escape(clean(str(value)))


def number(value: float | None) -> str:
    """Return a number with separators, or a dash."""
    return NOTHING if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def money(value: float | None) -> str:
    """Return dollars: with three digits after the point below a cent's hundredfold, or a dash."""
    if value is None:
        return NOTHING
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.3f}" if value >= _CENT / 10 else f"${value:.6f}"


def size(value: int | None) -> str:
    """Return a number of bytes in the unit that fits."""
    if value is None:
        return NOTHING
    if value < _KIBI:
        return f"{value} B"
    return f"{value / _KIBI:,.0f} KB" if value < _KIBI**2 else f"{value / _KIBI**2:,.1f} MB"


def duration(seconds: float | None) -> str:
    """Return a time in the unit that fits."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * _THOUSAND:.0f} ms" if seconds >= 0.01 else f"{seconds * _THOUSAND:.1f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"


def percent(part: float | None, whole: float | None) -> str:
    """Return the share of `part` in `whole`, or a dash."""
    return NOTHING if not whole or part is None else f"{100 * part / whole:.0f} %"


def moment(value: datetime | float | None) -> Markup:
    """Return a time of today as a time, and another one with its date; a machine reads it whole."""
    if value is None:
        return escape(NOTHING)
    time = value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)
    shown = time.strftime("%H:%M:%S.") + f"{time.microsecond // 100_000}"
    if time.date() != datetime.now(UTC).date():
        shown = time.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        time.isoformat(), time.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3], shown
    )


def compact(value: Any) -> str:
    """Return a JSON value on one line, cut where no column shows more."""
    return json.dumps(value, ensure_ascii=False, default=str)[:_COLUMN]


def meter(share: float, width: int = 64) -> Markup:
    """Return a small bar that is full to a share."""
    filled = max(0.0, min(1.0, share)) * width
    return Markup(
        '<svg class="meter" width="{w}" height="6" aria-hidden="true">'
        '<rect class="bar-back" width="{w}" height="6" rx="3"/>'
        '<rect class="bar-fill" width="{f:.1f}" height="6" rx="3"/></svg>'
    ).format(w=width, f=filled)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        auto_reload=False,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "money": money,
        "bytes": size,
        "duration": duration,
        "moment": moment,
        "clean": clean,
        "compact": compact,
    }
    environment.globals |= {"percent": percent, "meter": meter}
    return environment


def render(template: str, values: dict[str, Any]) -> str:
    """Return the HTML of a template."""
    return _environment().get_template(template).render(values)


@cache
def asset(name: str) -> bytes:
    """Return a file of the page: the stylesheet, the script or the icon."""
    return (_FOLDER / "static" / name).read_bytes()


def encode_json(data: Any) -> bytes:
    """Return the data of a view as JSON."""
    return msgspec.json.format(msgspec.json.encode(_plain(data)), indent=2)


def _plain(value: Any) -> Any:
    """Return `value` with what JSON cannot hold as text."""
    if isinstance(value, dict):
        return {_text(str(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return value


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()
