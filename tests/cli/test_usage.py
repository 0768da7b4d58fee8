"""`toolwire usage`: tables for people, JSON and CSV for programs, and what is wrong with a question."""

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_usage_ledger import row
from toolwire.cli import main
from toolwire.gateway.usage_queries import DAY
from toolwire.gateway.usage_tables import UsageTables

SUMS = {"requests", "input_tokens", "output_tokens", "cached_tokens", "cost"}


@pytest.fixture
def file(tmp_path: Path) -> str:
    settings = tmp_path / "toolwire.toml"
    settings.write_text('[server]\ndatabase = "sqlite:///usage.db"\n')
    now = time.time()
    tables = UsageTables(f"sqlite:///{tmp_path / 'usage.db'}")
    tables.write(
        [
            *(row(n, now, cost_nano=2_000_000) for n in range(3)),
            row(10, now - DAY, key_name="Ben \N{SNOWMAN}", team="", user_name="ben", cost_nano=5_000_000_000),
            row(11, now - DAY, provider="claude", model="claude/opus", wire="anthropic", cached_tokens=1234567),
            row(12, now - 3 * DAY, provider="", model="", status=429, ending="error", input_tokens=0, cost_nano=0),
        ]
    )
    tables.close()
    return str(settings)


def usage(file: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Run the command."""
    capsys.readouterr()
    assert main(["usage", "--config", file, *options]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def rows(file: str, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    """Run the command for a program."""
    listed: list[dict[str, Any]] = json.loads(usage(file, capsys, "--json", *options))
    assert isinstance(listed, list)
    return listed


def test_a_table_has_the_largest_cost_first_and_the_totals_last(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = usage(file, capsys).splitlines()
    assert lines[0].split("  ")[0] == "key"
    assert [line.split()[0] for line in lines[1:]] == ["Ben", "ci", "ci", "ci", "total"]
    assert [line.split()[-1] for line in lines] == [
        "cost", "$5.000000", "$0.006000", "$0.000001", "$0.000000", "$5.006001",
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1, "the columns stand below each other"
    assert "1,234,567" in lines[3]
    assert lines[4].split()[1] == "-", "a request that was refused has no model"


def test_json_has_the_columns_that_are_asked_for(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = rows(file, capsys, "--by", "key,model")
    assert {*listed[0]} == {"key", "model"} | SUMS
    assert listed[1] == {
        "key": "ci", "model": "local/m", "requests": 3,
        "input_tokens": 33, "output_tokens": 21, "cached_tokens": 9, "cost": 0.006,
    }  # fmt: skip
    assert [one["requests"] for one in rows(file, capsys, "--by", "day")] == [1, 2, 3], "days are in order"
    assert {one["team"] for one in rows(file, capsys, "--by", "team")} == {"core", ""}
    assert {one["user"] for one in rows(file, capsys, "--by", "user")} == {"ann", "ben"}
    assert {one["provider"] for one in rows(file, capsys, "--by", "provider")} == {"local", "claude", ""}
    assert {one["wire"] for one in rows(file, capsys, "--by", "wire")} == {"openai-chat", "anthropic"}


def test_rows_are_chosen_by_time_and_by_value(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    def requests(*options: str) -> int:
        return sum(one["requests"] for one in rows(file, capsys, *options))

    assert requests() == 6
    assert requests("--since", "1d") == 5
    assert requests("--since", "2d", "--until", "1d") == 2
    assert requests("--since", "1h") == 3
    assert requests("--until", "36h") == 1
    assert requests("--key", "ci") == 5
    assert requests("--key", "ci", "--key", "Ben \N{SNOWMAN}") == 6
    assert requests("--key", "abcdefgh") == 6, "the id of the key"
    assert requests("--provider", "local", "--user", "ann") == 3
    assert requests("--model", "claude/opus", "--team", "core", "--wire", "anthropic") == 1
    assert requests("--key", "nobody") == 0


def test_csv_is_read_by_other_programs(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    read = list(csv.DictReader(io.StringIO(usage(file, capsys, "--csv", "--by", "key,day", "--since", "1d"))))
    assert {*read[0]} == {"key", "day"} | SUMS
    assert [one["cost"] for one in read] == ["5.000000000", "0.000001000", "0.006000000"]


def test_nobody_has_asked_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "toolwire.toml"
    settings.write_text('[server]\ndatabase = "sqlite:///new.db"\n')
    assert rows(str(settings), capsys) == []
    assert usage(str(settings), capsys).splitlines()[-1].split() == ["total", "0", "0", "0", "0", "$0.000000"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--by", "kee"], "by 'kee' is not a column of usage; did you mean key?"),
        (["--since", "monday"], "since must be a time such as 7d, 12h, 2026-11"),
        (["--since", "1d", "--until", "3d"], "until '3d' is not after since, '1d'"),
        (["--since", "2001-01-01T05:00"], "name a whole day, such as 2001-01-01"),
    ],
)
def test_what_is_wrong_is_told(file: str, options: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "--config", file, *options]) == 2
    assert error in capsys.readouterr().err


def test_without_a_database_the_command_tells_where_usage_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "toolwire.toml"
    settings.write_text("")
    assert main(["usage", "--config", str(settings)]) == 2
    assert "GET /toolwire/usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[usage]\nkeep = "long"', "usage.keep must be a time such as 30s, 15m, 24h or 7d"),
        ('[usage]\nkeep = "0d"', "usage.keep must be longer than nothing"),
        ("[usage]\nkept = 1", "usage.kept is not a setting; did you mean keep?"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, text: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "toolwire.toml"
    settings.write_text(f'[server]\ndatabase = "sqlite:///new.db"\n{text}\n')
    assert main(["usage", "--config", str(settings)]) == 2
    assert error in capsys.readouterr().err
