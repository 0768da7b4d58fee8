"""Masking of a provider's configured secrets in everything that the provider answers.

Rules of this file:
- The key is a secret from 20 characters on. A shorter one, such as `EMPTY`, may be a word of an answer. In an error it
  is a secret from 3 characters on.
- The value of a configured header or of a query parameter is a secret from 20 characters on. It is one from 8
  characters on if its name ends with a word such as `key`, `token`, `auth`, `secret` or `cookie`, or if it begins with
  `Bearer` or `Basic`. The values of headers that every server may know, such as `user-agent`, are not secrets.
- The password of the proxy is a secret from 8 characters on.
- A value with several parts (`Bearer TOKEN`, `Basic BASE64`, `a=b; c=d`) is a secret as a whole and in its parts.
- A secret is masked as it is and encoded (Base64, hex, of an URL, of JSON, of HTML, backwards), also if two pieces cut
  it. Characters that JSON escapes as `\u0041` are unescaped for the comparison.
- A stream is masked before it is decoded and after it is encoded. So a secret that a provider sends letter by letter is
  masked where the gateway joins the letters, as in `response.completed` and in a stored response. The single events
  still contain the single letters.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from toolwire.providers import Provider
from toolwire.providers.addressing import key_of
from toolwire.scrubbing import HIDDEN, LONG, Known
from toolwire.scrubbing.forms import fold, folded_offsets

_MASK = HIDDEN.encode()
_LEAST_SECRET = 20  # characters; what is shorter may be a word of an answer
_SECRET_NAME = re.compile(
    r"(?:^|[-_.])(?:[a-z]*key|[a-z]*token|auth|authorization|authentication|[a-z]*secret|pass|passwd|pwd|[a-z]*password"
    r"|passphrase|credentials?|cookie|session|signature|jwt)$",
    re.IGNORECASE,
)
_OPEN_NAMES = frozenset(
    "accept accept-encoding accept-language anthropic-beta anthropic-version api-version content-type http-referer"
    " openai-beta referer user-agent x-title".split()
)
_SCHEME = re.compile(r"(?:bearer|basic|token|digest) ", re.IGNORECASE)
_APART = re.compile(r"[\s;,]+")
_GRAM = 8
_MAX_LESSONS = 32  # times that a stream is looked at for what its pieces have in common
_ESCAPED = re.compile(rb"\\u00[2-7]")
_ESCAPE_BEGUN = re.compile(rb"\\(?:u00[2-7]|(?:u(?:0(?:0[2-7]?)?)?)?\Z)")
_SPELLED = 6  # bytes of a character that JSON spells


class ProviderSecrets:
    """The secrets of a provider, in each form in which an answer may repeat them."""

    __slots__ = (
        "_any",
        "_forms",
        "_in_errors",
        "_longest",
        "_loose",
        "_starts",
        "_window",
        "have_quotes",
        "search",
        "texts",
    )

    def __init__(self, texts: Iterable[str], short_key: str = "") -> None:
        self.texts: tuple[str, ...] = tuple(dict.fromkeys(filter(None, texts)))
        known = Known(self.texts)
        self._forms = [form.encode() for form in known.forms]
        self._loose = [*known.loose_forms, *map(fold, self.texts)]
        self._any = _one_of(self._forms)
        self.search: Callable[..., Any] = _one_of({_rare_gram(form) for form in self._forms}, rb"\\u00[2-7]").search
        self._starts = _one_of({form[:1] for form in self._forms})
        self._in_errors = _one_of([form.encode() for form in Known([*self.texts, short_key]).forms])
        self.have_quotes: bool = any(b'"' in form for form in self._forms)
        self._longest = max(map(len, self._forms), default=0)
        self._window = _SPELLED * max(map(len, self.texts), default=0)

    def __or__(self, other: "ProviderSecrets") -> "ProviderSecrets":
        return self if other is self else ProviderSecrets([*self.texts, *other.texts])

    def mask(self, data: bytes) -> bytes:
        """Return an answer, or whole frames of one, with the secrets masked."""
        if not self._forms or self.search(data) is None:
            return data
        data = self._any.sub(_MASK, data)
        return self._mask_spelled(data) if _ESCAPED.search(data) is not None else data

    def mask_error(self, data: bytes) -> bytes:
        """Return an error with the secrets masked, also a short key, and however their characters are spelled."""
        return self._mask_spelled(self._in_errors.sub(_MASK, data))

    def _mask_spelled(self, data: bytes) -> bytes:
        """Mask secrets whose characters are escaped as in JSON, URLs or HTML, or that are in another case."""
        last = len(data)
        for start, end in sorted(self._spelled_spans(data), reverse=True):
            if end <= last:
                data, last = data[:start] + _MASK + data[end:], start
        return data

    def _spelled_spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return where `data` has secrets whose characters are escaped, or that are in another case."""
        text = data.decode("latin-1")  # a character for each byte
        folded = fold(text) if self._loose else ""
        present = [form for form in self._loose if form in folded]
        if not present:
            return []
        starts, ends = folded_offsets(text)
        matches = (match.span() for form in present for match in re.finditer(re.escape(form), folded))
        return [(starts[first], ends[end - 1]) for first, end in matches]

    def mask_text(self, text: str) -> str:
        """Return a text with the secrets masked."""
        return self.mask(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def are_in(self, text: str) -> bool:
        """Return True if a text holds one of the secrets."""
        return self.mask_text(text) != text

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what is complete of an answer, masked, and the end that may be the beginning of a secret."""
        cut = len(data) - self._partial_length(data)
        if cut < len(data):
            spans = [match.span() for match in self._any.finditer(data)]
            if _ESCAPED.search(data) is not None:
                spans += self._spelled_spans(data)
            for start, end in sorted(spans):
                if end > cut > start:
                    cut = len(data) - self._partial_length(data[end:])
        return self.mask(data[:cut]), data[cut:]

    def _partial_length(self, data: bytes) -> int:
        """Return how many bytes at the end of `data` may be the beginning of a secret."""
        if not self._forms or data.endswith(b"\n"):
            return 0
        tail = data[-self._longest + 1 :]
        ends = (tail[start.start() :] for start in self._starts.finditer(tail))
        length = next((len(end) for end in ends if self._begins(end)), 0)
        line = data[-self._window :].rpartition(b"\n")[2]
        escape = _ESCAPE_BEGUN.search(line)
        return length if escape is None else max(length, len(line) - max(0, escape.start() - self._longest))

    def _begins(self, end: bytes) -> bool:
        return any(len(form) > len(end) and form.startswith(end) for form in self._forms)


class MaskedStream:
    """Masks secrets in an answer that arrives in pieces, also if two pieces cut a secret.

    The pieces of a stream mostly begin and end alike. The common part of two clean pieces, up to a quote, is not
    searched again: no secret contains a quote. `_lessons` is the number of pieces that it still compares to find it.
    """

    __slots__ = ("_before", "_begin", "_end", "_lessons", "_pending", "_search", "_secrets")

    def __init__(self, secrets: ProviderSecrets) -> None:
        self._secrets, self._search = secrets, secrets.search
        self._pending = self._before = self._begin = self._end = b""
        self._lessons = 0 if secrets.have_quotes else _MAX_LESSONS

    def feed(self, piece: bytes) -> bytes:
        """Return what is complete by now, masked."""
        if self._pending or not piece.endswith(b"\n"):
            ready, self._pending = self._secrets.split(self._pending + piece)
            return ready
        first, last = len(self._begin), len(piece) - len(self._end)
        if 0 < first < last and piece.startswith(self._begin) and piece.endswith(self._end):
            if self._search(piece, first, last) is None:
                return piece
        elif self._lessons and self._search(piece) is None:
            self._learn(piece)
            return piece
        return self._secrets.mask(piece)

    def _learn(self, piece: bytes) -> None:
        """Note what a clean piece has in common with the one before, up to a quote."""
        before, self._before = self._before, piece
        self._lessons -= 1
        self._begin = piece[: piece.rfind(b'"', 0, _common(before, piece)) + 1]
        first = piece.find(b'"', len(piece) - _common(before[::-1], piece[::-1]))
        self._end = piece[first:] if first >= 0 else b""

    def close(self) -> bytes:
        """Return what waits at the end of the answer."""
        pending, self._pending = self._pending, b""
        return self._secrets.mask(pending)


def _common(first: bytes, second: bytes) -> int:
    """Return the length of the common beginning of two texts."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first.startswith(second[:middle]) else (low, middle - 1)
    return low


def secrets_of(provider: Provider, proxy: str = "") -> ProviderSecrets:
    """Return the secrets in the settings of a provider, and in the address of the proxy."""
    pairs = (*provider.headers.items(), *provider.query.items())
    return _secrets(key_of(provider), pairs, proxy)


@lru_cache(256)
def _secrets(key: str, pairs: tuple[tuple[str, str], ...], proxy: str) -> ProviderSecrets:
    texts = [key] if len(key) >= _LEAST_SECRET else []
    return ProviderSecrets([*texts, *_configured(dict(pairs)), *_of_proxy(proxy)], key)


def _configured(values: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in configured headers, or in a query."""
    for name, value in values.items():
        if name.lower() not in _OPEN_NAMES:
            shortest = LONG if _SECRET_NAME.search(name) or _SCHEME.match(value) else _LEAST_SECRET
            yield from (part for part in _parts(value) if len(part) >= shortest)


def _parts(value: str) -> Iterator[str]:
    yield value
    for word in _APART.split(value):
        yield word
        yield word.partition("=")[2]
        yield from _login(word)


def _login(word: str) -> Iterator[str]:
    """Yield the user and password that `Basic` encodes, and the password alone."""
    try:
        login = base64.b64decode(word, validate=True).decode("ascii")
    except ValueError:
        return
    if ":" in login and login.isprintable():
        yield login
        yield login.partition(":")[2]


def _of_proxy(proxy: str) -> Iterator[str]:
    """Yield the password in the address of a proxy, and the login that `Proxy-Authorization` encodes."""
    address = urlsplit(proxy)
    password = unquote(address.password or "")
    if len(password) >= LONG:
        yield password
    if password:
        yield f"{unquote(address.username or '')}:{password}"


def _one_of(words: Iterable[bytes], *patterns: bytes) -> re.Pattern[bytes]:
    """Return a pattern of some words and patterns, of which the first that fits is found; of none, of no text."""
    return re.compile(b"|".join([*map(re.escape, words), *patterns]) or rb"(?!)")


def _rare_gram(form: bytes) -> bytes:
    """Return a part of a form that begins with a byte that few answers have: a search for it is fast."""
    grams = [form[at : at + _GRAM] for at in range(max(1, len(form) - _GRAM + 1))]
    return min(grams, key=lambda gram: _commonness(gram[0]))


def _commonness(byte: int) -> int:
    letter = bytes([byte])
    return 0 if letter.isupper() else 1 if letter.isdigit() else 3 if letter.islower() else 2
