"""The records of a run, as JSON: outcomes, with each long text stored once and no secrets.

Rules of this file:
- A text longer than `_LONG` is stored once for a run, under its hash. `{"$": hash}` refers to it. A text with NUL stays
  inline, because PostgreSQL text cannot contain NUL, while JSON escapes it.
- Sensitive fields of calls and results are hidden before they are recorded, as in traces. If another process resumes
  the run, these values are missing, and a call that needs them is not run.
- Nothing is ever pickled.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from toolwire.loop import Done
from toolwire.resolvers import fields_of
from toolwire.scrubbing import Known, scrub, secrets_of
from toolwire.scrubbing.forms import HIDDEN
from toolwire.types import Context, Error, Message, Request, Response, Text, ToolCall, ToolResult
from toolwire.types.readable import readable
from toolwire.waiting.results import safe
from toolwire.wire.arguments import input_of

_LONG = 200
_TYPES: dict[str, Any] = {kind.__name__: kind for kind in (Done, Error, Message, Request, Response, ToolResult)}
readable(Done)  # the types of a request and a response are readable already
Keep = Callable[[dict[str, str]], None]


def pack(value: Any, texts: dict[str, str]) -> Any:
    """Return plain values in which each long text is replaced by its hash. Add the texts to `texts`."""
    match value:
        case str() if len(value) > _LONG and "\x00" not in value:
            name = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
            texts[name] = value
            return {"$": name}
        case dict():
            members = {key: pack(inner, texts) for key, inner in value.items()}
            return {"$$": members} if value.keys() in ({"$"}, {"$$"}) else members
        case list() | tuple():
            return [pack(inner, texts) for inner in value]
    return value


def unpack(value: Any, texts: Mapping[str, str]) -> Any:
    """Return plain values with the `texts` that `pack` replaced."""
    match value:
        case {"$": str(name), **rest} if not rest:
            return texts[name]
        case {"$$": dict(inner), **rest} if not rest:
            return {key: unpack(one, texts) for key, one in inner.items()}
        case dict():
            return {key: unpack(inner, texts) for key, inner in value.items()}
        case list():
            return [unpack(inner, texts) for inner in value]
    return value


def to_plain(value: Any) -> Any:
    """Return the plain values of a canonical value, with the name of its type. None stays None."""
    return None if value is None else {"kind": type(value).__name__, "value": to_builtins(value)}


def to_builtins(value: Any) -> Any:
    """Return plain values. A value that JSON cannot express is replaced by its `repr`."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=repr))


def from_plain(record: Any) -> Any:
    """Return the canonical value that `to_plain` recorded."""
    if record is None:
        return None
    return msgspec.json.decode(msgspec.json.encode(record["value"]), type=_TYPES[record["kind"]])


def request_to_plain(request: Request) -> Any:
    """Return the plain values of a request, without the metadata that tools carry for this program."""
    context = request.context
    tools = [replace(tool, metadata={}) if getattr(tool, "metadata", None) else tool for tool in context.tools]
    context_to_record = Context(context.system, list(context.messages), tools, context.provider_state)
    return to_plain(replace(request, context=context_to_record))


class Secrets:
    """A run's secrets so far. Each call and result that is recorded adds the values of its sensitive fields."""

    def __init__(self, secrets: Iterable[str], resolve: Any = None) -> None:
        self.known: Known = Known(secrets)
        self._resolve = resolve

    def known_now(self) -> Known:
        """Return the secrets that are known so far."""
        return self.known

    def visible_arguments(self, call: ToolCall) -> str:
        """Return the arguments of `call` as a person may see them who is asked to approve it."""
        part = self._hide_in_part(call)
        return safe(str(part.raw)) if call.custom else msgspec.json.encode(to_builtins(part.arguments)).decode()

    def hide(self, value: Any) -> Any:
        """Return an outcome in which all secrets are hidden."""
        match value:
            case Response():
                return replace(
                    value, choices=[replace(one, message=self._hide_in_message(one.message)) for one in value.choices]
                )
            case Message():
                return self._hide_in_message(value)
            case ToolResult():
                return self._hide_in_part(value)
            case Done():
                response = None if value.response is None else self.hide(value.response)
                calls = [self._hide_in_part(call) for call in value.calls]
                return replace(
                    value,
                    messages=[self._hide_in_message(one) for one in value.messages],
                    response=response,
                    calls=calls,
                )
        return value

    def _hide_in_message(self, message: Message) -> Message:
        if isinstance(message.content, str):
            return replace(message, content=self._hide_in_text(message.content))
        if isinstance(message.content, list):
            return replace(message, content=[self._hide_in_part(part) for part in message.content])
        return message

    def _hide_in_part(self, part: Any) -> Any:
        match part:
            case ToolCall():
                fields = fields_of(self._resolve, part.name)
                self.known.learn(secrets_of(input_of(part), fields))
                arguments = scrub(part.arguments, fields, self.known)
                if arguments == part.arguments:
                    return part
                return replace(
                    part, arguments=arguments, raw=None if part.raw is None else scrub(part.raw, fields, self.known)
                )
            case ToolResult():
                fields = fields_of(self._resolve, part.name or "")
                self.known.learn(secrets_of(part.content, fields))
                if isinstance(part.content, str):
                    return replace(part, content=scrub(part.content, fields, self.known))
                return replace(part, content=[self._hide_in_part(one) for one in part.content])
            case Text():
                return replace(part, text=self._hide_in_text(part.text))
        return part

    def _hide_in_text(self, text: str) -> str:
        return str(scrub(text, (), self.known)) if self.known else text


def has_hidden(call: ToolCall) -> bool:
    """Return True if something in `call` was hidden when it was recorded."""
    mark = HIDDEN.rstrip("]")
    return mark in msgspec.json.encode(to_builtins(call.arguments)).decode() or mark in (call.raw or "")
