"""Formats as data: how a model writes calls in its text, one record for each name.

Rules of this file:
- Names compare with `-`, `_` and `.` alike. An alias is another well-known name of the same format.
- A row that is `like` another says only what differs. Each says where its rules were read, and when.
- White space at the edges of a mark is how templates write it; a text may leave it out.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.errors import InvalidField, UnknownFormat
from toolwire.types.readable import readable

_FILE = Path(__file__).parent / "formats.toml"
_SPLIT = re.compile(r"^(\s*)(.*?)(\s*)$", re.DOTALL)
Pair = tuple[str, str]


@readable
class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """What a table says of a format.

    `sections` stand around the calls, the outermost first; `wrap` stands around each call. `call` is what a call
    begins with, what stands after its name, and its end. `argument` is the same of an argument, and `value` what
    stands between its key and its value. `attributes` are the attributes that hold the name, the key and the type.
    `thinking` is what a thought begins and ends with, and other beginnings; `head` what a message begins with, where it
    names the reader (`self` is a thought).
    `keys` are the keys of a call in JSON: of its name, of its arguments, of its id; `|` separates spellings.
    """

    name: str
    shape: str
    source: str
    as_of: str
    aliases: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    sections: tuple[Pair, ...] = ()
    also: tuple[Pair, ...] = ()
    wrap: Pair | None = None
    call: tuple[str, ...] = ()
    header: str = ""
    loose: bool = True
    argument: tuple[str, ...] = ()
    value: str = ""
    attributes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ("name", "arguments|parameters", "id")
    between: str = ""
    separators: tuple[str, ...] = ()
    before: str = ""
    many: bool = True
    list: bool = False
    pad: bool = False
    cdata: bool = False
    quotes: tuple[str, ...] = ()
    call_id: str = ""
    head: str = ""
    thinking: tuple[str, ...] | None = None
    noise: tuple[str, ...] = ()
    tools: Pair = ("<tools>\n", "\n</tools>")
    result: str = "<tool_response>\n{content}\n</tool_response>"
    turns: str = ""
    telltales: tuple[str, ...] = ()
    template: dict[str, Any] | None = None

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Everything that stands around calls: its beginning, and its end."""
        return (*self.sections, *self.also, *((self.wrap,) if self.wrap else ()))


def normalize_name(name: str) -> str:
    """Give a name as names are compared."""
    return re.sub(r"[-_.\s]+", "-", name.strip().lower())


def _merged(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    own = dict(tables[name])
    like = own.pop("like", None)
    inherited = {} if like is None else _merged(tables, like)
    for key in ("aliases", "models"):
        inherited.pop(key, None)
    return {**inherited, **own, "name": name}


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text("utf-8"))


@cache
def rows() -> dict[str, Row]:
    """Give every row by its name."""
    tables = _tables()["formats"]
    return {name: msgspec.convert(_merged(tables, name), Row) for name in tables}


@cache
def turn_marks(name: str) -> dict[str, Pair]:
    """Give what stands around the messages of each role."""
    return {role: (pair[0], pair[1]) for role, pair in _tables()["turns"].get(name, {}).items()}


@cache
def _names() -> dict[str, str]:
    found = {normalize_name(alias): name for name, row in rows().items() for alias in row.aliases}
    return found | {normalize_name(name): name for name in rows()}


def names() -> tuple[str, ...]:
    """List the names of all formats."""
    return tuple(rows())


def resolve_row(given: str | Mapping[str, Any]) -> Row:
    """Give the row of a name, or of a user's own table."""
    if isinstance(given, str):
        name = _names().get(normalize_name(given))
        if name is None:
            raise UnknownFormat(given, names())
        return rows()[name]
    if not isinstance(given, Mapping):
        raise InvalidField("format", f"must be the name of a format or a table, not {given!r}", path="text")
    table = {"name": "own", "source": "the user", "as_of": "", **given}
    if "like" in table:
        base = resolve_row(str(table["like"]))
        table = _merged({**_tables()["formats"], table["name"]: {**table, "like": base.name}}, table["name"])
    try:
        return msgspec.convert(table, Row)
    except msgspec.ValidationError as problem:
        raise InvalidField("format", str(problem), path="text.format") from problem


def bare_mark(mark: str) -> str:
    """Give a mark without the white space that templates write around it."""
    return mark.strip() or mark


def mark_spellings(mark: str) -> Iterator[str]:
    """Give each spelling of a mark: with all, some or none of the white space around it."""
    before, inner, after = _SPLIT.match(mark).groups()  # type: ignore[union-attr]
    heads, tails = range(len(before) + 1), range(len(after) + 1)
    for head, tail in product(heads, tails):
        yield before[head:] + inner + after[:tail]
