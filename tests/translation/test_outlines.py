"""Outlines: a body that differs from others in its words alone becomes what it becomes without them being known."""

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.amounts import FULL
from tests.translation.test_reuse import KEYS, OFF, PAIRS, exchanged, outcome
from tests.wires import requests_of
from toolwire import translate
from toolwire.dialects import NAMES
from toolwire.errors import ToolwireError
from toolwire.translation import outlines
from toolwire.translation.outlines import take_apart
from toolwire.translation.reuse import Again, Reuse

ALL_PAIRS = [(source, target) for source in NAMES for target in NAMES]
# Words as JSON writes them, and whether they may be filled in.
WORDS = {
    b"Go on.": True,
    b"Error: no": True,
    b'{\\"a\\": [1]}': True,
    b"null": True,
    b"C:\\\\users": True,
    b'say \\"yes\\"': True,
    b"one\\ntwo\\t\\u00e9".replace(b"\\u00e9", "\u00e9".encode()): True,
    "\u65e5\u672c\u8a9e \U0001f600".encode(): True,
    b"<system-reminder>\\nNo.\\n</system-reminder>": True,
    b"word " * 900 + b"end": True,
    b"": False,
    b" ": False,
    b" x": False,
    b"x ": False,
    b"\\n": False,
    b"x\\n": False,
    b"\\tx": False,
    "\u00a0x".encode(): False,
    "x\u3000".encode(): False,
    b"\\u0041": False,
    b"a\\/b": False,
    b"(the conversation begins)": False,
}
BROKEN = [b"\xff", b"\\q", b"\x01", b"a\\", b"\\u12", b"\\ud800", b"\xed\xa0\x80", b'","role":"x', b'\\\\","a":"']
TOOL = {
    "name": "look",
    "description": "Look it up.",
    "parameters": {
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "Where.", "maxLength": 5},
            "how": {"enum": ["text", "far"], "default": "text", "description": "How."},
            "item": {"type": "object", "default": {"text": "none", "description": "none"}},
        },
        "required": ["place"],
    },
}
DEFAULTS = (b"text", b"none")
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"place":"Rome"}'}}
SPOKEN = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Go."},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": [{"type": "text", "text": "More."}, {"type": "text", "text": "And more."}]},
]
CALLED = [
    *SPOKEN[:2],
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Seen."},
    {"role": "user", "content": "And?"},
]
BODIES: dict[str, dict[str, Any]] = {
    "asked": {"messages": SPOKEN[:2]},
    "spoken": {"messages": SPOKEN, "temperature": 0.5},
    "with tools": {"messages": SPOKEN[:2], "tools": [{"type": "function", "function": TOOL}], "stream": True},
    "called": {"messages": CALLED, "tools": [{"type": "function", "function": TOOL}]},
    "strict": {"messages": SPOKEN[:2], "tools": [{"type": "function", "function": {**TOOL, "strict": True}}]},
    "in JSON": {"messages": SPOKEN[:2], "response_format": {"type": "json_object"}},
    "with a picture": {
        "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "text", "text": "What?"},
        ]}]
    },
}  # fmt: skip


SPEAKS = [{"role": "user", "parts": [{"text": "Be brief."}]}]


def written(source: str, name: str) -> bytes:
    """Write one of the bodies in a wire."""
    body = {"model": "gpt-4o", **BODIES[name]}
    return translate.request(body, "openai-chat", source, reuse=OFF).json


def spoken(data: bytes, words: Any) -> bytes:
    """Give a body with the words that a function gives for its own."""
    one = take_apart(data)
    return data if one is None else one.said([words(place, word) for place, word in enumerate(one.words)])


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note whether bodies were filled."""
    found: list[bool] = []
    plain = Again._fill

    def noted(self: Again) -> bool:
        found.append(plain(self))
        return found[-1]

    monkeypatch.setattr(Again, "_fill", noted)
    return found


def known(data: bytes, source: str, target: Any, told: Any = outcome) -> Reuse:
    """Have a body translated so often that its outline is known."""
    held = Reuse(1 << 24)
    for _ in range(3):
        told(data, source, target, held)
    return held


@pytest.mark.sampled
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(("source", "target"), ALL_PAIRS)
def test_other_words_become_what_they_become_without(source: str, target: str, name: str, filled: list[bool]) -> None:
    data = written(source, name)
    held = known(data, source, target)
    for words in [*WORDS, *BROKEN]:
        for place in range(-1, len(take_apart(data).words)):  # type: ignore[union-attr]
            body = spoken(data, lambda at, word, place=place, words=words: words if at == place else word)
            assert outcome(body, source, target, held) == outcome(body, source, target, OFF), body
    assert any(filled) or name == "in JSON"


@pytest.mark.parametrize(("words", "may"), WORDS.items())
def test_which_words_are_filled_in(words: bytes, may: bool, filled: list[bool]) -> None:
    data = written("openai-chat", "asked")
    held = known(data, "openai-chat", "anthropic")
    outcome(spoken(data, lambda place, word: words if place else word), "openai-chat", "anthropic", held)
    assert filled[-1] is may


@pytest.mark.parametrize("target", ["anthropic", "gemini"])
def test_what_a_tool_gave_is_no_word_to_fill_in(target: str, filled: list[bool]) -> None:
    data = written("openai-chat", "called")
    held = known(data, "openai-chat", target)
    for given, may in ((b"Seen!", False), (b"Seen.", True), (b'{\\"a\\": 1}', False)):
        body = spoken(data, lambda _, word, given=given: {b"Seen.": given, b"And?": b"Else."}.get(word, word))
        assert outcome(body, "openai-chat", target, held) == outcome(body, "openai-chat", target, OFF)
        assert filled[-1] is may


@pytest.mark.parametrize("control", [False, True], ids=["", "with one trial alone"])
def test_a_wire_that_minds_words_is_not_filled(
    control: bool, filled: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    if control:
        monkeypatch.setattr(outlines, "_TRIALS", outlines._TRIALS[:1])
    asks = {"contents": SPEAKS, "generationConfig": {"responseMimeType": "application/json"}}
    data = msgspec.json.encode(asks)
    held = known(data, "gemini", "openai-chat")
    body = data.replace(b"Be brief.", b"Give JSON.")
    same = outcome(body, "gemini", "openai-chat", held) == outcome(body, "gemini", "openai-chat", OFF)
    assert (filled[-1], same) == ((True, False) if control else (False, True))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["asked", "with tools", "strict"])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_an_exchange_is_filled_and_its_answer_comes_back_the_same(
    source: str, target: str, name: str, filled: list[bool]
) -> None:
    data = written(source, name)
    held = known(data, source, target, exchanged)
    for words in ("Go on.", "Error: no", "", "\u00e9"):
        body = spoken(data, lambda _, word, words=words: word if word in DEFAULTS else words.encode())
        assert exchanged(body, source, target, held) == exchanged(body, source, target, OFF)
    assert any(filled)


def test_an_exchange_that_asks_for_earlier_turns_is_translated(filled: list[bool]) -> None:
    data = written("openai-chat", "spoken")
    held = known(data, "openai-chat", "anthropic", exchanged)
    assert exchanged(data, "openai-chat", "anthropic", held) == exchanged(data, "openai-chat", "anthropic", OFF)
    assert not any(filled)


def test_what_one_owner_has_sent_no_other_finds(filled: list[bool]) -> None:
    data, held = written("openai-chat", "asked"), Reuse(1 << 20)
    for key, count in (("a", 4), ("b", 2)):
        for _ in range(count):
            outcome(data, "openai-chat", "gemini", held.of(key))
    assert filled == [False, False, False, True, False, False]


def test_many_outlines_stay_within_the_limit() -> None:
    held = Reuse(1 << 17)
    for number in range(200):
        body = msgspec.json.encode({"model": f"m{number}", **BODIES["with tools"]})
        for _ in range(4):
            translate.request(body, "openai-chat", "anthropic", reuse=held)
            assert held.size <= 1 << 17


def test_whoever_changes_a_body_changes_no_other(filled: list[bool]) -> None:
    data = written("openai-chat", "with tools")
    held = known(data, "openai-chat", "anthropic")
    encoded = translate.request(data, "openai-chat", "anthropic", reuse=held)
    encoded.body["tools"].clear()
    assert filled[-1]
    assert outcome(data, "openai-chat", "anthropic", held) == outcome(data, "openai-chat", "anthropic", OFF)


def _recorded(source: str) -> Iterator[tuple[str, bytes]]:
    for recording, body in requests_of(source):
        yield recording.path, json.dumps(body).encode()
        yield recording.path, msgspec.json.encode(body)


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize("source", NAMES)
def test_recorded_bodies_in_other_words(source: str, filled: list[bool], corpus: Any) -> None:  # noqa: ARG001
    rng = random.Random(KEYS.get(source, "messages"))  # noqa: S311 - nothing is kept secret by it
    listed = list(WORDS)
    step = 1 if FULL else 8
    for path, data in list(_recorded(source))[::step]:
        for target in NAMES:
            held = Reuse(1 << 24)
            for _ in range(3):
                translated(data, source, target, path, held)
            for _ in range(4):
                body = spoken(data, lambda _, word: rng.choice([word, rng.choice(listed), rng.choice(BROKEN)]))
                body = body if rng.random() < 0.5 else spoken(data, lambda *_: b"w%d" % rng.randrange(999))
                wanted = translated(body, source, target, path, OFF)
                assert translated(body, source, target, path, held) == wanted, body
    assert sum(filled) > len(filled) // 8


def translated(data: bytes, source: str, target: str, path: str, held: Reuse) -> Any:
    """Say what the translation of a body that was sent to a path comes to."""
    try:
        encoded = translate.request(data, source, target, path, reuse=held)
    except ToolwireError as error:
        return type(error), str(error)
    return encoded.path, encoded.json, encoded.losses
