"""Readers for JSON and YAML that keep the position of each value. They never construct objects.

Rules of this file:
- A syntax error ends the reading, with its position and what is expected there.
- JSON is read as RFC 8259 defines it: no comments, no NaN, nothing after the value.
- YAML is read from the events of PyYAML, with the core schema of YAML 1.2: only `true`, `false`, `null` and numbers are
  special. `no`, `on`, dates, `1_000` and `12:30` are texts.
- A number that YAML 1.1 reads differently is rejected (`010`, `1e3`). So are tags, merge keys, a second document, and
  numbers that JSON does not have.
"""

import json
import re
from bisect import bisect_right
from pathlib import Path
from typing import Any, cast

from toolwire.declarations.nodes import MAX_BYTES, MAX_DIGITS, START, Builder, Node, Problems, TextPosition, shorten
from toolwire.errors import MissingExtra

_TOKEN = re.compile(
    r"""(?P<mark>[{}\[\],:])
    |   (?P<text>"(?:[^"\\\x00-\x1f]++|\\.)*+")
    |   (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.+-])
    |   (?P<other>"[^"\n]*|[\w.+-]+|[^ \t\r\n])""",
    re.ASCII | re.VERBOSE,
)
_JSON_WORDS = {"true": True, "false": False, "null": None}
_CLOSING = {"{": "}", "[": "]"}
_EXPECTED_NEXT = {
    "value": "a value",
    "first": 'a value or "]"',
    "key": 'a key in "quotes"',
    "first key": 'a key in "quotes" or "}"',
    "colon": '":"',
    "next": '"," or the end',
    "nothing": "the end of the file",
}
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_YAML_WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
# Numbers that YAML 1.1 and 1.2 read alike, and those that only 1.2 reads, or that they read differently.
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|(?:[-+]?[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)


def read_file(path: Path, problems: Problems) -> bytes:
    """Return the content of a file, up to the maximum size."""
    try:
        with path.open("rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except OSError as problem:
        problems.stop(START, "", f"cannot be read: {problem.strerror or problem}", problem)


def read_tree(data: str | bytes, problems: Problems, expected: str) -> Node:
    """Parse YAML or JSON, depending on the ending of the file name.

    `expected` describes the content for errors. Raises `DeclarationError` with all problems.
    """
    read = {".json": _read_json, ".yaml": _read_yaml, ".yml": _read_yaml}.get(Path(problems.name).suffix.lower())
    if read is None:
        problems.stop(START, "", "must end in .yaml, .yml or .json, which selects the format")
    build = Builder(problems)
    read(_decode(data, problems), build)
    if build.root is None and not problems.collected:
        problems.add(START, "", f"is empty; it must be {expected}")
    problems.raise_collected()
    return cast("Node", build.root)


def _decode(data: str | bytes, problems: Problems) -> str:
    """Return the text of a file, which must be UTF-8 and not too large."""
    if isinstance(data, str) and len(data) <= MAX_BYTES:
        data = data.encode("utf-8", "surrogatepass")
    if isinstance(data, str) or len(data) > MAX_BYTES:
        problems.stop(START, "", f"is too large: at most {MAX_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = data[: problem.start].decode("utf-8", "replace")
        position = TextPosition(before.count("\n") + 1, len(before) - before.rfind("\n"))
        problems.stop(position, "", f"must be UTF-8: the byte 0x{data[problem.start]:02x} is not")


def _read_json(text: str, build: Builder) -> None:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    closers: list[str] = []
    state = "value"

    def place_of(offset: int) -> TextPosition:
        line = bisect_right(starts, offset)
        return TextPosition(line, offset - starts[line - 1] + 1)

    for token in _TOKEN.finditer(text):
        lexeme, position = token.group(), place_of(token.start())
        match state, lexeme:
            case "value" | "first", "{" | "[":
                build.begin({} if lexeme == "{" else [], position)
                closers.append(_CLOSING[lexeme])
                state = "first key" if lexeme == "{" else "first"
                continue
            case "first" | "first key" | "next", "}" | "]" if closers[-1] == lexeme:
                build.end()
                closers.pop()
            case "next", ",":
                state = "key" if closers[-1] == "}" else "value"
                continue
            case "colon", ":":
                state = "value"
                continue
            case "key" | "first key", _ if token["text"]:
                build.scalar(_json_value(token, position, build), position)
                state = "colon"
                continue
            case "value" | "first", _ if not token["mark"]:
                build.scalar(_json_value(token, position, build), position)
            case _:
                build.stop(
                    position, f"is not JSON: expected {_EXPECTED_NEXT[state]} here, not {_describe_token(lexeme)}"
                )
        state = "next" if closers else "nothing"
    if state != "nothing":
        build.stop(place_of(len(text)), f"is not JSON: expected {_EXPECTED_NEXT[state]} here, but the file ends")


def _json_value(token: re.Match[str], position: TextPosition, build: Builder) -> Any:
    lexeme = token.group()
    if token["text"]:
        try:
            return json.loads(lexeme)
        except ValueError:
            build.stop(position, f"is not JSON: {_describe_token(lexeme)} has an escape that JSON does not have")
    if token["number"]:
        return _parse_number(lexeme, position, build)
    if lexeme in _JSON_WORDS:
        return _JSON_WORDS[lexeme]
    return build.stop(position, f"is not JSON: {_describe_token(lexeme)} is no value")


def _parse_number(word: str, position: TextPosition, build: Builder) -> int | float:
    """Parse a decimal number. Report one that does not fit into a double."""
    if len(word) <= MAX_DIGITS:
        value = float(word) if {".", "e", "E"} & set(word) else int(word)
        if abs(value) != float("inf"):
            return value
    build.report(position, f"has a number that is too large or too long: {_describe_token(word)}")
    return 0


def _describe_token(word: str) -> str:
    if word.startswith('"') and not word.endswith('"', 1):
        return "a text that does not end in its line"
    word = word if word.isprintable() else ascii(word)
    return word if len(word) <= 20 else f"{word[:20]}..."


def _read_yaml(text: str, build: Builder) -> None:
    try:
        import yaml  # noqa: PLC0415 - an extra, and only YAML needs it
    except ImportError as problem:
        raise MissingExtra("PyYAML", "tools", "to read YAML; JSON needs nothing more") from problem
    unprintable = _UNPRINTABLE.search(text)
    if unprintable is not None:
        starts = [0, *(match.end() for match in _LINE_BREAK.finditer(text, 0, unprintable.start()))]
        position = TextPosition(len(starts), unprintable.start() - starts[-1] + 1)
        build.stop(position, f"is not YAML: it has the character {unprintable.group()!a}")
    parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while parser.check_event():
            _add_event(parser.get_event(), build)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        position = TextPosition(mark.line + 1, mark.column + 1) if mark is not None else START
        reason = " ".join(filter(None, (getattr(problem, key, None) for key in ("problem", "context"))))
        build.stop(position, f"is not YAML: {reason or problem}")
    finally:
        parser.dispose()


def _add_event(event: Any, build: Builder) -> None:
    position = TextPosition(event.start_mark.line + 1, event.start_mark.column + 1)
    if getattr(event, "tag", None) is not None:
        tag = re.sub(r"^tag:yaml\.org,2002:", "!!", event.tag)
        build.report(position, f"has the tag {tag}; tags are not supported: write a text in quotes")
    match type(event).__name__:
        case "DocumentStartEvent" if build.root is not None:
            build.stop(position, "has a second document; a file of declarations has only one")
        case "DocumentStartEvent" if event.version is not None and tuple(event.version) != (1, 2):
            build.stop(position, f"declares YAML {'.'.join(map(str, event.version))}; only YAML 1.2 is supported")
        case "ScalarEvent":
            build.scalar(_yaml_value(event, position, build), position, event.anchor)
        case "AliasEvent":
            build.alias(event.anchor, position)
        case "SequenceStartEvent":
            build.begin([], position, event.anchor)
        case "MappingStartEvent":
            build.begin({}, position, event.anchor)
        case "SequenceEndEvent" | "MappingEndEvent":
            build.end()


def _yaml_value(event: Any, position: TextPosition, build: Builder) -> Any:
    word: str = event.value
    if event.style or event.tag is not None:
        return word
    if word == "<<" and build.wants_key:
        build.report(position, "has the merge key <<, which YAML 1.2 does not know; write out what it merges")
    if word in _YAML_WORDS:
        return _YAML_WORDS[word]
    if _NUMBER.fullmatch(word):
        return _parse_number(word, position, build)
    if len(word) <= MAX_DIGITS and _HEXADECIMAL.fullmatch(word):
        return int(word, 16)
    if _DECIMAL.fullmatch(word) or _OCTAL.fullmatch(word):
        advice = f'write {_portable_number(word)}, or "{word}" for a text' if len(word) <= MAX_DIGITS else "shorten it"
        build.report(position, f"{shorten(word, 20)} is read differently by YAML 1.1 and 1.2; {advice}")
        return 0
    if _INFINITE.fullmatch(word):
        build.report(position, f"must be a number that JSON has, not {word}")
        return 0
    return word


def _portable_number(word: str) -> str:
    """Write a number so that YAML 1.1 and 1.2 read the same value."""
    if word.startswith("0o"):
        return str(int(word, 8))
    if word.lstrip("+-").isdigit():
        return str(int(word))
    written = repr(float(word))
    return written if "." in written else written.replace("e", ".0e")
