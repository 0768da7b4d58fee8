r"""What is known as a secret, the forms in which it reappears, and the mask that stands in its place.

Rules of this file:
- A secret reappears as it is, escaped, encoded, or turned around: that is searched for exactly.
- One that is long reappears in other cases too, broken by white space, or character by character as `%41`, `\u0041`,
  `\x41` or `&#65;`: text and secret are folded to be compared, so that each text is read once, however it is written.
- A mask is a fixed text, with a name where there is one, and never a part of the secret.
"""

import base64
import html
import json
import re
from collections.abc import Collection, Iterable, Iterator
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
UNREADABLE = "[hidden:unreadable]"
# From here on a known secret is searched for everywhere; from the first on where it is named for a text.
LONG = 8
SHORTEST = 3
MASK = re.compile(r"\[hidden(?::[^\]\n]{0,40})?\]")
_UNFIT = re.compile(r"[^\w -]+")
# From here on a secret is known whatever its case, its white space and the spelling of its characters.
_LOOSE = 16
_SPELLED = re.compile(
    r"%[0-9A-Fa-f]{2}|(?<!\\)\\++(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})|&#(?:[0-9]{1,6}|[xX][0-9A-Fa-f]{1,5});"
)
_PIECE = re.compile(f"{_SPELLED.pattern}|.", re.DOTALL)
# What base32 says of the bytes before a secret, in characters, for as many bytes of them.
_BASE32_BEFORE = (0, 2, 4, 5, 7)
_MOST = 1000
MOST_LEARNT, MOST_CHARACTERS = 256, 100_000


def mask(name: str = "") -> str:
    """Give what stands for a secret of this name."""
    name = _UNFIT.sub("", name)[:40].strip()
    return f"[hidden:{name}]" if name else HIDDEN


class _TooMany(Exception):
    """More secrets than can be searched for."""


def forms_of(secrets: Collection[str]) -> list[str]:
    """List every form of the secrets, the longest first; what is too short to be told apart is left out."""
    if isinstance(secrets, Known):
        return secrets.forms
    if len(secrets) > _MOST:
        raise _TooMany(f"{len(secrets)} secrets; at most {_MOST} can be searched for")
    return _longest_first({form for secret in secrets for form in _forms(secret)})


def _longest_first(forms: set[str]) -> list[str]:
    return sorted(forms, key=lambda form: (-len(form), form))


def loose_forms_of(secrets: Collection[str]) -> list[str]:
    """List what is searched for in folded texts."""
    if isinstance(secrets, Known):
        return secrets.loose_forms
    return _longest_first({form for secret in secrets for form in _loose_forms(secret)})


def fold(text: str) -> str:
    """Give a text without white space and case, and its characters as they are, however they are spelled."""
    if "%" in text or "\\" in text or "&#" in text:
        text = _SPELLED.sub(_character, text)
    return "".join(text.split()).casefold()


def folded_places(text: str) -> tuple[list[int], list[int]]:
    """Say where each character of the folded text begins and ends in the text."""
    starts: list[int] = []
    ends: list[int] = []
    for piece in _PIECE.finditer(text):
        folded = (_character(piece) if piece.end() - piece.start() > 1 else piece[0]).casefold()
        if not folded.isspace():
            starts += [piece.start()] * len(folded)
            ends += [piece.end()] * len(folded)
    return starts, ends


def _character(spelled: re.Match[str]) -> str:
    text = spelled[0].rstrip(";").lstrip("\\%&#uUxX")
    return chr(int(text, 10 if spelled[0][:2] == "&#" and spelled[0][2] not in "xX" else 16))


def _loose_forms(secret: str) -> Iterator[str]:
    bare = "".join(secret.split()).casefold()
    if len(bare) >= _LOOSE:
        yield from (bare, fold(secret))  # the secret may itself have what looks spelled
    if len(secret) < LONG:
        return
    data = secret.encode(errors="surrogatepass")
    for before, start in enumerate(_BASE32_BEFORE):
        text = base64.b32encode(bytes(before) + data).decode()
        yield text[start : 8 * (before + len(data)) // 5].lower()


class Known(Collection[str]):
    """The secrets of a conversation: those that were given, and those that are learnt on the way.

    What is learnt is searched for from 8 characters on; of what is more than can be, the newest are known.
    """

    def __init__(self, given: Iterable[str] = ()) -> None:
        self._given = tuple(dict.fromkeys(filter(None, given)))
        self._learnt: dict[str, list[str]] = {}
        self._characters = 0
        self._forms: list[str] | None = None
        self._loose: list[str] | None = None

    def learn(self, secrets: Iterable[str]) -> None:
        """Take secrets in."""
        for secret in secrets:
            if len(secret) < LONG or secret in self._given:
                continue
            known = self._learnt.pop(secret, None)
            self._learnt[secret] = list(_forms(secret)) if known is None else known
            if known is None:
                self._characters += len(secret)
                self._forms = self._loose = None
        while len(self._learnt) > MOST_LEARNT or self._characters > MOST_CHARACTERS:
            oldest = next(iter(self._learnt))
            del self._learnt[oldest]
            self._characters -= len(oldest)
            self._forms = self._loose = None

    @property
    def forms(self) -> list[str]:
        """List every form of the secrets, the longest first."""
        if self._forms is None:
            learnt = {form for forms in self._learnt.values() for form in forms}
            self._forms = _longest_first({*forms_of(self._given), *learnt})
        return self._forms

    @property
    def loose_forms(self) -> list[str]:
        """List what is searched for in folded texts."""
        if self._loose is None:
            self._loose = _longest_first({form for secret in self for form in _loose_forms(secret)})
        return self._loose

    def __contains__(self, secret: object) -> bool:
        return secret in self._learnt or secret in self._given

    def __iter__(self) -> Iterator[str]:
        return iter((*self._given, *self._learnt))

    def __len__(self) -> int:
        return len(self._given) + len(self._learnt)


def _forms(secret: str) -> Iterator[str]:
    if len(secret) < SHORTEST:
        return
    yield from (
        secret,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    )
    if len(secret) < LONG:
        return
    data = secret.encode(errors="surrogatepass")
    slashed = json.dumps(secret)[1:-1].replace("/", "\\/")
    yield from (
        secret[::-1],
        data.hex(),
        data.hex().upper(),
        slashed,
        json.dumps(slashed)[1:-1],
        json.dumps(slashed)[1:-1].replace("/", "\\/"),
        json.dumps(json.dumps(secret))[3:-3],
        json.dumps(json.dumps(secret, ensure_ascii=False), ensure_ascii=False)[3:-3],
    )
    in_html, in_url = html.escape(secret), quote(data, safe="")
    in_decimal = in_html.replace("&#x27;", "&#39;")
    yield from (in_html, html.escape(secret, quote=False), in_decimal, in_decimal.replace("&quot;", "&#34;"))
    yield from (in_url, in_url.lower(), quote(data), quote_plus(data))
    yield from in_base64(data)


def in_base64(data: bytes) -> Iterator[str]:
    """Give what base64 says of some bytes, wherever they stand in what was encoded."""
    for before in range(3):
        # The characters at both ends depend on what stands beside the bytes.
        text = base64.b64encode(bytes(before) + data).decode()
        rest = (before + len(data)) % 3
        inner = text[(0, 2, 3)[before] : len(text) - (0, 3, 2)[rest]]
        yield from (inner, inner.replace("+", "-").replace("/", "_"))
