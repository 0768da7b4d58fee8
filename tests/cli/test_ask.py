"""`toolwire ask`: one request, the answer alone on standard output, and an error that says what to do."""

import base64
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PROVIDERS, SOURCE, Said, environment, say, terminal
from tests.client.test_faults_network import serving, stall
from toolwire import Document, Image, Refusal, Text, ToolCall
from toolwire.cli.ask import code_block
from toolwire.cli.schemas import read_schema
from toolwire.client.saving import Saved, load
from toolwire.errors import UserError
from toolwire.testing import Cut, Expect, Fail, Finish, Pace, Wait, simulate
from toolwire.types import Error, Usage

PNG = b"\x89PNG\r\n\x1a\nrest"
PDF = b"%PDF-1.4 rest"


@pytest.fixture
def asked(capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Ask in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def ask(*arguments: str, given: str | bytes = "") -> Said:
        return say(capfd, monkeypatch, tmp_path, *arguments, given=given)

    return ask


def at(model: Any, provider: str = "openai") -> list[str]:
    return ["-m", f"{provider}/m", "--base-url", model.url]


def kept(folder: Path) -> list[Saved]:
    files = sorted((folder / "state" / "toolwire" / "conversations").glob("*.json"))
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    return [load(file.read_bytes()) for file in files]


def last_message(model: Any) -> Any:
    return model.requests[-1].request.messages[-1]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_one_question_is_one_request_and_its_answer_alone(asked: Any, tmp_path: Path, provider: str) -> None:
    with simulate([[Usage(input_tokens=3, output_tokens=2), "It is a **monoid**.\n"]]) as model:
        said = asked("ask", "What is a monad?", *at(model, provider), "-s", "Be brief.")
    assert (said.code, said.out, said.told) == (0, "It is a **monoid**.\n", "")
    [request] = model.requests
    assert "tools" not in str(request.body)
    assert "Be brief." in str(request.body)
    [saved] = kept(tmp_path)
    assert (saved.context.system, [one.text for one in saved.context.messages]) == (
        "Be brief.",
        ["What is a monad?", "It is a **monoid**.\n"],
    )


def test_several_words_are_a_question_and_one_is_not(asked: Any, capfd: Any) -> None:
    with simulate(["Yes.", "Yes.", "Yes."]) as model:
        assert asked("Is this a question?", *at(model)).out == "Yes.\n"
        assert asked(*at(model), "Is this?").out == "Yes.\n"
        assert asked("-m", "openai/m", "--base-url", model.url, given="Is this one?").out == "Yes.\n"
    for word, hint in (("caht", "did you mean chat?"), ("monad", 'to ask that as a question: toolwire ask "monad"')):
        capfd.readouterr()
        with pytest.raises(SystemExit, match="2"):
            asked(word, *at(model))
        assert f"there is no command '{word}'; {hint}" in capfd.readouterr().err
    for arguments, words in (
        (["ask", "two", "words"], 'must be quoted: toolwire ask "two words"'),
        (["ask", "Hi.", "--modle", "m"], "did you mean --model?"),
        (["--hlep"], "unknown option --hlep; did you mean --help?"),
    ):
        with pytest.raises(SystemExit, match="2"):
            asked(*arguments)
        assert words in capfd.readouterr().err


def test_standard_input_is_the_context_of_a_question(asked: Any) -> None:
    with simulate(["Good.", "Good.", "Good."]) as model:
        asked("ask", "Review this.", *at(model), given="def f(): pass\n")
        assert last_message(model).text == "Review this.\n\nStandard input:\n\ndef f(): pass"
        asked("ask", *at(model), given=b"caf\xe9?")
        assert last_message(model).text == "caf\ufffd?"
        asked("ask", "-", *at(model), given="all of it")
        assert last_message(model).text == "all of it"
    none = asked("ask", *at(model))
    assert (none.code, none.told) == (2, 'toolwire: ask: pass a question, as in toolwire ask "What is a monad?"\n')


def test_the_last_question_is_continued_with_its_model_and_system_prompt(asked: Any, tmp_path: Path) -> None:
    turns = ["Hello, Ann.", "Bob.", [Expect(where=lambda one: "I am Ann." in str(one.messages)), "Ann."], "Still Ann."]
    with simulate(turns) as model:
        asked("ask", "I am Bob.", *at(model))
        first = asked("ask", "I am Ann.", "-s", "Be brief.", *at(model, "anthropic"))
        assert first.code == 0
        again = asked("ask", "-c", "Who am I?", "--base-url", model.url)
        assert (again.code, again.out, again.told) == (0, "Ann.\n", "")
        asked("ask", "And now?", "-c", "--base-url", model.url, "-s", "Be long.")
    assert [request.path for request in model.requests[1:]] == ["/v1/messages"] * 3
    assert ["Be brief." in str(request.body) for request in model.requests] == [False, True, True, False]
    assert sorted(len(saved.context.messages) for saved in kept(tmp_path)) == [2, 6]
    assert asked("run", "--continue", "Go on.", *at(model)).told.startswith("toolwire: there is no conversation")
    part = json.loads(asked("conversations", "--json").out.splitlines()[-1])["id"]
    with simulate(["Bob."]) as model:
        assert asked("ask", "Who am I?", "-c", part, "--base-url", model.url).out == "Bob.\n"
        assert "I am Bob." in str(model.requests[0].body)


def test_nothing_to_continue_is_said(asked: Any) -> None:
    assert "nothing was asked yet" in asked("ask", "-c", "And now?").told
    assert "there is no conversation 2026" in asked("ask", "And now?", "-c", "2026").told


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_files_are_attached_by_what_they_are(asked: Any, tmp_path: Path, provider: str) -> None:
    (tmp_path / "picture.txt").write_bytes(PNG)
    (tmp_path / "paper").write_bytes(PDF)
    (tmp_path / "notes.md").write_text("\ufeff# Notes\n")
    with simulate(["A cat.", "A cat."]) as model:
        files = ["-a", "picture.txt", "-a", "paper", "-a", "notes.md"]
        assert asked("ask", "What is this?", *files, *at(model, provider)).out == "A cat.\n"
        image, document, question, notes = last_message(model).parts
        assert isinstance(image, Image)
        assert (image.media_type, base64.b64decode(image.data or "")) == ("image/png", PNG)
        assert isinstance(document, Document)
        assert base64.b64decode((document.data or "").partition(",")[2] or document.data or "") == PDF
        assert (question.text, notes.text) == ("What is this?", "notes.md:\n\n# Notes\n")
        assert "  What is this? notes.md: # Notes" in asked("conversations").out
        assert asked("ask", "And this?", "-a", "-", *at(model, provider), given=b"\xff\xd8\xff...").code == 0
        assert last_message(model).parts[0].media_type == "image/jpeg"


def test_a_url_is_attached_as_a_url(asked: Any) -> None:
    with simulate(["A cat."]) as model:
        asked("ask", "What is this?", "-a", "https://example.com/a.PNG?x=1", *at(model))
        assert last_message(model).parts[0].url == "https://example.com/a.PNG?x=1"
    unknown = asked("ask", "What is this?", "-a", "https://example.com/page", *at(model))
    assert (unknown.code, "curl -sL https://example.com/page | toolwire ask -a -" in unknown.told) == (2, True)


@pytest.mark.parametrize(
    ("provider", "data", "words"),
    [
        ("ollama", PDF, "-a: ollama cannot receive file: a message of the user in ollama cannot contain it"),
        ("anthropic", b"RIFF1234WAVE", "-a: anthropic cannot receive file: "),
        (
            "openai",
            b"\0\1\2",
            "file must be an image (png, jpeg, gif, webp), a PDF, sound (wav, mp3, ogg, flac) or UTF-8",
        ),
        ("openai", b"caf\xe9", "file must be an image"),
    ],
)
def test_what_cannot_be_sent_is_not_sent(asked: Any, tmp_path: Path, provider: str, data: bytes, words: str) -> None:
    (tmp_path / "file").write_bytes(data)
    with simulate([]) as model:
        said = asked("ask", "What is this?", "-a", "file", *at(model, provider))
    assert (said.code, said.out, model.requests) == (2, "", [])
    assert words in said.told


def test_a_file_that_is_not_there_is_named(asked: Any) -> None:
    with simulate([]) as model:
        assert asked("ask", "?", "-a", "none.png", *at(model)).told == "toolwire: none.png: No such file or directory\n"
        assert asked("ask", "?", "-a", "-", *at(model)).told == "toolwire: -a -: standard input is empty\n"


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "description": "in years"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


def test_a_schema_in_short_is_the_schema_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "person.json"
    file.write_text(json.dumps(PERSON))
    short = "name, age int: in years, tags list"
    assert read_schema(short) == read_schema(str(file)) == read_schema(json.dumps(PERSON)) == PERSON
    assert read_schema("name\nage int : in years\ntags list\n") == PERSON


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name, age integer", "age has the type 'integer'; did you mean int?"),
        ("name, age zzz", "age has the type 'zzz'; the types are str, int, float, bool, list"),
        ("a b c", "'a b c' is not a name with a type, as in 'age int'"),
        ("person.yaml", "there is no file person.yaml"),
        ("name, name", "names name twice"),
        (" , ", "is empty"),
        ("{", "is no JSON Schema"),
        ("[1]", "is not a name"),
    ],
)
def test_a_wrong_schema_is_named(text: str, words: str) -> None:
    with pytest.raises(UserError) as raised:
        read_schema(text)
    assert words in str(raised.value)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_of_a_schema_is_json(asked: Any, provider: str) -> None:
    with simulate(['{"name": "Ann", "age": 5}']) as model:
        said = asked("ask", "Who?", "--schema", "name, age int", *at(model, provider))
    assert (said.code, json.loads(said.out)) == (0, {"name": "Ann", "age": 5})


def test_an_answer_that_does_not_fit_is_an_error(asked: Any) -> None:
    with simulate(["Ann is five."] * 3) as model:
        said = asked("ask", "Who?", "--schema", "name, age int", *at(model))
    assert (said.code, said.out) == (1, "")
    assert "failed" in said.told


def test_settings_are_those_of_a_request(asked: Any) -> None:
    with simulate(["Hi."]) as model:
        options = ["-o", "temperature=0.5", "-o", "max-tokens=9", "-o", "stop=END", "-o", "user=17"]
        assert asked("ask", "Hi.", *options, *at(model)).code == 0
    request: Any = model.requests[0].request
    assert (request.temperature, request.max_tokens, request.stop, request.user) == (0.5, 9, ["END"], "17")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("temprature=1", "temprature is not a setting; did you mean temperature?"),
        ("max_completion_tokens=1", "is not a setting; use max_tokens="),
        ("tools=1", "tools is not a setting"),
        ("temperature", "'temperature' is no KEY=VALUE, as in -o temperature=0.2"),
        ("temperature=hot", "temperature has the wrong type"),
        ("temperature=NaN", "temperature"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_sent(asked: Any, option: str, words: str) -> None:
    with simulate([]) as model:
        said = asked("ask", "Hi.", "-o", option, *at(model))
    assert (said.code, said.out) == (2, "")
    assert words in said.told


BLOCKS = {
    "Here:\n\n```python\nprint(1)\n\nprint(2)\n```\nThat is all.\n```\nno\n```": "print(1)\n\nprint(2)",
    "````md\n```\ninner\n```\n````": "```\ninner\n```",
    "- One:\n\n  ~~~sh\n  ls\n    -l\n  ~~~~": "ls\n  -l",
    "```\nnever closed\nat all": "never closed\nat all",
    "Say:\n```\n```": "Say:\n```\n```",
    "Use `ls`, or ```ls -l``` for more.\n": "Use `ls`, or ```ls -l``` for more.",
    "": "",
}


@pytest.mark.parametrize("answer", BLOCKS)
def test_the_first_code_block_is_taken_out(answer: str) -> None:
    assert code_block(answer) == BLOCKS[answer]


def test_only_the_code_of_an_answer_is_written(asked: Any) -> None:
    with simulate(["Here it is:\n```sh\necho \x1b[31m\n```\nDone.", "Nothing.", ["```\nhalf", Cut()]]) as model:
        assert asked("ask", "-x", "A script?", *at(model)).out == "echo \\x1b[31m\n"
        assert asked("ask", "And now?", "-x", "-c", *at(model)).out == "Nothing.\n"
        both = asked("ask", "-x", "--schema", "name", "Who?", *at(model))
        assert (both.code, "-x and --schema exclude each other" in both.told) == (2, True)
        half = asked("ask", "-x", "Half?", *at(model))
        assert (half.code, half.out) == (1, "")


TOOLS = '''
def get_weather(city: str) -> str:
    """Return the weather."""
    return f"25 degrees in {city}"
'''


@pytest.mark.parametrize("name", ["weather:get_weather", "folder/other.py:get_weather"])
def test_an_own_tool_runs_and_the_answer_stays_alone(asked: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    for file in ("weather.py", "folder/other.py"):
        (tmp_path / file).write_text(TOOLS)
    turns: list[Any] = [
        ["I look. ", ToolCall(None, "get_weather", {"city": "Oslo"})],
        [Expect(results={"get_weather": "25 degrees in Oslo"}), "Warm."],
    ]
    with simulate(turns) as model:
        said = asked("ask", "How is Oslo?", "--tool", name, *at(model))
    assert (said.code, said.out) == (0, "Warm.\n")
    assert "> get_weather(city=" in said.told
    assert sys.path.count(str(tmp_path)) == 0
    sys.modules.pop("weather", None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("weather", "'weather' names no tool: --tool MODULE:NAME"),
        ("no_such_module:f", "there is no module no_such_module, neither in"),
        ("odd:f", "odd cannot be imported: ZeroDivisionError"),
        ("needy:f", "needy needs no_such_library, which is not installed"),
        ("good:get_wether", "good has no get_wether; did you mean get_weather?"),
    ],
)
def test_a_tool_that_is_not_there_is_named(asked: Any, tmp_path: Path, name: str, words: str) -> None:
    for file, text in (("odd", "1 / 0"), ("needy", "import no_such_library"), ("good", TOOLS)):
        (tmp_path / f"{file}.py").write_text(text)
    with simulate([]) as model:
        said = asked("ask", "Hi.", "--tool", name, *at(model))
    assert (said.code, said.out) == (2, "")
    assert words in said.told
    sys.modules.pop("good", None)


SERVER = """
from toolwire import mcp
def get_weather(city: str) -> str:
    '''Return the weather.'''
    return f"25 degrees in {city}"
from toolwire import AgentResolver
mcp.serve(AgentResolver([get_weather]))
"""


def test_the_tools_of_an_mcp_server_of_the_users_file(asked: Any, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(SERVER)
    section = (
        f'[cli]\nmodel = "openai/from-the-file"\n[mcp.weather]\ncommand = "{sys.executable}"\n'
        f'args = ["{tmp_path / "server.py"}"]\nenv = {{ PYTHONPATH = "$SOURCE" }}\n'
    )
    (tmp_path / "toolwire.toml").write_text(section)
    os.environ["SOURCE"] = str(SOURCE)
    try:
        refused = asked("ask", "Hi.", "--mcp", "weather", "-m", "openai/m")
        assert (refused.code, "that of the toolwire.toml in this folder is not used" in refused.told) == (2, True)
        (tmp_path / "config" / "toolwire").mkdir(parents=True)
        (tmp_path / "toolwire.toml").rename(tmp_path / "config" / "toolwire" / "toolwire.toml")
        turns: list[Any] = [
            [ToolCall(None, "get_weather", {"city": "Oslo"})],
            [Expect(results={"get_weather": "25 degrees in Oslo"}), "Warm."],
        ]
        with simulate(turns) as model:
            said = asked("ask", "How is Oslo?", "--mcp", "weather", "--base-url", model.url)
        assert (said.code, said.out) == (0, "Warm.\n"), said.told
        assert "from-the-file" in str(model.requests[0].body)
    finally:
        del os.environ["SOURCE"]
    unknown = asked("ask", "Hi.", "--mcp", "wether", "-m", "openai/m")
    assert "there is no MCP server 'wether': add [mcp.wether] to " in unknown.told
    assert "did you mean weather?" in unknown.told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[mcp.a]\n", "mcp.a needs a command or a url, and not both"),
        ('[mcp.a]\ncomand = "x"\n', "toolwire.toml: mcp.a.comand is not a setting; did you mean command?"),
        ("[mcp", "toolwire.toml: is not TOML"),
        (
            '[mcp.a]\nurl = "http://localhost:1/mcp"\nheaders = { a = "$NO_SUCH" }\n',
            "mcp.a: names $NO_SUCH, and there is no such variable",
        ),
    ],
)
def test_a_wrong_settings_file_is_named(asked: Any, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "config" / "toolwire").mkdir(parents=True)
    (tmp_path / "config" / "toolwire" / "toolwire.toml").write_text(text)
    said = asked("ask", "Hi.", "--mcp", "a", "-m", "openai/m")
    assert (said.code, said.out) == (2, "")
    assert words in said.told


# A provider that refuses, wants a pause, breaks off, says nothing, is not there.


def test_a_wrong_key_is_said_with_its_variable(asked: Any, tmp_path: Path) -> None:
    with simulate([[Fail(Error("authentication", "Incorrect API key.", 401))]]) as model:
        said = asked("ask", "Hi there.", *at(model))
    assert (said.code, said.out) == (1, "")
    assert "Incorrect API key." in said.told
    assert "the key is that of OPENAI_API_KEY" in said.told
    assert kept(tmp_path) == []


def test_a_limit_of_requests_is_waited_for(asked: Any) -> None:
    with simulate([[Fail(Error("rate_limit", "Slow down.", 429), 0.01)], "Hello."]) as model:
        said = asked("ask", "Hi.", *at(model))
    assert (said.code, said.out) == (0, "Hello.\n")
    assert said.told.startswith("[retry in 1 s: ")


def test_an_answer_that_breaks_off_is_written_as_far_as_it_came(asked: Any, tmp_path: Path) -> None:
    with simulate([["It is ", Cut()]]) as model:
        said = asked("ask", "How is it?", *at(model))
    assert (said.code, said.out.strip()) == (1, "It is")
    assert said.told.startswith("failed: ")
    assert kept(tmp_path)[0].context.messages[-1].text.strip() == "It is"


def test_nobody_there_and_no_key_and_no_model(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said = asked("ask", "Hi.", "-m", "ollama/m", "--base-url", "http://127.0.0.1:9")
    assert (said.code, said.out) == (1, "")
    assert "nothing answers at http://127.0.0.1:9: start it (`ollama serve`)" in said.told
    said = asked("ask", "Hi.", "-m", "groq/m")
    assert (said.code, said.told) == (
        2,
        "toolwire: groq: there is no key: set GROQ_API_KEY, or toolwire auth set groq\n",
    )
    monkeypatch.delenv("TOOLWIRE_MODEL", raising=False)
    assert "name a model: --model PROVIDER/NAME" in asked("ask", "Hi.").told


def test_a_refusal_and_a_limit_are_said(asked: Any) -> None:
    with simulate([["Because", Finish("length")], [Refusal("I cannot."), Finish("refusal")]]) as model:
        cut = asked("ask", "Why?", *at(model))
        refused = asked("ask", "Why not?", *at(model))
    assert (cut.code, cut.out) == (0, "Because\n")
    assert "the answer was cut off at the token limit: raise it with -o max_tokens=N" in cut.told
    assert (refused.code, refused.out) == (1, "I cannot.\n")
    assert refused.told.startswith("the model refused")


def test_what_was_asked_is_found_again(asked: Any) -> None:
    with simulate(["A Monad is a **monoid**.", "Grüße!"]) as model:
        asked("ask", "What is a thing?", *at(model))
        asked("ask", "Say hello in German.", *at(model))
    first = asked("conversations", "search", "monad", "THING")
    assert (first.code, first.out.count("\n")) == (0, 3)
    assert first.out.splitlines()[1:] == ["    A Monad is a **monoid**.", "    What is a thing?"]
    assert asked("conversations", "search", "grüße").out.count("\n") == 2
    [row] = map(json.loads, asked("conversations", "search", "hello in", "--json").out.splitlines())
    assert (row["command"], row["places"]) == ("ask", ["Say hello in German."])
    none = asked("conversations", "search", "monad", "German")
    assert (none.code, none.out, none.told) == (1, "", "no conversation has 'monad' and 'German'\n")
    assert asked("conversations").out.count("\n") == 2
    assert asked("conversations", "search", "monad", "--cwd", "/").code == 1


# A terminal.


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 40])
@pytest.mark.parametrize("more", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_on_a_terminal_words_are_whole_and_nothing_is_added(tmp_path: Path, columns: int, more: dict[str, str]) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 5 + "\x1b[31mred"
    with (
        simulate([[Pace(0.001), Text(text=text)]]) as model,
        terminal(tmp_path, "ask", "What is it?", *at(model), columns=columns, **more) as shown,
    ):
        assert shown.end() == 0
    lines = shown.plain.rstrip("\n").split("\n")
    assert " ".join(line.strip() for line in lines) == text.replace("\x1b", "\\x1b").strip()
    assert max(map(len, lines)) <= columns


@pytest.mark.slow
def test_ctrl_c_ends_an_answer_and_a_wait(tmp_path: Path) -> None:
    with (
        simulate([["It is ", Wait(60), "warm."]]) as model,
        terminal(tmp_path, "ask", "How is it?", *at(model)) as shown,
    ):
        shown.until("It")
        time.sleep(0.3)
        shown.interrupt()
        assert shown.end() == 130
        assert shown.plain.split() == ["It", "is", "^C", "interrupted"] or "interrupted" in shown.plain
        assert shown.is_as_it_was()
    assert kept(tmp_path)[0].context.messages[-1].text.strip() in ("It", "It is")


@pytest.mark.slow
def test_a_provider_that_says_nothing_can_be_left(tmp_path: Path) -> None:
    with (
        serving(stall) as (url, _),
        terminal(tmp_path, "ask", "How is it?", "-m", "openai/m", "--base-url", f"{url}/v1") as shown,
    ):
        shown.until("waiting for the model, 1 s")
        shown.interrupt()
        assert shown.end() == 130
        assert "interrupted" in shown.plain


@pytest.mark.slow
def test_a_projects_server_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "toolwire.toml").write_text(f'[mcp.weather]\ncommand = "touch"\nargs = ["{tmp_path / "started"}"]\n')
    with simulate([]) as model, terminal(tmp_path, "ask", "Hi.", "--mcp", "weather", *at(model)) as shown:
        assert shown.end() == 2
        assert "a project must not start programs" in " ".join(shown.plain.split())
    assert not (tmp_path / "started").exists()


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    with simulate([[Pace(0.01), "word " * 200]]) as model:
        command = [sys.executable, "-m", "toolwire", "ask", "Hi.", *at(model)]
        process = subprocess.Popen(
            command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(4) == b"word"
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(20) == 1


MEASURE = """
import glob, http.server, resource, subprocess, sys, threading
used = []
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        paths = glob.glob(f"/proc/{process.pid}/task/*/schedstat")
        used.append(sum(int(open(path).read().split()[0]) for path in paths))
        self.rfile.read(int(self.headers["content-length"]))
        self.send_error(400)
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
for _ in range(8):
    options = ["-m", "openai/m", "--base-url", f"http://127.0.0.1:{server.server_port}/v1"]
    command = [sys.executable, "-m", "toolwire", "ask", "Hi there.", *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.wait()
def bare():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(min(used) / 1e9, min(bare() for _ in range(8)))
"""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel reports no CPU time of a process")
def test_little_cpu_is_used_before_the_request_is_sent(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    used, bare = map(float, ran.stdout.split())
    # On a machine that is slow at the moment, so many times what Python alone takes in the same minute.
    assert 0.01 < used <= max(0.15, 15 * bare)


@pytest.mark.slow
@pytest.mark.alone
def test_help_uses_little_cpu(tmp_path: Path) -> None:
    code = (
        "import resource, subprocess, sys\n"
        "def used():\n"
        "    before = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "    subprocess.run([sys.executable, '-m', 'toolwire', '--help'], stdout=subprocess.DEVNULL, check=True)\n"
        "    after = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime\n"
        "print(min(used() for _ in range(8)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert 0.01 < float(ran.stdout) <= 0.1
