"""No body breaks the simulated model, and none that a vendor took is refused; its tables are up to date."""

import asyncio
import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import anthropic.types.beta.message_create_params
import anthropic.types.message_create_params
import openai.types.chat.completion_create_params
import openai.types.responses.response_create_params
import pytest
from google.genai import types as google

from tests.corpus import Recording
from tests.testing.asking import BODIES, KEYS, PATHS, USUAL_KEY
from tests.testing.histories import LEGAL
from tests.wires import requests_of
from toolwire.testing import rules_anthropic, rules_gemini, rules_openai_chat, rules_openai_responses
from toolwire.testing.rules import ServerMemory, WireRequest
from toolwire.testing.service import Service
from toolwire.testing.wires import refusal

pytestmark = pytest.mark.slow  # many values are generated

JUNK: list[Any] = [None, True, 5, -1.5, "x", "", [], [[]], [5], {}, {"type": "x"}, {"role": 5}]


SETTINGS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "stream_options": {"include_usage": True},
        "stream": True,
        "stop": ["x"],
        "temperature": 1,
        "reasoning_effort": "low",
        "n": 1,
    },
    "openai-responses": {
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {}}},
        "reasoning": {"effort": "low"},
        "tool_choice": {"type": "function", "name": "f"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "max_output_tokens": 100,
    },
    "anthropic": {
        "thinking": {"type": "adaptive"},
        "tool_choice": {"type": "auto"},
        "cache_control": {"type": "ephemeral"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
        "stop_sequences": ["x"],
        "stream": True,
    },
    "gemini": {
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "generationConfig": {
            "temperature": 1,
            "thinkingConfig": {"thinkingLevel": "LOW"},
            "stopSequences": ["x"],
        },
        "systemInstruction": {"parts": [{"text": "x"}]},
        "safetySettings": [{"category": "x"}],
    },
    "ollama": {"options": {"temperature": 1}, "format": {"type": "object"}, "think": "low", "stream": True},
}


def whole(name: str) -> dict[str, Any]:
    return copy.deepcopy(LEGAL[name]().body) | copy.deepcopy(SETTINGS[name])


def broken(value: Any, put: Any = None) -> Iterator[Any]:
    """Give a value with each of its places, at any depth, taken out or replaced by junk."""
    whole = value if put is None else put
    places = list(value.items() if isinstance(value, dict) else enumerate(value))
    for step, inner in places:
        for junk in JUNK:
            value[step] = junk
            yield copy.deepcopy(whole)
        value[step] = inner
        if isinstance(inner, dict | list):
            yield from broken(inner, whole)


@pytest.mark.parametrize("name", LEGAL)
def test_no_body_breaks_a_check(name: str) -> None:
    asked = LEGAL[name]()
    counts = {True: 0, False: 0}
    for body in broken(whole(name)):
        model = body.get("model") if type(body.get("model")) is str else asked.model
        refused = refusal(WireRequest(name, body, model, asked.headers, memory=asked.memory))
        counts[refused is not None] += 1
    assert counts[True] > 300
    assert counts[False] > 10


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize("name", LEGAL)
def test_no_body_breaks_the_server(name: str, strict: bool) -> None:
    service = Service(None, strict=strict)
    headers = KEYS.get(name, USUAL_KEY)

    async def answer_all() -> None:
        for place, body in enumerate(broken(whole(name))):
            if place % (7 if strict else 5) == 0:
                data = json.dumps(body).encode()
                await service.answer(service.receive("POST", PATHS[name], headers), data)

    asyncio.run(answer_all())
    assert service.problems == []
    assert {received.status for received in service.requests} <= {200, 400, 404}


def names_of(*kinds: Any) -> set[str]:
    return {key for kind in kinds for key in kind.__annotations__} | {
        key for kind in kinds for base in kind.__orig_bases__ for key in getattr(base, "__annotations__", {})
    }


def test_the_tables_have_the_fields_of_the_sdks() -> None:
    chat = openai.types.chat.completion_create_params
    responses = openai.types.responses.response_create_params
    plain, beta_params = anthropic.types.message_create_params, anthropic.types.beta.message_create_params
    assert set(rules_openai_chat.BODY.fields) == names_of(chat.CompletionCreateParamsStreaming)
    asked_by_codex = {"client_metadata"}  # the server takes it, and no SDK names it (2026-11-20)
    responses_fields = names_of(responses.ResponseCreateParamsStreaming) | asked_by_codex
    assert set(rules_openai_responses.BODY.fields) == responses_fields
    newest, beta = (set(rules_anthropic.body_of(newest=True, beta=beta).fields) for beta in (False, True))
    assert newest == names_of(plain.MessageCreateParamsStreaming)
    assert beta - {"output_format"} == names_of(beta_params.MessageCreateParamsStreaming)
    config = {rules_gemini.camel({key: None}).popitem()[0] for key in google.GenerationConfig.model_fields}
    assert config - set(rules_gemini.CONFIG.fields) == set()
    schema = {rules_gemini.camel({key: None}).popitem()[0] for key in google.Schema.model_fields}
    assert schema == set(rules_gemini.SCHEMA)


class Everything(dict[Any, Any]):
    """Knows whatever it is asked for."""

    def __contains__(self, key: object) -> bool:
        return True


SERVED_BY = {
    "openai-chat": {"openai"},
    "openai-responses": {"openai"},
    "anthropic": {"anthropic"},
    "gemini": {"gemini", "vertex"},
    "ollama": {"ollama"},
}
# One was recorded by hand with ids that do not match; the others use what only Vertex has.
UNLIKE = re.compile(r"anthropic_completion_tools_call_with_tool_result_stream_helper|model_armor")


def is_judged(name: str, recording: Recording, body: Any) -> bool:
    """Whether a vendor took a request, and all that it took stands in it."""
    own = recording.provider in SERVED_BY[name] and recording.status == 200
    return own and type(body) is dict and "previous_response_id" not in body and not UNLIKE.search(recording.name)


@pytest.mark.corpus
@pytest.mark.parametrize("name", SERVED_BY)
def test_what_the_vendors_took_is_taken(name: str, corpus: Any, tally: Any) -> None:
    assert corpus
    memory = ServerMemory()
    known: Any = Everything()  # signatures and items of the vendors cannot be checked
    memory.signatures = memory.items = known
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "any"}
    refused, judged = [], 0
    for recording, body in requests_of(name):
        if is_judged(name, recording, body):
            judged += 1
            found = re.search(r"models/([^/:]+)", recording.url_path)
            model = found[1] if found else str(body.get("model"))
            why = refusal(WireRequest(name, body, model, headers, recording.url_query, memory=memory))
            refused += [] if why is None else [(recording.name, why.message)]
    assert refused == []
    assert judged > 40
    tally["requests that a vendor took, taken by the simulated model"] += judged


def test_the_bodies_of_these_tests_are_taken() -> None:
    for name, body in BODIES.items():
        model = str(body.get("model", "gemini-3-pro"))
        assert refusal(WireRequest(name, body, model, KEYS.get(name, {}))) is None
