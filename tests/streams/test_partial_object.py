"""Objects that are told in pieces, each with its JSON path."""

from typing import Any

import pytest

from toolwire.errors import FrameTooLarge
from toolwire.streams.partial_object import DEPTH, PartialObject, parse_json_path
from toolwire.wire.framing import LIMIT

PATHS: dict[str, list[str | int]] = {
    "$.a": ["a"],
    "$.a.b_c.d-e": ["a", "b_c", "d-e"],
    "$.items[0].name": ["items", 0, "name"],
    "$[0][12]": [0, 12],
    "$['a b'].c": ["a b", "c"],
    '$["a.b"]["]"]': ["a.b", "]"],
    r"$['it\'s']": ["it's"],
    "$": [],
    "": [],
    "a": [],
    "$a": [],
    "$.": [],
    "$..a": [],
    "$.a[-1]": [],
    "$.a[*]": [],
    "$.a[": [],
    "$['a": [],
    "$" + ".a" * DEPTH: ["a"] * DEPTH,
    "$" + ".a" * (DEPTH + 1): [],
}


@pytest.mark.parametrize("path", PATHS, ids=[path[:20] for path in PATHS])
def test_a_path_is_read_to_its_steps(path: str) -> None:
    assert parse_json_path(path) == PATHS[path]


Piece = tuple[str, Any, bool]
TOLD: dict[str, tuple[list[Piece], dict[str, Any]]] = {
    "values": ([("$.a", 1, False), ("$.b", None, False)], {"a": 1, "b": None}),
    "nested": ([("$.a[0].b", "x", False), ("$.a[0].c", True, False)], {"a": [{"b": "x", "c": True}]}),
    "a text": ([("$.a", "x", True), ("$.a", "y", True), ("$.a", "", False)], {"a": "xy"}),
    "two texts at once": (
        [("$.a", "x", True), ("$.b", "1", True), ("$.a", "y", False), ("$.b", "2", False)],
        {"a": "xy", "b": "12"},
    ),
    "a text that goes on": ([("$.b", 1, False), ("$.a", "x", True)], {"b": 1, "a": "x"}),
}


@pytest.mark.parametrize("case", TOLD)
def test_pieces_make_an_object(case: str) -> None:
    given, told = TOLD[case]
    pieces = PartialObject()
    assert all(pieces.add(path, value, more=more) for path, value, more in given)
    assert pieces.value() == told
    assert list(pieces.value()) == list(told)


MISFITS: dict[str, list[Piece]] = {
    "told twice": [("$.a", 1, False), ("$.a", 1, False)],
    "a text told twice": [("$.a", "x", False), ("$.a", "y", False)],
    "a number in a text": [("$.a", "x", True), ("$.a", 1, False)],
    "an element left out": [("$.a[1]", 1, False)],
    "far away": [("$.a[999999999]", 1, False)],
    "an element of an object": [("$.a.b", 1, False), ("$.a[0]", 1, False)],
    "a key of an array": [("$.a[0]", 1, False), ("$.a.b", 1, False)],
    "a key of a number": [("$.a", 1, False), ("$.a.b", 1, False)],
    "an array": [("$[0]", 1, False)],
    "everything": [("$", 1, False)],
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_piece_that_does_not_fit_is_said(case: str) -> None:
    *first, (path, value, more) = MISFITS[case]
    pieces = PartialObject()
    assert all(pieces.add(*known[:2], more=known[2]) for known in first)
    assert not pieces.add(path, value, more=more)


def test_too_much_text_is_an_error() -> None:
    pieces = PartialObject()
    assert pieces.add("$.a", "x" * LIMIT, more=True)
    with pytest.raises(FrameTooLarge):
        pieces.add("$.a", "x", more=True)
