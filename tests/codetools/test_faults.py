"""Each system call of a change fails once; nothing is half done, no failure is called a success."""

import errno
import os
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import Project
from toolwire.codetools import replacing

CALLS = (
    *("open", "write", "fsync", "link", "rename", "fchmod", "fchown", "unlink", "pread", "fstat", "readlink"),
    *("stat", "mkdir", "access", "scandir", "listxattr", "getxattr", "setxattr"),
)
NEEDED = {"write", "fsync", "rename", "fchmod", "mkdir", "access"}
OTHERS = (errno.EIO, errno.EDQUOT, errno.EPERM, errno.EROFS, errno.EACCES, errno.ENOMEM, errno.EMFILE)
NEW = "new"
OLD = "old one\n"


@pytest.fixture(params=["as the system can", pytest.param("named", marks=pytest.mark.slow)])
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Project:
    if request.param == "named":
        monkeypatch.setitem(replacing._capabilities, "unnamed", value=False)
    made = Project(tmp_path)
    made.file("f", OLD)
    made.file("g", OLD)
    return made


class Faults:
    """Let the n-th call of the system that changes or reads files fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self.failing = 0
        self.count = 0
        self.failed = ""
        for name in CALLS:
            if hasattr(os, name):
                monkeypatch.setattr(os, name, self._counted(name, getattr(os, name), number))

    def _counted(self, name: str, real: Callable[..., Any], number: int) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            if self.failing:
                self.count += 1
                if self.count == self.failing:
                    self.failed = name
                    raise OSError(number, os.strerror(number))
            return real(*given, **more)

        return call


ARGUMENTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "write_file": ({"path": "f", "content": NEW}, {"f": NEW}),
    "write_file new": ({"path": "d/e/new", "content": NEW}, {"d/e/new": NEW}),
    "append_to_file": ({"path": "f", "content": NEW}, {"f": OLD + NEW}),
    "edit_file": ({"path": "f", "oldText": "old", "newText": NEW}, {"f": "new one\n"}),
    "multi_edit": (
        {"edits": [{"path": path, "oldText": "old", "newText": NEW} for path in "fg"]},
        {"f": "new one\n", "g": "new one\n"},
    ),
}


def contents(project: Project) -> dict[str, str]:
    return {str(path.relative_to(project.root)): path.read_text() for path in project.root.rglob("*") if path.is_file()}


def rounds(project: Project, tool: str, faults: Faults) -> Iterator[tuple[str, bool]]:
    """Call the tool with the first system call failing, the second, and so on until none is left."""
    for failing in range(1, 400):
        project.file("f", OLD)
        project.file("g", OLD)
        shutil.rmtree(project.root / "d", ignore_errors=True)
        project.restart()
        faults.failing, faults.count, faults.failed = failing, 0, ""
        said, failed = project.call(tool.partition(" ")[0], **ARGUMENTS[tool][0])
        faults.failing = 0
        if not faults.failed:
            assert not failed, said
            return
        yield str(said), failed
    pytest.fail("there is no end of system calls")


@pytest.mark.parametrize("number", [errno.ENOSPC, *(pytest.param(one, marks=pytest.mark.slow) for one in OTHERS)])
@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(tool, marks=() if tool in {"write_file new", "multi_edit"} else pytest.mark.slow)
        for tool in ARGUMENTS
    ],
)
@pytest.mark.row("B19")
def test_each_system_call_may_fail(project: Project, monkeypatch: pytest.MonkeyPatch, tool: str, number: int) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    faults = Faults(monkeypatch, number)
    old = {"f": OLD, "g": OLD}
    new = old | ARGUMENTS[tool][1]
    count = 0
    for said, failed in rounds(project, tool, faults):
        count += 1
        now = contents(project)
        names = {name for name in now if ".toolwire-" in name}
        what = (faults.failed, faults.count, said)
        if faults.failed != "unlink":
            assert not names, what
        project.restart()  # what could not be taken away at once is, later
        assert not [name for name in contents(project) if "journal" in name or "staged" in name], what
        now = {name: text for name, text in now.items() if name not in names}
        if failed:
            assert "Tool execution failed" not in said
            assert str(project.root) not in said
            assert now == old or ("read it again" in said and now == new), what
        else:
            assert now == new, what
            assert faults.failed not in NEEDED, what
        for name in names:
            (project.root / name).unlink(missing_ok=True)
    assert count > 10


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.row("B19")
def test_no_success_is_said_when_the_disk_does_not_confirm(
    project: Project, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    project.refused(tool.partition(" ")[0], **ARGUMENTS[tool][0])
    assert contents(project) == {"f": OLD, "g": OLD}


LIMITED = """
import resource, sys
from toolwire import CodeTools, ToolCall
tools = CodeTools(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for name, arguments in [
    ("write_file", {"path": "f", "content": "x" * 200_000}),
    ("append_to_file", {"path": "f", "content": "x" * 200_000}),
    ("edit_file", {"path": "f", "oldText": "old", "newText": "x" * 200_000}),
    ("multi_edit", {"edits": [{"path": p, "oldText": "old", "newText": "x" * 200_000} for p in "gf"]}),
]:
    result = tools.resolve(ToolCall("1", name, arguments))
    assert result.is_error and "too large" in result.content, result
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a file's size is told by EFBIG on Linux")
@pytest.mark.row("B19")
def test_a_limit_of_the_system_leaves_the_files_as_they_were(project: Project) -> None:
    here = Path(__file__).resolve().parents[2] / "src"
    subprocess.run(
        [sys.executable, "-c", LIMITED, project.root], check=True, env={**os.environ, "PYTHONPATH": str(here)}
    )
    assert contents(project) == {"f": OLD, "g": OLD}
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100_000


FULL = """
set -e
mount -t tmpfs -o size=64k tmpfs "$1"
printf 'old one\\n' > "$1/f"; printf 'old one\\n' > "$1/g"
"$2" -c "$3" "$1"
cat "$1/f" "$1/g"; ls -A "$1"
mount -o remount,ro "$1"
"$2" -c "$4" "$1"
"""
FILLED = LIMITED.replace("resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))", "").replace(
    "too large", "no space"
)

FIXED = FILLED.replace("no space", "permission denied").replace("200_000", "20")


@pytest.mark.skipif(sys.platform != "linux", reason="a small disk is made by a mount namespace, on Linux")
@pytest.mark.row("A25", "B19")
def test_a_full_and_a_read_only_disk_leave_the_files_as_they_were(project: Project, tmp_path: Path) -> None:
    unshare, small = shutil.which("unshare"), tmp_path / "small"
    small.mkdir()
    here = Path(__file__).resolve().parents[2] / "src"
    if unshare is None:
        pytest.skip("there is no unshare")
    command = [unshare, "-rm", "sh", "-c", FULL, "sh", str(small), sys.executable, FILLED, FIXED]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(here)}
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.splitlines()[0]}")
    assert (done.stdout, done.returncode) == ("old one\nold one\nf\ng\n", 0), done.stderr
    assert contents(project) == {"f": OLD, "g": OLD}


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.row("R002-70", "B20")
def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_folder_after(
    project: Project, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:  # as far as the order of the calls goes
    steps: list[str] = []
    fsync, rename, link = os.fsync, os.rename, os.link

    def synced(fd: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def renamed(source: str, target: str, **more: Any) -> None:
        steps.append("commit" if "journal" in target else "name")
        rename(source, target, **more)

    def linked(source: str, target: str, **more: Any) -> None:
        if ".toolwire" not in target:
            steps.append("name")
        link(source, target, **more)

    for name, call in (("fsync", synced), ("rename", renamed), ("link", linked)):
        monkeypatch.setattr(os, name, call)
    project.ok(tool.partition(" ")[0], **ARGUMENTS[tool][0])
    if tool == "multi_edit":
        staged, commit, moved = [*["file"] * 3, "folder"], ["commit", "folder"], ["name", "name", "folder"]
        assert steps == [*staged, *commit, *moved]
    else:
        assert steps == ["file", "name", "folder"]
