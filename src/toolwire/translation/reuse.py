"""A turn costs what is new in it: what was translated before is found again by the bytes that it was made from.

Rules of this file:
- It is a short cut and nothing else: without it, `translate` gives the same bytes and losses, only later.
- A conversation is kept up to a seam: an answer of the model stands after it, all calls before it have their results,
  and no name had to be respelled. No later message changes anything of what stands before a seam. The first seam is
  where the user begins to speak: what is said before him, with the tools and settings, opens other conversations too.
- The bytes before the seam and after the messages are compared as they are. What stands between them is translated
  as always; where it is odd in any way, the whole body is.
- What the last turn said after its seam is kept apart, and found by its bytes. Clients that mark the last message for a
  cache say it otherwise in the next turn: then it is translated again.
- Bytes are kept, and what an answer is read by, which nobody is given: so nobody who changes a body that was given
  changes what is given next.
- A body that differs from others in its words alone is filled in (`outlines`); one that goes on is gone on with first.
- What one owner has sent, no other finds: each has a `Reuse` of its own.
- A conversation is kept when its beginning is seen again, and less and less often for as long as nothing of such
  bodies is found.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from toolwire.encoding.ledger import PLAIN, Quirks
from toolwire.encoding.repair import BEGINNING, is_legal
from toolwire.errors import ToolwireError
from toolwire.schema.fitting import KNOWN
from toolwire.translation.declared import is_minded
from toolwire.translation.formed import asks_for_value
from toolwire.translation.outlines import Outline, Parted, outline, take_apart
from toolwire.types import Context, Encoded, Loss, Message, Output, Request, Text, ToolCall, ToolResult
from toolwire.types.encoded import Written
from toolwire.wire.bodies import place_of, read_body
from toolwire.wire.names import escape, was_made
from toolwire.work.keeping import Holding, Share

_USUAL = 1 << 25
_HEAD = 256
_WINDOW = 64
_MOST_WINDOWS = 8
_SEPARATORS = (b",", b", ")
_GEMINI_ID = "gemini_"
_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode
_LEAST = 2
_SHORT = 32
# So much has to stand around the messages, that it is worth finding.
_FRAME = 1500
# What is smaller costs less than it takes to find it again.
_SMALL = 800
_MARKS = 1021
_MOST_OPENINGS = 8
_MOST_TOOLS = 128
# So often is an outline seen before it is tried.
_OFTEN = 2
# What a tool takes that is kept as a value, about.
_TOOL = 8_000
# What a body says of its stream.
_OF_STREAMS = ("stream", "stream_options")
# Where a wire keeps its messages.
_HISTORIES = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
    "ollama": "messages",
}
_ANSWERING = ("reasoning", "function_call", "custom_tool_call")
# How a request may be spelled that needs all of its messages to be read or written.
_ODD_FORMS = frozenset({"begun", "one", "no_contents", "no_messages", "no_input", "layout", "items"})
# What is lost after the messages, at the end of an encode.
_LAST = {
    "openai-chat": frozenset({"opaque", "output_json"}),
    "openai-responses": frozenset({"opaque", "output_json"}),
    "anthropic": frozenset({"opaque", "first_turn"}),
    "gemini": frozenset({"opaque", "first_turn"}),
    "ollama": frozenset({"opaque", "output_with_tools"}),
}


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


_NOTHING_BETWEEN = Between()


class _Answered(Struct, frozen=True):
    """What an answer to a request is read by, beside its messages: it is the same for all turns of a conversation."""

    quirks: Quirks
    tools: list[Any]
    settings: dict[str, Any]
    output: Output | None

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


class _Seam(Struct, frozen=True):
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
    answered: _Answered
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


class Reuse:
    """What one owner has had translated, within a number of bytes.

    That is `limit`, else what TOOLWIRE_REUSE says, else 32 MiB; 0 holds nothing.
    """

    def __init__(self, limit: int | None = None) -> None:
        limit = int(os.environ.get("TOOLWIRE_REUSE") or _USUAL) if limit is None else limit
        self._all = Holding(limit)
        self._seen: tuple[list[tuple[int, int]], ...] = tuple([(0, 0)] * _MARKS for _ in range(3))
        self._owner = ""
        self.kept: Share = self._all.of("")
        self.is_on: bool = limit > 0

    def of(self, owner: str) -> Self:
        """Give what one owner has had translated; together the owners keep within the number of bytes."""
        one = self.__class__.__new__(self.__class__)
        one.__dict__ |= self.__dict__ | {"_owner": owner, "kept": self._all.of(owner)}
        return one

    @property
    def size(self) -> int:
        """About how many bytes are held."""
        return self.kept.size

    def find(self, how: tuple[Any, ...], data: bytes) -> tuple[bool, _Seam | None]:
        """Say whether to keep a conversation, and give the one that a body goes on with, if its beginning was seen."""
        head = how, data[:_HEAD]
        seen = self._count(0, head)
        if not seen:
            return False, None
        offsets = self.kept.get(head)
        seam = self.kept.get((head, _windows(data, offsets) if offsets else ()))
        return _is_due(seen), seam if seam is not None and seam.fits(data) else None

    def opening(self, how: tuple[Any, ...], data: bytes) -> tuple[bool, _Seam | None]:
        """Say whether to keep how a body opens, and give what opens alike."""
        key = how, data[:_SHORT], data[-_SHORT:]
        seen = self._count(1, key)
        if not seen:
            return False, None
        for seam in (self.kept.get(key) or ()) if seen > 1 else ():
            if seam.fits(data):
                return False, seam
        return _is_due(seen), None

    def outline(self, key: tuple[Any, ...]) -> tuple[bool, "_Outlined | None"]:
        """Say whether to try an outline, and give what is known of one that was tried."""
        known = self.kept.get(key)
        return known is None and self._count(2, key) >= _OFTEN, known

    def _count(self, which: int, key: Any) -> int:
        """Say how often a beginning (0), opening (1) or outline (2) was seen, as far as is remembered, and count it."""
        seen, mark = self._seen[which], hash((self._owner, key))
        place, times = mark % _MARKS, 0
        known, before = seen[place]
        if known == mark:
            times = before + 1
        seen[place] = mark, times
        return times

    def found(self, how: tuple[Any, ...], data: bytes) -> None:
        """Note that what is kept of such bodies serves: the next one of which nothing is found is kept."""
        for seen, key in zip(self._seen, ((how, data[:_HEAD]), (how, data[:_SHORT], data[-_SHORT:])), strict=False):
            mark = hash((self._owner, key))
            if seen[mark % _MARKS][0] == mark:
                seen[mark % _MARKS] = mark, 0

    def open(self, how: tuple[Any, ...], data: bytes, seam: _Seam) -> None:
        """Keep how a conversation opens."""
        key = how, data[:_SHORT], data[-_SHORT:]
        seams = (seam, *(self.kept.get(key) or ())[: _MOST_OPENINGS - 1])
        self.kept.put(key, seams, 2 * _SHORT + sum(seam.size for seam in seams))

    def keep(self, how: tuple[Any, ...], data: bytes, seam: _Seam, before: _Seam | None = None) -> None:
        """Keep a conversation, beside others that begin alike; `before` is what it has gone on from."""
        head = how, data[:_HEAD]
        offsets = self.kept.get(head) or ()
        other = self.kept.get((head, _windows(data, offsets) if offsets else ()))
        elsewhere = other is not None and other is not before and not data.startswith(other.begins[0])
        if elsewhere and len(offsets) < _MOST_WINDOWS:
            begins = b"".join(other.begins)
            apart = _alike(data, begins)
            if apart + _WINDOW <= min(other.length, seam.length) and apart not in offsets:
                offsets = (*offsets, apart)
                self.kept.put(head, offsets, _HEAD)
                self.kept.put((head, _windows(begins, offsets)), other, other.size)
        self.kept.put((head, _windows(data, offsets)), seam, seam.size)


def _is_due(seen: int) -> bool:
    """Whether to keep what was seen so often: the second time, then less and less often where that finds nothing."""
    return seen > 0 and seen & (seen + 1) == 0


HERE = Reuse()
"""What a process holds for callers that name no other."""
NOTHING = Reuse(0)
"""What holds nothing."""


class _Outlined(Struct, frozen=True):
    """An outline that was tried, none where more than words hangs on them, and what an answer is read by."""

    outline: Outline | None
    answered: _Answered


class Again(Struct):
    """One translation of a body's bytes, which may go on with what is held."""

    _reuse: Reuse
    _data: bytes
    _how: tuple[Any, ...]
    _source: Any
    _target: Any
    _between: Between
    _goes_on: bool
    _begun: bool = False
    _opens: bool = False
    _ahead: "_Ahead | None" = None
    _parted: Parted | None = None
    _tries: bool = False
    _filled: Encoded | None = None
    _answered: _Answered | None = None

    def find(self) -> bool:
        """Read what is new, if the conversation is known and only goes on, or the body differs in its words alone."""
        seam = None
        if self._goes_on:
            self._begun, seam = self._reuse.find(self._how, self._data)
        if seam is None and self._fill():
            return True
        if seam is None and self._goes_on:
            self._opens, seam = self._reuse.opening(self._how, self._data)
        if seam is None:
            return False
        with suppress(ToolwireError):  # what is wrong is said of the whole
            self._ahead = _read_on(seam, self._data, self._source, self._target, self._between)
            self._answered = seam.answered
        return self._ahead is not None

    def _fill(self) -> bool:
        """Fill in the words, if the outline is known."""
        one = self._parted = take_apart(self._data)
        if one is None:
            return False
        self._tries, known = self._reuse.outline((self._how, one.pieces))
        if known is None or known.outline is None:
            return False
        self._filled, self._answered = known.outline.filled(one.words), known.answered
        return self._filled is not None

    def go_on(self) -> Encoded | None:
        """Write what was found; None where the whole has to be."""
        if self._filled is not None:
            return self._filled
        found = None
        if self._ahead is not None:
            with suppress(ToolwireError):
                found = go_on(self._ahead, self._data, self._target)
        if found is None or self._ahead is None:
            return None
        self._reuse.found(self._how, self._data)
        if found[1] is not self._ahead.seam:
            self._reuse.keep(self._how, self._data, found[1], self._ahead.seam)
        return found[0]

    @property
    def settings(self) -> dict[str, Any]:
        """What the body that was found says of streams."""
        return {} if self._answered is None else self._answered.settings

    @property
    def asks(self) -> list[str]:
        """The keys of what would help of the earlier turns that were found."""
        ahead = self._ahead
        return [] if ahead is None else [*ahead.seam.asks, *(key for said in ahead.said for key in said.asks)]

    @property
    def last(self) -> tuple[int, bytes] | None:
        """How many messages were found, and the gist of the last one; None where they were not read."""
        return None if self._ahead is None else (self._ahead.said[-1].place, self._ahead.said[-1].gist)

    @property
    def brief(self) -> Request:
        """Of the request that was found, what its answer is read by: declarations, and ids that were made."""
        ahead, answered = self._ahead, self._answered
        if answered is None:
            return Request(context=Context())
        made = () if ahead is None else ahead.seam.calls.union(*(said.calls for said in ahead.said))
        messages = [Message("assistant", [ToolCall(one, "made") for one in made])] if made else []
        return Request(context=Context(messages=messages, tools=answered.tools), output=answered.output)

    def encode(self, request: Request, target: Any, quirks: dict[str, Any]) -> Encoded:
        """Write a request whole, but for the schemas that were fitted before."""
        if not request.context.tools and request.output is None:
            return target.encode_request(request, **quirks)  # type: ignore[no-any-return]
        token = KNOWN.set(self._reuse.kept)
        try:
            return target.encode_request(request, **quirks)  # type: ignore[no-any-return]
        finally:
            KNOWN.reset(token)

    def keep(
        self, body: dict[str, Any], request: Request, encoded: Encoded, translate: Callable[[bytes], Encoded]
    ) -> None:
        """Keep what was translated, for turns that go on from it and for bodies that differ from it in words."""
        if not self._begun and not self._opens and not self._tries:
            return
        whole = _Whole(self._data, body, request, encoded, self._source, self._target, self._between)
        if self._tries and self._parted is not None:
            self._try(whole, self._parted, translate)
        if self._begun and (seam := _found_in(whole, begin)) is not None:
            self._reuse.keep(self._how, self._data, seam)
        if self._opens and (seam := _found_in(whole, opening)) is not None:
            self._reuse.open(self._how, self._data, seam)

    def _try(self, whole: "_Whole", one: Parted, translate: Callable[[bytes], Encoded]) -> None:
        """Try whether other words change nothing but themselves, and keep what came of it."""
        asks = self._between.keys(whole.request.messages, 0, b"")
        made = None if asks else outline(one, whole.encoded, self._read, translate)
        answered = whole.answered()
        known = _Outlined(made, answered)
        size = sum(map(len, one.pieces)) + (0 if made is None else made.size + answered.size)
        self._reuse.kept.put((self._how, one.pieces), known, size)

    def _read(self, data: bytes) -> Request:
        return self._source.decode_request(read_body(data))  # type: ignore[no-any-return]


def _found_in(whole: "_Whole", find: Callable[["_Whole"], _Seam | None]) -> _Seam | None:
    try:
        return find(whole)
    except ToolwireError:
        return None


def again(
    reuse: Reuse | None, body: Any, source: Any, target: Any, *how: Any, between: Between | None = None
) -> Again | None:
    """Say how a body may be reused: its bytes, between two wires that can be gone on with; None where it may not."""
    if type(body) is not bytes:
        return None
    reuse = HERE if reuse is None else reuse
    if not reuse.is_on:
        return None
    if not hasattr(source, "decode_later") or not hasattr(target, "encode_later"):
        return None
    goes_on, named = len(body) >= _SMALL and source is not target, (source.DIALECT, target.DIALECT, how)
    return Again(reuse, body, named, source, target, between or _NOTHING_BETWEEN, goes_on)


def _windows(data: bytes, offsets: tuple[int, ...]) -> tuple[bytes, ...]:
    return tuple([data[place : place + _WINDOW] for place in offsets])


def _alike(one: bytes, other: bytes) -> int:
    """Say how many bytes two texts have in common at their beginning."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
    return least


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


class _Ahead(Struct, frozen=True):
    """What goes on from a seam: the bytes of messages, how many stand before the last answer, and what was read."""

    seam: _Seam
    separator: bytes
    listed: bytes
    first: int
    said: list[_Said]


def _read_on(seam: _Seam, data: bytes, source: Any, target: Any, between: Between) -> _Ahead | None:
    """Read what is new of a conversation; None where the whole has to be."""
    middle = data[seam.length : len(data) - len(seam.ends)]
    begins = (b"",) if seam.begins[-1].endswith(b"[") else _SEPARATORS
    before = next((one for one in begins if middle.startswith(one + b"{")), None)
    if before is None:
        return None
    listed, tail = middle[len(before) :], seam.tail
    if tail is not None and (rest := _after(tail.listed, listed)) is not None:
        bodies = read_body(b"[%b]" % rest)
        one = None if _last_answer(bodies, source.DIALECT) else _said(bodies, tail.said, source, target, between)
        if one is not None:
            return _Ahead(seam, before, listed, len(tail.listed), [tail.said, one])
    bodies = read_body(b"[%b]" % listed)
    cut = _last_answer(bodies, source.DIALECT)
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
    return _Ahead(seam, before, listed, len(parted[1].join(parted[0][:cut])) if parted else 0, said)


def _after(begins: bytes, listed: bytes) -> bytes | None:
    """Give the messages after those with which a list of some begins; None where it begins with others."""
    if not listed.startswith(begins):
        return None
    return next(
        (listed[len(begins) + len(one) :] for one in _SEPARATORS if listed.startswith(one + b"{", len(begins))), None
    )


def go_on(ahead: _Ahead, data: bytes, target: Any) -> tuple[Encoded, _Seam] | None:
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
    if source.DIALECT == "gemini":
        numbered = {one for one in ids if one.startswith(_GEMINI_ID)}
        if numbered != {f"{_GEMINI_ID}{made + number + 1}" for number in range(len(numbered))}:
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


def _last_answer(bodies: list[Any], source: str) -> int:
    """Find the last of some bodies with which an answer begins; 0 where there is none but the first."""
    for place in range(len(bodies) - 1, 0, -1):
        if _is_answer(bodies[place], source) and not _is_answer(bodies[place - 1], source):
            return place
    return 0


def _is_answer(body: Any, source: str) -> bool:
    if type(body) is not dict:
        return False
    role = body.get("role")
    if source == "openai-responses" and body.get("type", "message") != "message":
        return body["type"] in _ANSWERING
    return role == ("model" if source == "gemini" else "assistant")


def _cut_apart(listed: bytes) -> tuple[list[Any], bytes] | None:
    """Cut a list into what it holds and what separates it, if that is the same throughout."""
    raws = _raws(listed)
    return next(((raws, one) for one in _SEPARATORS if b"[%b]" % one.join(raws) == listed), None)


class _Whole(Struct, frozen=True):
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
        request, target = self.request, self.target.DIALECT
        opaque, turned = request.opaque, request.thinking is not None or request.thinking_budget is not None
        form = (opaque.form if opaque is not None else None) or {}
        if len(request.tools) > _MOST_TOOLS or request.provider_state or not _ODD_FORMS.isdisjoint(form):
            return False
        return not (turned if target == "anthropic" else request.tool_choice is not None and target == "ollama")

    def answered(self) -> _Answered:
        """Give what an answer is read by."""
        settings = {name: self.body[name] for name in _OF_STREAMS if name in self.body}
        minded, output = [tool for tool in self.request.tools if is_minded(tool)], self.request.output
        return _Answered(self.between.quirks, minded, settings, output if asks_for_value(output) else None)

    def later(self, cut: int, start: "_Start") -> tuple[_Said, _Half] | None:
        """Translate what stands after a seam."""
        bodies = self.body[_HISTORIES[self.source.DIALECT]][cut:]
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


def opening(whole: _Whole) -> _Seam | None:
    """Find where the user begins to speak; None where a body is odd in any way, or little stands before."""
    request = whole.request
    bodies, messages = whole.body.get(_HISTORIES[whole.source.DIALECT]), request.messages
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


def begin(whole: _Whole) -> _Seam | None:
    """Find the last seam of a conversation that was translated; None where it has none, or is odd in any way."""
    source, target, between = whole.source, whole.target, whole.between
    bodies, messages = whole.body.get(_HISTORIES[source.DIALECT]), whole.request.messages
    if type(bodies) is not list or len(messages) <= _LEAST:
        return None
    cut = _last_answer(bodies, source.DIALECT) if whole.is_plain() else 0
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


def _seam(whole: _Whole, cut: int, start: _Start, half: _Half) -> _Seam | None:
    """Cut what was translated at a seam, and prove that its halves make the whole."""
    data, encoded, request = whole.data, whole.encoded, whole.request
    key = _HISTORIES[whole.target.DIALECT]
    first, last = place_of(data, _HISTORIES[whole.source.DIALECT])
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
    parted = _part_losses(encoded.losses, half.losses, whole.target.DIALECT)
    if not half.written or not out.endswith(ending) or parted is None:
        return None
    begins = data[: first + 1 + len(separator.join(raws[:cut]))]
    around = (begins,), len(begins), data[last - 1 :], (out[: -len(ending)],), closing
    place, made, ids, calls, asks, gist, opens = astuple(start)
    ways = encoded.path, request.model
    return _Seam(*around, place, made, ids, calls, asks, gist, *ways, *parted, opens, whole.answered())


def _part_losses(
    losses: tuple[Loss, ...], new: Sequence[Loss], target: str
) -> tuple[tuple[Loss, ...], tuple[Loss, ...]] | None:
    """Part what was lost around the losses of the new messages; None where these are not among them as they are."""
    end = len(losses)
    while end and losses[end - 1].concept in _LAST[target] and "[" not in losses[end - 1].path:
        end -= 1
    start = end - len(new)
    return (losses[:start], losses[end:]) if start >= 0 and list(losses[start:end]) == list(new) else None
