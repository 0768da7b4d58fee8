"""A secret that stands anywhere in a conversation is in no database, log, span, export or output.

Each place has a control, in which nothing says that it
is a secret: there it is found.
"""

import asyncio
import base64
import contextlib
import io
import itertools
import logging
import shutil
import sqlite3
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.amounts import FULL
from tests.client.faces import lead
from tests.traces.making import made
from tests.traces.placements import KEY, MARK, PLACES, VISIBLE, WORD, Case
from tests.traces.postgres import Postgres
from toolwire import Cancel, Context, Limits, Message, Tool, ToolCall, ToolResult, traces
from toolwire.cli import main
from toolwire.client.exchange import Retries
from toolwire.client.spans import Spans
from toolwire.codetools import CodeTools
from toolwire.errors import InvalidField, StoreFailed
from toolwire.testing import Scenario, simulate
from toolwire.types import CallDelta

ENDINGS = ("success", "failure", "timeout", "cancellation", "interrupt", "broken store")
WAYS = tuple(itertools.product(("sync", "async"), (False, True)))
ENDS_BADLY = ("interrupt", "broken store")
RECORDED = dict(zip(ENDINGS, ("ok", "error", "timed_out", "cancelled", "cancelled"), strict=False))
BROKEN = """CREATE TRIGGER broken BEFORE INSERT ON tool_traces
BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"""


def needles(mark: str) -> list[bytes]:
    """Every form of a mark: as it is, reversed, hexadecimal, and the three ways it may stand in Base64."""
    data = mark.encode()
    found = [data, data[::-1], data.hex().encode(), data.hex().upper().encode()]
    found.append("".join(f"%{byte:02X}" for byte in data).encode())
    for before in range(3):
        text = base64.b64encode(bytes(before) + data)
        inner = text[(0, 2, 3)[before] : len(text) - (0, 3, 2)[(before + len(data)) % 3]]
        found += [inner, inner[::-1]]
    return found


NEEDLES = needles(MARK)


def places_in(surfaces: dict[str, bytes]) -> list[str]:
    """List where the mark is found."""
    return [name for name, data in surfaces.items() if any(needle in data for needle in NEEDLES)]


class Used:
    """A tool that gives what the case says, or meets the ending."""

    def __init__(self, name: str, lab: "Lab", case: Case, ending: str) -> None:
        metadata = {"parallel": True} if name in ("use", "together") else {}
        own = name == "use"
        self.definition = Tool(name, "Do it.", dict(case.schema) if own else {"type": "object"}, metadata)
        self.sensitive_fields = case.fields if own else ()
        self.name, self.lab, self.case = name, lab, case
        self.ending = ending if name == case.ends_at else "success"

    async def execute(self, arguments: dict[str, Any], context: Any = None) -> Any:
        self.lab.got.append((self.name, arguments, context))
        value = self.case.gives(arguments) if self.name == "use" else self.case.other
        match self.ending:
            case "failure" if not isinstance(value, BaseException):
                raise RuntimeError(f"it failed at {value!r}")
            case "timeout" | "cancellation":
                if self.ending == "cancellation":
                    self.lab.cancel()
                await asyncio.sleep(30)
            case "interrupt":
                raise KeyboardInterrupt
        if isinstance(value, BaseException):
            secret = str(value.args)
            assert secret  # it is among the local variables of a traceback
            raise value
        return value


HISTORY = Context(
    None,
    [
        Message("user", "Begin."),
        Message("assistant", [ToolCall("c0", "use", {"pin": WORD})]),
        Message("tool", [ToolResult("c0", "use", "used")]),
        Message("user", "Go on."),
    ],
)


class Hearing:
    """A listener that tells the spans; one that does not listen says what it was told, and fails."""

    def __init__(self, spans: Spans, *, listens: bool) -> None:
        self.spans, self.listens = spans, listens
        self.know = spans.know

    def __call__(self, event: Any) -> None:
        self.spans(event)
        if not self.listens and not isinstance(event, CallDelta):
            raise ValueError(repr(event))


class Lab:
    """Conversations one after the other, and everything that is written of them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.got: list[tuple[str, dict[str, Any], Any]] = []
        self.cancel = Cancel()
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.done: Any = None
        self.problem: BaseException | None = None
        self.sent = ""

    def led(self, case: Case, ending: str = "success", way: tuple[str, bool] = WAYS[0]) -> dict[str, bytes]:
        """Lead the conversation of a case, and give what was written."""
        self.got, self.cancel, self.done, self.problem = [], Cancel(), None, None
        self.exporter.clear()
        with gathered() as written:
            files = self._lead(case, ending, *way)
        spans = "\n".join(span.to_json() for span in self.exporter.get_finished_spans())
        return {
            "database": files,
            "spans": spans.encode(),
            "exceptions": self._raised().encode(),
            **{name: stream.getvalue().encode() for name, stream in written.items()},
        }

    def _lead(self, case: Case, ending: str, face: str, shown: bool) -> bytes:
        last = [[ToolCall(None, "end", {})]] if case.ends_at == "end" else []
        scenario = Scenario([*case.turns, *last, "Done."], complete=False)
        with traces.open(self.url, patience=0.0) as store, simulate(scenario, strict=False) as model:
            settings: dict[str, Any] = {
                "tools": self._tools(case, ending),
                "traces": store.of("acme", "c-1", case.session),
                "on_event": Hearing(Spans(self.provider.get_tracer("t"), content=True), listens=case.listens),
                "running": Limits(timeout=0.02 if ending == "timeout" else None),
                "cancel": self.cancel if ending == "cancellation" else None,
                **case.settings,
                "options": {"api_key": case.api_key, "retries": Retries(attempts=1)},
            }
            prompt: Any = HISTORY if case.prompt == "history" else case.prompt
            try:
                self.done = lead(face, case.provider, model.url, prompt, shown=shown, **settings).done
            except BaseException as problem:  # noqa: BLE001 - whatever it is, it is looked through
                self.problem = problem
            self.sent = repr([request.body for request in model.requests])
            files = self.files()
            store.resume()
        return files

    def _tools(self, case: Case, ending: str) -> list[Any]:
        own = [Used(name, self, case, ending) for name in ("use", "together", "other", "end")]
        for name, text in case.folder.items():
            (self.folder / name).write_text(text)
        if not {one.name for one in case.calls} & {"bash", "read_file"}:
            return own
        return [*own, CodeTools(self.folder, tools=["bash", "read_file"], sandbox="none")]

    def files(self) -> bytes:
        """Give every byte of the database, of its log of writes and of its index."""
        return b"".join(one.read_bytes() for one in sorted(self.folder.glob("traces.db*")))

    def read(self, most: int = 3) -> dict[str, bytes]:
        """Read the traces with every command that shows them; show so many whole."""
        at, exported = ["--url", self.url], self.folder / "traces.jsonl"
        all_rows = ["--limit", "1000", *at]
        with gathered() as written:
            for words in (
                ["list", *all_rows],
                ["list", "--json", *all_rows],
                ["stats", *at],
                ["verify", *at],
            ):
                assert main(["traces", *words]) == 0
            assert main(["traces", "export", str(exported), *at]) == 0
            for number in range(1, 1 + min(most, exported.read_text().count("\n"))):
                assert main(["traces", "show", str(number), *at]) == 0
        return {
            "database": self.files(),
            "export": exported.read_bytes(),
            **{name: stream.getvalue().encode() for name, stream in written.items()},
        }

    def _raised(self) -> str:
        """Everything that an exception says, and the error of an end."""
        problem, done = self.problem, self.done
        said = [] if problem is None else ["".join(traceback.format_exception(problem)), repr(vars(problem))]
        return "\n".join([*said, *([] if done is None else [repr(done.error), done.reason])])


@contextlib.contextmanager
def gathered() -> Iterator[dict[str, io.StringIO]]:
    """Collect outputs, and every log of every library at its most talkative."""
    logs, outputs = io.StringIO(), io.StringIO()
    handler, root = logging.StreamHandler(logs), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(1)
    try:
        with contextlib.redirect_stdout(outputs), contextlib.redirect_stderr(outputs):
            yield {"logs": logs, "outputs": outputs}
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


@pytest.fixture
def lab(made_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Give an empty store in a file, and an environment that has a secret."""
    monkeypatch.setenv("PROVIDER_PIN", WORD)
    shutil.copy(made_file, tmp_path / "traces.db")
    return Lab(f"sqlite:///{tmp_path / 'traces.db'}", tmp_path)


def check_hidden(lab: Lab, name: str, ending: str, way: tuple[str, bool]) -> None:
    """The secret of a place is nowhere; but the history has it, and the tool itself got it."""
    place = PLACES[name]
    case = place.case(place.secret)
    told = lab.led(case, ending, way)
    assert places_in(told) == [], (name, ending, way)
    assert (lab.problem is None) == (ending not in ENDS_BADLY or lab.done is not None), (name, ending, way)
    calls = [call.arguments for call in case.calls]
    assert all(arguments in calls for name, arguments, _ in lab.got if name != "end"), "the tool got the original"
    if lab.done is not None and MARK in repr(case.calls):
        assert MARK in repr(lab.done.messages), "the history is the model's own"


def check_group(lab: Lab, names: list[str], ending: str, ways: Any, most: int = 3) -> int:
    """Lead conversations with a secret into one store, then read them with every command."""
    if ending == "broken store":
        with contextlib.closing(sqlite3.connect(lab.folder / "traces.db")) as connection:
            connection.execute(BROKEN)
    number = 0
    for name, way in ways(names):
        check_hidden(lab, name, ending, way)
        number += 1
    read = lab.read(most)
    assert places_in(read) == []
    recorded = f'"ending":"{RECORDED.get(ending)}"'.encode()
    assert (recorded in read["outputs"]) == (ending != "broken store"), "a control: it ended like that"
    return number


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.row("R002-58", "L1", "L2", "L4", "L6", "L10", "L12")
def test_a_secret_is_nowhere(ending: str, lab: Lab) -> None:
    names = list(PLACES)[ENDINGS.index(ending) :: 6 * len(ENDINGS)]
    check_group(lab, names, ending, lambda names: zip(names, itertools.cycle(WAYS), strict=False))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.row("R002-58", "L1", "L2", "L4", "L6", "L10", "L12")
def test_a_secret_is_nowhere_whatever_the_ending_and_the_face(ending: str, lab: Lab, tally: Counter[str]) -> None:
    ways = WAYS if FULL else (WAYS[0], WAYS[3])
    tally["conversations with a secret, which nothing that was written has"] += check_group(
        lab, list(PLACES), ending, lambda names: itertools.product(names, ways), 100 if FULL else 3
    )


def check_control(lab: Lab, name: str) -> None:
    found = places_in(lab.led(PLACES[name].shown, way=WAYS[1]))
    assert found, f"{name}: nothing says that it is a secret, and yet it is nowhere"


@pytest.mark.parametrize("name", list(PLACES)[::10])
def test_what_nothing_says_to_be_a_secret_is_found(name: str, lab: Lab) -> None:
    check_control(lab, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
def test_each_place_has_a_control(name: str, lab: Lab, tally: Counter[str]) -> None:
    check_control(lab, name)
    tally["places of a secret, with a control"] += 1


@pytest.mark.parametrize("name", VISIBLE)
def test_what_stays_to_be_seen(name: str, lab: Lab) -> None:
    """What nobody can know to be a secret when it is written."""
    case, where = VISIBLE[name]
    assert set(places_in(lab.led(case))) == where


def test_the_wire_and_the_history_have_the_secret(lab: Lab) -> None:
    """A control of all: it was there."""
    assert places_in(lab.led(PLACES["a text in the result"].case(WORD))) == []
    assert lab.sent.count(WORD) == 2
    assert repr(lab.done.messages).count(WORD) > 1
    assert lab.got == [("use", {"pin": WORD}, {})]


def test_the_log_of_writes_is_looked_through_too(lab: Lab) -> None:
    """A control: the rows are there before SQLite has moved them into the file."""
    with traces.open(lab.url) as store:
        store.record(made(tool_name=MARK)).wait()
        assert places_in({one.name: one.read_bytes() for one in lab.folder.glob("traces.db*")}) == ["traces.db-wal"]


POSTGRES = ("a named argument", "a later result of another tool", "an unknown tool's name", "a session")


@pytest.mark.slow
def test_a_secret_is_nowhere_in_a_server(postgres: Postgres, tmp_path: Path) -> None:
    """PostgreSQL with a log of every statement and its values: neither in its log nor in its files."""
    made = postgres.create()
    for setting in ("log_statement = 'all'", "log_min_duration_statement = 0"):
        postgres.run(f"ALTER DATABASE {made.name} SET {setting}")
    lab = Lab(made.url, tmp_path)
    for name, ending in zip(POSTGRES, itertools.cycle(("success", "failure")), strict=False):
        check_hidden(lab, name, ending, WAYS[0])
    assert places_in(lab.read()) == []
    postgres.run("CHECKPOINT")
    files = {str(one): one.read_bytes() for one in postgres.folder.rglob("*") if one.is_file()}
    assert any(b"[hidden:pin]" in data for data in files.values()), "a control: the rows are there"
    assert b"tool_traces" in postgres.log.read_bytes(), "a control: it logs statements"
    assert places_in(files) == []
    postgres.drop(made)


def test_the_password_of_a_database_is_in_no_error() -> None:
    with pytest.raises(StoreFailed) as found:
        traces.open(f"postgresql://me:{WORD}@127.0.0.1:9/traces", patience=0.0)
    assert MARK not in "".join(traceback.format_exception(found.value))


@pytest.mark.parametrize("name", ["tenant_id", "conversation_id"])
def test_an_id_that_looks_like_a_key_is_refused(name: str, lab: Lab) -> None:
    """To hide it would make one tenant of two."""
    with traces.open(lab.url) as store, pytest.raises(InvalidField, match="looks like a key") as found:
        store.of(**{name: KEY})
    assert MARK not in str(found.value)
