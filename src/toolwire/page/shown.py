"""What a view gets and returns: a request, and a page, a file or another address."""

from typing import Any

from msgspec import Struct


class PageRequest(Struct, frozen=True):
    """A request to a view: its path below the page, its query, and the fields of its form."""

    method: str
    path: str
    query: dict[str, str] = {}
    form: dict[str, str] = {}
    args: tuple[str, ...] = ()
    last_event: str = ""


class Shown(Struct, frozen=True):
    """A view, ready to be rendered as HTML or JSON. `extra` is what only the template needs."""

    template: str
    title: str
    data: dict[str, Any]
    extra: dict[str, Any] = {}
    status: int = 200


class File(Struct, frozen=True):
    """A file: its bytes, its media type, and its name if it is to be saved."""

    data: bytes
    media_type: str
    name: str = ""


class Redirect(Struct, frozen=True):
    """The answer to a form: the address to go to."""

    to: str


class Missing(Exception):
    """What was asked for does not exist."""
