"""The programs that `toolwire launch` starts, as a table: what each must be told to ask a gateway.

Rules of this file:
- A row is pure: it says variables, arguments and files of a folder that is thrown away; the runner sets them.
- Nothing that belongs to the user is written. What a user types after `--` stands last, and so is heard.
- Variables that would lead the program elsewhere are taken out.

Sources: claude-code 2.1.332, codex 0.171.0, gemini-cli 0.61.0, opencode 1.18.33, copilot 1.0.102, pi 1.6.0, qwen-code,
aider and llm as their pages in docs/programs/ say, as of 2026-11-23.
"""

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Entrance(Struct, frozen=True):
    """Where a program is to ask: the gateway, a key for it, the model's name, and a folder for files."""

    url: str
    key: str
    folder: str
    model: str = ""
    dialect: str = ""
    window: int | None = None
    output: int | None = None
    thinks: bool = False


class Told(Struct, frozen=True):
    """What makes a program ask there."""

    variables: dict[str, str]
    arguments: tuple[str, ...] = ()
    files: dict[str, str] = {}


class Program(Struct, frozen=True):
    """A program that can be started: its command, what installs it, and whose models it knows by itself."""

    command: str
    install: str
    told: Callable[[Entrance], Told]
    provider: str = ""
    removed: tuple[str, ...] = ()


_CLAUDE_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
)


def _claude(place: Entrance) -> Told:
    models = dict.fromkeys(_CLAUDE_MODELS, place.model) if place.model else {}
    window = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(place.window)} if place.window else {}
    return Told({"ANTHROPIC_BASE_URL": place.url, "ANTHROPIC_AUTH_TOKEN": place.key, **models, **window})


def _codex(place: Entrance) -> Told:
    provider = {
        "name": "toolwire",
        "base_url": f"{place.url}/v1",
        "wire_api": "responses",
        "env_key": "TOOLWIRE_LAUNCH_KEY",
        "requires_openai_auth": False,
        "supports_websockets": True,
    }
    said = {f"model_providers.toolwire.{name}": value for name, value in provider.items()}
    said |= {"model_provider": "toolwire", **({"model": place.model} if place.model else {})}
    if place.window is not None:
        said["model_context_window"] = place.window
    arguments = [word for name, value in said.items() for word in ("-c", f"{name}={json.dumps(value)}")]
    return Told({"TOOLWIRE_LAUNCH_KEY": place.key}, tuple(arguments))


def _gemini(place: Entrance) -> Told:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    variables = {
        "GOOGLE_GEMINI_BASE_URL": place.url,
        "GEMINI_API_KEY": place.key,
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": f"{place.folder}/settings.json",
        **({"GEMINI_MODEL": place.model} if place.model else {}),
    }
    return Told(variables, (), {"settings.json": json.dumps(settings)})


def _opencode(place: Entrance) -> Told:
    """Choose of its two packages the one of the provider's own wire, so that bytes pass as they are."""
    package = "@ai-sdk/anthropic" if place.dialect == "anthropic" else "@ai-sdk/openai-compatible"
    limits = {"context": place.window, "output": place.output} if place.window and place.output else None
    # Without these it shows no picture to a model that it does not know (1.18.33, 2026-11-22).
    seen = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    model: dict[str, Any] = {"name": place.model, **seen, **({"limit": limits} if limits else {})}
    provider = {
        "npm": package,
        "name": "toolwire",
        "options": {"baseURL": f"{place.url}/v1", "apiKey": place.key},
        "models": {place.model: model},
    }
    name = f"toolwire/{place.model}"
    settings = {"provider": {"toolwire": provider}, "model": name, "small_model": name}
    return Told({"OPENCODE_CONFIG_CONTENT": json.dumps(settings)})


_COPILOT_OTHERS = ("API_KEY_COMMAND", "BEARER_TOKEN", "HEADERS", "MODEL_ID", "TRANSPORT", "WIRE_API", "WIRE_MODEL")


def _copilot(place: Entrance) -> Told:
    """Choose of its wires the one of the provider, so that bytes pass as they are."""
    anthropic = place.dialect == "anthropic"
    said = {
        "BASE_URL": place.url if anthropic else f"{place.url}/v1",
        "TYPE": "anthropic" if anthropic else "openai",
        "API_KEY": place.key,
        **({"WIRE_API": "responses"} if place.dialect == "openai-responses" else {}),
        **({"MAX_OUTPUT_TOKENS": str(place.output)} if place.output else {}),
    }
    if place.window and place.output:
        said["MAX_PROMPT_TOKENS"] = str(place.window - place.output)
    return Told({"COPILOT_MODEL": place.model, **{f"COPILOT_PROVIDER_{name}": value for name, value in said.items()}})


# The wires of pi that are the gateway's, and where each begins there.
_PI_WIRES = {
    "openai-chat": ("openai-completions", "/v1"),
    "openai-responses": ("openai-responses", "/v1"),
    "anthropic": ("anthropic-messages", ""),
    "gemini": ("google-generative-ai", "/v1beta"),
}


def _pi(place: Entrance) -> Told:
    """Add a provider, of the wire of the model's own, by an extension that stands beside the user's."""
    wire, path = _PI_WIRES.get(place.dialect, _PI_WIRES["openai-chat"])
    free = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
    limits = {"contextWindow": place.window or 128_000, "maxTokens": place.output or 16_384}
    model = {"id": place.model, "name": place.model, "reasoning": place.thinks, "input": ["text", "image"]}
    provider: dict[str, Any] = {"baseUrl": place.url + path, "apiKey": "TOOLWIRE_LAUNCH_KEY", "api": wire}
    provider["models"] = [{**model, "cost": free, **limits}]
    extension = f"export default (pi) => pi.registerProvider('toolwire', {json.dumps(provider)});\n"
    arguments = ("--extension", f"{place.folder}/toolwire.mjs", "--provider", "toolwire", "--model", place.model)
    return Told({"TOOLWIRE_LAUNCH_KEY": place.key}, arguments, {"toolwire.mjs": extension})


def _qwen(place: Entrance) -> Told:
    variables = {"OPENAI_BASE_URL": f"{place.url}/v1", "OPENAI_API_KEY": place.key, "OPENAI_MODEL": place.model}
    return Told(variables, ("--auth-type", "openai", "--model", place.model))


def _aider(place: Entrance) -> Told:
    model = f"openai/{place.model}"
    return Told(
        {
            "AIDER_OPENAI_API_BASE": f"{place.url}/v1",
            "AIDER_OPENAI_API_KEY": place.key,
            "AIDER_MODEL": model,
            "AIDER_WEAK_MODEL": model,
            "AIDER_SHOW_MODEL_WARNINGS": "false",
        }
    )


def _llm(place: Entrance) -> Told:
    """Name a model that it knows: the gateway leads it to the one that is wanted.

    llm takes a key from `llm keys set openai` before one from a variable (0.36, `llm.get_key`). OpenAI's SDK sends the
    headers of OPENAI_CUSTOM_HEADERS in place of its own (openai 3.54.0, `_client_auth.py`).
    """
    variables = {
        "OPENAI_BASE_URL": f"{place.url}/v1",
        "OPENAI_API_KEY": place.key,
        "OPENAI_CUSTOM_HEADERS": f"Authorization: Bearer {place.key}",
        "LLM_MODEL": "gpt-4o-mini",
    }
    return Told(variables)


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
