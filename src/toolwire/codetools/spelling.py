r"""File names as text: on one line, for the model to read, and back.

Rules of this file:
- Bytes that are no text, control characters and marks that turn the writing around are written `\xNN`.
- A name that has such a text already gets its backslash written so; each name is written in one way only.
- Names that a file system may take for the same (capitals, Unicode forms, dots at the end) fold to the same.
"""

import os
import re
import unicodedata
from collections.abc import Iterable

_UNSAYABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\udc80-\udcff\u200e\u200f\u2028-\u202e\u2066-\u2069]|\\(?=x[0-9a-f]{2})")
ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


def shown(name: str) -> str:
    """Write a name or a path so that it stands on one line and reads back."""
    return _UNSAYABLE.sub(lambda found: "".join(f"\\x{byte:02x}" for byte in os.fsencode(found.group())), name)


def meant(name: str) -> str:
    """Read a name that was written by `shown`."""
    parts = ESCAPED.split(name)
    found = b"".join(bytes([int(part, 16)]) if place % 2 else os.fsencode(part) for place, part in enumerate(parts))
    return os.fsdecode(found)


def folded(name: str) -> str:
    """Give a name as a file system without capital letters sees it."""
    return unicodedata.normalize("NFKC", name).casefold().rstrip(". ")


def any_of(names: Iterable[str]) -> re.Pattern[str]:
    """Make one pattern of names, folded, in which `*` stands for anything."""
    patterns = (re.escape(folded(name)).replace(r"\*", ".*") for name in names)
    return re.compile("|".join(patterns) or r"(?!)", re.DOTALL)


def among(names: Iterable[str]) -> re.Pattern[str]:
    """Make a pattern that is found in a text of names in ASCII, each between two `/`, if one of them may fit any."""
    patterns = (re.escape(folded(name)).replace(r"\*", "[^/]*") for name in names)
    return re.compile(f"/(?:{'|'.join(patterns) or '(?!)'})[. ]*/", re.IGNORECASE)
