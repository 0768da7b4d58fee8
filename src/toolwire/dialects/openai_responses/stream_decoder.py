"""Streams of Responses, read: items that are added, grow and are done.

Rules of this file:
- What has no beginning, because a server left it out, begins when something is said of it.
- A call begins when its name and its id are known. The judge of calls decides whether it may run.
- Arguments whose call has no name become a call that is not usable.
- An answer whose last words say more than was told on the way is not complete.
"""

from itertools import zip_longest
from typing import Any, ClassVar

from msgspec.structs import replace

from toolwire.dialects.openai_responses.calls import CALLS, decode_call, decode_reasoning, is_call
from toolwire.dialects.openai_responses.error import decode_error
from toolwire.dialects.openai_responses.messages import decode_item
from toolwire.dialects.openai_responses.parts import DIALECT, WIRE, decode_citation, is_annotation
from toolwire.dialects.openai_responses.response import GROWS, PartSoFar, decode_response, draft, read_finish
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
from toolwire.wire.names import made_id, number_of

WHERE = ("item_id", "output_index", "content_index", "summary_index")
_USUAL = frozenset({*WHERE, "type", "sequence_number", "delta", "logprobs", "obfuscation"})
_OF_EVENTS = _USUAL.union(
    ("response", "item", "part", "text", "refusal", "arguments", "input", "name", "annotation", "annotation_index")
)
_OPENINGS = ("response.created", "response.queued", "response.in_progress")
ENDINGS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_KINDS: dict[Any, type] = {"output_text": Text, "refusal": Refusal}
BEGUN: dict[str, dict[str, Any]] = {"reasoning": {"summary": []}, "output_text": {"annotations": []}}
_FAILED = {"code": "server_error", "message": "the response failed"}


class Decoder(WireDecoder):
    """Reads the events of a stream."""

    def __init__(self) -> None:
        super().__init__()
        self._response: dict[str, Any] = {}
        self._news: Any = None
        self._answer: Any = None
        self._early: list[dict[str, Any]] = []
        self._items = PartialItems("reasoning", CALLS)
        self._by_id: dict[str, PartialCall] = {}
        self._refused = self._lacks = False
        self.steps: SequenceTracker = SequenceTracker()

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one event."""
        kind = body["type"] if type(body.get("type")) is str else name.decode(errors="replace")
        if self.steps.is_repeated(body, kind):
            return
        reader = self.READERS.get(kind)
        if reader is None:
            self._read_odd_body(body, kind)
        elif not reader[0](self, body, *reader[1:]):
            self._read_unfit(body, kind)
        elif not kind.endswith(".delta"):
            self._keep_rest(body)

    def _read_unfit(self, body: dict[str, Any], kind: str) -> None:
        """Read an event that nothing took, or whose type does not fit what it holds."""
        words = body.get("delta", body.get("arguments"))
        if kind.endswith(".delta") and self._add_item(body):
            return
        if kind.startswith("response.function_call_arguments.") and words:
            self._note_stray(body, words)
        elif type(words) is str:
            self._note_lost(body, words)
        self._keep(body, known=True)

    def _note_lost(self, body: dict[str, Any], words: Any) -> None:
        """Note that words came that reached no part: they may be text, or arguments."""
        item = self._items.get(body.get("item_id"), index_of(body.get("output_index")))
        if item is not None and item.kind in CALLS and not is_call(item.body, item.kind):
            return  # the server ran it itself, and its item is kept whole
        if item is None or item.kind not in {"message", "reasoning"}:
            self._note_stray(body, words)
        self._lacks = self._lacks or not self._has_said(item, str(words))

    def _has_said(self, item: PartialItem | None, words: str) -> bool:
        """Whether an item has said words."""
        for part in () if item is None else item.parts.values():
            self.count_rescan(part.size)
            if words in part.text:
                return True
        return False

    def _note_stray(self, body: dict[str, Any], words: Any) -> None:
        """Report arguments that reached no open call."""
        item = self._items.get(body.get("item_id"), index_of(body.get("output_index")))
        call = item.parts[0].call if item is not None and item.ended and item.kind in CALLS else None
        if call is not None:
            self.judge.late(call, words)
        else:
            self.judge.stray(words, of_lost_call=item is not None)

    def _read_odd_body(self, body: dict[str, Any], kind: str) -> None:
        if not kind and body.get("object") == "response" and self._answer is None:
            self._read_ending({"response": body})
        elif kind == "error" or type(body.get("error")) is dict:
            body.pop("sequence_number", None)
            self.fail(decode_error(None, body))
        elif body.get("delta") and (not kind.startswith("response.") or self._speaks_of_known(body)):
            self._note_lost(body, body["delta"])
            self._keep(body)
        elif not kind and type(body.get("item")) is dict:
            if body["item"].get("arguments"):
                self.judge.stray(body["item"]["arguments"], of_lost_call=True)
            self._keep(body)
        elif kind.endswith("_part.done"):
            self._keep_rest(body)
        elif kind not in {"keepalive", "ping"} or not _USUAL.issuperset(body):
            self._keep(body)

    def _speaks_of_known(self, body: dict[str, Any]) -> bool:
        """Whether an event of an unknown type is about a call, or the content of a message."""
        item = self._items.get(body.get("item_id"), index_of(body.get("output_index")))
        return item is not None and (item.kind in CALLS or (item.kind == "message" and "content_index" in body))

    def _keep(self, body: dict[str, Any], *, known: bool = False) -> None:
        """Keep what nobody understands, with the part that it is about; of what is over all was said."""
        if self._answer is None:
            self._early.append(body)
            return
        item = self._items.get(body.get("item_id"), index_of(body.get("output_index")))
        over = item is not None and item.ended
        if over and known:
            return
        key = item.parts[item.last].key if item is not None and item.last is not None and not over else None
        body.pop("sequence_number", None)
        self.events.append(OpaqueDelta(key, repeated=key is not None, opaque=Opaque(DIALECT, body)))

    def _keep_rest(self, body: dict[str, Any]) -> None:
        """Keep what an event says beside what it carries."""
        if not _OF_EVENTS.issuperset(body):
            self._keep({key: body[key] for key in body if key not in _OF_EVENTS})

    def _read_response(self, body: dict[str, Any], *, last: bool = False) -> bool:
        """Tell what is known of the answer; later, what is new of it, with its status until the last step."""
        news, before = body.get("response"), self._answer
        if type(news) is not dict and type(body.get("delta")) is str:
            return False
        if before is not None and not last and news == self._news:
            return True
        self._news, known = news, self._response.pop("status", None)
        self.count_rescan(CHARACTERS_PER_MEMBER * len(self._response))
        self._response = {**self._response, **(news if type(news) is dict else {}), "output": []}
        self._answer = decode_response(self._response)
        shell, status = replace(self._answer, choices=[]), self._response.get("status")
        news = not last and (before is not None or status != "in_progress")
        step = Opaque(DIALECT, {"status": status}) if news else None
        if before is None:
            self.events.append(MessageStart(shell, opaque=step))
            for early in self._early:
                self._keep(early)
        elif shell != replace(before, choices=[]) or not (last or status == known):
            self.events.append(MessageDelta(shell, opaque=step))
        return True

    def _find(self, body: dict[str, Any], kind: Any, *, begin: bool) -> PartialItem | None:
        """Find the open item of a kind that an event is about; it may begin, unless it is over."""
        item_id, place = body.get("item_id"), index_of(body.get("output_index"))
        item = self._items.find(kind, item_id, place)
        if item is None and begin and not self._items.knows(item_id, kind):
            made = {"type": kind, "status": "in_progress", **BEGUN.get(kind, {})}
            item = self._add({"id": item_id, **made} if type(item_id) is str else made, place)
        return item

    def _add(self, body: dict[str, Any], place: int | None) -> PartialItem:
        if self._answer is None:
            self._read_response({})
        item = self._items.add(body, place)
        if is_call(body, item.kind):
            item.add_part(0, PartSoFar(None, None, body))
            item.parts[0].call = self._open_call(item, body.get("call_id"))
            if is_text(body.get("name")) and is_text(body.get("call_id")):
                self._read_call(item, {GROWS[item.kind].field: "", **body})
        elif item.kind == "reasoning":
            self._open(item, 0, replace(decode_reasoning(body), text=""), body)
        elif item.kind != "message":
            self._open(item, 0, decode_item(body, item.kind, None)[0], body)
        return item

    def _open_call(self, item: PartialItem, call_id: Any) -> PartialCall:
        call = PartialCall(call_id if is_text(call_id) else None, str(item.body.get("name") or ""))
        call.free_text = item.kind == "custom_tool_call"
        self.judge.opened(call, self._by_id.get(call.id or ""))
        if call.id is not None:
            self._by_id[call.id] = call
        return call

    def _open(self, item: PartialItem, place: int, part: Part, block: dict[str, Any]) -> PartSoFar:
        so_far = PartSoFar(self.new_key(), part, block)
        item.add_part(place, so_far)
        self._refused = self._refused or type(part) is Refusal
        self.events.append(PartStart(so_far.key, part))
        return so_far

    def _open_block(self, item: PartialItem, place: int | None, block: dict[str, Any]) -> PartSoFar:
        """Begin a part of a message; the first one carries what the item says beside its content."""
        kind = block.get("type")
        block = {**block, GROWS[kind].field: ""} if type(kind) is str and kind in _KINDS else block
        content = [block] * (2 if item.parts else 1)
        parts = decode_item({"role": "assistant", **item.body, "content": content}, "message", item.reasoning_id)
        after = 0 if item.last is None else item.last + 1
        return self._open(item, after if place is None else place, parts[-1], block)

    def _read_call(self, item: PartialItem, body: dict[str, Any]) -> Part:
        """Read a call, and begin it if it has not begun."""
        so_far = item.parts[0]
        call = decode_call(body, number_of(self._response.get("id")), item.counted_index, item.reasoning_id)
        if so_far.key is None and type(call) is ToolCall:
            so_far.key = self.new_key()
            so_far.call.key = so_far.key
            self.start_call(so_far.key, call)
            if so_far.size:
                self.events.append(CallDelta(so_far.key, so_far.text))
        return call

    def _add_item(self, body: dict[str, Any]) -> bool:
        item, place = body.get("item"), index_of(body.get("output_index"))
        if type(item) is not dict:
            return False
        item = self._items.restore_type(item)
        known = self._items.knows(item.get("id"), item.get("type", "message"))
        begun = self._items.get(item.get("id")) if known else self._items.find_unnamed(item, place)
        if begun is not None and begun.kind in CALLS and not begun.ended:
            if (call := begun.parts[0].call) is not None:
                call.problem = self._contradicts(begun.body, item) or call.problem
            self._items.complete(begun, item)
        elif begun is not None and begun.kind in CALLS:
            self._compare(begun, item)
        elif not known:
            self._add(item, place)
        return True

    def _contradicts(self, first: dict[str, Any], body: dict[str, Any]) -> str | None:
        """Return a problem if the name or the id differs between two bodies of a call."""
        for key in ("name", "call_id"):
            if is_text(first.get(key)) and is_text(body.get(key)) and first[key] != body[key]:
                return Reason.NAMED_TWICE.format(first[key], body[key])
        return None

    def _add_block(self, body: dict[str, Any]) -> bool:
        block, place = body.get("part"), index_of(body.get("content_index"))
        if type(block) is not dict or block.get("type") == "reasoning_text":
            return type(block) is dict and self._read_whole(body, "content", True)
        item = self._find(body, "message", begin=True)
        if item is not None and (place is None or place not in item.parts):
            self._open_block(item, place, block)
        return item is not None

    def _part_of(self, body: dict[str, Any], name: str, *, begin: bool) -> PartSoFar | None:
        """Find the part that an event is about."""
        kind, place = GROWS[name].item, index_of(body.get(GROWS[name].places))
        item = self._find(body, kind, begin=begin)
        if item is None or (kind in CALLS and item.parts[0].part is not None):
            return None
        if kind in CALLS:
            self._note_text(item, said=item.is_named_by(body.get("item_id"), index_of(body.get("output_index"))))
        if kind != "message":
            self.events += item.parts[0].go_to(name, place) if kind not in CALLS else ()
            return item.parts[0] if item.parts[0].shown in (None, name) else None
        so_far = item.parts.get((item.last or 0) if place is None else place)
        if so_far is None and begin:
            so_far = self._open_block(item, place, {"type": name, **BEGUN.get(name, {})})
        return so_far if so_far is not None and type(so_far.part) is _KINDS[name] else None

    def _note_text(self, item: PartialItem, *, said: bool) -> None:
        """Report whether an event names the call whose text it has, and whether the text is damaged."""
        call: Any = item.parts[0].call
        if not said:
            self.judge.matched_by_position(call)
            if self.judge.has_several_open:
                self.judge.ambiguous()
        if self.damaged:
            call.problem = Reason.NOT_UTF8

    def _read_delta(self, body: dict[str, Any], name: str) -> bool:
        words = body.get("delta")
        so_far = self._part_of(body, name, begin=True) if type(words) is str else None
        if so_far is None:
            return False
        left: dict[str, Any] = {}
        if body.get("logprobs") or not _USUAL.issuperset(body):
            left = {key: body[key] for key in body if key not in _USUAL or (key == "logprobs" and body[key])}
        if words or left:
            self.events += so_far.say(words, left)  # type: ignore[arg-type]
        if unknown := {key: left[key] for key in left if key != "logprobs"}:
            self.events.append(OpaqueDelta(opaque=WIRE.mark(unknown, ResponsesDeltaSpelling(is_in_delta=True))))
        return True

    def _read_whole(self, body: dict[str, Any], name: str, begin: bool = False) -> bool:
        so_far = self._part_of(body, name, begin=begin)
        if so_far is not None:
            self.events += so_far.catch_up(body.get(GROWS[name].field))
        return so_far is not None

    def _read_note(self, body: dict[str, Any]) -> bool:
        note: Any = body.get("annotation")
        so_far = self._part_of(body, "output_text", begin=False) if is_annotation(note) else None
        if so_far is not None:
            so_far.notes.append(note)
            self.events.append(CitationDelta(so_far.key, decode_citation(note)))
        return so_far is not None

    def _end_item(self, body: dict[str, Any]) -> bool:
        item_body, place = body.get("item"), index_of(body.get("output_index"))
        if type(item_body) is not dict:
            return False
        item_body = self._items.restore_type(item_body)
        kind, item_id = item_body.get("type", "message"), item_body.get("id")
        item = self._items.find(kind, item_id, place)
        if item is not None and not item.is_named_by(item_id, place) and self._contradicts(item.body, item_body):
            item = None
        if item is None and self._items.knows(item_id, kind) and kind in CALLS:
            self._compare(self._items.get(item_id), item_body)
        elif item is None and not self._items.knows(item_id, kind):
            before = self._items.get(None, place)
            item = self._add(item_body, place)
            if kind in CALLS and item.parts[0].call is not None:
                item.parts[0].call.repeated |= _may_be_again(before, item_body, place)
        if item is not None:
            self._close(item, item_body)
        return item is not None

    def _close(self, item: PartialItem, body: dict[str, Any], *, whole: bool | None = True) -> None:
        """End what was told of an item, as its body says that it is."""
        before, item.body, item.ended = item.body, body, True
        if item.kind in CALLS and item.parts[0].part is None:
            self._close_call(item, before, whole=whole)
        elif item.kind == "reasoning":
            self.events += item.parts[0].end_thinking(body)
        elif item.kind == "message":
            self._close_message(item, decode_item(body, "message", item.reasoning_id))
        else:
            self.events.append(PartEnd(item.parts[0].key, decode_item(body, item.kind, None)[0]))

    def _compare(self, item: Any, body: dict[str, Any]) -> None:
        """Compare a call that has ended with a later description of it."""
        call, other = item.parts[0].call, body.get(GROWS[item.kind].field)
        if call is None:
            return
        text = call.value or call.text
        self.count_rescan(call.size)
        differs = is_text(other) and text != other and not (item.kind == "function_call" and _means(text, other))
        if differs or (is_text(body.get("name")) and body["name"] != call.name):
            self.judge.contradicted(call)

    def _close_message(self, item: PartialItem, parts: list[Part]) -> None:
        places = sorted(item.parts)
        if len(places) < len(parts) and max(places, default=0) < len(parts):
            places = list(range(len(parts)))
        for place, part in zip_longest(places, parts):
            if place in item.parts:
                self._lacks = self._lacks or item.parts[place].lacks(part)
                self.events += item.parts[place].end(part)
            else:
                self._tell(part)

    def _tell(self, part: Part) -> None:
        self._refused = self._refused or type(part) is Refusal
        self.events += part_events(self.new_key(), part, 0)

    def _close_call(self, item: PartialItem, before: dict[str, Any], *, whole: bool | None) -> None:
        """End a call; of what its body does not say, what was known before counts."""
        so_far, field, body = item.parts[0], GROWS[item.kind].field, dict(item.body)
        known = {key: before[key] for key in ("name", "call_id") if is_text(before.get(key))}
        body |= {key: known[key] for key in known if not is_text(body.get(key))}
        arguments = body.get(field)
        repeated = arguments if type(arguments) is dict else type(arguments) is str and arguments.strip()
        if so_far.size and not (whole and repeated):
            body[field] = so_far.text
        made: Any = self._read_call(item, body)
        if type(made) is not ToolCall:
            self._tell_nameless(item, made)
            return
        self.events += so_far.catch_up(made.raw)
        partial: PartialCall = so_far.call
        partial.name = body["name"]
        if whole and repeated:
            partial.confirm(arguments)
        if type(arguments) is dict and self.repeats_a_key():
            partial.problem = Reason.TWICE
        partial.problem = self._contradicts(known, body) or (Reason.NOT_UTF8 if self.damaged else partial.problem)
        if (judged := self.judge.close(partial, made, complete=whole)) is not None:
            self.events.append(CallEnd(so_far.key, judged))

    def _tell_nameless(self, item: PartialItem, part: Part) -> None:
        """Emit a call without a name: its text is that of a call that is not usable."""
        so_far = item.parts[0]
        if not so_far.size:
            self._tell(part)
            return
        self.judge.stray(so_far.text, of_lost_call=self._items.has_own_index(item))
        call_id = made_id(number_of(self._response.get("id")), item.counted_index)
        error = str(Reason.STRAY_TEXT)
        stray = ToolCall(call_id, "", {}, item.counted_index, raw=so_far.text, error=error, opaque=WIRE.plain)
        so_far.key = self.new_key()
        self.start_call(so_far.key, stray)
        self.end_whole_call(so_far.key, cut_off(stray))

    def _read_ending(self, body: dict[str, Any]) -> bool:
        """Read the end of the answer, and what of it was never told."""
        response: Any = body["response"] if type(body.get("response")) is dict else {}
        if not response and type(body.get("delta")) is str:
            return False
        if self._answer is None:
            self._read_response(body, last=True)
        self._read_output(response.get("output"))
        self._read_response(body, last=True)
        if self._answer.usage is not None:
            self.events.append(UsageDelta(self._answer.usage))
        if response.get("status") == "failed" or type(response.get("error")) is dict:
            self.fail(decode_error(None, {"error": response.get("error") or _FAILED}))
        else:
            self.done = True
            self.end(complete=True)
        return True

    def _read_done(self, body: dict[str, Any]) -> bool:
        """Read the end that some servers give another name; it is one if it has the whole response, or its status."""
        response = body.get("response")
        if type(response) is not dict:
            return False
        ended = type(response.get("output")) is list or f"response.{response.get('status')}" in ENDINGS
        return ended and self._read_ending(body)

    def _read_output(self, output: Any) -> None:
        leader = None
        bodies = output if type(output) is list else []
        bodies = [self._items.restore_type(body) if type(body) is dict else body for body in bodies]
        for item_body, arrived in self._items.match(bodies):
            if type(item_body) is not dict:
                self._tell(Opaque(DIALECT, item_body))
                continue
            self._items.reasoning = leader if arrived is None else self._items.reasoning
            item = arrived or self._add(item_body, None)
            if not item.ended:
                self._close(item, item_body)
            elif item.kind in CALLS:
                self._compare(item, item_body)
            leader = item if item.kind == "reasoning" else leader

    def end(self, *, complete: bool) -> None:
        """End the stream; an answer is complete if its own last event says so."""
        for item in self._items.items:
            if item.kind in CALLS and not item.ended and item.parts[0].size and not is_text(item.body.get("name")):
                self.judge.stray(item.parts[0].text, of_lost_call=self._items.has_own_index(item))
        super().end(complete=complete and self.done)

    def cut_calls(self, *, cut: bool) -> tuple[PartialCall, ...]:
        """Return the call that the end of the answer may have cut off."""
        cut = cut or (self._answer is not None and self._answer.choices[0].finish_reason in CUT)
        last = self._items.items[-1] if self._items.items else None
        return (last.parts[0].call,) if cut and last is not None and last.kind in CALLS else ()

    def end_choices(self, reason: str | None) -> None:
        """End what is open, and the answer."""
        if self._answer is None:
            if reason == "error":
                return
            self._read_response({})
        choice = self._answer.choices[0]
        ended = choice.raw_finish_reason, spelling_of(choice.opaque, ResponsesChoiceSpelling).has_details
        cut = (reason or read_finish(*ended, called=False, refused=False)) in CUT
        for item in self._items.items:
            if not item.ended and item.parts:
                self._close(item, draft(item), whole=False if cut else None)
        called = self.judge.called or self.judge.is_waiting
        finish = reason or read_finish(*ended, called=called, refused=self._refused)
        if self._lacks and finish in {"stop", "tool_calls"}:
            finish = "incomplete"
        waited = self.judge.end(finish, self.cut_calls(cut=True), ended=reason is None)
        self.events += [CallEnd(call.key, made) for call, made in waited]  # type: ignore[arg-type]
        self.events.append(ChoiceEnd(0, replace(choice, finish_reason=finish)))

    READERS: ClassVar[dict[str, tuple[Any, ...]]] = {
        **dict.fromkeys(_OPENINGS, (_read_response,)),
        **dict.fromkeys(ENDINGS, (_read_ending,)),
        "response.done": (_read_done,),
        "response.output_item.added": (_add_item,),
        "response.output_item.done": (_end_item,),
        "response.content_part.added": (_add_block,),
        "response.output_text.annotation.added": (_read_note,),
        "response.reasoning_part.added": (_read_whole, "content", True),
        "response.reasoning_summary_part.added": (_read_whole, "summary", True),
    }
    for _kind, _spec in GROWS.items():
        READERS[f"response.{_spec.words}.delta"] = (_read_delta, _kind)
        READERS[f"response.{_spec.words}.done"] = (_read_whole, _kind)
    del _kind, _spec


def _may_be_again(before: PartialItem | None, body: dict[str, Any], place: int | None) -> bool:
    """Whether the end of a call that never began may be that of another one: nothing names it, or it has its place."""
    if before is not None and before.ended:
        return bool(before.body.get("name") == body.get("name"))
    return place is None and not is_text(body.get("id")) and not is_text(body.get("call_id"))


def _means(text: Any, other: Any) -> bool:
    """Whether two texts of arguments mean the same."""
    known = text if type(text) is dict else parse_arguments(text)[0] if type(text) is str else None
    return parse_arguments(other) == (known, None)


def decode_stream() -> StreamDecoder:
    """Read a stream."""
    return Decoder()
