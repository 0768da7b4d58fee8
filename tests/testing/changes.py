"""Small changes to bodies, each a function; a row is a dialect, a change and the words of a refusal."""

from typing import Any

from tests.testing.histories import Change

CHAT, RESPONSES, ANTHROPIC, GEMINI, OLLAMA = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "ollama",
)


def put(*path: Any) -> Change:
    """Change a body: the last step of the path is the new value."""
    *steps, last, value = path

    def change(body: Any) -> None:
        for step in steps:
            body = body[step]
        body[last] = value

    return change


def drop(*path: Any) -> Change:
    """Take something out of a body."""
    *steps, last = path

    def change(body: Any) -> None:
        for step in steps:
            body = body[step]
        del body[last]

    return change


def add(*path: Any) -> Change:
    """Put something at the end of a list of a body."""
    *steps, value = path

    def change(body: Any) -> None:
        for step in steps:
            body = body[step]
        body.append(value)

    return change


Row = tuple[str, Change, str]
