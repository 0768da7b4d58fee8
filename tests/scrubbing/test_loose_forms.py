"""The spellings in which a long secret is known again, and the ordinary text that is not hidden for it."""

import base64
import json
from collections.abc import Callable

import pytest

from tests.timing import within
from toolwire.scrubbing import HIDDEN, Known, scrub, scrub_text

SECRET = "Zq7-vWx9/pLm3+Kd2_tY"  # noqa: S105 - of no one
SPELLINGS: dict[str, Callable[[str], str]] = {
    "every character in a URL": lambda secret: "".join(f"%{ord(one):02X}" for one in secret),
    "every character in a URL, small": lambda secret: "".join(f"%{ord(one):02x}" for one in secret),
    "every second character in a URL": lambda secret: "".join(
        f"%{ord(one):02x}" if place % 2 else one for place, one in enumerate(secret)
    ),
    "escaped": lambda secret: "".join(f"\\u{ord(one):04x}" for one in secret),
    "escaped twice": lambda secret: "".join(f"\\\\u{ord(one):04X}" for one in secret),
    "escaped as bytes": lambda secret: "".join(f"\\x{ord(one):02x}" for one in secret),
    "entities": lambda secret: "".join(f"&#{ord(one)};" for one in secret),
    "entities of base 16": lambda secret: "".join(f"&#x{ord(one):x};" for one in secret),
    "entities with zeros": lambda secret: "".join(f"&#X{ord(one):04X};" for one in secret),
    "upper case": str.upper,
    "lower case": str.lower,
    "a line break": lambda secret: f"{secret[:9]}\n{secret[9:]}",
    "lines and indents": lambda secret: f"{secret[:5]}\r\n    {secret[5:12]}\n\t{secret[12:]}",
    "spaced": " ".join,
    "base32": lambda secret: base64.b32encode(secret.encode()).decode(),
    "base32, small": lambda secret: base64.b32encode(secret.encode()).decode().lower().rstrip("="),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_long_secret_is_known_in_every_spelling(name: str) -> None:
    spelled = SPELLINGS[name](SECRET)
    for before, after in (("", ""), ("it is ", ", they say"), ("é%zz\\ \n", "&#; ß")):
        text = before + spelled + after
        clean = scrub_text(text, [SECRET])
        assert clean.startswith(before + HIDDEN)
        assert clean.removeprefix(before + HIDDEN) in (after, "=" * spelled.count("=") + after)
    known = Known([SECRET])
    assert spelled not in json.dumps(scrub({"a": [f"x {spelled} y"]}, secrets=known), ensure_ascii=False)
    learnt = Known()
    learnt.learn([SECRET])
    assert HIDDEN in scrub(f"x {spelled} y", secrets=learnt)
    assert HIDDEN in scrub({"pin": SECRET, "said": f"x {spelled} y"}, ["pin"])["said"]


@pytest.mark.parametrize("name", ["every character in a URL", "escaped", "entities", "entities with zeros"])
@pytest.mark.parametrize("secret", ["%41bc&#65;-\\u0041x", "a%5Cb/c%2Fd%e1efgh"])
def test_a_secret_that_looks_spelled_is_known_in_every_spelling(secret: str, name: str) -> None:
    assert scrub_text(f"it is {SPELLINGS[name](secret)}, they say", [secret]) == f"it is {HIDDEN}, they say"


@pytest.mark.sampled
@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("length", range(8, 15))
def test_base32_is_known_wherever_the_secret_stands_in_it(before: int, length: int) -> None:
    secret = "k8#Vw2!qZ5@mT7"[:length]
    text = base64.b32encode(b"a" * before + secret.encode() + b"b" * 7).decode()
    assert HIDDEN in scrub_text(text, [secret])


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("password", "PASS WORD"),
        ("four words", "Four\nwords"),
        ("short-secret-15", "SHORT-SECRET-15"),
        (SECRET, "Zq7 and vWx9, but not pLm3+Kd2_tY"),
        (SECRET, SECRET[:-1].lower()),
        (SECRET, "100% of %41 is &#65; in \\u0041"),
    ],
)
def test_ordinary_text_stays(secret: str, text: str) -> None:
    assert scrub_text(text, [secret]) == text


UNITS = ["%41", "\\u0041", "&#65;", "\\" * 9, "a ", SECRET.lower()[:-1], SECRET.lower() + " ", "%", "&#", "\\u00"]


@pytest.mark.parametrize("unit", UNITS)
def test_time_grows_with_the_text(unit: str) -> None:
    with within(5):
        scrub_text(unit * (100_000 // len(unit)), [SECRET])
