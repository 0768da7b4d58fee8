"""The published cases: each as a whole, by characters, in pieces, and cut at each place."""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.text.offers import SHAPES, cuts
from toolwire.text import format, names
from toolwire.text.checking import Expected, cases_of, check, own_parser, tools_of_cases

REPOSITORY = Path(__file__).resolve().parents[2]
CASES = REPOSITORY / "src" / "toolwire" / "text" / "cases"
KINDS = 25
FORMATS = 40
SOME = [pytest.param(name, id=name) for name in SHAPES.values() if cases_of(name)]
ALL = [*SOME, *(pytest.param(name, id=name, marks=pytest.mark.slow) for name in names() if name not in SHAPES.values())]


def test_there_are_cases_of_every_kind_for_every_format() -> None:
    kinds = {name: {case.kind for case in cases_of(name)} for name in names()}
    assert len(kinds) >= FORMATS
    assert {name: len(found) for name, found in kinds.items() if len(found) < KINDS} == {}


def test_the_files_are_in_step_with_what_writes_them() -> None:
    command = [sys.executable, str(REPOSITORY / "scripts" / "text_cases.py"), "--check"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.parametrize("name", ALL)
def test_every_case_as_a_whole(name: str, tally: Counter[str]) -> None:
    assert [str(found) for found in check(name)] == []
    tally["cases of text formats, read as a whole"] += len(cases_of(name))


@pytest.mark.parametrize("name", ALL)
def test_every_case_by_characters(name: str) -> None:
    assert [str(found) for found in check(name, own_parser(name, list))] == []


@pytest.mark.parametrize("name", ALL)
def test_the_line_breaks_of_windows_are_line_breaks(name: str) -> None:
    for case in cases_of(name):
        if case.kind in {"single", "parallel"}:
            response = format(name).decode(case.text.replace("\n", "\r\n"), tools_of_cases())
            assert [{"name": call.name, "arguments": call.arguments} for call in response.tool_calls] == [
                {"name": call["name"], "arguments": call["arguments"]} for call in case.expected.calls
            ]


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_every_case_in_random_pieces(name: str, tally: Counter[str]) -> None:
    chance = random.Random(name)  # noqa: S311 - the same every time
    for _ in range(50):
        assert [str(found) for found in check(name, own_parser(name, lambda text: list(cuts(text, chance))))] == []
        tally["cases of text formats, read in random pieces"] += len(cases_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_a_case_cut_at_any_place_offers_no_call_that_it_has_not(name: str, tally: Counter[str]) -> None:
    each, tools = format(name), tools_of_cases()
    for case in cases_of(name):
        wanted = [json.dumps([call["name"], call["arguments"]]) for call in case.expected.calls]
        known = -1
        for size in range(min(len(case.text), 700) + 1):
            response = each.decode(case.text[:size], tools, whole=False)
            got = [json.dumps([call.name, call.arguments]) for call in response.tool_calls if call.runs]
            assert all(got.count(call) <= wanted.count(call) for call in got), (case.kind, case.text[:size])
            assert len(got) >= known or not case.expected.calls, (case.kind, case.text[:size])
            known = len(got) if case.expected.broken == [] else 0
            tally["cuts of text formats"] += 1


def test_another_parser_is_judged_by_the_same_cases() -> None:
    def naive(text: str, tools: list[dict[str, Any]]) -> Expected:
        del tools
        return Expected(content=text)

    found = list(check("hermes", naive))
    assert {difference.field for difference in found} == {"content", "thinking", "calls", "broken"}
    kinds = {case.kind for case in cases_of("hermes")} - {difference.case.kind for difference in found}
    assert kinds >= {"none", "an unknown tool", "cut in the name"}
    assert "parallel: calls: expected" in "\n".join(map(str, found))


def test_cases_say_where_engines_differ(tally: Counter[str]) -> None:
    told = [(name, case) for name in names() for case in cases_of(name) if case.issue]
    places = {case.issue.partition(":")[0] for _, case in told}
    assert all("#" in place or "." in place for place in places), "each says an issue's number, or a file of tests"
    assert len({case.kind for _, case in told}) >= 40
    engines = {case.issue.split("/")[1].split("#")[0].split()[0] for _, case in told if "/" in case.issue}
    assert engines >= {"vllm", "sglang", "llama.cpp", "ollama", "lmdeploy", "mlx-lm"}
    tally["cases of text formats where engines differ"] = len(told)
