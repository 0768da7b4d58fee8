"""The page of a gateway, by its real command: what turns it on, what answers as before, and how an admin signs in."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from toolwire.gateway.keys import mint
from toolwire.gateway.ledger import LimitLedger

ROOT = Path(__file__).resolve().parent.parent.parent


@contextlib.contextmanager
def serving(*arguments: str, command: str = "serve") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a command that serves. Yield its address; stop it by its id."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TOOLWIRE_TRACES_KEY": ""}
    environ.pop("TOOLWIRE_TRACES_KEY")
    words = [sys.executable, "-m", "toolwire", command, *arguments]
    with subprocess.Popen(words, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.search(r"http://[\d.:]+", line)
        try:
            assert match is not None, (line, process.stderr.read() if process.stderr and not line else "")
            yield line.strip(), process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)


def url_in(line: str) -> str:
    match = re.search(r"http://[\d.:]+", line)
    assert match is not None
    return match[0]


HTML = {"accept": "text/html,application/xhtml+xml"}


def test_the_simulated_gateway_has_a_page_and_other_programs_see_what_they_saw() -> None:
    with serving("--simulate", "--quiet", "--listen", "127.0.0.1:0") as (line, _), httpx2.Client() as client:
        url = url_in(line)
        assert "<!doctype html>" in client.get(url, headers=HTML).text
        assert client.get(f"{url}/?format=json").headers["content-type"] == "application/json"
        assert client.get(url).text == "toolwire gateway\n"
        assert client.get(url, headers={"accept": "application/json"}).text == "toolwire gateway\n"
        head = client.head(url, headers=HTML)
        assert (head.status_code, head.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert client.get(url, headers={**HTML, "host": "evil.example"}).status_code == 421
        assert client.get(f"{url}/page/paste", headers={"sec-fetch-site": "cross-site"}).status_code == 403
        chat = {"model": "openai/any", "messages": [{"role": "user", "content": "Hi"}]}
        assert client.post(f"{url}/v1/chat/completions", json=chat).status_code == 200


def test_a_gateway_has_no_page_unless_it_is_turned_on(tmp_path: Path) -> None:
    file = tmp_path / "toolwire.toml"
    file.write_text('[providers.local]\ndialect = "openai-chat"\nbase_url = "http://127.0.0.1:1"\n')
    with serving("--config", str(file), "--quiet", "--listen", "127.0.0.1:0") as (line, _), httpx2.Client() as client:
        assert client.get(url_in(line), headers=HTML).text == "toolwire gateway\n"
        assert client.get(f"{url_in(line)}/page/paste", headers=HTML).status_code == 404


def test_an_admin_signs_in_by_a_link_that_the_command_line_prints(tmp_path: Path) -> None:
    file, database = tmp_path / "toolwire.toml", f"sqlite:///{tmp_path}/toolwire.db"
    file.write_text(f'[server]\ndatabase = "{database}"\n[record]\n[page]\non = true\n')
    ledger = LimitLedger(database)
    (admin, admin_key), (plain, plain_key) = (
        mint(name, [], [], 0.0, None, team="core", is_admin=name == "boss") for name in ("boss", "ci")
    )
    for key in (admin_key, plain_key):
        ledger.add(key)
    ledger.close()
    arguments = ("--simulate", "--config", str(file), "--quiet", "--listen", "127.0.0.1:0")
    with serving(*arguments) as (line, _), httpx2.Client() as client:
        url = url_in(line)
        assert client.get(url, headers=HTML).status_code == 401
        refused = view(url, plain)
        assert refused.returncode == 2
        assert "needs an admin key" in refused.stderr
        printed = view(url, admin)
        link = printed.stdout.strip()
        assert link.startswith(f"{url}/page/sign-in?link="), printed.stderr
        assert "Sign in" in client.get(link).text
        token = link.partition("link=")[2]
        signed = client.post(f"{url}/page/sign-in", data={"link": token}, headers={"origin": url})
        assert signed.status_code == 303
        cookie = {"cookie": signed.headers["set-cookie"].partition(";")[0]}
        assert "Sign out boss" in client.get(url, headers={**HTML, **cookie}).text
        assert client.post(f"{url}/page/sign-in", data={"link": token}, headers={"origin": url}).status_code == 403
        assert client.get(f"{url}/v1/models", headers=cookie).status_code == 401
        chat = {"model": "openai/any", "messages": [{"role": "user", "content": "Hi"}]}
        asked = client.post(f"{url}/v1/chat/completions", json=chat, headers={"authorization": f"Bearer {plain}"})
        assert asked.status_code == 200
        rows = eventually(lambda: client.get(f"{url}/page/spend?by=team&format=json", headers=cookie).json()["rows"])
        assert [(row["name"], row["requests"]) for row in rows] == [("core", 1)]
        listed = eventually(lambda: client.get(f"{url}/?format=json", headers=cookie).json()["exchanges"])
        assert [line["key_name"] for line in listed] == ["ci"]


def eventually(read: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the first result that is not empty: usage and records are written in the background."""
    until = time.monotonic() + 20
    while not (rows := read()) and time.monotonic() < until:
        time.sleep(0.05)
    return rows


def view(url: str, key: str) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TOOLWIRE_KEY": key}
    words = [sys.executable, "-m", "toolwire", "view", url]
    return subprocess.run(words, env=environ, text=True, capture_output=True, timeout=60, check=False)


def test_view_serves_a_file_and_export_writes_one(tmp_path: Path) -> None:
    from tests.page.samples import fill
    from toolwire import records

    body = tmp_path / "body.json"
    body.write_text('{"model":"m","messages":[{"role":"user","content":"Hi"}],"logit_bias":{"1":2}}')
    with serving(str(body), command="view") as (line, _), httpx2.Client() as client:
        assert "logit_bias" in client.get(url_in(line), headers=HTML).text
        assert client.get(url_in(line), headers={**HTML, "host": "evil.example"}).status_code == 421
    database = f"sqlite:///{tmp_path}/records.db"
    with records.open(database) as store:
        made = fill(store, 2)
    with serving(f"{tmp_path}/records.db", command="view") as (line, _), httpx2.Client() as client:
        assert len(client.get(f"{url_in(line)}/?format=json").json()["exchanges"]) == len(made)
    words = [sys.executable, "-m", "toolwire", "export", made[-1].id, "-o", f"{tmp_path}/page.html"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([*words, "--database", database], env=environ, check=True, timeout=60)
    html = (tmp_path / "page.html").read_text()
    assert "Content-Security-Policy" in html
    assert "logit_bias" in html
    assert not re.search(r"(?:src|href)=\"(?!#)", html)


@pytest.mark.parametrize(
    ("source", "words"), [("nothing.db", "is no file"), ("sqlite:///nothing.db", "is no file"), (__file__, "")]
)
def test_view_names_what_is_wrong(source: str, words: str, tmp_path: Path) -> None:
    if not words:
        import sqlite3

        source, words = str(tmp_path / "other.db"), "has no records, traces or runs"
        with contextlib.closing(sqlite3.connect(source)) as other:
            other.execute("CREATE TABLE x (y)")
    run = view(source, "")
    assert run.returncode == 2
    assert words in run.stderr
    assert "Traceback" not in run.stderr
