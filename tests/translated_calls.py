"""What a translation must say of calls, judged over answers that were mutated: the same calls, and never another one.

`python -m tests.translated_calls SEED SECONDS` looks for answers of which a translation says otherwise.

Rules of this file:
- Complete calls that run at the source run at the target: the same ones, in the same order. No other call does.
- An answer that failed or broke off at its source does so at the target. Then fewer calls may run there.
- Where a target can say a call only by an error, its answer ends in an error.
- An answer that no reason ended may run fewer of its calls on its own wire.
- An answer whose calls were all cut off does not ask for calls on another wire.
"""

import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from msgspec import Struct

from tests.nasty import TABLE
from tests.stream_cases import cases, decode
from tests.stream_oracles import READERS
from tests.test_stream_truth import chat, chunks, items, lines, messages, pieces
from tests.wires import DIALECTS, responses_of
from toolwire import ErrorEnd, Event, MessageEnd, Response, ToolCall, accumulate, translate
from toolwire.dialects import NAMES
from toolwire.streams import ARGUMENTS_CHANGED, CUT_FREE_TEXT
from toolwire.wire.names import WORD_CHARS, Grammar, restore

Chance = random.Random
Mutation = Callable[[bytes, Chance], bytes]
_FRAME, _LINE = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)"), re.compile(rb"(?<=\n)")
_LEAF = re.compile(rb'"(?:[^"\\]|\\.)*"(?!\s*:)|-?\d+(?:\.\d+)?|true|false|null|\{\}|\[\]')
_INDEX = re.compile(rb'"(index|output_index|content_index)"\s*:\s*(-?\d+)')
_NAME = re.compile(rb'"name"\s*:\s*"(?:[^"\\]|\\.)*"')
_REASON = re.compile(rb'"(finish_reason|stop_reason|finishReason|done_reason|status)"\s*:\s*"[a-zA-Z_]*"')
_CALLS = re.compile(rb"tool_calls|tool_use|function_call|functionCall")
_LEGAL = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_-]{0,63})?", re.ASCII)
_INDEXES = (b"-1", b"0", b"1", b"2", b"7", b"99999999999999999999", b"1e30", b'"0"', b'"x"', b"null", b"1.5", b"true")
_VALUES = (b"null", b"true", b"0", b"-1", b'""', b'"x"', b"[]", b"{}", b'{"a":1}', b'"{}"', b'"tool_calls"', b'"stop"')
_NAMES_THERE = (b'"name":""', b'"name":null', b'"name":"odd"', b'"nm":0')
_REASONS = (b"null", b'"length"', b'"stop"', b'"error"', b'"tool_calls"', b'"content_filter"', b'""', b'"incomplete"')
_ARGUMENTS = (
    "{}",
    '{"a":1}',
    '{"path":"/srv/x","n":[1,2]}',
    '{"a":{"b":"c"}}',
    "",
    " ",
    "null",
    '{"x',
    '{"a": nope}',
    "[1]",
)
_OBJECTS = _ARGUMENTS[:4]
_SMALL = 20_000
_ANY_NAME = Grammar(WORD_CHARS, 128)


def frames(data: bytes) -> list[bytes]:
    """Give the frames of a stream, each with its end."""
    return [frame for frame in (_FRAME if b"\n\n" in data else _LINE).split(data) if frame] or [data]


def _repeat(data: bytes, chance: Chance) -> bytes:
    parts = frames(data)
    place = chance.randrange(len(parts))
    return b"".join([*parts[: place + 1], *parts[place:]])


def _drop(data: bytes, chance: Chance) -> bytes:
    parts = frames(data)
    del parts[chance.randrange(len(parts))]
    return b"".join(parts)


def _swap(data: bytes, chance: Chance) -> bytes:
    parts = frames(data)
    one, other = chance.randrange(len(parts)), chance.randrange(len(parts))
    parts[one], parts[other] = parts[other], parts[one]
    return b"".join(parts)


def _move(data: bytes, chance: Chance) -> bytes:
    parts = frames(data)
    part = parts.pop(chance.randrange(len(parts)))
    parts.insert(chance.randrange(len(parts) + 1), part)
    return b"".join(parts)


def _mix(data: bytes, chance: Chance) -> bytes:
    parts, other = frames(data), frames(chance.choice(pool(chance.choice(NAMES))))
    place, first = chance.randrange(len(parts) + 1), chance.randrange(len(other))
    return b"".join([*parts[:place], *other[first : first + chance.randint(1, 3)], *parts[place:]])


def _cut(data: bytes, chance: Chance) -> bytes:
    return data[: chance.randrange(len(data))]


def _break_off(data: bytes, chance: Chance) -> bytes:
    parts = frames(data)
    return b"".join(parts[: chance.randrange(len(parts))])


def _replace(pattern: re.Pattern[bytes], data: bytes, chance: Chance, new: Callable[[re.Match[bytes]], bytes]) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    match = chance.choice(found)
    return data[: match.start()] + new(match) + data[match.end() :]


def _other_index(data: bytes, chance: Chance) -> bytes:
    return _replace(_INDEX, data, chance, lambda match: b'"%b":%b' % (match[1], chance.choice(_INDEXES)))


def _no_index(data: bytes, chance: Chance) -> bytes:
    return _replace(_INDEX, data, chance, lambda _: b'"x":0')


def _other_name(data: bytes, chance: Chance) -> bytes:
    return _replace(_NAME, data, chance, lambda _: chance.choice(_NAMES_THERE))


def _other_reason(data: bytes, chance: Chance) -> bytes:
    return _replace(_REASON, data, chance, lambda match: b'"%b":%b' % (match[1], chance.choice(_REASONS)))


def _other_value(data: bytes, chance: Chance) -> bytes:
    return _replace(_LEAF, data, chance, lambda _: chance.choice(_VALUES))


OF_STREAMS: tuple[Mutation, ...] = (
    *(_repeat, _drop, _drop, _swap, _move, _mix, _cut, _break_off, _other_index, _other_index, _no_index),
    *(_other_name, _other_reason, _other_value, _other_value),
)
OF_BODIES: tuple[Mutation, ...] = (_other_index, _no_index, _other_name, _other_reason, _other_value, _other_value)
_TELLERS: dict[str, Callable[..., list[Any]]] = {
    "openai-chat": chat,
    "openai-responses": items,
    "anthropic": messages,
    "gemini": chunks,
    "ollama": lines,
}


@cache
def pool(name: str) -> tuple[bytes, ...]:
    """Give streams with calls: recorded ones, and those that servers send which deviate."""
    known = [case.data for case in cases(name, _SMALL)] + [row.data for row in TABLE if row.dialect == name]
    return tuple(data for data in known if _CALLS.search(data))


@cache
def bodies(name: str) -> tuple[bytes, ...]:
    """Give whole answers with calls."""
    known = [json.dumps(body).encode() for _, body in responses_of(name)]
    return tuple(data for data in known if _CALLS.search(data) and len(data) < _SMALL)


def _calls(name: str, chance: Chance) -> list[tuple[str, list[str]]]:
    objects = name in ("gemini", "ollama")
    texts = [chance.choice(_OBJECTS if objects else _ARGUMENTS) for _ in range(chance.randint(1, 3))]
    names = ("wipe", "look", "f")
    return [(chance.choice(names), pieces(text, chance) if len(text) > 1 else [text]) for text in texts]


def frame(name: str, body: Any) -> bytes:
    """Write what a stream says at once."""
    if name == "ollama":
        return json.dumps(body).encode() + b"\n"
    if body == {"done": True}:
        return b"data: [DONE]\n\n"
    kind = b"event: %b\n" % body["type"].encode() if "type" in body else b""
    return kind + b"data: " + json.dumps(body).encode() + b"\n\n"


def made(name: str, chance: Chance) -> bytes:
    """Make a stream of words and calls; of Chat Completions and Gemini maybe with another answer between."""
    words = [chance.choice(("Hi", "I ", "look.")) for _ in range(chance.randint(0, 3))]
    told = [body for body, _ in _TELLERS[name](words, _calls(name, chance), chance)]
    entries = {"openai-chat": "choices", "gemini": "candidates"}.get(name)
    if entries is not None and chance.random() < 0.3:
        other = [body for body, _ in _TELLERS[name](["No."], _calls(name, chance), chance) if body != {"done": True}]
        index = chance.choice((1, 1, 1, -1, 2**70, "x", None))
        for body in other:
            body[entries][0]["index"] = index
            told.insert(chance.randrange(len(told)), body)
    if chance.random() < 0.2:
        told = _as_free_text(name, told)
    return b"".join(frame(name, body) for body in told)


def _as_free_text(name: str, told: list[Any]) -> list[Any]:
    """Make the calls of a stream such of custom tools, on a wire that has them."""
    text = json.dumps(told)
    if name == "openai-responses":
        text = text.replace("function_call_arguments", "custom_tool_call_input")
        text = text.replace('"function_call"', '"custom_tool_call"').replace('"arguments"', '"input"')
    elif name == "openai-chat":
        text = text.replace('"type": "function"', '"type": "custom"')
        text = text.replace('"function": {', '"custom": {').replace('"arguments"', '"input"')
    told = json.loads(text)
    return told if isinstance(told, list) else []


# Nothing tells free text from half of it where an answer was cut off, on a wire that says no end of a call. Nor does
# anything tell a last call without input in a whole answer of Messages.
_CUT = frozenset({"length", "content_filter", "refusal", "context_window", "incomplete"})


class Answer(Struct, frozen=True):
    """What was read of an answer: its calls, and whether it ended well."""

    response: Response
    well: bool
    failed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, events: list[Event]) -> "Answer":
        errors = frozenset(event.error.message for event in events if isinstance(event, ErrorEnd))
        response = accumulate(events)
        ended = any(isinstance(event, MessageEnd) and event.complete for event in events)
        return cls(response, ended and not errors, errors)

    @property
    def calls(self) -> list[ToolCall]:
        return [part for part in self.response.message.parts if isinstance(part, ToolCall)]

    @property
    def runs(self) -> list[str]:
        """The calls that run, in words: free text stands in an object on wires that have no other place for it."""
        return [_words(call) for call in self.calls if call.runs]


def _words(call: ToolCall) -> str:
    return json.dumps([call.name, {"input": call.raw} if call.custom else call.arguments], sort_keys=True)


def is_judged(calls: list[ToolCall]) -> bool:
    """Whether the names of calls are legal on every wire; others are written otherwise, and may be cut."""
    return all(_LEGAL.fullmatch(call.name) for call in calls)


def verdict(there: Answer, here: Answer, *, own: bool) -> str:
    """Say what is wrong with a translation `here` of an answer `there`; nothing if all is well."""
    runs, wanted = here.runs, there.runs
    # On its own wire a text is written as it came, before anything is wrong with it. What ends badly then runs nowhere.
    passed_on = own and not here.well
    if (more := Counter(runs) - Counter(wanted)) and not passed_on:
        return f"runs {list(more)}"
    if here.well and not there.well and there.response.finish_reason != "error":
        return "ended well"
    if not there.well or there.response.finish_reason == "error":
        return ""
    if not here.well:
        return "" if here.failed & {CUT_FREE_TEXT.message, ARGUMENTS_CHANGED.message} else f"failed: {set(here.failed)}"
    if runs != wanted and not (own and there.response.raw_finish_reason is None):
        free = [_words(call) for call in there.calls if call.custom]
        untold = there.response.finish_reason in _CUT and not Counter(wanted) - Counter(runs) - Counter(free)
        return "" if untold else f"runs {runs} instead of {wanted}"
    asks = here.response.finish_reason == "tool_calls" and not own
    return "asks for calls that were cut off" if asks and there.calls and not any(map(_is_told, there.calls)) else ""


def _is_told(call: ToolCall) -> bool:
    return call.complete


def exchanged(source: str, target: str, data: bytes, chance: Chance) -> bytes:
    """Take a stream of a provider of one wire to a client of another one, in pieces."""
    asked = {"gemini": "contents", "openai-responses": "input"}.get(target, "messages")
    body = {"model": "m", "max_tokens": 9, asked: [{"role": "user", "content": "?", "parts": [{"text": "?"}]}]}
    path = {"gemini": "/v1beta/models/m:streamGenerateContent?alt=sse"}.get(target, "")
    way = translate.exchange({**body, "stream": True}, source=target, target=source, path=path).stream()
    cut = chance.randrange(len(data) + 1)
    return way.feed(data[:cut]) + way.feed(data[cut:]) + way.close()


def streamed(source: str, target: str, data: bytes) -> bytes:
    """Take a stream to another wire."""
    stream = translate.stream(source, target)
    return stream.feed(data) + stream.close()


def wrong_streams(source: str, data: bytes, chance: Chance, *, sdks: bool = False) -> Iterator[str]:
    """Say what is wrong with the translations of a stream."""
    there = Answer.of(decode(source, data))
    if not is_judged(there.calls):
        return
    for target in NAMES:
        if source == target and not all(call.name for call in there.calls):
            continue  # nothing tells whose the text of a call is that has neither an id nor a name
        ways = {"stream": streamed(source, target, data)}
        if source != target:
            ways["exchange"] = exchanged(source, target, data, chance)
        for way, told in ways.items():
            if problem := verdict(there, Answer.of(decode(target, told)), own=source == target):
                yield f"{source} -> {target} ({way}): {problem}"
        judged = sdks and source != target and len(there.response.choices) < 2
        if judged and (problem := _misled(target, there, ways["stream"])):
            yield f"{source} -> {target} (SDK): {problem}"


# The SDK of Messages makes arguments of any beginning of them. At these ends no client runs calls.
_RUN_NONE = re.compile(r"max_tokens|length|MAX_TOKENS|incomplete.*|content_filter|refusal|SAFETY|OTHER")


def _misled(target: str, there: Answer, data: bytes) -> str:
    """Say which calls a user of the vendor's SDK would run that do not run at the source."""
    told = READERS[target](data)
    if told.error is not None or _RUN_NONE.fullmatch(told.finish or ""):
        return ""
    named = [(restore(name, _ANY_NAME), given) for _, name, given in told.calls if isinstance(given, dict)]
    runs = [json.dumps([name, given], sort_keys=True) for name, given in named]
    more = Counter(runs) - Counter(there.runs)
    return f"runs {list(more)}" if more and not any(call.custom for call in there.calls) else ""


def _untold(target: str, there: Answer) -> bool:
    last = there.calls[-1] if there.calls else None
    cut = there.response.finish_reason in _CUT or any(not call.runs for call in there.calls)
    return target == "anthropic" and cut and last is not None and last.runs and not last.arguments


def wrong_bodies(source: str, data: bytes) -> Iterator[str]:
    """Say what is wrong with the translations of a whole answer."""
    body = json.loads(data)
    there = Answer(DIALECTS[source].decode_response(body), well=True)
    if not is_judged(there.calls):
        return
    for target in NAMES:
        encoded = translate.response(body, source, target)
        here = Answer(DIALECTS[target].decode_response(encoded.body), well=True)
        if _untold(target, there) and here.runs == there.runs[:-1]:
            continue
        if problem := verdict(there, here, own=source == target):
            yield f"{source} -> {target} (body): {problem}"


def mutated(data: bytes, mutations: tuple[Mutation, ...], chance: Chance) -> bytes:
    """Mutate an answer in a few ways."""
    for _ in range(chance.randint(0, 3)):
        data = chance.choice(mutations)(data, chance) or b" "
    return data


def one_stream(source: str, chance: Chance) -> bytes:
    """Give a mutated stream: every other one was made by hand."""
    known = pool(source)
    data = made(source, chance) if chance.random() < 0.5 or not known else chance.choice(known)
    return mutated(data, OF_STREAMS, chance)


def one_body(source: str, chance: Chance) -> bytes | None:
    """Give a mutated whole answer; None if it is no JSON object any more."""
    known = bodies(source)
    data = mutated(chance.choice(known), OF_BODIES, chance) if known else b""
    try:
        return data if isinstance(json.loads(data), dict) else None
    except ValueError:
        return None


def search(seed: int, seconds: float) -> None:
    """Look for answers of which a translation says otherwise; print each kind of problem once, with its answer."""
    chance, late, count = Chance(seed), time.monotonic() + seconds, 0
    found: Counter[str] = Counter()
    while time.monotonic() < late:
        source = chance.choice(NAMES)
        data = one_stream(source, chance)
        problems = list(wrong_streams(source, data, chance, sdks=chance.random() < 0.1))
        if (body := one_body(source, chance)) is not None and not problems:
            data, problems = body, list(wrong_bodies(source, body))
        count += 1
        for problem in problems:
            kind = problem.partition(":")[0] + problem.partition(":")[2][:12]
            found[kind] += 1
            if found[kind] == 1:
                print(f"{problem}\n{data!r}\n", flush=True)  # noqa: T201 - what was found
    print(f"{count} answers of seed {seed}: {dict(found) or 'all well'}", flush=True)  # noqa: T201 - likewise


if __name__ == "__main__":
    search(int(sys.argv[1]), float(sys.argv[2]))
