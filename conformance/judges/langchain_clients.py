"""LangChain's standard integration tests with five of its clients; pytest runs this file.

`TOOLWIRE_GATEWAY` is the URL that the clients ask. The tests fetch an image and a document from the web; here they get
small ones, because a test run reaches this machine only.
"""

import base64
import os
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests, chat_models

URL = os.environ["TOOLWIRE_GATEWAY"]
_IMAGE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"
)
_DOCUMENT = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
_DOCUMENT += b"trailer<</Root 1 0 R>>\n%%EOF\n"


@pytest.fixture(autouse=True)
def local_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve the files that the tests fetch."""

    def get(url: str, **options: Any) -> SimpleNamespace:
        del options
        return SimpleNamespace(content=_DOCUMENT if url.endswith(".pdf") else _IMAGE)

    monkeypatch.setattr(chat_models.httpx, "get", get)


class _Client(ChatModelIntegrationTests):
    """The settings that all clients share."""

    client: type[BaseChatModel]
    settings: dict[str, Any]

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return self.client

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return self.settings

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        return True


class _ClientWithJson(_Client):
    @property
    def supports_json_mode(self) -> bool:
        return True


class TestOpenAIChat(_ClientWithJson):
    client = ChatOpenAI
    settings = {
        "model": "gpt-4.1",
        "base_url": f"{URL}/v1",
        "api_key": "any",
        "stream_usage": True,
        "max_retries": 0,
    }

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True


class TestOpenAIResponses(_ClientWithJson):
    client = ChatOpenAI
    settings = {
        "model": "gpt-5",
        "base_url": f"{URL}/v1",
        "api_key": "any",
        "use_responses_api": True,
        "max_retries": 0,
    }

    @property
    def supports_pdf_inputs(self) -> bool:
        return True


class TestAnthropic(_Client):
    client = ChatAnthropic
    settings = {"model": "claude-sonnet-4-5", "base_url": URL, "api_key": "any", "max_retries": 0}

    @property
    def supports_pdf_inputs(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True


class TestGoogle(_ClientWithJson):
    client = ChatGoogleGenerativeAI
    settings = {"model": "gemini-2.5-pro", "base_url": URL, "google_api_key": "any", "max_retries": 1}

    @property
    def supports_pdf_inputs(self) -> bool:
        return True


class TestOllama(_ClientWithJson):
    client = ChatOllama
    settings = {"model": "qwen3", "base_url": URL}

    @property
    def has_tool_choice(self) -> bool:
        return False  # Ollama's wire has no choice of a tool
