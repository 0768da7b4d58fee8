"""Responses over a WebSocket: each turn is a request to the gateway itself, and its events are messages.

Rules of this file:
- A turn is a request like each other one: the rights, limits and costs of its key apply. A message that only stores
  input (`generate: false`) counts as a request, too.
- Every message is answered. If it cannot be read, or if the gateway fails, the client receives an error event.
- A lane has one answer at a time; several lanes share a connection.
- The connection stores its last turns, also with `store: false`; the provider is sent the whole conversation. The turns
  of all connections are in one memory with limits. When a connection ends, its turns are deleted.
- An addition to an answer (`response.steer`) waits for the end of the answer, and is asked next.
- No request is sent again once a part of its answer was sent. When the client leaves, all its turns end.

Sources: openai 3.52.0, ResponsesClientEvent, ResponsesServerEvent and the steering events (2026-11-22).
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from toolwire.gateway.context import PASS_ON, PREWARMS, leave
from toolwire.gateway.memory import MemoryPart, ProcessMemory
from toolwire.gateway.response_store import event_answer, turn_of_answer
from toolwire.gateway.socket_messages import (
    NOTHING,
    Create,
    WrongMessage,
    do_nothing,
    is_addition,
    join_inputs,
    list_owed,
    read_create,
    read_id,
    read_kind,
    read_mark,
    read_members,
    read_value,
    steer_error,
)
from toolwire.gateway.stored_turns import Turns
from toolwire.wire.framing import EventStream

_log = logging.getLogger(__name__)
PATH = "/v1/responses"
_SECONDS = 3600.0  # how long a connection lasts (OpenAI's limit)
_LANES = 32
_STEERS = 16
_STEER_BYTES = 1024 * 1024  # of the additions of a connection that wait for their model
_LEAST_STEER = 1024
_TURNS = 1000  # the last turns that a connection knows of
_PATIENCE = 5.0
_HOP = frozenset(
    {b"connection", b"upgrade", b"content-length", b"content-encoding", b"transfer-encoding", b"openai-beta"}
)
_ABOUT_BYTES = frozenset({"content-type", "content-length"})
_ENDS = frozenset({b"response.completed", b"response.incomplete", b"response.failed", b"error"})
_read = msgspec.json.decode
_write = msgspec.json.encode


class _Steer(Struct):
    """An addition that a client sent while the model answers."""

    id: str
    previous: str
    input: Raw

    @property
    def size(self) -> int:
        """The bytes that it counts for."""
        return max(_LEAST_STEER, len(bytes(self.input)))


class _Lane(Struct):
    """A sequence of answers on one connection: each begins after the one before has ended."""

    name: str | None
    count: int = 0
    answering: str = ""
    ended: bool = False
    owed: list[dict[str, Any]] = field(default_factory=list)  # the results that the model waits for
    failed: bool = False
    waits: bool = False  # for the end of the previous answer
    steers: list[_Steer] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None

    @property
    def mark(self) -> dict[str, Any]:
        """The members that name this lane in its events."""
        return {} if self.name is None else {"stream_id": self.name}

    @property
    def is_busy(self) -> bool:
        """Return True if an answer has begun and not ended, or waits to begin."""
        return self.waits or (self.task is not None and not self.task.done() and not self.ended)


class Socket:
    """The Responses API over one WebSocket. `memory` has the turns of all connections of the process."""

    def __init__(
        self,
        app: Any,
        scope: dict[str, Any],
        receive: Any,
        send: Any,
        *,
        stall: float,
        owner: str,
        memory: ProcessMemory,
    ) -> None:
        self._app, self._scope, self._receive, self._send, self._stall = app, scope, receive, send, stall
        self._headers = [
            (name, value)
            for name, value in scope["headers"]
            if name not in _HOP and not name.startswith(b"sec-websocket-")
        ]
        self._memory = memory
        self._held = MemoryPart(memory, f"{secrets.token_hex(8)}:")
        self._turns = Turns([self._held], owner)
        self._lanes: dict[str | None, _Lane] = {}
        self._pending: dict[str, list[_Steer]] = {}
        self._done: dict[str, None] = {}
        self._asked: dict[int, dict[str, Any]] = {}  # the scopes of the requests that run
        self._gone = False

    async def run(self) -> None:
        """Serve the connection until it ends."""
        await self._send({"type": "websocket.accept"})
        try:
            await self._serve()
        finally:
            self._leave()
            await self._end_tasks()
            self._forget(list(self._done))

    async def _serve(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                while not self._gone and await self._handle_next():
                    continue
                self._leave()
        if not self._gone:
            await self._refuse({}, "this connection is an hour old; open another", "websocket_connection_limit_reached")
            await self._send({"type": "websocket.close", "code": 1000})

    async def _end_tasks(self) -> None:
        """Wait until the answers have ended, and cancel those that do not."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_PATIENCE)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_PATIENCE)

    def _leave(self) -> None:
        """End what is asked for a client that has left."""
        self._gone = True
        for scope in self._asked.values():
            leave(scope)

    def _note(self, name: str) -> None:
        """Note that an answer has ended. The connection forgets those before its last thousand."""
        self._done[name] = None
        if len(self._done) > _TURNS:
            self._forget([next(iter(self._done))])

    def _forget(self, names: list[str]) -> None:
        self._memory.discard(self._turns.owner, [self._turns.key(name) for name in names])
        for name in names:
            del self._done[name]

    async def _handle_next(self) -> bool:
        """Handle the next message. Return False when there is no other."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return False
        pass_on, data = message.get(PASS_ON, do_nothing), message.get("text") or message.get("bytes") or b""
        is_passed_on, mark = False, dict[str, Any]()
        try:
            members = read_members(data)
            mark = read_mark(members)
            is_passed_on = await self._handle(members, pass_on)
        except WrongMessage as wrong:
            await self._refuse(mark, str(wrong), param=wrong.param)
        except Exception:  # noqa: BLE001 - the client receives an error, and the connection stays
            await self._fail(mark)
        finally:
            if not is_passed_on:
                pass_on()
        return True

    async def _handle(self, members: dict[str, Raw], pass_on: Callable[[], None]) -> bool:
        """Handle a message. Return True if a lane has it now."""
        match read_value(members, "type"):
            case "response.create":
                return await self._create(read_create(members, pass_on))
            case "response.steer":
                await self._steer(members)
                return False
            case _:
                raise WrongMessage("a message must be a JSON object of type response.create or response.steer", "type")

    async def send_event(self, event: bytes) -> None:
        """Send an event to the client, or note that it has left."""
        try:
            async with asyncio.timeout(self._stall):
                await self._send({"type": "websocket.send", "text": event.decode()})
        except (TimeoutError, OSError, RuntimeError):  # the client has left
            self._leave()

    async def _send_own(self, lane: _Lane, event_type: str, **more: Any) -> None:
        """Send an event that the gateway itself makes, with its number."""
        lane.count += 1
        await self.send_event(_write({"type": event_type, **more, "sequence_number": lane.count - 1, **lane.mark}))

    async def _refuse(
        self,
        mark: Mapping[str, Any],
        message: str,
        code: str | None = None,
        status: int = 400,
        param: str | None = None,
    ) -> None:
        error_type = "invalid_request_error" if status < 500 else "server_error"
        error = {"type": error_type, "code": code, "message": message, "param": param}
        await self.send_event(_write({"type": "error", "status": status, "error": error, **mark}))

    async def _fail(self, mark: Mapping[str, Any]) -> None:
        """Send the client an error, and log what failed."""
        _log.exception("a message of a WebSocket failed")
        await self._refuse(mark, "the gateway failed; its log says why", status=500)

    async def _create(self, create: Create) -> bool:
        """Begin an answer on its lane. Return False if it is refused."""
        lane = self._lanes.get(create.lane) or _Lane(create.lane)
        if lane.is_busy:
            await self._refuse(lane.mark, "this lane has an answer in progress", "response_in_progress", 409)
            return False
        if create.lane not in self._lanes and len(self._lanes) >= _LANES:
            idle = next((key for key, one in self._lanes.items() if one.task is None or one.task.done()), lane)
            if isinstance(idle, _Lane):
                await self._refuse(lane.mark, f"a connection has at most {_LANES} lanes", "too_many_streams", 429)
                return False
            del self._lanes[idle]
        before, self._lanes[create.lane] = lane.task, lane
        lane.waits = True
        lane.task = asyncio.ensure_future(self._run_lane(lane, create, before))
        return True

    async def _run_lane(self, lane: _Lane, create: Create, before: "asyncio.Task[None] | None") -> None:
        """Wait for the answer `before`, then send the answers of `lane`. Send an error event if that fails."""
        try:
            if before is not None:
                await asyncio.wait([before])
            lane.waits = False
            await self._answer_all(lane, create)
        except WrongMessage as wrong:
            await self._refuse(lane.mark, str(wrong), param=wrong.param)
        except Exception:  # noqa: BLE001 - the client receives an error, and the lane is free
            await self._fail(lane.mark)
        finally:
            lane.ended = True
            create.pass_on()
            steers, lane.steers = lane.steers, []
            await self._give_back(lane, steers, "response_not_active")

    async def _answer_all(self, lane: _Lane, create: Create) -> None:
        """Send the answer to `create`, then one to each addition that the client has sent meanwhile."""
        body, steers = create.body, self._pending.pop(create.previous, [])
        while True:
            if steers:
                body["input"] = join_inputs([steer.input for steer in steers], body.get("input", NOTHING))
            await (self._warm if create.prewarms else self._answer)(lane, body, create.pass_on)
            if steers and not lane.answering:
                await self._give_back(lane, steers, "successor_creation_failed")
            steers, lane.steers = lane.steers, []
            if not steers:
                return
            if lane.failed:
                await self._give_back(lane, steers, "response_not_active")
                return
            previous = lane.answering
            if lane.owed:
                await self._wait_for(lane, previous, steers)
                return
            more = {"previous_response_id": Raw(_write(previous)), "input": Raw(b"[]")}
            body, lane.ended = {**body, **more}, False

    async def _wait_for(self, lane: _Lane, previous: str, steers: list[_Steer]) -> None:
        """Store additions until the client has sent the results that the model waits for."""
        self._pending[previous] = steers
        for steer in steers:
            steer_fields = {"id": steer.id, "previous_response_id": previous}
            more = {"reason": "waiting_for_required_input", "required_input": lane.owed, "steer": steer_fields}
            await self._send_own(lane, "response.steer.pending", **more)

    async def _give_back(self, lane: _Lane, steers: list[_Steer], code: str) -> None:
        for steer in steers:
            steer_fields = {"id": steer.id, "previous_response_id": steer.previous, "input": steer.input}
            await self._send_own(lane, "response.steer.failed", error=steer_error(code), steer=steer_fields)

    async def _warm(self, lane: _Lane, body: dict[str, Raw], _pass_on: Callable[[], None]) -> None:
        """Store the input of a request that wants no answer: the next request continues it."""
        lane.answering, lane.failed, lane.count, lane.ended = "", True, 0, False
        admitted = _TurnEvents(self, lane, {})
        await self._ask(admitted, b"{}", {PREWARMS: True})
        if admitted.ended or self._gone:
            return
        name = f"resp_{secrets.token_hex(12)}"
        shell: dict[str, Any] = {
            "id": name,
            "object": "response",
            "created_at": 0,
            "model": body.get("model"),
            "output": [],
        }
        kept = turn_of_answer(body, _write({**shell, "status": "completed"}), "")[1]
        if kept is None or not await self._turns.keep(name, kept):
            raise WrongMessage("input: must not be more than this key may store", "input")
        await self._send_own(lane, "response.created", response={**shell, "status": "in_progress"})
        lane.answering, lane.failed, lane.ended, lane.owed = name, False, True, []
        self._note(name)
        await self._send_own(lane, "response.completed", response={**shell, "status": "completed"})

    async def _answer(self, lane: _Lane, body: dict[str, Raw], pass_on: Callable[[], None]) -> None:
        """Ask the gateway itself, and send each event as it comes."""
        lane.answering, lane.failed, lane.count, lane.ended, lane.owed = "", True, 0, False, []
        events = _TurnEvents(
            self, lane, {name: body[name] for name in ("input", "previous_response_id") if name in body}
        )
        sent = _write({**body, "stream": True})
        pass_on()
        await self._ask(events, sent, {"toolwire.held": self._held})
        if not events.ended and not self._gone:
            lane.ended = True
            await self._refuse(lane.mark, "the answer broke off before it was whole", "incomplete", 502)

    async def _ask(self, events: "_TurnEvents", body: bytes, more: dict[str, Any]) -> None:
        """Send a request to the gateway itself."""

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        about = {"type": "http", "method": "POST", "path": PATH, "raw_path": PATH.encode(), "query_string": b""}
        headers = [*self._headers, (b"content-type", b"application/json")]
        scope = {**self._scope, **about, "headers": headers, **more}
        self._asked[id(scope)] = scope
        try:
            await self._app(scope, receive, events.send)
        finally:
            del self._asked[id(scope)]

    async def end(
        self, lane: _Lane, members: Mapping[str, Raw], event_type: bytes, event: bytes, provider_name: str
    ) -> None:
        """Store an answer that has ended, before the client receives its end."""
        answer = event_answer(event)
        lane.owed = list_owed(answer) if lane.steers and answer else []
        lane.ended, lane.failed = True, event_type in (b"response.failed", b"error")
        name, kept = turn_of_answer(members, answer, provider_name)
        is_stored = kept is not None and await self._turns.keep(name, kept)
        for one in {lane.answering, name if is_stored else ""} - {""}:
            self._note(one)

    async def _steer(self, members: dict[str, Raw]) -> None:
        """Accept an addition to an answer, or return it to the client."""
        previous, added = read_value(members, "previous_response_id"), members.get("input", NOTHING)
        lane = next((one for one in self._lanes.values() if previous and one.answering == previous), None)
        steer = _Steer(f"steer_{secrets.token_hex(12)}", str(previous), Raw(bytes(added)))
        code = None
        if type(previous) is not str or not is_addition(read_value(members, "input")):
            code = "invalid_input"
        elif lane is None or lane.ended:
            code = "response_already_completed" if previous in self._done else "response_not_found"
        elif len(lane.steers) >= _STEERS or self._added + steer.size > _STEER_BYTES:
            code = "too_many_pending_steers"
        if code is not None or lane is None:
            steer_fields, error = {"previous_response_id": previous, "input": added}, steer_error(code or "")
            await self._send_own(lane or _Lane(None), "response.steer.failed", error=error, steer=steer_fields)
            return
        lane.steers.append(steer)
        await self._send_own(lane, "response.steer.accepted", steer={"id": steer.id, "previous_response_id": previous})

    @property
    def _added(self) -> int:
        """The bytes of the additions that wait for their model."""
        pending = [*self._pending.values(), *(lane.steers for lane in self._lanes.values())]
        return sum(steer.size for steers in pending for steer in steers)


class _TurnEvents:
    """The gateway's response to one turn, which is sent as events."""

    def __init__(self, socket: Socket, lane: _Lane, members: Mapping[str, Raw]) -> None:
        self._socket, self._lane, self._members = socket, lane, members
        self._status, self._provider_name, self._whole = 200, "", b""
        self.ended = False
        self._headers: dict[str, str] = {}
        self._frames = EventStream()

    async def send(self, message: dict[str, Any]) -> None:
        """Receive a message of the gateway."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            self._provider_name = headers.get("x-toolwire-model", "").partition("/")[0]
            self._headers = {name: headers[name] for name in headers if name not in _ABOUT_BYTES}
        elif self._status != 200:
            self._whole += message.get("body", b"")
            if not message.get("more_body"):
                await self._fail()
        else:
            for event_type, event in self._frames.feed(message.get("body", b"")):
                await self._pass(event_type or read_kind(event), event)

    async def _fail(self) -> None:
        self._lane.ended = self.ended = True
        error = {**_read(self._whole).get("error"), "headers": self._headers}
        event = {"type": "error", "status": self._status, "error": error, "headers": self._headers}
        await self._socket.send_event(_write({**event, **self._lane.mark}))

    async def _pass(self, event_type: bytes, event: bytes) -> None:
        lane = self._lane
        if not event.startswith(b"{"):
            return
        lane.count += 1
        if not lane.answering and event_type == b"response.created":
            lane.answering = read_id(event_answer(event))
        if event_type in _ENDS:
            await self._socket.end(lane, self._members, event_type, event, self._provider_name)
        if lane.name is not None:
            event = b'{"stream_id":' + _write(lane.name) + b"," + event[1:]
        await self._socket.send_event(event)
        self.ended = self.ended or event_type in _ENDS
