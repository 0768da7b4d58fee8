"""Where a request to a provider goes, with which headers: made from what is said of the provider, and nothing else.

Rule: a key goes into one header and nowhere else.
"""

from toolwire.errors import InvalidField
from toolwire.providers.known import Provider
from toolwire.types import Encoded
from toolwire.wire.transport import HttpRequest

_AGENT = "toolwire"


def key_of(provider: Provider) -> str:
    """Give the provider's key as it is sent; empty where there is none."""
    return (provider.key or "").strip()


def url_of(provider: Provider, path: str) -> str:
    """Give the address of one of the dialect's paths at this provider."""
    base = provider.base_url.rstrip("/")
    for before, after in provider.paths:
        if path.startswith(before):
            path = after + path.removeprefix(before)
    # A base that ends with what the path begins with says it for both: `https://api.openai.com/v1`.
    version = path[: path.find("/", 1)]
    path = path.removeprefix(version) if len(version) > 1 and base.endswith(version) else path
    if provider.query:
        mark = "&" if "?" in path else "?"
        path += mark + "&".join(f"{name}={value}" for name, value in provider.query.items())
    return base + path


def headers_of(provider: Provider) -> dict[str, str]:
    """Give the headers of a request to this provider, with its key."""
    headers = {"content-type": "application/json", "accept": "*/*", "user-agent": _AGENT, **provider.headers}
    key = key_of(provider)
    if provider.auth is not None and key:
        headers[provider.auth] = f"Bearer {key}" if provider.auth == "Authorization" else key
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise InvalidField(name, "has characters that no header can carry; is the key right?", path=provider.name)
    return headers


def http_request_of(provider: Provider, encoded: Encoded) -> HttpRequest:
    """Give the HTTP request of an encoded one."""
    return HttpRequest("POST", url_of(provider, encoded.path), headers_of(provider), encoded.json)
