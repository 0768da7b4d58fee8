"""`toolwire config`: settings shown and checked, and LiteLLM's taken over with a list of what was not."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli import main
from toolwire.config import GatewaySettings, read_settings
from toolwire.gateway.routes import Routes, providers_of
from toolwire.providers import PROVIDERS


def deployment(name: str, model: str, **params: Any) -> dict[str, Any]:
    """Write one entry of LiteLLM's list."""
    return {"model_name": name, "litellm_params": {"model": model, **params}}


def env(name: str) -> str:
    """Write a variable as LiteLLM does."""
    return f"os.environ/{name}"


def variables_of(settings: GatewaySettings) -> dict[str, str]:
    """Set each variable that the providers name."""
    providers = settings.providers.values()
    addresses = {one.base_url.removeprefix("$"): "https://host" for one in providers if one.base_url.startswith("$")}
    return addresses | {one.key.removeprefix("$"): "k" for one in providers if one.key}


LIMIT = "a limit belongs to a key: `toolwire keys create --name NAME"
LIMITS = LIMIT.replace("a limit belongs", "limits belong")

# What is written there; what comes of it; what is listed.
EXAMPLES: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    (
        "one model",
        {"model_list": [deployment("sonnet", "anthropic/claude-sonnet-4-5", api_key=env("ANTHROPIC_API_KEY"))]},
        {"routes": {"sonnet": {"to": ["anthropic/claude-sonnet-4-5"]}}},
        [],
    ),
    (
        "a model of OpenAI without its provider",
        {"model_list": [deployment("small", "gpt-4.1-mini", api_key=env("OPENAI_API_KEY"))]},
        {"routes": {"small": {"to": ["openai/gpt-4.1-mini"]}}},
        [],
    ),
    (
        "two deployments share a name",
        {
            "model_list": [
                deployment("llama", "groq/llama-3.3-70b", weight=2),
                deployment("llama", "together_ai/meta-llama/Llama-3.3-70B", weight=1),
            ]
        },
        {
            "routes": {
                "llama": {
                    "to": [
                        {"model": "groq/llama-3.3-70b", "weight": 2},
                        {"model": "together/meta-llama/Llama-3.3-70B", "weight": 1},
                    ]
                }
            }
        },
        [],
    ),
    (
        "a server of one's own",
        {"model_list": [deployment("local", "hosted_vllm/qwen3", api_base="http://gpu:8000/v1", api_key=env("GPU"))]},
        {
            "providers": {"vllm-1": {"key": "$GPU", "like": "vllm", "base_url": "http://gpu:8000/v1"}},
            "routes": {"local": {"to": ["vllm-1/qwen3"]}},
        },
        [],
    ),
    (
        "fallbacks, also for what is too long",
        {
            "model_list": [
                deployment("a", "openai/gpt-4.1"),
                deployment("b", "anthropic/claude-sonnet-4-5"),
                deployment("c", "gemini/gemini-2.5-pro"),
            ],
            "litellm_settings": {"fallbacks": [{"a": ["b"]}], "context_window_fallbacks": [{"a": ["c"]}]},
        },
        {
            "routes": {
                "a": {"to": ["openai/gpt-4.1", "anthropic/claude-sonnet-4-5"], "on_context": "c"},
                "b": {"to": ["anthropic/claude-sonnet-4-5"]},
                "c": {"to": ["gemini/gemini-2.5-pro"]},
            }
        },
        [],
    ),
    (
        "prices",
        {"model_list": [deployment("m", "ollama_chat/q", input_cost_per_token=1e-06, output_cost_per_token=0.000004)]},
        {"routes": {"m": {"to": ["ollama/q"]}}, "prices": {"ollama/q": {"input": 1.0, "output": 4.0}}},
        [],
    ),
    (
        "a key in the file, and limits of a deployment",
        {"model_list": [deployment("m", "openai/gpt-4.1", api_key="sk-sentinel", rpm=60, temperature=0.2)]},
        {"routes": {"m": {"to": ["openai/gpt-4.1"]}}},
        ["litellm_params.api_key", "litellm_params.rpm", "litellm_params.temperature"],
    ),
    (
        "a provider that is not here",
        {"model_list": [deployment("b", "bedrock/anthropic.claude")]},
        {},
        ["model_list[0]: 'bedrock/anthropic.claude': Amazon Bedrock is not supported"],
    ),
    (
        "Vertex, SageMaker, and a provider that nobody knows",
        {
            "model_list": [
                deployment("v", "vertex_ai/gemini-3.5-flash"),
                deployment("w", "vertex_ai_beta/claude"),
                deployment("s", "sagemaker/m"),
                deployment("n", "nobody/m"),
            ]
        },
        {},
        [
            "model_list[0]: 'vertex_ai/gemini-3.5-flash': Google Vertex AI is not supported",
            "model_list[1]: 'vertex_ai_beta/claude': Google Vertex AI is not supported",
            "model_list[2]: 'sagemaker/m': Amazon SageMaker is not supported",
            "model_list[3]: 'nobody/m': the provider 'nobody' is unknown",
        ],
    ),
    (
        "a deployment of Azure",
        {
            "model_list": [
                deployment(
                    "gpt-4o",
                    "azure/gpt-4o-eu",
                    api_base="https://my.openai.azure.com/",
                    api_key=env("AZURE_API_KEY"),
                    api_version="2025-01-01-preview",
                )
            ]
        },
        {
            "providers": {
                "azure-1": {
                    "key": "$AZURE_API_KEY",
                    "like": "azure",
                    "base_url": "https://my.openai.azure.com/openai/v1",
                }
            },
            "routes": {"gpt-4o": {"to": ["azure-1/gpt-4o-eu"]}},
        },
        ["model_list[0].litellm_params.api_version: not needed: Azure's v1 API has no version"],
    ),
    (
        "two resources of Azure, and an address in a variable",
        {
            "model_list": [
                deployment("m", "azure/one", api_base="https://one.openai.azure.com"),
                deployment("m", "azure/two", api_base="https://two.openai.azure.com", api_key=env("TWO")),
                deployment("n", "azure/three", api_base=env("AZURE_API_BASE"), api_key=env("AZURE_OPENAI_API_KEY")),
                deployment("o", "azure/four", api_key=env("AZURE_OPENAI_API_KEY")),
                deployment("p", "azure/five", api_base=env("ANOTHER")),
                deployment("q", "azure/six", api_base="https://two.openai.azure.com/openai/deployments/six"),
                deployment("r", "azure/o_series/seven", api_base="https://one.openai.azure.com/openai"),
                deployment("s", "azure/eight", api_base="https://apim.example.com/llm"),
            ]
        },
        {
            "providers": {
                "azure-3": {"like": "azure", "base_url": "$AZURE_API_BASE"},
                "azure-4": {"like": "azure", "base_url": "$ANOTHER", "key": "$AZURE_API_KEY"},
                "azure-5": {
                    "like": "azure",
                    "base_url": "https://two.openai.azure.com/openai/v1",
                    "key": "$AZURE_API_KEY",
                },
                "azure-1": {
                    "key": "$AZURE_API_KEY",
                    "like": "azure",
                    "base_url": "https://one.openai.azure.com/openai/v1",
                },
                "azure-2": {
                    "like": "azure",
                    "base_url": "https://two.openai.azure.com/openai/v1",
                    "key": "$TWO",
                },
            },
            "routes": {
                "m": {"to": [{"model": "azure-1/one", "weight": 1}, {"model": "azure-2/two", "weight": 1}]},
                "n": {"to": ["azure-3/three"]},
                "o": {"to": ["azure-3/four"]},
                "p": {"to": ["azure-4/five"]},
                "q": {"to": ["azure-5/six"]},
                "r": {"to": ["azure-1/seven"]},
            },
        },
        [
            "model_list[7].litellm_params.api_base: is no resource of Azure",
        ],
    ),
    (
        "a proxy with a master key, a database, a cache and callbacks",
        {
            "model_list": [deployment("m", "mistral/mistral-large")],
            "general_settings": {"master_key": env("MASTER"), "database_url": env("DATABASE_URL")},
            "litellm_settings": {"drop_params": True, "cache": True, "callbacks": ["prometheus"]},
            "router_settings": {"routing_strategy": "simple-shuffle", "redis_host": "redis"},
            "environment_variables": {"X": "y"},
        },
        {"routes": {"m": {"to": ["mistral/mistral-large"]}}},
        [
            "general_settings.master_key: make keys by `toolwire keys create`",
            "general_settings.database_url",
            "litellm_settings.drop_params",
            "litellm_settings.cache",
            "litellm_settings.callbacks",
            "router_settings.routing_strategy",
            "router_settings.redis_host",
            "environment_variables.X",
        ],
    ),
    (
        "two keys of one provider, in order",
        {
            "model_list": [
                deployment("m", "openai/gpt-4.1", api_key=env("FIRST"), order=1),
                deployment("m", "openai/gpt-4.1", api_key=env("SECOND"), order=2),
            ]
        },
        {
            "providers": {
                "openai": {"key": "$FIRST"},
                "openai-2": {"like": "openai", "key": "$SECOND"},
            },
            "routes": {"m": {"to": ["openai/gpt-4.1", "openai-2/gpt-4.1"]}},
        },
        [],
    ),
    (
        "weights, orders, prices, keys and addresses that are none",
        {
            "model_list": [
                deployment(
                    "m", "ollama/q", weight=-1, order="first", input_cost_per_token=-1, output_cost_per_token=-1
                ),
                deployment("m", "ollama/r", weight="2", order=1),
                deployment("n", "openai/q", api_base="https://me:secret@h/v1"),
                deployment("n", "openai/q", api_base="gpu:8000"),
                deployment("n", "openai/q", api_key="os.environ/"),
            ]
        },
        {"routes": {"m": {"to": ["ollama/q", "ollama/r"]}, "n": {"to": ["openai/q"]}}},
        [
            "model_list[0].litellm_params.input_cost_per_token: a price",
            "model_list[0].litellm_params.output_cost_per_token: a price",
            "model_list[0].litellm_params.weight: must be a number of 0 or more",
            "model_list[0].litellm_params.order: must be a number of 0 or more",
            "model_list[2].litellm_params.api_base: must be an address",
            "model_list[3].litellm_params.api_base: must be an address",
            "model_list[4].litellm_params.api_key: the key is in the file",
        ],
    ),
    (
        "notes of a model, and half of a price",
        {
            "model_list": [
                {
                    **deployment("m", "openai/m", api_version="", timeout=None),
                    "model_info": {"id": "1", "mode": "chat", "input_cost_per_token": 1e-06},
                    "access_groups": ["all"],
                }
            ]
        },
        {"routes": {"m": {"to": ["openai/m"]}}},
        [
            "model_list[0].access_groups: name the models of a key",
            "model_list[0].model_info.id: only describes",
            "model_list[0].model_info.mode: only describes",
            "model_list[0].model_info.input_cost_per_token: a price",
        ],
    ),
    (
        "fallbacks of which some are not here, one to itself, and one with a key",
        {
            "model_list": [deployment("a", "openai/m"), deployment("b", "ollama/q"), deployment("c", "gemini/g")],
            "router_settings": {
                "fallbacks": [{"a": ["b", "away", "a", {"model": "b", "api_key": "sk-sentinel"}]}],
                "context_window_fallbacks": [{"a": ["c", "b"]}],
                "model_group_alias": {"d": "a", "e": {"model": "b", "hidden": True}, "f": "away", "g": 5, "b": "a"},
            },
        },
        {
            "routes": {
                "a": {"to": ["openai/m", "ollama/q"], "on_context": "c"},
                "b": {"to": ["ollama/q"]},
                "c": {"to": ["gemini/g"]},
                "d": {"to": ["openai/m", "ollama/q"], "on_context": "c"},
                "e": {"to": ["ollama/q"]},
            }
        },
        [
            "router_settings.fallbacks: 'a' to 'away'",
            "router_settings.fallbacks: 'a' to 'a'",
            "router_settings.fallbacks: 'a' to something",
            "router_settings.context_window_fallbacks: 'a' to 'b'",
            "router_settings.model_group_alias.e.hidden: every route is in the list",
            "router_settings.model_group_alias.f: names no route",
            "router_settings.model_group_alias.g: names no route",
            "router_settings.model_group_alias.b: a route has this name",
        ],
    ),
    (
        "a fallback in its own order, and two that share after two that share",
        {
            "model_list": [
                deployment("a", "openai/m"),
                deployment("b", "ollama/first", order=1),
                deployment("b", "ollama/second", order=2),
                deployment("c", "openai/x", weight=3),
                deployment("c", "openai/y"),
                deployment("d", "gemini/x", weight=1),
                deployment("d", "gemini/y", weight=2),
            ],
            "router_settings": {"fallbacks": [{"a": ["b"]}, {"c": ["d"]}]},
        },
        {
            "routes": {
                "a": {"to": ["openai/m", "ollama/first", "ollama/second"]},
                "b": {"to": ["ollama/first", "ollama/second"]},
                "c": {
                    "to": [
                        {"model": "openai/x", "weight": 3},
                        {"model": "openai/y", "weight": 1},
                        "gemini/x",
                        "gemini/y",
                    ]
                },
                "d": {"to": [{"model": "gemini/x", "weight": 1}, {"model": "gemini/y", "weight": 2}]},
            }
        },
        ["routes.c: gemini/x, gemini/y: are asked in order"],
    ),
    (
        "models of other wires of OpenAI",
        {
            "model_list": [
                deployment("r", "openai/responses/gpt-5", api_key=env("OPENAI_API_KEY")),
                deployment("t", "text-completion-openai/davinci"),
            ]
        },
        {"routes": {"r": {"to": ["openai-responses/gpt-5"]}}},
        ["model_list[1]: 'text-completion-openai/davinci': the provider 'text-completion-openai' is unknown"],
    ),
    ("nothing", {}, {}, []),
    ("no list", {"model_list": 5}, {}, ["model_list"]),
    ("a map", {"model_list": {"model_name": "a"}}, {}, ["model_list"]),
    (
        "odd notes",
        {"model_list": [{"model_name": "m", "litellm_params": {"model": "openai/m"}, "model_info": 5}]},
        {"routes": {"m": {"to": ["openai/m"]}}},
        ["model_list[0].model_info: must be a map"],
    ),
    (
        "names with a star",
        {
            "model_list": [
                deployment("openai/*", "openai/*", api_key=env("OPENAI_API_KEY")),
                deployment("anthropic/*", "anthropic/*", api_key=env("TEAM")),
                deployment("eu/*", "openai/*", api_base="https://eu.example/v1", api_key=env("OPENAI_API_KEY")),
                deployment("one/*", "gemini/g"),
                deployment("*", "groq/*"),
                deployment("plain", "openai/*"),
                deployment("a*b*", "openai/*"),
                deployment("any/*", "*"),
            ],
            "router_settings": {"fallbacks": [{"eu/*": ["openai/*"]}, {"one/*": ["eu/*"]}, {"away/*": ["one/*"]}]},
        },
        {
            "providers": {
                "anthropic": {"key": "$TEAM"},
                "openai-2": {"dialect": "openai-chat", "base_url": "https://eu.example/v1", "key": "$OPENAI_API_KEY"},
            },
            "routes": {
                "eu/*": {"to": ["openai-2/*", "openai/*"]},
                "one/*": {"to": ["gemini/g", "openai-2/*", "openai/*"]},
                "*": {"to": ["groq/*"]},
            },
        },
        [
            "model_list[5]: 'openai/*' is no single model, and 'plain' has no *",
            "model_list[6]: 'a*b*': a name may have one * only",
            "model_list[7]: '*' names no provider",
            "router_settings.fallbacks: 'away/*' to 'one/*' names no other route",
        ],
    ),
    (
        "requests that are shared by rpm, by tpm, by weights, and by a strategy that is not here",
        {
            "model_list": [
                deployment("a", "openai/x", rpm=60, tpm=5),
                deployment("a", "groq/x", rpm=120),
                deployment("b", "openai/x", tpm=1000.0),
                deployment("b", "groq/x", tpm="3000"),
                deployment("c", "openai/x", rpm=60, weight=1),
                deployment("c", "groq/x", rpm=120, weight=0),
                deployment("d", "openai/x", rpm=60),
                deployment("d", "groq/x"),
            ],
            "router_settings": {"routing_strategy": "simple-shuffle"},
        },
        {
            "routes": {
                "a": {"to": [{"model": "openai/x", "weight": 60}, {"model": "groq/x", "weight": 120}]},
                "b": {"to": [{"model": "openai/x", "weight": 1000}, {"model": "groq/x", "weight": 3000}]},
                "c": {"to": ["openai/x", "groq/x"]},
                "d": {"to": [{"model": "openai/x", "weight": 1}, {"model": "groq/x", "weight": 1}]},
            }
        },
        [
            f"[0].litellm_params.rpm: became the weight of this provider in its route; {LIMIT} --requests 60/min`",
            f"model_list[0].litellm_params.tpm: {LIMIT} --tokens 5/min`",
            "model_list[1].litellm_params.rpm: became the weight",
            f"[2].litellm_params.tpm: became the weight of this provider in its route; {LIMIT} --tokens 1000/min`",
            "model_list[3].litellm_params.tpm: became the weight",
            "model_list[4].litellm_params.rpm: a limit belongs",
            "model_list[5].litellm_params.rpm: a limit belongs",
            "model_list[6].litellm_params.rpm: a limit belongs",
            "router_settings.routing_strategy: routes share requests by weight",
        ],
    ),
    (
        "rpm under another strategy is no weight",
        {
            "model_list": [deployment("a", "openai/x", rpm=60), deployment("a", "groq/x", rpm=120)],
            "router_settings": {"routing_strategy": "latency-based-routing"},
        },
        {"routes": {"a": {"to": [{"model": "openai/x", "weight": 1}, {"model": "groq/x", "weight": 1}]}}},
        ["[0].litellm_params.rpm: a limit", "[1].litellm_params.rpm: a limit", "router_settings.routing_strategy"],
    ),
    (
        "budgets, tags and limits of keys",
        {
            "model_list": [
                deployment("m", "openai/m", tags=["free"], max_budget=10, budget_duration="1d", max_parallel_requests=5)
            ],
            "router_settings": {
                "enable_tag_filtering": True,
                "provider_budget_config": {"openai": {"budget_limit": 1, "time_period": "1d"}},
            },
            "litellm_settings": {
                "max_budget": 100.5,
                "budget_duration": "30d",
                "default_key_generate_params": {
                    "max_budget": 5,
                    "rpm_limit": 9,
                    "duration": "7d",
                    "models": ["m", "n"],
                },
                "upperbound_key_generate_params": {"tpm_limit": 1000},
                "default_internal_user_params": {"user_role": "x"},
            },
        },
        {"routes": {"m": {"to": ["openai/m"]}}},
        [
            "[0].litellm_params.tags: no provider is chosen by tags",
            f"[0].litellm_params.max_budget: {LIMIT} --budget 10/day`",
            "[0].litellm_params.budget_duration: is the window",
            "[0].litellm_params.max_parallel_requests: running requests have no limit",
            "router_settings.enable_tag_filtering: no provider is chosen by tags",
            "router_settings.provider_budget_config: a budget belongs to a key",
            f"litellm_settings.max_budget: {LIMIT} --budget 100.5/month`",
            "litellm_settings.budget_duration: is the window",
            f"default_key_generate_params: {LIMITS} --requests 9/min --budget 5/month --expires 7d --models m,n`",
            f"litellm_settings.upperbound_key_generate_params: {LIMITS} --tokens 1000/min`",
            "litellm_settings.default_internal_user_params: toolwire has no such setting",
        ],
    ),
    (
        "credentials, headers, an organization, and a bare name",
        {
            "credential_list": [
                {"credential_name": "eu", "credential_values": {"api_key": env("EU"), "api_base": "https://eu/v1"}},
                {"credential_name": "odd"},
                "odder",
            ],
            "model_list": [
                deployment("a", "openai/x", litellm_credential_name="eu"),
                deployment("b", "claude-sonnet-4-5", litellm_credential_name="away"),
                deployment("c", "mystery"),
                deployment(
                    "d", "x", custom_llm_provider="groq", extra_headers={"X-Team": "b", "X-Api-Key": "sk-sentinel"}
                ),
                deployment("e", "openai/x", organization="org-1", headers={"X-Note": env("NOTE"), "a b": "c", "n": 5}),
                deployment("f", "openai/x", extra_headers="no map"),
            ],
        },
        {
            "providers": {
                "openai-1": {"dialect": "openai-chat", "base_url": "https://eu/v1", "key": "$EU"},
                "groq": {"headers": {"X-Team": "b"}},
                "openai": {"headers": {"OpenAI-Organization": "org-1"}},
                "openai-3": {"like": "openai"},
            },
            "routes": {
                "a": {"to": ["openai-1/x"]},
                "b": {"to": ["anthropic/claude-sonnet-4-5"]},
                "d": {"to": ["groq/x"]},
                "e": {"to": ["openai/x"]},
                "f": {"to": ["openai-3/x"]},
            },
        },
        [
            "credential_list[1]: must have",
            "credential_list[2]: must have",
            "model_list[1].litellm_params.litellm_credential_name: is no credential",
            "model_list[2]: 'mystery'",
            "model_list[3].litellm_params.extra_headers.X-Api-Key: may be a secret",
            "model_list[4].litellm_params.headers.X-Note: a header cannot be in a variable",
            "model_list[4].litellm_params.headers.a b: is not a header",
            "model_list[4].litellm_params.headers.n: must be a text",
            "model_list[5].litellm_params.extra_headers: must be a map",
        ],
    ),
    (
        "one provider with its usual key and with another one, whichever comes first",
        {
            "model_list": [
                deployment("a", "groq/x", api_key=env("SECOND")),
                deployment("b", "groq/x"),
                deployment("c", "groq/x", api_key=env("GROQ_API_KEY")),
                deployment("d", "openai/x", api_key=env("OPENAI_API_KEY")),
                deployment("e", "openai/x", api_key=env("SECOND")),
                deployment("f", "openai/x", api_base=env("PLACE")),
                deployment("g", "openai/x", api_base="https://h/v1", api_key=env("OPENAI_API_KEY")),
            ]
        },
        {
            "providers": {
                "groq": {"key": "$SECOND"},
                "groq-2": {"like": "groq"},
                "openai-2": {"like": "openai", "key": "$SECOND"},
                "openai-3": {"dialect": "openai-chat", "base_url": "$PLACE"},
                "openai-4": {"dialect": "openai-chat", "base_url": "https://h/v1", "key": "$OPENAI_API_KEY"},
            },
            "routes": {
                "a": {"to": ["groq/x"]},
                "b": {"to": ["groq-2/x"]},
                "c": {"to": ["groq-2/x"]},
                "d": {"to": ["openai/x"]},
                "e": {"to": ["openai-2/x"]},
                "f": {"to": ["openai-3/x"]},
                "g": {"to": ["openai-4/x"]},
            },
        },
        ['model_list[5].litellm_params.api_key: is missing; add key = "$OPENAI_API_KEY" if the server needs it'],
    ),
    (
        "fallbacks of fallbacks, default ones, and those of two sections",
        {
            "model_list": [
                deployment("a", "openai/a"),
                deployment("b", "openai/b"),
                deployment("openai/c", "openai/c"),
                deployment("d", "openai/d", weight=2),
                deployment("e", "openai/e"),
            ],
            "router_settings": {
                "fallbacks": [{"a": ["b", "d"]}, {"b": ["openai/c", "a"]}, "odd", {"*": ["e"]}],
                "default_fallbacks": ["away", 5],
                "context_window_fallbacks": [{"e": ["openai/c"]}],
            },
            "litellm_settings": {"fallbacks": [{"d": ["a"]}], "context_window_fallbacks": {"a": "b"}},
        },
        {
            "routes": {
                "a": {"to": ["openai/a", "openai/b", "openai/c", "openai/e", "openai/d"]},
                "b": {"to": ["openai/b", "openai/c", "openai/e", "openai/a", "openai/d"]},
                "openai/c": {"to": ["openai/c", "openai/e"]},
                "d": {"to": ["openai/d", "openai/e"]},
                "e": {"to": ["openai/e"], "on_context": "openai/c"},
            }
        },
        [
            "router_settings.fallbacks[2]: must be a map",
            "litellm_settings.fallbacks: that of router_settings is used",
            "litellm_settings.context_window_fallbacks: that of router_settings is used",
            "router_settings.default_fallbacks: 'away' names no route",
            "router_settings.default_fallbacks: something names no route",
            "litellm_settings.context_window_fallbacks: must be a list",
        ],
    ),
    (
        "names that only a route with a star serves",
        {
            "model_list": [deployment("*", "openai/*"), deployment("us/*", "groq/*"), deployment("a", "ollama/q")],
            "router_settings": {
                "context_window_fallbacks": [{"gpt-5-mini": ["us/large"]}],
                "fallbacks": [{"a": ["us/small"]}, {"us/..": ["a"]}],
                "model_group_alias": {"b": "gpt-6"},
            },
        },
        {
            "routes": {
                "*": {"to": ["openai/*"]},
                "us/*": {"to": ["groq/*"]},
                "a": {"to": ["ollama/q", "groq/small"]},
                "us/small": {"to": ["groq/small"]},
                "gpt-5-mini": {"to": ["openai/gpt-5-mini"], "on_context": "us/large"},
                "us/large": {"to": ["groq/large"]},
                "gpt-6": {"to": ["openai/gpt-6"]},
                "b": {"to": ["openai/gpt-6"]},
            }
        },
        ["router_settings.fallbacks: 'us/..' to 'a' names no other route"],
    ),
    (
        "one model in several deployments",
        {
            "model_list": [
                deployment("a", "openai/x"),
                deployment("a", "openai/x"),
                deployment("a", "groq/x"),
                deployment("b", "openai/x"),
                deployment("b", "openai/y", order=1),
            ],
            "router_settings": {"fallbacks": [{"a": ["b"]}]},
        },
        {
            "routes": {
                "a": {"to": [{"model": "openai/x", "weight": 2}, {"model": "groq/x", "weight": 1}, "openai/y"]},
                "b": {"to": ["openai/x", "openai/y"]},
            }
        },
        [],
    ),
    (
        "two prices of one model, and a route that is only named by another",
        {
            "model_list": [
                deployment("openai/x", "openai/x", input_cost_per_token=1e-6, output_cost_per_token=2e-6),
                deployment("y", "openai/x", input_cost_per_token=1e-6, output_cost_per_token=3e-6),
            ],
            "litellm_settings": {"context_window_fallbacks": [{"y": ["openai/x"]}]},
        },
        {
            "routes": {"openai/x": {"to": ["openai/x"]}, "y": {"to": ["openai/x"], "on_context": "openai/x"}},
            "prices": {"openai/x": {"input": 1.0, "output": 2.0}},
        },
        ["model_list[1].litellm_params: openai/x has another price"],
    ),
    (
        "names that are no names",
        {
            "model_list": [
                deployment("d", env("MODEL")),
                deployment("", "openai/x"),
                deployment("a\nb", "openai/x"),
                deployment("c", "openai/.."),
            ]
        },
        {},
        [
            "model_list[0]: 'os.environ/MODEL': a model cannot be in a variable",
            "model_list[1]: must be",
            "model_list[2]: must be",
            "model_list[3]: 'openai/..' is no name of a model",
        ],
    ),
    ("what is none", {"model_list": ["x", {"model_name": "y"}]}, {}, ["model_list[0]", "model_list[1]"]),
]


@pytest.mark.parametrize(("theirs", "ours", "left"), [one[1:] for one in EXAMPLES], ids=[one[0] for one in EXAMPLES])
def test_litellms_settings_are_taken_over_and_the_rest_is_listed(
    theirs: dict[str, Any], ours: Any, left: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "litellm.yaml"
    file.write_text("\ufeff" + json.dumps(theirs))  # JSON is YAML
    assert main(["config", "import", str(file)]) == 0
    printed = capsys.readouterr()
    assert tomllib.loads(printed.out) == ours
    settings = read_settings(printed.out)
    keys = variables_of(settings)
    known = {name: "k" for provider in PROVIDERS.values() for name in provider.env}
    Routes(settings, providers_of(settings, known | keys, {}))
    told = printed.err.splitlines()
    assert len(told) == len(left)
    assert all(some in line for some, line in zip(left, told, strict=True))
    assert "sk-sentinel" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("action", "text", "why"),
    [
        ("import", "", "no map"),
        ("import", "[]", "no map"),
        ("import", "[" * 2000 + "]" * 2000, "is not YAML"),
        ("import", "a: *b", "is not YAML"),
        ("show", f"a = {'[' * 2000}{']' * 2000}", "is not TOML"),
    ],
)
def test_a_file_that_is_no_settings_is_refused_by_name(
    action: str, text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "file").write_text(text)
    assert main(["config", action, str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"toolwire: {file}: ")
    assert why in printed.err


def test_settings_are_shown_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "toolwire.toml"
    file.write_text('[providers.openai]\nkey = "$MINE"\n[routes.a]\nto = ["openai/m"]\ncontinue = true\n')
    monkeypatch.setenv("MINE", "sk-sentinel")
    assert main(["config", "show", str(file)]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)["routes"]["a"]["continue"] is True
    assert "sk-sentinel" not in shown
    assert main(["config", "check", "--config", str(file)]) == 0
    assert "1 routes" in capsys.readouterr().out
    for bytes_of_editor in (b"\xef\xbb\xbf" + file.read_bytes(), file.read_bytes().replace(b"\n", b"\r\n")):
        file.write_bytes(bytes_of_editor)
        assert main(["config", "check", str(file)]) == main(["config", "show", str(file)]) == 0
    assert "1 routes" in capsys.readouterr().out
    file.write_bytes(b"\xff")
    assert main(["config", "show", str(file)]) == main(["config", "check", str(file)]) == 2
    assert capsys.readouterr().err.count("is not UTF-8") == 2
    file.write_text('[server]\nlisen = "x"\n[routes.a]\nto = []\n')
    assert main(["config", "check", str(file)]) == 2
    assert "did you mean listen?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[upstream]\nproxy = "http://me:secret@proxy:1"', "upstream.proxy"),
        ('[upstream]\nproxi = "x"', "did you mean proxy?"),
        ('[prices]\n"a/b" = { input = -1.0, output = 1.0 }', "prices.a/b"),
        ('[routes.a]\nto = [{ model = "a/b", weight = -1 }]', "routes.a.to[0].weight"),
    ],
)
def test_what_is_wrong_with_settings_is_said_with_its_place(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.toml").write_text(text)
    assert main(["config", "check", str(tmp_path / "t.toml")]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        ("toolwire.gateway", ["config", "check"], "is needed to check the settings: pip install 'toolwire[serve]'"),
        ("yaml", ["config", "import", "x.yaml"], "PyYAML is needed to read YAML: pip install 'toolwire[tools]'"),
    ],
)
def test_an_extra_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str, words: list[str], said: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert main(words) == 2
    assert said in capsys.readouterr().err
