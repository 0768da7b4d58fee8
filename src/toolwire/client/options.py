"""What a client and a run can be asked for: the names of options and settings, and values in a short form.

Rules of this file:
- An option says how a server is reached, and belongs to the client; a setting says what is asked, and belongs to
  the call. A name that is neither is refused with the list of them, and with the one that may have been meant.
- Where a value of ours is wanted, a map of its fields will do.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from math import isfinite
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from toolwire.client.settings import OnChunk, OnEvent
from toolwire.errors import InvalidField, meant
from toolwire.loop import LoopLimits
from toolwire.providers import Provider
from toolwire.resolvers.execution import Cancel, Limits
from toolwire.types import Output, Request

T = TypeVar("T", bound=msgspec.Struct)
# Of a provider, what a caller of `generate` may say of it.
OF_A_SERVER = ("base_url", "api_key", "headers", "query", "quirks", "format", "completions")
OF_A_CLIENT = ("transport", "timeouts", "retries", "bounds", "fallback", "readers")
_ABLE = {
    "cancel": "a Cancel",
    "transport": "a Transport, with `send` or `asend`",
    "approve": "a function of a call and its preview",
    "on_event": "a function of an event",
    "on_chunk": "a function of what a stream shows",
}
_OTHER_KINDS = {
    "provider_state": dict[str, Any] | None,
    "auto_tools": bool | None,
    "terminal_tool": str | None,
    "max_iterations": int | None,
    "fallback": bool | None,
}
_GIVEN = ("messages", "system", "tools", "provider_state", "capabilities")
_SETTINGS = (*_GIVEN, *(name for name in Request.__struct_fields__ if name not in ("context", "opaque")))


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked for, apart from the settings of its requests."""

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
    def take(cls, settings: dict[str, Any]) -> "RunOptions":
        """Take the options of a run out of `settings`, and check them. An `Output` stays: it is a request's setting."""
        names = set(OPTIONS_OF_A_RUN)
        if isinstance(settings.get("output"), Output):
            names.remove("output")
        given = {name: settings.pop(name) for name in names & settings.keys()}
        check_kinds(given)
        check_able(given.get("cancel"), "cancel", "is_set", "telling")
        for function in ("approve", "on_event", "on_chunk"):
            check_able(given.get(function), function, "__call__")
        turns, limits = given.pop("max_iterations", None), given.get("limits")
        named = (limits, "limits") if limits or turns is None else ({"turns": turns}, "max_iterations")
        given["limits"] = value_of(LoopLimits, *named)
        given["running"] = value_of(Limits, given.get("running"), "running")
        return cls(**given)


OPTIONS_OF_A_RUN = (*RunOptions.__struct_fields__, "max_iterations")
_ONLY_OF_A_RUN = tuple(name for name in OPTIONS_OF_A_RUN if name != "output")


def options_among(settings: dict[str, Any], options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Take the client's options out of what a call was given, and add them to those that it was given as such."""
    if not isinstance(options, Mapping | None):
        raise InvalidField("options", f"must be a map of what a client takes, not {options!r}", path="settings")
    among = {name: settings.pop(name) for name in (*OF_A_SERVER, *OF_A_CLIENT) if name in settings}
    return {**(options or {}), **among}


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Give the settings of a request; refuse one that no request has, or of a wrong kind."""
    if unknown := next((name for name in settings if name not in _SETTINGS), None):
        raise _unknown_setting(unknown)
    if type(settings.get("stop")) is str:
        settings = {**settings, "stop": [settings["stop"]]}
    check_kinds(settings)
    return dict(settings)


def check_kinds(settings: Mapping[str, Any]) -> None:
    """Refuse a setting, or an option, of a wrong kind."""
    kinds = _kinds()
    for name, value in settings.items():
        if isinstance(value, float) and not isfinite(value):
            raise InvalidField(name, f"must be a finite number, not {value}", path="settings")
        if value is not None and name in kinds:
            try:
                msgspec.convert(value, kinds[name])
            except msgspec.ValidationError as problem:
                raise InvalidField(name, f"has the wrong type: {problem}", path="settings") from None


@cache
def _kinds() -> dict[str, Any]:
    """Give the kinds of those settings that are plain values; of which words there are, servers say more than we."""
    hints = get_type_hints(Request)
    plain = (name for name in _SETTINGS if name in hints and name not in ("output", "tool_choice"))
    return {name: str | None if _is_word(hints[name]) else hints[name] for name in plain} | _OTHER_KINDS


def _is_word(hint: Any) -> bool:
    return any(get_origin(one) is Literal for one in get_args(hint))


def _unknown_setting(unknown: str) -> InvalidField:
    if unknown in (*OF_A_SERVER, *OF_A_CLIENT):
        return InvalidField(unknown, f"is an option of the client: Client(..., {unknown}=...)", path="settings")
    if unknown in _ONLY_OF_A_RUN:
        return InvalidField(unknown, "is a setting of `run`, `stream` and `generate`, not of `chat`", path="settings")
    known = (*_SETTINGS, *_ONLY_OF_A_RUN)
    hint = meant(unknown, (*known, *OF_A_SERVER, *OF_A_CLIENT))
    return InvalidField(unknown, f"is not a setting; there are: {', '.join(known)}{hint}", path="settings")


def check_able(given: Any, name: str, *abilities: str) -> None:
    """Refuse what cannot do what is wanted of it."""
    if given is not None and not all(callable(getattr(given, ability, None)) for ability in abilities):
        raise InvalidField(name, f"must be {_ABLE[name]}, not {given!r}", path="settings")


def check_options(options: Mapping[str, Any], provider: str) -> None:
    """Refuse an option that neither a provider nor a client has."""
    fields = Provider.__struct_fields__
    unknown = next((name for name in options if name not in fields), None)
    if unknown is not None:
        known = (*fields, *OF_A_CLIENT)
        listed = f"there are: {', '.join(fields)}; and of a client: {', '.join(OF_A_CLIENT)}"
        raise InvalidField(unknown, f"is not an option of a provider; {listed}{meant(unknown, known)}", path=provider)


def names_of(given: Any, name: str) -> tuple[str, ...]:
    """Give a list of names; None is an empty one."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable | None):
        raise InvalidField(name, f"must be a list of names, not {given!r}", path="settings")
    return tuple(given or ())


def value_of(kind: type[T], given: Any, name: str, number: str = "") -> T:
    """Give a value of ours, of itself, of a map of its fields, of the one `number` in it; None is the usual one."""
    fields = kind.__struct_fields__
    if given is None:
        return kind()
    if isinstance(given, kind):
        given = msgspec.structs.asdict(given)
    if number and isinstance(given, int | float) and not isinstance(given, bool):
        given = {number: given}
    if not isinstance(given, Mapping):
        also = f", or the number of `{number}`" if number else ""
        what = f"must be a {kind.__name__}, or a map of {', '.join(fields)}{also}, not {given!r}"
        raise InvalidField(name, what, path="settings")
    for field in given:
        if field not in fields:
            raise InvalidField(
                str(field), f"is not a field; there are: {', '.join(fields)}{meant(field, fields)}", path=name
            )
    try:
        made = msgspec.convert(dict(given), kind)
    except msgspec.ValidationError as problem:
        raise InvalidField(name, f"cannot be used: {problem}", path="settings") from None
    for field in fields:
        amount = getattr(made, field)
        if amount is not None and not amount >= 0:  # nan is not, either
            raise InvalidField(field, f"must be 0 or more, not {amount}", path=name)
    return made
