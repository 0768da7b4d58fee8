"""`toolwire chat`: prompts and answers, for as long as there is something to say.

Rule: a prompt that begins with / is a command. The end of the input ends the chat, Ctrl-C only stops an answer.
"""

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path

from toolwire.cli import conversations
from toolwire.cli.agent import Agent, client_of, screens_of
from toolwire.cli.prompts import Prompts
from toolwire.cli.terminal import Interrupts
from toolwire.cli.tools import summary_of
from toolwire.client.failures import ProviderError
from toolwire.errors import ToolwireError, UserError
from toolwire.loop import Done
from toolwire.providers import named
from toolwire.resolvers import tools_of

_HELP = (
    ("/help", "list the commands"),
    ("/tools", "list the tools"),
    ("/model MODEL", "go on with another model: NAME, or PROVIDER/NAME"),
    ("/save FILE", "write the conversation to a file"),
    ("/quit", "end; so does Ctrl-D"),
    ("\\ at the end", "go on in the next line; pasted lines are one prompt, Alt-Enter begins a line"),
)


def chat(options: argparse.Namespace) -> int:
    """Talk until there is nothing more to say."""
    screen, out = screens_of(options)
    with Interrupts() as interrupts, contextlib.closing(Agent(options, screen, interrupts, out=out)) as agent:
        agent.introduce()
        screen.line(f"[{agent.name} {agent.client.model}; /help lists the commands]", "note")
        prompts = Prompts(screen, [*_COMMANDS, "/quit"])
        while (prompt := prompts.next()) is not None and _go_on(agent, prompt.strip()):
            continue
        agent.tell_how_to_go_on("toolwire chat", look="note")
    return 0


def _go_on(agent: Agent, prompt: str) -> bool:
    """Do what a prompt says; whether there is more to come."""
    word, _, rest = prompt.partition(" ")
    try:
        if word == "/quit":
            return False
        if word in _COMMANDS:
            _COMMANDS[word](agent, rest.strip())
        elif word.startswith("/") and "/" not in word[1:]:
            agent.screen.line(f"there is no {word}; /help lists the commands", "error")
        elif prompt:
            agent.tell_end(agent.answer(prompt))
    except ProviderError as problem:
        agent.screen.line(agent.explained(problem), "error")
        agent.write_end(Done("error", [], reason=str(problem)), 1)
    except (ToolwireError, OSError) as problem:
        if agent.unread is not None:
            raise
        agent.screen.line(str(problem), "error")
    return True


def _help(agent: Agent, _rest: str) -> None:
    for command, words in _HELP:
        agent.screen.line(f"{command:<14} {words}", "words")


def _tools(agent: Agent, _rest: str) -> None:
    for tool in tools_of(agent.resolver):
        agent.screen.line(f"{tool.name:<16} {summary_of(tool)}", "words")


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
    """Write the conversation to its own file, or to one that is not there yet."""
    path = Path(rest) if rest else agent.place.path
    kept = agent.as_kept(agent.context)
    if rest and path.exists():
        raise UserError(f"{path} exists already: name another file")
    try:
        conversations.write(path, kept) if rest else agent.place.keep(kept)
    except OSError as problem:
        raise UserError(f"{path}: {problem.strerror}") from problem
    agent.screen.line(f"[written to {path}]", "note")


_COMMANDS: dict[str, Callable[[Agent, str], None]] = {
    "/help": _help,
    "/tools": _tools,
    "/model": _model,
    "/save": _save,
}
