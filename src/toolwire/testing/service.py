"""The simulated server of five wires, without the network: it turns requests into replies.

Rules of this file:
- A request is judged in the order in which a server does it: path, key, body, then the contents of the body.
- An error of a scenario is a problem that is reported at the end; the client gets an error that it will not retry.
- Headers hold keys, so they are never shown.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec.structs import replace

from toolwire.dialects import dialect
from toolwire.errors import InvalidBody, ToolwireError
from toolwire.providers.listing import list_models, show_model
from toolwire.testing.answers import Script, fill_in, script_of
from toolwire.testing.replies import Close, Reply, error_reply, stream_reply, whole_reply
from toolwire.testing.rules import Rejection, ServerMemory, WireRequest
from toolwire.testing.rules_openai_responses import conversation
from toolwire.testing.scenario import NoTurnLeft, Scenario, rounds_of
from toolwire.testing.sealing import make_id
from toolwire.testing.steps import Fail, Turn, unmet
from toolwire.testing.wires import JSON, VERSION, WIRES, check_key, judge, token_count
from toolwire.translation.paths import RouteMatch, match_route, stream_quirks, wants_stream
from toolwire.types import Error, Loss, Opaque, Request, Usage
from toolwire.wire.bodies import read_body

_NOT_JSON = {
    "openai-chat": "We could not parse the JSON body of your request.",
    "openai-responses": "We could not parse the JSON body of your request.",
    "anthropic": "The request body is not valid JSON.",
    "gemini": "Invalid JSON payload received.",
    "ollama": "invalid character in the body",
}
_NOT_SIMULATED = frozenset({"other", "items", "cancel"})
_UNKNOWN_MODEL = {
    "openai-chat": "The model `{}` does not exist or you do not have access to it.",
    "openai-responses": "The requested model '{}' does not exist.",
    "anthropic": "model: {}",
    "gemini": "models/{} is not found for API version v1beta, or is not supported for generateContent.",
    "ollama": "model '{}' not found",
}
_NO_THREADS = "thread: this server stores no threads; send the whole conversation without it"
_DEFAULT_MODELS = ("toy",)
_MICROSECOND = 1e-6


class Received:
    """One request: its bytes, its parsed form, and its outcome.

    - `request` is the body as a canonical value, or None if it cannot be decoded.
    - `status` is that of the reply, `response` its body if it was sent whole, `losses` what its wire could not express.
    - `usage` are the tokens of the reply, those of the prompt cache included. It is None if no model answered.
    - `refused` is the error if the server rejected the request.
    - `sent` counts the bytes of the body that were sent. `gone` is true if the client disconnected before the end. Both
      are final when `over` is set.
    """

    def __init__(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> None:
        self.method = method
        self.path = path
        self.query: dict[str, str] = dict(query)
        self.headers: dict[str, str] = dict(headers)
        self.raw = b""
        self.body: Any = None
        self.dialect: str | None = None
        self.request: Request | None = None
        self.turn: int | None = None
        self.status: int | None = None
        self.refused: Error | None = None
        self.response: Any = None
        self.losses: tuple[Loss, ...] = ()
        self.usage: Usage | None = None
        self.sent = 0
        self.gone = False
        self.over: threading.Event = threading.Event()

    def __repr__(self) -> str:
        return f"<Received {self.method} {self.path} {self.status or 'unanswered'}>"


class Service:
    """Answers requests by a scenario, and stores the requests."""

    def __init__(
        self,
        scenario: Any,
        *,
        api_key: str | None = None,
        models: Sequence[str] = (),
        strict: bool = True,
        allow: Sequence[str] = (),
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.api_key: str | None = api_key
        self.models: tuple[str, ...] = tuple(models)
        self.strict: bool = strict
        self.allow: frozenset[str] = frozenset(allow)
        self.requests: list[Received] = []
        self.problems: list[str] = []
        self.causes: list[BaseException] = []
        self.memory: ServerMemory = ServerMemory()
        self.scenario: Scenario = Scenario.of(scenario)
        self.played: int = 0
        self._clock: Callable[[], float] = time.time if clock is None else clock
        self._last = 0.0

    def play(self, scenario: Any) -> None:
        """Continue with another scenario, from its first turn."""
        self.problems += self.scenario.left()
        self.scenario, self.played = Scenario.of(scenario), 0

    def receive(self, method: str, target: str, headers: Mapping[str, str]) -> Received:
        """Store a new request and return it."""
        path, _, query = target.partition("?")
        received = Received(method, unquote(path), dict(parse_qsl(query)), headers)
        self.requests.append(received)
        return received

    async def answer(self, received: Received, data: bytes) -> Reply:
        """Return the reply to a request."""
        received.raw = data
        try:
            reply = await self._answer(received)
        except Rejection as rejection:
            reply = _reject(received, rejection)
        received.status, received.response, received.losses = reply.status, reply.body, reply.losses
        received.usage = reply.usage
        wire = WIRES[received.dialect or "openai-chat"]
        name = make_id(wire.request_id, 24, len(self.requests), received.path)
        return replace(reply, headers=(*reply.headers, (wire.request_header, name)))

    async def _answer(self, received: Received) -> Reply:
        method, path = received.method, received.path
        endpoint = match_route(path, received.headers)
        is_unknown = (
            endpoint is not None and endpoint.action == "model" and method == "POST" != endpoint.method
        )  # a method that no wire has
        if endpoint is None or endpoint.action in _NOT_SIMULATED or is_unknown:
            raise Rejection(f"Invalid URL ({method} {path})", status=404, kind="not_found")
        received.dialect = endpoint.dialect
        if method != endpoint.method and (method, endpoint.method) != ("HEAD", "GET"):
            reply = _reject(received, Rejection(f"Not allowed to {method} on {path}.", status=405))
            return replace(reply, headers=(*reply.headers, ("allow", endpoint.method)))
        check_key(endpoint.dialect, received.headers, received.query, self.api_key)
        if endpoint.method == "GET":
            return self._inform(endpoint, {})
        try:
            received.body = read_body(received.raw)
        except InvalidBody:
            received.body = None
        if type(received.body) is not dict:
            raise Rejection(_NOT_JSON[endpoint.dialect])
        if endpoint.action == "answer":
            return await self._play(received, endpoint, received.body)
        return self._inform(endpoint, received.body)

    def _inform(self, endpoint: RouteMatch, body: dict[str, Any]) -> Reply:
        """Answer a request that is not for the model: lists, counts, stored answers."""
        subject = endpoint.subject or body.get("model") or body.get("name") or ""
        match endpoint.action:
            case "models":
                answer = list_models(endpoint.dialect, self.models or _DEFAULT_MODELS)
            case "model":
                self._check_model(endpoint.dialect, subject)
                answer = show_model(endpoint.dialect, subject)
            case "version":
                answer = {"version": VERSION}
            case "retrieve":
                if subject not in self.memory.answers:
                    raise Rejection(f"Response with id '{subject}' not found.", status=404)
                answer = self.memory.answers[subject]
            case _:
                answer = token_count(endpoint.dialect, body)
        data = msgspec.json.encode(answer)
        return Reply(200, (("content-type", JSON),), (data,), body=answer, length=len(data))

    def _check_model(self, name: str, model: str) -> None:
        if not self.models or model in self.models:
            return
        text = _UNKNOWN_MODEL[name].format(model)
        if name == "openai-responses":
            raise Rejection(text, "model", "model_not_found")
        raise Rejection(text, None, "model_not_found" if name == "openai-chat" else None, 404, "not_found")

    async def _play(self, received: Received, endpoint: RouteMatch, body: dict[str, Any]) -> Reply:
        name = endpoint.subject or body.get("model")
        model = name if type(name) is str else ""
        wire_request = WireRequest(
            endpoint.dialect, body, model, received.headers, received.query, judged=self.strict, memory=self.memory
        )
        self._check_model(endpoint.dialect, model)
        if endpoint.dialect == "anthropic" and body.get("thread") is not None:
            raise Rejection(_NO_THREADS, code="thread_unsupported_request")
        if self.strict:
            judge(replace(wire_request, body={key: value for key, value in body.items() if key not in self.allow}))
        try:
            received.request = dialect(endpoint.dialect).decode_request(body, received.path)
            request = _with_history(wire_request, received)
        except ToolwireError as problem:
            raise Rejection(str(problem)) from problem
        turn = Turn(self.played, rounds_of(request), endpoint.dialect, body, received.headers)
        received.turn = self.played
        self.played += 1
        return await self._perform(
            wire_request, request, turn, streams=wants_stream(endpoint.dialect, body, received.path)
        )

    async def _perform(self, wire_request: WireRequest, request: Request, turn: Turn, *, streams: bool) -> Reply:
        """Run the scenario.

        An exception of the scenario, or an answer that cannot be encoded, is a problem of the scenario.
        """
        try:
            script = script_of(await self.scenario.play(request, turn))
            problem = next(filter(None, (unmet(expected, request) for expected in script.expected)), None)
            if problem is None:
                reply = self._reply_of(script, wire_request, request, turn.number, streams=streams)
                return self._remember(wire_request, reply)
        except NoTurnLeft as raised:
            problem = str(raised)
        except Exception as raised:  # noqa: BLE001 - a scenario may raise anything
            problem = f"{type(raised).__name__}: {raised}"
            self.causes.append(raised)
        self.problems.append(f"request {turn.number + 1}: {problem}")
        raise Rejection(f"The request deviates from the scenario: {self.problems[-1]}")

    def _reply_of(
        self, script: Script, wire_request: WireRequest, request: Request, number: int, *, streams: bool
    ) -> Reply:
        name = wire_request.dialect
        if isinstance(script.first, Fail):
            return error_reply(script.first, name, script.cues)
        script = replace(script, response=fill_in(script.response, wire_request, number, self._now()))
        if streams:
            query = "&".join(f"{key}={value}" for key, value in wire_request.query.items())
            reply = stream_reply(script, name, request, **stream_quirks(name, wire_request.body, f"?{query}"))
        else:
            reply = whole_reply(script, name, request)
        return replace(reply, usage=script.response.usage if script.answers else None)

    def _now(self) -> float:
        """Return the time of an answer; no two answers have the same one."""
        self._last = round(max(self._clock(), self._last + _MICROSECOND), 6)
        return self._last

    def _remember(self, wire_request: WireRequest, reply: Reply) -> Reply:
        """Store an answer of Responses, unless the request says `store: false`."""
        if wire_request.dialect == "openai-responses" and wire_request.body.get("store") is not False:
            body = reply.body if reply.whole else _last_body(reply)
            if body is not None:
                self.memory.store_answer(body, conversation(wire_request))
        return reply


def _reject(received: Received, rejection: Rejection) -> Reply:
    """Return the reply with a rejection, in all the fields that its vendor sends."""
    name = received.dialect or "openai-chat"
    error = Error(rejection.kind, rejection.message, rejection.status)
    if name.startswith("openai"):
        fields = Opaque(name, {"error": {"param": None, "code": None}})
        error = replace(error, type="invalid_request_error", code=rejection.code, param=rejection.param, opaque=fields)
    elif name == "anthropic" and rejection.code is not None:
        details = {"type": "error", "error": {"details": {"error_code": rejection.code}}}
        error = replace(error, type="invalid_request_error", opaque=Opaque(name, details))
    received.refused = error
    return error_reply(Fail(error), name)


def _with_history(wire_request: WireRequest, received: Received) -> Any:
    """Return the request with all that the server has stored of the conversation."""
    if wire_request.dialect != "openai-responses" or wire_request.body.get("previous_response_id") is None:
        return received.request
    body = {**wire_request.body, "input": conversation(wire_request)}
    return dialect(wire_request.dialect).decode_request(body, received.path)


def _last_body(reply: Reply) -> Any:
    """Return the whole answer of a Responses stream: its last event repeats it. Return None if it was cut off."""
    if any(isinstance(piece, Close) for piece in reply.pieces):
        return None
    for piece in reversed(reply.pieces):
        if isinstance(piece, bytes) and b'"response.' in piece and b"data: " in piece:
            event = msgspec.json.decode(piece.rpartition(b"data: ")[2])
            return event.get("response") if event["type"] in ("response.completed", "response.incomplete") else None
    return None
