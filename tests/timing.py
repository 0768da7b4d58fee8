"""How long something takes: processor time, without what the collector of cycles takes in a process of many tests."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
