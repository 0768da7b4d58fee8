"""`toolwire config import` as an operator uses it: the file starts a gateway, and nothing of it is lost unsaid."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.test_serve import first_line, opened, program
from toolwire.config import read_settings
from toolwire.config.litellm import read_litellm
from toolwire.config.toml import toml_of

ROOT = Path(__file__).resolve().parent.parent.parent
THEIRS = """
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: os.environ/AZURE_API_BASE
      api_key: os.environ/AZURE_API_KEY
      api_version: "2025-01-01-preview"
      rpm: 60
    model_info: {input_cost_per_token: 0.000002, output_cost_per_token: 8e-6}
  - model_name: broken
    litellm_params: {model: openai/m, api_base: "http://127.0.0.1:1/v1", api_key: os.environ/OPENAI_API_KEY}
  - model_name: claude
    litellm_params: {model: claude-sonnet-4-5, api_base: "MODEL", litellm_credential_name: team}
  - model_name: "openai/*"
    litellm_params: {model: "openai/*", api_base: os.environ/OPENAI_BASE, api_key: os.environ/OPENAI_API_KEY}
  - model_name: "*"
    litellm_params: {model: "hosted_vllm/*", api_base: os.environ/OPENAI_BASE}
credential_list:
  - credential_name: team
    credential_values: {api_key: os.environ/TEAM_KEY}
router_settings:
  model_group_alias: {smart: claude}
  fallbacks: [{broken: [claude]}]
"""
VARIABLES = {
    "PYTHONPATH": str(ROOT / "src"),
    "AZURE_API_KEY": "sk-azure",
    "OPENAI_API_KEY": "sk-openai",
    "TEAM_KEY": "sk-team",
}


@contextlib.contextmanager
def gateway(file: Path, **variables: str) -> Iterator[str]:
    """Start a gateway from a file of settings, and stop it."""
    started = program("--config", str(file), "--listen", "127.0.0.1:0", **variables)
    try:
        yield first_line(started)
    finally:
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=30)


def imported(theirs: Path) -> str:
    """Run the command, as an operator does."""
    command = [sys.executable, "-m", "toolwire", "config", "import", str(theirs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")})
    return done.stdout


class Asked(NamedTuple):
    """A request that a provider received."""

    path: str
    model: str
    headers: dict[str, str]


@contextlib.contextmanager
def provider() -> Iterator[tuple[str, list[Asked]]]:
    """Serve Chat Completions and Messages below any path. Yield the address and the requests."""
    requests: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.append(Asked(self.path, body["model"], headers))
            data = json.dumps(MESSAGE if self.path.endswith("/messages") else COMPLETION).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()


USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "One."}, "finish_reason": "stop"}],
    "usage": USAGE,
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "One."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def test_a_gateway_of_an_imported_file_serves_what_litellm_served(tmp_path: Path) -> None:
    with provider() as (address, requests):
        (theirs := tmp_path / "litellm.yaml").write_text(THEIRS.replace("MODEL", address))
        (ours := tmp_path / "toolwire.toml").write_text(imported(theirs))
        variables = {**VARIABLES, "AZURE_API_BASE": f"{address}/", "OPENAI_BASE": f"{address}/v1"}
        checked = program("--check", "--config", str(ours), **variables)
        assert checked.communicate(timeout=30)[0].endswith("6 routes\n")
        assert checked.returncode == 0
        with gateway(ours, **variables) as url:
            seen = {}
            for name in ("gpt-4o", "broken", "smart", "openai/gpt-5", "qwen3"):
                body = {"model": name, "messages": [{"role": "user", "content": "Hello"}]}
                with opened(f"{url}/v1/chat/completions", body) as answered:
                    assert json.load(answered)["choices"][0]["message"]["content"] == "One."
                seen[name] = requests[-1]
            with opened(f"{url}/v1/models") as answered:
                listed = {one["id"] for one in json.load(answered)["data"]}
    assert {name: one[:2] for name, one in seen.items()} == {
        "gpt-4o": ("/openai/v1/chat/completions", "gpt-4o-eu"),
        "broken": ("/v1/messages", "claude-sonnet-4-5"),
        "smart": ("/v1/messages", "claude-sonnet-4-5"),
        "openai/gpt-5": ("/v1/chat/completions", "gpt-5"),
        "qwen3": ("/v1/chat/completions", "qwen3"),
    }
    assert seen["gpt-4o"][2]["api-key"] == "sk-azure"
    assert seen["smart"][2]["authorization"] == "Bearer sk-team"
    assert seen["openai/gpt-5"][2]["authorization"] == "Bearer sk-openai"
    assert "authorization" not in seen["qwen3"][2]
    assert {"gpt-4o", "broken", "claude", "smart"} <= listed


# Each setting of docs/proxy/config_settings and of docs/proxy/configs that has nothing to do with a single deployment.
DOCUMENTED = {
    "litellm_settings": "success_callback failure_callback callbacks service_callbacks turn_off_message_logging"
    " redact_user_api_key_info langfuse_default_tags request_timeout force_ipv4 set_verbose json_logs"
    " content_policy_fallbacks mcp_aliases cache cache_params disable_end_user_cost_tracking key_generation_settings"
    " modify_params enable_preview_features drop_params num_retries max_budget budget_duration"
    " default_internal_user_params upperbound_key_generate_params default_team_settings allowed_fails",
    "router_settings": "routing_strategy routing_strategy_args redis_host redis_password redis_port"
    " enable_pre_call_checks allowed_fails cooldown_time disable_cooldowns enable_tag_filtering tag_filtering_match_any"
    " retry_policy allowed_fails_policy default_max_parallel_requests max_fallbacks default_litellm_params timeout"
    " stream_timeout debug_level client_ttl cache_kwargs num_retries provider_budget_config",
    "general_settings": "completion_model disable_spend_logs enable_jwt_auth enforce_user_param allowed_routes"
    " key_management_system master_key database_url database_connection_pool_limit allow_requests_on_db_unavailable"
    " custom_auth max_parallel_requests global_max_parallel_requests infer_model_from_keys background_health_checks"
    " health_check_interval alerting alerting_threshold store_model_in_db max_request_size_mb max_response_size_mb"
    " proxy_batch_write_at allowed_ips pass_through_endpoints forward_client_headers_to_llm_api",
    "environment_variables": "OPENAI_API_KEY REDIS_HOST",
}
SECTIONS = "guardrails include mcp_servers callback_settings vector_store_registry files_settings prompts".split()


def test_every_documented_setting_is_named_with_a_reason() -> None:
    theirs: dict[str, Any] = {name: dict.fromkeys(keys.split(), "sentinel") for name, keys in DOCUMENTED.items()}
    theirs |= {name: ["sentinel"] for name in SECTIONS}
    settings, lines = read_litellm(theirs)
    assert settings == {}
    expected = [*(f"{name}.{key}" for name, table in list(theirs.items())[:4] for key in table), *SECTIONS]
    assert [line.partition(": ")[0] for line in lines] == expected
    assert all(len(line.partition(": ")[2]) > 10 for line in lines)
    assert "sentinel" not in "".join(lines)
    generic = [line for line in lines if line.endswith("toolwire has no such setting")]
    assert len(generic) < len(lines) / 4, generic


NAMES = st.sampled_from(
    ["a", "b", "openai/x", "openai/*", "*", "x*", "a b", "", "é", "a\nb", "\x7f", "\ud800", "a/*/b*"]
)
MODELS = st.sampled_from(
    [
        "openai/x",
        "openai/*",
        "*",
        "claude-x",
        "azure/y",
        "gemini/é",
        "groq/..",
        "nobody/x",
        "mystery",
        "azure/*",
        "x\ny",
    ]
)
ODD = st.sampled_from(
    [None, True, 0, 5, 1.5, -1, float("nan"), float("inf"), "", "1e-6", "text", [], {}, [1], {"a": 1}]
)
BASES = st.sampled_from(
    [
        "http://h/v1",
        "https://r.openai.azure.com",
        "os.environ/BASE",
        "os.environ/",
        "https://h/a b",
        "http://[",
        5,
        None,
    ]
)
KEY = st.sampled_from(["os.environ/KEY", "os.environ/1", "os.environ/OPENAI_API_KEY", "sk-sentinel", 5, None])
PARAMETERS = st.fixed_dictionaries(
    {"model": MODELS},
    optional={
        **dict.fromkeys(
            ("weight", "order", "rpm", "tpm", "input_cost_per_token", "output_cost_per_token", "tags"), ODD
        ),
        **dict.fromkeys(("max_budget", "budget_duration", "litellm_credential_name", "custom_llm_provider"), ODD),
        "api_base": BASES,
        "api_key": KEY,
        "extra_headers": st.one_of(ODD, st.dictionaries(st.sampled_from(["X-A", "a b", "X-Key"]), ODD, max_size=2)),
    },
)
ENTRIES = st.one_of(
    ODD,
    st.fixed_dictionaries(
        {"model_name": NAMES, "litellm_params": st.one_of(PARAMETERS, ODD)}, optional={"model_info": ODD, "extra": ODD}
    ),
)
LINKS = st.one_of(ODD, st.lists(st.one_of(ODD, st.dictionaries(NAMES, st.one_of(NAMES, ODD, st.lists(NAMES))))))
FILES = st.fixed_dictionaries(
    {"model_list": st.one_of(ODD, st.lists(ENTRIES, max_size=6))},
    optional={
        "router_settings": st.one_of(
            ODD,
            st.fixed_dictionaries(
                {},
                optional={
                    "fallbacks": LINKS,
                    "context_window_fallbacks": LINKS,
                    "default_fallbacks": st.one_of(ODD, st.lists(NAMES)),
                    "model_group_alias": st.one_of(ODD, st.dictionaries(NAMES, st.one_of(NAMES, ODD))),
                    "routing_strategy": ODD,
                },
            ),
        ),
        "credential_list": st.one_of(ODD, st.lists(ODD)),
        "litellm_settings": st.one_of(ODD, st.dictionaries(st.sampled_from(["max_budget", "fallbacks", "x"]), ODD)),
        "other": ODD,
    },
)


@given(FILES)
def test_any_file_becomes_settings_and_reasons(theirs: dict[str, Any]) -> None:
    settings, lines = read_litellm(theirs)
    text = toml_of(settings)
    read = read_settings(text)
    assert set(read.routes) == set(settings.get("routes", {}))
    assert "sk-sentinel" not in text + "".join(lines)
    for section, table in theirs.items():
        if section != "model_list" and isinstance(table, dict):
            for name, value in table.items():
                is_converted = type(value) in (list, dict) and name in ("fallbacks", "context_window_fallbacks")
                is_converted |= type(value) in (list, dict) and name in ("default_fallbacks", "model_group_alias")
                assert value is None or is_converted or any(line.startswith(f"{section}.{name}: ") for line in lines)


def test_the_example_of_the_page_is_what_the_command_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "gateway-operations.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    expected = page.partition("```yaml\n")[2].partition("```toml\n")[2].partition("```")[0]
    (theirs := tmp_path / "litellm.yaml").write_text(example)
    assert yaml.safe_load(example)
    assert imported(theirs).strip() == expected.strip()
