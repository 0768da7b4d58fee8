"""Conversations as JSON: saved, loaded, and gone on with at the same provider or at another one.

Rules of this file:
- What is loaded equals what was saved; what JSON cannot hold is refused when it is saved, by name.
- What a provider keeps itself (`provider_state`) is of use to that provider alone: another one is sent the
  messages, and the state is named in a loss, as is all else that its wire cannot say.
- What runs the tools is no part of a conversation: it is given again where it is gone on with.
- No key is ever saved: a provider is saved by its name.
"""

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
    """A conversation, and where it was led; `conversation` is its id in traces, if it has one."""

    version: Literal[1] = 1
    provider: str | None = None
    model: str | None = None
    conversation: str | None = None
    context: Context

    def at(self, provider: Any = None, model: str | None = None) -> tuple[Context, tuple[Loss, ...]]:
        """Give the conversation as another provider can go on with it, and what it cannot be told."""
        target, _ = provider_of(provider, model)
        context, losses = self.context, tuple[Loss, ...]()
        if context.provider_state is not None and target.name != self.provider:
            context = replace(context, provider_state=None)
            losses = tuple(
                Loss(f"provider_state.{key}", "provider_state", "dropped", f"{self.provider} keeps it")
                for key in self.context.provider_state or ()
            )
        return context, losses + target.speaks().encode_request(Request(context=context, model="")).losses


S = TypeVar("S", bound=Saved)


def save(
    context: Context, provider: str | None = None, model: str | None = None, conversation: str | None = None
) -> str:
    """Write a conversation as JSON."""
    return written(Saved(provider=provider, model=model, conversation=conversation, context=context))


def written(saved: Saved) -> str:
    """Write a conversation with all that is said of it."""
    context = saved.context
    saved = replace(saved, context=replace(context, messages=list(context.messages), tools=list(context.tools)))
    text = write_json(saved).decode()
    read = load_as(text, type(saved))
    if read != saved:
        raise InvalidField(_difference(saved, read), "cannot be written as JSON and read again", path="save")
    return text


def load(text: str | bytes) -> Saved:
    """Read a conversation that was saved."""
    return load_as(text, Saved)


def load_as(text: str | bytes, form: type[S]) -> S:
    """Read a conversation that was saved with more than a `Saved` says."""
    try:
        text = text.removeprefix("\ufeff") if isinstance(text, str) else bytes(text).removeprefix(BOM)
        return msgspec.json.decode(text, type=form)
    except msgspec.ValidationError as problem:
        raise InvalidField("conversation", f"is not as it was saved: {problem}", path="load") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidBody(f"is not JSON: {problem}", path="load") from None


def _difference(one: Saved, other: Saved) -> str:
    """Say where two conversations differ, first."""
    for name in ("messages", "tools"):
        pairs = zip(getattr(one.context, name), getattr(other.context, name), strict=True)
        for index, (this, that) in enumerate(pairs):
            if this != that:
                return f"context.{name}[{index}]"
    return "context"
