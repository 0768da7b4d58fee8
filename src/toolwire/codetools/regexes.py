r"""The model's regular expression for lines: ripgrep's syntax, matched by a linear engine of the same family.

Rules of this file:
- No pattern is passed to Python's `re`, whose time can be exponential.
- The engine reads `.`, `\d`, `\w` and classes like JavaScript. They are expanded to what they mean in ripgrep. A
  pattern that cannot be expanded is refused, never read differently.
- A pattern with many repetitions gets its text in small pieces, so that no call of the engine takes long.
"""

import re
from collections.abc import Iterator

from toolwire.codetools.patterns import POSIX, Test, compile_linear, escape_regex
from toolwire.errors import ToolError
from toolwire.schema.patterns import pattern_weight

_MAX_PATTERN = 10_000
PIECE = 1_000_000
_PIECE_WORK = 6_000_000
LONGEST = 16_000_000
_LONGEST_WORK = 250_000_000
_ANY = r"[^\n\r]"
_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}"
_EXPANSIONS = {
    "\\d": r"\p{Nd}",
    "\\D": r"\P{Nd}",
    "\\s": r"\p{White_Space}",
    "\\S": r"\P{White_Space}",
    "\\w": f"[{_WORD}]",
    "\\W": f"[^{_WORD}]",
}
_TEXT_EDGES = {"\\A": "^", "\\z": "$"}
_PLAIN = frozenset("/\"'!@%=:;,`")
_TOKEN = re.compile(
    r"\\(?:[pPxuU]\{[^}]*\}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[\s\S])"
    r"|\[:\^?\w+:\]|\(\?[imsUuxR-]+(?=[:)])|&&|--|~~|[\s\S]"
)
_BREAK = re.compile(r"\\(?:[nr]|x0[aAdD]|u000[aAdD]|U0000000[aAdD]|[xuU]\{0*[aAdD]\})")
_ONE_LINE = (
    "a pattern is matched against one line at a time, so it cannot contain a line break: search for one of the "
    "lines, with context"
)


def check_pattern(pattern: str, *, literal: bool) -> str:
    """Return a pattern without backslashes that mean nothing; raise `ToolError` if no search can use it."""
    if len(pattern) > _MAX_PATTERN:
        raise ToolError(f"a pattern has at most {_MAX_PATTERN} characters")
    if "\0" in pattern or any("\ud800" <= letter <= "\udfff" for letter in pattern):
        raise ToolError("the pattern has a character that no text contains (NUL, or half of a surrogate pair)")
    if "\n" in pattern or "\r" in pattern:
        raise ToolError(_ONE_LINE)
    if literal:
        return pattern
    return "".join(part if inside else _check_token(part) for part, inside in _tokens(pattern))


def _check_token(part: str) -> str:
    if _BREAK.fullmatch(part):
        raise ToolError(_ONE_LINE)
    if part.startswith("(?") and ("m" in part or "R" in part):
        raise ToolError(f"`{part}`: a pattern is matched against one line, so the flags m and R are not supported")
    if part in _TEXT_EDGES:
        return _TEXT_EDGES[part]
    return part[1] if len(part) == 2 and part[0] == "\\" and part[1] in _PLAIN else part


def _tokens(pattern: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a pattern, and whether each is in a class."""
    depth = 0
    at_start = False
    for match in _TOKEN.finditer(pattern):
        part = match[0]
        yield part, depth > 0
        if part == "[":
            depth += 1
            at_start = True
        elif part == "]" and depth and not at_start:
            depth -= 1
        elif part != "^" or not at_start:
            at_start = False


def has_edge(pattern: str) -> bool:
    """Return True if a pattern matches the beginning or the end of a line."""
    return any(part in ("^", "$") and not inside for part, inside in _tokens(pattern))


def to_linear_syntax(pattern: str) -> str:
    """Translate a pattern from ripgrep's syntax to that of the linear engine."""
    parts: list[str] = []
    for part, inside in _tokens(pattern):
        if part.startswith("(?") and not inside and ("x" in part or "u" in part):
            raise _unsupported(part)
        if inside and (part in ("[", "&&", "--", "~~", "\\W") or part.startswith("[:^")):
            raise _unsupported(part)
        if inside and part.startswith("[:"):
            parts.append(_posix_ranges(part))
        elif inside and part == "\\w":
            parts.append(_WORD)
        elif part == "." and not inside:
            parts.append(_ANY)
        else:
            parts.append(_EXPANSIONS.get(part, part))
    return "".join(parts)


def _posix_ranges(part: str) -> str:
    name = part[2:-2]
    ranges = (*POSIX["alnum"], (95, 95)) if name == "word" else POSIX.get(name)
    if ranges is None:
        raise _unsupported(part)
    return "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in ranges)


def _unsupported(part: str) -> ToolError:
    return ToolError(f"`{part}` is not supported here by the search without ripgrep: write the pattern differently")


class LinePattern:
    """A pattern that is matched against lines.

    `may_fit` returns True if one line of a block can match. `piece` is how much text it accepts at once, and
    `longest` how much of one line. As in ripgrep from 14 on, nothing in a pattern matches a CR, and a CR has line
    edges on both sides.
    """

    def __init__(self, pattern: str, *, literal: bool, ignore_case: bool) -> None:
        body = escape_regex(pattern) if literal else to_linear_syntax(pattern)
        flag = "(?i)" if ignore_case else ""
        cost = 1 if literal else max(pattern_weight(pattern), 1)
        try:
            self._matches: Test = compile_linear(f"{flag}{body}")
            self.may_match: Test = compile_linear(f"{flag}(?mR){body}")
        except ValueError:
            raise ToolError(
                "the pattern is not a regular expression in Rust syntax, or too large: "
                f"{ascii(pattern)[1:-1][:200]}. There is no look-around and no back-reference; "
                "for plain text, set literal."
            ) from None
        self.piece: int = min(PIECE, max(_PIECE_WORK // cost, 2000))
        self.longest: int = min(LONGEST, _LONGEST_WORK // cost)

    def matches(self, line: str) -> bool:
        """Return True if a line, or a part of it between two CRs, matches."""
        return any(map(self._matches, line.split("\r")))
