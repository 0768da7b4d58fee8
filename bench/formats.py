"""Measure what reading a model's own text costs: as the text grows, and beside `openai-harmony` on its own format.

The floor of growth is the same text a quarter as long: a reader that is linear has a ratio of one for each character.
`openai-harmony` reads tokens, which a server of raw completions does not give; it is timed with them given, and with
the text that it has to cut into tokens first. It needs its vocabulary: its file, or the network, once.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from toolwire import Text, ToolCall, accumulate, text

ROUNDS = 7
SIZES = (1_000, 16_000, 250_000, 1_000_000)
GROWING = (
    "hermes",
    "mistral",
    "qwen3-coder",
    "glm45",
    "deepseek-v31",
    "llama4-pythonic",
    "gemma4",
    "harmony",
    "tagged",
)
WORDS = "I look at what there is, and go on from there; nothing of it is a call. "
TOOLS = [{"name": "get_weather", "description": "", "parameters": {"type": "object", "properties": {}}}]
CALL = ToolCall(None, "get_weather", {"city": "Tokyo", "days": [1, 2, 3], "detail": "every hour"})


def answer(name: str, size: int) -> str:
    """Give an answer of about so many characters: words, and calls in between."""
    form = text.format(name)
    turn = form._writer().write_parts([Text(WORDS * max(4, size // 8_000)), CALL])  # noqa: SLF001 - an answer is only told together
    glue = form.row.between if form.row.shape == "channels" else "\n"
    return glue.join([turn] * max(1, size // len(turn)))


def read(name: str, pieces: Iterable[str]) -> int:
    """Read an answer in pieces, and count its calls."""
    stream = text.format(name).decode_stream(TOOLS)
    events = [event for piece in pieces for event in stream.feed(piece)]
    return len(accumulate([*events, *stream.close()]).tool_calls)


def spent(work: Callable[[], Any]) -> float:
    """Give the median seconds of a work."""
    times = []
    for _ in range(ROUNDS):
        gc.collect()
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def grow() -> bool:
    """Print what a character costs as a text grows; give whether it stays the same."""
    linear = True
    print("a character of an answer, in microseconds, as it grows (in characters, and in pieces of 4 KB)")
    for name in GROWING:
        said = []
        for size in (1, 4096):
            costs = []
            for length in SIZES:
                words = answer(name, length)
                pieces = [words[place : place + size] for place in range(0, len(words), size)]
                costs.append(spent(lambda pieces=pieces: read(name, pieces)) / len(words) * 1e6)  # type: ignore[misc] # noqa: B023
            linear &= costs[-1] < 3 * min(costs[1:])
            said.append(" ".join(f"{cost:7.3f}" for cost in costs))
        print(f"  {name:16} {said[0]}   {said[1]}")
    return linear


def beside_harmony() -> None:
    """Print what the format's own library takes for the same answer."""
    try:
        import openai_harmony as harmony  # noqa: PLC0415 - only where it is installed

        encoding = harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
    except Exception as problem:  # noqa: BLE001 - whatever it lacks, its vocabulary above all
        print(f"openai-harmony is left out: {problem}")
        return
    words = answer("harmony", 32_000)
    tokens = encoding.encode(words, allowed_special="all")
    pieces = [encoding.decode([token]) for token in tokens]
    assert "".join(pieces) == words

    def parsed(given: list[int]) -> Any:
        parser = harmony.StreamableParser(encoding, role=harmony.Role.ASSISTANT)
        for token in given:
            parser.process(token)
        return parser.messages

    calls = sum(message.recipient is not None for message in parsed(tokens))
    assert calls == read("harmony", pieces)
    ours = spent(lambda: read("harmony", pieces))
    print(f"harmony, {len(words)} characters, {len(tokens)} tokens, {calls} calls; ours in the pieces of tokens: 1.00")
    for what, work in {
        "openai-harmony, tokens given": lambda: parsed(tokens),
        "openai-harmony, from the text": lambda: parsed(encoding.encode(words, allowed_special="all")),
        "ours, the text at once": lambda: read("harmony", [words]),
    }.items():
        print(f"  {what:32} {spent(work) / ours:6.2f}")


if __name__ == "__main__":
    beside_harmony()
    sys.exit(0 if grow() else 1)
