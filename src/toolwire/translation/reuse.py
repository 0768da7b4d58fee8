"""A turn costs what is new in it: what was translated before is found again by the bytes that it was made from.

Rules of this file:
- It is a short cut and nothing else: without it, `translate` gives the same bytes and losses, only later.
- A conversation that goes on is gone on with from its last seam (`seams`).
- Bytes are kept, and what an answer is read by, which nobody is given: so nobody who changes a body that was given
  changes what is given next.
- What one owner has sent, no other finds: each has a `Reuse` of its own.
- A conversation is kept when its beginning is seen again, and less and less often for as long as nothing of such
  bodies is found.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from msgspec import Struct

from toolwire.errors import ToolwireError
from toolwire.schema.fitting import KNOWN
from toolwire.translation.seams import Ahead, Answered, Between, Seam, Whole, begin, go_on, opening, read_on
from toolwire.types import Context, Encoded, Message, Request, ToolCall
from toolwire.work.keeping import Holding, Share

_USUAL = 1 << 25
_HEAD = 256
_WINDOW = 64
_MOST_WINDOWS = 8
_SHORT = 32
# What is smaller costs less than it takes to find it again.
_SMALL = 800
_MARKS = 1021
_MOST_OPENINGS = 8
_NO_OPENINGS: tuple[tuple[bytes, ...], tuple[Seam, ...]] = (), ()
_NOTHING_BETWEEN = Between()


class Reuse:
    """What one owner has had translated, within a number of bytes.

    That is `limit`, else what TOOLWIRE_REUSE says, else 32 MiB; 0 holds nothing.
    """

    def __init__(self, limit: int | None = None) -> None:
        limit = int(os.environ.get("TOOLWIRE_REUSE") or _USUAL) if limit is None else limit
        self._all = Holding(limit)
        self._seen: tuple[list[tuple[int, int]], ...] = tuple([(0, 0)] * _MARKS for _ in range(2))
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

    def find(self, how: tuple[Any, ...], data: bytes) -> tuple[bool, Seam | None]:
        """Say whether to keep a conversation, and give the one that a body goes on with, if its beginning was seen."""
        head = how, data[:_HEAD]
        seen = self._count(0, head)
        if not seen:
            return False, None
        offsets = self.kept.get(head)
        seam = self.kept.get((head, _windows(data, offsets) if offsets else ()))
        return _is_due(seen), seam if seam is not None and seam.fits(data) else None

    def opening(self, how: tuple[Any, ...], data: bytes) -> tuple[bool, Seam | None]:
        """Say whether to keep how a body opens, and give what opens alike."""
        key = how, data[:_SHORT], data[-_SHORT:]
        seen = self._count(1, key)
        if not seen:
            return False, None
        begins, seams = (self.kept.get(key) if seen > 1 else None) or _NO_OPENINGS
        if data.startswith(begins):
            for seam in seams:
                if seam.fits(data):
                    return False, seam
        return _is_due(seen), None

    def _count(self, which: int, key: Any) -> int:
        """Say how often a beginning (0) or opening (1) was seen, as far as is remembered, and count it."""
        seen, mark = self._seen[which], hash((self._owner, key))
        place, times = mark % _MARKS, 0
        known, before = seen[place]
        if known == mark:
            times = before + 1
        seen[place] = mark, times
        return times

    def found(self, how: tuple[Any, ...], data: bytes) -> None:
        """Note that what is kept of such bodies serves: the next one of which nothing is found is kept."""
        for seen, key in zip(self._seen, ((how, data[:_HEAD]), (how, data[:_SHORT], data[-_SHORT:])), strict=True):
            mark = hash((self._owner, key))
            if seen[mark % _MARKS][0] == mark:
                seen[mark % _MARKS] = mark, 0

    def open(self, how: tuple[Any, ...], data: bytes, seam: Seam) -> None:
        """Keep how a conversation opens."""
        key = how, data[:_SHORT], data[-_SHORT:]
        seams = (seam, *(self.kept.get(key) or _NO_OPENINGS)[1][: _MOST_OPENINGS - 1])
        begins = tuple([seam.begins[0] for seam in seams])
        self.kept.put(key, (begins, seams), 2 * _SHORT + sum(seam.size for seam in seams))

    def keep(self, how: tuple[Any, ...], data: bytes, seam: Seam, before: Seam | None = None) -> None:
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


class Again(Struct):
    """One translation of a body's bytes, which may go on with what is held."""

    _reuse: Reuse
    _data: bytes
    _how: tuple[Any, ...]
    _source: Any
    _target: Any
    _between: Between
    _begun: bool = False
    _opens: bool = False
    _ahead: Ahead | None = None
    _answered: Answered | None = None

    def find(self) -> bool:
        """Read what is new, if the conversation is known and only goes on."""
        self._begun, seam = self._reuse.find(self._how, self._data)
        if seam is None:
            self._opens, seam = self._reuse.opening(self._how, self._data)
        if seam is None:
            return False
        with suppress(ToolwireError):  # what is wrong is said of the whole
            self._ahead = read_on(seam, self._data, self._source, self._target, self._between)
            self._answered = seam.answered
        return self._ahead is not None

    def go_on(self) -> Encoded | None:
        """Write what was found; None where the whole has to be."""
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
        context = Context(messages=messages, tools=answered.tools)
        return Request(context=context, output=answered.output, opaque=answered.opaque)

    def encode(self, request: Request, target: Any, quirks: dict[str, Any]) -> Encoded:
        """Write a request whole, but for the schemas that were fitted before."""
        if not request.context.tools and request.output is None:
            return target.encode_request(request, **quirks)  # type: ignore[no-any-return]
        token = KNOWN.set(self._reuse.kept)
        try:
            return target.encode_request(request, **quirks)  # type: ignore[no-any-return]
        finally:
            KNOWN.reset(token)

    def keep(self, body: dict[str, Any], request: Request, encoded: Encoded) -> None:
        """Keep what was translated, for turns that go on from it."""
        if not self._begun and not self._opens:
            return
        whole = Whole(self._data, body, request, encoded, self._source, self._target, self._between)
        if self._begun and (seam := _found_in(whole, begin)) is not None:
            self._reuse.keep(self._how, self._data, seam)
        if self._opens and (seam := _found_in(whole, opening)) is not None:
            self._reuse.open(self._how, self._data, seam)


def _found_in(whole: "Whole", find: Callable[["Whole"], Seam | None]) -> Seam | None:
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
    if len(body) < _SMALL or source is target:
        return None
    named = source.DIALECT, target.DIALECT, how
    return Again(reuse, body, named, source, target, between or _NOTHING_BETWEEN)


def _windows(data: bytes, offsets: tuple[int, ...]) -> tuple[bytes, ...]:
    return tuple([data[place : place + _WINDOW] for place in offsets])


def _alike(one: bytes, other: bytes) -> int:
    """Say how many bytes two texts have in common at their beginning."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
    return least
