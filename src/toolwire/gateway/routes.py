"""What a client's model name leads to: providers in order, each with the model that it is asked for.

Rules of this file:
- A name leads where a table says: a route of the settings, or PROVIDER/MODEL of a provider that has its key.
- A name with characters that no model has is nobody's: it becomes no part of an address.
- It is pure: variables and files of keys were read by whoever makes the table.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from toolwire.config import MODEL_NAME, GatewaySettings, ProviderSettings, RouteSettings
from toolwire.dialects import dialect
from toolwire.errors import InvalidField, did_you_mean
from toolwire.gateway.wording import check_format
from toolwire.providers import PROVIDERS, Provider, named
from toolwire.providers.addressing import headers_of
from toolwire.providers.catalogue import models

_LONGEST = 256
_MOST_FOUND = 1024
_PLAIN = RouteSettings([])


class Goal(Struct, frozen=True):
    """A provider, and the model that it is asked for; with a `format`, it is one that only writes text."""

    provider: Provider
    model: str
    weight: float = 0.0
    format: str = ""
    name: str = ""  # as settings and answers name it

    def __post_init__(self) -> None:
        force_setattr(self, "name", f"{self.provider.name}/{self.model}")


class Upward(Struct, frozen=True):
    """The way to providers: a proxy but for some hosts, and whom to trust beside the system's authorities."""

    proxy: str = ""
    direct: frozenset[str] = frozenset()
    trusted: Any = None


class FoundRoute(Struct, frozen=True):
    """Where a client's model name leads."""

    name: str
    goals: tuple[Goal, ...]
    settings: RouteSettings = _PLAIN


class Routes:
    """The table of model names.

    `everything` is where a name goes that nothing else knows: a provider, or a model that is asked in its place.
    """

    def __init__(self, settings: GatewaySettings, providers: Mapping[str, Provider], everything: str = "") -> None:
        self.providers: Mapping[str, Provider] = providers
        self._everything = everything
        self._headers: dict[str, dict[str, str]] = {}
        self._found: dict[str, FoundRoute] = {}  # what was asked for before
        self._ways = {
            name: FoundRoute(name, tuple(self._goals(name, route)), route) for name, route in settings.routes.items()
        }
        dialects = Counter(provider.dialect for provider in providers.values())
        self.shared: frozenset[str] = frozenset(name for name, count in dialects.items() if count > 1)

    def _goals(self, route_name: str, route: RouteSettings) -> Iterator[Goal]:
        if route.format:
            check_format(route.format, f"routes.{route_name}")
        for target in route.to:
            name, weight = (target, 0.0) if isinstance(target, str) else (target.model, target.weight)
            goal = self._goal(name)
            if goal is None:
                raise InvalidField(
                    "to", f"names {name}: {self._lacking(name.partition('/')[0])}", path=f"routes.{route_name}"
                )
            yield replace(goal, weight=weight, format=route.format) if weight or route.format else goal

    def _goal(self, name: str) -> Goal | None:
        provider, slash, model = name.partition("/")
        known = self.providers.get(provider)
        return Goal(known, model) if slash and model and known is not None else None

    def _lacking(self, provider: str) -> str:
        """Say why there is no such provider."""
        known = named(provider)
        if known is not None and known.env:
            return f"there is no provider {provider!r} without a key: export {known.env[0]}=..."
        return f"there is no provider {provider!r}{did_you_mean(provider, [*self.providers, *PROVIDERS])}"

    def find(self, name: str) -> FoundRoute | None:
        """Say where a client's model name leads; None where it leads nowhere."""
        if (kept := self._ways.get(name) or self._found.get(name)) is not None:
            return kept
        if len(name) > _LONGEST or not MODEL_NAME.fullmatch(name):
            return None
        goal = self._goal(name)
        if goal is None and self._everything:
            if self._everything in self._ways:
                return self._ways[self._everything]
            goal = self._goal(self._everything) or Goal(self.providers[self._everything], name)
        if goal is None:
            return None
        if len(self._found) >= _MOST_FOUND:
            self._found.clear()
        self._found[name] = FoundRoute(name, (goal,))
        return self._found[name]

    def headers(self, provider: Provider) -> dict[str, str]:
        """Give the headers of a request to one of the providers, in small letters; they are made once."""
        if provider.name not in self._headers:
            self._headers[provider.name] = {name.lower(): value for name, value in headers_of(provider).items()}
        return self._headers[provider.name].copy()

    def knows(self, name: str) -> bool:
        """Whether a name is a route, or one of a provider's."""
        return name in self._ways or self._goal(name) is not None

    def names(self) -> list[str]:
        """List the names that can be asked for: those of the routes, and the known models of each provider."""
        known = [f"{name}/{model.name}" for name in self.providers for model in models(name)]
        return [*self._ways, *known]


def providers_of(settings: GatewaySettings, environ: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, Provider]:
    """Make the providers: those of the settings, and each known one whose key is in the environment.

    `keys` are those that were read from files, by provider.
    """
    made: dict[str, Provider] = {}
    for preset in PROVIDERS.values():
        if preset.local or any(environ.get(name) for name in preset.env):
            made[preset.name] = preset.placed()
    for name, said in settings.providers.items():
        try:
            made[name] = _provider_of(name, said, environ, keys)
            made[name].speaks()
            headers_of(made[name])
        except InvalidField as problem:
            raise InvalidField(problem.field, problem.reason, path=f"providers.{name}") from None
    return made


def _provider_of(name: str, said: ProviderSettings, environ: Mapping[str, str], keys: Mapping[str, str]) -> Provider:
    """Make a provider of the settings."""
    fields = ("base_url", "headers", "query", "quirks", "capabilities", "format", "completions")
    options: dict[str, Any] = {"name": name, **{key: value for key in fields if (value := getattr(said, key))}}
    if said.dialect:
        options["dialect"] = dialect(said.dialect).DIALECT
    if said.key:
        variable = said.key.removeprefix("$")
        if not environ.get(variable):
            raise InvalidField("key", f"names a variable, but {variable} is not set")
        options["api_key"] = environ[variable]
    elif said.key_file:
        options["api_key"] = keys[name]
    if said.format or said.completions:
        check_format(said.format, f"providers.{name}")
    preset = named(name)
    if preset is not None:
        return preset.with_options(**options)
    for field in ("base_url", "dialect"):
        if field not in options:
            raise InvalidField(field, "is missing: a provider that is not known says where it is, and its dialect")
    return Provider(local=True, **{key: options.pop(key) for key in ("name", "dialect", "base_url")}).with_options(
        **options
    )
