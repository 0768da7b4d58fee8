"""Words and calls as parts, and as the text that they stand in on the wire: each from the other.

Rules of this file:
- A text that holds calls becomes parts in their order: words, calls, words. Where calls keep their blocks, the parts
  woven together again give the text that they came from, character by character, with what else its wire said of it.
- Where a part of a wire's text begins is marked, so that texts which were apart stay apart.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger, made_by, shared_spelling_of
from toolwire.text.reader import TextItem
from toolwire.text.tagged.call_blocks import begins_text
from toolwire.text.writing import FormatWriter
from toolwire.types import Message, Opaque, Part, Text, Thinking, ToolCall
from toolwire.types.spelling import MessageSpelling, TextSpelling

_Worded = Text | Thinking | ToolCall


def has_metadata(part: Text) -> bool:
    """Return True if its wire said more of a text than its words."""
    opaque = part.opaque
    return bool(part.citations or part.cache or (opaque is not None and (opaque.value or opaque.spelling)))


def last_piece(part: Text, dialect: str, words: str = "") -> Text:
    """Return the last piece of a text: it carries what else the wire said of the whole."""
    opaque = part.opaque or Opaque(dialect, {})
    spelling = replace(shared_spelling_of(opaque, opaque.dialect, TextSpelling), is_continued=True)
    return replace(part, text=words, opaque=replace(opaque, spelling=spelling))


def join_items(found: Iterable[TextItem]) -> list[str | Thinking | ToolCall]:
    """Join words that follow each other, and pieces of a thought."""
    told: list[Any] = []
    last: Any = None
    for item in found:
        if isinstance(item, str) and isinstance(last, str):
            told[-1] = last = last + item
        elif isinstance(item, Thinking) and isinstance(last, Thinking):
            told[-1] = last = Thinking(last.text + item.text)
        else:
            last = item
            if item is not None:
                told.append(item)
    return told


def split_text(part: Text, found: Sequence[str | Thinking | ToolCall], dialect: str) -> list[Part]:
    """Give the parts of a text in which calls or thoughts were found; one with nothing of that is a part as it is."""
    if all(isinstance(item, str) for item in found):
        words = "".join(map(str, found))
        return [part if words == part.text else replace(part, text=words)]
    pieces: list[Part] = []
    for item in found:
        opaque = None if pieces or part.opaque is None else Opaque(dialect, {})
        pieces.append(Text(item, opaque=opaque) if isinstance(item, str) else item)
    if has_metadata(part):
        last = pieces.pop() if len(pieces) > 1 and type(pieces[-1]) is Text else None
        pieces.append(last_piece(part, dialect, last.text if isinstance(last, Text) else ""))
    return pieces


def _is(left: object, right: object) -> bool:
    return left is right


def _opaque_of(part: Part) -> Opaque | None:
    return part if isinstance(part, Opaque) else part.opaque


class MessageWriter:
    """Writes the parts of messages into text; losses go to the ledger, at the place where it stands."""

    def __init__(self, ledger: Ledger, writer: FormatWriter) -> None:
        self.ledger = ledger
        self.writer: FormatWriter = writer

    def weave(self, message: Message, *, verbatim: bool, keeps_native: bool) -> Message:
        """Give a message whose calls stand in its text; `verbatim` words are not looked at."""
        own = made_by(message.opaque, self.ledger.dialect)
        if type(message.content) is str:
            said = self.writer.write_parts([Text(message.content)], verbatim=verbatim) if message.content else ""
            return message if said == message.content else replace(message, content=said)
        parts = self._weave_parts(message.parts, own, verbatim=verbatim, keeps_native=keeps_native)
        if len(parts) == len(message.parts) and all(map(_is, parts, message.parts)):
            return message
        alone = len(parts) == 1 and isinstance(parts[0], Text) and not has_metadata(parts[0])
        spelling = shared_spelling_of(message.opaque, self.ledger.dialect, MessageSpelling)
        is_string = alone and (not (own and keeps_native) or spelling.has_text_content)
        content: Any = parts[0].text if is_string else parts  # type: ignore[union-attr]
        return replace(message, content=content)

    def _weave_parts(self, parts: Sequence[Part], own: bool, *, verbatim: bool, keeps_native: bool) -> list[Part]:
        woven: list[Part] = []
        group: list[_Worded] = []
        for place, part in enumerate(parts):
            self.ledger.part = place
            native = keeps_native and own and made_by(_opaque_of(part), self.ledger.dialect)
            if self._is_word(part, native=native):
                if group and not self._joins(part, group[-1]):
                    woven.append(self._join(group, own, verbatim=verbatim))
                    group = []
                group.append(part)  # type: ignore[arg-type]
                continue
            if group:
                woven.append(self._join(group, own, verbatim=verbatim))
            woven.append(part)
            group = []
        if group:
            woven.append(self._join(group, own, verbatim=verbatim))
        self.ledger.part = None
        return woven

    def _is_word(self, part: Part, *, native: bool) -> bool:
        """Whether a part stands in a text; a thought does, if it was read in one."""
        if isinstance(part, Thinking):
            return self.writer.has_thoughts and part.opaque is None and not part.signature
        return isinstance(part, Text) or (isinstance(part, ToolCall) and not native)

    def _joins(self, part: Part, last: Part) -> bool:
        """Whether a part stands in the same text as the one before it."""
        if isinstance(part, ToolCall):
            return not begins_text(part)
        opaque = part.opaque  # type: ignore[union-attr]
        is_continued = opaque is None or self._is_continued(opaque)
        return not (isinstance(last, Text) and isinstance(part, Text)) and is_continued

    def _is_continued(self, opaque: Opaque) -> bool:
        """Return True if a text with this mark stands in the same text of the wire as the part before it."""
        return shared_spelling_of(opaque, self.ledger.dialect, TextSpelling).is_continued

    def _join(self, group: list[_Worded], own: bool, *, verbatim: bool) -> Part:
        """Give the text in which these parts stand."""
        first = group[0]
        words = self.writer.write_parts(group, verbatim=verbatim)
        if len(group) == 1 and isinstance(first, Text):
            return first if words == first.text else replace(first, text=words)
        for part in group:
            if isinstance(part, ToolCall):
                self.ledger.lose_opaque(part.opaque)
        return self._text(group, words, own=own)

    def _text(self, group: list[_Worded], words: str, *, own: bool) -> Text:
        """Give the text of a group, with what its wire said of it."""
        texts = [part for part in group if isinstance(part, Text)]
        opaque = next((part.opaque for part in reversed(texts) if part.opaque is not None), None)
        if opaque is not None and self._is_continued(opaque):
            spelling = replace(opaque.spelling, is_continued=False)  # type: ignore[type-var]
            opaque = replace(opaque, spelling=None if spelling.is_usual else spelling)  # type: ignore[union-attr]
        if opaque is None and own:
            opaque = Opaque(self.ledger.dialect, {})
        citations = [citation for part in texts for citation in part.citations or ()]
        cache = next((part.cache for part in reversed(group) if part.cache is not None), None)
        return Text(words, citations or None, cache=cache, opaque=opaque)
