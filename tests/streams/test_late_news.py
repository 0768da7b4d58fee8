"""What a server says of an answer after its first chunk: each thing is written or reported, and reported once."""

from typing import Any

import pytest

from toolwire import Response, Usage, dialect
from toolwire.types import Choice, ChoiceEnd, Message, MessageDelta, MessageEnd, MessageStart, Opaque

# Wires that write the shell of an answer in their first frame.
FIRST = ("anthropic", "openai-chat")
END = ChoiceEnd(0, Choice(Message("assistant", "Hi"), "stop"))


def shell(extra: dict[str, Any], **fields: Any) -> Response:
    """Return the shell of an answer that another wire has sent."""
    return Response(model="m", id="r", opaque=Opaque("gemini", extra), **fields)


# The shells in their order, and the paths of the losses.
OPAQUE: list[tuple[list[Response], set[str]]] = [
    ([shell({}), shell({})], set()),
    ([shell({"a": 1}), shell({"a": 1})], {"opaque.a"}),
    ([shell({}), shell({"a": 1})], {"opaque.a"}),
    ([shell({"a": 1}), shell({"a": 2})], {"opaque.a"}),
    ([shell({"a": 1}), shell({"a": 1, "b": 2})], {"opaque.a", "opaque.b"}),
    ([shell({"a": 1}), shell({"b": 2}), shell({"c": 3})], {"opaque.a", "opaque.b", "opaque.c"}),
    ([shell({"a": 1}), shell({})], {"opaque.a"}),
    ([shell({}), shell({}, provider_state={"s": 1})], {"provider_state.s"}),
    ([shell({}), shell({"a": 1}, provider_state={"s": 1})], {"opaque.a", "provider_state.s"}),
    ([shell({}), shell({}, usage=Usage(1, 2))], set()),
]
# Fields that Messages does not have.
FIELDS: list[tuple[list[Response], set[str]]] = [
    ([shell({}), shell({}, created=5.0)], {"created"}),
    ([shell({}, created=5.0), shell({}, created=5.0)], {"created"}),
    ([shell({}), shell({}, service_tier="flex")], {"service_tier"}),
    ([shell({"a": 1}), shell({"a": 1, "b": 2}, service_tier="flex")], {"opaque.a", "opaque.b", "service_tier"}),
]
ROWS = [*((wire, *row) for wire in FIRST for row in OPAQUE), *(("anthropic", *row) for row in FIELDS)]


@pytest.mark.parametrize(("wire", "shells", "paths"), ROWS)
def test_what_comes_late_is_reported_once(wire: str, shells: list[Response], paths: set[str]) -> None:
    encoder = dialect(wire).encode_stream()
    encoder.feed(MessageStart(shells[0]))
    for later in (*shells[1:], *shells):
        encoder.feed(MessageDelta(later))
    encoder.feed(END)
    encoder.feed(MessageEnd())
    assert sorted(loss.path for loss in encoder.losses) == sorted(paths)


@pytest.mark.parametrize("wire", FIRST)
def test_a_server_that_adds_to_each_chunk_costs_no_more_for_the_last_one(wire: str) -> None:
    encoder = dialect(wire).encode_stream()
    encoder.feed(MessageStart(shell({})))
    counts = []
    for number in range(1, 40):
        before = len(encoder.ledger.losses)
        encoder.feed(MessageDelta(shell({f"k{one}": one for one in range(number)})))
        counts.append(len(encoder.ledger.losses) - before)
    assert counts == [1] * 39
    assert len(encoder.losses) == 39
