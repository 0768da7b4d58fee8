"""What a client's loop sends for the provider's prompt cache, plain and streamed, in both faces."""

from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, TOKYO, awaited, get_weather, lead, options_at
from toolwire import Cache, Message, Text, Usage, aio, dialect, generate
from toolwire.client import sync
from toolwire.errors import InvalidField
from toolwire.providers import named
from toolwire.testing import simulate

KEY = "prompt_cache_key"
SYSTEM = "Be brief. " * 100


def bodies(face: str, name: str, *, shown: bool, options: dict[str, Any] | None = None, **more: Any) -> list[Any]:
    """Give the bodies of a conversation with a call."""
    with simulate([[TOKYO], "Sunny."]) as model:
        lead(face, name, model.url, "Weather?", shown=shown, tools=[get_weather], options=options or {}, **more)
        return [one.body for one in model.requests]


@pytest.mark.sampled
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shown", [False, True])
def test_each_turn_asks_for_the_cache(face: str, name: str, *, shown: bool) -> None:
    first, second = bodies(face, name, shown=shown, system=SYSTEM)
    marked = name == "anthropic"
    assert [body.get("cache_control") for body in (first, second)] == [{"type": "ephemeral"} if marked else None] * 2
    keyed = name.startswith("openai")
    assert (first.get(KEY) is not None) is keyed
    assert first.get(KEY) == second.get(KEY)
    if marked or keyed:
        assert list(second)[-1] == ("cache_control" if marked else KEY)


@pytest.mark.sampled
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("face", FACES)
def test_a_client_can_leave_that_off(face: str, name: str) -> None:
    for body in bodies(face, name, shown=False, options={"cache": False}, system=SYSTEM):
        assert not body.keys() & {"cache_control", KEY}


def test_what_was_added_is_a_formal_loss() -> None:
    with simulate(["Hi."]) as model:
        done = generate("Hi.", "anthropic", "m", **options_at("anthropic", model.url))
    assert [(loss.path, loss.severity) for loss in done.losses if loss.action == "added"] == [
        ("cache_control", "formal")
    ]


def test_a_callers_own_mark_and_key_stay() -> None:
    marked = Message("user", [Text("Hi.", cache=Cache("1h"))])
    with simulate(["Hi.", "Hi."]) as model:
        generate([marked], "anthropic", "m", **options_at("anthropic", model.url))
        generate("Hi.", "openai", "m", cache_key="mine", **options_at("openai", model.url))
        own, keyed = (one.body for one in model.requests)
    assert "cache_control" not in own
    assert own["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert keyed[KEY] == "mine"


def test_a_request_of_the_wire_itself_is_sent_as_it_is() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    with simulate(["Hi."]) as model, sync.Client("anthropic", "m", **options_at("anthropic", model.url)) as client:
        client.send(dialect("anthropic").decode_request(body))
        assert model.requests[0].body == body


def test_a_short_request_is_not_marked() -> None:
    with simulate(["Hi."]) as model:
        generate("Hi.", "anthropic", "claude-opus-5", **options_at("anthropic", model.url))
        assert "cache_control" not in model.requests[0].body


def test_a_server_without_a_mark_for_the_request_gets_marked_blocks() -> None:
    with simulate(["Hi."]) as model:
        options = options_at("anthropic", model.url, quirks={"request_cache_mark": False})
        generate("Hi.", "anthropic", "m", system=SYSTEM, **options)
        body = model.requests[0].body
    assert "cache_control" not in body
    assert [block["cache_control"] for block in body["system"]] == [{"type": "ephemeral"}]


def test_a_server_that_takes_no_key_gets_none() -> None:
    with simulate(["Hi."]) as model:
        generate("Hi.", "groq", "m", base_url=f"{model.url}/v1", api_key="any")
        assert KEY not in model.requests[0].body


def test_the_async_client_does_the_same() -> None:
    async def main(url: str) -> None:
        async with aio.Client("anthropic", "m", cache=False, **options_at("anthropic", url)) as client:
            await client.chat("Hi.")

    with simulate(["Hi."]) as model:
        awaited(main(model.url))
        assert "cache_control" not in model.requests[0].body


def test_a_wrong_option_is_refused() -> None:
    with pytest.raises(InvalidField, match="cache"):
        sync.Client("anthropic", "m", cache="off")  # type: ignore[arg-type]
    assert named("openai") is not None


USAGE = Usage(1000, 10, cache_read_tokens=600, cache_write_tokens=300)
PRICED = {"openai": "gpt-6-sol", "openai-responses": "gpt-6-sol", "anthropic": "claude-sonnet-5-5"}


@pytest.mark.sampled
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shown", [False, True])
def test_cached_tokens_are_counted_and_paid(face: str, name: str, *, shown: bool) -> None:
    with simulate([[USAGE, "Yes."]]) as model:
        done = lead(face, name, model.url, "Hi.", shown=shown, model=PRICED.get(name, "m")).done
    read, written = {"gemini": (600, 0), "ollama": (0, 0)}.get(name, (600, 300))
    assert (done.usage.cache_read_tokens or 0, done.usage.cache_write_tokens or 0) == (read, written)
    assert done.usage.input_tokens == 1000
    if name in PRICED:  # both cost 2 and 10 dollars, 0.2 for what is read and 2.5 for what is written
        assert done.cost == pytest.approx((100 * 2 + 600 * 0.2 + 300 * 2.5 + 10 * 10) / 1e6)


def test_a_limit_of_cost_counts_what_is_cached() -> None:
    with simulate([[Usage(1000, 10, cache_write_tokens=1000), TOKYO]]) as model:
        settings: dict[str, Any] = {"tools": [get_weather], "limits": {"cost": 0.0024}}
        done = lead("sync", "anthropic", model.url, "Hi.", model="claude-sonnet-5-5", **settings).done
    assert done.ending == "budget"


def test_deepseeks_own_count_is_read() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2}
    body = {"choices": [{"message": {"role": "assistant", "content": "Hi."}}], "usage": usage}
    response = dialect("openai-chat").decode_response(body)
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.cache_read_tokens) == (10, 8)
    assert dialect("openai-chat").encode_response(response).body["usage"] == usage
