"""The commands that ask a provider which answers 401, 429 or nothing: on terminals, without colours, and in a pipe."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import environment, project, say, terminal
from tests.client.test_faults_network import hang_up, serving, stall
from toolwire.cli.screen import count_columns

WORDS = {401: "Incorrect API key.", 429: "Rate limit reached."}


@contextlib.contextmanager
def failing(status: int) -> Iterator[str]:
    """Serve an error to each request, or no answer at all for the status 0; yield the address."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            if not status:
                over.wait(60)
                return
            body = json.dumps({"error": {"message": WORDS[status], "type": "any", "code": None}}).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - the name is of http.server

        def log_message(self, *_words: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def refusing() -> str:
    """Return an address at which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}/v1"


def place(url: str, folder: Path) -> list[str]:
    return ["--model", "openai/m", "--base-url", url, "--cwd", str(project(folder))]


@pytest.mark.parametrize("status", WORDS)
def test_in_a_pipe_the_error_is_told_and_the_output_is_empty(
    capfd: Any, monkeypatch: Any, tmp_path: Path, status: int
) -> None:
    with failing(status) as url:
        ran = say(capfd, monkeypatch, tmp_path, "run", "go", *place(url, tmp_path))
        chatted = say(capfd, monkeypatch, tmp_path, "chat", *place(url, tmp_path), given="go\n/compact\n/undo\n/cost\n")
    assert (ran.code, ran.out, WORDS[status] in ran.told) == (1, "", True)
    assert (chatted.code, chatted.out, WORDS[status] in chatted.told) == (0, "", True)
    assert "there is nothing to summarize yet" in chatted.told
    assert ("the key is that of OPENAI_API_KEY" in ran.told) is (status == 401)
    assert "Traceback" not in ran.text + chatted.text


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 40])
@pytest.mark.parametrize("more", [{}, {"NO_COLOR": "1"}], ids=["colours", "no colours"])
@pytest.mark.parametrize("status", WORDS)
def test_on_a_terminal_the_error_is_shown_and_the_chat_goes_on(
    tmp_path: Path, status: int, more: dict[str, str], columns: int
) -> None:
    with (
        failing(status) as url,
        terminal(tmp_path, "chat", *place(url, tmp_path), columns=columns, **more) as shown,
    ):
        for number in (1, 2):
            shown.until("you> ", number)
            time.sleep(0.3)
            shown.type("go\r")
            shown.when(lambda: " ".join(shown.plain.split()).count(WORDS[status]) == number)  # noqa: B023 - called here
        shown.until("you> ", 3)
        shown.type("\x04")
        assert shown.end() == 0
    assert max(map(count_columns, shown.plain.splitlines())) <= columns
    assert ("\x1b[31m" in shown.said) is (not more)


ONCE = {
    "ask": ["ask", "How are you?", "--model", "openai/m"],
    "run": ["run", "go", "--model", "openai/m"],
    "models": ["models", "--live", "--provider", "openai"],
}
LOOKS = pytest.mark.parametrize(
    ("columns", "more"), [(120, {}), (40, {}), (40, {"NO_COLOR": "1"})], ids=["wide", "narrow", "no colours"]
)


@pytest.mark.slow
@LOOKS
@pytest.mark.parametrize("status", WORDS)
@pytest.mark.parametrize("command", ONCE)
def test_on_a_terminal_the_error_of_each_command_is_shown(
    tmp_path: Path, command: str, status: int, columns: int, more: dict[str, str]
) -> None:
    with (
        failing(status) as url,
        terminal(tmp_path, *ONCE[command], "--base-url", url, columns=columns, **more) as shown,
    ):
        assert shown.end() == 1
        assert shown.is_as_it_was()
    text = " ".join(shown.plain.split())
    assert f"toolwire: openai: {WORDS[status]} (status {status})" in text
    assert ("the key is that of OPENAI_API_KEY, or of toolwire auth" in text) is (status == 401)
    assert max(map(count_columns, shown.plain.splitlines())) <= columns
    assert ("\x1b[31m" in shown.said) is (not more)


@pytest.mark.slow
@LOOKS
@pytest.mark.parametrize("command", ONCE)
def test_on_a_terminal_a_server_that_does_not_listen_is_named_with_the_remedy(
    tmp_path: Path, command: str, columns: int, more: dict[str, str]
) -> None:
    url = refusing()
    with terminal(tmp_path, *ONCE[command], "--base-url", url, columns=columns, **more) as shown:
        assert shown.end() == 1
    text = " ".join(shown.plain.split())
    assert f"nothing answers at {url}: check the network, or pass its address by --base-url" in text
    assert "Traceback" not in text


def once(head: bytes, body: bytes) -> Callable[[socket.socket], None]:
    """Return what a server does that answers one request of a connection with this."""

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        length = f"content-length: {len(body)}\r\n\r\n".encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n" + head + length + body)
        connection.close()

    return answer


ANSWERS: dict[str, Callable[[socket.socket], None]] = {
    "closes the connection": hang_up,
    "answers with nothing": once(b"content-type: application/json\r\n", b""),
    "answers with a page": once(b"content-type: text/html\r\n", b"<html>"),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", ONCE)
@pytest.mark.parametrize("case", ANSWERS)
def test_in_a_pipe_a_server_that_answers_with_nothing_is_an_error(tmp_path: Path, case: str, command: str) -> None:
    with serving(ANSWERS[case]) as (url, _):
        ran = subprocess.run(
            [sys.executable, "-m", "toolwire", *ONCE[command], "--base-url", f"{url}/v1"],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "toolwire: openai: " in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "state=SEND_RESPONSE" not in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ONCE)
def test_an_interrupt_ends_each_command_in_a_pipe(tmp_path: Path, command: str) -> None:
    with serving(stall) as (url, came):
        process = subprocess.Popen(
            [sys.executable, "-m", "toolwire", *ONCE[command], "--base-url", f"{url}/v1"],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        end = time.monotonic() + 30
        while not came and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=30)
    assert (process.returncode, out, "Traceback" in told) == (130, "", False)


@pytest.mark.slow
@pytest.mark.parametrize("command", ONCE)
def test_ctrl_c_ends_each_command_that_waits_for_a_server(tmp_path: Path, command: str) -> None:
    with failing(0) as url, terminal(tmp_path, *ONCE[command], "--base-url", url, columns=40) as shown:
        shown.until("waiting for the ")
        shown.interrupt()
        assert shown.end() == 130
        assert shown.is_as_it_was()
        assert "Traceback" not in shown.said


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 40])
def test_a_server_that_never_answers_is_waited_for_and_can_be_stopped(tmp_path: Path, columns: int) -> None:
    with failing(0) as url, terminal(tmp_path, "chat", *place(url, tmp_path), columns=columns) as shown:
        shown.prompted()
        shown.type("go\r")
        shown.until("waiting for the model, 1 s")
        shown.interrupt()
        shown.until("interrupted")
        shown.prompted()
        shown.type("/cost\r")
        shown.until("openai/m: 0 requests")
        shown.prompted()
        shown.type("\x04")
        assert shown.end() == 0
        assert shown.is_as_it_was()


@pytest.mark.slow
def test_a_summary_that_is_not_answered_can_be_stopped(tmp_path: Path) -> None:
    """The chat continues a conversation at a server that never answers."""
    from toolwire.testing import simulate

    with simulate(["One."]) as model, terminal(tmp_path, "run", "go", *place(model.url, tmp_path)) as shown:
        assert shown.end() == 0
    with failing(0) as url, terminal(tmp_path, "chat", "--continue", *place(url, tmp_path), columns=80) as shown:
        shown.prompted()
        shown.type("/compact\r")
        shown.until("summarizing the conversation, 1 s")
        shown.interrupt()
        shown.until("the summary was stopped; the conversation is as it was")
        shown.prompted()
        shown.type("\x04")
        assert shown.end() == 0
