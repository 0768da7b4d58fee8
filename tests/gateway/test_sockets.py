"""Responses over a WebSocket, asked by OpenAI's own client: lanes, what is added, limits and cuts."""

import asyncio
import contextlib
import gc
import json
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.amounts import FULL
from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, TWO_WIRES, WIRES, standing
from tests.gateway.test_keys import FRESH, Guarded, guarded
from toolwire.gateway import sockets
from toolwire.gateway.memory import ProcessMemory
from toolwire.testing import Cut, Fail, Scenario, Wait, simulate
from toolwire.types import Text, ToolCall

__all__ = ["guarded"]

END = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
TOOL: Any = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}


@contextlib.contextmanager
def opened(url: str, **headers: str) -> Iterator[ClientConnection]:
    """Open a WebSocket."""
    with connect(f"ws{url.removeprefix('http')}/v1/responses", additional_headers=headers) as socket:
        yield socket


def create(socket: ClientConnection, **body: Any) -> None:
    """Ask for an answer."""
    socket.send(json.dumps({"type": "response.create", "model": "anthropic/m", "store": False, **body}))


def heard(socket: ClientConnection, *until: str) -> list[dict[str, Any]]:
    """Hear until an event of one of these types."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in (until or END):
        events.append(json.loads(socket.recv(timeout=10)))
    return events


def until(done: Callable[[], bool]) -> None:
    """Wait a while for what another thread will do."""
    end = time.monotonic() + 10
    while not done() and time.monotonic() < end:
        time.sleep(0.02)


def text_of(event: dict[str, Any]) -> str:
    """Give the words of an answer."""
    parts = [part for item in event["response"]["output"] for part in item.get("content", ())]
    return "".join(part.get("text", "") for part in parts)


@pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")  # openai 3.52.0 does not
@pytest.mark.parametrize("wire", WIRES)
def test_openais_client_sends_only_what_is_new(wire: str, strict_model: Playing) -> None:
    with strict_model([[Text("I look."), ToolCall(None, "look", {})], ["Two."]]) as stood:
        client = openai.OpenAI(base_url=f"{stood.url}/v1", api_key="key")
        with client.responses.connect() as connection:
            about: Any = {"model": f"{NAMES[wire]}/m", "store": False, "tools": [TOOL]}
            connection.response.create(input="Hello", **about)
            first: Any = next(event for event in connection if event.type == "response.completed")
            [call] = [item for item in first.response.output if item.type == "function_call"]
            result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "seen"}
            connection.response.create(input=[result], previous_response_id=first.response.id, **about)
            second: Any = next(event for event in connection if event.type == "response.completed")
        assert second.response.output_text == "Two."
        assert second.response.id != first.response.id
        received = stood.requests[1].request
        assert received is not None
        texts = [message.text for message in received.messages if message.text and message.role != "tool"]
        assert texts == ["Hello", "I look."]
        assert "previous_response_id" not in (stood.requests[1].body or {})


@pytest.mark.parametrize("wire", WIRES)
def test_events_are_those_of_the_stream(wire: str, strict_model: Playing) -> None:
    with strict_model([["Hello there."]]) as stood, opened(stood.url) as socket:
        create(socket, input="Hello", model=f"{NAMES[wire]}/m", stream_id="a")
        events = heard(socket)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert {event["stream_id"] for event in events} == {"a"}
        assert events[0]["type"] == "response.created"
        assert "".join(event.get("delta", "") for event in events) in ("", "Hello there.")
        assert text_of(events[-1]) == "Hello there."


def test_lanes_answer_side_by_side_and_each_one_at_a_time() -> None:
    def play(request: Any, _turn: int) -> list[Any]:
        return [Text("You said "), Wait(0.2), Text(f"{request.messages[-1].text}.")]

    with simulate(Scenario(play, complete=False)) as model, standing(model.url) as stood, opened(stood.url) as socket:
        for lane, words in (("l", "left"), ("l", "again"), ("r", "right")):
            create(socket, input=words, stream_id=lane)
        events = [*heard(socket, "response.completed"), *heard(socket, "response.completed")]
        kinds = [event["type"] for event in events]
        assert [event["error"]["code"] for event in events if event["type"] == "error"] == ["response_in_progress"]
        assert kinds.count("response.created") == 2
        assert kinds.index("response.completed") > len(kinds) - 1 - kinds[::-1].index("response.created")
        ended = {event["stream_id"]: text_of(event) for event in events if event["type"] == "response.completed"}
        assert ended == {"l": "You said left.", "r": "You said right."}


def test_what_is_wrong_is_said_and_the_connection_stays(strict_model: Playing) -> None:
    with strict_model([["Two."]]) as stood, opened(stood.url) as socket:
        wrong: list[tuple[dict[str, Any], str | None]] = [
            (
                {"type": "response.create", "model": "anthropic/m", "previous_response_id": "resp_0"},
                "previous_response_not_found",
            ),
            ({"type": "response.create", "model": "nobody"}, "model_not_found"),
            ({"type": "response.create", "input": "x"}, "missing_model"),
            ({"type": "response.create", "model": "anthropic/m", "stream_id": 7}, None),
            ({"type": "response.burn"}, None),
        ]
        for event, code in wrong:
            socket.send(json.dumps(event))
            told = heard(socket, "error")[-1]
            assert (told["error"]["code"], 400 <= told["status"] < 500) == (code, True)
        socket.send("{")
        assert heard(socket, "error")[-1]["status"] == 400
        create(socket, input="Hello")
        assert text_of(heard(socket)[-1]) == "Two."


def test_an_error_of_a_provider_is_told_with_when_to_ask_again(lenient_model: Playing) -> None:
    with lenient_model(Scenario([[Fail(429, retry_after=7)], ["Two."]])) as stood, opened(stood.url) as socket:
        create(socket, input="Hello", stream_id="a")
        told = heard(socket)[-1]
        assert (told["status"], told["stream_id"], told["error"]["headers"]["retry-after"]) == (429, "a", "7")
        assert told["headers"] == told["error"]["headers"]  # OpenAI's SDK reads the one, Codex the other
        create(socket, input="Hello", stream_id="a")
        assert text_of(heard(socket)[-1]) == "Two."


def test_a_request_that_wants_no_answer_is_gone_on_from(strict_model: Playing) -> None:
    with strict_model([["Two."]]) as stood, opened(stood.url) as socket:
        create(socket, input="Hello", generate=False)
        first = heard(socket)
        assert [event["type"] for event in first] == ["response.created", "response.completed"]
        assert stood.requests == []
        create(socket, input="More", previous_response_id=first[-1]["response"]["id"])
        assert text_of(heard(socket)[-1]) == "Two."
        received = stood.requests[0].request
        assert received is not None
        assert [message.text for message in received.messages] in (["Hello", "More"], ["Hello\n\nMore"], ["HelloMore"])


def steer(socket: ClientConnection, previous: str, given: Any) -> None:
    """Add something to an answer."""
    socket.send(json.dumps({"type": "response.steer", "previous_response_id": previous, "input": given}))


def begun(socket: ClientConnection) -> str:
    """Hear that an answer has begun, and give its id."""
    return str(heard(socket, "response.created")[-1]["response"]["id"])


@pytest.mark.parametrize("wire", TWO_WIRES)
def test_what_is_added_is_asked_next(wire: str, strict_model: Playing) -> None:
    with strict_model([[Text("One"), Wait(0.2), Text(".")], ["Two."]]) as stood, opened(stood.url) as socket:
        create(socket, input="Hello", stream_id="a", model=f"{NAMES[wire]}/m")
        first = begun(socket)
        steer(socket, first, "And now?")
        steer(socket, first, [{"role": "user", "content": "Quick."}])
        events = heard(socket)
        accepted = [event for event in events if event["type"] == "response.steer.accepted"]
        assert [event["steer"]["previous_response_id"] for event in accepted] == [first, first]
        assert len({event["steer"]["id"] for event in accepted}) == 2
        assert begun(socket) != first
        assert text_of(heard(socket)[-1]) == "Two."
        received = stood.requests[1].request
        assert received is not None
        words = "|".join(message.text for message in received.messages if message.role != "tool")
        assert words.startswith("Hello|One.|And now?")
        assert words.endswith("Quick.")


def test_what_is_added_waits_for_what_a_client_owes(strict_model: Playing) -> None:
    turns = [[Text("One"), Wait(0.2), ToolCall(None, "look", {})], ["Two."]]
    with strict_model(turns) as stood, opened(stood.url) as socket:
        create(socket, input="Hello", tools=[TOOL])
        first = begun(socket)
        steer(socket, first, "And now?")
        pending = heard(socket, "response.steer.pending")[-1]
        [owed] = pending["required_input"]
        assert (owed["type"], owed["name"], pending["reason"]) == (
            "function_call_output",
            "look",
            "waiting_for_required_input",
        )
        create(socket, input=[{**owed, "output": "seen"}], previous_response_id=first, tools=[TOOL])
        assert text_of(heard(socket)[-1]) == "Two."
        received = stood.requests[1].request
        assert received is not None
        assert "And now?" in [message.text for message in received.messages]


def test_what_cannot_be_added_is_given_back(strict_model: Playing) -> None:
    with strict_model([["One."]]) as stood, opened(stood.url) as socket:
        create(socket, input="Hello")
        first = heard(socket)[-1]["response"]["id"]
        tool = [{"type": "function_call_output", "call_id": "c", "output": "x"}]
        for previous, given, code in (
            (first, "More", "response_already_completed"),
            ("resp_0", "More", "response_not_found"),
            (first, tool, "invalid_input"),
            (first, "", "invalid_input"),
        ):
            steer(socket, previous, given)
            told = heard(socket, "response.steer.failed")[-1]
            assert told["error"]["code"] == code
            assert told["steer"] == {"previous_response_id": previous, "input": given}


def test_what_was_added_to_an_answer_that_broke_is_given_back(lenient_model: Playing) -> None:
    turns = [[Text("One"), Wait(0.2), Text("."), Cut()]]
    with lenient_model(Scenario(turns, complete=False)) as stood, opened(stood.url) as socket:
        create(socket, input="Hello")
        first = begun(socket)
        steer(socket, first, "More")
        told = heard(socket, "response.steer.failed")
        assert sum(event["type"] in END for event in told) == 1
        assert told[-1]["error"]["code"] == "response_not_active"
        assert told[-1]["steer"]["input"] == "More"


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_that_breaks_anywhere_ends_once_and_is_not_asked_again(wire: str, lenient_model: Playing) -> None:
    cuts = [Cut(events=number) for number in range(8)]
    turns = [[Text("One, two."), ToolCall(None, "look", {}), cut] for cut in cuts]
    with lenient_model(Scenario(turns, complete=False)) as stood, opened(stood.url) as socket:
        for at in range(len(cuts)):
            create(socket, input="Hello", model=f"{NAMES[wire]}/m", tools=[TOOL])
            events = heard(socket)
            assert [event["type"] in END for event in events].count(True) == 1
            assert len(stood.requests) == at + 1
        steer(socket, "resp_0", "x")  # nothing else was said meanwhile
        assert json.loads(socket.recv(timeout=10))["type"] == "response.steer.failed"


def test_a_client_that_leaves_at_any_event_ends_its_turn(lenient_model: Playing) -> None:
    turns = [[Text("One, "), Wait(0.05), Text("two.")]] * 6
    with lenient_model(Scenario(turns, complete=False)) as stood:
        for events in range(6):
            with opened(stood.url) as socket:
                create(socket, input="Hello")
                for _ in range(events):
                    socket.recv(timeout=10)
        until(lambda: len(stood.seen) >= 6)
        assert {one["ending"] for one in stood.seen} <= {"client gone", "answer"}
        with opened(stood.url) as socket:  # nothing of the others is heard
            create(socket, input="Hello", model="nobody")
            assert heard(socket)[0]["error"]["code"] == "model_not_found"


def test_a_client_that_leaves_lets_go_of_its_provider_at_once(lenient_model: Playing) -> None:
    with lenient_model(Scenario([[Text("One, "), Wait(20.0), Text("two.")]], complete=False)) as stood:
        with opened(stood.url) as socket:
            create(socket, input="Hello")
            socket.recv(timeout=10)
        left = time.monotonic()
        until(lambda: bool(stood.seen))
        assert [one["ending"] for one in stood.seen] == ["client gone"]
        assert time.monotonic() - left < 3  # a turn that nobody ended would be cancelled after five


def test_a_connection_ends_after_its_time(monkeypatch: pytest.MonkeyPatch, strict_model: Playing) -> None:
    monkeypatch.setattr(sockets, "_SECONDS", 0.3)
    with strict_model([]) as stood, opened(stood.url) as socket:
        assert heard(socket)[-1]["error"]["code"] == "websocket_connection_limit_reached"
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)


def test_a_connection_has_so_many_lanes(monkeypatch: pytest.MonkeyPatch, lenient_model: Playing) -> None:
    monkeypatch.setattr(sockets, "_LANES", 1)
    with lenient_model(Scenario([[Wait(0.2), "One."], ["Two."]])) as stood, opened(stood.url) as socket:
        create(socket, input="Hello", stream_id="a")
        create(socket, input="Hello", stream_id="b")
        assert heard(socket, "error")[-1]["error"]["code"] == "too_many_streams"
        ends = [heard(socket)[-1]]

        def is_answered() -> bool:
            create(socket, input="Hello", stream_id="b")
            ends.append(heard(socket)[-1])
            return bool(ends[-1]["type"] != "error")

        until(is_answered)  # the end is told a moment before the lane is free
        assert [text_of(end) for end in (ends[0], ends[-1])] == ["One.", "Two."]


@pytest.mark.parametrize("off", [False, True])
def test_where_there_is_none_it_is_a_404_at_once(off: bool, strict_model: Playing) -> None:
    with strict_model([]) as stood:
        stood.gateway.websocket = not off
        path = "/v1/responses" if off else "/v1/chat/completions"
        try:
            with pytest.raises(InvalidStatus) as refused, connect(f"ws{stood.url.removeprefix('http')}{path}"):
                pass
        finally:
            stood.gateway.websocket = True
        assert refused.value.response.status_code == 404
        assert json.loads(refused.value.response.body or b"")["error"]["message"]


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
def test_pages_of_others_open_none(headers: dict[str, str], strict_model: Playing) -> None:
    with strict_model([]) as stood, pytest.raises(InvalidStatus) as refused, opened(stood.url, **headers):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer tw-nobody"}, {"x-api-key": ""}])
def test_none_is_opened_without_a_key(headers: dict[str, str], guarded: Guarded) -> None:
    with pytest.raises(InvalidStatus) as refused, opened(guarded.stood.url, **headers):
        pass
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["error"]["type"] == "authentication_error"
    assert [(one["status"], one["path"]) for one in guarded.stood.seen.first(1)] == [(401, "/v1/responses")]


def test_each_answer_is_limited_and_settled_as_one_over_http(guarded: Guarded) -> None:
    key = guarded.make(requests="2/day", budget="1/day")
    with opened(guarded.stood.url, Authorization=f"Bearer {key}") as socket:
        ends = []
        for _ in range(3):
            create(socket, input="Hello", model="openai/m")
            ends.append(heard(socket)[-1])
    assert [end["type"] for end in ends] == ["response.completed", "response.completed", "error"]
    assert (ends[2]["status"], ends[2]["error"]["code"]) == (429, "limit_reached")
    assert int(ends[2]["headers"]["retry-after"]) > 0
    [kept] = guarded.ledger.listed()
    seen = guarded.stood.seen.first(3)
    assert [(one["key"], one["status"]) for one in seen] == [(kept.id, 200), (kept.id, 200), (kept.id, 429)]
    spent = round(sum(one["cost"] for one in seen) * 1e9)
    assert spent > 0
    until(lambda: sorted(guarded.ledger.taken(kept, time.time()).values()) == [2, spent])
    assert sorted(guarded.ledger.taken(kept, time.time()).values()) == [2, spent]


def test_a_key_that_is_revoked_or_may_not_ask_is_told_so_on_an_open_connection(guarded: Guarded) -> None:
    key = guarded.make("openai/*")
    with opened(guarded.stood.url, **{"x-api-key": key}) as socket:
        create(socket, input="Hello", model="anthropic/m")
        assert heard(socket)[-1]["error"]["code"] == "model_not_allowed"
        create(socket, input="Hello", model="openai/m")
        first = heard(socket)[-1]
        create(socket, input="More", model="openai/m", previous_response_id=first["response"]["id"])
        assert heard(socket)[-1]["type"] == "response.completed"
        assert [message.text for message in guarded.model.requests[-1].request.messages] == ["Hello", "Hello.", "More"]  # type: ignore[union-attr]
        guarded.ledger.revoke(guarded.ledger.listed()[0].id, time.time())
        time.sleep(1.1 * FRESH)
        create(socket, input="Hello", model="openai/m")
        assert heard(socket)[-1]["status"] == 401


def echo(request: Any, _turn: int) -> list[Any]:
    """Answer with what was asked, in pieces."""
    words = " ".join(message.text for message in request.messages if message.role == "user")
    return [Text("You said "), Text(words)]


async def converse(client: openai.AsyncOpenAI, name: str, cut: int | None = None) -> list[str]:
    """Lead a conversation of three turns; the connection is cut once, after so many events of the second one."""
    heard: list[str] = []
    previous: Any = openai.omit
    turn = 0
    while turn < 3:
        async with client.responses.connect() as connection:
            while turn < 3:
                asked: Any = {"model": "anthropic/m", "input": f"{name}-{turn}", "previous_response_id": previous}
                await connection.response.create(**asked)
                count, last = 0, None
                async for event in connection:
                    count += 1
                    last = event
                    if event.type in END or (turn == 1 and count == cut):
                        break
                if turn == 1 and cut is not None:
                    cut = None
                    connection._connection.transport.abort()  # a cable that is pulled
                    break
                assert last is not None
                assert last.type == "response.completed"
                heard.append(last.response.output_text)
                previous, turn = last.response.id, turn + 1
    return heard


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")  # openai 3.52.0 does not
def test_a_hundred_conversations_at_once_and_cuts_at_every_event() -> None:
    async def lead(url: str) -> list[list[str]]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key") as client:
            cuts = [at % 20 or None for at in range(100)]
            return await asyncio.gather(*(converse(client, f"c{at}", cut) for at, cut in enumerate(cuts)))

    with simulate(Scenario(echo, complete=False)) as model, standing(model.url) as stood:
        told = asyncio.run(lead(stood.url))
        asked = Counter(one.request.messages[-1].text for one in model.requests if one.request is not None)
        until(lambda: len(stood.seen) >= 300)
        endings = Counter(one["ending"] for one in stood.seen)
    whole = [[f"c{at}-{turn}" for turn in range(3)] for at in range(100)]
    assert told == [[f"You said {' '.join(said[: turn + 1])}" for turn in range(3)] for said in whole]
    assert all(asked[said[0]] == asked[said[2]] == 1 for said in whole), "what was heard is not asked again"
    assert max(asked.values()) <= 2, "the gateway asks nothing twice by itself"
    assert set(endings) <= {"answer", "client gone"}
    assert endings["answer"] >= 300


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")  # likewise
def test_connections_leave_nothing_behind() -> None:
    """Ten minutes in `make torture`, seconds otherwise: what the process holds does not grow."""
    seconds = 600 if FULL else 20

    async def lead(url: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key") as client:
            await asyncio.gather(*(converse(client, f"c{at}", at or None) for at in range(10)))

    with simulate(Scenario(echo, complete=False)) as model, standing(model.url) as stood:
        stood.gateway.context.memory = ProcessMemory(1 << 20, 60)
        begin, sizes = time.monotonic(), list[int]()
        while time.monotonic() - begin < seconds:
            asyncio.run(lead(stood.url))
            model.requests.clear()
            stood.seen.clear()
            gc.collect()
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())
        assert stood.gateway.running == 0
    settled = sizes[len(sizes) // 4 :]
    assert len(settled) > 2
    assert max(settled[-len(settled) // 3 :]) - max(settled[: len(settled) // 3 + 1]) < 24 * 1024 * 1024, settled
