"""A trace as a row that every database keeps exactly: canonical JSON, and declared forms of what JSON lacks.

Rules of this file:
- JSON is written with sorted keys and without spaces; text stays as it is, floats are written by `repr`.
- What JSON or a database cannot hold becomes text that begins with `$kind:`. `$text:` has NUL, lone
  surrogates and backslashes as in JSON; `$float:` is no finite number; `$int:0x` has more than 4,000 digits;
  `$bytes:` is base64; `$null:`, `$bool:`, `$int:` and `$float:` are keys; `$other:` is a type and how it
  shows itself; `$deep:` is where it was cut: too deep, too much, or a circle.
- Text that itself begins so becomes `$text:`, so the forms of text, numbers and bytes can be read back.
- A key of the database is short: a longer text becomes `$long:`, its sha256 and its beginning.
- A row is a snapshot: what is changed in a map after it was recorded does not reach the store.
- An instant is a whole number of microseconds since 1970, in UTC.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from toolwire.errors import StoreFailed
from toolwire.traces.trace import Trace

DEPTH = 100
VALUES = 1_000_000
_KEY_BYTES = 600
_KEY_SHOWN = 100
_DIGITS = 4000
_EMPTY: dict[type, str] = {dict: "{}", list: "[]", tuple: "[]"}

_MARKED = re.compile(r"\$(?:text|float|int|bytes|null|bool|other|deep|long):")
_UNSAID = re.compile("[\x00\ud800-\udfff]")
_ESCAPED = re.compile("[\x00\ud800-\udfff\\\\]")
_ESCAPES = re.compile(r"\\(\\|u[0-9a-f]{4})")
_LARGEST = 10**_DIGITS
_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


def _text_form(text: str) -> str:
    """Write text so that every database keeps it."""
    plain = "\x00" not in text if text.isascii() else not _UNSAID.search(text)
    if plain and not (text.startswith("$") and _MARKED.match(text)):
        return text
    return "$text:" + _ESCAPED.sub(_escape, text)


def _text_of(form: str) -> str:
    if not form.startswith("$text:"):
        return form
    return _ESCAPES.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1][1:], 16)), form[6:])


def _escape(found: re.Match[str]) -> str:
    return "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}"


def key_form(text: str) -> str:
    """Write text that is looked up: as text, and not longer than an index takes."""
    form = _text_form(text)
    if len(form) <= _KEY_BYTES // 4 or len(form.encode()) <= _KEY_BYTES:
        return form
    return f"$long:{hashlib.sha256(form.encode()).hexdigest()}:{form[:_KEY_SHOWN]}"


def json_form(value: Any) -> str:
    """Write any value as canonical JSON."""
    if not value and type(value) in _EMPTY:
        return _EMPTY[type(value)]
    return _encode(_Writing().form(value))


def json_of(form: str) -> Any:
    """Read a value back."""
    return _value(json.loads(form))


class _Writing:
    """One value on its way to JSON: how deep it is, and how many values are left."""

    def __init__(self) -> None:
        self.left = VALUES
        self.within: set[int] = set()

    def form(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return _text_form(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -_LARGEST < value < _LARGEST else f"$int:{value:#x}"
        if kind is float:
            return value if value - value == 0 else f"$float:{value}"
        self.left -= 1
        return self.nested(value) if isinstance(value, Mapping | list | tuple) else self.odd(value)

    def nested(self, value: Any) -> Any:
        if len(self.within) >= DEPTH or self.left < len(value):
            return f"$deep:{type(value).__name__} of {len(value)}"
        if id(value) in self.within:
            return "$deep:circle"
        self.within.add(id(value))
        self.left -= len(value)
        try:
            if isinstance(value, Mapping):
                return {self.key(key): self.form(inner) for key, inner in value.items()}
            return [self.form(inner) for inner in value]
        finally:
            self.within.discard(id(value))

    def key(self, value: Any) -> str:
        match value:
            case str():
                return _text_form(value)
            case None:
                return "$null:"
            case bool():
                return f"$bool:{str(value).lower()}"
            case int():
                return f"$int:{value}" if -_LARGEST < value < _LARGEST else f"$int:{value:#x}"
            case float():
                return f"$float:{value}"
        form = self.form(value)
        return form if isinstance(form, str) else f"$other:{_encode(form)}"

    def odd(self, value: Any) -> Any:
        match value:
            case str():
                return _text_form(str.__str__(value))
            case bool() | int() | float():
                return self.form(float(value) if isinstance(value, float) else int(value))
            case bytes() | bytearray() | memoryview():
                return f"$bytes:{base64.b64encode(bytes(value)).decode()}"
        try:
            said = msgspec.to_builtins(value, str_keys=False, builtin_types=(bytes,))
        except Exception:  # noqa: BLE001 - values of other people show themselves, or fail to
            return f"$other:{_shown(value)}"
        return self.form(said) if type(said) is not type(value) else f"$other:{_shown(value)}"


def _shown(value: Any) -> str:
    kind = type(value)
    try:
        words = repr(value)
    except Exception:  # noqa: BLE001 - a repr of other people's code may raise anything
        words = "that cannot show itself"
    return _ESCAPED.sub(_escape, f"{kind.__module__}.{kind.__qualname__} {words}")


def _value(form: Any) -> Any:
    match form:
        case str() if form.startswith("$"):
            return _read(form)
        case dict():
            return {_value(key): _value(inner) for key, inner in form.items()}
        case list():
            return [_value(inner) for inner in form]
    return form


_READERS: dict[str, Callable[[str], Any]] = {
    "float": float,
    "int": lambda digits: int(digits, 16 if "x" in digits else 10),
    "bytes": base64.b64decode,
    "null": lambda _: None,
    "bool": lambda word: word == "true",
}


def _read(form: str) -> Any:
    kind, _, rest = form[1:].partition(":")
    return _READERS[kind](rest) if kind in _READERS else _text_of(form)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_KEYS = ("id", "tenant_id", "conversation_id", "tool_name")
_TEXTS = (
    *("call_id", "model", "provider", "dialect", "session", "sandbox", "approval", "repair"),
    *("request_digest", "response_digest", "kind"),
)
JSON = ("arguments", "result")
CONTENT = (
    *_KEYS,
    *_TEXTS,
    *JSON,
    "losses",
    "result_type",
    "ending",
    "duration_ms",
    "waited_ms",
    "iteration",
    "started_at",
)


def microseconds(instant: datetime) -> int:
    """Write an instant."""
    return (instant - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """Read an instant."""
    return _EPOCH + value * _MICROSECOND


def row_of(trace: Trace) -> dict[str, Any]:
    """Write a trace as the columns that it fills itself."""
    row: dict[str, Any] = {name: key_form(getattr(trace, name)) for name in _KEYS}
    for name in _TEXTS:
        value = getattr(trace, name)
        row[name] = None if value is None else _text_form(value)
    return {
        **row,
        "arguments": json_form(trace.arguments),
        "result": json_form(trace.result),
        "losses": json_form(trace.losses),
        "result_type": trace.result_type,
        "ending": trace.ending,
        "duration_ms": trace.duration_ms + 0.0,  # a database does not keep the sign of -0.0
        "waited_ms": None if trace.waited_ms is None else trace.waited_ms + 0.0,
        "iteration": trace.iteration,
        "started_at": microseconds(trace.started_at),
    }


READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys((*_KEYS, *_TEXTS), _text_of),
    **dict.fromkeys(JSON, json_of),
    "losses": lambda form: tuple(json_of(form)),
    "started_at": instant,
    "inserted_at": instant,
}


def trace_of(row: Mapping[str, Any]) -> Trace:
    """Read a row as a trace."""
    try:
        return Trace(
            **{name: READ[name](value) if name in READ else value for name, value in row.items() if value is not None}
        )
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as problem:
        words = f"the row at {row.get('position')} is not as it was written ({type(problem).__name__}): verify it"
        raise StoreFailed(words, path="traces") from None
