"""The project's own instructions for agents: AGENTS.md, else CLAUDE.md, in the project folder.

Rules of this file:
- The file is part of the system prompt, and the screen shows that. A long file is cut, for the model and on the screen.
- A link that leads out of the project folder is not followed: a project could otherwise send other files of yours away.
"""

from pathlib import Path

from msgspec import Struct

_FILES = ("AGENTS.md", "CLAUDE.md")
_LONGEST = 32_768


class Instructions(Struct, frozen=True):
    """The text of a project's instructions, and a note for the screen. Both are empty if there is no such file."""

    text: str = ""
    note: str = ""


def read_instructions(folder: str) -> Instructions:
    """Return the instructions of the project in `folder`."""
    root = Path(folder).resolve()
    for name in _FILES:
        path = root / name
        if not path.is_file():
            continue
        if not path.resolve().is_relative_to(root):
            return Instructions(note=f"{name} is not used: it is a link to {path.resolve()}, outside of the project")
        with path.open("rb") as file:
            data = file.read(_LONGEST + 1)
        size = path.stat().st_size
        text = data[:_LONGEST].decode(errors="replace").removeprefix("\ufeff").strip()
        if not text:
            continue
        cut = size > _LONGEST
        part = f"the first {_LONGEST:,} of {size:,} bytes of {name} are" if cut else f"{name} ({size:,} bytes) is"
        end = "\n[the rest of the file was left out]" if cut else ""
        head = f"The project has these instructions for agents, in {name}:"
        return Instructions(f"{head}\n\n{text}{end}", f"{part} part of the prompt; --no-instructions leaves it out")
    return Instructions()
