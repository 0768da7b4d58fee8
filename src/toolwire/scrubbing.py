"""Values of sensitive fields, kept out of logs, traces and telemetry; the tool itself gets the originals.

Rules of this file:
- A field is sensitive by its name, at any depth, in lists too; small and capital letters are the same.
- What stood in such a field is also taken out of text: messages and tracebacks repeat it.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

HIDDEN = "[hidden]"
SHORTEST = 3


def scrub(value: Any, fields: Collection[str]) -> Any:
    """Give the value with each sensitive field hidden; the value itself stays as it is."""
    names = {field.casefold() for field in fields}
    return _scrub(value, names) if names else value


def _scrub(value: Any, names: set[str]) -> Any:
    match value:
        case Mapping():
            return {
                key: HIDDEN if str(key).casefold() in names else _scrub(inner, names)
                for key, inner in value.items()
            }
        case list() | tuple():
            return [_scrub(inner, names) for inner in value]
    return value


def secrets_of(value: Any, fields: Collection[str]) -> list[str]:
    """List the texts and numbers that stand in sensitive fields, the longest first."""
    names = {field.casefold() for field in fields}
    found = (
        {text for text in _secrets(value, names, hidden=False) if len(text) >= SHORTEST} if names else set()
    )
    return sorted(found, key=lambda text: (-len(text), text))


def _secrets(value: Any, names: set[str], *, hidden: bool) -> Iterator[str]:
    match value:
        case Mapping():
            for key, inner in value.items():
                yield from _secrets(inner, names, hidden=hidden or str(key).casefold() in names)
        case list() | tuple():
            for inner in value:
                yield from _secrets(inner, names, hidden=hidden)
        case str() if hidden:
            yield from (value, repr(value)[1:-1], json.dumps(value)[1:-1])
        case int() | float() if hidden and not isinstance(value, bool):
            yield str(value)


def scrub_text(text: str, secrets: Collection[str]) -> str:
    """Take the secrets out of a text."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text
