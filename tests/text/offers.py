"""What the tests of text formats share: tools, calls, and texts that look like calls."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from toolwire import Response, Tool, ToolCall, accumulate
from toolwire.text import Format
from toolwire.text.rows import rows

STRING = {"type": "string"}
F = Tool(
    "f",
    "Does.",
    {
        "type": "object",
        "properties": {
            "s": STRING,
            "i": {"type": "integer"},
            "n": {"type": "number"},
            "b": {"type": "boolean"},
            "o": {"type": "object", "properties": {"x": STRING, "y": {"type": "array", "items": {"type": "integer"}}}},
            "a": {"type": "array", "items": STRING},
        },
    },
)
G = Tool("g", "Goes.", {"type": "object", "properties": {}})
TOOLS = [F, G]
SHAPES = {row.shape: name for name, row in reversed(rows().items())}


def read(each: Format, text: str, pieces: Sequence[str] | None = None, **settings: Any) -> Response:
    """Read a text in pieces."""
    stream = each.decode_stream(settings.pop("tools", TOOLS), **settings)
    events = [event for piece in pieces or [text] for event in stream.feed(piece)]
    return accumulate([*events, *stream.close()])


def cuts(text: str, chance: random.Random) -> Iterator[str]:
    """Cut a text anywhere."""
    places = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randrange(1, 9)))
    for begin, end in zip([0, *places], [*places, len(text)], strict=True):
        yield text[begin:end]


def raw_block(each: Format, call: ToolCall) -> str:
    """Write a call as the model itself would."""
    return each.encode_call(call, TOOLS).text
