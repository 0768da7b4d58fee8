"""`toolwire serve` as a program: it serves, says what is wrong, and ends well."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli import main
from toolwire.testing import Scenario, simulate

KEY = "sk-sentinel-0123456789abcdef"


QUESTION = {"messages": [{"role": "user", "content": "Hello"}]}


def program(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the program."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-m", "toolwire", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, **environment},
    )


def opened(url: str, body: dict[str, Any] | None = None) -> Any:
    """Open what is at an address of this machine."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})  # noqa: S310 - loopback
    return urllib.request.urlopen(request, timeout=20)  # noqa: S310 - loopback


def ask(url: str, model: str) -> dict[str, Any]:
    """Ask a short question."""
    answered: dict[str, Any] = json.load(opened(f"{url}/v1/chat/completions", {**QUESTION, "model": model}))
    return answered


def first_line(process: subprocess.Popen[str]) -> str:
    """Read where it serves."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("toolwire serves http://127.0.0.1:"), process.communicate(timeout=10)
    return line.split()[-1]


@pytest.mark.slow
def test_a_simulated_model_answers_without_a_key_and_without_a_file() -> None:
    process = program("--simulate", "--listen", "127.0.0.1:0")
    try:
        url = first_line(process)
        for model in ("anything", "anthropic/claude", "gemini/gemini-2.5-pro", "ollama/x"):
            assert ask(url, model)["choices"][0]["message"]["content"] == "You said: Hello"
    finally:
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 0
    lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert [line["goal"] for line in lines][1] == "anthropic/claude"
    assert {line["status"] for line in lines} == {200}


@pytest.mark.slow
def test_a_file_names_routes_and_no_key_is_told(tmp_path: Path) -> None:
    with simulate(Scenario(lambda _request, _turn: "ok", complete=False), api_key=KEY) as model:
        settings = tmp_path / "toolwire.toml"
        settings.write_text(
            f'[server]\ndatabase = "sqlite:///kept.db"\nauth = "none"\n[providers.local]\ndialect = "anthropic"\n'
            f'base_url = "{model.url}/v1"\nkey_file = "secret"\nquirks = {{ api_version = "2023-06-01" }}\n'
            '[routes.sonnet]\nto = ["local/claude-sonnet-4-5"]\n'
        )
        (tmp_path / "secret").write_text(f"\ufeff{KEY}\r\n")
        process = program("--config", str(settings), "--listen", "127.0.0.1:0")
        try:
            url = first_line(process)
            assert ask(url, "sonnet")["model"] == "claude-sonnet-4-5"
            with opened(f"{url}/v1/models") as answer:
                assert json.load(answer)["data"][0]["id"] == "sonnet"
        finally:
            process.send_signal(signal.SIGINT)
            said, told = process.communicate(timeout=20)
        assert process.returncode == 0
        assert KEY not in said + told
        assert model.requests[0].path == "/v1/messages"
        assert (tmp_path / "kept.db").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[sever]\n", "sever is not a section; did you mean server?"),
        ("[server]\nlisten = 7\n", "server.listen"),
        ('[server]\nlisten = "127.0.0.1:65536"\n', "server.listen must be HOST:PORT, not '127.0.0.1:65536'"),
        ('[server]\nlisten = ":8080"\n', "server.listen must be HOST:PORT"),
        ('[routes.a]\nto = ["nobody/m"]\n', "there is no provider 'nobody'"),
        ('[providers.x]\nkey = "sk-abc"\nbase_url = "http://h"\ndialect = "openai"\n', "must name a variable"),
        ('[providers.x]\nkey = "$NOT_THERE"\nbase_url = "http://h"\ndialect = "openai"\n', "NOT_THERE is not set"),
        ('[providers.x]\nkey = "$ODD"\nbase_url = "http://h"\ndialect = "openai"\n', "that no header can carry"),
        ('[server]\nlisten = "0.0.0.0:1"\n', "without keys"),
        ("x", "is not TOML"),
    ],
)
def test_what_is_wrong_is_said_before_anything_listens(
    tmp_path: Path, text: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolwire.gateway.serving.listen", lambda _address: pytest.fail("it listens"))
    monkeypatch.setenv("ODD", "sk-ä")
    settings = tmp_path / "toolwire.toml"
    settings.write_text(text)
    assert main(["serve", "--config", str(settings), "--check"]) == 2
    said, problem = capsys.readouterr()
    assert (said, told in problem) == ("", True)
    assert "sk-abc" not in problem


@pytest.mark.parametrize("address", ["8080", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:-1", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--simulate", "--listen", address]) == 2
    assert capsys.readouterr().err == f"toolwire: server: listen must be HOST:PORT, not {address!r}\n"


def test_settings_that_are_right_are_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "toolwire.toml"
    settings.write_text('[routes.a]\nto = ["ollama/m"]\n[cli]\nanything = 1\n')
    assert main(["serve", "--config", str(settings), "--check"]) == 0
    assert "1 routes" in capsys.readouterr().out


def test_a_stream_that_runs_comes_to_its_end_when_a_signal_says_stop() -> None:
    from toolwire.testing import Pace

    words = ["one ", Pace(0.1), "two three four five six seven eight nine ten"]
    with simulate(Scenario([words]), strict=False) as model:
        process = program("--listen", "127.0.0.1:0", OPENAI_API_KEY="k", OPENAI_BASE_URL=f"{model.url}/v1")
        try:
            url = first_line(process)
            asked = {**QUESTION, "model": "openai/m", "max_tokens": 9, "stream": True}
            with opened(f"{url}/v1/messages", asked) as answer:
                answer.readline()
                process.send_signal(signal.SIGTERM)
                rest = answer.read()
            assert b"message_stop" in rest
        finally:
            start = time.monotonic()
            process.send_signal(signal.SIGTERM) if process.poll() is None else None
            process.communicate(timeout=20)
            assert time.monotonic() - start < 10
        assert process.returncode == 0
