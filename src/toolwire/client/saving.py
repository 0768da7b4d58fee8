"""Conversations as JSON: saved, loaded, and continued with the same provider or another one.

Rules of this file:
- A loaded conversation equals the saved one. A value that JSON cannot hold is rejected when it is saved, by name.
- State that a provider stores itself (`provider_state`) is usable by that provider only. Another one is sent the
  messages, and the state is named in a loss, like everything else that its wire cannot express.
- The resolver of the tools is not part of a conversation: pass it again to continue.
- No key is ever saved: a provider is saved by its name.
"""

import contextlib
import os
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import InvalidBody, InvalidField
from toolwire.providers import provider_of
from toolwire.types import Context, Loss, Request
from toolwire.types.encoded import write_json
from toolwire.types.readable import readable
from toolwire.wire.framing import BOM


@readable
class Saved(Struct, frozen=True, kw_only=True):
    """A conversation and its provider and model; `conversation` is its id in traces, if it has one."""

    version: Literal[1] = 1
    provider: str | None = None
    model: str | None = None
    conversation: str | None = None
    context: Context

    def at(self, provider: Any = None, model: str | None = None) -> tuple[Context, tuple[Loss, ...]]:
        """Return the conversation for another provider, and the losses of sending it there."""
        target, _ = provider_of(provider, model)
        context, losses = self.context, tuple[Loss, ...]()
        if context.provider_state is not None and target.name != self.provider:
            context = replace(context, provider_state=None)
            losses = tuple(
                Loss(f"provider_state.{key}", "provider_state", "dropped", f"only {self.provider} has this state")
                for key in self.context.provider_state or ()
            )
        return context, losses + target.speaks().encode_request(Request(context=context, model="")).losses


S = TypeVar("S", bound=Saved)


def save(
    context: Context, provider: str | None = None, model: str | None = None, conversation: str | None = None
) -> str:
    """Return a conversation as JSON. Raise InvalidField if JSON cannot hold one of its values."""
    return to_json(Saved(provider=provider, model=model, conversation=conversation, context=context))


def to_json(saved: Saved) -> str:
    """Return a conversation with all its fields as JSON. Raise InvalidField if it does not load again as it was."""
    context = saved.context
    saved = replace(saved, context=replace(context, messages=list(context.messages), tools=list(context.tools)))
    text = write_json(saved).decode()
    loaded = load_as(text, type(saved))
    if loaded != saved:
        raise InvalidField(_difference(saved, loaded), "cannot be written as JSON and read again", path="save")
    return text


def load(text: str | bytes) -> Saved:
    """Return the conversation of a saved text. Raise InvalidBody or InvalidField if it is none."""
    return load_as(text, Saved)


def load_as(text: str | bytes, form: type[S]) -> S:
    """Return a saved conversation of type `form`, which may have more fields than `Saved`."""
    try:
        text = text.removeprefix("\ufeff") if isinstance(text, str) else bytes(text).removeprefix(BOM)
        return msgspec.json.decode(text, type=form)
    except msgspec.ValidationError as problem:
        raise InvalidField("conversation", f"is not a saved conversation: {problem}", path="load") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidBody(f"is not JSON: {problem}", path="load") from None


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to `path`: its readers see the old file or the new one, which only its owner can read."""
    import tempfile  # noqa: PLC0415 - not needed before a conversation is saved

    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(fd)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _difference(one: Saved, other: Saved) -> str:
    """Return the path of the first difference between two conversations."""
    for name in ("messages", "tools"):
        pairs = zip(getattr(one.context, name), getattr(other.context, name), strict=True)
        for index, (this, that) in enumerate(pairs):
            if this != that:
                return f"context.{name}[{index}]"
    return "context"
