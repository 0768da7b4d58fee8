"""Values that stay what they were: maps are copied where they are given and where they are read, lists take no change.

Rules of this file:
- A value that somebody makes holds copies of what it was made of. One that was read from a wire holds what was read.
- A map is a plain one to whoever reads it, and a copy: what is done to it is done to no value. The wires, which change
  nothing, read it as it is kept: `plain_arguments` of a call is its `arguments`, and reading a wire costs nothing.
- A list is a `FrozenList`: to whoever reads, compares, adds or writes it as JSON it is a list.
"""

from typing import Any, NoReturn

_HINT = "a value is frozen: make another one with msgspec.structs.replace, or change a copy of this list"


def _refuse(*_given: Any, **_named: Any) -> NoReturn:
    raise TypeError(_HINT)


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> Any:
        return FrozenList, (list(self),)


def copy_map(value: Any) -> Any:
    """Give a copy of a map or a list, all the way down; any other value, and one without an end, as it is."""
    try:
        return copy_json(value)
    except RecursionError:
        return value


def copy_json(value: Any) -> Any:
    """Copy a JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(inner) for key, inner in value.items()}
    return [copy_json(inner) for inner in value] if isinstance(value, list) else value


class _CopiedField:
    """A field of a struct of which whoever reads it gets a copy."""

    __slots__ = ("_get", "_set")

    def __init__(self, member: Any) -> None:
        self._get, self._set = member.__get__, member.__set__

    def __get__(self, one: Any, owner: type | None = None) -> Any:
        return self if one is None else copy_map(self._get(one, owner))

    def __set__(self, one: Any, value: Any) -> None:
        self._set(one, value)


def copy_on_read(kind: type, *names: str) -> None:
    """Give copies of fields to whoever reads them; `plain_NAME` is each as it is kept."""
    for name in names:
        member = vars(kind)[name]
        setattr(kind, f"plain_{name}", member)
        setattr(kind, name, _CopiedField(member))
