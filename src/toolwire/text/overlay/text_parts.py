"""Convert between the text of a wire and the parts that it contains: text, thoughts and calls.

Rules of this file:
- A text with calls becomes parts in their order: text, calls, text. If calls keep their blocks, joining the parts again
  returns the original text, character by character, with the other fields that the wire had on it.
- The start of a wire's text is marked, so that texts which were separate stay separate.
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

_TextualPart = Text | Thinking | ToolCall


def has_metadata(part: Text) -> bool:
    """Return True if the wire had more on a text than the text itself: citations, a cache mark, other fields."""
    opaque = part.opaque
    return bool(part.citations or part.cache or (opaque is not None and (opaque.value or opaque.spelling)))


def last_piece(part: Text, dialect: str, text: str = "") -> Text:
    """Return the last piece of a text that was split. It carries the other fields that the wire had on the text."""
    opaque = part.opaque or Opaque(dialect, {})
    spelling = replace(shared_spelling_of(opaque, opaque.dialect, TextSpelling), is_continued=True)
    return replace(part, text=text, opaque=replace(opaque, spelling=spelling))


def join_items(items: Iterable[TextItem]) -> list[str | Thinking | ToolCall]:
    """Join consecutive pieces of text, and consecutive pieces of a thought."""
    joined: list[Any] = []
    previous: Any = None
    for item in items:
        if isinstance(item, str) and isinstance(previous, str):
            joined[-1] = previous = previous + item
        elif isinstance(item, Thinking) and isinstance(previous, Thinking):
            joined[-1] = previous = Thinking(previous.text + item.text)
        else:
            previous = item
            if item is not None:
                joined.append(item)
    return joined


def split_text(part: Text, items: Sequence[str | Thinking | ToolCall], dialect: str) -> list[Part]:
    """Return the parts of a text in which `items` were found. A text without calls and thoughts stays one part."""
    if all(isinstance(item, str) for item in items):
        text = "".join(map(str, items))
        return [part if text == part.text else replace(part, text=text)]
    pieces: list[Part] = []
    for item in items:
        opaque = None if pieces or part.opaque is None else Opaque(dialect, {})
        pieces.append(Text(item, opaque=opaque) if isinstance(item, str) else item)
    if has_metadata(part):
        last_text = pieces.pop() if len(pieces) > 1 and type(pieces[-1]) is Text else None
        pieces.append(last_piece(part, dialect, last_text.text if isinstance(last_text, Text) else ""))
    return pieces


def _is(first: object, second: object) -> bool:
    return first is second


def _opaque_of(part: Part) -> Opaque | None:
    return part if isinstance(part, Opaque) else part.opaque


class MessageWriter:
    """Writes the parts of messages into text. Losses are added to the ledger, at its current path."""

    def __init__(self, ledger: Ledger, writer: FormatWriter) -> None:
        self.ledger = ledger
        self.writer: FormatWriter = writer

    def write(self, message: Message, *, verbatim: bool, keeps_native: bool) -> Message:
        """Return `message` with its calls in its text.

        With `verbatim`, the text is not escaped. With `keeps_native`, parts that were read from this wire's own fields
        stay parts.
        """
        is_own = made_by(message.opaque, self.ledger.dialect)
        if type(message.content) is str:
            text = self.writer.write_parts([Text(message.content)], verbatim=verbatim) if message.content else ""
            return message if text == message.content else replace(message, content=text)
        parts = self._write_parts(message.parts, is_own, verbatim=verbatim, keeps_native=keeps_native)
        if len(parts) == len(message.parts) and all(map(_is, parts, message.parts)):
            return message
        is_single_text = len(parts) == 1 and isinstance(parts[0], Text) and not has_metadata(parts[0])
        spelling = shared_spelling_of(message.opaque, self.ledger.dialect, MessageSpelling)
        is_string = is_single_text and (not (is_own and keeps_native) or spelling.has_text_content)
        content: Any = parts[0].text if is_string else parts  # type: ignore[union-attr]
        return replace(message, content=content)

    def _write_parts(self, parts: Sequence[Part], is_own: bool, *, verbatim: bool, keeps_native: bool) -> list[Part]:
        written: list[Part] = []
        group: list[_TextualPart] = []
        for index, part in enumerate(parts):
            self.ledger.part_index = index
            is_native = keeps_native and is_own and made_by(_opaque_of(part), self.ledger.dialect)
            if self._is_textual(part, is_native=is_native):
                if group and not self._joins(part, group[-1]):
                    written.append(self._join(group, is_own, verbatim=verbatim))
                    group = []
                group.append(part)  # type: ignore[arg-type]
                continue
            if group:
                written.append(self._join(group, is_own, verbatim=verbatim))
            written.append(part)
            group = []
        if group:
            written.append(self._join(group, is_own, verbatim=verbatim))
        self.ledger.part_index = None
        return written

    def _is_textual(self, part: Part, *, is_native: bool) -> bool:
        """Return True if a part is written in text. A thought is, if it was read in a text."""
        if isinstance(part, Thinking):
            return self.writer.has_thoughts and part.opaque is None and not part.signature
        return isinstance(part, Text) or (isinstance(part, ToolCall) and not is_native)

    def _joins(self, part: Part, previous: Part) -> bool:
        """Return True if a part belongs to the same text of the wire as the part before it."""
        if isinstance(part, ToolCall):
            return not begins_text(part)
        opaque = part.opaque  # type: ignore[union-attr]
        is_continued = opaque is None or self._is_continued(opaque)
        return not (isinstance(previous, Text) and isinstance(part, Text)) and is_continued

    def _is_continued(self, opaque: Opaque) -> bool:
        """Return True if a text with this `opaque` continues the text of the part before it."""
        return shared_spelling_of(opaque, self.ledger.dialect, TextSpelling).is_continued

    def _join(self, group: list[_TextualPart], is_own: bool, *, verbatim: bool) -> Part:
        """Return the text that contains these parts."""
        first = group[0]
        text = self.writer.write_parts(group, verbatim=verbatim)
        if len(group) == 1 and isinstance(first, Text):
            return first if text == first.text else replace(first, text=text)
        for part in group:
            if isinstance(part, ToolCall):
                self.ledger.lose_opaque(part.opaque)
        return self._text(group, text, is_own=is_own)

    def _text(self, group: list[_TextualPart], text: str, *, is_own: bool) -> Text:
        """Return the text of a group of parts, with the other fields that the wire had on it."""
        texts = [part for part in group if isinstance(part, Text)]
        opaque = next((part.opaque for part in reversed(texts) if part.opaque is not None), None)
        if opaque is not None and self._is_continued(opaque):
            spelling = replace(opaque.spelling, is_continued=False)  # type: ignore[type-var]
            opaque = replace(opaque, spelling=None if spelling.is_usual else spelling)  # type: ignore[union-attr]
        if opaque is None and is_own:
            opaque = Opaque(self.ledger.dialect, {})
        citations = [citation for part in texts for citation in part.citations or ()]
        cache = next((part.cache for part in reversed(group) if part.cache is not None), None)
        return Text(text, citations or None, cache=cache, opaque=opaque)
