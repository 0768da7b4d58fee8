"""The page `docs/operate.md`: each of its commands is run here, and its metrics are those of the gateway."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.processes import Gateway, until
from tests.gateway.test_request_record import RECORD
from tests.traces.postgres import Database, Postgres
from toolwire.gateway.metrics import Metrics
from toolwire.testing import simulate

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "operate.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
RULES = next(block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if block.startswith("groups"))
SETTINGS = """
[server]
database = "$TOOLWIRE_DATABASE"
[providers.openai]
base_url = "{url}"
key_file = "keys/openai"
"""


def block(word: str) -> str:
    """Return the commands of the page that contain a word."""
    [found] = [one for one in BLOCKS if word in one]
    return str(found)


class Host:
    """A folder with a file of settings, and what an operator does there."""

    def __init__(self, folder: Path, url: str, database: str, programs: Path | None = None) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "keys").mkdir()
        (folder / "keys" / "openai").write_text("first")
        (folder / "toolwire.toml").write_text(SETTINGS.format(url=url))
        command = folder / "bin" / "toolwire"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m toolwire "$@"\n')
        command.chmod(0o755)
        path = [folder / "bin", *([programs] if programs is not None else []), os.environ["PATH"]]
        self.around = {
            "PATH": os.pathsep.join(map(str, path)),
            "PYTHONPATH": str(ROOT / "src"),
            "TOOLWIRE_DATABASE": database,
        }

    def run(self, commands: str, **more: str) -> str:
        """Run commands as the page has them, and stop at the first that fails."""
        done = subprocess.run(
            ["/bin/sh", "-euc", commands],
            cwd=self.folder,
            env={**self.around, **more},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def serving(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
        """Start a gateway, and stop it."""
        monkeypatch.setenv("TOOLWIRE_DATABASE", self.around["TOOLWIRE_DATABASE"])
        gateway = Gateway(self.folder)
        try:
            yield gateway
        finally:
            gateway.stop()
            assert gateway.process.returncode == 0

    def taken(self, name: str) -> int:
        """Return how many requests a key has used."""
        shown = json.loads(self.run(f"toolwire keys show {name} --config toolwire.toml"))
        return int(shown["taken"]["requests"])


def status(url: str, key: str) -> int:
    """Ask a short question, and return the status."""
    body = json.dumps({"model": "openai/m", "messages": [{"role": "user", "content": "Hello"}]}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    try:
        request = urllib.request.Request(f"{url}/v1/chat/completions", body, headers)  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - loopback
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code


def _back_and_forth(host: Host, save: str, restore: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Back up while a gateway serves; spend and revoke; restore, and find what there was."""
    create = "toolwire keys create --config toolwire.toml --name ci --requests 100/day"
    key = host.run(create).strip()
    with host.serving(monkeypatch) as gateway:
        assert [status(gateway.url, key) for _ in range(3)] == [200] * 3
        until(lambda: host.taken("ci") == 3)
        host.run(save)
        assert status(gateway.url, key) == 200
        host.run("toolwire keys revoke ci --config toolwire.toml")
        time.sleep(1.2)
        assert status(gateway.url, key) == 401
    host.run(restore)
    with host.serving(monkeypatch) as gateway:
        assert host.taken("ci") == 3
        assert status(gateway.url, key) == 200


@pytest.mark.slow
def test_a_backup_of_sqlite_is_made_while_a_gateway_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("sqlite3") is None:
        pytest.skip("the command sqlite3 is not installed")
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        host = Host(tmp_path, model.url, "sqlite:///toolwire.db")
        _back_and_forth(host, block("sqlite3"), block("cp -p"), monkeypatch)
        assert (tmp_path / "toolwire.db").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_backup_of_postgresql_is_made_while_a_gateway_serves(
    tmp_path: Path, database: Database, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Path(next(word for word in postgres.process.args if str(word).endswith("/postgres"))).parent  # type: ignore[union-attr, arg-type]
    if not (programs / "pg_dump").exists():
        pytest.skip(f"no pg_dump of the server's version: {programs}")
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        host = Host(tmp_path, model.url, database.url, programs)
        _back_and_forth(host, block("pg_dump"), block("pg_restore"), monkeypatch)


@pytest.mark.slow
def test_keys_are_rotated_while_a_gateway_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        host = Host(tmp_path, model.url, "sqlite:///toolwire.db")
        key = host.run("toolwire keys create --config toolwire.toml --name ci").strip()
        with host.serving(monkeypatch) as gateway:
            assert status(gateway.url, key) == 200
            assert model.requests[-1].headers["authorization"] == "Bearer first"
            host.run(block("kill -HUP"), NEW_KEY="second", PID=str(gateway.process.pid))
            until(lambda: '"settings":"read anew"' in gateway.log.read_text())
            assert status(gateway.url, key) == 200
            assert model.requests[-1].headers["authorization"] == "Bearer second"
            (tmp_path / "keys" / "openai").write_text("")
            gateway.process.send_signal(signal.SIGHUP)
            until(lambda: '"settings":"refused; the old ones are in force"' in gateway.log.read_text())
            assert status(gateway.url, key) == 200
            new = host.run(block("ci-2")).splitlines()[0]
            time.sleep(1.2)
            assert [status(gateway.url, one) for one in (key, new)] == [401, 200]


@pytest.mark.slow
def test_gateways_are_restarted_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        host = Host(tmp_path, model.url, "sqlite:///toolwire.db")
        key = host.run("toolwire keys create --config toolwire.toml --name ci --requests 100/day").strip()
        printed = host.run(block("--check"))
        assert re.search(r"^toolwire \d+\.\d+", printed)
        assert "providers, 0 routes" in printed
        with host.serving(monkeypatch) as first:
            with host.serving(monkeypatch) as second:
                assert [status(one.url, key) for one in (first, second)] == [200, 200]
            assert status(first.url, key) == 200
            with host.serving(monkeypatch) as third:
                assert [status(one.url, key) for one in (first, third)] == [200, 200]
        until(lambda: host.taken("ci") == 5)


def test_every_command_of_the_page_is_run_here() -> None:
    run = [block(word) for word in ("sqlite3", "cp -p", "pg_dump", "pg_restore", "--check", "kill -HUP", "ci-2")]
    assert sorted(run) == sorted(BLOCKS)


def test_the_alerts_of_the_page_name_metrics_and_labels_of_the_gateway() -> None:
    metrics = Metrics(lambda: ["local"], lambda: 0)
    metrics.observe(RECORD)
    text = metrics.render().decode()
    labels: dict[str, set[str]] = {}
    for name, pairs in re.findall(r"(?m)^(\w+)(?:\{(.*)\})? ", text):
        labels.setdefault(name, set()).update(re.findall(r"(\w+)=", pairs))
    rules: list[dict[str, Any]] = yaml.safe_load(RULES)["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) == 10
    for rule in rules:
        expression = rule["expr"]
        assert expression.count("(") == expression.count(")")
        for name, matchers in re.findall(r"(toolwire_\w+)(?:\{(.*?)\})?", expression):
            assert name in labels, name
            assert set(re.findall(r"(\w+)=", matchers)) <= labels[name], expression
            for grouping in re.findall(r"by \((.*?)\)", expression):
                assert set(grouping.split(", ")) <= labels[name] | {"job"}, expression
    assert sum("toolwire_" in rule["expr"] for rule in rules) == 9
