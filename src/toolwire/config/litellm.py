"""Import of the settings of LiteLLM's proxy. A setting with the same meaning is converted; every other one is listed.

Rules of this file:
- Nothing is guessed: a setting that is not in a table of this file is listed with its path.
- A key in the file is not converted. A variable is.

Sources: docs.litellm.ai/docs/proxy/configs, as of 2026-11-22, and its pages of OpenAI for `openai/responses/` and of
Azure.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from toolwire.config.settings import MODEL_NAME

# LiteLLM's name of a provider: the name here, the variable of its key, and its wire if the file has an address.
_PROVIDERS = {
    "openai": ("openai", "OPENAI_API_KEY", "openai-chat"),
    "openai/responses": ("openai-responses", "OPENAI_API_KEY", "openai-responses"),
    "custom_openai": ("openai", "OPENAI_API_KEY", "openai-chat"),
    "anthropic": ("anthropic", "ANTHROPIC_API_KEY", "anthropic"),
    "gemini": ("gemini", "GEMINI_API_KEY", "gemini"),
    "ollama": ("ollama", "", "ollama"),
    "ollama_chat": ("ollama", "", "ollama"),
    "azure": ("azure", "AZURE_OPENAI_API_KEY", "openai-chat"),
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
# The providers that toolwire does not have, and what to do instead.
_NOT_HERE = {
    "bedrock": "Amazon Bedrock is not supported: its requests need AWS signatures. Use the vendor's own API, or an "
    "endpoint that takes a key, as [providers.NAME] with its base_url and dialect",
    "sagemaker": "Amazon SageMaker is not supported: its requests need AWS signatures",
    "vertex_ai": "Google Vertex AI is not supported: its requests need Google Cloud tokens. gemini/MODEL serves "
    "Google's models by a key, and anthropic/MODEL those of Anthropic",
    "azure_ai": "Azure AI Foundry has no name here: write [providers.NAME] with its base_url, key and dialect",
}
# docs.litellm.ai/docs/providers/azure: the variable of the key if the file names none.
_AZURE_KEY = "AZURE_API_KEY"
# https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle: the v1 API, which needs no api-version.
_AZURE_PATH = "/openai/v1"
_AZURE_VERSION = "api_version"
_PRICES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
}
_ENTRY_FIELDS = frozenset({"model_name", "litellm_params", "model_info"})
_READ_FIELDS = frozenset({"model", "api_key", "api_base", "base_url", "weight", "order", *_PRICES})
_ADDRESS = re.compile(r"https?://[^/@?#\s][^@?#\s]*", re.IGNORECASE)
_SECTIONS = ("litellm_settings", "router_settings")
_RETRIES = "is automatic: the gateway asks the next provider, or retries if the provider asks for a short wait"
_REMEDIES = {
    "general_settings.master_key": "make keys by `toolwire keys create`",
    "general_settings.database_url": 'set [server] database = "postgresql://..." and auth = "keys"',
    "router_settings.model_group_alias": "write a route of that name",
    "router_settings.redis_host": "not needed: several processes share the database",
    "litellm_settings.drop_params": "is always on: the gateway counts dropped parameters in x-toolwire-losses",
    "litellm_settings.num_retries": _RETRIES,
    "router_settings.num_retries": _RETRIES,
}


class _Import:
    """The result of an import: the converted sections, and the list of what was not converted."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self.addresses = addresses
        self.providers: dict[str, dict[str, str]] = {}
        self.targets: dict[str, list[dict[str, Any]]] = {}
        self.prices: dict[str, dict[str, float]] = {}
        self.on_context: dict[str, str] = {}
        self.unconverted: list[str] = []

    def model(self, path: str, entry: Any) -> None:
        parameters = entry.get("litellm_params") if type(entry) is dict else None
        name, model = (entry.get("model_name"), parameters.get("model")) if type(parameters) is dict else (None, None)
        if not (type(parameters) is dict and isinstance(name, str) and isinstance(model, str)):
            self.unconverted.append(f"{path}: must be a deployment with model_name and litellm_params.model")
            return
        target = self._target(path, parameters, model)
        if target is None:
            return
        info = _map_of(entry.get("model_info"))
        is_azure = model.startswith("azure/")
        self.unconverted += [
            f"{path}.{inner}{key}: {_reason_of(key, is_azure=is_azure)}"
            for inner, table, known_fields in (
                ("", entry, _ENTRY_FIELDS),
                ("litellm_params.", parameters, _READ_FIELDS),
                ("model_info.", info, _PRICES),
            )
            for key in table
            if key not in known_fields and table[key] not in ("", None)
        ]
        self._price(path, target, {**info, **parameters})
        if name != target or "order" in parameters or "weight" in parameters:
            ranks = {
                key: self._read_rank(f"{path}.litellm_params.{key}", parameters.get(key)) for key in ("weight", "order")
            }
            weight = 1 if ranks["weight"] is None else ranks["weight"]
            self.targets.setdefault(name, []).append({"model": target, "weight": weight, "order": ranks["order"] or 0})

    def _price(self, path: str, target: str, parameters: Mapping[str, Any]) -> None:
        """Store the price of `target` per million tokens if it is complete. Else list its fields as not converted."""
        costs = {key: _number(parameters[key]) for key in _PRICES if parameters.get(key) is not None}
        price = {_PRICES[key]: cost * 1e6 for key, cost in costs.items() if cost is not None and 0 <= cost < 1}
        if {"input", "output"} <= price.keys():
            self.prices[target] = {key: float(f"{value:.6g}") for key, value in price.items()}
        else:
            price = {}
        unconverted_prices = [key for key in costs if _PRICES[key] not in price]
        self.unconverted += [
            f"{path}: {key}: a price must be dollars per token, for input and output" for key in unconverted_prices
        ]

    def _read_rank(self, path: str, value: Any) -> float | None:
        """Return a weight or an order; list any other value."""
        number = _number(value)
        if value is None or (number is not None and 0 <= number < 1e9):
            return number
        self.unconverted.append(f"{path}: must be a number of 0 or more")
        return None

    def _target(self, path: str, parameters: Mapping[str, Any], model: str) -> str | None:
        """Return a deployment as PROVIDER/MODEL, with a provider section of its own if it needs one."""
        litellm_provider, slash, model_name = model.partition("/")
        litellm_provider, model_name = (litellm_provider, model_name) if slash else ("openai", model)
        if f"{litellm_provider}/{model_name.partition('/')[0]}" in _PROVIDERS:
            wire, _, model_name = model_name.partition("/")
            litellm_provider = f"{litellm_provider}/{wire}"
        known = _PROVIDERS.get(litellm_provider)
        if known is None:
            reason = _NOT_HERE.get(
                litellm_provider.removesuffix("_beta"), f"the provider {litellm_provider!r} is unknown"
            )
            self.unconverted.append(f"{path}: {model!r}: {reason}")
            return None
        if "*" in model_name or not MODEL_NAME.fullmatch(f"x/{model_name}"):
            self.unconverted.append(
                f"{path}: {model!r} is no single model; clients can use {known[0]}/MODEL without a route"
            )
            return None
        name, variable, wire = known
        key, base = parameters.get("api_key"), parameters.get("api_base") or parameters.get("base_url")
        provider_settings: dict[str, str] = {}
        if name == "azure":
            key, base = key or f"os.environ/{_AZURE_KEY}", self._azure_address(path, base)
        key_variable = key.removeprefix("os.environ/") if isinstance(key, str) and key.startswith("os.environ/") else ""
        if key_variable.isidentifier():
            if key_variable != variable:
                provider_settings["key"] = f"${key_variable}"
        elif key:
            self.unconverted.append(f"{path}.litellm_params.api_key: the key is in the file; put it into a variable")
        if base and not _ADDRESS.fullmatch(str(base)):
            self.unconverted.append(f"{path}.litellm_params.api_base: must be an address like https://host/path")
            return None
        if base:
            provider_settings |= {"dialect": wire, "base_url": str(base)}
        return f"{self._provider(name, wire, provider_settings)}/{model_name}"

    def _azure_address(self, path: str, base: Any) -> Any:
        """Return the address of Azure's v1 API at a resource's address, or None if a variable has the address."""
        if isinstance(base, str) and base.startswith("os.environ/"):
            variable = base.removeprefix("os.environ/")
            self.unconverted.append(
                f"{path}.litellm_params.api_base: set AZURE_OPENAI_ENDPOINT to the value of {variable}"
            )
            return None
        if isinstance(base, str) and _ADDRESS.fullmatch(base) and "/" not in base.rstrip("/").partition("://")[2]:
            return base.rstrip("/") + _AZURE_PATH
        return base

    def _provider(self, name: str, wire: str, provider_settings: dict[str, str]) -> str:
        if not provider_settings:
            return name
        for known, existing in self.providers.items():
            if existing.items() >= provider_settings.items() and known.partition("-")[0] == name:
                return known
        if "base_url" not in provider_settings and name not in self.providers:
            self.providers[name] = provider_settings
            return name
        another = f"{name}-{len(self.providers) + 1}"
        self.providers[another] = {"dialect": wire, "base_url": self.addresses.get(name, ""), **provider_settings}
        return another

    def section(self, name: str, table: Any) -> None:
        """Convert the fallbacks of a section; list its other settings."""
        for key, value in (table if type(table) is dict else {}).items():
            path = f"{name}.{key}"
            if name in _SECTIONS and key in ("fallbacks", "context_window_fallbacks") and type(value) is list:
                for source, others in _pairs(value):
                    self._add_fallbacks(path, key, source, others)
            else:
                self.unconverted.append(f"{path}: {_REMEDIES.get(path, 'has no setting here')}")

    def _add_fallbacks(self, path: str, key: str, source: str, others: list[Any]) -> None:
        """Convert the fallbacks of one route. List those that name no converted route, or that have no place here."""
        for other in others:
            shown_name = repr(other) if isinstance(other, str) else "something"  # it may hold a key
            if not isinstance(other, str) or source == other or not {source, other} <= self.targets.keys():
                self.unconverted.append(f"{path}: {source!r} to {shown_name} names no other route that was converted")
            elif key == "fallbacks":
                last = max(target["order"] for target in self.targets[source]) + 1
                self.targets[source] += [{**one, "order": last + one["order"]} for one in self.targets[other]]
            elif self.on_context.setdefault(source, other) != other:
                self.unconverted.append(
                    f"{path}: {source!r} to {shown_name}: only one route can serve requests that are too long"
                )

    def routes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the routes. Targets of one order share by weight, unless they follow others that share."""
        for name, targets in self.targets.items():
            to: list[Any] = []
            for _, group in groupby(sorted(targets, key=_order_of), key=_order_of):
                models = [{"model": target["model"], "weight": target["weight"]} for target in group]
                plain: list[Any] = [target["model"] for target in models]
                if len(plain) > 1 and to and isinstance(to[-1], dict):
                    self.unconverted.append(
                        f"routes.{name}: {', '.join(plain)}: are asked in order, because others that share come first"
                    )
                    models = plain
                to += models if len(models) > 1 else plain
            longer = {"on_context": self.on_context[name]} if name in self.on_context else {}
            yield name, {"to": to, **longer}


_order_of = itemgetter("order")


def _reason_of(key: Any, *, is_azure: bool) -> str:
    """Return why a setting of a deployment is not converted."""
    return "not needed: Azure's v1 API has no version" if is_azure and key == _AZURE_VERSION else "has no setting here"


def _number(value: Any) -> float | None:
    """Return a number. PyYAML reads `1e-06` as a text."""
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
    """Return LiteLLM's settings as those of toolwire, and a list of what was not converted.

    `addresses` are the base URLs of the known providers.
    """
    importer = _Import(addresses)
    tables = _map_of(tables)
    models = tables.get("model_list")
    for index, entry in enumerate(models if type(models) is list else ()):
        importer.model(f"model_list[{index}]", entry)
    for name, table in tables.items():
        if name == "model_list" and (models is None or type(models) is list):
            continue
        if type(table) is not dict:
            importer.unconverted.append(f"{name}: has no setting here")
        importer.section(name, table)
    sections = {"providers": importer.providers, "routes": dict(importer.routes()), "prices": importer.prices}
    return {name: table for name, table in sections.items() if table}, importer.unconverted


def toml_of(settings: Mapping[str, Any]) -> str:
    """Return settings as TOML: one section for each table, and each value on one line."""
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
