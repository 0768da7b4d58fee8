"""`toolwire launch` as one who uses it: the program asks the gateway, and its own files stay as they are."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.gateway.standing import send
from toolwire.cli import main
from toolwire.cli.launch import _environment, _thinks
from toolwire.cli.programs import PROGRAMS, Endpoint
from toolwire.testing import Scenario, simulate

Launch = Callable[..., tuple[object, str]]
# A program that asks as the real one would, with what it was told, and writes down what it heard.
ASKS = """
import json, os, signal, sys, time, urllib.request
told = {name: value for name, value in os.environ.items()}
name = os.path.basename(sys.argv[0])
words = sys.argv[1:]
def sent(url, body, **headers):
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    return json.load(urllib.request.urlopen(request, timeout=20))
def bearer(key):
    return {"authorization": "Bearer " + key}
ask = {"messages": [{"role": "user", "content": "Hello"}]}
if name == "claude":
    body = {**ask, "model": told.get("ANTHROPIC_MODEL", "claude-sonnet-4-5"), "max_tokens": 9}
    key = bearer(told["ANTHROPIC_AUTH_TOKEN"])
    answer = sent(told["ANTHROPIC_BASE_URL"] + "/v1/messages", body, **key)["content"][0]["text"]
elif name == "codex":
    said = dict(one.split("=", 1) for at, one in enumerate(words) if at and words[at - 1] == "-c")
    said = {key.rpartition(".")[2]: json.loads(value) for key, value in said.items()}
    assert said["model_provider"] == "toolwire" and told[said["env_key"]]
    body = {"model": said.get("model", "gpt-5"), "input": "Hello"}
    key = bearer(told[said["env_key"]])
    answer = sent(said["base_url"] + "/responses", body, **key)["output"][0]["content"][0]["text"]
elif name == "gemini":
    settings = json.load(open(told["GEMINI_CLI_SYSTEM_SETTINGS_PATH"]))
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"
    model = told.get("GEMINI_MODEL", "gemini-2.5-pro")
    url = told["GOOGLE_GEMINI_BASE_URL"] + "/v1beta/models/" + model + ":generateContent"
    body = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    answer = sent(url, body, **{"x-goog-api-key": told["GEMINI_API_KEY"]})
    answer = answer["candidates"][0]["content"]["parts"][0]["text"]
elif name == "copilot":
    said = {key.removeprefix("COPILOT_PROVIDER_"): value for key, value in told.items() if "PROVIDER" in key}
    model, url = {"model": told["COPILOT_MODEL"]}, said["BASE_URL"]
    if said["TYPE"] == "anthropic":
        body, key = {**ask, **model, "max_tokens": 9}, {"x-api-key": said["API_KEY"]}
        answer = sent(url + "/v1/messages", body, **key)["content"][0]["text"]
    elif said.get("WIRE_API") == "responses":
        body, key = {**model, "input": "Hello"}, bearer(said["API_KEY"])
        answer = sent(url + "/responses", body, **key)["output"][0]["content"][0]["text"]
    else:
        answer = sent(url + "/chat/completions", {**ask, **model}, **bearer(said["API_KEY"]))
        answer = answer["choices"][0]["message"]["content"]
elif name == "pi":
    given = dict(zip(words[::2], words[1::2]))
    said, written = open(given["--extension"]).read(), "registerProvider('" + given["--provider"] + "', "
    provider, _ = json.JSONDecoder().raw_decode(said[said.index(written) + len(written):])
    [model] = provider["models"]
    assert model["id"] == given["--model"] and told[provider["apiKey"]]
    own = provider["api"] == "anthropic-messages"
    body = {**ask, "model": model["id"], "max_tokens": 9}
    key = {"x-api-key": told[provider["apiKey"]]} if own else bearer(told[provider["apiKey"]])
    answer = sent(provider["baseUrl"] + ("/v1/messages" if own else "/chat/completions"), body, **key)
    answer = answer["content"][0]["text"] if own else answer["choices"][0]["message"]["content"]
elif name == "opencode":
    settings = json.loads(told["OPENCODE_CONFIG_CONTENT"])
    provider, _, model = settings["model"].partition("/")
    provider = settings["provider"][provider]
    assert model in provider["models"]
    own = provider["npm"] == "@ai-sdk/anthropic"
    body = {**ask, "model": model, "max_tokens": 9}
    options = provider["options"]
    key = {"x-api-key": options["apiKey"]} if own else bearer(options["apiKey"])
    answer = sent(options["baseURL"] + ("/messages" if own else "/chat/completions"), body, **key)
    answer = answer["content"][0]["text"] if own else answer["choices"][0]["message"]["content"]
else:
    base = told.get("OPENAI_BASE_URL") or told["AIDER_OPENAI_API_BASE"]
    model = told.get("OPENAI_MODEL") or told.get("LLM_MODEL") or told["AIDER_MODEL"].removeprefix("openai/")
    key = told.get("OPENAI_API_KEY") or told["AIDER_OPENAI_API_KEY"]
    answer = sent(base + "/chat/completions", {**ask, "model": model}, **bearer(key))
    answer = answer["choices"][0]["message"]["content"]
open("heard.json", "w").write(json.dumps({"answer": answer, "words": words, "told": told}))
if "wait" in words:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(41))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(42))
    print("waiting", flush=True)
    time.sleep(30)
sys.exit(int(words[-1]) if words and words[-1].isdigit() else 0)
"""


def place(tmp_path: Path) -> dict[str, str]:
    """Make a home with all the programs, and give the variables of who lives there."""
    folder, home = tmp_path / "bin", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    for program in PROGRAMS.values():
        file = folder / program.command
        file.write_text(f"#!{sys.executable} -IS\n{ASKS}")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    source = str(Path(__file__).resolve().parents[2] / "src")
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": source}


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Launch:
    """Give what runs `toolwire launch` in this process: only the program begins a Python of its own."""

    def run(*words: str, **variables: str) -> tuple[object, str]:
        for name in tuple(os.environ):
            monkeypatch.delenv(name)
        for name, value in {**place(tmp_path), **variables}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        try:
            code: object = main(["launch", *words])
        except SystemExit as end:  # words that cannot be read
            code = end.code
        return code, capfd.readouterr().err

    return run


def heard(tmp_path: Path) -> dict[str, Any]:
    """Read what the program heard."""
    read: dict[str, Any] = json.loads((tmp_path / "heard.json").read_text())
    return read


def files(folder: Path) -> set[str]:
    """List the files of a folder, at any depth."""
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("model", ["", "anthropic/claude-sonnet-4-5", "openai/gpt-4.1"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled
def test_a_program_asks_any_model(name: str, model: str, tmp_path: Path, launch: Launch) -> None:
    named = ["--model", model] if model else []
    assert launch("--simulate", *named, name, "--", "say", "--help", "7") == (7, "")
    told = heard(tmp_path)
    assert told["answer"] == "You said: Hello"
    assert told["words"][-3:] == ["say", "--help", "7"]
    assert files(tmp_path / "home") == set()
    package = json.loads(told["told"].get("OPENCODE_CONFIG_CONTENT", "{}")).get("provider", {}).get("toolwire", {})
    if name == "opencode":
        own = model.startswith("anthropic/")
        assert package["npm"] == ("@ai-sdk/anthropic" if own else "@ai-sdk/openai-compatible")


def test_a_home_in_which_nothing_can_be_written_is_in_nobodys_way(
    tmp_path: Path, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("toolwire.cli.launch._is_ours_alone", lambda _folder: False)
    assert launch("--simulate", "pi", "--", "7", HOME=str(tmp_path / "file")) == (7, "")
    assert heard(tmp_path)["answer"] == "You said: Hello"


@pytest.mark.parametrize("order", ["before", "behind", "behind, with =", "both"])
@pytest.mark.slow
def test_our_options_stand_before_the_program_or_behind_it_up_to_the_mark(
    order: str, tmp_path: Path, launch: Launch
) -> None:
    model = "openai/gpt-4.1"
    words = {
        "before": ["--simulate", "--model", model, "llm"],
        "behind": ["llm", "--model", model, "--simulate"],
        "behind, with =": ["llm", f"--model={model}", "--simulate"],
        "both": ["--simulate", "llm", "--model", model],
    }[order]
    assert launch(*words, "-p", "say", "--", "--model", "its own", "7") == (7, "")
    assert heard(tmp_path)["words"][-5:] == ["-p", "say", "--model", "its own", "7"]
    assert heard(tmp_path)["told"]["LLM_MODEL"] == "gpt-4o-mini"


@pytest.mark.parametrize("model", ["gpt-4o", "openai:gpt-4o", "openai/gpt-4o", "google:gemini-3.5-flash"])
def test_a_model_may_be_spelled_as_everywhere(model: str, tmp_path: Path, launch: Launch) -> None:
    assert launch("--simulate", "--model", model, "opencode", "--", "say", "7") == (7, "")
    assert heard(tmp_path)["answer"] == "You said: Hello"


def test_names_of_its_own_lead_to_the_model_that_is_wanted(tmp_path: Path, launch: Launch) -> None:
    with simulate(Scenario([["Hi."]], complete=False)) as model:
        settings = tmp_path / "toolwire.toml"
        settings.write_text(
            f'[providers.local]\ndialect = "openai-chat"\nbase_url = "{model.url}"\nkey = "$LOCAL_KEY"\n'
            '[routes.mine]\nto = ["local/m"]\n'
        )
        assert launch("--config", str(settings), "--model", "mine", "llm", LOCAL_KEY="key") == (0, "")
        assert heard(tmp_path)["answer"] == "Hi."
        assert heard(tmp_path)["told"]["LLM_MODEL"] == "gpt-4o-mini"
        assert [one.body and one.body["model"] for one in model.requests] == ["m"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["claude"], "needs a key of anthropic: export ANTHROPIC_API_KEY=..."),
        (["codex"], "needs a key of openai-responses: export OPENAI_API_KEY=..."),
        (["--model", "gemini/gemini-2.5-pro", "claude"], "needs a key of gemini: export GEMINI_API_KEY=..."),
        (["claude", "--model", "nobody/m"], "there is no provider 'nobody'"),
        (["claude", "--model"], "--model: expected one argument"),
        (["--model", "nobody/m", "claude"], "there is no provider 'nobody'"),
        (["--simulate", "--model", "foo", "claude"], "--model foo: there is no provider 'foo'"),
        (["aider"], "needs a model: pass --model PROVIDER/MODEL"),
        (["clade"], "did you mean claude?"),
    ],
)
def test_what_is_missing_is_said(words: list[str], told: str, tmp_path: Path, launch: Launch) -> None:
    code, said = launch(*words)
    assert code == 2
    assert told in said
    assert not (tmp_path / "heard.json").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--model", "ollama/qwen3"], "nothing answers at {}: start it (`ollama serve`), or set OLLAMA_HOST to its"),
        (["--config", "toolwire.toml", "--model", "llama.cpp/m"], "start it (`llama-server -m MODEL.gguf`), or set"),
    ],
)
def test_a_local_server_that_does_not_run_is_named_with_what_starts_it(
    words: list[str], told: str, tmp_path: Path, launch: Launch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    (tmp_path / "toolwire.toml").write_text(f'[providers."llama.cpp"]\nbase_url = "{url}/v1"\n')
    code, said = launch(*words, "claude", OLLAMA_HOST=url)
    assert code == 2
    assert told.format(url) in said
    assert not (tmp_path / "heard.json").exists()


def test_a_local_server_that_runs_is_asked(tmp_path: Path, launch: Launch) -> None:
    with simulate(["Hi."]) as model:
        assert launch("--model", "ollama/qwen3", "claude", OLLAMA_HOST=model.url) == (0, "")
    assert heard(tmp_path)["answer"] == "Hi."


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_not_there_is_named_with_what_installs_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["launch", "--simulate", name]) == 2
    assert f"is not installed; install it with: {PROGRAMS[name].install}" in capsys.readouterr().err


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Launch a program that waits; give the address of its gateway and its key."""
    words = [sys.executable, "-m", "toolwire", "launch", "--simulate", "claude", "--", "wait"]
    with subprocess.Popen(words, env=place(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        told = heard(tmp_path)["told"]
        yield told["ANTHROPIC_BASE_URL"], told["ANTHROPIC_AUTH_TOKEN"]
        process.terminate()
        assert process.wait(20) == 41


PROMPT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
# What a wire is asked by, and where its words for an unknown key stand.
DOORS: dict[str, tuple[str, dict[str, Any], Callable[[Any], Any], Any]] = {
    "chat": (
        "/v1/chat/completions",
        {"model": "m", **PROMPT},
        lambda told: told["error"]["type"],
        "authentication_error",
    ),
    "messages": (
        "/v1/messages",
        {"model": "m", "max_tokens": 9, **PROMPT},
        lambda told: told["error"]["type"],
        "authentication_error",
    ),
    "responses": (
        "/v1/responses",
        {"model": "m", "input": "Hello"},
        lambda told: told["error"]["type"],
        "authentication_error",
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
        lambda told: told["error"]["status"],
        "UNAUTHENTICATED",
    ),
    "ollama": ("/api/chat", {"model": "m", "stream": False, **PROMPT}, lambda told: type(told["error"]), str),
}
GETS = ["/", "/metrics", "/v1/models", "/v1beta/models", "/api/tags", "/toolwire/requests/tw_0/losses", "/nowhere"]
WRONG = ["", "key", "sk-toolwire-" + 32 * "0", "tw-" + 40 * "a"]


def shown(key: str) -> list[dict[str, str]]:
    """List the ways to show a key."""
    names = ("x-api-key", "api-key", "x-goog-api-key")
    return [{"authorization": f"Bearer {key}"}, *({name: key} for name in names)]


@pytest.mark.slow
def test_the_gateway_of_a_program_answers_nobody_who_has_not_its_key(launched: tuple[str, str]) -> None:
    url, key = launched
    for path, body, word, wanted in DOORS.values():
        for headers in [{}, *(way for wrong in WRONG for way in shown(wrong))]:
            answer = send(url, "POST", path, json.dumps(body).encode(), headers)
            assert (answer.status, word(json.loads(answer.data))) == (401, wanted), (path, headers, answer.data)
        in_address = send(url, "POST", f"{path}?key={key}", json.dumps(body).encode())
        assert in_address.status == 401
        for headers in shown(key):
            answer = send(url, "POST", path, json.dumps(body).encode(), headers)
            assert (answer.status, b"You said: Hello" in answer.data) == (200, True), (path, headers, answer.data)
        stored = {**shown(key)[0], "x-api-key": "sk-ant-a-key-that-the-user-has-stored"}
        assert send(url, "POST", path, json.dumps(body).encode(), stored).status == 200
    for path in GETS:
        assert [send(url, "GET", path, None, way).status for way in ({}, *shown(WRONG[2]))] == [401] * 5, path
        assert send(url, "GET", path, None, shown(key)[0]).status in (200, 404)
    assert [send(url, "GET", path, None).status for path in ("/health", "/ready")] == [200, 200]


@pytest.mark.slow
def test_the_gateway_of_a_program_opens_no_websocket_without_its_key(launched: tuple[str, str]) -> None:
    url, key = launched
    place = f"ws{url.removeprefix('http')}/v1/responses"
    for headers in [{}, *(way for wrong in WRONG[1:] for way in shown(wrong))]:
        with pytest.raises(InvalidStatus) as refused, connect(place, additional_headers=headers):
            pass
        assert refused.value.response.status_code == 401
    for headers in shown(key):
        with connect(place, additional_headers=headers) as socket:
            socket.send(json.dumps({"type": "response.create", "model": "openai/m", "input": "Hello"}))
            events = [json.loads(socket.recv(timeout=10))]
            while events[-1]["type"] not in ("response.completed", "error"):
                events.append(json.loads(socket.recv(timeout=10)))
            assert events[-1]["response"]["output"][0]["content"][0]["text"] == "You said: Hello"


SIGNALS = [
    (signal.SIGTERM, 41),
    pytest.param(signal.SIGINT, 42, marks=pytest.mark.slow),
    pytest.param(signal.SIGKILL, 137, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "code"), SIGNALS)
@pytest.mark.slow
def test_signals_are_the_programs_and_nothing_is_left(kind: signal.Signals, code: int, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "toolwire", "launch", "--simulate", "claude", "--", "wait"]
    process = subprocess.Popen(words, env=place(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if kind is signal.SIGKILL and not children.exists():
            pytest.skip("the program's id cannot be found here")
        if kind is signal.SIGKILL:
            os.kill(int(children.read_text().split()[0]), kind)
        else:
            process.send_signal(kind)
        start = time.monotonic()
        assert process.wait(20) == code
        assert time.monotonic() - start < 10
    url = heard(tmp_path)["told"]["ANTHROPIC_BASE_URL"]
    with pytest.raises(OSError, match="refused"):
        __import__("urllib.request").request.urlopen(url, timeout=5)
    assert files(tmp_path / "home") == set()


def test_variables_that_lead_elsewhere_are_taken_out() -> None:
    setup = PROGRAMS["claude"].configure(Endpoint("http://127.0.0.1:1", "key", "/nowhere"))
    before = {"ANTHROPIC_API_KEY": "mine", "CLAUDE_CODE_USE_BEDROCK": "1", "EDITOR": "ed", "ANTHROPIC_BASE_URL": "x"}
    after = _environment(PROGRAMS["claude"], setup, before)
    assert after == {"EDITOR": "ed", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_AUTH_TOKEN": "key"}


@pytest.mark.parametrize(
    ("model", "dialect", "thinks"),
    [
        ("gpt-5", "openai-responses", True),
        ("gpt-4.1", "openai-chat", False),
        ("claude-sonnet-4-5", "anthropic", True),
        ("claude-opus-4-8", "anthropic", False),  # it takes no number of tokens to think with
        ("gemini-2.5-pro", "gemini", True),
        ("llama3.1", "ollama", False),
        ("deepseek-chat", "openai-chat", False),
    ],
)
def test_a_program_is_told_that_a_model_thinks_where_that_is_known(model: str, dialect: str, thinks: bool) -> None:
    assert _thinks(model, dialect) is thinks
    setup = PROGRAMS["pi"].configure(Endpoint("http://h", "k", "/f", model, dialect, thinks=thinks))
    assert f'"reasoning": {json.dumps(thinks)}' in setup.files["toolwire.mjs"]
