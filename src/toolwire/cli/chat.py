"""`toolwire chat`: a loop of prompts and answers.

Rule: a prompt that begins with / is a command. The end of the input ends the chat; Ctrl-C stops only the current
answer.
"""

import argparse
import contextlib

from toolwire.cli.agent import Agent, screens_of
from toolwire.cli.chat_commands import COMMANDS
from toolwire.cli.prompts import Prompts
from toolwire.cli.terminal import Interrupts
from toolwire.client.failures import ProviderError
from toolwire.errors import ToolwireError, did_you_mean
from toolwire.loop import Done


def chat(options: argparse.Namespace) -> int:
    """Run the chat until the input ends or the user quits."""
    screen, out = screens_of(options)
    with Interrupts() as interrupts, contextlib.closing(Agent(options, screen, interrupts, out=out)) as agent:
        agent.introduce()
        mode = agent.toolbox.permissions.mode
        mode_note = "" if mode == "ask" else f"mode {mode}; "
        screen.line(f"[{agent.name} {agent.client.model}; {mode_note}/help lists the commands]", "note")
        prompts = Prompts(screen, [*COMMANDS, "/quit"])
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
        if word in COMMANDS:
            COMMANDS[word](agent, rest.strip())
        elif word.startswith("/") and "/" not in word[1:]:
            agent.screen.line(
                f"there is no {word}{did_you_mean(word, [*COMMANDS, '/quit'])}; /help lists the commands", "error"
            )
        elif prompt:
            agent.report_end(agent.answer(prompt))
    except KeyboardInterrupt:
        agent.screen.line("interrupted", "error")
    except ProviderError as problem:
        agent.screen.line(agent.explain(problem), "error")
        agent.write_end(Done("error", [], reason=str(problem)), 1)
    except (ToolwireError, OSError) as problem:
        if agent.output_error is not None:
            raise
        agent.screen.line(str(problem), "error")
    return True
