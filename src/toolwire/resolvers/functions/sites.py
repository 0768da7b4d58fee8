"""Where a walk over annotations stands: the path to name in errors, and what names mean there."""

from collections.abc import Callable
from typing import Any, ForwardRef

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import InvalidSchema, ToolwireError
from toolwire.resolvers.functions.definitions import Definitions
from toolwire.resolvers.functions.docstrings import Docstring, docstring_of_class
from toolwire.resolvers.functions.forms import ValueForm
from toolwire.resolvers.functions.scopes import NameScope, scope_of_module, text_of


class AnnotationSite(Struct, frozen=True):
    """A place in a walk; `walk` gives the form of an annotation at a place."""

    walk: Callable[[Any, "AnnotationSite"], ValueForm]
    definitions: Definitions
    path: str = ""
    scope: NameScope = NameScope()

    def form(self, annotation: Any, step: str = "") -> ValueForm:
        """Give the form of an annotation that lies one step further."""
        return self.walk(annotation, self.at(step))

    def at(self, step: str) -> "AnnotationSite":
        """Go one step further: `.name` for a field, `[]` for elements."""
        return replace(self, path=(self.path + step).removeprefix(".")) if step else self

    def seen_from(self, scope: NameScope) -> "AnnotationSite":
        """Stay, with other meanings of names."""
        return replace(self, scope=scope)

    def refuse(self, message: str) -> InvalidSchema:
        """Make the error that names this place."""
        return InvalidSchema(message, path=self.path)

    def evaluate(self, reference: str | ForwardRef) -> Any:
        """Give what an annotation that is text means."""
        text = text_of(reference)
        scope = self.scope
        module = getattr(reference, "__forward_module__", None)
        if module is not None:
            scope = scope_of_module(getattr(module, "__name__", module), {}, scope)
        try:
            return scope.evaluate(text)
        except NameError as problem:
            raise self.refuse(
                f"the name {problem.name!r} of the annotation {text!r} is not known here; "
                "import it in the module, outside of `if TYPE_CHECKING`, or define it before the tool"
            ) from problem
        except Exception as problem:
            raise self.refuse(f"the annotation {text!r} cannot be evaluated: {problem!r}") from problem

    def docstring(self, kind: type) -> Docstring:
        """Read what a class says of itself."""
        try:
            return docstring_of_class(kind)
        except ToolwireError as problem:
            problem.path = problem.path or self.path
            raise
