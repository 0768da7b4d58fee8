"""What a function takes, as the parameters of a tool, and how the arguments of a call are given to it.

Rules of this file:
- Only what a model may give is in the schema: not the context, not the call's key, not what a partial has fixed,
  not `self`.
- Names are data: a key that is no parameter is refused, and no key reaches what the schema does not show.
- Defaults are Python's own: one that is told in the schema is never written into the arguments, and one is
  filled in only where a later one needs a place.
- What the function gets is its own: changing it changes no call. A name is given by keyword where Python
  allows it.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

from msgspec import NODEFAULT, Struct

from toolwire.errors import InvalidField, InvalidSchema
from toolwire.resolvers.functions.annotations import start, type_at
from toolwire.resolvers.functions.constraints import annotated
from toolwire.resolvers.functions.docstrings import Docstring, read_docstring
from toolwire.resolvers.functions.foreign import is_field
from toolwire.resolvers.functions.json_types import (
    JsonType,
    Read,
    Schema,
    UnreadableValue,
    array_reader,
    default_in,
    nullable,
)
from toolwire.resolvers.functions.walk import Walk, layers, namespace_of_function
from toolwire.waiting.call_keys import CallKey, current_key
from toolwire.wire.arguments import kind_of

_Parameter = inspect.Parameter
_POSITIONAL = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (*_POSITIONAL, _Parameter.KEYWORD_ONLY)


class Signature(Struct, frozen=True):
    """What a function takes: the schema of its parameters, its description, and what gets the context.

    `keys` are the parameters that get the call's key.
    The rest says how arguments are given to it. `reads` reads each parameter, and `required` must be there.
    `positional` are the names that have a place, with their defaults; the first `fixed` have no keyword.
    `rest` takes what goes to `*args`, `extra` what goes to `**kwargs` (never the names in `hidden`), `packed`
    what these unpack from a TypedDict. `supplied` are defaults that the function itself does not know.
    It is `by_keyword` if nothing needs a place.
    """

    parameters: Schema
    description: str | None
    context: str | None
    reads: Mapping[str, Read]
    required: frozenset[str]
    positional: tuple[tuple[str, Any], ...]
    fixed: int
    rest: str | None
    extra: Read | None
    packed: tuple[frozenset[str], Read] | None
    hidden: frozenset[str]
    supplied: Mapping[str, Callable[[], Any]]
    by_keyword: bool
    keys: tuple[str, ...] = ()

    def bind(self, arguments: dict[str, Any], context: Any = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Give what the function is called with: `function(*args, **keywords)`.

        The arguments are valid by the schema. One that cannot be read all the same (the 30th of February) is
        InvalidField; its `field` names the place.
        """
        made: dict[str, Any] = {}
        reads = self.reads
        name = ""
        try:
            for name, value in arguments.items():
                read = reads.get(name)
                made[name] = read(value) if read is not None else self._other(name, value)
            if self.packed is not None:
                name = ""
                names, read_packed = self.packed
                made |= read_packed({name: value for name, value in arguments.items() if name in names})
        except UnreadableValue as problem:
            raise _invalid(problem.inside(name) if name else problem) from problem.__cause__
        except RecursionError:
            raise _invalid(UnreadableValue("is nested too deeply", name)) from None
        except AttributeError:
            if isinstance(arguments, Mapping):
                raise
            raise InvalidField("arguments", f"must be an object, not {kind_of(arguments)}") from None
        if not self.required <= made.keys():
            raise _invalid(UnreadableValue("must be given", min(self.required - made.keys())))
        if self.context is not None:
            made[self.context] = context
        for name in self.keys:
            made[name] = current_key()
        return ((), made) if self.by_keyword else self._placed(made)

    def _other(self, name: str, value: Any) -> Any:
        if self.packed is not None and name in self.packed[0]:
            return value
        if self.extra is None or name in self.hidden or not isinstance(name, str):
            raise UnreadableValue(f"is not a parameter; there are: {', '.join(self.reads) or 'none'}")
        return self.extra(value)  # noqa: S610 - no database is near

    def _placed(self, made: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Move from the keywords what needs a place."""
        for name, default in self.supplied.items():
            if name not in made:
                made[name] = default()
        rest = made.pop(self.rest, ()) if self.rest is not None else ()
        placed = self.positional if rest else self.positional[: self.fixed]
        last = max((place for place, (name, _) in enumerate(placed) if name in made), default=-1)
        wanted = placed if rest else placed[: last + 1]
        return (*(made.pop(name, default) for name, default in wanted), *rest), made


def _invalid(problem: UnreadableValue) -> InvalidField:
    place = problem.place() or "arguments"
    error = InvalidField(place, problem.reason)
    error.path = place
    return error


def read_signature(function: Any, *, context: str | None = "context", skip: int = 0) -> Signature:
    """Read what a function takes; the first `skip` parameters are not the model's, and `bind` omits them."""
    if isinstance(function, classmethod):
        function, skip = function.__func__, skip + 1
    name = getattr(layers(function)[-1], "__name__", type(function).__name__)
    shown = _parameters(function, name)[skip:]
    named = [parameter for parameter in shown if parameter.kind in _NAMED]
    context = context if any(parameter.name == context for parameter in named) else None
    reader = _Reader(start(name, namespace_of_function(function)), read_docstring(_documentation(function)))
    keys = tuple(one.name for one in named if one.name != context and reader.is_key(one))
    for parameter in shown:
        if parameter.name != context and parameter.name not in keys:
            reader.take(parameter)
    fixed = sum(parameter.kind is _Parameter.POSITIONAL_ONLY for parameter in named)
    rest = next((parameter.name for parameter in shown if parameter.kind is _Parameter.VAR_POSITIONAL), None)
    return Signature(
        reader.schema(),
        reader.docstring.description,
        context,
        reader.reads,
        frozenset(reader.required) & reader.reads.keys(),
        tuple((parameter.name, parameter.default) for parameter in named if parameter.kind in _POSITIONAL),
        fixed,
        rest,
        None if reader.extra is None else reader.extra.read,
        reader.packed,
        _own_names(function) | {context or ""},
        reader.supplied,
        by_keyword=not (fixed or rest or reader.supplied),
        keys=keys,
    )


def _parameters(function: Any, name: str) -> list[_Parameter]:
    """List the parameters that a caller can give; what a partial has fixed stays fixed."""
    options: Any = {}
    if sys.version_info >= (3, 14):
        from annotationlib import Format  # noqa: PLC0415 - it came with this version

        options = {"annotation_format": Format.FORWARDREF}
    try:
        parameters = inspect.signature(function, **options).parameters
    except (TypeError, ValueError) as problem:
        raise InvalidSchema(
            f"its parameters cannot be read ({problem}); write a Python function around it", path=name
        ) from problem
    fixed: set[str] = set()
    while isinstance(function, functools.partial):
        fixed |= function.keywords.keys()
        function = function.func
    return [parameter for parameter in parameters.values() if parameter.name not in fixed]


def _documentation(function: Any) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        text = inspect.getdoc(function)
        return None if text and text.startswith(f"{function.__name__}(") else text
    if inspect.isroutine(function):
        return inspect.getdoc(function)
    return inspect.getdoc(type(function).__call__) or type(function).__doc__


def _own_names(function: Any) -> frozenset[str]:
    """Name what `**kwargs` must never bring: names of the function that are not the model's."""
    codes = [code for layer in layers(function) if (code := getattr(layer, "__code__", None))]
    return frozenset(name for code in codes for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


class _Reader:
    def __init__(self, walk: Walk, docstring: Docstring) -> None:
        self.walk: Walk = walk
        self.docstring: Docstring = docstring
        self.properties: Schema = {}
        self.required: list[str] = []
        self.reads: dict[str, Read] = {}
        self.extra: JsonType | None = None
        self.packed: tuple[frozenset[str], Read] | None = None
        self.supplied: dict[str, Callable[[], Any]] = {}

    def is_key(self, parameter: _Parameter) -> bool:
        annotation = parameter.annotation
        if not isinstance(annotation, str):
            return annotation is CallKey
        return "CallKey" in annotation and self.walk.at(f".{parameter.name}").evaluate(annotation) is CallKey

    def take(self, parameter: _Parameter) -> None:
        walk = self.walk.at(f".{parameter.name}")
        annotation = Any if parameter.annotation is _Parameter.empty else parameter.annotation
        if isinstance(annotation, str):
            annotation = walk.evaluate(annotation)
        packed = parameter.kind is _Parameter.VAR_KEYWORD and getattr(get_origin(annotation), "_name", None) == "Unpack"
        made = type_at(get_args(annotation)[0] if packed else annotation, walk)
        if packed:
            body = self.walk.definitions.schemas[next(iter(made.schema.values())).rpartition("/")[2]]
            self.properties |= body["properties"]
            self.required += body.get("required", [])
            self.packed = frozenset(body["properties"]), made.read
        elif parameter.kind is _Parameter.VAR_KEYWORD:
            self.extra = made
        elif parameter.kind is _Parameter.VAR_POSITIONAL:
            self._add(parameter.name, {"type": "array", "items": made.schema}, array_reader(made.read))
        else:
            self._take_one(parameter, made, _field_of(annotation, parameter.default), walk)

    def _take_one(self, parameter: _Parameter, made: JsonType, field: Any, walk: Walk) -> None:
        if field is parameter.default:
            made = annotated(made, [field], walk)
        default, factory = self._default_of(field, parameter, walk)
        if default is None:
            made = nullable(made, walk.definitions)
        if default is NODEFAULT and factory is None:
            self.required.append(parameter.name)
        self._add(parameter.name, made.schema | default_in(default, factory), made.read)

    def _default_of(self, field: Any, parameter: _Parameter, walk: Walk) -> tuple[Any, Any]:
        """Give the default of a parameter, or what makes it; that of a Field is supplied in each call."""
        own = NODEFAULT if parameter.default is _Parameter.empty else parameter.default
        if field is None:
            return own, None
        if field.alias not in (None, parameter.name):
            raise walk.refuse(f"a parameter has no alias; call it {field.alias}, or leave the alias out")
        if own is not NODEFAULT and own is not field:
            return own, None
        if field.is_required():
            return NODEFAULT, None
        self.supplied[parameter.name] = lambda: field.get_default(call_default_factory=True)
        return (NODEFAULT if field.default_factory else field.default), field.default_factory

    def _add(self, name: str, schema: Schema, read: Read) -> None:
        words = self.docstring.parameters.get(name)
        self.properties[name] = schema | ({"description": words} if words and "description" not in schema else {})
        self.reads[name] = read

    def schema(self) -> Schema:
        required = {"required": self.required} if self.required else {}
        closing = False if self.extra is None else self.extra.schema or True
        schema = {"type": "object", "properties": self.properties, **required, "additionalProperties": closing}
        return self.walk.definitions.whole(schema)


def _field_of(annotation: Any, default: Any) -> Any:
    """Find pydantic's Field of a parameter: its default, or in its Annotated."""
    if is_field(default):
        return default
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((item for item in metadata if is_field(item)), None)
