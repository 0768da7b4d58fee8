"""Messages of Chat Completions: one canonical message for each message of the wire.

The places where this wire stores what the model keeps as ordered parts:
- thinking stands in a key of the assistant's message (`reasoning_content`, `reasoning`), where there is any;
- calls stand in `tool_calls` (one legacy call in `function_call`), after all words;
- a result is a message of its own, with text only: its media go into a user's message after the last result.
"""

from typing import Any

from msgspec import Struct

from toolwire.dialects.openai_chat.calls import (
    CallsSoFar,
    decode_call,
    decode_legacy_call,
    decode_legacy_result,
    decode_result,
    encode_call,
    encode_result,
    link_legacy_results,
)
from toolwire.dialects.openai_chat.parts import (
    DIALECT,
    WIRE,
    decode_citation,
    decode_parts,
    encode_citation,
    encode_part,
    encode_refusal,
    encode_text,
    encode_thinking,
    shortest,
    words_of,
)
from toolwire.encoding.ledger import Ledger, is_unparsed, made_by, spelling_of, take, take_entries
from toolwire.encoding.quirks import Quirks
from toolwire.types import Audio, Message, Opaque, Part, Refusal, Text, Thinking, ToolCall, ToolResult
from toolwire.types.spelling.openai_chat import (
    ChatCallSpelling,
    ChatMessageSpelling,
    ChatRefusalSpelling,
    ChatThinkingSpelling,
)

_SPEAKERS = frozenset({"system", "developer", "user", "assistant"})
_BESIDE = frozenset({"tool_calls", "function_call", "refusal", "audio"})
REASONING_KEYS = ("reasoning_content", "reasoning")
_RARE = frozenset({"audio", "function_call", "name", "reasoning_details", *REASONING_KEYS})


def decode_messages(bodies: list[Any], first: int = 0) -> list[Message]:
    """Read the messages of a request; results that carry no id are linked by name and order."""
    asked = CallsSoFar()
    messages = asked.messages
    for place, body in enumerate(bodies, first):
        messages.append(_decode_message(body, asked, place))
    if asked.legacy:
        link_legacy_results(asked)
    return messages


def _decode_message(body: Any, asked: CallsSoFar, place: int = 0) -> Message:
    """Read one message; one that is not understood is kept whole."""
    role = body.get("role") if type(body) is dict else None
    if role in _WORDS_OF:
        return _decode_words(body, role)
    if role == "assistant":
        return decode_answer(body, place)
    if role == "tool":
        return decode_result(body, asked)
    if role == "function":
        return decode_legacy_result(body, asked)
    return WIRE.unparsed_message(body)


_WORDS_OF = ("user", "system", "developer")


def _decode_words(body: dict[str, Any], role: Any) -> Message:
    unparsed = body.copy()
    del unparsed["role"]
    name, content = take(unparsed, "name", str), take(unparsed, "content", str)
    if content is None:
        content = decode_parts(take_entries(unparsed, "content"))
    return Message(role, content, name, None, WIRE.mark(unparsed))


def decode_answer(body: dict[str, Any], place: int = 0) -> Message:
    """Read an assistant's message, in a request or in a response."""
    content = body.get("content")
    unparsed = body.copy()
    constants: dict[str, Any] = {}
    if unparsed.get("role") == "assistant":
        del unparsed["role"]
    rare = not _RARE.isdisjoint(unparsed)
    parts = _take_thinking(unparsed) if rare else []
    if content == "" or (content is None and "content" in unparsed):
        constants = {"content": unparsed.pop("content")}
    elif type(content) is str:
        del unparsed["content"]
        parts.append(Text(content, _take_citations(unparsed) if "annotations" in unparsed else None))
    elif type(content) is list and content:
        del unparsed["content"]
        parts += decode_parts(content)
    if unparsed.get("refusal") and (refusal := take(unparsed, "refusal", str)) is not None:
        parts.append(Refusal(refusal, opaque=WIRE.plain))
    if rare and type(unparsed.get("audio")) is dict:
        parts += take_audio(unparsed)
    for index, entry in enumerate(take_entries(unparsed, "tool_calls")):
        parts.append(decode_call(entry, place, index))
    if rare and type(unparsed.get("function_call")) is dict:
        call = decode_legacy_call(unparsed, place)
        parts += [] if call is None else [call]
    name = take(unparsed, "name", str) if rare else None
    alone = not parts or (len(parts) == 1 and type(parts[0]) is Text and parts[0].citations is None)
    if type(content) is str and alone:
        spelling = ChatMessageSpelling(has_no_role="role" not in body)
        return Message("assistant", content, name, None, WIRE.mark(unparsed, spelling))
    spelling = ChatMessageSpelling(constants=constants, has_no_role="role" not in body)
    return Message("assistant", parts, name, None, WIRE.mark(unparsed, spelling))


def _take_thinking(unparsed: dict[str, Any]) -> list[Part]:
    details = unparsed.get("reasoning_details")
    left = {"reasoning_details": unparsed.pop("reasoning_details")} if type(details) is list and details else {}
    for key in REASONING_KEYS:
        text = unparsed.get(key)
        if type(text) is str and (text or left):
            del unparsed[key]
            return [Thinking(text, opaque=WIRE.mark(left, ChatThinkingSpelling(key=key)))]
    if not left:
        return []
    text = words_of(left["reasoning_details"])
    return [Thinking(text, opaque=WIRE.mark(left, ChatThinkingSpelling(key="reasoning_details", texts=(text,))))]


def _take_citations(unparsed: dict[str, Any]) -> Any:
    notes = unparsed.get("annotations")
    if type(notes) is not list or not notes:
        return None
    citations = [decode_citation(note) for note in notes]
    if None in citations:
        return None
    del unparsed["annotations"]
    return citations


def take_audio(unparsed: dict[str, Any]) -> list[Part]:
    """Take the audio out of the unparsed keys of an answer."""
    left = unparsed["audio"].copy()
    file_id, data, transcript = take(left, "id", str), take(left, "data", str), take(left, "transcript", str)
    if file_id is None:
        return []
    del unparsed["audio"]
    return [Audio(data, file_id=file_id, transcript=transcript, opaque=WIRE.mark(left))]


def encode_messages(messages: Any, ledger: Ledger, first: int = 0) -> list[dict[str, Any]]:
    """Write the messages of a request, the first at a place; media of results follow the last of their group."""
    bodies: list[dict[str, Any]] = []
    below: list[dict[str, Any]] = []
    for place, message in enumerate(messages, first):
        ledger.path = ("messages", place)
        ledger.is_native = made_by(message.opaque, DIALECT)
        if message.role != "tool" and below:
            bodies.append({"role": "user", "content": below})
            below = []
        encode_message(message, ledger, bodies, below)
    if below:
        bodies.append({"role": "user", "content": below})
    return bodies


def encode_message(message: Message, ledger: Ledger, bodies: list[dict[str, Any]], below: list[dict[str, Any]]) -> None:
    """Write one message, as the messages that this wire needs for it."""
    content, role = message.content, message.role
    if type(content) is str and role != "tool":
        body: dict[str, Any] = {"role": ledger.supported_role(role), "content": content}
        bodies.append(_close(body, message, ledger))
    elif role == "tool":
        for place, part in enumerate(message.parts):
            ledger.part_index = place
            encode_result(part, message, ledger, bodies, below)
        ledger.part_index = None
    elif is_unparsed(message, DIALECT):
        bodies.append(content[0].value)  # type: ignore[union-attr,index]
    elif role == "assistant":
        body = encode_answer(message, ledger)
        if not ledger.is_native and body["content"] is None and _BESIDE.isdisjoint(body):
            body["content"] = ""
        bodies.append(body)
    else:
        _encode_words(message, ledger, bodies, below)


def _close(body: dict[str, Any], message: Message, ledger: Ledger) -> dict[str, Any]:
    if message.name is not None:
        body["name"] = message.name
    if message.tool_call_id is not None:
        ledger.lose("tool_call_id", "tool_result", f"a message of the {message.role} answers no call")
    return body if message.opaque is None else ledger.replay(body, message.opaque)


def _encode_words(message: Message, ledger: Ledger, bodies: list[Any], below: list[Any]) -> None:
    blocks: list[Any] = []
    for part in ledger.each_part(message.parts):
        if type(part) is ToolResult:
            encode_result(part, message, ledger, bodies, below)
        elif ledger.was_written(block := encode_part(part, ledger, message.role), part):
            blocks.append(block)
    if below:
        blocks, below[:] = [*below, *blocks], []
    body: dict[str, Any] = {"role": ledger.supported_role(message.role)}
    if blocks:
        body["content"] = shortest(blocks, ledger)
    elif not ledger.is_native and message.parts:
        return
    elif not ledger.is_native:
        body["content"] = ""
    bodies.append(_close(body, message, ledger))


def encode_answer(message: Message, ledger: Ledger, *, as_string: bool = False) -> dict[str, Any]:
    """Write an assistant's message, in a request or (its text as one string) in a response."""
    has_odd_role = made_by(message.opaque, DIALECT) and "role" in message.opaque.value  # type: ignore[union-attr]
    has_no_role = has_odd_role or spelling_of(message.opaque, ChatMessageSpelling).has_no_role
    body: dict[str, Any] = {} if has_no_role else {"role": "assistant"}
    if type(message.content) is str:
        body["content"] = message.content
    else:
        _encode_parts(message, body, ledger, as_string=as_string)
    return _close(body, message, ledger)


def _encode_parts(message: Message, body: dict[str, Any], ledger: Ledger, *, as_string: bool) -> None:
    blocks: list[Any] = []
    beside = Beside()
    bare = False
    for place, part in enumerate(message.parts):
        ledger.part_index = place
        match part:
            case ToolCall():
                encode_call(part, body, ledger)
            case Text():
                bare = bare or part.opaque is None
                blocks.append(encode_text(part, ledger))
                _note_order(body, ledger)
                if part.citations:
                    _encode_citations(part, body, ledger, beside)
            case Thinking():
                encode_thinking_key(part, body, blocks, ledger, beside)
            case Refusal():
                _encode_refusal(part, body, blocks, ledger, beside)
            case Audio() if part.file_id is not None:
                encode_audio_answer(part, body, ledger, as_string=as_string)
            case Opaque() if type(part.spelling) is ChatCallSpelling:
                body.setdefault("tool_calls", []).append(part.value)
            case _:
                if ledger.was_written(block := encode_part(part, ledger, "assistant"), part):
                    blocks.append(block)
    ledger.part_index = None
    beside.write(body)
    _place_words(body, blocks, ledger, bare=bare, as_string=as_string)


def _place_words(
    body: dict[str, Any], blocks: list[dict[str, Any]], ledger: Ledger, *, bare: bool, as_string: bool
) -> None:
    if not blocks:
        if not ledger.is_native:
            body["content"] = None
        return
    texts = [block["text"] for block in blocks if isinstance(block, dict) and "text" in block]
    if (as_string and not ledger.is_native and len(texts) == len(blocks)) or (bare and len(blocks) == 1):
        body["content"] = "".join(texts)
    else:
        body["content"] = shortest(blocks, ledger, "")


def _note_order(body: dict[str, Any], ledger: Ledger) -> None:
    if "tool_calls" in body and not ledger.is_native:
        ledger.lose("", "order", f"{DIALECT} says all words before the calls", "moved")


def _encode_citations(part: Text, body: dict[str, Any], ledger: Ledger, beside: "Beside") -> None:
    notes = [encode_citation(citation, ledger) for citation in part.citations or ()]
    if notes:
        beside.extend("annotations", [note for note in notes if note is not None], body)


class Beside(Struct):
    """What several parts of an answer say under one key of its body: texts, and lists."""

    texts: dict[str, list[str]] = {}
    lists: set[str] = set()

    def add(self, key: str, text: str, body: dict[str, Any]) -> None:
        """Add a text under a key of a body."""
        if key not in self.texts:
            self.texts[key] = [body.get(key, "")]
            body[key] = ""  # which keeps its place among the keys
        self.texts[key].append(text)

    def extend(self, key: str, entries: list[Any], body: dict[str, Any]) -> None:
        """Add entries to the list under a key of a body."""
        if key not in self.lists:
            self.lists.add(key)
            body[key] = [*body.get(key, ())]  # the list that is there may be a part's own
        body[key] += entries

    def write(self, body: dict[str, Any]) -> None:
        """Put the texts into a body."""
        for key, texts in self.texts.items():
            body[key] = "".join(texts)


def encode_thinking_key(
    part: Thinking, body: dict[str, Any], blocks: list[dict[str, Any]], ledger: Ledger, beside: Beside
) -> None:
    """Add thinking to an answer: under its key, or among the blocks of the content."""
    spelling = spelling_of(part.opaque, ChatThinkingSpelling)
    key = ledger.quirks.reasoning_key or spelling.key
    if key == "content":
        blocks.append(encode_thinking(part, spelling.texts, ledger))
        return
    ledger.lose_signature(part, f"{DIALECT} cannot carry it")
    if key == "reasoning_details":
        key = None if spelling.texts == (part.text,) else "reasoning"
    elif key is None and (part.text or not part.signature):
        ledger.lose("text", "thinking", f"{DIALECT} has no field for thinking")
    if key is not None:
        beside.add(key, part.text, body)
    ledger.lose_fields(part, "thinking", "redacted")
    ledger.lose_fields(part, "cache_mark", "cache")
    before = body.get("reasoning_details")
    ledger.replay(body, part.opaque)
    if before is not None and made_by(part.opaque, DIALECT):
        beside.extend("reasoning_details", part.opaque.value.get("reasoning_details", []), body)  # type: ignore[union-attr]


def _encode_refusal(
    part: Refusal, body: dict[str, Any], blocks: list[dict[str, Any]], ledger: Ledger, beside: Beside
) -> None:
    if spelling_of(part.opaque, ChatRefusalSpelling).is_block:
        blocks.append(encode_refusal(part, ledger))
    else:
        beside.add("refusal", part.text, body)
        ledger.finish({}, part)


def encode_audio_answer(part: Audio, body: dict[str, Any], ledger: Ledger, *, as_string: bool) -> None:
    """Write audio of the model, which stands beside the content."""
    fields = {"id": part.file_id, "data": part.data, "transcript": part.transcript}
    body["audio"] = {key: value for key, value in fields.items() if value is not None}
    if as_string or ledger.is_native:
        ledger.replay(body["audio"], part.opaque)
    else:
        ledger.lose_fields(part, "audio", "data", "transcript")
        ledger.lose_opaque(part.opaque)


def decode_later(bodies: list[Any], place: int, _made: int) -> list[Message] | None:
    """Read messages that stand at a place of their conversation, and need nothing of what stands before."""
    return decode_messages(bodies, place)


def encode_later(messages: list[Message], place: int, _model: str | None, quirks: Quirks) -> tuple[list[Any], Ledger]:
    """Write messages that stand at a place of their conversation, and need nothing of what stands before."""
    ledger = Ledger(WIRE, quirks)
    return encode_messages(messages, ledger, place), ledger
