"""The options of `toolwire ask`. The command itself is imported only when it runs."""

import argparse
import gc
from typing import Any

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import add_attachments, add_model_options, add_request_settings, add_tool_options


def add(commands: Any) -> None:
    """Add the command `ask`."""
    command = commands.add_parser("ask", help=SUMMARIES["ask"])
    command.add_argument("task", nargs="?", metavar="QUESTION", help="the question; standard input is its context")
    add_model_options(command)
    command.add_argument("-s", "--system", metavar="TEXT", help="the system prompt")
    add_attachments(command)
    command.add_argument(
        "--schema", metavar="SCHEMA", help="answer as JSON: a file with a JSON Schema, or short as in 'name, age int'"
    )
    command.add_argument(
        "-x", "--extract", action="store_true", help="write only the first code block of the answer, if it has one"
    )
    add_request_settings(command)
    add_tool_options(command, "it runs without a question")
    command.add_argument(
        "-c",
        "--continue",
        dest="continue_id",
        nargs="?",
        const="",
        metavar="ID",
        help="continue the conversation that was asked last, or the one with this id",
    )
    command.set_defaults(run=_ask)


def _ask(options: argparse.Namespace) -> int:
    gc.disable()  # a collection while modules are loaded finds nothing, and takes a tenth of the time
    from toolwire.cli.ask import ask  # noqa: PLC0415 - other commands need no client

    gc.enable()
    return ask(options)
