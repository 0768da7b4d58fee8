"""The rules of ARCHITECTURE.md, each held by a check that is itself shown to be able to fail."""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import toolwire
from scripts import rooms
from toolwire.dialects import NAMES

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "src" / "toolwire"
DIALECTS = SOURCE / "dialects"

# Who may do I/O, read a clock or print, by the beginning of their names. Everything else is pure.
IMPURE = (
    *(
        f"toolwire.{room}."
        for room in "cli client codetools databases gateway mcp page records runs testing traces waiting".split()
    ),
    *("toolwire.__main__", "toolwire.resolvers.execution"),
)
PURE = "text translation providers dialects streams loop encoding types wire schema scrubbing".split()
IMPURE_MODULES = (
    *("aiohttp", "asyncio", "concurrent", "http", "httpx", "httpx2", "multiprocessing", "random", "requests"),
    *("secrets", "select", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile"),
    *("threading", "time", "urllib.request", "uuid"),
)
IMPURE_CALLS = {"breakpoint", "input", "open", "print"}

FILES_OF_A_DIALECT = {"__init__.py", "error.py", "messages.py", "request.py", "response.py", "tools.py"}
VERBS = tuple(f"{verb}_{noun}" for noun in ("request", "response", "error") for verb in ("decode", "encode"))

HEAVY = {
    *("asyncio", "http", "httpx", "httpx2", "socket", "sqlite3", "ssl"),
    *("anthropic", "google", "ollama", "openai", "pydantic"),
    *("alembic", "psycopg", "sqlalchemy"),
}
IMPORT_MILLISECONDS = 60
# On a machine that is slow at the moment, this part of what these modules of Python's own take in the same minute.
IMPORT_SHARE, IMPORT_PEERS = 0.75, "import asyncio, argparse, dataclasses, http.client, logging, typing, inspect"
IMPORT_MEGABYTES = 15


def texts(folder: Path = SOURCE) -> dict[str, str]:
    """Read every module of the package, by its dotted name; a package ends in `.__init__`."""
    names = {path: path.relative_to(folder.parent).with_suffix("").parts for path in folder.rglob("*.py")}
    return {".".join(parts): path.read_text(encoding="utf-8") for path, parts in sorted(names.items())}


def shown(found: list[str], reason: str = "") -> str:
    """Write what a check found, a line each, so that a failure shows all of it."""
    return "\n".join([reason, *found])


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Keep no module that was read for later tests."""
    yield
    nodes.cache_clear()


@cache
def nodes(text: str) -> list[ast.AST]:
    """Read a module once for all checks."""
    return list(ast.walk(ast.parse(text)))


def imports(module: str, text: str) -> Iterator[tuple[int, str]]:
    """Find what a module imports, wherever the import stands: the line, and the full dotted name."""
    for node in nodes(text):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=source, names=names, level=level):
                above = module.split(".")[: -level or None] if level else []
                prefix = ".".join([*above, *([source] if source else [])])
                yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in names)


def layers() -> dict[str, int]:
    """Read the rank of each module of the package, 0 on top, from the table that import-linter reads too."""
    table = rooms.rows_of((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    return {name: rank for rank, layer in enumerate(table) for name in layer}


def against_layers(modules: dict[str, str], ranks: dict[str, int], dialects: set[str]) -> list[str]:
    """Name each import that goes up or sideways, and each module that has no layer."""
    found = []
    for module, text in modules.items():
        here = module.split(".")
        if here[1] == "__init__":
            continue
        if here[1] not in ranks:
            found.append(f"{module} has no layer: place it in [tool.importlinter] of pyproject.toml")
            continue
        for line, target in imports(module, text):
            there = target.split(".")
            if ".".join(there[:2]) in modules and there[1] not in ranks:
                continue  # it is named for itself
            if there[0] == "toolwire" and (why := _why_not(here, there, ranks, dialects)):
                found.append(f"{module}:{line} imports {target}: {why}")
    return found


def _why_not(here: list[str], there: list[str], ranks: dict[str, int], dialects: set[str]) -> str:
    if len(there) < 2 or there[1] not in ranks:
        return "" if here[1] == "cli" else "the root imports everything, so only the command line imports it"
    if here[1] == there[1] == "dialects":
        if len(here) > 2 and here[2] in dialects and there[2] in dialects - {here[2]}:
            return "a dialect never imports another dialect; what two need lies below both"
        return ""
    if ranks[there[1]] < ranks[here[1]]:
        return "imports point down, so that a layer can be read without those above it"
    if ranks[there[1]] == ranks[here[1]] and there[1] != here[1]:
        return "siblings do not import each other, so that each can be changed alone"
    return ""


def test_imports_point_down() -> None:
    found = against_layers(texts(), layers(), dialect_names())
    assert found == [], shown(found)


@pytest.mark.parametrize(
    ("module", "text", "reason"),
    [
        ("toolwire.types.parts", "from toolwire.streams import paths", "point down"),
        ("toolwire.types.parts", "def f():\n    import toolwire.streams", "point down"),
        ("toolwire.translation", "from toolwire import codetools", "siblings"),
        ("toolwire.translation", "from . import codetools", "siblings"),
        ("toolwire.translation.codec", "from ..codetools import kit", "siblings"),
        ("toolwire.client.sync", "from toolwire import translate", "point down"),
        ("toolwire.schema", "from toolwire import Tool", "the root imports everything"),
        ("toolwire.schema", "import toolwire", "the root imports everything"),
        ("toolwire.dialects.gemini.tools", "from toolwire.dialects.ollama import tools", "another dialect"),
        ("toolwire.dialects.gemini.tools", "from ..ollama.tools import x", "another dialect"),
        ("toolwire.gadget", "", "has no layer"),
    ],
)
def test_an_import_that_goes_up_or_sideways_is_reported(module: str, text: str, reason: str) -> None:
    [found] = against_layers({module: text}, layers(), {"gemini", "ollama"})
    assert reason in found


def test_an_import_that_goes_down_is_not_reported() -> None:
    modules = {
        "toolwire.cli": "import toolwire\nfrom toolwire import codec, types",
        "toolwire.dialects.gemini.tools": "import re\nfrom toolwire.types import Tool\nfrom .x import y",
        "toolwire.dialects.__init__": "from toolwire.dialects import gemini, ollama",
    }
    assert against_layers(modules, layers(), {"gemini", "ollama"}) == []


def circles(modules: dict[str, str]) -> list[str]:
    """Name each module that imports itself through others, at run time or for a type checker."""
    graph = {module: _imported(module, text, modules) for module, text in modules.items()}
    while free := [name for name in graph if graph[name].isdisjoint(graph) or _is_last(name, graph)]:
        for module in free:
            del graph[module]
    reason = "modules of a circle can only be read together: move what both need into a third one"
    return [f"{module} imports {', '.join(sorted(names & graph.keys()))}: {reason}" for module, names in graph.items()]


def _is_last(module: str, graph: dict[str, set[str]]) -> bool:
    """Return True if no module of `graph` imports `module`."""
    return not any(module in names for names in graph.values())


def _imported(module: str, text: str, modules: dict[str, str]) -> set[str]:
    """Find the modules of the package that a module imports: the longest known beginning of each name."""
    found = set()
    for _, target in imports(module, text):
        steps = target.split(".")
        names = [".".join(steps[:count]) for count in range(len(steps), 0, -1)]
        known = (name if name in modules else f"{name}.__init__" for name in names)
        found.add(next((name for name in known if name in modules), ""))
    return found - {module}


def test_no_module_imports_itself_through_others() -> None:
    found = circles(texts())
    assert found == [], shown(found)


def test_a_circle_of_imports_is_reported() -> None:
    chain = {
        "toolwire.a.x": "from toolwire.a.y import f",
        "toolwire.a.y": "import toolwire.b",
        "toolwire.b.__init__": "",
    }
    assert circles(chain) == []
    typed = "if TYPE_CHECKING:\n    from toolwire.a import x"
    found = circles({**chain, "toolwire.b.__init__": typed, "toolwire.c": "import toolwire.d", "toolwire.d": ""})
    assert [line.split()[0] for line in found] == ["toolwire.a.x", "toolwire.a.y", "toolwire.b.__init__"]
    assert "third" in found[0]


# Who may ask for a wire by its name, by the beginning of their names: where wires are, are set up, or are tried.
NAME_WIRES = tuple(f"toolwire.{room}." for room in ("cli", "config", "dialects", "providers", "testing"))
# Other places that compare a wire's name. At most two, each with its reason.
COMPARED: dict[str, str] = {}


def compared_wires(module: str, text: str) -> list[str]:
    """Name each comparison with the name of a wire: written there, or in a constant of the module."""
    constants = {
        name for node in _top(text) for name in _bound(node) if _names_a_wire(getattr(node, "value", None), ())
    }
    found = []
    for node in nodes(text):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
            case ast.MatchValue(value=value):
                sides = [value]
            case _:
                continue
        if any(_names_a_wire(side, constants) for side in sides):
            found.append(f"{module}:{sides[0].lineno} compares the name of a wire")
    return found


def _names_a_wire(node: ast.AST | None, constants: Collection[str]) -> bool:
    """Return True if an expression is the name of a wire, a collection of such names, or a constant that is one."""
    match node:
        case ast.Constant(value=value):
            return value in NAMES
        case ast.Name(id=name):
            return name in constants
        case ast.Set(elts=elements) | ast.Tuple(elts=elements) | ast.List(elts=elements):
            return any(_names_a_wire(element, constants) for element in elements)
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple"), args=[values]):
            return _names_a_wire(values, constants)
    return False


def test_no_wire_is_named_outside_its_dialect() -> None:
    modules = {name: text for name, text in texts().items() if not name.startswith(NAME_WIRES)}
    found = [line for name, text in modules.items() for line in compared_wires(name, text)]
    found = [line for line in found if line.partition(":")[0] not in COMPARED]
    reason = (
        "a case for one vendor stands in its dialect: add a trait to `WireTraits` (src/toolwire/encoding/traits.py) "
        "that says what is particular, set it in the dialect's `TRAITS`, and ask for `dialect.TRAITS` or "
        "`traits_of(name)`"
    )
    assert found == [], shown(found, reason)
    assert len(COMPARED) <= 2


@pytest.mark.parametrize(
    "text",
    [
        'x = wire == "gemini"',
        'def f(wire):\n    return wire.DIALECT != "ollama"',
        'x = "anthropic" == wire',
        'x = wire in ("gemini", "ollama")',
        'WIRES = frozenset({"openai-chat", "gemini"})\ndef f(wire):\n    return wire in WIRES',
        'WIRE = "openai-responses"\ndef f(wire):\n    return wire == WIRE',
        'x = {wire, there} <= {"openai-chat", "openai-responses"}',
        'match wire:\n    case "anthropic":\n        pass',
        'match wire:\n    case "anthropic" | "gemini" if x:\n        pass',
    ],
)
def test_a_comparison_with_a_wire_is_reported(text: str) -> None:
    assert len(set(compared_wires("toolwire.gateway.x", text))) == 1


def test_a_table_of_wires_is_not_reported() -> None:
    text = (
        'TABLE = {"/v1/messages": "anthropic"}\nx = TABLE[path] == wire\ny = TABLE.get("gemini")\nz = name == "openai"'
    )
    assert compared_wires("toolwire.gateway.x", text) == []


# What lives as long as the process: nothing of a conversation, and no name, text or schema of a caller.
CACHES = {
    "client.httpx.trusted": "the certificates that the system trusts",
    "client.options._plain_types": "the types of the settings",
    "codetools.fetching.system_trust": "the certificates that the system trusts",
    "codetools.ignoring._compile_rules": "the rules of the last files named .gitignore",
    "codetools.ripgrep._read_version": "the version of the program",
    "codetools.sandbox._features": "the options of the program",
    "codetools.sandbox._try_out": "whether the program works",
    "dialects._load": "the dialects",
    "encoding.families._family_of": "what is known of a model by its name",
    "encoding.families.rows": "a data file",
    "encoding.ledger._losses_of": "the losses of known keys",
    "encoding.severities.severity_of_loss": "the severities of concepts",
    "encoding.severities.severities_of_keys": "the severities of known keys",
    "page.rendering._environment": "the templates of the page",
    "page.rendering.asset": "the stylesheet, the script and the icon of the page",
    "providers.catalogue.built_in": "a data file",
    "scrubbing.fields.declared_fields": "the sensitive fields that were configured",
    "scrubbing.screening._usual_finders": "the patterns of keys",
    "testing.rules_anthropic.body_of": "the shapes of bodies",
    "text.checking.tools_of_cases": "a data file",
    "text.format._marked": "the marks of a format",
    "text.rows._names": "a data file",
    "text.rows._tables": "a data file",
    "text.rows.rows": "a data file",
    "text.rows.turn_marks": "a data file",
    "text.shapes.argument_values._end_before_marks": "the marks of a format",
    "text.writing._escape_patterns": "the marks of a format",
    "traces.tables.table": "the tables of a database",
    "traces.writer._install_hooks": "whether forks are waited for",
    "wire.names.read_grammar": "the grammars of ids that were configured",
    "waiting.process_marks.sweep_orphans": "whether orphans were looked for",
}


def caches(module: str, text: str) -> list[str]:
    """Name the functions of a module whose results are kept for the process."""
    here, found = module.removeprefix("toolwire.").removesuffix(".__init__"), []
    for node in _top(text):
        match node:
            case ast.FunctionDef(name=name, decorator_list=marks):
                found += [f"{here}.{name}" for mark in marks if _caches(mark)]
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func)) if _caches(func):
                found.append(f"{here}.{name}")
    return found


def _caches(mark: ast.expr) -> bool:
    name = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark).rpartition(".")[2]
    return name in {"cache", "lru_cache"}


def test_the_library_keeps_nothing_of_a_conversation_between_two_calls() -> None:
    library = {name: text for name, text in texts().items() if not name.startswith("toolwire.gateway.")}
    found = sorted(name for module, text in library.items() for name in caches(module, text))
    reason = (
        "a value of a caller belongs to the call, or to an object of the caller; a static table is listed in CACHES"
    )
    assert found == sorted(CACHES), reason


@pytest.mark.parametrize(
    "text",
    ["@cache\ndef f(): ...", "@functools.lru_cache(8)\ndef f(): ...", "f = lru_cache(1024)(g)", "f = cache(g)"],
)
def test_a_cache_is_reported(text: str) -> None:
    assert caches("toolwire.a.__init__", text) == ["a.f"]


def impurities(module: str, text: str) -> list[str]:
    """Name what a module does that depends on more than its arguments."""
    found = [
        f"{module}:{line} imports {target}: without I/O, clock and randomness the core can be replayed"
        for line, target in imports(module, text)
        if f"{target}.".startswith(tuple(f"{name}." for name in IMPURE_MODULES))
    ]
    for node in nodes(text):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                found.append(f"{module}:{node.lineno} calls {name}(): only the command line reads and prints")
    return found


@pytest.mark.row("R000-01")
def test_the_core_is_pure() -> None:
    pure = {name: text for name, text in texts().items() if not name.startswith(IMPURE)}
    assert {name.split(".")[1] for name in pure} >= set(PURE)
    found = [line for name, text in pure.items() for line in impurities(name, text)]
    assert found == [], shown(found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import time", "imports time"),
        ("from random import choice", "imports random.choice"),
        ("def f():\n    import asyncio.events", "imports asyncio.events"),
        ("import urllib.request", "imports urllib.request"),
        ("from urllib import request", "imports urllib.request"),
        ("def f(path):\n    return open(path)", "calls open()"),
        ("print('x')", "calls print()"),
    ],
)
def test_an_impurity_is_reported(text: str, reason: str) -> None:
    [found] = impurities("toolwire.types", text)
    assert reason in found


def test_what_is_pure_is_not_reported() -> None:
    assert impurities("toolwire.types", "import re, timeit\nfrom urllib.parse import quote\nself.open()") == []


def dialect_names() -> set[str]:
    return {path.parent.name for path in DIALECTS.glob("*/__init__.py")}


def test_dialects_have_the_same_files() -> None:
    files = {name: {path.name for path in (DIALECTS / name).glob("*.py")} for name in dialect_names()}
    union = FILES_OF_A_DIALECT.union(*files.values())
    lacking = {name: sorted(union - own) for name, own in files.items() if union != own}
    assert lacking == {}, "who knows one dialect knows them all: the same files in each (see ARCHITECTURE.md)"
    assert len(files) > 1, "there is nothing to compare"


@pytest.mark.parametrize("verb", VERBS)
def test_dialects_have_the_same_functions(verb: str) -> None:
    packages = {name: importlib.import_module(f"toolwire.dialects.{name}") for name in sorted(dialect_names())}
    lacking = [name for name, package in packages.items() if not callable(getattr(package, verb, None))]
    assert lacking == [], f"a dialect has {verb}, or it is not one"
    signatures = {name: str(inspect.signature(getattr(package, verb))) for name, package in packages.items()}
    assert len(set(signatures.values())) == 1, f"callers do not know which dialect they hold: {signatures}"


def public_names() -> set[str]:
    """Find what `toolwire` offers: what it lists, and what it holds that is not a module seen in passing."""
    held = {name: value for name, value in vars(toolwire).items() if not isinstance(value, ModuleType)}
    return {name for name in {*held, *dir(toolwire)} if not name.startswith("_") and _is_meant(name)}


def _is_meant(name: str) -> bool:
    return name in toolwire.__all__ or not isinstance(getattr(toolwire, name), ModuleType)


def test_public_names_are_listed() -> None:
    listed = public_names() - toolwire.__dict__["_UNLISTED"]
    assert sorted(toolwire.__all__) == sorted(listed), "__all__ is the promise: all of it, nothing else"
    assert [name for name in toolwire.__all__ if not hasattr(toolwire, name)] == []


def test_public_names_are_documented() -> None:
    page = REPOSITORY / "docs" / "public-names.md"
    if not page.is_file():
        pytest.skip("docs/public-names.md is not there, so there is nothing to compare the public names with")
    rows = re.findall(r"(?m)^\| *\[`(\w+)`\]", page.read_text(encoding="utf-8"))
    reason = "what is public is what is documented: one row `| [`name`](...) | ...` for each public name, and no other"
    assert sorted(rows) == sorted({*toolwire.__all__, *toolwire.__dict__["_UNLISTED"]}), reason


def test_the_house_has_few_rooms_and_each_name_one_meaning() -> None:
    modules = rooms.sources(rooms.files_now())
    assert len([name for name in modules if "/" not in name]) <= 12, "a file in the root is a door"
    assert len(rooms.folders_of(modules)) <= 40
    assert len(rooms.rows_of(rooms.files_now()["pyproject.toml"])) <= 15
    shared = rooms.shared_class_names(modules)
    assert len(shared) <= 10, shown([f"{name}: {', '.join(paths)}" for name, paths in shared.items()])


def test_a_name_with_two_meanings_is_reported() -> None:
    modules = {"a/x.py": "class Place: ...\nclass _Own: ...", "b/y.py": "class Place: ...\nclass _Own: ..."}
    assert rooms.shared_class_names(modules) == {"Place": ["a/x.py", "b/y.py"]}
    assert rooms.folders_of(modules) == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ('"""Say."""\n\nx = 1  # why\n# what\n', 1, 2),
        ('def f():\n    """Say\n    more."""\n    return """a\n\n    b"""\n', 4, 2),
        ("", 0, 0),
    ],
)
def test_lines_of_code_are_told_from_words(text: str, code: int, words: int) -> None:
    assert rooms.lines_of(text)[2:] == (code, words)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["rooms", "rows"])
def test_a_table_that_nobody_reads_to_its_end_is_no_error(script: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    path = REPOSITORY / "scripts" / f"{script}.py"
    done = subprocess.run([sys.executable, str(path)], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.stderr == b""


def names_of_its_own(modules: dict[str, str], others: list[str]) -> list[str]:
    """List the public names of modules that stand in no other file: what only its own file uses is private by name."""
    words = {name: set(re.findall(r"\w+", text)) for name, text in modules.items()}
    files = Counter(
        word for each in [*words.values(), *({*re.findall(r"\w+", text)} for text in others)] for word in each
    )
    return [
        f"{module} {name}"
        for module, text in modules.items()
        for node in _top(text)
        for name in _bound(node)
        if files[name] == 1 and not name.startswith("_")
    ]


def _top(text: str) -> list[ast.stmt]:
    module = nodes(text)[0]
    return module.body if isinstance(module, ast.Module) else []


def _bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


# Written by others' rules: Alembic and pytest find these by their names.
FOUND_BY_NAME = ("toolwire.traces.migrations", "toolwire.testing.pytest_plugin")


def test_what_only_its_own_file_uses_is_private() -> None:
    modules = {name: text for name, text in texts().items() if not name.startswith(FOUND_BY_NAME)}
    files = [path for name in ("tests", "bench", "examples", "scripts") for path in (REPOSITORY / name).rglob("*.py")]
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    found = names_of_its_own(modules, [path.read_text("utf-8") for path in [*files, *pages]])
    assert found == [], shown(found, "what no other file uses begins with an underscore")


def test_a_name_that_nobody_else_uses_is_reported() -> None:
    modules = {"a": "LIMIT = 1\nclass Used: ...\ndef _own(): ...", "b": "from a import Used\ndef lonely(): ..."}
    assert names_of_its_own(modules, ["# lonely_not"]) == ["a LIMIT", "b lonely"]


# Not ru_maxrss where there is better: Linux hands to a child the peak of the process that started it.
MEASURE = """
import sys, time
spent, modules = time.process_time(), list(sys.modules)
try:
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    kilobytes = int(status["VmHWM"].split()[0])
except OSError:
    import resource
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
import json
print(json.dumps([spent, kilobytes, modules]))
"""


def cost(statement: str, runs: int = 6) -> tuple[float, float, set[str]]:
    """Run a statement in new interpreters: the least milliseconds and megabytes, and the modules."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(SOURCE.parent)
    command = [sys.executable, "-c", statement + MEASURE]
    outputs = [subprocess.check_output(command, env=environment, timeout=60) for _ in range(runs)]
    spent, kilobytes, modules = zip(*map(json.loads, outputs), strict=True)
    return min(spent) * 1000, min(kilobytes) / 1024, set(modules[0])


def heavy(modules: set[str]) -> list[str]:
    return sorted(name for name in modules if name.split(".")[0] in HEAVY)


@pytest.mark.row("R002-14")
def test_the_import_is_light() -> None:
    bare, own = cost("pass"), cost("import toolwire")
    assert heavy(own[2] - bare[2]) == [], "a client, a database and vendors are loaded when they are used"
    spent, most = own[0] - bare[0], float(IMPORT_MILLISECONDS)
    if spent > most:
        most = max(most, IMPORT_SHARE * (cost(IMPORT_PEERS)[0] - bare[0]))
    assert spent <= most, "milliseconds: every command line and worker pays for the import"
    assert own[1] - bare[1] <= IMPORT_MEGABYTES, "megabytes: every worker pays for the import"


def test_a_heavy_import_is_reported() -> None:
    bare, loaded = cost("pass", runs=1), cost("import asyncio, sqlite3\nx = b'x' * 30_000_000", runs=1)
    assert {"asyncio", "sqlite3", "ssl"} <= set(heavy(loaded[2] - bare[2]))
    assert loaded[1] - bare[1] > IMPORT_MEGABYTES
    assert loaded[0] > bare[0]


RESIDUE = re.compile(r"(?<![\w.])/(?:work|tmp|root|home/\w+|Users/\w+)/|\b(?:TO[D]O|FIX[M]E|W[I]P)\b")


def repository_files() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    if (REPOSITORY / ".git").exists():
        listed = subprocess.check_output(command, cwd=REPOSITORY, text=True).split("\0")
        return [path for name in listed if (path := REPOSITORY / name).is_file()]
    made = re.compile(r"/(?:__pycache__|\.venv[^/]*|\.hypothesis|\.\w+_cache|dist)/")
    return [path for path in REPOSITORY.rglob("*") if path.is_file() and not made.search(str(path))]


def residue(path: str, text: str) -> list[str]:
    """Name each line that holds a path of a machine, or a promise to do the work later."""
    lines = enumerate(text.splitlines() if RESIDUE.search(text) else (), start=1)
    return [f"{path}:{number} {found[0]}" for number, line in lines if (found := RESIDUE.search(line))]


def test_no_residue() -> None:
    files = {path.relative_to(REPOSITORY): path.read_text("utf-8", errors="replace") for path in repository_files()}
    assert Path("pyproject.toml") in files
    found = [line for path, text in files.items() for line in residue(str(path), text)]
    reason = "a repository says what the project is, not where it was made or what is still missing"
    assert found == [], shown(found, reason)


@pytest.mark.parametrize("text", ["cd /{}/x", "# {}: later", "open('/home/{}/x')"])
def test_residue_is_reported(text: str) -> None:
    word = "ODOT"[::-1] if "later" in text else "tmp"
    assert len(residue("x.md", f"fine\n{text.format(word)}\nhttps://example.org/work/")) == 1


def missing_paths(text: str) -> list[str]:
    """Name each path that a document speaks of and that is not there."""
    named = re.findall(
        r"`((?:bench|docs|examples|requirements|scripts|src|tests)/[\w./-]*|\w+\.(?:md|toml|lock))`", text
    )
    return [path for path in named if not (REPOSITORY / path).exists()]


def test_documents_speak_of_files_that_are_there() -> None:
    documents = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")]
    found = {path.name: missing_paths(path.read_text("utf-8")) for path in documents}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_a_path_that_is_not_there_is_reported() -> None:
    assert missing_paths("`src/toolwire/`, `pyproject.toml`, `src/gadget.py`, `utils`") == ["src/gadget.py"]
