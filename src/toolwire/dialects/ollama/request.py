"""Requests of Ollama's native chat.

Rules of this file:
- Ollama streams unless `stream` is false. A request without `stream` is decoded as one that streams, and a request from
  another wire is always encoded with it.
- The parameters of the model are in `options`. Those that no other wire has stay there unparsed.
"""

from typing import Any

from toolwire.dialects.ollama.messages import decode_messages, encode_message, encode_messages
from toolwire.dialects.ollama.parts import DIALECT, WIRE
from toolwire.dialects.ollama.tools import decode_tool, encode_choice, encode_tool
from toolwire.encoding.ledger import Ledger, copy_body, spelling_of, take, take_entries, unusual_path
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.repair import repair
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import (
    NUMBER,
    Setting,
    Settings,
    Understood,
    apply_model_limits,
    at_least,
    checked,
    lose_beside_schema,
    lose_setting,
    nested,
    plain,
    texts,
)
from toolwire.encoding.tools import encode_tools, functions_of
from toolwire.types import Context, Encoded, Message, Output, Request
from toolwire.types.spelling.ollama import OllamaRequestSpelling

PATH = "/api/chat"
# ollama/ollama, api/types.go, ThinkValue (2026-08-21).
_LEVEL_OF_EFFORT: dict[str, Any] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
    "max": "max",
}
_LEVELS = frozenset({"low", "medium", "high", "max"})


def decode_request(body: dict[str, Any], path: str = "") -> Request:
    """Decode the `body` of a request. Raise `InvalidBody` if it is no JSON object.

    `path` is the path of its URL. Any other than the usual one is kept.
    """
    unparsed = copy_body(body, "request")
    messages = take(unparsed, "messages", list)
    tools = [decode_tool(tool) for tool in take_entries(unparsed, "tools")]
    fields, settings = _SETTINGS.decode(unparsed)
    has_no_stream = body.get("stream") is None
    if has_no_stream:
        fields["stream"] = True
    spelling = OllamaRequestSpelling(
        path=unusual_path(path, PATH),
        has_no_messages=messages is None,
        settings=settings,
        has_no_stream=has_no_stream,
    )
    context = Context(None, decode_messages(messages or []), tools)
    return Request(context=context, opaque=WIRE.mark(unparsed, spelling), **fields)


def encode_request(request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Encode a request, and report what this wire cannot express.

    `settings` change single fields of `quirks`. `names` among them are tool names that are written unchanged.
    """
    ledger = Ledger(WIRE, quirks, settings)
    context, opaque = request.context, request.opaque
    is_native = opaque is not None and opaque.dialect == DIALECT
    spelling = spelling_of(opaque, OllamaRequestSpelling)
    body: dict[str, Any] = {}
    request = apply_model_limits(request, ledger, functions_of(context.tools))
    _SETTINGS.encode(request, ledger, body)
    if not is_native or spelling.has_no_stream:
        body.setdefault("stream", False)
    if spelling.has_no_stream and body["stream"]:
        del body["stream"]
    offered, instruction = encode_choice(request, ledger)
    tools = encode_tools(context.tools, ledger, encode_tool, offered) if context.tools else []
    if tools:
        body["tools"] = tools
    messages = context.messages if is_native else repair(context.messages, ledger.losses)
    encoded: list[dict[str, Any]] = []
    if context.system:
        ledger.path, ledger.is_native = ("system",), False
        encode_message(Message("system", context.system), ledger, encoded, {})
    encoded += encode_messages(messages, ledger)
    if instruction:
        _append_to_user(encoded, instruction)
    if encoded or not spelling.has_no_messages:
        body["messages"] = encoded
    ledger.path = ()
    if tools and not is_native and "format" in body and body["format"] != "":
        ledger.lose("output", "output_with_tools", f"{DIALECT} calls no tools while it has a format", "approximated")
    if context.provider_state:
        ledger.lose_state(context.provider_state, f"{DIALECT} keeps no state")
    ledger.replay(body, opaque)
    return Encoded(spelling.path or PATH, body, tuple(ledger.losses))


def _append_to_user(bodies: list[Any], instruction: str) -> None:
    """Append `instruction` to the last message of the user, or as a new one if the user has none."""
    for index in range(len(bodies) - 1, -1, -1):
        body = bodies[index]
        role = body.get("role") if type(body) is dict else None
        if type(role) is str and role.lower() == "user":
            text = body.get("content")
            content = f"{text}\n\n{instruction}" if text and type(text) is str else instruction
            bodies[index] = {**body, "content": content}
            return
    bodies.append({"role": "user", "content": instruction})


def _decode_num_predict(value: Any) -> Understood | None:
    """Decode the token limit. A negative one means that there is no limit, and stays unparsed.

    https://github.com/ollama/ollama/blob/main/docs/modelfile.mdx#valid-parameters-and-values
    """
    return Understood({"max_tokens": value}) if type(value) is int and value > 0 else None


def _is_integer(value: float) -> bool:
    return not isinstance(value, float) or value.is_integer()


_OPTIONS = Settings(
    Setting("num_predict", ("max_tokens",), _decode_num_predict, at_least("num_predict", "max_tokens", 1).encode),
    plain("temperature", "temperature", *NUMBER),
    plain("top_p", "top_p", *NUMBER),
    checked(plain("top_k", "top_k", *NUMBER), _is_integer, "accepts whole numbers"),
    texts("stop", "stop"),
    plain("seed", "seed", int),
    plain("presence_penalty", "presence_penalty", *NUMBER),
    plain("frequency_penalty", "frequency_penalty", *NUMBER),
)


def _decode_think(value: Any) -> Understood | None:
    if type(value) is bool:
        return Understood({"thinking": "enabled" if value else "disabled"})
    return Understood({"effort": value}) if type(value) is str and value in _LEVELS else None


def _encode_think(request: Request, ledger: Ledger) -> Any:
    mode, effort = request.thinking, request.effort
    if request.thinking_budget is not None:
        if request.thinking_budget == 0 and mode is None and effort is None:
            return False
        if request.thinking_budget != 0 and mode is None and effort is None:
            detail = f"{DIALECT} has no number of tokens for thinking: it is turned on"
            ledger.lose("thinking_budget", "thinking_budget", detail, "approximated")
            return True
        lose_setting(request, "thinking_budget", f"{DIALECT} has no such setting", ledger, carried=effort is not None)
    level = ABSENT if effort is None else _LEVEL_OF_EFFORT.get(effort, ABSENT)
    if mode == "disabled":
        if effort not in (None, "none"):
            ledger.lose("effort", "effort", f"thinking is disabled, and {DIALECT} has no effort without thinking")
        return False
    if mode not in (None, "enabled") or (mode is not None and level is False):
        ledger.lose(
            "thinking", "thinking", f"{DIALECT} can only turn thinking on or off, or set its level", "approximated"
        )
    if effort is None or level is ABSENT:
        if effort is not None:
            ledger.lose("effort", "effort", f"{DIALECT} has no effort {effort}")
        return ABSENT if mode is None else True
    if level not in (False, effort):
        ledger.lose("effort", "effort", f"{DIALECT} has no effort {effort}: {level} is sent", "approximated")
    return level


def _decode_output(value: Any) -> Understood | None:
    """Decode the output format. Ollama's Go client writes an empty one (api/types.go, ChatRequest.Format)."""
    match value:
        case "":
            return Understood({"output": Output("text")})
        case "json":
            return Understood({"output": Output("json")})
        case dict():
            return Understood({"output": Output("schema", value)})
    return None


def _encode_output(request: Request, ledger: Ledger) -> Any:
    output = request.output or Output("text")
    lose_beside_schema(output, ledger)
    if output.kind == "schema" and output.schema is None:
        ledger.lose(
            "output", "output_schema", "the request has no schema: the format for any JSON is sent", "approximated"
        )
        return "json"
    return {"text": "", "json": "json", "schema": output.schema}[output.kind]


_SETTINGS = Settings(
    plain("model", "model", str),
    plain("stream", "stream", bool),
    nested("options", _OPTIONS),
    Setting("think", ("thinking", "effort", "thinking_budget"), _decode_think, _encode_think),
    Setting("format", ("output",), _decode_output, _encode_output),
    Setting("", ("tool_choice",), lambda _value: None, lambda _request, _ledger: ABSENT),
    plain("logprobs", "logprobs", bool),
    plain("top_logprobs", "top_logprobs", int),
)
SETTING_PATHS = _SETTINGS.paths() | _OPTIONS.paths("options")
