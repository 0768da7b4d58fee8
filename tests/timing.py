"""How long something takes, and how that grows: processor time, without what the collector of cycles takes in a process
of many tests.
"""

import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from toolwire.errors import ToolwireError

MOST = 3.0
ENOUGH = 0.01  # seconds that the smaller size takes at least
LONG = 1.5  # seconds after which no larger size is tried
# What is larger does not fit the processor's cache if others use it too: it is tried after a growth that is too large.
CACHED, LARGEST = 8_000, 32_000
TRIES = 12
PAUSE = 0.02  # seconds, longer after each try, in which others may end what they do
START = 1000
Work = Callable[[], object]
Prepare = Callable[[int], Work]


class Spent:
    seconds = 0.0


@contextmanager
def timed() -> Iterator[Spent]:
    spent, collects = Spent(), gc.isenabled()
    gc.disable()
    begun = time.process_time()
    try:
        yield spent
    finally:
        spent.seconds = time.process_time() - begun
        if collects:
            gc.enable()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where a block takes longer."""
    with timed() as spent:
        yield
    assert spent.seconds < seconds, f"took {spent.seconds:.3f} s"


def least(work: Callable[[], Any], tries: int = 3, enough: float = 0.0) -> float:
    """Measure what runs several times alike: what else the machine does only adds to it; `enough` ends it."""
    best = float("inf")
    while tries and best > enough:
        with timed() as spent:
            work()
        best, tries = min(best, spent.seconds), tries - 1
    return best


def seconds(work: Work, times: int = 1) -> float:
    """Return the processor time of `work`, run `times` times; it may end with an error of toolwire."""
    with timed() as spent:
        for _ in range(times):
            with suppress(ToolwireError):
                work()
    return spent.seconds


def growth(prepare: Prepare, start: int = START, limit: int = LARGEST) -> tuple[float, str]:
    """Say how many times longer twice the size takes; the size is one that takes long enough to be measured.

    A size that may not grow is measured several times in a row. What does not fit the processor's cache any more takes
    longer once, so a growth that is too large is measured again at larger sizes: what is quadratic grows as much there.
    """
    size, work = start, prepare(start)
    work()  # what is imported or kept at first use
    small = seconds(work)
    while small < ENOUGH and 2 * size <= min(limit, CACHED):
        size *= 2
        work = prepare(size)
        small = seconds(work)
    times = 1 + int(ENOUGH / small)
    small, large = seconds(work, times), math.inf
    double = prepare(2 * size)
    for tries in range(TRIES):
        small, large = min(small, seconds(work, times)), min(large, seconds(double, times))
        told = f"{size:6} {small * 1000:8.1f} ms, {2 * size:6} {large * 1000:8.1f} ms, x{large / small:.2f}"
        if large < MOST * small or large > LONG:
            break
        time.sleep(PAUSE * tries)
        if tries % 3 == 2 and tries < TRIES - 1 and 2 * size <= limit:
            size, work, double = 2 * size, double, prepare(4 * size)
            small, large = seconds(work, times), math.inf
    return large / small, told
