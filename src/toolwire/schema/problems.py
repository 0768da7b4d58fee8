"""The problems of invalid arguments: a walk over the schema, down to the subschemas that they violate.

Rules of this file:
- The validation library (jsonschema-rs) decides what is valid. The walk enters a subschema only if the library
  rejects the value there.
- The number of steps and the depth of a walk are limited. A walk that reaches a limit reports the problems that it
  has found so far.
- Problems are listed in the order of the schema, each with the path of the value. Each keyword has a row in the table.
- Up to draft 7, the keywords beside a `$ref` are ignored.
- For alternatives (`anyOf`, `oneOf`), only the problems of the closest one are reported. The closest alternative is
  chosen by type, then by literals (`kind: circle`), then by the number of problems. Alternatives that consist only
  of types, or only of literals, are reported as one problem.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote

from toolwire.schema.draft import as_list
from toolwire.schema.subschemas import REFERENCES, SAME_VALUE, Resources, Subschema, child_subschemas
from toolwire.schema.wording import (
    MISMATCH_MESSAGES,
    Display,
    Location,
    count_phrase,
    describe_mismatch,
    describe_missing_field,
    describe_unknown_field,
    format_problem,
    label_value,
    summarize_schema,
)

_MAX_LEVELS = 100
_MAX_HINTS = 20
_MAX_FOLLOWED = 4
_MAX_EXPLORED = 4
_DECLARED_NAME_LEVELS = 4
_MOST_NAMES = 1000
_UNEVALUATED_KEYWORDS = frozenset({"unevaluatedProperties", "unevaluatedItems"})


class SchemaContext(NamedTuple):
    """The compiled state of one schema, shared by its walks. One compile costs `compile_cost` steps."""

    root: Subschema
    resources: Resources
    compile: Callable[[dict[str, Any]], Any]
    compile_cost: int
    ref_stands_alone: bool


class _KeywordCheck(NamedTuple):
    """One keyword of a subschema, with its argument `limit`, and the value that it applies to."""

    subschema: Subschema
    keyword: str
    limit: Any
    value: Any
    location: Location

    def below(self, step: str | int | None, node: Any) -> Subschema:
        return self.subschema.below(self.keyword, step, node)


class SchemaWalk:
    """One walk over a schema: its remaining steps, and the validators that it has compiled."""

    __slots__ = ("_bounds", "_checks", "_context", "_level", "_steps", "display", "hints")

    def __init__(self, context: SchemaContext, display: Display, steps: int) -> None:
        self._context = context
        self._checks: dict[str, Any] = {}
        self._bounds: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._steps = steps
        self._level = 0
        self.display: Display = display
        self.hints: int = _MAX_HINTS

    @property
    def exhausted(self) -> bool:
        """Return True if the walk used up its steps, so that there may be more problems than it reported."""
        return self._steps <= 0

    def compiled(self, subschema: Subschema) -> Any:
        """Compile `subschema` once and return its validator, or None if the library cannot resolve it."""
        if subschema.pointer not in self._checks:
            self._steps -= self._context.compile_cost
            self._checks[subschema.pointer] = self._context.compile(
                {"$ref": f"{self._context.root.base}#{quote(subschema.pointer)}"}
            )
        return self._checks[subschema.pointer]

    def is_valid_at(self, subschema: Subschema, value: Any) -> bool:
        """Return True if `value` is valid against `subschema`."""
        if type(subschema.node) is bool:
            return subschema.node
        compiled = self.compiled(subschema)
        return compiled is None or bool(compiled.is_valid(value))

    def meets_keyword(self, keyword: str, limit: Any, value: Any, beside: Mapping[str, Any] | None = None) -> bool:
        """Return True if `value` satisfies `keyword` alone, with the keywords in `beside` added."""
        key = keyword, id(limit)
        if key not in self._bounds:
            self._bounds[key] = limit, self._context.compile({keyword: limit, **(beside or {})})
        compiled = self._bounds[key][1]
        return compiled is None or bool(compiled.is_valid(value))

    def explain(self, subschema: Subschema, value: Any, location: Location) -> Iterator[str]:
        """Yield the problems of `value`, which is invalid against `subschema`."""
        node = subschema.node
        if node is False:
            yield format_problem(location, "is not allowed here")
            return
        if type(node) is not dict or self._steps <= 0 or self._level >= _MAX_LEVELS:
            return
        self._steps -= 1
        self._level += 1
        try:
            yield from self._keyword_problems(subschema, value, location)
        finally:
            self._level -= 1

    def _keyword_problems(self, subschema: Subschema, value: Any, location: Location) -> Iterator[str]:
        node, has_problem = subschema.node, False
        keywords = {"$ref": node["$ref"]} if self._context.ref_stands_alone and "$ref" in node else node
        for keyword, limit in keywords.items():
            applies_to, find_problems = _PROBLEM_FINDERS.get(keyword, _NO_PROBLEMS)
            for problem in (
                find_problems(self, _KeywordCheck(subschema, keyword, limit, value, location))
                if isinstance(value, applies_to)
                else ()
            ):
                has_problem = True
                yield problem
        if not has_problem and self._steps > 0:
            yield from _unevaluated_members(self, subschema, value, location)

    def explain_if_invalid(self, subschema: Subschema, value: Any, location: Location) -> Iterator[str]:
        """Yield the problems of `value` against `subschema`; yield nothing if it is valid."""
        if self._steps > 0 and not self.is_valid_at(subschema, value):
            explained = False
            for problem in self.explain(subschema, value, location):
                explained = True
                yield problem
            if not explained:
                shown = self.display.value(value, location)
                yield format_problem(location, f"{label_value(shown)} does not fit the schema at #{subschema.pointer}")

    def dereference(self, subschema: Subschema) -> Subschema:
        """Follow the `$ref` of `subschema` as long as it has no `type` of its own, and return the last target."""
        for _ in range(_MAX_FOLLOWED):
            if type(subschema.node) is not dict or "$ref" not in subschema.node or "type" in subschema.node:
                return subschema
            subschema = next(self.references(subschema), subschema)
        return subschema

    def references(self, subschema: Subschema, keywords: Collection[str] = REFERENCES) -> Iterator[Subschema]:
        """Yield the targets of the references of `subschema`, except for ambiguous references."""
        for keyword, _, candidates in self._context.resources.resolve_references(subschema):
            if keyword in keywords and len(candidates) == 1:
                yield candidates[0]


def _bound(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    _, keyword, limit, value, location = check
    beside = {}
    if keyword in ("minimum", "maximum"):
        exclusive = f"exclusive{keyword.capitalize()}"
        beside = {exclusive: True} if check.subschema.node.get(exclusive) is True else {}
    elif keyword.startswith("exclusive") and isinstance(limit, bool):
        return
    if not walk.meets_keyword(keyword, limit, value, beside):
        yield describe_mismatch(keyword, limit, value, location, walk.display)


def _required(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    for name in check.limit:
        if name not in check.value:
            yield describe_missing_field(walk.display.below(check.location, name, declared=True))


def _dependent(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    """Yield the problems of fields that require other fields, or that require a schema of the whole object."""
    for trigger, needed in check.limit.items():
        for name in needed if trigger in check.value and type(needed) is list else ():
            if name not in check.value:
                yield describe_missing_field(
                    walk.display.below(check.location, name, declared=True), f"needed beside {trigger}"
                )
    for trigger, node in check.limit.items() if check.keyword != "dependentRequired" else ():
        if trigger in check.value and type(node) is not list:
            yield from walk.explain_if_invalid(check.below(trigger, node), check.value, check.location)


def _properties(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    for name, node in check.limit.items():
        if name in check.value:
            field = walk.display.below(check.location, name, declared=True)
            yield from walk.explain_if_invalid(check.below(name, node), check.value[name], field)


def _pattern_properties(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    for pattern, node in check.limit.items():
        for name, value in check.value.items():
            if walk.meets_keyword("pattern", pattern, name):
                yield from walk.explain_if_invalid(
                    check.below(pattern, node), value, walk.display.below(check.location, name)
                )


def _additional_properties(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    node = check.subschema.node
    known, patterns = node.get("properties", {}), node.get("patternProperties", {})
    for name, value in check.value.items():
        if name in known or any(walk.meets_keyword("pattern", pattern, name) for pattern in patterns):
            continue
        if check.limit is False:
            yield _unknown_field(walk, name, check.location, known)
        else:
            yield from walk.explain_if_invalid(
                check.below(None, check.limit), value, walk.display.below(check.location, name)
            )


def _unknown_field(walk: SchemaWalk, name: str, location: Location, known: Iterable[str]) -> str:
    """Report an unknown field. Only the first reports of a walk search for a similar name, because it is slow."""
    walk.hints -= 1
    return describe_unknown_field(name, location, known, walk.display, hint=walk.hints >= 0)


def _property_names(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    below = check.below(None, check.limit)
    for name in check.value:
        if not walk.is_valid_at(below, name):
            field = walk.display.below(check.location, name)
            yield from walk.explain_if_invalid(below, name, Location(f"name {field.path}", field.secret))


def _items(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    subschema, keyword, limit, value, location = check
    if type(limit) is list:
        for index, (node, item) in enumerate(zip(limit, value, strict=False)):
            yield from walk.explain_if_invalid(check.below(index, node), item, location.item(index))
        return
    members = subschema.node.get("items") if keyword == "additionalItems" else subschema.node.get("prefixItems")
    first = len(members) if type(members) is list else 0
    if keyword == "additionalItems" and type(members) is not list:
        return
    if limit is False and len(value) > first:
        got = walk.display.count(len(value), value, location)
        yield format_problem(location, f"expected at most {count_phrase(first, 'item')}, got {got}")
        return
    below = check.below(None, limit)
    for index, item in enumerate(islice(value, first, None), first):
        yield from walk.explain_if_invalid(below, item, location.item(index))


def _contains(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    subschema, _, limit, value, location = check
    least, most = subschema.node.get("minContains", 1), subschema.node.get("maxContains")
    below = check.below(None, limit)
    count = sum(walk.is_valid_at(below, item) for item in value)
    if count < least:
        bound = f"at least {count_phrase(least, 'item')}"
    elif most is not None and count > most:
        bound = f"at most {count_phrase(most, 'item')}"
    else:
        return
    got = walk.display.count(count, value, location)
    yield format_problem(location, f"expected {bound} of this form: {summarize_schema(limit)}; got {got}")


def _all_of(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    for index, node in enumerate(check.limit):
        yield from walk.explain_if_invalid(check.below(index, node), check.value, check.location)


def _not(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    if walk.is_valid_at(check.below(None, check.limit), check.value):
        shown = walk.display.value(check.value, check.location)
        yield format_problem(
            check.location, f"{label_value(shown)} is excluded: it must not be {summarize_schema(check.limit)}"
        )


def _if(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    subschema, _, limit, value, location = check
    branch = "then" if walk.is_valid_at(check.below(None, limit), value) else "else"
    if branch in subschema.node:
        yield from walk.explain_if_invalid(subschema.below(branch, None, subschema.node[branch]), value, location)


def _reference(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    for target in walk.references(check.subschema, (check.keyword,)):
        yield from walk.explain_if_invalid(target, check.value, check.location)


def _unevaluated_members(walk: SchemaWalk, subschema: Subschema, value: Any, location: Location) -> Iterator[str]:
    """Yield the fields or items that the library reports as unevaluated."""
    from jsonschema_rs import ValidationError, ValidationErrorKind  # noqa: PLC0415 - loaded by now

    compiled = None if _UNEVALUATED_KEYWORDS.isdisjoint(subschema.node) else walk.compiled(subschema)
    if compiled is None:
        return
    try:
        compiled.validate(value)
    except ValidationError as error:
        match error.kind:
            case ValidationErrorKind.UnevaluatedProperties(unexpected=names):
                known = list(islice(_declared_names(walk, subschema, _DECLARED_NAME_LEVELS), _MOST_NAMES))
                yield from (_unknown_field(walk, name, location, known) for name in names)
            case ValidationErrorKind.UnevaluatedItems(unexpected=indexes):
                allowed = count_phrase(len(value) - len(indexes), "item")
                got = walk.display.count(len(value), value, location)
                yield format_problem(location, f"expected no more than the {allowed} that the schema knows, got {got}")


def _declared_names(walk: SchemaWalk, subschema: Subschema, levels: int) -> Iterator[str]:
    """Yield the field names that `subschema`, its alternatives and its references declare."""
    if type(subschema.node) is not dict or levels == 0:
        return
    yield from subschema.node.get("properties", {})
    for keyword, below in child_subschemas(subschema):
        if keyword in SAME_VALUE - {"not"}:
            yield from _declared_names(walk, below, levels - 1)
    for target in walk.references(subschema):
        yield from _declared_names(walk, target, levels - 1)


def _any_or_one_of(walk: SchemaWalk, check: _KeywordCheck) -> Iterator[str]:
    _, keyword, limit, value, location = check
    branches = [check.below(index, node) for index, node in enumerate(limit)]
    fitting = [index for index, branch in enumerate(branches, 1) if walk.is_valid_at(branch, value)]
    if not fitting:
        yield from _closest_alternative(walk, branches, value, location)
    elif keyword == "oneOf" and len(fitting) > 1:
        which = " and ".join(map(str, fitting[:5]))
        shown = walk.display.value(value, location)
        yield format_problem(
            location, f"{label_value(shown)} fits alternatives {which} of {len(limit)}; exactly one may fit"
        )


def _closest_alternative(walk: SchemaWalk, branches: list[Subschema], value: Any, location: Location) -> Iterator[str]:
    """Yield the problems of the alternative that is closest to `value`."""
    dereferenced = [walk.dereference(branch) for branch in branches]
    of_type = [branch for branch in dereferenced if _has_type(walk, branch, value)]
    if not of_type:
        yield _type_mismatch(walk, dereferenced, value, location)
        return
    literals = _merge_literals(walk, of_type, value)
    if literals is not None:
        yield describe_mismatch("enum", literals, value, location, walk.display)
        return
    mismatches = [_mismatched_fields(walk, branch, value) for branch in of_type]
    if shared_field := next(
        iter(name for name in mismatches[0] if all(name in mismatched for mismatched in mismatches[1:])), None
    ):
        allowed = [literal for mismatched in mismatches for literal in mismatched[shared_field]]
        below = walk.display.below(location, shared_field, declared=True)
        yield describe_mismatch("enum", allowed, value[shared_field], below, walk.display)
        return
    fewest = min(map(len, mismatches))
    nearest = [branch for branch, mismatched in zip(of_type, mismatches, strict=True) if len(mismatched) == fewest]
    explanations = [
        list(islice(walk.explain_if_invalid(branch, value, location), _MAX_EXPLORED))
        for branch in nearest[:_MAX_EXPLORED]
    ]
    best = min((mismatched for mismatched in explanations if mismatched), key=len, default=[])
    hint = f" (the closest of {len(branches)} alternatives)" if len(nearest) > 1 else ""
    yield from (f"{problem}{hint}" for problem in best)


def _has_type(walk: SchemaWalk, branch: Subschema, value: Any) -> bool:
    node = branch.node
    if type(node) is not dict:
        return False
    return "type" not in node or walk.meets_keyword("type", node["type"], value)


def _type_mismatch(walk: SchemaWalk, branches: list[Subschema], value: Any, location: Location) -> str:
    names: dict[str, None] = {}
    for branch in branches:
        types = branch.node.get("type", []) if type(branch.node) is dict else []
        names.update(dict.fromkeys(as_list(types)))
    return describe_mismatch("type", list(names) or ["nothing"], value, location, walk.display)


def _literals(node: Any) -> list[Any] | None:
    if type(node) is not dict:
        return None
    if "const" in node:
        return [node["const"]]
    return node["enum"] if type(node.get("enum")) is list else None


def _merge_literals(walk: SchemaWalk, branches: list[Subschema], value: Any) -> list[Any] | None:
    """Return the literals of all `branches` in one list, or None if a branch constrains anything else."""
    if type(value) in (dict, list):
        return None
    joined: list[Any] = []
    for branch in branches:
        literals = _literals(branch.node)
        if literals is None or walk.meets_keyword("enum", literals, value):
            return None
        joined += literals
    return joined


def _mismatched_fields(walk: SchemaWalk, branch: Subschema, value: Any) -> dict[str, list[Any]]:
    """Return the fields of `value` whose literal rules out `branch`, each with the literals that it allows."""
    wrong: dict[str, list[Any]] = {}
    properties = branch.node.get("properties")
    if type(value) is dict and type(properties) is dict:
        for name, node in properties.items():
            literals = _literals(node) if name in value else None
            if literals is not None and not walk.meets_keyword("enum", literals, value[name]):
                wrong[name] = literals
    return wrong


_ProblemFinder = Callable[[SchemaWalk, _KeywordCheck], Iterator[str]]
_NO_PROBLEMS: tuple[type, _ProblemFinder] = (object, lambda _walk, _check: iter(()))
_PROBLEM_FINDERS: Mapping[str, tuple[type, _ProblemFinder]] = {
    **dict.fromkeys(MISMATCH_MESSAGES, (object, _bound)),
    "required": (dict, _required),
    "dependentRequired": (dict, _dependent),
    "dependentSchemas": (dict, _dependent),
    "dependencies": (dict, _dependent),
    "properties": (dict, _properties),
    "patternProperties": (dict, _pattern_properties),
    "additionalProperties": (dict, _additional_properties),
    "propertyNames": (dict, _property_names),
    "items": (list, _items),
    "prefixItems": (list, _items),
    "additionalItems": (list, _items),
    "contains": (list, _contains),
    "allOf": (object, _all_of),
    "anyOf": (object, _any_or_one_of),
    "oneOf": (object, _any_or_one_of),
    "not": (object, _not),
    "if": (object, _if),
    "$ref": (object, _reference),
    "$dynamicRef": (object, _reference),
    "$recursiveRef": (object, _reference),
}
