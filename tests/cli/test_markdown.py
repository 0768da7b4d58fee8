"""Markdown on the screen: styles while the text arrives, the same however it is cut, and no word lost."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import at, project, terminal
from tests.cli.test_ask import at as model_at
from toolwire.cli.markdown import Markdown
from toolwire.testing import Pace, simulate
from toolwire.types import Text, ToolCall


def styled(*pieces: str) -> list[tuple[str, str]]:
    """Give the pieces of a text with their styles; neighbours of one style are one."""
    markdown, joined = Markdown(), list[tuple[str, str]]()
    for piece in [*(one for text in pieces for one in markdown.feed(text)), *markdown.close()]:
        if piece[0] and joined and joined[-1][1] == piece[1]:
            joined[-1] = (joined[-1][0] + piece[0], piece[1])
        elif piece[0]:
            joined.append(piece)
    return joined


def cut(text: str, length: int) -> list[str]:
    return [text[index : index + length] for index in range(0, len(text), length)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("# A `b`\nc", [("A ", "heading"), ("b", "code"), ("\nc", "")]),
        ("It is **very warm**.", [("It is ", ""), ("very warm", "strong"), (".", "")]),
        ("- `a`\n- ``b`c``", [("- ", ""), ("a", "code"), ("\n- ", ""), ("b`c", "code")]),
        (
            "```py\nx = 1  # **a**\n```\nb",
            [("```py", "note"), ("\n", ""), ("x = 1  # **a**", "code"), ("\n", ""), ("```", "note"), ("\nb", "")],
        ),
        ("2**3 and 2 ** 3 ** x", [("2**3 and 2 ** 3 ** x", "")]),
        ("f(*args, **kwargs)", [("f(*args, **kwargs)", "")]),
        ("not `closed\nhere`", [("not `closed\nhere`", "")]),
        ("**not\nclosed**", [("**not\nclosed**", "")]),
        (r"\**a**", [(r"\**a**", "")]),
        ("#no heading", [("#no heading", "")]),
        ("| a | b |\n|---|---|", [("| a | b |\n|---|---|", "")]),
        ("", []),
    ],
)
def test_marks_are_styles(text: str, pieces: list[tuple[str, str]]) -> None:
    assert styled(text) == pieces
    for length in range(1, 6):
        assert styled(*cut(text, length)) == pieces


def test_a_thousand_texts_are_the_same_however_they_are_cut() -> None:
    chance = random.Random(7)  # noqa: S311 - the same texts each time
    words = ["**", "*", "`", "``", "```", "\n", "# ", "a", "b ", "2", " ", "_", ".", "\\", "- ", "\r\n", "\u2028"]
    for _ in range(1000):
        text = "".join(chance.choice(words) for _ in range(chance.randint(1, 14)))
        whole = styled(text)
        assert [styled(*cut(text, length)) for length in (1, 2, 3)] == [whole] * 3, text
        plain = "".join(piece for piece, _ in whole)
        assert re.sub(r"[*`# ]", "", plain) == re.sub(r"[*`# ]", "", text)


def test_text_is_shown_while_it_arrives() -> None:
    markdown = Markdown()
    assert list(markdown.feed("It is wa")) == [("It is wa", "")]
    assert "".join(piece for piece, _ in markdown.feed("rm **ve")) == "rm "
    assert ("very", "strong") in list(markdown.feed("ry** so"))
    long = "x" * 500
    assert long in "".join(piece for piece, _ in markdown.feed(f" `{long}"))


ANSWER = "# The *answer*\n\nIt is **very warm** in `Oslo`, 25 degrees.\n\n```python\nprint('**warm**')\n```\nDone."


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 40])
@pytest.mark.parametrize(
    ("more", "marks"), [({}, False), ({"NO_COLOR": "1"}, True), ({"TERM": "dumb"}, True)], ids=["", "no colour", "dumb"]
)
def test_an_answer_has_styles_where_there_are_colours(
    tmp_path: Path, columns: int, more: dict[str, str], marks: bool
) -> None:
    with simulate([[Pace(0.001), Text(text=ANSWER)]]) as model:
        arguments: list[Any] = ["ask", "How is Oslo?", *model_at(model)]
        with terminal(tmp_path, *arguments, columns=columns, **more) as shown:
            assert shown.end() == 0
    text = " ".join(shown.plain.split())
    assert ("**very warm**" in text, "# The *answer*" in text, "`Oslo`" in text) == (marks, marks, marks)
    assert "print('**warm**')" in text, "code stays as it is"
    assert "```python" in text
    assert max(len(line) for line in shown.plain.splitlines()) <= columns
    if not marks:
        assert "\x1b[1mvery\x1b[0m" in shown.said or "\x1b[1mvery warm\x1b[0m" in shown.said
        assert re.search(r"\x1b\[36mOslo\x1b\[0m", shown.said)


@pytest.mark.slow
def test_a_mark_that_never_ends_is_shown_before_a_call(tmp_path: Path) -> None:
    (project(tmp_path) / "a.txt").write_text("x")
    turns: list[Any] = [[Text(text="I look at **all"), ToolCall(None, "list_directory", {})], ["It is `one"]]
    with simulate(turns) as model, terminal(tmp_path, "run", "do it", *at(model, tmp_path)) as shown:
        assert shown.end() == 0
    assert "I look at **all\n> list_directory()" in shown.plain
    assert "It is `one\n" in shown.plain
