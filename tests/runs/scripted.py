"""A model that answers by what it was asked, so that a run that goes on elsewhere is answered the same."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from toolwire.wire.transport import HttpRequest

Say = Callable[[list[dict[str, Any]]], dict[str, Any]]


class Answer:
    """An answer of HTTP that is there at once."""

    status = 200

    def __init__(self, body: Any) -> None:
        self.headers: dict[str, str] = {"content-type": "application/json"}
        self._data = json.dumps(body).encode()

    def read(self) -> bytes:
        """Give what is left."""
        data, self._data = self._data, b""
        return data

    async def aread(self) -> bytes:
        """Give what is left."""
        return self.read()

    def close(self) -> None:
        """Nothing is open."""

    finish = close

    async def aclose(self) -> None:
        """Nothing is open."""

    afinish = aclose


class Scripted:
    """A transport whose answers are made by a function of the messages of Chat Completions."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.asked: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def send(self, request: HttpRequest, _timeouts: Any = None, _stop: Any = None) -> Answer:
        """Answer a request."""
        body = request.body if isinstance(request.body, dict) else json.loads(request.body)
        with self._lock:
            self.asked.append(body)
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        message = {"role": "assistant", "content": None, **self.say(body["messages"])}
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return Answer({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})

    async def asend(self, request: HttpRequest, timeouts: Any = None, stop: Any = None) -> Answer:
        """Answer a request."""
        return self.send(request, timeouts, stop)


class Busy:
    """A model that takes a moment, and counts how many ask it at once."""

    def __init__(self, seconds: float, until: int = 0) -> None:
        self.now = self.most = 0
        self.begun: list[float] = []
        self._seconds, self._until = seconds, until
        self._lock = threading.Lock()

    def say(self, _messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Answer, after a moment; the first ones wait until so many have asked."""
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.begun.append(time.monotonic())
        late = time.monotonic() + 20
        while self.most < self._until and time.monotonic() < late:
            time.sleep(0.005)
        time.sleep(self._seconds)
        with self._lock:
            self.now -= 1
        return {"content": "done"}


def calls(*wanted: tuple[str, dict[str, Any]], turn: int = 0) -> dict[str, Any]:
    """Make the message that calls tools."""
    return {
        "tool_calls": [
            {"id": f"call_{turn}_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for n, (name, given) in enumerate(wanted)
        ]
    }


def turns(*said: Sequence[tuple[str, dict[str, Any]]] | str) -> Say:
    """Answer turn by turn: calls in a list, or words."""

    def say(messages: list[dict[str, Any]]) -> dict[str, Any]:
        turn = sum(message["role"] == "assistant" for message in messages)
        now = said[min(turn, len(said) - 1)]
        return {"content": now} if isinstance(now, str) else calls(*now, turn=turn)

    return say


def given(say: Say) -> dict[str, Any]:
    """Give what a run is started with, but for its prompt and its tools."""
    return {
        "provider": "openai",
        "model": "m",
        "options": {"api_key": "sk-test-0123456789", "transport": Scripted(say)},
    }
