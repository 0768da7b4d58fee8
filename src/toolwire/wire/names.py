"""Tool names and call ids in the grammar of each target: reversible, free of collisions, the same every time.

Rules of this file:
- A name that is legal at the target stays as it is.
- One that is not gets each illegal character replaced by "_", and a suffix that says where and which:
  "srv/list" becomes "srv_list__tw3-2f". `restore` reads the suffix back, so no table has to be kept. An empty name is
  "no_name__tw".
- Only what is too long for its target is shortened with a hash; the mapping of the request (`Names.given`)
  reverses that.
- An id that nobody gave is made from its position; its form tells it from a given one, so that it is never
  sent back to a wire that gave none.
"""

import hashlib
import re
import zlib
from collections import deque
from functools import cached_property, lru_cache
from string import ascii_letters, digits, hexdigits

from msgspec import Struct

from toolwire.errors import InvalidField

_SUFFIX = re.compile(r"__tw(|[0-9]{1,4}-[0-9a-f]{1,6}(?:_[0-9]{1,4}-[0-9a-f]{1,6})*)$")
_MADE = re.compile(r"(?:toolwire|gemini)_[0-9]+(?:_[0-9]+)?")
_PREFIXES = ("toolwire_", "gemini_")
_DIGEST = 8
_NAMELESS = "no_name__tw"
"""What an empty name is written as: a call of no tool."""
_GRAMMAR = re.compile(r"\^?\[(?P<legal>[^\[\]^]+)\]\{(?:(?P<least>\d{1,4}),)?(?P<limit>\d{1,4})\}\$?")


class Grammar:
    """Which names a target takes.

    `legal` and `first` are character classes; a name has `least` to `limit` characters; `distinct` ids are
    used once, up to the number that `shorten` can tell apart (`room`).
    """

    def __init__(self, legal: str, limit: int, first: str = "", *, least: int = 1, distinct: bool = False) -> None:
        self.legal = legal
        self.limit = limit
        self.first: str = first or legal
        self.least = least
        self.distinct = distinct
        self.room: int = 16 ** min(limit, _DIGEST)
        self._takes_identifiers = least == 1 and self.illegal.search(f"_{ascii_letters}{digits}") is None

    def takes(self, name: str) -> bool:
        """Tell whether a name is legal as it stands; most grammars take every ASCII identifier."""
        if self._takes_identifiers and len(name) <= self.limit and name.isascii() and name.isidentifier():
            return True
        return self._whole.fullmatch(name) is not None

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        lengths = f"{{{self.least - 1},{self.limit - 1}}}"
        return re.compile(rf"[{self.first}][{self.legal}]{lengths}", re.ASCII)

    @cached_property
    def illegal(self) -> re.Pattern[str]:
        """Find each character that is not."""
        return re.compile(rf"^[^{self.first}]|[^{self.legal}]", re.ASCII)


@lru_cache(maxsize=64)
def read_grammar(text: str) -> Grammar:
    """Read which ids a server takes from text such as `[a-zA-Z0-9]{9}` or `[a-z0-9_-]{1,40}`; none comes twice."""
    said = _GRAMMAR.fullmatch(text)
    limit, least = (int(said["limit"]), int(said["least"] or said["limit"])) if said else (0, 1)
    try:
        grammar = Grammar(said["legal"] if said else "-", limit, least=least, distinct=True)
        if 0 < least <= limit and grammar.illegal.search(hexdigits.lower()) is None:  # what made ids are of
            return grammar
    except re.error:
        pass
    raise InvalidField("id_grammar", f"must look like [a-zA-Z0-9]{{9}} or [a-z0-9_-]{{1,40}}, not {text!r}")


WORDS = "A-Za-z0-9_-"


def escape(name: str, grammar: Grammar) -> str:
    """Write a name in a target's grammar."""
    if ("__tw" not in name or _SUFFIX.search(name) is None) and grammar.takes(name):
        return name
    if not name and grammar.takes(_NAMELESS):
        return _NAMELESS
    illegal = grammar.illegal
    swaps = [f"{match.start()}-{ord(match.group()):x}" for match in illegal.finditer(name)]
    written = f"{illegal.sub('_', name)}__tw{'_'.join(swaps)}"
    return written if name and grammar.takes(written) else shorten(name, grammar)


def restore(written: str, grammar: Grammar | None) -> str:
    """Read back what `escape` wrote; anything else is a name of its own."""
    if "__tw" not in written or grammar is None:
        return written
    if written == _NAMELESS:
        return ""
    match = _SUFFIX.search(written)
    if match is None:
        return written
    letters = list(written[: match.start()])
    for swap in match.group(1).split("_") if match.group(1) else ():
        place, code = swap.split("-")
        if int(place) >= len(letters) or int(code, 16) > 0x10FFFF:
            return written
        letters[int(place)] = chr(int(code, 16))
    name = "".join(letters)
    return name if escape(name, grammar) == written else written


def shorten(name: str, grammar: Grammar, turn: int = 0) -> str:
    """Cut a name to its target's length, with a digest of the whole that keeps it apart from others."""
    digest = hashlib.sha256(f"{name}\0{turn}".encode(errors="surrogatepass")).hexdigest()
    illegal = grammar.illegal
    if illegal.search("x_") or grammar.limit <= _DIGEST:
        return digest[: grammar.limit]
    return f"{illegal.sub('_', name)[: grammar.limit - _DIGEST - 1]}_{digest[:_DIGEST]}"


def made_id(*places: int) -> str:
    """Make the id of a call that came without one, from where it stands."""
    return f"toolwire_{'_'.join(map(str, places))}"


def was_made(call_id: str | None) -> bool:
    """Whether an id was made here rather than given by a wire."""
    if call_id is None:
        return True
    return call_id.startswith(_PREFIXES) and _MADE.fullmatch(call_id) is not None


def next_id(made: str) -> str:
    """Give the id that comes after one that was made."""
    stem, _, number = made.rpartition("_")
    return f"{stem}_{int(number) + 1}"


def number_of(text: object) -> int:
    """Derive a number from a response's id, so that ids made from it differ from turn to turn."""
    return zlib.crc32(text.encode(errors="surrogatepass")) if isinstance(text, str) else 0


def fingerprint(value: object) -> str:
    """Derive an id from a whole value, for a wire that wants one where there is none."""
    try:
        text = value.in_full() if hasattr(value, "in_full") else repr(value)
    except RecursionError:
        text = "nested too deeply"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]


class Names(Struct):
    """The tool names of one request at its target."""

    grammar: Grammar | None
    given: dict[str, str] = {}
    taken: dict[str, str] = {}

    def keep(self, name: str) -> str:
        """Use a name as it stands: it was read from this wire."""
        self.given[name] = name
        self.taken[name] = name
        return name

    def choose(self, name: str, *, own: bool) -> str:
        """Give the name of a chosen tool: as it was declared, as it came, or as the target takes it."""
        return self.given.get(name, name) if own else self.write(name)

    def write(self, name: str) -> str:
        """Give a name at the target; the same name always gets the same one."""
        if (written := self.given.get(name)) is not None:
            return written
        grammar, turn = self.grammar, 0
        written = name if grammar is None else escape(name, grammar)
        while self.taken.setdefault(written, name) != name:
            turn += 1
            written = shorten(name, grammar, turn)  # type: ignore[arg-type]
        self.given[name] = written
        return written


class Ids(Struct):
    """The call ids of one conversation at its target; a result gets the id of the call that it answers.

    Ids that were read from the target's wire stay as they are, unless it was asked that `every` one fits.
    """

    grammar: Grammar | None
    every: bool = False
    taken: set[str] = set()
    _open: dict[str | None, str | deque[str]] = {}
    _turns: dict[str, int] = {}
    _count: int = 0

    def call(self, call_id: str | None, *, own: bool = False) -> str:
        """Give the id of a call at the target."""
        self._count += 1
        written = made_id(self._count) if call_id is None else call_id
        if self.grammar is not None and (self.every or not own):
            written = self._write(written, self.grammar)
        self.taken.add(written)
        waiting = self._open.get(call_id)
        if waiting is None:
            self._open[call_id] = written
        elif isinstance(waiting, str):
            self._open[call_id] = deque((waiting, written))
        else:
            waiting.append(written)
        return written

    def _write(self, call_id: str, grammar: Grammar) -> str:
        if "__tw" not in call_id and call_id not in self.taken and grammar.takes(call_id):
            return call_id
        written = escape(call_id, grammar)
        if not grammar.distinct or written not in self.taken:
            return written
        turn = self._turns.get(call_id, 0)  # the turns before it were taken, and still are
        while written in self.taken and len(self.taken) < grammar.room:
            turn += 1
            written = shorten(call_id, grammar, turn)
        self._turns[call_id] = turn
        return written

    def result(self, call_id: str | None, *, own: bool = False) -> str | None:
        """Give the id that a result refers to."""
        waiting = self._open.get(call_id)
        if isinstance(waiting, str):
            del self._open[call_id]
            return waiting
        if waiting:
            return waiting.popleft()
        if call_id is None or self.grammar is None or (own and not self.every):
            return call_id
        return escape(call_id, self.grammar)
