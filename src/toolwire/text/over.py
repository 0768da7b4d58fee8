"""A dialect over a dialect: the same wire, to a model that writes its calls in its text, in a format that is named.

Rules of this file:
- It has what every dialect has, under the same names. It keeps nothing from one body to the next.
- Each text of an answer is read on its own. Calls that the wire itself brought stay what they are.
- Where tools are told in text, so are calls and results; with `native`, the server does that itself from the request.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.dialects import Dialect, dialect
from toolwire.encoding.finish import CUT, wants_calls
from toolwire.encoding.ledger import PLAIN, Quirks
from toolwire.streams.accumulation import Accumulator, accumulate, events_of
from toolwire.text.format import Format
from toolwire.text.format import format as _format
from toolwire.text.overlay.dialect import over as over_tagged
from toolwire.text.overlay.requests import add_words
from toolwire.text.writing import FormatWriter
from toolwire.types import (
    CallStart,
    Choice,
    ChoiceEnd,
    Context,
    Document,
    Encoded,
    ErrorEnd,
    Event,
    Loss,
    Message,
    MessageEnd,
    MessageStart,
    Part,
    PartEnd,
    PartStart,
    Request,
    Response,
    ServerTool,
    Text,
    TextDelta,
    ToolCall,
)

_AROUND = (MessageStart, ChoiceEnd, MessageEnd)


class _TextDialect:
    """A wire whose answers hold calls in their texts."""

    def __init__(
        self, inner: Dialect, form: Format, tools: list[Any] | None, given: tuple[str, ...], *, native: bool
    ) -> None:
        self.DIALECT = inner.DIALECT
        self.SETTING_PATHS = inner.SETTING_PATHS
        self.decode_error = inner.decode_error
        self.encode_error = inner.encode_error
        self.decode_request = inner.decode_request
        self.native: bool = native
        self.format: Format = form
        self._inner = inner
        self._tools = tools
        self._given = given

    def open(self, seed: str) -> Any:
        """Give what reads one text."""
        return self.format.decode_stream(self._tools, given=self._given, seed=seed)

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a request's body; where tools are told in text, with calls and results in it."""
        if self.native:
            return self._inner.encode_request(request, quirks, **settings)
        told, losses = _told(request, self.format)
        encoded = self._inner.encode_request(told, quirks, **settings)
        return replace(encoded, losses=(*losses, *encoded.losses))

    def decode_response(self, body: dict[str, Any]) -> Response:
        """Read a response's body, and the calls in its texts."""
        response = self._inner.decode_response(body)
        seed = _seed_of(response)
        choices = [self._read(choice, f"{seed}/{place}") for place, choice in enumerate(response.choices)]
        return replace(response, choices=choices)

    def _read(self, choice: Choice, seed: str) -> Choice:
        message, cut = choice.message, choice.finish_reason in CUT
        parts: Sequence[Part] = [Text(message.text)] if isinstance(message.content, str) else message.parts
        read: list[Part] = []
        for place, part in enumerate(parts):
            found = self._parts_of(part, f"{seed}/{place}", whole=not (cut and place == len(parts) - 1))
            read += found
        if len(read) == len(parts) and all(new is old for new, old in zip(read, parts, strict=True)):
            return choice
        return ended(replace(choice, message=replace(message, content=read)), read)

    def _parts_of(self, part: Part, seed: str, *, whole: bool) -> Sequence[Part]:
        if not isinstance(part, Text):
            return [part]
        stream = self.open(seed)
        found = accumulate([*stream.feed(part.text), *stream.close(whole=whole)]).message.parts
        if not found or (len(found) == 1 and isinstance(found[0], Text)):
            return [part]
        return found

    def decode_stream(self) -> Any:
        """Read a stream, and the calls in its texts."""
        return _Decoder(self, self._inner.decode_stream())

    def encode_response(self, response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a response's body; where calls are words, with its calls in its text."""
        if self.native:
            return self._inner.encode_response(response, quirks, **settings)
        written, losses = _worded(response, self.format)
        encoded = self._inner.encode_response(written, quirks, **settings)
        return replace(encoded, losses=(*losses, *encoded.losses))

    def encode_stream(self, quirks: Quirks = PLAIN, **settings: Any) -> Any:
        """Write a stream; where calls are words, the answer is written when it is whole."""
        inner = self._inner.encode_stream(quirks, **settings)
        return inner if self.native else _Encoder(inner, self.format)


def _seed_of(response: Response) -> str:
    return str(response.id or response.created or "")


def ended(choice: Choice, parts: Iterable[Any]) -> Choice:
    """Say of an answer why it ended, now that its calls are known."""
    called = any(isinstance(part, ToolCall) and part.complete for part in parts)
    return replace(choice, finish_reason=wants_calls(choice.finish_reason, called=called))


def _told(request: Request, form: Format) -> tuple[Request, list[Loss]]:
    """Tell a request's tools, calls and results in text."""
    context = request.context
    writer = FormatWriter(form.marked, [tool for tool in context.tools if not isinstance(tool, ServerTool)])
    kept = [tool for tool in context.tools if isinstance(tool, ServerTool)]
    told = [tool for tool in context.tools if not isinstance(tool, ServerTool)]
    messages = [_message(writer, message, place) for place, message in enumerate(context.messages)]
    writer.losing.path = ""
    words = writer.telling(told) if request.tool_choice is None or request.tool_choice.mode != "none" else ""
    system = _quoted(writer, context.system)
    if words:
        writer.losing.lose("tools", "tools", "they stand in the system prompt", "moved", "minor")
        system, messages = add_words(system, messages, words)
    if request.tool_choice is not None:
        writer.losing.lose("tool_choice", "tool_choice", "nothing forces a call in text", "dropped")
    changed = Context(system=system, messages=messages, tools=kept, provider_state=context.provider_state)
    settings: dict[str, Any] = {"tool_choice": None, "parallel_tool_calls": None} if told else {}
    return replace(request, context=changed, **settings), writer.losing.losses


def _message(writer: FormatWriter, message: Message, place: int) -> Message:
    writer.losing.path = f"messages[{place}]"
    if message.role == "assistant":
        return Message("assistant", writer.message(message))
    if message.role == "tool":
        return Message("user", writer.message(message))
    return replace(message, content=_quoted(writer, message.content))


def _quoted(writer: FormatWriter, content: Any) -> Any:
    """Give words of others, in which no mark begins anything."""
    if isinstance(content, str) or content is None:
        return writer.words(content) if content else content
    worded = (Text, Document)
    return [
        replace(part, text=writer.words(part.text)) if isinstance(part, worded) and part.text else part
        for part in content
    ]


def _worded(response: Response, form: Format) -> tuple[Response, list[Loss]]:
    """Write the calls of a response into its text."""
    writer, choices = FormatWriter(form.marked), []
    for place, choice in enumerate(response.choices):
        writer.losing.path = f"choices[{place}].message"
        if any(isinstance(part, ToolCall) for part in choice.message.parts):
            reason: Any = "stop" if choice.finish_reason == "tool_calls" else choice.finish_reason
            choice = Choice(Message("assistant", writer.message(choice.message)), reason)  # noqa: PLW2901
        choices.append(choice)
    return replace(response, choices=choices), writer.losing.losses


class _Decoder:
    """Reads a stream through the decoder of its wire; every part gets its key anew."""

    def __init__(self, over: _TextDialect, inner: Any) -> None:
        self._over = over
        self._inner = inner
        self._next = 0
        self._keys: dict[Any, int] = {}
        self._texts: dict[int, Any] = {}
        self._starts: dict[int, PartStart] = {}
        self._ended: dict[int, PartEnd] = {}
        self._called: dict[int, list[ToolCall]] = {}
        self._seed = ""

    @property
    def done(self) -> bool:
        """Whether the wire has ended the answer."""
        return bool(self._inner.done)

    @property
    def over(self) -> bool:
        """Whether nothing more is read."""
        return bool(self._inner.over)

    @property
    def ignored(self) -> int:
        """How many bytes came after that."""
        return int(self._inner.ignored)

    def feed(self, data: bytes) -> list[Event]:
        """Give the events that these bytes tell."""
        return [told for event in self._inner.feed(data) for told in self._take(event)]

    def close(self) -> list[Event]:
        """Give the events that the end of the bytes tells."""
        return [told for event in self._inner.close() for told in self._take(event)]

    def _take(self, event: Any) -> list[Event]:
        match event:
            case MessageStart():
                self._seed = _seed_of(event.response)
            case PartStart() | CallStart():
                return self._start(event)
            case TextDelta() if event.key in self._texts:
                return self._told(event.key, self._texts[event.key].feed(event.text))
            case PartEnd() if event.key in self._texts:
                self._ended[event.key] = event
                return []
            case ChoiceEnd():
                before = self._close(event.index, whole=event.choice.finish_reason not in CUT)
                return [*before, self._end_choice(event)]
            case ErrorEnd() | MessageEnd():
                whole = isinstance(event, MessageEnd) and event.complete
                return [*(told for choice in self._choices() for told in self._close(choice, whole=whole)), event]
        key = getattr(event, "key", None)
        return [event if key is None else replace(event, key=self._keys.get((key, None), key))]

    def _choices(self) -> list[int]:
        return sorted({start.choice for start in self._starts.values()})

    def _start(self, event: Any) -> list[Event]:
        before = self._close(event.choice, whole=True, only=self._ended)
        if isinstance(event, CallStart) or not isinstance(event.part, Text):
            return [*before, replace(event, key=self._key((event.key, None)))]
        place = sum(start.choice == event.choice for start in self._starts.values())
        self._starts[event.key] = event
        stream = self._texts[event.key] = self._over.open(f"{self._seed}/{event.choice}/{place}")
        return [*before, *self._told(event.key, stream.feed(event.part.text))]

    def _key(self, key: Any) -> int:
        if key not in self._keys:
            self._keys[key] = self._next
            self._next += 1
        return self._keys[key]

    def _told(self, key: int, events: Iterable[Any]) -> list[Event]:
        start, told = self._starts[key], []
        for event in events:
            if isinstance(event, _AROUND):
                continue
            changes: dict[str, Any] = {"key": self._key((key, event.key))}
            if isinstance(event, PartStart | CallStart):
                changes["choice"] = start.choice
            if hasattr(event, "call"):
                self._called.setdefault(start.choice, []).append(event.call)
            told.append(replace(event, **changes))
        return told

    def _close(self, choice: int, *, whole: bool, only: Any = None) -> list[Event]:
        """End the texts of an answer, now that it is known whether they were cut off."""
        told: list[Event] = []
        keys = [key for key in self._texts if self._starts[key].choice == choice and (only is None or key in only)]
        for key in keys:
            told += self._told(key, self._texts.pop(key).close(whole=whole))
        return told

    def _end_choice(self, event: ChoiceEnd) -> Event:
        calls = self._called.get(event.index)
        if not calls:
            return event
        choice = ended(event.choice, calls)
        return replace(event, choice=replace(choice, message=replace(choice.message, content=[])))


class _Encoder:
    """Writes a stream through the encoder of its wire, when the answer is whole."""

    def __init__(self, inner: Any, form: Format) -> None:
        self._inner = inner
        self._form = form
        self._heard = Accumulator()
        self._losses: list[Loss] = []

    @property
    def ended(self) -> bool:
        """Whether nothing more is said."""
        return bool(self._inner.ended)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said."""
        return (*self._losses, *self._inner.losses)

    def feed(self, event: Event) -> bytes:
        """Give the bytes that can be said after this event."""
        if isinstance(event, ErrorEnd):
            return bytes(self._inner.feed(event))
        if not isinstance(event, MessageEnd):
            self._heard.feed(event)
            return b""
        written, losses = _worded(self._heard.response, self._form)
        self._losses += losses
        said = b"".join(map(self._inner.feed, list(events_of(written))[:-1]))
        return bytes(said + self._inner.feed(event))

    def close(self) -> bytes:
        """Give the bytes that end the stream."""
        return bytes(self._inner.close())


def over(
    wire: str | Dialect,
    tools: Iterable[Any] | None = None,
    *,
    format: str | Format | dict[str, Any] = "tagged",  # noqa: A002 - the public name
    native: bool = False,
    given: Iterable[str] = (),
) -> Any:
    """Give a dialect for a model that writes its calls in its text, in a format, over the wire of another one.

    Only calls of `tools` are read; without them, those of any name. With `native`, requests are written in the wire's
    own way, and only answers are read. `given` are the texts that the model was given: a block that stands there is a
    quotation, and no call.
    """
    form = format if isinstance(format, Format) else _format(format)
    if form.name == "tagged":
        return over_tagged(wire, tools, native=native, given=given)
    offered = None if tools is None else list(tools)
    return _TextDialect(dialect(wire), form, offered, tuple(given), native=native)
