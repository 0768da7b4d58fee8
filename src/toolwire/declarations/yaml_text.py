"""YAML, read with the place of each value, by the events of PyYAML: nothing of a file is ever constructed.

Rules of this file:
- The words of YAML 1.2 (core schema) count: `true`, `false`, `null` and numbers are special, and nothing
  else is. `no`, `on`, dates, `1_000` and `12:30` are texts.
- A number that YAML 1.1 reads as another one, or as a text, is refused (`010`, `1e3`); so are tags, merge
  keys, a second document, and numbers that JSON does not have.
"""

import re
from typing import Any

from toolwire.declarations.json_text import number_of
from toolwire.declarations.nodes import MAX_DIGITS, Builder
from toolwire.declarations.problems import START, TextPosition, brief
from toolwire.errors import MissingExtra

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
# A number as both versions read it, and as only 1.2 does, or each in its own way.
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|(?:[-+]?[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)


def read_yaml(text: str, build: Builder) -> None:
    """Read the text into the builder."""
    yaml = _load_yaml()
    strange = _UNPRINTABLE.search(text)
    if strange is not None:
        build.stop(_place_of(text, strange.start()), f"is not YAML: it has the character {strange.group()!a}")
    parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while parser.check_event():
            _take(parser.get_event(), build)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = TextPosition(mark.line + 1, mark.column + 1) if mark is not None else START
        reason = " ".join(filter(None, (getattr(problem, key, None) for key in ("problem", "context"))))
        build.stop(place, f"is not YAML: {reason or problem}")
    finally:
        parser.dispose()


def _load_yaml() -> Any:
    try:
        import yaml  # noqa: PLC0415 - an extra, and only YAML needs it
    except ImportError as problem:
        raise MissingExtra("PyYAML", "tools", "to read YAML; JSON needs nothing more") from problem
    return yaml


def _place_of(text: str, offset: int) -> TextPosition:
    starts = [match.end() for match in _BREAK.finditer(text, 0, offset)]
    return TextPosition(len(starts) + 1, offset - (starts[-1] if starts else 0) + 1)


def _take(event: Any, build: Builder) -> None:
    place = TextPosition(event.start_mark.line + 1, event.start_mark.column + 1)
    if getattr(event, "tag", None) is not None:
        build.report(place, f"has the tag {_spelled(event.tag)}; no tag is read: a text is written in quotes")
    match type(event).__name__:
        case "DocumentStartEvent":
            _begin_document(event, place, build)
        case "ScalarEvent":
            build.scalar(_value_of(event, place, build), place, event.anchor)
        case "AliasEvent":
            build.alias(event.anchor, place)
        case "SequenceStartEvent":
            build.begin([], place, event.anchor)
        case "MappingStartEvent":
            build.begin({}, place, event.anchor)
        case "SequenceEndEvent" | "MappingEndEvent":
            build.end()


def _begin_document(event: Any, place: TextPosition, build: Builder) -> None:
    if build.root is not None:
        build.stop(place, "has a second document; a file of declarations is one")
    if event.version is not None and tuple(event.version) != (1, 2):
        build.stop(place, f"says that it is YAML {'.'.join(map(str, event.version))}; it is read as YAML 1.2")


def _spelled(tag: str) -> str:
    return "!!" + tag.removeprefix("tag:yaml.org,2002:") if tag.startswith("tag:yaml.org,2002:") else tag


def _value_of(event: Any, place: TextPosition, build: Builder) -> Any:
    word: str = event.value
    if event.style or event.tag is not None:
        return word
    if word == "<<" and build.wants_key:
        build.report(place, "has the merge key <<, which YAML 1.2 does not know; write out what it merges")
    if word in _WORDS:
        return _WORDS[word]
    if _NUMBER.fullmatch(word):
        return number_of(word, place, build)
    if len(word) <= MAX_DIGITS and _HEXADECIMAL.fullmatch(word):
        return int(word, 16)
    if _DECIMAL.fullmatch(word) or _OCTAL.fullmatch(word):
        right = f'write {_both_ways(word)}, or "{word}" for a text' if len(word) <= MAX_DIGITS else "shorten it"
        build.report(place, f"{brief(word, 20)} is read differently by YAML 1.1 and 1.2; {right}")
        return 0
    if _NO_NUMBER.fullmatch(word):
        build.report(place, f"must be a number that JSON has, not {word}")
        return 0
    return word


def _both_ways(word: str) -> str:
    """Write a number so that YAML 1.1 and 1.2 read the same one."""
    if word.startswith("0o"):
        return str(int(word, 8))
    if word.lstrip("+-").isdigit():
        return str(int(word))
    written = repr(float(word))
    return written if "." in written else written.replace("e", ".0e")
