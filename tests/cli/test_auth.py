"""`toolwire auth`, `toolwire models --live` and `toolwire completion`."""

import http.server
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Said, environment, say, terminal
from toolwire.cli import stored_keys
from toolwire.cli.chosen_model import client_of
from toolwire.cli.commands import COMMANDS
from toolwire.cli.screen import Screen
from toolwire.errors import UserError
from toolwire.providers import PROVIDERS, put_key

KEY = "sk-stored-0123456789"


@pytest.fixture
def run(capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stored_keys, "_keyring", lambda: None)

    def command(*arguments: str, given: str = "") -> Said:
        said = say(capfd, monkeypatch, tmp_path, *arguments, given=given)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        return said

    return command


def test_a_key_is_stored_used_and_removed(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "config" / "toolwire" / "keys.json"
    said = run("auth", "set", "groq", given=f"{KEY}\n")
    assert (said.code, said.out, said.told) == (0, "", f"the key of groq is stored in {file}\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert client_of("groq", "m").provider.key == KEY
    listed = run("auth", "list")
    assert (listed.out, KEY in listed.text) == (f"groq  {file}\n", False)
    assert KEY not in repr(stored_keys.stored_keys())
    assert run("auth", "remove", "groq").told == "the key of groq is removed\n"
    assert json.loads(file.read_text()) == {}
    assert client_of("groq", "m").provider.key is None
    again = run("auth", "remove", "groq")
    assert (again.code, again.told) == (2, "toolwire: groq: there is no stored key\n")
    assert run("auth", "list").told == "no key is stored: toolwire auth set PROVIDER\n"


def test_a_variable_comes_first_and_another_server_gets_no_key(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("auth", "set", "openai", given=KEY)
    assert client_of("openai-responses", "m").provider.key == KEY, "the same variable, the same key"
    assert client_of("openai", "m", "http://localhost:1").provider.key == ""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1")
    assert KEY not in str(client_of("openai", "m").provider.key)
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-variable")
    assert client_of("openai", "m").provider.key == "sk-variable"
    said = run("auth", "list")
    assert "($OPENAI_API_KEY is set, and comes first)" in said.out


def test_launched_programs_get_stored_keys_too(run: Any) -> None:
    run("auth", "set", "openai", given=KEY)
    run("auth", "list")
    try:
        stored_keys.use_stored_keys()
        keys = {name: preset.key for name, preset in PROVIDERS.items() if preset.key}
        assert (keys.get("openai"), keys.get("openai-responses"), keys.get("groq")) == (KEY, KEY, None)
    finally:
        for name in ("openai", "openai-responses"):
            put_key(name, None)


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        (["opnai"], KEY, "unknown provider 'opnai'; did you mean openai?"),
        (["lmstudio"], KEY, "lmstudio: takes no key"),
        (["groq"], "", "groq: that is no key"),
        (["groq"], "two words\n", "groq: that is no key"),
        (["groq"], "sch\u00f6n\n", "groq: that is no key"),
    ],
)
def test_what_is_no_key_is_refused(run: Any, arguments: list[str], given: str, words: str) -> None:
    said = run("auth", "set", *arguments, given=given)
    assert (said.code, said.out) == (2, "")
    assert words in said.told
    assert KEY not in said.told


def test_a_file_that_others_can_read_is_refused(run: Any, tmp_path: Path) -> None:
    run("auth", "set", "groq", given=KEY)
    file = tmp_path / "config" / "toolwire" / "keys.json"
    file.chmod(0o644)
    with pytest.raises(UserError, match="other users can read it: chmod 600"):
        client_of("groq", "m")
    assert run("auth", "list").code == 2
    file.chmod(0o600)
    file.write_text("[]")
    assert "is not a file of keys" in run("auth", "list").told


class Ring:
    """A keyring in memory, as the library has one where there is a desktop."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def set_password(self, service: str, name: str, key: str) -> None:
        if self.is_locked:
            raise RuntimeError("it is locked")
        self.keys[service, name] = key

    def get_password(self, service: str, name: str) -> str | None:
        if self.is_locked:
            raise RuntimeError("it is locked")
        return self.keys.get((service, name))

    def delete_password(self, service: str, name: str) -> None:
        del self.keys[service, name]


def test_a_keyring_is_used_where_there_is_one(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ring = Ring()
    monkeypatch.setattr(stored_keys, "_keyring", lambda: ring)
    assert run("auth", "set", "groq", given=KEY).told == "the key of groq is stored in the keyring\n"
    assert KEY not in (tmp_path / "config" / "toolwire" / "keys.json").read_text()
    assert client_of("groq", "m").provider.key == KEY
    assert run("auth", "list").out == "groq  the keyring\n"
    ring.is_locked = True
    with pytest.raises(UserError, match="cannot read the key of groq: it is locked"):
        client_of("groq", "m")
    locked = run("auth", "set", "groq", given="sk-other")
    assert (locked.code, "--file stores it in a file" in locked.told) == (2, True)
    ring.is_locked = False
    assert run("auth", "set", "groq", "--file", given="sk-other").code == 0
    assert (ring.keys, client_of("groq", "m").provider.key) == ({}, "sk-other")
    run("auth", "set", "groq", given=KEY)
    run("auth", "remove", "groq")
    assert ring.keys == {}


def test_without_a_desktop_the_library_has_no_keyring() -> None:
    keyring = pytest.importorskip("keyring")
    found = stored_keys._keyring()
    assert found is (keyring if keyring.get_keyring().priority > 0 else None)


@pytest.mark.slow
def test_a_key_that_is_typed_is_not_shown(tmp_path: Path) -> None:
    with terminal(tmp_path, "auth", "set", "groq", "--file") as shown:
        shown.until("Key of groq (it is not shown): ")
        shown.type(f"{KEY}\n")
        assert shown.end() == 0
        assert KEY not in shown.said
    assert KEY in (tmp_path / "config" / "toolwire" / "keys.json").read_text()
    with terminal(tmp_path, "auth", "set", "groq") as shown:
        shown.until("Key of groq")
        shown.interrupt()
        assert shown.end() == 130
        assert shown.is_as_it_was()


# Models of live servers.

LISTS: dict[str, list[dict[str, Any]]] = {
    "openai": [{"data": [{"id": "gpt-4o"}, {"id": "b\x1b[31m"}, {"odd": 1}]}],
    "anthropic": [
        {"data": [{"id": "claude-a"}], "has_more": True, "last_id": "claude-a"},
        {"data": [{"id": "claude-b"}], "has_more": False, "last_id": "claude-b"},
    ],
    "gemini": [{"models": [{"name": "models/g-1"}], "nextPageToken": "t"}, {"models": [{"name": "models/g-2"}]}],
    "ollama": [{"models": [{"name": "qwen3:8b"}]}],
}
NAMES = {
    "openai": ["openai/b\\x1b[31m", "openai/gpt-4o"],
    "anthropic": ["anthropic/claude-a", "anthropic/claude-b"],
    "gemini": ["gemini/g-1", "gemini/g-2"],
    "ollama": ["ollama/qwen3:8b"],
}
PATHS = {
    "openai": ["/v1/models"],
    "anthropic": ["/v1/models?limit=1000", "/v1/models?limit=1000&after_id=claude-a"],
    "gemini": ["/v1beta/models?pageSize=1000", "/v1beta/models?pageSize=1000&pageToken=t"],
    "ollama": ["/api/tags"],
}


@contextmanager
def listing(answers: list[Any], status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """Serve these answers, one after the other; give the address, and the requests."""
    requests: list[Any] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers[len(requests)]
            requests.append((self.path, dict(self.headers)))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


@pytest.mark.parametrize("provider", LISTS)
def test_a_live_server_lists_its_models(run: Any, provider: str) -> None:
    with listing(LISTS[provider]) as (url, requests):
        said = run("models", "--live", "--provider", provider, "--base-url", url)
    assert (said.code, [line.split()[0] for line in said.out.splitlines()]) == (0, ["MODEL", *NAMES[provider]])
    assert [path for path, _ in requests] == PATHS[provider]
    if provider == "openai":
        assert [line.split()[1:4] for line in said.out.splitlines()[1:]] == [["-", "-", "-"], ["128,000", "2.5", "10"]]
        assert {name.lower(): value for name, value in requests[0][1].items()}["authorization"] == "Bearer no-key"


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (
            {"error": {"message": "Wrong: no-key"}},
            401,
            "Wrong: [hidden] (status 401)\nthe key is that of OPENAI_API_KEY",
        ),
        ({"error": {"message": "Slow down."}}, 429, "Slow down. (status 429)"),
        (b"<html>", 502, "(status 502)"),
        (b"<html>", 200, "its list of models: "),
        ({"models": []}, 200, "the answer has no list 'data'"),
        ([], 200, "is no object"),
        (b"", 200, "its list of models: "),
    ],
)
def test_a_server_that_lists_none_is_reported(run: Any, answer: Any, status: int, words: str) -> None:
    with listing([answer], status) as (url, _):
        said = run("models", "--live", "--provider", "openai", "--base-url", url)
    assert (said.code, said.out) == (1, "")
    assert said.told.startswith("toolwire: openai: ")
    assert words in said.told


def test_who_can_be_asked_is_asked(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("auth", "list")
    for name in [variable for preset in PROVIDERS.values() for variable in preset.env]:
        monkeypatch.delenv(name, raising=False)
    with listing(LISTS["ollama"]) as (url, _):
        monkeypatch.setenv("OLLAMA_HOST", url)
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        from toolwire.cli.live_models import reachable_models

        assert dict(reachable_models(None, Screen())) == {"ollama": ["qwen3:8b"]}
    nobody = run("models", "--live", "--provider", "ollama", "--base-url", "http://127.0.0.1:9")
    assert (nobody.code, "nothing answers at http://127.0.0.1:9: start it (`ollama serve`)" in nobody.told) == (1, True)
    lacking = run("models", "--live", "--provider", "groq")
    assert (lacking.code, lacking.out) == (2, "")
    assert lacking.told == "toolwire: groq: there is no key: set GROQ_API_KEY, or toolwire auth set groq\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--base-url", "http://localhost:1"], "--base-url applies to --live"),
        (["--live", "--base-url", "http://localhost:1"], "--base-url needs --provider"),
    ],
)
def test_options_of_live_lists_need_each_other(run: Any, capfd: Any, arguments: list[str], words: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("models", *arguments)
    assert words in capfd.readouterr().err


# Completion.

COMPLETE = """
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _toolwire; echo "${COMPREPLY[*]}"; }
"""


def completed(script: str, folder: Path, *words: str) -> list[str]:
    """Give what bash completes at the last of these words."""
    code = f'{script}\n{COMPLETE}\ncomplete_words "$@"'
    command = [str(shutil.which("bash")), "-c", code, "bash", *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_commands_options_values_and_files(run: Any, tmp_path: Path) -> None:
    script = run("completion", "bash").out
    (tmp_path / "my_file.txt").touch()
    assert set(completed(script, tmp_path, "toolwire", "")) >= set(COMMANDS)
    assert completed(script, tmp_path, "toolwire", "conv") == ["conversations"]
    assert completed(script, tmp_path, "toolwire", "traces", "ver") == ["verify"]
    assert completed(script, tmp_path, "toolwire", "run", "--sandbox", "") == ["auto", "bubblewrap", "none"]
    assert completed(script, tmp_path, "toolwire", "run", "--max-s") == ["--max-steps"]
    assert completed(script, tmp_path, "toolwire", "ask", "-m", "gemini/gemini-3.5-flash") == [
        "gemini/gemini-3.5-flash",
        "gemini/gemini-3.5-flash-lite",
    ]
    assert completed(script, tmp_path, "toolwire", "auth", "set", "gr") == ["groq"]
    assert completed(script, tmp_path, "toolwire", "ask", "-a", "my_f") == ["my_file.txt"]


ENDS = {
    "toolwire conv": "conversations",
    "toolwire traces ver": "verify",
    "toolwire run --sandbox bu": "bubblewrap",
    "toolwire run 'a b' --max-s": "--max-steps",
    "toolwire auth set gr": "groq",
    "toolwire ask -a my_f": "my_file.txt",
    "toolwire ask run --sch": "--schema",
    "toolwire auth list rem": "rem",
}


def completed_by_bash(script: Path, folder: Path) -> dict[str, str]:
    ends = {line: " ".join(completed(script.read_text(), folder, *shlex.split(line))) for line in ENDS}
    return {line: end or line.split()[-1] for line, end in ends.items()}


def completed_by_zsh(script: Path, folder: Path) -> dict[str, str]:
    """Type each line and Tab at a zsh on a terminal, which notes the line as it is then."""
    (folder / ".zshrc").write_text(
        f"autoload -U compinit; compinit -u -D; source {script}\n"
        f"note() {{ zle complete-word; print -r -- $BUFFER >> {folder}/noted; zle kill-whole-line }}\n"
        "zle -N note; bindkey '^I' note; setopt NO_LIST_BEEP; PS1='ready> '\n"
    )
    program = [str(shutil.which("zsh")), "-d", "-i"]
    with terminal(folder, program=program, ZDOTDIR=str(folder), TERM="dumb") as shown:
        shown.until("ready> ")
        for line in ENDS:
            shown.type(f"{line}\t")
        shown.type("exit\r")
        assert shown.end() == 0
    noted = (folder / "noted").read_text().splitlines()
    return {line: end.split()[-1] for line, end in zip(ENDS, noted, strict=True)}


def completed_by_fish(script: Path, folder: Path) -> dict[str, str]:
    ends = {}
    for line in ENDS:
        command = [str(shutil.which("fish")), "--no-config", "-c", f'source {script}; complete -C "$argv[1]"', line]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=os.environ)
        assert ran.stderr == ""
        ends[line] = " ".join(shown.split("\t")[0] for shown in ran.stdout.splitlines()) or line.split()[-1]
    return ends


SHELLS: dict[str, Callable[[Path, Path], dict[str, str]]] = {
    "bash": completed_by_bash,
    "zsh": completed_by_zsh,
    "fish": completed_by_fish,
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_and_completes_in_its_shell(run: Any, tmp_path: Path, shell: str) -> None:
    script = run("completion", shell).out
    assert all(name in script for name in COMMANDS)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here, so that the script is not tried (scripts/packages installs it)")
    (tmp_path / "script").write_text(script)
    (tmp_path / "my_file.txt").touch()
    assert SHELLS[shell](tmp_path / "script", tmp_path) == ENDS


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 40])
def test_the_help_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    with terminal(tmp_path, "--help", columns=columns) as shown:
        assert shown.end() == 0
    lines = shown.plain.splitlines()
    texts = lines[: lines.index("examples:")]
    assert max(map(len, texts)) <= columns
    assert [line for line in lines if line.endswith(":") and not line.startswith(" ")][:6] == [
        "ask and work:",
        "set up:",
        "serve:",
        "look:",
        "wires and tools:",
        "options:",
    ]


def test_the_help_of_a_pipe_is_whole(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "toolwire", "--help"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(f"\n  {name} " in ran.stdout for name in COMMANDS)
