"""The table of a request's settings, read in both directions; spellings are kept while they mean the same."""

from typing import Any

import pytest

from toolwire import Context, Loss, Opaque, Request, dialect
from toolwire.dialects import NAMES
from toolwire.encoding.ledger import Ledger, Wire
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import NUMBER, Setting, Settings, Understood, merge, plain
from toolwire.types.spelling import RequestSpelling

WIRE = Wire("test")


def _decode_stop(value: Any) -> Understood | None:
    if isinstance(value, str):
        return Understood({"stop": [value]}, keep=True)
    return Understood({"stop": value}) if isinstance(value, list) else None


def _decode_limits(value: Any) -> Understood | None:
    if not isinstance(value, dict):
        return None
    left = dict(value)
    fields = {field: left.pop(key) for key, field in LIMITS.items() if key in left}
    return Understood(fields, left or ABSENT)


def _encode_limits(request: Request, _ledger: Ledger) -> Any:
    said = {key: getattr(request, field) for key, field in LIMITS.items()}
    return {key: value for key, value in said.items() if value is not None}


def _refuse(request: Request, ledger: Ledger) -> Any:
    ledger.lose("seed", "seed", f"no seed {request.seed}")
    return ABSENT


LIMITS = {"tokens": "max_tokens", "top": "top_k"}
TABLE = Settings(
    plain("model", "model", str),
    plain("temp", "temperature", *NUMBER),
    plain("max", "max_tokens", int),
    Setting("stop", ("stop",), _decode_stop, lambda request, _ledger: request.stop),
    Setting("limits", ("top_k",), _decode_limits, _encode_limits),
    Setting("seed", ("seed",), plain("", "seed", int).decode, _refuse),
)

DECODED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}, {}, {}),
    "plain": ({"model": "m", "temp": 0.5}, {"model": "m", "temperature": 0.5}, {}, {}),
    "whole numbers": ({"temp": 1, "max": 5}, {"temperature": 1, "max_tokens": 5}, {}, {}),
    "unknown keys": ({"model": "m", "colour": 1}, {"model": "m"}, {"colour": 1}, {}),
    "null": ({"model": None, "temp": None}, {}, {"model": None, "temp": None}, {}),
    "another kind": (
        {"temp": True, "max": 1.5, "seed": "x"},
        {},
        {"temp": True, "max": 1.5, "seed": "x"},
        {},
    ),
    "a spelling": ({"stop": "END"}, {"stop": ["END"]}, {}, {"stop": "END"}),
    "the usual spelling": ({"stop": ["END"]}, {"stop": ["END"]}, {}, {}),
    "not understood": ({"stop": 1}, {}, {"stop": 1}, {}),
    "something left": ({"limits": {"top": 4, "x": 1}}, {"top_k": 4}, {"limits": {"x": 1}}, {}),
    "one field twice": (
        {"max": 5, "limits": {"tokens": 6, "top": 4}},
        {"max_tokens": 5},
        {"limits": {"tokens": 6, "top": 4}},
        {},
    ),
}


@pytest.mark.parametrize(("body", "fields", "left", "form"), DECODED.values(), ids=DECODED)
def test_settings_are_read(
    body: dict[str, Any], fields: dict[str, Any], left: dict[str, Any], form: dict[str, Any]
) -> None:
    rest = dict(body)
    assert TABLE.decode(rest) == (fields, form)
    assert rest == left


def encode(opaque: Opaque | None = None, **fields: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    ledger, body = Ledger(WIRE), dict[str, Any]()
    TABLE.encode(Request(context=Context(), opaque=opaque, **fields), ledger, body)
    return body, [(loss.path, loss.severity) for loss in ledger.losses]


ENCODED: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = {
    "nothing": ({}, {}, []),
    "plain": ({"model": "m", "temperature": 0}, {"model": "m", "temp": 0}, []),
    "a list": ({"stop": ["a", "b"]}, {"stop": ["a", "b"]}, []),
    "an object": ({"max_tokens": 5, "top_k": 4}, {"max": 5, "limits": {"tokens": 5, "top": 4}}, []),
    "a refusal": ({"seed": 7}, {}, [("seed", "semantic")]),
    "what the table does not name": (
        {"top_p": 0.5, "metadata": {}},
        {},
        [("top_p", "semantic"), ("metadata", "formal")],
    ),
    "what every server does anyway": (
        {
            "n": 1,
            "parallel_tool_calls": True,
            "logprobs": False,
            "stream": False,
            "store": False,
            "frequency_penalty": 0.0,
            "presence_penalty": 0,
        },
        {},
        [
            ("stream", "formal"),
            ("parallel_tool_calls", "formal"),
            ("n", "formal"),
            ("frequency_penalty", "formal"),
            ("presence_penalty", "formal"),
            ("logprobs", "formal"),
            ("store", "formal"),
        ],
    ),
    "what it does not": (
        {
            "n": 2,
            "parallel_tool_calls": False,
            "logprobs": True,
            "stream": True,
            "store": True,
            "frequency_penalty": 0.1,
        },
        {},
        [
            ("stream", "semantic"),
            ("parallel_tool_calls", "semantic"),
            ("n", "semantic"),
            ("frequency_penalty", "semantic"),
            ("logprobs", "semantic"),
            ("store", "formal"),
        ],
    ),
}


@pytest.mark.parametrize(("fields", "body", "lost"), ENCODED.values(), ids=ENCODED)
def test_settings_are_written(fields: dict[str, Any], body: dict[str, Any], lost: list[tuple[str, str]]) -> None:
    assert encode(**fields) == (body, lost)


def test_a_spelling_is_kept_while_it_means_the_same() -> None:
    spelling = RequestSpelling(settings={"stop": "END"})
    own = Opaque("test", {}, spelling=spelling)
    assert encode(own, stop=["END"]) == ({"stop": "END"}, [])
    assert encode(own, stop=["STOP"]) == ({"stop": ["STOP"]}, [])
    assert encode(own) == ({}, [])
    assert encode(Opaque("elsewhere", {}, spelling=spelling), stop=["END"]) == ({"stop": ["END"]}, [])


def test_what_was_left_of_an_object_comes_back_with_it() -> None:
    own = Opaque("test", {"limits": {"x": 1, "top": 9}})
    assert encode(own, top_k=4) == ({"limits": {"x": 1, "top": 4}}, [])


MERGED: list[tuple[Any, Any, Any]] = [
    ({}, {"a": 1}, {"a": 1}),
    ({"a": 1}, {"a": 2}, {"a": 2}),
    ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
    ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
    ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
    (None, {"a": 1}, {"a": 1}),
    ({"a": 1}, [1], [1]),
]


@pytest.mark.parametrize(("left", "value", "merged"), MERGED)
def test_what_is_understood_wins(left: Any, value: Any, merged: Any) -> None:
    assert merge(left, value) == merged


def test_where_each_field_stands() -> None:
    assert TABLE.paths() == {
        "model": "model",
        "temperature": "temp",
        "max_tokens": "max",
        "stop": "stop",
        "top_k": "limits",
        "seed": "seed",
    }
    assert TABLE.paths("options")["temperature"] == "options.temp"


def test_a_loss_names_the_dialect() -> None:
    ledger = Ledger(WIRE)
    TABLE.encode(Request(context=Context(), user="u"), ledger, {})
    assert ledger.losses == [Loss("user", "user", "dropped", "test has no such setting", "formal")]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_number_that_json_does_not_have_is_lost_by_name(name: str, value: float) -> None:
    fields = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
    asked: dict[str, Any] = dict.fromkeys(fields, value)
    encoded = dialect(name).encode_request(Request(context=Context(None, ["Hi"]), model="m", **asked))
    assert not any(word in str(encoded.body) for word in ("nan", "inf"))
    assert {loss.path for loss in encoded.losses} >= set(fields)
