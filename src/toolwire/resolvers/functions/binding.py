"""The arguments of a call, as what a function is called with.

Rules of this file:
- The arguments are those of a valid call; what cannot be read all the same is InvalidField, with its place.
- What the function gets is its own: changing it changes no call.
- A name is given by keyword where Python allows it; a default is filled in only where a later one needs a
  place.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from toolwire.errors import InvalidField
from toolwire.resolvers.functions.forms import Read, UnreadableValue
from toolwire.wire.arguments import kind_of

Bound = tuple[tuple[Any, ...], dict[str, Any]]


class ArgumentPlan(Struct, frozen=True):
    """How the arguments of a call are given to a function.

    `positional` are the names that have a place, with their defaults; the first `fixed` have no keyword.
    `rest` takes what goes to `*args`, `extra` what goes to `**kwargs`, `packed` what these unpack from a
    TypedDict. `supplied` are defaults that the function itself does not know.
    """

    reads: Mapping[str, Read]
    required: frozenset[str]
    context: str | None = None
    positional: tuple[tuple[str, Any], ...] = ()
    fixed: int = 0
    rest: str | None = None
    extra: Read | None = None
    taken: frozenset[str] = frozenset()
    packed: tuple[frozenset[str], Read] | None = None
    supplied: Mapping[str, Callable[[], Any]] = {}
    plain: bool = True

    def bind(self, arguments: dict[str, Any], context: Any) -> Bound:
        """Give what the function is called with."""
        made: dict[str, Any] = {}
        name = ""
        try:
            for name, value in arguments.items():
                read = self.reads.get(name)
                made[name] = read(value) if read is not None else self._other(name, value)
            if self.packed is not None:
                name = ""
                self._unpack(made, arguments)
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
        return ((), made) if self.plain else self._placed(made)

    def _other(self, name: str, value: Any) -> Any:
        if self.packed is not None and name in self.packed[0]:
            return value
        if self.extra is None or name in self.taken or not isinstance(name, str):
            raise UnreadableValue(f"is no parameter; there are: {', '.join(self.reads) or 'none'}")
        return self.extra(value)  # noqa: S610 - no database is near

    def _unpack(self, made: dict[str, Any], arguments: dict[str, Any]) -> None:
        names, read = self.packed or (frozenset(), dict)
        made |= read({name: value for name, value in arguments.items() if name in names})

    def _placed(self, made: dict[str, Any]) -> Bound:
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
