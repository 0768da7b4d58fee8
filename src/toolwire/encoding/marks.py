"""What a dialect is called and which names and ids it takes, with the marks that it leaves on what it reads.

Rule: a value that was read from a wire carries an opaque of that wire, `plain` where nothing is left over.
"""

from typing import Any

from toolwire.types import Opaque
from toolwire.wire.names import Grammar, restore


class Wire:
    """One wire format: its dialect's name, its grammars, its mark."""

    __slots__ = ("dialect", "ids", "names", "plain")

    def __init__(self, dialect: str, names: Grammar | None = None, ids: Grammar | None = None) -> None:
        self.dialect = dialect
        self.names = names
        self.ids = ids
        self.plain = Opaque(dialect, {})

    def own(self, rest: dict[str, Any], form: dict[str, Any] | None = None) -> Opaque:
        """Mark a value as read here, with what was left of it and how it was spelled."""
        return Opaque(self.dialect, rest, form or None) if rest or form else self.plain

    def read_name(self, written: str, form: dict[str, Any]) -> str:
        """Read a tool's name, and note in the form that it had been escaped for this wire."""
        return written if "__tw" not in written else _read(written, self.names, form)

    def read_id(self, written: str, form: dict[str, Any]) -> str:
        """Read a call's id, and note in the form that it had been escaped for this wire."""
        return written if "__tw" not in written else _read(written, self.ids, form)


def _read(written: str, grammar: Grammar | None, form: dict[str, Any]) -> str:
    name = restore(written, grammar)
    if name is not written:
        form["escaped"] = True
    return name
