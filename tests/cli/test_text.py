"""`toolwire text`: formats are listed, found, and judged by the published cases."""

from pathlib import Path

import pytest

from toolwire.cli import main


def test_formats_are_listed_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["text", "formats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 40
    assert next(line for line in lines if line.startswith("harmony (gpt-oss")).endswith("2026-11-22")


def test_a_format_is_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["text", "check", "--format", "gpt_oss"]) == 0
    assert "cases, 0 read otherwise" in capsys.readouterr().err
    own = tmp_path / "own.toml"
    own.write_text('like = "hermes"\nwrap = ["<call>", "</call>"]\n', "utf-8")
    assert main(["text", "check", "--format", str(own), "--cases", "hermes"]) == 1
    assert "single: calls: expected" in capsys.readouterr().out


def test_a_format_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["text", "detect", "--model", "Qwen3-Coder"]) == 0
    text = tmp_path / "answer.txt"
    text.write_text('[TOOL_CALLS]f[ARGS]{"a": 1}', "utf-8")
    assert main(["text", "detect", str(text)]) == 0
    assert capsys.readouterr().out == "qwen3-coder\nmistral\n"
    assert main(["text", "detect", "--model", "llama-4"]) == 1
