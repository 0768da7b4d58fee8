"""Streams of a model that calls in its text, written: a call is said as words, when it is whole.

Rules of this file:
- What came from one text of the wire is said in one text again; a call that stands alone has its own.
- A call that never ended is not said: half a block could not be told from a whole one.
"""

from typing import Any

from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger, form_of, made_by
from toolwire.streams import StreamEncoder
from toolwire.text.overlay.answers import shed
from toolwire.text.overlay.weaving import CONTINUES, DIALECT, QUOTED, block_of
from toolwire.text.tagged.forms import Form
from toolwire.text.tagged.writing import Escaper, write_call
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    ChoiceEnd,
    Event,
    Loss,
    MessageStart,
    Opaque,
    PartEnd,
    PartStart,
    Text,
    TextDelta,
)


class _Said:
    """One text as it is said: it stays open, so that a call can follow in it."""

    __slots__ = ("called", "choice", "end", "escaper", "key", "text")

    def __init__(self, key: int, choice: int, escaper: Escaper) -> None:
        self.key = key
        self.choice = choice
        self.escaper = escaper
        self.end: PartEnd | None = None
        self.called = False
        self.text = Text("")


class Encoder:
    """Writes a stream through the encoder of its wire."""

    def __init__(self, inner: StreamEncoder, ledger: Ledger, forms: tuple[Form, ...]) -> None:
        self._inner = inner
        self._ledger = ledger
        self._forms = forms
        self._said: dict[int, _Said] = {}
        self._last: _Said | None = None
        self._calls: dict[int, CallStart] = {}
        self._native: set[int] = set()
        self._mine = False

    @property
    def ended(self) -> bool:
        """Whether nothing more is said."""
        return self._inner.ended

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far, each thing once."""
        return (*dict.fromkeys(self._ledger.losses), *self._inner.losses)

    def feed(self, event: Event) -> bytes:
        """Give the bytes that can be said after this event."""
        match event:
            case TextDelta():
                return self._speak(event)
            case PartStart() if type(event.part) is Text:
                return self._start(event)
            case PartEnd() if event.key in self._said:
                return self._end(event)
            case CallStart() | CallDelta() | CallEnd():
                return self._call(event)
            case MessageStart():
                self._mine = made_by(event.response.opaque, self._ledger.dialect)
            case ChoiceEnd():
                choice = shed(event.choice, self._ledger.dialect, called=bool(self._native))
                return self._flush() + self._inner.feed(replace(event, choice=choice))
        key = getattr(event, "key", None)
        said = None if key is None else self._said.get(key)
        if said is not None:
            return self._inner.feed(replace(event, key=said.key))
        return self._flush() + self._inner.feed(event)

    def close(self) -> bytes:
        """Give the last bytes."""
        return self._flush() + self._inner.close()

    def _start(self, event: PartStart) -> bytes:
        text: Any = event.part
        last = self._last
        goes_on = text.opaque is None or CONTINUES in form_of(text.opaque, self._ledger.dialect)
        if last is not None and last.called and last.choice == event.choice and goes_on:
            last.end, last.escaper = None, Escaper(self._forms)
            self._said[event.key] = last
            return self._say(last, text.text)
        before = self._flush()
        said = self._said[event.key] = _Said(event.key, event.choice, Escaper(self._forms))
        shell = replace(text, text="")
        return before + self._inner.feed(replace(event, part=shell)) + self._say(said, text.text)

    def _speak(self, event: TextDelta) -> bytes:
        said = self._said.get(event.key)
        if said is None:
            return self._inner.feed(event)
        words = said.escaper.say(event.text)
        self._note(said.escaper)
        if words == event.text and said.key == event.key:
            return self._inner.feed(event)
        if not words and event.opaque is None:
            return b""
        return self._inner.feed(TextDelta(said.key, words, opaque=event.opaque))

    def _say(self, said: _Said, words: str) -> bytes:
        told = said.escaper.say(words)
        self._note(said.escaper)
        return self._tell(said, told)

    def _tell(self, said: _Said, words: str) -> bytes:
        return self._inner.feed(TextDelta(said.key, words)) if words else b""

    def _end(self, event: PartEnd) -> bytes:
        """Keep the end of a text: a call may follow in it."""
        said = self._said.pop(event.key)
        said.end = event
        if self._last is said:
            return b""
        before = self._flush()
        self._last = said
        return before

    def _call(self, event: Any) -> bytes:
        if type(event) is CallStart:
            if self._mine and made_by(event.opaque, self._ledger.dialect):
                self._native.add(event.key)
                return self._flush() + self._inner.feed(event)
            self._calls[event.key] = event
            return b""
        if event.key in self._native:
            return self._inner.feed(event)
        start = self._calls.pop(event.key, None) if type(event) is CallEnd else None
        return b"" if start is None else self._write(event, start)

    def _write(self, event: CallEnd, start: CallStart) -> bytes:
        call, said, before = event.call, self._last, b""
        begins = "begins" in form_of(call.opaque, DIALECT)
        if said is None or said.choice != start.choice or begins:
            before = self._flush()
            said = self._last = _Said(start.key, start.choice, Escaper(self._forms))
            said.end = PartEnd(start.key, Text(""))
            before += self._inner.feed(PartStart(start.key, Text(""), start.choice))
        block = block_of(call)
        if block is None:
            block = write_call(call)
        before += self._tell(said, said.escaper.before_block() + block)
        self._note(said.escaper)
        said.escaper, said.called = Escaper(self._forms), True
        if not block.endswith("\n"):
            said.escaper.say("-")
        return before

    def _flush(self) -> bytes:
        """End the text that was kept open."""
        said, self._last = self._last, None
        if said is None or said.end is None:
            return b""
        part: Any = said.end.part
        form = form_of(part.opaque, self._ledger.dialect)
        if CONTINUES in form:
            left = {key: value for key, value in form.items() if key != CONTINUES}
            part = replace(part, opaque=Opaque(part.opaque.dialect, part.opaque.value, left or None))
        words = self._tell(said, said.escaper.end())
        self._note(said.escaper)
        return words + self._inner.feed(PartEnd(said.key, part, opaque=said.end.opaque))

    def _note(self, escaper: Escaper) -> None:
        if escaper.marked:
            self._ledger.lose("", "quoted_fence", QUOTED, "approximated")
            escaper.marked = False
