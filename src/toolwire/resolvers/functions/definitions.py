"""The `$defs` that the schemas of one tool share, each under a name of its own.

Rules of this file:
- A class is written once and referred to by `$ref`, so that it may hold itself.
- Two classes of one name get `Name` and `Name_2`, in the order in which they are met.
- What another generator has written is adopted under free names, and its references follow.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from toolwire.resolvers.functions.forms import KINDS, Schema, ValueForm, copied

PREFIX = "#/$defs/"
_UNSAYABLE = re.compile(r"[^a-zA-Z0-9.\-_]")


class _Entry:
    __slots__ = ("form", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.form: ValueForm | None = None

    def read(self, value: Any) -> Any:
        """Read by a form that was not yet known where it was referred to."""
        assert self.form is not None  # noqa: S101 - nothing is read before the whole is built
        return self.form.read(value)


class Definitions:
    """Named schemas; `schemas` is what `$defs` holds."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._entries: dict[Hashable, _Entry] = {}
        self._adopted: dict[Hashable, str] = {}

    def named(self, key: Hashable, name: str, build: Callable[[], ValueForm]) -> ValueForm:
        """Refer to the schema of a class, which is built when it is first met."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self._free(name))
            self.schemas[entry.name] = {}
            entry.form = build()
            self.schemas[entry.name] = entry.form.schema
        reference = {"$ref": PREFIX + entry.name}
        if entry.form is None:
            return ValueForm(reference, entry.read, KINDS, plain=False)
        return ValueForm(reference, entry.form.read, entry.form.kinds, entry.form.plain)

    def adopt(self, foreign: dict[str, Schema]) -> dict[str, str]:
        """Take in definitions that were written elsewhere; gives the name that each has here."""
        keys = {name: (name, written(reached(body, foreign)), written(body)) for name, body in foreign.items()}
        names = {name: self._adopted[key] for name, key in keys.items() if key in self._adopted}
        new = {name: body for name, body in foreign.items() if name not in names}
        while True:
            taken = [name for name, body in new.items() if name not in names and self._holds_other(name, body, names)]
            if not taken:
                break
            names |= {name: self._free(name, foreign) for name in taken}
        for name, body in new.items():
            self.schemas[names.setdefault(name, name)] = renamed(body, names)
        self._adopted |= {key: names[name] for name, key in keys.items()}
        return names

    def _holds_other(self, name: str, body: Schema, names: dict[str, str]) -> bool:
        return name in self.schemas and written(self.schemas[name]) != written(renamed(body, names))

    def _free(self, name: str, foreign: dict[str, Schema] | None = None) -> str:
        clean = plain_name(name)
        taken = self.schemas.keys() | (foreign or {}).keys()
        number, free = 1, clean
        while free in taken:
            number += 1
            free = f"{clean}_{number}"
        return free

    def whole(self, schema: Schema) -> Schema:
        """Give a schema that stands alone: with its `$defs`, or the definition itself where that is all."""
        needed = reached(schema, self.schemas)
        name = str(schema.get("$ref", "")).removeprefix(PREFIX)
        if len(schema) == 1 and name in needed and name not in reached(self.schemas[name], self.schemas):
            schema = self.schemas[name]
            needed.pop(name)
        made: Schema = copied(schema)
        if needed:
            made["$defs"] = copied(needed)
        return made


def plain_name(name: str) -> str:
    """Write a name so that a reference can hold it as it is."""
    return _UNSAYABLE.sub("_", name) or "_"


def reached(schema: Schema, definitions: dict[str, Schema]) -> dict[str, Schema]:
    """Find the definitions that a schema needs."""
    found: set[str] = set()
    waiting = list(references(schema))
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in found:
            found.add(name)
            waiting.extend(references(definitions[name]))
    return {name: body for name, body in definitions.items() if name in found}


def references(schema: Any) -> Iterator[str]:
    """Find the names that a schema refers to."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str) and value.startswith(PREFIX):
                yield value.removeprefix(PREFIX)
            else:
                yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def renamed(schema: Any, names: dict[str, str]) -> Any:
    """Write a schema with other names in its references."""
    if isinstance(schema, list):
        return [renamed(value, names) for value in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: renamed(value, names) for key, value in schema.items()}
    reference = made.get("$ref")
    if isinstance(reference, str) and reference.startswith(PREFIX):
        name = reference.removeprefix(PREFIX)
        made["$ref"] = PREFIX + names.get(name, name)
    return made


def written(schema: Any) -> str:
    """Write a schema so that equal ones are equal text; true and 1 are not equal."""
    return json.dumps(schema, sort_keys=True)
