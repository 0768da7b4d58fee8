"""Requests of the Messages API, in both versions: 2023-06-01 and 2026-10-21.

Rules of this file:
- A request of this wire is encoded as it came, unless the quirk `api_version` names a version.
- A request from another wire is encoded for the newest version.
- Thinking, effort and sampling become what the family of the model supports. Each change is a loss.
"""

from typing import Any

from toolwire.dialects.anthropic.messages import (
    answers_unthought_calls,
    decode_messages,
    encode_blocks,
    encode_messages,
)
from toolwire.dialects.anthropic.parts import DIALECT, NEWEST, WIRE, decode_parts
from toolwire.dialects.anthropic.tools import decode_choice, decode_tool, encode_choice, encode_tool, mode_of_thinking
from toolwire.encoding.cache_marks import limit_marks, shortest_ttl
from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger, copy_body, made_by, spelling_of, take, take_entries, unusual_path
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.reasoning import EFFORTS, UNTHINKING
from toolwire.encoding.repair import JSON_REQUEST, OPENING_TEXT, add_opening_turn, begins_with_opening_turn, repair
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import (
    NUMBER,
    Setting,
    Settings,
    Understood,
    apply_model_limits,
    lose_beside_schema,
    lose_setting,
    nested,
    plain,
    texts,
    tier,
)
from toolwire.encoding.tools import encode_tools
from toolwire.types import Context, Encoded, Message, Output, Part, Request, Text
from toolwire.types.spelling.anthropic import MessagesRequestSpelling

PATH = "/v1/messages"
_OPENING_TURN: dict[str, Any] = {"role": "user", "content": OPENING_TEXT}
# Efforts in ascending order: anthropic 2.11.0, OutputConfigParam.effort (2026-11-20). `minimal` is toolwire's alone.
_EFFORTS = EFFORTS[1:]
# anthropic 2.11.0, ThinkingConfigEnabledParam.budget_tokens (2026-11-20).
_MIN_BUDGET = 1024
_MIN_TOP_P = 0.95
_LIFETIMES = WIRE.cache.times if WIRE.cache is not None else ()
_HIGH_EFFORTS = frozenset({"xhigh", "max"})
_THINKING_MODES = frozenset({"enabled", "adaptive"})
# The thinking budget for models that accept no effort. The numbers are toolwire's.
_BUDGET_OF_EFFORT = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32000}
# anthropic 2.11.0, MessageCreateParams.service_tier (2026-11-20).
_TIERS = {"auto": "auto", "standard_only": "standard_only", "default": "standard_only"}


def decode_request(body: dict[str, Any], path: str = "") -> Request:
    """Decode the `body` of a request. Raise `InvalidBody` if it is no JSON object.

    `path` is the path of its URL. Any other than the usual one is kept.
    """
    unparsed = copy_body(body, "request")
    turns = take(unparsed, "messages", list)
    has_opening_turn = turns is not None and begins_with_opening_turn(turns, _OPENING_TURN)
    system = _take_system(unparsed)
    tools = [decode_tool(tool) for tool in take_entries(unparsed, "tools")]
    has_output_format = "output_format" in unparsed and _has_lone_output_format(unparsed)
    if has_output_format:
        unparsed["output_config"] = {**unparsed.get("output_config", {}), "format": unparsed.pop("output_format")}
    fields, settings = _SETTINGS.decode(unparsed)
    if has_output_format:
        _move_to_output_format(unparsed)
    spelling = MessagesRequestSpelling(
        path=unusual_path(path, PATH),
        has_no_messages=turns is None,
        settings=settings,
        has_opening_turn=has_opening_turn,
        has_output_format=has_output_format,
    )
    context = Context(system, decode_messages((turns or [])[has_opening_turn:]), tools)
    return Request(context=context, opaque=WIRE.mark(unparsed, spelling), **fields)


def _take_system(unparsed: dict[str, Any]) -> str | list[Part] | None:
    """Remove the system prompt from the unparsed keys, and return it. An empty list stays."""
    blocks = take_entries(unparsed, "system")
    return decode_parts(blocks) if blocks else take(unparsed, "system", str)


def encode_request(request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Encode a request, and report what this wire cannot express.

    `settings` change single fields of `quirks`. `names` among them are tool names that are written unchanged.
    """
    ledger = Ledger(WIRE, quirks, settings)
    ledger.model = request.model
    opaque = request.opaque
    is_native = opaque is not None and opaque.dialect == DIALECT
    if not is_native:
        request = limit_marks(request, ledger, marks_request=_marks_request(request, ledger))
    context = request.context
    spelling = spelling_of(opaque, MessagesRequestSpelling)
    tools = encode_tools(context.tools, ledger, encode_tool) if context.tools else []
    body: dict[str, Any] = {}
    request = apply_model_limits(request, ledger, tools)
    _SETTINGS.encode(request, ledger, body)
    if spelling.has_output_format:
        _move_to_output_format(body)
    if not is_native:
        _default_max_tokens(body, ledger)
    messages = context.messages if is_native else repair(context.messages, ledger.losses)
    first = _encode_system(context.system, messages, body, ledger, is_native=is_native)
    if request.output is not None and _lacks_schema(request.output):
        _ask_for_json(body)
    if tools:
        body["tools"] = tools
    encoded = encode_messages(messages, ledger, first)
    ledger.path = ()
    if spelling.has_opening_turn or (not is_native and (messages or context.system)):
        add_opening_turn(encoded, _OPENING_TURN, None if is_native else ledger)
    if "thinking" in body and not is_native:
        _drop_thinking_budget(body, encoded, ledger)
    if encoded or not spelling.has_no_messages:
        body["messages"] = encoded
    if context.provider_state:
        ledger.lose_state(context.provider_state, f"{DIALECT} keeps no such state")
    ledger.replay(body, opaque)
    return Encoded(spelling.path or PATH, body, tuple(ledger.losses))


def _has_lone_output_format(body: dict[str, Any]) -> bool:
    """Return True if only `output_format` has the schema of the answer, as in the beta structured-outputs-2025-11-13.

    https://platform.claude.com/docs/en/build-with-claude/structured-outputs
    """
    config = body.get("output_config", {"": None})
    return type(body["output_format"]) is dict and type(config) is dict and bool(config) and "format" not in config


def _move_to_output_format(body: dict[str, Any]) -> None:
    """Move the schema of the answer from `output_config` to `output_format`, where the client sent it."""
    config = body.get("output_config", {})
    if "format" in config:
        body["output_format"] = config.pop("format")
        if not config:
            del body["output_config"]


def _default_max_tokens(body: dict[str, Any], ledger: Ledger) -> None:
    """Set `max_tokens`, which this wire requires, and make it larger than the thinking budget."""
    if "max_tokens" not in body:
        body["max_tokens"] = ledger.quirks.default_max_tokens
        ledger.lose(
            "max_tokens", "max_tokens", f"{DIALECT} requires a limit: {body['max_tokens']} is sent", "defaulted"
        )
    budget = body["thinking"].get("budget_tokens", 0) if "thinking" in body else 0
    if budget and budget >= body["max_tokens"]:
        body["max_tokens"] = budget + max(body["max_tokens"], 1)
        detail = f"{DIALECT} requires more than the thinking budget: {body['max_tokens']} is sent"
        ledger.lose("max_tokens", "max_tokens", detail, "approximated")


def _drop_thinking_budget(body: dict[str, Any], turns: list[Any], ledger: Ledger) -> None:
    """Drop thinking with a budget if the last results answer calls of a turn without thinking.

    Anthropic's server rejects such a request.
    """
    if body["thinking"].get("type") == "enabled" and answers_unthought_calls(turns):
        del body["thinking"]
        ledger.lose(
            "thinking", "thinking", f"{DIALECT} requires thinking before the calls that are answered, and there is none"
        )


def _encode_system(system: Any, messages: Any, body: dict[str, Any], ledger: Ledger, *, is_native: bool) -> int:
    """Encode the system prompt of the context, and the system messages at the start of the conversation.

    Return the index of the first message that does not belong to it.
    """
    first = 0
    while first < len(messages) and messages[first].role in ("system", "developer"):
        if made_by(messages[first].opaque, DIALECT):
            break
        first += 1
    if first == 1 and not system and type(text := messages[0].content) is str and messages[0].role == "system":
        ledger.path = ("messages", 0)
        _lose_around_system(messages[0], ledger)
        _set_system(text, "content", body, ledger)
    elif first:
        _join_system(system, messages[:first], body, ledger)
    elif type(system) is str and not is_native:
        _set_system(system, "system", body, ledger)
    elif type(system) is str:
        body["system"] = system
    elif system:
        ledger.path, ledger.is_native = ("system",), is_native
        body["system"] = encode_blocks(system, ledger, "system")
    return first


def _lacks_schema(output: Output) -> bool:
    """Return True if an output is JSON of any form, which Messages can be asked for only in words."""
    return output.schema is None and output.kind != "text"


def _ask_for_json(body: dict[str, Any]) -> None:
    """Append a constant sentence to the system prompt, so that the beginning of the prompt stays cached."""
    match body.get("system"):
        case str(system):
            body["system"] = f"{system}\n\n{JSON_REQUEST}"
        case list(blocks):
            body["system"] = [*blocks, {"type": "text", "text": JSON_REQUEST}]
        case _:
            body["system"] = JSON_REQUEST


def _set_system(text: str, field: str, body: dict[str, Any], ledger: Ledger) -> None:
    """Set the system prompt to `text`, unless it is blank. `field` is where the request has it."""
    if text and not text.isspace():
        body["system"] = text
    elif text:
        ledger.lose(field, "blank", f"{DIALECT} rejects a text without visible characters")


def _join_system(system: str | list[Part] | None, messages: Any, body: dict[str, Any], ledger: Ledger) -> None:
    """Encode the prompt of the context and the system messages after it as one prompt."""
    ledger.path, ledger.is_native = ("system",), False
    blocks = encode_blocks([Text(system)] if type(system) is str else system or [], ledger, "system")
    all_strings = type(system) is not list
    for index, message in enumerate(messages):
        ledger.path = ("messages", index)
        all_strings = all_strings and type(message.content) is str
        _lose_around_system(message, ledger)
        if message.role == "developer":
            ledger.lose(
                "role", "developer", f"{DIALECT} has one system prompt: the message is appended to it", "merged"
            )
        blocks += encode_blocks(message.parts, ledger, "system")
    if blocks:
        body["system"] = blocks[0]["text"] if all_strings and len(blocks) == 1 else blocks


def _lose_around_system(message: Message, ledger: Ledger) -> None:
    ledger.lose_opaque(message.opaque)
    ledger.lose_fields(message, "name", "name", "tool_call_id")


def _sampling_setting(field: str) -> Setting:
    """Return the setting of a sampling parameter, which newer versions and models reject."""

    def encode(request: Request, ledger: Ledger) -> Any:
        version, is_native = ledger.quirks.api_version, made_by(request.opaque, DIALECT)
        family = family_of(request.model)
        if not is_native and (family.sampling is False or (version is None and not family.sampling)):
            version = NEWEST
        if version is None or version < NEWEST:
            refusal = None if is_native else _explain_refusal(field, request)
            if refusal is None:
                return getattr(request, field)
            lose_setting(request, field, refusal, ledger)
        else:
            lose_setting(request, field, f"{DIALECT} {version} rejects it", ledger)
        return ABSENT

    return plain(field, field, *NUMBER).written(encode)


def _explain_refusal(field: str, request: Request) -> str | None:
    """Return why a model that accepts sampling parameters rejects this one, or None.

    Some models accept either `temperature` or `top_p`. Then `top_p` is dropped, or `temperature` if that is 1
    (https://github.com/open-webui/open-webui/issues/17922). While a model thinks, other values are restricted too
    (https://platform.claude.com/docs/en/build-with-claude/thinking).
    """
    value, thinks = getattr(request, field), mode_of_thinking(request) in _THINKING_MODES
    if not 0 <= value <= (value if field == "top_k" else 1):
        return f"{DIALECT} accepts 0 or more" if field == "top_k" else f"{DIALECT} accepts 0 to 1"
    if thinks and not (field == "temperature" and value == 1) and not (field == "top_p" and value >= _MIN_TOP_P):
        return f"{DIALECT} rejects it while the model thinks"
    kept, dropped = ("top_p", "temperature") if request.temperature == 1 else ("temperature", "top_p")
    both = field == dropped and getattr(request, kept) is not None
    if both and family_of(request.model).temperature_with_top_p is False and _explain_refusal(kept, request) is None:
        return f"{request.model} accepts either temperature or top_p"
    return None


def _decode_thinking(value: Any) -> Understood | None:
    match value:
        case {"type": "enabled" | "adaptive" | "disabled" | "between_tools"}:
            unparsed = value.copy()
            fields = {"thinking": unparsed.pop("type")}
            keys = (("budget_tokens", "thinking_budget", int), ("display", "thinking_display", str))
            for key, field, value_type in keys:
                if type(unparsed.get(key)) is value_type:
                    fields[field] = unparsed.pop(key)
            return Understood(fields, unparsed or ABSENT)
    return None


def _encode_thinking(request: Request, ledger: Ledger) -> Any:
    is_native, family = made_by(request.opaque, DIALECT), family_of(request.model)
    mode, budget, display = mode_of_thinking(request), request.thinking_budget, request.thinking_display
    if mode is None:
        return ABSENT
    if mode == "disabled" and not is_native and family.always_thinks:
        field = "thinking" if request.thinking is not None else "thinking_budget"
        ledger.lose(field, "thinking", f"{request.model} always thinks")
        return ABSENT
    if request.thinking is None and budget is not None and budget <= 0:
        budget = None
    if not is_native:
        mode, budget = _supported_thinking(request, mode, budget, ledger)
    body: dict[str, Any] = {"type": mode}
    if budget is not None and (mode == "enabled" or is_native):
        body["budget_tokens"] = budget if is_native else max(budget, _MIN_BUDGET)
        if body["budget_tokens"] != budget:
            detail = f"{DIALECT} accepts at least {_MIN_BUDGET}"
            ledger.lose("thinking_budget", "thinking_budget", detail, "approximated")
    elif budget is not None:
        detail = f"{DIALECT} accepts a budget only for enabled thinking, not for {mode}"
        ledger.lose("thinking_budget", "thinking_budget", detail)
    if display is not None:
        known_display = _DISPLAYS.get(display, display if is_native else None)
        if known_display is not None and (is_native or mode in {"enabled", "adaptive"}):
            body["display"] = known_display
        else:
            ledger.lose(
                "thinking_display", "thinking_display", f"{DIALECT} returns thinking only summarized or omitted"
            )
    return body


def _supported_thinking(request: Request, mode: str, budget: int | None, ledger: Ledger) -> tuple[str, int | None]:
    """Return the thinking mode and the budget that the model supports.

    Newer models accept no budget. Older models require one.
    """
    family = family_of(request.model)
    if mode == "disabled" and family.thinking_off is not None:
        field = next(name for name in ("thinking", "thinking_budget", "effort") if getattr(request, name) is not None)
        detail = f"{request.model} cannot turn thinking off: {family.thinking_off} is sent"
        ledger.lose(field, "thinking", detail, "approximated")
        return family.thinking_off, None
    if mode == "enabled" and (budget is None or family.thinking_budget is False):
        mode = "adaptive"
    if mode == "adaptive" and family.adaptive_thinking is False:
        ledger.lose(
            "thinking", "thinking", f"{request.model} thinks only with a budget: one is sent", "approximated", "minor"
        )
        default = _BUDGET_OF_EFFORT.get(request.effort or "", _BUDGET_OF_EFFORT["medium"])
        mode, budget = "enabled", default if budget is None else budget
    return mode, budget


# anthropic 2.11.0, ThinkingConfigEnabledParam.display (2026-11-20). The last three are summaries of OpenAI's Responses.
_DISPLAYS = {
    "summarized": "summarized",
    "omitted": "omitted",
    "auto": "summarized",
    "concise": "summarized",
    "detailed": "summarized",
}


def _decode_format(value: Any) -> Understood | None:
    match value:
        case {"type": "json_schema", "schema": dict(schema)} if len(value) == 2:
            return Understood({"output": Output("schema", schema)})
    return None


def _encode_effort(request: Request, ledger: Ledger) -> Any:
    """Encode the effort as a level that the model supports. If thinking is disabled, `none` is not written."""
    effort: Any = request.effort
    if made_by(request.opaque, DIALECT):
        return effort
    if effort == "none" and mode_of_thinking(request) == "disabled":
        return ABSENT
    if effort == "none" and family_of(request.model).always_thinks:
        ledger.lose("effort", "effort", f"{request.model} always thinks: low is sent", "approximated", "semantic")
        return "low"
    if effort not in _EFFORTS:
        ledger.lose("effort", "effort", f"{DIALECT} has no effort {effort}")
        return ABSENT
    family, mode = family_of(request.model), mode_of_thinking(request)
    levels = _EFFORTS[1:] if family.efforts is None else tuple(filter(_EFFORTS.__contains__, family.efforts))
    if not levels:
        thinks = mode in _THINKING_MODES
        detail = f"{request.model} accepts no effort{': a thinking budget is sent' if thinks else ''}"
        ledger.lose("effort", "effort", detail, "approximated" if thinks else "dropped")
        return ABSENT
    if family.much_effort_without_thinking is False and mode in UNTHINKING:
        levels = tuple(level for level in levels if level not in _HIGH_EFFORTS)
    lower = [level for level in levels if _EFFORTS.index(level) <= _EFFORTS.index(effort)]
    level = lower[-1] if lower else levels[0]
    if level != effort:
        ledger.lose(
            "effort",
            "effort",
            f"{request.model or 'the model'} has no effort {effort}: {level} is sent",
            "approximated",
        )
    return level


def _encode_stop(request: Request, ledger: Ledger) -> Any:
    """Encode the stop sequences without the blank ones.

    Anthropic's server rejects these ("each stop sequence must contain non-whitespace", 2026-09-30).
    """
    sequences: Any = request.stop
    usable = [sequence for sequence in sequences if sequence and not sequence.isspace()]
    if len(usable) == len(sequences) or made_by(request.opaque, DIALECT):
        return sequences
    detail = f"{DIALECT} rejects a stop sequence without visible characters"
    ledger.lose("stop", "stop", detail, "approximated" if usable else "dropped")
    return usable or ABSENT


def _encode_format(request: Request, ledger: Ledger) -> Any:
    output: Any = request.output
    if _lacks_schema(output):
        detail = f"{DIALECT} cannot enforce JSON without a schema: the system prompt asks for it"
        ledger.lose("output", f"output_{output.kind}", detail, "approximated", "semantic")
        return ABSENT
    if output.schema is None:
        ledger.lose("output", f"output_{output.kind}", f"{DIALECT} has no output format {output.kind} without a schema")
        return ABSENT
    is_native = made_by(request.opaque, DIALECT)
    schema = output.schema if is_native else ledger.fit_value(output.schema, "anthropic-strict", "output.schema")
    lose_beside_schema(output, ledger)
    return {"type": "json_schema", "schema": schema}


def _decode_metadata(value: Any) -> Understood | None:
    if type(value) is not dict or type(value.get("user_id")) is not str:
        return None
    unparsed = value.copy()
    return Understood({"user": unparsed.pop("user_id")}, unparsed or ABSENT)


def _encode_metadata(request: Request, ledger: Ledger) -> Any:
    """Encode the user's id.

    Anthropic's server rejects an email address ("user_id appears to contain an email address").
    """
    user = request.user if request.user is not None else request.safety_identifier
    if request.user is not None and request.safety_identifier is not None:
        ledger.lose("safety_identifier", "user", f"{DIALECT} accepts one id of the user: that of `user` is sent")
    if "@" in (user or "") and not made_by(request.opaque, DIALECT):
        field = "user" if request.user is not None else "safety_identifier"
        ledger.lose(field, "user", f"{DIALECT} rejects an email address as the id of a user")
        return ABSENT
    return {"user_id": user}


def _decode_cache(value: Any) -> Understood | None:
    match value:
        case {"type": "ephemeral"} if len(value) == 1:
            return Understood({"cache_mode": "implicit"})
        case {"type": "ephemeral", "ttl": str(ttl)} if len(value) == 2:
            return Understood({"cache_mode": "implicit", "cache_ttl": ttl})
    return None


def _marks_request(request: Request, ledger: Ledger) -> bool:
    """Return True if a request gets a cache mark for the whole of it."""
    is_asked = request.cache_mode == "implicit" or (request.cache_mode is None and request.cache_ttl is not None)
    return is_asked and ledger.quirks.request_cache_mark


def _encode_cache(request: Request, ledger: Ledger) -> Any:
    """Encode the cache mark for the whole request. It is after all others, so it must not last longer than they do."""
    mode, ttl = request.cache_mode, request.cache_ttl
    if made_by(request.opaque, DIALECT):
        mark = {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}
        return mark if mode in (None, "implicit") else ABSENT
    if not _marks_request(request, ledger):
        why = "caches only what is marked" if mode == "explicit" else "has no such mark for the whole request here"
        for field in ("cache_mode", "cache_ttl"):
            if getattr(request, field) is not None:
                ledger.lose(field, field, f"{DIALECT} {why}")
        return ABSENT
    nearest = None if ttl is None else ledger.nearest_ttl(ttl, "cache_ttl")
    shortest = shortest_ttl(request, ledger)
    if nearest is not None and shortest is not None and _LIFETIMES.index(shortest) < _LIFETIMES.index(nearest):
        detail = f"{DIALECT} accepts no longer lifetime after a shorter one: {shortest} is sent"
        ledger.lose("cache_ttl", "cache_mark", detail, "approximated")
        nearest = shortest
    return {"type": "ephemeral"} if nearest is None else {"type": "ephemeral", "ttl": nearest}


_OUTPUT = Settings(
    plain("effort", "effort", str).written(_encode_effort),
    Setting("format", ("output",), _decode_format, _encode_format),
)
_SETTINGS = Settings(
    plain("model", "model", str),
    plain("max_tokens", "max_tokens", int),
    plain("stream", "stream", bool),
    _sampling_setting("temperature"),
    _sampling_setting("top_p"),
    _sampling_setting("top_k"),
    texts("stop_sequences", "stop").written(_encode_stop),
    nested("output_config", _OUTPUT),
    Setting(
        "thinking", ("thinking", "thinking_budget", "thinking_display", "effort"), _decode_thinking, _encode_thinking
    ),
    Setting("tool_choice", ("tool_choice", "parallel_tool_calls"), decode_choice, encode_choice),
    Setting("metadata", ("user", "safety_identifier"), _decode_metadata, _encode_metadata),
    tier("service_tier", _TIERS),
    Setting("cache_control", ("cache_mode", "cache_ttl"), _decode_cache, _encode_cache),
)
SETTING_PATHS = _SETTINGS.paths()
