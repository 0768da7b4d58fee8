"""The answers that the bench of text formats reads have calls in every format."""

import importlib

import pytest

bench = importlib.import_module("bench.formats")


@pytest.mark.parametrize("name", bench.GROWING)
def test_an_answer_of_the_bench_has_calls(name: str) -> None:
    text = bench.answer(name, 4000)
    assert len(text) >= 2000
    assert bench.read(name, [text]) == bench.read(name, [text[:1000], text[1000:]]) > 0
