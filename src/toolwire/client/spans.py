"""OpenTelemetry spans of a conversation, by the conventions for generative AI: a listener for `on_event`.

Rules of this file:
- There is one span for the conversation, and in it one for each exchange with the model and one for each call. Each
  span is ended, whatever ends the conversation.
- Messages, arguments and results are in a span only with `content`. Every text is scrubbed, also names and errors. A
  value of a sensitive field is removed from everything that follows.
- Listening changes nothing: an event that has no place in a span is ignored.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from toolwire.errors import MissingExtra
from toolwire.loop.steps import AskModel, Broken, Cancelled, Done, RunTools
from toolwire.resolvers import RunSecrets
from toolwire.scrubbing import Known, scrub, scrub_text, secrets_of
from toolwire.streams.accumulation import Accumulator
from toolwire.types import (
    Error,
    ErrorEnd,
    Event,
    Message,
    MessageStart,
    Refusal,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from toolwire.types.answer import is_count
from toolwire.waiting.results import Ran
from toolwire.wire.arguments import input_of

# Providers whose name in the conventions differs from ours.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
_SETTINGS = {
    "model": "gen_ai.request.model",
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "n": "gen_ai.request.choice.count",
    "stream": "gen_ai.request.stream",
}
_TOKENS = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
_GOOD_ENDINGS = frozenset({"answer", "calls", "terminal"})
_NANOSECONDS = 1_000_000_000
_Fields = Collection[str] | Callable[[str], Collection[str]]


class Spans:
    """Makes spans of the events of one conversation at a time: `client.run(prompt, on_event=Spans())`.

    With `content`, spans contain messages, arguments and results. `fields` are sensitive, for every tool or by the name
    of a tool; `secrets` are hidden wherever they occur. A client adds what its tools declare, and its key (`know`).
    """

    def __init__(
        self,
        tracer: Any = None,
        *,
        content: bool = False,
        provider: str | None = None,
        conversation_id: str | None = None,
        fields: _Fields = (),
        secrets: Collection[str] = (),
    ) -> None:
        self._api = _opentelemetry()
        self._tracer = tracer or self._api.get_tracer("toolwire")
        self._content = content
        self._fields = fields
        self._known_secrets = tuple(secrets)
        self._run_secrets: RunSecrets | None = None
        self._secrets = Known(secrets)
        self._common = {
            "gen_ai.provider.name": None if provider is None else _PROVIDERS.get(provider, provider),
            "gen_ai.conversation.id": conversation_id,
        }
        self._conversation: Any = None
        self._exchange: Any = None
        self._accumulator: Accumulator | None = None
        self._error: Error | None = None
        self._calls: list[tuple[ToolCall, Any]] = []

    def __call__(self, event: Any) -> None:
        """Update the spans for a step, an answer, a result or an event of a stream."""
        match event:
            case AskModel():
                self._ask(event)
            case RunTools():
                self._run(event)
            case Response():
                self._end_exchange(event)
            case Error():
                self._end_exchange(None, event)
            case Broken() | Cancelled():
                self._end_exchange(event.response, event.error if isinstance(event, Broken) else "cancelled")
            case Ran():
                self._ran(event)
            case ToolResult():
                self._result(event)
            case Done():
                self._done(event)
            case _ if isinstance(event, Event):
                self._observe(event)

    def know(self, secrets: RunSecrets) -> None:
        """Set the secrets of the next conversation; a client calls this."""
        self._run_secrets = secrets

    def close(self) -> None:
        """End all open spans, of a conversation whose end was not reported."""
        self._close("abandoned")

    def _ask(self, step: AskModel) -> None:
        if step.turn == 0 and self._conversation is not None:
            self.close()
        self._end_open_spans("cancelled")
        request = step.request
        if self._conversation is None:
            of_the_run = () if self._run_secrets is None else self._run_secrets.given
            self._secrets = Known([*self._known_secrets, *of_the_run])
            self._conversation = self._start("invoke_agent", "", {"gen_ai.request.model": request.model})
        settings = _named(request, _SETTINGS)
        self._exchange = self._start("chat", request.model or "", settings, kind="CLIENT")
        if self._content:
            self._set(self._exchange, self._content_of(request))

    def _observe(self, event: Event) -> None:
        """Follow a stream, which may start again after an error."""
        if self._exchange is None:
            return
        if self._accumulator is None or isinstance(event, MessageStart):
            self._accumulator, self._error = Accumulator(), None
        if isinstance(event, ErrorEnd):
            self._error = event.error
        self._accumulator.feed(event)

    def _end_exchange(self, response: Response | None = None, error: Error | str | None = None) -> None:
        """End the open span of an exchange. Without a response, use the part of its stream that was observed."""
        span, self._exchange = self._exchange, None
        accumulator, self._accumulator = self._accumulator, None
        if span is None:
            return
        if response is None and accumulator is not None:
            response = accumulator.response
        if response is not None:
            self._set(span, _attributes_of(response))
            self._learn(part for choice in response.choices for part in choice.message.parts)
            if self._content:
                choices = [
                    {**self._message(one.message), "finish_reason": one.finish_reason} for one in response.choices
                ]
                self._set(span, {"gen_ai.output.messages": choices})
        self._end(span, self._error if error is None else error)
        self._error = None

    def _run(self, step: RunTools) -> None:
        self._end_open_spans("cancelled")
        self._learn(step.calls)
        self._calls = [(call, self._tool(call)) for call in step.calls]

    def _tool(self, call: ToolCall) -> Any:
        attributes = {"gen_ai.tool.name": call.name, "gen_ai.tool.call.id": call.id, "gen_ai.tool.type": "function"}
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = self._scrubbed(call.plain_arguments, call)
        return self._start("execute_tool", call.name, attributes)

    def _ran(self, ran: Ran) -> None:
        """End the span of a call at the time when it ended, which may be long before the others of its turn."""
        for index, (call, span) in enumerate(self._calls):
            if call is ran.call:
                del self._calls[index]
                error = None if ran.ending == "ok" else ran.ending
                ended = None if ran.started is None else ran.started + ran.seconds
                self._end_call(span, call, ran.result, error, ended)
                return

    def _result(self, result: ToolResult) -> None:
        ids = [call.id for call, _ in self._calls]
        index = ids.index(result.tool_call_id) if result.tool_call_id in ids else 0
        if self._calls and result.tool_call_id in (ids[index], None):
            call, span = self._calls.pop(index)
            self._end_call(span, call, result, "tool_error" if result.is_error else None)

    def _end_call(
        self, span: Any, call: ToolCall, result: ToolResult, error: str | None, ended: float | None = None
    ) -> None:
        if self._content:
            content = result.content if isinstance(result.content, str) else [_part(one) for one in result.content]
            self._set(span, {"gen_ai.tool.call.result": self._scrubbed({"result": content}, call)})
        self._end(span, error, ended)

    def _end_open_spans(self, why: str) -> None:
        """End the spans that the next step shows to be over."""
        self._end_exchange()
        calls, self._calls = self._calls, []
        for _, span in calls:
            self._end(span, why)

    def _done(self, done: Done) -> None:
        error = None if done.ending in _GOOD_ENDINGS else done.error or done.ending
        self._end_exchange(done.response if done.error is None else None, error)
        if self._conversation is not None:
            self._set(self._conversation, _tokens(done.usage))
            self._set(self._conversation, {"gen_ai.response.model": done.model})
            self._close(error)

    def _close(self, error: Error | str | None) -> None:
        self._end_exchange(None, error)
        self._end_open_spans("cancelled")
        span, self._conversation = self._conversation, None
        if span is not None:
            self._end(span, error)

    def _start(self, operation: str, subject: str, attributes: Mapping[str, Any], *, kind: str = "INTERNAL") -> Any:
        """Start a span within that of the conversation, or that one itself."""
        parent = self._conversation
        span = self._tracer.start_span(
            self._clean(f"{operation} {subject}".strip()),
            context=None if parent is None else self._api.set_span_in_context(parent),
            kind=self._api.SpanKind[kind],
        )
        self._set(span, {"gen_ai.operation.name": operation, **self._common, **attributes})
        return span

    def _set(self, span: Any, attributes: Mapping[str, Any]) -> None:
        for name, value in attributes.items():
            if value is not None:
                span.set_attribute(name, self._attribute(value))

    def _attribute(self, value: Any) -> Any:
        match value:
            case bool() | int() | float():
                return value
            case str():
                return self._clean(value)
            case list() if all(isinstance(one, str) for one in value):
                return [self._clean(one) for one in value]
        return json.dumps(scrub(value, (), self._secrets), ensure_ascii=False, default=str)

    def _end(self, span: Any, error: Error | str | None, ended: float | None = None) -> None:
        if error is not None:
            error_type, why = (error.kind, error.message) if isinstance(error, Error) else (error, None)
            span.set_attribute("error.type", error_type)
            span.set_status(self._api.Status(self._api.StatusCode.ERROR, why and self._clean(why)))
        span.end() if ended is None else span.end(int(ended * _NANOSECONDS))

    def _clean(self, text: str) -> str:
        return scrub_text(text, self._secrets)

    def _fields_of(self, tool: str) -> Collection[str]:
        fields = self._fields(tool) if callable(self._fields) else self._fields
        return fields if self._run_secrets is None else [*fields, *self._run_secrets.fields_of(tool)]

    def _learn(self, parts: Iterable[Any]) -> None:
        for call in parts:
            if isinstance(call, ToolCall):
                self._secrets.learn(secrets_of(input_of(call), self._fields_of(call.name)))

    def _content_of(self, request: Request) -> dict[str, Any]:
        for message in request.messages:
            self._learn(message.parts)
        return {
            "gen_ai.system_instructions": None if request.system is None else _parts(request.system),
            "gen_ai.input.messages": [self._message(message) for message in request.messages],
        }

    def _message(self, message: Message) -> dict[str, Any]:
        parts = [_part(one) if type(one) is not ToolCall else self._call(one) for one in message.parts]
        return {"role": message.role, "parts": parts}

    def _call(self, call: ToolCall) -> dict[str, Any]:
        return {**_part(call), "arguments": self._scrubbed(call.plain_arguments, call)}

    def _scrubbed(self, value: Any, call: ToolCall) -> Any:
        return scrub(value, self._fields_of(call.name), self._secrets)


def _opentelemetry() -> Any:
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra, and only spans need it
    except ImportError as problem:
        raise MissingExtra("opentelemetry-api", "telemetry", "to make spans") from problem
    return trace


def _named(value: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of `value` under their names in the conventions; empty for None."""
    return {} if value is None else {name: getattr(value, field) for field, name in names.items()}


def _tokens(usage: Usage | None) -> dict[str, Any]:
    """Return the counts of a usage that are numbers."""
    return {name: count for name, count in _named(usage, _TOKENS).items() if is_count(count)}


def _attributes_of(response: Response) -> dict[str, Any]:
    reasons = [choice.finish_reason for choice in response.choices if choice.finish_reason is not None]
    return {
        "gen_ai.response.id": response.id,
        "gen_ai.response.model": response.model,
        "gen_ai.response.finish_reasons": reasons or None,
        **_tokens(response.usage),
    }


def _parts(content: str | Iterable[Any]) -> list[dict[str, Any]]:
    return [_part(one) for one in ([Text(content)] if isinstance(content, str) else content)]


def _part(part: Any) -> dict[str, Any]:
    match part:
        case Text() | Refusal():
            return {"type": "text", "content": part.text}
        case Thinking():
            return {"type": "reasoning", "content": part.text}
        case ToolCall():
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": part.plain_arguments}
        case ToolResult():
            content = part.content if isinstance(part.content, str) else _parts(part.content)
            return {"type": "tool_call_response", "id": part.tool_call_id, "result": content}
    return {"type": type(part).__name__.lower()}
