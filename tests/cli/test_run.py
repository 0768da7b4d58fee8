"""`toolwire run`: what it shows, asks and keeps, and the code with which it ends."""

import base64
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PROVIDERS, WROTE, at, project, say
from toolwire import traces
from toolwire.cli import main
from toolwire.client.saving import load
from toolwire.errors import ScenarioFailed
from toolwire.testing import Expect, Fail, Finish, simulate
from toolwire.types import Error, Image, Text, Thinking, ToolCall, Usage

PNG = b"\x89PNG\r\n\x1a\nrest"
LISTED = ToolCall(None, "list_directory", {})
ESCAPES = "\x1b[31mred \x1b]52;c;eA==\x07 \x1b]8;;http://x\x1b\\link \x9b2J \u202eback \u2066 \r over"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def run_command(model: Any, *arguments: str, provider: str = "openai") -> Any:
        return say(capfd, monkeypatch, tmp_path, "run", *at(model, tmp_path, provider), *arguments)

    return run_command


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_step_is_shown_and_the_answer_ends_it(run: Any, tmp_path: Path, provider: str) -> None:
    (project(tmp_path) / "notes.txt").write_text("tea\n")
    turns = [["I look.", LISTED], [WROTE], ["All ", "done."]]
    with simulate(turns) as model:
        said = run(model, "do it", "--yes", provider=provider)
    assert said.code == 0
    assert said.out == "All done.\n"
    lines = [line for line in said.told.splitlines() if line and not line.startswith("[")]
    assert lines == [
        "I look.",
        "> list_directory()",
        "  notes.txt",
        '> write_file(path="made.txt", content="one\\ntwo\\n")',
        "  made.txt (a new file)",
        "  + 1 one",
        "  + 2 two",
        "  Wrote 8 bytes to made.txt (a new file).",
    ]
    assert (project(tmp_path) / "made.txt").read_text() == "one\ntwo\n"


def test_tokens_are_counted_and_unknown_money_is_not_shown(run: Any) -> None:
    turns = [[LISTED, Usage(input_tokens=1200, output_tokens=7, cache_read_tokens=1000)], ["Done."]]
    with simulate(turns) as model:
        said = run(model, "do it")
        assert "[1,200 tokens in (1,000 cached), 7 tokens out]" in said.text
        assert re.search(r"\[in all: 2 turns, [0-9,]+ tokens in .1,000 cached., [0-9,]+ tokens out\]", said.text)
        assert "$" not in said.text
        model.play([["Done.", Usage(input_tokens=1_000_000, output_tokens=0)]])
        said = run(model, "do it", "--model", "openai/gpt-4o")
        assert "[1,000,000 tokens in, 0 tokens out, $2.5000]" in said.text


def test_what_a_model_or_a_tool_says_never_steers_the_terminal(run: Any, tmp_path: Path) -> None:
    """Escape sequences, control characters and marks that turn the writing around are shown as numbers."""
    (project(tmp_path) / "bad.txt").write_text(ESCAPES)
    call = ToolCall(None, "write_file", {"path": "x\x1b[2J.txt", "content": ESCAPES})
    turns = [
        [Text(text=ESCAPES), ToolCall(None, "read_file", {"path": "bad.txt"}), call],
        [Fail(Error("invalid_request", f"no {ESCAPES}", 400))],
    ]
    with simulate(turns) as model:
        said = run(model, "do it", "--yes")
    assert said.code == 1
    assert said.text.count(r"\x1b[31mred \x1b]52;c;eA==\x07 \x1b]8;;http://x\x1b\link \x9b2J \u202eback \u2066") >= 4
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", said.text) == []


def test_nobody_is_asked_without_a_terminal_and_the_model_reads_why(run: Any, tmp_path: Path) -> None:
    fetch = ToolCall(None, "http_get", {"url": "http://127.0.0.1:1/"})
    shell = ToolCall(None, "bash", {"command": "touch ran"})
    results = dict.fromkeys(("write_file", "bash", "http_get"), "there is no terminal to ask for approval")
    turns = [
        [LISTED, WROTE, shell, fetch],
        [Expect(results={**results, "list_directory": "empty"}), "I cannot."],
    ]
    with simulate(turns) as model:
        said = run(model, "do it")
    assert (said.code, list(project(tmp_path).iterdir())) == (0, [])
    assert said.text.count("the call was not approved") == 3


ENDS: list[tuple[str, list[Any], list[str], int, str]] = [
    (
        "limit",
        [[LISTED]] * 2,
        ["--max-steps", "2"],
        3,
        "no answer within the limit: no answer after 2 turns",
    ),
    ("refused", [["No.", Finish("content_filter")]], [], 1, "the model refused"),
    (
        "unread call",
        [['<tool_call>\n{"name": "list_directory", "arguments": {}}\n</tool_call>']],
        [],
        1,
        "a call was not read: the answer looks like a call (<tool_call>), but nothing was run",
    ),
    ("no progress", [[LISTED]] * 3, [], 1, "no progress"),
    ("error", [[LISTED], [Error("invalid_request", "Too odd.", 400)]], [], 1, "failed: Too odd."),
    ("error at once", [[Error("invalid_request", "Too odd.", 400)]], [], 1, "openai: Too odd. (status 400"),
    ("key", [[Error("authentication", "Bad key.", 401)]], [], 1, "the key is that of OPENAI_API_KEY"),
    ("cut", [["So", Finish("length")]], ["--max-tokens", "1"], 0, "the answer was cut off"),
]


@pytest.mark.parametrize(("turns", "more", "code", "words"), [case[1:] for case in ENDS], ids=[c[0] for c in ENDS])
def test_an_end_is_said_in_words_and_as_an_exit_code(
    run: Any, turns: list[Any], more: list[str], code: int, words: str
) -> None:
    with simulate(turns) as model:
        said = run(model, "do it", *more)
    assert said.code == code
    assert words in said.text
    assert "Traceback" not in said.text


WRONG: list[tuple[list[str], str]] = [
    (
        ["do it", "--model", "m"],
        "--model m: unknown provider 'm'; write a model with its provider: PROVIDER/m. Known: openai, ",
    ),
    (["do it", "--model", "m", "--provider", "nobody"], "unknown provider 'nobody'; known: openai, "),
    (["do it"], "name a model: --model PROVIDER/NAME"),
    (["do it", "--model", "openai"], "model 'openai' is a provider: write openai/MODEL"),
    ([], "pass a task, as in toolwire run"),
    ([""], "pass a task, as in toolwire run"),
    (["do it", "--model", "groq/m"], "groq: there is no key: set GROQ_API_KEY"),
    (["--continue", "--model", "ollama/m"], "there is no conversation to continue in this folder"),
    (["do it", "--model", "ollama/m", "--tools", "bash,rm"], "rm is not known; there are: "),
    (["do it", "--model", "ollama/m", "--cwd", "nowhere"], "--cwd: nowhere is not a folder"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_what_cannot_be_used_is_said_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    said = say(capfd, monkeypatch, tmp_path, "run", *arguments)
    assert (said.code, said.text.startswith("toolwire: "), said.text.count("\n")) == (2, True, 1)
    assert words in said.text


@pytest.mark.slow
@pytest.mark.parametrize(("provider", "words"), [("ollama", "start it (`ollama serve`)"), ("groq", "--base-url")])
def test_a_server_that_is_not_there(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    provider: str,
    words: str,
) -> None:
    place = ["--base-url", "http://127.0.0.1:9", "--cwd", str(project(tmp_path))]
    said = say(capfd, monkeypatch, tmp_path, "run", "do it", "--model", f"{provider}/m", *place)
    assert said.code == 1
    assert "nothing answers at http://127.0.0.1:9" in said.text
    assert words in said.text
    assert not (tmp_path / "state").exists(), "what brought nothing is not kept in the place of what did"


def test_a_conversation_goes_on_with_another_provider(run: Any, tmp_path: Path) -> None:
    (project(tmp_path) / "notes.txt").write_text("tea\n")
    with simulate([[Thinking(text="Hm."), LISTED], ["There are notes."]]) as model:
        assert run(model, "look", provider="anthropic").code == 0
        for number, provider in enumerate(PROVIDERS):
            model.play([[Expect(last="and now?"), f"Number {number}."]])
            assert run(model, "and now?", "--continue", provider=provider).code == 0
        first = model.requests[-1].request
        assert first is not None
        assert [message.text for message in first.messages if message.role == "user"] == [
            "look",
            *["and now?"] * 5,
        ]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama"])
def test_a_picture_goes_with_the_task(run: Any, tmp_path: Path, provider: str) -> None:
    (tmp_path / "sketch").write_bytes(PNG)
    with simulate([["I look.", LISTED], ["Built."], ["Again."]]) as model:
        assert run(model, "build it", "-a", str(tmp_path / "sketch"), provider=provider).out == "Built.\n"
        assert run(model, "and now?", "--continue", provider=provider).out == "Again.\n"
        for request in [sent.request for sent in model.requests]:
            assert request is not None
            parts: Any = request.messages[0 if provider in ("anthropic", "gemini") else 1].parts
            task, image = sorted(parts, key=lambda part: isinstance(part, Image))  # Ollama has images of its own
            assert (base64.b64decode(image.data), task.text) == (PNG, "build it")


def test_standard_input_is_attached_where_it_is_named(
    capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with simulate(["Read."]) as model:
        said = say(capfd, monkeypatch, tmp_path, "run", "read it", "-a", "-", *at(model, tmp_path), given="a log\n")
    assert said.out == "Read.\n"
    request: Any = model.requests[0].request
    task, log = request.messages[-1].parts
    assert (task.text, log.text) == ("read it", "standard input:\n\na log\n")


@pytest.mark.parametrize(
    ("provider", "data", "words"),
    [
        ("ollama", b"%PDF-1.4 rest", "-a: ollama cannot receive "),
        ("openai", b"\0\1", "must be an image"),
        ("openai", None, "No such file or directory"),
    ],
)
def test_a_file_that_cannot_go_with_the_task_is_named_and_nothing_is_sent(
    run: Any, tmp_path: Path, provider: str, data: bytes | None, words: str
) -> None:
    if data is not None:
        (tmp_path / "file").write_bytes(data)
    with simulate([]) as model:
        said = run(model, "build it", "-a", str(tmp_path / "file"), provider=provider)
        assert "-a needs a task" in run(model, "-a", __file__).told
    assert (said.code, said.out, model.requests) == (2, "", [])
    assert words in said.told


@pytest.mark.parametrize("command", ["run", "chat"])
def test_settings_of_the_request_are_sent_with_each_one(
    capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    with simulate([[LISTED], ["Done."]]) as model:
        options = ["-o", "temperature=0.5", "-o", "max-tokens=9", "--max-tokens", "12", *at(model, tmp_path)]
        words = ["do it"] if command == "run" else []
        said = say(capfd, monkeypatch, tmp_path, command, *words, *options, given="" if words else "do it\n")
    assert (said.code, said.out) == (0, "Done.\n")
    requests: Any = [sent.request for sent in model.requests]
    assert [(request.temperature, request.max_tokens) for request in requests] == [(0.5, 12)] * 2
    wrong = say(capfd, monkeypatch, tmp_path, command, *words, "-o", "temprature=1", *at(model, tmp_path))
    assert (wrong.code, "did you mean temperature?" in wrong.told) == (2, True)


def test_what_is_kept_is_the_users_own(run: Any, tmp_path: Path) -> None:
    with simulate([["Done."], ["Again."]]) as model:
        assert run(model, "do it").code == 0
        [kept] = (tmp_path / "state" / "toolwire" / "conversations").iterdir()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert [message.role for message in load(kept.read_bytes()).context.messages] == ["user", "assistant"]
        file = tmp_path / "here.json"
        assert run(model, "do it", "--session", str(file)).code == 0
    assert load(file.read_bytes()).context.messages[1].text == "Again."
    assert list(project(tmp_path).iterdir()) == []


def test_what_cannot_be_kept_is_said_and_stops_nothing(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with simulate([[LISTED], ["Done."]]) as model:
        said = run(model, "do it", "--session", str(tmp_path / "file" / "x.json"))
    assert (said.code, said.text.count("the conversation is not saved: ")) == (0, 1)


def test_a_saved_conversation_that_is_none_is_said(run: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"version": 2}')
    with simulate([]) as model:
        said = run(model, "x", "--continue", "--session", str(tmp_path / "bad.json"))
    assert (said.code, "is not a saved conversation" in said.text) == (2, True)


def test_calls_are_recorded_where_that_is_asked_for(run: Any, tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path / 'traces.db'}"
    with simulate([[LISTED, WROTE], ["Done."], ["Again."]]) as model:
        assert run(model, "look", "--traces", place).code == 0
        assert run(model, "again", "--continue", "--traces", place).code == 0
    with traces.open(place, create=False) as store:
        found = store.traces().rows
        assert [(one.tool_name, one.ending, one.approval) for one in found] == [
            ("list_directory", "ok", None),
            ("write_file", "denied", "denied"),
        ]
        assert len({one.conversation_id for one in found}) == 1
        assert store.verify().count == 0


def test_the_usual_store_lies_among_the_users_files(run: Any, tmp_path: Path) -> None:
    """Not in the project, where the tools write; `toolwire traces` reads that one unless another one is named."""
    with simulate([[LISTED], ["Done."]]) as model:
        assert run(model, "look", "--traces").code == 0
    made = tmp_path / "state" / "toolwire" / "traces.db"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert [path.name for path in project(tmp_path).iterdir()] == []
    with traces.open(f"sqlite:///{made}", create=False) as store:
        assert store.count() == 1
    assert main(["traces", "verify"]) == 0


def test_each_run_is_a_conversation_of_its_own_unless_it_goes_on(run: Any, tmp_path: Path) -> None:
    with simulate([[LISTED], ["Done."]] * 3) as model:
        assert run(model, "look", "--traces").code == 0
        assert run(model, "look", "--traces").code == 0
        assert run(model, "again", "--continue", "--traces").code == 0
    with traces.open(f"sqlite:///{tmp_path / 'state' / 'toolwire' / 'traces.db'}", create=False) as store:
        first, second, third = (one.conversation_id for one in store.traces().rows)
    assert first != second == third


COMMANDS = ("rm -f traces.db traces.db-wal traces.db-shm", "mv traces.db elsewhere", ": > traces.db")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_in_the_project_is_kept_from_the_tools(run: Any, tmp_path: Path, command: str) -> None:
    place = f"sqlite:///{project(tmp_path) / 'traces.db'}"
    calls = [
        ToolCall(None, "bash", {"command": command}),
        ToolCall(None, "write_file", {"path": "traces.db", "content": "x"}),
    ]
    with simulate([calls, ["Done."]]) as model:
        assert run(model, "do it", "--yes", "--traces", place).code == 0
    with traces.open(place, create=False) as store:
        assert (store.count(), store.verify().count) == (2, 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_is_taken_away_is_said_and_the_run_fails(run: Any, tmp_path: Path, command: str) -> None:
    place = f"sqlite:///{project(tmp_path) / 'traces.db'}"
    script = [[ToolCall(None, "bash", {"command": command})], [WROTE], ["Done."]]
    with pytest.raises(ScenarioFailed, match="was not requested"), simulate(script) as model:
        said = run(model, "do it", "--yes", "--sandbox", "none", "--traces", place)
    assert said.code not in (0, 130)
    assert "while it was open" in said.text
    assert not (project(tmp_path) / "made.txt").exists()
