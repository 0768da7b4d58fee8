"""`make demo` and the other examples: they run, offline, and do what they say."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import environment
from toolwire.dialects import NAMES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/simulated:streamGenerateContent",
    "ollama": "/api/chat",
}


def shown(folder: Path, *arguments: str) -> str:
    """Run an example, without a key and as if no network were there."""
    unreachable = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    variables = {**environment(folder), **unreachable, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("dialect", NAMES)
def test_the_demo_fixes_the_bug_over_each_wire(tmp_path: Path, dialect: str) -> None:
    said = shown(tmp_path, str(EXAMPLES / "demo.py"), "--dialect", dialect)
    for words in (
        "> tree()",
        "FAIL: test_several_units_are_read",
        "  durations/reading.py:10: def seconds_of(text: str) -> int:",
        "  - 16         total = int(amount) * UNITS[unit]",
        "  + 16         total += int(amount) * UNITS[unit]",
        "All tests pass.",
        f"On the wire, {dialect}: the first exchange",
        f"{PATHS[dialect]}",
        "The tests failed before, and pass now: yes.",
    ):
        assert words in said
    assert said.splitlines()[-3].strip() == "from toolwire import CodeTools, generate"
    assert max(map(len, said.splitlines())) < 140
    assert not (EXAMPLES / "project" / "__pycache__").exists()


@pytest.mark.slow
def test_the_demo_shows_the_wire_whole(tmp_path: Path) -> None:
    said = shown(tmp_path, str(EXAMPLES / "demo.py"), "--wire", "--dialect", "anthropic")
    assert said.count("answered with 200") == 5
    assert said.count("event: message_stop") == 5
    assert said.count('"additionalProperties": false') > 5


@pytest.mark.slow
def test_the_demo_says_when_the_bug_is_not_fixed(tmp_path: Path) -> None:
    """A control: of a project with another bug nothing is claimed."""
    for name in ("demo.py", "project"):
        place = EXAMPLES / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, tmp_path / name)
    units = tmp_path / "project" / "durations" / "units.py"
    units.write_text(units.read_text().replace('"h": 3600', '"h": 360'))
    command = [sys.executable, str(tmp_path / "demo.py")]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "The tests failed before, and pass now: NO." in done.stdout


def test_one_conversation_in_five_wire_formats(tmp_path: Path) -> None:
    said = shown(tmp_path, str(EXAMPLES / "translation.py"))
    for name in NAMES:
        assert f"=== {name}: POST " in said
