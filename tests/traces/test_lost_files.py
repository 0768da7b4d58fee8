"""A store whose file was taken away, cut or overwritten while it is open says so before it acknowledges more."""

import asyncio
import os
import shutil
import sqlite3
import struct
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import create_engine

from tests.amounts import FULL
from tests.client.faces import lead
from tests.traces.making import change, made, record
from toolwire import LoopLimits, ToolCall, tool, traces
from toolwire.codetools import CodeTools
from toolwire.databases import file_watch
from toolwire.errors import StoreFailed
from toolwire.resolvers.execution import execute
from toolwire.testing import simulate
from toolwire.traces import databases
from toolwire.traces.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps files that are open")

NOISE = b"all of it is other text now\n"


def wal(path: Path) -> Path:
    return Path(f"{path}-wal")


def removed(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def replaced(path: Path) -> None:
    """Put a store begun anew in its place."""
    other = path.with_name("other.db")
    with traces.open(f"sqlite:///{other}") as store:
        record(store, 3)
    other.replace(path)


def by_a_text(path: Path) -> None:
    path.unlink()
    path.write_bytes(NOISE)


def moved_with_its_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 4096 // 2 * 4096)


def overwritten(path: Path, place: int = 0, data: bytes = NOISE * 20) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)


def link(path: Path) -> None:
    path.rename(path.with_name("moved.db"))
    path.symlink_to(path.with_name("moved.db"))


def rows_taken_out(path: Path) -> None:
    """As a program of SQLite does it, that drops the guards first."""
    guards = [f"DROP TRIGGER tool_traces_{name}" for name in ("no_update", "no_delete", "next")]
    change(f"sqlite:///{path}", *guards, "DELETE FROM tool_traces WHERE position > 1")


ATTACKS: dict[str, Callable[[Path], object]] = {
    "removed, with all beside it": removed,
    "removed": Path.unlink,
    "moved": lambda path: path.rename(path.with_name("moved.db")),
    "moved with its folder": moved_with_its_folder,
    "replaced by a store begun anew": replaced,
    "replaced by a text": by_a_text,
    "replaced by a copy of itself": lambda path: (shutil.copy(path, f"{path}2"), Path(f"{path}2").replace(path)),
    "replaced by a link": link,
    "emptied": emptied,
    "overwritten by a text": lambda path: path.write_bytes(NOISE),
    "overwritten at its beginning": overwritten,
    "overwritten by zeros": lambda path: overwritten(path, 0, b"\0" * path.stat().st_size),
    "the log removed": lambda path: wal(path).unlink(),
    "the log moved": lambda path: wal(path).rename(path.with_name("moved-wal")),
    "the log emptied and made anew": lambda path: by_a_text(wal(path)),
    "the index of the log removed": lambda path: Path(f"{path}-shm").unlink(),
    "a journal beside it": lambda path: Path(f"{path}-journal").write_bytes(NOISE),
}
LATER: dict[str, Callable[[Path], object]] = {
    "cut": cut,
    "rows taken out": rows_taken_out,
}
LOGGED: dict[str, Callable[[Path], object]] = {
    "the index of the log emptied": lambda path: os.truncate(f"{path}-shm", 0),
    "the log emptied": lambda path: os.truncate(wal(path), 0),
    "the log overwritten": lambda path: overwritten(wal(path), 0, NOISE * 200),
    "the beginning of the log overwritten": lambda path: overwritten(wal(path), 0, NOISE),
}


@cache
def empty() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "traces.db")
        traces.open(f"sqlite:///{path}").close()
        return path.read_bytes()


def opened(folder: Path, **options: Any) -> Store:
    """Open the store of a folder, which has its table already."""
    folder.mkdir(exist_ok=True)
    if not (folder / "traces.db").exists():
        (folder / "traces.db").write_bytes(empty())
    return traces.open(f"sqlite:///{folder / 'traces.db'}", **options)


def checkpoint(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_the_file_is_there_at_every_moment(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        assert [path.name for path in store.files] == [f"traces.db{end}" for end in ("", "-wal", "-shm", "-journal")]
        for _ in range(3):
            record(store, 2)
            assert store.failed is None


WAYS = ("record", "failed", "flush", "aflush", "close")
FAST = {(moment, "record") for moment in ("at first", "later", "in the log", "after a checkpoint")} | {
    ("in the log", "failed")
}
CASES = [
    *((name, "at first", "record") for name in ATTACKS),
    *(
        (name, moment, way)
        for name in ATTACKS
        for moment in ("later", "in the log", "after a checkpoint")
        for way in WAYS
    ),
    *((name, "after a checkpoint", way) for name in LATER for way in WAYS),
    *((name, "in the log", way) for name in LOGGED for way in WAYS),
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("attack", "moment", "way"),
    [pytest.param(*case, marks=() if case[1:] in FAST else pytest.mark.slow) for case in CASES],
)
@pytest.mark.row("T18")
def test_what_becomes_of_the_files_is_noticed(tmp_path: Path, attack: str, moment: str, way: str) -> None:
    store = opened(tmp_path / "store")
    path = tmp_path / "store" / "traces.db"
    if moment != "at first":
        record(store, 4)
    if moment in ("later", "after a checkpoint"):
        checkpoint(path)
        record(store, 20)
    if moment == "after a checkpoint":
        checkpoint(path)
        record(store, 1)
    ({**ATTACKS, **LATER, **LOGGED})[attack](path)
    noticed(store, way)
    with pytest.raises(StoreFailed):
        store.close()
    assert store.lost == (way == "record")


def noticed(store: Store, way: str) -> None:
    """Nothing is acknowledged any more."""
    match way:
        case "failed":
            assert isinstance(store.failed, StoreFailed)
        case "record":
            ticket = store.record(made())
            with pytest.raises(StoreFailed):
                ticket.wait()
            assert not ticket.done
        case "aflush":
            with pytest.raises(StoreFailed):
                asyncio.run(store.aflush())
        case "flush":
            with pytest.raises(StoreFailed):
                store.flush()


def reader(path: Path) -> None:
    with traces.open(f"sqlite:///{path}", create=False) as store:
        assert store.verify().ok


def other_writer(path: Path) -> None:
    with traces.open(f"sqlite:///{path}") as store:
        record(store, 3)


def other_namespace(path: Path) -> None:
    with traces.open(f"sqlite:///{path}", namespace="other") as store:
        record(store, 3)


def backup(path: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(f"{path}.copy")) as target:
        source.backup(target)


def statement(words: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(words.format(path=path)).fetchall()

    return run


HARMLESS: dict[str, Callable[[Path], object]] = {
    "a VACUUM": statement("VACUUM"),
    "a VACUUM into a copy": statement("VACUUM INTO '{path}.copy'"),
    "a backup": backup,
    "a checkpoint": checkpoint,
    "an index": statement("CREATE INDEX mine ON tool_traces (model)"),
    "a reader": reader,
    "another writer": other_writer,
    "another store in the file": other_namespace,
    "another mode": lambda path: path.chmod(0o640),
    "another name beside it": lambda path: os.link(path, path.with_name("second")),
}


@pytest.mark.parametrize("act", HARMLESS)
@pytest.mark.row("T18")
def test_what_does_no_harm_passes(tmp_path: Path, act: str) -> None:
    path = tmp_path / "store" / "traces.db"
    with opened(path.parent) as store:
        record(store, 30)
        for _ in range(2):
            path.with_name("second").unlink(missing_ok=True)
            for copy in path.parent.glob("*.copy"):
                copy.unlink()
            if act != "an index" or not _:
                HARMLESS[act](path)
            assert store.failed is None
            record(store, 3)
            assert store.record(made()).wait()
        assert store.verify().ok
    with traces.open(f"sqlite:///{path}", create=False) as store:
        assert store.verify().ok
        assert store.count() >= 38
    for copy in path.parent.glob("*.copy"):
        with traces.open(f"sqlite:///{copy}", create=False) as store:
            assert store.verify().ok


HOT = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 1, 1, 512, 4096) + bytes(484)


@pytest.mark.parametrize("moment", ["written into the file", "in the log", "while it is open"])
@pytest.mark.row("T18")
def test_a_journal_that_would_be_played_back_over_the_rows_is_refused(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hot journal, SQLite makes the database what it was before: here, a single page."""
    monkeypatch.setattr(file_watch, "_TRANSACTION_SECONDS", 0.1)
    path = tmp_path / "store" / "traces.db"
    journal = Path(f"{path}-journal")
    store = opened(path.parent)
    record(store, 200)
    if moment == "while it is open":
        journal.write_bytes(HOT)
        with pytest.raises(StoreFailed, match="put beside"):
            store.close()
    elif moment == "in the log":  # as after a crash
        copied = tmp_path / "copy"
        shutil.copytree(path.parent, copied)
        store.close()
        path, journal = copied / "traces.db", copied / "traces.db-journal"
    else:
        store.close()
    journal.write_bytes(HOT)
    for create in (True, False):
        with pytest.raises(StoreFailed, match=r"traces\.db-journal is not the store's"):
            traces.open(f"sqlite:///{path}", create=create)
    journal.unlink()
    with traces.open(f"sqlite:///{path}", create=False) as again:
        assert (again.count(), again.verify().ok) == (200, True)


def test_without_that_a_journal_takes_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(databases, "refuse_journal", lambda _: None)
    with opened(tmp_path / "store") as store:
        record(store, 200)
    path = tmp_path / "store" / "traces.db"
    Path(f"{path}-journal").write_bytes(HOT)
    with pytest.raises(StoreFailed), traces.open(f"sqlite:///{path}", create=False) as again:
        again.count()
    assert path.stat().st_size == 4096


@pytest.mark.parametrize("beginning", [b"", bytes(512)], ids=["empty", "of a transaction that ended"])
def test_a_journal_that_is_not_played_back_is_let_be(tmp_path: Path, beginning: bytes) -> None:
    with opened(tmp_path / "store") as store:
        record(store, 20)
    path = tmp_path / "store" / "traces.db"
    Path(f"{path}-journal").write_bytes(beginning)
    with traces.open(f"sqlite:///{path}", create=False) as again:
        assert again.count() == 20
    with traces.open(f"sqlite:///{path}") as again:
        record(again, 2)
        assert (again.count(), again.verify().ok) == (22, True)


@pytest.mark.row("T18")
def test_a_store_that_may_fail_goes_on_and_counts(tmp_path: Path) -> None:
    store = opened(tmp_path / "store", failing="continue")
    record(store, 2)
    removed(tmp_path / "store" / "traces.db")
    ticket = store.record(made())
    assert store.flush()
    assert (ticket.done, store.lost, store.failed) == (False, 1, None)
    store.close()


@pytest.mark.row("T18")
def test_a_file_of_the_hosts_engine_is_watched_too(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    engine = create_engine(f"sqlite:///{path}")
    store = traces.open(engine=engine)
    record(store, 2)
    replaced(path)
    with pytest.raises(StoreFailed, match=r"host\.db was removed, moved or replaced while it was open"):
        record(store, 1)
    with pytest.raises(StoreFailed):
        store.close()
    engine.dispose()


@pytest.mark.row("T18")
def test_rows_that_were_acknowledged_stay(store_url: str) -> None:
    """The owner of a database can take them out, on PostgreSQL as well: who records says so."""
    store = traces.open(store_url)
    record(store, 5)
    guards = "ALTER TABLE tool_traces DISABLE TRIGGER USER"
    if store_url.startswith("sqlite"):
        rows_taken_out(Path(store_url.removeprefix("sqlite:///")))
    else:
        change(store_url, guards, "DELETE FROM tool_traces WHERE position > 1")
    ticket = store.record(made())
    with pytest.raises(StoreFailed, match="acknowledged"):
        ticket.wait()
    with pytest.raises(StoreFailed):
        store.close()


# What a tool does to the store of the run that it is called in, and whether it succeeds. The writing tools make a file
# anew and put it in the place of the other; those that edit refuse a file that is no text.
NOTICED, REFUSED = True, False
OTHER = {"content": "other"}
EDIT = {"old_text": "SQLite", "new_text": "other"}
TAKEN: dict[str, tuple[str, dict[str, Any], bool]] = {
    "removed by bash": ("bash", {"command": "rm -f traces.db*"}, NOTICED),
    "moved by bash": ("bash", {"command": "mv traces.db moved.db"}, NOTICED),
    "moved with its folder by bash": ("bash", {"command": 'mv "$PWD" "$PWD-2"; mkdir "$PWD"'}, NOTICED),
    "cut by bash": ("bash", {"command": "truncate -s 4096 traces.db; truncate -s 0 traces.db-wal"}, NOTICED),
    "its index cut by bash": ("bash", {"command": "truncate -s 0 traces.db-shm"}, NOTICED),
    "all emptied by bash": ("bash", {"command": "truncate -s 0 traces.db*"}, NOTICED),
    "emptied by bash": ("bash", {"command": ": > traces.db"}, NOTICED),
    "overwritten by bash": ("bash", {"command": "head -c 9000 /dev/zero | dd of=traces.db conv=notrunc"}, NOTICED),
    "replaced by bash": ("bash", {"command": "echo other > other; mv other traces.db"}, NOTICED),
    "replaced by its copy by bash": ("bash", {"command": "cp traces.db copy; mv copy traces.db"}, NOTICED),
    "its log removed by bash": ("bash", {"command": "rm traces.db-wal"}, NOTICED),
    "replaced by write_file": ("write_file", {"path": "traces.db", **OTHER}, NOTICED),
    "its log replaced by write_file": ("write_file", {"path": "traces.db-wal", **OTHER}, NOTICED),
    "given a journal by write_file": ("write_file", {"path": "traces.db-journal", **OTHER}, NOTICED),
    "given a journal by append_to_file": ("append_to_file", {"path": "traces.db-journal", **OTHER}, NOTICED),
    "added to by append_to_file": ("append_to_file", {"path": "traces.db", **OTHER}, REFUSED),
    "edited by edit_file": ("edit_file", {"path": "traces.db", **EDIT}, REFUSED),
    "edited by multi_edit": ("multi_edit", {"path": "traces.db", "edits": [EDIT]}, REFUSED),
}
# SQLite has the index of the log in its memory: what empties it in the middle of a commit ends the process.
OF_THE_INDEX = ("its index cut by bash", "all emptied by bash")
# What only the next commit sees: a tool of the next turn may begin beside that commit, and none after it.
IN_PLACE = ("cut by bash", "overwritten by bash")
MOMENTS: dict[str, list[list[str]]] = {
    "the first call": [["attack"]],
    "the first call, of a store without a row": [["attack"]],
    "before another call of its turn": [["attack", "count"]],
    "after another call of its turn": [["count", "attack"]],
    "the second turn": [["count"], ["attack"]],
    "the tenth turn": [*(["count"] for _ in range(9)), ["attack"]],
    "the last turn": [["count"], ["attack"], []],
    "after a checkpoint": [["checkpoint"], ["attack"]],
    "while another reads": [["read"], ["attack"]],
    "while another writes": [["write"], ["attack"]],
}


class Around:
    """What is called in a run, and what stays open beside its store."""

    def __init__(self, store: Store, path: Path, taken: str) -> None:
        self.store, self.path, self.ran = store, path, list[str]()
        self.name, self.arguments, _ = TAKEN[taken]
        self.waits = self.name != "bash" or taken in OF_THE_INDEX
        self.beside: list[Any] = []

    def attack(self) -> str:
        """Take the store, by tools that the run does not know: where it knows them, it covers its store."""
        self.ran.append("attack")
        kit = CodeTools(self.path.parent, sandbox="none")
        if self.waits:  # the other tools refuse a file that changes while they write
            self.store.flush()
        [result] = execute([ToolCall("1", self.name, self.arguments)], kit)
        return str(result.content)

    def count(self) -> str:
        """Do no harm."""
        self.ran.append("count")
        return "counted"

    def checkpoint(self) -> str:
        """Write the log into the file."""
        checkpoint(self.path)
        return "written"

    def read(self) -> str:
        """Begin to read, and go on."""
        self.beside.append(sqlite3.connect(self.path, check_same_thread=False))
        self.beside[-1].execute("BEGIN").execute("SELECT * FROM tool_traces").fetchone()
        return "begun"

    def write(self) -> str:
        """Write beside the run, and go on."""
        self.beside.append(traces.open(f"sqlite:///{self.path}"))
        record(self.beside[-1], 2)
        return "written"

    def close(self) -> None:
        """Close what stays open."""
        for one in self.beside:
            with suppress(StoreFailed):
                one.close()


@pytest.mark.parametrize("first", ["commit", "check"])
def test_a_cut_index_that_another_thread_restored_is_noticed_until_the_store_resumes(
    tmp_path: Path, first: str
) -> None:
    store = opened(tmp_path)
    record(store, 2)
    store.flush()
    os.truncate(tmp_path / "traces.db-shm", 0)
    watch = store._location.files
    assert watch is not None
    with pytest.raises(StoreFailed, match="was cut"):
        watch.check()
    if first == "commit":
        with store._writer.commit_lock:  # as while the commit that noticed it has not told it yet
            assert store.failed is not None
    assert "was cut" in str(store.failed)
    store.resume()
    assert store.failed is None
    record(store, 1)
    store.close()
    with opened(tmp_path) as again:
        assert again.verify().ok
        assert len(again.traces().rows) == 3


EVERY = 1 if FULL else 3
AT = [(taken, moment, ("sync", "async")[place % 2]) for taken in TAKEN for place, moment in enumerate(MOMENTS)]


@pytest.mark.slow
@pytest.mark.parametrize(("taken", "moment", "face"), AT[::EVERY])
@pytest.mark.row("T18")
def test_whatever_takes_the_store_at_any_moment_of_a_run(tmp_path: Path, taken: str, moment: str, face: str) -> None:
    (tmp_path / "project").mkdir()
    store = traces.open(f"sqlite:///{tmp_path}/project/traces.db")
    around = Around(store, tmp_path / "project" / "traces.db", taken)
    if "without a row" not in moment:
        record(store, 4)
    turns = MOMENTS[moment]
    script: list[Any] = [[ToolCall(None, name, {}) for name in turn] or ["Done."] for turn in turns]
    if turns[-1]:
        script += [[ToolCall(None, "count", {})], ["Done."]]
    tools = [tool(one) for one in (around.attack, around.count, around.checkpoint, around.read, around.write)]
    limits = LoopLimits(repeats=99)
    with closing(around), simulate(lambda _request, turn: script[turn.number]) as model:
        if TAKEN[taken][-1] is REFUSED:
            assert (
                lead(face, "openai", model.url, "Go", tools=tools, traces=store, limits=limits).done.ending == "answer"
            )
            store.close()
            with traces.open(f"sqlite:///{around.path}") as again:
                assert again.verify().ok
            return
        with pytest.raises(StoreFailed):
            lead(face, "openai", model.url, "Go", tools=tools, traces=store, limits=limits)
    until = sum(turn.count("count") for turn in turns)
    later = around.ran.count("count") - until
    assert around.ran.count("attack") == 1
    assert later in ((0, 1) if taken in IN_PLACE else (0,)), "no tool of a later turn runs"
    with pytest.raises(StoreFailed):
        store.close()
