"""Accounting: nothing is lost in silence.

Over the model: set any one field, encode to any dialect; the body changes or a loss names the field.
Over bodies: change any one leaf of a recorded body; the translation differs, or a loss names the leaf.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.wires import DIALECTS, PAIRS, SHARES, differences, requests_of, responses_of, same_bytes
from toolwire import (
    Audio,
    Cache,
    Choice,
    Citation,
    Context,
    Document,
    Image,
    Message,
    Opaque,
    Output,
    Refusal,
    Request,
    Response,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    translate,
)
from toolwire.dialects import NAMES

ELSEWHERE = Opaque("elsewhere", {"secret": 1})
MARKS = {"cache": Cache("1h"), "opaque": ELSEWHERE}
# Fields that say how a value was spelled, where it stands or what became of it; the value itself is in another field.
SPELLINGS: dict[type, set[str]] = {
    ToolCall: {"index", "raw", "error"},
    Choice: {"raw_finish_reason"},
    Response: {"losses"},
}
# One value for every other field, different from what stands in the model below.
OTHERS: dict[type, dict[str, Any]] = {
    Request: {
        "context": Context("Other.", [Message("Other?")]),
        "model": "other",
        "stream": True,
        "tool_choice": ToolChoice("required"),
        "parallel_tool_calls": False,
        "max_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.5,
        "top_k": 5,
        "stop": ["END"],
        "seed": 7,
        "n": 2,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.5,
        "logprobs": True,
        "top_logprobs": 3,
        "logit_bias": {"1": 1},
        "thinking": "adaptive",
        "thinking_budget": 2048,
        "thinking_display": "summarized",
        "effort": "low",
        "output": Output("schema", {"type": "object", "properties": {}}, "other", "d", strict=True),
        "verbosity": "low",
        "metadata": {"k": "v"},
        "user": "u",
        "safety_identifier": "s",
        "service_tier": "priority",
        "store": True,
        "cache_key": "k",
        "cache_mode": "explicit",
        "cache_ttl": "30m",
        "opaque": ELSEWHERE,
    },
    Context: {
        "system": "Other.",
        "messages": [Message("Other?")],
        "tools": [Tool("other", "Other.", {"type": "object"})],
        "provider_state": {"previous_response_id": "resp_1", "note": 1},
    },
    Tool: {
        "name": "other",
        "description": "Other.",
        "parameters": {"type": "object", "properties": {"b": {"type": "string"}}},
        "metadata": {"k": 1},
        "strict": True,
        "custom": True,
        "format": {"type": "text"},
        **MARKS,
    },
    Message: {
        "role": "assistant",
        "content": [Text("Other.")],
        "name": "other",
        "tool_call_id": "other",
        "opaque": ELSEWHERE,
    },
    Text: {
        "text": "Other.",
        "citations": [Citation("https://other.example", "t", "q", 1, 2)],
        **MARKS,
    },
    Refusal: {"text": "Other.", **MARKS},
    Image: {
        "url": "https://other.example/i.png",
        "data": "b3RoZXI=",
        "media_type": "image/gif",
        "file_id": "file_9",
        "detail": "high",
        **MARKS,
    },
    Document: {
        "url": "https://other.example/d.pdf",
        "data": "b3RoZXI=",
        "media_type": "text/html",
        "file_id": "file_9",
        "text": "Other.",
        "name": "other.pdf",
        **MARKS,
    },
    Audio: {
        "data": "b3RoZXI=",
        "media_type": "audio/mpeg",
        "url": "https://other.example/a.wav",
        "file_id": "audio_9",
        "transcript": "other",
        **MARKS,
    },
    Thinking: {"text": "Other.", "signature": "sig9", "redacted": True, **MARKS},
    ToolCall: {
        "id": "call_9",
        "name": "other",
        "arguments": {"b": 9},
        "complete": False,
        "custom": True,
        **MARKS,
    },
    ToolResult: {
        "tool_call_id": "call_9",
        "name": "other",
        "content": "other",
        "is_error": True,
        **MARKS,
    },
    ServerToolCall: {"id": "srv_9", "name": "other", "arguments": {"q": 9}, **MARKS},
    ServerToolResult: {"tool_call_id": "srv_9", "name": "other", "content": ["other"], **MARKS},
    Response: {
        "choices": [Choice(Message("assistant", "Other."), "stop")],
        "model": "other",
        "id": "other",
        "created": 99,
        "usage": Usage(1, 2),
        "service_tier": "priority",
        "provider_state": {"note": 1},
        "opaque": ELSEWHERE,
    },
    Choice: {
        "message": Message("assistant", "Other."),
        "finish_reason": "length",
        "stop_sequence": "END",
        "opaque": ELSEWHERE,
    },
    Usage: {
        "input_tokens": 100,
        "output_tokens": 200,
        "cache_read_tokens": 3,
        "cache_write_tokens": 4,
        "cache_write_long_tokens": 2,
        "reasoning_tokens": 5,
        "opaque": ELSEWHERE,
    },
}
CALLS = [ToolCall("call_1", "look", {"a": 1}), ToolCall("call_2", "look", {"a": 2}, 1)]
REQUEST = Request(
    model="m",
    max_tokens=10,
    context=Context(
        "Be brief.",
        [
            Message(
                "user",
                [
                    Text("Look."),
                    Image(data="aW1hZ2U=", media_type="image/png"),
                    Image(url="https://x.example/i.png"),
                ],
            ),
            Message(
                "user",
                [
                    Document(data="ZG9j", media_type="application/pdf", name="d.pdf"),
                    Audio("YXVkaW8=", "audio/wav"),
                ],
            ),
            Message("assistant", [Thinking("Hm.", "sig"), Text("I look."), Refusal("No."), *CALLS]),
            Message("tool", [ToolResult("call_1", "look", "one")]),
            Message(
                "tool",
                [ToolResult("call_2", "look", [Text("two"), Image(data="aW1hZ2U=", media_type="image/png")])],
            ),
            Message(
                "assistant",
                [ServerToolCall("srv_1", "search", {"q": 1}), ServerToolResult("srv_1", "search", ["r"])],
            ),
            Message("developer", "Late."),
            Message("user", "Thanks."),
        ],
        [Tool("look", "Look.", {"type": "object", "properties": {"a": {"type": "integer"}}})],
    ),
)
RESPONSE = Response(
    id="r",
    model="m",
    choices=[Choice(Message("assistant", [Thinking("Hm."), Text("Yes."), *CALLS]), "tool_calls")],
    usage=Usage(10, 20),
)


def fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], type, str]]:
    """Give every field of every struct of the model, with the way to its struct."""
    if isinstance(value, list):
        for place, inner in enumerate(value):
            yield from fields(inner, (*path, place))
    elif type(value) in OTHERS:
        for field in value.__struct_fields__:
            known = field in OTHERS[type(value)]  # test_every_field_has_another_value reports one that is not
            if known and field not in SPELLINGS.get(type(value), ()) and (path[:1], field) != (("choices",), "role"):
                yield path, type(value), field
                yield from fields(getattr(value, field), (*path, field))


def with_field(value: Any, path: tuple[Any, ...], field: str) -> Any:
    """Give the model with one field set to its other value."""
    if not path:
        other = OTHERS[type(value)][field]
        return replace(value, **{field: "user" if other == getattr(value, field) == "assistant" else other})
    step, *rest = path
    if isinstance(value, list):
        return [with_field(inner, tuple(rest), field) if place == step else inner for place, inner in enumerate(value)]
    return replace(value, **{step: with_field(getattr(value, step), tuple(rest), field)})


def unaccounted(model: Any, encode: Any) -> list[str]:
    """Name every field that could be set without a trace."""
    before = encode(model)
    silent = []
    for path, kind, field in fields(model):
        after = encode(with_field(model, path, field))
        if before.path != after.path or differences(before.body, after.body):
            continue
        new = [loss for loss in after.losses if loss not in before.losses]
        named = any(loss.path == f"{_written(path)}.{field}" for loss in after.losses)
        if not named and not any(field in loss.path for loss in new) and not _lost_whole(path, before.losses):
            silent.append(f"{kind.__name__}.{field} at {path}")
    return silent


def _lost_whole(path: tuple[Any, ...], losses: Any) -> bool:
    """Whether the struct itself is lost already, or a struct that holds it."""
    wholes = {_written(path[:end]) for end in range(1, len(path) + 1)}
    return any(loss.path in wholes and loss.action == "dropped" for loss in losses)


def _written(path: tuple[Any, ...]) -> str:
    """Write a place of the model as a loss does."""
    written = ""
    for step in path:
        if step != "context":
            written += f"[{step}]" if isinstance(step, int) else f".{step}" if written else step
    return written


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_a_request_is_accounted_for(name: str) -> None:
    assert unaccounted(REQUEST, DIALECTS[name].encode_request) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_a_response_is_accounted_for(name: str) -> None:
    assert unaccounted(RESPONSE, DIALECTS[name].encode_response) == []


def test_every_field_has_another_value() -> None:
    """A new field of the model must be put to the test."""
    for kind, others in OTHERS.items():
        stated = set(others) | SPELLINGS.get(kind, set())
        new = set(kind.__struct_fields__) - stated  # type: ignore[attr-defined]
        add = f"add a value of each, other than that of the model above, to `OTHERS[{kind.__name__}]` in {__file__}"
        assert not new, f"{kind.__name__} has the new fields {sorted(new)}: {add}"
        gone = stated - set(kind.__struct_fields__)  # type: ignore[attr-defined]
        assert not gone, (
            f"{kind.__name__} has no fields {sorted(gone)} any more: remove them from `OTHERS` in {__file__}"
        )


def test_a_silent_encoder_is_found() -> None:
    """A control: an encoder that drops a setting without a word is reported."""

    def silent(request: Request) -> Any:
        encoded = DIALECTS["openai-chat"].encode_request(replace(request, seed=None))
        return replace(encoded, losses=tuple(loss for loss in encoded.losses if "seed" not in loss.path))

    assert unaccounted(REQUEST, silent) == ["Request.seed at ()"]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the way to every text, number and truth value of a body."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    elif value is not None and value != "":
        yield path


def other_leaf(value: Any, path: tuple[Any, ...]) -> Any:
    """Give the body with one leaf made another."""
    if not path:
        return not value if isinstance(value, bool) else value + "X" if isinstance(value, str) else value + 1
    step, *rest = path
    if isinstance(value, dict):
        return {key: other_leaf(inner, tuple(rest)) if key == step else inner for key, inner in value.items()}
    return [other_leaf(inner, tuple(rest)) if place == step else inner for place, inner in enumerate(value)]


def kind_of(path: tuple[Any, ...]) -> str:
    """Name the place without its positions."""
    return ".".join(str(step) for step in path if isinstance(step, str))


# What a wire says of itself and what means nothing elsewhere: constants, positions, ids of items, sums, names
# of schemas, and the name in a result, which repeats its call's.
FORM = re.compile(
    r"(^|\.)(object|type|index|role|sequence_number|total_tokens|prompt_tokens|completion_tokens|totalTokenCount)$"
    r"|usage|Usage|^tool_choice\.type$|^input\.id$|\.\$schema$|unction_?[rR]esponse\.name$"
)
# What the model calls a thing that some wire calls otherwise.
WORDS = {
    "encrypted_content": "signature",
    "thought_signature": "thoughtSignature",
    "file_url": "url",
    "created_at": "created",
    "mime_type": "media_type",
    "mimeType": "media_type",
}


def silent_leaves(source: str, target: str, bodies: Any, translation: Any, seen: dict[str, int]) -> list[str]:
    """Name every leaf that can be changed without a trace."""
    silent = []
    for recording, body in bodies:
        extra = (recording.path,) if translation is translate.request else ()
        before = translation(body, source, target, *extra)
        named = " ".join(loss.path for loss in before.losses)
        for path in leaves(body):
            kind = kind_of(path)
            if FORM.search(kind) or seen.get(kind, 0) >= 2:
                continue
            seen[kind] = seen.get(kind, 0) + 1
            after = translation(other_leaf(body, path), source, target, *extra)
            same = (before.path, before.losses) == (after.path, after.losses)
            told = _named(path, named) or _lost(path, before.losses)
            if same and not told and same_bytes(before.body, after.body):
                silent.append(f"{recording.name}: {kind}")
    return silent


def _named(path: tuple[Any, ...], losses: str) -> bool:
    return any(isinstance(step, str) and (step in losses or WORDS.get(step, step) in losses) for step in path)


def _lost(path: tuple[Any, ...], losses: Any) -> bool:
    """Whether the message, choice or tool in which the leaf stands has lost a whole part, or itself."""
    place = next((step for step in path if isinstance(step, int)), None)
    wholes = [loss.path for loss in losses if loss.action == "dropped" and loss.path.endswith("]")]
    if path[0] in ("input", "output"):  # several items of this wire are one message of the model
        return any(whole.startswith(("messages", "choices")) for whole in wholes)
    return any(re.search(rf"^\w+\[{place}\]", whole) is not None for whole in wholes) or (
        path[0] in ("content", "message") and any(whole.startswith("choices[0]") for whole in wholes)
    )


@pytest.mark.corpus
@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.row("F21")
@pytest.mark.parametrize("share", SHARES)
def test_every_leaf_of_a_recorded_body_is_accounted_for(source: str, target: str, share: int, corpus: Any) -> None:
    assert corpus
    seen: dict[str, int] = {}
    silent = silent_leaves(source, target, requests_of(source, share), translate.request, seen)
    seen_there: dict[str, int] = {}
    silent += silent_leaves(source, target, responses_of(source, share), translate.response, seen_there)
    assert len(seen) > 10
    assert len(seen_there) > 10
    assert silent == []
