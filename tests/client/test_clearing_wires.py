"""Histories whose old results are cleared are taken by every wire, as strictly as the vendors judge."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from anthropic.types import beta
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.long_histories import ALWAYS, TOOLS, contents, gives, turns
from tests.oracles import _strict, judge
from tests.testing.sdks import MODELS
from toolwire import (
    Context,
    Message,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolwire.client.clearing import (
    NOTHING,
    Clearance,
    Clearing,
    ConversationClearing,
    clear,
    clear_messages,
    native_clearing,
)
from toolwire.dialects import dialect
from toolwire.testing.rules import WireRequest
from toolwire.testing.service import Service
from toolwire.testing.wires import refusal
from toolwire.types import Opaque

HEADERS = {"anthropic": {"x-api-key": "k", "anthropic-version": "2026-10-21"}}


@st.composite
def histories(draw: st.DrawFn) -> list[list[Message]]:
    """Draw the turns of a history: each has some calls and their results."""
    told = []
    for turn in range(draw(st.integers(1, 12))):
        names = draw(st.lists(st.sampled_from(["read", "write", "look"]), min_size=1, max_size=3))
        calls = [ToolCall(f"c{turn}x{place}", name, {}) for place, name in enumerate(names)]
        words = [Text("I look.")] if draw(st.booleans()) else []
        results = []
        for call in calls:
            size = draw(st.sampled_from([0, 20, 300, 3000]))
            content: Any = "y" * size
            if draw(st.booleans()) and size:
                content = [Text(content)]
            name = call.name if draw(st.booleans()) else None
            results.append(Message("tool", [ToolResult(call.id, name, content, draw(st.booleans()))]))
        told.append([Message("assistant", [*words, *calls]), *results])
        if draw(st.integers(0, 4)) == 0:
            told.append([Message("assistant", "So far."), Message("Go on.")])
    return told


policies = st.builds(
    Clearing,
    at=st.sampled_from([2.0, 500.0, 1500.0]),
    keep=st.integers(0, 4),
    at_least=st.sampled_from([0.0, 0.5, 400.0]),
    exclude=st.sampled_from([(), ("look",), ("look", "read")]),
)


def protected(history: list[Message], policy: Clearing) -> list[bool]:
    """Say of each result whether it has to stay."""
    names: dict[Any, str] = {}
    found: list[tuple[int, Any]] = []
    for place, message in enumerate(history):
        for part in message.parts:
            if type(part) is ToolCall:
                names[part.id] = part.name
            elif type(part) is ToolResult:
                found.append((place, part))
    last = max((place for place, message in enumerate(history) if message.role == "assistant"), default=-1)
    return [
        place > last
        or number >= len(found) - policy.keep
        or part.is_error
        or names[part.tool_call_id] in policy.exclude
        for number, (place, part) in enumerate(found)
    ]


def length(content: Any) -> int:
    return len(content) if isinstance(content, str) else sum(len(part.text) for part in content)


def bare(messages: Any) -> list[Any]:
    """Give messages without what their results say."""
    return [
        replace(
            message,
            content=[replace(part, content="") if type(part) is ToolResult else part for part in message.parts],
        )
        for message in messages
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(), policies)
def test_a_view_is_legal_stable_and_keeps_what_it_must(
    tally: Counter[str], told: list[list[Message]], policy: Clearing
) -> None:
    history, cut, before = [Message("Go.")], NOTHING, None
    for turn in told:
        history = [*history, *turn]
        request = Request(context=Context(messages=history, tools=TOOLS), model="m")
        once, after = clear(request, policy, None, cut)
        assert clear(request, policy, None, cut) == (once, after)
        view = list(once.messages)
        assert bare(view) == bare(history)
        given, kept = contents(history), contents(view)
        for must, whole, said in zip(protected(history, policy), given, kept, strict=True):
            assert said == whole or (not must and len(said) < length(whole))
        if before is not None and after == replace(cut, losses=after.losses):
            assert view[: len(before)] == before
        cut, before = after, view
        tally["histories cleared between turns"] += 1
    for name, model in MODELS.items():
        body = dialect(name).encode_request(replace(once, model=model)).body
        assert refusal(WireRequest(name, body, model, HEADERS.get(name, {}))) is None
        tally["cleared requests judged as the vendors do"] += 1


class Stage:
    """A conversation of many turns with the simulated model of one wire, cleared before each request."""

    def __init__(self, name: str, policy: Clearing) -> None:
        self.name = name
        self.history = [Message("Go.")]
        self.sweep = ConversationClearing(policy)
        self.bodies: list[Any] = []
        self.cuts: list[Clearance] = []

    def lead(self, count: int) -> str | None:
        """Lead it for so many turns; gives the words of a refusal."""
        script = [[Thinking("Hm."), ToolCall(None, "read", {"n": n})] for n in range(count)]
        service = Service(script)
        for _ in range(count):
            refused = self._ask(service)
            if refused is not None:
                return refused
        return None

    def _ask(self, service: Service) -> str | None:
        context = Context(messages=self.history, tools=TOOLS)
        request = Request(context=context, model=MODELS[self.name])
        request = self.sweep.clear_request(request)
        self.cuts.append(self.sweep.clearance)
        encoded = dialect(self.name).encode_request(request)
        headers = {"authorization": "Bearer k", "x-goog-api-key": "k", **HEADERS.get(self.name, {})}
        received = service.receive("POST", encoded.path, headers)
        reply = asyncio.run(service.answer(received, encoded.json))
        if received.refused is not None:
            return received.refused.message
        response: Response = dialect(self.name).decode_response(reply.body)
        self.sweep.note_usage(response.usage)
        self.bodies.append(encoded.body)
        [call] = response.tool_calls
        self.history += [response.message, gives(call.id or "", name=call.name)]
        return None


KEYS = {"gemini": "contents", "openai-responses": "input"}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_a_long_conversation_is_taken_by_every_strict_server(name: str) -> None:
    """The seals of thoughts are checked as well, on a model that binds them to all before."""
    stage = Stage(name, Clearing(at=4000, at_least=0.3))
    assert stage.lead(30) is None
    key = KEYS.get(name, "messages")
    moved = sum(one.results != other.results for one, other in zip(stage.cuts, stage.cuts[1:], strict=False))
    assert 2 <= moved <= 8
    for place in range(1, 30):
        if stage.cuts[place].results == stage.cuts[place - 1].results:
            earlier, later = stage.bodies[place - 1][key], stage.bodies[place][key]
            assert later[: len(earlier)] == earlier


def test_thoughts_that_are_bound_must_go() -> None:  # a control
    stage = Stage("anthropic", Clearing(at=10**9))
    assert stage.lead(8) is None
    kept, _ = clear_messages(stage.history, ALWAYS, 10**6, None, bound=False)
    left, cut = clear_messages(stage.history, ALWAYS, 10**6, None)
    for messages, words in ((kept, "bound to a different conversation"), (left, None)):
        request = Request(context=Context(messages=messages, tools=TOOLS), model=MODELS["anthropic"])
        body = dialect("anthropic").encode_request(request).body
        refused = refusal(WireRequest("anthropic", body, MODELS["anthropic"], HEADERS["anthropic"]))
        assert (refused is None) == (words is None)
        assert refused is None or words is None or words in refused.message
    assert Counter(loss.concept for loss in cut.losses) == {"old_result": 5, "thinking": 7}


def test_a_message_of_nothing_but_a_bound_thought_is_not_sent() -> None:
    thought = Thinking("Hm.", "s", opaque=Opaque("anthropic", {}))
    history = [*turns(5), Message("assistant", [thought]), Message("Well?")]
    view, _ = clear_messages(history, ALWAYS, 10**6, None)
    assert len(view) == len(history) - 1
    foreign = replace(thought, opaque=Opaque("gemini", {}))
    history[-2] = Message("assistant", [foreign])
    assert list(clear_messages(history, ALWAYS, 10**6, None)[0][-2:]) == history[-2:]


# By the provider's own means.


@pytest.mark.row("R001-20")
def test_messages_can_clear_by_itself() -> None:
    policy = Clearing(at=0.5, keep=2, at_least=5000, exclude=("look",))
    told = native_clearing(policy, "anthropic", 200_000)
    assert told is not None
    [edit] = told.body["context_management"]["edits"]
    assert edit == {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 100_000},
        "keep": {"type": "tool_uses", "value": 2},
        "clear_at_least": {"type": "input_tokens", "value": 5000},
        "exclude_tools": ["look"],
    }
    complain = judge(_strict, beta.BetaContextManagementConfigParam)
    assert complain(told.body["context_management"]) is None
    assert complain({"edits": [{**edit, "keep": 2}]}) is not None


def test_the_strict_server_takes_it_with_its_header_only() -> None:
    told = native_clearing(Clearing(at=1000), "anthropic")
    assert told is not None
    request = Request(context=Context(messages=turns(2), tools=TOOLS), model=MODELS["anthropic"])
    body = {**told.body, **dialect("anthropic").encode_request(request).body}
    for headers, taken in ((told.merge_headers(HEADERS["anthropic"]), True), (HEADERS["anthropic"], False)):
        assert (refusal(WireRequest("anthropic", body, MODELS["anthropic"], headers)) is None) == taken


def test_a_beta_that_is_asked_for_already_stays() -> None:
    told = native_clearing(Clearing(at=1000), "anthropic")
    assert told is not None
    name = "context-management-2025-06-27"
    assert told.merge_headers({"Anthropic-Beta": "a"}) == {"Anthropic-Beta": f"a,{name}"}
    assert told.merge_headers({"x": "y"}) == {"x": "y", "anthropic-beta": name}


@pytest.mark.parametrize(
    ("policy", "name", "window"),
    [
        *((Clearing(at=1000), name, None) for name in MODELS if name != "anthropic"),
        (Clearing(), "anthropic", None),
        (Clearing(at=1000, native=False), "anthropic", None),
    ],
)
def test_elsewhere_it_is_cleared_here(policy: Clearing, name: str, window: int | None) -> None:
    assert native_clearing(policy, name, window) is None
