"""A dialect in both directions, with its streams and errors."""

from typing import Any

from toolwire import Accumulator, Dialect, Encoded, Error, Event, Request, Response, accumulate, dialect, events_of


def again(body: dict[str, Any], wire: Dialect) -> Encoded:
    request: Request = wire.decode_request(body, path="/v1/messages")
    return dialect("gemini").encode_request(request)


def read(pieces: list[bytes]) -> Response:
    decoder = dialect("openai").decode_stream()
    events: list[Event] = []
    for piece in pieces:
        events += decoder.feed(piece)
    return accumulate([*events, *decoder.close()])


def written(response: Response) -> bytes:
    encoder = dialect("ollama").encode_stream()
    return b"".join(encoder.feed(event) for event in events_of(response)) + encoder.close()


def so_far(events: list[Event]) -> str | None:
    accumulator = Accumulator()
    for event in events:
        accumulator.feed(event)
    return accumulator.response.content


def what(status: int, body: dict[str, Any]) -> tuple[str, bool]:
    error: Error = dialect("anthropic").decode_error(status, body)
    return error.kind, error.retryable
