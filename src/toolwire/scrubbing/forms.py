r"""Known secrets, the forms in which they reappear, and the mask that replaces them.

Rules of this file:
- A secret reappears unchanged, escaped, encoded or reversed. Each of these forms is searched for exactly.
- A long secret may also reappear in another case, broken by white space, or with escaped characters such as `%41`,
  `\u0041`, `\x41` or `&#65;`. For this, text and secret are folded to one spelling, so that each text is read only
  once.
- A mask is a fixed text, with a label if there is one. It never contains a part of the secret.
"""

import base64
import html
import json
import re
from collections.abc import Collection, Iterable, Iterator
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
UNREADABLE = "[hidden:unreadable]"
# A known secret of `LONG` characters is searched for everywhere, and one of `SHORTEST` where the caller names it.
LONG = 8
SHORTEST = 3
MASK = re.compile(r"\[hidden(?::[^\]\n]{0,40})?\]")
_NOT_IN_LABELS = re.compile(r"[^\w -]+")
# A secret of this length is recognized with any case, white space and escaping of its characters.
_MIN_LOOSE = 16
_ESCAPED_CHARACTER = re.compile(
    r"%[0-9A-Fa-f]{2}|(?<!\\)\\++(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})|&#(?:[0-9]{1,6}|[xX][0-9A-Fa-f]{1,5});"
)
_CHARACTER = re.compile(f"{_ESCAPED_CHARACTER.pattern}|.", re.DOTALL)
# The number of base32 characters that 0 to 4 bytes before a secret take up.
_BASE32_OFFSETS = (0, 2, 4, 5, 7)
_MAX_SECRETS = 1000
MAX_LEARNED, MAX_CHARACTERS = 256, 100_000


def mask(name: str = "") -> str:
    """Return the text that replaces a secret, with the label `name`.

    >>> from toolwire.scrubbing import mask
    >>> mask("api_key")
    '[hidden:api_key]'
    """
    name = _NOT_IN_LABELS.sub("", name)[:40].strip()
    return f"[hidden:{name}]" if name else HIDDEN


class _TooManySecrets(Exception):
    """There are more secrets than can be searched for."""


def forms_of(secrets: Collection[str]) -> list[str]:
    """Return all forms of `secrets`, the longest first. Secrets that are too short to be recognized are left out."""
    if isinstance(secrets, Known):
        return secrets.forms
    if len(secrets) > _MAX_SECRETS:
        raise _TooManySecrets(f"{len(secrets)} secrets; at most {_MAX_SECRETS} can be searched for")
    return _longest_first({form for secret in secrets for form in _forms(secret)})


def _longest_first(forms: set[str]) -> list[str]:
    return sorted(forms, key=lambda form: (-len(form), form))


def loose_forms_of(secrets: Collection[str]) -> list[str]:
    """Return the forms of `secrets` that are searched for in folded text, the longest first."""
    if isinstance(secrets, Known):
        return secrets.loose_forms
    return _longest_first({form for secret in secrets for form in _loose_forms(secret)})


def fold(text: str) -> str:
    """Return `text` without white space, in one case, and with its escaped characters decoded."""
    if "%" in text or "\\" in text or "&#" in text:
        text = _ESCAPED_CHARACTER.sub(_unescape, text)
    return "".join(text.split()).casefold()


def folded_offsets(text: str) -> tuple[list[int], list[int]]:
    """Return the start and end offsets in `text` of each character of the folded text."""
    starts: list[int] = []
    ends: list[int] = []
    for piece in _CHARACTER.finditer(text):
        character = (_unescape(piece) if piece.end() - piece.start() > 1 else piece[0]).casefold()
        if not character.isspace():
            starts += [piece.start()] * len(character)
            ends += [piece.end()] * len(character)
    return starts, ends


def _unescape(match: re.Match[str]) -> str:
    text = match[0].rstrip(";").lstrip("\\%&#uUxX")
    return chr(int(text, 10 if match[0][:2] == "&#" and match[0][2] not in "xX" else 16))


def _loose_forms(secret: str) -> Iterator[str]:
    compact = "".join(secret.split()).casefold()
    if len(compact) >= _MIN_LOOSE:
        yield from (compact, fold(secret))  # the secret itself may contain what looks like an escape
    if len(secret) < LONG:
        return
    data = secret.encode(errors="surrogatepass")
    for before, start in enumerate(_BASE32_OFFSETS):
        text = base64.b32encode(bytes(before) + data).decode()
        yield text[start : 8 * (before + len(data)) // 5].lower()


class Known(Collection[str]):
    """The secrets of a conversation: those that were configured, and those that were learned on the way.

    A learned secret is searched for if it has at least 8 characters. If there are too many, the oldest are forgotten.

    >>> from toolwire.scrubbing import Known, scrub
    >>> known = Known()
    >>> scrub({"pin": "four words and more"}, ["pin"], known)
    {'pin': '[hidden:pin]'}
    >>> scrub("I used four words and more.", secrets=known)
    'I used [hidden].'
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._initial = tuple(dict.fromkeys(filter(None, secrets)))
        self._learned: dict[str, list[str]] = {}
        self._characters = 0
        self._forms: list[str] | None = None
        self._loose: list[str] | None = None

    def learn(self, secrets: Iterable[str]) -> None:
        """Add `secrets` to the learned ones."""
        for secret in secrets:
            if len(secret) < LONG or secret in self._initial:
                continue
            known = self._learned.pop(secret, None)
            self._learned[secret] = list(_forms(secret)) if known is None else known
            if known is None:
                self._characters += len(secret)
                self._forms = self._loose = None
        while len(self._learned) > MAX_LEARNED or self._characters > MAX_CHARACTERS:
            oldest = next(iter(self._learned))
            del self._learned[oldest]
            self._characters -= len(oldest)
            self._forms = self._loose = None

    @property
    def forms(self) -> list[str]:
        """All forms of the secrets, the longest first."""
        if self._forms is None:
            learned = {form for forms in self._learned.values() for form in forms}
            self._forms = _longest_first({*forms_of(self._initial), *learned})
        return self._forms

    @property
    def loose_forms(self) -> list[str]:
        """The forms that are searched for in folded text, the longest first."""
        if self._loose is None:
            self._loose = _longest_first({form for secret in self for form in _loose_forms(secret)})
        return self._loose

    def __contains__(self, secret: object) -> bool:
        return secret in self._learned or secret in self._initial

    def __iter__(self) -> Iterator[str]:
        return iter((*self._initial, *self._learned))

    def __len__(self) -> int:
        return len(self._initial) + len(self._learned)


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
    yield from base64_forms(data)


def base64_forms(data: bytes) -> Iterator[str]:
    """Yield the base64 text of `data` for each of its possible offsets in a longer encoded text."""
    for before in range(3):
        # The characters at both ends depend on the neighbouring bytes.
        text = base64.b64encode(bytes(before) + data).decode()
        remainder = (before + len(data)) % 3
        inner = text[(0, 2, 3)[before] : len(text) - (0, 3, 2)[remainder]]
        yield from (inner, inner.replace("+", "-").replace("/", "_"))
