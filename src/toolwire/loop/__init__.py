"""The tool loop without I/O: its steps, limits and endings."""

from toolwire.loop.run import Accept, Loop, Price, add_usage, tool_loop
from toolwire.loop.steps import AskModel, Broken, Cancelled, Done, Ending, LoopLimits, LoopStep, Outcome, RunTools

__all__ = [
    "Accept",
    "AskModel",
    "Broken",
    "Cancelled",
    "Done",
    "Ending",
    "Loop",
    "LoopLimits",
    "LoopStep",
    "Outcome",
    "Price",
    "RunTools",
    "add_usage",
    "tool_loop",
]
