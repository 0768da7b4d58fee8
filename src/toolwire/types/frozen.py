"""Immutable fields of values: a map is copied when it is set and when it is read, and a list cannot be changed.

Rules of this file:
- A value that an application makes has copies of its arguments. A value that a dialect decodes has the parsed objects.
- A field that is a map returns a new plain dict at each read, so a change to the dict does not change the value.
- The dialects change nothing, so they read the stored map without a copy: a call's `arguments` as `plain_arguments`.
- A field that is a list is a `FrozenList`. It can be read, compared, added to another list and written as JSON.
"""

from typing import Any, NoReturn

_HINT = "a value is frozen: make a new value with msgspec.structs.replace, or change a copy of this list"


def _reject_change(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise TypeError(_HINT)


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _reject_change
    append = clear = extend = insert = pop = remove = reverse = sort = _reject_change

    def __reduce__(self) -> Any:
        return FrozenList, (list(self),)


def copy_map(value: Any) -> Any:
    """Return a deep copy of a map or a list. Any other value, and one that contains itself, is returned as it is."""
    try:
        return copy_json(value)
    except RecursionError:
        return value


def copy_json(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(inner) for key, inner in value.items()}
    return [copy_json(inner) for inner in value] if isinstance(value, list) else value


class _CopiedField:
    """A field of a struct that returns a copy at each read."""

    __slots__ = ("_get", "_set")

    def __init__(self, member: Any) -> None:
        self._get, self._set = member.__get__, member.__set__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else copy_map(self._get(instance, owner))

    def __set__(self, instance: Any, value: Any) -> None:
        self._set(instance, value)


def copy_on_read(struct_type: type, *names: str) -> None:
    """Make these fields of `struct_type` return a copy at each read. `plain_NAME` returns the stored value."""
    for name in names:
        member = vars(struct_type)[name]
        setattr(struct_type, f"plain_{name}", member)
        setattr(struct_type, name, _CopiedField(member))
