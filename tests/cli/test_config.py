"""`toolwire config`: settings shown and checked, and LiteLLM's taken over with a list of what was not."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli import main
from toolwire.config import read_settings
from toolwire.gateway.routes import Routes, providers_of
from toolwire.providers import PROVIDERS


def deployment(name: str, model: str, **params: Any) -> dict[str, Any]:
    """Write one entry of LiteLLM's list."""
    return {"model_name": name, "litellm_params": {"model": model, **params}}


def env(name: str) -> str:
    """Write a variable as LiteLLM does."""
    return f"os.environ/{name}"


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
            "providers": {"vllm-1": {"key": "$GPU", "dialect": "openai-chat", "base_url": "http://gpu:8000/v1"}},
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
        "providers that are not here, and names with a star",
        {"model_list": [deployment("b", "bedrock/anthropic.claude"), deployment("openai/*", "openai/*")]},
        {},
        ["model_list[0]: 'bedrock/anthropic.claude': Amazon Bedrock is not supported", "model_list[1]: 'openai/*'"],
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
                    "dialect": "openai-chat",
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
            ]
        },
        {
            "providers": {
                "azure-1": {
                    "key": "$AZURE_API_KEY",
                    "dialect": "openai-chat",
                    "base_url": "https://one.openai.azure.com/openai/v1",
                },
                "azure-2": {
                    "dialect": "openai-chat",
                    "base_url": "https://two.openai.azure.com/openai/v1",
                    "key": "$TWO",
                },
            },
            "routes": {
                "m": {"to": [{"model": "azure-1/one", "weight": 1}, {"model": "azure-2/two", "weight": 1}]},
                "n": {"to": ["azure/three"]},
            },
        },
        ["model_list[2].litellm_params.api_base: set AZURE_OPENAI_ENDPOINT to the value of AZURE_API_BASE"],
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
                "openai-2": {"dialect": "openai-chat", "base_url": "https://api.openai.com", "key": "$SECOND"},
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
            "model_list[0]: input_cost_per_token: a price",
            "model_list[0]: output_cost_per_token: a price",
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
            "model_list[0].access_groups: has no setting",
            "model_list[0].model_info.id: has no setting",
            "model_list[0].model_info.mode: has no setting",
            "model_list[0]: input_cost_per_token: a price",
        ],
    ),
    (
        "fallbacks of which some are not here, one to itself, and one with a key",
        {
            "model_list": [deployment("a", "openai/m"), deployment("b", "ollama/q"), deployment("c", "gemini/g")],
            "router_settings": {
                "fallbacks": [{"a": ["b", "away", "a", {"model": "b", "api_key": "sk-sentinel"}]}],
                "context_window_fallbacks": [{"a": ["c", "b"]}],
                "model_group_alias": {"d": "a"},
            },
        },
        {
            "routes": {
                "a": {"to": ["openai/m", "ollama/q"], "on_context": "c"},
                "b": {"to": ["ollama/q"]},
                "c": {"to": ["gemini/g"]},
            }
        },
        [
            "router_settings.fallbacks: 'a' to 'away'",
            "router_settings.fallbacks: 'a' to 'a'",
            "router_settings.fallbacks: 'a' to something",
            "router_settings.context_window_fallbacks: 'a' to 'b'",
            "router_settings.model_group_alias: write a route of that name",
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
        [],
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
    keys = {said.key.removeprefix("$"): "k" for said in settings.providers.values() if said.key}
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
