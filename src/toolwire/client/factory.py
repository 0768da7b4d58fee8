"""Clients by the names that other libraries use: a provider, a model, or a list of models to try.

Rules of this file:
- A name is a provider, a model of a provider (`anthropic/...`), or a model that the catalogue knows.
- A server receives the model's own name, also for an alias.
- Without a name, the environment decides, and else it is the catalogue's first provider with its default model.
- `ollama` is used in OpenAI's format, which its users expect.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from toolwire.client.settings import ClientOptions
from toolwire.client.sync import Client
from toolwire.dialects import dialect
from toolwire.providers import PROVIDERS, Provider, UnknownProvider, catalogue, named
from toolwire.types import FinishReason, Message, Response, Text, ToolCall, Usage

_ENVIRONMENT = ("MODEL", "TOOLWIRE_MODEL", "VISHWA_MODEL")
_SERVED_BY = {"ollama": "ollama-v1"}


class _AnyResponse(type(Response)):  # type: ignore[misc]
    """Makes every `Response` an instance, and constructs a `Response` from the few fields that other libraries have."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Response)

    def __call__(
        cls,
        content: str | None = None,
        tool_calls: Sequence[ToolCall] = (),
        finish_reason: FinishReason = "stop",
        model: str = "",
        usage: Usage | Mapping[str, Any] | None = None,
    ) -> Response:
        texts = [] if content is None else [Text(content)]
        message = Message("assistant", [*texts, *tool_calls])
        return Response.of(message, finish_reason, model=model, usage=Usage.of(usage))


class LLMResponse(Response, frozen=True, metaclass=_AnyResponse):
    """A `Response` under another name: every `Response` is an instance of it."""

    @staticmethod
    def from_openai(body: dict[str, Any]) -> Response:
        """Return the response of a Chat Completions body."""
        return dialect("openai-chat").decode_response(body)

    @staticmethod
    def from_anthropic(body: dict[str, Any]) -> Response:
        """Return the response of a Messages body."""
        return dialect("anthropic").decode_response(body)


LLMProvider = Client
"""`Client` under another name."""


class LLMFactory:
    """Creates clients.

    >>> from toolwire import LLMFactory
    >>> client = LLMFactory.create("ollama", model="llama3.1")
    >>> (client.provider.name, client.model)
    ('ollama-v1', 'llama3.1')
    """

    @staticmethod
    def create(name: str | None = None, /, *, model: str | None = None, **options: Unpack[ClientOptions]) -> Client:
        """Return a client for the provider or model `name`, or the one of the environment; `model` names another model.

        Raise UnknownProvider if the name is unknown.
        """
        provider, default_model = _resolve_name(name)
        if model or not default_model:
            return Client(provider, _model_of(model) if model else None, **options)
        return Client(f"{provider}/{default_model}", **options)

    @staticmethod
    def create_with_fallback(names: Sequence[str], **options: Unpack[ClientOptions]) -> Client:
        """Return a client that asks the next of these models when one fails before its answer has begun.

        Options of the server apply to each of them. A key without an address applies to its own provider only.
        """
        client_options: dict[str, Any] = dict(options)
        server_options = {
            name: client_options.pop(name) for name in Provider.__struct_fields__ if name in client_options
        }
        targets = [_resolve_name(name) for name in names]
        others = {
            name: server_options[name] for name in server_options if name != "api_key" or "base_url" in server_options
        }
        return Client(
            [
                (f"{provider}/{model}" if model else provider, server_options if provider == targets[0][0] else others)
                for provider, model in targets
            ],
            **client_options,
        )


def _resolve_name(name: str | None) -> tuple[str, str | None]:
    """Return the provider and the model that a name means."""
    name = name or next(filter(None, map(os.environ.get, _ENVIRONMENT)), None) or catalogue.providers()[0].name
    provider, slash, model = name.partition("/")
    if named(name) is not None:
        traits = catalogue.provider(name)
        return _SERVED_BY.get(name, name), traits.default_model if traits is not None else None
    if slash and named(provider) is not None:
        return _SERVED_BY.get(provider, provider), _model_of(model, provider)
    known = _find_model(name)
    owner = next((one for one in known.providers if one in PROVIDERS), None) if known is not None else None
    if owner is None:
        raise UnknownProvider(name)
    return _SERVED_BY.get(owner, owner), _model_of(name)


def _model_of(name: str, provider: str | None = None) -> str:
    """Return a model's own name for an alias; return any other name unchanged."""
    known = catalogue.model(name)
    return known.name if known is not None and (provider is None or provider in known.providers) else name


def _find_model(name: str) -> Any:
    """Return the model of a name, an alias, or a name with one of its sizes: `llama3.1:70b`."""
    known = catalogue.model(name)
    stem, _, size = name.partition(":")
    if known is None and (family := catalogue.model(stem)) is not None and size.upper() in family.parameter_sizes:
        return family
    return known
