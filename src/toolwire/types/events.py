"""The events of a stream: one canonical step of an answer each, in the order in which they happened.

Rules of this file:
- A part has a `key`, unique in its stream, and lies between its start and its end. Parts may interleave.
- What a delta said is not said again: the end of a text, a refusal or a thought has all but its words.
- A call is whole in its `CallEnd` and nowhere else. Fragments of its arguments are text, never arguments.
- A shell is a value without what the other events say: a response without choices, a choice without parts.
  The content of a choice's message says how to join its parts: "" where the wire has one string, else [].
- `opaque` is what else the wire said at this step. Its own dialect says it again; an end repeats whatever of
  it means something in the value that ends, so that no other dialect has to collect it.
"""

from msgspec import Struct

from toolwire.types.answer import Choice, Error, Response, Usage
from toolwire.types.parts import Citation, Opaque, Part, ToolCall


class _Event(Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    opaque: Opaque | None = None


class MessageStart(_Event, frozen=True, gc=False, tag="message_start"):
    """The answer begins: `response` is its head, without content."""

    response: Response


class MessageDelta(_Event, frozen=True, gc=False, tag="message_delta"):
    """More is known of the answer: `response` is its head as it is now."""

    response: Response


class PartStart(_Event, frozen=True, gc=False, tag="part_start"):
    """A part begins; `part` is what is known of it, or all of it if its wire sends it at once."""

    key: int
    part: Part
    choice: int = 0


class TextDelta(_Event, frozen=True, gc=False, tag="text_delta"):
    """A piece of text."""

    key: int
    text: str


class RefusalDelta(_Event, frozen=True, gc=False, tag="refusal_delta"):
    """A piece of a refusal."""

    key: int
    text: str


class ThinkingDelta(_Event, frozen=True, gc=False, tag="thinking_delta"):
    """A piece of a thought."""

    key: int
    text: str


class SignatureDelta(_Event, frozen=True, gc=False, tag="signature_delta"):
    """The signature that binds a thought to its provider; a later one replaces an earlier one."""

    key: int
    signature: str


class CitationDelta(_Event, frozen=True, gc=False, tag="citation_delta"):
    """A source of some of the text so far."""

    key: int
    citation: Citation


class OpaqueDelta(_Event, frozen=True, gc=False, tag="opaque_delta"):
    """Data that only its own wire understands: of the part under `key`, or of the answer.

    With `repeated`, the event that ends the part or the answer repeats the data.
    """

    key: int | None = None
    choice: int = 0
    repeated: bool = False


class PartEnd(_Event, frozen=True, gc=False, tag="part_end"):
    """A part is complete; its words are in the deltas."""

    key: int
    part: Part


class CallStart(_Event, frozen=True, gc=False, tag="call_start"):
    """The model begins a call; it cannot run yet."""

    key: int
    id: str | None
    name: str
    index: int = 0
    custom: bool = False
    choice: int = 0


class CallDelta(_Event, frozen=True, gc=False, tag="call_delta"):
    """A fragment of the text of a call's arguments; `partial_json` reads what has arrived so far."""

    key: int
    fragment: str


class CallEnd(_Event, frozen=True, gc=False, tag="call_end"):
    """A call is over: whole, or cut off (`call.complete` is false and its text is `call.raw`)."""

    key: int
    call: ToolCall


class UsageDelta(_Event, frozen=True, gc=False, tag="usage_delta"):
    """The tokens counted so far."""

    usage: Usage


class ChoiceEnd(_Event, frozen=True, gc=False, tag="choice_end"):
    """One answer of several is over; `choice` has no content, and says why it ended."""

    index: int
    choice: Choice


class ErrorEnd(_Event, frozen=True, gc=False, tag="error_end"):
    """An error at the provider or on the way; the parts that arrived before it stay."""

    error: Error


class MessageEnd(_Event, frozen=True, gc=False, tag="message_end"):
    """The stream is over; `complete` is false after an error or a lost connection."""

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
