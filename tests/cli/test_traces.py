"""`toolwire traces`: what is shown of a record, and that it is as it was written."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from toolwire import traces
from toolwire.cli import main
from toolwire.traces import Trace

ESCAPE = "\x1b]52;c;aGk=\x07"


@pytest.fixture
def url(made: Path, tmp_path: Path) -> str:
    """Give a store with five calls."""
    return f"sqlite:///{shutil.copytree(made, tmp_path / 'store') / 'traces.db'}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the store that each test has a copy of."""
    folder = tmp_path_factory.mktemp("made")
    place = f"sqlite:///{folder / 'traces.db'}"
    with traces.open(place) as store:
        for number, (tool, ending) in enumerate(
            [("read", "ok"), ("bash", "error"), ("read", "ok"), ("bash", "denied"), ("http_get", "ok")]
        ):
            store.record(
                Trace.new(
                    id=f"t{number}",
                    tenant_id="acme" if number < 3 else "other",
                    conversation_id="c",
                    tool_name=tool,
                    arguments={"path": f"a{number}{ESCAPE if number == 4 else ''}"},
                    result="done",
                    result_type="ok" if ending == "ok" else "error",
                    ending=ending,
                    duration_ms=number,
                    iteration=0,
                )
            )
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Run a command, and give its exit code and the lines of its output."""
    code = main(["traces", *arguments])
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ([], [0, 1, 2, 3, 4]),
        (["--tenant", "acme"], [0, 1, 2]),
        (["--tool", "bash"], [1, 3]),
        (["--type", "ok"], [0, 2, 4]),
        (["--ending", "denied"], [3]),
        (["--tenant", "other", "--conversation", "c", "--tool", "bash"], [3]),
        (["--since", "1h"], [0, 1, 2, 3, 4]),
        (["--until", "1h"], []),
        (["--until", "2020-01-01"], []),
        (["--newest", "--limit", "2"], [4, 3]),
        (["--after", "3"], [3, 4]),
    ],
)
def test_calls_are_listed(url: str, filters: list[str], numbers: list[int], capsys: Any) -> None:
    code, lines = said(capsys, "list", "--url", url, "--json", *filters)
    assert code == 0
    assert [json.loads(line)["id"] for line in lines] == [f"t{number}" for number in numbers]
    code, lines = said(capsys, "list", "--url", url, *filters)
    assert len([line for line in lines if not line.startswith("[")]) == len(numbers)


def test_a_list_says_where_it_goes_on(url: str, capsys: Any) -> None:
    assert said(capsys, "list", "--url", url, "--limit", "2")[1][-1] == "[there are more: --after 2]"


def test_nothing_of_a_model_reaches_the_terminal_raw(url: str, capsys: Any) -> None:
    for command in (["list"], ["show", "t4"], ["stats"]):
        _, lines = said(capsys, *command, "--url", url)
        assert lines
        assert not any("\x1b" in line or "\x07" in line for line in lines)


@pytest.mark.parametrize("name", ["t1", "2"])
def test_one_call_is_shown_by_its_id_or_its_position(url: str, name: str, capsys: Any) -> None:
    code, lines = said(capsys, "show", "--url", url, name)
    assert code == 0
    assert any(line.split() == ["tool_name", "bash"] for line in lines)
    assert json.loads(said(capsys, "show", "--url", url, "--json", name)[1][0])["id"] == "t1"
    assert main(["traces", "show", "--url", url, "nobody"]) == 2


@pytest.mark.parametrize("name", ["0", "-1", "\u00b2", "9" * 20, "9" * 5000, "\x1b[31m"])
def test_an_id_of_no_call_is_said(url: str, name: str, capsys: Any) -> None:
    assert main(["traces", "show", "--url", url, name]) == 2
    assert "belongs to no trace" in capsys.readouterr().err


def test_a_changed_row_is_found(url: str, capsys: Any, tmp_path: Path) -> None:
    code, lines = said(capsys, "verify", "--url", url)
    assert (code, lines[0]) == (0, "5 rows, nothing was changed")
    anchor = lines[1].split()[1]
    kept = tmp_path / "anchor"
    kept.write_text(anchor + "\n")
    for given in (anchor, str(kept)):
        assert said(capsys, "verify", "--url", url, "--anchor", given)[0] == 0
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("UPDATE tool_traces SET tool_name = 'write' WHERE position = 2")
    database.close()
    code, lines = said(capsys, "verify", "--url", url)
    assert code == 1
    assert any("2" in line for line in lines)


@pytest.mark.slow
def test_a_chain_is_exported_and_imported_whole(url: str, capsys: Any, tmp_path: Path) -> None:
    file, copy = tmp_path / "rows.jsonl", f"sqlite:///{tmp_path / 'copy.db'}"
    assert main(["traces", "export", "--url", url, str(file)]) == 0
    assert main(["traces", "import", "--url", copy, str(file)]) == 0
    capsys.readouterr()
    assert said(capsys, "verify", "--url", copy) == said(capsys, "verify", "--url", url)
    assert said(capsys, "export", "--url", copy)[1] == file.read_text().splitlines()
    assert main(["traces", "import", "--url", copy, str(file)]) != 0
    forged = tmp_path / "forged.jsonl"
    forged.write_text(file.read_text().replace("bash", "dash"))
    assert main(["traces", "import", "--url", f"sqlite:///{tmp_path / 'third.db'}", str(forged)]) == 2


def test_calls_are_summed_up(url: str, capsys: Any) -> None:
    code, lines = said(capsys, "stats", "--url", url, "--json")
    found = {(row["tool_name"], row["ending"]): row["calls"] for row in map(json.loads, lines)}
    assert (code, found) == (
        0,
        {("read", "ok"): 2, ("bash", "error"): 1, ("bash", "denied"): 1, ("http_get", "ok"): 1},
    )


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: Any) -> None:
    place = tmp_path / "none.db"
    for command in ("list", "verify", "stats", "export"):
        assert main(["traces", command, "--url", f"sqlite:///{place}"]) == 2
    assert "none.db" in capsys.readouterr().err
    assert not place.exists()
