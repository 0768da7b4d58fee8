"""The provider of a deployment in LiteLLM's list: its name here, its address, its key and its headers.

Rules of this file:
- A key or a header in the file that may be a secret is not converted. A variable is.
- Two deployments share a section of the settings only if everything in it is the same.
- A section is `like` a known provider, with its quirks. Behind LiteLLM's `openai/` with an address may be any server,
  so such a section has only a wire.

Sources: docs.litellm.ai/docs/proxy/configs, as of 2026-11-22, and its pages of OpenAI for `openai/responses/`, of Azure
and of `load_credentials`.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from toolwire.config.settings import MODEL_NAME
from toolwire.scrubbing import scrub


class _Known(Struct, frozen=True):
    """A provider of LiteLLM: its name here, the variable of its key, and for `openai/` the wire of any other server."""

    name: str
    variable: str = ""
    wire: str = ""


_PROVIDERS = {
    "openai": _Known("openai", "OPENAI_API_KEY", "openai-chat"),
    "openai/responses": _Known("openai-responses", "OPENAI_API_KEY", "openai-responses"),
    "custom_openai": _Known("openai", "OPENAI_API_KEY", "openai-chat"),
    "anthropic": _Known("anthropic", "ANTHROPIC_API_KEY"),
    "gemini": _Known("gemini", "GEMINI_API_KEY"),
    "ollama": _Known("ollama"),
    "ollama_chat": _Known("ollama"),
    "azure": _Known("azure", "AZURE_OPENAI_API_KEY"),
    "groq": _Known("groq", "GROQ_API_KEY"),
    "mistral": _Known("mistral", "MISTRAL_API_KEY"),
    "deepseek": _Known("deepseek", "DEEPSEEK_API_KEY"),
    "openrouter": _Known("openrouter", "OPENROUTER_API_KEY"),
    "xai": _Known("xai", "XAI_API_KEY"),
    "together_ai": _Known("together", "TOGETHER_API_KEY"),
    "fireworks_ai": _Known("fireworks", "FIREWORKS_API_KEY"),
    "hosted_vllm": _Known("vllm", "VLLM_API_KEY"),
    "lm_studio": _Known("lmstudio"),
}
# The providers that toolwire does not have, and what to do instead.
_NOT_HERE = {
    "bedrock": "Amazon Bedrock is not supported: its requests need AWS signatures. Use the vendor's own API, or an "
    "endpoint that takes a key, as [providers.NAME] with its base_url and dialect",
    "sagemaker": "Amazon SageMaker is not supported: its requests need AWS signatures",
    "vertex_ai": "Google Vertex AI is not supported: its requests need Google Cloud tokens. gemini/MODEL serves "
    "Google's models by a key, and anthropic/MODEL those of Anthropic",
    "os.environ": "a model cannot be in a variable; write its name",
    "azure_ai": "Azure AI Foundry has no name here: write [providers.NAME] with its base_url, key and dialect",
}
# LiteLLM finds the provider of a bare name in its list of models. These are the beginnings that leave no doubt.
_BARE_NAMES = ((re.compile(r"gpt-|chatgpt-|o\d|ft:|text-embedding-"), "openai"), (re.compile(r"claude-"), "anthropic"))
# docs.litellm.ai/docs/providers/azure: the variables of the key and of the address if the file names none.
_AZURE_KEY, _AZURE_BASE = "os.environ/AZURE_API_KEY", "os.environ/AZURE_API_BASE"
_AZURE_SERIES = ("o_series/", "gpt5_series/")  # LiteLLM's own marks of a deployment's model
# https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle: the v1 API, which needs no api-version.
_AZURE_PATH = "/openai/v1"
_AZURE_OLD_PATH = re.compile(r"/openai(/v1|/deployments/[^/]+)?(/chat/completions)?")
_ADDRESS = re.compile(r"https?://[^/@?#\s][^@?#\s]*", re.IGNORECASE)
_ENVIRONMENT = "os.environ/"
_SECRET_NAME = re.compile(r"auth|pass|secret|token|key|cookie|session|credential|signature|jwt", re.IGNORECASE)
_HEADERS = ("extra_headers", "headers")
_ORGANIZATION = "OpenAI-Organization"
READ_PARAMETERS = frozenset(
    {"model", "custom_llm_provider", "api_key", "api_base", "base_url", "organization", *_HEADERS}
)


class _Impossible(Exception):
    """Why a deployment cannot be converted, with its place in the file."""

    def __init__(self, reason: str, parameter: str = "") -> None:
        self.reason, self.parameter = reason, parameter
        super().__init__(reason)


def is_azure(model: str) -> bool:
    """Return True if a deployment is one of Azure OpenAI."""
    return model.startswith("azure/")


class ProviderSections:
    """The sections of the providers that an import needs. `unconverted` receives the settings that have none."""

    def __init__(self, unconverted: list[str]) -> None:
        self._unconverted = unconverted
        self._sections: dict[str, tuple[str, dict[str, Any]]] = {}  # the known provider, and what differs from it

    def sections(self) -> dict[str, dict[str, Any]]:
        """Return the sections that the settings need: those that change or add a provider."""
        return {name: table for name, (_, table) in self._sections.items() if table}

    def target(self, path: str, parameters: Mapping[str, Any]) -> str | None:
        """Return a deployment as PROVIDER/MODEL. If it cannot be converted, list it and return None."""
        inner = f"{path}.litellm_params"
        try:
            model, known = _model_and_provider(parameters)
            return f"{self._section(known, self._settings(inner, parameters, known))}/{model}"
        except _Impossible as problem:
            self._list(f"{inner}.{problem.parameter}" if problem.parameter else path, problem.reason)
            return None

    def _settings(self, path: str, parameters: Mapping[str, Any], known: _Known) -> dict[str, Any]:
        """Return what the provider of a deployment has besides the defaults of the known provider."""
        key, base = parameters.get("api_key"), parameters.get("api_base") or parameters.get("base_url")
        if known.name == "azure":
            key, base = key or _AZURE_KEY, _azure_address(base or _AZURE_BASE)
        address = _address_of(base, known) if base else {}
        table: dict[str, Any] = {}
        variable = _variable_in(key)
        if variable and (variable != known.variable or "dialect" in address):
            table["key"] = f"${variable}"
        elif key and not variable:
            self._list(
                f"{path}.api_key", 'the key is in the file; put it into a variable, and key = "$NAME" into the section'
            )
        elif not key and "dialect" in address:
            self._list(f"{path}.api_key", f'is missing; add key = "${known.variable}" if the server needs it')
        if headers := self._headers(path, parameters):
            table["headers"] = headers
        return table | address

    def _headers(self, path: str, parameters: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers of a deployment that hold no secret. List the others."""
        headers: dict[str, str] = {}
        organization = parameters.get("organization")
        if organization:
            headers |= self._header(f"{path}.organization", _ORGANIZATION, organization)
        for parameter in _HEADERS:
            table = parameters.get(parameter)
            if type(table) is dict:
                for name, value in table.items():
                    headers |= self._header(f"{path}.{parameter}.{name}", name, value)
            elif table:
                self._list(f"{path}.{parameter}", "must be a map of headers")
        return headers

    def _header(self, path: str, name: Any, value: Any) -> dict[str, str]:
        if not (isinstance(name, str) and isinstance(value, str)):
            self._list(path, "must be a text")
        elif value.startswith(_ENVIRONMENT):
            self._list(path, "a header cannot be in a variable; write it into headers of [providers.NAME]")
        elif _SECRET_NAME.search(name) or scrub({name: value}) != {name: value}:
            self._list(path, "may be a secret; write it into headers of [providers.NAME] yourself")
        elif not re.fullmatch(r"[!#$%&'*+.^`|~\w-]+", name, re.ASCII) or not (value.isascii() and value.isprintable()):
            self._list(path, "is not a header")
        else:
            return {name: value}
        return {}

    def _list(self, path: str, reason: str) -> None:
        self._unconverted.append(f"{path}: {reason}")

    def _section(self, known: _Known, table: dict[str, Any]) -> str:
        """Return the name of the section for the settings of a provider: one with the same, or a new one."""
        other = table if "dialect" in table else {"like": known.name, **table}
        for name, (owner, existing) in self._sections.items():
            if owner == known.name and existing == (table if name == owner else other):
                return name
        if known.name not in self._sections and "base_url" not in table:
            self._sections[known.name] = known.name, table
            return known.name
        name = f"{known.name}-{sum(owner == known.name for owner, _ in self._sections.values()) + 1}"
        self._sections[name] = known.name, other
        return name


def _model_and_provider(parameters: Mapping[str, Any]) -> tuple[str, _Known]:
    """Return the model of a deployment and its provider. Raise `_Impossible` if toolwire has none."""
    model = parameters["model"]
    owner = parameters.get("custom_llm_provider")
    full_name = f"{owner}/{model}" if isinstance(owner, str) and owner and not model.startswith(f"{owner}/") else model
    provider, slash, name = full_name.partition("/")
    if not slash:
        provider, name = next((owner for pattern, owner in _BARE_NAMES if pattern.match(model)), ""), model
    wire, inner_slash, inner_name = name.partition("/")
    if inner_slash and f"{provider}/{wire}" in _PROVIDERS:
        provider, name = f"{provider}/{wire}", inner_name
    if provider == "azure":
        name = next((name.removeprefix(mark) for mark in _AZURE_SERIES if name.startswith(mark)), name)
    known = _PROVIDERS.get(provider)
    if known is None:
        unknown = f"the provider {provider!r} is unknown: write [providers.NAME] with its base_url, key and dialect"
        if not provider:
            unknown = "names no provider: write PROVIDER/MODEL"
        raise _Impossible(f"{full_name!r}: {_NOT_HERE.get(provider.removesuffix('_beta'), unknown)}")
    if not MODEL_NAME.fullmatch(f"x/{name.replace('*', 'x')}"):
        raise _Impossible(f"{full_name!r} is no name of a model")
    return name, known


def _variable_in(value: Any) -> str:
    """Return the variable that a value of the file names, or an empty text."""
    name = value.removeprefix(_ENVIRONMENT) if isinstance(value, str) and value.startswith(_ENVIRONMENT) else ""
    return name if name.isidentifier() and name.isascii() else ""


def _address_of(base: Any, known: _Known) -> dict[str, str]:
    """Return the settings for an address."""
    wire = {"dialect": known.wire} if known.wire else {}
    if variable := _variable_in(base):
        return {**wire, "base_url": f"${variable}"}
    if not (isinstance(base, str) and _ADDRESS.fullmatch(base)):
        raise _Impossible("must be an address like https://host/path, or os.environ/NAME", "api_base")
    return {**wire, "base_url": base}


def _azure_address(base: Any) -> Any:
    """Return the address of Azure's v1 API at the address of a resource, or the variable of one."""
    if _variable_in(base) or not (isinstance(base, str) and _ADDRESS.fullmatch(base)):
        return base
    parts = urlsplit(base.rstrip("/"))
    if parts.path and not _AZURE_OLD_PATH.fullmatch(parts.path):
        reason = "is no resource of Azure: for a server before it, write [providers.NAME] with its base_url and dialect"
        raise _Impossible(reason, "api_base")
    return f"{parts.scheme}://{parts.netloc}{_AZURE_PATH}"
