"""The metadata of Annotated: descriptions; constraints of annotated_types, msgspec.Meta and pydantic's Field.

Rules of this file:
- A constraint becomes a keyword where one says it of the JSON; otherwise it is checked when a value is read.
- It goes to those alternatives of a union to which it can apply; one that applies to nothing is an error.
- Metadata that nobody here knows is somebody else's, and is passed over, as PEP 593 has it.
"""

import inspect
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from toolwire.resolvers.functions.json_types import (
    NOTES,
    NUMBERS,
    JsonType,
    Read,
    Schema,
    UnreadableValue,
    union_of,
)
from toolwire.resolvers.functions.walk import Walk
from toolwire.types.frozen import copied


class _Constraint(Struct, frozen=True):
    """What is asked of a value: the check in Python, the words, the keyword for each kind of JSON."""

    name: str
    check: Callable[[Any], bool]
    words: str
    keywords: dict[str, tuple[str, Any]] = {}


# For each constraint its keyword, or how the keywords of a length begin; the check of a value; the words.
_CONSTRAINTS: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "gt": ("exclusiveMinimum", operator.gt, "above {}"),
    "ge": ("minimum", operator.ge, "at least {}"),
    "lt": ("exclusiveMaximum", operator.lt, "below {}"),
    "le": ("maximum", operator.le, "at most {}"),
    "min_length": ("min", lambda made, least: len(made) >= least, "at least {} long"),
    "max_length": ("max", lambda made, most: len(made) <= most, "at most {} long"),
    "multiple_of": ("multipleOf", lambda made, step: not made % step, "a multiple of {}"),
    "pattern": ("pattern", lambda made, pattern: re.search(pattern, str(made)) is not None, "text that matches {}"),
    "tz": ("", lambda made, aware: (made.tzinfo is not None) is aware, "{} a time zone"),
}
_LENGTH_OF = {"string": "Length", "array": "Items", "object": "Properties"}


def annotated(made: JsonType, metadata: Iterable[Any], walk: Walk) -> JsonType:
    """Give the type of Annotated."""
    constraints: list[_Constraint] = []
    predicates: list[_Constraint] = []
    notes: Schema = {}
    for item in _opened(metadata):
        if isinstance(item, str):
            before = notes.get("description")
            notes["description"] = inspect.cleandoc(item) if before is None else f"{before} {item}"
        elif isinstance(getattr(item, "documentation", None), str):
            notes["description"] = inspect.cleandoc(item.documentation)
        elif isinstance(item, Meta) or _is_of(item, "pydantic") or _is_of(item, "annotated_types"):
            constraints += _constraints_in(item, walk)
            notes |= _notes_in(item)
            if callable(getattr(item, "func", None)) and _is_of(item, "annotated_types"):
                predicates.append(_predicate(item.func))
    for constraint in constraints:
        limited = _limited(made, constraint, walk)
        if limited is None:
            raise walk.refuse(f"{constraint.name} does not apply to {made.schema.get('type', 'this')}")
        made = limited
    for predicate in predicates:
        made = replace(made, read=_checked(made.read, predicate))
    return replace(made, schema=made.schema | notes) if notes else made


def _is_of(item: Any, package: str) -> bool:
    return any(kind.__module__.partition(".")[0] == package for kind in type(item).__mro__)


def _opened(metadata: Iterable[Any]) -> Iterator[Any]:
    """Give each item; a group (Interval, Len) and a Field are what they consist of."""
    for item in metadata:
        if getattr(item, "__is_annotated_types_grouped_metadata__", False) is True:
            yield from _opened(item)
        else:
            yield item
            inner = getattr(item, "metadata", None)
            if isinstance(inner, list) and _is_of(item, "pydantic"):
                yield from _opened(inner)


def _notes_in(item: Any) -> Schema:
    """Give what an item says for the reader of the schema."""
    told = {name: getattr(item, name, None) for name in NOTES}
    notes = {name: copied(value) for name, value in told.items() if value is not None and not callable(value)}
    for name in ("extra_json_schema", "json_schema_extra"):
        extra = getattr(item, name, None)
        if isinstance(extra, dict):
            notes |= copied(extra)
    return notes


def _constraints_in(item: Any, walk: Walk) -> Iterator[_Constraint]:
    if type(item).__name__ == "Timezone":
        yield _constraint("tz", item.tz is not None, walk)
        return
    for name in _CONSTRAINTS:
        value = getattr(item, name, None)
        if value is not None:
            yield _constraint(name, value, walk)


def _constraint(name: str, value: Any, walk: Walk) -> _Constraint:
    keyword, check, words = _CONSTRAINTS[name]
    shown, keywords = value, {}
    match name:
        case "min_length" | "max_length":
            if not isinstance(value, int) or value < 0:
                raise walk.refuse(f"{name} must be a whole number of at least 0, not {value!r}")
            keywords = {kind: (keyword + suffix, value) for kind, suffix in _LENGTH_OF.items()}
        case "pattern":
            value = shown = value.pattern if isinstance(value, re.Pattern) else value
            try:
                re.compile(value)
            except re.error as problem:
                raise walk.refuse(f"the pattern {value!r} is not valid: {problem}") from problem
            keywords = {"string": (keyword, value)}
        case "tz":
            shown = "with" if value else "without"
        case _:
            keywords = _for_numbers(keyword, value, walk)
    return _Constraint(name, lambda made: check(made, value), words.format(shown), keywords)


def _for_numbers(keyword: str, value: Any, walk: Walk) -> dict[str, tuple[str, Any]]:
    """Give the keyword for numbers; a bound that is no number (a date) has none."""
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if not isinstance(value, int | float):
        return {}
    if not math.isfinite(value) or isinstance(value, bool):
        raise walk.refuse(f"{value!r} is not a bound; leave it out, or give a finite number")
    return dict.fromkeys(NUMBERS, (keyword, value))


def _predicate(condition: Any) -> _Constraint:
    negated = type(condition).__name__ == "Not"
    name = getattr(condition.func if negated else condition, "__name__", "its condition")
    words = f"what {name} is {'false' if negated else 'true'} of"
    return _Constraint(name, lambda made: bool(condition(made)), words)


def _limited(one: JsonType, constraint: _Constraint, walk: Walk) -> JsonType | None:
    """Put the constraint on a type; nothing if it cannot apply."""
    if one.alternatives:
        limited = [_limited(alternative, constraint, walk) for alternative in one.alternatives]
        if not any(limited):
            return None
        pairs = zip(limited, one.alternatives, strict=True)
        return union_of([after or before for after, before in pairs], walk.definitions)
    kinds = one.kinds if one.plain else one.kinds & NUMBERS
    keywords = dict(constraint.keywords[kind] for kind in sorted(kinds) if kind in constraint.keywords)
    if not keywords and (one.plain or one.kinds <= {"null", "boolean"}):
        return None
    read = one.read if one.plain else _checked(one.read, constraint)
    return replace(one, schema=one.schema | keywords, read=read)


def _checked(read: Read, constraint: _Constraint) -> Read:
    def read_checked(value: Any) -> Any:
        made = read(value)
        try:
            passed = constraint.check(made)
        except Exception as problem:
            raise UnreadableValue(f"must be {constraint.words}: {problem}") from problem
        if not passed:
            raise UnreadableValue(f"must be {constraint.words}")
        return made

    return read_checked
