"""The short ways are for speed alone: without them, every recorded body is read and written as with them."""

import inspect
from typing import Any

import pytest

from tests.wires import DIALECTS, NEXT, requests_of, responses_of
from toolwire.dialects import NAMES
from toolwire.encoding import short_ways

WAYS = [
    name for name, way in inspect.getmembers(short_ways, inspect.isfunction) if way.__module__ == short_ways.__name__
]


def written(name: str) -> list[Any]:
    """Read and write every recorded body of a dialect, in it and in the next one."""
    source, target = DIALECTS[name], DIALECTS[NEXT[name]]
    made: list[Any] = []
    for recording, body in requests_of(name):
        request = source.decode_request(body, recording.path)
        made += [request, source.encode_request(request), target.encode_request(request)]
    for _, body in responses_of(name):
        response = source.decode_response(body)
        made += [response, source.encode_response(response), target.encode_response(response)]
    return made


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_without_the_short_ways_the_same_is_read_and_written(
    name: str, corpus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert corpus
    assert len(WAYS) > 5
    with_them = written(name)
    assert with_them
    for way in WAYS:
        monkeypatch.setattr(short_ways, way, lambda *_given: None)
    assert written(name) == with_them
