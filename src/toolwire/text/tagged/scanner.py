"""Scan a text while it arrives: the text that the user may see at once, and the blocks of calls.

Rules of this file:
- The result does not depend on how the text is split into pieces, and contains every character of it.
- A line is held back only while it may still begin a block, which is for a few characters.
- Blank lines around blocks belong to the blocks, so that an answer of calls alone has no other text.
- A block without an end is not whole. A zone (code, a thought, a comment) contains no blocks.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from toolwire.text.tagged.forms import FUNCTION, MAX_PADDING, PROTOCOL, TAG, TAG_END, Form
from toolwire.text.tagged.zones import BLANK, Zone, may_matter, zone_of

_MAX_BLANK_LINES = 64
# The first characters of a line that may be blank, or may open a block or a zone.
_BEGINNINGS = frozenset("~`<{ \t\r\n")
_THOUGHTS = ("<think>", "<thinking>")
# The state of the current line: it is held back; shown and checked for zones; only shown; part of a block.
_HELD, CHECKED, SHOWN, _IN_BLOCK = range(4)


class Block(NamedTuple):
    """A block: its form, its full text, its body, and whether it has its end."""

    form: str
    text: str
    body: str
    whole: bool = True


ScannedItem = str | Block


def _never(_text: str) -> bool:
    return False


class Scanner:
    """Scans a text in pieces.

    - `is_call`: returns True if a complete text is a call, for the forms that have no end mark.
    - `is_quoted`: returns True if a block repeats the model's input. Such a block is text.
    """

    def __init__(
        self,
        forms: Sequence[Form] = PROTOCOL,
        is_call: Callable[[str], bool] = _never,
        is_quoted: Callable[[str], bool] = _never,
    ) -> None:
        self._forms = [form for form in forms if not form.needs_whole_text]
        self._whole_text_forms = [form for form in forms if form.needs_whole_text]
        self._is_call = is_call
        self._is_quoted = is_quoted
        self._zone: Zone | None = None
        self._form: Form | None = None
        self._lines: list[str] = []
        self._leading_blank_lines = 0
        self._blank_lines: list[str] = []
        self._pending: Block | None = None
        self._line: list[str] = []
        self._state = _HELD
        self._no_text_since_block = True
        self._may_stand_alone = True
        self._items: list[ScannedItem] = []
        self._pieces: list[str] = []

    def feed(self, text: str) -> list[ScannedItem]:
        """Return the items of a piece of the text."""
        if self._state == SHOWN and "\n" not in text:
            return [text] if text else []
        self._items, start = [], 0
        while start < len(text):
            end = text.find("\n", start) + 1 or len(text)
            self._read_piece(text[start:end])
            start = end
        self._emit_text()
        return self._items

    def close(self, *, whole: bool = True) -> list[ScannedItem]:
        """Return the remaining items. If the text was cut off, its last line does not end a block."""
        self._items = []
        line = "".join(self._line)
        if self._form is not None and self._form.needs_whole_text:
            self._settle(whole=whole)
        elif self._form is not None:
            self._lines.append(line)
            self._end_block(whole=whole and bool(line) and self._form.closes(line))
        elif self._state == _HELD and line:
            self._end_held(line)
        blank, self._blank_lines = "".join(self._blank_lines), []
        if self._pending is not None:
            self._emit_pending(blank)
        elif blank:
            self._add_text(blank)
        self._emit_text()
        return self._items

    def _read_piece(self, piece: str) -> None:
        """Read a piece of the current line."""
        if self._state != SHOWN:
            self._line.append(piece)
        if self._state == _HELD:
            self._decide()
        elif self._state != _IN_BLOCK:
            self._add_text(piece)
        if piece[-1] == "\n":
            self._end_line()

    def _decide(self) -> None:
        """Decide the state of the current line, if enough of it has arrived."""
        line_start = "".join(self._line)
        if line_start[0] not in _BEGINNINGS or (line_start == "\n" and not self._no_text_since_block):
            self._state = SHOWN
            self._add_text(line_start)
            return
        line = line_start.removesuffix("\n")
        is_undecided, ended = False, line != line_start
        for form in (*self._forms, *(self._whole_text_forms if self._may_stand_alone else ())):
            opens = form.opens(line, ended)
            if opens:
                self._open(form)
                return
            is_undecided = is_undecided or opens is None
        if not is_undecided and not (self._no_text_since_block and _is_blank(line)):
            self._state = CHECKED if may_matter(line) else SHOWN
            self._add_text(line_start)

    def _open(self, form: Form) -> None:
        """Begin a block. The blank lines before it belong to the previous block, or to this one."""
        blank, self._blank_lines = self._blank_lines, []
        if self._pending is not None:
            self._emit_pending("".join(blank))
            blank = []
        self._form, self._lines, self._leading_blank_lines, self._state = form, blank, len(blank), _IN_BLOCK

    def _end_line(self) -> None:
        line, self._line = "".join(self._line), []
        bare = line.removesuffix("\n")
        if self._form is not None:
            self._lines.append(line)
            if self._form.closes(bare):
                self._end_block(whole=True)
        elif self._zone is not None:
            if self._zone.ends(bare):
                self._zone = None
        elif self._state == _HELD:
            self._keep_blank(line)
        else:
            self._zone = zone_of(bare) if self._state == CHECKED else None
            self._may_stand_alone = self._may_stand_alone and (_is_blank(bare) or _is_thought(bare))
        self._state = _IN_BLOCK if self._form else CHECKED if self._zone else _HELD

    def _keep_blank(self, line: str) -> None:
        self._blank_lines.append(line)
        if len(self._blank_lines) > _MAX_BLANK_LINES:
            blank, self._blank_lines = "".join(self._blank_lines), []
            self._add_text(blank)

    def _end_held(self, line: str) -> None:
        """End a last line without a line break. It may be blank, or be the start of a block."""
        form = next((form for form in self._forms if form.opens(line, True)), None)
        if form is not None:
            self._open(form)
            if self._form is not None:
                self._lines.append(line)
                self._end_block(whole=False)
        elif self._no_text_since_block and _is_blank(line):
            self._blank_lines.append(line)
        else:
            self._add_text(line)

    def _end_block(self, *, whole: bool) -> None:
        form, lines = self._form, self._lines
        body = _body_of(form.name, lines[self._leading_blank_lines :], whole=whole) if form is not None else ""
        self._pending = Block(form.name if form is not None else "", "".join(lines), body, whole)
        self._form, self._lines, self._no_text_since_block, self._may_stand_alone = None, [], True, False

    def _settle(self, *, whole: bool) -> None:
        """Decide whether a complete text is a call. If it is not, scan it for other blocks."""
        text = "".join([*self._lines, *self._line])
        self._form, self._lines = None, []
        if whole and self._is_call(text) and not self._is_quoted(text):
            self._items.append(Block("bare_json", text, text))
            return
        inner = Scanner(self._forms, is_quoted=self._is_quoted)
        self._items = inner.feed(text)
        self._items = join([*self._items, *inner.close(whole=whole)])

    def _emit_pending(self, tail: str) -> None:
        if self._pending is None:
            return
        block, self._pending = self._pending._replace(text=self._pending.text + tail), None
        if self._is_quoted(block.text):
            self._pieces.append(block.text)
            return
        self._emit_text()
        self._items.append(block)

    def _add_text(self, text: str) -> None:
        """Add text. Blank lines before it are added too, unless they follow a block."""
        blank, self._blank_lines = "".join(self._blank_lines), []
        if self._pending is not None:
            self._emit_pending(blank)
            blank = ""
        self._no_text_since_block = False
        self._pieces += (blank, text)

    def _emit_text(self) -> None:
        text, self._pieces = "".join(self._pieces), []
        if text:
            self._items.append(text)


def _is_blank(line: str) -> bool:
    """Return True if a line is blank. A very long line of white space counts as text."""
    return len(line) <= MAX_PADDING and not line.strip(BLANK)


def _is_thought(line: str) -> bool:
    """Return True if a line begins a thought and contains nothing else."""
    bare = line.strip(BLANK).lower()
    return bare.startswith(_THOUGHTS) and ("</" not in bare or bare.endswith(("</think>", "</thinking>")))


def join(items: list[ScannedItem]) -> list[ScannedItem]:
    """Join consecutive pieces of text."""
    joined: list[ScannedItem] = []
    pieces: list[str] = []
    for item in items:
        if isinstance(item, Block):
            joined += ["".join(pieces), item] if pieces else [item]
            pieces = []
        else:
            pieces.append(item)
    return [*joined, "".join(pieces)] if pieces else joined


def _body_of(form: str, lines: list[str], *, whole: bool) -> str:
    """Return the text between the beginning and the end of a block."""
    if form == "fence":
        return "".join(lines[1:-1] if whole else lines[1:])
    body = "".join(lines).strip(BLANK + "\n")
    if form == "tool_call_tag":
        body = body.removeprefix(TAG)
        return body.removesuffix(TAG_END) if whole else body
    return body if body.startswith(FUNCTION) else ""


def scan(text: str, scanner: Scanner, *, whole: bool = True) -> list[ScannedItem]:
    """Return the items of a complete text."""
    items = scanner.feed(text)
    return join([*items, *scanner.close(whole=whole)])
