"""One byte form of a row and one chain over rows, the same in every version of toolwire."""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from tests.traces.making import made
from toolwire import traces
from toolwire.errors import InvalidField
from toolwire.traces import forms
from toolwire.traces.chain import ZEROS, canonical, digester, next_ledger, row_hash
from toolwire.traces.forms import decode_json, encode_json, encode_row

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("chain_v1.json").read_text("utf-8"))


@pytest.mark.parametrize("number", range(len(VECTORS["rows"])))
@pytest.mark.row("T4")
def test_the_bytes_of_a_row_are_those_of_version_1(number: int) -> None:
    assert canonical(VECTORS["rows"][number]).decode() == VECTORS["canonical"][number]


@pytest.mark.row("T4")
def test_the_chain_is_that_of_version_1() -> None:
    rows = VECTORS["rows"]
    found = traces.verify(rows)
    assert (found.problems, found.rows) == ((), len(rows))
    assert found.anchor == f"{len(rows)}:{rows[-1]['ledger']}"
    keyed = [row | links for row, links in zip(rows, VECTORS["keyed"], strict=True)]
    assert traces.verify(keyed, key=VECTORS["key"]).ok
    assert not traces.verify(keyed).ok
    assert not traces.verify(rows, key=VECTORS["key"]).ok


@pytest.mark.row("T4")
def test_the_chain_can_be_computed_with_nothing_of_ours() -> None:
    ends: dict[Any, str] = {}
    ledger = "0" * 64
    for row, links in zip(VECTORS["rows"], VECTORS["keyed"], strict=True):
        said = {
            name: value
            for name, value in row.items()
            if value is not None and name not in ("previous", "hash", "ledger")
        }
        text = json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        chain = (row["tenant_id"], row["conversation_id"])
        digest = hashlib.sha256((ends.get(chain, "0" * 64) + text).encode()).hexdigest()
        ledger = hashlib.sha256((ledger + digest).encode()).hexdigest()
        assert (row["hash"], row["ledger"]) == (digest, ledger)
        ends[chain] = digest
        key = VECTORS["key"].encode()
        assert links["hash"] == hmac.new(key, (links["previous"] + text).encode(), "sha256").hexdigest()


@pytest.mark.row("T4")
def test_null_and_missing_are_one_and_the_order_of_keys_is_none() -> None:
    row = encode_row(made())
    assert row["model"] is None
    shuffled = {name: row[name] for name in sorted(row, reverse=True) if row[name] is not None}
    assert canonical(shuffled) == canonical(row)
    assert canonical({**row, "model": ""}) != canonical(row)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ({"a": 1.0, "b": 1, "c": 1e16, "d": 0.1}, '{"a":1.0,"b":1,"c":1e+16,"d":0.1}'),
        ({"a": float("nan"), "b": float("-inf")}, '{"a":"$float:nan","b":"$float:-inf"}'),
        ({"a": "x\x00\\"}, '{"a":"$text:x\\\\u0000\\\\\\\\"}'),
        ({"a": "\ud800"}, '{"a":"$text:\\\\ud800"}'),
        ({"a": b"\xff"}, '{"a":"$bytes:/w=="}'),
        ({1: 1, "1": 2, None: 3, False: 4}, '{"$bool:false":4,"$int:1":1,"$null:":3,"1":2}'),
        ({"a": "$bytes:x", "$cost": "$5"}, '{"$cost":"$5","a":"$text:$bytes:x"}'),
        ({"a": 2**64}, '{"a":18446744073709551616}'),
        ({"é": "e\u0301"}, '{"é":"e\u0301"}'),
        ({"a": {1}}, '{"a":[1]}'),
    ],
)
@pytest.mark.row("T11")
def test_the_form_of_a_value(value: Any, form: str) -> None:
    assert encode_json(value) == form


@pytest.mark.row("T11")
def test_what_goes_on_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "VALUES", 1000)
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    assert "$deep:list of 2" in encode_json(value)
    assert len(encode_json(value)) < 100_000
    circle: list[Any] = [1]
    circle.append(circle)
    assert encode_json(circle) == '[1,"$deep:circle"]'
    deep: Any = "x"
    for _ in range(10_000):
        deep = {"a": deep}
    assert encode_json(deep).count("{") == forms.DEPTH


@pytest.mark.row("T11")
def test_a_form_is_read_back() -> None:
    value = {"a": [b"\x00", "\ud83d\ude00", 10**5000, 1.5, {"$text:": None}], 5: "x"}
    assert decode_json(encode_json(value)) == value


def test_an_anchor_is_a_position_and_a_ledger() -> None:
    for anchor in ("", "5", "5:abc", "x:" + ZEROS, "-1:" + ZEROS):
        if anchor:
            with pytest.raises(InvalidField, match="anchor"):
                traces.verify([], anchor)
    assert traces.verify([], "1:" + ZEROS).problems[0].kind == "truncated"


def test_a_key_is_not_empty() -> None:
    with pytest.raises(InvalidField, match="key"):
        traces.verify([], key="")


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"position": None},
        {"position": "1", "sequence": 1},
        {"position": 1},
        {"position": 1, "sequence": 1},
    ],
)
def test_rows_of_any_shape_are_problems(row: dict[str, Any]) -> None:
    assert not traces.verify([row, row]).ok


def test_problems_are_counted_and_the_first_are_kept() -> None:
    found = traces.verify({"position": 1, "sequence": 1} for _ in range(5000))
    assert len(found.problems) == 1000
    assert found.count > 5000


def test_the_first_link_is_64_zeros() -> None:
    digest = digester()
    row = {"position": 1}
    assert row_hash(row, ZEROS, digest) == hashlib.sha256(ZEROS.encode() + b'{"position":1}').hexdigest()
    assert next_ledger(ZEROS, "a", digest) == hashlib.sha256(ZEROS.encode() + b"a").hexdigest()
