"""The inputs of a run: a part that is stored as JSON for other processes, and a part that stays in this process.

Rules of this file:
- A provider is stored by its name, without its key and its headers. Each worker uses its own.
- Tools are stored by their declarations. A worker has tools of the same names, or the run says which are missing.
- For a queue, inputs that cannot be stored (functions, objects) are rejected by name before anything is started.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.client.budget import check_price
from toolwire.client.clearing import Clearing
from toolwire.client.dialogue import BaseClient, prepare_run
from toolwire.client.options import RunOptions, approval_of, check_approval, pop_client_options
from toolwire.client.sync import Client
from toolwire.errors import InvalidField
from toolwire.runs.records import from_plain, pack, request_to_plain, unpack
from toolwire.types import Context, Request

_STORED_SETTINGS = ("auto_tools", "limits", "running", "terminal_tool", "clearing", "capabilities", "output", "stream")
_STORED_OPTIONS = ("base_url", "quirks", "timeouts", "retries", "bounds", "fallback", "cache", "readers")
_LOCAL = ("on_event", "context", "resolver", "traces", "cancel", "approve")
_SECRET = ("api_key", "headers", "query", "transport")


class RunInputs(Struct):
    """The inputs with which this process executes a run."""

    provider: Any
    model: str | None
    options: dict[str, Any]
    settings: dict[str, Any]
    people: Any = ()

    def client(self) -> Client:
        """Return a new client for the run's requests."""
        return Client(self.provider, self.model, **self.options)


def collect_inputs(provider: Any, model: str | None, tools: Any, options: Any, settings: dict[str, Any]) -> RunInputs:
    """Return the arguments of `Runs.start` as `RunInputs`."""
    settings = dict(settings)
    options = pop_client_options(settings, options)
    people: Any = ()
    approve = settings.get("approve")
    if approve is not None and not callable(approve):
        approval = approval_of(settings.pop("approve"))
        people = approval if approval is True else list(approval)
    return RunInputs(provider, model, options, {**settings, "tools": tools or ()}, people)


def encode_spec(inputs: RunInputs, prompt: Any, queue: str | None, texts: dict[str, str]) -> str:
    """Return the JSON that is stored of the inputs. Raise `InvalidField` for an invalid one."""
    if queue is not None:
        _check_for_queue(inputs)
    settings = {name: value for name, value in inputs.settings.items() if name != "on_event"}
    with inputs.client() as client:
        remaining = dict(settings)
        _, setup = prepare_run(client, prompt, RunOptions.pop_from(remaining), remaining)
        check_price(setup.limits, setup.request.model)
        check_approval(inputs.people if inputs.people is True else tuple(inputs.people), setup.request.tools)
        provider = _name_of(inputs.provider, client)
    spec = {
        "provider": provider,
        "model": setup.request.model,
        "options": {name: inputs.options[name] for name in _STORED_OPTIONS if _is_encodable(inputs.options.get(name))},
        "settings": {
            name: inputs.settings[name] for name in _STORED_SETTINGS if _is_encodable(inputs.settings.get(name))
        },
        "people": inputs.people,
        "request": pack(request_to_plain(setup.request), texts),
    }
    return msgspec.json.encode(spec).decode()


def decode_spec(spec: str, texts: Mapping[str, str]) -> tuple[RunInputs, Request]:
    """Return the stored inputs, and the request with which the run began."""
    stored = msgspec.json.decode(spec)
    settings = stored["settings"]
    if isinstance(settings.get("clearing"), dict):
        settings["clearing"] = msgspec.convert(settings["clearing"], Clearing)
    inputs = RunInputs(stored["provider"], stored["model"], stored["options"], settings, stored["people"])
    return inputs, from_plain(unpack(stored["request"], texts))


def merge_inputs(local: RunInputs | None, stored: RunInputs, tools: Any) -> RunInputs:
    """Return the inputs to resume a run with: those that this process has for it, else the stored ones with `tools`."""
    if local is not None:
        return RunInputs(local.provider, local.model, local.options, local.settings, stored.people)
    return RunInputs(stored.provider, stored.model, stored.options, {**stored.settings, "tools": tools}, stored.people)


def prompt_from(request: Request) -> Context:
    """Return a prompt with the messages of `request`."""
    return Context(messages=list(request.messages))


def _is_encodable(value: Any) -> bool:
    """Return True if `value` is set and can be written as JSON."""
    if value is None or isinstance(value, type):
        return False
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    return True


def _name_of(provider: Any, client: BaseClient) -> Any:
    """Return the name of a provider, or the names of several, as another process finds them again."""
    if isinstance(provider, list | tuple):
        return [_name_of(one, each) for one, each in zip(provider, (client, *client.others), strict=False)]
    if provider is None or isinstance(provider, str):
        return client.provider.name
    return getattr(provider, "name", None)


def _check_for_queue(inputs: RunInputs) -> None:
    for name in (*_SECRET, *_LOCAL):
        if inputs.options.get(name) is not None or inputs.settings.get(name) is not None:
            words = "cannot be stored in a queue: the worker uses its own. Leave it out"
            raise InvalidField(name, words, path="Runs.start")
    providers = inputs.provider if isinstance(inputs.provider, list | tuple) else [inputs.provider]
    if not all(one is None or isinstance(one, str) for one in providers):
        raise InvalidField("provider", "must be the provider's name if a worker executes the run", path="Runs.start")
    if (output := inputs.settings.get("output")) is not None and not _is_encodable(output):
        raise InvalidField("output", "must be a JSON Schema if a worker executes the run", path="Runs.start")
