"""What the model says in a row, as one message of the assistant: words, reasoning, calls, the server's tools.

Rules of this file:
- The first part of a message item carries what the item says beside its content, so that the same items are
  written again.
- An item that follows reasoning keeps the server's id only while that reasoning stands before it.
- In a request, words of the assistant that come from elsewhere stand in items without an id, a text each. In
  a response they share an item, and every item gets an id made from the response and its place.
"""

from collections.abc import Callable, Mapping
from typing import Any

from toolwire.dialects.openai_responses.calls import (
    CALLS,
    RESULTS,
    decode_call,
    decode_result,
    encode_call,
    encode_result,
    take_spelled,
)
from toolwire.dialects.openai_responses.items import (
    decode_reasoning,
    decode_server_item,
    encode_reasoning,
    encode_server_call,
    encode_server_result,
)
from toolwire.dialects.openai_responses.parts import (
    DIALECT,
    ITEM,
    OUTPUTS,
    WIRE,
    decode_block,
    encode_output_text,
    encode_refusal,
    finish_output,
    lose_part,
)
from toolwire.ledger import Ledger, form_of, made_by
from toolwire.names import fingerprint
from toolwire.types import (
    Message,
    Opaque,
    Part,
    Refusal,
    Response,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

PLAIN_MESSAGE = 3
MESSAGE = Opaque(DIALECT, {}, {"said": {"type": "message"}})
EASY = Opaque(DIALECT, {}, {ITEM: {"type": "message"}, "easy": True})


def decode_answer(items: list[Any], place: int) -> Message:
    """Read the output of a response as the one message that it is."""
    turn = Turn(place)
    for item in items:
        turn.read(item)
    return Message("assistant", turn.parts, None, None, WIRE.plain)


def take_said(rest: dict[str, Any]) -> dict[str, Any]:
    """Take what a message item says of itself and what means nothing elsewhere."""
    said = take_spelled(rest)
    if "type" in rest:
        said["type"] = rest.pop("type")
    return said


class Turn:
    """What the model says in a row, as it is read; `place` keeps the made ids of two turns apart."""

    __slots__ = ("calls", "parts", "place", "reasoning")

    def __init__(self, place: int) -> None:
        self.parts: list[Part] = []
        self.place = place
        self.calls = 0
        self.reasoning: str | None = None

    def message(self) -> Message:
        """Give the message; one item with a string for its content is one string."""
        parts = self.parts
        part = parts[0]
        if len(parts) == 1 and type(part) is Text and "easy" in (form := form_of(part.opaque, DIALECT)):
            if part.opaque is EASY:
                return Message("assistant", part.text, None, None, MESSAGE)
            rest = part.opaque.value.get(ITEM, {})  # type: ignore[union-attr]
            form = {"said": form[ITEM]} if form[ITEM] else {}
            return Message("assistant", part.text, None, None, WIRE.own(rest, form))
        return Message("assistant", parts, None, None, WIRE.plain)

    def read(self, item: Any) -> None:
        """Read one item."""
        kind = item.get("type", "message") if type(item) is dict else None
        if type(kind) is not str:
            self.parts.append(Opaque(DIALECT, item))
        elif kind in CALLS:
            self.parts.append(decode_call(item, self.place, self.calls, self.reasoning))
            self.calls += 1
        elif kind == "message":
            self._read_words(item)
        elif kind == "reasoning":
            thinking = decode_reasoning(item)
            self.parts.append(thinking)
            self.reasoning = _id_of(thinking)
        elif kind in RESULTS:
            self.parts.append(decode_result(item))
        else:
            self.parts.append(decode_server_item(item))

    def _read_words(self, item: dict[str, Any]) -> None:
        content: Any = item.get("content")
        easy = type(content) is str
        if item.get("role") != "assistant" or not (easy or (type(content) is list and content)):
            self.parts.append(Opaque(DIALECT, item))
            return
        if easy and len(item) == PLAIN_MESSAGE and "type" in item and self.reasoning is None:
            self.parts.append(Text(content, opaque=EASY))
            return
        rest = item.copy()
        del rest["role"], rest["content"]
        form: dict[str, Any] = {ITEM: take_said(rest)}
        if self.reasoning is not None:
            form["reasoning"] = self.reasoning
        if easy:
            form["easy"] = True
            self.parts.append(Text(content, opaque=Opaque(DIALECT, {ITEM: rest} if rest else {}, form)))
            return
        self.parts.append(_first_of_item(decode_block(content[0], OUTPUTS), rest, form))
        self.parts += [_next_of_item(decode_block(block, OUTPUTS)) for block in content[1:]]


def _first_of_item(part: Any, rest: dict[str, Any], form: dict[str, Any]) -> Part:
    if type(part) is Opaque:
        return Opaque(DIALECT, part.value, {**form, "block": True, "rest": rest})
    value, inner = part.opaque.value, part.opaque.form
    opaque = Opaque(DIALECT, {**value, ITEM: rest} if rest else value, {**inner, **form} if inner else form)
    if type(part) is Refusal:
        return Refusal(part.text, opaque=opaque)
    return Text(part.text, part.citations, opaque=opaque)


def _next_of_item(part: Part) -> Part:
    return Opaque(DIALECT, part.value, {"block": True}) if type(part) is Opaque else part


def _id_of(part: Thinking) -> str | None:
    said = form_of(part.opaque, DIALECT).get("said", {})
    return said.get("id")  # type: ignore[no-any-return]


class Items:
    """The items written so far: `open` is the content of the message item that the next words may join."""

    __slots__ = ("_seed", "bodies", "custom", "kept", "ledger", "open", "response")

    def __init__(self, ledger: Ledger, response: Response | None = None) -> None:
        self.ledger = ledger
        self.response = response
        self.bodies: list[Any] = []
        self.custom: set[str | None] = set()
        self.kept: set[str | None] = set()
        self.open: list[Any] | None = None
        self._seed = ""

    def add(self, body: Any) -> None:
        """Add an item that is whole."""
        self.bodies.append(body)
        self.open = None

    def made_id(self, prefix: str, of: object) -> str:
        """Make the id of an item: in a response from all of it, in a request from its place."""
        if self.response is None:
            return f"{prefix}_{fingerprint((self.ledger.at, self.ledger.part, of))}"
        self._seed = self._seed or fingerprint(self.response)
        return f"{prefix}_{self._seed}{len(self.bodies):02d}"


def encode_answer(message: Message, items: Items) -> None:
    """Write an assistant's message, in a request or in a response."""
    ledger, parts = items.ledger, message.parts
    alone = len(parts) == 1
    items.open = None
    items.kept = set()
    for place, part in enumerate(parts):
        ledger.part = place
        if type(part) is Text and not part.text and not alone and not made_by(part.opaque, DIALECT):
            continue
        write = WRITERS.get(type(part))
        if write is None:
            lose_part(part, ledger, HOLDER)
        else:
            write(part, items)
    ledger.part = None
    items.open = None


def _follows(form: Mapping[str, Any], items: Items) -> bool:
    """Whether the reasoning that an item came after stands before it still."""
    return "reasoning" not in form or form["reasoning"] in items.kept


def _write_words(part: Text | Refusal, items: Items) -> None:
    ledger = items.ledger
    form = form_of(part.opaque, DIALECT)
    if ITEM in form and _follows(form, items):
        item = {"role": "assistant", **form[ITEM], **part.opaque.value.get(ITEM, {})}  # type: ignore[union-attr]
        items.add(item)
        if type(part) is Text and "easy" in form:
            item["content"] = part.text
            if part.citations:
                ledger.lose("citations", "citation", "the item has only a string")
            _lose_beside(part, ledger)
            return
        item["content"] = items.open = [_encode_block(part, ledger)]
    elif items.open is not None and (items.response is not None or made_by(part.opaque, DIALECT)):
        items.open.append(_encode_block(part, ledger))
    else:
        _write_foreign_words(part, items)


def _encode_block(part: Text | Refusal, ledger: Ledger) -> dict[str, Any]:
    return encode_output_text(part, ledger) if type(part) is Text else encode_refusal(part, ledger)  # type: ignore[arg-type]


def _lose_beside(part: Text, ledger: Ledger) -> None:
    """Lose what stands beside a text where only a string is said."""
    left = finish_output({}, part, ledger)
    for key, value in left.items():
        if value:
            ledger.lose(f"opaque.{key}", key, "the item has only a string")


def _write_foreign_words(part: Text | Refusal, items: Items) -> None:
    """Write words that no item of this wire held, or that lost their item."""
    ledger = items.ledger
    rest = part.opaque.value.get(ITEM, {}) if made_by(part.opaque, DIALECT) else {}  # type: ignore[union-attr]
    item = {"type": "message", "role": "assistant", **rest}
    if items.response is None and type(part) is Text and not part.citations:
        _lose_beside(part, ledger)
        items.add({**item, "content": part.text})
        return
    block = _encode_block(part, ledger)
    if items.response is None and type(part) is Text and not block["annotations"]:
        items.add({**item, "content": part.text})
        return
    item |= {"id": items.made_id("msg", part.text), "status": "completed", "content": [block]}
    items.add(item)
    if items.response is not None:
        items.open = item["content"]


def _write_call(call: ToolCall, items: Items) -> None:
    form = form_of(call.opaque, DIALECT)
    body = encode_call(call, items.ledger, keep_id=_follows(form, items))
    if items.response is not None and not made_by(call.opaque, DIALECT):
        body["id"] = items.made_id("ctc" if call.custom else "fc", call.id)
        if not call.custom:
            body.setdefault("status", "completed")
    if call.custom:
        items.custom.add(call.id)
    items.add(body)


def _write_thinking(part: Thinking, items: Items) -> None:
    """Write reasoning: what was read here as it was; any other can only be shown, never sent back."""
    ledger = items.ledger
    if made_by(part.opaque, DIALECT):
        items.add(encode_reasoning(part, ledger))
        items.kept.add(_id_of(part))
        return
    origin = "a user" if part.opaque is None else part.opaque.dialect
    if items.response is None or not part.text:
        ledger.lose("", "thinking", f"{DIALECT} takes back only its own reasoning, not that of {origin}")
        return
    if part.signature is not None:
        ledger.lose("signature", "thinking_signature", f"{DIALECT} cannot carry that of {origin}")
    ledger.lose_fields(part, "thinking", "redacted", "cache")
    ledger.lose_opaque(part.opaque)
    summary = [{"type": "summary_text", "text": part.text}]
    items.add({"type": "reasoning", "id": items.made_id("rs", part.text), "summary": summary})


def _write_opaque(part: Opaque, items: Items) -> None:
    form = form_of(part, DIALECT)
    if part.dialect != DIALECT:
        lose_part(part, items.ledger, HOLDER)
    elif ITEM in form:
        item = {"role": "assistant", **form[ITEM], **form["rest"]}
        items.add(item)
        item["content"] = items.open = [part.value]
    elif "block" not in form:
        items.add(part.value)
    elif items.open is not None:
        items.open.append(part.value)
    else:
        items.ledger.lose("", "opaque", "the item that held this block is not there")


def _write_server_item(part: ServerToolCall | ServerToolResult, items: Items) -> None:
    if not made_by(part.opaque, DIALECT):
        items.ledger.lose("", str(type(part).__struct_config__.tag), "another provider ran this tool")
    elif type(part) is ServerToolCall:
        items.add(encode_server_call(part, items.ledger))
    else:
        items.add(encode_server_result(part, items.ledger))  # type: ignore[arg-type]


def _write_result(part: ToolResult, items: Items) -> None:
    if items.response is None or made_by(part.opaque, DIALECT):
        items.add(encode_result(part, items.ledger, custom=part.tool_call_id in items.custom))
    else:
        lose_part(part, items.ledger, HOLDER)


HOLDER = "an assistant message"
WRITERS: Mapping[type, Callable[[Any, Items], None]] = {
    Text: _write_words,
    Refusal: _write_words,
    ToolCall: _write_call,
    Thinking: _write_thinking,
    ServerToolCall: _write_server_item,
    ServerToolResult: _write_server_item,
    ToolResult: _write_result,
    Opaque: _write_opaque,
}
