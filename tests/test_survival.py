"""Tools survive: A to B to A keeps every declaration, call and result, their links and their order.

A declaration may come back in other words only where a loss names that very tool (a schema keyword that the
target cannot say), and may be away only where a loss says that the choice took it. Calls and results have no
excuse, but for words: a target that holds one text joins the texts of a result, and those of its documents.
"""

import re
from typing import Any

import pytest

from tests.wires import DIALECTS, PAIRS, requests_of
from toolwire import Document, Loss, Request, Text, Tool, ToolCall, ToolResult
from toolwire.encoding.repair import repair

STUB = re.compile(r"\[(image|document|audio) \d+ attached below\]")
NAMES_ONLY = {"$schema", "$id", "$comment"}
NOTHING = {"type": "object", "properties": {}}


def declarations(request: Request) -> dict[str, Any]:
    """Give what is declared: names, descriptions and schemas, without what only names a schema."""
    return {
        tool.name: (
            tool.description or "",
            {key: value for key, value in (tool.parameters or NOTHING).items() if key not in NAMES_ONLY},
        )
        for tool in request.tools
        if isinstance(tool, Tool)
    }


def exchanges(request: Request, kinds: tuple[type, ...] = (Text,)) -> list[Any]:
    """Give the calls and results in order, each result with the number of the call that it answers.

    The words of a result are those of parts of these kinds.
    """
    numbers: dict[str | None, int] = {}
    seen: list[Any] = []
    for message in repair(request.messages):
        for part in message.parts:
            if isinstance(part, ToolCall):
                numbers[part.id] = len(seen)
                seen.append(("call", part.name, part.arguments))
            elif isinstance(part, ToolResult):
                seen.append(("result", numbers.get(part.tool_call_id), words(part, kinds), part.is_error))
    return seen


def words(result: ToolResult, kinds: tuple[type, ...]) -> str:
    """Give a result's words, without what stands in for media that had to move, and without white space."""
    parts: Any = [Text(result.content)] if isinstance(result.content, str) else result.content
    spoken = [part.text or "" for part in parts if type(part) in kinds]
    return "".join("".join(STUB.sub("", text).split()) for text in spoken)


def excused(request: Request, losses: tuple[Loss, ...]) -> set[str]:
    """Name the tools that a loss names."""
    named = {loss.path.partition("]")[0] + "]" for loss in losses if loss.path.startswith("tools[")}
    chosen = any(loss.path.startswith("tool_choice") for loss in losses)
    return {
        tool.name
        for place, tool in enumerate(request.tools)
        if isinstance(tool, Tool) and (chosen or f"tools[{place}]" in named)
    }


@pytest.mark.corpus
@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.row("F21")
def test_tools_survive_the_way_there_and_back(source: str, target: str, corpus: Any) -> None:
    assert corpus
    here, there = DIALECTS[source], DIALECTS[target]
    gone: list[Any] = []
    kept = 0
    for recording, body in requests_of(source):
        before = here.decode_request(body, recording.path)
        out = there.encode_request(before)
        between = there.decode_request(out.body, out.path)
        back = here.encode_request(between)
        after = here.decode_request(back.body, back.path)
        excuses = excused(before, out.losses) | excused(between, back.losses)
        there_after = declarations(after)
        for name, declared in declarations(before).items():
            kept += name not in excuses
            if there_after.get(name) != declared and name not in excuses:
                gone.append((recording.name, name, declared, there_after.get(name)))
        kept += len(exchanges(before))
        if exchanges(after) not in (exchanges(before), exchanges(before, (Text, Document))):
            gone.append((recording.name, exchanges(before), exchanges(after)))
    assert kept > 0
    assert gone == [], f"{len(gone)} changed, {kept} kept"
