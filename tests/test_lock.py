"""The locked dependencies: in step with pyproject.toml, pinned by hash, and from the public index only."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))

# Which dependency groups each requirement file installs, beside the project's own dependencies.
ENVIRONMENTS = {
    "core": [],
    "all": [],
    "test": ["test"],
    "check": ["dev"],
    "bench": ["bench", "build"],
    "peers": ["peers", "build"],
    "proxy": ["proxy", "build"],
}
WITHOUT_EXTRAS = ("core", "proxy")


@cache
def lock() -> dict[str, Any]:
    """Read uv.lock."""
    return tomllib.loads((REPOSITORY / "uv.lock").read_text("utf-8"))


EXTRAS = PROJECT["project"]["optional-dependencies"]


def named(text: str) -> str:
    """Give the name that a requirement begins with."""
    return re.split(r"[\[<>=~! ]", text)[0]


def test_all_is_every_extra() -> None:
    assert EXTRAS["all"] == [f"toolwire[{','.join(sorted(EXTRAS.keys() - {'all'}))}]"]


def direct(groups: list[str]) -> set[str]:
    """Name the direct dependencies of groups and of the groups that they include, and the project's own."""
    names = {named(text) for text in PROJECT["project"]["dependencies"]}
    for group in groups:
        for entry in PROJECT["dependency-groups"][group]:
            names |= direct([entry["include-group"]]) if isinstance(entry, dict) else {named(entry)}
    return names


def of_extras() -> set[str]:
    """Name the direct dependencies of all extras."""
    return {named(text) for extra in EXTRAS.values() for text in extra} - {"toolwire"}


def pins(text: str) -> dict[tuple[str, str], set[str]]:
    """Read a requirement file: the hashes of each name and version."""
    blocks = [(re.match(r"([\w.-]+)==(\S+)", block), block) for block in re.split(r"(?m)^(?=\w)", text)]
    return {(name[1], name[2]): set(re.findall(r"--hash=(\S+)", block)) for name, block in blocks if name}


def locked() -> dict[tuple[str, str], set[str]]:
    """Read uv.lock: the hashes of each name and version."""

    def hashes(package: dict[str, Any]) -> set[str]:
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        return {file["hash"] for file in files}

    return {(package["name"], package["version"]): hashes(package) for package in lock()["package"]}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_requirements_are_the_locked_ones(environment: str) -> None:
    text = (REPOSITORY / "requirements" / f"{environment}.txt").read_text("utf-8")
    found, known = pins(text), locked()
    assert {pin: hashes for pin, hashes in found.items() if not hashes or hashes != known.get(pin)} == {}
    wanted = direct(ENVIRONMENTS[environment]) | (set() if environment in WITHOUT_EXTRAS else of_extras())
    assert wanted - {name for name, _ in found} == set(), "run `make lock`"
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    odd = [line for line in lines if not re.match(r"[\w.-]+==|    --hash=sha256:[0-9a-f]{64}( \\)?$", line)]
    assert odd == [], "a requirement file names no index and no place: the machine that installs chooses it"


def test_the_lock_knows_every_declared_dependency() -> None:
    [own] = [package for package in lock()["package"] if package["name"] == PROJECT["project"]["name"]]
    declared = {group: direct([group]) - direct([]) for group in PROJECT["dependency-groups"]}
    listed = {group: {entry["name"] for entry in entries} for group, entries in own["metadata"]["requires-dev"].items()}
    assert listed == declared, "run `make lock`"
    assert {entry["name"] for entry in own["metadata"]["requires-dist"]} == direct([]) | of_extras() | {"toolwire"}, (
        "run `make lock`"
    )


def test_the_lock_names_the_public_index_only() -> None:
    places = re.findall(r"(?:registry|url) = \"(https?://[^/\"]+|[^\"]*)", (REPOSITORY / "uv.lock").read_text("utf-8"))
    assert set(places) == {"https://pypi.org", "https://files.pythonhosted.org"}


def test_a_requirement_file_out_of_step_is_seen() -> None:
    text = "a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n    # via b\nb==2 ; python_version < '4'\n"
    assert pins(text) == {("a", "1"): {"sha256:00", "sha256:11"}, ("b", "2"): set()}
