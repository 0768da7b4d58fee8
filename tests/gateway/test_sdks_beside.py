"""What the vendors' SDKs ask beside answers: models, counts, vectors; and what no gateway has, as each SDK says it."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import google.genai.errors
import ollama
import openai
import pytest
from google import genai

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, standing
from tests.gateway.talkers import TALKERS, Clients, Face, Wish, each, got
from toolwire.testing import Scenario

Asking = Callable[[Any], Any]
FACES: tuple[Face, ...] = ("sync", "async")
KNOWN = "openai/gpt-6-sol"
COLON = "ollama/qwen3:8b"
ASKED: Any = [{"role": "user", "content": "How many tokens are this?"}]


@pytest.fixture(scope="session")
def clients() -> Iterator[Clients]:
    made = Clients()
    yield made
    made.close()


async def _named(client: Any, sdk: str) -> list[str]:
    if sdk == "ollama":
        return [str(model.model) for model in (await got(client.list())).models]
    pages = await got(client.models.list())
    return [str(getattr(model, "id", None) or getattr(model, "name", None)) async for model in each(pages)]


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("sdk", TALKERS)
def test_models_are_listed_and_shown(sdk: str, face: Face, lenient_model: Playing, clients: Clients) -> None:
    with lenient_model(Scenario([])) as stood:
        client = clients.at(stood.url, sdk, face)
        names = clients.run(face, _named(client, sdk))
        assert [name.removeprefix("models/") for name in names].count(KNOWN) == 1
        for name in (KNOWN, COLON, "gemini/gemini-3-pro"):
            shown = clients.run(face, _shown(client, sdk, name))
            if sdk != "ollama":
                assert str(getattr(shown, "id", None) or shown.name).removeprefix("models/") == name
        with pytest.raises(NOT_FOUND[sdk]):
            clients.run(face, _shown(client, sdk, "nobody/m"))
        assert stood.requests == []


async def _shown(client: Any, sdk: str, name: str) -> Any:
    if sdk == "ollama":
        return await got(client.show(name))
    return await got(client.models.get(model=name) if sdk == "gemini" else client.models.retrieve(name))


async def _got(value: Any) -> Any:
    return await got(value)


NOT_FOUND: dict[str, type[Exception]] = {
    "openai-chat": openai.NotFoundError,
    "openai-responses": openai.NotFoundError,
    "anthropic": anthropic.NotFoundError,
    "gemini": google.genai.errors.ClientError,
    "ollama": ollama.ResponseError,
}


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("wire", WIRES)
def test_tokens_are_counted_by_the_provider_or_by_an_estimate(
    wire: str, face: Face, lenient_model: Playing, clients: Clients
) -> None:
    name = f"{NAMES[wire]}/m"
    asks: dict[str, Callable[[Any], Any]] = {
        "openai-responses": lambda client: client.responses.input_tokens.count(model=name, input=ASKED),
        "anthropic": lambda client: client.messages.count_tokens(model=name, messages=ASKED),
        "gemini": lambda client: client.models.count_tokens(model=name, contents="How many tokens are this?"),
    }
    with lenient_model(Scenario([])) as stood:
        for sdk, ask in asks.items():
            told = clients.run(face, _got(ask(clients.at(stood.url, sdk, face))))
            assert 5 < (told.total_tokens if sdk == "gemini" else told.input_tokens) < 50
            assert len(stood.requests) == (sdk == wire)  # the provider counts what is of its own wire
            stood.requests.clear()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.slow
def test_a_name_with_a_colon_is_asked_by_every_sdk(wire: str, lenient_model: Playing, clients: Clients) -> None:
    for sdk, stream in [(sdk, stream) for sdk in TALKERS for stream in (False, True)]:
        with lenient_model(Scenario([["Hi."]])) as stood:
            talker = TALKERS[sdk](clients.at(stood.url, sdk, "sync"), f"{NAMES[wire]}/m:8b", Wish(), stream=stream)
            talker.says("Hello")
            assert clients.run("sync", talker.ask()).text == "Hi."
            assert stood.requests[0].request is not None
            assert stood.requests[0].request.model == "m:8b"


ABSENT: dict[str, dict[str, Asking]] = {
    "openai-chat": {
        "files": lambda client: client.files.list(),
        "a file sent": lambda client: client.files.create(file=b"x", purpose="batch"),
        "batches": lambda client: client.batches.list(),
        "vector stores": lambda client: client.vector_stores.list(),
        "a stored completion": lambda client: client.chat.completions.retrieve("chatcmpl-1"),
        "a model taken away": lambda client: client.models.delete(KNOWN),
        "vectors of another wire": lambda client: client.embeddings.create(model="anthropic/m", input="x"),
        "an older wire": lambda client: client.completions.create(model="gemini/m", prompt="x"),
    },
    "openai-responses": {
        "a stored answer": lambda client: client.responses.retrieve("resp_abc123"),
        "a stored answer taken away": lambda client: client.responses.delete("resp_abc123"),
        "an answer called off": lambda client: client.responses.cancel("resp_abc123"),
        "items of an answer": lambda client: client.responses.input_items.list("resp_abc123"),
        "conversations": lambda client: client.conversations.retrieve("conv_abc123"),
    },
    "anthropic": {
        "batches": lambda client: client.messages.batches.list(),
        "a batch sent": lambda client: client.messages.batches.create(requests=[]),
        "files": lambda client: client.beta.files.list(),
        "skills": lambda client: client.beta.skills.list(),
    },
    "gemini": {
        "files": lambda client: client.files.list(),
        "a file": lambda client: client.files.get(name="files/a"),
        "caches": lambda client: client.caches.list(),
        "a cache": lambda client: client.caches.create(model="gemini/m"),
        "batches": lambda client: client.batches.list(),
        "vectors of another wire": lambda client: client.models.embed_content(model="openai/m", contents="x"),
    },
    "ollama": {
        "what runs": lambda client: client.ps(),
        "a model fetched": lambda client: client.pull("m"),
        "vectors of another wire": lambda client: client.embed("openai/m", "x"),
        "an older wire": lambda client: client.generate("openai/m", "x"),
    },
}
ROWS = [(sdk, what) for sdk, asks in ABSENT.items() for what in asks]


@pytest.mark.sampled
@pytest.mark.parametrize(("sdk", "what"), ROWS)
def test_what_there_is_not_is_not_found(sdk: str, what: str, lenient_model: Playing, clients: Clients) -> None:
    with lenient_model(Scenario([])) as stood:
        for face in FACES:
            with pytest.raises(NOT_FOUND[sdk]) as raised:
                clients.run(face, _got(ABSENT[sdk][what](clients.at(stood.url, sdk, face))))
            problem: Any = raised.value
            assert getattr(problem, "status_code", getattr(problem, "code", None)) == 404
            said = getattr(problem, "body", None) or getattr(problem, "details", None) or problem.error
            if isinstance(said, dict):
                said = said.get("error", said)["message"]
            assert isinstance(said, str)
            assert "{" not in said
            assert said
        assert stood.requests == []


def test_an_sdk_finds_the_id_of_a_request_where_its_vendor_says_it(lenient_model: Playing, clients: Clients) -> None:
    with lenient_model(Scenario([["Hi."]], repeat=True)) as stood:
        chat = clients.at(stood.url, "openai-chat", "sync").chat.completions
        assert chat.create(model="anthropic/m", messages=ASKED)._request_id == stood.seen[-1]["request"]
        raw = chat.with_raw_response.create(model="anthropic/m", messages=ASKED)
        assert raw.headers["x-toolwire-model"] == "anthropic/m"
        assert raw.parse().choices[0].message.content == "Hi."
        with chat.with_streaming_response.create(model="gemini/m", messages=ASKED, stream=True) as streamed:
            assert b"[DONE]" in b"".join(streamed.iter_bytes())
        messages = clients.at(stood.url, "anthropic", "sync").messages
        asked: Any = {"max_tokens": 9, "messages": ASKED}
        assert messages.create(model="openai/m", **asked)._request_id == stood.seen[-1]["request"]
        with pytest.raises(anthropic.NotFoundError) as raised:
            messages.create(model="nobody/m", **asked)
        assert raised.value.request_id == stood.seen[-1]["request"]


def test_beta_headers_go_to_their_own_vendor_alone(lenient_model: Playing, clients: Clients) -> None:
    with lenient_model(Scenario([["Hi."]], repeat=True)) as stood:
        beta = clients.at(stood.url, "anthropic", "sync").beta.messages
        asked: Any = {"max_tokens": 9, "messages": ASKED, "betas": ["one-2026", "two-2026"]}
        for name, told in (("anthropic/m", "one-2026,two-2026"), ("openai/m", None), ("gemini/m", None)):
            assert beta.create(model=name, **asked).content[0].text == "Hi."
            assert stood.requests[-1].headers.get("anthropic-beta") == told


@pytest.mark.parametrize("wire", WIRES)
def test_a_conversation_that_no_server_holds_is_refused_as_its_vendor_does(
    wire: str, lenient_model: Playing, clients: Clients
) -> None:
    name = f"{NAMES[wire]}/m"
    with lenient_model(Scenario([], complete=False)) as stood:
        messages = clients.at(stood.url, "anthropic", "sync").beta.messages
        with pytest.raises(anthropic.BadRequestError) as thread:
            messages.create(model=name, max_tokens=9, messages=ASKED, thread={"type": "create"})
        problem: Any = thread.value
        assert problem.body["error"]["details"]["error_code"] == "thread_unsupported_request"
        if wire != "openai-responses":  # there the vendor itself knows its answers
            responses = clients.at(stood.url, "openai-responses", "sync").responses
            with pytest.raises(openai.BadRequestError) as answer:
                responses.create(model=name, input=ASKED, previous_response_id="resp_abc")
            assert (answer.value.code, answer.value.param) == ("previous_response_not_found", "previous_response_id")
            assert stood.requests[wire == "anthropic" :] == []


VECTORS: dict[str, Any] = {
    "/v1/embeddings": {
        "object": "list",
        "model": "e",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}],
        "usage": {"prompt_tokens": 17, "total_tokens": 17},
    },
    "/v1beta/models/e:8b:batchEmbedContents": {"embeddings": [{"values": [0.5, -1.0]}]},
    "/api/embed": {"model": "e", "embeddings": [[0.5, -1.0]], "prompt_eval_count": 18},
}
# A text that looks like the name of a model.
MODEL = "models/gemini/e:8b"
OLDER = b'{"response":"Gr","done":false}\n{"response":"\xc3\xbc\xc3\x9fe","done":true}\n'


class _Vendor(BaseHTTPRequestHandler):
    """A server that has what is beside answers."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append((self.path, body))
        data = OLDER if self.path == "/api/generate" else json.dumps(VECTORS[self.path]).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def vendor() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    asked: list[tuple[str, Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Vendor", (_Vendor,), {"asked": asked}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.slow
def test_vectors_come_from_a_provider_of_the_wire(
    face: Face, vendor: tuple[str, list[tuple[str, Any]]], clients: Clients
) -> None:
    url, asked = vendor
    with standing(url) as stood:
        chat = clients.at(stood.url, "openai-chat", face)
        for provider in ("openai", "openai-responses"):  # one vendor
            told = clients.run(face, _got(chat.embeddings.create(model=f"{provider}/e", input=["x"])))
            assert told.data[0].embedding == [0.5, -1.0]
            assert asked.pop() == ("/v1/embeddings", {"model": "e", "input": ["x"], "encoding_format": "base64"})
            assert stood.seen[-1]["input_tokens"] == 17, "as it was counted"
        gemini: genai.Client = clients.at(stood.url, "gemini", face)
        told = clients.run(
            face, _got(gemini.models.embed_content(model="gemini/e:8b", contents=["models/gemini/e:8b"]))
        )
        assert told.embeddings[0].values == [0.5, -1.0]
        [(path, body)] = asked
        assert path == "/v1beta/models/e:8b:batchEmbedContents"
        assert [request["model"] for request in body["requests"]] == ["models/e:8b"]
        assert body["requests"][0]["content"]["parts"][0]["text"] == MODEL
        own = clients.at(stood.url, "ollama", face)
        assert clients.run(face, _got(own.embed("ollama/e", ["x"]))).embeddings == [[0.5, -1.0]]
        assert asked[-1][1]["model"] == "e"
        assert stood.seen[3]["input_tokens"] == 18


def test_an_older_wire_passes_as_it_is(vendor: tuple[str, list[tuple[str, Any]]], clients: Clients) -> None:
    url, asked = vendor
    with standing(url) as stood:
        client: ollama.Client = clients.at(stood.url, "ollama", "sync")
        chunks = list(client.generate("ollama/m", "?", stream=True))
        assert "".join(chunk.response or "" for chunk in chunks) == "Gr\u00fc\u00dfe"
        assert asked[-1][1]["model"] == "m"
