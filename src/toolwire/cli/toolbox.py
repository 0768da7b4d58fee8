"""The tools of the agent: the code tools, the user's own tools and MCP servers, with the approval of their calls.

Rules of this file:
- The code tools come first. The tools of an MCP server carry its name in front, so that they hide no other tool.
- Every call of a server's tool needs a verdict, because the server may list other tools at any time.
- Servers are started before the first request, and ended with the agent.
"""

import argparse
import contextlib
from collections.abc import Mapping
from typing import Any

from toolwire.cli.edits import EditLog
from toolwire.cli.permissions import Permissions
from toolwire.cli.screen import Screen
from toolwire.cli.settings_file import mcp_resolvers
from toolwire.cli.terminal import Approver
from toolwire.cli.tools import code_tools
from toolwire.config.command_line import McpSettings, Mode
from toolwire.errors import ToolwireError, UserError
from toolwire.resolvers import Composition, Resolver, approved, prefixed, tools_of
from toolwire.resolvers.reading import runnable_of
from toolwire.types import ToolCall


class Toolbox:
    """All tools of one agent. `resolver` runs them; `permissions` and `edits` belong to the project folder."""

    def __init__(self, options: argparse.Namespace, screen: Screen, servers: Mapping[str, McpSettings]) -> None:
        mode: Mode = "all" if options.yes else options.mode or "ask"
        self.permissions: Permissions = Permissions(
            options.cwd, mode=mode, allow=options.allow or (), deny=options.deny or ()
        )
        self.edits: EditLog = EditLog()
        self.approver: Approver = Approver(screen, self.permissions, self._note_command)
        self.kit: Any = code_tools(
            options, options.tools, on_output=self.approver.observe_output, on_change=self.edits.record
        )
        own = _own_tools(options.tool or ())
        names = options.mcp or ()
        self._servers: list[Any] = mcp_resolvers(names, servers) if names else []
        resolvers = [self._checked(self.kit), *map(self._checked, own)]
        try:
            for name, server in zip(names, self._servers, strict=True):
                _start(server, name, screen)
                resolvers.append(approved(prefixed(server, f"{name}_"), self.approver))
        except BaseException:
            self.close()
            raise
        finally:
            screen.wait(None)
        self.resolver: Resolver = resolvers[0] if len(resolvers) == 1 else Composition(resolvers)

    def _checked(self, resolver: Any) -> Resolver:
        return approved(resolver, self.approver, only=self.permissions.tools_to_check(tools_of(resolver)))

    def _note_command(self, call: ToolCall) -> None:
        if call.name == "bash":
            self.edits.record_command()

    def close(self) -> None:
        """End the servers."""
        for server in self._servers:
            with contextlib.suppress(ToolwireError, RuntimeError):
                server.close()


def _start(server: Any, name: str, screen: Screen) -> None:
    screen.wait(lambda seconds: f"starting MCP server {name}, {seconds:.0f} s")
    count = len(server.connect().available_tools())
    screen.wait(None)
    screen.line(f"[mcp {name}: {count} tool{'s' if count != 1 else ''}]", "note")


def _own_tools(names: Any) -> list[Any]:
    """Return a resolver for each MODULE:NAME."""
    if not names:
        return []
    from toolwire.cli.own_tools import own_tool  # noqa: PLC0415 - only where it is wanted

    resolvers = []
    for name in names:
        tool = own_tool(name)
        try:
            resolvers.append(runnable_of(tool, f"--tool {name}"))
        except ToolwireError as problem:
            raise UserError(str(problem), path="--tool") from None
    return resolvers
