"""Contents of a generateContent conversation: one canonical message for each.

Rules of this file:
- A content that was read here is written as that content. What comes from elsewhere is grouped: the calls of
  one turn stand in one content of the model, and all their results, with the user's words after them, in one
  of the user.
- A system or developer message after the conversation began is said by the user, with a mark.
- The first call of a turn from elsewhere says for itself that it has no signature, where the model wants one.
  It does so in every turn, not only in the last: what was sent once never changes.
"""

from typing import Any

from msgspec import Struct

from toolwire.dialects.gemini.calls import (
    MadeIds,
    came_whole,
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
    decode_kind,
    encode_media,
    encode_server_part,
    encode_text,
    encode_thinking,
    split,
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

_EMPTY = "(empty)"
_NO_WORDS = {"text": ""}
# https://ai.google.dev/gemini-api/docs/thought-signatures (2026-11-20).
_SKIP = "skip_thought_signature_validator"
_ROLES: dict[object, Role] = {
    **dict.fromkeys(("user", "function", "tool", None), "user"),
    **dict.fromkeys(("model", "assistant"), "assistant"),
}
_COMMON = frozenset({"user", "model"})


def decode_messages(bodies: list[Any], made: int = 0) -> list[Message]:
    """Read the contents of a request; so many ids were `made` before. Link results to the calls before them."""
    ids = MadeIds(bodies, made=made)
    return _linked([_decode_message(body, ids) for body in bodies])


def _linked(messages: list[Message]) -> list[Message]:
    """Give each result that names no call the id of the call which it answers."""
    if _names_its_calls(messages):
        return messages
    linked: dict[int, list[Part]] = {}
    for (place, index), (_, call) in link_results(messages, by_order=True).items():
        parts = linked.get(place) or messages[place].parts
        result: Any = parts[index]
        if result.tool_call_id != call.id:
            linked[place] = [*parts[:index], link_result(result, call), *parts[index + 1 :]]
    return [
        Message(message.role, linked[place], opaque=message.opaque) if place in linked else message
        for place, message in enumerate(messages)
    ]


def _names_its_calls(messages: list[Message]) -> bool:
    """Return True if each result has the id of a call before it."""
    ids = set[str | None]()
    for message in messages:
        content: Any = message.content
        for part in () if type(content) is str else content:
            if type(part) is ToolCall:
                ids.add(part.id)
            elif type(part) is ToolResult and part.tool_call_id not in ids:
                return False
    return True


def _decode_message(body: Any, ids: MadeIds) -> Message:
    """Read one content; one that is not understood is kept whole."""
    role: Any = body.get("role") if type(body) is dict else 0
    speaker = _ROLES.get(role) if role is None or type(role) is str else None
    if speaker is None:
        return WIRE.unparsed_message(body)
    ids.index = 0
    unparsed = body.copy()
    if role is not None:
        del unparsed["role"]
    content, has_one_part = take_parts(unparsed, ids)
    if speaker == "user":
        speaker = _speaker(content)
    spelling = GeminiMessageSpelling(
        role=None if role in _COMMON else role, has_no_role=role is None, has_one_part=has_one_part
    )
    return Message(speaker, content, opaque=WIRE.mark(unparsed, spelling))


def _speaker(content: str | list[Part]) -> Role:
    """Return the role of a content of the user: results alone are the tool's."""
    if type(content) is str or not content:
        return "user"
    for part in content:
        if type(part) is not ToolResult:
            return "user"
    return "tool"


def take_parts(unparsed: dict[str, Any], ids: MadeIds) -> tuple[str | list[Part], bool]:
    """Take the parts out of the unparsed keys of a content. Return them, and True if there was one and no list."""
    bodies = unparsed.get("parts")
    if type(bodies) is dict:
        return [read_part(unparsed.pop("parts"), ids)], True
    if type(bodies) is not list or not bodies:
        return [], False
    del unparsed["parts"]
    return _decode_parts(bodies, ids), False


def _decode_parts(bodies: list[Any], ids: MadeIds) -> str | list[Part]:
    if len(bodies) == 1 and type(bodies[0]) is dict and len(bodies[0]) == 1:
        text = bodies[0].get("text")
        if type(text) is str:
            return text
    return [read_part(body, ids) for body in bodies]


def read_part(body: Any, ids: MadeIds) -> Part:
    """Read one part; a part that is not understood is kept whole."""
    split_body = split(body) if type(body) is dict else None
    if split_body is None:
        return Opaque(DIALECT, body)
    kind, value, unparsed, spelling = split_body
    match kind:
        case "functionCall":
            part = decode_call(value, unparsed, spelling, ids)
        case "functionResponse":
            part = decode_result(value, unparsed, spelling)
        case _:
            part = decode_kind(kind, value, unparsed, spelling)
    return Opaque(DIALECT, body) if part is None else part


class _ContentsSoFar(Struct):
    """The contents written so far, and the two that what comes from elsewhere may still join.

    `open` holds the parts of the user's last content, and `waiting` says whether words are still to come to
    it; `said` holds the parts of the model's last one, and `calls` says whether there are calls among them.
    """

    ledger: Conversation
    bodies: list[Any] = []
    open: list[Any] | None = None
    said: list[Any] | None = None
    waiting: bool = False
    calls: bool = False

    def model(self, parts: list[Any]) -> None:
        """Add what the model said elsewhere, to its last content if nobody spoke in between."""
        if not parts:
            return
        if self.ledger.below:
            self.settle()
        if self.ledger.skips_signatures:
            self.calls = (self.said is not None and self.calls) or _excuse_first_call(parts)
        if self.said is None:
            self.said = parts
            self.bodies.append({"role": "model", "parts": parts})
        else:
            self.said += parts
        self.open = None

    def user(self, parts: list[Any], *, more: bool = False) -> None:
        """Add what the user says, to a content that waits for it; `more` says that it goes on waiting."""
        if not more and self.ledger.below:
            self.settle()
        if self.open is None or not (self.waiting or more):
            self.open = parts
            self.bodies.append({"role": "user", "parts": parts})
        else:
            self.open += parts
        self.waiting = more
        self.said = None

    def settle(self) -> None:
        """Put the media of results below the last result of their turn."""
        if self.ledger.below and self.open is not None:
            self.open += self.ledger.below
            self.ledger.below = []


def _excuse_first_call(parts: list[Any]) -> bool:
    """Say of the first call that it has no signature; return True if there is a call."""
    for place, part in enumerate(parts):
        if type(part) is dict and "functionCall" in part:
            if SIGNATURE not in part:
                parts[place] = {**part, SIGNATURE: _SKIP}
            return True
    return False


def encode_messages(messages: Any, ledger: Conversation, first: int = 0) -> list[Any]:
    """Write the contents of a request from `first` on; what stands before it is the system instruction's."""
    turns = _ContentsSoFar(ledger)
    for place in range(first, len(messages)):
        message = messages[place]
        opaque = message.opaque
        ledger.path = ("messages", place)
        ledger.is_native = own = opaque is not None and opaque.dialect == DIALECT
        if own:
            body = _encode_own(message, ledger)
            if ledger.below:
                turns.settle()
            turns.bodies.append(body)
            turns.open = turns.said = None  # nothing joins a content that was read here
        else:
            _encode_foreign(message, ledger, turns)
    turns.settle()
    return turns.bodies


def _encode_own(message: Message, ledger: Conversation) -> Any:
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
        _lose_around(message, ledger)
    return ledger.replay(body, opaque)


def encode_content(message: Message, ledger: Conversation, role: str) -> list[Any]:
    """Write the parts of a message; one from elsewhere that says nothing is left out."""
    return encode_parts(message.parts, ledger, role)


def _encode_foreign(message: Message, ledger: Conversation, turns: _ContentsSoFar) -> None:
    role, content = message.role, message.content
    ledger.lose_opaque(message.opaque)
    if message.name is not None or message.tool_call_id is not None:
        _lose_around(message, ledger)
    if role in ("system", "developer"):
        _encode_late(message, ledger, turns)
        return
    parts = [{"text": content}] if type(content) is str and content else encode_content(message, ledger, role)
    if role == "assistant":
        turns.model(parts)
    elif role == "user":
        _encode_user(parts, ledger, turns)
    elif parts:
        turns.user(parts, more=True)


def _encode_user(parts: list[Any], ledger: Conversation, turns: _ContentsSoFar) -> None:
    if not parts:
        ledger.lose("content", "empty", f"{DIALECT} refuses an empty content", "approximated")
        parts = [{"text": _EMPTY}]
    results = [part for part in parts if _is_result(part)]
    words = [part for part in parts if not _is_result(part)] if results else parts
    if results:
        turns.user(results, more=True)
    if words:
        turns.user(words)


def _encode_late(message: Message, ledger: Conversation, turns: _ContentsSoFar) -> None:
    """Say in the user's turn what has no place of its own."""
    parts = encode_content(message, ledger, "system")
    parts = [{**part, "text": wrap_reminder(part["text"])} if "text" in part else part for part in parts]
    ledger.lose("role", f"{message.role}_late", "said by the user where it stands", "approximated")
    if parts:
        turns.settle()
        turns.user(parts, more=True)


def _is_result(part: Any) -> bool:
    """Whether a part that was written is a result."""
    return type(part) is dict and ("functionResponse" in part or "function_response" in part)


def _lose_around(message: Message, ledger: Conversation) -> None:
    if message.role == "tool":
        ledger.lose_around_result(message)
    else:
        ledger.lose_fields(message, "around", "name", "tool_call_id")


def encode_parts(parts: Any, ledger: Conversation, role: str, first: int = 0) -> list[Any]:
    """Write the parts of a content; one from elsewhere that says nothing is left out."""
    bodies: list[Any] = []
    own = ledger.is_native
    for place, part in enumerate(parts, first):
        ledger.part_index = place
        kind = type(part)
        if kind is ToolCall and (own or role == "assistant"):
            if part.runs or (made_by(part.opaque, DIALECT) and came_whole(part)) or ledger.of != "response":
                bodies.append(encode_call(part, ledger))
            else:
                ledger.lose_call(part)
        elif kind is ToolResult and (own or role == "tool" or role == "user"):  # noqa: PLR1714
            bodies.append(encode_result(part, ledger))
        elif kind is Opaque and part.dialect == DIALECT:
            bodies.append(part.value)
        elif (body := _encode_part(part, ledger, role)) is not None and (own or body != _NO_WORDS):
            bodies.append(body)
    ledger.part_index = None
    return bodies


def _encode_part(part: Part, ledger: Conversation, role: str) -> dict[str, Any] | None:
    """Write one part that is no call or result of its role, or lose it by name."""
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
            ledger.lose("", "refusal", f"{DIALECT} has no refusal in a content; said as text", "approximated")
            return encode_text(Text(part.text, cache=part.cache, opaque=part.opaque), ledger)
    ledger.lose_part(part, f"a content of the {role} in {DIALECT}")
    return None


def decode_later(bodies: list[Any], _place: int, made: int) -> list[Message] | None:
    """Read contents that stand after so many calls without an id, and need nothing else of what stands before."""
    return decode_messages(bodies, made)


def encode_later(messages: list[Message], place: int, model: str | None, quirks: Quirks) -> tuple[list[Any], Ledger]:
    """Write messages that stand at a place of their conversation, and need nothing of what stands before."""
    ledger = Conversation(quirks, model)
    return encode_messages([None] * place + messages, ledger, place), ledger
