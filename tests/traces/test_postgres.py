"""The server of the tests is a real one, is reached with a password only, and leaves nothing behind."""

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from tests.traces import postgres as server
from tests.traces.postgres import APP, Database, Postgres

pytestmark = pytest.mark.slow  # servers are begun and ended
SLEEPS = """
import sys, time
from tests.traces import postgres

made = postgres.start()
print(made.process.pid, made.folder, flush=True)
time.sleep(60)
"""


def asked(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question).fetchone()
        return row[0] if row is not None else None


def test_a_new_database_has_an_owner_and_an_application(postgres: Postgres, database: Database) -> None:
    assert asked(database.url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    assert asked(database.app_url, "SELECT current_user") == APP
    assert not asked(database.app_url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    assert asked(database.url, "SELECT current_setting('fsync')") == "on"
    assert asked(database.url, "SELECT current_setting('listen_addresses')") == ""
    assert postgres.create().name != database.name


@pytest.mark.parametrize("role", ["owner", "app"])
def test_every_role_needs_its_password(postgres: Postgres, database: Database, role: str) -> None:
    wrong = postgres.url(database.name, role).replace(postgres.passwords[role], "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_a_wheel_in_a_closed_folder_is_copied(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del postgres
    real, seen = server._run, []

    def closed(program: Path, *options: str) -> "subprocess.CompletedProcess[str]":
        seen.append(program)
        inside = tmp_path in program.parents
        return real(program, *options) if inside else subprocess.CompletedProcess([], 1)

    monkeypatch.setattr(server, "_run", closed)
    monkeypatch.setattr(server, "DEBIAN", tmp_path / "none")
    if find_spec(server.WHEEL) is None:
        pytest.skip("the wheel is not there")
    tmp_path.chmod(0o755)
    monkeypatch.setattr(server, "NOBODY", os.geteuid())
    assert tmp_path in server._programs(tmp_path).parents
    assert len(seen) == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_the_server_dies_with_a_run_that_is_killed(postgres: Postgres) -> None:
    del postgres
    run = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    pid, folder = run.stdout.readline().split()
    assert Path(f"/proc/{pid}").exists(), "a control"
    run.kill()
    run.wait()
    run.stdout.close()
    late = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < late:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
    subprocess.run(["rm", "-rf", folder], check=True)  # noqa: S607 - found by its name


def test_the_end_leaves_no_process_and_no_folder(postgres: Postgres) -> None:
    del postgres
    other = server.start()
    other.end()
    assert other.process.poll() is not None
    assert not other.folder.exists()
