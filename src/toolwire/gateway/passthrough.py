"""Requests and answers that client and provider have in one wire: the bytes pass through and are read on the side.

Rules of this file:
- A body is sent as it came, with the provider's name of the model. Thinking of another wire's model, which the gateway
  had only displayed to the client, is removed when it comes back. Gemini's calls are marked as Gemini requires.
- An answer is forwarded unchanged. If it breaks off, it ends with an error of the wire. If it breaks off inside of a
  frame, no client could read an error, so the connection must break as well.
- The gateway reads usage and signatures of an answer on the side.
"""

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from toolwire.dialects import Dialect
from toolwire.dialects.anthropic.messages import answers_unthought_calls
from toolwire.encoding.finish import ending_error
from toolwire.encoding.traits import WireTraits
from toolwire.errors import ToolwireError
from toolwire.streams.accumulation import Accumulator
from toolwire.translation.foreign_thinking import FOREIGN
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
from toolwire.wire.bodies import find_member, members_of

_FRAME_ENDS = {"event-stream": b"\n\n", "ndjson": b"\n"}
_TAIL_BYTES = 65_536
_COUNTED_BYTES = 8 * 1024 * 1024
# The members of an answer in which the wires count its tokens.
_COUNTED = ("usage", "usageMetadata", "prompt_eval_count", "eval_count")
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _GeminiContent(msgspec.Struct):
    """The role of a content in a Gemini request."""

    role: Any = None


_read_role = msgspec.json.Decoder(_GeminiContent).decode
_FOREIGN = FOREIGN.encode()
_CALL = b'"functionCall"'
# The id of reasoning that the gateway generated for a client of Responses. OpenAI's ids are twice as long (2026-11-23).
_GENERATED_ID = re.compile(rb'"rs_[0-9a-f]{24}\d{2,4}"')
# The keys of signatures in the wires, which only the provider that made them can read.
_SIGNATURE_KEYS = (b'"signature"', b'"encrypted_content"', b'"thoughtSignature"', b'"thought_signature"')


def with_model(body: bytes, members: dict[str, Any], model: str) -> bytes:
    """Return `body` with another model's name. Every other byte is the same."""
    start, end = find_member(body, "model", members)
    return body[:start] + msgspec.json.encode(model) + body[end:]


def without_displayed_thinking(traits: WireTraits, body: bytes, members: dict[str, Any]) -> bytes:
    """Return `body` without displayed thinking of other wires' models, which its own vendor does not know."""
    if traits.shows_foreign_thinking and _FOREIGN in body:
        return _filtered(body, members, traits.history_key, _without_displayed_blocks)
    if "reasoning" in traits.model_items and b'"rs_' in body and _GENERATED_ID.search(body) is not None:
        return _filtered(body, members, traits.history_key, _drop_displayed_item)
    return body


def _filtered(body: bytes, members: dict[str, Any], name: str, keep: Callable[[bytes], bytes]) -> bytes:
    """Return `body` with each entry of the list `name` replaced by `keep(entry)`. Empty entries are left out."""
    if not bytes(members.get(name, b"")).startswith(b"["):
        return body
    entries = [bytes(raw) for raw in _read_list(members[name])]
    kept = [keep(entry) for entry in entries]
    if kept == entries:
        return body
    start, end = find_member(body, name, members)
    return b"%s[%s]%s" % (body[:start], b",".join(filter(None, kept)), body[end:])


def _without_displayed_blocks(message: bytes) -> bytes:
    if _FOREIGN not in message:
        return message
    filtered = _filtered(message, members_of(message), "content", _drop_displayed_block)
    return b"" if bytes(members_of(filtered).get("content", b"")) == b"[]" else filtered


def _drop_displayed_block(block: bytes) -> bytes:
    parsed = msgspec.json.decode(block) if _FOREIGN in block else None
    is_displayed = type(parsed) is dict and parsed.get("type") == "thinking" and parsed.get("signature") == FOREIGN
    return b"" if is_displayed else block


def _drop_displayed_item(item: bytes) -> bytes:
    parsed = msgspec.json.decode(item) if _GENERATED_ID.search(item) is not None else None
    if type(parsed) is not dict or parsed.get("type") != "reasoning" or parsed.get("encrypted_content"):
        return item
    quoted_id = b'"%s"' % str(parsed.get("id")).encode(errors="replace")
    return b"" if _GENERATED_ID.fullmatch(quoted_id) else item


def with_placeholder_signatures(body: bytes, members: dict[str, Any]) -> bytes:
    """Return a Gemini request whose unsigned calls have the placeholder that Google documents.

    A Gemini model that signs calls requires a signature on the first call of each step. Calls that another model made
    have none.
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
    """Return a Messages request with thinking disabled if it answers calls that no thinking precedes.

    Anthropic rejects a thinking budget for such a request.
    """
    members = members_of(body)
    thinking = msgspec.json.decode(members.get("thinking", b"null"))
    if type(thinking) is not dict or thinking.get("type") != "enabled":
        return body
    if not answers_unthought_calls(msgspec.json.decode(members["messages"])):
        return body
    start, end = find_member(body, "thinking", members)
    return body[:start] + b'{"type":"disabled"}' + body[end:]


def with_models(body: bytes, members: dict[str, Any], model: str) -> bytes:
    """Return a Gemini request with another model's name inside of its body, as batches of requests have it."""
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
    """Return the members of an answer that count its tokens."""
    members = members_of(body)
    return {name: msgspec.json.decode(members[name]) for name in _COUNTED if name in members}


def may_be_signed(body: bytes) -> bool:
    """Return True if `body` may contain a signature."""
    return any(map(body.__contains__, _SIGNATURE_KEYS))


def signatures_of(parts: list[Part]) -> Iterator[str]:
    """Yield a digest of each signature in `parts`."""
    for part in parts:
        match part:
            case Thinking(signature=str(signature)) if signature:
                yield f"made:{hashlib.sha256(signature.encode()).hexdigest()}"
            case ToolCall(opaque=Opaque(value=dict(value))) if "thoughtSignature" in value:
                yield f"made:{hashlib.sha256(str(value['thoughtSignature']).encode()).hexdigest()}"


class OtherAnswer:
    """An answer that no model wrote, which passes through: vectors, audio, a stream of an older wire.

    Counts its tokens.
    """

    def __init__(self, wire: Dialect, kind: str) -> None:
        self._wire, self._received, self._tokens = wire, bytearray(), 0
        self._end = next((end for name, end in _FRAME_ENDS.items() if name in kind), b"")
        self._most = _TAIL_BYTES if self._end else _COUNTED_BYTES if kind.startswith("application/json") else 0

    def feed(self, data: bytes) -> int:
        """Read a piece.

        Return the estimated number of characters so far: each frame of a stream counts as one token.
        """
        if self._end:
            self._tokens += data.count(self._end)
            self._received += data
            del self._received[: -self._most]
        elif len(self._received) < self._most:
            self._received += data
        return 4 * self._tokens

    @property
    def usage(self) -> Usage | None:
        """The usage that the provider reported in the body, or in one of the last frames."""
        received = bytes(self._received).strip()
        for frame in received.split(self._end)[:-4:-1] if self._end else [received]:
            with contextlib.suppress(ToolwireError, msgspec.DecodeError, UnicodeError, RecursionError):
                counts = counts_in(frame.strip().removeprefix(b"data:").strip())
                if (usage := self._wire.decode_response(counts).usage) is not None:
                    return usage
        return None


def error_frames(dialect: Dialect, error: Error) -> bytes:
    """Return the bytes of an error that ends a stream between two lines."""
    encoder = dialect.encode_stream()
    blank_line = b"\n" if dialect.TRAITS.ends_frames_with_blank_line else b""  # it ends a frame whose lines are whole
    return blank_line + encoder.feed(ErrorEnd(error)) + encoder.close()


class PassedStream:
    """An answer's stream that passes through. `usage` and `parts` are read on the side.

    Text and thinking are counted in `words` and not stored. The parts have the calls and the signatures.
    """

    losses: tuple[Loss, ...] = ()

    def __init__(self, dialect: Dialect, *, array: bool) -> None:
        self.usage: Usage | None = None
        self.words: int = 0
        self.broken: bool = False
        self._dialect, self._array = dialect, array
        self._decoder = dialect.decode_stream()
        self._received = Accumulator()
        self._last = b"\n"
        self._failed = False
        self.is_complete: bool = False

    def feed(self, data: bytes) -> bytes:
        """Read `data` and return it unchanged."""
        self._observe(self._decoder.feed(data))
        self._last = data[-1:]
        return data

    def _observe(self, events: list[Event]) -> None:
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
                    self.is_complete = event.complete
            self._received.feed(event)

    @property
    def failed(self) -> bool:
        """Return True if the provider has reported an error."""
        return self._failed

    @property
    def parts(self) -> list[Part]:
        """The parts of the answer, without the text that was streamed."""
        return self._received.response.message.parts

    def close(self, error: Error | None = None) -> bytes | None:
        """Return the end to send: an error if the answer broke off.

        Return None if no error can be sent inside of a frame.
        """
        failed = self._failed
        self._observe(self._decoder.close())
        reported_before_end = (
            failed is self._failed
        )  # otherwise the error is that of the cut frame, and not one of the provider
        reason = self._received.response.finish_reason if reported_before_end else None
        broken = ending_error(reason, complete=self.is_complete, failed=failed)
        self.broken = self._failed or broken is not None
        if broken is None:
            return b""
        if self._array or not self._last.endswith((b"\n", b"\r")):
            return None
        return error_frames(self._dialect, error or broken)
