"""Responses of a model that calls in its text, read and written.

Rules of this file:
- Each text of an answer is read on its own. An answer that ended for its calls says so.
- Where the wire was asked in its own way (`native`), what stands in the text counts only if the wire itself
  brought no call. Then the calls come last.
"""

from collections.abc import Callable, Collection
from operator import is_
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.finish import CUT, wants_calls
from toolwire.encoding.ledger import made_by, shared_spelling_of
from toolwire.text.calls import CallBuilder, Offer
from toolwire.text.overlay.text_parts import MessageWriter, has_metadata, join_items, split_text
from toolwire.text.tagged.call_blocks import block_of
from toolwire.types import Choice, Opaque, Part, Response, Text, Thinking, ToolCall
from toolwire.types.spelling import MessageSpelling


class ResponseReader:
    """How answers are read: what hears a text, and whether its calls count `late`, after the wire's own.

    `earlier` are the ids of the conversation's calls.
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

    def call_builder(self, response: Response, place: int) -> CallBuilder:
        """Give what counts the calls of one answer."""
        return CallBuilder(self._offer, _seed_of(response, place), earlier=self._earlier)

    def read(self, response: Response) -> Response:
        """Read the calls in the texts of a response."""
        choices = [self._read_choice(choice, response, place) for place, choice in enumerate(response.choices)]
        return response if all(map(is_, choices, response.choices)) else replace(response, choices=choices)

    def _read_choice(self, choice: Choice, response: Response, place: int) -> Choice:
        message, cut = choice.message, choice.finish_reason in CUT
        worded = type(message.content) is str
        parts: list[Part] = [Text(message.text)] if worded else message.parts
        builder = self.call_builder(response, place)
        read: list[Part] = []
        late: list[ToolCall] = []
        for index, part in enumerate(parts):
            if type(part) is not Text:
                read.append(part)
                if type(part) is ToolCall:
                    builder.register(part.id)
                continue
            found = self._hear(part.text, builder, whole=not (cut and index == len(parts) - 1))
            if self.appends_calls:
                late += [item for item in found if isinstance(item, ToolCall)]
                found = join_items(item for item in found if not isinstance(item, ToolCall))
                if not found and late and not has_metadata(part):
                    continue
            read += split_text(part, found, self.dialect)
        read += self.appended_calls(late, has_native=ToolCall in map(type, parts))
        if len(read) == len(parts) and all(map(is_, read, parts)):
            return choice
        return finish_choice(replace(choice, message=replace(message, content=read)), read, worded=worded)

    def _hear(self, text: str, builder: CallBuilder, *, whole: bool) -> list[str | Thinking | ToolCall]:
        listener = self.make_reader(builder)
        return join_items([*listener.feed(text), *listener.close(whole=whole)])

    def appended_calls(self, calls: list[ToolCall], *, has_native: bool) -> list[Part]:
        """Give the calls in the text of a native answer: as words, if the wire itself brought calls."""
        if not has_native:
            return [*calls]
        return [Text(block_of(call) or "", opaque=Opaque(self.dialect, {})) for call in calls]


def _seed_of(response: Response, place: int) -> str:
    """Give what tells an answer from others, as far as its wire says it."""
    return f"{response.id or response.created or ''}/{place}"


def finish_choice(choice: Choice, parts: list[Part], *, worded: bool) -> Choice:
    """Say of an answer why it ended, now that its calls are known, and how its wire mark_spellings its text."""
    called = any(type(part) is ToolCall and part.complete for part in parts)
    message, reason = choice.message, wants_calls(choice.finish_reason, called=called)
    if worded and message.opaque is not None:
        spelling = shared_spelling_of(message.opaque, message.opaque.dialect, MessageSpelling)
        opaque = replace(message.opaque, spelling=replace(spelling, has_text_content=True))
        message = replace(message, opaque=opaque)
    return replace(choice, message=message, finish_reason=reason)


def write_response(response: Response, weaver: MessageWriter) -> Response:
    """Write the calls of a response into its texts."""
    choices = []
    for place, choice in enumerate(response.choices):
        weaver.ledger.at = ("choices", place, "message")
        message = weaver.weave(choice.message, verbatim=False, keeps_native=True)
        called = any(type(part) is ToolCall for part in message.parts)
        choices.append(_shed(replace(choice, message=message), weaver.ledger.dialect, called=called))
    weaver.ledger.at = ()
    return replace(response, choices=choices)


def _shed(choice: Choice, dialect: str, *, called: bool) -> Choice:
    """Give an answer as its wire ends it: calls in its text are no reason there."""
    message, reason = choice.message, choice.finish_reason
    if reason == "tool_calls" and not called and choice.raw_finish_reason in (None, *_ORDINARY):
        reason = None if choice.raw_finish_reason is None and made_by(choice.opaque, dialect) else "stop"
    return replace(choice, message=message, finish_reason=reason)


_ORDINARY = ("stop", "STOP", "end_turn", "eos", "completed")
