"""Secrets in the settings of a provider: no client, stored answer, trace or report gets one of them back."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace
from websockets.sync.client import connect

from tests.gateway.standing import KEY, NAMES, TWO_WIRES, WIRES, Stood, There, at, post, send, standing
from toolwire import traces
from toolwire.dialects import dialect
from toolwire.gateway import starting
from toolwire.gateway.auditing import Audit
from toolwire.providers import Provider
from toolwire.streams.accumulation import events_of
from toolwire.types import (
    CallDelta,
    Choice,
    Context,
    Error,
    Event,
    Message,
    Request,
    Response,
    Text,
    TextDelta,
    Tool,
    ToolCall,
)

HEADERS = {
    "x-extra": "canary/of+a-header&0001",
    "x-team-token": "t0k/3n-9",
    "cookie": "session=c00kie-1; theme=dark",
    "x-login": "Basic " + base64.b64encode(b"someone:pass-word-7").decode(),
    "x-version": "2023-06-01",
    "x-on": "true",
    "user-agent": "a program that everybody may know",
}
QUERY = {"sig": "canary-of-a-query-0002", "api-version": "2024-10-01-preview"}
PROXY = "http://somebody:proxy-pass-8@127.0.0.1:9"
SECRETS = {
    "key": KEY,
    "header": "canary/of+a-header&0001",
    "token": "t0k/3n-9",
    "cookie": "c00kie-1",
    "login": HEADERS["x-login"].partition(" ")[2],
    "password": "pass-word-7",
    "query": "canary-of-a-query-0002",
    "proxy": "proxy-pass-8",
}
OPEN = ("2023-06-01", "true", "a program that everybody may know", "dark", "2024-10-01-preview", "somebody")
FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "Base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "hex": lambda secret: secret.encode().hex(),
    "URL": lambda secret: quote(secret, safe=""),
    "slashes": lambda secret: secret.replace("/", "\\/"),
}


class Repeating(There):
    """A server that gives the same answer each time."""

    async def asend(self, request: Any, *more: Any) -> Any:
        """Answer with all the pieces."""
        return await There(self.status, self.headers, self._pieces[::-1]).asend(request, *more)


def providers() -> dict[str, Provider]:
    """Give a provider of each wire whose settings hold secrets."""
    url = "http://127.0.0.1:9"
    return {name: at(url, name, headers=HEADERS, query=QUERY) for name in NAMES.values()}


@pytest.fixture(scope="module")
def stood() -> Iterator[Stood]:
    with standing("http://127.0.0.1:9", providers=providers()) as gateway:
        gateway.gateway.context.proxy = PROXY
        yield gateway


def ask(stood: Stood, wire: str, target: str, there: There, *, stream: bool = False, **more: Any) -> str:
    """Ask in a wire, and give all that the client is told, headers and body."""
    tools = [Tool("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}})]
    request = Request(
        context=Context(None, [Message("?")], tools), model=f"{NAMES[target]}/m", stream=stream, max_tokens=9
    )
    encoded = dialect(wire).encode_request(request)
    stood.gateway.context.transport = there
    answered = post(stood.url, encoded.path, json.dumps({**encoded.body, **more}).encode())
    return f"{answered.status} {answered.headers} {answered.data.decode()}"


def spelled(event: Event) -> list[Event]:
    """Cut the text of an event into single characters."""
    match event:
        case TextDelta(text=text):
            return [replace(event, text=one) for one in text]
        case CallDelta(fragment=fragment):
            return [replace(event, fragment=one) for one in fragment]
    return [event]


def answer(target: str, *parts: Any, stream: bool, by_letters: bool = False) -> There:
    """Give a server that answers well, in pieces that cut a frame."""
    response = Response(choices=[Choice(Message("assistant", [*parts]), "tool_calls" if len(parts) > 1 else "stop")])
    if not stream:
        return Repeating(200, {"content-type": "application/json"}, [dialect(target).encode_response(response).json])
    writer = dialect(target).encode_stream()
    events = [one for event in events_of(response) for one in (spelled(event) if by_letters else [event])]
    frames = b"".join(map(writer.feed, events)) + writer.close()
    kind = "application/x-ndjson" if target == "ollama" else "text/event-stream"
    return Repeating(200, {"content-type": kind}, [frames[at : at + 7] for at in range(0, len(frames), 7)])


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("wire", TWO_WIRES)
def test_an_error_holds_no_secret(wire: str, target: str, secret: str, form: str, stood: Stood) -> None:
    said = FORMS[form](SECRETS[secret])
    error = dialect(target).encode_error(Error("authentication", f"who is <{said}>?", 401, code=said))
    there = Repeating(401, {"content-type": "application/json", "x-ratelimit-of": said}, [error.json])
    for stream in (False, True):
        told = ask(stood, wire, target, there, stream=stream)
        assert told.startswith("401")
        assert "who is" in told
        assert said not in told
        assert SECRETS[secret] not in told


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("wire", TWO_WIRES)
def test_an_answer_holds_no_secret_in_its_text_and_its_calls(
    wire: str, target: str, secret: str, form: str, stream: bool, stood: Stood
) -> None:
    said = FORMS[form](SECRETS[secret])
    call = ToolCall("call_1", "look", {"at": f"<{said}>"})
    told = ask(stood, wire, target, answer(target, Text(f"It is {said}."), call, stream=stream), stream=stream)
    assert told.startswith("200")
    assert "It is [hidden]" in told
    assert said not in told
    assert SECRETS[secret] not in told


@pytest.mark.sampled
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("wire", WIRES[:2])
def test_an_answer_whose_characters_json_spells_holds_no_secret(
    wire: str, target: str, secret: str, stood: Stood
) -> None:
    said = "".join(f"\\u00{ord(one):02X}" if one in "-/+&" else one for one in SECRETS[secret])
    for stream in (False, True):
        there = answer(target, Text("It is CANARY."), stream=stream)
        frames = b"".join(there._pieces).replace(b"CANARY", said.encode())
        cuts = [frames[at : at + 5] for at in range(0, len(frames), 5)]
        told = ask(stood, wire, target, Repeating(200, there.headers, cuts), stream=stream)
        assert "It is [hidden]." in told
        assert said not in told


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", WIRES)
def test_plain_words_of_the_settings_stay_in_answers(target: str, stream: bool, stood: Stood) -> None:
    said = " ".join(OPEN)
    told = ask(stood, "openai-chat", target, answer(target, Text(said), stream=stream), stream=stream)
    assert said in told


@pytest.mark.parametrize("secret", SECRETS)
def test_what_is_no_answer_of_a_model_holds_no_secret(secret: str, stood: Stood) -> None:
    for kind, whole in (
        ("application/json", b'{"data": [], "model": "%s"}'),
        ("text/event-stream", b'data: {"text": "%s"}\n\n'),
        ("audio/mpeg", b"\x00%s\xff"),
        (f"text/{SECRETS[secret]}", b"%s"),
    ):
        body = whole % SECRETS[secret].encode()
        there = Repeating(200, {"content-type": kind}, [body[at : at + 1] for at in range(len(body))])
        stood.gateway.context.transport = there
        answered = post(stood.url, "/v1/embeddings", b'{"model": "openai/e", "input": "x"}')
        assert (answered.status, answered.data) == (200, whole % b"[hidden]")
        assert SECRETS[secret] not in str(answered.headers)


FOREIGN = tuple(wire for wire in WIRES if wire != "openai-responses")


@pytest.mark.sampled
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("target", FOREIGN)
def test_a_secret_that_is_spelled_out_is_not_put_together_again(
    target: str, secret: str, stood: Stood, tmp_path: Path
) -> None:
    said = SECRETS[secret]
    parts = Text(f"It is {said}."), ToolCall("call_1", "look", {"at": f"<{said}>"})
    store = traces.open(f"sqlite:///{tmp_path / 'traces.db'}")
    stood.gateway.context.audit = Audit(store, getattr(stood.gateway.context, "recorded_secrets", lambda: [KEY]))
    told = ask(stood, "openai-responses", target, answer(target, *parts, stream=True, by_letters=True), stream=True)
    assert "response.completed" in told
    assert "It is [hidden]." in told
    assert said not in told
    name = json.loads(told.partition("event: response.completed\ndata: ")[2].partition("\n")[0])["response"]["id"]
    for path in (f"/v1/responses/{name}", f"/v1/responses/{name}?stream=true"):
        stored = send(stood.url, "GET", path, None)
        assert (stored.status, said.encode() in stored.data) == (200, False)
    stood.settle()
    stood.gateway.context.audit._thread.submit(store.flush).result()
    stood.gateway.context.audit = None
    assert [row.tool_name for row in store.traces().rows] == ["look"]
    store.close()
    assert said.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("wire", ["gemini", "ollama", "openai-responses"])
def test_a_secret_in_the_fragments_of_a_call_is_not_put_together_again(wire: str, stood: Stood) -> None:
    for target in ("openai-chat", "anthropic"):
        for secret in SECRETS.values():
            parts = Text("Look."), ToolCall("call_1", "look", {"at": f"<{secret}>"})
            there = answer(target, *parts, stream=True, by_letters=True)
            told = ask(stood, wire, target, there, stream=True)
            assert "look" in told
            assert secret not in told


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_several_blocks_is_not_joined(secret: str, stood: Stood) -> None:
    parts = [Text(one) for one in SECRETS[secret]]
    told = ask(stood, "openai-chat", "anthropic", answer("anthropic", *parts, stream=False))
    assert '"content":"[hidden]"' in told


def test_a_gateway_keeps_the_secrets_of_its_settings_out_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PROXY", PROXY)
    file = tmp_path / "toolwire.toml"
    (tmp_path / "key").write_text("a-key-of-a-file-0003\n")
    place = '[providers.local]\ndialect = "openai-chat"\nbase_url = "http://127.0.0.1:9"\nkey_file = "key"\n'
    file.write_text(f'[upstream]\nproxy = "$SOME_PROXY"\n{place}headers = {{ "x-extra" = "{HEADERS["x-extra"]}" }}\n')
    settings = starting.settings_from(str(file))
    gateway = starting.gateway_of(starting.routes_of(settings, str(file), {}), settings, str(file))
    wanted = {"a-key-of-a-file-0003", HEADERS["x-extra"], "proxy-pass-8", "somebody:proxy-pass-8"}
    assert wanted <= set(gateway.context.recorded_secrets())
    assert wanted <= set(gateway.context.all_secrets().texts)
    monkeypatch.setenv("SOME_PROXY", PROXY.replace("proxy-pass-8", "another-pass"))
    gateway.log = None
    assert starting.reload(gateway, str(file))
    assert "another-pass" in gateway.context.recorded_secrets()


def test_a_websocket_gets_no_secret(stood: Stood) -> None:
    for target in FOREIGN:
        for secret in SECRETS.values():
            there = answer(target, Text(f"It is {secret}."), stream=True, by_letters=True)
            stood.gateway.context.transport = there
            with connect(f"ws{stood.url.removeprefix('http')}/v1/responses") as socket:
                socket.send(json.dumps({"type": "response.create", "model": f"{NAMES[target]}/m", "input": "?"}))
                told = [str(socket.recv(timeout=10))]
                while json.loads(told[-1])["type"] not in ("response.completed", "error"):
                    told.append(str(socket.recv(timeout=10)))
            assert "It is [hidden]." in told[-1]
            assert secret not in "".join(told)


def test_a_summary_and_a_report_hold_no_secret(stood: Stood) -> None:
    stood.gateway.context.transport = answer("anthropic", Text("It is "), *map(Text, f"{KEY}."), stream=False)
    answered = post(stood.url, "/v1/responses/compact", b'{"model": "anthropic/m", "input": "?"}')
    [sealed] = [item for item in json.loads(answered.data)["output"] if item["type"] == "compaction"]
    text = base64.urlsafe_b64decode(sealed["encrypted_content"].partition(":")[2]).decode()
    assert text == "It is [hidden]."
    odd = {"id": "m", "type": "message", "role": "assistant", "stop_reason": "end_turn", "content": []}
    block = {"type": "server_tool_use", "id": "s", "name": KEY, "input": {KEY: 1}}
    body = json.dumps({**odd, "content": [block, {"type": "text", "text": "Hello."}]}).encode()
    stood.gateway.context.transport = Repeating(200, {"content-type": "application/json"}, [body])
    answered = post(
        stood.url, "/v1/chat/completions", b'{"model": "anthropic/m", "messages": [{"role": "user", "content": "?"}]}'
    )
    report = send(stood.url, "GET", f"/toolwire/requests/{answered.headers['x-toolwire-request']}/losses", None)
    assert report.status == 200
    assert KEY.encode() not in answered.data + report.data
