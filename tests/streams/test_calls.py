"""Which call a fragment belongs to: the rules of identity, each with the servers that need it."""

import sys
from typing import Any

import pytest

from toolwire.errors import FrameTooLarge
from toolwire.streams import call_judge
from toolwire.streams.call_judge import CallJudge, PartialCall
from toolwire.streams.calls import CallAssembler, index_of
from toolwire.wire.arguments import parse_arguments

# A fragment is written as its id, its index, its name and its text, a call as its id, its name and its text;
# "-" is what is not said, and "_" is said to be empty.
FRAGMENTS: dict[str, tuple[list[str], list[str]]] = {
    "an index, and an id once": (
        ["a 0 f", '- 0 - {"x"', "- 0 - :1}", "b 1 g", "- 1 - {}"],
        ['a f {"x":1}', "b g {}"],
    ),
    "interleaved": (
        ["a 0 f", "b 1 g", '- 0 - {"x"', "- 1 - {", "- 0 - :1}", "- 1 - }"],
        ['a f {"x":1}', "b g {}"],
    ),
    "one index, two ids": (
        ['a 0 f {"x":1}', 'b 0 g {"y":2}'],
        ['a f {"x":1}', 'b g {"y":2}'],
    ),
    "one index, two ids, one name, in fragments": (
        ['a 0 f {"x"', "- 0 - :1}", "b 0 f", "- 0 - {}"],
        ['a f {"x":1}', "b f {}"],
    ),
    "one index, another id in the middle": (
        ['a 0 f {"x"', "b 0 - :1}"],
        ['a f {"x"', "b - :1}"],
    ),
    "one index, interleaved by id": (
        ['a 0 f {"x"', 'b 0 f {"y"', "a 0 - :1}", "b 0 - :2}"],
        ['a f {"x":1}', 'b f {"y":2}'],
    ),
    "ids without an index, whole": (
        ['a - f {"x":1}', 'b - f {"y":2}'],
        ['a f {"x":1}', 'b f {"y":2}'],
    ),
    "ids without an index, in fragments": (
        ["a - f", '- - - {"x"', "- - - :1}", "b - g", "- - - {}"],
        ['a f {"x":1}', "b g {}"],
    ),
    "ids without an index, interleaved": (
        ["a - f", "b - g", 'a - - {"x":1}', "b - - {}"],
        ['a f {"x":1}', "b g {}"],
    ),
    "the id in each fragment": (
        ["a 0 f", 'a 0 - {"x"', "a 0 - :1}", "b 1 g", "b 1 - {}"],
        ['a f {"x":1}', "b g {}"],
    ),
    "the name in each fragment": (
        ["a 0 f", '- 0 f {"x"', "- 0 f :1}"],
        ['a f {"x":1}'],
    ),
    "id and name in each fragment": (
        ["a 0 f", 'a 0 f {"x"', "a 0 f :1}"],
        ['a f {"x":1}'],
    ),
    "an id that counts more than the index": (
        ['a 0 f {"x"', "a 1 - :1}", "b 1 g {}"],
        ['a f {"x":1}', "b g {}"],
    ),
    "an id that comes late": (
        ["- 0 f", '- 0 - {"x"', "a 0 - :1}"],
        ['a f {"x":1}'],
    ),
    "an id that comes late, after a whole call": (
        ['- 0 f {"x":1}', "b 0 g {}"],
        ['- f {"x":1}', "b g {}"],
    ),
    "an index without ids": (
        ["- 0 f", '- 0 - {"x":1}', "- 1 f", "- 1 - {}"],
        ['- f {"x":1}', "- f {}"],
    ),
    "one index without ids, whole": (
        ['- 0 f {"x":1}', '- 0 f {"y":2}', "- 0 g {}"],
        ['- f {"x":1}', '- f {"y":2}', "- g {}"],
    ),
    "neither, whole": (
        ['- - f {"x":1}', '- - f {"y":2}', "- - g {}"],
        ['- f {"x":1}', '- f {"y":2}', "- g {}"],
    ),
    "neither, in fragments": (
        ["- - f", '- - - {"x"', "- - - :1}", "- - g", "- - - {}"],
        ['- f {"x":1}', "- g {}"],
    ),
    "neither, the name in each fragment": (
        ['- - f {"x"', "- - f :1}", "- - f {}"],
        ['- f {"x":1}', "- f {}"],
    ),
    "neither, text without a name": (["- - - {}"], ["- - {}"]),
    "one id, two indexes": (
        ['a 0 f {"x":1}', 'a 1 g {"y":2}'],
        ['a f {"x":1}', 'a g {"y":2}'],
    ),
    "one id, two indexes, interleaved": (
        ["a 0 f", "a 1 g", '- 0 - {"x":1}', "- 1 - {}"],
        ['a f {"x":1}', "a g {}"],
    ),
    "one id, two indexes, in fragments": (
        ["a 0 f", '- 0 - {"x":1}', "a 1 g", "- 1 - {}"],
        ['a f {"x":1}', "a g {}"],
    ),
    "one id, one index, two whole calls": (
        ['a 0 f {"x":1}', 'a 0 f {"y":2}'],
        ['a f {"x":1}', 'a f {"y":2}'],
    ),
    "one id, no index, two whole calls": (
        ['a - f {"x":1}', 'a - g {"y":2}'],
        ['a f {"x":1}', 'a g {"y":2}'],
    ),
    "calls that are alike, without ids": (
        ['- 0 f {"x":1}', '- 0 f {"x":1}', '- - f {"x":1}'],
        ['- f {"x":1}', '- f {"x":1}', '- f {"x":1}'],
    ),
    "the whole text again": (
        ['a 0 f {"x"', "- 0 - :1}", '- 0 - {"x":1}'],
        ['a f {"x":1}'],
    ),
    "the whole call again": (
        ['a 0 f {"x"', "- 0 - :1}", 'a 0 f {"x":1}'],
        ['a f {"x":1}'],
    ),
    "half a text again is no repetition": (
        ['a 0 f {"x":"', "- 0 - ab", "- 0 - ab", '- 0 - "}'],
        ['a f {"x":"abab"}'],
    ),
    "a name that is empty": (
        ["a 0 f", "- 0 _ {}", "b 1 _", "- 1 g {}"],
        ["a f {}", "b g {}"],
    ),
    "odd indexes": (
        ["a -1 f", "b 2147483648 g", "- 7 h {}", "- 2147483648 - {}", "- -1 - {}"],
        ["a f {}", "b g {}", "- h {}"],
    ),
    "indexes that fall": (
        ["b 1 g", "a 0 f", "- 1 - {}", '- 0 - {"x":1}'],
        ["b g {}", 'a f {"x":1}'],
    ),
}


READ = {"-": None, "_": ""}


def sort(fragments: list[str]) -> list[PartialCall]:
    """Put fragments together, as a decoder does."""
    found = CallAssembler(CallJudge())
    for fragment in fragments:
        call_id, place, name, text = (READ.get(word, word) for word in f"{fragment} ".split(" ", 3))
        text = (text or "").removesuffix(" ")
        call = found.find(call_id, int(place) if place else None, name, text)
        call.name = call.name or name or ""
        if text and not call.repeats(text):
            call.add(text)
    return found.calls


@pytest.mark.parametrize(("fragments", "told"), FRAGMENTS.values(), ids=FRAGMENTS)
@pytest.mark.row("F9")
def test_which_call_a_fragment_belongs_to(fragments: list[str], told: list[str]) -> None:
    calls = sort(fragments)
    assert [f"{call.id or '-'} {call.name or '-'} {call.text}" for call in calls] == told
    assert [call.index for call in calls] == list(range(len(calls)))
    assert [call.problem for call in calls] == [None] * len(calls)


TWO_NAMES: dict[str, tuple[list[str], list[str]]] = {
    "before any text": (["a 0 f", "- 0 g {}"], ["it was named both 'f' and 'g'"]),
    "a name in fragments": (["a 0 get_", "- 0 time {}"], ["it was named both 'get_' and 'time'"]),
    "in the middle of the text": (
        ['a 0 f {"x"', "a 0 g :1}", "a 0 h"],
        ["it was named both 'f' and 'g'"],
    ),
    "by the id alone": (["a - f {", "a - g }"], ["it was named both 'f' and 'g'"]),
    "of two calls": (
        ["a 0 f {", "b 1 f {}", "- 0 g }"],
        ["it was named both 'f' and 'g'", ""],
    ),
    "nothing says that they are one": (["- - f", "- - g {}"], ["", ""]),
}


@pytest.mark.parametrize(("fragments", "problems"), TWO_NAMES.values(), ids=TWO_NAMES)
def test_a_call_with_two_names_is_not_usable(fragments: list[str], problems: list[str]) -> None:
    assert [call.problem or "" for call in sort(fragments)] == problems


INDEXES: list[tuple[Any, int | None]] = [
    (0, 0),
    (-1, -1),
    (2**70, 2**70),
    (1.0, 1),
    ("0", 0),
    ("12", 12),
    (None, None),
    (True, None),
    (1.5, None),
    (float("nan"), None),
    (float("inf"), None),
    ("", None),
    ("x", None),
    ("-1", None),
    ("1.0", None),
    ("9" * 5000, None),
    ([], None),
    ({}, None),
]


@pytest.mark.parametrize(("value", "index"), INDEXES, ids=[repr(value)[:12] for value, _ in INDEXES])
@pytest.mark.row("F9")
def test_what_is_an_index(value: Any, index: int | None) -> None:
    assert index_of(value) == index


WHOLE: dict[str, bool] = {
    "": False,
    " ": False,
    "{": False,
    "{}": True,
    ' {"a":{"b":[{}]}} \n': True,
    '{"a":"}"}': True,
    '{"a":"}': False,
    '{"a":"\\"}': False,
    '{"a":"\\\\"}': True,
    '{"a":"é😀\u2028"}': True,
    "{}}": False,
    "{}{}": False,
    "{} x": False,
    "x{}": False,
    "{a}": False,
    '{"a":1,"a":2}': False,
    "[{}]": False,
    '"{}"': False,
    "null": False,
    "1": False,
}


@pytest.mark.parametrize(("text", "whole"), WHOLE.items())
def test_what_is_whole(text: str, whole: bool) -> None:
    for cut in range(len(text) + 1):
        call = PartialCall()
        call.add(text[:cut])
        assert not whole or call.is_whole() is (text[cut:].strip() == "")
        call.add(text[cut:])
        assert call.is_whole() is whole
    slow, at_once = PartialCall(), PartialCall()
    for letter in text:
        slow.add(letter)
        slow.is_whole()
        at_once.add(letter)
    assert slow.is_whole() is at_once.is_whole() is whole
    assert slow.text == at_once.text == text


def test_text_that_goes_on_is_not_whole_again() -> None:
    call = PartialCall()
    states = []
    for piece in ("{", "}", " ", "x", "{}", ""):
        call.add(piece)
        states.append(call.is_whole())
    assert states == [False, True, True, False, False, False]
    assert call.text == "{} x{}"


def test_what_repeats_a_text() -> None:
    call = PartialCall()
    assert not call.repeats("")
    call.add('{"a"')
    assert not call.repeats('{"a"')
    call.add(":1}")
    assert call.repeats('{"a":1}')
    assert not call.repeats('{"a":2}')
    assert not call.repeats('{"a": 1}')


def test_what_is_said_beside_the_text() -> None:
    call = PartialCall()
    said: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": "f"}},
        {"type": None, "function": {"x": 1}, "y": None},
        {"function": {"x": 2}, "y": [1]},
        {"function": None, "z": {}, "type": "custom"},
    ]
    for news in said:
        call.merge(news)
    assert call.entry == {"type": "custom", "function": {"name": "f", "x": 2}, "y": [1], "z": {}}


@pytest.mark.row("F11")
def test_the_text_of_a_call_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_judge, "LIMIT", 10)
    call = PartialCall()
    call.add("x" * 9)
    call.add("x")
    with pytest.raises(FrameTooLarge):
        call.add("x")


def steps(pieces: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Count what is done for a call that looks whole with each of its fragments, and is named in each.

    Each function that is called is a step, and so is each letter of a text that is read or joined.
    """
    count = 0

    def step(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    def read(text: str) -> Any:
        nonlocal count
        count += len(text)
        return parse_arguments(text)

    def join(call: PartialCall) -> str:
        nonlocal count
        count += call.size
        return "".join(call.pieces)

    found = CallAssembler(CallJudge())
    with monkeypatch.context() as patch:
        patch.setattr(call_judge, "parse_arguments", read)
        patch.setattr(PartialCall, "text", property(join))
        sys.setprofile(step)
        try:
            for piece in ['{"a":"', *("}" * pieces)]:
                call = found.find("a", 0, "f", piece)
                if not call.repeats(piece):
                    call.add(piece)
        finally:
            sys.setprofile(None)
    assert len(found.calls) == 1
    return count


@pytest.mark.row("F11")
def test_the_time_grows_with_the_fragments_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert steps(4_000, monkeypatch) < 8.5 * steps(500, monkeypatch)
