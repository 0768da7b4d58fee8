"""A database whose files were overwritten: each start says which one it is, and what can be done."""

import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from toolwire import runs, traces
from toolwire.cli import main
from toolwire.errors import InvalidField, StoreFailed
from toolwire.gateway import starting
from toolwire.gateway.keys import mint

PAGE = 4096


def _summed(data: bytes, sums: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Go on with the checksum of a WAL: https://www.sqlite.org/fileformat2.html, 4.2 (2026-11-27)."""
    first, second = sums
    for at in range(0, len(data), 8):
        one, other = struct.unpack(">II", data[at : at + 8])
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


def overwrite_wal(path: Path) -> None:
    """Put a whole WAL beside a database whose only page is none of a database."""
    head, page = struct.pack(">6I", 0x377F0683, 3007000, PAGE, 0, 1, 2), b"no page of a database".ljust(PAGE, b".")
    sums = _summed(head)
    wal = head + struct.pack(">2I", *sums)
    frame = struct.pack(">2I", 1, 1)
    sums = _summed(page, _summed(frame, sums))
    Path(f"{path}-wal").write_bytes(wal + frame + struct.pack(">4I", 1, 2, *sums) + page)
    Path(f"{path}-shm").unlink(missing_ok=True)


def overwrite_all(path: Path) -> None:
    """Overwrite the database itself."""
    path.write_bytes(b"no database " * PAGE)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def told(path: Path) -> str:
    return f"{path} is damaged, or is no SQLite database (file is not a database). Restore it from a backup."


DAMAGES = [overwrite_wal, overwrite_all]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_of_traces_is_named(damage: Callable[[Path], None], tmp_path: Path, capsys: object) -> None:
    path = tmp_path / "traces.db"
    traces.open(f"sqlite:///{path}").close()
    damage(path)
    with pytest.raises(StoreFailed) as failed:
        traces.open(f"sqlite:///{path}")
    assert told(path) in str(failed.value)
    settings = tmp_path / "toolwire.toml"
    settings.write_text(f'[traces]\nurl = "sqlite:///{path}"\n')
    for words in (["traces", "list", "--url", f"sqlite:///{path}"], ["serve", "--config", str(settings)]):
        assert main(words) == 2
        assert told(path) in capsys.readouterr().err  # type: ignore[attr-defined]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_of_keys_is_named(damage: Callable[[Path], None], tmp_path: Path, capsys: object) -> None:
    settings, path = tmp_path / "toolwire.toml", tmp_path / "keys.db"
    settings.write_text('[server]\ndatabase = "sqlite:///keys.db"\n')
    ledger = starting.ledger_of(starting.settings_from(str(settings)), str(settings))
    ledger.add(mint("ci", [], [], 0.0, None)[1])
    ledger.close()
    damage(path)
    with pytest.raises(InvalidField) as failed:
        starting.ledger_of(starting.settings_from(str(settings)), str(settings))
    assert told(path) in str(failed.value)
    for words in (["keys", "list"], ["serve"]):
        assert main([*words, "--config", str(settings)]) == 2
        assert told(path) in capsys.readouterr().err  # type: ignore[attr-defined]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_of_runs_is_named(damage: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE one (id)")
    made.close()
    damage(path)
    with pytest.raises(StoreFailed) as failed:
        runs.Runs(f"sqlite:///{path}")
    assert told(path) in str(failed.value)
