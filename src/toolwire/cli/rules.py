"""Rules about calls: `TOOL` or `TOOL(PATTERN)`, which allow or deny calls without a question.

Rules of this file:
- A rule about bash is compared word by word with each simple command of the line. A line is allowed only if each of its
  commands is; it is denied if any of them is. A line that cannot be read is never allowed.
- `*` matches any text in a word. `*` as a word of its own matches any number of words.
- A rule about a file is compared with its path from the project folder: as it was requested, and with links resolved.
- A rule about http_get is compared with the URL, and one about any other tool with the arguments as JSON.
- Rules guard against mistakes of a model. Against malice of a program that it runs, only the sandbox helps.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from toolwire.cli.shell_words import computes_its_command, loose_words, split_commands
from toolwire.errors import UserError
from toolwire.types import ToolCall

_RULE = re.compile(r"(?P<tool>[\w*.:-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
# Programs whose first argument is a command of its own, so that "always" means this one only.
_WITH_SUBCOMMAND = frozenset(
    "git npm pnpm yarn bun cargo go uv pip kubectl just poetry hatch gradle mvn dotnet gh".split()
)
# Programs that run other programs or any code, or cannot be undone: "always" means exactly this command.
_EXACT = frozenset(
    "sh bash zsh dash fish env sudo doas su xargs find python python3 node perl ruby php lua awk gawk sed nice nohup "
    "timeout time watch ssh scp rsync curl wget rm dd chmod chown mv tee parallel npx uvx pipx docker podman "
    "make".split()
)
# Subcommands that run another program or a script of the project.
_RUNNING = frozenset("run exec x dlx tool eval".split())
_SCRIPTS = frozenset("npm pnpm yarn bun".split())
_SUBCOMMAND = re.compile(r"[a-z][a-z-]*")
_MODULE_RUN = ("python", "python3")


class Rule(NamedTuple):
    """A rule: the name of a tool, and a pattern or None for all calls of it."""

    tool: str
    pattern: str | None = None

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def names(self, tool: str) -> bool:
        """Return True if the rule is about `tool`."""
        return _matches(self.tool, tool)


def parse_rule(text: str, where: str) -> Rule:
    """Return the rule that `text` writes. Raise UserError if it is none; `where` is the option or setting."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise UserError(f"must be TOOL or TOOL(PATTERN), as in bash(pytest *), not {text!r}", path=where)
    pattern = match["pattern"]
    if pattern is not None and not pattern.strip():
        raise UserError(f"{text!r} has an empty pattern: leave the brackets out to mean all calls", path=where)
    return Rule(match["tool"], None if pattern is None else pattern.strip())


def parse_rules(texts: Iterable[str], where: str) -> list[Rule]:
    """Return the rules that `texts` write."""
    return [parse_rule(text, where) for text in texts]


def is_allowed(rules: Iterable[Rule], call: ToolCall, folder: str) -> bool:
    """Return True if `rules` allow all that `call` does."""
    relevant = [rule for rule in rules if rule.names(call.name)]
    if any(rule.pattern is None for rule in relevant):
        return True
    patterns = [rule.pattern for rule in relevant if rule.pattern is not None]
    if not patterns:
        return False
    if call.name == "bash":
        commands = split_commands(_text(call, "command"))
        return commands is not None and all(
            any(_fits(pattern.split(), words) for pattern in patterns) for words in commands
        )
    values = _values(call, folder)
    return bool(values) and all(
        any(_matches(pattern, form) for pattern in patterns) for forms in values for form in forms
    )


def denial(rules: Sequence[Rule], call: ToolCall, folder: str) -> str:
    """Return why `rules` deny `call`, for the model; an empty string if they do not."""
    for rule in rules:
        if rule.names(call.name) and (rule.pattern is None or _denies(rule.pattern, call, folder)):
            return f"the rule {rule} denies it"
    is_bash = call.name == "bash" and any(rule.names("bash") for rule in rules)
    if is_bash and computes_its_command(_text(call, "command")):
        return "there are rules that deny commands, and this line computes which command it runs: write it out"
    return ""


def _denies(pattern: str, call: ToolCall, folder: str) -> bool:
    if call.name != "bash":
        return any(_matches(pattern, form) for forms in _values(call, folder) for form in forms)
    program, *arguments = pattern.split()
    # More arguments do not make a denied command harmless.
    wanted = [program.rpartition("/")[2] or program, *arguments, *([] if arguments[-1:] == ["*"] else ["*"])]
    line = _text(call, "command")
    readings = [*loose_words(line), *(split_commands(line) or ())]
    return any(
        _fits(wanted, [words[start].rpartition("/")[2] or words[start], *words[start + 1 :]])
        or _fits(wanted, words[start:])
        for words in readings
        for start in range(len(words))
    )


def usual_rule(call: ToolCall) -> Rule | None:
    """Return the rule that "always" adds for `call`; None if no rule can express it."""
    if call.name == "http_get":
        parts = urlsplit(_text(call, "url"))
        return Rule("http_get", f"{parts.scheme}://{parts.netloc}/*") if parts.netloc else None
    if call.name != "bash":
        return Rule(call.name)
    commands = split_commands(_text(call, "command"))
    if commands is None:
        return None
    unknown = [words for words in commands if not _is_harmless(words)]
    chosen = unknown or commands
    return Rule("bash", _pattern_of(chosen[0])) if len({_pattern_of(words) for words in chosen}) == 1 else None


def _is_harmless(words: list[str]) -> bool:
    return words[0] in ("cd", "echo", "true", "pwd")


def _pattern_of(words: list[str]) -> str:
    """Return the pattern of commands like `words`."""
    if any("*" in word or " " in word or not word for word in words[:3]):
        return " ".join(words)
    program, more = words[0], words[1:]
    if program in _MODULE_RUN and len(more) > 1 and more[0] == "-m":
        return f"{program} -m {more[1]} *"
    if program in _EXACT:
        return " ".join(words)
    if program in _SCRIPTS and len(more) > 1 and more[0] == "run":
        return f"{program} run {more[1]} *"
    if program in _WITH_SUBCOMMAND:
        is_exact = not more or more[0] in _RUNNING or _SUBCOMMAND.fullmatch(more[0]) is None
        return " ".join(words) if is_exact else f"{program} {more[0]} *"
    return f"{program} *"


def _fits(pattern: list[str], words: list[str]) -> bool:
    """Return True if the words of a command fit the words of a pattern."""
    if not pattern:
        return not words
    if pattern[0] == "*":
        return any(_fits(pattern[1:], words[start:]) for start in range(len(words) + 1)) if pattern[1:] else True
    return bool(words) and _matches(pattern[0], words[0]) and _fits(pattern[1:], words[1:])


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def _text(call: ToolCall, name: str) -> str:
    value = call.plain_arguments.get(name) if isinstance(call.plain_arguments, dict) else None
    return value if isinstance(value, str) else ""


def _values(call: ToolCall, folder: str) -> list[tuple[str, ...]]:
    """Return what a pattern is compared with: for each file or value of the call, its forms."""
    arguments: Any = call.plain_arguments
    if call.name == "http_get":
        return [(_text(call, "url"),)]
    paths = [arguments.get("path"), *(edit.get("path") for edit in _edits(arguments))]
    texts = [path for path in paths if isinstance(path, str)]
    if texts:
        return [_forms(path, folder) for path in dict.fromkeys(texts)]
    return [(json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str),)]


def _edits(arguments: Any) -> list[dict[str, Any]]:
    edits = arguments.get("edits") if isinstance(arguments, dict) else None
    return [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else []


def _forms(path: str, folder: str) -> tuple[str, ...]:
    """Return a path from the project folder, as it was requested and as links lead."""
    root = os.path.realpath(folder)
    requested = os.path.normpath(Path(root) / path)
    forms = (requested, os.path.realpath(requested))
    return tuple(dict.fromkeys(os.path.relpath(one, root).replace(os.sep, "/") for one in forms))
