"""The fixture `simulated_model`: a simulated model for one test. It echoes until a scenario is played.

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
    """Yield a simulated model. The test fails at its end if the requests deviated from the scenario."""
    from toolwire.testing.server import simulate  # noqa: PLC0415 - only tests that use it load a server

    with simulate() as model:
        yield model
