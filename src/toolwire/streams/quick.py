"""The short way of a stream: frames that repeat each other are read by what differs in them.

This file is about speed alone. A decoder knows nothing of it: it offers what a plain reader has too, and without
this file every frame is read in full.

Rules of this file:
- A pattern is learned from two frames in a row that each told some words. What they share is fixed; between
  it stand the words, as one JSON string, and what the wire pads with, dates or numbers.
- A frame that fits is the JSON of the others with other words, so reading it in full would tell the same.
- What the decoder keeps of such a frame, it is given: the text of a call or of a part, and the step.
"""

from typing import Any

import msgspec

from toolwire.streams.calls import CallSoFar
from toolwire.streams.items import NumberedSteps
from toolwire.streams.reading import UNREADABLE, WireDecoder
from toolwire.types import CallDelta, Event, RefusalDelta, TextDelta, ThinkingDelta
from toolwire.wire.framing import LIMIT, EventStream

_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_OF_WORDS = frozenset({TextDelta, ThinkingDelta, RefusalDelta, CallDelta})
_LEAST = 64
"""A frame of words has more bytes; several that are shorter are read at once."""

_WORDS, _NUMBER, _PADDING = "words", "number", "padding"


class QuickDecoder:
    """A decoder whose frames of words take the short way where they can; all else it reads in full.

    `volatile` are the marks after which frames differ and tell nothing: what a wire pads with, dates or numbers.
    `_pattern` is how the next frame will look if it only has more words; `_kind` and `_key` are those of the event
    that it will tell. `_text` is what its words are added to, and `_steps` counts it, if it is numbered.
    """

    def __init__(self, decoder: WireDecoder, volatile: tuple[bytes, ...] = ()) -> None:
        self._decoder = decoder
        self._volatile = volatile
        self._end = b"\n\n" if decoder.framing is EventStream else b"\n"
        self._pattern: _Pattern | None = None
        self._kind: Any = None
        self._key: int | None = None
        self._text: Any = None
        self._pieces: list[str] = []
        self._step_kind = 0
        self._steps: NumberedSteps | None = None
        self._before = (b"", "")
        self._idle = False
        self._step: Any = None

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
        decoder = self._decoder
        if decoder.over or data.find(self._end, _LEAST) in (-1, len(data) - len(self._end)):
            return self._read_in_full(data)
        events: list[Event] = []
        begin = 0
        while begin < len(data) and not decoder.over:
            begin = self._read_quickly(data, begin, events)
            end = data.find(self._end, begin + _LEAST)
            end = len(data) if end < 0 else end + len(self._end)
            if begin < end:
                events += self._read_in_full(data[begin:end])
            begin = end
        return events

    def close(self) -> list[Event]:
        """Give the events that the end of the bytes tells."""
        self._pattern = None
        return self._decoder.close()

    def _read_quickly(self, data: bytes, begin: int, events: list[Event]) -> int:
        """Read the frames that look like the one before them; say where that ends."""
        while self._pattern is not None and (read := self._pattern.read(data, begin)) is not None:
            words, end = read
            if not words or not (self._text is None or self._takes(words)):
                break
            events.append(self._kind(self._key, words))
            begin = end
        return begin

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

    def _read_in_full(self, frame: bytes) -> list[Event]:
        """Read bytes in full, and learn from them how the next frame will look if they are one frame of words."""
        decoder, was_idle, last_step = self._decoder, self._idle, self._step
        self._pattern = None
        events = decoder.feed(frame)
        self._idle, self._step = decoder.is_idle(), None if decoder.steps is None else decoder.steps.last
        if was_idle and self._idle and len(events) == 1 and self._is_one_frame(frame):
            self._learn_from(frame, events[0], numbered=self._step is not last_step)
        else:
            self._key = None
        return events

    def _is_one_frame(self, data: bytes) -> bool:
        """Whether bytes are one frame, and nothing beside it."""
        lines = data.count(b"\n") - len(self._end)
        return data.endswith(self._end) and lines <= data.startswith(b"event:") and data.find(b"\r") < 0

    def _learn_from(self, frame: bytes, event: Any, *, numbered: bool) -> None:
        """Learn how the next frame may look from one that told some words of a part and nothing else."""
        kind, key = type(event), event.key if type(event) in _OF_WORDS and event.opaque is None else None
        again = kind is self._kind and key == self._key
        self._kind, self._key = kind, key
        if key is None:
            return
        words: str = event.fragment if kind is CallDelta else event.text
        before, self._before = self._before, (frame, words)
        steps, text = self._decoder.steps, self._decoder.texts.get(key)
        if text is None and (steps is not None or kind is CallDelta):
            return
        if kind is CallDelta and (b'"name"' in frame or not _stands_once(frame, _encode(words))):
            return  # A frame that names a call may begin another one.
        number = steps.next - 1 if steps is not None and numbered and type(steps.next) is int else None
        if number is not None and steps is not None and steps.last.get("delta") != words:
            return
        if text is not None and (steps is None or number is not None):
            self._pattern = _learn(frame, words, None, self._volatile, number)
        if self._pattern is None and again:
            self._pattern = _learn(frame, words, before, self._volatile, number)
        if self._pattern is not None:
            self._text, self._pieces = text, [] if text is None else text.pieces
            self._steps = steps if number is not None else None
            self._step_kind = 0 if number is None else steps.kinds[-1]  # type: ignore[index,union-attr]


class _Pattern:
    """How the next frame will look, if it only says more words.

    A hole is what differs: the words, the number of the step, or plain text that tells nothing. It ends where
    its piece begins. The number goes up with each frame that fits.
    """

    __slots__ = ("_begin", "_counts", "_ending", "_holes", "_number", "_pads", "_size")

    def __init__(self, begin: bytes, holes: list[tuple[str, bytes]], number: int = 0) -> None:
        self._begin = begin
        self._size = len(begin)
        self._holes = holes
        self._number = number
        kinds = [kind for kind, _ in holes]
        place = kinds.index(_WORDS)
        simple = kinds[:place].count(_PADDING) == place and kinds[place + 1 :] in ([], [_NUMBER])
        self._pads = [piece for _, piece in holes[:place]]
        endings = [piece.replace(b"%", b"%%") for _, piece in holes[place:]]
        self._counts = len(endings) > 1
        whole = b"%d".join(endings)
        self._ending = None if not simple else whole if self._counts else holes[place][1]

    def words(self, data: bytes) -> str | None:
        """Read one frame; None where it does not fit."""
        ending, begin = self._ending, self._size
        if ending is None or len(data) > LIMIT:
            words_and_end = self.read(data)
            return words_and_end[0] if words_and_end is not None and words_and_end[1] == len(data) else None
        if not data.startswith(self._begin):
            return None
        for piece in self._pads:
            end = data.find(b'"', begin)
            if not data.startswith(piece, end) or data.find(b"\\", begin, end) >= 0:
                return None
            begin = end + len(piece)
        if self._counts:
            ending %= self._number
        if not data.endswith(ending):
            return None
        try:
            words = _decode_text(data[begin - 1 : 1 - len(ending)])
        except UNREADABLE:
            return None
        self._number += 1
        return words

    def read(self, data: bytes, place: int = 0) -> tuple[str, int] | None:
        """Read the frame that begins at a place; None where it does not fit, or is too large for one."""
        if not data.startswith(self._begin, place):
            return None
        begin, words = place + self._size, ""
        for kind, piece in self._holes:
            if kind is _NUMBER:
                counted = b"%d%b" % (self._number, piece)
                end = begin + len(counted) - len(piece) if data.startswith(counted, begin) else -1
            else:
                end = data.find(piece if kind is _WORDS else b'"', begin)
            if end < 0:
                return None
            if kind is _WORDS:
                try:
                    words = _decode_text(data[begin - 1 : end + 1])
                except UNREADABLE:
                    return None
            elif kind is _PADDING and not (data.startswith(piece, end) and data.find(b"\\", begin, end) < 0):
                return None
            begin = end + len(piece)
        if begin - place > LIMIT:
            return None
        self._number += 1
        return words, begin


def _stands_once(data: bytes, text: bytes) -> bool:
    """Whether words that a frame says stand at one place of it, so that it is there that they come from.

    Nothing beside them is spelled with a backslash: it could be the same words, spelled in another way.
    """
    return data.count(text) == 1 and data.count(b"\\") == text.count(b"\\")


def _learn(
    data: bytes, words: str, before: tuple[bytes, str] | None, marks: tuple[bytes, ...], number: int | None
) -> _Pattern | None:
    """Learn from a frame and its words how the next one may look; the one before, if given, has to fit too.

    The words of the two are not the same, and what stands around them is: so it is there that they come from.
    What differs and tells nothing begins after one of these marks: it ends with a quote, or is the number.
    """
    text = _encode(words)
    place = data.find(text)
    if place < 0 or (words == before[1] if before is not None else not _stands_once(data, text)):
        return None
    holes = [(place + 1, place + len(text) - 1, _WORDS)]
    for mark in marks:
        begin = data.find(mark) + len(mark)
        if begin < len(mark) or data.find(mark, begin) >= 0:
            continue
        if mark.endswith(b'"'):
            holes.append((begin, data.find(b'"', begin), _PADDING))
        elif number is not None and data.startswith(b"%d" % number, begin):
            holes.append((begin, begin + len(b"%d" % number), _NUMBER))
    if number is not None and all(kind is not _NUMBER for _, _, kind in holes):
        return None
    holes.sort()
    ends = [begin for begin, _, _ in holes[1:]] + [len(data)]
    if any(end > after for (_, end, _), after in zip(holes, ends, strict=True)):
        return None
    pieces = [(kind, data[end:after]) for (_, end, kind), after in zip(holes, ends, strict=True)]
    head, counted = data[: holes[0][0]], number or 0
    if before is None:
        return _Pattern(head, pieces, counted + 1)
    made = _Pattern(head, pieces, counted - 1)
    fits = made.read(before[0]) == (before[1], len(before[0])) and made.read(data) == (words, len(data))
    return made if fits else None
