"""The validator of one tool: compiled when the tool is declared, and fast for valid arguments.

Rules of this file:
- Validation changes nothing. `"5"` is not an integer, and defaults are not filled in. A float without a fraction
  (5.0) is an integer, as JSON Schema defines it.
- Nothing is fetched, and no input raises an exception. Arguments that cannot be validated are reported as a problem.
- Fields that the schema does not name are allowed unless the schema forbids them, as JSON Schema defines it.
"""

from collections.abc import Callable, Collection
from typing import Any

from toolwire.errors import InvalidSchema
from toolwire.schema.admission import REF_IGNORES_SIBLINGS, Admitted, admit
from toolwire.schema.draft import join_path
from toolwire.schema.patterns import MAX_WORK, METER, Meter, MeteredPattern, backtracking_engine, linear_engine
from toolwire.schema.problems import SchemaContext, SchemaWalk
from toolwire.schema.subschemas import NO_BASE, Resources, Subschema, resolve_base, walk_subschemas
from toolwire.schema.wording import Display, Location, count_values, describe_flaw, describe_mismatch, format_problem

_MAX_LISTED = 20
_MAX_COUNTED = 1000
_MAX_WORK = 100_000_000
_WALK_WORK = 20_000_000
_STEP_WORK = 50
_MIN_STEPS, _MAX_STEPS = 100, 2000
_MAX_SHOWN = 300
_TOO_MUCH_TEXT = f"arguments: too much text for the patterns of this schema (more than {MAX_WORK:,} steps); send less"


class Validator:
    """Reports what is wrong with the arguments of a call.

    `sensitive` names the fields whose values never appear in a problem. `name` is the tool's name, for errors in the
    schema itself. Creating a validator raises `InvalidSchema` if the schema cannot be used.
    """

    __slots__ = ("_admitted", "_context", "_is_valid", "_options", "_registry", "_sensitive", "name")

    def __init__(self, schema: Any, *, sensitive: Collection[str] = frozenset(), name: str = "") -> None:
        self.name: str = name
        self._sensitive = frozenset(sensitive)
        self._registry: Any = None
        self._context: SchemaContext | None = None
        try:
            self._admitted = admit(schema)
            self._options, self._is_valid = _compile_validator(self._admitted)
        except InvalidSchema as problem:
            if not name:
                raise
            message = str(problem).removeprefix(f"{problem.path}: ")
            raise type(problem)(f"{message} (in the parameters of {name})", path=problem.path) from None

    def problems(self, arguments: Any) -> list[str]:
        """Return what is wrong with `arguments`, written for the model that has to correct them. Empty if valid."""
        size = count_values(arguments)
        if (
            size >= 0
            and size * self._admitted.work <= _MAX_WORK
            and type(arguments) is dict
            and self._is_valid(arguments)
        ):
            return []
        return self._explain(arguments, size)

    def _explain(self, arguments: Any, size: int) -> list[str]:
        display = Display(arguments, self._sensitive)
        if size < 0:
            return [format_problem(*describe_flaw(arguments, size, display))]
        if type(arguments) is not dict:
            return [describe_mismatch("type", "object", arguments, Location(), display)]
        if size * self._admitted.work > _MAX_WORK:
            return [f"arguments: {size:,} values are too many for this schema; send fewer at once"]
        meter = Meter()
        token = METER.set(meter)
        try:
            if "keywords" in self._options:
                self._is_valid(arguments)
                if meter.over:
                    return [_TOO_MUCH_TEXT]
            problems = self._walk_problems(arguments, display, size, meter)
        finally:
            METER.reset(token)
        return problems or ["arguments: do not fit the schema of the tool"]

    def _walk_problems(self, arguments: Any, display: Display, size: int, meter: Meter) -> list[str]:
        context = self._context or self._build_context()
        steps = max(_MIN_STEPS, min(_MAX_STEPS, _WALK_WORK // size))
        walk = SchemaWalk(context, display, steps)
        distinct: dict[str, None] = {}
        for problem in walk.explain(context.root, arguments, Location()):
            distinct[_TOO_MUCH_TEXT if meter.over else problem] = None
            if meter.over or len(distinct) > _MAX_COUNTED:
                break
        return _limit_list(list(distinct), complete=len(distinct) <= _MAX_COUNTED and not walk.exhausted)

    def _build_context(self) -> SchemaContext:
        """Index the parts of the schema. It is done only when the first invalid arguments arrive."""
        schema, draft, work, _ = self._admitted
        root = Subschema(schema, base=resolve_base(schema, NO_BASE))
        compile_cost = work // _STEP_WORK
        self._context = SchemaContext(
            root, Resources(list(walk_subschemas(root))), self._compile, compile_cost, draft in REF_IGNORES_SIBLINGS
        )
        return self._context

    def _compile(self, schema: dict[str, Any]) -> Any:
        """Compile a schema that may reference the tool's schema. Return None if it cannot be resolved alone."""
        import jsonschema_rs  # noqa: PLC0415 - loaded by now

        if self._registry is None:
            draft = getattr(jsonschema_rs, self._admitted.draft.removesuffix("Validator"))
            self._registry = jsonschema_rs.Registry([(NO_BASE, self._admitted.schema)], draft=draft)
        validator = getattr(jsonschema_rs, self._admitted.draft)
        options = {name: value for name, value in self._options.items() if name != "base_uri"}
        try:
            return validator(schema, registry=self._registry, **options)
        except jsonschema_rs.ValidationError:
            return None  # what a reference means depends on how it was reached


def _limit_list(problems: list[str], *, complete: bool) -> list[str]:
    """Return the first problems, and a line with the number of the others."""
    more = len(problems) - _MAX_LISTED
    if more <= 0:
        return problems
    count = f"{more:,} more" if complete else f"more than {more - 1:,} more"
    return [*problems[:_MAX_LISTED], f"and {count} problem{'' if more == 1 and complete else 's'}"]


def _compile_validator(admitted: Admitted) -> tuple[dict[str, Any], Callable[[Any], bool]]:
    """Compile a schema with the regex engine that its patterns need. Return the options and the check."""
    import jsonschema_rs  # noqa: PLC0415 - loaded with the first schema

    validator = getattr(jsonschema_rs, admitted.draft)
    metered = {"keywords": {"pattern": MeteredPattern}}
    options: dict[str, Any] = {
        "offline": True,
        "validate_formats": False,
        "base_uri": NO_BASE,
        "pattern_options": linear_engine(),
    }
    if admitted.heavy:
        options |= metered
    try:
        try:
            compiled = validator(admitted.schema, **options)
        except jsonschema_rs.ValidationError:
            options |= {"pattern_options": backtracking_engine(), **metered}
            compiled = validator(admitted.schema, **options)
    except jsonschema_rs.ValidationError as problem:
        raise _translate_error(problem) from None
    except ValueError as problem:
        raise InvalidSchema(f"the schema cannot be compiled: {str(problem)[:_MAX_SHOWN]}") from None
    return options, _with_meter(compiled.is_valid) if "keywords" in options else compiled.is_valid


def _with_meter(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check that counts the work of patterns from zero for each validation."""

    def check(value: Any) -> bool:
        if METER.get() is not None:
            return is_valid(value)
        meter = Meter()
        token = METER.set(meter)
        try:
            return is_valid(value) and not meter.over
        finally:
            METER.reset(token)

    return check


def _translate_error(problem: Any) -> InvalidSchema:
    """Return the `InvalidSchema` for an error of the validation library."""
    path = ""
    for step in problem.instance_path:
        path = f"{path}[{step}]" if isinstance(step, int) else join_path(path, step)
    last = problem.instance_path[-1] if problem.instance_path else ""
    if last == "pattern" or "patternProperties" in problem.instance_path[-2:-1]:
        pattern = problem.instance if last == "pattern" else problem.instance_path[-1]
        return InvalidSchema(f"{str(pattern)[:_MAX_SHOWN]!r} is not a regular expression that can be used", path=path)
    return InvalidSchema(problem.message.partition("\n")[0][:_MAX_SHOWN], path=path)
