"""Detect which format a model writes: from its name, its chat template, or a text that it wrote.

Rules of this file:
- If two formats fit equally well, both are returned and none is chosen.
- For a model's name, the longest known part decides. For a template, the format whose marks all occur, and are the most
  specific. For a text, the format that decodes calls and leaves the least other text.
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
    """The result of `detect`: the names of the formats that fit. `format` is set if exactly one fits."""

    names: tuple[str, ...] = ()
    own: Format | None = None

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def format(self) -> Format | None:
        """The format if exactly one fits, else None."""
        if self.own is not None:
            return self.own
        return format(self.names[0]) if len(self.names) == 1 else None


def detect(
    text: str | None = None, *, model: str | None = None, template: Any = None, tools: Iterable[Any] | None = None
) -> Guess:
    """Return the formats that fit the name `model`, the chat template `template`, or `text`.

    `template` may be the content of a `tokenizer_config.json`. `tools` are the tools that were offered with the text.
    Raises `MissingFields` if neither a text nor a model nor a template is passed.

    >>> from toolwire import text
    >>> text.detect(model="Qwen/Qwen3-Coder-30B-A3B-Instruct").names
    ('qwen3-coder',)
    >>> text.detect('[TOOL_CALLS]get_time[ARGS]{"zone": "UTC"}').format
    <Format mistral>
    """
    if template is not None:
        return _by_template(template)
    if model is not None:
        return _by_model(model)
    if text is None:
        raise MissingFields("detect", ["text, model or template"])
    return _by_text(text, None if tools is None else list(tools))


def _by_model(model: str) -> Guess:
    """Return the formats of a model's name. The name of its owner (`moonshotai/`) decides only if nothing else does."""
    guesses = (_by_name(_comparable(name)) for name in (model.rpartition("/")[2], model))
    return next(filter(None, guesses), Guess())


def _by_name(name: str) -> Guess:
    return _best({row.name: max((len(part) for part in row.models if _is_in(part, name)), default=0) for row in _all()})


def _comparable(name: str) -> str:
    """Return `name` in the form in which models are compared. Fireworks writes `v3p1` for `v3.1`."""
    return re.sub(r"(?<=\d)p(?=\d)", "-", normalize_name(name))


def _is_in(part: str, name: str) -> bool:
    """Return True if `part` occurs in `name`.

    It does not count if what follows continues its number, or makes the number a parameter count (as in `3b`).
    """
    return re.search(rf"{re.escape(_comparable(part))}(?!\d|\d*b(?:-|$))", name) is not None


def _all() -> Iterable[Row]:
    return rows().values()


def _best(scores: Mapping[str, int]) -> Guess:
    """Return the names with the highest score, if it is above zero."""
    best = max(scores.values(), default=0)
    return Guess(tuple(name for name, score in scores.items() if score == best)) if best > 0 else Guess()


def _by_template(template: Any) -> Guess:
    if isinstance(template, str) and template.lstrip()[:1] == "{" and template.lstrip()[:2] not in {"{%", "{{", "{#"}:
        template = _parsed(template)
    if isinstance(template, Mapping):
        response_template = template.get("response_template")
        if isinstance(response_template, Mapping) and response_template:
            described_format = from_response_template(response_template)
            return Guess((described_format.name,), described_format)
        template = template.get("chat_template", template)
    return _by_marks("\n".join(_texts(template)).replace("\\n", "\n"))


def _texts(template: Any) -> list[str]:
    """Return the texts of a template. Several named templates may be a list or a mapping."""
    entries = template if isinstance(template, list) else []
    texts = [each.get("template") for each in entries if isinstance(each, Mapping)]
    texts += template.values() if isinstance(template, Mapping) else [template]
    return [each for each in texts if isinstance(each, str)]


def _parsed(template: str) -> Any:
    try:
        return json.loads(template)
    except (ValueError, RecursionError) as problem:
        raise InvalidField("template", f"is neither Jinja nor JSON: {problem}") from None


def _by_marks(text: str) -> Guess:
    marks_by_name = {row.name: marks for row in _all() if (marks := _marks_in(row, text))}
    most_specific = {
        name: marks
        for name, marks in marks_by_name.items()
        if not any(marks < others or _covers(others, marks) for others in marks_by_name.values())
    }
    distinct = _distinct(most_specific)
    return _best({name: 1 + _count_marks(rows()[name], text) for name in distinct})


def _covers(others: frozenset[str], marks: frozenset[str]) -> bool:
    """Return True if each mark is part of a mark of `others`, which is therefore the more specific format."""
    return marks != others and all(
        any(mark in other and mark != other for other in others) or mark in others for mark in marks
    )


def _marks_in(row: Row, text: str) -> frozenset[str]:
    """Return the largest set of the format's telltales that `text` has completely, or an empty set."""
    complete = [marks for marks in _telltales(row) if marks and all(mark in text for mark in marks)]
    return max(complete, key=len, default=frozenset())


def _telltales(row: Row) -> list[frozenset[str]]:
    if row.telltales:
        return [frozenset(marks) for marks in row.telltales]
    begins = [bare_mark(begin) for begin, _ in (*row.sections, *((row.wrap,) if row.wrap else ()))]
    marks = [*begins, *map(bare_mark, row.call[:1]), *map(bare_mark, row.argument[:1]), bare_mark(row.value)]
    return [frozenset(mark for mark in marks if len(mark) > 2)]


def _count_marks(row: Row, text: str) -> int:
    """Return how many of the format's turn marks, thinking marks and similar marks occur in `text`."""
    turn_parts = [bare_mark(mark) for pair in turn_marks(row.turns).values() for mark in pair]
    marks = [*turn_parts, *map(bare_mark, row.thinking or ()), *row.noise, *section_ends(row).values()]
    return sum(mark in text for mark in marks if mark)


def _distinct(names: Iterable[str], *, written: bool = True) -> list[str]:
    """Return the names without formats that decode like an earlier one.

    With `written`, two formats count as equal only if they also encode alike.
    """
    seen: dict[tuple[Any, ...], str] = {}
    for name in names:
        row = rows()[name]
        rules: tuple[Any, ...] = (
            row.shape,
            row.sections,
            row.wrap,
            row.call,
            row.argument,
            row.value,
            row.keys,
            row.pad,
        )
        seen.setdefault((*rules, row.noise, row.turns, row.thinking) if written else rules, name)
    return list(seen.values())


def _by_text(text: str, tools: list[Any] | None) -> Guess:
    scores = {}
    for name in _distinct(rows(), written=False):
        each = format(name)
        response = each.decode(text, tools)
        calls = [call for call in response.tool_calls if call.runs]
        if calls:
            text_length = sum(len(part.text.strip()) for part in response.message.parts if isinstance(part, Text))
            encoded = "".join(each.encode_calls(calls, tools or ()).text.split())
            scores[name] = (len(response.broken_calls), text_length, encoded not in "".join(text.split()))
    best_score = min(scores.values(), default=None)
    return Guess(tuple(name for name, score in scores.items() if score == best_score))
