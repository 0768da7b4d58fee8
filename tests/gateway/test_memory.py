"""What a gateway keeps of earlier turns: bounded, expiring, by owner and maker, in the process or in a database."""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, Answered, at, post, standing
from toolwire import translate
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.memory import Memory, ProcessMemory, StoredMemory
from toolwire.gateway.starting import url_of_database
from toolwire.testing import Scenario, simulate
from toolwire.types import Text, Thinking, ToolCall


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["process", "sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Memory, Clock]]:
    clock = Clock()
    made: Memory
    match request.param:
        case "process":
            made = ProcessMemory(100_000, 60, clock)
        case "sqlite":
            made = StoredMemory(f"sqlite:///{tmp_path / 'memory.db'}", 100_000, 60, clock)
        case _:
            kept = request.getfixturevalue("database")
            made = StoredMemory(url_of_database(kept.url, None), 100_000, 60, clock)
    yield made, clock
    made.close()


@pytest.mark.row("O31")
def test_what_is_kept_is_found_by_its_owner_until_it_expires(memory: tuple[Memory, Clock]) -> None:
    async def lead() -> None:
        kept, clock = memory
        await kept.keep("me", [("a", b"1"), ("b", b"2")])
        await kept.keep("me", [("a", b"3")])
        assert dict(await kept.find("me", ["a", "b", "c", "a"])) == {"a": b"3", "b": b"2"}
        assert dict(await kept.find("you", ["a"])) == {}
        clock.now += 61
        assert dict(await kept.find("me", ["a", "b"])) == {}

    asyncio.run(lead())


def test_it_is_bounded(memory: tuple[Memory, Clock]) -> None:
    async def lead() -> None:
        kept, clock = memory
        for number in range(200):
            clock.now += 0.1
            if number == 199:
                clock.now += 301
            await kept.keep("me", [(f"k{number}", b"x" * 1000)])
        found = await kept.find("me", [f"k{number}" for number in range(200)])
        assert sum(map(len, found.values())) <= 100_000
        assert "k199" in found

    asyncio.run(lead())


def test_what_was_used_last_stays_longest() -> None:
    async def lead() -> None:
        kept = ProcessMemory(1000, 60)
        await kept.keep("me", [("a", b"x" * 100), ("b", b"x" * 100)])
        await kept.find("me", ["a"])
        await kept.keep("me", [("c", b"x" * 100), ("d", b"x" * 100)])
        assert list(await kept.find("me", "abcd")) == ["a", "c", "d"]
        kept.close()
        assert kept.bytes == 0

    asyncio.run(lead())


@pytest.mark.skipif(os.name == "nt", reason="files have other rights there")
def test_nobody_else_can_read_what_is_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    before = os.umask(0)
    try:
        ledger, kept = LimitLedger(url), StoredMemory(url, 1000, 60)
        asyncio.run(kept.keep("me", [("a", b"1")]))
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert set(modes) == {"kept.db", "kept.db-wal", "kept.db-shm"}
    assert set(modes.values()) == {0o600}
    ledger.close()
    kept.close()


def test_a_database_that_fails_makes_a_turn_poorer_and_no_request_fail(tmp_path: Path) -> None:
    async def lead() -> None:
        kept = StoredMemory(f"sqlite:///{tmp_path / 'm.db'}", 1000, 60)
        await kept.keep("me", [("a", b"1")])
        with kept._tables._engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE toolwire_memory_entries")
        assert dict(await kept.find("me", ["a"])) == {}
        await kept.keep("me", [("a", b"2")])
        kept.close()

    asyncio.run(lead())


def test_a_value_is_believed_for_a_second_and_one_that_its_key_determines_for_longer(tmp_path: Path) -> None:
    async def lead() -> None:
        clock, url, asked = Clock(), f"sqlite:///{tmp_path / 'm.db'}", list[list[str]]()
        one, other = StoredMemory(url, 1 << 20, 600, clock), StoredMemory(url, 1 << 20, 600, clock)
        find = one._tables.find

        def noted(owner: str, keys: Sequence[str]) -> list[Any]:
            asked.append(list(keys))
            return find(owner, keys)

        one._tables.find = noted  # type: ignore[method-assign]
        await one.keep("me", [("a", b"1"), ("made:a", b"maker")])
        for keys in (["a", "b"], ["a", "b"], ["a", "b", "made:a"]):
            assert (await one.find("me", keys))["a"] == b"1"
        assert dict(await one.find("you", ["a"])) == {}
        assert asked == [["a", "b"], ["made:a"], ["a"]]
        await other.keep("me", [("a", b"2"), ("b", b"3")])
        clock.now += 1
        asked.clear()
        assert dict(await one.find("me", ["a", "b", "made:a"])) == {"a": b"2", "b": b"3", "made:a": b"maker"}
        assert asked == [["a", "b"]]
        clock.now -= 5  # a clock that was set back makes nothing believed for longer
        await one.find("me", ["a"])
        assert asked == [["a", "b"], ["a"]]
        one.close()
        other.close()

    asyncio.run(lead())


def test_two_processes_share_one_database(tmp_path: Path) -> None:
    async def lead() -> None:
        url = f"sqlite:///{tmp_path / 'm.db'}"
        one, other = StoredMemory(url, 1 << 20, 60), StoredMemory(url, 1 << 20, 60)
        await asyncio.gather(*[one.keep("me", [(f"a{n}", b"1")]) for n in range(20)])
        await asyncio.gather(*[other.keep("me", [(f"b{n}", b"2")]) for n in range(20)])
        assert len(await other.find("me", [f"a{n}" for n in range(20)])) == 20
        assert len(await one.find("me", [f"b{n}" for n in range(20)])) == 20
        one.close()
        other.close()

    asyncio.run(lead())


TURNS = [[Thinking("Hm."), Text("I look."), ToolCall(None, "now", {})], "Noon."]
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


def _lead(url: str, names: tuple[str, str], change: Any = None) -> None:
    """Have two turns as a client of Chat Completions, each at the model of that name."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "When?"}]
    for name in names:
        body = {"model": name, "messages": messages, "tools": [TOOL], "reasoning_effort": "high"}
        answered = post(url, "/v1/chat/completions", json.dumps(body).encode())
        assert answered.status == 200, answered
        message = json.loads(answered.data)["choices"][0]["message"]
        message.pop("reasoning_content", None)
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": "12:00"} for call in message.get("tool_calls", ())
        ]
        if change is not None:
            change(messages)


def test_a_signature_goes_to_the_provider_that_made_it_and_to_no_other() -> None:
    with simulate(lambda _request, turn: TURNS[turn.round], strict=False) as model:
        other = {"other": at(model.url, "anthropic").with_options(name="other")}
        with standing(model.url, providers=other) as stood:
            for second, comes in (("anthropic/claude-opus-5-5", True), ("other/claude-opus-5-5", False)):
                _lead(stood.url, ("anthropic/claude-opus-5-5", second))
                assert ("signature" in str(model.requests[-1].body)) is comes


@pytest.mark.parametrize("target", ["openai-responses", "anthropic", "gemini"])
def test_a_turn_that_the_client_has_changed_is_not_made_unchanged(target: str, lenient_model: Playing) -> None:
    def change(messages: list[dict[str, Any]]) -> None:
        if messages[1].get("content"):
            messages[1]["content"] = "Otherwise."

    with lenient_model(Scenario(TURNS)) as stood:
        name = f"{NAMES[target]}/m"
        _lead(stood.url, (name, name), change)
        assert "Otherwise." in str(stood.requests[-1].body)
        assert "I look." not in str(stood.requests[-1].body)


@pytest.mark.parametrize("streams", [False, True])
def test_thoughts_that_are_bound_to_a_history_that_the_client_has_changed_are_left_out(
    strict_model: Playing, streams: bool
) -> None:
    body: dict[str, Any] = {"model": "anthropic/claude-sonnet-5-5", "reasoning_effort": "low", "tools": [TOOL]}
    call = [Thinking("Old."), ToolCall(None, "now", {})]
    with strict_model(Scenario([call, "It is noon.", "Still noon."])) as stood:
        history: list[dict[str, Any]] = [{"role": "user", "content": "When?"}]

        def ask(**more: Any) -> Answered:
            return post(stood.url, "/v1/chat/completions", json.dumps({**body, "messages": history, **more}).encode())

        asked = json.loads(ask().data)["choices"][0]["message"]
        history += [asked, {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": "12:00"}]
        for first, statuses in (("When?", [200]), ("Now when?", [400, 200])):
            history[0] = {"role": "user", "content": first}
            before = len(stood.requests)
            answer = ask(stream=streams)
            assert answer.status == 200
            assert [one.status for one in stood.requests[before:]] == statuses
            assert ("Old." in str(stood.requests[-1].body)) is (first == "When?")
            assert ("semantic" in answer.headers.get("x-toolwire-losses", "")) is (first != "When?")


# A call and its result, then what the client adds; what tells two conversations apart is an N.
ANSWERED = {
    "openai-chat": (
        """{"role": "assistant", "tool_calls": [{"id": "cN", "type": "function", "function":
        {"name": "now", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "cN", "content": "12:00"}""",
        """, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "And?"}""",
    ),
    "ollama": (
        """{"role": "assistant", "tool_calls": [{"function": {"name": "now", "arguments": {}}}]},
        {"role": "tool", "tool_name": "now", "content": "N:00"}""",
        """, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "And?"}""",
    ),
    "gemini": (
        """{"role": "model", "parts": [{"functionCall": {"name": "now", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "now", "response": {"output": "N:00"}}}]}""",
        """, {"role": "model", "parts": [{"text": "Done."}]}, {"role": "user", "parts": [{"text": "And?"}]}""",
    ),
}


@pytest.mark.parametrize("wire", ANSWERED)
def test_turns_of_the_same_words_after_other_results_are_other_turns(wire: str) -> None:
    parts = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "text", "text": "Done."}]
    answer = {"type": "message", "role": "assistant", "content": parts, "stop_reason": "end_turn"}
    key, (said, added), keys = "contents" if wire == "gemini" else "messages", ANSWERED[wire], set[str]()
    for number in "12":
        bodies = ({key: json.loads(f"[{said}{more}]".replace("N", number))} for more in ("", added))
        first, second = (translate.exchange(body, source=wire, target="anthropic", model="m") for body in bodies)
        first.response(answer)
        assert [name for name, _ in first.memory_updates] == second.memory_keys[-1:]
        keys.update(second.memory_keys[-1:])
    assert len(keys) == 2


def test_an_exchange_asks_for_turns_and_learns_them() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "When?"}], "tools": [TOOL]}
    first = translate.exchange(body, source="openai-chat", target="gemini")
    assert first.memory_keys == []
    call = {"functionCall": {"name": "now", "args": {}, "id": "c1"}, "thoughtSignature": "c2ln"}
    answer = {"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}]}
    message = first.response(answer).body["choices"][0]["message"]
    assert [key for key, _ in first.memory_updates] == ["call:c1"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "12"}
    body["messages"] = [*body["messages"], message, result]
    second = translate.exchange(body, source="openai-chat", target="gemini")
    assert second.memory_keys == ["call:c1"]
    assert "c2ln" not in str(second.encoded.body)
    second.use_memory(dict(first.memory_updates))
    assert "c2ln" in str(second.encoded.body)
    known = translate.exchange(body, source="openai-chat", target="gemini", memory=dict(first.memory_updates))
    assert known.encoded.body == second.encoded.body


def test_a_turn_that_a_client_repeats_in_pieces_is_one() -> None:
    call = {"functionCall": {"name": "now", "args": {}}}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "When?"}]},
            {"role": "model", "parts": [{"text": "I look."}]},
            {"role": "model", "parts": [call]},
            {"role": "model", "parts": [{"text": ""}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "now", "response": {"output": "12"}}}]},
        ]
    }
    told = translate.exchange(body, source="gemini", target="openai-chat", model="m").encoded.body["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "tool"]
    assert told[1]["content"] in ("I look.", [{"type": "text", "text": "I look."}])
    assert [call["function"]["name"] for call in told[1]["tool_calls"]] == ["now"]
    assert translate.exchange(body, source="gemini", target="gemini").encoded.body == body
