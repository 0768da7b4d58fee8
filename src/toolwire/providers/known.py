"""Where a model is and who serves it: providers as data, and how one is named.

Rules of this file:
- A provider is a value: nothing here opens a connection, asks on standard input, or fetches a model.
- A key is what was given, else what `put_key` was told, else what the environment holds under the provider's
  names; it is in no repr and in no message. An address that the environment says is taken for a preset's own.
- A name is a provider (`ollama`), a model with one (`anthropic/claude-sonnet-4-5`), or both apart. A `/` that
  follows no known provider belongs to the model.
"""

import os
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import dialect
from toolwire.errors import InvalidField, UserError
from toolwire.providers.catalogue import Model
from toolwire.wire.transport import url_without_secrets


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a server can do; each can be said otherwise for a client or a request.

    With `named_choice` it can be told which tools may be called, with `clearing` to clear old results itself.
    """

    native_tool_calls: bool = True
    parallel_tool_calls: bool = True
    tool_choice: bool = True
    named_choice: bool = True
    developer_role: bool = True
    structured_output: bool = True
    structured_output_with_tools: bool = False
    streaming: bool = True
    images: bool = True
    clearing: bool = False


class Provider(Struct, frozen=True, kw_only=True):
    """A server: its address, its dialect, and how it wants to be asked.

    `auth` is the header that carries the key, `env` the variables that may hold it, `base_url_env` the one
    that may say where the server is instead. `paths` says where the dialect's own paths are at this server,
    if elsewhere: a prefix that is replaced, and what takes its place.
    """

    name: str
    dialect: str
    base_url: str
    auth: str | None = "Authorization"
    env: tuple[str, ...] = ()
    base_url_env: str | None = None
    api_key: str | None = None
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    paths: tuple[tuple[str, str], ...] = ()
    quirks: dict[str, Any] = {}
    capabilities: Capabilities = Capabilities()
    local: bool = False
    default_model: str | None = None

    def __repr__(self) -> str:
        return f"Provider({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name), ("dialect", self.dialect), ("base_url", url_without_secrets(self.base_url))]

    def with_options(self, **options: Any) -> Self:
        """Give the provider with some of it said otherwise; maps are added to."""
        unknown = sorted(options.keys() - set(self.__struct_fields__))
        if unknown:
            known = ", ".join(self.__struct_fields__)
            raise InvalidField(unknown[0], f"is no option of a provider; there are: {known}", path=self.name)
        for name in ("headers", "query", "quirks"):
            if name in options:
                options[name] = {**getattr(self, name), **options[name]}
        if isinstance(options.get("capabilities"), Mapping):
            options["capabilities"] = replace(self.capabilities, **options["capabilities"])
        return replace(self, **options)

    @property
    def key(self) -> str | None:
        """The key: the one that was given, else that of this process, else that of the environment."""
        found = (os.environ.get(name) for name in self.env)
        return self.api_key or _KEYS.get(self.name) or next((key for key in found if key), None)

    def placed(self) -> Self:
        """Give the provider where the environment says that it is."""
        said = os.environ.get(self.base_url_env or "", "").strip()
        if not said:
            return self
        own = urlsplit(self.base_url)
        if "://" not in said:
            said = f"{own.scheme}://{said if ':' in said or own.port is None else f'{said}:{own.port}'}"
        path = urlsplit(said).path.rstrip("/")
        return replace(self, base_url=said.rstrip("/") + ("" if path else own.path))

    def speaks(self) -> Any:
        """Give the dialect, tuned to this server."""
        quirks = dict(self.quirks)
        if not self.capabilities.developer_role:
            quirks.setdefault("developer_role", False)
        return dialect(self.dialect, **quirks)


class UnknownProvider(UserError, LookupError):
    """A provider that nobody has told of; lists the known ones."""

    def __init__(self, name: object) -> None:
        self.name = name
        self.known = tuple(PROVIDERS)
        super().__init__(f"unknown provider {name!r}; known: {', '.join(self.known)}")


_KEYS: dict[str, str] = {}


def put_key(provider: str, key: str | None) -> None:
    """Keep the key of a provider for this process, or forget it; a key that a client is given comes first."""
    found = named(provider)
    if found is None:
        raise UnknownProvider(provider)
    if key is None:
        _KEYS.pop(found.name, None)
    else:
        _KEYS[found.name] = key


def _compatible(name: str, base_url: str, env: str | None, **more: Any) -> Provider:
    """Describe a server that speaks Chat Completions."""
    return Provider(
        name=name,
        dialect="openai-chat",
        base_url=base_url,
        env=(env,) if env else (),
        paths=(("/v1", ""),),
        **more,
    )


OLD = Capabilities(developer_role=False)
LOOSE = Capabilities(developer_role=False, tool_choice=False)
BOTH = Capabilities(structured_output_with_tools=True)
PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="openai",
            dialect="openai-chat",
            base_url="https://api.openai.com",
            env=("OPENAI_API_KEY",),
            base_url_env="OPENAI_BASE_URL",
            capabilities=BOTH,
        ),
        Provider(
            name="openai-responses",
            dialect="openai-responses",
            base_url="https://api.openai.com",
            env=("OPENAI_API_KEY",),
            base_url_env="OPENAI_BASE_URL",
            capabilities=BOTH,
        ),
        Provider(
            name="anthropic",
            dialect="anthropic",
            base_url="https://api.anthropic.com",
            env=("ANTHROPIC_API_KEY",),
            base_url_env="ANTHROPIC_BASE_URL",
            headers={"anthropic-version": "2026-10-21"},
            capabilities=Capabilities(structured_output_with_tools=True, clearing=True),
        ),
        Provider(
            name="gemini",
            dialect="gemini",
            base_url="https://generativelanguage.googleapis.com",
            auth="x-goog-api-key",
            env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            base_url_env="GOOGLE_GEMINI_BASE_URL",
            capabilities=BOTH,
        ),
        Provider(
            name="ollama",
            dialect="ollama",
            base_url="http://localhost:11434",
            env=("OLLAMA_API_KEY",),
            base_url_env="OLLAMA_HOST",
            capabilities=Capabilities(tool_choice=False),
            local=True,
        ),
        _compatible(
            "ollama-v1",
            "http://localhost:11434/v1",
            None,
            base_url_env="OLLAMA_HOST",
            api_key="ollama",
            capabilities=LOOSE,
            local=True,
        ),
        _compatible(
            "azure",
            "https://RESOURCE.openai.azure.com/openai/v1",
            "AZURE_OPENAI_API_KEY",
            auth="api-key",
            base_url_env="AZURE_OPENAI_ENDPOINT",
            capabilities=BOTH,
        ),
        _compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", capabilities=OLD),
        _compatible(
            "mistral",
            "https://api.mistral.ai/v1",
            "MISTRAL_API_KEY",
            capabilities=OLD,
            quirks={"max_tokens_key": "max_tokens"},
        ),
        _compatible(
            "deepseek",
            "https://api.deepseek.com",
            "DEEPSEEK_API_KEY",
            capabilities=Capabilities(developer_role=False, structured_output=False),
            quirks={"reasoning_key": "reasoning_content", "max_tokens_key": "max_tokens"},
        ),
        _compatible(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            quirks={"reasoning_key": "reasoning", "max_tokens_key": "max_tokens"},
        ),
        _compatible("xai", "https://api.x.ai/v1", "XAI_API_KEY", capabilities=OLD),
        _compatible("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", capabilities=OLD),
        _compatible("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", capabilities=OLD),
        _compatible("vllm", "http://localhost:8000/v1", "VLLM_API_KEY", capabilities=OLD, local=True),
        _compatible(
            "llama.cpp",
            "http://localhost:8080/v1",
            None,
            capabilities=Capabilities(developer_role=False, named_choice=False),
            quirks={"arguments_json": True},
            local=True,
        ),
        _compatible("lmstudio", "http://localhost:1234/v1", None, capabilities=OLD, local=True),
    )
}
ALIASES = {
    "responses": "openai-responses",
    "google": "gemini",
    "openai-chat": "openai",
    "llamacpp": "llama.cpp",
}


LEAST_MAX_TOKENS = 1024
# OpenAI's models that came before the first one that reasons, or beside it.
BEFORE_REASONING = ("gpt-3.5", "gpt-4", "chatgpt-4")


def named(name: str) -> Provider | None:
    """Find a provider by its name."""
    return PROVIDERS.get(ALIASES.get(name, name))


def quirks_of(name: str | None, known: Model | None) -> dict[str, Any]:
    """Say what is known of a model in the quirks that an encode minds; nothing where nothing is known."""
    quirks: dict[str, Any] = {}
    if known is not None and known.max_output is not None:
        quirks["default_max_tokens"] = max(known.max_output, LEAST_MAX_TOKENS)
    reasons = known.reasoning if known is not None else None
    if reasons is None and (name or "").rpartition("/")[2].startswith(BEFORE_REASONING):
        reasons = False
    if reasons is False or (known is not None and reasons and "openai" in known.providers):
        quirks["reasons"] = reasons
    return quirks


def provider_of(given: Any = None, model: str | None = None, **options: Any) -> tuple[Provider, str | None]:
    """Say which provider and which model are meant.

    `given` is a name, a `Provider`, or a map of its fields, which may name a preset under `name`; or a pair
    of one of these and a map of options. Without one, the model's own prefix says it.
    """
    if isinstance(given, str) and model is None and named(given) is None and "/" in given:
        given, model = None, given
    match given:
        case None:
            provider, model = _of_model(model)
        case Provider():
            provider = given
        case str():
            found = named(given)
            if found is None:
                raise UnknownProvider(given)
            provider = found.placed()
        case Mapping():
            provider = _of_map(given)
        case (first, Mapping() as said):
            return provider_of(first, model, **{**said, **options})
        case _:
            raise UnknownProvider(given)
    if model is not None and model.startswith(f"{provider.name}/"):
        model = model.removeprefix(f"{provider.name}/")
    provider = provider.with_options(**options) if options else provider
    return provider, model or provider.default_model


def _of_model(model: str | None) -> tuple[Provider, str | None]:
    prefix, slash, rest = (model or "").partition("/")
    found = named(prefix) if slash else None
    if found is None:
        raise UnknownProvider(prefix if slash else model)
    return found.placed(), rest


def _of_map(given: Mapping[str, Any]) -> Provider:
    fields = {str(key): value for key, value in given.items()}
    if "adapter" in fields:
        fields.setdefault("name", fields.pop("adapter"))
    preset = named(str(fields.get("name", "")))
    if preset is not None:
        return preset.placed().with_options(**{key: value for key, value in fields.items() if key != "name"})
    missing = [key for key in ("dialect", "base_url") if key not in fields]
    if missing:
        raise InvalidField(missing[0], "must be said of a provider that is not among the known ones", path="provider")
    made = Provider(
        name=str(fields.pop("name", "custom")), dialect=fields.pop("dialect"), base_url=fields.pop("base_url")
    )
    return made.with_options(**fields)
