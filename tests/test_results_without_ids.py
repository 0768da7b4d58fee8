"""Results without ids reach the calls that they answer: from each wire that may omit ids, to each of the five.

Rules of this file:
- A conversation is a list of steps. Each source writes it as a client of its wire that sends no ids.
- What the target is sent is read here by hand: by its ids, and without ids by the order of calls and results.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct

from tests.timing import MOST, Work, growth
from tests.wires import differences
from toolwire import Message, Text, ToolCall, ToolResult, dialect, text, translate
from toolwire.dialects import NAMES
from toolwire.encoding.linking import link_results
from toolwire.encoding.repair import NO_RESULT


class Calls(Struct, frozen=True):
    """A message of the assistant that calls a tool for each of these cities."""

    cities: tuple[str, ...]
    words: str = ""
    name: str = "weather"


class Says(Struct, frozen=True):
    """A message of words."""

    role: str
    words: str


class Result(Struct, frozen=True):
    """A result, which may name its tool."""

    text: str
    name: str | None = None


ABSENT = object()
Step = Calls | Says | Result
HELLO, DONE = Says("user", "What is the weather?"), Says("assistant", "That is the weather.")
PARIS, TOKYO, OSLO = Calls(("Paris",)), Calls(("Tokyo",)), Calls(("Oslo",))
P, T, O = Result("P"), Result("T"), Result("O")  # noqa: E741 - as the finding names them
ALL = {"Paris": "P", "Tokyo": "T", "Oslo": "O"}
TWO = {"Paris": "P", "Tokyo": "T"}
NAMED = (Result("P", "weather"), Result("T", "weather"), Result("O", "weather"))

CASES: dict[str, tuple[list[Step], dict[str, str]]] = {
    "two calls in one message": ([HELLO, Calls(("Paris", "Tokyo")), P, T], TWO),
    "two calls in two messages": ([HELLO, PARIS, TOKYO, P, T], TWO),
    "three calls in three messages": ([HELLO, PARIS, TOKYO, OSLO, P, T, O], ALL),
    "two calls in one message, and one more": ([HELLO, Calls(("Paris", "Tokyo")), OSLO, P, T, O], ALL),
    "words in the messages": ([HELLO, Calls(("Paris",), "First."), Calls(("Tokyo",), "Second."), P, T], TWO),
    "words between the messages": ([HELLO, PARIS, Says("assistant", "And"), TOKYO, P, T], TWO),
    "a name for each, one tool called twice": ([HELLO, PARIS, TOKYO, *NAMED[:2]], TWO),
    "a name for each, one tool called three times": ([HELLO, Calls(("Paris", "Tokyo")), OSLO, *NAMED], ALL),
    "two tools, the results in another order": (
        [HELLO, PARIS, Calls(("Tokyo",), name="time"), Result("T", "time"), Result("P", "weather")],
        TWO,
    ),
    "one result named": ([HELLO, PARIS, Calls(("Tokyo",), name="time"), P, Result("T", "time")], TWO),
    "a result for one of two, then a new call": (
        [HELLO, Calls(("Paris", "Tokyo")), P, OSLO, O],
        {"Paris": "P", "Oslo": "O"},
    ),
    "a result for one of two messages, then a new call": (
        [HELLO, PARIS, TOKYO, P, OSLO, O],
        {"Paris": "P", "Oslo": "O"},
    ),
    "the result of the second comes after a new call": ([HELLO, PARIS, TOKYO, P, OSLO, T, O], ALL),
    "rounds": ([HELLO, PARIS, P, TOKYO, T, OSLO, O, DONE], ALL),
    "the user speaks between the calls": ([HELLO, PARIS, Says("user", "And Tokyo?"), TOKYO, P, T], TWO),
    "the user interrupts the first call": ([HELLO, PARIS, Says("user", "Stop. Tokyo?"), TOKYO, T], {"Tokyo": "T"}),
    "the user speaks between the results": ([HELLO, PARIS, TOKYO, P, Says("user", "Well?"), T], TWO),
    "a result before any call": ([HELLO, Result("lost"), PARIS, TOKYO, P, T], TWO),
    "a result too many": ([HELLO, PARIS, TOKYO, P, T, Result("more")], TWO),
    "a turn, and the next one": ([HELLO, PARIS, P, DONE, Says("user", "More"), TOKYO, OSLO, T, O], ALL),
    "a result after the end of its turn": ([HELLO, PARIS, TOKYO, P, DONE, Result("late")], {"Paris": "P"}),
}


def ollama(steps: list[Step]) -> dict[str, Any]:
    """Write a conversation as Strands and other clients of Ollama do."""
    messages: list[dict[str, Any]] = []
    for step in steps:
        match step:
            case Calls(cities, words, name):
                calls = [{"function": {"name": name, "arguments": {"city": city}}} for city in cities]
                messages.append({"role": "assistant", "content": words, "tool_calls": calls})
            case Says(role, words):
                messages.append({"role": role, "content": words})
            case Result(text, name):
                messages.append({"role": "tool", "content": text, **({"tool_name": name} if name else {})})
    return {"model": "m", "messages": messages}


def gemini(steps: list[Step], *, together: bool = False) -> dict[str, Any]:
    """Write a conversation of generateContent; a result that names no tool has a name that no tool has.

    With `together`, results that follow each other stand in one content.
    """
    contents: list[dict[str, Any]] = []
    for step in steps:
        match step:
            case Calls(cities, words, name):
                calls: list[Any] = [{"functionCall": {"name": name, "args": {"city": city}}} for city in cities]
                contents.append({"role": "model", "parts": [*([{"text": words}] if words else []), *calls]})
            case Says(role, words):
                contents.append({"role": "model" if role == "assistant" else "user", "parts": [{"text": words}]})
            case Result(text, name):
                response = {"name": name or "unknown", "response": {"output": text}}
                if together and contents and "functionResponse" in contents[-1]["parts"][-1]:
                    contents[-1]["parts"].append({"functionResponse": response})
                else:
                    contents.append({"role": "user", "parts": [{"functionResponse": response}]})
    return {"contents": contents}


def with_id(key: str, given: Any) -> dict[str, Any]:
    """Return the field of an id, or nothing if there is none."""
    return {} if given is ABSENT else {key: given}


def chat(steps: list[Step], given: Any = ABSENT) -> dict[str, Any]:
    """Write a conversation of Chat Completions."""
    bodies: list[dict[str, Any]] = []
    for step in steps:
        match step:
            case Calls(cities, words, name):
                inner = [{"name": name, "arguments": json.dumps({"city": city})} for city in cities]
                calls = [{**with_id("id", given), "type": "function", "function": call} for call in inner]
                bodies.append({"role": "assistant", "content": words or None, "tool_calls": calls})
            case Says(role, words):
                bodies.append({"role": role, "content": words})
            case Result(text, name):
                named = {"name": name} if name else {}
                bodies.append({"role": "tool", **with_id("tool_call_id", given), **named, "content": text})
    return {"model": "m", "messages": bodies}


def messages(steps: list[Step], given: Any = ABSENT) -> dict[str, Any]:
    """Write a conversation of Messages."""
    turns: list[dict[str, Any]] = []
    call, result = with_id("id", given), with_id("tool_use_id", given)
    for step in steps:
        match step:
            case Calls(cities, words, name):
                blocks = [{"type": "tool_use", **call, "name": name, "input": {"city": city}} for city in cities]
                said = [{"type": "text", "text": words}] if words else []
                turns.append({"role": "assistant", "content": [*said, *blocks]})
            case Says(role, words):
                turns.append({"role": role, "content": words})
            case Result(text):
                turns.append({"role": "user", "content": [{"type": "tool_result", **result, "content": text}]})
    return {"model": "m", "max_tokens": 9, "messages": turns}


def responses(steps: list[Step], given: Any = ABSENT) -> dict[str, Any]:
    """Write a conversation of Responses."""
    items: list[dict[str, Any]] = []
    call_id = with_id("call_id", given)
    for step in steps:
        match step:
            case Calls(cities, words, name):
                items += [{"type": "message", "role": "assistant", "content": words}] if words else []
                for city in cities:
                    call = {"name": name, "arguments": json.dumps({"city": city})}
                    items.append({"type": "function_call", **call_id, **call})
            case Says(role, words):
                items.append({"type": "message", "role": role, "content": words})
            case Result(text):
                items.append({"type": "function_call_output", **call_id, "output": text})
    return {"model": "m", "input": items}


def functions(steps: list[Step]) -> dict[str, Any]:
    """Write a conversation of Chat Completions in its deprecated form, which holds one call in a message."""
    bodies: list[dict[str, Any]] = []
    for step in steps:
        match step:
            case Calls(cities, words, name):
                for city in cities:
                    call = {"name": name, "arguments": json.dumps({"city": city})}
                    bodies.append({"role": "assistant", "content": words or None, "function_call": call})
            case Says(role, words):
                bodies.append({"role": role, "content": words})
            case Result(text, name):
                bodies.append({"role": "function", "name": name or "weather", "content": text})
    return {"model": "m", "messages": bodies}


SOURCES: dict[str, tuple[str, Callable[[list[Step]], dict[str, Any]]]] = {
    "ollama": ("ollama", ollama),
    "gemini": ("gemini", gemini),
    "gemini, results together": ("gemini", lambda steps: gemini(steps, together=True)),
    "chat without ids": ("openai-chat", chat),
    "chat with empty ids": ("openai-chat", lambda steps: chat(steps, "")),
    "chat with null for ids": ("openai-chat", lambda steps: chat(steps, None)),
    "chat with functions": ("openai-chat", functions),
    "messages without ids": ("anthropic", messages),
    "messages with empty ids": ("anthropic", lambda steps: messages(steps, "")),
    "responses without ids": ("openai-responses", responses),
    "responses with empty ids": ("openai-responses", lambda steps: responses(steps, "")),
}
_BY_NAME = frozenset({"one result named", "two tools, the results in another order"})
# Cases that a wire cannot say: its results have no names, or each has one.
_UNSAYABLE = {
    **dict.fromkeys((source for source in SOURCES if source.startswith(("messages", "responses"))), _BY_NAME),
    "chat with functions": frozenset({"one result named", "a result before any call"}),
}
_PATHS = {"gemini": "/v1beta/models/m:generateContent"}
Told = tuple[str, str | None, str]
"""What stands in a request's body: a call or a result, its id, and the city or the text."""


def told_chat(entry: dict[str, Any]) -> Iterator[Told]:
    for call in entry.get("tool_calls", ()):
        given = call["function"]["arguments"]
        yield "call", call.get("id"), (json.loads(given) if isinstance(given, str) else given)["city"]
    if entry["role"] == "tool":
        yield "result", entry.get("tool_call_id"), entry["content"]


def told_responses(entry: dict[str, Any]) -> Iterator[Told]:
    if entry["type"] == "function_call":
        yield "call", entry["call_id"], json.loads(entry["arguments"])["city"]
    elif entry["type"] == "function_call_output":
        yield "result", entry["call_id"], entry["output"]


def told_messages(entry: dict[str, Any]) -> Iterator[Told]:
    for block in entry["content"] if isinstance(entry["content"], list) else ():
        if block["type"] == "tool_use":
            yield "call", block["id"], block["input"]["city"]
        elif block["type"] == "tool_result":
            yield "result", block["tool_use_id"], block["content"]


def told_gemini(entry: dict[str, Any]) -> Iterator[Told]:
    for part in entry["parts"]:
        if call := part.get("functionCall"):
            yield "call", call.get("id"), call["args"]["city"]
        elif result := part.get("functionResponse"):
            yield "result", result.get("id"), result["response"].get("output", result["response"].get("error"))


TOLD: dict[str, Callable[[dict[str, Any]], Iterator[Told]]] = {
    "openai-chat": told_chat,
    "openai-responses": told_responses,
    "anthropic": told_messages,
    "gemini": told_gemini,
    "ollama": told_chat,
}


def pairs(target: str, body: dict[str, Any]) -> dict[str, str]:
    """Return the result of each city's call, but for the one that says that there is none."""
    waiting: list[tuple[str | None, str]] = []
    found: dict[str, str] = {}
    entries = body.get("messages") or body.get("input") or body["contents"]
    for kind, given, value in (one for entry in entries for one in TOLD[target](entry)):
        if kind == "call":
            waiting.append((given, value))
            continue
        call = next(entry for entry in waiting if entry[0] == given)
        waiting.remove(call)
        if NO_RESULT not in value:
            found[call[1]] = value
    return found


@pytest.mark.parametrize(
    ("source", "case"),
    [(source, case) for source in SOURCES for case in CASES if case not in _UNSAYABLE.get(source, ())],
)
def test_a_result_without_an_id_reaches_its_call(source: str, case: str) -> None:
    steps, expected = CASES[case]
    name, write = SOURCES[source]
    body = write(steps)
    for target in NAMES:
        if target == name:
            assert differences(body, translate.request(body, name, target, _PATHS.get(name, "")).body) == []
            continue
        encoded = translate.request(body, name, target, _PATHS.get(name, ""))
        assert pairs(target, encoded.body) == expected, target
        data = json.dumps(body).encode()
        exchanged = translate.exchange(data, source=name, target=target, path=_PATHS.get(name, ""))
        assert pairs(target, exchanged.encoded.body) == expected, target


@pytest.mark.parametrize("name", ["ollama", "gemini"])
@pytest.mark.parametrize("case", CASES)
def test_a_wire_that_links_by_order_says_which_call_a_result_answers(name: str, case: str) -> None:
    steps, expected = CASES[case]
    request = dialect(name).decode_request({"ollama": ollama, "gemini": gemini}[name](steps), _PATHS.get(name, ""))
    cities = {
        part.id: part.arguments["city"] for one in request.messages for part in one.parts if isinstance(part, ToolCall)
    }
    results = [part for one in request.messages for part in one.parts if isinstance(part, ToolResult)]
    assert {cities[part.tool_call_id]: part.content for part in results if part.tool_call_id in cities} == expected


@pytest.mark.parametrize("form", ["hermes", "qwen3-coder", "mistral", "deepseek-v3"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_model_that_calls_in_text_reads_each_result_after_its_call(source: str, form: str) -> None:
    name, write = SOURCES[source]
    body = write([HELLO, PARIS, TOKYO, P, T])
    exchanged = translate.exchange(
        body,
        source=name,
        target="ollama",
        path=_PATHS.get(name, ""),
        over=lambda wire, request: text.over(wire, request.tools, format=form),
    )
    said = " ".join(message["content"] for message in exchanged.encoded.body["messages"][1:])
    found = re.findall(r"\b(?:Paris|Tokyo|P|T)\b", said)
    assert found in (["Paris", "P", "Tokyo", "T"], ["Paris", "Tokyo", "P", "T"])


def test_an_id_that_no_call_has_is_that_of_a_call_without_one() -> None:
    """A client that makes up ids for results, and sends none with its calls."""
    body = chat([HELLO, PARIS, TOKYO, P, T])
    for number, result in enumerate(body["messages"][3:]):
        result["tool_call_id"] = f"made_up_{number}"
    assert pairs("anthropic", translate.request(body, "openai-chat", "anthropic").body) == TWO
    body["messages"][1]["tool_calls"][0]["id"] = "c1"
    assert pairs("anthropic", translate.request(body, "openai-chat", "anthropic").body) == {"Tokyo": "P"}


def test_an_id_that_comes_again_is_that_of_the_latest_call() -> None:
    """Some servers number the calls of each answer anew; the user has interrupted the first of two."""
    call, result = ToolCall("call_0", "look"), Message("tool", [ToolResult("call_0", None, "seen")])
    asks = Message("assistant", [call])
    links = link_results([asks, Message("user", "Stop."), asks, result])
    assert {place: position for place, (position, _) in links.items()} == {(3, 0): (2, 0)}
    links = link_results([asks, Message("user", "Go on."), asks, result, result])
    assert {place: position for place, (position, _) in links.items()} == {(3, 0): (0, 0), (4, 0): (2, 0)}


def test_a_longer_conversation_keeps_the_links_before_an_answer() -> None:
    steps = [step for steps, _ in CASES.values() for step in steps]
    whole = dialect("ollama").decode_request(ollama(steps)).messages
    for place, message in enumerate(whole):
        if message.role == "assistant":
            shorter = dialect("ollama").decode_request(ollama(steps[: place + 1])).messages
            assert shorter == whole[: place + 1]


SHAPES: dict[str, Callable[[int], list[Message]]] = {
    "parallel calls": lambda size: [
        Message("assistant", [ToolCall(None, "look") for _ in range(size)]),
        *(Message("tool", [ToolResult(None, "look", "x")]) for _ in range(size)),
    ],
    "calls that nobody answers": lambda size: [
        message
        for _ in range(size)
        for message in (Message("assistant", [ToolCall(None, "look")]), Message("user", [Text("x")]))
    ],
    "one id": lambda size: [
        message
        for _ in range(size)
        for message in (Message("assistant", [ToolCall("a", "look")]), Message("tool", [ToolResult("a", "look", "x")]))
    ],
    "one result after each message": lambda size: [
        Message("assistant", [ToolCall(f"c{place}", "look") for place in range(size)]),
        *(
            message
            for place in range(size)
            for message in (Message("user", [ToolResult(f"c{place}", None, "x")]), Message("assistant", "Well."))
        ),
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_size_takes_less_than_three_times_the_time(shape: str) -> None:
    def prepare(size: int) -> Work:
        messages = SHAPES[shape](size)
        return lambda: link_results(messages)

    times, told = growth(prepare, 2_000, 2_000)
    assert times < MOST, told
