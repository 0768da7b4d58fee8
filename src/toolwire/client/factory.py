"""Clients by the names that other libraries use: a provider, a model, or a list of models to try.

Rules of this file:
- A name is a provider, or a model as everywhere (`providers.provider_of`).
- Without a name, the environment decides, and else it is the catalogue's first provider with its default model.
- `ollama` is used in OpenAI's format, which its users expect.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from toolwire.client.settings import ClientOptions
from toolwire.client.sync import Client
from toolwire.dialects import dialect
from toolwire.providers import Provider, catalogue, named, provider_of
from toolwire.providers.known import model_at
from toolwire.types import FinishReason, Message, Response, Text, ToolCall, Usage

_ENVIRONMENT = ("MODEL", "TOOLWIRE_MODEL", "VISHWA_MODEL")
_SERVED_BY = {"ollama": "ollama-v1"}
_SERVED = {served: name for name, served in _SERVED_BY.items()}


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
    """A `Response` under another name: every `Response` is an instance of it.

    >>> from toolwire import LLMResponse, Message, Response
    >>> isinstance(Response.of(Message("assistant", "Hi."), "stop"), LLMResponse)
    True
    """

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
            return Client(provider, model_at(_SERVED.get(provider, provider), model) if model else None, **options)
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
    if named(name) is not None:
        traits = catalogue.provider(name)
        return _SERVED_BY.get(name, name), traits.default_model if traits is not None else None
    provider, model = provider_of(name)
    return _SERVED_BY.get(provider.name, provider.name), model
