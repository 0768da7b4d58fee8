"""Measure what a client adds to the bare HTTP request that it sends, beside the clients of peers.

A server on loopback, in a process of its own, answers every request with the same bytes, and refuses one that
lacks any of the 41 messages and 10 tools. The history is another one each time. What is bare is a POST of the
same bytes with the HTTP client that toolwire uses, measured right before each client; the figures are medians
of what is spent beyond it. Both are measured at the second of two requests in a row. What a peer wants a
history to be is made before, and not counted.

Some peers cannot be installed beside each other: each environment is measured by its own Python, toolwire in
each of them, and compared with those beside it.
"""

import argparse
import contextlib
import gc
import importlib.util
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import answering
import httpx2
import msgspec

from toolwire import translate
from toolwire.client.sync import Client

ROUNDS = 40
WARMING = 3
TARGET = 1000.0
HERE = Path(__file__)
PEERS = HERE.parent.parent / ".venv-peers" / "bin" / "python"
History = list[dict[str, Any]]
_numbers = itertools.count(1)

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Does one thing, and says what came of it.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "minimum": 1}},
                "required": ["path"],
            },
        },
    }
    for number in range(answering.TOOLS)
]


class Contestant(NamedTuple):
    """A client: what it makes of a history beforehand, and what asks with that; it gives the words."""

    prepare: Callable[[History], Any]
    ask: Callable[[Any], str]
    path: str = "/v1/chat/completions"


def history() -> History:
    """Make a history of 41 messages that nobody has seen before."""
    number = next(_numbers)
    messages: History = [{"role": "user", "content": f"Task {number}. {'Words. ' * 20}"}]
    for turn in range(answering.MESSAGES // 2):
        call = {"name": f"tool_{turn % 10}", "arguments": f'{{"path":"file{number}.py","lines":{turn + 1}}}'}
        entry = {"id": f"call_{number}_{turn}", "type": "function", "function": call}
        messages.append({"role": "assistant", "content": "I look.", "tool_calls": [entry]})
        messages.append({"role": "tool", "tool_call_id": entry["id"], "content": "A line. " * 50})
    return messages


def as_messages(told: History, *, shown: bool) -> dict[str, Any]:
    """Give the request as Messages wants it."""
    body = {"model": "m", "messages": told, "tools": TOOLS, "stream": shown, "max_tokens": 100}
    return translate.request(body, "openai-chat", "anthropic").body


def body_at(path: str, told: History, *, shown: bool) -> bytes:
    """Write the request of a path as bytes."""
    if path == "/v1/messages":
        return msgspec.json.encode(as_messages(told, shown=shown))
    return msgspec.json.encode({"model": "m", "messages": told, "tools": TOOLS, "stream": shown})


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Run the server."""
    command = [sys.executable, str(HERE.with_name("answering.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.communicate("")


def bare(client: httpx2.Client, url: str, body: bytes) -> float:
    """Send bytes and read bytes; give the seconds."""
    begun = time.perf_counter()
    with client.stream("POST", url, content=body, headers={"content-type": "application/json"}) as answer:
        for _ in answer.iter_bytes():
            pass
    spent = time.perf_counter() - begun
    assert answer.status_code == 200
    return spent


def asked(one: Contestant, prepared: Any, words: str) -> float:
    """Ask, and give the seconds; another answer than the right one is none."""
    begun = time.perf_counter()
    said = one.ask(prepared)
    spent = time.perf_counter() - begun
    assert said == words, f"{said!r} is not the answer"
    return spent


def _toolwire(url: str, *, shown: bool) -> Contestant:
    client = Client("groq", "m", base_url=f"{url}/v1", api_key="k")

    def shows(told: History) -> str:
        return client.stream(told, tools=TOOLS).collect().content or ""

    def chats(told: History) -> str:
        return client.chat(told, tools=TOOLS).content or ""

    return Contestant(list, shows if shown else chats)


def _openai(url: str, *, shown: bool) -> Contestant:
    import openai  # noqa: PLC0415 - where it is installed

    client: Any = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)

    def ask(told: History) -> str:
        given = client.chat.completions.create(model="m", messages=told, tools=TOOLS, stream=shown)
        return _said(given, shown=shown)

    return Contestant(list, ask)


def _said(given: Any, *, shown: bool) -> str:
    """Read an answer in the types of OpenAI's SDK, which others have taken over."""
    if shown:
        return "".join([chunk.choices[0].delta.content or "" for chunk in given if chunk.choices])
    return str(given.choices[0].message.content)


def _anthropic(url: str, *, shown: bool) -> Contestant:
    import anthropic  # noqa: PLC0415 - where it is installed

    client: Any = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)

    def prepare(told: History) -> dict[str, Any]:
        return as_messages(told, shown=shown)

    def ask(body: dict[str, Any]) -> str:
        given = client.messages.create(**body)
        if not shown:
            return str(given.content[0].text)
        return "".join([event.delta.text for event in given if event.type == "content_block_delta"])

    return Contestant(prepare, ask, "/v1/messages")


def _litellm(url: str, *, shown: bool) -> Contestant:
    import litellm  # noqa: PLC0415 - where it is installed

    litellm.suppress_debug_info = True
    asked = {"model": "openai/m", "api_base": f"{url}/v1", "api_key": "k", "num_retries": 0}

    def ask(told: History) -> str:
        return _said(litellm.completion(**asked, messages=told, tools=TOOLS, stream=shown), shown=shown)

    return Contestant(list, ask)


def _any_llm(url: str, *, shown: bool) -> Contestant:
    from any_llm import AnyLLM  # noqa: PLC0415 - where it is installed

    client: Any = AnyLLM.create("openai", api_key="k", api_base=f"{url}/v1")

    def ask(told: History) -> str:
        return _said(client.completion(model="m", messages=told, tools=TOOLS, stream=shown), shown=shown)

    return Contestant(list, ask)


def _pydantic_ai(url: str, *, shown: bool) -> Contestant:
    from pydantic_ai import direct, models  # noqa: PLC0415 - where it is installed
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 - where it is installed
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415 - where it is installed
    from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415 - where it is installed

    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="k"))
    tools = [
        ToolDefinition(
            name=tool["function"]["name"],
            description=tool["function"]["description"],
            parameters_json_schema=tool["function"]["parameters"],
        )
        for tool in TOOLS
    ]
    offered = models.ModelRequestParameters(function_tools=tools)

    def ask(told: Any) -> str:
        if not shown:
            answer = direct.model_request_sync(model, told, model_request_parameters=offered)
            return "".join(part.content for part in answer.parts)
        with direct.model_request_stream_sync(model, told, model_request_parameters=offered) as stream:
            for _ in stream:
                pass
            return "".join(part.content for part in stream.response.parts)

    return Contestant(_for_pydantic_ai, ask)


def _for_pydantic_ai(told: History) -> Any:
    from pydantic_ai import messages as kinds  # noqa: PLC0415 - where it is installed

    made: list[Any] = []
    names: dict[str, str] = {}
    for message in told:
        if message["role"] == "user":
            made.append(kinds.ModelRequest(parts=[kinds.UserPromptPart(message["content"])]))
        elif message["role"] == "tool":
            name, answered = names[message["tool_call_id"]], message["tool_call_id"]
            made.append(kinds.ModelRequest(parts=[kinds.ToolReturnPart(name, message["content"], answered)]))
        else:
            [call] = message["tool_calls"]
            names[call["id"]] = call["function"]["name"]
            asked = kinds.ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"])
            made.append(kinds.ModelResponse(parts=[kinds.TextPart(message["content"]), asked]))
    return made


MAKERS: dict[str, tuple[str, Callable[..., Contestant]]] = {
    "toolwire": ("toolwire", _toolwire),
    "openai": ("openai", _openai),
    "anthropic": ("anthropic", _anthropic),
    "litellm": ("litellm", _litellm),
    "pydantic-ai": ("pydantic_ai.models.openai", _pydantic_ai),
    "any-llm": ("any_llm", _any_llm),
}


def contestants(url: str, *, shown: bool) -> dict[str, Contestant]:
    """Give the clients that this environment is for, each asking the same.

    The newest SDKs are beside pydantic-ai; the older ones that litellm wants are only there to serve it.
    """
    old = importlib.util.find_spec("litellm") is not None
    apart = {"openai", "anthropic", "pydantic-ai"} if old else set[str]()
    return {
        name: make(url, shown=shown)
        for name, (module, make) in MAKERS.items()
        if name not in apart and importlib.util.find_spec(module.partition(".")[0]) is not None
    }


def measure(url: str, *, shown: bool, rounds: int) -> dict[str, tuple[float, float]]:
    """Give the microseconds of what is bare and of what each client adds to it."""
    words = answering.STREAMED if shown else answering.WHOLE
    works = contestants(url, shown=shown)
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    with httpx2.Client(trust_env=False) as client:
        for number in range(rounds + WARMING):
            for name, one in works.items():
                bodies = [body_at(one.path, history(), shown=shown) for _ in range(2)]
                given = [one.prepare(history()) for _ in range(2)]
                gc.collect()
                below = [bare(client, url + one.path, body) for body in bodies][1]
                whole = [asked(one, told, words) for told in given][1]
                if number >= WARMING:
                    pairs[name].append((below * 1e6, (whole - below) * 1e6))
    median = statistics.median
    return {name: (median(b for b, _ in told), median(more for _, more in told)) for name, told in pairs.items()}


def environments() -> list[str]:
    """Give the Pythons of the environments that there are."""
    others = [str(PEERS)] if PEERS.exists() and sys.executable != str(PEERS) else []
    return [sys.executable, *others]


def measured(url: str, *, shown: bool, rounds: int) -> list[dict[str, tuple[float, float]]]:
    """Measure in each environment, one after the other, against the same server."""
    options = [str(HERE), "--at", url, "--rounds", str(rounds), *(["--shown"] if shown else [])]
    found = []
    for python in environments():
        told = subprocess.run([python, *options], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
        found.append(json.loads(told.stdout.splitlines()[-1]))
    return found


def report(*, short: bool = False) -> None:
    """Print what each client adds."""
    print("\nWhat a client adds to a bare HTTP request (41 messages, 10 tools), microseconds")
    every: set[str] = set()
    with serving() as url:
        for name, shown in (("chat", False), (f"stream of {answering.EVENTS} events", True)):
            for found in measured(url, shown=shown, rounds=10 if short else ROUNDS):
                every |= found.keys()
                floor, ours = found["toolwire"]
                told = "  ".join(f"{peer} {more:,.0f}" for peer, (_, more) in found.items())
                kept = ours <= TARGET and ours == min(more for _, more in found.values())
                print(f"  {name:20} bare {floor:,.0f}   adds: {told}   ({'met' if kept else 'MISSED'})")
    print(f"  target: at most {TARGET:,.0f}, and less than every peer of the same line")
    if missing := sorted(MAKERS.keys() - every):
        print(f"  not here: {', '.join(missing)}")


def main() -> None:
    """Report, or measure in this environment for another one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few rounds")
    parser.add_argument("--at", help="measure against this server, and print JSON")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--shown", action="store_true", help="measure streams")
    given = parser.parse_args()
    if given.at is None:
        report(short=given.short)
    else:
        print(json.dumps(measure(given.at, shown=given.shown, rounds=given.rounds)))


if __name__ == "__main__":
    main()
