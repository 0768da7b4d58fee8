"""`toolwire simulate`, as one who starts it sees it."""

import argparse
import re
import threading
import time
from pathlib import Path

import pytest

from tests.testing.asking import BODIES, send
from toolwire.cli import simulate as simulate_command
from toolwire.errors import DeclarationError


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    simulate_command.add(parser.add_subparsers())
    return parser.parse_args(["simulate", *arguments])


def started(capsys: pytest.CaptureFixture[str], codes: list[int], *arguments: str) -> tuple[str, str]:
    """Run the command in a thread; give what it has said first, and its address."""
    options = parsed("--port", "0", *arguments)
    threading.Thread(target=lambda: codes.append(simulate_command.run(options)), daemon=True).start()
    said = ""
    while not (found := re.search(r"ollama +(http://[0-9.:]+)\n", said)):
        said += capsys.readouterr().out
        time.sleep(0.005)
    return said, found[1]


def ended(codes: list[int]) -> int:
    limit = time.monotonic() + 10
    while not codes and time.monotonic() < limit:
        time.sleep(0.005)
    return codes[0]


def test_the_command_serves_and_says_what_it_served(capsys: pytest.CaptureFixture[str]) -> None:
    codes: list[int] = []
    said, url = started(capsys, codes, "--requests", "2")
    assert said.splitlines() == [
        f"openai-chat       {url}/v1",
        f"openai-responses  {url}/v1",
        f"anthropic         {url}",
        f"gemini            {url}",
        f"ollama            {url}",
    ]
    assert send(url, "ollama", BODIES["ollama"]).body["message"]["content"] == "You said: ?"
    assert send(url, "anthropic", {"model": "m"}).status == 400
    assert ended(codes) == 0
    assert capsys.readouterr().out.splitlines() == [
        "POST /api/chat 200 turn 1",
        "POST /v1/messages 400: max_tokens: Field required",
    ]


def test_the_command_plays_a_file_and_says_what_was_left(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text("- text: From a file.\n- text: Never.\n")
    codes: list[int] = []
    arguments = [str(tmp_path / "scenario.yaml"), "--dialect", "ollama", "--lenient", "--requests", "1"]
    said, url = started(capsys, codes, *arguments)
    assert said == f"ollama            {url}\n"
    assert send(url, "ollama", BODIES["ollama"]).body["message"]["content"] == "From a file."
    assert ended(codes) == 1
    assert "turn 2 of 2 was not requested" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_said() -> None:
    with pytest.raises(DeclarationError, match="cannot be read"):
        simulate_command.run(parsed("missing.yaml"))
