"""Decode and encode the contents of a generateContent conversation: one canonical message for each content.

Rules of this file:
- A message that was decoded from a content is encoded as one content.
- Messages from other wires are grouped. The calls of one turn are in one content of the model. Their results, and the
  user's text after them, are in one content of the user.
- A system or developer message after the start of the conversation becomes marked text of the user.
- If the model requires signatures, the first call of a turn from another wire gets Google's placeholder for a missing
  signature. It gets it in every turn and not only in the last one, so that a message that was sent once never changes.
"""

from typing import Any

from msgspec import Struct

from toolwire.dialects.gemini.calls import (
    IdGenerator,
    can_replay_arguments,
    decode_call,
    decode_result,
    encode_call,
    encode_result,
    link_result,
)
from toolwire.dialects.gemini.parts import (
    DIALECT,
    SIGNATURE,
    WIRE,
    Conversation,
    decode_part_of_key,
    encode_media,
    encode_server_part,
    encode_text,
    encode_thinking,
    split_part,
)
from toolwire.encoding.ledger import Ledger, is_unparsed, made_by, spelling_of
from toolwire.encoding.linking import link_results
from toolwire.encoding.quirks import Quirks
from toolwire.encoding.repair import wrap_reminder
from toolwire.types import (
    Audio,
    Document,
    Image,
    Message,
    Opaque,
    Part,
    Refusal,
    Role,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolwire.types.spelling.gemini import GeminiMessageSpelling

_PLACEHOLDER_TEXT = "(empty)"
_EMPTY_TEXT_PART = {"text": ""}
# https://ai.google.dev/gemini-api/docs/thought-signatures (2026-11-20).
_SKIP_SIGNATURE = "skip_thought_signature_validator"
_ROLES: dict[object, Role] = {
    **dict.fromkeys(("user", "function", "tool", None), "user"),
    **dict.fromkeys(("model", "assistant"), "assistant"),
}
_USUAL_ROLES = frozenset({"user", "model"})


def decode_messages(bodies: list[Any], generated_count: int = 0) -> list[Message]:
    """Decode the contents of a request, and link each result to its call.

    `generated_count` is the number of ids that were generated for the contents before these.
    """
    ids = IdGenerator(bodies, count=generated_count)
    return _link_results([_decode_message(body, ids) for body in bodies])


def _link_results(messages: list[Message]) -> list[Message]:
    """Return `messages` in which each result has the id of the call that it answers."""
    if _all_results_name_calls(messages):
        return messages
    linked_parts: dict[int, list[Part]] = {}
    for (message_index, part_index), (_, call) in link_results(messages, by_order=True).items():
        parts = linked_parts.get(message_index) or messages[message_index].parts
        result: Any = parts[part_index]
        if result.tool_call_id != call.id:
            linked_parts[message_index] = [*parts[:part_index], link_result(result, call), *parts[part_index + 1 :]]
    return [
        Message(message.role, linked_parts[index], opaque=message.opaque) if index in linked_parts else message
        for index, message in enumerate(messages)
    ]


def _all_results_name_calls(messages: list[Message]) -> bool:
    """Return True if every result has the id of a call before it."""
    ids = set[str | None]()
    for message in messages:
        content: Any = message.content
        for part in () if type(content) is str else content:
            if type(part) is ToolCall:
                ids.add(part.id)
            elif type(part) is ToolResult and part.tool_call_id not in ids:
                return False
    return True


def _decode_message(body: Any, ids: IdGenerator) -> Message:
    """Decode one content. A content that is not understood becomes a message with the whole body."""
    raw_role: Any = body.get("role") if type(body) is dict else 0
    role = _ROLES.get(raw_role) if raw_role is None or type(raw_role) is str else None
    if role is None:
        return WIRE.unparsed_message(body)
    ids.call_index = 0
    unparsed = body.copy()
    if raw_role is not None:
        del unparsed["role"]
    content, has_one_part = take_parts(unparsed, ids)
    if role == "user":
        role = _infer_role(content)
    spelling = GeminiMessageSpelling(
        role=None if raw_role in _USUAL_ROLES else raw_role, has_no_role=raw_role is None, has_one_part=has_one_part
    )
    return Message(role, content, opaque=WIRE.mark(unparsed, spelling))


def _infer_role(content: str | list[Part]) -> Role:
    """Return the canonical role of a content of the user: `tool` if it has only results."""
    if type(content) is str or not content:
        return "user"
    for part in content:
        if type(part) is not ToolResult:
            return "user"
    return "tool"


def take_parts(unparsed: dict[str, Any], ids: IdGenerator) -> tuple[str | list[Part], bool]:
    """Remove the parts from the `unparsed` keys of a content. Return them, and True if `parts` was an object."""
    bodies = unparsed.get("parts")
    if type(bodies) is dict:
        return [read_part(unparsed.pop("parts"), ids)], True
    if type(bodies) is not list or not bodies:
        return [], False
    del unparsed["parts"]
    return _decode_parts(bodies, ids), False


def _decode_parts(bodies: list[Any], ids: IdGenerator) -> str | list[Part]:
    if len(bodies) == 1 and type(bodies[0]) is dict and len(bodies[0]) == 1:
        text = bodies[0].get("text")
        if type(text) is str:
            return text
    return [read_part(body, ids) for body in bodies]


def read_part(body: Any, ids: IdGenerator) -> Part:
    """Decode one part. A part that is not understood becomes an opaque part."""
    split_body = split_part(body) if type(body) is dict else None
    if split_body is None:
        return Opaque(DIALECT, body)
    key, value, unparsed, spelling = split_body
    match key:
        case "functionCall":
            part = decode_call(value, unparsed, spelling, ids)
        case "functionResponse":
            part = decode_result(value, unparsed, spelling)
        case _:
            part = decode_part_of_key(key, value, unparsed, spelling)
    return Opaque(DIALECT, body) if part is None else part


class _ContentsBuilder(Struct):
    """Builds the contents of a request, and groups the messages of other wires.

    - `user_parts`: the parts of the last content, if it is one of the user that may get more parts.
    - `model_parts`: the parts of the last content, if it is one of the model that may get more parts.
    - `expects_more`: the last content has results or a late system message. Text of the user is added to it.
    - `model_has_call`: there is a call among `model_parts`.
    """

    ledger: Conversation
    bodies: list[Any] = []
    user_parts: list[Any] | None = None
    model_parts: list[Any] | None = None
    expects_more: bool = False
    model_has_call: bool = False

    def add_model_parts(self, parts: list[Any]) -> None:
        """Add parts of the model. They join the last content if that is one of the model."""
        if not parts:
            return
        if self.ledger.media_after_results:
            self.add_deferred_media()
        if self.ledger.skips_signatures:
            self.model_has_call = (self.model_parts is not None and self.model_has_call) or _mark_first_call(parts)
        if self.model_parts is None:
            self.model_parts = parts
            self.bodies.append({"role": "model", "parts": parts})
        else:
            self.model_parts += parts
        self.user_parts = None

    def add_user_parts(self, parts: list[Any], *, expects_more: bool = False) -> None:
        """Add parts of the user. They join the last content of the user if that or these parts expect more."""
        if not expects_more and self.ledger.media_after_results:
            self.add_deferred_media()
        if self.user_parts is None or not (self.expects_more or expects_more):
            self.user_parts = parts
            self.bodies.append({"role": "user", "parts": parts})
        else:
            self.user_parts += parts
        self.expects_more = expects_more
        self.model_parts = None

    def add_deferred_media(self) -> None:
        """Add the media of results after the last result of their turn."""
        if self.ledger.media_after_results and self.user_parts is not None:
            self.user_parts += self.ledger.media_after_results
            self.ledger.media_after_results = []


def _mark_first_call(parts: list[Any]) -> bool:
    """Put the placeholder for a missing signature on the first call of `parts`. Return True if there is a call."""
    for index, part in enumerate(parts):
        if type(part) is dict and "functionCall" in part:
            if SIGNATURE not in part:
                parts[index] = {**part, SIGNATURE: _SKIP_SIGNATURE}
            return True
    return False


def encode_messages(messages: Any, ledger: Conversation, start: int = 0) -> list[Any]:
    """Encode the contents of a request, from the message with the index `start`.

    The messages before it are in the system instruction, or were encoded before.
    """
    builder = _ContentsBuilder(ledger)
    for index in range(start, len(messages)):
        message = messages[index]
        opaque = message.opaque
        ledger.path = ("messages", index)
        ledger.is_native = is_native = opaque is not None and opaque.dialect == DIALECT
        if is_native:
            body = _encode_native(message, ledger)
            if ledger.media_after_results:
                builder.add_deferred_media()
            builder.bodies.append(body)
            builder.user_parts = builder.model_parts = None  # nothing is added to a content of this wire
        else:
            _encode_foreign(message, ledger, builder)
    builder.add_deferred_media()
    return builder.bodies


def _encode_native(message: Message, ledger: Conversation) -> Any:
    content, opaque = message.content, message.opaque
    if is_unparsed(message, DIALECT):
        return content[0].value  # type: ignore[union-attr,index]
    is_model, spelling = message.role == "assistant", spelling_of(opaque, GeminiMessageSpelling)
    role = spelling.role or ("model" if is_model else "user")
    if (_ROLES[role] == "assistant") is not is_model:
        role = "model" if is_model else "user"
    body: dict[str, Any] = {} if spelling.has_no_role and not is_model else {"role": role}
    parts = [{"text": content}] if type(content) is str else encode_parts(content, ledger, message.role)
    if parts:
        body["parts"] = parts[0] if spelling.has_one_part and len(parts) == 1 else parts
    if message.name is not None or message.tool_call_id is not None:
        _lose_message_fields(message, ledger)
    return ledger.replay(body, opaque)


def encode_content(message: Message, ledger: Conversation, role: str) -> list[Any]:
    """Encode the parts of a message, without empty texts of other wires."""
    return encode_parts(message.parts, ledger, role)


def _encode_foreign(message: Message, ledger: Conversation, builder: _ContentsBuilder) -> None:
    role, content = message.role, message.content
    ledger.lose_opaque(message.opaque)
    if message.name is not None or message.tool_call_id is not None:
        _lose_message_fields(message, ledger)
    if role in ("system", "developer"):
        _encode_late_system(message, ledger, builder)
        return
    parts = [{"text": content}] if type(content) is str and content else encode_content(message, ledger, role)
    if role == "assistant":
        builder.add_model_parts(parts)
    elif role == "user":
        _encode_user(parts, ledger, builder)
    elif parts:
        builder.add_user_parts(parts, expects_more=True)


def _encode_user(parts: list[Any], ledger: Conversation, builder: _ContentsBuilder) -> None:
    if not parts:
        ledger.lose(
            "content", "empty", f"{DIALECT} rejects an empty content: {_PLACEHOLDER_TEXT} is sent", "approximated"
        )
        parts = [{"text": _PLACEHOLDER_TEXT}]
    results = [part for part in parts if _has_result(part)]
    others = [part for part in parts if not _has_result(part)] if results else parts
    if results:
        builder.add_user_parts(results, expects_more=True)
    if others:
        builder.add_user_parts(others)


def _encode_late_system(message: Message, ledger: Conversation, builder: _ContentsBuilder) -> None:
    """Encode a system or developer message after the start of the conversation, as marked text of the user."""
    parts = encode_content(message, ledger, "system")
    parts = [{**part, "text": wrap_reminder(part["text"])} if "text" in part else part for part in parts]
    ledger.lose(
        "role",
        f"{message.role}_late",
        f"{DIALECT} has system text only at the start: it is sent in a reminder of the user",
        "approximated",
    )
    if parts:
        builder.add_deferred_media()
        builder.add_user_parts(parts, expects_more=True)


def _has_result(part: Any) -> bool:
    """Return True if the encoded `part` is a result."""
    return type(part) is dict and ("functionResponse" in part or "function_response" in part)


def _lose_message_fields(message: Message, ledger: Conversation) -> None:
    if message.role == "tool":
        ledger.lose_around_result(message)
    else:
        ledger.lose_fields(message, "around", "name", "tool_call_id")


def encode_parts(parts: Any, ledger: Conversation, role: str, start: int = 0) -> list[Any]:
    """Encode the parts of a content, without empty texts of other wires. `start` is the index of the first part."""
    bodies: list[Any] = []
    is_native = ledger.is_native
    for index, part in enumerate(parts, start):
        ledger.part_index = index
        part_type = type(part)
        if part_type is ToolCall and (is_native or role == "assistant"):
            if part.runs or (made_by(part.opaque, DIALECT) and can_replay_arguments(part)) or ledger.of != "response":
                bodies.append(encode_call(part, ledger))
            else:
                ledger.lose_call(part)
        elif part_type is ToolResult and (is_native or role == "tool" or role == "user"):  # noqa: PLR1714
            bodies.append(encode_result(part, ledger))
        elif part_type is Opaque and part.dialect == DIALECT:
            bodies.append(part.value)
        elif (body := _encode_part(part, ledger, role)) is not None and (is_native or body != _EMPTY_TEXT_PART):
            bodies.append(body)
    ledger.part_index = None
    return bodies


def _encode_part(part: Part, ledger: Conversation, role: str) -> dict[str, Any] | None:
    """Encode one part, or record its loss and return None. Calls and results that the role may have are not handled."""
    match part:
        case Text():
            return encode_text(part, ledger)
        case Thinking() if role == "assistant" or ledger.is_native:
            return encode_thinking(part, ledger)
        case Image() | Document() | Audio() if role not in ("system", "developer"):
            return encode_media(part, ledger)
        case ServerToolCall() | ServerToolResult():
            return encode_server_part(part, ledger)
        case Refusal():
            ledger.lose("", "refusal", f"{DIALECT} has no refusals: text is sent", "approximated")
            return encode_text(Text(part.text, cache=part.cache, opaque=part.opaque), ledger)
    ledger.lose_part(part, f"a content of the {role} in {DIALECT}")
    return None


def decode_later(bodies: list[Any], _index: int, generated_count: int) -> list[Message] | None:
    """Decode later contents of a conversation, whose earlier calls have `generated_count` generated ids."""
    return decode_messages(bodies, generated_count)


def encode_later(messages: list[Message], start: int, model: str | None, quirks: Quirks) -> tuple[list[Any], Ledger]:
    """Encode later messages of a conversation, from the index `start`. Return the contents and the ledger."""
    ledger = Conversation(quirks, model)
    return encode_messages([None] * start + messages, ledger, start), ledger
