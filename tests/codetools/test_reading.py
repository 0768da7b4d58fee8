"""read_file: a window of lines, said as it is; what is no text; and little memory, however large the file."""

import base64
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codetools.folders import Project, other_process, said_by, sized
from tests.timing import within
from toolwire.codetools import reading
from toolwire.codetools.definitions import FILE_BYTES, IMAGE_BYTES, READ_BYTES, READ_LINES
from toolwire.codetools.lines import BeyondEnd, window
from toolwire.codetools.reading import SEARCHED
from toolwire.types import Image

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def numbered(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


# The file, what is asked for, what comes
WINDOWS = [
    ("a\nb\nc\n", {}, "a\nb\nc\n"),
    ("a\nb\nc", {}, "a\nb\nc"),
    ("a\nb\nc\n", {"limit": 2}, "a\nb\n[Showing lines 1-2 of 3. Use offset=3 to continue.]"),
    ("a\nb\nc\n", {"offset": 2, "limit": 1}, "b\n[Showing lines 2-2 of 3. Use offset=3 to continue.]"),
    ("a\nb\nc\n", {"offset": 3}, "c\n"),
    ("a\nb\nc", {"offset": 3}, "c"),
    ("a\nb\nc\n", {"offset": 2, "limit": 10**30}, "b\nc\n"),
    ("a\nb\nc", {"limit": 2}, "a\nb\n[Showing lines 1-2 of 3. Use offset=3 to continue.]"),
    ("\n\n\n", {"offset": 2, "limit": 1}, "\n[Showing lines 2-2 of 3. Use offset=3 to continue.]"),
    ("", {}, "[The file is empty.]"),
    ("", {"limit": 1}, "[The file is empty.]"),
    (numbered(2000), {}, numbered(2000)),
    (numbered(2001), {}, numbered(2000) + "[Showing lines 1-2000 of 2001. Use offset=2001 to continue.]"),
    (
        numbered(2001),
        {"limit": 9000},
        numbered(2000) + "[Showing lines 1-2000 of 2001. Use offset=2001 to continue.]",
    ),
    (numbered(2001), {"offset": 2001}, "line 2001\n"),
    # line breaks and marks
    ("a\r\nb\r\n", {}, "a\nb\n[All lines end in CRLF in the file, which is shown as LF; edits keep it.]"),
    ("a\r\nb\n", {}, "a\nb\n[Some lines end in CRLF in the file, which is shown as LF; edits keep it.]"),
    ("a\rb\u2028c\x0bd\x85e", {}, "a\rb\u2028c\x0bd\x85e"),  # one line
    ("\ufeffa\n", {}, "a\n[The file begins with a byte order mark, which is not shown; edits keep it.]"),
    ("\ufeffa\nb\n", {"offset": 2}, "b\n"),
    ("[x]\ttab \x1b[31m\n", {}, "[x]\ttab \x1b[31m\n"),
]


@pytest.mark.parametrize(("text", "asked", "said"), WINDOWS)
@pytest.mark.row("R002-02")
def test_lines_are_given_as_they_are(project: Project, text: str, asked: dict[str, int], said: str) -> None:
    project.file("f", text)
    assert project.ok("read_file", path="f", **asked) == said


BEYOND = [
    ("", 2, "it has 0 lines, and offset 2"),
    ("a", 2, "it has 1 line, and offset 2"),
    ("a\n", 2, "it has 1 line, and offset 2"),
    ("a\nb", 3, "it has 2 lines, and offset 3"),
    (numbered(100), 10**18, "it has 100 lines"),
    (numbered(100_000), 100_001, "it has 100000 lines"),
    (numbered(100_000) + "x", 100_002, "it has 100001 lines"),
]


@pytest.mark.parametrize(("text", "offset", "said"), BEYOND)
@pytest.mark.row("R002-02")
def test_an_offset_beyond_the_end_says_how_many_lines_there_are(
    project: Project, text: str, offset: int, said: str
) -> None:
    project.file("f", text)
    assert said in project.refused("read_file", path="f", offset=offset)


@pytest.mark.parametrize(
    "asked", [{"offset": 0}, {"offset": -1}, {"limit": 0}, {"offset": "3"}, {"limit": 1.5}, {"offset": True}]
)
@pytest.mark.row("B28")
def test_an_offset_or_limit_that_is_none_is_refused(project: Project, asked: dict[str, object]) -> None:
    project.file("f", "a\n")
    assert "invalid arguments" in project.refused("read_file", path="f", **asked)


@pytest.mark.row("B28")
def test_a_whole_number_may_be_written_with_a_point(project: Project) -> None:
    project.file("f", numbered(5))
    assert project.ok("read_file", path="f", offset=3.0, limit=1.0).startswith("line 3\n[Showing lines 3-3 of 5.")


def test_all_of_a_file_is_read_by_following_the_notices(project: Project) -> None:
    text = "".join(f"{number:06} ".ljust(number % 300, "\u00e9") + "\n" for number in range(3000))
    project.file("f", text)
    offset, parts = 1, []
    while offset:
        said = project.ok("read_file", path="f", offset=offset)
        found = re.search(r"\[Showing lines \d+-(\d+) of (about )?\d+.*Use offset=(\d+) to continue\.\]$", said)
        parts.append(said[: found.start()] if found else said)
        assert len(parts[-1].encode()) <= READ_BYTES
        assert parts[-1].count("\n") <= READ_LINES
        offset = int(found[3]) if found else 0
    assert "".join(parts) == text
    assert len(parts) > 10


def test_lines_of_a_large_file_are_estimated(project: Project) -> None:
    project.file("f", numbered(100_000))
    said = project.ok("read_file", path="f")
    about = int(re.search(r"of about (\d+) \(1 MB\)\. Use offset=2001 ", said)[1])  # type: ignore[index]
    assert 80_000 < about < 130_000


def test_a_line_that_is_too_long_is_shown_in_part(project: Project) -> None:
    for tail, more in (("", ""), ("\nnext\n", " Use offset=2 for the next line.")):
        project.file("f", "\u20ac" * 20_000 + tail)
        said = project.ok("read_file", path="f")
        shown, _, notice = said.partition("\n")
        assert shown == "\u20ac" * (READ_BYTES // 3)  # no character is cut
        assert notice == (
            "[Line 1 is longer than 50 KB: only its beginning is shown. "
            f"The file has 58.6 KB.{more} A shell command (cut, head -c) shows more of it.]"
        )
    project.file("f", "short\n" + "x" * READ_BYTES + "\n")
    assert project.ok("read_file", path="f") == "short\n[Showing lines 1-1 of 2. Use offset=2 to continue.]"
    assert project.ok("read_file", path="f", offset=2).startswith("x" * READ_BYTES)


@given(
    st.lists(st.text("a\u00e9\u20ac\U0001f600\r", max_size=9), max_size=20),
    st.booleans(),
    st.integers(1, 25),
    st.integers(1, 25),
    st.integers(8, 40),
    st.integers(0, 200),
)
@pytest.mark.row("B29")
def test_a_window_is_what_splitting_gives(
    lines: list[str], ended: bool, offset: int, limit: int, most: int, counted: int
) -> None:
    data = ("\n".join(lines) + "\n" * (ended and bool(lines))).encode()
    whole = data.split(b"\n")
    whole = [line + b"\n" for line in whole[:-1]] + ([whole[-1]] if whole[-1] else [])

    def read(count: int, start: int) -> bytes:
        return data[start : start + min(count, most + 1)]

    try:
        found = window(read, len(data), offset, limit, most, count_limit=counted, search_limit=1 << 30)
    except BeyondEnd as problem:
        assert offset > len(whole)
        assert problem.total == len(whole)  # noqa: PT017 - a line that is there is found below
        return
    wanted = b"".join(whole[offset - 1 : offset - 1 + limit])
    assert wanted.startswith(found.data)
    assert len(found.data) <= most
    found.data.decode()
    if found.cut:
        assert len(whole[offset - 1]) > most
        assert len(found.data) > most - 4
    else:
        shown = whole[offset - 1 : found.last]
        assert found.data == b"".join(shown)
        assert len(shown) == limit or found.last == len(whole) or len(found.data + whole[found.last]) > most
    assert found.more == (found.cut or found.last < len(whole))
    if found.exact:
        assert found.total == len(whole)
    if len(data) <= counted:
        assert found.exact


IMAGES = [
    ("image/png", PNG + b"\0\0"),
    ("image/jpeg", b"\xff\xd8\xff\xe0\0"),
    ("image/gif", b"GIF89a\0"),
    ("image/webp", b"RIFF\0\0\0\0WEBPVP8 "),
]


@pytest.mark.parametrize(("media_type", "data"), IMAGES)
def test_an_image_is_given_as_an_image_whatever_its_name(project: Project, media_type: str, data: bytes) -> None:
    project.file("f.txt", data)
    content, failed = project.call("read_file", path="f.txt", offset=5)
    assert not failed
    assert content == [Image(data=base64.b64encode(data).decode(), media_type=media_type)]


def test_an_image_that_is_too_large_is_refused(project: Project) -> None:
    file = project.file("a.png", PNG)
    os.truncate(file, IMAGE_BYTES)
    content, _ = project.call("read_file", path="a.png")
    assert len(base64.b64decode(content[0].data)) == IMAGE_BYTES
    os.truncate(file, IMAGE_BYTES + 1)
    assert "an image of 5 MB" in project.refused("read_file", path="a.png")


BINARY = [
    ("a ZIP archive of 6 bytes", b"PK\x03\x04\0\0"),
    ("a PDF document of 9 bytes", b"%PDF-1.7\n"),
    ("a program (ELF) of 6 bytes", b"\x7fELF\0\0"),
    ("an SQLite database", b"SQLite format 3\0"),
    ("a gzip archive", b"\x1f\x8b\x08\0"),
    ("binary (it has NUL bytes) of 3 bytes", b"a\0b"),
    ("binary (it has NUL bytes)", b"a" * 40_000 + b"\0"),
    ("binary (it has NUL bytes)", b"\xff\xfea"),  # half of a UTF-16 character
]


@pytest.mark.parametrize(("kind", "data"), BINARY)
def test_what_is_no_text_is_refused_with_its_kind_and_size(project: Project, kind: str, data: bytes) -> None:
    project.file("f", data)
    assert kind in project.refused("read_file", path="f")


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.row("B7")
def test_wide_text_is_read_by_its_mark(project: Project, charset: str) -> None:
    mark = "\ufeff" if charset.endswith("be") else ""
    project.file("f", f"{mark}caf\u00e9\nb\nc\n".encode(charset))
    said = project.ok("read_file", path="f", offset=1, limit=2)
    name = "UTF-16" if "16" in charset else "UTF-32"
    assert said.startswith(f"caf\u00e9\nb\n[The file is {name}, shown as UTF-8. edit_file cannot change it.]\n[Showing")
    assert "NUL" in project.refused("edit_file", path="f", oldText="b", newText="x")


def test_wide_text_that_is_too_large_is_refused(project: Project) -> None:
    os.truncate(project.file("f", b"\xff\xfea\0"), FILE_BYTES + 2)
    assert "UTF-16 text of 10 MB" in project.refused("read_file", path="f")


@pytest.mark.row("B7")
def test_text_in_another_charset_is_shown_as_latin_1_and_said(project: Project) -> None:
    project.file("f", "caf\u00e9\n".encode("latin-1"))
    said = project.ok("read_file", path="f")
    assert said == "caf\u00e9\n[The file is not UTF-8; it is shown as Latin-1. edit_file cannot change it.]"
    assert "not UTF-8 (byte 3 is 0xe9)" in project.refused("edit_file", path="f", oldText="caf", newText="x")


@pytest.mark.row("A20")
def test_a_huge_sparse_file_is_read_at_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reading.SEARCHED == 256 << 20
    monkeypatch.setattr(reading, "SEARCHED", 8 << 20)
    file = project.file("f", numbered(5000))
    os.truncate(file, 10 << 30)
    with within(5):
        said = project.ok("read_file", path="f")
        assert re.search(r"\[Showing lines 1-2000 of about \d+ \(10 GB\)\. Use offset=2001 to continue\.\]$", said)
        assert "binary" in project.refused("read_file", path="f", offset=5001)
        assert "line 99999999 is not in its first 8 MB" in project.refused("read_file", path="f", offset=99_999_999)
        os.truncate(project.file("g"), 10 << 30)
        assert "binary (it has NUL bytes) of 10 GB" in project.refused("read_file", path="g")
        assert "10 GB" in project.refused("edit_file", path="g", oldText="a", newText="b")
        assert "10 GB" in project.refused("append_to_file", path="g", content="b")


@pytest.mark.slow
@pytest.mark.row("A20")
def test_a_line_far_into_a_huge_file_is_not_searched_for_ever(project: Project) -> None:
    os.truncate(project.file("f", numbered(5000)), 10 << 30)
    with within(5):
        said = project.refused("read_file", path="f", offset=99_999_999)
        assert "line 99999999 is not in its first 256 MB" in said


MEMORY = 1 << 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is measured by ru_maxrss in KB")
@pytest.mark.row("A20")
def test_a_line_of_a_gigabyte_takes_little_memory(project: Project) -> None:
    size = sized(1 << 30, 64 << 20)
    with (project.root / "f").open("wb") as file:
        for _ in range(size >> 20):
            file.write(b"x" * (1 << 20))
        file.write(b"\nlast\n")
    told = said_by(other_process("memory.py", project.root, "read_file"))
    assert told["grew"] <= READ_BYTES + MEMORY, told
    if size < SEARCHED:
        assert told["said"][0].endswith("shows more of it.]")
        assert told["said"][1] == "last\n"
    else:
        assert "line 2 is not in its first 256 MB" in told["said"][0]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is measured by ru_maxrss in KB")
@pytest.mark.parametrize("tool", ["write_file", "edit_file", "append_to_file"])
@pytest.mark.row("B27")
def test_the_largest_file_is_changed_in_three_times_its_size(project: Project, tool: str) -> None:
    project.file("f", "x" * (FILE_BYTES - 100) + "<here>")
    told = said_by(other_process("memory.py", project.root, tool))
    assert told["grew"] <= 3 * FILE_BYTES + MEMORY, told
