"""Streams of Responses, read: items that are added, grow and are done.

Rules of this file:
- What has no beginning, because a server left it out, begins when something is said of it.
- A call begins when its name and its id are known. One without text, or with bad text, waits for the reason
  of the answer's end: it may have been cut off.
"""

from itertools import zip_longest
from typing import Any, ClassVar

from msgspec.structs import replace

from toolwire.accumulation import tell
from toolwire.dialects.openai_responses.calls import CALLS, decode_call, decode_reasoning
from toolwire.dialects.openai_responses.error import decode_error
from toolwire.dialects.openai_responses.messages import decode_item
from toolwire.dialects.openai_responses.parts import DIALECT, decode_citation, is_annotation
from toolwire.dialects.openai_responses.response import GROWS, Said, decode_response, read_finish, so_far
from toolwire.endings import CUT, cut_off, is_half
from toolwire.framing import EventStream, Framing
from toolwire.ledger import form_of
from toolwire.names import number_of
from toolwire.slots import Arrival, Item, Steps, index_of
from toolwire.streams import NOT_UTF8, StreamDecoder
from toolwire.types import (
    CallEnd,
    CallStart,
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

PLACES = ("output_index", "content_index", "summary_index")
USUAL = frozenset({"type", "sequence_number", "item_id", *PLACES, "delta", "logprobs", "obfuscation"})
OPENINGS = ("response.created", "response.queued", "response.in_progress")
ENDINGS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
NOTHING: tuple[Any, ...] = (None,) * 7
SAYS_NOTHING = frozenset({"keepalive", "ping"})
NAMES = ("name", "call_id")
KINDS: dict[Any, type] = {"output_text": Text, "refusal": Refusal}
BEGUN: dict[str, dict[str, Any]] = {"reasoning": {"summary": []}, "output_text": {"annotations": []}}
FAILED = {"code": "server_error", "message": "the response failed"}


class Decoder(StreamDecoder):
    """Reads the events of a stream; `_usual` is how the next one looks if it only adds words to a part."""

    learns = False

    def __init__(self) -> None:
        super().__init__()
        self._response: dict[str, Any] = {}
        self._answer: Any = None
        self._early: list[dict[str, Any]] = []
        self._items = Arrival("reasoning", CALLS)
        self._held: list[tuple[int, ToolCall]] = []
        self._called = self._refused = False
        self._steps = Steps()
        self._usual = NOTHING
        self._name = self._lead = b""

    def _read_bytes(self, data: bytes, frames: Framing) -> None:
        """Read bytes; one event that is named like the one before, and nothing else, needs no framing."""
        lead, end = self._lead, len(data) - 2
        if lead and data.startswith(lead) and data.find(b"\n", len(lead)) == end and data[-2:] == b"\n\n":
            self._read_frame(data[len(lead) : end], self._name)
            return
        super()._read_bytes(data, frames)
        usual = self._usual is not NOTHING and type(frames) is EventStream and frames.is_idle()
        named = b"event: " + self._name + b"\n" if self._name else b""
        self._lead = named + b"data: " if usual and not self._inside else b""

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one event; one that says nothing but more words takes a short way."""
        kind = body.get("type")
        if type(kind) is not str:
            kind = name.decode(errors="replace")
        self._name = name
        if self._steps.came_before(body, kind):
            return
        usual, item_id, places, place, key, event, add = self._usual
        if (
            kind == usual
            and body.get("item_id") == item_id
            and body.get(places) == place
            and type(words := body.get("delta")) is str
            and words
            and USUAL.issuperset(body)
            and not (body.get("logprobs") or self.damaged)
        ):
            add(words)
            self.events.append(event(key, words))
            return
        reader = self.READERS.get(kind)
        if reader is None:
            self._read_odd_body(body, kind)
        elif not reader[0](self, body, *reader[1:]):
            self._keep(body)

    def _read_odd_body(self, body: dict[str, Any], kind: str) -> None:
        if not kind and body.get("object") == "response" and self._answer is None:
            self._read_ending({"response": body})
        elif type(body.get("error")) is dict:
            self._read_error(body)
        elif kind not in SAYS_NOTHING:
            self._keep(body)

    def _read_error(self, body: dict[str, Any]) -> bool:
        self.fail(decode_error(None, _without(body, "sequence_number")))
        return True

    def _keep(self, body: dict[str, Any]) -> None:
        """Keep what nobody understands, with the part that it is about."""
        if self._answer is None:
            self._early.append(body)
            return
        item = self._items.named(body.get("item_id"), index_of(body.get("output_index")))
        key = item.said[max(item.said)].key if item is not None and item.said and not item.ended else None
        step = Opaque(DIALECT, _without(body, "sequence_number"))
        self.events.append(OpaqueDelta(key, repeated=key is not None, opaque=step))

    def _read_response(self, body: dict[str, Any]) -> bool:
        """Tell what is known of the answer; later, what is new of it."""
        news, before = body.get("response"), self._answer
        self._response = {**self._response, **(news if type(news) is dict else {}), "output": []}
        self._answer = decode_response(self._response)
        shell = replace(self._answer, choices=[])
        if before is None:
            self.events.append(MessageStart(shell))
            for early in self._early:
                self._keep(early)
        elif shell != replace(before, choices=[]):
            self.events.append(MessageDelta(shell))
        return True

    def _find(self, body: dict[str, Any], kind: Any, *, begin: bool) -> Item | None:
        """Find the open item of a kind that an event is about; it may begin, unless it is over."""
        item_id, place = body.get("item_id"), index_of(body.get("output_index"))
        item = self._items.find(kind, item_id, place)
        if item is None and begin and not self._items.knows(item_id):
            made = {"type": kind, "status": "in_progress", **BEGUN.get(kind, {})}
            item = self._add({"id": item_id, **made} if type(item_id) is str else made, place)
        return item

    def _add(self, body: dict[str, Any], place: int | None) -> Item:
        if self._answer is None:
            self._read_response({})
        self._release(None, last=False)
        item = self._items.add(body, place)
        if item.kind in CALLS:
            item.said[0] = Said(None, None, body)
            if body.get("name") and body.get("call_id"):
                self._read_call(item, {GROWS[item.kind].field: "", **body})
        elif item.kind == "reasoning":
            self._open(item, 0, replace(decode_reasoning(body), text=""), body)
        elif item.kind != "message":
            self._open(item, 0, decode_item(body, item.kind, None)[0], body)
        return item

    def _open(self, item: Item, place: int, part: Part, block: dict[str, Any]) -> Said:
        said = item.said[place] = Said(self.new_key(), part, block)
        self._refused = self._refused or type(part) is Refusal
        self.events.append(PartStart(said.key, part))
        return said

    def _open_block(self, item: Item, place: int | None, block: dict[str, Any]) -> Said:
        """Begin a part of a message; the first one carries what the item says beside its content."""
        kind = block.get("type")
        block = {**block, GROWS[kind].field: ""} if type(kind) is str and kind in KINDS else block
        content = [block] * (2 if item.said else 1)
        parts = decode_item({"role": "assistant", **item.body, "content": content}, "message", item.led_by)
        return self._open(item, max(item.said, default=-1) + 1 if place is None else place, parts[-1], block)

    def _read_call(self, item: Item, body: dict[str, Any]) -> Part:
        """Read a call, and begin it if it has not begun."""
        said = item.said[0]
        call = decode_call(body, number_of(self._response.get("id")), item.index, item.led_by)
        if said.key is None and type(call) is ToolCall:
            said.key = self.new_key()
            start = CallStart(said.key, call.id, call.name, call.index, call.custom, opaque=call.opaque)
            self.events.append(start)
        return call

    def _add_item(self, body: dict[str, Any]) -> bool:
        given = body.get("item")
        if type(given) is dict and not self._items.knows(given.get("id")):
            self._add(given, index_of(body.get("output_index")))
        return type(given) is dict

    def _add_block(self, body: dict[str, Any]) -> bool:
        block, place = body.get("part"), index_of(body.get("content_index"))
        if type(block) is not dict or block.get("type") == "reasoning_text":
            return type(block) is dict and self._add_text(body, "content")
        item = self._find(body, "message", begin=True)
        if item is not None and (place is None or place not in item.said):
            self._open_block(item, place, block)
        return item is not None

    def _add_text(self, body: dict[str, Any], name: str) -> bool:
        return self._part_of(body, name, begin=True) is not None

    def _part_of(self, body: dict[str, Any], name: str, *, begin: bool) -> Said | None:
        """Find the part that an event is about."""
        kind, place = GROWS[name].item, index_of(body.get(GROWS[name].places))
        item = self._find(body, kind, begin=begin)
        if item is None:
            return None
        if kind != "message":
            self.events += item.said[0].go_to(name, place) if kind not in CALLS else ()
            item.said[0].problem = NOT_UTF8 if self.damaged else item.said[0].problem
            return item.said[0] if item.said[0].shown in (None, name) else None
        said = item.said.get(max(item.said, default=0) if place is None else place)
        if said is None and begin:
            said = self._open_block(item, place, {"type": name, **BEGUN.get(name, {})})
        return said if said is not None and type(said.part) is KINDS[name] else None

    def _read_delta(self, body: dict[str, Any], name: str) -> bool:
        words, places = body.get("delta"), GROWS[name].places
        said = self._part_of(body, name, begin=True) if type(words) is str else None
        if said is None:
            return False
        left = {key: body[key] for key in body if key not in USUAL or (key == "logprobs" and body[key])}
        if words or left:
            self.events += said.say(words, left)  # type: ignore[arg-type]
        if said.key is not None:
            told = body.get("item_id"), places, body.get(places), said.key, said.tells, said.add
            self._usual = body.get("type"), *told
        return True

    def _read_whole(self, body: dict[str, Any], name: str) -> bool:
        said = self._part_of(body, name, begin=False)
        if said is not None:
            self.events += said.catch_up(body.get(GROWS[name].field))
        return said is not None

    def _read_note(self, body: dict[str, Any]) -> bool:
        note: Any = body.get("annotation")
        said = self._part_of(body, "output_text", begin=False) if is_annotation(note) else None
        if said is not None:
            said.notes.append(note)
            self.events.append(CitationDelta(said.key, decode_citation(note)))
        return said is not None

    def _end_item(self, body: dict[str, Any]) -> bool:
        given, place = body.get("item"), index_of(body.get("output_index"))
        if type(given) is not dict:
            return False
        item = self._items.find(given.get("type", "message"), given.get("id"), place)
        if item is None and not self._items.knows(given.get("id")):
            item = self._add(given, place)
        if item is not None:
            self._close(item, given)
        return item is not None

    def _close(self, item: Item, body: dict[str, Any], *, whole: bool | None = True) -> None:
        """End what was told of an item, as its body says that it is."""
        before, item.body, item.ended, self._usual = item.body, body, True, NOTHING
        if item.kind in CALLS:
            self._close_call(item, before, whole=whole)
        elif item.kind == "reasoning":
            self.events += item.said[0].end_thinking(body)
        elif item.kind == "message":
            self._close_message(item, decode_item(body, "message", item.led_by))
        else:
            self.events.append(PartEnd(item.said[0].key, decode_item(body, item.kind, None)[0]))

    def _close_message(self, item: Item, parts: list[Part]) -> None:
        places = sorted(item.said)
        if len(places) < len(parts) and max(places, default=0) < len(parts):
            places = list(range(len(parts)))
        for place, part in zip_longest(places, parts):
            if place in item.said:
                self.events += item.said[place].end(part)
            else:
                self._tell(part)

    def _tell(self, part: Part) -> None:
        self._refused = self._refused or type(part) is Refusal
        self.events += tell(self.new_key(), part, 0)

    def _close_call(self, item: Item, before: dict[str, Any], *, whole: bool | None) -> None:
        """End a call; of what its body does not say, what was known before counts."""
        said, field, body = item.said[0], GROWS[item.kind].field, dict(item.body)
        text, told = said.text, said.key is not None
        body |= {key: before[key] for key in NAMES if before.get(key) and not body.get(key)}
        if text and type(body.get(field)) not in (str, dict):
            body[field] = text
        call: Any = self._read_call(item, body)
        if type(call) is not ToolCall:
            self._tell(call)
            return
        if not told:
            said.texts = [[]]
        self.events += said.catch_up(call.raw)
        problem = NOT_UTF8 if self.damaged else said.problem
        if type(body.get(field)) is dict and self.repeats_a_key():
            problem = "its arguments give a key twice"
        call = said.settle(call, problem, whole=whole)
        if call.complete and not call.custom and is_half(call, last=True):
            self._held.append((said.key, call))
        else:
            self._end_call(said.key, call)

    def _end_call(self, key: int, call: ToolCall) -> None:
        self._called = self._called or call.complete
        self.events.append(CallEnd(key, call))

    def _release(self, reason: Any, *, last: bool) -> None:
        """Tell the calls that waited for the end; one that only had no text is whole if more follows."""
        held, self._held = self._held, []
        for key, call in held:
            if last or call.error is None:
                self._end_call(key, cut_off(call) if reason in CUT else call)
            else:
                self._held.append((key, call))

    def _read_ending(self, body: dict[str, Any]) -> bool:
        """Read the end of the answer, and what of it was never told."""
        response: Any = body["response"] if type(body.get("response")) is dict else {}
        if self._answer is None:
            self._read_response(body)
        output: Any = response.get("output")
        self._read_output(output if type(output) is list else [])
        self._read_response(body)
        if self._answer.usage is not None:
            self.events.append(UsageDelta(self._answer.usage))
        if response.get("status") == "failed" or type(response.get("error")) is dict:
            self.fail(decode_error(None, {"error": response.get("error") or FAILED}))
        else:
            self.done = True
            self.end(complete=True)
        return True

    def _read_output(self, output: list[Any]) -> None:
        reasoning = None
        for given, arrived in zip(output, self._items.match(output), strict=True):
            if type(given) is not dict:
                self._tell(Opaque(DIALECT, given))
                continue
            item = arrived
            if item is None:
                self._items.leader = reasoning
                item = self._add(given, None)
            if not item.ended:
                self._close(item, given)
            reasoning = item if item.kind == "reasoning" else reasoning

    def _skip(self, body: dict[str, Any]) -> bool:
        """Leave out what the end of an item says again."""
        return type(body.get("part")) is dict

    def settle(self, reason: str | None) -> None:
        """End what is open, and the answer."""
        if self._answer is None:
            if reason == "error":
                return
            self._read_response({})
        choice = self._answer.choices[0]
        ended = choice.raw_finish_reason, "said" in form_of(choice.opaque, DIALECT)
        finish = reason or read_finish(*ended, called=False, refused=False)
        for item in self._items.items:
            if not item.ended and item.said:
                self._close(item, so_far(item), whole=False if finish in CUT else None)
        called = self._called or bool(self._held)
        finish = reason or read_finish(*ended, called=called, refused=self._refused)
        self._release(finish, last=True)
        self.events.append(ChoiceEnd(0, replace(choice, finish_reason=finish)))

    READERS: ClassVar[dict[str, tuple[Any, ...]]] = {
        "error": (_read_error,),
        **dict.fromkeys(OPENINGS, (_read_response,)),
        **dict.fromkeys(ENDINGS, (_read_ending,)),
        "response.output_item.added": (_add_item,),
        "response.output_item.done": (_end_item,),
        "response.content_part.added": (_add_block,),
        "response.content_part.done": (_skip,),
        "response.output_text.annotation.added": (_read_note,),
        "response.reasoning_part.added": (_add_text, "content"),
        "response.reasoning_part.done": (_skip,),
        "response.reasoning_summary_part.added": (_add_text, "summary"),
        "response.reasoning_summary_part.done": (_skip,),
    }
    for _name, _spec in GROWS.items():
        READERS[f"response.{_spec.words}.delta"] = (_read_delta, _name)
        READERS[f"response.{_spec.words}.done"] = (_read_whole, _name)
    del _name, _spec


def _without(body: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != key}


def decode_stream() -> Decoder:
    """Read a stream."""
    return Decoder()
