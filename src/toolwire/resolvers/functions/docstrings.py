"""What a docstring tells a model: its prose, and what it says of each parameter and of the result.

Rules of this file:
- Google, NumPy and Sphinx styles are known by their headings; the sections are read by griffelib.
- The prose is kept word for word, examples and notes with it; what is for Python's caller alone is cut out:
  parameters (the schema tells them), returns, yields, raises, warns, attributes.
- Without griffelib the prose is the same; what is said of parameters cannot be read, and is an error.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from toolwire.errors import MissingExtra

_PARAMETERS = (
    *("args", "arguments", "params", "parameters", "keyword args", "keyword arguments", "keyword parameters"),
    *("other args", "other arguments", "other params", "other parameters", "attributes"),
)
_OTHERS = ("returns", "yields", "receives", "raises", "exceptions", "warns", "methods")
_HEADINGS = frozenset(_PARAMETERS + _OTHERS)
_UNDERLINED = frozenset({"parameters", "other parameters", "attributes", *_OTHERS})
_FIELD = re.compile(
    r":(?P<name>param|parameter|arg|argument|key|keyword|type|var|ivar|cvar|vartype|returns?|rtype|raises?"
    r"|except|exception|yields?|ytype)\b[^:\n]*:(?:\s|$)"
)
_PARAMETER_FIELDS = frozenset("param parameter arg argument key keyword var ivar cvar".split())
_GOOGLE = re.compile(r"(?P<name>[A-Za-z][A-Za-z ]*):\s*$")
_UNDERLINE = re.compile(r"-{3,}\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")
_WRITTEN_BY_PYTHON = frozenset({"An enumeration."})


class Docstring(Struct, frozen=True):
    """What a docstring says; the names of parameters are without asterisks."""

    description: str | None = None
    parameters: dict[str, str] = {}
    returns: str | None = None


class _Line(Struct):
    """A line: its text, the section that it belongs to (empty: prose), and whether it heads that section."""

    text: str
    section: str = ""
    heads: bool = False


def read_docstring(text: str | None) -> Docstring:
    """Read a docstring of any of the three styles."""
    clean = _clean(text or "")
    style, lines = max(
        ((style, _marked(clean.splitlines(), heading)) for style, heading in STYLES.items()),
        key=lambda marked: _weight(marked[1]),
    )
    prose = "\n".join(line.text for line in lines if not line.section)
    description = re.sub(r"\n{3,}", "\n\n", prose).strip() or None
    sections = {line.section for line in lines if line.section}
    if not sections:
        return Docstring(description)
    try:
        import griffe  # noqa: PLC0415 - it is an extra, and takes long to import
    except ImportError:
        if sections & {*_PARAMETERS, *_PARAMETER_FIELDS}:
            raise MissingExtra("griffelib", "tools", "to read the descriptions of parameters in docstrings") from None
        return Docstring(description)
    told = "\n".join(_spaced([line for line in lines if line.section]))
    # A section is only one below something else.
    parsed = getattr(griffe, f"parse_{style}")(griffe.Docstring(f".\n\n{told}"), warnings=False)
    return Docstring(description, *_told(parsed))


def _clean(text: str) -> str:
    """Take out the indentation; a heading on the first line keeps what is under it under it."""
    first, _, below = inspect.cleandoc(text).partition("\n")
    heading = _GOOGLE.match(first)
    if heading and heading["name"].lower() in _HEADINGS and not below[:1].isspace():
        below = textwrap.indent(below, "    ")
    return f"{first}\n{below}" if below else first


def _spaced(lines: list[_Line]) -> Iterator[str]:
    """Put a blank line above each heading, and none below it, as griffelib asks for."""
    headed = False
    for line in lines:
        if line.heads:
            yield ""
        if line.text.strip() or not headed:
            yield line.text
            headed = line.heads


def docstring_of_class(kind: type) -> Docstring:
    """Read the docstring that a class has written itself."""
    text = vars(kind).get("__doc__")
    made = not isinstance(text, str) or text.startswith(f"{kind.__name__}(") or text in _WRITTEN_BY_PYTHON
    return Docstring() if made else read_docstring(text)


def _weight(lines: list[_Line]) -> tuple[int, int]:
    """Weigh how surely lines are of a style: by what is said of parameters, then by any section."""
    heads = [line.section for line in lines if line.heads]
    return sum(name in _PARAMETERS or name in _PARAMETER_FIELDS for name in heads), len(heads)


def _told(sections: list[Any]) -> tuple[dict[str, str], str | None]:
    """Give what is said of parameters and of the result."""
    parameters: dict[str, str] = {}
    returns: list[str] = []
    for section in sections:
        match section.kind.value:
            case "parameters" | "other parameters" | "attributes":
                for item in section.value:
                    parameters.setdefault(item.name.lstrip("*"), _words(item.description))
            case "returns" | "yields":
                returns.extend(_words(item.description) for item in section.value)
    return {name: words for name, words in parameters.items() if words}, "\n".join(filter(None, returns)) or None


def _words(text: str | None) -> str:
    return inspect.cleandoc(text).strip() if text else ""


def _marked(lines: list[str], heading: "_Heading") -> list[_Line]:
    """Mark the lines with their sections; in a fenced block there is no heading."""
    marked, section, fenced = [], "", False
    for number, line in enumerate(lines):
        fence = _FENCE.match(line) is not None
        begins = heading(lines, number, not fenced and not fence)
        section = section if begins is None else begins
        marked.append(_Line(line, section, bool(begins)))
        fenced ^= fence
    return marked


# What begins with a line, which is free or in a block of code: a section, prose (""), or nothing new.
_Heading = Callable[[list[str], int, bool], str | None]


def _google(lines: list[str], number: int, free: bool) -> str | None:
    """Find a heading with a colon, and something indented under it."""
    line = lines[number]
    if not line or line[0].isspace():
        return None
    heading = _GOOGLE.match(line) if free else None
    name = heading["name"].lower() if heading else ""
    below = next(filter(str.strip, lines[number + 1 :]), "") if name in _HEADINGS else ""
    return name if below[:1].isspace() else ""


def _numpy(lines: list[str], number: int, free: bool) -> str | None:
    """Find an underlined heading."""
    name = lines[number].strip().lower()
    below = next(iter(lines[number + 1 : number + 2]), "")
    if not free or not name or not _UNDERLINE.match(below):
        return None
    return name if name in _UNDERLINED else ""


def _sphinx(lines: list[str], number: int, free: bool) -> str | None:
    """Find a field; to it belongs what is indented under it or follows at once."""
    line = lines[number]
    field = _FIELD.match(line) if free else None
    if field:
        return field["name"]
    ends = line and not line[0].isspace() and number and not lines[number - 1].strip()
    return "" if ends else None


STYLES: dict[str, _Heading] = {"google": _google, "numpy": _numpy, "sphinx": _sphinx}
