"""Determinism: the same input gives the same bytes, and a longer history keeps the bytes of the shorter."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.wires import DIALECTS, PAIRS, SHARES, requests_of, responses_of, same_bytes
from toolwire import Context, Message, Request, Text, Tool, ToolCall, ToolResult
from toolwire.dialects import NAMES


@pytest.mark.corpus
@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("share", SHARES)
def test_the_same_input_gives_the_same_bytes(source: str, target: str, share: int, corpus: Any) -> None:
    assert corpus
    seen = 0
    for recording, body in requests_of(source, share):
        first = DIALECTS[target].encode_request(DIALECTS[source].decode_request(body, recording.path))
        copy = msgspec.json.decode(msgspec.json.encode(body))
        again = DIALECTS[target].encode_request(DIALECTS[source].decode_request(copy, recording.path))
        assert same_bytes(first.body, again.body), recording.name
        assert first == again
        seen += 1
    for _, body in responses_of(source, share):
        first = DIALECTS[target].encode_response(DIALECTS[source].decode_response(body))
        again = DIALECTS[target].encode_response(DIALECTS[source].decode_response(body))
        assert same_bytes(first.body, again.body)
        seen += 1
    assert seen > 0


@pytest.mark.corpus
@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("share", SHARES)
def test_decoding_and_encoding_leave_the_input_alone(source: str, share: int, corpus: Any) -> None:
    assert corpus
    for recording, body in requests_of(source, share):
        before = msgspec.json.encode(body)
        request = DIALECTS[source].decode_request(body, recording.path)
        for target in NAMES:
            DIALECTS[target].encode_request(request)
        assert msgspec.json.encode(body) == before, recording.name


def conversation(turns: int) -> list[Message]:
    """Make turns with two calls each, names and ids that need escaping, and late system messages."""
    messages = [Message("system", "Be brief."), Message("user", "Begin.")]
    for turn in range(turns):
        calls = [ToolCall(f"functions.a/b:{turn}.{index}", "srv/look.up", {"turn": turn}) for index in range(2)]
        messages.append(Message("assistant", [Text(f"Turn {turn}."), *calls]))
        messages += [Message("tool", [ToolResult(call.id, call.name, f"result {turn}")]) for call in calls]
        messages.append(Message("assistant", f"Done with {turn}."))
        messages.append(Message("user", f"Next, {turn}."))
        if turn % 2:
            messages.append(Message("assistant", "Yes."))
            messages.append(Message("system", "Be kind."))
            messages.append(Message("user", "Go on."))
    return messages


@pytest.mark.parametrize("target", NAMES)
def test_a_longer_history_keeps_the_earlier_bytes(target: str) -> None:
    """Prompt caches and thinking signatures are bound to what came before."""
    whole = conversation(6)
    request = Request(
        model="m",
        max_tokens=100,
        context=Context(None, whole, [Tool("srv/look.up", "Look.", {"type": "object", "properties": {}})]),
    )
    encoded = DIALECTS[target].encode_request(request).body
    key = {"gemini": "contents", "openai-responses": "input"}.get(target, "messages")
    ends = [place for place, message in enumerate(whole) if message.role == "assistant" and not message.tool_calls]
    for end in ends:
        shorter = replace(request, context=replace(request.context, messages=whole[: end + 1]))
        earlier = DIALECTS[target].encode_request(shorter).body
        kept = earlier[key]
        assert same_bytes(kept, encoded[key][: len(kept)]), end
        assert same_bytes({**earlier, key: 0}, {**encoded, key: 0})
