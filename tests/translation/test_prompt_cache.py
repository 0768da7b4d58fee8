"""What an exchange adds for the provider's prompt cache: a mark, or the key of a session."""

import itertools
import json
from typing import Any

import pytest

from toolwire import Encoded, dialect, translate
from toolwire.dialects import NAMES
from toolwire.gateway.prefix_cache import PrefixCache
from toolwire.providers import named

Body = dict[str, Any]
PAIRS = [(source, target) for source in NAMES for target in NAMES]
FOREIGN = [(source, target) for source, target in PAIRS if source != target]
KEYED = [(source, target) for source, target in FOREIGN if target.startswith("openai-")]
LISTS = {"gemini": "contents", "openai-responses": "input"}
KEY = "prompt_cache_key"
MARK = {"type": "ephemeral"}
TOOL = {"name": "look", "description": "Look. " * 50, "parameters": {"type": "object", "properties": {}}}
STREAMED = pytest.mark.parametrize("streamed", [False, True])


def chat(turns: int = 1, *, first: str = "Go.", system: str = "Be brief. " * 300, **more: Any) -> Body:
    """Make a request of Chat Completions with so many turns of the user."""
    messages: list[Any] = [{"role": "system", "content": system}, {"role": "user", "content": first}]
    for turn in range(1, turns):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": f"I look {turn}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": f"Seen {turn}."},
            {"role": "assistant", "content": f"Yes {turn}."},
            {"role": "user", "content": f"More {turn}."},
        ]
    return {"model": "m", "messages": messages, "tools": [{"type": "function", "function": TOOL}], **more}


def asked(source: str, turns: int = 1, *, streamed: bool = False, **more: Any) -> tuple[Body, str]:
    """Give a request of a wire, and its path."""
    encoded = translate.request(chat(turns, stream=streamed, **more), "openai-chat", source)
    return encoded.body, encoded.path


def sent(body: Body, source: str, target: Any, path: str = "", **more: Any) -> Encoded:
    return translate.exchange(body, source=source, target=target, path=path, **more).encoded


def added(encoded: Encoded) -> list[tuple[str, str, str]]:
    return [(loss.path, loss.concept, loss.severity) for loss in encoded.losses if loss.action == "added"]


@pytest.mark.parametrize(("source", "target"), PAIRS)
@STREAMED
def test_what_is_added_stands_after_all_else(source: str, target: str, *, streamed: bool) -> None:
    body, path = asked(source, 2, streamed=streamed)
    plain = sent(body, source, target, path, cache=False)
    exchange = translate.exchange(body, source=source, target=target, path=path, strict=target == "anthropic")
    encoded = exchange.encoded
    members = {name: value for name, value in encoded.body.items() if name not in plain.body}
    expected = {"anthropic": ["cache_control"], "openai-chat": [KEY], "openai-responses": [KEY]}.get(target, [])
    expected = [] if source == target else expected
    assert list(members) == list(encoded.body)[len(plain.body) :] == expected
    assert added(plain) == []
    assert [(path, severity) for path, _, severity in added(encoded)] == [(name, "formal") for name in expected]
    assert encoded.json.startswith(plain.json[:-1])
    assert members.get("cache_control", MARK) == MARK
    if source == target:
        assert encoded.json == plain.json


@pytest.mark.parametrize("source", NAMES)
def test_one_wire_gets_not_a_byte_more(source: str) -> None:
    body, path = asked(source, 3)
    encoded = sent(body, source, source, path)
    assert encoded.body == body
    provider = named({"openai-chat": "openai"}.get(source, source))
    assert sent(body, source, provider, path).json == sent(body, source, provider, path, cache=False).json


def test_a_request_with_marks_of_its_own_gets_no_other() -> None:
    body = chat(2)
    body["messages"][0]["content"] = [
        {"type": "text", "text": "Be brief. " * 300, "prompt_cache_breakpoint": {"mode": "explicit"}}
    ]
    encoded = sent(body, "openai-chat", "anthropic")
    assert added(encoded) == []
    assert json.dumps(encoded.body).count("cache_control") == 1


@pytest.mark.parametrize(
    ("model", "size", "marked"), [("claude-opus-5", 100, False), ("claude-opus-5", 9000, True), ("m", 1, True)]
)
@pytest.mark.parametrize("whole", [True, False])
def test_what_is_too_short_for_its_model_is_not_marked(model: str, size: int, *, marked: bool, whole: bool) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "x" * size}]}
    given: Any = body if whole else json.dumps(body).encode()
    assert ("cache_control" in sent(given, "openai-chat", "anthropic").body) is marked


def test_the_callers_model_counts() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert "cache_control" not in sent(body, "openai-chat", "anthropic", model="claude-opus-5").body


def unmarked(value: Any) -> Any:
    """Give a value without the marks in it."""
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: unmarked(one) for name, one in value.items() if name not in ("cache_control", "prompt_cache_breakpoint")
    }


def assert_grows(before: Body, after: Body, history: str) -> None:
    """Check that a longer conversation begins with the shorter one, but for the marks."""
    one, other = unmarked(before), unmarked(after)
    assert json.dumps({**other, history: other[history][: len(one[history])]}) == json.dumps(one)


@pytest.mark.parametrize(("source", "target"), FOREIGN)
@pytest.mark.parametrize("quirks", [{}, {"request_cache_mark": False}])
def test_a_longer_conversation_begins_with_the_same_bytes(source: str, target: str, quirks: Body) -> None:
    bodies = []
    for turns in range(1, 6):
        body, path = asked(source, turns)
        bodies.append(sent(body, source, target, path, quirks=quirks if target == "anthropic" else {}).body)
    for before, after in itertools.pairwise(bodies):
        assert_grows(before, after, LISTS.get(target, "messages"))


def test_a_server_that_takes_no_mark_for_the_request_gets_marked_blocks() -> None:
    quirks = {"request_cache_mark": False}
    encoded = sent(chat(3), "openai-chat", "anthropic", quirks=quirks)
    body, paths = encoded.body, [path for path, _, _ in added(encoded)]
    assert "cache_control" not in body
    assert paths == ["tools[0].cache_control", "system[0].cache_control", "messages[6].content[0].cache_control",
                     "messages[8].content[0].cache_control"]  # fmt: skip
    assert json.dumps(body).count('"cache_control"') == 4
    assert [turn["content"][-1].get("cache_control") for turn in (body["messages"][6], body["messages"][8])] == [
        MARK,
        MARK,
    ]
    provider = named("anthropic")
    assert provider is not None
    assert sent(chat(3), "openai-chat", provider.with_options(quirks=quirks)).body["messages"] == body["messages"]


def test_thinking_and_empty_texts_are_not_marked() -> None:
    mark = dialect("anthropic").TRAITS.mark_blocks
    assert mark is not None
    _, paths = mark({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [
        {"type": "text", "text": "x"}, {"type": "thinking", "thinking": "t", "signature": "s"}]}]})  # fmt: skip
    assert paths == ["messages[0].content[0].cache_control", "messages[1].content[0].cache_control"]
    assert mark({}) == ({}, [])
    assert mark({"messages": [], "system": ""}) == ({"messages": [], "system": ""}, [])


@pytest.mark.parametrize(("source", "target"), KEYED)
@STREAMED
def test_a_key_is_the_same_in_all_turns_and_another_elsewhere(source: str, target: str, *, streamed: bool) -> None:
    def key(turns: int = 1, scope: str = "", session: str = "", **more: Any) -> str:
        body, path = asked(source, turns, streamed=streamed, **more)
        encoded = sent(body, source, target, path, cache_scope=scope, client_session=session)
        return str(encoded.body[KEY])

    same = {key(turns) for turns in range(1, 5)}
    others = [key(first="Stop."), key(system="Be long."), key(scope="k1"), key(scope="k2"), key(session="s"),
              key(session="t"), key(session="s", scope="k1")]  # fmt: skip
    assert len(same) == 1
    assert len({*same, *others}) == 1 + len(others)
    assert key(session="s") == key(3, session="s", first="Stop.", system="Other.")
    assert all(len(one) <= 64 and one.startswith("tw-") for one in (*same, *others))


@pytest.mark.parametrize("odd", ["\ud800", "a\udfff", "\0"])
def test_half_a_character_has_a_key_as_well(odd: str) -> None:
    body, path = asked("openai-responses")
    keys = {
        sent({**body, **more}, "openai-responses", "openai-chat", path, cache_scope=scope, client_session=session).body[
            KEY
        ]
        for more, scope, session in [({KEY: odd}, "", ""), ({"user": odd}, "", ""), ({}, odd, ""), ({}, "", odd + odd)]
    }
    assert len(keys) == 4


CLAUDE_CODE = ["user_0a_account__session_{}", '{{"device_id":"d","account_uuid":"","session_id":"{}"}}']


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("user", CLAUDE_CODE)
def test_the_session_of_claude_code_is_its_key(user: str, target: str) -> None:
    def key(session: str, first: str = "Go.") -> str:
        body, path = asked("anthropic", first=first)
        encoded = sent({**body, "metadata": {"user_id": user.format(session)}}, "anthropic", target, path)
        assert session not in encoded.body[KEY]
        return str(encoded.body[KEY])

    assert key("5e55-10") == key("5e55-10", "Stop.") != key("5e55-11")


def test_another_user_is_another_conversation() -> None:
    body, path = asked("anthropic")
    keys = {sent({**body, "metadata": {"user_id": user}}, "anthropic", "openai-chat", path).body[KEY] for user in "ab"}
    assert len(keys) == 2


def test_the_key_of_a_client_becomes_one_of_its_scope() -> None:
    body, path = asked("openai-responses")
    codex = {**body, KEY: "thread-1"}
    encoded = sent(codex, "openai-responses", "openai-chat", path)
    [loss] = [loss for loss in encoded.losses if loss.concept == "cache_key"]
    assert (loss.path, loss.action, loss.severity) == (KEY, "approximated", "formal")
    assert "thread-1" not in encoded.json.decode()
    longer = {**asked("openai-responses", 3)[0], KEY: "thread-1"}
    assert sent(longer, "openai-responses", "openai-chat", path).body[KEY] == encoded.body[KEY]
    assert sent(codex, "openai-responses", "openai-chat", path, cache_scope="k").body[KEY] != encoded.body[KEY]
    assert sent(codex, "openai-responses", "openai-chat", path, cache=False).body[KEY] == "thread-1"
    assert sent(codex, "openai-responses", named("groq"), path).body[KEY] == "thread-1"


def test_how_the_first_message_is_spelled_does_not_matter() -> None:
    body, path = asked("anthropic")
    text = body["messages"][0]["content"]
    block = {"type": "text", "text": text, "cache_control": MARK}
    billed = [{"type": "text", "text": f"x-anthropic-billing-header: {turn};"} for turn in range(2)]
    system = {"type": "text", "text": body["system"]}
    bodies = [
        {**body, "system": [billed[0], system]},
        {
            **body,
            "system": [billed[1], {**system, "cache_control": MARK}],
            "messages": [{"role": "user", "content": [block]}],
        },
    ]
    assert len({sent(one, "anthropic", "openai-responses", path).body[KEY] for one in bodies}) == 1


@pytest.mark.parametrize(
    ("name", "has_key"),
    [("openai", True), ("openai-responses", True), ("azure", True), ("groq", False), ("vllm", False)],
)
def test_only_a_provider_that_takes_a_key_gets_one(name: str, *, has_key: bool) -> None:
    provider = named(name)
    assert provider is not None
    body, path = asked("anthropic")
    assert (KEY in sent(body, "anthropic", provider, path).body) is has_key
    elsewhere = provider.with_options(base_url="https://other.example/v1")
    assert KEY not in sent(body, "anthropic", elsewhere, path).body
    here = provider.with_options(base_url="http://127.0.0.1:1/v1")
    assert (KEY in sent(body, "anthropic", here, path).body) is has_key
    told = elsewhere.with_options(capabilities={"prompt_cache": True})
    assert KEY in sent(body, "anthropic", told, path).body


def test_a_dialect_with_quirks_is_another_server() -> None:
    body, path = asked("anthropic")
    assert KEY not in sent(body, "anthropic", "openai-chat", path, quirks={"joined_texts": True}).body
    assert KEY not in sent(body, "anthropic", dialect("openai-chat", joined_texts=True), path).body


def test_a_conversation_without_a_user_has_no_key() -> None:
    assert KEY not in sent({"model": "m", "messages": [], "max_tokens": 5}, "anthropic", "openai-chat").body


@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_a_cached_translation_gets_the_same(source: str, target: str) -> None:
    held = PrefixCache(1 << 22).of("")
    for first, turns in [
        ("Go.", 1),
        ("Go.", 2),
        ("Go.", 3),
        ("Stop.", 1),
        ("Stop.", 2),
        ("Run.", 1),
        ("Run.", 4),
        ("Go.", 5),
    ]:
        body, path = asked(source, turns, first=first)
        data = json.dumps(body).encode()
        for more in ({}, {"cache_scope": "k"}, {"cache": False}, {"model": "claude-opus-5"}):
            given: Any = {"source": source, "target": target, "path": path, **more}
            cached = translate.exchange(data, translation_cache=held, **given).encoded
            plain = translate.exchange(data, **given).encoded
            assert (cached.json, cached.losses) == (plain.json, plain.losses)


def test_who_changes_a_body_changes_no_other() -> None:
    for quirks in ({}, {"request_cache_mark": False}):
        first = sent(chat(), "openai-chat", "anthropic", quirks=quirks)
        before = first.json
        first.body.get("cache_control", {})["type"] = first.body["tools"][0]["cache_control"] = "other"
        assert sent(chat(), "openai-chat", "anthropic", quirks=quirks).json == before
