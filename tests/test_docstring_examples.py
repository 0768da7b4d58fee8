"""The examples in docstrings are complete, run, and print what they show. None uses the network."""

import ast
import doctest
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolwire

PACKAGE = Path(toolwire.__file__).parent
# Without these, a user cannot begin. Each of them must have an example.
BEGINNINGS = (
    "accumulate approved checkable cost dialect events_of execute filtered generate partial_json prefixed renamed "
    "resolver resolver_fn stream tool tool_loop AgentResolver Client CodeTools Composition"
).split()


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


@pytest.mark.parametrize("name", BEGINNINGS)
def test_the_first_names_of_a_user_have_an_example(name: str) -> None:
    value = getattr(toolwire, name)
    assert ">>> " in (value.__doc__ or ""), f"add an example that runs to the docstring of {name}"
