"""Repair: every call gets one result, right after it, in the order of the calls; what that takes is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire import Image, Loss, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from toolwire.encoding.repair import NO_RESULT, repair

Said = tuple[str, str, str, str]


def call(call_id: str | None, name: str = "look") -> ToolCall:
    return ToolCall(call_id, name, {"q": call_id})


def asks(*ids: str | None, words: str = "") -> Message:
    return Message("assistant", [*([Text(words)] if words else []), *(call(call_id) for call_id in ids)])


def answers(call_id: str | None, text: str = "ok", name: str | None = "look") -> Message:
    return Message("tool", [ToolResult(call_id, name, text)])


def none_for(call_id: str | None) -> Message:
    return Message("tool", [ToolResult(call_id, "look", NO_RESULT, is_error=True)])


def said(losses: list[Loss]) -> list[Said]:
    return [(loss.path, loss.concept, loss.action, loss.severity) for loss in losses]


HELLO, BYE, DONE = Message("Hello"), Message("Bye"), Message("assistant", "Done.")

LEGAL: dict[str, list[Message]] = {
    "nothing": [],
    "words": [Message("system", "s"), HELLO, DONE, Message("user", [Text("a"), Image("u")])],
    "a call": [HELLO, asks("a"), answers("a"), DONE],
    "a call at the end": [HELLO, asks("a"), answers("a")],
    "calls": [asks("a", "b", words="I look."), answers("a"), answers("b"), HELLO],
    "results in one message": [
        asks("a", "b"),
        Message("tool", [ToolResult("a", None, "1"), ToolResult("b", None, "2")]),
    ],
    "results in the user's message": [
        asks("a", "b"),
        Message("user", [ToolResult("a", None, "1"), ToolResult("b", None, "2"), Text("Go on.")]),
    ],
    "the same id in another turn": [asks("a"), answers("a"), asks("a"), answers("a", "again")],
    "thinking": [
        Message("assistant", [Thinking("Hm."), Text("I look."), call("a"), Text("So.")]),
        answers("a"),
    ],
    "what only a wire knows": [
        Message("user", [Opaque("anthropic", {"type": "x"})]),
        asks("a"),
        answers("a"),
        Message("assistant", []),
    ],
}


@pytest.mark.parametrize("messages", LEGAL.values(), ids=LEGAL)
def test_a_legal_history_comes_back_as_itself(messages: list[Message]) -> None:
    losses: list[Loss] = []
    assert repair(messages, losses) is messages
    assert losses == []
    frozen = tuple(messages)
    assert repair(frozen) is frozen


MOVED = ("order_of_results", "moved", "minor")
MISSING = ("missing_result", "repaired", "semantic")
ORPHAN = ("orphan_result", "repaired", "semantic")

REPAIRED: dict[str, tuple[list[Message], list[Message], list[Said]]] = {
    "a missing result": (
        [asks("a"), HELLO],
        [asks("a"), none_for("a"), HELLO],
        [("messages[0]", *MISSING)],
    ),
    "a missing result at the end": (
        [HELLO, asks("a")],
        [HELLO, asks("a"), none_for("a")],
        [("messages[1]", *MISSING)],
    ),
    "one missing result of three": (
        [asks("a", "b", "c"), answers("a"), answers("c"), HELLO],
        [asks("a", "b", "c"), answers("a"), none_for("b"), answers("c"), HELLO],
        [("messages[0]", *MISSING)],
    ),
    "an interrupted call": (
        [asks("a"), asks("b"), answers("b")],
        [asks("a"), none_for("a"), asks("b"), answers("b")],
        [("messages[0]", *MISSING)],
    ),
    "an orphan": (
        [HELLO, answers("x", "lost"), DONE],
        [HELLO, Message("user", [Text("[result of look] lost")]), DONE],
        [("messages[1]", *ORPHAN)],
    ),
    "an orphan without a name": (
        [answers("x", "lost", None)],
        [Message("user", [Text("[result of a tool] lost")])],
        [("messages[0]", *ORPHAN)],
    ),
    "an orphan of parts": (
        [Message("tool", [ToolResult("x", "look", [Text("lost"), Image("u")])])],
        [Message("user", [Text("[result of look]"), Text("lost"), Image("u")])],
        [("messages[0]", *ORPHAN)],
    ),
    "an orphan in the user's message": (
        [Message("user", [ToolResult("x", "look", "lost"), Text("Hi")])],
        [Message("user", [Text("[result of look] lost"), Text("Hi")])],
        [("messages[0]", *ORPHAN)],
    ),
    "a result before its call": (
        [answers("a", "early"), asks("a")],
        [Message("user", [Text("[result of look] early")]), asks("a"), none_for("a")],
        [("messages[0]", *ORPHAN), ("messages[1]", *MISSING)],
    ),
    "a second result": (
        [asks("a"), answers("a", "one"), answers("a", "two")],
        [asks("a"), answers("a", "one"), Message("user", [Text("[result of look] two")])],
        [("messages[2]", *ORPHAN)],
    ),
    "a late result": (
        [asks("a"), HELLO, answers("a"), DONE],
        [asks("a"), answers("a"), HELLO, DONE],
        [("messages[2]", *MOVED)],
    ),
    "a result after another turn": (
        [asks("a"), DONE, HELLO, answers("a")],
        [asks("a"), answers("a"), DONE, HELLO],
        [("messages[3]", *MOVED)],
    ),
    "a result after an empty turn": (
        [asks("a"), Message("assistant", []), answers("a")],
        [asks("a"), answers("a"), Message("assistant", [])],
        [("messages[2]", *MOVED)],
    ),
    "results in reverse": (
        [asks("a", "b"), answers("b", "2"), answers("a", "1")],
        [asks("a", "b"), answers("a", "1"), answers("b", "2")],
        [("messages[1]", *MOVED)],
    ),
    "results in reverse in one message": (
        [asks("a", "b"), Message("tool", [ToolResult("b", "look", "2"), ToolResult("a", "look", "1")])],
        [asks("a", "b"), answers("a", "1"), answers("b", "2")],
        [("messages[1]", *MOVED)],
    ),
    "words before a result": (
        [asks("a"), Message("user", [Text("Hi"), ToolResult("a", None, "ok")])],
        [asks("a"), answers("a"), Message("user", [Text("Hi")])],
        [("messages[1]", *MOVED)],
    ),
    "one id twice in a turn": (
        [asks("a", "a"), answers("a", "1"), answers("a", "2")],
        [asks("a", "a"), answers("a", "1"), answers("a", "2")],
        [],
    ),
    "one id twice in a turn, one result": (
        [asks("a", "a"), answers("a", "1")],
        [asks("a", "a"), answers("a", "1"), none_for("a")],
        [("messages[0]", *MISSING)],
    ),
    "results without ids": (
        [
            Message("assistant", [call("a", "look"), call("b", "find"), call("c", "look")]),
            Message("tool", [ToolResult(None, "find", "2"), ToolResult(None, "look", "1")]),
            Message("tool", [ToolResult(None, None, "3")]),
        ],
        [
            Message("assistant", [call("a", "look"), call("b", "find"), call("c", "look")]),
            answers("a", "1", "look"),
            answers("b", "2", "find"),
            answers("c", "3", "look"),
        ],
        [("messages[1]", *MOVED)],
    ),
    "a result of another name without an id": (
        [asks("a"), answers(None, "x", "other")],
        [asks("a"), none_for("a"), Message("user", [Text("[result of other] x")])],
        [("messages[0]", *MISSING), ("messages[1]", *ORPHAN)],
    ),
    "a call without an id": (
        [asks(None), answers(None)],
        [asks(None), answers(None)],
        [],
    ),
    "a result in the answer": (
        [Message("assistant", [call("a"), ToolResult("a", "look", "ok"), Text("So.")])],
        [Message("assistant", [call("a"), Text("So.")]), answers("a")],
        [("messages[0].role", "tool_result", "moved", "minor")],
    ),
    "a result in a system message": (
        [asks("a"), Message("system", [ToolResult("a", "look", "ok")])],
        [asks("a"), answers("a")],
        [("messages[1].role", "tool_result", "moved", "minor")],
    ),
}


@pytest.mark.parametrize(("before", "after", "lost"), REPAIRED.values(), ids=REPAIRED)
def test_a_history_is_repaired(before: list[Message], after: list[Message], lost: list[Said]) -> None:
    given, losses = list(before), list[Loss]()
    assert list(repair(before, losses)) == after
    assert sorted(said(losses)) == sorted(lost)
    assert before == given
    again: list[Loss] = []
    assert list(repair(after, again)) == after
    assert again == []


def test_a_loss_says_what_and_which() -> None:
    losses: list[Loss] = []
    repair([asks("a"), answers("x")], losses)
    assert sorted(loss.detail for loss in losses) == [
        "no call 'x' came before it: it is sent as text of the user",
        "the call 'a' has no result: one with an error is added",
    ]


def test_repair_needs_no_list_of_losses() -> None:
    assert list(repair([asks("a")])) == [asks("a"), none_for("a")]


def test_a_result_keeps_what_its_message_had() -> None:
    mark = Opaque("openai-chat", {"note": 1})
    late = Message("tool", [ToolResult("a", None, "ok")], opaque=mark)
    assert repair([asks("a"), HELLO, late])[1] == Message("tool", [ToolResult("a", "look", "ok")], opaque=mark)


ids = st.sampled_from(["a", "b", "c", None])
parts: dict[str, Any] = {
    "calls": st.lists(ids, max_size=3).map(lambda given: asks(*given)),
    "result": st.builds(lambda given: Message("tool", [ToolResult(given, "look", "ok")]), ids),
    "results": st.lists(ids, min_size=1, max_size=3).map(
        lambda given: Message("user", [*(ToolResult(one, None, "ok") for one in given), Text("x")])
    ),
    "words": st.sampled_from([HELLO, DONE, Message("developer", "d")]),
}


@given(messages=st.lists(st.one_of(*parts.values()), max_size=9))
def test_whatever_is_repaired_is_legal_and_stays_so(messages: list[Message]) -> None:
    losses: list[Loss] = []
    repaired = list(repair(messages, losses))
    assert calls_of(repaired) == calls_of(messages)
    assert all_answered(repaired)
    again: list[Loss] = []
    assert list(repair(repaired, again)) == repaired
    assert again == []
    assert (repaired == messages) or losses or has_odd_ids(messages)


def calls_of(messages: list[Message]) -> list[ToolCall]:
    return [part for message in messages for part in message.tool_calls]


def all_answered(messages: list[Message]) -> bool:
    """Whether each call's result follows it, in the order of the calls, with nothing between."""
    waiting: list[str | None] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult):
                if not waiting or waiting.pop(0) != part.tool_call_id:
                    return False
            elif waiting and message.role != "assistant":
                return False
            elif isinstance(part, ToolCall):
                waiting.append(part.id)
    return not waiting


def has_odd_ids(messages: list[Message]) -> bool:
    """Whether results had to be given the id of the call that they answer, or were told apart from words."""
    return any(
        isinstance(part, ToolResult) and (part.tool_call_id is None or message.role == "user")
        for message in messages
        for part in message.parts
    )
