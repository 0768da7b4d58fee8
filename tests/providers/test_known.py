"""Providers as data: how one is named, where its key comes from, and what it never says."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from toolwire import Client, Context, Message, Request, Tool, aio, catalogue, dialect
from toolwire.dialects import NAMES
from toolwire.encoding.quirks import PLAIN, tuned
from toolwire.errors import InvalidField
from toolwire.providers import (
    ALIASES,
    PROVIDERS,
    Capabilities,
    Provider,
    UnknownProvider,
    provider_of,
    put_key,
    quirks_of,
)
from toolwire.providers.adapting import quirks_for
from toolwire.providers.addressing import headers_of, http_request_of
from toolwire.providers.catalogue import Model

WANTED = (
    "openai openai-responses anthropic gemini ollama ollama-v1 azure groq mistral deepseek openrouter xai "
    "together fireworks vllm llama.cpp lmstudio"
).split()


def test_the_known_providers_are_there() -> None:
    assert sorted(PROVIDERS) == sorted(WANTED)
    for name, provider in PROVIDERS.items():
        assert provider.name == name
        assert provider.dialect in NAMES
        assert provider.dialect == provider.speaks().DIALECT
        assert provider.base_url.startswith("http://localhost" if provider.local else "https://")
    assert all(target in PROVIDERS for target in ALIASES.values())


@pytest.mark.parametrize(
    ("given", "model", "name", "found"),
    [
        ("openai", "gpt-4", "openai", "gpt-4"),
        (None, "openai/gpt-4", "openai", "gpt-4"),
        ("openai/gpt-4", None, "openai", "gpt-4"),
        ("openai", "openai/gpt-4", "openai", "gpt-4"),
        (None, "openrouter/anthropic/claude-sonnet-4.5", "openrouter", "anthropic/claude-sonnet-4.5"),
        ("openrouter", "anthropic/claude-sonnet-4.5", "openrouter", "anthropic/claude-sonnet-4.5"),
        (None, "responses/gpt-5", "openai-responses", "gpt-5"),
        ("google", "gemini-3", "gemini", "gemini-3"),
        (None, "ollama/qwen3:8b", "ollama", "qwen3:8b"),
        ("ollama", None, "ollama", None),
        (PROVIDERS["groq"], "llama", "groq", "llama"),
        ({"name": "openai", "base_url": "http://x"}, "m", "openai", "m"),
        ({"adapter": "anthropic", "api_key": "k"}, "m", "anthropic", "m"),
        ({"dialect": "openai-chat", "base_url": "http://x/v1"}, "m", "custom", "m"),
        ("anthropic", "claude-sonnet-4-5-20250514", "anthropic", "claude-sonnet-4-5-20250514"),
    ],
)
@pytest.mark.row("R003-56", "I-27", "R001-55")
def test_a_provider_and_its_model_are_named(given: Any, model: Any, name: str, found: Any) -> None:
    provider, chosen = provider_of(given, model)
    assert (provider.name, chosen) == (name, found)


@pytest.mark.parametrize("given", ["opnai", "gpt-4", 3, "", "gpt-oss:120b-cloud"])
def test_an_unknown_one_lists_the_known(given: Any) -> None:
    with pytest.raises(UnknownProvider, match=r"[Kk]nown: openai, openai-responses, anthropic"):
        provider_of(given)
    with pytest.raises(UnknownProvider):
        provider_of(None, "gpt-oss:120b-cloud")


def test_options_win_over_the_preset() -> None:
    provider, _ = provider_of("openai", base_url="http://x", headers={"a": "b"}, capabilities={"images": False})
    assert (provider.base_url, provider.headers) == ("http://x", {"a": "b"})
    assert provider.capabilities == Capabilities(images=False, structured_output_with_tools=True)
    assert PROVIDERS["openai"].base_url == "https://api.openai.com"
    with pytest.raises(InvalidField, match=r"openai: bas_url is not an option of a provider; did you mean base_url"):
        provider_of("openai", bas_url="x")  # type: ignore[call-arg]


CUSTOM_TOOLS: list[tuple[Any, dict[str, Any], bool]] = [
    ("openai", {}, True),
    ("openai-responses", {}, True),
    ("openai", {"base_url": "http://localhost:8080"}, False),
    ("openai-responses", {"base_url": "http://localhost:8080"}, False),
    ("openai", {"base_url": "http://localhost:8080", "capabilities": {"custom_tools": True}}, True),
    *((name, {}, False) for name in ("llama.cpp", "vllm", "groq", "azure", "openrouter", "ollama-v1")),
    ("vllm", {"capabilities": {"custom_tools": True}}, True),
    ("vllm", {"quirks": {"custom_tools": True}}, True),
    ({"dialect": "openai-chat", "base_url": "http://localhost"}, {}, False),
    ({"dialect": "openai-responses", "base_url": "http://localhost"}, {}, False),
    ({"name": "openai", "base_url": "http://localhost"}, {}, False),
]


@pytest.mark.parametrize(("given", "options", "takes"), CUSTOM_TOOLS)
def test_only_servers_that_are_known_to_take_custom_tools_get_them(given: Any, options: Any, takes: bool) -> None:
    provider, _ = provider_of(given, "m", **options)
    request = Request(model="m", context=Context(None, [Message("Hi.")], [Tool("patch", "Patches.", custom=True)]))
    encoded = provider.speaks().encode_request(request)
    assert encoded.body["tools"][0]["type"] == ("custom" if takes else "function")
    assert [loss.concept for loss in encoded.losses] == ([] if takes else ["custom_tool"])


def test_a_server_at_an_address_of_the_environment_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8080")
    assert not provider_of("openai", "m")[0].capabilities.custom_tools
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/")
    assert provider_of("openai", "m")[0].capabilities.custom_tools


def test_a_provider_that_says_too_little_is_refused() -> None:
    with pytest.raises(InvalidField, match="provider: base_url is needed"):
        provider_of({"dialect": "openai-chat"})


def test_a_key_is_what_was_given_or_what_the_environment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert provider_of("gemini", "m")[0].key is None
    monkeypatch.setenv("GOOGLE_API_KEY", "second")
    assert provider_of("gemini", "m")[0].key == "second"
    monkeypatch.setenv("GEMINI_API_KEY", "first")
    assert provider_of("gemini", "m")[0].key == "first"
    assert provider_of("gemini", "m", api_key="mine")[0].key == "mine"


def test_a_key_is_never_shown() -> None:
    provider = Provider(
        name="x", dialect="ollama", base_url="http://x", api_key="sk-secret", headers={"k": "sk-secret"}
    )
    assert "sk-secret" not in repr(provider)
    assert "sk-secret" not in str(provider)
    assert "sk-secret" not in f"{[provider]}"


def test_a_server_without_the_developer_role_gets_none() -> None:
    from toolwire import Context, Message, Request

    request = Request(model="m", context=Context(None, [Message("developer", "Be brief."), Message("Hi")]))
    roles = {
        name: provider_of(name, "m")[0].speaks().encode_request(request).body["messages"][0]["role"]
        for name in ("openai", "groq")
    }
    assert roles == {"openai": "developer", "groq": "system"}


QUIRKS: list[tuple[str | None, Any]] = [
    ("claude-opus-5-5", {"default_max_tokens": 128_000}),
    ("claude-opus-5", {}),
    ("gpt-6-sol", {"default_max_tokens": 128_000, "reasons": True}),
    ("gpt-4.1", {"reasons": False}),
    ("openai/gpt-4o-2024-08-06", {"reasons": False}),
    ("gpt-4o", {"reasons": False}),
    ("qwen3", {}),
    (None, {}),
]


@pytest.mark.parametrize(("name", "quirks"), QUIRKS)
def test_what_is_known_of_a_model_is_said_in_quirks(name: str | None, quirks: dict[str, Any]) -> None:
    assert quirks_of(name, catalogue.model(name)) == quirks
    tuned(PLAIN, quirks)


def test_the_most_tokens_of_a_model_are_asked_for_and_never_fewer_than_1024() -> None:
    assert quirks_of("small", Model("small", max_output=512)) == {"default_max_tokens": 1024}
    asked = Request(context=Context(None, [Message("Hi")]), model="claude-opus-5-5")
    known = quirks_of(asked.model, catalogue.model(asked.model))
    encoded = dialect("anthropic").encode_request(asked, **known)
    assert encoded.body["max_tokens"] == 128_000
    assert [loss.path for loss in encoded.losses] == ["max_tokens"]


PLACES: dict[str, tuple[str, str, str, str]] = {
    "openai": ("OPENAI_BASE_URL", "http://x/v1", "openai", "http://x/v1/chat/completions"),
    "responses": ("OPENAI_BASE_URL", "http://x", "openai-responses", "http://x/v1/responses"),
    "anthropic": ("ANTHROPIC_BASE_URL", "http://x/", "anthropic", "http://x/v1/messages"),
    "a host": ("OLLAMA_HOST", "10.0.0.5", "ollama", "http://10.0.0.5:11434/api/chat"),
    "a host and a port": ("OLLAMA_HOST", "10.0.0.5:80", "ollama", "http://10.0.0.5:80/api/chat"),
    "its other wire": ("OLLAMA_HOST", "http://x:1", "ollama-v1", "http://x:1/v1/chat/completions"),
    "azure": ("AZURE_OPENAI_ENDPOINT", "https://r.x/", "azure", "https://r.x/openai/v1/chat/completions"),
    "nothing": ("OLLAMA_HOST", " ", "ollama", "http://localhost:11434/api/chat"),
}


@pytest.mark.parametrize("case", PLACES)
def test_the_environment_may_say_where_a_server_is(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable, said, name, url = PLACES[case]
    monkeypatch.setenv(variable, said)
    request = Request(context=Context(None, [Message("Hi")]), model="m")
    for given in (provider_of(name)[0], provider_of(None, f"{name}/m")[0], provider_of({"name": name})[0]):
        sent = http_request_of(given, given.speaks().encode_request(request))
        assert sent.url == url
    assert provider_of(name, base_url="http://y")[0].base_url == "http://y"


CHAT, MESSAGES, STREAM = "/chat/completions", "/messages", "/models/m:streamGenerateContent?alt=sse"
OF_WIRE = {"openai-chat": CHAT, "openai-responses": "/responses", "anthropic": MESSAGES, "gemini": STREAM}
ADDRESSES: tuple[tuple[str, str, str], ...] = (
    ("openai", "https://api.openai.com/v1", f"https://api.openai.com/v1{CHAT}"),
    ("anthropic", "http://x/v1/", f"http://x/v1{MESSAGES}"),
    ("anthropic", "http://x/anthropic", f"http://x/anthropic/v1{MESSAGES}"),
    ("gemini", "http://x/v1", f"http://x/v1{STREAM}"),
    ("gemini", "http://x/v1/projects/p/publishers/google", f"http://x/v1/projects/p/publishers/google{STREAM}"),
    ("ollama", "http://x/api", "http://x/api/chat"),
    ("ollama", "http://x/v1", "http://x/api/chat"),
    ("groq", "http://x/openai", f"http://x/openai/v1{CHAT}"),
    ("azure", "https://r.x/openai", f"https://r.x/openai/v1{CHAT}"),
    ("deepseek", "https://api.deepseek.com", f"https://api.deepseek.com/v1{CHAT}"),
    ("openai", "http://x/v1beta/openai", f"http://x/v1beta/openai{CHAT}"),
    ("openai", "http://x/paas/v4", f"http://x/paas/v4{CHAT}"),
    ("openai", "http://v1.x/v", f"http://v1.x/v/v1{CHAT}"),
)


def url_of(provider: Provider) -> str:
    request = Request(context=Context(None, [Message("Hi")]), model="m", stream=True)
    return http_request_of(provider, provider.speaks().encode_request(request)).url


@pytest.mark.parametrize(("name", "base", "url"), ADDRESSES)
def test_an_address_has_one_version(name: str, base: str, url: str) -> None:
    assert url_of(provider_of(name, base_url=base)[0]) == url


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_base_says_the_version_or_leaves_it_out(name: str) -> None:
    preset = PROVIDERS[name]
    version = "/v1beta" if preset.dialect == "gemini" else "/v1"
    urls = {url_of(provider_of(name, base_url=base)[0]) for base in ("http://x/y", f"http://x/y{version}")}
    assert urls == {"http://x/y" + (version + OF_WIRE[preset.dialect] if preset.dialect in OF_WIRE else "/api/chat")}


def test_a_path_that_a_provider_says_has_no_version_but_its_own() -> None:
    given = provider_of("openai", base_url="http://x/v2", paths=(("/v1", ""),))[0]
    assert url_of(given) == f"http://x/v2{CHAT}"
    assert url_of(provider_of("openai", base_url="http://x", paths=(("/v1", ""),))[0]) == f"http://x{CHAT}"


VERSIONS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing said": ({}, {"anthropic-version": "2026-10-21"}),
    "a quirk": ({"quirks": {"api_version": "2023-06-01"}}, {"anthropic-version": "2023-06-01"}),
    "a header": ({"headers": {"Anthropic-Version": "2023-06-01"}}, {"anthropic-version": "2023-06-01"}),
}


@pytest.mark.parametrize("name", ["anthropic", "mine"])
@pytest.mark.parametrize("case", VERSIONS)
def test_each_provider_of_messages_says_its_version_and_is_written_to_in_it(case: str, name: str) -> None:
    options, said = VERSIONS[case]
    given = provider_of({"name": name, "dialect": "anthropic", "base_url": "http://x", **options}, "claude-x")[0]
    request = Request(context=Context(None, [Message("Hi")]), model="claude-x", temperature=0.5)
    encoded = given.speaks().encode_request(request, **quirks_for(request, given))
    headers = http_request_of(given, encoded).headers
    assert {key: value for key, value in headers.items() if key.lower() == "anthropic-version"} == said
    assert ("temperature" in encoded.body) == ("2023-06-01" in said.values())
    assert provider_of({"dialect": "gemini", "base_url": "http://x"})[0].version_header == {}


@pytest.mark.row("I-32")
def test_a_key_may_be_put_for_the_process() -> None:
    try:
        put_key("google", "k-1")
        assert provider_of("gemini")[0].key == "k-1"
        assert provider_of("gemini", api_key="k-2")[0].key == "k-2"
        assert "k-1" not in repr(provider_of("gemini")[0])
    finally:
        put_key("gemini", None)
    assert provider_of("gemini")[0].key is None
    with pytest.raises(UnknownProvider):
        put_key("nobody", "k")


# What is wrong with an address, and the words that say what would be right.
BAD_BASES = {
    "a user and a password": ("http://u:SENTINEL@host", "a key goes into `api_key`"),
    "a user": ("https://SENTINEL@host/v1", "a key goes into `api_key`"),
    "an empty user": ("http://@host", "a key goes into `api_key`"),
    "a user with an @ in the password": ("http://u:p@SENTINEL@host:1", "a key goes into `api_key`"),
    "a fragment": ("http://host/v1#SENTINEL", "write only https://host/path"),
    "an empty fragment": ("http://host#", "write only https://host/path"),
    "a query": ("http://host/?x=SENTINEL", "`query`, a map"),
    "an empty query": ("http://host/v1?", "`query`, a map"),
    "a query before the path": ("http://host?key=SENTINEL", "`query`, a map"),
    "no host": ("http://[::1/SENTINEL", "write it like"),
    "a line break": ("http://host/SENTINEL\nx: y", "write it like"),
    "a port too high": ("http://host:99999/SENTINEL", "write it like"),
    "a port in words": ("http://host:http/SENTINEL", "write it like"),
}


@pytest.mark.parametrize("case", BAD_BASES)
def test_a_base_url_that_says_more_is_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url, advice = BAD_BASES[case]
    ways: dict[str, Callable[[], object]] = {
        "openai": lambda: provider_of("openai", base_url=url),
        "azure": lambda: provider_of({"name": "azure", "base_url": url}),
        "custom": lambda: provider_of({"dialect": "ollama", "base_url": url}),
        "own": lambda: Provider(name="own", dialect="ollama", base_url=url),
        "ollama": lambda: PROVIDERS["ollama"].with_options(base_url=url),
        "groq": lambda: Client("groq", "m", base_url=url),
        "mistral": lambda: aio.Client(("mistral", {"base_url": url}), "m"),
    }
    for name, made in ways.items():
        with pytest.raises(InvalidField, match=f"^{re.escape(name)}: base_url .*{re.escape(advice)}") as raised:
            made()
        assert raised.value.field == "base_url"
        assert "SENTINEL" not in str(raised.value)
    for variable, name in (("OPENAI_BASE_URL", "openai"), ("OLLAMA_HOST", "ollama")):
        monkeypatch.setenv(variable, url)
        for given in (name, {"name": name}, f"{name}/m"):
            with pytest.raises(InvalidField, match=f"^{variable}: base_url ") as raised:
                provider_of(given)
            assert "SENTINEL" not in str(raised.value)
        assert provider_of(name, base_url="http://y")[0].base_url == "http://y"


def test_a_user_in_an_address_of_the_environment_without_a_scheme_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "u:p@gpu:1")
    with pytest.raises(InvalidField, match="OLLAMA_HOST: base_url has a user"):
        provider_of("ollama")
    assert provider_of("ollama", base_url="http://y")[0].base_url == "http://y"


@pytest.mark.parametrize("url", ["", "host:1", "//host", "https://", "http:///v1", "http://host/\x00"])
def test_an_address_without_a_host_is_refused(url: str) -> None:
    with pytest.raises(InvalidField, match="openai: base_url is not a URL; write it like https://host/path"):
        provider_of("openai", base_url=url)


@pytest.mark.parametrize(("name", "login"), [("openai", "Authorization"), ("gemini", "x-goog-api-key")])
def test_a_key_is_said_once_whatever_the_case_of_a_further_header(name: str, login: str) -> None:
    headers = {login.upper(): "other", login.lower(): "other", "x-more": "1"}
    given = provider_of(name, api_key="k" * 20, headers=headers)[0]
    said = [value for header, value in headers_of(given).items() if header.lower() == login.lower()]
    assert [value.removeprefix("Bearer ") for value in said] == ["k" * 20]
    assert headers_of(given)["x-more"] == "1"


@pytest.mark.parametrize(
    ("name", "variable", "login"),
    [("openai", "OPENAI_API_KEY", "Authorization"), ("anthropic", "ANTHROPIC_API_KEY", "X-Api-Key")],
)
def test_a_key_of_the_environment_goes_nowhere_beside_a_login_of_the_caller(
    name: str, variable: str, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "sk-of-the-environment")
    url = "https://proxy.example/v1"
    for headers in ({login: "mine"}, {"authorization": "Bearer mine"}):
        sent = headers_of(provider_of(name, base_url=url, headers=headers)[0])
        assert not [value for value in sent.values() if "sk-of" in value]
        assert sent[next(iter(headers))].endswith("mine")
    assert not [
        value for value in headers_of(provider_of(name, base_url=url, api_key="")[0]).values() if "sk-of" in value
    ]
    assert [value for value in headers_of(provider_of(name, base_url=url)[0]).values() if "sk-of" in value]


@pytest.mark.parametrize(
    ("given", "model", "meant"),
    [
        (None, "openrouter/openrouter/auto", "openrouter/auto"),
        ("openrouter/openrouter/auto", None, "openrouter/auto"),
        ("openrouter", "openrouter/openrouter/auto", "openrouter/auto"),
        ("groq", "groq/groq/compound", "groq/compound"),
        ("openai", "openai/gpt-4", "gpt-4"),
        ("openai", "gpt-4", "gpt-4"),
    ],
)
def test_a_prefix_is_taken_off_a_model_once(given: Any, model: str | None, meant: str) -> None:
    assert provider_of(given, model)[1] == meant


@pytest.mark.parametrize("header", ["Content-Length", "transfer-encoding"])
def test_what_the_body_says_is_no_header_to_pass(header: str) -> None:
    with pytest.raises(InvalidField, match=f"openai: {header} describes the body"):
        headers_of(provider_of("openai", api_key="k", headers={header: "0"})[0])


def test_a_query_has_its_own_place_and_a_path_may_have_an_at_sign() -> None:
    given = provider_of("openai", base_url="http://host/a@b/v1", query={"x": "1"})[0]
    sent = http_request_of(
        given, given.speaks().encode_request(Request(context=Context(None, [Message("Hi")]), model="m"))
    )
    assert sent.url == "http://host/a@b/v1/chat/completions?x=1"
    with pytest.raises(InvalidField, match="openai: base_url must be a string, not NoneType"):
        provider_of("openai", base_url=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [5, b"openai/gpt-4o", ["openai/gpt-4o"], {}])
@pytest.mark.parametrize("provider", [None, "openai", {"name": "x", "dialect": "gemini", "base_url": "http://x.test"}])
def test_a_model_that_is_no_name_is_refused(provider: Any, model: Any) -> None:
    with pytest.raises(InvalidField, match=f"^model must be a string, not {type(model).__name__}$"):
        provider_of(provider, model)
