"""The schema of an annotation is pydantic's, or differs for a reason; what it takes can be read."""

import json
from collections import Counter, abc
from typing import Any, get_origin

import jsonschema_rs
import pydantic
import pytest

from tests.resolvers.functions.annotation_cases import CASES, UNKNOWN, Case
from toolwire.errors import InvalidField
from toolwire.resolvers.functions.annotations import json_type_of
from toolwire.resolvers.functions.signature import Signature, read_signature


def schema_of(annotation: Any, path: str = "") -> dict[str, Any]:
    return json_type_of(annotation, path=path).schema


def ids(case: Case) -> str:
    return case.id


def normal(schema: Any, *, names: bool = False) -> Any:
    """Take out the three things in which every schema differs.

    pydantic makes titles of names, leaves objects open (and then drops unknown keys in silence), and does not
    say that what `default_factory=list` makes is [].
    """
    if isinstance(schema, list):
        return [normal(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: normal(inner, names=key in ("properties", "$defs") and not names)
        for key, inner in schema.items()
        if names
        or ((key, inner) not in (("additionalProperties", False), ("default", [])) and not _is_made_up(key, inner))
    }


def _is_made_up(key: str, inner: Any) -> bool:
    return key == "title" and inner != "T"


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_schema_is_that_of_pydantic_or_differs_for_a_reason(case: Case, tally: Counter[str]) -> None:
    ours = normal(schema_of(case.annotation))
    theirs = _theirs(case)
    if case.ours is None:
        assert ours == theirs
    else:
        assert (ours, bool(case.because)) == (case.ours, True)
        assert ours != theirs, "there is no difference any more"
    relation = "equals" if case.ours is None else "differs with a reason from"
    tally[f"annotations whose schema {relation} pydantic's"] += 1


def _theirs(case: Case) -> Any:
    try:
        return normal(pydantic.TypeAdapter(case.annotation).json_schema())
    except pydantic.errors.PydanticSchemaGenerationError:
        return None


def test_the_normalisation_hides_nothing_else() -> None:
    schema = {
        "title": "A",
        "additionalProperties": False,
        "properties": {"title": {"minimum": 1, "title": "x"}},
    }
    assert normal(schema) == {"properties": {"title": {"minimum": 1}}}
    assert normal({"additionalProperties": True}) == {"additionalProperties": True}


def test_the_table_is_large_enough() -> None:
    assert len(CASES) >= 60
    assert len({case.id for case in CASES}) == len(CASES)


def signature_of(annotation: Any) -> Signature:
    def function(value): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202

    function.__annotations__["value"] = annotation
    return read_signature(function)


def plain(value: Any) -> Any:
    """Give a value that is read once as a list, and can be compared."""
    return list(value) if isinstance(value, abc.Iterator) else value


def same(one: Any, other: Any) -> bool:
    return bool(one == other) and type(one) is type(other)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_value_comes_back_through_json(case: Case, tally: Counter[str]) -> None:
    signature = signature_of(case.annotation)
    takes = jsonschema_rs.Draft202012Validator(signature.parameters)
    write: Any = case.values and pydantic.TypeAdapter(
        case.annotation,
        config=None if _has_config(case.annotation) else pydantic.ConfigDict(ser_json_bytes="base64"),
    )
    for value in case.values:
        arguments = {"value": json.loads(write.dump_json(value, by_alias=True, warnings=False))}
        if isinstance(value, bytes):
            arguments = {"value": arguments["value"].replace("-", "+").replace("_", "/")}
        takes.validate(arguments)
        [], keywords = signature.bind(arguments)
        assert same(keywords["value"], value)
        tally["values that come back through JSON"] += 1


def _has_config(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and (
        hasattr(kind, "__pydantic_config__")
        or hasattr(kind, "model_config")
        or hasattr(kind, "__dataclass_fields__")
        or hasattr(kind, "__total__")
    )


POOL: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        2,
        -1,
        5,
        10,
        5.0,
        1.5,
        0.5,
        1e308,
        2**53 + 1,
        10**30,
        "",
        "a",
        "b",
        "aa",
        "5",
    ),
    *("A", "true", "null", "red", "c", "on", "only", "cat", "2030-01-31", "2030-01-31T12:00:00Z", "12:00:00"),
    *("2030-02-30", "PT1H", "P1D", "123e4567-e89b-12d3-a456-426614174000", "YWI=", "YWI", "/a/b", "12.50"),
    *("NaN", "https://example.org/", "00000", "x" * 50, "\u0000", "é"),
    *([], [1], [1, 2], [1, 1], [5, 6, 7], ["a"], ["a", "b"], [1, "a"], [1, None], [[1]], [[]], [True], [{}]),
    *({}, {"a": 1}, {"x": 1}, {"x": 1, "y": 2.5}, {"x": 1, "y": 1, "labels": ["a"]}, {"x": "1"}, {"1": "a"}),
    *({"c": 1}, {"query": "q"}, {"query": "q", "unit": "f", "around": {"x": 1}}, {"value": 1}, {"held": 1}),
    *({"value": 1, "children": [{"value": 2, "children": []}]}, {"held": 1, "more": [1]}, {"held": "a"}),
    *(
        {"name": "n", "year": 1},
        {"limit": 1},
        {"limit": 1, "deep": True},
        {"street": "s"},
        {"n": 1},
        {"n": 0},
    ),
    *(
        {"kind": "cat"},
        {"kind": "dog", "name": "n"},
        {"fullName": "n", "home": {"street": "s"}},
        {"a": 1, "c": 3},
    ),
    *([{"street": "s"}], [{"x": 1}], [{"held": "a"}], [{"x": 1}, {"x": 2}], [{"held": 1}, {"held": "a"}]),
]


def verdict(adapter: Any, text: str, *, strict: bool) -> tuple[bool, Any]:
    try:
        return True, plain(adapter.validate_json(text, strict=strict))
    except pydantic.ValidationError:
        return False, None


def ours(signature: Signature, takes: Any, value: Any) -> tuple[bool, Any]:
    if not takes.is_valid({"value": value}):
        return False, None
    try:
        return True, signature.bind({"value": value})[1]["value"]
    except InvalidField:
        return False, None


# Where pydantic, strict or not, gives something else: the reason, the cases (all of them: none), the JSON.
DIFFERENCES: list[tuple[str, set[str], set[str]]] = [
    ("a number that is whole is an integer, however large", set(), {"1e+308"}),
    ("an integer that no float can say stays one", {"float"}, {"9007199254740993", str(10**30)}),
    ("JSON has no bytes: ours are base64", {"bytes"}, set()),
    ("a number in text is no date", {"datetime", "date", "date | datetime"}, {'"5"', '"12.50"', '"00000"'}),
    ("a time is no duration", {"timedelta"}, {'"12:00:00"'}),
    (
        "true is not 1",
        {"IntEnum", "mixed Enum", "Literal of numbers", "Literal of booleans", "mixed Literal"},
        {"true", "1"},
    ),
    ("pydantic reads no JSON for a Literal of members", {"Literal of members"}, {'"red"'}),
    ("text and objects are not arrays", {"Iterable"}, {'""', "{}"}),
    ("what is there twice is refused, not dropped", {"set", "abstract set", "Len of a set"}, {"[1, 1]"}),
    ("an unknown key is refused, not dropped", {"partial TypedDict"}, {'{"limit": 1, "deep": true}'}),
    ("what a base class is of is known", {"inherited generic"}, {'{"held": "a"}'}),
]


def expected(case: Case, text: str) -> bool:
    return any(
        case.id in cases | ({case.id} if not cases else set()) and text in texts | ({text} if not texts else set())
        for _, cases, texts in DIFFERENCES
    )


@pytest.mark.parametrize("case", [case for case in CASES if case.because != UNKNOWN], ids=ids)
def test_what_pydantic_takes_strictly_is_taken_and_what_is_taken_pydantic_takes(
    case: Case, tally: Counter[str]
) -> None:
    adapter = pydantic.TypeAdapter(case.annotation)
    signature = signature_of(case.annotation)
    takes = jsonschema_rs.Draft202012Validator(signature.parameters)
    wrong = []
    for value in POOL:
        text = json.dumps(value)
        strictly, strict_value = verdict(adapter, text, strict=True)
        loosely, loose_value = verdict(adapter, text, strict=False)
        taken, read = ours(signature, takes, value)
        differs = (strictly and not (taken and same(read, strict_value))) or (
            taken and not (loosely and same(read, loose_value))
        )
        if differs and not expected(case, text):
            wrong.append((text, "strictly", strict_value, "loosely", loose_value, "ours", taken, read))
        which = "differ for a reason" if differs else "agree"
        tally[f"JSON values on which annotations and pydantic {which}"] += 1
    assert wrong == []


def test_every_difference_is_still_there() -> None:
    for reason, cases, texts in DIFFERENCES:
        assert any(
            case.id in (cases or {case.id}) and _differs(case, text) for case in CASES for text in texts or {'"a"'}
        ), reason


def _differs(case: Case, text: str) -> bool:
    signature = signature_of(case.annotation)
    takes = jsonschema_rs.Draft202012Validator(signature.parameters)
    adapter = pydantic.TypeAdapter(case.annotation)
    taken = ours(signature, takes, json.loads(text))
    return taken not in (verdict(adapter, text, strict=True), verdict(adapter, text, strict=False))
