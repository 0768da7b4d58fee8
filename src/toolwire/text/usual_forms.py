"""Read the calls that models of local servers usually write in their text, in several formats at once.

Local servers (ollama, vLLM, llama.cpp, LM Studio) parse the calls of a model only if they know its format or are told
its parser (https://docs.vllm.ai/en/latest/features/tool_calling.html). Otherwise the calls arrive as text.

Rules of this file:
- The formats of the model's name come first, then the forms that many models share.
- A form with a mark of its own (`<tool_call>`, `[TOOL_CALLS]`, `<|python_tag|>`, `<function=...>`) is read anywhere.
- A form without one (a JSON object, a fenced one, `[f(x=1)]`, `f(x=1)`) is ambiguous beside other text: an answer may
  show an example. It is read only if the whole text consists of calls.
- A quotation of the input is no call, and neither is anything in a closed thought.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from toolwire.text.block_items import BlockItem
from toolwire.text.calls import CallBuilder, Offer, make_offer
from toolwire.text.detecting import detect
from toolwire.text.format import Format
from toolwire.text.looks import is_sole_call, look_of_call
from toolwire.text.quoting import GivenTexts
from toolwire.text.reader import TextItem, TextReader
from toolwire.text.rows import Row, bare_mark, resolve_row, rows
from toolwire.text.tagged.call_blocks import with_block
from toolwire.types import ToolCall

_SHARED_MARKS = {"like": "hermes", "also": [["[TOOL_CALLS]", ""], ["<|python_tag|>", ""]], "turns": ""}
_MARKED_FORMS: tuple[Any, ...] = (_SHARED_MARKS, "qwen3-coder", "llama-function", "mistral")
_BARE_FORMS: tuple[str, ...] = ("xlam", "pythonic")
_BARE_MARKS = frozenset("{[")
_SHORTEST_MARK = 3


class _BlockTextReader(TextReader):
    """A reader whose calls carry the text that they were read from."""

    def add_items(self, items: list[BlockItem], text: str, gap: str = "") -> bool:
        """Add the items of a block. The first call carries the block's text, the others an empty one.

        The end mark of the block follows its calls, and is removed when it arrives, so it is added to that text here.
        """
        start = len(self.collector.items)
        added = super().add_items(items, text, gap)
        text += next((end for begin, end in self.marks.section_ends.items() if text.startswith(begin)), "")
        for index, item in enumerate(self.collector.items[start:], start):
            if isinstance(item, ToolCall):
                self.collector.items[index] = with_block(item, text)
                text = ""
        return added


class _WholeTextReader:
    """Reads a text as calls if it consists of nothing else. Otherwise it stays text, unchanged."""

    def __init__(self, reader: TextReader) -> None:
        self._reader = reader
        self._pieces: list[str] = []
        self._has_text = False
        self._calls: list[TextItem] = []
        self._is_plain = False

    def feed(self, text: str) -> list[TextItem]:
        """Return the items of a piece of the text: none while the text may still consist of calls."""
        if self._is_plain:
            return [text]
        self._pieces.append(text)
        self._has_text = self._has_text or not text.isspace()
        return self._collect(self._reader.feed(text))

    def close(self, *, whole: bool = True) -> list[TextItem]:
        """Return the remaining items. Pass `whole=False` if the answer was cut off."""
        if self._is_plain:
            return []
        items = self._collect(self._reader.close(whole=whole))
        if self._is_plain:
            return items
        self._is_plain = True
        return self._calls or self._held_text()

    def pass_item(self, item: TextItem) -> list[TextItem]:
        """Return the item with the text before it. After text or a call, what follows is not the whole answer."""
        if self._is_plain or not (self._has_text or isinstance(item, ToolCall)):
            return [item]
        self._is_plain = True
        return [*self._held_text(), item]

    def _held_text(self) -> list[TextItem]:
        text, self._pieces = "".join(self._pieces), []
        return [text] if text else []

    def _collect(self, items: Iterable[TextItem]) -> list[TextItem]:
        for item in items:
            if isinstance(item, str) and item.strip():
                self._is_plain = True
            elif isinstance(item, ToolCall):
                self._calls.append(item)
        return self._held_text() if self._is_plain else []


class _ExpressionReader(_WholeTextReader):
    """Reads a text as a call if it is one call expression, `f(x=1)`: the only item of a list without its brackets."""

    def __init__(self, reader: TextReader, offer: Offer, given: GivenTexts) -> None:
        super().__init__(reader)
        self._begins = tuple(f"{name}(" for name in offer)
        self._given = given
        self._has_begun = False

    def feed(self, text: str) -> list[TextItem]:
        """Return the items of a piece of the text: none while the text may still be a call."""
        if self._is_plain or self._has_begun:
            return super().feed(text)
        self._pieces.append(text)
        begin = "".join(self._pieces).lstrip()
        self._has_text = begin != ""
        if begin.startswith(self._begins):
            self._has_begun = True
            return self._collect(self._reader.feed(f"[{begin}"))
        self._is_plain = not any(one.startswith(begin) for one in self._begins)
        return self._held_text() if self._is_plain else []

    def close(self, *, whole: bool = True) -> list[TextItem]:
        """Return the remaining items. Pass `whole=False` if the answer was cut off."""
        if self._is_plain:
            return []
        self._is_plain, text = True, "".join(self._pieces)
        if not (self._has_begun and whole and text.rstrip().endswith(")")) or self._given.contains(text):
            return self._held_text()
        items = [item for item in (*self._reader.feed("]"), *self._reader.close()) if item]
        are_calls = bool(items) and all(isinstance(item, ToolCall) and item.runs for item in items)
        return [*items] if are_calls else self._held_text()


class ChainReader:
    """Reads a text in stages: each stage reads what the stages before it have left as text."""

    def __init__(self, first: Any, stages: Sequence[Callable[[], Any]]) -> None:
        self._first = first
        self._makers = stages
        self._stages: list[Any] = [make() for make in stages]

    def feed(self, text: str) -> list[TextItem]:
        """Return the items of a piece of the text."""
        return self._through(self._first.feed(text), 0)

    def close(self, *, whole: bool = True) -> list[TextItem]:
        """Return the remaining items. Pass `whole=False` if the answer was cut off."""
        items = self._through(self._first.close(whole=whole), 0)
        for index, stage in enumerate(self._stages):
            items += self._through(stage.close(whole=whole), index + 1)
        return items

    def _through(self, items: Iterable[TextItem], index: int) -> list[TextItem]:
        """Return `items` as the stages from `index` on read them."""
        if index == len(self._stages):
            return list(items)
        read: list[TextItem] = []
        for item in items:
            read += self._read_item(item, index)
        return read

    def _read_item(self, item: TextItem, index: int) -> list[TextItem]:
        stage = self._stages[index]
        if isinstance(item, str):
            return self._through(stage.feed(item), index + 1)
        if isinstance(stage, _WholeTextReader):
            return self._through(stage.pass_item(item), index + 1)
        items = self._through([*stage.close(), item], index + 1)
        self._stages[index] = self._makers[index]()
        return items


class UsualForms:
    """The formats of a model's name and the usual forms, as the stages of a `ChainReader`."""

    def __init__(self, model: str | None) -> None:
        own = [rows()[name] for name in detect(model=model).names] if model else []
        marked = [row for one in own if (row := _marked_only(one)) is not None]
        marked += [replace(resolve_row(form), noise=(), turns="") for form in _MARKED_FORMS]
        bare = [row for row in (*own, *map(resolve_row, _BARE_FORMS)) if _is_bare(row)]
        self._marked: list[Format] = [Format(row) for row in dict.fromkeys(marked)]
        self._expression: Format = Format(resolve_row("pythonic"))
        self._bare: list[Format] = [Format(replace(row, thinking=None)) for row in dict.fromkeys(bare)]

    def stages(self, builder: CallBuilder, offer: Offer | None, given: GivenTexts) -> list[Callable[[], Any]]:
        """Return functions that make the readers, in their order."""

        def make(text_format: Format) -> TextReader:
            return _BlockTextReader(text_format.marks, builder, offer, given)

        def make_whole(text_format: Format) -> _WholeTextReader:
            return _WholeTextReader(make(text_format))

        def make_expression() -> _ExpressionReader:
            return _ExpressionReader(make(self._expression), offer or {}, given)

        stages: list[Callable[[], Any]] = [partial(make, one) for one in self._marked]
        return [*stages, *(partial(make_whole, one) for one in self._bare), make_expression]


def unread_formats(text: str, model: str | None, tools: Iterable[Any], given: Iterable[str]) -> tuple[str, ...] | None:
    """Return the names of the formats in which an answer has calls of offered tools. Return None if it has no call.

    If one of them is a format of `model`, the others are left out. They are empty if the whole answer is a call in a
    form that no format has. A quotation of the input is no call.
    """
    offer = make_offer(tools) or {}
    if not any(name in text for name in offer):
        return None
    given_texts = GivenTexts(given)
    names: list[str] = []
    if look_of_call(text) is not None or _has_mark(text) or _has_usual_calls(text, model, offer, given_texts):
        names = [name for name in detect(text, tools=tools).names if _reads_calls(name, text, tools, given_texts)]
    if not names:
        return () if is_sole_call(text, offer) and not given_texts.contains(text.strip()) else None
    own = detect(model=model).names if model else ()
    return tuple(name for name in names if name in own) or tuple(names)


def _has_mark(text: str) -> bool:
    """Return True if a text has a mark with which calls of some format begin."""
    begins = (begin for row in rows().values() for begin in (*(pair[0] for pair in row.pairs), *row.call[:1]))
    marks = {bare_mark(begin) for begin in begins}
    return any(mark in text for mark in marks if len(mark) > _SHORTEST_MARK and not mark.startswith("`"))


def _reads_calls(name: str, text: str, tools: Iterable[Any], given: GivenTexts) -> bool:
    offer = make_offer(tools)
    reader = TextReader(Format(rows()[name]).marks, CallBuilder(offer), offer, given)
    return any(isinstance(item, ToolCall) for item in (*reader.feed(text), *reader.close()))


def _has_usual_calls(text: str, model: str | None, offer: Offer, given: GivenTexts) -> bool:
    """Return True if a text has calls in the formats of `model` or in a usual form."""
    first, *others = UsualForms(model).stages(CallBuilder(offer), offer, given)
    chain = ChainReader(first(), others)
    return any(isinstance(item, ToolCall) for item in (*chain.feed(text), *chain.close()))


def _is_bare(row: Row) -> bool:
    """Return True if calls of this format may begin without a mark of their own."""
    return row.loose and not _BARE_MARKS.isdisjoint(Format(row).marks.calls)


def _marked_only(row: Row) -> Row | None:
    """Return the row without the calls that begin without a mark, or None if it has no others."""
    if not _is_bare(row):
        return row
    return replace(row, loose=False) if row.pairs else None
