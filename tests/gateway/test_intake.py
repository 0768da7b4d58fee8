"""The room for messages of WebSockets: who finds none waits, small ones find some, and somebody always goes on."""

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from tests.gateway.standing import Stood, standing
from tests.gateway.test_sockets import create, heard, opened, until
from toolwire.gateway import socket_protocol
from toolwire.gateway.intake import Intake, Receiving
from toolwire.testing import simulate

KILO = 1024


class Sender:
    """A connection that counts how often its reading was stopped and started."""

    def __init__(self, room: Intake, owner: str = "") -> None:
        self.reads = True
        self.receiving = Receiving(room, lambda: self._set(False), lambda: self._set(True), owner)

    def _set(self, reads: bool) -> None:
        assert self.reads is not reads, "it is told only what changes"
        self.reads = reads


def test_small_messages_always_find_room() -> None:
    room = Intake(100 * KILO)
    senders = [Sender(room) for _ in range(50)]
    for sender in senders:
        sender.receiving.add(64 * KILO)
    assert all(sender.reads for sender in senders)
    assert room.bytes == 50 * 64 * KILO


def test_who_finds_no_room_waits_and_goes_on_in_order() -> None:
    room = Intake(300 * KILO)
    first, second, third = (Sender(room) for _ in range(3))
    for sender in (first, second, third):
        sender.receiving.add(150 * KILO)
    assert [one.reads for one in (first, second, third)] == [True, True, False]
    first.receiving.add(100 * KILO)
    second.receiving.add(1)
    assert [one.reads for one in (first, second, third)] == [True, False, False], "the first one always goes on"
    first.receiving.add(-250 * KILO)
    assert [one.reads for one in (first, second, third)] == [True, True, False]
    second.receiving.add(-150 * KILO)
    assert all(one.reads for one in (first, second, third))
    for sender in (first, second, third):
        sender.receiving.close()
        sender.receiving.add(10**9)  # what is said of a connection that is gone counts for nothing
    assert room.bytes == 0


def test_an_owner_waits_for_itself_and_for_no_other() -> None:
    room = Intake(1000 * KILO, 200 * KILO)
    mine, yours = [Sender(room, "me") for _ in range(3)], Sender(room, "you")
    for sender in mine:
        sender.receiving.add(150 * KILO)
    yours.receiving.add(190 * KILO)
    assert [one.reads for one in (*mine, yours)] == [True, False, False, True]
    mine[1].receiving.set_owner("another")
    assert [one.reads for one in (*mine, yours)] == [True, True, False, True]


@pytest.mark.parametrize("seed", range(20))
def test_somebody_always_goes_on_and_all_come_to_their_end(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a game
    room = Intake(500 * KILO, 200 * KILO)
    senders = [Sender(room, chance.choice("abc")) for _ in range(12)]
    left = {sender: chance.randrange(1, 900) * KILO for sender in senders}
    most = 0
    while left:
        able = [sender for sender in left if sender.reads]
        assert able, "nobody is read"
        sender = chance.choice(able)
        size = min(left[sender], chance.randrange(1, 65) * KILO)
        sender.receiving.add(size)
        most, left[sender] = max(most, room.bytes), left[sender] - size
        if not left[sender]:
            del left[sender]
            chance.choice((lambda one: one.close(), lambda one: one.add(-one.bytes)))(sender.receiving)
    assert room.bytes == 0
    assert most <= (500 + 900 + 12 * (64 + 64)) * KILO


@pytest.fixture
def stood() -> Iterator[Stood]:
    with simulate(lambda _request, _turn: "One.", strict=False) as model, standing(model.url) as gateway:
        gateway.gateway.context.intake = Intake(300 * KILO)
        yield gateway


def large(stream_id: str, size: int = 290 * KILO) -> str:
    """Write a request that wants no answer."""
    body = {"type": "response.create", "model": "anthropic/m", "stream_id": stream_id, "generate": False}
    return json.dumps({**body, "input": "x" * size})


def sent_later(socket: ClientConnection, text: str, goes_on: threading.Event) -> threading.Thread:
    """Send a message whose second half comes when it is told to."""

    def pieces() -> Iterator[str]:
        yield text[: len(text) // 2]
        goes_on.wait(20)
        yield text[len(text) // 2 :]

    def send() -> None:
        with contextlib.suppress(ConnectionClosed):
            socket.send(pieces())

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_a_message_waits_for_room_and_small_ones_do_not(stood: Stood) -> None:
    goes_on, intake = threading.Event(), stood.gateway.context.intake
    with opened(stood.url) as one, opened(stood.url) as other, opened(stood.url) as third:
        first = sent_later(one, large("a", 500 * KILO), goes_on)
        until(lambda: intake.bytes > 200 * KILO)
        second = threading.Thread(target=lambda: other.send(large("b")))
        second.start()
        create(third, input="Hello")
        assert heard(third)[-1]["type"] == "response.completed"
        with pytest.raises(TimeoutError):
            other.recv(timeout=0.3)
        goes_on.set()
        for socket in (one, other):
            assert heard(socket)[-1]["type"] == "response.completed"
        first.join(10)
        second.join(10)
    until(lambda: intake.bytes == 0)
    assert intake.bytes == 0


def test_who_leaves_in_the_middle_makes_room(stood: Stood) -> None:
    goes_on, intake = threading.Event(), stood.gateway.context.intake
    with opened(stood.url) as other:
        with opened(stood.url) as one:
            first = sent_later(one, large("a", 900 * KILO), goes_on)
            until(lambda: intake.bytes > 300 * KILO)
            second = threading.Thread(target=lambda: other.send(large("b")))
            second.start()
            one.socket.shutdown(2)
            goes_on.set()
            with pytest.raises(ConnectionClosed):
                one.recv(timeout=10)
        assert heard(other)[-1]["type"] == "response.completed"
        second.join(10)
        first.join(10)
    until(lambda: intake.bytes == 0)
    assert intake.bytes == 0


def test_who_sends_too_slowly_is_closed(stood: Stood, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_protocol, "_SECONDS", 0.3)
    goes_on = threading.Event()
    with opened(stood.url) as socket:
        thread = sent_later(socket, large("a", 400 * KILO), goes_on)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "a message took longer than 0.3 s")
        goes_on.set()
        thread.join(10)
    until(lambda: stood.gateway.context.intake.bytes == 0)
    assert stood.gateway.context.intake.bytes == 0


def test_frames_without_content_and_without_an_end_are_closed(stood: Stood, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_protocol, "_FRAMES", 500 * KILO - stood.gateway.limits.body)
    with opened(stood.url) as socket:
        with contextlib.suppress(OSError):
            socket.socket.sendall(b"\x01\x80abcd" + b"\x00\x80abcd" * 100_000)
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=20)
    until(lambda: stood.gateway.context.intake.bytes == 0)
    assert stood.gateway.context.intake.bytes == 0


def test_a_connection_that_waits_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uvicorn.Config", _with_quick_pings())
    with simulate(lambda _request, _turn: "One.", strict=False) as model, standing(model.url) as stood:
        stood.gateway.context.intake = Intake(300 * KILO)
        goes_on = threading.Event()
        with opened(stood.url) as one, opened(stood.url) as other:
            first = sent_later(one, large("a", 600 * KILO), goes_on)
            until(lambda: stood.gateway.context.intake.bytes > 200 * KILO)
            second = threading.Thread(target=lambda: other.send(large("b")))
            second.start()
            time.sleep(1.2)
            goes_on.set()
            for socket in (one, other):
                assert heard(socket)[-1]["type"] == "response.completed"
            first.join(10)
            second.join(10)


def _with_quick_pings() -> Callable[..., Any]:
    import uvicorn

    config = uvicorn.Config

    def made(*args: Any, **more: Any) -> Any:
        return config(*args, **{**more, "ws_ping_interval": 0.2, "ws_ping_timeout": 0.2})

    return made
