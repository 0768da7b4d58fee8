"""A tree that is hard to search, and both ways to search it."""

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import Project

RG = shutil.which("rg", path="/usr/bin:/usr/local/bin")
HAS_RG = pytest.mark.skipif(RG is None, reason="ripgrep is not installed in /usr/bin or /usr/local/bin")
ENGINES = [pytest.param(RG, marks=HAS_RG, id="ripgrep"), pytest.param(False, id="fallback")]
KEPT_APART = "needle of the secret"

NASTY: dict[str, bytes] = {
    "plain.txt": b"one needle\ntwo\nthree needle\n",
    "no-newline": b"a\nneedle",
    "crlf.txt": b"needle\r\nx needle\r\n",
    "cr.txt": b"a\rneedle\rb\n",
    "bom.txt": b"\xef\xbb\xbfneedle first\nsecond needle\n",
    "utf16le.txt": "\ufeffneedle sixteen\nécond needle\n".encode("utf-16-le"),
    "utf16be.txt": "\ufeffneedle be\n".encode("utf-16-be"),
    "latin.txt": b"needle caf\xe9\nneedle\xff\xfe\n",
    "early.bin": b"needle\n\0needle\n",
    "late.bin": b"needle\n" + b"x\n" * 100_000 + b"\0\nneedle\n",
    "minified.js": b"var needle;" + b"a" * 200_000 + b"needle\n",
    "long-line-end.js": b"b" * 200_000 + b"needle",
    "empty": b"",
    "ünï.txt": "needle é\nNEEDLE É\n".encode(),
    "escape.txt": b"needle \x1b[31mred\x1b[0m \xe2\x80\xa8two\n",
    "many.txt": b"needle\n" * 300,
    ".hidden": b"needle\n",
    ".hidden.d/x": b"needle\n",
    ".git/config": b"needle\n",
    ".gitignore": b"*.log\n/build/\nnode_modules/\n!keep.log\n\\#odd\nsub/only.txt\n",
    "a.log": b"needle\n",
    "keep.log": b"needle\n",
    "#odd": b"needle\n",
    "build/out.txt": b"needle\n",
    "src/build/in.txt": b"needle\n",
    "node_modules/m/index.js": b"needle\n",
    "sub/only.txt": b"needle\n",
    "sub/.gitignore": b"!a.log\n*.tmp\n",
    "sub/a.log": b"needle\n",
    "sub/x.tmp": b"needle\n",
    "sub/deep/b.log": b"needle\n",
    "sub/deep/.gitignore": b"!b.log\n",
    "vendor/repo/.git/HEAD": b"needle\n",
    "vendor/repo/a.log": b"needle\n",
    ".ignore": b"plain.txt\n",
    ".git/info/exclude": b"plain.txt\n",
    "x:1: fake": b"needle\n",
    "y-1- fake": b"needle\n",
    "new\nline": b"needle\n",
    "\n./x": b"needle\n",
    "-e": b"needle\n",
    "--help": b"needle\n",
    " lead": b"needle\n",
    "   ": b"needle\n",
    "\x1b[31m": b"needle\n",
    "\u202egnp.exe": b"needle\n",
    "a\\x41b": b"needle\n",
    ".env": KEPT_APART.encode() + b"\n",
    ".ENV.local": KEPT_APART.encode() + b"\n",
    ".env.example": b"needle of the example\n",
    "deploy/.env.production": KEPT_APART.encode() + b"\n",
    "a.b/f": b"needle\n",
    "a/f": b"needle\n",
    "a-b/f": b"needle\n",
}


def nasty(top: Path) -> Project:
    """Make the tree."""
    made = Project(top)
    for path, data in NASTY.items():
        made.file(path, data)
    odd = os.open(os.fsencode(made.root) + b"/odd\xff.txt", os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(odd, b"needle\n")
    os.close(odd)
    (made.outside / "needle.txt").write_text("needle outside\n")
    (made.outside / ".gitignore").write_text("plain.txt\n")
    (made.root.parent / ".gitignore").write_text("plain.txt\n")
    links = {
        "link-file": "plain.txt",
        "link-out": "../outside/needle.txt",
        "link-abs": str(made.outside / "needle.txt"),
        "link-dir-out": "../outside",
        "link-dir": "sub",
        "loop-a": ".",
        "sub/loop-b": "..",
        "dangling": "nowhere",
        "circle": "circle",
    }
    for name, target in links.items():
        (made.root / name).symlink_to(target)
    os.mkfifo(made.root / "pipe")
    return made


def lines(said: str) -> list[str]:
    """Give the lines of an answer without its notices."""
    return [line for line in said.split("\n") if line and not line.startswith("[")]


def paths(said: str) -> list[str]:
    """Give the paths of the matches of an answer."""
    return [line.partition(":")[0] for line in lines(said)]


def script(path: Path, body: str) -> Path:
    """Make a program that says it is ripgrep."""
    path.write_text(f'#!/bin/sh\ncase "$*" in *--version*) echo "ripgrep 14.1.0"; exit 0;; esac\n{body}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


HAS_GIT = pytest.mark.skipif(not Path("/usr/bin/git").exists(), reason="git is not installed in /usr/bin")


def git(*arguments: str, cwd: Path) -> str:
    """Run git without anybody's settings."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(["/usr/bin/git", *arguments], cwd=cwd, env=environment, capture_output=True, check=True)
    return os.fsdecode(done.stdout)


def spent() -> float:
    """Say how long the processor worked for this process and those it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Searched:
    """The code tools on a project, searching in one of the two ways."""

    def __init__(self, project: Project, engine: Any) -> None:
        self.project = project
        project.tools.desk.options["ripgrep"] = engine

    def grep(self, pattern: str = "needle", **arguments: Any) -> str:
        """Search; it has to succeed."""
        return self.project.ok("grep", pattern=pattern, **arguments)

    def refused(self, pattern: str = "needle", **arguments: Any) -> str:
        """Search; it has to be refused."""
        return self.project.refused("grep", pattern=pattern, **arguments)
