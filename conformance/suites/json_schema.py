"""The JSON-Schema-Test-Suite (https://github.com/json-schema-org/JSON-Schema-Test-Suite), draft 2020-12.

Each case asks if the arguments of a tool match its schema. The data is read where it lies: `TOOLWIRE_SUITES`, or
`../shared/suites`.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.environments import ROOT
from conformance.outcomes import Outcome, Suite, Unavailable
from toolwire.errors import InvalidSchema
from toolwire.schema.validator import Validator

_DRAFT = "json-schema-2020-12/tests/draft2020-12"


def run(short: bool) -> tuple[str, list[Outcome]]:
    """Run all cases; a short run is the same, because it takes a second."""
    del short
    folder = Path(os.environ.get("TOOLWIRE_SUITES", ROOT.parent / "shared" / "suites")) / _DRAFT
    if not folder.is_dir():
        raise Unavailable(f"there is no {_DRAFT} here: set TOOLWIRE_SUITES to the folder that has it")
    files = sorted(folder.rglob("*.json"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    outcomes = [
        outcome
        for file in files
        for group in json.loads(file.read_text("utf-8"))
        for outcome in judge(file.relative_to(folder).with_suffix("").as_posix(), group)
    ]
    return f"draft 2020-12, sha256 {digest[:12]}", outcomes


def judge(name: str, group: dict[str, Any]) -> Iterator[Outcome]:
    """Yield the outcome of each case of a group of the file `name`."""
    subject = "optional" if name.startswith("optional/") else "required"
    schema = group["schema"]
    # The schema is that of the argument `p`; its references mean what they meant alone.
    embedded = {"$id": "https://toolwire.invalid/suite", **schema} if isinstance(schema, dict) else schema
    try:
        validator = Validator({"properties": {"p": embedded}})
    except InvalidSchema as refusal:
        validator, problem = None, str(refusal)
    for case in group["tests"]:
        title = f"{name}: {group['description']}: {case['description']}"
        if validator is None:
            yield Outcome(subject, title, "failed", f"the schema is refused: {problem}")
            continue
        valid = validator.problems({"p": case["data"]}) == []
        detail = "" if valid == case["valid"] else f"the value is {'accepted' if valid else 'refused'}"
        yield Outcome(subject, title, "failed" if detail else "passed", detail)


SUITE = Suite("json-schema", "JSON-Schema-Test-Suite", "validation of arguments, draft 2020-12", "tests", run)
