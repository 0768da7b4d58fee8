"""The protocol of text-tagged calls, row by row."""

import json
import re
from typing import Any

import pytest

from tests.text.tagged.texts import BLOCK, BODY, TOOLS
from toolwire import ToolCall, text_tagged
from toolwire.errors import InvalidField, UnreadableCalls
from toolwire.text_tagged import parse, parse_or_raise


def block(body: Any, *, fence: str = "~~~tool_call", end: str = "~~~") -> str:
    return f"{fence}\n{body if isinstance(body, str) else json.dumps(body)}\n{end}\n"


def call(name: str = "read_file", **fields: Any) -> str:
    return block({"name": name, **fields})


@pytest.mark.row("R004-07")
def test_a_block_is_a_call() -> None:
    [read] = parse('~~~tool_call\n{"name": "read_file", "arguments": {"path": "/srv/foo"}}\n~~~').calls
    assert (read.name, read.arguments, read.complete, read.runs) == (
        "read_file",
        {"path": "/srv/foo"},
        True,
        True,
    )


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (f"[{BODY}]", "unrecognised_tool_call", "an object was expected, not an array"),
        (f"{BODY}\n{BODY}", "invalid_json", "not JSON"),
        ('{"name": "read_file", "arguments": {', "invalid_json", "not JSON"),
        ("", "invalid_json", "the block is empty"),
        ("null", "invalid_json", "the block is empty"),
        ("'read_file'", "invalid_json", "not JSON"),
        ('{"name": "a", "name": "b"}', "invalid_json", "the key 'name' is given twice"),
        ('{"name": "a", "arguments": {"x": 1, "x": 2}}', "invalid_json", "the key 'x' is given twice"),
        ('{"arguments": {}}', "missing_tool_name", "the call has no name"),
        ('{"name": "", "arguments": {}}', "missing_tool_name", "the call has no name"),
        ('{"name": null, "arguments": {}}', "missing_tool_name", "the call has no name"),
        ('{"name": 5, "arguments": {}}', "missing_tool_name", "not a number"),
        (
            '{"name": "a", "id": 5, "arguments": {}}',
            "unrecognised_tool_call",
            "id must be a text, not a number",
        ),
        ('{"name": "a", "args": {"x": 1}}', "unrecognised_tool_call", "under 'arguments', not under 'args'"),
    ],
)
@pytest.mark.row("R004-08", "R004-13", "I-37")
def test_what_is_no_call_is_an_error_that_keeps_the_good_ones(body: str, code: str, message: str) -> None:
    text = f"{call(arguments={'n': 1})}So:\n{block(body)}{call(arguments={'n': 2})}"
    read = parse(text)
    assert [good.arguments for good in read.calls] == [{"n": 1}, {"n": 2}]
    [error] = read.errors
    assert (error.code, error.index, read.ok) == (code, 1, False)
    assert message in error.message
    assert error.text == block(body).strip()
    assert (read.text, [good.index for good in read.calls]) == ("So:\n", [0, 2])


def test_the_strict_form_raises_and_holds_the_good_calls() -> None:
    assert parse_or_raise(BLOCK)[0].name == "read_file"
    with pytest.raises(UnreadableCalls, match=r"^call 2: not JSON: .*; a call is one object like") as raised:
        parse_or_raise(BLOCK + "\n" + block("{"))
    assert [good.name for good in raised.value.calls] == ["read_file"]
    assert [error.code for error in raised.value.errors] == ["invalid_json"]


@pytest.mark.row("R004-09")
def test_blocks_are_calls_in_their_order() -> None:
    text = "One.\n" + call(arguments={"n": 0}) + "Two.\n" + call("search", arguments={"n": 1}) + call(arguments={})
    read = parse(text)
    assert [(each.index, each.name) for each in read.calls] == [
        (0, "read_file"),
        (1, "search"),
        (2, "read_file"),
    ]
    assert read.text == "One.\nTwo.\n"


@pytest.mark.parametrize(
    "text",
    [
        f"Use ~~~tool_call {BODY} ~~~ for it.",
        f"x~~~tool_call\n{BODY}\n~~~",
        f" ~~~tool_call\n{BODY}\n~~~",
        f"~~~tool_call {BODY}\n~~~",
        f"~~~tool_call x\n{BODY}\n~~~",
        f"~~~~tool_call\n{BODY}\n~~~~",
    ],
)
@pytest.mark.row("R004-10")
def test_a_fence_that_shares_its_line_is_text(text: str) -> None:
    read = parse(text)
    assert (read.calls, read.errors, read.text) == ([], [], text)


@pytest.mark.parametrize("end", [f"{BODY} ~~~", f"{BODY}\n ~~~", f"{BODY}\n~~~ x", f"{BODY}\n~~~~", BODY, "", "{"])
@pytest.mark.row("R004-10", "I6")
def test_a_block_that_nothing_ends_is_never_a_call(end: str) -> None:
    read = parse(f"Well.\n~~~tool_call\n{end}")
    assert (read.calls, read.text) == ([], "Well.\n")
    assert [error.code for error in read.errors] == ["incomplete"]
    assert read.errors[0].as_call().complete is False


@pytest.mark.parametrize("pad", ["", " ", "\t", " \t ", "\r", "  \r"])
@pytest.mark.row("I6")
def test_blanks_after_a_fence_and_either_line_end_are_the_same(pad: str) -> None:
    read = parse(f"~~~tool_call{pad}\n{BODY}\n~~~{pad}\nDone.")
    assert ([each.name for each in read.calls], read.text) == (["read_file"], "Done.")


@pytest.mark.row("R004-11", "R004-12", "I-38")
def test_a_missing_id_is_made_and_a_given_one_kept() -> None:
    read = parse(call(arguments={}) + call(arguments={}) + call(id="mine", arguments={}) + call(id="", arguments={}))
    ids = [each.id for each in read.calls]
    assert ids[2] == "mine"
    assert len(set(ids)) == 4
    assert all(re.fullmatch(r"call_[A-Za-z0-9_-]{12}", made or "") for made in (ids[0], ids[1], ids[3]))


def test_ids_come_from_what_a_call_says_and_where_it_stands() -> None:
    text = call(arguments={}) + call(arguments={})
    assert parse(text) == parse(text)
    assert parse(text, seed="a").calls[0].id != parse(text, seed="b").calls[0].id
    assert parse(text).calls[0].id == parse("Other words.\n" + text).calls[0].id


def test_two_calls_never_share_an_id() -> None:
    read = parse(call(id="1", arguments={"n": 1}) + call(id="1", arguments={"n": 2}))
    assert read.calls[0].id == "1"
    assert read.calls[1].id != "1"


ARGUMENTS: list[tuple[str, Any, Any]] = [
    ("a map", {"path": "/srv"}, {"path": "/srv"}),
    ("an empty map", {}, {}),
    ("JSON text", '{"path": "/srv"}', {"path": "/srv"}),
    ("empty text", "", {}),
    ("blank text", " \n", {}),
    ("a list", [1], "not an array"),
    ("a number", 5, "not a number"),
    ("a boolean", True, "not a boolean"),
    ("null", None, "not null"),
    ("text of a list", "[1]", "not an array"),
    ("text of a number", "5", "not a number"),
    ("text of a text", '"x"', "not a string"),
    ("text of null", "null", "not null"),
    ("no JSON", "{path: /srv}", "not JSON"),
]


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in ARGUMENTS], ids=[row[0] for row in ARGUMENTS])
@pytest.mark.row("R004-22", "R004-23", "R004-24", "R004-25", "R004-26")
def test_the_rules_of_arguments(given: Any, expected: Any) -> None:
    read = parse(call(arguments=given))
    if isinstance(expected, dict):
        assert (read.calls[0].arguments, read.ok) == (expected, True)
    else:
        [error] = read.errors
        assert (error.code, error.name, read.calls) == ("invalid_arguments", "read_file", [])
        assert expected in error.message


def test_a_call_without_arguments_has_none() -> None:
    assert parse(call()).calls[0].arguments == {}


@pytest.mark.parametrize(
    "name", ["search2", "Read_file", "READ_FILE", "read\u200b_file", "r\u0435ad_file", "read_file "]
)
@pytest.mark.row("I9")
def test_only_offered_tools_are_called(name: str) -> None:
    read = parse(call(name, arguments={}) + BLOCK, TOOLS)
    assert [each.name for each in read.calls] == ["read_file"]
    [error] = read.errors
    assert (error.code, error.name) == ("unknown_tool", name)
    assert error.message == f"there is no tool {name!r}; the tools are: read_file, search"
    assert parse(call(name, arguments={})).calls[0].name == name


def test_without_an_offered_tool_a_text_is_a_text() -> None:
    assert parse(BLOCK, []).text == BLOCK
    assert parse(BLOCK, ["read_file"]).calls[0].name == "read_file"


@pytest.mark.row("I7")
def test_more_calls_than_an_answer_may_have_are_errors() -> None:
    read = parse("".join(call(arguments={"n": n}) for n in range(1000)))
    assert [each.arguments["n"] for each in read.calls] == list(range(128))
    assert {error.code for error in read.errors} == {"too_many_calls"}
    assert len(read.errors) == 872
    assert len(parse("".join(call(arguments={"n": n}) for n in range(1000)), limit=1000).calls) == 1000


def test_an_error_is_a_call_that_does_not_run() -> None:
    [error] = parse(block('{"name": "read_file", "arguments": 5}')).errors
    broken = error.as_call()
    assert (broken.name, broken.id, broken.runs, broken.complete) == ("read_file", error.id, False, True)
    assert broken.error == error.message
    assert parse(block("[")).errors[0].as_call().name == "unknown"


@pytest.mark.parametrize("text", [None, "", "\n", "Hello.", "~", "~~~", "~~~tool_call", "~~~tool_cal"])
def test_a_text_without_a_block_has_no_calls(text: str | None) -> None:
    assert parse(text).calls == []
    assert parse(text).text == ("" if text == "~~~tool_call" else text or "")


@pytest.mark.parametrize("text", [5, b"x", ["x"]])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(InvalidField, match="text must be a text, not"):
        parse(text)


def test_a_call_in_an_answer_that_was_cut_off_needs_the_end_of_its_last_line() -> None:
    assert parse(BLOCK).ok
    assert [error.code for error in parse(BLOCK, whole=False).errors] == ["incomplete"]
    assert parse(BLOCK + "\n", whole=False).ok


def test_the_package_offers_what_the_design_names() -> None:
    assert {"parse", "augment_system_prompt", "over"} <= set(text_tagged.__all__)
    assert isinstance(parse(BLOCK).calls[0], ToolCall)
