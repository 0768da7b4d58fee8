"""Which server answers, and what to do where it does not.

Rule: an error says what would be right: the providers there are, the variable of a key, what to start.
"""

from typing import Any

from toolwire.client.failures import AuthenticationFailed, ProviderError
from toolwire.client.sync import Client
from toolwire.errors import UserError
from toolwire.providers import Provider, UnknownProvider, named, provider_of
from toolwire.wire.transport import url_without_secrets

STARTS = {
    "ollama": "ollama serve",
    "ollama-v1": "ollama serve",
    "vllm": "vllm serve MODEL",
    "llama.cpp": "llama-server -m MODEL.gguf",
    "lmstudio": "lms server start",
}
REFUSED = "transport_connect"


def client_of(provider: Any, model: str | None, base_url: str | None = None) -> Client:
    """Give a client; a base URL may end in /v1, as it does in the settings of other programs."""
    if provider is None and model is None:
        raise UserError("say which model: --model PROVIDER/NAME, or --provider and --model")
    try:
        found, chosen = provider_of(provider, model)
    except UnknownProvider as problem:
        if provider is None:
            raise UserError(f"say who serves {model!r}, by --provider or --model PROVIDER/NAME. {problem}") from None
        raise
    if base_url is not None:
        has_v1 = dict(found.paths).get("/v1") == ""
        place = base_url.rstrip("/")
        found = found.with_options(base_url=place if has_v1 else place.removesuffix("/v1"))
    return Client(found, chosen)


def check_key(provider: Provider) -> None:
    """Refuse to ask a provider that wants a key, if there is none; a server elsewhere may want none."""
    usual = named(provider.name)
    elsewhere = usual is None or usual.base_url != provider.base_url
    if not (provider.key or provider.local or elsewhere or not provider.env):
        raise UserError(f"there is no key: set {' or '.join(provider.env)}", path=provider.name)


def advice(problem: ProviderError, provider: Provider) -> str:
    """Say what helps against an error, where that is known."""
    if problem.error.code == REFUSED:
        place = url_without_secrets(provider.base_url)
        start = STARTS.get(provider.name)
        begin = f"start it (`{start}`)" if start else "check the network"
        return f"nothing answers at {place}: {begin}, or say where it is by --base-url"
    if isinstance(problem, AuthenticationFailed) and provider.env:
        return f"the key is that of {' or '.join(provider.env)}"
    return ""
