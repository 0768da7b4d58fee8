"""A trace as a row that every database stores exactly: canonical JSON, with declared forms for values that JSON lacks.

Rules of this file:
- JSON is written with sorted keys and no spaces. Text is written as it is, floats by `repr`.
- A value that JSON or a database cannot hold becomes text that starts with `$kind:`:
  - `$text:` is text with NUL, lone surrogates and backslashes escaped as in JSON.
  - `$float:` is a float that is not finite, `$int:0x` an integer of more than 4,000 digits, `$bytes:` is base64.
  - `$null:`, `$bool:`, `$int:` and `$float:` are keys.
  - `$other:` is the type and `repr` of any other value.
  - `$deep:` replaces a value that is nested too deeply, too large, or a cycle.
- Text that itself starts like this becomes `$text:`, so that text, numbers and bytes can be decoded.
- A column that is indexed is short: a longer text becomes `$long:`, its SHA-256 and its beginning.
- A row is a snapshot: later changes to a mapping do not reach the store.
- A time is a whole number of microseconds since 1970, in UTC.
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
_LONG_PREFIX = 100
_DIGITS = 4000
_EMPTY: dict[type, str] = {dict: "{}", list: "[]", tuple: "[]"}

_MARKED = re.compile(r"\$(?:text|float|int|bytes|null|bool|other|deep|long):")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ESCAPED = re.compile("[\x00\ud800-\udfff\\\\]")
_ESCAPES = re.compile(r"\\(\\|u[0-9a-f]{4})")
_LARGEST = 10**_DIGITS
_write_json = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


def _encode_text(text: str) -> str:
    """Return text that every database can store."""
    plain = "\x00" not in text if text.isascii() else not _UNSTORABLE.search(text)
    if plain and not (text.startswith("$") and _MARKED.match(text)):
        return text
    return "$text:" + _ESCAPED.sub(_escape, text)


def _decode_text(form: str) -> str:
    if not form.startswith("$text:"):
        return form
    return _ESCAPES.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1][1:], 16)), form[6:])


def _escape(found: re.Match[str]) -> str:
    return "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}"


def encode_key(text: str) -> str:
    """Return the stored form of `text` for an indexed column. A text that is too long becomes `$long:` and its hash."""
    form = _encode_text(text)
    if len(form) <= _KEY_BYTES // 4 or len(form.encode()) <= _KEY_BYTES:
        return form
    return f"$long:{hashlib.sha256(form.encode()).hexdigest()}:{form[:_LONG_PREFIX]}"


def encode_json(value: Any) -> str:
    """Return any value as canonical JSON."""
    if not value and type(value) in _EMPTY:
        return _EMPTY[type(value)]
    return _write_json(_JsonForm().convert(value))


def decode_json(form: str) -> Any:
    """Return the value that `encode_json` wrote."""
    return _decode_value(json.loads(form))


class _JsonForm:
    """The conversion of one value to JSON values, with its current nesting and its remaining number of values."""

    def __init__(self) -> None:
        self.budget = VALUES
        self.parents: set[int] = set()

    def convert(self, value: Any) -> Any:
        type_ = type(value)
        if type_ is str:
            return _encode_text(value)
        if value is None or type_ is bool:
            return value
        if type_ is int:
            return value if -_LARGEST < value < _LARGEST else f"$int:{value:#x}"
        if type_ is float:
            return value if value - value == 0 else f"$float:{value}"
        self.budget -= 1
        return self.convert_nested(value) if isinstance(value, Mapping | list | tuple) else self.convert_other(value)

    def convert_nested(self, value: Any) -> Any:
        if len(self.parents) >= DEPTH or self.budget < len(value):
            return f"$deep:{type(value).__name__} of {len(value)}"
        if id(value) in self.parents:
            return "$deep:circle"
        self.parents.add(id(value))
        self.budget -= len(value)
        try:
            if isinstance(value, Mapping):
                return {self.convert_key(key): self.convert(inner) for key, inner in value.items()}
            return [self.convert(inner) for inner in value]
        finally:
            self.parents.discard(id(value))

    def convert_key(self, value: Any) -> str:
        match value:
            case str():
                return _encode_text(value)
            case None:
                return "$null:"
            case bool():
                return f"$bool:{str(value).lower()}"
            case int():
                return f"$int:{value}" if -_LARGEST < value < _LARGEST else f"$int:{value:#x}"
            case float():
                return f"$float:{value}"
        form = self.convert(value)
        return form if isinstance(form, str) else f"$other:{_write_json(form)}"

    def convert_other(self, value: Any) -> Any:
        match value:
            case str():
                return _encode_text(str.__str__(value))
            case bool() | int() | float():
                return self.convert(float(value) if isinstance(value, float) else int(value))
            case bytes() | bytearray() | memoryview():
                return f"$bytes:{base64.b64encode(bytes(value)).decode()}"
        try:
            builtins = msgspec.to_builtins(value, str_keys=False, builtin_types=(bytes,))
        except Exception:  # noqa: BLE001 - other people's types may raise anything
            return f"$other:{_describe(value)}"
        return self.convert(builtins) if type(builtins) is not type(value) else f"$other:{_describe(value)}"


def _describe(value: Any) -> str:
    type_ = type(value)
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - other people's `repr` may raise anything
        text = "that cannot show itself"
    return _ESCAPED.sub(_escape, f"{type_.__module__}.{type_.__qualname__} {text}")


def _decode_value(form: Any) -> Any:
    match form:
        case str() if form.startswith("$"):
            return _decode_marked(form)
        case dict():
            return {_decode_value(key): _decode_value(inner) for key, inner in form.items()}
        case list():
            return [_decode_value(inner) for inner in form]
    return form


_MARK_DECODERS: dict[str, Callable[[str], Any]] = {
    "float": float,
    "int": lambda digits: int(digits, 16 if "x" in digits else 10),
    "bytes": base64.b64decode,
    "null": lambda _: None,
    "bool": lambda word: word == "true",
}


def _decode_marked(form: str) -> Any:
    kind, _, text = form[1:].partition(":")
    return _MARK_DECODERS[kind](text) if kind in _MARK_DECODERS else _decode_text(form)


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


def encode_time(time: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def _decode_time(value: int) -> datetime:
    """Return the time that `encode_time` wrote."""
    return _EPOCH + value * _MICROSECOND


def encode_row(trace: Trace) -> dict[str, Any]:
    """Return the columns of a trace, without those that the store fills in."""
    row: dict[str, Any] = {name: encode_key(getattr(trace, name)) for name in _KEYS}
    for name in _TEXTS:
        value = getattr(trace, name)
        row[name] = None if value is None else _encode_text(value)
    return {
        **row,
        "arguments": encode_json(trace.arguments),
        "result": encode_json(trace.result),
        "losses": encode_json(trace.losses),
        "result_type": trace.result_type,
        "ending": trace.ending,
        "duration_ms": trace.duration_ms + 0.0,  # databases do not store the sign of -0.0
        "waited_ms": None if trace.waited_ms is None else trace.waited_ms + 0.0,
        "iteration": trace.iteration,
        "started_at": encode_time(trace.started_at),
    }


_DECODERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys((*_KEYS, *_TEXTS), _decode_text),
    **dict.fromkeys(JSON, decode_json),
    "losses": lambda form: tuple(decode_json(form)),
    "started_at": _decode_time,
    "inserted_at": _decode_time,
}


def decode_row(row: Mapping[str, Any]) -> Trace:
    """Return the trace of a row. Raise `StoreFailed` if the row cannot be decoded."""
    try:
        return Trace(
            **{
                name: _DECODERS[name](value) if name in _DECODERS else value
                for name, value in row.items()
                if value is not None
            }
        )
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as problem:
        words = (
            f"the row at {row.get('position')} was changed after it was written ({type(problem).__name__}): verify it"
        )
        raise StoreFailed(words, path="traces") from None
