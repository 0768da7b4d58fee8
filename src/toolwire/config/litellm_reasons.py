"""Why a setting of LiteLLM's proxy is not converted, and what to do instead.

Rules of this file:
- A reason contains no value of the file, except for numbers, times and names of models: a value may be a key.
- A limit belongs to a key of the gateway. The reason for a limit names the option of `toolwire keys create`.

Source: docs.litellm.ai/docs/proxy/config_settings, as of 2026-10-13.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

_NO_SETTING = "toolwire has no such setting"
_RETRIES = "is automatic: the gateway asks the next provider, or retries if the provider asks for a short wait"
_PAUSES = "is automatic: a provider that fails is paused, for a second up to a minute"
_TIMES = "the time limits are fixed: 10 s to connect, 600 s until an answer begins, 120 s between two pieces of it"
_CALLBACKS = "has no callbacks: /metrics, one line of log for each request, OpenTelemetry and [traces] instead"
_CACHES = "answers are not cached; prompt caches of the providers are used"
_SHARED = "not needed: several processes share the database"
_TAGS = "no provider is chosen by tags: make a route for each tag, and name it in the --models of a key"
_CLIENTS = "is the clients' own: they send it with their requests"
_RUNNING = "running requests have no limit; [server] connections limits the connected clients of a process"
_GUARDS = "requests and answers are not filtered"
_LOGIN = "clients need keys of toolwire: `toolwire keys create`"
_MODEL_NOTE = "only describes the model"
_STRATEGY = "routes share requests by weight, or ask providers in order"

# By the name of the setting, in whichever section it is.
_REASONS = {
    "master_key": "make keys by `toolwire keys create`",
    "database_url": 'the tables of LiteLLM are not read; set [server] database = "$NAME" and auth = "keys"',
    "store_model_in_db": "all settings are in the file",
    "model_group_alias": "must be a map of names",
    "fallbacks": "must be a list of maps",
    "context_window_fallbacks": "must be a list of maps",
    "default_fallbacks": "must be a list of routes",
    "content_policy_fallbacks": "a refusal is an answer: the gateway asks nobody else",
    "max_fallbacks": "all providers of a route are asked, in order",
    "drop_params": "is always on: the gateway counts dropped parameters in x-toolwire-losses",
    "routing_strategy": _STRATEGY,
    "routing_strategy_args": _STRATEGY,
    "enable_pre_call_checks": "is automatic: on_context of a route serves a request that is too long",
    "json_logs": "is always on",
    "forward_client_headers_to_llm_api": "a table of headers goes to a provider of the same wire, and no other",
    "max_request_size_mb": "is fixed: 64 MiB",
    "max_response_size_mb": "is fixed: 64 MiB",
    "include": "is not read: import each file by itself",
    "provider_budget_config": "a budget belongs to a key, and not to a provider",
    "completion_model": "a request must name its model; a route named * serves every unknown name",
    "budget_duration": "is the window of a budget; a budget belongs to a key",
    "base_model": "only describes the model; without a price in the file, add one to [prices]",
    "access_groups": "name the models of a key: `toolwire keys create --models`",
    "mock_response": "`toolwire serve --simulate` answers by a simulated model",
    "region_name": "a provider's region is in its base_url",
    "api_version": _NO_SETTING,
    "credential_list": "must be a list of credential_name and credential_values",
}
# By a part of the setting's name; the first one counts.
_PATTERNS = [
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"callback|alert|langfuse|prometheus|otel|spend_log|turn_off_message_logging", _CALLBACKS),
        (r"verbose|debug|_log$", "the log has one line for each request"),
        (r"redis", _SHARED),
        (r"cache", _CACHES),
        (r"retr(y|ies)", _RETRIES),
        (r"allowed_fails|cooldown", _PAUSES),
        (r"timeout", _TIMES),
        (r"max_parallel_requests|max_concurrent", _RUNNING),
        (r"tag", _TAGS),
        (r"guardrail|moderation|prompt_injection|banned|blocked_user", _GUARDS),
        (
            r"jwt|sso|oauth2|custom_auth|ui_access|allowed_routes|public_routes|admin_only|key_generat|_header_name",
            _LOGIN,
        ),
        (r"key_management|key_vault|_kms", "a key is in a variable or a file: key or key_file of [providers.NAME]"),
        (r"health_check", "/health and /ready ask no provider; a provider is paused when it fails"),
        (r"database|prisma|_db_", "[server] database is the only setting of the database"),
        (r"mcp|vector_store|search_tool|prompts?$|files?_settings|finetune|pass_through", _NO_SETTING),
        (r"^(supports_|max_.*tokens$|mode$|id$|db_model$|created|updated|description$|litellm_provider$)", _MODEL_NOTE),
        (r"cost_per|_cost$", "[prices] has input, output, cache_read and cache_write, in dollars per million tokens"),
    )
]
# Settings of a deployment that a client may send in its own request.
_OF_CLIENTS = frozenset(
    "temperature top_p top_k n stream stop max_tokens max_completion_tokens presence_penalty frequency_penalty"
    " logit_bias user response_format seed tools tool_choice logprobs reasoning_effort thinking extra_body"
    " parallel_tool_calls metadata modalities service_tier".split()
)
_LIMITS = {"rpm": "requests", "rpm_limit": "requests", "tpm": "tokens", "tpm_limit": "tokens", "max_budget": "budget"}
_DURATION = re.compile(r"(\d+)(s|m|h|d|mo)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "mo": 30 * 86_400}
_WINDOWS = {60: "min", 3600: "hour", 86_400: "day", 30 * 86_400: "month", 31 * 86_400: "month"}
_KEY_NAME = "NAME"


def reason_of_setting(section: str, name: str, table: Mapping[Any, Any]) -> str:
    """Return why the setting `name` of a section is not converted. `table` is the section."""
    if section == "environment_variables":
        return "set it in the environment of the gateway"
    value = table.get(name)
    if type(value) is dict and (options := _key_options(value)):
        return f"limits belong to a key: `toolwire keys create --name {_KEY_NAME} {options}`"
    return reason_of(name, table)


def reason_of_parameter(name: str, table: Mapping[Any, Any]) -> str:
    """Return why a parameter of a deployment is not converted. `table` has all of its parameters."""
    return _CLIENTS if name in _OF_CLIENTS else reason_of(name, table)


def reason_of(name: str, table: Mapping[Any, Any]) -> str:
    """Return why a setting of any section is not converted, by its name."""
    if name in _LIMITS and (options := _key_options({name: table[name], **_window_in(table)})):
        return f"a limit belongs to a key: `toolwire keys create --name {_KEY_NAME} {options}`"
    if name in _REASONS:
        return _REASONS[name]
    return next((reason for pattern, reason in _PATTERNS if pattern.search(name)), _NO_SETTING)


def reason_of_share(name: str, table: Mapping[Any, Any]) -> str:
    """Return the reason for a limit of a deployment that became its weight."""
    return f"became the weight of this provider in its route; {reason_of(name, table)}"


def _window_in(table: Mapping[Any, Any]) -> dict[str, Any]:
    return {"budget_duration": table["budget_duration"]} if "budget_duration" in table else {}


def _key_options(table: Mapping[Any, Any]) -> str:
    """Return the limits of a table as options of `toolwire keys create`, or an empty text if it has none."""
    options = [
        f"--{option} {_amount(table[name])}/{_window_of(table) if option == 'budget' else 'min'}"
        for name, option in _LIMITS.items()
        if _amount(table.get(name))
    ]
    duration = table.get("duration")
    if options and isinstance(duration, str) and re.fullmatch(r"\d+[smhd]", duration):
        options.append(f"--expires {duration}")
    models = table.get("models")
    if options and type(models) is list and all(isinstance(one, str) and one.isprintable() for one in models):
        options += [f"--models {shlex.quote(','.join(models))}"] if models else []
    return " ".join(options)


def _amount(value: Any) -> str:
    """Return a positive number as a limit has it, or an empty text."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
        return ""
    return f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _window_of(table: Mapping[Any, Any]) -> str:
    """Return the window of a budget, or `month`: LiteLLM's budget without a duration never starts again."""
    match = _DURATION.fullmatch(str(table.get("budget_duration", "")))
    return _WINDOWS.get(int(match[1]) * _SECONDS[match[2]], "month") if match is not None else "month"
