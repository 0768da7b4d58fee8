"""JSON and YAML, read with the place of each value: nothing of a file is ever constructed.

Rules of this file:
- What cannot be read ends the reading, at its place, with what would be right there.
- Of JSON, only what RFC 8259 calls so is read: no comments, no NaN, nothing after the value.
- YAML is read by the events of PyYAML, and the words of YAML 1.2 (core schema) count: `true`, `false`, `null`
  and numbers are special, and nothing else is. `no`, `on`, dates, `1_000` and `12:30` are texts.
- A number that YAML 1.1 reads as another one, or as a text, is refused (`010`, `1e3`); so are tags, merge
  keys, a second document, and numbers that JSON does not have.
"""

import json
import re
from bisect import bisect_right
from pathlib import Path
from typing import Any, cast

from toolwire.declarations.nodes import MAX_BYTES, MAX_DIGITS, START, Builder, Node, Problems, TextPosition, brief
from toolwire.errors import MissingExtra

_TOKEN = re.compile(
    r"""(?P<mark>[{}\[\],:])
    |   (?P<text>"(?:[^"\\\x00-\x1f]++|\\.)*+")
    |   (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.+-])
    |   (?P<other>"[^"\n]*|[\w.+-]+|[^ \t\r\n])""",
    re.ASCII | re.VERBOSE,
)
_JSON_WORDS = {"true": True, "false": False, "null": None}
_CLOSERS = {"{": "}", "[": "]"}
_WANTED = {
    "value": "a value",
    "first": 'a value or "]"',
    "key": 'a key in "quotes"',
    "first key": 'a key in "quotes" or "}"',
    "colon": '":"',
    "next": '"," or the end',
    "nothing": "the end of the file",
}
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_YAML_WORDS = {
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


def read_file(path: Path, problems: Problems) -> bytes:
    """Give what stands in a file, as far as it may be long."""
    try:
        with path.open("rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except OSError as problem:
        problems.stop(START, "", f"cannot be read: {problem.strerror or problem}", problem)


def read_tree(data: str | bytes, problems: Problems, whole: str) -> Node:
    """Read a text, YAML or JSON by the end of its name; all problems are raised. `whole` says what it must be."""
    read = {".json": _read_json, ".yaml": _read_yaml, ".yml": _read_yaml}.get(Path(problems.name).suffix.lower())
    if read is None:
        problems.stop(START, "", "must be called .yaml, .yml or .json, so that it is known how to read it")
    build = Builder(problems)
    read(_text_of(data, problems), build)
    if build.root is None and not problems.found:
        problems.add(START, "", f"is empty; it must be {whole}")
    problems.refuse()
    return cast("Node", build.root)


def _text_of(data: str | bytes, problems: Problems) -> str:
    """Give the text of a file: UTF-8, and not too large."""
    if isinstance(data, str) and len(data) <= MAX_BYTES:
        data = data.encode("utf-8", "surrogatepass")
    if isinstance(data, str) or len(data) > MAX_BYTES:
        problems.stop(START, "", f"is too large: at most {MAX_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = data[: problem.start].decode("utf-8", "replace")
        place = TextPosition(before.count("\n") + 1, len(before) - before.rfind("\n"))
        problems.stop(place, "", f"must be UTF-8: the byte 0x{data[problem.start]:02x} is not")


def _read_json(text: str, build: Builder) -> None:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    open_: list[str] = []
    turn = "value"

    def place_of(offset: int) -> TextPosition:
        line = bisect_right(starts, offset)
        return TextPosition(line, offset - starts[line - 1] + 1)

    for token in _TOKEN.finditer(text):
        word, place = token.group(), place_of(token.start())
        match turn, word:
            case "value" | "first", "{" | "[":
                build.begin({} if word == "{" else [], place)
                open_.append(_CLOSERS[word])
                turn = "first key" if word == "{" else "first"
                continue
            case "first" | "first key" | "next", "}" | "]" if open_[-1] == word:
                build.end()
                open_.pop()
            case "next", ",":
                turn = "key" if open_[-1] == "}" else "value"
                continue
            case "colon", ":":
                turn = "value"
                continue
            case "key" | "first key", _ if token["text"]:
                build.scalar(_json_value(token, place, build), place)
                turn = "colon"
                continue
            case "value" | "first", _ if not token["mark"]:
                build.scalar(_json_value(token, place, build), place)
            case _:
                build.stop(place, f"is not JSON: {_WANTED[turn]} must stand here, not {_named(word)}")
        turn = "next" if open_ else "nothing"
    if turn != "nothing":
        build.stop(place_of(len(text)), f"is not JSON: {_WANTED[turn]} must stand here, but the file ends")


def _json_value(token: re.Match[str], place: TextPosition, build: Builder) -> Any:
    word = token.group()
    if token["text"]:
        try:
            return json.loads(word)
        except ValueError:
            build.stop(place, f"is not JSON: {_named(word)} has an escape that JSON does not have")
    if token["number"]:
        return _number_of(word, place, build)
    if word in _JSON_WORDS:
        return _JSON_WORDS[word]
    return build.stop(place, f"is not JSON: {_named(word)} is no value")


def _number_of(word: str, place: TextPosition, build: Builder) -> int | float:
    """Read a number in decimals; one that no double holds is a problem."""
    if len(word) <= MAX_DIGITS:
        value = float(word) if {".", "e", "E"} & set(word) else int(word)
        if abs(value) != float("inf"):
            return value
    build.report(place, f"has a number that is too large or too long: {_named(word)}")
    return 0


def _named(word: str) -> str:
    if word.startswith('"') and not word.endswith('"', 1):
        return "a text that does not end in its line"
    word = word if word.isprintable() else ascii(word)
    return word if len(word) <= 20 else f"{word[:20]}..."


def _read_yaml(text: str, build: Builder) -> None:
    try:
        import yaml  # noqa: PLC0415 - an extra, and only YAML needs it
    except ImportError as problem:
        raise MissingExtra("PyYAML", "tools", "to read YAML; JSON needs nothing more") from problem
    strange = _UNPRINTABLE.search(text)
    if strange is not None:
        starts = [0, *(match.end() for match in _BREAK.finditer(text, 0, strange.start()))]
        place = TextPosition(len(starts), strange.start() - starts[-1] + 1)
        build.stop(place, f"is not YAML: it has the character {strange.group()!a}")
    parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while parser.check_event():
            _take_event(parser.get_event(), build)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = TextPosition(mark.line + 1, mark.column + 1) if mark is not None else START
        reason = " ".join(filter(None, (getattr(problem, key, None) for key in ("problem", "context"))))
        build.stop(place, f"is not YAML: {reason or problem}")
    finally:
        parser.dispose()


def _take_event(event: Any, build: Builder) -> None:
    place = TextPosition(event.start_mark.line + 1, event.start_mark.column + 1)
    if getattr(event, "tag", None) is not None:
        tag = re.sub(r"^tag:yaml\.org,2002:", "!!", event.tag)
        build.report(place, f"has the tag {tag}; no tag is read: a text is written in quotes")
    match type(event).__name__:
        case "DocumentStartEvent" if build.root is not None:
            build.stop(place, "has a second document; a file of declarations is one")
        case "DocumentStartEvent" if event.version is not None and tuple(event.version) != (1, 2):
            build.stop(place, f"says that it is YAML {'.'.join(map(str, event.version))}; it is read as YAML 1.2")
        case "ScalarEvent":
            build.scalar(_yaml_value(event, place, build), place, event.anchor)
        case "AliasEvent":
            build.alias(event.anchor, place)
        case "SequenceStartEvent":
            build.begin([], place, event.anchor)
        case "MappingStartEvent":
            build.begin({}, place, event.anchor)
        case "SequenceEndEvent" | "MappingEndEvent":
            build.end()


def _yaml_value(event: Any, place: TextPosition, build: Builder) -> Any:
    word: str = event.value
    if event.style or event.tag is not None:
        return word
    if word == "<<" and build.wants_key:
        build.report(place, "has the merge key <<, which YAML 1.2 does not know; write out what it merges")
    if word in _YAML_WORDS:
        return _YAML_WORDS[word]
    if _NUMBER.fullmatch(word):
        return _number_of(word, place, build)
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
