"""The prompt cache of the simulated model: what it reads and writes on each wire, and what it reports."""

import json
from typing import Any

import pytest

from tests.testing.asking import KEYS, PATHS, USUAL_KEY, post
from tests.testing.sdks import MODELS
from toolwire import Usage, accumulate, dialect
from toolwire.testing import Fail, simulate
from toolwire.testing.prompt_cache import CachedTokens, PromptCache

CLAUDE, GPT, OLD_GPT, GEMINI = "claude-sonnet-5-5", "gpt-6-sol", "gpt-4.1", "gemini-4-argon"
MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
HOUR: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(words: int, word: str = "word") -> str:
    """Return a text with so many tokens, together with its quotation marks."""
    return f"{word:>8}"[:8] * (words // 2 - 1) + "x" * 6


def block(words: int, word: str = "word", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text(words, word), **more}


def messages(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(blocks)}], **more}


def uses(*bodies: Any, wire: str = "anthropic", model: str = CLAUDE, seconds: float = 1.0) -> list[CachedTokens]:
    """Return the tokens of requests that are sent to one provider, one after the other."""
    cache = PromptCache()
    return [cache.use(wire, body, model, 100.0 + seconds * index) for index, body in enumerate(bodies)]


def counts(*bodies: Any, **more: Any) -> list[tuple[int, int | None]]:
    return [(tokens.read, tokens.written) for tokens in uses(*bodies, **more)]


def test_a_prefix_is_read_that_was_written_and_nothing_else() -> None:
    first, second = messages(block(2000), **MARK), messages(block(2000), block(100, "new"), **MARK)
    assert counts(first, second, second) == [(0, 2000), (2000, 100), (2100, 0)]
    assert counts(messages(block(2000)), messages(block(2000))) == [(0, 0), (0, 0)]
    changed = messages(block(2000, "other"), block(100, "new"), **MARK)
    assert counts(first, changed) == [(0, 2000), (0, 2100)]


def test_a_mark_caches_up_to_its_block() -> None:
    body = messages(block(2000, **MARK), block(500, "new"))
    assert counts(body, body) == [(0, 2000), (2000, 0)]
    assert uses(body)[0].prompt == 2500


def test_a_mark_that_moves_on_changes_no_prefix() -> None:
    string = {"messages": [{"role": "user", "content": text(2000)}], **MARK}
    marked = messages(block(2000, **MARK))
    assert counts(string, marked, messages(block(2000), block(64), **MARK)) == [(0, 2000), (2000, 0), (2000, 64)]


def test_the_order_of_keys_is_a_part_of_the_prompt() -> None:
    one = {"name": "look", "description": text(2000), "input_schema": {"type": "object"}}
    other = {name: one[name] for name in reversed(one)}
    body = messages(block(100), **MARK)
    assert counts({**body, "tools": [one]}, {**body, "tools": [other]})[1][0] == 0
    assert counts({**body, "tools": [one]}, {**body, "tools": [one]})[1][0] > 2000


def test_a_prompt_is_tools_then_system_then_messages() -> None:
    tool = {"name": "look", "description": text(2000), "input_schema": {}, **MARK}
    body = messages(block(100), tools=[tool], system=text(1500), **MARK)
    another = messages(block(100), tools=[tool], system=text(1500, "else"), **MARK)
    [(_, _), (read, _)] = counts(body, another)
    assert 2000 < read < 2100
    forced = {**body, "tool_choice": {"type": "any"}}
    marked = {**body, "system": [block(1500, **MARK)]}
    [(_, _), (read, written)] = counts(marked, {**marked, "tool_choice": forced["tool_choice"]})
    assert (3500 < read < 3600, written) == (True, 100)


def test_a_prompt_below_the_minimum_is_not_cached() -> None:
    short = messages(block(1000), **MARK)
    assert counts(short, short) == [(0, 0), (0, 0)]
    assert counts(short, short, model="claude-opus-5") == [(0, 1000), (1000, 0)]  # 512, by the catalogue
    gemini = {"contents": [{"role": "user", "parts": [{"text": text(4000)}]}]}
    assert counts(gemini, gemini, wire="gemini", model=GEMINI) == [(0, None), (0, None)]


def test_a_prefix_is_found_at_most_twenty_blocks_before_a_mark() -> None:
    near, far = ([block(2000), *(block(10, str(n)) for n in range(count))] for count in (20, 21))
    assert counts(messages(block(2000), **MARK), messages(*near, **MARK))[1][0] == 2000
    assert counts(messages(block(2000), **MARK), messages(*far, **MARK))[1][0] == 0
    assert counts(messages(block(2000), **MARK), messages(block(2000, **MARK), *far[1:], **MARK))[1][0] == 2000


def test_a_mark_at_a_block_that_cannot_be_cached_is_the_one_before() -> None:
    thinking = {"type": "thinking", "thinking": text(300), "signature": "s"}
    body = {"messages": [{"role": "user", "content": text(2000)}, {"role": "assistant", "content": [thinking]}], **MARK}
    assert counts(body, body) == [(0, 2000), (2000, 0)]


def test_a_prefix_expires_unless_it_is_used() -> None:
    body, hour = messages(block(2000), **MARK), messages(block(2000), **HOUR)
    assert [read for read, _ in counts(body, body, body, seconds=299)] == [0, 2000, 2000]
    assert [read for read, _ in counts(body, body, seconds=301)] == [0, 0]
    assert [read for read, _ in counts(hour, hour, hour, seconds=3599)] == [0, 2000, 2000]
    assert [read for read, _ in counts(hour, hour, seconds=3601)] == [0, 0]
    gpt = {"messages": [{"role": "user", "content": text(2000)}]}
    long = {**gpt, "prompt_cache_options": {"ttl": "12h"}}
    assert [read for read, _ in counts(gpt, gpt, wire="openai-chat", model=GPT, seconds=1801)] == [0, 0]
    assert [read for read, _ in counts(long, long, wire="openai-chat", model=GPT, seconds=43_199)] == [0, 2000]


def test_writes_of_an_hour_are_counted_apart() -> None:
    body = messages(block(2000, **HOUR), block(1000, "new"), **MARK)
    assert uses(body) == [CachedTokens(3000, 0, 3000, 2000)]
    assert uses(messages(block(2000), **HOUR)) == [CachedTokens(2000, 0, 2000, 2000)]
    item = {"role": "user", "content": [{"type": "input_text", "text": text(2000)}]}
    request = {"input": [item], "prompt_cache_options": {"ttl": "12h"}}
    assert uses(request, wire="openai-responses", model=GPT) == [CachedTokens(2000, 0, 2000, 2000)]
    chat = {"messages": [{"role": "user", "content": text(2000)}], "prompt_cache_options": {"ttl": "12h"}}
    assert uses(chat, wire="openai-chat", model=GPT) == [CachedTokens(2000, 0, 2000, None)]


def test_openai_caches_the_end_of_a_request_and_what_is_marked() -> None:
    breakpoint_: dict[str, Any] = {"prompt_cache_breakpoint": {"mode": "explicit"}}

    def asked(*blocks: Any, **more: Any) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": list(blocks)}], **more}

    first = asked(block(2000, **breakpoint_), block(500, "one"))
    assert counts(first, asked(block(2000), block(500, "two")), wire="openai-chat", model=GPT) == [
        (0, 2500),
        (2000, 500),
    ]
    plain = asked(block(2000), block(500, "one"))
    assert counts(plain, asked(block(2000), block(500, "two")), wire="openai-chat", model=GPT)[1] == (0, 2500)
    assert counts(plain, plain, wire="openai-chat", model=GPT)[1] == (2500, 0)
    explicit = asked(block(2000), prompt_cache_options={"mode": "explicit"})
    assert counts(explicit, explicit, wire="openai-chat", model=GPT) == [(0, 0), (0, 0)]


def test_earlier_models_of_openai_read_any_prefix_and_report_no_writes() -> None:
    first, second = ({"messages": [{"role": "user", "content": [block(2000), block(500, word)]}]} for word in "ab")
    assert counts(first, second, first, wire="openai-chat", model=OLD_GPT) == [(0, None), (2000, None), (2500, None)]


def test_keys_accounts_and_models_have_caches_of_their_own() -> None:
    body = {"messages": [{"role": "user", "content": text(2000)}]}
    keyed = [{**body, "prompt_cache_key": key} for key in ("one", "two", "one")]
    assert [read for read, _ in counts(*keyed, wire="openai-chat", model=GPT)] == [0, 0, 2000]
    cache = PromptCache()
    asked = [("k", GPT), ("other", GPT), ("k", "gpt-6-luna"), ("k", GPT)]
    assert [cache.use("openai-chat", body, model, 1.0, account).read for account, model in asked] == [0, 0, 0, 2000]


def test_a_schema_of_the_output_comes_first_and_ids_of_items_are_not_read() -> None:
    items = [{"type": "message", "id": "msg_1", "role": "user", "content": text(2000)}]
    bare = [{"role": "user", "content": text(2000)}]
    tokens = counts({"input": items}, {"input": bare}, {"input": text(2000)}, wire="openai-responses", model=GPT)
    assert [read for read, _ in tokens] == [0, 2000, 2000]
    schema = {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}}
    assert counts({"input": bare}, {"input": bare, **schema}, wire="openai-responses", model=GPT)[1][0] == 0


def test_a_deferred_tool_is_read_where_it_is_named() -> None:
    tools = [
        {"name": "look", "description": text(1500), "input_schema": {}},
        {"name": "late", "description": text(700), "input_schema": {}, "defer_loading": True},
    ]
    reference = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "tool_reference", "tool_name": "late"}],
    }
    before = messages(block(100), tools=tools[:1], **MARK)
    deferred, named = messages(block(100), tools=tools, **MARK), messages(block(100), reference, tools=tools, **MARK)
    one, two, three = uses(before, deferred, named)
    assert (two.read, two.written) == (one.prompt, 0)
    assert three.read == one.prompt
    assert 700 < (three.written or 0) < 800
    assert uses(messages(block(100), reference, reference, tools=tools, **MARK))[0].prompt < 2500


def test_odd_bodies_have_no_cache_and_raise_nothing() -> None:
    odd: list[Any] = [None, 5, "x", [], [5, "x", None], {"a": 1}, [{"content": 5}], [{"parts": 5}], [[]]]
    for wire, model in (("anthropic", CLAUDE), ("openai-chat", GPT), ("openai-responses", GPT), ("gemini", GEMINI)):
        for value in odd:
            body = dict.fromkeys(("messages", "input", "contents", "tools", "system", "systemInstruction"), value)
            body |= {"cache_control": value, "prompt_cache_options": value, "text": value, "response_format": value}
            assert PromptCache().use(wire, body, model, 1.0).read == 0
    assert PromptCache().use("ollama", {"messages": []}, "qwen3", 1.0) == CachedTokens()


LONG = "Work with care. " * 1500
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "How are you?"},
    {"role": "assistant", "content": "Fine."},
    {"role": "user", "content": "And now?"},
]


def asked(wire: str, turn: int, *, stream: bool) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a turn of a conversation with a long system prompt."""
    history, path = HISTORY[: 1 + 2 * turn], PATHS[wire]
    if wire == "gemini":
        roles = {"user": "user", "assistant": "model"}
        contents = [{"role": roles[one["role"]], "parts": [{"text": one["content"]}]} for one in history]
        path = path.replace("generateContent", "streamGenerateContent?alt=sse") if stream else path
        return path, {"systemInstruction": {"parts": [{"text": LONG}]}, "contents": contents}
    body: dict[str, Any] = {"model": GPT if wire.startswith("openai") else MODELS[wire], "stream": stream}
    if wire == "anthropic":
        return path, {**body, "max_tokens": 99, "system": LONG, "messages": history, **MARK}
    if wire == "openai-responses":
        return path, {**body, "instructions": LONG, "input": history}
    options = {"stream_options": {"include_usage": True}} if stream and wire == "openai-chat" else {}
    return path, {**body, "messages": [{"role": "system", "content": LONG}, *history], **options}


def usage_of(wire: str, data: bytes, *, stream: bool) -> Usage:
    """Return the usage of an answer, as its wire reports it."""
    if not stream:
        found = dialect(wire).decode_response(json.loads(data)).usage
    else:
        decoder = dialect(wire).decode_stream()
        found = accumulate([*decoder.feed(data), *decoder.close()]).usage
    assert found is not None
    return found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", PATHS)
def test_the_simulated_model_reports_cached_tokens(wire: str, *, stream: bool) -> None:
    with simulate(lambda *_: "Fine.") as model:
        usages = []
        for turn in (0, 1):
            path, body = asked(wire, turn, stream=stream)
            status, _, data = post(model.url, path, json.dumps(body).encode(), KEYS.get(wire, USUAL_KEY))
            assert status == 200, data
            usages.append(usage_of(wire, data, stream=stream))
    first, second = usages
    assert first.input_tokens is not None
    assert second.input_tokens is not None
    if wire == "ollama":
        assert (second.cache_read_tokens, second.cache_write_tokens) == (None, None)
        return
    total = len(LONG) // 4
    assert not first.cache_read_tokens
    assert total <= (second.cache_read_tokens or 0) <= first.input_tokens
    if wire != "gemini":
        assert total <= (first.cache_write_tokens or 0) <= first.input_tokens
        assert 0 < (second.cache_write_tokens or 0) < 50
    if wire in ("anthropic", "openai-responses"):
        assert first.cache_write_long_tokens == 0
    told = [one.usage.cache_read_tokens or 0 for one in model.requests if one.usage]
    assert told == [0, second.cache_read_tokens]


def test_a_short_prompt_is_counted_as_before() -> None:
    with simulate(lambda *_: "Fine.") as model:
        body = {"model": CLAUDE, "max_tokens": 9, "messages": HISTORY[:1], **MARK}
        for _ in range(2):
            _, _, data = post(model.url, "/v1/messages", json.dumps(body).encode(), KEYS["anthropic"])
            assert usage_of("anthropic", data, stream=False).cache_read_tokens == 0
    assert [one.usage.cache_read_tokens for one in model.requests if one.usage] == [None, None]


def test_a_usage_of_the_scenario_and_an_error_leave_the_cache_alone() -> None:
    path, body = asked("anthropic", 0, stream=False)
    data = json.dumps(body).encode()
    with simulate([Fail(529), [Usage(7, 1), "Fine."], "Fine."]) as model:
        answers = [post(model.url, path, data, KEYS["anthropic"]) for _ in range(3)]
    assert [one.status for one in model.requests] == [529, 200, 200]
    assert [one.usage and one.usage.cache_read_tokens for one in model.requests] == [None, None, 0]
    assert usage_of("anthropic", answers[1][2], stream=False).input_tokens == 7


def test_a_continued_response_reads_what_the_server_has_stored() -> None:
    with simulate(lambda *_: "Fine.") as model:
        body = {"model": GPT, "input": LONG}
        status, _, data = post(model.url, "/v1/responses", json.dumps(body).encode(), USUAL_KEY)
        assert status == 200
        follow = {"model": GPT, "input": "And now?", "previous_response_id": json.loads(data)["id"]}
        _, _, later = post(model.url, "/v1/responses", json.dumps(follow).encode(), USUAL_KEY)
    first, second = (usage_of("openai-responses", one, stream=False) for one in (data, later))
    assert (second.cache_read_tokens or 0) >= len(LONG) // 4
    assert (second.input_tokens or 0) > (second.cache_read_tokens or 0) > 0.9 * (first.input_tokens or 0)
