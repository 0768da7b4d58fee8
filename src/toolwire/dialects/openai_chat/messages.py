"""Messages of Chat Completions: one canonical message for each message of the wire.

A canonical message has ordered parts. This wire has some of them elsewhere:
- Thinking is in a key of the assistant message (`reasoning_content`, `reasoning`), on the servers that have one.
- Calls are in `tool_calls`, after all text. A deprecated call is in `function_call`.
- A result is a message of its own that has only text. Its media are in a user message after the last result.
"""

from typing import Any

from msgspec import Struct

from toolwire.dialects.openai_chat.calls import (
    DecodedMessages,
    decode_call,
    decode_deprecated_call,
    decode_deprecated_result,
    decode_result,
    encode_call,
    encode_result,
    link_deprecated_results,
)
from toolwire.dialects.openai_chat.parts import (
    DIALECT,
    WIRE,
    decode_citation,
    decode_parts,
    details_text,
    encode_citation,
    encode_part,
    encode_refusal,
    encode_text,
    encode_thinking,
    simplify_content,
)
from toolwire.encoding.ledger import Ledger, is_unparsed, made_by, spelling_of, take, take_entries
from toolwire.encoding.parts import without_mark
from toolwire.encoding.quirks import Quirks
from toolwire.types import Audio, Message, Opaque, Part, Refusal, Text, Thinking, ToolCall, ToolResult
from toolwire.types.spelling.openai_chat import (
    ChatCallSpelling,
    ChatMessageSpelling,
    ChatRefusalSpelling,
    ChatThinkingSpelling,
)

_KEYS_BESIDE_CONTENT = frozenset({"tool_calls", "function_call", "refusal", "audio"})
REASONING_KEYS = ("reasoning_content", "reasoning")
_RARE_KEYS = frozenset({"audio", "function_call", "name", "reasoning_details", *REASONING_KEYS})


def decode_messages(bodies: list[Any], first_index: int = 0) -> list[Message]:
    """Read the messages of a request, of which the first has the index `first_index`.

    Results without a call id are linked to calls by name and order.
    """
    decoded = DecodedMessages()
    messages = decoded.messages
    for index, body in enumerate(bodies, first_index):
        messages.append(_decode_message(body, decoded, index))
    if decoded.deprecated_results:
        link_deprecated_results(decoded)
    return messages


def _decode_message(body: Any, decoded: DecodedMessages, index: int = 0) -> Message:
    """Read one message. A message that is not understood stays unparsed."""
    role = body.get("role") if type(body) is dict else None
    if role in _INPUT_ROLES:
        return _decode_input_message(body, role)
    if role == "assistant":
        return decode_answer(body, index)
    if role == "tool":
        return decode_result(body, decoded)
    if role == "function":
        return decode_deprecated_result(body, decoded)
    return WIRE.unparsed_message(body)


_INPUT_ROLES = ("user", "system", "developer")


def _decode_input_message(body: dict[str, Any], role: Any) -> Message:
    """Read a message of the user, the system or the developer."""
    unparsed = body.copy()
    del unparsed["role"]
    name, content = take(unparsed, "name", str), take(unparsed, "content", str)
    if content is None:
        content = decode_parts(take_entries(unparsed, "content"))
    return Message(role, content, name, None, WIRE.mark(unparsed))


def decode_answer(body: dict[str, Any], id_seed: int = 0) -> Message:
    """Read an assistant message, in a request or in a response. Ids of calls are generated from `id_seed`."""
    content = body.get("content")
    unparsed = body.copy()
    constants: dict[str, Any] = {}
    if unparsed.get("role") == "assistant":
        del unparsed["role"]
    has_rare_keys = not _RARE_KEYS.isdisjoint(unparsed)
    parts = _take_thinking(unparsed) if has_rare_keys else []
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
    if has_rare_keys and type(unparsed.get("audio")) is dict:
        parts += take_audio(unparsed)
    for index, entry in enumerate(take_entries(unparsed, "tool_calls")):
        parts.append(decode_call(entry, id_seed, index))
    if has_rare_keys and type(unparsed.get("function_call")) is dict:
        call = decode_deprecated_call(unparsed, id_seed)
        parts += [] if call is None else [call]
    name = take(unparsed, "name", str) if has_rare_keys else None
    is_only_text = not parts or (len(parts) == 1 and type(parts[0]) is Text and parts[0].citations is None)
    if type(content) is str and is_only_text:
        spelling = ChatMessageSpelling(has_no_role="role" not in body)
        return Message("assistant", content, name, None, WIRE.mark(unparsed, spelling))
    spelling = ChatMessageSpelling(constants=constants, has_no_role="role" not in body)
    return Message("assistant", parts, name, None, WIRE.mark(unparsed, spelling))


def _take_thinking(unparsed: dict[str, Any]) -> list[Part]:
    """Remove the thinking from the `unparsed` keys of an answer, and decode it."""
    details = unparsed.get("reasoning_details")
    extra = {"reasoning_details": unparsed.pop("reasoning_details")} if type(details) is list and details else {}
    for key in REASONING_KEYS:
        text = unparsed.get(key)
        if type(text) is str and (text or extra):
            del unparsed[key]
            return [Thinking(text, opaque=WIRE.mark(extra, ChatThinkingSpelling(key=key)))]
    if not extra:
        return []
    text = details_text(extra["reasoning_details"])
    return [Thinking(text, opaque=WIRE.mark(extra, ChatThinkingSpelling(key="reasoning_details", texts=(text,))))]


def _take_citations(unparsed: dict[str, Any]) -> Any:
    """Remove the citations from the `unparsed` keys of an answer, and decode them, if all annotations are citations."""
    annotations = unparsed.get("annotations")
    if type(annotations) is not list or not annotations:
        return None
    citations = [decode_citation(annotation) for annotation in annotations]
    if None in citations:
        return None
    del unparsed["annotations"]
    return citations


def take_audio(unparsed: dict[str, Any]) -> list[Part]:
    """Remove the audio from the `unparsed` keys of an answer, and decode it, if it has an id."""
    inner = unparsed["audio"].copy()
    file_id, data, transcript = take(inner, "id", str), take(inner, "data", str), take(inner, "transcript", str)
    if file_id is None:
        return []
    del unparsed["audio"]
    return [Audio(data, file_id=file_id, transcript=transcript, opaque=WIRE.mark(inner))]


def encode_messages(messages: Any, ledger: Ledger, first_index: int = 0) -> list[dict[str, Any]]:
    """Write messages, of which the first has the index `first_index`. Media of results follow the last result."""
    bodies: list[dict[str, Any]] = []
    user_blocks: list[dict[str, Any]] = []
    for index, message in enumerate(messages, first_index):
        ledger.path = ("messages", index)
        ledger.is_native = made_by(message.opaque, DIALECT)
        if message.role != "tool" and user_blocks:
            bodies.append({"role": "user", "content": user_blocks})
            user_blocks = []
        encode_message(message, ledger, bodies, user_blocks)
    if user_blocks:
        bodies.append({"role": "user", "content": user_blocks})
    return bodies


def encode_message(
    message: Message, ledger: Ledger, bodies: list[dict[str, Any]], user_blocks: list[dict[str, Any]]
) -> None:
    """Append the messages of the wire to `bodies` that one message needs. Media of results go to `user_blocks`."""
    content, role = message.content, message.role
    if type(content) is str and role != "tool":
        written: Any = [{"type": "text", "text": content}] if ledger.keeps_blocks(message) else content
        body: dict[str, Any] = {"role": ledger.supported_role(role), "content": written}
        bodies.append(_finish_message(body, message, ledger))
    elif role == "tool":
        for index, part in enumerate(message.parts):
            ledger.part_index = index
            encode_result(part, message, ledger, bodies, user_blocks)
        ledger.part_index = None
    elif is_unparsed(message, DIALECT):
        bodies.append(content[0].value)  # type: ignore[union-attr,index]
    elif role == "assistant":
        body = encode_answer(message, ledger)
        if not ledger.is_native and body["content"] is None and _KEYS_BESIDE_CONTENT.isdisjoint(body):
            body["content"] = ""
        bodies.append(body)
    else:
        _encode_input_message(message, ledger, bodies, user_blocks)


def _finish_message(body: dict[str, Any], message: Message, ledger: Ledger) -> dict[str, Any]:
    """Add the name and the unparsed keys of a message to its body."""
    if message.name is not None:
        body["name"] = message.name
    if message.tool_call_id is not None:
        ledger.lose("tool_call_id", "tool_result", f"a message of the {message.role} answers no call")
    return body if message.opaque is None else ledger.replay(body, message.opaque)


def _encode_input_message(message: Message, ledger: Ledger, bodies: list[Any], user_blocks: list[Any]) -> None:
    """Append a message of the client, after the results among its parts."""
    blocks: list[Any] = []
    for part in ledger.each_part(message.parts):
        if type(part) is ToolResult:
            encode_result(part, message, ledger, bodies, user_blocks)
        elif ledger.was_written(block := encode_part(part, ledger, message.role), part):
            blocks.append(block)
    if user_blocks:
        blocks, user_blocks[:] = [*user_blocks, *blocks], []
    body: dict[str, Any] = {"role": ledger.supported_role(message.role)}
    if blocks:
        body["content"] = blocks if ledger.keeps_blocks(message) else simplify_content(blocks, ledger)
    elif not ledger.is_native and message.parts:
        return
    elif not ledger.is_native:
        body["content"] = ""
    bodies.append(_finish_message(body, message, ledger))


def encode_answer(message: Message, ledger: Ledger, *, as_string: bool = False) -> dict[str, Any]:
    """Write an assistant message. In a response (`as_string`), the content is one string."""
    has_odd_role = made_by(message.opaque, DIALECT) and "role" in message.opaque.value  # type: ignore[union-attr]
    has_no_role = has_odd_role or spelling_of(message.opaque, ChatMessageSpelling).has_no_role
    body: dict[str, Any] = {} if has_no_role else {"role": "assistant"}
    if type(message.content) is str:
        body["content"] = message.content
    else:
        _encode_parts(message, body, ledger, as_string=as_string)
    return _finish_message(body, message, ledger)


def _encode_parts(message: Message, body: dict[str, Any], ledger: Ledger, *, as_string: bool) -> None:
    """Write the parts of an assistant message into `body`."""
    blocks: list[Any] = []
    joined_keys = JoinedKeys()
    has_bare_text = False
    for index, part in enumerate(message.parts):
        ledger.part_index = index
        match part:
            case ToolCall():
                encode_call(part, body, ledger)
            case Text():
                has_bare_text = has_bare_text or part.opaque is None
                blocks.append(encode_text(without_mark(part, ledger), ledger))
                _lose_order(body, ledger)
                if part.citations:
                    _encode_citations(part, body, ledger, joined_keys)
            case Thinking():
                encode_thinking_key(part, body, blocks, ledger, joined_keys)
            case Refusal():
                _encode_refusal(part, body, blocks, ledger, joined_keys)
            case Audio() if part.file_id is not None:
                encode_answer_audio(part, body, ledger, as_string=as_string)
            case Opaque() if type(part.spelling) is ChatCallSpelling:
                body.setdefault("tool_calls", []).append(part.value)
            case _:
                if ledger.was_written(block := encode_part(part, ledger, "assistant"), part):
                    blocks.append(block)
    ledger.part_index = None
    joined_keys.write(body)
    _write_content(body, blocks, ledger, has_bare_text=has_bare_text, as_string=as_string)


def _write_content(
    body: dict[str, Any], blocks: list[dict[str, Any]], ledger: Ledger, *, has_bare_text: bool, as_string: bool
) -> None:
    """Write the content of an assistant message: one string if that means the same, else its blocks.

    `has_bare_text` is true if a text has no opaque value, as one that this wire sent as a string.
    """
    if not blocks:
        if not ledger.is_native:
            body["content"] = None
        return
    texts = [block["text"] for block in blocks if isinstance(block, dict) and "text" in block]
    if (as_string and not ledger.is_native and len(texts) == len(blocks)) or (has_bare_text and len(blocks) == 1):
        body["content"] = "".join(texts)
    else:
        body["content"] = simplify_content(blocks, ledger, "")


def _lose_order(body: dict[str, Any], ledger: Ledger) -> None:
    """Report the order of the parts as a loss, if a text follows a call."""
    if "tool_calls" in body and not ledger.is_native:
        ledger.lose("", "order", f"{DIALECT} has all text before the calls", "moved")


def _encode_citations(part: Text, body: dict[str, Any], ledger: Ledger, joined_keys: "JoinedKeys") -> None:
    annotations = [encode_citation(citation, ledger) for citation in part.citations or ()]
    if annotations:
        joined_keys.add_entries("annotations", [each for each in annotations if each is not None], body)


class JoinedKeys(Struct):
    """The keys of an assistant message that several parts share: their texts or their lists are joined."""

    texts: dict[str, list[str]] = {}
    lists: set[str] = set()

    def add_text(self, key: str, text: str, body: dict[str, Any]) -> None:
        """Append `text` to the text of `key`. `write` puts the whole text into `body`."""
        if key not in self.texts:
            self.texts[key] = [body.get(key, "")]
            body[key] = ""  # the order of the keys is that of the parts
        self.texts[key].append(text)

    def add_entries(self, key: str, entries: list[Any], body: dict[str, Any]) -> None:
        """Append `entries` to the list of `key` in `body`."""
        if key not in self.lists:
            self.lists.add(key)
            body[key] = [*body.get(key, ())]  # the list may belong to a part, which must not change
        body[key] += entries

    def write(self, body: dict[str, Any]) -> None:
        """Write the joined texts into `body`."""
        for key, texts in self.texts.items():
            body[key] = "".join(texts)


def encode_thinking_key(
    part: Thinking, body: dict[str, Any], blocks: list[dict[str, Any]], ledger: Ledger, joined_keys: JoinedKeys
) -> None:
    """Write thinking into an answer: into the key of its server, or into the content as a block.

    OpenAI has no key for thinking. `reasoning_key` of the quirks is the key of the server.
    """
    spelling = spelling_of(part.opaque, ChatThinkingSpelling)
    key = ledger.quirks.reasoning_key or spelling.key
    if key == "content":
        blocks.append(encode_thinking(part, spelling.texts, ledger))
        return
    ledger.lose_signature(part, f"{DIALECT} has no field for it")
    if key == "reasoning_details":
        key = None if spelling.texts == (part.text,) else "reasoning"
    elif key is None and (part.text or not part.signature):
        ledger.lose("text", "thinking", f"{DIALECT} has no field for thinking")
    if key is not None:
        joined_keys.add_text(key, part.text, body)
    ledger.lose_fields(part, "thinking", "redacted")
    ledger.lose_fields(part, "cache_mark", "cache")
    earlier_details = body.get("reasoning_details")
    ledger.replay(body, part.opaque)
    if earlier_details is not None and made_by(part.opaque, DIALECT):
        joined_keys.add_entries("reasoning_details", part.opaque.value.get("reasoning_details", []), body)  # type: ignore[union-attr]


def _encode_refusal(
    part: Refusal, body: dict[str, Any], blocks: list[dict[str, Any]], ledger: Ledger, joined_keys: JoinedKeys
) -> None:
    """Write a refusal: into the key of the answer, or into the content if it was a block there."""
    if spelling_of(part.opaque, ChatRefusalSpelling).is_block:
        blocks.append(encode_refusal(part, ledger))
    else:
        joined_keys.add_text("refusal", part.text, body)
        ledger.finish({}, part)


def encode_answer_audio(part: Audio, body: dict[str, Any], ledger: Ledger, *, as_string: bool) -> None:
    """Write audio of the model, which has a key beside the content."""
    fields = {"id": part.file_id, "data": part.data, "transcript": part.transcript}
    body["audio"] = {key: value for key, value in fields.items() if value is not None}
    if as_string or ledger.is_native:
        ledger.replay(body["audio"], part.opaque)
    else:
        ledger.lose_fields(part, "audio", "data", "transcript")
        ledger.lose_opaque(part.opaque)


def decode_later(bodies: list[Any], first_index: int, _generated_count: int) -> list[Message] | None:
    """Read later messages of a conversation, of which the first has the index `first_index`."""
    return decode_messages(bodies, first_index)


def encode_later(
    messages: list[Message], first_index: int, model: str | None, quirks: Quirks
) -> tuple[list[Any], Ledger]:
    """Write later messages of a conversation, of which the first has the index `first_index`."""
    ledger = Ledger(WIRE, quirks)
    ledger.model = model
    return encode_messages(messages, ledger, first_index), ledger
