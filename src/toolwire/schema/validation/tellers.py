"""What each keyword finds wrong with a value, and where: a table of keywords.

Rule: problems come in the order of the schema, each told where it lies.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from toolwire.schema.validation.alternatives import closest
from toolwire.schema.validation.places import SAME_VALUE, Subschema, held
from toolwire.schema.validation.values import Spot
from toolwire.schema.validation.walk import LAST, SchemaWalk, Teller
from toolwire.schema.validation.wording import WORDS, counted, form, missing, named, said, sentence, unknown

_LEVELS = 4
_MOST_NAMES = 1000
UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})


def _tell_leaf(walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot) -> Iterator[str]:
    beside = {}
    if keyword in ("minimum", "maximum"):
        exclusive = f"exclusive{keyword.capitalize()}"
        beside = {exclusive: True} if place.node.get(exclusive) is True else {}
    elif keyword.startswith("exclusive") and isinstance(limit, bool):
        return
    if not walk.holds(keyword, limit, value, beside):
        yield said(keyword, limit, value, spot, walk.display)


def _tell_required(
    walk: SchemaWalk, _place: Subschema, _keyword: str, limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    if type(value) is dict:
        for name in limit:
            if name not in value:
                yield missing(walk.display.below(spot, name, declared=True))


def _tell_dependent(
    walk: SchemaWalk, _place: Subschema, _keyword: str, limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    if type(value) is dict:
        for cause, names in limit.items():
            for name in names if cause in value and type(names) is list else ():
                if name not in value:
                    yield missing(walk.display.below(spot, name, declared=True), f"needed beside {cause}")


def _tell_dependent_schemas(
    walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    if keyword == "dependencies":
        yield from _tell_dependent(walk, place, keyword, limit, value, spot)
    for cause, node in limit.items():
        if type(value) is dict and cause in value and type(node) is not list:
            yield from walk.into(place.below(keyword, cause, node), value, spot)


def _tell_properties(
    walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    if type(value) is dict:
        for name, node in limit.items():
            if name in value:
                below = walk.display.below(spot, name, declared=True)
                yield from walk.into(place.below(keyword, name, node), value[name], below)


def _tell_patterns(
    walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    for pattern, node in limit.items() if type(value) is dict else ():
        for name, inner in value.items():
            if walk.holds("pattern", pattern, name):
                below = walk.display.below(spot, name)
                yield from walk.into(place.below(keyword, pattern, node), inner, below)


def _tell_additional(
    walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    if type(value) is not dict:
        return
    known, patterns = place.node.get("properties", {}), place.node.get("patternProperties", {})
    for name, inner in value.items():
        if name in known or any(walk.holds("pattern", pattern, name) for pattern in patterns):
            continue
        if limit is False:
            yield _told_unknown(walk, name, spot, known)
        else:
            below = walk.display.below(spot, name)
            yield from walk.into(place.below(keyword, None, limit), inner, below)


def _told_unknown(walk: SchemaWalk, name: str, spot: Spot, known: Iterable[str]) -> str:
    """Tell of an unknown field; only for the first of many is it looked for what was meant."""
    walk.hints -= 1
    return unknown(name, spot, known, walk.display, hint=walk.hints >= 0)


def _tell_names(walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot) -> Iterator[str]:
    below = place.below(keyword, None, limit)
    for name in value if type(value) is dict else ():
        if not walk.fits(below, name):
            field = walk.display.below(spot, name)
            yield from walk.into(below, name, Spot(f"name {field.path}", field.secret))


def _tell_items(walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot) -> Iterator[str]:
    if type(value) is not list:
        return
    if type(limit) is list:
        for index, (node, item) in enumerate(zip(limit, value, strict=False)):
            yield from walk.into(place.below(keyword, index, node), item, spot.item(index))
        return
    taken = place.node.get("items") if keyword == "additionalItems" else place.node.get("prefixItems")
    first = len(taken) if type(taken) is list else 0
    if keyword == "additionalItems" and type(taken) is not list:
        return
    if limit is False and len(value) > first:
        yield sentence(
            spot,
            f"expected at most {counted(first, 'item')}, got {walk.display.count(len(value), value, spot)}",
        )
        return
    below = place.below(keyword, None, limit)
    for index, item in enumerate(islice(value, first, None), first):
        yield from walk.into(below, item, spot.item(index))


def _tell_contains(
    walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    if type(value) is not list:
        return
    least, most = place.node.get("minContains", 1), place.node.get("maxContains")
    below = place.below(keyword, None, limit)
    count = sum(walk.fits(below, item) for item in value)
    if count < least:
        bound = f"at least {counted(least, 'item')}"
    elif most is not None and count > most:
        bound = f"at most {counted(most, 'item')}"
    else:
        return
    got = walk.display.count(count, value, spot)
    yield sentence(spot, f"expected {bound} of this form: {form(limit)}; got {got}")


def _tell_all(walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot) -> Iterator[str]:
    for index, node in enumerate(limit):
        yield from walk.into(place.below(keyword, index, node), value, spot)


def _tell_not(walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot) -> Iterator[str]:
    if walk.fits(place.below(keyword, None, limit), value):
        shown = walk.display.value(value, spot)
        yield sentence(spot, f"{named(shown)} is excluded: it must not be {form(limit)}")


def _tell_if(walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot) -> Iterator[str]:
    branch = "then" if walk.fits(place.below(keyword, None, limit), value) else "else"
    if branch in place.node:
        yield from walk.into(place.below(branch, None, place.node[branch]), value, spot)


def _tell_reference(
    walk: SchemaWalk, place: Subschema, keyword: str, _limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    for target in walk.targets(place, (keyword,)):
        yield from walk.into(target, value, spot)


def _tell_unevaluated(
    walk: SchemaWalk, place: Subschema, _keyword: str, _limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    """Ask the library which fields or items nothing else has looked at."""
    from jsonschema_rs import ValidationError, ValidationErrorKind  # noqa: PLC0415 - loaded by now

    compiled = None if UNEVALUATED.isdisjoint(place.node) else walk.compiled(place)
    if compiled is None:
        return
    try:
        compiled.validate(value)
    except ValidationError as error:
        match error.kind:
            case ValidationErrorKind.UnevaluatedProperties(unexpected=names):
                known = list(islice(_known_names(walk, place, _LEVELS), _MOST_NAMES))
                yield from (_told_unknown(walk, name, spot, known) for name in names)
            case ValidationErrorKind.UnevaluatedItems(unexpected=places):
                allowed = counted(len(value) - len(places), "item")
                got = walk.display.count(len(value), value, spot)
                yield sentence(spot, f"expected no more than the {allowed} that the schema knows, got {got}")


def _known_names(walk: SchemaWalk, place: Subschema, levels: int) -> Iterator[str]:
    """Give the fields that a place, its alternatives and its references declare."""
    if type(place.node) is not dict or levels == 0:
        return
    yield from place.node.get("properties", {})
    for keyword, below in held(place):
        if keyword in SAME_VALUE - {"not"}:
            yield from _known_names(walk, below, levels - 1)
    for target in walk.targets(place):
        yield from _known_names(walk, target, levels - 1)


def _tell_alternatives(
    walk: SchemaWalk, place: Subschema, keyword: str, limit: Any, value: Any, spot: Spot
) -> Iterator[str]:
    branches = [place.below(keyword, index, node) for index, node in enumerate(limit)]
    fitting = [index for index, branch in enumerate(branches, 1) if walk.fits(branch, value)]
    if not fitting:
        yield from closest(walk, branches, value, spot)
    elif keyword == "oneOf" and len(fitting) > 1:
        which = " and ".join(map(str, fitting[:5]))
        shown = walk.display.value(value, spot)
        yield sentence(spot, f"{named(shown)} fits alternatives {which} of {len(limit)}; exactly one may fit")


TELLERS: Mapping[str, Teller] = {
    **dict.fromkeys(WORDS, _tell_leaf),
    "required": _tell_required,
    "dependentRequired": _tell_dependent,
    "dependentSchemas": _tell_dependent_schemas,
    "dependencies": _tell_dependent_schemas,
    "properties": _tell_properties,
    "patternProperties": _tell_patterns,
    "additionalProperties": _tell_additional,
    "propertyNames": _tell_names,
    "items": _tell_items,
    "prefixItems": _tell_items,
    "additionalItems": _tell_items,
    "contains": _tell_contains,
    "allOf": _tell_all,
    "anyOf": _tell_alternatives,
    "oneOf": _tell_alternatives,
    "not": _tell_not,
    "if": _tell_if,
    "$ref": _tell_reference,
    "$dynamicRef": _tell_reference,
    "$recursiveRef": _tell_reference,
    LAST: _tell_unevaluated,
}
