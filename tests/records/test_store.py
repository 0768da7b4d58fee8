"""A store of records: what is written is read again, a list is a page, and old records go."""

import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolwire import records
from toolwire.errors import InvalidField, StoreFailed
from toolwire.records import Body, Frame, Record, RecordStore
from toolwire.records.record import record_of
from toolwire.types import Loss, Usage

DAY = 86_400.0
LOSSES = (Loss("seed", "seed", "dropped", "no such setting"), Loss("a", "b", "defaulted", "c", "minor"))
REQUEST = b'{"model":"fast","messages":[{"role":"user","content":"' + b"how are you? " * 50 + b'"}]}'


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'records.db'}"


@pytest.fixture
def store(url: str) -> Iterator[RecordStore]:
    with records.open(url) as opened:
        yield opened


def full(identity: str = "one", **values: object) -> Record:
    given = {
        "id": identity,
        "time": time.time(),
        "seconds": 1.5,
        "first_byte": 0.25,
        "key": "k1",
        "key_name": "ci",
        "session": "s",
        "conversation": "c",
        "path": "/v1/messages?beta=true",
        "wire": "anthropic",
        "provider_wire": "openai-chat",
        "url": "https://api.example.com/v1/chat/completions",
        "model": "fast",
        "provider": "openai",
        "provider_model": "gpt-5",
        "streamed": True,
        "status": 200,
        "provider_status": 200,
        "ending": "answer",
        "usage": Usage(12, 3, cache_read_tokens=5),
        "cost": 0.25,
        "request_losses": LOSSES,
        "answer_losses": LOSSES[1:],
        "client_request": Body(data=REQUEST, size=len(REQUEST), headers={"content-type": "application/json"}),
        "provider_request": Body(data=REQUEST.replace(b"fast", b"gpt-5"), size=len(REQUEST) + 1),
        "provider_answer": Body(data=b"data: 1\n\ndata: 2\n\n", size=18, frames=(Frame(0.5, 9), Frame(0.75, 9))),
        "client_answer": Body(data=b"event: x\ndata: \xc3\xa9\n\n", size=19, frames=(Frame(0.5, 19),)),
    }
    return Record(**{**given, **values})  # type: ignore[arg-type]


def written(store: RecordStore, *made: Record) -> None:
    for record in made:
        assert store.write(record)
    assert store.flush(10)
    assert (store.lost, store.failed) == (0, "")


def test_a_record_is_read_as_it_was_written(store: RecordStore) -> None:
    record = full()
    written(store, record)
    assert store.read("one") == record
    assert store.read("two") is None


def test_the_events_of_a_stream_have_their_times(store: RecordStore) -> None:
    written(store, full())
    found = store.read("one")
    assert found is not None
    assert [*found.provider_answer.events()] == [(0.5, b"data: 1\n\n"), (0.75, b"data: 2\n\n")]


def test_a_line_of_a_list_sums_up_a_record(store: RecordStore) -> None:
    written(store, full())
    [line] = store.list().rows
    assert (line.id, line.model, line.provider_model, line.key_name) == ("one", "fast", "gpt-5", "ci")
    assert (line.semantic, line.minor, line.formal) == (1, 2, 0)
    assert (line.input_tokens, line.output_tokens, line.cache_read_tokens, line.cache_write_tokens) == (12, 3, 5, None)
    assert line.bytes > 600


def test_a_request_that_differs_in_one_place_is_stored_once(store: RecordStore) -> None:
    noise = bytes(33 + index * 7919 % 89 for index in range(200_000)).replace(b'"', b"'")
    sent = b'{"model":"fast","x":"' + noise + b'"}'
    bodies = {"client_request": Body(data=sent), "provider_request": Body(data=sent.replace(b'"fast"', b'"gpt-5"'))}
    written(
        store, full("both", **bodies), full("one", provider_request=Body(), client_request=bodies["client_request"])
    )
    both, one = (line.bytes for line in reversed(store.list().rows))
    assert both - one < 200
    found = store.read("both")
    assert found is not None
    assert found.provider_request.data == bodies["provider_request"].data


def test_pages_follow_each_other_in_both_directions(store: RecordStore) -> None:
    written(store, *(full(f"r{index}") for index in range(25)))
    seen, page = list[str](), store.list(limit=10)
    while True:
        seen += [line.id for line in page.rows]
        if page.next is None:
            break
        page = store.list(limit=10, before=page.next)
    assert seen == [f"r{index}" for index in reversed(range(25))]
    first = store.list(limit=1, before=2).rows[0].position
    newer = store.list(after=first, limit=10)
    assert [line.id for line in newer.rows] == [f"r{index}" for index in reversed(range(1, 11))]
    assert newer.next is not None


def test_a_key_reads_its_own_records_only(store: RecordStore) -> None:
    written(store, full("mine", key="k1"), full("theirs", key="k2"))
    assert [line.id for line in store.list(key="k1").rows] == ["mine"]
    assert store.read("theirs", key="k1") is None
    assert store.read("theirs", key="k2") is not None
    assert len(store.list().rows) == 2


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"model": "slow"}, ["b"]),
        ({"status": 500}, ["b"]),
        ({"lossy": False}, ["b"]),
        ({"lossy": True}, ["a"]),
        ({"conversation": "c2", "model": None}, ["b"]),
        ({"since": 2_000_000_001.0}, ["b"]),
        ({"until": 2_000_000_001.0}, ["a"]),
        ({"provider": "none"}, []),
    ],
)
def test_filters(store: RecordStore, filters: dict[str, object], expected: list[str]) -> None:
    other = {"model": "slow", "status": 500, "conversation": "c2", "request_losses": (), "answer_losses": ()}
    written(store, full("a", time=2_000_000_000.0), full("b", time=2_000_000_002.0, **other))
    assert [line.id for line in store.list(**filters).rows] == expected  # type: ignore[arg-type]


def test_an_unknown_filter_is_named(store: RecordStore) -> None:
    with pytest.raises(InvalidField, match=r"modle.*model"):
        store.list(modle="x")  # type: ignore[call-arg]


def test_the_oldest_records_go_when_the_bytes_are_full(url: str) -> None:
    with records.open(url, bytes=20_000) as store:
        for index in range(100):
            written(store, full(f"r{index}", provider_request=Body()))
        lines = store.list(limit=1000).rows
        assert sum(line.bytes for line in lines) <= 20_000
        assert [line.id for line in lines] == [f"r{index}" for index in range(99, 99 - len(lines), -1)]
        assert 10 < len(lines) < 30
        assert store.read("r0") is None


def test_expired_records_are_hidden_at_once_and_deleted(url: str, tmp_path: Path) -> None:
    secret = b"a sentence that must go"
    with records.open(url, expires=DAY) as store:
        written(store, full("old", time=time.time() - 2 * DAY, client_request=Body(data=secret)), full("new"))
        assert [line.id for line in store.list().rows] == ["new"]
        assert store.read("old") is None
    with records.open(url, expires=None) as store:
        written(store, full("newer"))
        assert [line.id for line in store.list().rows] == ["newer", "new"]
    assert secret not in (tmp_path / "records.db").read_bytes()


def test_a_long_body_is_cut_and_says_so(url: str) -> None:
    with records.open(url, body=100) as store:
        written(store, full())
        found = store.read("one")
    assert found is not None
    assert (found.client_request.data, found.client_request.size) == (REQUEST[:100], len(REQUEST))
    assert found.client_request.cut
    assert not found.client_answer.cut


def test_a_full_queue_loses_records_and_counts_them(url: str) -> None:
    with records.open(url) as store:
        big, second_has_come = 100_000_000, threading.Event()

        def first() -> Record:
            assert second_has_come.wait(10)
            return full("a")

        assert store.write(first, size=big)
        assert not store.write(lambda: full("b"), size=big)
        second_has_come.set()
        assert store.lost == 1
        assert store.flush(10)
        assert [line.id for line in store.list().rows] == ["a"]


@pytest.mark.parametrize("process", [False, True])
def test_a_closed_store_loses_a_record_and_says_so(url: str, *, process: bool) -> None:
    store = records.open(url, process=process)
    store.close()
    assert (store.write(full("a")), store.lost) == (False, 1)


def test_a_record_that_cannot_be_made_loses_no_other_one(store: RecordStore) -> None:
    def broken() -> Record:
        raise RuntimeError("no such thing")

    store.write(broken)
    store.write(full())
    assert store.flush(10)
    assert (store.lost, store.written) == (1, 1)


def test_the_same_record_is_stored_once(store: RecordStore) -> None:
    written(store, full(), full())
    written(store, full())
    assert len(store.list().rows) == 1


def test_values_of_json_and_back() -> None:
    for record in (full(), full(client_answer=Body(data=b"\xff\x00\xfe"))):
        assert record_of(record.to_json()) == record


def test_nobody_else_can_read_the_file(store: RecordStore, tmp_path: Path) -> None:
    written(store, full())
    for name in ("records.db", "records.db-wal"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_two_stores_write_to_one_file(url: str) -> None:
    with records.open(url) as one, records.open(url) as other:
        for index in range(20):
            one.write(full(f"a{index}"))
            other.write(full(f"b{index}"))
        assert one.flush(10)
        assert other.flush(10)
        lines = one.list(limit=100).rows
    assert len({line.position for line in lines}) == 40
    assert (one.lost, other.lost) == (0, 0)


def test_a_removed_file_loses_records_and_nothing_else(store: RecordStore, tmp_path: Path) -> None:
    written(store, full())
    (tmp_path / "records.db").unlink()
    store.write(full("two"))
    assert store.flush(20)
    assert store.lost == 1
    assert "removed" in store.failed


@pytest.mark.parametrize("wrong", ["mysql://h/d", "nonsense", "sqlite://", "sqlite:///:memory:"])
def test_an_address_that_cannot_be_used_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidField, match=r"sqlite:///records\.db"):
        records.open(wrong)


def test_what_is_not_there_is_not_created(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="no records"):
        records.open(url, create=False)
    assert not (tmp_path / "records.db").exists()
