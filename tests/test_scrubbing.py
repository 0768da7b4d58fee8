"""Sensitive values, kept out of whatever is written down."""

from typing import Any

import pytest

from toolwire.scrubbing import HIDDEN, scrub, scrub_text, secrets_of

SECRET = "s3cr3t"  # noqa: S105 - a stand-in
PLACES: list[Any] = [
    {"key": SECRET},
    {"KEY": SECRET},
    {"a": {"key": SECRET}},
    {"a": [{"key": SECRET}, 1]},
    {"key": [SECRET, {"x": SECRET}]},
    {"key": {"deep": {"er": SECRET}}},
    [[{"Key": (SECRET,)}]],
]


@pytest.mark.parametrize("value", PLACES)
def test_sensitive_fields_are_hidden_wherever_they_stand(value: Any) -> None:
    before = repr(value)
    assert SECRET not in repr(scrub(value, ["key"]))
    assert HIDDEN in repr(scrub(value, ["key"]))
    assert repr(value) == before, "the tool gets the original"
    assert SECRET in secrets_of(value, ["key"])
    assert SECRET in repr(scrub(value, ["other"])), "a control: the secret is there"


def test_nothing_else_is_touched() -> None:
    value = {"a": [1, "x", {"b": None}], "keys": "stay"}
    assert scrub(value, ["key"]) == value
    assert scrub(value, []) is value
    assert secrets_of(value, ["key"]) == []


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        (SECRET, f"failed with {SECRET}"),
        ("a'b\n", f"failed with {'a' + chr(39) + 'b' + chr(10)!r}"),
        ('quote"d', 'failed with {"key": "quote\\"d"}'),
        (123456, "failed with 123456"),
    ],
)
def test_what_stood_in_a_sensitive_field_is_taken_out_of_text(secret: Any, text: str) -> None:
    found = secrets_of({"key": secret}, ["key"])
    assert scrub_text(text, found) != text
    assert str(secret) not in scrub_text(text, found)


def test_a_short_value_is_not_taken_out_of_text() -> None:
    assert secrets_of({"key": "a"}, ["key"]) == []
    assert secrets_of({"key": True}, ["key"]) == []
