"""A server of five wires, without the network: requests in, replies out.

Rules of this file:
- A request is judged in the order in which a server does it: path, key, body, then what the body says.
- Whatever a scenario does wrong is a problem that is told at the end; the client gets an error that it will
  not retry.
- Headers hold keys, so they are never shown.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from toolwire.dialects import dialect
from toolwire.errors import InvalidBody, ToolwireError
from toolwire.testing.answers import Script, fill_in, script_of
from toolwire.testing.replies import Close, Reply, error_reply, stream_reply, whole_reply
from toolwire.testing.rules import Rejection, ServerMemory, WireRequest
from toolwire.testing.rules_openai_responses import conversation
from toolwire.testing.scenario import NoTurnLeft, Scenario, rounds_of
from toolwire.testing.sealing import make_id
from toolwire.testing.steps import Fail, Turn, unmet
from toolwire.testing.strictness import refusal
from toolwire.testing.wires import JSON, MODEL, MODELS, VERSION, WIRES, Route, check_key, counted, route, wants_stream
from toolwire.types import Error, Loss, Opaque, Request
from toolwire.wire.bodies import read_body

NOT_JSON = {
    "openai-chat": "We could not parse the JSON body of your request.",
    "openai-responses": "We could not parse the JSON body of your request.",
    "anthropic": "The request body is not valid JSON.",
    "gemini": "Invalid JSON payload received.",
    "ollama": "invalid character in the body",
}
UNKNOWN_MODEL = {
    "openai-chat": "The model `{}` does not exist or you do not have access to it.",
    "openai-responses": "The requested model '{}' does not exist.",
    "anthropic": "model: {}",
    "gemini": "models/{} is not found for API version v1beta, or is not supported for generateContent.",
    "ollama": "model '{}' not found",
}
USUAL_MODELS = ("toy",)


class Received:
    """One request: as it came, what it means, and what became of it.

    `request` is the body as a canonical value, or None where it is none. `status` is what was answered,
    `response` its body where that was sent whole, `losses` what its wire could not say, `refused` why if the
    server refused the request. `sent` counts the bytes of the body that went out, and `gone` says
    that the client left before the end; both are final when `over` is set.
    """

    def __init__(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> None:
        self.method = method
        self.path = path
        self.query = dict(query)
        self.headers = dict(headers)
        self.raw = b""
        self.body: Any = None
        self.dialect: str | None = None
        self.request: Request | None = None
        self.turn: int | None = None
        self.status: int | None = None
        self.refused: Error | None = None
        self.response: Any = None
        self.losses: tuple[Loss, ...] = ()
        self.sent = 0
        self.gone = False
        self.over = threading.Event()

    def __repr__(self) -> str:
        return f"<Received {self.method} {self.path} {self.status or 'unanswered'}>"


class Service:
    """Answers requests by a scenario, and keeps what came in."""

    def __init__(
        self,
        scenario: Any,
        *,
        api_key: str | None = None,
        models: Sequence[str] = (),
        strict: bool = True,
        allow: Sequence[str] = (),
    ) -> None:
        self.api_key, self.models, self.strict, self.allow = api_key, tuple(models), strict, frozenset(allow)
        self.requests: list[Received] = []
        self.problems: list[str] = []
        self.causes: list[BaseException] = []
        self.memory = ServerMemory()
        self.scenario, self.played = Scenario.of(scenario), 0

    def play(self, scenario: Any) -> None:
        """Go on with another scenario, from its first turn."""
        self.problems += self.scenario.left()
        self.scenario, self.played = Scenario.of(scenario), 0

    def receive(self, method: str, target: str, headers: Mapping[str, str]) -> Received:
        """Note that a request comes in."""
        path, _, query = target.partition("?")
        received = Received(method, unquote(path), dict(parse_qsl(query)), headers)
        self.requests.append(received)
        return received

    async def answer(self, received: Received, data: bytes) -> Reply:
        """Answer a request."""
        received.raw = data
        reply = await self._answer(received)
        received.status, received.response, received.losses = reply.status, reply.body, reply.losses
        wire = WIRES[received.dialect or "openai-chat"]
        name = make_id(wire.request_id, 24, len(self.requests), received.path)
        return msgspec.structs.replace(reply, headers=(*reply.headers, (wire.request_header, name)))

    async def _answer(self, received: Received) -> Reply:
        found = route(received.path, received.headers)
        if found is None:
            text = f"Invalid URL ({received.method} {received.path})"
            return self._refuse(received, "openai-chat", Rejection(text, None, None, 404, "not_found"))
        received.dialect = found.dialect
        if received.method not in ("GET", "HEAD") if found.method == "GET" else received.method != found.method:
            text = f"Not allowed to {received.method} on {received.path}."
            refused = self._refuse(received, found.dialect, Rejection(text, None, None, 405))
            return msgspec.structs.replace(refused, headers=(*refused.headers, ("allow", found.method)))
        missing = check_key(found.dialect, received.headers, received.query, self.api_key)
        if missing is not None:
            return self._refuse(received, found.dialect, missing)
        if found.method == "GET":
            return self._tell_beside(received, found, {})
        try:
            received.body = read_body(received.raw)
        except InvalidBody:
            received.body = None
        if type(received.body) is not dict:
            return self._refuse(received, found.dialect, Rejection(NOT_JSON[found.dialect]))
        if found.action == "answer":
            return await self._play(received, found, received.body)
        return self._tell_beside(received, found, received.body)

    def _tell_beside(self, received: Received, found: Route, body: dict[str, Any]) -> Reply:
        """Answer what is no request to the model."""
        names = self.models or USUAL_MODELS
        subject = found.subject or body.get("model") or body.get("name") or ""
        match found.action:
            case "models":
                told = MODELS[found.dialect](names)
            case "model" if subject not in names and self.models:
                return self._refuse(received, found.dialect, _no_model(found.dialect, subject))
            case "model":
                told = MODEL[found.dialect](subject)
            case "version":
                told = {"version": VERSION}
            case "retrieve" if subject in self.memory.answers:
                told = self.memory.answers[subject]
            case "retrieve":
                text = f"Response with id '{subject}' not found."
                return self._refuse(received, found.dialect, Rejection(text, status=404))
            case _:
                told = counted(found.dialect, body)
        return _json(told)

    async def _play(self, received: Received, found: Route, body: dict[str, Any]) -> Reply:
        """Answer a request to the model."""
        name = found.subject or body.get("model")
        model = name if type(name) is str else ""
        asked = WireRequest(
            found.dialect,
            body,
            model,
            received.headers,
            received.query,
            judged=self.strict,
            memory=self.memory,
        )
        refused = _no_model(found.dialect, model) if self.models and model not in self.models else None
        if self.strict and refused is None:
            judged = {key: value for key, value in body.items() if key not in self.allow}
            refused = refusal(msgspec.structs.replace(asked, body=judged))
        if refused is not None:
            return self._refuse(received, found.dialect, refused)
        try:
            received.request = dialect(found.dialect).decode_request(body, received.path)
            request = _remembered(asked, received)
        except ToolwireError as problem:
            return self._refuse(received, found.dialect, Rejection(str(problem)))
        turn = Turn(self.played, rounds_of(request), found.dialect, body, received.headers)
        received.turn = self.played
        self.played += 1
        return await self._perform(received, asked, request, turn, wants_stream(found, body))

    async def _perform(
        self, received: Received, asked: WireRequest, request: Request, turn: Turn, streams: bool
    ) -> Reply:
        """Do what the scenario says; what it raises, or cannot be told, is its problem."""
        try:
            script = script_of(await self.scenario.play(request, turn))
            said = next(filter(None, (unmet(expected, request) for expected in script.expected)), None)
            if said is None:
                return self._remember(asked, _tell(script, asked, turn.number, streams=streams))
        except Exception as problem:  # noqa: BLE001 - a scenario may raise anything
            said = str(problem) if isinstance(problem, NoTurnLeft) else f"{type(problem).__name__}: {problem}"
            return self._spoil(received, asked.dialect, f"request {turn.number + 1}: {said}", problem)
        return self._spoil(received, asked.dialect, f"request {turn.number + 1}: {said}")

    def _remember(self, asked: WireRequest, reply: Reply) -> Reply:
        """Keep an answer of Responses, unless it was asked not to."""
        if asked.dialect != "openai-responses":
            return reply
        body = reply.body if reply.whole else _last_body(reply)
        if body is not None and asked.body.get("store") is not False:
            self.memory.keep(body, conversation(asked))
        return reply

    def _refuse(self, received: Received, name: str, refused: Rejection) -> Reply:
        received.refused = _error(name, refused)
        return error_reply(Fail(received.refused), name)

    def _spoil(self, received: Received, name: str, problem: str, cause: BaseException | None = None) -> Reply:
        """Note that the scenario was not kept to, and say so to the client."""
        self.problems.append(problem)
        if cause is not None and not isinstance(cause, NoTurnLeft):
            self.causes.append(cause)
        return self._refuse(received, name, Rejection(f"The scenario was not kept to: {problem}"))


def _remembered(asked: WireRequest, received: Received) -> Any:
    """Give the request with all that its server remembers of the conversation."""
    if asked.dialect != "openai-responses" or asked.body.get("previous_response_id") is None:
        return received.request
    whole = {**asked.body, "input": conversation(asked)}
    return dialect(asked.dialect).decode_request(whole, received.path)


def _tell(script: Script, asked: WireRequest, number: int, *, streams: bool) -> Reply:
    if script.failure is not None:
        return error_reply(script.failure, asked.dialect, script.cues)
    script = msgspec.structs.replace(script, response=fill_in(script.response, asked, number))
    if streams:
        return stream_reply(script, asked.dialect, **_quirks(asked))
    return whole_reply(script, asked.dialect)


def _quirks(asked: WireRequest) -> dict[str, Any]:
    if asked.dialect == "openai-chat":
        options = asked.body.get("stream_options")
        return {"stream_usage": type(options) is dict and options.get("include_usage") is True}
    if asked.dialect == "gemini":
        return {"stream_array": asked.query.get("alt") != "sse"}
    return {}


def _error(name: str, refused: Rejection) -> Error:
    """Make the error of a refusal, in all the fields that its vendor gives."""
    kind, message, status = refused.kind, refused.message, refused.status
    if name.startswith("openai"):
        rest = Opaque(name, {"error": {"param": None, "code": None}})
        return Error(kind, message, status, "invalid_request_error", refused.code, refused.param, opaque=rest)
    return Error(kind, message, status)


def _no_model(name: str, model: str) -> Rejection:
    text = UNKNOWN_MODEL[name].format(model)
    if name == "openai-responses":
        return Rejection(text, "model", "model_not_found")
    code = "model_not_found" if name == "openai-chat" else None
    return Rejection(text, None, code, 404, "not_found")


def _json(body: dict[str, Any]) -> Reply:
    data = msgspec.json.encode(body)
    return Reply(200, (("content-type", JSON),), (data,), body=body, length=len(data))


def _last_body(reply: Reply) -> Any:
    """Find the whole answer in a stream of Responses: its last event repeats it, if it was not cut off."""
    if any(isinstance(piece, Close) for piece in reply.pieces):
        return None
    for piece in reversed(reply.pieces):
        if isinstance(piece, bytes) and b'"response.' in piece and b"data: " in piece:
            event = msgspec.json.decode(piece.partition(b"data: ")[2])
            return event.get("response") if event["type"] in ENDS else None
    return None


ENDS = ("response.completed", "response.incomplete")
