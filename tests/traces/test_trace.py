"""What a trace is, and what is said of one that is wrong."""

import subprocess
import sys
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

import toolwire
from tests.traces.making import ATTRS, made
from toolwire.errors import InvalidTrace, UserError
from toolwire.traces import Trace
from toolwire.types import Loss


@pytest.mark.row("R002-93", "R002-95", "4.3.11")
def test_a_trace_has_the_fields() -> None:
    trace = made()
    assert (trace.tenant_id, trace.conversation_id, trace.tool_name) == ("acme", "talk", "weather")
    assert (trace.arguments, trace.result) == ({"city": "Tokyo"}, {"content": "18 degrees"})
    assert (trace.result_type, trace.duration_ms, trace.iteration, trace.ending) == ("ok", 12.5, 0, "ok")
    assert len(trace.id) == 32
    assert trace.id != made().id
    assert trace.inserted_at is None
    assert toolwire.Trace is Trace
    assert toolwire.traces.Trace is Trace


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a type of result": ({"result_type": "fine"}, 'result_type must be "ok" or "error"'),
    "arguments of another shape": ({"arguments": "x"}, "arguments must be a map"),
    "result of another shape": ({"result": [1]}, "result must be a map or a string"),
    "a duration, below 0": ({"duration_ms": -0.1}, "duration_ms must be a number, 0 or more"),
    "a duration, not finite": ({"duration_ms": float("nan")}, "duration_ms must be a number, 0 or more"),
    "a duration, a truth": ({"duration_ms": True}, "duration_ms must be a number, 0 or more"),
    "a duration, too large": ({"duration_ms": 10**400}, "duration_ms must be a number, 0 or more"),
    "an iteration, below 0": ({"iteration": -1}, "iteration must be a whole number, 0 or more"),
    "an iteration, a part": ({"iteration": 1.5}, "iteration must be a whole number, 0 or more"),
    "an iteration, too large": ({"iteration": 2**63}, "iteration must be a whole number, 0 or more"),
    "an id of another type": ({"tenant_id": 5}, "tenant_id must be a string, a UUID or its 16 bytes"),
    "bytes that are no UUID": ({"conversation_id": b"x"}, "conversation_id must be a string, a UUID or its 16 bytes"),
    "an id": ({"id": ""}, "id must be a string that is not empty"),
    "an ending": ({"ending": "gone"}, "ending must be one of ok, error, denied"),
    "losses": ({"losses": [5]}, "losses must be a list of strings"),
    "losses of text": ({"losses": "x"}, "losses must be a list of strings"),
    "a naive time": ({"started_at": datetime(2026, 1, 1)}, "started_at must be a datetime with a time zone"),  # noqa: DTZ001
    "text": ({"model": 5}, "model must be a string"),
    "a tool": ({"tool_name": 5}, "tool_name must be a string"),
    "missing": ({"tool_name": None, "iteration": None}, "Trace needs tool_name, iteration"),
}


@pytest.mark.parametrize(("attrs", "words"), WRONG.values(), ids=WRONG)
@pytest.mark.row("R002-94", "R002-95", "R002-96", "R002-97", "R002-99", "R002-103")
def test_what_is_wrong_is_said(attrs: dict[str, Any], words: str) -> None:
    [problem] = Trace.check(ATTRS, attrs)
    assert str(problem).startswith(words)
    with pytest.raises(InvalidTrace) as raised:
        Trace.new(ATTRS, attrs)
    assert [str(one) for one in raised.value.problems] == [str(problem)]
    assert isinstance(raised.value, UserError)


@pytest.mark.row("R002-99")
def test_all_of_it_at_once() -> None:
    found = Trace.check({"result_type": "x", "iteration": -1, "duration_ms": "long", "other": 5})
    assert [str(problem) for problem in found] == [
        "Trace needs tool_name, arguments, result",
        'result_type must be "ok" or "error"',
        "duration_ms must be a number, 0 or more",
        "iteration must be a whole number, 0 or more",
    ]
    with pytest.raises(InvalidTrace, match=r"needs tool_name, .*iteration; result_type must"):
        Trace.new({"result_type": "x"})


@pytest.mark.row("R002-99")
def test_a_good_one_has_no_problems_and_unknown_keys_are_ignored() -> None:
    assert Trace.check(ATTRS, unknown=1) == []
    assert not hasattr(Trace.new(ATTRS, unknown=1), "unknown")
    assert str(Trace.check(5)[0]) == "attributes must be a map"  # type: ignore[arg-type]  # it is what is tested


@pytest.mark.row("R002-100")
def test_a_trace_may_come_first() -> None:
    first = made(id="x")
    second = Trace.new(first, {"iteration": 5})
    assert (second.id, second.iteration, second.result) == ("x", 5, first.result)
    assert Trace.check(first, {"iteration": -1}) != []


@pytest.mark.row("R002-98", "4.3.11")
def test_a_trace_is_never_changed() -> None:
    with pytest.raises(AttributeError):
        made().tool_name = "x"  # type: ignore[misc]  # it is what is tested


@pytest.mark.row("R002-98", "4.3.11")
def test_a_store_has_no_verb_that_changes() -> None:
    from toolwire.traces.store import Store

    verbs = {name for name in dir(Store) if not name.startswith("_")}
    assert not {name for name in verbs if name.startswith(("update", "delete", "remove", "set", "clear"))}


@pytest.mark.row("R002-103")
def test_uuids_have_one_spelling_and_other_text_stays() -> None:
    known = uuid.uuid4()
    assert made(tenant_id=known).tenant_id == made(tenant_id=known.bytes).tenant_id == str(known)
    assert made(tenant_id="{ANY}", conversation_id=None).tenant_id == "{ANY}"
    assert made(tenant_id="x" * 16).tenant_id == "x" * 16
    assert Trace.new({name: ATTRS[name] for name in Trace.REQUIRED}).conversation_id == ""


def test_a_trace_made_without_new_is_checked_too() -> None:
    with pytest.raises(InvalidTrace, match="result must be a map"):
        Trace(**{**ATTRS, "result": "text"})


def test_losses_are_text() -> None:
    assert made(losses=[Loss("a.b", "x", "dropped", "why"), "y"]).losses == ("a.b: why (dropped)", "y")


def test_times_have_a_zone() -> None:
    assert made().started_at.tzinfo is UTC


@pytest.mark.row("R002-102")
def test_metadata_is_the_table() -> None:
    assert list(Trace.metadata.tables) == ["tool_traces"]
    assert set(Trace.__struct_fields__) == set(Trace.metadata.tables["tool_traces"].columns.keys())


LIGHT = """
import sys
import toolwire.traces
from toolwire import Trace
print(sorted({"sqlalchemy", "alembic", "psycopg", "sqlite3", "asyncio"} & set(sys.modules)))
"""


@pytest.mark.row("R002-101")
def test_the_import_opens_and_loads_no_database() -> None:
    assert subprocess.check_output([sys.executable, "-c", LIGHT], text=True).strip() == "[]"


WITHOUT = """
import sys
sys.modules[{library!r}] = None
from toolwire import traces
try:
    traces.open({url!r})
except Exception as problem:
    print(type(problem).__name__, problem)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "url"),
    [
        ("sqlalchemy", "sqlite:///{}"),
        ("alembic", "sqlite:///{}"),
        ("psycopg", "postgresql://a@b/c"),
    ],
)
def test_a_missing_library_is_said(tmp_path: Any, library: str, url: str) -> None:
    code = WITHOUT.format(library=library, url=url.format(tmp_path / "traces.db"))
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert said.startswith("MissingExtra ")
    assert "pip install 'toolwire[traces]'" in said
