"""What a server sent, as text to read: its characters, and of a page what stands on it, in Markdown.

Rules of this file:
- A codec is taken from a list. Whatever else a server names is nothing: it never reaches Python's own.
- A byte order mark is believed first, then the header, then the page, then what the bytes look like.
- What cannot be decoded becomes U+FFFD. Text is given in pieces, so that little of it is held at a time.
- A page is read as it comes, by the parser of the standard library. The time it takes grows with its length,
  and what is held does not: no tree is built, and text beside the wanted part is only counted.
- Scripts, styles, templates and comments are not part of the text. Nothing else is taken away.
- Whatever is never closed ends somewhere: a tag, a comment or a script that goes on and on is left.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urljoin

_PIECE_BYTES = 64 * 1024
_PEEKED_BYTES = 1024
_MOST_NOISE = 0.1
GUESSED = "cp1252"

_LABELS = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8",
    "utf-16-le": "utf-16 utf-16le unicode ucs-2 iso-10646-ucs-2",
    "utf-16-be": "utf-16be",
    "cp1252": "windows-1252 cp1252 iso-8859-1 iso8859-1 latin1 latin-1 l1 ascii us-ascii",
    "cp874": "windows-874 tis-620 iso-8859-11",
    "cp866": "ibm866 cp866 866",
    "koi8-r": "koi8-r koi8 koi",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic",
    "gb18030": "gb18030 gbk gb2312 gb_2312-80 x-gbk chinese",
    "big5hkscs": "big5 big5-hkscs x-x-big5",
    "euc_jp": "euc-jp x-euc-jp",
    "iso2022_jp": "iso-2022-jp",
    "cp932": "shift_jis shift-jis sjis x-sjis ms932 windows-31j",
    "cp949": "euc-kr ks_c_5601-1987 korean windows-949",
    **{f"cp125{n}": f"windows-125{n} cp125{n} x-cp125{n}" for n in (0, 1, 3, 4, 5, 6, 7, 8)},
    **{f"iso8859-{n}": f"iso-8859-{n} iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
}
CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_DECLARED = re.compile(
    rb"""(?:<meta[^>]{0,200}?charset|<\?xml[^>]{0,100}?encoding)\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE
)
_PARAMETER = re.compile(r""";\s*charset\s*=\s*["']?([^\s;"']{1,40})""", re.IGNORECASE)
_NOISE = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f\ufffd]")

_FED_CHARACTERS = 4096
_PENDING_CHARACTERS = 16 * 1024
_LINK_CHARACTERS = 2000
_DEEPEST_LIST = 20

_Sink = Callable[[str], None]
_Attributes = list[tuple[str, str | None]]
_SKIPPED = frozenset({"script", "style", "template"})
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
# How many line breaks stand around an element that is not a part of a line.
_BREAKS = dict.fromkeys("br caption dd dt hr legend li option select tbody tfoot thead tr".split(), 1) | dict.fromkeys(
    "address article aside blockquote body center details dialog dir div dl fieldset figcaption figure "
    "footer form header hgroup html main menu nav ol p pre search section summary table title ul".split()
    + list(_HEADINGS),
    2,
)
_SPACE = re.compile(r"[ \t\n\r\f]+")
_TAG = re.compile(r"<[a-zA-Z/!?]")
_LANGUAGE = re.compile(r"\blang(?:uage)?-([\w+#-]{1,20})")


def codec_of(content_type: str, body: bytes | bytearray, *, cut: bool = False) -> str:
    """Say which codec a body is in."""
    for mark, codec in _MARKS.items():
        if body.startswith(mark):
            return codec
    declared = _PARAMETER.search(content_type)
    if declared and declared[1].lower() in CODECS:
        return CODECS[declared[1].lower()]
    inside = _DECLARED.search(body, 0, _PEEKED_BYTES)
    if inside and (codec := CODECS.get(inside[1].decode("ascii", "replace").lower(), "utf-16-le")) != "utf-16-le":
        return codec  # a page that can be read so far is not in UTF-16, whatever it says
    return "utf-8" if is_whole(body, "utf-8", cut=cut) else GUESSED


def is_whole(body: bytes | bytearray, codec: str, *, cut: bool = False) -> bool:
    """Whether every byte is text in this codec."""
    try:
        for _ in decoded(body, codec, "strict", final=not cut):
            pass
    except UnicodeError:
        return False
    return True


def decoded(body: bytes | bytearray, codec: str, errors: str = "replace", *, final: bool = True) -> Iterator[str]:
    """Give the text of a body, piece by piece, without its byte order mark."""
    decoder = codecs.getincrementaldecoder(codec)(errors)
    begin = next((len(mark) for mark, of in _MARKS.items() if of == codec and body.startswith(mark)), 0)
    for start in range(begin, len(body), _PIECE_BYTES):
        end = start + _PIECE_BYTES
        yield decoder.decode(bytes(body[start:end]), final and end >= len(body))


def is_text(body: bytes | bytearray, codec: str) -> bool:
    """Whether the beginning of a body reads as text: no NUL, and little else that nobody writes."""
    first = next(decoded(body, codec, final=False), "")
    return "\0" not in first and len(_NOISE.findall(first)) <= _MOST_NOISE * len(first)


class TextWindow:
    """A part of a text: `size` characters from `start` on. The rest is only counted."""

    def __init__(self, start: int, size: int) -> None:
        self.start: int = start
        self.end: int = start + size
        self.count: int = 0
        self.parts: list[str] = []
        self.closed = False

    def wanted(self, pieces: Iterable[str]) -> Iterator[str]:
        """Give the pieces as long as anybody waits for the text."""
        for piece in pieces:
            if self.closed:
                return
            yield piece

    def add(self, text: str) -> None:
        """Take the next characters of the text."""
        begin, end = max(self.start - self.count, 0), self.end - self.count
        if begin < len(text) and end > 0:
            self.parts.append(text[begin:end])
        self.count += len(text)

    @property
    def text(self) -> str:
        """The part."""
        return "".join(self.parts)


def read_page(pieces: Iterable[str], address: str, sink: _Sink) -> None:
    """Write what stands on a page."""
    reader = _Reader(sink, address)
    for piece in pieces:
        for start in range(0, len(piece), _FED_CHARACTERS):
            reader.read(piece[start : start + _FED_CHARACTERS])
    reader.end()


class _Reader(HTMLParser):
    """Writes the text of a page as its tags come; what is open or closed wrongly does no harm."""

    def __init__(self, sink: _Sink, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self.sink, self.address = sink, address
        self.lists: list[int | None] = []
        self.until = self.before = self.link = self.label = ""
        self.lines = self.skipping = self.exact = self.coding = 0
        self.begun = self.spaced = self.at_line = self.opening = False

    def read(self, text: str) -> None:
        """Take the next characters of the page."""
        if self.until:
            text = self.rawdata + text
            _, found, rest = text.partition(self.until)
            if not found:
                self.rawdata = text[1 - len(self.until) :] if len(self.until) > 1 else ""
                return
            text, self.until, self.rawdata = rest, "", ""
        self.feed(text)
        if len(self.rawdata) > _PENDING_CHARACTERS:
            self._leave()

    def _leave(self) -> None:
        """Leave what does not come to an end."""
        if self.cdata_elem is not None or not _TAG.match(self.rawdata):
            self.handle_data(self.rawdata[:-20])
            self.rawdata = self.rawdata[-20:]
            return
        self.until = "-->" if self.rawdata.startswith("<!--") else ">"
        self.rawdata = ""

    def end(self) -> None:
        if not self.until and (self.cdata_elem is not None or not _TAG.match(self.rawdata)):
            self.handle_data(unescape(self.rawdata))
        self._end_link()
        if self.exact:
            self.exact = 1
            self._end_code()

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        self.skipping += tag in _SKIPPED
        if self.skipping:
            return
        attributes = dict(attrs)
        self._break(self._breaks_around(tag), _HEADINGS.get(tag, ""))
        match tag:
            case "code" | "kbd" | "samp":
                self._begin_code(attributes.get("class") or "")
            case "ul" | "ol":
                self.lists.append(1 if tag == "ol" else None)
                del self.lists[:-_DEEPEST_LIST]
            case "li":
                self.before = self._bullet()
            case "pre":
                self.exact += 1
                self.before = "```\n"
            case "td" | "th" if self.begun and not self.lines:
                self._write(" | ")
            case "hr":
                self._mark("---")
                self._break(1)
            case "img" if attributes.get("alt"):
                self._mark(f"![{_SPACE.sub(' ', attributes['alt'] or '')}]")
            case "a":
                self._end_link()
                self._begin_link(attributes)

    def handle_endtag(self, tag: str) -> None:
        if self.skipping or tag in _SKIPPED:
            self.skipping = max(self.skipping - (tag in _SKIPPED), 0)
            return
        match tag:
            case "ul" | "ol":
                del self.lists[-1:]
            case "pre" if self.exact:
                self._end_code()
            case "a":
                self._end_link()
            case "code" | "kbd" | "samp" if self.coding and not self.exact:
                self.coding -= 1
                self._write("`")
        self._break(self._breaks_around(tag))

    def handle_data(self, data: str) -> None:
        """Write text; space is as good as one blank, but in code that stands by itself."""
        if self.skipping or not data:
            return
        if self.exact:
            self._write(data.removeprefix("\n") if self.before else data)
            return
        words = _SPACE.sub(" ", data)
        self.spaced = self.spaced or words.startswith(" ")
        if words.strip(" "):
            self._mark(words.strip(" "))
            self.spaced = words.endswith(" ")

    def _breaks_around(self, tag: str) -> int:
        """Say how far an element stands from the text around it: 0 if it is a part of a line."""
        return 1 if tag in ("ul", "ol") and self.lists else _BREAKS.get(tag, 0)

    def _bullet(self) -> str:
        indent = "  " * (len(self.lists) - 1)
        number = self.lists[-1] if self.lists else None
        if number is None:
            return f"{indent}- "
        self.lists[-1] = number + 1
        return f"{indent}{number}. "

    def _begin_code(self, kind: str) -> None:
        if not self.exact:
            self.coding += 1
            self._mark("`")
        elif self.before and (language := _LANGUAGE.search(kind)):
            self.before = f"```{language[1]}\n"

    def _end_code(self) -> None:
        self.exact -= 1
        if not self.exact and not self.before:
            self.sink("```" if self.at_line else "\n```")
        self.before = "" if not self.exact else self.before

    def _begin_link(self, attributes: dict[str, str | None]) -> None:
        self.link = _absolute(self.address, attributes.get("href") or "")
        self.label = _SPACE.sub(" ", attributes.get("aria-label") or attributes.get("title") or "").strip()
        self.opening = bool(self.link)

    def _end_link(self) -> None:
        if self.link and self.opening and self.label:
            self._mark(self.label)
        if self.link and not self.opening:
            self._write(f"]({self.link})")
        self.link, self.opening = "", False

    def _break(self, lines: int, before: str = "") -> None:
        """Let the next text begin on a line of its own, with this before it."""
        if lines:
            self.lines, self.spaced = max(self.lines, lines), False
            if not self.exact:
                self.before = before or self.before

    def _mark(self, text: str) -> None:
        """Write text, with the space that belongs before it."""
        self._write(text, " " if self.spaced and self.begun and not self.lines else "")
        self.spaced = False

    def _write(self, text: str, space: str = "") -> None:
        if text:
            bracket = "[" if self.opening else ""
            self.sink(("\n" * self.lines if self.begun else "") + self.before + space + bracket + text)
            self.begun, self.opening, self.lines, self.before = True, False, 0, ""
            self.at_line = text.endswith("\n")


def _absolute(address: str, href: str) -> str:
    """Give the address that a link leads to; nothing for a place on the page, or for what is not fetched."""
    if not href or href.startswith("#") or len(href) > _LINK_CHARACTERS:
        return ""
    try:
        found = urljoin(address, href.strip())
    except ValueError:
        return ""
    return _SPACE.sub("%20", found) if found.startswith(("http://", "https://")) else ""
