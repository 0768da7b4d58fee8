"""`toolwire demo`: an agent that fixes a bug, and one request in five wires, offline.

Only the model is simulated. The agent, its tools, the sandbox, the tests, the wire and the losses are real.
"""

import argparse
from typing import Any

from toolwire.cli.commands import SUMMARIES
from toolwire.dialects import ALIASES, NAMES

_NEXT = (
    ('toolwire ask "What is a monad?" -m ollama/qwen3', "one question, to any model"),
    ('toolwire run "Fix the failing test." -m anthropic/claude-sonnet-5-5', "this agent, in your project"),
    ("toolwire launch claude --model openai/gpt-4o", "a client program, with any model"),
)


def add(commands: Any) -> None:
    """Add the command `demo`."""
    command = commands.add_parser("demo", help=SUMMARIES["demo"])
    command.add_argument(
        "--dialect", choices=[*NAMES, *ALIASES], default=NAMES[0], help=f"the wire of the agent (default: {NAMES[0]})"
    )
    command.add_argument("--wire", action="store_true", help="print what goes over the wire, too")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from toolwire.cli.demo_agent import fix_bug  # noqa: PLC0415 - other commands need no agent
    from toolwire.cli.demo_wires import show_wires  # noqa: PLC0415 - the same
    from toolwire.cli.screen import Screen  # noqa: PLC0415 - the same

    screen = Screen()
    code = fix_bug(screen, ALIASES.get(options.dialect, options.dialect), show_wire=options.wire)
    if code == 0:
        screen.line()
        show_wires(screen)
        screen.line()
        screen.line("Try next, with a key or a local model:", "words")
        for command, text in _NEXT:
            screen.line()
            screen.line(f"  # {text}", "note")
            screen.line(f"  {command}", "call")
    if screen.problem is not None:
        raise screen.problem
    return code
