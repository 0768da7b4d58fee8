"""`toolwire run`: one task, led to its end."""

import argparse
import sys

from toolwire.cli.agent import UNANSWERED, Agent
from toolwire.cli.interrupts import Interrupts
from toolwire.cli.screen import Screen
from toolwire.client.failures import ProviderError
from toolwire.errors import UserError


def run(options: argparse.Namespace) -> int:
    """Do the task, and say how it ended."""
    if options.task is None and not options.goes_on:
        raise UserError("say what is to be done, or --continue", path="run")
    screen = Screen()
    with Interrupts() as interrupts:
        agent = Agent(options, screen, interrupts)
        try:
            return agent.tell_end(agent.answer(options.task))
        except ProviderError as problem:
            Screen(sys.stderr).line(f"toolwire: {agent.explained(problem)}", "error")
            return UNANSWERED
        finally:
            agent.close()
