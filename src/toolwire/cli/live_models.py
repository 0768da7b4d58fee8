"""`toolwire models --live`: the models that the providers list themselves.

Rules of this file:
- Without a provider, those are asked that have a key, and the local ones that answer.
- A provider that fails is reported, and the others are listed.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from toolwire.cli.chosen_model import check_key, explain, no_server, with_stored_key
from toolwire.cli.screen import Screen, shorten
from toolwire.client.failures import ProviderError, exception_of
from toolwire.client.one_request import OneRequestTransport
from toolwire.errors import InvalidBody, ToolwireError, UserError
from toolwire.providers import PROVIDERS, Provider
from toolwire.providers.addressing import headers_of, key_of, url_of
from toolwire.scrubbing import scrub
from toolwire.wire.bodies import read_body, read_error_body
from toolwire.wire.transport import HttpRequest, Timeouts, TransportError

_TIMEOUTS = Timeouts(connect=3, first=15, between=15, total=30)
_LONGEST = 16 * 1024 * 1024
_MOST_PAGES = 50
_MESSAGE = 300
# The path of each wire's list, the field that holds it, and the fields of a model's name.
_LISTS = {
    "openai-chat": ("/v1/models", "data", "id"),
    "openai-responses": ("/v1/models", "data", "id"),
    "anthropic": ("/v1/models?limit=1000", "data", "id"),
    "gemini": ("/v1beta/models?pageSize=1000", "models", "name"),
    "ollama": ("/api/tags", "models", "name"),
}


def provider_at(preset: Provider, base_url: str | None) -> Provider:
    """Return the provider at `base_url`, or at its usual address with its stored key."""
    if base_url is None:
        provider = with_stored_key(preset.placed())
        check_key(provider)
        return provider
    moved = preset.with_options(base_url=base_url.rstrip("/"))
    return moved.with_options(api_key="") if moved.lacks_key() else moved


def live_models(provider: Provider) -> list[str]:
    """Return the names of the models that `provider` lists, page by page. Raise ToolwireError if it fails."""
    path, field, name = _LISTS[provider.dialect]
    models: list[str] = []
    page = ""
    for _ in range(_MOST_PAGES):
        body = _get(provider, f"{path}{page}")
        rows = body.get(field)
        if not isinstance(rows, list):
            raise UserError(f"the answer has no list {field!r}", path=provider.name)
        models += [str(row[name]).removeprefix("models/") for row in rows if isinstance(row, dict) and row.get(name)]
        page = _next_page(body)
        if not page:
            break
    return models


def _next_page(body: dict[str, Any]) -> str:
    """Return the end of the next page's path, as Anthropic and Gemini name it; empty on the last page."""
    if body.get("has_more") and body.get("last_id"):
        return f"&after_id={body['last_id']}"
    return f"&pageToken={body['nextPageToken']}" if body.get("nextPageToken") else ""


def _get(provider: Provider, path: str) -> dict[str, Any]:
    request = HttpRequest("GET", url_of(provider, path), headers_of(provider), b"")
    answer = OneRequestTransport().send(request, _TIMEOUTS)
    with contextlib.closing(answer):
        data = b""
        while len(data) <= _LONGEST and (piece := answer.read()):
            data += piece
    if answer.status != 200:
        raise _refusal(provider, answer.status, data)
    try:
        body = read_body(data)
    except InvalidBody as problem:
        raise UserError(f"its list of models: {problem}", path=provider.name) from None
    if not isinstance(body, dict):
        raise UserError("its list of models is no object", path=provider.name)
    return body


def _refusal(provider: Provider, status: int, data: bytes) -> ProviderError:
    """Return the exception for an error of the server, without the key, which some servers repeat."""
    error = provider.speaks().decode_error(status, read_error_body(data))
    message = shorten(" ".join(scrub(error.message, (), [key_of(provider)]).split()), _MESSAGE)
    return exception_of(replace(error, message=message, status=status), provider.name)


def reachable_models(provider: Provider | None, screen: Screen) -> Iterator[tuple[str, list[str] | str]]:
    """Yield each provider's name with its models, or with the message of its error and the remedy.

    Meanwhile `screen` shows what is waited for.
    """
    screen.wait(lambda seconds: f"waiting for the lists of models, {seconds:.0f} s")
    try:
        yield from _each_list(provider)
    finally:
        screen.wait(None)


def _each_list(provider: Provider | None) -> Iterator[tuple[str, list[str] | str]]:
    for one in [provider] if provider is not None else _configured():
        try:
            yield one.name, live_models(one)
        except TransportError as problem:
            if provider is not None or not one.local:
                remedy = f"\n{no_server(one)}" if problem.kind == "connect" else ""
                yield one.name, f"{problem}{remedy}"
        except ProviderError as problem:
            yield one.name, explain(problem, one)
        except ToolwireError as problem:
            yield one.name, str(problem)


def _configured() -> list[Provider]:
    """Return the providers that have a key, and the local ones; of several at one address, the first."""
    ready = [one for one in (with_stored_key(preset.placed()) for preset in PROVIDERS.values()) if not one.lacks_key()]
    return list({one.base_url.removesuffix("/v1"): one for one in reversed(ready)}.values())[::-1]
