"""The defaults and the modes of `run` and `chat`. This module imports nothing, because the help needs it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolwire.config.command_line import Mode

MAX_STEPS = 25
GO_ON = "Go on."  # the prompt that continues a conversation without a new task
MODES: "dict[Mode, str]" = {
    "plan": "look only: calls that write or run something are refused",
    "ask": "ask before a call writes, runs or fetches something",
    "edits": "change files of the project without asking; ask before commands and fetches",
    "all": "run every call without asking, but for those that a rule denies",
}
