"""Defaults as JSON, where JSON can say them.

Rules of this file:
- A default is told to the model, and given by Python itself: it is never put into the arguments of a call.
- Nothing is called to find a default out, but the factories that always give the same empty value.
"""

import json
from enum import Enum
from pathlib import PurePath
from typing import Any

import msgspec

from toolwire.resolvers.functions.forms import Schema

FACTORIES = frozenset({list, dict, set, frozenset, tuple, str, int, float, bool, bytes})


def default_in(default: Any = msgspec.NODEFAULT, factory: Any = None) -> Schema:
    """Give `{"default": ...}`, or nothing where there is no default or JSON cannot say it."""
    if factory in FACTORIES:
        default = factory()
    if default is msgspec.NODEFAULT or default is msgspec.UNSET:
        return {}
    try:
        plain = msgspec.to_builtins(default, enc_hook=_said, order="deterministic", str_keys=True)
        return {"default": json.loads(json.dumps(plain, allow_nan=False))}
    except (TypeError, ValueError, OverflowError, RecursionError):
        return {}


def _said(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if hasattr(type(value), "__pydantic_serializer__") and hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON")
