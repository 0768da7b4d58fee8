"""The decoder of Responses streams: items that are added, grow and are done.

Rules of this file:
- If a server omits the start of an item or of a block, the first event about it starts it.
- A call starts when its name and its id are known. The judge of calls decides whether it may run.
- Arguments of a call without a name become a call that cannot run.
- If the final body of a text differs from the text that was emitted, the answer is incomplete.
"""

from itertools import zip_longest
from typing import Any, ClassVar

from msgspec.structs import replace

from toolwire.dialects.openai_responses.calls import CALL_TYPES, decode_call, decode_reasoning, is_call
from toolwire.dialects.openai_responses.error import decode_error
from toolwire.dialects.openai_responses.messages import decode_other_item
from toolwire.dialects.openai_responses.parts import DIALECT, WIRE, decode_citation, is_annotation
from toolwire.dialects.openai_responses.response import (
    TEXT_FIELDS,
    PartialPart,
    decode_finish_reason,
    decode_response,
    draft_body,
)
from toolwire.encoding.finish import CUT, cut_off
from toolwire.encoding.ledger import spelling_of
from toolwire.streams import StreamDecoder, WireDecoder
from toolwire.streams.accumulation import part_events
from toolwire.streams.call_judge import PartialCall, Reason
from toolwire.streams.calls import index_of
from toolwire.streams.partial_items import PartialItem, PartialItems, SequenceTracker, is_text
from toolwire.streams.reading import CHARACTERS_PER_MEMBER
from toolwire.types import (
    CallDelta,
    CallEnd,
    ChoiceEnd,
    CitationDelta,
    MessageDelta,
    MessageStart,
    Opaque,
    OpaqueDelta,
    Part,
    PartEnd,
    PartStart,
    Refusal,
    Text,
    ToolCall,
    UsageDelta,
)
from toolwire.types.spelling.openai_responses import ResponsesChoiceSpelling, ResponsesDeltaSpelling
from toolwire.wire.arguments import parse_arguments
from toolwire.wire.names import generate_call_id, number_of

_POSITION_KEYS = ("item_id", "output_index", "content_index", "summary_index")
_DELTA_KEYS = frozenset({*_POSITION_KEYS, "type", "sequence_number", "delta", "logprobs", "obfuscation"})
_KNOWN_KEYS = _DELTA_KEYS.union(
    ("response", "item", "part", "text", "refusal", "arguments", "input", "name", "annotation", "annotation_index")
)
_RESPONSE_EVENTS = ("response.created", "response.queued", "response.in_progress")
_END_EVENTS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_PART_TYPES: dict[Any, type] = {"output_text": Text, "refusal": Refusal}
_FIRST_KEYS: dict[str, dict[str, Any]] = {"reasoning": {"summary": []}, "output_text": {"annotations": []}}
_DEFAULT_ERROR = {"code": "server_error", "message": "the response failed"}


class Decoder(WireDecoder):
    """The decoder of one stream.

    - `sequence`: the sequence numbers of the events.
    - `_response`: the body of the response so far, without its output.
    - `_shell`: the same, decoded; None before the start of the answer is emitted.
    - `_last_response`: the body of the response in the last event that had one.
    - `_early_events`: the unknown events before the start of the answer.
    - `_items`: the items so far.
    - `_calls_by_id`: the latest call of each id.
    - `_refused`: True if the answer has a refusal.
    - `_misses_text`: True if text is known that was not emitted.
    """

    def __init__(self) -> None:
        super().__init__()
        self._response: dict[str, Any] = {}
        self._last_response: Any = None
        self._shell: Any = None
        self._early_events: list[dict[str, Any]] = []
        self._items = PartialItems("reasoning", CALL_TYPES)
        self._calls_by_id: dict[str, PartialCall] = {}
        self._refused = self._misses_text = False
        self.sequence: SequenceTracker = SequenceTracker()

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one event."""
        event_type = body["type"] if type(body.get("type")) is str else name.decode(errors="replace")
        if self.sequence.is_repeated(body, event_type):
            return
        reader = self.READERS.get(event_type)
        if reader is None:
            self._read_unknown_event(body, event_type)
        elif not reader[0](self, body, *reader[1:]):
            self._read_unmatched(body, event_type)
        elif not event_type.endswith(".delta"):
            self._emit_unknown_keys(body)

    def _read_unmatched(self, body: dict[str, Any], event_type: str) -> None:
        """Read an event that has no item, or whose values have another type than expected."""
        text = body.get("delta", body.get("arguments"))
        if event_type.endswith(".delta") and self._read_item_added(body):
            return
        if event_type.startswith("response.function_call_arguments.") and text:
            self._report_stray_arguments(body, text)
        elif type(text) is str:
            self._report_lost_text(body, text)
        self._emit_unknown(body, is_known=True)

    def _report_lost_text(self, body: dict[str, Any], text: Any) -> None:
        """Report text that reached no part. It may be text of the answer, or arguments of a call."""
        item = self._items.get(body.get("item_id"), index_of(body.get("output_index")))
        if item is not None and item.item_type in CALL_TYPES and not is_call(item.body, item.item_type):
            return  # the server (xAI) ran the tool itself, and the item stays unparsed
        if item is None or item.item_type not in {"message", "reasoning"}:
            self._report_stray_arguments(body, text)
        self._misses_text = self._misses_text or not self._contains(item, str(text))

    def _contains(self, item: PartialItem | None, text: str) -> bool:
        """Return True if a part of `item` contains `text`."""
        for part in () if item is None else item.parts.values():
            self.count_rescan(part.size)
            if text in part.text:
                return True
        return False

    def _report_stray_arguments(self, body: dict[str, Any], text: Any) -> None:
        """Report arguments that reached no open call."""
        item = self._items.get(body.get("item_id"), index_of(body.get("output_index")))
        call = item.parts[0].call if item is not None and item.ended and item.item_type in CALL_TYPES else None
        if call is not None:
            self.judge.late(call, text)
        else:
            self.judge.stray(text, of_lost_call=item is not None)

    def _read_unknown_event(self, body: dict[str, Any], event_type: str) -> None:
        """Read an event of an unknown type: a whole response, an error, text of a known item, or anything else."""
        if not event_type and body.get("object") == "response" and self._shell is None:
            self._read_response_end({"response": body})
        elif event_type == "error" or type(body.get("error")) is dict:
            body.pop("sequence_number", None)
            self.fail(decode_error(None, body))
        elif body.get("delta") and (not event_type.startswith("response.") or self._is_about_content(body)):
            self._report_lost_text(body, body["delta"])
            self._emit_unknown(body)
        elif not event_type and type(body.get("item")) is dict:
            if body["item"].get("arguments"):
                self.judge.stray(body["item"]["arguments"], of_lost_call=True)
            self._emit_unknown(body)
        elif event_type.endswith("_part.done"):
            self._emit_unknown_keys(body)
        elif event_type not in {"keepalive", "ping"} or not _DELTA_KEYS.issuperset(body):
            self._emit_unknown(body)

    def _is_about_content(self, body: dict[str, Any]) -> bool:
        """Return True if an event of an unknown type is about a call, or about the content of a message."""
        item = self._items.get(body.get("item_id"), index_of(body.get("output_index")))
        return item is not None and (
            item.item_type in CALL_TYPES or (item.item_type == "message" and "content_index" in body)
        )

    def _emit_unknown(self, body: dict[str, Any], *, is_known: bool = False) -> None:
        """Emit a body that is not understood, with the part that it is about.

        An event of a known type (`is_known`) about an item that has ended adds nothing, and is dropped.
        """
        if self._shell is None:
            self._early_events.append(body)
            return
        item = self._items.get(body.get("item_id"), index_of(body.get("output_index")))
        has_ended = item is not None and item.ended
        if has_ended and is_known:
            return
        key = item.parts[item.last].key if item is not None and item.last is not None and not has_ended else None
        body.pop("sequence_number", None)
        self.events.append(OpaqueDelta(key, repeated=key is not None, opaque=Opaque(DIALECT, body)))

    def _emit_unknown_keys(self, body: dict[str, Any]) -> None:
        """Emit the keys of an event that the dialect does not know."""
        if not _KNOWN_KEYS.issuperset(body):
            self._emit_unknown({key: body[key] for key in body if key not in _KNOWN_KEYS})

    def _read_response(self, body: dict[str, Any], *, last: bool = False) -> bool:
        """Read the response of an event. Emit the start of the answer, or a change of the response.

        A change has the status of the response, except for the `last` one.
        """
        update, earlier = body.get("response"), self._shell
        if type(update) is not dict and type(body.get("delta")) is str:
            return False
        if earlier is not None and not last and update == self._last_response:
            return True
        self._last_response, known_status = update, self._response.pop("status", None)
        self.count_rescan(CHARACTERS_PER_MEMBER * len(self._response))
        self._response = {**self._response, **(update if type(update) is dict else {}), "output": []}
        self._shell = decode_response(self._response)
        shell_alone, status = replace(self._shell, choices=[]), self._response.get("status")
        has_status = not last and (earlier is not None or status != "in_progress")
        status_mark = Opaque(DIALECT, {"status": status}) if has_status else None
        if earlier is None:
            self.events.append(MessageStart(shell_alone, opaque=status_mark))
            for early_event in self._early_events:
                self._emit_unknown(early_event)
        elif shell_alone != replace(earlier, choices=[]) or not (last or status == known_status):
            self.events.append(MessageDelta(shell_alone, opaque=status_mark))
        return True

    def _find_item(self, body: dict[str, Any], item_type: Any, *, may_start: bool) -> PartialItem | None:
        """Return the open item of `item_type` that an event is about.

        If no item is open and `may_start` is true, start one, unless an item with this id arrived before.
        """
        item_id, output_index = body.get("item_id"), index_of(body.get("output_index"))
        item = self._items.find(item_type, item_id, output_index)
        if item is None and may_start and not self._items.knows(item_id, item_type):
            new_body = {"type": item_type, "status": "in_progress", **_FIRST_KEYS.get(item_type, {})}
            item = self._start_item({"id": item_id, **new_body} if type(item_id) is str else new_body, output_index)
        return item

    def _start_item(self, body: dict[str, Any], output_index: int | None) -> PartialItem:
        """Add an item, and emit its start as far as it is known."""
        if self._shell is None:
            self._read_response({})
        item = self._items.add(body, output_index)
        if is_call(body, item.item_type):
            item.add_part(0, PartialPart(None, None, body))
            item.parts[0].call = self._register_call(item, body.get("call_id"))
            if is_text(body.get("name")) and is_text(body.get("call_id")):
                self._decode_call(item, {TEXT_FIELDS[item.item_type].field: "", **body})
        elif item.item_type == "reasoning":
            self._start_part(item, 0, replace(decode_reasoning(body), text=""), body)
        elif item.item_type != "message":
            self._start_part(item, 0, decode_other_item(body, item.item_type, None)[0], body)
        return item

    def _register_call(self, item: PartialItem, call_id: Any) -> PartialCall:
        """Return the record of a new call, after a report to the judge."""
        call = PartialCall(call_id if is_text(call_id) else None, str(item.body.get("name") or ""))
        call.free_text = item.item_type == "custom_tool_call"
        self.judge.opened(call, self._calls_by_id.get(call.id or ""))
        if call.id is not None:
            self._calls_by_id[call.id] = call
        return call

    def _start_part(self, item: PartialItem, index: int, part: Part, block: dict[str, Any]) -> PartialPart:
        """Add a part to an item, and emit its start."""
        partial = PartialPart(self.new_key(), part, block)
        item.add_part(index, partial)
        self._refused = self._refused or type(part) is Refusal
        self.events.append(PartStart(partial.key, part))
        return partial

    def _start_block(self, item: PartialItem, index: int | None, block: dict[str, Any]) -> PartialPart:
        """Start a part of a message. The first part stores the other keys of the item."""
        block_type = block.get("type")
        if type(block_type) is str and block_type in _PART_TYPES:
            block = {**block, TEXT_FIELDS[block_type].field: ""}
        content = [block] * (2 if item.parts else 1)
        parts = decode_other_item({"role": "assistant", **item.body, "content": content}, "message", item.reasoning_id)
        next_index = 0 if item.last is None else item.last + 1
        return self._start_part(item, next_index if index is None else index, parts[-1], block)

    def _decode_call(self, item: PartialItem, body: dict[str, Any]) -> Part:
        """Return the call of `body`. Emit its start if that was not emitted before."""
        partial = item.parts[0]
        call = decode_call(body, number_of(self._response.get("id")), item.counted_index, item.reasoning_id)
        if partial.key is None and type(call) is ToolCall:
            partial.key = self.new_key()
            partial.call.key = partial.key
            self.start_call(partial.key, call)
            if partial.size:
                self.events.append(CallDelta(partial.key, partial.text))
        return call

    def _read_item_added(self, body: dict[str, Any]) -> bool:
        """Read the start of an item, which may come after its first delta, or again."""
        item, output_index = body.get("item"), index_of(body.get("output_index"))
        if type(item) is not dict:
            return False
        item = self._items.restore_type(item)
        is_known = self._items.knows(item.get("id"), item.get("type", "message"))
        started = self._items.get(item.get("id")) if is_known else self._items.find_unnamed(item, output_index)
        if started is not None and started.item_type in CALL_TYPES and not started.ended:
            if (call := started.parts[0].call) is not None:
                call.problem = self._find_contradiction(started.body, item) or call.problem
            self._items.complete(started, item)
        elif started is not None and started.item_type in CALL_TYPES:
            self._compare_call(started, item)
        elif not is_known:
            self._start_item(item, output_index)
        return True

    def _find_contradiction(self, first: dict[str, Any], second: dict[str, Any]) -> str | None:
        """Return a problem if the name or the id of a call differs between two of its bodies."""
        for key in ("name", "call_id"):
            if is_text(first.get(key)) and is_text(second.get(key)) and first[key] != second[key]:
                return Reason.NAMED_TWICE.format(first[key], second[key])
        return None

    def _read_part_added(self, body: dict[str, Any]) -> bool:
        """Read the start of a block of a message, or of the content of reasoning."""
        block, index = body.get("part"), index_of(body.get("content_index"))
        if type(block) is not dict or block.get("type") == "reasoning_text":
            return type(block) is dict and self._read_full_text(body, "content", True)
        item = self._find_item(body, "message", may_start=True)
        if item is not None and (index is None or index not in item.parts):
            self._start_block(item, index, block)
        return item is not None

    def _find_part(self, body: dict[str, Any], field_name: str, *, may_start: bool) -> PartialPart | None:
        """Return the part that an event about `field_name` belongs to, or None.

        If the part is missing and `may_start` is true, it is started.
        """
        item_type, index = TEXT_FIELDS[field_name].item_type, index_of(body.get(TEXT_FIELDS[field_name].index_key))
        item = self._find_item(body, item_type, may_start=may_start)
        if item is None or (item_type in CALL_TYPES and item.parts[0].part is not None):
            return None
        if item_type in CALL_TYPES:
            self._report_match(item, is_named=item.is_named_by(body.get("item_id"), index_of(body.get("output_index"))))
        if item_type != "message":
            self.events += item.parts[0].select_text(field_name, index) if item_type not in CALL_TYPES else ()
            return item.parts[0] if item.parts[0].reasoning_key in (None, field_name) else None
        partial = item.parts.get((item.last or 0) if index is None else index)
        if partial is None and may_start:
            partial = self._start_block(item, index, {"type": field_name, **_FIRST_KEYS.get(field_name, {})})
        return partial if partial is not None and type(partial.part) is _PART_TYPES[field_name] else None

    def _report_match(self, item: PartialItem, *, is_named: bool) -> None:
        """Report text that its position alone assigns to a call (`is_named` is false), and text that is damaged."""
        call: Any = item.parts[0].call
        if not is_named:
            self.judge.matched_by_position(call)
            if self.judge.has_several_open:
                self.judge.ambiguous()
        if self.damaged:
            call.problem = Reason.NOT_UTF8

    def _read_delta(self, body: dict[str, Any], field_name: str) -> bool:
        """Read a delta of a text. Return False if it reached no part."""
        text = body.get("delta")
        partial = self._find_part(body, field_name, may_start=True) if type(text) is str else None
        if partial is None:
            return False
        unparsed: dict[str, Any] = {}
        if body.get("logprobs") or not _DELTA_KEYS.issuperset(body):
            unparsed = {key: body[key] for key in body if key not in _DELTA_KEYS or (key == "logprobs" and body[key])}
        if text or unparsed:
            self.events += partial.add_delta(text, unparsed)  # type: ignore[arg-type]
        if unknown := {key: unparsed[key] for key in unparsed if key != "logprobs"}:
            self.events.append(OpaqueDelta(opaque=WIRE.mark(unknown, ResponsesDeltaSpelling(is_in_delta=True))))
        return True

    def _read_full_text(self, body: dict[str, Any], field_name: str, may_start: bool = False) -> bool:
        """Read the end of a text, which repeats all of it, or the start of a text of reasoning."""
        partial = self._find_part(body, field_name, may_start=may_start)
        if partial is not None:
            self.events += partial.add_missing(body.get(TEXT_FIELDS[field_name].field))
        return partial is not None

    def _read_annotation(self, body: dict[str, Any]) -> bool:
        """Read an annotation of a text."""
        annotation: Any = body.get("annotation")
        partial = self._find_part(body, "output_text", may_start=False) if is_annotation(annotation) else None
        if partial is not None:
            partial.annotations.append(annotation)
            self.events.append(CitationDelta(partial.key, decode_citation(annotation)))
        return partial is not None

    def _read_item_done(self, body: dict[str, Any]) -> bool:
        """Read the end of an item. If its start is missing, start it first."""
        item_body, output_index = body.get("item"), index_of(body.get("output_index"))
        if type(item_body) is not dict:
            return False
        item_body = self._items.restore_type(item_body)
        item_type, item_id = item_body.get("type", "message"), item_body.get("id")
        item = self._items.find(item_type, item_id, output_index)
        if (
            item is not None
            and not item.is_named_by(item_id, output_index)
            and self._find_contradiction(item.body, item_body)
        ):
            item = None
        if item is None and self._items.knows(item_id, item_type) and item_type in CALL_TYPES:
            self._compare_call(self._items.get(item_id), item_body)
        elif item is None and not self._items.knows(item_id, item_type):
            earlier_item = self._items.get(None, output_index)
            item = self._start_item(item_body, output_index)
            if item_type in CALL_TYPES and item.parts[0].call is not None:
                item.parts[0].call.repeated |= _may_repeat_call(earlier_item, item_body, output_index)
        if item is not None:
            self._end_item(item, item_body)
        return item is not None

    def _end_item(self, item: PartialItem, body: dict[str, Any], *, whole: bool | None = True) -> None:
        """Emit the end of an item whose final body is `body`.

        `whole` is False if the wire marked the item as cut off, and None if the end of the item is missing.
        """
        earlier, item.body, item.ended = item.body, body, True
        if item.item_type in CALL_TYPES and item.parts[0].part is None:
            self._end_call(item, earlier, whole=whole)
        elif item.item_type == "reasoning":
            self.events += item.parts[0].end_thinking(body)
        elif item.item_type == "message":
            self._end_message(item, decode_other_item(body, "message", item.reasoning_id))
        else:
            self.events.append(PartEnd(item.parts[0].key, decode_other_item(body, item.item_type, None)[0]))

    def _compare_call(self, item: Any, body: dict[str, Any]) -> None:
        """Report a call that has ended if `body` has another name or other arguments."""
        call, arguments = item.parts[0].call, body.get(TEXT_FIELDS[item.item_type].field)
        if call is None:
            return
        text = call.value or call.text
        self.count_rescan(call.size)
        differs = (
            is_text(arguments)
            and text != arguments
            and not (item.item_type == "function_call" and _has_same_meaning(text, arguments))
        )
        if differs or (is_text(body.get("name")) and body["name"] != call.name):
            self.judge.contradicted(call)

    def _end_message(self, item: PartialItem, parts: list[Part]) -> None:
        """Emit the ends of the parts of a message, and the parts that only its final body has."""
        indexes = sorted(item.parts)
        if len(indexes) < len(parts) and max(indexes, default=0) < len(parts):
            indexes = list(range(len(parts)))
        for index, part in zip_longest(indexes, parts):
            if index in item.parts:
                self._misses_text = self._misses_text or item.parts[index].misses_text_of(part)
                self.events += item.parts[index].end(part)
            else:
                self._emit_part(part)

    def _emit_part(self, part: Part) -> None:
        """Emit a whole part."""
        self._refused = self._refused or type(part) is Refusal
        self.events += part_events(self.new_key(), part, 0)

    def _end_call(self, item: PartialItem, earlier: dict[str, Any], *, whole: bool | None) -> None:
        """Emit the end of a call. Its name, its id and its text are those of `earlier` if its final body lacks them."""
        partial, field, body = item.parts[0], TEXT_FIELDS[item.item_type].field, dict(item.body)
        known_keys = {key: earlier[key] for key in ("name", "call_id") if is_text(earlier.get(key))}
        body |= {key: known_keys[key] for key in known_keys if not is_text(body.get(key))}
        arguments = body.get(field)
        has_arguments = arguments if type(arguments) is dict else type(arguments) is str and arguments.strip()
        if partial.size and not (whole and has_arguments):
            body[field] = partial.text
        tool_call: Any = self._decode_call(item, body)
        if type(tool_call) is not ToolCall:
            self._emit_nameless_call(item, tool_call)
            return
        self.events += partial.add_missing(tool_call.raw)
        call: PartialCall = partial.call
        call.name = body["name"]
        if whole and has_arguments:
            call.confirm(arguments)
        if type(arguments) is dict and self.repeats_a_key():
            call.problem = Reason.TWICE
        call.problem = self._find_contradiction(known_keys, body) or (Reason.NOT_UTF8 if self.damaged else call.problem)
        if (judged := self.judge.close(call, tool_call, complete=whole)) is not None:
            self.events.append(CallEnd(partial.key, judged))

    def _emit_nameless_call(self, item: PartialItem, part: Part) -> None:
        """Emit the text of a call without a name as that of a call that cannot run."""
        partial = item.parts[0]
        if not partial.size:
            self._emit_part(part)
            return
        self.judge.stray(partial.text, of_lost_call=self._items.has_own_index(item))
        call_id = generate_call_id(number_of(self._response.get("id")), item.counted_index)
        error = str(Reason.STRAY_TEXT)
        stray = ToolCall(call_id, "", {}, item.counted_index, raw=partial.text, error=error, opaque=WIRE.plain)
        partial.key = self.new_key()
        self.start_call(partial.key, stray)
        self.end_whole_call(partial.key, cut_off(stray))

    def _read_response_end(self, body: dict[str, Any]) -> bool:
        """Read the end of the response, and emit the parts of its output that were not emitted before."""
        response: Any = body["response"] if type(body.get("response")) is dict else {}
        if not response and type(body.get("delta")) is str:
            return False
        if self._shell is None:
            self._read_response(body, last=True)
        self._read_output(response.get("output"))
        self._read_response(body, last=True)
        if self._shell.usage is not None:
            self.events.append(UsageDelta(self._shell.usage))
        if response.get("status") == "failed" or type(response.get("error")) is dict:
            self.fail(decode_error(None, {"error": response.get("error") or _DEFAULT_ERROR}))
        else:
            self.done = True
            self.end(complete=True)
        return True

    def _read_response_done(self, body: dict[str, Any]) -> bool:
        """Read `response.done`. It ends the stream if its response has an output or a final status.

        OpenAI's server of Codex ends some streams with it (https://github.com/decolua/9router/pull/2142).
        """
        response = body.get("response")
        if type(response) is not dict:
            return False
        has_ended = type(response.get("output")) is list or f"response.{response.get('status')}" in _END_EVENTS
        return has_ended and self._read_response_end(body)

    def _read_output(self, output: Any) -> None:
        """Read the items of the final response: end those that are open, and add those that are new."""
        reasoning = None
        bodies = output if type(output) is list else []
        bodies = [self._items.restore_type(body) if type(body) is dict else body for body in bodies]
        for item_body, arrived in self._items.match(bodies):
            if type(item_body) is not dict:
                self._emit_part(Opaque(DIALECT, item_body))
                continue
            self._items.reasoning = reasoning if arrived is None else self._items.reasoning
            item = arrived or self._start_item(item_body, None)
            if not item.ended:
                self._end_item(item, item_body)
            elif item.item_type in CALL_TYPES:
                self._compare_call(item, item_body)
            reasoning = item if item.item_type == "reasoning" else reasoning

    def end(self, *, complete: bool) -> None:
        """End the stream. It is complete only if the event that ends the response arrived."""
        for item in self._items.items:
            if (
                item.item_type in CALL_TYPES
                and not item.ended
                and item.parts[0].size
                and not is_text(item.body.get("name"))
            ):
                self.judge.stray(item.parts[0].text, of_lost_call=self._items.has_own_index(item))
        super().end(complete=complete and self.done)

    def cut_calls(self, *, cut: bool) -> tuple[PartialCall, ...]:
        """Return the call that the end of the answer may have cut off."""
        cut = cut or (self._shell is not None and self._shell.choices[0].finish_reason in CUT)
        last = self._items.items[-1] if self._items.items else None
        return (last.parts[0].call,) if cut and last is not None and last.item_type in CALL_TYPES else ()

    def end_choices(self, reason: str | None) -> None:
        """Emit the end of every open item and of the answer. `reason` is the finish reason if the wire sent none."""
        if self._shell is None:
            if reason == "error":
                return
            self._read_response({})
        choice = self._shell.choices[0]
        raw_finish = choice.raw_finish_reason, spelling_of(choice.opaque, ResponsesChoiceSpelling).has_details
        cut = (reason or decode_finish_reason(*raw_finish, called=False, refused=False)) in CUT
        for item in self._items.items:
            if not item.ended and item.parts:
                self._end_item(item, draft_body(item), whole=False if cut else None)
        called = self.judge.called or self.judge.is_waiting
        finish = reason or decode_finish_reason(*raw_finish, called=called, refused=self._refused)
        if self._misses_text and finish in {"stop", "tool_calls"}:
            finish = "incomplete"
        held_calls = self.judge.end(finish, self.cut_calls(cut=True), ended=reason is None)
        self.events += [CallEnd(call.key, tool_call) for call, tool_call in held_calls]  # type: ignore[arg-type]
        self.events.append(ChoiceEnd(0, replace(choice, finish_reason=finish)))

    READERS: ClassVar[dict[str, tuple[Any, ...]]] = {
        **dict.fromkeys(_RESPONSE_EVENTS, (_read_response,)),
        **dict.fromkeys(_END_EVENTS, (_read_response_end,)),
        "response.done": (_read_response_done,),
        "response.output_item.added": (_read_item_added,),
        "response.output_item.done": (_read_item_done,),
        "response.content_part.added": (_read_part_added,),
        "response.output_text.annotation.added": (_read_annotation,),
        "response.reasoning_part.added": (_read_full_text, "content", True),
        "response.reasoning_summary_part.added": (_read_full_text, "summary", True),
    }
    for _name, _growing in TEXT_FIELDS.items():
        READERS[f"response.{_growing.text_event}.delta"] = (_read_delta, _name)
        READERS[f"response.{_growing.text_event}.done"] = (_read_full_text, _name)
    del _name, _growing


def _may_repeat_call(earlier_item: PartialItem | None, body: dict[str, Any], output_index: int | None) -> bool:
    """Return True if a call of which only the end arrived may repeat another call.

    That is a call of the same name that has ended at its index, or any call if the end has no index and no id.
    """
    if earlier_item is not None and earlier_item.ended:
        return bool(earlier_item.body.get("name") == body.get("name"))
    return output_index is None and not is_text(body.get("id")) and not is_text(body.get("call_id"))


def _has_same_meaning(first: Any, second: Any) -> bool:
    """Return True if the arguments `first`, an object or its text, have the same meaning as the text `second`."""
    arguments = first if type(first) is dict else parse_arguments(first)[0] if type(first) is str else None
    return parse_arguments(second) == (arguments, None)


def decode_stream() -> StreamDecoder:
    """Return a decoder for one stream."""
    return Decoder()
