"""`toolwire serve` as a program: it serves, says what is wrong, and ends well."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_request_record import LINE, RECORD
from toolwire.cli import main
from toolwire.config import GatewaySettings
from toolwire.gateway import starting
from toolwire.gateway.routes import Routes
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
    assert [line["provider"] for line in lines][1] == "anthropic/claude"
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
        ('[server]\nauth = "key"\n', "server.auth must be one of 'none', 'keys'"),
        ("[server]\nconnections = 0\n", "server.connections must be 1 or more"),
        ('[server]\ndatabase = "toolwire.db"\n', 'server.database must be "sqlite:///toolwire.db"'),
        ('[server]\ndatabase = "mysql://db/x"\n', 'server.database must be "sqlite:///toolwire.db"'),
        ('[server]\ndatabase = "postgresql://db:port/x"\n', 'server.database must be "sqlite:///toolwire.db"'),
        ('[server]\nhosts = ["a.example", "https://b.example"]\n', "server.hosts[1] must be a name without scheme"),
        ('[server]\norigins = ["app.example"]\n', "server.origins[0] must be as a browser sends it"),
        ('[routes.a]\nto = ["nobody/m"]\n', "there is no provider 'nobody'"),
        (
            '[routes.a]\nto = ["olama/m"]\n',
            "routes.a: to names olama/m: there is no provider 'olama'; did you mean ollama?",
        ),
        ('[routes.a]\nto = ["openai/m"]\n', "without a key: export OPENAI_API_KEY=..."),
        (
            '[routes.a]\nto = [{ model = "ollama/m", wieght = 1 }]\n',
            "routes.a.to[0].wieght is not a setting; did you mean weight?",
        ),
        ('[routes.a]\nto = [{ model = "ollama/m", weight = nan }]\n', "routes.a.to[0].weight must be 0 or more"),
        ('[routes.a]\nto = "ollama/m"\n[routes.b]\nstrict = 1\n', "routes.a.to: Expected"),
        ('[routes.a]\nto = "ollama/m"\n[routes.b]\nstrict = 1\n', "routes.b.strict: Expected"),
        ('[memory]\nexpires = "0s"\n', "memory.expires must be longer"),
        ("[memory]\nbytes = -1\n", "memory.bytes must be 0 or more"),
        ("[translation_cache]\nbytes = -1\n", "translation_cache.bytes must be 0 or more"),
        ("[admin]\non = true\n", "admin.on needs keys, and so server.database: only an admin key can use it"),
        ("[admin]\nkey = 'x'\n", "admin.key is not a setting"),
        ("[translation_cache]\nsize = 1\n", "translation_cache.size is not a setting; there are: bytes"),
        ('[prices]\n"m" = { input = 1, output = 1 }\n', "prices.m must be named PROVIDER/MODEL"),
        ('[prices]\n"*/m" = { input = 1, output = 1 }\n', "prices.*/m must be named PROVIDER/MODEL"),
        ('[prices]\n"a/m?" = { input = 1, output = 1 }\n', "* stands for any part of MODEL"),
        ('[prices]\n"a/[m]" = { input = 1, output = 1 }\n', "* stands for any part of MODEL"),
        ('[prices]\n"a/m" = { input = 1, output = 1, cached = 1 }\n', "prices.a/m.cached is not a setting"),
        ('[providers.x]\nbase_url = "http://h"\ndialect = "opena"\n', "providers.x.dialect is not a dialect: 'opena'"),
        ('[providers.x]\nbase_url = "http://h"\n', "providers.x: dialect is missing"),
        (
            '[providers.x]\nbase_url = "h:80"\ndialect = "openai"\n',
            "providers.x.base_url must be like https://host/path",
        ),
        ('[providers."x/y"]\nbase_url = "http://h"\ndialect = "openai"\n', "providers.x/y: a provider's name must be"),
        ('[providers.x]\nkey = "$"\nbase_url = "http://h"\ndialect = "openai"\n', "must name a variable"),
        (
            '[providers.x]\nbase_url = "http://h"\ndialect = "openai"\nquirks = { a = 1 }\n',
            "providers.x: a is not a quirk",
        ),
        (
            '[providers.x]\nbase_url = "http://h"\ndialect = "openai"\nheaders = { "a b" = "c" }\n',
            "'a b' is not the name of a header",
        ),
        (
            '[providers.x]\nbase_url = "http://h"\ndialect = "openai"\nheaders = { a = "b\\n" }\n',
            "providers.x: a has characters",
        ),
        ('[providers.x]\nkey = "sk-abc"\nbase_url = "http://h"\ndialect = "openai"\n', "must name a variable"),
        ('[providers.x]\nkey = "$NOT_THERE"\nbase_url = "http://h"\ndialect = "openai"\n', "NOT_THERE is not set"),
        ('[providers.x]\nkey = "$ODD"\nbase_url = "http://h"\ndialect = "openai"\n', "that no header can carry"),
        ('[server]\nlisten = "0.0.0.0:1"\n', "without keys"),
        ("x", "is not TOML"),
        ("\ufeff[sever]\n", "sever is not a section"),
    ],
)
def test_what_is_wrong_is_said_before_anything_listens(
    tmp_path: Path, text: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolwire.gateway.serving.listen", lambda _address: pytest.fail("it listens"))
    monkeypatch.setenv("ODD", "sk-ä")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = tmp_path / "toolwire.toml"
    settings.write_text(text)
    assert main(["serve", "--config", str(settings), "--check"]) == 2
    said, problem = capsys.readouterr()
    assert (said, told in problem) == ("", True)
    assert "sk-abc" not in problem


@pytest.mark.parametrize("held", [b"", b"\n", b"sk-1\nsk-2\n", b"\xff\xfe\x00", b"a: \xc3\xa9"])
def test_a_file_of_a_key_holds_one(held: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "toolwire.toml"
    settings.write_text('[providers.x]\nbase_url = "http://h"\ndialect = "openai"\nkey_file = "secret"\n')
    (tmp_path / "secret").write_bytes(held)
    assert main(["serve", "--config", str(settings), "--check"]) == 2
    assert capsys.readouterr().err == "toolwire: providers.x: key_file secret must hold a key, in one line\n"
    (tmp_path / "secret").write_bytes(b"\xef\xbb\xbfsk-1\r\n")
    assert main(["serve", "--config", str(settings), "--check"]) == 0


@pytest.mark.parametrize("auth", ["keys", "none"])
def test_a_database_that_cannot_be_opened_is_told(
    auth: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "toolwire.toml"
    settings.write_text(f'[server]\ndatabase = "sqlite:///none/kept.db"\nauth = "{auth}"\n')
    assert main(["serve", "--config", str(settings), "--listen", "127.0.0.1:0"]) == 2
    said = "toolwire: server: database cannot be opened: No such file or directory\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("address", ["8080", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:-1", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--simulate", "--listen", address]) == 2
    assert capsys.readouterr().err == f"toolwire: server: listen must be HOST:PORT, not {address!r}\n"


def test_an_address_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["serve", "--simulate", "--listen", address]) == 2
    assert capsys.readouterr().err == f"toolwire: {address}: Address already in use\n"


def test_a_log_that_nobody_reads_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def write(text: str) -> None:
        written.append(text)
        raise BrokenPipeError

    seen = starting.gateway_of(Routes(GatewaySettings(), {}), GatewaySettings()).log
    monkeypatch.setattr("sys.stderr.write", write)
    assert seen is not None
    seen(RECORD)
    assert written == [f"{LINE}}}\n"]


def test_settings_that_are_right_are_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "toolwire.toml"
    settings.write_text('[routes.a]\nto = ["ollama/m"]\n[cli]\nanything = 1\n')
    assert main(["serve", "--config", str(settings), "--check"]) == 0
    assert "1 routes" in capsys.readouterr().out


@pytest.mark.slow
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
