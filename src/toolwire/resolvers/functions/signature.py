"""What a function takes, as the parameters of a tool, and how the arguments of a call are given to it.

Rules of this file:
- Only what a model may give is in the schema: not the context, not what a partial has fixed, not `self`.
- Names are data: a key that is no parameter is refused, and no key reaches what the schema does not show.
- Defaults are Python's own: one that is told in the schema is never written into the arguments.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

from msgspec import NODEFAULT, Struct

from toolwire.errors import InvalidSchema
from toolwire.resolvers.functions.annotations import form_at, site_for
from toolwire.resolvers.functions.binding import ArgumentPlan, Bound
from toolwire.resolvers.functions.constraints import annotated
from toolwire.resolvers.functions.containers import reading_all
from toolwire.resolvers.functions.defaults import default_in
from toolwire.resolvers.functions.definitions import Definitions
from toolwire.resolvers.functions.docstrings import read_docstring
from toolwire.resolvers.functions.foreign import is_field
from toolwire.resolvers.functions.forms import Read, Schema, ValueForm
from toolwire.resolvers.functions.scopes import innermost, layers, scope_of_function
from toolwire.resolvers.functions.sites import AnnotationSite
from toolwire.resolvers.functions.unions import nullable

Parameter = inspect.Parameter
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
NAMED = (*POSITIONAL, Parameter.KEYWORD_ONLY)


class Signature(Struct, frozen=True):
    """What a function takes: the schema of its parameters, its description, and what gets the context."""

    parameters: Schema
    description: str | None
    context: str | None
    plan: ArgumentPlan

    def bind(self, arguments: dict[str, Any], context: Any = None) -> Bound:
        """Give what the function is called with: `function(*args, **keywords)`.

        The arguments are valid by the schema. One that cannot be read all the same (the 30th of February) is
        InvalidField; its `field` names the place.
        """
        return self.plan.bind(arguments, context)


def read_signature(function: Any, *, context: str | None = "context", skip: int = 0) -> Signature:
    """Read what a function takes; the first `skip` parameters are not the model's, and `bind` omits them."""
    if isinstance(function, classmethod):
        function, skip = function.__func__, skip + 1
    name = getattr(innermost(function), "__name__", type(function).__name__)
    shown = _parameters(function, name)[skip:]
    reader = _Reader(function, name, Definitions())
    for parameter in shown:
        if parameter.name == context and parameter.kind in NAMED:
            reader.take_context(parameter)
        else:
            reader.take(parameter)
    return reader.signature()


def _parameters(function: Any, name: str) -> list[Parameter]:
    """List the parameters that a caller can give; what a partial has fixed stays fixed."""
    options: Any = {}
    if sys.version_info >= (3, 14):
        from annotationlib import Format  # noqa: PLC0415 - it came with this version

        options = {"annotation_format": Format.FORWARDREF}
    try:
        found = inspect.signature(function, **options).parameters
    except (TypeError, ValueError) as problem:
        raise InvalidSchema(
            f"its parameters cannot be read ({problem}); write a Python function around it", path=name
        ) from problem
    fixed: set[str] = set()
    while isinstance(function, functools.partial):
        fixed |= function.keywords.keys()
        function = function.func
    return [parameter for parameter in found.values() if parameter.name not in fixed]


def _documentation(function: Any) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        text = inspect.getdoc(function)
        return None if text and text.startswith(f"{function.__name__}(") else text
    if inspect.isroutine(function):
        return inspect.getdoc(function)
    return inspect.getdoc(type(function).__call__) or type(function).__doc__


class _Reader:
    """Reads one parameter after the other."""

    def __init__(self, function: Any, name: str, definitions: Definitions) -> None:
        self.definitions = definitions
        self.function = function
        self.site = site_for(definitions, name, scope_of_function(function))
        self.docstring = read_docstring(_documentation(function))
        self.properties: Schema = {}
        self.required: list[str] = []
        self.reads: dict[str, Read] = {}
        self.positional: list[tuple[str, Any]] = []
        self.fixed = 0
        self.context: str | None = None
        self.rest: str | None = None
        self.extra: ValueForm | None = None
        self.packed: tuple[frozenset[str], Read] | None = None
        self.supplied: dict[str, Callable[[], Any]] = {}

    def take_context(self, parameter: Parameter) -> None:
        """Keep the parameter for the context, wherever it stands."""
        self.context = parameter.name
        self._place(parameter)

    def take(self, parameter: Parameter) -> None:
        """Read a parameter that is the model's."""
        site = self.site.at(f".{parameter.name}")
        annotation = Any if parameter.annotation is Parameter.empty else parameter.annotation
        if isinstance(annotation, str):
            annotation = site.evaluate(annotation)
        match parameter.kind:
            case Parameter.VAR_KEYWORD:
                self._take_keywords(annotation, site)
            case Parameter.VAR_POSITIONAL:
                self._take_rest(parameter.name, form_at(annotation, site))
            case _:
                self._take_one(parameter, annotation, site)

    def _place(self, parameter: Parameter) -> None:
        if parameter.kind in POSITIONAL:
            self.positional.append((parameter.name, parameter.default))
            self.fixed += parameter.kind is Parameter.POSITIONAL_ONLY

    def _take_one(self, parameter: Parameter, annotation: Any, site: AnnotationSite) -> None:
        form, field = form_at(annotation, site), _field_of(annotation, parameter.default)
        if field is parameter.default:
            form = annotated(form, [field], site)
        default, factory = self._default_of(field, parameter, site)
        if default is None:
            form = nullable(form, self.definitions)
        if default is NODEFAULT and factory is None:
            self.required.append(parameter.name)
        self._place(parameter)
        self._add(parameter.name, form, default_in(default, factory))

    def _default_of(self, field: Any, parameter: Parameter, site: AnnotationSite) -> tuple[Any, Any]:
        """Give the default of a parameter, or what makes it; that of a Field is supplied in each call."""
        own = NODEFAULT if parameter.default is Parameter.empty else parameter.default
        if field is None:
            return own, None
        if field.alias not in (None, parameter.name):
            raise site.refuse(f"a parameter has no alias; call it {field.alias}, or leave the alias out")
        if own is not NODEFAULT and own is not field:
            return own, None
        if field.is_required():
            return NODEFAULT, None
        self.supplied[parameter.name] = lambda: field.get_default(call_default_factory=True)
        return (NODEFAULT if field.default_factory else field.default), field.default_factory

    def _take_rest(self, name: str, form: ValueForm) -> None:
        self.rest = name
        schema = {"type": "array", "items": form.schema}
        self._add(name, ValueForm(schema, reading_all(form.read, None)), {})

    def _take_keywords(self, annotation: Any, site: AnnotationSite) -> None:
        if getattr(get_origin(annotation), "_name", None) != "Unpack":
            self.extra = form_at(annotation, site)
            return
        form = form_at(get_args(annotation)[0], site)
        body = self.definitions.schemas[next(iter(form.schema.values())).rpartition("/")[2]]
        self.properties |= body["properties"]
        self.required += body.get("required", [])
        self.packed = frozenset(body["properties"]), form.read

    def _add(self, name: str, form: ValueForm, default: Schema) -> None:
        words = self.docstring.parameters.get(name)
        schema = {**form.schema, **default}
        if words and "description" not in schema:
            schema["description"] = words
        self.properties[name] = schema
        self.reads[name] = form.read

    def signature(self) -> Signature:
        """Give what was read."""
        schema: Schema = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = self.required
        extra = self.extra
        schema["additionalProperties"] = False if extra is None else extra.schema or True
        by_keyword = not (self.fixed or self.rest or self.supplied)
        plan = ArgumentPlan(
            self.reads,
            frozenset(self.required) & self.reads.keys(),
            self.context,
            tuple(self.positional),
            self.fixed,
            self.rest,
            None if extra is None else extra.read,
            self._taken(),
            self.packed,
            self.supplied,
            by_keyword,
        )
        return Signature(self.definitions.whole(schema), self.docstring.description, self.context, plan)

    def _taken(self) -> frozenset[str]:
        """Name what `**kwargs` must never bring: names of the function that are not the model's."""
        codes = [code for layer in layers(self.function) if (code := getattr(layer, "__code__", None))]
        own = {name for code in codes for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
        return frozenset(own | {self.context or ""})


def _field_of(annotation: Any, default: Any) -> Any:
    """Find pydantic's Field of a parameter: its default, or in its Annotated."""
    if is_field(default):
        return default
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((item for item in metadata if is_field(item)), None)
