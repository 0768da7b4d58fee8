"""Formats against a real llama.cpp server whose own parsing is off; `scripts/llama-server` says how.

A grammar makes the random model call: what it writes is read by our format, and by nothing else.
"""

import json
import os
from typing import Any

import pytest
from msgspec.structs import replace

from tests.client.faces import FACES, lead
from toolwire import LoopLimits, Tool, tool
from toolwire.client.httpx import HttpxTransport
from toolwire.text import format as format_of
from toolwire.wire.transport import HttpRequest

URL = os.environ.get("TOOLWIRE_LLAMA_URL", "").rstrip("/")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not URL, reason="TOOLWIRE_LLAMA_URL names no llama.cpp server"),
]
RUN: list[int] = []
MARK = "4242"


@tool
def look(number: int) -> str:
    """Look at a thing."""
    RUN.append(number)
    return f"thing {number}"


LOOK = Tool("look", "", {"type": "object", "properties": {"number": {"type": "integer"}}})


def grammar_of(name: str) -> str:
    """Give a grammar under which every answer is two calls in this format, with numbers of the model's choice."""
    calls = [{"name": "look", "arguments": {"number": int(MARK)}}] * 2
    pieces = format_of(name).encode_calls(calls, [LOOK]).text.split(MARK)
    quoted = [piece.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for piece in pieces]
    return 'root ::= "' + '" number "'.join(quoted) + '"\nnumber ::= [1-9] [0-9]? [0-9]?\n'


class Guided(HttpxTransport):
    """Adds a grammar to every body: what no other server has, no setting has."""

    def __init__(self, grammar: str) -> None:
        super().__init__()
        self.grammar = grammar

    def _guided(self, request: HttpRequest) -> HttpRequest:
        return replace(request, body=json.dumps({**json.loads(request.body), "grammar": self.grammar}).encode())

    def send(self, request: HttpRequest, *rest: Any) -> Any:
        return super().send(self._guided(request), *rest)

    async def asend(self, request: HttpRequest, *rest: Any) -> Any:
        return await super().asend(self._guided(request), *rest)


@pytest.mark.parametrize("path", ["/v1/completions", "/completion"])
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "mistral", "llama3-json", "glm45", "deepseek-v31", "tagged"])
def test_a_real_server_calls_in_every_format(name: str, face: str, shown: bool, path: str) -> None:
    RUN.clear()
    options: dict[str, Any] = {"format": name, "completions": path, "transport": Guided(grammar_of(name))}
    settings = {"max_tokens": 400, "seed": 1, "limits": LoopLimits(turns=1)}
    done = lead(face, "llama.cpp", URL, "Look twice.", shown=shown, tools=[look], options=options, **settings).done
    assert len(RUN) == 2, done
    assert all(1 <= number <= 999 for number in RUN)


@pytest.mark.parametrize("path", ["/v1/completions", "/completion"])
def test_words_alone_are_an_answer(path: str) -> None:
    guided = Guided('root ::= "Nothing to look at."\n')
    options: dict[str, Any] = {"format": "hermes", "completions": path, "transport": guided}
    done = lead("sync", "llama.cpp", URL, "Hi.", tools=[look], options=options, max_tokens=100).done
    assert (done.ending, done.content) == ("answer", "Nothing to look at.")
    assert done.usage.output_tokens > 0
