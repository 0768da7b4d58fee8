"""The short way of a stream: frames that repeat each other are read by what differs in them.

This file is about speed alone. A decoder knows nothing of it: it offers what a plain reader has too, and without
this file every frame is read in full.

Rules of this file:
- A pattern is learned from a frame that told some words, and nothing else but where a part begins. Around the
  words, which are one JSON string that stands there once, all is fixed but for the number of the step, and for what
  the wire pads with or dates. What only its own wire understands may hold the words once more.
- A frame that fits is the JSON of the other with other words, so reading it in full would tell the same.
- What the decoder keeps of such a frame, it is given: the text of a call or of a part, and the step.
- A frame that came whole, and alone, needs no framing.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import msgspec

from toolwire.streams.calls import CallSoFar
from toolwire.streams.reading import UNREADABLE, StreamDecoder, WireDecoder
from toolwire.streams.writing import Say, StreamEncoder
from toolwire.types import (
    CallDelta,
    CallStart,
    Event,
    MessageStart,
    Opaque,
    PartEnd,
    PartStart,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
)
from toolwire.wire.framing import LIMIT, EventStream

_decode = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_OF_WORDS = frozenset({TextDelta, ThinkingDelta, RefusalDelta, CallDelta})
_STARTS = frozenset({PartStart, CallStart})
_AROUND = frozenset({MessageStart, PartEnd})
_LEAST = 64
"""A frame of words has more bytes; several that are shorter are read at once."""
_whole_event = re.compile(rb"(?:event: (.+)\n)?data: (.{0,%d})\n\n" % (LIMIT - len(b"data: "))).fullmatch
_whole_line = re.compile(rb"()(.{1,%d})\n" % LIMIT).fullmatch

_CLOSING = b" }\n"
_NUMBERS = (b'"sequence_number":%d', b'"sequence_number": %d')
_Pattern = Callable[[bytes], str | None]


class QuickDecoder:
    """A decoder whose frames of words take the short way where they can; all else it reads in full.

    `volatile` is the key under which frames differ and tell nothing: what a wire pads with, or dates. `pattern` reads
    the words of the next frame if it only has more of them, for the part of this `key`. `left` is what the wire says
    beside them, and its JSON around the words. `_idle` says that a new frame may begin with the next byte.
    """

    pattern: _Pattern | None = None
    key: int = 0
    left: tuple[Opaque, list[bytes]] | None = None
    _kind: Any = None
    _idle = True

    def __init__(self, decoder: WireDecoder, volatile: bytes | None = None) -> None:
        self._decoder = decoder
        self._volatile = volatile
        events = decoder.framing is EventStream
        self._end, self._whole = (b"\n\n", _whole_event) if events else (b"\n", _whole_line)

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
        if (read := self.pattern) is not None and (words := read(data)) is not None:
            return self.tell(words)
        return self.read_anew(data)

    def tell(self, words: str) -> list[Event]:
        """Give the event of words that were read by the pattern."""
        if self.left is None:
            return [self._kind(self.key, words)]
        opaque, around = self.left
        value = _decode(_encode(words).join(around))
        return [self._kind(self.key, words, opaque=Opaque(opaque.dialect, value, opaque.form))]

    def read_anew(self, data: bytes) -> list[Event]:
        """Give the events of bytes that do not fit the pattern."""
        if self._idle and b"\r" not in data and (whole := self._whole(data)) is not None:
            name, frame = whole.groups(b"")
            if (events := self._decoder.read_whole(frame, name)) is not None:
                self.pattern = None
                self._idle = not self._decoder.over
                if events and type(events[-1]) in _OF_WORDS and (len(events) == 1 or self._begins(events)):
                    self._learn_from(data, events[-1])
                return events
        return self._read_bytes(data)

    def _read_bytes(self, data: bytes) -> list[Event]:
        """Give the events of bytes that are not one frame: frame by frame where they are several."""
        if self._decoder.over or data.find(self._end, _LEAST) in (-1, len(data) - len(self._end)):
            self.pattern = None
            events = self._decoder.feed(data)
            self._idle = not self._decoder.over and self._decoder.is_idle()
            return events
        told, begin = list[Event](), 0
        while begin < len(data) and not self._decoder.over:
            end = data.find(self._end, begin + _LEAST)
            end = len(data) if end < 0 else end + len(self._end)
            told += self.feed(data[begin:end])
            begin = end
        return told

    def close(self) -> list[Event]:
        """Give the events that the end of the bytes tells."""
        self.pattern = None
        return self._decoder.close()

    def _begins(self, events: list[Any]) -> bool:
        """Whether a frame tells words that begin their part, and beside them only what ended: the next begins none."""
        *before, start, words = events
        fits = type(start) in _STARTS and start.key == words.key and not self._decoder.announces
        return fits and all([type(event) in _AROUND for event in before])  # noqa: C419 - a list is faster

    def _learn_from(self, frame: bytes, event: Any) -> None:
        """Learn how the next frame may look from one that told some words of a part.

        The words stand at one place of it, so that it is there that they come from, and where what is left holds them;
        nothing beside them is spelled with a backslash, as it could be the same words.
        """
        kind, text, steps = type(event), self._decoder.keeps(event), self._decoder.steps
        if text is False or (text is None and (kind is CallDelta or steps is not None)):
            return
        if kind is CallDelta and b'"name"' in frame:
            return  # A frame that names a call may begin another one.
        if type(text) is CallSoFar and (text.guessed or not text.indexed):
            return  # A frame that does not say whose its text is may be about another call than before.
        said = _encode(event.fragment if kind is CallDelta else event.text)
        if steps is not None and b'"delta":' + said not in frame.replace(b'": "', b'":"'):
            return  # A step that repeats all words tells only those that are new.
        if steps is None or type(steps.next) is not int or b'"sequence_number"' not in frame:
            number = steps = None
        elif (number := next((one for one in _NUMBERS if frame.count(one % (steps.next - 1)) == 1), None)) is None:
            return
        else:
            frame = frame.replace(number % (steps.next - 1), number)
        blank = None if self._volatile is None or self._volatile not in frame else _blanking(self._volatile)
        around = _bare(frame if blank is None else blank(frame)).split(said)
        left = None if event.opaque is None else (event.opaque, _encode(event.opaque.value).split(said))
        if len(around) == (2 if left is None else len(left[1]) + 1) < 4 and b"\\" not in b"".join(around):
            self.pattern = _read_by(around, text, (blank, number, steps))
            self._kind, self.key, self.left = kind, event.key, left


def _read_by(around: list[bytes], text: Any, varying: tuple[Any, Any, Any]) -> _Pattern:
    """Give what reads the words of a frame that stand between these bytes; it gives None where one does not fit.

    They may stand there twice. `varying` is what differs beside them: how to blank what tells nothing, how a step is
    numbered, and the steps.
    """
    blank, number, steps = varying
    begin, ending, between = around[0] + b'"', b'"' + around[-1], around[1] if len(around) > 2 else None
    start, stop = len(begin) - 1, 1 - len(ending)
    pieces, once = ([], False) if text is None else (text.pieces, type(text) is CallSoFar)
    step_kind = None if steps is None else steps.kinds[-1]

    def read(data: bytes) -> str | None:
        if blank is not None:
            data = blank(data)
        if number is not None:  # a frame that spells what stands for a number has none
            data = b"" if number in data else data.replace(number % steps.next, number)
        fits = data.startswith(begin) and (
            data.endswith(ending, 0, LIMIT) or (data := _bare(data)).endswith(ending, 0, LIMIT)
        )
        if not fits:
            return None
        try:
            words: str = _decode_text(data[start:stop] if between is None else _first(data[start:stop], between))
        except UNREADABLE:
            return None
        if not words:
            return None
        if text is not None:
            size = len(words)
            if text.size + size > LIMIT or (once and size == text.size):
                return None
            text.size += size
            pieces.append(words)
            if number is not None:
                steps.kinds.append(step_kind)
                steps.next += 1
                steps.last["delta"] = words
        return words

    return read


def _first(said: bytes, between: bytes) -> bytes:
    """Give the first of two texts that are the same; nothing where they are not, or something else is between them."""
    first = said[: (len(said) - len(between)) // 2]
    return first if first + between + first == said else b""


@cache
def _blanking(key: bytes) -> Callable[[bytes], bytes]:
    """Give what takes the text of a key out of a frame, if it is plain."""
    return partial(re.compile(b'"%b": ?"[ -!#-\\[\\]-~]*"' % key).sub, b'"%b":""' % key)


def relay(decoder: StreamDecoder, encoder: StreamEncoder) -> Callable[[bytes], bytes]:
    """Give what takes bytes to a decoder and gives what an encoder says of them: of more words without an event."""
    if type(decoder) is not QuickDecoder or not isinstance(encoder, StreamEncoder):
        return lambda data: b"".join(map(encoder.feed, decoder.feed(data)))
    read, write = decoder.read_anew, encoder.feed
    pattern: _Pattern | None = None
    say: Say | None = None

    def feed(data: bytes) -> bytes:
        nonlocal pattern, say
        if pattern is not None and (words := pattern(data)) is not None:
            return b"".join(map(write, decoder.tell(words))) if say is None else say(words)
        told = b"".join(map(write, read(data)))
        if (pattern := decoder.pattern) is not None:
            own = decoder.left is not None and encoder.is_own(decoder.left[0])
            say = None if own else encoder.ready.get(decoder.key)
        return told

    return feed


def _bare(frame: bytes) -> bytes:
    """Give a frame without the spaces between its last braces and after them."""
    bare = frame.rstrip(_CLOSING)
    return bare + frame[len(bare) :].replace(b" ", b"")
