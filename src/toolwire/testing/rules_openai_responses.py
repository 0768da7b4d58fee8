"""The requests that the server of Responses rejects, with its error messages and codes.

Sources: openai/openai-openapi (2026-08-21) and the types of openai 3.52.0; how calls, results and reasoning belong
together is reported by users, such as laravel/ai#1052 (as of 2026-11-20).
"""

from collections.abc import Iterator
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
from toolwire.testing.sealing import is_token

_NAME_LIMIT = 128  # the types of openai 3.52.0
_ID_LIMIT = 64  # openai/openai-openapi, 2026-08-21
_LEAST_TOKENS = 16  # openai/openai-openapi, 2026-08-21
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_HOSTED = (
    "file_search_call computer_call computer_call_output web_search_call tool_search_call tool_search_output "
    "additional_tools configuration_update compaction compaction_trigger image_generation_call code_interpreter_call "
    "local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call apply_patch_call_output "
    "mcp_list_tools mcp_approval_request mcp_approval_response mcp_call program program_output"
).split()
_IN_RESULT = dict.fromkeys(("input_text", "input_image", "input_file", "input_audio"), ANYTHING)
_OF_USER = _IN_RESULT | {"input_text": Object("string: text!")}
_OF_ASSISTANT = {"output_text": Object("string: text!"), "refusal": Object("string: refusal!")}


def _item(*rows: str, **fields: Field) -> Object:
    return Object("string|null: type id", *rows, **fields)


def _message(parts: dict[str, Object]) -> Object:
    content = Field("string|array", required=True, inside=Tagged(parts, at_object=True))
    return _item("string: role!", content=content)


def _call(text: str) -> Object:
    return _item(f"string: name! {text}!", call_id=Field("string", required=True, longest=_ID_LIMIT))


_OUTPUT = Field("string|array", required=True, inside=Tagged(_IN_RESULT, at_object=True))
_ITEMS: dict[str, Object | Tagged] = {
    "message": Tagged(
        {
            "assistant": _message(_OF_ASSISTANT),
            "system": _message(_OF_USER),
            "developer": _message(_OF_USER),
            "user": _message(_OF_USER),
        },
        tag="role",
    ),
    "reasoning": _item("array: summary!", "string|null: encrypted_content"),
    "item_reference": Object("string|null: type id!"),
    **{kind: _call(text) for kind, text in _CALLS.items()},
    **dict.fromkeys(_RESULTS, _item("string: call_id!", output=_OUTPUT)),
    **dict.fromkeys(_HOSTED, _item()),
}


def _type_of_item(item: dict[str, Any]) -> Any:
    return item.get("type") or ("message" if "role" in item else "item_reference" if "id" in item else None)


def _type_of_tool(tool: dict[str, Any]) -> Any:
    kind = tool.get("type")
    return kind if kind in ("function", "custom") else ANYTHING if "type" in tool else None


_TOOL = Tagged(dict.fromkeys(("function", "custom"), function_of(_NAME_LIMIT)), choose=_type_of_tool)
_FORMAT = Tagged({"text": ANYTHING, "json_object": ANYTHING, "json_schema": Object("any: name! schema!")})
BODY = Closed(
    "string: model!",
    "string|object: tool_choice",
    "string|array|null: instructions",
    "string|object|null: conversation",
    "object: access_programs background_options image prompt_cache_options",
    # `client_metadata` is sent by Codex (codex 0.169, 2026-11).
    "object|null: client_metadata metadata moderation prompt reasoning stream_options",
    "boolean|null: background parallel_tool_calls store stream",
    "array|null: context_management include",
    "integer|null: max_tool_calls top_logprobs",
    "string|null: previous_response_id prompt_cache_key prompt_cache_retention",
    "string|null: service_tier truncation",
    input=Field("string|array", inside=Tagged(_ITEMS, choose=_type_of_item)),
    tools=Field("array", most=MOST_TOOLS, inside=_TOOL),
    text=Field("object", inside=Object(format=Field("any", inside=_FORMAT))),
    max_output_tokens=Field("integer|null", least=_LEAST_TOKENS),
    **IDENTIFIERS,
    **SAMPLING,
)


def _check_memory(request: WireRequest) -> None:
    """Check that the server has stored what the request refers to: earlier answers, items, and reasoning."""
    body, memory = request.body, request.memory
    if not any(body.get(key) for key in ("input", "previous_response_id", "prompt", "conversation")):
        raise OPENAI.mistake("missing", ("input",))
    name = body.get("previous_response_id")
    if name is not None and name not in memory.inputs:
        text = f"Previous response with id '{name}' not found."
        raise Rejection(text, "previous_response_id", "previous_response_not_found")
    for item in body["input"] if type(body.get("input")) is list else ():
        item_type, name, sealed = _type_of_item(item), item.get("id"), item.get("encrypted_content")
        if name not in memory.items and (
            item_type == "item_reference" or (item_type == "reasoning" and sealed is None)
        ):
            text = f"Item with id '{name}' not found. Items are not persisted when `store` is set to false. "
            ending = "Try again with `store` set to true, or remove this item from your input."
            raise Rejection(text + ending, "input", status=404)
        if item_type == "reasoning" and sealed is not None and not is_token(sealed) and sealed not in memory.signatures:
            text = f"The encrypted content for item {name} could not be verified. Reason: Encrypted content "
            raise Rejection(f"{text}could not be decrypted or parsed.", None, "invalid_encrypted_content")


def conversation(request: WireRequest) -> list[Any]:
    """Return all items of a conversation: the stored ones, and those of the request."""
    items: Any = request.body.get("input")
    new = items if type(items) is list else [] if items is None else [{"role": "user", "content": items}]
    before = request.memory.inputs.get(request.body.get("previous_response_id") or "", [])
    return [*before, *new]


def _check_pairing(request: WireRequest) -> None:
    """Check that every call has its result, and every result its call before it."""
    calls: dict[str, str] = {}
    answered: set[str] = set()
    hosted: set[str] = set()
    for item in conversation(request):
        item_type: Any = item.get("type")
        name: Any = item.get("call_id")
        if item_type in _CALLS:
            calls[name] = item_type
        elif type(item_type) is str and item_type.endswith("_call") and type(name) is str:
            hosted.add(name)
        elif item_type in _RESULTS:
            if calls.get(name) != _RESULTS[item_type] and name not in hosted:
                text = f"No tool call found for {_describe_call(item_type)} output with call_id {name}."
                raise Rejection(text, "input")
            answered.add(name)
    for name, item_type in calls.items():
        if name not in answered:
            raise Rejection(f"No tool output found for {_describe_call(item_type)} {name}.", "input")


def _describe_call(kind: str) -> str:
    return "custom tool call" if kind.startswith("custom") else "function call"


def _check_reasoning_pairs(request: WireRequest) -> None:
    """Check that a reasoning item and the item that follows from it stay together."""
    items = [item for item in conversation(request) if type(item) is dict]
    earlier_ids: set[Any] = set()
    for item, after in zip(items, [*items[1:], {"role": "user"}], strict=False):
        item_type: Any = item.get("type", "message")
        name: Any = item.get("id")
        required = request.memory.items.get(name) if item_type != "reasoning" else None
        if required is not None and required not in earlier_ids:
            text = (
                f"Item '{name}' of type '{item_type}' was provided without its required 'reasoning' item: '{required}'."
            )
            raise Rejection(text, "input")
        earlier_ids.add(name)
        if item_type == "reasoning" and (
            after.get("role", "assistant") != "assistant" or after.get("type") in _RESULTS
        ):
            text = f"Item '{name}' of type 'reasoning' was provided without its required following item."
            raise Rejection(text, "input")


def _check_tools(request: WireRequest) -> None:
    body = request.body
    tools = list(_declared(request))
    functions = [(path, tool) for path, tool in tools if tool.get("type") in ("function", "custom")]
    check_functions(functions)
    choice: Any = body.get("tool_choice")
    forced = None
    if type(choice) is dict and choice.get("type") in ("function", "custom"):
        Object("string: name!").check(choice, ("tool_choice",), OPENAI)
        forced = choice["name"]
    hosted = len(functions) < len(tools) or (request.memory.inputs and body.get("previous_response_id"))
    names = {function["name"] for _, function in functions}
    # Codex sends `parallel_tool_calls` without any tool when it requests a summary (0.171.0, 2026-11-26).
    check_choice(body, None if hosted else forced, names, any_tool=bool(tools), of_tools=("tool_choice",))


def _declared(request: WireRequest) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every tool with its path: those of the request, of `additional_tools` items, and of each namespace."""
    lists: list[tuple[Path, Any]] = [(("tools",), request.body.get("tools"))]
    for index, item in enumerate(conversation(request)):
        if item.get("type") == "additional_tools":
            lists.append((("input", index, "tools"), item.get("tools")))
    for path, tools in lists:
        for index, tool in enumerate(tools if type(tools) is list else ()):
            if type(tool) is dict and tool.get("type") == "namespace":
                lists.append(((*path, index, "tools"), tool.get("tools")))
            elif type(tool) is dict:
                yield (*path, index), tool


def _check_settings(request: WireRequest) -> None:
    body, model = request.body, request.model
    reasoning = body.get("reasoning") or {}
    check_sampling(body, model, reasoning.get("effort"))
    if reasoning and family_of(model).reasons is False:
        text = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
        raise Rejection(text, "reasoning.effort", "unsupported_parameter")
    output_format = (body.get("text") or {}).get("format")
    check_answer(output_format, "text.format.schema", "invalid_json_schema")
    if type(output_format) is dict and output_format["type"] == "json_object" and not mentions_json(body.get("input")):
        text = "Response input messages must contain the word 'json' in some form to use 'text.format' "
        raise Rejection(f"{text}of type 'json_object'.", "input")


CHECKS: tuple[Check, ...] = (
    shape_of(BODY, OPENAI),
    _check_memory,
    _check_pairing,
    _check_reasoning_pairs,
    _check_tools,
    _check_settings,
)
