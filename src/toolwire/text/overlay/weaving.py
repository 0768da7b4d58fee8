"""Words and calls as parts, and as the text that they stand in on the wire: each from the other.

Rules of this file:
- A text that holds blocks becomes parts in their order: words, calls, words. Woven together again, they give
  the text that they came from, character by character, with what else its wire said of it.
- A call keeps the block that it came from, for as long as the block says what the call says.
- Where a part of a wire's text begins is marked, so that texts which were apart stay apart.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger, form_of, made_by
from toolwire.text.calls import Answer, CallError, Offer
from toolwire.text.tagged.blocks import read_block
from toolwire.text.tagged.forms import Form
from toolwire.text.tagged.scanner import Block, Found
from toolwire.text.tagged.writing import Escaper, escape_quotes, write_call
from toolwire.types import Message, Opaque, Part, Text, ToolCall
from toolwire.wire.names import fingerprint

DIALECT = "text-tagged"
CONTINUES = "continues"
WORDED = "worded"
QUOTED = "a line that would begin a call is marked with a backslash"


def call_of(block: Block, answer: Answer, offer: Offer | None, *, begins: bool) -> ToolCall:
    """Give the call that a block stands for, with the block; what is wrong with it is the call's error."""
    read = read_block(block, answer, offer)
    call = read.as_call() if isinstance(read, CallError) else read
    form: dict[str, Any] = {"block": block.text, "says": _meaning(call)}
    if begins:
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


def calls_in_text(message: Message) -> bool:
    """Whether a message has calls that were read in its text, where its model writes them."""
    return any(isinstance(part, ToolCall) and made_by(part.opaque, DIALECT) for part in message.parts)


def hides_id(call: ToolCall) -> bool:
    """Whether the model did not write the call's id, and does not see it."""
    return "made" in form_of(call.opaque, DIALECT) and block_of(call) is not None


def says_more(part: Text) -> bool:
    """Whether its wire said more of a text than its words."""
    opaque = part.opaque
    return bool(part.citations or part.cache or (opaque is not None and (opaque.value or opaque.form)))


def rest_of(part: Text, dialect: str, words: str = "") -> Text:
    """Give the last piece of a text: it carries what else the wire said of the whole."""
    opaque = part.opaque or Opaque(dialect, {})
    form = {**(opaque.form or {}), CONTINUES: True}
    return replace(part, text=words, opaque=Opaque(opaque.dialect, opaque.value, form))


def split(part: Text, found: Sequence[Found], dialect: str, answer: Answer, offer: Offer | None) -> list[Part]:
    """Give the parts of a text in which blocks were found; a text without one is a part as it is."""
    if not any(isinstance(item, Block) for item in found):
        return [part]
    pieces: list[Part] = []
    for item in found:
        if isinstance(item, Block):
            pieces.append(call_of(item, answer, offer, begins=not pieces))
        else:
            pieces.append(Text(item, opaque=None if pieces or part.opaque is None else Opaque(dialect, {})))
    if says_more(part):
        last = pieces.pop() if len(pieces) > 1 and type(pieces[-1]) is Text else None
        pieces.append(rest_of(part, dialect, last.text if isinstance(last, Text) else ""))
    return pieces


def _is(left: object, right: object) -> bool:
    return left is right


def _opaque_of(part: Part) -> Opaque | None:
    return part if isinstance(part, Opaque) else part.opaque


class Weaver:
    """Writes the parts of messages into text; losses go to the ledger, at the place where it stands."""

    def __init__(self, ledger: Ledger, forms: tuple[Form, ...]) -> None:
        self.ledger = ledger
        self.forms = forms

    def weave(self, message: Message, *, verbatim: bool, keeps_native: bool) -> Message:
        """Give a message whose calls stand in its text; `verbatim` words are not looked at."""
        own = made_by(message.opaque, self.ledger.dialect)
        if type(message.content) is str:
            said = message.content if verbatim else self.escape(message.content)
            return message if said == message.content else replace(message, content=said)
        parts = self._weave_parts(message.parts, own, verbatim=verbatim, keeps_native=keeps_native)
        if len(parts) == len(message.parts) and all(map(_is, parts, message.parts)):
            return message
        alone = len(parts) == 1 and isinstance(parts[0], Text) and not says_more(parts[0])
        worded = not own or WORDED in form_of(message.opaque, self.ledger.dialect)
        content: Any = parts[0].text if alone and worded else parts  # type: ignore[union-attr]
        return replace(message, content=content)

    def _weave_parts(self, parts: Sequence[Part], own: bool, *, verbatim: bool, keeps_native: bool) -> list[Part]:
        woven: list[Part] = []
        group: list[Text | ToolCall] = []
        for place, part in enumerate(parts):
            self.ledger.part = place
            native = keeps_native and own and made_by(_opaque_of(part), self.ledger.dialect)
            if isinstance(part, Text) or (isinstance(part, ToolCall) and not native):
                if group and not self._joins(part, group[-1]):
                    woven.append(self._join(group, own, verbatim=verbatim))
                    group = []
                group.append(part)
                continue
            if group:
                woven.append(self._join(group, own, verbatim=verbatim))
            woven.append(part)
            group = []
        if group:
            woven.append(self._join(group, own, verbatim=verbatim))
        self.ledger.part = None
        return woven

    def _joins(self, part: Part, last: Text | ToolCall) -> bool:
        """Whether a part stands in the same text as the one before it."""
        if type(part) is ToolCall:
            return "begins" not in form_of(part.opaque, DIALECT)
        opaque = part.opaque  # type: ignore[union-attr]
        goes_on = opaque is None or CONTINUES in form_of(opaque, self.ledger.dialect)
        return type(last) is ToolCall and goes_on

    def _join(self, group: list[Text | ToolCall], own: bool, *, verbatim: bool) -> Part:
        """Give the text in which these parts stand."""
        first = group[0]
        if len(group) == 1 and isinstance(first, Text):
            said = first.text if verbatim else self.escape(first.text)
            return first if said == first.text else replace(first, text=said)
        words, escaper = "", Escaper(self.forms)
        for part in group:
            if isinstance(part, Text):
                words += escaper.say(part.text)
                continue
            words += escaper.before_block() + self._block(part)
            self._note(escaper)
            escaper = Escaper(self.forms)
        words += escaper.end()
        self._note(escaper)
        return self._text(group, words, own=own)

    def _block(self, call: ToolCall) -> str:
        block = block_of(call)
        self.ledger.lose_opaque(call.opaque)
        if block is None:
            return write_call(call)
        return block if block.endswith("\n") else f"{block}\n"

    def _text(self, group: list[Text | ToolCall], words: str, *, own: bool) -> Text:
        """Give the text of a group, with what its wire said of it."""
        texts = [part for part in group if isinstance(part, Text)]
        last = next((part for part in reversed(group) if isinstance(part, ToolCall) or part.text), None)
        if isinstance(last, ToolCall) and not (block_of(last) or "\n").endswith("\n"):
            words = words.removesuffix("\n")
        opaque = next((part.opaque for part in reversed(texts) if part.opaque is not None), None)
        if opaque is not None and CONTINUES in form_of(opaque, self.ledger.dialect):
            form = {key: value for key, value in (opaque.form or {}).items() if key != CONTINUES}
            opaque = Opaque(opaque.dialect, opaque.value, form or None)
        if opaque is None and own:
            opaque = Opaque(self.ledger.dialect, {})
        citations = [citation for part in texts for citation in part.citations or ()]
        cache = next((part.cache for part in reversed(group) if part.cache is not None), None)
        return Text(words, citations or None, cache=cache, opaque=opaque)

    def escape(self, text: str) -> str:
        """Mark each line of an answer's words that would begin a block."""
        escaper = Escaper(self.forms)
        said = escaper.say(text) + escaper.end()
        self._note(escaper)
        return said

    def quote(self, text: str) -> str:
        """Mark each line of another's words that looks like the beginning of a block."""
        said = escape_quotes(text, self.forms)
        if said != text:
            self.ledger.lose("", "quoted_fence", QUOTED, "approximated")
        return said

    def _note(self, escaper: Escaper) -> None:
        if escaper.marked:
            self.ledger.lose("", "quoted_fence", QUOTED, "approximated")
