"""Where a request to a provider goes, with which headers: made from what is said of the provider, and nothing else.

Rule: a key goes into one header and nowhere else.
"""

import re
from urllib.parse import urlsplit

from toolwire.errors import InvalidField
from toolwire.providers.known import Provider
from toolwire.types import Encoded
from toolwire.wire.transport import HttpRequest

_AGENT = "toolwire"
_OF_THE_BODY = ("content-length", "transfer-encoding")
# `/v1`, `/v1beta`, `/v4`: as a step of an address.
_VERSION = re.compile(r"/v\d+[a-z0-9]*(?=/|$)")


def key_of(provider: Provider) -> str:
    """Give the provider's key as it is sent; empty where there is none."""
    return (provider.key or "").strip()


def url_of(provider: Provider, path: str) -> str:
    """Give the address for a path of the dialect, with the query that the provider wants."""
    url = _address(provider, path)
    if provider.query:
        mark = "&" if "?" in url else "?"
        url += mark + "&".join(f"{name}={value}" for name, value in provider.query.items())
    return url


def _address(provider: Provider, path: str) -> str:
    """Give the address with one version in it, whether the base has one or not."""
    base = provider.base_url.rstrip("/")
    for before, after in provider.paths:
        if path.startswith(before):
            return base + after + path.removeprefix(before)
    said, own = _VERSION.search(urlsplit(base).path), _VERSION.match(path)
    if said is not None and own is not None:
        return base + path[own.end() :]
    first = path[: path.find("/", 1)]
    if said is not None:
        base = base.removesuffix(said[0])
    return base.removesuffix(first) + path


def headers_of(provider: Provider) -> dict[str, str]:
    """Give the headers of a request to this provider, with its key and the version of its wire."""
    version = provider.version_header
    headers = {"content-type": "application/json", "accept": "*/*", "user-agent": _AGENT, **version}
    key = key_of(provider)
    login = {} if provider.auth is None or not key else {provider.auth: key}
    if "Authorization" in login:
        login["Authorization"] = f"Bearer {key}"
    ours = {*version, *map(str.lower, login)}
    headers |= {name: value for name, value in provider.headers.items() if name.lower() not in ours} | login
    for name, value in headers.items():
        if name.lower() in _OF_THE_BODY:
            raise InvalidField(name, "belongs to the body, and is not a header to pass", path=provider.name)
        if not (value.isascii() and value.isprintable()):
            raise InvalidField(name, "has characters that no header can carry; is the key right?", path=provider.name)
    return headers


def http_request_of(provider: Provider, encoded: Encoded) -> HttpRequest:
    """Give the HTTP request of an encoded one."""
    return HttpRequest("POST", url_of(provider, encoded.path), headers_of(provider), encoded.json)
