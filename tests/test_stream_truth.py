"""Damaged streams of which the truth is known: no call runs that nobody made, and no text is lost in silence.

Rules of this file:
- A call may run with a name that a frame of it says, and with what its frames still say of its arguments, in their
  order. Two pieces that were swapped, or a piece that was lost, may leave JSON: no reader can tell that.
- A choice keeps its index, and a whole block of text its type: else nobody can tell what it was.
- What comes after the wire's own end is not read, so it says nothing. An index is never changed to another call's.
- An answer that ends with an error is none: no client runs its calls.
- A text is lost if the answer looks complete and lacks a piece that came before the end.
"""

import copy
import json
import os
import random
from collections import Counter
from typing import Any

import pytest

from tests.naive import READERS
from tests.stream_cases import decode
from toolwire import ErrorEnd, accumulate
from toolwire.dialects import NAMES

FULL = os.environ.get("TOOLWIRE_TORTURE") == "full"
TIMES = [
    pytest.param(200, id="few"),
    pytest.param(40_000 if FULL else 4_000, id="many", marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
]
Chance = random.Random
Frame = tuple[dict[str, Any], int | None]
"""A body, and which call it speaks of."""

KEYS = {
    "id": ("id", "call_id", "item_id"),
    "index": ("index", "output_index", "content_index"),
    "name": ("name",),
    "arguments": ("arguments", "partial_json", "args", "delta"),
    "type": ("type",),
}
OTHER: dict[str, tuple[Any, ...]] = {
    "id": ("other", None, "", 5),
    "index": (None, 7, "x"),
    "name": ("odd", "", None),
    "arguments": (5, None, "", []),
    "type": ("x", None, 5),
}
ARGUMENTS = frozenset({"arguments", "partial_json", "args"})
TEXTS = frozenset({"text", "content", "delta"})


def pieces(text: str, chance: Chance) -> list[str]:
    """Cut a text into some pieces."""
    places = sorted(chance.sample(range(1, len(text)), k=min(len(text) - 1, chance.randint(0, 3))))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


def chat(words: list[str], calls: list[Any], chance: Chance) -> list[Frame]:
    """Tell an answer as Chat Completions does."""
    frames: list[Frame] = [
        ({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}, None) for word in words
    ]
    for place, (name, arguments) in enumerate(calls):
        entry = {"index": place, "id": f"c{place}", "type": "function", "function": {"name": name, "arguments": ""}}
        inner: list[dict[str, Any]] = [{"index": place, "function": {"arguments": text}} for text in arguments]
        for call in (entry, *inner):
            delta = {"tool_calls": [call]}
            frames.append(({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}, place))
    frames.append(({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}, None))
    del chance
    return [*frames, ({"done": True}, None)]


def messages(words: list[str], calls: list[Any], chance: Chance) -> list[Frame]:
    """Tell an answer as Messages does."""
    del chance
    frames: list[Frame] = [({"type": "message_start", "message": {"id": "m", "role": "assistant"}}, None)]
    blocks: list[Any] = [({"type": "text", "text": ""}, [("text_delta", "text", word) for word in words], None)]
    for place, (name, arguments) in enumerate(calls):
        block = {"type": "tool_use", "id": f"c{place}", "name": name, "input": {}}
        blocks.append((block, [("input_json_delta", "partial_json", text) for text in arguments], place))
    for index, (block, deltas, place) in enumerate(blocks):
        frames.append(({"type": "content_block_start", "index": index, "content_block": block}, place))
        for kind, field, text in deltas:
            delta = {"type": kind, field: text}
            frames.append(({"type": "content_block_delta", "index": index, "delta": delta}, place))
        frames.append(({"type": "content_block_stop", "index": index}, place))
    ending = {"stop_reason": "tool_use" if calls else "end_turn"}
    return [*frames, ({"type": "message_delta", "delta": ending}, None), ({"type": "message_stop"}, None)]


def items(words: list[str], calls: list[Any], chance: Chance) -> list[Frame]:
    """Tell an answer as Responses does; some servers do not repeat at the end what they told."""
    bare = chance.random() < 0.5
    response = {"id": "r", "object": "response", "status": "in_progress", "output": []}
    frames: list[Frame] = [({"type": "response.created", "response": response}, None)]
    message = {"type": "message", "id": "m0", "role": "assistant", "content": []}
    output: list[Any] = [{**message, "content": [{"type": "output_text", "text": "".join(words)}]}]
    place = {"output_index": 0, "item_id": "m0", "content_index": 0}
    frames.append(({"type": "response.output_item.added", "output_index": 0, "item": message}, None))
    frames += [({"type": "response.output_text.delta", **place, "delta": word}, None) for word in words]
    for number, (name, arguments) in enumerate(calls):
        item = {"type": "function_call", "id": f"i{number}", "call_id": f"c{number}", "name": name, "arguments": ""}
        place = {"output_index": number + 1, "item_id": f"i{number}"}
        whole = {**item, "arguments": "".join(arguments)}
        kind = "response.function_call_arguments.delta"
        frames.append(({"type": "response.output_item.added", "output_index": number + 1, "item": item}, number))
        frames += [({"type": kind, **place, "delta": text}, number) for text in arguments]
        ended = item if bare else whole
        frames.append(({"type": "response.output_item.done", "output_index": number + 1, "item": ended}, number))
        output.append(whole)
    ending = {**response, "status": "completed", "output": [] if bare else output}
    return [*frames, ({"type": "response.completed", "response": ending}, None)]


def chunks(words: list[str], calls: list[Any], chance: Chance) -> list[Frame]:
    """Tell an answer as Gemini does: a call whole."""
    del chance
    parts: list[Any] = [({"text": word}, None) for word in words]
    for place, (name, arguments) in enumerate(calls):
        call = {"id": f"c{place}", "name": name, "args": json.loads("".join(arguments))}
        parts.append(({"functionCall": call}, place))
    frames: list[Frame] = [
        ({"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}, place) for part, place in parts
    ]
    return [*frames, ({"candidates": [{"index": 0, "finishReason": "STOP"}]}, None)]


def lines(words: list[str], calls: list[Any], chance: Chance) -> list[Frame]:
    """Tell an answer as Ollama does: a call whole."""
    del chance
    told: list[Any] = [({"content": word}, None) for word in words]
    for place, (name, arguments) in enumerate(calls):
        inner = {"name": name, "arguments": json.loads("".join(arguments))}
        told.append(({"content": "", "tool_calls": [{"id": f"c{place}", "function": inner}]}, place))
    frames: list[Frame] = [({"message": {"role": "assistant", **part}, "done": False}, place) for part, place in told]
    ending = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    return [*frames, (ending, None)]


TELL = {
    "openai-chat": chat,
    "anthropic": messages,
    "openai-responses": items,
    "gemini": chunks,
    "ollama": lines,
}
ENDS = {"message_stop", "response.completed"}


def write(name: str, frames: list[Frame]) -> bytes:
    """Write frames as bytes."""
    bodies = [b"[DONE]" if body == {"done": True} else json.dumps(body).encode() for body, _ in frames]
    return b"".join(body + b"\n" if name == "ollama" else b"data: " + body + b"\n\n" for body in bodies)


def places(value: Any) -> list[tuple[Any, str, str]]:
    """Give each field that can be damaged: what holds it, its key, and what it is."""
    found = []
    for key, inner in value.items() if type(value) is dict else ():
        whose = "finish_reason" in value or value.get("type") == "output_text"
        kinds = [] if whose else [what for what, keys in KEYS.items() if key in keys and type(inner) is not dict]
        found += [(value, key, what) for what in kinds]
        found += places(inner)
    for inner in value if type(value) is list else ():
        found += places(inner)
    return found


def damage(frames: list[Frame], chance: Chance) -> list[Frame]:
    """Damage some frames in one or two ways."""
    frames = copy.deepcopy(frames)
    for _ in range(chance.randint(1, 2)):
        place, other = chance.randrange(len(frames)), chance.randrange(len(frames))
        match chance.randrange(7):
            case 0:
                del frames[place]
                if not frames:
                    return [({}, None)]
            case 1:
                frames.insert(other, copy.deepcopy(frames[place]))
            case 2:
                frames[place], frames[other] = frames[other], frames[place]
            case _:
                fields = places(frames[place][0])
                if fields:
                    holder, key, what = chance.choice(fields)
                    if chance.random() < 0.5:
                        del holder[key]
                    else:
                        holder[key] = chance.choice(OTHER[what])
    return frames


def leaves(value: Any, key: str = "") -> list[tuple[str, Any]]:
    """Give the values of a body with their keys; arguments that are an object are one value."""
    if type(value) is dict and key not in ARGUMENTS:
        return [leaf for name, inner in value.items() for leaf in leaves(inner, name)]
    if type(value) is list and key not in ARGUMENTS:
        return [leaf for inner in value for leaf in leaves(inner, key)]
    return [(key, value)]


def read_object(text: str) -> Any:
    """Read JSON, or say that it is none."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return None


class Truth:
    """What can be known of a damaged stream."""

    def __init__(self, frames: list[Frame], calls: list[Any], words: list[str]) -> None:
        told: list[Frame] = []
        for body, place in frames:
            told.append((body, place))
            if body.get("type") in ENDS or body == {"done": True} or (body.get("done") is True and "message" in body):
                break
        self.words = [word for word in words if any(word in map(str, of_text(body)) for body, _ in told)]
        self.may_run: set[tuple[str, str]] = set()
        for place, (name, arguments) in enumerate(calls):
            mine = [leaf for body, number in told if number == place for leaf in leaves(body)]
            values = [value for key, value in mine if key in {*ARGUMENTS, "delta"} and value not in (None, "", {})]
            names = {name, *(value for key, value in mine if key == "name" and type(value) is str)}
            texts = "".join(value for value in values if type(value) is str)
            known: list[Any] = [json.loads("".join(arguments)), read_object(texts) if values else {}]
            known += [read_object(value) for value in values if type(value) is str]
            known += [value for value in values if type(value) is dict]
            for value in known:
                if type(value) is dict and (value or not values or texts.strip() or value == known[0]):
                    self.may_run |= {(one, json.dumps(value)) for one in names}


def of_text(body: dict[str, Any]) -> list[str]:
    """Give the texts of a body."""
    return [value for key, value in leaves(body) if key in TEXTS and type(value) is str]


def answer(chance: Chance) -> tuple[list[str], list[Any]]:
    """Make an answer: pieces of text, and calls with the pieces of their arguments."""
    words = [f"w{place}x{chance.randrange(1000)} " for place in range(chance.randint(0, 4))]
    calls = []
    for place in range(chance.randint(0, 4)):
        arguments = {"key": f"v{place}-{chance.randrange(1000)}"} if chance.random() < 0.8 else {}
        calls.append((f"tool{place}", pieces(json.dumps(arguments), chance)))
    return words, calls


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_stream_runs_no_call_that_nobody_made(name: str, times: int, tally: Counter[str]) -> None:
    chance = random.Random(79)  # noqa: S311 - the same every time
    for _ in range(times):
        words, calls = answer(chance)
        frames = damage(TELL[name](words, calls, chance), chance)
        data, truth = write(name, frames), Truth(frames, calls, words)
        events = decode(name, data)
        response = accumulate(events)
        failed = any(type(event) is ErrorEnd for event in events)
        for call in [] if failed else response.tool_calls:
            assert (call.name, json.dumps(call.arguments)) in truth.may_run, data
        if response.finish_reason in {"stop", "tool_calls"} and not failed:
            text = "".join(choice.message.text for choice in response.choices)
            assert [word for word in truth.words if word not in text] == [], data
        tally["damaged streams whose truth is known"] += 1


@pytest.mark.parametrize("name", NAMES)
def test_a_naive_reader_is_misled(name: str) -> None:
    chance = random.Random(80)  # noqa: S311 - the same every time
    wrong = 0
    for _ in range(500):
        words, calls = answer(chance)
        frames = damage(TELL[name](words, calls, chance), chance)
        truth = Truth(frames, calls, words)
        try:
            told = READERS[name]([write(name, frames)])
        except (LookupError, TypeError, AttributeError, ValueError):
            wrong += 1
            continue
        invented = any((call[1], json.dumps(call[2])) not in truth.may_run for call in told.calls)
        wrong += invented or any(word not in told.text for word in truth.words)
    assert wrong > 25
