"""Calls, results and reasoning of Responses, each of which is an item.

Rules of this file:
- The text of arguments is written byte for byte as it was read, as long as it still has the meaning of the arguments.
- The server generates the `id` of a call item. A call that was read here keeps it as long as the reasoning before the
  call is still there. In a request, no other call gets an `id`.
- The status of an item shows how much of it was generated. Only "incomplete" changes what a call means.
- Reasoning is written exactly as it was read, because the server looks up its id or decrypts its content.
"""

from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from toolwire.dialects.openai_responses.parts import (
    DIALECT,
    PLAIN_TEXT_KEY_COUNT,
    WIRE,
    decode_inputs,
    encode_input_part,
    is_plain_text,
    lose_cache,
    take_item_constants,
)
from toolwire.dialects.openai_responses.tools import (
    BUILTIN_CLIENT_TOOLS,
    ToolLayoutReader,
    ToolLayoutWriter,
    flat_name_of,
    flat_names,
    is_run_by_client,
    take_client_keys,
)
from toolwire.encoding.calls import (
    ERROR,
    Arguments,
    arguments_as_object,
    mark_error,
    read_error,
    spell_value,
    take_arguments,
    take_free_text,
    take_value,
)
from toolwire.encoding.finish import cut_off, reject_call
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take
from toolwire.encoding.parts import without_mark
from toolwire.types import Opaque, Part, Response, Text, Thinking, ToolCall, ToolResult
from toolwire.types.spelling.openai_responses import (
    QualifiedName,
    ResponsesCallSpelling,
    ResponsesResultSpelling,
    ResponsesThinkingSpelling,
    ToolPlace,
)
from toolwire.wire.arguments import argument_text, format_arguments, parse_arguments
from toolwire.wire.names import fingerprint, generate_call_id, is_generated_id

BUILTIN_CALLS = {f"{name}_call": name for name in BUILTIN_CLIENT_TOOLS}
BUILTIN_RESULTS = {tool.result_type: name for name, tool in BUILTIN_CLIENT_TOOLS.items()}
CALL_TYPES = ("function_call", "custom_tool_call")
# https://docs.x.ai/docs/guides/tools/overview (2026-11-20): the functions that xAI's `x_search` calls and runs itself.
_XAI_SERVER_TOOLS = ("x_keyword_search", "x_semantic_search", "x_user_search", "x_thread_fetch", "view_x_video")
RESULT_TYPES = ("function_call_output", "custom_tool_call_output")
BLANK_LINE = "\n\n"
TEXT_TYPES = {"summary": "summary_text", "content": "reasoning_text"}


def is_call(item: dict[str, Any], item_type: Any) -> bool:
    """Return True if an item of `item_type` is a call for the client to run.

    xAI also sends calls that it ran itself as `custom_tool_call` (https://github.com/vercel/ai/issues/10607).
    """
    if item_type != CALL_TYPES[1]:
        return item_type in CALL_TYPES
    return item.get("name") not in _XAI_SERVER_TOOLS and not str(item.get("call_id")).startswith("xs_call_")


def decode_call(item: dict[str, Any], id_seed: int, index: int, reasoning_id: str | None = None) -> Part:
    """Read one call of a function (JSON arguments) or of a custom tool (free text).

    - `id_seed`: a number of the turn, from which an id is generated if the call has none.
    - `index`: the index of the call in its turn.
    - `reasoning_id`: the id of the reasoning before the call.
    """
    name, is_custom = item.get("name"), item["type"] == "custom_tool_call"
    if type(name) is not str or (is_custom and type(item.get("input")) is not str):
        return Opaque(DIALECT, item)
    unparsed = item.copy()
    del unparsed["type"], unparsed["name"]
    constants = take_item_constants(unparsed)
    is_complete = unparsed.get("status") != "incomplete"
    if not is_complete:
        del unparsed["status"]
    call_id, id_is_escaped = _take_id(unparsed)
    name, name_is_escaped, qualified_name = _read_name(name, unparsed)
    parsed = take_free_text(unparsed) if is_custom else take_arguments(unparsed, objects=is_complete)
    (arguments, raw, error), has_arguments = parsed
    spelling = ResponsesCallSpelling(
        constants=constants,
        reasoning_id=reasoning_id,
        is_escaped=id_is_escaped or name_is_escaped,
        has_no_id=call_id is None,
        has_no_arguments=not has_arguments,
        qualified_name=qualified_name,
    )
    call_id, opaque = generate_call_id(id_seed, index) if call_id is None else call_id, WIRE.mark(unparsed, spelling)
    call = ToolCall(call_id, name, arguments, index, True, raw, error, is_custom, opaque=opaque)
    return call if is_complete else cut_off(call)


def _read_name(name: str, unparsed: dict[str, Any]) -> tuple[str, bool, QualifiedName | None]:
    """Return the name of a tool, whether it had an escape, and its qualified name if it is in a namespace."""
    name, is_escaped = WIRE.restore_name(name)
    namespace = take(unparsed, "namespace", str)
    if namespace is None:
        return name, is_escaped, None
    flat = flat_name_of(namespace, name)
    return flat, is_escaped, QualifiedName(namespace, name, flat)


def _write_name(
    name: str, spelling: ResponsesCallSpelling | ResponsesResultSpelling, body: dict[str, Any], ledger: Ledger
) -> None:
    """Write the name of a tool as the server or the declaration spelled it, unless `name` is another tool by now."""
    qualified_name = spelling.qualified_name
    if qualified_name is not None and qualified_name.flat == name:
        name = qualified_name.name
        if qualified_name.namespace is not None:
            body["namespace"] = qualified_name.namespace
    body["name"] = ledger.names.write(name) if spelling.is_escaped else name


def decode_builtin_call(item: dict[str, Any], id_seed: int, index: int, reasoning_id: str | None) -> ToolCall | None:
    """Read a call of a tool that OpenAI defines, as `decode_call` does. Return None if the client does not run it."""
    builtin = BUILTIN_CALLS[item["type"]]
    arguments_key = BUILTIN_CLIENT_TOOLS[builtin].arguments_key
    if not is_run_by_client(builtin, item) or type(item.get(arguments_key)) not in (
        (dict, str) if arguments_key == "arguments" else (dict,)
    ):
        return None
    unparsed = item.copy()
    del unparsed["type"]
    constants = {**take_item_constants(unparsed), **take_client_keys(unparsed)}
    call_id, is_escaped = _take_id(unparsed)
    spelling = ResponsesCallSpelling(
        constants=constants,
        builtin=builtin,
        reasoning_id=reasoning_id,
        is_escaped=is_escaped,
        has_no_id=call_id is None,
    )
    call_id = generate_call_id(id_seed, index) if call_id is None else call_id
    if unparsed.get("status") == "incomplete":  # the arguments stay among the unparsed keys
        return reject_call(ToolCall(call_id, builtin, {}, index, opaque=WIRE.mark(unparsed, spelling)), None)
    arguments, raw, error = _take_builtin_arguments(unparsed, arguments_key)
    return ToolCall(call_id, builtin, arguments, index, True, raw, error, opaque=WIRE.mark(unparsed, spelling))


def _take_builtin_arguments(unparsed: dict[str, Any], key: str) -> Arguments:
    """Remove the arguments of a built-in tool's call from its unparsed keys, and return them."""
    return take_arguments(unparsed)[0] if key == "arguments" else (unparsed.pop(key), None, None)


def _encode_builtin_call(call: ToolCall, builtin: str, items: "Items") -> dict[str, Any]:
    """Write a call of the tool `builtin`, which OpenAI defines.

    A call that came over another wire gets the keys that clients of OpenAI require.
    """
    ledger, spelling, builtin_tool = (
        items.ledger,
        spelling_of(call.opaque, ResponsesCallSpelling),
        BUILTIN_CLIENT_TOOLS[builtin],
    )
    is_native = made_by(call.opaque, DIALECT)
    items.result_kinds[call.id] = builtin
    body: dict[str, Any] = {
        "type": f"{builtin}_call",
        **({builtin_tool.arguments_key: call.plain_arguments} if call.complete else {}),
    }
    if is_native and call.complete and builtin_tool.arguments_key == "arguments" and call.raw is not None:
        body[builtin_tool.arguments_key] = argument_text(call)
    call_id = ledger.ids.call(call.id, is_native=is_native and not spelling.is_escaped)
    if not (spelling.has_no_id and is_generated_id(call.id)):
        body["call_id"] = call_id
    if call.name != builtin:
        ledger.lose("name", "own_tool", f"the name of this tool in {DIALECT} is {builtin}")
    ledger.lose_fields(call, "own_tool", "custom")
    lose_cache(call, ledger)
    ledger.replay(body, call.opaque)
    if not follows_reasoning(spelling.reasoning_id, items):
        body.pop("id", None)
    if is_native:
        return body
    return {
        **body,
        "id": items.generate_id(_ID_PREFIXES[builtin], call.id),
        "status": "completed",
        **builtin_tool.constants,
    }


_ID_PREFIXES = {"tool_search": "tsc", "apply_patch": "apc", "shell": "sh", "local_shell": "lsh"}


def decode_builtin_result(item: dict[str, Any], tool_reader: ToolLayoutReader) -> ToolResult | None:
    """Read the result of a tool that OpenAI defines. Return None if the server ran it."""
    builtin, unparsed = BUILTIN_RESULTS[item["type"]], item.copy()
    call_id = item.get("call_id")
    if not is_run_by_client(builtin, item) or (type(call_id) is str and call_id in tool_reader.hosted_shells):
        return None
    del unparsed["type"]
    id_key = "call_id" if type(call_id) is str else "id"
    call_id, is_escaped = take(unparsed, id_key, str), False
    constants = {**take_item_constants(unparsed), **take_client_keys(unparsed)}
    is_error = unparsed.get("status") == "failed"
    if is_error:
        del unparsed["status"]
    if call_id is not None:
        call_id, is_escaped = WIRE.restore_id(call_id)
    layout = _take_found_tools(unparsed, tool_reader) if builtin == "tool_search" else None
    content = _take_builtin_output(unparsed, builtin) if layout is None else _tools_text(layout)
    spelling = ResponsesResultSpelling(
        constants=constants,
        builtin=builtin,
        id_key=id_key,
        tools=layout,
        is_escaped=is_escaped,
        has_no_output=content is None,
    )
    content = content or ""
    if builtin == "local_shell":
        content, is_error = read_error(content)
    return ToolResult(call_id, builtin, content, is_error, opaque=WIRE.mark(unparsed, spelling))


def _take_found_tools(unparsed: dict[str, Any], reader: ToolLayoutReader) -> list[ToolPlace] | None:
    """Remove the tools that a search found from `unparsed`. They become tools of the request. Return their layout."""
    if type(unparsed.get("tools")) is not list:
        return None
    layout, contradictions = reader.read_result(unparsed.pop("tools"))
    if contradictions:
        unparsed["tools"] = contradictions
    return layout


def _tools_text(layout: list[ToolPlace] | None) -> str | None:
    """Return the content of the result of a search: the names of the tools that it found."""
    return None if layout is None else format_arguments({"tools": list(flat_names(layout))})


def _take_builtin_output(unparsed: dict[str, Any], builtin: str) -> str | None:
    """Remove the output of the tool `builtin` from `unparsed`, and return it as text."""
    output = unparsed.get("output")
    if type(output) is str:
        del unparsed["output"]
        return output
    if builtin == "shell" and type(output) is list:
        return format_arguments({"output": unparsed.pop("output")})
    return None


def _encode_builtin_result(part: ToolResult, builtin: str, items: "Items") -> dict[str, Any]:
    """Write the result of the tool `builtin`, which OpenAI defines."""
    ledger, spelling = items.ledger, spelling_of(part.opaque, ResponsesResultSpelling)
    is_native = made_by(part.opaque, DIALECT)
    body: dict[str, Any] = {"type": BUILTIN_CLIENT_TOOLS[builtin].result_type}
    call_id = ledger.ids.result(part.tool_call_id, is_native=is_native and not spelling.is_escaped)
    if call_id is not None:
        body["id" if builtin == "local_shell" and not is_native else spelling.id_key] = call_id
    text = part.content if type(part.content) is str else _join_result_texts(part, ledger)
    if text or not spelling.has_no_output:
        _write_builtin_output(body, text, part, builtin, items)
    lose_cache(part, ledger)
    ledger.replay(body, part.opaque)
    if builtin == "apply_patch" and (part.is_error or not is_native):
        body["status"] = "failed" if part.is_error else "completed"
    return body if is_native else {**body, **BUILTIN_CLIENT_TOOLS[builtin].constants}


def _write_builtin_output(body: dict[str, Any], text: str, part: ToolResult, builtin: str, items: "Items") -> None:
    """Add the output of the tool `builtin` to `body`. `text` is the content of the result `part`."""
    ledger = items.ledger
    if builtin == "tool_search":
        layout = spelling_of(part.opaque, ResponsesResultSpelling).tools
        body["tools"] = [] if items.tool_writer is None else items.tool_writer.write(layout or [])
        if text != _tools_text(layout):
            ledger.lose(
                "content", "own_tool", f"the result of a tool search in {DIALECT} is a list of tools, without text"
            )
        ledger.lose_fields(part, "own_tool", "is_error")
    elif builtin == "shell":
        value, _ = parse_arguments(text)
        body["output"] = value["output"] if type(value.get("output")) is list else [_shell_output(text, part, ledger)]
    else:
        body["output"] = text if builtin == "apply_patch" else mark_error(text, is_error=part.is_error)


def _shell_output(text: str, part: ToolResult, ledger: Ledger) -> dict[str, Any]:
    """Return `text` as the output of one shell command."""
    ledger.lose(
        "content",
        "own_tool",
        f"{DIALECT} has one output for each command: the text is sent as the output of one",
        "approximated",
        "minor",
    )
    return {"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": int(part.is_error)}}


def _join_result_texts(part: ToolResult, ledger: Ledger) -> str:
    """Join the texts of a result."""
    texts = []
    for inner in ledger.each_inner_part(part.content):
        if type(inner) is Text:
            texts.append(inner.text)
        else:
            ledger.lose_part(inner, "a result of this tool")
    return BLANK_LINE.join(texts)


def _take_id(unparsed: dict[str, Any]) -> tuple[str | None, bool]:
    """Remove the `call_id` from `unparsed`. Return it without its escape, and True if it had one."""
    written = unparsed.get("call_id")
    if type(written) is not str or not written:
        return None, False
    del unparsed["call_id"]
    return WIRE.restore_id(written)


def decode_result(item: dict[str, Any]) -> ToolResult:
    """Decode an item that is the result of a call."""
    unparsed = item.copy()
    item_type = unparsed.pop("type")
    constants = take_item_constants(unparsed)
    (call_id, id_is_escaped), name = _take_id(unparsed), take(unparsed, "name", str)
    has_name, name_is_escaped, qualified_name = name is not None, False, None
    if name is not None:
        name, name_is_escaped, qualified_name = _read_name(name, unparsed)
    value = take_value(unparsed, "output")
    content, is_error = _take_output(unparsed) if value is UNSET else (format_arguments(value), False)
    spelling = ResponsesResultSpelling(
        constants=constants,
        is_custom=item_type == "custom_tool_call_output",
        is_escaped=id_is_escaped or name_is_escaped,
        has_name=has_name,
        output=value,
        qualified_name=qualified_name,
    )
    return ToolResult(call_id, name, content, is_error, opaque=WIRE.mark(unparsed, spelling))


def _take_output(unparsed: dict[str, Any]) -> tuple[str | list[Part], bool]:
    """Remove the output from `unparsed`. Return its text or its parts, and True if they are an error."""
    output = unparsed.get("output")
    if type(output) is str:
        del unparsed["output"]
        return read_error(output)
    if type(output) is not list or not output:
        return [], False
    del unparsed["output"]
    mark = _error_mark_of(output[0])
    if mark == ERROR:
        return decode_inputs(output[1:]), True
    if mark is not None:
        return decode_inputs([{**output[0], "text": mark[1:]}, *output[1:]]), False
    return decode_inputs(output), False


def _error_mark_of(block: Any) -> str | None:
    """Return the text of a block that contains only the mark of an error, possibly after spaces. Else return None."""
    text = block.get("text") if is_plain_text(block) else None
    return text if type(text) is str and text.endswith(ERROR) and text.lstrip(" ") == ERROR else None


def _encode_output(part: ToolResult, ledger: Ledger, *, is_native: bool) -> str | list[dict[str, Any]]:
    """Write the parts of a result. An error starts with a block that contains only the mark of an error.

    A text that could be taken for the mark gets one more space before it.
    """
    blocks: list[Any] = []
    for inner in ledger.each_inner_part(part.content):
        encode_input_part(without_mark(inner, ledger), blocks, ledger, "a result")
    if not is_native and (not blocks or (len(blocks) == 1 and is_plain_text(blocks[0]))):
        return mark_error(blocks[0]["text"] if blocks else "", is_error=part.is_error)
    if part.is_error:
        return [{"type": "input_text", "text": ERROR}, *blocks]
    if blocks and (mark := _error_mark_of(blocks[0])) is not None:
        blocks[0] = {**blocks[0], "text": f" {mark}"}
    return blocks


def decode_reasoning(item: dict[str, Any], preferred_key: str = "summary") -> Thinking:
    """Read a reasoning item: the texts of its `summary`, or of its `content`, which is the reasoning itself.

    If the item has both, the texts of `preferred_key` are read, and the other list stays unparsed.
    """
    unparsed = item.copy()
    del unparsed["type"]
    spelling = ResponsesThinkingSpelling(constants=take_item_constants(unparsed))
    signature = take(unparsed, "encrypted_content", str)
    for key in ("content", "summary") if preferred_key == "content" else TEXT_TYPES:
        texts = _read_texts(unparsed.get(key), TEXT_TYPES[key])
        if texts:
            del unparsed[key]
            spelling = replace(spelling, reasoning_key=key, texts=tuple(texts))
            return Thinking(BLANK_LINE.join(texts), signature, opaque=WIRE.mark(unparsed, spelling))
    return Thinking("", signature, opaque=WIRE.mark(unparsed, spelling))


def _read_texts(blocks: Any, block_type: str) -> list[str] | None:
    """Return the texts of `blocks`. Return None if one of them is no text of `block_type` or has other keys."""
    if type(blocks) is not list:
        return None
    texts = []
    for block in blocks:
        text = block.get("text") if type(block) is dict and block.get("type") == block_type else None
        if type(text) is not str or len(block) != PLAIN_TEXT_KEY_COUNT:
            return None
        texts.append(text)
    return texts


def _encode_reasoning(part: Thinking, ledger: Ledger) -> dict[str, Any]:
    """Write reasoning that was read here. It has the same list of texts as long as the whole text is the same."""
    spelling = spelling_of(part.opaque, ResponsesThinkingSpelling)
    body: dict[str, Any] = {"type": "reasoning"}
    texts = spelling.texts
    if part.text != BLANK_LINE.join(texts):
        texts = (part.text,) if part.text else ()
    if texts or spelling.texts:
        key = spelling.reasoning_key
        body[key] = [{"type": TEXT_TYPES[key], "text": text} for text in texts]
    if part.signature is not None:
        body["encrypted_content"] = part.signature
    ledger.lose_fields(part, "thinking", "redacted")
    lose_cache(part, ledger)
    return ledger.replay(body, part.opaque)


def reasoning_id_of(part: Thinking) -> str | None:
    """Return the id that the server gave to the reasoning `part`."""
    return spelling_of(part.opaque, ResponsesThinkingSpelling).constants.get("id")


class Items(Struct, eq=False):
    """The items that were written so far.

    - `response`: the response that is written, or None for a request.
    - `bodies`: the items.
    - `result_kinds`: by call id, the kind of result that answers the call, unless it is the result of a function.
    - `tool_writer`: writes the declarations of the request that items contain.
    - `reasoning_ids`: the ids of the reasoning in the current assistant message.
    - `open_content`: the content of the message item that the next text may join.
    """

    ledger: Ledger
    response: Response | None = None
    bodies: list[Any] = []
    result_kinds: dict[str | None, str] = {}
    tool_writer: ToolLayoutWriter | None = None
    reasoning_ids: set[str | None] = set()
    open_content: list[Any] | None = None
    _seed: str = ""

    def add(self, body: Any) -> None:
        """Append an item that no later part joins."""
        self.bodies.append(body)
        self.open_content = None

    def generate_id(self, prefix: str, content: object) -> str:
        """Return an id for a new item: in a response from all of it, in a request from the position and `content`."""
        if self.response is None:
            return f"{prefix}_{fingerprint((self.ledger.path, self.ledger.part_index, content))}"
        self._seed = self._seed or fingerprint(self.response)
        return f"{prefix}_{self._seed}{len(self.bodies):02d}"


def follows_reasoning(reasoning_id: str | None, items: Items) -> bool:
    """Return True if the reasoning that was before an item is still before it, or if there was none.

    OpenAI rejects the `id` of an item whose reasoning is gone (https://github.com/TanStack/ai/issues/1212).
    """
    return reasoning_id is None or reasoning_id in items.reasoning_ids


def write_call(call: ToolCall, items: Items) -> None:
    """Append the item of a call."""
    items.add(_encode_call(call, items))


def _encode_call(call: ToolCall, items: Items) -> dict[str, Any]:
    """Write a call. In a response, a call of another wire gets an id and a status."""
    ledger, spelling = items.ledger, spelling_of(call.opaque, ResponsesCallSpelling)
    if spelling.builtin is not None:
        return _encode_builtin_call(call, spelling.builtin, items)
    call = _as_accepted_call(call, items) if call.custom else call
    is_native = made_by(call.opaque, DIALECT)
    call_id = ledger.ids.call(call.id, is_native=is_native and not spelling.is_escaped)
    body: dict[str, Any] = {"type": "custom_tool_call" if call.custom else "function_call"}
    if is_native or spelling.qualified_name is not None:
        _write_name(call.name, spelling, body, ledger)
    else:
        body["name"] = ledger.names.write(call.name)
    if call.custom:
        body["input"] = call.raw or ""
    elif not is_native or call.raw is not None:
        body["arguments"] = argument_text(call, DIALECT)
    elif call.plain_arguments or not spelling.has_no_arguments:
        body["arguments"] = call.plain_arguments
    if not (spelling.has_no_id and is_generated_id(call.id)):
        body["call_id"] = call_id
    if not call.complete:
        body["status"] = "incomplete"
    lose_cache(call, ledger)
    ledger.replay(body, call.opaque)
    if not follows_reasoning(spelling.reasoning_id, items):
        body.pop("id", None)
    if items.response is not None and not is_native:
        body["id"] = items.generate_id("ctc" if call.custom else "fc", call.id)
        body.setdefault("status", "completed")
    return body


def result_kind_of(call: ToolCall) -> str | None:
    """Return the kind of result that answers a call: "custom", a tool that OpenAI defines, or None for a function."""
    return "custom" if call.custom else spelling_of(call.opaque, ResponsesCallSpelling).builtin


def _as_accepted_call(call: ToolCall, items: Items) -> ToolCall:
    """Return the call of a custom tool, or a call of a function if the server has no custom tools."""
    if items.response is not None or items.ledger.quirks.custom_tools:
        items.result_kinds[call.id] = "custom"
        return call
    arguments = arguments_as_object(call, items.ledger)
    return replace(call, custom=False, arguments=arguments, raw=format_arguments(arguments))


def write_result(part: ToolResult, items: Items) -> None:
    """Append the item of a result."""
    items.add(_encode_result(part, items))


def _encode_result(part: ToolResult, items: Items) -> dict[str, Any]:
    """Write a result as the kind of result that its call requires."""
    ledger, spelling = items.ledger, spelling_of(part.opaque, ResponsesResultSpelling)
    is_native = made_by(part.opaque, DIALECT)
    result_kind = items.result_kinds.get(part.tool_call_id)
    builtin = spelling.builtin or (result_kind if not is_native and result_kind in BUILTIN_CLIENT_TOOLS else None)
    if builtin is not None:
        return _encode_builtin_result(part, builtin, items)
    is_custom = spelling.is_custom and ledger.quirks.custom_tools if is_native else result_kind == "custom"
    body: dict[str, Any] = {"type": "custom_tool_call_output" if is_custom else "function_call_output"}
    call_id = ledger.ids.result(part.tool_call_id, is_native=is_native and not spelling.is_escaped)
    if call_id is not None:
        body["call_id"] = call_id
    if part.name is not None and spelling.has_name:
        _write_name(part.name, spelling, body, ledger)
    content = part.content
    if type(content) is str:
        body["output"] = spell_value(mark_error(content, is_error=part.is_error), spelling.output)
    elif content or part.is_error or not is_native:
        body["output"] = _encode_output(part, ledger, is_native=is_native)
    lose_cache(part, ledger)
    return body if part.opaque is None else ledger.replay(body, part.opaque)


def write_reasoning(part: Thinking, items: Items) -> None:
    """Append the item of reasoning.

    OpenAI accepts only its own reasoning. The reasoning of another wire is written in a response, where clients show
    it, and in no request.
    """
    ledger = items.ledger
    if made_by(part.opaque, DIALECT):
        items.add(_encode_reasoning(part, ledger))
        items.reasoning_ids.add(reasoning_id_of(part))
        return
    origin = "a user" if part.opaque is None else part.opaque.dialect
    if items.response is None or not part.text:
        ledger.lose("", "thinking", f"{DIALECT} accepts only its own reasoning, not that of {origin}")
        return
    ledger.lose_signature(part, f"{DIALECT} has no field for a signature of {origin}")
    ledger.lose_fields(part, "thinking", "redacted")
    ledger.lose_fields(part, "cache_mark", "cache")
    ledger.lose_opaque(part.opaque)
    summary = [{"type": "summary_text", "text": part.text}]
    items.add({"type": "reasoning", "id": items.generate_id("rs", part.text), "summary": summary})
