"""Handlers and resolvers that files name: found, compared with what is declared, run, or refused by name."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.declarations.app import SCHEMA
from toolwire import Tool, ToolCall, declarations
from toolwire.errors import DeclarationError, UserError

APP = "tests.declarations.app"
QUERY = "description: d, parameters: {type: object, properties: {query: {type: string}}, required: [query]}"
CONTEXT = {"user": "ada"}


def load(text: str, **options: Any) -> declarations.Declared:
    return declarations.loads(text.replace("app:", f"{APP}:"), **options)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("1", name, arguments)


RUNS = [
    ("app:search", QUERY, {"query": "x"}, "5 pages about x"),
    ("app:fetch", QUERY, {"query": "x"}, "the page of x"),
    ("app:whoami", QUERY, {"query": "x"}, "ada asks for x"),
    ("app:anything", "description: d, parameters: {type: object}", {"b": 1, "a": 2}, "a, b"),
    ("app:declared", QUERY, {"query": "x"}, "x 0"),
    ("app:declared", "strict: false", {"query": "x", "token": "abc"}, "x 3"),
    ("app:Lookup", "strict: false", {"query": "x"}, "x for {'user': 'ada'}"),
    ("app:Bare", QUERY, {"query": "x"}, "['query'] {'user': 'ada'}"),
    ("app:bare", QUERY, {"query": "x"}, "['query'] {'user': 'ada'}"),
    ("app:toolbox.open", "strict: false", {}, "chest is open"),
    ("app:search", "strict: false", {"query": "x", "limit": 2}, "2 pages about x"),
]


@pytest.mark.parametrize(("path", "said", "arguments", "content"), RUNS)
def test_a_handler_runs(path: str, said: str, arguments: dict[str, Any], content: str) -> None:
    declared = load(f"t: {{handler: '{path}', {said}}}")
    resolver = declared.resolver()
    assert [tool.name for tool in resolver.available_tools()] == ["t"]
    assert resolver.available_tools() == declared.tools
    assert resolver.resolve(call("t", **arguments), CONTEXT).content == content
    result = asyncio.run(resolver.aresolve(call("t", **arguments), CONTEXT))
    assert (result.content, result.is_error) == (content, False)


def test_a_call_that_does_not_fit_the_file_is_not_run() -> None:
    resolver = load(f"t: {{handler: 'app:search', {QUERY}}}").resolver()
    result = resolver.resolve(call("t", query=5))
    assert result.is_error
    assert "query" in result.content


def test_a_custom_tool_gets_its_text() -> None:
    declared = load("t: {handler: 'app:shout', custom: true, description: d}")
    assert declared.tools == [Tool("t", "d", custom=True)]
    result = declared.resolver().resolve(ToolCall("1", "t", raw="hey", custom=True))
    assert result.content == "HEY"


def test_what_the_file_says_wins_over_what_a_handler_says() -> None:
    [own] = load("- handler: app:declared").tools
    assert (own.name, own.description, own.metadata) == (
        "declared",
        "Search with a token.",
        {"parallel": True, "timeout": 9},
    )
    [said] = load(f"- {{handler: 'app:declared', name: t, {QUERY}, strict: true, metadata: {{timeout: 3}}}}").tools
    assert said == Tool("t", "d", SCHEMA, {"parallel": True, "timeout": 3}, True)


def test_the_sensitive_fields_of_both_are_kept_out_of_logs(caplog: pytest.LogCaptureFixture) -> None:
    resolver = load(
        "a: {handler: 'app:declared', sensitive_fields: [query]}\n"
        "b: {handler: 'app:Lookup', sensitive_fields: [secret, key]}\n"
        f"c: {{handler: 'app:search', {QUERY}, sensitive_fields: [api_key]}}\n"
        f"d: {{handler: 'app:whoami', {QUERY}, sensitive_fields: [query]}}"
    ).resolver()
    assert resolver.sensitive_fields_for("a") == ["token", "query"]
    assert resolver.sensitive_fields_for("b") == ["secret", "key"]
    assert resolver.sensitive_fields_for("c") == ["api_key"]
    with caplog.at_level(logging.DEBUG):
        assert resolver.resolve(call("d", query="canary-7f3a"), {}).is_error
    assert "'d'" in caplog.text
    assert "canary" not in caplog.text


def test_tools_without_handlers_are_declared_and_not_run() -> None:
    declared = load(f"a: {{{QUERY}}}\nb: {{handler: 'app:search', {QUERY}}}")
    assert [tool.name for tool in declared.tools] == ["a", "b"]
    assert len(declared.handlers) == 1
    assert [tool.name for tool in declared.resolver().available_tools()] == ["b"]


def test_resolvers_are_composed_in_order_after_the_own_tools() -> None:
    resolver = load(f"""
        tools:
          - {{name: write_file, handler: 'app:search', {QUERY}}}
        resolvers:
          - {{resolver: 'app:files'}}
          - {{resolver: 'app:Files', cwd: sub, rename: {{read_file: get}}, only: [get], prefix: fs_}}
    """).resolver()
    names = [tool.name for tool in resolver.available_tools()]
    assert names == ["write_file", "read_file", "write_file", "fs_get"]
    assert resolver.resolve(call("write_file", query="x")).content == "5 pages about x"
    assert resolver.resolve(call("read_file")).content == "read_file in ."
    assert resolver.resolve(call("fs_get")).content == "read_file in sub"


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_a_folder_is_relative_to_the_file(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"tools.{ending}"
    for cwd, there in (("sub", tmp_path / "sub"), ("/else/where", Path("/else/where"))):
        path.write_text(f'{{"resolvers": [{{"resolver": "{APP}:Files", "cwd": "{cwd}"}}]}}')
        assert declarations.load(path).resolver().resolve(call("read_file")).content == f"read_file in {there}"
    path.write_text(f'{{"resolvers": [{{"resolver": "{APP}:Files", "cwd": "sub"}}]}}')
    monkeypatch.chdir(tmp_path)
    result = declarations.load(path.name).resolver().resolve(call("read_file"))
    assert result.content == f"read_file in {tmp_path / 'sub'}"


def test_yaml_and_json_give_the_same_that_runs(tmp_path: Path) -> None:
    text = f"""
tools:
  - {{name: a, handler: '{APP}:search', {QUERY}, sensitive_fields: [query]}}
  - {{handler: '{APP}:declared'}}
resolvers:
  - {{resolver: '{APP}:files', prefix: fs_}}
"""
    (tmp_path / "t.yaml").write_text(text)
    (tmp_path / "t.json").write_bytes(__import__("msgspec").json.encode(yaml.safe_load(text)))
    one, two = (declarations.load(tmp_path / name) for name in ("t.yaml", "t.json"))
    assert one.tools == two.tools
    assert one.resolver().available_tools() == two.resolver().available_tools()
    assert len(one.resolver().available_tools()) == 4


REFUSED = [
    ("tools", "handler: 'app:serch'", "tools[0].handler: {app} has no serch; did you mean search?"),
    (
        "tools",
        "handler: 'app:toolbox.opne'",
        "tools[0].handler: {app}:toolbox has no opne; did you mean open?",
    ),
    ("tools", "handler: 'no_such:x'", "tools[0].handler: cannot import no_such: there is no module no_such"),
    (
        "tools",
        "handler: 'tests.declarations.no:x'",
        "tools[0].handler: cannot import tests.declarations.no: there is no module tests.declarations.no",
    ),
    ("tools", "handler: 'app:nothing'", "tools[0].handler: {app}:nothing is None"),
    (
        "tools",
        "handler: 'app:system.popen'",
        "tools[0].handler: {app}:system is the module os; name that module itself if it is meant",
    ),
    (
        "tools",
        "handler: 'app:getcwd'",
        "tools[0].handler: the module posix can access the whole machine; add it to allow to import it",
    ),
    (
        "tools",
        "handler: 'app:Toolbox.open'",
        "tools[0].handler: is a method without its object; name it as in my_app.tools:toolbox.search",
    ),
    (
        "tools",
        "handler: 'app:Toolbox'",
        "tools[0].handler: has several tools (open, close); name one of them, as in ",
    ),
    ("tools", "handler: 'app:Broken'", "tools[0].handler: raised RuntimeError: no database"),
    (
        "tools",
        "handler: 'app:number'",
        "tools[0].handler: must be functions, `@tool`s, or classes and objects with ",
    ),
    ("tools", "handler: 'app:without_words'", "tools[0]: needs description"),
    ("tools", "handler: 'app:Bare', description: d", "tools[0]: needs name, parameters"),
    (
        "tools",
        "handler: 'app:search', parameters: {properties: {query: {}, limits: {}}, required: [query]}",
        "tools[0].parameters.properties.limits: the handler does not accept limits; it accepts query, limit",
    ),
    (
        "tools",
        "handler: 'app:search', parameters: {properties: {query: {}}}",
        "tools[0].parameters.required: must have query, which the handler requires",
    ),
    (
        "tools",
        "handler: 'app:search', parameters: {properties: {query: {pattern: '('}}, required: [query]}",
        "tools[0].parameters.properties.query.pattern: '(' is not a regular expression that can be used",
    ),
    ("resolvers", "resolver: 'app:silent', only: [a]", "resolvers[0].only: raised OSError: nobody is there"),
    ("resolvers", "resolver: 'app:Broken'", "resolvers[0].resolver: raised RuntimeError: no database"),
    ("resolvers", "resolver: 'app:toolbox'", "resolvers[0].resolver: must have `resolve`: "),
    (
        "resolvers",
        "resolver: 'app:files', cwd: x",
        "resolvers[0].cwd: is for a class that takes a cwd, or a resolver with `at(cwd)`",
    ),
    (
        "resolvers",
        "resolver: 'app:files', rename: {read: get}",
        'resolvers[0].rename.read: the resolver has no tool "read"; did you mean read_file?',
    ),
    (
        "resolvers",
        "resolver: 'app:files', rename: {read_file: write_file}",
        "resolvers[0].rename: would give two tools the same name",
    ),
    (
        "resolvers",
        "resolver: 'app:files', only: [read_file, fetch]",
        'resolvers[0].only[1]: the resolver has no tool "fetch"; known: read_file, write_file',
    ),
]


@pytest.mark.parametrize(("kind", "said", "message"), REFUSED)
def test_what_cannot_run_is_refused_when_it_is_loaded(kind: str, said: str, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        load(f"{kind}:\n  - {{{said}}}")
    [problem] = caught.value.problems
    told = f"{problem.field}: {problem.reason}"
    assert problem.line == 2
    assert told == message.format(app=APP) or (message.endswith(" ") and told.startswith(message))


def test_a_schema_that_says_more_elsewhere_is_not_compared() -> None:
    said = "parameters: {anyOf: [{required: [query]}], properties: {query: {}}}"
    assert load(f"t: {{handler: 'app:search', {said}}}").tools[0].name == "t"


def test_the_problems_of_all_handlers_are_told_at_once() -> None:
    with pytest.raises(DeclarationError) as caught:
        load("- handler: app:a\n- handler: no_such:b\n- handler: app:search\n- handler: no_such:d")
    assert [problem.line for problem in caught.value.problems] == [1, 2, 4]
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_name_is_declared_once() -> None:
    with pytest.raises(
        DeclarationError, match=r':3:4: \[2\]\.name: "search" is declared twice; the first declaration is in line 1'
    ):
        load(f"- handler: app:search\n- {{name: b, {QUERY}}}\n- {{name: search, {QUERY}}}")


@pytest.mark.parametrize(
    ("source", "kind", "reason"),
    [
        ("1 / 0", ZeroDivisionError, "ZeroDivisionError: division by zero"),
        (
            "import no_such_library",
            ModuleNotFoundError,
            "ModuleNotFoundError: No module named 'no_such_library'",
        ),
        ("from os import no_such_name", ImportError, "ImportError: cannot import name 'no_such_name'"),
        ("def f(:", SyntaxError, "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", SystemExit, "SystemExit: 3"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_and_chained(
    source: str, kind: type[BaseException], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fails_here.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fails_here", raising=False)
    with pytest.raises(DeclarationError) as caught:
        load("tools:\n  - handler: fails_here:run")
    [problem] = caught.value.problems
    assert f"{problem.line}:{problem.column} {problem.field}" == "2:5 tools[0].handler"
    assert problem.reason.startswith(f"cannot import fails_here: {reason}")
    assert type(caught.value.__cause__) is kind
    assert problem.cause is caught.value.__cause__


ALLOWED = [
    (None, True),
    ([APP], True),
    (["tests.declarations"], True),
    (["x", "tests"], True),
    ([], False),
    (["test"], False),
    (["tests.declarations.a"], False),
    ([f"{APP}.search"], False),
]


@pytest.mark.parametrize(("allow", "loads"), ALLOWED)
def test_allow_narrows_what_may_be_imported(allow: list[str] | None, loads: bool) -> None:
    text = f"tools:\n  - {{handler: 'app:search', {QUERY}}}"
    if loads:
        assert load(text, allow=allow).tools[0].name == "search"
        return
    with pytest.raises(DeclarationError, match=rf":2:6: tools\[0\]\.handler: the module {APP} is not allowed"):
        load(text, allow=allow)


def test_allow_holds_for_where_a_function_comes_from() -> None:
    text = "- {name: a, description: d, parameters: {}, handler: 'app:getcwd'}"
    with pytest.raises(DeclarationError, match="the module posix is not allowed"):
        load(text, allow=["tests"])
    assert load(text, allow=["tests", "posix"]).tools[0].name == "a"


def test_without_handlers_there_is_no_resolver() -> None:
    declared = load(f"t: {{handler: 'app:search', {QUERY}}}", handlers=False)
    assert (declared.handlers, declared.resolvers) == ([], [])
    with pytest.raises(UserError, match="has no resolver: it was loaded with handlers=False"):
        declared.resolver()
