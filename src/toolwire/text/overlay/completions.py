"""Raw completions: a whole conversation as the text of one prompt, for a server that only continues a text.

Rules of this file:
- Bodies are those of `/v1/completions` (openai 3.52.0, CompletionCreateParams) or of llama.cpp's `/completion`
  (tools/server/README.md, 2026-11-20). Apart from the prompt and the text, they are decoded and encoded as those of
  Chat Completions.
- The text format encodes the conversation to the prompt, and decodes the answer.
- The model is asked to stop at the end of its turn, if the format has a mark for it that occurs in no other text.
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
# Llama 2 and Mistral models end a turn with this mark. In HTML it ends struck text, so it is no stop sequence.
_STRUCK = "</s>"


class _Completions:
    """The wire of raw completions: a request is one message, whose text is the prompt."""

    def __init__(self, path: str) -> None:
        chat = dialect("openai-chat")
        self.DIALECT = chat.DIALECT
        self.TRAITS = chat.TRAITS
        self.SETTING_PATHS = {name: _NAMED.get(field, field) for name, field in chat.SETTING_PATHS.items()}
        self.decode_error = chat.decode_error
        self.encode_error = chat.encode_error
        self._chat = chat
        self._of_chat = _BESIDE | set(chat.SETTING_PATHS.values())
        self._path = path
        self._llama = path == LLAMA

    def decode_request(self, body: _Body, path: str = "") -> Request:
        """Decode a request body."""
        del path
        fields = {key: value for key, value in body.items() if key != "prompt"}
        if self._llama and "n_predict" in fields:
            fields["max_tokens"] = fields.pop("n_predict")
        return self._chat.decode_request({**fields, "messages": [{"role": "user", "content": body.get("prompt")}]})

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Encode a request. Return the body and the losses."""
        encoded = self._chat.encode_request(request, quirks, **settings)
        [message] = encoded.body["messages"]
        body: _Body = {"prompt": message["content"]}
        losses = list(encoded.losses)
        names_by_field = {field: name for name, field in self._chat.SETTING_PATHS.items()}
        for key, value in encoded.body.items():
            completion_key = _NAMED.get(key, key)
            is_known = completion_key in _KNOWN and not (self._llama and completion_key in _UNKNOWN_TO_LLAMA)
            if is_known or key not in self._of_chat:
                body[_OF_LLAMA.get(completion_key, completion_key) if self._llama else completion_key] = value
            elif key != "messages":
                losses.append(Loss(names_by_field.get(key, key), key, "dropped", "raw completions have no such field"))
        return Encoded(self._path, body, tuple(losses))

    def decode_response(self, body: _Body) -> Response:
        """Decode a response body."""
        return self._chat.decode_response(_chat_of(body, "message"))

    def encode_response(self, response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Encode a response. Return the body and the losses."""
        encoded = self._chat.encode_response(response, quirks, **settings)
        return replace(encoded, body=self._completion_of(encoded.body, "message"))

    def decode_stream(self) -> Any:
        """Return a decoder: bytes to events, as they arrive."""
        return _Decoder(self._chat.decode_stream())

    def encode_stream(self, quirks: Quirks = PLAIN, **settings: Any) -> Any:
        """Return an encoder: events to bytes."""
        return _Encoder(self._chat.encode_stream(quirks, **settings), lambda body: self._completion_of(body, "delta"))

    def _completion_of(self, body: _Body, key: str) -> _Body:
        """Convert a chat body to a body of this wire."""
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
        converted: _Body = {"content": first.get("text", ""), "stop": bool(reason) or key == "message"}
        if converted["stop"]:
            converted |= {"model": body.get("model"), "stop_type": "limit" if reason == "length" else "eos"}
        counts = {"tokens_evaluated": "prompt_tokens", "tokens_predicted": "completion_tokens"}
        return converted | {name: usage[count] for name, count in counts.items() if count in usage}


def _chat_of(body: _Body, key: str) -> _Body:
    """Convert a completion to a chat body. `key` is the field that holds the text there."""
    choices = body.get("choices")
    if type(choices) is list:
        chat = [_choice_of(choice, key) if type(choice) is dict else choice for choice in choices]
        return {**body, "object": "chat.completion" if key == "message" else "chat.completion.chunk", "choices": chat}
    if type(body.get("content")) is not str:
        return body
    is_ended = body.get("stop") is True
    is_cut = body.get("stop_type") == "limit" or body.get("stopped_limit") is True
    choice = {"index": 0, key: _message_of(body["content"], key), "finish_reason": "length" if is_cut else "stop"}
    converted: _Body = {
        "model": body.get("model", ""),
        "choices": [choice if is_ended else {**choice, "finish_reason": None}],
    }
    prompt_tokens, completion_tokens = body.get("tokens_evaluated"), body.get("tokens_predicted")
    if is_ended and type(prompt_tokens) is int and type(completion_tokens) is int:
        converted["usage"] = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }
    return converted


def _chunk_of(body: _Body) -> _Body:
    return _chat_of(body, "delta")


def _choice_of(choice: _Body, key: str) -> _Body:
    fields = {name: value for name, value in choice.items() if name not in {"text", "logprobs"}}
    return {**fields, key: _message_of(choice.get("text"), key)}


def _message_of(text: Any, key: str) -> _Body:
    return {"role": "assistant", "content": text} if key == "message" else {"content": text}


def _convert_frames(frames: Iterable[Frame], convert: Callable[[_Body], _Body]) -> bytes:
    """Return frames with their bodies converted. A frame that is not a JSON object is unchanged."""
    output = b""
    for name, data in frames:
        if name == STRAY:
            output += data + b"\n"
            continue
        try:
            body = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            body = None
        is_object = type(body) is dict
        output += write_event(msgspec.json.encode(convert(body)) if is_object else data, name)
        if is_object and "choices" not in body and body.get("stop") is True:
            output += write_event(_DONE)
    return output


class _Decoder(DecoderWrapper):
    """Decodes a stream of completions through the decoder of Chat Completions."""

    def __init__(self, inner: StreamDecoder) -> None:
        super().__init__(inner)
        self._frames = EventStream()

    def feed(self, data: bytes) -> list[Event]:
        """Return the events of these bytes."""
        try:
            return self._read(self._frames.feed(data))
        except FrameTooLarge as problem:
            return [*self._read(problem.before), *self._inner.feed(write_event(_error(problem)))]

    def close(self) -> list[Event]:
        """Return the events of the end of the bytes."""
        unended = _convert_frames(self._frames.unfinished(), _chunk_of).removesuffix(b"\n\n")
        return [*self._inner.feed(unended), *self._inner.close()]

    def _read(self, frames: Iterable[Frame]) -> list[Event]:
        return self._inner.feed(_convert_frames(frames, _chunk_of))


def _error(problem: Exception) -> bytes:
    return msgspec.json.encode({"error": {"message": str(problem), "type": "server_error"}})


class _Encoder:
    """Encodes a stream of completions through the encoder of Chat Completions."""

    def __init__(self, inner: StreamEncoder, convert: Callable[[_Body], _Body]) -> None:
        self._inner = inner
        self._convert = convert
        self._frames = EventStream()

    @property
    def ended(self) -> bool:
        """Return True if the encoder accepts no more events."""
        return self._inner.ended

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses so far."""
        return self._inner.losses

    def feed(self, event: Event) -> bytes:
        """Return the bytes that can be sent after this event."""
        return _convert_frames(self._frames.feed(self._inner.feed(event)), self._convert)

    def close(self) -> bytes:
        """Return the last bytes."""
        return _convert_frames(self._frames.feed(self._inner.close()), self._convert)


class CompletionDialect(TextDialect):
    """A dialect of raw completions. A text format encodes whole conversations as the prompt."""

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Encode a request: the conversation becomes the prompt. Return the body and the losses."""
        if shared_spelling_of(request.opaque, self.DIALECT, RequestSpelling).is_text:
            return self._inner.encode_request(request, quirks, **settings)
        losses: list[Loss] = []
        context, choice = request.context, request.tool_choice
        if choice is not None and (choice.mode == "none" or choice.names is not None):
            names = () if choice.mode == "none" else choice.names or ()
            tools = [tool for tool in context.tools if getattr(tool, "name", None) in names]
            context = replace(context, tools=tools)
            losses.append(
                Loss("tool_choice", "tool_choice", "approximated", "the prompt describes no other tool", "minor")
            )
        if choice is not None and choice.mode == "required":
            losses.append(
                Loss("tool_choice", "tool_choice", "dropped", "raw completions cannot force a call", "semantic")
            )
        if request.parallel_tool_calls is not None:
            detail = "the prompt does not ask for it"
            losses.append(Loss("parallel_tool_calls", "parallel_tool_calls", "dropped", detail, "semantic"))
        if context.tools:
            losses.append(Loss("tools", "tools", "moved", "the tools are described in the prompt", "minor"))
        written = self.format.encode_context(context, ask=True)
        prompt = Context(messages=[Message("user", written.text)], provider_state=context.provider_state)
        changes: dict[str, Any] = {"tool_choice": None, "parallel_tool_calls": None, "stop": self._stops(request)}
        encoded = self._inner.encode_request(replace(request, context=prompt, **changes), quirks, **settings)
        return replace(encoded, losses=(*losses, *written.losses, *encoded.losses))

    def _stops(self, request: Request) -> list[str] | None:
        """Return the stop sequences of the request, and the mark that ends the model's turn."""
        row, stops = self.format.row, list(request.stop or ())
        turns = turn_marks(row.turns)
        turn_end = bare_mark(turns.get("assistant", ("", ""))[1]) or bare_mark(turns.get("user", ("", ""))[0])
        if turn_end and turn_end != _STRUCK and row.shape != "channels" and turn_end not in stops:
            stops.append(turn_end)
        return stops or None


def completions(
    tools: Iterable[Any] | None = None,
    *,
    format: str | Format | dict[str, Any],  # noqa: A002 - the public name
    path: str = OPENAI,
    given: Iterable[str] = (),
    earlier: Iterable[str] = (),
) -> CompletionDialect:
    """Return a dialect for raw completions: a text format over a server that only continues a text.

    - `tools`: only calls of these tools are read. None accepts any name.
    - `format`: the name of a text format, or its table.
    - `path`: `/v1/completions`, or `/completion` for llama.cpp's own API.
    - `given` and `earlier` are those of `over`.

    Raises `InvalidField` for another path.

    >>> from toolwire import Context, Message, Request, text
    >>> wire = text.completions(format="hermes")
    >>> wire.encode_request(Request(model="m", context=Context(messages=[Message("Hi.")]))).body["stop"]
    ['<|im_end|>']
    """
    if path not in {OPENAI, LLAMA}:
        raise InvalidField("completions", f"must be {OPENAI!r} or {LLAMA!r}, not {path!r}")
    text_format = format if isinstance(format, Format) else _format(format)
    offered = None if tools is None else list(tools)
    inner: Dialect = _Completions(path)
    return CompletionDialect(
        inner,
        text_format,
        offered,
        (),
        native=False,
        compact=False,
        given=GivenTexts(given),
        earlier=frozenset(earlier),
    )


def raw_completions(provider: Provider, tools: Iterable[Any], **settings: Any) -> CompletionDialect:
    """Return the dialect of a provider that has raw completions. Raises `InvalidField` if it has no format."""
    if not provider.format:
        raise InvalidField("format", "must name a text format: raw completions have no messages", path=provider.name)
    return completions(tools, format=provider.format, path=provider.completions, **settings)
