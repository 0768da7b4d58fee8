"""The command line.

Rules of this file:
- Ctrl-C ends a command with 130 at any moment, also while its modules are loaded: so they are loaded inside of `main`.
- What a reader of standard output no longer wants is no error to tell about. An output that is closed is nobody's,
  an input that is closed is empty. What the encoding of an output has not is written as JSON writes it, so that JSON
  stays JSON.
"""

import codecs
import io
import os
import sys
from collections.abc import Sequence
from typing import Literal, TextIO

_ERROR, _USAGE, _INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return _ERROR


def _run(arguments: Sequence[str]) -> int:
    from toolwire.cli.parsing import parse  # noqa: PLC0415 - see the rules
    from toolwire.errors import ToolwireError  # noqa: PLC0415 - the same
    from toolwire.waiting.results import safe  # noqa: PLC0415 - the same

    sys.stdout, sys.stderr = (stream or _nobody("w") for stream in (sys.stdout, sys.stderr))
    sys.stdin = sys.stdin or _nobody("r")
    codecs.register_error("toolwire", _in_ascii)
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="toolwire")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # as arguments are read
    options = parse(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise
    except (ToolwireError, OSError, UnicodeEncodeError) as problem:
        print(f"toolwire: {safe(_told(problem))}", file=sys.stderr)
        return _USAGE


def _told(problem: Exception) -> str:
    """Say what went wrong, and with which file."""
    if isinstance(problem, OSError) and problem.strerror and problem.filename is not None:
        return f"{problem.filename}: {problem.strerror}"
    if isinstance(problem, UnicodeEncodeError):
        return f"an argument is not UTF-8: {problem.object!a}"
    return str(problem)


def _nobody(mode: Literal["r", "w"]) -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123 - it is open for as long as the program runs


def _in_ascii(problem: UnicodeError) -> tuple[str, int]:
    """Give what an encoding cannot say as JSON spells it."""
    from json import dumps  # noqa: PLC0415 - see the rules

    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return dumps(problem.object[problem.start : problem.end])[1:-1], problem.end
