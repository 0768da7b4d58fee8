"""The twelve code tools as one resolver: their names, their folder, and that only results come out."""

import asyncio
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolwire import (
    CodeTools,
    Composition,
    Tool,
    ToolCall,
    ToolResult,
    UnknownTool,
    aio,
    codec,
    execute,
    session_tools,
)
from toolwire.codetools import resolver, resolver_fn
from toolwire.errors import InvalidField
from toolwire.schema.validator import Validator

TWELVE = (
    "read_file write_file edit_file multi_edit append_to_file bash grep glob list_directory tree file_info http_get"
).split()


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall("c", name, arguments)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("# Hello\n\nA line.\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("def main():\n    return 1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "README.md", "offset": 1, "limit": 2}),
        ("grep", {"pattern": "line", "context": 1, "limit": 5}),
        ("glob", {"pattern": "**/*", "limit": 1}),
        ("list_directory", {"limit": 1}),
        ("tree", {"max_depth": 2, "max_entries": 2}),
    ],
)
def test_a_count_may_be_a_whole_float(project: Path, name: str, arguments: dict[str, Any]) -> None:
    kit = CodeTools(project)
    floats = {key: float(value) if isinstance(value, int) else value for key, value in arguments.items()}
    expected = kit.resolve(call(name, **arguments))
    assert not expected.is_error
    assert kit.resolve(call(name, **floats)).content == expected.content


@pytest.mark.row("R002-01", "4.3.1")
def test_there_are_twelve() -> None:
    tools = CodeTools().available_tools()
    assert [tool.name for tool in tools] == TWELVE
    for tool in tools:
        assert tool.description
        assert Validator(tool.parameters or {}).problems({"no such parameter": 1})
        assert (tool.parameters or {})["type"] == "object"


def test_each_is_declared_in_every_dialect() -> None:
    tools = CodeTools().available_tools()
    for name in ("openai", "responses", "anthropic", "gemini", "ollama"):
        assert len(codec.encode_definitions(tools, name)) == (1 if name == "gemini" else 12)
    for tool in tools:
        parameters = tool.parameters or {}
        assert parameters["additionalProperties"] is False
        assert all(one.get("description") for one in parameters["properties"].values()), tool.name


@pytest.mark.row("R002-15", "R002-16", "R002-63", "R002-64", "R002-65")
def test_paths_are_relative_to_the_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    wanted = "# Hello\n\nA line.\n"
    assert CodeTools().resolve(call("read_file", path="README.md")).content == wanted
    monkeypatch.chdir("/")
    assert CodeTools(project).resolve(call("read_file", path="README.md")).content == wanted
    assert CodeTools().resolve(call("read_file", path="README.md"), str(project)).content == wanted
    assert CodeTools(project).resolve(call("read_file", path=str(project / "README.md"))).content == wanted


@pytest.mark.row("R002-28", "R002-29", "4.3.5")
def test_a_pair_and_a_function_are_resolvers(
    project: Path,
) -> None:
    assert resolver("here") == (CodeTools, "here")
    assert resolver_fn(project)(call("read_file", path="src/main.py")).content == "def main():\n    return 1\n"
    composition = Composition([resolver(str(project))])
    assert "def main" in str(composition.resolve(call("read_file", path="src/main.py")).content)
    names = ["read_file", "grep"]
    tools, resolve = session_tools.prepare(composition, names, {"user": 1})
    assert [tool.name for tool in tools] == ["read_file", "grep"]
    calls = [ToolCall("1", "read_file", {"path": "README.md"}), ToolCall("2", "bash", {"command": "id"})]
    found = execute(calls, resolve)
    assert [one.is_error for one in found] == [False, True]


@pytest.mark.row("R002-19", "R002-79")
def test_an_own_bash_comes_first(project: Path) -> None:
    class Mine:
        def available_tools(self) -> list[Tool]:
            return [Tool("bash", "Mine.", {"type": "object"})]

        def resolve(self, given: ToolCall) -> Any:
            return ("ok", "mine") if given.name == "bash" else ("error", f"Unknown tool: {given.name}")

    composition = Composition([Mine(), (CodeTools, str(project))])
    assert composition.resolve(call("bash", command="x")).content == "mine"
    assert composition.resolve(call("list_directory")).content == "README.md\nsrc/"


@pytest.mark.row("A30")
def test_two_folders_do_not_mix(tmp_path: Path) -> None:
    kits = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
        kits.append(CodeTools(tmp_path / name))
    assert [kit.resolve(call("read_file", path="f")).content for kit in kits] == ["one", "two"]
    assert kits[0].resolve(call("read_file", path="../two/f")).is_error
    assert kits[0].at(tmp_path / "two").resolve(call("read_file", path="f")).content == "two"
    assert kits[0].at(tmp_path / "two") is kits[0].at(tmp_path / "two")


@pytest.mark.row("R002-67")
def test_an_edit_is_made_by_either_spelling(project: Path) -> None:
    kit = CodeTools(project)
    assert not kit.resolve(call("edit_file", path="src/main.py", oldText="1", newText="2")).is_error
    assert not kit.resolve(call("edit_file", path="src/main.py", old_text="2", new_text="3")).is_error
    edits = [{"old_text": "3", "new_text": "4"}, {"path": "README.md", "oldText": "Hello", "newText": "Bye"}]
    assert not kit.resolve(call("multi_edit", path="src/main.py", edits=edits)).is_error
    assert (project / "src" / "main.py").read_text() == "def main():\n    return 4\n"
    assert (project / "README.md").read_text() == "# Bye\n\nA line.\n"


def test_an_unknown_tool_and_an_unknown_option_are_told() -> None:
    with pytest.raises(UnknownTool, match="available: read_file, write_file"):
        CodeTools().resolve(call("rm"))
    with pytest.raises(InvalidField, match="CodeTools: sandbocks is not known; there are: allow_hosts"):
        CodeTools(sandbocks="none")  # type: ignore[call-arg]
    with pytest.raises(InvalidField, match="CodeTools: rm is not known; there are: append_to_file, bash"):
        CodeTools(tools=["rm"])
    assert [tool.name for tool in CodeTools(tools=["grep", "glob"]).available_tools()] == ["grep", "glob"]


WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    "",
    "x",
    "\0",
    "\ud800",
    "../x",
    "/etc/passwd",
    "x" * 5000,
    [],
    {},
]


@pytest.mark.parametrize("name", [name for name in TWELVE if name not in ("bash", "http_get")])
@pytest.mark.row("G9", "R002-66")
def test_odd_arguments_are_error_results(name: str, project: Path) -> None:
    """Each parameter of each tool with each odd value: a result comes back, and nothing is raised."""
    kit = CodeTools(project)
    [tool] = [tool for tool in kit.available_tools() if tool.name == name]
    properties = (tool.parameters or {})["properties"]
    usual = {
        "path": "new",
        "content": "x",
        "oldText": "a",
        "newText": "b",
        "pattern": "x",
        "edits": [{"oldText": "a", "newText": "b"}],
    }
    base = {key: usual[key] for key in (tool.parameters or {})["required"]}
    for parameter in properties:
        for value in WRONG:
            result = kit.resolve(call(name, **{**base, parameter: value}))
            assert isinstance(result, ToolResult)
            assert str(project) not in str(result.content), "no path of the host is told"
            json.dumps(str(result.content)).encode()
    assert kit.resolve(call(name, **base, extra=1)).is_error
    if base:
        assert "missing required field" in str(kit.resolve(call(name)).content)


def test_async_code_gets_the_same(project: Path) -> None:
    calls = [
        ToolCall("1", "tree", {}),
        ToolCall("2", "glob", {"pattern": "**/*.py"}),
        ToolCall("3", "file_info", {"path": "src"}),
    ]
    assert execute(calls, CodeTools(project)) == asyncio.run(aio.execute(calls, CodeTools(project)))


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match="cwd must be a folder"):
        CodeTools(tmp_path / "nothing")


def test_making_the_tools_leaves_nothing_in_the_folder(project: Path) -> None:
    before = sorted(path.name for path in project.iterdir())
    CodeTools(project)
    assert sorted(path.name for path in project.iterdir()) == before


# What a tool is asked for, beside its path, and what it then says or leaves in the file.
OF_A_FOLDER: dict[str, tuple[str, dict[str, Any], str]] = {
    "read_file": ("src/main.py", {}, "def main():"),
    "write_file": ("src/new.py", {"content": "x = 1\n"}, "new.py"),
    "edit_file": ("src/main.py", {"oldText": "return 1", "newText": "return 2"}, "main.py"),
    "multi_edit": ("src/main.py", {"edits": [{"oldText": "return 1", "newText": "return 3"}]}, "main.py"),
    "append_to_file": ("src/main.py", {"content": "# end\n"}, "main.py"),
    "grep": ("src", {"pattern": "return"}, "src/main.py:2:"),
    "glob": ("src", {"pattern": "*.py"}, "src/main.py"),
    "list_directory": ("src", {}, "main.py"),
    "tree": ("src", {}, "main.py"),
    "file_info": ("src/main.py", {}, "type: file"),
}
MAKING = ("write_file", "append_to_file")  # what is not there


def below(folder: Path) -> dict[str, bytes]:
    """Read all that lies below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", OF_A_FOLDER)
@pytest.mark.row("R002-63", "R002-64", "R002-65")
def test_every_path_is_relative_to_the_folder(
    name: str, project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, more, said = OF_A_FOLDER[name]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    before = below(project)
    bound = CodeTools(project).resolve(call(name, path=path, **more))
    assert (said in str(bound.content), bound.is_error) == (True, False)
    after = below(project)
    assert (after != before) is (name in MAKING or "edit" in name)
    assert below(elsewhere) == {}
    given = CodeTools().resolve(call(name, path=path, **more), str(elsewhere))
    assert (given.is_error, below(project)) == (name not in MAKING, after)
    monkeypatch.chdir(project)
    (project / "src" / "main.py").write_text("def main():\n    return 1\n")
    assert said in str(CodeTools().resolve(call(name, path=path, **more)).content)


@pytest.mark.parametrize("name", [*OF_A_FOLDER, "bash"])
@pytest.mark.row("R002-02", "R002-66")
def test_what_comes_back_is_text_or_an_error_with_text(name: str, project: Path) -> None:
    kit = CodeTools(project, sandbox="none")
    path, more, _ = OF_A_FOLDER.get(name, ("", {"command": "echo hi"}, ""))
    good = kit.resolve(call(name, **({"path": path} if path else {}), **more))
    bad = kit.resolve(call(name, path="nothing/there", **more) if path else call(name, command="exit 3"))
    for result, failed in ((good, False), (bad, name not in MAKING)):
        assert (type(result), type(result.content), result.is_error) == (ToolResult, str, failed)


USED = """
import sys
from toolwire import CodeTools, ToolCall
said = CodeTools(sys.argv[1]).resolve(ToolCall("1", "read_file", {"path": "README.md"}))
heavy = {"httpx2", "httpcore2", "sqlalchemy", "alembic", "sqlite3"} & set(sys.modules)
print(said.content, sorted(heavy))
"""


@pytest.mark.row("R002-27")
def test_a_tool_of_files_loads_no_http_client_and_no_database(project: Path) -> None:
    said = subprocess.check_output([sys.executable, "-c", USED, str(project)], text=True)
    assert said == "# Hello\n\nA line.\n []\n"
    data = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    assert not any("sqlalchemy" in one or "psycopg" in one for one in data["dependencies"])
    assert any("sqlalchemy" in one for one in data["optional-dependencies"]["traces"])
