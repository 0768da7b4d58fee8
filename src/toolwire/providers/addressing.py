"""The address and the headers of a request to a provider.

Rule: a key is sent in one header and nowhere else.
"""

import re
from urllib.parse import urlsplit

from toolwire.errors import InvalidField
from toolwire.providers.known import Provider
from toolwire.types import Encoded
from toolwire.wire.transport import HttpRequest

_AGENT = "toolwire"
_BODY_HEADERS = ("content-length", "transfer-encoding")
# `/v1`, `/v1beta`, `/v4` as a segment of a path.
_VERSION = re.compile(r"/v\d+[a-z0-9]*(?=/|$)")


def key_of(provider: Provider) -> str:
    """Return the provider's key as it is sent, or an empty text."""
    return (provider.key or "").strip()


def url_of(provider: Provider, path: str) -> str:
    """Return the address for a path of the dialect, with the query of the provider."""
    url = _address_of(provider, path)
    if provider.query:
        mark = "&" if "?" in url else "?"
        url += mark + "&".join(f"{name}={value}" for name, value in provider.query.items())
    return url


def _address_of(provider: Provider, path: str) -> str:
    """Return the address with exactly one version in it, whether or not the base URL has one."""
    base = provider.base_url.rstrip("/")
    for prefix, replacement in provider.paths:
        if path.startswith(prefix):
            return base + replacement + path.removeprefix(prefix)
    base_version, path_version = _VERSION.search(urlsplit(base).path), _VERSION.match(path)
    if base_version is not None and path_version is not None:
        return base + path[path_version.end() :]
    first = path[: path.find("/", 1)]
    if base_version is not None:
        base = base.removesuffix(base_version[0])
    return base.removesuffix(first) + path


def headers_of(provider: Provider) -> dict[str, str]:
    """Return the headers of a request to this provider, with its key and the version of its wire.

    Raises `InvalidField` for a header that cannot be sent.
    """
    version = provider.version_header
    headers = {"content-type": "application/json", "accept": "*/*", "user-agent": _AGENT, **version}
    key = key_of(provider)
    login = {} if provider.auth is None or not key else {provider.auth: key}
    if "Authorization" in login:
        login["Authorization"] = f"Bearer {key}"
    own_names = {*version, *map(str.lower, login)}
    headers |= {name: value for name, value in provider.headers.items() if name.lower() not in own_names} | login
    for name, value in headers.items():
        if name.lower() in _BODY_HEADERS:
            raise InvalidField(name, "describes the body and cannot be set", path=provider.name)
        if not (value.isascii() and value.isprintable()):
            raise InvalidField(name, "has characters that no header can carry; check the key", path=provider.name)
    return headers


def http_request_of(provider: Provider, encoded: Encoded) -> HttpRequest:
    """Return the HTTP request for an encoded request."""
    return HttpRequest("POST", url_of(provider, encoded.path), headers_of(provider), encoded.json)
