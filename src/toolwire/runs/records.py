"""What a run records, as JSON: an outcome and its way back, long texts once, and nothing that is secret.

Rules of this file:
- A text that is longer than a hash is kept once for a run, by its hash; what refers to it is `{"$": hash}`. One with
  NUL, which is no text to PostgreSQL, stays where it is: JSON has a spelling for it.
- What stands in sensitive fields of calls and results is hidden before it is recorded, as in traces. A run that
  goes on in another process goes on without it, and a call that would need it is not run.
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
from toolwire.wire.arguments import input_of
from toolwire.work.results import safe

_LONG = 200
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Done, Error, Message, Request, Response, ToolResult)}
readable(Done)  # as the others are by now
Keep = Callable[[dict[str, str]], None]


def packed(value: Any, texts: dict[str, str]) -> Any:
    """Give plain values with each long text in its place by its hash; the texts go to `texts`."""
    match value:
        case str() if len(value) > _LONG and "\x00" not in value:
            name = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
            texts[name] = value
            return {"$": name}
        case dict():
            made = {key: packed(inner, texts) for key, inner in value.items()}
            return {"$$": made} if value.keys() in ({"$"}, {"$$"}) else made
        case list() | tuple():
            return [packed(inner, texts) for inner in value]
    return value


def unpacked(value: Any, texts: Mapping[str, str]) -> Any:
    """Give plain values as they were packed."""
    match value:
        case {"$": str(name), **rest} if not rest:
            return texts[name]
        case {"$$": dict(inner), **rest} if not rest:
            return {key: unpacked(one, texts) for key, one in inner.items()}
        case dict():
            return {key: unpacked(inner, texts) for key, inner in value.items()}
        case list():
            return [unpacked(inner, texts) for inner in value]
    return value


def plain(value: Any) -> Any:
    """Give the plain values of a value of ours, with its kind; None is None."""
    return None if value is None else {"kind": type(value).__name__, "value": builtins(value)}


def builtins(value: Any) -> Any:
    """Give plain values; what has none shows itself."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=repr))


def value_of(said: Any) -> Any:
    """Give a value of ours back."""
    if said is None:
        return None
    return msgspec.json.decode(msgspec.json.encode(said["value"]), type=_KINDS[said["kind"]])


def plain_request(request: Request) -> Any:
    """Give the plain values of a request; what a tool says for programs here is no part of it."""
    context = request.context
    tools = [replace(tool, metadata={}) if getattr(tool, "metadata", None) else tool for tool in context.tools]
    said = Context(context.system, list(context.messages), tools, context.provider_state)
    return plain(replace(request, context=said))


class Secrets:
    """What is secret in a run by now: it learns from each call and result that is recorded."""

    def __init__(self, given: Iterable[str], resolve: Any = None) -> None:
        self.known: Known = Known(given)
        self._resolve = resolve

    def known_now(self) -> Known:
        """Give what is secret by now."""
        return self.known

    def shown(self, call: ToolCall) -> str:
        """Give the arguments of a call as they may be shown to whoever is asked about it."""
        part = self._part(call)
        return safe(str(part.raw)) if call.custom else msgspec.json.encode(builtins(part.arguments)).decode()

    def hidden(self, value: Any) -> Any:
        """Give an outcome with what is secret hidden."""
        match value:
            case Response():
                return replace(
                    value, choices=[replace(one, message=self._message(one.message)) for one in value.choices]
                )
            case Message():
                return self._message(value)
            case ToolResult():
                return self._part(value)
            case Done():
                response = None if value.response is None else self.hidden(value.response)
                calls = [self._part(call) for call in value.calls]
                return replace(
                    value, messages=[self._message(one) for one in value.messages], response=response, calls=calls
                )
        return value

    def _message(self, message: Message) -> Message:
        if isinstance(message.content, str):
            return replace(message, content=self._text(message.content))
        if isinstance(message.content, list):
            return replace(message, content=[self._part(part) for part in message.content])
        return message

    def _part(self, part: Any) -> Any:
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
                return replace(part, content=[self._part(one) for one in part.content])
            case Text():
                return replace(part, text=self._text(part.text))
        return part

    def _text(self, text: str) -> str:
        return str(scrub(text, (), self.known)) if self.known else text


def has_hidden(call: ToolCall) -> bool:
    """Whether something of a call was hidden when it was recorded."""
    mark = HIDDEN.rstrip("]")
    return mark in msgspec.json.encode(builtins(call.arguments)).decode() or mark in (call.raw or "")
