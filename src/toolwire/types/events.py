"""The events of a stream. Each event is one canonical step of an answer, and they are in the order of the stream.

Rules of this file:
- A part has a `key` that is unique in its stream. Its events are between its start and its end. Parts may interleave.
- No text is repeated: the end of a text, a refusal or a thought has every field except the text of the deltas.
- A call is complete in its `CallEnd` only. Fragments of its arguments are text, never arguments.
- The `response` of an event has no choices, and the `choice` of an event has no parts: other events carry these.
  The content of a choice's message is "" if the wire has one string for all parts, else [].
- `opaque` has the other keys of the wire at this step. The wire's own dialect writes them again. If they mean something
  in the part or the answer that ends, the end event repeats them, so that no other dialect has to collect them.
"""

from msgspec import Struct

from toolwire.types.answer import Choice, Error, Response, Usage
from toolwire.types.parts import Citation, Opaque, Part, ToolCall


class _Event(Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    opaque: Opaque | None = None


class MessageStart(_Event, frozen=True, gc=False, tag="message_start"):
    """The answer begins. `response` is its head, without content.

    >>> from toolwire import MessageStart, Response, accumulate
    >>> accumulate([MessageStart(Response(id="r_1", model="m"))])
    Response(model='m', id='r_1')
    """

    response: Response


class MessageDelta(_Event, frozen=True, gc=False, tag="message_delta"):
    """The head of the answer has changed. `response` is the present head.

    >>> from toolwire import MessageDelta, MessageStart, Response, accumulate
    >>> accumulate([MessageStart(Response(id="r_1")), MessageDelta(Response(id="r_1", model="m"))])
    Response(model='m', id='r_1')
    """

    response: Response


class PartStart(_Event, frozen=True, gc=False, tag="part_start"):
    """A part begins. `part` has what the wire has sent of it so far, which may be all of it.

    >>> from toolwire import Image, PartStart, accumulate
    >>> [part.url for part in accumulate([PartStart(0, Image(url="https://example.com/a.png"))]).parts]
    ['https://example.com/a.png']
    """

    key: int
    part: Part
    choice: int = 0


class TextDelta(_Event, frozen=True, gc=False, tag="text_delta"):
    """A piece of text.

    >>> from toolwire import PartStart, Text, TextDelta, accumulate
    >>> accumulate([PartStart(0, Text("")), TextDelta(0, "Hel"), TextDelta(0, "lo")]).content
    'Hello'
    """

    key: int
    text: str


class RefusalDelta(_Event, frozen=True, gc=False, tag="refusal_delta"):
    """A piece of a refusal.

    >>> from toolwire import PartStart, Refusal, RefusalDelta, accumulate
    >>> events = [PartStart(0, Refusal("")), RefusalDelta(0, "I can"), RefusalDelta(0, "not.")]
    >>> [part.text for part in accumulate(events).parts]
    ['I cannot.']
    """

    key: int
    text: str


class ThinkingDelta(_Event, frozen=True, gc=False, tag="thinking_delta"):
    """A piece of the model's thinking.

    >>> from toolwire import PartStart, Thinking, ThinkingDelta, accumulate
    >>> accumulate([PartStart(0, Thinking()), ThinkingDelta(0, "Two and "), ThinkingDelta(0, "two")]).parts[0].text
    'Two and two'
    """

    key: int
    text: str


class SignatureDelta(_Event, frozen=True, gc=False, tag="signature_delta"):
    """The signature that binds thinking to its provider. A later signature replaces an earlier one.

    >>> from toolwire import PartStart, SignatureDelta, Thinking, accumulate
    >>> accumulate([PartStart(0, Thinking("Hm")), SignatureDelta(0, "c2ln")]).parts == [Thinking("Hm", "c2ln")]
    True
    """

    key: int
    signature: str


class CitationDelta(_Event, frozen=True, gc=False, tag="citation_delta"):
    """A source of some of the text so far.

    >>> from toolwire import Citation, CitationDelta, PartStart, Text, accumulate
    >>> events = [PartStart(0, Text("It rains.")), CitationDelta(0, Citation(url="https://example.com"))]
    >>> [citation.url for citation in accumulate(events).parts[0].citations]
    ['https://example.com']
    """

    key: int
    citation: Citation


class OpaqueDelta(_Event, frozen=True, gc=False, tag="opaque_delta"):
    r"""Data that only its own wire understands. It belongs to the part under `key`, else to the answer.

    If `repeated` is true, the event that ends the part or the answer repeats the data.

    >>> from toolwire import OpaqueDelta, dialect
    >>> decoder = dialect("anthropic").decode_stream()
    >>> events = decoder.feed(b'data: {"type": "news", "text": "Hi"}\n\n')
    >>> [event.opaque.value for event in events if isinstance(event, OpaqueDelta)]
    [{'type': 'news', 'text': 'Hi'}]
    """

    key: int | None = None
    choice: int = 0
    repeated: bool = False


class PartEnd(_Event, frozen=True, gc=False, tag="part_end"):
    """A part is complete. Its text is in the deltas.

    >>> from toolwire import PartEnd, PartStart, Text, TextDelta, accumulate
    >>> accumulate([PartStart(0, Text("")), TextDelta(0, "Hi"), PartEnd(0, Text(""))]).content
    'Hi'
    """

    key: int
    part: Part


class CallStart(_Event, frozen=True, gc=False, tag="call_start"):
    """The model begins a call, which cannot run yet.

    >>> from toolwire import CallStart, accumulate
    >>> [(call.name, call.complete) for call in accumulate([CallStart(0, "call_1", "look")]).broken_calls]
    [('look', False)]
    """

    key: int
    id: str | None
    name: str
    index: int = 0
    custom: bool = False
    choice: int = 0


class CallDelta(_Event, frozen=True, gc=False, tag="call_delta"):
    """A fragment of a call's argument text. `partial_json` parses the fragments that have arrived so far.

    >>> from toolwire import CallDelta, CallStart, accumulate
    >>> events = [CallStart(0, "call_1", "look"), CallDelta(0, '{"ci'), CallDelta(0, 'ty":')]
    >>> [call.raw for call in accumulate(events).broken_calls]
    ['{"city":']
    """

    key: int
    fragment: str


class CallEnd(_Event, frozen=True, gc=False, tag="call_end"):
    """A call has ended. If it was cut off, `call.complete` is false and `call.raw` is the text that arrived.

    >>> from toolwire import CallEnd, CallStart, ToolCall, accumulate
    >>> events = [CallStart(0, "call_1", "look"), CallEnd(0, ToolCall("call_1", "look", {"city": "Oslo"}))]
    >>> [call.arguments for call in accumulate(events).tool_calls]
    [{'city': 'Oslo'}]
    """

    key: int
    call: ToolCall


class UsageDelta(_Event, frozen=True, gc=False, tag="usage_delta"):
    """The tokens that the provider has counted so far.

    >>> from toolwire import Usage, UsageDelta, accumulate
    >>> accumulate([UsageDelta(Usage(12, 1)), UsageDelta(Usage(12, 3))]).usage == Usage(12, 3)
    True
    """

    usage: Usage


class ChoiceEnd(_Event, frozen=True, gc=False, tag="choice_end"):
    """One answer of several has ended. `choice` has no content. Its `finish_reason` is the reason why it ended.

    >>> from toolwire import Choice, ChoiceEnd, Message, PartStart, Text, accumulate
    >>> events = [PartStart(0, Text("Hi")), ChoiceEnd(0, Choice(Message("assistant", ""), "stop"))]
    >>> accumulate(events).content, accumulate(events).finish_reason
    ('Hi', 'stop')
    """

    index: int
    choice: Choice


class ErrorEnd(_Event, frozen=True, gc=False, tag="error_end"):
    """An error of the provider or of the connection. The parts that arrived before it stay valid.

    >>> from toolwire import Error, ErrorEnd, PartStart, Text, accumulate
    >>> response = accumulate([PartStart(0, Text("Hi")), ErrorEnd(Error("overloaded", "Try later"))])
    >>> response.content, response.finish_reason
    ('Hi', 'error')
    """

    error: Error


class MessageEnd(_Event, frozen=True, gc=False, tag="message_end"):
    r"""The stream has ended. `complete` is false after an error or a lost connection.

    >>> from toolwire import dialect
    >>> decoder = dialect("ollama").decode_stream()
    >>> events = decoder.feed(b'{"message": {"content": "Hi"}, "done": false}\n') + decoder.close()
    >>> events[-1].complete
    False
    """

    complete: bool = True


Event = (
    MessageStart
    | MessageDelta
    | PartStart
    | TextDelta
    | RefusalDelta
    | ThinkingDelta
    | SignatureDelta
    | CitationDelta
    | OpaqueDelta
    | PartEnd
    | CallStart
    | CallDelta
    | CallEnd
    | UsageDelta
    | ChoiceEnd
    | ErrorEnd
    | MessageEnd
)
"""An event of a stream."""
