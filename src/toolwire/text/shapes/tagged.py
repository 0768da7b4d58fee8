"""Our own protocol as one of the formats: blocks of `~~~tool_call`."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.text.cursor import MarkSearch, ReadSteps
from toolwire.text.rows import Row
from toolwire.text.tagged.blocks import read_block, scanner_for
from toolwire.text.tagged.escaping import write_call
from toolwire.text.wrapped_arguments import unwrap_call
from toolwire.types import ToolCall

_NAME = re.compile(r'"name"\s*:\s*"([^"\\\n]+)"')
_EVERYTHING = MarkSearch((), streams_text=True)


def begins(row: Row) -> tuple[str, ...]:
    """Return no marks: a block begins with a line."""
    del row
    return ()


def run(stream: Any) -> ReadSteps:
    """Pass the whole text to the scanner of the protocol."""
    scanner = scanner_for(stream.offer, (), stream.given)
    stream.set_text_handler(lambda text: _add_items(stream, scanner.feed(text)))
    yield _EVERYTHING
    _add_items(stream, scanner.close(whole=stream.whole))


def _add_items(stream: Any, items: Sequence[Any]) -> None:
    for item in items:
        call = None if isinstance(item, str) else _call_of(stream, item)
        if call is None:
            stream.collector.add_text(item if isinstance(item, str) else item.text)
        else:
            stream.collector.add_call(call)


def _call_of(stream: Any, block: Any) -> ToolCall | None:
    """Return the call of a block, or None if its tool was not offered."""
    result = read_block(block, stream.collector.builder, stream.offer)
    if isinstance(result, ToolCall):
        return unwrap_call(result, stream.state.tool(result.name), block.text)
    match = _NAME.search(block.body)
    name = result.name or (match[1] if match is not None else None)
    if name is None or not stream.state.is_offered(name):
        return None
    return replace(result.as_call(), name=name)


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls, each as a block."""
    del row
    return [write_call(replace(call, arguments=arguments, raw=None, custom=False)) for call, arguments in calls]
