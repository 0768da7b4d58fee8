"""A store of 100,000 exchanges: a page of the list in 100 ms, and an exchange of 5 MB in 300 ms."""

import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

from tests.records.test_store import REQUEST, full
from toolwire import records
from toolwire.records import Body, Frame

MANY = 100_000
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with records.open(f"sqlite:///{tmp_path_factory.mktemp('many') / 'records.db'}", bytes=None) as opened:
        for index in range(MANY):
            while not opened.write(
                full(
                    f"r{index}",
                    key=f"k{index % 50}",
                    model=f"m{index % 7}",
                    status=500 if index == 17 else 200,
                    client_request=Body(data=REQUEST.replace(b"fast", b"%d" % index)),
                )
            ):
                time.sleep(0.05)
            if index % 2000 == 0:
                assert opened.flush(60)
        assert opened.flush(60)
        yield opened


def milliseconds(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return median(times)


@pytest.mark.parametrize(
    "filters",
    [{}, {"before": 50_000}, {"after": 99_000}, {"key": "k7"}, {"model": "m3"}, {"status": 500}, {"model": "none"}],
    ids=str,
)
def test_a_page_takes_100_ms(store: records.RecordStore, filters: dict[str, Any]) -> None:
    assert len(store.list(**filters, limit=100).rows) in (0, 1, 100)
    took = milliseconds(lambda: store.list(**filters, limit=100))
    assert took < 100, f"a page by {filters}"


def test_an_exchange_of_5_mb_takes_300_ms(store: records.RecordStore) -> None:
    words = json.dumps([f"word {index} of a long answer" for index in range(70_000)]).encode()
    request = b'{"model":"fast","messages":[{"role":"user","content":%s}]}' % words
    events = [b'data: {"choices":[{"delta":{"content":"word %d "}}]}\n\n' % index for index in range(50_000)]
    frames = tuple(Frame(index / 1000, len(event)) for index, event in enumerate(events))
    answer = Body(data=b"".join(events), frames=frames, headers={"content-type": "text/event-stream"})
    assert store.write(full("large", client_request=Body(data=request), provider_answer=answer, client_answer=answer))
    assert store.flush(60)
    found = store.read("large")
    assert found is not None
    assert sum(len(body.data) for body in found.bodies.values()) > 5_000_000
    assert len([*found.provider_answer.events()]) == 50_000
    took = milliseconds(lambda: store.read("large"))
    assert took < 300
