"""The settings files of `run` and `chat`: the user's `toolwire.toml`, and that of a project.

Rules of this file:
- An option of the command wins over the project's file, and that over the user's file.
- Settings of a project that start, allow or choose something are used only after the user has confirmed them once.
  The confirmation holds for this folder and these settings: changed settings are shown again.
- Without a terminal nobody can confirm, and these settings are not used. The screen names them.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import stat
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolwire.cli.screen import Screen, is_terminal
from toolwire.cli.state_paths import config_folder, state_folder
from toolwire.config.command_line import CommandLineFile, CommandLineSettings, McpSettings, read_command_line
from toolwire.errors import UserError, did_you_mean
from toolwire.waiting.results import safe

FILE = "toolwire.toml"
_MAX_BYTES = 1024 * 1024
_MODEL = "TOOLWIRE_MODEL"
_LISTS = ("allow", "deny", "mcp", "tool")
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)", re.ASCII)
_TARGET = ("model", "provider", "base_url")


def user_settings() -> CommandLineFile:
    """Return the settings of the user's file; the defaults if there is none."""
    try:
        path = config_folder() / FILE
    except UserError:
        return CommandLineFile()
    data = _read(path)
    return CommandLineFile() if data is None else read_command_line(data, str(path))


def apply_settings(options: argparse.Namespace, screen: Screen) -> dict[str, McpSettings]:
    """Fill the options that the command did not get from the settings files, and return the user's MCP servers."""
    user = user_settings()
    path = Path(options.cwd or ".") / FILE
    data = _read(path)
    project = CommandLineSettings()
    if data is not None and not _is_user_file(path):
        read = read_command_line(data, str(path), project=True).cli
        project = read if _is_confirmed(read, path, screen) else read.without_confirmation()
    _fill(options, project)
    _fill(options, user.cli)
    return user.mcp


def _fill(options: argparse.Namespace, settings: CommandLineSettings) -> None:
    """Set each option that is None, and extend the lists.

    A model, its provider and its address belong together. A continued conversation, a durable run and
    `$TOOLWIRE_MODEL` win over them.
    """
    values: dict[str, Any] = msgspec.structs.asdict(settings)
    is_continued = options.continue_id is not None or getattr(options, "durable", None)
    is_target_free = not (is_continued or os.environ.get(_MODEL)) and all(
        getattr(options, name) is None for name in _TARGET
    )
    for name, value in values.items():
        if name in _LISTS:
            setattr(options, name, [*dict.fromkeys([*(getattr(options, name) or ()), *value])])
        elif value != "" and getattr(options, name) is None and (name not in _TARGET or is_target_free):
            setattr(options, name, value)


def _is_user_file(path: Path) -> bool:
    with contextlib.suppress(OSError, UserError):
        return path.samefile(config_folder() / FILE)
    return False


def _read(path: Path) -> bytes | None:
    """Return the content of a settings file; None if there is none. Raise UserError if it is not a file."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UserError("is not a file", path=str(path))
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise UserError(f"has more than {_MAX_BYTES:,} bytes", path=str(path))
    return data


def _is_confirmed(settings: CommandLineSettings, path: Path, screen: Screen) -> bool:
    """Return True if the user has confirmed these settings of a project, or does now."""
    wanted = settings.settings_to_confirm()
    if not wanted:
        return True
    lines = [f"  {name} = {json.dumps(value, ensure_ascii=False)}" for name, value in wanted.items()]
    record = _record_of(path, wanted)
    if record is not None and record.exists():
        return True
    asking = screen if screen.terminal and not screen.quiet else Screen(sys.stderr)
    if not (asking.terminal and is_terminal(sys.stdin)):
        asking.line(f"[{path}: not used, because nobody confirmed it: {', '.join(wanted)}]", "note")
        return False
    asking.line(f"The project's {FILE} sets:", "question")
    for line in lines:
        asking.line(safe(line), "words")
    asking.write("Use these settings here, now and later? [y/N] ", "question")
    confirmed = sys.stdin.readline().strip().lower() in ("y", "yes")
    asking.line_entered()
    if confirmed and record is not None:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record.write_text("\n".join([str(path.resolve()), *lines, ""]), encoding="utf-8")
    return confirmed


def _record_of(path: Path, wanted: dict[str, Any]) -> Path | None:
    """Return the file that records the confirmation of these settings; None if the home folder is unknown."""
    with contextlib.suppress(UserError):
        folder = os.fsencode(os.path.realpath(path.parent))
        digest = hashlib.sha256(folder + b"\0" + msgspec.json.encode(wanted, order="sorted")).hexdigest()
        return state_folder("nothing") / "confirmed" / digest[:32]
    return None


def mcp_resolvers(names: Iterable[str], servers: Mapping[str, McpSettings]) -> list[Any]:
    """Return a resolver for each of the MCP servers `names`, of the user's `servers`. None of them is started yet.

    Raise UserError if there is no such server, or if a variable that it names is not set.
    """
    from toolwire import mcp  # noqa: PLC0415 - an extra

    resolvers = []
    for name in names:
        server = servers.get(name)
        if server is None:
            where = f"add [mcp.{name}] to {_user_file_name()}{did_you_mean(name, servers)}{_note_on_project(name)}"
            raise UserError(f"there is no MCP server {name!r}: {where}", path="--mcp")
        terms = {} if server.timeout is None else {"timeout": server.timeout}
        if server.url:
            resolvers.append(mcp.http(server.url, headers=_with_variables(server.headers, name), **terms))
        else:
            env = _with_variables(server.env, name)
            command = str(Path(server.command).expanduser()) if server.command[:1] == "~" else server.command
            resolvers.append(mcp.stdio(command, server.args, env=env, cwd=server.cwd or None, **terms))
    return resolvers


def _note_on_project(name: str) -> str:
    """Return the end of a message if the file of the current folder has a server of this name."""
    with contextlib.suppress(OSError, UserError, ValueError):  # a TOMLDecodeError is a ValueError
        servers = tomllib.loads((_read(Path(FILE)) or b"").decode("utf-8-sig")).get("mcp")
        if isinstance(servers, dict) and name in servers:
            return f"; that of the {FILE} in this folder is not used, because a project must not start programs"
    return ""


def _user_file_name() -> str:
    try:
        return str(config_folder() / FILE)
    except UserError:
        return FILE


def _with_variables(values: Mapping[str, str], name: str) -> dict[str, str]:
    """Return `values` with the value of each `$VARIABLE`. Raise UserError if one is not set."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise UserError(f"names ${match[1]}, and there is no such variable", path=f"mcp.{name}")
        return os.environ[match[1]]

    return {key: _VARIABLE.sub(value_of, value) for key, value in values.items()}
