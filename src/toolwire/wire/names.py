"""Convert tool names and call ids to the grammar of each target: reversibly, without collisions, and deterministically.

Rules of this file:
- A name that is legal at the target is unchanged.
- In any other name, each illegal character is replaced by "_", and a suffix has the positions and the characters:
  "srv/list" becomes "srv_list__tw3-2f". `restore` reverses this without a table. An empty name becomes "no_name__tw".
- Only a name that is too long for its target is shortened with a hash. The mapping of the request (`Names.written`)
  reverses that.
- The id of a call without one is generated from its position. A generated id can be recognized, so that it is never
  sent back to a wire that sent no id.
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
_GENERATED_ID = re.compile(r"(?:toolwire|gemini)_[0-9]+(?:_[0-9]+)?")
_GENERATED_PREFIXES = ("toolwire_", "gemini_")
_DIGEST_LENGTH = 8
_EMPTY_NAME = "no_name__tw"
"""How an empty name is written."""
_GRAMMAR = re.compile(r"\^?\[(?P<legal>[^\[\]^]+)\]\{(?:(?P<least>\d{1,4}),)?(?P<limit>\d{1,4})\}\$?")


class Grammar:
    """The names or ids that a target accepts.

    - `legal`, `first`: the character classes of all characters and of the first one.
    - `least`, `limit`: the smallest and the largest length.
    - `distinct`: no id may be used twice.
    - `room`: how many different ids `shorten` can return.
    """

    def __init__(self, legal: str, limit: int, first: str = "", *, least: int = 1, distinct: bool = False) -> None:
        self.legal = legal
        self.limit = limit
        self.first: str = first or legal
        self.least = least
        self.distinct = distinct
        self.room: int = 16 ** min(limit, _DIGEST_LENGTH)
        self._accepts_identifiers = least == 1 and self.illegal.search(f"_{ascii_letters}{digits}") is None

    def accepts(self, name: str) -> bool:
        """Return True if `name` is legal. Most grammars accept every ASCII identifier, which is tested first."""
        if self._accepts_identifiers and len(name) <= self.limit and name.isascii() and name.isidentifier():
            return True
        return self._whole.fullmatch(name) is not None

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        lengths = f"{{{self.least - 1},{self.limit - 1}}}"
        return re.compile(rf"[{self.first}][{self.legal}]{lengths}", re.ASCII)

    @cached_property
    def illegal(self) -> re.Pattern[str]:
        """Return a pattern that matches each illegal character."""
        return re.compile(rf"^[^{self.first}]|[^{self.legal}]", re.ASCII)


@lru_cache(maxsize=64)
def read_grammar(text: str) -> Grammar:
    """Return the grammar of ids in text such as `[a-zA-Z0-9]{9}` or `[a-z0-9_-]{1,40}`. Its ids are distinct.

    Raise `InvalidField` for any other text.
    """
    match = _GRAMMAR.fullmatch(text)
    limit, least = (int(match["limit"]), int(match["least"] or match["limit"])) if match else (0, 1)
    try:
        grammar = Grammar(match["legal"] if match else "-", limit, least=least, distinct=True)
        if (
            0 < least <= limit and grammar.illegal.search(hexdigits.lower()) is None
        ):  # `shorten` returns hexadecimal digits
            return grammar
    except re.error:
        pass
    raise InvalidField("id_grammar", f"must look like [a-zA-Z0-9]{{9}} or [a-z0-9_-]{{1,40}}, not {text!r}")


WORD_CHARS = "A-Za-z0-9_-"


def escape(name: str, grammar: Grammar) -> str:
    """Return `name` in the grammar of a target."""
    if ("__tw" not in name or _SUFFIX.search(name) is None) and grammar.accepts(name):
        return name
    if not name and grammar.accepts(_EMPTY_NAME):
        return _EMPTY_NAME
    illegal = grammar.illegal
    replacements = [f"{match.start()}-{ord(match.group()):x}" for match in illegal.finditer(name)]
    written = f"{illegal.sub('_', name)}__tw{'_'.join(replacements)}"
    return written if name and grammar.accepts(written) else shorten(name, grammar)


def restore(written: str, grammar: Grammar | None) -> str:
    """Return the name that `escape` converted to `written`. Any other text is returned unchanged."""
    if "__tw" not in written or grammar is None:
        return written
    if written == _EMPTY_NAME:
        return ""
    match = _SUFFIX.search(written)
    if match is None:
        return written
    characters = list(written[: match.start()])
    for replacement in match.group(1).split("_") if match.group(1) else ():
        index, code = replacement.split("-")
        if int(index) >= len(characters) or int(code, 16) > 0x10FFFF:
            return written
        characters[int(index)] = chr(int(code, 16))
    name = "".join(characters)
    return name if escape(name, grammar) == written else written


def shorten(name: str, grammar: Grammar, attempt: int = 0) -> str:
    """Return `name` shortened to the length of its target, with a digest of the whole name and of `attempt`."""
    digest = hashlib.sha256(f"{name}\0{attempt}".encode(errors="surrogatepass")).hexdigest()
    illegal = grammar.illegal
    if illegal.search("x_") or grammar.limit <= _DIGEST_LENGTH:
        return digest[: grammar.limit]
    return f"{illegal.sub('_', name)[: grammar.limit - _DIGEST_LENGTH - 1]}_{digest[:_DIGEST_LENGTH]}"


def generate_call_id(*indices: int) -> str:
    """Return the id of a call that has none, from its indices in the conversation."""
    return f"toolwire_{'_'.join(map(str, indices))}"


def is_generated_id(call_id: str | None) -> bool:
    """Return True if toolwire generated `call_id`, or if it is None."""
    if call_id is None:
        return True
    return call_id.startswith(_GENERATED_PREFIXES) and _GENERATED_ID.fullmatch(call_id) is not None


def next_id(generated_id: str) -> str:
    """Return the generated id after `generated_id`."""
    stem, _, number = generated_id.rpartition("_")
    return f"{stem}_{int(number) + 1}"


def number_of(text: object) -> int:
    """Return a number for the id of a response, so that the ids generated for different responses differ."""
    return zlib.crc32(text.encode(errors="surrogatepass")) if isinstance(text, str) else 0


def fingerprint(value: object) -> str:
    """Return an id that is derived from `value`, for a wire that requires an id where there is none."""
    try:
        text = value.in_full() if hasattr(value, "in_full") else repr(value)
    except RecursionError:
        text = "nested too deeply"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]


class Names(Struct):
    """The tool names of one request at its target.

    - `written`: the names at the target, by name.
    - `originals`: the names, by name at the target.
    """

    grammar: Grammar | None
    written: dict[str, str] = {}
    originals: dict[str, str] = {}

    def keep(self, name: str) -> str:
        """Reserve and return `name` unchanged, because it was received from this wire."""
        self.written[name] = name
        self.originals[name] = name
        return name

    def choose(self, name: str, *, is_native: bool) -> str:
        """Return the name of a chosen tool at the target. If `is_native`, a name that was not declared is unchanged."""
        return self.written.get(name, name) if is_native else self.write(name)

    def write(self, name: str) -> str:
        """Return `name` at the target. The result for the same name is always the same."""
        if (result := self.written.get(name)) is not None:
            return result
        grammar, attempt = self.grammar, 0
        result = name if grammar is None else escape(name, grammar)
        while self.originals.setdefault(result, name) != name:
            attempt += 1
            result = shorten(name, grammar, attempt)  # type: ignore[arg-type]
        self.written[name] = result
        return result


class Ids(Struct):
    """The call ids of one conversation at its target. A result gets the id of the call that it answers.

    - `rewrites_all`: ids that were received from the target's wire are converted as well. By default they are
      unchanged.
    - `used`: the ids at the target so far.
    """

    grammar: Grammar | None
    rewrites_all: bool = False
    used: set[str] = set()
    _open_calls: dict[str | None, str | deque[str]] = {}
    _attempts: dict[str, int] = {}
    _count: int = 0

    def call(self, call_id: str | None, *, is_native: bool = False) -> str:
        """Return the id of a call at the target. `is_native` is True if it was received from the target's wire."""
        self._count += 1
        written = generate_call_id(self._count) if call_id is None else call_id
        if self.grammar is not None and (self.rewrites_all or not is_native):
            written = self._write(written, self.grammar)
        self.used.add(written)
        open_ids = self._open_calls.get(call_id)
        if open_ids is None:
            self._open_calls[call_id] = written
        elif isinstance(open_ids, str):
            self._open_calls[call_id] = deque((open_ids, written))
        else:
            open_ids.append(written)
        return written

    def _write(self, call_id: str, grammar: Grammar) -> str:
        if "__tw" not in call_id and call_id not in self.used and grammar.accepts(call_id):
            return call_id
        written = escape(call_id, grammar)
        if not grammar.distinct or written not in self.used:
            return written
        attempt = self._attempts.get(call_id, 0)  # the results of earlier attempts are still taken
        while written in self.used and len(self.used) < grammar.room:
            attempt += 1
            written = shorten(call_id, grammar, attempt)
        self._attempts[call_id] = attempt
        return written

    def result(self, call_id: str | None, *, is_native: bool = False) -> str | None:
        """Return the id at the target of the call that a result answers."""
        open_ids = self._open_calls.get(call_id)
        if isinstance(open_ids, str):
            del self._open_calls[call_id]
            return open_ids
        if open_ids:
            return open_ids.popleft()
        if call_id is None or self.grammar is None or (is_native and not self.rewrites_all):
            return call_id
        return escape(call_id, self.grammar)
