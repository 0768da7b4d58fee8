"""What a network does wrong below HTTP, over real sockets: typed, in time, and not tried too often."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.client.faces import DIALECTS, FACES, RUN, TOKYO, get_weather, lead, legal
from toolwire import Cancel, Context, Message, ToolCall, ToolResult, tool
from toolwire.client.exchange import Retries
from toolwire.client.failures import ProviderError, ProviderTimeout, ProviderUnavailable
from toolwire.loop import LoopLimits
from toolwire.testing import Cut, Wait, simulate
from toolwire.wire.transport import Timeouts

pytestmark = pytest.mark.slow  # it waits for timeouts

# The fast suite goes through sync code; whatever a wait is shown by, one of a kind.
SOME = ["sync", pytest.param("async", marks=pytest.mark.slow)]
ONCE = Retries(attempts=1)
QUICK = Retries(attempts=3, base=0.001)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
Answer = Callable[[socket.socket], None]


@contextmanager
def serving(answer: Answer, scheme: str = "http") -> Iterator[tuple[str, list[float]]]:
    """Give the address of a server that does this to each connection, and when they came."""
    server = socket.create_server(("127.0.0.1", 0))
    came: list[float] = []
    held: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            came.append(time.monotonic())
            held.append(connection)
            threading.Thread(target=attempt, args=(connection,), daemon=True).start()

    def attempt(connection: socket.socket) -> None:
        try:
            answer(connection)
        except OSError:
            return

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.getsockname()[1]}", came
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in held:
            connection.close()
        thread.join(10)


def reset(connection: socket.socket) -> None:
    """Close as a crash does."""
    connection.recv(65536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    connection.close()


def hang_up(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.close()


def half_close(connection: socket.socket) -> None:
    """Say that there is no more, in the middle of a body, and go on listening."""
    connection.recv(65536)
    connection.sendall(HEAD + b'content-length: 1000\r\n\r\n{"choices": [')
    connection.shutdown(socket.SHUT_WR)


def half_chunk(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(HEAD + b'transfer-encoding: chunked\r\n\r\nff\r\n{"choices": [')
    connection.shutdown(socket.SHUT_WR)


def wrong_chunk(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\nno number\r\n{}")


def wrong_encoding(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(HEAD + b"content-encoding: gzip\r\ncontent-length: 6\r\n\r\nno zip")
    connection.close()


def half_head(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(HEAD[:20])
    connection.close()


def talk_plainly(connection: socket.socket) -> None:
    """Answer a TLS greeting as a server without TLS does."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
    connection.close()


def stall(connection: socket.socket) -> None:
    connection.recv(65536)


def stall_in_the_body(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(HEAD + b'content-length: 1000\r\n\r\n{"choices": [')


def never_read(connection: socket.socket) -> None:
    assert connection.fileno() > 0


LOST: dict[str, tuple[Answer, str]] = {
    "reset before the head": (reset, "http"),
    "closed before the head": (hang_up, "http"),
    "closed in the head": (half_head, "http"),
    "half closed": (half_close, "http"),
    "half closed in a chunk": (half_chunk, "http"),
    "a chunk without a size": (wrong_chunk, "http"),
    "no gzip where it says so": (wrong_encoding, "http"),
    "no TLS where it is wanted": (talk_plainly, "https"),
}


@pytest.mark.parametrize("shown", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("case", LOST)
@pytest.mark.row("J9", "J11")
def test_a_connection_that_fails_is_typed_and_tried_as_often_as_said(case: str, face: str, shown: bool) -> None:
    """No layer below tries again by itself."""
    answer, scheme = LOST[case]
    for retries in (ONCE, QUICK):
        with serving(answer, scheme) as (url, came):
            with pytest.raises(ProviderUnavailable) as found:
                lead(face, "openai", url, "?", shown=shown, options={"retries": retries})
            assert len(came) == retries.attempts
        assert found.value.provider == "openai"
        assert str(found.value.error.code).startswith("transport_")


LATE: dict[str, tuple[Answer, Timeouts]] = {
    "no head": (stall, Timeouts(connect=0.1, first=0.2)),
    "a body that stops": (stall_in_the_body, Timeouts(between=0.2)),
    "TLS that is never answered": (stall, Timeouts(connect=0.2, first=0.2)),
    "a request that is never read": (never_read, Timeouts(connect=0.1, first=0.2)),
}


@pytest.mark.parametrize("face", SOME)
@pytest.mark.parametrize("case", ["no head", *(pytest.param(case, marks=pytest.mark.slow) for case in [*LATE][1:])])
@pytest.mark.row("J9")
def test_a_server_that_stalls_is_too_late(case: str, face: str) -> None:
    answer, timeouts = LATE[case]
    prompt = "x" * 20_000_000 if "never read" in case else "?"
    with serving(answer, "https" if "TLS" in case else "http") as (url, came):
        begun = time.monotonic()
        with pytest.raises(ProviderTimeout):
            lead(face, "openai", url, prompt, options={"timeouts": timeouts, "retries": ONCE})
        assert time.monotonic() - begun < 15
        assert len(came) == 1


@pytest.mark.parametrize("face", SOME)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("J11")
def test_a_client_that_was_told_nothing_tries_three_times(name: str, face: str) -> None:
    """Counted at the server; no vendor's SDK with retries of its own is in between."""
    with serving(hang_up) as (url, came):
        with pytest.raises(ProviderError):
            lead(face, name, url, "?", options={"retries": Retries(base=0.001)})
        assert len(came) == Retries().attempts == 3


@pytest.mark.parametrize("face", SOME)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("J9", "J10")
def test_what_was_said_is_not_said_twice_after_a_tool_ran(name: str, face: str) -> None:
    """The second answer breaks off; its words stay once, and the tool is not run again."""
    RUN.clear()
    script = [["I look.", TOKYO], ["It is ", Wait(0.02), Cut(reset=True)]]
    with simulate(script) as model:
        led = lead(face, name, model.url, "?", shown=True, tools=[get_weather], options={"retries": QUICK})
        assert len(model.requests) == 2
    assert RUN == ["Tokyo"]
    assert (led.done.ending, led.done.content) == ("error", "It is ")
    words = "".join(item.text for item in led.items if type(item).__name__ == "TextDelta")
    assert words == "I look.It is "
    assert legal(led.done.messages)


@pytest.mark.parametrize("face", SOME)
@pytest.mark.row("J10")
def test_a_call_that_was_stopped_says_that_it_may_have_run_and_is_not_run_again(face: str) -> None:
    """What nobody knows is said, and whoever goes on with the history reads it."""
    cancel = Cancel()
    ran: list[str] = []

    @tool
    def send_mail(to: str) -> str:
        """Send a mail, once."""
        ran.append(to)
        cancel()
        time.sleep(0.3)
        return "sent"

    with simulate([[ToolCall(None, "send_mail", {"to": "ann"})]]) as model:
        done = lead(face, "anthropic", model.url, "?", tools=[send_mail], cancel=cancel).done
    [result] = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert (done.ending, result.is_error, ran) == ("cancelled", True, ["ann"])
    assert "may have run" in str(result.content)
    context = Context(None, [Message("?"), *done.messages, Message("Go on.")])
    with simulate([["It may have been sent."]]) as model:
        assert lead(face, "openai", model.url, context, tools=[send_mail]).done.ending == "answer"
    assert "may have run" in str(model.requests[0].body)
    assert ran == ["ann"]


class Jumping:
    """A clock that goes an hour back and forth each time that it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.true = time.time

    def __call__(self) -> float:
        self.asked += 1
        return self.true() + (3600 if self.asked % 2 else -3600)


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Jumping:
    """Let the clock of the wall jump."""
    clock = Jumping()
    monkeypatch.setattr(time, "time", clock)
    return clock


@pytest.mark.parametrize("shown", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("face", SOME)
@pytest.mark.row("J17")
def test_times_hold_while_the_clock_jumps(face: str, shown: bool, jumping: Jumping) -> None:
    """Timeouts, budgets and pauses go by the clock that only goes forward."""

    @tool(timeout=0.05)
    def hang() -> str:
        """Hang."""
        time.sleep(0.3)
        return "late"

    begun = time.monotonic()
    script = [[ToolCall(None, "hang", {})], [Cut()], ["Done."]]
    with simulate(script) as model:
        options = {"retries": QUICK, "timeouts": Timeouts(connect=5, first=5, between=5, total=10)}
        limits = LoopLimits(seconds=5)
        done = lead(face, "openai", model.url, "?", shown=shown, tools=[hang], limits=limits, options=options).done
    assert done.ending == "answer"
    [result] = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert "took longer than" in str(result.content)
    options = {"retries": ONCE, "timeouts": Timeouts(connect=0.1, first=0.1)}
    with simulate([[Wait(30), "Late."]]) as model, pytest.raises(ProviderTimeout):
        lead(face, "openai", model.url, "?", shown=shown, options=options)
    assert time.monotonic() - begun < 15
    time.time()
    assert jumping.asked, "a control"
