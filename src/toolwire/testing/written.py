"""Scenarios as they are written: in files, and in maps and lists of Python.

Rules of this file:
- The keys of a turn are its steps, in the order in which they are written.
- What cannot be read is refused with its place: of a file, with line and column.
"""

import base64
import binascii
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from toolwire.encoding.errors import KIND_OF_STATUS, STATUS_OF_KIND
from toolwire.errors import InvalidField
from toolwire.testing.steps import STEPS, Cut, Expect, Fail, Finish, Pace, Raw, ScriptStep, Wait
from toolwire.types import Error, FinishReason, Refusal, Text, Thinking, ToolCall, Usage

CALL_KEYS = frozenset({"name", "arguments", "id"})
SCENARIO_KEYS = frozenset({"turns", "by", "repeat", "complete"})
REASONS = get_args(FinishReason)


def steps_of(turn: Any, path: str) -> list[ScriptStep]:
    """Read a turn: one step, a map of steps, or a list of both."""
    if isinstance(turn, Mapping):
        return [step for key, value in turn.items() for step in _read(str(key), value, path)]
    if isinstance(turn, list | tuple):
        return [step for place, inner in enumerate(turn) for step in steps_of(inner, f"{path}[{place}]")]
    if isinstance(turn, STEPS):
        return [cast("ScriptStep", turn)]
    raise _wrong(path, f"must be a step, a map of steps or a list of them, not {type(turn).__name__}")


def _read(key: str, value: Any, path: str) -> Iterator[ScriptStep]:
    read = READERS.get(key)
    if read is None:
        raise _wrong(f"{path}.{key}", f"is no step; known: {', '.join(READERS)}")
    yield from read(value, f"{path}.{key}")


def _wrong(path: str, reason: str) -> InvalidField:
    above, _, field = path.rpartition(".")
    return InvalidField(field, reason, path=above)


def _text(value: Any, path: str) -> str:
    if type(value) is not str:
        raise _wrong(path, f"must be a text, not {value!r}")
    return value


def _seconds(value: Any, path: str) -> float:
    if type(value) not in (int, float) or value < 0:
        raise _wrong(path, f"must be a number of seconds, not {value!r}")
    return float(value)


def _count(value: Any, path: str) -> int:
    if type(value) is not int or value < 0:
        raise _wrong(path, f"must be a number from 0, not {value!r}")
    return value


def _map(value: Any, path: str, known: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(path, f"must be a map of {', '.join(sorted(known))}, not {value!r}")
    for key in value:
        if key not in known:
            raise _wrong(f"{path}.{key}", f"is no key here; known: {', '.join(sorted(known))}")
    return dict(value)


def _read_calls(value: Any, path: str) -> Iterator[ScriptStep]:
    given = value if isinstance(value, list | tuple) else [value]
    for place, call in enumerate(given):
        here = f"{path}[{place}]" if given is value else path
        if not isinstance(call, Mapping) or not call:
            raise _wrong(here, "must be a map: a name with arguments, or `name`, `arguments` and `id`")
        if "name" in call:
            said = _map(call, here, CALL_KEYS)
            yield _call(said["name"], said.get("arguments") or {}, said.get("id"), here)
        else:
            for name, arguments in call.items():
                yield _call(name, arguments or {}, None, f"{here}.{name}")


def _call(name: Any, arguments: Any, call_id: Any, path: str) -> ToolCall:
    if type(arguments) is str:
        return ToolCall.parse(call_id, _text(name, path), arguments)
    if not isinstance(arguments, Mapping):
        raise _wrong(path, f"must have a map of arguments, or their text, not {arguments!r}")
    return ToolCall(call_id, _text(name, path), dict(arguments))


def _read_usage(value: Any, path: str) -> Iterator[ScriptStep]:
    said = _map(value, path, [field for field in Usage.__struct_fields__ if field != "opaque"])
    counts: dict[str, Any] = {key: _count(count, f"{path}.{key}") for key, count in said.items()}
    yield Usage(**counts)


def _read_finish(value: Any, path: str) -> Iterator[ScriptStep]:
    if value not in REASONS:
        raise _wrong(path, f"must be one of {', '.join(REASONS)}, not {value!r}")
    yield Finish(value)


def _read_error(value: Any, path: str) -> Iterator[ScriptStep]:
    known = ("kind", "status", "message", "type", "code", "param", "retry_after", "headers")
    said = _map(value if isinstance(value, Mapping) else {_error_key(value): value}, path, known)
    status, kind = said.pop("status", None), said.pop("kind", None)
    if status is not None and (type(status) is not int or not 400 <= status < 600):
        raise _wrong(f"{path}.status", f"must be a status of an error, not {status!r}")
    kind = kind or KIND_OF_STATUS.get(status or 0, "server")
    if kind not in STATUS_OF_KIND:
        raise _wrong(f"{path}.kind", f"must be one of {', '.join(STATUS_OF_KIND)}, not {kind!r}")
    after, headers = said.pop("retry_after", None), said.pop("headers", {})
    message = _text(said.pop("message", f"The scenario says {kind}."), f"{path}.message")
    after = None if after is None else _seconds(after, f"{path}.retry_after")
    yield Fail(Error(kind, message, status, **said), after, headers)


def _error_key(value: Any) -> str:
    return "status" if type(value) is int else "kind"


def _read_cut(value: Any, path: str) -> Iterator[ScriptStep]:
    if value is True:
        yield Cut()
        return
    said = _map(value, path, Cut.__struct_fields__)
    counts = {key: _count(said[key], f"{path}.{key}") for key in ("events", "bytes") if key in said}
    yield Cut(**counts, reset=bool(said.get("reset")))


def _read_raw(value: Any, path: str) -> Iterator[ScriptStep]:
    said = {"data": value} if not isinstance(value, Mapping) else dict(value)
    said = _map(said, path, ("data", "base64", "status", "content_type"))
    if "base64" in said:
        try:
            data = base64.b64decode(_text(said["base64"], path), validate=True)
        except binascii.Error as problem:
            raise _wrong(f"{path}.base64", f"is not base64: {problem}") from problem
    else:
        given = said.get("data", "")
        data = given if isinstance(given, bytes) else _text(given, path).encode()
    yield Raw(data, said.get("status", 200), said.get("content_type"))


def _read_expect(value: Any, path: str) -> Iterator[ScriptStep]:
    yield Expect(**_map(value, path, Expect.__struct_fields__))


def _one(
    kind: Callable[[Any], ScriptStep], read: Callable[[Any, str], Any]
) -> Callable[[Any, str], Iterator[ScriptStep]]:
    def reading(value: Any, path: str) -> Iterator[ScriptStep]:
        yield kind(read(value, path))

    return reading


READERS: dict[str, Callable[[Any, str], Iterator[ScriptStep]]] = {
    "expect": _read_expect,
    "wait": _one(Wait, _seconds),
    "pace": _one(Pace, _seconds),
    "thinking": _one(lambda text: Thinking(text=text), _text),
    "text": _one(lambda text: Text(text=text), _text),
    "refusal": _one(lambda text: Refusal(text=text), _text),
    "call": _read_calls,
    "calls": _read_calls,
    "usage": _read_usage,
    "finish": _read_finish,
    "error": _read_error,
    "raw": _read_raw,
    "cut": _read_cut,
}


def read_file(path: str | os.PathLike[str]) -> tuple[list[list[ScriptStep]], dict[str, Any]]:
    """Read a file, YAML or JSON: its turns, and how they are played."""
    from toolwire.declarations.nodes import MAX_BYTES, Builder, Unreadable, read_text  # noqa: PLC0415 - only files
    from toolwire.declarations.problems import START, Problems  # noqa: PLC0415 - need the readers

    file, problems = Path(path), Problems(os.fspath(path))
    build, read = Builder(problems), _readers().get(file.suffix.lower())
    if read is None:
        problems.add(START, "", "must be called .yaml, .yml or .json, so that it is known how to read it")
    else:
        try:
            with file.open("rb") as opened:
                read(read_text(opened.read(MAX_BYTES + 1), problems), build)
        except Unreadable:
            pass
        except OSError as problem:
            problems.add(START, "", f"cannot be read: {problem.strerror or problem}", problem)
    if build.root is None and not problems.found:
        problems.add(START, "", "is empty; it must be a list of turns, or a map with `turns`")
    problems.refuse()
    root: Any = build.root
    try:
        return read_scenario(root.plain())
    except InvalidField as problem:
        field = f"{problem.path}.{problem.field}".lstrip(".")
        inside = "" if type(root.value) is dict and "turns" in root.value else "turns"
        place = field.removeprefix("scenario.").removeprefix(inside)
        place = place.removeprefix("[0].") if inside and type(root.value) is dict else place
        problems.add(root.find(place), field, problem.reason, problem)
    problems.refuse()
    raise AssertionError


def _readers() -> Mapping[str, Callable[[str, Any], None]]:
    from toolwire.declarations import READERS as FORMATS  # noqa: PLC0415 - only files need the readers

    return FORMATS


def read_scenario(value: Any) -> tuple[list[list[ScriptStep]], dict[str, Any]]:
    """Read a whole scenario: a list of turns, or a map of them and of how they are played."""
    said = value if isinstance(value, Mapping) else {"turns": value}
    said = _map(said, "scenario", SCENARIO_KEYS) if "turns" in said else {"turns": [said]}
    turns = said.pop("turns")
    if not isinstance(turns, list | tuple):
        raise InvalidField("turns", f"must be a list, not {turns!r}")
    return [steps_of(turn, f"turns[{place}]") for place, turn in enumerate(turns)], said
