"""`toolwire replay`: send a recorded request to another model, and print what differs.

Rules of this file:
- The request is sent once, and no tool runs. What the other wire cannot express is printed.
- Masks in a record are sent as they are: the original values were never stored.
"""

import difflib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.records import Record
from toolwire.translation.recorded import request_of, response_of
from toolwire.types import Loss, Request, Response, ToolCall, Usage
from toolwire.waiting.results import safe
from toolwire.wire.arguments import input_of

_MASK = b"[hidden"
_DIFFERENT = 1


class _Answer(Struct):
    """What is compared of an answer."""

    model: str
    text: str
    calls: list[tuple[str, Any]]
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    seconds: float
    finish_reason: str


def replay(record: Record, target: str, config: str | None, *, as_json: bool) -> int:
    """Send the request of `record` to the model `target`. Return 0 if calls and text are the same, else 1."""
    request, before = request_of(record), response_of(record)
    if _MASK in record.client_request.data:
        print("toolwire: the record has masks, which are sent in place of the hidden values", file=sys.stderr)
    provider, model = _target_of(target, config)
    response, seconds = _sent(request, provider, model)
    old, new = _recorded(record, before), _answered(f"{provider.name}/{model}", response, model, seconds)
    if as_json:
        print(json.dumps(_as_json(record, old, new, response.losses or ()), ensure_ascii=False))
    else:
        for line in _comparison(old, new, response.losses or ()):
            print(line)
    return 0 if (old.text, old.calls) == (new.text, new.calls) else _DIFFERENT


def _target_of(target: str, config: str | None) -> tuple[Any, str]:
    """Return the provider and the model: of a route of the settings, or by the name of a known provider."""
    from toolwire.errors import UserError  # noqa: PLC0415 - of this function alone
    from toolwire.providers import provider_of  # noqa: PLC0415 - likewise

    if config is not None:
        from toolwire.gateway import starting  # noqa: PLC0415 - an extra

        route = starting.routes_of(starting.settings_from(config), config).find(target)
        if route is not None:
            return route.candidates[0].provider, route.candidates[0].model
    provider, model = provider_of(model=target)
    if not model:
        raise UserError(f"names no model: {target!r}; name PROVIDER/MODEL", path="--to")
    return provider, model


def _sent(request: Request, provider: Any, model: str) -> tuple[Response, float]:
    from toolwire.client.sync import Client  # noqa: PLC0415 - it loads an HTTP client

    start = time.monotonic()
    with Client(provider, model) as client:
        response = client.send(replace(request, model=model, stream=False))
    return response, time.monotonic() - start


def _recorded(record: Record, response: Response | None) -> _Answer:
    usage = record.usage or Usage()
    return _Answer(
        model=f"{record.provider}/{record.provider_model}",
        text="" if response is None else response.content or "",
        calls=[] if response is None else _calls_of(response),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=record.cost,
        seconds=record.seconds,
        finish_reason="" if response is None else str(response.finish_reason),
    )


def _answered(name: str, response: Response, model: str, seconds: float) -> _Answer:
    from toolwire.providers.catalogue import cost  # noqa: PLC0415 - a data file

    usage = response.usage or Usage()
    return _Answer(
        model=name,
        text=response.content or "",
        calls=_calls_of(response),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=cost(usage, model),
        seconds=seconds,
        finish_reason=str(response.finish_reason),
    )


def _calls_of(response: Response) -> list[tuple[str, Any]]:
    return [(part.name, input_of(part)) for part in response.message.parts if type(part) is ToolCall]


def _comparison(old: _Answer, new: _Answer, losses: Sequence[Loss]) -> Iterator[str]:
    """Yield the lines that compare two answers."""
    yield from _row("", "recorded", "replayed")
    yield from _row("model", old.model, new.model)
    yield from _row("tools called", _names(old), _names(new))
    yield from _row("tokens in", old.input_tokens, new.input_tokens)
    yield from _row("tokens out", old.output_tokens, new.output_tokens)
    yield from _row("cost", _dollars(old.cost), _dollars(new.cost))
    yield from _row("seconds", f"{old.seconds:.2f}", f"{new.seconds:.2f}")
    yield from _row("ends with", old.finish_reason, new.finish_reason)
    yield ""
    yield from _difference("tools and arguments", _call_lines(old), _call_lines(new))
    yield from _difference("text", old.text.splitlines(), new.text.splitlines())
    for loss in losses:
        yield f"loss: {safe(str(loss))}"


def _row(name: str, old: Any, new: Any) -> Iterator[str]:
    values = ["-" if value is None else " ".join(safe(str(value)).split()) for value in (old, new)]
    mark = "" if name == "" or values[0] == values[1] else "  *"
    yield f"{name:14}{values[0]:36}  {values[1]:36}{mark}".rstrip()


def _names(answer: _Answer) -> str:
    return ", ".join(name for name, _ in answer.calls) or "none"


def _dollars(amount: float | None) -> str | None:
    return None if amount is None else f"{amount:.6f}"


def _call_lines(answer: _Answer) -> list[str]:
    return [f"{name} {json.dumps(arguments, ensure_ascii=False, sort_keys=True)}" for name, arguments in answer.calls]


def _difference(name: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    if list(old) == list(new):
        yield f"{name}: the same"
        return
    yield f"{name}:"
    for line in difflib.ndiff(old, new):
        if not line.startswith("?"):
            yield f"  {safe(line.rstrip())}"


def _as_json(record: Record, old: _Answer, new: _Answer, losses: Sequence[Loss]) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415 - of this function alone

    fields = ("model", "text", "calls", "input_tokens", "output_tokens", "cost", "finish_reason")
    differs = [name for name in fields if getattr(old, name) != getattr(new, name)]
    built: dict[str, Any] = msgspec.to_builtins(
        {"record": record.id, "recorded": old, "replayed": new, "differs": differs, "losses": losses}
    )
    return built
