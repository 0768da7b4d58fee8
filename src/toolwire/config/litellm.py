"""The settings of LiteLLM's proxy as ours: what means the same is taken over, and everything else is listed.

Rules of this file:
- Nothing is guessed: what is not in a table here stands in the list, under its place.
- A key that stands in the file is not taken over. A variable is.

Sources: docs.litellm.ai/docs/proxy/configs, as of 2026-11-22, and its page of OpenAI for `openai/responses/`.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from toolwire.config.settings import MODEL_NAME

# Their name of a provider: ours, the variable that its key has here, and the wire it speaks where the address is said.
_PROVIDERS = {
    "openai": ("openai", "OPENAI_API_KEY", "openai-chat"),
    "openai/responses": ("openai-responses", "OPENAI_API_KEY", "openai-responses"),
    "custom_openai": ("openai", "OPENAI_API_KEY", "openai-chat"),
    "anthropic": ("anthropic", "ANTHROPIC_API_KEY", "anthropic"),
    "gemini": ("gemini", "GEMINI_API_KEY", "gemini"),
    "ollama": ("ollama", "", "ollama"),
    "ollama_chat": ("ollama", "", "ollama"),
    "groq": ("groq", "GROQ_API_KEY", "openai-chat"),
    "mistral": ("mistral", "MISTRAL_API_KEY", "openai-chat"),
    "deepseek": ("deepseek", "DEEPSEEK_API_KEY", "openai-chat"),
    "openrouter": ("openrouter", "OPENROUTER_API_KEY", "openai-chat"),
    "xai": ("xai", "XAI_API_KEY", "openai-chat"),
    "together_ai": ("together", "TOGETHER_API_KEY", "openai-chat"),
    "fireworks_ai": ("fireworks", "FIREWORKS_API_KEY", "openai-chat"),
    "hosted_vllm": ("vllm", "VLLM_API_KEY", "openai-chat"),
    "lm_studio": ("lmstudio", "", "openai-chat"),
}
_PRICES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
}
_ENTRY = frozenset({"model_name", "litellm_params", "model_info"})
_READ = frozenset({"model", "api_key", "api_base", "base_url", "weight", "order", *_PRICES})
_ADDRESS = re.compile(r"https?://[^/@?#\s][^@?#\s]*", re.IGNORECASE)
_SECTIONS = ("litellm_settings", "router_settings")
_INSTEAD = {
    "general_settings.master_key": "make keys by `toolwire keys create`",
    "general_settings.database_url": 'say [server] database = "postgresql://..." and auth = "keys"',
    "router_settings.model_group_alias": "write a route of that name",
    "router_settings.redis_host": "several processes share the database",
    "litellm_settings.drop_params": "is always so: what is left out is counted in x-toolwire-losses",
    "litellm_settings.num_retries": "the next provider is asked, and one that says so soon again",
    "router_settings.num_retries": "the next provider is asked, and one that says so soon again",
}


class _Import:
    def __init__(self, addresses: Mapping[str, str]) -> None:
        self.addresses = addresses
        self.providers: dict[str, dict[str, str]] = {}
        self.targets: dict[str, list[dict[str, Any]]] = {}
        self.prices: dict[str, dict[str, float]] = {}
        self.on_context: dict[str, str] = {}
        self.left: list[str] = []

    def model(self, place: str, entry: Any) -> None:
        said = entry.get("litellm_params") if type(entry) is dict else None
        name, model = (entry.get("model_name"), said.get("model")) if type(said) is dict else (None, None)
        if not (type(said) is dict and isinstance(name, str) and isinstance(model, str)):
            self.left.append(f"{place}: is no deployment with model_name and litellm_params.model")
            return
        target = self._target(place, said, model)
        if target is None:
            return
        info = _map_of(entry.get("model_info"))
        self.left += [
            f"{place}.{inner}{key}: has no setting here"
            for inner, table, read in (
                ("", entry, _ENTRY),
                ("litellm_params.", said, _READ),
                ("model_info.", info, _PRICES),
            )
            for key in table
            if key not in read and table[key] not in ("", None)
        ]
        self._price(place, target, {**info, **said})
        if name != target or "order" in said or "weight" in said:
            ranks = {key: self._rank(f"{place}.litellm_params.{key}", said.get(key)) for key in ("weight", "order")}
            weight = 1 if ranks["weight"] is None else ranks["weight"]
            self.targets.setdefault(name, []).append({"model": target, "weight": weight, "order": ranks["order"] or 0})

    def _price(self, place: str, target: str, said: Mapping[str, Any]) -> None:
        """Take over a price that says what goes in and what comes out; list what is none."""
        costs = {key: _number(said[key]) for key in _PRICES if said.get(key) is not None}
        price = {_PRICES[key]: cost * 1e6 for key, cost in costs.items() if cost is not None and 0 <= cost < 1}
        if {"input", "output"} <= price.keys():
            self.prices[target] = {key: float(f"{value:.6g}") for key, value in price.items()}
        else:
            price = {}
        untaken = [key for key in costs if _PRICES[key] not in price]
        self.left += [f"{place}: {key}: a price is dollars a token, in and out" for key in untaken]

    def _rank(self, place: str, said: Any) -> float | None:
        """Read a weight or an order; what is neither is listed."""
        number = _number(said)
        if said is None or (number is not None and 0 <= number < 1e9):
            return number
        self.left.append(f"{place}: must be a number from 0 on")
        return None

    def _target(self, place: str, said: Mapping[str, Any], model: str) -> str | None:
        """Name a deployment as PROVIDER/MODEL of ours, with a provider of its own where that is needed."""
        theirs, slash, rest = model.partition("/")
        theirs, rest = (theirs, rest) if slash else ("openai", model)
        if f"{theirs}/{rest.partition('/')[0]}" in _PROVIDERS:
            wire, _, rest = rest.partition("/")
            theirs = f"{theirs}/{wire}"
        known = _PROVIDERS.get(theirs)
        if known is None:
            self.left.append(f"{place}: the provider {theirs!r} is not known here")
            return None
        if "*" in rest or not MODEL_NAME.fullmatch(f"x/{rest}"):
            self.left.append(f"{place}: {model!r} names no single model; {known[0]}/MODEL needs no route here")
            return None
        ours, variable, wire = known
        key, base = said.get("api_key"), said.get("api_base") or said.get("base_url")
        own: dict[str, str] = {}
        named = key.removeprefix("os.environ/") if isinstance(key, str) and key.startswith("os.environ/") else ""
        if named.isidentifier():
            if named != variable:
                own["key"] = f"${named}"
        elif key:
            self.left.append(f"{place}.litellm_params.api_key: stands in the file; put it into a variable of its own")
        if base and not _ADDRESS.fullmatch(str(base)):
            self.left.append(f"{place}.litellm_params.api_base: an address must be said here, as https://host/path")
            return None
        if base:
            own |= {"dialect": wire, "base_url": str(base)}
        return f"{self._provider(ours, wire, own)}/{rest}"

    def _provider(self, name: str, wire: str, own: dict[str, str]) -> str:
        if not own:
            return name
        for known, said in self.providers.items():
            if said.items() >= own.items() and known.partition("-")[0] == name:
                return known
        if "base_url" not in own and name not in self.providers:
            self.providers[name] = own
            return name
        another = f"{name}-{len(self.providers) + 1}"
        self.providers[another] = {"dialect": wire, "base_url": self.addresses.get(name, ""), **own}
        return another

    def section(self, name: str, said: Any) -> None:
        """Take over what a section says of where a request goes next; list the rest."""
        for key, value in (said if type(said) is dict else {}).items():
            place = f"{name}.{key}"
            if name in _SECTIONS and key in ("fallbacks", "context_window_fallbacks") and type(value) is list:
                for source, others in _pairs(value):
                    self._next(place, key, source, others)
            else:
                self.left.append(f"{place}: {_INSTEAD.get(place, 'has no setting here')}")

    def _next(self, place: str, key: str, source: str, others: list[Any]) -> None:
        """Take over where a request goes next; list what leads nowhere, or to where there is no place for it here."""
        for other in others:
            named = repr(other) if isinstance(other, str) else "something"  # it may hold a key
            if not isinstance(other, str) or source == other or not {source, other} <= self.targets.keys():
                self.left.append(f"{place}: {source!r} to {named} names no other route that was taken over")
            elif key == "fallbacks":
                last = max(target["order"] for target in self.targets[source]) + 1
                self.targets[source] += [{**one, "order": last + one["order"]} for one in self.targets[other]]
            elif self.on_context.setdefault(source, other) != other:
                self.left.append(f"{place}: {source!r} to {named}: one route is asked for what is too long")

    def routes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give the routes: those of one order share by weight, but for what follows others that share."""
        for name, targets in self.targets.items():
            to: list[Any] = []
            for _, group in groupby(sorted(targets, key=_order), key=_order):
                models = [{"model": target["model"], "weight": target["weight"]} for target in group]
                plain: list[Any] = [target["model"] for target in models]
                if len(plain) > 1 and to and isinstance(to[-1], dict):
                    self.left.append(f"routes.{name}: {', '.join(plain)}: are asked in order, for they follow a share")
                    models = plain
                to += models if len(models) > 1 else plain
            longer = {"on_context": self.on_context[name]} if name in self.on_context else {}
            yield name, {"to": to, **longer}


_order = itemgetter("order")


def _number(value: Any) -> float | None:
    """Read a number; PyYAML takes `1e-06` for a text."""
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _pairs(value: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    for entry in value:
        for source, others in (entry if type(entry) is dict else {}).items():
            yield str(source), others if type(others) is list else [others]


def _map_of(value: Any) -> dict[Any, Any]:
    return value if type(value) is dict else {}


def read_litellm(tables: Any, addresses: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Give LiteLLM's settings as ours, and what was not taken over; `addresses` says where our providers are."""
    done = _Import(addresses)
    tables = _map_of(tables)
    models = tables.get("model_list")
    for at, entry in enumerate(models if type(models) is list else ()):
        done.model(f"model_list[{at}]", entry)
    for name, said in tables.items():
        if name == "model_list" and (models is None or type(models) is list):
            continue
        if type(said) is not dict:
            done.left.append(f"{name}: has no setting here")
        done.section(name, said)
    made = {"providers": done.providers, "routes": dict(done.routes()), "prices": done.prices}
    return {name: table for name, table in made.items() if table}, done.left


def toml_of(settings: Mapping[str, Any]) -> str:
    """Write settings as TOML: tables of tables, whose values are written in one line each."""
    lines = []
    for section, tables in settings.items():
        if section == "prices":
            lines += [f"[{section}]", *(f"{_value(name)} = {_value(value)}" for name, value in tables.items()), ""]
            continue
        for name, table in tables.items():
            lines.append(f"[{section}.{_value(name)}]")
            lines += [f"{key} = {_value(value)}" for key, value in table.items()]
            lines.append("")
    return "\n".join(lines)


def _value(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {_value(inner)}" for key, inner in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
    return msgspec.json.encode(value).decode()
