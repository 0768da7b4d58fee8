"""`toolwire text`: formats are listed, found, and judged by the published cases."""

import io
from pathlib import Path

import pytest

from toolwire.cli import main

CALL = '[TOOL_CALLS]f[ARGS]{"a": 1}'


def test_formats_are_listed_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["text", "formats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 40
    assert next(line for line in lines if line.startswith("harmony (gpt-oss")).endswith("2026-11-22")


def test_a_format_is_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["text", "check", "--format", "gpt_oss"]) == 0
    assert "cases, 0 parsed differently" in capsys.readouterr().err
    own = tmp_path / "own.toml"
    own.write_text('like = "hermes"\nwrap = ["<call>", "</call>"]\n', "utf-8")
    assert main(["text", "check", "--format", str(own), "--cases", "hermes"]) == 1
    assert ": single: calls: expected" in capsys.readouterr().out
    assert main(["text", "check", "--format", str(own)]) == 2
    assert "there are no cases of" in capsys.readouterr().err


def test_a_format_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["text", "detect", "--model", "Qwen3-Coder"]) == 0
    text = tmp_path / "answer.txt"
    text.write_text(CALL, "utf-8")
    assert main(["text", "detect", str(text)]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("qwen3-coder\nmistral\n", "")
    assert main(["text", "detect", "--model", "llama-4"]) == 1
    assert capsys.readouterr().err == "toolwire: 2 formats fit equally well\n"


@pytest.mark.parametrize(
    ("given", "code", "out", "err"),
    [
        (CALL.encode(), 0, "mistral\n", ""),
        (b"\xef\xbb\xbf" + CALL.encode(), 0, "mistral\n", ""),
        (b"", 1, "", "toolwire: no format fits\n"),
        (b"words \xff", 2, "", "toolwire: standard input: is not UTF-8: invalid start byte at byte 6\n"),
    ],
)
def test_a_text_is_read_from_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: bytes,
    code: int,
    out: str,
    err: str,
) -> None:
    for arguments in ([], ["-"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        assert main(["text", "detect", *arguments]) == code
        said = capsys.readouterr()
        assert (said.out, said.err) == (out, err)


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        (b"\xff", ["detect"], "is not UTF-8: invalid start byte at byte 0"),
        (b"\xff", ["detect", "--template"], "is not UTF-8: invalid start byte at byte 0"),
        (b"{no", ["detect", "--template"], "template is neither Jinja nor JSON"),
        (b"{no", ["detect", "--tools"], "cannot be read: JSON is malformed"),
        (b"[" * 100_000, ["detect", "--tools"], "cannot be read"),
        (b"no = ", ["check", "--format"], "cannot be read: Invalid value"),
        (b"no = 1", ["check", "--format"], "unknown field `no`"),
    ],
)
def test_a_file_that_cannot_be_read_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    content: bytes,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    file = tmp_path / "file.toml"
    file.write_bytes(content)
    assert main(["text", *arguments, str(file)]) == 2
    said = capsys.readouterr()
    assert (said.out, words in said.err, said.err.count("\n")) == ("", True, 1), said.err
