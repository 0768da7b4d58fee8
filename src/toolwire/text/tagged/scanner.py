"""A text as it arrives: what the user may see of it at once, and the blocks that stand for calls.

Rules of this file:
- However the text is cut, what is found in it is the same; and every character of it is in what is found.
- A line is held back only for as long as it may still begin a block, which is for a few characters.
- Blank lines around blocks belong to the blocks, so that an answer of calls alone says nothing else.
- A block that nothing ended is not whole. Nothing in a zone (code, a thought, a comment) is a block.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from toolwire.text.tagged.forms import FUNCTION, MAX_PADDING, PROTOCOL, TAG, TAG_END, Form
from toolwire.text.tagged.zones import BLANK, Zone, may_matter, zone_of

_MAX_BLANK_LINES = 64
# What a line begins with that may be blank, or open a block or a zone.
_BEGINNINGS = frozenset("~`<{ \t\r\n")
_THOUGHTS = ("<think>", "<thinking>")
# What becomes of the present line: it waits, it is shown and read, it is shown, it is part of a block.
_HELD, READ, SHOWN, _KEPT = range(4)


class Block(NamedTuple):
    """What stands for a call: its text with everything around it, and the body alone."""

    form: str
    text: str
    body: str
    whole: bool = True


ScannedItem = str | Block


def _never(_text: str) -> bool:
    return False


class Scanner:
    """Takes a text in pieces. `is_call` says of a whole text whether it is a call, where a form asks that.

    `is_quoted` says of a block that the model was given it: then it is words.
    """

    def __init__(
        self,
        forms: Sequence[Form] = PROTOCOL,
        is_call: Callable[[str], bool] = _never,
        is_quoted: Callable[[str], bool] = _never,
    ) -> None:
        self._forms = [form for form in forms if not form.alone]
        self._alone = [form for form in forms if form.alone]
        self._is_call = is_call
        self._is_quoted = is_quoted
        self._zone: Zone | None = None
        self._form: Form | None = None
        self._lines: list[str] = []
        self._leading = 0
        self._blank: list[str] = []
        self._pending: Block | None = None
        self._line: list[str] = []
        self._state = _HELD
        self._fresh = True
        self._first = True
        self._found: list[ScannedItem] = []
        self._words: list[str] = []

    def feed(self, text: str) -> list[ScannedItem]:
        """Give what is found with this piece."""
        if self._state == SHOWN and "\n" not in text:
            return [text] if text else []
        self._found, place = [], 0
        while place < len(text):
            end = text.find("\n", place) + 1 or len(text)
            self._read_piece(text[place:end])
            place = end
        self._emit_words()
        return self._found

    def close(self, *, whole: bool = True) -> list[ScannedItem]:
        """Give what is left; a text that was cut off has no last line that could end a block."""
        self._found = []
        line = "".join(self._line)
        if self._form is not None and self._form.alone:
            self._settle(whole=whole)
        elif self._form is not None:
            self._lines.append(line)
            self._end_block(whole=whole and bool(line) and self._form.closes(line))
        elif self._state == _HELD and line:
            self._end_held(line)
        blank, self._blank = "".join(self._blank), []
        if self._pending is not None:
            self._emit_pending(blank)
        elif blank:
            self._add_text(blank)
        self._emit_words()
        return self._found

    def _read_piece(self, piece: str) -> None:
        """Take a piece of the present line, or the last one of it."""
        if self._state != SHOWN:
            self._line.append(piece)
        if self._state == _HELD:
            self._decide()
        elif self._state != _KEPT:
            self._add_text(piece)
        if piece[-1] == "\n":
            self._end_line()

    def _decide(self) -> None:
        """Say what becomes of the present line, if that can be said by now."""
        held = "".join(self._line)
        if held[0] not in _BEGINNINGS or (held == "\n" and not self._fresh):
            self._state = SHOWN
            self._add_text(held)
            return
        line = held.removesuffix("\n")
        waits, ended = False, line != held
        for form in (*self._forms, *(self._alone if self._first else ())):
            opens = form.opens(line, ended)
            if opens:
                self._open(form)
                return
            waits = waits or opens is None
        if not waits and not (self._fresh and _is_blank(line)):
            self._state = READ if may_matter(line) else SHOWN
            self._add_text(held)

    def _open(self, form: Form) -> None:
        """Begin a block; the blank lines before it belong to the block before it, or to it."""
        blank, self._blank = self._blank, []
        if self._pending is not None:
            self._emit_pending("".join(blank))
            blank = []
        self._form, self._lines, self._leading, self._state = form, blank, len(blank), _KEPT

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
            self._zone = zone_of(bare) if self._state == READ else None
            self._first = self._first and (_is_blank(bare) or _is_thought(bare))
        self._state = _KEPT if self._form else READ if self._zone else _HELD

    def _keep_blank(self, line: str) -> None:
        self._blank.append(line)
        if len(self._blank) > _MAX_BLANK_LINES:
            blank, self._blank = "".join(self._blank), []
            self._add_text(blank)

    def _end_held(self, line: str) -> None:
        """End a last line that nothing ended: it may be blank, or all that there is of a block."""
        form = next((form for form in self._forms if form.opens(line, True)), None)
        if form is not None:
            self._open(form)
            if self._form is not None:
                self._lines.append(line)
                self._end_block(whole=False)
        elif self._fresh and _is_blank(line):
            self._blank.append(line)
        else:
            self._add_text(line)

    def _end_block(self, *, whole: bool) -> None:
        form, lines = self._form, self._lines
        body = _body_of(form.name, lines[self._leading :], whole=whole) if form is not None else ""
        self._pending = Block(form.name if form is not None else "", "".join(lines), body, whole)
        self._form, self._lines, self._fresh, self._first = None, [], True, False

    def _settle(self, *, whole: bool) -> None:
        """Read a text that may be a call as a whole; if it is none, what it holds may be."""
        text = "".join([*self._lines, *self._line])
        self._form, self._lines = None, []
        if whole and self._is_call(text) and not self._is_quoted(text):
            self._found.append(Block("bare_json", text, text))
            return
        inner = Scanner(self._forms, is_quoted=self._is_quoted)
        self._found = inner.feed(text)
        self._found = join([*self._found, *inner.close(whole=whole)])

    def _emit_pending(self, tail: str) -> None:
        if self._pending is None:
            return
        block, self._pending = self._pending._replace(text=self._pending.text + tail), None
        if self._is_quoted(block.text):
            self._words.append(block.text)
            return
        self._emit_words()
        self._found.append(block)

    def _add_text(self, text: str) -> None:
        """Show words; the blank lines before them are shown too, unless they follow a block."""
        blank, self._blank = "".join(self._blank), []
        if self._pending is not None:
            self._emit_pending(blank)
            blank = ""
        self._fresh = False
        self._words += (blank, text)

    def _emit_words(self) -> None:
        words, self._words = "".join(self._words), []
        if words:
            self._found.append(words)


def _is_blank(line: str) -> bool:
    """Whether a line says nothing; a very long one is taken to say something."""
    return len(line) <= MAX_PADDING and not line.strip(BLANK)


def _is_thought(line: str) -> bool:
    """Whether a line begins a thought, and nothing but that."""
    bare = line.strip(BLANK).lower()
    return bare.startswith(_THOUGHTS) and ("</" not in bare or bare.endswith(("</think>", "</thinking>")))


def join(found: list[ScannedItem]) -> list[ScannedItem]:
    """Join words that follow each other."""
    joined: list[ScannedItem] = []
    words: list[str] = []
    for item in found:
        if isinstance(item, Block):
            joined += ["".join(words), item] if words else [item]
            words = []
        else:
            words.append(item)
    return [*joined, "".join(words)] if words else joined


def _body_of(form: str, lines: list[str], *, whole: bool) -> str:
    """Give what stands between the beginning and the end of a block."""
    if form == "fence":
        return "".join(lines[1:-1] if whole else lines[1:])
    body = "".join(lines).strip(BLANK + "\n")
    if form == "tool_call_tag":
        body = body.removeprefix(TAG)
        return body.removesuffix(TAG_END) if whole else body
    return body if body.startswith(FUNCTION) else ""


def scan(text: str, scanner: Scanner, *, whole: bool = True) -> list[ScannedItem]:
    """Give what is found in a whole text."""
    found = scanner.feed(text)
    return join([*found, *scanner.close(whole=whole)])
