"""What is wrong with a file is told with its file, line, column and field, all of it at once."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolwire import declarations
from toolwire.errors import DeclarationError, InvalidField, MissingExtra, UserError

GOOD = "description: d, parameters: {type: object}"


@pytest.fixture(params=["libyaml", "pure Python"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("this PyYAML was built without libyaml")


def problems(text: str | bytes, name: str = "tools.yaml") -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        declarations.loads(text, name=name, handlers=False)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    assert caught.value.path == caught.value.problems[0].field
    return [str(problem).removeprefix(f"{name}:") for problem in caught.value.problems]


FIELDS = [
    ("5", "1:1: must be a map with tools and resolvers, or a list of tools, not 5"),
    ("", "1:1: is empty; it must be a map with tools and resolvers, or a list of tools"),
    ("# nothing", "1:1: is empty; it must be a map with tools and resolvers, or a list of tools"),
    ("tolls: []", "1:1: tolls: is not a key here; did you mean tools?"),
    ("tools: []\nwidgets: []", "2:1: widgets: is not a key here; known: resolvers, tools"),
    ("tools: 5", "1:1: tools: must be a list, not 5"),
    ("tools:\n  - 5", "2:5: tools[0]: must be a map, not 5"),
    ("t:\n  - 5", "1:1: t: is not a key here; known: resolvers, tools"),
    ("tools:\n  t: [5]", "2:3: tools.t: must be a map, not a list"),
    ("- {}", "1:3: [0]: needs name, description, parameters"),
    ("- {name: a, description: d}", "1:3: [0]: needs parameters"),
    ("t: {parameters: {}}", "1:1: t: needs description"),
    (
        "- {name: a, handler: x:y}",
        "1:3: [0]: needs description, parameters; its handler may declare it, but handlers are not loaded",
    ),
    (f"- {{name: 5, {GOOD}}}", "1:4: [0].name: must be a text that is not empty, not 5; put it in quotes"),
    (f"- {{name: '', {GOOD}}}", '1:4: [0].name: must be a text that is not empty, not ""'),
    ("a:\n  name: b\n  description: d\n  parameters: {}", '2:3: a.name: must be "a", as its key is'),
    ("t: {description: [d], parameters: {}}", "1:5: t.description: must be a text, not a list"),
    ("t:\n  description: d\n  parameters: 5", "3:3: t.parameters: must be a map, not 5"),
    ("t:\n  description: d\n  parameter: {}", "3:3: t.parameter: is not a key here; did you mean parameters?"),
    ("t: {description: d, inputSchema: []}", "1:21: t.inputSchema: must be a map, not a list"),
    (
        "t: {description: d, parameters: {}, inputSchema: {type: object}}",
        "1:37: t.parameters: must be given under one of parameters, input_schema, ",
    ),
    (f"t: {{{GOOD}, strict: 1}}", "1:49: t.strict: must be true or false, not 1"),
    (
        f"t: {{{GOOD}, strict: yes}}",
        '1:49: t.strict: must be true or false, not "yes", which is a text; write true',
    ),
    (
        f"t: {{{GOOD}, custom: Off}}",
        '1:49: t.custom: must be true or false, not "Off", which is a text; write false',
    ),
    (
        f"t: {{{GOOD}, metadata: {{parallel: 1}}}}",
        "1:60: t.metadata.parallel: must be true or false, not 1",
    ),
    (
        f"t: {{{GOOD}, metadata: {{timeout: 1_000}}}}",
        '1:60: t.metadata.timeout: must be a number above 0, not "1_000"',
    ),
    (
        f"t: {{{GOOD}, metadata: {{output_limit: 0}}}}",
        "1:60: t.metadata.output_limit: must be a number above 0, not 0",
    ),
    (f"t: {{{GOOD}, title: T, metadata: {{title: t}}}}", "1:49: t.title: is also given in metadata; "),
    (f"t: {{{GOOD}, sensitive_fields: key}}", '1:49: t.sensitive_fields: must be a list of texts, not "key"'),
    (
        f"t: {{{GOOD}, sensitive_fields: [key, 5]}}",
        "1:73: t.sensitive_fields[1]: must be a text that is not empty, not 5; put it in quotes",
    ),
    (f"t: {{{GOOD}, type: web_search}}", '1:49: t.type: must be function or custom, not "web_search"'),
    (f"t: {{{GOOD}, kind: server_tool}}", '1:49: t.kind: must be tool, not "server_tool"'),
    (f"t: {{{GOOD}, cache_control: {{type: x}}}}", '1:65: t.cache_control.type: must be ephemeral, not "x"'),
    (f"t: {{{GOOD}, opaque: {{}}}}", "1:49: t.opaque: needs a dialect"),
    (
        "- {function: {name: a, parameters: {}}, name: b}",
        "1:41: [0].name: is also given in function; remove one of them",
    ),
    (
        "- {function: {name: a, parameters: {}, handler: x:y}}",
        "1:40: [0].function.handler: is not a key here; known: description, inputSchema, input_schema, ",
    ),
    (
        "t:\n  description: d\n  parameters:\n    properties:\n      q: {type: any}",
        "5:11: t.parameters.properties.q.type: unknown type 'any'; the types are string, number, ",
    ),
    (
        "t: {description: d, parameters: {type: string}}",
        "1:34: t.parameters.type: the parameters of a tool are an object, not string; make it a property",
    ),
    (
        "t: {description: d, parameters: {properties: {a: {$ref: '#/x'}}}}",
        "1:47: t.parameters.properties.a: $ref '#/x' points to no schema in this document",
    ),
    (f"a.b: {{{GOOD}, x y: 1}}", '1:51: ["a.b"]["x y"]: is not a key here; known: '),
    ("resolvers: {}", "1:1: resolvers: must be a list, not a map"),
    ("resolvers: [5]", "1:13: resolvers[0]: must be a map, not 5"),
    ("resolvers: [{}]", "1:13: resolvers[0]: needs a resolver: an import path like my_app.tools:resolver"),
    ("resolvers: [{resolver: 5}]", "1:14: resolvers[0].resolver: must be a text, not 5; put it in quotes"),
    ("resolvers: [{resolver: 'a:b', onyl: []}]", "1:31: resolvers[0].onyl: is not a key here; did you mean "),
    ("resolvers: [{resolver: 'a:b', only: a}]", '1:31: resolvers[0].only: must be a list of texts, not "a"'),
    (
        "resolvers: [{resolver: 'a:b', rename: [a]}]",
        "1:31: resolvers[0].rename: must be a map of old names to new ones, not a list",
    ),
    (
        "resolvers: [{resolver: 'a:b', rename: {a: 1}}]",
        "1:40: resolvers[0].rename.a: must be a text that is not empty, not 1; put it in quotes",
    ),
    (
        "resolvers: [{resolver: 'a:b', prefix: ''}]",
        '1:31: resolvers[0].prefix: must be a text that is not empty, not ""',
    ),
]
SHAPE = "must be an import path like my_app.tools:search, not"
PATHS = [
    ("os.system", f"{SHAPE} 'os.system'"),
    ("a:", f"{SHAPE} 'a:'"),
    (":a", f"{SHAPE} ':a'"),
    (".a:b", f"{SHAPE} '.a:b'"),
    ("..a:b", f"{SHAPE} '..a:b'"),
    ("a:b:c", f"{SHAPE} 'a:b:c'"),
    ("a:b()", f"{SHAPE} 'a:b()'"),
    ("a:b[0]", f"{SHAPE} 'a:b[0]'"),
    ("a b:c", f"{SHAPE} 'a b:c'"),
    ("a/b:c", f"{SHAPE} 'a/b:c'"),
    ("../a:b", f"{SHAPE} '../a:b'"),
    ("", f"{SHAPE} ''"),
    ("a:b.__class__", "has a name that begins with __: 'a:b.__class__'"),
    ("__main__:b", "has a name that begins with __: '__main__:b'"),
    ("a.__init__:b", "has a name that begins with __: 'a.__init__:b'"),
    ("builtins:eval", "the module builtins can access the whole machine; add it to allow to import it"),
    ("os:system", "the module os can access the whole machine; add it to allow to import it"),
    ("os.path:join", "the module os.path can access the whole machine; add it to allow to import it"),
    ("subprocess:run", "the module subprocess can access the whole machine; add it to allow to import it"),
]
WORDS = [
    ("a: [", "is not YAML: "),
    ("a: b: c", "1:5: is not YAML: mapping values are not allowed "),
    ("a: 'x", "is not YAML: "),
    ("a:\n\t- b", "2:1: a: is not YAML: found character"),
    ("a: @b", "1:4: a: is not YAML: found character"),
    ("a: b\x07", "1:5: is not YAML: it has the character '\\x07'"),
    ("a: 1\na: 2", '2:1: has the key "a" twice; it stands in line 1 already'),
    ("a: {b: 1, c: 2, b: 3}", '1:17: a: has the key "b" twice; it stands in line 1 already'),
    ('yes: 1\n"yes": 2', '2:1: has the key "yes" twice; it stands in line 1 already'),
    ("1: a", '1:1: 1 cannot be a key; write "1"'),
    ("a: {true: 1}", '1:5: a: true cannot be a key; write "true"'),
    ("a: {null: 1}", '1:5: a: null cannot be a key; write "null"'),
    ("a: {1.5: 1}", '1:5: a: 1.5 cannot be a key; write "1.5"'),
    ("? [a]\n: b", "1:3: a list cannot be a key; a key is a text"),
    ("? {a: b}\n: b", "1:3: a map cannot be a key; a key is a text"),
    ("a: .inf", "1:4: a: must be a number that JSON has, not .inf"),
    ("a: -.INF", "1:4: a: must be a number that JSON has, not -.INF"),
    ("a: [.nan]", "1:5: a[0]: must be a number that JSON has, not .nan"),
    ("a: 1.0e+999", "1:4: a: has a number that is too large or too long: 1.0e+999"),
    (f"a: {'9' * 400}", "1:4: a: has a number that is too large or too long: 99999999999999999999..."),
    ("a: 010", '1:4: a: 010 is read differently by YAML 1.1 and 1.2; write 10, or "010" for a text'),
    ("a: 08", '1:4: a: 08 is read differently by YAML 1.1 and 1.2; write 8, or "08" for a text'),
    ("a: 0o17", '1:4: a: 0o17 is read differently by YAML 1.1 and 1.2; write 15, or "0o17" for a text'),
    ("a: 1e3", '1:4: a: 1e3 is read differently by YAML 1.1 and 1.2; write 1000.0, or "1e3" for a text'),
    ("a: 1e30", '1:4: a: 1e30 is read differently by YAML 1.1 and 1.2; write 1.0e+30, or "1e30" for a text'),
    ("a: +.5", '1:4: a: +.5 is read differently by YAML 1.1 and 1.2; write 0.5, or "+.5" for a text'),
    ("<<: {a: 1}", "1:1: has the merge key <<, which YAML 1.2 does not know; write out what it merges"),
    ("a: !!python/name:os.system x", "1:4: a: has the tag !!python/name:os.system; tags are not supported"),
    ("a: !!str 5", "1:4: a: has the tag !!str; tags are not supported: write a text in quotes"),
    ("a: !mine {b: 1}", "1:4: a: has the tag !mine; tags are not supported"),
    ("a: *b", "1:4: a: the alias *b has no anchor &b before it"),
    ("a: &a {b: *a}", "a.b: the alias *a is inside the value that it repeats"),
    ("a: 1\n---\nb: 2", "2:1: has a second document; a file of declarations has only one"),
    ("%YAML 1.1\n---\na: yes", "declares YAML 1.1; only YAML 1.2 is supported"),
]
NO_VALUES = ("NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1", "0x1", "1_0", "nul")
JSON: list[tuple[Any, str]] = [
    ("", "1:1: is not JSON: expected a value here, but the file ends"),
    ("[", '1:2: [0]: is not JSON: expected a value or "]" here, but the file ends'),
    ("[1,]", "1:4: [1]: is not JSON: expected a value here, not ]"),
    ('{"a": 1,\n}', '2:1: is not JSON: expected a key in "quotes" here, not }'),
    ('{"a" 1}', '1:6: a: is not JSON: expected ":" here, not 1'),
    ('{"a": {"b": 1 "c": 2}}', '1:15: a: is not JSON: expected "," or the end here, not "c"'),
    ("{'a': 1}", '1:2: is not JSON: expected a key in "quotes" or "}" here, not \''),
    ("{a: 1}", '1:2: is not JSON: expected a key in "quotes" or "}" here, not a'),
    ("[1}", '1:3: [1]: is not JSON: expected "," or the end here, not }'),
    ("[] []", "1:4: is not JSON: expected the end of the file here, not ["),
    ("[]\nx", "2:1: is not JSON: expected the end of the file here, not x"),
    ("// c\n[]", "1:1: is not JSON: / is no value"),
    ('["a\nb"]', "1:2: [0]: is not JSON: a text that does not end in its line is no value"),
    ('["\\x"]', '1:2: [0]: is not JSON: "\\x" has an escape that JSON does not have'),
    ("[True]", "1:2: [0]: is not JSON: True is no value"),
    *[(f"[{word}]", f"1:2: [0]: is not JSON: {word} is no value") for word in NO_VALUES],
    ("[1e999]", "1:2: [0]: has a number that is too large or too long: 1e999"),
    ('{"a": 1,\n "a": 2}', '2:2: has the key "a" twice; it stands in line 1 already'),
    ('{"a": 1, "\\u0061": 2}', '1:10: has the key "a" twice; it stands in line 1 already'),
    ('["\\ud800"]', "1:2: [0]: has half of a surrogate pair; write the character itself"),
    (b'["\xff"]', "1:3: must be UTF-8: the byte 0xff is not"),
    ('[\n  {"name": "é", "x": 1}]', "2:17: [0].x: is not a key here; known: "),
]


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(("text", "message"), FIELDS)
def test_a_wrong_field_is_told_with_its_place(text: str, message: str) -> None:
    [told] = problems(text)
    assert told == message or (message.endswith(" ") and told.startswith(message))


@pytest.mark.parametrize(("path", "reason"), PATHS)
def test_an_import_path_is_checked_before_anything_is_imported(path: str, reason: str) -> None:
    assert problems(f't: {{{GOOD}, handler: "{path}"}}') == [f"1:49: t.handler: {reason}"]
    told = problems(json.dumps({"resolvers": [{"resolver": path}]}), "tools.json")
    assert told == [f"1:17: resolvers[0].resolver: {reason}"]


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(("text", "message"), WORDS)
def test_yaml_that_is_refused_is_told_with_its_place(text: str, message: str) -> None:
    [told] = problems(text)
    assert told.startswith(message) or (not message[0].isdigit() and message in told)


@pytest.mark.parametrize(("text", "message"), JSON)
def test_json_that_is_refused_is_told_with_its_place(text: str | bytes, message: str) -> None:
    [told] = problems(text, "tools.json")
    assert told == message or (message.endswith(" ") and told.startswith(message))


def test_json_that_is_refused_is_no_json_for_others_either() -> None:
    lenient = {"[1e999]", '{"a": 1,\n "a": 2}', '{"a": 1, "\\u0061": 2}', '["\\ud800"]'}
    for text, _ in JSON[:-1]:
        if text not in lenient:
            with pytest.raises(ValueError, match=r".*"):
                json.loads(text, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = "tools:\n  - {name: 5}\n  - {name: a, description: d}\nresolvers: 5\nx: 1"
    assert [told.split(": ")[0] for told in problems(text)] == ["2:6", "3:5", "4:1", "5:1"]
    told = problems("a: 010\nb: .inf\nc: !t x\n1: 2")
    assert [each[:6] for each in told] == ["1:4: a", "2:4: b", "3:4: c", "4:1: 1"]


def test_a_problem_has_its_parts() -> None:
    with pytest.raises(DeclarationError) as caught:
        declarations.loads("tools:\n  - parameters: 5", name="x/tools.yaml", handlers=False)
    [problem] = caught.value.problems
    assert (problem.name, problem.line, problem.column) == ("x/tools.yaml", 2, 5)
    assert (problem.field, problem.reason) == ("tools[0].parameters", "must be a map, not 5")
    assert isinstance(caught.value, UserError)
    assert isinstance(caught.value, ValueError)


def test_no_more_than_a_hundred_problems_are_told() -> None:
    told = problems("".join(f"- {{nam{number}: 1}}\n" for number in range(500)))
    assert len(told) == 100
    assert told[-1].endswith(" (no more problems are looked for)")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(DeclarationError, match="cannot be read: ") as caught:
            declarations.load(path)
        assert isinstance(caught.value.__cause__, OSError)
    (tmp_path / "tools.toml").write_text("x = 1")
    with pytest.raises(DeclarationError, match=r"tools\.toml:1:1: must end in \.yaml, \.yml or \.json"):
        declarations.load(tmp_path / "tools.toml")


def test_allow_is_a_list() -> None:
    with pytest.raises(InvalidField, match="allow must be a list of modules"):
        declarations.loads("[]", allow="my_app")


def test_yaml_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(MissingExtra, match=r"pip install 'toolwire\[tools\]'") as caught:
        declarations.loads("[]")
    assert isinstance(caught.value, ImportError)
    assert declarations.loads("[]", name="tools.json").tools == []
