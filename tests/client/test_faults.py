"""What a server or a network does wrong: tried again where that helps, typed, and never told twice."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, KEY, RUN, TOKYO, chat, get_weather, lead, legal
from toolwire import Error, TextDelta, ToolCall
from toolwire.client.exchange import Retries, Retrying
from toolwire.client.failures import (
    AuthenticationFailed,
    ContextTooLong,
    ProviderError,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    RequestRefused,
)
from toolwire.errors import InvalidField
from toolwire.testing import Cut, Fail, Pace, Raw, Wait, simulate
from toolwire.wire.transport import Timeouts

pytestmark = pytest.mark.slow

QUICK = Retries(attempts=3, base=0.01)
ONCE = Retries(attempts=1)
RETRIED = (408, 429, 500, 502, 503, 504, 529)
FINAL = (400, 401, 403, 404, 413, 422)


def raw(status: int) -> Raw:
    return Raw(b'{"error": {"message": "No.", "type": "x"}}', status, "application/json")


def attempts(model: Any) -> int:
    return len(model.requests)


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("status", RETRIED)
@pytest.mark.row("J8")
def test_what_passes_is_tried_again(status: int, face: str, shown: bool) -> None:
    with simulate([[raw(status)], [raw(status)], ["Here."]]) as model:
        led = lead(face, "openai", model.url, "?", shown=shown, options={"retries": QUICK})
        assert (led.done.content, attempts(model)) == ("Here.", 3)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("status", FINAL)
@pytest.mark.row("J8")
def test_what_stays_is_not_tried_again(status: int, face: str) -> None:
    with simulate([[raw(status)]]) as model:
        with pytest.raises(ProviderError) as found:
            lead(face, "openai", model.url, "?", options={"retries": QUICK})
        assert (found.value.status, found.value.retryable, attempts(model)) == (status, False, 1)
        assert found.value.request_id
        assert found.value.provider == "openai"


SAID = {(500, "false"): 1, (429, "false"): 1, (400, "true"): 3, (500, "true"): 3, (400, "maybe"): 1, (500, ""): 3}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("status", "said"), SAID)
def test_a_server_says_whether_it_is_worth_trying_again(status: int, said: str, face: str) -> None:
    with simulate(Fail(status, headers={"x-should-retry": said})) as model:
        with pytest.raises(ProviderError, match="The scenario says"):
            lead(face, "openai", model.url, "?", options={"retries": QUICK})
        assert attempts(model) == SAID[status, said]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("tries", [1, 2, 4])
@pytest.mark.row("J11")
def test_it_is_tried_as_often_as_said(tries: int, face: str) -> None:
    with simulate(Error("server", "Broken.")) as model:
        with pytest.raises(ProviderUnavailable):
            lead(face, "anthropic", model.url, "?", options={"retries": Retries(attempts=tries, base=0.01)})
        assert attempts(model) == tries


KINDS: dict[Any, type[ProviderError]] = {
    "authentication": AuthenticationFailed,
    "rate_limit": RateLimited,
    "context_length": ContextTooLong,
    "invalid_request": RequestRefused,
    "not_found": RequestRefused,
    "server": ProviderUnavailable,
    "overloaded": ProviderUnavailable,
}
UNSAID = {(name, "context_length") for name in ("anthropic", "gemini", "ollama")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("I-24")
def test_an_error_is_typed(name: str, kind: Any) -> None:
    if (name, kind) in UNSAID:
        pytest.skip("this wire has no word for it")
    with simulate(Error(kind, f"It is {kind}.")) as model, pytest.raises(KINDS[kind], match=f"It is {kind}"):
        chat("sync", name, model.url, "?", options={"retries": ONCE})


@pytest.mark.parametrize("face", FACES)
def test_a_client_waits_as_long_as_it_is_told(face: str) -> None:
    with simulate([[Fail(Error("rate_limit", "Slow down."), retry_after=0.2)], ["Here."]]) as model:
        begun = time.monotonic()
        led = lead(face, "openai", model.url, "?", options={"retries": Retries(base=30)})
        assert led.done.content == "Here."
        assert 0.2 <= time.monotonic() - begun < 10


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shown", [False, True])
def test_a_pause_is_told_and_not_shown(face: str, name: str, shown: bool) -> None:
    with simulate([[Fail(Error("rate_limit", "Slow down."), retry_after=0.05)], ["Here."]]) as model:
        led = lead(face, name, model.url, "?", shown=shown)
    [told] = [event for event in led.told if isinstance(event, Retrying)]
    assert (told.error.message, told.seconds) == ("Slow down.", 0.05)
    assert told not in led.items


@contextmanager
def listener(answer: bytes | None, pause: float = 0.0, size: int = 1) -> Iterator[tuple[str, list[float]]]:
    """Give a server that says these bytes to whoever connects, and the times of the connections."""
    server = socket.create_server(("127.0.0.1", 0))
    came: list[float] = []
    over = threading.Event()

    def serve(held: socket.socket) -> None:
        with held:
            try:
                held.recv(65536)
                for place in range(0, len(answer or b""), size):
                    held.sendall((answer or b"")[place : place + size])
                    if over.wait(pause):
                        return
                over.wait(5 if answer is None else 0)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                held, _ = server.accept()
            except OSError:
                return
            came.append(time.monotonic())
            threading.Thread(target=serve, args=(held,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", came
    finally:
        over.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("J9")
def test_nobody_listens(face: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
    with pytest.raises(ProviderUnavailable) as found:
        lead(face, "openai", url, "?", options={"retries": QUICK})
    assert found.value.error.code == "transport_connect"


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("J9")
def test_a_host_that_is_not_there(face: str) -> None:
    with pytest.raises(ProviderUnavailable) as found:
        lead(face, "openai", "http://nowhere.invalid", "?", options={"retries": ONCE})
    assert found.value.error.code == "transport_connect"


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("J9")
def test_a_connection_that_is_lost_before_the_answer(face: str, shown: bool, reset: bool) -> None:
    with simulate([[Cut(reset=reset)], [Cut(reset=reset)], ["Here."]]) as model:
        led = lead(face, "openai", model.url, "?", shown=shown, options={"retries": QUICK})
        assert (led.done.content, attempts(model)) == ("Here.", 3)


@pytest.mark.parametrize("face", FACES)
def test_a_body_that_is_cut_is_asked_for_again(face: str) -> None:
    with simulate([["Some words", Cut(bytes=40)], ["Here."]]) as model:
        led = lead(face, "openai", model.url, "?", options={"retries": QUICK})
        assert (led.done.content, attempts(model)) == ("Here.", 2)


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("J9")
def test_a_stream_that_was_begun_is_never_asked_for_again(name: str, face: str, reset: bool) -> None:
    """No text twice, and what had come is kept."""
    with simulate([["Some words. ", Wait(0.05), Cut(reset=reset)]]) as model:
        led = lead(face, name, model.url, "?", shown=True, options={"retries": QUICK})
        assert attempts(model) == 1
    words = "".join(item.text for item in led.items if isinstance(item, TextDelta))
    assert words == "Some words. "
    assert (led.done.ending, led.done.content) == ("error", "Some words. ")
    assert led.done.error is not None
    assert led.done.reason


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("J9", "J14")
def test_no_call_of_a_stream_that_broke_off_is_run(name: str, face: str) -> None:
    """Even a call that came whole may belong to an answer that did not."""
    RUN.clear()
    with simulate([["I look.", TOKYO, Wait(0.05), Cut(reset=True)]]) as model:
        led = lead(face, name, model.url, "?", shown=True, tools=[get_weather], options={"retries": QUICK})
        assert attempts(model) == 1
    assert RUN == []
    assert led.done.ending == "error"
    assert legal(led.done.messages)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["openai-responses", "anthropic"])
def test_an_error_inside_of_a_stream_is_told(name: str, face: str) -> None:
    with simulate([["Some words. ", Error("overloaded", "Too much to do.")]]) as model:
        led = lead(face, name, model.url, "?", shown=True, options={"retries": QUICK})
        assert attempts(model) == 1
    assert (led.done.ending, led.done.content) == ("error", "Some words. ")
    assert "Too much to do." in led.done.reason


OVERLOADED = b"""event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],\
"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}

event: error
data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}

"""


@pytest.mark.parametrize("face", FACES)
def test_an_error_before_the_first_words_of_a_stream_is_tried_again(face: str) -> None:
    stream = Raw(OVERLOADED, 200, "text/event-stream")
    with simulate([[stream], ["Here."]]) as model:
        led = lead(face, "anthropic", model.url, "?", shown=True, options={"retries": QUICK})
        assert (led.done.content, attempts(model)) == ("Here.", 2)
        kinds = [type(event).__name__ for event in led.told]
    assert kinds.count("MessageStart") == 1
    assert "ErrorEnd" not in kinds


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("F17")
def test_an_empty_stream_is_tried_again(name: str, face: str) -> None:
    with simulate([[Raw(b"", 200, "text/event-stream")], ["Here."]]) as model:
        led = lead(face, name, model.url, "?", shown=True, options={"retries": QUICK})
        assert (led.done.content, attempts(model)) == ("Here.", 2)


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("F17")
def test_an_answer_that_is_no_json_is_an_error(face: str, shown: bool) -> None:
    page = Raw(f"<html>Welcome, {KEY}</html>".encode(), 200, "text/html")
    with (
        simulate([[page]]) as model,
        pytest.raises(ProviderUnavailable, match=r"<html>Welcome, .hidden.*</html>") as told,
    ):
        lead(face, "openai", model.url, "?", shown=shown, options={"retries": ONCE})
    assert KEY not in str(told.value)
    assert shown or "(text/html): does base_url lead to the API?" in str(told.value)


@pytest.mark.parametrize("face", FACES)
def test_an_answer_with_a_byte_order_mark_is_an_answer(face: str) -> None:
    said = b'{"choices": [{"message": {"role": "assistant", "content": "Here."}, "finish_reason": "stop"}]}'
    with simulate([[Raw(b"\xef\xbb\xbf" + said, 200, "application/json")]]) as model:
        assert lead(face, "openai", model.url, "?").done.content == "Here."


TIMES: dict[str, tuple[Timeouts, list[Any]]] = {
    "first": (Timeouts(first=0.2, connect=0.1), [Wait(5), "Too late."]),
    "total before the head": (Timeouts(total=0.2), [Wait(5), "Too late."]),
    "between": (Timeouts(between=0.2), ["Some words.", Wait(5), "Too late."]),
    "total in the middle": (Timeouts(total=0.2), ["Some words.", Wait(5), "Too late."]),
    "total of a slow stream": (Timeouts(total=0.3, between=5), [Pace(0.05), *["word "] * 100]),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("case", TIMES)
@pytest.mark.row("J9")
def test_each_time_is_kept(case: str, face: str) -> None:  # silent stall
    timeouts, steps = TIMES[case]
    begun = time.monotonic()
    options = {"timeouts": timeouts, "retries": ONCE}
    with simulate([steps]) as model:
        if steps[0] == "Some words." or type(steps[0]) is Pace:
            done = lead(face, "openai", model.url, "?", shown=True, options=options).done
            assert (done.ending, done.error.kind) == ("error", "timeout")
            assert done.content
        else:
            with pytest.raises(ProviderTimeout):
                lead(face, "openai", model.url, "?", shown=True, options=options)
        assert model.requests[0].over.wait(10)
        assert model.requests[0].gone
    assert time.monotonic() - begun < 15


@pytest.mark.row("F20")
@pytest.mark.parametrize("face", FACES)
def test_an_answer_of_comments_alone_ends_with_its_whole_time(face: str) -> None:
    comments = [Pace(0.05), *[Raw(b": waiting\n\n", 200, "text/event-stream")] * 100]
    options = {"timeouts": Timeouts(between=0.3, total=0.5), "retries": ONCE}
    with simulate([comments]) as model, pytest.raises(ProviderTimeout):
        lead(face, "openai", model.url, "?", shown=True, options=options)


@pytest.mark.parametrize("face", FACES)
def test_a_head_that_comes_byte_by_byte_is_too_late(face: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nx-slow: " + b"a" * 1000
    with listener(head, pause=0.02) as (url, came):
        begun = time.monotonic()
        options = {"timeouts": Timeouts(connect=0.1, first=0.3), "retries": ONCE}
        with pytest.raises(ProviderTimeout):
            lead(face, "openai", url, "?", options=options)
        assert time.monotonic() - begun < 15
        assert len(came) == 1


@pytest.mark.parametrize("face", FACES)
def test_a_server_that_never_accepts_is_too_late(face: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen(0)
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        full = [socket.socket() for _ in range(4)]
        for one in full:
            one.setblocking(False)
            one.connect_ex(held.getsockname())
        begun = time.monotonic()
        options = {"timeouts": Timeouts(connect=0.2), "retries": ONCE}
        with pytest.raises(ProviderTimeout):
            lead(face, "openai", url, "?", options=options)
        assert time.monotonic() - begun < 15
        for one in full:
            one.close()


@pytest.mark.parametrize("face", FACES)
def test_the_whole_time_holds_over_all_attempts(face: str) -> None:
    options = {"timeouts": Timeouts(total=0.5), "retries": Retries(attempts=100, base=0.1, longest=0.1)}
    begun = time.monotonic()
    with simulate(Error("server", "Broken.")) as model, pytest.raises(ProviderUnavailable):
        lead(face, "openai", model.url, "?", options=options)
    assert time.monotonic() - begun < 6, "a hundred attempts take ten seconds"


@pytest.mark.parametrize("face", FACES)
def test_what_is_no_http_is_an_error(face: str) -> None:
    with listener(b"SSH-2.0-OpenSSH_9.2\r\n\r\n" * 3, size=1000) as (url, _), pytest.raises(ProviderError):
        lead(face, "openai", url, "?", options={"retries": ONCE})


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        ("ftp://127.0.0.1", ProviderError),
        ("no url", InvalidField),
        ("http://", InvalidField),
        ("http://[::1", InvalidField),
    ],
)
@pytest.mark.parametrize("face", FACES)
def test_what_is_no_address_is_an_error_that_is_not_tried_again(face: str, base: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        lead(face, "openai", base, "?", options={"retries": Retries(attempts=3, base=60)})


@pytest.mark.parametrize("face", FACES)
def test_an_error_after_a_round_is_in_the_end_with_the_history(face: str) -> None:
    with simulate([[TOKYO], [Error("invalid_request", "No more.")]]) as model:
        done = lead(face, "openai", model.url, "?", tools=[get_weather]).done
    assert (done.ending, done.error.kind, done.turns) == ("error", "invalid_request", 1)
    assert [message.role for message in done.messages] == ["assistant", "tool"]
    assert isinstance(done.messages[0].parts[0], ToolCall)
    assert legal(done.messages)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("J10")
def test_a_tool_is_not_run_again_when_the_next_answer_fails(face: str) -> None:
    RUN.clear()
    with simulate([[TOKYO], [Error("server", "Broken.")], [Cut()], ["Done."]]) as model:
        done = lead(face, "openai", model.url, "?", tools=[get_weather], options={"retries": QUICK}).done
    assert (done.content, RUN) == ("Done.", ["Tokyo"])


NO_ANSWERS: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("openai", b"{}", "the body contains no answer: {}"),
    "a detail": ("openai", b'{"detail": "Not Found"}', 'the body contains no answer: {"detail":"Not Found"}'),
    "a message": ("openai", b'{"object": "error", "message": "no such model"}', "no such model"),
    "no choice": ("openai", b'{"choices": []}', 'the body contains no answer: {"choices":[]}'),
    "counts alone": ("gemini", b'{"usageMetadata": {"promptTokenCount": 3}}', "the body contains no answer"),
    "no content": ("anthropic", b'{"ok": true}', "the body contains no answer"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("case", NO_ANSWERS)
def test_a_body_without_an_answer_is_an_error_that_is_tried_again(case: str, face: str) -> None:
    name, body, words = NO_ANSWERS[case]
    with simulate([[Raw(body, 200, "application/json")], ["Here."]]) as model:
        led = lead(face, name, model.url, "?", options={"retries": QUICK})
        assert (led.done.content, attempts(model)) == ("Here.", 2)
        with simulate([[Raw(body, 200, "application/json")]]) as other, pytest.raises(ProviderUnavailable) as told:
            lead(face, name, other.url, "?", options={"retries": ONCE})
    assert words in str(told.value)


@pytest.mark.parametrize("face", FACES)
def test_a_prompt_that_was_blocked_is_no_fault_of_the_server(face: str) -> None:
    blocked = Raw(b'{"promptFeedback": {"blockReason": "SAFETY"}}', 200, "application/json")
    with simulate([[blocked]]) as model:
        done = lead(face, "gemini", model.url, "?", options={"retries": QUICK}).done
    assert (done.ending, done.reason) == ("refused", "the model's answer ended with content_filter")


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_key_is_not_told_in_part_where_a_long_answer_is_cut(name: str, face: str, shown: bool) -> None:
    for before in range(462, 501, 6):
        body = b"<p>" + b"no " * (before // 3) + KEY.encode() + b" is wrong" * 20
        told_as = (200, "text/event-stream") if shown else (400, "text/plain")
        with simulate([[Raw(body, *told_as)]]) as model, pytest.raises(ProviderError) as told:
            lead(face, name, model.url, "?", shown=shown, options={"retries": ONCE})
        assert "no no" in str(told.value)
        assert KEY[:8] not in str(told.value), before
