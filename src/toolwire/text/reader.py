"""Read a text while it arrives: text and thoughts at once, and each call when it is complete, as canonical events.

Rules of this file:
- The events do not depend on how the text is split into pieces. Text is held back for at most the length of one mark,
  and a call until it is complete.
- Only offered tools become calls. Everything else is text, unchanged. White space around calls belongs to the calls.
- Text in a closed thought is part of the thought. A thought that was not closed ends where the text ends with a call.
- A block that repeats the model's input is a quotation, and therefore text.
"""

import re
from collections.abc import Iterable
from typing import Any

from toolwire.streams.accumulation import part_events
from toolwire.text.block_items import BlockItem, ReadState, section_begins, section_ends
from toolwire.text.calls import CallBuilder, CallError, Offer
from toolwire.text.cursor import Cursor, MarkSearch, ReadSteps
from toolwire.text.quoting import GivenTexts
from toolwire.text.rows import Row, bare_mark, mark_spellings, turn_marks
from toolwire.text.shapes import ENGINES
from toolwire.text.wrapped_arguments import unwrap_call
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

# Llama 2 and Mistral models end a turn with this mark. In HTML it ends struck text, so it is not removed.
_STRUCK = "</s>"
_NAME = re.compile(r"[^\s{}\[\]()<>\"'|]{1,256}")


TextItem = str | Thinking | ToolCall | None
"""An item of a text: text, a piece of a thought, a call, or None, which ends the current text or thought."""


class _ItemCollector:
    """Collects the items of a text until they are taken."""

    def __init__(self, builder: CallBuilder) -> None:
        self.builder: CallBuilder = builder
        self.items: list[TextItem] = []
        self.ends_with_call = False

    def add_text(self, text: str) -> None:
        """Add some text."""
        if text:
            self.items.append(text)
            self.ends_with_call = False

    def add_thought(self, text: str) -> None:
        """Add a piece of a thought."""
        if text:
            self.items.append(Thinking(text))
            self.ends_with_call = False

    def end_part(self) -> None:
        """End the current text or thought."""
        self.items.append(None)

    def add_call(self, call: ToolCall) -> None:
        """Add a call, complete or broken."""
        self.items.append(call)
        self.ends_with_call = call.complete

    def take(self) -> list[TextItem]:
        """Return the collected items, and forget them."""
        items, self.items = self.items, []
        return items


class TextStream:
    """Decodes a text to canonical events."""

    def __init__(self, reader: "TextReader") -> None:
        self._reader = reader
        self._part_count = 0
        self._open_type: Any = None
        self._call_count = 0
        self._is_plain_text = True
        self._events: list[Event] = [MessageStart(Response())]

    def feed(self, text: str) -> list[Event]:
        """Return the events of a piece of the text."""
        return self._events_of(self._reader.feed(text))

    def close(self, *, whole: bool = True) -> list[Event]:
        """Return the events of the end of the text. Pass `whole=False` if the answer was cut off."""
        items = self._reader.close(whole=whole)
        events = self._events_of([*items, None])
        whole = whole and not self._reader.cut
        reason: Any = "incomplete" if not whole else "tool_calls" if self._call_count else "stop"
        content: Any = "" if self._is_plain_text else []
        return [*events, ChoiceEnd(0, Choice(Message("assistant", content), reason)), MessageEnd(complete=whole)]

    def _events_of(self, items: Iterable[TextItem]) -> list[Event]:
        for item in items:
            match item:
                case ToolCall():
                    self._end_part()
                    self._events += part_events(self._part_count, item, 0)
                    self._part_count += 1
                    self._call_count += item.complete
                    self._is_plain_text = False
                case None:
                    self._end_part()
                case Thinking(text=text):
                    self._add_delta(Thinking, ThinkingDelta, text)
                case str():
                    self._add_delta(Text, TextDelta, item)
        events, self._events = self._events, []
        return events

    def _add_delta(self, part_type: Any, delta_type: Any, text: str) -> None:
        if self._open_type is not part_type:
            self._end_part()
            self._open_type = part_type
            self._is_plain_text = self._is_plain_text and part_type is Text
            self._events.append(PartStart(self._part_count, part_type(text="")))
        self._events.append(delta_type(self._part_count, text))

    def _end_part(self) -> None:
        if self._open_type is not None:
            self._events.append(PartEnd(self._part_count, self._open_type(text="")))
            self._open_type = None
            self._part_count += 1


class _ThoughtMarks:
    """The end marks of a thought, and the searches for them. `inside` also finds calls."""

    def __init__(self, ends: Iterable[str], block_begins: Iterable[str]) -> None:
        self.ends: frozenset[str] = frozenset(ends)
        long_begins = (begin for begin in block_begins if len(begin) > 1)
        self.inside: MarkSearch = MarkSearch((*self.ends, *long_begins), streams_text=True)
        self.end: MarkSearch = MarkSearch(self.ends)


def _only_begins(begins: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of a text that has only begin marks. A fence is also the end of ordinary code."""
    long_begins = [re.escape(begin) for begin in begins if len(begin) > 1 and not begin.startswith("```")]
    return re.compile(rf"(?:{'|'.join(long_begins) or '(?!)'}|\s)+")


class FormatMarks:
    """The marks of a format, prepared for reading.

    - `block_begins`, `calls` and `sections`: the marks that begin a block, a call and a section.
    - `section_ends`: the end mark of each section, by its begin mark. `closings`: all end marks of sections and calls.
    - `noise`: marks without a meaning, such as the end of a turn, which are removed from the text.
    - `thoughts`: the marks of thoughts, by begin mark. `any_thought`: those of a thought whose begin mark is not known.
    """

    def __init__(self, row: Row) -> None:
        self.row: Row = row
        self.engine: Any = ENGINES[row.shape]
        call_begins: tuple[str, ...] = self.engine.begins(row)
        self.calls: tuple[str, ...] = (*call_begins, "{", "[") if row.json else call_begins
        self.section_ends: dict[str, str] = section_ends(row)
        self.sections: frozenset[str] = frozenset(section_begins(row))
        self.only_begins: re.Pattern[str] = _only_begins((*section_begins(row), *call_begins))
        self.thoughts: dict[str, _ThoughtMarks] = {}
        loose_calls = call_begins if row.loose else ()
        self.block_begins: tuple[str, ...] = tuple(dict.fromkeys((*section_begins(row), *loose_calls)))
        thoughts = self._add_thoughts(row)
        self.any_thought: _ThoughtMarks = _ThoughtMarks(
            {end for pair in self.thoughts.values() for end in pair.ends}, self.block_begins
        )
        self.head: str
        self.head_end: str
        self.head, _, self.head_end = row.head.partition("{}")
        self.after_head: MarkSearch = MarkSearch((self.head_end, " ", "\n"))
        joined_begins = tuple(row.before + entry for entry in self.block_begins) if row.before else ()
        end_marks = tuple(end for end in self.section_ends.values() if end)
        stop = bare_mark(turn_marks(row.turns).get("assistant", ("", ""))[1])
        self.noise: frozenset[str] = frozenset((*row.noise, *((stop,) if stop and stop != _STRUCK else ())))
        self.in_text: MarkSearch = MarkSearch(
            (*self.block_begins, *joined_begins, *thoughts, *end_marks, *self.noise), streams_text=True
        )
        self.thought_begin: MarkSearch = MarkSearch(thoughts, adjacent=True)
        self.noise_between: frozenset[str] = self.noise | self.any_thought.ends
        self.closings: frozenset[str] = frozenset((*end_marks, *map(bare_mark, row.call[2:])))
        begins = (*self.block_begins, *self.calls, *thoughts, self.head)
        between = (*begins, *self.closings, *self.noise_between, *row.separators)
        self.between: MarkSearch = MarkSearch(between, adjacent=True)
        self.inner: MarkSearch = MarkSearch((*section_begins(row), *end_marks, *self.calls), adjacent=True)
        self.searches: dict[str, MarkSearch] = {}
        self.ends = end_marks
        self.begins: tuple[str, ...] = tuple(entry for entry in (*section_begins(row), *self.calls) if len(entry) > 1)

    def _add_thoughts(self, row: Row) -> tuple[str, ...]:
        """Add the marks of thoughts, by their begin marks. Return the begin marks."""
        begin, end, *others = row.thinking or ("", "")
        for pair_begin, pair_end, more in ((begin, end, others), *((*pair, ()) for pair in row.also_thinking)):
            if pair_begin:
                marks = _ThoughtMarks(mark_spellings(pair_end), self.block_begins)
                self.thoughts |= dict.fromkeys((*mark_spellings(pair_begin), *more), marks)
        return tuple(self.thoughts)


class TextReader:
    """Reads a text in one format.

    `given` are the input texts of the model. With `thinking`, the text begins inside a thought.
    """

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
        self.cursor: Cursor = Cursor(self._pass_text)
        self.state: ReadState = ReadState(marks.row, self.cursor, offer, marks.begins, marks.ends, marks.searches)
        self._on_text: Any = self.collector.add_text
        self._pending_ends: list[str] = []
        self.whole: bool = True
        self.cut: bool = False
        self._thinking = thinking
        self._is_started = False

    def feed(self, text: str) -> list[TextItem]:
        """Return the items of a piece of the text."""
        self._start()
        self.cursor.feed(text)
        return self.collector.take()

    def close(self, *, whole: bool = True) -> list[TextItem]:
        """Return the remaining items. Pass `whole=False` if the answer was cut off."""
        self._start()
        self.whole = self.state.whole = whole
        self.cursor.close()
        return self.collector.take()

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            run = getattr(self.marks.engine, "run", None)
            self.cursor.start(self._read() if run is None else run(self))

    def _pass_text(self, text: str) -> None:
        self._on_text(text)

    def set_text_handler(self, on_text: Any) -> None:
        """Set the function that receives text which is not held back."""
        self._on_text = on_text

    def _read(self) -> ReadSteps:
        """Read the whole text: thoughts, blocks, and the text around them."""
        if self._thinking:
            self.cursor.begin_block("")
            if not (yield self.marks.thought_begin).mark:
                self.cursor.rewind_to(0)
            yield from self._read_thought()
        yield from self._read_between()
        while True:
            hit = yield self.marks.in_text
            if hit.end:
                return
            mark, has_calls = bare_mark(hit.mark), False
            if hit.mark in self.marks.thoughts:
                yield from self._read_thought(hit.mark)
            elif mark in self._pending_ends:
                self._pending_ends.remove(mark)
            elif mark in self.marks.block_begins:
                has_calls = yield from self._read_block(mark, hit.mark.removesuffix(mark))
            elif mark not in self.marks.noise:
                self.collector.add_text(hit.mark)
                continue
            yield from self._read_between(called=has_calls)

    def _read_between(self, *, called: bool = False) -> ReadSteps:
        """Read the marks between blocks, until there is text. `called` means that the block before it had calls."""
        marks, gap = self.marks, ""
        while True:
            self.cursor.begin_block("")
            hit = yield marks.between
            mark = hit.mark
            if not mark:
                self.collector.add_text(gap if hit.end else gap + hit.before)
                return
            if mark in self._pending_ends:
                self._pending_ends.remove(mark)
                gap = ""
            elif mark in marks.row.separators and not gap.strip():
                gap += hit.before + mark
            elif mark in marks.thoughts:
                yield from self._read_thought(mark)
                gap = ""
            elif mark in marks.block_begins or (mark in marks.calls and self._pending_ends):
                called = yield from self._read_block(mark, gap + hit.before)
                gap = ""
            elif mark == marks.head:
                if not (yield from self._skip_head(gap)):
                    return
                gap = ""
            elif mark in marks.noise_between or (called and mark in marks.closings):
                gap = ""
            else:
                self.collector.add_text(gap + hit.before + mark)
                return

    def _skip_head(self, gap: str) -> ReadSteps:
        """Skip a message head that names its recipient. Return False if it is ordinary text."""
        head = yield self.marks.after_head
        if head.mark != self.marks.head_end or _NAME.fullmatch(head.before) is None:
            self.collector.add_text(gap + self.cursor.block_text())
            return False
        if head.before == "self":
            yield from self._read_thought()
        return True

    def _read_thought(self, begin: str = "") -> ReadSteps:
        """Read a thought until its end. A call inside of it is held back until the end is known."""
        marks = self.marks.thoughts.get(begin, self.marks.any_thought)
        self._on_text = self.collector.add_thought
        hit = yield marks.inside
        self._on_text = self.collector.add_text
        if hit.end or hit.mark in marks.ends:
            self.collector.end_part()
            return
        self.cursor.begin_block(hit.mark)
        remainder = yield marks.end
        text = hit.mark + remainder.before
        if remainder.end and self.whole and self._ends_with_call(text):
            self.cursor.rewind_to(0)
        else:
            self.collector.add_thought(text)
        self.collector.end_part()

    def _ends_with_call(self, text: str) -> bool:
        """Return True if an unclosed thought ends with a call, so that the call counts."""
        inner = TextReader(self.marks, CallBuilder(self.offer), self.offer, self.given)
        inner.feed(text)
        inner.close()
        return inner.collector.ends_with_call

    def _read_block(self, mark: str, gap: str) -> ReadSteps:
        """Read one block with its sections. Return True if it has calls."""
        marks, first_mark = self.marks, mark
        self.cursor.begin_block(mark)
        open_sections: dict[str, str] = {}
        while mark in marks.sections:
            open_sections[mark] = marks.section_ends.get(mark, "")
            if not marks.calls:
                break
            hit = yield marks.inner
            if hit.mark == open_sections[mark] and hit.mark:
                self._pending_ends += [end for end in open_sections.values() if end and end != hit.mark]
                return False
            if not hit.mark or hit.mark in open_sections or hit.mark in marks.ends:
                return self._treat_as_text(first_mark, gap)
            mark = hit.mark
        self.state.body_start = self.cursor.length
        items = yield from marks.engine.read(self.state, mark)
        if items is None:
            return self._treat_as_text(first_mark, gap)
        called = self.add_items(items, self.cursor.block_text(), gap)
        if called:
            self._pending_ends += [end for end in reversed(open_sections.values()) if end]
        return called

    def _treat_as_text(self, first_mark: str, gap: str) -> bool:
        """Treat the first mark of a block as text, and read on after it. Return False.

        Models stop after a begin mark without a call. At the end of the text, such a mark is removed.
        """
        if self.cursor.is_at_end and self.marks.only_begins.fullmatch(self.cursor.block_text()) is not None:
            return False
        self.cursor.rewind_to(len(first_mark))
        self.collector.add_text(gap + first_mark)
        return False

    def add_items(self, items: list[BlockItem], text: str, gap: str = "") -> bool:
        """Add the items of a block. Return False if it has no calls; the block is then added as text."""
        calls = [item for item in items if self._is_call(item)]
        if not calls or self.given.contains(text):
            self.collector.add_text(gap + text)
            return False
        for item in items:
            if self._is_call(item):
                self.collector.add_call(self._call_of(item))
                self.cut = item.is_cut
            else:
                self.collector.add_text(item.text)
        return True

    def _is_call(self, item: BlockItem) -> bool:
        """Return True if the item is a call of an offered tool."""
        name = item.name
        if name is None or (self.offer is None and _NAME.fullmatch(name) is None):
            return False
        return self.state.is_offered(self.state.resolve_name(name))

    def _call_of(self, item: BlockItem) -> ToolCall:
        """Return the item as a call, which cannot run if the item has a problem."""
        builder, name = self.collector.builder, self.state.resolve_name(item.name or "")
        if item.problem:
            code: Any = "incomplete" if item.is_cut else "invalid_arguments"
            error = builder.make_error(code, item.problem, item.text, name, item.id)
            return error.as_call()
        arguments = item.arguments
        if arguments is None or (type(arguments) is str and arguments.strip() in {"", "null"}):
            arguments = {}
        result = builder.build(name, arguments, item.id, item.text)
        if isinstance(result, CallError):
            return result.as_call()
        return unwrap_call(result, self.state.tool(name), item.text, is_typed=self.marks.row.shape != "elements")
