"""In a pipe: what is read from standard input, and what each output gets."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PROVIDERS, WROTE, at, environment, say
from toolwire.testing import Expect, Fail, Finish, simulate
from toolwire.types import Error, Thinking, ToolCall

LISTED = ToolCall(None, "list_directory", {})


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def run_command(model: Any, *arguments: str, given: str = "", provider: str = "openai") -> Any:
        return say(capfd, monkeypatch, tmp_path, "run", *at(model, tmp_path, provider), *arguments, given=given)

    return run_command


GIVEN: dict[str, tuple[list[str], str, str]] = {
    "context": (["Explain."], "the text\n", "Explain.\n\nStandard input:\n\nthe text\n"),
    "nothing": (["Explain."], "", "Explain."),
    "blanks": (["Explain."], " \n", "Explain."),
    "the task": ([], "Explain.\n", "Explain."),
    "the task, by a dash": (["-"], "Explain.\n", "Explain."),
}


@pytest.mark.parametrize("case", GIVEN)
def test_standard_input_is_context_or_the_task(run: Any, case: str) -> None:
    arguments, given, prompt = GIVEN[case]
    with simulate([["Fine."]]) as model:
        assert run(model, *arguments, given=given).code == 0
    assert model.requests[0].request is not None
    assert model.requests[0].request.messages[-1].text == prompt


def test_a_task_that_is_not_there_is_said(run: Any) -> None:
    with simulate([]) as model:
        said = run(model, "-")
    assert (said.code, said.told) == (
        2,
        "toolwire: run: standard input is empty: pipe a task, or pass it as an argument\n",
    )


NOT_UTF_8: dict[str, tuple[list[str], bytes]] = {
    "a prompt of a chat": (["chat"], b"caf\xe9 \xc3\xa9\n"),
    "a task that is an argument": (["run", os.fsdecode(b"caf\xe9 \xc3\xa9")], b""),
    "a task, in a locale of ASCII": (["run", b"caf\xe9 \xc3\xa9".decode("ascii", "surrogateescape")], b""),
}


@pytest.mark.parametrize("case", NOT_UTF_8)
def test_a_prompt_that_is_not_utf_8_is_asked_as_far_as_it_is(
    case: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words, given = NOT_UTF_8[case]
    with simulate([["Fine."]]) as model:
        said = say(capfd, monkeypatch, tmp_path, *words, *at(model, tmp_path), given=given)
    assert (said.code, said.out, "is not saved" in said.told) == (0, "Fine.\n", False)
    assert model.requests[0].request is not None
    assert model.requests[0].request.messages[-1].text == "caf\ufffd \xe9"


def test_arguments_of_a_call_that_are_not_utf_8_are_refused(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = say(capfd, monkeypatch, tmp_path, "call", "read_file", "-", given=b'{"path": "caf\xe9"}')
    assert (said.code, said.out) == (2, "")
    assert said.told.startswith("toolwire: call: body: is not JSON: 'utf-8' codec can't ")


@pytest.mark.slow
def test_in_a_real_pipe_the_answer_is_alone(tmp_path: Path) -> None:
    with simulate([["I look.", LISTED], ["Fine,\n", "all of it."]]) as model:
        command = [sys.executable, "-m", "toolwire", "run", "Explain.", *at(model, tmp_path)]
        done = subprocess.run(
            command, input="bytes \xe9".encode("latin-1"), env=environment(tmp_path), capture_output=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, b"Fine,\nall of it.\n")
        assert b"I look.\n> list_directory()" in done.stderr
        assert b"Fine," not in done.stderr
        assert b"\r" not in done.stderr
    assert model.requests[0].request is not None
    assert "bytes \ufffd" in model.requests[0].request.messages[-1].text


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_what_is_closed_is_in_nobodys_way(tmp_path: Path, closed: str) -> None:
    with simulate([["Fine."]]) as model:
        command = shlex.join([sys.executable, "-m", "toolwire", "run", "Explain.", *at(model, tmp_path)])
        done = subprocess.run(
            ["/bin/sh", "-c", f"{command} {closed}"], env=environment(tmp_path), capture_output=True, check=False
        )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert done.stdout == (b"" if closed == ">&-" else b"Fine.\n")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("translate --from openai --to gemini", b"toolwire: body: is not JSON: it is empty\n"),
        ("translate --from openai --to gemini --kind stream", b"toolwire: body: is empty\n"),
        ("call read_file -", b"toolwire: call: body: is not JSON: it is empty; "),
        ("run - --model ollama/m", b"toolwire: run: standard input is empty: pipe a task, or pass it as an argument\n"),
    ],
)
def test_an_input_that_is_closed_is_empty(tmp_path: Path, command: str, told: bytes) -> None:
    line = f"{sys.executable} -m toolwire {command} <&-"
    done = subprocess.run(["/bin/sh", "-c", line], env=environment(tmp_path), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(told)


TURNS = [[Thinking(text="Hm."), "I look.", LISTED], ["Fine."]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_quiet_is_the_answer_and_nothing_else(run: Any, provider: str) -> None:
    with simulate(TURNS) as model:
        said = run(model, "do it", "--quiet", provider=provider)
    assert (said.code, said.out, said.told) == (0, "Fine.\n", "")


def test_quiet_does_not_hide_what_went_wrong(run: Any) -> None:
    with simulate([[Fail(Error("invalid_request", "Too odd.", 400))], ["No.", Finish("content_filter")]]) as model:
        first, second = run(model, "do it", "--quiet"), run(model, "do it", "--quiet")
    assert (first.code, first.out, "Too odd." in first.told) == (1, "", True)
    assert (second.code, second.out) == (1, "")
    assert re.match(r"the model refused: .+\n\[to continue: toolwire run --continue .+\]\n$", second.told)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_json_is_one_event_a_line(run: Any, provider: str) -> None:
    with simulate(TURNS) as model:
        said = run(model, "do it", "--json", provider=provider)
    assert (said.code, said.told) == (0, "")
    start, *events, end = map(json.loads, said.out.splitlines())
    assert (start["type"], start["provider"], start["model"], start["continued"]) == ("start", provider, "m", False)
    kinds = [event["type"] for event in events]
    assert list(dict.fromkeys(kinds)) == ["thinking", "text", "call", "result"]
    assert "".join(event["text"] for event in events if event["type"] == "text") == "I look.Fine."
    [call], [result] = ([event for event in events if event["type"] == kind] for kind in ("call", "result"))
    assert (call["name"], call["arguments"]) == ("list_directory", {})
    assert (result["id"], result["name"], result["is_error"]) == (call["id"], "list_directory", False)
    assert end.pop("usage")["output_tokens"] > 0
    assert end == {
        "type": "end",
        "ending": "answer",
        "answer": "Fine.",
        "reason": "",
        "turns": 2,
        "cost": end["cost"],
        "conversation": start["conversation"],
        "exit": 0,
    }


ENDS: dict[str, tuple[list[Any], list[str], str, int]] = {
    "limit": ([[LISTED]], ["--max-steps", "1"], "limit", 3),
    "error": ([[LISTED], [Error("invalid_request", "Too odd.", 400)]], [], "error", 1),
    "error at once": ([[Error("invalid_request", "Too odd.", 400)]], [], "error", 1),
    "not approved": ([[WROTE], ["I may not."]], [], "answer", 0),
}


@pytest.mark.parametrize("case", ENDS)
def test_json_says_how_it_ended_whatever_happens(run: Any, case: str) -> None:
    turns, more, ending, code = ENDS[case]
    with simulate(turns) as model:
        said = run(model, "do it", "--json", *more)
    end = json.loads(said.out.splitlines()[-1])
    assert (said.code, end["type"], end["ending"], end["exit"]) == (code, "end", ending, code)


def test_a_retry_is_an_event_and_a_line(run: Any) -> None:
    again = [[Fail(Error("rate_limit", "Too many.", 429), 0.01)], ["Fine."]]
    with simulate(again) as model:
        events = [json.loads(line) for line in run(model, "do it", "--json").out.splitlines()]
        assert {"type": "retry", "seconds": 0.01, "error": "Too many."} in events
        model.play(again)
        assert "[retry in 1 s: Too many.]\n" in run(model, "do it").told


@pytest.mark.sampled
@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize("key", ["", "  "])
def test_no_prompt_leaves_without_a_key(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, provider: str, key: str
) -> None:
    """Nothing is even connected to: the address would be the vendor's."""
    monkeypatch.setattr("tests.cli.commands.KEYS", ())
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, key)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    said = say(capfd, monkeypatch, tmp_path, "run", "my secret", "--model", f"{provider}/m", "--cwd", str(tmp_path))
    assert (said.code, said.told.startswith(f"toolwire: {provider}: there is no key: set ")) == (2, True), said.told


def test_a_variable_names_the_usual_model(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWIRE_MODEL", "ollama/usual")
    with simulate([[Expect(model="usual"), "Fine."]]) as model:
        arguments = ["run", "do it", "--base-url", model.url, "--cwd", str(tmp_path)]
        done = say(capfd, monkeypatch, tmp_path, *arguments)
    assert (done.code, done.out) == (0, "Fine.\n"), done.told
