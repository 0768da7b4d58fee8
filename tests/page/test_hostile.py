"""All that is shown is hostile: nothing in it becomes an element, an attribute, an address or a header of the page."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.page.client import ask
from tests.page.hostile import deep, payloads
from toolwire import Trace, records, traces
from toolwire.page import Hosts, PageApplication, Sources
from toolwire.page.export import export_exchange
from toolwire.records import Body, Record
from toolwire.types import Loss, Usage

TABLE = payloads()
TAGS = frozenset(
    "html head meta title link script body a header nav div main h1 h2 p span dl dt dd form label input select option "
    "button textarea section table caption thead tbody tr th td ul li details summary pre code svg rect text line "
    "title b i figure figcaption time ins del img".split()
)
ATTRIBUTES = frozenset(
    "lang charset name content rel href type src class id method action for value placeholder spellcheck autocomplete "
    "rows hidden title scope colspan datetime role open selected alt loading size width height x y rx viewbox "
    "tabindex preserveaspectratio x1 x2 y1 y2".split()
)
SHORT = [text for text in TABLE if len(text) <= 2000]
VOID = frozenset({"meta", "link", "input", "img"})


class Structure(HTMLParser):
    """The elements of a page. It collects what our templates never write."""

    def __init__(self) -> None:
        super().__init__()
        self.odd: list[str] = []
        self.scripts = 0
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if tag not in TAGS:
            self.odd.append(f"<{tag}>")
        for name, value in attrs:
            if name not in ATTRIBUTES and not name.startswith(("data-", "aria-")):
                self.odd.append(f"<{tag} {name}>")
            address = name in ("href", "src", "action")
            if address and not (value or "").startswith(("/page", "#", "?")) and value != "/":
                self.odd.append(f"<{tag} {name}={value}>")
        if tag not in VOID and tag not in ("rect", "line"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("rect", "line"):
            return
        if not self.open or self.open.pop() != tag:
            self.odd.append(f"</{tag}> does not close what is open")


def check(html: str, scripts: int = 1) -> None:
    """Fail unless the page consists of our elements alone."""
    structure = Structure()
    structure.feed(html)
    assert structure.odd == []
    assert structure.scripts == scripts
    assert structure.open == []
    bad = [hex(ord(char)) for char in html if char in "\x00\x1b\u202e\u2066\u2028\u200f\x7f\x08"]
    assert bad == []


def test_there_are_a_thousand_payloads() -> None:
    assert len(TABLE) == len(set(TABLE)) == 1000


def hostile_record(index: int, text: str) -> Record:
    """Return a record with a hostile text wherever a text may be."""
    part = {"role": "user", "name": text[:100], "content": text}
    body = json.dumps({"model": text[:200], text[:200]: text, "messages": [part, part], "tools": [{"name": text}]})
    frame = f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': text}}]})}\n\n".encode()
    data = body.encode()
    loss = Loss(f"messages[0].{text[:50]}", text[:50], "dropped", text)
    return Record(
        id=f"r{index}",
        key_name=text[:200],
        session=text[:200],
        conversation=f"c{index}",
        path=text[:200],
        url=text[:200],
        wire="openai-chat",
        provider_wire="openai-chat",
        model=text[:300],
        provider=text[:100],
        provider_model=text[:300],
        ending=text[:100],
        status=200,
        usage=Usage(10, 5, 3, 2),
        request_losses=(loss, Loss("model", "model", "approximated", text, "minor")),
        answer_losses=(loss,),
        client_request=Body(data=data, size=len(data), headers={"user-agent": text[:200]}),
        provider_request=Body(data=data, size=len(data)),
        provider_answer=Body(data=frame, size=len(frame), frames=(records.Frame(0.1, len(frame)),)),
        client_answer=Body(data=text.encode("utf-8", "replace")[:100_000], size=len(text)),
    )


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> PageApplication:
    folder: Path = tmp_path_factory.mktemp("hostile")
    store = records.open(f"sqlite:///{folder}/records.db", bytes=None)
    for index, text in enumerate(TABLE):
        store.write(hostile_record(index, text.encode("utf-8", "replace").decode()))
        if index % 50 == 0:
            store.flush(60)
    assert store.flush(60)
    assert store.lost == 0
    audit = traces.open(f"sqlite:///{folder}/traces.db")
    for text in SHORT:
        audit.record(
            Trace.new(
                tool_name=text or "x",
                arguments={"a": text, text: [text]},
                result={"content": text},
                result_type="ok",
                duration_ms=1,
                iteration=0,
                model=text,
                session=text,
                losses=(text,),
            )
        )
    audit.flush()
    return PageApplication(Sources(records=store, traces=audit), Hosts())


@pytest.mark.slow
def test_lists_of_hostile_records_are_ours_alone(hostile_page: PageApplication) -> None:
    rows, url = 0, "/page/traffic"
    while url:
        reply = ask(hostile_page, url)
        check(reply.text)
        rows += reply.text.count('<tr id="row-')
        following = ask(hostile_page, f"{url}{'&' if '?' in url else '?'}format=json").json["next"]
        url = f"/page/traffic?before={following}" if following else ""
    assert rows == 1000
    check(ask(hostile_page, "/page/conversations").text)
    check(ask(hostile_page, "/page/spend?by=model").text)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_exchanges_of_hostile_texts_are_ours_alone(hostile_page: PageApplication, start: int) -> None:
    for index in range(start, start + 100, 7):
        for view in ("", "?show=raw", "?show=canonical", "/context"):
            reply = ask(hostile_page, f"/page/exchanges/r{index}{view}")
            assert reply.status == 200
            check(reply.text)
            assert len(reply.body) < 4_000_000
        check(ask(hostile_page, f"/page/conversations/c{index}").text)
        assert ask(hostile_page, f"/page/exchanges/r{index}?format=json").json["record"]["id"] == f"r{index}"
        exported = export_exchange(hostile_page.sources.records.read(f"r{index}"), hostile_page.sources)
        ours = exported.replace("<style>", "<title>", 1).replace("</style>", "</title>", 1)
        check(ours.replace("http-equiv=", "name=", 1), scripts=0)


@pytest.mark.slow
def test_traces_of_hostile_texts_are_ours_alone(hostile_page: PageApplication) -> None:
    url, ids = "/page/traces", []
    while url:
        check(ask(hostile_page, url).text)
        data = ask(hostile_page, f"{url}{'&' if '?' in url else '?'}format=json").json
        ids += [row["id"] for row in data["traces"]]
        url = f"/page/traces?after={data['next']}" if data["next"] else ""
    assert len(ids) == len(SHORT)
    for identity in ids[::9]:
        check(ask(hostile_page, f"/page/traces/{identity}").text)


@pytest.mark.parametrize("start", [0, *(pytest.param(start, marks=pytest.mark.slow) for start in range(50, 1000, 50))])
def test_pasted_hostile_texts_are_ours_alone(start: int) -> None:
    page = PageApplication(Sources(), Hosts())
    for text in TABLE[start : start + 50 : 5]:
        part = {"role": "user", "name": text, "content": [{"type": "text", "text": text}]}
        body = {"model": text or "m", "messages": [part], text: text}
        plain = ask(page, "/page/paste", form={"body": text[:200_000]})
        check(plain.text)
        reply = ask(page, "/page/paste", form={"body": json.dumps(body), "to": text[:50]})
        assert reply.status == 200
        check(reply.text)
        for name in ("q", "since", "kind", "from", "to", "sample", "part", "format"):
            reply = ask(page, "/page/paste", form={name: text[:500]})
            check(reply.text)


@pytest.mark.slow
@pytest.mark.parametrize("text", SHORT[::37])
def test_hostile_addresses_are_ours_alone(hostile_page: PageApplication, text: str) -> None:
    from urllib.parse import quote

    name = quote(text.encode("utf-8", "replace"), safe="")
    for url in (
        f"/page/traffic?q={name}",
        f"/page/traces?tool={name}&conversation={name}&ending=ok&since={name}",
        f"/page/spend?by={name}&since={name}",
        f"/page/paste?to={name}&sample={name}",
        f"/page/{name}",
    ):
        reply = ask(hostile_page, url)
        assert reply.status in (200, 400, 404)
        check(reply.text)
        assert not {"set-cookie", "refresh"} & reply.headers.keys()


@pytest.mark.parametrize("depth", [10, 100, 400])
def test_deep_values_are_shown_to_a_depth(depth: int) -> None:
    page = PageApplication(Sources(), Hosts())
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "metadata": deep(depth)}
    reply = ask(page, "/page/paste", form={"body": json.dumps(body), "from": "openai-chat", "kind": "request"})
    assert reply.status == 200
    check(reply.text)


def test_an_exchange_of_hostile_texts_is_ours_alone(page: PageApplication, sources: Sources, tmp_path: Path) -> None:
    with records.open(f"sqlite:///{tmp_path}/records.db") as store:
        sources.records = store
        some = SHORT[::60]
        for index, text in enumerate(some):
            store.write(hostile_record(index, text.encode("utf-8", "replace").decode()))
        store.flush(30)
        check(ask(page, "/page/traffic").text)
        for index in range(len(some)):
            check(ask(page, f"/page/exchanges/r{index}").text)
