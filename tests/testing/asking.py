"""One short question to a server, through each vendor's SDK; and bodies as bytes, through none."""

import http.client
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.testing.sdks import MODELS, anthropic_at, google_at, ollama_at, openai_at

ASKED: Any = [{"role": "user", "content": "?"}]
BODIES: dict[str, dict[str, Any]] = {
    "openai-chat": {"model": MODELS["openai-chat"], "messages": ASKED},
    "openai-responses": {"model": MODELS["openai-responses"], "input": ASKED},
    "anthropic": {"model": MODELS["anthropic"], "max_tokens": 4096, "messages": ASKED},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "?"}]}]},
    "ollama": {"model": MODELS["ollama"], "messages": ASKED, "stream": False},
}
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": f"/v1beta/models/{MODELS['gemini']}:generateContent",
    "ollama": "/api/chat",
}
KEYS: dict[str, dict[str, str]] = {
    "anthropic": {"x-api-key": "k", "anthropic-version": "2026-10-21"},
    "gemini": {"x-goog-api-key": "k"},
}
USUAL_KEY = {"authorization": "Bearer k"}


def ask_chat(url: str, *, key: str = "k", stream: bool = False, **options: Any) -> str:
    """Ask Chat Completions."""
    with openai_at(url, key, **options) as held:
        client: Any = held
        if not stream:
            answer = client.chat.completions.create(**BODIES["openai-chat"])
            return str(answer.choices[0].message.content or "")
        chunks = client.chat.completions.create(**BODIES["openai-chat"], stream=True)
        words = [str(chunk.choices[0].delta.content or "") for chunk in chunks if chunk.choices]
        return "".join(words)


def ask_responses(url: str, *, key: str = "k", stream: bool = False, **options: Any) -> str:
    """Ask Responses."""
    with openai_at(url, key, **options) as client:
        if not stream:
            return str(client.responses.create(**BODIES["openai-responses"]).output_text)
        with client.responses.stream(**BODIES["openai-responses"]) as events:
            return events.get_final_response().output_text


def ask_messages(url: str, *, key: str = "k", stream: bool = False, **options: Any) -> str:
    """Ask the Messages API."""
    with anthropic_at(url, key, **options) as client:
        if not stream:
            return str(getattr(client.messages.create(**BODIES["anthropic"]).content[0], "text", ""))
        with client.messages.stream(**BODIES["anthropic"]) as events:
            return events.get_final_text()


def ask_gemini(url: str, *, key: str = "k", stream: bool = False, **options: Any) -> str:
    """Ask generateContent."""
    asked: Any = {"model": MODELS["gemini"], "contents": "?"}
    timeout = options.pop("timeout", None)
    if timeout is not None:
        options["timeout"] = int(timeout * 1000)
    with google_at(url, key, **options) as client:
        if not stream:
            return client.models.generate_content(**asked).text or ""
        return "".join(chunk.text or "" for chunk in client.models.generate_content_stream(**asked))


def ask_ollama(url: str, *, key: str = "k", stream: bool = False, **options: Any) -> str:
    """Ask Ollama's own chat."""
    with ollama_at(url, headers={"authorization": f"Bearer {key}"}, **options) as client:
        chat: Any = client.chat
        given = chat(MODELS["ollama"], ASKED, stream=stream)
        return "".join(chunk.message.content or "" for chunk in (given if stream else [given]))


ASKERS: dict[str, Callable[..., str]] = {
    "openai-chat": ask_chat,
    "openai-responses": ask_responses,
    "anthropic": ask_messages,
    "gemini": ask_gemini,
    "ollama": ask_ollama,
}


class Answered(NamedTuple):
    """What came back over HTTP."""

    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def body(self) -> Any:
        """The body as JSON."""
        return json.loads(self.data)


def post(url: str, path: str, body: Any, headers: dict[str, str] | None = None, method: str = "POST") -> Answered:
    """Send a body as it is, and read all of the answer."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {"content-type": "application/json", **(headers or USUAL_KEY)})
        answer = connection.getresponse()
        return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def send(url: str, name: str, body: Any, **headers: str) -> Answered:
    """Send a body to where a dialect is spoken, with a key."""
    return post(url, PATHS[name], body, {**KEYS.get(name, USUAL_KEY), **headers})
