"""`toolwire tools`, `toolwire call`, `toolwire doctor`: the code tools without a model.

Rule: a tool's result goes to standard output unchanged; its error goes to standard error.
"""

import argparse
import sys
from collections.abc import Collection
from typing import Any

import msgspec

from toolwire.cli.commands import SUMMARIES
from toolwire.dialects import ALIASES, NAMES
from toolwire.errors import InvalidBody, UserError
from toolwire.types import Tool, ToolCall
from toolwire.wire.bodies import read_body

_SANDBOXES = ("auto", "bubblewrap", "none")


def add(commands: Any) -> None:
    """Add the commands `tools`, `call` and `doctor`."""
    command = commands.add_parser("tools", help=SUMMARIES["tools"])
    command.add_argument("--dialect", choices=[*NAMES, *ALIASES], help="print the declarations in this dialect")
    command.set_defaults(run=_tools)
    command = commands.add_parser("call", help=SUMMARIES["call"])
    command.add_argument("tool", help="the name of the tool")
    command.add_argument("arguments", nargs="?", default="{}", help="a JSON object; - reads standard input")
    add_options(command)
    command.add_argument("--json", action="store_true", help="print the whole result as JSON")
    command.set_defaults(run=_call)
    command = commands.add_parser("doctor", help=SUMMARIES["doctor"])
    add_options(command)
    command.set_defaults(run=_doctor)


def add_options(command: argparse.ArgumentParser, cwd: str | None = ".") -> None:
    """Add the options of the code tools."""
    command.add_argument("--cwd", default=cwd, help="the project folder (default: this one)")
    command.add_argument("--sandbox", choices=_SANDBOXES, default="auto", help="how bash is confined (default: auto)")
    command.add_argument("--network", action="store_true", help="let commands of bash use the network")


def code_tools(options: argparse.Namespace, names: Collection[str] | None = None, **settings: Any) -> Any:
    """Return the code tools with the settings of `options`: all tools, or only the `wanted` ones."""
    from toolwire.codetools import CodeTools  # noqa: PLC0415 - other commands need no tools

    return CodeTools(options.cwd, tools=names, sandbox=options.sandbox, network=options.network, **settings)


def summary_of(tool: Tool) -> str:
    """Return the first sentence of a tool's description."""
    return f"{str(tool.description).partition('. ')[0].rstrip('.')}."


def _tools(options: argparse.Namespace) -> int:
    from toolwire.codetools.definitions import TOOLS  # noqa: PLC0415 - other commands need no tools

    if options.dialect is None:
        width = max(len(tool.name) for tool in TOOLS)
        for tool in TOOLS:
            print(f"{tool.name:<{width}}  {summary_of(tool)}")
        return 0
    from toolwire import codec  # noqa: PLC0415 - only where it is wanted

    declared = codec.encode_definitions(list(TOOLS), options.dialect)
    print(msgspec.json.format(msgspec.json.encode(declared)).decode())
    return 0


def _call(options: argparse.Namespace) -> int:
    from toolwire.cli.display import result_text  # noqa: PLC0415 - other commands show no result
    from toolwire.resolvers.execution import execute  # noqa: PLC0415 - other commands run nothing

    text = sys.stdin.read().removeprefix("\ufeff") if options.arguments == "-" else options.arguments
    arguments = _arguments(text, options.tool)
    [result] = execute([ToolCall("call_1", options.tool, arguments)], code_tools(options))
    if options.json:
        print(msgspec.json.encode(result).decode())
    else:
        print(result_text(result), file=sys.stderr if result.is_error else sys.stdout)
    return int(result.is_error)


def _arguments(text: str, tool: str) -> dict[str, Any]:
    """Parse the arguments of a call. Raise UserError with an example if they are not a JSON object."""
    from toolwire.codetools.definitions import TOOLS  # noqa: PLC0415 - other commands need no tools

    schemas = {one.name: one.parameters or {} for one in TOOLS}
    required = schemas.get(tool, {}).get("required", ["path"])
    example = ", ".join(f'"{name}": "..."' for name in required)
    try:
        arguments = read_body(text.encode(errors="surrogateescape"))
    except InvalidBody as problem:
        raise UserError(f"{problem}; pass them as in toolwire call {tool} '{{{example}}}'", path="call") from None
    if type(arguments) is not dict:
        raise UserError(f"the arguments must be a JSON object: '{{{example}}}'", path="call")
    return arguments


def _doctor(options: argparse.Namespace) -> int:
    from toolwire.codetools.doctor import probe  # noqa: PLC0415 - other commands need no tools

    kit = code_tools(options)
    findings = probe(kit.workspace, kit.desk.options)
    for finding in findings:
        print(f"{'ok  ' if finding.passed else 'NO  '} {finding.name}: {finding.description}")
    broken = sum(not finding.passed for finding in findings)
    print(f"FAILED: {broken} of {len(findings)} checks" if broken else f"all {len(findings)} checks passed")
    return int(broken > 0)
