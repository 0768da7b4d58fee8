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
from toolwire.text.calls import Answer, CallError, Offer
from toolwire.text.cursor import Cursor, Find, Reading
from toolwire.text.heard import Heard, Scene, entries_of, exits_of
from toolwire.text.quoting import Given
from toolwire.text.rows import Row, core, spelled, turns_of
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


Found = str | Thinking | ToolCall | None
"""What is heard in a text: words, a piece of a thought, a call, or (None) that what was told last is over."""


class _Hearing:
    """What was heard since it was last taken."""

    def __init__(self, answer: Answer) -> None:
        self.answer: Answer = answer
        self.found: list[Found] = []
        self.ends_with_call = False

    def say(self, text: str) -> None:
        """Hear some words."""
        if text:
            self.found.append(text)
            self.ends_with_call = False

    def think(self, text: str) -> None:
        """Hear some of a thought."""
        if text:
            self.found.append(Thinking(text))
            self.ends_with_call = False

    def end_part(self) -> None:
        """Hear that words or a thought are over."""
        self.found.append(None)

    def call(self, call: ToolCall) -> None:
        """Hear a whole call, or one that is broken."""
        self.found.append(call)
        self.ends_with_call = call.complete

    def take(self) -> list[Found]:
        """Give it."""
        found, self.found = self.found, []
        return found


class TextStream:
    """Reads a text as canonical events."""

    def __init__(self, listener: "Listener") -> None:
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

    def _tell(self, found: Iterable[Found]) -> list[Event]:
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


class Marked:
    """What a format's row means for reading, made once."""

    def __init__(self, row: Row) -> None:
        self.row: Row = row
        self.engine: Any = ENGINES[row.shape]
        self.calls: tuple[str, ...] = self.engine.begins(row)
        self.exits: dict[str, str] = exits_of(row)
        self.sections: frozenset[str] = frozenset(entries_of(row))
        loose = self.calls if row.loose else ()
        self.entries: tuple[str, ...] = tuple(dict.fromkeys((*entries_of(row), *loose)))
        begin, end, *others = row.thinking or ("", "")
        thoughts = (*spelled(begin), *others) if begin else ()
        self.head: str
        self.head_end: str
        self.head, _, self.head_end = row.head.partition("{}")
        self.after_head: Find = Find((self.head_end, " ", "\n"))
        joined = tuple(row.before + entry for entry in self.entries) if row.before else ()
        ends = tuple(end for end in self.exits.values() if end)
        stop = core(turns_of(row.turns).get("assistant", ("", ""))[1])
        self.noise: frozenset[str] = frozenset((*row.noise, *((stop,) if stop and stop != _STRUCK else ())))
        self.outside: Find = Find((*self.entries, *joined, *thoughts, *ends, *self.noise), tells=True)
        self.opening: Find = Find(thoughts, near=True)
        self.thought_ends: frozenset[str] = frozenset(spelled(end)) if begin else frozenset()
        self.noise_between: frozenset[str] = self.noise | self.thought_ends
        self.closings: frozenset[str] = frozenset((*ends, *map(core, row.call[2:])))
        near = (*self.entries, *self.calls, *self.closings, *thoughts, *self.noise_between, *row.separators, self.head)
        self.between: Find = Find(near, near=True)
        self.inner: Find = Find((*entries_of(row), *self.calls), near=True)
        self.thoughts: frozenset[str] = frozenset(thoughts)
        marks = tuple(entry for entry in self.entries if len(entry) > 1)
        self.inside_thought: Find = Find((*self.thought_ends, *marks), tells=True)
        self.thought_end: Find = Find(self.thought_ends)
        self.finds: dict[str, Find] = {}
        self.ends = ends
        self.begins: tuple[str, ...] = tuple(entry for entry in (*entries_of(row), *self.calls) if len(entry) > 1)


class Listener:
    """Hears a text of one format. `given` is what the model was given; with `thinking` it begins in a thought."""

    def __init__(
        self,
        marked: Marked,
        answer: Answer,
        offer: Offer | None,
        given: Given | Iterable[str] = (),
        *,
        thinking: bool = False,
    ) -> None:
        self.marked: Marked = marked
        self.teller: _Hearing = _Hearing(answer)
        self.offer: Offer | None = offer
        self.given: Given = given if isinstance(given, Given) else Given(given)
        self.cursor: Cursor = Cursor(self._say)
        self.scene: Scene = Scene(marked.row, self.cursor, offer, marked.begins, marked.ends, marked.finds)
        self._tell: Any = self.teller.say
        self._pending: list[str] = []
        self.whole: bool = True
        self.cut: bool = False
        self._thinking = thinking
        self._begun = False

    def feed(self, text: str) -> list[Found]:
        """Give what is heard with a piece of the text."""
        self._begin()
        self.cursor.feed(text)
        return self.teller.take()

    def close(self, *, whole: bool = True) -> list[Found]:
        """Give what is left; an answer that was cut off is not `whole`."""
        self._begin()
        self.whole = self.scene.whole = whole
        self.cursor.close()
        return self.teller.take()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            run = getattr(self.marked.engine, "run", None)
            self.cursor.start(self._read() if run is None else run(self))

    def _say(self, text: str) -> None:
        self._tell(text)

    def tells(self, tell: Any) -> None:
        """Say what becomes of the words that are passed over."""
        self._tell = tell

    def _read(self) -> Reading:
        if self._thinking:
            self.cursor.begin("")
            if not (yield self.marked.opening).mark:
                self.cursor.give_back(0)
            yield from self._think()
        yield from self._go_on()
        while True:
            found = yield self.marked.outside
            if found.end:
                return
            mark, called = core(found.mark), False
            if found.mark in self.marked.thoughts:
                yield from self._think()
            elif mark in self._pending:
                self._pending.remove(mark)
            elif mark in self.marked.entries:
                called = yield from self._block(mark, found.mark.removesuffix(mark))
            elif mark not in self.marked.noise:
                self.teller.say(found.mark)
                continue
            yield from self._go_on(called=called)

    def _go_on(self, *, called: bool = False) -> Reading:
        """Read what stands between calls, until there are words."""
        marked, gap = self.marked, ""
        while True:
            self.cursor.begin("")
            found = yield marked.between
            mark = found.mark
            if not mark:
                self.teller.say(gap if found.end else gap + found.before)
                return
            if mark in self._pending:
                self._pending.remove(mark)
                gap = ""
            elif mark in marked.row.separators and not gap.strip():
                gap += found.before + mark
            elif mark in marked.thoughts:
                yield from self._think()
                gap = ""
            elif mark in marked.entries or (mark in marked.calls and self._pending):
                called = yield from self._block(mark, gap + found.before)
                gap = ""
            elif mark == marked.head:
                if not (yield from self._pass_head(gap)):
                    return
                gap = ""
            elif mark in marked.noise_between or (called and mark in marked.closings):
                gap = ""
            else:
                self.teller.say(gap + found.before + mark)
                return

    def _pass_head(self, gap: str) -> Reading:
        """Pass a head that says for whom the message is; False where it is none, but words."""
        head = yield self.marked.after_head
        if head.mark != self.marked.head_end:
            self.teller.say(gap + self.cursor.text())
            return False
        if head.before == "self":
            yield from self._think()
        return True

    def _think(self) -> Reading:
        """Read a thought until its end; a call in it waits until that is known."""
        marked = self.marked
        self._tell = self.teller.think
        found = yield marked.inside_thought
        self._tell = self.teller.say
        if found.end or found.mark in marked.thought_ends:
            self.teller.end_part()
            return
        self.cursor.begin(found.mark)
        rest = yield marked.thought_end
        text = found.mark + rest.before
        if rest.end and self.whole and self._ends_with_call(text):
            self.cursor.give_back(0)
        else:
            self.teller.think(text)
        self.teller.end_part()

    def _ends_with_call(self, text: str) -> bool:
        inner = Listener(self.marked, Answer(self.offer), self.offer, self.given)
        inner.feed(text)
        inner.close()
        return inner.teller.ends_with_call

    def _block(self, mark: str, gap: str) -> Reading:
        """Read one block: sections, and what stands in them; say whether it calls."""
        marked, first = self.marked, mark
        self.cursor.begin(mark)
        opened: dict[str, str] = {}
        while mark in marked.sections:
            opened[mark] = marked.exits.get(mark, "")
            if not marked.calls:
                break
            found = yield marked.inner
            if not found.mark or found.mark in opened:
                return self._refuse(first, gap)
            mark = found.mark
        self.scene.body = self.cursor.length
        heard = yield from marked.engine.read(self.scene, mark)
        if heard is None:
            return self._refuse(first, gap)
        called = self.tell_heard(heard, self.cursor.text(), gap)
        if called:
            self._pending += [end for end in reversed(opened.values()) if end]
        return called

    def _refuse(self, first: str, gap: str) -> bool:
        """Take what begins like a block for words."""
        self.cursor.give_back(len(first))
        self.teller.say(gap + first)
        return False

    def tell_heard(self, heard: list[Heard], text: str, gap: str = "") -> bool:
        """Tell what a block says; False where it says nothing but words, which are told as they stand."""
        wanted = [each for each in heard if self._is_call(each)]
        if not wanted or self.given.has(text):
            self.teller.say(gap + text)
            return False
        for each in heard:
            if self._is_call(each):
                self.teller.call(self._call_of(each))
                self.cut = each.cut
            else:
                self.teller.say(each.text)
        return True

    def _is_call(self, heard: Heard) -> bool:
        name = heard.name
        if name is None or (self.offer is None and _NAME.fullmatch(name) is None):
            return False
        return self.scene.is_offered(self.scene.known(name))

    def _call_of(self, heard: Heard) -> ToolCall:
        answer, name = self.teller.answer, self.scene.known(heard.name or "")
        if heard.problem:
            code: Any = "incomplete" if heard.cut else "invalid_arguments"
            error = answer.refuse(code, heard.problem, heard.text, name, heard.id)
            return error.as_call()
        arguments = heard.arguments
        if arguments is None or (type(arguments) is str and arguments.strip() in {"", "null"}):
            arguments = {}
        read = answer.admit(name, arguments, heard.id, heard.text)
        return read.as_call() if isinstance(read, CallError) else read
