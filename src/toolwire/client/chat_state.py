"""The state of a conversation that keeps its history: the common base of the sync and the async `Conversation`.

Rules of this file:
- The history changes only if the model has answered, at least in part. A prompt that failed before that is not part of
  it, so the same prompt can be sent again.
- One conversation has one question at a time. A second one at the same time would lose an answer, so it is rejected.
- A model is named as everywhere. A name without a provider is a model of the present provider.
- A saved conversation contains no key, no address and no tools: pass them again when it is loaded.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

from toolwire.client.conversation import OnEnd
from toolwire.client.dialogue import CONNECTION_OPTIONS, BaseClient, run_steps
from toolwire.client.options import pop_client_options
from toolwire.client.saving import Saved, load_as, to_json, write_atomically
from toolwire.client.settings import ClientOptions, OnceSettings, Prompt, Providers
from toolwire.errors import UserError
from toolwire.loop import Done
from toolwire.loop.run import add_usage
from toolwire.providers import AnyProvider, named
from toolwire.providers.known import target_of
from toolwire.types import Context, Loss, Message, Part, Usage
from toolwire.types.readable import readable
from toolwire.waiting.steps import Work


@readable
class _SavedChat(Saved, frozen=True, kw_only=True):
    """A saved conversation with what it has used and lost so far."""

    usage: Usage | None = None
    cost: float | None = None
    losses: tuple[Loss, ...] = ()


class BaseConversation:
    """A conversation with one history. The sync and the async `Conversation` drive its steps."""

    _make_client: ClassVar[type[BaseClient]]

    def __init__(
        self, provider: Providers | BaseClient = None, model: str | None = None, **settings: Unpack[OnceSettings]
    ) -> None:
        defaults: dict[str, Any] = dict(settings)
        options = pop_client_options(defaults, defaults.pop("options", None))
        self._owns_client = not isinstance(provider, BaseClient)
        self.client: BaseClient = _client_of(self._make_client, provider, model, options)
        if isinstance(provider, BaseClient) and model is not None:
            defaults["model"] = model
        self.system: str | list[Part] | None = defaults.pop("system", None)
        self.history: list[Message] = _messages_of(defaults.pop("messages", ()))
        self.settings: dict[str, Any] = {
            name: list(value) if isinstance(value, Iterator) else value for name, value in defaults.items()
        }
        self.usage: Usage | None = None
        self.cost: float | None = None
        self.losses: tuple[Loss, ...] = ()
        self._asking = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client.provider.name!r}, {self.model!r}, {len(self.history)} messages)"

    @property
    def model(self) -> str | None:
        """The model that answers next."""
        return self.settings.get("model") or self.client.model

    def fork(self, provider: Providers = None, model: str | None = None, **options: Unpack[ClientOptions]) -> Self:
        """Return a second conversation with the same history; `provider` and `model` may name another model for it.

        Both use the same connections. Neither changes the other.
        """
        twin = copy(self)
        twin._owns_client, twin._asking = False, threading.Lock()  # noqa: SLF001 - of the same class
        twin.history, twin.settings = list(self.history), dict(self.settings)
        if provider is not None or model is not None or options:
            twin.switch(provider, model, **options)
        return twin

    def switch(self, provider: Providers = None, model: str | None = None, **options: Unpack[ClientOptions]) -> None:
        """Continue with another model, of the same provider or of another one.

        `options` are those of a client, such as `api_key`. The losses of the next answer contain what the provider
        could not receive.
        """
        if not options:
            provider, model = _same_provider(self.client, provider, model)
        self.client = self._client_beside(provider, model, dict(options))
        self.settings.pop("model", None)

    def _client_beside(self, provider: Any, model: str | None, options: dict[str, Any]) -> BaseClient:
        """Return a client with the connections and the limits of the present one."""
        connection = {name: getattr(self.client.upstream, name) for name in CONNECTION_OPTIONS}
        client = self._make_client(provider, model, **{"transport": self.client.transport, **connection, **options})
        client.upstream.warn_losses = self.client.upstream.warn_losses
        return client

    def _ask_steps(
        self, prompt: Prompt, settings: Mapping[str, Any], on_end: OnEnd | None = None, *, stream: bool = False
    ) -> Work[Any]:
        """Run the tool loop on the history and `prompt`, and add what it brings. Return its `Done`."""
        if not self._asking.acquire(blocking=False):
            raise UserError(
                "waits for an answer already: to ask twice at the same time, fork() it", path="conversation"
            )
        try:
            client, run_settings = self._prepare(settings)

            def note(done: Done) -> None:
                self._add(done)
                if on_end is not None:
                    on_end(done)

            return (yield from run_steps(client, prompt, run_settings, note, stream=stream))
        finally:
            self._asking.release()

    def _prepare(self, settings: Mapping[str, Any]) -> tuple[BaseClient, dict[str, Any]]:
        """Return the client and the settings of one question, which may name another model."""
        merged: dict[str, Any] = {"system": self.system, **self.settings, **settings}
        merged["messages"] = [*self.history, *_messages_of(settings.get("messages", ()))]
        client, model = self.client, merged.get("model")
        if isinstance(model, str):
            provider, name = _same_provider(client, None, model)
            if provider is not client.provider:
                merged.pop("model")
                client = self._client_beside(provider, name, {})
        return client, merged

    def _add(self, done: Done) -> None:
        if done.messages:
            self.history = done.history
        self.usage = add_usage(self.usage, done.usage)
        if done.cost is not None:
            self.cost = (self.cost or 0.0) + done.cost
        self.losses = tuple(dict.fromkeys((*self.losses, *done.losses)))

    def _save(self, path: str | Path) -> None:
        context = Context(self.system, self.history)
        counts: dict[str, Any] = {"usage": self.usage, "cost": self.cost, "losses": self.losses}
        saved = _SavedChat(provider=self.client.provider.name, model=self.model, context=context, **counts)
        write_atomically(Path(path), to_json(saved))

    @classmethod
    def _load(cls, path: str | Path, provider: Any, model: str | None, settings: dict[str, Any]) -> Self:
        saved = load_as(Path(path).read_bytes(), _SavedChat)
        if model is None and (provider is None or provider == saved.provider):
            provider, model = provider or saved.provider, saved.model
        settings = {"system": saved.context.system, **settings}
        chat = cls(provider, model, **settings)
        chat.history = [*saved.context.messages, *chat.history]
        chat.usage, chat.cost, chat.losses = saved.usage, saved.cost, (*saved.losses, *_lost_state(saved))
        return chat


def _client_of(make: type[BaseClient], provider: Any, model: str | None, options: dict[str, Any]) -> BaseClient:
    """Return the client that was passed as `provider`, or a new one."""
    if not isinstance(provider, BaseClient):
        return make(provider, model, **options)
    if not isinstance(provider, make):
        kinds = "toolwire.conversation needs a toolwire.Client, toolwire.aio.conversation a toolwire.aio.Client"
        raise UserError(f"cannot use {provider!r}: {kinds}", path="conversation")
    if options:
        raise UserError(f"{next(iter(options))} is an option of the client, so pass it there", path="conversation")
    return provider


def _messages_of(messages: Any) -> list[Message]:
    """Return messages as values; one alone is a list of one."""
    alone = isinstance(messages, str | Message | Mapping)
    return list(Context(messages=[messages] if alone else list(messages)).messages)


def _same_provider(client: BaseClient, provider: Any, model: str | None) -> tuple[AnyProvider | Any, str | None]:
    """Return the client's own provider if a model is named without another one, so that its address and key stay."""
    if isinstance(provider, str) and model is None and named(provider) is None:
        provider, model = None, provider
    if provider is None and model is not None:
        target = target_of(model)
        if target is None or target[1] == model:  # only a name
            return client.provider, model
        provider, model = target
    if isinstance(provider, str) and (preset := named(provider)) is not None and preset.name == client.provider.name:
        return client.provider, model
    return provider, model


def _lost_state(saved: Saved) -> Sequence[Loss]:
    """Return the losses of a provider's own state: a conversation sends its whole history instead."""
    return [
        Loss(f"provider_state.{key}", "provider_state", "dropped", "a conversation sends its whole history")
        for key in saved.context.provider_state or ()
    ]
