"""Charts as SVG. Attributes say where a shape stands, and the stylesheet which colour it has: nothing is inline."""

from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct

from toolwire.page.rendering import money

_WIDTH, _HEIGHT, _BAR = 1000, 140, 26


class Segment(Struct, frozen=True):
    """A part of a bar: its name, its share of the whole from 0 to 1, and its class."""

    name: str
    share: float
    style: str = ""


def _drawing(style: str, width: int, height: int, label: str, shapes: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(style, width, height, label, Markup("").join(shapes))


def _box(style: str, left: float, top: float, width: float, height: float, title: str) -> Markup:
    return Markup(
        '<rect class="{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"><title>{}</title></rect>'
    ).format(style, left, top, width, height, title)


def segment_bar(segments: Sequence[Segment], label: str) -> Markup:
    """Return a bar of parts beside each other."""
    shapes, left = [], 0.0
    for segment in segments:
        width = max(0.0, segment.share) * _WIDTH
        title = f"{segment.name}: {segment.share:.0%}"
        shapes.append(_box(f"bar-part {segment.style}", left, 0, width, _BAR, title))
        left += width
    return _drawing("segments", _WIDTH, _BAR, label, shapes)


def columns(values: Sequence[tuple[str, float]], label: str) -> Markup:
    """Return a column for each day. The page writes the largest amount and the days beside it."""
    most = max((value for _, value in values), default=0.0)
    step = _WIDTH / max(1, len(values))
    shapes = []
    for index, (name, value) in enumerate(values):
        height = (value / most if most else 0.0) * (_HEIGHT - 2)
        left, top = index * step + step * 0.12, _HEIGHT - 1 - height
        shapes.append(_box("column", left, top, step * 0.76, height, f"{name}: {money(value)}"))
    shapes.append(_box("axis", 0, _HEIGHT - 1, _WIDTH, 1, label))
    return _drawing("columns", _WIDTH, _HEIGHT, label, shapes)
