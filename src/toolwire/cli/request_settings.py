"""The option `-o KEY=VALUE`: settings of a request, such as `temperature` or `effort`.

Rule: a value is JSON, else a string. A setting that is not known, or has a wrong value, is an error before anything is
sent.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from toolwire.client.foreign_names import hint_for
from toolwire.client.options import check_types
from toolwire.client.settings import RequestSettings
from toolwire.errors import InvalidField, UserError, listed

_ELSEWHERE = {"system", "provider_state", "capabilities", "stream", "n"}
_SETTINGS = [name for name in RequestSettings.__annotations__ if name not in _ELSEWHERE]


def request_settings(entries: Sequence[str]) -> dict[str, Any]:
    """Return the settings that the options `-o KEY=VALUE` set."""
    settings: dict[str, Any] = {}
    for entry in entries:
        key, equals, text = entry.partition("=")
        name = key.strip().replace("-", "_")
        if not equals:
            raise UserError(f"{entry!r} is no KEY=VALUE, as in -o temperature=0.2", path="-o")
        if name not in _SETTINGS:
            raise UserError(f"{key} is not a setting{listed(_SETTINGS, hint_for(name, _SETTINGS))}", path="-o")
        settings[name] = _value(name, text)
    return settings


def _value(name: str, text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
        check_types({name: value})
    except msgspec.DecodeError:
        value = [text] if name == "stop" else text
    except InvalidField:
        value = text  # such as a user whose name is a number
    check_types({name: value})
    return value
