"""What a scenario wants of a request, against what the request says."""

from collections.abc import Iterator

from toolwire.testing.steps import Expect
from toolwire.types import Message, Request, Text, ToolCall, ToolResult


def unmet(expected: Expect, request: Request) -> str | None:
    """Say the first thing that a request does not say, or None."""
    return next(_unmet(expected, request), None)


def _unmet(expected: Expect, request: Request) -> Iterator[str]:
    said = {
        "the last message": (expected.last, _words(request.messages[-1]) if request.messages else ""),
        "the system prompt": (expected.system, _system(request)),
    }
    for what, (wanted, given) in said.items():
        if wanted is not None and wanted not in given:
            yield f"{what} must hold {wanted!r}, not {given[:200]!r}"
    if expected.model is not None and request.model != expected.model:
        yield f"the model must be {expected.model!r}, not {request.model!r}"
    offered = [tool.name for tool in request.tools if hasattr(tool, "name")]
    lacking = [name for name in expected.tools or () if name not in offered]
    if lacking:
        yield f"the tools {', '.join(lacking)} must be offered; there are {', '.join(offered) or 'none'}"
    if expected.messages is not None and len(request.messages) != expected.messages:
        yield f"there must be {expected.messages} messages, not {len(request.messages)}"
    yield from _unmet_results(expected, request)
    yield from _unmet_condition(expected, request)


def _unmet_results(expected: Expect, request: Request) -> Iterator[str]:
    brought = results_of(request.messages)
    for name, wanted in (expected.results or {}).items():
        texts = [words_of(result) for known, result in brought if known == name]
        if not texts:
            names = ", ".join(known for known, _ in brought)
            yield f"there must be a result of {name}; there is {names or 'none'}"
        elif not any(wanted in text for text in texts):
            yield f"the result of {name} must hold {wanted!r}, not {texts[0][:200]!r}"


def _unmet_condition(expected: Expect, request: Request) -> Iterator[str]:
    if expected.where is None:
        return
    try:
        if not expected.where(request):
            yield "the request is not as `where` wants it"
    except AssertionError as problem:
        yield f"the request is not as `where` wants it: {problem}"


def results_of(messages: object) -> list[tuple[str, ToolResult]]:
    """List the results since the model spoke last, each with the name of its tool."""
    names: dict[str | None, str] = {}
    found: list[tuple[str, ToolResult]] = []
    for message in messages:  # type: ignore[attr-defined]
        if message.role == "assistant":
            found = []
        for part in message.parts:
            if type(part) is ToolCall:
                names[part.id] = part.name
            elif type(part) is ToolResult:
                found.append((part.name or names.get(part.tool_call_id) or "", part))
    return found


def words_of(result: ToolResult) -> str:
    """Give the words of a result."""
    if isinstance(result.content, str):
        return result.content
    return "".join(part.text for part in result.content if type(part) is Text)


def _words(message: Message) -> str:
    results = [words_of(part) for part in message.parts if type(part) is ToolResult]
    return message.text + "".join(results)


def _system(request: Request) -> str:
    given = request.system
    first = given if isinstance(given, str) else "".join(p.text for p in given or () if type(p) is Text)
    return first + "".join(m.text for m in request.messages if m.role in {"system", "developer"})
