"""Other gateways before the same model: how each is started and asked; one that is not here is named with the reason.

They are those that PyPI has, in `.venv-bench`. Portkey's gateway is a program of Node, and Bifrost one of Go: neither
is a package of Python, and neither is measured here.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

PROGRAMS = Path(__file__).resolve().parent.parent / ".venv-bench" / "bin"
ABSENT = "Portkey (Node) and Bifrost (Go) are no packages of PyPI, and are not measured"


class Peer(NamedTuple):
    """A gateway of others: its program, what it reads, how it is told, and the models that are asked."""

    name: str
    program: str
    write: Callable[[Path, int], Path]
    arguments: Callable[[Path, int], list[str]]
    environment: dict[str, str]
    models: dict[str, str]


MODELS = {"chat > chat": "gpt-4.1", "chat > messages": "claude-sonnet-4-5"}


def _litellm(folder: Path, model: int) -> Path:
    """Write LiteLLM's settings; JSON is YAML."""
    url = f"http://127.0.0.1:{model}"
    deployments = [
        {"model_name": name, "litellm_params": {"model": f"{wire}/{name}", "api_base": base, "api_key": "x"}}
        for wire, name, base in (("openai", "gpt-4.1", f"{url}/v1"), ("anthropic", "claude-sonnet-4-5", url))
    ]
    file = folder / "litellm.yaml"
    file.write_text(json.dumps({"model_list": deployments, "litellm_settings": {"telemetry": False}}))
    return file


def _rosetta(folder: Path, model: int) -> Path:
    """Write llm-rosetta's settings."""
    url = f"http://127.0.0.1:{model}"
    providers = {
        "openai_chat": {"api_key": "x", "base_url": f"{url}/v1"},
        "anthropic": {"api_key": "x", "base_url": url},
    }
    models = {"gpt-4.1": "openai_chat", "claude-sonnet-4-5": "anthropic"}
    file = folder / "rosetta.jsonc"
    settings = {"providers": providers, "models": models, "server": {"host": "127.0.0.1", "open_on_no_keys": True}}
    file.write_text(json.dumps(settings))
    return file


PEERS = (
    Peer(
        "llm-rosetta",
        "llm-rosetta-gateway",
        _rosetta,
        lambda file, port: [
            *("--config", str(file), "--host", "127.0.0.1", "--port", str(port)),
            *("--data-dir", str(file.parent), "--no-banner", "--log-level", "error"),
        ],
        {},
        MODELS,
    ),
    Peer(
        "LiteLLM",
        "litellm",
        _litellm,
        lambda file, port: ["--config", str(file), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"],
        {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
            "NO_DOCS": "True",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        },
        MODELS,
    ),
)


def missing(peer: Peer) -> str:
    """Say why a peer cannot be measured; nothing where it can."""
    program = PROGRAMS / peer.program
    if not program.exists():
        return f"{program} is not here"
    ran = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=120)
    return "" if ran.returncode == 0 else (ran.stderr.strip().splitlines() or ["it does not start"])[-1]


@contextlib.contextmanager
def started(peer: Peer, folder: Path, model: int, port: int, before: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a peer while this lasts."""
    own = folder / peer.program
    own.mkdir()
    command = [*before, str(PROGRAMS / peer.program), *peer.arguments(peer.write(own, model), port)]
    environment = {**os.environ, **peer.environment, "HOME": str(own)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
