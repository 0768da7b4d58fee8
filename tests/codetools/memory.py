"""Call a file tool on a large file, and say how far the peak of memory rose: `memory.py FOLDER TOOL`."""

import json
import resource
import sys
from pathlib import Path

from toolwire.codetools.definitions import FILE_BYTES
from toolwire.codetools.editing import append_to_file, edit_file, write_file
from toolwire.codetools.files import Desk
from toolwire.codetools.paths import Workspace
from toolwire.codetools.reading import read_file
from toolwire.errors import ToolError


def peak() -> int:
    """Give the peak of memory so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def call(desk: Desk, tool: str) -> list[str]:
    """Call a tool on the file `f`."""
    if tool == "write_file":
        return [write_file(desk, path="f", content="y" * FILE_BYTES)]
    if tool == "edit_file":
        return [edit_file(desk, path="f", oldText="<here>", newText="<there>")]
    if tool == "append_to_file":
        return [append_to_file(desk, path="f", content="more")]
    try:
        return [str(read_file(desk, path="f"))[-200:], str(read_file(desk, path="f", offset=2))]
    except ToolError as problem:
        return [str(problem)]


def main(folder: str, tool: str) -> None:
    """Warm up on a small file, then work on the large one."""
    small = Path(folder, "small")
    small.write_text("x" * 49 * 1024 + "\ny\n" * 1000)
    desk = Desk(Workspace(folder), {})
    read_file(desk, path="small")
    edit_file(desk, path="small", oldText="x\n", newText="z\n")
    before = peak()
    said = call(desk, tool)
    sys.stdout.write(json.dumps({"said": said, "grew": peak() - before}) + "\n")


main(sys.argv[1], sys.argv[2])
