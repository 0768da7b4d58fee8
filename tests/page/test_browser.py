"""The page in a real Chromium: views, live rows, filters, paste, an approval, sign-in, an export, hostile texts.

Rule: Debian's `chromium` is used, and nothing is downloaded. Without it or Playwright, these tests are skipped.
"""

import contextlib
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.page.hostile import payloads
from tests.page.samples import DONE, SPECS, make_record
from tests.page.test_hostile import hostile_record
from toolwire import Trace, records, traces
from toolwire.page import Hosts, PageApplication, SignIn, Sources
from toolwire.page.export import export_exchange
from toolwire.records import SIDES, Body, Record

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
WIDE, NARROW = {"width": 1380, "height": 900}, {"width": 320, "height": 720}
VIEWS = ("/page/traffic", "/page/conversations", "/page/spend", "/page/traces", "/page/runs", "/page/paste")


@contextlib.contextmanager
def served(page: PageApplication) -> Iterator[str]:
    """Serve a page in a thread. Yield its address."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
        config = uvicorn.Config(page, log_level="critical", timeout_graceful_shutdown=2, lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([opened],), daemon=True)
        thread.start()
        until = time.monotonic() + 20
        while not server.started and time.monotonic() < until:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
        page.stop()
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A browser's page, and what it must not do: errors, dialogs, and requests to other places."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": WIDE, **options})
        self.url = url
        self.wrong: list[str] = []
        self.tab = self.context.new_page()
        self.tab.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.tab.on("console", lambda entry: self.wrong.append(entry.text) if entry.type == "error" else None)
        self.tab.on("dialog", self._note_dialog)
        self.tab.on("popup", lambda _: self.wrong.append("a window was opened"))
        self.context.on("request", self._check_request)

    def _note_dialog(self, dialog: Any) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _check_request(self, request: Any) -> None:
        if not request.url.startswith((self.url, "file:")):
            self.wrong.append(f"request: {request.url[:200]}")

    def open(self, path: str) -> Any:
        self.tab.goto(self.url + path)
        return self.tab

    def check(self) -> None:
        """Fail if something ran, broke or asked for another place."""
        assert self.wrong == []
        assert self.tab.evaluate("window.__ran") is None
        assert self.tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
        assert self.tab.evaluate("document.querySelectorAll('script').length") <= 1


@pytest.fixture
def open_tab(chromium: Any) -> Iterator[Any]:
    opened: list[Watched] = []

    def make(url: str, **options: Any) -> Watched:
        opened.append(Watched(chromium, url, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.context.close()


@pytest.fixture
def address(page: PageApplication) -> Iterator[str]:
    with served(page) as url:
        yield url


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW, {"width": 3840, "height": 2160}], ids=["wide", "narrow", "4K"])
def test_each_view_fits_and_its_colours_can_be_read(
    viewport: dict[str, int],
    scheme: str,
    open_tab: Any,
    address: str,
    recorded: list[Record],
    traced: Any,
    waiting_run: str,
) -> None:
    watched = open_tab(address, viewport=viewport, color_scheme=scheme)
    some = recorded[8].id
    more = (f"/page/exchanges/{some}", f"/page/exchanges/{some}/context", "/page/conversations/conv_0000")
    for path in (*VIEWS, *more, f"/page/runs/{waiting_run}", "/page/paste?sample=request", "/page/paste?sample=stream"):
        tab = watched.open(path)
        watched.check()
        low = tab.evaluate(CONTRAST)
        assert low == [], (path, scheme)
    del traced


@pytest.mark.parametrize("width", [1280, 1080, 900, 760, 660])
def test_the_losses_of_the_traffic_are_seen_at_every_width(
    width: int, open_tab: Any, address: str, recorded: list[Record]
) -> None:
    assert recorded
    tab = open_tab(address, viewport={"width": width, "height": 800}).open("/page/traffic")
    hidden = tab.evaluate("[...document.querySelectorAll('.frame')].map((one) => one.scrollWidth - one.clientWidth)")
    assert max(hidden) <= 0


AXE = Path(os.environ.get("TOOLWIRE_PROGRAMS", ".programs"), "axe-core", "node_modules", "axe-core", "axe.min.js")


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: python scripts/programs.py node axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing(
    viewport: dict[str, int],
    scheme: str,
    open_tab: Any,
    address: str,
    recorded: list[Record],
    traced: Any,
    waiting_run: str,
) -> None:
    watched = open_tab(address, viewport=viewport, color_scheme=scheme, bypass_csp=True)
    some = recorded[8].id
    more = (f"/page/exchanges/{some}", f"/page/exchanges/{some}/context", "/page/conversations/conv_0000")
    for path in (*VIEWS, *more, f"/page/runs/{waiting_run}", "/page/paste?sample=request", "/page/paste?sample=stream"):
        tab = watched.open(path)
        tab.evaluate(AXE.read_text("utf-8"))
        found = tab.evaluate("axe.run()")
        assert len(found["passes"]) > 20
        assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == [], path
    del traced


# The texts whose colour has less than 4.5 : 1 to what is behind them.
CONTRAST = """() => {
  const part = (v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  const colour = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = colour(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] > .99) return found;
    }
    return [255, 255, 255];
  };
  const low = new Set();
  for (const node of document.querySelectorAll("main *, header *")) {
    const words = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!words || !node.checkVisibility() || node.closest(".sr, svg, option")) continue;
    const [a, b] = [light(colour(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) low.add(`${node.tagName} ${node.className} ${ratio.toFixed(2)}`);
  }
  return [...low];
}"""


def test_live_rows_come_at_the_top_stop_while_paused_and_keep_the_filter(
    open_tab: Any, address: str, recorded: list[Record], sources: Sources
) -> None:
    import random

    watched = open_tab(address)
    tab = watched.open("/page/traffic?q=key:ci")
    tab.wait_for_selector("[data-state]:text-is('live')")
    assert tab.locator("tbody tr").count() == 7
    chance = random.Random(9)  # noqa: S311 - the same ids each time
    one = make_record(SPECS[1], 0, 90, time.time(), chance, breaks=False)
    other = make_record(SPECS[0], 0, 91, time.time(), chance, breaks=False)
    sources.records.write(one)
    sources.records.write(other)
    assert len(recorded) == 24
    tab.wait_for_selector(f"tbody tr:first-child a[href$='{one.id}']", timeout=5000)
    assert tab.locator("tbody tr").count() == 8
    tab.get_by_role("button", name="Pause").click()
    two = make_record(SPECS[1], 1, 90, time.time(), chance, breaks=False)
    sources.records.write(two)
    sources.records.flush(10)
    time.sleep(1)
    assert tab.locator("tbody tr").count() == 8
    tab.get_by_role("button", name="Continue").click()
    tab.wait_for_selector(f"tbody tr:first-child a[href$='{two.id}']", timeout=5000)
    watched.check()


def test_five_hundred_rows_in_a_second_are_shown(
    open_tab: Any, address: str, recorded: list[Record], sources: Sources
) -> None:
    from msgspec.structs import replace

    watched = open_tab(address)
    tab = watched.open("/page/traffic")
    tab.wait_for_selector("[data-state]:text-is('live')")
    small = replace(recorded[0], **dict.fromkeys(SIDES, Body()), request_losses=(), answer_losses=())
    start = time.monotonic()
    for index in range(500):
        sources.records.write(replace(small, id=f"live{index}", time=time.time()))
    tab.wait_for_selector("a[href$='/live499']", timeout=10_000)
    assert time.monotonic() - start < 6
    watched.check()


def test_filters_are_in_the_address_and_back_and_forward_work(
    open_tab: Any, address: str, recorded: list[Record]
) -> None:
    watched = open_tab(address)
    tab = watched.open("/")
    assert tab.locator("tbody tr").count() == len(recorded)
    tab.keyboard.press("/")
    tab.keyboard.type("key:bob")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/page/traffic?q=key%3Abob*")
    assert tab.locator("tbody tr").count() == 5
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/page/exchanges/*")
    assert tab.locator("h2", has_text="Client's request").count() == 1
    tab.go_back()
    assert tab.locator("tbody tr").count() == 5
    tab.go_back()
    assert tab.locator("tbody tr").count() == len(recorded)
    tab.go_forward()
    assert tab.locator("#q").input_value() == "key:bob"
    watched.check()


def test_a_paste_is_translated_while_it_is_typed(open_tab: Any, address: str) -> None:
    watched = open_tab(address)
    tab = watched.open("/page/paste")
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "logit_bias": {"1": 2}}
    tab.locator("textarea").fill(json.dumps(body))
    tab.wait_for_selector("#result .mark.struck:has-text('logit_bias')", timeout=5000)
    tab.locator("select[name=to]").select_option("gemini")
    tab.wait_for_selector("#result h2:text-is('gemini')", timeout=5000)
    assert "to=gemini" in tab.url
    tab.locator("textarea").fill("no body")
    tab.wait_for_selector("#result .note.bad", timeout=5000)
    watched.check()


def test_pointing_at_a_mark_shows_the_other_side(open_tab: Any, address: str, recorded: list[Record]) -> None:
    watched = open_tab(address)
    record = next(one for one in recorded if one.key_name == "ann" and one.provider == "openai")
    tab = watched.open(f"/page/exchanges/{record.id}")
    mark = tab.locator("[data-loss]:has(.why a)").first
    number = mark.get_attribute("data-loss").split(" ")[0]
    mark.hover()
    assert tab.locator(f"[data-loss~='{number}'].lit").count() >= 2
    watched.check()


def test_an_approval_by_its_button(open_tab: Any, address: str, waiting_run: str, sources: Sources) -> None:
    watched = open_tab(address)
    tab = watched.open("/page/runs?state=waiting")
    tab.get_by_role("link", name=waiting_run).click()
    tab.get_by_role("button", name="Approve").click()
    assert sources.runs.run(waiting_run).result(30).content == "Order 17 is paid."
    tab.reload()
    assert tab.get_by_text("Order 17 is paid.").count() == 1
    watched.check()


def test_everything_but_live_rows_works_without_a_script(
    open_tab: Any, address: str, recorded: list[Record], waiting_run: str, sources: Sources
) -> None:
    watched = open_tab(address, java_script_enabled=False)
    tab = watched.open("/")
    tab.locator("#q").fill("key:ci")
    tab.get_by_role("button", name="Filter").click()
    assert tab.locator("tbody tr").count() == 7
    assert tab.get_by_role("button", name="Pause").count() == 0
    tab.locator("tbody tr a").first.click()
    assert tab.locator(".mark").count() > 2
    tab.get_by_role("link", name="canonical").click()
    tab.get_by_text("copy as curl").click()
    assert "curl -sS" in tab.locator("#curl").inner_text()
    watched.open("/page/paste?sample=request")
    tab.locator("select[name=to]").select_option("ollama")
    tab.get_by_role("button", name="Translate").click()
    assert tab.locator("#result h2", has_text="ollama").count() == 1
    watched.open(f"/page/runs/{waiting_run}")
    tab.get_by_placeholder("A reason for the model").fill("too dear")
    tab.get_by_role("button", name="Reject").click()
    assert sources.runs.run(waiting_run).result(30).calls == []
    assert watched.wrong == []
    assert len(recorded) == 24


def test_an_admin_signs_in_and_out(open_tab: Any, chromium: Any) -> None:
    async def check(credential: str) -> str:
        assert credential == "tw-admin"
        return "boss"

    del chromium
    sign_in = SignIn(check)
    with served(PageApplication(Sources(), Hosts(), sign_in)) as url:
        link = sign_in.make_link("tw-admin")
        watched = open_tab(url)
        tab = watched.open(f"/page/sign-in?link={link}")
        tab.get_by_role("button", name="Sign in").click()
        tab.wait_for_url(f"{url}/")
        assert tab.get_by_role("navigation").count() == 1
        assert tab.evaluate("document.cookie") == ""
        tab.get_by_role("button", name="Sign out boss").click()
        assert tab.get_by_role("navigation").count() == 0
        tab.goto(url)
        assert tab.get_by_role("navigation").count() == 0


def test_an_export_opens_from_a_file_without_a_network(
    open_tab: Any, recorded: list[Record], sources: Sources, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    record = next(one for one in recorded if one.key_name == "ci")
    file.write_text(export_exchange(record, sources), encoding="utf-8")
    watched = open_tab("file:", offline=True)
    tab = watched.tab
    tab.goto(file.as_uri())
    assert tab.locator(".mark.struck").count() > 0
    assert (
        tab.evaluate("getComputedStyle(document.querySelector('.mark.struck .ln')).textDecorationLine")
        == "line-through"
    )
    watched.check()


def test_hostile_texts_run_nothing_and_ask_for_nothing(open_tab: Any, tmp_path: Path) -> None:
    table = [text for text in payloads() if len(text) < 60_000]
    with (
        records.open(f"sqlite:///{tmp_path}/r.db") as store,
        traces.open(f"sqlite:///{tmp_path}/t.db") as audit,
    ):
        for index, text in enumerate(table):
            plain = text.encode("utf-8", "replace").decode()
            store.write(hostile_record(index, plain))
            audit.record(
                Trace.new(
                    tool_name=plain[:2000] or "x",
                    arguments={"a": plain[:2000]},
                    result={"content": plain[:2000]},
                    result_type="ok",
                    duration_ms=1,
                    iteration=0,
                )
            )
        store.flush(60)
        audit.flush()
        with served(PageApplication(Sources(records=store, traces=audit), Hosts())) as url:
            watched = open_tab(url)
            newest = store.list(limit=1).rows[0].position
            for before in range(newest + 1, 0, -100):
                watched.open(f"/page/traffic?before={before}")
                watched.check()
            after: int | None = audit.traces(newest=True, limit=1).rows[0].position
            while after is not None and after > 0:
                watched.open(f"/page/traces?after={after}")
                watched.check()
                after -= 100
            for index in range(0, len(table), 23):
                for view in ("", "?show=raw", "/context"):
                    watched.open(f"/page/exchanges/r{index}{view}")
                    watched.check()
                watched.open(f"/page/conversations/c{index}")
                watched.check()
            tab = watched.open("/page/paste")
            for index in range(0, len(table), 40):
                some = [{"role": "user", "content": text} for text in table[index : index + 40]]
                tab.locator("textarea").fill(json.dumps({"model": table[index][:200] or "m", "messages": some}))
                tab.wait_for_selector("#result:not([aria-busy]) .two", timeout=10_000)
                watched.check()


def test_a_text_of_ten_megabytes_is_pasted(open_tab: Any, address: str) -> None:
    watched = open_tab(address)
    tab = watched.open("/page/paste")
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 10_000_000}], "top_k": 3})
    tab.evaluate("(text) => { document.querySelector('textarea').value = text; }", body)
    tab.get_by_role("button", name="Translate").click()
    tab.wait_for_selector("#result .mark, #result .note", timeout=30_000)
    watched.check()


def test_the_conversation_shows_its_image(open_tab: Any, address: str, recorded: list[Record]) -> None:
    watched = open_tab(address)
    tab = watched.open("/page/conversations/conv_0000")
    tab.wait_for_function("document.querySelector('img').naturalWidth === 64")
    assert tab.get_by_text(DONE).count() == 1
    assert recorded
    watched.check()
