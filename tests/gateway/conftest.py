"""One gateway before one simulated model, for all tests that need no settings of their own."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.gateway.standing import Before, Stood, standing
from tests.traces.postgres import database, postgres
from toolwire.testing import simulate
from toolwire.testing.server import SimulatedModel

__all__ = ["database", "lenient_model", "postgres", "strict_model"]

Playing = Callable[[Any], AbstractContextManager[Before]]


def _pair(*, strict: bool) -> Iterator[tuple[SimulatedModel, Stood]]:
    model = simulate([], strict=strict).start()
    try:
        with standing(model.url) as stood:
            yield model, stood
    finally:
        model.close()


@pytest.fixture(scope="session")
def _strict_pair() -> Iterator[tuple[SimulatedModel, Stood]]:
    yield from _pair(strict=True)


@pytest.fixture(scope="session")
def _lenient_pair() -> Iterator[tuple[SimulatedModel, Stood]]:
    yield from _pair(strict=False)


def _playing(model: SimulatedModel, stood: Stood) -> Playing:
    @contextlib.contextmanager
    def play(scenario: Any) -> Iterator[Before]:
        model.play(scenario)
        model.requests.clear()
        stood.gateway.context.memory.close()
        stood.settle()
        stood.seen.clear()
        before = len(model.problems)
        yield Before(stood.url, stood.gateway, stood.seen, model.requests, model.url)
        problems = model.problems[before:]
        model.play([])
        assert problems + model.problems[before + len(problems) :] == []

    return play


@pytest.fixture
def strict_model(_strict_pair: tuple[SimulatedModel, Stood]) -> Playing:
    """Give what plays a scenario behind the gateway, by a model that is as strict as the vendors."""
    return _playing(*_strict_pair)


@pytest.fixture
def lenient_model(_lenient_pair: tuple[SimulatedModel, Stood]) -> Playing:
    """Give what plays a scenario behind the gateway, by a model that takes all that can be read."""
    return _playing(*_lenient_pair)
