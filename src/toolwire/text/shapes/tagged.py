"""Our own protocol, as one format among others: blocks of `~~~tool_call`, read and written by `text_tagged`."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.text.cursor import MarkSearch, ReadSteps
from toolwire.text.rows import Row
from toolwire.text.tagged.blocks import read_block, scanner_for
from toolwire.text.tagged.escaping import write_call
from toolwire.types import ToolCall

_NAME = re.compile(r'"name"\s*:\s*"([^"\\\n]+)"')
_EVERYTHING = MarkSearch((), streams_text=True)


def begins(row: Row) -> tuple[str, ...]:
    """Give no marks: a block begins with a line."""
    del row
    return ()


def run(stream: Any) -> ReadSteps:
    """Let the scanner of the protocol read everything."""
    scanner = scanner_for(stream.offer, (), stream.given)
    stream.set_text_handler(lambda text: _tell(stream, scanner.feed(text)))
    yield _EVERYTHING
    _tell(stream, scanner.close(whole=stream.whole))


def _tell(stream: Any, found: Sequence[Any]) -> None:
    for item in found:
        call = None if isinstance(item, str) else _call_of(stream, item)
        if call is None:
            stream.collector.add_text(item if isinstance(item, str) else item.text)
        else:
            stream.collector.add_call(call)


def _call_of(stream: Any, block: Any) -> ToolCall | None:
    """Give the call of a block; None where it is of no tool that was offered."""
    read = read_block(block, stream.collector.builder, stream.offer)
    if isinstance(read, ToolCall):
        return read
    found = _NAME.search(block.body)
    name = read.name or (found[1] if found is not None else None)
    if name is None or not stream.state.is_offered(name):
        return None
    return replace(read.as_call(), name=name)


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls, a block each."""
    del row
    return [write_call(replace(call, arguments=given, raw=None, custom=False)) for call, given in calls]
