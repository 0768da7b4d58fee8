"""A server's content as text: its characters are decoded, and a page's text is rendered as Markdown.

Rules of this file:
- A codec is taken from a list. Any other name that a server sends is ignored: it never reaches Python's codecs.
- A byte order mark decides first, then the header, then the page, then the bytes themselves.
- Bytes that cannot be decoded become U+FFFD. Text is produced in pieces, so that little memory is used.
- A page is parsed while it is decoded, by the parser of the standard library. The time grows with its length, and the
  memory does not: no tree is built, and text outside of the requested part is only counted.
- Scripts, styles, templates and comments are not part of the text. Nothing else is removed.
- Markup that is never closed is limited: after a number of characters an endless tag, comment or script is skipped.
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
FALLBACK_CODEC = "cp1252"

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
# The number of line breaks around an element that is not part of a line.
_BREAKS = dict.fromkeys("br caption dd dt hr legend li option select tbody tfoot thead tr".split(), 1) | dict.fromkeys(
    "address article aside blockquote body center details dialog dir div dl fieldset figcaption figure "
    "footer form header hgroup html main menu nav ol p pre search section summary table title ul".split()
    + list(_HEADINGS),
    2,
)
_SPACE = re.compile(r"[ \t\n\r\f]+")
_TAG = re.compile(r"<[a-zA-Z/!?]")
_LANGUAGE = re.compile(r"\blang(?:uage)?-([\w+#-]{1,20})")


def detect_codec(content_type: str, body: bytes | bytearray, *, cut: bool = False) -> str:
    """Return the codec of a body."""
    for mark, codec in _MARKS.items():
        if body.startswith(mark):
            return codec
    declared = _PARAMETER.search(content_type)
    if declared and declared[1].lower() in CODECS:
        return CODECS[declared[1].lower()]
    match = _DECLARED.search(body, 0, _PEEKED_BYTES)
    if match and (codec := CODECS.get(match[1].decode("ascii", "replace").lower(), "utf-16-le")) != "utf-16-le":
        return codec  # the declaration was read as ASCII, so the page is not UTF-16, whatever it declares
    return "utf-8" if is_valid(body, "utf-8", cut=cut) else FALLBACK_CODEC


def is_valid(body: bytes | bytearray, codec: str, *, cut: bool = False) -> bool:
    """Return True if every byte of the body is valid in this codec."""
    try:
        for _ in iterate_text(body, codec, "strict", final=not cut):
            pass
    except UnicodeError:
        return False
    return True


def iterate_text(body: bytes | bytearray, codec: str, errors: str = "replace", *, final: bool = True) -> Iterator[str]:
    """Yield the text of `body` in pieces, without its byte order mark.

    With `final=False` a character that the end of `body` cuts is left out, and is no error.
    """
    decoder = codecs.getincrementaldecoder(codec)(errors)
    mark_length = next(
        (len(mark) for mark, mark_codec in _MARKS.items() if mark_codec == codec and body.startswith(mark)), 0
    )
    for start in range(mark_length, len(body), _PIECE_BYTES):
        end = start + _PIECE_BYTES
        yield decoder.decode(bytes(body[start:end]), final and end >= len(body))


def is_text(body: bytes | bytearray, codec: str) -> bool:
    """Return True if the beginning of a body is text: it has no NUL, and few characters that no text has."""
    first = next(iterate_text(body, codec, final=False), "")
    return "\0" not in first and len(_NOISE.findall(first)) <= _MOST_NOISE * len(first)


class TextWindow:
    """A part of a text: `size` characters from `start` on. The rest is only counted."""

    def __init__(self, start: int, size: int) -> None:
        self.start: int = start
        self.end: int = start + size
        self.count: int = 0
        self.parts: list[str] = []
        self.closed = False

    def until_closed(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yield the pieces until the window is closed."""
        for piece in pieces:
            if self.closed:
                return
            yield piece

    def add(self, text: str) -> None:
        """Add the next characters of the text."""
        begin, end = max(self.start - self.count, 0), self.end - self.count
        if begin < len(text) and end > 0:
            self.parts.append(text[begin:end])
        self.count += len(text)

    @property
    def text(self) -> str:
        """The part of the text."""
        return "".join(self.parts)


def read_page(pieces: Iterable[str], address: str, sink: _Sink) -> None:
    """Render a page as Markdown, and pass it to `sink` in pieces."""
    reader = _PageReader(sink, address)
    for piece in pieces:
        for start in range(0, len(piece), _FED_CHARACTERS):
            reader.read(piece[start : start + _FED_CHARACTERS])
    reader.end()


class _PageReader(HTMLParser):
    """Renders a page while its tags are parsed; wrongly nested tags do no harm.

    Line breaks, the `prefix` of a line and the `[` of a link are pending until the next text is written, so that
    elements without text leave nothing.
    """

    def __init__(self, sink: _Sink, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self.sink, self.address = sink, address
        self.lists: list[int | None] = []
        self.skip_until = self.prefix = self.link = self.label = ""
        self.pending_breaks = self.skip_depth = self.pre_depth = self.code_depth = 0
        self.has_text = self.has_space = self.ends_in_break = self.is_link_pending = False

    def read(self, text: str) -> None:
        """Parse the next characters of the page."""
        if self.skip_until:
            text = self.rawdata + text
            _, end, remainder = text.partition(self.skip_until)
            if not end:
                self.rawdata = text[1 - len(self.skip_until) :] if len(self.skip_until) > 1 else ""
                return
            text, self.skip_until, self.rawdata = remainder, "", ""
        self.feed(text)
        if len(self.rawdata) > _PENDING_CHARACTERS:
            self._skip_endless()

    def _skip_endless(self) -> None:
        """Skip markup that does not end."""
        if self.cdata_elem is not None or not _TAG.match(self.rawdata):
            self.handle_data(self.rawdata[:-20])
            self.rawdata = self.rawdata[-20:]
            return
        self.skip_until = "-->" if self.rawdata.startswith("<!--") else ">"
        self.rawdata = ""

    def end(self) -> None:
        if not self.skip_until and (self.cdata_elem is not None or not _TAG.match(self.rawdata)):
            self.handle_data(unescape(self.rawdata))
        self._end_link()
        if self.pre_depth:
            self.pre_depth = 1
            self._end_code()

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        self.skip_depth += tag in _SKIPPED
        if self.skip_depth:
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
                self.prefix = self._bullet()
            case "pre":
                self.pre_depth += 1
                self.prefix = "```\n"
            case "td" | "th" if self.has_text and not self.pending_breaks:
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
        if self.skip_depth or tag in _SKIPPED:
            self.skip_depth = max(self.skip_depth - (tag in _SKIPPED), 0)
            return
        match tag:
            case "ul" | "ol":
                del self.lists[-1:]
            case "pre" if self.pre_depth:
                self._end_code()
            case "a":
                self._end_link()
            case "code" | "kbd" | "samp" if self.code_depth and not self.pre_depth:
                self.code_depth -= 1
                self._write("`")
        self._break(self._breaks_around(tag))

    def handle_data(self, data: str) -> None:
        """Write text. White space collapses to one blank, except in preformatted code."""
        if self.skip_depth or not data:
            return
        if self.pre_depth:
            self._write(data.removeprefix("\n") if self.prefix else data)
            return
        words = _SPACE.sub(" ", data)
        self.has_space = self.has_space or words.startswith(" ")
        if words.strip(" "):
            self._mark(words.strip(" "))
            self.has_space = words.endswith(" ")

    def _breaks_around(self, tag: str) -> int:
        """Return how many line breaks surround an element; 0 if it is part of a line."""
        return 1 if tag in ("ul", "ol") and self.lists else _BREAKS.get(tag, 0)

    def _bullet(self) -> str:
        indent = "  " * (len(self.lists) - 1)
        number = self.lists[-1] if self.lists else None
        if number is None:
            return f"{indent}- "
        self.lists[-1] = number + 1
        return f"{indent}{number}. "

    def _begin_code(self, class_name: str) -> None:
        if not self.pre_depth:
            self.code_depth += 1
            self._mark("`")
        elif self.prefix and (language := _LANGUAGE.search(class_name)):
            self.prefix = f"```{language[1]}\n"

    def _end_code(self) -> None:
        self.pre_depth -= 1
        if not self.pre_depth and not self.prefix:
            self.sink("```" if self.ends_in_break else "\n```")
        self.prefix = "" if not self.pre_depth else self.prefix

    def _begin_link(self, attributes: dict[str, str | None]) -> None:
        self.link = _absolute_url(self.address, attributes.get("href") or "")
        self.label = _SPACE.sub(" ", attributes.get("aria-label") or attributes.get("title") or "").strip()
        self.is_link_pending = bool(self.link)

    def _end_link(self) -> None:
        if self.link and self.is_link_pending and self.label:
            self._mark(self.label)
        if self.link and not self.is_link_pending:
            self._write(f"]({self.link})")
        self.link, self.is_link_pending = "", False

    def _break(self, breaks: int, prefix: str = "") -> None:
        """Begin the next text after at least `breaks` line breaks, and after `prefix`."""
        if breaks:
            self.pending_breaks, self.has_space = max(self.pending_breaks, breaks), False
            if not self.pre_depth:
                self.prefix = prefix or self.prefix

    def _mark(self, text: str) -> None:
        """Write text, after a blank if one belongs there."""
        self._write(text, " " if self.has_space and self.has_text and not self.pending_breaks else "")
        self.has_space = False

    def _write(self, text: str, space: str = "") -> None:
        if text:
            bracket = "[" if self.is_link_pending else ""
            self.sink(("\n" * self.pending_breaks if self.has_text else "") + self.prefix + space + bracket + text)
            self.has_text, self.is_link_pending, self.pending_breaks, self.prefix = True, False, 0, ""
            self.ends_in_break = text.endswith("\n")


def _absolute_url(address: str, href: str) -> str:
    """Return the absolute URL of a link, or "" for a fragment or a URL that cannot be fetched."""
    if not href or href.startswith("#") or len(href) > _LINK_CHARACTERS:
        return ""
    try:
        url = urljoin(address, href.strip())
    except ValueError:
        return ""
    return _SPACE.sub("%20", url) if url.startswith(("http://", "https://")) else ""
