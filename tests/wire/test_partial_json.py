"""What is shown of a call's arguments while they arrive."""

import json

import pytest

from toolwire.wire.partial_json import Preview, partial_json

WHOLE = {
    "path": 'a"b\\c\u00e9\U0001f600\n',
    "numbers": [1, -2.5e3, {"inner": "value", "empty": []}],
    "yes": True,
    "nothing": None,
    "object": {},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("{", {}),
        ('{"pa', {}),
        ('{"path"', {}),
        ('{"path":', {}),
        ('{"path": "READ', {"path": "READ"}),
        ('{"path": "a\\', {"path": "a"}),
        ('{"path": "a\\\\', {"path": "a\\"}),
        ('{"path": "\\u00', {"path": ""}),
        ('{"path": "\\ud83d\\ude', {"path": ""}),
        ('{"count": 12', {}),
        ('{"count": 12,', {"count": 12}),
        ('{"ok": tru', {}),
        ('{"list": [1, {"a": "b"}, "c', {"list": [1, {"a": "b"}, "c"]}),
        ("[1, 2", [1]),
        ("nonsense", None),
        ('{"a": }', None),
        ("}", None),
    ],
)
def test_a_beginning_shows_what_cannot_change(text: str, value: object) -> None:
    assert partial_json(text) == Preview(value, complete=False)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_beginning_of_a_text_shows_a_beginning_of_its_value(ascii_only: bool) -> None:
    text = json.dumps(WHOLE, ensure_ascii=ascii_only)
    for end in range(len(text)):
        shown = partial_json(text[:end])
        assert not shown.complete
        assert shown.value is None or begins(shown.value, WHOLE), text[:end]
    assert partial_json(text) == Preview(WHOLE, complete=True)


def begins(shown: object, whole: object) -> bool:
    """Whether a value is a beginning of another, in every place."""
    if isinstance(shown, dict) and isinstance(whole, dict):
        return all(begins(value, whole[key]) for key, value in shown.items())
    if isinstance(shown, list) and isinstance(whole, list):
        return len(shown) <= len(whole) and all(map(begins, shown, whole))
    if isinstance(shown, str) and isinstance(whole, str):
        return whole.startswith(shown)
    return shown == whole


def test_a_preview_is_no_map_of_arguments() -> None:
    assert not isinstance(partial_json('{"a": 1}'), dict)


def test_a_text_that_is_nested_too_deeply_shows_nothing() -> None:
    assert partial_json("[" * 100_000) == Preview(None, complete=False)
