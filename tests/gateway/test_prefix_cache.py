"""The cache of translated conversations: a request is sent as the same bytes, with the same losses, as without it."""

import copy
import itertools
import random
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.amounts import FULL
from toolwire import Encoded, Message, Opaque, Response, ToolCall, translate
from toolwire.config import read_settings
from toolwire.dialects import NAMES, dialect
from toolwire.errors import ToolwireError
from toolwire.gateway import cached_prefix, prefix_cache, starting
from toolwire.gateway.prefix_cache import OwnerCache, PrefixCache
from toolwire.providers import named

EDITS = 5000 if FULL else 500  # of each of 20 pairs
PAIRS = [(source, target) for source in NAMES for target in NAMES if source != target]
KEYS = {"gemini": "contents", "openai-responses": "input"}
TEXTS = ["Go on.", "", "  ", "{}", "é\u2028\U0001f600", "ERROR: no", "[error] no", '"messages":[', "JSON"]
IDS = ["call_1", "call_2", "gemini_1", "toolwire_1_0", "a/b", "", "x" * 80, "a__tw1-2f", "call_3"]
NAMED = ["look", "srv/look.up", "x" * 70, "look__tw3-2f", "say"]
SCHEMA = {"type": "object", "properties": {"place": {"type": "string", "maxLength": 5}}, "required": ["place"]}


def chat(rng: random.Random, turns: int, *, strict: bool = False) -> dict[str, Any]:
    """Make a request of Chat Completions that nothing is odd in."""
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"Go {rng.random()}"},
    ]
    for turn in range(turns):
        messages += chat_turn(rng, turn)
    more = {"parameters": SCHEMA, "strict": strict}
    tools = [
        {"type": "function", "function": {"name": name, "description": f"{name} " * 200, **more}}
        for name in ("look", "say")
    ]
    return {"model": "gpt-4o", "messages": messages, "tools": tools, "temperature": 0.5, "n": 2}


def chat_turn(rng: random.Random, turn: int) -> list[Any]:
    """Make a turn of calls and results, or of words."""
    if rng.random() < 0.3:
        return [{"role": "assistant", "content": f"Yes {turn}."}, {"role": "user", "content": f"More {turn}."}]
    ids = [f"call_{turn}_{number}" for number in range(rng.randrange(1, 3))]
    calls = [
        {"id": one, "type": "function", "function": {"name": "look", "arguments": f'{{"place": "{turn}"}}'}}
        for one in ids
    ]
    results = [{"role": "tool", "tool_call_id": one, "content": f"Seen {turn}."} for one in ids]
    return [{"role": "assistant", "content": rng.choice([None, "I look."]), "tool_calls": calls}, *results]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Give every place within a value: what holds it, and its key."""
    for key in list(value) if type(value) is dict else range(len(value)):
        yield value, key
        if type(value[key]) in (dict, list):
            yield from places(value[key])


def edit(rng: random.Random, body: dict[str, Any], history: str) -> None:  # noqa: C901 - one case for each kind
    """Change a body somewhere."""
    messages = body[history]
    match rng.randrange(9):
        case 0:
            holder, key = rng.choice(list(places(body)))
            holder[key] = rng.choice([*TEXTS, None, 1, True, [], {}])
        case 1:
            holder, key = rng.choice([one for one in places(body) if type(one[0][one[1]]) is str])
            holder[key] = rng.choice(
                [*TEXTS, *IDS, *NAMED, "user", "assistant", "system", "developer", "tool", "model"]
            )
        case 2 if messages:
            del messages[rng.randrange(len(messages))]
        case 3 if messages:
            messages.insert(rng.randrange(len(messages) + 1), copy.deepcopy(rng.choice(messages)))
        case 4 if len(messages) > 1:
            one, other = rng.sample(range(len(messages)), 2)
            messages[one], messages[other] = messages[other], messages[one]
        case 5:
            holder, key = rng.choice(list(places(body)))
            if type(holder) is dict:
                del holder[key]
        case 6:
            holder, key = rng.choice([*places(messages), (body, "model")])
            if type(holder) is dict:
                holder[rng.choice(["name", "extra", "id", "thinking", "cache_control", "refusal"])] = rng.choice(TEXTS)
        case 7:
            body[
                rng.choice(["thinking", "tool_choice", "response_format", "stream", "functions", "seed", "metadata"])
            ] = rng.choice(
                ["auto", "none", {"type": "json_object"}, {"type": "enabled", "budget_tokens": 2000}, True, 5]
            )
        case 8 if messages:
            messages.append(copy.deepcopy(rng.choice(messages)))


def written(rng: random.Random, body: Any) -> bytes:
    """Write a body, in one of the ways that clients do."""
    data = msgspec.json.encode(body)
    match rng.randrange(30):
        case 0:
            return msgspec.json.format(data, indent=0)
        case 1:
            return msgspec.json.format(data, indent=2)
        case 2:
            return data.replace(b'"role"', b'"role":"user","role"', 1)
        case 3:
            return data[: rng.randrange(len(data))]
    return data


def sent(data: bytes, source: str, target: str, held: OwnerCache | None) -> Encoded:
    """Translate a request."""
    return translate.exchange(data, source=source, target=target, translation_cache=held).encoded


def without_volatile(losses: Any) -> tuple[Any, ...]:
    """Leave out the blocks that differ from the last request, which only a cache knows."""
    return tuple(loss for loss in losses if loss.concept != "volatile")


def outcome(data: bytes, source: str, target: str, held: OwnerCache | None) -> Any:
    """Say what a translation comes to, whether it is one or an error."""
    try:
        encoded = sent(data, source, target, held)
    except ToolwireError as error:
        return type(error), str(error)
    return encoded.path, encoded.json, without_volatile(encoded.losses)


# What an answer says: words that were thought, a call with a null, and one without an id.
SIGNED = Opaque("gemini", {"thoughtSignature": "c2ln"})
ANSWER = Response.of(
    Message("assistant", [ToolCall("c1", "look", {"place": None}, opaque=SIGNED), ToolCall(None, "say", {})]),
    "tool_calls",
    id="r",
    model="m",
)
ANSWERS = {name: dialect(name).encode_response(ANSWER).json for name in NAMES}
SERVERS = {"openai-chat": "groq", "openai-responses": "openai-responses", "anthropic": "anthropic", "gemini": "gemini",
           "ollama": "ollama"}  # fmt: skip


def exchanged(data: bytes, source: str, target: Any, held: OwnerCache | None) -> Any:
    """Say what an exchange comes to: what is sent, asked for and learned, and how an answer comes back."""
    try:
        made = translate.exchange(data, source=source, target=target, translation_cache=held)
        encoded = made.encoded
        stream, answer = made.stream(), ANSWERS[made.target.DIALECT]
        told = made.response(answer)
        said = stream.feed(b"x") + stream.close()
    except ToolwireError as error:
        return type(error), str(error)
    back = told.json, told.losses, said, stream.losses, made.memory_updates
    made.use_memory(dict(zip(made.memory_keys, (value for _, value in made.memory_updates), strict=False)))
    losses = without_volatile(encoded.losses)
    return encoded.path, encoded.json, losses, made.streams, made.memory_keys, back, made.encoded.json


@pytest.fixture
def hits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note how often a conversation was gone on with."""
    found: list[bool] = []
    plain = cached_prefix.write_extension

    def noted(*given: Any) -> Any:
        gone = plain(*given)
        found.append(gone is not None)
        return gone

    monkeypatch.setattr(prefix_cache, "write_extension", noted)
    return found


def wander(seed: int, edits: int, source: str, target: Any, outcome: Any = outcome) -> None:
    """Let conversations grow and be edited anywhere, and compare each body's translation with and without the cache."""
    rng = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
    held = PrefixCache(1 << 22).of("")
    history = KEYS.get(source, "messages")
    done = 0
    while done < edits:
        whole = translate.request(
            msgspec.json.encode(chat(rng, 8, strict=rng.random() < 0.5)), "openai-chat", source
        ).body
        body = {**whole, history: whole[history][: rng.randrange(3, 7)]}
        for _ in range(rng.randrange(4, 12)):
            edited = copy.deepcopy(body)
            if rng.random() < 0.35:
                late = {history: edited[history][-3:]}
                edit(rng, late, history)
                edited = {**edited, **late}
                if type(late.get(history)) is list:
                    edited[history] = [*body[history][:-3], *late[history]]
            elif rng.random() < 0.25:
                edit(rng, edited, history)
            data = written(rng, edited)
            assert outcome(data, source, target, held) == outcome(data, source, target, None), data
            done += 1
            body = edited if rng.random() < 0.2 and type(edited.get(history)) is list else body
            body[history] = [*body[history], *whole[history][len(body[history]) :][: rng.randrange(4)]]


@pytest.mark.sampled
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_edits_anywhere_change_nothing_of_what_is_given(source: str, target: str, hits: list[bool]) -> None:
    wander(1, 60, source, target)
    assert any(hits)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_many_edits_change_nothing_of_what_is_given(source: str, target: str, hits: list[bool]) -> None:
    wander(2, EDITS, source, target)
    assert sum(hits) > EDITS // 50


@pytest.mark.sampled
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_edits_anywhere_change_nothing_of_an_exchange(source: str, target: str, hits: list[bool]) -> None:
    wander(3, 30, source, target, exchanged)
    wander(4, 30, source, named(SERVERS[target]), exchanged)
    assert any(hits)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_many_edits_change_nothing_of_an_exchange(source: str, target: str, hits: list[bool]) -> None:
    wander(5, EDITS // 2, source, target, exchanged)
    wander(6, EDITS // 2, source, named(SERVERS[target]), exchanged)
    assert sum(hits) > EDITS // 50


def test_servers_that_deviate_are_told_apart() -> None:
    held = PrefixCache(1 << 22).of("")
    servers = [
        "openai-chat",
        dialect("openai-chat", developer_role=False),
        dialect("openai-chat", joined_texts=True),
        dialect("openai-chat", id_grammar="[a-z0-9]{9}"),
        named("groq"),
        named("mistral"),
    ]
    for data in growing(6, system="Be brief. " * 60):
        body = translate.request(data, "openai-chat", "anthropic").json
        for server in servers:
            assert exchanged(body, "anthropic", server, held) == exchanged(body, "anthropic", server, None)


def growing(turns: int, run: int = 0, system: str = "Be brief.") -> list[bytes]:
    """Give the bodies of a conversation, turn by turn."""
    body = chat(random.Random(run), turns)  # noqa: S311 - likewise
    body["messages"][0]["content"] = system
    ends = [place for place, one in enumerate(body["messages"]) if one["role"] in ("user", "tool")]
    return [msgspec.json.encode({**body, "messages": body["messages"][: end + 1]}) for end in ends]


@pytest.mark.sampled
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_conversation_that_grows_is_gone_on_with(source: str, target: str, hits: list[bool]) -> None:
    held = PrefixCache(1 << 22).of("")
    for data in growing(8):
        body = translate.request(data, "openai-chat", source).json
        assert outcome(body, source, target, held) == outcome(body, source, target, None)
    assert sum(hits) > 3


def test_a_word_comes_back_as_a_word_in_every_turn(hits: list[bool]) -> None:
    held, answer = (
        PrefixCache(1 << 22).of(""),
        dialect("openai-chat").encode_response(Response.of(Message("assistant", '"a"'))).body,
    )
    config = {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}}
    for data in growing(8):
        body = translate.request(data, "openai-chat", "gemini").body
        asked = msgspec.json.encode({**body, "generationConfig": config})
        made = translate.exchange(asked, source="gemini", target="openai-chat", translation_cache=held)
        assert '"enum"' in str(made.encoded.json)
        assert dialect("gemini").decode_response(made.response(answer).body).message.text == "a"
    assert sum(hits) > 3


def talk(turns: int, mark: str) -> bytes:
    """Write a conversation of words, with a mark at the end of the last ones."""
    said = [{"role": "system", "content": "Be brief. " * 60}, {"role": "user", "content": "Go."}]
    for turn in range(turns):
        said += [{"role": "assistant", "content": f"Yes {turn}."}, {"role": "user", "content": f"More {turn}."}]
    said[-1]["content"] += mark
    return msgspec.json.encode({"model": "gpt-4o", "messages": said})


@pytest.mark.parametrize(("mark", "count"), [("", 2), (" (last)", 4)], ids=["said again", "said otherwise"])
def test_what_the_last_turn_said_is_written_once(mark: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    target: Any = dialect("anthropic")

    def encode_later(messages: list[Message], *rest: Any, later: Any = target.encode_later) -> Any:
        written.append(len(messages))
        return later(messages, *rest)

    monkeypatch.setattr(target, "encode_later", encode_later)
    held = PrefixCache(1 << 22).of("")
    for turns in range(1, 7):
        written.clear()
        data = talk(turns, mark)
        assert outcome(data, "openai-chat", "anthropic", held) == outcome(data, "openai-chat", "anthropic", None)
    assert sum(written) == count


def test_whoever_changes_a_body_changes_no_other() -> None:
    held = PrefixCache(1 << 22).of("")
    said = growing(6)
    for data in said:
        encoded = sent(data, "openai-chat", "anthropic", held)
        encoded.body["messages"][0]["content"] = "Something else."
        encoded.body["tools"].clear()
        assert msgspec.json.decode(encoded.json) == encoded.body
    assert outcome(said[-1], "openai-chat", "anthropic", held) == outcome(said[-1], "openai-chat", "anthropic", None)


def test_what_one_owner_has_sent_no_other_finds(hits: list[bool]) -> None:
    for data in growing(6):
        sent(data, "openai-chat", "gemini", PrefixCache(1 << 22).of(""))
    assert not hits


def test_owners_keep_within_one_limit_and_find_nothing_of_each_other(hits: list[bool]) -> None:
    cache = PrefixCache(1 << 18)
    for number, data in itertools.product(range(30), growing(6)):
        sent(data, "openai-chat", "gemini", cache.of(f"k{number}"))
        assert cache.size <= 1 << 18
        if number == 0:
            found = len(hits)
    assert len(hits) == 30 * found > 0
    before = len(hits)
    for number in (30, 31, 30, 31):
        sent(growing(6)[-1], "openai-chat", "gemini", cache.of(f"k{number}"))
    assert len(hits) == before


@pytest.mark.parametrize(("count", "limit"), [(100, 1 << 17), pytest.param(1000, 1 << 20, marks=pytest.mark.slow)])
def test_many_conversations_stay_within_the_limit(count: int, limit: int) -> None:
    cache = PrefixCache(limit)
    begun = [growing(3, run, "Be brief. " * 60) for run in range(count)]
    for turn in itertools.zip_longest(*begun):
        for data in turn:
            if data is not None:
                sent(data, "openai-chat", "anthropic", cache.of(""))
                assert cache.size <= limit


def test_conversations_that_begin_alike_are_told_apart(hits: list[bool]) -> None:
    held = PrefixCache(1 << 24).of("")
    begun = [growing(4, run, "Be brief. " * 60) for run in range(50)]
    for turn in itertools.zip_longest(*begun):
        for data in turn:
            if data is not None:
                assert outcome(data, "openai-chat", "anthropic", held) == outcome(
                    data, "openai-chat", "anthropic", None
                )
    assert sum(hits) > 80


def test_what_begins_like_many_others_is_kept_too(hits: list[bool]) -> None:
    held = PrefixCache(1 << 24).of("")
    for data in growing(6, 0, "Be brief. " * 60)[-1:] * 100:
        sent(data, "openai-chat", "anthropic", held)
    before = len(hits)
    for data in growing(8, 1, "Be brief. " * 60 + "Please.")[-4:]:
        sent(data, "openai-chat", "anthropic", held)
    assert before + 2 <= len(hits)


def test_threads_may_go_on_with_one_conversation_at_once() -> None:
    held = PrefixCache(1 << 22).of("")
    said = growing(12)
    wanted = [outcome(data, "openai-chat", "anthropic", None) for data in said]
    found: list[bool] = []

    def ask() -> None:
        found.extend(
            outcome(data, "openai-chat", "anthropic", held) == one for data, one in zip(said, wanted, strict=True)
        )

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8 * len(said)


def test_a_body_of_bytes_may_be_compared_and_shown() -> None:
    held = PrefixCache(1 << 22).of("")
    for data in growing(6):
        one = sent(data, "openai-chat", "anthropic", held)
        other = sent(data, "openai-chat", "anthropic", None)
        assert one == other
        assert other == one
        assert repr(one) == repr(other)


def test_without_a_cache_nothing_is_stored(hits: list[bool]) -> None:
    for data in growing(6):
        sent(data, "openai-chat", "anthropic", None)
    assert not hits


def test_a_cache_of_no_bytes_stores_nothing(hits: list[bool]) -> None:
    cache = PrefixCache(0)
    for data in growing(6):
        sent(data, "openai-chat", "anthropic", cache.of(""))
    assert (hits, cache.size) == ([], 0)


@pytest.mark.parametrize(("text", "limit"), [("", 33_554_432), ("[translation_cache]\nbytes = 0\n", 0)])
def test_a_gateway_has_as_large_a_cache_as_its_settings_say(text: str, limit: int) -> None:
    settings = read_settings(text)
    gateway = starting.gateway_of(starting.routes_of(settings, None, {}), settings)
    assert gateway.context.translations.limit == limit


def test_what_is_asked_for_another_model_is_translated_for_it() -> None:
    held = PrefixCache(1 << 22).of("")
    for data in growing(6):
        for model in ("one", "two"):
            made = translate.exchange(
                data, source="openai-chat", target="anthropic", model=model, translation_cache=held
            )
            assert msgspec.json.decode(made.encoded.json)["model"] == model
