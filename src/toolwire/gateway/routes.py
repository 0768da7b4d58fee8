"""The table of model names: which providers serve a name, in order, and with which model.

Rules of this file:
- A name is a route of the settings, or PROVIDER/MODEL of a provider that has its key.
- A route with `*` in its name serves every name that matches. Its targets may have a `*` for the same text. A name
  without `*` comes first, then the longest name with one, then PROVIDER/MODEL, then the route `*`.
- A name with characters that no model name has is unknown, so that it never becomes part of an address.
- This module is pure: the caller reads the variables and the key files.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from toolwire.config import MODEL_NAME, GatewaySettings, ProviderSettings, RouteSettings
from toolwire.config.settings import is_base_url
from toolwire.dialects import dialect
from toolwire.errors import InvalidField, did_you_mean
from toolwire.gateway.text_format import check_format
from toolwire.providers import PROVIDERS, Provider, named
from toolwire.providers.addressing import headers_of
from toolwire.providers.catalogue import models

_LONGEST = 256
_MAX_RESOLVED = 1024
_DEFAULT_SETTINGS = RouteSettings([])
_CATCH_ALL = "*"


class Candidate(Struct, frozen=True):
    """A provider and one of its models, to which a request may be sent. With `format`, the model only writes text."""

    provider: Provider
    model: str
    weight: float = 0.0
    format: str = ""
    name: str = ""  # PROVIDER/MODEL, as settings and answers name it

    def __post_init__(self) -> None:
        force_setattr(self, "name", f"{self.provider.name}/{self.model}")


class UpstreamNetwork(Struct, frozen=True):
    """How connections to providers are made: the proxy, the hosts without it (`direct`), and additional authorities."""

    proxy: str = ""
    direct: frozenset[str] = frozenset()
    trusted: Any = None


class ResolvedRoute(Struct, frozen=True):
    """The candidates and the settings of a model name."""

    name: str
    candidates: tuple[Candidate, ...]
    settings: RouteSettings = _DEFAULT_SETTINGS


class Routes:
    """The table of model names.

    `everything` serves each name that is not in the table: a route, a provider, or PROVIDER/MODEL.
    """

    def __init__(self, settings: GatewaySettings, providers: Mapping[str, Provider], everything: str = "") -> None:
        self.providers: Mapping[str, Provider] = providers
        self._everything = everything
        self._headers: dict[str, dict[str, str]] = {}
        self._resolved: dict[str, ResolvedRoute] = {}  # names that were resolved before
        routes = {
            name: ResolvedRoute(name, tuple(self._candidates(name, route)), route)
            for name, route in settings.routes.items()
        }
        self._routes = {name: route for name, route in routes.items() if "*" not in name}
        self._patterns = [routes[name] for name in sorted(routes, key=len, reverse=True) if "*" in name]
        dialects = Counter(provider.dialect for provider in providers.values())
        self.shared: frozenset[str] = frozenset(name for name, count in dialects.items() if count > 1)

    def _candidates(self, route_name: str, route: RouteSettings) -> Iterator[Candidate]:
        if route.format:
            check_format(route.format, f"routes.{route_name}")
        for target in route.to:
            name, weight = (target, 0.0) if isinstance(target, str) else (target.model, target.weight)
            candidate = self._candidate(name)
            if candidate is None:
                raise InvalidField(
                    "to", f"names {name}: {self._why_missing(name.partition('/')[0])}", path=f"routes.{route_name}"
                )
            yield replace(candidate, weight=weight, format=route.format) if weight or route.format else candidate

    def _candidate(self, name: str) -> Candidate | None:
        provider, slash, model = name.partition("/")
        known = self.providers.get(provider)
        return Candidate(known, model) if slash and model and known is not None else None

    def _why_missing(self, provider: str) -> str:
        """Return why there is no such provider."""
        known = named(provider)
        if known is not None and known.env:
            return f"there is no provider {provider!r} without a key: export {known.env[0]}=..."
        return f"there is no provider {provider!r}{did_you_mean(provider, [*self.providers, *PROVIDERS])}"

    def find(self, name: str) -> ResolvedRoute | None:
        """Return the route of a model name, or None if the name is unknown."""
        if (known := self._routes.get(name) or self._resolved.get(name)) is not None:
            return known
        if len(name) > _LONGEST or not MODEL_NAME.fullmatch(name):
            return None
        route = self._resolve(name)
        if route is None or route.name != name:
            return route
        if len(self._resolved) >= _MAX_RESOLVED:
            self._resolved.clear()
        self._resolved[name] = route
        return route

    def _resolve(self, name: str) -> ResolvedRoute | None:
        """Return the route of a name that has no route of its own."""
        if (route := self._known(name)) is not None or not self._everything:
            return route
        if self._everything in self._routes:
            return self._routes[self._everything]
        candidate = self._candidate(self._everything) or Candidate(self.providers[self._everything], name)
        return ResolvedRoute(name, (candidate,))

    def _known(self, name: str) -> ResolvedRoute | None:
        """Return the route that a pattern or a provider has for `name`."""
        matching = list(filter(None, (_filled(route, name) for route in self._patterns)))
        candidate = None if matching and matching[0][0] != _CATCH_ALL else self._candidate(name)
        if candidate is not None:
            return ResolvedRoute(name, (candidate,))
        return matching[0][1] if matching else None

    def headers(self, provider: Provider) -> dict[str, str]:
        """Return the headers of a request to `provider`, in lower case. They are made once."""
        if provider.name not in self._headers:
            self._headers[provider.name] = {name.lower(): value for name, value in headers_of(provider).items()}
        return self._headers[provider.name].copy()

    def knows(self, name: str) -> bool:
        """Return True if `name` is a route, or a model of a provider."""
        return name in self._routes or self._known(name) is not None

    def names(self) -> list[str]:
        """Return the names that clients can use: those of the routes, and the known models of each provider."""
        known = [f"{name}/{model.name}" for name in self.providers for model in models(name)]
        return [*self._routes, *known]


def _filled(route: ResolvedRoute, name: str) -> tuple[str, ResolvedRoute] | None:
    """Return a route with a `*` and its own name, with the text that `name` has there in place of each `*`.

    Return None if `name` does not match, or if a target would get a name that no model has.
    """
    before, _, after = route.name.partition("*")
    text = name.removeprefix(before).removesuffix(after)
    if not text or name != before + text + after:
        return None
    candidates = tuple(
        Candidate(one.provider, one.model.replace("*", text), one.weight, one.format) for one in route.candidates
    )
    if not all(MODEL_NAME.fullmatch(one.name) for one in candidates):
        return None
    return route.name, ResolvedRoute(name, candidates, route.settings)


def providers_of(settings: GatewaySettings, environ: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, Provider]:
    """Return the providers: those of the settings, and each known one whose key is in the environment.

    `keys` are the keys that were read from files, by provider.
    """
    providers: dict[str, Provider] = {}
    for preset in PROVIDERS.values():
        if preset.local or any(environ.get(name) for name in preset.env):
            providers[preset.name] = preset.placed()
    for name, provider_settings in settings.providers.items():
        try:
            providers[name] = _provider_of(name, provider_settings, environ, keys)
            providers[name].speaks()
            headers_of(providers[name])
        except InvalidField as problem:
            raise InvalidField(problem.field, problem.reason, path=f"providers.{name}") from None
    return providers


def _provider_of(
    name: str, provider_settings: ProviderSettings, environ: Mapping[str, str], keys: Mapping[str, str]
) -> Provider:
    """Return the provider of a section of the settings."""
    preset = _preset_of(name, provider_settings.like)
    fields = ("base_url", "headers", "query", "quirks", "capabilities", "format", "completions")
    options: dict[str, Any] = {
        "name": name,
        **{key: value for key in fields if (value := getattr(provider_settings, key))},
    }
    if provider_settings.base_url.startswith("$"):
        options["base_url"] = _base_url_in(provider_settings.base_url.removeprefix("$"), preset, environ)
    if provider_settings.dialect:
        options["dialect"] = dialect(provider_settings.dialect).DIALECT
    if provider_settings.key:
        variable = provider_settings.key.removeprefix("$")
        if not environ.get(variable):
            raise InvalidField("key", f"names a variable, but {variable} is not set")
        options["api_key"] = environ[variable]
    elif provider_settings.key_file:
        options["api_key"] = keys[name]
    if provider_settings.format or provider_settings.completions:
        check_format(provider_settings.format, f"providers.{name}")
    if preset is not None:
        return (preset if "base_url" in options else preset.placed()).with_options(**options)
    for field in ("base_url", "dialect"):
        if field not in options:
            raise InvalidField(field, "is missing: an unknown provider needs a base_url and a dialect")
    return Provider(local=True, **{key: options.pop(key) for key in ("name", "dialect", "base_url")}).with_options(
        **options
    )


def _preset_of(name: str, like: str) -> Provider | None:
    """Return the known provider of a section: the one that `like` names, or the one of the section's name."""
    preset = named(like or name)
    if like and preset is None:
        hint = did_you_mean(like, [*PROVIDERS]) or f"; there are: {', '.join(PROVIDERS)}"
        raise InvalidField("like", f"{like!r} is not a known provider{hint}")
    return preset


def _base_url_in(variable: str, preset: Provider | None, environ: Mapping[str, str]) -> str:
    """Return the address in a variable. One without a path gets the path of the known provider."""
    url = environ.get(variable, "").strip().rstrip("/")
    if not url:
        raise InvalidField("base_url", f"names a variable, but {variable} is not set")
    if not is_base_url(url):
        raise InvalidField("base_url", f"must be like https://host/path, and {variable} holds something else")
    return url if preset is None or urlsplit(url).path else url + urlsplit(preset.base_url).path
