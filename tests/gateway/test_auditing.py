"""The audit trace of the gateway: a row for each call and each result, in every wire, with nothing secret in it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.standing import KEY, NAMES, TWO_WIRES, WIRES, Stood, ask, post, standing
from toolwire import traces
from toolwire.cli import main
from toolwire.config import read_settings
from toolwire.config.settings import InvalidSettings
from toolwire.dialects import dialect
from toolwire.gateway.auditing import Audit
from toolwire.testing import Cut, Scenario, simulate
from toolwire.traces import Trace
from toolwire.types import Context, Message, Request, Response, Text, Tool, ToolCall, ToolResult

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [Tool("look", "Look.", SCHEMA), Tool("now", "Say the time.", SCHEMA)]
CALLS = [ToolCall(None, "look", {"city": "Bern"}), ToolCall(None, "now", {}), ToolCall(None, "look", {"city": "Rome"})]
OURS = "tw-0123456789abcdef0123456789abcdef"


def rows(store: traces.Store, count: int) -> list[Trace]:
    """Wait until so many rows are there, and read them."""
    end = time.monotonic() + 10
    while True:
        found = [*store.traces(limit=100).rows]
        if len(found) >= count or time.monotonic() > end:
            return found
        time.sleep(0.02)


def answer(stood: Stood, wire: str, request: Request) -> tuple[Request, Response]:
    """Ask, and give the next request, with a result for each call; the second one failed."""
    response, _ = ask(stood.url, wire, request, {"x-api-key": OURS} if wire != "gemini" else {"x-goog-api-key": OURS})
    results = [
        Message("tool", [ToolResult(call.id, call.name, f"result {place}", is_error=place == 1)])
        for place, call in enumerate(response.tool_calls)
    ]
    context = Context(None, [*request.messages, response.message, *results], TOOLS)
    return Request(context=context, model=request.model, stream=request.stream, max_tokens=99), response


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", ["anthropic", "gemini"])
@pytest.mark.parametrize("source", WIRES)
def test_each_call_and_each_result_is_a_row(source: str, target: str, stream: bool, tmp_path: Path) -> None:
    turns = Scenario([["I look.", *CALLS], [ToolCall(None, "now", {"city": "Oslo"})], ["Done."]])
    store = traces.open(f"sqlite:///{tmp_path / 'traces.db'}")
    with simulate(turns, strict=False) as model, standing(model.url, audit=Audit(store)) as stood:
        name = f"{NAMES[target]}/m"
        request = Request(context=Context(None, [Message("Where?")], TOOLS), model=name, stream=stream, max_tokens=99)
        request, _ = answer(stood, source, request)
        request, _ = answer(stood, source, request)
        again, last = answer(stood, source, request)
        assert last.content == "Done."
        found = rows(store, 8)
        begun = [one for one in found if one.kind == "begun"]
        ended = [one for one in found if one.kind is None]
        said = [("look", {"city": "Bern"}), ("now", {}), ("look", {"city": "Rome"}), ("now", {"city": "Oslo"})]
        for several in (begun, ended):
            assert [(one.tool_name, one.arguments) for one in several] == said
            assert [one.iteration for one in several] == [0, 0, 0, 1]
        assert [one.ending for one in ended][0::2] == ["ok", "ok"]
        assert [one.ending for one in ended][3] == "ok"
        failed = "error" if source in ("anthropic", "gemini") else ended[1].ending  # the others have no flag
        assert ended[1].ending == failed
        assert all(f"result {place}" in str(one.result) for place, one in enumerate(ended[:3]))
        assert len({one.conversation_id for one in found}) == 1
        assert {(one.provider, one.model, one.dialect) for one in found} == {(NAMES[target], "m", source)}
        assert all(one.duration_ms > 0 for one in ended)
        assert all(one.session and one.session.startswith("tw_") for one in found)
        assert [one.call_id for one in ended] == [one.call_id for one in begun] or source in ("gemini", "ollama")
        assert again is not None
        assert store.count() == 4
    with traces.open(f"sqlite:///{tmp_path / 'traces.db'}") as after:
        assert after.verify().count == 0


@pytest.mark.parametrize("wire", TWO_WIRES)
def test_what_is_repeated_is_recorded_once_and_what_was_cut_off_is_no_call(wire: str, tmp_path: Path) -> None:
    turns = [[CALLS[0]], ["Well."], ["Well."], [Text("I look."), CALLS[0], Cut(events=2)]]
    store = traces.open(f"sqlite:///{tmp_path / 'traces.db'}")
    audit = Audit(store)
    with simulate(Scenario(turns), strict=False) as model, standing(model.url, audit=audit) as stood:
        name = f"{NAMES[wire]}/m"
        request = Request(context=Context(None, [Message("Where?")], TOOLS), model=name, stream=False, max_tokens=99)
        request, _ = answer(stood, wire, request)
        answer(stood, wire, request)
        answer(stood, wire, request)  # as a client does that lost its connection
        encoded = Request(context=Context(None, [Message("?")], TOOLS), model=name, stream=True, max_tokens=99)
        cut = dialect(wire).encode_request(encoded)
        post(stood.url, cut.path, cut.json)
        stood.settle()
        audit._thread.submit(store.flush).result()  # behind what is recorded
        found = rows(store, 2)
        assert [one.kind for one in found][:2] == ["begun", None]
        assert all(one.ending == "invalid" for one in found[2:])


def test_nothing_secret_is_in_a_row(tmp_path: Path) -> None:
    database = tmp_path / "traces.db"
    store = traces.open(f"sqlite:///{database}")
    given = {"city": f"at {KEY}", "password": "open-sesame-1234", "note": f"say {OURS}", "again": "open-sesame-1234"}
    said = f"the key is {KEY}, mine is {OURS}, and the words are open-sesame-1234; api_key=abcdef0123456789abcdef"
    turns = Scenario([["A sentence of the model.", ToolCall(None, "look", given)], ["Done."]])
    with simulate(turns) as model, standing(model.url, audit=Audit(store, lambda: [KEY])) as stood:
        body = {"model": "openai/m", "messages": [{"role": "user", "content": "A sentence of the user."}]}
        headers = {"x-api-key": OURS}
        first = json.loads(post(stood.url, "/v1/chat/completions", json.dumps(body).encode(), headers).data)
        message = first["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": said}
        body["messages"] = [*body["messages"], message, result]
        post(stood.url, "/v1/chat/completions", json.dumps(body).encode(), headers)
        found = rows(store, 2)
        assert [one.tool_name for one in found] == ["look", "look"]
        assert set(found[0].arguments) == set(given)
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (KEY, OURS, "open-sesame-1234", "abcdef0123456789abcdef", "A sentence"):
        assert secret.encode() not in written, secret


class _Broken:
    failed = "the disk is full"

    def record(self, trace: Any) -> None:
        raise traces.StoreFailed(f"no {type(trace).__name__}")

    def close(self) -> None: ...


def test_a_store_that_fails_stops_requests_only_where_the_settings_say_so() -> None:
    body = b'{"model": "openai/m", "messages": [{"role": "user", "content": "?"}]}'
    for stops, status in ((False, 200), (True, 503)):
        audit, turns = Audit(_Broken(), stops=stops), Scenario([[CALLS[0]]], complete=False)
        with simulate(turns) as model, standing(model.url, audit=audit) as stood:
            assert post(stood.url, "/v1/chat/completions", body).status == status
            assert len(model.requests) == (not stops)


@pytest.mark.slow
def test_the_settings_name_the_store_and_a_gateway_writes_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in ("traces.db", "mysql://x/y", "sqlite:///"):
        with pytest.raises(InvalidSettings, match=r"traces\.url must be"):
            read_settings(f'[traces]\nurl = "{wrong}"')
    with pytest.raises(InvalidSettings, match=r"did you mean url"):
        read_settings('[traces]\nurk = "sqlite:///a.db"')
    file = tmp_path / "toolwire.toml"
    with simulate([[CALLS[0]]]) as model:
        provider = f'[providers.openai]\nbase_url = "{model.url}"\nkey = "$SOME_KEY"\n'
        file.write_text(f'[traces]\nurl = "sqlite:///audit.db"\n{provider}')
        command = [sys.executable, "-m", "toolwire", "serve", "--config", str(file), "--listen", "127.0.0.1:0"]
        environment = {**os.environ, "SOME_KEY": KEY}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            url = process.stdout.readline().decode().split()[-1]
            body = b'{"model": "openai/m", "messages": [{"role": "user", "content": "?"}]}'
            assert post(url, "/v1/chat/completions", body).status == 200
            process.terminate()
            assert process.wait(20) == 0
    with traces.open(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        assert [one.tool_name for one in store.traces().rows] == ["look"]
        assert store.verify().count == 0
    assert main(["traces", "verify", "--url", f"sqlite:///{tmp_path / 'audit.db'}"]) == 0
    capsys.readouterr()
    assert main(["config", "show", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["traces"] == {"url": "sqlite:///audit.db", "failing": "continue"}
