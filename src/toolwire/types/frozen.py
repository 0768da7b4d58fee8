"""Maps and lists that nobody changes: a value of the model may be shared, and stays what it was.

Rules of this file:
- To whoever reads, compares or writes them as JSON they are dicts and lists; `deepcopy` gives ones to change.
- A value that somebody makes holds copies of what it was made of. One that was read from a wire holds what was read.
- A field is frozen where it is read from, all the way down, and kept as it came: reading a wire costs nothing. The
  wires, which change nothing, read it as it is kept: `plain_arguments` of a call is its `arguments`.
"""

from typing import Any, NoReturn

_HINT = "a value is frozen: make another one with msgspec.structs.replace, or change a copy.deepcopy of this"


def _refuse(*_given: Any, **_named: Any) -> NoReturn:
    raise TypeError(_HINT)


class FrozenMap(dict[str, Any]):
    """A map that cannot be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, _memo: Any) -> Any:
        return thawed(self)

    def __reduce__(self) -> Any:
        return FrozenMap, (dict(self),)


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, _memo: Any) -> Any:
        return thawed(self)

    def __reduce__(self) -> Any:
        return FrozenList, (list(self),)


def freeze(value: Any) -> Any:
    """Give a map or a list that cannot be changed, nor anything in it; any other value as it is."""
    kind = type(value)
    try:
        if kind is dict:
            return FrozenMap({key: freeze(inner) for key, inner in value.items()})
        return FrozenList([freeze(inner) for inner in value]) if kind is list else value
    except RecursionError:
        return value


def thawed(value: Any) -> Any:
    """Give a copy of a map or a list that can be changed, all the way down; any other value as it is."""
    try:
        if isinstance(value, dict):
            return {key: thawed(inner) for key, inner in value.items()}
        return [thawed(inner) for inner in value] if isinstance(value, list) else value
    except RecursionError:
        return value


class _FrozenField:
    """A field of a struct that is frozen where it is read."""

    __slots__ = ("_get", "_set")

    def __init__(self, member: Any) -> None:
        self._get, self._set = member.__get__, member.__set__

    def __get__(self, one: Any, owner: type | None = None) -> Any:
        return self if one is None else freeze(self._get(one, owner))

    def __set__(self, one: Any, value: Any) -> None:
        self._set(one, value)


def shield(kind: type, *names: str) -> None:
    """Freeze fields of a struct where they are read; `plain_NAME` gives each as it is kept."""
    for name in names:
        member = vars(kind)[name]
        setattr(kind, f"plain_{name}", member)
        setattr(kind, name, _FrozenField(member))
