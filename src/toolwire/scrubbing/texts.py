"""Secrets in a text: where they stand, and the text without them.

Rules of this file:
- A text is hidden where it looks like a key, where it is a form of a known secret, and where it is the value
  of a sensitive name: `name=value`, `"name": "value"`, in URLs, environments, logs and broken JSON; `--name value`
  where it has a digit or quotes, `<name>value</name>`.
- A value that has no end is hidden to the end of the text.
- A key is more than a word: it is long, and where words could look like it, it has a digit.
- Every repetition is bounded, or cannot be read in two ways: the time is linear in the text.
"""

import re
from collections.abc import Iterator, Sequence

from toolwire.scrubbing.fields import HEADERS, NOWHERE, Fields, usual
from toolwire.scrubbing.forms import HIDDEN, MASK, fold, folded_places, mask

Span = tuple[int, int, str]

_NAMED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_LONGEST_NAME = 80
_SIGN = re.compile("=>|:=|[=:]")
# What comes before a value without a sign: the option of a command, the element of a document.
_MARKED = re.compile(
    r"(?<!\S)--([A-Za-z][\w-]{1,60})[ \t]{1,8}(?=[\"']|[^\s\"'0-9]{0,100}[0-9])"
    r"|<([A-Za-z][\w.:-]{0,60})>([^\s<]{1,1000})(?=</)"
)
# A name in brackets: `settings["token"] = ...`, `[token] => ...`.
_SUBSCRIPT = re.compile(r"\[([\"']?[\w.-]{1,60}[\"']?)\]\Z")
# What stands before a quote belongs to it: `b'...'`, `SecretStr('...')`.
_OPENING = re.compile(r"\s{0,8}(?:(?:[A-Za-z_][\w.]{0,40}\()?[A-Za-z]{0,2}(?=\\{0,80}[\"']))?(\\{0,80}[\"'])?")
# How a value ends that has no quotes: after `=`, and after a name in quotes.
_BARE = re.compile(r"[^\s&;,\"'<>]+")
_BARE_IN_JSON = re.compile(r"[^\s,}\])\"']+")
# The type that stands between a name and its value: `token: str | None = "..."`.
_TYPED = re.compile(r"[ \t]{0,8}[\w.\[\]]{1,60}(?: \| [\w.\[\]]{1,40}){0,4} = (?!=)")
# What stands for no secret: words of languages, and what a parameter is.
_WORDS = frozenset(
    "true false null None True False str bytes bool int float string number boolean object Any undefined".split()
)
_LINE = re.compile(r"[ \t]{0,8}[\"']?([^\s\"'](?:=\\{0,8}\"[^\"\r\n]*\"?|=\\{0,8}'[^'\r\n]*'?|[^\r\n\"'])*)")
_OPENED = re.compile(r"\\{0,80}[\"']\Z")
# What stands for a key in a text that explains one: `Bearer YOUR_KEY`, `<token>`, `$OPENAI_API_KEY`.
_STAND_IN = re.compile(
    r"(?:(?:Bearer|Basic|Token)[ \t]{1,8})?"
    r"(?:(?:[A-Z]{2,20}_){1,4}(?:KEY|TOKEN)|<[A-Za-z _-]{1,40}>|\$[A-Z_]{1,40}|\$?\{[A-Za-z_]{1,40}\}|\.\.\.)"
    r"(?![\w.~+/=-])"
)
_BRACKET = re.compile(r"[\[\]{}]|(?<=[\s\[{(,:])\\{0,80}[\"']")

_WORD = "[A-Za-z0-9_-]"
_APART = "[A-Za-z0-9]"
_PEM = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BEARER = r"\s{1,8}((?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/=-]{8,}|[A-Za-z0-9._~+/=-]{20,})"
# A word of a shell, or what is in quotes; no variable, and nothing that stands for a password or is hidden already.
_WORD_OF_A_SHELL = r"""(?![\"']?[$<]|\[hidden)("(?:\\.|[^"\\\n])*"?|'[^'\n]*'?|(?:[^\s"'`|;&<>\\]|\\(?!["']))+)"""
_USERINFO = r"([^\s/?#@:\"'<>]{0,256}:[^\s/?#\"'<>]{0,256}|[^\s/?#@:\"'<>]{16,256})@"


def _key(start: str, rest: str, apart: str = "") -> tuple[str, str]:
    """Write the pattern of a key that is hidden whole; nothing of `apart` may stand before it."""
    return start, f"({start}(?<!{apart}{start}){rest})" if apart else f"({start}{rest})"


def _long(*starts: str, of: str = _WORD) -> list[tuple[str, str]]:
    """Write the patterns of keys that have a start of their own, where a word may begin."""
    return [_key(start, f"{of}{{20,}}", _APART) for start in starts]


# What keys are called; the plain letters that each begins with, for those are found fast; its pattern, of which
# group 1 is hidden.
_KINDS: dict[str, list[tuple[str, str]]] = {
    "api key": [
        _key("sk-", f"(?=[A-Za-z_-]{{0,64}}[0-9]){_WORD}{{16,}}", _APART),
        _key("AIza", f"{_WORD}{{30,}}"),
        _key("AQ", rf"\.{_WORD}{{30,}}", _APART),  # Gemini's since 2026: https://ai.google.dev/gemini-api/docs/api-key
        *_long("xai-", "nvapi-", "tgp_v1_", "r8_"),
        *_long("gsk_", "pplx-", "hf_", "fw_", "csk-", "tw-", of=_APART),
        *(_key(start, "(?:live|test)_[A-Za-z0-9]{10,}") for start in ("sk_", "rk_")),
        # Google's in a query: https://cloud.google.com/docs/authentication/api-keys-use
        ("key=", r"(?<=[?&;])key=((?=[^\s&#\"'<>]{0,200}[0-9])[\w.~%+/=-]{16,})"),
    ],
    "access key": [_key(start, "[A-Z0-9]{16}(?![A-Za-z0-9])", _APART) for start in ("AKIA", "ASIA")],
    "token": [
        _key("gh", "[pousr]_[A-Za-z0-9]{20,}"),
        _key("xox", "[abeoprs]-[A-Za-z0-9-]{10,}"),
        _key("xapp-", "[A-Za-z0-9-]{10,}"),
        _key("gl", rf"(?:pat|rt|dt|ptt|cbt|ft|imt|agent|soat|oas)-{_WORD}{{20,}}", _APART),
        *_long("github_pat_", "GOCSPX-", "pypi-AgE", "dckr_pat_"),
        *_long("npm_", of=_APART),
        # Telegram's: https://core.telegram.org/bots/api#authorizing-your-bot (2026-11-26).
        (":AA", rf"(?<![0-9])([0-9]{{8,10}}:AA{_WORD}{{33}})(?!{_WORD})"),
        _key("ya29", rf"\.{_WORD}{{20,}}"),
        _key("SG", rf"\.{_WORD}{{16,64}}\.{_WORD}{{16,64}}", _APART),
        *((start, start + _BEARER) for start in ("Bearer", "bearer", "BEARER")),
    ],
    # The option is -p with the password behind it: https://dev.mysql.com/doc/refman/8.4/en/password-security-user.html
    "password": [
        (
            start,
            rf"(?<![\w.-]){start}[\w-]{{0,20}}(?![\w-])[^\n|;&]{{0,200}}?[\s\"']-p(?!\d{{1,5}}:\d){_WORD_OF_A_SHELL}",
        )
        for start in ("mysql", "mariadb")
    ],
    "jwt": [_key("eyJ", rf"{_WORD}{{8,}}\.{_WORD}{{4,}}\.{_WORD}*(?:\.{_WORD}*){{0,2}}", _WORD)],
    "private key": [_key("-----BEGIN ", rf"{_PEM}.*?(?:-----END {_PEM}|\Z)")],
    "userinfo": [("://", f"://{_USERINFO}")],
}
_PATTERNS = [(start, name, re.compile(pattern, re.DOTALL)) for name, keys in _KINDS.items() for start, pattern in keys]
# No key is shorter, but in an address; and none is so short that it has none of these.
SHORTEST_KEY, _PLAIN_KEY = 9, 20
_SIGNS = re.compile(r"[-_:. ]")
# What each text has that names the field of a value.
SIGNED = re.compile("[:=<]|--")


def spans(text: str, fields: Fields, forms: Sequence[str], loose: Sequence[str] = ()) -> list[Span]:
    """Find what has to be hidden, in order; what overlaps is one. `loose` are forms of folded texts."""
    found = [*keys_in(text), *_known(text, forms)] if forms else list(keys_in(text))
    if loose and len(text) >= len(loose[-1]):
        found += _known_loosely(text, loose)
    if fields.hinted(text):
        found += (*_named(text, fields), *_marked(text, fields))
    if len(found) < 2:
        return found
    found.sort(key=lambda span: (span[0], -span[1]))
    joined: list[Span] = []
    for start, end, name in found:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]), joined[-1][2])
        else:
            joined.append((start, end, name))
    return joined


def without(text: str, hidden: Sequence[Span]) -> str:
    """Give the text with masks where something has to be hidden."""
    pieces, place = [], 0
    for start, end, name in hidden:
        pieces += [text[place:start], mask(name)]
        place = end
    return "".join([*pieces, text[place:]]) if pieces else text


def keys_in(text: str) -> Iterator[Span]:
    """Find what looks like a key: where it begins, where it ends, and what it is."""
    size = len(text)
    if (size < SHORTEST_KEY and "://" not in text) or (size < _PLAIN_KEY and not _SIGNS.search(text)):
        return
    for start, name, pattern in _PATTERNS:
        if start in text:
            for found in pattern.finditer(text):
                yield found.start(1), found.end(1), name


def _known(text: str, forms: Sequence[str]) -> Iterator[Span]:
    for form in forms:
        place = text.find(form) if len(form) <= len(text) else -1
        while place >= 0:
            if form not in HIDDEN:
                yield place, place + len(form), ""
            place = text.find(form, place + len(form))


def _known_loosely(text: str, forms: Sequence[str]) -> Iterator[Span]:
    """Find forms in a text whatever its case, its white space and the spelling of its characters."""
    folded = fold(text)
    present = [form for form in forms if form in folded]
    if present:
        starts, ends = folded_places(text)
        for start, end, name in _known(folded, present):
            yield starts[start], ends[end - 1], name


def _named(text: str, fields: Fields) -> Iterator[Span]:
    """Find the values of sensitive names."""
    past = 0
    for sign in _SIGN.finditer(text):
        at = sign.start()
        if at < past:
            continue
        before = text[max(0, at - _LONGEST_NAME) : at].rstrip(" \t")
        inner = _SUBSCRIPT.search(before) if before[-1:] == "]" and sign[0] != ":" else None
        key = (before if inner is None else inner[1]).rstrip("\"'").rstrip("\\")
        name = key[len(key.rstrip(_NAMED)) :] if key.isascii() else _last_name(key)
        label, whole = fields.below(NOWHERE, name)[0] if name else None, True
        if label is None and name:
            label, whole = usual(name), False
        if label is None:
            continue
        quoted = len(key) < len(before) and sign[0] == ":"
        if label in HEADERS and sign[0] == ":" and not quoted:
            value = _line(text, sign.end(), _OPENED.search(key, 0, len(key) - len(name)))
        else:
            value = _value(text, sign.end(), quoted=quoted, whole=whole)
        typed = _TYPED.match(text, sign.end()) if sign[0] == ":" and not quoted else None
        assigned = None if typed is None else _value(text, typed.end(), quoted=False, whole=whole)
        for start, end in filter(None, (value, assigned)):
            yield start, end, label
            past = end if end - start > _LONGEST_NAME or (start, end) == value else past


def _marked(text: str, fields: Fields) -> Iterator[Span]:
    """Find the values of sensitive options and elements."""
    for found in _MARKED.finditer(text):
        name = found[1] or found[2]
        label = fields.below(NOWHERE, name)[0] or usual(name)
        if label is None or (found[2] and MASK.match(found[3])):
            continue
        value = found.span(3) if found[2] else _value(text, found.end(), quoted=False, whole=False)
        if value is not None:
            yield *value, label


def _last_name(key: str) -> str:
    start = len(key)
    while start and (key[start - 1].isalnum() or key[start - 1] in "_.-"):
        start -= 1
    return key[start:]


def _line(text: str, at: int, opened: re.Match[str] | None) -> tuple[int, int] | None:
    """Find the value of a header: the rest of its line with what is in quotes there, or the rest of its own quotes."""
    found = _LINE.match(text, at)
    if found is None or MASK.match(text, found.start(1)) or _STAND_IN.match(text, found.start(1)):
        return None
    start, end = found.span(1)
    return start, min(end, _closing(text, start, opened[0])) if opened else end


def _value(text: str, at: int, *, quoted: bool, whole: bool) -> tuple[int, int] | None:
    """Find the value that begins here; one in brackets is a value if it is to be hidden whole."""
    opening = _OPENING.match(text, at)
    start = opening.end() if opening is not None else at
    if MASK.match(text, start):
        return None
    if opening is not None and opening[1]:
        end = _closing(text, start, opening[1])
        return (start, end) if end > start else None
    if text[start : start + 1] in ("{", "["):
        return (start, _bracketed(text, start)) if whole else None
    bare = (_BARE_IN_JSON if quoted else _BARE).match(text, start)
    if bare is None or bare[0].rstrip(")]}") in _WORDS or bare[0][0] == "=":
        return None
    return bare.span()


def _closing(text: str, start: int, quote: str) -> int:
    """Find the quote that closes: one that is escaped once more does not."""
    end = text.find(quote, start)
    while end > start:
        before = text[max(start, end - 100) : end]
        if (len(before) - len(before.rstrip("\\"))) % (2 * len(quote)) == 0:
            return end
        end = text.find(quote, end + 1)
    return len(text) if end < 0 else end


def _bracketed(text: str, start: int) -> int:
    """Find where what is in brackets ends; brackets in quotes are text."""
    depth, place = 0, start
    while (found := _BRACKET.search(text, place)) is not None:
        place = found.end()
        if found[0][-1] in "\"'":
            place = _closing(text, place, found[0]) + len(found[0])
            continue
        depth += 1 if found[0] in "[{" else -1
        if depth <= 0:
            return place
    return len(text)
