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
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from toolwire.resolvers.functions.forms import NUMBERS, Read, Schema, UnreadableValue, ValueForm, copied
from toolwire.resolvers.functions.sites import AnnotationSite
from toolwire.resolvers.functions.unions import NOTES, union_of

Check = Callable[[Any], bool]


class Constraint(Struct, frozen=True):
    """What is asked of a value: the keyword for each kind of JSON, the check in Python, the words."""

    name: str
    keywords: dict[str, tuple[str, Any]]
    check: Check
    words: str


class Metadata(Struct):
    """What the metadata of one annotation says, sorted."""

    constraints: list[Constraint] = []
    predicates: list[Constraint] = []
    notes: Schema = {}


BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "gt": ("exclusiveMinimum", operator.gt, "above"),
    "ge": ("minimum", operator.ge, "at least"),
    "lt": ("exclusiveMaximum", operator.lt, "below"),
    "le": ("maximum", operator.le, "at most"),
}
LENGTHS: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "min_length": ("min", operator.ge, "at least"),
    "max_length": ("max", operator.le, "at most"),
}
LENGTH_OF = {"string": "Length", "array": "Items", "object": "Properties"}
CONSTRAINTS = (*BOUNDS, *LENGTHS, "multiple_of", "pattern", "tz")


def annotated(form: ValueForm, metadata: Sequence[Any], site: AnnotationSite) -> ValueForm:
    """Give the form of Annotated."""
    said = _sorted(metadata, site)
    for constraint in said.constraints:
        limited = _limited(form, constraint, site)
        if limited is None:
            raise site.refuse(f"{constraint.name} says nothing of {form.schema.get('type', 'this')}")
        form = limited
    for predicate in said.predicates:
        form = replace(form, read=_checked(form.read, predicate))
    return replace(form, schema={**form.schema, **said.notes}) if said.notes else form


def _sorted(metadata: Sequence[Any], site: AnnotationSite) -> Metadata:
    said = Metadata([], [], {})
    for item in _opened(metadata):
        if isinstance(item, str):
            before = said.notes.get("description")
            said.notes["description"] = inspect.cleandoc(item) if before is None else f"{before} {item}"
        elif isinstance(getattr(item, "documentation", None), str):
            said.notes["description"] = inspect.cleandoc(item.documentation)
        elif isinstance(item, Meta) or _is_of(item, "pydantic"):
            _read_attributes(item, said, site)
        elif _is_of(item, "annotated_types"):
            _read_attributes(item, said, site)
            if callable(getattr(item, "func", None)):
                said.predicates.append(_predicate(item))
    return said


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


def _read_attributes(item: Any, said: Metadata, site: AnnotationSite) -> None:
    for name in CONSTRAINTS:
        value = getattr(item, name, None)
        if type(item).__name__ == "Timezone":
            value = None if name != "tz" else value is not None
        if value is not None:
            said.constraints.append(_constraint(name, value, site))
    for name in NOTES:
        value = getattr(item, name, None)
        if value is not None and not callable(value):
            said.notes[name] = copied(value)
    for name in ("extra_json_schema", "json_schema_extra"):
        extra = getattr(item, name, None)
        if isinstance(extra, dict):
            said.notes |= copied(extra)


def _constraint(name: str, value: Any, site: AnnotationSite) -> Constraint:
    if name in BOUNDS:
        keyword, compare, words = BOUNDS[name]
        return Constraint(
            name, _for_numbers(keyword, value, site), lambda given: compare(given, value), f"{words} {value}"
        )
    if name in LENGTHS:
        prefix, compare, words = LENGTHS[name]
        if not isinstance(value, int) or value < 0:
            raise site.refuse(f"{name} must be a whole number of at least 0, not {value!r}")
        keywords = {kind: (prefix + suffix, value) for kind, suffix in LENGTH_OF.items()}
        return Constraint(name, keywords, lambda given: compare(len(given), value), f"{words} {value} long")
    if name == "multiple_of":
        return Constraint(
            name,
            _for_numbers("multipleOf", value, site),
            lambda given: not given % value,
            f"a multiple of {value}",
        )
    if name == "pattern":
        text = value.pattern if isinstance(value, re.Pattern) else value
        return Constraint(name, {"string": ("pattern", text)}, _matching(text, site), f"text that matches {text}")
    words = "with a time zone" if value else "without a time zone"
    return Constraint(name, {}, lambda given: (given.tzinfo is not None) is value, words)


def _matching(pattern: str, site: AnnotationSite) -> Check:
    try:
        found = re.compile(pattern).search
    except re.error as problem:
        raise site.refuse(f"the pattern {pattern!r} is none: {problem}") from problem
    return lambda given: found(str(given)) is not None


def _for_numbers(keyword: str, value: Any, site: AnnotationSite) -> dict[str, tuple[str, Any]]:
    """Give the keyword for numbers; a bound that is no number (a date) has none."""
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if not isinstance(value, int | float):
        return {}
    if not math.isfinite(value) or isinstance(value, bool):
        raise site.refuse(f"{value!r} is no bound; leave it out, or give a finite number")
    return dict.fromkeys(NUMBERS, (keyword, value))


def _predicate(item: Any) -> Constraint:
    negated = type(item.func).__name__ == "Not"
    name = getattr(item.func.func if negated else item.func, "__name__", "its condition")
    words = f"what {name} is {'false' if negated else 'true'} of"
    return Constraint(name, {}, lambda given: bool(item.func(given)), words)


def _limited(form: ValueForm, constraint: Constraint, site: AnnotationSite) -> ValueForm | None:
    """Put the constraint on a form; nothing if it cannot apply."""
    if form.alternatives:
        limited = [_limited(one, constraint, site) for one in form.alternatives]
        if not any(limited):
            return None
        pairs = zip(limited, form.alternatives, strict=True)
        return union_of([one or before for one, before in pairs], site.definitions)
    kinds = form.kinds if form.plain else form.kinds & NUMBERS
    keywords = dict(constraint.keywords[kind] for kind in sorted(kinds) if kind in constraint.keywords)
    if keywords:
        form = replace(form, schema={**form.schema, **keywords})
    elif form.plain or form.kinds <= {"null", "boolean"}:
        return None
    return form if form.plain else replace(form, read=_checked(form.read, constraint))


def _checked(read: Read, constraint: Constraint) -> Read:
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
