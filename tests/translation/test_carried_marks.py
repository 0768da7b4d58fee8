"""Cache marks that are carried between Messages and OpenAI's two wires, with their lifetimes."""

import itertools
import json
from typing import Any

import pytest

from toolwire import Cache, Context, Encoded, Message, Request, Text, Tool, dialect, translate
from toolwire.gateway.prefix_cache import PrefixCache
from toolwire.providers import named

Body = dict[str, Any]
OPENAI = ("openai-chat", "openai-responses")
LISTS = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages"}
MODELS = ("gpt-5.6", "gpt-5.6-sol", "gpt-6-sol", "openai/gpt-6.1-terra")
MARK = {"type": "ephemeral"}
POINT = {"mode": "explicit"}
NAMES = ("cache_control", "prompt_cache_breakpoint")
LIFETIMES = [
    ("", None, False),
    ("5m", None, True),
    ("1h", None, True),
    ("30m", "30m", False),
    ("12h", "12h", False),
    ("9h", "12h", True),
    ("x", None, True),
]
BOTH = pytest.mark.parametrize("target", OPENAI)


def text(words: str, **mark: Any) -> Body:
    return {"type": "text", "text": words, **({"cache_control": {**MARK, **mark}} if mark else {})}


def marked(words: str, ttl: str = "") -> Body:
    return {"type": "text", "text": words, "cache_control": {**MARK, "ttl": ttl} if ttl else MARK}


def claude(turn: int = 0, model: str = "gpt-6-sol", **more: Any) -> Body:
    """Make a request of Claude Code, which moves its marks to the last two messages."""
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    for number in range(turn):
        call = {"type": "tool_use", "id": f"c{number}", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"Seen {number}."}
        messages += [
            {"role": "assistant", "content": [{"type": "text", "text": f"I look {number}."}, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": f"Yes {number}."}]},
            {"role": "user", "content": [{"type": "text", "text": f"More {number}."}]},
        ]
    for message in messages[-2:]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        message["content"] = [*blocks[:-1], {**blocks[-1], "cache_control": MARK}]
    tool = {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}
    return {
        "model": model,
        "max_tokens": 99,
        "system": [{"type": "text", "text": "You are."}, marked("Be brief. " * 100)],
        "tools": [{**tool, "cache_control": MARK}],
        "messages": messages,
        **more,
    }


def sent(body: Any, source: str, target: Any, **more: Any) -> Encoded:
    return translate.exchange(body, source=source, target=target, **more).encoded


def marks(encoded: Encoded) -> list[tuple[str, str, str]]:
    named_losses = [loss for loss in encoded.losses if loss.concept in ("cache_mark", "cache_mode", "cache_ttl")]
    return [(loss.path, loss.action, loss.severity) for loss in named_losses]


def found(value: Any) -> list[Any]:
    """Give the marks of a body, in order."""
    if isinstance(value, list):
        return [one for inner in value for one in found(inner)]
    if not isinstance(value, dict):
        return []
    own = [one for name, one in value.items() if name in ("cache_control", "prompt_cache_breakpoint")]
    return own + [
        one
        for name, inner in value.items()
        if name not in ("cache_control", "prompt_cache_breakpoint")
        for one in found(inner)
    ]


@BOTH
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("streamed", [False, True])
def test_the_marks_of_claude_code_reach_models_that_take_them(target: str, model: str, *, streamed: bool) -> None:
    encoded = sent(claude(model=model, stream=streamed), "anthropic", target, strict=target != "openai-chat")
    body = encoded.body
    system, user = body[LISTS[target]][0], body[LISTS[target]][-1]
    assert [block.get("prompt_cache_breakpoint") for block in system["content"]] == [None, POINT]
    assert [block.get("prompt_cache_breakpoint") for block in user["content"]] == [POINT]
    assert "instructions" not in body
    assert marks(encoded) == [("tools[0].cache", "dropped", "formal")]


@BOTH
@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-4o", "o3", "gpt-5.6-chat-latest", "qwen3", "claude-opus-5"])
def test_other_models_get_none(target: str, model: str) -> None:
    encoded = sent(claude(model=model), "anthropic", target)
    assert found(encoded.body) == []
    assert {severity for _, _, severity in marks(encoded)} == {"formal"}
    assert len(marks(encoded)) == 3


@BOTH
def test_a_server_that_is_not_openais_gets_none(target: str) -> None:
    xai = named("xai")
    assert xai is not None
    provider = xai.with_options(dialect=target)
    assert found(sent(claude(), "anthropic", provider).body) == []
    assert found(sent(claude(), "anthropic", provider.with_options(quirks={"cache_marks": True})).body) == [POINT] * 2
    assert found(sent(claude(), "anthropic", target, quirks={"cache_marks": False}).body) == []
    assert found(sent(claude(model="m"), "anthropic", target, quirks={"cache_marks": True}).body) == [POINT] * 2


@BOTH
def test_marks_of_answers_and_results_are_told(target: str) -> None:
    for turn in (1, 2):
        body = claude(turn)
        body["messages"][2]["content"][0]["cache_control"] = MARK
        encoded = sent(body, "anthropic", target)
        assert {severity for _, _, severity in marks(encoded)} == {"formal"}
        assert len(marks(encoded)) + len(found(encoded.body)) == len(found(body))


@BOTH
@pytest.mark.parametrize(("ttl", "expected", "lost"), LIFETIMES)
def test_the_nearest_lifetime_is_sent(target: str, ttl: str, expected: str | None, *, lost: bool) -> None:
    body = claude()
    body["messages"][0]["content"] = [marked("Go.", ttl)]
    encoded = sent(body, "anthropic", target)
    assert found(encoded.body)[-1] == ({**POINT, "ttl": expected} if expected else POINT)
    assert [path for path, _, _ in marks(encoded)][1:] == (["messages[0].content[0].cache.ttl"] if lost else [])


@BOTH
@pytest.mark.parametrize(("ttl", "expected"), [(None, None), ("5m", None), ("1h", None), ("12h", "12h")])
def test_a_mark_for_the_request_is_the_implicit_one(target: str, ttl: str | None, expected: str | None) -> None:
    control: Body = {**MARK} if ttl is None else {**MARK, "ttl": ttl}
    encoded = sent(claude(cache_control=control), "anthropic", target)
    if expected == "12h" and target == "openai-chat":
        expected = None  # its options have 30 minutes only
    options = {"mode": "implicit"} if expected is None else {"mode": "implicit", "ttl": expected}
    assert encoded.body["prompt_cache_options"] == options
    old = sent(claude(cache_control=control, model="gpt-5.5"), "anthropic", target)
    assert "prompt_cache_options" not in old.body
    assert all(severity == "formal" for _, _, severity in marks(old))


def openai(source: str, points: list[Any], **more: Any) -> Body:
    """Make a request with marks at texts of the user."""
    kind = "text" if source == "openai-chat" else "input_text"
    messages: list[Any] = []
    for number, point in enumerate(points):
        block: Body = {"type": kind, "text": f"Go {number}. " * 50}
        if point is not None:
            block["prompt_cache_breakpoint"] = {"mode": "explicit", **point}
        messages += [{"role": "user", "content": [block]}, {"role": "assistant", "content": f"Yes {number}."}]
    return {"model": "m", LISTS[source]: messages[:-1], **more}


@pytest.mark.parametrize("source", OPENAI)
def test_marks_of_openais_clients_reach_claude(source: str) -> None:
    encoded = sent(openai(source, [{"ttl": "12h"}, {"ttl": "30m"}, {}]), source, "anthropic")
    assert found(encoded.body) == [{**MARK, "ttl": "1h"}, MARK, MARK]
    assert "cache_control" not in encoded.body
    assert [action for _, action, _ in marks(encoded)] == ["approximated", "dropped"]


@pytest.mark.parametrize("source", OPENAI)
def test_four_marks_are_the_most(source: str) -> None:
    encoded = sent(openai(source, [{}] * 7), source, "anthropic")
    assert len(found(encoded.body)) == 4
    assert [turn["role"] for turn in encoded.body["messages"] if type(turn["content"]) is list] == ["user"] * 4
    assert [action for _, action, _ in marks(encoded)] == ["dropped"] * 3
    options = {"prompt_cache_options": {"mode": "implicit"}}
    encoded = sent(openai(source, [{}] * 7, **options), source, "anthropic")
    assert encoded.body["cache_control"] == MARK
    assert len(found(encoded.body)) == 4


@pytest.mark.parametrize("source", OPENAI)
def test_no_longer_lifetime_comes_after_a_shorter_one(source: str) -> None:
    encoded = sent(openai(source, [{"ttl": "12h"}, {}, {"ttl": "12h"}]), source, "anthropic")
    assert [mark.get("ttl", "5m") for mark in found(encoded.body)] == ["1h", "5m", "5m"]
    encoded = sent(openai(source, [{"ttl": "30m"}], prompt_cache_options={"ttl": "12h"}), source, "anthropic")
    assert [mark.get("ttl", "5m") for mark in found(encoded.body)] == ["5m", "5m"]
    encoded = sent(openai(source, [{}], prompt_cache_options={"ttl": "12h"}), source, "anthropic")
    assert [mark.get("ttl", "5m") for mark in found(encoded.body)] == ["1h", "1h"]


@pytest.mark.parametrize("source", OPENAI)
def test_who_wants_no_cache_gets_no_mark(source: str) -> None:
    body = openai(source, [None], prompt_cache_options={"mode": "explicit"})
    encoded = sent(body, source, "anthropic")
    assert found(encoded.body) == []
    assert ("prompt_cache_options", "dropped", "formal") in marks(encoded)


@pytest.mark.parametrize("source", OPENAI)
def test_an_implicit_cache_is_a_mark_for_the_request(source: str) -> None:
    body = openai(source, [None], prompt_cache_options={"mode": "implicit", "ttl": "12h"})
    assert sent(body, source, "anthropic").body["cache_control"] == {**MARK, "ttl": "1h"}
    blocks = sent(body, source, "anthropic", quirks={"request_cache_mark": False}).body
    assert "cache_control" not in blocks
    assert found(blocks) == [MARK]


@pytest.mark.parametrize("other", [("openai-chat", "openai-responses"), ("openai-responses", "openai-chat")])
def test_between_openais_wires_all_is_carried(other: tuple[str, str]) -> None:
    source, target = other
    body = openai(source, [{"ttl": "12h"}, {}], prompt_cache_options={"mode": "explicit", "ttl": "30m"})
    encoded = sent({**body, "model": "gpt-6-sol"}, source, target)
    assert found(encoded.body) == [{**POINT, "ttl": "12h"}, POINT]
    assert encoded.body["prompt_cache_options"] == {"mode": "explicit", "ttl": "30m"}
    assert marks(encoded) == []


@pytest.mark.parametrize("name", LISTS)
def test_one_wire_keeps_its_own(name: str) -> None:
    body = {
        "anthropic": claude(cache_control={**MARK, "ttl": "1h"}),
        "openai-chat": openai(
            "openai-chat", [{}] * 6, prompt_cache_options={"mode": "x", "ttl": "9h", "prewarm": True}
        ),
        "openai-responses": openai("openai-responses", [{}] * 6, prompt_cache_options={"comparison_response_id": "r"}),
    }[name]
    assert sent(body, name, name).body == body
    decoded = dialect(name).decode_request(body)
    assert dialect(name).encode_request(decoded).body == body


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: unmarked(one) for name, one in value.items() if name not in ("cache_control", "prompt_cache_breakpoint")
    }


@BOTH
@pytest.mark.parametrize("model", ["gpt-6-sol", "gpt-5.5"])
def test_without_its_marks_a_turn_begins_as_the_one_before(target: str, model: str) -> None:
    held = PrefixCache(1 << 22).of("")
    bodies = []
    for turn in range(5):
        data = json.dumps(claude(turn, model)).encode()
        encoded = sent(data, "anthropic", target)
        cached = sent(data, "anthropic", target, translation_cache=held)
        assert (cached.json, cached.losses) == (encoded.json, encoded.losses)
        bodies.append(unmarked(encoded.body))
    history = LISTS[target]
    for before, after in itertools.pairwise(bodies):
        assert json.dumps({**after, history: after[history][: len(before[history])]}) == json.dumps(before)


@pytest.mark.parametrize("source", OPENAI)
def test_a_cached_translation_has_the_same_marks(source: str) -> None:
    held = PrefixCache(1 << 22).of("")
    for count in range(1, 9):
        cases: list[list[Any]] = [[{}] * count, [None] * count, [*[None] * (count - 1), {"ttl": "12h"}]]
        for points in cases:
            data = json.dumps(openai(source, points)).encode()
            cached, plain = (sent(data, source, "anthropic", translation_cache=one) for one in (held, None))
            assert (cached.json, cached.losses) == (plain.json, plain.losses)


def test_a_callers_own_marks_are_limited_too() -> None:
    parts = [Text(f"{number}", cache=Cache()) for number in range(4)]
    tool = Tool("look", "Look.", {"type": "object"}, cache=Cache())
    request = Request(context=Context("S", [Message("user", parts)], [tool]), model="m", max_tokens=9)
    encoded = dialect("anthropic").encode_request(request)
    assert len(found(encoded.body)) == 4
    assert "cache_control" not in encoded.body["tools"][0]
    assert [loss.path for loss in encoded.losses if loss.concept == "cache_mark"] == ["tools[0].cache"]


@pytest.mark.parametrize("name", OPENAI)
def test_settings_of_the_caller_are_written(name: str) -> None:
    request = Request(context=Context(None, [Message("Hi")]), model="gpt-6-sol", cache_mode="explicit", cache_ttl="30m")
    options = dialect(name).encode_request(request).body["prompt_cache_options"]
    assert options == {"mode": "explicit", "ttl": "30m"}
    request = Request(context=Context(None, [Message("Hi")]), model="m", max_tokens=99, cache_ttl="1h")
    assert dialect("anthropic").encode_request(request).body["cache_control"] == {**MARK, "ttl": "1h"}
    encoded = dialect(name).encode_request(request)
    assert [(loss.path, loss.severity) for loss in encoded.losses] == [("cache_ttl", "formal")]
