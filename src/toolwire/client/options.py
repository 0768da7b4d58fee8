"""The options and settings of clients and runs: their names, their checks, and their short forms.

Rules of this file:
- An option says how a server is reached, and belongs to the client. A setting belongs to the call. An unknown name is
  rejected with a hint (the name here for another library's name, or the nearest one), and the list of known names.
- A map of its fields is accepted in place of each struct.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from math import isfinite
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from toolwire.client.foreign_names import hint_for
from toolwire.client.settings import OnChunk, OnEvent
from toolwire.errors import InvalidField, listed, suggestion
from toolwire.loop import LoopLimits
from toolwire.providers import Provider
from toolwire.resolvers.execution import Cancel, Limits
from toolwire.types import Output, Request, Tool

T = TypeVar("T", bound=msgspec.Struct)
# The fields of a provider that a caller of `generate` may set.
SERVER_OPTIONS = ("base_url", "api_key", "headers", "query", "quirks", "format", "completions")
CLIENT_OPTIONS = ("transport", "timeouts", "retries", "bounds", "fallback", "cache", "readers", "record")
_EXPECTED = {
    "cancel": "a Cancel",
    "transport": "a Transport, with `send` or `asend`",
    "on_event": "a function of an event",
    "on_chunk": "a function of what a stream shows",
}
_OTHER_TYPES = {
    "provider_state": dict[str, Any] | None,
    "auto_tools": bool | None,
    "terminal_tool": str | None,
    "max_iterations": int | None,
    "fallback": bool | None,
    "cache": bool | None,
}
_CONTEXT_SETTINGS = ("messages", "system", "tools", "provider_state", "capabilities")
_SETTINGS = (*_CONTEXT_SETTINGS, *(name for name in Request.__struct_fields__ if name not in ("context", "opaque")))


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run, without the settings of its requests."""

    auto_tools: bool = True
    limits: LoopLimits
    running: Limits
    terminal_tool: str | None = None
    cancel: Cancel | None = None
    context: Any = None
    resolver: Any = None
    approve: Any = None
    traces: Any = None
    clearing: Any = None
    output: Any = None
    on_event: OnEvent | None = None
    on_chunk: OnChunk | None = None

    @classmethod
    def pop_from(cls, settings: dict[str, Any]) -> "RunOptions":
        """Remove the run's options from `settings`, check them and return them.

        An `Output` stays in `settings`, because it is a setting of a request. Raise InvalidField for a wrong option.
        """
        names = set(RUN_OPTIONS)
        if isinstance(settings.get("output"), Output):
            names.remove("output")
        values = {name: settings.pop(name) for name in names & settings.keys()}
        check_types(values)
        check_methods(values.get("cancel"), "cancel", "is_set", "telling")
        values["approve"] = approval_of(values.get("approve"))
        for function in ("on_event", "on_chunk"):
            check_methods(values.get(function), function, "__call__")
        turns, limits = values.pop("max_iterations", None), values.get("limits")
        source = (limits, "limits") if limits or turns is None else ({"turns": turns}, "max_iterations")
        values["limits"] = struct_of(LoopLimits, *source)
        values["running"] = struct_of(Limits, values.get("running"), "running")
        return cls(**values)


RUN_OPTIONS = (*RunOptions.__struct_fields__, "max_iterations")
_RUN_OPTIONS_ONLY = tuple(name for name in RUN_OPTIONS if name != "output")


def pop_client_options(settings: dict[str, Any], options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Remove the client's options from the settings of a call, and return them merged with `options`."""
    if not isinstance(options, Mapping | None):
        raise InvalidField("options", f"must be a map of what a client takes, not {options!r}", path="settings")
    found = {name: settings.pop(name) for name in (*SERVER_OPTIONS, *CLIENT_OPTIONS) if name in settings}
    return {**(options or {}), **found}


def check_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a request. Raise InvalidField for an unknown one, or one of a wrong type."""
    if unknown := next((name for name in settings if name not in _SETTINGS), None):
        raise _unknown_setting(unknown)
    if type(settings.get("stop")) is str:
        settings = {**settings, "stop": [settings["stop"]]}
    check_types(settings)
    return dict(settings)


def check_types(settings: Mapping[str, Any]) -> None:
    """Raise InvalidField for a setting, or an option, of a wrong type."""
    types = _plain_types()
    for name, value in settings.items():
        if isinstance(value, float) and not isfinite(value):
            raise InvalidField(name, f"must be a finite number, not {value}", path="settings")
        if value is not None and name in types:
            try:
                msgspec.convert(value, types[name])
            except msgspec.ValidationError as problem:
                raise InvalidField(name, f"has the wrong type: {problem}", path="settings") from None


@cache
def _plain_types() -> dict[str, Any]:
    """Return the types of the settings that are plain values. Literal words count as str, because servers add words."""
    hints = get_type_hints(Request)
    plain = (name for name in _SETTINGS if name in hints and name not in ("output", "tool_choice"))
    return {name: str | None if _is_literal(hints[name]) else hints[name] for name in plain} | _OTHER_TYPES


def _is_literal(hint: Any) -> bool:
    return any(get_origin(one) is Literal for one in get_args(hint))


def _unknown_setting(unknown: str) -> InvalidField:
    if unknown in (*SERVER_OPTIONS, *CLIENT_OPTIONS):
        return InvalidField(unknown, f"is an option of the client: Client(..., {unknown}=...)", path="settings")
    if unknown in _RUN_OPTIONS_ONLY:
        return InvalidField(unknown, "is a setting of `run`, `stream` and `generate`, not of `chat`", path="settings")
    known = (*_SETTINGS, *_RUN_OPTIONS_ONLY, *SERVER_OPTIONS, *CLIENT_OPTIONS)
    return InvalidField(unknown, f"is not a setting{listed(known, hint_for(unknown, known))}", path="settings")


def check_methods(value: Any, name: str, *methods: str) -> None:
    """Raise InvalidField if `value` lacks one of the methods `abilities`."""
    if value is not None and not all(callable(getattr(value, ability, None)) for ability in methods):
        raise InvalidField(name, f"must be {_EXPECTED[name]}, not {value!r}", path="settings")


def check_options(options: Mapping[str, Any], provider: str) -> None:
    """Raise InvalidField for an option that neither a provider nor a client has."""
    fields = Provider.__struct_fields__
    unknown = next((name for name in options if name not in fields), None)
    if unknown is not None:
        known = (*fields, *CLIENT_OPTIONS)
        settings = (*_SETTINGS, *_RUN_OPTIONS_ONLY)
        if unknown in settings:
            raise InvalidField(unknown, f"is a setting of a call: client.run(..., {unknown}=...)", path=provider)
        raise InvalidField(
            unknown, f"is not an option of a client{listed(known, hint_for(unknown, known))}", path=provider
        )


def approval_of(value: Any) -> Any:
    """Return what `approve=` sets: a function that is asked, or which calls need approval: True, or a tuple of names.

    Without any, return an empty tuple. Raise InvalidField if the value is none of these.
    """
    if callable(value) or value is True:
        return value
    if value is None or value is False:
        return ()
    is_list = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    if not is_list or not all(isinstance(one, str) for one in value):
        problem = f"must be a function of a call and its preview, True, or names of tools in a list, not {value!r}"
        raise InvalidField("approve", problem, path="settings")
    return tuple(sorted(value))


def check_approval(approval: Any, tools: Iterable[Any]) -> None:
    """Raise InvalidField if `approve=` names a tool that the request does not offer."""
    offered = [tool.name for tool in tools if isinstance(tool, Tool)]
    for name in approval if isinstance(approval, tuple) else ():
        if name not in offered:
            detail = f"{name!r} is not a tool of this request{listed(offered, suggestion(name, offered))}"
            raise InvalidField("approve", detail, path="settings")


def names_of(value: Any, name: str) -> tuple[str, ...]:
    """Return a tuple of names; empty for None. Raise InvalidField if it is not a list of names."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable | None):
        raise InvalidField(name, f"must be a list of names, not {value!r}", path="settings")
    return tuple(value or ())


def struct_of(kind: type[T], value: Any, name: str, number: str = "") -> T:
    """Return a struct of type `kind` from itself, from a map of its fields, or from the number of its field `number`.

    None gives the defaults. Raise InvalidField if the value cannot be used.
    """
    fields = kind.__struct_fields__
    if value is None:
        return kind()
    if isinstance(value, kind):
        value = msgspec.structs.asdict(value)
    if number and isinstance(value, int | float) and not isinstance(value, bool):
        value = {number: value}
    if not isinstance(value, Mapping):
        alternative = f", or the number of `{number}`" if number else ""
        problem = f"must be a {kind.__name__}, or a map of {', '.join(fields)}{alternative}, not {value!r}"
        raise InvalidField(name, problem, path="settings")
    for field in value:
        if field not in fields:
            known_fields = listed(fields, suggestion(field, fields))
            raise InvalidField(str(field), f"is not a field{known_fields}", path=name)
    try:
        result = msgspec.convert(dict(value), kind)
    except msgspec.ValidationError as problem:
        raise InvalidField(name, f"cannot be used: {problem}", path="settings") from None
    for field in fields:
        amount = getattr(result, field)
        if amount is not None and not amount >= 0:  # written so that nan is rejected as well
            raise InvalidField(field, f"must be 0 or more, not {amount}", path=name)
    return result
