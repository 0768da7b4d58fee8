"""Totality: any JSON value in any place gives a value or one documented error, never another exception.

The oddity is kept: what is decoded from an odd body is encoded to that body again.
"""

import functools
import json
import random
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amounts import FULL
from tests.corpus import Recording
from tests.test_stream_types import VALUES, paths, put
from tests.wires import DIALECTS, SHARES, differences, errors_of, is_error, of_dialect, requests_of, responses_of
from toolwire import translate
from toolwire.dialects import NAMES
from toolwire.errors import InvalidBody
from toolwire.wire.bodies import read_body

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "\x00",
    [],
    {},
    [[]],
    [None],
    {"type": None},
    {"a": [{}]},
)
KEYS = (
    "model messages role content type text tool_calls function name arguments id tools parameters "
    "tool_choice input output instructions system contents parts functionCall functionResponse args "
    "response image_url source data usage choices message candidates finishReason stop_reason done "
    "options format think error status call_id summary encrypted_content generationConfig toolConfig "
    "functionDeclarations thought thoughtSignature inlineData tool_use_id is_error thinking"
).split()
TYPES = (
    "text tool_use tool_result image document thinking redacted_thinking function custom message "
    "function_call reasoning function_call_output input_text output_text input_image image_url "
    "input_audio file refusal user assistant system tool developer model auto any none required base64 "
    "url"
).split()
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(TYPES) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=2), inner, max_size=5)
    ),
    max_leaves=30,
)


def survive(name: str, body: Any) -> None:
    """Send a body through every direction of a dialect, and to every other dialect."""
    dialect = DIALECTS[name]
    for decode, encode in (("decode_request", "encode_request"), ("decode_response", "encode_response")):
        try:
            value = getattr(dialect, decode)(body)
        except InvalidBody:
            if isinstance(body, dict):
                raise
            continue
        back = getattr(dialect, encode)(value)
        assert differences(body, back.body) == [], decode
        for target in NAMES:
            getattr(DIALECTS[target], encode)(value)
    error = dialect.decode_error(500, body)
    assert differences(body, dialect.encode_error(error).body) == []
    for target in NAMES:
        assert DIALECTS[target].encode_error(error).status == 500


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("body", ODD, ids=[repr(body)[:20] for body in ODD])
def test_odd_bodies(name: str, body: Any) -> None:
    survive(name, body)


@pytest.mark.parametrize("odd", ODD, ids=[repr(odd)[:20] for odd in ODD])
def test_an_odd_value_in_place_of_a_word(odd: Any) -> None:
    """A word is looked up in a table; what stands there may be no key of any."""
    sound = {"type": "input_audio", "input_audio": {"data": "eA==", "format": odd}}
    survive("openai-chat", {"model": "m", "messages": [{"role": "user", "content": [sound]}]})


@pytest.mark.parametrize(
    "block", [None, 3, True, "a text", ["text"], [], {"text": 3}, {"type": [], "text": None}], ids=repr
)
@pytest.mark.parametrize("name", NAMES)
def test_an_odd_block_beside_others(name: str, block: Any) -> None:
    """What stands among the blocks of a message may be no block at all."""
    for blocks in ([block], [{"type": "text", "text": "a"}, block]):
        for role in ("user", "assistant"):
            message = {"role": role, "content": blocks, "parts": blocks}
            survive(name, {"model": "m", PLACES[name]: [message]})
        answer = {"role": "assistant", "content": blocks, "parts": blocks}
        survive(name, {"choices": [{"message": answer}], "output": [answer], "message": answer, "content": blocks})
        survive(name, {"candidates": [{"content": answer}]})


@pytest.mark.parametrize("name", NAMES)
@given(body=st.dictionaries(st.sampled_from(KEYS), json_values, max_size=6))
def test_any_object(name: str, body: dict[str, Any]) -> None:
    survive(name, body)


def mutate(value: Any, chance: random.Random) -> Any:
    """Put something odd somewhere into a body."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        roll = chance.random()
        if roll < 0.1:
            return {other: inner for other, inner in value.items() if other != key}
        if roll < 0.2:
            return {**value, chance.choice(KEYS): chance.choice(ODD)}
        return {**value, key: mutate(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        if chance.random() < 0.1:
            return [*value[:place], *value[place + 1 :]]
        return [*value[:place], mutate(value[place], chance), *value[place + 1 :]]
    return chance.choice(ODD)


def fuzz(name: str, rounds: int) -> None:
    """Survive mutations of everything that was recorded."""
    chance = random.Random(name)  # noqa: S311 - the same mutations in every run
    bodies = [body for _, body in requests_of(name)] + [body for _, body in responses_of(name)]
    for _ in range(rounds):
        body = chance.choice(bodies)
        for _ in range(chance.randint(1, 4)):
            body = mutate(body, chance)
        survive(name, body)


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_mutations_of_recorded_bodies(name: str, corpus: Any) -> None:
    assert corpus
    fuzz(name, 100)


MARK = "OddlyTyped"
# What other wires know by another place, or do not have at all.
KNOWN_ELSEWHERE = {("gemini", "systemInstruction/role"), ("gemini", "contents/#/parts/#/function_response/name")}
MADE_ANEW = {
    ("openai-responses", "input/#/id"),
    *(("anthropic", f"messages/#/content/#/{inside}source/media_type") for inside in ("", "content/#/")),
}


def odd_places(name: str, values: Sequence[Any], step: int) -> Iterator[tuple[str, str, Any, Any]]:
    """Give bodies with an odd value in a place, one in so many, and what was read from those that can be read.

    Each kind of place comes once, told apart by its path and what holds it.
    """
    seen = set()
    bodies = [("request", *one) for one in requests_of(name)] + [("response", *one) for one in responses_of(name)]
    for kind, recording, body in [*bodies, *(("error", *one) for one in errors_of(name))]:
        for path in paths(body) if len(json.dumps(body)) < 6_000 else ():
            place = "/".join("#" if type(key) is int else str(key) for key in path)
            around = functools.reduce(lambda inner, key: inner[key], path[:-1], body)
            shape = (kind, place, str(around.get("type")) if type(around) is dict else "")
            if shape not in seen:
                seen.add(shape)
                for number, value in enumerate(values, len(seen)):
                    if number % step == 0:
                        odd = put(body, path, value)
                        try:
                            value_read = read_as(name, kind, recording, odd)
                        except InvalidBody:
                            continue
                        yield kind, place, odd, value_read


STEPS = [pytest.param(97, id="few"), pytest.param(1, id="all", marks=pytest.mark.slow)]


@pytest.mark.corpus
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", NAMES)
def test_a_value_of_another_type_is_said_or_told(name: str, step: int, corpus: Any, tally: Counter[str]) -> None:
    assert corpus
    marks = (MARK, {"odd": MARK}, [MARK], {"type": "text", "text": MARK})
    for kind, place, _, value in odd_places(name, marks, step):
        if kind == "error" or (name, place) in KNOWN_ELSEWHERE | MADE_ANEW:
            continue
        for target in NAMES:
            encoded = getattr(DIALECTS[target], f"encode_{kind}")(value)
            said = json.dumps([encoded.body, str(getattr(encoded, "path", ""))])
            assert MARK in said or encoded.losses, (place, target)
        tally["bodies with a value of another type, told"] += 1


@pytest.mark.corpus
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("F19")
def test_a_value_of_any_type_comes_back(name: str, step: int, corpus: Any, tally: Counter[str]) -> None:
    assert corpus
    for kind, place, body, value in odd_places(name, VALUES, step):
        assert differences(body, getattr(DIALECTS[name], f"encode_{kind}")(value).body) == [], place
        for target in NAMES:
            getattr(DIALECTS[target], f"encode_{kind}")(value)
        tally["bodies with a value of another type, back"] += 1


def read_as(name: str, kind: str, recording: Recording, body: Any) -> Any:
    """Read a body of a kind."""
    match kind:
        case "request":
            return DIALECTS[name].decode_request(body, recording.path)
        case "response":
            return DIALECTS[name].decode_response(body)
    return DIALECTS[name].decode_error(recording.status, body)


def there_and_back(recording: Recording, source: str, target: str) -> None:
    """Translate what was recorded to another wire, and what that gives back again."""
    if recording.request is not None:
        there = translate.request(recording.request, source, target, recording.path)
        translate.request(there.body, target, source, there.path)
    if isinstance(recording.response, dict) and not is_error(recording):
        translate.response(translate.response(recording.response, source, target).body, target, source)
    elif recording.response is not None:
        reply = translate.error(recording.status, recording.response, source, target)
        translate.error(reply.status, reply.body, target, source)
    if recording.stream and (recording.response_text or recording.response_b64):
        data = (recording.response_text or "").encode() or b64decode(recording.response_b64 or "")
        stream, back = translate.stream(source, target), translate.stream(target, source)
        back.feed(stream.feed(data) + stream.close())
        back.close()


@pytest.mark.sampled
@pytest.mark.corpus
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_there_and_back_raises_nothing(source: str, target: str, share: int, corpus: Any) -> None:
    """The law of totality: what a target cannot take is a loss, never an exception."""
    assert corpus
    for recording in [*of_dialect(source)][::share]:
        there_and_back(recording, source, target)


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_many_mutations_of_recorded_bodies(name: str, corpus: Any, capsys: Any) -> None:
    assert corpus
    rounds = 20_000 if FULL else 5000
    fuzz(name, rounds)
    with capsys.disabled():
        print(f"\n{rounds} mutated bodies of {name}: no undocumented exception, each came back as it was")  # noqa: T201 - what the long run found


def nested(depth: int) -> Any:
    """Make a value of this depth."""
    value: Any = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"type": "text", "content": value, "parts": value, "text": "t"}
    return value


PLACES = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
    "ollama": "messages",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_levels(name: str) -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = {"type": "object", "properties": {"a": deep}} if isinstance(deep, dict) else {"type": "string"}
    bodies = [
        {"model": "m", PLACES[name]: [{"role": "user", "content": deep, "parts": [deep]}]},
        {
            "model": "m",
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "f", "parameters": deep},
                    "name": "f",
                    "input_schema": deep,
                }
            ],
        },
        {"model": "m", "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": deep}]}]},
    ]
    for body in bodies:
        survive(name, body)


@pytest.mark.parametrize("name", NAMES)
def test_fifty_megabytes(name: str) -> None:
    """Size is no reason to fail, and nothing is copied that need not be."""
    text = "x" * (50 * 1024 * 1024)
    body = {"model": "m", PLACES[name]: [{"role": "user", "content": text, "parts": [{"text": text}]}]}
    dialect = DIALECTS[name]
    assert differences(body, dialect.encode_request(dialect.decode_request(body)).body) == []


REFUSED = {
    b"": "is not JSON",
    b"{": "is not JSON",
    b'{"a":NaN}': "is not JSON",
    b'{"a":1,"a":2}': "'a' twice",
    b'{"a" :1,"a": 2}': "'a' twice",
    b'{"b":{"a":1, "a":2}}': "'a' twice",
    b'{"a":"\xff"}': "is not JSON",
    b'{"a":"\\ud800"}': "is not JSON",
    b"[" * 100_000: "is not JSON",
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.items(), ids=[repr(data)[:24] for data in REFUSED])
def test_bytes_that_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidBody, match=reason) as caught:
        translate.request(data, "openai-chat", "anthropic")
    assert "body" in caught.value.path


ACCEPTED = (b'{"a":"b\\":c","d":1}', b'{"a" : "x :y"}', b'{"a":"\\\\","b":{"a":1}}', b"[]", b"1", b'"x"')


@pytest.mark.parametrize("data", ACCEPTED)
def test_bytes_that_are_read(data: bytes) -> None:
    assert read_body(data) == json.loads(data)


def test_the_parsing_suite(suites: Any) -> None:
    """Public cases: what must be accepted is, what must be refused is refused by a documented error."""
    files = sorted((suites / "json-parsing").rglob("*.json"))
    seen = {"y": 0, "n": 0, "i": 0}
    for file in files:
        kind = file.name[0]
        seen[kind] += 1
        try:
            read_body(file.read_bytes())
            refused = ""
        except InvalidBody as refusal:
            refused = str(refusal)
        if kind == "y":
            # A key given twice is JSON, and is refused on purpose: two readers would understand two things.
            assert not refused or "twice" in refused, file.name
        elif kind == "n":
            assert refused, file.name
    assert min(seen.values()) > 0


def test_what_cannot_be_written_is_an_error() -> None:
    for odd in ("\ud800", float, {1, 2}):
        encoded = translate.request(
            {"model": "m", "messages": [{"role": "user", "content": [odd]}]}, "openai", "openai"
        )
        if odd == {1, 2}:
            assert msgspec.json.decode(encoded.json)
        else:
            with pytest.raises(InvalidBody):
                _ = encoded.json
