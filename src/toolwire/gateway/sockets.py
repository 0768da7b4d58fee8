"""Responses over a WebSocket: each turn is a request to the gateway itself, and its events are messages.

Rules of this file:
- A turn goes the way of every request: what a key may, is limited to, or costs holds here as well.
- A lane has one answer at a time; several lanes share a connection.
- The connection keeps its last turns, also those that are stored nowhere else; to a provider all of it is sent.
- What is added while a model answers waits for the end of the answer, and is asked next.
- Nothing is asked again after it was said. A client that goes away ends all its turns.

Sources: openai 3.52.0, ResponsesClientEvent, ResponsesServerEvent and the steering events (2026-11-22).
"""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import msgspec
from msgspec import Raw, Struct, field

from toolwire.gateway.memory import ProcessMemory
from toolwire.gateway.stored import Turns, as_items, event_answer, kept_of
from toolwire.gateway.turn import leave
from toolwire.wire.framing import EventStream

PATH = "/v1/responses"
_HELD = 32 * 1024 * 1024  # bytes of turns that a connection keeps
_ALL_HELD = 512 * 1024 * 1024  # bytes that all connections keep: each has its share
_SECONDS = 3600.0  # how long a connection lasts (OpenAI's limit)
_LANES = 32
_STEERS = 16
_PATIENCE = 5.0
_HOP = frozenset(
    {b"connection", b"upgrade", b"content-length", b"content-encoding", b"transfer-encoding", b"openai-beta"}
)
_ABOUT_BYTES = frozenset({"content-type", "content-length"})
_OWN = ("type", "stream_id", "stream", "background", "generate")
_ENDS = frozenset({b"response.completed", b"response.incomplete", b"response.failed", b"error"})
_read = msgspec.json.decode
_write = msgspec.json.encode
# What a client owes for each kind of call, and which fields of the call name it.
_OWED = {
    "function_call": ("function_call_output", ("call_id", "name")),
    "custom_tool_call": ("custom_tool_call_output", ("call_id",)),
    "computer_call": ("computer_call_output", ("call_id",)),
    "shell_call": ("shell_call_output", ("call_id",)),
    "apply_patch_call": ("apply_patch_call_output", ("call_id",)),
    "tool_search_call": ("tool_search_output", ("call_id", "execution")),
}


_OPEN: "WeakSet[ProcessMemory]" = WeakSet()


def _shared_memory() -> ProcessMemory:
    """Give a connection its memory: each that is open has the same share of what all may keep."""
    made = ProcessMemory(_HELD, _SECONDS)
    _OPEN.add(made)
    memories = list(_OPEN)
    for memory in memories:
        memory.size = min(_HELD, _ALL_HELD // len(memories))
    return made


class _Steer(Struct):
    """What is added while a model answers."""

    id: str
    previous: str
    input: Any


class _Lane(Struct):
    """One answer after the other."""

    name: Any
    count: int = 0
    answering: str = ""
    ended: bytes = b""
    failed: bool = False
    waits: bool = False  # another answer is wanted, and not begun yet
    steers: list[_Steer] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None

    @property
    def mark(self) -> dict[str, Any]:
        """How its events are told from those of other lanes."""
        return {} if self.name is None else {"stream_id": self.name}


class Socket:
    """One connection."""

    def __init__(self, app: Any, scope: dict[str, Any], receive: Any, send: Any, stall: float, owner: str) -> None:
        self._app, self._scope, self._receive, self._send, self._stall = app, scope, receive, send, stall
        self._headers = [
            (name, value)
            for name, value in scope["headers"]
            if name not in _HOP and not name.startswith(b"sec-websocket-")
        ]
        self._held = Turns([_shared_memory()], owner)
        self._lanes: dict[Any, _Lane] = {}
        self._waiting: dict[str, list[_Steer]] = {}
        self._done: dict[str, None] = {}
        self._asked: list[dict[str, Any]] = []  # the scopes of what is answered now
        self._gone = False

    async def run(self) -> None:
        """Serve the connection until it ends."""
        await self._send({"type": "websocket.accept"})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                while not self._gone and (message := await self._receive())["type"] == "websocket.receive":
                    await self._hear(message)
                self._leave()
        if not self._gone:
            await self._refuse({}, "this connection is an hour old; open another", "websocket_connection_limit_reached")
            await self._send({"type": "websocket.close", "code": 1000})
        self._leave()
        if tasks := [lane.task for lane in self._lanes.values() if lane.task is not None]:
            _, late = await asyncio.wait(tasks, timeout=_PATIENCE)
            for task in late:
                task.cancel()

    def _leave(self) -> None:
        """End what is asked for a client that has left."""
        self._gone = True
        for scope in self._asked:
            leave(scope)

    async def _hear(self, message: Mapping[str, Any]) -> None:
        try:
            event = _read(message.get("text") or message.get("bytes") or b"")
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            event = None
        match event:
            case {"type": "response.create"}:
                await self._create(event)
            case {"type": "response.steer"}:
                await self._steer(event)
            case _:
                await self._refuse({}, "a message must be a JSON object of type response.create or response.steer")

    async def _say(self, event: bytes) -> None:
        try:
            async with asyncio.timeout(self._stall):
                await self._send({"type": "websocket.send", "text": event.decode()})
        except (TimeoutError, OSError, RuntimeError):  # nobody listens any more
            self._leave()

    async def _tell(self, lane: _Lane, kind: str, **more: Any) -> None:
        """Say something of ours, with its number."""
        lane.count += 1
        await self._say(_write({"type": kind, **more, "sequence_number": lane.count - 1, **lane.mark}))

    async def _refuse(self, mark: Mapping[str, Any], message: str, code: str | None = None, status: int = 400) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": message, "param": None}
        await self._say(_write({"type": "error", "status": status, "error": error, **mark}))

    async def _create(self, event: dict[str, Any]) -> None:
        """Begin an answer on its lane."""
        name = event.get("stream_id")
        mark = {} if name is None else {"stream_id": name}
        if not (name is None or (type(name) is str and 0 < len(name) <= 256)):
            await self._refuse({}, "stream_id: must be a text of up to 256 characters")
            return
        lane = self._lanes.get(name) or _Lane(name)
        if lane.waits or (lane.task is not None and not lane.task.done() and not lane.ended):
            await self._refuse(mark, "this lane has an answer in progress", "response_in_progress", 409)
            return
        if name not in self._lanes and len(self._lanes) >= _LANES:
            idle = next((key for key, one in self._lanes.items() if one.task is None or one.task.done()), lane)
            if idle is lane:
                await self._refuse(mark, f"a connection has at most {_LANES} lanes", "too_many_streams", 429)
                return
            del self._lanes[idle]
        before, self._lanes[name] = lane.task, lane
        lane.waits = True
        lane.task = asyncio.ensure_future(self._turns(lane, event, before))

    async def _turns(self, lane: _Lane, event: dict[str, Any], before: "asyncio.Task[None] | None") -> None:
        """Answer, and go on with what was added meanwhile."""
        if before is not None:
            await asyncio.wait([before])
        lane.waits = False
        body = {key: value for key, value in event.items() if key not in _OWN}
        steers = self._waiting.pop(str(body.get("previous_response_id")), [])
        prewarms = event.get("generate") is False or (event.get("prompt_cache_options") or {}).get("prewarm") is True
        while True:
            if steers:
                added = [item for steer in steers for item in as_items(steer.input)]
                body["input"] = [*added, *as_items(body.get("input"))]
            await (self._warm if prewarms else self._answer)(lane, body)
            if steers and not lane.answering:
                await self._give_back(lane, steers, "successor_creation_failed")
            steers, lane.steers = lane.steers, []
            if not steers:
                return
            if lane.failed:
                await self._give_back(lane, steers, "response_not_active")
                return
            previous = lane.answering
            if owed := _owed(lane.ended):
                self._waiting[previous] = steers
                for steer in steers:
                    told = {"id": steer.id, "previous_response_id": previous}
                    reason = "waiting_for_required_input"
                    await self._tell(lane, "response.steer.pending", reason=reason, required_input=owed, steer=told)
                return
            body, lane.ended = {**body, "previous_response_id": previous, "input": []}, b""

    async def _give_back(self, lane: _Lane, steers: list[_Steer], code: str) -> None:
        for steer in steers:
            told = {"id": steer.id, "previous_response_id": steer.previous, "input": steer.input}
            await self._tell(lane, "response.steer.failed", error=_error(code), steer=told)

    async def _warm(self, lane: _Lane, body: dict[str, Any]) -> None:
        """Take a request that wants no answer yet: what comes next goes on from it."""
        name = f"resp_{secrets.token_hex(12)}"
        shell: dict[str, Any] = {
            "id": name,
            "object": "response",
            "created_at": 0,
            "model": body.get("model"),
            "output": [],
        }
        _, kept = kept_of(_members(body), _write({**shell, "status": "completed"}), "")
        if kept is not None:
            await self._held.keep(name, kept)
        lane.count = 0
        await self._tell(lane, "response.created", response={**shell, "status": "in_progress"})
        lane.answering, lane.failed, lane.ended = name, False, b"{}"
        self._done[name] = None
        await self._tell(lane, "response.completed", response={**shell, "status": "completed"})

    async def _answer(self, lane: _Lane, body: dict[str, Any]) -> None:
        """Ask the gateway itself, and say each event as it comes."""
        lane.answering, lane.failed, lane.count, lane.ended = "", True, 0, b""
        heard = _Heard(self, lane, _members(body))

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": _write({**body, "stream": True}), "more_body": False}

        about = {"type": "http", "method": "POST", "path": PATH, "raw_path": PATH.encode(), "query_string": b""}
        headers = [*self._headers, (b"content-type", b"application/json")]
        scope = {**self._scope, **about, "headers": headers, "toolwire.held": self._held.memories[0]}
        self._asked.append(scope)
        try:
            await self._app(scope, receive, heard.send)
        finally:
            self._asked.remove(scope)
        if not heard.ended and not self._gone:
            lane.ended = b"{}"
            await self._refuse(lane.mark, "the answer broke off before it was whole", "incomplete", 502)

    async def end(self, lane: _Lane, members: Mapping[str, Raw], kind: bytes, event: bytes, maker: str) -> None:
        """Note that an answer has ended, before it is said: who goes on at once finds it."""
        lane.ended = event_answer(event) or b"{}"
        lane.failed = kind in (b"response.failed", b"error")
        if lane.answering:
            self._done[lane.answering] = None
        name, kept = kept_of(members, lane.ended, maker)
        if kept is not None:
            await self._held.keep(name, kept)

    async def _steer(self, event: dict[str, Any]) -> None:
        """Take what is added to an answer, or give it back."""
        previous, given = event.get("previous_response_id"), event.get("input")
        lane = next((one for one in self._lanes.values() if previous and one.answering == previous), None)
        code = None
        if not _is_addition(given) or type(previous) is not str:
            code = "invalid_input"
        elif lane is None or lane.ended:
            code = "response_already_completed" if previous in self._done else "response_not_found"
        elif len(lane.steers) >= _STEERS:
            code = "too_many_pending_steers"
        if code is not None or lane is None:
            told = {"previous_response_id": previous, "input": given}
            await self._tell(lane or _Lane(None), "response.steer.failed", error=_error(code or ""), steer=told)
            return
        steer = _Steer(f"steer_{secrets.token_hex(12)}", str(previous), given)
        lane.steers.append(steer)
        await self._tell(lane, "response.steer.accepted", steer={"id": steer.id, "previous_response_id": previous})


class _Heard:
    """What the gateway answers to one turn, as messages."""

    def __init__(self, socket: Socket, lane: _Lane, members: Mapping[str, Raw]) -> None:
        self._socket, self._lane, self._members = socket, lane, members
        self._status, self._maker, self._whole = 200, "", b""
        self.ended = False
        self._headers: dict[str, str] = {}
        self._frames = EventStream()

    async def send(self, message: dict[str, Any]) -> None:
        """Take a message of the gateway."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            said = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            self._maker = said.get("x-toolwire-model", "").partition("/")[0]
            self._headers = {name: said[name] for name in said if name not in _ABOUT_BYTES}
        elif self._status != 200:
            self._whole += message.get("body", b"")
            if not message.get("more_body"):
                await self._fail()
        else:
            for kind, event in self._frames.feed(message.get("body", b"")):
                await self._pass(kind or _kind_of(event), event)

    async def _fail(self) -> None:
        self._lane.ended, self.ended = b"{}", True
        error = {**_read(self._whole).get("error"), "headers": self._headers}
        told = {"type": "error", "status": self._status, "error": error, "headers": self._headers, **self._lane.mark}
        await self._socket._say(_write(told))  # noqa: SLF001 - one thought in two classes

    async def _pass(self, kind: bytes, event: bytes) -> None:
        lane = self._lane
        if not event.startswith(b"{"):
            return
        lane.count += 1
        if not lane.answering and kind == b"response.created":
            lane.answering = str(_read(event_answer(event)).get("id"))
        if kind in _ENDS:
            self.ended = True
            await self._socket.end(lane, self._members, kind, event, self._maker)
        if lane.name is not None:
            event = b'{"stream_id":' + _write(lane.name) + b"," + event[1:]
        await self._socket._say(event)  # noqa: SLF001 - likewise


def _kind_of(event: bytes) -> bytes:
    try:
        return str(_read(event).get("type")).encode()
    except (msgspec.DecodeError, UnicodeError, AttributeError):
        return b""


def _members(body: dict[str, Any]) -> dict[str, Raw]:
    return {key: Raw(_write(value)) for key, value in body.items()}


def _error(code: str) -> dict[str, str]:
    return {"type": "invalid_request_error", "code": code, "message": f"this input was not taken: {code}"}


def _is_addition(given: Any) -> bool:
    """Whether an input is words of a user alone."""
    if type(given) is str:
        return bool(given)
    return (
        type(given) is list
        and bool(given)
        and all(
            type(item) is dict and item.get("role") == "user" and item.get("type", "message") == "message"
            for item in given
        )
    )


def _owed(answer: bytes) -> list[dict[str, Any]]:
    """List what the client owes before the model can go on."""
    read = _read(answer)
    if type(read) is not dict:
        return []
    owed: list[dict[str, Any]] = []
    for item in as_items(read.get("output")):
        kind, fields = _OWED.get(str(item.get("type")), ("", ()))
        if kind and not (item.get("type") == "tool_search_call" and item.get("execution") != "client"):
            owed.append({"type": kind, **{name: item.get(name) for name in fields}})
        if item.get("type") == "mcp_approval_request":
            owed.append({"type": "mcp_approval_response", "approval_request_id": item.get("id")})
    return owed
