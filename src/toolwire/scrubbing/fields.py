"""The fields that are sensitive because of their names.

Rules of this file:
- Names are compared by their letters and digits: `api_key`, `api-key`, `apiKey` and `API_KEY` are the same name.
  Full-width letters, and letters of other scripts that look Latin, count as the Latin letter.
- A name matches at any depth. A path such as `a.*.token` matches the end of a path. `*` is one step, or a part of a
  name: `*_token`. A list index is a step, which a path may omit. A key with dots counts as several steps.
- A few names are sensitive without a declaration. Their values are hidden if they are texts or numbers.
"""

import re
import string
import unicodedata
from collections.abc import Collection
from functools import lru_cache

_LATIN_LOOKALIKES = str.maketrans(
    "АВЕКМНОРСТХУІЈЅаекмнорстхуіјѕԁһӏԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧονακριυτıɡ",
    "ABEKMHOPCTXYIJSaekmhopctxyijsdhlqwABEZHIKMNOPTYXovakpiutig",
)
# Characters that may look like ASCII letters: other scripts, full width, mathematical, superscript, encircled.
_LOOKALIKE = re.compile("[ªºıſɡʰ-ʸͰ-ԯᴬ-ᵪ⁰-ₜ℀-⅏Ⓐ-ⓩ！-～\U0001d400-\U0001d7ff]")  # noqa: RUF001 - that is the point
_SEPARATORS = dict.fromkeys(map(ord, string.punctuation + string.whitespace))
_SENSITIVE_NAMES = frozenset({"token", "pwd", "authorization", "proxyauthorization", "cookie", "setcookie"})
_SENSITIVE_ENDINGS = (
    *("password", "passwd", "passphrase", "secret", "apikey", "secretkey", "accesskey", "accountkey", "privatekey"),
    *("accesstoken", "refreshtoken", "authtoken", "bearertoken", "sessiontoken", "apitoken", "idtoken", "privatetoken"),
)
# Environment variables such as `VAULT_TOKEN` and `DB_PASS`.
_ENVIRONMENT_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_(TOKEN|PASS|PWD)")
HEADERS = frozenset({"authorization", "proxyauthorization", "cookie", "setcookie"})
# Every text with a built-in sensitive name contains one of these, followed by a sign. Names that end with another
# name of the list are left out.
_NAME_HINTS = tuple(
    name
    for name in sorted({*_SENSITIVE_NAMES, *_SENSITIVE_ENDINGS, "pass"})
    if not any(name != end and name.endswith(end) for end in {*_SENSITIVE_NAMES, *_SENSITIVE_ENDINGS})
)
_LOWER_AND_SIGNS = bytes(range(256)).lower().replace(b":", b"=")
_DELETED_BYTES = bytes(set(range(128)) - set(string.ascii_letters.encode() + string.digits.encode() + b"=:"))


PathStates = frozenset[tuple[int, int]]
NO_STATES: PathStates = frozenset()


def normalize_name(name: str) -> str:
    """Return the letters and digits of `name` in lower case, or `name` itself if it has none."""
    if name.isascii():
        return name.lower().translate(_SEPARATORS) or name
    latin = unicodedata.normalize("NFKC", name).translate(_LATIN_LOOKALIKES).casefold()
    return "".join(filter(str.isalnum, latin)) or name


def sensitive_name(spelling: str) -> str | None:
    """Return the built-in sensitive name that `spelling` matches, or None."""
    name = normalize_name(spelling)
    if name in _SENSITIVE_NAMES:
        return name
    if name.endswith(_SENSITIVE_ENDINGS):
        return next(end for end in _SENSITIVE_ENDINGS if name.endswith(end))
    variable = _ENVIRONMENT_VARIABLE.fullmatch(spelling)
    return variable[1].lower() if variable else None


class Fields:
    """The names and paths that were declared as sensitive."""

    def __init__(self, declared: Collection[str]) -> None:
        self.names: dict[str, str] = {}
        self.paths: list[tuple[list[re.Pattern[str]], str]] = []
        ends: list[str] = []
        for field in map(str, declared):
            steps = [step for step in field.split(".") if step]
            label = field.rpartition(".")[2].replace("*", "")
            if len(steps) > 1 or "*" in field:
                self.paths.append(([_pattern_of(step) for step in steps], label))
                ends.append(normalize_name(steps[-1].rpartition("*")[2]))
            else:
                self.names[normalize_name(field)] = label
        self.labels: frozenset[str] = frozenset({*self.names.values(), *(label for _, label in self.paths)}) - {""}
        hints = [*_NAME_HINTS, *self.names, *ends]
        self.blind: bool = any(not hint.isascii() or not hint.isalnum() or hint.isdigit() for hint in hints)
        self.hints: tuple[bytes, ...] = () if self.blind else tuple(hint.encode() + b"=" for hint in hints)

    def below(self, states: PathStates, key: str) -> tuple[str | None, PathStates]:
        """Return the label under which `key` is declared as sensitive, and the states of the paths after this step.

        The label is None for a key that is not sensitive.
        """
        full_name = normalize_name(key)
        if full_name in self.names:
            return self.names[full_name], NO_STATES
        if not self.paths and "." not in key:
            return None, NO_STATES
        declared = None
        for step in key.split(".") if "." in key else (key,):
            name = normalize_name(step)
            declared, states = self._step(states, name)
            declared = self.names.get(name) if declared is None else declared
        return declared, states

    def inside(self, states: PathStates, index: int) -> tuple[str | None, PathStates]:
        """Return the same for a list item. A path may omit the index."""
        if not self.paths:
            return None, NO_STATES
        declared, next_states = self._step(states, str(index))
        return declared, next_states | states

    def _step(self, states: PathStates, name: str) -> tuple[str | None, PathStates]:
        next_states, declared = set(), None
        for path, position in (*states, *((number, 0) for number in range(len(self.paths)))):
            steps, label = self.paths[path]
            if not steps[position].fullmatch(name):
                continue
            if position + 1 == len(steps):
                declared = label if declared is None else declared
            else:
                next_states.add((path, position + 1))
        return declared, frozenset(next_states)

    def may_occur_in(self, text: str) -> bool:
        """Return False if `text` certainly names no sensitive field. The check is fast."""
        has_markup = "--" in text or "<" in text
        if not (has_markup or ":" in text or "=" in text):
            return False
        if self.blind or "\\u" in text or (not text.isascii() and _LOOKALIKE.search(text)):
            return True
        letters = letters_of(text.encode("ascii", "ignore"))
        return any(hint in letters or (has_markup and hint[:-1] in letters) for hint in self.hints)


def letters_of(text: bytes) -> bytes:
    """Return the letters and digits of an ASCII text in lower case, and `=` for each sign before a value."""
    return text.translate(_LOWER_AND_SIGNS, _DELETED_BYTES)


@lru_cache(maxsize=256)
def declared_fields(*declared: str) -> Fields:
    """Return the `Fields` of these names and paths."""
    return Fields(declared)


def _pattern_of(step: str) -> re.Pattern[str]:
    """Return the pattern for one step of a path.

    Each piece between two `*` is searched for only once, so that matching takes linear time.
    """
    first, *others = (re.escape(normalize_name(piece)) for piece in step.split("*"))
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    return re.compile(first + middle + "".join(f".*{piece}" for piece in others[-1:]), re.DOTALL)
