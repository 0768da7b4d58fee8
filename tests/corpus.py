"""Recorded traffic and public suites: found outside the repository, read where they lie.

Rules of this file:
- `TOOLWIRE_CORPUS` and `TOOLWIRE_SUITES` say where they are, else `../shared/corpus` and `../shared/suites`.
- Absent by default is a skip with a reason. A variable that points nowhere is a mistake, and an error.
- What is returned is shared by every test: read it, do not change it.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded exchange; exactly one of response, response_text and response_b64 is there."""

    provider: str
    format: str
    stream: bool
    status: int
    tags: tuple[str, ...] = ()
    name: str = ""
    url_path: str = ""
    url_query: dict[str, str] = {}
    response_content_type: str | None = None
    request: Any = None
    response: Any = None
    response_text: str | None = None
    response_b64: str | None = None
    response_events: list[Any] | None = None
    response_tool_calls: int | None = None
    source: dict[str, Any] = {}

    @property
    def path(self) -> str:
        """The path and query of the request, as a dialect reads them."""
        return f"{self.url_path}?{urlencode(self.url_query)}" if self.url_query else self.url_path


def outside(variable: str, folder: str) -> Path | None:
    """Find a folder of data outside the repository; None where there is none."""
    named = os.environ.get(variable)
    root = Path(named) if named else REPOSITORY.parent / "shared" / folder
    if root.is_dir():
        return root
    if named:
        message = f"{variable} is {named!r}, which is not a folder"
        raise NotADirectoryError(message)
    return None


def found(variable: str, folder: str) -> Path:
    """Find a folder of data outside the repository, or skip the test and say why."""
    root = outside(variable, folder)
    if root is None:
        pytest.skip(f"no {folder} here: set {variable}, or put it into ../shared/{folder}")
    return root


@lru_cache
def recordings(wire: str) -> tuple[Recording, ...]:
    """Read every recording of a wire format, in order of name; none where there is no corpus."""
    root = outside("TOOLWIRE_CORPUS", "corpus")
    if root is None:
        return ()
    files = sorted((root / wire).glob("*.json"))
    if not files:
        known = sorted(path.name for path in root.iterdir() if path.is_dir())
        message = f"no recording of {wire!r} in the corpus; it has {', '.join(known)}"
        raise LookupError(message)
    return tuple(_read(path) for path in files)


def _read(path: Path) -> Recording:
    recording = msgspec.json.decode(path.read_bytes(), type=Recording)
    return msgspec.structs.replace(recording, name=f"{path.parent.name}/{path.stem}")


def suite_root() -> Path:
    """Find the public suites, or skip the test and say why."""
    return found("TOOLWIRE_SUITES", "suites")
