"""Decode and encode the requests of generateContent. The model is in the path, settings are in nested objects.

Rules of this file:
- A path that was received is sent again if it still has the model of the request and the same value of `stream`.
- Each nested object of settings is decoded with its own table. One table of all settings encodes them.
"""

import re
from typing import Any
from urllib.parse import quote, unquote

from msgspec.structs import replace

from toolwire.dialects.gemini.messages import decode_messages, encode_content, encode_messages, encode_parts
from toolwire.dialects.gemini.parts import DIALECT, WIRE, Conversation, decode_part, read_keys, write_keys
from toolwire.dialects.gemini.tools import (
    DECLARATION_LIMIT,
    decode_choice,
    decode_tools,
    encode_choice,
    encode_media_type,
    encode_schema,
    encode_strictness,
    encode_tools,
    take_output,
)
from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger, copy_body, made_by, spelling_of, take_entries, unparsed_of
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.reasoning import UNTHINKING, nearest_effort
from toolwire.encoding.repair import OPENING_TEXT, add_opening_turn, begins_with_opening_turn, repair
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import (
    NUMBER,
    Setting,
    Settings,
    Understood,
    apply_model_limits,
    at_least,
    checked,
    plain,
    texts,
    tier,
    within,
)
from toolwire.encoding.tools import functions_of, limit_tools
from toolwire.types import Context, Encoded, Message, Part, Request, Text
from toolwire.types.spelling.gemini import GeminiRequestSpelling

_VERSION = "/v1beta/"
_OPENING_TURN: dict[str, Any] = {"role": "user", "parts": [{"text": OPENING_TEXT}]}
_COLLECTIONS = frozenset({"models", "tunedModels", "endpoints", "publishers", "projects"})
_UNSAFE_STEPS = frozenset({"", ".", ".."})
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.:@~-]*")
_VERBS = {False: "generateContent", True: "streamGenerateContent"}
_PATH = re.compile(
    r"(?P<root>(?:.*/)?)(?P<collection>[^/]+)/(?P<model>[^/?]+):(?P<verb>generateContent|streamGenerateContent)"
    r"(?P<query>(?:\?.*)?)"
)
_SSE = re.compile(r"\?alt=sse$|&alt=sse|(?<=\?)alt=sse&")


def _read_path(path: str) -> tuple[str, bool] | None:
    """Return the model in `path` and whether the path is that of a stream, or None if the path has no model."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    model, collection = unquote(match["model"]), match["collection"]
    return model if collection == "models" else f"{collection}/{model}", match["verb"] == _VERBS[True]


def _write_path(path: str, model: str, *, stream: bool) -> str:
    """Return the path of a request: the received `path` if it still means the same."""
    if path and _read_path(path) in {None, (model, stream)}:
        return path
    match = _PATH.fullmatch(path) if path else None
    root, query = (_VERSION, "") if match is None else (match["root"], _SSE.sub("", match["query"]))
    if stream and "alt=" not in query:
        query += "&alt=sse" if query else "?alt=sse"
    return f"{root}{_write_resource(model)}:{_VERBS[stream]}{query}"


def _write_resource(model: str) -> str:
    """Return the path of a model. A name with `..` is escaped to one segment, so that it cannot reach another path."""
    if _PLAIN_NAME.fullmatch(model):
        return f"models/{model}"
    steps = model.split("/")
    is_unsafe = not _UNSAFE_STEPS.isdisjoint(steps)
    escaped = quote(model, safe="" if is_unsafe else "/:@", errors="replace")
    return escaped if steps[0] in _COLLECTIONS and len(steps) > 1 and not is_unsafe else f"models/{escaped}"


def decode_request(body: dict[str, Any], path: str = "") -> Request:
    """Decode the body of a request. `path` has the model, and whether the answer is a stream."""
    unparsed, snake_keys = read_keys(copy_body(body, "request"))
    contents, has_one_content = _take_contents(unparsed)
    has_opening_turn = (
        not has_one_content and contents is not None and begins_with_opening_turn(contents, _OPENING_TURN)
    )
    system, system_spelling = _take_system(unparsed)
    tools = decode_tools(take_entries(unparsed, "tools"))
    fields, spelling = _take_config(unparsed, system_spelling)
    other_fields, settings = _TOP.decode(unparsed)
    fields |= other_fields
    if path:
        _take_path(path, fields, unparsed, settings)
    spelling = replace(
        spelling,
        path=path,
        has_no_messages=contents is None,
        settings=spelling.settings | settings,
        snake_keys=snake_keys,
        has_opening_turn=has_opening_turn,
        has_one_content=has_one_content,
    )
    context = Context(system, decode_messages((contents or [])[has_opening_turn:]), tools)
    return Request(context=context, opaque=WIRE.mark(unparsed, spelling), **fields)


def _take_contents(unparsed: dict[str, Any]) -> tuple[list[Any] | None, bool]:
    """Remove the contents from the `unparsed` keys. Return them or None, and whether they were one object."""
    contents = unparsed.get("contents")
    if type(contents) is not dict and type(contents) is not list:
        return None, False
    del unparsed["contents"]
    return (contents, False) if type(contents) is list else ([contents], True)


def _take_path(path: str, fields: dict[str, Any], unparsed: dict[str, Any], settings: dict[str, Any]) -> None:
    """Set the model and `stream` from `path`. If the body has another model, that stays unparsed."""
    if (target := _read_path(path)) is None:
        return
    model, stream = target
    if fields.get("model", model) != model:
        unparsed["model"] = settings.pop("model")
    fields["model"] = model
    if stream:
        fields["stream"] = True


def _take_system(unparsed: dict[str, Any]) -> tuple[str | list[Part] | None, GeminiRequestSpelling]:
    """Remove the system instruction from the `unparsed` keys. Return its text or parts, and its spelling."""
    instruction = unparsed.get("systemInstruction")
    parts = instruction.get("parts") if type(instruction) is dict else None
    has_one_part = type(parts) is dict
    parts = [parts] if has_one_part else parts
    if type(instruction) is not dict or type(parts) is not list or not parts:
        return None, GeminiRequestSpelling()
    unparsed_instruction = {key: value for key, value in instruction.items() if key != "parts"}
    role = unparsed_instruction.pop("role") if type(unparsed_instruction.get("role")) is str else None
    _put_unparsed(unparsed, "systemInstruction", unparsed_instruction)
    spelling = GeminiRequestSpelling(has_one_system_part=has_one_part, system_role=role)
    only_part = parts[0] if len(parts) == 1 and not has_one_part else None
    if type(only_part) is dict and len(only_part) == 1 and type(only_part.get("text")) is str:
        return only_part["text"], spelling
    return [decode_part(part) for part in parts], spelling


def encode_request(request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Encode `request`. The result has the path, the body and the losses."""
    ledger = Conversation(quirks, request.model, settings)
    opaque = request.opaque
    is_native = opaque is not None and opaque.dialect == DIALECT
    spelling = spelling_of(opaque, GeminiRequestSpelling)
    request = limit_tools(request, ledger, DECLARATION_LIMIT)
    context = request.context
    tools = encode_tools(context.tools, ledger) if context.tools else []
    flat: dict[str, Any] = {}
    request = apply_model_limits(request, ledger, functions_of(context.tools))
    if opaque is not None and not is_native:
        request = _with_shown_thoughts(request, ledger)
    _SETTINGS.encode(request, ledger, flat)
    body = _nest_config(flat, request)
    if tools:
        encode_strictness(context.tools, body)
    messages = context.messages if is_native else repair(context.messages, ledger.losses)
    start = _encode_system(request, messages, body, ledger)
    contents = encode_messages(messages, ledger, start)
    ledger.path = ()
    if spelling.has_opening_turn or (not is_native and (messages or context.system)):
        add_opening_turn(contents, _OPENING_TURN, None if is_native else ledger)
    if contents or not spelling.has_no_messages:
        body["contents"] = contents[0] if spelling.has_one_content and len(contents) == 1 else contents
    if tools:
        body["tools"] = tools
    if context.provider_state:
        ledger.lose_state(context.provider_state, f"{DIALECT} stores no such state")
    write_keys(ledger.replay(body, opaque), spelling.snake_keys)
    path = _write_path(spelling.path, request.model or "", stream=bool(request.stream))
    return Encoded(path, body, tuple(ledger.losses))


def _with_shown_thoughts(request: Request, ledger: Conversation) -> Request:
    """Return a request of another wire that shows the thoughts it asks for, which this wire does only if it is told to.

    Messages shows a summary by default (@ai-sdk/anthropic 4 rests on it), and clients of Chat Completions read what
    their server sends.
    """
    levels = (request.thinking, request.effort, request.thinking_budget)
    asks = any(level not in (None, "disabled", "none", 0) for level in levels) and request.thinking not in UNTHINKING
    if not asks or request.thinking_display is not None:
        return request
    ledger.lose("thinking_display", "thinking_display", f"{DIALECT} hides thoughts by default", "defaulted", "formal")
    return replace(request, thinking_display=_DISPLAYS[True])


def _encode_system(request: Request, messages: Any, body: dict[str, Any], ledger: Conversation) -> int:
    """Encode the system instruction: the context's, and the system messages before the first other message.

    Return the index of that message.
    """
    system, start = request.context.system, 0
    if system is None and (not messages or messages[0].role not in ("system", "developer")):
        return start
    is_native = made_by(request.opaque, DIALECT)
    ledger.path, ledger.is_native = ("system",), is_native
    parts = encode_parts([Text(system)] if type(system) is str else system or (), ledger, "system")
    for index, message in enumerate(messages):
        if message.role not in ("system", "developer"):
            break
        start = index + 1
        ledger.path = ("messages", index)
        _lose_around_system(message, ledger)
        parts += encode_content(message, ledger, "system")
    if parts:
        spelling = spelling_of(request.opaque, GeminiRequestSpelling)
        body["systemInstruction"] = {
            **unparsed_of(request.opaque, DIALECT, "systemInstruction"),
            **({} if spelling.system_role is None else {"role": spelling.system_role}),
            "parts": parts[0] if spelling.has_one_system_part and len(parts) == 1 else parts,
        }
    return start


def _lose_around_system(message: Message, ledger: Conversation) -> None:
    ledger.lose_opaque(message.opaque)
    ledger.lose_fields(message, "name", "name", "tool_call_id")
    if message.role == "developer":
        ledger.lose("role", "developer", f"{DIALECT} has one system instruction", "merged", "minor")


def _take_config(
    unparsed: dict[str, Any], spelling: GeminiRequestSpelling
) -> tuple[dict[str, Any], GeminiRequestSpelling]:
    """Remove the settings of `generationConfig` from the `unparsed` keys. Return the fields and the spelling."""
    if type(unparsed.get("generationConfig")) is not dict or not unparsed["generationConfig"]:
        return {}, spelling
    config, snake_keys = read_keys(unparsed["generationConfig"])
    fields, settings, has_enum_output = take_output(config)
    thinking_snake_keys: list[str] = []
    if type(config.get("thinkingConfig")) is dict and config["thinkingConfig"]:
        thinking, thinking_snake_keys = read_keys(config["thinkingConfig"])
        thinking_fields, thinking_settings = _THINKING.decode(thinking)
        _put_unparsed(config, "thinkingConfig", thinking)
        fields |= thinking_fields
        settings |= thinking_settings
    has_thinking_level = "effort" in fields
    fields |= CONFIG.decode(config)[0]
    has_text_modality = config.get("responseModalities") == ["TEXT"]
    if has_text_modality:
        del config["responseModalities"]
    _put_unparsed(unparsed, "generationConfig", config)
    spelling = replace(
        spelling,
        settings=settings,
        config_snake_keys=snake_keys,
        thinking_snake_keys=thinking_snake_keys,
        has_thinking_level=has_thinking_level,
        has_text_modality=has_text_modality,
        has_enum_output=has_enum_output,
    )
    return fields, spelling


def _put_unparsed(outer: dict[str, Any], key: str, inner: dict[str, Any]) -> None:
    """Store the unparsed keys of an inner object under `key`, or delete `key` if there are none."""
    if inner:
        outer[key] = inner
    else:
        del outer[key]


def _nest_config(flat: dict[str, Any], request: Request) -> dict[str, Any]:
    """Move the settings from `flat` into their objects, add the unparsed keys, and restore the case of the keys."""
    spelling = spelling_of(request.opaque, GeminiRequestSpelling)
    unparsed_config = unparsed_of(request.opaque, DIALECT, "generationConfig")
    nested = flat.keys() & _NESTED_KEYS
    if not (nested or unparsed_config or spelling.has_text_modality):
        return flat
    thinking = {} if nested <= _CONFIG_KEY_SET else {key: flat.pop(key) for key in _THINKING.by_key if key in nested}
    config = unparsed_config | {key: flat.pop(key) for key in _CONFIG_KEYS if key in nested}
    if "responseSchema" in spelling.settings and "responseJsonSchema" in config:
        config["responseSchema"] = config.pop("responseJsonSchema")
    unparsed_thinking = unparsed_config.get("thinkingConfig") or {}
    if isinstance(unparsed_thinking, dict) and (thinking or unparsed_thinking):
        config["thinkingConfig"] = write_keys({**unparsed_thinking, **thinking}, spelling.thinking_snake_keys)
    if spelling.has_text_modality:
        config.setdefault("responseModalities", ["TEXT"])
    if config:
        flat["generationConfig"] = write_keys(config, spelling.config_snake_keys)
    return flat


# google-genai 3.4.0, types.ThinkingLevel (2026-11-20).
_LEVELS = ("minimal", "low", "medium", "high", "xhigh")
# https://ai.google.dev/gemini-api/docs/thinking (2026-11-20).
_MIN_BUDGET, _MAX_BUDGET = 128, 24576
_BUDGETS = {
    "none": 0,
    "minimal": 1024,
    "low": 1024,
    "medium": 8192,
    "high": _MAX_BUDGET,
    "xhigh": _MAX_BUDGET,
    "max": _MAX_BUDGET,
}


def _decode_level(value: Any) -> Understood | None:
    """Decode a level. Google's samples for curl, and ruby_llm, write it in lower case."""
    effort = value.lower() if type(value) is str else None
    return Understood({"effort": effort}, keep=not value.isupper()) if effort in _LEVELS else None


def _encode_level(request: Request, ledger: Ledger) -> Any:
    """Encode the effort, for models that accept a level."""
    levels = family_of(request.model).efforts
    has_level = spelling_of(request.opaque, GeminiRequestSpelling).has_thinking_level
    if levels == () and not has_level:
        return ABSENT
    off = request.effort is None and request.thinking == "disabled" and request.thinking_budget is None
    effort = "none" if off else request.effort
    if effort is None:
        return ABSENT
    level = effort if has_level else nearest_effort(effort, levels or _LEVELS)
    field = "thinking" if off else "effort"
    if level not in _LEVELS:
        ledger.lose(field, "effort", f"{DIALECT} has no effort {effort}")
        return ABSENT
    if level != effort:
        ledger.lose(
            field, "effort", f"{request.model} has no effort {effort}: {level} is sent", "approximated", "semantic"
        )
    return level.upper()


def _encode_budget(request: Request, ledger: Ledger) -> Any:
    """Encode the thinking budget, for models that accept a number of tokens."""
    family, budget = family_of(request.model), request.thinking_budget
    if family.efforts == () and not spelling_of(request.opaque, GeminiRequestSpelling).has_thinking_level:
        return _encode_all_as_budget(request, ledger)
    has_level = request.effort is not None or family.thinking_budget is False
    if budget is not None and has_level and not made_by(request.opaque, DIALECT):
        ledger.lose("thinking_budget", "thinking_budget", f"{request.model} accepts no number of tokens, only a level")
        return ABSENT
    if budget is None and request.thinking not in {None, "disabled"} and request.effort is None:
        ledger.lose("thinking", "thinking", f"{request.model} decides itself how much it thinks", "approximated")
    return ABSENT if budget is None else budget


def _encode_all_as_budget(request: Request, ledger: Ledger) -> Any:
    """Encode effort, budget and thinking as one budget, for models that accept no level."""
    effort, budget, thinking = request.effort, request.thinking_budget, request.thinking
    if effort is not None and (budget is not None or effort not in _BUDGETS):
        ledger.lose("effort", "effort", f"{request.model} accepts no effort, only a number of tokens", severity="minor")
    elif effort is not None:
        budget = _BUDGETS[effort]
        ledger.lose(
            "effort",
            "effort",
            f"{request.model} accepts no effort: a budget of {budget} tokens is sent",
            "approximated",
        )
    elif budget is None and thinking is not None:
        budget = 0 if thinking == "disabled" else -1
        if thinking != "disabled":
            ledger.lose("thinking", "thinking", f"{request.model} decides itself how much it thinks", "approximated")
    if budget is None:
        return ABSENT
    if 0 <= budget < _MIN_BUDGET and family_of(request.model).always_thinks and not made_by(request.opaque, DIALECT):
        ledger.lose(
            "thinking",
            "thinking",
            f"{request.model} always thinks: the least budget, {_MIN_BUDGET}, is sent",
            "approximated",
        )
        return _MIN_BUDGET
    return budget


def _decode_include_thoughts(value: Any) -> Understood | None:
    return Understood({"thinking_display": _DISPLAYS[value]}) if type(value) is bool else None


def _encode_include_thoughts(request: Request, ledger: Ledger) -> Any:
    display = request.thinking_display
    if display not in {*_DISPLAYS.values(), "auto"}:
        ledger.lose(
            "thinking_display",
            "thinking_display",
            f"{DIALECT} cannot return thoughts {display}: they are summarized",
            "approximated",
        )
    return display != _DISPLAYS[False]


_DISPLAYS = {True: "summarized", False: "omitted"}


def _decode_labels(value: Any) -> Understood | None:
    are_texts = type(value) is dict and all(type(label) is str for label in value.values())
    return Understood({"metadata": value}) if are_texts else None


def _encode_labels(request: Request, ledger: Ledger) -> Any:
    metadata = request.metadata or {}
    labels = {key: label for key, label in metadata.items() if type(label) is str}
    for key in metadata.keys() - labels.keys():
        ledger.lose(f"metadata.{key}", "metadata", f"{DIALECT} accepts only text as a label")
    return labels if labels or not metadata else ABSENT


# google-genai 3.4.0, types.ServiceTier (2026-11-20).
_TIERS = dict.fromkeys(("default", "standard_only"), "standard") | {
    tier: tier for tier in ("flex", "standard", "priority")
}


def _decode_model(value: Any) -> Understood | None:
    """Decode the model in a body. langchaingo sends it there as well as in the path."""
    return Understood({"model": value.removeprefix("models/")}, keep=True) if type(value) is str else None


def _encode_model(request: Request, _ledger: Ledger) -> Any:
    """Encode the model in the body only if the body was received with one."""
    raw = spelling_of(request.opaque, GeminiRequestSpelling).settings.get("model")
    if raw is None:
        return ABSENT
    return f"models/{request.model}" if raw.startswith("models/") else request.model


def _read_elsewhere(*_args: Any) -> Any:
    """Return None, because the setting is decoded together with another key or from the path."""
    return None


_OUTPUT = (
    Setting("responseMimeType", ("output",), _read_elsewhere, encode_media_type),
    Setting("responseJsonSchema", ("output",), _read_elsewhere, encode_schema),
)
_THINKING = Settings(
    Setting("includeThoughts", ("thinking_display",), _decode_include_thoughts, _encode_include_thoughts),
    Setting(
        "thinkingBudget",
        ("thinking_budget", "thinking", "effort"),
        plain("", "thinking_budget", int).decode,
        _encode_budget,
    ),
    Setting("thinkingLevel", ("effort", "thinking"), _decode_level, _encode_level),
)
# https://ai.google.dev/api/generate-content, GenerationConfig; a seed is an int32 (2026-11-20).
_SEEDS = range(-(2**31), 2**31)
CONFIG = Settings(
    within("temperature", "temperature", 0, 2),
    within("topP", "top_p", 0, 1),
    plain("topK", "top_k", *NUMBER),
    plain("candidateCount", "n", int),
    at_least("maxOutputTokens", "max_tokens", 1),
    texts("stopSequences", "stop", 5),
    checked(plain("seed", "seed", int), _SEEDS.__contains__, "accepts seeds of 32 bits"),
    within("presencePenalty", "presence_penalty", -2, 2),
    within("frequencyPenalty", "frequency_penalty", -2, 2),
    plain("responseLogprobs", "logprobs", bool),
    plain("logprobs", "top_logprobs", int),
)
_CONFIG_KEYS = (*CONFIG.by_key, *(setting.key for setting in _OUTPUT))
_CONFIG_KEY_SET = frozenset(_CONFIG_KEYS)
_NESTED_KEYS = _CONFIG_KEY_SET | _THINKING.by_key.keys()
_TOP = Settings(
    Setting("model", ("model",), _decode_model, _encode_model),
    Setting("toolConfig", ("tool_choice",), decode_choice, encode_choice),
    Setting("labels", ("metadata",), _decode_labels, _encode_labels),
    tier("serviceTier", _TIERS),
    plain("store", "store", bool),
)
_SETTINGS = Settings(
    *_TOP.by_key.values(),
    *CONFIG.by_key.values(),
    *_THINKING.by_key.values(),
    *_OUTPUT,
    Setting("stream", ("stream",), _read_elsewhere, lambda _request, _ledger: ABSENT),
)
SETTING_PATHS = {
    **_SETTINGS.paths(),
    **CONFIG.paths("generationConfig"),
    **_THINKING.paths("generationConfig.thinkingConfig"),
    "effort": "generationConfig.thinkingConfig.thinkingLevel",
    "output": "generationConfig.responseMimeType",
    "output.schema": "generationConfig.responseJsonSchema|generationConfig.responseSchema",
}
