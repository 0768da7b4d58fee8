"""The suites read and judge as they say, without their packages and without a network."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance import environments
from conformance.outcomes import Outcome, Unavailable
from conformance.suites import bfcl, json_schema, langchain, open_responses
from conformance.suites.open_responses import Exchange
from toolwire.dialects import NAMES
from toolwire.types import Message, Response

ROOT = Path(__file__).resolve().parents[2]
CASE = {"id": "c", "wants": ["output", "completed"]}
DONE = Exchange({"status": "completed", "output": [{"type": "message"}]}, [])


def test_a_response_passes_that_has_what_the_case_wants() -> None:
    assert open_responses.outcome("gemini", CASE, DONE, []) == Outcome("gemini", "c", "passed")


@pytest.mark.parametrize(
    ("each", "complaints", "detail"),
    [
        (DONE, ["response: text: Field required"], "response: text: Field required"),
        (Exchange({"status": "incomplete", "output": []}, []), [], "wanted: output; wanted: completed"),
        (Exchange({}, [], "HTTP 500: no"), ["response: id: Field required"], "HTTP 500: no"),
    ],
)
def test_a_response_fails_with_the_complaint(each: Exchange, complaints: list[str], detail: str) -> None:
    assert open_responses.outcome("gemini", CASE, each, complaints) == Outcome("gemini", "c", "failed", detail)


def test_the_stream_of_a_call_needs_all_of_its_events() -> None:
    case = {"id": "c", "wants": ["function_call events"]}
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "item": {"type": "function_call"}},
        {"type": "response.function_call_arguments.delta"},
        {"type": "response.function_call_arguments.done"},
        {"type": "response.output_item.done", "item": {"type": "function_call"}},
    ]
    assert open_responses.outcome("x", case, Exchange({}, events), []).status == "passed"
    for missing in range(len(events)):
        fewer = [event for index, event in enumerate(events) if index != missing]
        assert open_responses.outcome("x", case, Exchange({}, fewer), []).status == "failed"
    events[3]["item"]["type"] = "message"
    assert open_responses.outcome("x", case, Exchange({}, events), []).status == "failed"


def test_the_report_of_pytest_is_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="x.TestOllama" name="a"/>'
        '<testcase classname="x.TestGoogle" name="b"><failure message="no  calls">trace</failure></testcase>'
        '<testcase classname="x.TestGoogle" name="c"><skipped type="pytest.skip" message="no key"/></testcase>'
        '<testcase classname="x.TestGoogle" name="d"><skipped type="pytest.xfail" message="known"/></testcase>'
        "</testsuite></testsuites>"
    )
    assert list(langchain._read(report, "gemini")) == [
        Outcome("langchain-ollama -> gemini", "a", "passed"),
        Outcome("langchain-google-genai -> gemini", "b", "failed", "no calls"),
        Outcome("langchain-google-genai -> gemini", "c", "skipped", "no key"),
        Outcome("langchain-google-genai -> gemini", "d", "failed", "known"),
    ]


def test_a_schema_of_the_suite_judges_an_argument() -> None:
    tests = [
        {"description": "a number", "data": 1, "valid": True},
        {"description": "a word", "data": "x", "valid": False},
        {"description": "wrong", "data": "x", "valid": True},
    ]
    group = {"description": "numbers", "schema": {"type": "integer"}, "tests": tests}
    right, word, wrong = json_schema.judge("optional/type", group)
    assert right == Outcome("optional", "optional/type: numbers: a number", "passed")
    assert word.status == "passed"
    assert (wrong.status, wrong.detail) == ("failed", "the value is refused")


def test_a_schema_that_is_refused_fails_all_of_its_cases() -> None:
    tests = [{"description": "any", "data": 1, "valid": True}]
    group = {"description": "remote", "schema": {"$ref": "https://example.org/x.json"}, "tests": tests}
    [outcome] = json_schema.judge("refRemote", group)
    assert outcome.subject == "required"
    assert outcome.detail.startswith("the schema is refused: ")


def test_absent_data_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOOLWIRE_SUITES", str(tmp_path))
    with pytest.raises(Unavailable, match="set TOOLWIRE_SUITES"):
        json_schema.run(short=True)


FUNCTION = {
    "name": "math.add",
    "description": "Add",
    "parameters": {
        "type": "dict",
        "properties": {"xs": {"type": "tuple", "items": {"type": "float"}}, "t": {"type": "any"}},
    },
}


def test_a_function_of_bfcl_becomes_a_tool() -> None:
    properties = {"xs": {"type": "array", "items": {"type": "number"}}, "t": {"type": "string"}}
    tool = {"name": "math_add", "description": "Add", "parameters": {"type": "object", "properties": properties}}
    assert bfcl._as_tool(FUNCTION) == tool
    assert bfcl._as_call("math.add", {"a": [1, 2], "b": ["", 3], "c": []}) == ("math_add", {"a": 1, "b": "", "c": []})


def test_a_function_is_declared_and_a_call_is_sent_on_every_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(body: dict[str, Any]) -> str | None:
        return "no contents" if "contents" in body else None

    monkeypatch.setattr(bfcl, "REQUESTS", dict.fromkeys(NAMES, judge))
    outcomes = list(bfcl.declare("f", bfcl._as_tool(FUNCTION)))
    assert [outcome.subject for outcome in outcomes if outcome.status == "failed"] == ["functions -> gemini"]
    calls: list[tuple[str, dict[str, Any]]] = [("add", {"xs": [1.5, 2], "t": "ü\n"}), ("add", {})]
    assert [outcome.status for outcome in bfcl.answer("a", calls)] == ["passed"] * 10


def test_calls_that_change_or_raise_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_calls(*_: Any) -> Response:
        return Response.of(Message("assistant", "Hi."))

    monkeypatch.setattr(bfcl, "_as_body", lose_calls)
    monkeypatch.setattr(bfcl, "_as_stream", None)
    body, stream, *_ = bfcl.answer("a", [("add", {"x": 1})])
    assert (body.status, body.detail) == ("failed", "[('add', {'x': 1})] became []")
    assert stream.detail.startswith("TypeError")


def test_packages_that_cannot_be_installed_are_a_reason(tmp_path: Path) -> None:
    fails = [sys.executable, "-c", "import sys; sys.exit('no route to the registry')"]
    with pytest.raises(Unavailable, match="cannot be installed: no route to the registry"):
        environments._install(fails, tmp_path)


def test_an_environment_is_made_once_for_its_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "conformance-x.txt").write_text("a==1\n")
    made: list[list[str]] = []

    def install(command: list[str], folder: Path) -> None:
        assert folder == tmp_path
        made.append(command)
        (tmp_path / ".venv-conformance-x").mkdir(exist_ok=True)

    monkeypatch.setattr(environments, "_install", install)
    assert environments.python_of("x") == tmp_path / ".venv-conformance-x" / "bin" / "python"
    environments.python_of("x")
    assert [command[-1] for command in made] == ["alone"]


@pytest.mark.parametrize("file", sorted((ROOT / "requirements").glob("conformance-*.in")), ids=lambda file: file.stem)
def test_the_packages_of_a_suite_are_pinned_by_hash(file: Path) -> None:
    lines = file.with_suffix(".txt").read_text("utf-8").splitlines()
    written = [line for line in lines if line and not line.lstrip().startswith("#")]
    odd = [line for line in written if not re.match(r"[\w.-]+==|    --hash=sha256:[0-9a-f]{64}( \\)?$", line)]
    assert odd == [], "a requirement file names no index and no place"
    pinned = {line.partition("==")[0] for line in written if "==" in line}
    assert set(file.read_text("utf-8").split()) <= pinned, "run `make lock`"
