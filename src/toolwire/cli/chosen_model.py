"""The model that a command asks, its client, and the remedy if that fails.

Rules of this file:
- The model comes from the options, else from `$TOOLWIRE_MODEL`, else from the user's settings file.
- A server that is not the vendor's own may need no key.
"""

import os
from typing import Any
from urllib.parse import urlsplit

from toolwire.client.failures import AuthenticationFailed, ProviderError
from toolwire.client.sync import Client
from toolwire.errors import UserError
from toolwire.providers import Provider, UnknownProvider, named, provider_of
from toolwire.wire.transport import Transport, url_without_secrets

_MODEL = "TOOLWIRE_MODEL"
_STARTS = {
    "ollama": "ollama serve",
    "ollama-v1": "ollama serve",
    "vllm": "vllm serve MODEL",
    "llama.cpp": "llama-server -m MODEL.gguf",
    "lmstudio": "lms server start",
}
_REFUSED = "transport_connect"


def client_of(
    provider: Any, model: str | None, base_url: str | None = None, transport: Transport | None = None
) -> Client:
    """Return a client for `provider` and `model`, at `base_url` if it is given.

    Without both, the default model is used. Raise UserError if there is none.
    """
    if provider is None and not model:
        provider, model, base_url = _default_target(base_url)
    if provider is None and model is None:
        raise UserError(f"name a model: --model PROVIDER/NAME, or --provider and --model, or ${_MODEL}")
    try:
        server, model_name = provider_of(provider, model)
    except UnknownProvider as problem:
        if provider is None:
            raise UserError(f"--model {model}: {problem}") from None
        raise
    if base_url is not None:
        server = server.with_options(base_url=base_url.rstrip("/"))
    server = with_stored_key(server)
    if server.lacks_key() and _is_elsewhere(server):
        server = server.with_options(api_key="")
    client = Client(server, model_name, transport=transport)
    client.upstream.warn_losses = False  # the losses are on the screen
    return client


def _default_target(base_url: str | None) -> tuple[str | None, str | None, str | None]:
    """Return the provider, the model and the address of `$TOOLWIRE_MODEL`, else of the user's settings file."""
    if model := os.environ.get(_MODEL):
        return None, model, base_url
    from toolwire.cli.settings_file import user_settings  # noqa: PLC0415 - only where no model is named

    cli = user_settings().cli
    return cli.provider, cli.model or None, base_url or cli.base_url


def _is_elsewhere(provider: Provider) -> bool:
    """Return True if the provider's host is not the vendor's own: such a server may need no key."""
    usual = named(provider.name)
    return usual is None or urlsplit(usual.base_url).hostname != urlsplit(provider.base_url).hostname


def with_stored_key(server: Provider) -> Provider:
    """Return the provider with the key that `toolwire auth` stored, if it lacks one and is the vendor's own server."""
    if not server.lacks_key() or _is_elsewhere(server):
        return server
    from toolwire.cli.stored_keys import stored_key  # noqa: PLC0415 - only where a key is lacking

    key = stored_key(server)
    return server if key is None else server.with_options(api_key=key)


def check_key(provider: Provider) -> None:
    """Raise UserError if `provider` needs an API key and has none."""
    if provider.lacks_key() and not _is_elsewhere(provider):
        variables = " or ".join(provider.env)
        raise UserError(f"there is no key: set {variables}, or toolwire auth set {provider.name}", path=provider.name)


def advice(problem: ProviderError, provider: Provider) -> str:
    """Return the remedy for `problem`, or an empty string if none is known."""
    if problem.error.code == _REFUSED:
        return no_server(provider)
    if isinstance(problem, AuthenticationFailed) and provider.env:
        return f"the key is that of {' or '.join(provider.env)}, or of toolwire auth"
    return ""


def no_server(provider: Provider, other_address: str = "pass its address by --base-url") -> str:
    """Return the message that nothing answers at the provider's address, with the two remedies."""
    command = _STARTS.get(provider.name)
    remedy = f"start it (`{command}`)" if command else "check the network"
    return f"nothing answers at {url_without_secrets(provider.base_url)}: {remedy}, or {other_address}"


def explain(problem: ProviderError, provider: Provider) -> str:
    """Return the message of `problem` and its remedy."""
    return "\n".join(filter(None, (str(problem), advice(problem, provider))))
