"""The commands of `toolwire chat`, which begin with /.

Rule: a command that changes nothing reports that. A command that fails leaves the conversation as it was.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from toolwire.cli import conversations
from toolwire.cli.agent import Agent
from toolwire.cli.chosen_model import client_of
from toolwire.cli.defaults import MODES
from toolwire.cli.display import show_change
from toolwire.cli.tools import summary_of
from toolwire.errors import UserError, did_you_mean
from toolwire.providers.known import target_of
from toolwire.resolvers import tools_of

_DIFF_LINES = 400


class _Command(NamedTuple):
    """A command: what it does, the words after it in the help, and its sentence in the help."""

    run: Callable[[Agent, str], None]
    arguments: str
    sentence: str


def _help(agent: Agent, _rest: str) -> None:
    rows = [(f"{name} {command.arguments}".rstrip(), command.sentence) for name, command in _TABLE.items()]
    for name, words in [*rows, *_KEYS]:
        agent.screen.line(f"{name:<16} {words}", "words")


def _tools(agent: Agent, _rest: str) -> None:
    for tool in tools_of(agent.resolver):
        agent.screen.line(f"{tool.name:<16} {summary_of(tool)}", "words")


def _model(agent: Agent, rest: str) -> None:
    """Switch to another model. A name without a provider is looked up at the current provider."""
    if not rest:
        agent.screen.line(f"{agent.name} {agent.client.model}")
        return
    target = target_of(rest)
    elsewhere = target is not None and target[1] != rest
    agent.switch_model(client_of(None if elsewhere else agent.client.provider, rest))
    agent.screen.line(f"[{agent.name} {agent.client.model}]", "note")


def _attach(agent: Agent, rest: str) -> None:
    """Attach a file or a URL to the next prompt."""
    if not rest:
        raise UserError("name a file: /attach FILE")
    try:
        agent.attach([os.path.expanduser(rest)])  # noqa: PTH111 - a URL is not a path
    except OSError as problem:
        raise UserError(f"{rest}: {problem.strerror}") from problem
    agent.screen.line(f"[{rest} goes with the next prompt]", "note")


def _save(agent: Agent, rest: str) -> None:
    """Write the conversation to its own file, or to a new file `rest`."""
    path = Path(rest).expanduser() if rest else agent.file.path
    kept = agent.to_saved(agent.context)
    if rest and path.exists():
        raise UserError(f"{path} already exists: name another file")
    try:
        conversations.write(path, kept) if rest else agent.file.save(kept)
    except OSError as problem:
        raise UserError(f"{path}: {problem.strerror}") from problem
    agent.screen.line(f"[written to {path}]", "note")


def _mode(agent: Agent, rest: str) -> None:
    """Show the mode and the rules, choose a mode, or forget the rules that are kept for this folder."""
    permissions = agent.toolbox.permissions
    if rest == "forget":
        agent.screen.line(f"[{permissions.forget()} kept rules are removed]", "note")
    elif rest in MODES:
        agent.set_mode(rest)
        agent.screen.line(f"[{permissions.describe()[0]}]", "note")
    elif rest:
        raise UserError(f"there is no mode {rest!r}{did_you_mean(rest, MODES)}; there are: {', '.join(MODES)}")
    else:
        for line in permissions.describe():
            agent.screen.line(line, "words")


def _undo(agent: Agent, _rest: str) -> None:
    """Undo the edits of the last prompt that has edits. The next prompt informs the model."""
    report = agent.toolbox.edits.undo(agent.toolbox.kit.desk)
    if report is None:
        raise UserError("there are no edits to take back")
    for verb, paths in (("restored", report.restored), ("removed", report.removed)):
        for path in paths:
            agent.screen.line(f"{verb} {path}", "words")
    for path, reason in report.left:
        agent.screen.line(f"left {path} as it is: {reason}", "error")
    if report.commands:
        agent.screen.line("[what commands of bash changed is not taken back]", "note")


def _diff(agent: Agent, _rest: str) -> None:
    differences = list(agent.toolbox.edits.differences(agent.toolbox.kit.desk))
    for text in differences:
        show_change(agent.screen, text, _DIFF_LINES)
    if not differences:
        agent.screen.line("[no file differs from what it was before the edits]", "note")


def _compact(agent: Agent, rest: str) -> None:
    agent.compact(rest)


def _clear(agent: Agent, _rest: str) -> None:
    saved = agent.file.path.stem if agent.is_saved else ""
    agent.clear()
    agent.screen.line(f"[a new conversation{f'; the last one is saved as {saved}' if saved else ''}]", "note")


def _cost(agent: Agent, _rest: str) -> None:
    lines = list(agent.costs.lines())
    for line in lines or ["nothing was sent yet"]:
        agent.screen.line(line, "words")


_TABLE: dict[str, _Command] = {
    "/help": _Command(_help, "", "list the commands"),
    "/tools": _Command(_tools, "", "list the tools"),
    "/model": _Command(_model, "MODEL", "continue with another model: NAME, or PROVIDER/NAME"),
    "/mode": _Command(_mode, "MODE", "plan, ask, edits or all; without MODE show the rules; `forget` removes them"),
    "/attach": _Command(_attach, "FILE", "attach an image, a PDF or a text to the next prompt: a file, or a URL"),
    "/undo": _Command(_undo, "", "take back the last edits of files"),
    "/diff": _Command(_diff, "", "show what the edits changed in this conversation"),
    "/compact": _Command(_compact, "WORDS", "replace the conversation by a summary, most about WORDS"),
    "/clear": _Command(_clear, "", "begin a new conversation"),
    "/cost": _Command(_cost, "", "show the requests, the tokens and the cost"),
    "/save": _Command(_save, "FILE", "write the conversation to a file"),
}
_KEYS = (
    ("/quit", "end; so does Ctrl-D"),
    ("\\ at the end", "continue on the next line; pasted lines are one prompt, Alt-Enter begins a line"),
)
COMMANDS: dict[str, Callable[[Agent, str], None]] = {name: command.run for name, command in _TABLE.items()}
