"""`toolwire config`: show or check a gateway's settings, or import those of LiteLLM.

Rule: no key is printed. The settings refer to keys by variable or file, and only those names are printed.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import require_extra
from toolwire.errors import InvalidBody


def add(commands: Any) -> None:
    """Add the command `config`."""
    command = commands.add_parser("config", help=SUMMARIES["config"])
    actions = command.add_subparsers(metavar="ACTION")
    for name, run, text in (
        ("show", _show, "print the settings as JSON, with all defaults"),
        ("check", _check, "check that the settings are valid"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("file", metavar="FILE", nargs="?", help="the file of settings")
        action.add_argument("--config", metavar="FILE", help="the same")
        action.set_defaults(run=run)
    importing = actions.add_parser("import", help="convert LiteLLM's settings, and list what was not imported")
    importing.add_argument("file", metavar="litellm.yaml", help="the settings of LiteLLM's proxy")
    importing.set_defaults(run=_import)


def _show(options: argparse.Namespace) -> int:
    from toolwire.config import read_settings  # noqa: PLC0415 - of this command alone

    path = options.file or options.config
    settings = read_settings(Path(path).read_bytes() if path else "", path or "no file")
    print(msgspec.json.format(msgspec.json.encode(settings), indent=2).decode())
    return 0


def _check(options: argparse.Namespace) -> int:
    with require_extra("serve", "to check the settings"):
        from toolwire.gateway import starting  # noqa: PLC0415 - an extra
    path = options.file or options.config
    settings = starting.settings_from(path)
    starting.check_listening(settings, settings.server.listen)
    starting.upstream_of(settings, path)
    starting.check_databases(settings, path)
    routes = starting.routes_of(settings, path)
    print(f"{path or 'no file'}: {len(routes.providers)} providers, {len(settings.routes)} routes")
    return 0


def _import(options: argparse.Namespace) -> int:
    with require_extra("tools", "to read YAML", "PyYAML"):
        import yaml  # noqa: PLC0415 - an extra
    from toolwire.config.litellm import read_litellm  # noqa: PLC0415 - of this command alone
    from toolwire.config.toml import toml_of  # noqa: PLC0415 - likewise

    try:
        tables = yaml.safe_load(Path(options.file).read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as problem:
        raise InvalidBody(f"is not YAML: {problem}", path=options.file) from None
    if type(tables) is not dict:
        raise InvalidBody("is no map of settings, such as model_list", path=options.file)
    settings, not_imported = read_litellm(tables)
    print(toml_of(settings), end="")
    for line in (" ".join(text.split()) for text in not_imported):  # a name in the file may have a line break
        print(f"# not taken over: {line}")
        print(f"not taken over: {line}", file=sys.stderr)
    return 0
