"""The alternative that a value comes closest to: its problems are the ones to tell.

Rule: closest is what has the right type, then what has the right literals (`kind: circle`), then what has the
fewest problems. Alternatives that are nothing but types or literals are told as one.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from toolwire.schema.validation.places import Subschema
from toolwire.schema.validation.values import Spot
from toolwire.schema.validation.walk import SchemaWalk
from toolwire.schema.validation.wording import said

MAX_EXPLORED = 4


def closest(walk: SchemaWalk, branches: list[Subschema], value: Any, spot: Spot) -> Iterator[str]:
    """Tell what keeps a value from the closest alternative."""
    plain = [walk.target(branch) for branch in branches]
    typed = [branch for branch in plain if _has_type(walk, branch, value)]
    if not typed:
        yield _types_in_one(walk, plain, value, spot)
        return
    literals = _literals_in_one(walk, typed, value)
    if literals is not None:
        yield said("enum", literals, value, spot, walk.display)
        return
    wrong = [_wrong_fields(walk, branch, value) for branch in typed]
    if common := next(iter(name for name in wrong[0] if all(name in each for each in wrong[1:])), None):
        allowed = [literal for each in wrong for literal in each[common]]
        below = walk.display.below(spot, common, declared=True)
        yield said("enum", allowed, value[common], below, walk.display)
        return
    fewest = min(map(len, wrong))
    nearest = [branch for branch, each in zip(typed, wrong, strict=True) if len(each) == fewest]
    told = [list(islice(walk.into(branch, value, spot), MAX_EXPLORED)) for branch in nearest[:MAX_EXPLORED]]
    best = min((each for each in told if each), key=len, default=[])
    several = f" (the closest of {len(branches)} alternatives)" if len(nearest) > 1 else ""
    yield from (f"{problem}{several}" for problem in best)


def _has_type(walk: SchemaWalk, branch: Subschema, value: Any) -> bool:
    node = branch.node
    if type(node) is not dict:
        return False
    return "type" not in node or walk.holds("type", node["type"], value)


def _types_in_one(walk: SchemaWalk, branches: list[Subschema], value: Any, spot: Spot) -> str:
    names: dict[str, None] = {}
    for branch in branches:
        kinds = branch.node.get("type", []) if type(branch.node) is dict else []
        names.update(dict.fromkeys([kinds] if isinstance(kinds, str) else kinds))
    return said("type", list(names) or ["nothing"], value, spot, walk.display)


def _literals_of(node: Any) -> list[Any] | None:
    if type(node) is not dict:
        return None
    if "const" in node:
        return [node["const"]]
    return node["enum"] if type(node.get("enum")) is list else None


def _literals_in_one(walk: SchemaWalk, branches: list[Subschema], value: Any) -> list[Any] | None:
    """Join the literals of alternatives that are nothing else."""
    if type(value) in (dict, list):
        return None
    joined: list[Any] = []
    for branch in branches:
        literals = _literals_of(branch.node)
        if literals is None or walk.holds("enum", literals, value):
            return None
        joined += literals
    return joined


def _wrong_fields(walk: SchemaWalk, branch: Subschema, value: Any) -> dict[str, list[Any]]:
    """Find the fields whose literal says that another alternative was meant."""
    wrong: dict[str, list[Any]] = {}
    properties = branch.node.get("properties")
    if type(value) is dict and type(properties) is dict:
        for name, node in properties.items():
            literals = _literals_of(node) if name in value else None
            if literals is not None and not walk.holds("enum", literals, value[name]):
                wrong[name] = literals
    return wrong
