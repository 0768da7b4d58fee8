"""A release is the same bytes on every machine, and the check of a release finds what is wrong with it."""

import hashlib
import json
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts import release


def _bill(*components: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"component": {"name": "toolwire"}}, "components": [{"name": "toolwire"}, *components]}


def _component(name: str, *stated: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "version": "1", "licenses": list(stated)}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed, and a release is a commit")
def test_two_builds_of_a_commit_are_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling builds the release; `make test` installs it")
    first, second = (release.build_commit(tmp_path / f"{number}", number) for number in (0, 1))
    release.compare(first.wheel, second.wheel)
    release.compare(first.sdist, second.sdist)
    release.compare(first.wheel, release.build_from_sdist(first.sdist, tmp_path / "sdist"))
    with tarfile.open(first.sdist) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "src/toolwire/__init__.py"} <= names


@pytest.mark.parametrize("name", ["a-1.whl", "a-1.tar.gz"])
def test_builds_that_differ_are_found(name: str, tmp_path: Path) -> None:
    one, other = _artifact(tmp_path / "one" / name, b"a"), _artifact(tmp_path / "other" / name, b"b")
    release.compare(one, one)
    with pytest.raises(release.Failed, match=rf"two builds of {name} differ: a\.txt$"):
        release.compare(one, other)
    with pytest.raises(release.Failed, match="one build made"):
        release.compare(one, other.rename(other.with_name("b-1.whl")))


def test_a_time_alone_is_a_difference(tmp_path: Path) -> None:
    one = _artifact(tmp_path / "one" / "a.whl", b"a")
    other = _artifact(tmp_path / "other" / "a.whl", b"a", year=1999)
    with pytest.raises(release.Failed, match="only the order, the times or the modes"):
        release.compare(one, other)


def _artifact(path: Path, text: bytes, year: int = 2020) -> Path:
    path.parent.mkdir()
    if path.suffix == ".whl":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(zipfile.ZipInfo("same.txt", (year, 1, 1, 0, 0, 0)), b"same")
            archive.writestr(zipfile.ZipInfo("a.txt", (year, 1, 1, 0, 0, 0)), text)
    else:
        file = path.parent / "a.txt"
        file.write_bytes(text)
        with tarfile.open(path, "w:gz") as files:
            files.add(file, "a.txt")
    return path


def test_every_dependency_has_its_licence() -> None:
    bill = _bill(
        _component("b", {"license": {"id": "MIT"}}, {"license": {"name": "declared license of 'b'"}}),
        _component("a", {"license": {"name": "License :: OSI Approved :: BSD License"}}),
        _component("c", {"expression": "MIT AND PSF-2.0"}),
    )
    assert release.licences(bill) == [("a", "1", "BSD License"), ("b", "1", "MIT"), ("c", "1", "MIT AND PSF-2.0")]


def test_a_dependency_without_a_licence_is_no_release() -> None:
    bill = _bill(_component("a", {"license": {"id": "MIT"}}), _component("b"))
    with pytest.raises(release.Failed, match="these dependencies state no licence: b 1"):
        release.licences(bill)


def test_the_bill_of_materials_has_no_path_of_a_machine() -> None:
    places = [{"url": "file:///a.whl"}, {"url": "https://example.org"}]
    bill = _bill({**_component("a"), "externalReferences": places})
    assert "file:" not in json.dumps(release.without_places(bill))
    assert bill["components"][1]["externalReferences"] == [{"url": "https://example.org"}]


def test_a_release_is_written_with_its_checksums(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    artifacts = release.Artifacts(made / "toolwire-1-py3-none-any.whl", made / "toolwire-1.tar.gz")
    for file in artifacts:
        file.write_bytes(b"x")
    output = tmp_path / "dist"
    output.mkdir()
    (output / "toolwire-0.tar.gz").write_bytes(b"old")
    release.publish(output, artifacts, _bill(_component("a", {"license": {"id": "MIT"}})))
    assert sorted(file.name for file in output.iterdir()) == [
        "SHA256SUMS",
        "toolwire-1-py3-none-any.whl",
        "toolwire-1.cdx.json",
        "toolwire-1.licences.txt",
        "toolwire-1.tar.gz",
    ]
    assert (output / "toolwire-1.licences.txt").read_text() == "a  1  MIT\n"
    lines = [line.split("  ") for line in (output / "SHA256SUMS").read_text().splitlines()]
    assert len(lines) == 4
    assert all(hashlib.sha256((output / name).read_bytes()).hexdigest() == one for one, name in lines)


def test_the_first_command_is_the_demo_if_there_is_one() -> None:
    assert release.first_command("  {run,demo,serve}") == ["demo"]
    assert release.first_command("  {run,serve}") == ["--help"]


@pytest.mark.parametrize("script", ["exit 3", "echo 'no gateway' >&2"])
def test_a_gateway_that_does_not_start_is_no_release(script: str, tmp_path: Path) -> None:
    _command(tmp_path, script)
    with pytest.raises(release.Failed, match="the gateway answered '' instead of"):
        release.serve_once(tmp_path / "bin" / "python")


def test_a_command_that_fails_is_no_release(tmp_path: Path) -> None:
    _command(tmp_path, "echo 'no module' >&2; exit 3")
    with pytest.raises(release.Failed, match="ended with 3:\nno module"):
        release.run([tmp_path / "bin" / "toolwire"], tmp_path)


def test_the_package_must_be_the_installed_one(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    python = folder / "python"
    python.write_text("#!/bin/sh\necho /elsewhere/toolwire/__init__.py\n")
    python.chmod(0o755)
    with pytest.raises(release.Failed, match="imports /elsewhere"):
        release.start_core(python)


def _command(folder: Path, script: str) -> None:
    (folder / "bin").mkdir()
    command = folder / "bin" / "toolwire"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
