"""The five dialects and the recordings of each, for the laws that hold over all of them."""

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.corpus import Recording, recordings
from toolwire.dialects import NAMES, Dialect, dialect

WIRES = {
    "openai-chat": ("openai-chat", "mistral-chat"),
    "openai-responses": ("openai-responses",),
    "anthropic": ("anthropic-messages",),
    "gemini": ("gemini",),
    "ollama": ("ollama-chat",),
}
DIALECTS: dict[str, Dialect] = {name: dialect(name) for name in NAMES}
# The fast suite goes once around the circle: each dialect is the source once, and the target once.
NEXT = dict(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))
PAIRS = [
    pytest.param(source, target, marks=() if NEXT[source] == target else pytest.mark.slow)
    for source in NAMES
    for target in NAMES
    if source != target
]


# Of what was recorded the fast suite takes one in so many, the slow one all.
SHARES = [pytest.param(4, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]


def of_dialect(name: str) -> Iterator[Recording]:
    """Give every recording that speaks a dialect."""
    for wire in WIRES[name]:
        yield from recordings(wire)


def requests_of(name: str, share: int = 1) -> Iterator[tuple[Recording, dict[str, Any]]]:
    """Give every recorded request of a dialect, or one in so many."""
    found = ((recording, recording.request) for recording in of_dialect(name) if recording.request is not None)
    yield from itertools.islice(found, None, None, share)


def responses_of(name: str, share: int = 1) -> Iterator[tuple[Recording, dict[str, Any]]]:
    """Give every recorded response of a dialect that is no error, or one in so many."""
    said = (recording for recording in of_dialect(name) if recording.response is not None)
    found = ((recording, recording.response) for recording in said if not is_error(recording))
    yield from itertools.islice(found, None, None, share)


def errors_of(name: str) -> Iterator[tuple[Recording, Any]]:
    """Give every recorded error of a dialect."""
    for recording in of_dialect(name):
        if recording.response is not None and is_error(recording):
            yield recording, recording.response


def is_error(recording: Recording) -> bool:
    """Whether the server answered with an error."""
    body = recording.response
    return recording.status >= 400 or not isinstance(body, dict) or set(body) == {"error"}


def differences(before: Any, after: Any, path: str = "$") -> list[str]:
    """Name every place where two JSON values differ; the order of keys in an object is no difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = [f"{path}.{key}: absent before" for key in after if key not in before]
        found += [f"{path}.{key}: absent after" for key in before if key not in after]
        for key in before:
            if key in after:
                found += differences(before[key], after[key], f"{path}.{key}")
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for place, (old, new) in pairs for line in differences(old, new, f"{path}[{place}]")]
    if type(before) is type(after) and (before == after or before != before):  # noqa: PLR0124 - NaN
        return []
    return [f"{path}: {before!r:.60} became {after!r:.60}"]


def same_bytes(before: Any, after: Any) -> bool:
    """Whether two values are the same JSON, keys in the same order."""
    return msgspec.json.encode(before) == msgspec.json.encode(after)
