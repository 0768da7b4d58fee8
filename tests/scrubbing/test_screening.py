"""The fast test never passes a text in which scrubbing would hide something."""

import random
import string

import pytest

from tests.records.test_masking import CANARY, FORMS
from toolwire.scrubbing import SecretScreen, scrub_text
from toolwire.scrubbing.texts import key_patterns

KEYS = [
    "sk-proj-abcdefghij0123456789",
    "AIza" + "a1" * 20,
    "AQ." + "a1" * 20,
    "gsk_" + "a1" * 20,
    "r8_" + "a1" * 20,
    "sk_live_0123456789ab",
    "https://x.test/?key=abcdef0123456789abcdef",
    "AKIA" + "A1" * 8,
    "ghp_" + "a1" * 20,
    "xoxb-0123456789-abc",
    "glpat-" + "a1" * 20,
    "github_pat_" + "a1" * 20,
    "12345678:AA" + "a1" * 17 + "b",
    "SG." + "a1" * 10 + "." + "b2" * 10,
    "Authorization: Bearer abcdef012345",
    "mysql -u root -pHunter2 db",
    "eyJhbGciOiJI.eyJzdWIi.c2ln",
    "-----BEGIN RSA PRIVATE KEY-----\nabc",
    "https://user:pass@example.com",
    "password=open sesame",
    "--password 'open'",
    "<password>open</password>",
    '{"name": "API_TOKEN", "value": "open"}',
    "pa\\u0073sword: open1",
    "\uff30\uff21\uff33\uff33\uff37\uff2f\uff32\uff24: open1",
    "tw-" + "a2" * 20,
    CANARY.upper(),
    " ".join(CANARY),
    "\u2003".join(CANARY),
    *(form(CANARY) for form in FORMS.values()),
]
SCREEN = SecretScreen([CANARY])


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "see {} there", '{{"a": "{}"}}', "é {} é", "x" * 500 + " {} " + "y" * 500])
def test_what_scrubbing_hides_is_not_passed(key: str, around: str) -> None:
    text = around.format(key)
    if scrub_text(text, [CANARY]) != text:
        assert SCREEN.may_hide(text)


def test_most_of_the_keys_are_hidden_at_all() -> None:
    assert sum(scrub_text(f"see {key} there", [CANARY]) != f"see {key} there" for key in KEYS) > len(KEYS) * 0.8


def test_random_texts_of_pieces_of_keys() -> None:
    rng = random.Random(47)  # noqa: S311 - no secret
    pieces = [key[start : start + 9] for key in KEYS for start in range(0, len(key), 5)] + [*string.punctuation, " "]
    hidden = 0
    for _ in range(3000):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 12)))
        if scrub_text(text, [CANARY]) != text:
            hidden += 1
            assert SCREEN.may_hide(text), text
    assert hidden > 150


def test_ordinary_texts_are_passed() -> None:
    for text in (
        "How are you?",
        '{"model": "gpt-5", "max_tokens": 100}',
        "Grüße aus Köln",
        "def f(x):\n    return x\n",
    ):
        assert not SCREEN.may_hide(text)


def test_half_a_character_is_not_passed() -> None:
    assert SCREEN.may_hide("\udcff")


def test_every_pattern_is_read_by_the_other_engine() -> None:
    assert len(key_patterns()) > 30
    assert not SecretScreen().may_hide("")
