"""Streams to hold laws over, and what a stream tells in plain values, read by us or by a vendor's SDK."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from tests.stream_oracles import Call, Told
from tests.wires import DIALECTS, of_dialect
from toolwire import Choice, ErrorEnd, Event, Refusal, Response, Text, Thinking, ToolCall
from toolwire.accumulation import accumulate
from toolwire.names import was_made

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def recorded(name: str) -> Iterator[tuple[str, bytes]]:
    """Give every recorded stream of a dialect by its name."""
    for recording in of_dialect(name):
        if recording.response_text is not None:
            yield recording.name, recording.response_text.encode()


def decode(name: str, data: bytes, cuts: Iterable[int] = ()) -> list[Event]:
    """Read a stream that arrives cut at these places."""
    decoder = DIALECTS[name].decode_stream()
    events: list[Event] = []
    place = 0
    for cut in cuts:
        events += decoder.feed(data[place:cut])
        place = cut
    events += decoder.feed(data[place:])
    return events + decoder.close()


def encode(name: str, events: Iterable[Event], **quirks: Any) -> tuple[bytes, Any]:
    """Write a stream, and give what it lost."""
    encoder = DIALECTS[name].encode_stream(**quirks)
    data = b"".join([encoder.feed(event) for event in events]) + encoder.close()
    return data, encoder.losses


def tell(events: list[Event]) -> Told:
    """Say what events tell, as a judge does; the finish is canonical."""
    response = accumulate(events)
    error = next((event.error.message for event in events if isinstance(event, ErrorEnd)), None)
    told = [_tell(choice) for choice in response.choices]
    first, others = (told[0], tuple(told[1:])) if told else (Told(), ())
    counts = response.usage
    usage = (0, 0) if counts is None else (counts.input_tokens or 0, counts.output_tokens or 0)
    return replace(first, usage=usage, error=error, others=others, body=response)


def _tell(choice: Choice) -> Told:
    parts = choice.message.parts
    words = {
        kind: "".join(part.text for part in parts if type(part) is kind) for kind in (Text, Refusal, Thinking)
    }
    calls = tuple(_call(part) for part in parts if type(part) is ToolCall)
    return Told(words[Text], words[Refusal], words[Thinking], calls, choice.finish_reason)


def _call(call: ToolCall) -> Call:
    sound = call.complete and call.error is None and not call.custom
    return call.id, call.name, call.arguments if sound else call.raw or ""
