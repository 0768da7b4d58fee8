"""The building blocks of a vendor's rules: the request to judge, a rejection, and tables that describe a body.

Rules of this file:
- A table describes what is valid. An `ErrorWording` turns a mistake into the vendor's error message.
- The first mistake is raised as a Rejection, and nothing after it is checked. So a check may rely on the checks before
  it.
- An object is checked from the outside in: its keys and the types of its values, then the contents of the values.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct, field

from toolwire.testing.prompt_cache import PromptCache
from toolwire.types import ErrorKind

_MAX_ANSWERS = 10_000
Path = tuple[str | int, ...]


class Rejection(Exception):
    """The reason why a server rejects a request."""

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
    """The state of a server: signatures, stored answers, which item needs which other one, and cached prompts."""

    def __init__(self) -> None:
        self.signatures: set[str] = set()
        self.answers: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.inputs: dict[str, list[Any]] = {}
        self.items: dict[str, str | None] = {}
        self.prompts: PromptCache = PromptCache()

    def store_answer(self, body: dict[str, Any], items: list[Any]) -> None:
        """Store an answer with all items that led to it; the oldest answer is deleted."""
        name = body["id"]
        self.answers[name], self.inputs[name] = body, [*items, *body.get("output", ())]
        thought: str | None = None
        for item in body.get("output", ()):
            if type(item.get("id")) is str:
                self.items[item["id"]] = None if item["type"] == "reasoning" else thought
            thought = item.get("id") if item["type"] == "reasoning" else None
        while len(self.answers) > _MAX_ANSWERS:
            oldest, _ = self.answers.popitem(last=False)
            for item in self.inputs.pop(oldest):
                known: Any = item.get("id") if type(item) is dict else None
                self.items.pop(known, None)


class WireRequest(Struct, frozen=True):
    """A request as it arrived, and the server's memory.

    `model` is the one of the body or the path. `judged` is true if this server is strict.
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
    """Return a path with dots only: "messages.0.content"."""
    return ".".join(map(str, path))


def bracketed(path: Path) -> str:
    """Return a path with positions in brackets: "messages[0].content"."""
    return "".join(f"[{step}]" if type(step) is int else f".{step}" for step in path).removeprefix(".")


class ErrorWording(Struct, frozen=True):
    """The error messages of a vendor.

    - `templates` has a text for each mistake, `codes` the vendor's code for it.
    - `kinds` names the expected types and `got` the actual ones.
    - `join` writes a path. `spell` gives an object the keys of the table.
    """

    templates: Mapping[str, str]
    kinds: Mapping[str, str]
    codes: Mapping[str, str] = {}
    got: Mapping[str, str] = {}
    join: Callable[[Path], str] = dotted
    spell: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def mistake(self, name: str, path: Path, **facts: Any) -> Rejection:
        """Return the rejection for a mistake at a path."""
        joined, parent, code = self.join(path), self.join(path[:-1]), self.codes.get(name)
        facts |= {"path": joined, "key": path[-1] if path else "", "at": f" at '{parent}'" if parent else ""}
        return Rejection(self.templates[name].format(**facts), joined, code and code.format(**facts))

    def wrong_type(self, path: Path, kinds: str, value: Any) -> Rejection:
        """Return the rejection for a value of a wrong type."""
        named = [self.kinds[kind] for kind in kinds.split("|")]
        every = named[0] if len(named) == 1 else f"one of {', '.join(named[:-1])} or {named[-1]}"
        got = self.got.get(_KINDS.get(type(value), "null"), "")
        return self.mistake("wrong", path, expected=named[0], every=every, got=got, value=value)

    def unknown_value(self, name: str, path: Path, value: Any, words: Iterable[str]) -> Rejection:
        """Return the rejection for a value that is none of the allowed ones, with their list."""
        *most, last = [f"'{word}'" for word in words]
        head = ", ".join(most)
        lists = {"listed": f"{head}, {last}", "with_or": f"{head} or {last}", "with_and": f"{head}, and {last}"}
        return self.mistake(name, path, value=value, **(lists if most else dict.fromkeys(lists, last)))


class Field(Struct, frozen=True):
    """The requirements for a value.

    - `kinds` are its types: "string|array". `one_of` are the only values.
    - A text matches `pattern` and is not longer than `longest`.
    - `least` and `most` bound a number, or the number of items of a list.
    - `inside` describes an object, or each item of a list. If a list is expected, a single object counts as a list of
      it.
    - `flat` also checks the items of lists within the list.
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

    def check(self, value: Any, path: Path, wording: ErrorWording) -> None:
        """Check everything but the type of a value."""
        if self.one_of and value not in self.one_of:
            raise wording.unknown_value("one_of", path, value, self.one_of)
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

    def _check_items(self, items: list[Any], path: Path, wording: ErrorWording) -> None:
        if self.least is not None and len(items) < self.least:
            raise wording.mistake("empty", path, least=self.least)
        if self.most is not None and len(items) > self.most:
            raise wording.mistake("too_many", path, most=self.most, count=len(items))
        if self.inside is not None:
            check = self.inside.check
            for index, item in enumerate(flattened(items) if self.flat else items):
                check(item, (*path, index), wording)

    def _check_bounds(self, value: Any, path: Path, wording: ErrorWording) -> None:
        number = "integer" if type(value) is int else "decimal"
        if self.least is not None and value < self.least:
            raise wording.mistake("below", path, number=number, least=self.least, value=value)
        if self.most is not None and value > self.most:
            raise wording.mistake("above", path, number=number, most=self.most, value=value)


class Object:
    """An object: rows of types with the names of their fields, and fields with further requirements.

    "string: name! title" is a row; names with a "!" are required.
    """

    closed = False

    def __init__(self, *rows: str, **fields: Field) -> None:
        self.fields: dict[str, Field] = {
            name.removesuffix("!"): Field(kinds, required=name.endswith("!"))
            for kinds, names in (row.split(": ") for row in rows)
            for name in names.split()
        } | fields
        self._required = [key for key, field_ in self.fields.items() if field_.required]
        self._types = {
            key: {kind for word in field_.kinds.split("|") for kind in _TYPES[word]}
            for key, field_ in self.fields.items()
        }
        self._deep = fields.items()

    def check(self, value: Any, path: Path, wording: ErrorWording) -> None:
        """Check a value. Raise Rejection at the first mistake."""
        if type(value) is not dict:
            raise wording.wrong_type(path, "object", value)
        if wording.spell is not None:
            value = wording.spell(value)
        for key in self._required:
            if key not in value:
                raise wording.mistake("missing", (*path, key))
        self._check_kinds(value, path, wording)
        for key, field_ in self._deep:
            if key in value:
                field_.check(value[key], (*path, key), wording)

    def _check_kinds(self, value: dict[str, Any], path: Path, wording: ErrorWording) -> None:
        for key, inner in value.items():
            known = self._types.get(key)
            if known is None:
                if self.closed:
                    raise wording.mistake("unknown", (*path, key))
            elif type(inner) not in known or (type(inner) is float and not math.isfinite(inner)):
                raise wording.wrong_type((*path, key), self.fields[key].kinds, inner)


class Closed(Object):
    """An object without unknown fields."""

    closed = True


class Tagged:
    """An object of one of several shapes, chosen by the word under its tag.

    `choose` returns the word of an object that does not simply contain it, or ANYTHING if nothing more is to be
    checked. `at_object` reports a wrong word at the path of the object, not of its tag.
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

    def check(self, value: Any, path: Path, wording: ErrorWording) -> None:
        """Check a value. A vendor that reports tags as such has them in its paths as well."""
        if type(value) is not dict:
            raise wording.wrong_type(path, "object", value)
        word: Any = value.get(self.tag) if self.choose is None else self.choose(value)
        if word is ANYTHING:
            return
        shape = self.shapes.get(word) if type(word) is str else None
        if "tag" in wording.templates:
            if shape is None:
                raise wording.unknown_value("tag", path, word, self.shapes)
            path = (*path, word)
        elif shape is None:
            raise self._wrong_word(value, word, path, wording)
        shape.check(value, path, wording)

    def _wrong_word(self, value: dict[str, Any], word: Any, path: Path, wording: ErrorWording) -> Rejection:
        at = (*path, self.tag)
        if word is None and self.tag not in value:
            return wording.mistake("missing", at)
        if type(word) is not str:
            return wording.wrong_type(at, "string", word)
        return wording.unknown_value("one_of", path if self.at_object else at, word, self.shapes)


ANYTHING = Object()


def shape_of(body: Object, wording: ErrorWording) -> Check:
    """Return the check of a whole body against its table."""

    def check_shape(request: WireRequest) -> None:
        body.check(request.body, (), wording)

    return check_shape


def listed(value: Any) -> list[Any]:
    """Return `value` as a list: any other value becomes the only item, and None an empty list."""
    return value if type(value) is list else [] if value is None else [value]


def flattened(value: Any) -> list[Any]:
    """Return the items of a list, and the items of lists within it."""
    return [inner for item in listed(value) for inner in listed(item)]


def turns_of(roles: Iterable[str]) -> list[tuple[str, list[int]]]:
    """Return the turns of a conversation: each has a role, and the indexes of its consecutive messages."""
    groups = groupby(enumerate(roles), lambda entry: entry[1])
    return [(role, [index for index, _ in entries]) for role, entries in groups]


def repeated(names: Iterable[Any]) -> str | None:
    """Return the first name that occurs twice, or None."""
    names_so_far: set[Any] = set()
    for name in names:
        if name in names_so_far:
            return str(name)
        names_so_far.add(name)
    return None
