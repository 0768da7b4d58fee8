"""`toolwire serve` in front of a strict simulated model of one wire."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from conformance.environments import ROOT
from conformance.model import answer
from toolwire.testing import Scenario, simulate

# The names of the simulated model at each upstream: models that can think, call tools and see images.
MODELS = {
    "openai-chat": "gpt-5",
    "openai-responses": "gpt-5",
    "anthropic": "claude-sonnet-4-6",
    "gemini": "gemini-2.5-pro",
    "ollama": "qwen3",
}
UPSTREAMS = tuple(MODELS)
# The models that clients ask for. Some clients choose their settings by these names.
NAMES = ("gpt-5", "gpt-4.1", "claude-sonnet-4-5", "gemini-2.5-pro", "qwen3")


@contextlib.contextmanager
def gateway(upstream: str) -> Iterator[str]:
    """Run a gateway in front of a simulated model of the wire `upstream`, and yield its URL."""
    with (
        simulate(Scenario(answer, complete=False)) as model,
        tempfile.TemporaryDirectory() as folder,
    ):
        settings = Path(folder, "toolwire.toml")
        provider = f'[providers.simulated]\ndialect = "{upstream}"\nbase_url = "{model.url}"\nkey = "$SIMULATED_KEY"\n'
        routes = "".join(f'[routes."{name}"]\nto = ["simulated/{_model(upstream, name)}"]\n' for name in NAMES)
        settings.write_text(provider + routes, encoding="utf-8")
        with _serving(settings) as url:
            yield url


def _model(upstream: str, name: str) -> str:
    """Return the model for a client's name: on Chat Completions an older one takes what reasoning models refuse."""
    return name if upstream == "openai-chat" and name.startswith("gpt-") else MODELS[upstream]


@contextlib.contextmanager
def _serving(settings: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "toolwire", "serve", "--quiet"]
    command += ["--config", str(settings), "--listen", "127.0.0.1:0"]
    environment = os.environ | {"SIMULATED_KEY": "any", "PYTHONPATH": str(ROOT / "src")}
    with (settings.parent / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            if not words:
                log.seek(0)
                raise RuntimeError(f"the gateway did not start: {log.read()[-1000:]}")
            yield words[-1]
        finally:
            process.terminate()
            process.wait(20)
