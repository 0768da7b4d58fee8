"""Damaged streams of which the truth is known: no call runs that nobody made, and no text is lost in silence.

Rules of this file:
- A call may run with a name that a frame of it says, and with what its frames still say of its arguments, in their
  order. Two pieces that were swapped, or a piece that was lost, may leave JSON: no reader can tell that.
- A choice keeps its index, and a whole block of text its type: else nobody can tell what it was.
- What comes after the wire's own end is not read, so it says nothing. An index is never changed to another call's.
- What says of no call that it is its own belongs to the call that is open. What begins twice, with another id and
  another index, is two calls. `[DONE]` before anything else ends nothing.
- An answer that ends with an error is none: no client runs its calls.
- A text is lost if the answer looks complete and lacks a piece that came before the end.
"""

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.amounts import FULL
from tests.naive import READERS
from tests.stream_cases import decode
from toolwire import ErrorEnd, accumulate
from toolwire.dialects import NAMES

TIMES = [
    pytest.param(60, id="few"),
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
    "index": (None, 7, 8, "x"),
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


def fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Give each field that can be damaged: its path, and what it is."""
    for key, inner in value.items() if type(value) is dict else ():
        whose = "finish_reason" in value or value.get("type") == "output_text" or (key == "type" and is_words(value))
        if not whose and type(inner) is not dict:
            yield from (((*path, key), what) for what, keys in KEYS.items() if key in keys)
        yield from fields(inner, (*path, key))
    for place, inner in enumerate(value) if type(value) is list else ():
        yield from fields(inner, (*path, place))


def is_words(value: dict[str, Any]) -> bool:
    """Whether it is a whole block of text."""
    return "content" in value or value.get("type") == "text"


def holder(body: Any, path: tuple[Any, ...]) -> Any:
    """Give what holds a field, or would hold it."""
    for key in path[:-1]:
        there = key < len(body) if type(body) is list else type(body) is dict and key in body
        body = body[key] if there else None
    return body if type(body) is dict else None


def a_field(body: dict[str, Any], chance: Chance) -> tuple[Any, Any, str]:
    """Choose a field that can be damaged: what holds it, its key, and what it is."""
    found = list(fields(body))
    path, what = chance.choice(found) if found else (("none",), "")
    return holder(body, path), path[-1], what


def of_same(frames: list[Frame], place: int, chance: Chance) -> dict[str, Any]:
    """Choose a frame of the same call, or of none as well."""
    return chance.choice([body for body, number in frames if number == frames[place][1]])


def lose(frames: list[Frame], place: int, chance: Chance) -> None:
    del chance, frames[place]


def repeat(frames: list[Frame], place: int, chance: Chance) -> None:
    frames.insert(chance.randrange(len(frames)), copy.deepcopy(frames[place]))


def swap(frames: list[Frame], place: int, chance: Chance) -> None:
    other = chance.randrange(len(frames))
    frames[place], frames[other] = frames[other], frames[place]


def lose_field(frames: list[Frame], place: int, chance: Chance) -> None:
    held, key, what = a_field(frames[place][0], chance)
    if what:
        del held[key]


def change_field(frames: list[Frame], place: int, chance: Chance) -> None:
    held, key, what = a_field(frames[place][0], chance)
    if what:
        used = [value for body, _ in frames for _, value in leaves(body)]
        held[key] = chance.choice([value for value in OTHER[what] if type(value) is not int or value not in used])


def repeat_field(frames: list[Frame], place: int, chance: Chance) -> None:
    found = [path for path, what in fields(frames[place][0]) if what not in {"index", "arguments"}]
    if found:
        path = chance.choice(found)
        held = holder(of_same(frames, place, chance), path)
        if held is not None and "finish_reason" not in held and held.get("type") != "output_text":
            held[path[-1]] = holder(frames[place][0], path)[path[-1]]


def swap_field(frames: list[Frame], place: int, chance: Chance) -> None:
    found = [path for path, _ in fields(frames[place][0])]
    if found:
        path = chance.choice(found)
        mine, other = holder(frames[place][0], path), holder(of_same(frames, place, chance), path)
        if other is not None and path in [path for path, _ in fields(other, path[:-1])]:
            mine[path[-1]], other[path[-1]] = other[path[-1]], mine[path[-1]]


def split_field(frames: list[Frame], place: int, chance: Chance) -> None:
    """Tell the two halves of a text in two frames."""
    body, number = frames[place]
    found = [path for path, _ in fields(body) if len(str(holder(body, path)[path[-1]])) > 1]
    whole = {"args", "arguments"} & {key for key, value in leaves(body) if type(value) is dict}
    path = chance.choice(found) if found and not whole and "response" not in body else None
    text = None if path is None else holder(body, path)[path[-1]]
    if path is None or type(text) is not str:
        return
    second, cut = copy.deepcopy(body), chance.randrange(1, len(text))
    holder(body, path)[path[-1]], holder(second, path)[path[-1]] = text[:cut], text[cut:]
    frames.insert(place + 1, (second, number))


def split_frame(frames: list[Frame], place: int, chance: Chance) -> None:
    """Tell some fields of a frame in one frame, and the others in the next one."""
    body, number = frames[place]
    if any(type(value) is dict and key in ARGUMENTS for key, value in leaves(body)) or "response" in body:
        return
    second = copy.deepcopy(body)
    for path, _ in list(fields(body)):
        del holder(body if chance.random() < 0.5 else second, path)[path[-1]]
    frames.insert(place + 1, (second, number))


DAMAGES = (lose, repeat, swap, lose_field, lose_field, change_field, change_field, repeat_field, swap_field)
SPLITS = (split_field, split_frame)


def damage(frames: list[Frame], chance: Chance) -> list[Frame]:
    """Damage some frames in one or two ways."""
    frames = [(json.loads(json.dumps(body)), number) for body, number in frames]
    for _ in range(chance.randint(1, 2)):
        if frames:
            chance.choice(DAMAGES + SPLITS)(frames, chance.randrange(len(frames)), chance)
    return frames or [({}, None)]


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
            if body == {"done": True} and told:
                break
            told += [(body, place)] * (body != {"done": True})
            ends = body.get("type") in ENDS and "delta" not in body and "content_block" not in body
            if ends or (body.get("done") is True and "message" in body):
                break
        last = told[-1][0].get("response") if told else None
        output = last.get("output") if type(last) is dict else None
        told += [(item, place) for place, item in enumerate(output[1:] if type(output) is list else [])]
        self.words = [word for word in words if any(word in map(str, of_text(body)) for body, _ in told)]
        self.may_run: set[tuple[str, str]] = set()
        for place, (name, arguments) in enumerate(calls):
            mine = [leaf for body, number in told if number == place for leaf in leaves(body)]
            values = [value for key, value in mine if key in {*ARGUMENTS, "delta"} and value not in (None, "", {})]
            names = {name} | names_of([value for key, value in mine if key == "name" and type(value) is str], name)
            texts = "".join(value for value in values if type(value) is str)
            loose = loose_pieces(told, place)
            known: list[Any] = [json.loads("".join(arguments)), read_object(texts) if values else {}]
            known += [read_object(value) for value in values if type(value) is str]
            known += [value for value in values if type(value) is dict]
            known += [read_object(loose)] if loose else []
            known += [{}] if begins_twice(told, place) else []
            for value in known:
                if type(value) is dict and (
                    value or begins_twice(told, place) or not values or texts.strip() or value == known[0]
                ):
                    self.may_run |= {(one, json.dumps(value)) for one in names}


def entries(told: list[Frame]) -> Iterator[tuple[dict[str, Any], int | None]]:
    """Give what Chat Completions tells of calls."""
    for body, place in told:
        for choice in body.get("choices", ()):
            yield from ((entry, place) for entry in choice.get("delta", {}).get("tool_calls", ()))


def loose_pieces(told: list[Frame], place: int) -> str:
    """Give the text of a call with the pieces between that say of no call that they are its own."""
    found = [(entry, number) for entry, number in entries(told) if type(entry.get("function")) is dict]
    mine = [spot for spot, (_, number) in enumerate(found) if number == place]
    between = found[mine[0] : mine[-1] + 1] if mine else []
    of_call = [entry for entry, number in between if number == place or not ({"id", "index"} & entry.keys())]
    return "".join(text for entry in of_call if type(text := entry["function"].get("arguments")) is str)


def begins_twice(told: list[Frame], place: int) -> bool:
    """Whether a call begins twice, with other ids and other indexes: then it is two calls for everybody."""
    begun = [entry for entry, number in entries(told) if number == place and "name" in entry.get("function", {})]
    ids, indexes = {str(entry.get("id")) for entry in begun}, {str(entry.get("index")) for entry in begun}
    return len(ids) > 1 and len(indexes) > 1


def names_of(told: list[str], name: str) -> set[str]:
    """Give the names that a call may have by what was told; half a name is none beside its other half."""
    halves = [text for text in told if text in name and text != name]
    return {text for text in told if text not in halves or len(set(halves)) == 1} | {"".join(halves), "".join(told)}


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
    for _ in range(200):
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
    assert wrong > 10
