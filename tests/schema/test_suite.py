"""The public suite of JSON Schema 2020-12 through our validation: what differs, and why.

Rule: a difference that is not listed fails, and so does a listed one that is none.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import found
from tests.schema.test_laws import declared
from toolwire.errors import InvalidSchema
from toolwire.schema.validator import Validator

REMOTE = "what lies outside of a schema is never fetched; the schema is refused"
OWN_DRAFT = "a $schema that is no published draft would have to be fetched; the schema is refused"
UNMEETABLE = "no value can meet it, so that it is a mistake; the schema is refused"
ANNOTATION = "a format is an annotation, as the draft has it by default"

REFUSED: dict[tuple[str, str], str] = {
    ("enum", "empty enum"): UNMEETABLE,
    ("minContains", "maxContains < minContains"): UNMEETABLE,
    **dict.fromkeys(
        (
            ("dynamicRef", "strict-tree schema, guards against misspelled properties"),
            ("dynamicRef", "tests for implementation dynamic anchor and reference link"),
            ("dynamicRef", "$ref and $dynamicAnchor are independent of order - $defs first"),
            ("dynamicRef", "$ref and $dynamicAnchor are independent of order - $ref first"),
            ("dynamicRef", "$ref to $dynamicRef finds detached $dynamicAnchor"),
            ("optional/cross-draft", "refs to historic drafts are processed as historic drafts"),
            ("refRemote", "remote ref"),
            ("refRemote", "fragment within remote ref"),
            ("refRemote", "anchor within remote ref"),
            ("refRemote", "ref within remote ref"),
            ("refRemote", "base URI change"),
            ("refRemote", "base URI change - change folder"),
            ("refRemote", "base URI change - change folder in subschema"),
            ("refRemote", "root ref in remote ref"),
            ("refRemote", "remote ref with ref to defs"),
            ("refRemote", "Location-independent identifier in remote ref"),
            ("refRemote", "retrieved nested refs resolve relative to their URI not $id"),
            ("refRemote", "remote HTTP ref with different $id"),
            ("refRemote", "remote HTTP ref with different URN $id"),
            ("refRemote", "remote HTTP ref with nested absolute ref"),
            ("refRemote", "$ref to $ref finds detached $anchor"),
        ),
        REMOTE,
    ),
    **dict.fromkeys(
        (
            ("optional/format-assertion", "schema that uses custom metaschema with format-assertion: false"),
            ("optional/format-assertion", "schema that uses custom metaschema with format-assertion: true"),
            ("vocabulary", "schema that uses custom metaschema with with no validation vocabulary"),
            ("vocabulary", "ignore unrecognized optional vocabulary"),
        ),
        OWN_DRAFT,
    ),
}

# How many values of a file are accepted that the suite would have refused.
ACCEPTED: dict[str, tuple[int, str]] = {
    f"optional/format/{name}": (count, ANNOTATION)
    for name, count in {
        "date": 58,
        "date-time": 19,
        "duration": 25,
        "ecmascript-regex": 6,
        "email": 11,
        "hostname": 35,
        "idn-email": 2,
        "idn-hostname": 54,
        "ipv4": 30,
        "ipv6": 25,
        "iri": 6,
        "iri-reference": 2,
        "json-pointer": 12,
        "regex": 1,
        "relative-json-pointer": 12,
        "time": 28,
        "uri": 25,
        "uri-reference": 11,
        "uri-template": 13,
        "uuid": 13,
    }.items()
}


def groups(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    root = folder / "json-schema-2020-12" / "tests" / "draft2020-12"
    for path in sorted(root.rglob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            yield path.relative_to(root).with_suffix("").as_posix(), group


def as_argument(schema: Any) -> dict[str, Any]:
    """Make tool parameters with one argument of a schema; its references mean what they meant alone."""
    embedded = {"$id": "https://toolwire.invalid/suite", **schema} if isinstance(schema, dict) else schema
    return {"properties": {"p": embedded}}


@pytest.mark.row("H5")
def test_the_public_suite(suites: Path, tally: Counter[str]) -> None:
    refused: set[tuple[str, str]] = set()
    accepted: Counter[str] = Counter()
    wrong: list[str] = []
    asked, agreed = Counter[bool](), Counter[bool]()
    for name, group in groups(suites):
        required = not name.startswith("optional/")
        asked[required] += len(group["tests"])
        try:
            validator = Validator(as_argument(group["schema"]))
        except InvalidSchema:
            refused.add((name, group["description"]))
            continue
        for test in group["tests"]:
            found = validator.problems({"p": test["data"]})
            if (found == []) == test["valid"]:
                agreed[required] += 1
            elif found == [] and name in ACCEPTED:
                accepted[name] += 1
            else:
                wrong.append(f"{name}: {group['description']}: {test['description']}: {found}")
    for required, words in ((True, "required"), (False, "optional")):
        label = f"{words} tests of the JSON Schema suite agree with our validation"
        tally[f"{label}, of {asked[required]:,} ({agreed[required] / asked[required]:.1%})"] = agreed[required]
    tally["other tests of the JSON Schema suite differ for a reason that is listed"] = (
        sum(asked.values()) - sum(agreed.values()) - len(wrong)
    )
    assert wrong == []
    assert refused == REFUSED.keys()
    assert accepted == {name: count for name, (count, _) in ACCEPTED.items()}
    assert all(reason for reason in REFUSED.values())


def test_a_verdict_that_is_wrong_would_be_seen(suites: Path) -> None:
    """Control: against a validator that accepts everything, most groups differ."""
    anything = Validator(as_argument(True))
    differing = sum(
        any((anything.problems({"p": test["data"]}) == []) != test["valid"] for test in group["tests"])
        for _, group in groups(suites)
    )
    assert differing > 300


@pytest.mark.corpus
def test_every_recorded_tool_is_admitted(tally: Counter[str]) -> None:
    count = 0
    for path in sorted(found("TOOLWIRE_CORPUS", "corpus").glob("*/*.json")):
        request = json.loads(path.read_text("utf-8")).get("request")
        for schema in declared(request.get("tools") if isinstance(request, dict) else None):
            assert isinstance(Validator(schema, name=path.stem).problems({}), list)
            count += 1
    tally["recorded tools have parameters that our validation admits"] = count
    assert count > 100
