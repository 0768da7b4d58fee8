"""What a command wrote: bounded, plain, and never cut within a character."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from toolwire.codetools.definitions import OUTPUT_BYTES
from toolwire.codetools.output import CHUNK, Captured, plain_text, render_both


def captured(data: bytes, limit: int = OUTPUT_BYTES, size: int = CHUNK) -> Captured:
    made = Captured(limit)
    for start in range(0, len(data), size):
        made.add(data[start : start + size])
    return made


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tab\tand\nline", "tab\tand\nline"),
        ("\x1b[31;1mred\x1b[0m \x1b]0;title\x07x\x1b]8;;u\x1b\\y\x1b(B", "red xy"),
        ("\x1b[", "\\x1b["),
        ("a\0b\x07\x08", "a\\x00b\\x07\\x08"),
        ("50%\r100%\r\ndone", "50%\n100%\ndone"),
        ("\u202edlrow\u2028\x9b", "\\u202edlrow\\u2028\\x9b"),
        ("grüße 😀", "grüße 😀"),
    ],
)
@pytest.mark.row("C7")
def test_control_characters_do_nothing(text: str, shown: str) -> None:
    assert plain_text(text) == shown


@given(some.binary(max_size=400), some.integers(1, 7))
@pytest.mark.row("C7")
def test_any_bytes_become_text_that_json_carries(data: bytes, size: int) -> None:
    text = captured(data, 100, size).render(100)
    assert json.loads(json.dumps(text)) == text
    assert text.encode().decode() == text
    assert "\x1b" not in text


@example("a€😀😀a😀😀", 1, 20)
@given(some.text(alphabet="aé€😀", max_size=300), some.integers(1, 5), some.integers(20, 100))
@pytest.mark.row("C7")
def test_no_character_is_cut(text: str, size: int, limit: int) -> None:
    data = text.encode()
    shown = captured(data, limit, size).render(limit)
    assert "\ufffd" not in shown
    if len(data) <= limit:
        assert shown == text
    else:
        head, notice, tail = shown.split("\n")
        left = int(notice[1:].split()[0])
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head.encode()) + len(tail.encode()) + left == len(data)


@pytest.mark.row("C6")
def test_memory_does_not_grow() -> None:
    made = captured(b"x" * (20 << 20))
    assert made.total == 20 << 20
    assert len(made.head) + len(made.tail) <= 2 * OUTPUT_BYTES + 2 * CHUNK


@pytest.mark.parametrize(
    ("one", "other", "lengths", "cut"),
    [
        (100, 100, (100, 100), False),
        (1000, 0, (1000, 0), False),
        (5000, 100, (900, 100), True),
        (100, 5000, (100, 900), True),
        (5000, 5000, (500, 500), True),
        (600, 400, (600, 400), False),
        (400, 600, (400, 600), False),
        (600, 600, (500, 500), True),
    ],
)
def test_both_streams_share_the_room(one: int, other: int, lengths: tuple[int, int], cut: bool) -> None:
    first, second, was_cut = render_both(captured(b"x" * one), captured(b"x" * other), 1000)
    assert ((first.count("x"), second.count("x")), was_cut) == (lengths, cut)


@pytest.mark.row("C7")
def test_what_is_no_text_is_not_shown() -> None:
    assert captured(bytes(range(256)) * 40).render(OUTPUT_BYTES) == "[10240 bytes that are not text, and not shown]"
    assert captured(b"\x00".join([b"name"] * 50)).render(OUTPUT_BYTES).startswith("name\\x00name")
