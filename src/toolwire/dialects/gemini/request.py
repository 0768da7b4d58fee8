"""Requests of generateContent: the model and streaming stand in the path, the settings in nested objects.

Rules of this file:
- A path that was read is written again for as long as it says the same model and the same way to answer.
- Each nested object of settings has a table of its own; one table of all of them writes.
"""

import re
from typing import Any
from urllib.parse import quote, unquote

from toolwire.dialects.gemini.messages import decode_messages, encode_content, encode_messages, encode_parts
from toolwire.dialects.gemini.parts import DIALECT, WIRE, Conversation, close, read_keys, take_system, write_keys
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
from toolwire.encoding.ledger import Ledger, form_of, left_of, made_by, open_body, take_entries
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.reasoning import nearest_effort
from toolwire.encoding.repair import BEGINNING, begin, is_begun, repair
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import (
    NUMBER,
    Setting,
    Settings,
    Understood,
    at_least,
    checked,
    plain,
    settle,
    texts,
    tier,
    within,
)
from toolwire.encoding.tools import functions_of, limited
from toolwire.types import Context, Encoded, Message, Request, Text

_VERSION = "/v1beta/"
BEGUN: dict[str, Any] = {"role": "user", "parts": [{"text": BEGINNING}]}
_COLLECTIONS = frozenset({"models", "tunedModels", "endpoints", "publishers", "projects"})
_STEPS_AWAY = frozenset({"", ".", ".."})
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.:@~-]*")
_VERBS = {False: "generateContent", True: "streamGenerateContent"}
_PATH = re.compile(
    r"(?P<root>(?:.*/)?)(?P<collection>[^/]+)/(?P<model>[^/?]+):(?P<verb>generateContent|streamGenerateContent)"
    r"(?P<query>(?:\?.*)?)"
)
_SSE = re.compile(r"\?alt=sse$|&alt=sse|(?<=\?)alt=sse&")


def _read_path(path: str) -> tuple[str, bool] | None:
    """Read the model and whether it streams; None where a path says neither."""
    said = _PATH.fullmatch(path)
    if said is None:
        return None
    model, collection = unquote(said["model"]), said["collection"]
    return model if collection == "models" else f"{collection}/{model}", said["verb"] == _VERBS[True]


def _write_path(path: str, model: str, *, stream: bool) -> str:
    """Write the path of a request: the one that was read, for as long as it says the same."""
    if path and _read_path(path) in {None, (model, stream)}:
        return path
    said = _PATH.fullmatch(path) if path else None
    root, query = (_VERSION, "") if said is None else (said["root"], _SSE.sub("", said["query"]))
    if stream and "alt=" not in query:
        query += "&alt=sse" if query else "?alt=sse"
    return f"{root}{_write_resource(model)}:{_VERBS[stream]}{query}"


def _write_resource(model: str) -> str:
    """Write the name of a model as a path that leads nowhere else; one with `..` in it is one step, not several."""
    if _PLAIN_NAME.fullmatch(model):
        return f"models/{model}"
    steps = model.split("/")
    odd = not _STEPS_AWAY.isdisjoint(steps)
    escaped = quote(model, safe="" if odd else "/:@", errors="replace")
    return escaped if steps[0] in _COLLECTIONS and len(steps) > 1 and not odd else f"models/{escaped}"


def decode_request(body: dict[str, Any], path: str = "") -> Request:
    """Read a request's body; the path says the model, and whether the answer is streamed."""
    rest, snakes = read_keys(open_body(body, "request")[0])
    form: dict[str, Any] = {"snake": snakes} if snakes else {}
    contents = rest.get("contents")
    if type(contents) is dict:
        contents, form["one"] = [contents], True
    if type(contents) is not list:
        form["no_contents"], contents = True, []
    elif rest.pop("contents") is contents and is_begun(contents, BEGUN):
        form["begun"], contents = True, contents[1:]
    system = take_system(rest, form) if "systemInstruction" in rest else None
    tools = decode_tools(take_entries(rest, "tools")) if "tools" in rest else []
    fields = _take_config(rest, form) if "generationConfig" in rest else {}
    if rest:
        _take(_TOP, rest, fields, form)
    if path:
        _take_path(path, fields, rest, form)
    opaque, context = WIRE.own(rest, form), Context(system, decode_messages(contents), tools)
    return Request(context=context, opaque=opaque, **fields)


def _take_path(path: str, fields: dict[str, Any], rest: dict[str, Any], form: dict[str, Any]) -> None:
    form["path"] = path
    if (said := _read_path(path)) is None:
        return
    model, stream = said
    if fields.get("model", model) != model:
        rest["model"] = form.pop("model")
    fields["model"] = model
    if stream:
        fields["stream"] = True


def encode_request(request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
    """Write a request's body, and report what it cannot hold."""
    ledger = Conversation(quirks, request.model, settings)
    opaque = request.opaque
    mine = opaque is not None and opaque.dialect == DIALECT
    form = form_of(opaque, DIALECT) if mine else {}
    request = limited(request, ledger, DECLARATION_LIMIT)
    context = request.context
    tools = encode_tools(context.tools, ledger) if context.tools else []
    flat: dict[str, Any] = {}
    request = settle(request, ledger, functions_of(context.tools))
    _SETTINGS.encode(request, ledger, flat)
    body = _nest_config(flat, request)
    if tools:
        encode_strictness(context.tools, body)
    messages = context.messages if mine else repair(context.messages, ledger.losses)
    first = _encode_system(request, messages, body, ledger)
    contents = encode_messages(messages, ledger, first)
    ledger.at = ()
    if "begun" in form or (not mine and (messages or context.system)):
        begin(contents, BEGUN, None if mine else ledger)
    if contents or "no_contents" not in form:
        body["contents"] = contents[0] if "one" in form and len(contents) == 1 else contents
    if tools:
        body["tools"] = tools
    if context.provider_state:
        ledger.lose_state(context.provider_state, f"{DIALECT} keeps no such state")
    if opaque is not None and opaque is not WIRE.plain and (mine or opaque.value):
        close(body, opaque, ledger)
    path = _write_path(form.get("path", ""), request.model or "", stream=bool(request.stream))
    return Encoded(path, body, tuple(ledger.losses))


def _encode_system(request: Request, messages: Any, body: dict[str, Any], ledger: Conversation) -> int:
    """Write the system instruction: the context's, and each system message before the conversation begins."""
    system, first = request.context.system, 0
    if system is None and (not messages or messages[0].role not in ("system", "developer")):
        return first
    mine = made_by(request.opaque, DIALECT)
    ledger.at, ledger.own = ("system",), mine
    parts = encode_parts([Text(system)] if type(system) is str else system or (), ledger, "system")
    for place, message in enumerate(messages):
        if message.role not in ("system", "developer"):
            break
        first = place + 1
        ledger.at = ("messages", place)
        _lose_around_system(message, ledger)
        parts += encode_content(message, ledger, "system")
    if not mine:
        if parts:
            body["systemInstruction"] = {"parts": parts}
        return first
    form = form_of(request.opaque, DIALECT)
    how = form.get("system") if len(parts) == 1 else None
    if how == "text" and len(parts[0]) == 1:
        body["systemInstruction"] = parts[0]["text"]
    elif parts:
        body["systemInstruction"] = {
            **left_of(request.opaque, DIALECT, "systemInstruction"),
            **({"role": form["system_role"]} if "system_role" in form else {}),
            "parts": parts[0] if how == "one" else parts,
        }
    return first


def _lose_around_system(message: Message, ledger: Conversation) -> None:
    if message.opaque is not None and message.opaque.value:
        ledger.lose_opaque(message.opaque)
    if message.name is not None or message.tool_call_id is not None:
        ledger.lose_fields(message, "name", "name", "tool_call_id")
    if message.role == "developer":
        ledger.lose("role", "developer", f"{DIALECT} has one system instruction", "merged", "minor")


def _take_config(rest: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    """Take what is understood of `generationConfig` out of what is left of a body."""
    given = rest["generationConfig"]
    if type(given) is not dict or not given:
        return {}
    config, snakes = read_keys(given)
    if snakes:
        form["config"] = snakes
    fields = take_output(config, form)
    inner = config.get("thinkingConfig")
    if type(inner) is dict and inner:
        thinking, snakes = read_keys(inner)
        if snakes:
            form["thinking"] = snakes
        _take(_THINKING, thinking, fields, form)
        if "effort" in fields:
            form["level"] = True
        _put(config, "thinkingConfig", thinking)
    _take(CONFIG, config, fields, form)
    if config.get("responseModalities") == ["TEXT"]:
        form["modalities"] = config.pop("responseModalities")
    _put(rest, "generationConfig", config)
    return fields


def _take(settings: Settings, rest: dict[str, Any], fields: dict[str, Any], form: dict[str, Any]) -> None:
    taken, spelled = settings.decode(rest)
    fields |= taken
    form |= spelled


def _put(outer: dict[str, Any], key: str, left: dict[str, Any]) -> None:
    if left:
        outer[key] = left
    else:
        del outer[key]


def _nest_config(flat: dict[str, Any], request: Request) -> dict[str, Any]:
    """Put the settings where they belong, with what this wire had left there, in its spelling."""
    opaque = request.opaque
    mine = opaque is not None and opaque.dialect == DIALECT and opaque is not WIRE.plain
    form, left = (form_of(opaque, DIALECT), left_of(opaque, DIALECT, "generationConfig")) if mine else ({}, {})
    inner = flat.keys() & _NESTED
    if not (inner or form or left):
        return flat
    thinking = {} if inner <= _CONFIGURED else {key: flat.pop(key) for key in _THINKING.by_key if key in inner}
    config = left | {key: flat.pop(key) for key in _CONFIG_KEYS if key in inner}
    if "responseSchema" in form and "responseJsonSchema" in config:
        config["responseSchema"] = config.pop("responseJsonSchema")
    beside = left.get("thinkingConfig") or {}
    if isinstance(beside, dict) and (thinking or beside):
        config["thinkingConfig"] = write_keys({**beside, **thinking}, form.get("thinking", ()))
    if "modalities" in form:
        config.setdefault("responseModalities", form["modalities"])
    if config:
        flat["generationConfig"] = write_keys(config, form.get("config", ()))
    return flat


# google-genai 3.4.0, types.ThinkingLevel (2026-11-20).
_LEVELS = ("minimal", "low", "medium", "high", "xhigh")
# https://ai.google.dev/gemini-api/docs/thinking (2026-11-20).
_LEAST, _MOST = 128, 24576
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": _MOST, "xhigh": _MOST, "max": _MOST}


def _decode_level(value: Any) -> Understood | None:
    effort = value.lower() if type(value) is str else None
    return Understood({"effort": effort}, keep=not value.isupper()) if effort in _LEVELS else None


def _encode_level(request: Request, ledger: Ledger) -> Any:
    """Write how hard to think, for models that take a level."""
    levels = family_of(request.model).efforts
    said = "level" in form_of(request.opaque, DIALECT)
    if levels == () and not said:
        return ABSENT
    off = request.effort is None and request.thinking == "disabled" and request.thinking_budget is None
    effort = "none" if off else request.effort
    if effort is None:
        return ABSENT
    level = effort if said else nearest_effort(effort, levels or _LEVELS)
    field = "thinking" if off else "effort"
    if level not in _LEVELS:
        ledger.lose(field, "effort", f"{DIALECT} has no effort {effort}")
        return ABSENT
    if level != effort:
        ledger.lose(field, "effort", f"this model takes {level} instead of {effort}", "approximated", "semantic")
    return level.upper()


def _encode_budget(request: Request, ledger: Ledger) -> Any:
    """Write how much to think, for models that take a number."""
    family, budget = family_of(request.model), request.thinking_budget
    if family.efforts == () and "level" not in form_of(request.opaque, DIALECT):
        return _say_all_in_budget(request, ledger)
    levelled = request.effort is not None or family.thinking_budget is False
    if budget is not None and levelled and not made_by(request.opaque, DIALECT):
        ledger.lose("thinking_budget", "thinking_budget", "this model takes a level instead of a number")
        return ABSENT
    if budget is None and request.thinking not in {None, "disabled"} and request.effort is None:
        ledger.lose("thinking", "thinking", "this model thinks as much as it needs", "approximated")
    return ABSENT if budget is None else budget


def _say_all_in_budget(request: Request, ledger: Ledger) -> Any:
    effort, budget, thinking = request.effort, request.thinking_budget, request.thinking
    if effort is not None and (budget is not None or effort not in _BUDGETS):
        ledger.lose("effort", "effort", "this model takes a number of tokens instead", severity="minor")
    elif effort is not None:
        budget = _BUDGETS[effort]
        ledger.lose("effort", "effort", f"said as a budget of {budget} tokens", "approximated")
    elif budget is None and thinking is not None:
        budget = 0 if thinking == "disabled" else -1
        if thinking != "disabled":
            ledger.lose("thinking", "thinking", "the model finds its own budget", "approximated")
    if budget is None:
        return ABSENT
    if 0 <= budget < _LEAST and family_of(request.model).always_thinks and not made_by(request.opaque, DIALECT):
        ledger.lose("thinking", "thinking", f"this model thinks with {_LEAST} tokens or more", "approximated")
        return _LEAST
    return budget


def _decode_shown(value: Any) -> Understood | None:
    return Understood({"thinking_display": _SHOWN[value]}) if type(value) is bool else None


def _encode_shown(request: Request, ledger: Ledger) -> Any:
    display = request.thinking_display
    if display not in {*_SHOWN.values(), "auto"}:
        ledger.lose("thinking_display", "thinking_display", f"thoughts are shown, not {display}", "approximated")
    return display != _SHOWN[False]


_SHOWN = {True: "summarized", False: "omitted"}


def _decode_labels(value: Any) -> Understood | None:
    texts = type(value) is dict and all(type(label) is str for label in value.values())
    return Understood({"metadata": value}) if texts else None


def _encode_labels(request: Request, ledger: Ledger) -> Any:
    given = request.metadata or {}
    labels = {key: label for key, label in given.items() if type(label) is str}
    for key in given.keys() - labels.keys():
        ledger.lose(f"metadata.{key}", "metadata", "a label is a text")
    return labels if labels or not given else ABSENT


# google-genai 3.4.0, types.ServiceTier (2026-11-20).
_TIERS = dict.fromkeys(("default", "standard_only"), "standard") | {
    tier: tier for tier in ("flex", "standard", "priority")
}


def _decode_model(value: Any) -> Understood | None:
    return Understood({"model": value.removeprefix("models/")}, keep=True) if type(value) is str else None


def _encode_model(request: Request, _ledger: Ledger) -> Any:
    """Write the model only where a body said it beside the path."""
    spelled = form_of(request.opaque, DIALECT).get("model")
    if spelled is None:
        return ABSENT
    return f"models/{request.model}" if spelled.startswith("models/") else request.model


def _elsewhere(*_given: Any) -> Any:
    """Read nothing here: what belongs together is taken together, and what is in the path is read there."""
    return None


_OUTPUT = (
    Setting("responseMimeType", ("output",), _elsewhere, encode_media_type),
    Setting("responseJsonSchema", ("output",), _elsewhere, encode_schema),
)
_THINKING = Settings(
    Setting("includeThoughts", ("thinking_display",), _decode_shown, _encode_shown),
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
    checked(plain("seed", "seed", int), _SEEDS.__contains__, "takes seeds of 32 bits"),
    within("presencePenalty", "presence_penalty", -2, 2),
    within("frequencyPenalty", "frequency_penalty", -2, 2),
    plain("responseLogprobs", "logprobs", bool),
    plain("logprobs", "top_logprobs", int),
)
_CONFIG_KEYS = (*CONFIG.by_key, *(setting.key for setting in _OUTPUT))
_CONFIGURED = frozenset(_CONFIG_KEYS)
_NESTED = _CONFIGURED | _THINKING.by_key.keys()
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
    Setting("stream", ("stream",), _elsewhere, lambda _request, _ledger: ABSENT),
)
SETTING_PATHS = {
    **_SETTINGS.paths(),
    **CONFIG.paths("generationConfig"),
    **_THINKING.paths("generationConfig.thinkingConfig"),
    "effort": "generationConfig.thinkingConfig.thinkingLevel",
    "output": "generationConfig.responseMimeType",
    "output.schema": "generationConfig.responseJsonSchema|generationConfig.responseSchema",
}
