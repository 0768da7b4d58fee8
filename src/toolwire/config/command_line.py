"""The settings of `toolwire run` and `toolwire chat` as values: `[cli]` and `[mcp.NAME]` of a file of settings.

Rules of this file:
- An unknown key is an error, with a suggestion of a similar one. The sections of other commands are not read.
- A project's file may set `[cli]` only, without an address, because a cloned repository must not send a key elsewhere.
- This module is pure: it reads no variable and no file.
"""

import tomllib
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from toolwire.config.settings import InvalidSettings, read_section
from toolwire.types.readable import readable

Mode = Literal["plan", "ask", "edits", "all"]
# Settings that a project may make without a question: they start nothing, send nothing elsewhere and allow nothing.
_HARMLESS = frozenset({"system", "instructions", "deny", "max_steps", "max_tokens", "window", "tools"})
_HARMLESS_MODES = ("plan", "ask")


class CommandLineSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The defaults of `run` and `chat`. None and empty values are settings that the file does not make."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    system: str | None = None
    instructions: bool | None = None
    mode: Literal["", "plan", "ask", "edits", "all"] = ""
    allow: list[str] = []
    deny: list[str] = []
    mcp: list[str] = []
    tool: list[str] = []
    tools: list[str] | None = None
    max_steps: int | None = None
    max_tokens: int | None = None
    window: int | None = None

    def settings_to_confirm(self) -> dict[str, Any]:
        """Return the settings that a user has to confirm once if a project's file makes them."""
        made = {name: value for name, value in msgspec.structs.asdict(self).items() if value not in (None, [], "")}
        if self.mode in _HARMLESS_MODES:
            del made["mode"]
        return {name: value for name, value in made.items() if name not in _HARMLESS}

    def without_confirmation(self) -> "CommandLineSettings":
        """Return the settings without those that a user has to confirm."""
        return msgspec.structs.replace(self, **{name: _DEFAULTS[name] for name in self.settings_to_confirm()})


class McpSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """An MCP server: a command with its arguments, or a URL. A value of `env` or `headers` may name a `$VARIABLE`."""

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    timeout: float | None = None


class CommandLineFile(Struct, frozen=True):
    """The sections `[cli]` and `[mcp.NAME]` of one file."""

    cli: CommandLineSettings = CommandLineSettings()
    mcp: dict[str, McpSettings] = {}


_DEFAULTS: dict[str, Any] = msgspec.structs.asdict(CommandLineSettings())
for _section in (CommandLineSettings, McpSettings):
    readable(_section)


def read_command_line(data: bytes, where: str, *, project: bool = False) -> CommandLineFile:
    """Parse `data`, the file `where`. Raise InvalidSettings with all problems.

    With `project`, `[mcp.NAME]` is not read, and an address is a problem.
    """
    try:
        tables = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidSettings(where, ["is not UTF-8"]) from None
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise InvalidSettings(where, [f"is not TOML: {problem}"]) from None
    problems: list[str] = []
    cli = read_section("cli", CommandLineSettings, tables.get("cli", {}), problems)
    servers = {} if project else read_section("mcp", dict[str, McpSettings], tables.get("mcp", {}), problems)
    if not problems:
        problems += [*_problems_of_defaults(cli, project=project)]
        problems += [text for name, server in servers.items() for text in _problems_of_server(f"mcp.{name}", server)]
    if problems:
        raise InvalidSettings(where, sorted(problems))
    return CommandLineFile(cli, servers)


def _problems_of_defaults(cli: CommandLineSettings, *, project: bool) -> Iterator[str]:
    if project and cli.base_url is not None:
        yield "cli.base_url may not be set by a project: your key would be sent there; pass --base-url"
    for name in ("max_steps", "max_tokens", "window"):
        value = getattr(cli, name)
        if value is not None and value < 1:
            yield f"cli.{name} must be 1 or more, not {value}"
    for index, tool in enumerate(cli.tool):
        if not all(tool.partition(":")):
            yield f"cli.tool[{index}] must be MODULE:NAME, not {tool!r}"


def _problems_of_server(path: str, server: McpSettings) -> Iterator[str]:
    if bool(server.command) == bool(server.url):
        yield f"{path} needs a command or a url, and not both"
    if server.url and not server.url.startswith(("http://", "https://")):
        yield f"{path}.url must begin with http:// or https://"
    others = ("args", "env", "cwd") if server.url else ("headers",)
    for name in others:
        if getattr(server, name):
            yield f"{path}.{name} does not apply to a {'url' if server.url else 'command'}"
    if server.timeout is not None and not server.timeout > 0:
        yield f"{path}.timeout must be above 0, not {server.timeout:g}"
