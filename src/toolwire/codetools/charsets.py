"""The characters of a body: which codec they are in, and whether they are text at all.

Rules of this file:
- A codec is taken from a list. Whatever else a server names is nothing: it never reaches Python's own.
- A byte order mark is believed first, then the header, then the page, then what the bytes look like.
- What cannot be decoded becomes U+FFFD. Text is given in pieces, so that little of it is held at a time.
"""

import codecs
import re
from collections.abc import Iterator

PIECE_BYTES = 64 * 1024
PEEKED_BYTES = 1024
MOST_NOISE = 0.1
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
MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
DECLARED = re.compile(
    rb"""(?:<meta[^>]{0,200}?charset|<\?xml[^>]{0,100}?encoding)\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE
)
PARAMETER = re.compile(r""";\s*charset\s*=\s*["']?([^\s;"']{1,40})""", re.IGNORECASE)
NOISE = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f\ufffd]")


def codec_of(content_type: str, body: bytes | bytearray, *, cut: bool = False) -> str:
    """Say which codec a body is in."""
    for mark, codec in MARKS.items():
        if body.startswith(mark):
            return codec
    declared = PARAMETER.search(content_type)
    if declared and declared[1].lower() in CODECS:
        return CODECS[declared[1].lower()]
    inside = DECLARED.search(body, 0, PEEKED_BYTES)
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
    begin = next((len(mark) for mark, of in MARKS.items() if of == codec and body.startswith(mark)), 0)
    for start in range(begin, len(body), PIECE_BYTES):
        end = start + PIECE_BYTES
        yield decoder.decode(bytes(body[start:end]), final and end >= len(body))


def is_text(body: bytes | bytearray, codec: str) -> bool:
    """Whether the beginning of a body reads as text: no NUL, and little else that nobody writes."""
    first = next(decoded(body, codec, final=False), "")
    return "\0" not in first and len(NOISE.findall(first)) <= MOST_NOISE * len(first)
