"""The short way of a stream: frames that repeat each other are read by what differs in them.

This file is about speed alone. A decoder knows nothing of it: it offers what a plain reader has too, and without
this file every frame is read in full.

Rules of this file:
- A pattern is learned from a frame that told some words, and nothing else but where a part begins. Around the
  words, which are one JSON string that stands there once, all is fixed but for what the wire pads with, dates or
  numbers.
- A frame that fits is the JSON of the other with other words, so reading it in full would tell the same.
- What the decoder keeps of such a frame, it is given: the text of a call or of a part, and the step.
- A frame that came whole, and alone, needs no framing.
"""

import re
from typing import Any

import msgspec

from toolwire.streams.calls import CallSoFar
from toolwire.streams.items import NumberedSteps
from toolwire.streams.reading import UNREADABLE, WireDecoder
from toolwire.types import (
    CallDelta,
    CallStart,
    Event,
    MessageStart,
    PartEnd,
    PartStart,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
)
from toolwire.wire.framing import LIMIT, EventStream

_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_OF_WORDS = frozenset({TextDelta, ThinkingDelta, RefusalDelta, CallDelta})
_STARTS = frozenset({PartStart, CallStart})
_AROUND = frozenset({MessageStart, PartEnd})
_LEAST = 64
"""A frame of words has more bytes; several that are shorter are read at once."""
_whole_event = re.compile(rb"(?:event: (.+)\n)?data: (.*)\n\n").fullmatch
_whole_line = re.compile(rb"()(.+)\n").fullmatch

_CLOSING = b" }\n"
_WORDS, _NUMBER, _PADDING = "words", "number", "padding"


class QuickDecoder:
    """A decoder whose frames of words take the short way where they can; all else it reads in full.

    `volatile` are the keys under which frames differ and tell nothing: what a wire pads with, dates or numbers.
    `_pattern` is how the next frame will look if it only has more words; `_kind` and `_key` are those of the event
    that it will tell. `_text` is what its words are added to, and `_steps` counts it, if it is numbered. `_idle`
    says that a new frame may begin with the next byte.
    """

    def __init__(self, decoder: WireDecoder, volatile: tuple[bytes, ...] = ()) -> None:
        self._decoder = decoder
        self._volatile = volatile
        events = decoder.framing is EventStream
        self._end, self._whole = (b"\n\n", _whole_event) if events else (b"\n", _whole_line)
        self._pattern: _Pattern | None = None
        self._kind: Any = None
        self._key = 0
        self._text: Any = None
        self._pieces: list[str] = []
        self._step_kind = 0
        self._steps: NumberedSteps | None = None
        self._idle = True

    @property
    def done(self) -> bool:
        """Whether the wire has ended the answer."""
        return self._decoder.done

    @property
    def over(self) -> bool:
        """Whether nothing more is read."""
        return self._decoder.over

    @property
    def ignored(self) -> int:
        """How many bytes came after that."""
        return self._decoder.ignored

    def feed(self, data: bytes) -> list[Event]:
        """Give the events that these bytes tell."""
        pattern = self._pattern
        if pattern is not None and (words := pattern.words(data)) and (self._text is None or self._takes(words)):
            return [self._kind(self._key, words)]
        if self._decoder.over or data.find(self._end, _LEAST) in (-1, len(data) - len(self._end)):
            return self._read_in_full(data)
        events: list[Event] = []
        begin = 0
        while begin < len(data) and not self._decoder.over:
            end = data.find(self._end, begin + _LEAST)
            end = len(data) if end < 0 else end + len(self._end)
            events += self.feed(data[begin:end])
            begin = end
        return events

    def close(self) -> list[Event]:
        """Give the events that the end of the bytes tells."""
        self._pattern = None
        return self._decoder.close()

    def _takes(self, words: str) -> bool:
        """Give the decoder words that it did not read; whether they could only be new ones."""
        text, size = self._text, len(words)
        if text.size + size > LIMIT or (size == text.size and type(text) is CallSoFar):
            return False
        text.size += size
        self._pieces.append(words)
        if (steps := self._steps) is not None:
            steps.kinds.append(self._step_kind)  # type: ignore[union-attr]
            steps.next += 1
            steps.last["delta"] = words
        return True

    def _read_in_full(self, data: bytes) -> list[Event]:
        """Read bytes in full, and learn from them how the next frame will look if they are one frame of words."""
        decoder = self._decoder
        self._pattern = None
        steps = decoder.steps
        last_step = None if steps is None else steps.last
        whole = self._whole(data) if self._idle and b"\r" not in data and len(data) <= LIMIT else None
        events = None if whole is None else decoder.read_whole(whole[2], whole[1] or b"")
        if events is None:
            events = decoder.feed(data)
            self._idle = not decoder.over and decoder.is_idle()
            return events
        self._idle = not decoder.over
        if events and type(events[-1]) in _OF_WORDS and (len(events) == 1 or self._begins(events)):
            numbered = steps is not None and steps.last is not last_step
            self._learn_from(data, events[-1], steps if numbered else None)
        return events

    def _begins(self, events: list[Any]) -> bool:
        """Whether a frame tells words that begin their part, and beside them only what ended: the next begins none."""
        *before, start, words = events
        fits = type(start) in _STARTS and start.key == words.key and not self._decoder.announces
        return fits and all([type(event) in _AROUND for event in before])  # noqa: C419 - a list is faster

    def _learn_from(self, frame: bytes, event: Any, steps: NumberedSteps | None) -> None:
        """Learn how the next frame may look from one that told some words of a part."""
        kind, key, text = type(event), event.key, self._decoder.texts.get(event.key)
        words: str = event.fragment if kind is CallDelta else event.text
        if event.opaque is not None or (text is None and (kind is CallDelta or self._decoder.steps is not None)):
            return
        if kind is CallDelta and b'"name"' in frame:
            return  # A frame that names a call may begin another one.
        if type(text) is CallSoFar and (text.guessed or not text.indexed):
            return  # A frame that does not say whose its text is may be about another call than before.
        said = _encode(words)
        if self._decoder.steps is not None and b'"delta":' + said not in frame.replace(b'": "', b'":"'):
            return  # A step that repeats all words tells only those that are new.
        number = None if steps is None else steps.next - 1
        self._pattern = _learn(frame, said, self._volatile, number)
        self._kind, self._key, self._steps = kind, key, steps
        self._text, self._pieces = text, [] if text is None else text.pieces
        self._step_kind = 0 if steps is None else steps.kinds[-1]  # type: ignore[index]


class _Pattern:
    """How the next frame will look, if it only says more words.

    A hole is what differs: the words, or before and after them the number of the step, which goes up with each frame
    that fits, or plain text that tells nothing, up to a quote. It ends where its piece begins. Between the braces at
    the end of a frame, and after them, there may be spaces.
    """

    __slots__ = ("_after", "_before", "_begin", "_counts", "_last", "_number", "_odd", "_pads", "_piece", "_size")

    def __init__(self, begin: bytes, holes: list[tuple[Any, bytes]], place: int = 0, number: int = 0) -> None:
        self._begin = begin
        self._size = len(begin)
        self._before, self._after = holes[:place], holes[place + 1 :]
        self._pads = [piece for kind, piece in self._before if kind is _PADDING]
        self._piece = holes[place][1]
        self._last = holes[-1][1]
        self._number = number
        self._counts = len(self._after) == 1 and self._after[0][0] is _NUMBER
        self._odd = len(self._pads) < place or len(self._after) > self._counts

    def words(self, data: bytes) -> str | None:
        """Read one frame; None where it does not fit."""
        begin = self._size
        if not data.startswith(self._begin):
            return None
        ending = b"%b%d%b" % (self._piece, self._number, self._last) if self._counts else self._piece
        last = self._last if self._odd else ending
        if not data.endswith(last) and not (data := _bare(data)).endswith(last):
            return None
        if self._odd:
            begin, end = self._find(data, begin)
        else:
            end = len(data) - len(ending)
            for piece in self._pads:
                place = data.find(b'"', begin)
                if not data.startswith(piece, place) or data.find(b"\\", begin, place) >= 0:
                    return None
                begin = place + len(piece)
        if begin > end or len(data) > LIMIT:
            return None
        try:
            words = _decode_text(data[begin - 1 : end + 1])
        except UNREADABLE:
            return None
        self._number += 1
        return words

    def _find(self, data: bytes, begin: int) -> tuple[int, int]:
        """Say where the words begin and end among what differs; where it does not fit, they end before they begin."""
        begin = self._pass_by(data, begin, self._before)
        end = data.find(self._piece, begin) if begin >= 0 else -1
        fits = end >= 0 and self._pass_by(data, end + len(self._piece), self._after) == len(data)
        return (begin, end) if fits else (0, -1)

    def _pass_by(self, data: bytes, begin: int, holes: list[tuple[Any, bytes]]) -> int:
        """Pass by what tells nothing; say where that ends, or -1 where it does not fit."""
        for kind, piece in holes:
            if kind is _NUMBER:
                counted = b"%d%b" % (self._number, piece)
                if not data.startswith(counted, begin):
                    return -1
                begin += len(counted)
            else:
                end = data.find(b'"', begin)
                if not data.startswith(piece, end) or data.find(b"\\", begin, end) >= 0:
                    return -1
                begin = end + len(piece)
        return begin


def _bare(frame: bytes) -> bytes:
    """Give a frame without the spaces between its last braces and after them."""
    bare = frame.rstrip(_CLOSING)
    return bare + frame[len(bare) :].replace(b" ", b"")


def _learn(frame: bytes, text: bytes, marks: tuple[bytes, ...], number: int | None) -> _Pattern | None:
    """Learn from a frame, and the words in it as JSON, how the next one may look.

    The words stand at one place of it, so that it is there that they come from; nothing beside them is spelled with
    a backslash, as it could be the same words. What differs and tells nothing is a text after one of the marks, or the
    number.
    """
    if frame.count(text) != 1 or frame.count(b"\\") != text.count(b"\\"):
        return None
    frame = _bare(frame)
    begin = frame.index(text) + 1
    end = begin + len(text) - 2
    holes: list[tuple[int, int, Any]] = []
    for mark in marks:
        if frame.count(mark) == 1:
            place = frame.index(mark) + len(mark)
            place += frame.startswith(b" ", place)
            if frame.startswith(b'"', place):
                holes.append((place + 1, frame.find(b'"', place + 1), _PADDING))
            elif number is not None and frame.startswith(b"%d" % number, place):
                holes.append((place, place + len(b"%d" % number), _NUMBER))
    if number is None and not holes:
        return _Pattern(frame[:begin], [(_WORDS, frame[end:])])
    return _with_holes(frame, [*holes, (begin, end, _WORDS)], number)


def _with_holes(frame: bytes, holes: list[tuple[int, int, Any]], number: int | None) -> _Pattern | None:
    """Give the pattern of a frame; none where its holes are one in another, or the number is not among them."""
    holes.sort()
    pieces: list[tuple[Any, bytes]] = []
    after = len(frame)
    for begin, end, kind in reversed(holes):
        if end > after:
            return None
        pieces.insert(0, (kind, frame[end:after]))
        after = begin
    kinds = [kind for kind, _ in pieces]
    if number is not None and _NUMBER not in kinds:
        return None
    return _Pattern(frame[:after], pieces, kinds.index(_WORDS), (number or 0) + 1)
