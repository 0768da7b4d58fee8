"""Servers that say strange things: all is read as far as it can be, and nothing hangs."""

import json
import re
from typing import Any

import pytest

from tests.mcp.serving import by_hand, do, wait_for
from toolwire import Text, Tool, ToolCall, mcp
from toolwire.errors import ServerUnavailable, UnknownTool
from toolwire.waiting.results import FAILED


def slowly(*row: str) -> Any:
    """Leave a row to the slow tests: each begins a server."""
    return pytest.param(*row, marks=pytest.mark.slow)


def test_odd_listings_are_kept_as_they_are() -> None:
    with by_hand() as resolver:
        assert resolver.available_tools() == [
            Tool("do", None, {"type": "object"}),
            Tool("odd\nname", None, {"type": "string", "properties": 5}, {"annotations": "none", "title": 3}),
            Tool("list schema", None, None),
            Tool("no schema", None, None),
        ]


def test_a_listing_without_end_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    with by_hand("--endless") as resolver:
        assert len(resolver.available_tools()) == 4  # both pages list the same
    assert "lists tools without end" in caplog.text


ODD: list[tuple[Any, str | list[Any], bool]] = [
    ({}, "", False),
    ({"content": 7}, "", False),
    ({"content": [7, {"type": "video"}]}, [Text("7"), Text('{"type": "video"}')], False),
    ({"content": [{"type": "image", "data": 7}]}, '{"type": "image", "data": 7}', False),
    ({"content": [{"type": "resource", "resource": {"uri": "x:y"}}]}, '{"type": "resource"', False),
    ({"content": [{"type": "text", "text": "a"}], "isError": "yes"}, "a", False),
    ({"structuredContent": {"a": [None]}}, '{"a": [null]}', False),
    ({"content": [], "structuredContent": 0}, "0", False),
    ({"resultType": "input_required"}, f"{FAILED}the server did not finish", True),
]


def test_odd_results_are_read_as_far_as_they_can_be() -> None:
    with by_hand() as resolver:
        for given, content, is_error in ODD:
            result = do(resolver, "result", given)
            assert result.is_error is is_error
            if isinstance(content, str):
                assert str(result.content).startswith(content)
            else:
                assert result.content == content


def test_what_a_server_wants_of_its_client_is_refused() -> None:
    with by_hand() as resolver:
        for method in ("sampling/createMessage", "roots/list", "elicitation/create", "own/thing"):
            assert "error" in json.loads(str(do(resolver, "ask", method).content))
        assert do(resolver, "error", {"code": -5, "message": "own words"}).content == f"{FAILED}own words"
        assert do(resolver, "raw", "noise\n{}\n[1]\n\n").content == "after"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ('{"content": [{"type": "text", "text": "half \\ud83d"}]}', "half \ufffd"),
        ("[1]", f"{FAILED}the answer cannot be read"),
        slowly("null", f"{FAILED}the answer cannot be read"),
        slowly('{"content": ' + "[" * 500 + "]" * 500 + "}", f"{FAILED}the answer cannot be read"),
        ('{"structuredContent": ' + "1" * 6000 + "}", f"{FAILED}the answer cannot be read"),
        ('{"content": ' + "[" * 5000 + "]" * 5000 + "}", f"{FAILED}the answer cannot be read"),
        slowly('{"content": ' + "[" * 5000, f"{FAILED}the answer cannot be read"),
        slowly('{"content": "an id: ", "id": 5', f"{FAILED}the answer cannot be read"),
    ],
    ids=["surrogate", "list", "null", "deep", "long number", "very deep", "deep and cut off", "cut off"],
)
def test_an_answer_that_is_no_message_does_not_hang(raw: str, words: str) -> None:
    """The first call has number 4: three questions were asked before it."""
    with by_hand(timeout=5) as resolver:
        result = do(resolver, "raw", '{"jsonrpc": "2.0", "id": 4, "result": ' + raw + "}\n")
        assert str(result.content).startswith(words)


DONE = '"result": {"content": [{"type": "text", "text": "done"}]}}'


@pytest.mark.parametrize(
    "line",
    [
        '[{"jsonrpc": "2.0", "method": "notifications/x"}, 7, {"jsonrpc": "2.0", "id": 4, ' + DONE + "]",
        '{"jsonrpc": "2.0", "id": 4.0, ' + DONE,
        '{"jsonrpc": "2.0", "id": "4", ' + DONE,
        "\ufeff" + '{"jsonrpc": "2.0", "id": 4, ' + DONE + "\r",
    ],
    ids=["one of several", "4.0", "text", "marked and CRLF"],
)
def test_an_answer_in_an_odd_spelling_is_an_answer(line: str) -> None:
    """The first call has number 4: three questions were asked before it."""
    with by_hand(timeout=5) as resolver:
        assert do(resolver, "raw", line + "\n").content == "done"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ('{"code": "E_ROWS", "message": "no such row"}', "no such row"),
        slowly('{"code": 1.5, "message": "no such row"}', "no such row"),
        slowly('{"code": null, "message": "no such row", "data": [1]}', "no such row"),
        ('{"code": true, "message": "half \\ud83d"}', "half \ufffd"),
        ('{"code": "E_ROWS"}', "the answer cannot be read"),
        slowly('{"code": {}, "message": 5}', "the answer cannot be read"),
        slowly('"no such row"', "the answer cannot be read"),
        slowly("null", "the answer cannot be read"),
        ('{"code": "E_ROWS", "data": ' + "[" * 5000 + "]" * 5000 + "}", "the answer cannot be read"),
    ],
)
def test_an_error_with_an_odd_code_ends_its_call(error: str, words: str) -> None:
    """The first call has number 4: three questions were asked before it."""
    with by_hand(timeout=5) as resolver:
        result = do(resolver, "raw", '{"jsonrpc": "2.0", "id": 4, "error": ' + error + "}\n")
        assert str(result.content).startswith(f"{FAILED}{words}")
        assert result.is_error
        assert do(resolver, "size", 2).content == "xx"


STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def test_what_a_server_says_of_its_failures_steers_no_terminal(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="toolwire.mcp")
    with pytest.raises(ServerUnavailable, match="cannot be used") as raised:
        by_hand("--escapes").connect()
    with by_hand("--twice", timeout=5) as resolver:
        told = [
            do(resolver, "error", {"code": -5, "message": "own \x1b[31mwords\x9b\u202e\nand more"}),
            do(resolver, "error", {"code": "E\x1b", "message": "\x1b]0;mine\x07"}),
            do(resolver, "die", 3),
        ]
    words = [str(raised.value), *(str(result.content) for result in told)]
    assert not [text for text in (*words, *(record.getMessage() for record in caplog.records)) if STEERS.search(text)]
    assert r"\x1b[2J\x1b]0;mine\x07 \u202egone" in words[0]
    assert words[1] == f"{FAILED}own \\x1b[31mwords\\x9b\\u202e\nand more"
    assert words[2] == f"{FAILED}\\x1b]0;mine\\x07"
    assert r"last words\x1b[2J" in words[3]


def test_what_a_server_says_of_its_failures_has_no_secret_that_it_was_given(caplog: pytest.LogCaptureFixture) -> None:
    """Control: what is no secret of its environment is shown."""
    caplog.set_level("DEBUG", logger="toolwire.mcp")
    secret, place = "canary of few words", "/a/place/of/many"
    env = {"SERVER_TOKEN": secret, "PLACE": place, "AUTH_HEADER": f"Bearer {secret[::-1]}"}
    with pytest.raises(ServerUnavailable, match=place) as raised:
        by_hand("--tells", env=env).connect()
    with by_hand(env=env, timeout=5) as resolver:
        told = do(resolver, "error", {"code": -5, "message": f"no access: {secret}, {secret[::-1]}, {place}"})
        do(resolver, "raw", "Using sk-canary-of-few-words-1\n")
    assert told.content == f"{FAILED}no access: [hidden], [hidden], {place}"
    assert "canary" not in f"{raised.value} {caplog.text}"
    assert "Using [hidden:api key]" in caplog.text
    http = mcp.http(
        "https://e.org?key=canary-query", headers={"Authorization": "Bearer canary-header", "accept": "a/canary"}
    )
    shown = "answered canary-query, canary-header, a/canary"
    assert http.target.safe_text(shown) == "answered [hidden], [hidden], a/canary"


def test_names_of_a_server_steer_no_terminal() -> None:
    with by_hand(timeout=5) as resolver:
        do(resolver, "grow", "\x1b[2Jname")
        assert wait_for(lambda: "\x1b[2Jname" in [tool.name for tool in resolver.available_tools()])
        with pytest.raises(UnknownTool) as raised:
            resolver.resolve(ToolCall("c1", "nobody"))
        assert r"\x1b[2Jname" in str(raised.value)
        assert not STEERS.search(str(raised.value))


def test_two_tools_of_one_name_are_listed_once(caplog: pytest.LogCaptureFixture) -> None:
    with by_hand("--twice", timeout=5) as resolver:
        listed = resolver.available_tools()
        names = [tool.name for tool in listed]
        assert sorted(names) == sorted(set(names))
        assert [tool.description for tool in listed if tool.name == "do"] == [None]
        assert do(resolver, "size", 2).content == "xx"
    assert "lists 'do' more than once: the first is used" in caplog.text
