"""Markdown on a terminal while it arrives: the same in whatever pieces, with no word lost or cut."""

import io
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.commands import at, say, terminal
from toolwire.cli.markdown import MarkdownWriter
from toolwire.cli.screen import Screen, count_columns
from toolwire.testing import Wait, simulate
from toolwire.types import Thinking, ToolCall

LOOKS = re.compile(r"\x1b\[[0-9;]*m")
SAMPLE = """# A heading with `code`

A paragraph with **bold words**, *emphasis*, `code`, snake_case, 2 * 3, a*b*c, **kwargs, *args, and [a link](https://x.y/).

- one item that is long enough to be wrapped at the edge of a terminal
  - nested **bold `code`**
- [x] done
1. first
10) tenth

> A quotation with *emphasis* and a very long line that has to be wrapped.

```python
def f(x: int) -> str:
    return f"{x}"  # a comment

```

~~~nolanguage
raw **text**
~~~

| name | value |
|------|------:|
| `a`  | 1 |

After the table: __init__, `` a `tick` ``, \\*escaped\\*, 東京は**日本**の首都。

---
Unclosed **bold and `code
last *line"""
SHOWN = """A heading with code

A paragraph with bold words, emphasis, code, snake_case, 2 * 3, a*b*c, **kwargs, *args, and a link (https://x.y/).

• one item that is long enough to be wrapped at the edge of a terminal
  • nested bold code
• [x] done
1. first
10) tenth

│ A quotation with emphasis and a very long line that has to be wrapped.

def f(x: int) -> str:
    return f"{x}"  # a comment


raw **text**

 name  value
 ───────────
 a         1

After the table: __init__, a `tick`, *escaped*, 東京は日本の首都。

────────────────────────────────────────
Unclosed **bold and `code
last *line
"""


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)


def shown(pieces: list[str]) -> str:
    stream = _Tty()
    screen = Screen(stream)
    writer = MarkdownWriter(screen)
    for piece in pieces:
        writer.feed(piece)
    writer.end()
    screen.start_line()
    return stream.getvalue()


def plain(pieces: list[str]) -> str:
    return LOOKS.sub("", shown(pieces))


def test_it_reads_like_this() -> None:
    assert plain([SAMPLE]) == SHOWN


def test_the_pieces_make_no_difference() -> None:
    assert plain(list(SAMPLE)) == SHOWN
    chance = random.Random(7)  # noqa: S311 - no secret
    for _ in range(30):
        cuts = sorted(chance.sample(range(len(SAMPLE)), 40))
        assert plain([SAMPLE[one:other] for one, other in zip([0, *cuts], [*cuts, len(SAMPLE)], strict=True)]) == SHOWN


@pytest.mark.parametrize(
    ("text", "look"),
    [
        ("**strong**", "1"),
        ("*emphasis*", "3"),
        ("`code`", "36"),
        ("# heading", "1;35"),
        ("[link](x)", "4"),
        ("> quote", "3"),
    ],
)
def test_the_looks(text: str, look: str) -> None:
    assert f"\x1b[{look}m" in shown([text])


def test_code_has_the_colours_of_its_language_and_keeps_its_lines() -> None:
    code = "```python\n" + "x = 1  # " + "a long comment " * 20 + "\n```\n"
    written = shown([code])
    assert written.count("\x1b[") > 2
    assert LOOKS.sub("", written) == code.split("\n")[1] + "\n"


WORDS = st.lists(
    st.sampled_from(
        [
            "word",
            "`",
            "``",
            "```",
            "*",
            "**",
            "_",
            "[",
            "](",
            ")",
            "!",
            "\\",
            "|",
            "|-|",
            "#",
            "-",
            ">",
            "~~~",
            "1.",
            " ",
            "\n",
            "\n\n",
            "é東",
        ]
    ),
    max_size=40,
)


@given(WORDS, st.integers(1, 7))
def test_no_word_is_lost_and_the_pieces_make_no_difference(words: list[str], size: int) -> None:
    text = "".join(words)
    whole = plain([text])
    fences = re.findall(r"(?m)^[ \t]*(?:```|~~~).*$", text)
    if not fences and "](" not in text:
        assert whole.count("word") == text.count("word"), text
        assert whole.count("é東") == text.count("é東"), text
    assert plain([text[start : start + size] for start in range(0, len(text), size)]) == whole


def test_what_could_steer_a_terminal_is_shown_as_its_number() -> None:
    hostile = "\x1b]0;title\x07"
    text = f"a {hostile} **b {hostile}**\n# {hostile}\n```python\n{hostile}\n```\n| {hostile} |\n|---|\n| {hostile} |\n"
    written = LOOKS.sub("", shown(list(text)))
    assert "\x1b" not in written
    assert "\x07" not in written
    assert written.count("title") == 6


def test_a_long_unclosed_mark_does_not_hold_the_text() -> None:
    stream = _Tty()
    screen = Screen(stream)
    MarkdownWriter(screen).feed("`" + "word " * 400)
    assert stream.getvalue().startswith("`word word")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 40])
@pytest.mark.parametrize(("more", "styled"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_on_a_terminal(tmp_path: Path, columns: int, more: dict[str, str], styled: bool) -> None:
    pieces = [SAMPLE[start : start + 5] for start in range(0, len(SAMPLE), 5)]
    call = ToolCall(None, "list_directory", {})
    with (
        simulate([[Thinking(text="Hm **hm**."), "I *look*.", call], pieces]) as model,
        terminal(tmp_path, "run", "go", *at(model, tmp_path), columns=columns, **more) as screen,
    ):
        assert screen.end() == 0
    text = LOOKS.sub("", screen.plain)
    assert max(map(count_columns, text.splitlines())) <= columns
    if styled:
        assert "I look.\n> list_directory()" in text
        assert "• one item that is long enough to be" in text
        assert "\x1b[1mbold" in screen.said
    else:
        assert "I *look*.\n> list_directory()" in text
        assert "- one item that is long enough to be" in text
        assert "\x1b[1mbold" not in screen.said
    for word in ("paragraph", "snake_case", "quotation", "首都。", "__init__"):
        assert word in text


@pytest.mark.slow
def test_text_is_shown_while_it_streams_and_an_interrupted_one_is_whole(tmp_path: Path) -> None:
    turns: list[Any] = [["Some **bold** text,\n\n```python\nx = 1\n", "y = 2 **open", Wait(60.0), "never"]]
    with simulate(turns) as model, terminal(tmp_path, "run", "go", *at(model, tmp_path), columns=80) as screen:
        screen.when(lambda: "x = 1" in LOOKS.sub("", screen.plain))
        assert "Some bold text," in LOOKS.sub("", screen.plain)
        screen.interrupt()
        assert screen.end() == 130
    assert "y = 2 **open" in LOOKS.sub("", screen.plain)


def test_a_pipe_gets_the_markdown_itself(capfd: Any, monkeypatch: Any, tmp_path: Path) -> None:
    with simulate([[SAMPLE]]) as model:
        said = say(capfd, monkeypatch, tmp_path, "run", "go", *at(model, tmp_path))
    assert said.out == f"{SAMPLE}\n"


@pytest.mark.slow
@pytest.mark.parametrize(("more", "styled"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_the_answer_to_one_question_is_styled_too(tmp_path: Path, more: dict[str, str], styled: bool) -> None:
    options = ["--model", "openai/m"]
    with simulate([["# Title\n\nSome **bo", "ld** word"]]) as model:
        arguments = ["ask", "hi there", *options, "--base-url", model.url]
        with terminal(tmp_path, *arguments, columns=60, **more) as screen:
            assert screen.end() == 0
    text = LOOKS.sub("", screen.plain)
    assert ("Title\n\nSome bold word\n" in text) is styled
    assert ("# Title\n\nSome **bold** word\n" in text) is not styled
