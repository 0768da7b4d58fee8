"""Identity: what is read from a wire is written to it as it was, by understanding, not by keeping the body.

The second half changes one value of the decoded model: then exactly that place of the body differs.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.wires import DIALECTS, SHARES, differences, errors_of, requests_of, responses_of
from toolwire import Opaque, Request, ToolCall
from toolwire.dialects import NAMES

# Recordings that are no body of their format, by name, each with its reason. None is known.
BROKEN: dict[str, str] = {}
# Canonical fields that stand for no single place of a body: derived ones, and ids that others refer to.
DERIVED = {
    "opaque",
    "index",
    "raw",
    "error",
    "complete",
    "id",
    "tool_call_id",
    "total_tokens",
    "dialect",
    "provider_state",
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("F21")
def test_every_recorded_request_comes_back(name: str, corpus: Any) -> None:
    assert corpus
    dialect, seen, changed = DIALECTS[name], 0, []
    for recording, body in requests_of(name):
        encoded = dialect.encode_request(dialect.decode_request(body, recording.path))
        seen += 1
        if (found := differences(body, encoded.body)) or encoded.losses:
            changed.append((recording.name, found[:3], encoded.losses[:3]))
        if recording.path and encoded.path.split("?")[0] != recording.path.split("?")[0]:
            changed.append((recording.name, [f"path {recording.path} became {encoded.path}"], ()))
    assert seen > 0
    assert [entry for entry in changed if entry[0] not in BROKEN] == []


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("F21")
def test_every_recorded_response_comes_back(name: str, corpus: Any) -> None:
    assert corpus
    dialect, seen, changed = DIALECTS[name], 0, []
    for recording, body in responses_of(name):
        encoded = dialect.encode_response(dialect.decode_response(body))
        seen += 1
        if (found := differences(body, encoded.body)) or encoded.losses:
            changed.append((recording.name, found[:3], encoded.losses[:3]))
    assert seen > 0
    assert [entry for entry in changed if entry[0] not in BROKEN] == []


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_error_comes_back(name: str, corpus: Any) -> None:
    assert corpus
    dialect = DIALECTS[name]
    for recording, body in errors_of(name):
        reply = dialect.encode_error(dialect.decode_error(recording.status, body))
        assert (reply.status, differences(body, reply.body)) == (recording.status, []), recording.name


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_keys_of_schemas_and_arguments_keep_their_order(name: str, corpus: Any) -> None:
    assert corpus
    dialect = DIALECTS[name]
    for recording, body in requests_of(name):
        encoded = dialect.encode_request(dialect.decode_request(body, recording.path)).body
        assert _orders(body.get("tools")) == _orders(encoded.get("tools")), recording.name


def _orders(value: Any, within: bool = False) -> list[Any]:
    """Give the keys of every schema in order."""
    if isinstance(value, dict):
        keys = [list(value)] if within else []
        for key, inner in value.items():
            keys += _orders(inner, within or key in SCHEMAS)
        return keys
    return [line for inner in value for line in _orders(inner, within)] if isinstance(value, list) else []


SCHEMAS = {"parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema"}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Give every text and number of a canonical value with the way to it, opaque data apart."""
    if isinstance(value, Opaque):
        return
    if isinstance(value, ToolCall) and value.error is not None:
        return
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            if field not in DERIVED:
                yield from leaves(getattr(value, field), (*path, field))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and path[-1] not in WORDS:
        yield path, value


# What a tool gave is one value, also where this wire holds it as an object.
RESULT = re.compile(r"(?<=unctionResponse\.response).*|(?<=unction_response\.response).*")
# Fields of a closed set of words: another word may be none of the wire's.
WORDS = {
    "role",
    "mode",
    "kind",
    "finish_reason",
    "raw_finish_reason",
    "thinking",
    "effort",
    "media_type",
    "created",
    "type",
}


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """Give the value with the leaf at the path made another."""
    if not path:
        return value + "X" if isinstance(value, str) else value + 1
    step, *rest = path
    if isinstance(value, list):
        return [changed(inner, tuple(rest)) if place == step else inner for place, inner in enumerate(value)]
    return replace(value, **{step: changed(getattr(value, step), tuple(rest))})


def places(request: Request) -> list[tuple[Any, ...]]:
    """Choose leaves to change: the first of each kind of path."""
    chosen: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for path, _ in leaves(request):
        kind = tuple(step for step in path if isinstance(step, str))
        chosen.setdefault(kind, path)
    return list(chosen.values())


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", SHARES)
def test_changing_one_value_changes_one_place(name: str, share: int, corpus: Any) -> None:
    assert corpus
    dialect, tried, wrong = DIALECTS[name], 0, []
    for recording, body in requests_of(name, share):
        request = dialect.decode_request(body, recording.path)
        for path in places(request):
            if path[:2] == ("context", "tools") and path[-1] == "name":
                continue
            encoded = dialect.encode_request(changed(request, path))
            found = differences(body, encoded.body)
            tried += 1
            touched = {RESULT.sub("", line.partition(": ")[0]) for line in found}
            told = bool(encoded.losses) or encoded.path != recording.path
            if len(touched) != 1 and (found or not told):
                wrong.append((recording.name, path, found[:4]))
    assert tried > 0
    assert wrong == [], f"{len(wrong)} of {tried}"
