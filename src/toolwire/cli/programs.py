"""The programs that `toolwire launch` starts: how each is configured to use a gateway.

Rules of this file:
- A row is pure data: variables, arguments and files of a temporary folder. `launch` applies them.
- No file of the user is written. The user's arguments after `--` come last, so they win.
- Variables that would send the program to another server are removed.

Sources: claude-code 2.1.332, codex 0.171.0, gemini-cli 0.61.0, opencode 1.18.33, copilot 1.0.102, pi 1.6.0, qwen-code,
aider and llm as described in docs/programs/, as of 2026-11-23.
"""

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Endpoint(Struct, frozen=True):
    """The gateway that a program should use: its URL and key, the model's name and limits, and a folder for files."""

    url: str
    key: str
    folder: str
    model: str = ""
    dialect: str = ""
    window: int | None = None
    output: int | None = None
    thinks: bool = False


class LaunchSetup(Struct, frozen=True):
    """The variables, arguments and files that make a program use an `Endpoint`."""

    variables: dict[str, str]
    arguments: tuple[str, ...] = ()
    files: dict[str, str] = {}


class Program(Struct, frozen=True):
    """A program that can be started: its command, how to install it, and the provider whose models it knows."""

    command: str
    install: str
    configure: Callable[[Endpoint], LaunchSetup]
    provider: str = ""
    removed: tuple[str, ...] = ()


_CLAUDE_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
)


def _claude(endpoint: Endpoint) -> LaunchSetup:
    models = dict.fromkeys(_CLAUDE_MODELS, endpoint.model) if endpoint.model else {}
    window = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(endpoint.window)} if endpoint.window else {}
    return LaunchSetup({"ANTHROPIC_BASE_URL": endpoint.url, "ANTHROPIC_AUTH_TOKEN": endpoint.key, **models, **window})


def _codex(endpoint: Endpoint) -> LaunchSetup:
    provider = {
        "name": "toolwire",
        "base_url": f"{endpoint.url}/v1",
        "wire_api": "responses",
        "env_key": "TOOLWIRE_LAUNCH_KEY",
        "requires_openai_auth": False,
        "supports_websockets": True,
    }
    settings = {f"model_providers.toolwire.{name}": value for name, value in provider.items()}
    settings |= {"model_provider": "toolwire", **({"model": endpoint.model} if endpoint.model else {})}
    if endpoint.window is not None:
        settings["model_context_window"] = endpoint.window
    arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={json.dumps(value)}")]
    return LaunchSetup({"TOOLWIRE_LAUNCH_KEY": endpoint.key}, tuple(arguments))


def _gemini(endpoint: Endpoint) -> LaunchSetup:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    variables = {
        "GOOGLE_GEMINI_BASE_URL": endpoint.url,
        "GEMINI_API_KEY": endpoint.key,
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": f"{endpoint.folder}/settings.json",
        **({"GEMINI_MODEL": endpoint.model} if endpoint.model else {}),
    }
    return LaunchSetup(variables, (), {"settings.json": json.dumps(settings)})


def _opencode(endpoint: Endpoint) -> LaunchSetup:
    """Choose the package for the provider's own wire, so that bodies pass unchanged."""
    package = "@ai-sdk/anthropic" if endpoint.dialect == "anthropic" else "@ai-sdk/openai-compatible"
    limits = {"context": endpoint.window, "output": endpoint.output} if endpoint.window and endpoint.output else None
    # Without these, opencode sends no image to a model that it does not know (1.18.33, 2026-11-22).
    images = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    model: dict[str, Any] = {"name": endpoint.model, **images, **({"limit": limits} if limits else {})}
    provider = {
        "npm": package,
        "name": "toolwire",
        "options": {"baseURL": f"{endpoint.url}/v1", "apiKey": endpoint.key},
        "models": {endpoint.model: model},
    }
    name = f"toolwire/{endpoint.model}"
    settings = {"provider": {"toolwire": provider}, "model": name, "small_model": name}
    return LaunchSetup({"OPENCODE_CONFIG_CONTENT": json.dumps(settings)})


_COPILOT_OTHERS = ("API_KEY_COMMAND", "BEARER_TOKEN", "HEADERS", "MODEL_ID", "TRANSPORT", "WIRE_API", "WIRE_MODEL")


def _copilot(endpoint: Endpoint) -> LaunchSetup:
    """Choose the provider's own wire, so that bodies pass unchanged."""
    anthropic = endpoint.dialect == "anthropic"
    settings = {
        "BASE_URL": endpoint.url if anthropic else f"{endpoint.url}/v1",
        "TYPE": "anthropic" if anthropic else "openai",
        "API_KEY": endpoint.key,
        **({"WIRE_API": "responses"} if endpoint.dialect == "openai-responses" else {}),
        **({"MAX_OUTPUT_TOKENS": str(endpoint.output)} if endpoint.output else {}),
    }
    if endpoint.window and endpoint.output:
        settings["MAX_PROMPT_TOKENS"] = str(endpoint.window - endpoint.output)
    variables = {f"COPILOT_PROVIDER_{name}": value for name, value in settings.items()}
    return LaunchSetup({"COPILOT_MODEL": endpoint.model, **variables})


# The names that pi has for the gateway's wires, and the path of each at the gateway.
_PI_WIRES = {
    "openai-chat": ("openai-completions", "/v1"),
    "openai-responses": ("openai-responses", "/v1"),
    "anthropic": ("anthropic-messages", ""),
    "gemini": ("google-generative-ai", "/v1beta"),
}


def _pi(endpoint: Endpoint) -> LaunchSetup:
    """Add a provider with the model's own wire, by an extension that is loaded beside the user's."""
    wire, path = _PI_WIRES.get(endpoint.dialect, _PI_WIRES["openai-chat"])
    free = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
    limits = {"contextWindow": endpoint.window or 128_000, "maxTokens": endpoint.output or 16_384}
    model = {"id": endpoint.model, "name": endpoint.model, "reasoning": endpoint.thinks, "input": ["text", "image"]}
    provider: dict[str, Any] = {"baseUrl": endpoint.url + path, "apiKey": "TOOLWIRE_LAUNCH_KEY", "api": wire}
    provider["models"] = [{**model, "cost": free, **limits}]
    extension = f"export default (pi) => pi.registerProvider('toolwire', {json.dumps(provider)});\n"
    arguments = ("--extension", f"{endpoint.folder}/toolwire.mjs", "--provider", "toolwire", "--model", endpoint.model)
    return LaunchSetup({"TOOLWIRE_LAUNCH_KEY": endpoint.key}, arguments, {"toolwire.mjs": extension})


def _qwen(endpoint: Endpoint) -> LaunchSetup:
    url = f"{endpoint.url}/v1"
    variables = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": endpoint.key, "OPENAI_MODEL": endpoint.model}
    return LaunchSetup(variables, ("--auth-type", "openai", "--model", endpoint.model))


def _aider(endpoint: Endpoint) -> LaunchSetup:
    model = f"openai/{endpoint.model}"
    return LaunchSetup(
        {
            "AIDER_OPENAI_API_BASE": f"{endpoint.url}/v1",
            "AIDER_OPENAI_API_KEY": endpoint.key,
            "AIDER_MODEL": model,
            "AIDER_WEAK_MODEL": model,
            "AIDER_SHOW_MODEL_WARNINGS": "false",
        }
    )


def _llm(endpoint: Endpoint) -> LaunchSetup:
    """Name a model that llm knows; the gateway routes it to the model that the user wants.

    llm takes a key from `llm keys set openai` before one from a variable (0.36, `llm.get_key`). OpenAI's SDK sends the
    headers of OPENAI_CUSTOM_HEADERS in place of its own (openai 3.54.0, `_client_auth.py`).
    """
    variables = {
        "OPENAI_BASE_URL": f"{endpoint.url}/v1",
        "OPENAI_API_KEY": endpoint.key,
        "OPENAI_CUSTOM_HEADERS": f"Authorization: Bearer {endpoint.key}",
        "LLM_MODEL": "gpt-4o-mini",
    }
    return LaunchSetup(variables)


PROGRAMS = {
    "claude": Program(
        "claude",
        "npm install -g @anthropic-ai/claude-code",
        _claude,
        "anthropic",
        ("ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    ),
    "codex": Program("codex", "npm install -g @openai/codex", _codex, "openai-responses"),
    "gemini": Program(
        "gemini",
        "npm install -g @google/gemini-cli",
        _gemini,
        "gemini",
        ("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
    ),
    "opencode": Program("opencode", "npm install -g opencode-ai", _opencode),
    "copilot": Program(
        "copilot",
        "npm install -g @github/copilot",
        _copilot,
        removed=tuple(f"COPILOT_PROVIDER_{name}" for name in _COPILOT_OTHERS),
    ),
    "pi": Program("pi", "npm install -g @earendil-works/pi-coding-agent", _pi),
    "qwen": Program("qwen", "npm install -g @qwen-code/qwen-code", _qwen),
    "aider": Program("aider", "pipx install aider-chat", _aider),
    "llm": Program("llm", "pipx install llm", _llm),
}
