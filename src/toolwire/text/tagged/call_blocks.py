"""The block that a call was read from.

The call keeps the block while both have the same meaning, so that the block can be written back unchanged.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from toolwire.encoding.ledger import made_by, spelling_of
from toolwire.text.calls import CallBuilder, CallError, Offer
from toolwire.text.tagged.blocks import read_block
from toolwire.text.tagged.scanner import Block, ScannedItem, Scanner
from toolwire.types import Message, Opaque, ToolCall
from toolwire.types.spelling.text_tagged import TextCallSpelling
from toolwire.wire.names import fingerprint

DIALECT = "text-tagged"
_OTHER_FORMS = "text-format"


class BlockReader:
    """Reads a text in the protocol. A malformed block becomes a call that cannot run.

    With `appends_calls`, the calls follow all other parts of the answer, so each call is marked as the start of a text.
    """

    def __init__(
        self, scanner: Scanner, builder: CallBuilder, offer: Offer | None, *, appends_calls: bool = False
    ) -> None:
        self._scanner = scanner
        self._builder = builder
        self._offer = offer
        self._is_text_start = True
        self._appends_calls = appends_calls

    def feed(self, text: str) -> list[str | ToolCall]:
        """Return the items of a piece of the text."""
        return self._read_items(self._scanner.feed(text))

    def close(self, *, whole: bool = True) -> list[str | ToolCall]:
        """Return the remaining items. Pass `whole=False` if the answer was cut off."""
        return self._read_items(self._scanner.close(whole=whole))

    def _read_items(self, scanned: Iterable[ScannedItem]) -> list[str | ToolCall]:
        items: list[str | ToolCall] = []
        for item in scanned:
            items.append(self._call_of(item) if isinstance(item, Block) else item)
            self._is_text_start = self._appends_calls
        return items

    def _call_of(self, block: Block) -> ToolCall:
        result = read_block(block, self._builder, self._offer)
        call = result.as_call() if isinstance(result, CallError) else result
        spelling = TextCallSpelling(
            block=block.text,
            meaning=_meaning(call),
            is_first=self._is_text_start,
            has_no_id=call.id is not None and call.id not in block.text,
        )
        return replace(call, opaque=Opaque(DIALECT, {}, spelling=spelling))


def with_block(call: ToolCall, block: str) -> ToolCall:
    """Return a call of another text format with the text that it was read from."""
    spelling = TextCallSpelling(block=block, meaning=_meaning(call))
    return replace(call, opaque=Opaque(_OTHER_FORMS, {}, spelling=spelling))


def without_block(call: ToolCall) -> ToolCall:
    """Return a call of another text format without its text, as the wire itself would have returned it."""
    return replace(call, opaque=None) if made_by(call.opaque, _OTHER_FORMS) else call


def _meaning(call: ToolCall) -> str:
    free_text = call.raw if call.error is not None or call.custom else None
    return fingerprint((call.id, call.name, call.plain_arguments, call.complete, call.error is None, free_text))


def block_of(call: ToolCall) -> str | None:
    """Return the block that a call came from, if the call still has the same meaning."""
    spelling = spelling_of(call.opaque, TextCallSpelling)
    return spelling.block if spelling.block is not None and spelling.meaning == _meaning(call) else None


def begins_text(call: ToolCall) -> bool:
    """Return True if the call was the first item of its text."""
    return spelling_of(call.opaque, TextCallSpelling).is_first


def hides_id(call: ToolCall) -> bool:
    """Return True if the call's id was derived: the model did not write it and does not see it."""
    return spelling_of(call.opaque, TextCallSpelling).has_no_id and block_of(call) is not None


def calls_in_text(message: Message) -> bool:
    """Return True if `message` has calls that were read in its text.

    >>> from toolwire import Message, ToolCall, text_tagged
    >>> text_tagged.calls_in_text(Message("assistant", [ToolCall("call_1", "ping", {})]))
    False
    """
    return any(isinstance(part, ToolCall) and made_by(part.opaque, DIALECT) for part in message.parts)
