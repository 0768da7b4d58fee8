"""Scrubbing at its limits: what cannot be read, what comes in pieces, what is made to be slow."""

import dataclasses
from collections import Counter, UserDict
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sentinels import KEYS, LONG, MARKS
from tests.timing import least
from toolwire.scrubbing import UNREADABLE, Scrubber, mask, scrub, scrub_text, secrets_of, values

pytestmark = pytest.mark.slow  # what is given is large

SECRET = "s3cr3t"  # noqa: S105 - a stand-in


class Odd:
    def __init__(self) -> None:
        self.password = LONG

    def __str__(self) -> str:
        raise RuntimeError(LONG)


class Rows(msgspec.Struct):
    card: str
    rest: int = 1


@dataclasses.dataclass
class Row:
    card: str


class Endless(UserDict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError(LONG)


def circle() -> Any:
    value: dict[str, Any] = {"card": LONG}
    value["self"] = [value]
    return value


def deep(size: int) -> Any:
    value: Any = {"card": LONG}
    for _ in range(size):
        value = [value]
    return value


def wide() -> Any:
    value: Any = ["x"]
    for _ in range(40):
        value = [value, value]
    return value


BOMBS: dict[str, Callable[[], Any]] = {
    "circular": circle,
    "deep": lambda: deep(100_000),
    "wide": wide,
    "deep JSON": lambda: '{"card": "' + LONG + '", "a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "many": lambda: ["x"] * 40_000,
    "odd": Odd,
    "endless": lambda: Endless(card=LONG),
    "struct": lambda: Rows(LONG),
    "dataclass": lambda: Row(LONG),
    "large": lambda: LONG * 1_000_000,
    "many secrets": lambda: {"card": [f"{LONG}{n}" for n in range(5000)], "b": f"{LONG}7"},
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.row("L7")
def test_what_cannot_be_looked_through_is_replaced(bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never an exception, and nothing gets through."""
    monkeypatch.setattr(values, "_MAX_NODES", 20_000)
    value = BOMBS[bomb]()
    clean = scrub(value, ["card"], [LONG])
    assert LONG not in (repr(clean) if bomb != "deep" else str(clean)[:10_000])
    kept = scrub({"payload": value, "ok": 1}, ["card"], [LONG])
    assert kept == UNREADABLE or (LONG not in repr(kept) and kept["ok"] in (1, UNREADABLE))
    assert LONG not in scrub_text(value if isinstance(value, str) else "x", [LONG])
    secrets_of(value, ["card"])


def test_of_a_map_that_cannot_be_shown_plain_names_stay() -> None:
    value = {"result": 1, SECRET: 2, "AKIASENTINEL5F2C9E1B": 3, "no name": 4}
    assert scrub(value, (), [f"{SECRET}", *map(str, range(5000))]) == {"result": UNREADABLE}


def test_the_rest_of_a_value_stays_where_one_part_cannot_be_read() -> None:
    assert scrub({"a": Odd(), "b": 1}) == {"a": {"password": mask("password")}, "b": 1}
    assert scrub({"a": Endless(), "b": 1}) == {"a": UNREADABLE, "b": 1}
    assert scrub(circle(), ["card"]) == {"card": mask("card"), "self": [mask("circular")]}


STREAMS = {**KEYS, "known": f"it is {LONG}, as said", "field": f'{{"card": "{LONG}", "b": "x y"}} z'}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.row("L3")
def test_a_secret_in_pieces_is_hidden(kind: str, size: int, tally: Counter[str]) -> None:
    text = f"Well, {STREAMS[kind]}\nand so on, to the end."
    scrubber = Scrubber(["card"], [LONG])
    told = "".join(scrubber.feed(text[at : at + size]) for at in range(0, len(text), size)) + scrubber.close()
    assert not any(mark in told for mark in (*MARKS, "1b7a é"))
    assert "[hidden" in told
    assert told.startswith("Well, ")
    assert told.endswith("and so on, to the end.") or kind == "pem cut off"
    assert told == scrub_text(text, [LONG], ["card"])
    tally["cuts of a streamed secret"] += 1


def test_as_little_as_possible_is_held_back() -> None:
    scrubber = Scrubber((), ["two words"])
    assert scrubber.feed("The answer") == "The "
    assert scrubber.feed(" is") == "answer "
    assert scrubber.feed(" tw") == "is "
    assert scrubber.feed("o wor") == ""
    assert scrubber.feed("kers ") == "two workers "
    assert scrubber.feed("答案是") == "答案是"
    assert scrubber.feed("x" * 20_000)
    assert len(scrubber.close()) < 5000


def test_a_value_without_an_end_is_never_given() -> None:
    scrubber = Scrubber(["card"])
    told = scrubber.feed('it is {"card": "') + "".join(scrubber.feed("SENTINEL 5f2c ") for _ in range(5000))
    assert told + scrubber.close() == f'it is {{"card": "{mask("card")}'


@given(st.text(alphabet="sk-1 =:\"'\\{}[]aA.@/pwdtoken\n", max_size=200), st.integers(1, 9))
@pytest.mark.row("L7")
def test_no_text_is_too_odd(text: str, size: int) -> None:
    """Totality; what was hidden once stays as it is."""
    clean = scrub_text(text, ["kkkk"], ["pwd"])
    assert clean != UNREADABLE
    scrubber = Scrubber(["pwd"], ["kkkk"])
    told = "".join(scrubber.feed(text[at : at + size]) for at in range(0, len(text), size)) + scrubber.close()
    assert isinstance(told, str)


HOSTILE = [
    *(
        "sk-",
        "eyJ",
        "eyJaaaaaaaa.",
        "://",
        "://a:b",
        "password=",
        '"password":"',
        "bearer ",
        "Bearer a",
        "\\",
    ),
    *('"', "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "token={", "cookie:", "SG.aaaaaaaaaaaaaaaa", "["),
    *("--token ", "--token '", "<pwd>a"),
    *("card: a = {", "card: a = '", "token: a = ", "card => [", 'card["card"] = ', 'cookie: a="', "card=[\\'"),
    *('{"a":', "a.b.", "x-key: ", '\\"', "xoxb-", "\u0430:"),
    *("mysql", "mysql ", "mysql -p'", "mysql -p\\", "?key=", "?key=a", "1:A", ":A", "1"),
]


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.row("L8")
def test_the_time_is_linear_in_the_text(piece: str, tally: Counter[str]) -> None:
    """Eight times the text takes no more than about eight times as long."""

    def seconds(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size] + " password=x"
        return least(lambda: scrub(text, ["card"], [LONG]))

    assert seconds(1 << 19) < 20 * seconds(1 << 16) + 0.02
    assert seconds(1 << 20) < 2
    tally["hostile texts of 1 MiB scrubbed"] += 1
