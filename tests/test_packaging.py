"""What is published: a wheel that holds the package, all of it and nothing else."""

import ast
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; `make test` installs it")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    files = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    expected = {name for name in files if "__pycache__" not in name}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert "toolwire/py.typed" in names, "without it, type checkers do not read the annotations"
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@pytest.mark.slow
@pytest.mark.row("R002-14")
def test_the_wheel_works_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(wheel)!r}); import toolwire; print(toolwire.__file__)"
    shown = subprocess.check_output([sys.executable, "-I", "-c", code], cwd=tmp_path, text=True)
    assert shown.startswith(str(wheel))


def _missing_extras() -> Iterator[tuple[str, str, str]]:
    """Find each place that says which extra is missing: the file, the extra, and what it is for."""
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "MissingExtra" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "").lstrip("_") == "MissingExtra":
                said = [one.value for one in node.args[1:] if isinstance(one, ast.Constant)]
                if len(said) == 2:  # else it is handed on
                    yield file.relative_to(SOURCE).as_posix(), str(said[0]), str(said[1])


def test_what_says_that_an_extra_is_missing_names_an_extra() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras, said = set(project["optional-dependencies"]), list(_missing_extras())
    assert len(said) > 8
    assert [one for one in said if one[1] not in extras or not one[2].startswith(("to ", "for "))] == []
