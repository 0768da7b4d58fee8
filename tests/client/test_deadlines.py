"""The total time of a request and the budget of an answer, at their edges; the clock belongs to the test."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from toolwire import Context, Error, Message, Request, Response, Usage, dialect
from toolwire.client import exchange
from toolwire.client.exchange import ExchangeState, ProviderConnection, Retries, Retrying, exchange_steps
from toolwire.providers import PROVIDERS
from toolwire.providers.catalogue import cost
from toolwire.waiting.steps import Emit, Together
from toolwire.wire.transport import Bounds, Timeouts, TransportError

REQUEST = Request(model="gpt-4o", context=Context("", [Message("Hi")]))
BUSY = {"error": {"message": "busy", "type": "server_error"}}


class Server:
    """A transport whose every answer takes `seconds` of the test's clock; it counts what it was given."""

    def __init__(self, seconds: float = 0.0, *, status: int = 503, headers: Any = (), pieces: Any = None) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.status, self.headers = status, dict(headers)
        self.pieces = [json.dumps(BUSY).encode()] if pieces is None else pieces
        self.begun: list[float] = []
        self.timeouts: list[float | None] = []

    def send(self, _request: Any, timeouts: Timeouts, _stop: Any = None) -> "Server":
        """Answer after some seconds; the total time of the request ends the wait."""
        self.begun.append(self.now)
        self.timeouts.append(timeouts.total)
        if timeouts.total is not None and self.seconds > timeouts.total:
            self.now += timeouts.total
            raise TransportError("timeout", "too late")
        self.now += self.seconds
        self.left = list(self.pieces)
        return self

    def read(self) -> bytes:
        """Return the next piece of the answer."""
        return self.left.pop(0) if self.left else b""


def asked(
    server: Server, request: Request = REQUEST, sent: ExchangeState | None = None, **options: Any
) -> tuple[Any, list[float]]:
    """Send a request, and return what came of it and the pauses; a pause moves the clock."""
    openai = replace(PROVIDERS["openai"], api_key="k", base_url="http://127.0.0.1:1")
    transport: Any = server
    upstream = ProviderConnection(
        openai, dialect("openai-chat"), transport, now=lambda: server.now, jitter=lambda: 1.0, **options
    )
    work, pauses = exchange_steps(upstream, request, sent), list[float]()
    outcome: Any = None
    problem: TransportError | None = None
    while True:
        try:
            step = work.throw(problem) if problem is not None else work.send(outcome)
        except StopIteration as ended:
            return ended.value, pauses
        outcome = problem = None
        if isinstance(step, Emit):
            assert not isinstance(step.value, Retrying) or step.value.seconds >= 0
        elif isinstance(step, Together):
            raise TypeError("an exchange does one thing at a time")
        elif step.function is exchange._sleep:
            pauses.append(step.arguments[0])
            server.now += step.arguments[0]
        else:
            try:
                outcome = step.function(*step.arguments)
            except TransportError as raised:
                problem = raised


def failure_of(outcome: Response | Error) -> str | int | None:
    """Return the code of an error; None for an answer."""
    return outcome.code if isinstance(outcome, Error) else None


# The total time, the seconds of each answer, `Retry-After`, and the pauses. Without `Retry-After` they are 1, 2, 4, 8.
PAUSES: list[tuple[float | None, float, str, list[float]]] = [
    (None, 0.0, "", [1.0, 2.0, 4.0, 8.0]),
    (16.0, 0.0, "", [1.0, 2.0, 4.0, 8.0]),
    (15.0, 0.0, "", [1.0, 2.0, 4.0]),
    (7.5, 0.0, "", [1.0, 2.0, 4.0]),
    (7.0, 0.0, "", [1.0, 2.0]),
    (3.5, 0.0, "", [1.0, 2.0]),
    (3.0, 0.0, "", [1.0]),
    (1.5, 0.0, "", [1.0]),
    (1.0, 0.0, "", []),
    (0.5, 0.0, "", []),
    (0.0, 0.0, "", []),
    (10.0, 4.0, "", [1.0]),
    (10.0, 3.0, "", [1.0, 2.0]),
    (10.0, 9.0, "", []),
    (10.0, 12.0, "", []),
    (10.0, 0.0, "9", [9.0]),
    (10.0, 0.0, "10", []),
    (10.0, 0.0, "11", []),
    (100.0, 0.0, "20", [20.0, 20.0, 20.0, 20.0]),
    (100.0, 0.0, "1000", [60.0]),
    (None, 0.0, "1000", [60.0, 60.0, 60.0, 60.0]),
]


@pytest.mark.parametrize(("total", "seconds", "asked_for", "pauses"), PAUSES)
def test_no_pause_ends_at_or_after_the_total_time(
    total: float | None, seconds: float, asked_for: str, pauses: list[float]
) -> None:
    server = Server(seconds, headers={"retry-after": asked_for} if asked_for else {})
    retries = Retries(attempts=5, base=1.0)
    outcome, made = asked(server, timeouts=Timeouts(total=total), retries=retries)
    assert isinstance(outcome, Error)
    assert made == pauses
    assert len(server.begun) == len(pauses) + 1
    assert total is None or server.now <= total
    assert server.timeouts == [None if total is None else total - begun for begun in server.begun]


@pytest.mark.parametrize(("attempts", "pauses"), [(1, 0), (2, 1), (3, 2)])
def test_a_request_is_sent_as_often_as_allowed(attempts: int, pauses: int) -> None:
    server = Server()
    _, made = asked(server, retries=Retries(attempts=attempts))
    assert (len(server.begun), len(made)) == (attempts, pauses)


# Seconds that each piece takes, how many pieces come, and whether the answer is given up at a total time of 10.
@pytest.mark.parametrize(
    ("seconds", "count", "late"), [(2.5, 3, False), (2.5, 4, False), (2.5, 5, True), (11, 1, True)]
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_takes_longer_than_the_total_time_is_given_up(
    seconds: float, count: int, late: bool, stream: bool
) -> None:
    server = Server(
        status=200, headers={"content-type": "text/event-stream"} if stream else {}, pieces=PIECES[stream](count)
    )
    read = server.read

    def slowly() -> bytes:
        piece = read()
        server.now += seconds if piece else 0.0
        return piece

    server.read = slowly  # type: ignore[method-assign]
    outcome, _ = asked(
        server, replace(REQUEST, stream=stream), timeouts=Timeouts(total=10.0), retries=Retries(attempts=1)
    )
    assert failure_of(outcome) == ("transport_timeout" if late else None)


def plain(count: int) -> list[bytes]:
    """Return a whole answer in so many pieces."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello, world."}, "finish_reason": "stop"}
    data = json.dumps(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    ).encode()
    return [data[at * len(data) // count : (at + 1) * len(data) // count] for at in range(count)]


def streamed(count: int, words: str = "word ", usage: Any = None) -> list[bytes]:
    """Return a streamed answer in so many pieces, the last of them with its end."""
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta = [{"index": 0, "delta": {"role": "assistant", "content": words}, "finish_reason": None}]
    bodies = [{**chunk, "choices": delta} for _ in range(count)]
    pieces = [b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies]
    ends: list[Any] = [{**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    ends += [] if usage is None else [{**chunk, "choices": [], "usage": usage}]
    pieces[-1] += b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in ends) + b"data: [DONE]\n\n"
    return pieces


PIECES: dict[bool, Any] = {False: plain, True: streamed}


# The tokens that are left, the tokens of the prompt and of the answer that the server has reported, the characters that
# came, and whether the answer is given up. A token has at most 8 characters.
TOKENS = [
    (11, (4, 6), 8, False),
    (10, (4, 6), 8, False),
    (9, (4, 6), 8, True),
    (10, (4, 6), 48, False),
    (10, (4, 6), 55, False),
    (10, (4, 6), 56, True),
    (0, (0, 0), 7, False),
    (0, (0, 0), 8, True),
    (-1, (0, 0), 1, True),
]


@pytest.mark.parametrize(("left", "reported", "characters", "over"), TOKENS)
def test_a_streamed_answer_is_given_up_when_it_has_used_more_tokens_than_were_left(
    left: int, reported: tuple[int, int], characters: int, over: bool
) -> None:
    counts = {"prompt_tokens": reported[0], "completion_tokens": reported[1]}
    pieces = streamed(2, "x" * characters)
    pieces[0] = streamed(1, "x" * characters, counts)[0].partition(b"data: [DONE]")[0].replace(b'"stop"', b"null")
    pieces[1] = streamed(1, "")[0]
    sent = ExchangeState(tokens=left)
    outcome, _ = asked(Server(status=200, pieces=pieces), replace(REQUEST, stream=True), sent)
    assert failure_of(outcome) == ("transport_cancelled" if over else None)
    assert sent.over_budget == (
        f"the answer has used more than the {max(0, left)} tokens that were left" if over else ""
    )


# How many times the price of the answer is left, and whether the answer is given up.
@pytest.mark.parametrize(("times", "over"), [(1.01, False), (1.0, False), (0.99, True), (0.0, True)])
def test_a_streamed_answer_is_given_up_when_it_costs_more_than_was_left(times: float, over: bool) -> None:
    price = cost(Usage(0, 100), REQUEST.model)
    assert price
    pieces = streamed(1, "x", {"prompt_tokens": 0, "completion_tokens": 100})[0].partition(b"data: [DONE]")
    sent = ExchangeState(cost=price * times)
    server = Server(status=200, pieces=[pieces[0], b"".join(pieces[1:])])
    outcome, _ = asked(server, replace(REQUEST, stream=True), sent)
    assert failure_of(outcome) == ("transport_cancelled" if over else None)
    assert bool(sent.over_budget) is over


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("more", "over"), [(1, False), (0, False), (-1, True)])
def test_an_answer_has_at_most_as_many_bytes_as_allowed(more: int, over: bool, stream: bool) -> None:
    pieces = PIECES[stream](3)
    server = Server(status=200, pieces=pieces)
    bounds = Bounds(bytes=len(b"".join(pieces)) + more)
    outcome, _ = asked(server, replace(REQUEST, stream=stream), bounds=bounds)
    assert failure_of(outcome) == ("transport_too_long" if over else None)
    assert len(server.begun) == 1


# Each piece has one event; the first piece has two more, which begin the answer and its text. The events of the last
# piece are not counted: nothing is read after them.
@pytest.mark.parametrize(("events", "over"), [(8, False), (7, False), (6, True)])
def test_a_streamed_answer_has_at_most_as_many_events_as_allowed(events: int, over: bool) -> None:
    pieces = streamed(6)
    server = Server(status=200, pieces=pieces)
    outcome, _ = asked(server, replace(REQUEST, stream=True), bounds=Bounds(events=events))
    assert failure_of(outcome) == ("transport_too_long" if over else None)
    assert len(server.begun) == 1
