"""JSON mode, which Messages does not have: a constant sentence at the end of the system prompt asks for it."""

import json
from typing import Any

import pytest

from toolwire import Context, Message, Output, Request, dialect, translate
from toolwire.types import Text

ASKS = [{"role": "user", "content": "Where?"}]
PROMPT = [{"role": "system", "content": "Be brief."}, *ASKS]
PARTS = {"contents": [{"role": "user", "parts": [{"text": "Where?"}]}]}
# A body in JSON mode for each wire that has it, without and with a system prompt.
BODIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai-chat": (
        {"model": "m", "messages": ASKS, "response_format": {"type": "json_object"}},
        {"model": "m", "messages": PROMPT, "response_format": {"type": "json_object"}},
    ),
    "openai-responses": (
        {"model": "m", "input": ASKS, "text": {"format": {"type": "json_object"}}},
        {"model": "m", "input": ASKS, "instructions": "Be brief.", "text": {"format": {"type": "json_object"}}},
    ),
    "gemini": (
        {**PARTS, "generationConfig": {"responseMimeType": "application/json"}},
        {
            **PARTS,
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {"responseMimeType": "application/json"},
        },
    ),
    "ollama": (
        {"model": "m", "messages": ASKS, "format": "json"},
        {"model": "m", "messages": PROMPT, "format": "json"},
    ),
}
ASKED_FOR = {
    "openai-chat": "response_format",
    "openai-responses": "text",
    "gemini": "generationConfig",
    "ollama": "format",
}


def sent(source: str, body: dict[str, Any], *, stream: bool) -> Any:
    path = f"/v1beta/models/m:{'streamGenerateContent' if stream else 'generateContent'}" if source == "gemini" else ""
    body = body if source == "gemini" else {**body, "stream": stream}
    return translate.exchange(body, source=source, target="anthropic", path=path).encoded


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("source", BODIES)
def test_the_system_prompt_asks_for_json(source: str, stream: bool) -> None:
    bare, prompted = (sent(source, body, stream=stream) for body in BODIES[source])
    assert bare.body["system"] == "Answer in JSON."
    assert prompted.body["system"] == "Be brief.\n\nAnswer in JSON."
    for encoded in (bare, prompted):
        [loss] = [
            loss for loss in encoded.losses if loss.path.startswith(ASKED_FOR[source]) and loss.concept != "max_tokens"
        ]
        assert (loss.concept, loss.action, loss.severity) == ("output_json", "approximated", "semantic")
        assert encoded.body["stream"] is stream


def test_a_longer_conversation_begins_with_the_same_bytes() -> None:
    first = BODIES["openai-chat"][1]
    turn = [{"role": "assistant", "content": '{"city": "Rome"}'}, {"role": "user", "content": "And in JSON?"}]
    begun = sent("openai-chat", first, stream=False).body
    later = sent("openai-chat", {**first, "messages": [*first["messages"], *turn]}, stream=False).body
    assert begun.pop("cache_control") == later.pop("cache_control") == {"type": "ephemeral"}
    assert json.dumps(later).startswith(json.dumps(begun).removesuffix("]}"))


def test_blocks_of_a_system_prompt_stay_as_they_are() -> None:
    system: Any = [Text("One."), Text("Two.")]
    request = Request(context=Context(system, [Message("Where?")]), max_tokens=9, output=Output("json"))
    assert dialect("anthropic").encode_request(request).body["system"] == [
        {"type": "text", "text": text} for text in ("One.", "Two.", "Answer in JSON.")
    ]


@pytest.mark.parametrize(("output", "asks"), [("text", False), ("schema", True)])
def test_only_json_of_any_form_is_asked_for_in_words(output: Any, asks: bool) -> None:
    request = Request(context=Context(None, [Message("Where?")]), max_tokens=9, output=Output(output))
    encoded = dialect("anthropic").encode_request(request)
    assert ("system" in encoded.body) is asks
    schema = Output("schema", {"type": "object", "properties": {}, "additionalProperties": False})
    asked = dialect("anthropic").encode_request(Request(context=request.context, max_tokens=9, output=schema))
    assert "system" not in asked.body
