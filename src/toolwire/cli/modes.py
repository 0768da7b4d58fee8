"""The modes of an agent: what it may do without a question."""

from typing import Literal, get_args

Mode = Literal["plan", "ask", "edits", "all"]
"""`plan`: only look. `ask`: ask before a call that writes. `edits`: edit files without asking. `all`: never ask."""
MODES: tuple[Mode, ...] = get_args(Mode)
