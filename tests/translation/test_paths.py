"""Which wire a path speaks, and what it asks for."""

import pytest

from toolwire.translation.paths import RouteMatch, match_route, normalize_path, wire_of

ANTHROPIC, GOOGLE = {"anthropic-version": "2026-10-21"}, {"x-goog-api-key": "k"}
ROWS: list[tuple[str, dict[str, str], RouteMatch | None]] = [
    ("/v1/chat/completions", {}, RouteMatch("answer", "openai-chat")),
    ("/v1/models", {}, RouteMatch("models", "openai-chat", "GET")),
    ("/v1/models", ANTHROPIC, RouteMatch("models", "anthropic", "GET")),
    ("/v1/models", GOOGLE, RouteMatch("models", "gemini", "GET")),
    ("/v1/models/openai/gpt-5", {}, RouteMatch("model", "openai-chat", "GET", "openai/gpt-5")),
    ("/v1/models/ollama%2Fqwen3:8b", {}, RouteMatch("model", "openai-chat", "GET", "ollama/qwen3:8b")),
    ("/v1/models/ollama/qwen3:latest", GOOGLE, RouteMatch("model", "gemini", "GET", "ollama/qwen3:latest")),
    ("/v1beta/models/a/b", {}, RouteMatch("model", "gemini", "GET", "a/b")),
    ("/v1beta/models/m:generateContent", {}, RouteMatch("answer", "gemini", "POST", "m", streams=False)),
    (
        "/v1/models/a/qwen3:8b:streamGenerateContent",
        {},
        RouteMatch("answer", "gemini", "POST", "a/qwen3:8b", streams=True),
    ),
    ("/v1alpha/models/m:countTokens", {}, RouteMatch("count", "gemini", "POST", "m")),
    ("/v1beta/models/m:8b:batchEmbedContents", {}, RouteMatch("other", "gemini", "POST", "m:8b")),
    ("/v1beta/a/b/m:generateContent", {}, RouteMatch("answer", "gemini", "POST", "a/b/m", streams=False)),
    ("/v1/a/qwen3:8b:streamGenerateContent", {}, RouteMatch("answer", "gemini", "POST", "a/qwen3:8b", streams=True)),
    ("/v1beta/a/m:predict", GOOGLE, None),
    ("/v1/responses/resp_1", {}, RouteMatch("retrieve", "openai-responses", "GET", "resp_1")),
    ("/v1/embeddings", {}, RouteMatch("other", "openai-chat")),
    ("/v1/models/", {}, None),
    ("/v1beta/files", GOOGLE, None),
    ("/v1/messages/batches", ANTHROPIC, None),
]


@pytest.mark.parametrize(("path", "headers", "asked"), ROWS)
def test_a_path_is_read(path: str, headers: dict[str, str], asked: RouteMatch | None) -> None:
    assert match_route(path, headers) == asked


VERSIONS = {
    "/models/m:generateContent": "/v1beta/models/m:generateContent",
    "/a/m:generateContent": "/v1beta/a/m:generateContent",
    "/v1beta/v1beta/a/m:generateContent": "/v1beta/a/m:generateContent",
    "/v1/v1beta/models/m:generateContent": "/v1beta/models/m:generateContent",
    "/v1/models/m:generateContent": "/v1/models/m:generateContent",
    "/v1beta/a/m:countTokens": "/v1beta/a/m:countTokens",
    "/models/a/m": "/v1/models/a/m",
    "/v1/v1/messages": "/v1/messages",
    "/a/m:predict": "/a/m:predict",
}


@pytest.mark.parametrize("path", VERSIONS)
def test_a_path_has_one_version(path: str) -> None:
    assert normalize_path(path) == VERSIONS[path]


STORED = [
    *[(method, "/v1/conversations/conv_1") for method in ("GET", "POST", "DELETE")],
    *[(method, "/v1/responses/resp_1") for method in ("GET", "HEAD", "DELETE")],
    ("POST", "/v1/responses/resp_1/cancel"),
]


@pytest.mark.parametrize(("method", "path"), STORED)
def test_what_is_stored_may_be_asked_for_and_forgotten(method: str, path: str) -> None:
    assert wire_of(method, path, {}) == "openai-responses"
    assert wire_of("PUT", path, {}) is None
