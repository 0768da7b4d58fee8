"""The signature of a function as the parameters of a tool, and the binding of a call's arguments to it.

Rules of this file:
- The schema has only the parameters that the model sets. It leaves out the context, the call's key, `self`, and the
  parameters that a partial has fixed.
- Argument names come from the model. A name that is no parameter is rejected, and no name can reach a parameter that
  is not in the schema.
- Defaults are applied by Python. A default in the schema is never written into the arguments, unless a later
  positional argument needs it.
- The function receives its own copies, so that it cannot change the call. Arguments are passed by keyword where
  Python allows it.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

from msgspec import NODEFAULT, Struct

from toolwire.errors import InvalidField, InvalidSchema
from toolwire.resolvers.functions.annotations import read_annotation, start_walk
from toolwire.resolvers.functions.constraints import apply_metadata
from toolwire.resolvers.functions.docstrings import Docstring, read_docstring
from toolwire.resolvers.functions.foreign import is_field
from toolwire.resolvers.functions.json_types import (
    JsonType,
    Read,
    Schema,
    UnreadableValue,
    array_reader,
    default_keyword,
    nullable,
)
from toolwire.resolvers.functions.walk import Walk, function_namespace, unwrap_callable
from toolwire.waiting.call_keys import CallKey, current_key
from toolwire.wire.arguments import type_name

_Parameter = inspect.Parameter
_POSITIONAL = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (*_POSITIONAL, _Parameter.KEYWORD_ONLY)


class Signature(Struct, frozen=True):
    """The signature of a function: the schema of its parameters, its description, and the context parameter.

    `keys` are the parameters that receive the call's key.
    The other fields are for binding. `reads` has the reader of each parameter, and `required` the required ones.
    `positional` are the names with a position and their defaults, of which the first `fixed` cannot be keywords.
    `rest` names the argument for `*args`. `extra` reads those for `**kwargs`, except for the names in `hidden`.
    `packed` reads those of an unpacked TypedDict. `supplied` are defaults that the function itself does not have.
    It is `by_keyword` if no argument needs a position.
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
        """Return the positional and keyword arguments for the function: `function(*args, **keywords)`.

        The arguments must be valid by the schema. Raises `InvalidField` for a value that still cannot be read,
        such as February 30. Its `field` is the path of the value.
        """
        values: dict[str, Any] = {}
        reads = self.reads
        name = ""
        try:
            for name, value in arguments.items():
                read = reads.get(name)
                values[name] = read(value) if read is not None else self._read_extra(name, value)
            if self.packed is not None:
                name = ""
                names, read_packed = self.packed
                values |= read_packed({name: value for name, value in arguments.items() if name in names})
        except UnreadableValue as problem:
            raise _invalid(problem.inside(name) if name else problem) from problem.__cause__
        except RecursionError:
            raise _invalid(UnreadableValue("is nested too deeply", name)) from None
        except AttributeError:
            if isinstance(arguments, Mapping):
                raise
            raise InvalidField("arguments", f"must be an object, not {type_name(arguments)}") from None
        if not self.required <= values.keys():
            raise _invalid(UnreadableValue("must be given", min(self.required - values.keys())))
        if self.context is not None:
            values[self.context] = context
        for name in self.keys:
            values[name] = current_key()
        return ((), values) if self.by_keyword else self._assign_positions(values)

    def _read_extra(self, name: str, value: Any) -> Any:
        if self.packed is not None and name in self.packed[0]:
            return value
        if self.extra is None or name in self.hidden or not isinstance(name, str):
            raise UnreadableValue(f"is not a parameter; there are: {', '.join(self.reads) or 'none'}")
        return self.extra(value)  # noqa: S610 - no database is near

    def _assign_positions(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Move the arguments that need a position from the keywords."""
        for name, default in self.supplied.items():
            if name not in values:
                values[name] = default()
        variadic = values.pop(self.rest, ()) if self.rest is not None else ()
        candidates = self.positional if variadic else self.positional[: self.fixed]
        last_given = max((index for index, (name, _) in enumerate(candidates) if name in values), default=-1)
        passed = candidates if variadic else candidates[: last_given + 1]
        return (*(values.pop(name, default) for name, default in passed), *variadic), values


def _invalid(problem: UnreadableValue) -> InvalidField:
    path = problem.path() or "arguments"
    error = InvalidField(path, problem.reason)
    error.path = path
    return error


def read_signature(function: Any, *, context: str | None = "context", skip: int = 0) -> Signature:
    """Return the signature of `function`.

    The first `skip` parameters are not the model's, and `bind` leaves them out. Raises `InvalidSchema` if a parameter
    has no JSON Schema.
    """
    if isinstance(function, classmethod):
        function, skip = function.__func__, skip + 1
    name = getattr(unwrap_callable(function)[-1], "__name__", type(function).__name__)
    visible = _parameters(function, name)[skip:]
    nameable = [parameter for parameter in visible if parameter.kind in _NAMED]
    context = context if any(parameter.name == context for parameter in nameable) else None
    reader = _ParameterReader(start_walk(name, function_namespace(function)), read_docstring(_docstring_of(function)))
    keys = tuple(one.name for one in nameable if one.name != context and reader.is_key(one))
    for parameter in visible:
        if parameter.name != context and parameter.name not in keys:
            reader.add(parameter)
    fixed = sum(parameter.kind is _Parameter.POSITIONAL_ONLY for parameter in nameable)
    variadic = next((parameter.name for parameter in visible if parameter.kind is _Parameter.VAR_POSITIONAL), None)
    return Signature(
        reader.schema(),
        reader.docstring.description,
        context,
        reader.reads,
        frozenset(reader.required) & reader.reads.keys(),
        tuple((parameter.name, parameter.default) for parameter in nameable if parameter.kind in _POSITIONAL),
        fixed,
        variadic,
        None if reader.extra is None else reader.extra.read,
        reader.packed,
        _hidden_names(function) | {context or ""},
        reader.supplied,
        by_keyword=not (fixed or variadic or reader.supplied),
        keys=keys,
    )


def _parameters(function: Any, name: str) -> list[_Parameter]:
    """Return the parameters that a caller can set. Those that a partial has fixed are left out."""
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


def _docstring_of(function: Any) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        text = inspect.getdoc(function)
        return None if text and text.startswith(f"{function.__name__}(") else text
    if inspect.isroutine(function):
        return inspect.getdoc(function)
    return inspect.getdoc(type(function).__call__) or type(function).__doc__


def _hidden_names(function: Any) -> frozenset[str]:
    """Return the names that `**kwargs` must never contain: parameters that are not the model's."""
    codes = [code for layer in unwrap_callable(function) if (code := getattr(layer, "__code__", None))]
    return frozenset(name for code in codes for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


class _ParameterReader:
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

    def add(self, parameter: _Parameter) -> None:
        walk = self.walk.at(f".{parameter.name}")
        annotation = Any if parameter.annotation is _Parameter.empty else parameter.annotation
        if isinstance(annotation, str):
            annotation = walk.evaluate(annotation)
        packed = parameter.kind is _Parameter.VAR_KEYWORD and getattr(get_origin(annotation), "_name", None) == "Unpack"
        json_type = read_annotation(get_args(annotation)[0] if packed else annotation, walk)
        if packed:
            body = self.walk.definitions.schemas[next(iter(json_type.schema.values())).rpartition("/")[2]]
            self.properties |= body["properties"]
            self.required += body.get("required", [])
            self.packed = frozenset(body["properties"]), json_type.read
        elif parameter.kind is _Parameter.VAR_KEYWORD:
            self.extra = json_type
        elif parameter.kind is _Parameter.VAR_POSITIONAL:
            self._add(parameter.name, {"type": "array", "items": json_type.schema}, array_reader(json_type.read))
        else:
            self._add_parameter(parameter, json_type, _pydantic_field(annotation, parameter.default), walk)

    def _add_parameter(self, parameter: _Parameter, json_type: JsonType, field: Any, walk: Walk) -> None:
        if field is parameter.default:
            json_type = apply_metadata(json_type, [field], walk)
        default, factory = self._default_of(field, parameter, walk)
        if default is None:
            json_type = nullable(json_type, walk.definitions)
        if default is NODEFAULT and factory is None:
            self.required.append(parameter.name)
        self._add(parameter.name, json_type.schema | default_keyword(default, factory), json_type.read)

    def _default_of(self, field: Any, parameter: _Parameter, walk: Walk) -> tuple[Any, Any]:
        """Return the default of a parameter, or its factory.

        The default of a pydantic Field is supplied at each call.
        """
        default = NODEFAULT if parameter.default is _Parameter.empty else parameter.default
        if field is None:
            return default, None
        if field.alias not in (None, parameter.name):
            raise walk.refuse(f"a parameter has no alias; call it {field.alias}, or leave the alias out")
        if default is not NODEFAULT and default is not field:
            return default, None
        if field.is_required():
            return NODEFAULT, None
        self.supplied[parameter.name] = lambda: field.get_default(call_default_factory=True)
        return (NODEFAULT if field.default_factory else field.default), field.default_factory

    def _add(self, name: str, schema: Schema, read: Read) -> None:
        description = self.docstring.parameters.get(name)
        self.properties[name] = schema | (
            {"description": description} if description and "description" not in schema else {}
        )
        self.reads[name] = read

    def schema(self) -> Schema:
        required = {"required": self.required} if self.required else {}
        additional = False if self.extra is None else self.extra.schema or True
        schema = {"type": "object", "properties": self.properties, **required, "additionalProperties": additional}
        return self.walk.definitions.standalone(schema)


def _pydantic_field(annotation: Any, default: Any) -> Any:
    """Return the pydantic Field of a parameter, from its default or its Annotated."""
    if is_field(default):
        return default
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((item for item in metadata if is_field(item)), None)
