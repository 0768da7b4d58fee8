"""Which calls of an agent run without a question: the mode, the rules that allow, and the rules that deny.

Rules of this file:
- A rule is the name of a tool, or a name with a pattern: `bash(pytest *)`, `write_file(docs/*)`, `http_get(https://*)`.
- A rule that denies wins over everything, also over `--yes`. It is compared with each part of a command.
- A rule that allows matches simple commands only: without `;`, `&`, `|`, `<`, `>`, `$`, brackets or line ends.
- Rules help against mistakes. The sandbox is the boundary, because a program can start another one.
"""

import posixpath
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from toolwire.cli.modes import Mode
from toolwire.cli.state_paths import state_folder
from toolwire.client.saving import write_atomically
from toolwire.errors import UserError
from toolwire.types import ToolCall

EDITS = frozenset({"write_file", "edit_file", "multi_edit", "append_to_file"})
_SUBJECTS = {"bash": "command", "http_get": "url"}
_RULE = re.compile(r"(?P<tool>[\w.*?-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_COMPOUND = re.compile(r"[;&|<>$`(){}\n\\]")
_PARTS = re.compile(r"[;&|\n(){}`]+|\$\(")
_ASSIGNMENTS = re.compile(r"(?:\w+=\S*\s+)+")
# Programs that run other programs: of these, "always" allows the same command only.
_RUNNERS = frozenset(
    "awk bash bun dash deno docker env eval exec find fish git make node npm npx perl php pip python python3 ruby sed "
    "sh ssh sudo time uv uvx xargs yarn zsh".split()
)
_PLANNING = "only looking is allowed now (mode plan): say what you would do"


class Rule(Struct, frozen=True):
    """A tool and a pattern for the argument that matters: a command, a path or a URL. Without a pattern, any call."""

    tool: str
    pattern: str | None = None

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def matches(self, name: str, subject: str) -> bool:
        """Return True if a call of the tool `name` with `subject` is meant. `pytest *` also matches `pytest`."""
        if not fnmatchcase(name, self.tool):
            return False
        pattern = self.pattern
        return pattern is None or fnmatchcase(subject, pattern) or f"{subject} *" == pattern


def parse_rule(text: str) -> Rule:
    """Return the rule that `text` spells. Raise UserError if it is none."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise UserError(f"{text!r} is no rule: write TOOL, or TOOL(PATTERN) as in bash(pytest *)")
    return Rule(match["tool"], match["pattern"])


class Permissions:
    """The mode and the rules of one project folder. `decide` judges a call, `allow` adds a rule and keeps it."""

    def __init__(self, folder: str, mode: Mode = "ask", *, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        self.folder: str = str(Path(folder).resolve())
        self.mode: Mode = mode
        self.denied: list[Rule] = [parse_rule(text) for text in deny]
        self.allowed: list[Rule] = [parse_rule(text) for text in (*allow, *_read().get(self.folder, ()))]

    def decide(self, call: ToolCall, *, needs_approval: bool = True) -> bool | str | None:
        """Return True if the call runs, the reason if it does not, and None if the user has to decide."""
        subjects = _denied_subjects(call, self._subject(call))
        for rule in self.denied:
            if any(rule.matches(call.name, subject) for subject in subjects):
                return f"the user's settings deny {rule}"
        if not needs_approval or self.mode == "all":
            return True
        if self.mode == "plan":
            return _PLANNING
        if (self.mode == "edits" and call.name in EDITS) or self.is_allowed(call):
            return True
        return None

    def is_allowed(self, call: ToolCall) -> bool:
        """Return True if a rule allows the call."""
        subject = self._subject(call)
        if call.name == "bash" and _COMPOUND.search(subject):
            return False
        return any(rule.matches(call.name, subject) for rule in self.allowed)

    def _subject(self, call: ToolCall) -> str:
        """Return the argument that patterns are compared with: a command, a URL, or a path below the folder."""
        if call.name in _SUBJECTS:
            return str(call.arguments.get(_SUBJECTS[call.name], "")).strip()
        path = call.arguments.get("path")
        if not isinstance(path, str):
            return ""
        absolute = posixpath.normpath(posixpath.join(self.folder, path))
        return posixpath.relpath(absolute, self.folder)

    def suggest(self, call: ToolCall) -> Rule | None:
        """Return the rule that "always" adds for the call, or None if no rule can allow it."""
        subject = self._subject(call)
        if call.name == "bash":
            if not subject or _COMPOUND.search(subject):
                return None
            program = subject.split()[0]
            return Rule("bash", escape(subject) if posixpath.basename(program) in _RUNNERS else f"{escape(program)} *")
        if call.name == "http_get":
            parts = urlsplit(subject)
            return Rule("http_get", f"{parts.scheme}://{escape(parts.netloc)}/*")
        return Rule(call.name)

    def allow(self, rule: Rule) -> None:
        """Allow the calls of `rule` in this folder, from now on."""
        self.allowed.append(rule)
        rules = _read()
        kept = rules.setdefault(self.folder, [])
        if str(rule) not in kept:
            kept.append(str(rule))
            path = permissions_file()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, msgspec.json.format(msgspec.json.encode(rules), indent=2).decode() + "\n")


def _denied_subjects(call: ToolCall, subject: str) -> list[str]:
    """Return what rules that deny are compared with: for a command, each of its parts, by the name of its program."""
    if call.name != "bash":
        return [subject]
    parts = [_ASSIGNMENTS.sub("", part.strip(), count=1) for part in _PARTS.split(subject)]
    programs = [part.split(maxsplit=1) for part in parts if part]
    named = [" ".join([posixpath.basename(program), *arguments]) for program, *arguments in programs]
    return [subject, *parts, *named]


def permissions_file() -> Path:
    """Return the file of the rules that the user has added, by folder."""
    return state_folder("--mode ask") / "permissions.json"


def _read() -> dict[str, list[str]]:
    path = permissions_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, list[str]])
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise UserError(f"is not a file of rules: {problem}", path=str(path)) from None
