"""The requests that the server of the Messages API rejects, with its error messages.

Rules of this file:
- The signature of a thinking block binds its text. On newer models it also binds everything before it: the system
  prompt, the tools and every earlier block, whatever the spelling and the cache marks.
- The model's name decides which rules apply.

Sources: the types of anthropic 2.11.0; platform.claude.com, the pages on versioning, migration, models and "What's new
in Opus 5.5" (2026-11-20); anthropics/skills, model migration (2026-07-01); the error messages are those that users
report.
"""

import re
from functools import cache
from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.rules import (
    ANYTHING,
    Check,
    Closed,
    ErrorWording,
    Field,
    Object,
    Rejection,
    Tagged,
    WireRequest,
    repeated,
    turns_of,
)
from toolwire.testing.sealing import digest, is_token, seal

# platform.claude.com/docs/en/api/versioning, 2026-11-20
_VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")
_NEWEST = "2026-10-21"
# modelcontextprotocol#1345 (2025-08-14), netclaw#1133 (2026-05-21), nicobailon/pi-mcp-adapter#190 (2026-07-17)
_NAME = re.compile("^[a-zA-Z0-9_-]{1,128}$", re.ASCII)
_KEY = re.compile("^[a-zA-Z0-9_.-]{1,64}$", re.ASCII)  # by users, 2026-07 and 2026-09-19
_ID = re.compile("^[a-zA-Z0-9_-]+$", re.ASCII)  # maximhq/bifrost#5097 and HKUDS/nanobot#4356, 2026-06
_MOST_MARKS = 4  # the documentation of prompt caching, as of 2026-11-20
_LEAST_BUDGET = 1024  # the types of anthropic 2.11.0

_ANTHROPIC = ErrorWording(
    {
        "missing": "{path}: Field required",
        "unknown": "{path}: Extra inputs are not permitted",
        "wrong": "{path}: Input should be a valid {expected}",
        "one_of": "{path}: Input should be {with_or}",
        "tag": "{path}: Input tag '{value}' found using 'type' does not match any of the expected tags: {listed}",
        "pattern": "{path}: String should match pattern '{pattern}'",
        "below": "{path}: Input should be greater than or equal to {least}",
        "empty": "{path}: at least one message is required",
    },
    kinds={
        **{kind: kind for kind in ("string", "integer", "number", "boolean", "null")},
        "object": "dictionary",
        "array": "list",
    },
)

_IN_RESULT = ("text", "image", "document", "search_result", "tool_reference", "browser_state")
_BLOCKS: dict[str, Object] = {
    "text": Object("string: text!"),
    "image": Object("object: source!"),
    "document": Object("object: source!"),
    "search_result": Object("string: source!"),
    "thinking": Object("string: thinking! signature!"),
    "redacted_thinking": Object("string: data!"),
    "tool_use": Object(
        "object: input!",
        id=Field("string", required=True, pattern=_ID),
        name=Field("string", required=True, pattern=_NAME),
    ),
    "tool_result": Object(
        "boolean|null: is_error",
        tool_use_id=Field("string", required=True, pattern=_ID),
        content=Field("string|array|null", inside=Tagged(dict.fromkeys(_IN_RESULT, ANYTHING))),
    ),
    "server_tool_use": Object("string: id! name!", "object: input!"),
    "container_upload": Object("string: file_id!"),
    "mcp_tool_use": Object("string: id! name!", "object: input!"),
    **dict.fromkeys(("compaction", "fallback", "mcp_tool_listing", "tool_addition", "tool_removal"), ANYTHING),
}
ONLY = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
}


def _type_of_block(block: dict[str, Any]) -> Any:
    """Return the type of a block. The server's own tools have many types of results."""
    kind = block.get("type")
    is_server_result = type(kind) is str and kind not in _BLOCKS and kind.endswith("_tool_result")
    return ANYTHING if is_server_result else kind


_MESSAGE = Closed(
    role=Field("string", required=True, one_of=("user", "assistant", "system")),
    content=Field("string|array", required=True, inside=Tagged(_BLOCKS, choose=_type_of_block)),
)
_TOOL = Object(
    "string|null: description",
    name=Field("string", required=True, pattern=_NAME),
    input_schema=Field("object", required=True, inside=Object(type=Field("any", required=True, one_of=("object",)))),
)
_TOOLS = Tagged({"custom": _TOOL}, choose=lambda tool: "custom" if tool.get("type") in (None, "custom") else ANYTHING)
_BUDGET = Field("integer", required=True, least=_LEAST_BUDGET)
_THINKING = Tagged(
    {
        "adaptive": ANYTHING,
        "enabled": Object(budget_tokens=_BUDGET),
        "disabled": ANYTHING,
        "between_tools": ANYTHING,
    },
    choose=lambda setting: setting.get("type") if setting else ANYTHING,
)
# Gone from the newest version: platform.claude.com, migration page, 2026-11-20.
_SAMPLING = {"temperature": Field("number"), "top_p": Field("number"), "top_k": Field("integer")}
_BETA = (
    "array: mcp_servers betas",
    "object|null: billing_policy compaction context_management thread output_format",
    "array|string|null: fallbacks",
    "string|object|null: fallback_credit_token",
)


@cache
def body_of(*, newest: bool, beta: bool) -> Object:
    """Return the table of a body. The newest version of the API has no sampling parameters."""
    return Closed(
        "string: model! service_tier user_profile_id workspace_id",
        "string|array: system",
        "boolean: stream",
        "array: stop_sequences",
        "object: output_config metadata",
        "string|null: inference_geo speed",
        "object|null: cache_control diagnostics",
        "string|object|null: container",
        *(_BETA if beta else ()),
        max_tokens=Field("integer", required=True, least=0),
        messages=Field("array", required=True, least=1, inside=_MESSAGE),
        tools=Field("array", inside=_TOOLS),
        tool_choice=Field("object", inside=Tagged(dict.fromkeys(("auto", "any", "tool", "none"), ANYTHING))),
        thinking=Field("object", inside=_THINKING),
        **({} if newest else _SAMPLING),
    )


def _blocks_of(content: Any) -> list[Any]:
    """Return content as blocks; a text is one block."""
    if type(content) is str:
        return [{"type": "text", "text": content}]
    return content if type(content) is list else []


def turns(messages: list[Any]) -> list[tuple[int, str, list[Any]]]:
    """Return each turn of a conversation: the index of its first message, its role, and its blocks."""
    return [
        (indexes[0], role, [block for index in indexes for block in _blocks_of(messages[index]["content"])])
        for role, indexes in turns_of(message["role"] for message in messages)
    ]


def _check_shape(request: WireRequest) -> None:
    """Check the API version, and everything that the tables describe."""
    version, body = request.headers.get("anthropic-version"), request.body
    if version is None:
        raise Rejection("anthropic-version: header is required")
    if version not in _VERSIONS:
        raise Rejection(f'anthropic-version: "{version}" is not a valid version')
    beta = "anthropic-beta" in request.headers or "betas" in body
    body_of(newest=version == _NEWEST, beta=beta).check(body, (), _ANTHROPIC)
    for key in _SAMPLING:
        if key in body and family_of(request.model).sampling is False:
            raise Rejection(f"`{key}` is deprecated for this model.")
    if not 0 <= body.get("temperature", 0) <= 1:
        raise Rejection("temperature: range: 0..1")
    if any(not word.strip() for word in body.get("stop_sequences", ()) if type(word) is str):
        raise Rejection("stop_sequences: each stop sequence must contain non-whitespace")
    if "@" in str((body.get("metadata") or {}).get("user_id")):
        raise Rejection("metadata.user_id: user_id appears to contain an email address")
    if {"temperature", "top_p"} <= body.keys() and family_of(request.model).temperature_with_top_p is False:
        raise Rejection("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")


def _check_messages(request: WireRequest) -> None:
    """Check the system prompt and each message, by its role and its position."""
    for block in _blocks_of(request.body.get("system", [])):
        if type(block) is dict and not str(block.get("text", "text")).strip():
            raise Rejection("system: text content blocks must contain non-whitespace text")
    messages = request.body["messages"]
    only = ONLY | {"document": "user"} if request.headers["anthropic-version"] == _NEWEST else ONLY
    for index, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "system":
            _check_system(request, index)
        if not content and not (role == "assistant" and index == len(messages) - 1):
            text = "all messages must have non-empty content except for the optional final assistant message"
            raise Rejection(f"messages.{index}: {text}")
        for step, block in enumerate(_blocks_of(content)):
            kind = block["type"]
            if only.get(kind, role) != role and (kind != "document" or role == "assistant"):
                raise Rejection(
                    f"messages.{index}.content.{step}: `{kind}` blocks can only be in `{only[kind]}` messages"
                )
            _check_words(block)
    if messages[0]["role"] != "user":
        raise Rejection('messages: first message must use the "user" role')


def _check_words(block: dict[str, Any]) -> None:
    """Check that no text is empty (anthropics/claude-code#59812, 2026-05-16)."""
    if block["type"] == "text" and not block["text"].strip():
        text = "be non-empty" if not block["text"] else "contain non-whitespace text"
        raise Rejection(f"messages: text content blocks must {text}")
    if block["type"] == "tool_result" and type(block.get("content")) is list:
        for inner in block["content"]:
            if inner["type"] == "text" and not inner.get("text"):
                raise Rejection("messages: text content blocks must be non-empty")
            if inner["type"] != "text" and block.get("is_error"):
                raise Rejection("messages: all content must be type `text` if `is_error` is true")


def _check_system(request: WireRequest, index: int) -> None:
    """Check the position of a system message: after the user, before the assistant."""
    messages = request.body["messages"]
    if not family_of(request.model).system_messages:
        raise Rejection(f"messages.{index}.role: role 'system' is not supported on this model")
    before = messages[index - 1]["role"] if index else None
    after = messages[index + 1]["role"] if index + 1 < len(messages) else "assistant"
    if (before, after) != ("user", "assistant"):
        raise Rejection(f"messages.{index}: a `system` message must follow a `user` message and end its turn")


def _check_tools(request: WireRequest) -> None:
    """Check the names of the declared tools, and the tool choice."""
    names = [tool.get("name") for tool in request.body.get("tools", ())]
    if repeated(names) is not None:
        raise Rejection("tools: Tool names must be unique.")
    for index, tool in enumerate(request.body.get("tools", ())):
        properties = (tool.get("input_schema") or {}).get("properties")
        if type(properties) is dict and not all(map(_KEY.match, properties)):
            where = f"tools.{index}.custom.input_schema.properties"
            raise Rejection(f"{where}: Property keys should match pattern '{_KEY.pattern}'")
        if not {"oneOf", "allOf", "anyOf"}.isdisjoint(tool.get("input_schema") or ()):
            where = f"tools.{index}.custom.input_schema"
            raise Rejection(f"{where}: input_schema does not support oneOf, allOf, or anyOf at the top level")
    choice = request.body.get("tool_choice")
    if choice is not None and not names:
        raise Rejection("tool_choice: tool_choice may only be specified while providing tools")
    if choice is not None and choice["type"] == "tool" and choice.get("name") not in names:
        raise Rejection(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_pairing(request: WireRequest) -> None:
    """Check that every call has its result at the start of the next turn, and every result its call."""
    known_ids: set[str] = set()
    waiting: list[str] = []
    for index, role, blocks in turns(request.body["messages"]):
        call_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if repeated(call_ids) is not None or not known_ids.isdisjoint(call_ids):
            raise Rejection(f"messages.{index}.content: `tool_use` ids must be unique")
        known_ids.update(call_ids)
        if role == "system":
            continue
        results = [(step, block["tool_use_id"]) for step, block in enumerate(blocks) if block["type"] == "tool_result"]
        first = [name for nth, (step, name) in enumerate(results) if nth == step]
        _reject_unanswered([name for name in waiting if name not in first], index - 1)
        for step, name in results:
            if name not in waiting:
                text = f"unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each `tool_result` block must "
                ending = "have a corresponding `tool_use` block in the previous message."
                raise Rejection(f"messages.{index}.content.{step}: {text}{ending}")
        if (duplicate := repeated(name for _, name in results)) is not None:
            text = "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
            raise Rejection(f"messages.{index}.content: {text}: {duplicate}")
        waiting = call_ids
    _reject_unanswered(waiting, len(request.body["messages"]) - 1)


def _reject_unanswered(names: list[str], index: int) -> None:
    if names:
        text = f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        ending = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        raise Rejection(f"{text}{', '.join(names)}. {ending}")


def _check_marks(request: WireRequest) -> None:
    count, pending = 0, [request.body.get(key) for key in ("system", "tools", "messages")]
    while pending:
        value = pending.pop()
        if type(value) is dict:
            count += type(value.get("cache_control")) is dict
            pending.append(value.get("content"))
        elif type(value) is list:
            pending += value
    count += type(request.body.get("cache_control")) is dict
    if count > _MOST_MARKS:
        text = f"A maximum of {_MOST_MARKS} blocks with cache_control may be provided. Found {count}."
        raise Rejection(text)


def _check_end(request: WireRequest) -> None:
    """Check the end of the conversation: newer models do not continue the beginning of an answer."""
    last = request.body["messages"][-1]
    if last["role"] != "assistant":
        return
    if family_of(request.model).prefill is False:
        text = "This model does not support assistant message prefill. "
        raise Rejection(f"{text}The conversation must end with a user message.")
    blocks = _blocks_of(last["content"])
    if blocks and blocks[-1]["type"] == "text" and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
        raise Rejection("messages: final assistant content cannot end with trailing whitespace")


def _comparable(value: Any) -> Any:
    """Return a value without the parts that are not compared: cache marks, and empty keys."""
    if type(value) is dict:
        return {
            key: _comparable(inner)
            for key, inner in value.items()
            if inner is not None and key not in ("cache_control", "citations")
        }
    return [_comparable(inner) for inner in value] if type(value) is list else value


def prefix_of(request: WireRequest, index: int | None, before: list[Any]) -> str:
    """Return the digest that a thinking block is bound to.

    It covers everything before the message at `index`, and before the block in its turn. Without an index, the block
    belongs to the answer, which follows all messages.
    """
    if not request.judged or not family_of(request.model).thoughts_bound:
        return ""
    body = request.body
    earlier = [(role, blocks) for _, role, blocks in turns(body["messages"][:index])]
    if earlier and earlier[-1][0] == "assistant":
        before = [*earlier.pop()[1], *before]
    return digest(*_comparable([_blocks_of(body.get("system")), body.get("tools") or [], earlier, before])).hex()


def _check_thinking(request: WireRequest) -> None:
    """Check the thinking blocks of the history, and the setting."""
    _check_setting(request)
    _check_force(request)
    for index, message in enumerate(request.body["messages"]):
        blocks = _blocks_of(message["content"])
        for step, block in enumerate(blocks):
            at = f"messages.{index}.content.{step}"
            if block["type"] == "thinking":
                _check_thought(request, block, prefix_of(request, index, blocks[:step]), at)
            elif block["type"] == "redacted_thinking":
                data = block["data"]
                if not is_token(data) and data not in request.memory.signatures:
                    raise Rejection(f"{at}: Invalid `data` in `redacted_thinking` block")
    _check_first(request)


def _check_thought(request: WireRequest, block: dict[str, Any], prefix: str, at: str) -> None:
    signature = block["signature"]
    if signature in request.memory.signatures or signature == seal(block["thinking"], prefix):
        return
    example = seal("")
    if (
        family_of(request.model).thoughts_bound
        and len(signature) == len(example)
        and signature.startswith(example[:20])
    ):
        text = "Invalid signature in thinking block. The block is bound to a different conversation"
        raise Rejection(f"{at}: {text}")
    raise Rejection(f"{at}: Invalid `signature` in `thinking` block")


def _check_first(request: WireRequest) -> None:
    """Check that a turn whose tools are being run begins with its thinking, if thinking has a budget."""
    messages = request.body["messages"]
    if (request.body.get("thinking") or {}).get("type") != "enabled" or len(turns(messages)) < 2:
        return
    (_, role, calls), (_, _, results) = turns(messages)[-2:]
    kinds = [block["type"] for block in calls]
    runs = "tool_use" in kinds and any(block["type"] == "tool_result" for block in results)
    if role == "assistant" and runs and kinds[0] not in ("thinking", "redacted_thinking"):
        last = max(index for index, message in enumerate(messages) if message["role"] == "assistant")
        raise Rejection(
            f"messages.{last}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must start with a "
            "thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )


def _check_setting(request: WireRequest) -> None:
    setting = request.body.get("thinking") or {}
    kind = setting.get("type")
    family = family_of(request.model)
    always = family.always_thinks
    if kind == "enabled":
        if family.thinking_budget is False:
            text = '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            raise Rejection(f'{text}"output_config.effort" to control thinking behavior.')
        if setting["budget_tokens"] >= request.body["max_tokens"]:
            raise Rejection("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if kind == "adaptive" and family.adaptive_thinking is False:
        raise Rejection("adaptive thinking is not supported on this model")
    _check_effort(request, thinks=kind not in ("disabled", "between_tools"))
    if kind == "disabled" and (always or family.thinking_off):
        instead = f' Use "thinking.type.{family.thinking_off}" to turn thinking off.' if family.thinking_off else ""
        raise Rejection(f'"thinking.type.disabled" is not supported for this model.{instead}')


def _check_effort(request: WireRequest, *, thinks: bool) -> None:
    effort, family = (request.body.get("output_config") or {}).get("effort"), family_of(request.model)
    if effort is None:
        return
    if family.efforts == ():
        raise Rejection("This model does not support the effort parameter.")
    if family.efforts is not None and effort not in family.efforts:
        listed = ", ".join(sorted(family.efforts))
        raise Rejection(f"This model does not support effort level '{effort}'. Supported levels: {listed}.")
    if not thinks and effort in ("xhigh", "max") and family.much_effort_without_thinking is False:
        text = f"output_config.effort '{effort}' is not supported when thinking is disabled on this model. "
        raise Rejection(f"{text}Use effort 'high' or below, or enable thinking.")


def _check_force(request: WireRequest) -> None:
    """Check that tool use is forced only on models that allow it, and only without thinking."""
    if (request.body.get("tool_choice") or {}).get("type") not in ("any", "tool"):
        return
    kind, family = (request.body.get("thinking") or {}).get("type"), family_of(request.model)
    if family.forced_choice is False:
        raise Rejection("tool_choice: forcing tool use is not supported for this model.")
    if family.always_thinks or kind == "enabled" or (kind == "adaptive" and family.thinking_budget is False):
        raise Rejection("Thinking may not be enabled when tool_choice forces tool use.")


CHECKS: tuple[Check, ...] = (
    _check_shape,
    _check_messages,
    _check_tools,
    _check_pairing,
    _check_marks,
    _check_thinking,
    _check_end,
)
