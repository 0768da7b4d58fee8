"""Keys, as each vendor wants them and misses them."""

from collections.abc import Mapping

from toolwire.testing.rules import Rejection

_OPENAI = "You can find your API key at https://platform.openai.com/account/api-keys."
_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer "
    "auth (i.e. Authorization: Bearer YOUR_KEY)."
)
_UNREGISTERED = (
    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
    "other form of API consumer identity to call this API."
)
MISSING: dict[str, Rejection] = {
    "openai-chat": Rejection(_NO_KEY, status=401, kind="authentication"),
    "openai-responses": Rejection(_NO_KEY, status=401, kind="authentication"),
    "anthropic": Rejection("x-api-key header is required", status=401, kind="authentication"),
    "gemini": Rejection(_UNREGISTERED, status=403, kind="permission"),
    "ollama": Rejection("unauthorized", status=401, kind="authentication"),
}


def given_key(name: str, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    """Find the key in a request; None where there is none."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    bearer = bearer.strip() if scheme.lower() == "bearer" else ""
    places = {
        "anthropic": (headers.get("x-api-key"), bearer),
        "gemini": (headers.get("x-goog-api-key"), query.get("key"), bearer),
    }
    return next(filter(None, places.get(name, (bearer, headers.get("api-key")))), None)


def check_key(
    name: str, headers: Mapping[str, str], query: Mapping[str, str], expected: str | None
) -> Rejection | None:
    """Refuse a request without a key, or with another than the expected one; Ollama wants none by itself."""
    given = given_key(name, headers, query)
    if given is None:
        return None if name == "ollama" and expected is None else MISSING[name]
    return None if expected is None or given == expected else _wrong(name, given)


def _wrong(name: str, given: str) -> Rejection:
    if name == "gemini":
        return Rejection("API key not valid. Please pass a valid API key.")
    if name == "ollama":
        return MISSING[name]
    if name == "anthropic":
        return Rejection("invalid x-api-key", status=401, kind="authentication")
    hidden = f"{given[:3]}***{given[-2:]}" if len(given) > 8 else "***"
    text = f"Incorrect API key provided: {hidden}. {_OPENAI}"
    return Rejection(text, None, "invalid_api_key", 401, "authentication")
