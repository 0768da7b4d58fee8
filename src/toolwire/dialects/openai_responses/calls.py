"""Calls, results and reasoning of Responses: items of their own.

Rules of this file:
- Argument text goes out byte for byte as it came in, for as long as it still means the arguments.
- The `id` of a call is the server's: it stays with a call that was read here, for as long as the reasoning
  that came before it is there too, and no other call ever gets one in a request.
- A status is how far the item had come; only "incomplete" says something about the call.
- Reasoning goes back exactly as it came: the server looks for its id, or reads its encrypted content.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
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
    mark_error,
    read_error,
    say_object,
    spell_words,
    take_arguments,
    take_value,
)
from toolwire.encoding.finish import cut_off, refuse
from toolwire.encoding.ledger import Ledger, form_of, made_by, spelling_of, take
from toolwire.types import Opaque, Part, Response, Text, Thinking, ToolCall, ToolResult
from toolwire.types.spelling.openai_responses import ResponsesResultSpelling, ResponsesThinkingSpelling
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
    rest = item.copy()
    del rest["type"], rest["name"]
    said = take_spelled(rest)
    form: dict[str, Any] = {"said": said} if said else {}
    if reasoning is not None:
        form["reasoning"] = reasoning
    complete = rest.get("status") != "incomplete"
    if not complete:
        del rest["status"]
    call_id = _take_or_make_id(rest, form, place, index)
    name = _read_name(name, rest, form)
    arguments, raw, error = ({}, rest.pop("input"), None) if custom else take_arguments(rest, form, objects=complete)
    call = ToolCall(call_id, name, arguments, index, True, raw, error, custom, opaque=WIRE.own(rest, form))
    return call if complete else cut_off(call)


def _read_name(name: str, rest: dict[str, Any], form: dict[str, Any]) -> str:
    """Read the name of a tool, which is its namespace's too if it stands in one."""
    name, space = WIRE.read_name(name, form), take(rest, "namespace", str)
    if space is None:
        return name
    form["space"] = [space, name, whole := called_name(space, name)]
    return whole


def _write_name(name: str, form: Mapping[str, Any], body: dict[str, Any], ledger: Ledger, *, verbatim: bool) -> None:
    """Write the name of a tool that is called as it was read: in its namespace, for as long as it is the same."""
    space, inner, whole = form.get("space", (None, None, None))
    if whole == name:
        name = inner
        if space is not None:
            body["namespace"] = space
    body["name"] = name if verbatim else ledger.names.write(name)


def decode_own_call(item: dict[str, Any], place: int, index: int, reasoning: str | None) -> ToolCall | None:
    """Read a call of a tool of this wire's own, if it is one that the client runs."""
    kind = OWN_CALLS[item["type"]]
    held = BUILTIN_CLIENT_TOOLS[kind].held
    if not is_clients(kind, item) or type(item.get(held)) not in ((dict, str) if held == "arguments" else (dict,)):
        return None
    rest = item.copy()
    del rest["type"]
    form: dict[str, Any] = {"own": kind, "said": {**take_spelled(rest), **take_place(rest)}}
    if reasoning is not None:
        form["reasoning"] = reasoning
    call_id = _take_or_make_id(rest, form, place, index)
    if rest.get("status") == "incomplete":  # what had come stays in what is left
        return refuse(ToolCall(call_id, kind, {}, index, opaque=WIRE.own(rest, form)), None)
    arguments, raw, error = take_arguments(rest, form) if held == "arguments" else (rest.pop(held), None, None)
    return ToolCall(call_id, kind, arguments, index, True, raw, error, opaque=WIRE.own(rest, form))


def _encode_own_call(call: ToolCall, kind: str, items: "Items") -> dict[str, Any]:
    """Write a call of a tool of this wire's own; one that is made for a client that declared it gets what it lacks."""
    ledger, form, own = items.ledger, form_of(call.opaque, DIALECT), BUILTIN_CLIENT_TOOLS[kind]
    mine = "made" not in form
    items.answers[call.id] = kind
    body: dict[str, Any] = {"type": f"{kind}_call", **({own.held: call.plain_arguments} if call.complete else {})}
    if mine and call.complete and own.held == "arguments" and call.raw is not None:
        body[own.held] = argument_text(call)
    call_id = ledger.ids.call(call.id, own=mine and "escaped" not in form)
    if not ("no_id" in form and was_made(call.id)):
        body["call_id"] = call_id
    if call.name != kind:
        ledger.lose("name", "own_tool", f"{DIALECT} knows it as {kind}")
    ledger.lose_fields(call, "own_tool", "custom")
    lose_cache(call, ledger)
    ledger.replay(body, call.opaque)
    if not _stands_after_reasoning(form, items):
        body.pop("id", None)
    if mine:
        return body
    ledger.lose_opaque(form["made"])
    return {**body, "id": items.made_id(_PREFIXES[kind], call.id), "status": "completed", **own.constants}


_PREFIXES = {"tool_search": "tsc", "apply_patch": "apc", "shell": "sh", "local_shell": "lsh"}


def decode_own_result(item: dict[str, Any], declared: ToolLayoutReader) -> ToolResult | None:
    """Read what came of a call of a tool of this wire's own, if the client ran it."""
    kind, rest = OWN_RESULTS[item["type"]], item.copy()
    call_id = item.get("call_id")
    if not is_clients(kind, item) or (type(call_id) is str and call_id in declared.hosted_shells):
        return None
    del rest["type"]
    linked = "call_id" if type(call_id) is str else "id"
    call_id = take(rest, linked, str)
    form: dict[str, Any] = {"own": kind, "linked": linked, "said": {**take_spelled(rest), **take_place(rest)}}
    is_error = rest.get("status") == "failed"
    if is_error:
        del rest["status"]
    call_id = None if call_id is None else WIRE.read_id(call_id, form)
    if kind == "tool_search" and type(rest.get("tools")) is list:
        text, spelling = _take_found_tools(rest, declared)
        return ToolResult(call_id, kind, text, is_error, opaque=replace(WIRE.own(rest, form), spelling=spelling))
    content = _take_own_output(rest, form, kind)
    if kind == "local_shell":
        content, is_error = read_error(content)
    return ToolResult(call_id, kind, content, is_error, opaque=WIRE.own(rest, form))


def _take_found_tools(unparsed: dict[str, Any], reader: ToolLayoutReader) -> tuple[str, ResponsesResultSpelling]:
    """Take the tools that a search found, which become tools of the request. Return a text with their names."""
    layout, contradictions = reader.read_result(unparsed.pop("tools"))
    if contradictions:
        unparsed["tools"] = contradictions
    text = format_arguments({"tools": list(flat_names(layout))})
    return text, ResponsesResultSpelling(tools=layout, tools_text=text)


def _take_own_output(rest: dict[str, Any], form: dict[str, Any], kind: str) -> str:
    """Take what a tool gave, in words."""
    output = rest.get("output")
    if type(output) is str:
        del rest["output"]
        return output
    if kind == "shell" and type(output) is list:
        return format_arguments({"output": rest.pop("output")})
    form["silent"] = True
    return ""


def _encode_own_result(part: ToolResult, kind: str, items: "Items") -> dict[str, Any]:
    ledger, form, mine = items.ledger, form_of(part.opaque, DIALECT), made_by(part.opaque, DIALECT)
    body: dict[str, Any] = {"type": BUILTIN_CLIENT_TOOLS[kind].output}
    call_id = ledger.ids.result(part.tool_call_id, own=mine and "escaped" not in form)
    if call_id is not None:
        body[form.get("linked", "id" if kind == "local_shell" else "call_id")] = call_id
    text = part.content if type(part.content) is str else _words_of(part, ledger)
    if text or "silent" not in form:
        _write_own_output(body, text, part, kind, items)
    lose_cache(part, ledger)
    ledger.replay(body, part.opaque)
    if kind == "apply_patch" and (part.is_error or not mine):
        body["status"] = "failed" if part.is_error else "completed"
    return body if mine else {**body, **BUILTIN_CLIENT_TOOLS[kind].constants}


def _write_own_output(body: dict[str, Any], text: str, part: ToolResult, kind: str, items: "Items") -> None:
    ledger = items.ledger
    if kind == "tool_search":
        spelling = spelling_of(part.opaque, ResponsesResultSpelling)
        body["tools"] = [] if items.tool_writer is None else items.tool_writer.write(spelling.tools or [])
        if text != spelling.tools_text:
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
    for inner in ledger.inside(part.content):
        if type(inner) is Text:
            texts.append(inner.text)
        else:
            ledger.lose_part(inner, "a result of this tool")
    return BLANK_LINE.join(texts)


def _take_id(rest: dict[str, Any], form: dict[str, Any]) -> str | None:
    """Take the id that links a call and its result out of what is left; an empty one stays."""
    given = rest.get("call_id")
    if type(given) is not str or not given:
        return None
    del rest["call_id"]
    return WIRE.read_id(given, form)


def _take_or_make_id(rest: dict[str, Any], form: dict[str, Any], place: int, index: int) -> str:
    call_id = _take_id(rest, form)
    if call_id is None:
        form["no_id"] = True
        return made_id(place, index)
    return call_id


def decode_result(item: dict[str, Any]) -> ToolResult:
    """Read what came of a call."""
    rest = item.copy()
    kind = rest.pop("type")
    said = take_spelled(rest)
    form: dict[str, Any] = {"said": said} if said else {}
    if kind == "custom_tool_call_output":
        form["custom"] = True
    call_id, name = _take_id(rest, form), take(rest, "name", str)
    if name is not None:
        form["named"] = True
        name = _read_name(name, rest, form)
    content, is_error = _take_output(rest, form)
    return ToolResult(call_id, name, content, is_error, opaque=WIRE.own(rest, form))


def _take_output(rest: dict[str, Any], form: dict[str, Any]) -> tuple[str | list[Part], bool]:
    output = rest.get("output")
    if type(output) is str:
        del rest["output"]
        return read_error(output)
    if (value := take_value(rest, "output", form)) is not None:
        return value, False
    if type(output) is not list or not output:
        return [], False
    del rest["output"]
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
    for inner in ledger.inside(part.content):
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
            return f"{prefix}_{fingerprint((self.ledger.at, self.ledger.part, of))}"
        self._seed = self._seed or fingerprint(self.response)
        return f"{prefix}_{self._seed}{len(self.bodies):02d}"


def follows_reasoning(reasoning_id: str | None, items: Items) -> bool:
    """Return True if the reasoning with this id, which stood before an item, stands before it still."""
    return reasoning_id is None or reasoning_id in items.kept


def _stands_after_reasoning(form: Mapping[str, Any], items: Items) -> bool:
    """Whether the reasoning that an item came after stands before it still."""
    return "reasoning" not in form or form["reasoning"] in items.kept


def write_call(call: ToolCall, items: Items) -> None:
    """Add a call; in a response every call has an id."""
    items.add(_encode_call(call, items))


def _encode_call(call: ToolCall, items: Items) -> dict[str, Any]:
    ledger, opaque = items.ledger, call.opaque
    form = form_of(opaque, DIALECT)
    if "own" in form:
        return _encode_own_call(call, form["own"], items)
    call = _as_taken(call, items) if call.custom else call
    mine = made_by(opaque, DIALECT) and "made" not in form
    verbatim = mine and "escaped" not in form
    call_id = ledger.ids.call(call.id, own=verbatim)
    body: dict[str, Any] = {"type": "custom_tool_call" if call.custom else "function_call"}
    _write_name(call.name, form, body, ledger, verbatim=verbatim or "space" in form)
    if call.custom:
        body["input"] = call.raw or ""
    elif not mine or call.raw is not None:
        body["arguments"] = argument_text(call, DIALECT)
    elif call.plain_arguments or "no_arguments" not in form:
        body["arguments"] = call.plain_arguments
    if not ("no_id" in form and was_made(call.id)):
        body["call_id"] = call_id
    if not call.complete:
        body["status"] = "incomplete"
    lose_cache(call, ledger)
    ledger.replay(body, form.get("made", opaque))
    if not _stands_after_reasoning(form, items):
        body.pop("id", None)
    if items.response is not None and not mine:
        body["id"] = items.made_id("ctc" if call.custom else "fc", call.id)
        body.setdefault("status", "completed")
    return body


def answer_of(call: ToolCall) -> str | None:
    """Say which kind of result answers a call, if not that of a function."""
    return "custom" if call.custom else form_of(call.opaque, DIALECT).get("own")


def _as_taken(call: ToolCall, items: Items) -> ToolCall:
    """Give a call of a custom tool as this server takes it."""
    if items.response is not None or items.ledger.quirks.custom_tools:
        items.answers[call.id] = "custom"
        return call
    arguments = say_object(call, items.ledger)
    return replace(call, custom=False, arguments=arguments, raw=format_arguments(arguments))


def write_result(part: ToolResult, items: Items) -> None:
    """Add a result."""
    items.add(_encode_result(part, items))


def _encode_result(part: ToolResult, items: Items) -> dict[str, Any]:
    ledger, form = items.ledger, form_of(part.opaque, DIALECT)
    mine = made_by(part.opaque, DIALECT)
    answers = items.answers.get(part.tool_call_id)
    if "own" in form or (not mine and answers in BUILTIN_CLIENT_TOOLS):
        return _encode_own_result(part, form.get("own", answers), items)
    custom = "custom" in form and ledger.quirks.custom_tools if mine else answers == "custom"
    body: dict[str, Any] = {"type": "custom_tool_call_output" if custom else "function_call_output"}
    call_id = ledger.ids.result(part.tool_call_id, own=mine and "escaped" not in form)
    if call_id is not None:
        body["call_id"] = call_id
    if part.name is not None and "named" in form:
        _write_name(part.name, form, body, ledger, verbatim="escaped" not in form)
    content = part.content
    if type(content) is str:
        body["output"] = spell_words(mark_error(content, is_error=part.is_error), form)
    elif content or part.is_error or not mine:
        body["output"] = _encode_output(part, ledger, mine=mine)
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
