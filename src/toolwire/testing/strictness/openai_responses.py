"""What the server of Responses refuses: in its words, with its codes."""

from collections.abc import Iterator
from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.sealing import is_token
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

NAME_LIMIT = 128
ID_LIMIT = 64
LEAST_TOKENS = 16
FIELDS = {
    "model": "string",
    "input": "string|array",
    "instructions": "string|array|null",
    "conversation": "string|object|null",
    "tools": "array",
    "tool_choice": "string|object",
    **dict.fromkeys(("access_programs", "image", "prompt_cache_options", "text"), "object"),
    **dict.fromkeys(("metadata", "moderation", "prompt", "reasoning", "stream_options"), "object|null"),
    **dict.fromkeys(("background", "parallel_tool_calls", "store", "stream"), "boolean|null"),
    **dict.fromkeys(("context_management", "include"), "array|null"),
    **dict.fromkeys(("max_output_tokens", "max_tool_calls", "top_logprobs"), "integer|null"),
    **dict.fromkeys(("temperature", "top_p"), "number|null"),
    **dict.fromkeys(("previous_response_id", "prompt_cache_key", "prompt_cache_retention"), "string|null"),
    **dict.fromkeys(("safety_identifier", "service_tier", "truncation"), "string|null"),
    "user": "string",
}
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
RESULTS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
HOSTED = (
    *("file_search_call", "computer_call", "computer_call_output", "web_search_call", "tool_search_call"),
    *("tool_search_output", "additional_tools", "configuration_update", "compaction", "compaction_trigger"),
    *("image_generation_call", "code_interpreter_call", "local_shell_call", "local_shell_call_output"),
    *("shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output", "mcp_list_tools"),
    *("mcp_approval_request", "mcp_approval_response", "mcp_call", "program", "program_output"),
)
ITEMS = ("message", "reasoning", "item_reference", *CALLS, *RESULTS, *HOSTED)
ROLES = ("assistant", "system", "developer", "user")
OF_USER = ("input_text", "input_image", "input_file", "input_audio")
OF_ASSISTANT = ("output_text", "refusal")


def check_fields(asked: Asked) -> Iterator[Rejection]:
    """Check which parameters there are, and their kinds."""
    body = asked.body
    yield from check_object(body, FIELDS, ("model",), WORDS)
    if not any(body.get(key) for key in ("input", "previous_response_id", "prompt", "conversation")):
        yield missing("input")
    name = body.get("previous_response_id")
    if name is not None and name not in asked.memory.inputs:
        text = f"Previous response with id '{name}' not found."
        yield Rejection(text, "previous_response_id", "previous_response_not_found")


def _usual_kind(item: dict[str, Any]) -> Any:
    return "message" if "role" in item else "item_reference" if "id" in item else None


def check_items(asked: Asked) -> Iterator[Rejection]:
    """Check the shape of each item."""
    given = asked.body.get("input")
    for place, item in enumerate(given if type(given) is list else ()):
        at = f"input[{place}]"
        if type(item) is not dict:
            yield wrong(at, "object", item)
        kind = item.get("type") or _usual_kind(item)
        if kind is None:
            yield missing(f"{at}.type")
        if not fits(item.get("type"), "string|null"):
            yield wrong(f"{at}.type", "string", kind)
        if not fits(item.get("id"), "string|null"):
            yield wrong(f"{at}.id", "string", item["id"])
        if kind not in ITEMS:
            yield invalid(f"{at}.type", kind, ITEMS)
        yield from CHECKS_OF.get(kind, _check_nothing)(item, at, asked)


def _check_nothing(item: dict[str, Any], at: str, asked: Asked) -> Iterator[Rejection]:
    del item, at, asked
    yield from ()


def _check_message(item: dict[str, Any], at: str, asked: Asked) -> Iterator[Rejection]:
    del asked
    for key in ("role", "content"):
        if key not in item:
            yield missing(f"{at}.{key}")
    role, content = item["role"], item["content"]
    if role not in ROLES:
        yield invalid(f"{at}.role", role, ROLES)
    if type(content) not in (str, list):
        yield wrong(f"{at}.content", "string|array", content)
    known = OF_ASSISTANT if role == "assistant" else OF_USER
    for place, part in enumerate(content if type(content) is list else ()):
        here = f"{at}.content[{place}]"
        if type(part) is not dict:
            yield wrong(here, "object", part)
        if "type" not in part:
            yield missing(f"{here}.type")
        if part["type"] not in known:
            yield invalid(here, part["type"], known)
        key = "refusal" if part["type"] == "refusal" else "text"
        if part["type"].endswith(("text", "refusal")) and type(part.get(key)) is not str:
            yield missing(f"{here}.{key}") if key not in part else wrong(f"{here}.{key}", "string", part[key])


def _check_call(item: dict[str, Any], at: str, asked: Asked) -> Iterator[Rejection]:
    del asked
    for key in ("call_id", "name", CALLS[item["type"]]):
        if key not in item:
            yield missing(f"{at}.{key}")
        if type(item[key]) is not str:
            yield wrong(f"{at}.{key}", "string", item[key])
    if len(item["call_id"]) > ID_LIMIT:
        yield too_long(f"{at}.call_id", item["call_id"], ID_LIMIT)


def _check_result(item: dict[str, Any], at: str, asked: Asked) -> Iterator[Rejection]:
    del asked
    for key, kinds in (("call_id", (str,)), ("output", (str, list))):
        if key not in item:
            yield missing(f"{at}.{key}")
        if type(item[key]) not in kinds:
            yield wrong(f"{at}.{key}", "string|array" if list in kinds else "string", item[key])
    for place, part in enumerate(item["output"] if type(item["output"]) is list else ()):
        kind = part.get("type") if type(part) is dict else None
        if kind not in OF_USER:
            yield invalid(f"{at}.output[{place}]", kind, OF_USER)


def _check_reasoning(item: dict[str, Any], at: str, asked: Asked) -> Iterator[Rejection]:
    if "summary" not in item:
        yield missing(f"{at}.summary")
    if type(item["summary"]) is not list:
        yield wrong(f"{at}.summary", "array", item["summary"])
    sealed, name = item.get("encrypted_content"), item.get("id")
    if not fits(sealed, "string|null"):
        yield wrong(f"{at}.encrypted_content", "string", sealed)
    if sealed is None:
        if name not in asked.memory.items:
            yield _not_found(name)
    elif not is_token(sealed) and sealed not in asked.memory.signatures:
        text = f"The encrypted content for item {name} could not be verified. Reason: Encrypted content "
        yield Rejection(f"{text}could not be decrypted or parsed.", None, "invalid_encrypted_content")


def _not_found(name: Any) -> Rejection:
    text = f"Item with id '{name}' not found. Items are not persisted when `store` is set to false. "
    rest = "Try again with `store` set to true, or remove this item from your input."
    return Rejection(text + rest, "input", status=404)


def _check_reference(item: dict[str, Any], at: str, asked: Asked) -> Iterator[Rejection]:
    if "id" not in item:
        yield missing(f"{at}.id")
    if item["id"] not in asked.memory.items:
        yield _not_found(item["id"])


CHECKS_OF: dict[str, Any] = {
    "message": _check_message,
    **dict.fromkeys(CALLS, _check_call),
    **dict.fromkeys(RESULTS, _check_result),
    "reasoning": _check_reasoning,
    "item_reference": _check_reference,
}


def conversation(asked: Asked) -> list[Any]:
    """Give all items of a conversation: those that are remembered, and those of the request."""
    given = asked.body.get("input")
    new = given if type(given) is list else [] if given is None else [{"role": "user", "content": given}]
    before = asked.memory.inputs.get(asked.body.get("previous_response_id") or "", [])
    return [*before, *new]


def check_pairing(asked: Asked) -> Iterator[Rejection]:
    """Check that every call has its result, and every result its call before it."""
    items = conversation(asked)
    called: dict[str, str] = {}
    answered: set[str] = set()
    hosted: set[str] = set()
    for item in items:
        kind = item.get("type")
        if kind in CALLS:
            called[item["call_id"]] = kind
        elif type(kind) is str and kind.endswith("_call") and type(item.get("call_id")) is str:
            hosted.add(item["call_id"])
        elif kind in RESULTS:
            given = item["call_id"]
            if called.get(given) != RESULTS[kind] and given not in hosted:
                what = "custom tool call" if kind.startswith("custom") else "function call"
                yield Rejection(f"No tool call found for {what} output with call_id {given}.", "input")
            answered.add(given)
    for name, kind in called.items():
        if name not in answered:
            what = "custom tool call" if kind.startswith("custom") else "function call"
            yield Rejection(f"No tool output found for {what} {name}.", "input")


def check_reasoning_pairs(asked: Asked) -> Iterator[Rejection]:
    """Check that reasoning and what follows from it stay together."""
    items = [item for item in conversation(asked) if type(item) is dict]
    seen: set[Any] = set()
    for place, item in enumerate(items):
        kind: Any = item.get("type", "message")
        name: Any = item.get("id")
        needs = asked.memory.items.get(name) if kind != "reasoning" else None
        if needs is not None and needs not in seen:
            text = f"Item '{name}' of type '{kind}' was provided without its required 'reasoning' item: "
            yield Rejection(f"{text}'{needs}'.", "input")
        seen.add(name)
        after = items[place + 1] if place + 1 < len(items) else {"role": "user"}
        if kind == "reasoning" and (after.get("role", "assistant") != "assistant" or after.get("type") in RESULTS):
            text = f"Item '{name}' of type 'reasoning' was provided without its required following item."
            yield Rejection(text, "input")


def check_tools(asked: Asked) -> Iterator[Rejection]:
    """Check the declared tools, and the choice among them."""
    tools = asked.body.get("tools") or []
    yield from array_length("tools", len(tools), 0, MOST_TOOLS)
    functions = []
    for place, tool in enumerate(tools):
        if type(tool) is not dict:
            yield wrong(f"tools[{place}]", "object", tool)
        if "type" not in tool:
            yield missing(f"tools[{place}].type")
        if tool["type"] in ("function", "custom"):
            functions.append((f"tools[{place}]", tool))
    yield from check_functions(functions, NAME_LIMIT)
    names = {function["name"] for _, function in functions}
    choice: Any = asked.body.get("tool_choice")
    by_name = type(choice) is dict and choice.get("type") in ("function", "custom")
    if by_name and "name" not in choice:
        yield missing("tool_choice.name")
    if by_name and type(choice["name"]) is not str:
        yield wrong("tool_choice.name", "string", choice["name"])
    hosted = len(functions) < len(tools) or bool(asked.memory.inputs and asked.body.get("previous_response_id"))
    yield from check_choice(asked.body, None if hosted or not by_name else choice["name"], names)


def check_settings(asked: Asked) -> Iterator[Rejection]:
    """Check bounds, and what depends on the model."""
    body = asked.body
    reasoning = body.get("reasoning") or {}
    yield from bounds("max_output_tokens", body.get("max_output_tokens"), LEAST_TOKENS)
    yield from check_sampling(body, asked.model, reasoning.get("effort"))
    if reasoning and family_of(asked.model).reasons is False:
        text = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
        yield Rejection(text, "reasoning.effort", "unsupported_parameter")
    form = (body.get("text") or {}).get("format")
    if type(form) is dict:
        kinds = ("text", "json_object", "json_schema")
        if form.get("type") not in kinds:
            yield invalid("text.format.type", form.get("type"), kinds)
        if form["type"] == "json_schema":
            for key in ("name", "schema"):
                if key not in form:
                    yield missing(f"text.format.{key}")
        if form["type"] == "json_object" and not says_json(body.get("input")):
            text = "Response input messages must contain the word 'json' in some form to use 'text.format' "
            yield Rejection(f"{text}of type 'json_object'.", "input")


CHECKS: tuple[Check, ...] = (
    check_fields,
    check_items,
    check_pairing,
    check_reasoning_pairs,
    check_tools,
    check_settings,
)
