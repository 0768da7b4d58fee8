"""`toolwire chat`: a loop of prompts and answers.

Rule: a prompt that begins with / is a command. The end of the input ends the chat; Ctrl-C stops only the current
answer.
"""

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path

from toolwire.cli import conversations
from toolwire.cli.agent import Agent, screens_of
from toolwire.cli.chosen_model import client_of
from toolwire.cli.prompts import Prompts
from toolwire.cli.terminal import Interrupts
from toolwire.cli.tools import summary_of
from toolwire.client.failures import ProviderError
from toolwire.errors import ToolwireError, UserError
from toolwire.loop import Done
from toolwire.providers.known import target_of
from toolwire.resolvers import tools_of

_HELP = (
    ("/help", "list the commands"),
    ("/tools", "list the tools"),
    ("/model MODEL", "continue with another model: NAME, or PROVIDER/NAME"),
    ("/save FILE", "write the conversation to a file"),
    ("/quit", "end; so does Ctrl-D"),
    ("\\ at the end", "continue on the next line; pasted lines are one prompt, Alt-Enter begins a line"),
)


def chat(options: argparse.Namespace) -> int:
    """Run the chat until the input ends or the user quits."""
    screen, out = screens_of(options)
    with Interrupts() as interrupts, contextlib.closing(Agent(options, screen, interrupts, out=out)) as agent:
        agent.introduce()
        screen.line(f"[{agent.name} {agent.client.model}; /help lists the commands]", "note")
        prompts = Prompts(screen, [*_COMMANDS, "/quit"])
        while (prompt := prompts.next()) is not None and _handle_prompt(agent, prompt.strip()):
            continue
        agent.suggest_continue("toolwire chat", look="note")
    return 0


def _handle_prompt(agent: Agent, prompt: str) -> bool:
    """Execute one prompt or command. Return False if the user quits."""
    word, _, rest = prompt.partition(" ")
    try:
        if word == "/quit":
            return False
        if word in _COMMANDS:
            _COMMANDS[word](agent, rest.strip())
        elif word.startswith("/") and "/" not in word[1:]:
            agent.screen.line(f"there is no {word}; /help lists the commands", "error")
        elif prompt:
            agent.report_end(agent.answer(prompt))
    except ProviderError as problem:
        agent.screen.line(agent.explain(problem), "error")
        agent.write_end(Done("error", [], reason=str(problem)), 1)
    except (ToolwireError, OSError) as problem:
        if agent.output_error is not None:
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
    """Switch to another model. A name without a provider is looked up at the current provider."""
    if not rest:
        agent.screen.line(f"{agent.name} {agent.client.model}")
        return
    target = target_of(rest)
    elsewhere = target is not None and target[1] != rest
    agent.switch_model(client_of(None if elsewhere else agent.client.provider, rest))
    agent.screen.line(f"[{agent.name} {agent.client.model}]", "note")


def _save(agent: Agent, rest: str) -> None:
    """Write the conversation to its own file, or to a new file `rest`."""
    path = Path(rest) if rest else agent.file.path
    kept = agent.to_saved(agent.context)
    if rest and path.exists():
        raise UserError(f"{path} already exists: name another file")
    try:
        conversations.write(path, kept) if rest else agent.file.save(kept)
    except OSError as problem:
        raise UserError(f"{path}: {problem.strerror}") from problem
    agent.screen.line(f"[written to {path}]", "note")


_COMMANDS: dict[str, Callable[[Agent, str], None]] = {
    "/help": _help,
    "/tools": _tools,
    "/model": _model,
    "/save": _save,
}
