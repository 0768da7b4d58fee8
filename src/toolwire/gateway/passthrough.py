"""A request and an answer of one wire as they came: bytes that are handed on, and read on the side.

Rules of this file:
- A body goes up as it came but for its model's name: no other byte is touched. What was only shown to its client, the
  thoughts of a model of another wire, is taken out when it comes back. Its calls are marked as Gemini wants them.
- An answer comes down as it is. One that breaks off is ended in the wire's own form of an error; where it broke
  within a frame, no client could read on, and its connection is to break as well.
- What an answer says of its cost, and who signed what, is read on the side.
"""

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from toolwire.dialects import Dialect
from toolwire.dialects.anthropic.messages import runs_unthought
from toolwire.encoding.finish import ending
from toolwire.encoding.traits import WireTraits
from toolwire.errors import ToolwireError
from toolwire.streams.accumulation import Accumulator
from toolwire.translation.shown import FOREIGN
from toolwire.types import (
    Error,
    ErrorEnd,
    Event,
    Loss,
    MessageEnd,
    MessageStart,
    Opaque,
    Part,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
    UsageDelta,
)
from toolwire.wire.bodies import members_of, place_of

_FRAME_ENDS = {"event-stream": b"\n\n", "ndjson": b"\n"}
_TAIL = 65_536
_COUNTED_BYTES = 8 * 1024 * 1024
# The members of an answer in which the wires count its tokens.
_COUNTED = ("usage", "usageMetadata", "prompt_eval_count", "eval_count")
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _Spoken(msgspec.Struct):
    """Who says a content of Gemini's."""

    role: Any = None


_read_role = msgspec.json.Decoder(_Spoken).decode
_FOREIGN = FOREIGN.encode()
_CALL = b'"functionCall"'
# The id of a thought that was written for a client of Responses; OpenAI's own are twice as long (2026-11-23).
_MADE = re.compile(rb'"rs_[0-9a-f]{24}\d{2,4}"')
# The keys under which the wires write what only its maker can read.
_SIGNED = (b'"signature"', b'"encrypted_content"', b'"thoughtSignature"', b'"thought_signature"')


def with_model(body: bytes, members: dict[str, Any], model: str) -> bytes:
    """Give a body with another model's name; every other byte stays."""
    start, end = place_of(body, "model", members)
    return body[:start] + msgspec.json.encode(model) + body[end:]


def without_shown(traits: WireTraits, body: bytes, members: dict[str, Any]) -> bytes:
    """Give a body without what other wires' models have thought, of which its own vendor knows nothing."""
    if traits.shows_foreign_thinking and _FOREIGN in body:
        return _filtered(body, members, traits.history_key, _unshown_message)
    if "reasoning" in traits.model_items and b'"rs_' in body and _MADE.search(body) is not None:
        return _filtered(body, members, traits.history_key, _unshown_item)
    return body


def _filtered(body: bytes, members: dict[str, Any], name: str, keep: Callable[[bytes], bytes]) -> bytes:
    """Give a body whose list of this name has what is kept of its entries; what is empty is left out."""
    if not bytes(members.get(name, b"")).startswith(b"["):
        return body
    entries = [bytes(raw) for raw in _read_list(members[name])]
    kept = [keep(entry) for entry in entries]
    if kept == entries:
        return body
    start, end = place_of(body, name, members)
    return b"%s[%s]%s" % (body[:start], b",".join(filter(None, kept)), body[end:])


def _unshown_message(message: bytes) -> bytes:
    if _FOREIGN not in message:
        return message
    taken = _filtered(message, members_of(message), "content", _unshown_block)
    return b"" if bytes(members_of(taken).get("content", b"")) == b"[]" else taken


def _unshown_block(block: bytes) -> bytes:
    read = msgspec.json.decode(block) if _FOREIGN in block else None
    shown = type(read) is dict and read.get("type") == "thinking" and read.get("signature") == FOREIGN
    return b"" if shown else block


def _unshown_item(item: bytes) -> bytes:
    read = msgspec.json.decode(item) if _MADE.search(item) is not None else None
    shown = type(read) is dict and read.get("type") == "reasoning" and not read.get("encrypted_content")
    return b"" if shown and _MADE.fullmatch(b'"%s"' % str(read["id"]).encode(errors="replace")) else item  # type: ignore[index]


def with_stand_ins(body: bytes, members: dict[str, Any]) -> bytes:
    """Give a body of Gemini whose calls of other models stand under the vendor's word for "no signature".

    A model that signs begins each step with a call that is signed; it refuses a step that does not.
    """
    if body.count(_CALL) <= body.count(b'"thoughtSignature"'):
        return body
    stepped = False

    def sign(content: bytes) -> bytes:
        nonlocal stepped
        by_model = content.startswith(b"{") and _read_role(content).role == "model"
        stepped = stepped and by_model
        if stepped or not by_model or _CALL not in content:
            return content
        return _filtered(content, members_of(content), "parts", sign_first)

    def sign_first(part: bytes) -> bytes:
        nonlocal stepped
        keys = {} if stepped or _CALL not in part else members_of(part)
        stepped = stepped or "functionCall" in keys
        unsigned = "functionCall" in keys and "thoughtSignature" not in keys
        return part[:-1] + b',"thoughtSignature":"skip_thought_signature_validator"}' if unsigned else part

    return _filtered(body, members, "contents", sign)


def without_budget(body: bytes) -> bytes:
    """Give a request of Messages without thinking of a budget, where calls are answered that have no thought now."""
    members = members_of(body)
    thinking = msgspec.json.decode(members.get("thinking", b"null"))
    if type(thinking) is not dict or thinking.get("type") != "enabled":
        return body
    if not runs_unthought(msgspec.json.decode(members["messages"])):
        return body
    start, end = place_of(body, "thinking", members)
    return body[:start] + b'{"type":"disabled"}' + body[end:]


def with_models(body: bytes, members: dict[str, Any], model: str) -> bytes:
    """Give a body of Gemini's that names its model within, as those of several requests at once do, with another."""
    inner = [name for name in ("requests", "generateContentRequest") if name in members]
    if not inner:
        return body
    read = msgspec.json.decode(body)
    for name in inner:
        for request in read[name] if type(read[name]) is list else [read[name]]:
            if type(request) is dict and "model" in request:
                request["model"] = model
    return msgspec.json.encode(read)


def counts_in(body: bytes) -> dict[str, Any]:
    """Give of an answer what says how many tokens it took."""
    members = members_of(body)
    return {name: msgspec.json.decode(members[name]) for name in _COUNTED if name in members}


def may_be_signed(body: bytes) -> bool:
    """Whether a body may hold what only its maker can read."""
    return any(map(body.__contains__, _SIGNED))


def signatures_of(parts: list[Part]) -> Iterator[str]:
    """Name what only the maker of these parts can read."""
    for part in parts:
        match part:
            case Thinking(signature=str(signature)) if signature:
                yield f"made:{hashlib.sha256(signature.encode()).hexdigest()}"
            case ToolCall(opaque=Opaque(value=dict(value))) if "thoughtSignature" in value:
                yield f"made:{hashlib.sha256(str(value['thoughtSignature']).encode()).hexdigest()}"


class OtherAnswer:
    """What is no answer of a model as it passes: vectors, sound, a stream of an older wire; its tokens are counted."""

    def __init__(self, wire: Dialect, kind: str) -> None:
        self._wire, self._heard, self._tokens = wire, bytearray(), 0
        self._end = next((end for name, end in _FRAME_ENDS.items() if name in kind), b"")
        self._most = _TAIL if self._end else _COUNTED_BYTES if kind.startswith("application/json") else 0

    def feed(self, data: bytes) -> int:
        """Give how many characters were written so far: each frame of a stream is taken for a token."""
        if self._end:
            self._tokens += data.count(self._end)
            self._heard += data
            del self._heard[: -self._most]
        elif len(self._heard) < self._most:
            self._heard += data
        return 4 * self._tokens

    @property
    def usage(self) -> Usage | None:
        """What the provider has counted, in the body or in one of the last frames."""
        heard = bytes(self._heard).strip()
        for frame in heard.split(self._end)[:-4:-1] if self._end else [heard]:
            with contextlib.suppress(ToolwireError, msgspec.DecodeError, UnicodeError, RecursionError):
                counts = counts_in(frame.strip().removeprefix(b"data:").strip())
                if (usage := self._wire.decode_response(counts).usage) is not None:
                    return usage
        return None


def error_frames(dialect: Dialect, error: Error) -> bytes:
    """Write an error that ends a stream whose lines are whole so far."""
    encoder = dialect.encode_stream()
    gap = b"\n" if dialect.TRAITS.ends_frames_with_blank_line else b""  # it ends a frame whose lines are whole
    return gap + encoder.feed(ErrorEnd(error)) + encoder.close()


class PassedStream:
    """An answer's stream that is handed on as it is; `usage` and `parts` are read on the side.

    Text and thoughts are counted in `words` and not kept. The parts have the calls and the signatures.
    """

    losses: tuple[Loss, ...] = ()

    def __init__(self, dialect: Dialect, *, array: bool) -> None:
        self.usage: Usage | None = None
        self.words: int = 0
        self.broken: bool = False
        self._dialect, self._array = dialect, array
        self._decoder = dialect.decode_stream()
        self._heard = Accumulator()
        self._last = b"\n"
        self._failed = False
        self.whole: bool = False

    def feed(self, data: bytes) -> bytes:
        """Give the bytes as they are."""
        self._hear(self._decoder.feed(data))
        self._last = data[-1:]
        return data

    def _hear(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case TextDelta() | ThinkingDelta():
                    self.words += len(event.text)
                    continue
                case MessageStart():
                    self.usage = event.response.usage
                case UsageDelta():
                    self.usage = event.usage
                case ErrorEnd():
                    self._failed = True
                case MessageEnd():
                    self.whole = event.complete
            self._heard.feed(event)

    @property
    def failed(self) -> bool:
        """Return True if the provider has reported an error."""
        return self._failed

    @property
    def parts(self) -> list[Part]:
        """What the answer is made of, without the text that came in pieces."""
        return self._heard.response.message.parts

    def close(self, error: Error | None = None) -> bytes | None:
        """Give what is left to say: an error, if the answer broke off; None where no word can follow any more."""
        failed = self._failed
        self._hear(self._decoder.close())
        told = failed is self._failed  # else it is what was cut off that is wrong, and nobody said so
        reason = self._heard.response.finish_reason if told else None
        broken = ending(reason, complete=self.whole, failed=failed)
        self.broken = self._failed or broken is not None
        if broken is None:
            return b""
        if self._array or not self._last.endswith((b"\n", b"\r")):
            return None
        return error_frames(self._dialect, error or broken)
