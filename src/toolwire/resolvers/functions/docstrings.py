"""The parts of a docstring for a model: the prose, and the descriptions of the parameters and the result.

Rules of this file:
- Google, NumPy and Sphinx styles are recognized by their headings. The sections are parsed by griffelib.
- The prose is kept unchanged, with its examples and notes. Sections that are only for Python callers are removed:
  parameters (the schema has them), returns, yields, raises, warns and attributes.
- Without griffelib the prose is the same. Descriptions of parameters then cannot be read, and raise an error.
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
_OTHER_SECTIONS = ("returns", "yields", "receives", "raises", "exceptions", "warns", "methods")
_HEADINGS = frozenset(_PARAMETERS + _OTHER_SECTIONS)
_NUMPY_HEADINGS = frozenset({"parameters", "other parameters", "attributes", *_OTHER_SECTIONS})
_SPHINX_FIELD = re.compile(
    r":(?P<name>param|parameter|arg|argument|key|keyword|type|var|ivar|cvar|vartype|returns?|rtype|raises?"
    r"|except|exception|yields?|ytype)\b[^:\n]*:(?:\s|$)"
)
_PARAMETER_FIELDS = frozenset("param parameter arg argument key keyword var ivar cvar".split())
_GOOGLE_HEADING = re.compile(r"(?P<name>[A-Za-z][A-Za-z ]*):\s*$")
_NUMPY_UNDERLINE = re.compile(r"-{3,}\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")
_GENERATED = frozenset({"An enumeration."})


class Docstring(Struct, frozen=True):
    """The parts of a docstring. The names of parameters have no asterisks."""

    description: str | None = None
    parameters: dict[str, str] = {}
    returns: str | None = None


class _Line(Struct):
    """A line, and the section that it belongs to: empty for prose. `is_heading` marks the first line of a section."""

    text: str
    section: str = ""
    is_heading: bool = False


def read_docstring(text: str | None) -> Docstring:
    """Parse a docstring of any of the three styles. Raise `MissingExtra` if griffelib is needed."""
    dedented = _dedent(text or "")
    style, lines = max(
        ((style, _assign_sections(dedented.splitlines(), find_section)) for style, find_section in STYLES.items()),
        key=lambda candidate: _score(candidate[1]),
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
    section_text = "\n".join(_with_blank_lines([line for line in lines if line.section]))
    # griffelib recognizes a section only after other text.
    parsed = getattr(griffe, f"parse_{style}")(griffe.Docstring(f".\n\n{section_text}"), warnings=False)
    return Docstring(description, *_read_sections(parsed))


def _dedent(text: str) -> str:
    """Remove the indentation. The content of a heading on the first line stays indented below it."""
    first, _, below = inspect.cleandoc(text).partition("\n")
    heading = _GOOGLE_HEADING.match(first)
    if heading and heading["name"].lower() in _HEADINGS and not below[:1].isspace():
        below = textwrap.indent(below, "    ")
    return f"{first}\n{below}" if below else first


def _with_blank_lines(lines: list[_Line]) -> Iterator[str]:
    """Put a blank line above each heading and none below it, as griffelib requires."""
    after_heading = False
    for line in lines:
        if line.is_heading:
            yield ""
        if line.text.strip() or not after_heading:
            yield line.text
            after_heading = line.is_heading


def class_docstring(cls: type) -> Docstring:
    """Return the docstring that the class itself defines, without generated ones."""
    text = vars(cls).get("__doc__")
    is_generated = not isinstance(text, str) or text.startswith(f"{cls.__name__}(") or text in _GENERATED
    return Docstring() if is_generated else read_docstring(text)


def _score(lines: list[_Line]) -> tuple[int, int]:
    """Rate how well the lines fit a style: by the sections about parameters, then by all sections."""
    is_heading = [line.section for line in lines if line.is_heading]
    return sum(name in _PARAMETERS or name in _PARAMETER_FIELDS for name in is_heading), len(is_heading)


def _read_sections(sections: list[Any]) -> tuple[dict[str, str], str | None]:
    """Return the descriptions of the parameters and of the result."""
    parameters: dict[str, str] = {}
    returns: list[str] = []
    for section in sections:
        match section.kind.value:
            case "parameters" | "other parameters" | "attributes":
                for item in section.value:
                    parameters.setdefault(item.name.lstrip("*"), _clean_text(item.description))
            case "returns" | "yields":
                returns.extend(_clean_text(item.description) for item in section.value)
    return {name: description for name, description in parameters.items() if description}, "\n".join(
        filter(None, returns)
    ) or None


def _clean_text(text: str | None) -> str:
    return inspect.cleandoc(text).strip() if text else ""


def _assign_sections(lines: list[str], find_section: "_SectionFinder") -> list[_Line]:
    """Assign a section to each line. A fenced code block contains no headings."""
    result, section, in_code = [], "", False
    for number, line in enumerate(lines):
        fence = _FENCE.match(line) is not None
        new_section = find_section(lines, number, not in_code and not fence)
        section = section if new_section is None else new_section
        result.append(_Line(line, section, bool(new_section)))
        in_code ^= fence
    return result


# Returns the section that begins at a line: its name, "" for prose, or None if the current section continues.
_SectionFinder = Callable[[list[str], int, bool], str | None]


def _google_section(lines: list[str], number: int, outside_code: bool) -> str | None:
    """Recognize a heading with a colon and an indented line below it."""
    line = lines[number]
    if not line or line[0].isspace():
        return None
    heading = _GOOGLE_HEADING.match(line) if outside_code else None
    name = heading["name"].lower() if heading else ""
    below = next(filter(str.strip, lines[number + 1 :]), "") if name in _HEADINGS else ""
    return name if below[:1].isspace() else ""


def _numpy_section(lines: list[str], number: int, outside_code: bool) -> str | None:
    """Recognize an underlined heading."""
    name = lines[number].strip().lower()
    below = next(iter(lines[number + 1 : number + 2]), "")
    if not outside_code or not name or not _NUMPY_UNDERLINE.match(below):
        return None
    return name if name in _NUMPY_HEADINGS else ""


def _sphinx_section(lines: list[str], number: int, outside_code: bool) -> str | None:
    """Recognize a field. Indented lines below it, and lines that follow directly, belong to it."""
    line = lines[number]
    field = _SPHINX_FIELD.match(line) if outside_code else None
    if field:
        return field["name"]
    is_prose = line and not line[0].isspace() and number and not lines[number - 1].strip()
    return "" if is_prose else None


STYLES: dict[str, _SectionFinder] = {"google": _google_section, "numpy": _numpy_section, "sphinx": _sphinx_section}
