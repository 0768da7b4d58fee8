"""Requests of Chat Completions."""

from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_chat.messages import decode_messages, encode_message, encode_messages
from toolwire.dialects.openai_chat.parts import DIALECT, WIRE
from toolwire.dialects.openai_chat.tools import (
    TOOL_LIMIT,
    decode_choice,
    decode_deprecated_choice,
    decode_functions,
    decode_tool,
    encode_choice,
    encode_deprecated_choice,
    write_tools,
)
from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger, copy_body, made_by, spelling_of, take, take_entries, unusual_path
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.repair import ask_for_json, repair
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import (
    NUMBER,
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
    parallel,
    plain,
    sampling,
    texts,
    tier,
    unless_reasoning,
)
from toolwire.encoding.tools import limit_tools
from toolwire.types import Context, Encoded, Message, Output, Part, Request
from toolwire.types.spelling.openai_chat import ChatRequestSpelling

PATH = "/v1/chat/completions"
# openai 3.52.0, chat CompletionCreateParams.service_tier (2026-11-20).
SERVICE_TIERS = {name: name for name in ("auto", "default", "flex", "scale", "priority", "fast")}


def decode_request(body: dict[str, Any], path: str = "") -> Request:
    """Read a request's body. `path` is the path of its URL. Raise `InvalidBody` if the body is no object."""
    unparsed = copy_body(body, "request")
    messages = take(unparsed, "messages", list)
    tools = [decode_tool(tool) for tool in take_entries(unparsed, "tools")]
    functions = decode_functions(unparsed["functions"]) if type(unparsed.get("functions")) is list else None
    if functions:
        del unparsed["functions"]
        tools += functions
    has_max_tokens = "max_tokens" in unparsed and "max_completion_tokens" not in unparsed
    if has_max_tokens:
        unparsed["max_completion_tokens"] = unparsed.pop("max_tokens")
    fields, settings = _SETTINGS.decode(unparsed)
    has_serial_functions = bool(functions) and body.keys().isdisjoint(("tools", "parallel_tool_calls"))
    if has_serial_functions:
        fields["parallel_tool_calls"] = False
    if has_max_tokens and "max_completion_tokens" in unparsed:
        unparsed["max_tokens"] = unparsed.pop("max_completion_tokens")
    spelling = ChatRequestSpelling(
        path=unusual_path(path, PATH),
        has_no_messages=messages is None,
        settings=settings,
        has_max_tokens=has_max_tokens,
        has_serial_functions=has_serial_functions,
    )
    context = Context(None, decode_messages(messages or []), tools)
    return Request(context=context, opaque=WIRE.mark(unparsed, spelling), **fields)


def encode_request(request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a request's body for a server with these `quirks`, and report what the wire cannot express as losses.

    `settings` replace single quirks. Their `names` are tool names that are written unchanged.
    """
    ledger = Ledger(WIRE, quirks, settings)
    ledger.model = request.model
    opaque = request.opaque
    is_native = opaque is not None and opaque.dialect == DIALECT
    spelling = spelling_of(opaque, ChatRequestSpelling)
    request = limit_tools(request, ledger, TOOL_LIMIT)
    context = request.context
    tools = write_tools(context.tools, ledger) if context.tools else {}
    body: dict[str, Any] = {}
    request = apply_model_limits(request, ledger, tools)
    if tools and not is_native:
        request = _settle_effort(request, ledger)
    _SETTINGS.encode(request, ledger, body)
    if spelling.has_serial_functions and request.parallel_tool_calls is False:
        body.pop("parallel_tool_calls", None)
    limit_key = "max_tokens" if spelling.has_max_tokens else ledger.quirks.max_tokens_key
    if limit_key and "max_completion_tokens" in body:
        body[limit_key] = body.pop("max_completion_tokens")
    body |= tools
    messages = context.messages if is_native else repair(context.messages, ledger.losses)
    encoded = _encode_system(context.system, ledger) if context.system else []
    encoded += encode_messages(messages, ledger)
    ledger.path = ()
    if request.output is not None and not is_native:
        ask_for_json(request.output, encoded, ledger)
    if encoded or not spelling.has_no_messages:
        body["messages"] = encoded
    if context.provider_state:
        ledger.lose_state(context.provider_state, f"{DIALECT} has no stored state")
    ledger.replay(body, opaque)
    return Encoded(spelling.path or PATH, body, tuple(ledger.losses))


def _settle_effort(request: Request, ledger: Ledger) -> Request:
    """Set the effort to `none` if the model accepts functions over Chat Completions only without reasoning."""
    family = family_of(request.model)
    if family.functions_while_reasoning is not False or request.effort == "none":
        return request
    if request.effort is None and family.reasons_unasked is False:
        return request
    detail = (
        f'was set to "none", because {request.model} accepts tools over Chat Completions only without reasoning. '
        "Use provider openai-responses to keep it."
    )
    ledger.lose("effort", "effort", detail, "defaulted" if request.effort is None else "approximated", "semantic")
    return replace(request, effort="none")


def _encode_system(system: str | list[Part], ledger: Ledger) -> list[dict[str, Any]]:
    """Write the system prompt as the first message."""
    if type(system) is str:
        return [{"role": "system", "content": system}]
    bodies: list[dict[str, Any]] = []
    ledger.path = ("system",)
    encode_message(Message("system", system), ledger, bodies, [])
    return bodies


_STOP_LIST = texts("stop", "stop", 4)


def _decode_stop(value: Any) -> Understood | None:
    """Read stop sequences: one text or a list of texts (openai 3.52.0, CompletionCreateParams.stop)."""
    if type(value) is str:
        return Understood({"stop": [value]}, keep=True)
    return _STOP_LIST.decode(value)


def _encode_stop(request: Request, ledger: Ledger) -> Any:
    """Write the stop sequences, unless the model accepts none."""
    if family_of(request.model).stop is False and not made_by(request.opaque, DIALECT):
        ledger.lose("stop", "stop", f"{request.model} accepts no stop sequences")
        return ABSENT
    return _STOP_LIST.encode(request, ledger)


def _decode_output(value: Any) -> Understood | None:
    """Read `response_format`. Return None if it is not understood."""
    match value:
        case {"type": "text"} if len(value) == 1:
            return Understood({"output": Output("text")})
        case {"type": "json_object"} if len(value) == 1:
            return Understood({"output": Output("json")})
        case {"type": "json_schema", "json_schema": {"name": str(name)} as inner} if len(value) == 2:
            unparsed = inner.copy()
            del unparsed["name"]
            fields = {
                key: unparsed.pop(key)
                for key, field_type in _SCHEMA_FIELDS.items()
                if type(unparsed.get(key)) is field_type
            }
            output = Output("schema", name=name, **fields)
            return Understood({"output": output}, {"json_schema": unparsed} if unparsed else ABSENT)
    return None


_SCHEMA_FIELDS = {"schema": dict, "description": str, "strict": bool}


def _encode_output(request: Request, ledger: Ledger) -> Any:
    """Write `response_format`. The schema of another wire is fitted to what OpenAI accepts."""
    output = request.output
    if output is None or output.kind != "schema":
        return {"type": "json_object" if output and output.kind == "json" else "text"}
    name, schema = output.name, output.schema
    if not made_by(request.opaque, DIALECT):
        name, schema = legal_form(output, ledger)
    inner = {"name": name, "schema": schema, "strict": output.strict, "description": output.description}
    written = {key: value for key, value in inner.items() if value is not None}
    return {"type": "json_schema", "json_schema": written}


_SETTINGS = Settings(
    plain("model", "model", str),
    plain("stream", "stream", bool),
    Setting("tool_choice", ("tool_choice",), decode_choice, encode_choice),
    Setting("function_call", ("tool_choice",), decode_deprecated_choice, encode_deprecated_choice),
    parallel(),
    at_least("max_completion_tokens", "max_tokens", 1),
    sampling("temperature", 2),
    sampling("top_p", 1),
    unless_reasoning(plain("frequency_penalty", "frequency_penalty", *NUMBER)),
    unless_reasoning(plain("presence_penalty", "presence_penalty", *NUMBER)),
    plain("seed", "seed", int),
    plain("n", "n", int),
    unless_reasoning(plain("logprobs", "logprobs", bool), False),
    unless_reasoning(plain("top_logprobs", "top_logprobs", int)),
    unless_reasoning(plain("logit_bias", "logit_bias", dict)),
    Setting("stop", ("stop",), _decode_stop, _encode_stop),
    effort(plain("reasoning_effort", "effort", str)),
    Setting("response_format", ("output",), _decode_output, _encode_output),
    plain("verbosity", "verbosity", str),
    labels(stored=True),
    identifier("user"),
    identifier("safety_identifier"),
    tier("service_tier", SERVICE_TIERS),
    plain("store", "store", bool),
    plain("prompt_cache_key", "cache_key", str),
    cache_options(("30m",)),  # openai 3.57.0, PromptCacheOptions.ttl (2026-11-27)
)
SETTING_PATHS = _SETTINGS.paths()
