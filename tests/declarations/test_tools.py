"""The tools that files declare, in YAML and in JSON, in every spelling, without importing anything."""

import json
from typing import Any

import msgspec
import pytest
import yaml

from toolwire import Tool, declarations
from toolwire.types import Cache, Opaque
from toolwire.types.spelling.anthropic import MessagesToolSpelling

QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
SEARCH = Tool("search", "Search", QUERY)
PLAIN = {"name": "search", "description": "Search", "parameters": QUERY}


def read(text: str, name: str = "tools.yaml") -> list[Tool]:
    return declarations.loads(text, name=name, handlers=False).tools


SPELLINGS: dict[str, tuple[Any, list[Tool]]] = {
    "tools": ({"tools": [PLAIN]}, [SEARCH]),
    "a list": ([PLAIN], [SEARCH]),
    "by name": ({"search": {"description": "Search", "parameters": QUERY}}, [SEARCH]),
    "tools by name": ({"tools": {"search": {"description": "Search", "parameters": QUERY}}}, [SEARCH]),
    "by name, named": ({"search": PLAIN}, [SEARCH]),
    "OpenAI": ([{"type": "function", "function": PLAIN}], [SEARCH]),
    "Responses": (
        [{"type": "function", **PLAIN, "strict": True}],
        [Tool("search", "Search", QUERY, {}, True)],
    ),
    "OpenAI, no description": (
        [{"type": "function", "function": {"name": "search", "parameters": QUERY}}],
        [Tool("search", None, QUERY)],
    ),
    "Anthropic": (
        [{"type": "custom", "name": "search", "description": "Search", "input_schema": QUERY}],
        [SEARCH],
    ),
    "Anthropic, cached": (
        [
            {
                "name": "search",
                "description": "Search",
                "input_schema": QUERY,
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
        ],
        [Tool("search", "Search", QUERY, cache=Cache("1h"))],
    ),
    "MCP": ({"tools": [{"name": "search", "inputSchema": QUERY}]}, [Tool("search", None, QUERY)]),
    "MCP, annotated": (
        {"tools": [{"name": "search", "title": "S", "inputSchema": QUERY, "annotations": {"readOnlyHint": True}}]},
        [Tool("search", None, QUERY, {"title": "S", "annotations": {"readOnlyHint": True}})],
    ),
    "null is absent": (
        [{**PLAIN, "strict": None, "metadata": None, "handler": None, "input_schema": None}],
        [SEARCH],
    ),
    "metadata": (
        [{**PLAIN, "metadata": {"parallel": True, "timeout": 2.5, "output_limit": 10, "owner": ["a", None]}}],
        [
            Tool(
                "search",
                "Search",
                QUERY,
                {"parallel": True, "timeout": 2.5, "output_limit": 10, "owner": ["a", None]},
            )
        ],
    ),
    "custom": (
        [{"name": "sql", "description": "Run", "custom": True, "format": {"type": "text"}}],
        [Tool("sql", "Run", custom=True, format={"type": "text"})],
    ),
    "a handler that is not asked for": ([{**PLAIN, "handler": "no.such.module:search"}], [SEARCH]),
    "a resolver that is not asked for": (
        {"tools": [PLAIN], "resolvers": [{"resolver": "no.such:r"}]},
        [SEARCH],
    ),
    "nothing": ({}, []),
    "no tools": ({"tools": None}, []),
    "an empty list": ([], []),
}


@pytest.mark.parametrize("case", SPELLINGS)
def test_a_spelling_is_read_alike_from_yaml_and_json(case: str) -> None:
    given, tools = SPELLINGS[case]
    assert read(json.dumps(given), "tools.json") == tools
    assert read(json.dumps(given, indent=2, ensure_ascii=False), "tools.json") == tools
    assert read(yaml.safe_dump(given, sort_keys=False)) == tools
    assert read(json.dumps(given), "tools.yml") == tools, "JSON is YAML"


@pytest.mark.parametrize("case", sorted(SPELLINGS.keys() - {"MCP, annotated", "Anthropic, cached"}))
@pytest.mark.row("R002-44")
def test_a_file_says_what_from_map_says(case: str) -> None:
    given, tools = SPELLINGS[case]
    listed = given if isinstance(given, list) else given.get("tools")
    if isinstance(listed, list) and not any(tool.custom for tool in tools):
        assert [Tool.from_map(each) for each in listed] == tools
        assert [Tool.from_map(each) for each in yaml.safe_load(yaml.safe_dump(listed))] == tools


NASTY = {
    "type": "object",
    "properties": {
        "on": {"enum": ["yes", "no", "off", "2024-01-01", "1_000", "12:30", "010", "~", "null", "1.5", ""]},
        "a.b [c]": {"type": "string", "description": "é ☃ 𝄞 \u2028 tab\t line\nnext: # 'x' \"y\" \\"},
        "n": {"enum": [0, -1, 1.5, 1e300, 2**64, True, False, None, [], {}]},
        "": {},
    },
    "required": ["on"],
}
ROUND_TRIPS = [
    SEARCH,
    Tool("a b/ü", "Line\nnext", NASTY),
    Tool("strict", "S", QUERY, {"parallel": True, "tags": ["a"], "depth": {"n": None}}, False),
    Tool("cached", "C", QUERY, cache=Cache()),
    Tool("cached", "C", QUERY, cache=Cache("5m")),
    Tool("theirs", "T", QUERY, opaque=Opaque("anthropic", {"x": [1]}, MessagesToolSpelling(is_escaped=True))),
    Tool("free", "F", custom=True, format={"type": "grammar", "syntax": "lark"}),
]


@pytest.mark.parametrize("tool", ROUND_TRIPS, ids=lambda tool: tool.name)
@pytest.mark.row("R002-45", "4.3.7")
def test_a_tool_comes_back_from_yaml_and_json(tool: Tool) -> None:  # configuration, storage
    stored = msgspec.json.encode(tool)
    assert msgspec.json.decode(stored, type=Tool) == tool
    assert read(f"[{stored.decode()}]", "tools.json") == [tool]
    plain = {key: value for key, value in msgspec.to_builtins(tool).items() if value is not None}
    assert read(yaml.safe_dump([plain], allow_unicode=True)) == [tool]
    assert read(yaml.safe_dump({"tools": {tool.name: plain}}, default_flow_style=True)) == [tool]


@pytest.mark.parametrize("tool", ROUND_TRIPS[:2], ids=lambda tool: tool.name)
@pytest.mark.row("R002-45", "4.3.7")
def test_a_tool_comes_back_from_an_mcp_listing(tool: Tool) -> None:  # an MCP listing
    listed = {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
    assert Tool.from_map(listed) == tool
    assert read(json.dumps({"tools": [listed]}), "listing.json") == [tool]
    assert read(yaml.safe_dump({"tools": [listed]})) == [tool]


SCALARS = [
    *[(word, word) for word in "no NO off on yes y N 2024-01-01 12:30 1_000 0b11 1,5 + . 1.2.3 0x 0o8 tRUE".split()],
    *[("true", True), ("True", True), ("TRUE", True), ("false", False), ("False", False), ("FALSE", False)],
    *[("null", None), ("Null", None), ("NULL", None), ("~", None), ("", None)],
    *[("0", 0), ("-0", 0), ("+5", 5), ("17", 17), ("0x1F", 31), (str(2**70), 2**70)],
    *[("1.5", 1.5), ("1.0e+3", 1000.0), (".5", 0.5), ("1.", 1.0), ("-1.5E-2", -0.015)],
    *[('"true"', "true"), ("'1'", "1"), ("'no'", "no"), ('"010"', "010"), ('"<<"', "<<"), ('""', "")],
    *[("|\n      a\n      b\n", "a\nb\n"), (">\n      a\n      b\n", "a b\n"), ('"a\\u00e9\\n"', "aé\n")],
]


@pytest.mark.parametrize(("written", "value"), SCALARS)
def test_scalars_are_read_as_yaml_1_2(written: str, value: Any) -> None:
    [tool] = read(f"t:\n  description: d\n  parameters: {{}}\n  metadata:\n    v: {written}\n    w: 1")
    assert tool.metadata == {"v": value, "w": 1}
    assert type(tool.metadata["v"]) is type(value)


@pytest.mark.parametrize("key", ["on", "no", "y", "2024-01-01", "1_000", "'1'", '"true"', "12:30"])
def test_a_key_is_text(key: str) -> None:
    [tool] = read(f"t: {{description: d, parameters: {{}}, metadata: {{{key}: 1}}}}")
    assert tool.metadata == {key.strip("'\""): 1}


def test_an_alias_gives_values_of_their_own() -> None:
    first, second = read("""
        a: {description: d, parameters: &schema {type: object, properties: {}}}
        b: {description: d, parameters: *schema}
    """)
    assert first.parameters == second.parameters == {"type": "object", "properties": {}}
    assert first.parameters is not second.parameters
    assert first.parameters["properties"] is not second.parameters["properties"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_marks_and_line_ends_are_no_content(newline: str, mark: str) -> None:
    yaml_text = f"{mark}search:{newline}  description: Search{newline}  parameters: {json.dumps(QUERY)}{newline}"
    assert declarations.loads(yaml_text.encode(), handlers=False).tools == [SEARCH]
    json_text = mark + json.dumps([PLAIN], indent=1).replace("\n", newline)
    assert declarations.loads(json_text.encode(), name="x.JSON", handlers=False).tools == [SEARCH]
