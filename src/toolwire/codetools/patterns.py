"""Glob patterns: `*`, `?`, `**`, `[...]`, `{a,b}`, read into one linear regular expression.

Rules of this file:
- `*` and `?` are anything but `/`; `**` as a whole name is any number of folders; names that begin with a dot
  are names like all others.
- `{a,b}` is never written out, so that thirty of them inside each other cost no more than their letters.
- The engine behind it never goes back: the time is that of the text.
- No `.` is written into a regular expression. jsonschema-rs from 0.61 on reads patterns as ECMAScript does, where
  `.` never matches the end of a line, whatever `(?s:` says; file names may contain one.
"""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from toolwire.codetools.spelling import meant
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
_SPELLED = re.compile(r"(?:\\x[0-9a-f]{2})+")
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
    """A piece of a pattern: a character, or what stands for something, with its regular expression."""

    kind: str
    text: str


def engine(regex: str) -> Test:
    """Give the test of a regular expression by the linear engine; ValueError if it has none."""
    from jsonschema_rs import Draft202012Validator, ValidationError  # noqa: PLC0415 - loaded when first used

    try:
        return Draft202012Validator({"pattern": regex}, pattern_options=linear_engine()).is_valid
    except ValidationError:
        raise ValueError(regex) from None


def whole(body: str) -> Test:
    """Give the test of a whole path, by the body of its regular expression."""
    test = engine(rf"\A(?:{body})\z")
    return lambda path: test(path if path.isascii() else path.translate(_BYTES))


def glob_test(pattern: str) -> Test:
    """Read a pattern of the model's, for paths that are relative to one folder."""
    written = pattern
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    if not pattern or "\0" in pattern or len(pattern) > MAX_PATTERN:
        raise ToolError(f"a pattern has at least one character, at most {MAX_PATTERN}, and no NUL")
    if pattern.startswith("/") or _UP.search(pattern):
        raise ToolError(
            f"{_short(written)}: a pattern stays inside its folder: write it without a / at its beginning and "
            "without .., and give another folder as path"
        )
    try:
        return whole(translated(pattern))
    except ValueError:
        raise ToolError(f"{_short(written)}: the pattern is too large; write a shorter one") from None


def name_test(pattern: str) -> Test:
    """Read a pattern for names in any folder if it has no `/`; with `!` it says what is left out."""
    body = pattern.removeprefix("!")
    test = glob_test(body if "/" in body.rstrip("/") or not body else f"**/{body}")
    return test if body == pattern else lambda path: not test(path)


def _short(pattern: str) -> str:
    return ascii(pattern)[1:-1][:80]


def translated(pattern: str, *, braces: bool = True) -> str:
    """Give the regular expression of a pattern; ValueError if a bracket of `.gitignore`'s never ends."""
    tokens = list(_tokens(pattern, strict=not braces))
    if braces:
        _pair(tokens)
    made: list[str] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        before = tokens[index - 1] if index else None
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        index += 1
        if token.kind == "stars" and _is_edge(before, "open") and _is_edge(after, "close"):
            slash = after is not None and after.kind == "/"
            made.append(FOLDERS if slash else _ANYTHING)
            index += slash
        else:
            made.append(_piece(token))
    return "".join(made)


def _is_edge(token: _Token | None, brace: str) -> bool:
    return token is None or token.kind in ("/", "comma", brace)


def _piece(token: _Token) -> str:
    return token.text if token.kind == "regex" else _PIECES.get(token.kind) or escaped(token.text)


def escaped(text: str) -> str:
    """Give the regular expression of a plain text."""
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
        elif letter == "[" and (found := _CLASS.match(pattern, index)):
            yield _Token("regex", _class(found[1], found[2]))
            index = found.end()
        elif (letter == "[" or pattern[index:] == "\\") and strict:
            raise ValueError(pattern)
        elif letter == "\\" and index + 1 < len(pattern):
            found = _SPELLED.match(pattern, index) if not strict else None
            yield _Token("text", meant(found[0]) if found else pattern[index + 1])
            index = found.end() if found else index + 2
        else:
            yield _Token(_kind(letter, strict=strict), "[^/]" if letter == "?" else letter)
            index += 1


def _kind(letter: str, *, strict: bool) -> str:
    if letter == "?":
        return "regex"
    return letter if letter in ("/" if strict else "/{,}") else "text"


def _pair(tokens: list[_Token]) -> None:
    """Find the braces that belong together, and the commas between them; the others are letters."""
    opened: list[list[_Token]] = []
    for token in tokens:
        match token.kind:
            case "{":
                opened.append([token])
            case "," if opened:
                opened[-1].append(token)
            case "}" if opened:
                first, *commas = opened.pop()
                first.kind, token.kind = "open", "close"
                for comma in commas:
                    comma.kind = "comma"


def _class(negation: str, inside: str) -> str:
    """Give the regular expression of `[...]`, which never fits a `/`."""
    ranges: list[tuple[int, int]] = []
    for name, low, high in _ITEM.findall(inside):
        if name:
            ranges += POSIX.get(name, ())
        elif not high:
            ranges.append((_code(low), _code(low)))
        else:
            ranges.append((_code(low), _code(high)))
    if negation:
        kept = [(47, 47), *((low, high) for low, high in ranges if low <= high)]
        return "[^" + "".join(map(_range, kept)) + "]"
    kept = [part for low, high in ranges for part in ((low, min(high, 46)), (max(low, 48), high))]
    return (
        "[" + "".join(_range(part) for part in kept if part[0] <= part[1]) + "]"
        if any(low <= high for low, high in kept)
        else _NEVER
    )


def _code(letter: str) -> int:
    return ord(letter[-1].translate(_BYTES))


def _range(part: tuple[int, int]) -> str:
    return rf"\x{{{part[0]:x}}}-\x{{{part[1]:x}}}"
