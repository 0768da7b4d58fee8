"""Routing of one request: resolve its model, check its key's limits, ask providers in order, and settle the cost.

Rules of this file:
- The gateway asks another provider only before the first byte of an answer was sent to the client.
- The gateway reserves the estimate of a request before it asks a provider. It settles the request exactly once,
  however the request ends.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import dialect, traits_of
from toolwire.errors import ToolwireError
from toolwire.gateway import conversations
from toolwire.gateway.accounts import Reservation
from toolwire.gateway.attempt import Attempt, Failure
from toolwire.gateway.client_sessions import client_session_in
from toolwire.gateway.context import ClientRequest, GatewayContext, RequestOutcome, ResponseWriter
from toolwire.gateway.continuing import ContinuationRequest
from toolwire.gateway.delivery import Continuation, Delivery, FollowUp
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.keys import Key
from toolwire.gateway.memory import MemoryPart
from toolwire.gateway.prices import Tokens, estimate, sum_of, used
from toolwire.gateway.response_store import WIRE, ResponseRecorder, should_store, text_of
from toolwire.gateway.routes import Candidate, ResolvedRoute, Routes
from toolwire.gateway.stored_turns import StoredTurn, Turns
from toolwire.translation.paths import RouteMatch
from toolwire.types import Encoded
from toolwire.wire.bodies import members_of
from toolwire.wire.conversation_ids import conversation_of

# Rejections that concern one candidate only: another one may lose nothing, or may have stored the response.
_CANDIDATE_CODES = frozenset({"lossy", "previous_response_not_found"})
_PROVIDER_KEY_STATUSES = frozenset({401, 402, 403})  # they concern the gateway's own key at a provider
_MAX_RETRY_WAIT = 2.0  # seconds; the gateway retries once if a provider asks to wait no longer than this


async def handle_request(
    context: GatewayContext, client_request: ClientRequest, client: ResponseWriter, outcome: RequestOutcome
) -> None:
    """Route `client_request`: resolve its model, check its key's limits, ask each candidate in order, settle the cost.

    The answer goes to `client`. `outcome` receives what happened. Raises `GatewayError` if no provider can be asked.
    """
    if context.audit is not None and context.audit.failed:
        raise GatewayError("overloaded", "calls cannot be recorded now", retry_after=5)
    members = await context.offloader.run(len(client_request.body), members_of, client_request.body)
    name = client_request.endpoint.subject or text_of(members.get("model"))
    outcome.session = client_session_in(traits_of(client_request.endpoint.dialect), client_request.headers, members)
    if not name:
        raise GatewayError("invalid_request", "model is missing: name a model", code="missing_model")
    route = resolve_route(context.routes, client_request.key, name, outcome)
    candidates = _affordable_candidates(context, client_request, _candidates_supporting(client_request, route, name))
    long_route = context.routes.find(route.settings.on_context) if route.settings.on_context else None
    stored_turns = _stored_turns_for(context, client_request)
    if stored_turns is not None:
        any_foreign = any(not traits_of(candidate.provider.dialect).stores_responses for candidate in candidates)
        _check_background(client_request, members, foreign=any_foreign)
        client_request.turns = await _read_earlier_turns(stored_turns, client_request, members, foreign=any_foreign)
        inputs = [members.get("input") or b"", *(kept.asked for kept in client_request.turns)]
        client_request.items = await stored_turns.items(map(bytes, inputs))
    reservation = await _reserve(
        context, client_request, members, [*candidates, *(long_route.candidates if long_route is not None else ())]
    )
    try:
        await _RequestRun(context, client_request, members, client, outcome, stored_turns).ask(
            replace(route, candidates=tuple(candidates))
        )
    finally:
        _settle(context, client_request, reservation, outcome)


def resolve_route(routes: Routes, key: Key | None, name: str, outcome: RequestOutcome) -> ResolvedRoute:
    """Return the route of the model name `name`. Raise `GatewayError` if it is unknown, or if `key` may not use it.

    `outcome` receives the name.
    """
    route = routes.find(name)
    outcome.model, outcome.model_is_known = name, route is not None
    if key is not None and not key.may_ask(name):
        message = f"this key may not use {name[:80]!r}; it may use {', '.join(key.models)}"
        raise GatewayError("permission", message, code="model_not_allowed")
    if route is None:
        message = f"the model {name[:80]!r} is unknown; name a route, or PROVIDER/MODEL"
        raise GatewayError("not_found", message, code="model_not_found")
    return route


def _stored_turns_for(context: GatewayContext, client_request: ClientRequest) -> Turns | None:
    """Return the stored turns that the request may continue. Return None if its wire stores no responses."""
    if not traits_of(client_request.endpoint.dialect).stores_responses or client_request.endpoint.action != "answer":
        return None
    return Turns([MemoryPart(context.memory), *filter(None, [client_request.connection_memory])], client_request.owner)


def _check_background(client_request: ClientRequest, members: dict[str, Any], *, foreign: bool) -> None:
    """Raise `GatewayError` for `background: true` if the gateway could not serve it or could not count its cost.

    `foreign` is True if a candidate speaks a wire that stores no responses: nobody would keep the answer for the
    client.
    """
    limited = client_request.key is not None and bool(client_request.key.limits)
    if bytes(members.get("background") or b"") == b"true" and (foreign or limited):
        why = "this key has limits, and such an answer is not counted" if limited else "this model has no such answers"
        message = f"background: must be false, for {why}; ask for a stream"
        raise GatewayError("invalid_request", message, code="unsupported_parameter")


async def _read_earlier_turns(
    stored_turns: Turns, client_request: ClientRequest, members: dict[str, Any], *, foreign: bool
) -> list[StoredTurn]:
    """Return the turns that the request continues, the latest first. A key finds only its own turns.

    Raises `GatewayError` if the conversation is missing, or if a response that is named is missing and the client has a
    key. Without a key, an unknown response may be one that OpenAI stores.
    """
    if name := conversations.named_in(members):
        turn = await stored_turns.conversation(name)
        if turn is None and (client_request.key is not None or foreign):
            raise GatewayError("not_found", f"Conversation with id '{name[:80]}' not found.")
        return [] if turn is None else [turn]
    previous = text_of(members.get("previous_response_id"))
    turns = await stored_turns.earlier(previous) if previous else []
    if previous and not turns and client_request.key is not None:
        raise GatewayError.unknown_response(WIRE)
    return turns


def _candidates_supporting(client_request: ClientRequest, route: ResolvedRoute, name: str) -> list[Candidate]:
    """Return the candidates whose provider supports the endpoint. Raise `GatewayError` if there is none.

    An endpoint that only one wire has goes only to providers of that wire.
    """
    if client_request.endpoint.action == "answer":
        return list(route.candidates)
    candidates = [
        candidate for candidate in route.candidates if _supports(candidate.provider.dialect, client_request.endpoint)
    ]
    if not candidates:
        raise GatewayError("not_found", f"{name[:80]!r} has no provider that supports {client_request.path[:200]}")
    return candidates


def _affordable_candidates(
    context: GatewayContext, client_request: ClientRequest, candidates: list[Candidate]
) -> list[Candidate]:
    """Return the candidates that the key may spend on: with a budget, only those that have a price.

    Raises `GatewayError` if the key has a budget and no candidate has a price.
    """
    if client_request.key is None or not client_request.key.has_budget or client_request.endpoint.action == "count":
        return candidates
    priced = [candidate for candidate in candidates if context.prices.of(candidate) is not None]
    if not priced:
        message = f"{candidates[0].name} has no price, and this key has a budget; add it to [prices] of the settings"
        raise GatewayError("permission", message, code="model_without_price")
    return priced


async def _reserve(
    context: GatewayContext,
    client_request: ClientRequest,
    members: dict[str, Any],
    candidates: list[Candidate],
    requests: int = 1,
) -> Reservation | None:
    """Reserve the estimate of the request in its key's limits: the largest one among `candidates`."""
    if context.accounts is None or client_request.key is None or not client_request.key.limits:
        return None
    if client_request.endpoint.action == "count":
        return await context.accounts.reserve(client_request.key, {"requests": requests})
    tokens = [estimate(client_request.size, members, candidate) for candidate in candidates]
    cost = max(context.prices.highest_cost(candidate, most) for candidate, most in zip(candidates, tokens, strict=True))
    most = max(one.input + one.output for one in tokens)
    return await context.accounts.reserve(client_request.key, {"requests": requests, "tokens": most, "budget": cost})


def _settle(
    context: GatewayContext,
    client_request: ClientRequest,
    reservation: Reservation | None,
    outcome: RequestOutcome,
    requests: int = 1,
) -> None:
    """Settle the request with the tokens and the cost that its providers may bill. Nothing counts if none was asked."""
    if client_request.endpoint.action != "count":
        _bill(context, client_request, outcome)
    if reservation is not None:
        tokens = outcome.tokens or Tokens()
        settled = {"requests": requests, "tokens": tokens.input + tokens.output, "budget": outcome.cost}
        reservation.settle(settled if outcome.was_sent else None)
    for continuation in (*outcome.continuations, *outcome.follow_ups):
        outcome.tokens, outcome.cost = sum_of(outcome.tokens, continuation.tokens), outcome.cost + continuation.cost


def _bill(context: GatewayContext, client_request: ClientRequest, outcome: RequestOutcome) -> None:
    """Write the tokens and the cost of the answer into `outcome`, and add those of the failed attempts.

    The provider's own count is used if there is one. Otherwise the tokens are estimated from the received characters.
    """
    candidate = outcome.answered_by
    if candidate is not None:
        tokens = used(outcome.usage, client_request.size, outcome.characters, complete=outcome.ending == "answer")
        outcome.tokens, outcome.cost = tokens, context.prices.cost(candidate, tokens)
    for attempt_tokens, cost in outcome.failed_attempts:
        outcome.tokens, outcome.cost = sum_of(outcome.tokens, attempt_tokens), outcome.cost + cost


class _RequestRun(Struct):
    """One request and its attempts at providers."""

    context: GatewayContext
    client_request: ClientRequest
    members: dict[str, Any]
    client: ResponseWriter
    outcome: RequestOutcome
    stored_turns: Turns | None = None
    attempts: dict[tuple[str, str], Attempt] = {}  # by the names of route and candidate

    async def ask(self, route: ResolvedRoute) -> None:
        """Ask the candidates of `route` in order until one answers. Send the most useful error if none does.

        If the last failure allows another attempt, the gateway retries the provider that asked for the shortest wait,
        once. If the request is too long for the route, the gateway continues with the route of `on_context`.
        """
        chooser, has_alternatives = self.context.chooser, len(route.candidates) > 1
        conversation = self.client_request.identity.encode()
        if has_alternatives:
            run, owner, opening = self.context.offloader.run, self.client_request.owner, self._opening
            conversation = await run(self.client_request.size, conversation_of, owner, opening) or conversation
        candidates = chooser.order(route.candidates, conversation) if has_alternatives else list(route.candidates)
        if holding_providers := [kept.maker for kept in self.client_request.turns[:1] if kept.there]:
            candidates.sort(
                key=lambda candidate: candidate.provider.name not in holding_providers or chooser.is_paused(candidate)
            )
        failures = await self._ask_each(route, candidates, conversation)
        retryable = [one for one in failures if one.wait is not None and one.wait <= _MAX_RETRY_WAIT]
        if retryable and failures[-1].may_try_next:
            soonest = min(retryable, key=lambda one: one.wait or 0.0)
            await asyncio.sleep(soonest.wait or 0.0)
            retry_failures = await self._ask_each(route, [soonest.candidate], conversation)
            failures = (
                failures if retry_failures and failures[-1].candidate is not soonest.candidate else retry_failures
            )
        long_route = self._long_context_route(route, failures)
        if long_route is not None:
            await self.ask(long_route)
        elif failures:
            await _pick_error(failures).send(self.client, self.outcome)

    @property
    def _opening(self) -> Mapping[str, Any]:
        """Return the members that hold the beginning of the conversation, by which the gateway recognizes it."""
        return {"input": self.client_request.turns[-1].asked} if self.client_request.turns else self.members

    async def _ask_each(self, route: ResolvedRoute, candidates: list[Candidate], conversation: bytes) -> list[Failure]:
        """Ask `candidates` in order until one answers. Return the failures if none did, else an empty list."""
        strict = route.settings.strict or self.client_request.headers.get("x-toolwire-strict") == "1"
        failures: list[Failure] = []
        rejection: GatewayError | None = None
        for candidate in candidates:
            attempt = self._attempt(route, candidate, strict=strict)
            self.outcome.provider = candidate.name
            try:
                answer = await attempt.ask(self.outcome)
            except GatewayError as problem:
                if problem.error.code not in _CANDIDATE_CODES:
                    raise
                rejection = rejection or problem
                continue
            if isinstance(answer, Failure):
                failure: Failure | None = answer
            else:
                continue_answer = (
                    partial(self.continue_answer, route, conversation, strict) if route.settings.continue_ else None
                )
                failure = await Delivery(
                    attempt,
                    answer,
                    self._response_writer(attempt),
                    self.outcome,
                    continue_answer,
                    partial(self.ask_again, attempt),
                ).deliver()
            if failure is None:
                if (
                    len(route.candidates) > 1 and not self.outcome.continuations
                ):  # `continue_answer` notes the provider otherwise
                    self.context.chooser.answered(candidate, conversation)
                return []
            failures.append(failure)
            if not failure.may_try_next:
                break
            if len(route.candidates) > 1:
                self.context.chooser.failed(candidate, failure.wait)
        if rejection is not None and not failures:
            raise rejection
        return failures

    def _attempt(self, route: ResolvedRoute, candidate: Candidate, *, strict: bool) -> Attempt:
        """Return the attempt at `candidate`. A retry gets the same one, so that nothing is translated twice."""
        key = route.name, candidate.name
        if key not in self.attempts:
            has_alternatives = len(route.candidates) > 1
            attempt = Attempt(
                self.context,
                self.client_request,
                candidate,
                self.members,
                strict=strict,
                caches=route.settings.cache == "on",
                has_alternatives=has_alternatives,
            )
            self.attempts[key] = attempt
        return self.attempts[key]

    def _response_writer(self, attempt: Attempt) -> ResponseWriter:
        """Return the writer for the answer of `attempt`: one that also stores the answer if the client wants that."""
        name = conversations.named_in(self.members) if self.stored_turns is not None else ""
        if self.stored_turns is None or not (name or should_store(self.members)):
            return self.client
        provider_name = attempt.candidate.provider.name
        recorder = ResponseRecorder(
            self.stored_turns, self.members, provider_name, passes=attempt.passes, client=self.client
        )
        recorder.stores_content = attempt.passes and attempt.has_alternatives and not name
        if name:
            recorder.add_to_conversation = partial(conversations.add, self.stored_turns, name)
            recorder.continued_conversation = (
                name,
                self.client_request.turns[0].last if self.client_request.turns else "",
            )
        return ResponseWriter(recorder.begin, recorder.send, self.client.end)

    async def continue_answer(
        self, route: ResolvedRoute, conversation: bytes, strict: bool, broken: Candidate, text: str
    ) -> Continuation | None:
        """Ask another provider to continue `text`, which `broken` broke off. Return None if none does.

        The gateway asks the other candidates in order, and `broken` last.
        """
        has_alternatives = len(route.candidates) > 1
        if has_alternatives:
            self.context.chooser.failed(broken, None)
        others = [
            candidate
            for candidate in self.context.chooser.order(route.candidates, conversation)
            if candidate.name != broken.name
        ]
        for candidate in (*others, broken):
            continuation = await self._continuation(route, candidate, text, strict)
            if continuation is not None:
                if has_alternatives:
                    self.context.chooser.answered(candidate, conversation)
                return continuation
        return None

    async def _continuation(
        self, route: ResolvedRoute, candidate: Candidate, text: str, strict: bool
    ) -> Continuation | None:
        """Ask `candidate` to continue `text`. Return None if it fails, or if the key has too little left."""
        client_request, reservation, outcome, answer = (
            self.client_request,
            None,
            RequestOutcome(provider=candidate.name),
            None,
        )
        try:
            continuation_request = ContinuationRequest.of(
                dialect(client_request.endpoint.dialect), client_request.body, client_request.full_path, text, candidate
            )
            continued_request = replace(client_request, body=continuation_request.body)
            members = members_of(continuation_request.body)
            reservation = await _reserve(self.context, continued_request, members, [candidate], requests=0)
            attempt = Attempt(
                self.context,
                continued_request,
                candidate,
                members,
                strict=strict,
                caches=route.settings.cache == "on",
                has_alternatives=False,
            )
            answer = await attempt.ask(outcome)
            if isinstance(answer, Failure):
                return None
            settle = partial(_settle, self.context, continued_request, reservation, outcome, requests=0)
            return Continuation(
                candidate, answer, outcome, settle, attempt.request_losses, continuation_request.unsent_blanks
            )
        except (GatewayError, ToolwireError):
            return None
        finally:
            if answer is None or isinstance(answer, Failure):
                self.outcome.failed_attempts = (*self.outcome.failed_attempts, *outcome.failed_attempts)
                if reservation is not None:
                    reservation.settle(None)

    async def ask_again(self, attempt: Attempt, follow_up: Encoded) -> FollowUp | Failure:
        """Send the request that continues an answer after a search of deferred tools. It is settled on its own."""
        outcome = RequestOutcome(provider=attempt.candidate.name)
        asked = replace(self.client_request, body=follow_up.json, turns=[], items={})
        reservation = await _reserve(self.context, asked, self.members, [attempt.candidate], requests=0)
        settle = partial(_settle, self.context, asked, reservation, outcome, requests=0)
        self.outcome.follow_ups = (*self.outcome.follow_ups, outcome)
        answer = None
        try:
            answer = await attempt.send(follow_up.path, asked.body, outcome)
            return answer if isinstance(answer, Failure) else FollowUp(answer, outcome, settle)
        finally:
            if answer is None or isinstance(answer, Failure):
                settle()

    def _long_context_route(self, route: ResolvedRoute, failures: list[Failure]) -> ResolvedRoute | None:
        """Return the route of `on_context` if the last failure is "too long" and the request may use that route."""
        if not (failures and failures[-1].too_long and route.settings.on_context):
            return None
        long_route = self.context.routes.find(route.settings.on_context)
        if long_route is None:
            return None
        try:
            candidates = _affordable_candidates(
                self.context,
                self.client_request,
                _candidates_supporting(self.client_request, long_route, long_route.name),
            )
        except GatewayError:  # the client then receives the error of the first route
            return None
        return ResolvedRoute(long_route.name, tuple(candidates), replace(long_route.settings, on_context=""))


def _pick_error(failures: list[Failure]) -> Failure:
    """Return the failure that helps the client most, and of equal ones the last.

    An error of the request itself comes first, then an error that is not about the gateway's own key, then one with a
    time to wait.
    """
    return max(
        reversed(failures),
        key=lambda one: (not one.may_try_next, one.status not in _PROVIDER_KEY_STATUSES, one.wait is not None),
    )


def _supports(dialect_name: str, endpoint: RouteMatch) -> bool:
    """Return True if a provider of the wire `dialect_name` supports `endpoint`.

    It does if the endpoint is of its own wire. A path that is no request to a model may also be of the same vendor's
    other wire.
    """
    vendor_api = traits_of(endpoint.dialect).other_api
    return endpoint.dialect == dialect_name or (
        endpoint.action == "other" and vendor_api != "" and vendor_api == traits_of(dialect_name).other_api
    )
