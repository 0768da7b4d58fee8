"""A cached conversation prefix: the bytes of a request up to some message, and their translation.

Rules of this file:
- A prefix ends before an answer of the model. All calls in it have their results, and no name in it was escaped, so
  that no later message changes its translation. The *opening* prefix of a conversation ends before the first message
  of the user: its system prompt, tools and settings also begin other conversations.
- A request matches a prefix if its bytes begin and end with those of the prefix. Only the messages between are
  translated. If one of them is unusual in any way, the whole request is translated.
- If the target caches only what is marked, a request with cache marks of its own is translated as a whole: the number
  of marks is limited, so that later marks change earlier messages.
- The messages after the prefix in the last request are stored separately (`_LastTurn`), and found by their bytes. Some
  clients mark the last message for the provider's cache and send it without the mark in the next request. Such a
  message is translated again.
- A prefix is stored only if it and the messages after it, encoded separately, are exactly the encoded request.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import ResumableDialect
from toolwire.encoding.ledger import shared_spelling_of
from toolwire.encoding.quirks import Quirks
from toolwire.encoding.repair import OPENING_TEXT, is_legal
from toolwire.encoding.traits import WireTraits
from toolwire.providers.prompt_cache import ConversationStart, has_marks, have_marks
from toolwire.translation.caching import ExchangeHooks
from toolwire.translation.tool_restoration import affects_answers
from toolwire.translation.unwrap_output import asks_for_enum, is_value_output
from toolwire.types import (
    Encoded,
    Loss,
    Message,
    Opaque,
    Output,
    Part,
    Request,
    ServerTool,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from toolwire.types.encoded import EncodedBytes
from toolwire.types.spelling import RequestSpelling
from toolwire.types.spelling.gemini import GeminiRequestSpelling
from toolwire.wire.bodies import find_member, read_body
from toolwire.wire.names import escape, is_generated_id

_SEPARATORS = (b",", b", ")
_read_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode
_LEAST_MESSAGES = 2
_LEAST_OPENING = 1500
"""Bytes around the messages from which on an opening prefix is worth storing."""
_MOST_TOOLS = 128
_TOOL_SIZE = 8_000
"""Estimated bytes of a stored tool declaration."""
_STREAM_SETTINGS = ("stream", "stream_options")


class Wires(Struct, frozen=True):
    """The two wires of a translation, and the hooks of its exchange."""

    source: ResumableDialect
    target: ResumableDialect
    hooks: ExchangeHooks


class _AnswerSettings(Struct, frozen=True):
    """The parts of a request by which its answer is read. All turns of a conversation share them."""

    tools: list[Tool | ServerTool]
    stream_settings: dict[str, Any]
    output: Output | None
    opaque: Opaque | None
    repeated: Request | None = None
    """The request without its messages, if the answer repeats its settings."""

    @property
    def size(self) -> int:
        """The estimated number of bytes."""
        repeated = self.repeated
        return _TOOL_SIZE * len(self.tools if repeated is None else repeated.tools)


class _Position(Struct, frozen=True):
    """A place between two messages of a conversation, and what the messages before it determine for those after it."""

    message_count: int
    generated_count: int = 0
    """How many ids the decoder has numbered."""
    key_material: bytes = b""
    """The key material of the last message."""


class _Decoded(Struct, frozen=True):
    """Decoded messages, and what later messages need to know of them."""

    messages: Sequence[Message]
    end: _Position
    call_ids: frozenset[str]
    generated_ids: frozenset[str]
    memory_keys: tuple[str, ...]


class _EncodedMessages(Struct, frozen=True):
    """Messages that were encoded: their JSON with a comma before each, and all ids that are used up to their end."""

    json: bytes
    losses: Sequence[Loss]
    used_ids: frozenset[str]


class _LastTurn(Struct, frozen=True):
    """The messages after a prefix in the last request. The next request usually repeats them."""

    source_json: bytes
    decoded: _Decoded
    encoded: _EncodedMessages


class CachedPrefix(Struct, frozen=True):
    """A conversation up to some message: the request's bytes around the new messages, and their translation.

    `begins` and `written` grow with every turn. They are in pieces, so that little is copied each time.
    """

    begins: tuple[bytes, ...]
    length: int
    ends: bytes
    written: tuple[bytes, ...]
    closing: bytes
    end: _Position
    used_ids: frozenset[str]
    generated_ids: frozenset[str]
    memory_keys: tuple[str, ...]
    path: str
    model: str | None
    quirks: Quirks
    losses: tuple[Loss, ...]
    losses_after: tuple[Loss, ...]
    is_opening: bool
    answer: _AnswerSettings
    start: ConversationStart
    last_turn: _LastTurn | None = None

    @property
    def size(self) -> int:
        """The estimated number of bytes."""
        turn = self.last_turn
        last_turn = 0 if turn is None else len(turn.source_json) + len(turn.encoded.json)
        losses = 200 * (len(self.losses) + len(self.losses_after))
        ids = 80 * (len(self.used_ids) + len(self.memory_keys)) + len(self.end.key_material)
        bodies = self.length + len(self.ends) + sum(map(len, self.written)) + len(self.closing)
        return bodies + ids + losses + self.answer.size + last_turn

    def matches(self, data: bytes) -> bool:
        """Return True if a request is this conversation with more messages."""
        if len(data) <= self.length + len(self.ends) or not data.endswith(self.ends):
            return False
        at = 0
        for piece in self.begins:
            if not data.startswith(piece, at):
                return False
            at += len(piece)
        return True


class Extension(Struct, frozen=True):
    """The new messages of a request that matches a prefix.

    `split` is the length of the messages before the last answer in `source_json`, or 0 if there is no answer.
    """

    prefix: CachedPrefix
    separator: bytes
    source_json: bytes
    split: int
    decoded: list[_Decoded]

    @property
    def start(self) -> ConversationStart:
        """The start of the conversation, which the new messages may complete."""
        return self.prefix.start.with_first(self.decoded[0].messages)


def read_extension(prefix: CachedPrefix, data: bytes, wires: Wires) -> Extension | None:
    """Decode the new messages of a request, or return None if it must be translated as a whole."""
    middle = data[prefix.length : len(data) - len(prefix.ends)]
    separators = (b"",) if prefix.begins[-1].endswith(b"[") else _SEPARATORS
    separator = next((one for one in separators if middle.startswith(one + b"{")), None)
    if separator is None:
        return None
    source_json, turn = middle[len(separator) :], prefix.last_turn
    if turn is not None and (after := _after(turn.source_json, source_json)) is not None:
        bodies = read_body(b"[%b]" % after)
        if not _last_answer(bodies, wires.source.TRAITS):
            decoded = _decode(bodies, turn.decoded.end, wires)
            if decoded is not None:
                return Extension(prefix, separator, source_json, len(turn.source_json), [turn.decoded, decoded])
    return _split_extension(prefix, separator, source_json, wires)


def _split_extension(prefix: CachedPrefix, separator: bytes, source_json: bytes, wires: Wires) -> Extension | None:
    """Decode new messages, those from the last answer on apart from those before it."""
    listed = b"[%b]" % source_json
    bodies = read_body(listed)
    cut = _last_answer(bodies, wires.source.TRAITS)
    first = _decode(bodies[:cut] if cut else bodies, prefix.end, wires, is_opening=prefix.is_opening)
    if first is None:
        return None
    if not cut:
        return Extension(prefix, separator, source_json, 0, [first])
    second = _decode(bodies[cut:], first.end, wires) if _asks(first.messages[-1]) else None
    if second is None:
        return None
    items = _split_items(listed)
    return Extension(
        prefix, separator, source_json, len(items[1].join(items[0][:cut])) if items else 0, [first, second]
    )


def _after(begins: bytes, source_json: bytes) -> bytes | None:
    """Return the messages after those in `begins`, or None if `source_json` begins with others."""
    if not source_json.startswith(begins):
        return None
    start = len(begins)
    return next(
        (source_json[start + len(one) :] for one in _SEPARATORS if source_json.startswith(one + b"{", start)), None
    )


def write_extension(extension: Extension, data: bytes, target: ResumableDialect) -> tuple[Encoded, CachedPrefix] | None:
    """Encode the new messages of a request. Return the request and a longer prefix, or None if neither is certain."""
    prefix = extension.prefix
    parts = _encode_parts(extension, target)
    if parts is None:
        return None
    written, losses = [*prefix.written], [*prefix.losses]
    for part in parts:
        written.append(part.json)
        losses += part.losses
    written.append(prefix.closing)
    encoded = EncodedBytes.of(prefix.path, b"".join(written), (*losses, *prefix.losses_after))
    return encoded, _grown_prefix(extension, parts, data) if extension.split else prefix


def _encode_parts(extension: Extension, target: ResumableDialect) -> list[_EncodedMessages] | None:
    prefix, turn = extension.prefix, extension.prefix.last_turn
    parts: list[_EncodedMessages] = []
    used_ids = prefix.used_ids
    for decoded in extension.decoded:
        part = turn.encoded if turn is not None and turn.decoded is decoded else None
        part = part or _encode(decoded, used_ids, target, prefix.model, prefix.quirks)
        if part is None:
            return None
        parts.append(part)
        used_ids = part.used_ids
    if prefix.written[-1].endswith(b"["):
        parts[0] = replace(parts[0], json=parts[0].json[1:])
    return parts


def _grown_prefix(extension: Extension, parts: list[_EncodedMessages], data: bytes) -> CachedPrefix:
    """Return the prefix that ends before the last answer of a request."""
    prefix, split, source_json = extension.prefix, extension.split, extension.source_json
    first, part = extension.decoded[0], parts[0]
    length = prefix.length + len(extension.separator) + split
    return replace(
        prefix,
        begins=_grown(prefix.begins, data[prefix.length : length]),
        length=length,
        written=_grown(prefix.written, part.json),
        end=first.end,
        used_ids=part.used_ids,
        generated_ids=prefix.generated_ids | first.generated_ids,
        memory_keys=(*prefix.memory_keys, *first.memory_keys),
        losses=(*prefix.losses, *part.losses),
        is_opening=False,
        start=extension.start,
        last_turn=_last_turn(_after(source_json[:split], source_json), extension.decoded[1], parts[1]),
    )


def _grown(pieces: tuple[bytes, ...], more: bytes) -> tuple[bytes, ...]:
    """Add a piece. Small ones are joined, so that there are few."""
    *rest, last = *pieces, more
    while rest and len(rest[-1]) < 2 * len(last):
        last = rest.pop() + last
    return *rest, last


def _last_turn(source_json: bytes | None, decoded: _Decoded, encoded: _EncodedMessages) -> _LastTurn | None:
    """Return the messages after a prefix as they are stored, if an answer of the model may follow them."""
    if not source_json or not _asks(decoded.messages[-1]):
        return None
    return _LastTurn(source_json, replace(decoded, messages=()), encoded)


def _decode(bodies: list[Any], start: _Position, wires: Wires, *, is_opening: bool = False) -> _Decoded | None:
    """Decode messages after a prefix, or return None if their translation depends on the messages before."""
    decoded = wires.source.decode_later(bodies, start.message_count, start.generated_count)
    if not decoded:
        return None
    messages = wires.hooks.prepare(decoded)
    if wires.target.TRAITS.request_cache_mark and have_marks(messages):
        return None
    if not is_legal(messages) or not (_opens(messages[0]) if is_opening else _answers(messages[0])):
        return None
    calls = _call_ids(messages, start.generated_count, wires)
    if calls is None:
        return None
    call_ids, generated_count = calls
    end = _Position(start.message_count + len(messages), generated_count, wires.hooks.key_material(messages[-1]))
    memory_keys = wires.hooks.memory_keys(messages, start.message_count, start.key_material)
    return _Decoded(messages, end, call_ids, frozenset(filter(is_generated_id, call_ids)), memory_keys)


def _encode(
    decoded: _Decoded, used_ids: frozenset[str], target: ResumableDialect, model: str | None, quirks: Quirks
) -> _EncodedMessages | None:
    """Encode messages after a prefix, or return None if they reuse one of its ids."""
    start = decoded.end.message_count - len(decoded.messages)
    items, ledger = target.encode_later(decoded.messages, start, model, quirks)
    ids = decoded.call_ids | ledger.ids.used
    if not ids.isdisjoint(used_ids):
        return None
    return _EncodedMessages(b",%b" % _write(items)[1:-1] if items else b"", ledger.losses, used_ids | ids)


def _call_ids(messages: Sequence[Message], generated_count: int, wires: Wires) -> tuple[frozenset[str], int] | None:
    """Return the ids of all calls, and how many the decoder has numbered up to here.

    Return None if two calls share an id, or if a name would be escaped.
    """
    contents = [message.content for message in messages if type(message.content) is list]
    calls = [part for content in contents for part in content if type(part) is ToolCall]
    if not calls:
        return frozenset(), generated_count
    ids = frozenset([call.id or "" for call in calls])
    grammar = wires.target.WIRE.names
    if len(ids) < len(calls) or (grammar and any(escape(call.name, grammar) != call.name for call in calls)):
        return None
    if prefix := wires.source.TRAITS.generated_id_prefix:
        numbered = {one for one in ids if one.startswith(prefix)}
        if numbered != {f"{prefix}{generated_count + number + 1}" for number in range(len(numbered))}:
            return None
        generated_count += len(numbered)
    return ids, generated_count


def _parts(message: Message) -> Sequence[Part]:
    content = message.content
    return content if type(content) is list else ()


def _answers(message: Message) -> bool:
    """Return True if a message is the model's, and no wire leaves it out."""
    content = message.content
    if message.role != "assistant":
        return False
    if type(content) is str:
        return bool(content) and not content.isspace()
    return any(_has_text(part) or (type(part) is ToolCall and part.runs) for part in _parts(message))


def _asks(message: Message) -> bool:
    """Return True if a message is the user's or a tool's, and no wire leaves it out."""
    content = message.content
    if message.role == "tool":
        return any(type(part) is ToolResult for part in _parts(message))
    if message.role != "user":
        return False
    return (bool(content) and not content.isspace()) if type(content) is str else any(map(_has_text, _parts(message)))


def _opens(message: Message) -> bool:
    """Return True if `message` can be the user's first, and is not the one that replaces a missing first message."""
    return message.role == "user" and message.content != OPENING_TEXT and _asks(message)


def _has_text(part: Part) -> bool:
    return type(part) is Text and bool(part.text) and not part.text.isspace()


def _last_answer(bodies: list[Any], source: WireTraits) -> int:
    """Return the index at which the last answer of the model begins; 0 if that is the first item, or there is none."""
    for index in range(len(bodies) - 1, 0, -1):
        if _is_answer(bodies[index], source) and not _is_answer(bodies[index - 1], source):
            return index
    return 0


def _is_answer(body: Any, source: WireTraits) -> bool:
    """Return True if the model wrote an item of a history."""
    if type(body) is not dict:
        return False
    if source.model_items and body.get("type", "message") != "message":
        return body["type"] in source.model_items
    return bool(body.get("role") == source.model_role)


def _split_items(listed: bytes) -> tuple[list[msgspec.Raw], bytes] | None:
    """Split a JSON list into its items and their separator, or return None if the separators differ."""
    items = _read_raw_items(listed)
    return next(((items, one) for one in _SEPARATORS if b"[%b]" % one.join(items) == listed), None)


class Translation(Struct, frozen=True):
    """A request that was translated as a whole."""

    data: bytes
    body: dict[str, Any]
    request: Request
    encoded: Encoded
    wires: Wires
    quirks: Quirks
    start: ConversationStart

    @property
    def items(self) -> list[Any] | None:
        """The items of the request's history; None if it is not a list."""
        items = self.body.get(self.wires.source.TRAITS.history_key)
        return items if type(items) is list else None

    def has_independent_settings(self) -> bool:
        """Return True if no setting of the request is written depending on its messages."""
        request = self.request
        spelling = shared_spelling_of(request.opaque, self.wires.source.DIALECT, RequestSpelling)
        if len(request.tools) > _MOST_TOOLS or request.provider_state or spelling.needs_all_messages:
            return False
        if self.wires.target.TRAITS.request_cache_mark and has_marks(request):
            return False
        return all(getattr(request, field) is None for field in self.wires.target.TRAITS.settings_by_history)

    def answer_settings(self) -> _AnswerSettings:
        """Return the parts of the request by which its answer is read."""
        stream_settings = {name: self.body[name] for name in _STREAM_SETTINGS if name in self.body}
        tools, output = [tool for tool in self.request.tools if affects_answers(tool)], self.request.output
        spelling = GeminiRequestSpelling(has_enum_output=True) if asks_for_enum(self.request) else None
        opaque = None if spelling is None else Opaque(self.wires.source.DIALECT, {}, spelling=spelling)
        return _AnswerSettings(
            tools, stream_settings, output if is_value_output(output) else None, opaque, self._repeated_settings()
        )

    def _repeated_settings(self) -> Request | None:
        """Return the client's request without its messages, if the answer repeats its settings."""
        source = self.wires.source
        if not source.TRAITS.repeats_settings:
            return None
        return source.decode_request({**self.body, source.TRAITS.history_key: []})

    def translate_from(self, items: list[Any], start: "_PrefixEnd") -> tuple[_Decoded, _EncodedMessages] | None:
        """Translate the items after a prefix separately."""
        wires = self.wires
        decoded = _decode(items, start.position, wires, is_opening=start.is_opening)
        if decoded is None:
            return None
        encoded = _encode(decoded, start.used_ids, wires.target, self.request.model, self.quirks)
        return None if encoded is None else (decoded, encoded)


class _PrefixEnd(Struct, frozen=True):
    """The end of a prefix: its position, and the ids and memory keys of the messages before it."""

    position: _Position
    used_ids: frozenset[str] = frozenset()
    generated_ids: frozenset[str] = frozenset()
    memory_keys: tuple[str, ...] = ()
    is_opening: bool = False


def opening_prefix(translation: Translation) -> CachedPrefix | None:
    """Return the prefix before the user's first message, or None if it is short, or the request is unusual."""
    request, items = translation.request, translation.items
    messages = request.messages
    first = next(
        (index for index, one in enumerate(messages) if one.role not in ("system", "developer")), len(messages)
    )
    asks_json = request.output is not None and request.output.kind == "json"
    if len(translation.data) < _LEAST_OPENING or first == len(messages) or items is None or asks_json:
        return None
    if not translation.has_independent_settings():
        return None
    key_material = translation.wires.hooks.key_material(messages[first - 1]) if first else b""
    end = _PrefixEnd(_Position(first, key_material=key_material), is_opening=True)
    later = translation.translate_from(items[first:], end)
    if later is None or later[0].end.message_count != len(messages):
        return None
    prefix = _prefix_at(translation, first, end, later[1])
    return prefix if prefix is not None and prefix.length + len(prefix.ends) >= _LEAST_OPENING else None


def latest_prefix(translation: Translation) -> CachedPrefix | None:
    """Return the prefix before the last answer, or None if there is no answer, or the request is unusual."""
    items, messages = translation.items, translation.request.messages
    if items is None or len(messages) <= _LEAST_MESSAGES or not translation.has_independent_settings():
        return None
    cut = _last_answer(items, translation.wires.source.TRAITS)
    end = _end_before(translation, items[cut:]) if cut else None
    later = None if end is None else translation.translate_from(items[cut:], end)
    if end is None or later is None:
        return None
    prefix = _prefix_at(translation, cut, end, later[1])
    if prefix is None:
        return None
    data = translation.data
    source_json = _after(b"", data[prefix.length : len(data) - len(prefix.ends)])
    return replace(prefix, last_turn=_last_turn(source_json, *later))


def _end_before(translation: Translation, items: list[Any]) -> _PrefixEnd | None:
    """Return the end of the prefix before the last `items`, or None if later messages may change the prefix."""
    wires, messages = translation.wires, translation.request.messages
    later = wires.source.decode_later(items, 0, 0)
    if not later:
        return None
    count = len(messages) - len(wires.hooks.prepare(later))
    before = messages[:count]
    if count < _LEAST_MESSAGES or not _asks(before[-1]) or not is_legal(before):
        return None
    calls = _call_ids(before, 0, wires)
    if calls is None:
        return None
    call_ids, generated_count = calls
    grammar = wires.target.WIRE.ids
    used_ids = call_ids | ({escape(one, grammar) for one in call_ids} if grammar else set())
    position = _Position(count, generated_count, wires.hooks.key_material(before[-1]))
    memory_keys = wires.hooks.memory_keys(before, 0, b"")
    return _PrefixEnd(position, used_ids, frozenset(filter(is_generated_id, call_ids)), memory_keys)


def _prefix_at(translation: Translation, cut: int, end: _PrefixEnd, later: _EncodedMessages) -> CachedPrefix | None:
    """Split a translation before the item `cut`. Return None if its parts are not exactly the whole."""
    data, encoded, wires = translation.data, translation.encoded, translation.wires
    first, last = find_member(data, wires.source.TRAITS.history_key)
    split = _split_items(data[first:last])
    closing = _closing(encoded.body, wires.target.TRAITS.history_key)
    losses = _split_losses(encoded.losses, later.losses, wires.target.TRAITS)
    if split is None or closing is None or losses is None:
        return None
    written = encoded.json
    ending = later.json + closing
    if end.is_opening and written.endswith(b"[" + ending[1:]):
        ending = ending[1:]
    if not later.json or not written.endswith(ending):
        return None
    items, separator = split
    begins = data[: first + 1 + len(separator.join(items[:cut]))]
    return CachedPrefix(
        begins=(begins,),
        length=len(begins),
        ends=data[last - 1 :],
        written=(written[: -len(ending)],),
        closing=closing,
        end=end.position,
        used_ids=end.used_ids,
        generated_ids=end.generated_ids,
        memory_keys=end.memory_keys,
        path=encoded.path,
        model=translation.request.model,
        quirks=translation.quirks,
        losses=losses[0],
        losses_after=losses[1],
        is_opening=end.is_opening,
        answer=translation.answer_settings(),
        start=replace(translation.start, first=b"") if end.is_opening else translation.start,
    )


def _closing(body: dict[str, Any], history_key: str) -> bytes | None:
    """Return the bytes after the last message of an encoded request."""
    if type(body.get(history_key)) is not list:
        return None
    keys = list(body)
    after = {name: body[name] for name in keys[keys.index(history_key) + 1 :]}
    return b"]" + (b"," + _write(after)[1:] if after else b"}")


def _split_losses(
    losses: tuple[Loss, ...], later: Sequence[Loss], target: WireTraits
) -> tuple[tuple[Loss, ...], tuple[Loss, ...]] | None:
    """Return the losses before and after those of the later messages, or None if these do not stand together."""
    end = len(losses)
    while end and losses[end - 1].concept in target.losses_after_history and "[" not in losses[end - 1].path:
        end -= 1
    start = end - len(later)
    return (losses[:start], losses[end:]) if start >= 0 and list(losses[start:end]) == list(later) else None
