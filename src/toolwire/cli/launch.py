"""`toolwire launch`: start a client program with any model, through a gateway that lives as long as the program.

Rules of this file:
- A missing program, key or local server is reported before anything starts, with the command or the variable that
  provides it.
- Signals are forwarded to the program, and the gateway stops after it. The exit status is the program's.
- The gateway accepts only a key that is generated for the program, because other users of the machine can reach its
  port.
"""

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from toolwire.cli.chosen_model import no_server
from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import require_extra
from toolwire.cli.programs import PROGRAMS, Endpoint, LaunchSetup, Program
from toolwire.cli.state_paths import state_folder, with_records_file
from toolwire.cli.stored_keys import use_stored_keys
from toolwire.encoding.families import family_of
from toolwire.errors import UserError
from toolwire.providers import catalogue, named
from toolwire.providers.known import own_name, target_of
from toolwire.wire.transport import DEFAULT_PORTS

_OTHERS_WRITE = 0o022
_SIMULATED = "openai/simulated"
_CONNECT_SECONDS = 3.0
_FORWARDED = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_KEYBOARD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name))


def add(commands: Any) -> None:
    """Add the command `launch`."""
    command = commands.add_parser("launch", help=SUMMARIES["launch"])
    _add_options(command)
    command.add_argument("program", choices=PROGRAMS, metavar="PROGRAM", help=", ".join(PROGRAMS))
    remainder = command.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="-- ARGS", help="the program's arguments"
    )
    remainder.required = False
    command.set_defaults(run=run)


def _add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", metavar="M", default="", help="PROVIDER/MODEL, or a route of the settings")
    command.add_argument("--config", metavar="FILE", help="a file of settings (default: none)")
    command.add_argument("--simulate", action="store_true", help="answer with a simulated model; needs no key")


def _read(options: argparse.Namespace) -> list[str]:
    """Parse toolwire's own options that follow the program's name; return the arguments for the program.

    Arguments after `--` all go to the program.
    """
    arguments = options.arguments
    parser = argparse.ArgumentParser("toolwire launch", add_help=False, allow_abbrev=False)
    _add_options(parser)
    mark = arguments.index("--") if "--" in arguments else len(arguments)
    _, unparsed = parser.parse_known_args(arguments[:mark], options)
    return [*unparsed, *arguments[mark + 1 :]]


def run(options: argparse.Namespace) -> int:
    """Run the program until it ends and return its exit status."""
    with require_extra("serve", "to start the gateway"):
        from toolwire.gateway import serving, starting  # noqa: PLC0415 - an extra
        from toolwire.gateway.routes import Routes  # noqa: PLC0415 - likewise
    program, arguments = PROGRAMS[options.program], _read(options)
    command = shutil.which(program.command)
    if command is None:
        raise UserError(f"{program.command} is not installed; install it with: {program.install}")
    use_stored_keys()
    settings = with_records_file(starting.settings_from(options.config))
    settings = replace(settings, server=replace(settings.server, auth="none"))
    simulated = _SIMULATED if options.simulate and not program.provider else ""
    model = _with_provider(options.model, settings.routes) or simulated
    with contextlib.ExitStack() as stack:
        if options.simulate:
            routes = Routes(settings, stack.enter_context(starting.simulated()), model or "openai")
        else:
            providers = starting.routes_of(settings, options.config).providers
            routes = Routes(settings, providers, model or program.provider)
        if model or not options.simulate:
            _check_model(program, routes, model)
            _check_server(routes, model)
        gateway = starting.gateway_of(routes, settings, options.config)
        gateway.log, gateway.program_key = None, f"sk-toolwire-{secrets.token_hex(16)}"
        url = stack.enter_context(serving.serve_in_thread(gateway))
        folder = stack.enter_context(_folder())
        setup = program.configure(_describe_model(Endpoint(url, gateway.program_key, folder), program, routes, model))
        for name, text in setup.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        return _run([command, *setup.arguments, *arguments], _environment(program, setup))


def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder below folders that only this user can write, if there are any.

    gemini-cli accepts settings from no other folder.
    """
    state = state_folder("XDG_STATE_HOME=FOLDER")
    with contextlib.suppress(OSError):  # the home folder may be read-only
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    folders = (state, Path(os.environ.get("XDG_RUNTIME_DIR") or "/run"), Path("/run"))
    other = state if os.access(state, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="launch-", dir=next(filter(_is_ours_alone, folders), other))


def _is_ours_alone(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and not any(
        one.stat().st_mode & _OTHERS_WRITE for one in (folder, *folder.parents)
    )


def _with_provider(model: str, routes: Any) -> str:
    """Return `model` as PROVIDER/MODEL if it names a known provider or a known model in another spelling."""
    target = None if model in routes else target_of(model)
    preset = named(target[0]) if target is not None else None
    return model if target is None or preset is None else f"{preset.name}/{own_name(preset.name, target[1])}"


def _check_model(program: Program, routes: Any, model: str) -> None:
    """Raise UserError if no provider serves `model`; name the missing variable if a key would help."""
    if not model and not program.provider:
        raise UserError(f"{program.command} needs a model: pass --model PROVIDER/MODEL")
    name = model.partition("/")[0] if model else program.provider
    if name in routes.providers or (model and routes.knows(model)):
        return
    preset = named(name)
    if preset is None:
        raise UserError(f"--model {model}: there is no provider {name!r}, and no route of that name")
    request = f"--model {model}" if model else f"{program.command} with its own models"
    other = "" if model else "; or name another model: --model PROVIDER/MODEL"
    raise UserError(f"{request} needs a key of {name}: export {preset.env[0]}=..., or toolwire auth set {name}{other}")


def _check_server(routes: Any, model: str) -> None:
    """Raise UserError if the only provider of `model` is a local server, and nothing listens at its address.

    A program such as Claude Code retries for minutes, and prints nothing meanwhile.
    """
    route = routes.find(model) if model else None
    if route is None or len(route.candidates) != 1 or not route.candidates[0].provider.local:
        return
    provider = route.candidates[0].provider
    url = urlsplit(provider.base_url)
    try:
        socket.create_connection((url.hostname, url.port or DEFAULT_PORTS[url.scheme]), _CONNECT_SECONDS).close()
    except OSError:
        setting = provider.base_url_env or "base_url of [providers] in --config FILE"
        raise UserError(no_server(provider, f"set {setting} to its address")) from None


def _describe_model(endpoint: Endpoint, program: Program, routes: Any, model: str) -> Endpoint:
    """Return `entrance` with the model that the program asks for, and what is known of it.

    A model of the program's own wire keeps its vendor's name: the program may know it, and Claude Code leaves out
    thinking that a model of another name has answered with (2.1.197, 2026-11-22).
    """
    route = routes.find(model) if model else None
    candidate = route.candidates[0] if route is not None else None
    native = named(program.provider) if program.provider else None
    if candidate is None:
        return replace(endpoint, model=model)
    if native is not None and native.dialect == candidate.provider.dialect:
        unqualified = routes.find(candidate.model)
        model = candidate.model if unqualified is not None and unqualified.candidates[0] == candidate else model
    known = catalogue.model(candidate.model)
    return replace(
        endpoint,
        model=model,
        dialect=candidate.provider.dialect,
        window=known.context_window if known is not None else None,
        output=known.max_output if known is not None else None,
        thinks=_thinks(candidate.model, candidate.provider.dialect),
    )


def _thinks(model: str, dialect: str) -> bool:
    """Return True if a program may ask `model` for thinking, even if the program does not know the model."""
    family = family_of(model)
    return bool(family.reasons) or (dialect in ("anthropic", "gemini") and family.thinking_budget is not False)


def _environment(program: Program, setup: LaunchSetup, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    inherited = {name: value for name, value in environ.items() if name not in program.removed}
    return {**inherited, **setup.variables}


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run the program in the foreground with signals forwarded; return its exit status as a shell reports it."""
    with _forward_signals() as start, start(command, environment) as process:
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _forward_signals() -> Iterator[Callable[[list[str], dict[str, str]], "subprocess.Popen[bytes]"]]:
    """Forward signals to the process that is started here, also those that arrive before it runs.

    Keys on a terminal signal the process directly.
    """
    pending: list[int] = []
    running: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _frame: Any) -> None:
        if number in _FORWARDED or not _at_terminal():
            pending.append(number)
            deliver()

    def deliver() -> None:
        while running and pending:
            running[0].send_signal(pending.pop(0))

    def start(command: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        running.append(subprocess.Popen(command, env=environment))  # noqa: S603 - the user has named it
        deliver()
        return running[0]

    before = {number: signal.signal(number, forward) for number in (*_FORWARDED, *_KEYBOARD)}
    try:
        yield start
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_terminal() -> bool:
    """Return True if keys on the terminal signal our whole process group, and so the program as well."""
    try:
        return os.tcgetpgrp(sys.__stdin__.fileno()) == os.getpgrp()  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError):
        return False
