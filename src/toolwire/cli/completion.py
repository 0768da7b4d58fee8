"""`toolwire completion`: a script for the shell that completes commands, options and values.

Rule: the words are those of the parsers. The script holds them, so that completing starts no Python.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from toolwire import catalogue
from toolwire.cli.commands import SUMMARIES
from toolwire.providers import PROVIDERS

_BASH = """\
# In ~/.bashrc: eval "$(toolwire completion bash)"
_toolwire() {{
    local place=toolwire word words="" current=${{COMP_WORDS[COMP_CWORD]}}
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$place $word" in
{places}
        esac
    done
    case "$place ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    *)
        case "$place" in
{words}
        esac ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    [ "${{#COMPREPLY[@]}}" -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
}}
complete -o filenames -F _toolwire toolwire
"""
_ZSH = """\
#compdef toolwire
# In ~/.zshrc, after compinit: eval "$(toolwire completion zsh)"
_toolwire() {{
    local place=toolwire word choices=""
    for word in ${{words[2,CURRENT-1]}}; do
        case "$place $word" in
{places}
        esac
    done
    case "$place ${{words[CURRENT-1]}}" in
{values}
    *)
        case "$place" in
{words}
        esac ;;
    esac
    compadd -- ${{=choices}} || _files
}}
compdef _toolwire toolwire
"""
_FISH = """\
# toolwire completion fish > ~/.config/fish/completions/toolwire.fish
function __toolwire_place
    set -l place toolwire
    set -l typed (commandline -opc)
    for word in $typed[2..-1]
        switch "$place $word"
            case {places}
                set place "$place $word"
        end
    end
    test "$place" = "$argv[1]"
end
{lines}
"""


def add(commands: Any) -> None:
    """Add the command `completion`."""
    command = commands.add_parser("completion", help=SUMMARIES["completion"])
    command.add_argument("shell", choices=list(_SCRIPTS), help="the shell")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from toolwire.cli.parsing import whole_parser  # noqa: PLC0415 - only here are all commands loaded

    print(_SCRIPTS[options.shell](dict(_parsers(whole_parser(), "toolwire"))), end="")
    return 0


def _parsers(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each parser with its path, as in `toolwire traces list`."""
    yield path, parser
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
            for name, command in action.choices.items():
                yield from _parsers(command, f"{path} {name}")


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    yield from (action for action in parser._actions if action.help != argparse.SUPPRESS)  # noqa: SLF001 - see above


def _choices(action: argparse.Action) -> list[str]:
    """Return the values of an option or an argument, as far as they are known."""
    if action.choices is not None:
        return list(map(str, action.choices))
    if action.dest == "provider":
        return list(PROVIDERS)
    if action.dest == "model":
        names = ((one.name, [name for name in one.providers if name in PROVIDERS]) for one in catalogue.models())
        return [f"{served[0]}/{name}" for name, served in names if served]
    return []


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """Return the words that may follow: commands, the choices of arguments, options."""
    arguments = [action for action in _options(parser) if not action.option_strings]
    names = [choice for action in arguments for choice in _choices(action)]
    return [*names, *(name for action in _options(parser) for name in action.option_strings)]


def _values(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """Yield each option that has a choice of values, with the values."""
    for action in _options(parser):
        if choices := _choices(action):
            yield from ((name, choices) for name in action.option_strings)


def _script(template: str, variable: str, parsers: dict[str, argparse.ArgumentParser]) -> str:
    """Return the script of a shell with `case`: the place of the cursor, and the words that may stand there."""
    places = [f'        "{path}") place="{path}" ;;' for path in parsers if path != "toolwire"]
    values = [
        f'    "{path} {name}") {variable}="{" ".join(choices)}" ;;'
        for path, parser in parsers.items()
        for name, choices in _values(parser)
    ]
    words = [f'        "{path}") {variable}="{" ".join(_words(parser))}" ;;' for path, parser in parsers.items()]
    return template.format(places="\n".join(places), values="\n".join(values), words="\n".join(words))


def _bash(parsers: dict[str, argparse.ArgumentParser]) -> str:
    return _script(_BASH, "words", parsers)


def _zsh(parsers: dict[str, argparse.ArgumentParser]) -> str:
    return _script(_ZSH, "choices", parsers)


def _fish(parsers: dict[str, argparse.ArgumentParser]) -> str:
    places = " ".join(f'"{path}"' for path in parsers if path != "toolwire")
    lines = [line for path, parser in parsers.items() for line in _fish_lines(parser, f'__toolwire_place "{path}"')]
    return _FISH.format(places=places, lines="\n".join(lines))


def _fish_lines(parser: argparse.ArgumentParser, condition: str) -> Iterator[str]:
    for action in _options(parser):
        begin = f"complete -c toolwire -n '{condition}'"
        choices = _choices(action)
        if not action.option_strings:
            helps = {one.dest: one.help for one in getattr(action, "_choices_actions", [])} | SUMMARIES
            for choice in choices:
                text = helps.get(choice) if isinstance(action, argparse._SubParsersAction) else None  # noqa: SLF001
                yield f"{begin} -f -a {choice}{_fish_text(text)}"
            continue
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings
        )
        value = "" if action.nargs == 0 else f" -x -a '{' '.join(choices)}'" if choices else " -r"
        yield f"{begin} {names}{value}{_fish_text(action.help)}"


def _fish_text(text: str | None) -> str:
    return "" if not text else " -d '" + text.replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%") + "'"


_SCRIPTS: dict[str, Callable[[dict[str, argparse.ArgumentParser]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
