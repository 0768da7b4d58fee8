"""How large a document is: what is short is only measured where it comes to it, and counts the same."""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.schemas import STRING, Schema, around
from toolwire.errors import InvalidSchema
from toolwire.schema import TARGETS, fit
from toolwire.schema.document import MAX_NESTING, MAX_SIZE, RootSchema, measure, size_at_most
from toolwire.schema.fitting import KNOWN
from toolwire.work.keeping import Holding

if TYPE_CHECKING:
    from collections.abc import Iterator


def nested(levels: int) -> Any:
    return 1 if not levels else [nested(levels - 1)]


def doubled(levels: int) -> Schema:
    def each(place: int) -> Schema:
        return {"anyOf": [{"$ref": f"#/$defs/d{place}"}, {"$ref": f"#/$defs/d{place}"}], "minLength": 1}

    defs = {f"d{place}": each(place + 1) for place in range(levels)}
    return around({"$ref": "#/$defs/d0"}, **{"$defs": {**defs, f"d{levels}": STRING}})


SCHEMAS: dict[str, Schema] = {
    "plain": around(STRING),
    "types": around({"type": ["integer", "null"], "minimum": 3}),
    "long text": around({**STRING, "pattern": "x" * 5000}),
    "deep": around({"examples": nested(MAX_NESTING - 4)}),
    "too deep": around({"examples": nested(MAX_NESTING)}),
    **{f"doubled {levels} times": doubled(levels) for levels in range(6, 10)},
}


@contextmanager
def held() -> "Iterator[None]":
    token = KNOWN.set(Holding(1 << 20).of(""))
    try:
        yield
    finally:
        KNOWN.reset(token)


def outcome(schema: Schema, target: str) -> Any:
    try:
        return fit(schema, target)
    except InvalidSchema as problem:
        return str(problem)


@pytest.mark.sampled
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_held_is_fitted_alike(name: str, target: str) -> None:
    with held():
        first, again = outcome(SCHEMAS[name], target), outcome(SCHEMAS[name], target)
    assert first == again == outcome(SCHEMAS[name], target)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_bound_is_never_too_small(name: str) -> None:
    bound = size_at_most(msgspec.json.encode(SCHEMAS[name]))
    assert bound == 0 or bound >= measure(SCHEMAS[name])


def test_a_bound_refuses_nothing_that_its_measure_takes() -> None:
    root = SCHEMAS["types"]
    for at_most in (0, 1000):
        document = RootSchema(root, at_most)
        document.spend(MAX_SIZE - (measure(root) if at_most else 0), "")
        with pytest.raises(InvalidSchema, match="too large"):
            document.spend(1, "")
