"""Bodies as they are written: where a member stands, in bytes, and what is no part of them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.errors import InvalidBody
from toolwire.wire.bodies import find_member, members_of, read_body

KEYS = st.sampled_from(["model", "a", "mod\u00e9l", 'x"model', "messages", ""])
VALUES = st.sampled_from([1, "\u00e9", "model", {"model": "m"}, [{"model": 2}], None, 'a\\"model":"b'])
WAYS: list[dict[str, Any]] = [
    {"separators": (",", ":")},
    {"separators": (",", ":"), "ensure_ascii": False},
    {},
    {"indent": 1},
]


@given(st.dictionaries(KEYS, VALUES), st.sampled_from(WAYS), st.sampled_from(["", " ", "\n"]))
def test_a_member_stands_where_its_value_is_written(members: dict[str, Any], way: dict[str, Any], space: str) -> None:
    body = (space + json.dumps({**members, "model": "gpt"}, **way) + space).encode()
    start, end = find_member(body, "model", members_of(body))
    assert body[start:end] == b'"gpt"'
    assert json.loads(body[:start] + b'"other"' + body[end:]) == {**members, "model": "other"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"x","model":"x"}',
        b'{"model":"x","a":1,"a":1}',
        b'{"a":1,"model":"x","mod\\u0065l":"x"}',
        b'{"a":1, "a":12, "model":"x"}',
    ],
)
def test_a_member_given_twice_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidBody, match="has a key twice"):
        find_member(body, "model")


@pytest.mark.parametrize("place", ['"a":"\ue000"', '"a":["\ue000"]', '"\ue000":1', '"a":{"b":"\ue000"}'])
@pytest.mark.parametrize("odd", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80"])
def test_what_is_no_text_is_refused_though_nobody_reads_it(place: str, odd: bytes) -> None:
    with pytest.raises(InvalidBody, match=r"^body: is not a JSON object: 'utf-8' codec"):
        members_of(b'{"model":"x",%b}' % place.encode().replace("\ue000".encode(), odd))


@pytest.mark.parametrize("body", ['\ufeff{"a":1}', b'\xef\xbb\xbf{"a":1}', bytearray(b'\xef\xbb\xbf {"a": 1}')])
def test_a_byte_order_mark_is_no_part_of_a_body(body: Any) -> None:
    assert read_body(body) == {"a": 1}
    with pytest.raises(InvalidBody, match="is not JSON"):
        read_body(body[:1] + body)
