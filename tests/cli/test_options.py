"""Options of the command line: each one is documented, and none does nothing."""

from pathlib import Path
from typing import Any

import pytest

from scripts import options
from tests.cli.test_cli import Ran, run
from toolwire.cli import main
from toolwire.cli.translation import _KINDS_WITH

__all__ = ["run"]

MODELS = "/v1beta/models/gemini-3:generateContent"
INPUTS: dict[str, tuple[str, str, str]] = {
    "request": (
        "gemini",
        "ollama",
        '{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"cachedContent":"c","labels":{"a":"b"}}',
    ),
    "response": (
        "anthropic",
        "openai-chat",
        """{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],
        "stop_reason":"end_turn","stop_sequence":null,"container":{"id":"c"},
        "usage":{"input_tokens":1,"output_tokens":1,"inference_geo":"eu"}}""",
    ),
    "stream": (
        "openai-chat",
        "anthropic",
        """data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"f","choices":[
data: {"index":0,"delta":{"role":"assistant","content":"Hi","unknown":1},"finish_reason":"stop"}]}

data: [DONE]

""",
    ),
    "error": (
        "anthropic",
        "openai-chat",
        '{"type":"error","error":{"type":"unknown","message":"m"},"request_id":"r","extra":1}',
    ),
}
USES: dict[str, list[str]] = {
    "--path": ["--path", MODELS],
    "--status": ["--status", "404"],
    "--model": ["--model", "another"],
    "--strict": ["--strict"],
    "--json": ["--json"],
    "--json-losses": ["--json-losses"],
    "--all-losses": ["--all-losses"],
}
"""How each option of `toolwire translate` is used, so that it makes a difference for every kind that takes it."""
SELECTING = {"--from", "--to", "--kind"}


def _translate_options() -> list[str]:
    [command] = [command for name, _, command in options.commands() if name == "toolwire translate"]
    return [action.option_strings[-1] for action in options.options(command) if action.option_strings]


def test_every_option_of_translate_has_a_use_here() -> None:
    untested = set(_translate_options()) - SELECTING - USES.keys()
    assert not untested, f"add {untested} to USES: each kind of input has to honour an option or to refuse it"


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("option", USES)
def test_an_option_of_translate_makes_a_difference_or_is_refused(run: Any, option: str, kind: str) -> None:
    source, target, body = INPUTS[kind]
    command = ["translate", "--from", source, "--to", target, "--kind", kind]
    plain = run(*command, given=body.encode())
    assert plain.code == 0
    if kind not in _KINDS_WITH.get(option.strip("-"), (kind,)):
        with pytest.raises(SystemExit, match="2"):
            main([*command, *USES[option]])
        return
    ran = run(*command, *USES[option], given=body.encode())
    assert _seen(ran) != _seen(plain), f"--kind {kind} ignores {option}: honour it, or refuse it in _KINDS_WITH"


def _seen(ran: Ran) -> tuple[int, bytes, str]:
    return ran.code, ran.out, ran.told


def test_a_refused_option_names_the_kinds_that_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["translate", "--from", "openai", "--to", "gemini", "--kind", "stream", "--model", "m"])
    assert "--model applies to --kind request, not to --kind stream" in capsys.readouterr().err


def test_every_option_is_documented() -> None:
    assert options.PAGE.read_text() == options.page(), "run `make docs`"


def test_every_option_has_a_text() -> None:
    silent = [
        (name, action.dest)
        for name, _, command in options.commands()
        for action in options.options(command)
        if not action.help
    ]
    assert not silent, "give each option a help text"


def test_the_page_is_a_table_of_each_command() -> None:
    page = Path(options.PAGE).read_text()
    assert "## toolwire traces export" in page
    assert "| `--listen HOST:PORT` |" in page
