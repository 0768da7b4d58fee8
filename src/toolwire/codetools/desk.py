"""What the tools of one set of code tools share."""

from typing import Any

from toolwire.codetools.paths import Workspace


class Desk:
    """What the tools of one resolver share: the workspace, the options, and what was read so far.

    `seen` says what the content of each file was when a tool gave or wrote it last, by its place.
    """

    def __init__(self, workspace: Workspace, options: dict[str, Any]) -> None:
        self.workspace = workspace
        self.options = options
        self.seen: dict[Any, Any] = {}
