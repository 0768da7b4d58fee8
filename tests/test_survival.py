"""Tools survive: A to B to A keeps every declaration, call and result, their links and their order.

A declaration may come back in other words only where a loss said so (a target that cannot say a schema keyword).
"""

import re
from typing import Any

import pytest

from tests.wires import DIALECTS, PAIRS, requests_of
from toolwire import Request, Text, Tool, ToolCall, ToolResult
from toolwire.repair import repair


def declarations(request: Request) -> list[Any]:
    """Give what is declared: names, descriptions and schemas."""
    return [
        (tool.name, tool.description or "", tool.parameters or {})
        for tool in request.tools
        if isinstance(tool, Tool)
    ]


def exchanges(request: Request) -> list[Any]:
    """Give the calls and results in order, each result with the number of the call that it answers."""
    numbers: dict[str | None, int] = {}
    seen: list[Any] = []
    for message in repair(request.messages):
        for part in message.parts:
            if isinstance(part, ToolCall):
                numbers[part.id] = len(seen)
                seen.append(("call", part.name, part.arguments))
            elif isinstance(part, ToolResult):
                seen.append(("result", numbers.get(part.tool_call_id), words(part), part.is_error))
    return seen


def words(result: ToolResult) -> str:
    """Give a result's text, without what stands in for media that had to move."""
    if isinstance(result.content, str):
        return STUB.sub("", result.content)
    return "".join(STUB.sub("", part.text) for part in result.content if isinstance(part, Text))


STUB = re.compile(r"\[(image|document|audio) \d+ attached below\]")


@pytest.mark.corpus
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_tools_survive_the_way_there_and_back(source: str, target: str, corpus: Any) -> None:
    assert corpus
    here, there = DIALECTS[source], DIALECTS[target]
    gone: list[str] = []
    compared = 0
    for recording, body in requests_of(source):
        before = here.decode_request(body, recording.path)
        out = there.encode_request(before)
        back = here.encode_request(there.decode_request(out.body, out.path))
        after = here.decode_request(back.body, back.path)
        compared += len(before.tools) + len(exchanges(before))
        if exchanges(before) != exchanges(after):
            gone.append(f"{recording.name}: {exchanges(before)} became {exchanges(after)}"[:600])
        concepts = {loss.concept.partition("_")[0] for loss in (*out.losses, *back.losses)}
        if declarations(before) != declarations(after) and not concepts & {"schema", "custom"}:
            gone.append(f"{recording.name}: {declarations(before)} became {declarations(after)}"[:600])
    assert compared > 0
    assert not gone, f"{len(gone)} recordings changed:\n" + "\n".join(gone[:5])
