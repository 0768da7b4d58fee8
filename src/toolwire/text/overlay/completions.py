"""Raw completions: a whole conversation as the text of one prompt, to a server that only goes on with a text.

Rules of this file:
- Bodies are those of `/v1/completions` (openai 3.52.0, CompletionCreateParams) or of llama.cpp's `/completion`
  (tools/server/README.md, 2026-11-20). But for prompt and text they are read and written as Chat Completions.
- The prompt is what the format writes of the conversation; the answer is read by the same format.
- A model is told to stop where its turn ends, if the format has a mark for that which no other text has.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from toolwire.dialects import Dialect, dialect
from toolwire.encoding.ledger import shared_spelling_of
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.errors import FrameTooLarge, InvalidField
from toolwire.providers import Provider
from toolwire.streams import StreamDecoder, StreamEncoder
from toolwire.text.format import Format
from toolwire.text.format import format as _format
from toolwire.text.overlay.dialect import TextDialect
from toolwire.text.overlay.stream_decoder import DecoderWrapper
from toolwire.text.quoting import GivenTexts
from toolwire.text.rows import bare_mark, turn_marks
from toolwire.types import Context, Encoded, Event, Loss, Message, Request, Response
from toolwire.types.spelling import RequestSpelling
from toolwire.wire.framing import STRAY, EventStream, Frame, write_event

OPENAI, LLAMA = "/v1/completions", "/completion"
_Body = dict[str, Any]
_NAMED = {"max_completion_tokens": "max_tokens"}
_BESIDE = frozenset({"messages", "tools", "functions", "modalities"})
_KNOWN = frozenset(
    "model prompt max_tokens temperature top_p stop stream stream_options seed n presence_penalty frequency_penalty "
    "logit_bias user".split()
)
_OF_LLAMA = {"max_tokens": "n_predict"}
_UNKNOWN_TO_LLAMA = frozenset({"n", "user"})
_DONE = b"[DONE]"
# It ends a turn of some models, and struck text of HTML.
_STRUCK = "</s>"


class _Completions:
    """The wire: a request is one message, whose words are the prompt."""

    def __init__(self, path: str) -> None:
        chat = dialect("openai-chat")
        self.DIALECT = chat.DIALECT
        self.TRAITS = chat.TRAITS
        self.SETTING_PATHS = {name: _NAMED.get(said, said) for name, said in chat.SETTING_PATHS.items()}
        self.decode_error = chat.decode_error
        self.encode_error = chat.encode_error
        self._chat = chat
        self._of_chat = _BESIDE | set(chat.SETTING_PATHS.values())
        self._path = path
        self._llama = path == LLAMA

    def decode_request(self, body: _Body, path: str = "") -> Request:
        """Read a request's body."""
        del path
        rest = {key: value for key, value in body.items() if key != "prompt"}
        if self._llama and "n_predict" in rest:
            rest["max_tokens"] = rest.pop("n_predict")
        return self._chat.decode_request({**rest, "messages": [{"role": "user", "content": body.get("prompt")}]})

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a request's body, and say what it cannot hold."""
        encoded = self._chat.encode_request(request, quirks, **settings)
        [message] = encoded.body["messages"]
        body: _Body = {"prompt": message["content"]}
        losses = list(encoded.losses)
        fields = {said: name for name, said in self._chat.SETTING_PATHS.items()}
        for key, value in encoded.body.items():
            named = _NAMED.get(key, key)
            known = named in _KNOWN and not (self._llama and named in _UNKNOWN_TO_LLAMA)
            if known or key not in self._of_chat:
                body[_OF_LLAMA.get(named, named) if self._llama else named] = value
            elif key != "messages":
                losses.append(Loss(fields.get(key, key), key, "dropped", "raw completions have no place for it"))
        return Encoded(self._path, body, tuple(losses))

    def decode_response(self, body: _Body) -> Response:
        """Read a response's body."""
        return self._chat.decode_response(_chat_of(body, "message"))

    def encode_response(self, response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a response's body, and say what it cannot hold."""
        encoded = self._chat.encode_response(response, quirks, **settings)
        return replace(encoded, body=self._completion_of(encoded.body, "message"))

    def decode_stream(self) -> Any:
        """Read a stream: bytes to events, as they arrive."""
        return _Decoder(self._chat.decode_stream())

    def encode_stream(self, quirks: Quirks = PLAIN, **settings: Any) -> Any:
        """Write a stream: events to bytes."""
        return _Encoder(self._chat.encode_stream(quirks, **settings), lambda body: self._completion_of(body, "delta"))

    def _completion_of(self, body: _Body, key: str) -> _Body:
        """Give a chat body as this wire has it."""
        if type(body.get("choices")) is not list:
            return body
        choices = [
            {**{name: value for name, value in choice.items() if name != key}, "text": choice[key].get("content") or ""}
            for choice in body["choices"]
        ]
        if not self._llama:
            return {**body, "object": "text_completion", "choices": choices}
        first = choices[0] if choices else {}
        reason, usage = first.get("finish_reason"), body.get("usage") or {}
        said: _Body = {"content": first.get("text", ""), "stop": bool(reason) or key == "message"}
        if said["stop"]:
            said |= {"model": body.get("model"), "stop_type": "limit" if reason == "length" else "eos"}
        counts = {"tokens_evaluated": "prompt_tokens", "tokens_predicted": "completion_tokens"}
        return said | {name: usage[count] for name, count in counts.items() if count in usage}


def _chat_of(body: _Body, key: str) -> _Body:
    """Give a completion as a chat body; `key` is what holds the words there."""
    choices = body.get("choices")
    if type(choices) is list:
        chat = [_choice_of(choice, key) if type(choice) is dict else choice for choice in choices]
        return {**body, "object": "chat.completion" if key == "message" else "chat.completion.chunk", "choices": chat}
    if type(body.get("content")) is not str:
        return body
    ended = body.get("stop") is True
    cut = body.get("stop_type") == "limit" or body.get("stopped_limit") is True
    choice = {"index": 0, key: _words_of(body["content"], key), "finish_reason": "length" if cut else "stop"}
    made: _Body = {"model": body.get("model", ""), "choices": [choice if ended else {**choice, "finish_reason": None}]}
    asked, said = body.get("tokens_evaluated"), body.get("tokens_predicted")
    if ended and type(asked) is int and type(said) is int:
        made["usage"] = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    return made


def _chunk_of(body: _Body) -> _Body:
    return _chat_of(body, "delta")


def _choice_of(choice: _Body, key: str) -> _Body:
    rest = {name: value for name, value in choice.items() if name not in {"text", "logprobs"}}
    return {**rest, key: _words_of(choice.get("text"), key)}


def _words_of(text: Any, key: str) -> _Body:
    return {"role": "assistant", "content": text} if key == "message" else {"content": text}


def _rewritten(frames: Iterable[Frame], change: Callable[[_Body], _Body]) -> bytes:
    """Give frames with their bodies changed; what is no body stays as it is."""
    said = b""
    for name, data in frames:
        if name == STRAY:
            said += data + b"\n"
            continue
        try:
            body = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            body = None
        whole = type(body) is dict
        said += write_event(msgspec.json.encode(change(body)) if whole else data, name)
        if whole and "choices" not in body and body.get("stop") is True:
            said += write_event(_DONE)
    return said


class _Decoder(DecoderWrapper):
    """Reads a stream of completions as one of chat."""

    def __init__(self, inner: StreamDecoder) -> None:
        super().__init__(inner)
        self._frames = EventStream()

    def feed(self, data: bytes) -> list[Event]:
        """Give the events that these bytes tell."""
        try:
            return self._read(self._frames.feed(data))
        except FrameTooLarge as problem:
            return [*self._read(problem.before), *self._inner.feed(write_event(_error(problem)))]

    def close(self) -> list[Event]:
        """Give the events that the end of the bytes tells."""
        unended = _rewritten(self._frames.unfinished(), _chunk_of).removesuffix(b"\n\n")
        return [*self._inner.feed(unended), *self._inner.close()]

    def _read(self, frames: Iterable[Frame]) -> list[Event]:
        return self._inner.feed(_rewritten(frames, _chunk_of))


def _error(problem: Exception) -> bytes:
    return msgspec.json.encode({"error": {"message": str(problem), "type": "server_error"}})


class _Encoder:
    """Writes a stream of chat as one of completions."""

    def __init__(self, inner: StreamEncoder, change: Callable[[_Body], _Body]) -> None:
        self._inner = inner
        self._change = change
        self._frames = EventStream()

    @property
    def ended(self) -> bool:
        """Whether nothing more is said."""
        return self._inner.ended

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far."""
        return self._inner.losses

    def feed(self, event: Event) -> bytes:
        """Give the bytes that can be said after this event."""
        return _rewritten(self._frames.feed(self._inner.feed(event)), self._change)

    def close(self) -> bytes:
        """Give the last bytes."""
        return _rewritten(self._frames.feed(self._inner.close()), self._change)


class CompletionDialect(TextDialect):
    """A wire of raw completions, on which a format writes whole conversations."""

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a request's body: the conversation is its prompt."""
        if shared_spelling_of(request.opaque, self.DIALECT, RequestSpelling).is_text:
            return self._inner.encode_request(request, quirks, **settings)
        losses: list[Loss] = []
        context, choice = request.context, request.tool_choice
        if choice is not None and (choice.mode == "none" or choice.names is not None):
            names = () if choice.mode == "none" else choice.names or ()
            tools = [tool for tool in context.tools if getattr(tool, "name", None) in names]
            context = replace(context, tools=tools)
            losses.append(Loss("tool_choice", "tool_choice", "approximated", "no other tool is told of", "minor"))
        if choice is not None and choice.mode == "required":
            losses.append(Loss("tool_choice", "tool_choice", "dropped", "nothing forces a call in text", "semantic"))
        if request.parallel_tool_calls is not None:
            losses.append(
                Loss("parallel_tool_calls", "parallel_tool_calls", "dropped", "the prompt does not ask", "semantic")
            )
        if context.tools:
            losses.append(Loss("tools", "tools", "moved", "they stand in the prompt", "minor"))
        written = self.format.encode_context(context, ask=True)
        prompt = Context(messages=[Message("user", written.text)], provider_state=context.provider_state)
        changes: dict[str, Any] = {"tool_choice": None, "parallel_tool_calls": None, "stop": self._stops(request)}
        encoded = self._inner.encode_request(replace(request, context=prompt, **changes), quirks, **settings)
        return replace(encoded, losses=(*losses, *written.losses, *encoded.losses))

    def _stops(self, request: Request) -> list[str] | None:
        """Give where the model is to stop: where it is asked to, and where its turn ends."""
        row, stops = self.format.row, list(request.stop or ())
        turns = turn_marks(row.turns)
        end = bare_mark(turns.get("assistant", ("", ""))[1]) or bare_mark(turns.get("user", ("", ""))[0])
        if end and end != _STRUCK and row.shape != "channels" and end not in stops:
            stops.append(end)
        return stops or None


def completions(
    tools: Iterable[Any] | None = None,
    *,
    format: str | Format | dict[str, Any],  # noqa: A002 - the public name
    path: str = OPENAI,
    given: Iterable[str] = (),
    earlier: Iterable[str] = (),
) -> CompletionDialect:
    """Give a dialect for raw completions: the text of a format, to a server that goes on with it.

    `path` is `/v1/completions`, or `/completion` for llama.cpp's own. Only calls of `tools` are read; without them,
    those of any name. `given` and `earlier` are those of `over`.
    """
    if path not in {OPENAI, LLAMA}:
        raise InvalidField("completions", f"must be {OPENAI!r} or {LLAMA!r}, not {path!r}")
    form = format if isinstance(format, Format) else _format(format)
    offered = None if tools is None else list(tools)
    inner: Dialect = _Completions(path)
    return CompletionDialect(
        inner, form, offered, (), native=False, compact=False, given=GivenTexts(given), earlier=frozenset(earlier)
    )


def raw_completions(provider: Provider, tools: Iterable[Any], **said: Any) -> CompletionDialect:
    """Give the dialect of a provider that has raw completions."""
    if not provider.format:
        raise InvalidField(
            "format", "must name how the models are written to: completions have no messages", path=provider.name
        )
    return completions(tools, format=provider.format, path=provider.completions, **said)
