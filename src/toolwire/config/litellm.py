"""Import of the settings of LiteLLM's proxy. A setting with the same meaning is converted; every other one is listed.

Rules of this file:
- Nothing is guessed: a setting that is not in a table is listed with its path, and with the reason.
- A key in the file is not converted. A variable is.

Sources: docs.litellm.ai/docs/proxy/configs, as of 2026-11-22, and docs/proxy/config_settings, as of 2026-10-13. How
deployments share requests: litellm/router_strategy/simple_shuffle.py. Names with `*`:
litellm/router_utils/pattern_match_deployments.py.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeGuard

from toolwire.config.litellm_providers import READ_PARAMETERS, ProviderSections, is_azure
from toolwire.config.litellm_reasons import reason_of, reason_of_parameter, reason_of_setting, reason_of_share
from toolwire.config.settings import MODEL_NAME

_PRICES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_long",
}
_ENTRY_FIELDS = frozenset({"model_name", "litellm_params", "model_info"})
_RANKS = ("weight", "order")
_SHARES = ("rpm", "tpm")  # without weights, the default strategy shares requests by the first one that is set
_READ_FIELDS = READ_PARAMETERS | {*_RANKS, *_PRICES, "litellm_credential_name"}
# Each of them is in either section; the one of the router counts.
_LISTS = ("model_list", "credential_list")
_SECTIONS = ("router_settings", "litellm_settings")
_DEFAULT_STRATEGY = "simple-shuffle"
_ANY = "*"


class _Import:
    """The result of an import: the converted sections, and the list of what was not converted."""

    def __init__(self, tables: Mapping[Any, Any]) -> None:
        self.tables = tables
        self.unconverted: list[str] = []
        self.providers = ProviderSections(self.unconverted)
        self.targets: dict[str, list[dict[str, Any]]] = {}
        self.prices: dict[str, dict[str, float]] = {}
        self.on_context: dict[str, str] = {}
        self._credentials: dict[Any, dict[Any, Any]] = {}
        self._fallbacks_of: dict[str, list[str]] = {}

    def run(self) -> None:
        """Convert the whole file: the deployments first, because fallbacks and aliases name their routes."""
        self._read_credentials()
        models = self.tables.get("model_list")
        for index, entry in enumerate(models if type(models) is list else ()):
            self._model(f"model_list[{index}]", entry)
        self._share()
        for name, convert in (
            ("fallbacks", self._fallbacks),
            ("context_window_fallbacks", self._fallbacks),
            ("default_fallbacks", self._default_fallbacks),
            ("model_group_alias", self._aliases),
        ):
            self._once(name, convert)
        for section, table in self.tables.items():
            if table is not None and not (section in _LISTS and type(table) is list):
                self._section(str(section), table)

    def _read_credentials(self) -> None:
        """Read the credentials that deployments name."""
        entries = self.tables.get("credential_list")
        for index, entry in enumerate(entries if type(entries) is list else ()):
            values, name = _map_of(entry).get("credential_values"), _map_of(entry).get("credential_name")
            if type(values) is dict and _is_name(name):
                self._credentials[name] = values
            else:
                self._list(f"credential_list[{index}]", "must have credential_name and credential_values")

    def _model(self, path: str, entry: Any) -> None:
        parameters = entry.get("litellm_params") if type(entry) is dict else None
        name, model = _map_of(entry).get("model_name"), _map_of(parameters).get("model")
        if not (type(parameters) is dict and _is_name(name) and _is_name(model)):
            self._list(path, "must be a deployment with model_name and litellm_params.model")
            return
        parameters = self._with_credential(path, parameters)
        if problem := _problem_of_star(name, model):
            self._list(path, problem)
            return
        target = self.providers.target(path, parameters)
        if target is None:
            return
        self._list_unread(path, entry, parameters)
        self._price(path, target, entry.get("model_info"), parameters)
        ranks = {key: self._read_rank(f"{path}.litellm_params.{key}", parameters.get(key)) for key in _RANKS}
        shares = {key: _number(parameters.get(key)) for key in _SHARES}
        self.targets.setdefault(name, []).append(
            {
                "model": target,
                "path": path,
                "parameters": parameters,
                **shares,
                **ranks,
                "order": ranks["order"] or 0,
            }
        )

    def _with_credential(self, path: str, parameters: dict[Any, Any]) -> dict[Any, Any]:
        """Return the parameters of a deployment with those of the credential that it names."""
        name = parameters.get("litellm_credential_name")
        if name is None:
            return parameters
        values = self._credentials.get(name) if isinstance(name, str) else None
        if values is None:
            self._list(f"{path}.litellm_params.litellm_credential_name", "is no credential of credential_list")
        return {**(values or {}), **parameters}

    def _list_unread(self, path: str, entry: Mapping[Any, Any], parameters: Mapping[Any, Any]) -> None:
        """List the settings of a deployment that are not converted."""
        info = entry.get("model_info")
        for inner, table, known_fields in (
            ("", entry, _ENTRY_FIELDS),
            ("litellm_params.", parameters, _READ_FIELDS),
            ("model_info.", _map_of(info), frozenset(_PRICES)),
        ):
            for key, value in table.items():
                if key in known_fields or value in ("", None):
                    continue
                reason = reason_of_parameter(str(key), table) if inner else reason_of(str(key), table)
                if key == "api_version" and is_azure(parameters["model"]):
                    reason = "not needed: Azure's v1 API has no version"
                self._list(f"{path}.{inner}{key}", reason)
        if info is not None and type(info) is not dict:
            self._list(f"{path}.model_info", "must be a map")

    def _price(self, path: str, target: str, info: Any, parameters: Mapping[Any, Any]) -> None:
        """Store the price of `target` per million tokens if it is complete. Else list its fields as not converted."""
        paths = {
            key: f"{path}.{table_name}.{key}"
            for table_name, table in (("model_info", _map_of(info)), ("litellm_params", parameters))
            for key in _PRICES
            if table.get(key) is not None
        }
        costs = {key: _number({**_map_of(info), **parameters}[key]) for key in paths}
        price = {_PRICES[key]: cost * 1e6 for key, cost in costs.items() if cost is not None and 0 <= cost < 1}
        price = {key: float(f"{value:.6g}") for key, value in price.items()}
        if not {"input", "output"} <= price.keys():
            price = {}
        elif self.prices.setdefault(target, price) != price:
            self._list(f"{path}.litellm_params", f"{target} has another price in an entry before; a model has one")
        for key, parameter_path in paths.items():
            if _PRICES[key] not in price:
                self._list(parameter_path, "a price must be dollars per token, for input and output")

    def _read_rank(self, path: str, value: Any) -> float | None:
        """Return a weight or an order; list any other value."""
        number = _number(value)
        if value is None or (number is not None and 0 <= number < 1e9):
            return number
        self._list(path, "must be a number of 0 or more")
        return None

    def _share(self) -> None:
        """Set the weight of each target. Without weights, the default strategy of LiteLLM shares by rpm, or by tpm."""
        strategy = _map_of(self.tables.get("router_settings")).get("routing_strategy", _DEFAULT_STRATEGY)
        for targets in self.targets.values():
            for _, group in groupby(sorted(targets, key=_order_of), key=_order_of):
                sharing = list(group)
                has_weights = any(target["weight"] is not None for target in sharing)
                share = None if has_weights or strategy != _DEFAULT_STRATEGY else _share_of(sharing)
                for target in sharing:
                    weight = target[share] if share else target["weight"]
                    target["weight"] = 1 if weight is None else weight
                    if share:
                        self._list_share(f"{target['path']}.litellm_params.{share}: ", share, target["parameters"])

    def _list_share(self, parameter_path: str, share: str, parameters: Mapping[Any, Any]) -> None:
        """Change the line about a limit of a deployment: it became a weight."""
        index = next(index for index, line in enumerate(self.unconverted) if line.startswith(parameter_path))
        self.unconverted[index] = parameter_path + reason_of_share(share, parameters)

    def _once(self, name: str, convert: Any) -> None:
        """Convert a setting that either section may have. List that of `litellm_settings` if both have it."""
        owners = [section for section in _SECTIONS if _map_of(self.tables.get(section)).get(name) is not None]
        for section in owners[:1]:
            convert(f"{section}.{name}", name, self.tables[section][name])
        for section in owners[1:]:
            self._list(f"{section}.{name}", f"that of {owners[0]} is used")

    def _section(self, name: str, table: Any) -> None:
        """List the settings of a section that are not converted."""
        if type(table) is not dict:
            self._list(name, reason_of(name, self.tables))
            return
        for key, value in table.items():
            is_converted = name in _SECTIONS and key in _CONVERTED and type(value) is _CONVERTED[key]
            if value is not None and not is_converted:
                self._list(f"{name}.{key}", reason_of_setting(name, str(key), table))

    def _fallbacks(self, path: str, key: str, value: Any) -> None:
        """Convert the fallbacks of all routes, or their routes for requests that are too long."""
        default: list[Any] = []
        for index, entry in enumerate(value if type(value) is list else ()):
            if type(entry) is not dict:
                self._list(f"{path}[{index}]", "must be a map of a route and its fallbacks")
            for source, others in _map_of(entry).items():
                names = others if type(others) is list else [others]
                if source == _ANY and key == "fallbacks":
                    default += names
                else:
                    self._add_fallbacks(path, key, str(source), names)
        self._default_fallbacks(path, key, default)

    def _add_fallbacks(self, path: str, key: str, source: str, others: list[Any]) -> None:
        """Convert the fallbacks of one route. List those that name no converted route, or that cannot be converted."""
        for other in others:
            shown_name = repr(other) if isinstance(other, str) else "something"  # it may hold a key
            if (
                not isinstance(other, str)
                or source == other
                or not (self._has_route(source) and self._has_route(other))
            ):
                self._list(path, f"{source!r} to {shown_name} names no other route that was converted")
            elif self._has_star(other) and (_ANY not in source or key != "fallbacks"):
                self._list(path, f"{source!r} to {shown_name}: must name one model")
            elif key == "fallbacks":
                self._fallbacks_of.setdefault(source, []).append(other)
            elif self.on_context.setdefault(source, other) != other:
                self._list(path, f"{source!r} to {shown_name}: only one route can serve requests that are too long")

    def _default_fallbacks(self, path: str, _key: str, value: Any) -> None:
        """Add the default fallbacks to each route that has none of its own."""
        default = []
        for other in value if type(value) is list else ():
            if isinstance(other, str) and self._has_route(other) and not self._has_star(other):
                default.append(other)
            else:
                shown_name = repr(other) if isinstance(other, str) else "something"
                self._list(path, f"{shown_name} names no route to one model that was converted")
        for source in [name for name in self.targets if default and name not in self._fallbacks_of]:
            self._fallbacks_of[source] = [name for name in default if name != source]

    def _has_route(self, name: str) -> bool:
        """Return True if `name` has a route. A name that only a route with `*` serves gets one of its own."""
        if name in self.targets or not MODEL_NAME.fullmatch(name):
            return name in self.targets
        for pattern in sorted((one for one in self.targets if _ANY in one), key=len, reverse=True):
            before, _, after = pattern.partition(_ANY)
            text = name.removeprefix(before).removesuffix(after)
            targets = [{**one, "model": one["model"].replace(_ANY, text)} for one in self.targets[pattern]]
            if text and name == before + text + after and all(MODEL_NAME.fullmatch(one["model"]) for one in targets):
                self.targets[name] = targets
                return True
        return False

    def _has_star(self, name: str) -> bool:
        """Return True if a route asks for the model that the client names."""
        return any(_ANY in target["model"] for target in self.targets[name])

    def _aliases(self, path: str, _key: str, value: Any) -> None:
        """Make a route for each other name of a route."""
        for alias, target in _map_of(value).items():
            name = target.get("model") if type(target) is dict else target
            if not _is_name(alias) or not _is_name(name) or not self._has_route(name):
                self._list(f"{path}.{alias}", "names no route that was converted")
            elif alias in self.targets:
                self._list(f"{path}.{alias}", "a route has this name")
            elif (_ANY in name) != (_ANY in alias):
                self._list(f"{path}.{alias}", "both names must have a *, or none")
            else:
                self.targets[alias] = self.targets[name]
                self._fallbacks_of[alias] = self._fallbacks_of.get(name, [])
                self.on_context |= {alias: self.on_context[name]} if name in self.on_context else {}
                if type(target) is dict and target.get("hidden"):
                    self._list(f"{path}.{alias}.hidden", "every route is in the list of models")

    def routes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the routes, but those that are no more than PROVIDER/MODEL."""
        for name in self.targets:
            longer = {"on_context": self.on_context[name]} if name in self.on_context else {}
            to = self._targets_in_order(name)
            if to != [name] or longer or name in self.on_context.values():
                yield name, {"to": to, **longer}

    def _targets_in_order(self, name: str) -> list[Any]:
        """Return the targets of a route. Those of one order share by weight, unless they follow others that share."""
        to: list[Any] = []
        seen: set[str] = set()
        for route in self._with_fallbacks(name):
            for _, group in groupby(sorted(self.targets[route], key=_order_of), key=_order_of):
                models = _without_repeats(group, seen)
                unused: list[Any] = [model["model"] for model in models if not model["weight"]]
                sharing = [model for model in models if model["weight"]]
                plain: list[Any] = [model["model"] for model in sharing]
                if len(plain) > 1 and to and isinstance(to[-1], dict):
                    reason = f"{', '.join(plain)}: are asked in order, because others that share come first"
                    self._list(f"routes.{name}", reason)
                    sharing = plain
                to += [*(sharing if len(sharing) > 1 else plain), *unused]
        return to

    def _with_fallbacks(self, name: str) -> dict[str, None]:
        """Return a route and its fallbacks, each followed by its own, in order."""
        visited: dict[str, None] = {}
        waiting = [name]
        while waiting:
            route = waiting.pop()
            if route not in visited:
                visited[route] = None
                waiting += reversed(self._fallbacks_of.get(route, []))
        return visited

    def _list(self, path: str, reason: str) -> None:
        self.unconverted.append(f"{path}: {reason}")


_order_of = itemgetter("order")
_CONVERTED = {
    "fallbacks": list,
    "context_window_fallbacks": list,
    "default_fallbacks": list,
    "model_group_alias": dict,
}


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value != "" and value.isprintable()


def _problem_of_star(name: str, model: str) -> str:
    """Return why a deployment with `*` in its names cannot be converted, or an empty text."""
    if name.count(_ANY) > 1 or model.count(_ANY) > 1:
        return f"{name!r}: a name may have one * only"
    if _ANY in model and _ANY not in name:
        return f"{model!r} is no single model, and {name!r} has no *"
    if model == _ANY:
        return "'*' names no provider: clients can use PROVIDER/MODEL without a route; a bare name needs a route"
    return ""


def _share_of(sharing: list[dict[str, Any]]) -> str | None:
    """Return the limit by which all targets share their requests, or None if they share equally."""
    if len(sharing) < 2:
        return None
    return next((key for key in _SHARES if all(0 < (target[key] or 0) < 1e9 for target in sharing)), None)


def _without_repeats(group: Iterator[dict[str, Any]], seen: set[str]) -> list[dict[str, Any]]:
    """Return the models of a group that are not in `seen`, with their weights. Deployments of one model add theirs."""
    weights: dict[str, Any] = {}
    for target in group:
        if target["model"] not in seen:
            weights[target["model"]] = weights.get(target["model"], 0) + target["weight"]
    seen.update(weights)
    return [{"model": model, "weight": weight} for model, weight in weights.items()]


def _number(value: Any) -> float | None:
    """Return a number. PyYAML reads `1e-06` as a text."""
    try:
        number = None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number is not None and number.is_integer() else number


def _map_of(value: Any) -> dict[Any, Any]:
    return value if type(value) is dict else {}


def read_litellm(tables: Any) -> tuple[dict[str, Any], list[str]]:
    """Return LiteLLM's settings as those of toolwire, and a list of what was not converted."""
    importer = _Import(_map_of(tables))
    importer.run()
    routes = dict(importer.routes())
    sections = {"providers": importer.providers.sections(), "routes": routes, "prices": importer.prices}
    return {name: table for name, table in sections.items() if table}, importer.unconverted
