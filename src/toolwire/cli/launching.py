"""`toolwire launch`: a client program, with any model, by a gateway that lives as long as the program.

Rules of this file:
- What is missing is said before anything starts, with the command or the variable that mends it.
- Signals are the program's: they are handed on, and the gateway ends after it. Its exit status is ours.
- The gateway accepts only the key that is made here for the program: other users of the machine reach its port as well.
"""

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from toolwire.cli.keeping import state_folder
from toolwire.cli.parsing import wanting
from toolwire.cli.programs import PROGRAMS, Entrance, Program, Told
from toolwire.encoding.families import family_of
from toolwire.errors import UserError
from toolwire.providers import catalogue, named

_OTHERS_WRITE = 0o022
_SIMULATED = "openai/simulated"
_HANDED_ON = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_FROM_KEYS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name))


def add(commands: Any) -> None:
    """Add the command of this file."""
    command = commands.add_parser("launch", help="start a coding agent or another client program with any model")
    _add_options(command)
    command.add_argument("program", choices=PROGRAMS, metavar="PROGRAM", help=", ".join(PROGRAMS))
    words = command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGS", help="what it is told")
    words.required = False
    command.set_defaults(run=run)


def _add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", metavar="M", default="", help="PROVIDER/MODEL, or a route of the settings")
    command.add_argument("--config", metavar="FILE", help="a file of settings (default: none)")
    command.add_argument("--simulate", action="store_true", help="answer with a simulated model; needs no key")


def _read(options: argparse.Namespace) -> list[str]:
    """Take our options that stand behind the program; give what it is told: the rest, and all behind the mark."""
    words, own = options.arguments, argparse.ArgumentParser("toolwire launch", add_help=False, allow_abbrev=False)
    _add_options(own)
    mark = words.index("--") if "--" in words else len(words)
    _, rest = own.parse_known_args(words[:mark], options)
    return [*rest, *words[mark + 1 :]]


def run(options: argparse.Namespace) -> int:
    """Run a program until it ends; its exit status is given."""
    with wanting("serve", "to start the gateway"):
        from toolwire.gateway import serving, starting  # noqa: PLC0415 - an extra
        from toolwire.gateway.routes import Routes  # noqa: PLC0415 - likewise
    program, words = PROGRAMS[options.program], _read(options)
    command = shutil.which(program.command)
    if command is None:
        raise UserError(f"{program.command} is not installed here; this installs it: {program.install}")
    settings = starting.settings_from(options.config)
    settings = replace(settings, server=replace(settings.server, auth="none"))
    model = options.model or (_SIMULATED if options.simulate and not program.provider else "")
    with contextlib.ExitStack() as stack:
        if options.simulate:
            routes = Routes(settings, stack.enter_context(starting.simulated()), model or "openai")
        else:
            providers = starting.routes_of(settings, options.config).providers
            routes = Routes(settings, providers, model or program.provider)
        if model or not options.simulate:
            _check_model(program, routes, model)
        gateway = starting.gateway_of(routes, settings, options.config)
        gateway.log, gateway.program_key = None, f"sk-toolwire-{secrets.token_hex(16)}"
        url = stack.enter_context(serving.serve_in_thread(gateway))
        folder = stack.enter_context(_folder())
        told = program.told(_of_model(Entrance(url, gateway.program_key, folder), program, routes, model))
        for name, text in told.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        return _run([command, *told.arguments, *words], _environment(program, told))


def _folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that is thrown away, best where nobody else can write: gemini-cli takes settings from no other."""
    usual = state_folder("XDG_STATE_HOME=FOLDER")
    with contextlib.suppress(OSError):  # a home may be read only
        usual.mkdir(mode=0o700, parents=True, exist_ok=True)
    places = (usual, Path(os.environ.get("XDG_RUNTIME_DIR") or "/run"), Path("/run"))
    other = usual if os.access(usual, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="launch-", dir=next(filter(_is_ours_alone, places), other))


def _is_ours_alone(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and not any(
        place.stat().st_mode & _OTHERS_WRITE for place in (folder, *folder.parents)
    )


def _check_model(program: Program, routes: Any, model: str) -> None:
    """Refuse a model that leads nowhere, and say which variable is missing."""
    if not model and not program.provider:
        raise UserError(f"{program.command} must be told which model to ask: --model PROVIDER/MODEL")
    name = model.partition("/")[0] if model else program.provider
    if name in routes.providers or (model and routes.knows(model)):
        return
    preset = named(name)
    if preset is None:
        raise UserError(f"--model {model}: there is no provider {name!r}, and no route of that name")
    wanted = f"--model {model}" if model else f"{program.command} with its own models"
    other = "" if model else "; or name another model: --model PROVIDER/MODEL"
    raise UserError(f"{wanted} needs a key of {name}: export {preset.env[0]}=...{other}")


def _of_model(entrance: Entrance, program: Program, routes: Any, model: str) -> Entrance:
    """Return `entrance` with the model that the program asks for, and what is known of it.

    A model of the program's own wire is called as its vendor calls it: the program may know it, and Claude Code leaves
    out thinking that a model of another name has answered with (2.1.197, 2026-11-22).
    """
    way = routes.find(model) if model else None
    candidate = way.candidates[0] if way is not None else None
    own = named(program.provider) if program.provider else None
    if candidate is None:
        return replace(entrance, model=model)
    if own is not None and own.dialect == candidate.provider.dialect:
        plain = routes.find(candidate.model)
        model = candidate.model if plain is not None and plain.candidates[0] == candidate else model
    known = catalogue.model(candidate.model)
    return replace(
        entrance,
        model=model,
        dialect=candidate.provider.dialect,
        window=known.context_window if known is not None else None,
        output=known.max_output if known is not None else None,
        thinks=_thinks(candidate.model, candidate.provider.dialect),
    )


def _thinks(model: str, dialect: str) -> bool:
    """Whether a model may be asked to think by a program that does not know it."""
    family = family_of(model)
    return bool(family.reasons) or (dialect in ("anthropic", "gemini") and family.thinking_budget is not False)


def _environment(program: Program, told: Told, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if name not in program.removed}
    return {**kept, **told.variables}


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run the program in our place on the terminal, and hand on what signals say."""
    with _handing_on() as begin, begin(command, environment) as process:
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _handing_on() -> Iterator[Callable[[list[str], dict[str, str]], "subprocess.Popen[bytes]"]]:
    """Hand signals on to what is begun, also early ones; what is typed on a terminal reaches it by itself."""
    came: list[int] = []
    running: list[subprocess.Popen[bytes]] = []

    def hand_on(kind: int, _frame: Any) -> None:
        if kind in _HANDED_ON or not _at_terminal():
            came.append(kind)
            deliver()

    def deliver() -> None:
        while running and came:
            running[0].send_signal(came.pop(0))

    def begin(command: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        running.append(subprocess.Popen(command, env=environment))  # noqa: S603 - the user has named it
        deliver()
        return running[0]

    before = {kind: signal.signal(kind, hand_on) for kind in (*_HANDED_ON, *_FROM_KEYS)}
    try:
        yield begin
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _at_terminal() -> bool:
    """Whether keys on the terminal signal our whole group, and so the program as well."""
    try:
        return os.tcgetpgrp(sys.__stdin__.fileno()) == os.getpgrp()  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError):
        return False
