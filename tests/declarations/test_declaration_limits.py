"""No file costs more than its limits, and none runs anything: not when it is read, not when it is refused."""

import json
import sys
import tracemalloc
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.timing import within
from toolwire import declarations
from toolwire.declarations.nodes import MAX_BYTES, MAX_DEPTH
from toolwire.errors import DeclarationError

pytestmark = pytest.mark.slow  # what is given is large

LAUGHS = "\n".join(
    ["a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    + [f"{name}: &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 9)}]" for name in "bcdefghijklmnop"]
)
BOMBS = {
    "billion laughs": (LAUGHS, "yaml", "is too large: more than 200,000 values, with what aliases repeat"),
    "ten megabytes": ("- x\n" * 2_600_000, "yaml", "is too large: at most 2,097,152 bytes"),
    "ten megabytes of JSON": ("[" + "1," * 5_000_000 + "1]", "json", "is too large: at most 2,097,152 bytes"),
    "many values": ("[" + "1," * 210_000 + "1]", "json", "is too large: more than 200,000 values"),
    "many small lists": ("- []\n" * 400_000, "yaml", "is too large: more than 200,000 values"),
    "deep lists": ("[" * 1_000_000, "yaml", "is nested too deeply: at most 100 levels"),
    "deep blocks": ("- " * 1_000_000, "yaml", "is nested too deeply: at most 100 levels"),
    "deep keys": ("? " * 1_000_000, "yaml", "is nested too deeply: at most 100 levels"),
    "deep maps": ('{"a":' * 400_000, "json", "is nested too deeply: at most 100 levels"),
    "deep JSON": ("[" * 2_000_000, "json", "is nested too deeply: at most 100 levels"),
    "an open text": ('"' + "\\" * 2_000_000, "json", "a text that does not end in its line"),
    "many digits": ("1" * 2_000_000, "json", "has a number that is too large or too long"),
    "many octal digits": ("[0" + "1" * 2_000_000 + "]", "yaml", "is read differently by YAML 1.1 and 1.2"),
    "a long key": ('{"' + "k" * 2_000_000 + '": 1}', "json", "is not a key here; known: resolvers, tools"),
    "a long tag": ("- !" + "t" * 1_000_000 + " x", "yaml", "has the tag !ttt"),
    "many double keys": ("k: x\n" * 49_000, "yaml", 'has the key "k" twice'),
}


@pytest.mark.parametrize(
    "bomb",
    [pytest.param(name, marks=pytest.mark.slow if name == "many small lists" else ()) for name in BOMBS],
)
def test_a_bomb_is_refused_within_its_limits(bomb: str) -> None:
    text, ending, message = BOMBS[bomb]
    with within(5), pytest.raises(DeclarationError, match=message) as caught:
        declarations.loads(text, name=f"bomb.{ending}", handlers=False)
    assert len(str(caught.value)) < 100_000


def test_a_bomb_takes_no_memory() -> None:
    declarations.loads("[]", handlers=False)
    tracemalloc.start()
    try:
        for bomb in ("billion laughs", "ten megabytes", "deep lists", "deep JSON"):
            with pytest.raises(DeclarationError):
                declarations.loads(BOMBS[bomb][0], name=f"bomb.{BOMBS[bomb][1]}", handlers=False)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_the_laughs_would_be_a_billion() -> None:
    few = yaml.safe_load("\n".join(LAUGHS.splitlines()[:5]))
    assert str(few).count("lol") == sum(9**power for power in range(1, 6))


def test_a_large_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    with path.open("wb") as opened:
        opened.truncate(10 * 2**30)
    tracemalloc.start()
    try:
        with pytest.raises(DeclarationError, match="is too large: at most 2,097,152 bytes"):
            declarations.load(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_what_is_below_the_limits_is_read(ending: str) -> None:
    deep = "[" * (MAX_DEPTH - 4) + "]" * (MAX_DEPTH - 4)
    text = f'[{{"name": "a", "description": "d", "parameters": {{}}, "metadata": {{"x": [{deep}]}}}}]'
    [tool] = declarations.loads(text, name=f"tools.{ending}", handlers=False).tools
    assert str(tool.metadata["x"]) == f"[{deep}]"
    with pytest.raises(DeclarationError, match="too deeply"):
        declarations.loads(text.replace("[[", "[[[[").replace("]]", "]]]]"), name=f"x.{ending}")
    many = ", ".join(f'{{"name": "n{at}", "description": "d", "parameters": {{}}}}' for at in range(2000))
    assert len(declarations.loads(f"[{many}]", name=f"tools.{ending}", handlers=False).tools) == 2000


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_a_deep_file_is_read_near_the_recursion_limit(ending: str) -> None:
    text = '[{"name": "a", "description": "d", "parameters": {}, "metadata": {"x": ' + "[" * 90 + "]" * 90 + "}}]"

    def below(frames: int) -> int:
        return below(frames - 1) if frames else len(declarations.loads(text, name=f"x.{ending}").tools)

    assert below(sys.getrecursionlimit() - 500) == 1


MARKER = "import pathlib; pathlib.Path({!r}).write_text('ran')"
EXPLOITS = [
    '!!python/object/apply:exec ["{code}"]',
    '!!python/object/new:exec ["{code}"]',
    '- !!python/object/apply:builtins.exec\n  - "{code}"',
    '{{tools: [!!python/object/apply:exec ["{code}"]]}}',
    '? !!python/object/apply:exec ["{code}"]\n: 1',
]


@pytest.mark.parametrize("exploit", EXPLOITS)
def test_no_tag_runs_code(exploit: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    text = exploit.format(code=MARKER.format(str(marker)))
    with pytest.raises(DeclarationError, match=r"has the tag !!python/object/\w+:[\w.]+; tags are not supported"):
        declarations.loads(text)
    assert not marker.exists()
    if not text.startswith("?"):
        yaml.unsafe_load(text)
        assert marker.exists(), "the control: another loader runs it"


MODULE = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\ndef run(): 'Run.'\n"


@pytest.mark.parametrize(
    ("text", "options", "runs"),
    [
        ("- {name: a, description: d, parameters: {}, handler: 'declared_here:run'}", {}, True),
        (
            "- {name: a, description: d, parameters: {}, handler: 'declared_here:run'}",
            {"handlers": False},
            False,
        ),
        ("- {name: a, description: d, parameters: {}, handler: 'declared_here:run'}", {"allow": []}, False),
        (
            "- {name: a, description: d, parameters: {}, handler: 'declared_here:run'}",
            {"allow": ["declared"]},
            False,
        ),
        ("- {name: a, handler: 'declared_here:run'}\n- {nam: b}", {}, False),
        ("- {name: a, handler: 'declared_here:run'}\n- {name: b, handler: 'os:system'}", {}, False),
        ("- {name: a, handler: 'declared_here:run'}\n- {name: b, description: 010}", {}, False),
        ("resolvers: [{resolver: 'declared_here:run'}]", {"handlers": False}, False),
        ("resolvers: [{resolver: 'declared_here:run', onyl: []}]", {}, False),
    ],
)
def test_nothing_is_imported_before_the_whole_file_is_good(
    text: str, options: dict[str, object], runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "declared_here.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "declared_here", raising=False)
    try:
        declarations.loads(text, **options)  # type: ignore[arg-type]
    except DeclarationError:
        assert not runs
    assert (tmp_path / "declared_here.ran").exists() is runs
    assert ("declared_here" in sys.modules) is runs
    sys.modules.pop("declared_here", None)


WHOLE = """
tools:
  - name: search
    description: >
      Search
    parameters: &schema {type: object, properties: {query: {type: string, enum: [on, 1.5, ~, "x"]}}}
    metadata: {parallel: true, timeout: 30}
  - {name: other, inputSchema: *schema, sensitive_fields: [a]}
resolvers: []
"""
PIECES = st.sampled_from([*"{}[]:,-?&*!|>'\"%@#\n\t \\~.0", "&schema", "*schema", "<<", "---", "null", "1e3", "\ud800"])


@given(
    st.integers(0, len(WHOLE)),
    st.integers(0, 9),
    st.lists(PIECES, max_size=5),
    st.sampled_from(["yaml", "json"]),
)
def test_whatever_stands_in_a_file_gives_tools_or_problems_with_a_place(
    at: int, cut: int, pieces: list[str], ending: str
) -> None:
    given_text = WHOLE if ending == "yaml" else json.dumps(yaml.safe_load(WHOLE), indent=1)
    text = given_text[:at] + "".join(pieces) + given_text[at + cut :]
    found: tuple[declarations.Problem, ...] = ()
    try:
        declarations.loads(text, name=f"x.{ending}", handlers=False)
    except DeclarationError as problem:
        found = problem.problems
    lines = len(text.splitlines()) + 1
    assert [str(each) for each in found if not (1 <= each.line <= lines and each.column >= 1)] == []
