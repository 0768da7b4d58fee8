"""The command line.

Exit codes: 0 done; 1 a strict translation would lose something, a tool failed, something does not hold, or a
run ended without an answer; 2 the input or the arguments cannot be used; 130 interrupted.
"""

import argparse
import sys
from collections.abc import Sequence

from toolwire.cli import agents, auditing, serving, simulating, text, tools, translation
from toolwire.errors import ToolwireError
from toolwire.work.results import safe

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return 1
    except (ToolwireError, OSError) as problem:
        print(f"toolwire: {safe(str(problem))}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolwire", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for part in (agents, translation, tools, text, simulating, serving, auditing):
        part.add(commands)
    return parser
