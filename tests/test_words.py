"""The report on words finds each kind of finding, and none in plain sentences."""

from pathlib import Path

import pytest

from scripts import words

PROSE: tuple[tuple[str, list[str]], ...] = (
    ("Give the request.", ["verb"]),
    ("Return what the client gave.", []),
    ("Return the id. What nobody holds is lost.", ["subject"]),
    ("- One that asks is first.", []),
    ("The list:\n- One that asks is first.", ["subject"]),
    ("What is a wire? It is a format.", []),
    ("Release the lease: whoever waits gets it. Whoever waits gets it.", ["subject"]),
    ("The gateway hands on the request.", ["phrase"]),
    ("The gateway lets\ngo of the lease.", ["phrase"]),
    ("The id `is none`, and `says` is a name.", []),
    ("The gateway sends the request to the next provider.", []),
)
LONG = """
class Call:
    kind: str

    def read(self, {name}):
        first = {name}
        second = first
        return second
"""


@pytest.mark.parametrize(("text", "kinds"), PROSE)
def test_prose(text: str, kinds: list[str]) -> None:
    assert [finding.kind for finding in words.find_in_prose(text, 1, docstring=True)] == kinds


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        (LONG.format(name="mine"), [(5, "name", "mine")]),
        (LONG.format(name="given"), []),
        (LONG.format(name="request"), []),
        ("def read(mine):\n    return mine\n", []),
        ("made = 1\n", [(1, "name", "made")]),
        ("x = 1  # it is told the client\n", [(1, "phrase", "told")]),
        ('def f():\n    """Give it."""\n', [(2, "verb", "Give")]),
    ],
)
def test_a_module(text: str, findings: list[tuple[int, str, str]]) -> None:
    assert list(words.find_in_module(text)) == findings


def test_a_page_is_read_outside_of_its_code() -> None:
    page = "# Title\n\n```python\nsays = 1  # it says\n```\n\nThe wire says so.\n"
    assert list(words.find_in_page(page)) == [(7, "phrase", "says")]


@pytest.mark.parametrize(("findings", "code"), [(words.LIMIT, 0), (words.LIMIT + 1, 1)])
def test_it_fails_for_a_file_above_the_limit_alone(
    findings: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("The wire says so.\n" * findings)
    (tmp_path / "other.md").write_text("The wire says so.\n")
    assert words.main([str(tmp_path)]) == code
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].split()[:2] == ["1", str(tmp_path / "other.md")]
    assert printed[-2].split()[:2] == [str(findings), str(page)]
    assert f"{page}:1: phrase: says" in printed


def test_the_report_of_the_project_shows_ten_files(capsys: pytest.CaptureFixture[str]) -> None:
    words.main([])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(words.RULES) + 1 + words.WORST
    assert "decisions" not in "".join(printed)
