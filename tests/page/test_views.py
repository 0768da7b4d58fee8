"""The views, as HTML and as JSON: what they show, what they filter, and where each loss stands."""

import json
import re
import time
from pathlib import Path
from statistics import median

import pytest
from msgspec.structs import replace

from tests.page.client import ask
from tests.page.samples import ASK, DONE
from toolwire import Client, records, traces
from toolwire.dialects import dialect
from toolwire.page import PageApplication, Sources
from toolwire.page.context import _find_break, _Section
from toolwire.page.json_view import show_json
from toolwire.page.marks import place_losses, side_of
from toolwire.page.streams import events_of
from toolwire.records import Body, Frame, Record
from toolwire.records.record import EarlierExchange
from toolwire.streams.accumulation import events_of as events_of_response
from toolwire.testing import simulate
from toolwire.translation import translate
from toolwire.types import Choice, Message, Response, ToolCall

CHAT = {
    "model": "gpt-4o",
    "logit_bias": {"50256": -100},
    "messages": [
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "tool_calls": [
            {"id": "call_9", "type": "function", "function": {"name": "get", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_9", "content": "3 passed"},
    ],
    "tools": [{"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {}}}}],
    "max_completion_tokens": 100,
}  # fmt: skip


def pasted(page: PageApplication, text: str, **fields: str) -> dict[str, object]:
    reply = ask(page, "/page/paste?format=json", form={"body": text, **fields})
    assert reply.status == 200, reply.text
    return dict(reply.json)


def test_a_pasted_request_is_recognized_and_each_other_wire_says_what_it_would_lose(page: PageApplication) -> None:
    found = pasted(page, json.dumps(CHAT), to="anthropic")
    assert (found["kind"], found["wires"], found["rejected"]) == ("request", ["openai-chat"], None)
    wires = {row["wire"]: row["losses"] for row in found["translations"]}  # type: ignore[attr-defined]
    assert set(wires) == {"openai-responses", "anthropic", "gemini", "ollama"}
    assert wires["anthropic"]["semantic"] == 2
    assert {loss["path"] for loss in found["losses"] if loss["severity"] == "semantic"} == {  # type: ignore[attr-defined]
        "logit_bias",
        "messages[0].name",
    }
    assert found["body"]["max_tokens"] == 100  # type: ignore[index]


def test_a_request_that_a_server_rejects_says_so_in_the_servers_words(page: PageApplication) -> None:
    found = pasted(page, json.dumps({**CHAT, "messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]}))
    assert "tool" in str(found["rejected"])


@pytest.mark.parametrize(
    ("text", "kind", "wire"),
    [
        ('{"model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}', "response", "anthropic"),
        ('{"error":{"message":"no","type":"x"}}', "error", "openai-chat"),
        ('data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\ndata: [DONE]', "stream", "openai-chat"),
        ('{"message":{"content":"Hi"},"done":false}\n{"message":{"content":""},"done":true}', "stream", "ollama"),
        ('[{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}]', "stream", "gemini"),
    ],
)
def test_other_kinds_are_recognized(page: PageApplication, text: str, kind: str, wire: str) -> None:
    found = pasted(page, text)
    assert (found["kind"], found["wires"][0]) == (kind, wire)  # type: ignore[index]


@pytest.mark.parametrize("text", ["", "not JSON", "[1, 2]", '{"a": 1}', '{"a": 1, "a": 2}', "null", "\x00", "{" * 5000])
def test_anything_may_be_pasted(page: PageApplication, text: str) -> None:
    assert ask(page, "/page/paste", form={"body": text}).status == 200
    assert (pasted(page, text)["problem"] == "") is (text == "")


def test_a_loss_stands_at_its_place_on_both_sides() -> None:
    encoded = translate.request(CHAT, "openai-chat", "anthropic")
    marked = place_losses(encoded.losses, side_of(CHAT, "openai-chat"), side_of(encoded.body, "anthropic"))
    struck = {path: marks[0].action for path, marks in marked.source.items()}
    assert struck[("logit_bias",)] == struck[("messages", 0, "name")] == "dropped"
    assert [ghost.name for ghost in marked.ghosts] == ["logit_bias"]
    html = show_json(CHAT, marked.source)
    line = next(part for part in html.split('<div class="mark') if "logit_bias" in part)
    assert line.startswith(" semantic struck")
    assert "<b>dropped</b>: anthropic has no such setting (semantic)" in line


def test_what_was_added_stands_on_the_side_that_has_it() -> None:
    body = {**CHAT, "max_completion_tokens": None}
    encoded = translate.request(body, "openai-chat", "anthropic")
    marked = place_losses(encoded.losses, side_of(body, "openai-chat"), side_of(encoded.body, "anthropic"))
    assert marked.target[("max_tokens",)][0].action == "defaulted"
    assert ("max_tokens",) not in marked.source


def test_the_traffic_is_listed_filtered_and_summed(page: PageApplication, recorded: list[Record]) -> None:
    whole = ask(page, "/?format=json").json
    assert len(whole["exchanges"]) == len(recorded) == 24
    assert whole["exchanges"][0]["id"] == recorded[-1].id
    assert whole["figures"]["last hour"] == "24"
    chosen = ask(page, "/page/traffic?format=json&q=key:ci%20answered:claude-sonnet-5-5").json["exchanges"]
    assert len(chosen) == 7
    assert {line["key_name"] for line in chosen} == {"ci"}
    assert ask(page, "/page/traffic?format=json&q=loss:none").json["exchanges"][0]["key_name"] == "bob"
    odd = ask(page, "/page/traffic?q=colour:red%20%22").text
    assert "colour:red is not understood" in odd
    html = ask(page, "/page/traffic").text
    assert html.count('<tr id="row-') == 24
    assert f"/page/exchanges/{recorded[0].id}" in html


def test_an_exchange_shows_four_bodies_with_their_marks(page: PageApplication, recorded: list[Record]) -> None:
    record = next(one for one in recorded if one.key_name == "ci")
    html = ask(page, f"/page/exchanges/{record.id}").text
    for title in ("Client&#39;s request", "Provider&#39;s request", "Provider&#39;s answer", "Client&#39;s answer"):
        assert title in html
    assert re.search(r'class="mark semantic struck"[^>]*>\s*<div class="ln i1"><span class="k">&#34;logit_bias', html)
    assert "<b>added</b>: the provider caches only what is marked" in html
    assert "turn 1 of 7" in html
    assert "TextDelta" in html
    words = re.findall(r"CallEnd</td>.*?</tr>", html, re.DOTALL)
    assert words
    assert all("read_file" in one and "opaque" not in one and "null" not in one for one in words)
    raw = ask(page, f"/page/exchanges/{record.id}/client_request")
    assert raw.body == record.client_request.data
    assert raw.headers["content-type"].startswith("text/plain")
    assert "sandbox" in raw.headers["content-security-policy"]
    canonical = ask(page, f"/page/exchanges/{record.id}?show=canonical").text
    assert "&#34;max_tokens&#34;</span>: 8192" in canonical
    assert ask(page, f"/page/exchanges/{record.id}?show=raw").text.count('<pre class="code"') == 4
    assert ask(page, "/page/exchanges/nothing").status == 404


def test_every_loss_of_a_record_is_shown(page: PageApplication, recorded: list[Record]) -> None:
    for record in recorded:
        html = ask(page, f"/page/exchanges/{record.id}").text
        shown = html.count('<div class="why') + html.count('<li><span class="badge')
        assert shown >= len(record.losses), record.model


def test_the_context_says_where_the_cached_beginning_ends(page: PageApplication, recorded: list[Record]) -> None:
    turns = [one for one in recorded if one.conversation == "conv_0000"]
    broken = ask(page, f"/page/exchanges/{turns[5].id}/context?format=json").json
    assert broken["break"]["section"] == "new_tool"
    assert broken["break"]["new"].startswith('new_tool"')
    assert broken["same_bytes"] < broken["bytes"]
    whole = ask(page, f"/page/exchanges/{turns[2].id}/context?format=json").json
    assert whole["break"] is None
    assert whole["before"] == turns[1].id
    assert sum(section["bytes"] for section in whole["sections"]) == whole["bytes"]
    assert whole["saved"] > 0


def test_a_conversation_has_its_calls_beside_their_results(page: PageApplication, recorded: list[Record]) -> None:
    listed = ask(page, "/page/conversations?format=json").json["conversations"]
    assert {one["id"] for one in listed} == {record.conversation for record in recorded}
    found = ask(page, "/page/conversations/conv_0000?format=json").json
    assert found["turns"][0]["pieces"][0]["text"] == ASK
    assert found["turns"][-1]["pieces"][0]["text"] == DONE
    calls = [piece for turn in found["turns"] for piece in turn["pieces"] if piece["kind"] == "call"]
    assert len(calls) == 6
    assert all(call["result"]["text"] for call in calls)
    html = ask(page, "/page/conversations/conv_0000").text
    assert '<ins class="ln">+     return rows[:size]' in html
    image = re.search(r'<img src="([^"]+)"', html)
    assert image is not None
    sent = ask(page, image[1])
    assert (sent.status, sent.headers["content-type"], sent.body[:4]) == (200, "image/png", b"\x89PNG")


def test_spend_is_summed_by_key_and_day(page: PageApplication, recorded: list[Record], sources: Sources) -> None:
    rows = ask(page, "/page/spend?format=json&by=key").json["rows"]
    assert {row["name"]: row["requests"] for row in rows} == {"ci": 7, "ann": 10, "bob": 5, "blue/cleo": 2}
    assert sum(row["cost"] for row in rows) == pytest.approx(sum(record.cost for record in recorded))
    days = ask(page, "/page/spend?format=json&by=day").json["rows"]
    assert days[-1]["name"] == time.strftime("%Y-%m-%d", time.gmtime(recorded[-1].time))
    sources.usage = lambda by, _since: [
        {by[0]: "core", "requests": 3, "input_tokens": 9, "output_tokens": 1, "cached_tokens": 4, "cost": 1.5}
    ]
    assert ask(page, "/page/spend?format=json&by=team").json["rows"][0]["name"] == "core"


def test_traces_are_filtered_summed_and_verified(page: PageApplication, traced: traces.Store, tmp_path: Path) -> None:
    found = ask(page, "/page/traces?format=json&ending=denied&verify=1").json
    assert len(found["traces"]) == 3
    assert (found["verified"]["ok"], found["verified"]["rows"]) == (True, 30)
    one = found["traces"][0]
    assert ask(page, f"/page/traces/{one['id']}?format=json").json["trace"]["arguments"] == one["arguments"]
    assert "30 calls" in ask(page, "/page/traces").text
    import sqlite3

    traced.flush()
    with sqlite3.connect(tmp_path / "traces.db") as changed:
        for trigger in [row[0] for row in changed.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]:
            changed.execute(f"DROP TRIGGER {trigger}")
        changed.execute("UPDATE tool_traces SET tool_name = 'other' WHERE position = 5")
    assert "The record was changed." in ask(page, "/page/traces?verify=1").text


def test_statistics_of_many_traces_are_counted_when_they_are_asked_for(
    page: PageApplication, traced: traces.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolwire.page.traces._MOST_FOR_STATS", 29)
    reply = ask(page, "/page/traces?tool=bash")
    assert "calls by tool" not in reply.text
    assert 'href="?tool=bash&amp;stats=1"' in reply.text
    assert "20 calls by tool" in ask(page, "/page/traces?tool=bash&stats=1").text
    assert traced.count() == 30


def test_a_run_shows_its_turns_and_a_button_answers_it(
    page: PageApplication, waiting_run: str, sources: Sources
) -> None:
    listed = ask(page, "/page/runs?format=json&state=waiting").json["runs"]
    assert [run["id"] for run in listed] == [waiting_run]
    html = ask(page, f"/page/runs/{waiting_run}").text
    assert "order 17: 2 chairs" in html
    assert 'value="approve"' in html
    form = {"call": "call_2", "verdict": "approve"}
    wrong = ask(page, f"/page/runs/{waiting_run}/answer", form={**form, "verdict": "maybe"})
    assert wrong.status == 400
    reply = ask(page, f"/page/runs/{waiting_run}/answer", form=form)
    assert (reply.status, reply.headers["location"]) == (303, f"/page/runs/{waiting_run}")
    assert sources.runs.run(waiting_run).result(30).content == "Order 17 is paid."
    assert ask(page, f"/page/runs/{waiting_run}/answer", form=form).status == 400
    assert ask(page, f"/page/runs/{waiting_run}?format=json").json["state"] == "done"


def test_a_view_without_its_store_says_how_to_turn_it_on(sources: Sources, page: PageApplication) -> None:
    sources.all_views = True
    for name, words in (("traffic", "[record]"), ("spend", "[server]"), ("traces", "[traces]"), ("runs", "[page]")):
        reply = ask(page, f"/page/{name}")
        assert reply.status == 200
        assert words in reply.text
    assert ask(page, "/page/nothing").status == 404
    assert ask(page, "/page/traces", form={}).status == 405


def test_providers_that_were_asked_before_are_listed(
    page: PageApplication, recorded: list[Record], sources: Sources
) -> None:
    failed = EarlierExchange(
        provider="away", provider_model="m", status=503, error="overloaded: try again", seconds=0.2
    )
    sources.records.write(replace(recorded[0], id="again", earlier=(failed,)))
    sources.records.flush(10)
    html = ask(page, "/page/exchanges/again").text
    assert "Asked before" in html
    assert "overloaded: try again" in html
    assert "toolwire replay again --to PROVIDER/MODEL" in html


def test_a_record_of_a_client_of_this_library_is_canonical_on_its_side(
    page: PageApplication, sources: Sources, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    with simulate(["It is in Bergen."]) as model:
        options = {"base_url": model.url, "api_key": "any", "record": url}
        with Client("openai", "any", **options) as client:  # type: ignore[arg-type]
            client.chat("Where is the harbour?", seed=7, top_k=5)
    with records.open(url) as store:
        sources.records = store
        record = store.read(store.list().rows[0].id)
        assert record is not None
        html = ask(page, f"/page/exchanges/{record.id}").text
        assert re.search(r'class="mark semantic struck"[^>]*>\s*<div class="ln i1"><span class="k">&#34;top_k', html)
        for view in ("?show=canonical", "/context", "?show=raw"):
            assert ask(page, f"/page/exchanges/{record.id}{view}").status == 200
        turns = ask(page, f"/page/conversations/{record.conversation}?format=json").json["turns"]
        assert [turn["pieces"][0]["text"] for turn in turns] == ["Where is the harbour?", "It is in Bergen."]


@pytest.mark.parametrize(
    ("old", "new", "shared", "broken"),
    [
        (["aaaa", "bbbb"], ["aaaa", "bbbb", "cccc"], 12, None),
        (["aaaa", "bbbb"], ["aaaa", "bxbb"], 8, ("messages[1] user", 2)),
        (["aaaa"], ["xaaa"], 1, ("messages[0] user", 1)),
        (["aaaa", "bbbb"], ["aaaa"], 6, ("messages[1] user", 0)),
        (["aa"], ["aaaa"], 3, ("messages[0] user", 3)),
    ],
)
def test_a_prefix_ends_at_the_first_byte_that_differs(
    old: list[str], new: list[str], shared: int, broken: tuple[str, int] | None
) -> None:
    def sections(texts: list[str]) -> list[_Section]:
        return [
            _Section("history", f"messages[{index}] user", json.dumps(text).encode())
            for index, text in enumerate(texts)
        ]

    found, where = _find_break(sections(old), sections(new))
    assert (found, None if where is None else (where.section, where.byte)) == (shared, broken)


def test_an_event_shows_the_arguments_of_a_call_whole() -> None:
    arguments = {"key": "a", "type": "", "opaque": False, "deep": [{"key": None}]}
    call = ToolCall("c1", "look", arguments)
    response = Response(choices=[Choice(Message("assistant", [call]), "tool_calls")])
    encoder = dialect("anthropic").encode_stream()
    data = b"".join([*map(encoder.feed, events_of_response(response)), encoder.close()])
    [row] = [row for row in events_of(data, "anthropic").rows if row.type == "CallEnd"]
    assert json.loads(row.words)["call"] == {"id": "c1", "name": "look", "arguments": arguments, "complete": True}


@pytest.mark.slow
def test_an_exchange_of_5_mb_takes_300_ms(sources: Sources, page: PageApplication, tmp_path: Path) -> None:
    """Counted as CPU time, because others share the machine."""
    words = json.dumps([f"word {index} of a long answer" for index in range(70_000)]).encode()
    request = b'{"model":"fast","messages":[{"role":"user","content":%s}]}' % words
    events = [b'data: {"choices":[{"delta":{"content":"word %d "}}]}\n\n' % index for index in range(50_000)]
    frames = tuple(Frame(index / 1000, len(event)) for index, event in enumerate(events))
    answer = Body(data=b"".join(events), frames=frames, headers={"content-type": "text/event-stream"})
    large = Record(
        id="large",
        wire="openai-chat",
        provider_wire="openai-chat",
        client_request=Body(data=request),
        provider_answer=answer,
        client_answer=answer,
    )
    with records.open(f"sqlite:///{tmp_path}/records.db") as store:
        sources.records = store
        assert store.write(large)
        assert store.flush(60)
        times = []
        for _ in range(5):
            start = time.process_time()
            html = ask(page, "/page/exchanges/large").text
            times.append(time.process_time() - start)
    assert re.search(r"50,0\d\d events, the first 500", html)
    assert median(times) < 0.3
