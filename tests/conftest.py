"""What every test may use: hypothesis profiles, and the data that lies outside the repository."""

import argparse
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
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


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every later search for garbage."""
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Tell, of one of several processes, only what a test came to: a message takes longer than most tests."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True
