"""Decode and encode responses of a model that writes calls in its text.

Rules of this file:
- Each text of an answer is read on its own. If an answer has calls, its finish reason becomes `tool_calls`.
- If the request was sent in the wire's own way (`native`), calls in the text count only if the wire itself returned no
  call. They then follow all other parts.
"""

from collections.abc import Callable, Collection
from operator import is_
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.finish import CUT, infer_finish_reason
from toolwire.encoding.ledger import made_by, shared_spelling_of
from toolwire.text.calls import CallBuilder, Offer
from toolwire.text.overlay.text_parts import MessageWriter, has_metadata, join_items, split_text
from toolwire.text.tagged.call_blocks import block_of, without_block
from toolwire.types import Choice, Opaque, Part, Response, Text, Thinking, ToolCall
from toolwire.types.spelling import MessageSpelling


class ResponseReader:
    """Reads the calls in the texts of answers.

    - `make_reader` returns the reader of one text.
    - With `appends_calls`, calls in the texts follow all other parts. They stay text if the wire itself returned calls.
    - `earlier`: the ids of the conversation's earlier calls. No derived id repeats one of them.
    """

    def __init__(
        self,
        dialect: str,
        make_reader: Callable[[CallBuilder], Any],
        offer: Offer | None,
        *,
        appends_calls: bool = False,
        earlier: Collection[str] = frozenset(),
    ) -> None:
        self.dialect = dialect
        self.make_reader = make_reader
        self.appends_calls = appends_calls
        self._offer = offer
        self._earlier = earlier

    def call_builder(self, response: Response, index: int) -> CallBuilder:
        """Return the builder for the calls of one choice."""
        return CallBuilder(self._offer, _seed_of(response, index), earlier=self._earlier)

    def read(self, response: Response) -> Response:
        """Return `response` with the calls in its texts as parts."""
        choices = [self._read_choice(choice, response, index) for index, choice in enumerate(response.choices)]
        return response if all(map(is_, choices, response.choices)) else replace(response, choices=choices)

    def _read_choice(self, choice: Choice, response: Response, choice_index: int) -> Choice:
        message, is_cut = choice.message, choice.finish_reason in CUT
        was_text = type(message.content) is str
        parts: list[Part] = [Text(message.text)] if was_text else message.parts
        builder = self.call_builder(response, choice_index)
        new_parts: list[Part] = []
        calls: list[ToolCall] = []
        for index, part in enumerate(parts):
            if type(part) is not Text:
                new_parts.append(part)
                if type(part) is ToolCall:
                    builder.register(part.id)
                continue
            items = self._read_text(part.text, builder, whole=not (is_cut and index == len(parts) - 1))
            if self.appends_calls:
                calls += [item for item in items if isinstance(item, ToolCall)]
                items = join_items(item for item in items if not isinstance(item, ToolCall))
                if not items and calls and not has_metadata(part):
                    continue
            new_parts += split_text(part, items, self.dialect)
        new_parts += self.appended_calls(calls, has_native=ToolCall in map(type, parts))
        if len(new_parts) == len(parts) and all(map(is_, new_parts, parts)):
            return choice
        return finish_choice(replace(choice, message=replace(message, content=new_parts)), new_parts, was_text=was_text)

    def _read_text(self, text: str, builder: CallBuilder, *, whole: bool) -> list[str | Thinking | ToolCall]:
        reader = self.make_reader(builder)
        return join_items([*reader.feed(text), *reader.close(whole=whole)])

    def appended_calls(self, calls: list[ToolCall], *, has_native: bool) -> list[Part]:
        """Return the calls in the text as parts, or as plain text if the wire itself returned calls."""
        if not has_native:
            return [without_block(call) for call in calls]
        blocks = (block_of(call) or "" for call in calls)
        return [Text(block, opaque=Opaque(self.dialect, {})) for block in blocks if block]


def _seed_of(response: Response, index: int) -> str:
    """Return the seed of an answer's call ids: the id or the time of its response, and the index of the choice."""
    return f"{response.id or response.created or ''}/{index}"


def finish_choice(choice: Choice, parts: list[Part], *, was_text: bool) -> Choice:
    """Return a choice with the finish reason that its calls imply.

    With `was_text`, the wire had the content as a string, which is noted so that it is encoded as one again.
    """
    has_calls = any(type(part) is ToolCall and part.complete for part in parts)
    message, reason = choice.message, infer_finish_reason(choice.finish_reason, has_calls=has_calls)
    if was_text and message.opaque is not None:
        spelling = shared_spelling_of(message.opaque, message.opaque.dialect, MessageSpelling)
        opaque = replace(message.opaque, spelling=replace(spelling, has_text_content=True))
        message = replace(message, opaque=opaque)
    return replace(choice, message=message, finish_reason=reason)


def write_response(response: Response, writer: MessageWriter) -> Response:
    """Return `response` with its calls written into its texts."""
    choices = []
    for index, choice in enumerate(response.choices):
        writer.ledger.path = ("choices", index, "message")
        message = writer.write(choice.message, verbatim=False, keeps_native=True)
        has_calls = any(type(part) is ToolCall for part in message.parts)
        choices.append(
            _without_call_reason(replace(choice, message=message), writer.ledger.dialect, has_calls=has_calls)
        )
    writer.ledger.path = ()
    return replace(response, choices=choices)


def _without_call_reason(choice: Choice, dialect: str, *, has_calls: bool) -> Choice:
    """Return a choice without the finish reason `tool_calls`, since the wire has no calls of its own."""
    message, reason = choice.message, choice.finish_reason
    if reason == "tool_calls" and not has_calls and choice.raw_finish_reason in (None, *_ORDINARY):
        reason = None if choice.raw_finish_reason is None and made_by(choice.opaque, dialect) else "stop"
    return replace(choice, message=message, finish_reason=reason)


_ORDINARY = ("stop", "STOP", "end_turn", "eos", "completed")
