"""The one place of a text: counted with overlaps, and everything outside of it kept to the byte."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.timing import within
from toolwire.codetools.lines import line_number_at, position_after_breaks
from toolwire.codetools.matching import EditRefused, edit, find_once, find_positions

# What is there, what is asked for, what comes out; a word where it is refused
PLAIN = [
    (b"one two three", b"two", b"2", b"one 2 three"),
    (b"one two three", b"four", b"4", "no_match"),
    (b"one two two", b"two", b"2", "ambiguous"),
    (b"aaa", b"aa", b"b", "ambiguous"),  # str.count says one
    (b"abababa", b"ababa", b"x", "ambiguous"),
    (b"aa", b"aa", b"b", b"b"),
    (b"", b"a", b"b", "no_match"),
    (b"a", b"", b"b", "empty"),
    (b"a", b"a", b"a", "no_change"),
    (b"x", b"absent", b"absent", "no_change"),
    (b"all of it\n", b"all of it\n", b"", b""),
    (b"a b c", b"b", rb"$& \1 \g<0> {} %s \n ```", rb"a $& \1 \g<0> {} %s \n ``` c"),
    (b"a.c abc", b"a.c", b"x", b"x abc"),
    ("caf\u00e9".encode(), b"cafe", b"x", "no_match"),
    ("cafe\u0301".encode(), "caf\u00e9".encode(), b"x", "no_match"),
    (b"say \xe2\x80\x9chi\xe2\x80\x9d", b'"hi"', b"x", "no_match"),
    (b"a\tb", b"a b", b"x", "no_match"),
    ("a\u2028b\u0085c".encode(), "\u2028b".encode(), b"", "a\u0085c".encode()),
]
# Line breaks
BREAKS = [
    (b"a\r\nb\r\nc\r\n", b"a\nb", b"x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
    (b"a\r\nb\r\nc\r\n", b"a\r\nb", b"x\r\ny", b"x\r\ny\r\nc\r\n"),
    (b"a\r\nb\r\n", b"b", b"x\ny", b"a\r\nx\r\ny\r\n"),
    (b"a\r\nb", b"b", b"x\ny", b"a\r\nx\r\ny"),
    (b"a\nb\r\n", b"a", b"x\ny", b"x\ny\nb\r\n"),
    (b"a\nb\r\n", b"b", b"x\ny", b"a\nx\r\ny\r\n"),
    (b"a\nb\nc\n", b"a\r\nb", b"x\r\ny", b"x\ny\nc\n"),
    (b"a\nb\nc\n", b"a\nb", b"x\r\ny", b"x\r\ny\nc\n"),
    (b"a\nb", b"a", b"x\r\ny", b"x\r\ny\nb"),
    (b"a\r\nb\nc\r\nd", b"a\nb\nc\nd", b"a\nB\nnew\nc\nd", b"a\r\nB\nnew\nc\r\nd"),
    (b"a\nb\r\nc\nd", b"a\nb\nc", b"a\nc", b"a\nc\nd"),
    (b"a\nb\r\nc\nd", b"a\nb\nc", b"a\nb\nnew\nc", b"a\nb\r\nnew\r\nc\nd"),
    (b"a\nx\r\na\r\nx", b"a\nx", b"y", "ambiguous"),
    (b"a\r\nb\r\n", b"a\n", b"a\r\n", "no_change"),
    (b"a\r\nb\r\n", b"\n", b"", "ambiguous"),
    (b"a\r\nb", b"\n", b"", b"ab"),
    (b"a\r\nb", b"a\r", b"x", "no_match"),
    (b"a\rb\rc", b"b\r", b"x\n", b"a\rx\nc"),
    (b"a\r\r\nb", b"a\r\r\nb", b"x", b"x"),
    (b"a\r\r\nb", b"a\r\nb", b"x", "no_match"),
    (b"a\nb", b"b", b"x", b"a\nx"),
    (b"\xef\xbb\xbfa\nb", b"a\n", b"x\n", b"\xef\xbb\xbfx\nb"),
]


@pytest.mark.parametrize(("data", "old", "new", "made"), [*PLAIN, *BREAKS])
@pytest.mark.row("B1", "B2", "B3", "B4", "B5", "B6", "B8", "B9")
def test_a_text_is_replaced_where_it_is_once(data: bytes, old: bytes, new: bytes, made: bytes | str) -> None:
    if isinstance(made, bytes):
        assert edit(data, old, new).data == made
    else:
        with pytest.raises(EditRefused) as caught:
            edit(data, old, new)
        assert caught.value.code == made


letters = st.text("ab\n", max_size=12).map(str.encode)
broken = st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r\n", b"\r"]), max_size=12).map(b"".join)


@given(letters, letters.filter(bool))
def test_places_are_those_that_a_look_at_each_place_finds(data: bytes, old: bytes) -> None:
    assert find_positions(data, old) == [at for at in range(len(data)) if data.startswith(old, at)]


@given(broken, broken.filter(bool), broken)
@pytest.mark.row("B4")
def test_all_outside_of_the_place_stays(data: bytes, old: bytes, new: bytes) -> None:
    try:
        made = edit(data, old, new).data
    except EditRefused:
        return
    start, end, _ = find_once(data, old)
    assert data[start:end].replace(b"\r\n", b"\n") == old.replace(b"\r\n", b"\n") or data[start:end] == old
    assert made.startswith(data[:start])
    assert made.endswith(data[end:])
    piece = made[start : len(made) - len(data) + end]
    assert re.sub(rb"\r+\n", b"\n", piece) == re.sub(rb"\r+\n", b"\n", new)


@given(broken, broken.filter(bool))
def test_a_place_is_refused_if_its_reader_saw_the_text_twice(data: bytes, old: bytes) -> None:
    seen, asked = data.replace(b"\r\n", b"\n"), old.replace(b"\r\n", b"\n")
    times = len(re.findall(b"(?=" + re.escape(asked) + b")", seen))
    try:
        find_once(data, old)
    except EditRefused as problem:
        wanted = "ambiguous" if times > 1 else "no_match"
        assert problem.code == wanted or (not times and data.count(old) > 1)  # noqa: PT017 - both ways are right
    else:
        assert times == 1 or (not times and old in data)


@given(broken)
def test_lines_are_found_again(data: bytes) -> None:
    for count in range(data.count(b"\n") + 1):
        place = position_after_breaks(data, count)
        assert line_number_at(data, place) == count + 1
        assert place == 0 or data[place - 1 : place] == b"\n"


@pytest.mark.row("B1")
def test_the_lines_of_all_places_are_said() -> None:
    with pytest.raises(EditRefused, match=r"2 times, beginning in lines 1, 3: "):
        edit(b"a\nb\nab\n", b"a", b"c")
    with pytest.raises(EditRefused, match=r"30 times, beginning in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more"):
        edit(b"a\n" * 30, b"a", b"c")
    with pytest.raises(EditRefused, match="at least 1000 times"):
        edit(b"a" * 5000, b"a", b"c")


@pytest.mark.parametrize("old", [b"x" * 5_000_000, b"x" * 10_000_000, b"xy", b"y" * 100_000, b"x" * 100 + b"y"])
@pytest.mark.row("B30")
def test_a_long_line_and_a_long_text_take_linear_time(old: bytes) -> None:
    data = b"x" * 10_000_000
    with within(2):
        try:
            edit(data, old, b"z")
        except EditRefused as problem:
            assert problem.code in {"ambiguous", "no_match"}  # noqa: PT017 - the time is what is tested
