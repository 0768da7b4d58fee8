"""Every feature of the command line on a real terminal: wide, narrow, and without colours."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import at, project, terminal
from toolwire.cli.chat_commands import COMMANDS
from toolwire.cli.screen import count_columns
from toolwire.testing import simulate
from toolwire.types import ToolCall, Usage

pytestmark = pytest.mark.slow

LOOKS = pytest.mark.parametrize(
    ("columns", "more"),
    [(120, {}), (40, {}), (40, {"NO_COLOR": "1"}), (40, {"TERM": "dumb"})],
    ids=["wide", "narrow", "no colours", "dumb"],
)
COLOUR = re.compile(r"\x1b\[(?:\d+;)*[39][0-7]m")  # NO_COLOR leaves bold and dim text
WRITE = ToolCall(None, "write_file", {"path": "made.txt", "content": "one\n"})
TURNS: list[Any] = [
    [WRITE],
    ["It is made, and that is all there is to say about a file of a single line."],
    ["The second answer."],
    ["What was done so far: made.txt was written."],
    ["The answer of another model.", Usage(12, 3)],
]
# What is typed in a chat, and what it shows then.
CHAT = [
    ("/help", "/mode MODE plan, ask, edits or all; without MODE show the rules; `forget` removes them"),
    ("/tools", "read_file Read a file."),
    ("/mode", "edits: change files of the project without asking; ask before commands and fetches"),
    ("/mode plan", "[plan: look only: calls that write or run something are refused]"),
    ("/mode fast", "there is no mode 'fast'; there are: plan, ask, edits, all"),
    ("/mode edits", "[edits: change files of the project without asking; ask before commands and fetches]"),
    ("/cost", "nothing was sent yet"),
    ("/undo", "there are no edits to take back"),
    ("/compact", "there is nothing to summarize yet"),
    ("/attach notes.md", "[notes.md goes with the next prompt]"),
    ("make it", "It is made, and that is all there is to say about a file of a single line."),
    ("/diff", "made.txt (a new file) + 1 one"),
    ("/undo", "removed made.txt"),
    ("/diff", "[no file differs from what it was before the edits]"),
    ("and now?", "The second answer."),
    ("/compact the file", "[6 messages were replaced by a summary; all of them are saved as "),
    ("/model other", "[openai other]"),
    ("who are you?", "The answer of another model."),
    ("/cost", "openai/other: 1 request, 12 tokens in, 3 tokens out, the price is not known"),
    ("/save kept.json", "[written to kept.json]"),
    ("/save kept.json", "kept.json already exists: name another file"),
    ("/clear", "[a new conversation; the last one is saved as "),
    ("/modle", "there is no /modle; did you mean /model?; /help lists the commands"),
]


def check_looks(shown: Any, columns: int, more: dict[str, str]) -> bool:
    """Check the lines, the styles, and that the terminal is left as it was. Return True if there were colours.

    A word that is longer than a line has one of its own, and results of tools keep their lines.
    """
    wide = [line for line in shown.plain.splitlines() if count_columns(line) > columns and len(line.split()) > 1]
    assert [line for line in wide if not line.startswith("  Wrote ")] == []
    assert "Traceback" not in shown.said
    assert not (more.get("TERM") and "\x1b" in shown.said)
    assert shown.is_as_it_was()
    return COLOUR.search(shown.said) is not None


@LOOKS
def test_every_command_of_a_chat(tmp_path: Path, columns: int, more: dict[str, str]) -> None:
    (tmp_path / "notes.md").write_text("tea\n")
    assert {line.split()[0] for line, _ in CHAT if line.startswith("/")} >= {*COMMANDS}
    with (
        simulate(TURNS) as model,
        terminal(tmp_path, "chat", "--mode", "edits", *at(model, tmp_path), columns=columns, **more) as shown,
    ):
        for number, (line, expected) in enumerate(CHAT, 1):
            shown.until("you> ", number)
            time.sleep(0.1)
            before = len(shown.plain)
            shown.type(f"{line}\r")
            shown.when(lambda: expected in " ".join(shown.plain[before:].split()))  # noqa: B023 - called here
        shown.until("you> ", len(CHAT) + 1)
        shown.type("/quit\r")
        assert shown.end() == 0
        assert check_looks(shown, columns, more) is (not more)
    assert not (project(tmp_path) / "made.txt").exists()


def test_tab_completes_commands_and_files(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("tea\n")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    typed = {
        "/und\t": "there are no edits to take back",
        "/attach no\t": "[notes.md goes with the next prompt]",
        "/attach pic\tc\t": "[pictures/cat.png goes with the next prompt]",
        "/cost no\t": "nothing was sent yet",
    }
    with simulate([]) as model, terminal(tmp_path, "chat", *at(model, tmp_path), columns=120) as shown:
        for number, (line, expected) in enumerate(typed.items(), 1):
            shown.until("you> ", number)
            time.sleep(0.2)
            shown.type(f"{line}\r")
            shown.until(expected)
        shown.until("you> ", len(typed) + 1)
        shown.type("\x04")
        assert shown.end() == 0


def commands(url: str) -> Iterator[tuple[list[str], int, str]]:
    """Yield commands with their exit codes, and with what they show."""
    model = ["-m", "openai/m", "--base-url", url]
    yield ["auth", "list"], 0, "no key is stored: toolwire auth set PROVIDER"
    yield ["conversations"], 0, ""
    yield ["ask", "What is tea?", *model], 0, "A drink made of leaves, which many people like in the afternoon."
    yield ["ask", "-c", "And now?", *model], 0, "Coffee is one too."
    yield ["run", "--mode", "plan", "Write it.", *model], 0, "the user has chosen plan mode: nothing is changed"
    yield ["conversations"], 0, "2 turns What is tea?"
    yield ["conversations", "search", "LEAVES"], 0, "A drink made of leaves, which many people like"
    yield ["conversations", "search", "whisky"], 1, "no conversation has 'whisky'"
    yield ["ask", "Hi.", "-o", "temprature=1", *model], 2, "temprature is not a setting; did you mean temperature?"
    yield ["auth", "remove", "groq"], 2, "toolwire: groq: there is no stored key"


@LOOKS
def test_commands_that_end_by_themselves(tmp_path: Path, columns: int, more: dict[str, str]) -> None:
    turns: list[Any] = [
        ["A drink made of leaves, which many people like in the afternoon."],
        ["Coffee is one too."],
        [WRITE],
        ["First I would write it."],
    ]
    coloured = False
    with simulate(turns) as model:
        for arguments, code, expected in commands(model.url):
            with terminal(tmp_path, *arguments, columns=columns, **more) as shown:
                assert shown.end() == code, shown.said
                assert expected in " ".join(shown.plain.split())
                coloured = check_looks(shown, columns, more) or coloured
    assert coloured is (not more)


@LOOKS
def test_a_stored_key_is_listed(tmp_path: Path, columns: int, more: dict[str, str]) -> None:
    with terminal(tmp_path, "auth", "set", "groq", "--file", columns=columns, **more) as shown:
        shown.until("Key of groq (it is not shown): ")
        shown.type("sk-typed\r")
        assert shown.end() == 0
        assert "the key of groq is stored in" in " ".join(shown.plain.split())
        assert "sk-typed" not in shown.said
        assert shown.is_as_it_was()
    with terminal(tmp_path, "auth", "list", columns=columns, **more) as shown:
        assert shown.end() == 0
        assert shown.plain.startswith("groq")


@LOOKS
def test_a_question_of_approval_shows_the_change_and_the_rule(
    tmp_path: Path, columns: int, more: dict[str, str]
) -> None:
    turns: list[Any] = [[WRITE], [ToolCall(None, "bash", {"command": "echo hello"})], ["Done."]]
    options = ["--sandbox", "none"]
    with (
        simulate(turns) as model,
        terminal(tmp_path, "run", "do it", *options, *at(model, tmp_path), columns=columns, **more) as shown,
    ):
        shown.until("Write it?")
        time.sleep(0.2)
        assert "+ 1 one" in shown.plain
        shown.type("y\r")
        shown.until("Run it?")
        time.sleep(0.2)
        assert "bash(echo *)" in " ".join(shown.plain.split())
        shown.type("a\r")
        assert shown.end() == 0
        assert check_looks(shown, columns, more) is (not more)
    assert (project(tmp_path) / "made.txt").read_text() == "one\n"
