"""Other gateways before the same provider: how each is started and asked.

They are packages of PyPI, each in an environment that the Makefile makes. Portkey's gateway is a program of Node, and
Bifrost one of Go: neither is a package of Python, and neither is measured here.
"""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from processes import MEASURED, Program, pinned, running

HERE = Path(__file__).resolve().parent.parent
ABSENT = "Portkey (Node) and Bifrost (Go) are no packages of PyPI, and are not measured"
MODELS = {"chat > chat": "gpt-4.1", "chat > messages": "claude-sonnet-4-5"}


class Peer(NamedTuple):
    """Another gateway: its package and program, how its settings are written, and how it is started."""

    name: str
    package: str
    program: Path
    write: Callable[[Path, int], Path]  # writes its settings into a folder, for a provider on a port
    arguments: Callable[[Path, int], list[str]]
    environment: dict[str, str]
    ready: str  # the path that answers 200 when it is ready; empty if it has none


def _litellm(folder: Path, provider: int) -> Path:
    """Write LiteLLM's settings; JSON is YAML."""
    url = f"http://127.0.0.1:{provider}"
    deployments = [
        {"model_name": name, "litellm_params": {"model": f"{wire}/{name}", "api_base": base, "api_key": "x"}}
        for wire, name, base in (("openai", "gpt-4.1", f"{url}/v1"), ("anthropic", "claude-sonnet-4-5", url))
    ]
    file = folder / "litellm.yaml"
    file.write_text(json.dumps({"model_list": deployments, "litellm_settings": {"telemetry": False}}))
    return file


def _rosetta(folder: Path, provider: int) -> Path:
    """Write llm-rosetta's settings."""
    url = f"http://127.0.0.1:{provider}"
    providers = {
        "openai_chat": {"api_key": "x", "base_url": f"{url}/v1"},
        "anthropic": {"api_key": "x", "base_url": url},
    }
    models = {"gpt-4.1": "openai_chat", "claude-sonnet-4-5": "anthropic"}
    file = folder / "rosetta.jsonc"
    settings = {"providers": providers, "models": models, "server": {"host": "127.0.0.1", "open_on_no_keys": True}}
    file.write_text(json.dumps(settings))
    return file


ROSETTA = Peer(
    "llm-rosetta",
    "llm-rosetta",
    HERE / ".venv-bench" / "bin" / "llm-rosetta-gateway",
    _rosetta,
    lambda file, port: [
        *("--config", str(file), "--host", "127.0.0.1", "--port", str(port)),
        *("--data-dir", str(file.parent), "--no-banner", "--log-level", "error"),
    ],
    {},
    "",
)
LITELLM = Peer(
    "LiteLLM",
    "litellm",
    HERE / ".venv-proxy" / "bin" / "litellm",
    _litellm,
    lambda file, port: ["--config", str(file), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"],
    {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        "NO_DOCS": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        # Without it, LiteLLM sends requests of Messages to OpenAI's Responses, which the simulated provider lacks.
        "LITELLM_USE_CHAT_COMPLETIONS_URL_FOR_ANTHROPIC_MESSAGES": "True",
    },
    "/health/readiness",
)
PEERS = (ROSETTA, LITELLM)


def missing(peer: Peer) -> str:
    """Return why a peer cannot be started; an empty text if it can."""
    return "" if peer.program.exists() else f"{peer.program.relative_to(HERE)} is not installed"


def version(peer: Peer) -> str:
    """Return the version that is installed."""
    code = f"from importlib.metadata import version; print(version({peer.package!r}))"
    command = [str(peer.program.with_name("python")), "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def started(peer: Peer, folder: Path, provider: int, port: int) -> Iterator[Program]:
    """Run a peer before the provider on a port, while the context lasts."""
    folder.mkdir()
    command = [*pinned(MEASURED), str(peer.program), *peer.arguments(peer.write(folder, provider), port)]
    with running(command, folder, **peer.environment, HOME=str(folder)) as program:
        yield program
