"""Which fields are sensitive by their names.

Rules of this file:
- Names are compared by their letters and digits: `api_key`, `api-key`, `apiKey` and `API_KEY` are one name.
  Full width letters, and letters of other scripts that look Latin, are read as what they look like.
- A name fits at any depth. A path, `a.*.token`, fits the end of a path; `*` is one step, or a part of a name:
  `*_token`. The index of a list is a step, which a path may leave out. A key with dots is as many steps.
- A few names are sensitive without being declared: what stands there is hidden if it is a text or a number.
"""

import re
import string
import unicodedata
from collections.abc import Collection
from functools import lru_cache

_LIKE = str.maketrans(
    "АВЕКМНОРСТХУІЈЅаекмнорстхуіјѕԁһӏԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧονακριυτıɡ",
    "ABEKMHOPCTXYIJSaekmhopctxyijsdhlqwABEZHIKMNOPTYXovakpiutig",
)
# Any of these may be read as an ASCII letter: other scripts, full width, mathematical, raised, encircled.
_ALIKE = re.compile("[ªºıſɡʰ-ʸͰ-ԯᴬ-ᵪ⁰-ₜ℀-⅏Ⓐ-ⓩ！-～\U0001d400-\U0001d7ff]")  # noqa: RUF001 - that is the point
_APART = dict.fromkeys(map(ord, string.punctuation + string.whitespace))
_EXACT = frozenset({"token", "pwd", "authorization", "proxyauthorization", "cookie", "setcookie"})
_ENDS = (
    *("password", "passwd", "passphrase", "secret", "apikey", "secretkey", "accesskey", "accountkey", "privatekey"),
    *("accesstoken", "refreshtoken", "authtoken", "bearertoken", "sessiontoken", "apitoken", "idtoken", "privatetoken"),
)
# What a variable of an environment is called: `VAULT_TOKEN`, `DB_PASS`.
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_(TOKEN|PASS|PWD)")
HEADERS = frozenset({"authorization", "proxyauthorization", "cookie", "setcookie"})
# One of these, and a sign, is in each text that names a usual field: the names that end with no other.
_ROOTS = tuple(
    name
    for name in sorted({*_EXACT, *_ENDS, "pass"})
    if not any(name != end and name.endswith(end) for end in {*_EXACT, *_ENDS})
)
_SIGNED = bytes.maketrans(b"=:", b"==")
_UNSIGNED = bytes(set(range(128)) - set(string.ascii_letters.encode() + string.digits.encode() + b"=:"))


States = frozenset[tuple[int, int]]
NOWHERE: States = frozenset()


def plain(name: str) -> str:
    """Give a name by its letters and digits alone; one that has none stays as it is."""
    if name.isascii():
        return name.lower().translate(_APART) or name
    shown = unicodedata.normalize("NFKC", name).translate(_LIKE).casefold()
    return "".join(filter(str.isalnum, shown)) or name


def usual(spelling: str) -> str | None:
    """Name what a name stands for that is sensitive without being declared."""
    name = plain(spelling)
    if name in _EXACT:
        return name
    if name.endswith(_ENDS):
        return next(end for end in _ENDS if name.endswith(end))
    found = _VARIABLE.fullmatch(spelling)
    return found[1].lower() if found else None


class Fields:
    """The names and paths that were declared sensitive."""

    def __init__(self, declared: Collection[str]) -> None:
        self.names: dict[str, str] = {}
        self.paths: list[tuple[list[re.Pattern[str]], str]] = []
        ends: list[str] = []
        for field in map(str, declared):
            steps = [step for step in field.split(".") if step]
            label = field.rpartition(".")[2].replace("*", "")
            if len(steps) > 1 or "*" in field:
                self.paths.append(([_pattern_of(step) for step in steps], label))
                ends.append(plain(steps[-1].rpartition("*")[2]))
            else:
                self.names[plain(field)] = label
        self.labels: frozenset[str] = frozenset({*self.names.values(), *(label for _, label in self.paths)}) - {""}
        hints = [*_ROOTS, *self.names, *ends]
        self.blind: bool = any(not hint.isascii() or not hint.isalnum() or hint.isdigit() for hint in hints)
        self.hints: tuple[bytes, ...] = () if self.blind else tuple(hint.encode() + b"=" for hint in hints)

    def below(self, states: States, key: str) -> tuple[str | None, States]:
        """Go one key down: the name under which it is declared sensitive, and how far paths are fulfilled."""
        whole = plain(key)
        if whole in self.names:
            return self.names[whole], NOWHERE
        if not self.paths and "." not in key:
            return None, NOWHERE
        declared = None
        for step in key.split(".") if "." in key else (key,):
            name = plain(step)
            declared, states = self._step(states, name)
            declared = self.names.get(name) if declared is None else declared
        return declared, states

    def inside(self, states: States, index: int) -> tuple[str | None, States]:
        """Go into a list; a path may leave the index out."""
        if not self.paths:
            return None, NOWHERE
        declared, further = self._step(states, str(index))
        return declared, further | states

    def _step(self, states: States, name: str) -> tuple[str | None, States]:
        further, declared = set(), None
        for path, place in (*states, *((number, 0) for number in range(len(self.paths)))):
            steps, label = self.paths[path]
            if not steps[place].fullmatch(name):
                continue
            if place + 1 == len(steps):
                declared = label if declared is None else declared
            else:
                further.add((path, place + 1))
        return declared, frozenset(further)

    def hinted(self, text: str) -> bool:
        """Whether a text may name a sensitive field at all: quickly, and never wrongly no."""
        marked = "--" in text or "<" in text
        if not (marked or ":" in text or "=" in text):
            return False
        if self.blind or "\\u" in text or (not text.isascii() and _ALIKE.search(text)):
            return True
        letters = text.encode("ascii", "ignore").lower().translate(_SIGNED, _UNSIGNED)
        return any(hint in letters or (marked and hint[:-1] in letters) for hint in self.hints)


@lru_cache(maxsize=256)
def declared_as(*declared: str) -> Fields:
    """Give the fields of these names and paths."""
    return Fields(declared)


def _pattern_of(step: str) -> re.Pattern[str]:
    """Make the pattern of one step of a path; what stands between two `*` is looked for once, so it is linear."""
    first, *others = (re.escape(plain(piece)) for piece in step.split("*"))
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    return re.compile(first + middle + "".join(f".*{piece}" for piece in others[-1:]), re.DOTALL)
