"""What a run is begun with: what crosses to another process as JSON, and what stays in this one.

Rules of this file:
- A provider crosses by its name, without its key and its headers: whoever goes on has its own.
- Tools cross by their declarations; who goes on has them by name, or says which are gone.
- What cannot cross (functions, objects) is refused for a queue, by name, before anything is begun.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.client.budget import check_price
from toolwire.client.clearing import Clearing
from toolwire.client.options import RunOptions, pop_client_options
from toolwire.client.sync import Client
from toolwire.errors import InvalidField
from toolwire.runs.records import packed, plain_request, unpacked, value_of
from toolwire.types import Context, Request

_CROSSING = ("auto_tools", "limits", "running", "terminal_tool", "clearing", "capabilities", "output", "stream")
_OPTIONS = ("base_url", "quirks", "timeouts", "retries", "bounds", "fallback", "readers")
_LOCAL = ("on_event", "context", "resolver", "traces", "cancel", "approve")
_SECRET = ("api_key", "headers", "query", "transport")


class Given(Struct):
    """What a run is led with in this process."""

    provider: Any
    model: str | None
    options: dict[str, Any]
    settings: dict[str, Any]
    people: Any = ()

    def client(self) -> Client:
        """Make the client that asks the model."""
        return Client(self.provider, self.model, **self.options)


def given(provider: Any, model: str | None, tools: Any, options: Any, settings: dict[str, Any]) -> Given:
    """Sort what the caller gave."""
    settings = dict(settings)
    options = pop_client_options(settings, options)
    people: Any = ()
    approve = settings.get("approve")
    if approve is not None and not callable(approve):
        people = settings.pop("approve")
        listed = isinstance(people, Collection) and not isinstance(people, str)
        if people is not True and not (listed and all(isinstance(one, str) for one in people)):
            raise InvalidField("approve", "must be a function, True, or names of tools in a list", path="settings")
        people = people if people is True else sorted(people)
    return Given(provider, model, options, {**settings, "tools": tools or ()}, people)


def spec_of(given: Given, prompt: Any, queue: str | None, texts: dict[str, str]) -> str:
    """Write what crosses; say what is wrong with what was given."""
    if queue is not None:
        _check_crossing(given)
    settings = {name: value for name, value in given.settings.items() if name != "on_event"}
    with given.client() as client:
        asked = dict(settings)
        _, setup = client.prepared(prompt, RunOptions.pop_from(asked), asked)
        check_price(setup.limits, setup.request.model)
    spec = {
        "provider": _name_of(given.provider),
        "model": setup.request.model,
        "options": {name: given.options[name] for name in _OPTIONS if _crosses(given.options.get(name))},
        "settings": {name: given.settings[name] for name in _CROSSING if _crosses(given.settings.get(name))},
        "people": given.people,
        "request": packed(plain_request(setup.request), texts),
    }
    return msgspec.json.encode(spec).decode()


def read(spec: str, texts: Mapping[str, str]) -> tuple[Given, Request]:
    """Read what crossed: how the run is led, and what it began with."""
    said = msgspec.json.decode(spec)
    settings = said["settings"]
    if isinstance(settings.get("clearing"), dict):
        settings["clearing"] = msgspec.convert(settings["clearing"], Clearing)
    made = Given(said["provider"], said["model"], said["options"], settings, said["people"])
    return made, value_of(unpacked(said["request"], texts))


def resumed(own: Given | None, crossed: Given, tools: Any) -> Given:
    """Give what a run goes on with here: what this process was given for it, or else what crossed."""
    if own is not None:
        return Given(own.provider, own.model, own.options, own.settings, crossed.people)
    return Given(crossed.provider, crossed.model, crossed.options, {**crossed.settings, "tools": tools}, crossed.people)


def prompt_of(request: Request) -> Context:
    """Give a prompt in whose place the request stands."""
    return Context(messages=list(request.messages))


def _crosses(value: Any) -> bool:
    """Whether a value can be written as JSON, and says anything."""
    if value is None or isinstance(value, type):
        return False
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    return True


def _name_of(provider: Any) -> Any:
    if isinstance(provider, list | tuple):
        return [_name_of(one) for one in provider]
    return provider if provider is None or isinstance(provider, str) else getattr(provider, "name", None)


def _check_crossing(given: Given) -> None:
    for name in (*_SECRET, *_LOCAL):
        if given.options.get(name) is not None or given.settings.get(name) is not None:
            what = "is the worker's own, and cannot be put into a queue"
            raise InvalidField(name, what, path="Runs.start")
    providers = given.provider if isinstance(given.provider, list | tuple) else [given.provider]
    if not all(one is None or isinstance(one, str) for one in providers):
        raise InvalidField("provider", "must be a name where a worker is to ask it", path="Runs.start")
    if (output := given.settings.get("output")) is not None and not _crosses(output):
        raise InvalidField("output", "must be a JSON Schema where a worker is to ask for it", path="Runs.start")
