"""What the server of the Messages API refuses: in its words."""

import re
from collections.abc import Iterator
from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.strictness.anthropic_thinking import (
    blocks_of,
    check_thinking,
    merged,
)
from toolwire.testing.strictness.asked import Asked, Check, Rejection
from toolwire.testing.strictness.shapes import Words, check_object, dotted, objects, twice

VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")
NEWEST = "2026-10-21"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}", re.ASCII)
ID = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
MOST_MARKS = 4
SAMPLING = ("temperature", "top_p", "top_k")
_KINDS = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "dictionary",
    "array": "list",
}


def _missing(path: str) -> Rejection:
    return Rejection(f"{path}: Field required")


def _unknown(at: str, key: str) -> Rejection:
    return Rejection(f"{dotted(at, key)}: Extra inputs are not permitted")


def _wrong(path: str, kinds: str, value: Any) -> Rejection:
    del value
    return Rejection(f"{path}: Input should be a valid {_KINDS.get(kinds.partition('|')[0], 'string')}")


WORDS = Words(_missing, _unknown, _wrong, dotted)
OPEN = WORDS._replace(unknown=None)
FIELDS = {
    "model": "string",
    "max_tokens": "integer",
    "messages": "array",
    "system": "string|array",
    "tools": "array",
    "stream": "boolean",
    "stop_sequences": "array",
    **dict.fromkeys(("tool_choice", "thinking", "output_config", "metadata"), "object"),
    **dict.fromkeys(("service_tier", "user_profile_id", "workspace_id"), "string"),
    **dict.fromkeys(("inference_geo", "speed"), "string|null"),
    **dict.fromkeys(("cache_control", "diagnostics"), "object|null"),
    "container": "string|object|null",
}
BETA = {
    **dict.fromkeys(("mcp_servers",), "array"),
    **dict.fromkeys(("billing_policy", "compaction", "context_management", "thread"), "object|null"),
    "fallbacks": "array|string|null",
    "fallback_credit_token": "string|object|null",
    "betas": "array",
    "output_format": "object|null",
}
OLDER = {"temperature": "number", "top_p": "number", "top_k": "integer"}

BLOCKS: dict[str, dict[str, str]] = {
    "text": {"text": "string"},
    "image": {"source": "object"},
    "document": {"source": "object"},
    "search_result": {"source": "string"},
    "thinking": {"thinking": "string", "signature": "string"},
    "redacted_thinking": {"data": "string"},
    "tool_use": {"id": "string", "name": "string", "input": "object"},
    "tool_result": {"tool_use_id": "string"},
    "server_tool_use": {"id": "string", "name": "string", "input": "object"},
    "container_upload": {"file_id": "string"},
    "mcp_tool_use": {"id": "string", "name": "string", "input": "object"},
    "compaction": {},
    "fallback": {},
    "mcp_tool_listing": {},
    "tool_addition": {},
    "tool_removal": {},
}
ONLY = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
}
IN_RESULT = ("text", "image", "document", "search_result", "tool_reference", "browser_state")


def check_headers(asked: Asked) -> Iterator[Rejection]:
    """Check the version of the API."""
    version = asked.headers.get("anthropic-version")
    if version is None:
        yield Rejection("anthropic-version: header is required")
    if version not in VERSIONS:
        yield Rejection(f'anthropic-version: "{version}" is not a valid version')


def check_fields(asked: Asked) -> Iterator[Rejection]:
    """Check which parameters there are, and their kinds."""
    body = asked.body
    newest = asked.headers.get("anthropic-version") == NEWEST
    fields = FIELDS if newest else FIELDS | OLDER
    if "anthropic-beta" in asked.headers or "betas" in body:
        fields = fields | BETA
    yield from check_object(body, fields, ("model", "max_tokens", "messages"), WORDS)
    for key in SAMPLING:
        if key in body and family_of(asked.model).sampling is False:
            yield Rejection(f"`{key}` is deprecated for this model.")
    if not 0 <= body.get("temperature", 0) <= 1:
        yield Rejection("temperature: range: 0..1")
    if body["max_tokens"] < 0:
        yield Rejection("max_tokens: Input should be greater than or equal to 0")
    if not body["messages"]:
        yield Rejection("messages: at least one message is required")


def check_messages(asked: Asked) -> Iterator[Rejection]:
    """Check the shape of each message and of each block."""
    messages = asked.body["messages"]
    for place, message in enumerate(messages):
        at = f"messages.{place}"
        fields = {"role": "string", "content": "string|array"}
        yield from check_object(message, fields, ("role", "content"), WORDS, at)
        role = message["role"]
        if role not in ("user", "assistant", "system"):
            yield Rejection(f"{at}.role: Input should be 'user', 'assistant' or 'system'")
        if role == "system":
            yield from _check_system(asked, place)
        if not message["content"] and not (role == "assistant" and place == len(messages) - 1):
            text = "all messages must have non-empty content except for the optional final assistant message"
            yield Rejection(f"{at}: {text}")
        for step, block in enumerate(blocks_of(message["content"])):
            yield from _check_block(block, role, f"{at}.content.{step}", asked)
    if messages[0]["role"] != "user":
        yield Rejection('messages: first message must use the "user" role')


def _check_system(asked: Asked, place: int) -> Iterator[Rejection]:
    """Check that a system message stands where one may stand: after the user, before the assistant."""
    messages = asked.body["messages"]
    if not family_of(asked.model).system_messages:
        yield Rejection(f"messages.{place}.role: role 'system' is not supported on this model")
    before = messages[place - 1].get("role") if place and type(messages[place - 1]) is dict else None
    after = messages[place + 1] if place + 1 < len(messages) else {"role": "assistant"}
    if before != "user" or type(after) is not dict or after.get("role") != "assistant":
        yield Rejection(f"messages.{place}: a `system` message must follow a `user` message and end its turn")


def _check_block(block: Any, role: str, at: str, asked: Asked) -> Iterator[Rejection]:
    if type(block) is not dict:
        yield _wrong(at, "object", block)
    kind = block.get("type")
    known = BLOCKS.get(kind) if type(kind) is str else None
    if known is None and not (type(kind) is str and kind.endswith("_tool_result")):
        tags = ", ".join(f"'{word}'" for word in BLOCKS)
        text = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        yield Rejection(f"{at}: {text}")
    yield from check_object(block, known or {}, known or (), OPEN, f"{at}.{kind}")
    if ONLY.get(kind, role) != role:
        yield Rejection(f"{at}: `{kind}` blocks can only be in `{ONLY[kind]}` messages")
    if kind == "text" and not block["text"].strip():
        text = "be non-empty" if not block["text"] else "contain non-whitespace text"
        yield Rejection(f"messages: text content blocks must {text}")
    if kind == "tool_use":
        yield from _check_id(block["id"], f"{at}.tool_use.id")
        if not NAME.fullmatch(block["name"]):
            yield Rejection(f"{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if kind == "tool_result":
        yield from _check_result(block, f"{at}.tool_result")
    if kind == "document" and role == "assistant" and asked.headers.get("anthropic-version") == NEWEST:
        yield Rejection(f"{at}: `document` blocks can only be in `user` messages")


def _check_id(given: str, at: str) -> Iterator[Rejection]:
    if not ID.fullmatch(given):
        yield Rejection(f"{at}: String should match pattern '^[a-zA-Z0-9_-]+$'")


def _check_result(block: dict[str, Any], at: str) -> Iterator[Rejection]:
    yield from _check_id(block["tool_use_id"], f"{at}.tool_use_id")
    fields = {"content": "string|array", "is_error": "boolean"}
    yield from check_object(
        {key: value for key, value in block.items() if key in fields and value is not None},
        fields,
        (),
        WORDS,
        at,
    )
    for step, inner in enumerate(blocks_of(block.get("content")) if type(block.get("content")) is list else ()):
        kind = inner.get("type") if type(inner) is dict else None
        if kind not in IN_RESULT:
            yield Rejection(f"{at}.content.{step}: Input tag '{kind}' found using 'type' does not match any tag")
        if kind == "text" and not inner.get("text"):
            yield Rejection("messages: text content blocks must be non-empty")


def check_pairing(asked: Asked) -> Iterator[Rejection]:
    """Check that every call has its result first thing in the next turn, and every result its call."""
    seen: set[str] = set()
    places = _turn_places(asked.body["messages"])
    before: list[str] = []
    for place, (role, blocks) in zip(places, merged(asked.body["messages"]), strict=True):
        called = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for name in called:
            if name in seen:
                yield Rejection(f"messages.{place}.content: `tool_use` ids must be unique")
            seen.add(name)
        if role == "system":
            continue
        leading = _leading_results(blocks)
        lacking = [name for name in before if name not in leading]
        if lacking:
            yield _dangling(place - 1, lacking)
        yield from _check_answers(blocks, before, place)
        before = called
    if before:
        yield _dangling(len(asked.body["messages"]) - 1, before)


def _turn_places(messages: list[Any]) -> list[int]:
    roles = [message["role"] for message in messages]
    return [place for place, role in enumerate(roles) if not place or roles[place - 1] != role]


def _leading_results(blocks: list[Any]) -> list[str]:
    names = []
    for block in blocks:
        if block["type"] != "tool_result":
            break
        names.append(block["tool_use_id"])
    return names


def _check_answers(blocks: list[Any], before: list[str], place: int) -> Iterator[Rejection]:
    results = [(step, block["tool_use_id"]) for step, block in enumerate(blocks) if block["type"] == "tool_result"]
    for step, name in results:
        if name not in before:
            at = f"messages.{place}.content.{step}"
            text = f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each `tool_result` "
            yield Rejection(f"{text}block must have a corresponding `tool_use` block in the previous message.")
    if (again := twice(name for _, name in results)) is not None:
        text = f"messages.{place}.content: each tool_use must have a single result. Found multiple "
        yield Rejection(f"{text}`tool_result` blocks with id: {again}")


def _dangling(place: int, names: list[str]) -> Rejection:
    text = f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
    rest = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    return Rejection(f"{text}{', '.join(names)}. {rest}")


def check_end(asked: Asked) -> Iterator[Rejection]:
    """Check how the conversation ends: newer models do not go on writing an answer that was begun."""
    last = asked.body["messages"][-1]
    if last["role"] != "assistant":
        return
    if family_of(asked.model).prefill is False:
        text = "This model does not support assistant message prefill. "
        yield Rejection(f"{text}The conversation must end with a user message.")
    blocks = blocks_of(last["content"])
    if blocks and blocks[-1]["type"] == "text" and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
        yield Rejection("messages: final assistant content cannot end with trailing whitespace")


def check_tools(asked: Asked) -> Iterator[Rejection]:
    """Check the declared tools, and the choice among them."""
    tools = asked.body.get("tools") or []
    for place, tool in enumerate(tools):
        if type(tool) is not dict:
            yield _wrong(f"tools.{place}", "object", tool)
        if tool.get("type") not in (None, "custom"):
            continue
        at = f"tools.{place}.custom"
        yield from check_object(
            tool,
            {"name": "string", "input_schema": "object", "description": "string|null"},
            ("name", "input_schema"),
            OPEN,
            at,
        )
        if not NAME.fullmatch(tool["name"]):
            yield Rejection(f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool["input_schema"].get("type") != "object":
            kind = "Field required" if "type" not in tool["input_schema"] else "Input should be 'object'"
            yield Rejection(f"{at}.input_schema.type: {kind}")
    names = [tool.get("name") for _, tool in objects(tools)]
    if twice(names) is not None:
        yield Rejection("tools: Tool names must be unique.")


def check_choice(asked: Asked) -> Iterator[Rejection]:
    """Check the choice among the tools."""
    choice, tools = asked.body.get("tool_choice"), asked.body.get("tools")
    if choice is None:
        return
    if choice.get("type") not in ("auto", "any", "tool", "none"):
        text = f"tool_choice: Input tag '{choice.get('type')}' found using 'type' does not match any of the "
        yield Rejection(f"{text}expected tags: 'auto', 'any', 'tool', 'none'")
    if not tools:
        yield Rejection("tool_choice: tool_choice may only be specified while providing tools")
    if choice["type"] == "tool" and choice.get("name") not in [tool.get("name") for tool in tools or ()]:
        yield Rejection(f"Tool '{choice.get('name')}' not found in provided tools")


def check_marks(asked: Asked) -> Iterator[Rejection]:
    """Count the cache marks."""
    count, left = 0, [asked.body.get(key) for key in ("system", "tools", "messages")]
    while left:
        here = left.pop()
        if type(here) is dict:
            count += type(here.get("cache_control")) is dict
            left += [here[key] for key in ("content",) if key in here]
        elif type(here) is list:
            left += here
    count += type(asked.body.get("cache_control")) is dict
    if count > MOST_MARKS:
        text = f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {count}."
        yield Rejection(text)


CHECKS: tuple[Check, ...] = (
    check_headers,
    check_fields,
    check_messages,
    check_tools,
    check_choice,
    check_pairing,
    check_marks,
    check_thinking,
    check_end,
)
