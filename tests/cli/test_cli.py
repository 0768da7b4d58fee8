"""The command line: what it writes where, and the code with which it ends."""

import io
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import toolwire
from toolwire import Context, Message, Request, Response, Text, Usage, catalogue, dialect
from toolwire.cli import main
from toolwire.dialects import ALIASES, NAMES
from toolwire.streams.accumulation import events_of

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Grüße"}], "max_tokens": 10}
LOSSY = REQUEST | {"seed": 1, "n": 1}
WRITTEN = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Grüße"}]}
TRANSLATE = ("translate", "--from", "openai", "--to", "anthropic")
PATH = "path: /v1/messages\n"
SEED_LOSS = "  seed: anthropic has no such setting (dropped)\n"
EFFORT_LOSS = "  reasoning_effort: m has no effort minimal: low is sent (approximated)\n"
LOW = {"output_config": {"effort": "low"}}
N_LOSS = "  n: anthropic has no such setting (dropped)\n"


class Ran:
    """What one run of the command gave."""

    def __init__(self, code: int, out: bytes, told: str) -> None:
        self.code = code
        self.out = out
        self.told = told

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.out)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    def run_command(*arguments: str, given: Any = b"") -> Ran:
        data = given if isinstance(given, bytes) else msgspec.json.encode(given)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main(arguments)
        captured = capfdbinary.readouterr()
        return Ran(code, captured.out, captured.err.decode())

    return run_command


def test_from_standard_input_to_standard_output(run: Any) -> None:
    for ran in (run(*TRANSLATE, given=REQUEST), run(*TRANSLATE, "-", given=REQUEST)):
        assert (ran.code, ran.body, ran.told) == (0, WRITTEN, PATH)
    assert ran.out.endswith(b"}\n")
    assert "Grüße".encode() in ran.out
    assert b'\n  "model"' in ran.out


def test_from_a_file(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(msgspec.json.encode(REQUEST))
    ran = run(*TRANSLATE, str(file))
    assert (ran.code, ran.body, ran.told) == (0, WRITTEN, PATH)


def test_losses_go_to_standard_error(run: Any) -> None:
    ran = run(*TRANSLATE, given={"reasoning_effort": "minimal"} | LOSSY)
    assert (ran.code, ran.body) == (0, WRITTEN | LOW)
    assert ran.told == PATH + SEED_LOSS + EFFORT_LOSS


def test_formal_losses_are_told_on_request(run: Any) -> None:
    ran = run(*TRANSLATE, "--all-losses", given=LOSSY)
    assert (ran.code, ran.body, ran.told) == (0, WRITTEN, PATH + SEED_LOSS + N_LOSS)


def test_losses_as_json(run: Any) -> None:
    ran = run(*TRANSLATE, "--json-losses", given=LOSSY)
    assert (ran.code, ran.body) == (0, WRITTEN)
    assert [msgspec.json.decode(line) for line in ran.told.splitlines()] == [
        {
            "path": field,
            "concept": field,
            "action": "dropped",
            "detail": "anthropic has no such setting",
            "severity": severity,
        }
        for field, severity in (("seed", "semantic"), ("n", "formal"))
    ]


REFUSAL = "toolwire: nothing was written, because --strict allows no semantic loss\n"


def test_strictness_writes_nothing(run: Any) -> None:
    ran = run(*TRANSLATE, "--strict", given=LOSSY)
    assert (ran.code, ran.out, ran.told) == (1, b"", SEED_LOSS + REFUSAL)
    ran = run(*TRANSLATE, "--strict", "--json-losses", given=LOSSY)
    assert (ran.code, ran.out) == (1, b"")
    line, refusal = ran.told.splitlines(keepends=True)
    assert (msgspec.json.decode(line)["path"], refusal) == ("seed", REFUSAL)


def test_strictness_lets_minor_losses_pass(run: Any) -> None:
    ran = run(*TRANSLATE, "--strict", given=REQUEST | {"n": 1, "reasoning_effort": "minimal"})
    assert (ran.code, ran.body, ran.told) == (0, WRITTEN | LOW, PATH + EFFORT_LOSS)


RESPONSE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
}


def test_a_response(run: Any) -> None:
    back = ("translate", "--from", "anthropic", "--to", "openai", "--kind", "response")
    ran = run(*back, given=RESPONSE)
    assert (ran.code, ran.told) == (0, "")
    assert ran.body["choices"][0]["message"]["content"] == "Hi"
    ran = run(*back, "--strict", given=RESPONSE | {"container": {"id": "c"}})
    assert (ran.code, ran.out) == (1, b"")
    assert ran.told.startswith("  opaque.container: only anthropic understands this (dropped)\n")


def test_an_error(run: Any) -> None:
    given = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}, "request_id": "r"}
    back = ("translate", "--from", "anthropic", "--to", "openai-chat", "--kind", "error")
    ran = run(*back, "--status", "529", given=given)
    said = {"error": {"message": "m", "type": "server_error", "param": None, "code": None}}
    assert (ran.code, ran.body) == (0, said)
    assert ran.told == ""
    ran = run(*back, "--status", "529", "--all-losses", given=given)
    assert ran.told == "  request_id: openai-chat sends it in a header (dropped)\n"
    ran = run(*back, "--strict", given=given | {"extra": 1})
    assert (ran.code, ran.out) == (1, b"")
    ran = run("translate", "--from", "openai", "--to", "anthropic", "--kind", "error", "--status", "503", given={})
    assert ran.body == {"type": "error", "error": {"type": "overloaded_error", "message": "{}"}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>"),
        (b"", ""),
        (b'{"a": null}', '{"a":null}'),
        (b"[1, true]", "[1,true]"),
    ],
)
def test_an_error_may_be_any_text(run: Any, given: bytes, words: str) -> None:
    arguments = ("--from", "gemini", "--to", "openai", "--kind", "error", "--status", "502")
    ran = run("translate", *arguments, given=given)
    assert (ran.code, ran.body["error"]["message"]) == (0, words)


def test_a_byte_order_mark_is_passed_over(run: Any) -> None:
    called = run("call", "list_directory", "-", "--cwd", str(Path(__file__).parent), given=b"\xef\xbb\xbf{}")
    assert (called.code, called.told) == (0, "")
    ran = run("translate", "--from", "openai", "--to", "gemini", given=b"\xef\xbb\xbf" + msgspec.json.encode(REQUEST))
    assert (ran.code, ran.body) == (0, run("translate", "--from", "openai", "--to", "gemini", given=REQUEST).body)


def test_a_path_that_says_the_model(run: Any) -> None:
    given = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    ran = run(
        *("translate", "--from", "gemini", "--to", "openai"),
        *("--path", "/v1beta/models/gemini-3:generateContent"),
        given=given,
    )
    assert (ran.code, ran.body["model"]) == (0, "gemini-3")


PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
    "ollama": "/api/chat",
}


@pytest.mark.parametrize("target", NAMES)
def test_the_path_of_a_request_is_said(run: Any, target: str) -> None:
    ran = run("translate", "--from", "openai", "--to", target, given=REQUEST)
    assert ran.told.startswith(f"path: {PATHS[target]}\n")
    other = run("translate", "--from", "openai", "--to", target, "--model", "other", given=REQUEST)
    assert other.told.startswith(f"path: {PATHS[target].replace('/m:', '/other:')}\n")
    assert other.body.get("model") == (None if target == "gemini" else "other")
    whole = run("translate", "--from", "openai", "--to", target, "--json", given=REQUEST)
    assert (whole.told, whole.body["path"], whole.body["body"]) == ("", PATHS[target], ran.body)
    assert len(whole.body["losses"]) == ran.told.count("\n") - 1


CHAT = {"model": "m", "messages": [], "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
OTHERS: list[tuple[tuple[str, ...], Any, str]] = [
    (("--from", "anthropic"), CHAT, "body: this looks like openai-chat or ollama, not anthropic"),
    (("--from", "gemini"), CHAT, "body: this looks like openai-chat or ollama, not gemini"),
    (("--from", "openai"), {"contents": []}, "body: this looks like gemini, not openai-chat"),
    (("--from", "openai"), {"messages": "oops"}, "messages: must be an array, not a string"),
    (("--from", "openai"), {"choices": []}, "body: this looks like a response of openai-chat, not a request"),
    (("--from", "openai", "--kind", "response"), CHAT, "body: this looks like a request of openai-chat or ollama,"),
    (("--from", "openai", "--kind", "stream"), CHAT, "body: this is one JSON object, not a stream"),
    (("--from", "ollama", "--kind", "stream"), CHAT, "body: this looks like a request of openai-chat or ollama,"),
    (("--from", "openai", "--kind", "stream"), b"", "body: is empty"),
    (("--from", "gemini", "--kind", "stream"), b"[1, 2]", "body: this is not a stream"),
    (("--from", "ollama", "--kind", "stream"), b"\x00\xff\x00\n", "body: this is not a stream"),
    (("--from", "anthropic", "--kind", "stream"), b"<html>502</html>", "body: this is not a stream"),
    (("--from", "openai"), b" \n", "body: is not JSON: it is empty"),
    (("--from", "gemini", "--kind", "stream"), b'data: {"choices":[]}\n\n', "body: this looks like openai-chat, not"),
]


@pytest.mark.parametrize(("arguments", "given", "words"), OTHERS)
def test_a_body_of_another_wire_is_refused_by_name(run: Any, arguments: Any, given: Any, words: str) -> None:
    ran = run("translate", *arguments, "--to", "anthropic", given=given)
    assert (ran.code, ran.out) == (2, b"")
    assert ran.told.startswith(f"toolwire: {words}")


@pytest.mark.sampled
@pytest.mark.parametrize("source", [*NAMES, *ALIASES])
@pytest.mark.parametrize("target", [*NAMES, *ALIASES])
def test_every_pair_of_names(run: Any, source: str, target: str) -> None:
    ran = run("translate", "--from", source, "--to", target, given={})
    assert ran.code == 0
    assert isinstance(ran.body, dict)


BAD: list[tuple[bytes, str]] = [
    (b"{", "toolwire: body: is not JSON: "),
    (b"", "toolwire: body: is not JSON: "),
    (b"\xff\xfe", "toolwire: body: is not JSON: "),
    (b"[]", "toolwire: $: a request's body must be a JSON object\n"),
    (b'{"model": "a", "model": "b"}', "toolwire: body...model: has the key 'model' twice\n"),
    (b'{"model": "\\ud800"}', "toolwire: body: "),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_what_cannot_be_read(run: Any, data: bytes, message: str) -> None:
    ran = run(*TRANSLATE, given=data)
    assert (ran.code, ran.out) == (2, b"")
    assert ran.told.startswith(message)
    assert ran.told.count("\n") == 1


def test_what_a_target_does_not_take_is_told_and_refused_by_strict(run: Any) -> None:
    tools = [{"type": "custom", "name": f"t{number}", "input_schema": {}} for number in range(129)]
    asked = ("translate", "--from", "anthropic", "--to", "openai")
    ran = run(*asked, given={"messages": [], "tools": tools})
    assert (ran.code, len(json.loads(ran.out)["tools"])) == (0, 128)
    assert "tools[128]: openai-chat accepts at most 128 tools" in ran.told
    ran = run(*asked, "--strict", given={"messages": [], "tools": tools})
    assert (ran.code, ran.out) == (1, b"")
    assert "tools[128]" in ran.told


def test_a_file_that_is_none(run: Any, tmp_path: Path) -> None:
    for file in (tmp_path / "none.json", tmp_path):
        ran = run(*TRANSLATE, str(file))
        assert (ran.code, ran.out) == (2, b"")
        assert ran.told.startswith("toolwire: ")
        assert str(file) in ran.told


USAGE: list[tuple[str, ...]] = [
    ("what",),
    ("translate",),
    ("translate", "--from", "openai"),
    ("translate", "--from", "openai", "--to", "klingon"),
    (*TRANSLATE, "--kind", "dream"),
    (*TRANSLATE, "--status", "soon", "--kind", "error"),
    (*TRANSLATE, "one", "two"),
]


@pytest.mark.parametrize("arguments", USAGE)
def test_arguments_that_cannot_be_used(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: toolwire")


MEANT: list[tuple[tuple[str, ...], str]] = [
    (("serve", "--port", "1"), "toolwire serve: error: unknown option --port; did you mean --listen HOST:PORT?"),
    (("run", "--modle", "x", "hi"), "toolwire run: error: unknown option --modle; did you mean --model?"),
    (("run", "fix", "the", "test"), 'a task of several words must be quoted: toolwire run "fix the test"'),
    (("run", "x", "--max-steps", "0"), "--max-steps: must be a whole number from 1 on, not '0'"),
    (("run", "x", "--base-url", "127.0.0.1:8401"), "must begin with http:// or https://, as in http://127.0.0.1:8401"),
    (("run", "x", "--base-url", "http://host:99999"), "must be like https://host/path, not 'http://host:99999'"),
    (("run", "x", "--base-url", "http://[::1"), "must be like https://host/path, not 'http://[::1'"),
    (("run", "x", "--base-url", "ftp://host"), "must be like https://host/path, not 'ftp://host'"),
    (("conversatoins",), "did you mean conversations?"),
    (("traces", "lst"), "did you mean list?"),
    (("dialects", "all"), "toolwire dialects: error: unexpected arguments: all"),
]


@pytest.mark.parametrize(("arguments", "words"), MEANT)
def test_an_error_says_what_may_have_been_meant(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_what_a_command_may_be_asked_first(run: Any) -> None:
    ran = run()
    assert (ran.code, ran.out.decode().count("  toolwire translate --from")) == (0, 1)
    assert ran.out.decode().partition("examples:\n")[2].partition("\n\n")[0].count("\n") == 3, "four examples"
    pinned = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["version"]
    assert toolwire.__version__ == pinned
    for arguments in (("--version",), ("-V",), ("version",)):
        with pytest.raises(SystemExit) as ended:
            run(*arguments)
        assert ended.value.code == 0


def test_help_says_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "exit codes: 0 an answer, or done; 1 an error" in told
    for line in ("translate a body from one dialect", "list the dialects", "list the models"):
        assert line in told


def test_a_command_loads_its_own_file_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^  (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert {"run", "serve", "worker"} < set(commands)
    for command in commands:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert (ended.value.code, capsys.readouterr().out.split()[:3]) == (0, ["usage:", "toolwire", command])
    code = (
        "import sys; from toolwire.cli import main; main(['config']); print([n for n in sys.modules if '.cli.' in n])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("\n['toolwire.cli.commands', 'toolwire.cli.parsing', 'toolwire.cli.config']\n")


def test_the_dialects(run: Any) -> None:
    ran = run("dialects")
    assert ran.code == 0
    assert ran.out.decode().splitlines() == [
        "openai-chat (or openai)",
        "openai-responses (or responses)",
        "anthropic",
        "gemini",
        "ollama",
    ]


def test_the_models(run: Any) -> None:
    lines = run("models").out.decode().splitlines()
    assert len(lines) == 1 + len(list(catalogue.models(None)))
    assert lines[0].split() == ["MODEL", "CONTEXT", "IN", "OUT", "AS", "OF"]
    assert "openai/gpt-6-sol 1,050,000 2 10 2026-11-20" in {" ".join(line.split()) for line in lines}
    dates = [line.split()[-1] for line in lines[1:]]
    assert dates == sorted(dates, reverse=True), "the newest first"
    assert len({len(line.rpartition("  ")[0]) for line in lines}) == 1, "columns"
    ollama = run("models", "--provider", "ollama").out.decode().splitlines()
    assert 1 < len(ollama) < len(lines)
    assert all(line.startswith("ollama/") for line in ollama[1:])
    nobody = run("models", "--provider", "nope")
    assert (nobody.code, nobody.out) == (2, b"")
    assert nobody.told.startswith("toolwire: unknown provider 'nope'; did you mean openai? Known: openai, ")


def test_the_command_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(msgspec.json.encode(LOSSY))
    command = [sys.executable, "-m", "toolwire", *TRANSLATE]
    monkeypatch.setenv("PYTHONPATH", str(Path(toolwire.__file__).parents[1]))
    done = subprocess.run([*command, str(file)], capture_output=True, check=False)
    assert (done.returncode, msgspec.json.decode(done.stdout)) == (0, WRITTEN)
    assert done.stderr.decode() == PATH + SEED_LOSS
    refused = subprocess.run([*command, "--strict"], input=file.read_bytes(), capture_output=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, b"")
    broken = subprocess.run(command, input=b"{", capture_output=True, check=False)
    assert (broken.returncode, broken.stdout) == (2, b"")
    assert broken.stderr.startswith(b"toolwire: body: is not JSON")


def test_the_tools_are_listed(run: Any) -> None:
    ran = run("tools")
    lines = ran.out.decode().splitlines()
    assert (ran.code, len(lines)) == (0, 12)
    assert lines[0].startswith("read_file       Read a file.")
    declared = run("tools", "--dialect", "anthropic").body
    assert [one["name"] for one in declared][:2] == ["read_file", "write_file"]
    assert declared[0]["input_schema"]["required"] == ["path"]


def test_a_tool_is_called(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Grüße\n")
    ran = run("call", "read_file", '{"path": "a.txt"}', "--cwd", str(tmp_path))
    assert (ran.code, ran.out.decode(), ran.told) == (0, "Grüße\n\n", "")
    ran = run("call", "read_file", '{"path": "../b"}', "--cwd", str(tmp_path))
    assert (ran.code, ran.out) == (1, b"")
    assert "../b: it leads out of the project folder" in ran.told
    ran = run("call", "list_directory", "--cwd", str(tmp_path), "--json")
    assert ran.body["content"] == "a.txt"
    ran = run("call", "write_file", "-", "--cwd", str(tmp_path), given=b'{"path": "b", "content": "x"}')
    assert (ran.code, (tmp_path / "b").read_text()) == (0, "x")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("call", "rm", "{}"), "unknown tool 'rm'. Available: read_file"),
        (("call", "read_file", "{}"), "missing required field: path"),
        (("call", "grep", "notjson"), """pass them as in toolwire call grep '{"pattern": "..."}'"""),
        (("call", "read_file", "[]"), "must be a JSON object"),
        (("call", "read_file", '{"path":"a","path":"b"}'), "twice"),
        (("call", "read_file", "{}", "--cwd", "/nothing/here"), "must be a folder"),
    ],
)
def test_a_call_that_cannot_be_is_told(run: Any, arguments: tuple[str, ...], told: str) -> None:
    ran = run(*arguments)
    assert ran.code in (1, 2)
    assert ran.out == b""
    assert told in ran.told


@pytest.mark.parametrize(
    ("encoding", "line"), [("ascii", r"Gr\u00fc\u00dfe \u65e5\ud83d\ude00"), ("latin-1", r"Grüße \u65e5\ud83d\ude00")]
)
def test_an_encoding_that_has_not_all_characters_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoding: str, line: str
) -> None:
    (tmp_path / "a.txt").write_text("Grüße 日😀", "utf-8")
    call = ("call", "read_file", '{"path": "a.txt"}', "--cwd", str(tmp_path))
    for more in ((), ("--json",)):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out := io.BytesIO(), encoding, write_through=True))
        assert main([*call, *more]) == 0
        said = out.getvalue().decode(encoding)
        assert line in said
    assert json.loads(said)["content"] == "Grüße 日😀"


def test_the_doctor_says_what_holds(run: Any, tmp_path: Path) -> None:
    ran = run("doctor", "--cwd", str(tmp_path))
    lines = ran.out.decode().splitlines()
    broken = sum(line.startswith("NO   ") for line in lines)
    assert all(line.startswith(("ok   ", "NO   ")) for line in lines[:-1])
    probes = len(lines) - 1
    assert lines[-1] == (f"FAILED: {broken} of {probes} checks" if broken else f"all {probes} checks passed")
    assert ran.code == int(broken > 0)
    assert any("sandbox" in line for line in lines)


SPOKEN = Request(context=Context(system="Be brief.", messages=[Message("Hi")]), model="m", max_tokens=5)
ANSWERED = Response.of(Message("assistant", [Text("Hello")]), "stop", model="m", usage=Usage(1, 2))


def written(kind: str, wire: str) -> Any:
    """Give a body of a wire without tools, or the bytes of a stream."""
    here = dialect(wire)
    if kind == "request":
        return here.encode_request(SPOKEN).body
    if kind == "response":
        return here.encode_response(ANSWERED).body
    encoder = here.encode_stream()
    return b"".join(encoder.feed(event) for event in events_of(ANSWERED)) + encoder.close()


@pytest.mark.parametrize("kind", ["request", "response", "stream"])
@pytest.mark.parametrize("named", NAMES)
@pytest.mark.parametrize("wire", NAMES)
def test_a_body_without_tools_is_of_its_own_wire_alone(run: Any, wire: str, named: str, kind: str) -> None:
    ran = run("translate", "--from", named, "--to", "anthropic", "--kind", kind, given=written(kind, wire))
    if wire == named:
        assert ran.code == 0
        assert ran.out != b""
        return
    assert (ran.code, ran.out) == (2, b"")
    assert f"this looks like {wire}, not {named}" in ran.told
