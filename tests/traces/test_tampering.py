"""Whoever owns the database and changes it behind the guards is found out."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from tests.traces.making import change, engine_of, made, record
from tests.traces.mutations import copied
from toolwire import traces
from toolwire.traces import Verification
from toolwire.traces.chain import digester, next_ledger, row_hash
from toolwire.traces.tables import create_guards as create
from toolwire.traces.tables import table

ROWS = 12
ALL = "SELECT * FROM tool_traces ORDER BY position"
GUARDS = {
    "sqlite": [f"DROP TRIGGER tool_traces_{name}" for name in ("no_update", "no_delete", "next")],
    "postgresql": [f"DROP FUNCTION tool_traces_{name}() CASCADE" for name in ("refuse", "next")],
}


def swapped(*columns: str) -> str:
    """Write an update that swaps columns of the rows 4 and 7, of one conversation."""
    other = "(SELECT {} FROM tool_traces o WHERE o.position = 11 - tool_traces.position)"
    values = ", ".join(f"{name} = {other.format(name)}" for name in columns)
    return f"UPDATE tool_traces SET {values} WHERE position IN (4, 7)"


def moved(first: int, step: int) -> list[str]:
    """Write updates that give the rows from one on other positions."""
    return [
        f"UPDATE tool_traces SET position = -position WHERE position >= {first}",
        f"UPDATE tool_traces SET position = {step} - position WHERE position < 0",
    ]


def set_to(column: str, value: str, where: str = "position = 5") -> list[str]:
    return [f"UPDATE tool_traces SET {column} = {value} WHERE {where}"]


CONTENT = ("arguments", "result", "duration_ms", "iteration", "id", "started_at")
CHANGES: dict[str, list[str]] = {
    "a result": set_to("result", '\'{"content":"nothing"}\''),
    "arguments": set_to("arguments", "'{}'"),
    "an error that became fine": set_to("result_type", "'error'"),
    "an ending": set_to("ending", "'denied'"),
    "JSON with a space more": set_to("arguments", "arguments || ' '"),
    "a duration, by little": set_to("duration_ms", "12.500000000000002"),
    "NULL to nothing": set_to("model", "''"),
    "the time of the call": set_to("started_at", "started_at - 1"),
    "the time of recording": set_to("inserted_at", "inserted_at + 1"),
    "an id": set_to("id", "'x'"),
    "the last row": set_to("result", "'{}'", f"position = {ROWS}"),
    "another form of a letter": set_to("tool_name", "'wéather'"),
    "a hash": set_to("hash", "'" + "0" * 64 + "'"),
    "a previous hash": set_to("previous", "'" + "1" * 64 + "'"),
    "a ledger": set_to("ledger", "'" + "2" * 64 + "'"),
    "a sequence": set_to("sequence", "9"),
    "another conversation": set_to("conversation_id", "'other'"),
    "another tenant": set_to("tenant_id", "'other'"),
    "a row removed": ["DELETE FROM tool_traces WHERE position = 5"],
    "the first row removed": ["DELETE FROM tool_traces WHERE position = 1"],
    "a row removed and the others moved up": ["DELETE FROM tool_traces WHERE position = 5", *moved(6, -1)],
    "a conversation removed": ["DELETE FROM tool_traces WHERE conversation_id = 'talk 1'"],
    "two rows that swap their contents": [
        set_to("id", "'x'", "position = 1")[0],
        swapped("result", "iteration"),
    ],
    "two rows that swap all but their places": [swapped("sequence", "previous", "hash", "ledger")],
    "a row that is there twice": [
        copied(position=ROWS + 1, id="'x'"),
    ],
    "a row put in between": [
        *moved(6, 1),
        copied(position=6, id="'x'"),
    ],
    "a row at the end": [copied(position=ROWS + 1, id="'x'", sequence=5, previous="hash")],
    "a row far away": [copied(position=1000, id="'x'", conversation_id="'new'", sequence=1)],
    "all hashes gone": ["UPDATE tool_traces SET hash = '', previous = '', ledger = ''"],
}
SQLITE = {
    "bytes that are no text": set_to("result", "CAST(X'FF00FE' AS TEXT)"),
    "text as bytes": set_to("result", "CAST(result AS BLOB)"),
    "a number as text": set_to("sequence", "'x'"),
    "text as a number": set_to("tool_name", "5.5"),
    "the position of a row": set_to("position", "-7"),
}
# What only the anchor or the key shows.
SHORTENED = {
    "the tail removed": [f"DELETE FROM tool_traces WHERE position > {ROWS - 2}"],
    "the last row removed": [f"DELETE FROM tool_traces WHERE position = {ROWS}"],
    "all removed": ["DELETE FROM tool_traces"],
}


@pytest.fixture
def owned(store_url: str) -> tuple[Engine, str]:
    """Give a database with traces and no guards, and its anchor."""
    with traces.open(store_url) as store:
        record(store, ROWS)
        anchor = store.anchor()
    engine = engine_of(store_url)
    change(store_url, *GUARDS[engine.dialect.name])
    assert anchor is not None
    return engine, anchor


def rows_in(connection: Connection) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(table().select().order_by(table().c.position)).mappings()]


def after(connection: Connection, change: Callable[[Connection], None], anchor: str | None = None) -> Verification:
    """Change, verify, and take the change back."""
    if connection.dialect.name == "sqlite":
        raw: Any = connection.connection.driver_connection
        raw.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    change(connection)
    found = traces.verify(rows_in(connection), anchor)
    connection.rollback()
    return found


def done(statements: list[str]) -> Callable[[Connection], None]:
    def change(connection: Connection) -> None:
        touched = [connection.execute(text(one.replace(":", r"\:"))).rowcount for one in statements]
        assert min(touched) > 0, "nothing was changed"

    return change


@pytest.mark.row("T3")
def test_what_was_changed_offline_is_found(owned: tuple[Engine, str], tally: Counter[str]) -> None:
    engine, anchor = owned
    changes = {**CHANGES, **(SQLITE if engine.dialect.name == "sqlite" else {})}
    with engine.connect() as connection:
        found = {name: after(connection, done(changes[name])) for name in changes}
        assert [name for name, verified in found.items() if verified.ok] == []
        assert after(connection, lambda _: None, anchor) == Verification((), 0, ROWS, anchor)
        shortened = {name: after(connection, done(SHORTENED[name])) for name in SHORTENED}
        assert [name for name, verified in shortened.items() if not verified.ok] == []
        anchored = {name: after(connection, done(SHORTENED[name]), anchor) for name in SHORTENED}
        assert {verified.problems[-1].kind for verified in anchored.values()} == {"truncated"}
    assert len(changes) >= 12
    tally[f"kinds of tampering found in {engine.dialect.name}"] += len(changes) + len(SHORTENED)


def recomputed(rows: list[dict[str, Any]], key: str | None = None) -> list[dict[str, Any]]:
    """Forge: compute all sequences and hashes anew."""
    digest, ends, ledger, made_new = digester(key), dict[Any, Any](), "0" * 64, []
    for position, row in enumerate(rows, 1):
        chain = (row["tenant_id"], row["conversation_id"])
        sequence, previous = ends.get(chain, (0, "0" * 64))
        new = {**row, "position": position, "sequence": sequence + 1, "previous": previous}
        new["hash"] = row_hash(new, previous, digest)
        new["ledger"] = ledger = next_ledger(ledger, new["hash"], digest)
        ends[chain] = (sequence + 1, new["hash"])
        made_new.append(new)
    return made_new


@pytest.mark.row("T3")
def test_a_chain_computed_anew_is_found_by_an_anchor_or_a_key(owned: tuple[Engine, str]) -> None:
    engine, anchor = owned
    with engine.connect() as connection:
        rows = rows_in(connection)
    assert recomputed(rows) == rows
    forged = [{**row, "result": "{}"} if row["position"] == 5 else row for row in rows]
    for chain in (recomputed(forged), recomputed(rows[:4] + rows[5:]), recomputed(rows[:1] + rows)):
        assert traces.verify(chain).ok
        assert not traces.verify(chain, anchor).ok
    keyed = recomputed(rows, "secret")
    assert traces.verify(keyed, key="secret").ok
    assert not traces.verify(recomputed(forged), key="secret").ok
    assert not traces.verify(keyed).ok


@pytest.mark.row("T3")
def test_the_hash_of_one_row_is_not_enough(owned: tuple[Engine, str]) -> None:
    engine, _ = owned
    with engine.connect() as connection:
        rows = rows_in(connection)
    digest = digester()
    forged = {**rows[4], "result": "{}"}
    forged["hash"] = row_hash(forged, forged["previous"], digest)
    found = traces.verify([*rows[:4], forged, *rows[5:]])
    assert {(problem.position, problem.kind) for problem in found.problems} == {(5, "ledger"), (8, "link")}
    forged["ledger"] = next_ledger(rows[3]["ledger"], forged["hash"], digest)
    found = traces.verify([*rows[:4], forged, *rows[5:]])
    assert {(problem.position, problem.kind) for problem in found.problems} == {(6, "ledger"), (8, "link")}


@pytest.mark.row("T3")
def test_verify_of_a_store_names_the_row(store_url: str) -> None:
    with traces.open(store_url) as store:
        record(store, ROWS)
        engine = engine_of(store_url)
        change(store_url, *GUARDS[engine.dialect.name], "UPDATE tool_traces SET result = '{}' WHERE position = 5")
        with engine.begin() as connection:
            create(connection, table(schemas=engine.dialect.name == "postgresql"))
        found = store.verify()
        assert [(problem.position, problem.kind) for problem in found.problems] == [(5, "changed")]
        assert str(found.problems[0]).startswith("5: the row was changed after it was written")
        assert found.rows == ROWS


@pytest.mark.row("T3")
def test_a_restored_copy_is_found_by_an_anchor(tmp_path: Path) -> None:
    path, copy = tmp_path / "traces.db", tmp_path / "copy.db"
    with traces.open(f"sqlite:///{path}") as store:
        record(store, 4)
    shutil.copy(path, copy)
    with traces.open(f"sqlite:///{path}") as store:
        record(store, 4)
        anchor = store.anchor()
    shutil.copy(copy, path)
    with traces.open(f"sqlite:///{path}") as store:
        assert store.verify().ok
        assert [problem.kind for problem in store.verify(anchor).problems] == ["truncated"]
        record(store, 8)
        assert [problem.kind for problem in store.verify(anchor).problems] == ["anchor"]


@pytest.mark.parametrize("rows", [0, 1, 4, 9])
@pytest.mark.row("T3")
def test_a_store_begun_anew_is_found_by_an_anchor(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "traces.db"
    with traces.open(f"sqlite:///{path}") as store:
        record(store, 4)
        anchor = store.anchor()
    path.unlink()
    with traces.open(f"sqlite:///{path}") as store:
        record(store, rows)
        assert store.verify().ok
        assert [problem.kind for problem in store.verify(anchor).problems] == ["truncated" if rows < 4 else "anchor"]


@pytest.mark.row("T3")
def test_a_broken_file_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    with traces.open(f"sqlite:///{path}") as store:
        record(store, 300)
    data = bytearray(path.read_bytes())
    noise = hashlib.sha512(b"noise").digest() * 64
    data[4096 * 10 : 4096 * 30] = noise * 20
    path.write_bytes(data)
    with traces.open(f"sqlite:///{path}", create=False) as store:
        assert not store.verify().ok


@pytest.mark.parametrize("how", ["reversed", "two swapped", "one twice", "one missing", "one inserted"])
@pytest.mark.row("T3")
def test_lines_in_another_order_are_found(store: Any, how: str) -> None:
    record(store, 6)
    rows = [*store.rows()]
    ways = {
        "reversed": rows[::-1],
        "two swapped": [rows[0], rows[2], rows[1], *rows[3:]],
        "one twice": [*rows[:3], rows[2], *rows[3:]],
        "one missing": rows[:3] + rows[4:],
        "one inserted": [*rows[:3], {**rows[2], "id": "x"}, *rows[3:]],
    }
    assert traces.verify(rows).ok
    assert not traces.verify(ways[how]).ok


@pytest.mark.row("T15")
def test_order_is_by_sequence_not_by_time(store: Any) -> None:
    instant = made().started_at
    for index in range(5):
        store.record(made(iteration=index, started_at=instant.replace(year=2030 - index)))
    store.flush()
    assert [row.iteration for row in store.traces().rows] == [0, 1, 2, 3, 4]
    assert store.verify().ok
