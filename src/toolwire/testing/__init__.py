"""A simulated model: a server on this machine that serves all five wires, as strictly as the vendors do.

with simulate([ToolCall(None, "get_weather", {"city": "Tokyo"}), "It is sunny."]) as model:
    ...  # any client, at model.url
    assert model.requests[1].request.messages[-1].text == "..."
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from toolwire.testing.scenario import Scenario
    from toolwire.testing.server import SimulatedModel, simulate
    from toolwire.testing.service import Received
    from toolwire.testing.steps import Cut, Expect, Fail, Finish, Pace, Raw, Turn, Wait

__all__ = [
    "Cut",
    "Expect",
    "Fail",
    "Finish",
    "Pace",
    "Raw",
    "Received",
    "Scenario",
    "SimulatedModel",
    "Turn",
    "Wait",
    "simulate",
]

_HOMES = {
    "Received": "service",
    "Scenario": "scenario",
    "SimulatedModel": "server",
    "simulate": "server",
    **dict.fromkeys(("Cut", "Expect", "Fail", "Finish", "Pace", "Raw", "Turn", "Wait"), "steps"),
}


if not _typing.TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> _typing.Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'toolwire.testing' has no attribute {name!r}")
        return getattr(_importlib.import_module(f"toolwire.testing.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
