"""The simulated model as a server on this machine: a thread with its own event loop.

Rule: after it has been closed, no thread, socket or task of it remains.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

from toolwire.errors import ScenarioFailed
from toolwire.testing.connection import ClientConnection
from toolwire.testing.scenario import AnyScenario
from toolwire.testing.service import Received, Service

_HOST = "127.0.0.1"
_JOIN_SECONDS = 10.0


class SimulatedModel:
    """A model that serves all five wires, at `url`; used in a `with` or an `async with`.

    Leaving the block raises ScenarioFailed if the requests deviated from the scenario, unless another exception was
    raised.
    """

    def __init__(
        self,
        scenario: AnyScenario = None,
        *,
        api_key: str | None = None,
        models: Sequence[str] = (),
        strict: bool = True,
        allow: Sequence[str] = (),
        port: int = 0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._service = Service(scenario, api_key=api_key, models=models, strict=strict, allow=allow, clock=clock)
        self._port = port
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self._failed: BaseException | None = None

    @property
    def url(self) -> str:
        """The base of every path, without a slash at the end."""
        return f"http://{_HOST}:{self._port}"

    @property
    def requests(self) -> list[Received]:
        """All requests so far, in the order of their arrival."""
        return self._service.requests

    @property
    def problems(self) -> list[str]:
        """The deviations from the scenario so far."""
        return list(self._service.problems)

    def play(self, scenario: AnyScenario) -> None:
        """Continue with another scenario, from its first turn."""
        self._service.play(scenario)

    def check(self) -> None:
        """Raise ScenarioFailed if the requests deviated from the scenario, or did not reach its end."""
        problems = [*self._service.problems, *self._service.scenario.left()]
        if problems:
            raise ScenarioFailed(problems) from next(iter(self._service.causes), None)

    def start(self) -> Self:
        """Start to listen."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="simulated model", daemon=True)
        self._thread.start()
        ready.wait()
        if self._failed is not None:
            self.close()
            raise self._failed
        return self

    def close(self) -> None:
        """Close every connection and stop. A second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._failed is None:
            self._loop.call_soon_threadsafe(self._over.set)
        thread.join(_JOIN_SECONDS)

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(ready))
        except (OSError, OverflowError) as problem:
            self._failed = problem if isinstance(problem, OSError) else OSError(str(problem))
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task: Any = asyncio.current_task()
            connections.add(task)
            try:
                await ClientConnection(self._service, reader, writer).serve()
            except asyncio.CancelledError:
                writer.transport.abort()
            except Exception as problem:  # noqa: BLE001 - a bug of this server, or invalid headers
                self._service.problems.append(f"{type(problem).__name__}: {problem}")
                writer.transport.abort()
            finally:
                connections.discard(task)

        server = await asyncio.start_server(serve, _HOST, self._port)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._over.wait()
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_raised: object) -> None:
        self.close()
        if kind is None:
            self.check()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, kind: type[BaseException] | None, *_raised: object) -> None:
        await asyncio.to_thread(self.close)
        if kind is None:
            self.check()


def simulate(
    scenario: AnyScenario = None,
    *,
    api_key: str | None = None,
    models: Sequence[str] = (),
    strict: bool = True,
    allow: Sequence[str] = (),
    port: int = 0,
    clock: Callable[[], float] | None = None,
) -> SimulatedModel:
    """Return a simulated model, for a `with`: `url` is its address, `requests` are the requests that it received.

    - `scenario` is a list of turns, a function `(request, turn)` that returns one, a `Scenario`, the path of a file, or
      None for an echo.
    - `api_key` is the only key that is accepted; None accepts any.
    - `models` are the only model names that exist; empty accepts any.
    - `strict=False` accepts every request that can be parsed.
    - `allow` names request fields that the vendor does not have but compatible servers do, such as `reasoning`.
    - `clock` returns the time of an answer, in seconds of the epoch. The id of the answer is derived from it too. With
      a clock that is always the same, so are the answers of every run. Without it, the times are the present ones.
    - `port` is the port of the server; 0 is any free port.

    >>> from toolwire import generate
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model:
    ...     done = generate("Hi.", "anthropic", "claude-sonnet-5-5", base_url=model.url, api_key="any")
    ...     print(done.content, model.requests[0].path)
    Hello. /v1/messages
    """
    return SimulatedModel(scenario, api_key=api_key, models=models, strict=strict, allow=allow, port=port, clock=clock)
