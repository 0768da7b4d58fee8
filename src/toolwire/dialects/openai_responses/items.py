"""The items of Responses that are neither words nor calls: reasoning, and the tools that the server runs.

Rules of this file:
- Reasoning goes back exactly as it came: the server looks for its id, or reads its encrypted content.
- A tool of the server is told by its item's type: `web_search_call` calls `web_search`; where the item has a
  name of its own (`mcp_call`), that is the tool's. What an item holds beside call and result is replayed.
"""

from typing import Any

from toolwire.arguments import format_arguments, parse_arguments
from toolwire.dialects.openai_responses.calls import take_spelled
from toolwire.dialects.openai_responses.parts import DIALECT, TYPE_AND_TEXT, WIRE, lose_cache
from toolwire.ledger import Ledger, form_of, take
from toolwire.types import Opaque, Part, ServerToolCall, ServerToolResult, Thinking

BLANK_LINE = "\n\n"
TEXTS = {"summary": "summary_text", "content": "reasoning_text"}
ACTIONS = ("action", "operation", "arguments")
INPUTS = {"code_interpreter_call": "code", "file_search_call": "queries", "program": "code"}
OUTCOMES = {"program_output": "result", "tool_search_output": "tools"}


def decode_reasoning(item: dict[str, Any]) -> Thinking:
    """Read a reasoning item: its summary, or the reasoning itself where there is no summary."""
    rest = item.copy()
    del rest["type"]
    said = take_spelled(rest)
    form: dict[str, Any] = {"said": said} if said else {}
    signature = take(rest, "encrypted_content", str)
    for key, kind in TEXTS.items():
        texts = _read_texts(rest.get(key), kind)
        if texts:
            del rest[key]
            form |= {"key": key, "texts": texts}
            return Thinking(BLANK_LINE.join(texts), signature, opaque=WIRE.own(rest, form))
    return Thinking("", signature, opaque=WIRE.own(rest, form))


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


def encode_reasoning(part: Thinking, ledger: Ledger) -> dict[str, Any]:
    """Write reasoning that was read here, cut as it was for as long as the text is the same."""
    form = form_of(part.opaque, DIALECT)
    body: dict[str, Any] = {"type": "reasoning"}
    texts = form.get("texts", [])
    if part.text != BLANK_LINE.join(texts):
        texts = [part.text] if part.text else []
    if texts or "key" in form:
        key = form.get("key", "summary")
        body[key] = [{"type": TEXTS[key], "text": text} for text in texts]
    if part.signature is not None:
        body["encrypted_content"] = part.signature
    ledger.lose_fields(part, "thinking", "redacted")
    lose_cache(part, ledger)
    return ledger.replay(body, part.opaque)


def decode_server_item(item: dict[str, Any]) -> Part:
    """Read an item of a tool that the server runs; any other item is kept whole."""
    kind = item["type"]
    if kind.endswith("_call") or kind == "program":
        return _decode_server_call(item, kind)
    if kind.endswith("_output"):
        return _decode_server_result(item, kind)
    return Opaque(DIALECT, item)


def _decode_server_call(item: dict[str, Any], kind: str) -> Part:
    rest = item.copy()
    del rest["type"]
    form: dict[str, Any] = {}
    name = take(rest, "name", str)
    if name is None:
        name = kind.removesuffix("_call")
    else:
        form["type"] = kind
    if rest.get("call_id"):
        form["key"] = "call_id"
    call_id = take(rest, form.get("key", "id"), str)
    return ServerToolCall(call_id, name, _take_input(rest, form, kind), opaque=WIRE.own(rest, form))


def _take_input(rest: dict[str, Any], form: dict[str, Any], kind: str) -> dict[str, Any] | None:
    for key in ACTIONS:
        if type(given := rest.get(key)) is dict:
            form["input"] = key
            return rest.pop(key)  # type: ignore[no-any-return]
        if type(given) is str:
            arguments, error = parse_arguments(given)
            if error is None:
                form |= {"input": key, "raw": rest.pop(key)}
                return arguments
    key = INPUTS.get(kind, "")
    return {key: rest.pop(key)} if rest.get(key) is not None else None


def encode_server_call(part: ServerToolCall, ledger: Ledger) -> dict[str, Any]:
    """Write a call of a tool that this server runs."""
    form = form_of(part.opaque, DIALECT)
    kind = form.get("type") or (part.name if part.name == "program" else f"{part.name}_call")
    body: dict[str, Any] = {"type": kind}
    if "type" in form:
        body["name"] = part.name
    if part.id is not None:
        body[form.get("key", "id")] = part.id
    if part.arguments is not None:
        body |= _encode_input(part.arguments, form)
    lose_cache(part, ledger)
    return ledger.replay(body, part.opaque)


def _encode_input(arguments: dict[str, Any], form: Any) -> dict[str, Any]:
    key, raw = form.get("input"), form.get("raw")
    if key is None:
        return arguments
    if raw is None:
        return {key: arguments}
    return {key: raw if parse_arguments(raw)[0] == arguments else format_arguments(arguments)}


def _decode_server_result(item: dict[str, Any], kind: str) -> Part:
    rest = item.copy()
    del rest["type"]
    content = rest.pop(key, None) if rest.get(key := OUTCOMES.get(kind, "output")) is not None else None
    return ServerToolResult(take(rest, "call_id", str), kind, content, opaque=WIRE.own(rest))


def encode_server_result(part: ServerToolResult, ledger: Ledger) -> dict[str, Any]:
    """Write what a tool of this server gave."""
    body: dict[str, Any] = {"type": part.name}
    if part.tool_call_id is not None:
        body["call_id"] = part.tool_call_id
    if part.content is not None:
        body[OUTCOMES.get(part.name, "output")] = part.content
    lose_cache(part, ledger)
    return ledger.replay(body, part.opaque)
