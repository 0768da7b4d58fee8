"""What the server of Chat Completions refuses: in its words, with its codes."""

from collections.abc import Iterator
from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.strictness.asked import Asked, Check, Rejection
from toolwire.testing.strictness.openai import (
    MOST_TOOLS,
    WORDS,
    array_length,
    bounds,
    check_choice,
    check_functions,
    check_sampling,
    invalid,
    missing,
    says_json,
    too_long,
    wrong,
)
from toolwire.testing.strictness.shapes import check_object, fits

NAME_LIMIT = 64
ID_LIMIT = 40
MOST_STOPS = 4
OPEN = WORDS._replace(unknown=None)
ROLES = ("system", "assistant", "user", "function", "tool", "developer")
FIELDS = {
    **dict.fromkeys(("model",), "string"),
    **dict.fromkeys(("messages",), "array"),
    **dict.fromkeys(("tools", "functions"), "array"),
    **dict.fromkeys(("audio", "logit_bias", "metadata", "moderation", "prediction"), "object|null"),
    **dict.fromkeys(("prompt_cache_options", "response_format", "stream_options"), "object|null"),
    **dict.fromkeys(("web_search_options",), "object"),
    **dict.fromkeys(("frequency_penalty", "presence_penalty", "temperature", "top_p"), "number|null"),
    **dict.fromkeys(("max_completion_tokens", "max_tokens", "n", "seed", "top_logprobs"), "integer|null"),
    **dict.fromkeys(("logprobs", "store", "stream"), "boolean|null"),
    **dict.fromkeys(("parallel_tool_calls",), "boolean"),
    **dict.fromkeys(("modalities",), "array|null"),
    **dict.fromkeys(("prompt_cache_key", "prompt_cache_retention", "reasoning_effort"), "string|null"),
    **dict.fromkeys(("safety_identifier", "service_tier", "verbosity"), "string|null"),
    **dict.fromkeys(("user",), "string"),
    "stop": "string|array|null",
    "tool_choice": "string|object",
    "function_call": "string|object",
}
MESSAGE = {
    **dict.fromkeys(("role", "name", "tool_call_id"), "string"),
    "content": "string|array|null",
    "refusal": "string|null",
    "tool_calls": "array|null",
    "function_call": "object|null",
    "audio": "object|null",
    "annotations": "array|null",
}
# What many compatible servers answer, and their clients send back.
EXTRA = dict.fromkeys(("reasoning_content", "reasoning", "reasoning_details"), "string|array|null")
PARTS = {
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
    "system": ("text",),
    "developer": ("text",),
}
NEEDED = {
    "text": ("text", "string"),
    "refusal": ("refusal", "string"),
    "image_url": ("image_url", "object"),
    "input_audio": ("input_audio", "object"),
    "file": ("file", "object"),
}


def check_fields(asked: Asked) -> Iterator[Rejection]:
    """Check which parameters there are, and their kinds."""
    yield from check_object(asked.body, FIELDS, ("model", "messages"), WORDS)
    yield from array_length("messages", len(asked.body["messages"]), 1, None)


def check_messages(asked: Asked) -> Iterator[Rejection]:
    """Check the shape of each message."""
    for place, message in enumerate(asked.body["messages"]):
        at = f"messages[{place}]"
        yield from check_object(message, MESSAGE | EXTRA, ("role",), WORDS, at)
        role = message["role"]
        if role not in ROLES:
            yield invalid(f"{at}.role", role, ROLES)
        yield from _check_parts(message.get("content"), PARTS.get(role, ()), f"{at}.content")
        yield from _check_calls(message.get("tool_calls"), f"{at}.tool_calls")
        yield from _check_absence(message, place)


def _check_absence(message: dict[str, Any], place: int) -> Iterator[Rejection]:
    """Check that nothing is missing that a message of its role has."""
    role = message["role"]
    said = any(message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio"))
    if message.get("content") is None and role != "function" and not (role == "assistant" and said):
        if "content" not in message:
            yield missing(f"messages[{place}].content")
        text = "Invalid value for 'content': expected a string, got null."
        yield Rejection(text, f"messages.[{place}].content")
    if role == "tool" and "tool_call_id" not in message:
        yield missing(f"messages[{place}].tool_call_id")


def _check_parts(content: Any, known: tuple[str, ...], at: str) -> Iterator[Rejection]:
    if type(content) is not list or not known:
        return
    yield from array_length(at, len(content), 1, None)
    for place, part in enumerate(content):
        here = f"{at}[{place}]"
        if type(part) is not dict:
            yield wrong(here, "object", part)
            return
        if "type" not in part:
            yield missing(f"{here}.type")
            return
        if part["type"] not in known:
            yield invalid(f"{here}.type", part["type"], known)
            return
        key, kind = NEEDED[part["type"]]
        if key not in part:
            yield missing(f"{here}.{key}")
        elif not fits(part[key], kind):
            yield wrong(f"{here}.{key}", kind, part[key])


def _check_calls(calls: Any, at: str) -> Iterator[Rejection]:
    if calls is None:
        return
    yield from array_length(at, len(calls), 1, MOST_TOOLS)
    for place, call in enumerate(calls):
        here = f"{at}[{place}]"
        fields = {
            "id": "string",
            "type": "string",
            "function": "object",
            "custom": "object",
            "index": "integer",
        }
        kind = "custom" if type(call) is dict and call.get("type") == "custom" else "function"
        extra = {"extra_content": "object"}
        yield from check_object(call, fields | extra, ("id", "type", kind), WORDS, here)
        text = "input" if kind == "custom" else "arguments"
        yield from check_object(call[kind], {"name": "string", text: "string"}, ("name", text), WORDS, f"{here}.{kind}")
        if len(call["id"]) > ID_LIMIT:
            yield too_long(f"{here}.id", call["id"], ID_LIMIT)


def check_pairing(asked: Asked) -> Iterator[Rejection]:
    """Check that every call has its results right after it, and every result its call."""
    waiting: list[str] = []
    known: set[str] = set()
    for place, message in enumerate(asked.body["messages"]):
        if message["role"] == "tool":
            if not known:
                text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                yield Rejection(f"Invalid parameter: {text}", f"messages.[{place}].role")
            given = message["tool_call_id"]
            if given not in known:
                text = f"Invalid parameter: 'tool_call_id' of '{given}' not found in 'tool_calls' of previous "
                yield Rejection(f"{text}message.", f"messages.[{place}].tool_call_id")
            waiting = [call_id for call_id in waiting if call_id != given]
            continue
        yield from _dangling(waiting, place)
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        known = set(waiting)
    yield from _dangling(waiting, len(asked.body["messages"]))


def _dangling(waiting: list[str], place: int) -> Iterator[Rejection]:
    if waiting:
        text = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(waiting)}"
        )
        yield Rejection(text, f"messages.[{place}].role")


def check_tools(asked: Asked) -> Iterator[Rejection]:
    """Check the declared tools, and the choice among them."""
    tools = asked.body.get("tools")
    names: set[str] = set()
    if tools is not None:
        yield from array_length("tools", len(tools), 1, MOST_TOOLS)
        functions = []
        for place, tool in enumerate(tools):
            at = f"tools[{place}]"
            yield from check_object(
                tool, {"type": "string", "function": "object", "custom": "object"}, ("type",), OPEN, at
            )
            kind = tool["type"]
            if kind not in ("function", "custom"):
                yield invalid(f"{at}.type", kind, ("function", "custom"))
            if kind not in tool:
                yield missing(f"{at}.{kind}")
            functions.append((f"{at}.{kind}", tool[kind]))
        yield from check_functions(functions, NAME_LIMIT)
        names = {function["name"] for _, function in functions}
    yield from check_choice(asked.body, _forced(asked.body.get("tool_choice")), names)


def _forced(choice: Any) -> str | None:
    match choice:
        case {"type": "function", "function": {"name": str(name)}} | {
            "type": "custom",
            "custom": {"name": str(name)},
        }:
            return name
    return None


def check_settings(asked: Asked) -> Iterator[Rejection]:
    """Check bounds, and what depends on the model."""
    body, model = asked.body, asked.model
    effort = body.get("reasoning_effort")
    yield from check_sampling(body, model, effort)
    yield from bounds("n", body.get("n"), 1, 128)
    yield from bounds("max_completion_tokens", body.get("max_completion_tokens"), 1)
    if type(body.get("stop")) is list:
        yield from array_length("stop", len(body["stop"]), 0, MOST_STOPS)
    if body.get("stream_options") is not None and body.get("stream") is not True:
        text = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Rejection(text, "stream_options")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        text = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        yield Rejection(text, "max_tokens", "invalid_parameter_combination")
    if family_of(model).reasons and body.get("max_tokens") is not None:
        text = "Unsupported parameter: 'max_tokens' is not supported with this model. "
        yield Rejection(f"{text}Use 'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter")
    if body.get("tools") and effort != "none" and _wants_responses(model, effort):
        text = f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
        rest = "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        yield Rejection(text + rest, "reasoning_effort")


def _wants_responses(model: str, effort: Any) -> bool:
    """Whether a model runs no functions on this wire while it reasons; some only where an effort is given."""
    family = family_of(model)
    return family.functions_while_reasoning is False and (effort is not None or family.reasons_unasked is not False)


def check_format(asked: Asked) -> Iterator[Rejection]:
    """Check the form that is asked of the answer."""
    form = asked.body.get("response_format")
    if form is None:
        return
    kinds = ("json_object", "json_schema", "text")
    if form.get("type") not in kinds:
        yield invalid("response_format.type", form.get("type"), kinds)
    if form["type"] == "json_object" and not says_json(asked.body["messages"]):
        text = "'messages' must contain the word 'json' in some form, to use 'response_format' of type "
        yield Rejection(f"{text}'json_object'.", "messages")
    if form["type"] == "json_schema":
        fields = {"name": "string", "schema": "object", "strict": "boolean|null", "description": "string"}
        if "json_schema" not in form:
            yield missing("response_format.json_schema")
        yield from check_object(form["json_schema"], fields, ("name",), WORDS, "response_format.json_schema")


CHECKS: tuple[Check, ...] = (
    check_fields,
    check_messages,
    check_pairing,
    check_tools,
    check_settings,
    check_format,
)
