"""The way of one request to a model: which providers are asked, in which order, and who pays.

Rules of this file:
- Another provider is tried only before the first byte of an answer.
- What a request may take is reserved before anything is asked, and settled once, however it ends.
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
from toolwire.gateway.choosing import conversation_of
from toolwire.gateway.context import Answering, Incoming, Served, Tools
from toolwire.gateway.continuing import GoingOn
from toolwire.gateway.delivery import Delivery, Leg
from toolwire.gateway.errors import Refused
from toolwire.gateway.keys import Key
from toolwire.gateway.memory import MemoryPart
from toolwire.gateway.prices import Tokens, estimate, sum_of, used
from toolwire.gateway.response_store import WIRE, Keeper, is_kept, text_of
from toolwire.gateway.routes import FoundRoute, Goal, Routes
from toolwire.gateway.stored_turns import StoredTurn, Turns
from toolwire.translation.paths import Asked
from toolwire.wire.bodies import members_of

_OF_ONE = frozenset({"lossy", "previous_response_not_found"})  # another may lose nothing, or hold what one does not
_OF_OUR_KEYS = frozenset({401, 402, 403})  # what providers say of keys that are not the client's
_PATIENCE = 2.0  # seconds that a provider may ask to wait, to be asked again for one request


async def lead(tools: Tools, incoming: Incoming, client: Answering, served: Served) -> None:
    """Lead a request to its end: reserve what it may take, ask, answer, and settle what it took."""
    if tools.audit is not None and tools.audit.failed:
        raise Refused("overloaded", "calls cannot be recorded now", retry_after=5)
    members = await tools.offloader.run(len(incoming.body), members_of, incoming.body)
    name = incoming.asked.subject or text_of(members.get("model"))
    served.model = name
    if not name:
        raise Refused("invalid_request", "model must say which model is asked", code="missing_model")
    way = way_of(tools.routes, incoming.key, name)
    goals = _payable(tools, incoming, _speaking(incoming, way, name))
    longer = tools.routes.find(way.settings.on_context) if way.settings.on_context else None
    place = _place(tools, incoming)
    if place is not None:
        foreign = any(not traits_of(goal.provider.dialect).stores_responses for goal in goals)
        _check_background(incoming, members, foreign=foreign)
        incoming.turns = await _earlier(place, incoming, members, foreign=foreign)
        inputs = [members.get("input") or b"", *(kept.asked for kept in incoming.turns)]
        incoming.items = await place.items(map(bytes, inputs))
    reservation = await _reserve(tools, incoming, members, [*goals, *(longer.goals if longer is not None else ())])
    try:
        await _Asking(tools, incoming, members, client, served, place).ask(replace(way, goals=tuple(goals)))
    finally:
        _settle(tools, incoming, reservation, served)


def way_of(routes: Routes, key: Key | None, name: str) -> FoundRoute:
    """Find where a name leads, for those who may go there."""
    way = routes.find(name)
    if key is not None and not key.may_ask(name):
        message = f"this key may not ask for {name[:80]!r}; it may ask for {', '.join(key.models)}"
        raise Refused("permission", message, code="model_not_allowed")
    if way is None:
        message = f"the model {name[:80]!r} is not known here; ask for a route, or for PROVIDER/MODEL"
        raise Refused("not_found", message, code="model_not_found")
    return way


def _place(tools: Tools, incoming: Incoming) -> Turns | None:
    """Say where the turns are that a request may go on from, and where its answer is kept."""
    if not traits_of(incoming.asked.dialect).stores_responses or incoming.asked.action != "answer":
        return None
    return Turns([MemoryPart(tools.memory), *filter(None, [incoming.held])], incoming.owner)


def _check_background(incoming: Incoming, members: dict[str, Any], *, foreign: bool) -> None:
    """Refuse an answer that comes later, where nobody keeps it for the client or nobody could count it."""
    limited = incoming.key is not None and bool(incoming.key.limits)
    if bytes(members.get("background") or b"") == b"true" and (foreign or limited):
        why = "this key has limits, and such an answer is not counted" if limited else "this model has no such answers"
        message = f"background: must be false, for {why}; ask for a stream"
        raise Refused("invalid_request", message, code="unsupported_parameter")


async def _earlier(place: Turns, incoming: Incoming, members: dict[str, Any], *, foreign: bool) -> list[StoredTurn]:
    """Give what a request goes on from: with a key, nothing but what that key has asked."""
    if name := conversations.named_in(members):
        turn = await place.conversation(name)
        if turn is None and (incoming.key is not None or foreign):
            raise Refused("not_found", f"Conversation with id '{name[:80]}' not found.")
        return [] if turn is None else [turn]
    previous = text_of(members.get("previous_response_id"))
    turns = await place.earlier(previous) if previous else []
    if previous and not turns and incoming.key is not None:
        raise Refused.forgotten(WIRE)
    return turns


def _speaking(incoming: Incoming, way: FoundRoute, name: str) -> list[Goal]:
    """Give the goals that know what is asked: what no other wire has goes to a provider of its own."""
    if incoming.asked.action == "answer":
        return list(way.goals)
    goals = [goal for goal in way.goals if _knows(goal.provider.dialect, incoming.asked)]
    if not goals:
        raise Refused("not_found", f"{name[:80]!r} has no provider that knows {incoming.path[:200]}")
    return goals


def _payable(tools: Tools, incoming: Incoming, goals: list[Goal]) -> list[Goal]:
    """Give the goals that a key can pay for: under a budget, those with a price."""
    if incoming.key is None or not incoming.key.has_budget or incoming.asked.action == "count":
        return goals
    priced = [goal for goal in goals if tools.prices.of(goal) is not None]
    if not priced:
        message = f"{goals[0].name} has no price, and this key has a budget; [prices] of the settings can say it"
        raise Refused("permission", message, code="model_without_price")
    return priced


async def _reserve(
    tools: Tools, incoming: Incoming, members: dict[str, Any], goals: list[Goal], requests: int = 1
) -> Reservation | None:
    """Reserve what a request may take of its key's limits."""
    if tools.accounts is None or incoming.key is None or not incoming.key.limits:
        return None
    if incoming.asked.action == "count":
        return await tools.accounts.reserve(incoming.key, {"requests": requests})
    tokens = [estimate(incoming.size, members, goal) for goal in goals]
    cost = max(tools.prices.cost(goal, most) for goal, most in zip(goals, tokens, strict=True))
    most = max(one.input + one.output for one in tokens)
    return await tools.accounts.reserve(incoming.key, {"requests": requests, "tokens": most, "budget": cost})


def _settle(
    tools: Tools, incoming: Incoming, reservation: Reservation | None, served: Served, requests: int = 1
) -> None:
    """Settle a request with what its providers may bill; with nothing if none was asked."""
    if incoming.asked.action != "count":
        _bill(tools, incoming, served)
    if reservation is not None:
        taken = served.tokens or Tokens()
        settled = {"requests": requests, "tokens": taken.input + taken.output, "budget": served.cost}
        reservation.settle(settled if served.asked else None)
    for leg in served.legs:
        served.tokens, served.cost = sum_of(served.tokens, leg.tokens), served.cost + leg.cost


def _bill(tools: Tools, incoming: Incoming, served: Served) -> None:
    """Add up what the provider reported, or what was seen of it, and the attempts before that may be billed too."""
    goal = served.answered
    if goal is not None:
        tokens = used(served.usage, incoming.size, served.heard, whole=served.ending == "answer")
        served.tokens, served.cost = tokens, tools.prices.cost(goal, tokens)
    for lost, cost in served.before:
        served.tokens, served.cost = sum_of(served.tokens, lost), served.cost + cost


class _Asking(Struct):
    """One request, and the providers that are asked for its answer."""

    tools: Tools
    incoming: Incoming
    members: dict[str, Any]
    client: Answering
    served: Served
    place: Turns | None = None
    attempts: dict[tuple[str, str], Attempt] = {}  # by the names of route and goal

    async def ask(self, way: FoundRoute) -> None:
        """Ask the goals of a route one after the other, until one answers or none is left."""
        choosing, several = self.tools.choosing, len(way.goals) > 1
        conversation = self.incoming.identity.encode()
        if several:
            run, owner, begun = self.tools.offloader.run, self.incoming.owner, self._begun
            conversation = await run(self.incoming.size, conversation_of, owner, begun) or conversation
        goals = choosing.order(way.goals, conversation) if several else list(way.goals)
        if holders := [kept.maker for kept in self.incoming.turns[:1] if kept.there]:
            goals.sort(key=lambda goal: goal.provider.name not in holders or choosing.is_paused(goal))
        failures = await self._ask_each(way, goals, conversation)
        soon = [one for one in failures if one.wait is not None and one.wait <= _PATIENCE]
        if soon and failures[-1].may_pass:
            first = min(soon, key=lambda one: one.wait or 0.0)
            await asyncio.sleep(first.wait or 0.0)
            again = await self._ask_each(way, [first.goal], conversation)
            failures = failures if again and failures[-1].goal is not first.goal else again
        longer = self._longer(way, failures)
        if longer is not None:
            await self.ask(longer)
        elif failures:
            await _told_of(failures).tell(self.client, self.served)

    @property
    def _begun(self) -> Mapping[str, Any]:
        """How the conversation began, by which it is known."""
        return {"input": self.incoming.turns[-1].asked} if self.incoming.turns else self.members

    async def _ask_each(self, way: FoundRoute, goals: list[Goal], conversation: bytes) -> list[Failure]:
        """Ask until one answers; give what went wrong where none did."""
        strict = way.settings.strict or self.incoming.headers.get("x-toolwire-strict") == "1"
        failures: list[Failure] = []
        refused: Refused | None = None
        for goal in goals:
            attempt = self._attempt(way, goal, strict=strict)
            self.served.goal = goal.name
            try:
                answer = await attempt.ask(self.served)
            except Refused as problem:
                if problem.error.code not in _OF_ONE:
                    raise
                refused = refused or problem
                continue
            if isinstance(answer, Failure):
                failure: Failure | None = answer
            else:
                goes_on = partial(self.go_on, way, conversation, strict) if way.settings.continue_ else None
                failure = await Delivery(attempt, answer, self._keeping(attempt), self.served, goes_on).deliver()
            if failure is None:
                if len(way.goals) > 1 and not self.served.legs:  # else who went on is noted
                    self.tools.choosing.answered(goal, conversation)
                return []
            failures.append(failure)
            if not failure.may_pass:
                break
            if len(way.goals) > 1:
                self.tools.choosing.failed(goal, failure.wait)
        if refused is not None and not failures:
            raise refused
        return failures

    def _attempt(self, way: FoundRoute, goal: Goal, *, strict: bool) -> Attempt:
        """Return the attempt at a goal: the first one, if it is asked again, so that nothing is translated twice."""
        name = way.name, goal.name
        if name not in self.attempts:
            several = len(way.goals) > 1
            made = Attempt(self.tools, self.incoming, goal, self.members, strict=strict, several=several)
            self.attempts[name] = made
        return self.attempts[name]

    def _keeping(self, attempt: Attempt) -> Answering:
        """Keep an answer on its way to the client, if it wants that."""
        name = conversations.named_in(self.members) if self.place is not None else ""
        if self.place is None or not (name or is_kept(self.members)):
            return self.client
        maker = attempt.goal.provider.name
        keeper = Keeper(self.place, self.members, maker, passes=attempt.passes, client=self.client)
        keeper.others = attempt.passes and attempt.several and not name
        if name:
            keeper.adds = partial(conversations.add, self.place, name)
            keeper.continues = name, self.incoming.turns[0].last if self.incoming.turns else ""
        return Answering(keeper.begin, keeper.send, self.client.end)

    async def go_on(self, way: FoundRoute, conversation: bytes, strict: bool, broken: Goal, text: str) -> Leg | None:
        """Ask who may go on with a text that broke off: the next providers, and at last the same one again."""
        several = len(way.goals) > 1
        if several:
            self.tools.choosing.failed(broken, None)
        others = [goal for goal in self.tools.choosing.order(way.goals, conversation) if goal.name != broken.name]
        for goal in (*others, broken):
            leg = await self._leg(goal, text, strict)
            if leg is not None:
                if several:
                    self.tools.choosing.answered(goal, conversation)
                return leg
        return None

    async def _leg(self, goal: Goal, text: str, strict: bool) -> Leg | None:
        """Ask one provider to go on; None where it does not, or the key has nothing left for it."""
        incoming, reservation, served, answer = self.incoming, None, Served(goal=goal.name), None
        try:
            asked = GoingOn.of(dialect(incoming.asked.dialect), incoming.body, incoming.full_path, text, goal)
            again = replace(incoming, body=asked.body)
            members = members_of(asked.body)
            reservation = await _reserve(self.tools, again, members, [goal], requests=0)
            attempt = Attempt(self.tools, again, goal, members, strict=strict, several=False)
            answer = await attempt.ask(served)
            if isinstance(answer, Failure):
                return None
            settle = partial(_settle, self.tools, again, reservation, served, requests=0)
            return Leg(goal, answer, served, settle, attempt.request_losses, asked.left)
        except (Refused, ToolwireError):
            return None
        finally:
            if answer is None or isinstance(answer, Failure):
                self.served.before = (*self.served.before, *served.before)
                if reservation is not None:
                    reservation.settle(None)

    def _longer(self, way: FoundRoute, failures: list[Failure]) -> FoundRoute | None:
        """Give the route for what is too long for this one."""
        if not (failures and failures[-1].too_long and way.settings.on_context):
            return None
        longer = self.tools.routes.find(way.settings.on_context)
        if longer is None:
            return None
        try:
            goals = _payable(self.tools, self.incoming, _speaking(self.incoming, longer, longer.name))
        except Refused:  # it is no way for this request, which is told that it is too long
            return None
        return FoundRoute(longer.name, tuple(goals), replace(longer.settings, on_context=""))


def _told_of(failures: list[Failure]) -> Failure:
    """Choose the error that the client can do most about, the last of its kind."""
    return max(
        reversed(failures), key=lambda one: (not one.may_pass, one.status not in _OF_OUR_KEYS, one.wait is not None)
    )


def _knows(there: str, asked: Asked) -> bool:
    """Whether a provider knows what is no request to a model: it is of the wire, or of the same vendor."""
    api = traits_of(asked.dialect).other_api
    return asked.dialect == there or (asked.action == "other" and api != "" and api == traits_of(there).other_api)
