"""Calls, results and reasoning of Responses: items of their own.

Rules of this file:
- Argument text goes out byte for byte as it came in, for as long as it still means the arguments.
- The `id` of a call is the server's: it stays with a call that was read here, for as long as the reasoning
  that came before it is there too, and no other call ever gets one in a request.
- A status is how far the item had come; only "incomplete" says something about the call.
- Reasoning goes back exactly as it came: the server looks for its id, or reads its encrypted content.
"""

from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from toolwire.dialects.openai_responses.parts import (
    DIALECT,
    TYPE_AND_TEXT,
    WIRE,
    decode_inputs,
    encode_input,
    is_plain_text,
    lose_cache,
    take_spelled,
)
from toolwire.dialects.openai_responses.tools import (
    BUILTIN_CLIENT_TOOLS,
    ToolLayoutReader,
    ToolLayoutWriter,
    called_name,
    flat_names,
    is_clients,
    take_place,
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
from toolwire.types import Opaque, Part, Response, Text, Thinking, ToolCall, ToolResult
from toolwire.types.spelling.openai_responses import (
    QualifiedName,
    ResponsesCallSpelling,
    ResponsesResultSpelling,
    ResponsesThinkingSpelling,
    ToolPlace,
)
from toolwire.wire.arguments import argument_text, format_arguments, parse_arguments
from toolwire.wire.names import fingerprint, made_id, was_made

OWN_CALLS = {f"{name}_call": name for name in BUILTIN_CLIENT_TOOLS}
OWN_RESULTS = {own.output: name for name, own in BUILTIN_CLIENT_TOOLS.items()}
CALLS = ("function_call", "custom_tool_call")
# https://docs.x.ai/docs/guides/tools/overview (2026-11-20): what xAI's `x_search` calls, and answers itself.
_RUN_THERE = ("x_keyword_search", "x_semantic_search", "x_user_search", "x_thread_fetch", "view_x_video")
RESULTS = ("function_call_output", "custom_tool_call_output")
BLANK_LINE = "\n\n"
TEXTS = {"summary": "summary_text", "content": "reasoning_text"}


def is_call(item: dict[str, Any], kind: Any) -> bool:
    """Whether an item is a call for the client to run; xAI says so, in the same words, of what it ran itself."""
    if kind != CALLS[1]:
        return kind in CALLS
    return item.get("name") not in _RUN_THERE and not str(item.get("call_id")).startswith("xs_call_")


def decode_call(item: dict[str, Any], place: int, index: int, reasoning: str | None = None) -> Part:
    """Read one call, of a function (JSON) or of a custom tool (free text)."""
    name, custom = item.get("name"), item["type"] == "custom_tool_call"
    if type(name) is not str or (custom and type(item.get("input")) is not str):
        return Opaque(DIALECT, item)
    unparsed = item.copy()
    del unparsed["type"], unparsed["name"]
    constants = take_spelled(unparsed)
    is_complete = unparsed.get("status") != "incomplete"
    if not is_complete:
        del unparsed["status"]
    call_id, id_is_escaped = _take_id(unparsed)
    name, name_is_escaped, qualified_name = _read_name(name, unparsed)
    parsed = take_free_text(unparsed) if custom else take_arguments(unparsed, objects=is_complete)
    (arguments, raw, error), has_arguments = parsed
    spelling = ResponsesCallSpelling(
        constants=constants,
        reasoning_id=reasoning,
        is_escaped=id_is_escaped or name_is_escaped,
        has_no_id=call_id is None,
        has_no_arguments=not has_arguments,
        qualified_name=qualified_name,
    )
    call_id, opaque = made_id(place, index) if call_id is None else call_id, WIRE.mark(unparsed, spelling)
    call = ToolCall(call_id, name, arguments, index, True, raw, error, custom, opaque=opaque)
    return call if is_complete else cut_off(call)


def _read_name(name: str, unparsed: dict[str, Any]) -> tuple[str, bool, QualifiedName | None]:
    """Return the name of a tool, whether it had an escape, and its qualified name if it is in a namespace."""
    name, is_escaped = WIRE.restore_name(name)
    namespace = take(unparsed, "namespace", str)
    if namespace is None:
        return name, is_escaped, None
    flat = called_name(namespace, name)
    return flat, is_escaped, QualifiedName(namespace, name, flat)


def _write_name(
    name: str, spelling: ResponsesCallSpelling | ResponsesResultSpelling, body: dict[str, Any], ledger: Ledger
) -> None:
    """Write the name of a tool as this wire or the declaration spelled it, as long as it is the same tool."""
    qualified_name = spelling.qualified_name
    if qualified_name is not None and qualified_name.flat == name:
        name = qualified_name.name
        if qualified_name.namespace is not None:
            body["namespace"] = qualified_name.namespace
    body["name"] = ledger.names.write(name) if spelling.is_escaped else name


def decode_own_call(item: dict[str, Any], place: int, index: int, reasoning: str | None) -> ToolCall | None:
    """Read a call of a tool of this wire's own, if it is one that the client runs."""
    kind = OWN_CALLS[item["type"]]
    held = BUILTIN_CLIENT_TOOLS[kind].held
    if not is_clients(kind, item) or type(item.get(held)) not in ((dict, str) if held == "arguments" else (dict,)):
        return None
    unparsed = item.copy()
    del unparsed["type"]
    constants = {**take_spelled(unparsed), **take_place(unparsed)}
    call_id, is_escaped = _take_id(unparsed)
    spelling = ResponsesCallSpelling(
        constants=constants, builtin=kind, reasoning_id=reasoning, is_escaped=is_escaped, has_no_id=call_id is None
    )
    call_id = made_id(place, index) if call_id is None else call_id
    if unparsed.get("status") == "incomplete":  # the arguments stay among the unparsed keys
        return reject_call(ToolCall(call_id, kind, {}, index, opaque=WIRE.mark(unparsed, spelling)), None)
    arguments, raw, error = _take_held(unparsed, held)
    return ToolCall(call_id, kind, arguments, index, True, raw, error, opaque=WIRE.mark(unparsed, spelling))


def _take_held(unparsed: dict[str, Any], key: str) -> Arguments:
    """Take the arguments of a built-in tool's call out of its unparsed keys."""
    return take_arguments(unparsed)[0] if key == "arguments" else (unparsed.pop(key), None, None)


def _encode_own_call(call: ToolCall, kind: str, items: "Items") -> dict[str, Any]:
    """Write a call of a tool of this wire's own; one that is made for a client that declared it gets what it lacks."""
    ledger, spelling, own = items.ledger, spelling_of(call.opaque, ResponsesCallSpelling), BUILTIN_CLIENT_TOOLS[kind]
    is_own = made_by(call.opaque, DIALECT)
    items.answers[call.id] = kind
    body: dict[str, Any] = {"type": f"{kind}_call", **({own.held: call.plain_arguments} if call.complete else {})}
    if is_own and call.complete and own.held == "arguments" and call.raw is not None:
        body[own.held] = argument_text(call)
    call_id = ledger.ids.call(call.id, own=is_own and not spelling.is_escaped)
    if not (spelling.has_no_id and was_made(call.id)):
        body["call_id"] = call_id
    if call.name != kind:
        ledger.lose("name", "own_tool", f"{DIALECT} knows it as {kind}")
    ledger.lose_fields(call, "own_tool", "custom")
    lose_cache(call, ledger)
    ledger.replay(body, call.opaque)
    if not follows_reasoning(spelling.reasoning_id, items):
        body.pop("id", None)
    if is_own:
        return body
    return {**body, "id": items.made_id(_PREFIXES[kind], call.id), "status": "completed", **own.constants}


_PREFIXES = {"tool_search": "tsc", "apply_patch": "apc", "shell": "sh", "local_shell": "lsh"}


def decode_own_result(item: dict[str, Any], declared: ToolLayoutReader) -> ToolResult | None:
    """Read what came of a call of a tool of this wire's own, if the client ran it."""
    kind, unparsed = OWN_RESULTS[item["type"]], item.copy()
    call_id = item.get("call_id")
    if not is_clients(kind, item) or (type(call_id) is str and call_id in declared.hosted_shells):
        return None
    del unparsed["type"]
    id_key = "call_id" if type(call_id) is str else "id"
    call_id, is_escaped = take(unparsed, id_key, str), False
    constants = {**take_spelled(unparsed), **take_place(unparsed)}
    is_error = unparsed.get("status") == "failed"
    if is_error:
        del unparsed["status"]
    if call_id is not None:
        call_id, is_escaped = WIRE.restore_id(call_id)
    layout = _take_found_tools(unparsed, declared) if kind == "tool_search" else None
    content = _take_own_output(unparsed, kind) if layout is None else _tools_text(layout)
    spelling = ResponsesResultSpelling(
        constants=constants,
        builtin=kind,
        id_key=id_key,
        tools=layout,
        is_escaped=is_escaped,
        has_no_output=content is None,
    )
    content = content or ""
    if kind == "local_shell":
        content, is_error = read_error(content)
    return ToolResult(call_id, kind, content, is_error, opaque=WIRE.mark(unparsed, spelling))


def _take_found_tools(unparsed: dict[str, Any], reader: ToolLayoutReader) -> list[ToolPlace] | None:
    """Take the tools that a search found, which become tools of the request. Return their layout."""
    if type(unparsed.get("tools")) is not list:
        return None
    layout, contradictions = reader.read_result(unparsed.pop("tools"))
    if contradictions:
        unparsed["tools"] = contradictions
    return layout


def _tools_text(layout: list[ToolPlace] | None) -> str | None:
    """Return the text that stands for the tools that a search found: their names."""
    return None if layout is None else format_arguments({"tools": list(flat_names(layout))})


def _take_own_output(unparsed: dict[str, Any], kind: str) -> str | None:
    """Take the output of a tool, as text."""
    output = unparsed.get("output")
    if type(output) is str:
        del unparsed["output"]
        return output
    if kind == "shell" and type(output) is list:
        return format_arguments({"output": unparsed.pop("output")})
    return None


def _encode_own_result(part: ToolResult, kind: str, items: "Items") -> dict[str, Any]:
    ledger, spelling = items.ledger, spelling_of(part.opaque, ResponsesResultSpelling)
    is_own = made_by(part.opaque, DIALECT)
    body: dict[str, Any] = {"type": BUILTIN_CLIENT_TOOLS[kind].output}
    call_id = ledger.ids.result(part.tool_call_id, own=is_own and not spelling.is_escaped)
    if call_id is not None:
        body["id" if kind == "local_shell" and not is_own else spelling.id_key] = call_id
    text = part.content if type(part.content) is str else _words_of(part, ledger)
    if text or not spelling.has_no_output:
        _write_own_output(body, text, part, kind, items)
    lose_cache(part, ledger)
    ledger.replay(body, part.opaque)
    if kind == "apply_patch" and (part.is_error or not is_own):
        body["status"] = "failed" if part.is_error else "completed"
    return body if is_own else {**body, **BUILTIN_CLIENT_TOOLS[kind].constants}


def _write_own_output(body: dict[str, Any], text: str, part: ToolResult, kind: str, items: "Items") -> None:
    ledger = items.ledger
    if kind == "tool_search":
        layout = spelling_of(part.opaque, ResponsesResultSpelling).tools
        body["tools"] = [] if items.tool_writer is None else items.tool_writer.write(layout or [])
        if text != _tools_text(layout):
            ledger.lose("content", "own_tool", "a search gives tools here, and no words")
        ledger.lose_fields(part, "own_tool", "is_error")
    elif kind == "shell":
        given, _ = parse_arguments(text)
        body["output"] = given["output"] if type(given.get("output")) is list else [_shell_output(text, part, ledger)]
    else:
        body["output"] = text if kind == "apply_patch" else mark_error(text, is_error=part.is_error)


def _shell_output(text: str, part: ToolResult, ledger: Ledger) -> dict[str, Any]:
    ledger.lose("content", "own_tool", "it stands as what one command wrote", "approximated", "minor")
    return {"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": int(part.is_error)}}


def _words_of(part: ToolResult, ledger: Ledger) -> str:
    """Say the parts of a result in one text."""
    texts = []
    for inner in ledger.each_inner_part(part.content):
        if type(inner) is Text:
            texts.append(inner.text)
        else:
            ledger.lose_part(inner, "a result of this tool")
    return BLANK_LINE.join(texts)


def _take_id(unparsed: dict[str, Any]) -> tuple[str | None, bool]:
    """Take the `call_id` out of the unparsed keys, without its escape, and tell whether it had one."""
    written = unparsed.get("call_id")
    if type(written) is not str or not written:
        return None, False
    del unparsed["call_id"]
    return WIRE.restore_id(written)


def decode_result(item: dict[str, Any]) -> ToolResult:
    """Read the result of a call."""
    unparsed = item.copy()
    kind = unparsed.pop("type")
    constants = take_spelled(unparsed)
    (call_id, id_is_escaped), name = _take_id(unparsed), take(unparsed, "name", str)
    has_name, name_is_escaped, qualified_name = name is not None, False, None
    if name is not None:
        name, name_is_escaped, qualified_name = _read_name(name, unparsed)
    value = take_value(unparsed, "output")
    content, is_error = _take_output(unparsed) if value is UNSET else (format_arguments(value), False)
    spelling = ResponsesResultSpelling(
        constants=constants,
        is_custom=kind == "custom_tool_call_output",
        is_escaped=id_is_escaped or name_is_escaped,
        has_name=has_name,
        output=value,
        qualified_name=qualified_name,
    )
    return ToolResult(call_id, name, content, is_error, opaque=WIRE.mark(unparsed, spelling))


def _take_output(unparsed: dict[str, Any]) -> tuple[str | list[Part], bool]:
    """Take the output out of the unparsed keys: return text or parts, and whether they are an error."""
    output = unparsed.get("output")
    if type(output) is str:
        del unparsed["output"]
        return read_error(output)
    if type(output) is not list or not output:
        return [], False
    del unparsed["output"]
    first = _lone_mark(output[0])
    if first == ERROR:
        return decode_inputs(output[1:]), True
    if first is not None:
        return decode_inputs([{**output[0], "text": first[1:]}, *output[1:]]), False
    return decode_inputs(output), False


def _lone_mark(block: Any) -> str | None:
    """Give the text of a block that is the mark of an error and nothing else, spaces before it allowed."""
    text = block.get("text") if is_plain_text(block) else None
    return text if type(text) is str and text.endswith(ERROR) and text.lstrip(" ") == ERROR else None


def _encode_output(part: ToolResult, ledger: Ledger, *, mine: bool) -> str | list[dict[str, Any]]:
    blocks: list[Any] = []
    for inner in ledger.each_inner_part(part.content):
        encode_input(inner, blocks, ledger, "a result")
    if not mine and (not blocks or (len(blocks) == 1 and is_plain_text(blocks[0]))):
        return mark_error(blocks[0]["text"] if blocks else "", is_error=part.is_error)
    if part.is_error:
        return [{"type": "input_text", "text": ERROR}, *blocks]
    if blocks and (mark := _lone_mark(blocks[0])) is not None:
        blocks[0] = {**blocks[0], "text": f" {mark}"}
    return blocks


def decode_reasoning(item: dict[str, Any], first: str = "summary") -> Thinking:
    """Read a reasoning item: its summary, or the reasoning itself; the `first` that is there counts."""
    unparsed = item.copy()
    del unparsed["type"]
    spelling = ResponsesThinkingSpelling(constants=take_spelled(unparsed))
    signature = take(unparsed, "encrypted_content", str)
    for key in ("content", "summary") if first == "content" else TEXTS:
        texts = _read_texts(unparsed.get(key), TEXTS[key])
        if texts:
            del unparsed[key]
            spelling = replace(spelling, reasoning_key=key, texts=tuple(texts))
            return Thinking(BLANK_LINE.join(texts), signature, opaque=WIRE.mark(unparsed, spelling))
    return Thinking("", signature, opaque=WIRE.mark(unparsed, spelling))


def _read_texts(blocks: Any, kind: str) -> list[str] | None:
    if type(blocks) is not list:
        return None
    texts = []
    for block in blocks:
        text = block.get("text") if type(block) is dict and block.get("type") == kind else None
        if type(text) is not str or len(block) != TYPE_AND_TEXT:
            return None
        texts.append(text)
    return texts


def _encode_reasoning(part: Thinking, ledger: Ledger) -> dict[str, Any]:
    """Write reasoning that was read here, cut as it was as long as the text is the same."""
    spelling = spelling_of(part.opaque, ResponsesThinkingSpelling)
    body: dict[str, Any] = {"type": "reasoning"}
    texts = spelling.texts
    if part.text != BLANK_LINE.join(texts):
        texts = (part.text,) if part.text else ()
    if texts or spelling.texts:
        key = spelling.reasoning_key
        body[key] = [{"type": TEXTS[key], "text": text} for text in texts]
    if part.signature is not None:
        body["encrypted_content"] = part.signature
    ledger.lose_fields(part, "thinking", "redacted")
    lose_cache(part, ledger)
    return ledger.replay(body, part.opaque)


def id_of(part: Thinking) -> str | None:
    """Return the server's id of reasoning."""
    return spelling_of(part.opaque, ResponsesThinkingSpelling).constants.get("id")


class Items(Struct, eq=False):
    """The items written so far: `open` is the content of the message item that the next words may join.

    `answers` says which calls want results of another kind; `tool_writer` has the declarations that items hold.
    """

    ledger: Ledger
    response: Response | None = None
    bodies: list[Any] = []
    answers: dict[str | None, str] = {}
    tool_writer: ToolLayoutWriter | None = None
    kept: set[str | None] = set()
    open: list[Any] | None = None
    _seed: str = ""

    def add(self, body: Any) -> None:
        """Add an item that is whole."""
        self.bodies.append(body)
        self.open = None

    def made_id(self, prefix: str, of: object) -> str:
        """Make the id of an item: in a response from all of it, in a request from its place."""
        if self.response is None:
            return f"{prefix}_{fingerprint((self.ledger.path, self.ledger.part_index, of))}"
        self._seed = self._seed or fingerprint(self.response)
        return f"{prefix}_{self._seed}{len(self.bodies):02d}"


def follows_reasoning(reasoning_id: str | None, items: Items) -> bool:
    """Return True if the reasoning with this id, which stood before an item, stands before it still."""
    return reasoning_id is None or reasoning_id in items.kept


def write_call(call: ToolCall, items: Items) -> None:
    """Add a call; in a response every call has an id."""
    items.add(_encode_call(call, items))


def _encode_call(call: ToolCall, items: Items) -> dict[str, Any]:
    ledger, spelling = items.ledger, spelling_of(call.opaque, ResponsesCallSpelling)
    if spelling.builtin is not None:
        return _encode_own_call(call, spelling.builtin, items)
    call = _as_taken(call, items) if call.custom else call
    is_own = made_by(call.opaque, DIALECT)
    call_id = ledger.ids.call(call.id, own=is_own and not spelling.is_escaped)
    body: dict[str, Any] = {"type": "custom_tool_call" if call.custom else "function_call"}
    if is_own or spelling.qualified_name is not None:
        _write_name(call.name, spelling, body, ledger)
    else:
        body["name"] = ledger.names.write(call.name)
    if call.custom:
        body["input"] = call.raw or ""
    elif not is_own or call.raw is not None:
        body["arguments"] = argument_text(call, DIALECT)
    elif call.plain_arguments or not spelling.has_no_arguments:
        body["arguments"] = call.plain_arguments
    if not (spelling.has_no_id and was_made(call.id)):
        body["call_id"] = call_id
    if not call.complete:
        body["status"] = "incomplete"
    lose_cache(call, ledger)
    ledger.replay(body, call.opaque)
    if not follows_reasoning(spelling.reasoning_id, items):
        body.pop("id", None)
    if items.response is not None and not is_own:
        body["id"] = items.made_id("ctc" if call.custom else "fc", call.id)
        body.setdefault("status", "completed")
    return body


def answer_of(call: ToolCall) -> str | None:
    """Return the kind of result that answers a call, or None for that of a function."""
    return "custom" if call.custom else spelling_of(call.opaque, ResponsesCallSpelling).builtin


def _as_taken(call: ToolCall, items: Items) -> ToolCall:
    """Give a call of a custom tool as this server takes it."""
    if items.response is not None or items.ledger.quirks.custom_tools:
        items.answers[call.id] = "custom"
        return call
    arguments = arguments_as_object(call, items.ledger)
    return replace(call, custom=False, arguments=arguments, raw=format_arguments(arguments))


def write_result(part: ToolResult, items: Items) -> None:
    """Add a result."""
    items.add(_encode_result(part, items))


def _encode_result(part: ToolResult, items: Items) -> dict[str, Any]:
    ledger, spelling = items.ledger, spelling_of(part.opaque, ResponsesResultSpelling)
    is_own = made_by(part.opaque, DIALECT)
    answers = items.answers.get(part.tool_call_id)
    builtin = spelling.builtin or (answers if not is_own and answers in BUILTIN_CLIENT_TOOLS else None)
    if builtin is not None:
        return _encode_own_result(part, builtin, items)
    is_custom = spelling.is_custom and ledger.quirks.custom_tools if is_own else answers == "custom"
    body: dict[str, Any] = {"type": "custom_tool_call_output" if is_custom else "function_call_output"}
    call_id = ledger.ids.result(part.tool_call_id, own=is_own and not spelling.is_escaped)
    if call_id is not None:
        body["call_id"] = call_id
    if part.name is not None and spelling.has_name:
        _write_name(part.name, spelling, body, ledger)
    content = part.content
    if type(content) is str:
        body["output"] = spell_value(mark_error(content, is_error=part.is_error), spelling.output)
    elif content or part.is_error or not is_own:
        body["output"] = _encode_output(part, ledger, mine=is_own)
    lose_cache(part, ledger)
    return body if part.opaque is None else ledger.replay(body, part.opaque)


def write_reasoning(part: Thinking, items: Items) -> None:
    """Write reasoning: what was read here as it was; any other can only be shown, never sent back."""
    ledger = items.ledger
    if made_by(part.opaque, DIALECT):
        items.add(_encode_reasoning(part, ledger))
        items.kept.add(id_of(part))
        return
    origin = "a user" if part.opaque is None else part.opaque.dialect
    if items.response is None or not part.text:
        ledger.lose("", "thinking", f"{DIALECT} takes back only its own reasoning, not that of {origin}")
        return
    ledger.lose_signature(part, f"{DIALECT} cannot carry that of {origin}")
    ledger.lose_fields(part, "thinking", "redacted")
    ledger.lose_fields(part, "cache_mark", "cache")
    ledger.lose_opaque(part.opaque)
    summary = [{"type": "summary_text", "text": part.text}]
    items.add({"type": "reasoning", "id": items.made_id("rs", part.text), "summary": summary})
