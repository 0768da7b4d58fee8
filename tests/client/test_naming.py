"""A model is named in one way at every door: with its provider, or as the catalogue knows it."""

from collections.abc import Callable
from typing import Any

import pytest

from toolwire import Client, Runs, aio, generate
from toolwire.cli.chosen_model import client_of
from toolwire.client.factory import LLMFactory
from toolwire.providers import UnknownProvider, provider_of
from toolwire.testing import simulate

SPELLINGS = {
    "openai/gpt-4o": ("openai", "gpt-4o"),
    "openai:gpt-4o": ("openai", "gpt-4o"),
    "gpt-4o": ("openai", "gpt-4o"),
    "anthropic/claude-sonnet-5-5": ("anthropic", "claude-sonnet-5-5"),
    "anthropic:claude-sonnet-5-5": ("anthropic", "claude-sonnet-5-5"),
    "claude-sonnet-5-5": ("anthropic", "claude-sonnet-5-5"),
    "Sonnet 5.5": ("anthropic", "claude-sonnet-5-5"),
    "anthropic/Sonnet 5.5": ("anthropic", "claude-sonnet-5-5"),
    "google/gemini-3.5-flash": ("gemini", "gemini-3.5-flash"),
    "openrouter/anthropic/claude-sonnet-5-5": ("openrouter", "anthropic/claude-sonnet-5-5"),
    "mistral:7b": ("mistral", "7b"),
    "groq:my/own:7b": ("groq", "my/own:7b"),
}
LOCAL = {"ollama/qwen3": "qwen3", "ollama:qwen3:8b": "qwen3:8b", "llama3.1": "llama3.1", "llama3.1:70b": "llama3.1:70b"}
DOORS: dict[str, Callable[[str], Any]] = {
    "Client(name)": Client,
    "Client(model=name)": lambda name: Client(model=name),
    "aio.Client(name)": aio.Client,
    "create(name)": LLMFactory.create,
    "command line": lambda name: client_of(None, name),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_model_has_one_spelling_at_every_door(name: str, door: str) -> None:
    client = DOORS[door](name)
    assert (client.provider.name, client.model) == SPELLINGS[name]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", LOCAL)
def test_a_local_model_keeps_its_size(name: str, door: str) -> None:
    client = DOORS[door](name)
    assert (client.provider.name.removesuffix("-v1"), client.model) == ("ollama", LOCAL[name])


@pytest.mark.parametrize("name", ["gpt-4o", "openai:gpt-4o", "openai/gpt-4o"])
def test_generate_chat_and_run_take_the_same_spellings(name: str) -> None:
    with simulate(["Hi."] * 5) as model:
        here: Any = {"base_url": model.url, "api_key": "x"}
        generate("Hi", name, **here)
        generate("Hi", model=name, **here)
        with Client("openai", "m", **here) as client:
            client.chat("Hi", model=name)
            client.run("Hi", model=name)
            client.stream("Hi", model=name).collect()
    assert [request.body["model"] for request in model.requests] == ["gpt-4o"] * 5


def test_a_durable_run_stores_the_provider_and_the_model(tmp_path: Any) -> None:
    with simulate(["Hi."] * 2) as model, Runs(f"sqlite:///{tmp_path}/runs.db") as runs:
        for name in ("gpt-4o", "openai:gpt-4o"):
            run = runs.start("Hi", name, options={"base_url": model.url, "api_key": "x"})
            assert run.result(30).content == "Hi."
            stored = runs.core.inputs_of(run.id)
            assert stored is not None
            assert (stored[0].provider, stored[0].model) == ("openai", "gpt-4o")


@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_model_says_first_how_one_is_named(door: str) -> None:
    error = UnknownProvider if door != "command line" else Exception
    with pytest.raises(
        error, match=r"unknown provider 'my-own'; write a model with its provider: PROVIDER/my-own\. Known"
    ):
        DOORS[door]("my-own")


def test_a_foreign_prefix_belongs_to_the_model_of_a_named_provider() -> None:
    assert provider_of("openrouter", "anthropic/claude-sonnet-5-5")[1] == "anthropic/claude-sonnet-5-5"
    assert provider_of("ollama", "mistral:7b")[1] == "mistral:7b"
