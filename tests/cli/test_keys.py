"""`toolwire keys`, `toolwire config` and a gateway that uses them, as programs."""

import asyncio
import contextlib
import json
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from tests.cli.test_serve import first_line, program
from tests.gateway.conftest import database, postgres
from toolwire.cli import main
from toolwire.gateway.accounts import FRESH
from toolwire.testing import simulate

__all__ = ["database", "postgres"]

SETTINGS = """
[server]
database = "{database}"
[providers.local]
dialect = "openai-chat"
base_url = "{url}"
key = "$LOCAL_KEY"
[prices]
"local/m" = {{ input = 1.0, output = 4.0 }}
"""
QUESTION = {"model": "local/m", "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}]}


def settings(folder: Path, url: str, database: str = "sqlite:///keys.db") -> str:
    """Write the settings of a gateway before a server."""
    file = folder / "toolwire.toml"
    file.write_text(SETTINGS.format(database=database, url=url))
    return str(file)


def create(file: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Make a key, as an operator does."""
    capsys.readouterr()
    assert main(["keys", "create", "--config", file, "--name", "ci", *options]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith("tw-")
    assert printed.out.endswith("\n")
    assert len(printed.out.split()) == 1
    return printed.out.strip()


def test_an_argument_that_is_no_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = settings(tmp_path, "http://127.0.0.1:1")
    assert main(["keys", "create", "--config", file, "--name", "x", "--models", "\udcff"]) == 2
    assert capsys.readouterr().err == "toolwire: an argument is not UTF-8: '\\udcff'\n"


async def storm(urls: list[str], key: str, count: int, patience: float = 60) -> Counter[int]:
    """Ask so often at once, at each address in turn; count what was answered."""
    limits = httpx2.Limits(max_connections=300)
    async with httpx2.AsyncClient(timeout=patience, limits=limits, trust_env=False) as session:

        async def ask(number: int) -> int:
            url = f"{urls[number % len(urls)]}/v1/chat/completions"
            try:
                return (await session.post(url, json=QUESTION, headers={"x-api-key": key})).status_code
            except httpx2.HTTPError:
                return 0

        return Counter(await asyncio.gather(*[ask(number) for number in range(count)]))


def readiness(url: str) -> int:
    """Ask whether a gateway is ready."""
    return httpx2.get(f"{url}/ready").status_code


def test_a_key_is_made_listed_shown_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = settings(tmp_path, "http://127.0.0.1:1")
    options = ["--models", "sonnet,openai/*", "--requests", "60/min", "--tokens", "100000", "--budget", "300/month"]
    key = create(file, capsys, *options, "--expires", "30d", "--team", "core", "--user", "ann", "--admin")
    assert main(["keys", "create", "--config", file, "--name", "ci"]) == 2
    refused = capsys.readouterr()
    assert (refused.out, f"'ci' is the name of the key {key[3:11]}; revoke that key" in refused.err) == ("", True)
    assert main(["keys", "list", "--config", file]) == 0
    listed = capsys.readouterr().out
    assert key not in listed
    assert "requests=60/min tokens=100000/min budget=300/month" in listed
    assert main(["keys", "show", key[3:11], "--config", file]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["limits"] == {"requests": "60/min", "tokens": "100000/min", "budget": "300/month"}
    assert shown["taken"] == {"requests": 0, "tokens": 0, "budget": 0.0}
    assert shown["expires"] > shown["created"]
    assert (shown["team"], shown["user"], shown["admin"]) == ("core", "ann", True)
    assert main(["keys", "revoke", "ci", "--config", file]) == 0
    create(file, capsys)  # the name of a revoked key is free
    assert main(["keys", "list", "--config", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = []
    for action in ("show", "revoke", "show"):
        assert main(["keys", action, key[3:11], "--config", file]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[2], "when it was revoked stays"
    assert [line.split()[1] for line in lines] == ["revoked", "active"]
    with contextlib.closing(sqlite3.connect(tmp_path / "keys.db")) as database:
        assert key not in str(database.execute("SELECT * FROM toolwire_keys").fetchall())


def printed(file: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run `toolwire keys`, and return what it prints."""
    capsys.readouterr()
    assert main(["keys", *arguments, "--config", file]) == 0
    return capsys.readouterr().out


def test_keys_are_listed_with_what_they_have_spent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        file = settings(tmp_path, model.url)
        limits = ("--requests", "100/day", "--tokens", "100000/month", "--budget", "1/month", "--alert", "80%")
        key = create(file, capsys, *limits, "--team", "core", "--user", "ann")
        assert main(["keys", "create", "--config", file, "--name", "root", "--admin"]) == 0
        ran = program("--quiet", "--config", file, "--listen", "127.0.0.1:0", LOCAL_KEY="k")
        try:
            assert asyncio.run(storm([first_line(ran)], key, 3)) == {200: 3}
        finally:
            ran.send_signal(signal.SIGTERM)
            ran.communicate(timeout=40)
    [ci, root] = json.loads(printed(file, capsys, "list", "--json"))
    assert ci == json.loads(printed(file, capsys, "show", "ci"))
    assert (ci["team"], ci["user"], ci["admin"], ci["alert"]) == ("core", "ann", False, "80%")
    assert (root["name"], root["admin"], root["limits"], root["taken"]) == ("root", True, {}, {})
    assert ci["taken"]["requests"] == 3
    assert ci["taken"]["tokens"] > 0
    assert 0 < ci["taken"]["budget"] < 0.001
    [first, second] = printed(file, capsys, "list").splitlines()
    limits_of_ci = "requests=100/day tokens=100000/month budget=1/month"
    taken = f"taken requests=3 tokens={ci['taken']['tokens']} budget={ci['taken']['budget']:g}"
    assert first.split(maxsplit=4)[2:] == ["ci", "*", f"{limits_of_ci}  {taken}  team=core user=ann"]
    assert second.split(maxsplit=4)[2:] == ["root", "*", "no limits  admin"]


def test_a_key_is_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = settings(tmp_path, "http://127.0.0.1:1")
    create(file, capsys, "--budget", "20/day", "--models", "openai/*", "--team", "core")
    before = json.loads(printed(file, capsys, "show", "ci"))
    more = ("--budget", "300/month", "--requests", "5/min", "--alert", "90%", "--admin", "yes", "--expires", "1d")
    assert printed(file, capsys, "change", "ci", *more) == f"{before['id']} (ci) is changed\n"
    after = json.loads(printed(file, capsys, "show", "ci"))
    assert after["limits"] == {"requests": "5/min", "budget": "300/month"}
    assert (after["alert"], after["admin"], after["models"], after["team"]) == ("90%", True, ["openai/*"], "core")
    assert after["expires"] > after["created"]
    nothing = [one for name in ("models", "team", "requests", "alert", "expires") for one in (f"--{name}", "none")]
    printed(file, capsys, "change", before["id"], *nothing, "--budget", "20/day", "--admin", "no")
    assert json.loads(printed(file, capsys, "show", "ci")) == before | {"models": ["*"], "team": ""}
    printed(file, capsys, "change", "ci", "--name", "cd")
    create(file, capsys)
    assert main(["keys", "change", "ci", "--name", "cd", "--config", file]) == 2
    assert f"'cd' is the name of the key {before['id']}" in capsys.readouterr().err
    printed(file, capsys, "revoke", "cd")
    assert main(["keys", "change", "cd", "--team", "x", "--config", file]) == 2
    assert "is revoked, and cannot be changed" in capsys.readouterr().err


def test_the_name_of_an_expired_key_is_free(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = settings(tmp_path, "http://127.0.0.1:1")
    old = create(file, capsys, "--expires", "0.2s")
    time.sleep(0.3)
    new = create(file, capsys)
    assert old != new
    assert json.loads(printed(file, capsys, "show", "ci"))["id"] == new[3:11], "the key in force has the name"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "--name", "ci", "--requests", "1/week"], "60/min"),
        (["create", "--name", "ci", "--budget", "1/year"], "300/month"),
        (["create", "--name", "ci", "--expires", "soon"], "30s, 15m, 24h or 7d"),
        (["create", "--name", "ci", "--expires", "99999999999d"], "expires year"),
        (["create", "--name", ""], "1 to 100"),
        (["create", "--name", "ci", "--team", "x" * 101], "team must be a printable text of at most 100 characters"),
        (["create", "--name", "ci", "--user", "a\nb"], "user must be a printable text of at most 100 characters"),
        (["create", "--name", "ci", "--models", ""], "models must name a model"),
        (["create", "--name", "ci", "--models", " , "], "models must name a model"),
        (["create", "--name", "ci", "--expires", "0d"], "expires must be more than 0 seconds"),
        (["create", "--name", "ci", "--expires", "9999999d"], "expires"),
        (["revoke", "nobody"], "there is no key 'nobody'"),
        (["show"], "key is missing"),
        (["create", "--name", "ci", "--alert", "80%"], "alert needs a budget"),
        (["create", "--name", "ci", "--budget", "1/day", "--alert", "0.8"], "such as 80%"),
        (["change", "nobody", "--team", "x"], "there is no key 'nobody'"),
        (["change", "nobody"], "settings are missing"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", *arguments, "--config", settings(tmp_path, "http://127.0.0.1:1")]) == 2
    assert said in capsys.readouterr().err


def test_without_a_database_there_are_no_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "toolwire.toml").write_text("")
    assert main(["keys", "list", "--config", str(tmp_path / "toolwire.toml")]) == 2
    assert "server: database is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "mkdir away; mv keys.db* away",
        *(
            pytest.param(command, marks=pytest.mark.slow)
            for command in (
                "mkdir away; mv keys.db away",
                "mkdir away; mv keys.db away; : > keys.db",
                "mkdir away; mv keys.db-wal away",
                "mkdir away; mv keys.db* away; cp away/keys.db .",
            )
        ),
    ],
)
@pytest.mark.slow
def test_nobody_is_admitted_once_the_database_was_taken_away(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        file = settings(tmp_path, model.url)
        key = create(file, capsys, "--requests", "100/day")
        ran = program("--config", file, "--listen", "127.0.0.1:0", LOCAL_KEY="k")
        try:
            url = first_line(ran)
            assert (asyncio.run(storm([url], key, 3)), readiness(url)) == ({200: 3}, 200)
            subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=True)
            time.sleep(FRESH)
            assert (asyncio.run(storm([url], key, 3)), readiness(url)) == ({503: 3}, 503)
            subprocess.run(["/bin/sh", "-c", "mv -f away/* ."], cwd=tmp_path, check=True)
            assert (asyncio.run(storm([url], key, 3)), readiness(url)) == ({200: 3}, 200)
        finally:
            ran.send_signal(signal.SIGTERM)
            _, said = ran.communicate(timeout=40)
        assert len(model.requests) == 6
        assert "keys.db" in said
        assert said.count("the ledger failed") == 1
        told = [line for line in said.splitlines() if "removed, moved or replaced" in line]
        assert ["usage ledger" in line for line in told].count(False) == 1
        assert len(told) <= 2, "each ledger says it once"
        assert said.count("the ledger works again") == 1
        assert "Traceback" not in said
        assert main(["keys", "show", "ci", "--config", file]) == 0
        assert json.loads(capsys.readouterr().out)["taken"] == {"requests": 6}


@pytest.fixture(params=["sqlite", "postgresql"])
def kept(request: pytest.FixtureRequest) -> str:
    return "sqlite:///keys.db" if request.param == "sqlite" else request.getfixturevalue("database").url


@pytest.mark.slow
@pytest.mark.row("O17")
@pytest.mark.parametrize(("limit", "served"), [(("--requests", "100/day"), 100), (("--budget", "0.01/day"), 0)])
def test_two_processes_admit_what_the_limit_says_and_no_more(
    limit: tuple[str, str], served: int, kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        file = settings(tmp_path, model.url, kept)
        key = create(file, capsys, *limit)
        ran = [program("--quiet", "--config", file, "--listen", "127.0.0.1:0", LOCAL_KEY="k") for _ in range(2)]
        try:
            counted = asyncio.run(storm([first_line(one) for one in ran], key, 1000))
        finally:
            for one in ran:
                one.send_signal(signal.SIGTERM)
                one.communicate(timeout=40)
        assert set(counted) == {200, 429}
        assert len(model.requests) == counted[200]
        assert main(["keys", "show", "ci", "--config", file]) == 0
        [(kind, taken)] = json.loads(capsys.readouterr().out)["taken"].items()
        if kind == "requests":
            assert counted == {200: served, 429: 900}
            assert taken == 100
        else:
            assert 0.008 < taken <= 0.01
