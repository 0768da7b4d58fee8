"""Where a conversation may be gone on from: what stands before a seam was translated, and nothing later changes it.

Rules of this file:
- A conversation is kept up to a seam: an answer of the model stands after it, all calls before it have their results,
  and no name had to be respelled. No later message changes anything of what stands before a seam. The first seam is
  where the user begins to speak: what is said before him, with the tools and settings, opens other conversations too.
- The bytes before the seam and after the messages are compared as they are. What stands between them is translated
  as always; where it is odd in any way, the whole body is.
- What the last turn said after its seam is kept apart, and found by its bytes. Clients that mark the last message for a
  cache say it otherwise in the next turn: then it is translated again.
- A seam is only kept when its two halves, written apart, are the whole that was written at once.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.repair import BEGINNING, is_legal
from toolwire.encoding.traits import WireTraits
from toolwire.translation.declared import is_minded
from toolwire.translation.formed import asks_for_value, asks_for_word
from toolwire.types import Encoded, Loss, Message, Opaque, Output, Request, Text, ToolCall, ToolResult
from toolwire.types.encoded import Written
from toolwire.wire.bodies import place_of, read_body
from toolwire.wire.names import escape, was_made

_SEPARATORS = (b",", b", ")
_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode
_LEAST = 2
# So much has to stand around the messages, that it is worth finding.
_FRAME = 1500
_MOST_TOOLS = 128
# What a tool takes that is kept as a value, about.
_TOOL = 8_000
# What a body says of its stream.
_OF_STREAMS = ("stream", "stream_options")
# How a request may be spelled that needs all of its messages to be read or written.
_ODD_FORMS = frozenset({"begun", "one", "no_contents", "no_messages", "no_input", "layout", "items"})


class Between:
    """What is done with messages between two wires; in a translation of a request alone, nothing."""

    quirks: Quirks = PLAIN

    def read(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Give messages as they are written."""
        return messages

    def keys(self, messages: Sequence[Message], place: int, before: bytes) -> tuple[str, ...]:  # noqa: ARG002
        """Give the keys of what would help of earlier turns."""
        return ()

    def gist(self, message: Message) -> bytes:  # noqa: ARG002
        """Give what the key of a turn after this message depends on."""
        return b""


class Answered(Struct, frozen=True):
    """What an answer to a request is read by, beside its messages: it is the same for all turns of a conversation."""

    quirks: Quirks
    tools: list[Any]
    settings: dict[str, Any]
    output: Output | None
    opaque: Opaque | None

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return _TOOL * len(self.tools)


class _Said(Struct, frozen=True):
    """Messages as they were read, and the state after them."""

    place: int
    made: int
    ids: frozenset[str]
    calls: frozenset[str]
    asks: tuple[str, ...]
    gist: bytes
    messages: Sequence[Message]


class Seam(Struct, frozen=True):
    """A conversation up to a seam: the source's bytes around what is new, and what they are at the target.

    What grows with every turn, `begins` and `written`, is in pieces, so that a turn copies little of it.
    """

    begins: tuple[bytes, ...]
    length: int
    ends: bytes
    written: tuple[bytes, ...]
    closing: bytes
    place: int
    made: int
    ids: frozenset[str]
    calls: frozenset[str]
    asks: tuple[str, ...]
    gist: bytes
    path: str
    model: str | None
    losses: tuple[Loss, ...]
    last: tuple[Loss, ...]
    opens: bool
    answered: Answered
    tail: "_Tail | None" = None

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        tail = 0 if self.tail is None else len(self.tail.listed) + len(self.tail.half.written)
        strings = 80 * (len(self.ids) + len(self.asks)) + 200 * (len(self.losses) + len(self.last)) + len(self.gist)
        sources = self.length + len(self.ends) + sum(map(len, self.written)) + len(self.closing)
        return sources + strings + self.answered.size + tail

    def fits(self, data: bytes) -> bool:
        """Whether a body is this conversation, with more messages."""
        if len(data) <= self.length + len(self.ends) or not data.endswith(self.ends):
            return False
        at = 0
        for piece in self.begins:
            if not data.startswith(piece, at):
                return False
            at += len(piece)
        return True


def _grown(pieces: tuple[bytes, ...], more: bytes) -> tuple[bytes, ...]:
    """Add a piece; small ones are joined, so that there are few."""
    *kept, last = *pieces, more
    while kept and len(kept[-1]) < 2 * len(last):
        last = kept.pop() + last
    return *kept, last


class _Half(Struct, frozen=True):
    """Some messages at the target, and the ids that are taken after them."""

    ids: frozenset[str]
    written: bytes
    losses: Sequence[Loss]


class _Tail(Struct, frozen=True):
    """What stood after a seam in the last turn: the next one says it again, if its client changes nothing of it."""

    listed: bytes
    said: _Said
    half: _Half


class Ahead(Struct, frozen=True):
    """What goes on from a seam: the bytes of messages, how many stand before the last answer, and what was read."""

    seam: Seam
    separator: bytes
    listed: bytes
    first: int
    said: list[_Said]


def read_on(seam: Seam, data: bytes, source: Any, target: Any, between: Between) -> Ahead | None:
    """Read what is new of a conversation; None where the whole has to be."""
    middle = data[seam.length : len(data) - len(seam.ends)]
    begins = (b"",) if seam.begins[-1].endswith(b"[") else _SEPARATORS
    before = next((one for one in begins if middle.startswith(one + b"{")), None)
    if before is None:
        return None
    listed, tail = middle[len(before) :], seam.tail
    if tail is not None and (rest := _after(tail.listed, listed)) is not None:
        bodies = read_body(b"[%b]" % rest)
        one = None if _last_answer(bodies, source.TRAITS) else _said(bodies, tail.said, source, target, between)
        if one is not None:
            return Ahead(seam, before, listed, len(tail.listed), [tail.said, one])
    bodies = read_body(b"[%b]" % listed)
    cut = _last_answer(bodies, source.TRAITS)
    said: list[_Said] = []
    for part in (bodies[:cut], bodies[cut:]) if cut else (bodies,):
        if said and not _asks(said[0].messages[-1]):
            return None
        opens = seam.opens and not said
        one = _said(part, said[-1] if said else seam, source, target, between, opens=opens)
        if one is None:
            return None
        said.append(one)
    parted = _cut_apart(b"[%b]" % listed) if cut else None
    return Ahead(seam, before, listed, len(parted[1].join(parted[0][:cut])) if parted else 0, said)


def _after(begins: bytes, listed: bytes) -> bytes | None:
    """Give the messages after those with which a list of some begins; None where it begins with others."""
    if not listed.startswith(begins):
        return None
    return next(
        (listed[len(begins) + len(one) :] for one in _SEPARATORS if listed.startswith(one + b"{", len(begins))), None
    )


def go_on(ahead: Ahead, data: bytes, target: Any) -> tuple[Encoded, Seam] | None:
    """Write what is new of a conversation; None where the whole has to be."""
    seam, said = ahead.seam, ahead.said
    halves: list[_Half] = []
    for one in said:
        known = seam.tail.half if seam.tail is not None and seam.tail.said is one else None
        half = known or _half(one, halves[-1] if halves else seam, target, seam.model, seam.answered.quirks)
        if half is None:
            return None
        halves.append(half)
    if seam.written[-1].endswith(b"["):
        halves[0] = replace(halves[0], written=halves[0].written[1:])
    written, losses = [*seam.written], [*seam.losses]
    for half in halves:
        written.append(half.written)
        losses += half.losses
    written.append(seam.closing)
    encoded = Written.of(seam.path, b"".join(written), (*losses, *seam.last))
    if ahead.first:
        first, half = said[0], halves[0]
        length = seam.length + len(ahead.separator) + ahead.first
        seam = replace(
            seam,
            begins=_grown(seam.begins, data[seam.length : length]),
            length=length,
            written=_grown(seam.written, half.written),
            place=first.place,
            made=first.made,
            ids=half.ids,
            calls=seam.calls | first.calls,
            asks=(*seam.asks, *first.asks),
            gist=first.gist,
            losses=(*seam.losses, *half.losses),
            opens=False,
            tail=_tail(_after(ahead.listed[: ahead.first], ahead.listed), said[1], halves[1]),
        )
    return encoded, seam


def _tail(listed: bytes | None, said: _Said, half: _Half) -> _Tail | None:
    """Keep what stands after a seam, if an answer may come next; of its messages, only what was seen of them."""
    return _Tail(listed, replace(said, messages=()), half) if listed and _asks(said.messages[-1]) else None


def _said(
    bodies: list[Any], start: Any, source: Any, target: Any, between: Between, *, opens: bool = False
) -> _Said | None:
    """Read messages that stand after a seam; None where they are not separable from what stands before."""
    messages = source.decode_later(bodies, start.place, start.made)
    if not messages:
        return None
    messages = between.read(messages)
    if not is_legal(messages) or not (_opens(messages[0]) if opens else _answers(messages[0])):
        return None
    seen = _seen(messages, start.made, source, target)
    if seen is None:
        return None
    ids, made = seen
    asks = between.keys(messages, start.place, start.gist)
    place, calls = start.place + len(messages), frozenset(filter(was_made, ids))
    return _Said(place, made, frozenset(ids), calls, asks, between.gist(messages[-1]), messages)


def _half(said: _Said, before: Any, target: Any, model: str | None, quirks: Quirks) -> _Half | None:
    """Write messages that stand after a seam; None where they are not separable from what stands before."""
    encoded, ledger = target.encode_later(said.messages, said.place - len(said.messages), model, quirks)
    ids = said.ids | ledger.ids.taken
    if not ids.isdisjoint(before.ids):
        return None
    written = b",%b" % _write(encoded)[1:-1] if encoded else b""
    return _Half(before.ids | ids, written, ledger.losses)


def _seen(messages: Sequence[Message], made: int, source: Any, target: Any) -> tuple[set[str], int] | None:
    """Give the ids of calls and how many were made so far; None where an id or a name is not what it seems."""
    held = [message.content for message in messages if type(message.content) is list]
    calls = [part for content in held for part in content if type(part) is ToolCall]
    if not calls:
        return set(), made
    ids = {call.id or "" for call in calls}
    grammar = target.WIRE.names
    if len(ids) < len(calls) or (grammar and any(escape(call.name, grammar) != call.name for call in calls)):
        return None
    if prefix := source.TRAITS.generated_id_prefix:
        numbered = {one for one in ids if one.startswith(prefix)}
        if numbered != {f"{prefix}{made + number + 1}" for number in range(len(numbered))}:
            return None
        made += len(numbered)
    return ids, made


def _parts(message: Message) -> Sequence[Any]:
    content = message.content
    return content if type(content) is list else ()


def _answers(message: Message) -> bool:
    """Whether a message is the model's, and says something on every wire."""
    content = message.content
    if message.role != "assistant":
        return False
    if type(content) is str:
        return bool(content) and not content.isspace()
    return any(_is_said(part) or (type(part) is ToolCall and part.runs) for part in _parts(message))


def _asks(message: Message) -> bool:
    """Whether a message is the user's or a tool's, and says something on every wire."""
    content = message.content
    if message.role == "tool":
        return any(type(part) is ToolResult for part in _parts(message))
    if message.role != "user":
        return False
    return (bool(content) and not content.isspace()) if type(content) is str else any(map(_is_said, _parts(message)))


def _opens(message: Message) -> bool:
    """Whether a message is the user's first, and no stand-in for one."""
    return message.role == "user" and message.content != BEGINNING and _asks(message)


def _is_said(part: Any) -> bool:
    return type(part) is Text and bool(part.text) and not part.text.isspace()


def _last_answer(bodies: list[Any], source: WireTraits) -> int:
    """Find the last of some bodies with which an answer begins; 0 where there is none but the first."""
    for place in range(len(bodies) - 1, 0, -1):
        if _is_answer(bodies[place], source) and not _is_answer(bodies[place - 1], source):
            return place
    return 0


def _is_answer(body: Any, source: WireTraits) -> bool:
    if type(body) is not dict:
        return False
    if source.model_items and body.get("type", "message") != "message":
        return body["type"] in source.model_items
    return bool(body.get("role") == source.model_role)


def _cut_apart(listed: bytes) -> tuple[list[Any], bytes] | None:
    """Cut a list into what it holds and what separates it, if that is the same throughout."""
    raws = _raws(listed)
    return next(((raws, one) for one in _SEPARATORS if b"[%b]" % one.join(raws) == listed), None)


class Whole(Struct, frozen=True):
    """A body that was translated whole, and what of."""

    data: bytes
    body: dict[str, Any]
    request: Request
    encoded: Encoded
    source: Any
    target: Any
    between: Between

    def is_plain(self) -> bool:
        """Whether nothing that a request says beside its messages depends on those that are to come."""
        request, opaque = self.request, self.request.opaque
        form = (opaque.form if opaque is not None else None) or {}
        if len(request.tools) > _MOST_TOOLS or request.provider_state or not _ODD_FORMS.isdisjoint(form):
            return False
        return all(getattr(request, field) is None for field in self.target.TRAITS.settings_by_history)

    def answered(self) -> Answered:
        """Give what an answer is read by."""
        settings = {name: self.body[name] for name in _OF_STREAMS if name in self.body}
        minded, output = [tool for tool in self.request.tools if is_minded(tool)], self.request.output
        opaque = Opaque(self.source.DIALECT, {}, {"word": True}) if asks_for_word(self.request) else None
        return Answered(self.between.quirks, minded, settings, output if asks_for_value(output) else None, opaque)

    def later(self, cut: int, start: "_Start") -> tuple[_Said, _Half] | None:
        """Translate what stands after a seam."""
        bodies = self.body[self.source.TRAITS.history_key][cut:]
        said = _said(bodies, start, self.source, self.target, self.between, opens=start.opens)
        half = said and _half(said, start, self.target, self.request.model, self.between.quirks)
        return (said, half) if said and half else None


class _Start(Struct, frozen=True):
    """Where the last seam of a conversation is, and what was seen before it."""

    place: int
    made: int = 0
    ids: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    asks: tuple[str, ...] = ()
    gist: bytes = b""
    opens: bool = False


def opening(whole: Whole) -> Seam | None:
    """Find where the user begins to speak; None where a body is odd in any way, or little stands before."""
    request = whole.request
    bodies, messages = whole.body.get(whole.source.TRAITS.history_key), request.messages
    first = next(
        (place for place, one in enumerate(messages) if one.role not in ("system", "developer")), len(messages)
    )
    little = len(whole.data) < _FRAME or first == len(messages)
    asks_json = request.output is not None and request.output.kind == "json"
    if type(bodies) is not list or little or asks_json or not whole.is_plain():
        return None
    gist = whole.between.gist(messages[first - 1]) if first else b""
    start = _Start(first, gist=gist, opens=True)
    later = whole.later(first, start)
    if later is None or later[0].place != len(messages):
        return None
    seam = _seam(whole, first, start, later[1])
    return seam if seam is not None and seam.length + len(seam.ends) >= _FRAME else None


def begin(whole: Whole) -> Seam | None:
    """Find the last seam of a conversation that was translated; None where it has none, or is odd in any way."""
    source, target, between = whole.source, whole.target, whole.between
    bodies, messages = whole.body.get(source.TRAITS.history_key), whole.request.messages
    if type(bodies) is not list or len(messages) <= _LEAST:
        return None
    cut = _last_answer(bodies, source.TRAITS) if whole.is_plain() else 0
    later = source.decode_later(bodies[cut:], 0, 0) if cut else None
    later = between.read(later) if later else None
    place = len(messages) - len(later or ())
    before = messages[:place]
    if not later or place < _LEAST or not _asks(before[-1]) or not is_legal(before):
        return None
    seen = _seen(before, 0, source, target)
    if seen is None:
        return None
    grammar = target.WIRE.ids
    written = frozenset(seen[0] | ({escape(one, grammar) for one in seen[0]} if grammar else set()))
    calls, asks = frozenset(filter(was_made, seen[0])), between.keys(before, 0, b"")
    start = _Start(place, seen[1], written, calls, asks, between.gist(before[-1]))
    parts = whole.later(cut, start)
    seam = parts and _seam(whole, cut, start, parts[1])
    if not seam or not parts:
        return None
    listed = _after(b"", whole.data[seam.length : len(whole.data) - len(seam.ends)])
    return replace(seam, tail=_tail(listed, *parts))


def _seam(whole: Whole, cut: int, start: _Start, half: _Half) -> Seam | None:
    """Cut what was translated at a seam, and prove that its halves make the whole."""
    data, encoded, request = whole.data, whole.encoded, whole.request
    key = whole.target.TRAITS.history_key
    first, last = place_of(data, whole.source.TRAITS.history_key)
    listed = data[first:last]
    cut_apart = _cut_apart(listed)
    if cut_apart is None or type(encoded.body.get(key)) is not list:
        return None
    raws, separator = cut_apart
    keys = list(encoded.body)
    after = {name: encoded.body[name] for name in keys[keys.index(key) + 1 :]}
    closing = b"]" + (b"," + _write(after)[1:] if after else b"}")
    out, ending = encoded.json, half.written + closing
    if start.opens and out.endswith(b"[" + ending[1:]):
        ending = ending[1:]
    parted = _part_losses(encoded.losses, half.losses, whole.target.TRAITS)
    if not half.written or not out.endswith(ending) or parted is None:
        return None
    begins = data[: first + 1 + len(separator.join(raws[:cut]))]
    around = (begins,), len(begins), data[last - 1 :], (out[: -len(ending)],), closing
    place, made, ids, calls, asks, gist, opens = astuple(start)
    ways = encoded.path, request.model
    return Seam(*around, place, made, ids, calls, asks, gist, *ways, *parted, opens, whole.answered())


def _part_losses(
    losses: tuple[Loss, ...], new: Sequence[Loss], target: WireTraits
) -> tuple[tuple[Loss, ...], tuple[Loss, ...]] | None:
    """Part what was lost around the losses of the new messages; None where these are not among them as they are."""
    end = len(losses)
    while end and losses[end - 1].concept in target.losses_after_history and "[" not in losses[end - 1].path:
        end -= 1
    start = end - len(new)
    return (losses[:start], losses[end:]) if start >= 0 and list(losses[start:end]) == list(new) else None
