"""Markdown on a coloured terminal, while it arrives.

Rules of this file:
- Nothing is written twice and nothing is erased. Text is held only while its style is not known: from a mark to the one
  that closes it, a line of code, a table. A mark that nothing closes is written as it came.
- Underscores are never marks, because they are part of so many names.
- Prose is wrapped at words, with a margin in lists and quotations. Lines of code stay whole, so that they can be
  copied.
- Headings, emphasis, lists, quotations, code, links and tables are styled. All other Markdown is written as it came.
"""

import re
from typing import Any

from toolwire.cli.screen import Screen
from toolwire.waiting.results import safe

_BLOCK = re.compile(
    r"(?P<indent>[ \t]*)"
    r"(?:(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)(?=\n|\Z)"
    r"|(?P<rule>(?P<mark>[-*_])[ \t]*(?:(?P=mark)[ \t]*){2,})(?=\n|\Z)"
    r"|(?P<heading>\#{1,6})[ \t]+|(?P<bullet>[-*+])[ \t]+|(?P<number>\d{1,9}[.)])[ \t]+|(?P<quote>>)[ ]?)"
)
# The beginning of a line that may still become any of these.
_OPEN = re.compile(r"[ \t]*(?:\#{0,6}|[-+*_][-*_ \t]*|\d{0,9}[.)]?|>|`{1,2}|~{1,2}|(?:`{3,}|~{3,})[^`\n]*)[ \t]*")
_SPANS = re.compile(
    r"(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|\*\*(?=\S)(?P<strong>.+?)(?<=\S)\*\*(?!\*)"
    r"|\*(?=[^\s*])(?P<emphasis>.+?)(?<=[^\s*])\*(?![\w*])"
    r"|!?\[(?P<words>[^\[\]]*)\]\((?P<url>[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s+\"[^\"]*\")?\)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
)
_MARKS = re.compile(r"[`*\[\\!]")
_TABLE_RULE = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_LONGEST_SPAN = 1000
_CODE_CONTEXT = 100
_RULE_COLUMNS = 40


class ProseWriter:
    """Writes the text of an answer to a screen: styled on a coloured terminal, as it came everywhere else."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._markdown = MarkdownWriter(screen) if screen.coloured else None

    def write(self, text: str) -> None:
        """Write the next piece of the text."""
        if self._markdown is None:
            self._screen.write(text)
        else:
            self._markdown.feed(text)

    def close(self) -> None:
        """Write the text that is held until its style is known. The next piece begins a new text."""
        if self._markdown is not None:
            self._markdown.end()


class MarkdownWriter:
    """Writes the Markdown text of an answer to a coloured screen. Call `feed` with each piece, and `end` at the end."""

    def __init__(self, screen: Screen) -> None:
        self.screen: Screen = screen
        self._pending = ""
        self._previous = "\n"
        self._look = ""
        self._fence = ""
        self._language = ""
        self._indent = ""
        self._code: list[str] = []
        self._table: list[str] = []

    def feed(self, text: str) -> None:
        """Write as much of the text as its style is known for."""
        self._pending += text
        self._advance(final=False)

    def end(self) -> None:
        """Write the held text. The next piece begins a new text."""
        self._advance(final=True)
        self._write_table()
        self._pending, self._previous, self._look = "", "\n", ""
        self._fence, self._code, self.screen.margin = "", [], ""

    def _advance(self, *, final: bool) -> None:
        while self._pending and self._step(final=final):
            continue

    def _step(self, *, final: bool) -> bool:
        """Write the next part of the pending text. Return False if it has to be held."""
        if self._fence:
            return self._step_code(final=final)
        if self._previous == "\n" and (self._table or self._pending.lstrip(" \t").startswith("|")):
            return self._step_table(final=final)
        if self._previous == "\n":
            return self._begin_line(final=final)
        return self._step_inline(final=final)

    def _take_line(self, *, final: bool) -> str | None:
        """Remove the first line from the pending text, and return it; None if it has not ended."""
        line, end, after = self._pending.partition("\n")
        if not end and not final:
            return None
        self._pending = after
        return line

    def _step_code(self, *, final: bool) -> bool:
        line = self._take_line(final=final)
        if line is None:
            return False
        mark = line.strip()
        if mark and not mark.strip(self._fence[0]) and len(mark) >= len(self._fence):
            self._fence, self._code = "", []
            return True
        self._code = [*self._code[1 - _CODE_CONTEXT :], safe(line.removeprefix(self._indent))]
        self._write_code()
        return True

    def _write_code(self) -> None:
        """Write the last line of code, highlighted as a part of the lines before it."""
        text = _highlight("\n".join(self._code), self._language)
        if text is None:
            self.screen.line(self._code[-1], "code")
        else:
            self.screen.print(text.split("\n", allow_blank=True)[len(self._code) - 1])

    def _step_table(self, *, final: bool) -> bool:
        if self._table and not self._pending.lstrip(" \t").startswith("|") and self._pending.strip(" \t"):
            self._write_table()
            return True
        line = self._take_line(final=final)
        if line is None:
            return False
        if line.strip():
            self._table.append(safe(line.strip()))
        else:
            self._write_table()
            self.screen.line()
        return True

    def _write_table(self) -> None:
        lines, self._table = self._table, []
        if len(lines) > 1 and _TABLE_RULE.fullmatch(lines[1]):
            self.screen.print(_markdown("\n".join(lines)))
            return
        for line in lines:
            self.screen.line(line, "words")

    def _begin_line(self, *, final: bool) -> bool:
        """Write the mark of a heading, a list, a quotation or a rule, or begin a block of code."""
        has_line = final or "\n" in self._pending
        if not has_line and _OPEN.fullmatch(self._pending):
            return False
        self._look, self.screen.margin = "", ""
        match = _BLOCK.match(self._pending)
        if match is None:
            blank = self._pending[: len(self._pending) - len(self._pending.lstrip(" \t"))]
            self.screen.margin = blank
            self._write_plain(blank)
            self._pending = self._pending[len(blank) :]
            self._previous = " "
            return True
        self._pending = self._pending[match.end() :]
        self._previous = " "
        indent = match["indent"].expandtabs(4)
        if match["fence"]:
            self._pending = self._pending.removeprefix("\n")
            self._fence, self._indent, self._previous = match["fence"], match["indent"], "\n"
            self._language = (match["info"].split() or [""])[0]
            self.screen.start_line()
        elif match["rule"]:
            self.screen.write("─" * min(self.screen.width or _RULE_COLUMNS, _RULE_COLUMNS), "note")
        elif match["heading"]:
            self._look = "heading"
        elif match["quote"]:
            self._look = "quote"
            self._write_mark(indent, "│ ", "note")
        else:
            self._write_mark(indent, f"{match['number'] or '•'} ", "")
        return True

    def _write_mark(self, indent: str, mark: str, look: str) -> None:
        self.screen.write(indent + mark, look)
        self.screen.margin = indent + (mark if look else " " * len(mark))

    def _step_inline(self, *, final: bool) -> bool:
        """Write the text of the present line up to a mark whose end has not arrived."""
        line, end, after = self._pending.partition("\n")
        is_whole = final or bool(end)
        position = self._write_spans(line, is_whole=is_whole)
        if position < len(line):
            self._pending = line[position:]
            return False
        self._pending = after
        if end:
            self.screen.write("\n")
            self._previous, self._look, self.screen.margin = "\n", "", ""
        return True

    def _write_spans(self, line: str, *, is_whole: bool) -> int:
        """Write plain and styled parts of a line. Return how many characters were written."""
        position = 0
        while position < len(line):
            mark = _MARKS.search(line, position)
            self._write_plain(line[position : mark.start() if mark else len(line)])
            if mark is None:
                return len(line)
            position = mark.start()
            span = _SPANS.match(line, position) if self._can_open(line, position) else None
            if span is not None and (is_whole or span.end() < len(line)):
                self._write_span(span)
                position = span.end()
            elif not is_whole and len(line) - position < _LONGEST_SPAN and self._may_open(line, position):
                return position
            else:
                self._write_plain(line[position])
                position += 1
        return position

    def _can_open(self, line: str, position: int) -> bool:
        """Return True if the mark at `position` is not inside a word, such as `2*3`."""
        is_single = line[position] == "*" and line[position : position + 2] != "**"
        return not is_single or not (self._previous.isalnum() or self._previous == "*")

    def _may_open(self, line: str, position: int) -> bool:
        """Return True if more text may show that the mark at `position` begins a span."""
        if line[position:] == "*":  # it may become two
            return True
        if not self._can_open(line, position):
            return False
        after = line[position : position + 3].lstrip(line[position])[:1]
        if line[position] == "*":
            return not after.isspace()
        if line[position] == "!":
            return after in ("", "[")
        if line[position] == "[":
            closed = line.find("]", position)
            return closed < 0 or line[closed + 1 : closed + 2] in ("", "(")
        return True

    def _write_span(self, span: re.Match[str]) -> None:
        if span["code"] is not None:
            text = span["code"]
            is_padded = len(text) > 2 and text[0] == text[-1] == " " and text.strip()
            self._write(text[1:-1] if is_padded else text, "code")
        elif span["strong"] is not None:
            self._write_inner(span["strong"], "strong")
        elif span["emphasis"] is not None:
            self._write_inner(span["emphasis"], "emphasis")
        elif span["escaped"] is not None:
            self._write_plain(span["escaped"])
        else:
            self._write_link(span["words"], span["url"])

    def _write_inner(self, text: str, look: str) -> None:
        """Write the text of an emphasis, with the code and the links in it."""
        outer, self._look = self._look, look
        self._previous = " "
        self._write_spans(text, is_whole=True)
        self._look = outer

    def _write_link(self, words: str, url: str) -> None:
        self._write(words or url, "link")
        if words and url and words != url:
            self._write_plain(f" ({url})")

    def _write_plain(self, text: str) -> None:
        self._write(text, self._look)

    def _write(self, text: str, look: str) -> None:
        if text:
            self.screen.write(text, look)
            self._previous = text[-1]


def _highlight(code: str, language: str) -> Any:
    """Return `code` with the colours of its language, as a `Text` of rich; None if the language is not known."""
    from rich.syntax import Syntax  # noqa: PLC0415 - an extra, and only for code on a terminal

    syntax = Syntax("", language or "text", theme="ansi_dark", background_color="default")
    return None if not language or syntax.lexer is None else syntax.highlight(code)


def _markdown(text: str) -> Any:
    from rich.markdown import Markdown  # noqa: PLC0415 - an extra, and only for tables on a terminal

    return Markdown(text, hyperlinks=False)
