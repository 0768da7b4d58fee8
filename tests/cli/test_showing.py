"""What a conversation looks like: the pure parts."""

import io
import unicodedata

import pytest

from toolwire.cli.chosen_model import check_key, client_of
from toolwire.cli.display import call_summary, cut, usage_summary
from toolwire.cli.permissions import tools_needing_approval
from toolwire.cli.screen import Screen
from toolwire.cli.terminal import parse_answer
from toolwire.codetools.definitions import TOOLS
from toolwire.errors import UserError
from toolwire.providers import PROVIDERS
from toolwire.providers.addressing import http_request_of
from toolwire.types import Context, Request, ToolCall, Usage
from toolwire.waiting.results import safe

ESCAPED = [
    ("\x1b[31m", r"\x1b[31m"),
    ("\x1b]8;;http://x\x07", r"\x1b]8;;http://x\x07"),
    ("\x9b2J\x7f\x00\r", r"\x9b2J\x7f\x00\x0d"),
    ("\u202eevil\u2066\u200f", r"\u202eevil\u2066\u200f"),
    ("\u2028\ufeff\ud800\U000e0041", r"\u2028\ufeff\ud800\U000e0041"),
    ("pass\xadword, pass\u180eword", r"pass\xadword, pass\u180eword"),
    ("tab\tline\nGrüße 東京 👩‍👩‍👧 é", "tab\tline\nGrüße 東京 👩‍👩‍👧 é"),
]


@pytest.mark.parametrize(("text", "expected"), ESCAPED)
def test_what_could_steer_a_terminal_is_shown_as_its_number(text: str, expected: str) -> None:
    assert safe(text) == expected
    assert "".join(map(safe, text)) == expected, "wherever a stream was cut"


def test_no_control_character_of_unicode_gets_through() -> None:
    every = list(map(chr, (*range(0x20000), *range(0xE0000, 0xE1000))))
    steering = [one for one in every if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")]
    assert {one for one in steering if safe(one) == one} == {"\n", "\t"}
    marks = frozenset("LRE RLE LRO RLO PDF LRI RLI FSI PDI".split())
    turning = [one for one in every if unicodedata.bidirectional(one) in marks]
    assert [one for one in turning if safe(one) == one] == []
    assert (len(steering), len(turning)) == (2115, 9)
    unseen = [one for one in every if unicodedata.category(one) == "Cf" and safe(one) == one]
    # The joiners, which emoji and scripts need, and the signs that are drawn: Prepended_Concatenation_Mark of Unicode.
    drawn = [*map(chr, range(0x600, 0x606)), *"\u06dd\u070f\u0890\u0891\u08e2", "\U000110bd", "\U000110cd"]
    assert set(unseen) == {"\u200c", "\u200d", *drawn}


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        ("a\nb", 3, ["a", "b"]),
        ("1\n2\n3\n4\n5\n6", 3, ["1", "2", "[3 more lines are not shown]", "6"]),
        ("x" * 30, 3, ["x" * 20 + " [10 more characters are not shown]"]),
        ("", 3, [""]),
    ],
)
def test_what_is_too_long_is_cut_and_it_is_said_how_much(text: str, lines: int, expected: list[str]) -> None:
    assert cut(text, lines, 20) == expected


@pytest.mark.parametrize(
    ("usage", "money", "said"),
    [
        (None, None, ""),
        (Usage(), None, ""),
        (Usage(input_tokens=1500), None, "1,500 tokens in"),
        (
            Usage(input_tokens=5, output_tokens=2, cache_read_tokens=3),
            0.5,
            "5 tokens in (3 cached), 2 tokens out, $0.5000",
        ),
        (Usage(input_tokens=5, output_tokens=2), 0.0, "5 tokens in, 2 tokens out, free"),
    ],
)
def test_what_is_not_known_is_not_shown(usage: Usage | None, money: float | None, said: str) -> None:
    assert usage_summary(usage, money) == said


def test_a_call_is_one_short_line() -> None:
    call = ToolCall("1", "write_file", {"path": "a", "content": "x\n" * 1000, "overwrite": True})
    head = call_summary(call)
    assert head.startswith('write_file(path="a", content="x\\nx\\n')
    assert head.endswith("..., overwrite=true)")
    assert len(head) < 120
    assert call_summary(ToolCall.parse("1", "bash", '{"command": "ls')) == "bash(?)"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("y\n", True),
        (" YES \n", True),
        ("a\n", True),
        ("always", True),
        ("n\n", "the user said no"),
        ("\n", "the user said no"),
        ("yes but not there\n", "the user said no: yes but not there"),
    ],
)
def test_only_a_yes_is_one(answer: str, expected: bool | str) -> None:
    assert parse_answer(answer) == expected


def test_all_but_what_looks_into_the_folder_is_asked_for() -> None:
    reads = {"read_file", "grep", "glob", "list_directory", "tree", "file_info"}
    assert set(tools_needing_approval(TOOLS)) == {tool.name for tool in TOOLS} - reads


@pytest.mark.parametrize(
    ("provider", "given", "url"),
    [
        ("openai", "http://x/v1", "http://x/v1/chat/completions"),
        ("openai", "http://x/", "http://x/v1/chat/completions"),
        ("vllm", "http://x/v1", "http://x/v1/chat/completions"),
        ("ollama", "http://x/v1", "http://x/api/chat"),
    ],
)
def test_a_base_url_may_end_as_other_programs_want_it(provider: str, given: str, url: str) -> None:
    server = client_of(provider, "m", given).provider
    assert http_request_of(server, server.speaks().encode_request(Request(context=Context(), model="m"))).url == url


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_key_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    provider = PROVIDERS[name]
    for variable in provider.env:
        monkeypatch.delenv(variable, raising=False)
    if provider.local:
        check_key(provider)
    else:
        with pytest.raises(UserError, match=f"set {provider.env[0]}"):
            check_key(provider)
        check_key(provider.with_options(base_url="http://here"))
        check_key(provider.with_options(api_key="k"))


class Closed(io.StringIO):
    """A pipe that nobody reads."""

    def write(self, text: str) -> int:
        del text
        raise BrokenPipeError


def test_a_closed_pipe_ends_the_writing_and_is_remembered() -> None:
    screen = Screen(Closed())
    screen.line("one")
    screen.write("two")
    assert isinstance(screen.problem, BrokenPipeError)
