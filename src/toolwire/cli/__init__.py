"""The command line.

Exit codes: 0 done; 1 a strict translation would lose something, a tool failed, or something does not hold;
2 the input or the arguments cannot be used.
"""

import argparse
import sys
from collections.abc import Sequence

from toolwire.cli import simulating, tools, translation
from toolwire.errors import ToolwireError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (ToolwireError, OSError) as problem:
        print(f"toolwire: {problem}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolwire", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for part in (translation, tools, simulating):
        part.add(commands)
    return parser
