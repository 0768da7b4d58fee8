"""What a call would do is shown before it is done, and nothing happens by that."""

from pathlib import Path
from typing import Any

import pytest

from tests.timing import within
from toolwire import CodeTools, ToolCall, approved

TEXT = "".join(f"line {number}\n" for number in range(1, 11))


@pytest.fixture
def tools(tmp_path: Path) -> CodeTools:
    (tmp_path / "a.txt").write_text(TEXT)
    return CodeTools(tmp_path)


def shown(tools: CodeTools, name: str, **arguments: Any) -> list[str] | None:
    said = tools.preview(ToolCall("1", name, arguments))
    return None if said is None else said.split("\n")


CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "edit_file",
        {"path": "a.txt", "oldText": "line 5\n", "newText": "LINE 5\nmore\n"},
        [
            "a.txt",
            "  2 line 2",
            "  3 line 3",
            "  4 line 4",
            "- 5 line 5",
            "+ 5 LINE 5",
            "+ 6 more",
            "  7 line 6",
        ],
    ),
    (
        "multi_edit",
        {
            "edits": [
                {"path": "a.txt", "oldText": "line 1\n", "newText": ""},
                {"path": "./a.txt", "oldText": "line 10", "newText": "end"},
            ]
        },
        [
            "a.txt",
            "- 1 line 1",
            "  1 line 2",
            "  2 line 3",
            "  3 line 4",
            "  ...",
            "   6 line 7",
            "   7 line 8",
        ],
    ),
    ("edit_file", {"path": "a.txt", "old_text": "line 10", "new_text": "x"}, ["a.txt", "   7 line 7"]),
    ("write_file", {"path": "new/b.txt", "content": "one\ntwo"}, ["new/b.txt (a new file)", "+ 1 one"]),
    ("write_file", {"path": "a.txt", "content": TEXT}, ["a.txt (nothing changes)"]),
    (
        "append_to_file",
        {"path": "a.txt", "content": "end"},
        ["a.txt", "   8 line 8", "   9 line 9", "  10 line 10"],
    ),
    ("bash", {"command": "rm x\nls", "timeout": 5}, ["$ rm x", "ls", "(for at most 5 s)"]),
    ("http_get", {"url": "http://x/", "raw": True}, ["GET http://x/", "raw: true"]),
    (
        "edit_file",
        {"path": "a.txt", "oldText": "no", "newText": ""},
        ["it would be refused: a.txt: oldText is not"],
    ),
    (
        "edit_file",
        {"path": "none", "oldText": "no", "newText": ""},
        ["it would be refused: none: there is no such"],
    ),
    (
        "write_file",
        {"path": "../x", "content": ""},
        ["it would be refused: ../x: it leads out of the project"],
    ),
    (
        "write_file",
        {"path": "a.txt", "content": "", "overwrite": False},
        ["it would be refused: a.txt: it exists a"],
    ),
    ("multi_edit", {"edits": [{"oldText": "a", "newText": ""}]}, ["it would be refused: edit 1 has no path"]),
    ("bash", {}, ["it would be refused: missing required field: command"]),
]


@pytest.mark.parametrize(("name", "arguments", "first"), CASES)
def test_what_a_call_would_do_is_shown(
    tools: CodeTools, tmp_path: Path, name: str, arguments: dict[str, Any], first: list[str]
) -> None:
    lines = shown(tools, name, **arguments)
    assert lines is not None
    assert len(lines) >= len(first)
    assert [line[: len(start)] for line, start in zip(lines, first, strict=False)] == first
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": TEXT}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_file", {"content": "x"}),
        ("append_to_file", {"content": "x"}),
        ("edit_file", {"oldText": "line 3", "newText": "x"}),
        ("multi_edit", {"edits": [{"oldText": "line 3", "newText": "x"}]}),
    ],
)
@pytest.mark.parametrize("state", ["read-only", "changed", "large", "binary"])
def test_a_preview_refuses_what_the_tool_refuses(
    tools: CodeTools, tmp_path: Path, name: str, arguments: dict[str, Any], state: str
) -> None:
    file = tmp_path / "a.txt"
    if state == "changed":
        assert not tools.resolve(ToolCall("1", "read_file", {"path": "a.txt"})).is_error
        file.write_text(TEXT + "more\n")
    elif state == "large":
        file.write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    elif state == "binary":
        file.write_bytes(b"line 3\0")
    else:
        file.chmod(0o444)
    call = ToolCall("2", name, {"path": "a.txt", **arguments})
    before = file.read_bytes()
    told = tools.preview(call)
    assert told is not None
    assert file.read_bytes() == before
    result = tools.resolve(call)
    refused = told.removeprefix("it would be refused: ")
    assert result.is_error == (told != refused)
    if result.is_error:
        assert refused in str(result.content)


def test_a_file_that_is_too_large_to_compare_is_replaced_with_a_word(tools: CodeTools, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * (12 * 1024 * 1024))
    assert shown(tools, "write_file", path="a.txt", content="y\n") == [
        "a.txt (in place of a file of 12 MB, which is too large to compare)",
        "+ 1 y",
    ]


def test_what_only_reads_has_no_preview(tools: CodeTools) -> None:
    assert shown(tools, "read_file", path="a.txt") is None
    assert shown(tools, "nobody") is None


def test_a_preview_is_what_is_done(tools: CodeTools, tmp_path: Path) -> None:
    call = ToolCall("1", "edit_file", {"path": "a.txt", "oldText": "line 3", "newText": "three"})
    asked: list[str] = []

    def ask(_call: ToolCall, preview: str) -> bool:
        asked.append(preview)
        return True

    assert not approved(tools, ask).resolve(call).is_error
    assert "+ 3 three" in asked[0]
    assert "three\n" in (tmp_path / "a.txt").read_text()


@pytest.mark.row("R002-88")
def test_the_preview_is_of_the_folder_that_was_bound(tools: CodeTools, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    call = ToolCall("1", "append_to_file", {"path": "a.txt", "content": "x\n"})
    assert tools.at(tmp_path / "b").preview(call) == "a.txt (a new file)\n+ 1 x"
    assert tools.preview(call, str(tmp_path / "b")) == tools.preview(call), "a context is no folder"
    assert tools.preview(call) != "a.txt (a new file)\n+ 1 x"


def test_what_is_large_is_shown_fast(tools: CodeTools, tmp_path: Path) -> None:
    """Lines that are all alike, or all different, cost no more than their number."""
    lines = 50_000
    (tmp_path / "large").write_text("same\n" * lines)
    with within(2):
        assert shown(tools, "write_file", path="large", content="other\n" * lines)[1] == "-     1 same"  # type: ignore[index]
        assert shown(tools, "append_to_file", path="large", content="end\n")[-1] == f"+ {lines + 1} end"  # type: ignore[index]
