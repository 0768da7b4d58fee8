r"""A regular expression of the model's, for lines: the syntax of ripgrep, by a linear engine of its family.

Rules of this file:
- No pattern meets Python's `re`: it could take longer than anybody waits.
- The engine at hand reads `.`, `\d`, `\w` and classes as JavaScript does; they are written out, to mean what they
  mean in ripgrep. What cannot be written out is refused, never read in another way.
- A pattern that repeats much gets its text in small pieces, so that nothing else has to wait for long.
"""

import re
from collections.abc import Iterator

from toolwire.codetools.patterns import POSIX, Test, engine, escaped
from toolwire.errors import ToolError
from toolwire.schema.patterns import pattern_weight

_MAX_PATTERN = 10_000
PIECE = 1_000_000
_PIECE_WORK = 6_000_000
LONGEST = 16_000_000
_LONGEST_WORK = 250_000_000
_ANY = r"[^\n\r]"
_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}"
_WRITTEN = {
    "\\d": r"\p{Nd}",
    "\\D": r"\P{Nd}",
    "\\s": r"\p{White_Space}",
    "\\S": r"\P{White_Space}",
    "\\w": f"[{_WORD}]",
    "\\W": f"[^{_WORD}]",
}
_EDGES = {"\\A": "^", "\\z": "$"}
_PLAIN = frozenset("/\"'!@%=:;,`")
_TOKEN = re.compile(
    r"\\(?:[pPxuU]\{[^}]*\}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[\s\S])"
    r"|\[:\^?\w+:\]|\(\?[imsUuxR-]+(?=[:)])|&&|--|~~|[\s\S]"
)
_BREAK = re.compile(r"\\(?:[nr]|x0[aAdD]|u000[aAdD]|U0000000[aAdD]|[xuU]\{0*[aAdD]\})")
_ONE_LINE = (
    "a pattern is held against one line at a time, so that it has no line break: search for one of the "
    "lines, with context"
)


def checked(pattern: str, *, literal: bool) -> str:
    """Refuse what no search can use, and leave out backslashes that mean nothing outside of classes."""
    if len(pattern) > _MAX_PATTERN:
        raise ToolError(f"a pattern has at most {_MAX_PATTERN} characters")
    if "\0" in pattern or any("\ud800" <= letter <= "\udfff" for letter in pattern):
        raise ToolError("the pattern has a character that no text has")
    if "\n" in pattern or "\r" in pattern:
        raise ToolError(_ONE_LINE)
    if literal:
        return pattern
    return "".join(part if inside else _of_a_line(part) for part, inside in _tokens(pattern))


def _of_a_line(part: str) -> str:
    if _BREAK.fullmatch(part):
        raise ToolError(_ONE_LINE)
    if part.startswith("(?") and ("m" in part or "R" in part):
        raise ToolError(f"`{part}`: a pattern is held against one line, so that the flags m and R mean nothing")
    if part in _EDGES:
        return _EDGES[part]
    return part[1] if len(part) == 2 and part[0] == "\\" and part[1] in _PLAIN else part


def _tokens(pattern: str) -> Iterator[tuple[str, bool]]:
    """Give the pieces of a pattern, and whether each stands in a class."""
    depth = 0
    fresh = False
    for found in _TOKEN.finditer(pattern):
        part = found[0]
        yield part, depth > 0
        if part == "[":
            depth += 1
            fresh = True
        elif part == "]" and depth and not fresh:
            depth -= 1
        elif part != "^" or not fresh:
            fresh = False


def has_edge(pattern: str) -> bool:
    """Whether a pattern asks for the beginning or the end of a line."""
    return any(part in ("^", "$") and not inside for part, inside in _tokens(pattern))


def written(pattern: str) -> str:
    """Give a pattern of ripgrep's in the words of the engine at hand."""
    made: list[str] = []
    for part, inside in _tokens(pattern):
        if part.startswith("(?") and not inside and ("x" in part or "u" in part):
            raise _unsayable(part)
        if inside and (part in ("[", "&&", "--", "~~", "\\W") or part.startswith("[:^")):
            raise _unsayable(part)
        if inside and part.startswith("[:"):
            made.append(_posix(part))
        elif inside and part == "\\w":
            made.append(_WORD)
        elif part == "." and not inside:
            made.append(_ANY)
        else:
            made.append(_WRITTEN.get(part, part))
    return "".join(made)


def _posix(part: str) -> str:
    name = part[2:-2]
    ranges = (*POSIX["alnum"], (95, 95)) if name == "word" else POSIX.get(name)
    if ranges is None:
        raise _unsayable(part)
    return "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in ranges)


def _unsayable(part: str) -> ToolError:
    return ToolError(f"`{part}` in this place is not known to the search without ripgrep; write it in another way")


class LinePattern:
    """A pattern that lines are held against.

    `may_fit` says of whole lines together whether one of them can fit; `piece` is how much text it takes at
    once, and `longest` how much of one line. As in ripgrep from 14 on, nothing in a pattern stands for a CR, and
    beside one are edges.
    """

    def __init__(self, pattern: str, *, literal: bool, ignore_case: bool) -> None:
        body = escaped(pattern) if literal else written(pattern)
        flag = "(?i)" if ignore_case else ""
        heavy = 1 if literal else max(pattern_weight(pattern), 1)
        try:
            self._fits: Test = engine(f"{flag}{body}")
            self.may_fit: Test = engine(f"{flag}(?mR){body}")
        except ValueError:
            raise ToolError(
                "the pattern is not a regular expression in Rust syntax, or too large: "
                f"{ascii(pattern)[1:-1][:200]}. There is no look-around and no back-reference; "
                "for plain text, set literal."
            ) from None
        self.piece: int = min(PIECE, max(_PIECE_WORK // heavy, 2000))
        self.longest: int = min(LONGEST, _LONGEST_WORK // heavy)

    def fits(self, line: str) -> bool:
        """Whether a line fits, or a part of it between two CRs."""
        return any(map(self._fits, line.split("\r")))
