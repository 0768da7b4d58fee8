"""A run: begun once by its id, told the same to everybody, cancelled, forked, and never more than it was given."""

import asyncio
import math
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.runs.scripted import calls, given, turns
from toolwire import Done, ProviderError, Response, Runs, ToolResult, aio, tool, traces
from toolwire.errors import InvalidField, RunParked, StoreFailed
from toolwire.resolvers.effects import NotYet, checkable
from toolwire.runs.effects import choose_treatment
from toolwire.runs.register import CALLS, RUNS
from toolwire.runs.run import _CORES


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, made_runs: Path) -> Path:
    return Path(shutil.copy(made_runs, tmp_path_factory.mktemp("runs") / "runs.db"))


@pytest.fixture(scope="module")
def runs(file: Path) -> Iterator[Runs]:
    """Give the runs of one database for all tests: the engine needs a second to close."""
    with Runs(f"sqlite:///{file}") as made:
        yield made


def number_in(file: Path, query: str) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchone()[0] or 0


@tool
def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


TWO = turns([("add", {"one": 1, "other": 2})], [("add", {"one": 3, "other": 4})], "3 and 7")


@pytest.mark.parametrize(
    ("begun", "effects", "wanted"),
    [
        (0, "once", "run"),
        (0, "none", "run"),
        (1, "none", "again"),
        (3, "idempotent", "again"),
        (1, "once", "unknown"),
        (1, checkable(lambda _: NotYet()), "probe"),
        (0, checkable(lambda _: NotYet()), "run"),
    ],
)
@pytest.mark.row("T9")
def test_what_is_done_with_a_call_that_had_begun(begun: int, effects: Any, wanted: str) -> None:
    assert choose_treatment(begun, effects) == wanted


def test_a_run_gives_what_generate_gives(runs: Runs) -> None:
    run = runs.start("Add.", tools=[add], **given(TWO))
    done = run.result(30)
    assert (done.ending, done.content, done.turns) == ("answer", "3 and 7", 3)
    assert [result.content for result in results_of(done)] == ["3", "7"]
    assert run.state == "done"


def results_of(done: Done) -> list[ToolResult]:
    return [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]


def test_a_second_start_of_an_id_gives_the_same_run(runs: Runs) -> None:
    first = runs.start("Add.", tools=[add], id="one", **given(TWO)).result(30)
    again = runs.start("Something else.", id="one", **given(turns("no")))
    assert again.result(30) == first
    runs.core.results.clear()
    assert again.result(30) == first


def test_events_have_offsets_and_are_the_same_from_the_middle(runs: Runs) -> None:
    run = runs.start("Add.", tools=[add], **given(TWO))
    live = list(run.events())
    assert [type(event) for _, event in live] == [Response, ToolResult, Response, ToolResult, Response, Done]
    assert [offset for offset, _ in live] == [1, 2, 3, 4, 5, 6]
    for after in range(7):
        assert list(run.events(after)) == live[after:]


@pytest.mark.parametrize("after", [-1, "x", 1.5, None, True, 1 << 63])
def test_an_offset_that_is_none_is_refused(runs: Runs, after: Any) -> None:
    run = runs.start("Add.", **given(turns("3")))
    run.result(30)
    with pytest.raises(InvalidField, match="events: after must be an offset, a whole number of 0 or more, not "):
        list(run.events(after))
    with pytest.raises(InvalidField, match="fork: at must be an offset of the run's events, 0 to 1, not "):
        run.fork(after)

    async def main() -> None:
        async with aio.Runs(runs.core.engine.url) as awaited:
            with pytest.raises(InvalidField, match="events: after must be an offset"):
                async for _ in (await awaited.run(run.id)).events(after):
                    pass

    asyncio.run(main())


def test_a_fork_goes_on_from_an_offset(runs: Runs) -> None:
    run = runs.start("Add.", tools=[add], **given(TWO))
    done = run.result(30)
    fork = run.fork(3, id="other")
    assert fork.result(30).messages == done.messages
    assert list(fork.events())[:3] == list(run.events())[:3]
    with pytest.raises(InvalidField, match="0 to 5, not 9"):
        run.fork(9)


def test_a_fork_has_an_id_of_its_own(runs: Runs) -> None:
    run = runs.start("Add.", tools=[add], **given(TWO))
    run.result(30)
    with pytest.raises(InvalidField, match="fork: id is a run already: 'taken'"):
        [run.fork(3, id="taken") for _ in range(2)]


def test_a_fork_that_was_cut_off_does_no_call_again(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    @tool
    def count(part: int) -> str:
        """Count."""
        ran.append(part)
        return "counted"

    def cut(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    run = runs.start("Count.", tools=[count], **given(turns([("count", {"part": 1})], "counted")))
    run.result(30)
    with monkeypatch.context() as patched:
        patched.setattr(runs.core.engine, "fork", cut)
        with pytest.raises(KeyboardInterrupt):
            run.fork(2, id="cut off")
    runs.core.register.change("cut off", expires=0.0)
    done = runs.run("cut off").result(30)
    assert (done.ending, done.reason, ran) == ("cancelled", "its fork was cut off", [1])


def test_an_end_between_two_looks_is_that_end(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs.start("Hi.", **given(turns("hello")))
    done, engine, late = run.result(30), runs.core.engine, time.monotonic() + 30
    while (row := runs.core.register.row(run.id)) is None or row.state != "ended":
        assert time.monotonic() < late
        time.sleep(0.01)
    looks = [None, engine.output(run.id)]
    monkeypatch.setattr(engine, "output", lambda _name: looks.pop(0))
    assert run.ended() == done
    assert looks == []


def test_an_error_of_the_provider_is_raised_from_everywhere(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    run = runs.start("Hi.", "openai", "m", id="failing")
    with pytest.raises(ProviderError):
        run.result(30)
    assert run.state == "failed"


def test_what_cannot_cross_is_refused_for_a_queue(runs: Runs) -> None:
    local: dict[str, Any] = {"on_event": print, "context": {"a": 1}, "approve": lambda *_: True}
    for name, value in local.items():
        settings: dict[str, Any] = {name: value}
        with pytest.raises(InvalidField, match=f"{name} cannot be stored in a queue"):
            runs.start("Hi.", "openai", "m", queue="q", **settings)
    with pytest.raises(InvalidField, match="api_key cannot be stored in a queue"):
        runs.start("Hi.", "openai", "m", queue="q", options={"api_key": "sk-0123456789"})


def test_an_unknown_id_and_an_unusable_address_are_said(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match="is no run of this database: 'nobody'"):
        runs.run("nobody")
    for url in ("mysql://x/y", f"sqlite:///{tmp_path}/is?it.db", "sqlite:///:memory:"):
        with pytest.raises(InvalidField, match="must be sqlite:///FILE or postgresql"):
            Runs(url)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreFailed, match="Runs: the database cannot be opened"):
        Runs("postgresql://nobody@127.0.0.1:1/none")
    (tmp_path / "text.db").write_text("no database " * 100)
    for name in ("text.db", "."):
        with pytest.raises(StoreFailed, match="Runs: the database cannot be opened"):
            Runs(f"sqlite:///{tmp_path / name}")


def test_a_wrong_setting_is_refused_before_anything_is_begun(runs: Runs) -> None:
    before = runs.list()
    with pytest.raises(InvalidField, match="temprature"):
        runs.start("Hi.", id="x", temprature=1, **given(turns("no")))
    assert runs.list() == before


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"id": ""}, "id must be text without control characters, not ''"),
    ({"id": " "}, "id must be text without control characters, not ' '"),
    ({"id": 17}, "id must be text without control characters, not 17"),
    ({"id": "a\x00b"}, r"id must be text without control characters, not 'a\\x00b'"),
    ({"id": "\ud800"}, r"id must be text without control characters, not '\\ud800'"),
    ({"queue": ""}, "queue must be text"),
    ({"queue": 5}, "queue must be text"),
    ({"model": 5}, "model has the wrong type"),
    ({"auto_tools": "no"}, "auto_tools has the wrong type"),
    ({"options": 5}, "options must be a map"),
    ({"approve": 5}, "approve must be a function of a call and its preview, True, or names of tools in a list"),
    *(({"deadline": value}, "deadline must be a number of seconds above 0") for value in (0, -1, "5", True, math.nan)),
]


@pytest.mark.parametrize(("said", "words"), WRONG)
def test_what_no_run_can_be_begun_with_is_refused(runs: Runs, said: dict[str, Any], words: str) -> None:
    before = runs.list()
    with pytest.raises(InvalidField, match=words):
        runs.start("Hi.", **{**given(turns("no")), **said})
    assert runs.list() == before


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"lease": 0}, "lease must be a number of seconds above 0"),
        ({"lease": math.inf}, "lease must be a number of seconds above 0"),
        ({"concurrency": 0}, "concurrency must be a whole number above 0"),
        ({"queue": ""}, "queue must be text"),
    ],
)
def test_what_no_runs_can_be_led_with_is_refused(tmp_path: Path, said: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        Runs(f"sqlite:///{tmp_path / 'runs.db'}", **said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("older", ["30d", math.nan, -1, None])
def test_a_time_that_is_none_prunes_nothing(runs: Runs, older: Any) -> None:
    before = runs.list()
    with pytest.raises(InvalidField, match="older must be a number of seconds"):
        runs.prune(older)
    assert runs.list() == before


def test_more_runs_than_a_statement_takes_are_pruned(runs: Runs) -> None:
    db, given_at_once = runs.core.register.db, [0]
    with db.begin() as connection:
        for number in range(450):
            row = {"id": f"old-{number}", "spec": "{}", "state": "ended", "created": 1.0}
            connection.execute(sa.insert(RUNS).values(**row))

    def count(*said: Any) -> None:
        given_at_once.append(len(said[3]))

    sa.event.listen(db, "before_cursor_execute", count)
    try:
        assert runs.prune(365 * 86400.0) == 450
    finally:
        sa.event.remove(db, "before_cursor_execute", count)
    assert max(given_at_once) <= 200


@tool(sensitive=["password"])
def sign_in(user: str, password: str) -> str:
    """Sign in."""
    return f"{user} is in, by {password}"


def test_secrets_are_not_in_the_database(runs: Runs, file: Path) -> None:
    secret = "hunter2-hunter2"  # noqa: S105 - a sentinel
    say = turns([("sign_in", {"user": "me", "password": secret})], f"you are in with {secret}")
    done = runs.start("Sign in.", tools=[sign_in], **given(say)).result(30)
    assert secret in str(done.content)
    data = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert secret.encode() not in data
    assert b"sk-test-0123456789" not in data
    assert b"you are in with [hidden" in data


def test_nothing_is_pickled(runs: Runs, file: Path) -> None:
    runs.start("Add.", tools=[add], **given(TWO)).result(30)
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT output, serialization FROM operation_outputs").fetchall()
        rows += connection.execute("SELECT output, serialization FROM workflow_status").fetchall()
    assert {name for _, name in rows} == {"toolwire_json"}


@tool
def quote(number: int) -> str:
    """Give a text of a few kilobytes."""
    return f"{number} " + "lorem ipsum dolor " * 140


RECORDED = """SELECT (SELECT coalesce(sum(length(text)), 0) FROM toolwire_texts)
 + (SELECT coalesce(sum(length(output)), 0) FROM operation_outputs)
 + (SELECT coalesce(sum(length(output)), 0) FROM workflow_status)
 + (SELECT coalesce(sum(length(output)), 0) FROM workflow_output)"""


@pytest.mark.slow
def test_the_record_is_smaller_than_twice_the_history(runs: Runs, file: Path) -> None:
    before = number_in(file, RECORDED)
    number = 30
    say = turns(*[[("quote", {"number": turn})] for turn in range(number)], "done")
    started = given(say)
    run = runs.start("Quote.", tools=[quote], limits={"turns": number + 1}, **started)
    assert run.result(60).turns == number + 1
    history = len(str(started["options"]["transport"].asked[-1]))
    assert history > 70_000
    assert number_in(file, RECORDED) - before < 2 * history


def test_a_call_that_begins_is_traced_and_not_counted(runs: Runs, tmp_path: Path) -> None:
    with traces.open(f"sqlite:///{tmp_path / 'traces.db'}") as store:
        runs.start("Add.", tools=[add], traces=store, **given(TWO)).result(30)
        store.flush()
        rows = store.traces().rows
        assert [(row.kind, row.ending) for row in rows] == [("begun", "begun"), (None, "ok")] * 2
        assert [row.arguments for row in rows[:2]] == [{"one": 1, "other": 2}] * 2
        assert store.count() == 2
        assert store.count(ending="begun") == 2
        assert [one.calls for one in store.stats()] == [2]
        assert store.verify().ok


PAYING = turns([("add", {"one": 1, "other": 2}), ("sign_in", {"user": "me", "password": "hunter2-hunter2"})], "done")


@pytest.mark.parametrize(("answer", "wanted"), [(True, "me is in"), (False, "not approved"), ("too dear", "too dear")])
def test_a_run_waits_for_a_person(runs: Runs, answer: Any, wanted: str) -> None:
    run = runs.start("Pay.", tools=[add, sign_in], approve=["sign_in"], **given(PAYING))
    until(lambda: run.state == "waiting")
    [question] = run.waiting
    assert (question.tool, question.call_id) == ("sign_in", "call_0_1")
    assert "hunter2" not in question.arguments
    assert runs.core.journals == {}
    with pytest.raises(InvalidField, match="is no call that waits for approval: 'call_9'; these wait: call_0_1"):
        run.answer("call_9")
    run.answer("call_0_1", answer)
    with pytest.raises(InvalidField, match="these wait: none"):
        run.answer("call_0_1", True)
    done = run.result(30)
    assert results_of(done)[0].content == "3"
    assert wanted in str(results_of(done)[1].content)


def test_nobody_is_asked_about_arguments_that_are_invalid(runs: Runs) -> None:
    say = turns([("add", {"one": "x", "other": 2}), ("sign_in", {"user": "me", "password": "hunter2-hunter2"})], "over")
    run = runs.start("Pay.", tools=[add, sign_in], approve=True, **given(say))
    until(lambda: run.state == "waiting")
    assert [question.tool for question in run.waiting] == ["sign_in"]
    run.answer("call_0_1")
    first, second = results_of(run.result(30))
    assert str(first.content).startswith("invalid arguments for 'add': ")
    assert str(second.content).startswith("me is in")


def until(what: Any, seconds: float = 30.0) -> None:
    late = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < late
        time.sleep(0.02)


def test_a_waiting_run_is_cancelled_without_being_led(runs: Runs) -> None:
    run = runs.start("Pay.", tools=[add, sign_in], approve=True, **given(PAYING))
    until(lambda: run.state == "waiting")
    run.cancel()
    done = run.result(30)
    assert (done.ending, run.state) == ("cancelled", "cancelled")
    assert [message.role for message in done.messages] == ["assistant"]
    assert run.waiting == []
    with pytest.raises(InvalidField, match="is no call that waits for approval: 'call_0_1'; these wait: none"):
        run.answer("call_0_1")


def test_a_run_that_is_cancelled_while_it_is_left_to_a_person_ends(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    release = runs.core._release

    def cancelled_before(name: str, *arguments: Any, **values: Any) -> None:
        runs.core.register.change(name, cancel=1)
        release(name, *arguments, **values)

    monkeypatch.setattr(runs.core, "_release", cancelled_before)
    run = runs.start("Pay.", tools=[add, sign_in], approve=True, **given(PAYING))
    assert (run.result(30).ending, run.state) == ("cancelled", "cancelled")


@pytest.mark.slow
def test_a_deadline_ends_a_run_that_waits(runs: Runs) -> None:
    run = runs.start("Pay.", tools=[add, sign_in], approve=True, deadline=0.8, **given(PAYING))
    until(lambda: run.state == "waiting")
    done = run.result(30)
    assert (done.ending, done.reason, run.state) == ("cancelled", "its deadline has passed", "cancelled")
    with pytest.raises(InvalidField, match="is no call that waits"):
        run.answer("call_9")


def test_an_approval_is_for_the_arguments_that_were_shown(runs: Runs) -> None:
    ran: list[str] = []

    @tool
    def pay(order: str) -> str:
        """Pay an order."""
        ran.append(order)
        return f"{order} is paid"

    say = turns([("pay", {"order": "17"})], "over")
    run = runs.start("Pay.", tools=[pay], approve=["pay"], **given(say))
    until(lambda: run.state == "waiting")
    with runs.core.register.db.begin() as connection:
        connection.execute(sa.update(CALLS).values(digest="of other arguments"))
    run.answer("call_0_0")
    done = run.result(30)
    assert results_of(done)[0].content == "the call was not run: its approval was for other arguments"
    assert (done.content, ran) == ("over", [])


def test_an_approval_of_a_run_is_none_of_its_forks(runs: Runs) -> None:
    run = runs.start("Pay.", tools=[add, sign_in], approve=["sign_in"], **given(PAYING))
    until(lambda: run.state == "waiting")
    run.answer("call_0_1")
    run.result(30)
    fork = run.fork(2)
    until(lambda: fork.state == "waiting")
    assert [question.tool for question in fork.waiting] == ["sign_in"]
    fork.answer("call_0_1", "not again")
    assert results_of(fork.result(30))[1].content == "not again"


def test_a_run_that_is_led_is_cancelled_at_once(runs: Runs) -> None:
    @tool(timeout=60)
    async def dawdle() -> str:
        """Take a minute."""
        await asyncio.sleep(60)
        return "late"

    run = runs.start("Wait.", tools=[dawdle], **given(turns([("dawdle", {})], "no")))
    until(lambda: bool(runs.core.register.calls(run.id)))
    begun = time.monotonic()
    run.cancel()
    assert run.result(30).ending == "cancelled"
    assert time.monotonic() - begun < 20


@pytest.mark.slow
def test_a_deadline_ends_a_run(runs: Runs) -> None:
    @tool
    def sleep() -> str:
        """Sleep a little."""
        time.sleep(0.1)
        return "slept"

    say = turns(*[[("sleep", {})] for _ in range(20)], "no")
    done = runs.start("Sleep.", tools=[sleep], deadline=0.4, limits={"repeats": 99}, **given(say)).result(30)
    assert (done.ending, done.reason) == ("cancelled", "its deadline has passed")


@pytest.mark.slow
def test_a_run_that_cannot_be_led_is_parked_and_resumed(runs: Runs) -> None:
    def say(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if len(tries) < 1:
            tries.append(len(messages))
            raise RuntimeError("the transport is broken")
        return calls(("add", {"one": 1, "other": 1})) if len(messages) < 2 else {"content": "2"}

    tries: list[int] = []
    run = runs.start("Add.", tools=[add], **given(say))
    with pytest.raises((RunParked, TimeoutError)):
        run.result(0.8)
    run.resume()
    assert run.result(30).content == "2"


def test_the_awaited_face_does_the_same(runs: Runs, file: Path) -> None:
    async def main() -> None:
        async with aio.Runs(f"sqlite:///{file}") as awaited:
            run = await awaited.start("Add.", tools=[add], id="awaited", **given(TWO))
            live = [pair async for pair in run.events()]
            done = await run.result(30)
            assert done.content == "3 and 7"
            assert [offset for offset, _ in live] == [1, 2, 3, 4, 5, 6]
            assert live[-1][1] == done
            assert await run.state() == "done"
            assert [pair async for pair in run.events(4)] == live[4:]
            assert (await (await run.fork(3)).result(30)).content == "3 and 7"
            assert "awaited" in [row.id for row in await awaited.list()]

    asyncio.run(main())
    assert runs.run("awaited").state == "done"


@pytest.mark.usefixtures("runs")
def test_awaited_starts_at_the_same_time_open_one_database(file: Path) -> None:
    async def main() -> None:
        awaited = aio.Runs(f"sqlite:///{file}")
        await asyncio.gather(*(awaited.list() for _ in range(4)))
        assert users() == before + 1
        await awaited.close()

    def users() -> int:
        return _CORES[os.path.realpath(file)][1]

    before = users()
    asyncio.run(main())
    assert users() == before


@pytest.mark.parametrize(
    "spelt", ["sqlite:///./{file.name}", "sqlite+pysqlite:///{file}", "sqlite:///link.db", "sqlite:////{file}"]
)
def test_a_database_is_one_however_its_address_is_written(
    runs: Runs, file: Path, spelt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    if not Path("link.db").exists():
        Path("link.db").symlink_to(file)
    with Runs(spelt.format(file=file)) as other:
        assert other.core is runs.core
        run = other.start("Hi.", **given(turns("Hello.")))
        assert run.result(30).content == "Hello."
    assert runs.run(run.id).state == "done"


def test_a_relative_address_is_another_database_in_another_folder(
    runs: Runs, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Runs(f"sqlite:///{file.name}") as other:
        assert other.core is not runs.core


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_the_file_of_runs_is_its_owners_alone(tmp_path: Path) -> None:
    Runs(f"sqlite:///{tmp_path / 'own.db'}").close()
    assert stat.S_IMODE((tmp_path / "own.db").stat().st_mode) == 0o600
