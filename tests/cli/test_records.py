"""`toolwire record` and `toolwire replay`: what is shown and exported of records, and how answers are compared."""

import json
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.records.test_store import full
from toolwire import records
from toolwire.cli import main
from toolwire.records import Body, EarlierExchange, Frame, Record
from toolwire.records.record import record_of
from toolwire.testing import simulate
from toolwire.types import Error, ToolCall, Usage

ESCAPE = "\x1b]52;c;aGk=\x07"
REQUEST: dict[str, Any] = {
    "model": "fast",
    "messages": [{"role": "user", "content": "Where?"}],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}],
    "seed": 7,
}
ANSWER: dict[str, Any] = {
    "id": "x",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": {"content": []},
            "message": {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Bern"}'}}
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
}


def chat(identity: str = "one", **values: Any) -> Record:
    """Return the record of a chat request that passed through."""
    body = Body(data=json.dumps(REQUEST).encode(), headers={"content-type": "application/json", "host": "gw:8080"})
    answer = Body(data=json.dumps(ANSWER).encode(), headers={"content-type": "application/json"})
    given = {
        "wire": "openai-chat",
        "provider_wire": "openai-chat",
        "path": "/v1/chat/completions?x=1",
        "client_request": body,
        "provider_request": body,
        "provider_answer": answer,
        "client_answer": answer,
        "streamed": False,
        "usage": Usage(12, 3),
        **values,
    }
    return full(identity, **given)


@pytest.fixture
def url(tmp_path: Path) -> str:
    place = f"sqlite:///{tmp_path / 'records.db'}"
    binary = Body(data=b"\xff\x00", headers={"content-type": "audio/mpeg"})
    failed = EarlierExchange(provider="openai", provider_model="a", url="https://x.test/v1", status=503, seconds=0.1)
    with records.open(place) as store:
        store.write(full("stream", client_request=Body(data=ESCAPE.encode()), time=time.time() - 7200))
        store.write(
            chat(
                "binary",
                provider_answer=binary,
                client_answer=binary,
                model=f"m{ESCAPE}",
                status=500,
                time=time.time() - 60,
            )
        )
        store.write(chat("one", earlier=(failed,)))
        assert store.flush(10)
    return place


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    return capsys.readouterr().out


def test_a_list_has_a_line_for_each_record(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    head, *lines = printed(capsys, "record", "list", "--database", url).splitlines()
    for column, value in (("id", "one"), ("asked", "fast"), ("status", "   200")):
        assert lines[0].startswith(value, head.index(column)), column
    assert [line.split()[3] for line in lines] == ["one", "binary", "stream"]
    assert "\x1b" not in "".join(lines)
    assert "fast > openai/gpt-5" in lines[0]
    rows = printed(capsys, "record", "list", "--database", url, "--json", "--status", "500").splitlines()
    assert [json.loads(row)["id"] for row in rows] == ["binary"]
    lines = printed(capsys, "record", "list", "--database", url, "--limit", "1").splitlines()
    assert lines[2] == "[there are more: --before 3]"
    assert len(printed(capsys, "record", "list", "--database", url, "--before", "3").splitlines()) == 3
    assert len(printed(capsys, "record", "list", "--database", url, "--since", "1h").splitlines()) == 3


def test_a_record_is_shown_with_all_that_is_known(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "record", "show", "one", "--database", url)
    for part in (
        "ci (k1)",
        "openai-chat  /v1/chat/completions?x=1",
        "openai/a: 503",
        "12 in, 3 out",
        "request loss  semantic",
        "the answer has logprobs",
        '"content": "Where?"',
    ):
        assert part in text
    text = printed(capsys, "record", "show", "stream", "--database", url)
    assert "0.750 s  data: 2" in text
    assert "\x1b" not in text


def test_a_body_alone_and_the_whole_record(url: str, capsysbinary: Any) -> None:
    assert main(["record", "show", "binary", "--database", url, "--body", "client-answer"]) == 0
    assert capsysbinary.readouterr().out == b"\xff\x00"
    assert main(["record", "show", "one", "--database", url, "--json"]) == 0
    assert record_of(json.loads(capsysbinary.readouterr().out)).client_answer.json == ANSWER


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("record", "show", "nothing"), "belongs to no record: 'nothing'"),
        (("replay", "nothing", "--to", "openai/m"), "belongs to no record"),
        (("record", "export", "nothing", "--har"), "belongs to no record"),
    ],
)
def test_an_unknown_id_is_an_error(
    url: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main([*arguments, "--database", url]) == 2
    assert message in capsys.readouterr().err


def test_without_records_nothing_is_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["record", "list"]) == 2
    assert f"there are no records at {tmp_path / 'toolwire' / 'records.db'}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_default_is_the_state_folder_and_settings_name_another(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toolwire").mkdir()
    with records.open(f"sqlite:///{tmp_path / 'toolwire' / 'records.db'}") as store:
        store.write(full("mine"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert "mine" in printed(capsys, "record", "list")
    settings = tmp_path / "toolwire.toml"
    for text in (f'[record]\ndatabase = "{url}"\n', '[server]\ndatabase = "sqlite:///keys.db"\n[record]\n'):
        settings.write_text(text)
        assert "binary" in printed(capsys, "record", "list", "--config", str(settings))
    settings.write_text("[record]\n")
    assert "mine" in printed(capsys, "record", "list", "--config", str(settings))


def test_lines_of_json(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "records.jsonl"
    assert main(["record", "export", "--database", url, "--jsonl", "-o", str(file)]) == 0
    found = [record_of(json.loads(line)) for line in file.read_text("utf-8").splitlines()]
    with records.open(url) as store:
        assert found == [store.read(record.id) for record in found]
    assert [record.id for record in found] == ["one", "binary", "stream"]
    assert main(["record", "export", "--database", url, "--jsonl", "-o", str(file)]) == 2
    assert "is there already" in capsys.readouterr().err


# HAR 1.2: http://www.softwareishard.com/blog/har-12-spec/ (2026-11-27). Members of its own begin with _.
def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [*required],
        "properties": {**required, **(optional or {}), "comment": {"type": "string"}},
        "patternProperties": {"^_": {}},
        "additionalProperties": False,
    }


TEXT, NUMBER, SIZE = {"type": "string"}, {"type": "number", "minimum": -1}, {"type": "integer", "minimum": -1}
PAIRS = {"type": "array", "items": _object({"name": TEXT, "value": TEXT})}
MESSAGE = {"httpVersion": TEXT, "cookies": PAIRS, "headers": PAIRS, "headersSize": SIZE, "bodySize": SIZE}
POST = _object({"mimeType": TEXT, "text": TEXT}, {"params": PAIRS})
CONTENT = _object({"size": SIZE, "mimeType": TEXT}, {"text": TEXT, "encoding": TEXT, "compression": SIZE})
DATE = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$"}
ENTRY = _object(
    {
        "startedDateTime": DATE,
        "time": {"type": "number", "minimum": 0},
        "request": _object(
            {"method": TEXT, "url": {"type": "string", "pattern": "^https?://"}, "queryString": PAIRS, **MESSAGE},
            {"postData": POST},
        ),
        "response": _object(
            {"status": SIZE, "statusText": TEXT, "content": CONTENT, "redirectURL": TEXT, **MESSAGE},
        ),
        "cache": _object({}),
        "timings": _object({"send": NUMBER, "wait": NUMBER, "receive": NUMBER}),
    },
    {"pageref": TEXT, "serverIPAddress": TEXT, "connection": TEXT},
)
HAR = _object(
    {
        "log": _object(
            {
                "version": {"const": "1.2"},
                "creator": _object({"name": TEXT, "version": TEXT}),
                "entries": {"type": "array", "items": ENTRY},
            }
        )
    }
)


def test_har(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    har = json.loads(printed(capsys, "record", "export", "--database", url, "--har"))
    jsonschema_rs.validate(HAR, har)
    entries = har["log"]["entries"]
    assert [(entry["_record"], entry["_side"]) for entry in entries] == [
        ("stream", "client"),
        ("stream", "provider"),
        ("binary", "client"),
        ("binary", "provider"),
        ("one", "client"),
        ("one", "provider"),
        ("one", "provider"),
    ]
    assert entries[4]["request"]["url"] == "http://gw:8080/v1/chat/completions?x=1"
    assert entries[4]["request"]["queryString"] == [{"name": "x", "value": "1"}]
    assert json.loads(entries[4]["request"]["postData"]["text"]) == REQUEST
    assert json.loads(entries[6]["response"]["content"]["text"]) == ANSWER
    assert entries[5]["response"]["status"] == 503
    assert entries[3]["response"]["content"]["encoding"] == "base64"
    assert entries[1]["response"]["content"]["_events"][1] == {"seconds": 0.75, "data": "data: 2\n\n"}
    for entry in entries:
        timings = entry["timings"]
        assert timings["send"] + timings["wait"] + timings["receive"] == pytest.approx(entry["time"])
        assert min(timings.values()) >= 0


def test_a_har_that_is_wrong_is_noticed() -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(HAR, {"log": {"version": "1.2", "creator": {"name": "x"}, "entries": []}})


def _settings(folder: Path, base_url: str) -> str:
    file = folder / "replay.toml"
    file.write_text(
        f'[providers.other]\ndialect = "anthropic"\nbase_url = "{base_url}"\nkey = "$OTHER_KEY"\n'
        '[routes.slow]\nto = ["other/claude-x"]\n[record]\ndatabase = "sqlite:///records.db"\n'
    )
    return str(file)


def test_a_replay_shows_what_differs(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del url
    monkeypatch.setenv("OTHER_KEY", "any")
    with simulate([["I look.", ToolCall(None, "look", {"city": "Basel"})]], strict=False) as model:
        text = printed(capsys, "replay", "one", "--to", "slow", "--config", _settings(tmp_path, model.url), status=1)
        [received] = model.requests
    assert (received.body["model"], received.body["messages"][0]["content"]) == ("claude-x", "Where?")
    assert "openai/gpt-5" in text
    assert "other/claude-x" in text
    assert '- look {"city": "Bern"}' in text
    assert '+ look {"city": "Basel"}' in text
    assert "text: the same" in text
    assert "loss: seed" in text


def test_a_replay_that_gives_the_same(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del url
    monkeypatch.setenv("OTHER_KEY", "any")
    with simulate([["I look.", ToolCall(None, "look", {"city": "Bern"})]], strict=False) as model:
        config = _settings(tmp_path, model.url)
        found = json.loads(printed(capsys, "replay", "one", "--to", "other/m", "--config", config, "--json"))
    assert found["recorded"]["calls"] == found["replayed"]["calls"] == [["look", {"city": "Bern"}]]
    assert "text" not in found["differs"]
    assert "model" in found["differs"]
    assert found["replayed"]["output_tokens"] is not None


def test_a_cut_request_is_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"sqlite:///{tmp_path / 'records.db'}"
    with records.open(place, body=50) as store:
        store.write(chat())
    assert main(["replay", "one", "--to", "openai/m", "--database", place]) == 2
    assert "was cut: it had" in capsys.readouterr().err


def test_a_streamed_answer_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "any")
    events = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]} for piece in ("I ", "look.")
    ]
    data = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    data.append(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    frames = tuple(Frame(index / 10, len(piece)) for index, piece in enumerate(data))
    answer = Body(data=b"".join(data), frames=frames, headers={"content-type": "text/event-stream"})
    with records.open(f"sqlite:///{tmp_path / 'records.db'}") as store:
        store.write(chat(client_answer=answer, provider_answer=answer, streamed=True))
    with simulate(["I look."], strict=False) as model:
        text = printed(capsys, "replay", "one", "--to", "slow", "--config", _settings(tmp_path, model.url))
    assert "text: the same" in text
    assert "tools and arguments: the same" in text


def test_an_error_of_the_other_model_is_told(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolwire.testing import Fail

    del url
    monkeypatch.setenv("OTHER_KEY", "any")
    with simulate([[Fail(Error("invalid_request", "not like this", 400))]], strict=False) as model:
        config = _settings(tmp_path, model.url)
        assert main(["replay", "one", "--to", "slow", "--config", config]) == 2
    assert "not like this" in capsys.readouterr().err
