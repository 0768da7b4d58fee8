"""Formats as data: one row for each format, which describes how its models write calls.

Rules of this file:
- Names are compared with `-`, `_` and `.` treated alike. An alias is another well-known name of the same format.
- A row that is `like` another row holds only the differences. Each row has its source and the date of it.
- White space at the edges of a mark is what templates write. A text may leave it out.
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
    """One row of `formats.toml`.

    Of the format itself:

    - `shape`: the engine that decodes and encodes it. `template`: the `response_template` of the shape `template`.
    - `source` and `as_of`: where its rules were read, and when. `aliases`: other names of it.
    - `models`: parts of model names. `telltales`: sets of marks that only its chat templates have, each set for other
      templates; without any, the marks around its calls. Both serve `detect`.
    - `like`: in the file only, the row whose other keys are inherited.

    The marks around calls:

    - `sections`: the marks around all calls, the outermost first. `wrap`: the marks around each call.
    - `also`: further marks around calls, which are decoded but never encoded.
    - `call`: the begin mark of a call, the mark after its name, and its end mark.
    - `call_id`: the mark before an id, or the key of it.
    - `header`, by shape: in `named json`, `object` means that the object contains the name, `id` that the id does, and
      `id first` that the id comes before the name, with the mark `call_id` between them.
      In `elements` it is the prefix of every mark, and in `parameters` the text after the name.
    - `loose`: calls count without the marks of their section.
    - `noise`: marks without a meaning, which are removed from the text.

    The arguments of a call:

    - `argument`: the three marks of an argument, as in `call`. `value`: the mark between its key and its value.
    - `attributes`: the names of the attributes that hold the name, the key and the type.
    - `keys`: the keys of a JSON call for its name, its arguments and its id. `|` separates alternatives.
    - `value_type`: the marks around the type of a value, which may stand between its key and the mark of `value`.
    - `json`: in `parameters`, a call may also be a JSON object, or a list of them.
    - `quotes`: the quoting marks of strings, if they are not those of JSON.
    - `pad`: a line break is on each side of a value. `cdata`: a value may be a CDATA section.

    Several calls, and text around them:

    - `list`: calls are encoded as one list. `many`: a list is decoded as several calls.
    - `between`: the text between two calls. `separators`: marks that are skipped between calls and between arguments.
    - `before`: the text between other text and the first call.

    The rest of a conversation:

    - `thinking`: the begin mark and the end mark of a thought, then alternative begin marks. `also_thinking`: further
      pairs of marks, which are decoded but never encoded.
    - `head`: what a message begins with if it names its recipient. The recipient `self` means a thought.
    - `tools`: the marks around the description of tools. `result`: a result, with `{content}`, `{id}` and `{name}`.
    - `turns`: the name of the table with the marks around messages.
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
    value_type: Pair | None = None
    json: bool = False
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
    also_thinking: tuple[Pair, ...] = ()
    noise: tuple[str, ...] = ()
    tools: Pair = ("<tools>\n", "\n</tools>")
    result: str = "<tool_response>\n{content}\n</tool_response>"
    turns: str = ""
    telltales: tuple[tuple[str, ...], ...] = ()
    template: dict[str, Any] | None = None

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs of marks around calls: begin mark and end mark."""
        return (*self.sections, *self.also, *((self.wrap,) if self.wrap else ()))


def normalize_name(name: str) -> str:
    """Return `name` in the form in which names are compared."""
    return re.sub(r"[-_.\s]+", "-", name.strip().lower())


def _merged(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = dict(tables[name])
    base_name = table.pop("like", None)
    inherited = {} if base_name is None else _merged(tables, base_name)
    for key in ("aliases", "models", "telltales"):
        inherited.pop(key, None)
    return {**inherited, **table, "name": name}


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text("utf-8"))


@cache
def rows() -> dict[str, Row]:
    """Return all rows by name."""
    tables = _tables()["formats"]
    return {name: msgspec.convert(_merged(tables, name), Row) for name in tables}


@cache
def turn_marks(name: str) -> dict[str, Pair]:
    """Return the marks around the messages of each role."""
    return {role: (pair[0], pair[1]) for role, pair in _tables()["turns"].get(name, {}).items()}


@cache
def _names() -> dict[str, str]:
    by_alias = {normalize_name(alias): name for name, row in rows().items() for alias in row.aliases}
    return by_alias | {normalize_name(name): name for name in rows()}


def names() -> tuple[str, ...]:
    """Return the names of all formats.

    >>> from toolwire import text
    >>> "hermes" in text.names()
    True
    """
    return tuple(rows())


def resolve_row(name_or_table: str | Mapping[str, Any]) -> Row:
    """Return the row of a format's name, or of a user's table.

    Raises `UnknownFormat` for an unknown name, and `InvalidField` for a table that is not valid.
    """
    if isinstance(name_or_table, str):
        name = _names().get(normalize_name(name_or_table))
        if name is None:
            raise UnknownFormat(name_or_table, names())
        return rows()[name]
    if not isinstance(name_or_table, Mapping):
        raise InvalidField("format", f"must be the name of a format or a table, not {name_or_table!r}", path="text")
    table = {"name": "own", "source": "the user", "as_of": "", **name_or_table}
    if "like" in table:
        base = resolve_row(str(table["like"]))
        table = _merged({**_tables()["formats"], table["name"]: {**table, "like": base.name}}, table["name"])
    try:
        return msgspec.convert(table, Row)
    except msgspec.ValidationError as problem:
        raise InvalidField("format", str(problem), path="text.format") from problem


def bare_mark(mark: str) -> str:
    """Return `mark` without the white space that templates write around it."""
    return mark.strip() or mark


def mark_spellings(mark: str) -> Iterator[str]:
    """Yield each spelling of `mark`: with all, some or none of the white space around it."""
    before, inner, after = _SPLIT.match(mark).groups()  # type: ignore[union-attr]
    heads, tails = range(len(before) + 1), range(len(after) + 1)
    for head, tail in product(heads, tails):
        yield before[head:] + inner + after[:tail]
