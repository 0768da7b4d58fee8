"""`toolwire chat`: a conversation, line by line.

Rules of this file:
- Each line is a prompt; one that begins with / is a command. The end of the input ends the chat.
- Ctrl-C stops an answer, and the chat goes on.
"""

import argparse
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from toolwire.cli.agent import ANSWERED, Agent
from toolwire.cli.interrupts import Interrupts
from toolwire.cli.keeping import keep
from toolwire.cli.screen import Screen
from toolwire.cli.servers import client_of
from toolwire.client.failures import ProviderError
from toolwire.errors import ToolwireError
from toolwire.providers import named
from toolwire.resolvers import tools_of

PROMPT = "you> "
HELP = (
    ("/help", "say what there is"),
    ("/tools", "list the tools"),
    ("/model MODEL", "go on with another model: NAME, or PROVIDER/NAME"),
    ("/save FILE", "write the conversation to a file"),
    ("/quit", "end; so does Ctrl-D"),
)


def run(options: argparse.Namespace) -> int:
    """Talk until there is nothing more to say."""
    screen = Screen()
    with Interrupts() as interrupts:
        agent = Agent(options, screen, interrupts)
        try:
            screen.line(f"[{agent.name} {agent.client.model}; /help says what there is]", "note")
            while (line := _next(screen)) is not None and _go_on(agent, line.strip()):
                continue
        finally:
            agent.close()
    return ANSWERED


def _next(screen: Screen) -> str | None:
    """Read a line; None at the end of the input."""
    try:
        if not sys.stdin.isatty():
            return sys.stdin.readline() or None
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401, PLC0415 - it edits lines once it is there, where it is
        return input(PROMPT)
    except EOFError:
        screen.line()
        return None
    except KeyboardInterrupt:
        screen.line("\n[/quit or Ctrl-D ends the chat]", "note")
        return ""


def _go_on(agent: Agent, line: str) -> bool:
    """Do what a line says; whether there is more to come."""
    word, _, rest = line.partition(" ")
    try:
        if word == "/quit":
            return False
        if word in COMMANDS:
            COMMANDS[word](agent, rest.strip())
        elif word.startswith("/"):
            agent.screen.line(f"there is no {word}; /help says what there is", "error")
        elif line:
            agent.tell_end(agent.answer(line))
    except ProviderError as problem:
        agent.screen.line(agent.explained(problem), "error")
    except (ToolwireError, OSError) as problem:
        if agent.screen.problem is not None:
            raise
        agent.screen.line(str(problem), "error")
    return True


def _help(agent: Agent, _rest: str) -> None:
    for command, words in HELP:
        agent.screen.line(f"{command:<14} {words}")


def _tools(agent: Agent, _rest: str) -> None:
    for tool in tools_of(agent.resolver):
        agent.screen.line(f"{tool.name:<16} {str(tool.description).partition('. ')[0].rstrip('.')}.")


def _model(agent: Agent, rest: str) -> None:
    """Turn to another model; one that names no provider is of the present one."""
    provider, slash, _ = rest.partition("/")
    if not rest:
        agent.screen.line(f"{agent.name} {agent.client.model}")
        return
    elsewhere = slash and named(provider) is not None
    agent.turn_to(client_of(None if elsewhere else agent.client.provider, rest))
    agent.screen.line(f"[{agent.name} {agent.client.model}]", "note")


def _save(agent: Agent, rest: str) -> None:
    path = Path(rest) if rest else agent.path
    keep(path, agent.context, agent.name, agent.client.model, agent.conversation)
    agent.screen.line(f"[written to {path}]", "note")


COMMANDS: dict[str, Callable[[Agent, str], None]] = {
    "/help": _help,
    "/tools": _tools,
    "/model": _model,
    "/save": _save,
}
