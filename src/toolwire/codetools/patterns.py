"""Glob patterns: `*`, `?`, `**`, `[...]` and `{a,b}`, translated into one regular expression of linear time.

Rules of this file:
- `*` and `?` match anything but `/`. `**` as a whole name matches any number of folders. Names that begin with a dot
  are names like all others.
- `{a,b}` is never expanded, so that thirty nested braces cost no more than their characters.
- The regular expression engine never backtracks: its time is linear in the text.
- No `.` is written into a regular expression. jsonschema-rs from 0.61 on reads patterns like ECMAScript, where `.`
  never matches the end of a line, not even with `(?s:`; file names may contain one.
"""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from toolwire.codetools.spelling import unescape_name
from toolwire.errors import ToolError
from toolwire.schema.patterns import linear_engine

Test = Callable[[str], bool]
MAX_PATTERN = 1000
_NEVER = r"[^\x{0}-\x{10FFFF}]"
_ANYTHING = r"[\x{0}-\x{10FFFF}]+"
FOLDERS = "(?:[^/]*/)*"
_STARS = re.compile(r"\*+")
_CLASS = re.compile(r"\[([!^]?)(\]?(?:\[:\w+:\]|\\[\s\S]|[^\]\\])*)\]", re.DOTALL)
_ITEM = re.compile(r"\[:(\w+):\]|(\\[\s\S]|[\s\S])(?:-(\\[\s\S]|[\s\S]))?", re.DOTALL)
_ESCAPED_BYTES = re.compile(r"(?:\\x[0-9a-f]{2})+")
_UP = re.compile(r"(?:^|[/{,])\.\.(?:$|[/},])")
_BYTES = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
POSIX = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}


_PIECES = {"stars": "[^/]*", "star": "[^/]*", "open": "(?:", "comma": "|", "close": ")"}


class _Token(Struct):
    """A piece of a pattern: a character, or a wildcard with its regular expression."""

    type: str
    text: str


def compile_linear(regex: str) -> Test:
    """Return the test of a regular expression in the linear engine; raise `ValueError` if it cannot be compiled."""
    from jsonschema_rs import Draft202012Validator, ValidationError  # noqa: PLC0415 - loaded when first used

    try:
        return Draft202012Validator({"pattern": regex}, pattern_options=linear_engine()).is_valid
    except ValidationError:
        raise ValueError(regex) from None


def match_whole(body: str) -> Test:
    """Return a test that matches a whole path against the regular expression `body`."""
    test = compile_linear(rf"\A(?:{body})\z")
    return lambda path: test(path if path.isascii() else path.translate(_BYTES))


def glob_test(pattern: str) -> Test:
    """Return the test of a model's pattern, for paths relative to one folder; raise `ToolError` if it is invalid."""
    original = pattern
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    if not pattern or "\0" in pattern or len(pattern) > MAX_PATTERN:
        raise ToolError(f"a pattern has from 1 to {MAX_PATTERN} characters, and no NUL")
    if pattern.startswith("/") or _UP.search(pattern):
        raise ToolError(
            f"{_short(original)}: a pattern stays inside its folder: write it without a / at its beginning and "
            "without .., and pass another folder as path"
        )
    try:
        return match_whole(to_regex(pattern))
    except ValueError:
        raise ToolError(f"{_short(original)}: the pattern is too large: write a shorter one") from None


def name_test(pattern: str) -> Test:
    """Return the test of a pattern. Without `/` it matches names in any folder; `!` at its beginning negates it."""
    body = pattern.removeprefix("!")
    test = glob_test(body if "/" in body.rstrip("/") or not body else f"**/{body}")
    return test if body == pattern else lambda path: not test(path)


def _short(pattern: str) -> str:
    return ascii(pattern)[1:-1][:80]


def to_regex(pattern: str, *, braces: bool = True) -> str:
    """Return the regular expression of a pattern.

    Without `braces` the pattern is of a `.gitignore`. Then raise `ValueError` if a bracket is not closed.
    """
    tokens = list(_tokens(pattern, strict=not braces))
    if braces:
        _pair_braces(tokens)
    parts: list[str] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        previous = tokens[index - 1] if index else None
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        index += 1
        if token.type == "stars" and _is_edge(previous, "open") and _is_edge(following, "close"):
            slash = following is not None and following.type == "/"
            parts.append(FOLDERS if slash else _ANYTHING)
            index += slash
        else:
            parts.append(_token_regex(token))
    return "".join(parts)


def _is_edge(token: _Token | None, brace: str) -> bool:
    return token is None or token.type in ("/", "comma", brace)


def _token_regex(token: _Token) -> str:
    return token.text if token.type == "regex" else _PIECES.get(token.type) or escape_regex(token.text)


def escape_regex(text: str) -> str:
    """Return the regular expression that matches `text` literally."""
    return "".join(
        rf"\x{{{ord(letter):x}}}" if letter.isascii() and not letter.isalnum() else letter
        for letter in text.translate(_BYTES)
    )


def _tokens(pattern: str, *, strict: bool) -> Iterator[_Token]:
    index = 0
    while index < len(pattern):
        letter = pattern[index]
        if stars := _STARS.match(pattern, index):
            yield _Token("stars" if len(stars[0]) > 1 else "star", stars[0])
            index = stars.end()
        elif letter == "[" and (match := _CLASS.match(pattern, index)):
            yield _Token("regex", _class_regex(match[1], match[2]))
            index = match.end()
        elif (letter == "[" or pattern[index:] == "\\") and strict:
            raise ValueError(pattern)
        elif letter == "\\" and index + 1 < len(pattern):
            match = _ESCAPED_BYTES.match(pattern, index) if not strict else None
            yield _Token("text", unescape_name(match[0]) if match else pattern[index + 1])
            index = match.end() if match else index + 2
        else:
            yield _Token(_token_type(letter, strict=strict), "[^/]" if letter == "?" else letter)
            index += 1


def _token_type(letter: str, *, strict: bool) -> str:
    if letter == "?":
        return "regex"
    return letter if letter in ("/" if strict else "/{,}") else "text"


def _pair_braces(tokens: list[_Token]) -> None:
    """Mark the braces that belong together, and the commas between them; others remain characters."""
    opened: list[list[_Token]] = []
    for token in tokens:
        match token.type:
            case "{":
                opened.append([token])
            case "," if opened:
                opened[-1].append(token)
            case "}" if opened:
                opening, *commas = opened.pop()
                opening.type, token.type = "open", "close"
                for comma in commas:
                    comma.type = "comma"


def _class_regex(negation: str, inside: str) -> str:
    """Return the regular expression of `[...]`, which never matches `/`."""
    ranges: list[tuple[int, int]] = []
    for name, low, high in _ITEM.findall(inside):
        if name:
            ranges += POSIX.get(name, ())
        elif not high:
            ranges.append((_code(low), _code(low)))
        else:
            ranges.append((_code(low), _code(high)))
    if negation:
        ranges_kept = [(47, 47), *((low, high) for low, high in ranges if low <= high)]
        return "[^" + "".join(map(_range_regex, ranges_kept)) + "]"
    ranges_kept = [part for low, high in ranges for part in ((low, min(high, 46)), (max(low, 48), high))]
    return (
        "[" + "".join(_range_regex(part) for part in ranges_kept if part[0] <= part[1]) + "]"
        if any(low <= high for low, high in ranges_kept)
        else _NEVER
    )


def _code(letter: str) -> int:
    return ord(letter[-1].translate(_BYTES))


def _range_regex(part: tuple[int, int]) -> str:
    return rf"\x{{{part[0]:x}}}-\x{{{part[1]:x}}}"
