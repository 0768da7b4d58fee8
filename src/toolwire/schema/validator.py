"""The validator of one tool: compiled when it is declared, fast for what is valid, in words for what is not.

Rules of this file:
- Nothing is coerced, filled in or changed: `"5"` is no integer, and a default is not applied. A float without
  a fraction (5.0) is an integer, as in the draft.
- Nothing is fetched, and no input raises: what cannot be validated is a problem like any other.
- Fields that the schema does not name are allowed unless it closes itself, as in the draft.
"""

from collections.abc import Callable, Collection
from typing import Any

from toolwire.errors import InvalidSchema
from toolwire.schema.admission import REF_STANDS_ALONE, Admitted, admit
from toolwire.schema.draft import inside
from toolwire.schema.patterns import MAX_WORK, METER, Meter, MeteredPattern, linear, stepping
from toolwire.schema.problems import Ground, SchemaWalk
from toolwire.schema.subschemas import NO_BASE, Resources, Subschema, based, places
from toolwire.schema.wording import Display, Spot, flaw_of, mismatch, sentence, weigh

_MAX_LISTED = 20
_MAX_COUNTED = 1000
_MAX_EFFORT = 100_000_000
_EFFORT_OF_A_WALK = 20_000_000
_WORK_OF_A_STEP = 50
_LEAST_STEPS, _MOST_STEPS = 100, 2000
_SHOWN = 300
_TOO_MUCH_TEXT = f"arguments: too much text for the patterns of this schema (more than {MAX_WORK:,} steps); send less"


class Validator:
    """Tells what is wrong with the arguments of a call; `sensitive` names the fields that are never shown."""

    __slots__ = ("_admitted", "_ground", "_is_valid", "_options", "_registry", "_sensitive", "name")

    def __init__(self, schema: Any, *, sensitive: Collection[str] = frozenset(), name: str = "") -> None:
        self.name: str = name
        self._sensitive = frozenset(sensitive)
        self._registry: Any = None
        self._ground: Ground | None = None
        try:
            self._admitted = admit(schema)
            self._options, self._is_valid = _compiled(self._admitted)
        except InvalidSchema as problem:
            if not name:
                raise
            message = str(problem).removeprefix(f"{problem.path}: ")
            raise type(problem)(f"{message} (in the parameters of {name})", path=problem.path) from None

    def problems(self, arguments: Any) -> list[str]:
        """Say what is wrong with some arguments, so that it can be mended; nothing if they are valid."""
        size = weigh(arguments)
        if (
            size >= 0
            and size * self._admitted.work <= _MAX_EFFORT
            and type(arguments) is dict
            and self._is_valid(arguments)
        ):
            return []
        return self._explained(arguments, size)

    def _explained(self, arguments: Any, size: int) -> list[str]:
        display = Display(arguments, self._sensitive)
        if size < 0:
            return [sentence(*flaw_of(arguments, size, display))]
        if type(arguments) is not dict:
            return [mismatch("type", "object", arguments, Spot(), display)]
        if size * self._admitted.work > _MAX_EFFORT:
            return [f"arguments: {size:,} values are too many for this schema; send fewer at once"]
        meter = Meter()
        token = METER.set(meter)
        try:
            if "keywords" in self._options:
                self._is_valid(arguments)
                if meter.over:
                    return [_TOO_MUCH_TEXT]
            problems = self._walked(arguments, display, size, meter)
        finally:
            METER.reset(token)
        return problems or ["arguments: do not fit the schema of the tool"]

    def _walked(self, arguments: Any, display: Display, size: int, meter: Meter) -> list[str]:
        ground = self._ground or self._surveyed()
        steps = max(_LEAST_STEPS, min(_MOST_STEPS, _EFFORT_OF_A_WALK // size))
        walk = SchemaWalk(ground, display, steps)
        distinct: dict[str, None] = {}
        for problem in walk.through(ground.root, arguments, Spot()):
            distinct[_TOO_MUCH_TEXT if meter.over else problem] = None
            if meter.over or len(distinct) > _MAX_COUNTED:
                break
        return _listed(list(distinct), complete=len(distinct) <= _MAX_COUNTED and not walk.tired)

    def _surveyed(self) -> Ground:
        """Find the parts of the schema, once that something does not fit it."""
        schema, draft, work, _ = self._admitted
        root = Subschema(schema, base=based(schema, NO_BASE))
        toll = work // _WORK_OF_A_STEP
        self._ground = Ground(root, Resources(list(places(root))), self._compile, toll, draft in REF_STANDS_ALONE)
        return self._ground

    def _compile(self, schema: dict[str, Any]) -> Any:
        """Compile what may refer to a part of the schema."""
        import jsonschema_rs  # noqa: PLC0415 - loaded by now

        if self._registry is None:
            number = getattr(jsonschema_rs, self._admitted.draft.removesuffix("Validator"))
            self._registry = jsonschema_rs.Registry([(NO_BASE, self._admitted.schema)], draft=number)
        validator = getattr(jsonschema_rs, self._admitted.draft)
        options = {name: value for name, value in self._options.items() if name != "base_uri"}
        try:
            return validator(schema, registry=self._registry, **options)
        except jsonschema_rs.ValidationError:
            return None  # what a reference means depends on how it was reached


def _listed(problems: list[str], *, complete: bool) -> list[str]:
    """Give the first problems, and say how many more there are."""
    more = len(problems) - _MAX_LISTED
    if more <= 0:
        return problems
    many = f"{more:,} more" if complete else f"more than {more - 1:,} more"
    return [*problems[:_MAX_LISTED], f"and {many} problem{'' if more == 1 and complete else 's'}"]


def _compiled(admitted: Admitted) -> tuple[dict[str, Any], Callable[[Any], bool]]:
    """Compile a schema, with the engine for its patterns that it needs."""
    import jsonschema_rs  # noqa: PLC0415 - loaded with the first schema

    validator = getattr(jsonschema_rs, admitted.draft)
    metered = {"keywords": {"pattern": MeteredPattern}}
    options: dict[str, Any] = {
        "offline": True,
        "validate_formats": False,
        "base_uri": NO_BASE,
        "pattern_options": linear(),
    }
    if admitted.heavy:
        options |= metered
    try:
        try:
            compiled = validator(admitted.schema, **options)
        except jsonschema_rs.ValidationError:
            options |= {"pattern_options": stepping(), **metered}
            compiled = validator(admitted.schema, **options)
    except jsonschema_rs.ValidationError as problem:
        raise _invalid(problem) from None
    except ValueError as problem:
        raise InvalidSchema(f"the schema cannot be compiled: {str(problem)[:_SHOWN]}") from None
    return options, _metered(compiled.is_valid) if "keywords" in options else compiled.is_valid


def _metered(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Count the work of patterns anew for each validation."""

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


def _invalid(problem: Any) -> InvalidSchema:
    """Say in our words what the library refuses."""
    path = ""
    for step in problem.instance_path:
        path = f"{path}[{step}]" if isinstance(step, int) else inside(path, step)
    last = problem.instance_path[-1] if problem.instance_path else ""
    if last == "pattern" or "patternProperties" in problem.instance_path[-2:-1]:
        pattern = problem.instance if last == "pattern" else problem.instance_path[-1]
        return InvalidSchema(f"{str(pattern)[:_SHOWN]!r} is not a regular expression that can be used", path=path)
    return InvalidSchema(problem.message.partition("\n")[0][:_SHOWN], path=path)
