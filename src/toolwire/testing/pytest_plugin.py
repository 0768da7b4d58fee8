"""The fixture `simulated_model`: a simulated model for one test, an echo until it is told what to play.

def test_my_agent(simulated_model):
    simulated_model.play(["Hello."])
    assert my_agent(base_url=simulated_model.url) == "Hello."
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolwire.testing.server import SimulatedModel


@pytest.fixture
def simulated_model() -> "Iterator[SimulatedModel]":
    """Give a simulated model; a test fails at its end if the scenario was not kept to."""
    from toolwire.testing.server import simulate  # noqa: PLC0415 - only tests that use it load a server

    with simulate() as model:
        yield model
