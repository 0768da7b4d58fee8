"""Write `docs/options.md`: every command of `toolwire` and its options, with the text that `--help` shows."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from toolwire.cli.parsing import whole_parser

PAGE = Path(__file__).resolve().parent.parent / "docs" / "options.md"
_HEAD = """# Every option

Made by `make docs` from the code. `toolwire COMMAND --help` prints the same.
[The command line](command-line.md) explains the commands.
"""


def page() -> str:
    """Return the page: a table of options for each command."""
    return _HEAD + "".join(f"\n## {name}\n\n{_intro(help_)}{_table(command)}" for name, help_, command in commands())


def commands() -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield each command that does something: its name, its description, its parser."""
    yield from _below(whole_parser())


def options(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options and arguments of `command` that `--help` shows, but for `--help` itself."""
    return [
        action
        for action in command._actions
        if action.help != argparse.SUPPRESS
        and not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    ]


def _below(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    for group in parser._actions:
        if not isinstance(group, argparse._SubParsersAction):
            continue
        texts = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for name, command in group.choices.items():
            deeper = list(_below(command))
            if not deeper or options(command):
                yield command.prog, texts.get(name, ""), command
            yield from deeper


def _intro(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}.\n\n" if text else ""


def _table(command: argparse.ArgumentParser) -> str:
    rows = "".join(f"| {_names(action)} | {_words(action)} |\n" for action in options(command))
    return f"| | |\n|---|---|\n{rows}" if rows else "It has no options.\n"


def _names(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return f"`{value}`"
    shown = "" if action.nargs == 0 else f" {value}"
    return ", ".join(f"`{name}{shown}`" for name in action.option_strings)


def _words(action: argparse.Action) -> str:
    text = (action.help or "").replace("%(default)s", str(action.default))
    text = text[:1].upper() + text[1:]
    choices = "" if action.choices is None or action.metavar else f" One of {', '.join(map(str, action.choices))}."
    return f"{text}.{choices}".replace("|", "\\|").replace("%%", "%")


if __name__ == "__main__":
    PAGE.write_text(page())
