"""The known providers, as the page for users lists them."""

import json
import re
from pathlib import Path

import pytest

from toolwire.client.sync import Client
from toolwire.providers import PROVIDERS, Provider, provider_of
from toolwire.providers.known import PRESETS, Capabilities

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
NAMED = (
    "openai openai-responses anthropic gemini ollama ollama-v1 azure groq mistral deepseek openrouter xai "
    "together fireworks vllm llama.cpp lmstudio"
).split()
LOCAL = {"ollama", "ollama-v1", "vllm", "llama.cpp", "lmstudio"}


def listed() -> dict[str, tuple[str, ...]]:
    """Read the table of the page: each provider's cells, without their marks."""
    lines = PAGE.read_text().split("## Providers\n")[1].split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
    return {row[0].strip("`"): tuple(cell.replace("`", "") for cell in row[1:]) for row in rows}


def row_of(provider: Provider) -> tuple[str, ...]:
    """Say a provider as the page does."""
    own = f"none; {provider.api_key} is sent" if provider.api_key else "none"
    return (
        provider.dialect,
        provider.base_url,
        f"{provider.auth}: Bearer" if provider.auth == "Authorization" else provider.auth or "none",
        " or ".join(provider.env) or own,
        provider.base_url_env or "",
    )


@pytest.mark.row("R001-29", "R001-62", "R001-37", "R001-44")
def test_the_page_lists_the_known_providers_as_they_are() -> None:
    """The dialect and all else is data, and said to users."""
    assert sorted(PROVIDERS) == sorted(NAMED)
    assert listed() == {name: row_of(provider) for name, provider in PROVIDERS.items()}
    assert {name for name, provider in PROVIDERS.items() if provider.local} == LOCAL


def test_every_preset_says_where_it_comes_from_and_nothing_that_a_provider_has_not() -> None:
    for row in json.loads(PRESETS.read_bytes()):
        assert re.search(r"https://", row["source"])
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row["as_of"])
        assert row.keys() <= {*Provider.__struct_fields__, "source", "as_of"}
        assert row.get("capabilities", {}).keys() <= set(Capabilities.__struct_fields__)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.row("I-32")
def test_a_key_of_the_environment_is_found_and_one_that_is_given_comes_first(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = PROVIDERS[name]
    for variable in preset.env:
        monkeypatch.setenv(variable, f"from {variable}")
        assert provider_of(name)[0].key == f"from {variable}"
        monkeypatch.delenv(variable)
    assert provider_of(name, api_key="given")[0].key == "given"
    assert provider_of(name)[0].key == preset.api_key


@pytest.mark.row("R001-29")
def test_the_provider_that_seed_users_know_as_ollama_needs_no_key() -> None:
    """A client is made of nothing but a name and a model; nobody is asked for anything."""
    with Client("ollama-v1", "llama3.1") as client:
        assert (client.provider.base_url, client.provider.key) == ("http://localhost:11434/v1", "ollama")


@pytest.mark.row("R001-62")
def test_a_server_that_nobody_has_heard_of_is_data() -> None:
    given = {"name": "new", "dialect": "openai-chat", "base_url": "https://llm.example/v1", "api_key": "k"}
    made, model = provider_of(given, "new/m")
    assert (made.speaks().DIALECT, made.key, model) == ("openai-chat", "k", "m")
