"""The lines that ripgrep found, read again from a file that the workspace opened.

Rules of this file:
- A line is given as the open file has it; where it is not what was found, nothing of the file is given.
"""

import codecs
import os

from toolwire.codetools.definitions import LINE_CHARACTERS
from toolwire.codetools.fallback import BLOCK, KEPT, MARKS, FileReading, lines_of
from toolwire.codetools.hits import FoundLine, RipgrepHit
from toolwire.codetools.regexes import LONGEST


def read_again(fd: int, records: list[RipgrepHit]) -> list[FoundLine] | None:
    """Read the lines that ripgrep found; None if they are not what it found any more."""
    mark = os.pread(fd, 3, 0)
    if mark[:2] in MARKS:
        return _by_number(fd, records)
    shift = len(codecs.BOM_UTF8) if mark == codecs.BOM_UTF8 else 0
    found = []
    for record in records:
        data = os.pread(fd, 4 * LINE_CHARACTERS + 8, record.offset + shift)
        line = data.partition(b"\n")[0]
        if not line.startswith(record.start):
            return None
        found.append(FoundLine(record.number, line.decode(errors="replace"), record.hit))
    return found


def _by_number(fd: int, records: list[RipgrepHit]) -> list[FoundLine] | None:
    wanted = {record.number: record for record in records}
    found = []
    number = 0
    for block in FileReading(BLOCK, LONGEST, stops_at_nul=False).blocks(fd):
        for text in lines_of(block):
            number += 1
            record = wanted.get(number)
            if record is not None:
                if not text[:KEPT].encode(errors="replace").startswith(record.start[:32]):
                    return None
                found.append(FoundLine(number, text[:KEPT], record.hit))
        if len(found) == len(wanted):
            break
    return found
