"""The requests that the server of Chat Completions rejects, with its error messages and codes.

Sources: openai/openai-openapi (2026-08-21) and the types of openai 3.52.0; where no other source is named, users report
the rejection in issues (2025-03 to 2026-11).
"""

from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.rules import (
    ANYTHING,
    Check,
    Closed,
    Field,
    Object,
    Path,
    Rejection,
    Tagged,
    WireRequest,
    shape_of,
)
from toolwire.testing.rules_openai import (
    IDENTIFIERS,
    MOST_TOOLS,
    OPENAI,
    SAMPLING,
    check_answer,
    check_choice,
    check_functions,
    check_sampling,
    function_of,
    mentions_json,
)

_NAME_LIMIT = 64  # the types of openai 3.52.0
_ID_LIMIT = 40  # agno#5382 and RooCode#10763, 2025-03 to 2025-12
_MOST_STOPS = 4  # the types of openai 3.52.0

_PARTS = {
    "text": Object("string: text!"),
    "refusal": Object("string: refusal!"),
    "image_url": Object("object: image_url!"),
    "input_audio": Object("object: input_audio!"),
    "file": Object("object: file!"),
}


def _call(kind: str, text: str) -> Object:
    function = Field("object", required=True, inside=Closed(f"string: name! {text}!"))
    call_id = Field("string", required=True, longest=_ID_LIMIT)
    rows = ("string: id! type!", "integer: index", "object: function custom extra_content")
    return Closed(*rows, id=call_id, **{kind: function})


_CALLS = Tagged(
    {"function": _call("function", "arguments"), "custom": _call("custom", "input")},
    choose=lambda call: "custom" if call.get("type") == "custom" else "function",
)


def _message(*parts: str) -> Object:
    """Return the table of a message whose content may have such parts; without `parts`, its content is not checked."""
    content = Field("string|array|null")
    if parts:
        content = Field("string|array|null", least=1, inside=Tagged({part: _PARTS[part] for part in parts}))
    return Closed(
        "string: role! name tool_call_id",
        "string|null: refusal",
        "object|null: function_call audio",
        "array|null: annotations",
        # Many compatible servers return these, and their clients send them back.
        "string|array|null: reasoning_content reasoning reasoning_details",
        content=content,
        tool_calls=Field("array|null", least=1, most=MOST_TOOLS, inside=_CALLS),
    )


_MESSAGE = Tagged(
    {
        "system": _message("text"),
        "assistant": _message("text", "refusal"),
        "user": _message("text", "image_url", "input_audio", "file"),
        "function": _message(),
        "tool": _message("text"),
        "developer": _message("text"),
    },
    tag="role",
)
_FUNCTION = Field("object", required=True, inside=function_of(_NAME_LIMIT))
_TOOL = Tagged(
    {"function": Object("object: custom", function=_FUNCTION), "custom": Object("object: function", custom=_FUNCTION)}
)
_JSON_SCHEMA = Closed("string: name! description", "object: schema", "boolean|null: strict")
_FORMAT = Tagged(
    {
        "json_object": ANYTHING,
        "json_schema": Object(json_schema=Field("object", required=True, inside=_JSON_SCHEMA)),
        "text": ANYTHING,
    }
)
BODY = Closed(
    "string: model!",
    "boolean: parallel_tool_calls",
    "array: functions",
    "object: web_search_options",
    "string|object: tool_choice function_call",
    "array|null: modalities",
    "object|null: audio logit_bias metadata moderation prediction prompt_cache_options stream_options",
    "number|null: frequency_penalty presence_penalty",
    "integer|null: max_tokens seed top_logprobs",
    "boolean|null: logprobs store stream",
    "string|null: prompt_cache_key prompt_cache_retention reasoning_effort service_tier verbosity",
    messages=Field("array", required=True, least=1, inside=_MESSAGE),
    tools=Field("array", least=1, most=MOST_TOOLS, inside=_TOOL),
    n=Field("integer|null", least=1, most=128),
    max_completion_tokens=Field("integer|null", least=1),
    stop=Field("string|array|null", most=_MOST_STOPS),
    response_format=Field("object|null", inside=_FORMAT),
    **IDENTIFIERS,
    **SAMPLING,
)


def _check_absence(request: WireRequest) -> None:
    """Check that each message has the fields that its role requires."""
    for index, message in enumerate(request.body["messages"]):
        role = message["role"]
        has_other_content = any(message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio"))
        if message.get("content") is None and role != "function" and not (role == "assistant" and has_other_content):
            if "content" not in message:
                raise OPENAI.mistake("missing", ("messages", index, "content"))
            text = "Invalid value for 'content': expected a string, got null."
            raise Rejection(text, f"messages.[{index}].content")
        if role == "tool" and "tool_call_id" not in message:
            raise OPENAI.mistake("missing", ("messages", index, "tool_call_id"))


def _check_pairing(request: WireRequest) -> None:
    """Check that every call has its results right after it, and every result its call."""
    waiting: list[str] = []
    call_ids: set[str] = set()
    for index, message in enumerate(request.body["messages"]):
        if message["role"] != "tool":
            _reject_unanswered(waiting, index)
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
            call_ids = set(waiting)
            continue
        if not call_ids:
            text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            raise Rejection(f"Invalid parameter: {text}", f"messages.[{index}].role")
        answered = message["tool_call_id"]
        if answered not in call_ids:
            text = f"Invalid parameter: 'tool_call_id' of '{answered}' not found in 'tool_calls' of previous message."
            raise Rejection(text, f"messages.[{index}].tool_call_id")
        waiting = [call_id for call_id in waiting if call_id != answered]
    _reject_unanswered(waiting, len(request.body["messages"]))


def _reject_unanswered(waiting: list[str], index: int) -> None:
    if waiting:
        text = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(waiting)}"
        )
        raise Rejection(text, f"messages.[{index}].role")


def _check_tools(request: WireRequest) -> None:
    functions: list[tuple[Path, dict[str, Any]]] = [
        (("tools", index, tool["type"]), tool[tool["type"]]) for index, tool in enumerate(request.body.get("tools", ()))
    ]
    check_functions(functions)
    body = request.body
    names = {function["name"] for _, function in functions}
    of_tools = ("tool_choice", "parallel_tool_calls")
    check_choice(body, _forced(body.get("tool_choice")), names, any_tool=bool(body.get("tools")), of_tools=of_tools)


def _forced(choice: Any) -> str | None:
    match choice:
        case {"type": "function", "function": {"name": str(name)}} | {"type": "custom", "custom": {"name": str(name)}}:
            return name
    return None


def _check_settings(request: WireRequest) -> None:
    body, model, family = request.body, request.model, family_of(request.model)
    effort = body.get("reasoning_effort")
    check_sampling(body, model, effort)
    if body.get("stream_options") is not None and body.get("stream") is not True:
        text = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise Rejection(text, "stream_options")
    if body.get("metadata") and body.get("store") is not True and family.unstored_metadata is False:
        raise Rejection("The 'metadata' parameter is only allowed when 'store' is enabled.", "metadata")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        text = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        raise Rejection(text, "max_tokens", "invalid_parameter_combination")
    if family.reasons and body.get("max_tokens") is not None:
        text = "Unsupported parameter: 'max_tokens' is not supported with this model. "
        raise Rejection(f"{text}Use 'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter")
    needs_responses = family.functions_while_reasoning is False and (
        effort is not None or family.reasons_unasked is not False
    )
    if body.get("tools") and effort != "none" and needs_responses:
        text = f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
        ending = "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        raise Rejection(text + ending, "reasoning_effort")
    check_answer((body.get("response_format") or {}).get("json_schema"), "response_format")
    if (body.get("response_format") or {}).get("type") == "json_object" and not mentions_json(body["messages"]):
        text = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        raise Rejection(text, "messages")


CHECKS: tuple[Check, ...] = (
    shape_of(BODY, OPENAI),
    _check_absence,
    _check_pairing,
    _check_tools,
    _check_settings,
)
