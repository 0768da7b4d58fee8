"""A translation runs the calls that its source runs, and no other: answers that were mutated, on all pairs."""

import random

import pytest

from tests.translated_calls import one_body, one_stream, wrong_bodies, wrong_streams
from toolwire.dialects import NAMES

FEW, MANY = 60, 600


def wrong(source: str, seed: int, count: int) -> list[str]:
    chance = random.Random(seed)  # noqa: S311 - the same each time
    found = list[str]()
    for _ in range(count):
        found += wrong_streams(source, one_stream(source, chance), chance)
        body = one_body(source, chance)
        found += wrong_bodies(source, body) if body is not None else ()
    return found


@pytest.mark.parametrize("source", NAMES)
def test_a_mutated_answer_has_the_same_calls_on_each_wire(source: str) -> None:
    assert wrong(source, 1, FEW) == []


@pytest.mark.slow
@pytest.mark.parametrize("source", NAMES)
def test_many_mutated_answers_have_the_same_calls_on_each_wire(source: str) -> None:
    assert wrong(source, 2, MANY) == []
