"""What a fetch may say to a server: which headers, to whom, and no secrets of this machine.

Rules of this file:
- What frames the request is the client's: a header that could change it is refused.
- After a redirect to another scheme, host or port only headers that say nothing of the sender are sent.
- The values of variables whose names speak of secrets are not sent anywhere, in an address or in a header.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus

from toolwire.codetools.spelling import shown
from toolwire.errors import ToolError

Headers = dict[str, str]
MAX_HEADERS = 50
HEADER_CHARACTERS = 16_000
STANDARD: Headers = {
    "user-agent": "toolwire",
    "accept": "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5",
}
OWN: Headers = {"accept-encoding": "gzip, identity", "connection": "close"}
FRAMING = frozenset(
    "host connection content-length transfer-encoding accept-encoding te trailer upgrade expect "
    "keep-alive http2-settings".split()
)
TRAVELLING = frozenset("accept accept-language cache-control range user-agent".split())
NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")
SECRET_NAME = re.compile(r"KEY|SECRET|TOKEN|PASSW|CREDENTIAL|PRIVATE|AUTH", re.IGNORECASE)
SHORTEST_SECRET = 8


def headers_of(given: Mapping[str, Any] | None) -> Headers:
    """Read the headers that the model gave, with those that are always sent; names are in small letters."""
    wanted = given or {}
    if len(wanted) > MAX_HEADERS or sum(len(name) + len(str(value)) for name, value in wanted.items()) > (
        HEADER_CHARACTERS
    ):
        raise ToolError(f"headers: {MAX_HEADERS} of {HEADER_CHARACTERS} characters in all are the most")
    read: Headers = {}
    for name, value in wanted.items():
        low = name.lower()
        if not NAME.fullmatch(name) or not isinstance(value, str) or not VALUE.fullmatch(value):
            raise ToolError(f"headers: {shown(name[:80])} is no header of printable ASCII characters on one line")
        if low in FRAMING or low.startswith("proxy-"):
            raise ToolError(f"headers: {name} is set by the tool itself; leave it out")
        if low in read:
            raise ToolError(f"headers: {name} is given twice")
        read[low] = value
    return STANDARD | read | OWN


def travelling(headers: Headers) -> Headers:
    """Keep the headers that another origin may get after a redirect."""
    return {name: value for name, value in headers.items() if name in TRAVELLING or name in OWN}


def secret_in(texts: Iterable[str], environment: Mapping[str, Any]) -> str | None:
    """Name the variable whose secret value stands in one of the texts, plain or in a usual encoding."""
    found = "\n".join(_readings(texts))
    for name, value in environment.items():
        if not SECRET_NAME.search(name) or not isinstance(value, str) or len(value) < SHORTEST_SECRET:
            continue
        if any(form in found for form in _forms(value)):
            return name
    return None


def _readings(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        yield text
        for _ in range(2):
            yield unquote_plus(text)
            text = unquote(text)  # noqa: PLW2901 - it may be quoted twice
            yield text


def _forms(value: str) -> Iterable[str]:
    """Give a value as it is, and as base64 and hex have it wherever it stands in what was encoded."""
    yield value
    data = value.encode(errors="surrogateescape")
    yield data.hex()
    yield data.hex().upper()
    for shift in range(3):
        # The characters at both ends depend on what stands beside the value.
        whole = base64.b64encode(b"\0" * shift + data)
        inner = whole[(0, 2, 3)[shift] : len(whole) - (4 if (shift + len(data)) % 3 else 0)]
        yield inner.decode()
        yield inner.decode().replace("+", "-").replace("/", "_")
