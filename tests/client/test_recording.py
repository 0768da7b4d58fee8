"""Records of a client: the canonical values and both bodies of each exchange."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.standing import NAMES, WIRES
from toolwire import Client, ProviderError, aio, generate, records
from toolwire.errors import InvalidField
from toolwire.records import Record, RecordStore
from toolwire.testing import Fail, Scenario, simulate
from toolwire.translation.recorded import request_of, response_of
from toolwire.types import Error, ToolCall

KEY = "sk-sentinel-0123456789abcdef"


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def read_all(url: str) -> list[Record]:
    with records.open(url) as store:
        return [*store.iterate()][::-1]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'records.db'}"


def client(model: Any, wire: str, record: Any, kind: Any = Client, **options: Any) -> Any:
    return kind(NAMES[wire], "m", base_url=model.url, api_key=KEY, record=record, **options)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_each_exchange_of_a_run_is_recorded(wire: str, stream: bool, url: str) -> None:
    turns = Scenario([[ToolCall(None, "look", {"city": "Bern"})], ["It is sunny."]])
    with simulate(turns, strict=False) as model, client(model, wire, url) as one:
        if stream:
            [*one.stream("How is Bern?", tools=[look])]
        else:
            one.run("How is Bern?", tools=[look])
        received = [request.body for request in model.requests]
    first, second = read_all(url)
    assert [json.loads(record.provider_request.data) for record in (first, second)] == received
    assert first.conversation == second.conversation != ""
    for record in (first, second):
        assert (record.wire, record.provider_wire, record.provider) == ("canonical", wire, NAMES[wire])
        assert (record.model, record.status, record.ending) == ("m", 200, "answer")
        assert record.streamed is stream
        assert bool(record.provider_answer.frames) is stream
        assert record.usage is not None
        assert record.seconds >= (record.first_byte or 0) > 0
        assert KEY not in json.dumps(record.to_json())
    response = response_of(second)
    assert response is not None
    assert response.content == "It is sunny."
    assert request_of(second).messages[0].text == "How is Bern?"
    called = response_of(first)
    assert called is not None
    assert [(call.name, call.arguments) for call in called.tool_calls] == [("look", {"city": "Bern"})]


def test_an_async_client_records_the_same(url: str) -> None:
    async def ask(model: Any) -> None:
        async with client(model, "anthropic", url, aio.Client) as one:
            await one.chat("Hello?")
            async with one.stream("And?") as items:
                async for _ in items:
                    pass

    with simulate(["Hello.", "More."], strict=False) as model:
        asyncio.run(ask(model))
    assert [response.content for record in read_all(url) if (response := response_of(record))] == ["Hello.", "More."]


def test_a_store_is_shared_and_stays_open(url: str) -> None:
    with records.open(url) as store, simulate(["One.", "Two."], strict=False) as model:
        for _ in range(2):
            with client(model, "openai-chat", store) as one:
                one.chat("Hello?")
        assert store.flush(10)
        assert len(store.list().rows) == 2


def test_generate_records_and_closes(url: str) -> None:
    with simulate(["One."], strict=False) as model:
        generate("Hello?", "openai", "m", base_url=model.url, api_key=KEY, record=url)
    assert len(read_all(url)) == 1


def test_attempts_and_errors_are_recorded(url: str) -> None:
    turns = [[Fail(Error("overloaded", "later", 529))], [Fail(Error("invalid_request", "never", 400))]]
    with (
        simulate(turns, strict=False) as model,
        client(model, "anthropic", url, retries={"attempts": 2, "base": 0.0}) as one,
        pytest.raises(ProviderError),
    ):
        one.chat("Hello?")
    [record] = read_all(url)
    assert [(earlier.status, b"later" in earlier.answer.data) for earlier in record.earlier] == [(529, True)]
    assert (record.status, record.ending) == (400, "error")
    assert b"never" in record.client_answer.data


def test_a_provider_that_cannot_be_reached_is_recorded(url: str) -> None:
    with (
        Client("openai", "m", base_url="http://127.0.0.1:9", api_key=KEY, record=url, retries=1) as one,
        pytest.raises(ProviderError),
    ):
        one.chat("Hello?")
    [record] = read_all(url)
    assert (record.status, record.error, record.ending) == (0, "connect", "error")


def test_a_stream_that_is_left_is_recorded(url: str) -> None:
    with simulate(["A long answer of many words."], strict=False) as model, client(model, "openai-chat", url) as one:
        items = one.stream("Hello?")
        next(iter(items))
        items.close()
    [record] = read_all(url)
    assert record.ending == "client gone"
    assert record.provider_answer.data


def test_losses_are_recorded(url: str) -> None:
    with simulate(["One."], strict=False) as model, client(model, "anthropic", url) as one:
        one.chat("Hello?", seed=7)
    [record] = read_all(url)
    assert record.request_losses[0].path == "seed"


def test_a_key_in_the_answer_is_in_no_record(url: str, tmp_path: Path) -> None:
    with simulate([f"The key is {KEY}."] * 2, strict=False) as model, client(model, "openai-chat", url) as one:
        one.chat(f"My key is {KEY}")
        [*one.stream("And again?")]
    with sqlite3.connect(tmp_path / "records.db") as connection:
        dump = "\n".join(connection.iterdump())
    assert KEY not in dump + json.dumps([record.to_json() for record in read_all(url)])


@pytest.mark.parametrize("wrong", [7, object(), "nonsense"])
def test_a_wrong_value_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidField, match=r"record|sqlite"):
        Client("ollama", "m", record=wrong)


def test_without_it_nothing_is_loaded_or_written(tmp_path: Path) -> None:
    with simulate(["One."], strict=False) as model, client(model, "openai-chat", None) as one:
        one.chat("Hello?")
        assert one.upstream.record is None
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_fails_changes_no_answer(url: str) -> None:
    class Broken(RecordStore):
        def write(self, *_: Any, **_more: Any) -> bool:
            raise RuntimeError("full")

    with records.open(url) as store, simulate(["One."], strict=False) as model:
        store.__class__ = Broken
        with client(model, "openai-chat", store) as one:
            assert one.chat("Hello?").content == "One."
