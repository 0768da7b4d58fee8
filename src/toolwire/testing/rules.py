"""What the rules of a vendor are made of: the request that is judged, a rejection, and tables of what a body holds.

Rules of this file:
- A table says what is right. A vendor's wording says how a mistake is told.
- The first mistake is raised as a Rejection, and nothing after it is looked at. So a check may count on what
  the checks before it have found to be right.
- An object is checked from the outside in: its keys and the kinds of its values, then what is in the values.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct, field

from toolwire.types import ErrorKind

_REMEMBERED = 10_000
Path = tuple[str | int, ...]


class Rejection(Exception):
    """Why a server does not take a request."""

    def __init__(
        self,
        message: str,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        kind: ErrorKind = "invalid_request",
    ) -> None:
        super().__init__(message)
        self.message: str = message
        self.param: str | None = param
        self.code: str | None = code
        self.status: int = status
        self.kind: ErrorKind = kind


class ServerMemory:
    """What a server remembers: signatures of scripts, the answers it keeps, which item needs which."""

    def __init__(self) -> None:
        self.signatures: set[str] = set()
        self.answers: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.inputs: dict[str, list[Any]] = {}
        self.items: dict[str, str | None] = {}

    def keep(self, body: dict[str, Any], items: list[Any]) -> None:
        """Remember an answer, with all items that led to it; the oldest is forgotten."""
        name = body["id"]
        self.answers[name], self.inputs[name] = body, [*items, *body.get("output", ())]
        thought: str | None = None
        for item in body.get("output", ()):
            if type(item.get("id")) is str:
                self.items[item["id"]] = None if item["type"] == "reasoning" else thought
            thought = item.get("id") if item["type"] == "reasoning" else None
        while len(self.answers) > _REMEMBERED:
            oldest, _ = self.answers.popitem(last=False)
            for item in self.inputs.pop(oldest):
                known: Any = item.get("id") if type(item) is dict else None
                self.items.pop(known, None)


class WireRequest(Struct, frozen=True):
    """A request as it came, and what its server remembers.

    `model` is what body or path say; `judged` says whether this server is strict.
    """

    dialect: str
    body: dict[str, Any]
    model: str = ""
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    judged: bool = True
    memory: ServerMemory = field(default_factory=ServerMemory)


Check = Callable[[WireRequest], None]

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
    "any": (str, int, float, bool, dict, list, type(None)),
}
_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}


def dotted(path: Path) -> str:
    """Write a path with dots alone: "messages.0.content"."""
    return ".".join(map(str, path))


def bracketed(path: Path) -> str:
    """Write a path with positions in brackets: "messages[0].content"."""
    return "".join(f"[{step}]" if type(step) is int else f".{step}" for step in path).removeprefix(".")


class Wording(Struct, frozen=True):
    """How a vendor tells of mistakes.

    `templates` has a text for each mistake, `codes` the vendor's code for it. `kinds` names what a value should be and
    `got` what it is. `join` writes a path. `spell` gives an object the keys of the table.
    """

    templates: Mapping[str, str]
    kinds: Mapping[str, str]
    codes: Mapping[str, str] = {}
    got: Mapping[str, str] = {}
    join: Callable[[Path], str] = dotted
    spell: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def mistake(self, name: str, path: Path, **facts: Any) -> Rejection:
        """Tell of a mistake at a path."""
        written, above, code = self.join(path), self.join(path[:-1]), self.codes.get(name)
        facts |= {"path": written, "key": path[-1] if path else "", "at": f" at '{above}'" if above else ""}
        return Rejection(self.templates[name].format(**facts), written, code and code.format(**facts))

    def wrong(self, path: Path, kinds: str, value: Any) -> Rejection:
        """Tell that a value is of the wrong kind."""
        named = [self.kinds[kind] for kind in kinds.split("|")]
        every = named[0] if len(named) == 1 else f"one of {', '.join(named[:-1])} or {named[-1]}"
        got = self.got.get(_KINDS.get(type(value), "null"), "")
        return self.mistake("wrong", path, expected=named[0], every=every, got=got, value=value)

    def no_such(self, name: str, path: Path, value: Any, words: Iterable[str]) -> Rejection:
        """Tell which words there are, where a value is none of them."""
        *most, last = [f"'{word}'" for word in words]
        first = ", ".join(most)
        ways = {"listed": f"{first}, {last}", "with_or": f"{first} or {last}", "with_and": f"{first}, and {last}"}
        return self.mistake(name, path, value=value, **(ways if most else dict.fromkeys(ways, last)))


class Field(Struct, frozen=True):
    """What a value must be.

    `kinds` are its kinds: "string|array". `one_of` are the only values. A text matches `pattern` and is not longer
    than `longest`; `least` and `most` bound a number, or how many items a list has. `inside` is what an object
    holds, or each item of a list; where a list is wanted, an object alone stands for a list of it. `flat` takes the
    items of lists within the list, too.
    """

    kinds: str
    required: bool = False
    one_of: Sequence[Any] = ()
    pattern: re.Pattern[str] | None = None
    longest: int | None = None
    least: float | None = None
    most: float | None = None
    inside: "Object | Tagged | None" = None
    flat: bool = False

    def check(self, value: Any, path: Path, wording: Wording) -> None:
        """Check what is more than the kind of a value."""
        if self.one_of and value not in self.one_of:
            raise wording.no_such("one_of", path, value, self.one_of)
        kind = type(value)
        if kind is str:
            if self.pattern is not None and not self.pattern.fullmatch(value):
                raise wording.mistake("pattern", path, pattern=self.pattern.pattern)
            if self.longest is not None and len(value) > self.longest:
                raise wording.mistake("too_long", path, most=self.longest, count=len(value))
        elif kind in (list, dict) and "array" in self.kinds:
            self._check_items(listed(value), path, wording)
        elif kind is dict:
            if self.inside is not None:
                self.inside.check(value, path, wording)
        elif kind in (int, float):
            self._check_bounds(value, path, wording)

    def _check_items(self, items: list[Any], path: Path, wording: Wording) -> None:
        if self.least is not None and len(items) < self.least:
            raise wording.mistake("empty", path, least=self.least)
        if self.most is not None and len(items) > self.most:
            raise wording.mistake("too_many", path, most=self.most, count=len(items))
        if self.inside is not None:
            check = self.inside.check
            for place, item in enumerate(flattened(items) if self.flat else items):
                check(item, (*path, place), wording)

    def _check_bounds(self, value: Any, path: Path, wording: Wording) -> None:
        number = "integer" if type(value) is int else "decimal"
        if self.least is not None and value < self.least:
            raise wording.mistake("below", path, number=number, least=self.least, value=value)
        if self.most is not None and value > self.most:
            raise wording.mistake("above", path, number=number, most=self.most, value=value)


class Object:
    """An object: rows of kinds and the fields that are of them, and fields of which more is said.

    "string: name! title" is a row; those with a "!" are required.
    """

    closed = False

    def __init__(self, *rows: str, **fields: Field) -> None:
        self.fields: dict[str, Field] = {
            name.removesuffix("!"): Field(kinds, required=name.endswith("!"))
            for kinds, names in (row.split(": ") for row in rows)
            for name in names.split()
        } | fields
        self._required = [key for key, each in self.fields.items() if each.required]
        self._types = {
            key: {kind for word in each.kinds.split("|") for kind in _TYPES[word]} for key, each in self.fields.items()
        }
        self._deep = fields.items()

    def check(self, value: Any, path: Path, wording: Wording) -> None:
        """Check a value."""
        if type(value) is not dict:
            raise wording.wrong(path, "object", value)
        if wording.spell is not None:
            value = wording.spell(value)
        for key in self._required:
            if key not in value:
                raise wording.mistake("missing", (*path, key))
        self._check_kinds(value, path, wording)
        for key, each in self._deep:
            if key in value:
                each.check(value[key], (*path, key), wording)

    def _check_kinds(self, value: dict[str, Any], path: Path, wording: Wording) -> None:
        for key, inner in value.items():
            known = self._types.get(key)
            if known is None:
                if self.closed:
                    raise wording.mistake("unknown", (*path, key))
            elif type(inner) not in known or (type(inner) is float and not math.isfinite(inner)):
                raise wording.wrong((*path, key), self.fields[key].kinds, inner)


class Closed(Object):
    """An object that has no other fields."""

    closed = True


class Tagged:
    """An object of one of several shapes, by the word under its tag.

    `choose` gives the word of an object that does not simply say it, or ANYTHING where no more is to be checked.
    `at_object` tells of a wrong word at the path of the object, not of its tag.
    """

    def __init__(
        self,
        shapes: "Mapping[str, Object | Tagged]",
        tag: str = "type",
        *,
        choose: Callable[[dict[str, Any]], Any] | None = None,
        at_object: bool = False,
    ) -> None:
        self.shapes: Mapping[str, Object | Tagged] = shapes
        self.tag: str = tag
        self.choose: Callable[[dict[str, Any]], Any] | None = choose
        self.at_object: bool = at_object

    def check(self, value: Any, path: Path, wording: Wording) -> None:
        """Check a value; a vendor that tells of tags as such has them in its paths, too."""
        if type(value) is not dict:
            raise wording.wrong(path, "object", value)
        word: Any = value.get(self.tag) if self.choose is None else self.choose(value)
        if word is ANYTHING:
            return
        shape = self.shapes.get(word) if type(word) is str else None
        if "tag" in wording.templates:
            if shape is None:
                raise wording.no_such("tag", path, word, self.shapes)
            path = (*path, word)
        elif shape is None:
            raise self._wrong_word(value, word, path, wording)
        shape.check(value, path, wording)

    def _wrong_word(self, value: dict[str, Any], word: Any, path: Path, wording: Wording) -> Rejection:
        at = (*path, self.tag)
        if word is None and self.tag not in value:
            return wording.mistake("missing", at)
        if type(word) is not str:
            return wording.wrong(at, "string", word)
        return wording.no_such("one_of", path if self.at_object else at, word, self.shapes)


ANYTHING = Object()


def shape_of(body: Object, wording: Wording) -> Check:
    """Make the check of a whole body against its table."""

    def check_shape(request: WireRequest) -> None:
        body.check(request.body, (), wording)

    return check_shape


def listed(value: Any) -> list[Any]:
    """Give a value as a list: one that is none is the only item, and nothing is none."""
    return value if type(value) is list else [] if value is None else [value]


def flattened(value: Any) -> list[Any]:
    """List the items of a list; one in a list of its own is an item, too."""
    return [inner for item in listed(value) for inner in listed(item)]


def turns_of(roles: Iterable[str]) -> list[tuple[str, list[int]]]:
    """Give the turns of a conversation, each with the places of its messages: those of one role in a row are one."""
    groups = groupby(enumerate(roles), lambda entry: entry[1])
    return [(role, [place for place, _ in entries]) for role, entries in groups]


def repeated(names: Iterable[Any]) -> str | None:
    """Give the first name that comes twice."""
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            return str(name)
        seen.add(name)
    return None
