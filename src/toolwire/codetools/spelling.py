r"""File names as text: escaped to one line for the model, and read back.

Rules of this file:
- Bytes that are not text, control characters and characters that change the writing direction are written `\xNN`.
- If a name already contains such an escape, its backslash is escaped too. So every name has exactly one spelling.
- Names that a file system may treat as equal (capitals, Unicode forms, dots at the end) fold to the same text.
"""

import os
import re
import unicodedata
from collections.abc import Iterable

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\udc80-\udcff\u200e\u200f\u2028-\u202e\u2066-\u2069]|\\(?=x[0-9a-f]{2})")
ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


def escape_name(name: str) -> str:
    r"""Return `name` on one line, with every byte that is not printable text written `\xNN`.

    `unescape_name` reads it back.
    """
    return _UNPRINTABLE.sub(lambda match: "".join(f"\\x{byte:02x}" for byte in os.fsencode(match.group())), name)


def unescape_name(name: str) -> str:
    """Return the file name that `escape_name` wrote as `name`."""
    parts = ESCAPED.split(name)
    data = b"".join(bytes([int(part, 16)]) if index % 2 else os.fsencode(part) for index, part in enumerate(parts))
    return os.fsdecode(data)


def fold_name(name: str) -> str:
    """Return `name` as a file system that ignores capitals and Unicode forms compares it."""
    return unicodedata.normalize("NFKC", name).casefold().rstrip(". ")


def compile_names(names: Iterable[str]) -> re.Pattern[str]:
    """Return one pattern that matches any of `names`, folded; `*` in a name matches any text."""
    patterns = (re.escape(fold_name(name)).replace(r"\*", ".*") for name in names)
    return re.compile("|".join(patterns) or r"(?!)", re.DOTALL)


def compile_quick_test(names: Iterable[str]) -> re.Pattern[str]:
    """Return a quick test for a list of ASCII names, each between two `/`.

    If the pattern is not found in the list, none of `names` matches any of its entries.
    """
    patterns = (re.escape(fold_name(name)).replace(r"\*", "[^/]*") for name in names)
    return re.compile(f"/(?:{'|'.join(patterns) or '(?!)'})[. ]*/", re.IGNORECASE)
