"""Providers as data: where a server is, what it can do, and how a user names it.

Rules of this file:
- The presets are the rows of `known.json`: the fields of a `Provider`, with their source and its date.
- A provider is a value: nothing here opens a connection, reads standard input, or fetches a model.
- A key is the one that was passed, else the one of `put_key`, else the one in the environment variables of the
  provider. It is in no repr and in no message. A base URL in the environment replaces that of a preset.
- A base URL is a scheme, a host and a path. A user, a query or a fragment in it is an error when the provider is made:
  the HTTP client would drop the key, or lose the path.
- A name is a provider (`ollama`), a model with its provider (`anthropic/claude-sonnet-5-5`, or with pydantic-ai's colon
  `anthropic:claude-sonnet-5-5`), a model that the catalogue knows (`gpt-4o`), or a provider and a model as two values.
  A `/` or a `:` after an unknown provider belongs to the model. A server receives the model's own name for an alias.
"""

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from toolwire.dialects import Dialect, dialect
from toolwire.encoding.families import family_of
from toolwire.encoding.quirk_options import QuirkOptions
from toolwire.errors import InvalidField, UserError, listed, suggestion
from toolwire.providers.catalogue import Model
from toolwire.providers.catalogue import model as catalogued
from toolwire.providers.catalogue import models as catalogue_models
from toolwire.types.readable import readable
from toolwire.wire.transport import url_without_secrets

PRESETS = Path(__file__).with_name("known.json")
_LEAST_MAX_TOKENS = 1024
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
# https://platform.claude.com/docs/en/api/versioning (2026-11-20).
_VERSION_HEADERS = {"anthropic": ("anthropic-version", "2026-10-21")}


class Capabilities(Struct, frozen=True, kw_only=True):
    """The features of a server. Each field can be set for a client or for a request.

    With `named_choice` a request can name the tools that may be called. With `custom_tools` the server accepts tools
    with free text, with `strict_tools` it accepts a tool's `strict`. With `clearing` it clears old results itself if
    asked. With `prompt_cache` it takes the key and the marks of OpenAI's prompt cache.

    >>> from toolwire import Capabilities, Client
    >>> client = Client("ollama", "m", capabilities=Capabilities(native_tool_calls=False))
    >>> client.provider.capabilities.native_tool_calls
    False
    """

    native_tool_calls: bool = True
    parallel_tool_calls: bool = True
    tool_choice: bool = True
    named_choice: bool = True
    developer_role: bool = True
    custom_tools: bool = False
    strict_tools: bool = True
    structured_output: bool = True
    structured_output_with_tools: bool = False
    streaming: bool = True
    images: bool = True
    clearing: bool = False
    prompt_cache: bool = False


class ServerOptions(TypedDict, total=False):
    """The address of a server, and what each request to it contains."""

    base_url: str
    """The address: a scheme, a host and a path."""
    api_key: str | None
    """The key. It comes before the key in the environment."""
    headers: Mapping[str, str]
    """Additional headers."""
    query: Mapping[str, str]
    """The query of each URL."""
    quirks: QuirkOptions | Mapping[str, object]
    """The deviations of the server from its dialect: fields of `Quirks`."""
    format: str
    """The format in which its models write calls in their text (`toolwire.text`)."""
    completions: str
    """The path of raw completions, if the server has only these: `/v1/completions`, or llama.cpp's `/completion`."""


class ProviderOptions(ServerOptions, total=False):
    """The fields of a provider that can be replaced.

    >>> from toolwire import Provider, ProviderOptions
    >>> options: ProviderOptions = {"name": "mine", "headers": {"X-Team": "blue"}}
    >>> Provider(name="server", dialect="openai-chat", base_url="https://llm.example").with_options(**options).name
    'mine'
    """

    name: str
    """The provider's name in errors and traces."""
    dialect: str
    """The wire that it speaks."""
    auth: str | None
    """The header that carries the key."""
    env: tuple[str, ...]
    """The environment variables that may hold the key."""
    base_url_env: str | None
    """The environment variable that may hold another address."""
    paths: tuple[tuple[str, str], ...]
    """Replacements for the beginning of the dialect's paths: pairs of a prefix and its replacement."""
    capabilities: Capabilities | Mapping[str, bool]
    """The features of the server. A map changes some of them."""
    local: bool
    """True if the server is on this machine."""
    default_model: str | None
    """The model that is used if the caller names none."""


@readable
class Provider(Struct, frozen=True, kw_only=True, dict=True):
    """A server: its address, its dialect, its key, and its deviations.

    `auth` is the header that carries the key, `env` the variables that may hold the key, `base_url_env` the variable
    that may hold another address. `paths` replaces the beginning of the dialect's paths: pairs of a prefix and its
    replacement. `format` is how the models write calls in their text (`toolwire.text`). With the path of raw
    `completions`, the whole conversation is written in that format.

    >>> from toolwire import Client, Provider
    >>> server = Provider(name="mine", dialect="openai-chat", base_url="https://llm.example/v1", api_key="sk-test")
    >>> Client(server, "my-model").provider.name
    'mine'
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
    format: str = ""
    completions: str = ""

    def __post_init__(self) -> None:
        _check_base_url(self.base_url, self.name)

    def __repr__(self) -> str:
        return f"Provider({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name), ("dialect", self.dialect), ("base_url", url_without_secrets(self.base_url))]

    def with_options(self, **fields: Unpack[ProviderOptions]) -> Self:
        """Return the provider with some fields replaced. Maps are merged with those of the provider.

        Raises `InvalidField` for an unknown field or a wrong value.
        """
        options: dict[str, Any] = dict(fields)
        self._refuse_unknown(sorted(options), self.__struct_fields__, "an option of a provider")
        for name in ("headers", "query", "quirks"):
            if not isinstance(options.get(name, {}), Mapping):
                raise InvalidField(name, f"must be a map, not {options[name]!r}", path=self.name)
            if name in options:
                options[name] = {**getattr(self, name), **options[name]}
        capabilities = self._capabilities_at(options.get("base_url", self.base_url))
        options["capabilities"] = self._with_capabilities(capabilities, options.get("capabilities", {}))
        provider = replace(self, **options)
        try:
            msgspec.convert(asdict(provider), Provider)
        except msgspec.ValidationError as problem:
            raise InvalidField("options", f"cannot be used: {problem}", path=self.name) from None
        return provider

    def _capabilities_at(self, url: Any) -> Capabilities:
        """Return the capabilities of a server at `url`.

        Another address than the preset's may not accept custom tools. It takes what belongs to OpenAI's prompt cache if
        it is the vendor's, or on this machine: a proxy passes it on, and local servers ignore it.
        """
        if url == self.base_url:
            return self.capabilities
        takes_cache = self.capabilities.prompt_cache and _belongs_to(url, self.base_url)
        return replace(self.capabilities, custom_tools=False, prompt_cache=takes_cache)

    def _with_capabilities(self, capabilities: Capabilities, changes: Any) -> Capabilities:
        """Return `capabilities` with the `changes` of the user."""
        if isinstance(changes, Capabilities):
            return changes
        known = Capabilities.__struct_fields__
        if not isinstance(changes, Mapping):
            raise InvalidField("capabilities", f"must be a map of {', '.join(known)}, not {changes!r}", path=self.name)
        self._refuse_unknown(changes, known, "a capability")
        return replace(capabilities, **changes)

    def _refuse_unknown(self, names: Iterable[str], known: tuple[str, ...], what: str) -> None:
        for name in names:
            if name not in known:
                raise InvalidField(name, f"is not {what}{listed(known, suggestion(name, known))}", path=self.name)

    @property
    def key(self) -> str | None:
        """The key: `api_key`, else that of this process (`put_key`) or of the environment.

        None if a header carries a login.
        """
        if self.api_key is not None or self._has_login():
            return self.api_key
        return _KEYS.get(self.name) or next(filter(None, map(os.environ.get, self.env)), None)

    def lacks_key(self) -> bool:
        """Return True if the server needs a key and there is none. With `api_key=""` it needs none."""
        if (self.key or "").strip() or self.api_key is not None or self.local or self.auth is None or not self.env:
            return False
        return not self._has_login()

    def _has_login(self) -> bool:
        """Return True if a header or the query carries a login."""
        names = {name.lower() for name in (*self.headers, *self.query)}
        return bool(names) and not names.isdisjoint({*_LOGINS, (self.auth or "authorization").lower()})

    def placed(self) -> Self:
        """Return the provider with the address of the environment, if there is one."""
        url = os.environ.get(self.base_url_env or "", "").strip()
        if not url:
            return self
        preset_url = urlsplit(self.base_url)
        if "://" not in url:
            url = (
                f"{preset_url.scheme}://{url if ':' in url or preset_url.port is None else f'{url}:{preset_url.port}'}"
            )
        _check_base_url(url, str(self.base_url_env))
        path = urlsplit(url).path.rstrip("/")
        url = url.rstrip("/") + ("" if path else preset_url.path)
        return replace(self, base_url=url, capabilities=self._capabilities_at(url))

    @cached_property
    def version_header(self) -> Mapping[str, str]:
        """The header with the version of the wire, for a wire that requires one."""
        if self.dialect not in _VERSION_HEADERS:
            return {}
        name, newest = _VERSION_HEADERS[self.dialect]
        version = {header.lower(): value for header, value in self.headers.items()}.get(name, newest)
        return {name: self.quirks.get("api_version") or version}

    def speaks(self) -> Dialect:
        """Return the dialect, adapted to this server."""
        return self._adapted_dialect

    @cached_property
    def _adapted_dialect(self) -> Dialect:
        quirks = dict(self.quirks)
        for capability in ("developer_role", "custom_tools"):
            if not getattr(self.capabilities, capability):
                quirks.setdefault(capability, False)
        if not self.capabilities.prompt_cache:
            quirks.setdefault("cache_marks", False)
        return dialect(self.dialect, **quirks)


def _belongs_to(url: Any, vendor_url: str) -> bool:
    """Return True if `url` is at the vendor's domain, or on this machine. An invalid URL is not."""
    try:
        host, vendor_host = urlsplit(url).hostname or "", urlsplit(vendor_url).hostname or ""
    except (ValueError, TypeError, AttributeError):
        return False
    domain = ".".join(vendor_host.split(".")[-2:])
    return host in _THIS_MACHINE or host == domain or str(host).endswith(f".{domain}")


def _check_base_url(url: Any, path: str) -> None:
    """Raise `InvalidField` if an address is more than a scheme, a host and a path. The message does not repeat it."""
    if not isinstance(url, str):
        raise InvalidField("base_url", f"must be a string, not {type(url).__name__}", path=path)
    try:
        parts = urlsplit(url)
        host, _port = parts.netloc, parts.port
    except ValueError:
        raise InvalidField("base_url", "is not a URL; write it like https://host/path", path=path) from None
    if not (parts.scheme and host and url.isprintable()):
        raise InvalidField("base_url", "is not a URL; write it like https://host/path", path=path)
    if "@" in host:
        extra, instead = "a user or a password", "a key goes into `api_key`, any other login into `headers`"
    elif "#" in url:
        extra, instead = "a fragment (`#`)", "write only https://host/path"
    elif "?" in url:
        extra, instead = "a query (`?`)", "it goes into `query`, a map of names and values"
    else:
        return
    raise InvalidField("base_url", f"has {extra}, which a base URL must not have: {instead}", path=path)


class UnknownProvider(UserError, LookupError):
    """An unknown provider. The message lists the known ones."""

    def __init__(self, name: object, hint: str = "") -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(PROVIDERS)
        known_names = listed(self.known, hint or suggestion(name, [*PROVIDERS, *ALIASES]), "known")
        super().__init__(f"unknown provider {name!r}{known_names}")


_LOGINS = ("authorization", "x-api-key", "api-key", "key")
_KEYS: dict[str, str] = {}


def put_key(provider: str, key: str | None) -> None:
    """Store the `key` of `provider` for this process, or delete it with None. The `api_key` of a client comes first.

    Raises `UnknownProvider` for a name that is not that of a known provider.

    >>> from toolwire.providers import put_key
    >>> put_key("openai", "sk-test")
    >>> put_key("openai", None)
    """
    preset = named(provider)
    if preset is None:
        raise UnknownProvider(provider)
    if key is None:
        _KEYS.pop(preset.name, None)
    else:
        _KEYS[preset.name] = key


PROVIDERS: dict[str, Provider] = {
    preset.name: preset for preset in msgspec.json.decode(PRESETS.read_bytes(), type=list[Provider])
}
"""The known providers by name."""
ALIASES = {"responses": "openai-responses", "google": "gemini", "openai-chat": "openai", "llamacpp": "llama.cpp"}
"""Other names of known providers."""


def named(name: str) -> Provider | None:
    """Return the known provider with this `name` or alias, or None.

    >>> from toolwire import providers
    >>> providers.named("groq").base_url
    'https://api.groq.com/openai/v1'
    """
    return PROVIDERS.get(ALIASES.get(name, name))


def quirks_of(name: str | None, known: Model | None) -> dict[str, Any]:
    """Return the quirks of the model `name` that its catalogue entry `known` or its family has.

    >>> from toolwire.providers import quirks_of
    >>> quirks_of("an-unknown-model", None)
    {}
    """
    quirks: dict[str, Any] = {}
    if known is not None and known.max_output is not None:
        quirks["default_max_tokens"] = max(known.max_output, _LEAST_MAX_TOKENS)
    if known is not None and known.reasoning is not None:
        reasoning = None if known.reasoning and "openai" not in known.providers else known.reasoning
    else:
        family = family_of(name)
        reasoning = None if family.reasons_unasked is False else family.reasons
    if reasoning is not None:
        quirks["reasons"] = reasoning
    return quirks


AnyProvider = str | Provider | Mapping[str, Any] | tuple[str | Provider | Mapping[str, Any], Mapping[str, Any]]
"""A provider: a name, a value, a map of its fields, or a pair of one of these and a map of options."""


def provider_of(
    given: AnyProvider | None = None, model: str | None = None, **options: Unpack[ProviderOptions]
) -> tuple[Provider, str | None]:
    """Return the provider and the model, with `options` in place of the fields of the same names.

    `given` is a name, a `Provider`, a map of its fields with the name of a preset under `name`, or a pair of one of
    these and a map of options. Without `given`, the prefix of `model` names the provider, or the catalogue does; a
    single text may be either. Raises `UnknownProvider`, or `InvalidField` for a wrong option.

    >>> from toolwire.providers import provider_of
    >>> provider, model = provider_of(model="groq/llama-4")
    >>> (provider.name, model)
    ('groq', 'llama-4')
    >>> provider_of("gpt-4o")[1]
    'gpt-4o'
    >>> provider_of({"dialect": "openai-chat", "base_url": "https://llm.example/v1"})[0].dialect
    'openai-chat'
    """
    if model is not None and not isinstance(model, str):
        raise InvalidField("model", f"must be a string, not {type(model).__name__}")
    if isinstance(given, str) and model is None and named(given) is None:
        given, model = None, given
    match given:
        case None:
            target = target_of(model) if model else None
            if target is None:
                raise _missing_provider(model)
            provider = _preset(target[0], options)
            return _with_own_options(provider, options), own_name(provider.name, target[1]) or provider.default_model
        case Provider():
            provider = given
        case str():
            provider = _preset(given, options)
        case Mapping():
            provider = _of_map(given)
        case (first, Mapping() as fields):
            return provider_of(first, model, **{**fields, **options})
        case _:
            raise UnknownProvider(given)
    name = None if model is None else model_at(provider.name, model)
    return _with_own_options(provider, options), name or provider.default_model


def _with_own_options(provider: Provider, options: Any) -> Provider:
    return provider.with_options(**options) if options else provider


def target_of(name: str) -> tuple[str, str] | None:
    """Return the provider and the model that one text names, or None if it names no known provider and no known model.

    The text is `PROVIDER/MODEL`, `PROVIDER:MODEL`, or a model that the catalogue knows.
    """
    prefix, slash, rest = name.partition("/")
    if slash and named(prefix) is not None:
        return prefix, rest
    known = _catalogued(name)
    owner = next((one for one in known.providers if one in PROVIDERS), None) if known is not None else None
    if owner is not None:
        return owner, name
    prefix, colon, rest = name.partition(":")
    return (prefix, rest) if colon and named(prefix) is not None else None


def model_at(provider: str, name: str) -> str:
    """Return the name of a model of a named provider: without the provider's prefix, and not by an alias."""
    rest = name.removeprefix(f"{provider}/")
    if rest == name and _catalogued(name) is None:
        rest = name.removeprefix(f"{provider}:")
    return own_name(provider, rest)


def own_name(provider: str, name: str) -> str:
    """Return the name by which a provider knows a model; for an alias of the catalogue, that of its entry."""
    known = catalogued(name)
    return known.name if known is not None and provider in known.providers else name


def _catalogued(name: str) -> Model | None:
    """Return the model of a name, an alias, or a name with one of its sizes (`llama3.1:70b`)."""
    known, (stem, _, size) = catalogued(name), name.partition(":")
    if known is None and (family := catalogued(stem)) is not None and size.upper() in family.parameter_sizes:
        return family
    return known


def _missing_provider(model: str | None) -> UserError:
    """Return the error for a model without its provider, with the way to write it."""
    if model is None:
        return UnknownProvider(model, "pass provider=NAME, or model=PROVIDER/NAME")
    preset = named(model)
    if preset is not None:
        return InvalidField("model", f"{model!r} is a provider: write {model}/MODEL", path=preset.name)
    prefix, separator, _ = model.replace(":", "/").partition("/")
    known = [*PROVIDERS, *ALIASES] if separator else [one.name for one in catalogue_models()]
    hint = suggestion(prefix, known)
    return UnknownProvider(model, hint or f"write a model with its provider: PROVIDER/{model}")


def _preset(name: str, options: Mapping[str, object]) -> Provider:
    """Return a preset, at the address of the environment unless `options` has a `base_url`."""
    preset = named(name)
    if preset is None:
        raise UnknownProvider(name)
    return preset if "base_url" in options else preset.placed()


def _of_map(given: Mapping[str, Any]) -> Provider:
    fields: Any = {str(key): value for key, value in given.items()}
    if "adapter" in fields:
        fields.setdefault("name", fields.pop("adapter"))
    name = str(fields.pop("name", "custom"))
    if named(name) is not None:
        return _preset(name, fields).with_options(**fields)
    for field in ("dialect", "base_url"):
        if field not in fields:
            raise InvalidField(field, "is needed for a provider that is not a known one", path="provider")
    custom = Provider(name=name, dialect=fields.pop("dialect"), base_url=fields.pop("base_url"))
    return custom.with_options(**fields)
