"""Requests of Responses.

Rules of this file:
- `instructions` are the system prompt. If a request of another wire starts with a system message of plain text, that
  text becomes the `instructions`. Any other system message is an item.
- A request of another wire may continue an earlier response (`previous_response_id` in its provider state). It sends
  only the messages after the last turn of the assistant, because the server has stored the others.
- A response repeats the settings of its request, with OpenAI's default for each setting that the request does not
  have. Strict clients reject a response without them.
- An entry of `include` requests log probabilities. Another one requests encrypted reasoning, which the client has to
  send back if the server stores nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_responses.calls import Items, result_kind_of
from toolwire.dialects.openai_responses.messages import decode_messages, encode_message, encode_messages
from toolwire.dialects.openai_responses.parts import DIALECT, WIRE
from toolwire.dialects.openai_responses.tools import (
    ToolLayoutReader,
    ToolLayoutWriter,
    decode_choice,
    encode_choice,
    encode_tool,
    merge_namespaces,
)
from toolwire.encoding.ledger import (
    Ledger,
    copy_body,
    made_by,
    spelling_of,
    take,
    take_entries,
    unusual_path,
)
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.reasoning import EFFORTS, can_reason
from toolwire.encoding.repair import ask_for_json, repair
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import (
    Setting,
    Settings,
    Understood,
    apply_model_limits,
    at_least,
    cache_options,
    effort,
    identifier,
    labels,
    legal_form,
    nested,
    parallel,
    plain,
    sampling,
    tier,
    unless_reasoning,
    word,
)
from toolwire.encoding.tools import encode_tools, limit_tools
from toolwire.types import Context, Encoded, Message, Output, Request, Text, ToolCall
from toolwire.types.spelling.openai_responses import ResponsesRequestSpelling, ResponsesResultSpelling

PATH = "/v1/responses"
_LOGPROBS = "message.output_text.logprobs"
_ENCRYPTED = "reasoning.encrypted_content"
# openai 3.52.0, shared_params.Reasoning, ResponseTextConfigParam, ResponseCreateParams.service_tier (2026-11-20).
_EFFORTS = frozenset(EFFORTS)
_SUMMARIES = frozenset({"auto", "concise", "detailed"})
_VERBOSITIES = frozenset({"low", "medium", "high"})
SERVICE_TIERS = {name: name for name in ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")}
# openai 3.52.0, ResponseCreateParams.max_output_tokens (2026-11-20).
_MIN_OUTPUT_TOKENS = 16
# The error `array_above_max_length` of OpenAI's server (seen 2026-03-26).
_TOOL_LIMIT = 128


def decode_request(body: dict[str, Any], path: str = "") -> Request:
    """Read a request's body. `path` is the path of its URL. Raise `InvalidBody` if the body is no object."""
    unparsed = copy_body(body, "request")
    tool_reader = ToolLayoutReader(take_entries(unparsed, "tools"))
    items, text = take(unparsed, "input", list), take(unparsed, "input", str)
    messages = decode_messages(items or [], tool_reader)
    if text is not None:
        messages = [Message("user", text, opaque=WIRE.plain)]
    system = take(unparsed, "instructions", str)
    fields, settings = _SETTINGS.decode(unparsed)
    if tool_reader.contradictions:
        unparsed["input" if tool_reader.items else "tools"] = tool_reader.contradictions
    spelling = ResponsesRequestSpelling(
        path=unusual_path(path, PATH),
        has_no_messages=items is None and text is None,
        settings=settings,
        has_text_input=text is not None,
        tools=tool_reader.layout,
        tool_items=tuple(tool_reader.items),
    )
    context = Context(system, messages, tool_reader.tools, _take_state(unparsed))
    return Request(context=context, opaque=WIRE.mark(unparsed, spelling), **fields)


def _take_state(unparsed: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the keys of the server's state from `unparsed`, and return them, or None without such keys."""
    values = {key: unparsed.get(key) for key in _STATE_TYPES}
    state = {key: unparsed.pop(key) for key, value in values.items() if value and type(value) in _STATE_TYPES[key]}
    return state or None


_STATE_TYPES: dict[str, tuple[type, ...]] = {"previous_response_id": (str,), "conversation": (str, dict)}


def encode_request(request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a request's body for a server with these `quirks`, and report what the wire cannot express as losses.

    `settings` replace single quirks. Their `names` are tool names that are written unchanged.
    """
    ledger = Ledger(WIRE, quirks, settings)
    ledger.model = request.model
    request = limit_tools(request, ledger, _TOOL_LIMIT)
    context = request.context
    messages = context.messages
    opaque = request.opaque
    is_native = opaque is not None and opaque.dialect == DIALECT
    spelling = spelling_of(opaque, ResponsesRequestSpelling)
    items = Items(ledger)
    tools, tool_items = _encode_tools(context, spelling, items)
    body: dict[str, Any] = {}
    request = apply_model_limits(request, ledger, tools)
    _SETTINGS.encode(request, ledger, body)
    if tools:
        body["tools"] = tools
    if not is_native and request.store is False and can_reason(request, ledger) is not False:
        body["include"] = [*body.get("include", ()), _ENCRYPTED]
    if not is_native and not (context.provider_state and _continues_stored(context)):
        messages = repair(messages, ledger.losses)
    first = _encode_system(request, messages, body, items)
    if context.provider_state:
        _encode_state(context.provider_state, body, ledger)
        if not is_native and "previous_response_id" in body:
            first = _skip_stored(messages, first, items)
    for before_message, item in tool_items:
        encode_messages(messages, items, first, before_message)
        first = max(first, before_message)
        items.add(item)
    encoded = encode_messages(messages, items, first)
    if request.output is not None and not is_native:
        ask_for_json(request.output, encoded, ledger)
    if encoded or not spelling.has_no_messages:
        text = _text_input(messages) if spelling.has_text_input and len(encoded) == 1 else None
        body["input"] = encoded if text is None else text
    ledger.replay(body, opaque)
    return Encoded(spelling.path or PATH, body, tuple(ledger.losses))


def _encode_tools(
    context: Context, spelling: ResponsesRequestSpelling, items: Items
) -> tuple[list[Any], list[tuple[int, Any]]]:
    """Write `tools` and the items of the input that declare tools. Return each item with the index of its message."""
    ledger = items.ledger
    if spelling.tools is None:
        tools = encode_tools(context.tools, ledger, encode_tool)
        namespaces = [body for body in tools if type(body) is dict and body.get("type") == "namespace"]
        return merge_namespaces(tools) if namespaces else tools, []
    items.tool_writer = writer = ToolLayoutWriter(context.tools, ledger)
    tools = writer.write(spelling.tools)
    tool_items = [
        (item.before_message, {**item.unparsed, "tools": writer.write(item.tools)}) for item in spelling.tool_items
    ]
    for message in context.messages:
        for part in message.parts if message.role == "tool" else ():
            writer.write(spelling_of(part.opaque, ResponsesResultSpelling).tools or [])  # type: ignore[union-attr]
    return tools + merge_namespaces(writer.write_rest()), tool_items


def _text_input(messages: Sequence[Message]) -> str | None:
    """Return the text of the only message if it is still the one that a string in `input` was read as."""
    if len(messages) == 1 and messages[0].role == "user" and messages[0].opaque == WIRE.plain:
        content = messages[0].content
        return content if type(content) is str else None
    return None


def _encode_state(state: dict[str, Any], body: dict[str, Any], ledger: Ledger) -> None:
    """Write the state of the server that the request continues, and report any other state as a loss."""
    for key, value in state.items():
        if type(value) in _STATE_TYPES.get(key, ()):
            body[key] = value
        else:
            ledger.lose(f"provider_state.{key}", "provider_state", f"{DIALECT} has no such state")


def _continues_stored(context: Context) -> bool:
    """Return True if the server has stored the calls whose results the messages have."""
    stored = not _STATE_TYPES.keys().isdisjoint(context.provider_state or ())
    return stored and all(message.role != "assistant" for message in context.messages)


def _skip_stored(messages: Sequence[Message], first: int, items: Items) -> int:
    """Return the index after the last turn of the assistant. Note the kinds of results for the calls before it."""
    for index in range(len(messages) - 1, first - 1, -1):
        if messages[index].role == "assistant":
            parts = [part for message in messages[: index + 1] for part in message.parts]
            items.result_kinds = {
                part.id: result_kind
                for part in parts
                if type(part) is ToolCall and (result_kind := result_kind_of(part))
            }
            return index + 1
    return first


def _encode_system(request: Request, messages: Sequence[Message], body: dict[str, Any], items: Items) -> int:
    """Write the system prompt, and return how many messages are in it."""
    system, ledger, is_native = request.system, items.ledger, made_by(request.opaque, DIALECT)
    if system and not is_native and _is_item(request, messages):
        ledger.path = ("system",)
        encode_message(Message("system", system), items)
    elif type(system) is str and (system or is_native):
        body["instructions"] = system
    elif system:
        ledger.path = ("system",)
        if _is_joinable(system, ledger):
            body["instructions"] = _join(system, ledger)
        else:
            encode_message(Message("system", system), items)
    elif not is_native and messages and messages[0].role == "system" and not _is_item(request, messages[1:]):
        return _encode_first(messages[0], body, ledger)
    ledger.path = ()
    return 0


def _is_item(request: Request, following: Sequence[Message]) -> bool:
    """Return True if the system prompt must be an item of the input.

    OpenAI requires that the input mentions JSON if the output is JSON. Without the item, the input would be empty or
    start with the assistant.
    """
    if request.output is not None and request.output.kind == "json":
        return True
    starts_with_input = bool(following) and following[0].role != "assistant"
    return not starts_with_input and not request.provider_state


def _encode_first(message: Message, body: dict[str, Any], ledger: Ledger) -> int:
    """Write the first message as the system prompt, if another wire sent it. Return the number of messages written."""
    content, opaque = message.content, message.opaque
    if made_by(opaque, DIALECT) or message.name is not None or message.tool_call_id is not None:
        return 0
    is_text = type(content) is str
    if not is_text and not _is_joinable(content, ledger):
        return 0
    ledger.path = ("messages", 0)
    ledger.lose_opaque(opaque)
    body["instructions"] = content if is_text else _join(content, ledger)
    ledger.path = ()
    return 1


def _is_joinable(parts: Any, ledger: Ledger) -> bool:
    """Return True if the parts can be joined to one string: all are text, and none has a cache mark to send."""
    has_marks = ledger.takes_marks
    return bool(parts) and all(type(part) is Text and not (has_marks and part.cache) for part in parts)


def _join(parts: Any, ledger: Ledger) -> str:
    """Join the texts to one, and report their other fields as losses."""
    for part in ledger.each_part(parts):
        if part.cache is not None:
            ledger.lose("cache", "cache_mark", f"servers of {DIALECT} cache without marks")
        if part.citations:
            ledger.lose("citations", "citation", f"{DIALECT} has citations only in output of the model")
        ledger.lose_opaque(part.opaque)
    if len(parts) > 1:
        ledger.lose("content", "system_parts", f"{DIALECT} has one string for instructions", "merged")
    return "\n\n".join(part.text for part in parts)


def _decode_format(value: Any) -> Understood | None:
    """Read the format of the output. Return None if it is not understood."""
    match value:
        case {"type": "text"} if len(value) == 1:
            return Understood({"output": Output("text")})
        case {"type": "json_object"} if len(value) == 1:
            return Understood({"output": Output("json")})
        case {"type": "json_schema", "name": str(), "schema": dict()}:
            unparsed = value.copy()
            del unparsed["type"]
            fields = {
                key: unparsed.pop(key)
                for key, field_type in _FORMAT_FIELDS.items()
                if type(unparsed.get(key)) is field_type
            }
            return Understood({"output": Output("schema", **fields)}, unparsed or ABSENT)
    return None


_FORMAT_FIELDS = {"name": str, "schema": dict, "description": str, "strict": bool}


def _encode_format(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Write the format of the output. The schema of another wire is fitted to what OpenAI accepts."""
    output = request.output
    if output is None or output.kind != "schema":
        return {"type": "json_object" if output and output.kind == "json" else "text"}
    if output.schema is None:
        output = replace(output, schema={"type": "object"})
    name, schema = output.name, output.schema
    if not made_by(request.opaque, DIALECT):
        name, schema = legal_form(output, ledger)
    body = {"type": "json_schema", "name": "response" if name is None else name, "schema": schema}
    for key in ("description", "strict"):
        if getattr(output, key) is not None:
            body[key] = getattr(output, key)
    return body


def _decode_include(value: Any) -> Understood | None:
    """Read `include`, of which only the request for log probabilities is understood."""
    if type(value) is not list or _LOGPROBS not in value:
        return None
    unparsed = [entry for entry in value if entry != _LOGPROBS]
    return Understood({"logprobs": True}, unparsed or ABSENT, keep=True)


def _encode_include(request: Request, _ledger: Ledger) -> Any:
    """Write `include`, if log probabilities are requested."""
    if not request.logprobs:
        return ABSENT
    unparsed = _unparsed_of(request, "include")
    return [*(unparsed if isinstance(unparsed, list) else ()), _LOGPROBS]


def _unparsed_of(request: Request, key: str) -> Any:
    """Return the unparsed part of the setting `key`, if this wire sent it."""
    opaque = request.opaque
    return opaque.value.get(key) if opaque is not None and opaque.dialect == DIALECT else None


def _encode_summary(request: Request, ledger: Ledger) -> Any:
    """Write the summary of reasoning that is requested.

    Messages and generateContent have one kind of summary, of any length. It is written as "auto".
    """
    return "auto" if request.thinking_display == "summarized" else _SUMMARY.encode(request, ledger)


_SUMMARY = word("summary", "thinking_display", _SUMMARIES)
_REASONING = Settings(
    effort(word("effort", "effort", _EFFORTS)),
    Setting("summary", ("thinking_display",), _SUMMARY.decode, _encode_summary),
)
_TEXT = Settings(
    word("verbosity", "verbosity", _VERBOSITIES), Setting("format", ("output",), _decode_format, _encode_format)
)
_SETTINGS = Settings(
    plain("model", "model", str),
    plain("stream", "stream", bool),
    Setting("tool_choice", ("tool_choice",), decode_choice, encode_choice),
    parallel(),
    at_least("max_output_tokens", "max_tokens", _MIN_OUTPUT_TOKENS),
    sampling("temperature", 2),
    sampling("top_p", 1),
    unless_reasoning(plain("top_logprobs", "top_logprobs", int)),
    unless_reasoning(Setting("include", ("logprobs",), _decode_include, _encode_include), False),
    nested("reasoning", _REASONING),
    nested("text", _TEXT),
    labels(),
    identifier("user"),
    identifier("safety_identifier"),
    tier("service_tier", SERVICE_TIERS),
    plain("store", "store", bool),
    plain("prompt_cache_key", "cache_key", str),
    cache_options(("30m", "12h")),  # openai 3.57.0, PromptCacheOptions.ttl (2026-11-27)
)
SETTING_PATHS = _SETTINGS.paths()

# The settings that a response repeats, and their defaults (openai 3.57.0, Response and ResponseCreateParams;
# https://www.openresponses.org/specification, ResponseResource; 2026-11-27).
_REPEATED: Mapping[str, Any] = {
    "background": False,
    "frequency_penalty": 0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
# Settings that a response has only if the request has them.
_REPEATED_IF_SENT = ("context_management", "conversation", "prompt", "prompt_cache_options", "prompt_cache_retention")
# Keys that the repeated declaration of a function and the repeated schema of an output always have.
_FUNCTION = {"description": None, "parameters": None, "strict": None}
_SCHEMA = {"description": None, "strict": False}


def echo_of(request: Request | None) -> dict[str, Any]:
    """Return the settings that a response to `request` repeats. Without a request, return the defaults."""
    body = {} if request is None else _settings_of(request)
    echo = {key: deepcopy(usual) if body.get(key) is None else body[key] for key, usual in _REPEATED.items()}
    echo |= {key: body[key] for key in _REPEATED_IF_SENT if body.get(key) is not None}
    for key, complete in _COMPLETERS.items():
        if key in echo:
            echo[key] = complete(echo[key])
    return echo


def _settings_of(request: Request) -> dict[str, Any]:
    """Return the body of `request` without its messages. It is written as it was asked, on whatever wire."""
    context = replace(request.context, messages=[one for one in request.messages if _declares_tools(one)])
    opaque = request.opaque if made_by(request.opaque, DIALECT) else WIRE.plain
    return encode_request(replace(request, context=context, opaque=opaque)).body


def _declares_tools(message: Message) -> bool:
    """Return True if a result in `message` declares tools, which are then not among the `tools` of the request."""
    parts = message.parts if message.role == "tool" else ()
    return any(spelling_of(part.opaque, ResponsesResultSpelling).tools for part in parts)  # type: ignore[union-attr]


def _complete_tools(tools: Any) -> Any:
    """Return declarations in which each function has all keys."""
    if type(tools) is not list:
        return []
    return [{**_FUNCTION, **tool} if _is_of_type(tool, "function") else tool for tool in tools]


def _complete_text(text: Any) -> Any:
    """Return the settings of the text with a format. The format of a schema has all keys."""
    defaults = _REPEATED["text"]
    completed = {**deepcopy(defaults), **(text if type(text) is dict else {})}
    if _is_of_type(completed["format"], "json_schema"):
        completed["format"] = {**_SCHEMA, **completed["format"]}
    return completed


def _complete_reasoning(reasoning: Any) -> Any:
    return {**_REPEATED["reasoning"], **(reasoning if type(reasoning) is dict else {})}


def _complete_conversation(conversation: Any) -> Any:
    """Return the conversation as an object. A request may name it by its id alone."""
    return {"id": conversation} if type(conversation) is str else conversation


def _is_of_type(value: Any, name: str) -> bool:
    return type(value) is dict and value.get("type") == name


_COMPLETERS: Mapping[str, Callable[[Any], Any]] = {
    "tools": _complete_tools,
    "text": _complete_text,
    "reasoning": _complete_reasoning,
    "conversation": _complete_conversation,
}
