"""Secrets in a text: their positions, and the text with masks in their places.

Rules of this file:
- A part of a text is hidden if it looks like a key, if it is a form of a known secret, or if it is the value of a
  sensitive name. Such values are found as `name=value` and `"name": "value"`, in URLs, environments, logs and broken
  JSON, as `--name value` if the value has a digit or quotes, and as `<name>value</name>`.
- A value without an end is hidden to the end of the text.
- A key is more than a word. It is long, and has a digit where ordinary words could match its pattern.
- Every repetition of a pattern is bounded or unambiguous, so that the time is linear in the text.
"""

import re
from collections.abc import Iterator, Sequence

from toolwire.scrubbing.fields import HEADERS, NO_STATES, Fields, sensitive_name
from toolwire.scrubbing.forms import HIDDEN, MASK, fold, folded_offsets, mask

Span = tuple[int, int, str]

_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_MAX_NAME = 80
_SIGN = re.compile("=>|:=|[=:]")
# A name whose value has no sign before it: a command-line option, or an XML element.
_OPTION_OR_ELEMENT = re.compile(
    r"(?<!\S)--([A-Za-z][\w-]{1,60})[ \t]{1,8}(?=[\"']|[^\s\"'0-9]{0,100}[0-9])"
    r"|<([A-Za-z][\w.:-]{0,60})>([^\s<]{1,1000})(?=</)"
)
# A name in brackets: `settings["token"] = ...`, `[token] => ...`.
_SUBSCRIPT = re.compile(r"\[([\"']?[\w.-]{1,60}[\"']?)\]\Z")
# A prefix belongs to the quoted value: `b'...'`, `SecretStr('...')`.
_VALUE_PREFIX = re.compile(r"\s{0,8}(?:(?:[A-Za-z_][\w.]{0,40}\()?[A-Za-z]{0,2}(?=\\{0,80}[\"']))?(\\{0,80}[\"'])?")
# A value without quotes, after `=`, and after a quoted name.
_UNQUOTED = re.compile(r"[^\s&;,\"'<>]+")
_UNQUOTED_IN_JSON = re.compile(r"[^\s,}\])\"']+")
# The type annotation between a name and its value: `token: str | None = "..."`.
_TYPE_ANNOTATION = re.compile(r"[ \t]{0,8}[\w.\[\]]{1,60}(?: \| [\w.\[\]]{1,40}){0,4} = (?!=)")
# Values that are never secret: keywords, and the types of parameters.
_HARMLESS_VALUES = frozenset(
    "true false null None True False str bytes bool int float string number boolean object Any undefined".split()
)
_HEADER_VALUE = re.compile(r"[ \t]{0,8}[\"']?([^\s\"'](?:=\\{0,8}\"[^\"\r\n]*\"?|=\\{0,8}'[^'\r\n]*'?|[^\r\n\"'])*)")
_OPENING_QUOTE = re.compile(r"\\{0,80}[\"']\Z")
# Placeholders for keys in documentation: `Bearer YOUR_KEY`, `<token>`, `$OPENAI_API_KEY`.
_PLACEHOLDER = re.compile(
    r"(?:(?:Bearer|Basic|Token)[ \t]{1,8})?"
    r"(?:(?:[A-Z]{2,20}_){1,4}(?:KEY|TOKEN)|<[A-Za-z _-]{1,40}>|\$[A-Z_]{1,40}|\$?\{[A-Za-z_]{1,40}\}|\.\.\.)"
    r"(?![\w.~+/=-])"
)
_BRACKET = re.compile(r"[\[\]{}]|(?<=[\s\[{(,:])\\{0,80}[\"']")

_WORD = "[A-Za-z0-9_-]"
_ALPHANUMERIC = "[A-Za-z0-9]"
_PEM = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BEARER = r"\s{1,8}((?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/=-]{8,}|[A-Za-z0-9._~+/=-]{20,})"
# A shell word or a quoted text, but no variable, no placeholder and no mask.
_SHELL_WORD = r"""(?![\"']?[$<]|\[hidden)("(?:\\.|[^"\\\n])*"?|'[^'\n]*'?|(?:[^\s"'`|;&<>\\]|\\(?!["']))+)"""
_USERINFO = r"([^\s/?#@:\"'<>]{0,256}:[^\s/?#\"'<>]{0,256}|[^\s/?#@:\"'<>]{16,256})@"


def _key(start: str, body: str, not_after: str = "") -> tuple[str, str]:
    """Return the pattern of a key that is hidden entirely. No character of `not_after` may precede it."""
    return start, f"({start}(?<!{not_after}{start}){body})" if not_after else f"({start}{body})"


def _prefixed_keys(*starts: str, of: str = _WORD) -> list[tuple[str, str]]:
    """Return the patterns of keys that begin with one of `starts`, at the beginning of a word."""
    return [_key(start, f"{of}{{20,}}", _ALPHANUMERIC) for start in starts]


# The patterns of keys, by label. Each has a literal beginning, which is fast to search for, and a pattern whose group 1
# is hidden.
_KEY_PATTERNS: dict[str, list[tuple[str, str]]] = {
    "api key": [
        _key("sk-", f"(?=[A-Za-z_-]{{0,64}}[0-9]){_WORD}{{16,}}", _ALPHANUMERIC),
        _key("AIza", f"{_WORD}{{30,}}"),
        _key(
            "AQ", rf"\.{_WORD}{{30,}}", _ALPHANUMERIC
        ),  # Gemini's since 2026: https://ai.google.dev/gemini-api/docs/api-key
        *_prefixed_keys("xai-", "nvapi-", "tgp_v1_", "r8_"),
        *_prefixed_keys("gsk_", "pplx-", "hf_", "fw_", "csk-", "tw-", of=_ALPHANUMERIC),
        *(_key(start, "(?:live|test)_[A-Za-z0-9]{10,}") for start in ("sk_", "rk_")),
        # Google's in a query: https://cloud.google.com/docs/authentication/api-keys-use
        ("key=", r"(?<=[?&;])key=((?=[^\s&#\"'<>]{0,200}[0-9])[\w.~%+/=-]{16,})"),
    ],
    "access key": [_key(start, "[A-Z0-9]{16}(?![A-Za-z0-9])", _ALPHANUMERIC) for start in ("AKIA", "ASIA")],
    "token": [
        _key("gh", "[pousr]_[A-Za-z0-9]{20,}"),
        _key("xox", "[abeoprs]-[A-Za-z0-9-]{10,}"),
        _key("xapp-", "[A-Za-z0-9-]{10,}"),
        _key("gl", rf"(?:pat|rt|dt|ptt|cbt|ft|imt|agent|soat|oas)-{_WORD}{{20,}}", _ALPHANUMERIC),
        *_prefixed_keys("github_pat_", "GOCSPX-", "pypi-AgE", "dckr_pat_"),
        *_prefixed_keys("npm_", of=_ALPHANUMERIC),
        # Telegram's: https://core.telegram.org/bots/api#authorizing-your-bot (2026-11-26).
        (":AA", rf"(?<![0-9])([0-9]{{8,10}}:AA{_WORD}{{33}})(?!{_WORD})"),
        _key("ya29", rf"\.{_WORD}{{20,}}"),
        _key("SG", rf"\.{_WORD}{{16,64}}\.{_WORD}{{16,64}}", _ALPHANUMERIC),
        *((start, start + _BEARER) for start in ("Bearer", "bearer", "BEARER")),
    ],
    # The option is -p with the password behind it: https://dev.mysql.com/doc/refman/8.4/en/password-security-user.html
    "password": [
        (
            start,
            rf"(?<![\w.-]){start}[\w-]{{0,20}}(?![\w-])[^\n|;&]{{0,200}}?[\s\"']-p(?!\d{{1,5}}:\d){_SHELL_WORD}",
        )
        for start in ("mysql", "mariadb")
    ],
    "jwt": [_key("eyJ", rf"{_WORD}{{8,}}\.{_WORD}{{4,}}\.{_WORD}*(?:\.{_WORD}*){{0,2}}", _WORD)],
    "private key": [_key("-----BEGIN ", rf"{_PEM}.*?(?:-----END {_PEM}|\Z)")],
    "userinfo": [("://", f"://{_USERINFO}")],
}
_PATTERNS = [
    (start, name, re.compile(pattern, re.DOTALL)) for name, keys in _KEY_PATTERNS.items() for start, pattern in keys
]


def key_patterns() -> list[tuple[str, str]]:
    """Return the patterns of keys as texts, each with the start that its matches contain."""
    return [(start, pattern.pattern) for start, _, pattern in _PATTERNS]


# No key is shorter, except in a URL. A key that is shorter than `_PLAIN_KEY` contains one of `_KEY_SIGN`.
SHORTEST_KEY, _PLAIN_KEY = 9, 20
_KEY_SIGN = re.compile(r"[-_:. ]")
# Every text that names the field of a value contains one of these.
NAME_SIGN = re.compile("[:=<]|--")


def find_secrets(text: str, fields: Fields, forms: Sequence[str], loose: Sequence[str] = ()) -> list[Span]:
    """Return the secrets in `text`, in order. Overlapping ones are merged. `loose` are forms for folded text."""
    secrets = [*find_keys(text), *_find_forms(text, forms)] if forms else list(find_keys(text))
    if loose and len(text) >= len(loose[-1]):
        secrets += _find_folded_forms(text, loose)
    if fields.may_occur_in(text):
        secrets += (*_values_of_names(text, fields), *_values_of_markup(text, fields))
    if len(secrets) < 2:
        return secrets
    secrets.sort(key=lambda span: (span[0], -span[1]))
    joined: list[Span] = []
    for start, end, name in secrets:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]), joined[-1][2])
        else:
            joined.append((start, end, name))
    return joined


def replace_with_masks(text: str, hidden: Sequence[Span]) -> str:
    """Return `text` with masks in place of the `hidden` spans."""
    pieces, position = [], 0
    for start, end, name in hidden:
        pieces += [text[position:start], mask(name)]
        position = end
    return "".join([*pieces, text[position:]]) if pieces else text


def find_keys(text: str) -> Iterator[Span]:
    """Yield the start, the end and the label of each part of `text` that looks like a key."""
    size = len(text)
    if (size < SHORTEST_KEY and "://" not in text) or (size < _PLAIN_KEY and not _KEY_SIGN.search(text)):
        return
    for start, name, pattern in _PATTERNS:
        if start in text:
            for match in pattern.finditer(text):
                yield match.start(1), match.end(1), name


def _find_forms(text: str, forms: Sequence[str]) -> Iterator[Span]:
    for form in forms:
        start = text.find(form) if len(form) <= len(text) else -1
        while start >= 0:
            if form not in HIDDEN:
                yield start, start + len(form), ""
            start = text.find(form, start + len(form))


def _find_folded_forms(text: str, forms: Sequence[str]) -> Iterator[Span]:
    """Yield the occurrences of `forms` in the folded text, as spans of the original text."""
    folded = fold(text)
    occurring = [form for form in forms if form in folded]
    if occurring:
        starts, ends = folded_offsets(text)
        for start, end, name in _find_forms(folded, occurring):
            yield starts[start], ends[end - 1], name


def _values_of_names(text: str, fields: Fields) -> Iterator[Span]:
    """Yield the values of sensitive names."""
    covered_to = 0
    for sign in _SIGN.finditer(text):
        sign_start = sign.start()
        if sign_start < covered_to:
            continue
        prefix = text[max(0, sign_start - _MAX_NAME) : sign_start].rstrip(" \t")
        subscript = _SUBSCRIPT.search(prefix) if prefix[-1:] == "]" and sign[0] != ":" else None
        key = (prefix if subscript is None else subscript[1]).rstrip("\"'").rstrip("\\")
        name = key[len(key.rstrip(_NAME_CHARACTERS)) :] if key.isascii() else _trailing_name(key)
        label, hide_whole = fields.below(NO_STATES, name)[0] if name else None, True
        if label is None and name:
            label, hide_whole = sensitive_name(name), False
        if label is None:
            continue
        quoted = len(key) < len(prefix) and sign[0] == ":"
        if label in HEADERS and sign[0] == ":" and not quoted:
            value = _header_value(text, sign.end(), _OPENING_QUOTE.search(key, 0, len(key) - len(name)))
        else:
            value = _find_value(text, sign.end(), quoted=quoted, whole=hide_whole)
        annotation = _TYPE_ANNOTATION.match(text, sign.end()) if sign[0] == ":" and not quoted else None
        assigned = None if annotation is None else _find_value(text, annotation.end(), quoted=False, whole=hide_whole)
        for start, end in filter(None, (value, assigned)):
            yield start, end, label
            covered_to = end if end - start > _MAX_NAME or (start, end) == value else covered_to


def _values_of_markup(text: str, fields: Fields) -> Iterator[Span]:
    """Yield the values of sensitive command-line options and XML elements."""
    for match in _OPTION_OR_ELEMENT.finditer(text):
        name = match[1] or match[2]
        label = fields.below(NO_STATES, name)[0] or sensitive_name(name)
        if label is None or (match[2] and MASK.match(match[3])):
            continue
        value = match.span(3) if match[2] else _find_value(text, match.end(), quoted=False, whole=False)
        if value is not None:
            yield *value, label


def _trailing_name(key: str) -> str:
    start = len(key)
    while start and (key[start - 1].isalnum() or key[start - 1] in "_.-"):
        start -= 1
    return key[start:]


def _header_value(text: str, position: int, opening_quote: re.Match[str] | None) -> tuple[int, int] | None:
    """Return the value of a header.

    It is the rest of the line, including quoted parts, or the rest of the quotes that the header itself is in.
    """
    match = _HEADER_VALUE.match(text, position)
    if match is None or MASK.match(text, match.start(1)) or _PLACEHOLDER.match(text, match.start(1)):
        return None
    start, end = match.span(1)
    return start, min(end, _closing_quote(text, start, opening_quote[0])) if opening_quote else end


def _find_value(text: str, position: int, *, quoted: bool, whole: bool) -> tuple[int, int] | None:
    """Return the value that begins at `position`. A value in brackets counts only if `whole` is true."""
    prefix = _VALUE_PREFIX.match(text, position)
    start = prefix.end() if prefix is not None else position
    if MASK.match(text, start):
        return None
    if prefix is not None and prefix[1]:
        end = _closing_quote(text, start, prefix[1])
        return (start, end) if end > start else None
    if text[start : start + 1] in ("{", "["):
        return (start, _bracket_end(text, start)) if whole else None
    unquoted = (_UNQUOTED_IN_JSON if quoted else _UNQUOTED).match(text, start)
    if unquoted is None or unquoted[0].rstrip(")]}") in _HARMLESS_VALUES or unquoted[0][0] == "=":
        return None
    return unquoted.span()


def _closing_quote(text: str, start: int, quote: str) -> int:
    """Return the offset of the closing quote. A quote with more backslashes is part of the value."""
    end = text.find(quote, start)
    while end > start:
        preceding = text[max(start, end - 100) : end]
        if (len(preceding) - len(preceding.rstrip("\\"))) % (2 * len(quote)) == 0:
            return end
        end = text.find(quote, end + 1)
    return len(text) if end < 0 else end


def _bracket_end(text: str, start: int) -> int:
    """Return the end of the bracketed text. Brackets in quotes do not count."""
    depth, position = 0, start
    while (match := _BRACKET.search(text, position)) is not None:
        position = match.end()
        if match[0][-1] in "\"'":
            position = _closing_quote(text, position, match[0]) + len(match[0])
            continue
        depth += 1 if match[0] in "[{" else -1
        if depth <= 0:
            return position
    return len(text)
