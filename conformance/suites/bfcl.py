"""BFCL's functions and calls (https://pypi.org/project/bfcl-eval/), as data: no model is asked.

Each function is declared on each wire, and the vendor's own types judge the request. The right calls of each question
are written as an answer on each wire and translated to Chat Completions, as a body and as a stream. They must be the
same calls.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.environments import packages_of, version_of
from conformance.outcomes import Outcome, Suite
from tests.oracles import REQUESTS
from toolwire import translate
from toolwire.dialects import NAMES, dialect
from toolwire.streams.accumulation import accumulate, events_of
from toolwire.types import Choice, Message, Response, ToolCall

# The types of BFCL's functions as types of JSON Schema, as BFCL's own handlers write them for vendors.
_TYPES = {
    "integer": "integer",
    "byte": "integer",
    "short": "integer",
    "long": "integer",
    "number": "number",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "Boolean": "boolean",
    "array": "array",
    "list": "array",
    "tuple": "array",
    "Array": "array",
    "ArrayList": "array",
    "Bigint": "integer",
    "Queue": "array",
    "Stack": "array",
    "Set": "array",
    "set": "array",
    "dict": "object",
    "object": "object",
    "Object": "object",
    "HashMap": "object",
    "Hashtable": "object",
}
_CHAT = "openai-chat"


def run(short: bool) -> tuple[str, list[Outcome]]:
    """Run all functions and calls; a short run takes one of ten."""
    folder = packages_of("bfcl") / "bfcl_eval" / "data"
    step = 10 if short else 1
    outcomes = [
        outcome
        for index, (name, function) in enumerate(_functions(folder))
        if index % step == 0
        for outcome in declare(name, function)
    ]
    for index, (name, calls) in enumerate(_answers(folder)):
        if index % step == 0:
            outcomes += answer(name, calls)
    return version_of("bfcl", "bfcl-eval"), outcomes


def declare(name: str, function: dict[str, Any]) -> Iterator[Outcome]:
    """Declare a function on each wire, and yield what the vendor's types complain of."""
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [{"type": "function", "function": function}],
    }
    for target in NAMES:
        try:
            complaint = REQUESTS[target](translate.request(body, _CHAT, target).body)
        except Exception as error:  # whatever is raised is what the suite looks for
            complaint = repr(error)
        yield Outcome(f"functions -> {target}", name, "passed" if complaint is None else "failed", complaint or "")


def answer(name: str, calls: list[tuple[str, dict[str, Any]]]) -> Iterator[Outcome]:
    """Send calls over each wire, as a body and as a stream, and yield if they arrive unchanged."""
    parts = [ToolCall(f"call_{index}", called, arguments) for index, (called, arguments) in enumerate(calls)]
    response = Response(choices=[Choice(Message("assistant", parts), "tool_calls")], id="resp_1", model="any")
    for wire in NAMES:
        for way, arrive in (("body", _as_body), ("stream", _as_stream)):
            try:
                arrived = [(call.name, call.arguments) for call in arrive(response, wire).tool_calls if call.runs]
                detail = "" if json.dumps(arrived) == json.dumps(calls) else f"{calls} became {arrived}"
            except Exception as error:  # whatever is raised is what the suite looks for
                detail = repr(error)
            yield Outcome(f"calls, {way} -> {wire}", name, "failed" if detail else "passed", detail)


def _as_body(response: Response, wire: str) -> Response:
    body = dialect(wire).encode_response(response).json
    return dialect(_CHAT).decode_response(json.loads(translate.response(body, wire, _CHAT).json))


def _as_stream(response: Response, wire: str) -> Response:
    encoder, between, decoder = (
        dialect(wire).encode_stream(),
        translate.stream(wire, _CHAT),
        dialect(_CHAT).decode_stream(),
    )
    data = b"".join(map(encoder.feed, events_of(response))) + encoder.close()
    translated = between.feed(data) + between.close()
    return accumulate([*decoder.feed(translated), *decoder.close()])


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _functions(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the functions of all questions, each once."""
    known: set[str] = set()
    questions = [file for file in sorted(folder.glob("BFCL_v4_*.json")) if "format_sensitivity" not in file.name]
    for file in [*questions, *sorted(folder.glob("multi_turn_func_doc/*.json"))]:
        for line in _lines(file):
            functions = line.get("function", [line] if "parameters" in line else [])
            for number, function in enumerate(functions if isinstance(functions, list) else [functions]):
                text = json.dumps(function)
                if text not in known:
                    known.add(text)
                    yield f"{line.get('id', file.stem)}.{number}", _as_tool(function)


def _answers(folder: Path) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Yield the right calls of each question of one turn: the first value that BFCL accepts of each argument."""
    for file in sorted(folder.glob("possible_answer/BFCL_v4_*.json")):
        for line in _lines(file):
            truth = line.get("ground_truth")
            if isinstance(truth, list) and truth and all(isinstance(call, dict) for call in truth):
                yield line["id"], [_as_call(name, values) for call in truth for name, values in call.items()]


def _as_call(name: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    chosen = {key: options[0] if isinstance(options, list) and options else options for key, options in values.items()}
    return name.replace(".", "_"), chosen


def _as_tool(function: dict[str, Any]) -> dict[str, Any]:
    kept = {key: function[key] for key in ("description", "parameters") if key in function}
    return {"name": function["name"].replace(".", "_"), **_as_schema(kept)}


def _as_schema(value: Any) -> Any:
    """Return a value with the types of JSON Schema in the place of BFCL's; an unknown type is a string, as there."""
    if isinstance(value, list):
        return [_as_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _as_schema(item) for key, item in value.items()}
    if isinstance(value.get("type"), str):
        changed["type"] = _TYPES.get(value["type"], "string")
    return changed


SUITE = Suite("bfcl", "BFCL v4", "functions and calls on every wire", "data -> wire", run)
