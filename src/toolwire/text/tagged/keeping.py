"""The block that a call was read from: the call keeps it, for as long as the block says what the call says."""

from collections.abc import Iterable

from msgspec.structs import replace

from toolwire.encoding.ledger import made_by, spelling_of
from toolwire.text.calls import Answer, CallError, Offer
from toolwire.text.tagged.blocks import read_block
from toolwire.text.tagged.scanner import Block, Found, Scanner
from toolwire.types import Message, Opaque, ToolCall
from toolwire.types.spelling.text_tagged import TextCallSpelling
from toolwire.wire.names import fingerprint

DIALECT = "text-tagged"


class BlockListener:
    """Hears a text: its words, and calls; a block that is no call is one that does not run, and says why.

    Calls that are told `late` stand apart from the text that they were in.
    """

    def __init__(self, scanner: Scanner, answer: Answer, offer: Offer | None, *, late: bool = False) -> None:
        self._scanner = scanner
        self._answer = answer
        self._offer = offer
        self._begins = True
        self._late = late

    def feed(self, text: str) -> list[str | ToolCall]:
        """Give what is heard with a piece of the text."""
        return self._hear(self._scanner.feed(text))

    def close(self, *, whole: bool = True) -> list[str | ToolCall]:
        """Give what is left; an answer that was cut off is not `whole`."""
        return self._hear(self._scanner.close(whole=whole))

    def _hear(self, found: Iterable[Found]) -> list[str | ToolCall]:
        heard: list[str | ToolCall] = []
        for item in found:
            heard.append(self._call_of(item) if isinstance(item, Block) else item)
            self._begins = self._late
        return heard

    def _call_of(self, block: Block) -> ToolCall:
        read = read_block(block, self._answer, self._offer)
        call = read.as_call() if isinstance(read, CallError) else read
        spelling = TextCallSpelling(
            block=block.text,
            meaning=_meaning(call),
            is_first=self._begins,
            has_no_id=call.id is not None and call.id not in block.text,
        )
        return replace(call, opaque=Opaque(DIALECT, {}, spelling=spelling))


def _meaning(call: ToolCall) -> str:
    free = call.raw if call.error is not None or call.custom else None
    return fingerprint((call.id, call.name, call.plain_arguments, call.complete, call.error is None, free))


def block_of(call: ToolCall) -> str | None:
    """Return the block that a call was read from, if it still means the call."""
    spelling = spelling_of(call.opaque, TextCallSpelling)
    return spelling.block if spelling.block is not None and spelling.meaning == _meaning(call) else None


def begins_text(call: ToolCall) -> bool:
    """Return True if a text began with the call."""
    return spelling_of(call.opaque, TextCallSpelling).is_first


def hides_id(call: ToolCall) -> bool:
    """Return True if the model did not write the call's id, and does not see it."""
    return spelling_of(call.opaque, TextCallSpelling).has_no_id and block_of(call) is not None


def calls_in_text(message: Message) -> bool:
    """Whether a message has calls that were read in its text, where its model writes them."""
    return any(isinstance(part, ToolCall) and made_by(part.opaque, DIALECT) for part in message.parts)
