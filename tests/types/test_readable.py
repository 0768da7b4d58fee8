"""Many threads may be the first to read JSON as one class: msgspec has looked at it before."""

import ast
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "toolwire"
# What no class of ours is: msgspec keeps nothing of these.
PLAIN = frozenset({"Any", "Raw", "bytes", "dict", "float", "int", "list", "msgspec", "str", "tuple"})
# Names that stand for a class which was looked at elsewhere.
STAND_FOR = {
    ("client/options.py", "types[name]"),  # fields of a request
    ("client/options.py", "kind"),  # what its callers give
    ("client/saving.py", "form"),  # Saved, and what is made of it
    ("config/litellm.py", "name"),  # the name of a setting, and no type
    ("config/settings.py", "expected"),  # its _KINDS
    ("providers/catalogue.py", "struct"),  # its TypeVar names both
    ("resolvers/functions/annotations.py", "constructor"),  # no class with fields
    ("runs/records.py", "_TYPES[record['kind']]"),
    ("schema/conformance.py", "shape"),  # its _USUAL
    ("testing/written.py", "kind"),  # steps, and Error
    ("types/readable.py", "value_type"),
}


def trees() -> dict[str, ast.Module]:
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    words = ("readable", "type=", "convert(", "json.Decoder(", "value_of(")
    return {name: ast.parse(text) for name, text in texts.items() if any(word in text for word in words)}


def kinds_read(tree: ast.AST) -> Iterator[ast.expr]:
    """Give what stands for a type in each call of msgspec that a function makes."""
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    for call in (node for function in functions for node in ast.walk(function)):
        match call:
            case ast.Call(func=ast.Attribute(attr="convert") | ast.Name(id="convert"), args=[_, kind, *_]):
                yield kind
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="json"), attr="Decoder"), args=[kind, *_]):
                yield kind
            case ast.Call(func=ast.Name(id="value_of"), args=[kind, _, *_]):
                yield kind
            case ast.Call(func=ast.Attribute(attr="decode") | ast.Name(id="_read"), keywords=keywords):
                yield from (keyword.value for keyword in keywords if keyword.arg == "type")


def readable_in(tree: ast.Module) -> set[str]:
    """Name the classes of a module that are looked at while it is imported."""
    found: set[str] = set()
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name, decorator_list=[ast.Name(id="readable"), *_]):
                found.add(name)
            case ast.For(iter=ast.Tuple(elts=kinds), body=[ast.Expr(ast.Call(func=ast.Name(id="readable")))]):
                found |= {ast.unparse(kind) for kind in kinds}
    return found


def test_every_class_that_is_read_was_looked_at() -> None:
    known = trees()
    readable = {name for tree in known.values() for name in readable_in(tree)}
    assert {"Row", "StoredTurn", "Limit", "Family", "Timeouts", "Message"} <= readable
    read = [(file, kind) for file, tree in known.items() for kind in kinds_read(tree)]
    assert len(read) > 10
    unknown = [
        (file, ast.unparse(kind))
        for file, kind in read
        if (file, ast.unparse(kind)) not in STAND_FOR
        if not {node.id for node in ast.walk(kind) if isinstance(node, ast.Name)} <= PLAIN | readable
    ]
    assert unknown == []


# Each class holds one that is as new: while msgspec looks at the inner one, it has noted half of the outer one.
# `StructInfo_Convert` of msgspec 0.22.0 stores its record of a class before the record has the types of the fields, and
# runs Python code in between. Another thread that runs then calls `convert` with a field's type that is NULL.
RACE = """
import sys, threading
import msgspec
from toolwire.types.readable import readable
sys.setswitchinterval(1e-6)
for number in range(200):
    exec(f'''
class Inner{{number}}(msgspec.Struct):
    a: "int | None" = None
    b: "list[str] | None" = None
    c: "dict[str, list[str]] | None" = None
class Outer{{number}}(msgspec.Struct):
    inner: "Inner{{number}} | None" = None
    x: "int | None" = None
''', globals())
    kind = {look}(globals()[f"Outer{{number}}"])
    at_once = threading.Barrier(8)
    def read():
        at_once.wait()
        assert msgspec.convert({{"x": 1}}, kind).x == 1
    threads = [threading.Thread(target=read) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""


def raced(look: str) -> subprocess.CompletedProcess[str]:
    # The kernel logs a segmentation fault only where no handler is set, and this one is intended.
    program = [sys.executable, "-X", "faulthandler", "-c", RACE.format(look=look)]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=50)


@pytest.mark.slow
def test_threads_that_read_for_the_first_time_at_once() -> None:
    ran = raced("readable")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGSEGV"), reason="it is a signal of POSIX")
def test_control_without_it_the_process_ends() -> None:
    ran = raced("")
    if ran.returncode == 0:
        pytest.skip("this msgspec reads in threads: types/readable.py can go")
    assert ran.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in ran.stderr
