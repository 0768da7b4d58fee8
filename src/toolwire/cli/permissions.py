"""The permissions of calls: the mode, and the rules that allow and deny.

Rules of this file:
- A rule that denies wins over every mode and every rule that allows.
- In the mode `plan` nothing that writes, runs or is unknown happens, whatever the rules allow.
- Rules that the user adds by "always" are kept for the project folder, in the user's state folder. A project cannot
  write there.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from toolwire.cli.defaults import MODES
from toolwire.cli.rules import Rule, denial, is_allowed, parse_rule, parse_rules, usual_rule
from toolwire.cli.state_paths import state_folder
from toolwire.config.command_line import Mode
from toolwire.errors import UserError
from toolwire.types import Tool, ToolCall
from toolwire.types.readable import readable

_FILE_TOOLS = frozenset({"write_file", "append_to_file", "edit_file", "multi_edit"})
_FETCHES = frozenset({"http_get"})
_PLAN = "the user has chosen plan mode: nothing is changed and no command runs; answer with a plan"
RUN, ASK = "run", "ask"


@readable
class _KeptRules(Struct):
    """The rules that were added by "always" in a folder."""

    folder: str
    allow: list[str] = []


class Permissions:
    """The mode and the rules of one project folder. A tool is unknown until `tools_to_check` was called with it."""

    def __init__(self, folder: str, *, mode: Mode = "ask", allow: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        self.folder: str = os.path.realpath(folder)
        self.mode: Mode = mode
        self.allow: list[Rule] = parse_rules(allow, "--allow")
        self.deny: list[Rule] = parse_rules(deny, "--deny")
        self.kept: list[Rule] = self._read_kept()
        self._readers: frozenset[str] = frozenset()

    def tools_to_check(self, tools: Iterable[Tool]) -> list[str]:
        """Return the names of the tools whose calls need a verdict. The others only read, and no rule denies them."""
        listed = list(tools)
        needing = tools_needing_approval(listed)
        self._readers |= {tool.name for tool in listed if tool.name not in needing}
        return [
            tool.name for tool in listed if tool.name in needing or any(rule.names(tool.name) for rule in self.deny)
        ]

    def only_reads(self, tool: str) -> bool:
        """Return True if `tool` only reads, so that its calls are not shown and need no approval."""
        return tool in self._readers

    def verdict(self, call: ToolCall) -> str:
        """Return RUN, ASK, or the reason why `call` is refused."""
        denied = denial(self.deny, call, self.folder)
        if denied:
            return denied
        if self.only_reads(call.name):
            return RUN
        if self.mode == "plan":
            return ASK if call.name in _FETCHES else _PLAN
        if self.mode == "all" or (self.mode == "edits" and call.name in _FILE_TOOLS):
            return RUN
        return RUN if is_allowed([*self.allow, *self.kept], call, self.folder) else ASK

    def usual_rule(self, call: ToolCall) -> Rule | None:
        """Return the rule that "always" adds for `call`; None if no rule can, or if the mode would ignore it."""
        return None if self.mode == "plan" else usual_rule(call)

    def parse_own_rule(self, text: str, call: ToolCall) -> Rule | None:
        """Return the rule that the user wrote as `text` for the tool of `call`; None if it is none."""
        with contextlib.suppress(UserError):
            rule = parse_rule(text, "always")
            return rule if rule.tool == call.name else None
        return None

    def keep(self, rule: Rule) -> str:
        """Allow `rule` from now on in this folder. Return what went wrong when it was saved, or an empty string."""
        if rule not in self.kept:
            self.kept.append(rule)
        return self._write_kept()

    def forget(self) -> int:
        """Remove the kept rules of this folder, and return their number."""
        count = len(self.kept)
        self.kept.clear()
        problem = self._write_kept()
        if problem:
            raise UserError(problem)
        return count

    def describe(self) -> list[str]:
        """Return the mode and the rules as lines."""
        lines = [f"{self.mode}: {MODES[self.mode]}"]
        for name, rules in (("always", self.kept), ("allowed", self.allow), ("denied", self.deny)):
            if rules:
                lines.append(f"{name}: {', '.join(map(str, rules))}")
        return lines

    def _path(self) -> Path:
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:32]
        return state_folder("XDG_STATE_HOME") / "permissions" / f"{name}.json"

    def _read_kept(self) -> list[Rule]:
        try:
            kept = msgspec.json.decode(self._path().read_bytes(), type=_KeptRules)
        except (FileNotFoundError, NotADirectoryError, UserError):
            return []
        except msgspec.DecodeError as problem:
            raise UserError(f"is not a file of kept rules: {problem}", path=str(self._path())) from None
        return parse_rules(kept.allow, str(self._path()))

    def _write_kept(self) -> str:
        try:
            path = self._path()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            data = msgspec.json.encode(_KeptRules(os.fsdecode(os.fsencode(self.folder)), [*map(str, self.kept)]))
            fd, temporary = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)
        except (OSError, UserError, ValueError) as problem:
            return f"the rule is not kept: {problem}"
        return ""


def tools_needing_approval(tools: Iterable[Tool]) -> list[str]:
    """Return the names of the tools that do more than read the project folder, or do not declare their effects."""
    return [tool.name for tool in tools if tool.metadata.get("effects") != "none" or tool.name in _FETCHES]
