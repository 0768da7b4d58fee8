"""The examples in docstrings are complete, run, and print what they show. None uses the network."""

import ast
import doctest
import inspect
import tempfile
from collections.abc import Iterator
from pathlib import Path

import griffe
import pytest

import toolwire
from scripts import reference

PACKAGE = Path(toolwire.__file__).parent
# Public functions whose docstring has no example: they serve for ever or start a server of tools, or return steps.
WITHOUT_EXAMPLE = set(
    "mcp.aserve mcp.http mcp.serve mcp.server_of mcp.stdio resolvers.dispatching resolvers.resolving".split()
)


def examples() -> Iterator[doctest.DocTest]:
    """Yield each docstring with examples. An example imports all that it uses, as a user would."""
    parser = doctest.DocTestParser()
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if ">>> " in text else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node) or ""
                if ">>> " in docstring:
                    label = f"{path.relative_to(PACKAGE)}:{getattr(node, 'name', '')}"
                    yield parser.get_doctest(docstring, {"__name__": "example"}, label, str(path), node.body[0].lineno)


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_example_runs(example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    printed: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    results = runner.run(example, out=printed.append, clear_globs=False)
    assert results.failed == 0, "".join(printed)


def test_a_wrong_example_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control."""
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    with pytest.raises(AssertionError):
        test_every_example_runs(wrong, tmp_path, monkeypatch)


def test_every_public_function_has_an_example() -> None:
    missing = {name for name, function in public_functions() if ">>> " not in docstring_of(function)}
    assert missing <= WITHOUT_EXAMPLE, "add an example that runs to the docstring"


def test_every_public_class_has_an_example() -> None:
    classes = {name: value for name in toolwire.__all__ if inspect.isclass(value := getattr(toolwire, name))}
    missing = {name for name, value in classes.items() if ">>> " not in (vars(value).get("__doc__") or "")}
    assert not missing, "add an example that runs to the docstring"


def test_every_public_function_names_its_parameters() -> None:
    unnamed = {
        name: parameters
        for name, function in public_functions()
        if (parameters := [each for each in parameters_of(function) if f"`{each}" not in docstring_of(function)])
    }
    assert not unnamed, f"name these parameters in backticks: {unnamed}"


def public_functions() -> Iterator[tuple[str, griffe.Function]]:
    """Yield each public function of the root and of its modules, by the name that users import."""
    seen: set[str] = set()
    for name, one in reference.offered().items():
        exports = [(f"{name}.{inner}", one[inner]) for inner in sorted(map(str, one.exports or ()))]
        for label, member in exports if one.is_module else [(name, one)]:
            target = member.final_target if isinstance(member, griffe.Alias) else member
            if isinstance(target, griffe.Function) and target.path not in seen:
                seen.add(target.path)
                yield label, target


def docstring_of(function: griffe.Function) -> str:
    return function.docstring.value if function.docstring is not None else ""


def parameters_of(function: griffe.Function) -> list[str]:
    return [one.name for one in function.parameters if one.name not in {"self", "cls"} and not one.name.startswith("_")]
