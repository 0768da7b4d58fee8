"""Which format a model writes: by its name, by its chat template, or by a text of its own.

Rules of this file:
- Where two fit equally well, both are named and none is chosen.
- Of a model's name the longest part that is known counts; of a template, the format whose marks are all there and say
  most; of a text, the format that reads calls and leaves the fewest words.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from toolwire.errors import InvalidField, MissingFields
from toolwire.text.block_items import section_ends
from toolwire.text.format import Format, format
from toolwire.text.rows import Row, bare_mark, normalize_name, rows, turn_marks
from toolwire.text.templates import from_response_template
from toolwire.types import Text


class Guess(Struct, frozen=True):
    """The names of the formats that fit; `format` is there where it is one."""

    names: tuple[str, ...] = ()
    own: Format | None = None

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def format(self) -> Format | None:
        """The format, if exactly one fits."""
        if self.own is not None:
            return self.own
        return format(self.names[0]) if len(self.names) == 1 else None


def detect(
    text: str | None = None, *, model: str | None = None, template: Any = None, tools: Iterable[Any] | None = None
) -> Guess:
    """Say which formats fit a model's name, a chat template (or a `tokenizer_config.json`), or a text."""
    if template is not None:
        return _by_template(template)
    if model is not None:
        return _by_model(model)
    if text is None:
        raise MissingFields("detect", ["text, model or template"])
    return _by_text(text, None if tools is None else list(tools))


def _by_model(model: str) -> Guess:
    name = normalize_name(model)
    return _best({row.name: max((len(part) for part in row.models if _is_in(part, name)), default=0) for row in _all()})


def _is_in(part: str, name: str) -> bool:
    """Whether a part stands in a name; what follows may be no more of its number, nor make it a count of parameters."""
    return re.search(rf"{re.escape(normalize_name(part))}(?!\d|\d*b(?:-|$))", name) is not None


def _all() -> Iterable[Row]:
    return rows().values()


def _best(scores: Mapping[str, int]) -> Guess:
    """Give the names with the highest score, if it is any."""
    best = max(scores.values(), default=0)
    return Guess(tuple(name for name, score in scores.items() if score == best)) if best > 0 else Guess()


def _by_template(template: Any) -> Guess:
    if isinstance(template, str) and template.lstrip()[:1] == "{" and template.lstrip()[:2] not in {"{%", "{{", "{#"}:
        template = _parsed(template)
    if isinstance(template, Mapping):
        own = template.get("response_template")
        if isinstance(own, Mapping) and own:
            made = from_response_template(own)
            return Guess((made.name,), made)
        template = template.get("chat_template", template)
    return _by_marks("\n".join(_texts(template)).replace("\\n", "\n"))


def _texts(template: Any) -> list[str]:
    """Give the text of a template, or of each one where there are several with names: as a list, or as a map."""
    named = template if isinstance(template, list) else []
    texts = [each.get("template") for each in named if isinstance(each, Mapping)]
    texts += template.values() if isinstance(template, Mapping) else [template]
    return [each for each in texts if isinstance(each, str)]


def _parsed(template: str) -> Any:
    try:
        return json.loads(template)
    except (ValueError, RecursionError) as problem:
        raise InvalidField("template", f"is neither Jinja nor JSON: {problem}") from None


def _by_marks(text: str) -> Guess:
    fitting = {
        row.name: _telltales(row) for row in _all() if _telltales(row) and all(m in text for m in _telltales(row))
    }
    most = {
        name: marks
        for name, marks in fitting.items()
        if not any(marks < others or _covers(others, marks) for others in fitting.values())
    }
    distinct = _distinct(most)
    return _best({name: 1 + _familiar(rows()[name], text) for name in distinct})


def _covers(others: frozenset[str], marks: frozenset[str]) -> bool:
    """Whether each mark stands inside of another format's, which so says more."""
    return marks != others and all(
        any(mark in other and mark != other for other in others) or mark in others for mark in marks
    )


def _telltales(row: Row) -> frozenset[str]:
    if row.telltales:
        return frozenset(row.telltales)
    begins = [bare_mark(begin) for begin, _ in (*row.sections, *((row.wrap,) if row.wrap else ()))]
    given = [*begins, *map(bare_mark, row.call[:1]), *map(bare_mark, row.argument[:1]), bare_mark(row.value)]
    return frozenset(mark for mark in given if len(mark) > 2)


def _familiar(row: Row, text: str) -> int:
    """Say how much of what stands around the turns and thoughts of a format is in a template."""
    turns = [bare_mark(mark) for pair in turn_marks(row.turns).values() for mark in pair]
    marks = [*turns, *map(bare_mark, row.thinking or ()), *row.noise, *section_ends(row).values()]
    return sum(mark in text for mark in marks if mark)


def _distinct(names: Iterable[str], *, written: bool = True) -> list[str]:
    """Leave out what reads as another one does, and, where it counts, writes as another one does."""
    seen: dict[tuple[Any, ...], str] = {}
    for name in names:
        row = rows()[name]
        same: tuple[Any, ...] = (
            row.shape,
            row.sections,
            row.wrap,
            row.call,
            row.argument,
            row.value,
            row.keys,
            row.pad,
        )
        seen.setdefault((*same, row.noise, row.turns, row.thinking) if written else same, name)
    return list(seen.values())


def _by_text(text: str, tools: list[Any] | None) -> Guess:
    left = {}
    for name in _distinct(rows(), written=False):
        each = format(name)
        response = each.decode(text, tools)
        calls = [call for call in response.tool_calls if call.runs]
        if calls:
            words = sum(len(part.text.strip()) for part in response.message.parts if isinstance(part, Text))
            again = "".join(each.encode_calls(calls, tools or ()).text.split())
            left[name] = (len(response.broken_calls), words, again not in "".join(text.split()))
    best = min(left.values(), default=None)
    return Guess(tuple(name for name, rest in left.items() if rest == best))
