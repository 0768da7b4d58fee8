"""`toolwire run`: one task, and the agent's steps until it has the answer.

Rules of this file:
- A conversation that has its answer is not sent again without a new task: `--continue` asks for it at the terminal.
- However the run ends, the last line prints the command that continues it.
"""

import argparse
import contextlib
import sys

from toolwire.cli import conversations
from toolwire.cli.agent import Agent, screens_of
from toolwire.cli.endings import INTERRUPTED, UNANSWERED
from toolwire.cli.prompts import read_input, read_task
from toolwire.cli.screen import Screen, is_terminal
from toolwire.cli.terminal import Interrupts
from toolwire.client.failures import ProviderError
from toolwire.errors import UserError
from toolwire.loop import Done


def run(options: argparse.Namespace) -> int:
    """Run the task of `options` and return the exit code."""
    if options.continue_id and options.task is None and not conversations.is_id(options.continue_id):
        options.task, options.continue_id = options.continue_id, ""
    if options.durable and options.task is None and " " in options.durable:
        options.task, options.durable = options.durable, ""
    task, data = _read_task(options)
    if task is None and options.continue_id is None and not options.durable:
        raise UserError('pass a task, as in toolwire run "Fix the test.", or --continue', path="run")
    screen, out = screens_of(options)
    with Interrupts() as interrupts, contextlib.closing(Agent(options, screen, interrupts, out=out)) as agent:
        try:
            agent.attach(options.attach, data)
            agent.introduce()
            if task is None and agent.previous is not None and agent.previous.is_finished:
                task = _ask_next_task(agent)
            return agent.report_end(agent.answer(task), again="toolwire run")
        except ProviderError as problem:
            Screen(sys.stderr).line(f"toolwire: {agent.explain(problem)}", "error")
            agent.write_end(Done("error", [], reason=str(problem)), UNANSWERED)
            return UNANSWERED
        except KeyboardInterrupt:
            screen.line("interrupted", "error")
            agent.suggest_continue("toolwire run")
            agent.write_end(Done("cancelled", []), INTERRUPTED)
            return INTERRUPTED


def _read_task(options: argparse.Namespace) -> tuple[str | None, bytes]:
    """Return the task, and standard input if `-a -` attaches it."""
    takes_input = "-" in options.attach
    data = read_input() if takes_input else b""
    task = options.task if takes_input else read_task(options.task)
    if options.attach and task in (None, "-"):
        raise UserError('-a needs a task, as in toolwire run "Build this page." -a sketch.png', path="run")
    return task, data


def _ask_next_task(agent: Agent) -> str:
    """Ask for the next task at the terminal, for a conversation that already has its answer."""
    screen = agent.screen
    if not (screen.terminal and is_terminal(sys.stdin)):
        raise UserError("the conversation already has its answer: pass a new task after --continue", path="run")
    screen.write("The conversation has its answer. What is the next task? ", "question")
    words = sys.stdin.readline().strip()
    if not words:
        raise UserError("there is no task", path="run")
    screen.line_entered()
    return words
