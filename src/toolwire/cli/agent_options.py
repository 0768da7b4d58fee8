"""The options of `toolwire run` and `toolwire chat`. The agent itself is imported only when a command runs."""

import argparse
from typing import Any

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.defaults import MAX_STEPS, MODES
from toolwire.cli.parsing import add_attachments, add_model_options, add_request_settings, add_tool_options, count
from toolwire.cli.tools import add_options


def add(commands: Any) -> None:
    """Add the commands `run` and `chat`."""
    command = commands.add_parser("run", help=SUMMARIES["run"])
    command.add_argument("task", nargs="?", help="the task; - reads it from standard input")
    add_attachments(command)
    _add_agent_options(command)
    command.add_argument(
        "--durable",
        nargs="?",
        const="",
        metavar="ID",
        help="run as a durable run, which survives this process; with the ID of a run, resume it",
    )
    command.set_defaults(run=_run)
    command = commands.add_parser("chat", help=SUMMARIES["chat"])
    _add_agent_options(command)
    command.set_defaults(run=_chat)


def _run(options: argparse.Namespace) -> int:
    from toolwire.cli.run import run  # noqa: PLC0415 - other commands need no agent

    return run(options)


def _chat(options: argparse.Namespace) -> int:
    from toolwire.cli.chat import chat  # noqa: PLC0415 - other commands need no agent

    return chat(options)


def _add_agent_options(command: argparse.ArgumentParser) -> None:
    add_model_options(command)
    add_options(command, cwd=None)
    command.add_argument("--tools", type=_names, metavar="A,B", help="only these of the code tools (default: all)")
    _add_sources(command)
    _add_permissions(command)
    command.add_argument(
        "--max-steps",
        type=count,
        metavar="N",
        help=f"the most requests to the model (default: {MAX_STEPS})",
    )
    command.add_argument(
        "--window",
        type=count,
        metavar="N",
        help="the tokens of the model's context, if its name does not tell; a summary replaces a full one",
    )
    command.add_argument("--max-tokens", type=count, metavar="N", help="the most tokens that an answer may have")
    add_request_settings(command)
    command.add_argument(
        "--continue",
        dest="continue_id",
        nargs="?",
        const="",
        metavar="ID",
        help="continue this conversation, or the last one of this folder, with any provider",
    )
    command.add_argument(
        "--traces",
        nargs="?",
        const="",
        metavar="URL",
        help="record each call, in this store or in your own; read it with `toolwire traces`",
    )
    command.add_argument("--session", metavar="FILE", help="save the conversation in this file")
    display = command.add_mutually_exclusive_group()
    display.add_argument("--quiet", action="store_true", help="show only the answer, questions and errors")
    display.add_argument("--json", action="store_true", help="write each event as one line of JSON")


def _add_sources(command: argparse.ArgumentParser) -> None:
    add_tool_options(command, "it is asked for approval like the others")
    command.add_argument("-s", "--system", metavar="TEXT", help="the system prompt, instead of the built-in one")
    command.add_argument(
        "--no-instructions",
        dest="instructions",
        action="store_false",
        default=None,
        help="leave out the project's AGENTS.md or CLAUDE.md",
    )


def _add_permissions(command: argparse.ArgumentParser) -> None:
    mode = command.add_mutually_exclusive_group()
    mode.add_argument("--yes", action="store_true", help="approve every call without asking: the same as --mode all")
    mode.add_argument(
        "--mode",
        choices=[*MODES],
        help="what may happen without a question: plan looks only, ask asks, edits changes files, all does all "
        "(default: ask)",
    )
    command.add_argument(
        "--allow",
        action="append",
        metavar="RULE",
        help="approve calls such as 'bash(pytest *)' or 'write_file(docs/*)' without asking; repeatable",
    )
    command.add_argument(
        "--deny", action="append", metavar="RULE", help="refuse such calls, whatever else is allowed; repeatable"
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
