"""The items of a conversation, and the messages that they form.

Rules of this file:
- Successive items of the model form one assistant message: text, reasoning, calls, and items of the server's tools.
  The first part of a message item stores the other keys of the item.
- An item of the client that the dialect does not understand forms a message of its own, which holds all of it.
- In a request, each text of the assistant that came over another wire is an item without an id. In a response, such
  texts share an item, and every item gets an id that is derived from the response and the item's index.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_responses.calls import (
    BUILTIN_CALLS,
    BUILTIN_RESULTS,
    CALL_TYPES,
    RESULT_TYPES,
    Items,
    decode_builtin_call,
    decode_builtin_result,
    decode_call,
    decode_reasoning,
    decode_result,
    follows_reasoning,
    is_call,
    reasoning_id_of,
    write_call,
    write_reasoning,
    write_result,
)
from toolwire.dialects.openai_responses.parts import (
    DIALECT,
    WIRE,
    decode_inputs,
    decode_message_item,
    encode_input_part,
    encode_output_text,
    encode_refusal,
    finish_output,
    is_plain_text,
    item_keys_of,
    take_message_constants,
)
from toolwire.dialects.openai_responses.tools import (
    ToolLayoutReader,
    decode_server_item,
    encode_server_item,
    is_run_by_client,
)
from toolwire.encoding.ledger import (
    Ledger,
    is_unparsed,
    made_by,
    shared_spelling_of,
    spelling_of,
    take,
    take_entries,
)
from toolwire.encoding.quirks import Quirks
from toolwire.types import (
    Message,
    Opaque,
    Part,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolwire.types.spelling import MessageSpelling
from toolwire.types.spelling.openai_responses import QualifiedName, ResponsesCallSpelling, ResponsesOutputSpelling

_INPUT_ROLES = ("user", "system", "developer")
# openai 3.52.0, ResponseInputItemParam: items that a client adds (2026-11-20).
_CLIENT_ITEMS = frozenset(
    {
        "additional_tools",
        "apply_patch_call_output",
        "compaction_trigger",
        "computer_call_output",
        "configuration_update",
        "item_reference",
        "local_shell_call_output",
        "mcp_approval_response",
    }
)
ASSISTANT_MESSAGE = f"an assistant message of {DIALECT}"


def decode_messages(items: list[Any], tool_reader: ToolLayoutReader, first_index: int = 0) -> list[Message]:
    """Read the items of a request. `first_index` is the index of the first message.

    The tools that items declare are read by `tool_reader`, like those of the request.
    """
    messages: list[Message] = []
    model_items: list[Any] = []
    for item in items:
        item_type = item.get("type", "message") if type(item) is dict else None
        result = None
        if item_type == "message":
            is_of_model = item.get("role") == "assistant"
        elif item_type in RESULT_TYPES:
            is_of_model, result = False, decode_result(item)
        else:
            result = _decode_builtin_item(item, item_type, tool_reader)
            is_of_model = result is None and type(item_type) is str and item_type not in _CLIENT_ITEMS
        if is_of_model:
            model_items.append(item)
            continue
        if model_items:
            messages.append(_decode_model_items(model_items, first_index + len(messages)))
            model_items = []
        if result is not None:
            messages.append(Message("tool", [result], result.name, result.tool_call_id, WIRE.plain))
        elif item_type != "additional_tools" or not tool_reader.read_item(item, first_index + len(messages)):
            messages.append(_decode_client_item(item, item_type))
    if model_items:
        messages.append(_decode_model_items(model_items, first_index + len(messages)))
    return [_rename_calls(message, tool_reader.renamed) for message in messages] if tool_reader.renamed else messages


def _decode_builtin_item(item: Any, item_type: Any, tool_reader: ToolLayoutReader) -> ToolResult | None:
    """Read the result of a tool that OpenAI defines, or return None. Note the calls of shells that the server runs."""
    if (
        item_type == "shell_call"
        and type(call_id := item.get("call_id")) is str
        and not is_run_by_client("shell", item)
    ):
        tool_reader.hosted_shells.add(call_id)
    return decode_builtin_result(item, tool_reader) if type(item_type) is str and item_type in BUILTIN_RESULTS else None


def _rename_calls(message: Message, renamed: Mapping[tuple[str, str], str]) -> Message:
    """Return `message` with the flat name of each called tool that got another name because its own was taken."""
    if message.role != "assistant" or type(message.content) is str:
        return message
    return replace(message, content=[_rename_call(part, renamed) for part in message.parts])


def _rename_call(part: Part, renamed: Mapping[tuple[str, str], str]) -> Part:
    """Return a part of a message. A call gets the flat name of its tool."""
    if type(part) is not ToolCall:
        return part
    opaque, spelling = part.opaque, spelling_of(part.opaque, ResponsesCallSpelling)
    qualified_name = spelling.qualified_name or QualifiedName(None, part.name, part.name)
    flat = renamed.get((qualified_name.namespace or "", qualified_name.name))
    if flat is None or opaque is None:
        return part
    spelling = replace(spelling, qualified_name=replace(qualified_name, flat=flat))
    return replace(part, name=flat, opaque=replace(opaque, spelling=spelling))


def _decode_client_item(item: Any, item_type: Any) -> Message:
    """Decode an input item that is no tool result: a message, or else an item that stays unparsed."""
    if item_type == "message" and (role := item.get("role")) in _INPUT_ROLES:
        return _decode_message(item, role)
    return WIRE.unparsed_message(item)


def _decode_message(item: dict[str, Any], role: Any) -> Message:
    """Read one message item as a message of its own."""
    unparsed = item.copy()
    del unparsed["role"]
    spelling = MessageSpelling(constants=take_message_constants(unparsed))
    content = take(unparsed, "content", str)
    if content is None:
        content = decode_inputs(take_entries(unparsed, "content"))
    return Message(role, content, None, None, WIRE.mark(unparsed, spelling))


def _decode_model_items(items: list[Any], id_seed: int) -> Message:
    """Read successive items of the model in a request. The string of a single message item is a string here, too."""
    item = items[0]
    if len(items) == 1 and item.get("type", "message") == "message" and type(item.get("content")) is str:
        return _decode_message(item, "assistant")
    return Message("assistant", _decode_items(items, id_seed, from_client=True), None, None, WIRE.plain)


def decode_answer(items: list[Any], id_seed: int) -> Message:
    """Read the output of a response as one message. Ids are generated from `id_seed`."""
    return Message("assistant", _decode_items(items, id_seed), None, None, WIRE.plain)


def _decode_items(items: list[Any], id_seed: int, *, from_client: bool = False) -> list[Part]:
    """Read items as parts. `id_seed` is a number of the turn: the ids that are generated in two turns differ.

    A call of a tool that OpenAI defines is a call for the client if the client sent it (`from_client`). In a response
    it is an item of the server, because a response does not say what the client declared.
    """
    parts: list[Part] = []
    call_count = 0
    reasoning_id: str | None = None
    for item in items:
        item_type = item.get("type", "message") if type(item) is dict else None
        if is_call(item, item_type):
            call: Part | None = decode_call(item, id_seed, call_count, reasoning_id)
        else:
            may_be_builtin = from_client and type(item_type) is str and item_type in BUILTIN_CALLS
            call = decode_builtin_call(item, id_seed, call_count, reasoning_id) if may_be_builtin else None
        if call is not None:
            parts.append(call)
            call_count += 1
        elif item_type == "reasoning":
            parts.append(thinking := decode_reasoning(item))
            reasoning_id = reasoning_id_of(thinking)
        else:
            parts += decode_other_item(item, item_type, reasoning_id)
    return parts


def decode_other_item(item: Any, item_type: Any, reasoning_id: str | None) -> list[Part]:
    """Read an item of the model that is neither a call nor reasoning."""
    if item_type == "message":
        return decode_message_item(item, reasoning_id)
    if item_type in RESULT_TYPES:
        return [decode_result(item)]
    return [decode_server_item(item) if type(item_type) is str else Opaque(DIALECT, item)]


def encode_messages(messages: Any, items: Items, first_index: int = 0, end_index: int | None = None) -> list[Any]:
    """Write the messages from `first_index` to before `end_index`. Return all items that were written so far."""
    for index in range(first_index, len(messages) if end_index is None else min(end_index, len(messages))):
        items.ledger.path = ("messages", index)
        encode_message(messages[index], items)
    items.ledger.path = ()
    return items.bodies


def encode_message(message: Message, items: Items) -> None:
    """Append the items of one message."""
    ledger, content, opaque, role = items.ledger, message.content, message.opaque, message.role
    ledger.is_native = opaque is not None and opaque.dialect == DIALECT
    if (opaque is not None and opaque.value) or message.name is not None or message.tool_call_id is not None:
        _lose_message_fields(message, ledger)
    item_count = len(items.bodies)
    if type(content) is str:
        blocks = [{"type": "input_text", "text": content}] if ledger.keeps_blocks(message) else content
        _add_message_item(message, blocks, items)
    elif role == "assistant":
        encode_answer(message, items)
    elif role == "tool":
        _encode_results(message, items)
    elif is_unparsed(message, DIALECT):
        items.add(content[0].value)  # type: ignore[union-attr,index]
    else:
        _encode_input_message(message, items)
    if len(items.bodies) == item_count:
        ledger.lose("", "message", f"{DIALECT} cannot express any part of this message")


def _lose_message_fields(message: Message, ledger: Ledger) -> None:
    """Report the losses of the fields of `message` that an item does not have."""
    ledger.lose_opaque(message.opaque)
    if message.role == "tool" and message.parts:
        ledger.lose_around_result(message)
        return
    for field in ("tool_call_id", "name"):
        if getattr(message, field) is not None:
            ledger.lose(field, field, f"a {message.role} message of {DIALECT} has no field for it")


def _add_message_item(message: Message, content: Any, items: Items) -> None:
    """Append a message item with this content. None means an item without content."""
    role, opaque, ledger = message.role, message.opaque, items.ledger
    is_typed = not ledger.is_native or "type" in shared_spelling_of(opaque, DIALECT, MessageSpelling).constants
    body: dict[str, Any] = {"type": "message"} if is_typed else {}
    body["role"] = ledger.supported_role(role)
    if content is not None:
        body["content"] = content
    if ledger.is_native:
        ledger.replay(body, opaque)
    items.add(body)


def _encode_results(message: Message, items: Items) -> None:
    """Append the results of a tool message."""
    ledger = items.ledger
    for index, part in enumerate(message.parts):
        ledger.part_index = index
        if type(part) is ToolResult:
            write_result(part, items)
        else:
            ledger.lose_part(part, f"a tool message of {DIALECT}")
    ledger.part_index = None


def _encode_input_message(message: Message, items: Items) -> None:
    """Append the items of a message of the client. A result among its parts is an item of its own."""
    ledger, parts = items.ledger, message.parts
    blocks: list[Any] = []
    has_result = False
    for part in ledger.each_part(parts):
        if type(part) is ToolResult:
            if blocks:
                _add_message_item(message, _simplify_content(blocks, message, ledger), items)
            blocks, has_result = [], True
            write_result(part, items)
        else:
            encode_input_part(part, blocks, ledger, f"a {message.role} message")
    if blocks:
        _add_message_item(message, _simplify_content(blocks, message, ledger), items)
    elif ledger.is_native and not has_result:
        _add_message_item(message, None, items)
    elif not parts:
        _add_message_item(message, "", items)


def _simplify_content(blocks: list[Any], message: Message, ledger: Ledger) -> Any:
    """Return one plain text of another wire as a string, and any other content as it is."""
    is_text = not ledger.is_native and len(blocks) == 1 and is_plain_text(blocks[0])
    return blocks[0]["text"] if is_text and not ledger.keeps_blocks(message) else blocks


def encode_answer(message: Message, items: Items) -> None:
    """Append the items of an assistant message, in a request or in a response."""
    ledger, content = items.ledger, message.content
    parts: Any = content if type(content) is list else message.parts
    is_single = len(parts) == 1
    items.open_content = None
    items.reasoning_ids.clear()
    for index, part in enumerate(parts):
        ledger.part_index = index
        part_type = type(part)
        if part_type is ToolCall:
            write_call(part, items)
        elif part_type is Text and not is_single and not part.text and not made_by(part.opaque, DIALECT):
            continue
        elif part_type in PART_WRITERS:
            PART_WRITERS[part_type](part, items)
        else:
            ledger.lose_part(part, ASSISTANT_MESSAGE)
    ledger.part_index = None
    items.open_content = None


def _write_output(part: Text | Refusal, items: Items) -> None:
    """Append a text or a refusal: as the first block of its own item, as a block of the open item, or as a new item."""
    ledger, spelling = items.ledger, spelling_of(part.opaque, ResponsesOutputSpelling)
    if spelling.item is not None and follows_reasoning(spelling.reasoning_id, items):
        item = {"role": "assistant", **spelling.item, **item_keys_of(part.opaque.value)}  # type: ignore[union-attr]
        items.add(item)
        if type(part) is Text and spelling.has_text_content:
            item["content"] = part.text
            if part.citations:
                ledger.lose("citations", "citation", "the item has only a string")
            _lose_text_keys(part, ledger)
            return
        item["content"] = items.open_content = [_encode_output_block(part, ledger)]
    elif items.open_content is not None and (items.response is not None or made_by(part.opaque, DIALECT)):
        items.open_content.append(_encode_output_block(part, ledger))
    else:
        _write_new_message(part, items)


def _encode_output_block(part: Text | Refusal, ledger: Ledger) -> dict[str, Any]:
    return encode_output_text(part, ledger) if type(part) is Text else encode_refusal(part, ledger)  # type: ignore[arg-type]


def _lose_text_keys(part: Text, ledger: Ledger) -> None:
    """Report the unparsed keys of a text as losses, because its item has only a string."""
    unparsed = finish_output({}, part, ledger)
    for key, value in unparsed.items():
        if value:
            ledger.lose(f"opaque.{key}", key, "the item has only a string")


def _write_new_message(part: Text | Refusal, items: Items) -> None:
    """Append a new item with a text or a refusal that came over another wire, or whose item is gone."""
    ledger = items.ledger
    item_keys = item_keys_of(part.opaque.value) if made_by(part.opaque, DIALECT) else {}  # type: ignore[union-attr]
    item = {"type": "message", "role": "assistant", **item_keys}
    if items.response is None and type(part) is Text and not part.citations:
        _lose_text_keys(part, ledger)
        items.add({**item, "content": part.text})
        return
    block = _encode_output_block(part, ledger)
    if items.response is None and type(part) is Text and not block["annotations"]:
        items.add({**item, "content": part.text})
        return
    item |= {"id": items.generate_id("msg", part.text), "status": "completed", "content": [block]}
    items.add(item)
    if items.response is not None:
        items.open_content = item["content"]


def _write_opaque(part: Opaque, items: Items) -> None:
    """Append an item, or a block of an item, that was not understood. One of another wire is reported as a loss."""
    spelling = spelling_of(part, ResponsesOutputSpelling)
    if part.dialect != DIALECT:
        items.ledger.lose_part(part, ASSISTANT_MESSAGE)
    elif spelling.item is not None:
        item = {"role": "assistant", **spelling.item}
        items.add(item)
        item["content"] = items.open_content = [part.value]
    elif not spelling.is_block:
        items.add(part.value)
    elif items.open_content is not None:
        items.open_content.append(part.value)
    else:
        items.ledger.lose("", "opaque", "the message item around this block is gone")


def _write_server_item(part: ServerToolCall | ServerToolResult, items: Items) -> None:
    """Append an item of a tool that OpenAI's server ran."""
    body = encode_server_item(part, items.ledger)
    if body is not None:
        items.add(body)


def _write_result(part: ToolResult, items: Items) -> None:
    """Append the item of a result. A response can have one only if this wire sent it."""
    if items.response is None or made_by(part.opaque, DIALECT):
        write_result(part, items)
    else:
        items.ledger.lose_part(part, ASSISTANT_MESSAGE)


PART_WRITERS: Mapping[type, Callable[[Any, Items], None]] = {
    Text: _write_output,
    Refusal: _write_output,
    Thinking: write_reasoning,
    ServerToolCall: _write_server_item,
    ServerToolResult: _write_server_item,
    ToolResult: _write_result,
    Opaque: _write_opaque,
}


_INDEPENDENT_TYPES = frozenset({"message", "reasoning", *CALL_TYPES, *RESULT_TYPES})


def decode_later(items: list[Any], first_index: int, _generated_count: int) -> list[Message] | None:
    """Read later items of a conversation. Return None if one of them may depend on earlier items.

    `first_index` is the index of their first message.
    """
    for item in items:
        item_type = item.get("type", "message") if type(item) is dict else None
        if type(item_type) is not str or item_type not in _INDEPENDENT_TYPES:
            return None
    return decode_messages(items, ToolLayoutReader([]), first_index)


def encode_later(
    messages: list[Message], first_index: int, model: str | None, quirks: Quirks
) -> tuple[list[Any], Ledger]:
    """Write later messages of a conversation, of which the first has the index `first_index`."""
    ledger = Ledger(WIRE, quirks)
    ledger.model = model
    return encode_messages([None] * first_index + messages, Items(ledger), first_index), ledger
