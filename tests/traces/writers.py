"""Processes that write to a store: what the tests start beside themselves."""

import os
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from tests.traces.making import Between, made
from toolwire import traces
from toolwire.errors import StoreFailed
from toolwire.traces.store import Store


def write(url: str, name: str, rows: int, talks: int = 5) -> None:
    """Record rows and close."""
    with traces.open(url, patience=60) as store:
        for index in range(rows):
            store.record(made(tenant_id=name, conversation_id=f"{index % talks}", iteration=index))


def told(store: Store, acknowledged: Path, name: str) -> None:
    """Record without end; write down each number when it was acknowledged."""
    with acknowledged.open("ab", buffering=0) as file:
        tickets: list[Any] = []
        for index in range(10**9):
            tickets.append((index, store.record(made(tenant_id=name, iteration=index))))
            if len(tickets) >= 50 or not index:
                tickets[-1][1].wait()
            while tickets and tickets[0][1].done:
                file.write(b"%d\n" % tickets.pop(0)[0])


def victim(url: str, acknowledged: str, name: str) -> None:
    """Wait to be killed."""
    store = traces.open(url, batch=20, patience=60)
    told(store, Path(acknowledged), name)


class Early(Between):
    """The control: a writer that says a row is settled before it is committed."""

    _held: tuple[Any, ...] = ()

    def commit(self, rows: Any, *, again: bool = False) -> Any:
        self._held += tuple(rows)
        if len(self._held) > 200:
            held, self._held = self._held, ()
            return self.committer.commit(held, again=again)
        return {}


def early(url: str, acknowledged: str, name: str) -> None:
    """Wait to be killed, acknowledging too early."""
    store = traces.open(url, batch=20, patience=60)
    Early(store)
    told(store, Path(acknowledged), name)


def exits(url: str, rows: str) -> None:
    """Record and leave without a word: the exit of the process flushes."""
    store = traces.open(url)
    for index in range(int(rows)):
        store.record(made(iteration=index))


def forks(url: str, rows: str) -> None:
    """Fork in the middle; parent and child both write."""
    store = traces.open(url, patience=60)
    for index in range(int(rows)):
        ticket = store.record(made(tenant_id="parent", iteration=index))
    pid = os.fork()
    name = "parent" if pid else "child"
    for index in range(int(rows)):
        store.record(made(tenant_id=name, iteration=int(rows) + index))
    store.close()
    if pid:
        assert ticket.wait(30)
        _, status = os.waitpid(pid, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    assert ticket.done or "before the process forked" in str(ticket.problem)
    os._exit(0)


def forks_with_an_engine(url: str) -> None:
    """Fork with the host's engine open: the child of a SQLite file is refused, whatever it records."""
    store = traces.open(engine=create_engine(url))
    store.record(made()).wait()
    pid = os.fork()
    if pid:
        store.record(made()).wait()
        _, status = os.waitpid(pid, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    try:
        store.record(made())
    except StoreFailed as problem:
        os._exit(0 if "SQLite was open when the process forked" in str(problem) else 1)
    os._exit(1)


if __name__ == "__main__":
    globals()[sys.argv[1]](*(int(one) if one.isdigit() and sys.argv[1] == "write" else one for one in sys.argv[2:]))
