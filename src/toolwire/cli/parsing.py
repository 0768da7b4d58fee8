"""What can be typed: the commands, and errors that say what would be right.

Rules of this file:
- A word that is not known is answered with the nearest one that is.
- Each command's options stand in the file of that command; no other file is loaded for it.
"""

import argparse
import contextlib
import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn
from urllib.parse import urlsplit

import toolwire
from toolwire.errors import MissingExtra, meant

_EPILOG = """\
examples:
  toolwire run "Find the failing test, and fix it." --model anthropic/NAME
  git diff | toolwire run "Review this." --model ollama/NAME --quiet
  toolwire translate --from openai-chat --to gemini request.json

models: `toolwire models` lists their names, as PROVIDER/NAME

exit codes: 0 an answer, or done; 1 an error, or a strict translation that would lose something; 2 the input or the
arguments cannot be used; 3 a limit was reached; 130 interrupted by Ctrl-C
"""
_COMMANDS = {
    **dict.fromkeys(("run", "chat"), "agents"),
    "conversations": "conversations",
    **dict.fromkeys(("translate", "dialects", "models"), "translation"),
    **dict.fromkeys(("tools", "call", "doctor"), "tools"),
    "text": "text",
    "simulate": "simulating",
    "serve": "serving",
    "launch": "launching",
    "keys": "keys",
    "config": "config",
    "traces": "auditing",
    **dict.fromkeys(("worker", "runs"), "runs"),
}
_SAME = {"help": "--help", "version": "--version"}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CHOICE = re.compile(r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<known>.*)\)")


class _Parser(argparse.ArgumentParser):
    """Reads the arguments of a command; `parser` in what it read is the parser of the command itself."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.set_defaults(parser=self, run=lambda options: options.parser.print_help() or 0)

    def error(self, message: str) -> NoReturn:
        """Say what cannot be used, and what may have been meant."""
        if (found := _CHOICE.search(message)) is not None:
            message += meant(found["word"], re.findall(r"[^', ]+", found["known"]))
        super().error(message)

    def refuse(self, more: list[str], options: argparse.Namespace) -> NoReturn:
        unknown = next((word for word in more if word.startswith("-")), None)
        task = getattr(options, "task", None)
        if unknown is not None:
            name = unknown.partition("=")[0]
            named = next((f"; did you mean {option}?" for option in self._taking(name.strip("-").upper())), "")
            self.error(f"unknown option {name}{meant(name, self._option_string_actions) or named}")
        if task is not None:
            self.error(f'a task of several words needs quotes: {self.prog} "{" ".join([task, *more])}"')
        self.error(f"unexpected: {' '.join(more)}")

    def _taking(self, word: str) -> Iterator[str]:
        """Give the options that take what is called so, as `--listen HOST:PORT` does a port."""
        for action in self._actions:
            if action.option_strings and word in str(action.metavar).split(":"):
                yield f"{action.option_strings[0]} {action.metavar}"


@contextlib.contextmanager
def wanting(extra: str, purpose: str, library: str = "") -> Iterator[None]:
    """Import what an extra brings, or say which one that is."""
    try:
        yield
    except ImportError as problem:
        raise MissingExtra(library or str(problem.name), extra, purpose) from problem


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the arguments of a command, or end with what is wrong with them."""
    promise = str(toolwire.__doc__).partition("\n")[0]
    looks = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="toolwire", description=promise, epilog=_EPILOG, formatter_class=looks)
    parser.add_argument("-V", "--version", action="version", version=f"toolwire {toolwire.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    named = [_COMMANDS[word] for word in arguments[:1] if word in _COMMANDS]
    for name in named or dict.fromkeys(_COMMANDS.values()):
        importlib.import_module(f"toolwire.cli.{name}").add(commands)
    options, more = parser.parse_known_args([_SAME.get(word, word) for word in arguments[:1]] + list(arguments[1:]))
    if more:
        options.parser.refuse(more, options)
    return options


def count(text: str) -> int:
    """Read a number from 1 on."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text)


def duration(text: str) -> float | None:
    """Read how long something is, as 90m or 7d, in seconds; None if it is no such text."""
    number, unit = text[:-1], text[-1:]
    return float(number) * _SECONDS[unit] if unit in _SECONDS and number.isdigit() else None


def base_url(text: str) -> str:
    """Read the address of a server."""
    if "://" not in text:
        raise argparse.ArgumentTypeError(f"needs http:// or https:// before it: http://{text}")
    with contextlib.suppress(ValueError):  # of a host or a port that there cannot be
        parts = urlsplit(text)
        if parts.scheme.lower() in ("http", "https") and parts.hostname and parts.port != 0:
            return text
    raise argparse.ArgumentTypeError(f"must be like https://host/path, not {text!r}")
