"""A text as it arrives: words and thoughts as they come, and each call when it is whole, as canonical events.

Rules of this file:
- However the text is cut, the events tell the same. Words wait for at most one mark, a call until it is complete.
- Only offered tools become calls; everything else is words, as it stood. Blanks around calls belong to the calls.
- What stands in a closed thought is a thought. A thought that was not closed ends where the text ends with a call.
- A block that the model was given is a quotation, and so words.
"""

import re
from collections.abc import Iterable
from typing import Any

from toolwire.streams.accumulation import tell
from toolwire.text.block_items import BlockItem, ReadState, section_begins, section_ends
from toolwire.text.calls import CallBuilder, CallError, Offer
from toolwire.text.cursor import Cursor, MarkSearch, ReadSteps
from toolwire.text.quoting import GivenTexts
from toolwire.text.rows import Row, bare_mark, mark_spellings, turn_marks
from toolwire.text.shapes import ENGINES
from toolwire.types import (
    Choice,
    ChoiceEnd,
    Event,
    Message,
    MessageEnd,
    MessageStart,
    PartEnd,
    PartStart,
    Response,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
)

# Of the marks that end a turn, the one that HTML has too.
_STRUCK = "</s>"
_NAME = re.compile(r"[^\s{}\[\]()<>\"'|]{1,256}")


TextItem = str | Thinking | ToolCall | None
"""What is heard in a text: words, a piece of a thought, a call, or (None) that what was told last is over."""


class _ItemCollector:
    """What was heard since it was last taken."""

    def __init__(self, builder: CallBuilder) -> None:
        self.builder: CallBuilder = builder
        self.found: list[TextItem] = []
        self.ends_with_call = False

    def add_text(self, text: str) -> None:
        """Hear some words."""
        if text:
            self.found.append(text)
            self.ends_with_call = False

    def add_thought(self, text: str) -> None:
        """Hear some of a thought."""
        if text:
            self.found.append(Thinking(text))
            self.ends_with_call = False

    def end_part(self) -> None:
        """Hear that words or a thought are over."""
        self.found.append(None)

    def add_call(self, call: ToolCall) -> None:
        """Hear a whole call, or one that is broken."""
        self.found.append(call)
        self.ends_with_call = call.complete

    def take(self) -> list[TextItem]:
        """Give it."""
        found, self.found = self.found, []
        return found


class TextStream:
    """Reads a text as canonical events."""

    def __init__(self, listener: "TextReader") -> None:
        self._listener = listener
        self._parts = 0
        self._open: Any = None
        self._calls = 0
        self._all_words = True
        self._events: list[Event] = [MessageStart(Response())]

    def feed(self, text: str) -> list[Event]:
        """Give the events that a piece of the text tells."""
        return self._tell(self._listener.feed(text))

    def close(self, *, whole: bool = True) -> list[Event]:
        """Give the events that the end of the text tells; an answer that was cut off is not `whole`."""
        found = self._listener.close(whole=whole)
        events = self._tell([*found, None])
        whole = whole and not self._listener.cut
        reason: Any = "incomplete" if not whole else "tool_calls" if self._calls else "stop"
        content: Any = "" if self._all_words else []
        return [*events, ChoiceEnd(0, Choice(Message("assistant", content), reason)), MessageEnd(complete=whole)]

    def _tell(self, found: Iterable[TextItem]) -> list[Event]:
        for item in found:
            match item:
                case ToolCall():
                    self._end()
                    self._events += tell(self._parts, item, 0)
                    self._parts += 1
                    self._calls += item.complete
                    self._all_words = False
                case None:
                    self._end()
                case Thinking(text=text):
                    self._say(Thinking, ThinkingDelta, text)
                case str():
                    self._say(Text, TextDelta, item)
        events, self._events = self._events, []
        return events

    def _say(self, kind: Any, delta: Any, text: str) -> None:
        if self._open is not kind:
            self._end()
            self._open = kind
            self._all_words = self._all_words and kind is Text
            self._events.append(PartStart(self._parts, kind(text="")))
        self._events.append(delta(self._parts, text))

    def _end(self) -> None:
        if self._open is not None:
            self._events.append(PartEnd(self._parts, self._open(text="")))
            self._open = None
            self._parts += 1


class FormatMarks:
    """What a format's row means for reading, made once."""

    def __init__(self, row: Row) -> None:
        self.row: Row = row
        self.engine: Any = ENGINES[row.shape]
        self.calls: tuple[str, ...] = self.engine.begins(row)
        self.exits: dict[str, str] = section_ends(row)
        self.sections: frozenset[str] = frozenset(section_begins(row))
        loose = self.calls if row.loose else ()
        self.entries: tuple[str, ...] = tuple(dict.fromkeys((*section_begins(row), *loose)))
        begin, end, *others = row.thinking or ("", "")
        thoughts = (*mark_spellings(begin), *others) if begin else ()
        self.head: str
        self.head_end: str
        self.head, _, self.head_end = row.head.partition("{}")
        self.after_head: MarkSearch = MarkSearch((self.head_end, " ", "\n"))
        joined = tuple(row.before + entry for entry in self.entries) if row.before else ()
        ends = tuple(end for end in self.exits.values() if end)
        stop = bare_mark(turn_marks(row.turns).get("assistant", ("", ""))[1])
        self.noise: frozenset[str] = frozenset((*row.noise, *((stop,) if stop and stop != _STRUCK else ())))
        self.outside: MarkSearch = MarkSearch(
            (*self.entries, *joined, *thoughts, *ends, *self.noise), streams_text=True
        )
        self.opening: MarkSearch = MarkSearch(thoughts, adjacent=True)
        self.thought_ends: frozenset[str] = frozenset(mark_spellings(end)) if begin else frozenset()
        self.noise_between: frozenset[str] = self.noise | self.thought_ends
        self.closings: frozenset[str] = frozenset((*ends, *map(bare_mark, row.call[2:])))
        near = (*self.entries, *self.calls, *self.closings, *thoughts, *self.noise_between, *row.separators, self.head)
        self.between: MarkSearch = MarkSearch(near, adjacent=True)
        self.inner: MarkSearch = MarkSearch((*section_begins(row), *self.calls), adjacent=True)
        self.thoughts: frozenset[str] = frozenset(thoughts)
        marks = tuple(entry for entry in self.entries if len(entry) > 1)
        self.inside_thought: MarkSearch = MarkSearch((*self.thought_ends, *marks), streams_text=True)
        self.thought_end: MarkSearch = MarkSearch(self.thought_ends)
        self.searches: dict[str, MarkSearch] = {}
        self.ends = ends
        self.begins: tuple[str, ...] = tuple(entry for entry in (*section_begins(row), *self.calls) if len(entry) > 1)


class TextReader:
    """Hears a text of one format. `given` is what the model was given; with `thinking` it begins in a thought."""

    def __init__(
        self,
        marks: FormatMarks,
        builder: CallBuilder,
        offer: Offer | None,
        given: GivenTexts | Iterable[str] = (),
        *,
        thinking: bool = False,
    ) -> None:
        self.marks: FormatMarks = marks
        self.collector: _ItemCollector = _ItemCollector(builder)
        self.offer: Offer | None = offer
        self.given: GivenTexts = given if isinstance(given, GivenTexts) else GivenTexts(given)
        self.cursor: Cursor = Cursor(self._say)
        self.state: ReadState = ReadState(marks.row, self.cursor, offer, marks.begins, marks.ends, marks.searches)
        self._tell: Any = self.collector.add_text
        self._pending_ends: list[str] = []
        self.whole: bool = True
        self.cut: bool = False
        self._thinking = thinking
        self._begun = False

    def feed(self, text: str) -> list[TextItem]:
        """Give what is heard with a piece of the text."""
        self._begin()
        self.cursor.feed(text)
        return self.collector.take()

    def close(self, *, whole: bool = True) -> list[TextItem]:
        """Give what is left; an answer that was cut off is not `whole`."""
        self._begin()
        self.whole = self.state.whole = whole
        self.cursor.close()
        return self.collector.take()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            run = getattr(self.marks.engine, "run", None)
            self.cursor.start(self._read() if run is None else run(self))

    def _say(self, text: str) -> None:
        self._tell(text)

    def set_text_handler(self, tell: Any) -> None:
        """Say what becomes of the words that are passed over."""
        self._tell = tell

    def _read(self) -> ReadSteps:
        if self._thinking:
            self.cursor.begin_block("")
            if not (yield self.marks.opening).mark:
                self.cursor.rewind_to(0)
            yield from self._read_thought()
        yield from self._read_between()
        while True:
            found = yield self.marks.outside
            if found.end:
                return
            mark, called = bare_mark(found.mark), False
            if found.mark in self.marks.thoughts:
                yield from self._read_thought()
            elif mark in self._pending_ends:
                self._pending_ends.remove(mark)
            elif mark in self.marks.entries:
                called = yield from self._read_block(mark, found.mark.removesuffix(mark))
            elif mark not in self.marks.noise:
                self.collector.add_text(found.mark)
                continue
            yield from self._read_between(called=called)

    def _read_between(self, *, called: bool = False) -> ReadSteps:
        """Read what stands between calls, until there are words."""
        marks, gap = self.marks, ""
        while True:
            self.cursor.begin_block("")
            found = yield marks.between
            mark = found.mark
            if not mark:
                self.collector.add_text(gap if found.end else gap + found.before)
                return
            if mark in self._pending_ends:
                self._pending_ends.remove(mark)
                gap = ""
            elif mark in marks.row.separators and not gap.strip():
                gap += found.before + mark
            elif mark in marks.thoughts:
                yield from self._read_thought()
                gap = ""
            elif mark in marks.entries or (mark in marks.calls and self._pending_ends):
                called = yield from self._read_block(mark, gap + found.before)
                gap = ""
            elif mark == marks.head:
                if not (yield from self._skip_head(gap)):
                    return
                gap = ""
            elif mark in marks.noise_between or (called and mark in marks.closings):
                gap = ""
            else:
                self.collector.add_text(gap + found.before + mark)
                return

    def _skip_head(self, gap: str) -> ReadSteps:
        """Pass a head that says for whom the message is; False where it is none, but words."""
        head = yield self.marks.after_head
        if head.mark != self.marks.head_end:
            self.collector.add_text(gap + self.cursor.block_text())
            return False
        if head.before == "self":
            yield from self._read_thought()
        return True

    def _read_thought(self) -> ReadSteps:
        """Read a thought until its end; a call in it waits until that is known."""
        marks = self.marks
        self._tell = self.collector.add_thought
        found = yield marks.inside_thought
        self._tell = self.collector.add_text
        if found.end or found.mark in marks.thought_ends:
            self.collector.end_part()
            return
        self.cursor.begin_block(found.mark)
        rest = yield marks.thought_end
        text = found.mark + rest.before
        if rest.end and self.whole and self._ends_with_call(text):
            self.cursor.rewind_to(0)
        else:
            self.collector.add_thought(text)
        self.collector.end_part()

    def _ends_with_call(self, text: str) -> bool:
        inner = TextReader(self.marks, CallBuilder(self.offer), self.offer, self.given)
        inner.feed(text)
        inner.close()
        return inner.collector.ends_with_call

    def _read_block(self, mark: str, gap: str) -> ReadSteps:
        """Read one block: sections, and what stands in them; say whether it calls."""
        marks, first = self.marks, mark
        self.cursor.begin_block(mark)
        opened: dict[str, str] = {}
        while mark in marks.sections:
            opened[mark] = marks.exits.get(mark, "")
            if not marks.calls:
                break
            found = yield marks.inner
            if not found.mark or found.mark in opened:
                return self._treat_as_text(first, gap)
            mark = found.mark
        self.state.body_start = self.cursor.length
        heard = yield from marks.engine.read(self.state, mark)
        if heard is None:
            return self._treat_as_text(first, gap)
        called = self.add_items(heard, self.cursor.block_text(), gap)
        if called:
            self._pending_ends += [end for end in reversed(opened.values()) if end]
        return called

    def _treat_as_text(self, first: str, gap: str) -> bool:
        """Take what begins like a block for words."""
        self.cursor.rewind_to(len(first))
        self.collector.add_text(gap + first)
        return False

    def add_items(self, heard: list[BlockItem], text: str, gap: str = "") -> bool:
        """Tell what a block says; False where it says nothing but words, which are told as they stand."""
        wanted = [each for each in heard if self._is_call(each)]
        if not wanted or self.given.has(text):
            self.collector.add_text(gap + text)
            return False
        for each in heard:
            if self._is_call(each):
                self.collector.add_call(self._call_of(each))
                self.cut = each.is_cut
            else:
                self.collector.add_text(each.text)
        return True

    def _is_call(self, heard: BlockItem) -> bool:
        name = heard.name
        if name is None or (self.offer is None and _NAME.fullmatch(name) is None):
            return False
        return self.state.is_offered(self.state.resolve_name(name))

    def _call_of(self, heard: BlockItem) -> ToolCall:
        builder, name = self.collector.builder, self.state.resolve_name(heard.name or "")
        if heard.problem:
            code: Any = "incomplete" if heard.is_cut else "invalid_arguments"
            error = builder.make_error(code, heard.problem, heard.text, name, heard.id)
            return error.as_call()
        arguments = heard.arguments
        if arguments is None or (type(arguments) is str and arguments.strip() in {"", "null"}):
            arguments = {}
        read = builder.build(name, arguments, heard.id, heard.text)
        return read.as_call() if isinstance(read, CallError) else read
