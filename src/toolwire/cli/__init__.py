"""The command line.

Rules of this file:
- Ctrl-C ends a command with 130 at any moment, also during its imports. That is why `main` imports them.
- A closed pipe is not reported as an error. A closed output is replaced by the null device, a closed input by an empty
  one. Characters that the output's encoding lacks are written as JSON escapes, so that JSON stays valid.
"""

import codecs
import io
import os
import sys
from collections.abc import Sequence
from typing import Literal, TextIO

_ERROR, _USAGE, _INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return _ERROR


def _run(arguments: Sequence[str]) -> int:
    from toolwire.cli.parsing import parse  # noqa: PLC0415 - see the rules
    from toolwire.errors import ToolwireError  # noqa: PLC0415 - the same

    sys.stdout, sys.stderr = (stream or _null_stream("w") for stream in (sys.stdout, sys.stderr))
    sys.stdin = sys.stdin or _null_stream("r")
    codecs.register_error("toolwire", _escape_as_json)
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="toolwire")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # the same as Python does for arguments
    options = parse(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise
    except (ToolwireError, OSError, UnicodeEncodeError) as problem:
        from toolwire.cli.screen import Screen  # noqa: PLC0415 - only errors need it

        Screen(sys.stderr).line(f"toolwire: {_describe_problem(problem)}", "error")
        return _USAGE


def _describe_problem(problem: Exception) -> str:
    """Return the message for `problem`, with the name of the file if there is one."""
    if isinstance(problem, OSError) and problem.strerror and problem.filename is not None:
        return f"{problem.filename}: {problem.strerror}"
    if isinstance(problem, UnicodeEncodeError):
        return f"an argument is not UTF-8: {problem.object!a}"
    return str(problem)


def _null_stream(mode: Literal["r", "w"]) -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123 - open until the program ends


def _escape_as_json(problem: UnicodeError) -> tuple[str, int]:
    """Return the characters that the output's encoding lacks as JSON escapes."""
    from json import dumps  # noqa: PLC0415 - see the rules

    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return dumps(problem.object[problem.start : problem.end])[1:-1], problem.end
