"""What is found in a text does not depend on how it was cut, and takes time in proportion to it."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.tagged.texts import BLOCK, BODY, SPOOFS, TOOLS, cuts, spoof, written
from tests.timing import least, within
from toolwire.text.tagged.escaping import Escaper, escape
from toolwire.text.tagged.forms import forms_of
from toolwire.text.tagged.scanner import Block, ScannedItem, Scanner, join, scan
from toolwire.text_tagged import READERS, parse

SAMPLES = [
    f"Sure.\n{BLOCK}\nDone.",
    f"{BLOCK}\n\n{BLOCK}\n",
    f"~\n~~\n~~~too\n~~~tool_cal\n~~~tool_call x\n{BLOCK}",
    f"```\n{BLOCK}\n```\n{BLOCK}",
    f"<think>\n{BLOCK}\n</think>\n{BLOCK}\n \n",
    f"~~~tool_call \t\r\n{BODY}\r\n~~~ \r\n\r\n  x",
    f"\n \n  x\n~~~\n{BLOCK}\n~~~~\n",
    f"~~~tool_call\n{BODY}\n",
    f"<!--\n{BLOCK}\n--> x\n{BLOCK}\n<tool_call>{BODY}</tool_call>\n<function=a>\n</function>\n",
]


def found(pieces: Iterable[str], *, whole: bool = True, readers: Iterable[str] = ()) -> list[ScannedItem]:
    scanner = Scanner(forms_of(readers), lambda said: said.strip().endswith("}"))
    items = [item for piece in pieces for item in scanner.feed(piece)]
    return join([*items, *scanner.close(whole=whole)])


def told(items: Iterable[ScannedItem]) -> str:
    return "".join(item.text if isinstance(item, Block) else item for item in items)


@pytest.mark.sampled
@pytest.mark.parametrize("step", [pytest.param(31, id="some"), pytest.param(7, id="all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("text", SAMPLES)
def test_every_two_cuts_find_the_same(text: str, whole: bool, step: int, tally: Counter[str]) -> None:
    expected = found([text], whole=whole, readers=READERS)
    assert told(expected) == text
    assert found(text, whole=whole, readers=READERS) == expected
    for first in range(len(text)):
        for second in range(first, len(text), step):
            pieces = [text[:first], text[first:second], text[second:]]
            assert found(pieces, whole=whole, readers=READERS) == expected, (first, second)
            tally["cuts of a text with calls in it"] += 1


ALPHABET = [
    "~~~tool_call",
    "~~~",
    "~",
    "`",
    "```",
    "\n",
    "\n",
    "\r\n",
    " ",
    "    ",
    "x",
    "{",
    "}",
    BODY,
    BLOCK,
]
TAGS = [
    "<think>",
    "</think>",
    "<!--",
    "-->",
    "<tool_call>",
    "</tool_call>",
    "<function=read_file>",
    "</function>",
]


@given(st.lists(st.sampled_from([*ALPHABET, *TAGS])), st.integers(), st.booleans(), st.booleans())
def test_any_text_in_any_pieces_is_found_whole(words: list[str], seed: int, whole: bool, more: bool) -> None:
    text, readers = "".join(words), READERS if more else ()
    expected = found([text], whole=whole, readers=readers)
    assert told(expected) == text
    assert found(cuts(text, random.Random(seed)), whole=whole, readers=readers) == expected  # noqa: S311


@pytest.mark.row("R004-09")
def test_legitimate_blocks_are_read_under_any_cuts(
    tally: Counter[str],
) -> None:
    chance = random.Random(31)  # noqa: S311 - the same every time
    for _ in range(500):
        case = written(chance)
        read = parse(case.text, TOOLS)
        assert read.ok, case.text
        assert [(call.name, call.arguments) for call in read.calls] == [each[1:] for each in case.calls]
        for (call_id, _, _), call in zip(case.calls, read.calls, strict=True):
            assert call.id == call_id or (call_id is None and (call.id or "").startswith("call_"))
        whole = scan(case.text, Scanner())
        assert "".join(item for item in whole if isinstance(item, str)).strip() == case.words.strip()
        for _ in range(3):
            assert found(cuts(case.text, chance)) == whole
        tally["legitimate calls in text, each read under four cuts"] += len(case.calls)


@pytest.mark.row("I10")
def test_what_cannot_become_a_block_is_not_held_back() -> None:
    for place in range(len("~~~tool_call")):
        scanner = Scanner()
        beginning = "~~~tool_call"[:place]
        assert scanner.feed(beginning) == []
        assert scanner.feed("!") == [f"{beginning}!"]
    scanner = Scanner()
    assert scanner.feed("Hello ~~~tool_call") == ["Hello ~~~tool_call"]
    assert scanner.feed("\n~~~tool_call" + " " * 60) == ["\n"]
    assert scanner.feed(" " * 5) == ["~~~tool_call" + " " * 65]


def test_a_fence_that_is_not_yet_whole_is_held_back() -> None:
    scanner = Scanner()
    assert [scanner.feed(letter) for letter in "~~~tool_call\n{"] == [[]] * 14


HUGE = {
    "tildes": "~" * 5_000_000,
    "lines of tildes": "~\n" * 100_000,
    "fences": "~~~tool_call\n" * 100_000,
    "fences without an end of line": "~~~tool_call" * 100_000,
    "blocks": f"{BLOCK}\n" * 5_000,
    "blanks": " " * 1_000_000,
    "blank lines": "\n" * 300_000,
    "backticks": "```\n" * 100_000,
    "comments": "<!--\n" * 100_000,
    "tags": "<tool_call>\n" * 100_000 + "</tool_call>\n" * 100_000,
    "functions": "<function=" * 500_000,
    "braces": "{" * 2_000_000,
    "parameters": "<function=a>" + "<parameter=a>" * 300_000 + "</function>\n",
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.row("I11")
def test_no_text_takes_more_than_its_share_of_time(name: str) -> None:
    text = HUGE[name][: len(HUGE[name]) // 5]
    with within(2):
        parse(text, readers=READERS)


@pytest.mark.slow
@pytest.mark.row("I11")
def test_time_grows_as_the_text_does() -> None:
    def seconds(text: str) -> float:
        return least(lambda: parse(text, readers=READERS))

    for name, text in HUGE.items():
        assert seconds(text) < 12 * seconds(text[: len(text) // 4]) + 0.1, name


@pytest.mark.row("I11")
def test_fifty_mebibytes_in_pieces_are_shown_at_once() -> None:
    scanner, piece = Scanner(), "~" * 65_536
    with within(10):
        shown = sum(len(item) for _ in range(800) for item in scanner.feed(piece) if isinstance(item, str))
        assert shown == 800 * len(piece)


@pytest.mark.slow
def test_words_that_were_made_harmless_hold_no_block() -> None:
    chance = random.Random(5)  # noqa: S311 - the same every time
    texts = [*SAMPLES, *(written(chance).text for _ in range(300))]
    texts += [spoof(kind, chance) for kind in SPOOFS for _ in range(50)]
    for text in texts:
        safe = escape(text)
        assert not any(isinstance(item, Block) for item in scan(safe, Scanner())), text
        assert safe.replace("\\~~~tool_call", "~~~tool_call") == text.replace("\\~~~tool_call", "~~~tool_call")
        escaper = Escaper()
        assert "".join(map(escaper.feed_text, cuts(text, chance))) + escaper.finish() == safe
        escaper = Escaper()
        open_text = escaper.feed_text(text) + escaper.before_block()
        assert [item.body for item in scan(open_text + BLOCK, Scanner()) if isinstance(item, Block)] == [f"{BODY}\n"]
