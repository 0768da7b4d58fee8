"""The block that a call was read from: the call keeps it, for as long as the block says what the call says."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.ledger import form_of, made_by
from toolwire.text.calls import CallBuilder, CallError, Offer
from toolwire.text.tagged.blocks import read_block
from toolwire.text.tagged.scanner import Block, ScannedItem, Scanner
from toolwire.types import Message, Opaque, ToolCall
from toolwire.wire.names import fingerprint

DIALECT = "text-tagged"


class BlockReader:
    """Hears a text: its words, and calls; a block that is no call is one that does not run, and says why.

    Calls that are told `late` stand apart from the text that they were in.
    """

    def __init__(self, scanner: Scanner, builder: CallBuilder, offer: Offer | None, *, late: bool = False) -> None:
        self._scanner = scanner
        self._builder = builder
        self._offer = offer
        self._begins = True
        self._late = late

    def feed(self, text: str) -> list[str | ToolCall]:
        """Give what is heard with a piece of the text."""
        return self._hear(self._scanner.feed(text))

    def close(self, *, whole: bool = True) -> list[str | ToolCall]:
        """Give what is left; an answer that was cut off is not `whole`."""
        return self._hear(self._scanner.close(whole=whole))

    def _hear(self, found: Iterable[ScannedItem]) -> list[str | ToolCall]:
        heard: list[str | ToolCall] = []
        for item in found:
            heard.append(self._call_of(item) if isinstance(item, Block) else item)
            self._begins = self._late
        return heard

    def _call_of(self, block: Block) -> ToolCall:
        read = read_block(block, self._builder, self._offer)
        call = read.as_call() if isinstance(read, CallError) else read
        form: dict[str, Any] = {"block": block.text, "says": _meaning(call)}
        if self._begins:
            form["begins"] = True
        if call.id is not None and call.id not in block.text:
            form["made"] = True
        return replace(call, opaque=Opaque(DIALECT, {}, form))


def _meaning(call: ToolCall) -> str:
    free = call.raw if call.error is not None or call.custom else None
    return fingerprint((call.id, call.name, call.plain_arguments, call.complete, call.error is None, free))


def block_of(call: ToolCall) -> str | None:
    """Give the block that a call came from, if it still says the same."""
    form = form_of(call.opaque, DIALECT)
    block = form.get("block")
    return block if type(block) is str and form.get("says") == _meaning(call) else None


def begins_text(call: ToolCall) -> bool:
    """Whether a text began with the call."""
    return "begins" in form_of(call.opaque, DIALECT)


def hides_id(call: ToolCall) -> bool:
    """Whether the model did not write the call's id, and does not see it."""
    return "made" in form_of(call.opaque, DIALECT) and block_of(call) is not None


def calls_in_text(message: Message) -> bool:
    """Whether a message has calls that were read in its text, where its model writes them."""
    return any(isinstance(part, ToolCall) and made_by(part.opaque, DIALECT) for part in message.parts)
