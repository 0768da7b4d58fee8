"""The metadata of Annotated: descriptions, and the constraints of annotated_types, msgspec.Meta and pydantic's Field.

Rules of this file:
- A constraint becomes a keyword if JSON Schema has one for it. Otherwise it is checked when a value is read.
- In a union, a constraint applies to the alternatives that it fits. A constraint that fits nothing is an error.
- Unknown metadata belongs to another library and is ignored, as PEP 593 requires.
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
    ANNOTATION_KEYWORDS,
    NUMBER_TYPES,
    JsonType,
    Read,
    Schema,
    UnreadableValue,
    union_type,
)
from toolwire.resolvers.functions.walk import Walk
from toolwire.types.frozen import copy_json


class _Constraint(Struct, frozen=True):
    """A constraint: its check in Python, its words for errors, and its keyword for each JSON type."""

    name: str
    check: Callable[[Any], bool]
    words: str
    keywords: dict[str, tuple[str, Any]] = {}


# For each constraint: its keyword, or the beginning of the keywords for a length; the check; the words for errors.
_CONSTRAINTS: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "gt": ("exclusiveMinimum", operator.gt, "above {}"),
    "ge": ("minimum", operator.ge, "at least {}"),
    "lt": ("exclusiveMaximum", operator.lt, "below {}"),
    "le": ("maximum", operator.le, "at most {}"),
    "min_length": ("min", lambda value, least: len(value) >= least, "at least {} long"),
    "max_length": ("max", lambda value, most: len(value) <= most, "at most {} long"),
    "multiple_of": ("multipleOf", lambda value, step: not value % step, "a multiple of {}"),
    "pattern": ("pattern", lambda value, pattern: re.search(pattern, str(value)) is not None, "text that matches {}"),
    "tz": ("", lambda value, aware: (value.tzinfo is not None) is aware, "{} a time zone"),
}
_LENGTH_OF = {"string": "Length", "array": "Items", "object": "Properties"}


def apply_metadata(json_type: JsonType, metadata: Iterable[Any], walk: Walk) -> JsonType:
    """Return the type of an `Annotated` from the type of its content. Raise `InvalidSchema` for a wrong constraint."""
    constraints: list[_Constraint] = []
    predicates: list[_Constraint] = []
    annotations: Schema = {}
    for item in _flatten_metadata(metadata):
        if isinstance(item, str):
            description = annotations.get("description")
            annotations["description"] = inspect.cleandoc(item) if description is None else f"{description} {item}"
        elif isinstance(getattr(item, "documentation", None), str):
            annotations["description"] = inspect.cleandoc(item.documentation)
        elif isinstance(item, Meta) or _is_from(item, "pydantic") or _is_from(item, "annotated_types"):
            constraints += _constraints_in(item, walk)
            annotations |= _annotations_in(item)
            if callable(getattr(item, "func", None)) and _is_from(item, "annotated_types"):
                predicates.append(_predicate(item.func))
    for constraint in constraints:
        constrained = _constrain(json_type, constraint, walk)
        if constrained is None:
            raise walk.refuse(f"{constraint.name} does not apply to {json_type.schema.get('type', 'this')}")
        json_type = constrained
    for predicate in predicates:
        json_type = replace(json_type, read=_checked(json_type.read, predicate))
    return replace(json_type, schema=json_type.schema | annotations) if annotations else json_type


def _is_from(item: Any, package: str) -> bool:
    return any(cls.__module__.partition(".")[0] == package for cls in type(item).__mro__)


def _flatten_metadata(metadata: Iterable[Any]) -> Iterator[Any]:
    """Yield each item of the metadata. A group (Interval, Len) and a Field are replaced by their items."""
    for item in metadata:
        if getattr(item, "__is_annotated_types_grouped_metadata__", False) is True:
            yield from _flatten_metadata(item)
        else:
            yield item
            inner = getattr(item, "metadata", None)
            if isinstance(inner, list) and _is_from(item, "pydantic"):
                yield from _flatten_metadata(inner)


def _annotations_in(item: Any) -> Schema:
    """Return the annotation keywords of an item, such as its description and examples."""
    values = {name: getattr(item, name, None) for name in ANNOTATION_KEYWORDS}
    annotations = {
        name: copy_json(value) for name, value in values.items() if value is not None and not callable(value)
    }
    for name in ("extra_json_schema", "json_schema_extra"):
        extra = getattr(item, name, None)
        if isinstance(extra, dict):
            annotations |= copy_json(extra)
    return annotations


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
    display, keywords = value, {}
    match name:
        case "min_length" | "max_length":
            if not isinstance(value, int) or value < 0:
                raise walk.refuse(f"{name} must be a whole number of at least 0, not {value!r}")
            keywords = {json_type: (keyword + suffix, value) for json_type, suffix in _LENGTH_OF.items()}
        case "pattern":
            value = display = value.pattern if isinstance(value, re.Pattern) else value
            try:
                re.compile(value)
            except re.error as problem:
                raise walk.refuse(f"the pattern {value!r} is not valid: {problem}") from problem
            keywords = {"string": (keyword, value)}
        case "tz":
            display = "with" if value else "without"
        case _:
            keywords = _number_keywords(keyword, value, walk)
    return _Constraint(name, lambda result: check(result, value), words.format(display), keywords)


def _number_keywords(keyword: str, value: Any, walk: Walk) -> dict[str, tuple[str, Any]]:
    """Return the keyword for numbers, or nothing if the bound is not a number, such as a date."""
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if not isinstance(value, int | float):
        return {}
    if not math.isfinite(value) or isinstance(value, bool):
        raise walk.refuse(f"{value!r} is not a bound; leave it out, or give a finite number")
    return dict.fromkeys(NUMBER_TYPES, (keyword, value))


def _predicate(condition: Any) -> _Constraint:
    negated = type(condition).__name__ == "Not"
    name = getattr(condition.func if negated else condition, "__name__", "its condition")
    words = f"what {name} is {'false' if negated else 'true'} of"
    return _Constraint(name, lambda result: bool(condition(result)), words)


def _constrain(json_type: JsonType, constraint: _Constraint, walk: Walk) -> JsonType | None:
    """Return the type with the constraint, or None if it cannot apply."""
    if json_type.alternatives:
        constrained = [_constrain(alternative, constraint, walk) for alternative in json_type.alternatives]
        if not any(constrained):
            return None
        pairs = zip(constrained, json_type.alternatives, strict=True)
        return union_type([changed or original for changed, original in pairs], walk.definitions)
    types = json_type.kinds if json_type.plain else json_type.kinds & NUMBER_TYPES
    keywords = dict(constraint.keywords[type_name] for type_name in sorted(types) if type_name in constraint.keywords)
    if not keywords and (json_type.plain or json_type.kinds <= {"null", "boolean"}):
        return None
    read = json_type.read if json_type.plain else _checked(json_type.read, constraint)
    return replace(json_type, schema=json_type.schema | keywords, read=read)


def _checked(read: Read, constraint: _Constraint) -> Read:
    def read_checked(value: Any) -> Any:
        result = read(value)
        try:
            is_valid = constraint.check(result)
        except Exception as problem:
            raise UnreadableValue(f"must be {constraint.words}: {problem}") from problem
        if not is_valid:
            raise UnreadableValue(f"must be {constraint.words}")
        return result

    return read_checked
