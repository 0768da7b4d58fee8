"""What every test may use: hypothesis profiles, and the data that lies outside the repository."""

import argparse
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from _pytest.python import DirectParamFixtureDef
from _pytest.runner import runtestprotocol
from hypothesis import settings

from tests.corpus import Recording, found, recordings, suite_root

# A shell in the background has its commands ignore Ctrl-C, and so would all that tests begin.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# It looks on the disk for a translation of each of its words, for every command line anew.
argparse._ = str  # type: ignore[attr-defined]

# The first two are derandomized: a red test is red for everybody. The last seeks new examples.
settings.register_profile("fast", max_examples=10, deadline=None, derandomize=True)
settings.register_profile("short", max_examples=120, deadline=None, derandomize=True)
settings.register_profile("torture", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("fast")


@pytest.fixture
def corpus() -> Callable[[str], tuple[Recording, ...]]:
    """Read the recordings of a format: `corpus("anthropic-messages")`."""
    found("TOOLWIRE_CORPUS", "corpus")
    return recordings


@pytest.fixture
def suites() -> Path:
    """Find the folder of public test suites."""
    return suite_root()


@pytest.fixture
def little_garbage() -> None:
    """Leave all that there is by now out of a search for garbage: it takes half a second in a process of many tests."""
    gc.freeze()


TALLY = pytest.StashKey[Counter[str]]()


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Counter[str]:
    """Count what a law was held over; the counts are printed at the end of the run."""
    return request.config.stash.setdefault(TALLY, Counter())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Begin a process more than there are processors: now and then a test waits."""
    return 1 + (len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what one of several processes has counted."""
    total = node.config.stash.setdefault(TALLY, Counter())
    total.update(getattr(node, "workeroutput", {}).get("tally", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Give what this process has counted to the one that began it."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        counts: Counter[str] = session.config.stash.get(TALLY, Counter[str]())
        output["tally"] = dict(counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Print the counts."""
    del exitstatus
    for what, count in sorted(config.stash.get(TALLY, Counter[str]()).items()):
        terminalreporter.write_line(f"{count:>12,} {what}")


def pytest_configure() -> None:
    """Search rarely for garbage: most of what is imported and collected stays."""
    gc.set_threshold(500_000, 50, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Make one test of each table that can be walked; what was imported is out of every later search for garbage."""
    session.items[:] = [one for _, cases in groupby(session.items, _table_of) for one in _walked(list(cases))]
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the slow tests what others of a sampled table show already."""
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tables.values():
        for case in left_out(cases):
            case.add_marker(pytest.mark.slow)


def left_out(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Choose, in an order that is by chance and always the same, until each value of each parameter is shown."""
    values = {case: set(map(repr, case.callspec.params.items())) for case in cases}  # type: ignore[attr-defined]
    left = sorted(cases, key=lambda case: crc32(case.nodeid.encode()))
    shown: set[str] = set()
    while left:
        best = max(left, key=lambda case: len(values[case] - shown))
        if values[best] <= shown:
            break
        shown |= values[best]
        left.remove(best)
    return left


class Table(pytest.Item):
    """The cases of a test that are given nothing but their values, walked as one test: to begin each takes longest.

    What went wrong is reported of the case, by its name, and a case can be chosen as ever.
    """

    def __init__(self, *, cases: Iterable[Any] = (), **more: Any) -> None:
        super().__init__(**more)
        self.cases = list(cases)
        self.own_markers = self.cases[0].own_markers
        self.wrong: list[pytest.TestReport] = []
        self.told = ""

    @property
    def nodeid(self) -> str:
        """Give the name of what is told: all of the table, or a case that went wrong."""
        return self.told or super().nodeid

    def runtest(self) -> None:
        """Walk all cases, whatever becomes of one."""
        self.config.stash.setdefault(TALLY, Counter())["cases of tables, each table one test"] += len(self.cases)
        for case in self.cases:
            call = pytest.CallInfo.from_call(
                lambda: case.obj(**case.callspec.params),  # noqa: B023 - it is called at once
                "call",
                (KeyboardInterrupt, pytest.exit.Exception),
            )
            if call.excinfo is not None:
                self.wrong.append(case.ihook.pytest_runtest_makereport(item=case, call=call))

    def reportinfo(self) -> Any:
        """Say where the test stands."""
        return self.cases[0].reportinfo()


WALKED = {"corpus", "parametrize", "row", "sampled"}


def _table_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0] if _can_be_walked(item) else item.nodeid


def _can_be_walked(item: Any) -> bool:
    """Whether nothing is made for a case, and no mark says what is to be done about it."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or not isinstance(item.parent, pytest.Module) or set(item.fixturenames) != set(callspec.params):
        return False
    made = (item._fixtureinfo.name2fixturedefs[name][-1] for name in item.fixturenames)
    return all(type(one) is DirectParamFixtureDef for one in made) and WALKED.issuperset(
        mark.name for mark in item.iter_markers()
    )


def _walked(cases: list[Any]) -> Iterator[pytest.Item]:
    if len(cases) == 1:
        yield cases[0]
    else:
        yield Table.from_parent(cases[0].parent, name=cases[0].originalname, cases=cases)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Tell, of one of several processes, only what a test came to: a message takes longer than most tests."""
    alone = not hasattr(item.config, "workerinput")
    if alone and not isinstance(item, Table):
        return None
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in getattr(item, "wrong", None) or reports:
        if alone or report.when == "call" or not report.passed:
            if isinstance(item, Table):
                item.told = report.nodeid  # the process that is told wants the name of what it gave out
            item.ihook.pytest_runtest_logreport(report=report)
    return True
