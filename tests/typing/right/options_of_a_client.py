"""How a server is reached, in each of the ways that are taken."""

from typing import Unpack

from toolwire import Bounds, Capabilities, Client, ClientOptions, Provider, Retries, Timeouts, generate

own = Provider(name="mine", dialect="openai-chat", base_url="https://llm.example/v1", api_key="key")
careful: ClientOptions = {"timeouts": Timeouts(total=60), "retries": Retries(attempts=1), "headers": {"x-team": "a"}}


def clients() -> list[Client]:
    return [
        Client("openai"),
        Client("openai", "gpt-6-sol", api_key="key", base_url="http://127.0.0.1:8080/v1"),
        Client(own, "model", bounds=Bounds(bytes=1_000_000)),
        Client({"dialect": "anthropic", "base_url": "https://llm.example", "api_key": "key"}, "claude"),
        Client(["openai/gpt-6-sol", "anthropic/claude-sonnet-5-5"]),
        Client([own, ("ollama", {"base_url": "http://other:11434"})], "qwen3"),
        Client("vllm", **careful),
        Client(model="groq/llama-4", capabilities=Capabilities(parallel_tool_calls=False)),
    ]


def ask(prompt: str) -> str | None:
    options = {"base_url": "http://127.0.0.1:8080", "api_key": "any"}
    generate(prompt, "openai", "gpt-6-sol", options=careful)
    return generate(prompt, "openai", "gpt-6-sol", options=options).content


def client_of(model: str, **options: Unpack[ClientOptions]) -> Client:
    return Client(None, model, **options)
