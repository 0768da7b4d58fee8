"""Our own protocol, as one format among others: blocks of `~~~tool_call`, read and written by `text_tagged`."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.text.cursor import Find, Reading
from toolwire.text.rows import Row
from toolwire.text_tagged.calls import CallError
from toolwire.text_tagged.reading import read_block, scanner_for
from toolwire.text_tagged.writing import write_call
from toolwire.types import ToolCall

_EVERYTHING = Find((), tells=True)


def begins(row: Row) -> tuple[str, ...]:
    """Give no marks: a block begins with a line."""
    del row
    return ()


def run(stream: Any) -> Reading:
    """Let the scanner of the protocol read everything."""
    scanner = scanner_for(stream.offer, (), stream.given)
    stream.tells(lambda text: _tell(stream, scanner.feed(text)))
    yield _EVERYTHING
    _tell(stream, scanner.close(whole=stream.whole))


def _tell(stream: Any, found: Sequence[Any]) -> None:
    for item in found:
        read = None if isinstance(item, str) else read_block(item, stream.teller.answer, stream.offer)
        if read is None or (isinstance(read, CallError) and read.code == "unknown_tool"):
            stream.teller.say(item if isinstance(item, str) else item.text)
        else:
            stream.teller.call(read.as_call() if isinstance(read, CallError) else read)


def write(row: Row, calls: Sequence[ToolCall], arguments: Sequence[dict[str, Any]]) -> list[str]:
    """Write calls, a block each."""
    del row
    pairs = zip(calls, arguments, strict=True)
    return [write_call(replace(call, arguments=given, raw=None, custom=False)) for call, given in pairs]
