"""What models write instead of the protocol: read where it is asked for, and with the same care."""

from typing import Any

import pytest

from tests.text.tagged.texts import BLOCK
from toolwire import Message, Response, Tool
from toolwire.errors import InvalidField
from toolwire.text import format
from toolwire.text_tagged import READERS, over, parse
from toolwire.tool_calls import extract

PROPERTIES: dict[str, Any] = {
    "path": {"type": "string"},
    "limit": {"type": "integer"},
    "deep": {"type": "boolean"},
    "paths": {"type": "array"},
}
TOOLS = [Tool("read_file", "Read.", {"type": "object", "properties": PROPERTIES}), Tool("now", "Time.", {})]
CALL = '{"name": "read_file", "arguments": {"path": "/srv/foo"}}'
FOO = ("read_file", {"path": "/srv/foo"})

MANY = """\
<function=read_file>
<parameter=path>
a

b
</parameter>
<parameter=limit>5</parameter>
<parameter=deep>
true
</parameter>
<parameter=paths>
[1, 2]
</parameter>
</function>
Ok"""
READ: list[tuple[str, str, list[tuple[str, dict[str, Any]]], str]] = [
    ("tool_call_tag", f"<tool_call>\n{CALL}\n</tool_call>", [FOO], ""),
    ("tool_call_tag", f"<tool_call>{CALL}</tool_call>\n", [FOO], ""),
    (
        "tool_call_tag",
        f"Sure.\n<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>\nOk",
        [FOO, FOO],
        "Sure.\nOk",
    ),
    ("tool_call_tag", '<tool_call>\n{"name": "now", "parameters": {}}\n</tool_call>', [("now", {})], ""),
    (
        "tool_call_tag",
        '<tool_call>{"name": "read_file", "arguments": {"path": "</tool_call>"}}</tool_call>',
        [("read_file", {"path": "</tool_call>"})],
        "",
    ),
    (
        "tool_call_tag",
        "<tool_call>\n<function=read_file>\n<parameter=path>\n/srv/foo\n</parameter>\n</function>\n</tool_call>",
        [FOO],
        "",
    ),
    ("function_tag", '<function=read_file>{"path": "/srv/foo"}</function>', [FOO], ""),
    ("function_tag", "<function=now></function>", [("now", {})], ""),
    ("function_tag", "<function=now>\n</function>", [("now", {})], ""),
    (
        "function_tag",
        MANY,
        [("read_file", {"path": "a\n\nb", "limit": 5, "deep": True, "paths": [1, 2]})],
        "Ok",
    ),
    (
        "function_tag",
        "<function=read_file>\n<parameter=path>\n5\n</parameter>\n</function>",
        [("read_file", {"path": "5"})],
        "",
    ),
    (
        "function_tag",
        "<function=read_file>\n<parameter=limit>\nmany\n</parameter>\n</function>",
        [("read_file", {"limit": "many"})],
        "",
    ),
    (
        "function_tag",
        "<function=read_file>\n<parameter=path>\nx </parameter> y\n</parameter>\n</function>",
        [("read_file", {"path": "x </parameter> y"})],
        "",
    ),
    ("bare_json", CALL, [FOO], ""),
    ("bare_json", f"\n\n  {CALL}\n", [FOO], ""),
    ("bare_json", '{"name": "read_file", "parameters": {"path": "/srv/foo"}}', [FOO], ""),
    ("bare_json", f"<think>\nI call.\n</think>\n\n{CALL}", [FOO], "<think>\nI call.\n</think>\n\n"),
]


@pytest.mark.parametrize(("reader", "text", "calls", "words"), READ)
def test_a_reader_reads_its_form_and_only_where_it_is_asked_for(
    reader: str, text: str, calls: list[Any], words: str
) -> None:
    read = parse(text, TOOLS, readers=[reader])
    assert ([(call.name, call.arguments) for call in read.calls], read.text, read.ok) == (calls, words, True)
    others = [name for name in READERS if name != reader]
    for asked in ((), others if "<function=" not in text or reader == "function_tag" else ()):
        unread = parse(text, TOOLS, readers=asked)
        assert (unread.calls, unread.errors, unread.text) == ([], [], text)


@pytest.mark.parametrize(("reader", "text", "calls", "words"), READ)
def test_a_reader_reads_the_same_from_an_answer(reader: str, text: str, calls: list[Any], words: str) -> None:
    response = Response.of(Message("assistant", text), "stop")
    found = extract(response, {}, TOOLS, readers=[reader])
    assert ([(call.name, call.arguments) for call in found.calls], found.text) == (calls, words)
    wire = over("ollama", TOOLS, readers=[reader])
    body = {
        "model": "m",
        "message": {"role": "assistant", "content": text},
        "done": True,
        "done_reason": "stop",
    }
    read = wire.decode_response(body)
    assert [(call.name, call.arguments) for call in read.tool_calls] == calls
    assert wire.encode_response(read).body == body


WORD, COUNT = {"type": "string"}, {"type": "integer"}
TYPED: list[tuple[Any, str, Any]] = [
    ({"anyOf": [WORD, {"type": "null"}]}, "5", "5"),
    ({"oneOf": [COUNT, {"type": "null"}]}, "5", 5),
    ({"enum": ["5", "6"]}, "5", "5"),
    ({"$ref": "#/$defs/a~1b%25"}, "5", "5"),
    ({"$ref": "#/$defs/n"}, "5", 5),
    ({"$ref": "#/$defs/many/anyOf/1"}, "5", 5),
    ({"$ref": "#/$defs/none", "type": "integer"}, "5", 5),
    ({"$ref": "https://a.example/s.json", "type": "integer"}, "5", 5),
    ({"$ref": "#"}, '{"v": 5}', {"v": 5}),
]
DEFS = {"a/b%": WORD, "n": {"$ref": "#/$defs/m"}, "m": COUNT, "many": {"anyOf": [WORD, COUNT]}}


@pytest.mark.parametrize(("schema", "said", "value"), TYPED)
def test_an_argument_is_of_the_type_that_its_schema_says_anyhow(schema: Any, said: str, value: Any) -> None:
    tool = Tool("f", None, {"type": "object", "properties": {"v": schema}, "$defs": DEFS})
    text = f"<function=f>\n<parameter=v>\n{said}\n</parameter>\n</function>"
    [call] = parse(text, [tool], readers=["function_tag"]).calls
    assert call.arguments == {"v": value}
    [call] = format("qwen3-coder").decode(f"<tool_call>\n{text}\n</tool_call>", [tool]).tool_calls
    assert call.arguments == {"v": value}


BROKEN: list[tuple[str, str, str]] = [
    ("tool_call_tag", "<tool_call>\n{\n</tool_call>", "invalid_json"),
    ("tool_call_tag", f"<tool_call>\n{CALL}", "incomplete"),
    ("tool_call_tag", f"<tool_call>\n[{CALL}]\n</tool_call>", "unrecognised_tool_call"),
    ("tool_call_tag", f"<tool_call>{CALL}</tool_call><tool_call>{CALL}</tool_call>", "invalid_json"),
    ("tool_call_tag", '<tool_call>\n{"name": "rm", "arguments": {}}\n</tool_call>', "unknown_tool"),
    ("function_tag", "<function=rm>{}</function>", "unknown_tool"),
    ("function_tag", "<function=READ_FILE>{}</function>", "unknown_tool"),
    ("function_tag", "<function=read_file>[1]</function>", "invalid_arguments"),
    ("function_tag", "<function=read_file>{</function>", "invalid_arguments"),
    ("function_tag", "<function=read_file>\n<parameter=path>\n/srv", "incomplete"),
    ("function_tag", "<function=read_file>\n<parameter=path>\nx\n</function>", "invalid_arguments"),
    (
        "function_tag",
        "<function=read_file><parameter=a>1</parameter>\n<parameter=a>2</parameter>\n</function>",
        "invalid_arguments",
    ),
    (
        "function_tag",
        "<function=read_file><parameter=a>1</parameter>\nwords\n</function>",
        "invalid_arguments",
    ),
]


@pytest.mark.parametrize(("reader", "text", "code"), BROKEN)
def test_what_a_reader_cannot_read_is_an_error(reader: str, text: str, code: str) -> None:
    read = parse(text, TOOLS, readers=[reader])
    assert ([error.code for error in read.errors], read.calls) == ([code], [])


QUOTED = [
    f"```\n<tool_call>\n{CALL}\n</tool_call>\n```",
    f"````json\n{CALL}\n````",
    f"> <tool_call>{CALL}</tool_call>",
    f"  <tool_call>{CALL}</tool_call>",
    f"Like <tool_call>{CALL}</tool_call>",
    f"<think>\n<tool_call>{CALL}</tool_call>\n<function=now></function>\n</think>\nNo.",
    f"<!--\n<function=now></function>\n{CALL}\n-->",
    f"Say {CALL}",
    f"{CALL}\nThis is how to call.",
    f"This is how to call:\n{CALL}",
    f"[{CALL}]",
    f"{CALL}{CALL}",
    f"```json\n{CALL}\n```",
    '{"name": "Bob", "age": 5}',
    '{"name": "rm", "arguments": {}}',
    '{"name": "read_file", "arguments": 5}',
    '{"name": "read_file"',
]


@pytest.mark.parametrize("text", QUOTED)
def test_what_is_quoted_is_text(text: str) -> None:
    read = parse(text, TOOLS, readers=READERS)
    assert (read.calls, read.errors, read.text) == ([], [], text)


def test_json_that_is_no_call_may_have_calls_after_it() -> None:
    read = parse(f'{{"plan": 1}}\n{BLOCK}\n', TOOLS, readers=READERS)
    assert ([call.name for call in read.calls], read.text) == (["read_file"], '{"plan": 1}\n')


def test_json_in_an_answer_that_was_cut_off_may_be_the_beginning_of_something_else() -> None:
    assert parse(CALL, TOOLS, readers=READERS, whole=False).text == CALL


@pytest.mark.parametrize("readers", [["xml"], ["fence"], "bare_json"])
def test_an_unknown_reader_is_refused_by_name(readers: Any) -> None:
    with pytest.raises(InvalidField, match=r"tool_call_tag, function_tag, bare_json|must be a list of names"):
        parse("x", TOOLS, readers=readers)
