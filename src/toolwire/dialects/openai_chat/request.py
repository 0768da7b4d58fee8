"""Requests of Chat Completions."""

from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_chat.messages import decode_messages, encode_message, encode_messages
from toolwire.dialects.openai_chat.parts import DIALECT, WIRE
from toolwire.dialects.openai_chat.tools import (
    TOOL_LIMIT,
    decode_choice,
    decode_functions,
    decode_legacy_choice,
    decode_tool,
    encode_choice,
    encode_legacy_choice,
    write_tools,
)
from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger, form_of, made_by, open_request, take_entries
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.repair import repair, say_json
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import (
    NUMBER,
    Setting,
    Settings,
    Understood,
    at_least,
    effort,
    identifier,
    labels,
    legal_form,
    parallel,
    plain,
    sampling,
    settle,
    texts,
    tier,
    unless_reasoning,
)
from toolwire.encoding.tools import limited
from toolwire.types import Context, Encoded, Message, Output, Part, Request

PATH = "/v1/chat/completions"
# openai 3.52.0, chat CompletionCreateParams.service_tier (2026-11-20).
SERVICE_TIERS = {word: word for word in ("auto", "default", "flex", "scale", "priority", "fast")}


def decode_request(body: dict[str, Any], path: str = "") -> Request:
    """Read a request's body."""
    rest, form, messages = open_request(body, path, PATH)
    declared = [decode_tool(tool) for tool in take_entries(rest, "tools")] if "tools" in rest else []
    legacy = decode_functions(rest["functions"]) if type(rest.get("functions")) is list else None
    if legacy:
        del rest["functions"]
        declared += legacy
    if "max_tokens" in rest and "max_completion_tokens" not in rest:
        form["max_tokens_key"] = "max_tokens"
        rest["max_completion_tokens"] = rest.pop("max_tokens")
    fields, spelled = _SETTINGS.decode(rest)
    if legacy and "tools" not in body and "parallel_tool_calls" not in body:
        fields["parallel_tool_calls"], form["implied"] = False, "parallel_tool_calls"
    if "max_tokens_key" in form and "max_completion_tokens" in rest:
        rest["max_tokens"] = rest.pop("max_completion_tokens")
    context = Context(None, decode_messages(messages), declared)
    return Request(context=context, opaque=WIRE.own(rest, form | spelled), **fields)


def encode_request(request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a request's body, and report what it cannot hold."""
    ledger = Ledger(WIRE, quirks, settings)
    opaque = request.opaque
    mine = opaque is not None and opaque.dialect == DIALECT
    form = form_of(opaque, DIALECT) if mine else {}
    request = limited(request, ledger, TOOL_LIMIT)
    context = request.context
    tools = write_tools(context.tools, ledger) if context.tools else {}
    body: dict[str, Any] = {}
    request = settle(request, ledger, tools)
    if tools and not mine:
        request = _settle_effort(request, ledger)
    _SETTINGS.encode(request, ledger, body)
    if "implied" in form and request.parallel_tool_calls is False:
        body.pop("parallel_tool_calls", None)
    if "max_completion_tokens" in body and (key := form.get("max_tokens_key", ledger.quirks.max_tokens_key)):
        body[key] = body.pop("max_completion_tokens")
    body |= tools
    messages = context.messages if mine else repair(context.messages, ledger.losses)
    encoded = _encode_system(context.system, ledger) if context.system else []
    encoded += encode_messages(messages, ledger)
    ledger.at = ()
    if request.output is not None and not mine:
        say_json(request.output, encoded, ledger)
    if encoded or "no_messages" not in form:
        body["messages"] = encoded
    if context.provider_state:
        ledger.lose_state(context.provider_state, f"{DIALECT} keeps no state")
    ledger.replay(body, opaque)
    return Encoded(form.get("path", PATH), body, tuple(ledger.losses))


def _settle_effort(request: Request, ledger: Ledger) -> Request:
    """Have a request from elsewhere not reason where its model takes no functions here while it does."""
    family = family_of(request.model)
    if family.functions_while_reasoning is not False or request.effort == "none":
        return request
    if request.effort is None and family.reasons_unasked is False:
        return request
    only = f"{request.model} takes functions on {DIALECT} only with effort none; use openai-responses"
    ledger.lose("effort", "effort", only, "defaulted" if request.effort is None else "approximated", "semantic")
    return replace(request, effort="none")


def _encode_system(system: str | list[Part], ledger: Ledger) -> list[dict[str, Any]]:
    """Write the system prompt as the first message."""
    if type(system) is str:
        return [{"role": "system", "content": system}]
    bodies: list[dict[str, Any]] = []
    ledger.at = ("system",)
    encode_message(Message("system", system), ledger, bodies, [])
    return bodies


_LISTED = texts("stop", "stop", 4)


def _decode_stop(value: Any) -> Understood | None:
    if type(value) is str:
        return Understood({"stop": [value]}, keep=True)
    return _LISTED.decode(value)


def _encode_stop(request: Request, ledger: Ledger) -> Any:
    if family_of(request.model).stop is False and not made_by(request.opaque, DIALECT):
        ledger.lose("stop", "stop", f"{request.model} takes no stop sequences")
        return ABSENT
    return _LISTED.encode(request, ledger)


def _decode_output(value: Any) -> Understood | None:
    match value:
        case {"type": "text"} if len(value) == 1:
            return Understood({"output": Output("text")})
        case {"type": "json_object"} if len(value) == 1:
            return Understood({"output": Output("json")})
        case {"type": "json_schema", "json_schema": {"name": str(name)} as inner} if len(value) == 2:
            left = inner.copy()
            del left["name"]
            fields = {key: left.pop(key) for key, kind in _SCHEMA_FIELDS.items() if type(left.get(key)) is kind}
            output = Output("schema", name=name, **fields)
            return Understood({"output": output}, {"json_schema": left} if left else ABSENT)
    return None


_SCHEMA_FIELDS = {"schema": dict, "description": str, "strict": bool}


def _encode_output(request: Request, ledger: Ledger) -> Any:
    output = request.output
    if output is None or output.kind != "schema":
        return {"type": "json_object" if output and output.kind == "json" else "text"}
    name, schema = output.name, output.schema
    if not made_by(request.opaque, DIALECT):
        name, schema = legal_form(output, ledger)
    inner = {"name": name, "schema": schema, "strict": output.strict, "description": output.description}
    said = {key: value for key, value in inner.items() if value is not None}
    return {"type": "json_schema", "json_schema": said}


_SETTINGS = Settings(
    plain("model", "model", str),
    plain("stream", "stream", bool),
    Setting("tool_choice", ("tool_choice",), decode_choice, encode_choice),
    Setting("function_call", ("tool_choice",), decode_legacy_choice, encode_legacy_choice),
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
)
SETTING_PATHS = _SETTINGS.paths()
