"""The sections of `toolwire.toml` that the command line reads: `[cli]`, and `[mcp.NAME]` for each MCP server.

Rules of this file:
- The user's own file is in the configuration folder. A project's file is in the project folder, and starts no server
  before the user has agreed to exactly this server once.
- A value of `env` and `headers` that is `$NAME` is the value of that variable, so that no key has to be in the file.
- The other sections are those of the gateway, and are not read here.
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.cli.state_paths import config_folder, state_folder
from toolwire.errors import UserError, listed, suggestion

_FILE = "toolwire.toml"


class _CliSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The section `[cli]`: the model of a command that names none."""

    model: str = ""


class _McpServer(Struct, frozen=True, forbid_unknown_fields=True):
    """A section `[mcp.NAME]`: the command that starts a server, or the URL of one."""

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}

    def __str__(self) -> str:
        return self.url or " ".join([self.command, *self.args])


class _FileSettings(Struct, frozen=True):
    """The sections of one file that the command line reads."""

    cli: _CliSettings = _CliSettings()
    mcp: dict[str, _McpServer] = {}


def user_settings() -> _FileSettings:
    """Return the settings of the user's own file; the defaults if there is none."""
    try:
        return _read(config_folder() / _FILE)
    except UserError as problem:
        if isinstance(problem.__cause__, RuntimeError):  # no home folder, so no file
            return _FileSettings()
        raise


def _read(path: Path) -> _FileSettings:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return _FileSettings()
    import tomllib  # noqa: PLC0415 - only where there is a file

    try:
        return msgspec.convert(tomllib.loads(data.decode("utf-8-sig")), _FileSettings)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserError(f"is not TOML: {problem}", path=str(path)) from None
    except msgspec.ValidationError as problem:
        raise UserError(f"cannot be used: {problem}", path=str(path)) from None


def mcp_resolver(name: str) -> Any:
    """Return the resolver of the MCP server `name`, of the user's file or of the project's.

    Raise UserError if neither file has it, or if the user does not agree to start the project's server.
    """
    user, path = user_settings().mcp, Path(_FILE).resolve()
    project = _read(path).mcp
    server = user.get(name) or project.get(name)
    if server is None:
        known = [*user, *project]
        where = f"add [mcp.{name}] to {config_folder() / _FILE}, or to {_FILE} of this folder"
        names = listed(known, suggestion(name, known)) if known else ""
        raise UserError(f"there is no MCP server {name!r}: {where}{names}", path="--mcp")
    if bool(server.command) == bool(server.url):
        raise UserError("needs a command or a url, and not both", path=f"mcp.{name}")
    if name not in user:
        _ask_once(path, name, server)
    from toolwire import mcp  # noqa: PLC0415 - an extra

    if server.url:
        return mcp.http(server.url, headers=_with_variables(server.headers, name))
    return mcp.stdio(server.command, server.args, env=_with_variables(server.env, name))


def _with_variables(values: Mapping[str, str], name: str) -> dict[str, str]:
    """Return `values` with the variables that they name."""
    resolved = {}
    for key, value in values.items():
        variable = value.removeprefix("$")
        if variable != value and variable not in os.environ:
            raise UserError(f"{key} is ${variable}, and there is no such variable", path=f"mcp.{name}")
        resolved[key] = os.environ[variable] if variable != value else value
    return resolved


def _ask_once(path: Path, name: str, server: _McpServer) -> None:
    """Ask whether a project's file may start a server, unless the user has agreed to the same before."""
    agreed = state_folder("a server of your own file") / "agreed"
    digest = hashlib.sha256(f"{path}\0{name}\0".encode() + msgspec.json.encode(server)).hexdigest()
    if agreed.exists() and digest in agreed.read_text().split():
        return
    act = "connects to" if server.url else "starts"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        user_file = config_folder() / _FILE
        raise UserError(
            f"{path} {act} {str(server)!r}: agree to it once on a terminal, or copy the section to {user_file}",
            path="--mcp",
        )
    print(f"{path} {act} {str(server)!r}. Allow it from now on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError(f"{name} was not started", path="--mcp")
    agreed.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with agreed.open("a") as file:
        file.write(f"{digest}\n")
