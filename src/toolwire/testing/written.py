"""Scenarios in files, and in maps and lists of Python.

Rules of this file:
- The keys of a turn are its steps, executed in their order.
- A value that cannot be used is rejected with its path; in a file, with line and column.
"""

import base64
import binascii
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import msgspec

from toolwire.encoding.errors import STATUS_OF_KIND, kind_of_status
from toolwire.errors import InvalidField
from toolwire.testing.steps import STEPS, Cut, Expect, Fail, Finish, Pace, Raw, ScriptStep, Wait
from toolwire.types import Error, FinishReason, Refusal, Text, Thinking, ToolCall, Usage

T = TypeVar("T")
_CALL_KEYS = frozenset({"name", "arguments", "id"})
_SCENARIO_KEYS = frozenset({"turns", "by", "repeat", "complete"})
_REASONS = get_args(FinishReason)


def steps_of(turn: Any, path: str) -> list[ScriptStep]:
    """Return the steps of a turn: one step, a map of steps, or a list of both."""
    if isinstance(turn, Mapping):
        return [step for key, value in turn.items() for step in _read(str(key), value, f"{path}.{key}")]
    if isinstance(turn, list | tuple):
        return [step for index, inner in enumerate(turn) for step in steps_of(inner, f"{path}[{index}]")]
    if isinstance(turn, STEPS):
        return [cast("ScriptStep", turn)]
    raise _invalid(path, f"must be a step, a map of steps or a list of them, not {type(turn).__name__}")


def _read(key: str, value: Any, path: str) -> Sequence[ScriptStep]:
    if key not in READERS:
        raise _invalid(path, f"is not a step; known: {', '.join(READERS)}")
    read = READERS[key](value, path)
    return read if isinstance(read, list) else [read]


def _invalid(path: str, reason: str) -> InvalidField:
    parent, _, field = path.rpartition(".")
    return InvalidField(field, reason, path=parent)


def _text(value: Any, path: str) -> str:
    if type(value) is not str:
        raise _invalid(path, f"must be a text, not {value!r}")
    return value


def _seconds(value: Any, path: str) -> float:
    if type(value) not in (int, float) or value < 0:
        raise _invalid(path, f"must be a number of seconds, not {value!r}")
    return float(value)


def _count(value: Any, path: str) -> int:
    if type(value) is not int or value < 0:
        raise _invalid(path, f"must be a number from 0, not {value!r}")
    return value


def _map(value: Any, path: str, known: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _invalid(path, f"must be a map of {', '.join(sorted(known))}, not {value!r}")
    for key in value:
        if key not in known:
            raise _invalid(f"{path}.{key}", f"is not a key here; known: {', '.join(sorted(known))}")
    return dict(value)


def _convert(kind: type[T], fields: dict[str, Any], path: str) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as problem:
        raise _invalid(path, f"cannot be used: {problem}") from None


def _calls(value: Any, path: str) -> list[ToolCall]:
    entries = [(path, value)]
    if isinstance(value, list | tuple):
        entries = [(f"{path}[{index}]", entry) for index, entry in enumerate(value)]
    calls = []
    for at, entry in entries:
        if not isinstance(entry, Mapping) or not entry:
            raise _invalid(at, "must be a map: a name with arguments, or `name`, `arguments` and `id`")
        if "name" in entry:
            call = _map(entry, at, _CALL_KEYS)
            calls.append(_call(call["name"], call.get("arguments") or {}, call.get("id"), at))
        else:
            calls += [_call(name, arguments or {}, None, f"{at}.{name}") for name, arguments in entry.items()]
    return calls


def _call(name: Any, arguments: Any, call_id: Any, path: str) -> ToolCall:
    if type(arguments) is str:
        return ToolCall.parse(call_id, _text(name, path), arguments)
    if not isinstance(arguments, Mapping):
        raise _invalid(path, f"must have a map of arguments, or their text, not {arguments!r}")
    return ToolCall(call_id, _text(name, path), dict(arguments))


def _usage(value: Any, path: str) -> Usage:
    known = _map(value, path, [field for field in Usage.__struct_fields__ if field != "opaque"])
    counts: dict[str, Any] = {key: _count(count, f"{path}.{key}") for key, count in known.items()}
    return Usage(**counts)


def _finish(value: Any, path: str) -> Finish:
    if value not in _REASONS:
        raise _invalid(path, f"must be one of {', '.join(_REASONS)}, not {value!r}")
    return Finish(value)


def _fail(value: Any, path: str) -> Fail:
    known_keys = ("kind", "status", "message", "type", "code", "param", "retry_after", "headers")
    key = "status" if type(value) is int else "kind"
    fields = _map(value if isinstance(value, Mapping) else {key: value}, path, known_keys)
    status, error_kind = fields.pop("status", None), fields.pop("kind", None)
    if status is not None and (type(status) is not int or not 400 <= status < 600):
        raise _invalid(f"{path}.status", f"must be a status of an error, not {status!r}")
    error_kind = error_kind or ("server" if status is None else kind_of_status(status))
    if type(error_kind) is not str or error_kind not in STATUS_OF_KIND:
        raise _invalid(f"{path}.kind", f"must be one of {', '.join(STATUS_OF_KIND)}, not {error_kind!r}")
    other_fields: dict[str, Any] = {key: fields.pop(key) for key in ("retry_after", "headers") if key in fields}
    fields = {"message": f"The scenario says {error_kind}.", **fields, "kind": error_kind, "status": status}
    return _convert(Fail, {"error": _convert(Error, fields, path), **other_fields}, path)


def _cut(value: Any, path: str) -> Cut:
    fields = {} if value is True else _map(value, path, Cut.__struct_fields__)
    counts = {key: _count(fields[key], f"{path}.{key}") for key in ("events", "bytes") if key in fields}
    return Cut(**counts, reset=bool(fields.get("reset")))


def _raw(value: Any, path: str) -> Raw:
    known = ("data", "base64", "status", "content_type")
    fields = _map(value if isinstance(value, Mapping) else {"data": value}, path, known)
    data = fields.get("data", "")
    if "base64" in fields:
        try:
            data = base64.b64decode(_text(fields["base64"], path), validate=True)
        except binascii.Error as problem:
            raise _invalid(f"{path}.base64", f"is not base64: {problem}") from problem
    data = data if isinstance(data, bytes) else _text(data, path).encode()
    return _convert(Raw, {key: fields[key] for key in known[2:] if key in fields} | {"data": data}, path)


READERS: dict[str, Callable[[Any, str], Any]] = {
    "expect": lambda value, path: _convert(Expect, _map(value, path, Expect.__struct_fields__), path),
    "wait": lambda value, path: Wait(_seconds(value, path)),
    "pace": lambda value, path: Pace(_seconds(value, path)),
    "thinking": lambda value, path: Thinking(text=_text(value, path)),
    "text": lambda value, path: Text(text=_text(value, path)),
    "refusal": lambda value, path: Refusal(text=_text(value, path)),
    "call": _calls,
    "calls": _calls,
    "usage": _usage,
    "finish": _finish,
    "error": _fail,
    "raw": _raw,
    "cut": _cut,
}


def read_file(path: str | os.PathLike[str]) -> tuple[list[list[ScriptStep]], dict[str, Any]]:
    """Return the turns of a YAML or JSON file, and the options of the scenario."""
    from toolwire.declarations import formats  # noqa: PLC0415 - only files need the readers
    from toolwire.declarations.nodes import Problems  # noqa: PLC0415 - only files need the readers

    problems = Problems(os.fspath(path))
    data = formats.read_file(Path(path), problems)
    root: Any = formats.read_tree(data, problems, "a list of turns, or a map with `turns`")
    try:
        return read_scenario(root.to_python())
    except InvalidField as problem:
        field = f"{problem.path}.{problem.field}".lstrip(".")
        prefix = "" if type(root.value) is dict and "turns" in root.value else "turns"
        inner_path = field.removeprefix("scenario.").removeprefix(prefix)
        inner_path = inner_path.removeprefix("[0].") if prefix and type(root.value) is dict else inner_path
        problems.add(root.find(inner_path), field, problem.reason, problem)
    problems.raise_collected()
    raise AssertionError


def read_scenario(value: Any) -> tuple[list[list[ScriptStep]], dict[str, Any]]:
    """Return the turns of a scenario and its options: a list of turns, or a map with `turns`."""
    options = value if isinstance(value, Mapping) else {"turns": value}
    options = _map(options, "scenario", _SCENARIO_KEYS) if "turns" in options else {"turns": [options]}
    turns = options.pop("turns")
    if not isinstance(turns, list | tuple):
        raise InvalidField("turns", f"must be a list, not {turns!r}")
    return [steps_of(turn, f"turns[{index}]") for index, turn in enumerate(turns)], options
