"""Clients by the names that others give them: a provider, a model, or one of several that works.

Rules of this file:
- A name is a provider, a model of a provider (`anthropic/...`), or a model that the catalogue knows.
- Without a name, the environment says it, and else it is the catalogue's first provider with its default model.
- `ollama` is asked in the format of OpenAI, as its users know it.
"""

import os
from collections.abc import Sequence
from typing import Any, Unpack

from toolwire.client.settings import ClientOptions
from toolwire.client.sync import Client
from toolwire.dialects import dialect
from toolwire.providers import PROVIDERS, UnknownProvider, catalogue, named
from toolwire.types import FinishReason, Message, Response, Text, ToolCall, Usage

_ENVIRONMENT = ("MODEL", "TOOLWIRE_MODEL", "VISHWA_MODEL")
_SERVED_BY = {"ollama": "ollama-v1"}


class _AnyResponse(type(Response)):  # type: ignore[misc]
    """Makes every `Response` an instance, and a `Response` of the few fields that others have."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Response)

    def __call__(
        cls,
        content: str | None = None,
        tool_calls: Sequence[ToolCall] = (),
        finish_reason: FinishReason = "stop",
        model: str = "",
        usage: Usage | None = None,
    ) -> Response:
        """Make a response."""
        words = [] if content is None else [Text(content)]
        message = Message("assistant", [*words, *tool_calls])
        return Response.of(message, finish_reason, model=model, usage=usage)


class LLMResponse(Response, frozen=True, metaclass=_AnyResponse):
    """A `Response` by another name: every one is an instance."""

    @staticmethod
    def from_openai(body: dict[str, Any]) -> Response:
        """Read a body of Chat Completions."""
        return dialect("openai-chat").decode_response(body)

    @staticmethod
    def from_anthropic(body: dict[str, Any]) -> Response:
        """Read a body of Messages."""
        return dialect("anthropic").decode_response(body)


class LLMFactory:
    """Makes clients."""

    @staticmethod
    def create(name: str | None = None, /, **options: Unpack[ClientOptions]) -> Client:
        """Make a client of a provider, a model, or what the environment says."""
        return Client(*_meant(name), **options)

    @staticmethod
    def create_with_fallback(names: Sequence[str], **options: Unpack[ClientOptions]) -> Client:
        """Make a client that asks the next of these models where one fails before it has said anything."""
        return Client(["{}/{}".format(*_meant(name)) for name in names], **options)


def _meant(name: str | None) -> tuple[str, str | None]:
    """Say which provider and model a name means."""
    name = name or next(filter(None, map(os.environ.get, _ENVIRONMENT)), None) or catalogue.providers()[0].name
    provider, slash, model = name.partition("/")
    if named(name) is not None:
        traits = catalogue.provider(name)
        return _SERVED_BY.get(name, name), traits.default_model if traits is not None else None
    if slash and named(provider) is not None:
        return _SERVED_BY.get(provider, provider), model
    known = catalogue.model(name)
    owner = next((one for one in known.providers if one in PROVIDERS), None) if known is not None else None
    if owner is None:
        raise UnknownProvider(name)
    return _SERVED_BY.get(owner, owner), name
