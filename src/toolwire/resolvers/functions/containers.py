"""Annotations of arrays and maps: lists, tuples, sets, and mappings whose keys JSON writes as text."""

import re
from collections import OrderedDict, defaultdict, deque
from collections import abc as collections_abc
from collections.abc import Callable, Sequence
from typing import Any, get_args

from toolwire.resolvers.functions.forms import (
    TEXT,
    Read,
    Schema,
    UnreadableValue,
    ValueForm,
    of_kind,
    read_text,
    wrong,
)
from toolwire.resolvers.functions.sites import AnnotationSite

WHOLE = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
WHOLE_KEYS: Schema = {"pattern": "^-?(0|[1-9][0-9]*)$"}

# What an array is read to.
ARRAYS: dict[Any, Callable[[list[Any]], Any] | None] = {
    list: None,
    collections_abc.Sequence: None,
    collections_abc.MutableSequence: None,
    collections_abc.Collection: None,
    collections_abc.Iterable: None,
    collections_abc.Reversible: None,
    deque: deque,
    set: set,
    collections_abc.Set: frozenset,
    collections_abc.MutableSet: set,
    frozenset: frozenset,
}
SETS = (set, collections_abc.Set, collections_abc.MutableSet, frozenset)
MAPS: dict[Any, Callable[[dict[Any, Any]], Any] | None] = {
    dict: None,
    collections_abc.Mapping: None,
    collections_abc.MutableMapping: None,
    OrderedDict: OrderedDict,
}


def array(origin: Any, annotation: Any, site: AnnotationSite) -> ValueForm:
    """Give the form of an array whose elements are alike."""
    inner = site.form(next(iter(get_args(annotation)), Any), "[]")
    keywords: Schema = {"uniqueItems": True} if origin in SETS else {}
    return of_kind("array", reading_all(inner.read, ARRAYS[origin]), items=inner.schema, **keywords)


def pair(annotation: Any, site: AnnotationSite, *, bare: bool = False) -> ValueForm:
    """Give the form of a tuple: of one kind of element, or of one kind in each place."""
    inner = get_args(annotation)
    if bare or inner[1:] == (Ellipsis,):
        element = site.form(inner[0] if inner else Any, "[]")
        return of_kind("array", reading_all(element.read, tuple), items=element.schema)
    if any(getattr(one, "__unpacked__", False) or "Unpack" in repr(one) for one in inner):
        raise site.refuse("a tuple with an unpacked part has no JSON Schema; use tuple[X, ...] or a class")
    places = [site.form(one, f"[{number}]") for number, one in enumerate(inner)]
    return places_form(places, [form.schema for form in places], len(places), tuple)


def places_form(
    places: Sequence[ValueForm], schemas: list[Schema], least: int, make: Callable[[list[Any]], Any]
) -> ValueForm:
    """Give the form of an array that has its own form in each place; the first `least` must be there."""
    reads = [form.read for form in places]
    keywords: Schema = {"prefixItems": schemas} if schemas else {}

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise wrong("an array", value)
        if not least <= len(value) <= len(reads):
            count = str(least) if least == len(reads) else f"{least} to {len(reads)}"
            raise UnreadableValue(f"must have {count} elements, not {len(value)}")
        return make(_each(reads, value))

    return of_kind("array", read, **keywords, minItems=least, maxItems=len(reads))


def _each(reads: list[Read], value: list[Any]) -> list[Any]:
    made: list[Any] = []
    try:
        for read, item in zip(reads, value, strict=False):
            made.append(read(item))
    except UnreadableValue as problem:
        raise problem.inside(len(made)) from None
    return made


def reading_all(read: Read, make: Callable[[list[Any]], Any] | None) -> Read:
    """Read every element of an array."""

    def read_all(value: Any) -> Any:
        if not isinstance(value, list):
            raise wrong("an array", value)
        made: list[Any] = []
        try:
            for item in value:
                made.append(read(item))  # noqa: PERF401 - the place is named where one fails
        except UnreadableValue as problem:
            raise problem.inside(len(made)) from None
        if make is None:
            return made
        try:
            return make(made)
        except TypeError:
            raise UnreadableValue("must hold values of which a set can be made: no arrays, no objects") from None

    return read_all


def mapping(origin: Any, annotation: Any, site: AnnotationSite) -> ValueForm:
    """Give the form of a map."""
    key, value = get_args(annotation) or (Any, Any)
    keys = TEXT if key in (str, Any, object) else site.at("{}").form(key)
    inner = site.form(value, "{}")
    names, read_key = _keys(keys, site)
    keywords: Schema = {"propertyNames": names} if names else {}
    make = _defaulting(value, site) if origin is defaultdict else MAPS[origin]
    read = _reading_pairs(read_key, inner.read, make)
    return of_kind("object", read, additionalProperties=inner.schema or True, **keywords)


def _keys(keys: ValueForm, site: AnnotationSite) -> tuple[Schema, Read]:
    """Give what is said of the names of properties, and how they are read."""
    if keys.kinds == {"string"}:
        return {name: value for name, value in keys.schema.items() if name != "type"}, keys.read
    listed = keys.schema.get("enum", [keys.schema["const"]] if "const" in keys.schema else None)
    if keys.schema.get("type") == "integer":
        names = WHOLE_KEYS if listed is None else {"enum": [str(value) for value in listed]}
        return names, _reading_whole(keys.read)
    raise site.refuse(
        "the keys of a JSON object are text; use str, int, a Literal or Enum of those, or a list of pairs"
    )


def _reading_whole(read: Read) -> Read:
    def read_key(value: Any) -> Any:
        if not WHOLE.fullmatch(read_text(value)):
            raise UnreadableValue("must have whole numbers as keys")
        try:
            return read(int(value))
        except ValueError:
            raise UnreadableValue("has a key of too many digits") from None

    return read_key


def _reading_pairs(read_key: Read, read: Read, make: Callable[[dict[Any, Any]], Any] | None) -> Read:
    def read_pairs(value: Any) -> Any:
        if not isinstance(value, dict):
            raise wrong("an object", value)
        made = {}
        key = ""
        try:
            for key, item in value.items():
                made[read_key(key)] = read(item)
        except UnreadableValue as problem:
            raise problem.inside(key) from None
        if len(made) < len(value):
            raise UnreadableValue("has two keys that mean the same")
        return made if make is None else make(made)

    return read_pairs


FACTORIES = frozenset({list, dict, set, int, float, str})


def _defaulting(value: Any, site: AnnotationSite) -> Callable[[dict[Any, Any]], Any]:
    factory = getattr(value, "__origin__", value)
    if factory not in FACTORIES:
        raise site.refuse("a defaultdict of these values has no known default; use dict")
    return lambda made: defaultdict(factory, made)
