"""Check a release: build it twice, start it in bare environments, and write what it consists of.

`make release-check` runs this with the Python of `.venv-release`. It builds the commit that is checked out, and nothing
else: files that are not committed are not part of a release.
"""

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# Two builds differ in all that a build must not depend on.
SURROUNDINGS: tuple[Mapping[str, str], ...] = (
    {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0"},
    {"TZ": "Asia/Kolkata", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "42"},
)
UMASKS = (0o022, 0o077)
BODY = {"model": "openai/gpt-4o", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}]}
ANSWER = "You said: Hello"
INSTALLERS = ("pip", "setuptools")  # an environment without uv has them, and no release needs them
SECONDS = 600


class Failed(Exception):
    """A release must not be published. The message names the reason."""


class Artifacts(NamedTuple):
    """The wheel and the sdist of one build."""

    wheel: Path
    sdist: Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the commit that is checked out, and write the release into a folder. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="the folder of the release (default: dist)")
    parser.add_argument("--short", action="store_true", help="do not start the sdist, whose wheel is the same bytes")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="toolwire-release-") as folder:
        try:
            check(options.output, Path(folder), is_short=options.short)
        except Failed as problem:
            print(f"not a release: {problem}", file=sys.stderr)
            return 1
    return 0


def check(output: Path, scratch: Path, *, is_short: bool = False) -> None:
    """Run every step. Raise Failed at the first one that fails. With `is_short`, the sdist is not started."""
    _warn_of_changes()
    with step("build the commit twice, in surroundings that differ"):
        first, second = (build_commit(scratch / f"build-{number}", number) for number in range(len(SURROUNDINGS)))
    with step("compare the two builds byte by byte"):
        for one, other in zip(first, second, strict=True):
            compare(one, other)
    with step("build a wheel from the sdist, and compare it with the wheel"):
        from_sdist = build_from_sdist(first.sdist, scratch / "from-sdist")
        compare(first.wheel, from_sdist)
    started = (("wheel", first.wheel), *(() if is_short else (("sdist", from_sdist),)))
    for name, wheel in started:
        with step(f"start the {name} in an environment of the core alone"):
            start_core(environment(scratch / f"{name}-core", "core", wheel))
        with step(f"start the gateway of the {name} in an environment with every extra"):
            python = environment(scratch / f"{name}-all", "all", wheel)
            serve_once(python)
    with step("write the bill of materials, the licences and the checksums"):
        publish(output, first, bill_of_materials(python, scratch / "bom.json"))


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print the name of a step, and the seconds that it took."""
    print(f"{name} ...", end=" ", flush=True)
    begin = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - begin:.1f} s", flush=True)


def run(command: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """Run `command`, and return its output. Raise Failed with the end of its errors if it fails."""
    environ = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(  # noqa: S603 - our own commands
        [str(word) for word in command],
        cwd=cwd,
        env=environ | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        errors = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise Failed(f"`{' '.join(map(str, command))}` ended with {done.returncode}:\n{errors}")
    return done.stdout


# Builds


def _warn_of_changes() -> None:
    changed = run(["git", "status", "--porcelain"], ROOT).splitlines()
    if changed:
        print(f"not part of the release: {len(changed)} files that are not committed, such as {changed[0][3:]}")


def build_commit(folder: Path, number: int) -> Artifacts:
    """Export the commit into `folder`, and build it there, in one of the `SURROUNDINGS`.

    The time of every file of the release is the time of the commit.
    """
    source = folder / "source"
    source.mkdir(parents=True)
    archive = folder / "source.tar"
    run(["git", "archive", "--output", archive, "HEAD"], ROOT)
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")
    for path in source.rglob("*"):
        path.chmod(0o777 & ~UMASKS[number] if path.is_dir() or os.access(path, os.X_OK) else 0o666 & ~UMASKS[number])
        os.utime(path)
    epoch = run(["git", "log", "-1", "--format=%ct"], ROOT).strip()
    return build(source, folder / "dist", SOURCE_DATE_EPOCH=epoch, **SURROUNDINGS[number])


def build(source: Path, target: Path, **variables: str) -> Artifacts:
    """Build the wheel and the sdist of `source` into `target`."""
    run([sys.executable, "-m", "hatchling", "build", "--directory", str(target)], source, **variables)
    return Artifacts(_only(target, "*.whl"), _only(target, "*.tar.gz"))


def build_from_sdist(sdist: Path, folder: Path) -> Path:
    """Build a wheel from the unpacked `sdist`, as pip does. Return the wheel."""
    with tarfile.open(sdist) as files:
        files.extractall(folder, filter="data")
        epoch = str(max(int(member.mtime) for member in files.getmembers()))
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist")]
    run(command, _only(folder, "*"), SOURCE_DATE_EPOCH=epoch)
    return _only(folder / "dist", "*.whl")


def _only(folder: Path, pattern: str) -> Path:
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise Failed(f"{folder} must have one {pattern}, and has {len(paths)}")
    return paths[0]


def compare(one: Path, other: Path) -> None:
    """Raise Failed if two artifacts differ, with the names of the files in them that do."""
    if one.name != other.name:
        raise Failed(f"one build made {one.name}, the other {other.name}")
    if one.read_bytes() == other.read_bytes():
        return
    here, there = contents(one), contents(other)
    names = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
    where = ", ".join(names[:5]) or "only the order, the times or the modes of its files"
    raise Failed(f"two builds of {one.name} differ: {where}")


def contents(artifact: Path) -> dict[str, bytes]:
    """Return the files of a wheel or of an sdist."""
    if artifact.suffix == ".whl":
        with zipfile.ZipFile(artifact) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(artifact) as files:
        read = ((member.name, files.extractfile(member)) for member in files.getmembers())
        return {name: file.read() for name, file in read if file is not None}


# Starts


def environment(folder: Path, requirements: str, wheel: Path) -> Path:
    """Make an environment of locked dependencies and `wheel`, by hash. Return its Python."""
    make = ROOT / "scripts" / "environment"
    run([make, folder, ROOT / "requirements" / f"{requirements}.txt", "alone"], ROOT)
    pinned = folder / "release.txt"
    pinned.write_text(f"toolwire @ {wheel.as_uri()} --hash=sha256:{_hash(wheel)}\n")
    run([make, folder, pinned, "alone"], ROOT)
    python = folder / "bin" / "python"
    code = "import importlib.util as u; print(*(name for name in ('pip', 'setuptools') if u.find_spec(name)))"
    if present := run([python, "-c", code], folder).split():
        run([python, "-m", "pip", "uninstall", "--quiet", "--yes", *present[::-1]], folder)
    return python


def start_core(python: Path) -> None:
    """Import the package, and run its first command."""
    folder = python.parent.parent
    path = run([python, "-I", "-c", "import toolwire; print(toolwire.__file__)"], folder).strip()
    if not Path(path).is_relative_to(folder):
        raise Failed(f"`import toolwire` imports {path}, which is not the one that was installed")
    command = python.with_name("toolwire")
    run([command, *first_command(run([command, "--help"], folder))], folder)


def first_command(usage: str) -> list[str]:
    """Return the first command that a user runs: `demo`, if `usage` lists it."""
    return ["demo"] if re.search(r"\bdemo\b", usage) else ["--help"]


def serve_once(python: Path) -> None:
    """Start `toolwire serve --simulate`, and send one request of Messages to a model of Chat Completions."""
    command = [str(python.with_name("toolwire")), *"serve --simulate --quiet --listen 127.0.0.1:0".split()]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(  # noqa: S603 - our own command
            command, cwd=python.parent.parent, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            try:
                line = process.stdout.readline() if process.stdout else ""
                text = _ask(line.split()[-1]) if line.strip() else ""
            finally:
                process.terminate()
        errors.seek(0)
        if text != ANSWER:
            raise Failed(f"the gateway answered {text!r} instead of {ANSWER!r}: {errors.read()[-2000:]}")


def _ask(url: str) -> str:
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/messages", json.dumps(BODY), {"content-type": "application/json"})
        body = json.load(connection.getresponse())
    return str(body.get("content", [{}])[0].get("text", body))


# Contents of a release


def bill_of_materials(python: Path, file: Path) -> dict[str, Any]:
    """Return the bill of materials of an environment, as CycloneDX writes it."""
    run(
        [
            *(sys.executable, "-m", "cyclonedx_py", "environment", python),
            *("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library"),
            *("--output-reproducible", "--output-format", "JSON", "--output-file", file),
        ],
        ROOT,
    )
    bill: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return without_places(bill)


def without_places(bill: dict[str, Any]) -> dict[str, Any]:
    """Return `bill` without the paths of the machine that made it."""
    for component in (bill["metadata"]["component"], *bill["components"]):
        kept = [one for one in component.get("externalReferences", ()) if not one["url"].startswith("file:")]
        component["externalReferences"] = kept
    return bill


def licences(bill: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the name, the version and the licence of every dependency.

    Raise Failed if a dependency states no licence.
    """
    rows = [
        (str(one["name"]), str(one["version"]), _licence(one))
        for one in bill["components"]
        if one["name"] != bill["metadata"]["component"]["name"]
    ]
    unknown = [f"{name} {version}" for name, version, licence in rows if not licence]
    if unknown:
        raise Failed(f"these dependencies state no licence: {', '.join(unknown)}")
    return sorted(rows)


def _licence(component: Mapping[str, Any]) -> str:
    """Return the licence of a component: an expression, or the identifiers, or the names that it states."""
    stated = component.get("licenses", ())
    expressions = [one["expression"] for one in stated if "expression" in one]
    plain = [one["license"] for one in stated if "license" in one]
    ids = [one["id"] for one in plain if "id" in one]
    names = [one["name"] for one in plain if not str(one.get("name", "declared")).startswith("declared")]
    return " or ".join(dict.fromkeys(str(one).rpartition(" :: ")[2] for one in expressions or ids or names))


def publish(output: Path, artifacts: Artifacts, bill: Mapping[str, Any]) -> None:
    """Write the release into `output`: artifacts, bill of materials, licences and checksums."""
    name = artifacts.sdist.name.removesuffix(".tar.gz")
    rows = licences(bill)
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{one:<{widths[0]}}  {version:<{widths[1]}}  {licence}" for one, version, licence in rows]
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob("toolwire-*"):
        old.unlink()
    files = [Path(shutil.copy(one, output)) for one in artifacts]
    for suffix, text in (("cdx.json", json.dumps(bill, indent=2)), ("licences.txt", "\n".join(lines))):
        files.append(output / f"{name}.{suffix}")
        files[-1].write_text(f"{text}\n", encoding="utf-8")
    sums = [f"{_hash(file)}  {file.name}\n" for file in files]
    (output / "SHA256SUMS").write_text("".join(sums))
    print(f"{len(rows)} dependencies", end=", ")


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
