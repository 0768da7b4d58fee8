"""The argument parser, and error messages that name the remedy.

Rules of this file:
- For an unknown word, the error names the nearest known one.
- The options of a command are in the file of that command. Only that file is imported for it.
"""

import argparse
import contextlib
import importlib
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn
from urllib.parse import urlsplit

import toolwire
from toolwire.cli.commands import COMMANDS, GROUPS
from toolwire.errors import MissingExtra, did_you_mean

_EXAMPLES = (
    "examples:",
    '  toolwire "What is a monad?"',
    '  git diff | toolwire ask "Review this." -m ollama/NAME',
    '  toolwire run "Find the failing test, and fix it."',
    "  toolwire translate --from openai-chat --to gemini request.json",
)
_NOTES = (
    "models: `toolwire models` lists their names, as PROVIDER/NAME; $TOOLWIRE_MODEL is the default",
    (
        "exit codes: 0 an answer, or done; 1 an error, or a strict translation that would lose something; 2 invalid "
        "input or arguments; 3 a limit was reached; 130 interrupted by Ctrl-C"
    ),
)
_SAME = {"help": "--help", "version": "--version"}
_OWN_OPTIONS = ("-h", "--help", "-V", "--version")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CHOICE = re.compile(r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<known>.*)\)")


class _Parser(argparse.ArgumentParser):
    """The parser of a command. The parsed options hold it as `parser`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.set_defaults(parser=self, run=lambda options: options.parser.print_help() or 0)

    def error(self, message: str) -> NoReturn:
        """Exit with `message`, and suggest the word that was probably meant."""
        if (match := _CHOICE.search(message)) is not None:
            message += did_you_mean(match["word"], re.findall(r"[^', ]+", match["known"]))
        super().error(message)

    def reject(self, more: list[str], options: argparse.Namespace) -> NoReturn:
        unknown = next((word for word in more if word.startswith("-")), None)
        task = getattr(options, "task", None)
        if unknown is not None:
            name = unknown.partition("=")[0]
            candidates = self._options_with_value(name.strip("-").upper())
            named = next((f"; did you mean {option}?" for option in candidates), "")
            self.error(f"unknown option {name}{did_you_mean(name, self._option_string_actions) or named}")
        if task is not None:
            self.error(f'a task of several words must be quoted: {self.prog} "{" ".join([task, *more])}"')
        self.error(f"unexpected arguments: {' '.join(more)}")

    def _options_with_value(self, word: str) -> Iterator[str]:
        """Yield the options whose value is named `word`, as `--listen HOST:PORT` for a port."""
        for action in self._actions:
            if action.option_strings and word in str(action.metavar).split(":"):
                yield f"{action.option_strings[0]} {action.metavar}"


class _WholeParser(_Parser):
    """The parser of `toolwire` itself. Its help lists the commands in groups, from the table of commands."""

    def format_help(self) -> str:
        """Return the help: each command with its sentence, wrapped to the terminal."""
        columns = shutil.get_terminal_size().columns - 2
        lines = ["usage: toolwire COMMAND ...", "       toolwire QUESTION", ""]
        lines += fill(str(self.description), columns)
        for title, commands in GROUPS.items():
            lines += ["", f"{title}:"]
            lines += [line for name, command in commands.items() for line in _row(name, command.summary, columns)]
        lines += ["", "options:"]
        lines += _row("-h, --help", "print this, or the help of a command: toolwire COMMAND --help", columns)
        lines += _row("-V, --version", "print the version", columns)
        lines += ["", *_EXAMPLES]
        return "\n".join(lines + [line for text in _NOTES for line in ("", *fill(text, columns))]) + "\n"


def _row(name: str, text: str, columns: int) -> list[str]:
    """Return a name with its text beside it, which continues below itself."""
    width = max(map(len, COMMANDS))
    first, *others = fill(text, columns, " " * (width + 4))
    return [f"  {name:<{width}}  {first.lstrip()}", *others]


def fill(text: str, columns: int, indent: str = "") -> list[str]:
    """Return `text` in lines of at most `columns`, each after `indent`. A longer word has a line of its own."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(indent) + len(lines[-1]) + 1 + len(word) > columns:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [f"{indent}{line}" for line in lines]


@contextlib.contextmanager
def require_extra(extra: str, purpose: str, library: str = "") -> Iterator[None]:
    """Raise MissingExtra if an import in this context fails; the error names the extra to install."""
    try:
        yield
    except ImportError as problem:
        raise MissingExtra(library or str(problem.name), extra, purpose) from problem


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a command. Exit with an error message if they are not valid.

    A question of several words, or an option of `ask` in front of one, is `toolwire ask`.
    """
    words = [_SAME.get(word, word) for word in arguments[:1]] + list(arguments[1:])
    if words and _is_question(words[0]):
        words.insert(0, "ask")
    parser = _parser([COMMANDS[word].module for word in words[:1] if word in COMMANDS])
    if words and words[0] not in COMMANDS and not words[0].startswith("-"):
        parser.error(_unknown_command(words[0]))
    options, more = parser.parse_known_args(words)
    if more:
        options.parser.reject(more, options)
    return options


def _is_question(word: str) -> bool:
    """Return True if `word` can be no command: it has several words, or is an option that `ask` may have."""
    return len(word.split()) > 1 or (word.startswith("-") and word not in _OWN_OPTIONS)


def _unknown_command(word: str) -> str:
    hint = did_you_mean(word, COMMANDS)
    question = "" if hint else f'; to ask that as a question: toolwire ask "{word}"'
    return f"there is no command {word!r}{hint}{question}"


def whole_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    return _parser([command.module for command in COMMANDS.values()])


def _parser(modules: Sequence[str]) -> "_Parser":
    """Return a parser of the commands of `modules`: a command loads its own module and no other."""
    description = str(toolwire.__doc__).partition("\n")[0]
    parser = _WholeParser(prog="toolwire", description=description)
    parser.add_argument("-V", "--version", action="version", version=f"toolwire {toolwire.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    for name in dict.fromkeys(modules):
        importlib.import_module(f"toolwire.cli.{name}").add(commands)
    return parser


def count(text: str) -> int:
    """Return `text` as a number of at least 1."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text)


def add_model_options(command: argparse.ArgumentParser) -> None:
    """Add the options that choose a model."""
    command.add_argument("-m", "--model", help="the model: NAME, or PROVIDER/NAME (default: $TOOLWIRE_MODEL)")
    command.add_argument("--provider", help="the provider, such as openai or ollama")
    command.add_argument(
        "--base-url", type=base_url, metavar="URL", help="the provider's address, instead of the usual one"
    )


def add_tool_options(command: argparse.ArgumentParser, approval: str) -> None:
    """Add the options of the user's own tools; `approval` is the sentence about their approval."""
    command.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help=f"let the model call this function too; {approval}; repeatable",
    )
    command.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="NAME",
        help="let the model call the tools of this MCP server, of a section [mcp.NAME] of toolwire.toml; repeatable",
    )


def add_attachments(command: argparse.ArgumentParser) -> None:
    """Add the option of files that go with the prompt."""
    command.add_argument(
        "-a",
        "--attach",
        action="append",
        default=[],
        metavar="FILE",
        help="attach an image, a PDF, sound or a text: a file, a URL, or - for standard input; repeatable",
    )


def add_request_settings(command: argparse.ArgumentParser) -> None:
    """Add the option of the settings of a request."""
    command.add_argument(
        "-o",
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the request, as in -o temperature=0.2 or -o effort=low; repeatable",
    )


def duration(text: str) -> float | None:
    """Return the seconds of a duration such as 90m or 7d; None if `text` is not one."""
    number, unit = text[:-1], text[-1:]
    return float(number) * _SECONDS[unit] if unit in _SECONDS and number.isdigit() else None


def base_url(text: str) -> str:
    """Return `text` if it is the URL of an HTTP server."""
    if "://" not in text:
        raise argparse.ArgumentTypeError(f"must begin with http:// or https://, as in http://{text}")
    with contextlib.suppress(ValueError):  # raised for an impossible host or port
        parts = urlsplit(text)
        if parts.scheme.lower() in ("http", "https") and parts.hostname and parts.port != 0:
            return text
    raise argparse.ArgumentTypeError(f"must be like https://host/path, not {text!r}")
