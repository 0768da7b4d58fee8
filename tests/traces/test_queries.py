"""What a store is asked: filters, pages that stay put, sums; nothing that is asked becomes a statement."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.amounts import FULL
from tests.traces.making import change, made, record
from toolwire import traces
from toolwire.errors import InvalidField
from toolwire.traces.store import Store
from toolwire.traces.tables import table
from toolwire.traces.trace import LARGEST

START = datetime(2026, 5, 1, tzinfo=UTC)
ROWS: tuple[dict[str, Any], ...] = (
    {"tenant_id": "a", "conversation_id": "x", "tool_name": "read"},
    {
        "tenant_id": "a",
        "conversation_id": "y",
        "tool_name": "write",
        "result_type": "error",
        "ending": "denied",
    },
    {"tenant_id": "b", "conversation_id": "x", "tool_name": "read", "duration_ms": 2.5},
    {"tenant_id": "b", "conversation_id": "z", "tool_name": "read", "result_type": "error"},
    {"tenant_id": "", "conversation_id": "", "tool_name": "", "ending": "timed_out", "result_type": "error"},
)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Give a store with a trace a minute."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('filled') / 'traces.db'}"
    else:
        url = request.getfixturevalue("postgres").create().url
    with traces.open(url) as store:
        for index, fields in enumerate(ROWS):
            store.record(made(**fields, started_at=START + timedelta(minutes=index)))
        store.flush()
        yield store


@pytest.mark.parametrize(
    ("filters", "positions"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"tenant": "a"}, [1, 2]),
        ({"conversation": "x"}, [1, 3]),
        ({"tenant": "b", "conversation": "x"}, [3]),
        ({"tenant": ""}, [5]),
        ({"tool": "read"}, [1, 3, 4]),
        ({"tool": ""}, [5]),
        ({"result_type": "error"}, [2, 4, 5]),
        ({"ending": "denied"}, [2]),
        ({"since": START + timedelta(minutes=2)}, [3, 4, 5]),
        ({"until": START + timedelta(minutes=2)}, [1, 2]),
        ({"since": START + timedelta(minutes=1), "until": START + timedelta(minutes=3)}, [2, 3]),
        ({"tool": "read", "result_type": "ok", "tenant": None}, [1, 3]),
        ({"after": 3}, [4, 5]),
        ({"after": 4, "newest": True}, [3, 2, 1]),
        ({"newest": True}, [5, 4, 3, 2, 1]),
        ({"tenant": "nobody"}, []),
    ],
)
def test_filters(filled: Store, filters: dict[str, Any], positions: list[int]) -> None:
    assert [row.position for row in filled.traces(**filters).rows] == positions
    if not filters.keys() & {"after", "newest"}:
        assert filled.count(**filters) == len(positions)
        assert sum(one.calls for one in filled.stats(**filters)) == len(positions)
        assert [row["position"] for row in filled.rows(**filters)] == positions


def test_stats_are_sums_by_tool_and_ending(filled: Store) -> None:
    found = {(one.tool_name, one.ending): one for one in filled.stats()}
    assert found["read", "ok"] == traces.Stats("read", "ok", "ok", 2, 7.5, 12.5)
    assert sorted(found) == [("", "timed_out"), ("read", "error"), ("read", "ok"), ("write", "denied")]


@pytest.mark.parametrize(
    ("asked_for", "words"),
    [
        ({"limit": 0}, "limit must be a whole number, 1 to 10000"),
        ({"limit": 10_001}, "limit must be"),
        ({"limit": True}, "limit must be"),
        ({"after": -1}, "after must be"),
        ({"after": LARGEST + 1}, "after must be"),
        ({"after": "1"}, "after must be"),
        ({"tenant": 5}, "tenant must be a string"),
        ({"since": datetime(2026, 1, 1)}, "since must be a datetime with a time zone"),  # noqa: DTZ001
        ({"until": "today"}, "until must be a datetime"),
        (
            {"colour": "red"},
            "colour is not a filter of traces; there are: tenant, conversation, tool, result_type, ending, ",
        ),
        ({"type": "error"}, "type is not a filter .*; did you mean result_type?"),
    ],
)
def test_what_cannot_be_asked_is_said(filled: Store, asked_for: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        filled.traces(**asked_for)


INJECTED = (
    "'; DROP TABLE tool_traces; --",
    "' OR '1'='1",
    '" OR ""="',
    "x' UNION SELECT 1,2,3 --",
    "1; DELETE FROM tool_traces",
    "%' AND 1=0 --",
    "\\'; TRUNCATE tool_traces; --",
    "$$; DROP SCHEMA public CASCADE; $$",
    ":position",
    "%(id)s",
    "?",
    "{0}",
    "\x00",
    "\ud800",
    "'; SELECT pg_sleep(10); --",
    "/*",
    "load_extension('x')",
)


@pytest.mark.row("T13")
def test_nothing_that_is_given_becomes_a_statement(store: Store) -> None:
    fields = (
        "tenant_id",
        "conversation_id",
        "tool_name",
        "id",
        "call_id",
        "model",
        "approval",
        "repair",
        "session",
    )
    for index, words in enumerate(INJECTED):
        store.record(made(**dict.fromkeys(fields, words) | {"id": f"{words}{index}", "arguments": {words: words}}))
    store.flush()
    for index, words in enumerate(INJECTED):
        for name in ("tenant", "conversation", "tool"):
            filters: dict[str, Any] = {name: words}
            assert [row.position for row in store.traces(**filters).rows] == [index + 1]
        for name in ("result_type", "ending"):
            asked_for: dict[str, Any] = {name: words}
            with pytest.raises(InvalidField, match="must be one of"):
                store.traces(**asked_for)
        found = store.get(f"{words}{index}")
        assert found is not None
        assert (found.model, found.arguments) == (words, {words: words})
    assert store.count() == len(INJECTED)
    assert store.verify().ok


def pages(store: Store, limit: int, *, newest: bool = False) -> Iterator[list[int | None]]:
    after = None
    while True:
        page = store.traces(limit=limit, after=after, newest=newest)
        yield [row.position for row in page.rows]
        if page.next is None:
            return
        after = page.next


# The rows of each page of five; a page that has exactly the last row has no next page.
PAGES: list[tuple[int, list[list[int]], list[list[int]]]] = [
    (1, [[1], [2], [3], [4], [5]], [[5], [4], [3], [2], [1]]),
    (2, [[1, 2], [3, 4], [5]], [[5, 4], [3, 2], [1]]),
    (4, [[1, 2, 3, 4], [5]], [[5, 4, 3, 2], [1]]),
    (5, [[1, 2, 3, 4, 5]], [[5, 4, 3, 2, 1]]),
    (6, [[1, 2, 3, 4, 5]], [[5, 4, 3, 2, 1]]),
    (10_000, [[1, 2, 3, 4, 5]], [[5, 4, 3, 2, 1]]),
]


@pytest.mark.parametrize(("limit", "oldest", "newest"), PAGES)
def test_pages_have_every_row_once(filled: Store, limit: int, oldest: list[list[int]], newest: list[list[int]]) -> None:
    assert list(pages(filled, limit)) == oldest
    assert list(pages(filled, limit, newest=True)) == newest


# Three traces are of this tool, at 1, 3 and 4.
@pytest.mark.parametrize(
    ("limit", "after", "rows", "following"),
    [
        (2, None, [1, 3], 3),
        (3, None, [1, 3, 4], None),
        (4, None, [1, 3, 4], None),
        (1, 1, [3], 3),
        (2, 1, [3, 4], None),
        (1, 3, [4], None),
        (1, 4, [], None),
        (1, LARGEST, [], None),
        (3, 0, [1, 3, 4], None),
    ],
)
def test_a_page_has_a_next_one_only_if_that_has_a_row(
    filled: Store, limit: int, after: int | None, rows: list[int], following: int | None
) -> None:
    page = filled.traces(tool="read", limit=limit, after=after)
    assert ([row.position for row in page.rows], page.next) == (rows, following)


@pytest.mark.row("T12")
def test_pages_stay_put_while_traces_come_in(store_url: str) -> None:
    ended = threading.Event()

    def write() -> None:
        with traces.open(store_url) as other:
            for index in range(100_000):
                if ended.is_set():
                    return
                other.record(made(iteration=index))
                if index % 50 == 0:
                    other.flush()

    with traces.open(store_url) as store:
        record(store, 30)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            backward = [position for page in pages(store, 5, newest=True) for position in page]
            seen = [position for page, _ in zip(pages(store, 5), range(30), strict=False) for position in page]
            while store.count() < 200:
                assert store.verify().ok
        finally:
            ended.set()
            writer.join()
        assert seen == list(range(1, len(seen) + 1))
        assert backward == list(range(len(backward), 0, -1))
        assert store.verify().ok


NUMBERS = {
    "sqlite": "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n)",
    "postgresql": "generate_series(1, {}) AS i",
}


def million(url: str, rows: int) -> None:
    """Put rows into a table that has no guards; nobody verifies them."""
    names = [column.name for column in table().columns]
    whole = {"position", "sequence", "iteration", "started_at", "inserted_at", "duration_ms", "waited_ms"}
    values = {name: "i" if name in whole else "'0123456789abcdef'" for name in names}
    values |= {
        "id": "'id' || i",
        "conversation_id": f"'talk ' || (i % {rows // 100})",
        "tool_name": "'tool ' || (i % 50)",
    }
    values |= {
        "arguments": "'{}'",
        "result": "'{}'",
        "losses": "'[]'",
        "result_type": "'ok'",
        "ending": "'ok'",
        "kind": "NULL",
    }
    values |= {"tenant_id": "'tenant ' || (i % 7)"}
    columns = ", ".join(values[name] for name in names)
    guards = [f"DROP TRIGGER tool_traces_{name}" for name in ("no_update", "no_delete", "next")]
    if url.startswith("postgresql"):
        guards = ["ALTER TABLE tool_traces DISABLE TRIGGER ALL"]
    numbers = NUMBERS[url.partition(":")[0]].format(rows)
    change(url, *guards, f"INSERT INTO tool_traces ({', '.join(names)}) SELECT {columns} FROM {numbers}")


@pytest.mark.slow
def test_a_conversation_of_a_million_rows_is_found_at_once(store_url: str, tally: Counter[str]) -> None:
    rows = 1_000_000 if FULL else 100_000
    with traces.open(store_url) as store:
        million(store_url, rows)
        if store_url.startswith("postgresql"):
            change(store_url, "ANALYZE tool_traces")
        questions: dict[str, dict[str, Any]] = {
            "a conversation": {"conversation": "talk 77"},
            "a conversation of a tenant": {"conversation": "talk 77", "tenant": "tenant 5"},
            "a tenant": {"tenant": "tenant 3"},
            "a tool": {"tool": "tool 33"},
            "the newest": {"newest": True},
            "a page in the middle": {"after": rows // 2},
        }
        store.traces(limit=1)
        for name, filters in questions.items():
            best, tries = 1.0, 0
            while best >= 0.005 and tries < 1_000:  # on a machine that others share, one that nobody interrupts counts
                begun = time.perf_counter()
                found = store.traces(**filters, limit=10)
                best, tries = min(best, time.perf_counter() - begun), tries + 1
            assert len(found.rows) == 10
            kind = store_url.partition(":")[0]
            tally[f"microseconds for 10 rows of {name}, of {rows:,} rows, {kind}"] += round(best * 1e6)
            assert best < 0.005
