"""Clients by the names that others give them: a provider, a model, or one of several that works.

Rules of this file:
- A name is a provider, a model of a provider (`anthropic/...`), or a model that the catalogue knows.
- A model goes by its own name to its server, whatever alias was said.
- Without a name, the environment says it, and else it is the catalogue's first provider with its default model.
- `ollama` is asked in the format of OpenAI, as its users know it.
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
    """Makes every `Response` an instance, and a `Response` of the few fields that others have."""

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
        words = [] if content is None else [Text(content)]
        message = Message("assistant", [*words, *tool_calls])
        return Response.of(message, finish_reason, model=model, usage=Usage.of(usage))


class LLMResponse(Response, frozen=True, metaclass=_AnyResponse):
    """A `Response` by another name: every `Response` is an instance of it."""

    @staticmethod
    def from_openai(body: dict[str, Any]) -> Response:
        """Read a body of Chat Completions."""
        return dialect("openai-chat").decode_response(body)

    @staticmethod
    def from_anthropic(body: dict[str, Any]) -> Response:
        """Read a body of Messages."""
        return dialect("anthropic").decode_response(body)


LLMProvider = Client
"""`Client` by another name."""


class LLMFactory:
    """Makes clients."""

    @staticmethod
    def create(name: str | None = None, /, *, model: str | None = None, **options: Unpack[ClientOptions]) -> Client:
        """Make a client of a provider and a model, or of those in the environment; `model=` names another model."""
        provider, usual = _meant(name)
        if model or not usual:
            return Client(provider, _model_of(model) if model else None, **options)
        return Client(f"{provider}/{usual}", **options)

    @staticmethod
    def create_with_fallback(names: Sequence[str], **options: Unpack[ClientOptions]) -> Client:
        """Make a client that asks the next of these models when one fails before its answer has begun.

        Options of the server hold for each of them; a key without an address holds for its own provider alone.
        """
        given: dict[str, Any] = dict(options)
        of_server = {name: given.pop(name) for name in Provider.__struct_fields__ if name in given}
        meant = [_meant(name) for name in names]
        others = {name: of_server[name] for name in of_server if name != "api_key" or "base_url" in of_server}
        return Client(
            [
                (f"{provider}/{model}" if model else provider, of_server if provider == meant[0][0] else others)
                for provider, model in meant
            ],
            **given,
        )


def _meant(name: str | None) -> tuple[str, str | None]:
    """Say which provider and which model a name means."""
    name = name or next(filter(None, map(os.environ.get, _ENVIRONMENT)), None) or catalogue.providers()[0].name
    provider, slash, model = name.partition("/")
    if named(name) is not None:
        traits = catalogue.provider(name)
        return _SERVED_BY.get(name, name), traits.default_model if traits is not None else None
    if slash and named(provider) is not None:
        return _SERVED_BY.get(provider, provider), _model_of(model, provider)
    known = _known(name)
    owner = next((one for one in known.providers if one in PROVIDERS), None) if known is not None else None
    if owner is None:
        raise UnknownProvider(name)
    return _SERVED_BY.get(owner, owner), _model_of(name)


def _model_of(name: str, provider: str | None = None) -> str:
    """Give a model's own name for an alias; any other name goes out as it is."""
    known = catalogue.model(name)
    return known.name if known is not None and (provider is None or provider in known.providers) else name


def _known(name: str) -> Any:
    """Find a model by its name, an alias, or its name and one of its sizes: `llama3.1:70b`."""
    known = catalogue.model(name)
    stem, _, size = name.partition(":")
    if known is None and (family := catalogue.model(stem)) is not None and size.upper() in family.parameter_sizes:
        return family
    return known
