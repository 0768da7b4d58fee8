"""Write `docs/options.md`: every command of `toolwire` and its options, with the text that `--help` shows."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from toolwire.cli.parsing import whole_parser

PAGE = Path(__file__).resolve().parent.parent / "docs" / "options.md"
_HEAD = """# Every option

Every command of `toolwire` with its options, as `toolwire COMMAND --help` prints them.
[The command line](command-line.md) shows the commands at work. `make docs` generates this page from the code.
"""
# What Markdown would read as a cell's end or as emphasis; code spans have no `*`.
_ESCAPED = re.compile(r"[|*]")


def page() -> str:
    """Return the page: a table of options for each command."""
    return _HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    """Yield a section for each command; the commands of a group, such as `toolwire keys`, are below its heading."""
    before = ""
    for name, help_, command in commands():
        group = " ".join(name.split()[:2])
        if group not in (name, before):
            yield f"\n## {group}\n"
        before = group
        yield f"\n{'##' if name == group else '###'} {name}\n\n{_intro(help_)}{_table(command)}"


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
    return _ESCAPED.sub(r"\\\g<0>", f"{text}.{choices}".replace("%%", "%"))


if __name__ == "__main__":
    PAGE.write_text(page())
