"""Unions: one of several forms.

Rules of this file:
- The kind of the JSON decides where it can: 5 is the int and 5.0 the float of `int | float`.
- Where several alternatives take the same kind, it is the first, as written, whose schema takes the value
  and which can be read.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from toolwire.resolvers.functions.definitions import Definitions, written
from toolwire.resolvers.functions.forms import NULL, Read, Schema, UnreadableValue, ValueForm, kind_in_schema

STEPS = 100_000
NOTES = ("title", "description", "examples", "deprecated")
SAYABLE = {"null": "null", "boolean": "a boolean", "integer": "an integer", "number": "a number"}
SAYABLE |= {"string": "a string", "array": "an array", "object": "an object"}


def union_of(members: Iterable[ValueForm], definitions: Definitions) -> ValueForm:
    """Give the form of one of several; a union inside is opened, and what is there twice is there once."""
    flat: dict[str, ValueForm] = {}
    for member in members:
        inner = member.alternatives if member.schema.keys() == {"anyOf"} else (member,)
        for one in inner:
            flat.setdefault(written(one.schema), one)
    forms = tuple(flat.values())
    if len(forms) == 1:
        return forms[0]
    kinds = frozenset[str]().union(*(form.kinds for form in forms))
    schema: Schema = {"anyOf": [form.schema for form in forms]}
    return ValueForm(schema, _choosing(forms, kinds, definitions), kinds, plain=False, alternatives=forms)


def nullable(form: ValueForm, definitions: Definitions) -> ValueForm:
    """Let a form take null as well: the default of what it is for is None."""
    if "null" in form.kinds:
        return form
    notes = {key: form.schema[key] for key in NOTES if key in form.schema}
    bare = replace(form, schema={key: value for key, value in form.schema.items() if key not in notes})
    made = union_of([bare, NULL], definitions)
    return replace(made, schema={**made.schema, **notes})


def _choosing(forms: tuple[ValueForm, ...], kinds: frozenset[str], definitions: Definitions) -> Read:
    ready: dict[str, list[tuple[Read, Callable[[Any], bool]]]] = {}
    expected = " or ".join(words for kind, words in SAYABLE.items() if kind in kinds)

    def prepare(kind: str) -> list[tuple[Read, Callable[[Any], bool]]]:
        taking = [form for form in forms if kind in form.kinds]
        taking.sort(key=lambda form: _distance(form, kind))
        if len(taking) == 1:
            return [(taking[0].read, lambda _value: True)]
        return [(form.read, _checking(form.schema, definitions)) for form in taking]

    def read(value: Any) -> Any:
        kind = kind_in_schema(value)
        found = ready.get(kind)
        if found is None:
            found = ready[kind] = prepare(kind)
        problem = UnreadableValue(f"must be {expected}" if not found else "must be one of what is allowed here")
        for read_one, takes in found:
            if takes(value):
                try:
                    return read_one(value)
                except UnreadableValue as reason:
                    problem = reason
        raise problem

    return read


def _distance(form: ValueForm, kind: str) -> int:
    """Of integer and number, prefer what the value is written as."""
    other = {"integer": "number", "number": "integer"}.get(kind)
    return int(other is not None and other in form.kinds and form.schema.get("type") == other)


def _checking(schema: Schema, definitions: Definitions) -> Callable[[Any], bool]:
    """Check a value against the schema of an alternative, as the validation of arguments does."""
    import jsonschema_rs  # noqa: PLC0415 - only a union of like kinds needs it

    try:
        validator = jsonschema_rs.Draft202012Validator(
            definitions.whole(schema),
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=STEPS),
            offline=True,
        )
    except (ValueError, jsonschema_rs.ReferencingError):
        return lambda _value: True

    def takes(value: Any) -> bool:
        try:
            return bool(validator.is_valid(value))
        except ValueError:
            return False

    return takes
